"""The compiled engine's loops. See base.py for what they must do; the reference says the same in readable form.

A core's scalar unit and pipes meet only through queues, flags and barriers, each of which hands numbers on in order. So
each can be worked as far as what it needs is known, in any order and without a clock (`_run_core`). Only the links and
L2 depend on who comes first. What reaches them waits in a heap; when no core can move any more, the earliest is taken
(`run`): nothing that a core does later can come before it.
"""

from enum import IntEnum

from ascendsim.engine.base import UNITS_PER_BYTE, Ints, Kind, UnitFlag, Wait
from ascendsim.engine.state import (
    ABSENT,
    CLASH_SHIFT,
    LINE_BITS,
    LINE_SHIFT,
    NONE,
    Bit,
    Core,
    Count,
    Field,
    Held,
    Keeping,
    Link,
    More,
    Program,
    Queued,
    Segment,
    State,
    Unit,
    UnitUse,
)
from ascendsim.engine.table import EMIT_WIDTH, FOREVER, PIPES, Emit
from ascendsim.engine.totals import Taking, has_room, take_row
from ascendsim.jit import called, compiled_in_place, inlined
from ascendsim.terms import Pipe

_S, _M, _FIX = int(Pipe.S), int(Pipe.M), int(Pipe.FIX)
_NOTHING, _PIPE_ORDER, _DISPATCH, _BARRIER, _BANDWIDTH, _UNIT_FLAG = (
    int(w) for w in (Wait.NOTHING, Wait.PIPE_ORDER, Wait.DISPATCH, Wait.BARRIER, Wait.BANDWIDTH, Wait.UNIT_FLAG)
)
_LOW = (1 << LINE_BITS) - 1
"""The half of a word of L2's table that says which lines are there."""
UNIT_BITS = 12
"""Bits of a heap key for the unit: MOST_CORES times the number of pipes."""
_PHASE = 1 << UNIT_BITS
"""Bit of a heap key that puts starts behind what happens to transfers on their way in the same cycle."""
TIME_SHIFT = UNIT_BITS + 1
"""Bits of a heap key below the time."""
FEW_ROWS = 64
"""Rows after which those that have run are handed on: few enough to lie in the processor's own memory still."""
LAST_CYCLE = 1 << (62 - TIME_SHIFT)
"""Times are below this, three and a half days at 1.85 GHz."""


class Stop(IntEnum):
    """Why `run` came back."""

    ENDED = 0
    FULL = 1
    """No room for more rows: in what they are added up in, or kept; inside in `State.out`."""
    NODES = 2
    """No free nodes."""
    LIMIT = 3
    """A core reached its limit, and nobody else can move."""
    STUCK = 4
    """Rows are left that nothing releases."""
    MOVING = 5
    """Inside only: nothing to report."""


@compiled_in_place
def run(p: Program, s: State, t: Taking, k: Keeping) -> int:
    """Go on until there is a reason to stop.

    Rows that have run are added up and kept a few at a time, while they are in the processor's own memory.
    """
    if p.l2_warm and s.counts[Count.IS_WARM] == 0:
        s.counts[Count.IS_WARM] = 1
        _warm_up(p, s)
    while True:
        stop = _go_on(p, s)
        goes_on = _hand_on(p, s, t, k)
        if stop != Stop.FULL or not goes_on:
            return stop


@inlined
def _go_on(p: Program, s: State) -> int:
    """Go on until there is a reason to stop, or some rows to hand on."""
    while True:
        while s.counts[Count.READY] > 0:
            s.counts[Count.READY] -= 1
            core = s.ready[s.counts[Count.READY]]
            stop = _run_core(p, s, core)
            if stop != Stop.MOVING:
                s.ready[s.counts[Count.READY]] = core
                s.counts[Count.READY] += 1
                return stop
        if s.counts[Count.STOPPED] > 0:
            return Stop.LIMIT
        if p.detail > 0 and s.counts[Count.EMITTED] >= FEW_ROWS:
            return Stop.FULL
        if not _next_event(p, s):
            return Stop.ENDED if s.counts[Count.DONE] == p.call_number[-1] else Stop.STUCK


@inlined
def _hand_on(p: Program, s: State, t: Taking, k: Keeping) -> bool:
    """Add up and keep the rows that have run; whether there is room for as many more."""
    if p.detail == 0:
        return True
    for i in range(s.counts[Count.EMITTED]):
        take_row(s.out, i, t)
        if _is_kept(s.out, i, k):
            to = s.counts[Count.KEPT]
            for column in range(EMIT_WIDTH):
                k.rows[to, column] = s.out[i, column]
            s.counts[Count.KEPT] = to + 1
    s.counts[Count.EMITTED] = 0
    return has_room(t, s.out.shape[0]) and k.rows.shape[0] - s.counts[Count.KEPT] >= s.out.shape[0]


@inlined
def _is_kept(rows: Ints, i: int, k: Keeping) -> bool:
    """Whether a row is to be kept, as `Keep` says."""
    if k.every > 0:
        return True
    is_whole = k.ends.shape[0] == 0
    if k.calls[rows[i, Emit.CALL]] and (is_whole or k.ends[rows[i, Emit.HOT]] > 0):
        return True
    for at in range(k.windows.shape[0]):
        begin = rows[i, Emit.DISPATCHED] - rows[i, Emit.STUCK_CYCLES]
        if begin < k.windows[at, 1] and rows[i, Emit.END] > k.windows[at, 0]:
            return True
    return False


