"""What a tuner asks of a run: who has how much to do, do Cube and Vector work at once, what is time lost to, traffic.

Pure functions of a program and its timeline's totals, so that they say the same of runs whose rows were not kept. One
place for each figure: `analysis` has those of single pipes, waits at single lines and tensors.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ascendsim.analysis import Cause, Ints, gm_moves, template_kinds, tensors_of_slot
from ascendsim.engine.base import Timeline, Wait
from ascendsim.program import Program
from ascendsim.terms import CoreKind, Pipe

UNITS = {CoreKind.AIC: Pipe.M, CoreKind.AIV: Pipe.V, CoreKind.AICORE: Pipe.V}
"""The pipe that computes on a kind of core."""
BUBBLES = (*(Wait.CROSS_CORE, Wait.FLAG, Wait.BUFFER, Wait.UNIT_FLAG, Wait.BARRIER, Wait.QUEUE_FULL, Wait.DISPATCH),)
"""Causes of cycles in which a pipe is not busy, in the order of reports."""


@dataclass(frozen=True, slots=True)
class Bubbles:
    """Where the cycles of one pipe went, over all cores of a kind.

    Attributes:
        cores: how many these are; with the makespan their number gives all cycles.
        busy: busy cycles.
        shared: of them, those that sharing a link with other cores added.
        lost: the cycles that were not busy, by cause; without causes that cost none.
        rest: what is left: behind the last row, and the own cycles of flags and barriers.
    """

    kind: CoreKind
    pipe: Pipe
    cores: int
    busy: int
    shared: int
    lost: Mapping[Wait, int]
    rest: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where most of what a pipe lost to one cause was lost."""

    kind: CoreKind
    pipe: Pipe
    wait: Wait
    cycles: int
    """Lost to the cause, everywhere."""
    line: str
    name: str
    by_scalar: bool
    """The scalar unit waited there, so that it issued nothing to the pipe."""


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly the work of one pipe lies on the cores of a kind.

    Attributes:
        busy: [core of the kind] busy cycles.
        ends: [core of the kind] cycle by which the pipe's last work is complete.
    """

    kind: CoreKind
    pipe: Pipe
    busy: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def worst(self) -> int:
        """The core of the kind that is busy longest."""
        return int(np.argmax(self.busy))

    @property
    def mean(self) -> float:
        """Busy cycles of a core."""
        return sum(self.busy) / len(self.busy)

    @property
    def ratio(self) -> float:
        """Busy cycles of the busiest core over the mean."""
        return max(self.busy) / self.mean if self.mean else 1.0


@dataclass(frozen=True, slots=True)
class UnitUse:
    """Cube (pipe M) and Vector (pipe V of any of its cores) of one AI Core: cycles, which add up to the makespan."""

    both: int
    cube_only: int
    vector_only: int
    none: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes between GM and one pipe in one phase.

    Attributes:
        phase: the outermost marked step, "" outside of all.
        kind: the cores that move them, None if both kinds do.
        way: "read", "written" or "added".
        input_bytes, output_bytes, workspace_bytes: of tensors with these roles.
        hit_bytes: of all of them, those of transfers that were hits in L2.
    """

    phase: str
    kind: CoreKind | None
    pipe: Pipe
    way: str
    input_bytes: int
    output_bytes: int
    workspace_bytes: int
    hit_bytes: int

    @property
    def bytes(self) -> int:
        """All of them."""
        return self.input_bytes + self.output_bytes + self.workspace_bytes


def bubbles(program: Program, timeline: Timeline) -> tuple[Bubbles, ...]:
    """Return where the cycles of every pipe with work went, in the order of kinds and pipes."""
    return tuple(
        _bubbles(timeline, kind, pipe, cores)
        for kind in dict.fromkeys(program.kernel_type.kinds)
        for cores in (cores_of(program, kind),)
        for pipe in Pipe
        if timeline.totals.rows[cores, pipe].any()
    )


