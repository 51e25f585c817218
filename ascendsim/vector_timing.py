"""Cycles of a vector function's body: a dispatcher, two access slots to UB, two units, and the UB's banks.

A body runs as arch 3510 is published to run it, with unlimited queues and registers:

- **Dispatch** in program order, a few micro-operations a cycle; an iteration of a loop begins in a cycle of its own,
  the first one of a loop some cycles after the last one of the loop before.
- **Loads** start in order, up to two a cycle, the second only where it meets the first in no bank, or reads
  the same place.
- **Computations** start on the unit that is their turn when their sources are ready, oldest first. Slow ones (exp, div,
  sqrt) keep their part of the unit for an interval and take turns of their own.
- **Stores** take what loads leave: one a cycle, in a cycle with a free slot whose load is not in one of their banks.
  So a loop of two loads and one store takes two cycles an iteration, as published rows do, not one and a half.
- A LocalMemBar holds the loads behind it until the stores before it are done.

Sources: asc-devkit docs, Reg interface issue table and UB bank conflict page 3510; VfSim of pto-isa and its origin
VfSimulator, which describe loads before stores, turns of units and dispatch; that loads keep their order, by which
cases of the bank_conflict_3510 example are slow and which fast.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from ascendsim.banks import Banks, banks_of
from ascendsim.device import Device, MicroCost, VectorFunctionCost
from ascendsim.dtypes import DTYPES
from ascendsim.errors import DeviceError
from ascendsim.isa.instruction import Body, Issue, MicroKind, MicroRow, TensorRef
from ascendsim.isa.micro_table import lane_elements, memory_elements
from ascendsim.terms import DATABLOCK_BYTES


@dataclass(frozen=True, slots=True)
class Access:
    """Where and when an access to UB starts.

    Attributes:
        row: number of the micro-operation in the body.
        cycle: when it starts, from the start of the first micro-operation on.
        lost: cycles that it waited for a bank, not counting those it would have waited for anyway.
        met: number of the load whose bank it waited for last, -1 for none.
    """

    row: int
    cycle: int
    lost: int = 0
    met: int = -1


@dataclass(frozen=True, slots=True)
class BodyTiming:
    """How a body runs.

    Attributes:
        cycles: from the start of its first micro-operation to the last result; 0 without any.
        accesses: of its loads and stores, in the order in which they start.
    """

    cycles: int
    accesses: tuple[Access, ...]


def time_body(body: Body, tensors: Sequence[TensorRef], device: Device) -> BodyTiming:
    """Return how a body runs on a device with its operands where they lie.

    Raises:
        DeviceError: the device has no vector functions, or no cost for a micro-operation and type of the body.
    """
    return _Run(device, _places(body.rows, tensors, device)).run(body.rows)


def time_body_without_banks(body: Body, device: Device) -> BodyTiming:
    """Return how a body would run if no two accesses met in a bank.

    Raises:
        DeviceError: as `time_body`.
    """
    return _Run(device, [_NOWHERE] * len(body.rows)).run(body.rows)


@dataclass(frozen=True, slots=True)
class BodyLoss:
    """What banks cost a body.

    Attributes:
        cycles: by which it ends later than without.
        pair: the tensors whose accesses wait most for one another; the first is the one that waits.
        moved: the one of them that had better start a bank further, None where that does not help.
        left: cycles that are lost then.
    """

    cycles: int
    pair: tuple[int, int]
    moved: int | None
    left: int


def body_loss(body: Body, tensors: Sequence[TensorRef], device: Device) -> BodyLoss | None:
    """Return what banks cost a body, None for nothing.

    Raises:
        DeviceError: as `time_body`.
    """
    banks = banks_of(device)
    if banks is None:
        return None
    real, ideal = time_body(body, tensors, device), time_body_without_banks(body, device).cycles
    waits = _waits(body.rows, real)
    if real.cycles <= ideal or not waits:
        return None
    pair = max(waits, key=lambda tensors: (waits[tensors], tensors))
    ends = {
        t: time_body(body, _with_one_moved(tensors, t, banks.step_bytes), device).cycles for t in dict.fromkeys(pair)
    }
    moved = min(ends, key=lambda tensor: ends[tensor])
    if ends[moved] >= real.cycles:
        return BodyLoss(real.cycles - ideal, pair, None, real.cycles - ideal)
    return BodyLoss(real.cycles - ideal, pair, moved, max(0, ends[moved] - ideal))


def _waits(rows: Sequence[MicroRow], timing: BodyTiming) -> dict[tuple[int, int], int]:
    """Cycles that accesses to one tensor waited for those to another."""
    waits: dict[tuple[int, int], int] = defaultdict(int)
    for access in timing.accesses:
        mine, other = rows[access.row].memory, rows[access.met].memory
        if access.met >= 0 and mine is not None and other is not None:
            waits[mine.tensor, other.tensor] += access.lost
    return waits


def _with_one_moved(tensors: Sequence[TensorRef], number: int, further_bytes: int) -> list[TensorRef]:
    moved = list(tensors)
    moved[number] = replace(moved[number], address_bytes=moved[number].address_bytes + further_bytes)
    return moved


# ---- banks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """What an access touches: the number of its first datablock, and its banks as bits."""

    first: int
    banks: int


_NOWHERE = _Place(-1, 0)


def _places(rows: Sequence[MicroRow], tensors: Sequence[TensorRef], device: Device) -> list[_Place]:
    """What each row touches; nothing where the device states no banks."""
    banks = banks_of(device)
    if banks is None:
        return [_NOWHERE] * len(rows)
    blocks = (_blocks(row, tensors) for row in rows)
    return [_Place(first, _bits_of(first % banks.period_blocks, count, banks)) for first, count in blocks]


def _blocks(row: MicroRow, tensors: Sequence[TensorRef]) -> tuple[int, int]:
    """(first datablock in UB, number of them) that a load or store touches; a load takes its whole register."""
    if row.memory is None:
        return 0, 0
    low, high = _extent(row.op.name, row.dtype.code, row.mask if row.op.kind is MicroKind.STORE else -1)
    start = tensors[row.memory.tensor].address_bytes + row.memory.offset_bytes
    first = (start + low * row.dtype.bytes) // DATABLOCK_BYTES
    end = -(-(start + high * row.dtype.bytes) // DATABLOCK_BYTES)
    return first, end - first


@lru_cache(maxsize=4096)
def _extent(name: str, dtype_code: int, mask: int) -> tuple[int, int]:
    """(first element, end) of an access, from the operand's start; a mask of -1 is all lanes."""
    if mask < 0:
        return 0, 1 + max(int(elements.max()) for elements in lane_elements(name, DTYPES[dtype_code]))
    elements = memory_elements(name, dtype_code, mask)
    return (int(elements[0]), int(elements[-1]) + 1) if elements.size else (0, 0)


