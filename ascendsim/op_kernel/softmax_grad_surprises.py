"""Where the library's SoftmaxGrad does what its page does not say: found where the call is recorded.

Each rule applies only to calls in which the surprise really happens. What depends on the data, which recording does not
know (padding that is not zero), is reported as if the padding were not zero. docs/softmax-grad.md explains each.
"""

from collections.abc import Iterator

from ascendsim.dtypes import FLOAT
from ascendsim.errors import Rule
from ascendsim.op_kernel.softmax_grad_call import LANES, ROW_GROUP, Call
from ascendsim.record import AiCore
from ascendsim.terms import DATABLOCK_BYTES, NZ_COLUMNS, DataFormat, align_up

_SEEN = "instruction sequence observed from the real library (docs/provenance.md)"
ROWS_OF_REPEAT = LANES // NZ_COLUMNS
"""Rows of an NZ slab that one repeat of floats holds."""

NZ_PADDING = Rule(
    "W-SMG-NZPAD",
    "SoftmaxGrad NZ sums padded columns in {got} of {m} rows (ori_src_k {ori_k} of {k})",
    "zero the padded columns of grad or src; otherwise row sums depend on the padding and on the temp size",
    _SEEN,
)
BLOCK_PADDING = Rule(
    "W-SMG-BLOCKPAD",
    "SoftmaxGradFront with basic block sums all {wanted} columns, ori_src_k {got} is ignored",
    "zero the padded columns of grad or src, or leave is_basic_block False",
    _SEEN,
)
BLOCK_ROWS = Rule(
    "E-SMG-BLOCKROWS",
    "SoftmaxGradFront with basic block and {got} rows a pass: the last pass writes {past} B behind dst",
    "give temp for passes of {wanted} rows or a multiple; the host's IsBasicBlockInSoftMax does not test this",
    _SEEN,
)
ORI_ROWS = Rule(
    "I-SMG-ORIM",
    "SoftmaxGrad computes all {wanted} rows, ori_src_m {got} is ignored",
    "expect the padded rows to cost as much as the others",
    _SEEN,
)
MASK_LEFT = Rule(
    "I-SMG-MASK",
    "SoftmaxGrad leaves the vector mask at its first {got} lanes instead of a full mask",
    "call reset_mask before an instruction that takes the mask as it is",
    _SEEN,
)
STALE_WORDS = Rule(
    "I-SMG-STALE",
    "SoftmaxGrad adds row sums as whole datablocks, {got} words of each of which nobody wrote",
    "nothing to do: their results are not used; W-MEM-UNINIT at the library's Add and at its copy says the same",
    _SEEN,
)


def check_surprises(asc: AiCore, call: Call, ori_m: int) -> None:
    """Report the surprises of a call that is about to run with this tiling."""
    tiling = call.tiling
    if tiling.split_m == 0:
        return
    if ori_m != tiling.src_m:
        asc.report(ORI_ROWS, operand="src", got=ori_m, wanted=tiling.src_m)
    if call.data_format is DataFormat.NZ:
        _check_nz(asc, call)
    elif call.is_basic_block:
        _check_basic_block(asc, call)
    if call.data_format is DataFormat.ND:
        _check_nd(asc, call)


def _tiles(call: Call) -> Iterator[int]:
    """Rows of each tile."""
    yield from [call.tiling.split_m] * call.tiling.range_m
    if call.tiling.tail_m:
        yield call.tiling.tail_m


def _check_nz(asc: AiCore, call: Call) -> None:
    """Padded columns are left out only in the last slab, and there only in rows behind whole groups of four."""
    m, k = call.tiling.src_m, call.tiling.src_k
    if call.ori_k == k:
        return
    in_last_slab = call.ori_k > k - NZ_COLUMNS
    if call.is_front or not in_last_slab:
        summed = m
    elif k == NZ_COLUMNS:
        summed = 0
    else:
        summed = sum(rows // ROWS_OF_REPEAT * ROWS_OF_REPEAT for rows in _tiles(call))
    if summed:
        asc.report(NZ_PADDING, operand="src", got=summed, wanted=0, m=m, k=k, ori_k=call.ori_k)


def _check_basic_block(asc: AiCore, call: Call) -> None:
    """The tiles of a basic-block call sum all columns, and the last of them may write behind dst."""
    tiling, width = call.tiling, call.src.dtype.bytes
    if tiling.range_m and call.ori_k != tiling.src_k:
        asc.report(BLOCK_PADDING, operand="src", got=call.ori_k, wanted=tiling.src_k)
    rows_written_together = LANES * width // DATABLOCK_BYTES
    end = (tiling.range_m - 1) * tiling.split_m + align_up(tiling.split_m, rows_written_together)
    if tiling.range_m and end > tiling.src_m:
        past = (end - tiling.src_m) * DATABLOCK_BYTES
        asc.report(BLOCK_ROWS, operand="dst", got=tiling.split_m, wanted=rows_written_together, past=past)


def _check_nd(asc: AiCore, call: Call) -> None:
    """Traces of the ordinary row sum, which a basic-block call uses for its tail only."""
    tiling = call.tiling
    has_blocks = asc.device.has("softmax_grad_block_reduce")
    last = tiling.tail_m or (0 if call.is_basic_block else tiling.split_m)
    if last == 0:
        return
    if call.ori_k > LANES and not has_blocks:
        asc.report(STALE_WORDS, operand="tmp", got=tiling.reduce_k - 1, wanted=0)
    if call.is_front and call.src.dtype is FLOAT and (last % ROW_GROUP or not has_blocks):
        asc.report(MASK_LEFT, operand="mask", got=tiling.reduce_k, wanted=LANES)