def core_bubbles(program: Program, timeline: Timeline, block: int, kind: CoreKind, pipe: Pipe) -> tuple[Bubbles, ...]:
    """Return where the cycles of a pipe went on each core of a kind in one block."""
    own = cores_of(program, kind)
    return tuple(_bubbles(timeline, kind, pipe, own[own == core]) for core in own[own // program.block_cores == block])


def _bubbles(timeline: Timeline, kind: CoreKind, pipe: Pipe, cores: Ints) -> Bubbles:
    totals = timeline.totals
    busy, lost = int(totals.busy_cycles[cores, pipe].sum()), totals.lost_cycles[cores, pipe].sum(axis=0)
    by_cause = {wait: int(lost[wait]) for wait in BUBBLES if lost[wait]}
    rest = len(cores) * timeline.makespan_cycles - busy - sum(by_cause.values())
    return Bubbles(kind, pipe, len(cores), busy, int(lost[Wait.BANDWIDTH]), by_cause, rest)


def places(found: Sequence[Bubbles], causes: Sequence[Cause]) -> tuple[Place, ...]:
    """Return for each cause of bubbles where most of it was lost, most cycles first; S itself is left out.

    A place is a row of the pipe that waits, or one of the scalar unit if that was held longer at one place.
    """
    out = []
    for lane in found:
        for wait, cycles in lane.lost.items() if lane.pipe is not Pipe.S else ():
            own = [
                c for c in causes if c.wait is wait and c.kind in (lane.kind, None) and c.pipe in (lane.pipe, Pipe.S)
            ]
            if own:
                most = max(own, key=lambda c: c.cycles)
                out.append(Place(lane.kind, lane.pipe, wait, cycles, most.line, most.name, most.pipe is Pipe.S))
    return tuple(sorted(out, key=lambda place: -place.cycles))


def cores_of(program: Program, kind: CoreKind) -> Ints:
    """Return the cores of a kind."""
    inside = [i for i, one in enumerate(program.kernel_type.kinds) if one is kind]
    return np.sort(np.add.outer(np.arange(program.block_dim) * program.block_cores, inside).reshape(-1))


def balances(program: Program, timeline: Timeline) -> tuple[Balance, ...]:
    """Return how evenly the work of every pipe but S lies on its cores."""
    totals, found = timeline.totals, []
    for kind in dict.fromkeys(program.kernel_type.kinds):
        cores = cores_of(program, kind)
        for pipe in Pipe:
            if pipe is not Pipe.S and totals.rows[cores, pipe].any():
                busy, ends = (x[cores, pipe].tolist() for x in (totals.busy_cycles, totals.last_cycles))
                found.append(Balance(kind, pipe, tuple(busy), tuple(ends)))
    return tuple(found)


def unit_use(program: Program, timeline: Timeline) -> tuple[UnitUse, ...]:
    """Return for each AI Core how long its Cube and Vector units work at once; empty where it has not both."""
    totals = timeline.totals
    cube = totals.busy_cycles[:: program.block_cores, Pipe.M]
    if not totals.rows[:, Pipe.M].any() or not totals.rows[:, Pipe.V].any():
        return ()
    vector, both = totals.unit_cycles.T
    none = timeline.makespan_cycles - cube - vector + both
    columns = (both, cube - both, vector - both, none)
    return tuple(UnitUse(*(int(x) for x in one)) for one in zip(*columns, strict=True))


def bounds(program: Program, timeline: Timeline) -> tuple[tuple[CoreKind, Pipe, int, float], ...]:
    """Return the pipes that are busiest on some AI Core: (kind, pipe, on how many AI Cores, share of their makespan).

    Of two AIVs the busier one counts.
    """
    per, kinds = program.block_cores, program.kernel_type.kinds
    busy = timeline.totals.busy_cycles.reshape(program.block_dim, per, -1).copy()
    busy[:, :, Pipe.S] = 0
    flat = busy.reshape(program.block_dim, -1)
    lanes = [(kinds[place // busy.shape[2]], Pipe(place % busy.shape[2])) for place in flat.argmax(axis=1).tolist()]
    most: dict[tuple[CoreKind, Pipe], list[int]] = defaultdict(list)
    for lane, cycles in zip(lanes, flat.max(axis=1).tolist(), strict=True):
        if cycles:
            most[lane].append(cycles)
    total = max(1, timeline.makespan_cycles)
    ordered = sorted(most.items(), key=lambda item: -len(item[1]))
    return tuple((*lane, len(found), sum(found) / len(found) / total) for lane, found in ordered)


def traffic(program: Program, timeline: Timeline, roles: Mapping[str, str]) -> tuple[Traffic, ...]:
    """Return the bytes between GM and each pipe by phase, most first.

    Args:
        program: the program.
        timeline: of it.
        roles: "input" or "output" of GM tensors; all others are workspace.
    """
    kinds, start = template_kinds(program), 0
    moved: dict[tuple[str, CoreKind | None, Pipe, str], Counter[str]] = defaultdict(Counter)
    for number, template in enumerate(program.templates):
        kind = next(iter(kinds[number])) if len(kinds[number]) == 1 else None
        for at, slot, way, count in gm_moves(template):
            row = template.rows[at]
            phase = program.steps[row.step].partition("/")[0]
            into = moved[phase, kind, row.pipe, "added" if way == "written" and row.op.reads_dst else way]
            for tensor, times in tensors_of_slot(program, number, slot):
                into[roles.get(tensor, "workspace")] += count * times
            into["hit"] += count * int(timeline.totals.l2_hits[start + at])
        start += len(template)
    found = [
        Traffic(*key, *(some[name] for name in ("input", "output", "workspace", "hit"))) for key, some in moved.items()
    ]
    return tuple(sorted(found, key=lambda one: -one.bytes))


def read_hit_share(found: Sequence[Traffic]) -> float | None:
    """Return the share of the bytes read from GM that came from L2; None where none are read."""
    reads = [one for one in found if one.way == "read"]
    total = sum(one.bytes for one in reads)
    return sum(one.hit_bytes for one in reads) / total if total else None
