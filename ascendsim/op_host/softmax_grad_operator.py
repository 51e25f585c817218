"""Host side of the SoftmaxGrad operator: rows over cores, rows of a tile, temp, and SoftmaxGrad's own tiling."""

from dataclasses import dataclass
from typing import Literal

from ascendsim.device import Device
from ascendsim.dtypes import DType
from ascendsim.errors import Finding, InputError, Rule
from ascendsim.op_host.softmax import (
    SoftMaxTiling,
    fitting_tmp_size,
    get_soft_max_grad_min_tmp_size,
    soft_max_grad_splits,
    soft_max_grad_tiling_func,
    soft_max_grad_tiling_of_split,
)
from ascendsim.terms import DATABLOCK_BYTES, align_up, ceil_div

SPLIT_NEVER = Rule(
    "W-SMG-SPLIT",
    "split_m = {got} by hand: SoftMaxGradTilingFunc gives it for no temp of a tile of {m} x {k}, so a kernel gets it "
    "from constants only; it gives {wanted}",
    "take one that it gives, or leave split_m out",
    "asc-devkit 9.1.0, softmax tiling (host)",
    condition="A scenario sets split_m of SoftmaxGrad's tiling by hand, and SoftMaxGradTilingFunc never returns it.",
)
SPLIT_GIVEN = Rule(
    "I-SMG-SPLIT",
    "split_m = {got} by hand: SoftMaxGradTilingFunc gives it for a tile of {m} x {k} from a temp of {wanted} B on",
    "leave split_m out, and set tmp_bytes = {wanted}",
    "asc-devkit 9.1.0, softmax tiling (host)",
    condition="A scenario sets split_m of SoftmaxGrad's tiling by hand, and SoftMaxGradTilingFunc can return it.",
)
_MOST_NAMED = 4
"""Tile heights that a finding names: those next to the one that was asked for."""

TmpBytes = int | Literal["max", "min", "framework"]


@dataclass(frozen=True, slots=True)
class SoftmaxGradOperatorTiling:
    """What the operator's kernel needs to know.

    Attributes:
        m: rows of the tensors in GM.
        k: columns, padded.
        ori_k: columns that are data.
        tile_m: rows of a tile.
        tmp_bytes: shared temp; 0 takes the framework's.
        soft_max_tiling: of a full tile; a smaller last tile is re-tiled by the kernel.
        is_front: only the row sums.
        in_grad_num, in_p_num, out_num: buffers of each queue.
    """

    m: int
    k: int
    ori_k: int
    tile_m: int
    tmp_bytes: int
    soft_max_tiling: SoftMaxTiling
    is_front: bool
    in_grad_num: int
    in_p_num: int
    out_num: int

    @property
    def look_ahead(self) -> int:
        """Tiles whose loads are issued before the compute step of the current one: as many as have a buffer."""
        return min(self.in_grad_num, self.in_p_num) - 1


def rows_of_core(m: int, block_num: int, block_idx: int) -> tuple[int, int]:
    """Return (first row, rows) of a core: equal shares, the first cores taking one more where it does not divide."""
    share, extra = divmod(m, block_num)
    first = block_idx * share + min(block_idx, extra)
    return first, share + (block_idx < extra)


@dataclass(frozen=True, slots=True)
class Share:
    """What some cores have to do: each `rows`, in tiles of tile_m and a smaller last one of `tail_m` (0 for none)."""

    cores: int
    rows: int
    tiles: int
    tail_m: int


def shares(m: int, tile_m: int, block_num: int) -> tuple[Share, ...]:
    """Return how the rows are dealt out, the larger shares first; cores without a row are a share, too."""
    found: dict[int, int] = {}
    for block_idx in range(block_num):
        _, rows = rows_of_core(m, block_num, block_idx)
        found[rows] = found.get(rows, 0) + 1
    return tuple(Share(cores, rows, ceil_div(rows, tile_m), rows % tile_m) for rows, cores in found.items())


