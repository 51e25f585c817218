"""SoftmaxGrad and SoftmaxGradFront for tensors in UB, ND layout, as arch 2201 issues them.

dst = (grad - rowsum(grad * src)) * src, or only the row sums (front). Rows are worked off in tiles of `split_m` rows;
the temp buffer of a tile, in floats, with S = split_size and Q = reduce_size:

    float        product 0..S, reduce scratch S..S+Q, row sums S+Q..S+2Q (front: row sums go straight to dst)
    half         src S, grad S, product then result S, reduce scratch Q, row sums Q

Marked steps carry the names of the public page's "implementation principle": mul, reducesum, broadcast, sub, mul.
Sources: asc-devkit docs, SoftmaxGrad page; instruction sequences observed from the real library (docs/provenance.md).
"""

from dataclasses import dataclass
from typing import Protocol

from ascendsim.dtypes import FLOAT, HALF
from ascendsim.isa.forms import BinaryRepeatParams
from ascendsim.isa.move import BrcbRepeatParams, CopyRepeatParams, DataCopyParams
from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import SoftMaxTiling, soft_max_grad_kernel_tiling
from ascendsim.op_kernel.softmax_grad_checks import check_arguments, need_tile
from ascendsim.record import AiCore
from ascendsim.terms import MAX_REPEAT_TIMES, HardEvent, Pipe, RoundMode


class TileFunction(Protocol):
    """Work on one tile of `rows` rows."""

    def __call__(
        self,
        asc: AiCore,
        dst: LocalTensor,
        grad: LocalTensor,
        src: LocalTensor,
        tmp: LocalTensor,
        tiling: SoftMaxTiling,
        rows: int,
        ori_k: int,
        is_front: bool,
    ) -> None:
        """Record the tile."""


LANES = 64
"""Floats of one repeat."""
E = 8
"""Floats of one datablock."""
BRCB_ROWS = 8
"""Elements that one repeat of Brcb spreads."""


@dataclass(frozen=True, slots=True)
class SoftMaxShapeInfo:
    """Rows and columns of the tensor in UB (src_*), and how many of them are data (ori_src_*)."""

    src_m: int
    src_k: int
    ori_src_m: int
    ori_src_k: int


def softmax_grad(
    asc: AiCore,
    dst: LocalTensor,
    grad: LocalTensor,
    src: LocalTensor,
    shared_tmp_buffer: LocalTensor | None,
    tiling: SoftMaxTiling,
    is_front: bool = False,
    shape_info: SoftMaxShapeInfo | None = None,
) -> None:
    """SoftmaxGrad: dst = (grad - rowsum(grad * src)) * src; with is_front only the row sums, one datablock each.

    Args:
        asc: the core.
        dst: [src_m, src_k] of src's dtype; with is_front [src_m, one datablock].
        grad: [src_m, src_k], the gradient that reaches softmax.
        src: [src_m, src_k], softmax's output. dst may be src.
        shared_tmp_buffer: temp of uint8_t; None takes the framework's (everything behind the queues).
        tiling: from soft_max_grad_tiling_func; recomputed here if its shape differs from shape_info.
        is_front: stop after the row sums.
        shape_info: shape in UB if it differs from tiling's; columns from ori_src_k on take no part in the sum.
    """
    tmp, tiling, ori_k = _prepare(asc, dst, grad, src, shared_tmp_buffer, tiling, is_front, shape_info)
    asc.trace_start("SoftmaxGrad")
    if src.dtype is HALF:
        _for_each_tile(_half_tile, asc, dst, grad, src, tmp, tiling, ori_k, is_front)
    elif is_front:
        _float_front(asc, dst, src, grad, tmp, tiling, ori_k)  # the library exchanges the sources here
    else:
        _for_each_tile(_float_tile, asc, dst, grad, src, tmp, tiling, ori_k, is_front)
    asc.trace_stop("SoftmaxGrad")


