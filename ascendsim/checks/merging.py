"""Advice on vector calls: which could be one, which end inside a repeat, which reduction is the dearer one."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from ascendsim.banks import address_of
from ascendsim.checks.sums import Notes, Words, holds_on, place_of
from ascendsim.cost import vector_cost
from ascendsim.device import Device, VectorCost
from ascendsim.errors import Finding, Rule
from ascendsim.isa.instruction import Row, TensorRef
from ascendsim.isa.lanes import active_lanes, ends_partial, lanes_of, repeats_of
from ascendsim.library import is_library
from ascendsim.program import Program, Template
from ascendsim.terms import DATABLOCK_BYTES, MAX_REPEAT_TIMES, MaskMode, Pipe, ReduceOrder

SHORT = Rule(
    "W-VEC-SHORT",
    "{api} is called {got} times one behind the other with {repeats} repeats each, against a head of about {head} "
    "cycles a call; one call can do it ({issued} calls in all)",
    "merge the calls",
    "asc-devkit, bank_conflict_ub example",
    condition="Four or more calls of one vector instruction follow one another, have fewer repeats than the cycles of "
    "their start-up and drain, and lie so that one call with a repeat stride does the same.",
    archs=(2201,),
)
TAIL = Rule(
    "W-VEC-TAIL",
    "{api} works on {got} elements, no multiple of the {wanted} of a repeat: {cycles} cycles over all cores for "
    "partial last repeats",
    "pad to whole repeats",
    "pto-isa cost model, formula_params",
    condition="Every call of the count form of a vector instruction at a kernel line covers more than one repeat and "
    "ends inside one, and this costs at least 5 % of the call by the device's table.",
    archs=(2201,),
)
REDUCE = Rule(
    "W-RED-WHOLE",
    "{api} reduces {repeats} repeats and then its own results; {block} first would leave {got} values, one repeat for "
    "the second call, and save {cycles} cycles over all cores",
    "reduce to datablocks first, then once over the whole repeat",
    "asc-devkit docs, performance guide (13 us against 8.44 us for 256 floats, 100 times)",
    condition="A whole-repeat reduction works on the results of another, where a datablock reduction in front leaves "
    "no more than one repeat and is faster by the device's table.",
    archs=(2201,),
)
SCALAR = Rule(
    "W-SCALAR",
    "{api} is issued {got} times in one tile from one kernel line, at a constant distance; the queue of the pipe holds "
    "{wanted} ({issued} calls in all)",
    "one call with a repeat stride instead of a loop",
    "asc-devkit, constraints page 2201",
    condition="A kernel line issues one vector instruction, or a scalar access, at least as often in one template as "
    "the queue of the vector pipe has places, at a constant distance between operands.",
)
SCALAR_UNIT = SCALAR.saying(
    "{api} is executed {got} times in one tile from one kernel line, each by the scalar unit, which meanwhile issues "
    "nothing ({issued} times in all)",
    "use a vector instruction (a reduction, Brcb, Gather), or read fewer values",
)
RULES = (SHORT, TAIL, REDUCE, SCALAR)

FEWEST_CALLS = 4
"""Calls that are worth merging; ours: fewer save less than a dozen cycles."""
TAIL_SHARE = 0.05
"""Share of a call that its partial repeat has to cost; ours."""


def vector_advice(program: Program, device: Device) -> Iterator[Finding]:
    """W-VEC-SHORT, W-VEC-TAIL, W-RED-WHOLE and W-SCALAR. What a library call does inside is its own matter."""
    notes = Notes()
    calls = np.bincount(program.calls["template"], minlength=len(program.templates)).tolist()
    whole = {row.line for template in program.templates for row in template.rows if _is_whole(row)}
    for template, times in zip(program.templates, calls, strict=True):
        rows = [row for row in template.rows if not is_library(program.lines[row.line])]
        merged = _note_runs(program, rows, times, device, notes)
        _note_loops(program, rows, times, device, notes, merged)
        _note_tails(program, [row for row in rows if row.line not in whole], times, device, notes)
        _note_reductions(program, template, rows, times, device, notes)
    yield from notes.findings()


def _same(words: Words) -> Words:
    """Give words that are made already."""
    return words


# ---- calls that could be one --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shape:
    """What calls must have in common to be one call."""

    line: int
    op: int
    params: tuple[int, ...]
    mask: tuple[int, int, int]
    scalar_bits: int
    tensors: tuple[int, ...]


def _shape(row: Row) -> _Shape:
    mask = (int(row.mask_mode), row.mask_hi, row.mask_lo)
    tensors = tuple(o.tensor for _, o in row.operands)
    return _Shape(row.line, row.op.opcode, row.params, mask, row.scalar_bits, tensors)


def _is_strided(row: Row) -> bool:
    """Whether every operand has a block and a repeat stride in datablocks, and the call no scalar known later."""
    return (
        row.pipe is Pipe.V
        and row.op.cost == "vector"
        and row.op.uses_mask
        and not (row.op.api == "Copy" and row.mask_mode is MaskMode.COUNTER)  # there the mask counts each repeat's
        and row.register < 0
        and row.dst is not None
        and not row.op.reads_dst
        and all(f"{r}_blk_stride" in row.op.params and f"{r}_rep_stride" in row.op.params for r, _ in row.operands)
    )


def _steps(a: Row, b: Row) -> tuple[int, ...]:
    """Bytes from each operand of a call to that of the next."""
    pairs = zip(a.operands, b.operands, strict=True)
    return tuple(later.offset_bytes - earlier.offset_bytes for (_, earlier), (_, later) in pairs)


def _can_follow(row: Row, steps: tuple[int, ...]) -> bool:
    """Whether calls at these distances are further repeats of the first."""
    lanes = lanes_of(row)
    repeats = repeats_of(row, lanes)
    if any(s < 0 or s % DATABLOCK_BYTES or s // DATABLOCK_BYTES > MAX_REPEAT_TIMES * repeats for s in steps):
        return False
    if dict(zip((r for r, _ in row.operands), steps, strict=True))["dst"] == 0:
        return False
    if repeats == 1:
        return True
    if row.mask_mode is MaskMode.COUNTER and ends_partial(row, lanes):
        return False
    ways = [row.param(f"{role}_rep_stride") for role, _ in row.operands]
    return all(s == repeats * way * DATABLOCK_BYTES for s, way in zip(steps, ways, strict=True))


def _progressions(rows: list[Row]) -> Iterator[list[Row]]:
    """Longest stretches of calls of one shape at constant distances, each row in one stretch."""
    run: list[Row] = []
    steps: tuple[int, ...] | None = None
    for row in rows:
        if run:
            now = _steps(run[-1], row)
            if steps in (None, now) and _can_follow(row, now):
                run.append(row)
                steps = now
                continue
            yield run
        run, steps = [row], None
    if run:
        yield run


def _note_runs(program: Program, rows: list[Row], calls: int, device: Device, notes: Notes) -> set[_Shape]:
    """Note calls behind one another, with nothing but mask set-up between them; return the shapes that were noted."""
    noted = set()
    for same in _neighbours(rows):
        for run in _progressions(same):
            row = run[0]
            cost, repeats = vector_cost(row, device), repeats_of(row, lanes_of(row))
            head = cost.startup + cost.drain
            if len(run) < FEWEST_CALLS or repeats == 0 or repeats >= head or not holds_on(SHORT, device):
                continue
            noted.add(_shape(row))
            fill: dict[str, object] = {"api": row.op.api, "repeats": repeats, "head": head}
            words = Words(len(run), 1, _merge_hint(run, repeats, lanes_of(row)), fill)
            notes.add(SHORT, place_of(program, row), "", calls, partial(_same, words), issued=len(run))
    return noted


def _neighbours(rows: list[Row]) -> Iterator[list[Row]]:
    """Stretches of strided calls of one shape that follow one another; mask set-up does not part them."""
    run: list[Row] = []
    for row in rows:
        if row.op.family == "mask":
            continue
        if run and _is_strided(row) and _shape(row) == _shape(run[0]):
            run.append(row)
            continue
        if len(run) > 1:
            yield run
        run = [row] if _is_strided(row) else []
    if len(run) > 1:
        yield run


def _merge_hint(run: list[Row], repeats: int, lanes: int) -> str:
    """How the one call looks."""
    total = len(run) * repeats
    steps = _steps(run[0], run[1])
    ways = [f"{role} {s // DATABLOCK_BYTES // repeats}" for (role, _), s in zip(run[0].operands, steps, strict=True)]
    mask = run[0].mask_lo if run[0].mask_mode is MaskMode.COUNTER and repeats == 1 else None
    with_mask = f" with mask {min(mask, lanes)}" if mask is not None else ""
    parts = f", at most {MAX_REPEAT_TIMES} in one" if total > MAX_REPEAT_TIMES else ""
    return f"one call of {total} repeats{with_mask}{parts}, repeat strides {', '.join(ways)}"


def _note_loops(
    program: Program, rows: list[Row], calls: int, device: Device, notes: Notes, merged: set[_Shape]
) -> None:
    """Note loops that issue as much from one line as the queue holds, other instructions in between."""
    depth = device.scalar.depth(Pipe.V)
    loops: dict[_Shape, list[Row]] = defaultdict(list)
    scalars: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in rows:
        if _is_strided(row):
            loops[_shape(row)].append(row)
        elif row.op.family == "get_value":
            scalars[row.line, row.op.api].append(row)
    for shape, same in loops.items():
        longest = max((len(run) for run in _progressions(same)), default=0)
        if longest >= depth and shape not in merged:
            words = Words(longest, depth, "", {"api": same[0].op.api})
            notes.add(SCALAR, place_of(program, same[0]), "", calls, partial(_same, words), issued=longest)
    for same in scalars.values():
        if len(same) >= depth:
            words = Words(len(same), depth, "", {"api": same[0].op.api})
            notes.add(SCALAR_UNIT, place_of(program, same[0]), "", calls, partial(_same, words), issued=len(same))


# ---- the end of a call --------------------------------------------------------------------------------------------


def _is_whole(row: Row) -> bool:
    """Whether a count form ends with a whole repeat: then a partial one at the same line is the tail of the data."""
    return _is_strided(row) and row.mask_mode is MaskMode.COUNTER and not ends_partial(row, lanes_of(row))


def _note_tails(program: Program, rows: list[Row], calls: int, device: Device, notes: Notes) -> None:
    if not holds_on(TAIL, device):
        return
    for row in rows:
        if not (_is_strided(row) and row.mask_mode is MaskMode.COUNTER):
            continue
        lanes = lanes_of(row)
        repeats, cost = repeats_of(row, lanes), vector_cost(row, device)
        if repeats < 2 or not ends_partial(row, lanes):
            continue
        if cost.partial_repeat >= TAIL_SHARE * (cost.partial_repeat + _cycles(cost, repeats)):
            hint = f"work on {repeats * lanes} elements, the rest being padding"
            words = Words(row.mask_lo, lanes, hint, {"api": row.op.api})
            notes.add(TAIL, place_of(program, row), "", calls, partial(_same, words), cycles=cost.partial_repeat)


def _cycles(cost: VectorCost, repeats: int) -> float:
    """Cycles that a call holds the pipe."""
    return max(cost.min_issue, cost.per_repeat * repeats)


# ---- reductions ---------------------------------------------------------------------------------------------------


def _note_reductions(
    program: Program, template: Template, rows: list[Row], calls: int, device: Device, notes: Notes
) -> None:
    if not holds_on(REDUCE, device):
        return
    compute = [row for row in rows if row.pipe is Pipe.V and row.op.cost == "vector"]
    for first, second in pairwise(compute):
        saved = _saved(first, second, template.tensors, device)
        if saved > 0:
            block = first.op.family.replace("Whole", "Block")
            repeats = repeats_of(first, lanes_of(first))
            words = Words(8 * repeats, block, "", {"api": first.op.api, "block": block, "repeats": repeats})
            notes.add(REDUCE, place_of(program, first), "", calls, partial(_same, words), cycles=saved)


def _saved(first: Row, second: Row, tensors: tuple[TensorRef, ...], device: Device) -> float:
    """Cycles that a datablock reduction would save in place of the first of two; 0 where it would not do the same.

    Results of the first have to lie side by side, and the second has to read just those.
    """
    family = first.op.family
    block = device.vector.get(family.replace("Whole", "Block"), {})
    if not family.startswith("WholeReduce") or second.op is not first.op or first.src0 is None or second.src0 is None:
        return 0
    if "order" in first.op.params and first.param("order") != ReduceOrder.ORDER_ONLY_VALUE:
        return 0
    assert first.dst is not None
    lanes, key = lanes_of(first), first.src0.dtype.name
    repeats = repeats_of(first, lanes)
    if key not in block or address_of(first.dst, tensors) != address_of(second.src0, tensors):
        return 0
    if not 1 < repeats <= lanes // 8 or first.param("dst_rep_stride") != 1 or ends_partial(first, lanes):
        return 0
    if repeats_of(second, lanes) != 1 or _width(second, lanes) != repeats:
        return 0
    whole, blocks = vector_cost(first, device), block[key]
    return _cycles(whole, repeats) + whole.drain - _cycles(blocks, repeats) - blocks.drain


def _width(row: Row, lanes: int) -> int:
    """Elements of a call of one repeat."""
    return row.mask_lo if row.mask_mode is MaskMode.COUNTER else len(active_lanes(row.mask_hi, row.mask_lo, lanes))
