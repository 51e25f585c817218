"""What a SoftmaxGrad call must keep, checked where the call is recorded.

The vendor's own checker demands equal sizes of dst and src even for front results; the public page asks for one
datablock a row there, which is what is checked here.
"""

from ascendsim.dtypes import FLOAT, HALF
from ascendsim.errors import Rule
from ascendsim.op_host.softmax import (
    SoftMaxInputError,
    SoftMaxTiling,
    is_basic_block_shape,
    row_cost_floats,
    row_sum_floats,
    soft_max_grad_kernel_tiling,
)
from ascendsim.op_kernel import call_checks
from ascendsim.op_kernel.call_checks import TMP_SMALL, Place
from ascendsim.op_kernel.softmax_grad_call import Call, SoftMaxShapeInfo
from ascendsim.record import AiCore
from ascendsim.terms import DATABLOCK_BYTES, NZ_COLUMNS, REPEAT_BYTES, DataFormat, align_up

_API = "SoftmaxGrad"
_PAGE = "asc-devkit docs, SoftmaxGrad page"

DTYPE = Rule(
    "E-SMG-DTYPE",
    "SoftmaxGrad {operand} is {got}; it supports {wanted}",
    "cast to half or float",
    _PAGE,
    condition="A tensor of a SoftmaxGrad call is neither half nor float, or not of the type of src.",
    archs=(2201, 3510, 2002, 3002),
)
SHAPE = Rule(
    "E-SMG-SHAPE",
    "SoftmaxGrad {operand} has {got} elements, the shape {m}x{k} needs {wanted}",
    "allocate the padded shape",
    _PAGE,
    condition="A tensor of a SoftmaxGrad call has fewer elements than the shape of the call needs.",
)
LAST_AXIS = call_checks.LAST_AXIS.saying(
    "SoftmaxGrad last axis {got} is {row_bytes} B, no multiple of 32 B",
    "pad the last axis to {wanted} elements and pass the real length as ori_src_k",
    _PAGE,
)
NZ_AXIS = Rule(
    "E-SMG-NZ",
    "SoftmaxGrad last axis {got} is no multiple of {wanted} elements, the columns of an NZ slab",
    "pad the last axis to whole slabs and pass the real length as ori_src_k",
    f"{_PAGE}, SoftMaxShapeInfo; asc-devkit docs, data formats",
    condition="SoftmaxGrad with NZ format has a last axis that is no multiple of 16 elements.",
)
MODE = Rule(
    "E-MODE-NZ",
    "NZ format and basic block are not supported on {got}",
    "use ND without is_basic_block, or another device",
    f"{_PAGE}, table 1",
    condition="SoftmaxGrad is called with NZ format or basic block on an architecture that works through vector"
    " registers.",
    archs=(3002,),
)
BASIC_BLOCK = Rule(
    "E-SMG-BASIC",
    "basic block needs rows % 8 == 0, last axis % 64 == 0 and {low} <= last axis < 2048, the shape is {got}",
    "leave is_basic_block False for such shapes",
    "asc-devkit docs, SoftmaxGradFront page",
    condition="SoftmaxGradFront in ND, or SimpleSoftMax, is called with basic block and rows that are no multiple of "
    "8, a last axis that is no multiple of 64 or lies outside one repeat .. 2047 elements, or a tiling that leaves "
    "rows over.",
    archs=(2201, 3510, 2002),
)
DST_ON_GRAD = Rule(
    "W-SMG-DSTGRAD",
    "SoftmaxGrad dst is grad; only dst on src is documented",
    "the recorded sequence works, other versions of the library need not: put dst on src or apart",
    f"{_PAGE}, constraints",
    condition="The destination of a SoftmaxGrad call is its grad tensor.",
)
FRONT_ON_SOURCE = Rule(
    "W-SMG-FRONTREUSE",
    "SoftmaxGrad front result overlaps {operand}, whose later rows are still to be read",
    "give the front result its own memory",
    "follows from the recorded sequence",
    condition="The destination of a SoftmaxGrad call in front mode shares bytes with grad or src.",
)
PADDING = Rule(
    "W-SMG-PADDING",
    "{got} padded elements of {m}x{k} (data {ori_m}x{ori_k}) are computed and written too",
    "expect dst to be overwritten there; zero the padding",
    f"{_PAGE}, constraints",
    condition="SoftmaxGrad is called with padded rows or columns, which are computed and written, too.",
    archs=(2201, 2002, 3002),
)
ORI_SHAPE = Rule(
    "E-SMG-ORI",
    "SoftmaxGrad {operand} is {got}, outside 1 .. {wanted}",
    "pass the rows and columns that hold data, at most the padded ones",
    f"{_PAGE}, SoftMaxShapeInfo",
    condition="The rows or columns of data named in a SoftMaxShapeInfo are below 1 or above the padded ones.",
)
NO_TILE = Rule(
    "E-SMG-NOTILE",
    "the tiling has split_m 0: no row fits its temp, nothing is computed and dst stays as it is",
    "compute the tiling with at least GetSoftMaxGradMinTmpSize bytes",
    "asc-devkit, softmax tiling and kernel loops",
    condition="No row fits the temp of a SoftmaxGrad or SimpleSoftMax call: its tiling has split_m 0, or it tiles "
    "anew and divides by zero.",
)

NO_ROW = NO_TILE.saying(
    "SoftmaxGrad tiles {m}x{k} anew, because its tiling is of another shape, and of its temp of {got} B a row takes "
    "{wanted} B: the library divides by zero",
    "give the temp that much (the minimum of the size functions can be less), or the tiling of this shape",
    "asc-devkit, softmax tiling in the kernel",
)