def softmax_grad_front(
    asc: AiCore,
    dst: LocalTensor,
    grad: LocalTensor,
    src: LocalTensor,
    shared_tmp_buffer: LocalTensor | None,
    tiling: SoftMaxTiling,
    shape_info: SoftMaxShapeInfo | None = None,
) -> None:
    """SoftmaxGradFront without basic block: dst[m, :] = rowsum(grad * src)[m], one datablock a row.

    Arguments as `softmax_grad`.
    """
    tmp, tiling, ori_k = _prepare(asc, dst, grad, src, shared_tmp_buffer, tiling, True, shape_info)
    asc.trace_start("SoftmaxGradFront")
    if src.dtype is HALF:
        asc.set_mask_norm()
        asc.reset_mask()
        _for_each_tile(_half_tile, asc, dst, grad, src, tmp, tiling, ori_k, True)
    else:
        _float_front(asc, dst, grad, src, tmp, tiling, ori_k)
    asc.trace_stop("SoftmaxGradFront")


def _prepare(
    asc: AiCore,
    dst: LocalTensor,
    grad: LocalTensor,
    src: LocalTensor,
    shared_tmp_buffer: LocalTensor | None,
    tiling: SoftMaxTiling,
    is_front: bool,
    shape_info: SoftMaxShapeInfo | None,
) -> tuple[LocalTensor, SoftMaxTiling, int]:
    """Check the arguments; return the temp as floats, the tiling to use, and the columns that are data."""
    shape = shape_info or SoftMaxShapeInfo(tiling.src_m, tiling.src_k, tiling.src_m, tiling.src_k)
    tmp = asc.pop_stack_buffer("uint8_t") if shared_tmp_buffer is None else shared_tmp_buffer
    ori = (shape.ori_src_m, shape.ori_src_k)
    check_arguments(asc, dst, grad, src, tmp, (shape.src_m, shape.src_k), ori, is_front)
    work = tmp.reinterpret_cast(FLOAT)
    if (shape.src_m, shape.src_k) != (tiling.src_m, tiling.src_k):
        tiling = soft_max_grad_kernel_tiling(shape.src_m, shape.src_k, src.dtype.bytes, work.count, is_front)
    need_tile(asc, tiling)
    return work, tiling, shape.ori_src_k


def _for_each_tile(
    tile: TileFunction,
    asc: AiCore,
    dst: LocalTensor,
    grad: LocalTensor,
    src: LocalTensor,
    tmp: LocalTensor,
    tiling: SoftMaxTiling,
    ori_k: int,
    is_front: bool,
) -> None:
    """Run `tile` over the full tiles, then over the tail rows. No barrier in between: V is in order."""
    dst_stride = tiling.reduce_size if is_front else tiling.split_size
    for i in range(tiling.range_m):
        at = i * tiling.split_size
        tile(asc, dst[i * dst_stride], grad[at], src[at], tmp, tiling, tiling.split_m, ori_k, is_front)
    if tiling.tail_m:
        at, dst_at = tiling.range_m * tiling.split_size, tiling.range_m * dst_stride
        tile(asc, dst[dst_at], grad[at], src[at], tmp, tiling, tiling.tail_m, ori_k, is_front)


def _float_tile(
    asc: AiCore,
    dst: LocalTensor,
    grad: LocalTensor,
    src: LocalTensor,
    tmp: LocalTensor,
    tiling: SoftMaxTiling,
    rows: int,
    ori_k: int,
    is_front: bool,
) -> None:
    del is_front  # float front has a sequence of its own
    count = rows * tiling.split_k
    product, scratch, row_sums = tmp, tmp[tiling.split_size], tmp[tiling.split_size + tiling.reduce_size]
    with asc.trace("mul"):
        asc.mul(product, src, grad, count)
    asc.pipe_barrier(Pipe.V)
    _row_sum(asc, row_sums, product, scratch, rows, tiling.split_k, ori_k, tiling.reduce_k)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("broadcast to k"):
        _broadcast_rows(asc, product, row_sums, tiling.reduce_m, tiling.src_k, tiling.reduce_k)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("sub"):
        asc.sub(product, grad, product, count)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("mul by src"):
        asc.mul(dst, src, product, count)


