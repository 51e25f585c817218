"""The vector pass of templates N and B of FlashAttention backward: A and dS of as many heads as UB holds.

    row term    O, dY -> float -> D = rowsum(dY * O), where need be some columns of D after the others
    dS part     dA -> [rows] -> [dropout] -> dA - D
    P part      S -> [rows] -> [bias] -> scale -> [hide] -> P = exp(S - max) / sum; dS = P (dA - D); [dropout of P]
    stores      dS and A in 16 bits, rows of S2 one behind the other

Bias and mask share a place in template N, so the mask is loaded when the bias is added. The dropout mask of a pass,
bits or bytes, stays in UB for both of its uses; where its rows come padded, the first use has closed the gaps for the
second. The public kernel has no event between the Cast of A and its store; here V is waited for, as for dS. It waits
for maxima and sums on the scalar unit, here V does.
Source: ops-transformer op_kernel, flash_attention_score_grad ngs1s2_bn and bngs1s2_b: order of the steps.
"""

from dataclasses import dataclass

from ascendsim.dtypes import FLOAT, UINT8, DType
from ascendsim.isa.forms import BinaryRepeatParams
from ascendsim.isa.move import DataCopyExtParams, DataCopyPadExtParams, DataCopyParams
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_host.fag_parts import BITS
from ascendsim.op_host.fag_whole_heads import Strides, WholeHeadsUb
from ascendsim.op_host.softmax import soft_max_grad_tiling_func
from ascendsim.op_host.softmax_family import soft_max_tiling_func
from ascendsim.op_kernel.attention import pass_on
from ascendsim.op_kernel.drop_out import DropOutMode, DropOutShapeInfo, drop_out
from ascendsim.op_kernel.fag_tiles import LOWEST, NZ_BLOCKS
from ascendsim.op_kernel.select_with_bytes_mask import SelectWithBytesMaskShapeInfo, select_with_bytes_mask
from ascendsim.op_kernel.simple_softmax import simple_softmax
from ascendsim.op_kernel.softmax_grad import softmax_grad_front
from ascendsim.op_kernel.softmax_grad_call import LANES, ROW_GROUP
from ascendsim.record import AiCore, tile
from ascendsim.terms import (
    CUBE_SIDE,
    DATABLOCK_BYTES,
    MAX_REPEAT_TIMES,
    HardEvent,
    Pipe,
    RoundMode,
    align_up,
)
from ascendsim.tpipe import TBuf

ID, A_ID, ZERO_ID = 0, 1, 2
"""Event ids: of all flags but two from V to MTE3, which V would set again before MTE3 has waited for the other."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Lengths of a vector pass.

    Attributes:
        heads: heads of all its batches.
        rows, columns: of scores of a head.
        width: columns in UB, in whole fractals.
        d: columns of dY and O.
        row_columns: columns of them that are taken at a time.
        is_nz: dA and S come in NZ.
        keep_prob: share of scores that stay; 1 for no dropout.
        scale: factor of the scores.
    """

    heads: int
    rows: int
    columns: int
    width: int
    d: int
    row_columns: int
    is_nz: bool
    keep_prob: float
    scale: float

    @property
    def all_rows(self) -> int:
        """Rows of all heads."""
        return self.heads * self.rows

    @property
    def count(self) -> int:
        """Scores in UB."""
        return self.all_rows * self.width

    @property
    def has_tail(self) -> bool:
        """Whether rows in UB are longer than in GM; then a dropout mask has a byte for each score, not a bit."""
        return self.columns != self.width

    @property
    def padded_bytes(self) -> int:
        """A row of bytes in whole datablocks."""
        return align_up(self.columns, DATABLOCK_BYTES)


