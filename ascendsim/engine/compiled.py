"""The fast engine: the loops of loop.py, fed and emptied in chunks."""

import numpy as np
from numpy.typing import NDArray

from ascendsim.engine.base import TIMELINE_COLUMNS, UNITS_HELD, Ints, Keep, ScheduleInput, Skip, Timeline
from ascendsim.engine.loop import FEW_ROWS, LAST_CYCLE, Stop, run
from ascendsim.engine.state import (
    NONE,
    Core,
    Count,
    Field,
    Held,
    Keeping,
    More,
    Program,
    Queued,
    State,
    Unit,
    lay_out,
    more_nodes,
)
from ascendsim.engine.steady import Steady
from ascendsim.engine.table import EMIT_WIDTH, FOREVER, PIPES, Emit
from ascendsim.engine.totals import NO_TOTALS, TotalsBuilder
from ascendsim.errors import Deadlock
from ascendsim.jit import is_compiled
from ascendsim.progress import StageProgress
from ascendsim.terms import Pipe

_FIRST_NODES = 1 << 10
"""Flags that may be up at once before there is need for more room: all that short programs need."""
CHUNK_ROWS = 1 << 16
"""Rows between two looks at what has come out, at least: enough for what Python does in between not to count."""


def schedule(program: ScheduleInput, progress: StageProgress | None = None, keep: Keep | None = None) -> Timeline:
    """Return when every row runs, or only those to keep.

    Raises:
        Deadlock: rows are left that wait for flags nobody raises.
    """
    return _Run(program, progress, keep).timeline()


def makespan_cycles(program: ScheduleInput) -> int:
    """Return the cycle by which every row is complete, and nothing else: the fastest question.

    Raises:
        Deadlock: rows are left that wait for flags nobody raises.
    """
    fixed, state = lay_out(program, 1, detail=False)
    keeping = _keeping(None, 0)
    while (stop := run(fixed, state, NO_TOTALS, keeping)) == Stop.NODES:
        state = more_nodes(state, max(CHUNK_ROWS, len(state.time)))
    if stop == Stop.STUCK:
        raise _deadlock(program, fixed, state)
    return _makespan(state)


def is_ready() -> bool:
    """Whether the loops are compiled or lie in the cache on disk; otherwise the first run takes some seconds more."""
    return is_compiled(run)


