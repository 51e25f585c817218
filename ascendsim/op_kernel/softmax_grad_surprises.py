"""Where the library's SoftmaxGrad does what its page does not say: found where the call is recorded.

Each rule applies only to calls in which the surprise really happens. What depends on the data, which recording does not
know (padding that is not zero), is reported as if the padding were not zero. docs/softmax-grad.md explains each.
"""

from collections.abc import Iterator

from ascendsim.dtypes import FLOAT
from ascendsim.errors import Rule
from ascendsim.op_kernel.softmax_grad_call import LANES, ROW_COUNTER, ROW_GROUP, Call
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
    condition="SoftmaxGrad with NZ format has padded columns that take part in the sums of at least one row.",
    archs=(2201, 2002),
)
BLOCK_PADDING = Rule(
    "W-SMG-BLOCKPAD",
    "SoftmaxGradFront with basic block sums all {wanted} columns, ori_src_k {got} is ignored",
    "zero the padded columns of grad or src, or leave is_basic_block False",
    _SEEN,
    condition="SoftmaxGradFront with basic block has fewer columns of data than columns, and its full passes "
    "sum them all.",
    archs=(2201, 2002),
)
BLOCK_ROWS = Rule(
    "E-SMG-BLOCKROWS",
    "SoftmaxGradFront with basic block and {got} rows a pass: the last pass writes {past} B behind dst",
    "give temp for passes of {wanted} rows or a multiple; the host's IsBasicBlockInSoftMax does not test this",
    _SEEN,
    condition="The last full pass of SoftmaxGradFront with basic block writes behind its destination, because "
    "the rows of a pass do not fill whole repeats.",
    archs=(2201, 2002),
)
ORI_ROWS = Rule(
    "I-SMG-ORIM",
    "SoftmaxGrad computes all {wanted} rows, ori_src_m {got} is ignored",
    "expect the padded rows to cost as much as the others",
    _SEEN,
    condition="SoftmaxGrad is called with fewer rows of data than the tiling has rows.",
    archs=(2201, 2002, 3002),
)
MASK_LEFT = Rule(
    "I-SMG-MASK",
    "SoftmaxGrad leaves the vector mask at its first {got} lanes instead of a full mask",
    "call reset_mask before an instruction that takes the mask as it is",
    _SEEN,
    condition="SoftmaxGrad returns with a vector mask that is not full.",
    archs=(2201, 3510, 2002),
)
STALE_WORDS = Rule(
    "I-SMG-STALE",
    "SoftmaxGrad adds row sums as whole datablocks, {got} words of each of which nobody wrote",
    "nothing to do: their results are not used; W-MEM-UNINIT at the library's Add and at its copy says the same",
    _SEEN,
    condition="SoftmaxGrad in ND sums rows of more than 64 columns of data by whole datablocks, most words of "
    "which hold old bytes.",
    archs=(2002,),
)
SLAB_MASK_LEFT = MASK_LEFT.saying(
    "SoftmaxGrad NZ leaves the vector mask at the data of the last slab, {got} of {wanted} lanes",
    "call reset_mask before an instruction that takes the mask as it is",
    _SEEN,
)
NO_BLOCKS = Rule(
    "I-SMG-NOBLOCKS",
    "SoftmaxGradFront has no basic-block sequence on {got}; the ordinary one runs",
    "nothing to do",
    "asc-devkit, SoftmaxGrad for 3510",
    condition="SoftmaxGradFront is called with basic block on an architecture that has no sequence of its own for it.",
    archs=(3510,),
)
PADDING_KEPT = Rule(
    "I-SMG-PADKEPT",
    "SoftmaxGrad writes only the {got} elements of dst that are data, of {wanted}; the others keep what they hold",
    "do not rely on the padded elements of dst",
    _SEEN,
    condition="SoftmaxGrad is called with padded rows or columns, which this architecture leaves as they are.",
    archs=(3510,),
)
NZ_SLABS = Rule(
    "W-SMG-NZSLABS",
    "SoftmaxGrad NZ masks the last slab only, to {lanes} of its columns: with ori_src_k {got} of {k} padded columns "
    "are summed",
    "pad the last axis to the next slab only, or zero the padded columns",
    _SEEN,
    condition="SoftmaxGrad with NZ format has padded columns outside the last slab of 16.",
    archs=(3510,),
)
NZ_TEMP = Rule(
    "E-SMG-NZTEMP",
    "SoftmaxGrad NZ works in {wanted} B of temp for {m} rows (two floats a row, 128 at a time), it has {got} B: "
    "{past} B are written behind it",
    "give the temp that many bytes; GetSoftMaxGradMinTmpSize asks for half of it with is_front",
    _SEEN,
    condition="SoftmaxGrad with NZ format has a temp of less than two floats a row.",
    archs=(3510,),
)
COUNTERS = Rule(
    "E-SMG-COUNTER",
    "SoftmaxGrad NZ of {got}: m, k and 16 * m must not exceed {wanted}, the library counts in 16 bits",
    "use smaller tiles",
    "asc-devkit, SoftmaxGrad for 3510",
    condition="In SoftmaxGrad with NZ format the rows, the columns or 16 times the rows do not fit into 16 bits.",
    archs=(3510,),
)
ROW_COUNT = Rule(
    "E-SMG-ROWS",
    "SoftmaxGrad counts the rows of a tile in eight bits: of {got} rows {wanted} are summed",
    "give temp for tiles of at most 255 rows",
    "asc-devkit, SoftmaxGrad for 3002",
    condition="A tile of SoftmaxGrad has 256 rows or more, of more than 64 columns of data.",
    archs=(3002,),
)
COUNTER_END = 1 << 16
"""First number that a 16-bit counter does not hold."""


