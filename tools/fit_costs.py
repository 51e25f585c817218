"""Fit the coefficients of ascendsim/devices/arch*.toml to the measurements that the package ships, and write them.

python tools/fit_costs.py            writes what changes
python tools/fit_costs.py --check    writes nothing, names what would change, and ends with 1 if anything would

What is fitted and what is not, and why: docs/refitting.md.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import BaseModel

from ascendsim.fidelity.crossing import KEPT, points_of
from ascendsim.fidelity.fit import Point, fitted, mean_error
from ascendsim.fidelity.measured import Measured, read_instructions
from ascendsim.fidelity.quick import Path as Place
from ascendsim.fidelity.quick import cost_at, with_cost

DEVICES = Path(__file__).resolve().parents[1] / "ascendsim" / "devices"

Key = str | int
"""A key of a TOML table or a place in an array."""


@dataclass(frozen=True, slots=True)
class Change:
    """A number that a fit changes.

    Attributes:
        arch: architecture, which names the device file.
        keys: where the number stands in the file.
        before, after: the number.
        why: the measurements and what the change does to their mean error, in words.
    """

    arch: int
    keys: tuple[Key, ...]
    before: float
    after: float
    why: str

    def __str__(self) -> str:
        place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.keys).lstrip(".")
        return f"arch{self.arch}.toml: {place} {self.before:g} -> {self.after:g} ({self.why})"


def points_by_place(rows: Iterable[Measured]) -> dict[tuple[int, Place], list[Point]]:
    """Return the measurements that coefficients are fitted to, by architecture and place."""
    found: dict[tuple[int, Place], list[Point]] = defaultdict(list)
    for places in points_of(rows).values():
        for place, points in places.items():
            found[points[0].course.device.npu_arch, place] += points
    return found


def changes(points: Mapping[tuple[int, Place], Sequence[Point]]) -> Iterator[Change]:
    """Yield what fits change."""
    for (arch, place), own in points.items():
        device = own[0].course.device
        before, after = cost_at(device, place), fitted(device, place, own)
        errors = [mean_error(own, with_cost(device, place, cost)) for cost in (before, after)]
        why = f"{len(own)} measurements, mean error {errors[0]:.2%} -> {errors[1]:.2%}"
        yield from (Change(arch, (*place, *keys), old, new, why) for keys, old, new in _differing(before, after))


def _differing(before: BaseModel, after: BaseModel) -> Iterator[tuple[tuple[Key, ...], float, float]]:
    new = dict(_numbers(after.model_dump()))
    return ((keys, old, new[keys]) for keys, old in _numbers(before.model_dump()) if old != new[keys])


def _numbers(values: Any, keys: tuple[Key, ...] = ()) -> Iterator[tuple[tuple[Key, ...], float]]:
    """Yield each number of nested tables and arrays with its keys."""
    if isinstance(values, dict | list | tuple):
        for key, value in values.items() if isinstance(values, dict) else enumerate(values):
            yield from _numbers(value, (*keys, key))
    elif isinstance(values, int | float) and not isinstance(values, bool):
        yield keys, values


def with_changes(text: str, found: Iterable[Change]) -> str:
    """Return a device file's text with other numbers, their status "fitted", and everything else as it was."""
    file = tomlkit.parse(text)
    for change in found:
        tables: list[Any] = [file]
        for key in change.keys[:-1]:
            tables.append(tables[-1][key])
        last = change.keys[-1]
        is_whole = isinstance(tables[-1][last], int) and change.after == int(change.after)
        tables[-1][last] = int(change.after) if is_whole else change.after
        next(table for table in reversed(tables) if "status" in table)["status"] = "fitted"
    return tomlkit.dumps(file)


def _write(folder: Path, found: Sequence[Change]) -> None:
    for arch in {change.arch for change in found}:
        file = folder / f"arch{arch}.toml"
        text = with_changes(file.read_text(encoding="utf-8"), (c for c in found if c.arch == arch))
        file.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Fit, and write or name what changes; 1 if something would have changed."""
    parser = argparse.ArgumentParser(description="Fit the device files' coefficients to the shipped measurements.")
    parser.add_argument("--check", action="store_true", help="write nothing, end with 1 if a number would change")
    is_check = parser.parse_args(arguments).check
    points = points_by_place(read_instructions())
    found = list(changes(points))
    for change in found:
        print(change)
    for (arch, place), reason in KEPT.items():
        print(f"arch{arch}.toml: {'.'.join(place)} is left out: {reason}")
    print(f"{len(points)} tables of coefficients, {sum(map(len, points.values()))} measurements: {len(found)} changes")
    if is_check:
        return 1 if found else 0
    _write(DEVICES, found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
