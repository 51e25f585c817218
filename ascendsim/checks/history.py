"""Where rows stand in the whole past of their core, and what they know of it when they begin.

`order` walks a template once for each state and numbers what is left of the past anew. Here the walks of each core are
put one behind the other: every place of a state gets the number of accesses that its pipe has run from the kernel's
begin. So a question about two rows of a core, however far apart, is a look-up; arrays of them are asked at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks.order import Order, Outcome, Shift
from ascendsim.program import Program

Ints = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of calls that other cores can meet; arrays of one length.

    Attributes:
        call: of the program.
        place: in the call's template, among the rows of all templates that can be met.
        pipe: its number.
        row: among the rows that all walks ran; -1 where a core's own flags never let it run.
        walk: the call that its pipe had been issued when it ran: another one if it was held.
    """

    call: Ints
    place: Ints
    pipe: Ints
    row: Ints
    walk: Ints

    def only(self, chosen: Ints) -> "Rows":
        """Return some of them."""
        return Rows(self.call[chosen], self.place[chosen], self.pipe[chosen], self.row[chosen], self.walk[chosen])


class History:
    """The past of every core of a program."""

    def __init__(self, program: Program, order: Order, alike: Sequence[Sequence[Ints]], state_of: Ints) -> None:
        """Put the walks of each core one behind the other.

        Args:
            program: the program.
            order: of its rows on one core.
            alike: calls of each core; of cores that call the same templates together.
            state_of: state in which each call begins.
        """
        self._program = program
        self._pipes = order.pipes
        outcomes = self._outcomes(program, order, alike, state_of)
        self._find_places(order)
        self._join(outcomes)
        self._carry(outcomes, alike)
        self._count(alike)

    # ---- rows -----------------------------------------------------------------------------------------------------

    def rows(self, call: Ints, at: Ints) -> Rows:
        """Return rows of calls, given by their place in the call's template."""
        place = self._place_of[self._first_row[self._program.calls["template"][call]] + at]
        pipe = self._place_pipe[place]
        walk, number = call, self._place_number[place]
        if self._is_held:
            walk, number = self._held(call, pipe, number)
        row = np.where(number < 0, -1, self._pipe_start[self._outcome_of[walk], pipe] + number)
        return Rows(call, place, pipe, row, walk)

    def begins(self, rows: Rows) -> Ints:
        """Accesses that the pipes of rows have run before them."""
        return self._value(rows.walk, self._begin.at[rows.row], self._begin.more[rows.row])

    def ends(self, rows: Rows) -> Ints:
        """Accesses that the pipes of rows have run with them."""
        return self._value(rows.walk, self._end.at[rows.row], self._end.more[rows.row])

    def known(self, rows: Rows, pipe: Ints) -> Ints:
        """Accesses of a pipe that are finished when rows begin; of their own pipe those that are known to be."""
        return self._value(rows.walk, self._clock.at[rows.row, pipe], self._clock.more[rows.row, pipe])

    def issued(self, rows: Rows, pipe: int) -> Ints:
        """As `known`, but of their own pipe all that are in front of them."""
        mine = np.full(len(rows.row), pipe)
        return np.where(rows.pipe == pipe, self.begins(rows), self.known(rows, mine))

    def _value(self, walk: Ints, at: Ints, more: Ints) -> Ints:
        value: Ints = self._past[self._past_start[walk] + at] + more
        return value

    # ---- the walks, one behind the other ------------------------------------------------------------------------

    def _outcomes(
        self, program: Program, order: Order, alike: Sequence[Sequence[Ints]], state_of: Ints
    ) -> list[Outcome]:
        """What each call did, by number; a list of the different ones."""
        outcomes: list[Outcome] = []
        numbers: dict[int, int] = {}
        self._outcome_of = np.zeros(len(state_of), np.int64)
        for cores in alike:
            keys = zip(state_of[cores[0]].tolist(), program.calls["template"][cores[0]].tolist(), strict=True)
            found = []
            for key in keys:
                outcome = order.outcome(*key)
                number = numbers.setdefault(outcome.number, len(outcomes))
                if number == len(outcomes):
                    outcomes.append(outcome)
                found.append(number)
            for calls in cores:
                self._outcome_of[calls] = found
        return outcomes

    def _find_places(self, order: Order) -> None:
        """Number the rows of templates that can be met: of which pipe each is, and the how-many-th of that."""
        lengths = [len(t) for t in self._program.templates]
        self._first_row = np.cumsum([0, *lengths])
        self._place_of = np.full(sum(lengths), -1, np.int64)
        index = {pipe: i for i, pipe in enumerate(self._pipes)}
        pipes: list[int] = []
        numbers: list[int] = []
        self._offered = np.zeros((len(lengths), len(index)), np.int64)
        for template, steps in enumerate(order.accesses.steps):
            for step in steps:
                if step.is_shared:
                    p = index[step.pipe]
                    self._place_of[self._first_row[template] + step.at] = len(pipes)
                    pipes.append(p)
                    numbers.append(int(self._offered[template, p]))
                    self._offered[template, p] += 1
        self._place_pipe, self._place_number = np.array(pipes, np.int64), np.array(numbers, np.int64)

    def _join(self, outcomes: list[Outcome]) -> None:
        """The rows of all walks in one table."""
        width, shared = len(self._pipes), [o.trail.shared() for o in outcomes]
        self._ran = np.array([s.counts for s in shared], np.int64).reshape(-1, width)
        ends = np.cumsum(self._ran.reshape(-1))
        self._pipe_start = (ends - self._ran.reshape(-1)).reshape(-1, width)
        self._begin = _joined([s.begins for s in shared], 1)
        self._end = _joined([s.ends for s in shared], 1)
        clock = _joined([s.clocks for s in shared], width)
        self._clock = Shift(clock.at.reshape(-1, width), clock.more.reshape(-1, width))

    def _carry(self, outcomes: list[Outcome], alike: Sequence[Sequence[Ints]]) -> None:
        """What the places of the state are before each call."""
        self._past_start = np.zeros(len(self._outcome_of), np.int64)
        pasts: list[Ints] = []
        carried = [o.trail.carried() for o in outcomes]
        length = 0
        for cores in alike:
            past = np.zeros(len(self._pipes), np.int64)
            starts = []
            for number in self._outcome_of[cores[0]].tolist():
                pasts.append(past)
                starts.append(length)
                length += len(past)
                past = past[carried[number].at] + carried[number].more
            for calls in cores:
                self._past_start[calls] = starts
        self._past = np.concatenate([np.zeros(0, np.int64), *pasts])

    # ---- rows that stayed behind --------------------------------------------------------------------------------

    def _count(self, alike: Sequence[Sequence[Ints]]) -> None:
        """How many rows of each pipe were offered, and ran, before each call; the same where none stayed behind."""
        offered, ran = self._offered[self._program.calls["template"]], self._ran[self._outcome_of]
        self._is_held = not np.array_equal(offered, ran)
        if not self._is_held:
            return
        self._offered_before, self._ran_before = np.zeros_like(offered), np.zeros_like(ran)
        self._calls_of: dict[int, Ints] = {}
        core = self._program.calls["core"]
        for calls in (calls for cores in alike for calls in cores if len(calls)):
            self._offered_before[calls] = np.cumsum(offered[calls], axis=0) - offered[calls]
            self._ran_before[calls] = np.cumsum(ran[calls], axis=0) - ran[calls]
            self._calls_of[int(core[calls[0]])] = calls

    def _held(self, call: Ints, pipe: Ints, number: Ints) -> tuple[Ints, Ints]:
        """The call in whose walk rows ran, and which of its pipe's rows there they are; -1 where they never ran."""
        number = self._offered_before[call, pipe] + number
        walk, within = call.copy(), np.full(len(call), -1, np.int64)
        core = self._program.calls["core"][call]
        pairs = np.unique(np.stack([core, pipe]), axis=1).T.tolist()
        for one, p in pairs:
            here = np.flatnonzero((core == one) & (pipe == p))
            calls = self._calls_of[one]
            before = self._ran_before[calls, p]
            at = np.searchsorted(before, number[here], "right") - 1
            inside = number[here] - before[at]
            runs = inside < self._ran[self._outcome_of[calls[at]], p]
            walk[here] = calls[at]
            within[here] = np.where(runs, inside, -1)
        return walk, within


def _joined(shifts: Sequence[Shift], width: int) -> Shift:
    """One table of all, with rows of so many places, and behind them one that stands for rows that never ran."""
    at, more = (
        np.concatenate([*(part.reshape(-1, width) for part in parts), np.zeros((1, width), np.int64)])
        for parts in ([s.at for s in shifts], [s.more for s in shifts])
    )
    return Shift(at, more) if width > 1 else Shift(at[:, 0], more[:, 0])
