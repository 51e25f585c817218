"""Leaving out what repeats: if a run's state comes back later by some cycles and some calls, so does all that follows.

The state is looked at whenever the core with the most calls has taken a number of them. It has come back if every time
in it has moved on by the same number of cycles and every row by a number of calls of its core, and all else is equal. A
time may also have stayed where it was if all that move lie behind it: no row that is still to come can wait for it.
While the calls to come repeat those that came, the run repeats, and as many whole periods as fit are added up at once.
L2 remembers addresses, which do not repeat, so this is done only where L2 is not looked at.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ascendsim.engine.base import Ints, Keep, Kind, Skip
from ascendsim.engine.loop import TIME_SHIFT
from ascendsim.engine.state import NONE, Bit, Core, Count, Field, Held, Link, Program, Queued, State, Unit
from ascendsim.engine.table import FOREVER, PIPES
from ascendsim.engine.totals import PERIODS_BACK, TotalsBuilder

_STRIDE_CALLS = 24
"""Looks are a multiple of so many calls apart: the periods of kernels with two, three or four buffers divide it."""
_STRIDE_CHUNKS = 4
_MISSES = 48
"""After so many looks in vain they get rarer."""

_UNIT_TIMES = (Unit.OCCUPIED, Unit.COMPLETE, Unit.JOINED, Unit.LEAST)
_UNIT_ROWS = (Unit.LAST, Unit.COMPLETE_BY, Unit.BY)
_UNIT_SAME = (Unit.COLD, Unit.HELD, Unit.WAITED_FOR, Unit.WAITED, Unit.WAS_COLD, Unit.HIT)
_CORE_SAME = (Core.HOT, Core.HOT_END, Core.HELD)


@dataclass
class _Words:
    """Elements of the state's arrays that mean the same: each array with flat indices into it."""

    places: list[tuple[Ints, Ints]] = field(default_factory=list)

    def add(self, array: Ints, indices: Ints) -> None:
        """Take in some elements of an array."""
        self.places.append((array.reshape(-1), np.asarray(indices, np.int64).reshape(-1)))

    def columns(self, array: Ints, rows: Ints, *columns: int) -> None:
        """Take in some columns of some rows of a two-dimensional array."""
        for column in columns:
            self.add(array, rows * array.shape[1] + column)

    def read(self) -> Ints:
        """Return the elements."""
        return np.concatenate([np.zeros(0, np.int64), *(array[at] for array, at in self.places)])

    def write(self, values: Ints) -> None:
        """Replace the elements."""
        begin = 0
        for array, at in self.places:
            array[at] = values[begin : begin + len(at)]
            begin += len(at)


@dataclass
class _Look:
    """The state at one moment, sorted by what its numbers mean, and copies of them."""

    times: _Words = field(default_factory=_Words)
    strict: _Words = field(default_factory=_Words)
    """Times that must move."""
    rows: _Words = field(default_factory=_Words)
    calls: _Words = field(default_factory=_Words)
    same: list[Ints] = field(default_factory=list)
    heap: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    leader: int = 0
    at: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """[core] where its scalar unit is."""
    done: int = 0
    position: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    sums: tuple[Ints, ...] = ()
    holds: int = 0
    free: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """[core, pipe] when the last row left it; FOREVER where no more come."""
    values: dict[str, Ints] = field(default_factory=dict)


