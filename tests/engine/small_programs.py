"""Small schedule programs, row by row, for the tests of the engines."""

import numpy as np

from ascendsim.engine.base import (
    SCHEDULE_COLUMNS,
    UNITS_PER_BYTE,
    CrossMode,
    Kind,
    L2Info,
    LinkInfo,
    ScheduleInput,
    TemplateSchedule,
    Timeline,
    Wait,
)
from ascendsim.terms import HardEvent, Pipe

EVENT_IDS = 8
QUEUES = tuple(pipe for pipe in Pipe if pipe not in {Pipe.S, Pipe.ALL})
GM, L2_LINK, CLASH_LINK = 0, 1, 2
MISS = L2Info("miss", 1 << 20, 64, 256)
Fields = dict[str, int]


def exec_row(pipe: Pipe, occupancy: int, startup: int = 0, warm: int = 0, drain: int = 0) -> Fields:
    return {
        "kind": Kind.EXEC,
        "pipe": pipe,
        "occupancy": occupancy,
        "startup": startup,
        "startup_warm": warm,
        "drain": drain,
    }


def v(occupancy: int, startup: int = 0, warm: int = 0, drain: int = 0) -> Fields:
    return exec_row(Pipe.V, occupancy, startup, warm, drain)


def s(occupancy: int) -> Fields:
    return exec_row(Pipe.S, occupancy)


def set_flag(event: HardEvent, event_id: int = 0, occupancy: int = 1) -> Fields:
    flag = event * EVENT_IDS + event_id
    return {"kind": Kind.SET_FLAG, "pipe": event.src, "flag": flag, "occupancy": occupancy}


def wait_flag(event: HardEvent, event_id: int = 0, occupancy: int = 1, *, buffer: bool = False) -> Fields:
    flag = event * EVENT_IDS + event_id
    return {
        "kind": Kind.WAIT_FLAG,
        "pipe": event.dst,
        "flag": flag,
        "occupancy": occupancy,
        "buffer_wait": int(buffer),
    }


def set_cross(pipe: Pipe, mode: int, flag: int, occupancy: int = 1) -> Fields:
    return {"kind": Kind.SET_FLAG, "pipe": pipe, "flag": flag, "occupancy": occupancy, "cross": mode + 1}


def wait_cross(pipe: Pipe, mode: int, flag: int, occupancy: int = 1) -> Fields:
    return {"kind": Kind.WAIT_FLAG, "pipe": pipe, "flag": flag, "occupancy": occupancy, "cross": mode + 1}


def barrier(pipe: Pipe, occupancy: int = 0) -> Fields:
    return {"kind": Kind.BARRIER, "pipe": pipe, "occupancy": occupancy}


def transfer(pipe: Pipe, count: int, cap: float, **more: int) -> Fields:
    """A transfer of `count` bytes at up to `cap` bytes per cycle; the same on a hit unless `more` says otherwise."""
    row = {
        "kind": Kind.TRANSFER,
        "pipe": pipe,
        "bytes": count,
        "cap_units": round(cap * UNITS_PER_BYTE),
        "gm_rows": 1,
        "gm_length": count,
        "gm_pitch": count,
    } | more
    for name in ("startup", "startup_warm", "bytes", "link", "cap_units"):
        row.setdefault(f"{name}_hit", row.get(name, 0))
    row.setdefault("link_clash", row.get("link", 0))
    return row


def load(count: int, cap: float = 1, **more: int) -> Fields:
    return transfer(Pipe.MTE2, count, cap, **more)


def store(count: int, cap: float = 1, **more: int) -> Fields:
    return transfer(Pipe.MTE3, count, cap, **({"writes": 1} | more))


def program(
    *calls: tuple[int, list[Fields]],
    cores: int | None = None,
    depth: int = 8,
    dispatch: int = 1,
    capacity: tuple[float, ...] = (4, 4),
    l2: L2Info = MISS,
    bases: tuple[int, ...] = (0,),
    cross_modes: tuple[CrossMode, ...] = (),
    cross_cycles: int = 0,
) -> ScheduleInput:
    """Calls are (core, rows); capacities are bytes per cycle; every call has the same slots at `bases`."""
    templates = tuple(
        TemplateSchedule({name: np.array([row.get(name, 0) for row in rows], np.int64) for name in SCHEDULE_COLUMNS})
        for _, rows in calls
    )
    return ScheduleInput(
        templates=templates,
        call_core=np.array([core for core, _ in calls], np.int64),
        call_template=np.arange(len(calls)),
        call_slot_start=np.zeros(len(calls), np.int64),
        slot_base_bytes=np.array(bases, np.int64),
        core_count=cores if cores is not None else 1 + max((core for core, _ in calls), default=0),
        queue_depth=dict.fromkeys(QUEUES, depth),
        dispatch_cycles=dispatch,
        event_ids=EVENT_IDS,
        links=tuple(LinkInfo(f"link {i}", round(c * UNITS_PER_BYTE)) for i, c in enumerate(capacity)),
        l2=l2,
        cross_modes=cross_modes,
        cross_cycles=cross_cycles,
    )


def times(timeline: Timeline) -> list[tuple[int, int, int, int]]:
    """(dispatched, start, end of occupancy, completion) of every row."""
    columns = [timeline[name].tolist() for name in ("dispatched", "start", "occupied", "end")]
    return list(zip(*columns, strict=True))


def waits(timeline: Timeline) -> list[tuple[Wait, int, int]]:
    """(what it waited for, for how long, who released it) of every row."""
    columns = [timeline[name].tolist() for name in ("waited_for", "wait_cycles", "released_by")]
    return [(Wait(cause), cycles, by) for cause, cycles, by in zip(*columns, strict=True)]
