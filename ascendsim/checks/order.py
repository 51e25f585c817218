"""What happened before what on one core: in-order pipes, flags, barriers.

Each pipe p keeps, for each pipe q, how many of q's accesses are finished before p's next row begins: a clock. A flag
carries the clock of the pipe that sets it to the pipe that waits for it; a barrier gives a pipe its own accesses; the
scalar unit finishes a row before it issues the next, and what it knows every row knows that it issues later. Two
accesses that meet and of which one writes are a clash unless the later one's pipe knows that the earlier is finished.

Rows are taken in program order; one whose pipe waits for a flag that is not set yet stays behind, and a scalar unit
that waits holds everything behind it. So they are taken in an order in which the hardware might run them.

A template is walked once for each state in which it is entered. A state holds only what later rows can still clash
with, numbered anew, so that a loop comes back to the same state after a few turns however long it is. What became of
the old numbers is noted beside it, so that `history` can say where in a core's whole past a row stands.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks.accesses import Access, Act, Site, Step, TemplateAccesses
from ascendsim.terms import Pipe

Clock = list[int]
Ints = NDArray[np.int64]
Flag = tuple[int, int]
"""Event and id."""

_DOWNSTREAM = (Pipe.FIX, Pipe.MTE3, Pipe.M, Pipe.V, Pipe.MTE1, Pipe.MTE2, Pipe.S)
"""Pipes from the end of the way that data take to its begin: a flag from the last one that is missing orders all."""
_FEW = 24
"""Open accesses up to which a loop is quicker than arrays."""


@dataclass(frozen=True, slots=True)
class Clash:
    """Two accesses of the same bytes, at least one of which writes, that nothing orders."""

    earlier: int
    later: int
    was_held: bool = False
    """Whether the later row stayed behind on its pipe: the kernel may have it first."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A flag that was set and not waited for, with what its setter knew."""

    site: Site
    clock: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """A row that its pipe has not come to, with what the scalar unit knew when it issued the row; None before."""

    template: int
    step: Step
    issued: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class State:
    """What of the past later rows can depend on; equal for equal futures.

    Attributes:
        awake: numbers of the pipes to which it matters what they know: those that have rows to come; the scalar unit
            if it is to touch memory or wait for a flag.
        is_behind: whether the scalar unit itself knows less than it says, which is what all others know.
    """

    awake: frozenset[int]
    is_behind: bool
    clocks: tuple[tuple[int, ...], ...]
    logs: tuple[tuple[int, ...], ...]
    pending: tuple[tuple[Flag, tuple[Pending, ...]], ...] = ()
    held: tuple[tuple[Pipe, tuple[Held, ...]], ...] = ()

    def marks(self) -> list[list[int]]:
        """Return by pipe the places that clocks name, and the end of its log."""
        clocks = [*self.clocks, *(p.clock for _, line in self.pending for p in line)]
        clocks += [h.issued for _, line in self.held for h in line if h.issued is not None]
        return _marks(clocks, self.logs)


@dataclass(frozen=True, slots=True)
class Shift:
    """Places in the logs of pipes, told by the marks of a state before: the `at`-th, and so many accesses `more`.

    The marks of a state are the places that its clocks name and the ends of its logs, pipe by pipe in ascending order.
    """

    at: Ints
    more: Ints


@dataclass(frozen=True, slots=True)
class Shared:
    """Rows that ran and that other cores can meet, pipe by pipe in the order in which they ran.

    Attributes:
        counts: how many there are of each pipe.
        begins, ends: of each row the place in the log of its pipe, before and behind its accesses.
        clocks: of each row and pipe, in a row each, what was known of the pipe when the row began.
    """

    counts: Ints
    begins: Shift
    ends: Shift
    clocks: Shift


@dataclass(frozen=True, slots=True)
class Outcome:
    """What walking a template from a state gave.

    Attributes:
        number: how many were found before it.
        doubled: flags that were set while an earlier set was pending: (the set's site, the pending one's).
        useful: flag waits and barriers after which a pipe knew more than before.
        idle: those after which it knew nothing new.
        trail: for `history`.
    """

    number: int
    after: int
    clashes: tuple[Clash, ...]
    doubled: tuple[tuple[Site, Site], ...]
    useful: frozenset[Site]
    idle: frozenset[Site]
    trail: "Trail"


