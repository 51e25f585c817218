"""What the rows of a timeline add up to, taken in chunk by chunk: one way for every engine and every length of run."""

from typing import NamedTuple

import numpy as np

from ascendsim.engine.base import Ints, Keep, Kind, ScheduleInput, Timeline, Totals, Wait
from ascendsim.engine.table import EMIT_WIDTH, FOREVER, PIPES, Emit, table_column, template_starts
from ascendsim.jit import compiled_in_place, inlined
from ascendsim.terms import Pipe

BINS = 1024
"""Bins of the utilisation over time. They get twice as long whenever the run outgrows them."""

_EXEC, _SET, _WAIT, _TRANSFER = int(Kind.EXEC), int(Kind.SET_FLAG), int(Kind.WAIT_FLAG), int(Kind.TRANSFER)
_S = int(Pipe.S)
_QUEUE_FULL, _WAITS = int(Wait.QUEUE_FULL), len(Wait)
_FLAG, _BUFFER, _BARRIER, _CROSS, _UNIT = (
    int(w) for w in (Wait.FLAG, Wait.BUFFER, Wait.BARRIER, Wait.CROSS_CORE, Wait.UNIT_FLAG)
)
_NUMBER, _CORE, _HOT, _START, _END = (int(e) for e in (Emit.NUMBER, Emit.CORE, Emit.HOT, Emit.START, Emit.END))
_WAITED, _CYCLES, _STUCK = int(Emit.WAITED_FOR), int(Emit.WAIT_CYCLES), int(Emit.STUCK_CYCLES)
_NOBODY, _SETS, _TAKES = 0, 1, 2
"""Whose times wait in a flag's line."""


class _Static(NamedTuple):
    """What is known before the run: kind, pipe, flag (-1: none of the core's own) of each table row."""

    kind: Ints
    pipe: Ints
    flag: Ints
    dispatch_cycles: int


class _Sums(NamedTuple):
    """Arrays of `Totals`."""

    busy: Ints
    stalled: Ints
    rows: Ints
    overlap: Ints
    wait_cycles: Ints
    wait_count: Ints
    spent: Ints
    double_sets: Ints
    first_double: Ints


class _Open(NamedTuple):
    """What is going on where a chunk ends: [core, pipe] unless said otherwise.

    Attributes:
        run_start, run_end: the last stretch of unbroken work; run_start moves up with what is already added up.
        last_hot, last_start, last_end: the last instruction or transfer; last_hot -1 for none.
        line_side, line_head, line_tail: [core, flag] the line of a flag: sets after the first, or waits, that have
            not met their counterpart.
        seen: [core, flag] whether a set was seen.
    """

    run_start: Ints
    run_end: Ints
    last_hot: Ints
    last_start: Ints
    last_end: Ints
    line_side: Ints
    line_head: Ints
    line_tail: Ints
    seen: Ints


class _Pool(NamedTuple):
    """Nodes of the flags' lines: following node, time, table row, row number; free nodes are chained, too."""

    following: Ints
    time: Ints
    hot: Ints
    number: Ints


