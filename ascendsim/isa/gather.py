"""Elements and datablocks picked by what is known only at run time: Gather, Gatherb, GatherMask. And Transpose.

What is read depends on data, so the bytes a row may touch are those of the whole source tensor: whoever asks errs
towards too many. An offset outside of it is found when the program runs.
"""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import overload

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, INT16, INT32, UINT16, UINT32, DType
from ascendsim.errors import Finding, Rule
from ascendsim.isa import rules
from ascendsim.isa.forms import Call, Form, Mask, apply_mask, declare, set_mask, set_mask_mode
from ascendsim.isa.instruction import Array, Context, Register, Row, Step, TensorRef, need_int
from ascendsim.isa.lanes import byte_range, element_offsets, lane_grid, operand_at
from ascendsim.memory import Lanes, LocalTensor
from ascendsim.terms import (
    DATABLOCK_BYTES,
    DATABLOCKS_PER_REPEAT,
    FULL_MASK,
    MAX_REPEAT_TIMES,
    MaskMode,
    Pipe,
    ceil_div,
)

OVERLAP_GATHER = Rule(
    "E-OVERLAP-GATHER",
    "{api} cannot be in place: dst overlaps {operand}",
    "give dst its own memory",
    "asc-devkit docs, Gather and Gatherb pages",
)
BASE_ALIGN = Rule(
    "E-ALIGN-OFFSET",
    "{api} src_base_addr {got} is no multiple of the element size {wanted}",
    "count it in bytes, in whole elements",
    "asc-devkit docs, Gather page",
)
BASE_RANGE = Rule(
    "E-INDEX-RANGE",
    "{api} src_base_addr {got} lies outside the {wanted} B of {tensor}",
    "keep it inside the source",
    "asc-devkit docs, Gather page",
)
OFFSET_TYPE = Rule(
    "E-DTYPE-OP",
    "{api} does not support {got} for {operand}; it takes {wanted}",
    "offsets and patterns are unsigned",
    "asc-devkit docs, the instruction's own page",
)
PATTERN_RANGE = Rule(
    "E-INDEX-RANGE",
    "GatherMask pattern {got} does not exist, fixed patterns are {wanted}",
    "use 1..7, or a tensor of bits",
    "asc-devkit docs, GatherMask page",
)
BLOCK_STRIDE = Rule(
    "W-STRIDE-ZERO",
    "Gatherb dst_blk_stride 0 is taken as 1",
    "write 1",
    "asc-devkit docs, Gatherb page",
)
TRANSPOSE_OVERLAP = Rule(
    "E-OVERLAP",
    "Transpose: dst and src overlap without being the same",
    "separate buffers",
    "asc-devkit docs, general constraints",
)

WORDS = (HALF, BFLOAT16, INT16, UINT16, INT32, UINT32, FLOAT)
GATHER = ("repeat", "dst_rep_stride", "base_bytes", "src0_bytes")
GATHERB = ("repeat", "dst_blk_stride", "dst_rep_stride", "src0_bytes")
GATHER_MASK = ("repeat", "src0_blk_stride", "src0_rep_stride", "src1_rep_stride", "pattern", "dst_bytes")
PATTERNS = {1: (2, (0,)), 2: (2, (1,)), 3: (4, (0,)), 4: (4, (1,)), 5: (4, (2,)), 6: (4, (3,)), 7: (1, (0,))}
"""Fixed patterns: of how many neighbours which are kept."""
TRANSPOSED = 16
"""Rows and columns of Transpose."""


@dataclass(frozen=True, slots=True)
class GatherRepeatParams:
    """Strides in datablocks of Gatherb's destination."""

    dst_blk_stride: int = 1
    dst_rep_stride: int = 8


@dataclass(frozen=True, slots=True)
class GatherMaskParams:
    """Strides in datablocks of GatherMask's source and pattern, and its repeats, in AscendC's order."""

    src0_blk_stride: int = 1
    repeat_times: int = 1
    src0_rep_stride: int = 8
    src1_rep_stride: int = 8


def _bytes_left(tensor: LocalTensor) -> int:
    return max(0, tensor.allocation_bytes - tensor.offset_bytes)


def _word(dtype: DType) -> DType:
    """The unsigned type as wide: elements are moved as bits."""
    return UINT16 if dtype.bytes == UINT16.bytes else UINT32


