"""The compiled engine's state: integer arrays, their columns, and how they are laid out for a program.

A *unit* is a pipe of a core: core * PIPES + pipe. Times are cycles, rows are numbers over the whole program.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascendsim.engine.base import SCHEDULE_COLUMNS, Ints, Kind, ScheduleInput, Wait
from ascendsim.engine.table import EMIT_WIDTH, FOREVER, PIPES, template_starts

NONE = -1
ABSENT = -2
"""In the place of the next newer segment: this one is not in L2."""
CLASH_SHIFT = 16
LINE_SHIFT = 5
LINE_BITS = 1 << LINE_SHIFT
"""Lines of a segment in one word of L2's table, in its low bits; in the high ones, those of them that were written."""
_FLAG, _BUFFER, _CROSS = int(Wait.FLAG), int(Wait.BUFFER), int(Wait.CROSS_CORE)


class Field(IntEnum):
    """Columns of the table of template rows."""

    KIND = 0
    PIPE = 1
    STARTUP = 2
    WARM = 3
    OCCUPANCY = 4
    DRAIN = 5
    CHANNEL = 6
    """Of a flag: its own number, or one behind all own ones for a cross-core flag of each mode and id."""
    CAUSE = 7
    """Of a wait: what it counts as."""
    UNIT = 7
    """Of an instruction or transfer: one more than its row of `Program.unit_use`, 0 without unit flag."""


FIELDS = 8
"""One cache line."""


class More(IntEnum):
    """Columns of what of a row matters to transfers and cross-core flags only: apart, so that the table is short."""

    BYTES = 0
    LINK = 1
    CLASS = 2
    """Index of the cap among those of the link."""
    STARTUP_HIT = 3
    WARM_HIT = 4
    LINK_HIT = 5
    CLASS_HIT = 6
    SLOT = 7
    OFFSET = 8
    ROWS = 9
    LENGTH = 10
    PITCH = 11
    CROSS = 12
    MODE_FLAG = 13
    """Of a cross-core flag: index of its mode and id."""
    BYTES_HIT = 12
    """Of a transfer, which is no flag."""
    CLASH = 13
    """Of a transfer past L2: the link that it takes in a clash, and behind CLASH_SHIFT bits its class there."""
    WRITES = 14
    BYPASS = 15


MORE_FIELDS = 16


class UnitUse(IntEnum):
    """Columns of what rows of the table with unit flags do with them."""

    FLAG = 0
    """UnitFlag."""
    FIRST = 1
    """Place of its first unit in `Program.unit_of`."""
    END = 2
    STEP = 3
    LEAD = 4


UNIT_USE_FIELDS = 5


class Bit(IntEnum):
    """Columns of the bit of a unit of L0C."""

    UP = 0
    FIRST = 1
    """When the row that set it so handed over its first unit, and its last."""
    LAST = 2
    BY = 3
    """Its number, NONE at first."""


BIT_FIELDS = 4


class Core(IntEnum):
    """Columns of a core: the scalar unit."""

    AT = 0
    """Cycle by which it is done with the row before."""
    POSITION = 1
    """Next call, in the list of calls by core."""
    LIMIT = 2
    """Call before which it stops, to be told to go on."""
    LAST = 3
    """End of its calls in the list."""
    CALL = 4
    HOT = 5
    HOT_END = 6
    NUMBER = 7
    BEFORE = 8
    """Number of the row that it took before."""
    HELD = 9


CORE_FIELDS = 10


class Held(IntEnum):
    """What holds a scalar unit or a pipe."""

    NOT = 0
    ROOM = 1
    """The scalar unit: a full queue."""
    FLAG = 2
    BARRIER = 3
    """The scalar unit: other pipes."""
    TRANSFER = 4
    LIMIT = 5
    """The scalar unit: the call it is to stop at."""
    DONE = 6
    UNIT_FLAG = 7


