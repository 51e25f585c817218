"""The rules by their codes, and the choice of findings by code: `--select`, `--ignore`."""

import difflib
from collections.abc import Mapping

from ascendsim.catalogue import entries
from ascendsim.errors import InputError, Rule

_NEAREST = 3
"""Codes that are told instead of an unknown one."""


def rules_by_code() -> dict[str, Rule]:
    """Return the rule of each code."""
    return {code: entry.rule for code, entry in entries().items()}


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