@inlined
def _wake(s: State, core: int, pipes: int) -> None:
    """Have some pipes of a core looked at again, given as bits."""
    if s.wake[core] == 0:
        s.ready[s.counts[Count.READY]] = core
        s.counts[Count.READY] += 1
    s.wake[core] |= pipes


# ---- cores ------------------------------------------------------------------------------------------------------


@inlined
def _run_core(p: Program, s: State, core: int) -> int:
    """Work a core's pipes and scalar unit as far as what they need is known."""
    todo = s.wake[core] & ~1
    nodes_left = len(s.time) - p.group_waiters.shape[1] - 2
    while True:
        if s.counts[Count.NODES] > nodes_left or (p.detail > 0 and s.counts[Count.EMITTED] >= FEW_ROWS):
            s.wake[core] = todo | 1
            return Stop.NODES if s.counts[Count.NODES] > nodes_left else Stop.FULL
        if todo:
            pipe = 1
            while not todo >> pipe & 1:
                pipe += 1
            woken = _run_pipe(p, s, core, pipe)
            if woken < 0:
                todo &= ~(1 << pipe)
            else:
                todo |= woken
            continue
        woken = _run_scalar(p, s, core)
        if woken < 0:
            s.wake[core] = 0
            return Stop.MOVING
        todo = woken


@inlined
def _run_pipe(p: Program, s: State, core: int, pipe: int) -> int:
    """Work one row of a pipe; return the bits of pipes that it may have released, or -1 if it cannot go on."""
    at = core * PIPES + pipe
    if s.unit[at, Unit.HELD] != Held.NOT:
        if s.unit[at, Unit.HELD] == Held.FLAG:
            return _try_wait(p, s, core, at)
        return _try_units(p, s, core, at) if s.unit[at, Unit.HELD] == Held.UNIT_FLAG else -1
    if s.unit[at, Unit.TAKEN] == s.unit[at, Unit.PUSHED]:
        return -1
    place = _behind(p, pipe, s.unit[at, Unit.PLACE])
    s.unit[at, Unit.PLACE] = place
    s.unit[at, Unit.TAKEN] += 1
    hot, dispatched = s.queue[at, place, Queued.HOT], s.queue[at, place, Queued.DISPATCHED]
    occupied = s.unit[at, Unit.OCCUPIED]
    start = max(dispatched, occupied)
    s.queue[at, place, Queued.START] = s.queue[at, place, Queued.LEFT] = start
    waited, cycles, by = _NOTHING, 0, NONE
    if start > dispatched:
        waited, cycles, by = _PIPE_ORDER, start - dispatched, s.unit[at, Unit.LAST]
    elif start > occupied:
        s.unit[at, Unit.COLD] = 1
        waited, cycles, by = _DISPATCH, start - occupied, s.queue[at, place, Queued.AFTER]
    kind = p.table[hot, Field.KIND]
    if kind == Kind.EXEC and p.table[hot, Field.UNIT] == 0:
        begin = p.table[hot, Field.STARTUP] if s.unit[at, Unit.COLD] else p.table[hot, Field.WARM]
        s.unit[at, Unit.COLD] = 0
        busy = start + begin + p.table[hot, Field.OCCUPANCY]
        _finish(p, s, core, at, busy, busy + p.table[hot, Field.DRAIN], waited, cycles, by, 0)
        return 0
    if kind == Kind.SET_FLAG:
        busy = start + p.table[hot, Field.OCCUPANCY]
        up = max(busy, s.unit[at, Unit.COMPLETE])
        _finish(p, s, core, at, busy, up, waited, cycles, by, 0)
        return _raise(p, s, core, pipe, hot, up, s.unit[at, Unit.LAST])
    if kind == Kind.BARRIER:
        held = s.unit[at, Unit.COMPLETE] - start
        if held > 0:
            waited, cycles, by = _BARRIER, held, s.unit[at, Unit.COMPLETE_BY]
        busy = start + max(held, 0) + p.table[hot, Field.OCCUPANCY]
        s.unit[at, Unit.COLD] = 1
        _finish(p, s, core, at, busy, busy, waited, cycles, by, 0)
        return 0
    s.unit[at, Unit.WAITED_FOR], s.unit[at, Unit.WAITED], s.unit[at, Unit.BY] = waited, cycles, by
    if kind == Kind.WAIT_FLAG:
        s.unit[at, Unit.HELD] = Held.FLAG
        return 0
    if p.table[hot, Field.UNIT] > 0:
        s.unit[at, Unit.HELD] = Held.UNIT_FLAG
        return 0
    return _begin_transfer(p, s, core, at, start)


@inlined
def _begin_transfer(p: Program, s: State, core: int, at: int, start: int) -> int:
    """A transfer starts; return the bits of pipes that go on at once."""
    s.unit[at, Unit.HELD] = Held.TRANSFER
    s.unit[at, Unit.WAS_COLD] = s.unit[at, Unit.COLD]
    s.unit[at, Unit.COLD] = 0
    if p.l2_mode == 0:
        _push(s, start << TIME_SHIFT | _PHASE | at)
        return 0
    hot = s.queue[at, s.unit[at, Unit.PLACE], Queued.HOT]
    _choose_way(p, s, at, hot, 1 if p.l2_mode == 1 else 0, 0)
    return _begin_data(p, s, core, at)


