"""What a timeline means: how busy each pipe was, what it waited for, where the cycles went, what lived on chip.

Pure functions of a program and its timeline. What concerns a whole run comes from the timeline's totals, which the
engine adds up over all rows; what concerns single rows comes from those that were kept. Busy, stalled and idle cycles
(see `Totals`) add up to the makespan.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.cross import groups_of
from ascendsim.engine.base import Keep, Kind, Timeline, Wait
from ascendsim.isa.instruction import Row, TensorRef
from ascendsim.isa.move import burst_geometry
from ascendsim.memory import FRAMEWORK_TMP, RESERVED_TMP
from ascendsim.program import Program, Template
from ascendsim.terms import Buffer, CoreKind, CrossMode, HardEvent, Pipe

Ints = NDArray[Any]
Span = tuple[int, int]
"""First and last cycle."""
WORK = (Kind.EXEC, Kind.TRANSFER)
STALLS = (*(Wait.FLAG, Wait.BUFFER, Wait.CROSS_CORE, Wait.UNIT_FLAG, Wait.BARRIER, Wait.BANDWIDTH, Wait.DISPATCH),)


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
    """Two pipes of the same cores at work at the same time, as a share of the less busy one's time there."""

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
    kind: CoreKind | None = None
    """In a mixed kernel: the cores it concerns, None if both kinds issue the row."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """How far an on-chip memory is used.

    Attributes:
        peak_bytes: highest byte in use, plus one, of the core that reaches furthest.
        capacity_bytes: what the hardware has, on each core.
    """

    buffer: Buffer
    peak_bytes: int
    capacity_bytes: int

    @property
    def free_bytes(self) -> int:
        """What is left behind the highest byte in use; below 0 where a kernel reaches beyond the end."""
        return self.capacity_bytes - self.peak_bytes


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
    """An allocation on chip from its first to its last access on behalf of one tile or queue turn.

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
    buffer: Buffer = Buffer.UB


class TemplateRows:
    """The rows of all templates, counted through, as the timeline's totals count them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._starts = np.concatenate([[0], np.cumsum([len(t) for t in program.templates], dtype=np.int64)])

    def number(self, index: int) -> int:
        """The number of the template that a row belongs to."""
        return int(np.searchsorted(self._starts, index, side="right")) - 1

    def template(self, index: int) -> Template:
        """The template that a row belongs to."""
        return self._program.templates[self.number(index)]

    def row(self, index: int) -> Row:
        """The instruction of a row."""
        number = self.number(index)
        return self._program.templates[number].rows[index - int(self._starts[number])]

    def line(self, index: int) -> str:
        """Source line of a row."""
        return self._program.lines[self.row(index).line]

    def column(self, name: str) -> Ints:
        """One column of all templates."""
        return np.concatenate([np.zeros(0, np.int64), *(t.columns[name] for t in self._program.templates)])


class Rows:
    """Instructions of the timeline's rows, looked up by their position in it."""

    def __init__(self, program: Program, timeline: Timeline) -> None:
        self.program = program
        self.timeline = timeline
        self.template_of: list[int] = program.calls["template"][timeline["call"]].tolist() if len(timeline) else []
        """The template's number of each timeline row."""

    def row(self, position: int) -> Row:
        """The instruction of a timeline row."""
        return self.template(position).rows[int(self.timeline["row"][position])]

    def template(self, position: int) -> Template:
        """The template that a timeline row belongs to."""
        return self.program.templates[self.template_of[position]]

    def tensors(self, position: int) -> tuple[TensorRef, ...]:
        """Tensors of the template that a timeline row belongs to."""
        return self.template(position).tensors

    def line(self, position: int) -> str:
        """Source line of a timeline row."""
        return self.program.lines[self.row(position).line]


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


def scalar_time(timeline: Timeline, core: int, dispatch_cycles: int) -> ScalarTime:
    """When the scalar unit of a core dispatched rows to other pipes, and when it was stuck before a full queue."""
    here = np.flatnonzero((timeline["core"] == core) & (timeline["pipe"] != Pipe.S))
    done = timeline["dispatched"][here]
    begun = done - dispatch_cycles
    return ScalarTime(here, begun - timeline["stuck_cycles"][here], begun, done)


