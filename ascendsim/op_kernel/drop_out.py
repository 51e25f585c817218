"""DropOut for tensors in UB: elements whose mask bit or byte is 0 become 0, the others are scaled by 1 / keep_prob.

    bits     Select by the mask, with a 0 that lies in the compare-mask register, then Muls
    bytes    Cast to half, of float data also to float, Mul, then Muls, in rounds that fit the temp

A mask whose rows are padded (dirty data) is closed up by GatherMask first, in place; without that instruction (arch
2002) its rows are worked off one by one. A mask byte is a factor: 2 doubles, and infinity times 0 is NaN, where a bit
gives 0.

    temp, bits     256 B of zeros
    temp, bytes    halves of a round [, floats of a round]

Sources: asc-devkit docs, DropOut page; sequences read in asc-devkit's library (docs/provenance.md).
"""

from ascendsim.dtypes import FLOAT, HALF, INT16, UINT16
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.gather_mask import KEEPS_ALL, GatherMaskParams
from ascendsim.isa.instruction import need_local
from ascendsim.isa.params import need_bool, need_number
from ascendsim.memory import LocalTensor
from ascendsim.op_kernel.call_checks import need_memory_vector, need_product
from ascendsim.op_kernel.drop_out_checks import (
    API,
    BITS,
    HAS_GAPS,
    HOLDS_BYTES,
    Call,
    DropOutMode,
    DropOutShapeInfo,
    check_arguments,
    check_axes,
    in_float,
    mode_of,
)
from ascendsim.record import AiCore
from ascendsim.terms import DATABLOCK_BYTES, Pipe, RoundMode

__all__ = ["DropOutMode", "DropOutShapeInfo", "drop_out", "drop_out_bit_mode_init"]

NARROW = UnaryRepeatParams(1, 1, 8, 4)
"""Strides of a Cast to a type twice as wide."""


def drop_out(
    asc: AiCore,
    dst: LocalTensor,
    src: LocalTensor,
    mask: LocalTensor,
    shared_tmp_buffer: LocalTensor | None,
    keep_prob: float,
    info: DropOutShapeInfo,
    *,
    is_init_bit_mode: bool = False,
    drop_out_mode: int = DropOutMode.BY_SHAPE,
) -> None:
    """DropOut: dst[i] = src[i] * (1 / keep_prob) where the mask keeps, 0 elsewhere.

    The factor is divided in float and rounded once to the data's type.

    Args:
        asc: the core.
        dst: [first_axis, src_last_axis], half or float; may be src.
        src: like dst.
        mask: of uint8_t, [first_axis, mask_last_axis]: a byte or, the lowest first, a bit for each element. With dirty
            data (modes 1 and 4) it is changed.
        shared_tmp_buffer: temp of uint8_t, at least 512 B; None takes the framework's (everything behind the queues).
        keep_prob: between 0 and 1.
        info: rows, the elements of a source row, the bytes of a mask row.
        is_init_bit_mode: the compare-mask register already holds 0 (drop_out_bit_mode_init); of no matter for bytes.
        drop_out_mode: 0 (by the shape), 1 (bytes, padded rows), 2 (bytes), 3 (bits), 4 (bits, padded rows).

    Raises:
        KernelError: an argument that is no number, or a part whose library is not modelled.
        Rejected: a product without it, a mode, keep_prob or axis that makes no sense, or a temp below the minimum.
    """
    need_product(asc, API, "drop_out")
    need_memory_vector(asc, API)
    for arg, tensor in (("dst", dst), ("src", src), ("mask", mask)):
        need_local(asc, API, arg, tensor)
    need_number(asc, API, "keep_prob", keep_prob)
    need_bool(asc, API, "is_init_bit_mode", is_init_bit_mode)
    check_axes(asc, info)
    mode = mode_of(asc, info, drop_out_mode)
    tmp = asc.pop_stack_buffer("uint8_t") if shared_tmp_buffer is None else shared_tmp_buffer
    call = Call(dst, src, mask, tmp, in_float(keep_prob), info, mode)
    check_arguments(asc, call)
    with asc.trace(API):
        if mode in HOLDS_BYTES:
            _by_bytes(asc, call)
            return
        if not is_init_bit_mode:
            drop_out_bit_mode_init(asc, tmp)
        _by_bits(asc, call)