@inlined
def _behind(p: Program, pipe: int, place: int) -> int:
    """The place behind one of a pipe's queue, which goes round."""
    return place + 1 if place < p.depth[pipe] else 0


@inlined
def _finish(
    p: Program, s: State, core: int, at: int, occupied: int, end: int, waited: int, cycles: int, by: int, stretch: int
) -> None:
    """Free a pipe from the row that it works on."""
    place = s.unit[at, Unit.PLACE]
    number = s.queue[at, place, Queued.NUMBER]
    s.unit[at, Unit.OCCUPIED] = occupied
    s.unit[at, Unit.LAST] = number
    if end > s.unit[at, Unit.COMPLETE] or s.unit[at, Unit.COMPLETE_BY] < 0:
        s.unit[at, Unit.COMPLETE], s.unit[at, Unit.COMPLETE_BY] = end, number
    to = _count_row(p, s, end)
    if to >= 0:
        s.out[to, Emit.NUMBER], s.out[to, Emit.CORE] = number, core
        s.out[to, Emit.CALL], s.out[to, Emit.HOT] = s.queue[at, place, Queued.CALL], s.queue[at, place, Queued.HOT]
        s.out[to, Emit.DISPATCHED] = s.queue[at, place, Queued.DISPATCHED]
        s.out[to, Emit.START], s.out[to, Emit.OCCUPIED] = s.queue[at, place, Queued.START], occupied
        s.out[to, Emit.END], s.out[to, Emit.WAITED_FOR], s.out[to, Emit.WAIT_CYCLES] = end, waited, cycles
        s.out[to, Emit.RELEASED_BY], s.out[to, Emit.STRETCH_CYCLES] = by, stretch
        s.out[to, Emit.L2_HIT] = s.unit[at, Unit.HIT]
        s.out[to, Emit.STUCK_CYCLES] = s.queue[at, place, Queued.STUCK]


@inlined
def _count_row(p: Program, s: State, end: int) -> int:
    """Count a row that has run; return where to write it down, -1 if nobody wants it."""
    s.counts[Count.DONE] += 1
    s.counts[Count.MAKESPAN] = max(s.counts[Count.MAKESPAN], end)
    if p.detail == 0:
        return -1
    s.counts[Count.EMITTED] += 1
    return s.counts[Count.EMITTED] - 1


@inlined
def _try_wait(p: Program, s: State, core: int, at: int) -> int:
    """Let the wait that holds a pipe go on if its flag is up."""
    place = s.unit[at, Unit.PLACE]
    hot, start = s.queue[at, place, Queued.HOT], s.queue[at, place, Queued.START]
    channel = p.table[hot, Field.CHANNEL]
    if s.head[core, channel] == NONE:
        return -1
    up, setter = _take(s, core, channel)
    waited, cycles, by = s.unit[at, Unit.WAITED_FOR], s.unit[at, Unit.WAITED], s.unit[at, Unit.BY]
    if up > start:
        s.unit[at, Unit.COLD] = 1
        waited, cycles, by = p.table[hot, Field.CAUSE], up - start, setter
    busy = max(start, up) + p.table[hot, Field.OCCUPANCY]
    s.unit[at, Unit.HELD] = Held.NOT
    _finish(p, s, core, at, busy, busy, waited, cycles, by, 0)
    return 0


@inlined
def _run_scalar(p: Program, s: State, core: int) -> int:
    """Take one row; return the bits of pipes that it may have released, or -1 if the scalar unit cannot go on."""
    while s.core[core, Core.HOT] == s.core[core, Core.HOT_END]:
        position = s.core[core, Core.POSITION]
        if position >= s.core[core, Core.LIMIT]:
            return _out_of_calls(s, core)
        call = p.call_of[position]
        template = p.call_template[call]
        s.core[core, Core.CALL], s.core[core, Core.NUMBER] = call, p.call_number[call]
        s.core[core, Core.HOT], s.core[core, Core.HOT_END] = p.starts[template], p.starts[template + 1]
        s.core[core, Core.POSITION] = position + 1
    hot = s.core[core, Core.HOT]
    pipe = p.table[hot, Field.PIPE]
    if pipe == _S:
        return _run_own(p, s, core, hot)
    at, now, stuck = core * PIPES + pipe, s.core[core, Core.AT], 0
    place, pushed = s.unit[at, Unit.PUSH_PLACE], s.unit[at, Unit.PUSHED]
    behind = _behind(p, pipe, place)
    if pushed >= p.depth[pipe]:
        if pushed - s.unit[at, Unit.TAKEN] >= p.depth[pipe]:
            s.core[core, Core.HELD] = Held.ROOM
            return -1
        stuck = max(0, s.queue[at, behind, Queued.LEFT] - now)
    now += stuck + p.dispatch_cycles
    s.queue[at, place, Queued.HOT], s.queue[at, place, Queued.NUMBER] = hot, s.core[core, Core.NUMBER]
    s.queue[at, place, Queued.CALL], s.queue[at, place, Queued.DISPATCHED] = s.core[core, Core.CALL], now
    s.queue[at, place, Queued.AFTER], s.queue[at, place, Queued.STUCK] = s.core[core, Core.BEFORE], stuck
    s.unit[at, Unit.PUSHED], s.unit[at, Unit.PUSH_PLACE] = pushed + 1, behind
    _next_row(s, core, now)
    return 1 << pipe


