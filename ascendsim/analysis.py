"""What a timeline means: how busy each pipe was, what it waited for, where the cycles went, what lived in UB.

Pure functions of a program and its timeline. A pipe is *busy* while one of its instructions or transfers is between
start and completion, *stalled* while it holds a row that waits for a flag, a buffer or a barrier, *idle* otherwise; the
three add up to the makespan.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.engine.base import Kind, Timeline, Wait
from ascendsim.isa.instruction import Row, TensorRef
from ascendsim.isa.move import burst_geometry
from ascendsim.memory import FRAMEWORK_TMP
from ascendsim.program import Program
from ascendsim.terms import Buffer, HardEvent, Pipe

Ints = NDArray[Any]
WORK = (Kind.EXEC, Kind.TRANSFER)
STALLS = (Wait.FLAG, Wait.BUFFER, Wait.BARRIER, Wait.BANDWIDTH, Wait.DISPATCH)


@dataclass(frozen=True, slots=True)
class PipeUse:
    """Cycles of one pipe of one core; busy + stalled + idle = makespan."""

    core: int
    pipe: Pipe
    busy_cycles: int
    stalled_cycles: int
    idle_cycles: int
    rows: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two pipes of the same cores at work at the same time, as a share of the less busy one's time."""

    first: Pipe
    second: Pipe
    shared_cycles: int
    share: float


@dataclass(frozen=True, slots=True)
class Cause:
    """Waiting of one kind at one place, over all cores."""

    pipe: Pipe
    wait: Wait
    name: str
    """Queue, tensor or step that was waited for."""
    line: str
    count: int
    cycles: int


@dataclass(frozen=True, slots=True)
class ScalarTime:
    """What the scalar unit of one core did beside its own rows: arrays of one length, a row each.

    Attributes:
        number: timeline row that was dispatched.
        stuck: cycle from which the pipe's queue had no room for it.
        begun: cycle at which dispatching it began; equal to `stuck` if there was room.
        done: cycle at which it was in the queue.
    """

    number: Ints
    stuck: Ints
    begun: Ints
    done: Ints


@dataclass(frozen=True, slots=True)
class Life:
    """An allocation in UB from its first to its last access on behalf of one tile or queue turn.

    Attributes:
        allocation_bytes: length of the allocation; of the framework's temp, which is all that is left of UB, only what
            this life reaches into it.
    """

    core: int
    name: str
    position: str
    address_bytes: int
    allocation_bytes: int
    start: int
    end: int
    tile: int


class Rows:
    """Template rows in timeline order, looked up by number."""

    def __init__(self, program: Program, timeline: Timeline) -> None:
        self.program = program
        self.timeline = timeline
        self._template = program.calls["template"][timeline["call"]] if len(timeline) else np.zeros(0, np.int64)
        self._reaches: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {}

    def row(self, number: int) -> Row:
        """The instruction of a timeline row."""
        return self.program.templates[int(self._template[number])].rows[int(self.timeline["row"][number])]

    def tensors(self, number: int) -> tuple[TensorRef, ...]:
        """Tensors of the template that a timeline row belongs to."""
        return self.program.templates[int(self._template[number])].tensors

    def reaches(self, number: int) -> tuple[tuple[int, int], ...]:
        """(tensor of the template, end of what the row touches of it) of each operand of a timeline row."""
        key = int(self._template[number]), int(self.timeline["row"][number])
        if key not in self._reaches:
            self._reaches[key] = _reaches(self.row(number))
        return self._reaches[key]

    def line(self, number: int) -> str:
        """Source line of a timeline row."""
        return self.program.lines[self.row(number).line]

    def column(self, name: str) -> Ints:
        """One template column, spread over the timeline."""
        out = np.zeros(len(self.timeline), self.program.templates[0].columns[name].dtype if len(self.timeline) else int)
        for index, template in enumerate(self.program.templates):
            here = self._template == index
            out[here] = template.columns[name][self.timeline["row"][here]]
        return out


