"""Moves inside UB and between GM and UB: bits only, no arithmetic. Bytes nobody wrote stay unwritten when moved."""

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from math import gcd
from typing import Any, overload

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import BFLOAT16, DTYPES, FLOAT, HALF, INT16, INT32, UINT16, UINT32, DType, pack
from ascendsim.errors import Finding, Rule
from ascendsim.isa import rules
from ascendsim.isa.atomic import adder, is_adding
from ascendsim.isa.compare import counter_ignored
from ascendsim.isa.cube_out import L0C_TO_UB, DataCopyEnhancedParams
from ascendsim.isa.cube_rules import aligned_to_memory
from ascendsim.isa.forms import FILL, UNARY, Call, Form, Mask, Strides, declare, meet, set_mask
from ascendsim.isa.instruction import (
    Array,
    Check,
    Context,
    Register,
    Row,
    Step,
    TensorRef,
    finds,
    in_turn,
    need_int,
    need_tensor,
)
from ascendsim.isa.lanes import active_lanes, byte_range, element_offsets, lane_grid, operand_at
from ascendsim.isa.nd2nz import ND2NZ, Nd2NzParams
from ascendsim.isa.overlap import OVERLAP, no_partial_overlap, ranges_meet, start_of
from ascendsim.isa.params import need_params
from ascendsim.memory import GlobalTensor, Lanes, LocalTensor, Tensor
from ascendsim.terms import DATABLOCK_BYTES, FULL_MASK, BlockMode, Buffer, MaskMode, Pipe, TPosition, align_up, ceil_div

BRCB_SOURCE = rules.BRCB_STRIDE.saying(
    "Brcb reads {wanted} elements, 8 for each repeat, and {tensor} has {got} from there on",
    hint="lower repeat_times, or enlarge the source",
    level="E",
)
COUNTER_COPY = Rule(
    "E-COUNTER-COPY",
    "Copy in counter mode: each of {got} repeats copies {wanted} elements, over what the one before wrote",
    "pass repeat_times 1: Copy keeps it in counter mode, and the mask counts the elements of each repeat",
    "asc-devkit docs, Copy page",
    condition="Copy runs in counter mode with several repeats whose strides write the same datablocks again.",
)
PATH = Rule(
    "E-PATH",
    "{api}: there is no path from {got}",
    "go through UB: copy in, then copy out",
    "asc-devkit docs, data paths page",
    condition="A copy names two places between which the hardware moves nothing.",
)
BUF_ROLE = Rule(
    "E-BUF-ROLE",
    "{api} {operand} {tensor} is on {got}; the documented path is {wanted}",
    "load into a VECIN queue and store from a VECOUT queue: the flags of the other do not cover this copy",
    "asc-devkit docs, DataCopy pages for GM and UB, where the library does not check it; asc-tools, npu-check "
    "ErrorBuffer2",
    level="W",
    condition="A copy loads from GM into a buffer of a VECOUT queue, or stores one of a VECIN queue to GM.",
)
COPY_OVERLAP = OVERLAP.saying(
    "{api}: dst and {operand} share bytes of {tensor} without being the same", hint="keep the two apart"
)
WORDS = (HALF, BFLOAT16, FLOAT, INT16, UINT16, INT32, UINT32)


@dataclass(frozen=True, slots=True)
class CopyRepeatParams:
    """Strides in datablocks of Copy. As in AscendC, a default-built one has block strides 0, which is rarely wanted."""

    dst_blk_stride: int = 0
    src_blk_stride: int = 0
    dst_rep_stride: int = 8
    src_rep_stride: int = 8


@dataclass(frozen=True, slots=True)
class BrcbRepeatParams:
    """Strides in datablocks of Brcb's destination."""

    dst_blk_stride: int = 1
    dst_rep_stride: int = 8


@dataclass(frozen=True, slots=True)
class DataCopyParams:
    """Bursts of DataCopy: how many, how long, and the gaps tail to head, all in datablocks.

    Into the bias table and the fixpipe buffer block_len counts what the device says: 64 and 128 B on arch 2201.
    """

    block_count: int = 1
    block_len: int = 0
    src_gap: int = 0
    dst_gap: int = 0


@dataclass(frozen=True, slots=True)
class DataCopyExtParams:
    """Bursts of DataCopyPad: block_len in bytes; the GM stride in bytes, the UB stride in datablocks, tail to head."""

    block_count: int = 1
    block_len: int = 0
    src_stride: int = 0
    dst_stride: int = 0


@dataclass(frozen=True, slots=True)
class DataCopyPadExtParams:
    """Padding of DataCopyPad GM to UB, in elements (each side at most 32 B)."""

    is_pad: bool = False
    left_padding: int = 0
    right_padding: int = 0
    padding_value: float = 0


# ---- Copy -------------------------------------------------------------------------------------------------------