class TotalsBuilder:
    """Adds rows up. Rows of one core and pipe come in their order; those of different ones in any."""

    def __init__(self, program: ScheduleInput) -> None:
        kind, pipe = table_column(program, "kind"), table_column(program, "pipe")
        flag = np.where(table_column(program, "cross") > 0, -1, table_column(program, "flag"))
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
            wait_cycles=zeros(table, _WAITS),
            wait_count=zeros(table, _WAITS),
            spent=zeros(table),
            double_sets=zeros(table),
            first_double=zeros(table) - 1,
        )
        self.open = _Open(
            zeros(cores, PIPES), zeros(cores, PIPES), zeros(cores, PIPES) - 1, zeros(cores, PIPES),
            zeros(cores, PIPES), *(zeros(cores, flags) for _ in range(4)),
        )  # fmt: skip
        self.carried = zeros(0, 3)
        """Stretches of work that lie behind what is added up so far: (core * PIPES + pipe, start, end)."""
        self.bin_cycles = 1
        self.bins = zeros(PIPES, BINS)
        self.pool = _Pool(*(zeros(0) for _ in range(4)))
        self._free = -1
        self._used = 0

    def add(self, rows: Ints, frontier: Ints) -> Ints:
        """Take in rows, [rows, EMIT_WIDTH]; no later row starts before its core's `frontier`, [core].

        Returns the stretches of work that were added up, [stretches, 3] as `carried`.
        """
        self._make_room(len(rows))
        done = np.empty((len(rows) + len(self.carried), 3), np.int64)
        done[: len(self.carried)] = self.carried
        count, self._free, taken = _take_rows(
            rows, self._static, self.sums, self.open, self.pool, self._free, done, len(self.carried)
        )
        self._used += taken
        ends = [self.open.run_end.max(initial=0), done[:count, 2].max(initial=0)]
        self._make_bins_long(int(max(ends)))
        return self._add_up(done[:count], frontier)

    def _add_up(self, done: Ints, frontier: Ints) -> Ints:
        """Add up overlaps and bins up to the frontiers; return what was added, and carry what is left."""
        starts = np.zeros(self.open.run_start.size + 1, np.int64)
        np.cumsum(np.bincount(done[:, 0], minlength=len(starts) - 1) + 1, out=starts[1:])
        parts, left = np.empty((3, starts[-1]), np.int64), np.empty_like(done)
        count, lefts = _sweep(
            done, frontier, starts, starts[:-1].copy(), parts, left,
            self.sums.overlap, self.open, self.bins, self.bin_cycles,
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
            wait_cycles=self.sums.wait_cycles,
            wait_count=self.sums.wait_count,
            spent_cycles=self.sums.spent,
            double_sets=self.sums.double_sets,
            first_double=self.sums.first_double,
            bin_cycles=self.bin_cycles,
            busy_bins=self.bins,
        )

    def _make_room(self, count: int) -> None:
        """Have a node for every row that comes."""
        have = len(self.pool.time)
        if self._used + count <= have:
            return
        more = max(count, have, 1024)
        self.pool = _Pool(*(np.concatenate([column, np.zeros(more, np.int64)]) for column in self.pool))
        self.pool.following[have:] = np.arange(have + 1, have + more + 1)
        self.pool.following[-1] = self._free
        self._free = have

    def repeat(self, before: tuple[Ints, ...], stretches: Ints, cycles: int, times: int) -> None:
        """Add up what came since the sums were as `before`, some more times, each later by so many cycles.

        Args:
            before: copies of `sums`.
            stretches: what `add` returned since.
            cycles: length of the period.
            times: how often it repeats.
        """
        for array, then in zip(self.sums, before, strict=True):
            if array is not self.sums.first_double:
                np.add(array, times * (array - then), out=array)
        if len(stretches):
            self._make_bins_long(int(stretches[:, 2].max()) + times * cycles)
            _repeat_in_bins(self.bins, self.bin_cycles, stretches, cycles, times)

    def _make_bins_long(self, cycles: int) -> None:
        while cycles > BINS * self.bin_cycles:
            self.bin_cycles *= 2
            halves = self.bins.reshape(PIPES, BINS // 2, 2).sum(axis=2)
            self.bins = np.concatenate([halves, np.zeros_like(halves)], axis=1)


@compiled_in_place
def _take_rows(
    rows: Ints, static: _Static, sums: _Sums, now: _Open, pool: _Pool, free: int, done: Ints, count: int
) -> tuple[int, int, int]:
    """Add up what a row says by itself; write finished stretches of work to `done`.

    Returns their count, the head of the free nodes, and how many nodes more are in use.
    """
    taken = 0
    for i in range(rows.shape[0]):
        core, hot = rows[i, _CORE], rows[i, _HOT]
        start, end, waited, cycles = rows[i, _START], rows[i, _END], rows[i, _WAITED], rows[i, _CYCLES]
        kind, pipe, stuck = static.kind[hot], static.pipe[hot], rows[i, _STUCK]
        if cycles > 0:
            sums.wait_cycles[hot, waited] += cycles
            sums.wait_count[hot, waited] += 1
        held = cycles if waited == _FLAG or waited == _BUFFER or waited == _BARRIER or waited == _CROSS else 0
        is_work = kind == _EXEC or kind == _TRANSFER
        sums.rows[core, pipe] += is_work
        if pipe == _S:
            if is_work:
                sums.busy[core, pipe] += end - start
            else:
                sums.stalled[core, pipe] += held
        else:
            sums.busy[core, _S] += static.dispatch_cycles
            if stuck > 0:
                sums.stalled[core, _S] += stuck
                sums.wait_cycles[hot, _QUEUE_FULL] += stuck
                sums.wait_count[hot, _QUEUE_FULL] += 1
            if is_work:
                last = now.last_hot[core, pipe]
                if last >= 0:
                    sums.spent[last] += min(now.last_end[core, pipe], start) - now.last_start[core, pipe]
                now.last_hot[core, pipe], now.last_start[core, pipe], now.last_end[core, pipe] = hot, start, end
                before = now.run_end[core, pipe]
                if waited == _UNIT:
                    sums.stalled[core, pipe] += max(start - max(start - cycles, before), 0)
                if end > before:
                    sums.busy[core, pipe] += end - max(start, before)
                    if start > before:
                        if before > now.run_start[core, pipe]:
                            done[count, 0], done[count, 1], done[count, 2] = (
                                core * PIPES + pipe,
                                now.run_start[core, pipe],
                                before,
                            )
                            count += 1
                        now.run_start[core, pipe] = start
                    now.run_end[core, pipe] = end
            elif held > 0:
                behind = start + held - max(start, now.run_end[core, pipe])
                if behind > 0:
                    sums.stalled[core, pipe] += behind
        flag = static.flag[hot]
        if flag >= 0:
            if kind == _SET:
                if now.seen[core, flag] == 0:
                    now.seen[core, flag] = 1
                    continue
                side, time = _SETS, end
            else:
                side, time = _TAKES, start + held
            before = free
            free = _meet(now, pool, free, sums, core, flag, side, time, hot, rows[i, _NUMBER])
            taken += 1 if now.line_side[core, flag] == side else -1
    return count, free, taken


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
    done: Ints, frontier: Ints, starts: Ints, fill: Ints, parts: Ints, left: Ints,
    overlap: Ints, now: _Open, bins: Ints, bin_cycles: int,
) -> tuple[int, int]:  # fmt: skip
    """Add up overlaps and bins of all cores up to their frontiers.

    In `starts` each core's pipe has a part of `parts`, [3, stretches], with a place more for its open stretch; `fill`
    begins as a copy. Returns how many stretches were added up, which are in `parts`, and how many lie behind the
    frontiers, in `left`.
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
    count = 0
    for unit in range(fill.shape[0]):
        for i in range(starts[unit], fill[unit]):
            units[count], low[count], high[count] = unit, low[i], high[i]
            count += 1
    return count, lefts


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
