"""The passes around the main one of FlashAttention backward on vector cores: zeros, row term, and the gradients' types.

Source: ops-transformer op_kernel, flash_attention_score_grad pre, row-term and post pass. Inferred: the zeros come from
a buffer as large as the pre pass's last; the post pass gives each core steps that follow one another.
"""

from dataclasses import dataclass

from ascendsim.dtypes import FLOAT
from ascendsim.isa.move import DataCopyExtParams
from ascendsim.memory import GlobalTensor
from ascendsim.op_host.fag_same_ab import Rows, RowTermUb, SameAbTiling
from ascendsim.op_host.softmax import soft_max_grad_tiling_func
from ascendsim.op_kernel.softmax_grad import softmax_grad_front
from ascendsim.op_kernel.softmax_grad_call import LANES, ROW_GROUP
from ascendsim.record import AiCore, tile
from ascendsim.terms import HardEvent, Pipe, RoundMode, align_up, ceil_div
from ascendsim.tpipe import TBuf

ID = 0
"""Event id of all flags."""


# ---- zeros -----------------------------------------------------------------------------------------------------------


def zero_sums(asc: AiCore, workspace: GlobalTensor, ub: TBuf, t: SameAbTiling) -> None:
    """Fill this core's part of the sums of dQ, dK and dV with zeros."""
    core = asc.get_block_idx()
    if core >= t.pre.cores:
        return
    buffer = t.pre.out_bytes // FLOAT.bytes
    with asc.trace("zero"):
        _fill_zeros(asc, ub, buffer)
        for start, count, part in (
            (t.areas.dq, t.query.count, t.pre.dq_elements),
            (t.areas.dk, t.key.count, t.pre.dk_elements),
            (t.areas.dv, t.value.count, t.pre.dv_elements),
        ):
            end = min(count, (core + 1) * part)
            for at in range(core * part, end, buffer):
                _store_zeros(asc, workspace[start + at], ub, min(buffer, end - at))


@tile
def _fill_zeros(asc: AiCore, ub: TBuf, count: int) -> None:
    asc.duplicate(ub.get_with_offset(FLOAT, count, 0), 0.0, count)
    asc.set_flag(HardEvent.V_MTE3, ID)
    asc.wait_flag(HardEvent.V_MTE3, ID)


@tile
def _store_zeros(asc: AiCore, dst: GlobalTensor, ub: TBuf, count: int) -> None:
    zeros = ub.get_with_offset(FLOAT, count, 0)
    asc.data_copy_pad(dst, zeros, DataCopyExtParams(1, count * FLOAT.bytes, 0, 0))


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
            _widen(asc, ub, min(step, end - row), dy.dtype.name, t.row_term_ub, t.out.columns)
            if i + 1 < len(starts):
                asc.set_flag(HardEvent.V_MTE2, ID)
                asc.wait_flag(HardEvent.V_MTE2, ID)
                _load_rows(asc, dy, out, row + step, min(step, end - row - step), ub, t)
            result = workspace[t.areas.row_term + row * FLOAT.per_datablock]
            _reduce_rows(
                asc, result, ub, min(step, end - row), t.row_term_ub, t.out.columns, i == 0, i + 1 == len(starts)
            )


def _load_rows(
    asc: AiCore, dy: GlobalTensor, out: GlobalTensor, row: int, count: int, ub: TBuf, t: SameAbTiling
) -> None:
    for piece in _pieces(t.out, row, count):
        _load_piece(
            asc, dy[piece.at], out[piece.at], ub, piece.rows, piece.into, t.out.pitch, t.row_term_ub, t.out.columns
        )
    asc.set_flag(HardEvent.MTE2_V, ID)


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
) -> None:
    width = align_up(columns, dy.dtype.per_datablock)
    size = dy.dtype.bytes
    for src, place in ((dy, at.dy), (out, at.out)):
        local = ub.get_with_offset(src.dtype, rows * width, place + into * width * size)
        if pitch == columns == width:
            asc.data_copy(local, src, rows * width)
        else:
            asc.data_copy_pad(local, src, DataCopyExtParams(rows, columns * size, (pitch - columns) * size, 0))


