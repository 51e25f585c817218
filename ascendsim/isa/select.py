"""Select and SetCmpMask: elements by bits.

A bit stands for an element, eight in a byte, the lowest first.
"""

from collections.abc import Callable
from dataclasses import astuple
from typing import overload

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import FLOAT, HALF, UINT8, UINT16, UINT32, DType
from ascendsim.errors import Finding, Rule
from ascendsim.isa import rules
from ascendsim.isa.forms import (
    BINARY,
    UNARY,
    BinaryRepeatParams,
    Call,
    Form,
    Mask,
    apply_mask,
    begin_count,
    declare,
    elements,
    end_count,
    meet,
)
from ascendsim.isa.instruction import (
    Array,
    Context,
    Operand,
    Register,
    Row,
    Step,
    TensorRef,
    finds,
    in_turn,
    need_count,
    need_member,
)
from ascendsim.isa.lanes import byte_range, element_offsets, lane_grid, lanes_of, repeats_of
from ascendsim.isa.overlap import apart, no_partial_overlap
from ascendsim.isa.params import need_params
from ascendsim.isa.sync import BarrierCall, SyncInstructions
from ascendsim.memory import POISON, Lanes, LocalTensor
from ascendsim.terms import Buffer, MaskMode, Pipe, SelMode, ceil_div

SELECT_MASK = Rule(
    "E-SELMASK",
    "Select {operand} {tensor}: the selection mask has {got} bits, {wanted} are needed",
    "one bit for each element, whole repeats",
    "asc-devkit docs, Select page",
    condition="The selection mask of Select has fewer bits than elements are to be selected.",
)
CMPMASK_UNSET = Rule(
    "E-SELECT-UNSET",
    "{api} without src1 takes its scalar from the compare-mask register, and {got} stands before it",
    "call set_cmp_mask before; a Select with src1, and library calls that select, put something else there",
    "asc-devkit docs, Select and SetCmpMask pages",
    condition="Select takes its scalar from the compare-mask register, and nobody has set it, or a Select that sets it "
    "itself was called since.",
)
ALIGN_CMPMASK = rules.ALIGN_UB.saying(
    "{api} {operand} {tensor}: UB address {got} is {off} B past a 16 B boundary",
    "start it on a multiple of 16 B",
    "asc-devkit docs, SetCmpMask page",
)
CMPMASK_BYTES = 16
"""Bytes of the compare-mask register: a bit for each of 128 lanes."""
MASK_TYPES = (UINT8, UINT16, UINT32)
"""Types of a selection mask; the documents also name uint64_t, which is no element type here."""
RESERVED_BYTES = 128
"""What Select writes of the reserved area: an address, spread by a Duplicate of 32 elements."""


def _chosen(content: Array, wanted: int) -> Array:
    """The first `wanted` bits; bits that nobody gave are 0."""
    bits = np.zeros(wanted, np.bool_)
    given = np.unpackbits(content.view(np.uint8), bitorder="little")[:wanted]
    bits[: given.size] = given
    return bits


def _mask_bits(row: Row) -> int:
    """Bits of the selection mask that a Select uses: one repeat's in mode 0, else those of all its repeats."""
    assert row.dst is not None
    lanes = row.dst.dtype.per_repeat
    if "sel_mode" in row.op.params and row.param("sel_mode") == SelMode.VSEL_CMPMASK_SPR:
        return lanes
    return repeats_of(row, lanes) * lanes


