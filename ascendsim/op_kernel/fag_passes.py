"""The passes around the main one of FlashAttention backward on vector cores: zeros, row term, and the gradients' types.

Source: ops-transformer op_kernel, flash_attention_score_grad pre, row-term and post pass. Inferred: the zeros come from
a buffer as large as the pre pass's last; the post pass gives each core steps that follow one another.
"""

from dataclasses import dataclass

from ascendsim.dtypes import FLOAT, HALF, UINT8
from ascendsim.isa.forms import BinaryRepeatParams
from ascendsim.isa.move import DataCopyExtParams, DataCopyPadExtParams, DataCopyParams
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_host.fag_kernel_tiling import KernelTiling
from ascendsim.op_host.fag_parts import BITS, Rows, nz_sum_at
from ascendsim.op_host.fag_passes import NZ_BUFFERS
from ascendsim.op_host.fag_result import PrePass
from ascendsim.op_host.fag_same_ab import RowTermUb, SameAbTiling
from ascendsim.op_host.fag_tiling_same_ab import NZ_SPARE
from ascendsim.op_host.softmax import soft_max_grad_tiling_func
from ascendsim.op_kernel.attention import pass_on
from ascendsim.op_kernel.fag_tiles import NZ_BLOCKS, nz_to_rows
from ascendsim.op_kernel.softmax_grad import softmax_grad_front
from ascendsim.op_kernel.softmax_grad_call import LANES, ROW_GROUP
from ascendsim.record import AiCore, tile
from ascendsim.terms import CUBE_SIDE, DATABLOCK_BYTES, HardEvent, Pipe, RoundMode, SelMode, align_up, ceil_div
from ascendsim.tpipe import TBuf

ROW_SUMS = 2
"""Base buffers that hold the floats of one base buffer of results."""
NZ_SETS = 2
"""Sets of buffers of the post pass with sums in NZ: its ten are two of what one step needs (inferred)."""
ID = 0
"""Event id of all flags."""


# ---- zeros -----------------------------------------------------------------------------------------------------------


def zero_sums(asc: AiCore, workspace: GlobalTensor, ub: TBuf, t: SameAbTiling) -> None:
    """Fill this core's part of the sums of dQ, dK and dV with zeros."""
    zero(asc, (workspace[t.areas.dq], workspace[t.areas.dk], workspace[t.areas.dv]), t.sum_counts, ub, t.pre)


def zero(
    asc: AiCore,
    sums: tuple[GlobalTensor, GlobalTensor, GlobalTensor],
    counts: tuple[int, int, int],
    ub: TBuf,
    passed: PrePass,
) -> None:
    """Fill this core's part of the sums of dQ, dK and dV with zeros.

    Args:
        asc: the core.
        sums: where those of dQ, dK and dV begin.
        counts: their elements.
        ub: from its start on taken over.
        passed: the pre pass.
    """
    core = asc.get_block_idx()
    if core >= passed.cores:
        return
    buffer = passed.out_bytes // FLOAT.bytes
    parts = passed.dq_elements, passed.dk_elements, passed.dv_elements
    with asc.trace("zero"):
        _fill_zeros(asc, ub, buffer)
        for dst, count, part in zip(sums, counts, parts, strict=True):
            end = min(count, (core + 1) * part)
            for at in range(core * part, end, buffer):
                _store_zeros(asc, dst[at], ub, min(buffer, end - at))


@tile
def _fill_zeros(asc: AiCore, ub: TBuf, count: int) -> None:
    asc.duplicate(ub.get_with_offset(FLOAT, count, 0), 0.0, count)
    asc.set_flag(HardEvent.V_MTE3, ID)
    asc.wait_flag(HardEvent.V_MTE3, ID)


@tile
def _store_zeros(asc: AiCore, dst: GlobalTensor, ub: TBuf, count: int) -> None:
    zeros = ub.get_with_offset(FLOAT, count, 0)
    asc.data_copy_pad(dst, zeros, DataCopyExtParams(1, count * FLOAT.bytes, 0, 0))


# ---- dropout mask ----------------------------------------------------------------------------------------------------