@dataclass(frozen=True, slots=True)
class PassUb:
    """The buffer of UB and the places in it."""

    buffer: TBuf
    at: WholeHeadsUb

    def floats(self, offset_bytes: int, count: int) -> LocalTensor:
        """Return a view of floats."""
        return self.buffer.get_with_offset(FLOAT, count, offset_bytes)

    def of(self, element: DType, offset_bytes: int, count: int) -> LocalTensor:
        """Return a view of elements."""
        return self.buffer.get_with_offset(element, count, offset_bytes)

    @property
    def temp(self) -> LocalTensor:
        """Temp of library calls."""
        return self.buffer.get_with_offset(UINT8, self.at.temp_bytes, self.at.temp)


def _byte_pad(p: Pass) -> DataCopyPadExtParams:
    """Zeros behind a row of bytes."""
    return DataCopyPadExtParams(True, 0, p.padded_bytes - p.columns, 0)


# ---- row term --------------------------------------------------------------------------------------------------------


@tile
def row_term(asc: AiCore, dy: GlobalTensor, out: GlobalTensor, lies: Strides, ub: PassUb, p: Pass) -> None:
    """D = rowsum(dY * O), a datablock for each row; columns of D that are taken later are added.

    Args:
        asc: the core.
        dy: of the first head.
        out: like dy.
        lies: how the other heads follow.
        ub: places in UB.
        p: lengths.
    """
    starts = range(0, p.d, p.row_columns)
    with asc.trace("row term"):
        _load_rows(asc, dy, out, lies, ub, p, 0)
        for first in starts:
            columns = min(p.row_columns, p.d - first)
            width = align_up(columns, CUBE_SIDE)
            pass_on(asc, HardEvent.MTE2_V, ID)
            wide = []
            for narrow_at, wide_at in ((ub.at.rows_dy, ub.at.wide_dy), (ub.at.rows_out, ub.at.wide_out)):
                wide.append(ub.floats(wide_at, p.all_rows * width))
                narrow = ub.of(dy.dtype, narrow_at, p.all_rows * width)
                asc.cast(wide[-1], narrow, RoundMode.CAST_NONE, p.all_rows * width)
            asc.pipe_barrier(Pipe.V)
            if first != starts[-1]:
                pass_on(asc, HardEvent.V_MTE2, ID)
                _load_rows(asc, dy, out, lies, ub, p, first + p.row_columns)
            _reduce(asc, wide[0], wide[1], ub, p.all_rows, width, first == 0)
        pass_on(asc, HardEvent.V_MTE2, ID)


def _load_rows(
    asc: AiCore, dy: GlobalTensor, out: GlobalTensor, lies: Strides, ub: PassUb, p: Pass, first: int
) -> None:
    """Load columns of O and dY from `first` on, head by head, filled up with zeros to whole fractals."""
    columns = min(p.row_columns, p.d - first)
    width, size = align_up(columns, CUBE_SIDE), dy.dtype.bytes
    bursts = DataCopyExtParams(p.rows, columns * size, (lies.pitch - columns) * size, 0)
    pad = DataCopyPadExtParams(True, 0, width - columns, 0)
    for src, place in ((out, ub.at.rows_out), (dy, ub.at.rows_dy)):
        local = ub.of(src.dtype, place, p.all_rows * width)
        for head in range(p.heads):
            asc.data_copy_pad(local[head * p.rows * width], src[lies.at(head) + first], bursts, pad)


def _reduce(asc: AiCore, dy: LocalTensor, out: LocalTensor, ub: PassUb, rows: int, width: int, is_first: bool) -> None:
    """Row sums of dY * O, or what they add to those of other columns."""
    count = rows * FLOAT.per_datablock
    sums = ub.floats(ub.at.row_term, count)
    part = sums if is_first else ub.floats(ub.at.partial, count)
    tiling = soft_max_grad_tiling_func((rows, width), FLOAT.bytes, ub.at.temp_bytes, True)
    is_basic = rows % ROW_GROUP == 0 and width % LANES == 0
    softmax_grad_front(asc, part, dy, out, ub.temp, tiling, is_basic_block=is_basic)
    asc.pipe_barrier(Pipe.V)
    if not is_first:
        asc.add(sums, sums, part, count)
        asc.pipe_barrier(Pipe.V)


