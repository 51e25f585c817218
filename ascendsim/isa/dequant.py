"""SetDeqScale, and AddDeqRelu, which the library of arch 2201 makes of other instructions."""

from dataclasses import replace
from numbers import Real
from typing import cast as typing_cast

from ascendsim.dtypes import FLOAT, HALF, INT32, pack, unpack
from ascendsim.isa import rules
from ascendsim.isa.convert import ConvertInstructions
from ascendsim.isa.elementwise import widest
from ascendsim.isa.forms import (
    BinaryRepeatParams,
    Call,
    Form,
    Mask,
    apply_mask,
    begin_count,
    declare,
    end_count,
    set_mask,
    set_mask_mode,
)
from ascendsim.isa.instruction import Instruction, Recorder, need_int, need_local, run_nothing, touch_nothing
from ascendsim.isa.move import MoveInstructions
from ascendsim.isa.params import need_params
from ascendsim.isa.sync import SyncInstructions
from ascendsim.isa.vector import VectorInstructions
from ascendsim.memory import RESERVED_TMP, LocalTensor
from ascendsim.terms import DATABLOCK_BYTES, MAX_REPEAT_TIMES, MaskMode, Pipe, RoundMode, TPosition, ceil_div

PASS_ELEMENTS = 2048
"""int32_t that fit into the reserved 8 KiB (asc-devkit, AddDeqRelu for 2201)."""

PASS_REPEATS = PASS_ELEMENTS // INT32.per_repeat

ADD_DEQ_RELU_REPORTS = (
    *(rules.API_PRODUCT, rules.DTYPE_PAIR, rules.DEQ_SCALE, rules.RESERVED_UB),
    *(rules.REPEAT_ZERO, rules.RANGE_REPEAT, rules.RANGE_MASK),
)
"""Rules that a call of AddDeqRelu may find itself; its rows are other instructions."""

_SHIFT = 2.0**17
"""The library scales by 2**-17 before and by 2**17 after the multiplication."""


class SetDeqScaleCall(Call):
    """scale, a number, taken as half."""

    def __call__(self, scale: object) -> None:
        """Record the call."""
        if not isinstance(scale, Real):
            raise self.asc.fail(f"SetDeqScale: scale must be a number, got {scale!r}")
        bits = pack(float(scale), HALF)
        self.asc.deq_scale = bits
        self.asc.emit(self.op, params=(bits,))


class _Steps:
    """The instructions of one AddDeqRelu: which memory they use, and how the library calls them."""

    def __init__(self, asc: Recorder, tensors: tuple[LocalTensor, LocalTensor, LocalTensor], scale: float) -> None:
        self.asc = asc
        self.dst, self.src0, self.src1 = tensors
        self.scale = scale

    def run(self, repeat: int, strides: BinaryRepeatParams, count: int, half_rep: int) -> None:
        """One pass of at most 2048 elements under the mask that is set.

        Args:
            repeat: repeats of each instruction.
            strides: of dst and the sources.
            count: elements of the temp.
            half_rep: repeat stride with which Max reads its sources, contiguous halves.
        """
        start = self.asc.device.ub.reserved_offset_bytes.value
        tmp = LocalTensor(RESERVED_TMP, TPosition.VECCALC, INT32, start, count * INT32.bytes)
        as_float, as_half = self.src0.reinterpret_cast(FLOAT), self.src1.reinterpret_cast(HALF)
        p = strides
        add = (p.src0_blk_stride, p.src1_blk_stride, 8, p.src0_rep_stride, p.src1_rep_stride)
        self._emit(_ADD, tmp, self.src0, self.src1, (repeat, 1, *add))
        none = int(RoundMode.CAST_NONE)
        self._emit(_CAST, as_float, tmp, None, (repeat, 1, 1, 8, 8, none, 0))
        for factor in (1 / _SHIFT, self.scale, _SHIFT):
            self._emit(_MULS, as_float, as_float, None, (repeat, 1, 1, 8, 8), factor)
        self._emit(_CAST, as_half, as_float, None, (repeat, 1, 1, 4, 8, none, 0))
        zeros = tmp.reinterpret_cast(HALF)
        self._zeros(zeros, count)
        larger = (p.dst_blk_stride, 1, 1, p.dst_rep_stride, half_rep, half_rep)
        self._emit(_MAX, self.dst, zeros, as_half, (repeat, *larger))

    def _zeros(self, zeros: LocalTensor, count: int) -> None:
        """Fill the temp with zeros, `count` of them in counter mode, and leave the mask as it was."""
        mask = replace(self.asc.mask)
        if mask.mode is MaskMode.NORMAL:
            set_mask_mode(self.asc, MaskMode.COUNTER)
            set_mask(self.asc, 0, count)
        self._emit(_DUPLICATE, zeros, None, None, (1, 1, 8), 0)
        if mask.mode is MaskMode.NORMAL:
            set_mask_mode(self.asc, MaskMode.NORMAL)
            set_mask(self.asc, mask.hi, mask.lo)

    def _emit(
        self,
        op: Instruction,
        dst: LocalTensor,
        src0: LocalTensor | None,
        src1: LocalTensor | None,
        params: tuple[int, ...],
        scalar: float | None = None,
    ) -> None:
        """One instruction and the barrier behind it."""
        kind = (src0 or dst).dtype
        self.asc.emit(op, dst=dst, src0=src0, src1=src1, params=params, scalar=scalar, scalar_dtype=kind)
        self.asc.emit(_BARRIER, params=(int(Pipe.V),), pipe=Pipe.V)