def all_pipe_use(timeline: Timeline) -> tuple[PipeUse, ...]:
    """Every pipe that has work, of every core."""
    totals, makespan = timeline.totals, timeline.makespan_cycles
    found = []
    for core, pipe in zip(*(axis.tolist() for axis in np.nonzero(totals.rows)), strict=True):
        busy, stalled = int(totals.busy_cycles[core, pipe]), int(totals.stalled_cycles[core, pipe])
        rows = int(totals.rows[core, pipe])
        found.append(PipeUse(core, Pipe(pipe), busy, stalled, makespan - busy - stalled, rows))
    return tuple(found)


def overlaps(timeline: Timeline) -> tuple[Overlap, ...]:
    """Every pair of pipes that work on the same cores: shared cycles over them, as a share of the smaller busy time."""
    totals = timeline.totals
    pipes = [Pipe(p) for p in np.flatnonzero(totals.rows.sum(axis=0)).tolist() if p != Pipe.S]
    found = []
    for a, b in combinations(pipes, 2):
        cores = (totals.rows[:, a] > 0) & (totals.rows[:, b] > 0)
        if cores.any():
            shared = int(totals.overlap_cycles[a, b])
            smaller = int(min(totals.busy_cycles[cores, pipe].sum() for pipe in (a, b)))
            found.append(Overlap(a, b, shared, shared / smaller if smaller else 0.0))
    return tuple(found)


