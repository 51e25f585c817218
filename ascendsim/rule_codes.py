"""The rules by their codes, and the choice of findings by code: `--select`, `--ignore`."""

import difflib
import sys
from collections.abc import Iterable, Iterator, Mapping

from ascendsim.errors import InputError, Rule

_NEAREST = 3
"""Codes that are told instead of an unknown one."""


def rules_by_code() -> dict[str, Rule]:
    """Return one rule for each code, of all modules of the package that are loaded; a variant only if alone."""
    found: dict[str, Rule] = {}
    for name in sorted(module for module in sys.modules if module.startswith("ascendsim.")):
        for rule in _rules_in(vars(sys.modules[name]).values()):
            known = found.get(rule.code)
            if known is None or (known.is_variant and not rule.is_variant):
                found[rule.code] = rule
    return dict(sorted(found.items()))


def _rules_in(values: Iterable[object]) -> Iterator[Rule]:
    """Rules among values, and those that tables and tuples of a module hold."""
    for value in values:
        if isinstance(value, Rule):
            yield value
        elif type(value) in (tuple, list):
            yield from (item for item in value if isinstance(item, Rule))  # type: ignore[attr-defined]
        elif type(value) is dict:
            yield from (item for item in value.values() if isinstance(item, Rule))


def parse_codes(option: str, text: str, rules: Mapping[str, Rule]) -> tuple[str, ...]:
    """Turn "E-RACE,W-" into codes and beginnings of codes.

    Raises:
        InputError: nothing begins like that; the text names the nearest codes.
    """
    codes = tuple(part.strip().upper() for part in text.split(",") if part.strip())
    if not codes:
        raise InputError(f"{option} {text!r}: want codes or their beginnings joined by commas, such as E-CAP,W-")
    for code in codes:
        if not any(known.startswith(code) for known in rules):
            near = ", ".join(difflib.get_close_matches(code, rules, n=_NEAREST, cutoff=0.0))
            raise InputError(f"{option} {code}: no code begins like that; the nearest are {near}")
    return codes


def is_chosen(code: str, select: tuple[str, ...], ignore: tuple[str, ...]) -> bool:
    """Whether a code is selected, as all are if none is named, and not ignored."""
    return (not select or code.startswith(select)) and not (ignore and code.startswith(ignore))
