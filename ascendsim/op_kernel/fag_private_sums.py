"""Deterministic sums of SameAB on vector cores: private tiles of a round are added up in the order of their AICs.

    total = 0; for each AIC whose block shares the tile: load its strip of rows, total += strip; then total to the sums

One AIV owns a strip of rows of every tile, so whatever cores are the first, the sums add up in this order: what the
first block's AIC stored, then round after round a total of that round, itself 0 plus strip after strip.
Source: ops-transformer op_kernel, flash_attention_score_grad SameAB, deterministic form.
"""

from dataclasses import dataclass

from ascendsim.dtypes import FLOAT
from ascendsim.isa.move import DataCopyExtParams
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_host.fag_parts import Rows, nz_sum_at
from ascendsim.op_host.fag_private_sums import GradientName, Round, Strip, groups
from ascendsim.op_host.fag_same_ab import SameAbTiling
from ascendsim.op_kernel.attention import pass_on
from ascendsim.op_kernel.fag_tiles import NZ_BLOCKS
from ascendsim.record import AiCore, tile
from ascendsim.terms import CUBE_SIDE, HardEvent, Pipe, ceil_div
from ascendsim.tpipe import TBuf

ID = 0
"""Event id of all flags."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A strip of one private tile: where it begins behind the first tile, its rows, and the rows of the tile."""

    at: int
    rows: int
    tile_rows: int


@dataclass(frozen=True, slots=True)
class _Shape:
    """Room and extent of a strip.

    Attributes:
        rows: there is room for in UB.
        used: rows of the longest source.
        columns: of a row.
        width: of them in whole fractals.
        pitch: of the sums: of rows, or in NZ from one 16 columns to the next.
        is_nz: they lie in NZ.
    """

    rows: int
    used: int
    columns: int
    width: int
    pitch: int
    is_nz: bool


def add_tiles(asc: AiCore, workspace: GlobalTensor, ub: TBuf, blocks: Round, t: SameAbTiling) -> None:
    """Add the private tiles of a round to the sums, this core's strips of them.

    Args:
        asc: the core.
        workspace: of the operator.
        ub: from its start on taken over.
        blocks: of the round.
        t: the tiling.
    """
    assert t.private is not None
    with asc.trace("add tiles"):
        for strip in t.private.strips(asc.get_block_idx()):
            for group in groups(blocks, strip.gradient):
                _add_strip(asc, workspace, ub, group, strip, t)


def _add_strip(asc: AiCore, workspace: GlobalTensor, ub: TBuf, group: Round, strip: Strip, t: SameAbTiling) -> None:
    assert t.private is not None
    tiles = t.private.tiles(strip.gradient)
    room = ceil_div(tiles.rows, strip.of)
    first = strip.number * room
    sources = tuple(
        _Source(
            tiles.tile_at(one) - tiles.at + first * (CUBE_SIDE if tiles.is_nz else tiles.columns),
            min(room, one.rows(strip.gradient) - first),
            one.rows(strip.gradient),
        )
        for one in group
        if one.rows(strip.gradient) > first
    )
    if not sources:
        return
    used = max(source.rows for source in sources)
    rows, sums = _sums(strip.gradient, t)
    block = group[-1].block
    n, s = (t.call.shape.query_head(block.n2, block.g), block.s1) if strip.gradient == "dq" else (block.n2, block.s2)
    at, pitch = rows.at(block.b, n, s + first), rows.pitch
    if tiles.is_nz:
        at, pitch = nz_sum_at(rows, block.b, n, s + first), rows.s * CUBE_SIDE
    shape = _Shape(room, used, tiles.columns, tiles.width, pitch, tiles.is_nz)
    _add_group(asc, workspace[sums + at], workspace[tiles.at], ub, sources, shape)


def _sums(gradient: GradientName, t: SameAbTiling) -> tuple[Rows, int]:
    """Return rows of a gradient, and where its sums begin."""
    return {"dq": (t.query, t.areas.dq), "dk": (t.key, t.areas.dk), "dv": (t.value, t.areas.dv)}[gradient]


@tile
def _add_group(
    asc: AiCore,
    dst: GlobalTensor,
    private: GlobalTensor,
    ub: TBuf,
    sources: tuple[_Source, ...],
    shape: _Shape,
) -> None:
    """Add a strip of tiles that go to the same rows; private is the first tile of all."""
    count = shape.rows * shape.width
    total, one = (ub.get_with_offset(FLOAT, count, place * count * FLOAT.bytes) for place in (0, 1))
    pass_on(asc, HardEvent.MTE3_V, ID)
    asc.duplicate(total, 0.0, count)
    asc.pipe_barrier(Pipe.V)
    for source in sources:
        if shape.is_nz and source.rows < shape.rows:
            asc.pipe_barrier(Pipe.V)
            asc.duplicate(one, 0.0, count)
        pass_on(asc, HardEvent.V_MTE2, ID)
        _load(asc, one, private[source.at], source, shape)
        pass_on(asc, HardEvent.MTE2_V, ID)
        asc.add(total, total, one, count if shape.is_nz else source.rows * shape.columns)
        asc.pipe_barrier(Pipe.V)
    pass_on(asc, HardEvent.V_MTE3, ID)
    asc.set_atomic_add(FLOAT)
    if shape.is_nz:
        panel = shape.used * CUBE_SIDE
        gaps = (shape.rows - shape.used) * NZ_BLOCKS, (shape.pitch - panel) * FLOAT.bytes
        asc.data_copy_pad(dst, total, DataCopyExtParams(shape.width // CUBE_SIDE, panel * FLOAT.bytes, *gaps))
    else:
        gap = (shape.pitch - shape.columns) * FLOAT.bytes
        asc.data_copy_pad(dst, total, DataCopyExtParams(shape.used, shape.columns * FLOAT.bytes, 0, gap))
    asc.set_atomic_none()


def _load(asc: AiCore, dst: LocalTensor, src: GlobalTensor, source: _Source, shape: _Shape) -> None:
    if not shape.is_nz:
        asc.data_copy_pad(dst, src, DataCopyExtParams(1, source.rows * shape.columns * FLOAT.bytes, 0, 0))
        return
    panel, left = source.rows * CUBE_SIDE, (source.tile_rows - source.rows) * CUBE_SIDE
    gaps = left * FLOAT.bytes, (shape.rows - source.rows) * NZ_BLOCKS
    asc.data_copy_pad(dst, src, DataCopyExtParams(shape.width // CUBE_SIDE, panel * FLOAT.bytes, *gaps))