def _float_front(
    asc: AiCore,
    dst: LocalTensor,
    grad: LocalTensor,
    src: LocalTensor,
    tmp: LocalTensor,
    tiling: SoftMaxTiling,
    ori_k: int,
) -> None:
    asc.set_mask_norm()
    asc.reset_mask()
    _for_each_tile(_float_front_tile, asc, dst, grad, src, tmp, tiling, ori_k, True)


def _float_front_tile(
    asc: AiCore,
    dst: LocalTensor,
    grad: LocalTensor,
    src: LocalTensor,
    tmp: LocalTensor,
    tiling: SoftMaxTiling,
    rows: int,
    ori_k: int,
    is_front: bool,
) -> None:
    del is_front
    product, scratch = tmp, tmp[tiling.split_size]
    with asc.trace("mul"):
        asc.mul(product, src, grad, rows * tiling.split_k)
    asc.pipe_barrier(Pipe.V)
    _row_sum(asc, dst, product, scratch, rows, tiling.split_k, ori_k, tiling.reduce_k)
    asc.pipe_barrier(Pipe.V)


def _half_tile(
    asc: AiCore,
    dst: LocalTensor,
    grad: LocalTensor,
    src: LocalTensor,
    tmp: LocalTensor,
    tiling: SoftMaxTiling,
    rows: int,
    ori_k: int,
    is_front: bool,
) -> None:
    count = rows * tiling.split_k
    src32, grad32, product = tmp, tmp[tiling.split_size], tmp[2 * tiling.split_size]
    scratch = tmp[3 * tiling.split_size]
    row_sums = scratch[tiling.reduce_size]
    out_mode = asc.device.arithmetic.softmax_grad_half_round_mode.mode
    with asc.trace("cast in"):
        asc.cast(src32, src, RoundMode.CAST_NONE, count)
        asc.cast(grad32, grad, RoundMode.CAST_NONE, count)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("mul"):
        asc.mul(product, src32, grad32, count)
    asc.pipe_barrier(Pipe.V)
    _row_sum(asc, row_sums, product, scratch, rows, tiling.split_k, ori_k, tiling.reduce_k)
    asc.pipe_barrier(Pipe.V)
    if is_front:
        with asc.trace("cast out"):
            asc.cast(dst, row_sums, out_mode, rows * tiling.reduce_k)
        return
    with asc.trace("broadcast to k"):
        _broadcast_rows(asc, product, row_sums, tiling.reduce_m, tiling.src_k, tiling.reduce_k)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("sub"):
        asc.sub(product, grad32, product, count)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("mul by src"):
        asc.mul(product, product, src32, count)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("cast out"):
        asc.cast(dst, product, out_mode, count)


def _row_sum(
    asc: AiCore,
    dst: LocalTensor,
    src: LocalTensor,
    scratch: LocalTensor,
    rows: int,
    k: int,
    ori_k: int,
    reduce_k: int,
) -> None:
    """dst[m, 0:reduce_k] = sum of src[m, 0:ori_k]. Sums gather in `scratch`; `dst` is work space until then."""
    stripes, rest = divmod(ori_k, LANES)
    with asc.trace("reducesum"):
        if stripes:
            _sum_stripes(asc, scratch, src, dst, rows, k, stripes)
        if rest:
            _whole_reduce_rows(asc, dst, src[stripes * LANES], rows, k, rest)
            asc.pipe_barrier(Pipe.V)
            if stripes:
                asc.set_mask_count()
                _add_counted(asc, scratch, dst, rows * E)
                asc.set_mask_norm()
                asc.reset_mask()
            else:
                asc.data_copy(scratch, dst, DataCopyParams(1, rows))
    asc.pipe_barrier(Pipe.V)
    with asc.trace("broadcast"):
        _broadcast_to_datablocks(asc, dst, scratch, rows, reduce_k)


