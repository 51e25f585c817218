"""A call of an operator as a target of `ascendsim check`: what judging one gives, and its keys from --set."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascendsim.errors import Finding, InputError


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A judged call: findings, what the operator makes of it in words, and in numbers."""

    findings: tuple[Finding, ...]
    lines: tuple[str, ...]
    facts: Mapping[str, Any]


def options_of(file: Path, table: str, example: str, changes: Mapping[str, Any], soc: str | None) -> dict[str, Any]:
    """Return the options of a command that answers for a call.

    Args:
        file: the file of the call.
        table: under which the call stands in it.
        example: a key of that table.
        changes: of keys, such as {"fag.sparse_mode": 3}.
        soc: the part; None for the file's.

    Raises:
        InputError: a key that lies elsewhere, or inside one that has a plain value by then.
    """
    options: dict[str, Any] = {} if soc is None else {"soc": soc}
    for key, value in changes.items():
        first, *parts = key.split(".")
        if first != table or len(parts) not in (1, 2):
            raise InputError(
                f"{file}: --set {key}: unknown key; keys of a call begin with {table}, such as {table}.{example}"
            )
        if len(parts) == 1:
            options[parts[0]] = value
            continue
        inner = options.setdefault(parts[0], {})
        if not isinstance(inner, dict):
            raise InputError(f"{file}: --set {key}: {table}.{parts[0]} is set to {inner}, too; give one of the two")
        inner[parts[1]] = value
    return options
