"""What happened before what between cores: flags that one core sets and another waits for.

A row of one core comes before a row of another if a set behind the first, on a pipe that knows it to be finished,
leads over waits and sets to a wait in front of the second. Each wait has a clock: for every core and pipe that sets
flags, how many of its sets have happened then. Which sets are behind a row and which waits are in front of one `order`
says, once for each template and state; sets and waits pair by their number, whatever the timeline says.

A pipe sets its flags in order: whatever is in front of one of its sets is in front of the next, too.
"""

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks.order import Order, Site
from ascendsim.cross import CrossFlag, groups_of
from ascendsim.isa.instruction import Row
from ascendsim.program import Program
from ascendsim.terms import CrossMode, Pipe

Ints = NDArray[Any]
Lane = tuple[int, Pipe]
"""A core, and a pipe of it that sets flags."""
MOST_BACK = 4
"""How many waits of another pipe are tried, back from a row, for one that it is behind."""


@dataclass(slots=True, eq=False)
class Event:
    """A set or wait of a core.

    Attributes:
        place: the how-many-th call of its core, and the row in it: order of the program.
        site: template and row.
        flag: which flag.
        number: how many of the same flag the core has set, or waited for, before.
        index: how many sets and waits of the core are before it.
        on_lane: of a set how many of the same pipe are before it.
        clock: of a set what is known when it is set, itself included; of a wait behind it. None until it has run.
    """

    core: int
    place: tuple[int, int]
    site: Site
    row: Row
    flag: CrossFlag
    number: int
    index: int
    on_lane: int
    clock: Ints | None = None

    @property
    def is_set(self) -> bool:
        """Whether it sets."""
        return self.row.op.name == "cross_core_set_flag"


@dataclass(slots=True)
class _Core:
    """One core: its templates, the states in which its calls begin, its events."""

    templates: list[int]
    states: list[int]
    key: int
    """Equal for cores that call the same templates."""
    events: list[Event] = field(default_factory=list)
    lanes: dict[Pipe, list[Event]] = field(default_factory=lambda: defaultdict(list))
    waits: dict[Pipe, list[Event]] = field(default_factory=lambda: defaultdict(list))
    begun: int = 0
    """Events before this one have run."""


