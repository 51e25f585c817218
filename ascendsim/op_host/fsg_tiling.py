"""Host tiling of FastSoftMaxGradOperation, for each item of the batch, with the numbers that may be chosen.

    K = n up to whole 16,  rows R = headNum * n,  a tile holds at most
    floor((UB / buffers - T) / (3 * 2 * K + 64)) rows, T the bytes of shared temp: those of one row of 4096.
    tiles of a core = ceil(R / (most * cores)), rows of a tile = ceil(R / (tiles * cores)).
The first cores have that many tiles, the others one less, and the last core the rows that are left over.

T is subtracted from each half of UB and allocated once, so that much of UB always stays unused.
Source: ascend-transformer-boost, mixkernels/fastsoftmaxgrad (tiling); asc-devkit 9.1.0 for SoftmaxGrad's own tiling.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ascendsim.dtypes import HALF
from ascendsim.errors import InputError
from ascendsim.op_host.atb import UINT32_END
from ascendsim.op_host.softmax import (
    SoftMaxTiling,
    get_soft_max_grad_max_tmp_size,
    row_cost_floats,
    soft_max_grad_tiling_func,
)
from ascendsim.terms import DATABLOCK_BYTES, align_up, ceil_div

ARCH: Final = 2201
TMP_BYTES: Final = 4 * row_cost_floats(4096, HALF.bytes, is_front=False)
"""Shared temp of the operator: what SoftmaxGrad needs for one row of the longest item."""
BUFFERS: Final = 2
QUEUES: Final = ("y_input", "y_grad", "x_grad")
"""Its queues, in the order of their memory; the temp follows."""
LIMIT_BYTES: Final = 2 * DATABLOCK_BYTES
"""What the host adds to three rows as it counts the rows of a tile."""
_HEAD_BYTES: Final = 8
_SAMPLE_BYTES: Final = 176
"""Tiling data: batch size and heads; of an item twelve 32-bit numbers and two SoftMaxTiling."""


@dataclass(frozen=True, slots=True)
class FsgSample:
    """Tiling of one item of the batch.

    Attributes:
        seq: its length n [elements, rows of a head].
        seq_aligned: elements of a row in UB.
        data_offset_elems: where it begins in the tensors.
        data_length_elems: its elements.
        outer_rows: rows of all heads.
        row_bytes: bytes of a row in UB.
        tile_rows: rows of a tile.
        tail_tile_rows: rows that are left over, on the last core; 0 for none.
        former_cores: cores that have `former_tiles`, the first ones.
        latter_cores: the others, which have `latter_tiles`.
        former_tiles, latter_tiles: whole tiles of a core.
        main, tail: SoftmaxGrad's tiling of a tile and of the rows left over (None for none).
    """

    seq: int
    seq_aligned: int
    data_offset_elems: int
    data_length_elems: int
    outer_rows: int
    row_bytes: int
    tile_rows: int
    tail_tile_rows: int
    former_cores: int
    latter_cores: int
    former_tiles: int
    latter_tiles: int
    main: SoftMaxTiling
    tail: SoftMaxTiling | None

    @property
    def cores(self) -> int:
        """Cores of the launch."""
        return self.former_cores + self.latter_cores

    @property
    def tile_bytes(self) -> int:
        """UB bytes of one buffer of a queue."""
        return self.tile_rows * self.row_bytes

    def tiles_of_core(self, core: int) -> tuple[int, int]:
        """Return (first row, whole tiles) of a core."""
        if core < self.former_cores:
            return self.tile_rows * core * self.former_tiles, self.former_tiles
        return self.tile_rows * (core * self.latter_tiles + self.former_cores), self.latter_tiles

    def has_tail(self, core: int) -> bool:
        """Whether a core has the rows that are left over."""
        return self.tail_tile_rows > 0 and core == self.cores - 1

    def tiles(self, core: int) -> Iterator[tuple[int, int]]:
        """Yield (first row, rows) of each tile of a core, in the kernel's order."""
        first, tiles = self.tiles_of_core(core)
        for row in range(first, first + tiles * self.tile_rows, self.tile_rows):
            yield row, self.tile_rows
        if self.has_tail(core):
            yield first + tiles * self.tile_rows, self.tail_tile_rows

    def rows_of_core(self, core: int) -> int:
        """Return the rows of a core."""
        _, tiles = self.tiles_of_core(core)
        return tiles * self.tile_rows + (self.tail_tile_rows if self.has_tail(core) else 0)