@inlined
def _out_of_calls(s: State, core: int) -> int:
    """Note whether the scalar unit is done or only at its limit."""
    if s.core[core, Core.POSITION] == s.core[core, Core.LAST]:
        s.core[core, Core.HELD] = Held.DONE
    elif s.core[core, Core.HELD] != Held.LIMIT:
        s.core[core, Core.HELD] = Held.LIMIT
        s.counts[Count.STOPPED] += 1
    return -1


@inlined
def _next_row(s: State, core: int, now: int) -> None:
    """The scalar unit is done with a row."""
    s.core[core, Core.AT] = now
    s.core[core, Core.BEFORE] = s.core[core, Core.NUMBER]
    s.core[core, Core.HOT] += 1
    s.core[core, Core.NUMBER] += 1
    s.core[core, Core.HELD] = Held.NOT


@inlined
def _run_own(p: Program, s: State, core: int, hot: int) -> int:
    """A row of the scalar unit's own."""
    start, kind = s.core[core, Core.AT], p.table[hot, Field.KIND]
    waited, up, by, woken = _NOTHING, start, NONE, 0
    if kind == Kind.WAIT_FLAG:
        if s.head[core, p.table[hot, Field.CHANNEL]] == NONE:
            s.core[core, Core.HELD] = Held.FLAG
            return -1
        up, by = _take(s, core, p.table[hot, Field.CHANNEL])
        waited = p.table[hot, Field.CAUSE]
    elif kind == Kind.BARRIER:
        for at in range(core * PIPES + 1, core * PIPES + PIPES):
            if s.unit[at, Unit.TAKEN] != s.unit[at, Unit.PUSHED] or s.unit[at, Unit.HELD] != Held.NOT:
                s.core[core, Core.HELD] = Held.BARRIER
                return -1
            if s.unit[at, Unit.COMPLETE] > up:
                up, by = s.unit[at, Unit.COMPLETE], s.unit[at, Unit.COMPLETE_BY]
        waited = _BARRIER
    if up <= start:
        waited, up, by = _NOTHING, start, NONE
    number, end = s.core[core, Core.NUMBER], up + p.table[hot, Field.OCCUPANCY]
    to = _count_row(p, s, end)
    if to >= 0:
        s.out[to, Emit.NUMBER], s.out[to, Emit.CORE] = number, core
        s.out[to, Emit.CALL], s.out[to, Emit.HOT] = s.core[core, Core.CALL], hot
        s.out[to, Emit.DISPATCHED], s.out[to, Emit.START], s.out[to, Emit.OCCUPIED] = start, start, end
        s.out[to, Emit.END], s.out[to, Emit.WAITED_FOR], s.out[to, Emit.WAIT_CYCLES] = end, waited, up - start
        s.out[to, Emit.RELEASED_BY], s.out[to, Emit.STRETCH_CYCLES] = by, 0
        s.out[to, Emit.L2_HIT], s.out[to, Emit.STUCK_CYCLES] = 0, 0
    if kind == Kind.SET_FLAG:
        woken = _raise(p, s, core, _S, hot, end, number)
    _next_row(s, core, end)
    return woken


# ---- flags ------------------------------------------------------------------------------------------------------


@inlined
def _node(s: State, time: int, by: int) -> int:
    """Take a free node."""
    node = s.counts[Count.FREE]
    s.counts[Count.FREE] = s.following[node]
    s.counts[Count.NODES] += 1
    s.following[node], s.time[node], s.by[node] = NONE, time, by
    return node


@inlined
def _give_back(s: State, node: int) -> None:
    s.following[node] = s.counts[Count.FREE]
    s.counts[Count.FREE] = node
    s.counts[Count.NODES] -= 1


@inlined
def _append(s: State, core: int, channel: int, time: int, by: int) -> None:
    """Raise a flag of a core."""
    node = _node(s, time, by)
    if s.head[core, channel] == NONE:
        s.head[core, channel] = node
    else:
        s.following[s.tail[core, channel]] = node
    s.tail[core, channel] = node


@inlined
def _take(s: State, core: int, channel: int) -> tuple[int, int]:
    """Take the earliest raised flag: when it rose, and who raised it."""
    node = s.head[core, channel]
    s.head[core, channel] = s.following[node]
    time, by = s.time[node], s.by[node]
    _give_back(s, node)
    return time, by


@inlined
def _raise(p: Program, s: State, core: int, pipe: int, hot: int, time: int, number: int) -> int:
    """A set is complete; return the bit of the pipe of this core that waits for the flag, 0 for none."""
    channel = p.table[hot, Field.CHANNEL]
    if channel >= p.own_channels:
        _raise_cross(p, s, core, pipe, hot, time, number)
        return s.wake[core] & ~1
    _append(s, core, channel, time, number)
    waiter = p.waiter[channel]
    if waiter > 0 and s.unit[core * PIPES + waiter, Unit.HELD] == Held.FLAG:
        return 1 << waiter
    return 0


