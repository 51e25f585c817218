"""What the rows of a timeline add up to, taken in chunk by chunk: one way for every engine and every length of run."""

from typing import NamedTuple

import numpy as np

from ascendsim.engine.base import Ints, Keep, Kind, ScheduleInput, Timeline, Totals, Wait
from ascendsim.engine.table import EMIT_WIDTH, FOREVER, PIPES, Emit, template_starts
from ascendsim.jit import compiled_in_place, inlined
from ascendsim.terms import Pipe

BINS = 1024
"""Bins of the utilisation over time. They get twice as long whenever the run outgrows them."""

_EXEC, _SET, _WAIT, _TRANSFER = int(Kind.EXEC), int(Kind.SET_FLAG), int(Kind.WAIT_FLAG), int(Kind.TRANSFER)
_S, _V, _M = int(Pipe.S), int(Pipe.V), int(Pipe.M)
_QUEUE_FULL, _DISPATCH, _BANDWIDTH, _WAITS = int(Wait.QUEUE_FULL), int(Wait.DISPATCH), int(Wait.BANDWIDTH), len(Wait)
_FLAG, _BUFFER, _BARRIER, _CROSS, _UNIT = (
    int(w) for w in (Wait.FLAG, Wait.BUFFER, Wait.BARRIER, Wait.CROSS_CORE, Wait.UNIT_FLAG)
)
_NUMBER, _CORE, _HOT, _START, _END = (int(e) for e in (Emit.NUMBER, Emit.CORE, Emit.HOT, Emit.START, Emit.END))
_WAITED, _CYCLES, _STUCK = int(Emit.WAITED_FOR), int(Emit.WAIT_CYCLES), int(Emit.STUCK_CYCLES)
_OCCUPIED, _STRETCH, _HIT = int(Emit.OCCUPIED), int(Emit.STRETCH_CYCLES), int(Emit.L2_HIT)
_COLUMNS = 3
"""Fields of `_Holds` from here on have one entry for each hold."""
PERIODS_BACK = 6
"""So many periods may a pipe that works be behind its scalar unit where a stretch repeats."""
_NOBODY, _SETS, _TAKES = 0, 1, 2
"""Whose times wait in a flag's line."""
_FREE, _USED, _DONE, _ROWS = range(4)
"""Places of `Taking.tally`."""


class _Static(NamedTuple):
    """What is known before the run: kind, pipe, flag (-1: none of the core's own) of each table row."""

    kind: Ints
    pipe: Ints
    flag: Ints
    dispatch_cycles: int


class _Sums(NamedTuple):
    """Arrays of `Totals`; `waits` are wait_cycles and wait_count, [template row, Wait, 2], side by side in memory."""

    busy: Ints
    stalled: Ints
    rows: Ints
    overlap: Ints
    waits: Ints
    spent: Ints
    double_sets: Ints
    first_double: Ints
    lost: Ints
    unit: Ints
    l2_hits: Ints


class _Open(NamedTuple):
    """What is going on where a chunk ends: [core, pipe] unless said otherwise.

    Attributes:
        run_start, run_end: the last stretch of unbroken work; run_start moves up with what is already added up.
        last_hot, last_start, last_end: the last instruction or transfer; last_hot -1 for none.
        free: when the last row left the pipe.
        hold: the first of the scalar unit's holds that may lie behind `free`, -1 for the first that comes.
        line_side, line_head, line_tail: [core, flag] the line of a flag: sets after the first, or waits, that have
            not met their counterpart.
        seen: [core, flag] whether a set was seen.
    """

    run_start: Ints
    run_end: Ints
    last_hot: Ints
    last_start: Ints
    last_end: Ints
    free: Ints
    hold: Ints
    line_side: Ints
    line_head: Ints
    line_tail: Ints
    seen: Ints


class _Holds(NamedTuple):
    """When scalar units were held, a chain for each core in order of time.

    Attributes:
        first, last: [core] of its chain, -1 for none.
        used: [1] how many there are.
        begin, end, cause, core: of a hold.
        following: the core's next, -1 for none.
    """

    first: Ints
    last: Ints
    used: Ints
    begin: Ints
    end: Ints
    cause: Ints
    core: Ints
    following: Ints