class _Run:
    """One run: the state, and what becomes of the rows that come out of it."""

    def __init__(self, program: ScheduleInput, progress: StageProgress | None, keep: Keep | None) -> None:
        self._program = program
        self._progress = progress
        self._keep = keep
        room = FEW_ROWS + program.core_count * PIPES
        self._fixed, fresh = lay_out(program, room, detail=True)
        self._state = more_nodes(fresh, _FIRST_NODES)
        self._row_count = int(self._fixed.call_number[-1])
        self._room = room + min(CHUNK_ROWS, self._row_count)
        self._keeping = _keeping(keep, self._room)
        self._builder = TotalsBuilder(program)
        self._whole = np.zeros((self._row_count if keep is None else 0, EMIT_WIDTH), np.int64)
        self._kept: list[Ints] = []
        self._steady = None if keep is None else Steady.of(self._fixed, self._state, keep, CHUNK_ROWS)

    def timeline(self) -> Timeline:
        """Run to the end and return what was kept."""
        skipped: list[Skip] = []
        while True:
            stop = run(self._fixed, self._state, self._builder.taking(self._room), self._keeping)
            added = self._take_rows(is_ended=stop == Stop.ENDED)
            if self._steady is not None:
                self._steady.note(added)
            if stop == Stop.NODES:
                self._state = more_nodes(self._state, max(CHUNK_ROWS // 16, len(self._state.time), 1))
            elif stop == Stop.LIMIT:
                assert self._steady is not None
                skipped += self._steady.look(self._state, self._builder)
            elif stop == Stop.STUCK:
                raise _deadlock(self._program, self._fixed, self._state)
            elif stop == Stop.ENDED:
                break
        makespan = _makespan(self._state)
        return Timeline(self._columns(), self._row_count, makespan, self._builder.finish(), tuple(skipped))

    def _take_rows(self, *, is_ended: bool) -> Ints:
        """Keep what is to be kept of what came out; return the stretches of work that were added up."""
        count = self._state.counts
        nowhere = np.full(len(self._state.core), FOREVER, np.int64)
        added = self._builder.settle(nowhere if is_ended else frontier(self._fixed, self._state))
        rows = self._keeping.rows[: count[Count.KEPT]]
        if self._keep is None:
            self._whole[rows[:, Emit.NUMBER]] = rows
        elif len(rows):
            self._kept.append(rows.copy())
        count[Count.KEPT] = 0
        if self._progress is not None:
            self._progress(int(count[Count.DONE]), self._row_count)
        return added

    def _columns(self) -> dict[str, Ints]:
        """The kept rows as a timeline's columns."""
        rows = self._whole
        if self._keep is not None:
            rows = np.concatenate([np.zeros((0, EMIT_WIDTH), np.int64), *self._kept])
            rows = rows[np.argsort(rows[:, Emit.NUMBER])]
        hot, table = rows[:, Emit.HOT], self._fixed.table
        found = {e.name.lower(): rows[:, e] for e in Emit}
        found |= {"pipe": table[hot, Field.PIPE], "kind": table[hot, Field.KIND]}
        found["row"] = hot - self._fixed.starts[self._fixed.call_template[rows[:, Emit.CALL]]]
        return {name: np.ascontiguousarray(found[name]) for name in TIMELINE_COLUMNS}


def _keeping(keep: Keep | None, room: int) -> Keeping:
    """What the loop needs to know of rows to keep, with room for so many."""
    none, rows = np.zeros(0, np.int64), np.zeros((room, EMIT_WIDTH), np.int64)
    if keep is None:
        return Keeping(1, np.zeros(0, np.bool_), none, np.zeros((0, 2), np.int64), rows)
    windows = np.array(keep.windows, np.int64).reshape(-1, 2)
    return Keeping(0, keep.calls, none if keep.ends is None else keep.ends, windows, rows)


def _makespan(state: State) -> int:
    makespan = int(state.counts[Count.MAKESPAN])
    if makespan >= LAST_CYCLE:
        raise OverflowError(f"the run takes {makespan} cycles or more; the engine counts to {LAST_CYCLE}")
    return makespan


def frontier(fixed: Program, state: State) -> Ints:
    """Return, for each core, a cycle before which no instruction or transfer starts that has not come out yet.

    What waits goes on after that which it waits for: another part of the same core, or for a cross-core flag of any.
    """
    cores = len(state.core)
    unit = state.unit.reshape(cores, PIPES, -1)
    core, pipe = np.indices((cores, PIPES))
    queue, place = state.queue.reshape(cores, PIPES, *state.queue.shape[1:]), unit[:, :, Unit.PLACE]
    behind = np.where(place < fixed.depth, place + 1, 0)
    ready = np.maximum(queue[core, pipe, behind, Queued.DISPATCHED], unit[:, :, Unit.OCCUPIED])
    waiting = unit[:, :, Unit.TAKEN] != unit[:, :, Unit.PUSHED]
    held, hot = unit[:, :, Unit.HELD], queue[core, pipe, place, Queued.HOT]
    lowest = np.where(held != Held.NOT, queue[core, pipe, place, Queued.START], np.where(waiting, ready, FOREVER))
    pipe_waits, pipe_crosses = _waits_for_flag(fixed, state, core, hot, held)
    at = np.where(state.core[:, Core.HELD] == Held.DONE, FOREVER, state.core[:, Core.AT])
    scalar_waits, scalar_crosses = _scalar_waits(fixed, state)
    pipes = np.where(pipe_waits, FOREVER, lowest).min(axis=1)
    going = np.minimum(pipes, np.where(scalar_waits, FOREVER, at))
    crosses = pipe_crosses.any(axis=1) | scalar_crosses
    going = np.where(crosses, going.min(initial=FOREVER), going)
    return np.asarray(np.where(going < FOREVER, going, np.minimum(lowest.min(axis=1), at)))


def _waits_for_flag(
    fixed: Program, state: State, core: Ints, hot: Ints, held: Ints
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether parts are held by a wait whose flag is down, and whether that is a cross-core flag."""
    if not len(fixed.table):
        nowhere = np.zeros(hot.shape, np.bool_)
        return nowhere, nowhere
    waits = (held == Held.FLAG) & (state.head[core, fixed.table[hot, Field.CHANNEL]] == NONE)
    return waits, waits & (fixed.more[hot, More.CROSS] > 0)


def _scalar_waits(fixed: Program, state: State) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether scalar units stand before a full queue, at a barrier or a flag, and whether at a cross-core flag."""
    held, hot = state.core[:, Core.HELD], state.core[:, Core.HOT]
    inside = np.where((held == Held.ROOM) | (held == Held.FLAG), hot, 0)
    core = np.arange(len(hot))
    by_flag, crosses = _waits_for_flag(fixed, state, core, inside, held)
    pipe = fixed.table[inside, Field.PIPE] if len(fixed.table) else inside
    unit = state.unit[core * PIPES + pipe]
    full = unit[:, Unit.PUSHED] - unit[:, Unit.TAKEN] >= fixed.depth[pipe]
    return np.asarray(by_flag | (held == Held.BARRIER) | ((held == Held.ROOM) & full)), crosses


def _deadlock(program: ScheduleInput, fixed: Program, state: State) -> Deadlock:
    """What every core waits for when nothing can move."""
    last, left = int(state.counts[Count.MAKESPAN]), int(fixed.call_number[-1] - state.counts[Count.DONE])
    lines = [f"deadlock at cycle {last}: {left} of {fixed.call_number[-1]} rows cannot run"]
    for core in range(len(state.core)):
        texts = (program.flag_text(*_flag_of(fixed, hot)) for hot in _waiting(state, core))
        lines += [f"  core {core} waits for {text}, which nobody raises" for text in texts]
        held_by_units = state.unit[core * PIPES : (core + 1) * PIPES, Unit.HELD] == Held.UNIT_FLAG
        lines += [f"  core {core}: {text}" for pipe, text in UNITS_HELD.items() if held_by_units[pipe]]
        held = state.core[core, Core.HELD]
        if held == Held.ROOM:
            pipe = Pipe(int(fixed.table[state.core[core, Core.HOT], Field.PIPE]))
            lines.append(f"  core {core}: S waits for room in the queue of {pipe.name}")
        elif held == Held.BARRIER:
            lines.append(f"  core {core}: S waits for a barrier on all pipes")
    return Deadlock("\n".join(lines[:20]), last)


def _waiting(state: State, core: int) -> list[int]:
    """Table rows of the waits that hold the scalar unit or a pipe of a core."""
    found = [int(state.core[core, Core.HOT])] if state.core[core, Core.HELD] == Held.FLAG else []
    units = range(core * PIPES, (core + 1) * PIPES)
    held = [at for at in units if state.unit[at, Unit.HELD] == Held.FLAG]
    return found + [int(state.queue[at, state.unit[at, Unit.PLACE], Queued.HOT]) for at in held]


def _flag_of(fixed: Program, hot: int) -> tuple[int, int]:
    """Flag number and `cross` of a wait."""
    cross = int(fixed.more[hot, More.CROSS])
    if cross:
        return int(fixed.more[hot, More.MODE_FLAG]) - (cross - 1) * fixed.mode_flags, cross
    return int(fixed.table[hot, Field.CHANNEL]), 0
