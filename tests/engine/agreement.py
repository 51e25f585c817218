"""What the tests of the engines share: the engines, how two timelines differ, and what a program contains."""

from collections import Counter, defaultdict

import numpy as np
import plain
from hypothesis import HealthCheck, settings
from random_programs import EVENTS

from ascendsim.engine import compiled, reference
from ascendsim.engine.base import TIMELINE_COLUMNS, Kind, ScheduleInput, Timeline, Wait
from ascendsim.terms import HardEvent, Pipe

# The one list of engines: every test of the contract runs for each of them.
ENGINES = {"plain": plain.schedule, "reference": reference.schedule, "compiled": compiled.schedule}

PROFILE = settings(
    max_examples=600,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
FEW = settings(PROFILE, max_examples=120)

FLAG_WAITS = (Wait.FLAG, Wait.BUFFER, Wait.CROSS_CORE)


def mismatches(mine: Timeline, theirs: Timeline):
    """(row, column, my value, their value)."""
    assert len(mine) == len(theirs)
    return [
        (int(n), name, int(mine[name][n]), int(theirs[name][n]))
        for name in TIMELINE_COLUMNS
        for n in np.flatnonzero(mine[name] != theirs[name])
    ]


def template_column(p: ScheduleInput, t: Timeline, name: str):
    """A column of the templates, spread over the timeline."""
    pairs = zip(t["call"], t["row"], strict=True)
    return np.array([p.templates[p.call_template[call]].columns[name][row] for call, row in pairs], np.int64)


# --- Flags


def passed(t: Timeline, row: int) -> int:
    """The cycle in which a WAIT_FLAG takes its flag."""
    return int(t["start"][row] + (t["wait_cycles"][row] if t["waited_for"][row] in FLAG_WAITS else 0))


def flags(p: ScheduleInput, t: Timeline):
    """(core, flag number, cross) -> its sets and its waits, in program order, for all flags of all cores."""
    found = defaultdict(lambda: ([], []))
    cross, flag = template_column(p, t, "cross"), template_column(p, t, "flag")
    for row in np.flatnonzero(np.isin(t["kind"], (Kind.SET_FLAG, Kind.WAIT_FLAG))):
        sets_and_waits = found[int(t["core"][row]), int(flag[row]), int(cross[row])]
        sets_and_waits[int(t["kind"][row] == Kind.WAIT_FLAG)].append(int(row))
    return found


def meetings(p: ScheduleInput, t: Timeline):
    """(core, cross, sets of each setter, waits) of every flag that a core waits for."""
    found = flags(p, t)
    for (core, flag, cross), (sets, waits) in list(found.items()):
        if cross:
            mode = p.cross_modes[cross - 1]
            groups = [s for s, w in zip(mode.setters, mode.waiters, strict=True) if core in w]
            yield core, cross, [found[setter, flag, cross][0] for group in groups for setter in group], waits
        else:
            yield core, 0, [sets], waits


def risings(p: ScheduleInput, t: Timeline, cross: int, sets_of_each: list[list[int]]) -> list[int]:
    """The cycles in which a flag rises."""
    later = p.cross_cycles if cross else 0
    return [max(int(t["end"][row]) for row in rows) + later for rows in zip(*sets_of_each, strict=False)]


# --- What a program contains


def kinds_of(p: ScheduleInput, t: Timeline) -> Counter[str]:
    """Count what is in a program and what happened in its run."""
    kinds: Counter[str] = Counter([f"{p.core_count} cores"])
    column = {n: template_column(p, t, n) for n in ("flag", "cross", "buffer_wait", "bytes")}
    for row in range(len(t)):
        kind, pipe = Kind(t["kind"][row]), Pipe(t["pipe"][row])
        kinds.update([kind.name, f"waited for {Wait(t['waited_for'][row]).name}"])
        kinds[f"{kind.name} on {'S' if pipe == Pipe.S else 'a pipe'}"] += 1
        if t["stuck_cycles"][row]:
            kinds[f"stuck at depth {p.queue_depth[pipe]}"] += 1
        if kind in (Kind.SET_FLAG, Kind.WAIT_FLAG):
            event = HardEvent(column["flag"][row] // p.event_ids).name
            kinds[f"{kind.name} cross-core on {pipe.name}" if column["cross"][row] else f"{kind.name} {event}"] += 1
            kinds["WAIT_FLAG for a buffer"] += int(column["buffer_wait"][row])
        if kind == Kind.TRANSFER and column["bytes"][row]:
            kinds[f"L2 {p.l2.mode}: {'hit' if t['l2_hit'][row] else 'miss'}"] += 1
            kinds["stretched"] += int(t["stretch_cycles"][row] > 0)
    for core, cross, sets_of_each, waits in meetings(p, t):
        name = "cross-core flag" if cross else "flag"
        rises = risings(p, t, cross, sets_of_each)
        kinds[f"{name} set twice"] += sum(
            later < passed(t, wait) for wait, later in zip(waits, rises[1:], strict=False)
        )
        kinds[f"{name} waited for before its set"] += sum(
            wait < a_set
            for sets in sets_of_each
            for wait, a_set in zip(waits, sets, strict=False)
            if t["core"][a_set] == core
        )
    kinds["evicted"] += evictions(p, t)
    return kinds


def evictions(p: ScheduleInput, t: Timeline) -> int:
    """Transfers that miss although the same box was there before."""
    if p.l2.mode != "model":
        return 0
    names = ("slot", "gm_offset", "gm_rows", "gm_length", "gm_pitch", "bytes")
    column = {name: template_column(p, t, name) for name in names}
    column["slot"] = p.slot_base_bytes[p.call_slot_start[t["call"]] + column["slot"]]
    seen, count = set(), 0
    for row in np.argsort(t["start"], kind="stable"):
        box = tuple(int(column[name][row]) for name in names)
        if t["kind"][row] == Kind.TRANSFER and column["bytes"][row]:
            count += box in seen and not t["l2_hit"][row]
            seen.add(box)
    return count


def kinds_of_rows(rows: list[plain.Row]) -> Counter[str]:
    """Count what only the rows of `plain` tell."""
    return Counter(
        [
            *("cold" if row.cold else "warm" for row in rows if row.kind == Kind.EXEC and row.pipe == Pipe.V),
            *("at its minimum" for row in rows if row.bytes and row.occupied > row.data_end),
        ]
    )


EVERYTHING = {
    *(kind.name for kind in Kind),
    *(f"{kind.name} on S" for kind in Kind if kind != Kind.TRANSFER),
    *(f"{kind.name} on a pipe" for kind in Kind),
    *(f"waited for {wait.name}" for wait in Wait if wait != Wait.QUEUE_FULL),
    *(f"{kind} {event.name}" for kind in ("SET_FLAG", "WAIT_FLAG") for event in EVENTS),
    *(f"{kind} cross-core on {pipe.name}" for kind in ("SET_FLAG", "WAIT_FLAG") for pipe in Pipe if pipe != Pipe.ALL),
    *("WAIT_FLAG for a buffer", "flag set twice", "cross-core flag set twice"),
    *("flag waited for before its set", "cross-core flag waited for before its set"),
    *("L2 hit: hit", "L2 miss: miss", "L2 model: hit", "L2 model: miss", "evicted", "stretched"),
    *(f"{n} cores" for n in (1, 2, 3)),
    *(f"stuck at depth {n}" for n in (1, 2, 3, 4)),
}
"""Kinds of `kinds_of` that the random programs must show."""
EVERYTHING_OF_ROWS = {"cold", "warm", "at its minimum"}