class CopyCall(Call):
    """dst, src, mask, repeat_times, repeat_params."""

    reports = (rules.RANGE_MASK, rules.RANGE_MASK_BITS)

    def __call__(
        self, dst: LocalTensor, src: LocalTensor, mask: Mask, repeat_times: int, repeat_params: CopyRepeatParams
    ) -> None:
        """Record the call."""
        self.locals(dst=dst, src=src)
        need_int(self.asc, self.op.api, "repeat_times", repeat_times)  # there is no count form
        self.issue(mask, repeat_times, Strides((), self.fields(repeat_params, CopyRepeatParams)), dst, src)


def _copy_grid(row: Row, dtype: DType) -> tuple[Array, Array]:
    """Repeat and lane numbers of Copy: in counter mode the mask counts the elements of each repeat."""
    if row.mask_mode is MaskMode.NORMAL:
        return lane_grid(row, dtype.per_repeat)
    repeat, count = row.param("repeat"), row.mask_lo
    return np.repeat(np.arange(repeat), count), np.tile(np.arange(count), repeat)


def _copy_at(row: Row, role: str) -> Array:
    assert row.dst is not None
    repeats, lanes = _copy_grid(row, row.dst.dtype)
    blk, rep = row.param(f"{role}_blk_stride"), row.param(f"{role}_rep_stride")
    return element_offsets(repeats, lanes, blk, rep, row.dst.dtype.bytes)


def _copy_overlap_grid(row: Row, lanes: int) -> tuple[Array, Array]:
    del lanes
    assert row.dst is not None
    return _copy_grid(row, row.dst.dtype)


