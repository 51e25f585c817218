"""Which of the accesses of GM that meet are in no order: on one core by its history, between cores by their flags.

Rows that one pipe runs between the same sets and waits, whenever their template is called, are alike in what they are
before and behind; one stands for all of them. On one core the first two calls of each line are compared, between cores
all.
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks.between import Between
from ascendsim.checks.gm import GmAccesses, GmPairs, Meetings, Spots, joined
from ascendsim.checks.history import History
from ascendsim.program import Program
from ascendsim.terms import Pipe

Ints = NDArray[Any]
Flags = NDArray[np.bool_]

FIRST_CALLS = 2
"""Calls of a line that are compared with others of their core: one, and what comes next."""


class GmOrder:
    """Order of the accesses of one program."""

    def __init__(
        self, program: Program, gm: GmAccesses, history: History, between: Between | None, ordered: frozenset[Pipe]
    ) -> None:
        """Begin.

        Args:
            program: the program.
            gm: its accesses.
            history: of its cores.
            between: order between them; None where they set no flags for each other.
            ordered: pipes whose own stores the hardware keeps in order.
        """
        self._program = program
        self._gm = gm
        self._history = history
        self._between = between
        self._core = program.calls["core"]
        self._calls_of = program.calls_of_template
        pipes = [program.templates[a.template].rows[a.at].pipe for a in gm.all]
        self._pipe = np.array(pipes, np.int64)
        self._is_ordered = np.array([pipe in ordered for pipe in pipes], np.bool_)
        self._stands_for: dict[int, dict[int, int]] = {}

    # ---- additions ----------------------------------------------------------------------------------------------

    def additions(self, spots: Spots, meets: Meetings) -> GmPairs:
        """Return additions of different cores: of each pair of spots a call of one, and one of another core."""
        adding = meets.only(np.flatnonzero(self._gm.adds[meets.one] & self._gm.adds[meets.other]))
        one, other = spots.first_line[adding.one_spot], spots.first_line[adding.other_spot]
        is_same = spots.core[one] == spots.core[other]
        takes_next = is_same & (other + 1 < spots.first_line[adding.other_spot + 1])
        takes_other = is_same & ~takes_next & (one + 1 < spots.first_line[adding.one_spot + 1])
        one, other = one + takes_other, other + takes_next
        apart = np.flatnonzero(spots.core[one] != spots.core[other])
        first, second = (spots.calls[spots.first_call[line[apart]]] for line in (one, other))
        return _pairs(adding.only(apart), first, second, first > second)

    # ---- between cores ------------------------------------------------------------------------------------------

    def apart(self, spots: Spots, meets: Meetings) -> GmPairs:
        """Return accesses of different cores in no order, of which one does not add."""
        meets = meets.only(np.flatnonzero(~(self._gm.adds[meets.one] & self._gm.adds[meets.other])))
        if self._between is not None:
            return self._unordered(self._between, spots, meets)
        first, second = (spots.calls[spots.first_call[spots.first_line[s]]] for s in (meets.one_spot, meets.other_spot))
        apart = np.flatnonzero(self._core[first] != self._core[second])
        first, second = first[apart], second[apart]
        return _pairs(meets.only(apart), first, second, first > second)

    def _unordered(self, between: Between, spots: Spots, meets: Meetings) -> GmPairs:
        """Meetings in no order, found among those that stand for all alike."""
        alike = replace(meets, one=self._stand_ins(between, meets.one), other=self._stand_ins(between, meets.other))
        columns = np.stack([alike.one_spot, alike.one, alike.other_spot, alike.other])
        _, at, kind = np.unique(columns, axis=1, return_index=True, return_inverse=True)
        few = alike.only(at)
        lines = _lines_of(spots, few)
        lines = lines.only(np.flatnonzero(spots.core[lines.one] != spots.core[lines.other]))
        lines = lines.only(np.flatnonzero(~self._is_apart_in_time(between, spots, few, lines)))
        rows = self._gm.at[few.one[lines.meeting]], self._gm.at[few.other[lines.meeting]]
        found: list[tuple[int, int, int]] = []
        turned: list[bool] = []
        for i in range(len(lines.meeting)):
            one, other = int(lines.one[i]), int(lines.other[i])
            sides = [(spots.calls_of(one), int(rows[0][i])), (spots.calls_of(other), int(rows[1][i]))]
            is_down = bool(spots.core[one] > spots.core[other])
            missing = self._missing(between, *(reversed(sides) if is_down else sides))
            if missing is not None:
                first, second, is_turned = missing
                found.append((int(lines.meeting[i]), first, second))
                turned.append(is_turned != is_down)
        return _of_all_alike(meets, kind.reshape(-1), found, turned)

    def _is_apart_in_time(self, between: Between, spots: Spots, few: Meetings, lines: "_Lines") -> Flags:
        """Whether all calls of one line are before all of the other."""
        sides = np.stack([np.append(few.one_spot, few.other_spot), np.append(few.one, few.other)])
        uses, place = np.unique(sides, axis=1, return_inverse=True)
        ones, others = np.split(place.reshape(-1), 2)
        counts = (spots.first_line[1:] - spots.first_line[:-1])[uses[0]]
        begins = np.cumsum(counts) - counts
        use = np.repeat(np.arange(len(counts)), counts)
        line = spots.first_line[uses[0]][use] + np.arange(len(use)) - begins[use]
        first, last = (
            between.marks(self._history.rows(spots.calls[at], self._gm.at[uses[1]][use]))
            for at in (spots.first_call[line], spots.first_call[line + 1] - 1)
        )
        one = begins[ones[lines.meeting]] + lines.one - spots.first_line[few.one_spot[lines.meeting]]
        other = begins[others[lines.meeting]] + lines.other - spots.first_line[few.other_spot[lines.meeting]]
        found = between.is_before(last.only(one), first.only(other))
        left = np.flatnonzero(~found)
        found[left] = between.is_before(last.only(other[left]), first.only(one[left]))
        return found

    def _missing(
        self, between: Between, one: tuple[Ints, int], other: tuple[Ints, int]
    ) -> tuple[int, int, bool] | None:
        """Find the first two calls of two cores that are in no order.

        Of each call of `other` the neighbours are looked at: the last that is before it, and the next, which it has to
        be before.

        Returns:
            The calls, that first which is to come first, and whether that is the one of `other`.
        """
        ones, others = (self._history.rows(calls, np.full(len(calls), at)) for calls, at in (one, other))
        ones = ones.only(np.flatnonzero(ones.row >= 0))
        of_ones, of_others = between.marks(ones), between.marks(others)
        done = between.how_many_before(of_ones, of_others)
        here = np.flatnonzero(done < len(ones.call))
        bad = np.flatnonzero(~between.is_before(of_others.only(here), of_ones.only(done[here])))
        if not len(bad):
            return None
        mine, theirs = int(ones.call[done[here[bad[0]]]]), int(others.call[here[bad[0]]])
        return (theirs, mine, True) if done[here[bad[0]]] else (mine, theirs, False)

    # ---- rows that are alike ------------------------------------------------------------------------------------

    def _stand_ins(self, between: Between, accesses: Ints) -> Ints:
        """For each access the number of one whose row is alike."""
        used, place = np.unique(accesses, return_inverse=True)
        for template in np.unique(self._gm.template[used]).tolist():
            if template not in self._stands_for:
                self._stands_for[template] = self._find_alike(between, template)
        stand_ins = [self._stands_for[int(self._gm.template[n])][int(n)] for n in used]
        return np.array(stand_ins, np.int64)[place.reshape(-1)]

    def _find_alike(self, between: Between, template: int) -> dict[int, int]:
        """For each access of a template one whose row is alike: rows of a pipe between two that are."""
        mine = np.flatnonzero(self._gm.template == template)
        found: dict[int, int] = {}
        for pipe in np.unique(self._pipe[mine]):
            numbers = mine[self._pipe[mine] == pipe]
            open_ones = [numbers[np.argsort(self._gm.at[numbers], kind="stable")]]
            while open_ones:
                part = open_ones.pop()
                if len(part) > 1 and not self._are_alike(between, template, int(part[0]), int(part[-1])):
                    open_ones += [part[: len(part) // 2], part[len(part) // 2 :]]
                else:
                    found |= dict.fromkeys(part.tolist(), int(part[0]))
        return found

    def _are_alike(self, between: Between, template: int, one: int, other: int) -> bool:
        """Whether two rows stand between the same sets and waits in every call."""
        calls = self._calls_of[template]
        first, second = (
            between.marks(self._history.rows(calls, np.full(len(calls), self._gm.at[n]))) for n in (one, other)
        )
        return all(
            np.array_equal(*pair)
            for pair in (
                (first.runs, second.runs),
                (first.behind, second.behind),
                (first.in_front, second.in_front),
            )
        )

    # ---- on one core --------------------------------------------------------------------------------------------

    def inside(self, spots: Spots, meets: Meetings) -> GmPairs:
        """Return accesses of one core in no order."""
        same_pipe = self._pipe[meets.one] == self._pipe[meets.other]
        pairs = self._on_one_core(spots, meets.only(np.flatnonzero(~(same_pipe & self._is_ordered[meets.one]))))
        same_pipe = self._pipe[pairs.first] == self._pipe[pairs.second]
        pairs = pairs.only(np.flatnonzero(~same_pipe | self._gm.writes[pairs.first]))  # else it reads, and writes later
        first, second = (
            self._history.rows(call, self._gm.at[access])
            for access, call in ((pairs.first, pairs.first_call), (pairs.second, pairs.second_call))
        )
        is_before = self._history.ends(first) <= self._history.known(second, first.pipe)
        left = np.flatnonzero(~(is_before & (first.row >= 0) & (second.row >= 0)))
        if self._between is not None:  # flags may lead over other cores
            marks = (self._between.marks(rows.only(left)) for rows in (first, second))
            left = left[~self._between.is_before(*marks)]
        return pairs.only(left)

    def _on_one_core(self, spots: Spots, meets: Meetings) -> GmPairs:
        """Pairs of calls of one core, in program order."""
        lines = _lines_of(spots, meets)
        lines = lines.only(np.flatnonzero(spots.core[lines.one] == spots.core[lines.other]))
        counts = spots.first_call[1:] - spots.first_call[:-1]
        is_itself = ((meets.one == meets.other) & (meets.one_spot == meets.other_spot))[lines.meeting]
        found = []
        for one, other in product(range(FIRST_CALLS), repeat=2):
            chosen = (one < counts[lines.one]) & (other < counts[lines.other]) & (~is_itself | (one < other))
            there = lines.only(np.flatnonzero(chosen))
            first = spots.calls[spots.first_call[there.one] + one]
            second = spots.calls[spots.first_call[there.other] + other]
            pairs = meets.only(there.meeting)
            is_behind = self._gm.at[pairs.one] > self._gm.at[pairs.other]
            found.append(_pairs(pairs, first, second, (first > second) | ((first == second) & is_behind)))
        return joined(found)


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines of both sides of meetings; arrays of one length."""

    meeting: Ints
    one: Ints
    other: Ints

    def only(self, chosen: Ints) -> "_Lines":
        """Return some of them."""
        return _Lines(self.meeting[chosen], self.one[chosen], self.other[chosen])