class _Pool(NamedTuple):
    """Nodes of the flags' lines: following node, time, table row, row number; free nodes are chained, too."""

    following: Ints
    time: Ints
    hot: Ints
    number: Ints


class Taking(NamedTuple):
    """All that a row is added up in.

    Attributes:
        done: finished stretches of work: (core * PIPES + pipe, start, end).
        tally: [4] the first of the free nodes, how many are in use, how many stretches are done, how many rows taken.
    """

    static: _Static
    sums: _Sums
    now: _Open
    pool: _Pool
    holds: _Holds
    done: Ints
    tally: Ints


def _no_totals() -> Taking:
    one, two, three = (np.zeros((0,) * axes, np.int64) for axes in (1, 2, 3))
    sums = _Sums(two, two, two, two, three, one, one, one, three, two, one)
    now, pool = _Open(*(two for _ in _Open._fields)), _Pool(one, one, one, one)
    holds = _Holds(*(one for _ in _Holds._fields))
    return Taking(_Static(one, one, one, 0), sums, now, pool, holds, two, one)


NO_TOTALS = _no_totals()
"""For a run that adds nothing up."""


class TotalsBuilder:
    """Adds rows up. Rows of one core and pipe come in their order; those of different ones in any."""

    def __init__(self, program: ScheduleInput) -> None:
        kind, pipe = program.column("kind"), program.column("pipe")
        flag = np.where(program.column("cross") > 0, -1, program.column("flag"))
        flag = np.where((kind == Kind.SET_FLAG) | (kind == Kind.WAIT_FLAG), flag, -1)
        self._static = _Static(kind, pipe, flag, program.dispatch_cycles)
        cores, flags, table = program.core_count, int(flag.max(initial=-1)) + 1, len(kind)

        def zeros(*shape: int) -> Ints:
            return np.zeros(shape, np.int64)

        self.sums = _Sums(
            busy=zeros(cores, PIPES),
            stalled=zeros(cores, PIPES),
            rows=zeros(cores, PIPES),
            overlap=zeros(PIPES, PIPES),
            waits=zeros(table, _WAITS, 2),
            spent=zeros(table),
            double_sets=zeros(table),
            first_double=zeros(table) - 1,
            lost=zeros(cores, PIPES, _WAITS),
            unit=zeros(cores // program.block_cores, 2),
            l2_hits=zeros(table),
        )
        self._block_cores = program.block_cores
        self.open = _Open(
            zeros(cores, PIPES), zeros(cores, PIPES), zeros(cores, PIPES) - 1, zeros(cores, PIPES),
            zeros(cores, PIPES), zeros(cores, PIPES), zeros(cores, PIPES) - 1, *(zeros(cores, flags) for _ in range(4)),
        )  # fmt: skip
        self.holds = _Holds(zeros(cores) - 1, zeros(cores) - 1, zeros(1), *(zeros(0) for _ in range(5)))
        self.carried = zeros(0, 3)
        """Stretches of work that lie behind what is added up so far: (core * PIPES + pipe, start, end)."""
        self.bin_cycles = 1
        self.bins = zeros(PIPES, BINS)
        self.pool = _Pool(*(zeros(0) for _ in range(4)))
        self._done = zeros(0, 3)
        self._tally = np.array([-1, 0, 0, 0], np.int64)

    def add(self, rows: Ints, frontier: Ints) -> Ints:
        """Take in rows, [rows, EMIT_WIDTH]; no later row starts before its core's `frontier`, [core].

        Returns the stretches of work that were added up, [stretches, 3] as `carried`.
        """
        _take_rows(rows, self.taking(len(rows)))
        return self.settle(frontier)

    @property
    def rows_taken(self) -> int:
        """How many rows were taken in."""
        return int(self._tally[_ROWS])

    def taking(self, room: int) -> Taking:
        """Return what `take_row` adds rows up in, so many at least; `settle` has to follow."""
        self._make_room(room)
        carried = len(self.carried)
        if len(self._done) < carried + room:
            self._done = np.empty((2 * carried + room, 3), np.int64)
        self._done[:carried] = self.carried
        self._tally[_DONE] = carried
        return Taking(self._static, self.sums, self.open, self.pool, self.holds, self._done, self._tally)

    def settle(self, frontier: Ints) -> Ints:
        """Add up stretches of work of rows that were taken; arguments and result as of `add`."""
        frontier = np.repeat(frontier.reshape(-1, self._block_cores).min(axis=1), self._block_cores)
        done = self._done[: self._tally[_DONE]]
        ends = [self.open.run_end.max(initial=0), done[:, 2].max(initial=0)]
        self._make_bins_long(int(max(ends)))
        return self._add_up(done, frontier)

    def _add_up(self, done: Ints, frontier: Ints) -> Ints:
        """Add up overlaps and bins up to the frontiers; return what was added, and carry what is left."""
        starts = np.zeros(self.open.run_start.size + 1, np.int64)
        np.cumsum(np.bincount(done[:, 0], minlength=len(starts) - 1) + 1, out=starts[1:])
        parts, left = np.empty((3, starts[-1]), np.int64), np.empty_like(done)
        count, lefts = _sweep(
            done, frontier, starts, starts[:-1].copy(), starts[:-1].copy(), parts, left,
            self.sums.overlap, self.sums.unit, self.open, self.bins, self.bin_cycles,
        )  # fmt: skip
        self.carried = left[:lefts].copy()
        return parts[:, :count].T.copy()

    def finish(self) -> Totals:
        """Return the totals once all rows are in."""
        self.add(np.zeros((0, EMIT_WIDTH), np.int64), np.full(len(self.sums.busy), FOREVER))
        _close(self.sums.spent, self.open)
        return Totals(
            busy_cycles=self.sums.busy,
            stalled_cycles=self.sums.stalled,
            rows=self.sums.rows,
            overlap_cycles=self.sums.overlap,
            wait_cycles=self.sums.waits[:, :, 0].copy(),
            wait_count=self.sums.waits[:, :, 1].copy(),
            spent_cycles=self.sums.spent,
            double_sets=self.sums.double_sets,
            first_double=self.sums.first_double,
            bin_cycles=self.bin_cycles,
            busy_bins=self.bins,
            lost_cycles=self.sums.lost,
            last_cycles=self.open.run_end,
            unit_cycles=self.sums.unit,
            l2_hits=self.sums.l2_hits,
        )

    def _make_room(self, count: int) -> None:
        """Have a node for every row that comes, and a hold."""
        holds = self.holds
        if holds.used[0] + count > len(holds.begin):
            more = max(count, len(holds.begin), 1024)
            grown = (_lengthened(column, more) for column in holds[_COLUMNS:])
            self.holds = _Holds(holds.first, holds.last, holds.used, *grown)
        have = len(self.pool.time)
        if self._tally[_USED] + count <= have:
            return
        more = max(count, have, 1024)
        self.pool = _Pool(*(_lengthened(column, more) for column in self.pool))
        self.pool.following[have:] = np.arange(have + 1, have + more + 1)
        self.pool.following[-1] = self._tally[_FREE]
        self._tally[_FREE] = have

    def repeat(self, before: tuple[Ints, ...], stretches: Ints, holds: int, cycles: int, times: int) -> None:
        """Add up what came since the sums were as `before`, some more times, each later by so many cycles.

        Args:
            before: copies of `sums`.
            stretches: what `add` returned since.
            holds: how many there were then.
            cycles: length of the period.
            times: how often it repeats.
        """
        self._repeat_holds(holds, cycles, times)
        for array, then in zip(self.sums, before, strict=True):
            if array is not self.sums.first_double:
                np.add(array, times * (array - then), out=array)
        if len(stretches):
            self._make_bins_long(int(stretches[:, 2].max()) + times * cycles)
            _repeat_in_bins(self.bins, self.bin_cycles, stretches, cycles, times)

    def recent_holds(self, upto: int, free: Ints) -> Ints:
        """Holds among the first `upto` that end after a time of their core, [holds, (core, begin, end, cause)]."""
        core, begin, end, cause = (
            x[:upto] for x in (self.holds.core, self.holds.begin, self.holds.end, self.holds.cause)
        )
        found = np.flatnonzero(end > free[core])
        found = found[np.lexsort((begin[found], core[found]))]
        return np.stack([core[found], begin[found], end[found], cause[found]], axis=1)

    def _repeat_holds(self, since: int, cycles: int, times: int) -> None:
        """Have the holds of a period come again: the last few of them one by one, all others of a core as one by cause.

        A pipe that works in the period looks at the last few only, one that does not at all of them.
        """
        count = int(self.holds.used[0])
        new = np.stack([x[since:count] for x in (self.holds.core, self.holds.begin, self.holds.end, self.holds.cause)])
        for core in np.unique(new[0]).tolist():
            _, begin, end, cause = new[:, new[0] == core]
            whole = min(times, PERIODS_BACK + 2)
            at = int(end[-1])
            for which in np.unique(cause).tolist() if times > whole else ():
                length = int((end - begin)[cause == which].sum()) * (times - whole)
                self._append_hold(core, at, at + length, which)
                at += length
            for back in range(whole - 1, -1, -1):
                moved = (times - back) * cycles
                for one in zip((begin + moved).tolist(), (end + moved).tolist(), cause.tolist(), strict=True):
                    self._append_hold(core, *one)

    def _append_hold(self, core: int, begin: int, end: int, cause: int) -> None:
        """As `_note_hold` does."""
        self._make_room(1)
        holds = self.holds
        node = int(holds.used[0])
        for column, value in zip(holds[_COLUMNS:], (begin, end, cause, core, -1), strict=True):
            column[node] = value
        holds.following[holds.last[core]] = node
        holds.last[core] = node
        holds.used[0] += 1

    def _make_bins_long(self, cycles: int) -> None:
        joined = 1
        while cycles > BINS * self.bin_cycles:
            self.bin_cycles *= 2
            joined = min(2 * joined, BINS)
        if joined > 1:
            bins = np.zeros_like(self.bins)
            bins[:, : BINS // joined] = self.bins.reshape(PIPES, BINS // joined, joined).sum(axis=2)
            self.bins = bins


def _lengthened(column: Ints, more: int) -> Ints:
    """A column with zeros behind it, which take no memory before they are written."""
    longer = np.zeros(len(column) + more, np.int64)
    longer[: len(column)] = column
    return longer


@compiled_in_place
def _take_rows(rows: Ints, t: Taking) -> None:
    """Add up what rows say by themselves."""
    for i in range(rows.shape[0]):
        take_row(rows, i, t)


@inlined
def take_row(rows: Ints, i: int, t: Taking) -> None:
    """Add up what a row says by itself, and note the stretch of work that it ends; there must be room for one more."""
    t.tally[_ROWS] += 1
    core, hot = rows[i, _CORE], rows[i, _HOT]
    start, end, waited, cycles = rows[i, _START], rows[i, _END], rows[i, _WAITED], rows[i, _CYCLES]
    kind, pipe, stuck = t.static.kind[hot], t.static.pipe[hot], rows[i, _STUCK]
    if cycles > 0:
        t.sums.waits[hot, waited, 0] += cycles
        t.sums.waits[hot, waited, 1] += 1
    held = cycles if waited == _FLAG or waited == _BUFFER or waited == _BARRIER or waited == _CROSS else 0
    is_work = kind == _EXEC or kind == _TRANSFER
    t.sums.rows[core, pipe] += is_work
    if kind == _TRANSFER:
        t.sums.l2_hits[hot] += rows[i, _HIT]
        t.sums.lost[core, pipe, _BANDWIDTH] += rows[i, _STRETCH]
    if pipe == _S:
        if is_work:
            t.sums.busy[core, pipe] += end - start
        elif held > 0:
            t.sums.stalled[core, pipe] += held
            t.sums.lost[core, pipe, waited] += held
            _note_hold(t.holds, core, start, start + held, waited)
    else:
        t.sums.busy[core, _S] += t.static.dispatch_cycles
        if stuck > 0:
            t.sums.stalled[core, _S] += stuck
            t.sums.lost[core, _S, _QUEUE_FULL] += stuck
            t.sums.waits[hot, _QUEUE_FULL, 0] += stuck
            t.sums.waits[hot, _QUEUE_FULL, 1] += 1
        ready = start - cycles if waited == _UNIT else start
        idle = max(t.now.free[core, pipe], t.now.run_end[core, pipe])
        if ready > idle:
            _charge(t.sums.lost, t.now, t.holds, core, pipe, idle, ready)
        t.now.free[core, pipe] = rows[i, _OCCUPIED]
        if is_work:
            last = t.now.last_hot[core, pipe]
            if last >= 0:
                t.sums.spent[last] += min(t.now.last_end[core, pipe], start) - t.now.last_start[core, pipe]
            t.now.last_hot[core, pipe], t.now.last_start[core, pipe], t.now.last_end[core, pipe] = hot, start, end
            before = t.now.run_end[core, pipe]
            if waited == _UNIT:
                behind = max(start - max(start - cycles, before), 0)
                t.sums.stalled[core, pipe] += behind
                t.sums.lost[core, pipe, _UNIT] += behind
            if end > before:
                t.sums.busy[core, pipe] += end - max(start, before)
                if start > before:
                    if before > t.now.run_start[core, pipe]:
                        count = t.tally[_DONE]
                        t.done[count, 0], t.done[count, 1] = core * PIPES + pipe, t.now.run_start[core, pipe]
                        t.done[count, 2] = before
                        t.tally[_DONE] = count + 1
                    t.now.run_start[core, pipe] = start
                t.now.run_end[core, pipe] = end
        elif held > 0:
            behind = start + held - max(start, t.now.run_end[core, pipe])
            if behind > 0:
                t.sums.stalled[core, pipe] += behind
                t.sums.lost[core, pipe, waited] += behind
    flag = t.static.flag[hot]
    if flag >= 0 and kind == _SET and t.now.seen[core, flag] == 0:
        t.now.seen[core, flag] = 1
    elif flag >= 0:
        side, time = (_SETS, end) if kind == _SET else (_TAKES, start + held)
        t.tally[_FREE] = _meet(t.now, t.pool, t.tally[_FREE], t.sums, core, flag, side, time, hot, rows[i, _NUMBER])
        t.tally[_USED] += 1 if t.now.line_side[core, flag] == side else -1


@inlined
def has_room(t: Taking, count: int) -> bool:
    """Whether so many more rows can be taken."""
    nodes, holds = t.pool.time.shape[0] - t.tally[_USED], t.holds.begin.shape[0] - t.holds.used[0]
    return min(t.done.shape[0] - t.tally[_DONE], nodes, holds) >= count


@inlined
def _note_hold(holds: _Holds, core: int, begin: int, end: int, cause: int) -> None:
    """The scalar unit of a core was held."""
    node = holds.used[0]
    holds.used[0] = node + 1
    holds.begin[node], holds.end[node], holds.cause[node] = begin, end, cause
    holds.core[node], holds.following[node] = core, -1
    if holds.last[core] < 0:
        holds.first[core] = node
    else:
        holds.following[holds.last[core]] = node
    holds.last[core] = node


@inlined
def _charge(lost: Ints, now: _Open, holds: _Holds, core: int, pipe: int, begin: int, end: int) -> None:
    """A pipe had no row from `begin` on and got one at `end`: charge that to what held its scalar unit meanwhile.

    All holds before `end` are there, because the scalar unit takes its rows in order.
    """
    node, rest = now.hold[core, pipe], end - begin
    if node < 0:
        node = holds.first[core]
    while node >= 0 and holds.begin[node] < end:
        shared = min(holds.end[node], end) - max(holds.begin[node], begin)
        if shared > 0:
            lost[core, pipe, holds.cause[node]] += shared
            rest -= shared
        now.hold[core, pipe] = node
        node = holds.following[node]
    lost[core, pipe, _DISPATCH] += rest


@inlined
def _meet(
    now: _Open, pool: _Pool, free: int, sums: _Sums, core: int, flag: int, side: int, time: int, hot: int, number: int
) -> int:
    """Pair the n-th wait of a flag with its set n + 1, or stand in line; return the head of the free nodes.

    The set comes too early if that wait takes its flag later.
    """
    other = now.line_side[core, flag]
    if other != _NOBODY and other != side:
        node = now.line_head[core, flag]
        raised, took = (time, pool.time[node]) if side == _SETS else (pool.time[node], time)
        row, who = (hot, number) if side == _SETS else (pool.hot[node], pool.number[node])
        if raised < took:
            sums.double_sets[row] += 1
            if sums.first_double[row] < 0 or who < sums.first_double[row]:
                sums.first_double[row] = who
        if node == now.line_tail[core, flag]:
            now.line_side[core, flag] = _NOBODY
        now.line_head[core, flag] = pool.following[node]
        pool.following[node] = free
        return node
    node = free
    free = pool.following[node]
    pool.time[node], pool.hot[node], pool.number[node] = time, hot, number
    if other == _NOBODY:
        now.line_side[core, flag] = side
        now.line_head[core, flag] = node
    else:
        pool.following[now.line_tail[core, flag]] = node
    now.line_tail[core, flag] = node
    return free


@compiled_in_place
def _sweep(
    done: Ints, frontier: Ints, starts: Ints, fill: Ints, cursor: Ints, parts: Ints, left: Ints,
    overlap: Ints, unit_cycles: Ints, now: _Open, bins: Ints, bin_cycles: int,
) -> tuple[int, int]:  # fmt: skip
    """Add up overlaps and bins of all cores up to their frontiers, which are alike in a block.

    In `starts` each core's pipe has a part of `parts`, [3, stretches], with a place more for its open stretch; `fill`
    and `cursor` begin as copies. Returns how many stretches were added up, which are in `parts`, and how many lie
    behind the frontiers, in `left`.
    """
    units, low, high, lefts = parts[0], parts[1], parts[2], 0
    for i in range(done.shape[0]):
        unit, upto = done[i, 0], frontier[done[i, 0] // PIPES]
        low[fill[unit]], high[fill[unit]] = done[i, 1], min(done[i, 2], upto)
        fill[unit] += high[fill[unit]] > low[fill[unit]]
        if done[i, 2] > upto:
            left[lefts, 0], left[lefts, 1], left[lefts, 2] = unit, max(done[i, 1], upto), done[i, 2]
            lefts += 1
    for core in range(frontier.shape[0]):
        for pipe in range(PIPES):
            unit, start = core * PIPES + pipe, now.run_start[core, pipe]
            end = min(now.run_end[core, pipe], frontier[core])
            if end > start:
                low[fill[unit]], high[fill[unit]] = start, end
                fill[unit] += 1
                now.run_start[core, pipe] = end
        for first in range(PIPES):
            a, b = starts[core * PIPES + first], fill[core * PIPES + first]
            if b == a:
                continue
            for i in range(a, b):
                _add_to_bins(bins, bin_cycles, first, low[i], high[i])
            for second in range(first + 1, PIPES):
                unit = core * PIPES + second
                overlap[first, second] += _shared(low, high, a, b, starts[unit], fill[unit])
    for block in range(unit_cycles.shape[0]):
        _add_units(unit_cycles, block, frontier.shape[0] // unit_cycles.shape[0], cursor, fill, low, high)
    count = 0
    for unit in range(fill.shape[0]):
        for i in range(starts[unit], fill[unit]):
            units[count], low[count], high[count] = unit, low[i], high[i]
            count += 1
    return count, lefts


@inlined
def _add_units(unit_cycles: Ints, block: int, per: int, cursor: Ints, fill: Ints, low: Ints, high: Ints) -> None:
    """Add up when any V of a block's cores is busy, and when the M of its first core is, too.

    `cursor` is where the stretches of each core's pipe begin, and is moved along. Those of all V are taken in the order
    of their starts.
    """
    cube = block * per * PIPES + _M
    upto = 0
    while True:
        best = -1
        for core in range(block * per, (block + 1) * per):
            unit = core * PIPES + _V
            if cursor[unit] < fill[unit] and (best < 0 or low[cursor[unit]] < low[cursor[best]]):
                best = unit
        if best < 0:
            break
        begin, end = max(low[cursor[best]], upto), high[cursor[best]]
        cursor[best] += 1
        if end <= begin:
            continue
        upto = end
        unit_cycles[block, 0] += end - begin
        while cursor[cube] < fill[cube] and high[cursor[cube]] <= begin:
            cursor[cube] += 1
        at = cursor[cube]
        while at < fill[cube] and low[at] < end:
            unit_cycles[block, 1] += min(high[at], end) - max(low[at], begin)
            at += 1


@inlined
def _add_to_bins(bins: Ints, bin_cycles: int, pipe: int, start: int, end: int) -> None:
    """Spread a stretch of work over the bins it lies in."""
    at = start // bin_cycles
    while start < end:
        upto = min(end, (at + 1) * bin_cycles)
        bins[pipe, at] += upto - start
        start = upto
        at += 1


@compiled_in_place
def _repeat_in_bins(bins: Ints, bin_cycles: int, stretches: Ints, cycles: int, times: int) -> None:
    """Spread copies of stretches over the bins, each later by a period; by what lies before the ends of each bin."""
    for i in range(stretches.shape[0]):
        pipe, start, end = stretches[i, 0] % PIPES, stretches[i, 1], stretches[i, 2]
        first = (start + cycles) // bin_cycles
        before = 0
        for at in range(first, min(bins.shape[1], (end + times * cycles) // bin_cycles + 1)):
            edge = (at + 1) * bin_cycles
            upto = _sum_behind(edge - start, cycles, times) - _sum_behind(edge - end, cycles, times)
            bins[pipe, at] += upto - before
            before = upto


@inlined
def _sum_behind(distance: int, cycles: int, times: int) -> int:
    """Sum of what of a distance is left behind one, two, ... up to `times` periods."""
    count = min(max(distance // cycles, 0), times)
    return count * distance - cycles * (count * (count + 1) // 2)


@inlined
def _shared(low: Ints, high: Ints, i: int, i_end: int, j: int, j_end: int) -> int:
    """Length of the intersection of two lists of disjoint sorted stretches."""
    total = 0
    while i < i_end and j < j_end:
        both = min(high[i], high[j]) - max(low[i], low[j])
        if both > 0:
            total += both
        if high[i] <= high[j]:
            i += 1
        else:
            j += 1
    return total


def _close(spent: Ints, now: _Open) -> None:
    """The last instruction or transfer of every pipe counts whole."""
    there = now.last_hot >= 0
    np.add.at(spent, now.last_hot[there], now.last_end[there] - now.last_start[there])


def whole_timeline(program: ScheduleInput, columns: dict[str, Ints], keep: Keep | None = None) -> Timeline:
    """Return the timeline of an engine that gives all rows at once, in the order of their numbers."""
    columns = columns | {"stuck_cycles": _stuck_cycles(program, columns)}
    builder = TotalsBuilder(program)
    rows = np.zeros((len(columns["start"]), EMIT_WIDTH), np.int64)
    for column in Emit:
        if column is not Emit.HOT:
            rows[:, column] = columns[column.name.lower()]
    rows[:, Emit.HOT] = template_starts(program)[program.call_template[columns["call"]]] + columns["row"]
    builder.add(rows, np.full(program.core_count, FOREVER))
    makespan = int(columns["end"].max(initial=0))
    if keep is not None:
        kept = keep.chosen(
            columns["call"], rows[:, Emit.HOT], columns["dispatched"], columns["stuck_cycles"], columns["end"]
        )
        columns = {name: column[kept] for name, column in columns.items()}
    return Timeline(columns, len(rows), makespan, builder.finish())


def _stuck_cycles(program: ScheduleInput, columns: dict[str, Ints]) -> Ints:
    """How long S was held by a full queue before it dispatched a row.

    S takes its rows in order and is never idle before the last one: from the end of the row before (its end if it was
    the scalar unit's own, its dispatch otherwise) until dispatching begins, only a full queue can hold it.
    """
    order = np.argsort(columns["core"], kind="stable")
    core, own = columns["core"][order], columns["pipe"][order] == Pipe.S
    free = np.where(own, columns["end"][order], columns["dispatched"][order])
    free = np.concatenate([np.zeros(1, np.int64), free])[:-1]
    free[np.flatnonzero(np.diff(core, prepend=-1))] = 0
    stuck = np.zeros(len(order), np.int64)
    stuck[order] = np.where(own, 0, columns["dispatched"][order] - program.dispatch_cycles - free)
    return stuck