@finds(COUNTER_COPY)
def _counts_each_repeat(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """In counter mode no datablock of dst is written by two repeats, as it is where repeat_times is taken as unused."""
    del tensors, device
    assert row.dst is not None
    repeat, blk, rep = row.param("repeat"), row.param("dst_blk_stride"), row.param("dst_rep_stride")
    if row.mask_mode is MaskMode.NORMAL or repeat <= 1 or row.mask_lo == 0 or blk <= 0:
        return []
    blocks, step = ceil_div(row.mask_lo, row.dst.dtype.per_datablock), gcd(blk, rep)
    if rep // step >= blocks or blk // step >= repeat:  # block b of repeat r lies at b * blk + r * rep
        return []
    return [COUNTER_COPY.finding(where, operand="mask", got=repeat, wanted=row.mask_lo)]


def _touch_copy(row: Row) -> tuple[tuple[str, int, int], ...]:
    """Offsets grow with the repeat; within one, the last lane or the last of the datablock before reaches furthest."""
    assert row.dst is not None
    width, repeat = row.dst.dtype.bytes, row.param("repeat")
    e = DATABLOCK_BYTES // width
    if row.mask_mode is MaskMode.COUNTER:
        lanes = [lane for lane in ((row.mask_lo - 1) // e * e - 1, row.mask_lo - 1) if lane >= 0]
    else:
        lanes = active_lanes(row.mask_hi, row.mask_lo, row.dst.dtype.per_repeat).tolist()
    if repeat <= 0 or not lanes:
        return (("dst", 0, 0), ("src0", 0, 0))
    last = {lane // e: lane for lane in lanes}.values()  # of each datablock

    def end(role: str) -> int:  # in Python's integers: a forgotten count is the full mask, 2^64 - 1
        blk, rep = row.param(f"{role}_blk_stride"), row.param(f"{role}_rep_stride")
        furthest = max(lane // e * blk * e + lane % e for lane in last)
        return ((repeat - 1) * rep * e + furthest + 1) * width

    return ("dst", 0, end("dst")), ("src0", 0, end("src0"))


def _run_copy(ctx: Context, row: Row) -> Step:
    assert row.dst is not None
    kind = row.dst.dtype
    width = kind.bytes
    dst, src = (Lanes.at(_copy_at(row, role)).of_bytes(width) for role in ("dst", "src0"))
    return move(ctx, row, dst, src, lambda: np.repeat(_copy_grid(row, kind)[0], width))


def move(ctx: Context, row: Row, dst: Lanes, src: Lanes, steps: Callable[[], Array]) -> Step:
    """Move bytes; step by step (a repeat, a burst) where destination and source meet. `steps` numbers each byte's."""
    assert row.dst is not None
    assert row.src0 is not None
    if not meet(ctx, row.dst, dst.bounds, row.src0, src.bounds):
        return ctx.mover(row.dst, dst, row.src0, src)
    number = steps()
    picks = [number == s for s in np.unique(number)]
    return in_turn([ctx.mover(row.dst, dst.select(pick), row.src0, src.select(pick)) for pick in picks])


# ---- Duplicate --------------------------------------------------------------------------------------------------


class DuplicateCall(Call):
    """dst, scalar; then count, or mask, repeat_times, dst_blk_stride, dst_rep_stride."""

    reports = (rules.RANGE_MASK, rules.RANGE_MASK_BITS)

    @overload
    def __call__(self, dst: LocalTensor, scalar: float | Register, count: int, /) -> None: ...
    @overload
    def __call__(
        self,
        dst: LocalTensor,
        scalar: float | Register,
        mask: Mask,
        repeat_times: int,
        dst_blk_stride: int = ...,
        dst_rep_stride: int = ...,
    ) -> None: ...
    def __call__(
        self,
        dst: LocalTensor,
        scalar: float | Register,
        mask: Mask,
        repeat_times: int | None = None,
        dst_blk_stride: int = 1,
        dst_rep_stride: int = 8,
    ) -> None:
        """Record the call."""
        self.locals(dst=dst)
        for arg, stride in (("dst_blk_stride", dst_blk_stride), ("dst_rep_stride", dst_rep_stride)):
            need_int(self.asc, self.op.api, arg, stride)
        strides = Strides((1, 8), (dst_blk_stride, dst_rep_stride))
        self.issue(mask, repeat_times, strides, dst, scalar=scalar)


def _fill_at(row: Row) -> Lanes:
    assert row.dst is not None
    d = row.dst.dtype
    return operand_at(row, d.per_repeat, row.param("dst_blk_stride"), row.param("dst_rep_stride"), d.bytes)


def _touch_fill(row: Row) -> tuple[tuple[str, int, int], ...]:
    assert row.dst is not None
    return (("dst", *byte_range(_fill_at(row), row.dst.dtype.bytes)),)


def _run_fill(ctx: Context, row: Row) -> Step:
    assert row.dst is not None
    at, kind = _fill_at(row), row.dst.dtype.numpy
    scalar, write = ctx.scalar(row), ctx.writer(row.dst, at)
    return lambda: write(np.full(at.size, scalar(), kind))


# ---- Brcb -------------------------------------------------------------------------------------------------------


class BrcbCall(Call):
    """dst, src, repeat_times, repeat_params. Takes no mask; leaves a full one."""

    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        repeat_times: int,
        repeat_params: BrcbRepeatParams = BrcbRepeatParams(),
    ) -> None:
        """Record the call."""
        self.locals(dst=dst, src=src)
        need_int(self.asc, self.op.api, "repeat_times", repeat_times)
        set_mask(self.asc, FULL_MASK, FULL_MASK)
        params = (repeat_times, *self.fields(repeat_params, BrcbRepeatParams))
        self.asc.emit(self.op, dst=dst, src0=src, params=params)


def _brcb_at(row: Row) -> tuple[Lanes, Lanes]:
    """(dst element offsets, a datablock for each element of src; src element offsets) of 8 * repeat elements."""
    assert row.dst is not None
    e = row.dst.dtype.per_datablock
    count = 8 * max(0, row.param("repeat"))
    src = np.arange(count)
    block = src // 8 * row.param("dst_rep_stride") + src % 8 * max(1, row.param("dst_blk_stride"))
    return Lanes.at((block[:, None] * e + np.arange(e)).reshape(-1)), Lanes.run(count)


def _touch_brcb(row: Row) -> tuple[tuple[str, int, int], ...]:
    assert row.dst is not None
    dst, src = _brcb_at(row)
    width = row.dst.dtype.bytes
    return (("dst", *byte_range(dst, width)), ("src0", *byte_range(src, width)))


def _run_brcb(ctx: Context, row: Row) -> Step:
    assert row.dst is not None
    assert row.src0 is not None
    dst, src = _brcb_at(row)
    width = row.dst.dtype.bytes
    spread = Lanes.grid(0, (src.size, row.dst.dtype.per_datablock), (1, 0))
    return ctx.mover(row.dst, dst.of_bytes(width), row.src0, spread.of_bytes(width))


@finds(rules.BRCB_STRIDE, rules.OVERLAP_GATHER)
def _brcb_rules(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Dst and src lie apart; a block stride of 0 is taken as 1."""
    del device
    assert row.dst is not None
    assert row.src0 is not None
    found = []
    if row.param("dst_blk_stride") == 0:
        found.append(rules.BRCB_STRIDE.finding(where, operand="dst", got=0, wanted="at least 1"))
    if not ranges_meet(row, "src0", row.src0, tensors):
        return found
    starts = [rules.tensor_of(o, tensors).address_bytes + o.offset_bytes for o in (row.dst, row.src0)]
    written, read = (at.of_bytes(row.dst.dtype.bytes).offsets for at in _brcb_at(row))
    if np.isin(written + starts[0], read + starts[1]).any():
        found.append(rules.OVERLAP_GATHER.finding(where, operand="dst", got="overlaps src", wanted="apart"))
    return found


@finds(BRCB_SOURCE)
def _brcb_source(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """The source holds 8 elements for each repeat."""
    del device
    assert row.src0 is not None
    tensor = rules.tensor_of(row.src0, tensors)
    there, wanted = (tensor.tensor_bytes - row.src0.offset_bytes) // row.src0.dtype.bytes, 8 * row.param("repeat")
    if wanted <= there:
        return []
    fill = {"tensor": tensor.name}
    return [BRCB_SOURCE.finding(where, operand="src0", got=max(0, there), wanted=wanted, fill=fill)]


# ---- DataCopy, DataCopyPad --------------------------------------------------------------------------------------

COPY = ("block_count", "block_len", "src_gap", "dst_gap")
PAD_IN = ("block_count", "block_len", "src_stride", "dst_stride", "is_pad", "left_padding", "right_padding", "pad_bits")
PAD_OUT = ("block_count", "block_len", "src_stride", "dst_stride")


def bursts(block_count: int, length: int, pitch: int, first: int = 0) -> Lanes:
    """Byte offsets of `block_count` bursts of `length` bytes that start `pitch` bytes apart, from `first` on."""
    return Lanes.grid(first, (max(0, block_count), max(0, length)), (pitch, 1))


def burst_end(block_count: int, length: int, pitch: int) -> int:
    """End of the last burst, in bytes; 0 when nothing is copied."""
    return (block_count - 1) * pitch + length if block_count > 0 and length > 0 else 0


def burst_geometry(row: Row) -> tuple[int, int, int, int]:
    """Return (bursts, bytes of each, source pitch, destination pitch) in bytes, as GM or UB sees the payload."""
    if row.op.geometry is not None:
        return row.op.geometry(row)
    count, length = row.param("block_count"), row.param("block_len")
    if row.op.params == COPY:
        payload = length * DATABLOCK_BYTES
        pitches = (row.param("src_gap"), row.param("dst_gap"))
        return count, payload, payload + pitches[0] * DATABLOCK_BYTES, payload + pitches[1] * DATABLOCK_BYTES
    if row.op.params == PAD_OUT:
        ub_pitch = align_up(length, DATABLOCK_BYTES) + row.param("src_stride") * DATABLOCK_BYTES
        return count, length, ub_pitch, length + row.param("dst_stride")
    return count, length, length + row.param("src_stride"), _padded_bytes(row) + row.param("dst_stride") * 32


def _padded_bytes(row: Row) -> int:
    """UB bytes of one padded burst, rounded up to a datablock."""
    assert row.dst is not None
    width = row.dst.dtype.bytes
    pads = (row.param("left_padding") + row.param("right_padding")) * width
    return align_up(row.param("block_len") + pads, DATABLOCK_BYTES)


def _touch_bursts(row: Row) -> tuple[tuple[str, int, int], ...]:
    count, length, src_pitch, dst_pitch = burst_geometry(row)
    written = _padded_bytes(row) if row.op.params == PAD_IN else length
    return (("dst", 0, burst_end(count, written, dst_pitch)), ("src0", 0, burst_end(count, length, src_pitch)))


def _run_bursts(ctx: Context, row: Row) -> Step:
    count, length, src_pitch, dst_pitch = burst_geometry(row)
    dst, src = bursts(count, length, dst_pitch), bursts(count, length, src_pitch)
    return move(ctx, row, dst, src, lambda: np.repeat(np.arange(max(0, count)), max(0, length)))


def _run_adding(ctx: Context, row: Row) -> Step:
    """Add elements of bursts to those of GM."""
    assert row.dst is not None
    assert row.src0 is not None
    count, length, src_pitch, dst_pitch = burst_geometry(row)
    width = row.dst.dtype.bytes
    elements = max(0, length) // width

    def lanes(pitch: int) -> Lanes:
        return Lanes.grid(0, (max(0, count), elements), (pitch // width, 1))

    read, add = ctx.reader(row.src0, lanes(src_pitch)), adder(ctx, row.dst, lanes(dst_pitch))
    return lambda: add(read())


def _run_pad_in(ctx: Context, row: Row) -> Step:
    """Payload, then padding."""
    assert row.dst is not None
    assert row.src0 is not None
    count, length, src_pitch, dst_pitch = burst_geometry(row)
    left = row.param("left_padding") * row.dst.dtype.bytes
    payload = bursts(count, length, dst_pitch, left)
    steps = [ctx.mover(row.dst, payload, row.src0, bursts(count, length, src_pitch))]
    padded, end = _padded_bytes(row), max(0, left + max(0, length))
    rest = np.concatenate([np.arange(min(left, padded)), np.arange(end, max(end, padded))])
    if rest.size and count > 0:
        steps += _pad(ctx, row, rest)
    return in_turn(steps)


def _pad(ctx: Context, row: Row, rest: Array) -> list[Step]:
    """Padding: with a side padded and is_pad, its value; with no side, each row's first element.

    Padding asked for without is_pad is undefined (asc-devkit docs, DataCopyPad page). Without is_pad, no byte beside
    the payload counts as written: whoever reads it relies on what nobody asked for.

    Args:
        ctx: the context.
        row: the row.
        rest: byte offsets beside the payload, of one burst.
    """
    dst, src = row.dst, row.src0
    assert dst is not None
    assert src is not None
    width = dst.dtype.bytes
    count, _, src_pitch, dst_pitch = burst_geometry(row)
    rest_at = (np.arange(count)[:, None] * dst_pitch + rest).reshape(-1)
    at = Lanes.at(rest_at)
    if row.param("left_padding") == row.param("right_padding") == 0:
        first = (np.arange(count)[:, None] * src_pitch + rest % width).reshape(-1)
        step = ctx.mover(dst, at, src, Lanes.at(first))
        return [step] if row.param("is_pad") else [step, ctx.disowner(dst, at)]
    if row.param("is_pad"):
        pad = np.frombuffer(row.param("pad_bits").to_bytes(8, "little")[:width], np.uint8)
        return [ctx.filler(dst, at, pad[rest_at % width])]
    return [ctx.filler(dst, at, None)]


class DataCopyCall(Call):
    """dst, src; then count in elements, DataCopyParams, or for GM to L1 Nd2NzParams."""

    reports = (rules.DTYPE_SAME, rules.ALIGN_COUNT, PATH)

    def __call__(
        self,
        dst: Tensor,
        src: Tensor,
        count_or_params: int | DataCopyParams | Nd2NzParams,
        enhanced_params: DataCopyEnhancedParams | None = None,
    ) -> None:
        """Record the call."""
        asc, api = self.asc, "DataCopy"
        need_tensor(asc, api, "dst", dst)
        need_tensor(asc, api, "src", src)
        places = asc.buffer_of(src), asc.buffer_of(dst)
        if isinstance(count_or_params, Nd2NzParams) and places == (Buffer.GM, Buffer.L1):
            asc.emit(ND2NZ, dst=dst, src0=src, params=self.fields(count_or_params, Nd2NzParams))
            return
        mode = BlockMode.BLOCK_MODE_NORMAL if enhanced_params is None else enhanced_params.block_mode
        if places == (Buffer.L0C, Buffer.UB) and mode is BlockMode.BLOCK_MODE_MATRIX:
            asc.emit(L0C_TO_UB, dst=dst, src0=src, params=self.fields(count_or_params, DataCopyParams))
            return
        op = DATA_COPY_OPS.get(places)
        if op is None or isinstance(count_or_params, Nd2NzParams):
            got = f"{places[0].name} to {places[1].name}"
            asc.report(PATH, operand="src0", got=got, wanted="a side on chip", api=api)
            return
        if dst.dtype.name != src.dtype.name:
            asc.report(rules.DTYPE_SAME, operand="dst", got=f"dst {dst.dtype}, src {src.dtype}", api=api)
        if isinstance(count_or_params, DataCopyParams):
            p = need_params(asc, api, count_or_params, DataCopyParams)
            p = replace(p, block_len=p.block_len * asc.device.burst_bytes(places[1]) // DATABLOCK_BYTES)
        else:
            if is_dataclass(count_or_params):
                raise asc.fail(f"{api}: its parameters must be a count or DataCopyParams(...), got {count_or_params!r}")
            need_int(asc, api, "count", count_or_params)
            given = count_or_params * dst.dtype.bytes
            p = DataCopyParams(1, given // DATABLOCK_BYTES)
            if given % DATABLOCK_BYTES:
                asc.report(
                    rules.ALIGN_COUNT,
                    operand="count",
                    got=count_or_params,
                    wanted="a multiple of 32 B",
                    api=api,
                    past=given % DATABLOCK_BYTES,
                )
        if isinstance(dst, GlobalTensor) and is_adding(asc, api, dst.dtype):
            op = ATOMIC_OPS[op.name]
        asc.emit(op, dst=dst, src0=src, params=(p.block_count, p.block_len, p.src_gap, p.dst_gap))


class DataCopyPadCall(Call):
    """dst, src, DataCopyExtParams; and for GM to UB DataCopyPadExtParams."""

    reports = (rules.DTYPE_SAME, rules.RANGE_PAD, PATH)

    def __call__(
        self,
        dst: Tensor,
        src: Tensor,
        params: DataCopyExtParams,
        pad_params: DataCopyPadExtParams = DataCopyPadExtParams(),
    ) -> None:
        """Record the call."""
        asc = self.asc
        need_tensor(asc, "DataCopyPad", "dst", dst)
        need_tensor(asc, "DataCopyPad", "src", src)
        places = asc.buffer_of(src), asc.buffer_of(dst)
        if set(places) != {Buffer.GM, Buffer.UB}:
            got = f"{places[0].name} to {places[1].name}"
            asc.report(PATH, operand="src0", got=got, wanted="GM and UB", api="DataCopyPad")
            return
        if dst.dtype.name != src.dtype.name:
            asc.report(rules.DTYPE_SAME, operand="dst", got=f"dst {dst.dtype}, src {src.dtype}", api="DataCopyPad")
        p = self.fields(params, DataCopyExtParams)
        q = need_params(asc, "DataCopyPad", pad_params, DataCopyPadExtParams)
        if isinstance(src, GlobalTensor):
            value = q.padding_value
            if dst.dtype.bytes == 8 and value != 0:
                wanted = "64-bit types pad with 0"
                asc.report(rules.RANGE_PAD, got=value, wanted=wanted, api="DataCopyPad", what="padding_value")
                value = 0
            pad = (int(q.is_pad), q.left_padding, q.right_padding, pack(value, dst.dtype))
            asc.emit(PAD_OPS["in"], dst=dst, src0=src, params=(*p, *pad))
        else:
            op = PAD_OPS["out"]
            asc.emit(
                ATOMIC_OPS[op.name] if is_adding(asc, "DataCopyPad", dst.dtype) else op, dst=dst, src0=src, params=p
            )


@finds(rules.RANGE_COPY, rules.COPY_ZERO, rules.RANGE_PAD)
def _pad_fields(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Ranges of DataCopyPad: 4095 bursts, 2 MiB less one each, whole elements, at most 32 B of padding on a side."""
    del tensors, device
    found = []
    assert row.dst is not None
    width = row.dst.dtype.bytes
    limits = (
        ("block_count", rules.MOST_BURSTS),
        ("block_len", 2097151),
        ("src_stride", 2**32 - 1),
        ("dst_stride", 2**32 - 1),
    )
    for what, high in limits:
        if not 0 <= row.param(what) <= high:
            found.append(
                rules.RANGE_COPY.finding(
                    where, got=row.param(what), wanted=f"0..{high}", fill={"api": row.op.api, "what": what}
                )
            )
    found += [
        rules.COPY_ZERO.finding(where, got=0, wanted="at least 1", fill={"api": row.op.api, "what": what})
        for what in ("block_count", "block_len")
        if row.param(what) == 0
    ]
    if row.param("block_len") % width:
        wanted = f"must be a multiple of the element size {width}"
        found.append(
            rules.RANGE_PAD.finding(
                where, got=row.param("block_len"), wanted=wanted, fill={"api": row.op.api, "what": "block_len"}
            )
        )
    for what in ("left_padding", "right_padding"):
        if what in row.op.params and not 0 <= row.param(what) * width <= DATABLOCK_BYTES:
            wanted = f"at most {DATABLOCK_BYTES // width} elements (32 B)"
            found.append(
                rules.RANGE_PAD.finding(
                    where, got=row.param(what), wanted=wanted, fill={"api": row.op.api, "what": what}
                )
            )
    return found


@finds(BUF_ROLE)
def _documented_role(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """GM is loaded into VECIN and stored from VECOUT; VECCALC and explicit tensors have no queue's flags to miss."""
    del device
    assert row.dst is not None
    assert row.src0 is not None
    role, operand, wrong, wanted = "dst", row.dst, TPosition.VECOUT, "GM to VECIN"
    if rules.tensor_of(operand, tensors).buffer is Buffer.GM:
        role, operand, wrong, wanted = "src0", row.src0, TPosition.VECIN, "VECOUT to GM"
    tensor = rules.tensor_of(operand, tensors)
    if tensor.que < 0 or tensor.position != wrong.value:
        return []
    fill = {"api": row.op.api, "tensor": tensor.name}
    return [BUF_ROLE.finding(where, operand=role, got=tensor.position, wanted=wanted, fill=fill)]


@finds(COPY_OVERLAP)
def _bursts_apart(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Bursts inside UB share no byte with what they read, unless they copy it onto itself."""
    del device
    assert row.dst is not None
    assert row.src0 is not None
    if not ranges_meet(row, "src0", row.src0, tensors):
        return []
    count, length, src_pitch, dst_pitch = burst_geometry(row)
    written = bursts(count, length, dst_pitch).offsets + start_of(row.dst, tensors)
    read = bursts(count, length, src_pitch).offsets + start_of(row.src0, tensors)
    if np.array_equal(written, read) or not np.isin(written, read).any():
        return []
    fill = {"api": row.op.api, "tensor": rules.tensor_of(row.src0, tensors).name}
    return [COPY_OVERLAP.finding(where, operand="src0", got="overlaps", wanted="apart", fill=fill)]


_LOADS_AND_STORES = (_documented_role,)
_BETWEEN = (aligned_to_memory,)
_INSIDE_UB = (rules.on_devices_with("data_copy_ub_to_ub"), _bursts_apart)


def _copy_op(
    name: str, doc: str, mnemonic: str, pipe: Pipe, cost: str, family: str, *more: Check, adds: bool = False
) -> Any:
    return declare(
        name,
        doc,
        api="DataCopy",
        mnemonic=mnemonic,
        pipe=pipe,
        params=COPY,
        cost=cost,
        family=family,
        execute=_run_adding if adds else _run_bursts,
        touch=_touch_bursts,
        checks=(
            *(more or _LOADS_AND_STORES),
            rules.dtypes(DTYPES, "dst", "src0"),
            rules.aligned("dst", "src0"),
            rules.gm_element_aligned,
            rules.copy_fields,
            rules.in_bounds,
        ),
        uses_mask=False,
        reads_dst=adds,
    )


def _pad_op(
    name: str, doc: str, mnemonic: str, pipe: Pipe, params: tuple[str, ...], family: str, *, adds: bool = False
) -> Any:
    return declare(
        name,
        doc,
        api="DataCopyPad",
        mnemonic=mnemonic,
        pipe=pipe,
        params=params,
        cost="transfer",
        family=family,
        execute=_run_pad_in if params == PAD_IN else _run_adding if adds else _run_bursts,
        touch=_touch_bursts,
        checks=(
            rules.on_devices_with("data_copy_pad"),
            _documented_role,
            rules.aligned("dst", "src0"),
            _pad_fields,
            rules.in_bounds,
        ),
        uses_mask=False,
        reads_dst=adds,
    )


DATA_COPY_OPS = {
    (Buffer.GM, Buffer.UB): _copy_op(
        "data_copy_gm_to_ub",
        "Bursts of whole datablocks from GM to UB. Source: asc-devkit docs, DataCopy pages.",
        "copy_gm_to_ubuf",
        Pipe.MTE2,
        "transfer",
        "gm_to_ub",
    ),
    (Buffer.UB, Buffer.GM): _copy_op(
        "data_copy_ub_to_gm",
        "Bursts of whole datablocks from UB to GM. Source: asc-devkit docs, DataCopy pages.",
        "copy_ubuf_to_gm",
        Pipe.MTE3,
        "transfer",
        "ub_to_gm",
    ),
    (Buffer.UB, Buffer.UB): _copy_op(
        "data_copy_ub_to_ub",
        "Bursts of whole datablocks inside UB, on the vector pipe. Source: asc-devkit docs, DataCopy pages.",
        "copy_ubuf_to_ubuf",
        Pipe.V,
        "burst",
        "DataCopyUB",
        *_INSIDE_UB,
    ),
    (Buffer.GM, Buffer.L1): _copy_op(
        "data_copy_gm_to_l1",
        "Bursts of whole datablocks from GM to L1. Source: asc-devkit docs, DataCopy pages.",
        "copy_gm_to_cbuf",
        Pipe.MTE2,
        "transfer",
        "gm_to_l1",
        *_BETWEEN,
    ),
    (Buffer.L1, Buffer.GM): _copy_op(
        "data_copy_l1_to_gm",
        "Bursts of whole datablocks from L1 to GM. Source: asc-devkit docs, data paths page.",
        "copy_cbuf_to_gm",
        Pipe.MTE3,
        "transfer",
        "ub_to_gm",
        rules.on_devices_with("data_copy_l1_to_gm"),
        *_BETWEEN,
    ),
    (Buffer.L1, Buffer.BT): _copy_op(
        "data_copy_l1_to_bt",
        "Biases from L1 to the bias table. Source: asc-devkit docs, DataCopy L1 to BiasTable page.",
        "copy_cbuf_to_bt",
        Pipe.MTE1,
        "local",
        "l1_to_bt",
        *_BETWEEN,
    ),
    (Buffer.L1, Buffer.FB): _copy_op(
        "data_copy_l1_to_fb",
        "Scales from L1 to the fixpipe buffer. Source: asc-devkit docs, DataCopy L1 to Fixpipe buffer page.",
        "copy_cbuf_to_fbuf",
        Pipe.FIX,
        "local",
        "l1_to_fb",
        *_BETWEEN,
    ),
    (Buffer.UB, Buffer.L1): _copy_op(
        "data_copy_ub_to_l1",
        "Bursts of whole datablocks from UB to L1 of a combined core. Source: asc-devkit docs, data paths page.",
        "copy_ubuf_to_cbuf",
        Pipe.MTE3,
        "local",
        "ub_to_l1",
        rules.on_devices_with("data_copy_ub_to_l1"),
        *_BETWEEN,
    ),
}

PAD_OPS = {
    "in": _pad_op(
        "data_copy_pad_gm_to_ub",
        "Bursts of any byte length from GM to UB, padded to datablocks. Source: asc-devkit docs, DataCopyPad page.",
        "copy_gm_to_ubuf_align",
        Pipe.MTE2,
        PAD_IN,
        "gm_to_ub",
    ),
    "out": _pad_op(
        "data_copy_pad_ub_to_gm",
        "Bursts of any byte length from UB to GM, padding dropped. Source: asc-devkit docs, DataCopyPad page.",
        "copy_ubuf_to_gm_align",
        Pipe.MTE3,
        PAD_OUT,
        "ub_to_gm",
    ),
}


ATOMIC_OPS = {
    "data_copy_ub_to_gm": _copy_op(
        "data_copy_ub_to_gm_atomic_add",
        "As data_copy_ub_to_gm, added to what GM holds. Source: asc-devkit docs, DataCopy and SetAtomicAdd pages.",
        "copy_ubuf_to_gm",
        Pipe.MTE3,
        "transfer",
        "ub_to_gm",
        adds=True,
    ),
    "data_copy_l1_to_gm": _copy_op(
        "data_copy_l1_to_gm_atomic_add",
        "As data_copy_l1_to_gm, added to what GM holds. Source: asc-devkit docs, SetAtomicAdd page.",
        "copy_cbuf_to_gm",
        Pipe.MTE3,
        "transfer",
        "ub_to_gm",
        rules.on_devices_with("data_copy_l1_to_gm"),
        *_BETWEEN,
        adds=True,
    ),
    "data_copy_pad_ub_to_gm": _pad_op(
        "data_copy_pad_ub_to_gm_atomic_add",
        "As data_copy_pad_ub_to_gm, added to what GM holds. Source: asc-devkit docs, SetAtomicAdd page.",
        "copy_ubuf_to_gm_align",
        Pipe.MTE3,
        PAD_OUT,
        "ub_to_gm",
        adds=True,
    ),
}
"""By the name of the plain store."""


class MoveInstructions:
    """Copy, Duplicate, Brcb, DataCopy, DataCopyPad."""

    copy = Form(
        declare(
            "copy",
            """Masked block copy inside UB; in counter mode the mask counts each repeat's elements and repeat counts.

            Source: asc-devkit docs, Copy page.
            """,
            api="Copy",
            mnemonic="vcopy",
            pipe=Pipe.V,
            params=UNARY,
            cost="vector",
            family="Copy",
            execute=_run_copy,
            touch=_touch_copy,
            checks=(
                rules.on_devices_with("copy_ub_to_ub"),
                rules.dtypes(WORDS, "dst", "src0"),
                rules.same_dtype,
                rules.aligned("dst", "src0"),
                *rules.UNDER_MASK,
                rules.strides(65535, 4095),
                _counts_each_repeat,
                no_partial_overlap(grid=_copy_overlap_grid),
                rules.in_bounds,
            ),
            uses_mask=True,
        ),
        CopyCall,
    )
    duplicate = Form(
        declare(
            "duplicate",
            "dst[i] = scalar, a number or a Register. Source: asc-devkit docs, Duplicate page.",
            api="Duplicate",
            mnemonic="vector_dup",
            pipe=Pipe.V,
            params=FILL,
            cost="vector",
            family="Duplicate",
            execute=_run_fill,
            touch=_touch_fill,
            checks=(
                rules.dtypes(WORDS, "dst"),
                rules.aligned("dst"),
                *rules.UNDER_MASK,
                rules.strides(65535, 255),
                rules.in_bounds,
            ),
            uses_mask=True,
            takes_scalar=True,
        ),
        DuplicateCall,
    )
    brcb = Form(
        declare(
            "brcb",
            """Each of 8 source elements of a repeat fills one datablock of dst; the source is contiguous.

            Source: asc-devkit docs, Brcb page.
            """,
            api="Brcb",
            mnemonic="vbrcb",
            pipe=Pipe.V,
            params=FILL,
            cost="vector",
            family="Brcb",
            execute=_run_brcb,
            touch=_touch_brcb,
            checks=(
                rules.on_devices_with("brcb"),
                rules.dtypes(WORDS, "dst", "src0"),
                rules.same_dtype,
                rules.aligned("dst", "src0"),
                rules.repeat_range,
                rules.strides(65535, 65535, dst_blk_min=0),
                _brcb_rules,
                _brcb_source,
                counter_ignored,
                rules.in_bounds_but("src0"),
            ),
            uses_mask=False,
        ),
        BrcbCall,
    )
    data_copy = Form(DATA_COPY_OPS[(Buffer.GM, Buffer.UB)], DataCopyCall)
    data_copy_pad = Form(PAD_OPS["in"], DataCopyPadCall)