def _run_set_cmpmask(ctx: Context, row: Row) -> Step | None:
    assert row.src0 is not None
    if not row.param("mask_bytes"):
        return None
    read = ctx.reader(row.src0, Lanes.run(row.param("mask_bytes") // row.src0.dtype.bytes))

    def step() -> None:
        ctx.compare_mask.content = read().copy().view(np.uint8)

    return step


def _touch_set_cmpmask(row: Row) -> tuple[tuple[str, int, int], ...]:
    return (("src0", 0, row.param("mask_bytes")),)


def _enough_bits(role: str, needed: Callable[[Row], int]) -> Callable[..., list[Finding]]:
    """The selection mask holds a bit for each element."""

    @finds(SELECT_MASK)
    def check(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
        del device
        operand = dict(row.operands)[role]
        tensor = rules.tensor_of(operand, tensors)
        bits = 8 * (tensor.tensor_bytes - operand.offset_bytes)
        if bits >= needed(row):
            return []
        fill = {"tensor": tensor.name}
        return [SELECT_MASK.finding(where, operand="sel_mask", got=bits, wanted=needed(row), fill=fill)]

    return check


def _mask_type(role: str) -> Callable[..., list[Finding]]:
    """The selection mask is unsigned."""

    @finds(rules.DTYPE_OP)
    def check(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
        del tensors, device
        got = dict(row.operands)[role].dtype
        if got in MASK_TYPES:
            return []
        fill, wanted = {"api": row.op.api}, ", ".join(str(d) for d in MASK_TYPES)
        return [rules.DTYPE_OP.finding(where, operand="sel_mask", got=got, wanted=wanted, fill=fill)]

    return check


@finds(ALIGN_CMPMASK)
def _register_aligned(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """What fills the register starts on as many bytes as it has."""
    del device
    assert row.src0 is not None
    tensor = rules.tensor_of(row.src0, tensors)
    address = tensor.address_bytes + row.src0.offset_bytes
    if tensor.buffer is not Buffer.UB or address % CMPMASK_BYTES == 0:
        return []
    fill = {"api": row.op.api, "tensor": tensor.name, "off": address % CMPMASK_BYTES}
    wanted = f"a multiple of {CMPMASK_BYTES}"
    return [ALIGN_CMPMASK.finding(where, operand="src", got=f"0x{address:x}", wanted=wanted, fill=fill)]


@finds(rules.RESERVED_UB)
def _reserved_free(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """No operand lies where modes 1 and 2 keep the mask's address or the scalar, on devices that put them there."""
    if not device.has("select_uses_reserved"):
        return []
    if "sel_mode" in row.op.params and row.param("sel_mode") == SelMode.VSEL_CMPMASK_SPR:
        return []
    found = []
    operands = dict(row.operands)
    for role, start, end in row.touched:
        tensor = rules.tensor_of(operands[role], tensors)
        at = tensor.address_bytes + operands[role].offset_bytes
        reach = rules.reach_into_reserved(device, RESERVED_BYTES, at + start, at + end)
        if reach is not None:
            fill = {"api": "Select", "tensor": tensor.name}
            found.append(rules.RESERVED_UB.finding(where, operand=role, got=reach[0], wanted=reach[1], fill=fill))
    return found


SET_CMPMASK = declare(
    "set_cmpmask",
    """Put what Select needs into the compare-mask register: its bits, or where they or its scalar lie.

    For modes 1 and 2 the library first spreads an address or the scalar over reserved UB by a Duplicate and a barrier;
    that is part of this row's time. Here the register takes the bits themselves in modes 0 and 2.

    Source: asc-devkit docs, Select and SetCmpMask pages.
    """,
    api="Select",
    mnemonic="set_cmpmask",
    pipe=Pipe.V,
    params=("repeat", "sel_mode", "mask_bytes"),
    cost="vector",
    family="SetCmpMask",
    execute=_run_set_cmpmask,
    touch=_touch_set_cmpmask,
    checks=(
        _mask_type("src0"),
        rules.aligned("src0"),
        _enough_bits("src0", lambda row: 8 * row.param("mask_bytes")),
    ),
    uses_mask=False,
)


SET_CMP_MASK = declare(
    "set_cmp_mask",
    """Fill the compare-mask register with the first 16 bytes of a tensor, for a Select without src1.

    Its pages do not say how many bytes are read; 128 bits are what mode 0 of Select looks at. Its time is taken as what
    Select's own setting takes.

    Source: asc-devkit docs, SetCmpMask page.
    """,
    api="SetCmpMask",
    mnemonic="set_cmpmask",
    pipe=Pipe.V,
    params=("repeat", "mask_bytes"),
    cost="vector",
    family="SetCmpMask",
    execute=_run_set_cmpmask,
    touch=_touch_set_cmpmask,
    checks=(rules.on_devices_with("set_cmp_mask"), _register_aligned, rules.in_bounds),
    uses_mask=False,
)


def _run_select(ctx: Context, row: Row) -> Step:
    """All lanes at once, or repeat by repeat where dst lies on what is read: a repeat is read whole, then written."""
    dst = row.dst
    assert dst is not None
    repeats, lanes = lane_grid(row, lanes_of(row))
    touched = {role: (first, end) for role, first, end in row.touched}
    if not any(meet(ctx, dst, touched["dst"], o, touched[role]) for role, o in row.operands if role != "dst"):
        return _select(ctx, row, repeats, lanes)
    return in_turn([_select(ctx, row, repeats[repeats == r], lanes[repeats == r]) for r in np.unique(repeats)])


def _select(ctx: Context, row: Row, repeats: Array, lanes: Array) -> Step:
    """Read the sources of these lanes and the bits, and write what the bits choose."""
    dst, src0, src1 = row.dst, row.src0, row.src1
    assert dst is not None
    assert src0 is not None
    assert src1 is not None

    def at(role: str, operand: Operand) -> Lanes:
        strides = row.param(f"{role}_blk_stride"), row.param(f"{role}_rep_stride")
        return Lanes.at(element_offsets(repeats, lanes, *strides, operand.dtype.bytes))

    wanted, per_repeat = _mask_bits(row), dst.dtype.per_repeat
    bit = lanes if wanted == per_repeat else repeats * per_repeat + lanes
    read, write = ctx.reader(src0, at("src0", src0)), ctx.writer(dst, at("dst", dst))
    if "sel_mode" in row.op.params:
        other, bits = ctx.reader(src1, at("src1", src1)), _held_bits(ctx)
    else:
        other = ctx.scalar(row) if row.op.takes_scalar else _held_scalar(ctx, dst.dtype)
        bits = _bits_reader(ctx, row, src1, wanted)
    return lambda: write(np.where(_chosen(bits().copy(), wanted)[bit], read(), other()))


def _bits_reader(ctx: Context, row: Row, operand: Operand, wanted: int) -> Callable[[], Array]:
    """Return what gives the bits of whole repeats; behind the count of counter mode they need not have been written."""
    each = 8 * operand.dtype.bytes
    if row.mask_mode is MaskMode.NORMAL or row.mask_lo >= wanted:
        return ctx.reader(operand, Lanes.run(wanted // each))
    needed = ceil_div(row.mask_lo, each)
    counted, others = (
        ctx.reader(operand, Lanes.run(needed)),
        ctx.loader(operand, Lanes.run(wanted // each - needed, needed)),
    )
    return lambda: np.concatenate((counted(), others()[0]))


def _held_bits(ctx: Context) -> Callable[[], Array]:
    """Return what gives the content of the compare-mask register."""
    held = ctx.compare_mask
    return lambda: held.content


def _held_scalar(ctx: Context, element: DType) -> Callable[[], Array]:
    """Return what gives the first element that the compare-mask register holds; bytes that nobody gave are 0xFF."""
    held = ctx.compare_mask

    def scalar() -> Array:
        raw = np.full(element.bytes, POISON, np.uint8)
        given = held.content[: element.bytes]
        raw[: given.size] = given
        return raw.view(element.numpy)

    return scalar


def _touch_select(row: Row) -> tuple[tuple[str, int, int], ...]:
    return tuple((role, *byte_range(elements(row, role, o), o.dtype.bytes)) for role, o in row.operands)


SELECT = declare(
    "select",
    """dst[i] = src0[i] where the bit of element i is 1, else src1[i]; half, float; masked lanes stay.

    The bits are those of the compare-mask register: the same in every repeat (mode 0), or one after another (mode 2).

    Source: asc-devkit docs, Select page.
    """,
    api="Select",
    mnemonic="vsel",
    pipe=Pipe.V,
    params=(*BINARY, "sel_mode"),
    cost="vector",
    family="Select",
    execute=_run_select,
    touch=_touch_select,
    checks=(
        rules.dtypes((HALF, FLOAT), "dst", "src0", "src1"),
        rules.same_dtype,
        rules.aligned("dst", "src0", "src1"),
        *rules.UNDER_MASK,
        rules.strides(255, 255),
        _reserved_free,
        no_partial_overlap(),
        rules.in_bounds,
    ),
    uses_mask=True,
)


def _touch_select_scalar(row: Row) -> tuple[tuple[str, int, int], ...]:
    assert row.dst is not None
    assert row.src0 is not None
    sides = (("dst", row.dst), ("src0", row.src0))
    read = tuple((role, *byte_range(elements(row, role, o), o.dtype.bytes)) for role, o in sides)
    return (*read, ("src1", 0, ceil_div(_mask_bits(row), 8)))


_SCALAR_CHECKS = (
    rules.dtypes((HALF, FLOAT), "dst", "src0"),
    _mask_type("src1"),
    rules.aligned("dst", "src0", "src1"),
    *rules.UNDER_MASK,
    rules.strides(255, 255),
    _enough_bits("src1", _mask_bits),
)
"""What both forms of mode 1 keep."""

SELECT_SCALAR = declare(
    "select_scalar",
    """dst[i] = src[i] where bit i of the mask is 1, else the scalar; half, float; masked lanes stay (Select, mode 1).

    Source: asc-devkit docs, Select page.
    """,
    api="Select",
    mnemonic="vsel",
    pipe=Pipe.V,
    params=UNARY,
    cost="vector",
    family="Select",
    execute=_run_select,
    touch=_touch_select_scalar,
    checks=(*_SCALAR_CHECKS, _reserved_free, no_partial_overlap("src0"), apart("src1"), rules.in_bounds),
    uses_mask=True,
    takes_scalar=True,
    lane_roles=("dst", "src0"),
)

SELECT_HELD = declare(
    "select_held",
    """dst[i] = src[i] where bit i of the mask is 1, else the first element of the compare-mask register (mode 1).

    half, float; masked lanes stay. It needs no reserved UB. That the first element of the register counts is inferred:
    the library fills it with one value.

    Source: asc-devkit docs, Select and SetCmpMask pages.
    """,
    api="Select",
    mnemonic="vsel",
    pipe=Pipe.V,
    params=UNARY,
    cost="vector",
    family="Select",
    execute=_run_select,
    touch=_touch_select_scalar,
    checks=(*_SCALAR_CHECKS, no_partial_overlap("src0"), apart("src1"), rules.in_bounds),
    uses_mask=True,
    lane_roles=("dst", "src0"),
)


class SetCmpMaskCall(Call):
    """src."""

    def __call__(self, src: LocalTensor) -> None:
        """Record the call."""
        self.locals(src=src)
        self.asc.emit(self.op, src0=src, params=(1, CMPMASK_BYTES))
        self.asc.cmp_mask_is_set = True


class SelectCall(Call):
    """dst, sel_mask, src0, src1 (a tensor, or a number or Register in mode 1), sel_mode; then count, or mask form.

    Or dst, sel_mask, src0, repeat_times, strides: mode 1 with the scalar that SetCmpMask has set, and the mask that is.
    """

    reports = (rules.RANGE_MASK, CMPMASK_UNSET)

    @overload
    def __call__(
        self,
        dst: LocalTensor,
        sel_mask: LocalTensor,
        src0: LocalTensor,
        repeat_times: int,
        repeat_params: BinaryRepeatParams = ...,
        /,
    ) -> None: ...
    @overload
    def __call__(
        self,
        dst: LocalTensor,
        sel_mask: LocalTensor,
        src0: LocalTensor,
        src1: LocalTensor | float | Register,
        sel_mode: SelMode,
        mask: Mask,
        repeat_times: int | None = ...,
        repeat_params: BinaryRepeatParams = ...,
    ) -> None: ...
    def __call__(
        self,
        dst: LocalTensor,
        sel_mask: LocalTensor,
        src0: LocalTensor,
        src1: LocalTensor | float | Register,
        sel_mode: SelMode | BinaryRepeatParams = BinaryRepeatParams(),
        mask: Mask = None,
        repeat_times: int | None = None,
        repeat_params: BinaryRepeatParams = BinaryRepeatParams(),
    ) -> None:
        """Record the call."""
        asc, api = self.asc, self.op.api
        self.locals(dst=dst, sel_mask=sel_mask, src0=src0)
        if isinstance(sel_mode, BinaryRepeatParams):
            self._by_register(dst, sel_mask, src0, src1, sel_mode)
            return
        need_member(asc, api, "sel_mode", sel_mode, SelMode)
        is_scalar = sel_mode is SelMode.VSEL_TENSOR_SCALAR_MODE
        if is_scalar == isinstance(src1, LocalTensor):
            wanted = "a number or a Register" if is_scalar else "a LocalTensor"
            raise asc.fail(f"{api}: src1 must be {wanted} in {sel_mode.name}, got {type(src1).__name__}")
        p = need_params(asc, api, repeat_params, BinaryRepeatParams)
        lanes = dst.dtype.per_repeat
        need_count(
            asc,
            api,
            "count" if repeat_times is None else "repeat_times",
            mask if repeat_times is None else repeat_times,
        )
        repeats = self._repeats(mask, repeat_times, lanes)
        # the register is set before the mask is, as the library does
        self._prepare(sel_mask, sel_mode, lanes if sel_mode == SelMode.VSEL_CMPMASK_SPR else max(0, repeats) * lanes)
        if repeat_times is None:
            begin_count(asc, api, mask)
        else:
            apply_mask(asc, api, mask, dst.dtype)
        repeat = 1 if repeat_times is None else repeat_times
        if isinstance(src1, LocalTensor):
            asc.emit(SELECT, dst=dst, src0=src0, src1=src1, params=(repeat, *astuple(p), int(sel_mode)))
        else:
            params = (repeat, p.dst_blk_stride, p.src0_blk_stride, p.dst_rep_stride, p.src0_rep_stride)
            asc.emit(
                SELECT_SCALAR, dst=dst, src0=src0, src1=sel_mask, params=params, scalar=src1, scalar_dtype=dst.dtype
            )
        if repeat_times is None:
            if not is_scalar:  # so the library's code
                BarrierCall(asc, SyncInstructions.pipe_barrier.op)(Pipe.V)
            end_count(asc)

    def _by_register(
        self,
        dst: LocalTensor,
        sel_mask: LocalTensor,
        src0: LocalTensor,
        repeat_times: object,
        repeat_params: BinaryRepeatParams,
    ) -> None:
        """Record the form without src1, under the mask that is set."""
        asc, api = self.asc, self.op.api
        repeat = need_count(asc, api, "repeat_times", repeat_times)
        p = need_params(asc, api, repeat_params, BinaryRepeatParams)
        if not asc.cmp_mask_is_set:
            asc.report(CMPMASK_UNSET, operand="src1", got="no SetCmpMask", wanted="a SetCmpMask", api=api)
        params = (repeat, p.dst_blk_stride, p.src0_blk_stride, p.dst_rep_stride, p.src0_rep_stride)
        asc.emit(SELECT_HELD, dst=dst, src0=src0, src1=sel_mask, params=params)

    def _repeats(self, mask: Mask, repeat_times: int | None, lanes: int) -> int:
        """Repeats that run: a count decides in the count form and in counter mode."""
        state = self.asc.mask
        if repeat_times is not None and state.mode is MaskMode.NORMAL:
            return repeat_times
        return ceil_div(mask if isinstance(mask, int) else state.lo, lanes)

    def _prepare(self, sel_mask: LocalTensor, sel_mode: SelMode, bits: int) -> None:
        """Set the compare-mask register, and wait for it."""
        held = 0 if sel_mode == SelMode.VSEL_TENSOR_SCALAR_MODE else bits // 8
        self.asc.emit(SET_CMPMASK, src0=sel_mask, params=(1, int(sel_mode), held))
        self.asc.cmp_mask_is_set = False
        BarrierCall(self.asc, SyncInstructions.pipe_barrier.op)(Pipe.V)


class SelectInstructions:
    """Select, SetCmpMask."""

    select = Form(SELECT, SelectCall)
    set_cmp_mask = Form(SET_CMP_MASK, SetCmpMaskCall)
