"""A course's cycles without an engine, for fits: what its instructions hold their one pipe, added up.

Right where the pipe is the one that holds a stream up, which a test holds against the engine.
"""

from typing import Any

from pydantic import BaseModel

from ascendsim.cost import Fields, links_of, row_costs
from ascendsim.device import Device
from ascendsim.engine.base import UNITS_PER_BYTE, Kind, LinkInfo
from ascendsim.fidelity.course import Course

Path = tuple[str, ...]
"""Where coefficients stand in a device file: ("vector", "Add", "half"), ("transfer", "ub_to_gm")."""

_GROUPED, _PLAIN = ("vector", "cube"), ("local", "transfer")
_FUNCTION = "vector_function"


def cost_at(device: Device, path: Path) -> BaseModel:
    """Return the coefficients at a path."""
    entry: Any = getattr(device, path[0])
    for key in path[1:]:
        entry = entry[key]
    assert isinstance(entry, BaseModel)
    return entry


def with_cost(device: Device, path: Path, cost: BaseModel) -> Device:
    """Return the device with other coefficients at a path."""
    if path == (_FUNCTION,):
        return device.model_copy(update={_FUNCTION: cost})
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
    _costs(course, _noting(course.device, used))
    if any(row.op.cost == _FUNCTION for _, rows, _ in course.own_rows for row in rows):
        used.append((_FUNCTION,))
    missed = "_miss" if course.l2_mode == "hit" else "_hit"
    return tuple(path for path in dict.fromkeys(used) if not path[-1].endswith(missed))


class _Noted(dict[str, Any]):
    """A table that notes which of its entries are asked for."""

    def __init__(self, entries: dict[str, Any], path: Path, used: list[Path]) -> None:
        super().__init__(entries)
        self._path, self._used = path, used

    def __getitem__(self, key: str) -> Any:
        self._used.append((*self._path, key))
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self:
            return default
        return self[key]


def _noting(device: Device, used: list[Path]) -> Device:
    tables: dict[str, Any] = {name: _Noted(getattr(device, name), (name,), used) for name in _PLAIN}
    for name in _GROUPED:
        groups = getattr(device, name).items()
        tables[name] = {group: _Noted(entries, (name, group), used) for group, entries in groups}
    return device.model_copy(update=tables)


def quick_cycles(course: Course, device: Device) -> float:
    """Return the cycles of a course on a device by adding up what its instructions hold its pipe.

    Raises:
        DeviceError: the device file has no cost for one of the instructions.
    """
    costs = _costs(course, device)
    links = links_of(device)
    cold = not course.is_streamed or any(cost["kind"] == Kind.BARRIER for cost in costs)
    total, drain = 0, 0
    for cost in costs:
        if cost["kind"] == Kind.BARRIER:
            total, drain, cold = total + drain + cost["occupancy"], 0, True
        else:
            held = _held(cost, course.l2_mode, links, cold=cold)
            total, drain, cold = total + held, cost.get("drain", 0), False
    return float(total if course.is_streamed else total + drain)


def _held(cost: Fields, l2_mode: str, links: tuple[LinkInfo, ...], *, cold: bool) -> int:
    """Cycles that an instruction or transfer holds its pipe, alone on its link."""
    is_transfer = cost["kind"] == Kind.TRANSFER
    suffix = "_hit" if is_transfer and l2_mode == "hit" else ""
    startup = cost.get(f"startup{suffix}" if cold else f"startup_warm{suffix}", 0)
    if not is_transfer:
        return startup + cost["occupancy"]
    cap = min(cost[f"cap_units{suffix}"], links[cost[f"link{suffix}"]].capacity_units)
    data = -(-cost[f"bytes{suffix}"] * UNITS_PER_BYTE // cap)
    return max(startup + data, cost["occupancy"])


def _costs(course: Course, device: Device) -> list[Fields]:
    """What the course's own rows cost, one after the other."""
    return [cost for template, rows, bases in course.own_rows for cost in row_costs(template, rows, device, bases)]


def moved_bytes(course: Course) -> tuple[int, ...]:
    """Return the bytes that each of a course's transfers is charged for."""
    name = "bytes_hit" if course.l2_mode == "hit" else "bytes"
    return tuple(cost[name] for cost in _costs(course, course.device) if cost["kind"] == Kind.TRANSFER)