def drop_out_bit_mode_init(asc: AiCore, shared_tmp_buffer: LocalTensor | None) -> None:
    """DropOutBitModeInit: put 0 into the compare-mask register, for calls with is_init_bit_mode.

    Zeros are made of whatever the first 256 bytes of temp hold. SelectWithBytesMask puts its scalar there afterwards.

    Args:
        asc: the core.
        shared_tmp_buffer: temp of 256 B or more; None takes the framework's.
    """
    tmp = asc.pop_stack_buffer("uint8_t") if shared_tmp_buffer is None else shared_tmp_buffer
    zeros = tmp.reinterpret_cast(INT16)
    asc.reset_mask()
    asc.muls(zeros, zeros, 0, None, 1, UnaryRepeatParams())
    asc.pipe_barrier(Pipe.V)
    asc.set_cmp_mask(zeros)
    asc.pipe_barrier(Pipe.V)


def _close_gaps(asc: AiCore, call: Call, row_bytes: int) -> None:
    """Put the `row_bytes` that count of each row of the mask one behind the other, taken as 16-bit words."""
    info, words = call.info, call.mask.reinterpret_cast(UINT16)
    strides = GatherMaskParams(1, info.first_axis, info.mask_last_axis // DATABLOCK_BYTES)
    with asc.trace("gather mask"):
        asc.gather_mask(words, words, KEEPS_ALL, True, row_bytes // UINT16.bytes, strides)
    asc.pipe_barrier(Pipe.V)
    asc.set_mask_count()


# ---- bits -----------------------------------------------------------------------------------------------------------


def _by_bits(asc: AiCore, call: Call) -> None:
    info = call.info
    rows = 1
    if call.mode in HAS_GAPS and asc.device.has("gather_mask_all"):
        _close_gaps(asc, call, info.src_last_axis // BITS)
    elif call.mode in HAS_GAPS:
        rows = info.first_axis
    each = call.elements // rows
    asc.set_mask_count()
    asc.set_vector_mask(0, each)
    with asc.trace("select"):
        for row in range(rows):
            at = row * each
            asc.select(call.dst[at], call.mask[row * info.mask_last_axis], call.src[at], 1, BinaryRepeatParams())
            asc.pipe_barrier(Pipe.V)
    if rows > 1:
        asc.set_vector_mask(0, call.elements)
    with asc.trace("muls"):
        asc.muls(call.dst, call.dst, call.factor, None, 1, UnaryRepeatParams())
    asc.pipe_barrier(Pipe.V)
    asc.set_mask_norm()
    asc.reset_mask()


# ---- bytes ----------------------------------------------------------------------------------------------------------


def _by_bytes(asc: AiCore, call: Call) -> None:
    info = call.info
    if call.mode not in HAS_GAPS:
        _rounds(asc, call, 0, 0, call.elements)
    elif asc.device.has("gather_mask_all"):
        _close_gaps(asc, call, info.src_last_axis)
        _rounds(asc, call, 0, 0, call.elements)
    else:
        for row in range(info.first_axis):
            _rounds(asc, call, row * info.src_last_axis, row * info.mask_last_axis, info.src_last_axis)


def _rounds(asc: AiCore, call: Call, src_at: int, mask_at: int, count: int) -> None:
    """Work off `count` elements from these places on, as many at once as fit the temp."""
    widths = HALF.bytes if call.src.dtype is HALF else HALF.bytes + FLOAT.bytes
    each = call.tmp.count // widths // DATABLOCK_BYTES * DATABLOCK_BYTES
    halves, floats = call.tmp.reinterpret_cast(HALF), call.tmp[each * HALF.bytes].reinterpret_cast(FLOAT)
    asc.set_mask_count()
    asc.set_vector_mask(0, each)
    for at in range(0, count, each):
        if count - at < each:
            asc.set_vector_mask(0, count - at)
        dst, src = call.dst[src_at + at], call.src[src_at + at]
        asc.cast(halves, call.mask[mask_at + at], RoundMode.CAST_NONE, None, 1, NARROW)
        asc.pipe_barrier(Pipe.V)
        factors = halves
        if call.src.dtype is FLOAT:
            factors = floats
            asc.cast(floats, halves, RoundMode.CAST_NONE, None, 1, NARROW)
            asc.pipe_barrier(Pipe.V)
        asc.mul(dst, factors, src, None, 1, BinaryRepeatParams())
        asc.pipe_barrier(Pipe.V)
        asc.muls(dst, dst, call.factor, None, 1, UnaryRepeatParams())
        asc.pipe_barrier(Pipe.V)
    asc.set_mask_norm()
    asc.reset_mask()
