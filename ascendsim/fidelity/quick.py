"""A course's cycles without an engine, for fits: what its instructions hold their one pipe, added up.

Right where the pipe is the one that holds a stream up, which a test holds against the engine.
"""

from typing import Any

from pydantic import BaseModel

from ascendsim.cost import template_schedules
from ascendsim.device import Device
from ascendsim.engine.base import UNITS_PER_BYTE, Kind
from ascendsim.fidelity.course import Course

Path = tuple[str, ...]
"""Where coefficients stand in a device file: ("vector", "Add", "half")."""

_GROUPED, _PLAIN = ("vector", "cube"), ("local", "transfer")


def cost_at(device: Device, path: Path) -> BaseModel:
    """Return the coefficients at a path."""
    entry: Any = getattr(device, path[0])
    for key in path[1:]:
        entry = entry[key]
    assert isinstance(entry, BaseModel)
    return entry


def with_cost(device: Device, path: Path, cost: BaseModel) -> Device:
    """Return the device with other coefficients at a path."""
    table = dict(getattr(device, path[0]))
    if path[0] in _GROUPED:
        table[path[1]] = dict(table[path[1]]) | {path[2]: cost}
    else:
        table[path[1]] = cost
    return device.model_copy(update={path[0]: table})


def paths_of(course: Course) -> tuple[Path, ...]:
    """Return where the coefficients stand that a course's cycles rest on.

    Raises:
        DeviceError: the device file has no cost for one of the instructions.
    """
    used: list[Path] = []
    template_schedules(course.program, _noting(course.device, used))
    return tuple(dict.fromkeys(used))


class _Noted(dict[str, Any]):
    """A table that notes which of its entries are asked for."""

    def __init__(self, entries: dict[str, Any], path: Path, used: list[Path]) -> None:
        super().__init__(entries)
        self._path, self._used = path, used

    def __getitem__(self, key: str) -> Any:
        self._used.append((*self._path, key))
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default


def _noting(device: Device, used: list[Path]) -> Device:
    tables: dict[str, Any] = {name: _Noted(getattr(device, name), (name,), used) for name in _PLAIN}
    for name in _GROUPED:
        groups = getattr(device, name).items()
        tables[name] = {group: _Noted(entries, (name, group), used) for group, entries in groups}
    return device.model_copy(update=tables)


def quick_cycles(course: Course, device: Device) -> float:
    """Return the cycles of a course on a device by adding up what its instructions hold its pipe."""
    total, cold, drain = 0.0, not course.is_streamed, 0
    waits = any(rows["kind"] == Kind.BARRIER for rows in _rows(course, device))
    cold = cold or waits
    for row in _rows(course, device):
        if row["kind"] == Kind.BARRIER:
            total += drain + row["occupancy"]
            cold, drain = True, 0
            continue
        suffix = "_hit" if row["kind"] == Kind.TRANSFER and course.l2_mode == "hit" else ""
        startup = row[f"startup{suffix}"] if cold else row[f"startup_warm{suffix}"]
        held = row["occupancy"]
        if row["kind"] == Kind.TRANSFER:
            data = -(-row[f"bytes{suffix}"] * UNITS_PER_BYTE // row[f"cap_units{suffix}"])
            total += max(startup + data, held)
        else:
            total += startup + held
        cold, drain = False, row["drain"]
    return total + (0 if course.is_streamed else drain)


def _rows(course: Course, device: Device) -> list[dict[str, int]]:
    """The rows of the course's pipe."""
    schedules = template_schedules(course.program, device)
    rows = []
    for number in course.program.calls["template"].tolist():
        columns = schedules[number].columns
        for at in range(len(schedules[number])):
            if columns["pipe"][at] == course.pipe:
                rows.append({name: int(column[at]) for name, column in columns.items()})
    return rows
