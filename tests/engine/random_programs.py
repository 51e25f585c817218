"""Random legal programs for the engines: every flag is raised before its wait in program order, and never twice."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import strategies as st
from small_programs import (
    EVENT_IDS,
    GM,
    L2_LINK,
    Fields,
    barrier,
    exec_row,
    load,
    program,
    s,
    set_flag,
    store,
    wait_flag,
)

from ascendsim.engine.base import UNITS_PER_BYTE, L2Info, ScheduleInput
from ascendsim.terms import HardEvent, Pipe

PIPES = (Pipe.V, Pipe.MTE2, Pipe.MTE3)
TILE_ID = EVENT_IDS - 1
BRIEF = st.integers(0, 2)
SET = st.integers(1, 2)
"""Occupancy of a SET_FLAG: the contract asks for at least 1."""
BASES = (0, 448)
SMALL_L2 = L2Info("model", 512, 64, 256)
CAPACITY = (3.7, 4.3)
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


@dataclass
class Script:
    """One core's flags while its rows are being drawn: ids used up since the last PIPE_ALL barrier, and open waits."""

    used: Counter[HardEvent] = field(default_factory=Counter)
    waits: list[Fields] = field(default_factory=list)
    tiles: int = 0


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
    l2_modes: tuple[str, ...] = ("model", "model", "hit", "miss")


def transfers(draw, pipe: Pipe, shape: Shape) -> Fields:
    small = st.integers(0, 9)
    offset, rows, length, pitch = draw(st.sampled_from(BOXES))
    startup = draw(small)
    cap = draw(st.integers(UNITS_PER_BYTE // 3, int(shape.max_cap * UNITS_PER_BYTE)))
    more = {"startup": startup, "startup_warm": startup if shape.plain_startup else draw(small)}
    if pipe == Pipe.MTE2 and not shape.plain_startup:
        more |= {
            "startup_hit": draw(small),
            "startup_warm_hit": draw(small),
            "link_hit": L2_LINK,
            "cap_units_hit": draw(st.sampled_from([cap, 15000])),
        }
    return (load if pipe == Pipe.MTE2 else store)(
        rows * length,
        **more,
        link=draw(st.sampled_from([GM, L2_LINK])) if pipe == Pipe.MTE3 else GM,
        cap_units=cap,
        occupancy=draw(st.sampled_from([0, 0, 10, 40])) if shape.minimum else 0,
        drain=draw(small),
        slot=draw(st.integers(0, len(BASES) - 1)),
        gm_offset=offset,
        gm_rows=rows,
        gm_length=length,
        gm_pitch=pitch,
    )


def execs(draw, pipe: Pipe, shape: Shape) -> Fields:
    startup, warm = draw(st.tuples(st.integers(0, 13), st.integers(0, 4)))
    return exec_row(
        pipe, draw(st.integers(0, 15)), startup, startup if shape.plain_startup else warm, draw(st.integers(0, 12))
    )


def tile(draw, script: Script, shape: Shape) -> list[Fields]:
    """Load, compute, store with one buffer each way: the flags of a real loop, used again in every turn."""
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


def set_one(draw, script: Script) -> list[Fields]:
    """A SET_FLAG with an id that is free; its wait comes later."""
    event = draw(st.sampled_from(HardEvent))
    event_id = script.used[event]
    if event_id == TILE_ID:
        return []
    script.used[event] += 1
    script.waits.append(wait_flag(event, event_id, draw(BRIEF), buffer=draw(st.booleans())))
    return [set_flag(event, event_id, draw(SET))]


def wait_one(draw, script: Script) -> list[Fields]:
    """One of the waits that are open."""
    return [script.waits.pop(draw(st.integers(0, len(script.waits) - 1)))] if script.waits else []


def barrier_all(draw, script: Script) -> list[Fields]:
    """All open waits and a PIPE_ALL barrier, after which every flag id may be used again."""
    rows = [*script.waits, barrier(Pipe.S, draw(BRIEF))]
    script.waits.clear()
    script.used.clear()
    return rows


STEPS = {
    "exec": lambda draw, _, shape: [execs(draw, Pipe.V, shape) for _ in range(draw(st.integers(1, 3)))],
    "load": lambda draw, _, shape: [transfers(draw, Pipe.MTE2, shape)],
    "store": lambda draw, _, shape: [transfers(draw, Pipe.MTE3, shape)],
    "scalar": lambda draw, *_: [s(draw(st.sampled_from([0, 1, 7, 40])))],
    "set": lambda draw, script, _: set_one(draw, script),
    "wait": lambda draw, script, _: wait_one(draw, script),
    "barrier": lambda draw, *_: [barrier(draw(st.sampled_from(PIPES)), draw(BRIEF))],
    "barrier_all": lambda draw, script, _: barrier_all(draw, script),
    "tile": tile,
}
LIKELY = [*STEPS, "set"]


@st.composite
def programs(draw, shape: Shape) -> ScheduleInput:
    cores = draw(st.integers(1, shape.max_cores))
    scripts = [Script() for _ in range(cores)]
    calls = []
    for _ in range(draw(st.integers(1, shape.max_calls))):
        core = draw(st.integers(0, cores - 1))
        steps = draw(st.lists(st.sampled_from(LIKELY), min_size=1, max_size=shape.max_steps))
        rows = [row for name in steps for row in STEPS[name](draw, scripts[core], shape)]
        calls.append((core, rows))
    calls += [(core, script.waits) for core, script in enumerate(scripts)]
    mode = draw(st.sampled_from(shape.l2_modes))
    return program(
        *calls,
        cores=cores,
        depth=draw(st.integers(1, 4)),
        dispatch=draw(st.sampled_from([0, 1, 1, 2])),
        capacity=CAPACITY,
        l2=L2Info(mode, SMALL_L2.bytes, SMALL_L2.line_bytes, SMALL_L2.segment_bytes),
        bases=BASES,
    )
