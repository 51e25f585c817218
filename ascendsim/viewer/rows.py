"""The rows of a timeline and the instructions behind them, as the page takes them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim import analysis
from ascendsim.engine.base import Timeline, Wait
from ascendsim.isa.instruction import Row
from ascendsim.isa.log import called, dtype_text, mnemonic, note, size_text
from ascendsim.isa.move import burst_geometry
from ascendsim.program import Program, Template
from ascendsim.result import RunResult
from ascendsim.terms import Buffer, MaskMode, Pipe
from ascendsim.viewer.columns import Column

Ints = NDArray[Any]

MOST_ROWS = 1_200_000
"""Rows of a page, some ten bytes each; of a run of which more are kept, the first and last of each core."""
PIPES = (Pipe.S, Pipe.MTE2, Pipe.MTE1, Pipe.M, Pipe.FIX, Pipe.V, Pipe.MTE3)
"""From top to bottom."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The rows of a page, ordered by core, pipe and number.

    Attributes:
        at: their positions in the timeline.
        lanes: (core, pipe, how many rows) of each pipe of each core.
        calls: numbers of the calls that have rows here, ascending.
    """

    timeline: Timeline
    at: Ints
    lanes: tuple[tuple[int, int, int], ...]
    calls: Ints

    def column(self, name: str) -> Ints:
        """One column of the timeline in the page's order."""
        return self.timeline[name][self.at].astype(np.int64)


def shown(result: RunResult) -> Shown:
    """Choose and order the rows."""
    t = result.timeline
    at = _chosen(t, result.program.core_count)
    place = np.array([PIPES.index(Pipe(p)) if Pipe(p) in PIPES else len(PIPES) for p in range(max(Pipe) + 1)])
    key = t["core"][at].astype(np.int64) * (len(PIPES) + 1) + place[t["pipe"][at]]
    order = at[np.argsort(key, kind="stable")]
    core, pipe = t["core"][order], t["pipe"][order]
    cuts = np.flatnonzero(np.diff(core, prepend=-1) | np.diff(pipe.astype(np.int64), prepend=-1))
    counts = np.diff(cuts, append=len(order))
    lanes = tuple(zip(core[cuts].tolist(), pipe[cuts].tolist(), counts.tolist(), strict=True))
    return Shown(t, order, lanes, np.unique(t["call"][order]))


