"""Sums of heads of template S1s2Bn2 of FlashAttention backward: zeros before the first, gradients behind the last.

Inferred: an AIV has its own zeros stored, so that nobody else has to wait; NZ sums are cast 255 rows at a time at most,
the repeats of a Copy.
Source: ops-transformer op_kernel, flash_attention_score_grad S1s2Bn2.
"""

from dataclasses import dataclass

from ascendsim.dtypes import FLOAT
from ascendsim.isa.move import DataCopyExtParams, DataCopyParams
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_host.fag_dealing import Block
from ascendsim.op_host.fag_parts import Rows, sum_at
from ascendsim.op_host.fag_s1s2_bn2 import S1s2Bn2Tiling
from ascendsim.op_kernel.attention import pass_on
from ascendsim.op_kernel.fag_s1s2_bn2_places import key_sums, query_sums
from ascendsim.op_kernel.fag_tensors import Tensors
from ascendsim.op_kernel.fag_tiles import NZ_BLOCKS, nz_to_rows
from ascendsim.record import AiCore, tile
from ascendsim.terms import CUBE_SIDE, MAX_REPEAT_TIMES, HardEvent, Pipe, RoundMode, align_up, ceil_div
from ascendsim.tpipe import TBuf

ZEROS = 8192
"""Floats of a buffer of zeros: as many as a vector tile has (inferred)."""
ID = 0
"""Event id of all flags."""


# ---- zeros -----------------------------------------------------------------------------------------------------------


def zero_heads(asc: AiCore, gm: Tensors, buffer: TBuf, blocks: tuple[Block, ...], t: S1s2Bn2Tiling) -> None:
    """Fill the sums of an AIV's own heads with zeros."""
    with asc.trace("zero"):
        _fill_zeros(asc, buffer)
        for b, n2 in dict.fromkeys((block.b, block.n2) for block in blocks):
            for n1 in range(n2 * t.call.shape.g, (n2 + 1) * t.call.shape.g):
                _zero_rows(asc, query_sums(gm, b, n1, 0, t), buffer, t.query_sums, t)
            _zero_rows(asc, key_sums(gm, t.areas.dk, b, n2, 0, t), buffer, t.key_sums, t)
            if t.call.is_fp32:
                _zero_rows(asc, gm.dv[t.key.at(b, n2, 0)], buffer, t.key, t)
            else:
                _zero_rows(asc, key_sums(gm, t.areas.dv, b, n2, 0, t), buffer, t.key_sums, t)
        asc.pipe_barrier(Pipe.ALL)


def _zero_rows(asc: AiCore, dst: GlobalTensor, buffer: TBuf, rows: Rows, t: S1s2Bn2Tiling) -> None:
    """Fill the rows of one head, which begin at dst, with zeros."""
    columns = align_up(rows.columns, CUBE_SIDE) if t.tiling.tiles.is_gradient_nz else rows.columns
    pitch = columns if t.tiling.tiles.is_gradient_nz else rows.pitch
    step = ZEROS // columns
    for s in range(0, rows.s, step):
        _store_zeros(asc, dst[s * pitch], buffer, min(step, rows.s - s), columns, pitch)


@tile
def _fill_zeros(asc: AiCore, buffer: TBuf) -> None:
    asc.duplicate(buffer.get_with_offset(FLOAT, ZEROS, 0), 0.0, ZEROS)
    pass_on(asc, HardEvent.V_MTE3, ID)


@tile
def _store_zeros(asc: AiCore, dst: GlobalTensor, buffer: TBuf, rows: int, columns: int, pitch: int) -> None:
    zeros = buffer.get_with_offset(FLOAT, rows * columns, 0)
    bursts = DataCopyExtParams(rows, columns * FLOAT.bytes, 0, (pitch - columns) * FLOAT.bytes)
    asc.data_copy_pad(dst, zeros, bursts)


# ---- heads -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Head:
    """A query head that is through: which block was its last, and whether it was the last one of its key head."""

    turn: int
    b: int
    n2: int
    g: int
    ends_key_head: bool


def finished_heads(blocks: tuple[Block, ...]) -> list[Head]:
    """Return the query heads of blocks in order."""
    heads = []
    for i, block in enumerate(blocks):
        after = blocks[i + 1] if i + 1 < len(blocks) else None
        ends_key_head = after is None or (after.b, after.n2) != (block.b, block.n2)
        if after is None or ends_key_head or after.g != block.g:
            heads.append(Head(i, block.b, block.n2, block.g, ends_key_head))
    return heads


@dataclass(frozen=True, slots=True)
class HeadPart:
    """Which part of a head's rows an AIV stores: the `number`-th of so many."""

    number: int
    count: int

    def of(self, rows: int) -> range:
        """Return the part of so many rows."""
        each = ceil_div(rows, self.count)
        return range(min(rows, self.number * each), min(rows, (self.number + 1) * each))