def operator_tiling(
    device: Device,
    shape: tuple[int, int],
    dtype: DType,
    *,
    tile_m: int,
    tmp_bytes: TmpBytes,
    is_front: bool,
    ori_k: int | None,
    nums: tuple[int, int, int],
    split_m: int | None = None,
) -> SoftmaxGradOperatorTiling:
    """Return the operator's tiling.

    Args:
        device: the part.
        shape: [m, k] of the tensors in GM.
        dtype: half or float.
        tile_m: rows of a tile, at least 1.
        tmp_bytes: bytes of shared temp; "min" or "max" asks the API for a tile of tile_m rows, max cut to what UB has
            left beside the queues; "framework" takes what the queues leave.
        is_front: only the row sums.
        ori_k: columns that are data, None for all.
        nums: buffers of the queues in_grad, in_p, out.
        split_m: rows that SoftmaxGrad works off at once, None for what SoftMaxGradTilingFunc gives. All 16 fields of
            its tiling follow from it.

    Raises:
        InputError: a value that no kernel can use.
    """
    m, k = shape
    if tile_m < 1:
        raise InputError(f"tiling.tile_m = {tile_m}: must be at least 1")
    if ori_k is not None and not 1 <= ori_k <= k:
        raise InputError(f"tiling.ori_k = {ori_k}: must be 1..{k}, the tensors' last axis")
    tile_shape = (min(tile_m, m), k)
    queues = queue_bytes(tile_shape, dtype, is_front, nums)
    left = device.ub.safe_bytes.value - queues
    temp = _temp_bytes(tmp_bytes, tile_shape, dtype, is_front, device, left)
    work = temp or max(0, device.ub.pop_stack_end_bytes.value - queues)
    if split_m is None:
        soft_max_tiling = soft_max_grad_tiling_func(tile_shape, dtype.bytes, work, is_front)
    else:
        soft_max_tiling = soft_max_grad_tiling_of_split(tile_shape, dtype.bytes, min(split_m, tile_shape[0]))
    return SoftmaxGradOperatorTiling(
        m=m,
        k=k,
        ori_k=k if ori_k is None else ori_k,
        tile_m=tile_shape[0],
        tmp_bytes=temp,
        soft_max_tiling=soft_max_tiling,
        is_front=is_front,
        in_grad_num=nums[0],
        in_p_num=nums[1],
        out_num=nums[2],
    )


def split_note(tile_shape: tuple[int, int], dtype: DType, is_front: bool, split_m: int) -> Finding:
    """Return whether SoftMaxGradTilingFunc could give a tile height that was set by hand, and for which temp."""
    m, k = tile_shape
    split, given = min(split_m, m), soft_max_grad_splits(tile_shape, dtype.bytes, is_front)
    fill = {"m": m, "k": k}
    if split in given:
        return SPLIT_GIVEN.finding("tiling.split_m", operand="split_m", got=split, wanted=given[split], fill=fill)
    near = sorted(sorted(given, key=lambda one: (abs(one - split), one))[:_MOST_NAMED])
    wanted = ", ".join(map(str, near))
    return SPLIT_NEVER.finding("tiling.split_m", operand="split_m", got=split, wanted=wanted, fill=fill)


def queue_bytes(tile_shape: tuple[int, int], dtype: DType, is_front: bool, nums: tuple[int, int, int]) -> int:
    """UB bytes of the operator's queues."""
    tile, out = buffer_bytes(tile_shape, dtype, is_front)
    return (nums[0] + nums[1]) * tile + nums[2] * out


def buffer_bytes(tile_shape: tuple[int, int], dtype: DType, is_front: bool) -> tuple[int, int]:
    """UB bytes of one buffer of the input queues, and of the output queue."""
    rows, k = tile_shape
    tile = align_up(rows * k * dtype.bytes, DATABLOCK_BYTES)
    return tile, rows * DATABLOCK_BYTES if is_front else tile


def _temp_bytes(
    wanted: TmpBytes, tile_shape: tuple[int, int], dtype: DType, is_front: bool, device: Device, left: int
) -> int:
    if wanted == "framework":
        return 0
    if wanted == "min":
        return get_soft_max_grad_min_tmp_size(tile_shape, dtype.bytes, is_front, device.npu_arch)
    if wanted == "max":
        return fitting_tmp_size(tile_shape, dtype.bytes, is_front, device.npu_arch, left)
    if wanted <= 0:
        raise InputError(f'tiling.tmp_bytes = {wanted}: must be positive, or "min", "max", "framework"')
    return int(wanted)