@dataclass(frozen=True, slots=True)
class Trail:
    """What a walk leaves for `history`, which is seldom asked.

    Attributes:
        begin: the state in which it began.
        after: by pipe, the marks that became those of the next state.
        rows: by pipe, begin, end and clock of rows that other cores can meet.
    """

    begin: State
    after: list[list[int]]
    rows: list[list[tuple[int, ...]]]

    def carried(self) -> Shift:
        """Return the marks of the state afterwards."""
        pipe = np.repeat(np.arange(len(self.after)), [len(places) for places in self.after])
        return self._shift(pipe, np.array([place for places in self.after for place in places], np.int64))

    def shared(self) -> Shared:
        """Return the rows that ran and that other cores can meet."""
        pipes = len(self.rows)
        found = np.array([row for rows in self.rows for row in rows], np.int64).reshape(-1, 2 + pipes)
        counts = np.array([len(rows) for rows in self.rows], np.int64)
        own = np.repeat(np.arange(pipes), counts)
        every = np.broadcast_to(np.arange(pipes), (len(found), pipes))
        return Shared(
            counts, self._shift(own, found[:, 0]), self._shift(own, found[:, 1]), self._shift(every, found[:, 2:])
        )

    def _shift(self, pipe: Ints, place: Ints) -> Shift:
        """Places in the logs of pipes, which have grown since the begin.

        Where a clash ended a clock between two marks, the next counts, as the flag that is missing would name it.
        """
        at, more = np.zeros(place.shape, np.int64), np.zeros(place.shape, np.int64)
        first = 0
        for q, marks in enumerate(self.begin.marks()):
            here = pipe == q
            at[here] = first + np.searchsorted(marks, np.minimum(place[here], marks[-1]))
            more[here] = np.maximum(place[here] - marks[-1], 0)
            first += len(marks)
        return Shift(at, more)


class Order:
    """Walks cores; each template once for each state."""

    def __init__(
        self,
        accesses: TemplateAccesses,
        *,
        ordered_pipes: frozenset[Pipe] = frozenset(),
        pipes: tuple[Pipe, ...] | None = None,
    ) -> None:
        """Begin.

        Args:
            accesses: of the templates.
            ordered_pipes: those whose rows the hardware orders where they meet, one behind the other.
            pipes: those that templates use, the scalar unit first; None for those of the templates that are there.
        """
        self.accesses = accesses
        self.pipes = _pipes_of(accesses) if pipes is None else pipes
        self.states: list[State] = []
        self._numbers: dict[State, int] = {}
        self._known: dict[tuple[int, int], Outcome] = {}
        self._ordered = ordered_pipes
        self._awake: dict[int, frozenset[int]] = {}
        self.start = self.begin(frozenset(range(len(self.pipes))))

    def begin(self, awake: frozenset[int]) -> int:
        """Return the state in which a core begins on which these pipes are ever awake."""
        none = (0,) * len(self.pipes)
        return self._number(State(awake, False, (none,) * len(self.pipes), ((),) * len(self.pipes)))

    def walk(self, templates: list[int]) -> tuple[list[int], int]:
        """Walk the calls of a core; return the state before each and the one at the end."""
        last = self._last_awake(templates)
        asleep: dict[int, list[int]] = {}
        for pipe, at in last.items():
            asleep.setdefault(at, []).append(pipe)
        state, states = self.begin(frozenset(last)), []
        for at, template in enumerate(templates):
            states.append(state)
            state = self.outcome(state, template).after
            for pipe in asleep.get(at, ()):
                state = self.without(state, pipe)
        return states, state

    def _last_awake(self, templates: list[int]) -> dict[int, int]:
        """By pipe: the last of a core's calls in which it matters what the pipe knows."""
        last_call = {template: at for at, template in enumerate(templates)}
        last: dict[int, int] = {}
        for template, at in last_call.items():
            for pipe in self.awake_in(template):
                last[pipe] = max(at, last.get(pipe, 0))
        return last

    def without(self, state: int, asleep: int) -> int:
        """Return a state from which on a pipe is never awake again."""
        before = self.states[state]
        return self._number(replace(before, awake=before.awake - {asleep}))

    def awake_in(self, template: int) -> frozenset[int]:
        """Return the pipes to which it matters in a template what they know."""
        awake = self._awake.get(template)
        if awake is None:
            steps = self.accesses.steps[template]
            pipes = {step.pipe for step in steps if step.pipe is not Pipe.S or step.act in (Act.TOUCH, Act.WAIT)}
            awake = self._awake[template] = frozenset(n for n, pipe in enumerate(self.pipes) if pipe in pipes)
        return awake

    def outcome(self, state: int, template: int) -> Outcome:
        """Return what a template does from a state."""
        key = (state, template)
        known = self._known.get(key)
        if known is None:
            walk = _Walk(self.accesses, self.pipes, self.states[state], self._ordered)
            walk.take(template, self.accesses.steps[template])
            after, marks = walk.state()
            known = self._known[key] = Outcome(
                len(self._known),
                self._number(after),
                tuple(walk.clashes),
                tuple(walk.doubled),
                frozenset(walk.useful),
                frozenset(walk.idle - walk.useful),
                walk.trail(marks),
            )
        return known

    def _number(self, state: State) -> int:
        number = self._numbers.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
        return number