_ADD, _MULS, _MAX = (f.op for f in (VectorInstructions.add, VectorInstructions.muls, VectorInstructions.max))
_CAST, _DUPLICATE = ConvertInstructions.cast.op, MoveInstructions.duplicate.op
_BARRIER = SyncInstructions.pipe_barrier.op


class DequantInstructions:
    """SetDeqScale, AddDeqRelu."""

    set_deq_scale = Form(
        declare(
            "set_deq_scale",
            """Set the scale that Cast from int32_t to half and AddDeqRelu multiply by, a half.

            Source: asc-devkit docs, SetDeqScale page; its cost is assumed to be that of a mask setter.
            """,
            api="SetDeqScale",
            mnemonic="set_deqscale",
            pipe=Pipe.S,
            params=("deq_scale",),
            cost="scalar",
            family="mask",
            execute=run_nothing,
            touch=touch_nothing,
            checks=(),
            uses_mask=False,
        ),
        SetDeqScaleCall,
    )

    def add_deq_relu(
        self,
        dst: LocalTensor,
        src0: LocalTensor,
        src1: LocalTensor,
        mask: Mask,
        repeat_times: int | None = None,
        repeat_params: BinaryRepeatParams = BinaryRepeatParams(),
    ) -> None:
        """dst[i] = the larger of (src0[i] + src1[i]) * scale and 0, half from int32_t; the scale is SetDeqScale's.

        The library of arch 2201 has no instruction for it and issues Add, Cast to float, three Muls (2**-17, the scale,
        2**17), Cast to half, Duplicate and Max, each with a barrier behind it, in passes of 2048 elements. Recorded
        here are those instructions. They overwrite both sources, src0 with floats and src1 with halves, both
        contiguous, and min(count, 2048) * 4 bytes of UB at the reserved offset, which a kernel that uses all of UB may
        own.
        Forms: (dst, src0, src1, count) or (dst, src0, src1, mask, repeat_times, BinaryRepeatParams); a mask counts
        lanes of int32_t and must be given, in normal mode.
        Source: asc-devkit docs, AddDeqRelu and SetDeqScale pages; the sequence as the library for 2201 has it.
        """
        asc = typing_cast("Recorder", self)
        for arg, tensor in (("dst", dst), ("src0", src0), ("src1", src1)):
            need_local(asc, "AddDeqRelu", arg, tensor)
        need_params(asc, "AddDeqRelu", repeat_params, BinaryRepeatParams)
        if not asc.device.has("add_deq_relu"):
            why, arch = rules.why_lacking(asc.device, "add_deq_relu"), asc.device.npu_arch
            asc.report(rules.API_PRODUCT, got=asc.device.name, api="AddDeqRelu", arch=arch, why=why)
            return
        kinds = (dst.dtype, src0.dtype, src1.dtype)
        if kinds != (HALF, INT32, INT32):
            got = f"{src0.dtype}, {src1.dtype} -> {dst.dtype}"
            asc.report(rules.DTYPE_PAIR, operand="dst", got=got, wanted="int32_t -> half", api="AddDeqRelu")
            return
        if asc.deq_scale is None:
            asc.report(rules.DEQ_SCALE, operand="src0", got="no scale", wanted="a scale", api="AddDeqRelu")
            return
        scale = float(unpack(asc.deq_scale, HALF))
        if repeat_times is None:
            _by_count(asc, (dst, src0, src1), scale, mask)
        else:
            need_int(asc, "AddDeqRelu", "repeat_times", repeat_times)
            _by_repeats(asc, (dst, src0, src1), scale, mask, repeat_times, repeat_params)