class Between:
    """Sets and waits of all cores, run as far as they can."""

    def __init__(self, program: Program, order: Order, calls_of: list[Ints], state_of: Ints) -> None:
        """Pair the flags.

        Args:
            program: the program.
            order: on one core.
            calls_of: of each core its calls, in order.
            state_of: in which each call begins.
        """
        self._order = order
        keys: dict[bytes, int] = {}
        self._cores = []
        for calls in calls_of:
            templates = program.calls["template"][calls]
            key = keys.setdefault(templates.tobytes(), len(keys))
            self._cores.append(_Core(templates.tolist(), state_of[calls].tolist(), key))
        self._behind: dict[tuple[int, int, int], dict[Pipe, int] | None] = {}
        self._front: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self.setters: dict[tuple[CrossMode, int], tuple[int, ...]] = {}
        for mode in CrossMode:
            for setters, waiters in groups_of(mode, program.kernel_type, program.block_dim):
                self.setters |= {(mode, core): setters for core in waiters}
        self.sets: dict[tuple[CrossFlag, int], list[Event]] = defaultdict(list)
        self.waits: dict[tuple[CrossFlag, int], list[Event]] = defaultdict(list)
        self._find_events(program)
        self._lane: dict[Lane, int] = {}
        for number, core in enumerate(self._cores):
            for pipe in core.lanes:
                self._lane[number, pipe] = len(self._lane)
        self._joined: dict[tuple[CrossFlag, tuple[int, ...], int], Ints] = {}
        self._done: dict[tuple[CrossFlag, int], int] = defaultdict(int)
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
        lanes = [self._lane[waiter, pipe] for pipe in self._cores[waiter].lanes]
        mine = [self._cores[waiter].lanes[pipe] for pipe in self._cores[waiter].lanes]
        waits = self.waits.get((flag, waiter), [])
        issued = np.array([[bisect_left(sets, w.place, key=lambda one: one.place) for sets in mine] for w in waits])
        most, last = 0, None
        setters = [self.sets.get((flag, setter), []) for setter in self.setters.get((flag.mode, waiter), ())]
        if not setters or not all(setters):
            return 0, None
        counts = np.full(len(waits) + 1, min(len(sets) for sets in setters))
        for sets in setters:
            for lane, number in zip(lanes, range(len(lanes)), strict=True):
                needs = np.array([s.clock[lane] for s in sets if s.clock is not None])
                if len(waits):
                    counts[:-1] = np.minimum(counts[:-1], np.searchsorted(needs, issued[:, number], side="right"))
        pending = counts - np.arange(len(waits) + 1)
        at = int(pending.argmax())
        if pending[at] > 0:
            most, last = int(pending[at]), setters[0][int(counts[at]) - 1]
        return most, last

    def _find_events(self, program: Program) -> None:
        rows_of = [
            [(at, row, _flag_of(row)) for at, row in enumerate(t.rows) if row.op.name.startswith("cross_core_")]
            for t in program.templates
        ]
        for number, core in enumerate(self._cores):
            for call, template in enumerate(core.templates):
                for at, row, flag in rows_of[template]:
                    event = Event(number, (call, at), (template, at), row, flag, 0, len(core.events), 0)
                    same = (self.sets if event.is_set else self.waits)[flag, number]
                    event.number = len(same)
                    same.append(event)
                    core.events.append(event)
                    lane = (core.lanes if event.is_set else core.waits)[row.pipe]
                    event.on_lane = len(lane)
                    lane.append(event)

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
            self._done[event.flag, event.core] += event.is_set
            moved = True
        while core.begun < len(core.events) and core.events[core.begun].clock is not None:
            core.begun += 1
        return moved

    def _is_up(self, wait: Event) -> bool:
        setters = self.setters.get((wait.flag.mode, wait.core), ())
        return bool(setters) and all(self._done[wait.flag, setter] > wait.number for setter in setters)

    def _clock(self, event: Event) -> Ints:
        before = self._clock_before(event.core, event.place)
        if event.is_set:
            clock = before.copy()
            clock[self._lane[event.core, event.row.pipe]] = event.on_lane + 1
            return clock
        key = (event.flag, self.setters[event.flag.mode, event.core], event.number)
        if key not in self._joined:
            clocks = [self.sets[event.flag, setter][event.number].clock for setter in key[1]]
            self._joined[key] = np.maximum.reduce([c for c in clocks if c is not None])
        return np.maximum(before, self._joined[key])

    # ---- rows and events ------------------------------------------------------------------------------------------

    def is_before(self, first: tuple[int, int, int], second: tuple[int, int, int]) -> bool:
        """Whether a row of one core, as (core, call of the core, row), is finished when one of another begins.

        True, too, where it cannot be told, because a core's own flags never let the first run.
        """
        behind = self._sets_behind(*first)
        if behind is None:
            return True
        clock = self._clock_before(second[0], second[1:])
        return any(clock[self._lane[first[0], pipe]] > number for pipe, number in behind.items())

    def _clock_before(self, core: int, place: tuple[int, int]) -> Ints:
        """What a row knows of sets when it begins."""
        clock = np.zeros(len(self._lane), np.int32)
        events = self._cores[core].events
        for number in self._waits_before(core, *place):
            known = events[number].clock
            if known is not None:
                np.maximum(clock, known, out=clock)
        return clock

    def _waits_before(self, number: int, call: int, at: int) -> tuple[int, ...]:
        """The last waits that a row is behind, as places among its core's events."""
        core = self._cores[number]
        key = (core.key, call, at)
        if key not in self._front:
            found = []
            pipe = self._pipe_of(core, call, at)
            for waiting, waits in core.waits.items():
                last = bisect_left(waits, (call, at), key=lambda one: one.place)
                for one in reversed(waits[max(0, last - MOST_BACK) : last]):
                    if waiting in (Pipe.S, pipe) or self._knows(core, one.place, (call, at)):
                        found.append(one.index)
                        break
            self._front[key] = tuple(found)
        return self._front[key]

    def _pipe_of(self, core: _Core, call: int, at: int) -> Pipe:
        return self._order.accesses.program.templates[core.templates[call]].rows[at].pipe

    def _knows(self, core: _Core, wait: tuple[int, int], row: tuple[int, int]) -> bool:
        """Whether a row begins behind an earlier wait of another pipe of its core."""
        site = (core.templates[row[0]], row[1])
        tracked = self._order.track(core.states[wait[0]], core.templates[wait[0]], wait[1])
        for call in range(wait[0] + 1, row[0] + 1):
            tracked = self._order.track(tracked.after, core.templates[call])
        return site in tracked.knowing

    def _sets_behind(self, number: int, call: int, at: int) -> dict[Pipe, int] | None:
        """By pipe the first of its sets that a row is finished before; None if the row does not run."""
        core = self._cores[number]
        key = (core.key, call, at)
        if key not in self._behind:
            self._behind[key] = self._first_sets(core, call, at)
        return self._behind[key]

    def _first_sets(self, core: _Core, call: int, at: int) -> dict[Pipe, int] | None:
        tracked = self._order.track(core.states[call], core.templates[call], at)
        if not tracked.is_marked:
            return None
        found: dict[Pipe, int] = {}
        nexts = {pipe: bisect_left(sets, (call, at), key=lambda one: one.place) for pipe, sets in core.lanes.items()}
        for later in range(call, len(core.templates)):
            if later > call:
                tracked = self._order.track(tracked.after, core.templates[later])
            for pipe, sets in core.lanes.items():
                while pipe not in found and nexts[pipe] < len(sets) and sets[nexts[pipe]].place[0] <= later:
                    if sets[nexts[pipe]].site in tracked.knowing:
                        found[pipe] = nexts[pipe]
                    nexts[pipe] += 1
            if all(pipe in found or nexts[pipe] == len(sets) for pipe, sets in core.lanes.items()):
                break
        return found


def _flag_of(row: Row) -> CrossFlag:
    return CrossFlag(CrossMode(row.param("mode")), row.param("flag_id"))
