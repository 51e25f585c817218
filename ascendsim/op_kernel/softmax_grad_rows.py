"""Row sums and their broadcast for ND rows, where the library reduces datablocks and copies blocks (Brcb, Copy)."""

from ascendsim.isa.forms import BinaryRepeatParams
from ascendsim.isa.move import BrcbRepeatParams, CopyRepeatParams, DataCopyParams
from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import SoftMaxTiling
from ascendsim.op_kernel.softmax_grad_call import LANES, ROW_GROUP, Call, E, wait_for_scalar, whole_reduce_rows
from ascendsim.record import AiCore
from ascendsim.terms import MAX_REPEAT_TIMES, HardEvent, Pipe


def row_sum(asc: AiCore, dst: LocalTensor, src: LocalTensor, scratch: LocalTensor, rows: int, call: Call) -> None:
    """dst[m, 0:reduce_k] = sum of src[m, 0:ori_k]. Sums gather in `scratch`; `dst` is work space until then."""
    k = call.tiling.split_k
    stripes, rest = divmod(call.ori_k, LANES)
    with asc.trace("reducesum"):
        if stripes:
            _sum_stripes(asc, scratch, src, dst, (rows, k), stripes)
        if rest:
            whole_reduce_rows(asc, dst, src[stripes * LANES], (rows, k), rest, 1)
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


def _broadcast_to_datablocks(asc: AiCore, dst: LocalTensor, src: LocalTensor, rows: int, reduce_k: int) -> None:
    """dst[m, 0:reduce_k] = src[m]: Brcb for groups of eight rows, the scalar unit for the rows that are left."""
    groups, rest = divmod(rows, ROW_GROUP)
    blocks = reduce_k // E
    if groups:
        for block in range(blocks):
            asc.brcb(dst[block * E], src, groups, BrcbRepeatParams(blocks, ROW_GROUP * blocks))
    if rest:
        s_to_v = asc.fetch_event_id(HardEvent.S_V)
        wait_for_scalar(asc)
        sums = [asc.get_value(src, groups * ROW_GROUP + i) for i in range(rest)]
        asc.set_flag(HardEvent.S_V, s_to_v)
        asc.wait_flag(HardEvent.S_V, s_to_v)
        for i, row_sum_value in enumerate(sums):
            asc.duplicate(dst[(groups * ROW_GROUP + i) * reduce_k], row_sum_value, reduce_k, 1, 1, E)


def broadcast_rows(asc: AiCore, dst: LocalTensor, src: LocalTensor, tiling: SoftMaxTiling) -> None:
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
