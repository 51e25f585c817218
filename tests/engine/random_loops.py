"""Random long loops for the tests of skipping: a prologue, one or two bodies repeated many times, and an epilogue.

No program here can hang: what a turn waits for is set in the same turn, or by the prologue and then by every turn.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import strategies as st
from random_programs import (
    BASES,
    BRIEF,
    CAPACITY,
    EVENTS,
    SET,
    Chip,
    Script,
    Shape,
    cross_modes,
    execs,
    filler,
    held,
    multiply_and_fetch,
    transfers,
)
from small_programs import (
    EVENT_IDS,
    Fields,
    barrier,
    exec_row,
    load,
    program,
    set_cross,
    set_flag,
    store,
    wait_cross,
    wait_flag,
)

from ascendsim.engine.base import L2Info, ScheduleInput
from ascendsim.terms import HardEvent, Pipe

SHAPE = Shape(l2_modes=("hit", "miss"))
QUEUE_ID, AHEAD_ID, BLOCK_ID = EVENT_IDS - 1, EVENT_IDS - 2, EVENT_IDS - 3
LOCAL = [event for event in EVENTS if event.dst not in {Pipe.S, event.src}]
Rows = list[Fields]


@dataclass
class Track:
    """What one core does.

    Attributes:
        before, after: calls of the prologue and the epilogue.
        bodies: (calls of a turn, turns) of each loop.
    """

    before: list[Rows] = field(default_factory=list)
    bodies: list[tuple[list[Rows], int]] = field(default_factory=list)
    after: list[Rows] = field(default_factory=list)


@dataclass(frozen=True)
class Loop:
    """A program, and what is in it."""

    program: ScheduleInput
    features: frozenset[str]


def work(draw, pipes=(Pipe.V, Pipe.V, Pipe.MTE2, Pipe.MTE3, Pipe.S, Pipe.M)) -> Rows:
    return [filler(draw, draw(st.sampled_from(pipes)), SHAPE) for _ in range(draw(st.integers(1, 3)))]


def handshake(draw, chip) -> Rows:
    """A flag set and waited for within the turn, the wait first or last."""
    event, event_id = draw(st.sampled_from(EVENTS)), draw(st.integers(0, 2))
    a_set, wait = set_flag(event, event_id, draw(SET)), wait_flag(event, event_id, draw(BRIEF))
    if event in LOCAL and draw(st.booleans()):
        return [*held(draw, chip, wait), a_set]
    return [a_set, *work(draw), wait]


def queued_tile(draw) -> Rows:
    """Load, compute, store; the flags of free buffers come from the prologue at first."""
    return [
        wait_flag(HardEvent.V_MTE2, QUEUE_ID, buffer=True),
        transfers(draw, Pipe.MTE2, SHAPE),
        set_flag(HardEvent.MTE2_V, QUEUE_ID),
        wait_flag(HardEvent.MTE2_V, QUEUE_ID),
        wait_flag(HardEvent.MTE3_V, QUEUE_ID, buffer=True),
        execs(draw, Pipe.V, SHAPE),
        set_flag(HardEvent.V_MTE2, QUEUE_ID),
        set_flag(HardEvent.V_MTE3, QUEUE_ID),
        wait_flag(HardEvent.V_MTE3, QUEUE_ID),
        transfers(draw, Pipe.MTE3, SHAPE),
        set_flag(HardEvent.MTE3_V, QUEUE_ID),
    ]


def multiplied(draw, chip) -> Rows:
    """Products and what fetches them, one after another or all products first."""
    pairs = [multiply_and_fetch(draw, chip, 0) for _ in range(draw(st.integers(1, 3)))]
    return [row for pair in pairs for row in pair]


def free_buffers(draw) -> Rows:
    free_in, free_out = (draw(st.integers(1, 4)) for _ in range(2))
    return [set_flag(HardEvent.V_MTE2, QUEUE_ID)] * free_in + [set_flag(HardEvent.MTE3_V, QUEUE_ID)] * free_out


def loaded_ahead(draw) -> Rows:
    """What an earlier turn loaded is used, and another turn's load is issued."""
    event = draw(st.sampled_from([HardEvent.MTE2_V, HardEvent.S_V, HardEvent.S_MTE3, HardEvent.MTE3_MTE2]))
    return [*work(draw), set_flag(event, AHEAD_ID), wait_flag(event, AHEAD_ID)]