def check_surprises(asc: AiCore, call: Call) -> None:
    """Report the surprises of a call that is about to run with this tiling."""
    tiling = call.tiling
    if asc.device.has("vector_function"):
        _check_vector_function(asc, call)
        return
    if tiling.split_m == 0:
        return
    if call.ori_m != tiling.src_m:
        asc.report(ORI_ROWS, operand="src", got=call.ori_m, wanted=tiling.src_m)
    if asc.device.has("register_vector"):
        _check_register(asc, call)
        return
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


def _check_vector_function(asc: AiCore, call: Call) -> None:
    """NZ masks the last slab only, and its temp holds two floats a row whatever the size functions say."""
    m, k, is_nz = call.tiling.src_m, call.tiling.src_k, call.data_format is DataFormat.NZ
    if is_nz and call.ori_k != k:
        lanes = call.ori_k % NZ_COLUMNS * ROWS_OF_REPEAT
        asc.report(SLAB_MASK_LEFT, operand="mask", got=lanes, wanted=LANES)
    data = (call.ori_m, call.ori_k)
    if data != (m, k):
        asc.report(PADDING_KEPT, operand="dst", got=f"{data[0]}x{data[1]}", wanted=f"{m}x{k}")
    if call.is_basic_block:
        asc.report(NO_BLOCKS, got=asc.device.name, wanted="is_basic_block False")
    if not is_nz:
        return
    if call.ori_k < k - NZ_COLUMNS:
        wanted = k - NZ_COLUMNS
        asc.report(NZ_SLABS, operand="src", got=call.ori_k, wanted=wanted, k=k, lanes=call.ori_k % NZ_COLUMNS)
    past = (2 * m - call.tmp.count) * FLOAT.bytes
    if past > 0:
        need = align_up(2 * m, 2 * LANES) * FLOAT.bytes
        asc.report(NZ_TEMP, operand="tmp", got=call.tmp.count * FLOAT.bytes, wanted=need, m=m, past=past)
    if max(m, k, NZ_COLUMNS * m) >= COUNTER_END:
        asc.report(COUNTERS, operand="src", got=f"{m}x{k}", wanted=COUNTER_END - 1)


def _check_register(asc: AiCore, call: Call) -> None:
    """Rows of a tile are counted in eight bits."""
    for rows in {rows for rows in _tiles(call) if rows >= ROW_COUNTER}:
        if call.ori_k > LANES:
            asc.report(ROW_COUNT, operand="src", got=rows, wanted=rows % ROW_COUNTER)


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
