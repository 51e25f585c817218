"""Bytes of GM that two calls touch and at least one writes: what orders them is asked elsewhere.

A GM operand is as many runs of bytes as its copy has. The runs of all calls are sorted by address, tensor by tensor; a
program whose footprints are apart costs one sort. Where cores hand work to each other the same bytes are used again and
again: then calls that give a template the same bytes are one spot, of which each core that has some has a line.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks.lanes import Bytes, gm_lanes_of, shape_of
from ascendsim.isa.fixpipe import FIXPIPE_OPS
from ascendsim.isa.instruction import Row
from ascendsim.isa.move import ATOMIC_OPS
from ascendsim.program import Program, Template
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
class Spots:
    """Where calls give a tensor to a template; arrays.

    Attributes:
        template, slot: of each spot.
        base: the slot's address, counted from the tensor's begin.
        first_line: of each spot, and the end; a spot's lines go from low cores to high ones.
        core: of each line.
        first_call: of each line in `calls`, and the end.
        calls: of the lines, one behind the other in program order.
    """

    template: Ints
    slot: Ints
    base: Ints
    first_line: Ints
    core: Ints
    first_call: Ints
    calls: Ints

    def calls_of(self, line: int) -> Ints:
        """Return the calls of a line."""
        return self.calls[self.first_call[line] : self.first_call[line + 1]]


@dataclass(frozen=True, slots=True)
class Meetings:
    """Pairs of accesses at spots of a tensor that overlap and of which one writes; arrays of one length.

    Attributes:
        one, other: numbers of the accesses.
        one_spot, other_spot: where; an access at a spot meets itself if the spot has several calls.
        low, high: first and last byte of the tensor that they share, in the first run of both that does.
        count: runs that they share.
    """

    one: Ints
    one_spot: Ints
    other: Ints
    other_spot: Ints
    low: Ints
    high: Ints
    count: Ints

    def __len__(self) -> int:
        return len(self.one)

    def only(self, chosen: Ints) -> "Meetings":
        """Return some of them."""
        columns = (self.one, self.one_spot, self.other, self.other_spot, self.low, self.high, self.count)
        return Meetings(*(column[chosen] for column in columns))


@dataclass(frozen=True, slots=True)
class GmPairs:
    """Accesses of two calls that meet; arrays of one length.

    Attributes:
        first, second: numbers of the accesses.
        first_call, second_call: of which calls.
        low, high: first and last byte of the tensor that they share.
        count: pairs that each stands for.
    """

    first: Ints
    second: Ints
    first_call: Ints
    second_call: Ints
    low: Ints
    high: Ints
    count: Ints

    def __len__(self) -> int:
        return len(self.first)

    def only(self, chosen: Ints) -> "GmPairs":
        """Return some of the pairs."""
        columns = (self.first, self.second, self.first_call, self.second_call, self.low, self.high, self.count)
        return GmPairs(*(column[chosen] for column in columns))


def joined(parts: list[GmPairs]) -> GmPairs:
    """Return the pairs of all parts, one behind the other."""
    names = GmPairs.__slots__
    return GmPairs(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True, slots=True)
class GmPair:
    """One of `GmPairs`."""

    first: int
    second: int
    first_call: int
    second_call: int
    low: int
    high: int


class GmAccesses:
    """Every GM operand of a program's templates."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._shapes: dict[Hashable, tuple[tuple[str, bool, Ints, Ints], ...]] = {}
        self.all = [a for number, template in enumerate(program.templates) for a in self._kept(number, template)]
        self.template = np.array([a.template for a in self.all], np.int64)
        self.at = np.array([a.at for a in self.all], np.int64)
        self.writes = np.array([a.writes for a in self.all], np.bool_)
        self.adds = np.array([a.adds for a in self.all], np.bool_)
        self._of_slot: dict[tuple[int, int], list[int]] = {}
        for number, access in enumerate(self.all):
            self._of_slot.setdefault((access.template, access.slot), []).append(number)

    def _kept(self, number: int, template: Template) -> tuple[GmAccess, ...]:
        question = ("GM accesses", number)
        return template.kept(question, None, lambda: tuple(self._of_template(number, template)))

    def _of_template(self, number: int, template: Template) -> Iterator[GmAccess]:
        for at, (row, touched) in enumerate(zip(template.rows, template.touched, strict=True)):
            if all(template.tensors[t.tensor].slot < 0 for t in touched):
                continue
            operands = dict(row.operands)
            for role, writes, starts, ends in self._runs_of(template, row):
                adds = row.op.name in ADDING
                if adds and not writes:
                    continue  # the addition is one access
                begin, slot = operands[role].offset_bytes, template.tensors[operands[role].tensor].slot
                yield GmAccess(number, at, role, slot, begin + starts, begin + ends, writes, adds)

    def _runs_of(self, template: Template, row: Row) -> tuple[tuple[str, bool, Ints, Ints], ...]:
        """Runs of bytes of a row's GM operands, counted from their starts; rows of one shape are looked at once."""
        key = shape_of(template, row)
        if key not in self._shapes:
            found = gm_lanes_of(template, row)
            self._shapes[key] = tuple((role, writes, *_runs_of(lanes)) for role, writes, lanes in found)
        return self._shapes[key]

    def meetings(self) -> Iterator[tuple[int, Spots, Meetings]]:
        """Yield tensor, spots and what overlaps, for each tensor that somebody writes."""
        for tensor in self._written():
            spots = self._spots(tensor)
            kinds = np.unique(np.stack([spots.template, spots.slot]), axis=1).T.tolist()
            yield tensor, spots, self._meetings(spots, [(template, slot) for template, slot in kinds])

    def is_apart(self) -> bool:
        """Whether no byte is touched twice of a tensor that somebody writes, as far as ranges show it.

        Quicker than `meetings`, which is for what meets.
        """
        return all(map(self._is_tensor_apart, self._written()))

    def _is_tensor_apart(self, tensor: int) -> bool:
        parts: list[tuple[Ints, Ints]] = []
        for (template, slot), numbers in self._of_slot.items():
            places = self.program.slots_of(template, slot)
            bases = self.program.slot_base_bytes[places[self.program.slot_tensor[places] == tensor]]
            if len(bases) and len(numbers) > 1:
                return False
            access = self.all[numbers[0]]
            parts.append((bases + access.starts[0], bases + access.ends[-1]))
        starts, ends = (np.concatenate(edges) for edges in zip(*parts, strict=True))
        order = np.argsort(starts)
        return not (ends[order[:-1]] > starts[order[1:]]).any()

    def _written(self) -> list[int]:
        """Tensors that somebody writes, in their order."""
        found = set[int]()
        for (template, slot), numbers in self._of_slot.items():
            if any(self.all[number].writes for number in numbers):
                found |= set(np.unique(self.program.slot_tensor[self.program.slots_of(template, slot)]).tolist())
        return sorted(found)

    def _spots(self, tensor: int) -> Spots:
        """Who uses a tensor; without flags between cores each call has a spot of its own."""
        calls = self.program.calls
        parts: list[tuple[Ints, ...]] = [(np.zeros(0, np.int64),) * 4]
        for template, slot in self._of_slot:
            here, slots = self.program.calls_of_template[template], self.program.slots_of(template, slot)
            mine = self.program.slot_tensor[slots] == tensor
            bases = self.program.slot_base_bytes[slots[mine]] - self.program.gm[tensor].base_bytes
            count = len(bases)
            parts.append((np.full(count, template), np.full(count, slot), bases, here[mine]))
        of, at, base, call = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((call, calls["core"][call], base, at, of) if self.program.is_cross else (call,))
        of, at, base, call = (column[order] for column in (of, at, base, call))
        core = calls["core"][call]
        new_spot = np.ones(len(call), np.bool_)
        if self.program.is_cross:
            new_spot[1:] = np.any([c[1:] != c[:-1] for c in (of, at, base)], axis=0)
        new_line = new_spot.copy()
        new_line[1:] |= core[1:] != core[:-1]
        spots, lines = np.flatnonzero(new_spot), np.flatnonzero(new_line)
        first_line = np.append(np.searchsorted(lines, spots), len(lines))
        return Spots(of[spots], at[spots], base[spots], first_line, core[lines], np.append(lines, len(call)), call)

    def _meetings(self, spots: Spots, kinds: list[tuple[int, int]]) -> Meetings:
        runs = self._runs(spots, kinds)
        one, other = _overlapping(runs)
        meets = Meetings(
            runs.access[one],
            runs.spot[one],
            runs.access[other],
            runs.spot[other],
            np.maximum(runs.start[one], runs.start[other]),
            np.minimum(runs.end[one], runs.end[other]) - 1,
            np.ones(len(one), np.int64),
        )
        return self._with_itself(spots, runs, _once(meets, len(self.all)))

    def _runs(self, spots: Spots, kinds: list[tuple[int, int]]) -> "_Runs":
        """Every run of bytes of a tensor that some call touches, in order of address."""
        parts: list[tuple[Ints, ...]] = [(np.zeros(0, np.int64),) * 4]
        for template, slot in kinds:
            here = np.flatnonzero((spots.template == template) & (spots.slot == slot))
            for number in self._of_slot[template, slot]:
                access = self.all[number]
                starts, ends = ((spots.base[here][:, None] + edge).reshape(-1) for edge in (access.starts, access.ends))
                parts.append((starts, ends, np.repeat(here, len(access.starts)), np.full(len(starts), number)))
        start, end, spot, access_of = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((spots.calls[spots.first_call[spots.first_line[spot]]], start))
        access_of = access_of[order]
        return _Runs(start[order], end[order], spot[order], access_of, self.writes[access_of])

    def _with_itself(self, spots: Spots, runs: "_Runs", meets: Meetings) -> Meetings:
        """Add accesses that write and are called several times with the same bytes."""
        calls = spots.first_call[spots.first_line[1:]] - spots.first_call[spots.first_line[:-1]]
        at = np.flatnonzero(runs.writes & (calls[runs.spot] > 1))
        access, spot = runs.access[at], runs.spot[at]
        again = Meetings(access, spot, access, spot, runs.start[at], runs.end[at] - 1, np.ones(len(at), np.int64))
        again = _once(again, len(self.all))
        names = Meetings.__slots__
        return Meetings(*(np.concatenate([getattr(part, name) for part in (meets, again)]) for name in names))


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs of bytes of one tensor, in order of address: where, of which spot and access."""

    start: Ints
    end: Ints
    spot: Ints
    access: Ints
    writes: NDArray[np.bool_]


def _overlapping(runs: _Runs) -> tuple[Ints, Ints]:
    """Runs that overlap and of which one writes: each with those behind it in order of address, while any does."""
    ones, others = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for step in range(1, min(MOST_DEEP, len(runs.start) - 1) + 1):
        touches = runs.start[step:] < runs.end[:-step]
        if not touches.any():
            break
        same = (runs.spot[step:] == runs.spot[:-step]) & (runs.access[step:] == runs.access[:-step])
        at = np.flatnonzero(touches & (runs.writes[step:] | runs.writes[:-step]) & ~same)
        ones.append(at)
        others.append(at + step)
    return np.concatenate(ones), np.concatenate(others)


def _once(meets: Meetings, accesses: int) -> Meetings:
    """Each pair of accesses at two spots once, with the number of runs."""
    if not len(meets):
        return meets
    one, other = (
        spot * accesses + access for spot, access in ((meets.one_spot, meets.one), (meets.other_spot, meets.other))
    )
    low, high = np.minimum(one, other), np.maximum(one, other)
    order = np.lexsort((high, low))
    new = np.ones(len(order), np.bool_)
    new[1:] = (low[order][1:] != low[order][:-1]) | (high[order][1:] != high[order][:-1])
    at = np.flatnonzero(new)
    first = np.minimum.reduceat(order, at)
    counts = np.diff(np.append(at, len(order)))
    by_address = np.argsort(first)
    found = meets.only(first[by_address])
    found.count[:] = counts[by_address]
    return found


def _runs_of(lanes: Bytes) -> tuple[Ints, Ints]:
    """Where runs of bytes begin and end."""
    if isinstance(lanes, slice):
        return np.array([lanes.start], np.int64), np.array([lanes.stop], np.int64)
    gaps = np.diff(lanes) > 1
    return lanes[np.append(True, gaps)], lanes[np.append(gaps, True)] + 1


def kinds(pairs: GmPairs, more: tuple[Ints, ...]) -> Iterator[tuple[GmPair, int]]:
    """Yield the first of all pairs of the same two accesses that also agree in `more`, and how many there are."""
    if not len(pairs):
        return
    key = np.stack([pairs.first, pairs.second, *more])
    order = np.lexsort((pairs.second_call, pairs.first_call))
    _, at, kind = np.unique(key[:, order], axis=1, return_index=True, return_inverse=True)
    counts = np.bincount(kind.reshape(-1), weights=pairs.count[order]).astype(np.int64)
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
