"""What a SimpleSoftMax call must keep, checked where the call is recorded."""

from dataclasses import dataclass

from ascendsim.dtypes import FLOAT, HALF
from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import SoftMaxInputError, SoftMaxTiling, is_basic_block_shape
from ascendsim.op_host.softmax_family import soft_max_kernel_tiling, soft_max_row_floats
from ascendsim.op_kernel import call_checks
from ascendsim.op_kernel.call_checks import TMP_SMALL, Place
from ascendsim.op_kernel.softmax_grad_call import SoftMaxShapeInfo
from ascendsim.op_kernel.softmax_grad_checks import BASIC_BLOCK, NO_TILE
from ascendsim.record import AiCore
from ascendsim.terms import REPEAT_BYTES

API = "SimpleSoftMax"
_PAGE = "asc-devkit docs, SimpleSoftMax page"

SIMPLE_BASIC_BLOCK = BASIC_BLOCK.saying(
    "SimpleSoftMax with basic block needs rows % 8 == 0, last axis % 64 == 0 and {low} <= last axis < 2048, "
    "the shape is {got}",
    source=_PAGE,
)
BASIC_BLOCK_TAIL = BASIC_BLOCK.saying(
    "SimpleSoftMax with basic block computes whole tiles only: the last {got} rows stay as they are (tail_m)",
    "make a tiling whose tiles divide the rows (IsBasicBlockInSoftMax), or leave is_basic_block False",
    "asc-devkit, SimpleSoftMax kernel for half",
)
SIMPLE_NO_TILE = NO_TILE.saying(
    "SimpleSoftMax of half finds no row that fits its temp (split_m 0): nothing is computed, or it divides by zero",
    "compute the tiling with at least GetSoftMaxMinTmpSize bytes, and give the temp as many",
    "asc-devkit, softmax tiling and kernel loops",
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call: operands, temp as floats, and the tiling in force."""

    dst: LocalTensor
    in_sum: LocalTensor
    in_max: LocalTensor
    src: LocalTensor
    tmp: LocalTensor
    tiling: SoftMaxTiling
    is_basic_block: bool

    @property
    def is_half(self) -> bool:
        """Whether the data is half, which is computed in float in temp."""
        return self.src.dtype is HALF

    def tile(self, number: int) -> "Call":
        """The same call on the rows from tile `number` on."""
        at, sums_at = number * self.tiling.split_size, number * self.tiling.split_m * self.in_sum.dtype.per_datablock
        return Call(
            self.dst[at],
            self.in_sum[sums_at],
            self.in_max[sums_at],
            self.src[at],
            self.tmp,
            self.tiling,
            self.is_basic_block,
        )


def check_arguments(asc: AiCore, call: Call, shape: SoftMaxShapeInfo) -> None:
    """Report what a call breaks; `call.tmp` is the temp as it was passed in."""
    m, k, src = shape.src_m, shape.src_k, call.src
    call_checks.check_type(asc, API, "src", src.dtype, (HALF, FLOAT))
    call_checks.check_type(asc, API, "dst", call.dst.dtype, (src.dtype,))
    call_checks.check_type(asc, API, "in_sum", call.in_sum.dtype, (HALF, FLOAT) if call.is_half else (FLOAT,))
    call_checks.check_type(asc, API, "in_max", call.in_max.dtype, (call.in_sum.dtype,))
    dst, source = Place("dst", call.dst, m * k), Place("src", src, m * k)
    sums = [Place(n, t, m * t.dtype.per_datablock) for n, t in (("in_sum", call.in_sum), ("in_max", call.in_max))]
    call_checks.check_lengths(asc, API, (dst, *sums, source), f"{m}x{k}")
    call_checks.check_last_axis(asc, API, "src", k, src.dtype)
    if call.is_basic_block and not is_basic_block_shape(m, k, src.dtype.bytes):
        low = REPEAT_BYTES // src.dtype.bytes
        asc.report(SIMPLE_BASIC_BLOCK, operand="src", got=f"{m}x{k}", wanted="whole basic blocks", low=low)
    _check_tmp(asc, call, (m, k))
    call_checks.check_tmp_apart(asc, API, call.tmp, (dst, *sums, source))
    call_checks.check_reused(asc, API, dst, source)
    call_checks.check_apart(asc, API, dst, sums)


def _check_tmp(asc: AiCore, call: Call, shape: tuple[int, int]) -> None:
    tmp = call.tmp
    call_checks.check_tmp_type(asc, tmp)
    have = tmp.count * tmp.dtype.bytes
    need = 4 * soft_max_row_floats(shape[1], call.in_sum.dtype.bytes)
    if have < need:
        fill = {"api": API, "shape": f"last axis {shape[1]}", "function": "GetSoftMaxMinTmpSize"}
        asc.report(TMP_SMALL, operand="shared_tmp_buffer", got=have, wanted=need, **fill)


def retile(asc: AiCore, call: Call, shape: SoftMaxShapeInfo) -> SoftMaxTiling:
    """Return the tiling of a shape that is not the host tiling's; a temp without a row ends the recording."""
    sizes = call.src.dtype.bytes, call.in_sum.dtype.bytes
    try:
        return soft_max_kernel_tiling(
            (shape.src_m, shape.src_k), shape.ori_src_m, *sizes, call.tmp.count, is_basic_block=call.is_basic_block
        )
    except SoftMaxInputError as error:
        raise asc.reject(SIMPLE_NO_TILE, got=0, wanted="at least 1") from error


def check_tiles(asc: AiCore, call: Call) -> None:
    """Report tiles of half data that leave rows out; float data is not cut into tiles."""
    if not call.is_half:
        return
    if call.tiling.split_m == 0:
        asc.report(SIMPLE_NO_TILE, got=0, wanted="at least 1")
    if call.is_basic_block and call.tiling.tail_m:
        asc.report(BASIC_BLOCK_TAIL, operand="tiling", got=call.tiling.tail_m, wanted=0)