def _spans(
    lanes: int, repeats: int, p: BinaryRepeatParams, tensors: tuple[LocalTensor, LocalTensor, LocalTensor]
) -> list[int]:
    """Bytes from the start of dst and the sources to the end of the last datablock with a lane."""
    blk = (p.dst_blk_stride, p.src0_blk_stride, p.src1_blk_stride)
    rep = (p.dst_rep_stride, p.src0_rep_stride, p.src1_rep_stride)
    blocks = [ceil_div(lanes, t.dtype.per_datablock) for t in tensors]
    return [
        DATABLOCK_BYTES * ((repeats - 1) * r + (n - 1) * b + 1) if n and repeats else 0
        for n, b, r in zip(blocks, blk, rep, strict=True)
    ]


def _reserved_free(
    asc: Recorder, tensors: tuple[LocalTensor, LocalTensor, LocalTensor], spans: list[int], count: int
) -> None:
    """No operand lies where the library puts its temp of `count` elements."""
    used = min(count, PASS_ELEMENTS) * INT32.bytes
    for role, tensor, span in zip(("dst", "src0", "src1"), tensors, spans, strict=True):
        reach = rules.reach_into_reserved(asc.device, used, tensor.start_bytes, tensor.start_bytes + span)
        if reach is not None:
            fill = {"api": "AddDeqRelu", "tensor": tensor.name}
            asc.report(rules.RESERVED_UB, operand=role, got=reach[0], wanted=reach[1], **fill)


def _by_count(
    asc: Recorder, tensors: tuple[LocalTensor, LocalTensor, LocalTensor], scale: float, count: object
) -> None:
    """The count form: one counter mode for all passes."""
    begin_count(asc, "AddDeqRelu", count)
    total = asc.mask.lo
    _reserved_free(asc, tensors, [total * t.dtype.bytes for t in tensors], total)
    if total == 0:
        asc.report(rules.REPEAT_ZERO, got=0, wanted="at least 1", api="AddDeqRelu", what="count")
    for first in range(0, total, PASS_ELEMENTS):
        length = min(PASS_ELEMENTS, total - first)
        if asc.mask.lo != length:
            set_mask(asc, 0, length)
        dst, src0, src1 = (t[first] for t in tensors)
        _Steps(asc, (dst, src0, src1), scale).run(1, BinaryRepeatParams(), length, 8)
    end_count(asc)


def _by_repeats(
    asc: Recorder,
    tensors: tuple[LocalTensor, LocalTensor, LocalTensor],
    scale: float,
    mask: Mask,
    repeat_times: int,
    strides: BinaryRepeatParams,
) -> None:
    """The mask form, 32 repeats a pass; it ends with the mask that it set."""
    if mask is None or asc.mask.mode is MaskMode.COUNTER:
        raise asc.fail("AddDeqRelu sets its own masks: give it one, and call it in normal mode")
    if not 0 <= repeat_times <= MAX_REPEAT_TIMES:
        asc.report(rules.RANGE_REPEAT, got=repeat_times, wanted=MAX_REPEAT_TIMES, api="AddDeqRelu")
        return
    if repeat_times == 0:
        asc.report(rules.REPEAT_ZERO, got=0, wanted="at least 1", api="AddDeqRelu", what="repeat")
    apply_mask(asc, "AddDeqRelu", mask, widest(*tensors))
    temp = min(repeat_times, PASS_REPEATS) * INT32.per_repeat
    _reserved_free(asc, tensors, _spans(asc.mask.lo.bit_length(), repeat_times, strides, tensors), temp)
    for first in range(0, repeat_times, PASS_REPEATS):
        repeats = min(PASS_REPEATS, repeat_times - first)
        steps = (strides.dst_rep_stride, strides.src0_rep_stride, strides.src1_rep_stride)
        at = [t[first * step * t.dtype.per_datablock] for t, step in zip(tensors, steps, strict=True)]
        _Steps(asc, (at[0], at[1], at[2]), scale).run(repeats, strides, temp, 4)