@inlined
def _raise_cross(p: Program, s: State, core: int, pipe: int, hot: int, time: int, number: int) -> None:
    """One setter of a group has set; when all have for the n-th time, the flags of all waiters rise."""
    group, flag = p.set_group[p.more[hot, More.CROSS] - 1, core], p.more[hot, More.MODE_FLAG]
    if group == NONE:
        return
    ahead = s.cross_count[core, flag] - s.cross_seen[group, flag]
    s.cross_count[core, flag] += 1
    node = s.cross_head[group, flag]
    while ahead > 0 and node != NONE:
        node = s.following[node]
        ahead -= 1
    unit = core * PIPES + pipe
    if node == NONE:
        node = _node(s, time, number)
        s.missing[node], s.place[node] = p.group_setters[group], unit
        if s.cross_head[group, flag] == NONE:
            s.cross_head[group, flag] = node
        else:
            s.following[s.cross_tail[group, flag]] = node
        s.cross_tail[group, flag] = node
    elif time > s.time[node] or (time == s.time[node] and unit < s.place[node]):
        s.time[node], s.by[node], s.place[node] = time, number, unit
    s.missing[node] -= 1
    if s.missing[node] > 0:
        return
    s.cross_head[group, flag] = s.following[node]
    s.cross_seen[group, flag] += 1
    for i in range(p.group_waiters.shape[1]):
        waiter = p.group_waiters[group, i]
        if waiter == NONE:
            break
        channel = p.table[hot, Field.CHANNEL]
        _append(s, waiter, channel, s.time[node] + p.cross_cycles, s.by[node])
        _wake(s, waiter, (1 << PIPES) - 1)
    _give_back(s, node)


# ---- unit flags -------------------------------------------------------------------------------------------------


@called
def _try_units(p: Program, s: State, core: int, at: int) -> int:
    """Let a row with a unit flag start if its bits are as it needs them; return as `_run_pipe`."""
    place = s.unit[at, Unit.PLACE]
    hot, ready = s.queue[at, place, Queued.HOT], s.queue[at, place, Queued.LEFT]
    use = p.table[hot, Field.UNIT] - 1
    up = 1 if p.unit_use[use, UnitUse.FLAG] == UnitFlag.LOWER else 0
    start, by = ready, NONE
    for i in range(p.unit_use[use, UnitUse.FIRST], p.unit_use[use, UnitUse.END]):
        unit = p.unit_of[i]
        if s.bits[core, unit, Bit.UP] != up:
            return -1
        free = max(s.bits[core, unit, Bit.FIRST], s.bits[core, unit, Bit.LAST] - p.unit_use[use, UnitUse.LEAD])
        if free > start or (free == start > ready and s.bits[core, unit, Bit.BY] < by):
            start, by = free, s.bits[core, unit, Bit.BY]
    if start > ready:
        s.unit[at, Unit.COLD] = 1
        s.unit[at, Unit.WAITED_FOR], s.unit[at, Unit.WAITED], s.unit[at, Unit.BY] = _UNIT_FLAG, start - ready, by
        s.queue[at, place, Queued.START] = start
    if p.table[hot, Field.KIND] == Kind.TRANSFER:
        return _begin_transfer(p, s, core, at, start)
    begin = p.table[hot, Field.STARTUP] if s.unit[at, Unit.COLD] else p.table[hot, Field.WARM]
    s.unit[at, Unit.COLD] = 0
    s.unit[at, Unit.HELD] = Held.NOT
    busy = start + begin + p.table[hot, Field.OCCUPANCY]
    waited, cycles, released = s.unit[at, Unit.WAITED_FOR], s.unit[at, Unit.WAITED], s.unit[at, Unit.BY]
    _finish(p, s, core, at, busy, busy + p.table[hot, Field.DRAIN], waited, cycles, released, 0)
    return _hand_over(p, s, core, at, hot, start + begin, busy + p.table[hot, Field.DRAIN])


@called
def _hand_over(p: Program, s: State, core: int, at: int, hot: int, begin: int, end: int) -> int:
    """A row that works on its units from `begin` to `end` sets their bits; return the bit of the pipe that may wait."""
    use = p.table[hot, Field.UNIT] - 1
    flag = p.unit_use[use, UnitUse.FLAG]
    if flag == UnitFlag.KEEP:
        return 0
    for i in range(p.unit_use[use, UnitUse.FIRST], p.unit_use[use, UnitUse.END]):
        unit = p.unit_of[i]
        s.bits[core, unit, Bit.UP] = 0 if flag == UnitFlag.LOWER else 1
        s.bits[core, unit, Bit.FIRST], s.bits[core, unit, Bit.LAST] = begin + p.unit_use[use, UnitUse.STEP], end
        s.bits[core, unit, Bit.BY] = s.unit[at, Unit.LAST]
    return 1 << _M if flag == UnitFlag.LOWER else 1 << _FIX


# ---- what cores share -------------------------------------------------------------------------------------------


@inlined
def _push(s: State, key: int) -> None:
    """Put a key on the heap."""
    at = s.counts[Count.HEAP]
    s.counts[Count.HEAP] += 1
    while at > 0 and s.heap[(at - 1) >> 1] > key:
        s.heap[at] = s.heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    s.heap[at] = key