class Steady:
    """Looks for periods, and skips them."""

    def __init__(self, fixed: Program, state: State, keep: Keep, stride: int) -> None:
        self._fixed = fixed
        self._windows = keep.windows
        self._leader = 0
        self._stride = stride
        self._position = np.empty_like(fixed.call_of)
        self._position[fixed.call_of] = np.arange(len(fixed.call_of))
        self._template = fixed.call_template[fixed.call_of]
        self._kept = np.flatnonzero(keep.calls[fixed.call_of])
        self._core_of = np.repeat(np.arange(len(state.core)), state.core[:, Core.LAST] - state.core[:, Core.POSITION])
        self._forget()
        self._limit(state)

    @staticmethod
    def of(fixed: Program, state: State, keep: Keep, chunk: int) -> "Steady | None":
        """Return one for a program that may have a period, None otherwise; a look is some chunks of rows apart."""
        rows, calls = int(fixed.call_number[-1]), int((state.core[:, Core.LAST] - state.core[:, Core.POSITION]).max())
        if rows == 0 or (fixed.l2_mode == 0 and bool((fixed.table[:, Field.KIND] == Kind.TRANSFER).any())):
            return None
        stride = -(-_STRIDE_CHUNKS * chunk * calls // (rows * _STRIDE_CALLS)) * _STRIDE_CALLS
        return Steady(fixed, state, keep, stride) if calls >= 4 * stride else None

    def note(self, stretches: Ints) -> None:
        """Take in the stretches of work that were added up since the last time."""
        if self._last is not None:
            self._stretches.append(stretches)

    def look(self, state: State, builder: TotalsBuilder) -> tuple[Skip, ...]:
        """Compare the state with the one remembered, skip if it came back, and let the leading core go on."""
        state.counts[Count.STOPPED] = 0
        look, skipped = self._read(state, builder), tuple[Skip, ...]()
        if self._last is None:
            self._remember(look)
        elif skip := self._try_skip(self._last, look, state, builder):
            skipped = (skip,)
            self._forget()
        elif self._age == self._patience:  # the remembered look moves up after 1, 2, 4, ... others
            self._patience *= 2
            self._remember(look)
        self._age += 1
        self._looks += 1
        if self._looks % _MISSES == 0:
            self._stride *= 4
        self._limit(state)
        return skipped

    def _forget(self) -> None:
        self._last: _Look | None = None
        self._stretches: list[Ints] = []
        self._age, self._patience, self._looks = 0, 1, 0

    def _remember(self, look: _Look) -> None:
        self._last, self._stretches, self._age = look, [], 0

    def _limit(self, state: State) -> None:
        """Let the core with the most calls left lead: stop it after some more calls, and have it go on until then."""
        state.core[:, Core.LIMIT] = state.core[:, Core.LAST]
        before, self._leader = self._leader, int((state.core[:, Core.LAST] - state.core[:, Core.POSITION]).argmax())
        if before != self._leader:
            self._go_on(state, before)
        self._go_on(state, self._leader)

    def _go_on(self, state: State, core: int) -> None:
        me = state.core[core]
        if core == self._leader:
            me[Core.LIMIT] = min(me[Core.POSITION] + self._stride, me[Core.LAST])
        if me[Core.HELD] != Held.LIMIT:
            return
        me[Core.HELD] = Held.NOT  # calls without rows may take it to its next limit at once
        if state.wake[core] == 0:
            state.ready[state.counts[Count.READY]] = core
            state.counts[Count.READY] += 1
        state.wake[core] |= 1

    # ---- reading the state ---------------------------------------------------------------------------------------

    def _read(self, state: State, builder: TotalsBuilder) -> _Look:
        look, live = _Look(), _live(state)
        look.same.append(live.astype(np.int64))
        self._read_cores(look, state, live)
        self._read_queues(look, state, live)
        self._read_flags(look, state, live)
        self._read_units(look, state, live)
        self._read_links(look, state)
        self._read_totals(look, builder, live)
        look.leader = self._leader
        look.at = state.core[:, Core.AT].copy()
        look.done = int(state.counts[Count.DONE])
        look.position = state.core[:, Core.POSITION].copy()
        look.sums = tuple(array.copy() for array in builder.sums)
        look.values = {name: getattr(look, name).read() for name in ("times", "strict", "rows", "calls")}
        return look

    def _read_cores(self, look: _Look, state: State, live: NDArray[np.bool_]) -> None:
        cores = np.flatnonzero(live)
        look.times.columns(state.core, cores, Core.AT)
        look.rows.columns(state.core, cores, Core.BEFORE)
        inside = np.flatnonzero(live & (state.core[:, Core.HOT] != state.core[:, Core.HOT_END]))
        look.rows.columns(state.core, inside, Core.NUMBER)
        look.calls.columns(state.core, inside, Core.CALL)
        look.same.append(state.core[cores][:, _CORE_SAME])

    def _read_queues(self, look: _Look, state: State, live: NDArray[np.bool_]) -> None:
        """Pipes, and their queues from the oldest place to the newest."""
        units = np.flatnonzero(np.repeat(live, PIPES))
        look.times.columns(state.unit, units, *_UNIT_TIMES)
        look.rows.columns(state.unit, units, *_UNIT_ROWS)
        look.same.append(state.unit[units][:, _UNIT_SAME])
        depth = np.tile(self._fixed.depth, len(state.core))[units]
        pushed = state.unit[units, Unit.PUSHED]
        look.same += [pushed - state.unit[units, Unit.TAKEN], np.minimum(pushed, depth)]
        step = np.arange(state.queue.shape[1])
        place = (state.unit[units, Unit.PUSH_PLACE, None] + step) % (depth[:, None] + 1)
        at = ((units[:, None] * state.queue.shape[1] + place) * state.queue.shape[2])[step <= depth[:, None]]
        flat = state.queue.reshape(-1)
        look.times.add(state.queue, np.concatenate([at + Queued.DISPATCHED, at + Queued.START, at + Queued.LEFT]))
        look.rows.add(state.queue, np.concatenate([at + Queued.NUMBER, at + Queued.AFTER]))
        look.calls.add(state.queue, at + Queued.CALL)
        look.same += [flat[at + Queued.HOT], flat[at + Queued.STUCK]]

    def _read_flags(self, look: _Look, state: State, live: NDArray[np.bool_]) -> None:
        """Raised flags in their order, and cross-core flags that some setters have not set yet."""
        for heads in (np.where(live[:, None], state.head, NONE), state.cross_head):
            nodes, owners = _chains(heads, state.following)
            look.times.add(state.time, nodes)
            look.rows.add(state.by, nodes)
            look.same.append(owners)
        look.same += [state.missing[nodes], state.place[nodes]]
        modes, cores = np.nonzero(self._fixed.set_group != NONE)
        ids = np.arange(self._fixed.mode_flags)
        flag = modes[:, None] * self._fixed.mode_flags + ids
        group = self._fixed.set_group[modes, cores][:, None]
        look.same.append(state.cross_count[cores[:, None], flag] - state.cross_seen[group, flag])

    def _read_units(self, look: _Look, state: State, live: NDArray[np.bool_]) -> None:
        """Bits of L0C, and who set them."""
        rows = state.bits.reshape(-1, state.bits.shape[2])
        units = np.flatnonzero(np.repeat(live, state.bits.shape[1]))
        look.times.columns(rows, units, Bit.FIRST, Bit.LAST)
        look.rows.columns(rows, units, Bit.BY)
        look.same.append(rows[units, Bit.UP])

    def _read_links(self, look: _Look, state: State) -> None:
        """Pending starts and joins, and what every transfer still has to wait for on its link."""
        count = int(state.counts[Count.HEAP])
        state.heap[:count].sort()
        look.heap = state.heap[:count].copy()
        busy = np.flatnonzero(state.link[:, Link.ACTIVE] > 0) * state.link.shape[1]
        look.strict.add(state.link, busy + Link.SINCE)
        links = np.arange(len(state.link))
        look.times.columns(state.link, links, Link.LEFT_AT)
        look.rows.columns(state.link, links, Link.LEFT)
        look.same += [state.link[:, (Link.ACTIVE, Link.DIRTY)], state.active.copy()]
        for link, which in zip(*np.nonzero(state.active), strict=True):
            left = state.finish[link, which] - state.served[link, which]
            pairs = np.stack([left, state.who[link, which]])[:, : state.active[link, which]]
            look.same.append(pairs[:, np.lexsort(pairs[::-1])])

    def _read_totals(self, look: _Look, builder: TotalsBuilder, live: NDArray[np.bool_]) -> None:
        now, cores = builder.open, np.flatnonzero(live)
        for array in (now.run_start, now.run_end, now.last_start, now.last_end, now.free):
            look.times.columns(array, cores, *range(PIPES))
        unread = np.flatnonzero(
            (now.run_end > now.run_start) & ~live[:, None]
        )  # of cores that others of a block outlast
        look.strict.add(now.run_end, unread)
        look.holds = int(builder.holds.used[0])
        look.free = np.where(live[:, None], now.free, FOREVER)
        heads = np.where((now.line_side > 0) & live[:, None], now.line_head, NONE)
        nodes, owners = _chains(heads, builder.pool.following, now.line_tail)
        look.times.add(builder.pool.time, nodes)
        look.rows.add(builder.pool.number, nodes)
        look.same += [now.last_hot[cores], now.line_side[cores], now.seen[cores], owners, builder.pool.hot[nodes]]
        look.same.append(builder.carried[:, 0])
        look.strict.columns(builder.carried, np.arange(len(builder.carried)), 1, 2)
        look.same = [np.array(values) for values in look.same]

    # ---- comparing and skipping ----------------------------------------------------------------------------------

    def _try_skip(self, then: _Look, look: _Look, state: State, builder: TotalsBuilder) -> Skip | None:
        """Skip as many periods as fit if the state has come back, and say so."""
        now = int(look.at[then.leader])
        cycles, calls = now - int(then.at[then.leader]), look.position - then.position
        moving = self._moving(then, look, cycles, calls)
        if moving is None:
            return None
        begin = int(look.values["times"][moving[0]].min())
        dispatched, stuck = state.queue[:, :, Queued.DISPATCHED], state.queue[:, :, Queued.STUCK]
        begin = min(begin, int((dispatched - stuck)[dispatched >= begin].min(initial=begin)))
        if not _holds_repeat(then, look, cycles, builder):
            return None
        times = self._periods(look, cycles, calls, begin, state)
        if times < 1:
            return None
        for words, moves, how in ((look.times, moving[0], cycles), (look.strict, True, cycles)):
            words.write(words.read() + np.where(moves, times * how, 0))
        look.rows.write(self._moved_rows(look.values["rows"], times * calls, moving[1]))
        look.calls.write(self._moved_calls(look.values["calls"], times * calls, moving[2]))
        state.heap[: len(look.heap)] += times * cycles << TIME_SHIFT
        coming = state.link[:, Link.NEXT] < FOREVER
        state.link[coming, Link.NEXT] += times * cycles
        state.core[:, Core.POSITION] += times * calls
        rows = times * (look.done - then.done)
        state.counts[Count.DONE] += rows
        state.counts[Count.MAKESPAN] = max(state.counts[Count.MAKESPAN], _reached(state))
        stretches = np.concatenate([np.zeros((0, 3), np.int64), *self._stretches])
        builder.repeat(then.sums, stretches, then.holds, cycles, times)
        return Skip(now, now + times * cycles, cycles, rows)

    def _moving(
        self, then: _Look, look: _Look, cycles: int, calls: Ints
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]] | None:
        """Which times, rows and calls have moved on by a period; None if the state has not come back."""
        a, b = then.values, look.values
        if any(a[name].shape != b[name].shape for name in a) or then.heap.shape != look.heap.shape or cycles <= 0:
            return None
        if len(then.same) != len(look.same) or not all(map(np.array_equal, then.same, look.same)):
            return None
        if (b["strict"] - a["strict"] != cycles).any() or (look.heap - then.heap != cycles << TIME_SHIFT).any():
            return None
        moves, stays = b["times"] - a["times"] == cycles, b["times"] == a["times"]
        if not (moves | stays).all() or a["times"][stays].max(initial=NONE) >= a["times"][moves].min(initial=FOREVER):
            return None
        rows = self._row_moves(a["rows"], b["rows"], calls)
        taken = self._call_moves(a["calls"], b["calls"], calls)
        return None if rows is None or taken is None else (moves, rows, taken)

    def _row_moves(self, a: Ints, b: Ints, calls: Ints) -> NDArray[np.bool_] | None:
        """Which rows moved on by their core's calls; None if one did neither that nor stay."""
        position_a, row_a = self._placed(a)
        position_b, row_b = self._placed(b)
        core = self._core_of[position_a]
        moves = (position_b - position_a == calls[core]) & (row_a == row_b) & (a != NONE) & (b != NONE)
        return moves if bool((moves | (a == b)).all()) else None

    def _call_moves(self, a: Ints, b: Ints, calls: Ints) -> NDArray[np.bool_] | None:
        position = self._position[a]
        moves = self._position[b] - position == calls[self._core_of[position]]
        return moves if bool((moves | (a == b)).all()) else None

    def _placed(self, rows: Ints) -> tuple[Ints, Ints]:
        """Position of each row's call in the list by core, and its place in the call; of none, those of row 0."""
        numbers = np.maximum(rows, 0)
        call = np.searchsorted(self._fixed.call_number, numbers, side="right") - 1
        return self._position[call], numbers - self._fixed.call_number[call]

    def _moved_rows(self, rows: Ints, calls: Ints, moving: NDArray[np.bool_]) -> Ints:
        position, row = self._placed(rows)
        position = position + np.where(moving, calls[self._core_of[position]], 0)
        return np.where(moving, self._fixed.call_number[self._fixed.call_of[position]] + row, rows)

    def _moved_calls(self, taken: Ints, calls: Ints, moving: NDArray[np.bool_]) -> Ints:
        position = self._position[taken]
        return self._fixed.call_of[position + np.where(moving, calls[self._core_of[position]], 0)]

    def _periods(self, look: _Look, cycles: int, calls: Ints, begin: int, state: State) -> int:
        """How many whole periods may be left out: the calls repeat, and nothing of them is to be kept.

        No row of theirs starts before `begin`.
        """
        most = FOREVER
        oldest = self._oldest(state)
        for core in np.flatnonzero(calls).tolist():
            period, now, last = int(calls[core]), int(look.position[core]), int(state.core[core, Core.LAST])
            seen = self._template[now - period : last]
            differs = np.flatnonzero(seen[:-period] != seen[period:]) if len(seen) > period else np.zeros(0, np.int64)
            repeats = int(differs[0]) if differs.size else max(0, len(seen) - period)
            kept = int(np.searchsorted(self._kept, oldest[core]))
            upto = min(int(self._kept[kept]) if kept < len(self._kept) else last, last)
            most = min(most, repeats // period, (upto - now) // period)
        end = _reached(state)
        for first, last in self._windows:
            if last > begin:
                most = min(most, (first - end) // cycles)
        return most if most < FOREVER else 0

    def _oldest(self, state: State) -> Ints:
        """For each core, the position of the first call with rows that have not come out."""
        cores = len(state.core)
        inside = state.core[:, Core.HOT] != state.core[:, Core.HOT_END]
        oldest = np.where(inside, self._position[state.core[:, Core.CALL]], state.core[:, Core.POSITION])
        depth = np.tile(self._fixed.depth, cores)
        place = state.unit[:, Unit.PLACE]
        held = state.unit[:, Unit.HELD] != Held.NOT
        first = np.where(held, place, np.where(place < depth, place + 1, 0))
        waiting = held | (state.unit[:, Unit.TAKEN] != state.unit[:, Unit.PUSHED])
        call = state.queue[np.arange(len(place)), first, Queued.CALL]
        position = np.where(waiting, self._position[call], FOREVER).reshape(cores, -1)
        return np.asarray(np.minimum(oldest, position.min(axis=1)))


def _holds_repeat(then: _Look, look: _Look, cycles: int, builder: TotalsBuilder) -> bool:
    """Whether what pipes that work in the period may still be charged with has moved on by it, too."""
    moves = look.free - then.free == cycles
    if (look.at[:, None] - look.free > PERIODS_BACK * cycles)[moves].any():
        return False
    before, now = (
        builder.recent_holds(one.holds, np.where(moves, one.free, FOREVER).min(axis=1)) for one in (then, look)
    )
    return before.shape == now.shape and bool((now - before == (0, cycles, cycles, 0)).all())


def _live(state: State) -> NDArray[np.bool_]:
    """Which cores have rows left. What the others hold does not matter any more."""
    unit = state.unit.reshape(len(state.core), PIPES, -1)
    busy = (unit[:, :, Unit.TAKEN] != unit[:, :, Unit.PUSHED]) | (unit[:, :, Unit.HELD] != Held.NOT)
    return np.asarray((state.core[:, Core.HELD] != Held.DONE) | busy.any(axis=1))


def _reached(state: State) -> int:
    """The cycle by which all that cores with rows left have done, or dispatched, is complete at the earliest."""
    live = _live(state)
    complete = state.unit[np.repeat(live, PIPES), Unit.COMPLETE].max(initial=0)
    return int(max(complete, state.core[live, Core.AT].max(initial=0)))


def _chains(heads: Ints, following: Ints, tails: Ints | None = None) -> tuple[Ints, Ints]:
    """Nodes of every chain from its head to NONE or its tail, chain by chain, and the chain of each."""
    nodes, owners = [], []
    for owner in np.flatnonzero(heads.reshape(-1) != NONE).tolist():
        node, last = int(heads.flat[owner]), NONE if tails is None else int(tails.flat[owner])
        while node != NONE:
            nodes.append(node)
            owners.append(owner)
            node = NONE if node == last else int(following[node])
    return np.array(nodes, np.int64), np.array(owners, np.int64)
