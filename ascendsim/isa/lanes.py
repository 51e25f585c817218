"""Which elements a vector instruction touches: masks, repeats and strides turned into element offsets.

Lane l of repeat r lies at r*rep_stride*32 + (l div e)*blk_stride*32 bytes + (l mod e) elements, with e elements of the
operand in a datablock (asc-devkit docs, high-dimension splitting page). In counter mode the mask is the number of
elements of the whole instruction and the repeat field is ignored.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ascendsim.isa.instruction import Row
from ascendsim.memory import Lanes
from ascendsim.terms import DATABLOCK_BYTES, FULL_MASK, REPEAT_BYTES, MaskMode, ceil_div

Offsets = NDArray[np.int64]

MOST_ELEMENTS = 1 << 20
"""A count beyond this lies outside every on-chip buffer; offsets are not spelled out further."""


def lane_count(element_bytes: int) -> int:
    """Lanes of one repeat for the widest operand's element size."""
    return REPEAT_BYTES // element_bytes


def lanes_of(row: Row) -> int:
    """Lanes of one repeat: mixed-width instructions count lanes by the wider element."""
    return lane_count(max(o.dtype.bytes for role, o in row.operands if role in row.op.lane_roles))


def repeats_of(row: Row, lanes: int) -> int:
    """Repeats the hardware runs: ceil(count / lanes) in counter mode, the repeat field otherwise."""
    if row.mask_mode is MaskMode.COUNTER:
        return ceil_div(min(row.mask_lo, MOST_ELEMENTS), lanes)
    return max(0, row.param("repeat"))


def ends_partial(row: Row, lanes: int) -> bool:
    """Whether the last repeat has inactive lanes."""
    if row.mask_mode is MaskMode.COUNTER:
        return row.mask_lo % lanes != 0
    return len(active_lanes(row.mask_hi, row.mask_lo, lanes)) < lanes


@lru_cache(maxsize=4096)
def active_lanes(mask_hi: int, mask_lo: int, lanes: int) -> Offsets:
    """Lane numbers whose bit is set, of a normal-mode mask."""
    bits = mask_lo | (mask_hi << 64)
    return np.array([lane for lane in range(lanes) if bits >> lane & 1], np.int64)


def lane_grid(row: Row, lanes: int) -> tuple[Offsets, Offsets]:
    """Return (repeat numbers, lane numbers) of all active lanes of a row, in order."""
    if row.mask_mode is MaskMode.COUNTER:
        return _count_grid(min(row.mask_lo, MOST_ELEMENTS), lanes)
    return _mask_grid(row.mask_hi, row.mask_lo, max(0, row.param("repeat")), lanes)


@lru_cache(maxsize=4096)
def _count_grid(count: int, lanes: int) -> tuple[Offsets, Offsets]:
    flat = np.arange(count, dtype=np.int64)
    return flat // lanes, flat % lanes


@lru_cache(maxsize=4096)
def _mask_grid(mask_hi: int, mask_lo: int, repeat: int, lanes: int) -> tuple[Offsets, Offsets]:
    active = active_lanes(mask_hi, mask_lo, lanes)
    return np.repeat(np.arange(repeat, dtype=np.int64), len(active)), np.tile(active, repeat)


def element_offsets(repeats: Offsets, lanes: Offsets, blk_stride: int, rep_stride: int, element_bytes: int) -> Offsets:
    """Element offsets from the operand's start, for pairs of repeat and lane numbers."""
    e = DATABLOCK_BYTES // element_bytes
    return repeats * (rep_stride * e) + lanes // e * (blk_stride * e) + lanes % e


def operand_at(row: Row, lanes: int, blk_stride: int, rep_stride: int, element_bytes: int) -> Lanes:
    """Elements of one operand that a row touches."""
    if row.mask_mode is MaskMode.COUNTER:
        is_plain = _is_contiguous(lanes, blk_stride, rep_stride, element_bytes)
        count = row.mask_lo if is_plain else min(row.mask_lo, MOST_ELEMENTS)
        return _count_at(count, lanes, blk_stride, rep_stride, element_bytes)
    repeat = max(0, row.param("repeat"))
    return _mask_at(row.mask_hi, row.mask_lo, repeat, lanes, blk_stride, rep_stride, element_bytes)


def _is_contiguous(lanes: int, blk_stride: int, rep_stride: int, element_bytes: int) -> bool:
    e = DATABLOCK_BYTES // element_bytes
    return blk_stride == 1 and rep_stride * e == lanes


@lru_cache(maxsize=4096)
def _count_at(count: int, lanes: int, blk_stride: int, rep_stride: int, element_bytes: int) -> Lanes:
    if _is_contiguous(lanes, blk_stride, rep_stride, element_bytes):
        return Lanes.run(count)
    repeats, lane = _count_grid(count, lanes)
    return Lanes.at(element_offsets(repeats, lane, blk_stride, rep_stride, element_bytes))


@lru_cache(maxsize=4096)
def _mask_at(
    mask_hi: int, mask_lo: int, repeat: int, lanes: int, blk_stride: int, rep_stride: int, element_bytes: int
) -> Lanes:
    full = mask_lo == FULL_MASK and (lanes <= 64 or mask_hi == FULL_MASK)
    if full and _is_contiguous(lanes, blk_stride, rep_stride, element_bytes):
        return Lanes.run(repeat * lanes)
    repeats, lane = _mask_grid(mask_hi, mask_lo, repeat, lanes)
    return Lanes.at(element_offsets(repeats, lane, blk_stride, rep_stride, element_bytes))


def byte_range(at: Lanes, element_bytes: int) -> tuple[int, int]:
    """First byte and end of what `at` touches; (0, 0) for nothing."""
    first, end = at.bounds
    return first * element_bytes, end * element_bytes


def mask_bits(lanes_wanted: int) -> tuple[int, int]:
    """Return (hi, lo) of a normal-mode mask with the first `lanes_wanted` lanes set."""
    bits = (1 << lanes_wanted) - 1
    return bits >> 64, bits & FULL_MASK