@inlined
def _pop(s: State) -> int:
    """Take the smallest key off the heap."""
    top = s.heap[0]
    s.counts[Count.HEAP] -= 1
    end = s.counts[Count.HEAP]
    key, at = s.heap[end], 0
    while 2 * at + 1 < end:
        child = 2 * at + 1
        if child + 1 < end and s.heap[child + 1] < s.heap[child]:
            child += 1
        if s.heap[child] >= key:
            break
        s.heap[at] = s.heap[child]
        at = child
    s.heap[at] = key
    return top


@inlined
def _next_event(p: Program, s: State) -> bool:
    """Let the earliest thing happen that cores share; False if there is nothing to come."""
    heap = s.heap[0] >> TIME_SHIFT if s.counts[Count.HEAP] > 0 else FOREVER
    now = heap
    for link in p.used:
        if s.link[link, Link.DIRTY]:
            _settle(p, s, link)
        now = min(now, s.link[link, Link.NEXT])
    if now == FOREVER:
        return False
    for link in p.used:
        if s.link[link, Link.NEXT] == now:
            _leave(p, s, link, now)
            return True
    if s.heap[0] & _PHASE == 0:
        _join(p, s, _pop(s) & (_PHASE - 1), now)
        return True
    # All starts of this cycle in (core, pipe) order; what they set off may start more in the same cycle, later.
    starts = 0
    while s.counts[Count.HEAP] > 0 and s.heap[0] >> UNIT_BITS == now << 1 | 1:
        at = _pop(s) & (_PHASE - 1)
        s.batch[starts] = at
        starts += 1
        place = s.unit[at, Unit.PLACE]
        hot = s.queue[at, place, Queued.HOT]
        if p.more[hot, More.BYPASS] and not p.more[hot, More.WRITES] and p.more[hot, More.BYTES] > 0:
            s.in_use[at] = _first_byte(p, hot, s.queue[at, place, Queued.CALL]) >> p.line_shift
    for i in range(starts):
        at = s.batch[i]
        _look_up(p, s, at)
        woken = _begin_data(p, s, at // PIPES, at)
        if woken:
            _wake(s, at // PIPES, woken)
    return True


@inlined
def _first_byte(p: Program, hot: int, call: int) -> int:
    """Where a transfer's box begins in GM."""
    return p.slot_base[p.call_slot[call] + p.more[hot, More.SLOT]] + p.more[hot, More.OFFSET]


@inlined
def _look_up(p: Program, s: State, at: int) -> None:
    """Find out how a transfer goes: what L2 has of it, and whether another core uses its line."""
    place = s.unit[at, Unit.PLACE]
    hot, call = s.queue[at, place, Queued.HOT], s.queue[at, place, Queued.CALL]
    if p.more[hot, More.BYPASS]:
        _choose_way(p, s, at, hot, 0, 0)
        if s.in_use[at] != NONE and _is_used_elsewhere(s, at):
            clash = p.more[hot, More.CLASH]
            s.unit[at, Unit.LINK], s.unit[at, Unit.CLASS] = clash & ((1 << CLASH_SHIFT) - 1), clash >> CLASH_SHIFT
        return
    hit, lines = _access(p, s, hot, call)
    written_back = lines << p.line_shift
    if p.more[hot, More.WRITES]:
        hit, written_back = lines == 0, max(0, written_back - p.more[hot, More.BYTES])
    _choose_way(p, s, at, hot, 1 if hit else 0, written_back)


@inlined
def _is_used_elsewhere(s: State, at: int) -> bool:
    """Whether a pipe of another core loads, past L2, what begins in the same line."""
    line, core = s.in_use[at], at // PIPES
    for other in range(s.in_use.shape[0]):  # noqa: SIM110 - compiled, where any() makes a generator
        if s.in_use[other] == line and other // PIPES != core:
            return True
    return False


@inlined
def _choose_way(p: Program, s: State, at: int, hot: int, hit: int, more: int) -> None:
    """Note how a transfer goes; one that misses and has bytes moves some more."""
    s.unit[at, Unit.HIT] = hit
    if hit:
        s.unit[at, Unit.LINK], s.unit[at, Unit.CLASS] = p.more[hot, More.LINK_HIT], p.more[hot, More.CLASS_HIT]
        s.unit[at, Unit.MOVES] = p.more[hot, More.BYTES_HIT]
        return
    moves = p.more[hot, More.BYTES]
    s.unit[at, Unit.LINK], s.unit[at, Unit.CLASS] = p.more[hot, More.LINK], p.more[hot, More.CLASS]
    s.unit[at, Unit.MOVES] = moves + more if moves > 0 else 0


@inlined
def _begin_data(p: Program, s: State, core: int, at: int) -> int:
    """A transfer knows its way; return as `_end_transfer` if it is over because it has no bytes, otherwise 0."""
    place = s.unit[at, Unit.PLACE]
    hot, start = s.queue[at, place, Queued.HOT], s.queue[at, place, Queued.START]
    if s.unit[at, Unit.HIT]:
        begin = p.more[hot, More.STARTUP_HIT] if s.unit[at, Unit.WAS_COLD] else p.more[hot, More.WARM_HIT]
    else:
        begin = p.table[hot, Field.STARTUP] if s.unit[at, Unit.WAS_COLD] else p.table[hot, Field.WARM]
    s.unit[at, Unit.JOINED], s.unit[at, Unit.LEAST] = start, start + begin
    if s.unit[at, Unit.MOVES] == 0:
        return _end_transfer(p, s, core, at, start + begin, 0, NONE)
    _push(s, start << TIME_SHIFT | at)
    return 0


@inlined
def _end_transfer(p: Program, s: State, core: int, at: int, through: int, stretch: int, rival: int) -> int:
    """All bytes of a transfer are through; return the bits of its pipe and of the one that it may have released."""
    place = s.unit[at, Unit.PLACE]
    hot, start = s.queue[at, place, Queued.HOT], s.queue[at, place, Queued.START]
    waited, cycles, by = s.unit[at, Unit.WAITED_FOR], s.unit[at, Unit.WAITED], s.unit[at, Unit.BY]
    if (stretch > cycles or (stretch > 0 and waited == _PIPE_ORDER)) and waited != _UNIT_FLAG:
        waited, cycles, by = _BANDWIDTH, stretch, rival
    occupied = max(through, start + p.table[hot, Field.OCCUPANCY])
    s.unit[at, Unit.HELD] = Held.NOT
    end = occupied + p.table[hot, Field.DRAIN]
    s.in_use[at] = NONE
    _finish(p, s, core, at, occupied, end, waited, cycles, by, stretch)
    s.unit[at, Unit.HIT] = 0
    own = 1 << (at - core * PIPES)
    return own | _hand_over(p, s, core, at, hot, s.unit[at, Unit.LEAST], end) if p.table[hot, Field.UNIT] > 0 else own


# ---- links ------------------------------------------------------------------------------------------------------


@inlined
def _share(s: State, link: int) -> int:
    """Units a cycle that a link has for each of its transfers."""
    return s.link[link, Link.CAPACITY] // s.link[link, Link.ACTIVE]


@inlined
def _advance(p: Program, s: State, link: int, now: int) -> None:
    """Serve everybody up to now, cap by cap: transfers of one cap are served alike."""
    passed = now - s.link[link, Link.SINCE]
    s.link[link, Link.SINCE] = now
    s.link[link, Link.DIRTY] = 1
    if passed > 0 and s.link[link, Link.ACTIVE] > 0:
        share = _share(s, link)
        for which in range(p.caps.shape[1]):
            if s.active[link, which] > 0:
                s.served[link, which] += passed * max(1, min(p.caps[link, which], share))


@inlined
def _settle(p: Program, s: State, link: int) -> None:
    """Find out when the next transfer leaves, if nobody else comes."""
    s.link[link, Link.DIRTY] = 0
    soonest = FOREVER
    if s.link[link, Link.ACTIVE] > 0:
        share = _share(s, link)
        for which in range(p.caps.shape[1]):
            if s.active[link, which] > 0:
                left = s.finish[link, which, 0] - s.served[link, which]
                rate = max(1, min(p.caps[link, which], share))
                soonest = min(soonest, s.link[link, Link.SINCE] + (left + rate - 1) // rate)
    s.link[link, Link.NEXT] = soonest


@inlined
def _join(p: Program, s: State, at: int, now: int) -> None:
    """A transfer begins its data phase."""
    link, which = s.unit[at, Unit.LINK], s.unit[at, Unit.CLASS]
    _advance(p, s, link, now)
    key = s.served[link, which] + s.unit[at, Unit.MOVES] * UNITS_PER_BYTE
    i = s.active[link, which]
    while i > 0 and s.finish[link, which, (i - 1) >> 1] > key:
        s.finish[link, which, i] = s.finish[link, which, (i - 1) >> 1]
        s.who[link, which, i] = s.who[link, which, (i - 1) >> 1]
        i = (i - 1) >> 1
    s.finish[link, which, i], s.who[link, which, i] = key, at
    s.active[link, which] += 1
    s.link[link, Link.ACTIVE] += 1


@inlined
def _drop_first(s: State, link: int, which: int) -> int:
    """Take the transfer that is through first off its cap's heap."""
    top = s.who[link, which, 0]
    s.active[link, which] -= 1
    s.link[link, Link.ACTIVE] -= 1
    end = s.active[link, which]
    key, at, i = s.finish[link, which, end], s.who[link, which, end], 0
    while 2 * i + 1 < end:
        child = 2 * i + 1
        if child + 1 < end and s.finish[link, which, child + 1] < s.finish[link, which, child]:
            child += 1
        if s.finish[link, which, child] >= key:
            break
        s.finish[link, which, i], s.who[link, which, i] = s.finish[link, which, child], s.who[link, which, child]
        i = child
    s.finish[link, which, i], s.who[link, which, i] = key, at
    return top


@inlined
def _leave(p: Program, s: State, link: int, now: int) -> None:
    """Let all transfers go that are through in this cycle."""
    _advance(p, s, link, now)
    before_at, before = s.link[link, Link.LEFT_AT], s.link[link, Link.LEFT]
    first = -1
    for which in range(p.caps.shape[1]):
        while s.active[link, which] > 0 and s.finish[link, which, 0] <= s.served[link, which]:
            at = _drop_first(s, link, which)
            place = s.unit[at, Unit.PLACE]
            alone = max(1, min(p.caps[link, which], s.link[link, Link.CAPACITY]))
            units = s.unit[at, Unit.MOVES] * UNITS_PER_BYTE
            least = s.unit[at, Unit.LEAST] + (units + alone - 1) // alone
            rival = before if before_at > s.unit[at, Unit.JOINED] else NONE
            if first < 0 or at < first:
                first = at
                s.link[link, Link.LEFT] = s.queue[at, place, Queued.NUMBER]
            woken = _end_transfer(p, s, at // PIPES, at, max(now, least), max(0, now - least), rival)
            _wake(s, at // PIPES, woken)
    s.link[link, Link.LEFT_AT] = now


# ---- L2 ---------------------------------------------------------------------------------------------------------


@inlined
def _warm_up(p: Program, s: State) -> None:
    """Leave L2 as the program itself does, without a clock: the first call of every core, then the second, ..."""
    turn, more = 0, True
    while more:
        more = False
        for core in range(s.core.shape[0]):
            position = s.core[core, Core.POSITION] + turn
            if position < s.core[core, Core.LAST]:
                more = True
                call = p.call_of[position]
                template = p.call_template[call]
                for hot in range(p.starts[template], p.starts[template + 1]):
                    if p.table[hot, Field.KIND] == Kind.TRANSFER and not p.more[hot, More.BYPASS]:
                        _access(p, s, hot, call)
        turn += 1


@inlined
def _access(p: Program, s: State, hot: int, call: int) -> tuple[bool, int]:
    """Touch a row's box; return whether all its lines were resident, and how many lines are written back for it."""
    first = _first_byte(p, hot, call)
    rows, length, pitch = p.more[hot, More.ROWS], p.more[hot, More.LENGTH], p.more[hot, More.PITCH]
    if length <= 0 or rows <= 0:
        return True, 0
    if pitch == length:
        rows, length = 1, length * rows
    hit, row, written_back = True, 0, 0
    last = (first + (rows - 1) * pitch + length - 1) >> p.line_shift >> p.segment_shift
    segment = first >> p.line_shift >> p.segment_shift
    while segment <= last:
        while row < rows and (first + row * pitch + length - 1) >> p.line_shift >> p.segment_shift < segment:
            row += 1
        segment = max(segment, (first + row * pitch) >> p.line_shift >> p.segment_shift)
        place = segment - p.l2_first
        _touch(s, place)
        at = row
        while at < rows:
            begin = ((first + at * pitch) >> p.line_shift) - (segment << p.segment_shift)
            if begin >= 1 << p.segment_shift:
                break
            end = ((first + at * pitch + length - 1) >> p.line_shift) - (segment << p.segment_shift)
            new = _mark(s, place, max(begin, 0), min(end, (1 << p.segment_shift) - 1), p.more[hot, More.WRITES])
            hit &= new == 0
            s.counts[Count.LINES] += new
            at += 1
        while s.counts[Count.LINES] > p.l2_lines and s.counts[Count.OLDEST] != place:
            written_back += _drop_oldest(s)
        segment += 1
    return hit, written_back


@inlined
def _bits(word: int) -> int:
    """How many bits are set."""
    word -= word >> 1 & 0x5555555555555555
    word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333)
    word = word + (word >> 4) & 0x0F0F0F0F0F0F0F0F
    word += word >> 8
    word += word >> 16
    return (word + (word >> 32)) & 127


@inlined
def _drop_oldest(s: State) -> int:
    """Drop the least recently used segment; return how many of its lines were written."""
    place, written = s.counts[Count.OLDEST], 0
    for word in range(Segment.WORDS, s.l2.shape[1]):
        lines = s.l2[place, word]
        s.counts[Count.LINES] -= _bits(lines & _LOW)
        written += _bits(lines >> LINE_BITS & _LOW)
        s.l2[place, word] = 0
    _unlink(s, place)
    s.l2[place, Segment.NEWER] = ABSENT
    return written


@inlined
def _mark(s: State, place: int, begin: int, end: int, writes: int) -> int:
    """Have lines of a segment in L2, ends included; return how many were not there before."""
    new = 0
    while begin <= end:
        word, low = Segment.WORDS + (begin >> LINE_SHIFT), begin & (LINE_BITS - 1)
        high = min(end - (begin - low), LINE_BITS - 1)
        mask = ((1 << (high - low + 1)) - 1) << low
        lines = s.l2[place, word]
        missing = mask & ~lines
        if missing:
            new += _bits(missing)
        s.l2[place, word] = lines | mask | (mask << LINE_BITS if writes else 0)
        begin += high - low + 1
    return new


@inlined
def _touch(s: State, place: int) -> None:
    """Make a segment the most recently used one."""
    newest = s.counts[Count.NEWEST]
    if place == newest:
        return
    if s.l2[place, Segment.NEWER] != ABSENT:
        _unlink(s, place)
    s.l2[place, Segment.OLDER], s.l2[place, Segment.NEWER] = newest, NONE
    if newest == NONE:
        s.counts[Count.OLDEST] = place
    else:
        s.l2[newest, Segment.NEWER] = place
    s.counts[Count.NEWEST] = place


@inlined
def _unlink(s: State, place: int) -> None:
    """Take a segment out of the order of use."""
    older, newer = s.l2[place, Segment.OLDER], s.l2[place, Segment.NEWER]
    if older == NONE:
        s.counts[Count.OLDEST] = newer
    else:
        s.l2[older, Segment.NEWER] = newer
    if newer == NONE:
        s.counts[Count.NEWEST] = older
    else:
        s.l2[newer, Segment.OLDER] = older
