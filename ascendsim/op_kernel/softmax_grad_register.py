"""SoftmaxGrad in ND for devices whose vector unit works through registers (arch 3002).

Like the sequence of arch 2201 in the temp's first regions, but a row sum is spread to one datablock only; Sub then
reads it with a source block stride of 0. The scratch behind takes 64 floats a row. Temp in floats, with S = split_size
and Q = reduce_size:

    float        product 0..S, row sums Q, scratch 64 a row (front: product, scratch; row sums go straight to dst)
    half         src S, grad S, product then result S, row sums Q, scratch (front: scratch on src, sums behind Q)

Up to 64 columns a row is summed at once and the scratch holds eight floats a row. V is not told to wait anywhere.
Rows of 2,048 elements and more (repeat strides beyond 255) are worked off one by one; what the library does then is
not known. Sources: asc-devkit docs, SoftmaxGrad page; operations observed from the real library (docs/provenance.md).
"""

from ascendsim.dtypes import HALF
from ascendsim.isa.forms import BinaryRepeatParams
from ascendsim.isa.move import BrcbRepeatParams, DataCopyParams
from ascendsim.memory import LocalTensor
from ascendsim.op_kernel.softmax_grad_call import LANES, ROW_COUNTER, ROW_GROUP, Call, E, for_each_tile
from ascendsim.record import AiCore
from ascendsim.terms import MAX_REPEAT_TIMES, RoundMode, ceil_div


def softmax_grad_register(asc: AiCore, call: Call) -> None:
    """SoftmaxGrad or SoftmaxGradFront in ND."""
    for_each_tile(_half_tile if call.src.dtype is HALF else _float_tile, asc, call)


def _float_tile(asc: AiCore, call: Call, rows: int) -> None:
    tiling, tmp = call.tiling, call.tmp
    product = tmp
    row_sums = call.dst if call.is_front else tmp[tiling.split_size]
    scratch = tmp[tiling.split_size + (0 if call.is_front else tiling.reduce_size)]
    with asc.trace("mul"):
        asc.mul(product, call.src, call.grad, rows * tiling.split_k)
    _row_sums(asc, row_sums, (product, scratch), rows, call)
    with asc.trace("broadcast"):
        asc.brcb(scratch, row_sums, ceil_div(rows, ROW_GROUP), BrcbRepeatParams(1, ROW_GROUP))
        asc.data_copy(row_sums, scratch, DataCopyParams(1, rows))
    if call.is_front:
        return
    with asc.trace("sub"):
        _subtract(asc, product, call.grad, row_sums, rows, call)
    with asc.trace("mul by src"):
        asc.mul(call.dst, call.src, product, rows * tiling.split_k)


