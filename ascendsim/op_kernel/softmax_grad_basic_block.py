"""SoftmaxGradFront with basic block: rows of whole repeats, a tile of eight rows or a multiple in whole instructions.

The temp buffer of a tile, in floats, with S = split_size:

    float        product 0..S, row sums S.. (one float each)
    half         src S, grad S, product then row sums in [m, 16] S, row sums (one float each)

All src_k columns are summed, and the broadcast writes whole groups of rows: of eight for float, of four for half.
Rows that fill no tile take the sequence without basic block.
Source: instruction sequences observed from the real library (docs/provenance.md).
"""

from ascendsim.dtypes import HALF
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.move import BrcbRepeatParams
from ascendsim.memory import LocalTensor
from ascendsim.op_kernel.softmax_grad_call import (
    LANES,
    ROW_GROUP,
    Call,
    E,
    fill_rows,
    for_full_tiles,
    for_tail,
    wait_for_scalar,
)
from ascendsim.op_kernel.softmax_grad_nd import float_front_tile, half_tile
from ascendsim.record import AiCore
from ascendsim.terms import Pipe, RoundMode, ceil_div


def softmax_grad_front_basic_block(asc: AiCore, call: Call) -> None:
    """SoftmaxGradFront with basic block."""
    asc.set_mask_norm()
    asc.reset_mask()
    is_half = call.src.dtype is HALF
    for_full_tiles(_half_tile if is_half else _float_tile, asc, call)
    for_tail(half_tile if is_half else float_front_tile, asc, call)


def _float_tile(asc: AiCore, call: Call, rows: int) -> None:
    product, row_sums = call.tmp, call.tmp[call.tiling.split_size]
    asc.pipe_barrier(Pipe.V)
    with asc.trace("mul"):
        asc.mul(product, call.src, call.grad, None, rows * call.tiling.split_k // LANES, BinaryRepeatParams())
    _row_sum(asc, row_sums, product, rows, call.tiling.split_k)
    with asc.trace("broadcast"):
        _broadcast_groups(asc, call.dst, row_sums, rows, call.tiling.reduce_k)


def _half_tile(asc: AiCore, call: Call, rows: int) -> None:
    tiling, tmp = call.tiling, call.tmp
    src32, grad32, product = tmp, tmp[tiling.split_size], tmp[2 * tiling.split_size]
    row_sums = tmp[3 * tiling.split_size]
    repeat = rows * tiling.split_k // LANES
    with asc.trace("cast in"):
        asc.cast(src32, call.src, RoundMode.CAST_NONE, None, repeat, UnaryRepeatParams(1, 1, 8, 4))
        asc.cast(grad32, call.grad, RoundMode.CAST_NONE, None, repeat, UnaryRepeatParams(1, 1, 8, 4))
    asc.pipe_barrier(Pipe.V)
    with asc.trace("mul"):
        asc.mul(product, src32, grad32, None, repeat, BinaryRepeatParams())
    _row_sum(asc, row_sums, product, rows, tiling.split_k)
    with asc.trace("broadcast"):
        _broadcast_groups(asc, product, row_sums, rows, tiling.reduce_k)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("cast out"):
        out_mode = asc.device.arithmetic.softmax_grad_half_round_mode.mode
        groups = ceil_div(rows * tiling.reduce_k, LANES)
        asc.cast(call.dst, product, out_mode, None, groups, UnaryRepeatParams(1, 1, 4, 8))


def _row_sum(asc: AiCore, dst: LocalTensor, product: LocalTensor, rows: int, k: int) -> None:
    """dst[m] = sum of product[m, 0:k]: repeats added in order, then the 64 lanes as trees of datablocks."""
    row_blocks = k // E
    with asc.trace("reducesum"):
        for stripe in range(1, k // LANES):
            asc.pipe_barrier(Pipe.V)
            strides = BinaryRepeatParams(1, 1, 1, row_blocks, row_blocks, row_blocks)
            asc.add(product, product, product[stripe * LANES], None, rows, strides)
        asc.pipe_barrier(Pipe.V)
        asc.block_reduce_sum(product, product, rows, None, 1, 1, row_blocks)
        asc.pipe_barrier(Pipe.V)
        asc.block_reduce_sum(dst, product, ceil_div(rows, ROW_GROUP), None, 1, 1, E)
    asc.pipe_barrier(Pipe.V)


def _broadcast_groups(asc: AiCore, dst: LocalTensor, sums: LocalTensor, rows: int, width: int) -> None:
    """dst[m, 0:width] = sums[m] for whole groups of eight rows, however few of them are rows of the tile."""
    groups = ceil_div(rows, ROW_GROUP)
    if asc.device.has("brcb"):
        blocks = width // E
        for block in range(blocks):
            asc.brcb(dst[block * E], sums, groups, BrcbRepeatParams(blocks, ROW_GROUP * blocks))
        return
    wait_for_scalar(asc)
    for group in range(groups):
        first = group * ROW_GROUP
        fill_rows(asc, dst[first * width], [sums[first + i] for i in range(ROW_GROUP)], width)
    asc.reset_mask()
