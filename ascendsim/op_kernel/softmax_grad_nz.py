"""SoftmaxGrad and SoftmaxGradFront for tensors in NZ, [k / 16, m, 16], as arch 2201 and 2002 issue them.

A tile is `split_m` rows of every slab; slab j of a tile lies at 16 * split_m * j in a region of temp. The regions, in
floats, with S = split_size and the row sums spread to [split_m, 16]:

    float        product 0..S, row sums S..
    half         src S, grad S, product then result S, row sums
    half front   src then product S, grad S, row sums

Slabs are added in order, then the two halves of a row, then a tree of eight. What is padding is masked only in the rows
of an incomplete last group of four, and never for front results.
Source: instruction sequences observed from the real library (docs/provenance.md).
"""

from collections.abc import Iterator

from ascendsim.dtypes import HALF
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.move import DataCopyParams
from ascendsim.isa.transpose import LIST_LENGTH, TransDataTo5HDParams
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
    whole_reduce_rows,
)
from ascendsim.record import AiCore
from ascendsim.terms import MAX_REPEAT_TIMES, NZ_COLUMNS, Pipe, RoundMode

EVERY_OTHER_BLOCK = BinaryRepeatParams(2, 2, 2, 16, 16, 16)
"""The first datablock of each row of 16 floats, eight rows in a repeat."""
GROUP_BLOCKS = 2 * ROW_GROUP
"""Datablocks of eight rows of 16 floats."""


def softmax_grad_nz(asc: AiCore, call: Call) -> None:
    """SoftmaxGrad, or with is_front only the row sums."""
    if call.src.dtype is HALF:
        tile = _half_front_tile if call.is_front else _half_tile
    else:
        tile = _float_front_tile if call.is_front else _float_tile
    for_full_tiles(tile, asc, call)
    asc.pipe_barrier(Pipe.V)
    for_tail(tile, asc, call)


def _float_tile(asc: AiCore, call: Call, rows: int) -> None:
    product, row_sums = call.tmp, call.tmp[call.tiling.split_size]
    _product_of_tensors(asc, call, product, rows)
    _row_sum(asc, row_sums, product, rows, call)
    _count_rows(asc, rows)
    with asc.trace("sub"):
        for at, in_tile in _slabs(call):
            asc.sub(product[in_tile], call.grad[at], row_sums, None, 1, BinaryRepeatParams())
    asc.pipe_barrier(Pipe.V)
    with asc.trace("mul by src"):
        for at, in_tile in _slabs(call):
            asc.mul(call.dst[at], product[in_tile], call.src[at], None, 1, BinaryRepeatParams())
    _full_mask(asc)


def _float_front_tile(asc: AiCore, call: Call, rows: int) -> None:
    product, row_sums = call.tmp, call.tmp[call.tiling.split_size]
    _product_of_tensors(asc, call, product, rows)
    _row_sum(asc, row_sums, product, rows, call)
    with asc.trace("copy out"):
        asc.data_copy(call.dst, row_sums, DataCopyParams(rows, 1, 1, 0))


def _half_tile(asc: AiCore, call: Call, rows: int) -> None:
    size, tmp = call.tiling.split_size, call.tmp
    src32, grad32, product, row_sums = tmp, tmp[size], tmp[2 * size], tmp[3 * size]
    _cast_in(asc, call, src32, grad32, rows)
    with asc.trace("mul"):
        for _, at in _slabs(call):
            asc.mul(product[at], src32[at], grad32[at], None, 1, BinaryRepeatParams())
    _full_mask(asc)
    asc.pipe_barrier(Pipe.V)
    _row_sum(asc, row_sums, product, rows, call)
    _count_rows(asc, rows)
    with asc.trace("sub"):
        for _, at in _slabs(call):
            asc.sub(grad32[at], grad32[at], row_sums, None, 1, BinaryRepeatParams())
    asc.pipe_barrier(Pipe.V)
    with asc.trace("mul by src"):
        for _, at in _slabs(call):
            asc.mul(product[at], grad32[at], src32[at], None, 1, BinaryRepeatParams())
    asc.pipe_barrier(Pipe.V)
    with asc.trace("cast out"):
        for at, in_tile in _slabs(call):
            _cast_out(asc, call.dst[at], product[in_tile])
    _full_mask(asc)


