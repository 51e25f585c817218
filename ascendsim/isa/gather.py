"""Elements and datablocks picked at offsets that are known only at run time: Gather and Gatherb.

What is read depends on data, so the bytes a row may touch are those of the whole source tensor: whoever asks errs
towards too many. An offset outside of it is found when the program runs.
"""

from dataclasses import dataclass
from typing import overload

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, INT16, INT32, UINT16, UINT32
from ascendsim.errors import Finding, Rule
from ascendsim.isa import rules
from ascendsim.isa.compare import counter_ignored
from ascendsim.isa.forms import Call, Form, Mask, apply_mask, declare, set_mask
from ascendsim.isa.instruction import (
    Array,
    Context,
    Row,
    Step,
    TensorRef,
    finds,
    need_count,
    need_int,
)
from ascendsim.isa.lanes import byte_range, lane_grid, operand_at
from ascendsim.memory import Lanes, LocalTensor
from ascendsim.terms import (
    DATABLOCK_BYTES,
    DATABLOCKS_PER_REPEAT,
    FULL_MASK,
    MAX_REPEAT_TIMES,
    Pipe,
)

OVERLAP_GATHER = rules.OVERLAP_GATHER.saying(
    "{api} cannot be in place: dst overlaps {operand}",
    "give dst its own memory",
    "asc-devkit docs, Gather and Gatherb pages",
)
BASE_ALIGN = Rule(
    "E-ALIGN-OFFSET",
    "{api} src_base_addr {got} is no multiple of the element size {wanted}",
    "count it in bytes, in whole elements",
    "asc-devkit docs, Gather page",
    condition="A byte offset or the base address of Gather is no multiple of the element size, or a byte offset"
    " of Gatherb is no multiple of 32 B.",
)
BASE_RANGE = Rule(
    "E-INDEX-RANGE",
    "{api} src_base_addr {got} lies outside the {wanted} B of {tensor}",
    "keep it inside the source",
    "asc-devkit docs, Gather page",
    condition="An offset or the base address of Gather or Gatherb lies outside the source, a fixed pattern of "
    "GatherMask is not among 1..7, or an index of half data passes 65535.",
)
OFFSET_TYPE = rules.DTYPE_OP.saying(
    "{api} does not support {got} for {operand}; it takes {wanted}",
    "offsets and patterns are unsigned",
    "asc-devkit docs, the instruction's own page",
)
BLOCK_STRIDE = rules.RANGE_STRIDE.saying(
    "Gatherb dst_blk_stride 0 is taken as 1", "write 1", "asc-devkit docs, Gatherb page, where it is allowed", level="W"
)

WORDS = (HALF, BFLOAT16, INT16, UINT16, INT32, UINT32, FLOAT)
GATHER = ("repeat", "dst_rep_stride", "base_bytes", "src0_bytes")
GATHERB = ("repeat", "dst_blk_stride", "dst_rep_stride", "src0_bytes")


@dataclass(frozen=True, slots=True)
class GatherRepeatParams:
    """Strides in datablocks of Gatherb's destination."""

    dst_blk_stride: int = 1
    dst_rep_stride: int = 8


def bytes_left(tensor: LocalTensor) -> int:
    """Bytes from a window's start to its allocation's end."""
    return max(0, tensor.allocation_bytes - tensor.offset_bytes)


