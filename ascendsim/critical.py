"""The critical path: which stretches of which rows make a run as long as it is, and what each had to wait for.

A pure function of a program, its timeline and its device. The walk begins where the last row is complete and goes back
from each stretch to what let it begin: the row before on its pipe, the scalar unit that put it into its pipe's queue,
the set of the flag it waited for, and so on (`Edge`). The contract in `engine/base.py` makes each of these an equation
between two times of the timeline, so the stretches join without gap or overlap and their lengths add up to the
makespan.

A row can stand twice on a path, on its own pipe and on the scalar unit that dispatched it; a transfer that had to share
its link has a stretch of its own for what the sharing added (`Edge.LINK`).

What comes behind a flag or barrier that was held, on its pipe, waited for the same: it has that one's edge, however
short the flag or barrier itself is and however many more stand between them.

Of several rows that are complete last, the path ends on the core that pictures show (`analysis.last_block`). Of several
that released a row in one cycle it follows the pipe's own order first, then the row that the engine names. Another path
of the same length may exist.

**Part of a run.** Where rows were not kept the walk cannot go on: what lies before is one step of no row, with
`Edge.UNKNOWN`. The end of a long run is kept, so its path is known from there back to the first row that is missing.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ascendsim.analysis import Rows, last_block
from ascendsim.device import Device
from ascendsim.engine.base import Kind, Timeline, Wait
from ascendsim.program import Program
from ascendsim.terms import CoreKind, Pipe

Ints = NDArray[Any]

_LANE_BITS = 44
"""A row's place on its lane takes fewer; the lane stands above."""


class Edge(StrEnum):
    """What a stretch of the path waited for before it began."""

    START = "start"
    """Nothing: it begins with the run."""
    PIPE = "pipe"
    """The row before it on its pipe."""
    SCALAR = "scalar"
    """On the scalar unit: what that did before."""
    DISPATCH = "dispatch"
    """Its pipe was free: the scalar unit had to issue it first."""
    QUEUE = "queue"
    """The scalar unit was stuck: the pipe's queue had no room."""
    FLAG = "flag"
    BUFFER = "buffer"
    """A flag of AllocTensor: no buffer of the queue was free."""
    BARRIER = "barrier"
    """All earlier rows of the pipe, or of the core, had to be complete."""
    CROSS = "cross"
    """A flag that other cores set; the time until it rises is part of the stretch."""
    UNIT = "unit"
    """L0C: Mmad had not made the result yet, or Fixpipe had not fetched the one before."""
    LINK = "link"
    """What sharing a link with others added to the transfer; it is the end of that transfer's stretch."""
    UNKNOWN = "unknown"
    """Rows that were not kept."""

    @property
    def words(self) -> str:
        """The edge in words."""
        return _WORDS[self]


_WORDS = {
    Edge.START: "begin of the run",
    Edge.PIPE: "pipe order",
    Edge.SCALAR: "scalar unit's order",
    Edge.DISPATCH: "dispatch",
    Edge.QUEUE: "pipe queue full",
    Edge.FLAG: "flag",
    Edge.BUFFER: "buffer not free",
    Edge.BARRIER: "barrier",
    Edge.CROSS: "cross-core flag",
    Edge.UNIT: "unit flag",
    Edge.LINK: "shared bandwidth",
    Edge.UNKNOWN: "rows not kept",
}