class Unit(IntEnum):
    """Columns of a pipe. The first eight share a cache line."""

    OCCUPIED = 0
    LAST = 1
    COMPLETE = 2
    COMPLETE_BY = 3
    COLD = 4
    TAKEN = 5
    """Rows that it has taken from its queue."""
    PUSHED = 6
    """Rows that were put into it."""
    HELD = 7
    PLACE = 8
    """Where in the queue the row it works on stands, or the last one stood."""
    PUSH_PLACE = 9
    """Where the next row goes."""
    # Of the row that is held:
    WAITED_FOR = 10
    WAITED = 11
    BY = 12
    WAS_COLD = 13
    HIT = 14
    JOINED = 15
    MOVES = 16
    """Bytes that the transfer moves."""
    LINK = 17
    CLASS = 18
    LEAST = 19
    """Cycle until which its start-up takes."""


UNIT_FIELDS = 20


class Queued(IntEnum):
    """Columns of a row in a queue, and while it is worked on."""

    HOT = 0
    NUMBER = 1
    CALL = 2
    DISPATCHED = 3
    AFTER = 4
    STUCK = 5
    START = 6
    LEFT = 7
    """When it left the queue: its start, or before it if unit flags held it."""


QUEUED_FIELDS = 8


class Link(IntEnum):
    """Columns of a link."""

    CAPACITY = 0
    ACTIVE = 1
    SINCE = 2
    """Cycle up to which everybody is served."""
    NEXT = 3
    """Cycle at which the next transfer leaves; FOREVER for none."""
    DIRTY = 4
    LEFT_AT = 5
    """When the last transfer left, NONE before that."""
    LEFT = 6
    """Its row; of several the first in (core, pipe) order."""


LINK_FIELDS = 7


class Count(IntEnum):
    """Single numbers."""

    HEAP = 0
    READY = 1
    EMITTED = 2
    FREE = 3
    """First free node."""
    NODES = 4
    """Nodes in use."""
    MAKESPAN = 5
    DONE = 6
    """Rows that have run."""
    OLDEST = 7
    """Least recently used segment in L2, NONE for none,"""
    NEWEST = 8
    """and the most recently used one."""
    STOPPED = 9
    """Scalar units at their limit."""
    IS_WARM = 10
    """Whether L2 has been warmed up."""
    LINES = 11
    """Lines in L2."""
    KEPT = 12
    """Rows in `Keeping.rows`."""


COUNTS = 15


class Keeping(NamedTuple):
    """Which rows are kept, and where.

    Attributes:
        every: whether all are.
        calls: [call] whether a call's rows are.
        ends: [table row] 1 for rows that are kept with their calls; of no length for all.
        windows: [windows, 2] first and last cycles of which all rows are.
        rows: [place, Emit] what was kept.
    """

    every: int
    calls: NDArray[np.bool_]
    ends: Ints
    windows: Ints
    rows: Ints


class Segment(IntEnum):
    """Columns of L2's table of segments."""

    OLDER = 0
    """The next less recently used one, NONE for none,"""
    NEWER = 1
    """and the next more recently used one; ABSENT if the segment is not in L2."""
    WORDS = 2
    """From here on its lines."""


class Program(NamedTuple):
    """What does not change: rows, calls by core, groups of cross-core flags, and single numbers."""

    table: Ints
    """[table row, Field]"""
    more: Ints
    """[table row, More]"""
    starts: Ints
    """[template + 1], its first table row."""
    call_of: Ints
    """[calls], in the order of cores."""
    call_template: Ints
    call_number: Ints
    """[call], number of its first row."""
    call_slot: Ints
    slot_base: Ints
    depth: Ints
    """[pipe]"""
    waiter: Ints
    """[channel] the pipe that waits for it, NONE for nobody."""
    caps: Ints
    """[link, class]"""
    used: Ints
    """Links that some transfer may go over."""
    set_group: Ints
    """[mode, core] the group that it sets for, NONE for none; groups count through all modes."""
    group_setters: Ints
    """[group] how many."""
    group_waiters: Ints
    """[group, core], padded with NONE."""
    unit_use: Ints
    """[use, UnitUse]"""
    unit_of: Ints
    """[place] units of all sets, set by set."""
    own_channels: int
    mode_flags: int
    """Ids of a mode."""
    cross_cycles: int
    dispatch_cycles: int
    l2_mode: int
    """0 model, 1 hit, 2 miss."""
    l2_warm: int
    """Whether L2 begins as the program leaves it."""
    l2_lines: int
    """Lines that L2 has room for."""
    l2_first: int
    """The first segment that a transfer can touch,"""
    l2_segments: int
    """and how many come from there on."""
    line_shift: int
    """Bits of an address inside a line."""
    segment_shift: int
    """Bits of a line's number inside a segment."""
    detail: int
    """Whether rows are handed on, or only counted."""