def flag_pairs(rows: Rows, only_core: int | None = None) -> dict[int, int]:
    """Return the position of the set that each wait took: of a core and flag, the n-th wait takes the n-th set.

    A wait for other cores took the set that was the last one it needed; `only_core` says on which core the waits are.
    Flags without a partner are left out.
    If not all rows are kept, only a wait that was held is known to belong to the set that released it.
    Source: msopprof, core timeline (pairs flags of equal detail in order).
    """
    t = rows.timeline
    core, kind = t["core"], t["kind"]
    asked = np.ones(len(t), np.bool_) if only_core is None else core == only_core
    if not t.is_whole:
        waits = np.flatnonzero(asked & np.isin(t["waited_for"], (Wait.FLAG, Wait.BUFFER, Wait.CROSS_CORE))).tolist()
        held = ((wait, t.position(int(t["released_by"][wait]))) for wait in waits)
        return {wait: by for wait, by in held if by >= 0}
    if rows.program.is_cross:
        asked = np.ones(len(t), np.bool_)
    of_flag: dict[tuple[int, ...], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    of_cross: dict[tuple[int, ...], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    flags = np.flatnonzero(asked & ((kind == Kind.SET_FLAG) | (kind == Kind.WAIT_FLAG)))
    for at, its_core, is_wait in zip(flags.tolist(), core[flags].tolist(), kind[flags] == Kind.WAIT_FLAG, strict=True):
        row = rows.row(at)
        if is_cross_flag(row):
            of_cross[row.param("mode"), row.param("flag_id"), its_core][int(is_wait)].append(at)
        elif only_core is None or its_core == only_core:
            of_flag[its_core, *row.params][int(is_wait)].append(at)
    own = {wait: by for sets, waits in of_flag.values() for by, wait in zip(sets, waits, strict=False)}
    return own | {w: by for w, by in _cross_pairs(rows, of_cross).items() if only_core in (None, core[w])}


def is_cross_flag(row: Row) -> bool:
    """Whether a row sets or waits for a flag of other cores."""
    return row.op.name in ("cross_core_set_flag", "cross_core_wait_flag")


def _cross_pairs(rows: Rows, flags: dict[tuple[int, ...], tuple[list[int], list[int]]]) -> dict[int, int]:
    """Return the position of the set that released each wait for other cores.

    The n-th wait of a core takes the n-th set of every core that sets for it; the last of these to be raised releases
    it, of several that are raised together the one on the lowest core.

    Args:
        rows: the timeline.
        flags: (positions of sets, positions of waits) by mode, id and core.
    """
    ends, program = rows.timeline["end"], rows.program
    setters = {
        (int(mode), core): group
        for mode in CrossMode
        for group, waiters in groups_of(mode, program.kernel_type, program.block_dim)
        for core in waiters
    }
    found = {}
    for (mode, flag_id, core), (_, waits) in flags.items():
        sets = [flags[mode, flag_id, setter][0] for setter in setters[mode, core] if (mode, flag_id, setter) in flags]
        if len(sets) == len(setters[mode, core]):
            for wait, *by in zip(waits, *sets, strict=False):
                found[wait] = max(by, key=lambda at: int(ends[at]))
    return found


def within(timeline: Timeline, windows: Sequence[Span]) -> Timeline:
    """Return a timeline with only those rows that are at work in some stretches of time; all if there are none."""
    if not windows:
        return timeline
    t, nowhere = timeline, np.zeros(len(timeline), np.int64)
    keep = Keep(np.zeros(1, np.bool_), tuple(windows))
    chosen = keep.chosen(nowhere, nowhere, t["dispatched"], t["stuck_cycles"], t["end"])
    return replace(timeline, columns={name: column[chosen] for name, column in timeline.columns.items()})


def edges(program: Program, timeline: Timeline, core: int) -> tuple[Span, Span]:
    """Stretches at the begin and at the end of a run in which no row of a core is missing, (first, last) cycles.

    The scalar unit takes rows in order, so that no missing row starts before the last dispatch of the rows kept at the
    begin. A pipe works in order, so that none is at work once each has begun with those kept at the end. Either may be
    empty.
    """
    calls = np.flatnonzero(program.calls["core"] == core)
    here = np.flatnonzero(timeline["core"] == core)
    local = np.searchsorted(calls, timeline["call"][here])
    lengths = np.array([len(t) for t in program.templates], np.int64)[program.calls["template"][calls]]
    missing = np.flatnonzero(np.bincount(local, minlength=len(calls)) != lengths)
    end = timeline.makespan_cycles
    if missing.size == 0:
        return (0, end), (end, end)
    head, tail = here[local < missing[0]], here[local > missing[-1]]
    templates = np.unique(program.calls["template"][calls[missing]]).tolist()
    pipes = np.unique(np.concatenate([program.templates[t].columns["pipe"] for t in templates]))
    begins = [int(timeline["start"][tail[timeline["pipe"][tail] == pipe]].min(initial=end)) for pipe in pipes.tolist()]
    return (0, int(timeline["dispatched"][head].max(initial=0))), (max(begins), end)


def cores_with(timeline: Timeline, pipe: Pipe, block_cores: int = 1) -> int:
    """Return how many cores are of a kind that has work for a pipe, given the cores of one block."""
    rows = timeline.totals.rows[:, pipe].reshape(-1, block_cores)
    return max(1, len(rows) * int((rows.sum(axis=0) > 0).sum()))


def last_block(program: Program, timeline: Timeline) -> int:
    """Return the AI Core of a mixed kernel that ends last, or the core of any other.

    Of several that end together it is the AI Core that is busiest, or the first of these, and the core with the highest
    number.
    """
    blocks = program.block_dim
    ends = np.zeros(blocks, np.int64)
    np.maximum.at(ends, timeline["core"] // program.block_cores, timeline["end"])
    if not program.kernel_type.is_mix:
        return int(np.flatnonzero(ends == ends.max())[-1])
    busy = np.delete(timeline.totals.busy_cycles, Pipe.S, axis=1).reshape(blocks, -1).sum(axis=1)
    return max(range(blocks), key=lambda block: (int(ends[block]), int(busy[block]), -block))


def utilisation(timeline: Timeline, block_cores: int = 1) -> tuple[Ints, dict[Pipe, Ints]]:
    """Share of time in which each pipe with work was busy, bin by bin, and the bins' edges; S left out.

    The time is that of all cores, in a mixed kernel of those of a kind that has work for the pipe (`cores_with`).
    """
    totals, end = timeline.totals, timeline.makespan_cycles
    cuts = np.append(np.arange(0, end, totals.bin_cycles), end)
    spans = np.diff(cuts)
    pipes = [Pipe(p) for p in np.flatnonzero(totals.rows.sum(axis=0)).tolist() if p != Pipe.S]
    bins = totals.busy_bins[:, : len(spans)]
    return cuts, {pipe: bins[pipe] / (spans * cores_with(timeline, pipe, block_cores)) for pipe in pipes}


def causes(program: Program, timeline: Timeline) -> tuple[Cause, ...]:
    """Waiting by pipe, kind, name and source line, most cycles first."""
    rows, totals = TemplateRows(program), timeline.totals
    kinds = template_kinds(program)
    cycles: Counter[tuple[Pipe, Wait, str, str]] = Counter()
    counts: Counter[tuple[Pipe, Wait, str, str]] = Counter()
    on: dict[tuple[Pipe, Wait, str, str], set[CoreKind]] = defaultdict(set)
    for wait in (*STALLS, Wait.QUEUE_FULL):
        for index in np.flatnonzero(totals.wait_cycles[:, wait]).tolist():
            row = rows.row(index)
            if wait == Wait.QUEUE_FULL:
                pipe, name = Pipe.S, row.pipe.name
            else:
                pipe, name = row.pipe, waited_name(program, rows.template(index), row, wait)
            key = (pipe, wait, name, rows.line(index))
            cycles[key] += int(totals.wait_cycles[index, wait])
            counts[key] += int(totals.wait_count[index, wait])
            on[key] |= kinds[rows.number(index)]
    ordered = sorted(cycles, key=lambda k: (-cycles[k], k[0], k[1], k[2], k[3]))
    return tuple(
        Cause(*key, count=counts[key], cycles=cycles[key], kind=next(iter(on[key])) if len(on[key]) == 1 else None)
        for key in ordered
    )


def template_kinds(program: Program) -> list[set[CoreKind]]:
    """Return the kinds of cores that call each template; nothing where all cores are of one kind."""
    found: list[set[CoreKind]] = [set() for _ in program.templates]
    if program.kernel_type.is_mix:
        places = program.calls["core"] % program.block_cores
        for template, place in np.unique(np.stack([program.calls["template"], places]), axis=1).T.tolist():
            found[template].add(program.core_kind(place))
    return found


def waited_name(program: Program, template: Template, row: Row, wait: Wait) -> str:
    """The queue of a flag (pair and step if it is a kernel's own), the tensor of a transfer, the step of a barrier.

    A flag of other cores is called by its id and mode, a unit flag by the tensor in L0C.
    """
    if wait in (Wait.BANDWIDTH, Wait.UNIT_FLAG):
        refs, place = template.tensors, Buffer.GM if wait is Wait.BANDWIDTH else Buffer.L0C
        return next((refs[o.tensor].name for _, o in row.operands if refs[o.tensor].buffer is place), row.op.api)
    if row.que >= 0:
        return program.ques[row.que].name
    step = program.steps[row.step]
    if is_cross_flag(row):
        return cross_flag_name(row)
    if row.op.name == "wait_flag":
        return " ".join(part for part in (HardEvent(row.param("event")).name, step and f"in {step}") if part)
    return step or row.op.api


def cross_flag_name(row: Row) -> str:
    """Return what a flag of other cores is called; SyncAll of all cores has a mode of its own."""
    mode = CrossMode(row.param("mode"))
    of = "SyncAll" if mode is CrossMode.ALL else f"mode {mode.value}"
    return f"flag {row.param('flag_id')} of {of}"


def step_cycles(program: Program, timeline: Timeline) -> dict[str, int]:
    """Cycles of each marked step, over all cores. A row counts until the next on its pipe starts, or it is complete."""
    if not program.templates:
        return {}
    steps, spent = TemplateRows(program).column("step"), timeline.totals.spent_cycles
    totals = [int(spent[steps == i].sum()) for i in range(len(program.steps))]
    return {name: totals[i] for i, name in enumerate(program.steps) if name and totals[i]}


def bytes_moved(program: Program) -> dict[str, int]:
    """Bytes from and to each GM tensor, as "name read" and "name written"."""
    moved: dict[str, int] = defaultdict(int)
    for number, template in enumerate(program.templates):
        of_slot: Counter[tuple[int, str]] = Counter()
        for _, slot, way, count in gm_moves(template):
            of_slot[slot, way] += count
        for (slot, way), count in of_slot.items():
            for tensor, times in tensors_of_slot(program, number, slot):
                moved[f"{tensor} {way}"] += count * times
    return dict(sorted(moved.items()))


def gm_moves(template: Template) -> Iterator[tuple[int, int, str, int]]:
    """Yield (row, slot, "read" or "written", bytes) of every transfer of a template from and to GM."""
    for at, row in enumerate(template.rows):
        if row.op.cost != "transfer":
            continue
        count, length, _, _ = burst_geometry(row)
        for role, operand in row.operands:
            ref = template.tensors[operand.tensor]
            if ref.buffer is Buffer.GM:
                yield at, ref.slot, "read" if role == "src0" else "written", count * length


def tensors_of_slot(program: Program, template: int, slot: int) -> Iterator[tuple[str, int]]:
    """Yield (GM tensor, calls) of what the calls of a template put into a slot."""
    tensors = program.slot_tensor[program.slots_of(template, slot)]
    for tensor, calls in zip(*np.unique(tensors, return_counts=True), strict=True):
        yield program.gm[int(tensor)].name, int(calls)


def peak_bytes(program: Program) -> dict[Buffer, int]:
    """Highest byte that queues, buffers, explicit tensors or touched framework temp reach, plus one, of each memory.

    Memories that nothing lies in are left out, but UB where there are vector units.
    """
    peaks = dict(program.high_water_bytes)
    if CoreKind.AIC not in program.kernel_type.kinds or program.kernel_type.is_mix:
        peaks.setdefault(Buffer.UB, 0)
    for template in program.templates:
        for buffer, end_bytes in _reached(template).items():
            peaks[buffer] = max(peaks.get(buffer, 0), end_bytes)
    return {buffer: peaks[buffer] for buffer in sorted(peaks)}


def _reached(template: Template) -> dict[Buffer, int]:
    """Where what the rows of a template touch ends in each on-chip memory."""

    def find() -> dict[Buffer, int]:
        ends: dict[Buffer, int] = {}
        for t in chain.from_iterable(template.touched):
            ref = template.tensors[t.tensor]
            if ref.buffer is not Buffer.GM and ref.name != RESERVED_TMP:
                ends[ref.buffer] = max(ends.get(ref.buffer, 0), ref.address_bytes + t.end)
        return ends

    return template.kept("reached", None, find)


def peak_ub_bytes(program: Program) -> int:
    """Return `peak_bytes` of UB, 0 where nothing lies in it."""
    return peak_bytes(program).get(Buffer.UB, 0)


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

    Flags of other cores count, and are left out.
    """
    rows, totals = TemplateRows(program), timeline.totals
    found: dict[tuple[int, int, str], list[int]] = {}
    for index in np.flatnonzero(totals.double_sets).tolist():
        row = rows.row(index)
        if is_cross_flag(row):
            continue
        name = program.ques[row.que].name if row.que >= 0 else ""
        found.setdefault((row.param("event"), row.param("event_id"), name), []).append(index)
    return tuple(
        DoubleSet(
            HardEvent(event).name, event_id, que,
            rows.line(min(indices, key=lambda i: int(totals.first_double[i]))),
            sum(int(totals.double_sets[i]) for i in indices),
        )
        for (event, event_id, que), indices in sorted(found.items())
    )  # fmt: skip


def _reaches(row: Row) -> tuple[tuple[int, int], ...]:
    """(tensor of the template, end of what the row touches of it), a pair for each operand."""
    operands = dict(row.operands)
    return tuple((operands[role].tensor, operands[role].offset_bytes + end) for role, _, end in row.touched)


class _OpenLife:
    """A life that is still going on."""

    def __init__(self, ref: TensorRef, tile: int) -> None:
        self.ref = ref
        self.tile = tile
        self.start = -1
        self.end = -1
        self.pipe = Pipe.S
        self.call = -1
        self.reach = 0

    def see(self, start: int, end: int, pipe: Pipe, call: int, reach: int) -> None:
        """Take accesses in: their earliest start, latest end, and the last one's pipe and call."""
        self.reach = max(self.reach, reach)
        self.start = start if self.start < 0 else min(self.start, start)
        self.end = max(self.end, end)
        self.pipe, self.call = pipe, call

    def life(self, core: int) -> Life:
        """The finished life."""
        ref = self.ref
        return Life(
            core, ref.name, ref.position, ref.address_bytes, self.reach, self.start, self.end, self.tile, ref.buffer
        )


@dataclass(frozen=True, slots=True)
class _Turn:
    """Accesses of a template to one allocation on chip, none of which starts a life anew but perhaps the first.

    Attributes:
        first_pipe, first_is_dst: of the first access.
        last_pipe: of the last access.
        reach: bytes of it that count as in use.
        rows: rows of the template that access it, ascending.
        of: how many rows the template has.
    """

    ref: TensorRef
    first_pipe: Pipe
    first_is_dst: bool
    last_pipe: Pipe
    reach: int
    rows: Ints
    of: int

    def seen(self, row: Ints, start: Ints, end: Ints) -> tuple[int, int] | None:
        """Earliest start and latest end in a call of which these rows are kept."""
        at = self.rows
        if len(row) != self.of:
            at = np.flatnonzero(np.isin(row, at))
            if at.size == 0:
                return None
        return int(start[at].min()), int(end[at].max())

    def starts_anew(self, known: _OpenLife, call: int) -> bool:
        """Whether the first access begins another life of the allocation."""
        return _starts_anew(self.ref, (known.pipe, known.call), (self.first_pipe, call), self.first_is_dst)


def _turns(template: Template) -> tuple[_Turn, ...]:
    """What a template does on chip, by allocation and life, in the order of the first accesses."""
    found: list[_Turn] = []
    rows: list[dict[int, None]] = []
    latest: dict[_Place, int] = {}
    for number, row in enumerate(template.rows):
        for ref, is_dst, reach in _local_accesses(row, template.tensors):
            at = latest.get(_place(ref), -1)
            if at < 0 or _starts_anew(ref, (found[at].last_pipe, 0), (row.pipe, 0), is_dst):
                at = latest[_place(ref)] = len(found)
                found.append(_Turn(ref, row.pipe, is_dst, row.pipe, 0, np.zeros(0, np.int64), len(template)))
                rows.append({})
            rows[at][number] = None
            found[at] = replace(found[at], last_pipe=row.pipe, reach=max(found[at].reach, reach))
    return tuple(replace(turn, rows=np.array(list(its))) for turn, its in zip(found, rows, strict=True))


_Place = tuple[Buffer, str, int]
"""An allocation: its memory, name and address."""


def _place(ref: TensorRef) -> _Place:
    return ref.buffer, ref.name, ref.address_bytes


def _local_accesses(row: Row, refs: tuple[TensorRef, ...]) -> Iterator[tuple[TensorRef, bool, int]]:
    """(allocation, whether it is only written, bytes of it that count as in use) of each operand on chip."""
    for role, operand in row.operands:
        ref = refs[operand.tensor]
        if ref.buffer is not Buffer.GM:
            is_taken = ref.name != FRAMEWORK_TMP
            reach = ref.tensor_bytes if is_taken else max(end for t, end in _reaches(row) if t == operand.tensor)
            yield ref, role.startswith("dst") and not row.op.reads_dst, reach


_EMPTIED_BY = {
    "VECOUT": (Pipe.MTE3,),
    "A1": (Pipe.MTE1,),
    "B1": (Pipe.MTE1,),
    "C1": (Pipe.MTE1, Pipe.FIX),
    "A2": (Pipe.M,),
    "B2": (Pipe.M,),
    "C2": (Pipe.M,),
    "CO1": (Pipe.FIX,),
}
"""Pipes that take what lies on a position, as queues on it have it."""


def _starts_anew(ref: TensorRef, before: tuple[Pipe, int], now: tuple[Pipe, int], is_dst: bool) -> bool:
    """Whether an access begins another life, given pipe and call of the access before and of this one."""
    if ref.position == "VECIN":
        return is_dst and now[0] is Pipe.MTE2 and before[0] is not Pipe.MTE2
    if ref.position in _EMPTIED_BY:
        return is_dst and before[0] in _EMPTIED_BY[ref.position]
    return now[1] != before[1]


class Lives:
    """The lives of every core; what a template accesses is looked up once."""

    def __init__(self, program: Program, timeline: Timeline) -> None:
        self._program = program
        self._timeline = timeline
        self._order = np.argsort(timeline["core"], kind="stable")
        self._bounds = np.searchsorted(timeline["core"][self._order], np.arange(program.core_count + 1))
        self._turns: dict[int, tuple[_Turn, ...]] = {}

    def of(self, core: int) -> tuple[Life, ...]:
        """Return the lives of one core, see `lives`."""
        here = self._order[self._bounds[core] : self._bounds[core + 1]]
        if not self._timeline.is_whole:
            order = np.flatnonzero(self._program.calls["core"] == core)
            call = np.searchsorted(order, self._timeline["call"][here])
            return tuple(
                life
                for part in np.split(here, np.flatnonzero(np.diff(call) > 1) + 1)
                for life in self._part(core, part)
            )
        return self._part(core, here)

    def _part(self, core: int, here: Ints) -> tuple[Life, ...]:
        """The lives of rows of one core between which none is missing."""
        t = self._timeline
        call, row, start, end = (t[name][here] for name in ("call", "row", "start", "end"))
        cuts = np.flatnonzero(np.diff(call, prepend=-1, append=-1)).tolist()
        open_lives: dict[_Place, _OpenLife] = {}
        done: list[Life] = []
        for first, last in pairwise(cuts):
            number = int(call[first])
            tile, times = (
                int(self._program.calls["tile"][number]),
                (row[first:last], start[first:last], end[first:last]),
            )
            for turn in self._turns_of(int(self._program.calls["template"][number])):
                seen = turn.seen(*times)
                if seen is None:
                    continue
                key = _place(turn.ref)
                opens, closes = seen
                known = open_lives.get(key)
                if known is None or turn.starts_anew(known, number):
                    if known is not None:
                        # The last accesses may still be draining when the next ones begin: bytes are counted once.
                        known.end = min(known.end, max(known.start, opens))
                        opens, closes = max(opens, known.end), max(closes, known.end)
                        done.append(known.life(core))
                    known = open_lives[key] = _OpenLife(turn.ref, tile)
                known.see(opens, closes, turn.last_pipe, number, turn.reach)
        done += [life.life(core) for life in open_lives.values()]
        return tuple(sorted(done, key=lambda life: (life.start, life.buffer, life.address_bytes)))

    def _turns_of(self, template: int) -> tuple[_Turn, ...]:
        if template not in self._turns:
            self._turns[template] = _turns(self._program.templates[template])
        return self._turns[template]


def lives(program: Program, timeline: Timeline, core: int) -> tuple[Life, ...]:
    """Who lives where on one core, by time. A queue buffer's life restarts when its producer fills it anew.

    Where rows were not kept, lives end, and begin again behind the gap.
    """
    return Lives(program, timeline).of(core)


def occupancy(found: Sequence[Life]) -> tuple[Ints, Ints]:
    """Bytes of one memory in use over time, given its lives: (cycles at which it changes, bytes from there on)."""
    events: Counter[int] = Counter()
    for life in found:
        events[life.start] += life.allocation_bytes
        events[life.end] -= life.allocation_bytes
    at = np.array(sorted(events), np.int64)
    return at, np.cumsum([events[int(c)] for c in at])
