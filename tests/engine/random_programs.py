"""Random legal programs for the engines: every flag is raised before its wait in program order, and never twice."""

from collections import Counter
from dataclasses import dataclass, field

from build import EVENT_IDS, GM, L2_LINK, Fields, barrier, exec_row, load, program, s, set_flag, store, wait_flag
from hypothesis import strategies as st

from ascendsim.engine.base import UNITS_PER_BYTE, L2Info, ScheduleInput
from ascendsim.terms import HardEvent, Pipe

PIPES = (Pipe.V, Pipe.MTE2, Pipe.MTE3)
TILE_ID = EVENT_IDS - 1
BASES = (0, 448)
SMALL_L2 = L2Info("model", 512, 64, 256)
CAPACITY = (3.7, 4.3)


@dataclass
class Script:
    """One core's flags while its rows are being drawn: ids used up since the last PIPE_ALL barrier, and open waits."""

    used: Counter[HardEvent] = field(default_factory=Counter)
    waits: list[Fields] = field(default_factory=list)
    tiles: int = 0


@dataclass(frozen=True)
class Shape:
    """What the programs may contain. `plain_startup`: no difference between cold and warm, hit and miss."""

    max_cores: int = 3
    max_calls: int = 4
    max_steps: int = 7
    max_cap: float = 3.7
    plain_startup: bool = False
    minimum: bool = True
    l2_modes: tuple[str, ...] = ("model", "model", "hit", "miss")


def transfers(draw, pipe: Pipe, shape: Shape) -> Fields:
    small = st.integers(0, 9)
    rows, length = draw(st.sampled_from([(1, 0), (1, 64), (1, 200), (2, 32), (3, 40), (1, 1), (1, 90)]))
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
        gm_offset=draw(st.integers(0, 10)) * 48,
        gm_rows=rows,
        gm_length=length,
        gm_pitch=length + draw(st.sampled_from([0, 0, 32, 150])),
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


def step(draw, script: Script, shape: Shape) -> list[Fields]:
    """A few rows of one kind."""
    brief = st.integers(0, 2)
    match draw(st.sampled_from(["exec", "load", "store", "scalar", "set", "set", "wait", "barrier", "all", "tile"])):
        case "exec":
            return [execs(draw, Pipe.V, shape) for _ in range(draw(st.integers(1, 3)))]
        case "load":
            return [transfers(draw, Pipe.MTE2, shape)]
        case "store":
            return [transfers(draw, Pipe.MTE3, shape)]
        case "scalar":
            return [s(draw(st.sampled_from([0, 1, 7, 40])))]
        case "barrier":
            return [barrier(draw(st.sampled_from(PIPES)), draw(brief))]
        case "tile":
            return tile(draw, script, shape)
        case "all":
            rows = [*script.waits, barrier(Pipe.S, draw(brief))]
            script.waits.clear()
            script.used.clear()
            return rows
        case "wait" if script.waits:
            return [script.waits.pop(draw(st.integers(0, len(script.waits) - 1)))]
        case "set":
            event = draw(st.sampled_from(HardEvent))
            event_id = script.used[event]
            if event_id < TILE_ID:
                script.used[event] += 1
                script.waits.append(wait_flag(event, event_id, draw(brief), buffer=draw(st.booleans())))
                return [set_flag(event, event_id, draw(brief))]
    return []


@st.composite
def programs(draw, shape: Shape) -> ScheduleInput:
    cores = draw(st.integers(1, shape.max_cores))
    scripts = [Script() for _ in range(cores)]
    calls = []
    for _ in range(draw(st.integers(1, shape.max_calls))):
        core = draw(st.integers(0, cores - 1))
        rows = [row for _ in range(draw(st.integers(1, shape.max_steps))) for row in step(draw, scripts[core], shape)]
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