class State(NamedTuple):
    """What changes."""

    core: Ints
    """[core, Core]"""
    unit: Ints
    """[unit, Unit]"""
    queue: Ints
    """[unit, place, Queued] one place more than the queue is deep, for the row that is worked on."""
    head: Ints
    """[core, channel] first raised flag that is not taken."""
    tail: Ints
    following: Ints
    """[node] the node behind it."""
    time: Ints
    """[node] when the flag rises."""
    by: Ints
    """[node] who raised it."""
    cross_seen: Ints
    """[group, mode flag] rises so far."""
    cross_count: Ints
    """[core, mode flag] sets so far."""
    cross_head: Ints
    """[group, mode flag] first rise that not all setters have set."""
    cross_tail: Ints
    missing: Ints
    """[node] setters that have not set yet."""
    place: Ints
    """[node] unit of the last that has."""
    bits: Ints
    """[core, unit of L0C, Bit]"""
    heap: Ints
    """Keys of pending starts and joins: time, phase, unit."""
    ready: Ints
    """Stack of cores that may move."""
    wake: Ints
    """[core] bits of its pipes that may move; 0 if it is not on the stack."""
    link: Ints
    """[link, Link]"""
    served: Ints
    """[link, class] units that one transfer was served since the beginning."""
    active: Ints
    """[link, class] transfers in their data phase."""
    finish: Ints
    """[link, class, place] heap of `served` at which each is through,"""
    who: Ints
    """and its unit."""
    l2: Ints
    """[segment from `l2_first` on, Segment and a word for each LINE_BITS lines]: all of a segment lies together."""
    in_use: Ints
    """[unit] line of the load that bypasses L2 there, NONE for none."""
    batch: Ints
    """Units that start in one cycle."""
    out: Ints
    """[place, Emit] rows handed on."""
    counts: Ints
    """[Count]"""


def lay_out(program: ScheduleInput, chunk: int, *, detail: bool) -> tuple[Program, State]:
    """Return a program and the state before its first cycle, with room in `State.out` for so many rows."""
    caps = _caps(program)
    modes = max((int(program.column("flag")[program.column("cross") > 0].max(initial=-1)) + 1), 1)
    own = program.column("flag")[program.column("cross") == 0]
    own_channels = int(own.max(initial=-1)) + 1
    fixed = _fixed(program, caps, own_channels, modes, detail=detail)
    return fixed, _fresh(program, fixed, chunk)