def retile(asc: AiCore, call: Call, shape: SoftMaxShapeInfo) -> SoftMaxTiling:
    """Return the tiling for a tile whose shape is not the host tiling's; a temp below one row ends the recording.

    The kernel's own need for a row is larger than the host's for front results in NZ.
    """
    is_nz = call.data_format is DataFormat.NZ
    width, work = call.src.dtype.bytes, call.tmp.count
    try:
        return soft_max_grad_kernel_tiling(
            shape.src_m,
            shape.src_k,
            width,
            work,
            call.is_front,
            is_basic_block=call.is_basic_block and not is_nz,
            is_nz=is_nz,
        )
    except SoftMaxInputError as error:
        need = 4 * row_cost_floats(shape.src_k, width, call.is_front and not is_nz)
        raise asc.reject(NO_ROW, got=4 * work, wanted=need, m=shape.src_m, k=shape.src_k) from error


def need_tile(asc: AiCore, tiling: SoftMaxTiling) -> None:
    """Report a tiling that does no work; vector functions do not look at tiles."""
    if tiling.split_m == 0 and not asc.device.has("vector_function"):
        asc.report(NO_TILE, got=0, wanted="at least 1")


def check_arguments(asc: AiCore, call: Call, shape: SoftMaxShapeInfo) -> None:
    """Report what a SoftmaxGrad call breaks; `call.tmp` is the temp as it was passed in."""
    m, k, src = shape.src_m, shape.src_k, call.src
    for name, tensor in (("dst", call.dst), ("grad", call.grad), ("src", src)):
        if tensor.dtype not in (HALF, FLOAT):
            asc.report(DTYPE, operand=name, got=tensor.dtype, wanted="half, float")
        elif tensor.dtype is not src.dtype:
            asc.report(DTYPE, operand=name, got=tensor.dtype, wanted=f"src's {src.dtype}")
        row = src.dtype.per_datablock if call.is_front and name == "dst" else k
        if tensor.count < m * row:
            asc.report(SHAPE, operand=name, got=tensor.count, wanted=m * row, m=m, k=k)
    _check_shape(asc, call, shape)
    _check_temp(asc, call, (m, k))
    _check_overlap(asc, call, (m, k))
    for name, ori, padded in (("ori_src_m", shape.ori_src_m, m), ("ori_src_k", shape.ori_src_k, k)):
        if not 1 <= ori <= padded:
            raise asc.reject(ORI_SHAPE, operand=name, got=ori, wanted=padded)
    ori_m, ori_k = shape.ori_src_m, shape.ori_src_k
    if (ori_m, ori_k) != (m, k) and not asc.device.has("vector_function"):
        asc.report(PADDING, operand="src", got=m * k - ori_m * ori_k, wanted=0, m=m, k=k, ori_m=ori_m, ori_k=ori_k)


def _check_shape(asc: AiCore, call: Call, shape: SoftMaxShapeInfo) -> None:
    """The last axis is whole datablocks, in NZ whole slabs; basic block has its own limits."""
    k, width = shape.src_k, call.src.dtype.bytes
    is_plain = call.data_format is DataFormat.ND and not call.is_basic_block
    if asc.device.has("register_vector") and not is_plain:
        raise asc.reject(MODE, got=asc.device.name, wanted="ND without basic block")
    if k * width % DATABLOCK_BYTES:
        wanted = align_up(k * width, DATABLOCK_BYTES) // width
        asc.report(LAST_AXIS, operand="src", got=k, wanted=wanted, row_bytes=k * width)
    elif call.data_format is DataFormat.NZ and k % NZ_COLUMNS:
        asc.report(NZ_AXIS, operand="src", got=k, wanted=NZ_COLUMNS)
    has_blocks = call.is_basic_block and call.data_format is DataFormat.ND
    if has_blocks and not is_basic_block_shape(shape.src_m, k, width):
        low = REPEAT_BYTES // width
        asc.report(BASIC_BLOCK, operand="src", got=f"{shape.src_m}x{k}", wanted="whole basic blocks", low=low)


def _check_temp(asc: AiCore, call: Call, shape: tuple[int, int]) -> None:
    tmp, (m, k), width = call.tmp, shape, call.src.dtype.bytes
    call_checks.check_tmp_type(asc, tmp)
    is_row_sums = asc.device.has("vector_function")
    need = 4 * (row_sum_floats(m, call.is_front) if is_row_sums else row_cost_floats(k, width, call.is_front))
    have = tmp.count * tmp.dtype.bytes
    if have < need:
        fill = {"api": _API, "shape": f"last axis {k}", "function": "GetSoftMaxGradMinTmpSize"}
        asc.report(TMP_SMALL, operand="shared_tmp_buffer", got=have, wanted=need, **fill)


def _check_overlap(asc: AiCore, call: Call, shape: tuple[int, int]) -> None:
    (m, k), src = shape, call.src
    dst = Place("dst", call.dst, m * (src.dtype.per_datablock if call.is_front else k))
    sources = Place("grad", call.grad, m * k), Place("src", src, m * k)
    call_checks.check_tmp_apart(asc, _API, call.tmp, (dst, *sources))
    for source in sources:
        if not dst.meets(source):
            continue
        if call.is_front:
            asc.report(FRONT_ON_SOURCE, operand=source.name, got=dst, wanted=f"apart from {source}")
        elif dst.start_bytes == source.start_bytes and source.name == "grad":
            asc.report(DST_ON_GRAD, operand="grad", got=dst, wanted=f"apart from {source}")
        else:
            call_checks.check_reused(asc, _API, dst, source)
