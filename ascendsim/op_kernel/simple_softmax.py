"""SimpleSoftMax for tensors in UB: dst = exp(src - max) / sum, with row maxima and sums that are given.

    float            in dst, no temp. Basic block: a Sub and a Div for each 64 columns of all rows, one Exp. Otherwise
                     rows below 192 columns go datablock by datablock for all rows, longer ones row by row
    half             tiles of rows, cast to float in temp and the result back

    temp of a tile of half, in floats, with S = split_size: data S [, max then sum, where they are half]

Each element is subtracted, exponentiated and divided once, all in float, so both forms give the same bits.
Sources: asc-devkit docs, SimpleSoftMax page; sequences read in asc-devkit's library (docs/provenance.md).
"""

from collections.abc import Callable
from dataclasses import replace

from ascendsim.dtypes import FLOAT
from ascendsim.isa.forms import BinaryCall, BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.instruction import need_local
from ascendsim.isa.params import need_bool
from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import SoftMaxTiling
from ascendsim.op_kernel.call_checks import need_memory_vector
from ascendsim.op_kernel.simple_softmax_checks import API, Call, check_arguments, check_tiles, retile
from ascendsim.op_kernel.softmax_grad_call import LANES, E, SoftMaxShapeInfo
from ascendsim.record import AiCore
from ascendsim.terms import Pipe, RoundMode, ceil_div

__all__ = ["simple_softmax"]

ROW_COLUMNS = 192
"""From so many columns on, rows are subtracted and divided one by one."""
WIDEN = UnaryRepeatParams(1, 1, 8, 4)
NARROW = UnaryRepeatParams(1, 1, 4, 8)
"""Strides of a Cast from half to float, and back."""

Tile = Callable[[AiCore, Call, int], None]
"""The instructions of one tile of so many rows."""


def simple_softmax(
    asc: AiCore,
    dst: LocalTensor,
    in_sum: LocalTensor,
    in_max: LocalTensor,
    src: LocalTensor,
    shared_tmp_buffer: LocalTensor | None,
    tiling: SoftMaxTiling,
    shape_info: SoftMaxShapeInfo | None = None,
    *,
    is_basic_block: bool = False,
) -> None:
    """SimpleSoftMax for ND: dst[m, k] = exp(src[m, k] - in_max[m]) / in_sum[m].

    Args:
        asc: the core.
        dst: [src_m, src_k], half or float; may be src.
        in_sum: [src_m, one datablock], the sum of a row in each element; src's type, or float where src is half.
        in_max: like in_sum, the maximum of a row.
        src: like dst.
        shared_tmp_buffer: temp of uint8_t; None takes the framework's. Float data leaves it alone.
        tiling: from soft_max_tiling_func for the type of in_sum; recomputed here if its shape differs from shape_info.
        shape_info: shape in UB if it differs from tiling's.
        is_basic_block: rows % 8 == 0, columns % 64 == 0, 256 B <= a row, columns < 2048.

    Raises:
        KernelError: a part whose library is not modelled.
        Rejected: half data of another shape than the tiling's, with a temp that no row fits.
    """
    need_memory_vector(asc, API)
    for arg, tensor in (("dst", dst), ("in_sum", in_sum), ("in_max", in_max), ("src", src)):
        need_local(asc, API, arg, tensor)
    need_bool(asc, API, "is_basic_block", is_basic_block)
    tmp = asc.pop_stack_buffer("uint8_t") if shared_tmp_buffer is None else shared_tmp_buffer
    call = Call(dst, in_sum, in_max, src, tmp, tiling, is_basic_block)
    shape = shape_info or SoftMaxShapeInfo(tiling.src_m, tiling.src_k, tiling.src_m, tiling.src_k)
    check_arguments(asc, call, shape)
    call = replace(call, tmp=tmp.reinterpret_cast(FLOAT))
    if (shape.src_m, shape.src_k) != (tiling.src_m, tiling.src_k):
        call = replace(call, tiling=retile(asc, call, shape))
    check_tiles(asc, call)
    with asc.trace(API):
        asc.set_mask_norm()
        asc.reset_mask()
        _sequence(call)(asc, call)


def _sequence(call: Call) -> Callable[[AiCore, Call], None]:
    if call.is_half:
        return _half_basic_block if call.is_basic_block else _half_rows
    return _float_basic_block if call.is_basic_block else _float_rows


# ---- float ----------------------------------------------------------------------------------------------------------


