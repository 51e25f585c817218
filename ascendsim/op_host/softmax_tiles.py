"""The arithmetic that the host functions of the softmax family share, each rule once. Numbers equal CANN's.

M is the product of all axes but the last [rows], K the last axis [elements], e the elements of one datablock of the
row results' type. CANN computes in uint32 and wraps without a word; `Uint32` does so too, and tells.

Source: asc-devkit 9.1.0, softmax tiling (host).
"""

from dataclasses import dataclass

from ascendsim.dtypes import FLOAT
from ascendsim.op_host.softmax_outcome import SoftMaxTiling
from ascendsim.terms import align_up

LANES = FLOAT.per_repeat
"""Floats of one repeat, 64."""

ROW_GROUP = 8
"""Rows of one basic block; tiles above this height are kept at a multiple of it."""

WHOLE_INPUT_ARCHS = frozenset({3510, 5102})
"""Architectures whose minima cover something of every row instead of one row. Not a matter of the tilings."""

_TILE_ELEMENTS_END = 256 * LANES
"""Basic-block tiles stay below this: their repeats are counted in 8 bits."""


class Uint32:
    """Reduces values as storing them in a uint32 does, and remembers whether one did not fit."""

    __slots__ = ("wrapped",)

    def __init__(self) -> None:
        self.wrapped = False

    def __call__(self, value: int) -> int:
        """Return the value modulo 2**32."""
        self.wrapped |= not 0 <= value < 1 << 32
        return value % (1 << 32)


@dataclass(frozen=True, slots=True)
class RowCost:
    """Temp that is reserved for one row: rows of K floats, datablocks of e floats, and single floats."""

    rows: int
    datablocks: int
    floats: int

    def of(self, k: int, per_datablock: int) -> int:
        """Return the floats for rows of k elements whose results keep per_datablock elements."""
        return self.rows * k + self.datablocks * per_datablock + self.floats


def rows_in_halved_tile(u32: Uint32, rows: int, k: int) -> int:
    """Return the rows left when a tile is halved until it holds less than 16384 elements; 0 is possible."""
    while u32(rows * k) >= _TILE_ELEMENTS_END:
        rows //= 2
    return rows


def whole_groups(fit: int, m: int, group: int = ROW_GROUP) -> int:
    """Return the tile height: a multiple of `group` when above it and not all m rows fit."""
    return fit // group * group if group < fit < m else fit


def basic_block_rows(u32: Uint32, fit: int, m: int, k: int) -> int:
    """Return the tile height for basic blocks: a multiple of 8 that divides m, then halved until the tile is small.

    Halving may end at heights that do neither, 0 included; that is CANN's own result.
    """
    if fit <= ROW_GROUP or m % ROW_GROUP:
        return fit
    height = fit // ROW_GROUP * ROW_GROUP
    while m % height:
        height -= ROW_GROUP
    return rows_in_halved_tile(u32, height, k)


def host_rows(u32: Uint32, fit: int, m: int, k: int) -> int:
    """Return the tile height of the host functions that always adjust to basic blocks where K is whole repeats."""
    height = whole_groups(fit, m)
    return basic_block_rows(u32, height, m, k) if k % LANES == 0 else height


def row_sum_floats(m: int, is_front: bool) -> int:
    """Return the temp floats of row sums in whole repeats.

    Args:
        m: rows.
        is_front: one float per row, in whole repeats, instead of two, in pairs of repeats.
    """
    return align_up(m, LANES) if is_front else align_up(2 * m, 2 * LANES)


def whole_input_floats(m: int, k: int, per_row: int) -> int:
    """Return the floats of m rows of k + per_row, one more per row in whole groups of 8, and four repeats."""
    return m * (per_row + k) + 4 * LANES + align_up(m, ROW_GROUP)


def tiling_fields(u32: Uint32, m: int, k: int, per_datablock: int, height: int) -> SoftMaxTiling:
    """Return the 16 fields for tiles of `height` rows."""
    full, tail = divmod(m, height) if height else (0, 0)
    return SoftMaxTiling(
        src_m=m,
        src_k=k,
        src_size=u32(m * k),
        out_max_m=m,
        out_max_k=per_datablock,
        out_max_size=u32(m * per_datablock),
        split_m=height,
        split_k=k,
        split_size=u32(height * k),
        reduce_m=height,
        reduce_k=per_datablock,
        reduce_size=u32(height * per_datablock),
        range_m=full,
        tail_m=tail,
        tail_split_size=u32(tail * k),
        tail_reduce_size=u32(tail * per_datablock),
    )