def _pipes_of(accesses: TemplateAccesses) -> tuple[Pipe, ...]:
    """Pipes that the program uses, the scalar unit first."""
    used = {step.pipe for steps in accesses.steps for step in steps}
    return (Pipe.S, *sorted(used - {Pipe.S}))


@dataclass(slots=True)
class _Walk:
    """One core's pipes on the way through a template. Pipes are counted in the order of `pipes`."""

    accesses: TemplateAccesses
    pipes: tuple[Pipe, ...]
    begin: State
    ordered: frozenset[Pipe]
    clashes: list[Clash] = field(default_factory=list)
    doubled: list[tuple[Site, Site]] = field(default_factory=list)
    useful: set[Site] = field(default_factory=set)
    idle: set[Site] = field(default_factory=set)
    _shared: list[list[tuple[int, ...]]] = field(default_factory=list)
    """By pipe: begin, end and clock of rows that other cores can meet."""
    _clocks: list[Clock] = field(default_factory=list)
    _logs: list[list[int]] = field(default_factory=list)
    _pending: dict[Flag, deque[Pending]] = field(default_factory=dict)
    _held: dict[Pipe, deque[Held]] = field(default_factory=dict)
    _is_behind: bool = False
    _index: dict[Pipe, int] = field(default_factory=dict)
    _downstream: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self._index = {pipe: i for i, pipe in enumerate(self.pipes)}
        self._downstream = tuple(self._index[pipe] for pipe in _DOWNSTREAM if pipe in self._index)
        self._clocks = [list(clock) for clock in self.begin.clocks]
        self._logs = [list(log) for log in self.begin.logs]
        self._shared = [[] for _ in self.pipes]
        self._pending = {flag: deque(waiting) for flag, waiting in self.begin.pending}
        self._held = {pipe: deque(rows) for pipe, rows in self.begin.held}
        self._is_behind = self.begin.is_behind

    def take(self, template: int, steps: Iterable[Step]) -> None:
        """Run the rows of a template, or leave them behind."""
        for step in steps:
            if self._held or (step.act is Act.WAIT and not self._pending.get(step.flag)):
                self._offer(Held(template, step, None))
            else:
                self._run(template, step, None)

    # ---- rows in the order in which they can run ----------------------------------------------------------------

    def _offer(self, row: Held) -> None:
        """Run a row now, or leave it behind on its pipe; a held scalar unit holds whatever it would issue."""
        stopped = self._held.get(Pipe.S)
        if stopped:
            stopped.append(row)
            return
        pipe = row.step.pipe
        line = self._held.get(pipe)
        if line or self._blocked(row):
            issued = row if pipe is Pipe.S else replace(row, issued=tuple(self._clocks[0]))
            self._held.setdefault(pipe, deque()).append(issued)
        else:
            self._run(row.template, row.step, row.issued)

    def _blocked(self, row: Held) -> bool:
        if row.step.act is Act.WAIT:
            return not self._pending.get(row.step.flag)
        return row.step.act is Act.BARRIER_ALL and any(self._held.values())

    def _wake(self) -> None:
        """Run what can run now that a flag is up."""
        moved = True
        while moved:
            moved = False
            for pipe in self.pipes:
                line = self._held.get(pipe)
                if line and not self._blocked_first(pipe, line):
                    row = line.popleft()
                    moved = True
                    if pipe is Pipe.S and row.step.pipe is not Pipe.S:
                        self._issue(row, line)
                    else:
                        self._run(row.template, row.step, row.issued)

    def _blocked_first(self, pipe: Pipe, line: deque[Held]) -> bool:
        row = line[0]
        if pipe is Pipe.S and row.step.pipe is not Pipe.S:
            return False
        if row.step.act is Act.BARRIER_ALL:
            return any(rows for other, rows in self._held.items() if other is not Pipe.S)
        return self._blocked(row)

    def _issue(self, row: Held, rest: deque[Held]) -> None:
        """The scalar unit goes on with a row of another pipe; what follows stays in its line."""
        del self._held[Pipe.S]
        self._offer(row)
        if rest:
            self._held[Pipe.S] = rest

    # ---- what a row does ----------------------------------------------------------------------------------------

    def _run(self, template: int, step: Step, issued: tuple[int, ...] | None) -> None:
        """Run a row; `issued` is what the scalar unit knew when it issued it, None for now."""
        p = self._index[step.pipe]
        self._learn(p, self._clocks[0] if issued is None else issued)
        begin, clock = len(self._logs[p]), tuple(self._clocks[p]) if step.is_shared else ()
        site = (template, step.at)
        if step.act is Act.TOUCH:
            self._touch(p, step, was_held=issued is not None)
        elif step.act is Act.CROSS_SET:
            pass  # `between` says what it orders
        elif step.act is Act.CROSS_WAIT:
            self._cross(p)
        elif step.act is Act.SET:
            self._set(p, site, step.flag)
            self._wake()
        elif step.act is Act.WAIT:
            taken = self._pending[step.flag].popleft()
            self._judge(site, self._learn(p, taken.clock))
        elif step.act is Act.BARRIER:
            self._judge(site, self._learn_own(p, p))
        else:
            news = [self._learn_own(0, q) for q in range(len(self.pipes))]
            self._judge(site, any(news) or self._is_behind)
            self._is_behind = False
        if step.is_shared:
            self._shared[p].append((begin, len(self._logs[p]), *clock))

    def _cross(self, p: int) -> None:
        """A pipe has waited for another core: an access of no bytes says what is behind it."""
        self._logs[p].append(self.accesses.crossed)
        if p == 0:
            self._clocks[0][0] = len(self._logs[0])

    def _judge(self, site: Site, news: bool) -> None:
        (self.useful if news else self.idle).add(site)

    def _learn(self, p: int, clock: Iterable[int]) -> bool:
        """A pipe comes to know a clock; whether that says anything new."""
        mine, news = self._clocks[p], False
        for q, known in enumerate(clock):
            if known > mine[q]:
                mine[q] = known
                news = True
        return news

    def _learn_own(self, p: int, q: int) -> bool:
        """Everything that pipe q has run so far is finished for pipe p."""
        news = len(self._logs[q]) > self._clocks[p][q]
        self._clocks[p][q] = len(self._logs[q])
        return news

    def _set(self, p: int, site: Site, flag: Flag) -> None:
        clock = list(self._clocks[p])
        clock[p] = len(self._logs[p])
        waiting = self._pending.setdefault(flag, deque())
        if waiting:
            self.doubled.append((site, waiting[-1].site))
        waiting.append(Pending(site, tuple(clock)))

    def _touch(self, p: int, step: Step, *, was_held: bool) -> None:
        open_pipes = [q for q in self._downstream if self._is_open(p, q)]
        for number in step.accesses if open_pipes else ():
            for q in open_pipes:
                if self._is_open(p, q):
                    self._compare(p, q, number, was_held=was_held)
        self._logs[p] += step.accesses
        if p == 0:
            self._clocks[0][0] = len(self._logs[0])

    def _is_open(self, p: int, q: int) -> bool:
        """Whether pipe q has run what pipe p does not know to be finished."""
        return self._clocks[p][q] < len(self._logs[q]) and (p != q or self.pipes[p] not in self.ordered)

    def _compare(self, p: int, q: int, number: int, *, was_held: bool) -> None:
        """Look for the last access of pipe q that is open to pipe p and clashes.

        After it all count as finished, with what pipe q knows, as they would behind the flag that is missing.
        """
        log, known = self._logs[q], self._clocks[p][q]
        for at in self._candidates(log, known, number):
            if self._clash(p == q, log[at], number):
                self.clashes.append(Clash(log[at], number, was_held))
                self._clocks[p][q] = at + 1
                self._learn(p, self._clocks[q])
                return

    def _candidates(self, log: list[int], known: int, number: int) -> Iterable[int]:
        """Places in a log from the last back to `known` whose ranges overlap that of an access."""
        access = self.accesses.all[number]
        if len(log) - known <= _FEW:
            return _overlapping(self.accesses.all, log, known, access)
        first, end, writes = self.accesses.edges[:, np.array(log[known:], np.int64)]
        found = (first < access.end) & (end > access.first)
        if not access.writes:
            found &= writes > 0
        places: list[int] = (known + np.flatnonzero(found)[::-1]).tolist()
        return places

    def _clash(self, same_pipe: bool, earlier: int, later: int) -> bool:
        """Whether two accesses clash. On one pipe a row reads before a later one writes."""
        first, second = self.accesses.all[earlier], self.accesses.all[later]
        if not (first.writes if same_pipe else first.writes or second.writes):
            return False
        return self.accesses.meet(earlier, later)

    # ---- the state afterwards -----------------------------------------------------------------------------------

    def state(self) -> tuple[State, list[list[int]]]:
        """Return what of all this later rows can depend on, numbered anew, and by pipe what its marks were."""
        self._forget_sleepers()
        marks = self._named()
        renumber, logs = [], []
        for log, places in zip(self._logs, marks, strict=True):
            numbers, kept = _shortened(log, places)
            renumber.append(numbers)
            logs.append(kept)

        def anew(clock: Iterable[int]) -> tuple[int, ...]:
            return tuple(numbers[known] for numbers, known in zip(renumber, clock, strict=True))

        after = State(
            self.begin.awake,
            self._is_behind,
            tuple(anew(clock) for clock in self._clocks),
            tuple(logs),
            tuple(
                (flag, tuple(Pending(p.site, anew(p.clock)) for p in line))
                for flag, line in sorted(self._pending.items())
                if line
            ),
            tuple(
                (pipe, tuple(_held_anew(h, anew) for h in line)) for pipe, line in sorted(self._held.items()) if line
            ),
        )
        return after, marks

    def _forget_sleepers(self) -> None:
        """Let pipes that do nothing with what they know count as if they knew all; what they lack kept rows alive.

        The scalar unit hands what it knows to every row that it issues: it may know what all the others know.
        """
        awake = [clock for p, clock in enumerate(self._clocks) if p in self.begin.awake]
        for p in range(1, len(self._clocks)):
            if p not in self.begin.awake:
                self._clocks[p] = [len(log) for log in self._logs]
        if 0 not in self.begin.awake and awake:
            known = [min(clock[q] for clock in awake) for q in range(len(self._logs))]
            self._is_behind |= self._learn(0, known)

    def _named(self) -> list[list[int]]:
        """By pipe: the places that clocks name, and the end of its log."""
        clocks = [*map(tuple, self._clocks), *(p.clock for line in self._pending.values() for p in line)]
        clocks += [h.issued for line in self._held.values() for h in line if h.issued is not None]
        return _marks(clocks, self._logs)

    def trail(self, marks: list[list[int]]) -> "Trail":
        """Return what `history` needs, given the marks of the state afterwards."""
        return Trail(self.begin, marks, self._shared)