# ---- dropout ---------------------------------------------------------------------------------------------------------


@tile
def load_drop(asc: AiCore, keeps: GlobalTensor, ub: PassUb, p: Pass) -> None:
    """Load the dropout mask of a pass, whose heads follow one another: bits at one go, or rows of bytes."""
    with asc.trace("load dropMask"):
        if p.has_tail:
            local = ub.of(UINT8, ub.at.drop, p.all_rows * p.padded_bytes)
            asc.data_copy_pad(local, keeps, DataCopyExtParams(p.all_rows, p.columns, 0, 0), _byte_pad(p))
        else:
            local = ub.of(UINT8, ub.at.drop, p.count // BITS)
            asc.data_copy_pad(local, keeps, DataCopyExtParams(1, p.count // BITS, 0, 0))


def _drop(asc: AiCore, x: LocalTensor, ub: PassUb, p: Pass, *, is_packed: bool) -> None:
    """Drop elements of x and scale the others.

    Args:
        asc: the core.
        x: floats of the pass.
        ub: places in UB.
        p: lengths.
        is_packed: rows of bytes have no gaps any more.
    """
    mode, row = DropOutMode.BIT_ALIGN, p.width // BITS
    if p.has_tail:
        has_gaps = p.padded_bytes != p.width and not is_packed
        mode = DropOutMode.BYTE_MISALIGN if has_gaps else DropOutMode.BYTE_ALIGN
        row = p.padded_bytes if has_gaps else p.width
    mask = ub.of(UINT8, ub.at.drop, p.all_rows * row)
    drop_out(asc, x, x, mask, ub.temp, p.keep_prob, DropOutShapeInfo(p.all_rows, p.width, row), drop_out_mode=mode)
    asc.pipe_barrier(Pipe.V)


# ---- dS --------------------------------------------------------------------------------------------------------------


@tile
def grad(asc: AiCore, d_a: GlobalTensor, ub: PassUb, p: Pass) -> None:
    """Make dA - D of a pass; dA is dropped before."""
    local = ub.floats(ub.at.d_a, p.count)
    with asc.trace("load dA"):
        _load_scores(asc, local, d_a, ub.at.nz_d_a, ub, p)
    with asc.trace("dA - D"):
        if p.keep_prob < 1:
            _drop(asc, local, ub, p, is_packed=False)
        terms = ub.floats(ub.at.row_term, p.all_rows * FLOAT.per_datablock)
        blocks = p.width // FLOAT.per_datablock
        strides = BinaryRepeatParams(blocks, blocks, 1, 1, 1, 0)
        for head in range(p.heads):
            for first in range(0, p.rows, ROW_GROUP):
                row, rows = head * p.rows + first, min(ROW_GROUP, p.rows - first)
                part, term = local[row * p.width], terms[row * FLOAT.per_datablock]
                asc.sub(part, part, term, rows * FLOAT.per_datablock, blocks, strides)
        asc.pipe_barrier(Pipe.V)
        pass_on(asc, HardEvent.V_MTE2, ID)


def _load_scores(asc: AiCore, dst: LocalTensor, src: GlobalTensor, nz_at: int, ub: PassUb, p: Pass) -> None:
    """Load dA or S of all heads, and put what comes in NZ into rows."""
    if p.is_nz:
        nz = ub.floats(nz_at, p.count)
        asc.data_copy(nz, src, p.count)
        pass_on(asc, HardEvent.MTE2_V, ID)
        panel = p.rows * CUBE_SIDE
        bursts = DataCopyParams(p.rows, NZ_BLOCKS, 0, p.width // FLOAT.per_datablock - NZ_BLOCKS)
        for head in range(p.heads):
            for column in range(0, p.width, CUBE_SIDE):
                at = head * p.rows * p.width
                asc.data_copy(dst[at + column], nz[at + column // CUBE_SIDE * panel], bursts)
        asc.pipe_barrier(Pipe.V)
        return
    if p.has_tail:
        filled = align_up(p.columns, FLOAT.per_datablock)
        if filled != p.width:
            asc.duplicate(dst, 0.0, p.count)
            pass_on(asc, HardEvent.V_MTE2, ID)
        gaps = (p.width - p.columns) * FLOAT.bytes, (p.width - filled) // FLOAT.per_datablock
        part = DataCopyExtParams(p.all_rows, p.columns * FLOAT.bytes, *gaps)
        asc.data_copy_pad(dst, src, part, DataCopyPadExtParams(True, 0, filled - p.columns, 0))
    else:
        asc.data_copy(dst, src, p.count)
    pass_on(asc, HardEvent.MTE2_V, ID)


# ---- bias and mask ---------------------------------------------------------------------------------------------------


@tile
def load_bias(asc: AiCore, pse: GlobalTensor, lies: Strides, ub: PassUb, p: Pass) -> None:
    """Load the position bias, of each head its rows, or the one that all share (pitch 0)."""
    rows, size = (p.rows if lies.pitch else 1), pse.dtype.bytes
    local = ub.of(pse.dtype, ub.at.bias, p.heads * rows * p.width)
    bursts = DataCopyExtParams(rows, p.columns * size, 0, 0)
    pad = DataCopyPadExtParams(True, 0, p.width - p.columns, 0)
    with asc.trace("load pse"):
        for head in range(p.heads):
            asc.data_copy_pad(local[head * rows * p.width], pse[lies.at(head)], bursts, pad)


@tile
def load_mask(asc: AiCore, mask: GlobalTensor, lies: Strides, ub: PassUb, p: Pass) -> None:
    """Load the attention mask, of each head S1 rows in whole datablocks."""
    local = ub.of(UINT8, ub.at.mask, p.all_rows * p.padded_bytes)
    bursts = DataCopyExtParams(p.rows, p.columns, lies.pitch - p.columns, 0)
    with asc.trace("load mask"):
        for head in range(p.heads):
            asc.data_copy_pad(local[head * p.rows * p.padded_bytes], mask[lies.at(head)], bursts, _byte_pad(p))


@tile
def load_scores(asc: AiCore, scores: GlobalTensor, ub: PassUb, p: Pass) -> None:
    """Load S of a pass."""
    with asc.trace("load S"):
        _load_scores(asc, ub.floats(ub.at.scores, p.count), scores, ub.at.nz_scores, ub, p)


@tile
def add_bias(asc: AiCore, element: DType, shares_row: bool, ub: PassUb, p: Pass) -> None:
    """Add the bias to S, as much at a time as temp holds in float."""
    s, most = ub.floats(ub.at.scores, p.count), ub.at.temp_bytes // FLOAT.bytes
    heads = max(1, most // p.width) if shares_row else 1
    each = heads * p.width if shares_row else most // LANES * LANES
    count = p.heads * p.width if shares_row else p.count
    narrow, wide = ub.of(element, ub.at.bias, count), ub.floats(ub.at.temp, min(each, count))
    with asc.trace("bias"):
        for at in range(0, count, each):
            part = min(each, count - at)
            asc.cast(wide, narrow[at], RoundMode.CAST_NONE, part)
            asc.pipe_barrier(Pipe.V)
            if shares_row:
                for head in range(part // p.width):
                    _add_row(asc, s[(at + head * p.width) * p.rows], wide[head * p.width], p)
            else:
                asc.add(s[at], s[at], wide, part)
            asc.pipe_barrier(Pipe.V)
        pass_on(asc, HardEvent.V_MTE2, ID)


def _add_row(asc: AiCore, s: LocalTensor, row: LocalTensor, p: Pass) -> None:
    """Add a row to all rows of a head, 64 columns at a time."""
    blocks = p.width // FLOAT.per_datablock
    strides = BinaryRepeatParams(1, 1, 1, blocks, blocks, 0)
    for first in range(0, p.rows, MAX_REPEAT_TIMES):
        for column in range(0, p.width, LANES):
            part, rows = s[first * p.width + column], min(MAX_REPEAT_TIMES, p.rows - first)
            asc.add(part, part, row[column], min(LANES, p.width - column), rows, strides)


# ---- P ---------------------------------------------------------------------------------------------------------------


@tile
def probabilities(
    asc: AiCore,
    maxima: GlobalTensor,
    sums: GlobalTensor,
    a: GlobalTensor,
    d_s: GlobalTensor,
    has_mask: bool,
    ub: PassUb,
    p: Pass,
) -> None:
    """P and dS = P (dA - D) of a pass, P dropped to A, both rounded and stored.

    Args:
        asc: the core.
        maxima: of the rows, a datablock each.
        sums: like maxima.
        a: where A goes.
        d_s: where dS goes.
        has_mask: a mask is in UB.
        ub: places in UB.
        p: lengths.
    """
    s, d_a = ub.floats(ub.at.scores, p.count), ub.floats(ub.at.d_a, p.count)
    statistics = p.all_rows * FLOAT.per_datablock
    max_local, sum_local = ub.floats(ub.at.maxima, statistics), ub.floats(ub.at.sums, statistics)
    with asc.trace("load max, sum"):
        pass_on(asc, HardEvent.V_MTE2, ID)
        asc.data_copy(max_local, maxima, statistics)
        asc.data_copy(sum_local, sums, statistics)
        pass_on(asc, HardEvent.MTE2_V, ID)
    with asc.trace("P"):
        asc.muls(s, s, p.scale, p.count)
        asc.pipe_barrier(Pipe.V)
        if has_mask:
            mask = ub.of(UINT8, ub.at.mask, p.all_rows * p.padded_bytes)
            info = SelectWithBytesMaskShapeInfo(p.all_rows, p.width, p.padded_bytes)
            select_with_bytes_mask(asc, s, s, LOWEST, mask, ub.temp, info)
            asc.pipe_barrier(Pipe.V)
        tiling = soft_max_tiling_func((p.all_rows, p.width), FLOAT.bytes, ub.at.temp_bytes)
        is_basic = p.all_rows % ROW_GROUP == 0 and p.width % LANES == 0
        simple_softmax(asc, s, sum_local, max_local, s, ub.temp, tiling, is_basic_block=is_basic)
        asc.pipe_barrier(Pipe.V)
    with asc.trace("dS"):
        asc.mul(d_a, d_a, s, p.count)
        asc.pipe_barrier(Pipe.V)
        if p.keep_prob < 1:
            _drop(asc, s, ub, p, is_packed=True)
    _store(asc, d_s, d_a, ub.at.d_a, ub, p, ID)
    _store(asc, a, s, ub.at.scores, ub, p, A_ID)
    pass_on(asc, HardEvent.MTE3_MTE2, ID)


def _store(asc: AiCore, dst: GlobalTensor, src: LocalTensor, place: int, ub: PassUb, p: Pass, event_id: int) -> None:
    """Round to 16 bits, ties away from zero, and store rows of S2."""
    with asc.trace("store"):
        narrow = ub.of(dst.dtype, place, p.count)
        asc.cast(narrow, src, RoundMode.CAST_ROUND, p.count)
        pass_on(asc, HardEvent.V_MTE3, event_id)
        if p.has_tail:
            asc.data_copy_pad(dst, narrow, DataCopyExtParams(p.all_rows, p.columns * dst.dtype.bytes, 0, 0))
        else:
            asc.data_copy(dst, narrow, p.count)