@finds(OVERLAP_GATHER)
def _apart(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Dst meets neither the offsets nor the start of the source, whose end nobody names."""
    del device
    assert row.dst is not None
    operands, touched = dict(row.operands), {role: (first, end) for role, first, end in row.touched}
    found = []
    start = {r: rules.tensor_of(o, tensors).address_bytes + o.offset_bytes for r, o in operands.items()}
    first, end = (start["dst"] + at for at in touched["dst"])
    for role, length in (("src0", operands["src0"].dtype.bytes), ("src1", touched["src1"][1])):
        if first < end and first < start[role] + length and start[role] < end:
            fill = {"api": row.op.api}
            found.append(OVERLAP_GATHER.finding(where, operand=role, got="overlaps", wanted="apart", fill=fill))
    return found


@finds(OFFSET_TYPE)
def _offsets_are_words(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Offsets are uint32_t."""
    del tensors, device
    if row.src1 is None or row.src1.dtype is UINT32:
        return []
    fill = {"api": row.op.api}
    return [OFFSET_TYPE.finding(where, operand="src_offset", got=row.src1.dtype, wanted=UINT32, fill=fill)]


@finds(rules.DTYPE_SAME)
def same_data(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Source and destination have one dtype; offsets and patterns have their own."""
    del tensors, device
    if row.dst is None or row.src0 is None or row.dst.dtype is row.src0.dtype:
        return []
    got = f"dst {row.dst.dtype}, src0 {row.src0.dtype}"
    return [rules.DTYPE_SAME.finding(where, operand="dst", got=got, wanted="one dtype", fill={"api": row.op.api})]


# ---- Gather -----------------------------------------------------------------------------------------------------


class GatherCall(Call):
    """dst, src, src_offset (bytes, uint32_t), src_base_addr in bytes; then count, or mask, repeat_times, stride."""

    reports = (rules.RANGE_MASK, rules.REPEAT_ZERO)

    @overload
    def __call__(
        self, dst: LocalTensor, src: LocalTensor, src_offset: LocalTensor, src_base_addr: int, count: int, /
    ) -> None: ...
    @overload
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        src_offset: LocalTensor,
        src_base_addr: int,
        mask: Mask,
        repeat_times: int,
        dst_rep_stride: int,
    ) -> None: ...
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        src_offset: LocalTensor,
        src_base_addr: int,
        mask: Mask,
        repeat_times: int | None = None,
        dst_rep_stride: int = 8,
    ) -> None:
        """Record the mask form; or the count form as whole repeats and a masked tail, whose mask stays set."""
        self.locals(dst=dst, src=src, src_offset=src_offset)
        need_int(self.asc, self.op.api, "src_base_addr", src_base_addr)
        lanes = dst.dtype.per_repeat
        if repeat_times is not None:
            need_int(self.asc, self.op.api, "repeat_times", repeat_times)
            need_int(self.asc, self.op.api, "dst_rep_stride", dst_rep_stride)
            self._emit(dst, src, src_offset, src_base_addr, mask, (repeat_times, dst_rep_stride))
            return
        whole, tail = divmod(need_count(self.asc, self.op.api, "count", mask), lanes)
        parts = [(at * lanes, lanes, min(MAX_REPEAT_TIMES, whole - at)) for at in range(0, whole, MAX_REPEAT_TIMES)]
        if tail:
            parts.append((whole * lanes, tail, 1))
        if not parts:
            self.asc.report(rules.REPEAT_ZERO, got=0, wanted="at least 1", api=self.op.api, what="count")
        for at, active, repeat in parts:
            self._emit(dst[at], src, src_offset[at], src_base_addr, active, (repeat, 8))

    def _emit(
        self, dst: LocalTensor, src: LocalTensor, offset: LocalTensor, base: int, mask: Mask, fields: tuple[int, int]
    ) -> None:
        apply_mask(self.asc, self.op.api, mask, dst.dtype)
        params = (*fields, base, bytes_left(src))
        self.asc.emit(self.op, dst=dst, src0=src, src1=offset, params=params)


def _gather_dst(row: Row) -> Lanes:
    assert row.dst is not None
    return operand_at(row, row.dst.dtype.per_repeat, 1, row.param("dst_rep_stride"), row.dst.dtype.bytes)


def _gather_offsets(row: Row) -> Lanes:
    """Offsets lie one behind the other, a whole repeat's for each repeat."""
    assert row.dst is not None
    lanes = row.dst.dtype.per_repeat
    repeats, lane = lane_grid(row, lanes)
    return Lanes.at(repeats * lanes + lane)


def _touch_gather(row: Row) -> tuple[tuple[str, int, int], ...]:
    """The whole source may be read."""
    assert row.dst is not None
    read = (0, row.param("src0_bytes")) if _gather_offsets(row).size else (0, 0)
    return (
        ("dst", *byte_range(_gather_dst(row), row.dst.dtype.bytes)),
        ("src0", *read),
        ("src1", *byte_range(_gather_offsets(row), UINT32.bytes)),
    )


def _run_gather(ctx: Context, row: Row) -> Step:
    assert row.dst is not None
    assert row.src0 is not None
    assert row.src1 is not None
    read, base = ctx.reader(row.src1, _gather_offsets(row)), row.param("base_bytes")
    pick = ctx.picker(row.src0, row.param("src0_bytes"), row.src0.dtype.bytes)
    write = ctx.writer(row.dst, _gather_dst(row))
    return lambda: write(pick(read().astype(np.int64) + base))


@finds(BASE_ALIGN, BASE_RANGE)
def _base_inside(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """The base is whole elements from the source's start, inside of it."""
    del device
    assert row.src0 is not None
    base, width, length = row.param("base_bytes"), row.src0.dtype.bytes, row.param("src0_bytes")
    fill = {"api": row.op.api, "tensor": rules.tensor_of(row.src0, tensors).name}
    if base % width:
        return [BASE_ALIGN.finding(where, operand="src_base_addr", got=base, wanted=width, fill=fill)]
    if not 0 <= base < length:
        return [BASE_RANGE.finding(where, operand="src_base_addr", got=base, wanted=length, fill=fill)]
    return []


# ---- Gatherb ----------------------------------------------------------------------------------------------------


class GatherbCall(Call):
    """dst, src, offset (bytes of datablocks, uint32_t), repeat_times, GatherRepeatParams. Leaves a full mask."""

    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        offset: LocalTensor,
        repeat_times: int,
        repeat_params: GatherRepeatParams = GatherRepeatParams(),
    ) -> None:
        """Record the call."""
        self.locals(dst=dst, src=src, offset=offset)
        need_int(self.asc, self.op.api, "repeat_times", repeat_times)
        set_mask(self.asc, FULL_MASK, FULL_MASK)
        params = (repeat_times, *self.fields(repeat_params, GatherRepeatParams), bytes_left(src))
        self.asc.emit(self.op, dst=dst, src0=src, src1=offset, params=params)


def _gatherb_dst(row: Row) -> Array:
    """Byte offset of each gathered datablock."""
    blocks = np.arange(max(0, row.param("repeat")) * DATABLOCKS_PER_REPEAT)
    repeats, block = blocks // DATABLOCKS_PER_REPEAT, blocks % DATABLOCKS_PER_REPEAT
    at: Array = (repeats * row.param("dst_rep_stride") + block * (row.param("dst_blk_stride") or 1)) * DATABLOCK_BYTES
    return at


def _touch_gatherb(row: Row) -> tuple[tuple[str, int, int], ...]:
    """The whole source may be read."""
    at = _gatherb_dst(row)
    if not at.size:
        return (("dst", 0, 0), ("src0", 0, 0), ("src1", 0, 0))
    written = (int(at.min()), int(at.max()) + DATABLOCK_BYTES)
    return (("dst", *written), ("src0", 0, row.param("src0_bytes")), ("src1", 0, at.size * UINT32.bytes))


def _run_gatherb(ctx: Context, row: Row) -> Step:
    """Whole datablocks by their first words; an offset must be a whole datablock from an aligned source."""
    assert row.dst is not None
    assert row.src0 is not None
    assert row.src1 is not None
    width, at = row.dst.dtype.bytes, _gatherb_dst(row)
    inside = np.arange(DATABLOCK_BYTES // width)
    read = ctx.reader(row.src1, Lanes.run(at.size))
    pick = ctx.picker(row.src0, row.param("src0_bytes"), DATABLOCK_BYTES)
    write = ctx.writer(row.dst, Lanes.at((at[:, None] // width + inside).reshape(-1)))
    return lambda: write(pick(read().astype(np.int64)))


@finds(BLOCK_STRIDE)
def _gatherb_stride(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """A block stride of 0 is taken as 1."""
    del tensors, device
    if row.param("dst_blk_stride"):
        return []
    return [BLOCK_STRIDE.finding(where, operand="dst", got=0, wanted="at least 1")]


class GatherInstructions:
    """Gather and Gatherb."""

    gather = Form(
        declare(
            "gather",
            """dst[i] = the element of src at byte offset src_base_addr + src_offset[i]; 16 and 32-bit elements.

            Offsets lie one behind the other, whole repeats also where the mask leaves lanes out.

            Source: asc-devkit docs, Gather page.
            """,
            api="Gather",
            mnemonic="vgather",
            pipe=Pipe.V,
            params=GATHER,
            cost="vector",
            family="Gather",
            execute=_run_gather,
            touch=_touch_gather,
            checks=(
                rules.dtypes(WORDS, "dst", "src0"),
                same_data,
                _offsets_are_words,
                rules.aligned("dst", "src0", "src1"),
                *rules.UNDER_MASK,
                rules.strides(65535, 65535),
                _base_inside,
                _apart,
                rules.in_bounds,
            ),
            uses_mask=True,
            lane_roles=("dst",),
        ),
        GatherCall,
    )
    gatherb = Form(
        declare(
            "gatherb",
            """Datablock i of dst = that of src at byte offset offset[i], eight in a repeat; uint16_t, uint32_t.

            Source: asc-devkit docs, Gatherb page.
            """,
            api="Gatherb",
            mnemonic="vgatherb",
            pipe=Pipe.V,
            params=GATHERB,
            cost="vector",
            family="Gatherb",
            execute=_run_gatherb,
            touch=_touch_gatherb,
            checks=(
                rules.on_devices_with("gatherb"),
                rules.dtypes((UINT16, UINT32), "dst", "src0"),
                same_data,
                _offsets_are_words,
                rules.aligned("dst", "src0", "src1"),
                rules.repeat_range,
                rules.strides(255, 65535, dst_blk_min=0),
                _gatherb_stride,
                counter_ignored,
                _apart,
                rules.in_bounds,
            ),
            uses_mask=False,
            lane_roles=("dst",),
        ),
        GatherbCall,
    )