def ahead(draw) -> Rows:
    """Sets that run ahead of the waits of the loop by a constant number, for ever."""
    event = draw(st.sampled_from([HardEvent.MTE2_V, HardEvent.S_V, HardEvent.S_MTE3, HardEvent.MTE3_MTE2]))
    return [set_flag(event, AHEAD_ID)] * draw(st.integers(1, 3))


PARTS = {"work": lambda draw, _: work(draw), "flag": handshake, "units": multiplied}


def turn(draw, chip, *, queues: bool, barriers: bool) -> list[Rows]:
    """The calls of one turn: between one and four, and one may have no rows.

    `barriers`: on all pipes, too, and products with what fetches them; not where a pipe is held.
    """
    calls = []
    for _ in range(draw(st.integers(1, 3))):
        rows: Rows = []
        for _ in range(draw(st.integers(1, 3))):
            what = draw(
                st.sampled_from(
                    ["work", "flag", "barrier", "ahead"] + ["all", "units"] * barriers + ["tile"] * 3 * queues
                )
            )
            match what:
                case "work" | "flag" | "units":
                    rows += PARTS[what](draw, chip)
                case "barrier":
                    rows.append(barrier(draw(st.sampled_from([Pipe.V, Pipe.MTE2, Pipe.MTE3])), draw(BRIEF)))
                case "all":
                    rows.append(barrier(Pipe.S, draw(BRIEF)))
                case "ahead":
                    rows += loaded_ahead(draw)
                case "tile":
                    rows += queued_tile(draw)
        calls.append(rows)
    if draw(st.integers(0, 5)) == 0:
        calls.insert(draw(st.integers(0, len(calls))), [])
    return calls


def oddities(draw, track: Track, features: set[str]) -> None:
    """What the prologue leaves behind to upset the loop."""
    far = draw(st.sampled_from([40, 700, 3000, 20_000]))
    for name in draw(st.lists(st.sampled_from(["drain", "transfer", "sets", "slow flag"]), min_size=1, max_size=2)):
        features.add(name)
        match name:
            case "drain":
                pipe = draw(st.sampled_from([Pipe.V, Pipe.MTE3, Pipe.MTE1]))
                track.before.append([exec_row(pipe, draw(st.sampled_from([3, far])), drain=far)])
            case "transfer":
                make = draw(st.sampled_from([load, store]))
                track.before.append([make(far, draw(st.sampled_from([0.5, 1, 9])))])
            case "sets":
                event = draw(st.sampled_from(LOCAL))
                track.before.append([set_flag(event, BLOCK_ID)] * draw(st.integers(1, 3)))
                track.after.append([wait_flag(event, BLOCK_ID)])
            case "slow flag":  # rises in the middle of the loop and is taken in the epilogue
                track.before.append([exec_row(Pipe.V, 2, drain=far), set_flag(HardEvent.V_MTE3, BLOCK_ID)])
                track.after.append([wait_flag(HardEvent.V_MTE3, BLOCK_ID)])


def block(draw, chip: Chip, tracks: list[Track]) -> None:
    """Hold a pipe of every core, and rows behind, until all are done with their loops."""
    behind = [exec_row(Pipe.FIX, 5, startup=3)] * draw(st.integers(0, chip.depth))
    for track in tracks:
        track.before.append([wait_cross(Pipe.FIX, 0, 2), *behind])
        track.after.insert(draw(st.integers(0, len(track.after))), [set_cross(Pipe.M, 0, 2)])


@dataclass(frozen=True)
class Outline:
    """What the tracks of all cores have in common.

    Attributes:
        turns: of each loop, if cores are alike or meet.
        alike: all cores do the same, but some may do fewer turns if they do not meet.
        meet: all cores wait for each other in each turn.
        two: there are two loops.
        odd: the prologue leaves something behind.
        blocked: a pipe is held during the loops.
    """

    turns: int
    alike: bool
    meet: bool
    two: bool
    odd: bool
    blocked: bool

    def features(self) -> set[str]:
        names = {"cores alike": self.alike, "cores meet": self.meet, "two loops": self.two, "blocked": self.blocked}
        return {name for name, there in names.items() if there}


def outlines(draw, cores: int) -> Outline:
    return Outline(
        turns=draw(st.integers(50, 200)),
        alike=cores > 1 and draw(st.booleans()),
        meet=cores > 1 and draw(st.integers(0, 2)) > 0,
        two=draw(st.integers(0, 3)) == 0,
        odd=draw(st.booleans()),
        blocked=draw(st.integers(0, 4)) == 0,
    )


