"""What the instruction sequences of SoftmaxGrad share: a prepared call, its tiles, and the scalar unit's broadcast."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import SoftMaxTiling
from ascendsim.record import AiCore
from ascendsim.terms import MAX_REPEAT_TIMES, NZ_COLUMNS, DataFormat, HardEvent

LANES = 64
"""Floats of one repeat."""
E = 8
"""Floats of one datablock."""
ROW_GROUP = 8
"""Rows that one repeat of Brcb spreads, and that the scalar unit reads before it writes them."""

ROW_COUNTER = 256
"""The library for register devices counts the rows of a tile in eight bits if a row has more than 64 columns."""


@dataclass(frozen=True, slots=True)
class SoftMaxShapeInfo:
    """Rows and columns of the tensor in UB (src_*), and how many of them are data (ori_src_*)."""

    src_m: int
    src_k: int
    ori_src_m: int
    ori_src_k: int


@dataclass(frozen=True, slots=True)
class Call:
    """One call: operands, temp as floats, the tiling in force, rows and columns that are data, and the variant."""

    dst: LocalTensor
    grad: LocalTensor
    src: LocalTensor
    tmp: LocalTensor
    tiling: SoftMaxTiling
    ori_m: int
    ori_k: int
    is_front: bool
    data_format: DataFormat = DataFormat.ND
    is_basic_block: bool = False

    def tile(self, number: int) -> "Call":
        """The same call on the rows from tile `number` on; in NZ, of the first slab."""
        tiling = self.tiling
        at = number * (tiling.split_size if self.data_format is DataFormat.ND else tiling.split_m * NZ_COLUMNS)
        dst_at = number * tiling.reduce_size if self.is_front else at
        return replace(self, dst=self.dst[dst_at], grad=self.grad[at], src=self.src[at])


TileSteps = Callable[[AiCore, Call, int], None]
"""The instructions of one tile of so many rows."""


def for_each_tile(tile: TileSteps, asc: AiCore, call: Call) -> None:
    """Run `tile` over the full tiles, then over the tail rows. No barrier in between: V is in order."""
    for_full_tiles(tile, asc, call)
    for_tail(tile, asc, call)


def for_full_tiles(tile: TileSteps, asc: AiCore, call: Call) -> None:
    """Run `tile` over the full tiles."""
    for i in range(call.tiling.range_m):
        tile(asc, call.tile(i), call.tiling.split_m)


def for_tail(tile: TileSteps, asc: AiCore, call: Call) -> None:
    """Run `tile` over the rows that fill no tile, if there are any."""
    if call.tiling.tail_m:
        tile(asc, call.tile(call.tiling.range_m), call.tiling.tail_m)


def whole_reduce_rows(
    asc: AiCore, dst: LocalTensor, src: LocalTensor, shape: tuple[int, int], columns: int, dst_stride: int
) -> None:
    """dst[m * dst_stride] = sum of the first `columns` (at most 64) of each row of [rows, k], 255 rows a call."""
    rows, k = shape
    for first in range(0, rows, MAX_REPEAT_TIMES):
        repeat = min(MAX_REPEAT_TIMES, rows - first)
        asc.whole_reduce_sum(dst[first * dst_stride], src[first * k], columns, repeat, dst_stride, 1, k // E)


def wait_for_scalar(asc: AiCore) -> None:
    """Let the scalar unit wait until V has written what it is about to read."""
    event = asc.fetch_event_id(HardEvent.V_S)
    asc.set_flag(HardEvent.V_S, event)
    asc.wait_flag(HardEvent.V_S, event)


def fill_rows(asc: AiCore, dst: LocalTensor, sums: list[LocalTensor], width: int) -> None:
    """dst[i, 0:width] = sums[i][0] by the scalar unit, eight rows at a time; width is at most a repeat's lanes.

    The mask is set once and left behind; whoever calls resets it.
    """
    asc.set_vector_mask(0, (1 << width) - 1)
    for first in range(0, len(sums), ROW_GROUP):
        values = [asc.get_value(row_sum) for row_sum in sums[first : first + ROW_GROUP]]
        for i, value in enumerate(values):
            asc.duplicate(dst[(first + i) * width], value, None, 1, 1, E)
