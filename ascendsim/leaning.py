"""What a run leans on: which numbers of the device file its schedule was made of, and the cycles that rest on each.

Every busy cycle of a pipe rests on one number: on the coefficients that charged its row, or, as far as sharing a link
with other cores made a transfer longer, on that link. The scalar unit's cycles rest on what its rows and each dispatch
take. Beside these stand numbers that made something wait: the depth of a pipe's queue, the way of a cross-core flag.
Which number a row is charged by is said by the row's cost shape, as in `ascendsim.cost`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ascendsim.cost import vector_cost
from ascendsim.device import Device, Status
from ascendsim.engine.base import Timeline, Totals, Wait
from ascendsim.isa.instruction import Row, TensorRef
from ascendsim.program import Program, Template
from ascendsim.terms import Buffer, CoreKind, Pipe

UNCERTAIN: tuple[Status, ...] = ("inferred", "assumed")
"""What nobody measured or documented."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of a device file, or a table of coefficients that belong together.

    Attributes:
        path: where it stands, such as "vector.Add.half"; "instruction ..." for costs that a kernel's file declares.
        status: how sure it is.
        source: where it comes from.
    """

    path: str
    status: Status
    source: str


@dataclass(frozen=True, slots=True)
class Charge:
    """Cycles of one pipe, over all cores of a kind, that rest on a number.

    Attributes:
        kind: of the cores.
        pipe: the pipe that works, or that waits.
        busy_cycles: in which the pipe works.
        waited_cycles: in which it waits.
    """

    kind: CoreKind
    pipe: Pipe
    figure: Figure
    busy_cycles: int
    waited_cycles: int = 0


@dataclass(frozen=True, slots=True)
class Leaning:
    """A number that a run used, with the cycles of all pipes and cores that rest on it."""

    figure: Figure
    busy_cycles: int
    waited_cycles: int


class _Sourced(Protocol):
    """Anything in a device file that says where it comes from."""

    @property
    def source(self) -> str: ...

    @property
    def status(self) -> Status: ...


def leanings(charges: tuple[Charge, ...]) -> tuple[Leaning, ...]:
    """Return the numbers that charges rest on, most busy cycles first, then most cycles waited."""
    busy: Counter[Figure] = Counter()
    waited: Counter[Figure] = Counter()
    for charge in charges:
        busy[charge.figure] += charge.busy_cycles
        waited[charge.figure] += charge.waited_cycles
    ordered = sorted(busy, key=lambda f: (-busy[f], -waited[f], f.path))
    return tuple(Leaning(figure, busy[figure], waited[figure]) for figure in ordered)


def charges_of(program: Program, timeline: Timeline, device: Device) -> tuple[Charge, ...]:
    """Return the cycles of a timeline, divided among the numbers of the device file that they rest on.

    A load rests on what a hit or a miss costs, as its rows that were kept were hits or misses. A template that both
    kinds of cores call has its cycles divided by their calls.
    """
    busy: Counter[_Place] = Counter()
    waited: Counter[_Place] = Counter()
    hits, first = _hit_shares(program, timeline), 0
    for number, template in enumerate(program.templates):
        calls = _calls_by_kind(program, number)
        own_busy, own_waited = _of_template(template, timeline.totals, device, hits, first, sum(calls.values()))
        for places, own in ((busy, own_busy), (waited, own_waited)):
            for (pipe, figure), cycles in own.items():
                for kind, part in _divided(cycles, calls).items():
                    places[kind, pipe, figure] += part
        first += len(template)
    return tuple(Charge(*place, busy[place], waited[place]) for place in dict.fromkeys((*busy, *waited)))


_Place = tuple[CoreKind, Pipe, Figure]
_Sums = Counter[tuple[Pipe, Figure]]


def _of_template(
    template: Template, totals: Totals, device: Device, hits: Floats, first: int, times: int
) -> tuple[_Sums, _Sums]:
    """Busy and waited cycles of all calls of a template, whose rows are counted from `first` on in the totals."""
    busy: _Sums = Counter()
    waited: _Sums = Counter()
    dispatch = _number(device, "scalar.dispatch_cycles")
    for index, row in enumerate(template.rows, start=first):
        waits = totals.wait_cycles[index]
        if row.op.cost == "transfer":
            spent, stretched = int(totals.spent_cycles[index]), int(waits[Wait.BANDWIDTH])
            for figure, cycles in _of_transfer(row, template.tensors, device, hits[index], spent, stretched):
                busy[row.pipe, figure] += cycles
        elif row.op.cost in _COEFFICIENTS:
            busy[row.pipe, _COEFFICIENTS[row.op.cost](row, device)] += int(totals.spent_cycles[index])
        else:
            own = _own_number(row, device)
            busy[row.pipe, own.figure] += own.cycles * times
        if row.pipe is not Pipe.S:
            busy[Pipe.S, dispatch.figure] += dispatch.cycles * times
        if waits[Wait.QUEUE_FULL]:
            depth = _number(device, f"scalar.queue_depth.{row.pipe.name}")
            waited[Pipe.S, depth.figure] += int(waits[Wait.QUEUE_FULL])
        if row.op.cost == "cross_wait":
            way = _number(device, "sync.cross_core_cycles")
            most = way.cycles * int(totals.wait_count[index, Wait.CROSS_CORE])
            waited[row.pipe, way.figure] += min(most, int(waits[Wait.CROSS_CORE]))
    return busy, waited


def _of_transfer(
    row: Row, tensors: tuple[TensorRef, ...], device: Device, hit: float, spent: int, stretched: int
) -> Iterator[tuple[Figure, int]]:
    """What sharing the link added rests on the link, the rest on the path's coefficients."""
    is_load = row.src0 is not None and tensors[row.src0.tensor].buffer is Buffer.GM
    stretched = min(stretched, spent)
    hits, shared_hits = round(spent * hit), round(stretched * hit)
    parts = (("_hit", hits, shared_hits), ("_miss", spent - hits, stretched - shared_hits))
    for suffix, cycles, shared in parts if is_load else (("", spent, stretched),):
        if cycles == 0:
            continue
        cost = device.transfer[f"{row.op.family}{suffix}"]
        link = device.link[cost.link].bytes_per_cycle_per_aiv
        yield _figure(f"transfer.{row.op.family}{suffix}", cost), cycles - shared
        yield _figure(f"link.{cost.link}.bytes_per_cycle_per_aiv", link), shared