def union_intervals(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Merge intervals into disjoint ones, sorted."""
    keep = end > start
    start, end = start[keep], end[keep]
    if start.size == 0:
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate([[True], start[1:] > end[:-1]])
    last = np.concatenate([first[1:], [True]])
    return start[first], end[last]


def shared_cycles(a: tuple[Ints, Ints], b: tuple[Ints, Ints]) -> int:
    """Length of the intersection of two sets of disjoint sorted intervals."""
    total = 0
    i = j = 0
    while i < len(a[0]) and j < len(b[0]):
        low, high = max(a[0][i], b[0][j]), min(a[1][i], b[1][j])
        total += max(0, int(high - low))
        if a[1][i] <= b[1][j]:
            i += 1
        else:
            j += 1
    return total


def _length(intervals: tuple[Ints, Ints]) -> int:
    return int((intervals[1] - intervals[0]).sum())


def busy_intervals(timeline: Timeline, core: int, pipe: Pipe) -> tuple[Ints, Ints]:
    """Disjoint intervals in which a pipe of a core is busy."""
    here = (timeline["core"] == core) & (timeline["pipe"] == pipe) & np.isin(timeline["kind"], WORK)
    return union_intervals(timeline["start"][here], timeline["end"][here])


def scalar_time(timeline: Timeline, core: int, dispatch_cycles: int) -> ScalarTime:
    """When the scalar unit of a core dispatched rows to other pipes, and when it was stuck before a full queue.

    It takes its rows in order and is never idle before the last one: from the end of the row before (its end if it was
    the scalar unit's own, its dispatch otherwise) until dispatching begins, only a full queue can hold it.
    """
    t = timeline
    here = np.flatnonzero(t["core"] == core)
    own = t["pipe"][here] == Pipe.S
    free = np.concatenate([[0], np.where(own, t["end"][here], t["dispatched"][here])])[:-1]
    begun = t["dispatched"][here] - dispatch_cycles
    return ScalarTime(here[~own], free[~own], begun[~own], t["dispatched"][here][~own])


def pipe_use(timeline: Timeline, core: int, pipe: Pipe, dispatch_cycles: int) -> PipeUse:
    """How one pipe of one core spent the makespan. The scalar unit is busy while it dispatches, too."""
    t = timeline
    here = (t["core"] == core) & (t["pipe"] == pipe)
    busy = busy_intervals(t, core, pipe)
    blocked = here & np.isin(t["waited_for"], (Wait.FLAG, Wait.BUFFER, Wait.BARRIER)) & ~np.isin(t["kind"], WORK)
    wait_start, wait_end = t["start"][blocked], t["start"][blocked] + t["wait_cycles"][blocked]
    if pipe is Pipe.S:
        s = scalar_time(t, core, dispatch_cycles)
        busy = union_intervals(np.append(busy[0], s.begun), np.append(busy[1], s.done))
        wait_start, wait_end = np.append(wait_start, s.stuck), np.append(wait_end, s.begun)
    waits = union_intervals(wait_start, wait_end)
    stalled = _length(waits) - shared_cycles(waits, busy)
    busy_cycles = _length(busy)
    rows = int((here & np.isin(t["kind"], WORK)).sum())
    return PipeUse(core, pipe, busy_cycles, stalled, t.makespan_cycles - busy_cycles - stalled, rows)


def all_pipe_use(timeline: Timeline, dispatch_cycles: int) -> tuple[PipeUse, ...]:
    """Every pipe that has work, of every core."""
    pairs = sorted({(int(c), int(p)) for c, p in zip(timeline["core"], timeline["pipe"], strict=True)})
    uses = (pipe_use(timeline, core, Pipe(pipe), dispatch_cycles) for core, pipe in pairs)
    return tuple(u for u in uses if u.rows)


def overlaps(timeline: Timeline) -> tuple[Overlap, ...]:
    """Every pair of pipes with work: shared cycles over all cores, as a share of the smaller busy time."""
    work = np.isin(timeline["kind"], WORK) & (timeline["pipe"] != Pipe.S)
    cores = [int(c) for c in np.unique(timeline["core"][work])]
    pipes = [Pipe(int(p)) for p in np.unique(timeline["pipe"][work])]
    busy = {(c, p): busy_intervals(timeline, c, p) for c in cores for p in pipes}
    found = []
    for a, b in combinations(pipes, 2):
        shared = sum(shared_cycles(busy[c, a], busy[c, b]) for c in cores)
        smaller = min(sum(_length(busy[c, p]) for c in cores) for p in (a, b))
        found.append(Overlap(a, b, shared, shared / smaller if smaller else 0.0))
    return tuple(found)


def causes(program: Program, timeline: Timeline, dispatch_cycles: int) -> tuple[Cause, ...]:
    """Waiting by pipe, kind, name and source line, most cycles first."""
    rows = Rows(program, timeline)
    waited = np.isin(timeline["waited_for"], STALLS) & (timeline["wait_cycles"] > 0)
    cycles: Counter[tuple[Pipe, Wait, str, str]] = Counter()
    counts: Counter[tuple[Pipe, Wait, str, str]] = Counter()
    for number in np.flatnonzero(waited):
        key = _cause_key(rows, int(number))
        cycles[key] += int(timeline["wait_cycles"][number])
        counts[key] += 1
    for core in np.unique(timeline["core"]):
        s = scalar_time(timeline, int(core), dispatch_cycles)
        for number, stuck in zip(s.number, s.begun - s.stuck, strict=True):
            if stuck > 0:
                key = (Pipe.S, Wait.QUEUE_FULL, Pipe(int(timeline["pipe"][number])).name, rows.line(int(number)))
                cycles[key] += int(stuck)
                counts[key] += 1
    ordered = sorted(cycles, key=lambda k: (-cycles[k], k[0], k[1], k[2], k[3]))
    return tuple(Cause(*key, count=counts[key], cycles=cycles[key]) for key in ordered)


def _cause_key(rows: Rows, number: int) -> tuple[Pipe, Wait, str, str]:
    row = rows.row(number)
    wait = Wait(int(rows.timeline["waited_for"][number]))
    return Pipe(int(rows.timeline["pipe"][number])), wait, waited_name(rows, number, row, wait), rows.line(number)


def waited_name(rows: Rows, number: int, row: Row, wait: Wait) -> str:
    """The queue of a flag (pair and step if it is a kernel's own), the tensor of a transfer, the step of a barrier."""
    if wait is Wait.BANDWIDTH:
        refs = rows.tensors(number)
        return next(refs[o.tensor].name for _, o in row.operands if refs[o.tensor].buffer is Buffer.GM)
    if row.que >= 0:
        return rows.program.ques[row.que].name
    step = rows.program.steps[row.step]
    if row.op.name == "wait_flag":
        return " ".join(part for part in (HardEvent(row.param("event")).name, step and f"in {step}") if part)
    return step or row.op.api


def step_cycles(program: Program, timeline: Timeline) -> dict[str, int]:
    """Cycles of each marked step, over all cores. A row counts until the next on its pipe starts, or it is complete."""
    if not len(timeline):
        return {}
    rows = Rows(program, timeline)
    work = np.flatnonzero(np.isin(timeline["kind"], WORK) & (timeline["pipe"] != Pipe.S))
    order = work[np.lexsort((timeline["start"][work], timeline["pipe"][work], timeline["core"][work]))]
    start, end = timeline["start"][order], timeline["end"][order]
    following = np.append(start[1:], np.iinfo(np.int64).max)
    same = np.append(
        (timeline["core"][order][1:] == timeline["core"][order][:-1])
        & (timeline["pipe"][order][1:] == timeline["pipe"][order][:-1]),
        False,
    )
    spent = np.where(same, np.minimum(end, following), end) - start
    steps = rows.column("step")[order]
    totals = np.bincount(steps, weights=spent, minlength=len(program.steps)).astype(np.int64)
    return {name: int(totals[i]) for i, name in enumerate(program.steps) if name and totals[i]}


def bytes_moved(program: Program) -> dict[str, int]:
    """Bytes from and to each GM tensor, as "name read" and "name written"."""
    moved: dict[str, int] = defaultdict(int)
    per_template = [_template_bytes(t.rows, t.tensors) for t in program.templates]
    for call, template in enumerate(program.calls["template"]):
        decoded = program.call(call)
        for slot, way, count in per_template[template]:
            moved[f"{program.gm[decoded.slot_tensor[slot]].name} {way}"] += count
    return dict(sorted(moved.items()))


def _template_bytes(rows: tuple[Row, ...], tensors: tuple[TensorRef, ...]) -> list[tuple[int, str, int]]:
    totals: Counter[tuple[int, str]] = Counter()
    for row in rows:
        if row.op.cost != "transfer":
            continue
        count, length, _, _ = burst_geometry(row)
        for role, operand in row.operands:
            ref = tensors[operand.tensor]
            if ref.buffer is Buffer.GM:
                totals[ref.slot, "read" if role == "src0" else "written"] += count * length
    return [(slot, way, count) for (slot, way), count in totals.items()]


def peak_ub_bytes(program: Program) -> int:
    """Highest UB byte that queues, buffers, explicit tensors or touched framework temp reach, plus one."""
    peak = program.ub_high_water_bytes
    for template in program.templates:
        for row in template.rows:
            for tensor, end in _reaches(row):
                ref = template.tensors[tensor]
                if ref.buffer is Buffer.UB:
                    peak = max(peak, ref.address_bytes + end)
    return peak


@dataclass(frozen=True, slots=True)
class DoubleSet:
    """A flag that is set again while an earlier set still waits to be taken.

    Attributes:
        event: the flag pair, such as "MTE2_V".
        event_id: its id.
        que: the queue that set it, "" for a flag of the kernel's own.
        line: source line of the first such set.
        count: how often, over all cores.
    """

    event: str
    event_id: int
    que: str
    line: str
    count: int


def double_sets(program: Program, timeline: Timeline) -> tuple[DoubleSet, ...]:
    """Flags that are set twice without a wait in between: the hardware has one bit and leaves that undefined.

    Sets and waits of a flag pair up in order; a set is one too many when the wait of the one before takes its flag
    later.
    """
    rows = Rows(program, timeline)
    raised: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    taken: dict[tuple[int, ...], list[int]] = {}
    for number in np.flatnonzero(np.isin(timeline["kind"], (Kind.SET_FLAG, Kind.WAIT_FLAG))).tolist():
        key = (int(timeline["core"][number]), *rows.row(number).params)
        if timeline["kind"][number] == Kind.SET_FLAG:
            raised.setdefault(key, []).append((int(timeline["end"][number]), number))
            continue
        held = timeline["waited_for"][number] in (Wait.FLAG, Wait.BUFFER)
        taken.setdefault(key, []).append(int(timeline["start"][number]) + held * int(timeline["wait_cycles"][number]))
    found: dict[tuple[int, int, str], list[int]] = {}
    for (_, event, event_id), sets in raised.items():
        waits = taken.get((_, event, event_id), [])
        for (cycle, number), before in zip(sets[1:], waits, strict=False):
            if cycle < before:
                que = rows.row(number).que
                name = program.ques[que].name if que >= 0 else ""
                found.setdefault((event, event_id, name), []).append(number)
    return tuple(
        DoubleSet(HardEvent(event).name, event_id, que, rows.line(min(numbers)), len(numbers))
        for (event, event_id, que), numbers in sorted(found.items())
    )


def _reaches(row: Row) -> tuple[tuple[int, int], ...]:
    """(tensor of the template, end of what the row touches of it), a pair for each operand."""
    operands = dict(row.operands)
    return tuple((operands[role].tensor, operands[role].offset_bytes + end) for role, _, end in row.op.touch(row))


def lives(program: Program, timeline: Timeline, core: int) -> tuple[Life, ...]:
    """Who lives where in UB of one core, by time. A queue buffer's life restarts when its producer fills it anew."""
    rows = Rows(program, timeline)
    open_lives: dict[tuple[str, int], _OpenLife] = {}
    done: list[Life] = []
    for number in np.flatnonzero(timeline["core"] == core):
        for ref, is_dst, reach in _ub_accesses(rows, int(number)):
            key = (ref.name, ref.address_bytes)
            pipe, call = int(timeline["pipe"][number]), int(timeline["call"][number])
            known = open_lives.get(key)
            if known is None or _starts_anew(ref, known, pipe, call, is_dst):
                if known is not None:
                    # The last access may still be draining when the next one begins: bytes are counted once.
                    known.end = min(known.end, max(known.start, int(timeline["start"][number])))
                    done.append(known.life(core))
                known = open_lives[key] = _OpenLife(ref, int(program.calls["tile"][call]))
            known.see(int(timeline["start"][number]), int(timeline["end"][number]), pipe, call, reach)
    done += [life.life(core) for life in open_lives.values()]
    return tuple(sorted(done, key=lambda life: (life.start, life.address_bytes)))


def _ub_accesses(rows: Rows, number: int) -> Iterator[tuple[TensorRef, bool, int]]:
    """(allocation, whether it is written, bytes of it that count as in use) of each operand in UB."""
    refs, row = rows.tensors(number), rows.row(number)
    for role, operand in row.operands:
        ref = refs[operand.tensor]
        if ref.buffer is Buffer.UB:
            is_taken = ref.name != FRAMEWORK_TMP
            reach = ref.tensor_bytes if is_taken else max(end for t, end in rows.reaches(number) if t == operand.tensor)
            yield ref, role == "dst", reach


class _OpenLife:
    """A life that is still going on."""

    def __init__(self, ref: TensorRef, tile: int) -> None:
        self.ref = ref
        self.tile = tile
        self.start = -1
        self.end = -1
        self.pipe = -1
        self.call = -1
        self.reach = 0

    def see(self, start: int, end: int, pipe: int, call: int, reach: int) -> None:
        """Take one access in."""
        self.reach = max(self.reach, reach)
        self.start = start if self.start < 0 else min(self.start, start)
        self.end = max(self.end, end)
        self.pipe, self.call = pipe, call

    def life(self, core: int) -> Life:
        """The finished life."""
        ref = self.ref
        return Life(core, ref.name, ref.position, ref.address_bytes, self.reach, self.start, self.end, self.tile)


def _starts_anew(ref: TensorRef, known: _OpenLife, pipe: int, call: int, is_dst: bool) -> bool:
    if ref.position == "VECIN":
        return is_dst and pipe == Pipe.MTE2 and known.pipe != Pipe.MTE2
    if ref.position == "VECOUT":
        return is_dst and known.pipe == Pipe.MTE3
    return call != known.call


def occupancy(found: tuple[Life, ...]) -> tuple[Ints, Ints]:
    """UB bytes in use over time: (cycles at which it changes, bytes from there on)."""
    events: Counter[int] = Counter()
    for life in found:
        events[life.start] += life.allocation_bytes
        events[life.end] -= life.allocation_bytes
    at = np.array(sorted(events), np.int64)
    return at, np.cumsum([events[int(c)] for c in at])