def _lines_of(spots: Spots, meets: Meetings) -> _Lines:
    """Return every line of one side with every line of the other; of an access that meets itself each two once."""
    counts = spots.first_line[1:] - spots.first_line[:-1]
    ones, others = counts[meets.one_spot], counts[meets.other_spot]
    meeting = np.repeat(np.arange(len(meets)), ones * others)
    within = np.arange(len(meeting)) - np.repeat(np.cumsum(ones * others) - ones * others, ones * others)
    one = spots.first_line[meets.one_spot][meeting] + within // others[meeting]
    other = spots.first_line[meets.other_spot][meeting] + within % others[meeting]
    is_itself = ((meets.one == meets.other) & (meets.one_spot == meets.other_spot))[meeting]
    return _Lines(meeting, one, other).only(np.flatnonzero(~is_itself | (one <= other)))


def _pairs(meets: Meetings, one: Ints, other: Ints, turned: Flags) -> GmPairs:
    """Meetings as pairs of calls; `turned` where that of the other side is the first."""
    return GmPairs(
        np.where(turned, meets.other, meets.one),
        np.where(turned, meets.one, meets.other),
        np.where(turned, other, one),
        np.where(turned, one, other),
        meets.low,
        meets.high,
        meets.count,
    )


def _of_all_alike(meets: Meetings, kind: Ints, found: list[tuple[int, int, int]], turned: list[bool]) -> GmPairs:
    """Return pairs of calls that were found for one of a kind, for all meetings of that kind."""
    order = np.argsort(kind, kind="stable")
    first = np.searchsorted(kind[order], np.arange(int(kind.max(initial=-1)) + 2))
    at = [order[first[k] : first[k + 1]] for k, _, _ in found]
    lengths = [len(part) for part in at]
    calls = np.repeat(np.array(found, np.int64).reshape(-1, 3), lengths, axis=0)
    pairs = meets.only(np.concatenate([np.zeros(0, np.int64), *at]))
    turn = np.repeat(np.array(turned, np.bool_), lengths)
    one, other = np.where(turn, pairs.other, pairs.one), np.where(turn, pairs.one, pairs.other)
    return GmPairs(one, other, calls[:, 1], calls[:, 2], pairs.low, pairs.high, np.ones(len(turn), np.int64))
