"""Row sums and their broadcast for ND rows, where the library sums whole repeats and has no Brcb and no Copy.

Every row's broadcast goes through the scalar unit. Sums of stripes are added as whole datablocks of which only the
first element means something: the other words are what lay there before.
"""

from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import SoftMaxTiling
from ascendsim.op_kernel.softmax_grad_call import LANES, ROW_GROUP, Call, E, wait_for_scalar, whole_reduce_rows
from ascendsim.record import AiCore
from ascendsim.terms import Pipe


def row_sum(asc: AiCore, dst: LocalTensor, src: LocalTensor, scratch: LocalTensor, rows: int, call: Call) -> None:
    """dst[m, 0:reduce_k] = sum of src[m, 0:ori_k], stripe by stripe of 64 columns; `scratch` holds one stripe's."""
    shape, reduce_k = (rows, call.tiling.split_k), call.tiling.reduce_k
    with asc.trace("reducesum"):
        if call.ori_k <= LANES:
            whole_reduce_rows(asc, dst, src, shape, call.ori_k, reduce_k)
        else:
            _sum_stripes(asc, dst, src, scratch, shape, call)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("broadcast"):
        _spread(asc, dst, dst, (rows, reduce_k), reduce_k)


def _sum_stripes(
    asc: AiCore, dst: LocalTensor, src: LocalTensor, scratch: LocalTensor, shape: tuple[int, int], call: Call
) -> None:
    """dst[m, 0] = sum of more than 64 columns; the rest behind the last whole stripe is added last."""
    reduce_k = call.tiling.reduce_k
    count = shape[0] * reduce_k
    stripes, rest = divmod(call.ori_k, LANES)
    for stripe in range(stripes):
        whole_reduce_rows(asc, scratch, src[stripe * LANES], shape, LANES, reduce_k)
        asc.pipe_barrier(Pipe.V)
        if stripe == 0:
            asc.data_copy(dst, scratch, count)
        else:
            asc.add(dst, dst, scratch, count)
        asc.pipe_barrier(Pipe.V)
    if rest:
        whole_reduce_rows(asc, scratch, src[stripes * LANES], shape, rest, reduce_k)
        asc.pipe_barrier(Pipe.V)
        asc.add(dst, dst, scratch, count)


def broadcast_rows(asc: AiCore, dst: LocalTensor, src: LocalTensor, tiling: SoftMaxTiling) -> None:
    """dst[m, 0:k] = src[m, 0]. In a tail tile, too, all rows of a full tile are written, as the library does."""
    _spread(asc, dst, src, (tiling.reduce_m, tiling.src_k), tiling.reduce_k)


def _spread(asc: AiCore, dst: LocalTensor, src: LocalTensor, shape: tuple[int, int], sums_stride: int) -> None:
    """dst[m, 0:k] = src[m * sums_stride]: groups of eight rows, in each 64 columns of all rows, then the next 64."""
    rows, k = shape
    wait_for_scalar(asc)
    for first in range(0, rows, ROW_GROUP):
        group = range(first, min(first + ROW_GROUP, rows))
        values = [asc.get_value(src[m * sums_stride]) for m in group]
        for column in range(0, k, LANES):
            for m, value in zip(group, values, strict=True):
                asc.duplicate(dst[column + m * k], value, min(LANES, k - column), 1, 1, E)