_OWN_ORDER = (Edge.PIPE, Edge.SCALAR)
_HELD = (Edge.FLAG, Edge.BUFFER, Edge.CROSS, Edge.BARRIER)
_EDGE_OF_FLAG = {Wait.FLAG: Edge.FLAG, Wait.BUFFER: Edge.BUFFER, Wait.CROSS_CORE: Edge.CROSS}


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch of the critical path.

    Attributes:
        row: number of the row, -1 where rows were not kept.
        begin_cycles, end_cycles: the stretch is [begin, end).
        edge: what it waited for before it began.
        core: core of the row, -1 where rows were not kept.
        pipe: where the stretch lies: the row's pipe, or S while that dispatches it.
    """

    row: int
    begin_cycles: int
    end_cycles: int
    edge: Edge
    core: int = -1
    pipe: Pipe = Pipe.S

    @property
    def cycles(self) -> int:
        """Its length."""
        return self.end_cycles - self.begin_cycles


def critical_path(program: Program, timeline: Timeline, device: Device) -> tuple[Step, ...]:
    """Return the critical path by time; its steps tile [0, makespan).

    Raises:
        ValueError: no engine made this timeline, its times do not follow from each other.
    """
    if timeline.makespan_cycles == 0:
        return ()
    return _Walk(program, timeline, device).path(last_block(program, timeline))


# ---- what it says -----------------------------------------------------------------------------------------------


Lane = tuple[CoreKind | None, Pipe]
"""A pipe on all cores of a kind; the scalar units of all kinds are one lane, (None, S)."""


@dataclass(frozen=True, slots=True)
class PathPlace:
    """What one instruction of one source line has of the path, over all its stretches.

    Attributes:
        kind: the kind of its cores; None on the scalar unit.
        pipe: where the stretches lie.
        name: the call; "dispatch" in front where the scalar unit puts it into a queue.
        line: source line.
        count: rows.
        cycles: of the path.
    """

    kind: CoreKind | None
    pipe: Pipe
    name: str
    line: str
    count: int
    cycles: int


@dataclass(frozen=True, slots=True)
class PathShares:
    """Cycles of the critical path; each dictionary adds up to the makespan, less `unknown_cycles`.

    Attributes:
        lanes: by pipe and edge, most cycles first.
        edges: by edge, most cycles first.
        lines: by source line, most cycles first.
        places: by pipe, instruction and line, most cycles first.
        unknown_cycles: begin of the run of which no path is known, because rows were not kept.
    """

    lanes: dict[Lane, dict[Edge, int]]
    edges: dict[Edge, int]
    lines: dict[str, int]
    places: tuple[PathPlace, ...]
    unknown_cycles: int


def path_shares(program: Program, timeline: Timeline, path: Sequence[Step]) -> PathShares:
    """Return what pipes, edges, lines and instructions have of a critical path."""
    rows = Rows(program, timeline)
    lanes: dict[Lane, Counter[Edge]] = defaultdict(Counter)
    places: Counter[tuple[CoreKind | None, Pipe, str, str]] = Counter()
    members: dict[tuple[CoreKind | None, Pipe, str, str], set[int]] = defaultdict(set)
    known = [step for step in path if step.edge is not Edge.UNKNOWN]
    for step in known:
        at = timeline.position(step.row)
        row = rows.row(at)
        kind = None if step.pipe is Pipe.S else program.core_kind(step.core)
        name = row.op.api if row.pipe is step.pipe else f"dispatch {row.op.api}"
        lanes[kind, step.pipe][step.edge] += step.cycles
        place = kind, step.pipe, name, program.lines[row.line]
        places[place] += step.cycles
        members[place].add(step.row)
    edges: Counter[Edge] = sum(lanes.values(), Counter())
    lines: Counter[str] = Counter()
    for place, cycles in places.items():
        lines[place[3]] += cycles
    ordered = sorted(lanes.items(), key=lambda lane: (-lane[1].total(), lane[0][1], str(lane[0][0])))
    return PathShares(
        lanes={lane: _descending(own) for lane, own in ordered},
        edges=_descending(edges),
        lines=_descending(lines),
        places=tuple(PathPlace(*p, len(members[p]), c) for p, c in _descending(places).items()),
        unknown_cycles=timeline.makespan_cycles - edges.total(),
    )


Key = TypeVar("Key")


def _descending(counts: Counter[Key]) -> dict[Key, int]:
    """Most first; of equal ones that which came first on the path."""
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


# ---- the walk ---------------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """Where the walk stands: a row, whether it is the row's dispatch that counts, and until when."""

    at: int
    """Position of the row in the timeline, -1 if it was not kept."""
    is_dispatch: bool
    until: int


class _Back(NamedTuple):
    """One step back: when the stretch begins, what it waited for, and where that is; None at the begin of the run."""

    begin: int
    edge: Edge
    to: _Place | None


_GONE = -1
_VISITS = 4
"""A walk comes to a row as work, as what is dispatched, and where its flag rises: never as often as this."""


