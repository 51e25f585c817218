"""What a DropOut call must keep, checked where the call is recorded."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from ascendsim.dtypes import FLOAT, HALF, UINT8, pack, unpack
from ascendsim.errors import Rule
from ascendsim.memory import LocalTensor
from ascendsim.op_host.drop_out import get_drop_out_min_tmp_size
from ascendsim.op_kernel import call_checks
from ascendsim.op_kernel.call_checks import TMP_SMALL, Place
from ascendsim.record import AiCore
from ascendsim.terms import DATABLOCK_BYTES

API = "DropOut"
BITS = 8
"""Mask bits in a byte."""


class DropOutMode(IntEnum):
    """What the mask holds: chosen by the shape, bytes or bits, with or without gaps between its rows (dropOutMode)."""

    BY_SHAPE = 0
    BYTE_MISALIGN = 1
    BYTE_ALIGN = 2
    BIT_ALIGN = 3
    BIT_MISALIGN = 4


HAS_GAPS = (DropOutMode.BYTE_MISALIGN, DropOutMode.BIT_MISALIGN)
"""Modes with dirty data: rows of the mask are padded."""
HOLDS_BYTES = (DropOutMode.BYTE_MISALIGN, DropOutMode.BYTE_ALIGN)

ARGUMENTS = Rule(
    "E-DROPOUT",
    "DropOut arguments invalid: {why}",
    "see the modes and shapes in docs/attention-pieces.md",
    "asc-devkit docs, DropOut page; its kernel check",
    condition="DropOut gets a mode outside 0..4, a keep_prob that is not between 0 and 1, an axis of 0, or mask rows "
    "that do not fit the mode: too short, with gaps where the mode has none, or padded ones of an odd length, of no "
    "multiple of 32 B or with an odd number of bytes that count.",
    archs=(2201, 2002),
)


@dataclass(frozen=True, slots=True)
class DropOutShapeInfo:
    """Rows of the source and the mask, the elements of a source row, and the bytes of a mask row."""

    first_axis: int
    src_last_axis: int
    mask_last_axis: int


@dataclass(frozen=True, slots=True)
class Call:
    """One call, with the mode that runs."""

    dst: LocalTensor
    src: LocalTensor
    mask: LocalTensor
    tmp: LocalTensor
    keep_prob: float
    info: DropOutShapeInfo
    mode: DropOutMode

    @property
    def elements(self) -> int:
        """Elements of the source."""
        return self.info.first_axis * self.info.src_last_axis

    @property
    def factor(self) -> float:
        """1 / keep_prob, divided in float; an instruction rounds it to the data's type."""
        return in_float(1 / self.keep_prob)


def in_float(value: float) -> float:
    """Return a number as float holds it."""
    return float(unpack(pack(value, FLOAT), FLOAT))


def mode_of(asc: AiCore, info: DropOutShapeInfo, drop_out_mode: int) -> DropOutMode:
    """Return the mode that runs: the one asked for, or what the lengths of the rows suggest.

    Rows of bits that are no longer than the mask's datablocks (up to 32 elements) pass for bytes: ask for mode 4 then.
    """
    if drop_out_mode not in list(DropOutMode):
        raise _refused(
            asc, "drop_out_mode", drop_out_mode, "0..4", f"drop_out_mode is {drop_out_mode}, not one of 0..4"
        )
    if drop_out_mode != DropOutMode.BY_SHAPE:
        return DropOutMode(drop_out_mode)
    src, mask = info.src_last_axis, info.mask_last_axis
    if src <= mask:
        return DropOutMode.BYTE_ALIGN if src == mask else DropOutMode.BYTE_MISALIGN
    return DropOutMode.BIT_ALIGN if src == mask * BITS else DropOutMode.BIT_MISALIGN


def _refused(asc: AiCore, operand: str, got: object, wanted: object, why: str) -> Exception:
    return asc.reject(ARGUMENTS, operand=operand, got=got, wanted=wanted, why=why)