def _chosen(timeline: Timeline, cores: int) -> Ints:
    """Positions of the rows that a page has room for."""
    everything = np.arange(len(timeline))
    if len(timeline) <= MOST_ROWS:
        return everything
    order = np.argsort(timeline["core"], kind="stable")
    counts = np.bincount(timeline["core"], minlength=cores)
    place = everything - np.repeat(np.cumsum(counts) - counts, counts)
    from_end = np.repeat(counts, counts) - 1 - place
    return np.sort(order[np.minimum(place, from_end) < MOST_ROWS // (2 * cores)])


def row_columns(result: RunResult, rows: Shown) -> dict[str, Column]:
    """When the rows ran and what they waited for; the first row of a lane counts from cycle 0."""
    t, program = rows.timeline, result.program
    start, occupied, end = (rows.column(name) for name in ("start", "occupied", "end"))
    number = rows.column("number")
    firsts = np.cumsum([0, *(count for _, _, count in rows.lanes)])[:-1].astype(np.int64)
    before = np.concatenate([np.zeros(1, np.int64), occupied[:-1]])[: len(start)]
    before[firsts] = 0
    starts = np.concatenate([[0], np.cumsum([len(x) for x in program.templates], dtype=np.int64)])
    template = program.calls["template"][rows.column("call")]
    partner = np.zeros(len(t), np.int64)
    for wait, by in analysis.flag_pairs(analysis.Rows(program, t)).items():
        partner[wait] = t["number"][wait] - t["number"][by]
    released = rows.column("released_by")
    return {
        "instruction": Column(starts[template] + rows.column("row"), as_steps=True),
        "call": Column(np.searchsorted(rows.calls, rows.column("call")), as_steps=True),
        "gap": Column(start - before),
        "hold": Column(occupied - start),
        "drain": Column(end - occupied),
        "queued": Column(start - rows.column("dispatched")),
        "waited_for": Column(rows.column("waited_for")),
        "wait": Column(rows.column("wait_cycles")),
        "released": Column(np.where(released < 0, 0, number - released)),
        "partner": Column(partner[rows.at]),
        "stretch": Column(rows.column("stretch_cycles")),
        "stuck": Column(rows.column("stuck_cycles")),
        "hit": Column(rows.column("l2_hit")),
    }


def call_columns(program: Program, rows: Shown) -> dict[str, Column]:
    """The calls that have rows here: number of the first row, core, tile, and what lies in their slots."""
    c, calls = program.calls, rows.calls
    lengths = np.array([len(x) for x in program.templates], np.int64)
    slots = np.array([x.slots for x in program.templates], np.int64)
    begins = np.cumsum(lengths[c["template"]]) - lengths[c["template"]]
    counts = slots[c["template"][calls]]
    inside = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    taken = np.repeat(c["slot_start"][calls], counts) + inside
    return {
        "call_first": Column(begins[calls], as_steps=True),
        "call_number": Column(calls, as_steps=True),
        "call_core": Column(c["core"][calls], as_steps=True),
        "call_template": Column(c["template"][calls], as_steps=True),
        "call_tile": Column(c["tile"][calls], as_steps=True),
        "slot_tensor": Column(program.slot_tensor[taken], as_steps=True),
        "slot_base": Column(program.slot_base_bytes[taken], as_steps=True),
    }


# ---- instructions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Instructions:
    """All rows of all templates: a table of what they are, and of the tensors that they name."""

    rows: list[list[Any]]
    ops: list[list[Any]]
    tensors: list[list[Any]]
    templates: list[list[Any]]


def instructions(program: Program) -> Instructions:
    """Return every template's rows: [op, pipe, line, step, size, dtype, note, operands, parameters, bytes].

    An operand is [role, tensor, offset], and behind that the first byte and the end of what is touched of the tensor.
    """
    ops: dict[tuple[Any, ...], int] = {}
    rows: list[list[Any]] = []
    tensors: list[list[Any]] = []
    templates: list[list[Any]] = []
    for template in program.templates:
        templates.append([template.name, len(rows), template.slots])
        rows += list(_of_template(template, len(tensors), ops))
        tensors += [[t.name, t.buffer.name, t.position, t.address_bytes, t.tensor_bytes, t.slot]
                    for t in template.tensors]  # fmt: skip
    return Instructions(rows, [list(op) for op in ops], tensors, templates)


def _of_template(template: Template, first: int, ops: dict[tuple[Any, ...], int]) -> Iterator[list[Any]]:
    for row, touched in zip(template.rows, template.touched, strict=True):
        op = (called(row), mnemonic(row), _kind(row), tuple(row.op.params))
        ranges = {(t.role, t.tensor): (t.first, t.end) for t in touched}
        operands = [
            [role, first + o.tensor, o.offset_bytes, *ranges.get((role, o.tensor), ())] for role, o in row.operands
        ]
        text = "" if op[2] == "work" else note(row, template.tensors)
        yield [
            ops.setdefault(op, len(ops)), int(row.pipe), row.line, row.step, size_text(row), dtype_text(row),
            ", ".join((*_mask(row), *_scalar(row), *((text,) if text else ()))),
            operands, [] if op[2] != "work" else list(row.params), _bytes(row),
        ]  # fmt: skip


def _kind(row: Row) -> str:
    """What the page draws a row as."""
    if row.op.name in ("set_flag", "cross_core_set_flag"):
        return "set"
    if row.op.name in ("wait_flag", "cross_core_wait_flag"):
        return "wait"
    return "barrier" if row.op.name == "pipe_barrier" else "work"


def _bytes(row: Row) -> int:
    """Bytes of a transfer, 0 for anything else."""
    if row.op.cost != "transfer":
        return 0
    count, length, _, _ = burst_geometry(row)
    return count * length


def _mask(row: Row) -> tuple[str, ...]:
    """The mask of a row that uses one."""
    if not row.op.uses_mask:
        return ()
    if row.mask_mode is MaskMode.COUNTER:
        return (f"{row.mask_lo} elements",)
    return (f"mask 0x{row.mask_hi << 64 | row.mask_lo:x}",)


def _scalar(row: Row) -> tuple[str, ...]:
    """The scalar operand: a register, or the bits of a number."""
    if row.register >= 0:
        return (f"register {row.register}",)
    return (f"scalar 0x{row.scalar_bits:x}",) if row.op.takes_scalar else ()


def wait_names(result: RunResult, table: dict[str, Column]) -> list[list[Any]]:
    """What each instruction waited for by name: [instruction, cause, name], for those that did."""
    program, rows_of = result.program, analysis.TemplateRows(result.program)
    causes = table["waited_for"].values
    asked = np.isin(causes, analysis.STALLS) & (table["wait"].values > 0)
    pairs = np.unique(np.stack([table["instruction"].values[asked], causes[asked]]), axis=1).T.tolist()
    return [
        [i, cause, analysis.waited_name(program, rows_of.template(i), rows_of.row(i), Wait(cause))]
        for i, cause in pairs
    ]


def spent(result: RunResult, rows: Sequence[list[Any]]) -> list[list[int]]:
    """Per kernel line that has cycles: [line, cycles at work, cycles waited, times], over all rows of the run."""
    totals = result.timeline.totals
    line = np.array([row[2] for row in rows], np.int64)
    counts = _times(result.program)
    count = len(result.program.lines)
    waits = totals.wait_cycles[:, list(analysis.STALLS)].sum(axis=1)
    sums = [
        np.bincount(line, weights=w, minlength=count).astype(np.int64) for w in (totals.spent_cycles, waits, counts)
    ]
    return [[i, *(int(s[i]) for s in sums)] for i in np.flatnonzero(sums[2]).tolist()]


def _times(program: Program) -> Ints:
    """How often each row of each template comes, over all calls."""
    calls = np.bincount(program.calls["template"], minlength=len(program.templates))
    return np.repeat(calls, [len(x) for x in program.templates])


def buffers(result: RunResult) -> list[list[Any]]:
    """Memories that something lies in: [name, bytes drawn, limits as (name, bytes)]."""
    found = []
    for use in result.memories:
        ub = result.device.ub
        limits = [["capacity", use.capacity_bytes]]
        if use.buffer is Buffer.UB:
            limits = [["safe", ub.safe_bytes.value], ["visible", ub.visible_bytes.value], ["hardware", limits[0][1]]]
        found.append([use.buffer.name, max(use.peak_bytes, use.capacity_bytes), limits])
    return found


def life_columns(result: RunResult, rows: Shown) -> tuple[dict[str, Column], list[list[Any]]]:
    """Who lives where: columns of lives, and the allocations [core, memory, name, position, address, bytes]."""
    lives = analysis.Lives(result.program, result.timeline)
    allocations: dict[tuple[Any, ...], int] = {}
    found: list[tuple[int, int, int, int, int]] = []
    for core in sorted({core for core, _, _ in rows.lanes}):
        for life in lives.of(core):
            key = (core, life.buffer.name, life.name, life.position, life.address_bytes)
            at = allocations.setdefault(key, len(allocations))
            found.append((at, life.start, life.end, life.tile, life.allocation_bytes))
    ordered = np.array(sorted(found), np.int64).reshape(-1, 5)
    names = ("life_of", "life_start", "life_end", "life_tile", "life_bytes")
    columns = {name: Column(ordered[:, i], as_steps=True) for i, name in enumerate(names)}
    return columns, [list(key) for key in allocations]


def path_columns(result: RunResult) -> tuple[dict[str, Column], list[str]]:
    """The critical path, and what its edges are called: [begin, end) of each step, row, core and pipe, -1 for none."""
    steps = result.critical_path
    edges = list(dict.fromkeys(step.edge.words for step in steps))
    at = {words: i for i, words in enumerate(edges)}
    parts = [(s.row, s.begin_cycles, s.end_cycles, s.core, int(s.pipe), at[s.edge.words]) for s in steps]
    names = ("path_row", "path_begin", "path_end", "path_core", "path_pipe", "path_edge")
    table = np.array(parts, np.int64).reshape(-1, len(names))
    return {name: Column(table[:, i], as_steps=True) for i, name in enumerate(names)}, edges