class _Walk:
    """Walks a timeline from its end to its begin."""

    def __init__(self, program: Program, timeline: Timeline, device: Device) -> None:
        self._timeline = timeline
        self._block_cores = program.block_cores
        self._dispatch_cycles = device.scalar.dispatch_cycles.value
        self._depth: dict[Pipe, int] = {p: device.scalar.depth(p) for p in Pipe if p not in (Pipe.S, Pipe.ALL)}
        self._lanes = _Lanes(program, timeline)
        names = ("core", "pipe", "kind", "dispatched", "start", "occupied", "end", "waited_for", "wait_cycles")
        c = {name: timeline[name] for name in (*names, "released_by", "stuck_cycles", "stretch_cycles")}
        self._column = c

    def path(self, block: int) -> tuple[Step, ...]:
        """Return the steps that end on an AI Core or core, first ones first."""
        found: list[Step] = []
        passing: list[bool] = []
        place: _Place | None = self._last(block)
        left = _VISITS * len(self._timeline) + 1
        while place is not None:
            if place.at == _GONE:
                found.append(Step(-1, 0, place.until, Edge.UNKNOWN))
                passing.append(False)
                break
            back, left = self._back(place), left - 1
            if back.begin > place.until or left < 0:
                raise ValueError("the times of the timeline do not follow from each other")
            if back.begin < place.until:
                steps = self._steps(place, back)
                found += steps
                passing += [self._is_passing(place)] * len(steps)
            elif found and found[-1].edge in _OWN_ORDER and back.edge in _HELD:
                found[-1] = replace(found[-1], edge=back.edge)
            place = back.to
        if found and found[-1].edge not in (Edge.LINK, Edge.UNKNOWN):
            found[-1] = replace(found[-1], edge=Edge.START)
        return _handed_on(found[::-1], passing[::-1])

    def _is_passing(self, place: _Place) -> bool:
        """Whether a stretch is of a flag or barrier, so that what follows it waited for the same."""
        return not place.is_dispatch and self._get("kind", place.at) not in (Kind.EXEC, Kind.TRANSFER)

    def _last(self, block: int) -> _Place:
        """The row of an AI Core or core that is complete last: of several, that of the highest core and lowest pipe."""
        makespan, c = self._timeline.makespan_cycles, self._column
        last = np.flatnonzero((c["end"] == makespan) & (c["core"] // self._block_cores == block))
        order = np.lexsort((last, c["pipe"][last], -c["core"][last]))
        return _Place(int(last[order[0]]) if last.size else _GONE, is_dispatch=False, until=makespan)

    def _steps(self, place: _Place, back: _Back) -> list[Step]:
        """The stretch from `back` to `place`, last part first."""
        number, core = int(self._timeline["number"][place.at]), self._get("core", place.at)
        if place.is_dispatch:
            return [Step(number, back.begin, place.until, back.edge, core, Pipe.S)]
        whole = Step(number, back.begin, place.until, back.edge, core, Pipe(self._get("pipe", place.at)))
        shared = min(whole.cycles, self._shared(place))
        if not shared:
            return [whole]
        cut = place.until - shared
        parts = [replace(whole, begin_cycles=cut, edge=Edge.LINK)]
        return parts if shared == whole.cycles else [*parts, replace(whole, end_cycles=cut)]

    def _shared(self, place: _Place) -> int:
        """Cycles that sharing a link added to a row's stretch: they are the last ones before its occupancy ends."""
        occupied, stretch = self._get("occupied", place.at), self._get("stretch_cycles", place.at)
        return stretch if place.until >= occupied else max(0, place.until - (occupied - stretch))

    def _get(self, name: str, at: int) -> int:
        return int(self._column[name][at])

    def _at(self, number: int) -> int:
        return self._timeline.position(number) if number >= 0 else _GONE

    def _back(self, place: _Place) -> _Back:
        """One step back from a place."""
        at = place.at
        if place.is_dispatch:
            return self._of_dispatch(at)
        pipe, kind, waited = self._get("pipe", at), self._get("kind", at), Wait(self._get("waited_for", at))
        if kind == Kind.SET_FLAG and place.until > self._get("occupied", at):
            return self._of_drain(place)
        if kind == Kind.WAIT_FLAG and waited in _EDGE_OF_FLAG:
            return self._of_flag(at, _EDGE_OF_FLAG[waited])
        if kind == Kind.BARRIER and waited is Wait.BARRIER:
            release = self._get("start", at) + self._get("wait_cycles", at)
            return _Back(release, Edge.BARRIER, self._released(at, release))
        if waited is Wait.UNIT_FLAG:
            start = self._get("start", at)
            return _Back(start, Edge.UNIT, self._released(at, start))
        return self._of_scalar(at, self._get("start", at)) if pipe == Pipe.S else self._of_start(at)

    def _released(self, at: int, until: int) -> _Place:
        return _Place(self._at(self._get("released_by", at)), is_dispatch=False, until=until)

    def _of_flag(self, at: int, edge: Edge) -> _Back:
        """A wait that was held begins to count when its flag rises, or when another core has set it."""
        rise = self._get("start", at) + self._get("wait_cycles", at)
        by = self._at(self._get("released_by", at))
        raised = rise if by == _GONE else self._get("end", by)
        return _Back(raised, edge, _Place(by, is_dispatch=False, until=raised))

    def _of_drain(self, place: _Place) -> _Back:
        """A flag that rises later than its set leaves the pipe: an earlier row of the pipe was not complete."""
        at = place.at
        while at != _GONE:
            at = self._lanes.before(at, 1)
            if at != _GONE and self._get("end", at) == place.until:
                break
        return _Back(place.until, Edge.PIPE, _Place(at, is_dispatch=False, until=place.until))

    def _of_start(self, at: int) -> _Back:
        """A row that started when its pipe was free and the scalar unit had issued it."""
        start, before = self._get("start", at), self._lanes.before(at, 1)
        if before != _GONE and self._get("occupied", before) == start:
            return _Back(start, Edge.PIPE, _Place(before, is_dispatch=False, until=start))
        if self._get("dispatched", at) == start:
            return _Back(start, Edge.DISPATCH, _Place(at, is_dispatch=True, until=start))
        return _Back(start, Edge.PIPE, _Place(_GONE, is_dispatch=False, until=start))

    def _of_dispatch(self, at: int) -> _Back:
        """The scalar unit dispatches a row when it gets to it and the pipe's queue has room.

        The queue gets room when the pipe goes on to the first row in it: `depth` rows wait behind the one that leaves.
        """
        begun = self._get("dispatched", at) - self._dispatch_cycles
        if not self._get("stuck_cycles", at):
            return self._of_scalar(at, begun)
        leaves = self._lanes.before(at, self._depth[Pipe(self._get("pipe", at))] + 1)
        return _Back(begun, Edge.QUEUE, _Place(leaves, is_dispatch=False, until=begun))

    def _of_scalar(self, at: int, begin: int) -> _Back:
        """What the scalar unit did before it came to a row: run a row of its own, or dispatch one."""
        if begin == 0:
            return _Back(0, Edge.START, None)
        before = self._lanes.before_on_core(at)
        is_dispatch = before != _GONE and self._get("pipe", before) != Pipe.S
        return _Back(begin, Edge.SCALAR, _Place(before, is_dispatch=is_dispatch, until=begin))


def _handed_on(path: list[Step], passing: list[bool]) -> tuple[Step, ...]:
    """A path on which rows behind flags and barriers have the edge of what these waited for."""
    for i, is_passing in enumerate(passing[:-1]):
        if is_passing and path[i + 1].edge in _OWN_ORDER and path[i].edge in _HELD:
            path[i + 1] = replace(path[i + 1], edge=path[i].edge)
    return tuple(path)


class _Lanes:
    """The order of rows on their pipe and on their core, which is known of rows that were kept whatever is missing."""

    def __init__(self, program: Program, timeline: Timeline) -> None:
        self._calls = program.calls
        order = np.argsort(program.calls["core"], kind="stable")
        self._order, self._core_of = order, program.calls["core"][order]
        t = timeline
        template = program.calls["template"][t["call"]] if len(t) else np.zeros(0, np.int64)
        lengths = np.array([len(one) for one in program.templates], np.int64)
        self._on_core = _Keys(t["core"].astype(np.int64), self._first(lengths)[t["call"]] + t["row"])
        place = np.zeros(len(t), np.int64)
        row_start = np.concatenate([[0], np.cumsum(lengths)])[template] + t["row"]
        for pipe in np.unique(t["pipe"]).tolist():
            is_here = [one.columns["pipe"] == pipe for one in program.templates]
            inside = np.concatenate([np.cumsum(here) - here for here in is_here])
            first = self._first(np.array([int(here.sum()) for here in is_here], np.int64))
            here = t["pipe"] == pipe
            place[here] = first[t["call"][here]] + inside[row_start[here]]
        self._on_pipe = _Keys(t["core"].astype(np.int64) * len(Pipe) + t["pipe"], place)

    def _first(self, counts: Ints) -> Ints:
        """Of each call, how many rows its core has before it, given how many of them each template has."""
        own = counts[self._calls["template"][self._order]]
        before = np.cumsum(own) - own
        starts = np.flatnonzero(np.diff(self._core_of, prepend=-1))
        base = np.repeat(before[starts], np.diff(np.append(starts, len(own))))
        first = np.zeros(len(own), np.int64)
        first[self._order] = before - base
        return first

    def before(self, at: int, rows: int) -> int:
        """Return the position of the row so many before one on its pipe, -1 if there is none or it was not kept."""
        return self._on_pipe.before(at, rows)

    def before_on_core(self, at: int) -> int:
        """Return the position of the row before one in its core's order, -1 as `before`."""
        return self._on_core.before(at, 1)


class _Keys:
    """Positions of rows by lane and place on the lane."""

    def __init__(self, lane: Ints, place: Ints) -> None:
        self._key = (lane << _LANE_BITS) + place
        self._position = np.argsort(self._key)
        self._sorted = self._key[self._position]

    def before(self, at: int, rows: int) -> int:
        """Return the position of the row so many places before one on its lane, -1 if it is not there."""
        own = int(self._key[at])
        wanted = own - rows
        found = int(np.searchsorted(self._sorted, wanted))
        is_there = wanted >> _LANE_BITS == own >> _LANE_BITS and self._sorted[found] == wanted
        return int(self._position[found]) if is_there else _GONE