def check_axes(asc: AiCore, info: DropOutShapeInfo) -> None:
    """Report an axis of 0 and end the recording."""
    axes = (
        ("first_axis", info.first_axis),
        ("src_last_axis", info.src_last_axis),
        ("mask_last_axis", info.mask_last_axis),
    )
    for name, axis in axes:
        if axis < 1:
            raise _refused(asc, name, axis, "at least 1", f"{name} is {axis}")


def check_arguments(asc: AiCore, call: Call) -> None:
    """Report what a call breaks; a temp below the minimum ends the recording."""
    call_checks.check_type(asc, API, "dst", call.dst.dtype, (HALF, FLOAT))
    call_checks.check_type(asc, API, "src", call.src.dtype, (call.dst.dtype,))
    call_checks.check_type(asc, API, "mask", call.mask.dtype, (UINT8,))
    if not 0 < call.keep_prob < 1:
        why = f"keep_prob is {call.keep_prob:g}, not between 0 and 1"
        raise _refused(asc, "keep_prob", call.keep_prob, "between 0 and 1", why)
    for operand, got, wanted, why in _mask_rows(call):
        asc.report(ARGUMENTS, operand=operand, got=got, wanted=wanted, why=why)
    _check_tensors(asc, call)


def _mask_rows(call: Call) -> Iterator[tuple[str, int, object, str]]:
    """(Operand, got, wanted, why) where rows of the mask do not fit the mode."""
    info, mode = call.info, call.mode
    src, mask = info.src_last_axis, info.mask_last_axis
    what = f"mode {int(mode)}"
    held, unit = (mask, "bytes") if mode in HOLDS_BYTES else (mask * BITS, "bits")
    if held < src:
        yield "mask", held, src, f"{what}: a row of the mask has {held} {unit}, one of the source {src} elements"
        return
    if mode not in HAS_GAPS:
        if held != src:
            yield "mask", held, src, f"{what} has no gaps: a row of the mask has {held} {unit}, one of the source {src}"
        return
    if mask % 2:
        yield "mask_last_axis", mask, "a multiple of 2", f"{what}: mask_last_axis is {mask}, no multiple of 2"
    elif mask % DATABLOCK_BYTES:
        yield "mask_last_axis", mask, DATABLOCK_BYTES, f"{what}: a row of the mask is {mask} B, no multiple of 32 B"
    step = 2 if mode in HOLDS_BYTES else 2 * BITS
    if src % step:
        yield "src_last_axis", src, step, f"{what}: a row of the source has {src} elements, no multiple of {step}"


def _check_tensors(asc: AiCore, call: Call) -> None:
    info, tmp = call.info, call.tmp
    dst, src = Place("dst", call.dst, call.elements), Place("src", call.src, call.elements)
    mask = Place("mask", call.mask, info.first_axis * info.mask_last_axis)
    shape = f"{info.first_axis}x{info.src_last_axis} with mask rows of {info.mask_last_axis}"
    call_checks.check_lengths(asc, API, (dst, src, mask), shape)
    if call.mode in HAS_GAPS:
        call_checks.check_last_axis(asc, API, "src", info.src_last_axis, call.src.dtype)
    call_checks.check_tmp_type(asc, tmp)
    have, need = tmp.count * tmp.dtype.bytes, get_drop_out_min_tmp_size()
    if have < need:
        fill = {"api": API, "shape": "any shape", "function": "GetDropOutMinTmpSize"}
        raise asc.reject(TMP_SMALL, operand="shared_tmp_buffer", got=have, wanted=need, **fill)
    call_checks.check_tmp_apart(asc, API, tmp, (dst, src, mask))
    call_checks.check_reused(asc, API, dst, src)
    call_checks.check_apart(asc, API, dst, (mask,))
    if call.mode in HAS_GAPS and not dst.is_same_as(src):
        call_checks.check_apart(asc, API, mask, (src,))