def _caps(program: ScheduleInput) -> Ints:
    """Distinct caps on each link, ascending, padded with 0; one column at least."""
    found: list[set[int]] = [set() for _ in program.links]
    transfers = program.column("kind") == Kind.TRANSFER
    bypass = transfers & (program.column("bypass") > 0)
    count = max(1, len(program.links))
    for links, units, rows in (
        ("link", "cap_units", transfers),
        ("link_hit", "cap_units_hit", transfers),
        ("link_clash", "cap_units", bypass),
    ):
        for both in np.unique(program.column(units)[rows] * count + program.column(links)[rows]).tolist():
            found[both % count].add(both // count)
    caps = np.zeros((len(program.links), max([1, *map(len, found)])), np.int64)
    for link, values in enumerate(found):
        caps[link, : len(values)] = sorted(values)
    return caps


def _fixed(program: ScheduleInput, caps: Ints, own_channels: int, mode_flags: int, *, detail: bool) -> Program:
    starts = template_starts(program)
    table, more = _table(program, caps, own_channels, mode_flags)
    unit_use, unit_of = _unit_uses(program, table)
    order = np.argsort(program.call_core, kind="stable").astype(np.int64)
    set_group, setters, waiters = _groups(program)
    depth = np.ones(PIPES, np.int64)
    for pipe, rows in program.queue_depth.items():
        depth[pipe] = rows
    channels = own_channels + len(program.cross_modes) * mode_flags
    l2_first, l2_segments = _reach(program, more)
    waiter = np.full(max(channels, 1), NONE, np.int64)
    waits = table[:, Field.KIND] == Kind.WAIT_FLAG
    waiter[table[waits, Field.CHANNEL]] = table[waits, Field.PIPE]
    l2 = program.l2
    return Program(
        table=table,
        more=more,
        starts=starts,
        call_of=order,
        call_template=program.call_template.astype(np.int64),
        call_number=program.row_starts(),
        call_slot=program.call_slot_start.astype(np.int64),
        slot_base=np.append(program.slot_base_bytes.astype(np.int64), 0),
        depth=depth,
        waiter=waiter,
        caps=caps,
        used=np.flatnonzero(caps.max(axis=1) > 0).astype(np.int64),
        set_group=set_group,
        group_setters=setters,
        group_waiters=waiters,
        unit_use=unit_use,
        unit_of=unit_of,
        own_channels=own_channels,
        mode_flags=mode_flags,
        cross_cycles=program.cross_cycles,
        dispatch_cycles=program.dispatch_cycles,
        l2_mode={"hit": 1, "miss": 2}.get(l2.mode, 0),
        l2_warm=int(l2.mode == "warm"),
        l2_lines=l2.bytes // l2.line_bytes,
        l2_first=l2_first,
        l2_segments=l2_segments,
        line_shift=l2.line_bytes.bit_length() - 1,
        segment_shift=(l2.segment_bytes // l2.line_bytes).bit_length() - 1,
        detail=int(detail),
    )


def _same(fields: dict[int, str]) -> tuple[list[int], list[int]]:
    """Fields of the table and the schedule columns that they are."""
    return list(fields), [SCHEDULE_COLUMNS.index(name) for name in fields.values()]


_SAME = _same({
    Field.KIND: "kind", Field.PIPE: "pipe", Field.STARTUP: "startup", Field.WARM: "startup_warm",
    Field.OCCUPANCY: "occupancy", Field.DRAIN: "drain",
})  # fmt: skip
_SAME_MORE = _same({
    More.BYTES: "bytes", More.LINK: "link", More.STARTUP_HIT: "startup_hit", More.WARM_HIT: "startup_warm_hit",
    More.LINK_HIT: "link_hit", More.SLOT: "slot", More.OFFSET: "gm_offset", More.ROWS: "gm_rows",
    More.LENGTH: "gm_length", More.PITCH: "gm_pitch", More.CROSS: "cross", More.WRITES: "writes",
    More.BYPASS: "bypass",
})  # fmt: skip


def _table(program: ScheduleInput, caps: Ints, own_channels: int, mode_flags: int) -> tuple[Ints, Ints]:
    column = dict(zip(SCHEDULE_COLUMNS, program.table, strict=True))
    rows = program.table.shape[1]
    table, more = np.zeros((rows, FIELDS), np.int64), np.zeros((rows, MORE_FIELDS), np.int64)
    if not rows:
        return table, more
    table[:, _SAME[0]] = program.table[_SAME[1]].T
    more[:, _SAME_MORE[0]] = program.table[_SAME_MORE[1]].T
    transfers, bypass = column["kind"] == Kind.TRANSFER, column["bypass"] > 0
    clash = np.zeros(len(table), np.int64)
    for classes, link, cap, rows in (
        (more[:, More.CLASS], "link", "cap_units", transfers),
        (more[:, More.CLASS_HIT], "link_hit", "cap_units_hit", transfers),
        (clash, "link_clash", "cap_units", transfers & bypass),
    ):
        for number in range(len(caps)):
            here = rows & (column[link] == number)
            used = caps[number, : max(1, np.count_nonzero(caps[number] > 0))]
            classes[here] = np.searchsorted(used, column[cap][here])
    crossing = column["cross"] > 0
    mode_flag = np.where(crossing, (column["cross"] - 1) * mode_flags + column["flag"], 0)
    more[:, More.MODE_FLAG] = mode_flag
    table[:, Field.CHANNEL] = np.where(crossing, own_channels + mode_flag, column["flag"])
    cause = np.where(column["buffer_wait"] > 0, _BUFFER, _FLAG)
    table[:, Field.CAUSE] = np.where(crossing, _CROSS, cause)
    more[transfers, More.BYTES_HIT] = column["bytes_hit"][transfers]
    more[transfers, More.CLASH] = (column["link_clash"] | clash << CLASH_SHIFT)[transfers]
    return table, more


def _unit_uses(program: ScheduleInput, table: Ints) -> tuple[Ints, Ints]:
    """`unit_use` and `unit_of`; the table's rows get their Field.UNIT."""
    work = (table[:, Field.KIND] == Kind.EXEC) | (table[:, Field.KIND] == Kind.TRANSFER)
    table[work, Field.UNIT] = 0
    flag = program.column("unit_flag")
    if not flag.any():
        return np.zeros((0, UNIT_USE_FIELDS), np.int64), np.zeros(0, np.int64)
    sets = [np.array(units, np.int64) for t in program.templates for units in t.unit_sets]
    ends = np.cumsum([0, *map(len, sets)], dtype=np.int64)
    before = np.cumsum([0, *(len(t.unit_sets) for t in program.templates)], dtype=np.int64)
    lengths = [len(t) for t in program.templates]
    at = program.column("unit_set") + np.repeat(before[:-1], lengths)
    rows = np.flatnonzero(flag)
    table[rows, Field.UNIT] = np.arange(1, len(rows) + 1)
    use = np.zeros((len(rows), UNIT_USE_FIELDS), np.int64)
    use[:, UnitUse.FLAG] = flag[rows]
    use[:, UnitUse.FIRST], use[:, UnitUse.END] = ends[at[rows]], ends[at[rows] + 1]
    use[:, UnitUse.STEP] = program.column("unit_step")[rows]
    use[:, UnitUse.LEAD] = program.column("unit_lead")[rows]
    return use, np.concatenate([np.zeros(0, np.int64), *sets])


def _reach(program: ScheduleInput, more: Ints) -> tuple[int, int]:
    """Return the first segment that a transfer of a program can touch, and a bound of how many there are from there."""
    if not len(more) or not len(program.slot_base_bytes):
        return 0, 1
    ends = more[:, More.OFFSET] + more[:, More.ROWS] * more[:, More.PITCH] + more[:, More.LENGTH]
    first = int(program.slot_base_bytes.min()) + min(0, int(more[:, More.OFFSET].min()))
    last = int(program.slot_base_bytes.max()) + max(0, int(ends.max()))
    segment_bytes = program.l2.segment_bytes
    return first // segment_bytes, last // segment_bytes - first // segment_bytes + 1


def _groups(program: ScheduleInput) -> tuple[Ints, Ints, Ints]:
    modes = program.cross_modes
    groups = sum(len(mode.setters) for mode in modes)
    widest = max([1, *(len(waiters) for mode in modes for waiters in mode.waiters)])
    set_group = np.full((max(1, len(modes)), program.core_count), NONE, np.int64)
    setters = np.zeros(max(1, groups), np.int64)
    waiters = np.full((max(1, groups), widest), NONE, np.int64)
    group = 0
    for number, mode in enumerate(modes):
        for setting, waiting in zip(mode.setters, mode.waiters, strict=True):
            set_group[number, list(setting)] = group
            setters[group] = len(setting)
            waiters[group, : len(waiting)] = waiting
            group += 1
    return set_group, setters, waiters


def _fresh(program: ScheduleInput, fixed: Program, chunk: int) -> State:
    cores, links, classes = program.core_count, *fixed.caps.shape
    units, channels = cores * PIPES, len(fixed.waiter)

    def zeros(*shape: int) -> Ints:
        return np.zeros(shape, np.int64)

    def nones(*shape: int) -> Ints:
        return np.full(shape, NONE, np.int64)

    core, unit, link, count = zeros(cores, CORE_FIELDS), zeros(units, UNIT_FIELDS), zeros(links, LINK_FIELDS), zeros(
        COUNTS
    )  # fmt: skip
    bounds = np.searchsorted(program.call_core[fixed.call_of], np.arange(cores + 1))
    core[:, Core.POSITION], core[:, Core.LAST], core[:, Core.LIMIT] = bounds[:-1], bounds[1:], bounds[1:]
    core[:, Core.BEFORE] = NONE
    unit[:, Unit.LAST] = unit[:, Unit.COMPLETE_BY] = NONE
    unit[:, Unit.COLD] = 1
    unit[:, Unit.PLACE] = np.tile(fixed.depth, cores)
    link[:, Link.CAPACITY] = [info.capacity_units for info in program.links]
    link[:, Link.NEXT], link[:, Link.LEFT_AT], link[:, Link.LEFT] = FOREVER, NONE, NONE
    count[Count.FREE] = count[Count.OLDEST] = count[Count.NEWEST] = NONE
    count[Count.READY] = cores
    groups, mode_flags = len(fixed.group_setters), max(1, len(program.cross_modes)) * fixed.mode_flags
    room = fixed.l2_segments if fixed.l2_mode == 0 else 1
    l2 = zeros(room, Segment.WORDS + -(-(1 << fixed.segment_shift) // LINE_BITS))
    l2[:, Segment.NEWER] = ABSENT
    bits = zeros(cores, int(fixed.unit_of.max(initial=-1)) + 1, BIT_FIELDS)
    bits[:, :, Bit.BY] = NONE
    return State(
        core=core,
        unit=unit,
        queue=zeros(units, int(fixed.depth.max()) + 1, QUEUED_FIELDS),
        head=nones(cores, channels),
        tail=nones(cores, channels),
        following=zeros(0),
        time=zeros(0),
        by=zeros(0),
        cross_seen=zeros(groups, mode_flags),
        cross_count=zeros(cores, mode_flags),
        cross_head=nones(groups, mode_flags),
        cross_tail=nones(groups, mode_flags),
        missing=zeros(0),
        place=zeros(0),
        bits=bits,
        heap=zeros(2 * units + 2),
        ready=np.arange(cores, dtype=np.int64)[::-1].copy(),
        wake=np.ones(cores, np.int64),
        link=link,
        served=zeros(links, classes),
        active=zeros(links, classes),
        finish=zeros(links, classes, units),
        who=zeros(links, classes, units),
        l2=l2,
        in_use=nones(units),
        batch=zeros(units),
        out=zeros(chunk if fixed.detail else 1, EMIT_WIDTH),
        counts=count,
    )


def more_nodes(state: State, more: int) -> State:
    """Return the state with more free nodes."""
    have = len(state.time)

    def longer(column: Ints) -> Ints:
        return np.concatenate([column, np.zeros(more, np.int64)])

    following = longer(state.following)
    following[have:] = np.arange(have + 1, have + more + 1)
    following[-1] = state.counts[Count.FREE]
    state.counts[Count.FREE] = have
    return state._replace(
        following=following,
        time=longer(state.time),
        by=longer(state.by),
        missing=longer(state.missing),
        place=longer(state.place),
    )