@lru_cache(maxsize=4096)
def _bits_of(first: int, count: int, banks: Banks) -> int:
    """Banks of datablocks that follow one another, as bits."""
    return sum({1 << bank for bank in banks.of(np.arange(first, first + count)).tolist()})


# ---- one run ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Unit:
    """When a unit can start a computation, and a slow one."""

    free: int = 0
    slow_free: int = 0


@dataclass(slots=True)
class _Run:
    """A body on the way. All times are cycles from the first dispatch on."""

    device: Device
    places: list[_Place]
    costs: dict[tuple[str, int], MicroCost] = field(default_factory=dict)
    computed: list[int] = field(default_factory=list)
    """Of each register: when a computation may use it."""
    storable: list[int] = field(default_factory=list)
    """Of each register: when a store may use it."""
    loads_at: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Rows of the loads that start in a cycle; one that is alone as often as there are slots."""
    accesses: list[Access] = field(default_factory=list)
    floor: int = 0
    """Before this no load starts: the stores before a LocalMemBar are done."""
    load_cycle: int = 0
    last_store: int = -1
    end: int = 0
    turns: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    """Whose turn the next computation is, fast and slow."""
    units: list[_Unit] = field(default_factory=list)

    def run(self, rows: Sequence[MicroRow]) -> BodyTiming:
        """Run a body."""
        cost = _cost_of(self.device)
        self.units = [_Unit() for _ in range(cost.units)]
        registers = sum(row.op.results for row in rows)
        self.computed, self.storable = [0] * registers, [0] * registers
        dispatch = _dispatch(rows, cost)
        for part in _between_bars(rows):
            self._part(rows, part, dispatch, cost)
        return BodyTiming(self.end, tuple(sorted(self.accesses, key=lambda a: (a.cycle, a.row))))

    def _part(self, rows: Sequence[MicroRow], part: range, dispatch: list[int], cost: VectorFunctionCost) -> None:
        """Rows between two LocalMemBars: loads never wait for stores, so all of them come first."""
        by_kind: dict[MicroKind, list[int]] = defaultdict(list)
        for i in part:
            by_kind[rows[i].op.kind].append(i)
        for i in by_kind[MicroKind.LOAD]:
            self._load(i, rows[i], dispatch[i], cost)
        self._compute(by_kind[MicroKind.COMPUTE], rows, dispatch)
        self._store(by_kind[MicroKind.STORE], rows, dispatch, cost)
        self.floor = max(self.floor, self.end)

    def _cost(self, row: MicroRow) -> MicroCost:
        key = row.op.name, row.dtype.code
        if key not in self.costs:
            self.costs[key] = micro_cost(row, self.device)
        return self.costs[key]

    def _define(self, row: MicroRow, cost: MicroCost, start: int) -> None:
        for register in range(row.register, row.register + row.op.results):
            self.computed[register] = start + cost.latency
            self.storable[register] = start + cost.store_latency
        self.end = max(self.end, start + cost.latency)

    def _load(self, i: int, row: MicroRow, dispatched: int, cost: VectorFunctionCost) -> None:
        """In order: beside the load before, or a cycle behind it."""
        micro = self._cost(row)
        start = max(dispatched, self.floor, self.load_cycle)
        beside = self.loads_at[start]
        is_full = len(beside) == cost.accesses_per_cycle or bool(beside and micro.alone)
        met = -1 if is_full else next((j for j in beside if self._meet(i, j)), -1)
        if is_full or met >= 0:
            start += 1
        self.loads_at[start] += [i] * (cost.accesses_per_cycle if micro.alone else 1)
        self.load_cycle = start
        self.accesses.append(Access(i, start, int(met >= 0), met))
        self._define(row, micro, start)

    def _meet(self, a: int, b: int) -> bool:
        """Whether two loads read from one bank; one place read twice is read once."""
        one, other = self.places[a], self.places[b]
        return bool(one.banks & other.banks) and one.first != other.first

    def _compute(self, numbers: list[int], rows: Sequence[MicroRow], dispatch: list[int]) -> None:
        """Oldest ready first; a computation becomes ready when its last source is."""
        made_by = {r: i for i in numbers for r in range(rows[i].register, rows[i].register + rows[i].op.results)}
        missing = {i: sum(s in made_by for s in rows[i].sources) for i in numbers}
        users: dict[int, list[int]] = defaultdict(list)
        for i in numbers:
            for source in rows[i].sources:
                if source in made_by:
                    users[made_by[source]].append(i)
        units = {i: self._turn(self._cost(rows[i])) for i in numbers}
        heap = [(self._ready(rows[i], dispatch[i]), i) for i in numbers if not missing[i]]
        heapq.heapify(heap)
        while heap:
            ready, i = heapq.heappop(heap)
            micro = self._cost(rows[i])
            self._define(rows[i], micro, _start_on(units[i], ready, micro))
            for user in users[i]:
                missing[user] -= 1
                if not missing[user]:
                    heapq.heappush(heap, (self._ready(rows[user], dispatch[user]), user))

    def _ready(self, row: MicroRow, dispatched: int) -> int:
        return max([dispatched, *(self.computed[s] for s in row.sources)])

    def _turn(self, micro: MicroCost) -> _Unit:
        """The unit of a computation: the first for one that is alone, else each in turn."""
        if micro.alone:
            return self.units[0]
        slow = micro.interval > 1
        self.turns[slow] += 1
        return self.units[(self.turns[slow] - 1) % len(self.units)]

    def _store(
        self, numbers: list[int], rows: Sequence[MicroRow], dispatch: list[int], cost: VectorFunctionCost
    ) -> None:
        """Each in the first cycle that loads leave to it."""
        ready = sorted((max([dispatch[i], *(self.storable[s] for s in rows[i].sources)]), i) for i in numbers)
        for at, i in ready:
            start, lost, met = max(at, self.last_store + 1), 0, -1
            while beside := self.loads_at.get(start):
                is_full = len(beside) == cost.accesses_per_cycle
                if not is_full:
                    mine = self.places[i].banks
                    met_now = next((j for j in beside if mine & self.places[j].banks), -1)
                    if met_now < 0:
                        break
                    lost, met = lost + 1, met_now
                start += 1
            self.last_store = start
            self.accesses.append(Access(i, start, lost, met))
            self.end = max(self.end, start + self._cost(rows[i]).latency)


def _start_on(unit: _Unit, ready: int, micro: MicroCost) -> int:
    """Start a computation on a unit."""
    slow = micro.interval > 1
    start = max(ready, unit.free, unit.slow_free if slow else 0)
    unit.free = start + 1
    if slow:
        unit.slow_free = start + micro.interval
    return start


def _dispatch(rows: Sequence[MicroRow], cost: VectorFunctionCost) -> list[int]:
    """When each row is dispatched."""
    times = []
    cycle, used, iteration = 0, 0, -1
    for row in rows:
        if row.issue is Issue.LOOP:
            cycle = cycle + cost.loop_start if iteration < 0 else max(cycle + 1, iteration + cost.loop_restart)
            used = 0
        elif row.issue is Issue.ITERATION or used == cost.dispatch_per_cycle:
            cycle, used = cycle + 1, 0
        if row.issue is not Issue.NEXT:
            iteration = cycle
        used += 1
        times.append(cycle)
    return times


def _between_bars(rows: Sequence[MicroRow]) -> Iterator[range]:
    first = 0
    for i, row in enumerate(rows):
        if row.op.kind is MicroKind.BARRIER:
            yield range(first, i)
            first = i + 1
    yield range(first, len(rows))


# ---- costs --------------------------------------------------------------------------------------------------------


def _cost_of(device: Device) -> VectorFunctionCost:
    if device.vector_function is None:
        raise DeviceError(f"device {device.name} has no vector functions (table vector_function)")
    return device.vector_function


def micro_cost(row: MicroRow, device: Device) -> MicroCost:
    """Return the cost of a micro-operation: by its element type, or by the type's width.

    Raises:
        DeviceError: the device file has none.
    """
    table = _cost_of(device).op.get(row.op.name, {})
    for key in (row.dtype.name, f"b{row.dtype.bytes * 8}"):
        if key in table:
            return table[key]
    raise DeviceError(
        f"device {device.name} has no cost for {row.op.name} with {row.dtype} "
        f"(table vector_function.op.{row.op.name} has {', '.join(table) or 'nothing'})"
    )
