"""SoftmaxGrad and SoftmaxGradFront for tensors in UB, ND layout, as arch 2201 issues them.

dst = (grad - rowsum(grad * src)) * src, or only the row sums (front). Rows are worked off in tiles of `split_m` rows;
the temp buffer of a tile, in floats, with S = split_size and Q = reduce_size:

    float        product 0..S, reduce scratch S..S+Q, row sums S+Q..S+2Q (front: row sums go straight to dst)
    half         src S, grad S, product then result S, reduce scratch Q, row sums Q

Marked steps carry the names of the public page's "implementation principle": mul, reducesum, broadcast, sub, mul.
Sources: asc-devkit docs, SoftmaxGrad page; instruction sequences observed from the real library (docs/provenance.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ascendsim.dtypes import FLOAT, HALF
from ascendsim.isa.forms import BinaryRepeatParams
from ascendsim.isa.move import BrcbRepeatParams, CopyRepeatParams, DataCopyParams
from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import SoftMaxTiling
from ascendsim.op_kernel.softmax_grad_checks import check_arguments, need_tile, retile
from ascendsim.record import AiCore
from ascendsim.terms import MAX_REPEAT_TIMES, HardEvent, Pipe, RoundMode

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


@dataclass(frozen=True, slots=True)
class _Call:
    """One call, prepared: operands, temp as floats, the tiling in force, and the columns that are data."""

    dst: LocalTensor
    grad: LocalTensor
    src: LocalTensor
    tmp: LocalTensor
    tiling: SoftMaxTiling
    ori_k: int
    is_front: bool

    def tile(self, number: int) -> "_Call":
        """The same call on the rows from tile `number` on."""
        at = number * self.tiling.split_size
        dst_at = number * self.tiling.reduce_size if self.is_front else at
        return replace(self, dst=self.dst[dst_at], grad=self.grad[at], src=self.src[at])


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
    call = _prepare(asc, _Call(dst, grad, src, dst, tiling, 0, is_front), shared_tmp_buffer, shape_info)
    asc.trace_start("SoftmaxGrad")
    if src.dtype is HALF:
        _for_each_tile(_half_tile, asc, call)
    elif is_front:
        # The library exchanges the sources here; the product commutes.
        _float_front(asc, replace(call, grad=call.src, src=call.grad))
    else:
        _for_each_tile(_float_tile, asc, call)
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
    call = _prepare(asc, _Call(dst, grad, src, dst, tiling, 0, True), shared_tmp_buffer, shape_info)
    asc.trace_start("SoftmaxGradFront")
    if src.dtype is HALF:
        asc.set_mask_norm()
        asc.reset_mask()
        _for_each_tile(_half_tile, asc, call)
    else:
        _float_front(asc, call)
    asc.trace_stop("SoftmaxGradFront")


def _prepare(
    asc: AiCore, call: _Call, shared_tmp_buffer: LocalTensor | None, shape_info: SoftMaxShapeInfo | None
) -> _Call:
    """Check the arguments; fill in the temp, the tiling to use, and the columns that are data."""
    tiling, src = call.tiling, call.src
    shape = shape_info or SoftMaxShapeInfo(tiling.src_m, tiling.src_k, tiling.src_m, tiling.src_k)
    tmp = asc.pop_stack_buffer("uint8_t") if shared_tmp_buffer is None else shared_tmp_buffer
    padded, ori = (shape.src_m, shape.src_k), (shape.ori_src_m, shape.ori_src_k)
    check_arguments(asc, call.dst, call.grad, src, tmp, padded, ori, call.is_front)
    work = tmp.reinterpret_cast(FLOAT)
    if padded != (tiling.src_m, tiling.src_k):
        tiling = retile(asc, padded, src, work, call.is_front)
    need_tile(asc, tiling)
    return replace(call, tmp=work, tiling=tiling, ori_k=shape.ori_src_k)


def _for_each_tile(tile: Callable[[AiCore, _Call, int], None], asc: AiCore, call: _Call) -> None:
    """Run `tile` over the full tiles, then over the tail rows. No barrier in between: V is in order."""
    tiling = call.tiling
    for i in range(tiling.range_m):
        tile(asc, call.tile(i), tiling.split_m)
    if tiling.tail_m:
        tile(asc, call.tile(tiling.range_m), tiling.tail_m)


def _float_tile(asc: AiCore, call: _Call, rows: int) -> None:
    tiling, tmp = call.tiling, call.tmp
    count = rows * tiling.split_k
    product, scratch, row_sums = tmp, tmp[tiling.split_size], tmp[tiling.split_size + tiling.reduce_size]
    with asc.trace("mul"):
        asc.mul(product, call.src, call.grad, count)
    asc.pipe_barrier(Pipe.V)
    _row_sum(asc, row_sums, product, scratch, rows, call)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("broadcast to k"):
        _broadcast_rows(asc, product, row_sums, tiling)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("sub"):
        asc.sub(product, call.grad, product, count)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("mul by src"):
        asc.mul(call.dst, call.src, product, count)


def _float_front(asc: AiCore, call: _Call) -> None:
    asc.set_mask_norm()
    asc.reset_mask()
    _for_each_tile(_float_front_tile, asc, call)


def _float_front_tile(asc: AiCore, call: _Call, rows: int) -> None:
    product, scratch = call.tmp, call.tmp[call.tiling.split_size]
    with asc.trace("mul"):
        asc.mul(product, call.src, call.grad, rows * call.tiling.split_k)
    asc.pipe_barrier(Pipe.V)
    _row_sum(asc, call.dst, product, scratch, rows, call)
    asc.pipe_barrier(Pipe.V)


def _half_tile(asc: AiCore, call: _Call, rows: int) -> None:
    tiling, tmp = call.tiling, call.tmp
    count = rows * tiling.split_k
    src32, grad32, product = tmp, tmp[tiling.split_size], tmp[2 * tiling.split_size]
    scratch = tmp[3 * tiling.split_size]
    row_sums = scratch[tiling.reduce_size]
    out_mode = asc.device.arithmetic.softmax_grad_half_round_mode.mode
    with asc.trace("cast in"):
        asc.cast(src32, call.src, RoundMode.CAST_NONE, count)
        asc.cast(grad32, call.grad, RoundMode.CAST_NONE, count)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("mul"):
        asc.mul(product, src32, grad32, count)
    asc.pipe_barrier(Pipe.V)
    _row_sum(asc, row_sums, product, scratch, rows, call)
    asc.pipe_barrier(Pipe.V)
    if call.is_front:
        with asc.trace("cast out"):
            asc.cast(call.dst, row_sums, out_mode, rows * tiling.reduce_k)
        return
    with asc.trace("broadcast to k"):
        _broadcast_rows(asc, product, row_sums, tiling)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("sub"):
        asc.sub(product, grad32, product, count)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("mul by src"):
        asc.mul(product, product, src32, count)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("cast out"):
        asc.cast(call.dst, product, out_mode, count)


def _row_sum(asc: AiCore, dst: LocalTensor, src: LocalTensor, scratch: LocalTensor, rows: int, call: _Call) -> None:
    """dst[m, 0:reduce_k] = sum of src[m, 0:ori_k]. Sums gather in `scratch`; `dst` is work space until then."""
    k = call.tiling.split_k
    stripes, rest = divmod(call.ori_k, LANES)
    with asc.trace("reducesum"):
        if stripes:
            _sum_stripes(asc, scratch, src, dst, (rows, k), stripes)
        if rest:
            _whole_reduce_rows(asc, dst, src[stripes * LANES], (rows, k), rest)
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
        _broadcast_to_datablocks(asc, dst, scratch, rows, call.tiling.reduce_k)


def _sum_stripes(
    asc: AiCore, sums: LocalTensor, src: LocalTensor, partial: LocalTensor, shape: tuple[int, int], stripes: int
) -> None:
    """sums[m] = sum over the first 64 * stripes columns of [rows, k]: datablock sums of each stripe, in order."""
    rows, k = shape
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


def _whole_reduce_rows(asc: AiCore, dst: LocalTensor, src: LocalTensor, shape: tuple[int, int], columns: int) -> None:
    """dst[m] = sum of the first `columns` (< 64) of each row of [rows, k], 255 rows a call."""
    rows, k = shape
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


def _broadcast_rows(asc: AiCore, dst: LocalTensor, src: LocalTensor, tiling: SoftMaxTiling) -> None:
    """dst[m, 0:k] = src[m, 0]: one Copy writes one datablock column of all rows in each repeat (counter mode).

    In a tail tile, too, all rows of a full tile are written, as the library does.
    """
    columns = tiling.src_k // E
    asc.set_mask_count()
    for first in range(0, columns, MAX_REPEAT_TIMES):
        repeat = min(MAX_REPEAT_TIMES, columns - first)
        asc.copy(
            dst[first * E], src, (tiling.reduce_m * E, 0), repeat, CopyRepeatParams(columns, tiling.reduce_k // E, 1, 0)
        )
    asc.set_mask_norm()
    asc.reset_mask()