def _figure(path: str, said: _Sourced) -> Figure:
    return Figure(path, said.status, said.source)


def _vector(row: Row, device: Device) -> Figure:
    cost = vector_cost(row, device)
    if row.op.own_cost is not None:
        return _figure(f"instruction {row.op.name}", cost)
    key = next(key for key, known in device.vector[row.op.family].items() if known is cost)
    return _figure(f"vector.{row.op.family}.{key}", cost)


def _compact(row: Row, device: Device) -> Figure:
    key = "fixed" if row.src1 is None else "tensor"
    return _figure(f"vector.{row.op.family}.{key}", device.vector[row.op.family][key])


def _vector_function(row: Row, device: Device) -> Figure:
    del row
    assert device.vector_function is not None
    return _figure("vector_function", device.vector_function)


def _mmad(row: Row, device: Device) -> Figure:
    assert row.src0 is not None
    key = row.src0.dtype.name
    return _figure(f"cube.{row.op.family}.{key}", device.cube[row.op.family][key])


def _local(row: Row, device: Device) -> Figure:
    return _figure(f"local.{row.op.family}", device.local[row.op.family])


_COEFFICIENTS: dict[str, Callable[[Row, Device], Figure]] = {
    "vector": _vector,
    "rounds": _vector,
    "burst": _vector,
    "compact": _compact,
    "vector_function": _vector_function,
    "mmad": _mmad,
    "local": _local,
}
"""By cost shape: the coefficients that charge a row."""


_FLAGS = {
    "set_flag": "set_flag_cycles",
    "wait_flag": "wait_flag_cycles",
    "cross_set": "set_flag_cycles",
    "cross_wait": "wait_flag_cycles",
}


_DUMP = Figure("instruction dump_tensor", "assumed", "takes no time here")
_WORK = Figure("instruction scalar_work", "assumed", "cycles that the kernel states")


def _own_number(row: Row, device: Device) -> "_Number":
    """What a row of the scalar unit, a flag or a barrier takes."""
    if row.op.family == "work":
        return _Number(_WORK, row.param("cycles"))
    if row.op.family == "dump":
        return _Number(_DUMP, 0)
    return _number(device, f"scalar.{_scalar_number(row)}")


def _scalar_number(row: Row) -> str:
    """Which number of the device file it is."""
    if row.op.cost == "scalar":
        return "mask_cycles" if row.op.family == "mask" else "get_value_cycles"
    if row.op.cost == "barrier":
        return "barrier_all_cycles" if row.pipe is Pipe.S else "barrier_cycles"
    return _FLAGS[row.op.cost]


class _Number(NamedTuple):
    figure: Figure
    cycles: int


def _number(device: Device, path: str) -> _Number:
    """A whole number of the device file by its path."""
    found: Any = device
    for name in path.split("."):
        found = getattr(found, name)
    return _Number(_figure(path, found), found.value)


def _hit_shares(program: Program, timeline: Timeline) -> Floats:
    """Of the time of each template row's transfers, the part that found everything in L2; by the rows that were kept.

    A row of which none was kept counts as a miss.
    """
    lengths = np.array([len(t) for t in program.templates], np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    rows = int(starts[-1])
    at = starts[program.calls["template"][timeline["call"]]] + timeline["row"]
    time = (timeline["occupied"] - timeline["start"]).astype(np.float64)
    spent = np.bincount(at, time, minlength=rows)
    hit = np.bincount(at, time * (timeline["l2_hit"] == 1), minlength=rows)
    return np.divide(hit, spent, out=np.zeros(rows), where=spent > 0)


def _calls_by_kind(program: Program, template: int) -> dict[CoreKind, int]:
    """How often cores of each kind call a template."""
    cores = program.calls["core"][program.calls_of_template[template]] % program.block_cores
    counts = np.bincount(cores, minlength=program.block_cores).tolist()
    found: Counter[CoreKind] = Counter()
    for place, count in enumerate(counts):
        found[program.core_kind(place)] += count
    return {kind: count for kind, count in found.items() if count}


def _divided(cycles: int, calls: dict[CoreKind, int]) -> dict[CoreKind, int]:
    """Cycles in proportion to the calls, whole ones."""
    found, left, calls_left = {}, cycles, sum(calls.values())
    for kind, count in calls.items():
        found[kind] = left * count // calls_left
        left, calls_left = left - found[kind], calls_left - count
    return found
