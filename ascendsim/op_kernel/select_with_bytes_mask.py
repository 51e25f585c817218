"""SelectWithBytesMask for tensors in UB: a tensor where bytes of a mask are 0, a scalar elsewhere, or the other way.

The scalar is put into the compare-mask register once. Then, in chunks that fit the temp: bytes become halves, halves
are compared with 0, and the bits of that, which overwrite the start of the same halves, select. So no reserved UB is
used, other than by Select with a scalar. Whoever holds something in the compare-mask register loses it.

    temp    [mask without gaps, if the mask must not change], then halves of a chunk, bits over their start, 256 B

Where rows of the mask are longer than those of the source, GatherMask first closes the gaps, in place unless the mask
must not change; without that instruction (arch 2002) rows are worked off one by one.
Sources: asc-devkit docs, Select page among the high-level APIs; sequence read in asc-devkit's library
(docs/provenance.md).
"""

from ascendsim.dtypes import FLOAT, HALF, INT16, UINT8, UINT16
from ascendsim.isa.compare import CompareInstructions
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.gather_mask import KEEPS_ALL, GatherMaskParams
from ascendsim.isa.instruction import Register, need_local
from ascendsim.memory import LocalTensor
from ascendsim.op_kernel.call_checks import need_memory_vector, need_product
from ascendsim.op_kernel.select_with_bytes_mask_checks import (
    API,
    Call,
    SelectWithBytesMaskShapeInfo,
    check_arguments,
)
from ascendsim.record import AiCore
from ascendsim.terms import (
    DATABLOCK_BYTES,
    MAX_REPEAT_TIMES,
    REPEAT_BYTES,
    CmpMode,
    Pipe,
    RoundMode,
    align_up,
    ceil_div,
)

__all__ = ["SelectWithBytesMaskShapeInfo", "select_with_bytes_mask"]

SPARE_BYTES = 256
"""Temp that is left for what Compare, which takes whole repeats, reads behind a chunk."""
MOST_ELEMENTS = MAX_REPEAT_TIMES * HALF.per_repeat
"""Elements of a chunk at most: what the repeats of one Compare hold."""
_COMPARES = CompareInstructions.compares.op


def select_with_bytes_mask(
    asc: AiCore,
    dst: LocalTensor,
    src0: LocalTensor | float | Register,
    src1: LocalTensor | float | Register,
    mask: LocalTensor,
    shared_tmp_buffer: LocalTensor,
    info: SelectWithBytesMaskShapeInfo,
    *,
    is_reuse_mask: bool = True,
) -> None:
    """SelectWithBytesMask: dst[i] = src0[i] where mask[i] is 0, else src1[i]; one source is a tensor, one a scalar.

    Args:
        asc: the core.
        dst: [first_axis, src_last_axis], half or float; may be the source.
        src0: taken where the mask is 0: a tensor like dst, or a number or Register.
        src1: taken elsewhere: the other kind.
        mask: [first_axis, mask_last_axis] of (u)int8_t, (u)int16_t or (u)int32_t; elements of a row beyond
            src_last_axis take no part.
        shared_tmp_buffer: temp of uint8_t, at least get_select_with_bytes_mask_min_tmp_size; all of it is used.
        info: rows, and the elements of a row of source and mask.
        is_reuse_mask: the mask may be changed, which happens where its rows are longer; otherwise temp takes a copy.

    Raises:
        KernelError: two tensors or two scalars, or a part whose library is not modelled.
        Rejected: a product without it, a shape that makes no sense, or a temp below the minimum.
    """
    need_product(asc, API, "select_with_bytes_mask")
    need_memory_vector(asc, API)
    call = _call(asc, dst, src0, src1, mask, shared_tmp_buffer, info)
    check_arguments(asc, call, is_reuse_mask)
    if call.has_gaps and not is_reuse_mask and asc.device.has("gather_mask_all"):
        call = _with_copied_mask(call)
    with asc.trace(API):
        asc.pipe_barrier(Pipe.V)
        asc.set_mask_count()
        _hold_scalar(asc, call)
        if not call.has_gaps:
            _select_all(asc, call, 0, 0, call.elements)
        elif asc.device.has("gather_mask_all"):
            call = _without_gaps(asc, call)
            asc.pipe_barrier(Pipe.V)
            _select_all(asc, call, 0, 0, call.elements)
        else:
            for row in range(info.first_axis):
                _select_all(asc, call, row * info.src_last_axis, row * info.mask_last_axis, info.src_last_axis)
        asc.set_mask_norm()
        asc.reset_mask()


