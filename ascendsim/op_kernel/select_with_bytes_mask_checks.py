"""What a SelectWithBytesMask call must keep, checked where the call is recorded."""

from dataclasses import dataclass

from ascendsim.dtypes import FLOAT, HALF, INT8, INT16, INT32, UINT8, UINT16, UINT32
from ascendsim.errors import Rule
from ascendsim.isa.instruction import Register
from ascendsim.memory import LocalTensor
from ascendsim.op_host.select_with_bytes_mask import get_select_with_bytes_mask_min_tmp_size
from ascendsim.op_kernel import call_checks
from ascendsim.op_kernel.call_checks import TMP_SMALL, Place
from ascendsim.record import AiCore
from ascendsim.terms import DATABLOCK_BYTES

API = "SelectWithBytesMask"
MASK_TYPES = (UINT8, INT8, UINT16, INT16, UINT32, INT32)
"""Types of a mask; the page also names bool, which is a byte."""
MASK_UNIT = 16
"""A row of the mask is a multiple of so many elements."""

ARGUMENTS = Rule(
    "E-BYTESMASK",
    "SelectWithBytesMask arguments invalid: {why}",
    "pad rows of the mask to whole datablocks, at least as long as those of the source",
    "asc-devkit docs, Select page among the high-level APIs; its kernel check",
    condition="SelectWithBytesMask gets an axis of 0, or rows of the mask that are shorter than those of the source, "
    "no multiple of 32 B or no multiple of 16 elements.",
    archs=(2201, 2002),
)


@dataclass(frozen=True, slots=True)
class SelectWithBytesMaskShapeInfo:
    """Rows of the source and the mask, and the elements of a row of each."""

    first_axis: int
    src_last_axis: int
    mask_last_axis: int


@dataclass(frozen=True, slots=True)
class Call:
    """One call: dst takes `src` or `scalar`, the scalar where a mask byte is 0 if `is_inverted`, else where it is not.

    Attributes:
        copied_bytes: bytes at the start of temp that take the mask without its gaps; 0 if the mask itself does.
    """

    dst: LocalTensor
    src: LocalTensor
    scalar: float | Register
    is_inverted: bool
    mask: LocalTensor
    tmp: LocalTensor
    info: SelectWithBytesMaskShapeInfo
    copied_bytes: int = 0

    @property
    def elements(self) -> int:
        """Elements of the source."""
        return self.info.first_axis * self.info.src_last_axis

    @property
    def has_gaps(self) -> bool:
        """Whether rows of the mask are longer than those of the source."""
        return self.info.mask_last_axis != self.info.src_last_axis


def check_arguments(asc: AiCore, call: Call, is_reuse_mask: bool) -> None:
    """Report what a call breaks; a shape or temp that the library cannot work with ends the recording."""
    call_checks.check_type(asc, API, "dst", call.dst.dtype, (HALF, FLOAT))
    call_checks.check_type(asc, API, "src", call.src.dtype, (call.dst.dtype,))
    call_checks.check_type(asc, API, "mask", call.mask.dtype, MASK_TYPES)
    _check_shape(asc, call)
    info = call.info
    dst, src = Place("dst", call.dst, call.elements), Place("src", call.src, call.elements)
    mask = Place("mask", call.mask, info.first_axis * info.mask_last_axis)
    shape = f"{info.first_axis}x{info.src_last_axis} with mask rows of {info.mask_last_axis}"
    call_checks.check_lengths(asc, API, (dst, src, mask), shape)
    call_checks.check_last_axis(asc, API, "src", info.src_last_axis, call.src.dtype)
    _check_tmp(asc, call, is_reuse_mask)
    call_checks.check_tmp_apart(asc, API, call.tmp, (dst, src, mask))
    call_checks.check_reused(asc, API, dst, src)
    call_checks.check_apart(asc, API, dst, (mask,))
    if call.has_gaps and is_reuse_mask and call.dst.start_bytes != call.src.start_bytes:
        call_checks.check_apart(asc, API, mask, (src,))


def _check_shape(asc: AiCore, call: Call) -> None:
    info = call.info
    for name, axis in (("first_axis", info.first_axis), ("src_last_axis", info.src_last_axis)):
        if axis < 1:
            raise asc.reject(ARGUMENTS, operand=name, got=axis, wanted="at least 1", why=f"{name} is {axis}")
    if info.mask_last_axis < info.src_last_axis:
        why = f"rows of the mask have {info.mask_last_axis} elements, those of the source {info.src_last_axis}"
        raise asc.reject(ARGUMENTS, operand="mask", got=info.mask_last_axis, wanted=info.src_last_axis, why=why)
    row_bytes = info.mask_last_axis * call.mask.dtype.bytes
    if row_bytes % DATABLOCK_BYTES:
        why = f"a row of the mask is {row_bytes} B, no multiple of {DATABLOCK_BYTES} B"
        asc.report(ARGUMENTS, operand="mask", got=row_bytes, wanted=DATABLOCK_BYTES, why=why)
    elif info.mask_last_axis % MASK_UNIT:
        why = f"a row of the mask has {info.mask_last_axis} elements, no multiple of {MASK_UNIT}"
        asc.report(ARGUMENTS, operand="mask", got=info.mask_last_axis, wanted=MASK_UNIT, why=why)


def _check_tmp(asc: AiCore, call: Call, is_reuse_mask: bool) -> None:
    info, tmp = call.info, call.tmp
    call_checks.check_tmp_type(asc, tmp)
    need = get_select_with_bytes_mask_min_tmp_size(
        (info.first_axis, info.src_last_axis),
        (info.first_axis, info.mask_last_axis),
        call.mask.dtype.bytes,
        is_reuse_mask=is_reuse_mask,
    )
    have = tmp.count * tmp.dtype.bytes
    if have < need:
        shape = f"{info.first_axis}x{info.src_last_axis}"
        fill = {"api": API, "shape": shape, "function": "GetSelectWithBytesMaskMinTmpSize"}
        raise asc.reject(TMP_SMALL, operand="shared_tmp_buffer", got=have, wanted=need, **fill)