def _half_front_tile(asc: AiCore, call: Call, rows: int) -> None:
    size, tmp = call.tiling.split_size, call.tmp
    src32, grad32, row_sums = tmp, tmp[size], tmp[2 * size]
    _cast_in(asc, call, src32, grad32, rows)
    with asc.trace("mul"):
        for _, at in _slabs(call):
            asc.mul(src32[at], src32[at], grad32[at], None, 1, BinaryRepeatParams())
    _full_mask(asc)
    asc.pipe_barrier(Pipe.V)
    _row_sum(asc, row_sums, src32, rows, call)
    _count_rows(asc, rows)
    with asc.trace("cast out"):
        _cast_out(asc, call.dst, row_sums)
    _full_mask(asc)


def _slabs(call: Call) -> Iterator[tuple[int, int]]:
    """Of each slab: element offset of the tile's rows from the tile's start in the tensors, and in temp."""
    for slab in range(call.tiling.src_k // NZ_COLUMNS):
        yield slab * call.tiling.src_m * NZ_COLUMNS, slab * call.tiling.split_m * NZ_COLUMNS


def _count_rows(asc: AiCore, rows: int) -> None:
    """Counter mode over the rows of one slab."""
    asc.set_mask_count()
    asc.set_vector_mask(0, rows * NZ_COLUMNS)


def _full_mask(asc: AiCore) -> None:
    asc.set_mask_norm()
    asc.reset_mask()


def _product_of_tensors(asc: AiCore, call: Call, product: LocalTensor, rows: int) -> None:
    """The product src * grad of a float tile."""
    _count_rows(asc, rows)
    with asc.trace("mul"):
        for at, in_tile in _slabs(call):
            asc.mul(product[in_tile], call.src[at], call.grad[at], None, 1, BinaryRepeatParams())
    _full_mask(asc)
    asc.pipe_barrier(Pipe.V)


def _cast_in(asc: AiCore, call: Call, src32: LocalTensor, grad32: LocalTensor, rows: int) -> None:
    """Both sources of a half tile as floats; counter mode stays on."""
    _count_rows(asc, rows)
    with asc.trace("cast in"):
        for at, in_tile in _slabs(call):
            for out, tensor in ((src32, call.src), (grad32, call.grad)):
                asc.cast(out[in_tile], tensor[at], RoundMode.CAST_NONE, None, 1, UnaryRepeatParams(1, 1, 8, 4))
    asc.pipe_barrier(Pipe.V)


def _cast_out(asc: AiCore, dst: LocalTensor, src: LocalTensor) -> None:
    """Floats to half, as many as the mask counts."""
    mode = asc.device.arithmetic.softmax_grad_half_round_mode.mode
    asc.cast(dst, src, mode, None, 1, UnaryRepeatParams(1, 1, 4, 8))


def _row_sum(asc: AiCore, dst: LocalTensor, product: LocalTensor, rows: int, call: Call) -> None:
    """dst[m, 0:16] = sum of row m of the product. In a tail, too, the rows of a full tile are reduced."""
    slabs = call.tiling.src_k // NZ_COLUMNS
    data = NZ_COLUMNS if call.is_front else call.ori_k % NZ_COLUMNS or NZ_COLUMNS
    if slabs == 1 and data < NZ_COLUMNS:
        with asc.trace("reducesum"):
            whole_reduce_rows(asc, dst, product, (call.tiling.split_m, NZ_COLUMNS), data, NZ_COLUMNS)
        with asc.trace("broadcast"):
            _fill_by_scalar(asc, dst, [dst[i * NZ_COLUMNS] for i in range(rows)])
    else:
        with asc.trace("reducesum"):
            if slabs > 1:
                _add_slabs(asc, dst, product, rows, (slabs, data), call)
            _reduce_rows(asc, dst, dst if slabs > 1 else product, call.tiling.split_m)
        with asc.trace("broadcast"):
            if rows % ROW_GROUP:
                at = [i // ROW_GROUP * ROW_GROUP * NZ_COLUMNS + i % ROW_GROUP for i in range(rows)]
                _fill_by_scalar(asc, dst, [dst[i] for i in at])
            else:
                asc.pipe_barrier(Pipe.V)
                _fill_by_transpose(asc, dst, rows // ROW_GROUP)
    asc.pipe_barrier(Pipe.V)


def _add_slabs(
    asc: AiCore, dst: LocalTensor, product: LocalTensor, rows: int, slabs: tuple[int, int], call: Call
) -> None:
    """dst[m, 0:16] = the slabs of row m, added in order. `slabs`: how many, and the columns of data in the last."""
    number, data = slabs
    pitch = call.tiling.split_m * NZ_COLUMNS
    _count_rows(asc, rows)
    asc.muls(dst, product, 1.0, None, 1, UnaryRepeatParams())
    asc.pipe_barrier(Pipe.V)
    for slab in range(1, number - 1):
        asc.add(dst, dst, product[slab * pitch], None, 1, BinaryRepeatParams())
        asc.pipe_barrier(Pipe.V)
    _full_mask(asc)
    _add_last_slab(asc, dst, product[(number - 1) * pitch], rows, data)
    asc.pipe_barrier(Pipe.V)


def _add_last_slab(asc: AiCore, dst: LocalTensor, slab: LocalTensor, rows: int, data: int) -> None:
    """Add the last slab: all columns in whole repeats (four rows), only columns of data in the rows behind them."""
    repeats, rest = divmod(rows * NZ_COLUMNS, LANES)
    for first in range(0, repeats, MAX_REPEAT_TIMES):
        at = first * LANES
        asc.add(dst[at], dst[at], slab[at], LANES, min(MAX_REPEAT_TIMES, repeats - first), BinaryRepeatParams())
    if rest:
        at = repeats * LANES
        columns = (1 << data) - 1
        mask = sum(columns << (row * NZ_COLUMNS) for row in range(rest // NZ_COLUMNS))
        asc.add(dst[at], dst[at], slab[at], (mask, 0), 1, BinaryRepeatParams())


def _reduce_rows(asc: AiCore, dst: LocalTensor, src: LocalTensor, rows: int) -> None:
    """dst[128 * group + i] = sum of the 16 floats of row i of a group of eight."""
    asc.set_mask_count()
    asc.set_vector_mask(0, rows * E)
    asc.add(dst, src, src[E], None, 1, EVERY_OTHER_BLOCK)
    asc.pipe_barrier(Pipe.V)
    asc.block_reduce_sum(dst, dst, rows // ROW_GROUP, None, GROUP_BLOCKS, 2, GROUP_BLOCKS)
    _full_mask(asc)


def _fill_by_scalar(asc: AiCore, dst: LocalTensor, sums: list[LocalTensor]) -> None:
    """dst[m, 0:16] = sums[m][0], by the scalar unit."""
    wait_for_scalar(asc)
    fill_rows(asc, dst, sums, NZ_COLUMNS)
    asc.reset_mask()


def _fill_by_transpose(asc: AiCore, dst: LocalTensor, groups: int) -> None:
    """dst[m, 0:16] = the sum of row m: a group's datablock of eight sums sixteen times, transposed in place."""
    for group in range(groups):
        at = dst[group * ROW_GROUP * NZ_COLUMNS]
        asc.muls(at, at, 1.0, None, 2, UnaryRepeatParams(1, 0, 8, 0))
    asc.pipe_barrier(Pipe.V)
    blocks = [dst[i * E] for i in range(LIST_LENGTH)]
    stride = GROUP_BLOCKS if groups > 1 else 0
    asc.trans_data_to5hd(blocks, blocks, TransDataTo5HDParams(False, False, groups, stride, stride))