def expand_drop_mask(asc: AiCore, dst: GlobalTensor, bits: GlobalTensor, ub: TBuf, passed: PrePass, count: int) -> None:
    """Make a byte, 0 or 1, of each bit of this core's part of the dropout mask ("bool mode").

    Args:
        asc: the core.
        dst: bytes, as many as scores.
        bits: the mask, its lowest bit first.
        ub: from its start on taken over, the pass's buffers and 256 B.
        passed: the pre pass.
        count: scores of all heads and batches.
    """
    first = asc.get_block_idx() * passed.mask_elements
    end = min(count, first + passed.mask_elements)
    starts = range(first, end, passed.mask_step_elements)
    if not starts:
        return
    with asc.trace("expand dropMask"):
        ones = ub.get_with_offset(HALF, HALF.per_repeat, _ones_at(passed))
        asc.duplicate(ones, 1.0, HALF.per_repeat)
        for i, at in enumerate(starts):
            elements = min(passed.mask_step_elements, end - at)
            _expand(asc, dst[at], bits[at // BITS], ub, elements, passed, i == 0, i + 1 == len(starts))


@tile
def _expand(
    asc: AiCore,
    dst: GlobalTensor,
    bits: GlobalTensor,
    ub: TBuf,
    count: int,
    passed: PrePass,
    is_first: bool,
    is_last: bool,
) -> None:
    """One step; one buffer each of bits, halves and bytes."""
    repeats = ceil_div(count, HALF.per_repeat)
    local = ub.get_with_offset(UINT8, repeats * HALF.per_repeat // BITS, 0)
    halves = ub.get_with_offset(HALF, repeats * HALF.per_repeat, passed.in_bytes)
    out = ub.get_with_offset(UINT8, count, passed.in_bytes + passed.cast_bytes)
    ones = ub.get_with_offset(HALF, HALF.per_repeat, _ones_at(passed))
    if not is_first:
        asc.wait_flag(HardEvent.V_MTE2, ID)
    asc.data_copy_pad(local, bits, DataCopyExtParams(1, ceil_div(count, BITS), 0, 0))
    pass_on(asc, HardEvent.MTE2_V, ID)
    spread = BinaryRepeatParams(1, 1, 1, HALF.per_repeat // HALF.per_datablock, 0, 0)
    asc.select(halves, local, ones, 0.0, SelMode.VSEL_TENSOR_SCALAR_MODE, HALF.per_repeat, repeats, spread)
    asc.pipe_barrier(Pipe.V)
    if not is_last:
        asc.set_flag(HardEvent.V_MTE2, ID)
    if not is_first:
        asc.wait_flag(HardEvent.MTE3_V, ID)
    asc.cast(out, halves, RoundMode.CAST_ROUND, count)
    pass_on(asc, HardEvent.V_MTE3, ID)
    asc.data_copy_pad(dst, out, DataCopyExtParams(1, count, 0, 0))
    if not is_last:
        asc.set_flag(HardEvent.MTE3_V, ID)


def _ones_at(passed: PrePass) -> int:
    """Where in UB a repeat of ones lies: behind the pass's buffers (inferred) [bytes]."""
    return passed.in_bytes + passed.cast_bytes + passed.out_bytes


# ---- row term --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows of one head, or of all where heads follow one another.

    Attributes:
        at: where they begin in GM [elements].
        rows: how many.
        into: which row of the step is the first of them.
    """

    at: int
    rows: int
    into: int


def row_terms(
    asc: AiCore, dy: GlobalTensor, out: GlobalTensor, workspace: GlobalTensor, ub: TBuf, t: SameAbTiling
) -> None:
    """D = rowsum(dY * O) of this core's rows, a datablock each, in the order [B, N1, S1] whatever the layout."""
    all_rows = t.out.count // t.out.columns
    first = asc.get_block_idx() * t.row_term.rows_per_core
    end = min(all_rows, first + t.row_term.rows_per_core)
    step = t.row_term.rows_per_step
    starts = range(first, end, step)
    with asc.trace("row term"):
        for i, row in enumerate(starts):
            if i == 0:
                _load_rows(asc, dy, out, row, min(step, end - row), ub, t)
            has_next = i + 1 < len(starts)
            _widen(asc, ub, min(step, end - row), dy.dtype.name, t.row_term_ub, t.out.columns, has_next)
            if has_next:
                _load_rows(asc, dy, out, row + step, min(step, end - row - step), ub, t)
            result = workspace[t.areas.row_term + row * FLOAT.per_datablock]
            _reduce_rows(
                asc, result, ub, min(step, end - row), t.row_term_ub, t.out.columns, i == 0, i + 1 == len(starts)
            )


def _load_rows(
    asc: AiCore, dy: GlobalTensor, out: GlobalTensor, row: int, count: int, ub: TBuf, t: SameAbTiling
) -> None:
    pieces = _pieces(t.out, row, count)
    for i, piece in enumerate(pieces):
        src, is_last = (dy[piece.at], out[piece.at]), i + 1 == len(pieces)
        _load_piece(asc, *src, ub, piece.rows, piece.into, t.out.pitch, t.row_term_ub, t.out.columns, is_last)


def _pieces(rows: Rows, first: int, count: int) -> list[_Piece]:
    """Cut rows, counted in the order [B, N, S], where the next does not follow a pitch further on in GM."""
    if rows.layout == "BNSD":
        return [_Piece(first * rows.columns, count, 0)]
    pieces, at = [], first
    while at < first + count:
        head, s = divmod(at, rows.s)
        b, n = divmod(head, rows.n)
        length = min(rows.s - s, first + count - at)
        pieces.append(_Piece(rows.at(b, n, s), length, at - first))
        at += length
    return pieces


@tile
def _load_piece(
    asc: AiCore,
    dy: GlobalTensor,
    out: GlobalTensor,
    ub: TBuf,
    rows: int,
    into: int,
    pitch: int,
    at: RowTermUb,
    columns: int,
    is_last: bool,
) -> None:
    width = align_up(columns, CUBE_SIDE)
    size = dy.dtype.bytes
    for src, place in ((dy, at.dy), (out, at.out)):
        local = ub.get_with_offset(src.dtype, rows * width, place + into * width * size)
        if pitch == columns == width:
            asc.data_copy(local, src, rows * width)
        else:
            bursts = DataCopyExtParams(rows, columns * size, (pitch - columns) * size, 0)
            asc.data_copy_pad(local, src, bursts, DataCopyPadExtParams(True, 0, width - columns, 0))
    if is_last:
        asc.set_flag(HardEvent.MTE2_V, ID)


@tile
def _widen(asc: AiCore, ub: TBuf, rows: int, element: str, at: RowTermUb, columns: int, has_next: bool) -> None:
    count = rows * align_up(columns, CUBE_SIDE)
    asc.wait_flag(HardEvent.MTE2_V, ID)
    for narrow, wide in ((at.dy, at.wide_dy), (at.out, at.wide_out)):
        src, dst = ub.get_with_offset(element, count, narrow), ub.get_with_offset(FLOAT, count, wide)
        asc.cast(dst, src, RoundMode.CAST_NONE, count)
    asc.pipe_barrier(Pipe.V)
    if has_next:
        pass_on(asc, HardEvent.V_MTE2, ID)


@tile
def _reduce_rows(
    asc: AiCore,
    result: GlobalTensor,
    ub: TBuf,
    rows: int,
    at: RowTermUb,
    columns: int,
    is_first: bool,
    is_last: bool,
) -> None:
    width = align_up(columns, CUBE_SIDE)
    count = rows * FLOAT.per_datablock
    local = ub.get_with_offset(FLOAT, count, at.result)
    dy, out = (ub.get_with_offset(FLOAT, rows * width, place) for place in (at.wide_dy, at.wide_out))
    temp = ub.get_with_offset("uint8_t", at.temp_bytes, at.temp)
    if not is_first:
        asc.wait_flag(HardEvent.MTE3_V, ID)
    asc.duplicate(local, 0.0, count)
    asc.pipe_barrier(Pipe.V)
    tiling = soft_max_grad_tiling_func((rows, width), FLOAT.bytes, at.temp_bytes, True)
    is_basic = rows % ROW_GROUP == 0 and width % LANES == 0
    softmax_grad_front(asc, local, dy, out, temp, tiling, is_basic_block=is_basic)
    asc.set_flag(HardEvent.V_MTE3, ID)
    asc.wait_flag(HardEvent.V_MTE3, ID)
    asc.data_copy(result, local, count)
    if not is_last:
        asc.set_flag(HardEvent.MTE3_V, ID)


# ---- the gradients ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gradient:
    """One gradient: the tensor, its rows, where its sums begin, their number, and the factor (None: as they are)."""

    dst: GlobalTensor
    rows: Rows
    sums_at: int
    sums: int
    factor: float | None


@dataclass(frozen=True, slots=True)
class _Turn:
    """Which of a core's steps one is: its event id, and whether its buffers were used before or will be behind it."""

    event_id: int
    is_reused: bool
    is_used_again: bool


def store_gradients(
    asc: AiCore,
    gradients: tuple[GlobalTensor, GlobalTensor, GlobalTensor],
    workspace: GlobalTensor,
    ub: TBuf,
    t: SameAbTiling,
) -> None:
    """Scale the sums of dQ and dK, round all three to the gradients' type, and store them."""
    dq, dk, dv = gradients
    sums = (
        Gradient(dq, t.query, t.areas.dq, t.sum_counts[0], t.scale),
        Gradient(dk, t.key, t.areas.dk, t.sum_counts[1], t.scale),
        Gradient(dv, t.value, t.areas.dv, t.sum_counts[2], None),
    )
    store_sums(asc, sums, workspace, ub, NZ_SPARE, t)


def store_sums(
    asc: AiCore, gradients: tuple[Gradient, ...], workspace: GlobalTensor, ub: TBuf, nz_spare: int, t: KernelTiling
) -> None:
    """Scale sums, round them to their gradients' type, and store them.

    Args:
        asc: the core.
        gradients: one after another.
        workspace: where the sums are.
        ub: from its start on taken over.
        nz_spare: datablocks that the host's tiling keeps free for each 16 columns where sums lie in NZ.
        t: the tiling.
    """
    with asc.trace("post"):
        if t.tiling.tiles.is_gradient_nz:
            _store_from_nz(asc, gradients, workspace, ub, nz_spare, t)
        else:
            _store_from_rows(asc, gradients, workspace, ub, t)


def _of_core(count: int, core: int, t: KernelTiling) -> range:
    """Return which of so many steps a core takes: as many as the others, one after another."""
    per_core = ceil_div(count, t.post.cores)
    return range(core * per_core, min(count, (core + 1) * per_core))


def _turn(i: int, count: int, sets: int) -> _Turn:
    return _Turn(i % sets, i >= sets, i + sets < count)


def _store_from_rows(
    asc: AiCore, gradients: tuple[Gradient, ...], workspace: GlobalTensor, ub: TBuf, t: KernelTiling
) -> None:
    """Sums lie as the gradient does, so each step takes elements without looking at rows."""
    core, step = asc.get_block_idx(), t.post.step_elements
    steps = [(one, number * step) for one in gradients for number in _of_core(ceil_div(one.sums, step), core, t)]
    for i, (one, at) in enumerate(steps):
        count = min(step, one.sums - at)
        turn = _turn(i, len(steps), 1)
        _round(asc, one.dst[at], workspace[one.sums_at + at], ub, count, one.factor, t.post.buffer_bytes, turn)


@tile
def _round(
    asc: AiCore,
    dst: GlobalTensor,
    sums: GlobalTensor,
    ub: TBuf,
    count: int,
    factor: float | None,
    base_bytes: int,
    turn: _Turn,
) -> None:
    """One step: two base buffers hold the sums (one, where sums are no wider than results), the third the result."""
    wide = ub.get_with_offset(FLOAT, count, 0)
    narrow = ub.get_with_offset(dst.dtype, count, ROW_SUMS * base_bytes)
    if turn.is_reused:
        asc.wait_flag(HardEvent.V_MTE2, turn.event_id)
    asc.data_copy_pad(wide, sums, DataCopyExtParams(1, count * FLOAT.bytes, 0, 0))
    asc.set_flag(HardEvent.MTE2_V, turn.event_id)
    asc.wait_flag(HardEvent.MTE2_V, turn.event_id)
    _scale_and_cast(asc, narrow, wide, count, factor, turn)
    if turn.is_used_again:
        asc.set_flag(HardEvent.V_MTE2, turn.event_id)
    asc.set_flag(HardEvent.V_MTE3, turn.event_id)
    asc.wait_flag(HardEvent.V_MTE3, turn.event_id)
    asc.data_copy_pad(dst, narrow, DataCopyExtParams(1, count * dst.dtype.bytes, 0, 0))
    if turn.is_used_again:
        asc.set_flag(HardEvent.MTE3_V, turn.event_id)


def _scale_and_cast(
    asc: AiCore, narrow: LocalTensor, wide: LocalTensor, count: int, factor: float | None, turn: _Turn
) -> None:
    """Float results take their factor on the way, those of 16 bits before they are rounded."""
    is_wide = narrow.dtype is FLOAT
    if factor is not None and not is_wide:
        asc.muls(wide, wide, factor, count)
        asc.pipe_barrier(Pipe.V)
    if turn.is_reused:
        asc.wait_flag(HardEvent.MTE3_V, turn.event_id)
    if is_wide:
        asc.muls(narrow, wide, 1.0 if factor is None else factor, count)
    else:
        asc.cast(narrow, wide, RoundMode.CAST_ROUND, count)


def _store_from_nz(
    asc: AiCore, gradients: tuple[Gradient, ...], workspace: GlobalTensor, ub: TBuf, nz_spare: int, t: KernelTiling
) -> None:
    """Sums lie in NZ, head by head: a step takes rows of one head."""
    core = asc.get_block_idx()
    width = align_up(t.query.columns, CUBE_SIDE)
    rows = t.post.step_elements // t.query.columns
    spare = width // CUBE_SIDE * nz_spare * DATABLOCK_BYTES
    steps = [(one, number) for one in gradients for number in _of_core(_head_steps(one.rows, rows), core, t)]
    for i, (one, number) in enumerate(steps):
        head, piece = divmod(number, ceil_div(one.rows.s, rows))
        b, n = divmod(head, one.rows.n)
        s = piece * rows
        dst, sums = one.dst[one.rows.at(b, n, s)], workspace[one.sums_at + nz_sum_at(one.rows, b, n, s)]
        shape = _NzStep(min(rows, one.rows.s - s), one.rows.columns, one.rows.s, one.rows.pitch)
        turn = _turn(i, len(steps), NZ_SETS)
        _round_nz(asc, dst, sums, ub, shape, one.factor, t.post.buffer_bytes, spare, turn)


def _head_steps(rows: Rows, step_rows: int) -> int:
    return rows.b * rows.n * ceil_div(rows.s, step_rows)


@dataclass(frozen=True, slots=True)
class _NzStep:
    """Rows of one step, their columns, rows of a head, and from row to row in the gradient."""

    rows: int
    columns: int
    head_rows: int
    pitch: int


@tile
def _round_nz(
    asc: AiCore,
    dst: GlobalTensor,
    sums: GlobalTensor,
    ub: TBuf,
    step: _NzStep,
    factor: float | None,
    base_bytes: int,
    spare_bytes: int,
    turn: _Turn,
) -> None:
    """One step in one of two sets of five base buffers: two for sums in NZ, two in rows, one for the result."""
    width = align_up(step.columns, CUBE_SIDE)
    column, count = step.rows * NZ_BLOCKS, step.rows * width
    begin = turn.event_id * (NZ_BUFFERS // NZ_SETS * base_bytes + spare_bytes)
    in_rows = begin + ROW_SUMS * base_bytes + spare_bytes
    nz = ub.get_with_offset(FLOAT, count + width // CUBE_SIDE * FLOAT.per_datablock, begin)
    wide = ub.get_with_offset(FLOAT, count, in_rows)
    narrow = ub.get_with_offset(dst.dtype, count, in_rows + ROW_SUMS * base_bytes)
    if turn.is_reused:
        asc.wait_flag(HardEvent.V_MTE2, turn.event_id)
    gap = (step.head_rows - step.rows) * NZ_BLOCKS
    asc.data_copy(nz, sums, DataCopyParams(width // CUBE_SIDE, column, gap, 1))
    asc.set_flag(HardEvent.MTE2_V, turn.event_id)
    asc.wait_flag(HardEvent.MTE2_V, turn.event_id)
    nz_to_rows(asc, wide, nz, step.rows, width)
    asc.pipe_barrier(Pipe.V)
    if turn.is_used_again:
        asc.set_flag(HardEvent.V_MTE2, turn.event_id)
    _scale_and_cast(asc, narrow, wide, count, factor, turn)
    asc.set_flag(HardEvent.V_MTE3, turn.event_id)
    asc.wait_flag(HardEvent.V_MTE3, turn.event_id)
    size = dst.dtype.bytes
    between = (step.pitch - step.columns) * size
    asc.data_copy_pad(dst, narrow, DataCopyExtParams(step.rows, step.columns * size, 0, between))
    if turn.is_used_again:
        asc.set_flag(HardEvent.MTE3_V, turn.event_id)
