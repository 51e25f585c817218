"""SoftmaxGrad and SoftmaxGradFront for ND rows, as arch 2201 and 2002 issue them.

The temp buffer of a tile, in floats, with S = split_size and Q = reduce_size:

    float        product 0..S, reduce scratch S..S+Q, row sums S+Q..S+2Q (front: row sums go straight to dst)
    half         src S, grad S, product then result S, reduce scratch Q, row sums Q

How rows are summed and spread depends on what the device has; the steps around it are the same.
Source: instruction sequences observed from the real library (docs/provenance.md).
"""

from dataclasses import replace

from ascendsim.dtypes import HALF
from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import SoftMaxTiling
from ascendsim.op_kernel import softmax_grad_rows, softmax_grad_rows_scalar
from ascendsim.op_kernel.softmax_grad_call import Call, for_each_tile
from ascendsim.record import AiCore
from ascendsim.terms import Pipe, RoundMode


def softmax_grad_nd(asc: AiCore, call: Call) -> None:
    """SoftmaxGrad, full or front."""
    if call.src.dtype is HALF:
        for_each_tile(half_tile, asc, call)
    elif call.is_front:
        # The library exchanges the sources here; the product commutes.
        _float_front(asc, replace(call, grad=call.src, src=call.grad))
    else:
        for_each_tile(_float_tile, asc, call)


def softmax_grad_front_nd(asc: AiCore, call: Call) -> None:
    """SoftmaxGradFront without basic block."""
    if call.src.dtype is HALF:
        asc.set_mask_norm()
        asc.reset_mask()
        for_each_tile(half_tile, asc, call)
    else:
        _float_front(asc, call)


def _float_tile(asc: AiCore, call: Call, rows: int) -> None:
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


def _float_front(asc: AiCore, call: Call) -> None:
    asc.set_mask_norm()
    asc.reset_mask()
    for_each_tile(float_front_tile, asc, call)


def float_front_tile(asc: AiCore, call: Call, rows: int) -> None:
    """Row sums of a tile of float rows, straight to dst."""
    product, scratch = call.tmp, call.tmp[call.tiling.split_size]
    with asc.trace("mul"):
        asc.mul(product, call.src, call.grad, rows * call.tiling.split_k)
    asc.pipe_barrier(Pipe.V)
    _row_sum(asc, call.dst, product, scratch, rows, call)
    asc.pipe_barrier(Pipe.V)


def half_tile(asc: AiCore, call: Call, rows: int) -> None:
    """A tile of half rows, computed in float; with is_front only its row sums."""
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


def _row_sum(asc: AiCore, dst: LocalTensor, src: LocalTensor, scratch: LocalTensor, rows: int, call: Call) -> None:
    """dst[m, 0:reduce_k] = sum of src[m, 0:ori_k]."""
    if asc.device.has("softmax_grad_block_reduce"):
        softmax_grad_rows.row_sum(asc, dst, src, scratch, rows, call)
    else:
        softmax_grad_rows_scalar.row_sum(asc, dst, src, scratch, rows, call)


def _broadcast_rows(asc: AiCore, dst: LocalTensor, src: LocalTensor, tiling: SoftMaxTiling) -> None:
    """dst[m, 0:k] = src[m, 0]."""
    if asc.device.has("copy_ub_to_ub"):
        softmax_grad_rows.broadcast_rows(asc, dst, src, tiling)
    else:
        softmax_grad_rows_scalar.broadcast_rows(asc, dst, src, tiling)