def _float_basic_block(asc: AiCore, call: Call) -> None:
    """All rows at once, 64 columns an instruction, in counter mode; no barrier between those of a step."""
    rows, k, dst = call.tiling.src_m, call.tiling.src_k, call.dst
    strides = BinaryRepeatParams(1, 1, 0, k // E, k // E, 1)
    stripes = range(0, k, LANES)
    asc.pipe_barrier(Pipe.V)
    asc.set_mask_count()
    asc.set_vector_mask(0, rows * LANES)
    with asc.trace("sub"):
        for at in stripes:
            asc.sub(dst[at], call.src[at], call.in_max, None, 1, strides)
    asc.set_vector_mask(0, rows * k)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("exp"):
        asc.exp(dst, dst, None, 1, UnaryRepeatParams())
    asc.pipe_barrier(Pipe.V)
    asc.set_vector_mask(0, rows * LANES)
    with asc.trace("div"):
        for at in stripes:
            asc.div(dst[at], dst[at], call.in_sum, None, 1, strides)
    asc.set_mask_norm()
    asc.reset_mask()


def _float_rows(asc: AiCore, call: Call) -> None:
    rows, k, dst = call.tiling.src_m, call.tiling.src_k, call.dst
    with asc.trace("sub"):
        _with_each_row(asc, asc.sub, (dst, call.src, call.in_max), (rows, k), E)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("exp"):
        asc.exp(dst, dst, rows * k)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("div"):
        _with_each_row(asc, asc.div, (dst, dst, call.in_sum), (rows, k), E)


def _with_each_row(
    asc: AiCore,
    op: BinaryCall,
    operands: tuple[LocalTensor, LocalTensor, LocalTensor],
    shape: tuple[int, int],
    row_floats: int,
) -> None:
    """dst[m, k] = op(src0[m, k], src1[m]) of floats, where a row of src1 takes `row_floats`; counter mode inside."""
    (rows, k), (dst, src0, src1) = shape, operands
    asc.set_mask_count()
    if k < ROW_COLUMNS:
        blocks = k // E
        strides = BinaryRepeatParams(blocks, blocks, row_floats // E, k, k, row_floats)
        asc.set_vector_mask(0, rows * E)
        for block in range(blocks):
            op(dst[block * E], src0[block * E], src1, None, 1, strides)
    else:
        asc.set_vector_mask(0, k)
        for row in range(rows):
            op(dst[row * k], src0[row * k], src1[row * row_floats], None, 1, BinaryRepeatParams(1, 1, 0, 8, 8, 0))
    asc.set_mask_norm()
    asc.reset_mask()


# ---- half -----------------------------------------------------------------------------------------------------------


def _half_rows(asc: AiCore, call: Call) -> None:
    """Full tiles, then the rows that are left."""
    tiling = call.tiling
    asc.pipe_barrier(Pipe.V)
    for number in range(tiling.range_m):
        _half_tile(asc, call.tile(number), tiling.split_m)
    asc.pipe_barrier(Pipe.V)
    if tiling.tail_m:
        _half_tile(asc, call.tile(tiling.range_m), tiling.tail_m)


def _half_tile(asc: AiCore, call: Call, rows: int) -> None:
    """A tile in the count forms. With float maxima Exp takes a full tile's elements in the last one, too."""
    tiling, data = call.tiling, call.tmp
    k, count = tiling.split_k, rows * tiling.split_k
    has_float_sums, row_floats = call.in_sum.dtype is FLOAT, call.in_sum.dtype.per_datablock
    spread = data[tiling.split_size]
    in_max = call.in_max if has_float_sums else spread
    with asc.trace("cast in"):
        asc.cast(data, call.src, RoundMode.CAST_NONE, count)
        if not has_float_sums:
            asc.cast(spread, call.in_max, RoundMode.CAST_NONE, rows * row_floats)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("sub"):
        _with_each_row(asc, asc.sub, (data, data, in_max), (rows, k), row_floats)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("exp"):
        asc.exp(data, data, tiling.split_size if has_float_sums else count)
        if not has_float_sums:
            asc.cast(spread, call.in_sum, RoundMode.CAST_NONE, rows * row_floats)
    asc.pipe_barrier(Pipe.V)
    in_sum = call.in_sum if has_float_sums else spread
    with asc.trace("div"):
        _with_each_row(asc, asc.div, (data, data, in_sum), (rows, k), row_floats)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("cast out"):
        asc.cast(call.dst, data, asc.device.arithmetic.softmax_grad_half_round_mode.mode, count)


def _half_basic_block(asc: AiCore, call: Call) -> None:
    """Full tiles only."""
    asc.pipe_barrier(Pipe.V)
    for number in range(call.tiling.range_m):
        _half_block_tile(asc, call.tile(number))


def _half_block_tile(asc: AiCore, call: Call) -> None:
    """A full tile in whole repeats under a full mask."""
    tiling, data = call.tiling, call.tmp
    rows, repeat, blocks = tiling.split_m, tiling.split_size // LANES, tiling.split_k // E
    spread, stripes = data[tiling.split_size], range(0, tiling.split_k, LANES)
    has_float_sums, row_floats = call.in_sum.dtype is FLOAT, call.in_sum.dtype.per_datablock
    row_repeats = ceil_div(rows * row_floats, LANES)
    in_max, in_sum = (call.in_max, call.in_sum) if has_float_sums else (spread, spread)
    strides = BinaryRepeatParams(1, 1, 0, blocks, blocks, row_floats // E)
    with asc.trace("cast in"):
        if not has_float_sums:
            asc.cast(spread, call.in_max, RoundMode.CAST_NONE, None, row_repeats, WIDEN)
        asc.cast(data, call.src, RoundMode.CAST_NONE, None, repeat, WIDEN)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("sub"):
        for at in stripes:
            asc.sub(data[at], data[at], in_max, None, rows, strides)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("exp"):
        asc.exp(data, data, None, repeat, UnaryRepeatParams())
        if not has_float_sums:
            asc.cast(spread, call.in_sum, RoundMode.CAST_NONE, None, row_repeats, WIDEN)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("div"):
        for at in stripes:
            asc.div(data[at], data[at], in_sum, None, rows, strides)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("cast out"):
        out_mode = asc.device.arithmetic.softmax_grad_half_round_mode.mode
        asc.cast(call.dst, data, out_mode, None, repeat, NARROW)