def _apart(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Dst meets neither the offsets nor the start of the source, whose end nobody names."""
    del device
    assert row.dst is not None
    operands, touched = dict(row.operands), {role: (first, end) for role, first, end in row.op.touch(row)}
    found = []
    start = {r: rules.tensor_of(o, tensors).address_bytes + o.offset_bytes for r, o in operands.items()}
    first, end = (start["dst"] + at for at in touched["dst"])
    for role, length in (("src0", operands["src0"].dtype.bytes), ("src1", touched["src1"][1])):
        if first < end and first < start[role] + length and start[role] < end:
            fill = {"api": row.op.api}
            found.append(OVERLAP_GATHER.finding(where, operand=role, got="overlaps", wanted="apart", fill=fill))
    return found


def _offsets_are_words(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Offsets are uint32_t."""
    del tensors, device
    if row.src1 is None or row.src1.dtype is UINT32:
        return []
    fill = {"api": row.op.api}
    return [OFFSET_TYPE.finding(where, operand="src_offset", got=row.src1.dtype, wanted=UINT32, fill=fill)]


def _same_data(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Source and destination have one dtype; offsets and patterns have their own."""
    del tensors, device
    if row.dst is None or row.src0 is None or row.dst.dtype is row.src0.dtype:
        return []
    got = f"dst {row.dst.dtype}, src0 {row.src0.dtype}"
    return [rules.DTYPE_SAME.finding(where, operand="dst", got=got, wanted="one dtype", fill={"api": row.op.api})]


# ---- Gather -----------------------------------------------------------------------------------------------------


class GatherCall(Call):
    """dst, src, src_offset (bytes, uint32_t), src_base_addr in bytes; then count, or mask, repeat_times, stride."""

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
            self._emit(dst, src, src_offset, src_base_addr, mask, (repeat_times, dst_rep_stride))
            return
        need_int(self.asc, self.op.api, "count", mask)
        whole, tail = divmod(int(mask), lanes)  # type: ignore[arg-type]
        parts = [(at * lanes, lanes, min(MAX_REPEAT_TIMES, whole - at)) for at in range(0, whole, MAX_REPEAT_TIMES)]
        if tail:
            parts.append((whole * lanes, tail, 1))
        for at, active, repeat in parts or [(0, lanes, 0)]:
            self._emit(dst[at], src, src_offset[at], src_base_addr, active, (repeat, 8))

    def _emit(
        self, dst: LocalTensor, src: LocalTensor, offset: LocalTensor, base: int, mask: Mask, fields: tuple[int, int]
    ) -> None:
        apply_mask(self.asc, self.op.api, mask, dst.dtype)
        params = (*fields, base, _bytes_left(src))
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
        params = (repeat_times, *astuple(repeat_params), _bytes_left(src))
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


def _gatherb_stride(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """A block stride of 0 is taken as 1."""
    del tensors, device
    if row.param("dst_blk_stride"):
        return []
    return [BLOCK_STRIDE.finding(where, operand="dst", got=0, wanted="at least 1")]


# ---- GatherMask -------------------------------------------------------------------------------------------------


class GatherMaskCall(Call):
    """dst, src0, src1_pattern (1..7, or a tensor of bits), reduce_mode, mask, GatherMaskParams; returns the count.

    Without reduce_mode each repeat takes 256 B and the mask has no effect; with it each takes `mask` elements.
    """

    def __call__(
        self,
        dst: LocalTensor,
        src0: LocalTensor,
        src1_pattern: int | LocalTensor,
        reduce_mode: bool,
        mask: int,
        params: GatherMaskParams = GatherMaskParams(),
    ) -> Register:
        """Record the call; the mode is normal afterwards, the mask stays in the register."""
        asc, api = self.asc, self.op.api
        self.locals(dst=dst, src0=src0)
        need_int(asc, api, "mask", mask)
        bits = src1_pattern if isinstance(src1_pattern, LocalTensor) else None
        if bits is None:
            need_int(asc, api, "src1_pattern", src1_pattern)
        set_mask_mode(asc, MaskMode.COUNTER if reduce_mode else MaskMode.NORMAL)
        set_mask(asc, 0, mask)
        kept = asc.new_register(UINT32)
        p = params
        asc.emit(
            self.op,
            dst=dst,
            src0=src0,
            src1=bits,
            params=(
                *(p.repeat_times, p.src0_blk_stride, p.src0_rep_stride, p.src1_rep_stride),
                0 if isinstance(src1_pattern, LocalTensor) else src1_pattern,
                _bytes_left(dst),
            ),
            scalar=kept,
        )
        set_mask_mode(asc, MaskMode.NORMAL)
        return kept


def _each_repeat(row: Row) -> int:
    """Elements that one repeat looks at."""
    assert row.dst is not None
    return row.mask_lo if row.mask_mode is MaskMode.COUNTER else row.dst.dtype.per_repeat


def _looked_at(row: Row) -> tuple[Array, Array]:
    """Repeat numbers, and numbers inside the repeat, of all elements that are looked at."""
    repeat, each = max(0, row.param("repeat")), _each_repeat(row)
    return np.repeat(np.arange(repeat), each), np.tile(np.arange(each), repeat)


def _mask_source(row: Row) -> Lanes:
    assert row.src0 is not None
    strides = row.param("src0_blk_stride"), row.param("src0_rep_stride")
    return Lanes.at(element_offsets(*_looked_at(row), *strides, row.src0.dtype.bytes))


def _pattern_at(row: Row) -> Lanes:
    """Words of the pattern: one after another inside a repeat, each repeat at its stride."""
    assert row.src1 is not None
    width = row.src1.dtype.bytes
    repeats, words = np.arange(max(0, row.param("repeat"))), np.arange(ceil_div(_each_repeat(row), 8 * width))
    return Lanes.at((repeats[:, None] * (row.param("src1_rep_stride") * DATABLOCK_BYTES // width) + words).reshape(-1))


def _fixed(row: Row) -> Array:
    """Which elements a fixed pattern keeps."""
    period, kept = PATTERNS.get(row.param("pattern"), (1, (0,)))
    chosen: Array = np.isin(_looked_at(row)[1] % period, kept)
    return chosen


def _touch_gather_mask(row: Row) -> tuple[tuple[str, int, int], ...]:
    """A fixed pattern writes what it keeps; with a pattern of bits all of dst that there is may be written."""
    assert row.dst is not None
    assert row.src0 is not None
    width, number = row.dst.dtype.bytes, _looked_at(row)[0].size
    read = ("src0", *byte_range(_mask_source(row), width))
    if row.src1 is None:
        return (("dst", 0, int(_fixed(row).sum()) * width), read)
    bits = ("src1", *byte_range(_pattern_at(row), row.src1.dtype.bytes))
    return (("dst", 0, min(number * width, row.param("dst_bytes"))), read, bits)


def _run_gather_mask(ctx: Context, row: Row) -> Step:
    """The source is read whole, then what is kept is written one behind the other, and counted."""
    assert row.dst is not None
    assert row.src0 is not None
    read, place = ctx.reader(row.src0, _mask_source(row)), ctx.placer(row.dst, row.param("dst_bytes"))
    keep, chosen = ctx.register(row), _chooser(ctx, row)

    def step() -> None:
        kept = read()[chosen()]
        place(kept)
        keep(np.asarray(kept.size, np.uint32))

    return step


def _chooser(ctx: Context, row: Row) -> Callable[[], Array]:
    """Return what says which of the elements that are looked at are kept."""
    if row.src1 is None:
        fixed = _fixed(row)
        return lambda: fixed
    read, repeat, each = ctx.reader(row.src1, _pattern_at(row)), max(0, row.param("repeat")), _each_repeat(row)

    def chosen() -> Array:
        bits = np.unpackbits(read().copy().view(np.uint8), bitorder="little")
        kept: Array = bits.reshape(repeat, -1)[:, :each].reshape(-1).astype(np.bool_)
        return kept

    return chosen


def _pattern_fits(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """A fixed pattern is 1..7; bits are words as wide as the elements."""
    del tensors, device
    assert row.src0 is not None
    if row.src1 is None:
        if row.param("pattern") in PATTERNS:
            return []
        return [PATTERN_RANGE.finding(where, operand="src1_pattern", got=row.param("pattern"), wanted="1..7")]
    wanted = _word(row.src0.dtype)
    if row.src1.dtype is wanted:
        return []
    fill = {"api": row.op.api}
    return [OFFSET_TYPE.finding(where, operand="src1_pattern", got=row.src1.dtype, wanted=wanted, fill=fill)]


# ---- Transpose --------------------------------------------------------------------------------------------------


class TransposeCall(Call):
    """dst, src: 16 rows of 16 elements each."""

    def __call__(self, dst: LocalTensor, src: LocalTensor) -> None:
        """Record the call."""
        self.locals(dst=dst, src=src)
        self.asc.emit(self.op, dst=dst, src0=src, params=(1,))


def _touch_transpose(row: Row) -> tuple[tuple[str, int, int], ...]:
    assert row.dst is not None
    length = TRANSPOSED * TRANSPOSED * row.dst.dtype.bytes
    return (("dst", 0, length), ("src0", 0, length))


def _run_transpose(ctx: Context, row: Row) -> Step:
    """A move of bits: the source is read whole, so it may be the destination."""
    assert row.dst is not None
    assert row.src0 is not None
    width = row.dst.dtype.bytes
    turned = np.arange(TRANSPOSED * TRANSPOSED).reshape(TRANSPOSED, TRANSPOSED).T.reshape(-1)
    size = turned.size
    return ctx.mover(row.dst, Lanes.run(size).of_bytes(width), row.src0, Lanes.at(turned).of_bytes(width))


def _same_or_apart(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Dst is src, or meets none of it."""
    del device
    dst, src = (rules.tensor_of(o, tensors).address_bytes + o.offset_bytes for _, o in row.operands)
    length = row.op.touch(row)[0][2]
    if dst == src or abs(dst - src) >= length:
        return []
    return [TRANSPOSE_OVERLAP.finding(where, operand="dst", got="overlaps src", wanted="the same or apart")]


class GatherInstructions:
    """Gather, Gatherb, GatherMask, Transpose."""

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
                _same_data,
                _offsets_are_words,
                rules.aligned("dst", "src0", "src1"),
                rules.repeat_range,
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
                rules.dtypes((UINT16, UINT32), "dst", "src0"),
                _same_data,
                _offsets_are_words,
                rules.aligned("dst", "src0", "src1"),
                rules.repeat_range,
                rules.strides(255, 65535, dst_blk_min=0),
                _gatherb_stride,
                _apart,
                rules.in_bounds,
            ),
            uses_mask=False,
            lane_roles=("dst",),
        ),
        GatherbCall,
    )
    gather_mask = Form(
        declare(
            "gather_mask",
            """Elements of src0 whose bit is 1, one behind the other, and how many; 16 and 32-bit elements.

            A fixed pattern keeps even (1) or odd (2) elements, the first to fourth of every four (3..6), or all (7).

            Source: asc-devkit docs, GatherMask page.
            """,
            api="GatherMask",
            mnemonic="vreducev2",
            pipe=Pipe.V,
            params=GATHER_MASK,
            cost="compact",
            family="GatherMask",
            execute=_run_gather_mask,
            touch=_touch_gather_mask,
            checks=(
                rules.dtypes(WORDS, "dst", "src0"),
                _same_data,
                _pattern_fits,
                rules.aligned("dst", "src0", "src1"),
                rules.repeat_range,
                rules.strides(255, 65535),
                rules.in_bounds,
            ),
            uses_mask=False,
            lane_roles=("dst", "src0"),
        ),
        GatherMaskCall,
    )
    transpose = Form(
        declare(
            "transpose",
            """dst[16i + j] = src[16j + i] for 16 rows of 16 elements; half, int16_t, uint16_t.

            Source: asc-devkit docs, Transpose page, ND2ND_B16.
            """,
            api="Transpose",
            mnemonic="vtranspose",
            pipe=Pipe.V,
            params=("repeat",),
            cost="vector",
            family="Transpose",
            execute=_run_transpose,
            touch=_touch_transpose,
            checks=(
                rules.dtypes((HALF, INT16, UINT16), "dst", "src0"),
                rules.same_dtype,
                rules.aligned("dst", "src0"),
                _same_or_apart,
                rules.in_bounds,
            ),
            uses_mask=False,
        ),
        TransposeCall,
    )