def store_query_head(asc: AiCore, gm: Tensors, buffer: TBuf, head: Head, part: HeadPart, t: S1s2Bn2Tiling) -> None:
    """Scale and round the sums of dQ of a head."""
    place, rows = (head.b, t.call.shape.query_head(head.n2, head.g)), (t.query, t.query_sums)
    with asc.trace("post"):
        _store_rows(asc, gm.dq, gm.workspace[t.areas.dq], buffer, place, rows, part, t.scale, t)


def store_key_head(asc: AiCore, gm: Tensors, buffer: TBuf, head: Head, part: HeadPart, t: S1s2Bn2Tiling) -> None:
    """Scale and round the sums of dK, and round those of dV, of a head; dV of floats is its own sum."""
    place, rows = (head.b, head.n2), (t.key, t.key_sums)
    with asc.trace("post"):
        _store_rows(asc, gm.dk, gm.workspace[t.areas.dk], buffer, place, rows, part, t.scale, t)
        if not t.call.is_fp32:
            _store_rows(asc, gm.dv, gm.workspace[t.areas.dv], buffer, place, rows, part, None, t)


@dataclass(frozen=True, slots=True)
class _Step:
    """Rows of a head in one step of the cast.

    Attributes:
        rows, columns: of the gradient.
        pitch, sum_pitch: from row to row of the gradient and of its sums; in NZ the latter is not used.
        head_rows: rows of the head.
        is_nz: the sums lie in NZ.
    """

    rows: int
    columns: int
    pitch: int
    sum_pitch: int
    head_rows: int
    is_nz: bool


def _store_rows(
    asc: AiCore,
    dst: GlobalTensor,
    sums: GlobalTensor,
    buffer: TBuf,
    place: tuple[int, int],
    rows: tuple[Rows, Rows],
    part: HeadPart,
    factor: float | None,
    t: S1s2Bn2Tiling,
) -> None:
    """Store a gradient of the head at (b, n): rows of the gradient and of its sums."""
    (b, n), (own, of_sums) = place, rows
    is_nz = t.tiling.tiles.is_gradient_nz
    step = t.post.step_elements // of_sums.columns
    step = min(step, MAX_REPEAT_TIMES) if is_nz else step
    here = part.of(own.s)
    for s in range(here.start, here.stop, step):
        shape = _Step(min(step, here.stop - s), own.columns, own.pitch, of_sums.pitch, own.s, is_nz)
        at = sum_at(of_sums, b, n, s, is_nz=is_nz)
        _store_step(asc, dst[own.at(b, n, s)], sums[at], buffer, shape, factor)


@tile
def _store_step(
    asc: AiCore, dst: GlobalTensor, sums: GlobalTensor, buffer: TBuf, step: _Step, factor: float | None
) -> None:
    size = dst.dtype.bytes
    width = align_up(step.columns, CUBE_SIDE) if step.is_nz else step.columns
    count = step.rows * width
    rows = _load_sums(asc, sums, buffer, step, width)
    if factor is not None:
        asc.muls(rows, rows, factor, count)
    result = rows
    if dst.dtype is not FLOAT:
        asc.pipe_barrier(Pipe.V)
        result = buffer.get_with_offset(dst.dtype, count, 0 if step.is_nz else count * FLOAT.bytes)
        asc.cast(result, rows, RoundMode.CAST_ROUND, count)
    pass_on(asc, HardEvent.V_MTE3, ID)
    bursts = DataCopyExtParams(step.rows, step.columns * size, 0, (step.pitch - step.columns) * size)
    asc.data_copy_pad(dst, result, bursts)
    pass_on(asc, HardEvent.MTE3_MTE2, ID)


def _load_sums(asc: AiCore, sums: GlobalTensor, buffer: TBuf, step: _Step, width: int) -> LocalTensor:
    """Load sums and return them in rows."""
    count = step.rows * width
    if not step.is_nz:
        rows = buffer.get_with_offset(FLOAT, count, 0)
        between = (step.sum_pitch - step.columns) * FLOAT.bytes
        asc.data_copy_pad(rows, sums, DataCopyExtParams(step.rows, step.columns * FLOAT.bytes, between, 0))
        pass_on(asc, HardEvent.MTE2_V, ID)
        return rows
    panels = width // CUBE_SIDE
    nz_count = count + panels * FLOAT.per_datablock
    nz = buffer.get_with_offset(FLOAT, nz_count, 0)
    rows = buffer.get_with_offset(FLOAT, count, nz_count * FLOAT.bytes)
    gap = (step.head_rows - step.rows) * NZ_BLOCKS
    asc.data_copy(nz, sums, DataCopyParams(panels, step.rows * NZ_BLOCKS, gap, 1))
    pass_on(asc, HardEvent.MTE2_V, ID)
    nz_to_rows(asc, rows, nz, step.rows, width)
    asc.pipe_barrier(Pipe.V)
    return rows