@tile
def _widen(asc: AiCore, ub: TBuf, rows: int, element: str, at: RowTermUb, columns: int) -> None:
    count = rows * align_up(columns, 16)
    asc.wait_flag(HardEvent.MTE2_V, ID)
    for narrow, wide in ((at.dy, at.wide_dy), (at.out, at.wide_out)):
        src, dst = ub.get_with_offset(element, count, narrow), ub.get_with_offset(FLOAT, count, wide)
        asc.cast(dst, src, RoundMode.CAST_NONE, count)
    asc.pipe_barrier(Pipe.V)


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
    width = align_up(columns, 16)
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
class _Step:
    """Elements of one gradient: where they begin, in which sums, how many, and their factor (None: as they are)."""

    dst: GlobalTensor
    sums_at: int
    at: int
    count: int
    factor: float | None


def store_gradients(
    asc: AiCore,
    gradients: tuple[GlobalTensor, GlobalTensor, GlobalTensor],
    workspace: GlobalTensor,
    ub: TBuf,
    t: SameAbTiling,
) -> None:
    """Scale the sums of dQ and dK, round all three to the gradients' type, and store them."""
    dq, dk, dv = gradients
    core = asc.get_block_idx()
    steps = [
        *_steps(dq, t.areas.dq, t.query.count, t.scale, core, t),
        *_steps(dk, t.areas.dk, t.key.count, t.scale, core, t),
        *_steps(dv, t.areas.dv, t.value.count, None, core, t),
    ]
    with asc.trace("post"):
        for i, step in enumerate(steps):
            is_last = i + 1 == len(steps)
            sums = workspace[step.sums_at + step.at]
            _round(asc, step.dst[step.at], sums, ub, step.count, step.factor, t.post.buffer_bytes, i == 0, is_last)


def _steps(
    dst: GlobalTensor, sums_at: int, count: int, factor: float | None, core: int, t: SameAbTiling
) -> list[_Step]:
    step = t.post.step_elements
    per_core = ceil_div(ceil_div(count, step), t.post.cores) * step
    end = min(count, (core + 1) * per_core)
    return [_Step(dst, sums_at, at, min(step, end - at), factor) for at in range(core * per_core, end, step)]


@tile
def _round(
    asc: AiCore,
    dst: GlobalTensor,
    sums: GlobalTensor,
    ub: TBuf,
    count: int,
    factor: float | None,
    base_bytes: int,
    is_first: bool,
    is_last: bool,
) -> None:
    """One step: two base buffers hold the sums, the third the result."""
    wide = ub.get_with_offset(FLOAT, count, 0)
    narrow = ub.get_with_offset(dst.dtype, count, 2 * base_bytes)
    if not is_first:
        asc.wait_flag(HardEvent.V_MTE2, ID)
    asc.data_copy_pad(wide, sums, DataCopyExtParams(1, count * FLOAT.bytes, 0, 0))
    asc.set_flag(HardEvent.MTE2_V, ID)
    asc.wait_flag(HardEvent.MTE2_V, ID)
    if factor is not None:
        asc.muls(wide, wide, factor, count)
        asc.pipe_barrier(Pipe.V)
    if not is_first:
        asc.wait_flag(HardEvent.MTE3_V, ID)
    asc.cast(narrow, wide, RoundMode.CAST_ROUND, count)
    if not is_last:
        asc.set_flag(HardEvent.V_MTE2, ID)
    asc.set_flag(HardEvent.V_MTE3, ID)
    asc.wait_flag(HardEvent.V_MTE3, ID)
    asc.data_copy_pad(dst, narrow, DataCopyExtParams(1, count * dst.dtype.bytes, 0, 0))
    if not is_last:
        asc.set_flag(HardEvent.MTE3_V, ID)