def _sum_stripes(
    asc: AiCore, sums: LocalTensor, src: LocalTensor, partial: LocalTensor, rows: int, k: int, stripes: int
) -> None:
    """sums[m] = sum over the first 64 * stripes columns: datablock sums of each stripe, added in order."""
    asc.set_mask_count()
    _block_sums(asc, partial, src, rows, k)
    asc.set_mask_norm()
    asc.reset_mask()
    asc.pipe_barrier(Pipe.V)
    asc.data_copy(sums, partial, DataCopyParams(1, rows))
    asc.pipe_barrier(Pipe.V)
    asc.set_mask_count()
    for stripe in range(1, stripes):
        _block_sums(asc, partial, src[stripe * LANES], rows, k)
        asc.pipe_barrier(Pipe.V)
        _add_counted(asc, sums, partial, rows * E)
        asc.pipe_barrier(Pipe.V)
    asc.set_vector_mask(0, rows * E)
    asc.block_reduce_sum(sums, sums, 1, None, 1, 1, E)
    asc.set_mask_norm()
    asc.reset_mask()


def _block_sums(asc: AiCore, dst: LocalTensor, src: LocalTensor, rows: int, k: int) -> None:
    """Eight datablock sums of one 64-column stripe of each row; counter mode is on."""
    asc.set_vector_mask(0, rows * LANES)
    asc.block_reduce_sum(dst, src, 1, None, 1, 1, k // E)


def _add_counted(asc: AiCore, acc: LocalTensor, addend: LocalTensor, count: int) -> None:
    """Add `addend` to `acc` on `count` elements; counter mode is on."""
    asc.set_vector_mask(0, count)
    asc.add(acc, acc, addend, None, 1, BinaryRepeatParams())


def _whole_reduce_rows(asc: AiCore, dst: LocalTensor, src: LocalTensor, rows: int, k: int, columns: int) -> None:
    """dst[m] = sum of the first `columns` (< 64) of each row, 255 rows a call."""
    for first in range(0, rows, MAX_REPEAT_TIMES):
        repeat = min(MAX_REPEAT_TIMES, rows - first)
        asc.whole_reduce_sum(dst[first], src[first * k], columns, repeat, 1, 1, k // E)


def _broadcast_to_datablocks(asc: AiCore, dst: LocalTensor, src: LocalTensor, rows: int, reduce_k: int) -> None:
    """dst[m, 0:reduce_k] = src[m]: Brcb for groups of eight rows, the scalar unit for the rows that are left."""
    groups, rest = divmod(rows, BRCB_ROWS)
    blocks = reduce_k // E
    if groups:
        for block in range(blocks):
            asc.brcb(dst[block * E], src, groups, BrcbRepeatParams(blocks, BRCB_ROWS * blocks))
    if rest:
        v_to_s, s_to_v = asc.fetch_event_id(HardEvent.V_S), asc.fetch_event_id(HardEvent.S_V)
        asc.set_flag(HardEvent.V_S, v_to_s)
        asc.wait_flag(HardEvent.V_S, v_to_s)
        sums = [asc.get_value(src, groups * BRCB_ROWS + i) for i in range(rest)]
        asc.set_flag(HardEvent.S_V, s_to_v)
        asc.wait_flag(HardEvent.S_V, s_to_v)
        for i, row_sum in enumerate(sums):
            asc.duplicate(dst[(groups * BRCB_ROWS + i) * reduce_k], row_sum, reduce_k, 1, 1, E)


def _broadcast_rows(asc: AiCore, dst: LocalTensor, src: LocalTensor, rows: int, k: int, reduce_k: int) -> None:
    """dst[m, 0:k] = src[m, 0]: one Copy writes one datablock column of all rows in each repeat (counter mode)."""
    columns = k // E
    asc.set_mask_count()
    for first in range(0, columns, MAX_REPEAT_TIMES):
        repeat = min(MAX_REPEAT_TIMES, columns - first)
        asc.copy(dst[first * E], src, (rows * E, 0), repeat, CopyRepeatParams(columns, reduce_k // E, 1, 0))
    asc.set_mask_norm()
    asc.reset_mask()