@dataclass(frozen=True, slots=True)
class FsgTiling:
    """Tiling of a call.

    Attributes:
        head_num: heads.
        samples: of each item of the batch.
        aiv_cores: cores of the launch.
        ub_bytes: UB of a core, as the host asks for it.
        tmp_bytes: shared temp.
        nums: buffers of each of `QUEUES`.
    """

    head_num: int
    samples: tuple[FsgSample, ...]
    aiv_cores: int
    ub_bytes: int
    tmp_bytes: int = TMP_BYTES
    nums: tuple[int, int, int] = (BUFFERS, BUFFERS, BUFFERS)

    @property
    def block_dim(self) -> int:
        """Blocks to launch: all vector cores, however few rows there are."""
        return self.aiv_cores

    @property
    def tiling_bytes(self) -> int:
        """Bytes of the tiling data."""
        return _HEAD_BYTES + _SAMPLE_BYTES * len(self.samples)

    @property
    def count(self) -> int:
        """Elements of each tensor."""
        return sum(s.data_length_elems for s in self.samples)

    def used_bytes(self, sample: FsgSample) -> int:
        """UB bytes while an item is worked on."""
        return sum(self.nums) * sample.tile_bytes + align_up(self.tmp_bytes, DATABLOCK_BYTES)

    @property
    def peak_bytes(self) -> int:
        """The most UB bytes of any item."""
        return max(map(self.used_bytes, self.samples))

    def tiles(self) -> tuple[int, ...]:
        """Return the tiles of each core, rows left over counted as one."""
        return tuple(
            sum(s.tiles_of_core(core)[1] + s.has_tail(core) for s in self.samples) for core in range(self.aiv_cores)
        )

    def elements(self) -> tuple[int, ...]:
        """Return the elements of each core."""
        return tuple(sum(s.rows_of_core(core) * s.seq for s in self.samples) for core in range(self.aiv_cores))


def fsg_tiling(
    head_num: int,
    q_seq_len: Sequence[int],
    aiv_cores: int,
    ub_bytes: int,
    *,
    tile_rows: int | None = None,
    tmp_bytes: int = TMP_BYTES,
    nums: tuple[int, int, int] = (BUFFERS, BUFFERS, BUFFERS),
) -> FsgTiling:
    """Return the tiling of a call that the operation accepts.

    Args:
        head_num: heads.
        q_seq_len: length of each item.
        aiv_cores: vector cores.
        ub_bytes: UB of a core.
        tile_rows: rows of a tile at most, instead of what the host's formula gives; that evens them out as it does.
        tmp_bytes: shared temp, instead of the operator's.
        nums: buffers of the queues y_input, y_grad, x_grad; the host divides UB by the most of them.

    Raises:
        InputError: no row fits by the host's formula.
    """
    samples: list[FsgSample] = []
    for n in q_seq_len:
        most = _most_rows(n, ub_bytes, max(nums), tmp_bytes) if tile_rows is None else tile_rows
        offset = sum(s.data_length_elems for s in samples) % UINT32_END
        samples.append(_sample(head_num, n, aiv_cores, most, tmp_bytes, offset))
    return FsgTiling(head_num, tuple(samples), aiv_cores, ub_bytes, tmp_bytes, nums)


def _most_rows(n: int, ub_bytes: int, buffers: int, tmp_bytes: int) -> int:
    each = ub_bytes // buffers - tmp_bytes
    need = len(QUEUES) * HALF.bytes * _aligned(n) + LIMIT_BYTES
    if each < need:
        raise InputError(
            f"tiling.tmp_bytes = {tmp_bytes} with {buffers} buffers: the operator's formula, UB / buffers - temp, "
            f"leaves {max(each, 0)} B for a row of length {n}, which takes {need} B; choose less temp or fewer "
            "buffers, or give tiling.tile_rows"
        )
    return each // need


def _aligned(n: int) -> int:
    return align_up(n, HALF.per_datablock)


def _sample(head_num: int, n: int, cores: int, most: int, tmp_bytes: int, offset: int) -> FsgSample:
    k, rows = _aligned(n), head_num * n
    former_tiles = ceil_div(rows, most * cores)
    tile_rows = ceil_div(rows, former_tiles * cores)
    tail = rows % tile_rows
    former_cores = rows // tile_rows - cores * (former_tiles - 1)
    return FsgSample(
        seq=n,
        seq_aligned=k,
        data_offset_elems=offset,
        data_length_elems=rows * n,
        outer_rows=rows,
        row_bytes=HALF.bytes * k,
        tile_rows=tile_rows,
        tail_tile_rows=tail,
        former_cores=former_cores,
        latter_cores=cores - former_cores,
        former_tiles=former_tiles,
        latter_tiles=former_tiles - 1,
        main=_soft_max_tiling(tile_rows, k, tmp_bytes),
        tail=_soft_max_tiling(tail, k, tmp_bytes) if tail else None,
    )


def _soft_max_tiling(rows: int, k: int, tmp_bytes: int) -> SoftMaxTiling:
    most = get_soft_max_grad_max_tmp_size((rows, k), HALF.bytes, False, ARCH)
    return soft_max_grad_tiling_func((rows, k), HALF.bytes, min(most, tmp_bytes), False)