def _half_tile(asc: AiCore, call: Call, rows: int) -> None:
    tiling, tmp = call.tiling, call.tmp
    count = rows * tiling.split_k
    src32, grad32, product = tmp, tmp[tiling.split_size], tmp[2 * tiling.split_size]
    behind = tmp[3 * tiling.split_size]
    row_sums = behind[tiling.reduce_size] if call.is_front else behind
    scratch = src32 if call.is_front else behind[tiling.reduce_size]
    out_mode = asc.device.arithmetic.softmax_grad_half_round_mode.mode
    with asc.trace("cast in"):
        asc.cast(src32, call.src, RoundMode.CAST_NONE, count)
        asc.cast(grad32, call.grad, RoundMode.CAST_NONE, count)
    with asc.trace("mul"):
        asc.mul(product, src32, grad32, count)
    _row_sums(asc, row_sums, (product, scratch), rows, call)
    with asc.trace("broadcast"):
        asc.brcb(scratch, row_sums, ceil_div(rows, ROW_GROUP), BrcbRepeatParams(1, ROW_GROUP))
        for part in range(0, tiling.reduce_k, E):
            asc.data_copy(row_sums[part], scratch, DataCopyParams(rows, 1, 0, tiling.reduce_k // E - 1))
    if call.is_front:
        with asc.trace("cast out"):
            asc.cast(call.dst, row_sums, out_mode, rows * tiling.reduce_k)
        return
    with asc.trace("sub"):
        _subtract(asc, product, grad32, row_sums, rows, call)
    with asc.trace("mul by src"):
        asc.mul(product, product, src32, count)
    with asc.trace("cast out"):
        asc.cast(call.dst, product, out_mode, count)


def _row_sums(asc: AiCore, sums: LocalTensor, places: tuple[LocalTensor, LocalTensor], rows: int, call: Call) -> None:
    """sums[m] = sum of product[m, 0:ori_k], of places (product, scratch): stripes of 64 columns side by side first."""
    product, scratch = places
    k = call.tiling.split_k
    with asc.trace("reducesum"):
        if call.ori_k <= LANES:
            for first in range(0, rows, MAX_REPEAT_TIMES):
                repeat = min(MAX_REPEAT_TIMES, rows - first)
                asc.whole_reduce_sum(sums[first], product[first * k], call.ori_k, repeat, 1, 1, k // E)
            return
        repeat = rows % ROW_COUNTER
        asc.data_copy(scratch, product, DataCopyParams(rows, LANES // E, k // E - LANES // E, 0))
        for first in range(LANES, call.ori_k, LANES):
            columns = min(LANES, call.ori_k - first)
            for row, times, stride in _row_steps(repeat, k):
                addend = product[row * k + first]
                acc = scratch[row * LANES]
                asc.add(acc, acc, addend, columns, times, BinaryRepeatParams(1, 1, 1, LANES // E, LANES // E, stride))
        asc.whole_reduce_sum(sums, scratch, LANES, repeat, 1, 1, LANES // E)


def _row_steps(rows: int, k: int) -> list[tuple[int, int, int]]:
    """(first row, repeats, repeat stride): all rows at once, or one by one where the stride does not fit its field."""
    if k // E <= MAX_REPEAT_TIMES:
        return [(0, rows, k // E)]
    return [(row, 1, 0) for row in range(rows)]


def _subtract(asc: AiCore, dst: LocalTensor, grad: LocalTensor, row_sums: LocalTensor, rows: int, call: Call) -> None:
    """dst[m, :] = grad[m, :] - row_sums[m], which is one block for all columns of a row."""
    k, blocks = call.tiling.split_k, call.tiling.reduce_k // E
    if k < LANES:
        _subtract_columns(asc, dst, grad, row_sums, rows, call)
        return
    for first in range(0, k, LANES):
        columns = min(LANES, k - first)
        for row, repeat, stride in _chunks(rows, k):
            at = row * k + first
            params = BinaryRepeatParams(1, 1, 0, stride, stride, blocks)
            asc.sub(dst[at], grad[at], row_sums[row * call.tiling.reduce_k], columns, repeat, params)


def _chunks(rows: int, k: int) -> list[tuple[int, int, int]]:
    """(first row, repeats, repeat stride) that cover all rows within the repeat field."""
    steps = [(first, min(MAX_REPEAT_TIMES, rows - first)) for first in range(0, rows, MAX_REPEAT_TIMES)]
    return [(first + row, times, stride) for first, n in steps for row, times, stride in _row_steps(n, k)]


def _subtract_columns(
    asc: AiCore, dst: LocalTensor, grad: LocalTensor, row_sums: LocalTensor, rows: int, call: Call
) -> None:
    """As `_subtract` for rows shorter than a repeat: one datablock of eight rows a repeat, then the rows left."""
    k, blocks = call.tiling.split_k, call.tiling.reduce_k // E
    whole, rest = divmod(rows, ROW_GROUP)
    params = BinaryRepeatParams(k // E, k // E, blocks, k, k, ROW_GROUP * blocks)
    for column in range(0, k, E):
        for first in range(0, max(1, whole), MAX_REPEAT_TIMES):
            repeat = min(MAX_REPEAT_TIMES, whole - first)
            at = first * ROW_GROUP * k + column
            asc.sub(dst[at], grad[at], row_sums[first * ROW_GROUP * call.tiling.reduce_k], LANES, repeat, params)
    if rest:
        for column in range(0, k, E):
            at = whole * ROW_GROUP * k + column
            sums = row_sums[whole * ROW_GROUP * call.tiling.reduce_k]
            asc.sub(dst[at], grad[at], sums, rest * E, 1, params)
