"""GatherMask: elements picked by a pattern of bits, put one behind the other and counted.

How many there are is known only at run time; with a pattern of bits all of the destination may be written, and what
does not fit is found when the program runs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import UINT32, word_of
from ascendsim.errors import Finding
from ascendsim.isa import rules
from ascendsim.isa.forms import Call, Form, declare, set_mask, set_mask_mode
from ascendsim.isa.gather import BASE_RANGE, OFFSET_TYPE, WORDS, bytes_left, same_data
from ascendsim.isa.instruction import (
    Array,
    Context,
    Register,
    Row,
    Step,
    TensorRef,
    finds,
    need_int,
)
from ascendsim.isa.lanes import MOST_ELEMENTS, byte_range, element_offsets
from ascendsim.isa.overlap import OVERLAP, ranges_meet, start_of
from ascendsim.isa.params import need_bool, need_params
from ascendsim.memory import Lanes, LocalTensor
from ascendsim.terms import DATABLOCK_BYTES, MaskMode, Pipe, ceil_div

PATTERN_RANGE = BASE_RANGE.saying(
    "GatherMask pattern {got} does not exist, fixed patterns are {wanted}",
    "use 1..7, or a tensor of bits",
    "asc-devkit docs, GatherMask page",
)
MASK_OVERLAP = OVERLAP.saying(
    "{api}: dst and {operand} share bytes of {tensor} without starting together",
    hint="let dst start where src0 does, or keep the two apart",
)
GATHER_MASK = ("repeat", "src0_blk_stride", "src0_rep_stride", "src1_rep_stride", "pattern", "dst_bytes")
PATTERNS = {1: (2, (0,)), 2: (2, (1,)), 3: (4, (0,)), 4: (4, (1,)), 5: (4, (2,)), 6: (4, (3,)), 7: (1, (0,))}
"""Fixed patterns: of how many neighbours which are kept."""
KEEPS_ALL = 7


@dataclass(frozen=True, slots=True)
class GatherMaskParams:
    """Strides in datablocks of GatherMask's source and pattern, and its repeats, in AscendC's order."""

    src0_blk_stride: int = 1
    repeat_times: int = 1
    src0_rep_stride: int = 8
    src1_rep_stride: int = 8


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
        need_bool(asc, api, "reduce_mode", reduce_mode)
        p = need_params(asc, api, params, GatherMaskParams)
        bits = src1_pattern if isinstance(src1_pattern, LocalTensor) else None
        if bits is None:
            need_int(asc, api, "src1_pattern", src1_pattern)
        set_mask_mode(asc, MaskMode.COUNTER if reduce_mode else MaskMode.NORMAL)
        set_mask(asc, 0, mask)
        kept = asc.new_register(UINT32, api)
        asc.emit(
            self.op,
            dst=dst,
            src0=src0,
            src1=bits,
            params=(
                *(p.repeat_times, p.src0_blk_stride, p.src0_rep_stride, p.src1_rep_stride),
                0 if isinstance(src1_pattern, LocalTensor) else src1_pattern,
                bytes_left(dst),
            ),
            scalar=kept,
        )
        set_mask_mode(asc, MaskMode.NORMAL)
        return kept


def _each_repeat(row: Row) -> int:
    """Elements that one repeat looks at; more than lie in any UB are not spelled out."""
    assert row.dst is not None
    if row.mask_mode is MaskMode.NORMAL:
        return row.dst.dtype.per_repeat
    return min(row.mask_lo, MOST_ELEMENTS // max(1, row.param("repeat")))


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


@finds(rules.API_PRODUCT, PATTERN_RANGE, OFFSET_TYPE)
def _pattern_fits(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """A fixed pattern is 1..7, or 1..6 where the device has no more; bits are words as wide as the elements."""
    del tensors
    assert row.src0 is not None
    if row.src1 is None:
        if row.param("pattern") == KEEPS_ALL:
            return rules.lacking(device, "gather_mask_all", f"GatherMask pattern {KEEPS_ALL}", where)
        if row.param("pattern") in PATTERNS:
            return []
        return [PATTERN_RANGE.finding(where, operand="src1_pattern", got=row.param("pattern"), wanted="1..7")]
    wanted = word_of(row.src0.dtype)
    if row.src1.dtype is wanted:
        return []
    fill = {"api": row.op.api}
    return [OFFSET_TYPE.finding(where, operand="src1_pattern", got=row.src1.dtype, wanted=wanted, fill=fill)]


@finds(MASK_OVERLAP)
def _in_place_or_apart(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Dst begins where the source does, or meets none of it; what a pattern of bits writes is not known here."""
    del device
    assert row.dst is not None
    assert row.src0 is not None
    if row.src1 is not None or start_of(row.dst, tensors) == start_of(row.src0, tensors):
        return []
    if not ranges_meet(row, "src0", row.src0, tensors):
        return []
    fill = {"api": row.op.api, "tensor": rules.tensor_of(row.src0, tensors).name}
    return [MASK_OVERLAP.finding(where, operand="src0", got="overlaps", wanted="the same start", fill=fill)]


class GatherMaskInstructions:
    """GatherMask."""

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
                same_data,
                _pattern_fits,
                rules.aligned("dst", "src0", "src1"),
                rules.wide_repeat_range,
                rules.strides(255, 65535),
                _in_place_or_apart,
                rules.in_bounds,
            ),
            uses_mask=False,
            lane_roles=("dst", "src0"),
        ),
        GatherMaskCall,
    )
