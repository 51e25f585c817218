"""Bytes of GM that two calls touch and at least one writes: what orders them is asked elsewhere.

A GM operand is as many runs of bytes as its copy has. The runs of all calls are sorted by address, tensor by tensor; a
program whose footprints are apart costs one sort. Where cores hand work to each other the same bytes are used again and
again: then only the first two of the calls that touch the same with the same instruction are sorted, for one core what
comes next and for another who is meant.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks.lanes import Bytes, gm_lanes_of
from ascendsim.isa.fixpipe import FIXPIPE_OPS
from ascendsim.isa.move import ATOMIC_OPS
from ascendsim.program import Program
from ascendsim.terms import Buffer

Ints = NDArray[Any]

ADDING = frozenset(op.name for op in (*ATOMIC_OPS.values(), FIXPIPE_OPS[Buffer.GM, True]))
"""Instructions that add to GM."""
MOST_DEEP = 512
"""How many runs behind one in order of address are compared with it: more that lie on the same byte say nothing new."""


@dataclass(frozen=True, slots=True)
class GmAccess:
    """One GM operand of a template's row: runs [start, end) of bytes, counted from its slot's base."""

    template: int
    at: int
    role: str
    slot: int
    starts: Ints
    ends: Ints
    writes: bool
    adds: bool
    """Whether it belongs to an addition in GM, which nothing comes between."""


@dataclass(frozen=True, slots=True)
class GmPairs:
    """Pairs of runs of one tensor that overlap and of which one writes; arrays of one length.

    Attributes:
        first, second: numbers of the accesses, in program order on one core, lower core first between two.
        first_call, second_call: of which calls.
        low, high: first and last byte of the tensor that they share.
    """

    tensor: int
    first: Ints
    second: Ints
    first_call: Ints
    second_call: Ints
    low: Ints
    high: Ints

    def __len__(self) -> int:
        return len(self.first)

    def only(self, chosen: Ints) -> "GmPairs":
        """Return some of the pairs."""
        columns = (self.first, self.second, self.first_call, self.second_call, self.low, self.high)
        return GmPairs(self.tensor, *(column[chosen] for column in columns))

    def turned(self, begin: int) -> "GmPairs":
        """Return the pairs, those from `begin` on with first and second changed over."""
        turn = np.arange(len(self)) >= begin
        one, other = np.where(turn, self.second, self.first), np.where(turn, self.first, self.second)
        first_call, second_call = (
            np.where(turn, self.second_call, self.first_call),
            np.where(turn, self.first_call, self.second_call),
        )
        return GmPairs(self.tensor, one, other, first_call, second_call, self.low, self.high)


class GmAccesses:
    """Every GM operand of a program's templates."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._alike: dict[tuple[int, int], dict[tuple[int, int], Ints]] = {}
        self.all = [access for number in range(len(program.templates)) for access in _of_template(program, number)]

    def pairs(self) -> Iterator[GmPairs]:
        """Yield what overlaps, for each tensor that somebody writes."""
        for tensor in range(len(self.program.gm)):
            runs = self._runs(tensor)
            if len(runs.start) and runs.writes.any():
                yield self._pairs(tensor, runs)

    def _runs(self, tensor: int) -> "_Runs":
        """Every run of bytes of a tensor that some call touches, in order of address."""
        calls = self.program.calls
        parts: list[tuple[Ints, ...]] = [(np.zeros(0, np.int64),) * 4]
        for number, access in enumerate(self.all):
            here = np.flatnonzero(calls["template"] == access.template)
            slots = calls["slot_start"][here] + access.slot
            mine = self.program.slot_tensor[slots] == tensor
            bases = self.program.slot_base_bytes[slots[mine]] - self.program.gm[tensor].base_bytes
            used = here[mine]
            if self.program.is_cross:
                few = _first_two(calls["core"][used], bases)
                used, bases = used[few], bases[few]
            count = len(access.starts)
            starts, ends = ((bases[:, None] + edge).reshape(-1) for edge in (access.starts, access.ends))
            parts.append((starts, ends, np.repeat(used, count), np.full(len(starts), number)))
        start, end, call, access_of = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((call, start))
        writes = np.array([a.writes for a in self.all], np.bool_)[access_of[order]]
        return _Runs(start[order], end[order], call[order], access_of[order], writes)

    def alike(self, number: int, tensor: int, call: int) -> Ints:
        """Return the calls of a call's core in which an access touches the same bytes as in that call."""
        key = (number, tensor)
        columns = self.program.calls
        access = self.all[number]
        if key not in self._alike:
            here = np.flatnonzero(columns["template"] == access.template)
            slots = columns["slot_start"][here] + access.slot
            here = here[self.program.slot_tensor[slots] == tensor]
            bases = self.program.slot_base_bytes[columns["slot_start"][here] + access.slot]
            found: dict[tuple[int, int], list[int]] = {}
            for one, core, base in zip(here.tolist(), columns["core"][here].tolist(), bases.tolist(), strict=True):
                found.setdefault((core, base), []).append(one)
            self._alike[key] = {place: np.array(calls) for place, calls in found.items()}
        base = int(self.program.slot_base_bytes[columns["slot_start"][call] + access.slot])
        return self._alike[key][int(columns["core"][call]), base]

    def _pairs(self, tensor: int, runs: "_Runs") -> GmPairs:
        """Runs that overlap: each with those behind it in order of address, as long as any does."""
        ones, others = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for step in range(1, min(MOST_DEEP, len(runs.start) - 1) + 1):
            touches = runs.start[step:] < runs.end[:-step]
            if not touches.any():
                break
            counts = touches & (runs.writes[step:] | runs.writes[:-step])
            same = (runs.call[step:] == runs.call[:-step]) & (runs.access[step:] == runs.access[:-step])
            at = np.flatnonzero(counts & ~same)
            ones.append(at)
            others.append(at + step)
        one, other = np.concatenate(ones), np.concatenate(others)
        rows = np.array([a.at for a in self.all], np.int64)
        swap = (runs.call[one] > runs.call[other]) | (
            (runs.call[one] == runs.call[other]) & (rows[runs.access[one]] > rows[runs.access[other]])
        )
        first, second = np.where(swap, other, one), np.where(swap, one, other)
        low, high = np.maximum(runs.start[one], runs.start[other]), np.minimum(runs.end[one], runs.end[other]) - 1
        return GmPairs(tensor, runs.access[first], runs.access[second], runs.call[first], runs.call[second], low, high)


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs of bytes of one tensor, in order of address: where, of which call and access."""

    start: Ints
    end: Ints
    call: Ints
    access: Ints
    writes: NDArray[np.bool_]


def _first_two(core: Ints, base: Ints) -> Ints:
    """Places of the first two of each core and base."""
    order = np.lexsort((np.arange(len(core)), base, core))
    same = (core[order][2:] == core[order][:-2]) & (base[order][2:] == base[order][:-2])
    keep = np.ones(len(core), np.bool_)
    keep[2:] = ~same
    return np.sort(order[keep])


def _runs_of(lanes: Bytes) -> tuple[Ints, Ints]:
    """Where runs of bytes begin and end."""
    if isinstance(lanes, slice):
        return np.array([lanes.start], np.int64), np.array([lanes.stop], np.int64)
    gaps = np.diff(lanes) > 1
    return lanes[np.append(True, gaps)], lanes[np.append(gaps, True)] + 1


def _of_template(program: Program, number: int) -> Iterator[GmAccess]:
    template = program.templates[number]
    for at, (row, touched) in enumerate(zip(template.rows, template.touched, strict=True)):
        if any(template.tensors[t.tensor].slot >= 0 for t in touched):
            for role, writes, slot, lanes in gm_lanes_of(template, row):
                adds = row.op.name in ADDING
                if adds and not writes:
                    continue  # the addition is one access
                yield GmAccess(number, at, role, slot, *_runs_of(lanes), writes, adds)


@dataclass(frozen=True, slots=True)
class GmPair:
    """One of `GmPairs`."""

    first: int
    second: int
    first_call: int
    second_call: int
    low: int
    high: int


def kinds(pairs: GmPairs, more: tuple[Ints, ...]) -> Iterator[tuple[GmPair, int]]:
    """Yield the first of all pairs of the same two accesses that also agree in `more`, and how many there are."""
    if not len(pairs):
        return
    key = np.stack([pairs.first, pairs.second, *more])
    order = np.lexsort((pairs.second_call, pairs.first_call))
    _, at, counts = np.unique(key[:, order], axis=1, return_index=True, return_counts=True)
    for i, count in sorted(zip(order[at].tolist(), counts.tolist(), strict=True)):
        columns = (pairs.first, pairs.second, pairs.first_call, pairs.second_call, pairs.low, pairs.high)
        yield GmPair(*(int(column[i]) for column in columns)), count


def places_on_core(core: Ints) -> Ints:
    """Return the how-many-th of its core each call is."""
    places = np.zeros(len(core), np.int64)
    for one in np.unique(core):
        here = np.flatnonzero(core == one)
        places[here] = np.arange(len(here))
    return places