def _call(
    asc: AiCore,
    dst: LocalTensor,
    src0: LocalTensor | float | Register,
    src1: LocalTensor | float | Register,
    mask: LocalTensor,
    tmp: LocalTensor,
    info: SelectWithBytesMaskShapeInfo,
) -> Call:
    """The call, whichever source is the tensor."""
    for arg, tensor in (("dst", dst), ("mask", mask), ("shared_tmp_buffer", tmp)):
        need_local(asc, API, arg, tensor)
    if isinstance(src0, LocalTensor) and not isinstance(src1, LocalTensor):
        return Call(dst, src0, src1, is_inverted=False, mask=mask, tmp=tmp, info=info)
    if isinstance(src1, LocalTensor) and not isinstance(src0, LocalTensor):
        return Call(dst, src1, src0, is_inverted=True, mask=mask, tmp=tmp, info=info)
    kinds = f"src0 {type(src0).__name__}, src1 {type(src1).__name__}"
    raise asc.fail(f"{API}: one source must be a LocalTensor, the other a number or a Register, got {kinds}")


def _with_copied_mask(call: Call) -> Call:
    """The call with room at the start of temp for the mask without its gaps."""
    copied = align_up(call.elements * call.mask.dtype.bytes, DATABLOCK_BYTES)
    return Call(call.dst, call.src, call.scalar, call.is_inverted, call.mask, call.tmp, call.info, copied_bytes=copied)


def _hold_scalar(asc: AiCore, call: Call) -> None:
    """Spread the scalar over a repeat of temp and put it into the compare-mask register."""
    scalars = call.tmp.reinterpret_cast(call.dst.dtype)
    asc.set_vector_mask(0, REPEAT_BYTES // call.dst.dtype.bytes)
    asc.duplicate(scalars, call.scalar, None, 1, 1, 8)
    asc.pipe_barrier(Pipe.V)
    asc.set_cmp_mask(scalars)
    asc.pipe_barrier(Pipe.V)


def _without_gaps(asc: AiCore, call: Call) -> Call:
    """Put the rows of the mask one behind the other; they are taken as 16-bit words."""
    info, width = call.info, call.mask.dtype.bytes
    words = call.mask.reinterpret_cast(UINT16)
    closed = call.tmp if call.copied_bytes else call.mask
    strides = GatherMaskParams(1, info.first_axis, info.mask_last_axis * width // DATABLOCK_BYTES, 0)
    with asc.trace("gather mask"):
        asc.gather_mask(
            closed.reinterpret_cast(UINT16), words, KEEPS_ALL, True, info.src_last_axis * width // UINT16.bytes, strides
        )
    asc.set_mask_count()
    mask = closed.reinterpret_cast(call.mask.dtype)
    return Call(
        call.dst, call.src, call.scalar, call.is_inverted, mask, call.tmp[call.copied_bytes], info, call.copied_bytes
    )


def _select_all(asc: AiCore, call: Call, src_at: int, mask_at: int, count: int) -> None:
    """Select `count` elements from these places on, in chunks; counter mode is on."""
    room = (call.tmp.count - SPARE_BYTES) // HALF.bytes // DATABLOCK_BYTES * DATABLOCK_BYTES
    chunk = min(room, MOST_ELEMENTS)
    for at in range(0, count, chunk):
        dst, src, mask = call.dst[src_at + at], call.src[src_at + at], call.mask[mask_at + at]
        _select_chunk(asc, call, dst, src, mask, min(chunk, count - at))
        asc.pipe_barrier(Pipe.V)


def _select_chunk(asc: AiCore, call: Call, dst: LocalTensor, src: LocalTensor, mask: LocalTensor, count: int) -> None:
    """Bytes to halves, halves to bits over the start of them, and select by those."""
    halves, bits = call.tmp.reinterpret_cast(HALF), call.tmp
    asc.set_vector_mask(0, count)
    _to_halves(asc, halves, mask)
    asc.pipe_barrier(Pipe.V)
    mode = CmpMode.NE if call.is_inverted else CmpMode.EQ
    # Recorded as an instruction: its call would warn that the count has no effect on Compare, which the library knows.
    params = (ceil_div(count, HALF.per_repeat), 1, 1, 8, 8, int(mode))
    asc.emit(_COMPARES, dst=bits, src0=halves, params=params, scalar=0, scalar_dtype=HALF)
    asc.pipe_barrier(Pipe.V)
    asc.select(dst, bits, src, 1, BinaryRepeatParams())


def _to_halves(asc: AiCore, halves: LocalTensor, mask: LocalTensor) -> None:
    """Halves that are 0 where elements of the mask are; words of 32 bits are taken as floats, rounded to odd."""
    if mask.dtype.bytes == FLOAT.bytes:
        asc.cast(halves, mask.reinterpret_cast(FLOAT), RoundMode.CAST_ODD, None, 1, UnaryRepeatParams(1, 1, 4, 8))
    elif mask.dtype.bytes == INT16.bytes:
        asc.cast(halves, mask.reinterpret_cast(INT16), RoundMode.CAST_NONE, None, 1, UnaryRepeatParams())
    else:
        asc.cast(halves, mask.reinterpret_cast(UINT8), RoundMode.CAST_NONE, None, 1, UnaryRepeatParams(1, 1, 8, 4))