def _marks(clocks: Sequence[tuple[int, ...]], logs: Sequence[Sequence[int]]) -> list[list[int]]:
    """By pipe: the places in its log that clocks name, and the log's end."""
    named = zip(*clocks, strict=True)
    return [sorted({len(log), *places}) for log, places in zip(logs, named, strict=True)]


def _overlapping(accesses: list[Access], log: list[int], known: int, access: Access) -> Iterator[int]:
    first, end = access.first, access.end
    for at in range(len(log) - 1, known - 1, -1):
        other = accesses[log[at]]
        if other.first < end and other.end > first:
            yield at


def _held_anew(held: Held, anew: Callable[[Iterable[int]], tuple[int, ...]]) -> Held:
    return held if held.issued is None else replace(held, issued=anew(held.issued))


def _shortened(log: list[int], marks: list[int]) -> tuple[dict[int, int], tuple[int, ...]]:
    """Leave out what every clock knows, and of the same access between two marks all but the last.

    Returns:
        The new number of each mark, and the log that is left.
    """
    kept: list[int] = []
    numbers: dict[int, int] = {}
    for place, following in zip(marks, [*marks[1:], len(log)], strict=True):
        numbers[place] = len(kept)
        kept += list(dict.fromkeys(reversed(log[place:following])))[::-1]
    return numbers, tuple(kept)
