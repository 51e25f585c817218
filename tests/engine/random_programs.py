"""Random legal programs for the engines, none of which can hang.

Steps are drawn one after another for all cores, and the rows of a step need nothing from later steps: a wait comes in a
later step than its set, or in the same one. There it may come first, if no more rows of its pipe than its queue takes
come between the two, so that S gets to the set. Flags count, so a set may come again before the wait of the one before.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import cache

from hypothesis import strategies as st
from small_programs import (
    CLASH_LINK,
    EVENT_IDS,
    GM,
    L2_LINK,
    Fields,
    barrier,
    exec_row,
    fix_store,
    fixpipe,
    load,
    mmad,
    program,
    s,
    set_cross,
    set_flag,
    store,
    wait_cross,
    wait_flag,
)

from ascendsim.engine.base import UNITS_PER_BYTE, CrossMode, L2Info, ScheduleInput, UnitFlag
from ascendsim.terms import HardEvent, Pipe

PIPES = (Pipe.V, Pipe.MTE2, Pipe.MTE3)
FLAG_PIPES = tuple(pipe for pipe in Pipe if pipe != Pipe.ALL)
TILE_ID = EVENT_IDS - 1
# Strategies are made once: making one anew for each draw takes a good part of all that drawing takes.
BRIEF = st.integers(0, 2)
SMALL = st.integers(0, 9)
COUNT = st.integers(1, 3)
FIFTH = st.integers(0, 4)
EXEC = st.integers(0, 15)
DRAIN = st.integers(0, 12)
STARTUPS = st.tuples(st.integers(0, 13), st.integers(0, 4))
MINIMUM = st.sampled_from([0, 0, 10, 40])
SCALAR = st.sampled_from([0, 1, 7, 40])
LINK = st.sampled_from([GM, L2_LINK])
BYPASS = st.sampled_from([0, 0, 1])
FLAG_PIPE = st.sampled_from(FLAG_PIPES)
WORK_PIPE = st.sampled_from([Pipe.V, Pipe.V, Pipe.V, Pipe.M, Pipe.FIX])
YES_OR_NO = st.booleans()
AGAIN = st.sampled_from([True, False])
EVENTS = [event for event in HardEvent if event <= HardEvent.MTE3_S]
"""Pairs that are drawn: those of a vector core. To an engine a pair is a number and two pipes: others add nothing."""
EVENT = st.sampled_from([*EVENTS, HardEvent.MTE2_S, HardEvent.MTE2_S, HardEvent.V_V, HardEvent.MTE3_S])
"""Some are named again, or they would be drawn too rarely."""
EVENT_HELD = st.sampled_from([e for e in EVENTS if e.dst not in {Pipe.S, e.src}])
UNITS = 5
"""Of L0C."""
LONG = st.integers(0, 60)
KEEP_OR_RAISE = st.sampled_from([UnitFlag.KEEP, UnitFlag.RAISE, UnitFlag.RAISE])
SET = st.integers(1, 2)
"""Occupancy of a SET_FLAG: the contract asks for at least 1."""
BASES = (0, 448)
SLOT = st.integers(0, len(BASES) - 1)
SMALL_L2 = L2Info("model", 512, 64, 256)
CAPACITY = (3.7, 4.3, 2.9)
BOXES = [
    (0, 1, 64, 64),
    (40, 1, 200, 200),
    (0, 2, 32, 300),
    (256, 1, 256, 256),
    (300, 3, 40, 40),
    (480, 1, 90, 90),
    (512, 1, 1, 1),
    (513, 2, 100, 150),
    (60, 1, 0, 0),
]
"""Offset, rows, bytes of a row, pitch. Few, so that they come again; three segments from either base."""
BOX = st.sampled_from(BOXES)


CROSS_IDS = 3
CROSS_ID = st.integers(0, CROSS_IDS - 1)
CrossFlag = tuple[int, int]
"""Number of the mode, and id."""


@dataclass
class Script:
    """One core while its rows are being drawn.

    Attributes:
        used: flag ids used up since the last PIPE_ALL barrier.
        waits: open waits for its own flags.
        cross_sets, cross_waits: how many it has.
        up: units of L0C whose bits are up.
        rows: rows that are in no call yet.
    """

    used: Counter[HardEvent] = field(default_factory=Counter)
    waits: list[Fields] = field(default_factory=list)
    tiles: int = 0
    cross_sets: Counter[CrossFlag] = field(default_factory=Counter)
    cross_waits: Counter[CrossFlag] = field(default_factory=Counter)
    up: set[int] = field(default_factory=set)
    rows: list[Fields] = field(default_factory=list)


@dataclass(frozen=True)
class Shape:
    """What the programs may contain. `plain_startup`: no difference between cold and warm, hit and miss.

    No cap is above the capacity of the slowest link until the test of that in test_engine.py passes.
    """

    max_cores: int = 3
    max_calls: int = 4
    max_steps: int = 7
    max_cap: float = 9.0
    plain_startup: bool = False
    minimum: bool = True
    l2_modes: tuple[str, ...] = ("model", "model", "warm", "hit", "miss")
    past_l2: bool = True
    has_startup: bool = True


@dataclass
class Chip:
    """All cores, their modes of cross-core flags, and the pipes that set a cross-core flag and wait for it."""

    shape: Shape
    depth: int
    modes: tuple[CrossMode, ...]
    scripts: list[Script]
    pipes: dict[tuple[CrossFlag, int], tuple[Pipe, Pipe]] = field(default_factory=dict)

    def pipes_of(self, draw, flag: CrossFlag, core: int) -> tuple[Pipe, Pipe]:
        """The pipe on which a core sets a flag, and the one on which it waits."""
        if (flag, core) not in self.pipes:
            self.pipes[flag, core] = draw(FLAG_PIPE), draw(FLAG_PIPE)
        return self.pipes[flag, core]

    def rises(self, flag: CrossFlag, setters: tuple[int, ...]) -> int:
        """How often all of them have set a flag by now."""
        return min(self.scripts[core].cross_sets[flag] for core in setters)

    def open_cross_waits(self, core: int) -> list[CrossFlag]:
        """Cross-core flags that have risen for a core more often than it has waited for them, each that many times."""
        flags = ((mode, flag) for mode in range(len(self.modes)) for flag in range(CROSS_IDS))
        return [
            flag
            for flag in flags
            for setters, waiters in zip(self.modes[flag[0]].setters, self.modes[flag[0]].waiters, strict=True)
            if core in waiters
            for _ in range(self.rises(flag, setters) - self.scripts[core].cross_waits[flag])
        ]


def cross_modes(cores: int) -> tuple[CrossMode, ...]:
    """All for all; each for the next; and the first for all others and back."""
    everyone = tuple(range(cores))
    following = tuple(((core + 1) % cores,) for core in everyone)
    modes = [CrossMode("all", (everyone,), (everyone,)), CrossMode("next", tuple((c,) for c in everyone), following)]
    if cores > 1:
        modes += [
            CrossMode("from the first", ((0,),), (everyone[1:],)),
            CrossMode("to the first", (everyone[1:],), ((0,),)),
        ]
    return tuple(modes)


@cache
def caps(most: float):
    """Units a cycle that a transfer may take, up to so many bytes' worth."""
    return st.integers(UNITS_PER_BYTE // 3, int(most * UNITS_PER_BYTE))


def transfers(draw, pipe: Pipe, shape: Shape) -> Fields:
    offset, rows, length, pitch = draw(BOX)
    startup = draw(SMALL) if shape.has_startup else 0
    cap = draw(caps(shape.max_cap))
    more = {"startup": startup, "startup_warm": startup if shape.plain_startup else draw(SMALL)}
    if shape.past_l2:
        more |= {"bypass": draw(BYPASS), "link_clash": CLASH_LINK}
    if not shape.plain_startup:
        more |= {
            "startup_hit": draw(SMALL),
            "startup_warm_hit": draw(SMALL),
            "bytes_hit": draw(st.sampled_from([rows * length, rows * length // 2])),
            "link_hit": L2_LINK,
            "cap_units_hit": draw(st.sampled_from([cap, 15000])),
        }
    return (load if pipe == Pipe.MTE2 else store)(
        rows * length,
        **more,
        link=draw(LINK) if pipe == Pipe.MTE3 else GM,
        cap_units=cap,
        occupancy=draw(MINIMUM) if shape.minimum else 0,
        drain=draw(SMALL),
        slot=draw(SLOT),
        gm_offset=offset,
        gm_rows=rows,
        gm_length=length,
        gm_pitch=pitch,
    )


def execs(draw, pipe: Pipe, shape: Shape) -> Fields:
    startup, warm = draw(STARTUPS)
    return exec_row(pipe, draw(EXEC), startup, startup if shape.plain_startup else warm, draw(DRAIN))


def tile(draw, chip: Chip, core: int) -> list[Fields]:
    """Load, compute, store with one buffer each way: the flags of a real loop, used again in every turn."""
    script, shape = chip.scripts[core], chip.shape
    script.tiles += 1
    free_in = [wait_flag(HardEvent.V_MTE2, TILE_ID, buffer=True)] if script.tiles > 1 else []
    free_out = [wait_flag(HardEvent.MTE3_V, TILE_ID, buffer=True)] if script.tiles > 1 else []
    return [
        *free_in,
        transfers(draw, Pipe.MTE2, shape),
        set_flag(HardEvent.MTE2_V, TILE_ID),
        wait_flag(HardEvent.MTE2_V, TILE_ID),
        *free_out,
        execs(draw, Pipe.V, shape),
        set_flag(HardEvent.V_MTE2, TILE_ID),
        set_flag(HardEvent.V_MTE3, TILE_ID),
        wait_flag(HardEvent.V_MTE3, TILE_ID),
        transfers(draw, Pipe.MTE3, shape),
        set_flag(HardEvent.MTE3_V, TILE_ID),
    ]


def filler(draw, pipe: Pipe, shape: Shape) -> Fields:
    """A row that needs no other pipe."""
    if pipe == Pipe.S:
        return s(draw(SCALAR))
    if draw(FIFTH) == 0:
        return barrier(pipe, draw(BRIEF))
    return (transfers if pipe in {Pipe.MTE2, Pipe.MTE3} else execs)(draw, pipe, shape)


def set_one(draw, chip: Chip, core: int) -> list[Fields]:
    """A SET_FLAG whose wait comes later. Its id is free, or now and then one that is set and waits, too."""
    script = chip.scripts[core]
    if script.waits and draw(AGAIN):
        flag = draw(st.sampled_from(script.waits))["flag"]
        event, event_id = HardEvent(flag // EVENT_IDS), flag % EVENT_IDS
    else:
        event = draw(EVENT)
        event_id = script.used[event]
        if event_id == TILE_ID:
            return []
        script.used[event] += 1
    script.waits.append(wait_flag(event, event_id, draw(BRIEF), buffer=draw(YES_OR_NO)))
    return [set_flag(event, event_id, draw(SET))]


def wait_one(draw, chip: Chip, core: int) -> list[Fields]:
    """One of the waits that are open."""
    waits = chip.scripts[core].waits
    return [waits.pop(draw(st.integers(0, len(waits) - 1)))] if waits else []


def wait_before_set(draw, chip: Chip, core: int) -> list[Fields]:
    """A wait that holds its pipe until S gets to the set, which comes later in program order."""
    event = draw(EVENT_HELD)
    event_id = chip.scripts[core].used[event]
    if event_id == TILE_ID:
        return []
    chip.scripts[core].used[event] += 1
    wait = wait_flag(event, event_id, draw(BRIEF), buffer=draw(YES_OR_NO))
    return [*held(draw, chip, wait), set_flag(event, event_id, draw(SET))]


def held(draw, chip: Chip, wait: Fields) -> list[Fields]:
    """A wait, and rows that S can dispatch while it holds its pipe."""
    rows = [wait]
    room = chip.depth
    for pipe in draw(st.lists(st.sampled_from([wait["pipe"], *PIPES, Pipe.S]), max_size=chip.depth + 3)):
        if pipe != wait["pipe"] or room:
            rows.append(filler(draw, pipe, chip.shape))
            room -= pipe == wait["pipe"]
    return rows


def cross_flag(draw, chip: Chip) -> CrossFlag:
    return draw(st.integers(0, len(chip.modes) - 1)), draw(CROSS_ID)


def cross_set(draw, chip: Chip, core: int) -> list[Fields]:
    """One set of a cross-core flag; the others of the group may come, or never come. It may be in no group."""
    flag = cross_flag(draw, chip)
    chip.scripts[core].cross_sets[flag] += 1
    return [set_cross(chip.pipes_of(draw, flag, core)[0], *flag, draw(SET))]


def cross_wait(draw, chip: Chip, core: int) -> list[Fields]:
    """A wait for a cross-core flag that has risen."""
    flags = chip.open_cross_waits(core)
    return [wait_of(draw, chip, core, draw(st.sampled_from(flags)))] if flags else []


def wait_of(draw, chip: Chip, core: int, flag: CrossFlag) -> Fields:
    chip.scripts[core].cross_waits[flag] += 1
    return wait_cross(chip.pipes_of(draw, flag, core)[1], *flag, draw(BRIEF))


def sync(draw, chip: Chip, _core: int) -> list[Fields]:
    """All sets that a group needs to raise a flag once more. Cores that set and wait may wait first."""
    flag = cross_flag(draw, chip)
    mode = chip.modes[flag[0]]
    setters, waiters = draw(st.sampled_from(list(zip(mode.setters, mode.waiters, strict=True))))
    turns = max(1, *(chip.scripts[core].cross_sets[flag] + draw(st.integers(0, 1)) for core in setters))
    for core in setters:
        script = chip.scripts[core]
        set_pipe, wait_pipe = chip.pipes_of(draw, flag, core)
        can_wait = core in waiters and wait_pipe not in {Pipe.S, set_pipe} and script.cross_waits[flag] < turns
        if can_wait and draw(YES_OR_NO):
            script.rows += held(draw, chip, wait_of(draw, chip, core, flag))
        script.rows += [set_cross(set_pipe, *flag, draw(SET)) for _ in range(turns - script.cross_sets[flag])]
        script.cross_sets[flag] = turns
    for core in waiters:
        if flag in chip.open_cross_waits(core) and draw(YES_OR_NO):
            chip.scripts[core].rows.append(wait_of(draw, chip, core, flag))
    return []


def barrier_all(draw, chip: Chip, core: int) -> list[Fields]:
    """All open waits and a PIPE_ALL barrier, after which every flag id may be used again."""
    script = chip.scripts[core]
    rows = [*script.waits, barrier(Pipe.S, draw(BRIEF))]
    script.waits.clear()
    script.used.clear()
    return rows


def work(draw, chip: Chip, _core: int) -> list[Fields]:
    pipe = draw(WORK_PIPE)
    return [execs(draw, pipe, chip.shape) for _ in range(draw(COUNT))]


@cache
def some_of(units: tuple[int, ...]):
    """Some units, at least one."""
    return st.lists(st.sampled_from(units), min_size=1, unique=True).map(lambda found: tuple(sorted(found)))


def multiply(draw, chip: Chip, core: int) -> list[Fields]:
    """An instruction on M on units that nobody has handed over; it keeps their flags or hands them over."""
    script = chip.scripts[core]
    down = tuple(unit for unit in range(UNITS) if unit not in script.up)
    if not down:
        return []
    units, flag = draw(some_of(down)), draw(KEEP_OR_RAISE)
    script.up |= set(units) if flag == UnitFlag.RAISE else set()
    row = mmad(units, draw(LONG), flag) | times_of(draw, chip.shape)
    own = row["occupancy"] + min(row["startup"], row["startup_warm"])
    return [row | {"unit_step": draw(SMALL), "unit_lead": draw(st.integers(0, own))}]


def times_of(draw, shape: Shape) -> Fields:
    startup, warm = draw(STARTUPS)
    return {"startup": startup, "startup_warm": startup if shape.plain_startup else warm, "drain": draw(DRAIN)}


def fetch(draw, chip: Chip, core: int) -> list[Fields]:
    """Fetch some of what M has handed over, by an instruction or a transfer."""
    script = chip.scripts[core]
    if not script.up:
        return []
    units = draw(some_of(tuple(sorted(script.up))))
    script.up -= set(units)
    more = {"unit_step": draw(SMALL), "unit_lead": draw(LONG)}
    if draw(YES_OR_NO):
        return [fixpipe(units, draw(EXEC)) | times_of(draw, chip.shape) | more]
    return [fix_store(units, 0) | transfers(draw, Pipe.MTE3, chip.shape) | {"pipe": Pipe.FIX} | more]


def multiply_and_fetch(draw, chip: Chip, core: int) -> list[Fields]:
    """A product and what fetches it, in either order of the program."""
    rows = multiply(draw, chip, core)
    if not rows or rows[0]["unit_flag"] != UnitFlag.RAISE:
        return rows
    chip.scripts[core].up -= set(rows[0]["units"])
    fetched = fixpipe(rows[0]["units"], draw(EXEC), unit_step=draw(SMALL), unit_lead=draw(LONG))
    return [fetched, *rows] if draw(YES_OR_NO) else [*rows, fetched]


STEPS = {
    "exec": work,
    "load": lambda draw, chip, _: [transfers(draw, Pipe.MTE2, chip.shape)],
    "store": lambda draw, chip, _: [transfers(draw, Pipe.MTE3, chip.shape)],
    "scalar": lambda draw, chip, _: [filler(draw, Pipe.S, chip.shape)],
    "set": set_one,
    "wait": wait_one,
    "wait before set": wait_before_set,
    "cross set": cross_set,
    "cross wait": cross_wait,
    "sync": sync,
    "barrier": lambda draw, *_: [barrier(draw(st.sampled_from(PIPES)), draw(BRIEF))],
    "barrier_all": barrier_all,
    "tile": tile,
    "multiply": multiply,
    "fetch": fetch,
    "multiply and fetch": multiply_and_fetch,
}
LIKELY = [*STEPS, "set", "cross set", "sync", "sync", "multiply", "fetch"]


@cache
def step_names(most: int):
    return st.lists(st.sampled_from(LIKELY), min_size=1, max_size=most)


@st.composite
def programs(draw, shape: Shape) -> ScheduleInput:
    cores = draw(st.integers(1, shape.max_cores))
    chip = Chip(shape, draw(st.integers(1, 4)), cross_modes(cores), [Script() for _ in range(cores)])
    calls = []
    for _ in range(draw(st.integers(1, shape.max_calls))):
        core = draw(st.integers(0, cores - 1))
        script = chip.scripts[core]
        for name in draw(step_names(shape.max_steps)):
            script.rows += STEPS[name](draw, chip, core)
        calls.append((core, script.rows))
        script.rows = []
    for core, script in enumerate(chip.scripts):
        open_waits = [wait_of(draw, chip, core, flag) for flag in chip.open_cross_waits(core)]
        calls.append((core, [*script.rows, *script.waits, *open_waits]))
    mode = draw(st.sampled_from(shape.l2_modes))
    return program(
        *calls,
        cores=cores,
        depth=chip.depth,
        dispatch=draw(st.sampled_from([0, 1, 1, 2])),
        capacity=CAPACITY,
        l2=L2Info(mode, SMALL_L2.bytes, SMALL_L2.line_bytes, SMALL_L2.segment_bytes),
        bases=BASES,
        cross_modes=chip.modes,
        cross_cycles=draw(st.integers(0, 5)),
    )