def one_track(draw, chip: Chip, outline: Outline, features: set[str]) -> Track:
    """What a core does, without what all cores have in common at the ends."""
    track, barriers = Track(), not outline.blocked
    set_pipe = draw(st.sampled_from([Pipe.V, Pipe.MTE3, Pipe.S]))
    wait_pipe = draw(st.sampled_from([Pipe.V, Pipe.MTE2, Pipe.S]))
    queues = draw(st.integers(0, 2)) > 0
    if queues:
        track.before.append(free_buffers(draw))
    if draw(st.booleans()):
        track.before += turn(draw, chip, queues=False, barriers=barriers)
    if draw(st.booleans()):
        track.before.append(ahead(draw))
    if outline.odd:
        oddities(draw, track, features)
    for _ in range(1 + outline.two):
        calls = turn(draw, chip, queues=queues, barriers=barriers)
        if outline.meet:
            calls.append([set_cross(set_pipe, 0, 0, draw(SET)), *work(draw), wait_cross(wait_pipe, 0, 0, draw(BRIEF))])
        together = outline.meet or outline.alike
        track.bodies.append((calls, outline.turns if together else draw(st.integers(1, 200))))
    if draw(st.booleans()):
        track.after += turn(draw, chip, queues=False, barriers=barriers)
    return track


def tracks(draw, chip: Chip, cores: int, features: set[str]) -> list[Track]:
    outline = outlines(draw, cores)
    features |= outline.features()
    if outline.alike:
        first = one_track(draw, chip, outline, features)
        found = [Track([*first.before], [*first.bodies], [*first.after]) for _ in range(cores)]
    else:
        found = [one_track(draw, chip, outline, features) for _ in range(cores)]
    if outline.alike and not outline.meet:
        for track in found[1:]:
            if draw(st.booleans()):
                track.bodies = [(calls, draw(st.integers(1, count))) for calls, count in track.bodies]
                features.add("a core ends early")
    if outline.blocked:
        block(draw, chip, found)
    return found


def woven(draw, tracks: list[list[Rows]]) -> list[tuple[int, Rows]]:
    """All calls in a program order that keeps each core's."""
    how = draw(st.sampled_from(["core by core", "in turns", "last core first", "by chance"]))
    if how == "core by core":
        return [(core, rows) for core, calls in enumerate(tracks) for rows in calls]
    if how == "last core first":
        return [(core, rows) for core, calls in reversed(list(enumerate(tracks))) for rows in calls]
    keys = [
        (number if how == "in turns" else place, core, rows)
        for core, calls in enumerate(tracks)
        for number, (place, rows) in enumerate(zip(_places(draw, len(calls)), calls, strict=True))
    ]
    return [(core, rows) for _, core, rows in sorted(keys, key=lambda key: key[:2])]


def _places(draw, count: int) -> list[float]:
    seed = draw(st.integers(0, 1000))
    return np.sort(np.random.default_rng(seed).random(count)).tolist()


def assembled(calls: list[tuple[int, Rows]], **more) -> ScheduleInput:
    """A program in which calls with the same rows share a template."""
    templates: dict[int, int] = {}
    distinct: list[Rows] = []
    numbers = []
    for _, rows in calls:
        if id(rows) not in templates:
            templates[id(rows)] = len(distinct)
            distinct.append(rows)
        numbers.append(templates[id(rows)])
    more.setdefault("cores", 1 + max(core for core, _ in calls))
    base = program(*((0, rows) for rows in distinct), **more)
    return replace(
        base,
        call_core=np.array([core for core, _ in calls], np.int64),
        call_template=np.array(numbers, np.int64),
        call_slot_start=np.zeros(len(calls), np.int64),
    )


@st.composite
def loops(draw) -> Loop:
    cores = draw(st.integers(1, 3))
    chip = Chip(SHAPE, draw(st.integers(1, 4)), cross_modes(cores), [Script() for _ in range(cores)])
    features: set[str] = {f"{cores} cores"}
    all_calls = [
        [*track.before, *(rows for calls, turns in track.bodies for _ in range(turns) for rows in calls), *track.after]
        for track in tracks(draw, chip, cores, features)
    ]
    mode = draw(st.sampled_from(SHAPE.l2_modes))
    p = assembled(
        woven(draw, all_calls),
        cores=cores,
        depth=chip.depth,
        dispatch=draw(st.sampled_from([0, 1, 1, 2])),
        capacity=draw(st.sampled_from([CAPACITY, (4, 4), (9, 16)])),
        l2=L2Info(mode, 512, 64, 256),
        bases=BASES,
        cross_modes=chip.modes,
        cross_cycles=draw(st.integers(0, 5)),
    )
    return Loop(p, frozenset(features))
