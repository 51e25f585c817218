"""What happened before what between cores: flags that one core sets and another waits for.

A row of one core comes before a row of another if a set behind the first, on a pipe that knows it to be finished,
leads over waits and sets to a wait in front of the second. Each wait has a clock: for every core and pipe that sets
flags, how many of its sets have happened then. Which sets are behind a row and which waits are in front of one follows
from `history`; sets and waits pair by their number, whatever the timeline says.

A pipe sets its flags in order: whatever is in front of one of its sets is in front of the next, too. So of a row only
the first set behind it on each pipe counts, and the last wait in front of it on each.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks.accesses import Site
from ascendsim.checks.history import History, Rows
from ascendsim.checks.order import Order
from ascendsim.cross import CrossFlag, groups_of
from ascendsim.isa.instruction import Row
from ascendsim.program import CROSS, Program
from ascendsim.terms import CrossMode, Pipe

Ints = NDArray[Any]
Lane = tuple[int, Pipe]
"""A core, and a pipe of it that sets flags."""
NEVER = np.iinfo(np.int32).max
"""Number of a set that does not come."""
FAR = 1 << 40
"""More accesses than a pipe runs: cores lie so far apart where all are searched at once."""


@dataclass(slots=True, eq=False)
class Event:
    """A set or wait of a core.

    Attributes:
        place: the how-many-th call of its core, and the row in it: order of the program.
        site: template and row.
        flag: which flag.
        is_set: whether it sets.
        number: how many of the same flag the core has set, or waited for, before.
        at: its number among all sets and waits, core by core in program order.
        on_lane: of a set how many of the same pipe are before it.
        clock: of a set what is known when it is set, itself included; of a wait behind it. None until it has run.
    """

    core: int
    place: tuple[int, int]
    site: Site
    row: Row
    flag: CrossFlag
    is_set: bool
    number: int
    at: int
    on_lane: int
    clock: Ints | None = None


@dataclass(frozen=True, slots=True)
class Marks:
    """What is known of rows between cores; arrays of one length, or with an axis for pipes in front.

    Attributes:
        core: of each.
        runs: whether its core's own flags let it run.
        behind: by pipe that sets: the number of the first set of its core behind it, or NEVER.
        in_front: by pipe that waits: the last wait of its core in front of it, among all sets and waits, or -1.
    """

    core: Ints
    runs: NDArray[np.bool_]
    behind: Ints
    in_front: Ints

    def only(self, chosen: Ints) -> "Marks":
        """Return some of them."""
        return Marks(self.core[chosen], self.runs[chosen], self.behind[:, chosen], self.in_front[:, chosen])


@dataclass(slots=True)
class _Core:
    """One core: its events."""

    events: list[Event] = field(default_factory=list)
    lanes: dict[Pipe, list[Event]] = field(default_factory=lambda: defaultdict(list))
    waits: dict[Pipe, list[Event]] = field(default_factory=lambda: defaultdict(list))
    begun: int = 0
    """Events before this one have run."""


class Between:
    """Sets and waits of all cores, run as far as they can."""

    def __init__(self, program: Program, order: Order, calls_of: list[Ints], history: History) -> None:
        """Pair the flags.

        Args:
            program: the program.
            order: on one core.
            calls_of: of each core its calls, in order.
            history: of its cores.
        """
        self._program = program
        self._pipes = order.pipes
        self._history = history
        self._cores = [_Core() for _ in calls_of]
        self.setters: dict[tuple[CrossMode, int], tuple[int, ...]] = {}
        for mode in CrossMode:
            for setters, waiters in groups_of(mode, program.kernel_type, program.block_dim):
                self.setters |= {(mode, core): setters for core in waiters}
        self.sets: dict[tuple[CrossFlag, int], list[Event]] = defaultdict(list)
        self.waits: dict[tuple[CrossFlag, int], list[Event]] = defaultdict(list)
        self._find_events(program, calls_of)
        self._lane: dict[Lane, int] = {}
        for number, core in enumerate(self._cores):
            for pipe in core.lanes:
                self._lane[number, pipe] = len(self._lane)
        self._all = [event for core in self._cores for event in core.events]
        self._clocks = np.zeros((len(self._all), len(self._lane)), np.int32)
        self._look_up(calls_of)
        self._sources: dict[tuple[CrossFlag, int], list[list[Event]]] = {}
        """By flag and waiter: the sets of each core that has to set it."""
        self._joined: dict[tuple[CrossFlag, tuple[int, ...], int], Ints] = {}
        self._run()

    @property
    def events(self) -> list[list[Event]]:
        """Of each core, in program order."""
        return [core.events for core in self._cores]

    @property
    def held(self) -> list[Event]:
        """Of each core that does not come to its end the first wait that holds it."""
        first = (next((e for e in core.events[core.begun :] if e.clock is None), None) for core in self._cores)
        return [event for event in first if event is not None]

    def most_pending(self, flag: CrossFlag, waiter: int) -> tuple[int, Event | None]:
        """Return how many sets of a flag can be ahead of a core's waits for it, and the last of those sets.

        A set can be ahead of a wait if it depends on nothing that the waiter does behind that wait.
        """
        waits = _at(self.waits.get((flag, waiter), []))
        setters = [_at(self.sets.get((flag, setter), [])) for setter in self.setters.get((flag.mode, waiter), ())]
        if not setters or not all(map(len, setters)):
            return 0, None
        counts = np.full(len(waits) + 1, min(len(sets) for sets in setters))
        for pipe, mine in self._cores[waiter].lanes.items():
            issued = np.searchsorted(_at(mine), waits)
            for sets in setters:
                needs = self._clocks[sets[self._has_run[sets]], self._lane[waiter, pipe]]
                counts[:-1] = np.minimum(counts[:-1], np.searchsorted(needs, issued, side="right"))
        pending = counts - np.arange(len(waits) + 1)
        at = int(pending.argmax())
        if pending[at] <= 0:
            return 0, None
        return int(pending[at]), self._all[int(setters[0][int(counts[at]) - 1])]

    def _find_events(self, program: Program, calls_of: list[Ints]) -> None:
        rows_of = [
            [(at, row, _flag_of(row)) for at, row in enumerate(t.rows) if row.op.name in CROSS]
            for t in program.templates
        ]
        templates = program.calls["template"]
        has_events = np.array([bool(rows) for rows in rows_of], np.bool_)
        count = 0
        for number, (core, calls) in enumerate(zip(self._cores, calls_of, strict=True)):
            for call in np.flatnonzero(has_events[templates[calls]]).tolist():
                template = int(templates[calls[call]])
                for at, row, flag in rows_of[template]:
                    is_set = row.op.name == CROSS[0]
                    same = (self.sets if is_set else self.waits)[flag, number]
                    lane = (core.lanes if is_set else core.waits)[row.pipe]
                    place = (call, at), (template, at)
                    event = Event(number, *place, row, flag, is_set, len(same), count, len(lane))
                    for line in (same, lane, core.events):
                        line.append(event)
                    count += 1

    def _look_up(self, calls_of: list[Ints]) -> None:
        """Find the waits in front of each event, and lay out sets and waits for rows to be compared with."""
        events = self._all
        self._core_of = np.array([e.core for e in events], np.int64)
        self._is_set = np.array([e.is_set for e in events], np.bool_)
        self._has_run = np.zeros(len(events), np.bool_)
        calls = np.array([calls_of[e.core][e.place[0]] for e in events], np.int64)
        rows = self._history.rows(calls, np.array([e.place[1] for e in events], np.int64))
        self._event_pipe, self._runs = rows.pipe, rows.row >= 0
        ends = self._history.ends(rows)
        every = range(len(self._pipes))
        self._wait_pipes = [p for p in every if (~self._is_set & (self._event_pipe == p)).any()]
        self._set_pipes = [p for p in every if (self._is_set & (self._event_pipe == p)).any()]
        self._waits_on = [self._sorted(~self._is_set, p, ends) for p in self._wait_pipes]
        self._in_front = self._waits_in_front(rows).T.tolist()
        known = [self._history.issued(rows, p) for p in every]
        self._sets_on = [[self._sorted(self._is_set, lane, known[p]) for p in every] for lane in self._set_pipes]
        self._lanes_of = np.full((len(self._set_pipes), len(calls_of)), -1, np.int64)
        for (core, pipe), lane in self._lane.items():
            self._lanes_of[self._set_pipes.index(self._pipes.index(pipe)), core] = lane

    def _sorted(self, chosen: NDArray[np.bool_], p: int, place: Ints) -> "_Sorted":
        """Events of a pipe that run, core by core in program order, by a place that grows with them."""
        here = np.flatnonzero(chosen & self._runs & (self._event_pipe == p))
        core = self._core_of[here]
        return _Sorted(core * FAR + place[here], np.searchsorted(core, np.arange(len(self._cores) + 1)), here)

    # ---- sets and waits run ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        moved = True
        while moved:
            moved = sum(self._advance(core) for core in self._cores) > 0

    def _advance(self, core: _Core) -> bool:
        """Run what a core can; a wait that holds its pipe holds what that pipe sets later, one on S everything."""
        moved, held = False, set[Pipe]()
        for number in range(core.begun, len(core.events)):
            event = core.events[number]
            if event.clock is not None or event.row.pipe in held:
                continue
            if not event.is_set and not self._is_up(event):
                held.add(event.row.pipe)
                if event.row.pipe is Pipe.S:
                    break
                continue
            event.clock = self._clock(event)
            self._has_run[event.at] = True
            moved = True
        while core.begun < len(core.events) and core.events[core.begun].clock is not None:
            core.begun += 1
        return moved

    def _sets_of(self, wait: Event) -> list[list[Event]]:
        """The sets of each core that has to set what an event waits for."""
        key = (wait.flag, wait.core)
        if key not in self._sources:
            setters = self.setters.get((wait.flag.mode, wait.core), ())
            self._sources[key] = [self.sets.get((wait.flag, setter), []) for setter in setters]
        return self._sources[key]

    def _is_up(self, wait: Event) -> bool:
        sources, number = self._sets_of(wait), wait.number
        return bool(sources) and all(len(sets) > number and sets[number].clock is not None for sets in sources)

    def _clock(self, event: Event) -> Ints:
        clock = self._clocks[event.at]
        for one in self._in_front[event.at]:
            if one >= 0:
                np.maximum(clock, self._clocks[one], out=clock)
        if event.is_set:
            clock[self._lane[event.core, event.row.pipe]] = event.on_lane + 1
        else:
            np.maximum(clock, self._join(event), out=clock)
        return np.asarray(clock)

    def _join(self, wait: Event) -> Ints:
        """What the sets that a wait takes know together; many cores may wait for the same."""
        sources = self._sets_of(wait)
        if len(sources) == 1:
            return np.asarray(self._clocks[sources[0][wait.number].at])
        key = (wait.flag, self.setters[wait.flag.mode, wait.core], wait.number)
        if key not in self._joined:
            self._joined[key] = np.max(self._clocks[[sets[wait.number].at for sets in sources]], axis=0)
        return self._joined[key]

    # ---- rows and events ------------------------------------------------------------------------------------------

    def marks(self, rows: Rows) -> Marks:
        """Return what is known of rows between cores."""
        core = self._program.calls["core"][rows.call]
        return Marks(core, rows.row >= 0, self._sets_behind(rows), self._waits_in_front(rows))

    def is_before(self, first: Marks, second: Marks) -> NDArray[np.bool_]:
        """Whether rows of one core are finished when rows of others begin, one by one.

        True, too, where it cannot be told, because a core's own flags never let the first run.
        """
        found = ~first.runs
        for number, lanes in zip(first.behind, self._lanes_of, strict=True):
            lane = lanes[first.core]
            has_set = (lane >= 0) & (number < NEVER)
            for wait in second.in_front:
                at = np.flatnonzero(has_set & (wait >= 0) & ~found)
                found[at] = self._clocks[wait[at], lane[at]] > number[at]
        return found

    def how_many_before(self, ones: Marks, others: Marks) -> Ints:
        """How many rows of one core are before each of another's; both in program order, of one pipe each."""
        most = np.zeros(len(others.core), np.int64)
        for number, lanes in zip(ones.behind, self._lanes_of, strict=True):
            lane = int(lanes[ones.core[0]]) if len(ones.core) else -1
            for wait in others.in_front if lane >= 0 else ():
                known = np.where(wait >= 0, self._clocks[wait, lane], 0)
                np.maximum(most, np.searchsorted(number, known, "left"), out=most)
        return most

    def _sets_behind(self, rows: Rows) -> Ints:
        core = self._program.calls["core"][rows.call]
        ends = core * FAR + self._history.ends(rows)
        found = np.full((len(self._set_pipes), len(core)), NEVER, np.int64)
        for p in np.unique(rows.pipe).tolist():
            here = np.flatnonzero(rows.pipe == p)
            for behind, sets_on in zip(found, self._sets_on, strict=True):
                behind[here] = sets_on[p].first_from(ends[here], core[here])
        return found

    def _waits_in_front(self, rows: Rows) -> Ints:
        core = self._program.calls["core"][rows.call]
        found = np.full((len(self._wait_pipes), len(core)), -1, np.int64)
        for in_front, p, waits in zip(found, self._wait_pipes, self._waits_on, strict=True):
            in_front[:] = waits.last_until(core * FAR + self._history.issued(rows, p), core)
        return found


def _at(events: list[Event]) -> Ints:
    """Numbers of events among all."""
    return np.array([event.at for event in events], np.int64)


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Events in order.

    Attributes:
        place: of each, all cores one behind the other.
        first: of each core, and the end.
        event: its number among all.
    """

    place: Ints
    first: Ints
    event: Ints

    def first_from(self, place: Ints, core: Ints) -> Ints:
        """The how-many-th of its core is the first event that is not in front of a place, or NEVER."""
        at = np.searchsorted(self.place, place, "left")
        return np.where(at < self.first[core + 1], at - self.first[core], NEVER)

    def last_until(self, place: Ints, core: Ints) -> Ints:
        """The last event of its core that is not behind a place, or -1."""
        at = np.searchsorted(self.place, place, "right") - 1
        if not len(self.event):
            return np.full(len(at), -1)
        return np.where(at >= self.first[core], self.event[np.maximum(at, 0)], -1)


def _flag_of(row: Row) -> CrossFlag:
    return CrossFlag(CrossMode(row.param("mode")), row.param("flag_id"))
