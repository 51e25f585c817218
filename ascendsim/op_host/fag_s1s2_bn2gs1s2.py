"""What the kernel of template S1s2Bn2gs1s2 is given: places in GM and UB, its products, and who computes what.

The order of parts inside the workspace's terms is not published: dA (mm1) lies before S (mm2), a tile for each AIV; in
the terms of A and dS the tiles of all AIVs for even rounds lie before those for odd ones.

Source: ops-transformer op_kernel, flash_attention_score_grad S1s2Bn2gs1s2.
"""

from dataclasses import dataclass
from typing import Final

from ascendsim.errors import InputError
from ascendsim.op_host.fag_call import COMPRESSED_MASK_MODES, PREFIX_MODES, FagCall, as_float32
from ascendsim.op_host.fag_dealing import required_dealing
from ascendsim.op_host.fag_kernel_tiling import BlockAreas, BlockTiling
from ascendsim.op_host.fag_map import Area, main_ub, row_term_in_main
from ascendsim.op_host.fag_parts import (
    FLOAT_BYTES,
    MainUb,
    bias_rows,
    call_rows,
    refuse_unwritten,
    require_fractals,
    workspace_parts,
)
from ascendsim.op_host.fag_result import FagTiles, FagTiling
from ascendsim.op_host.fag_same_ab import RowTermUb, block_products, row_term_places
from ascendsim.op_host.fag_tiling_same_ab import sum_elements

_VECTOR_COLUMNS: Final = 256
_ROW_TERM_FLOATS: Final = 32 * 1024 // FLOAT_BYTES
"""Floats of one operand of the row term."""


@dataclass(frozen=True, slots=True)
class WorkAreas(BlockAreas):
    """Where the areas of the workspace begin [floats].

    Attributes:
        a, d_s: of the first AIV, for even rounds.
    """

    a: int
    d_s: int


@dataclass(frozen=True, slots=True)
class S1s2Bn2gs1s2Tiling(BlockTiling):
    """What the kernel takes.

    Attributes:
        areas: of the workspace.
        sum_counts: elements of the sums of dQ, dK and dV.
        tile_elements: of one buffer of S, dA, A or dS.
        halves: places in UB, ping and pong.
        row_term_ub: places in UB of the row term, whose result is a part of it.
        row_term_columns: columns of Dv that the row term takes at a time.
        is_one_high: a block is one vector tile high: the row term of all its rows is made at once.
    """

    areas: WorkAreas
    sum_counts: tuple[int, int, int]
    tile_elements: int
    halves: tuple[MainUb, MainUb]
    row_term_ub: RowTermUb
    row_term_columns: int
    is_one_high: bool


def s1s2_bn2gs1s2_kernel(call: FagCall, tiling: FagTiling, names: tuple[str, ...]) -> S1s2Bn2gs1s2Tiling:
    """Return what the kernel takes.

    Args:
        call: that S1s2Bn2gs1s2 took.
        tiling: of it.
        names: the GM tensors that the kernel is called with.

    Raises:
        InputError: what this kernel does not do yet, or a prescribed tile that it has no room for.
    """
    _check(call, tiling.tiles)
    deal = required_dealing(call, tiling)
    assert tiling.pre is not None
    assert tiling.post is not None
    assert tiling.band is not None
    assert tiling.block_dim is not None
    assert tiling.workspace_bytes is not None
    shape, tiles, rows = call.shape, tiling.tiles, call_rows(call.shape)
    cv_s1, cv_s2 = tiles.cv_s1 or 0, tiles.cv_s2 or 0
    parts = main_ub(call, tiling)
    has_prefix = call.params.sparse_mode in PREFIX_MODES
    return S1s2Bn2gs1s2Tiling(
        names=names,
        call=call,
        block_dim=tiling.block_dim,
        workspace_bytes=tiling.workspace_bytes,
        dealing=deal,
        query=rows.query,
        key=rows.key,
        value=rows.value,
        out=rows.out,
        areas=_areas(tiling, call.platform.aiv_cores * cv_s1 * cv_s2),
        sum_counts=sum_elements(call, is_nz=tiles.is_gradient_nz),
        tile_elements=cv_s1 * cv_s2,
        halves=_halves(parts),
        ub_bytes=parts[-1].end_bytes,
        row_term_ub=_row_term_places(call, tiling),
        row_term_columns=tiles.row_term_columns or 0,
        is_one_high=tiles.cv_s1 == tiles.vec_s1,
        pre=tiling.pre,
        post=tiling.post,
        tiling=tiling,
        products=block_products(call, tiling, cv_s1, cv_s2, takes_place=False),
        scale=as_float32(call.params.scale_value),
        next_tokens=shape.s2 - shape.s1 if has_prefix else tiling.band.next_tokens,
        pre_tokens=tiling.band.pre_tokens,
        has_mask=call.mask is not None,
        is_compressed=call.params.sparse_mode in COMPRESSED_MASK_MODES,
        bias=bias_rows(call),
    )


def _check(call: FagCall, tiles: FagTiles) -> None:
    """Refuse what the kernel does not do yet."""
    refuse_unwritten(call, "S1s2Bn2gs1s2")
    require_fractals(cv_s1=tiles.cv_s1, cv_s2=tiles.cv_s2)
    rows, columns = tiles.vec_s1 or 0, tiles.vec_s2 or 0
    widest = min(_VECTOR_COLUMNS, tiles.cv_s2 or 0)
    if rows * columns < widest:
        raise InputError(
            f"vec_s1 * vec_s2 = {rows * columns}: a vector step takes so many scores, at least one row of {widest}"
        )
    if tiles.cv_s1 == rows and rows * (tiles.row_term_columns or 0) > _ROW_TERM_FLOATS:
        raise InputError(
            f"vec_s1 = {rows}: the row term takes {tiles.row_term_columns} columns of as many rows, at most "
            f"{_ROW_TERM_FLOATS} elements; make it smaller"
        )


def _halves(parts: tuple[Area, ...]) -> tuple[MainUb, MainUb]:
    """Return the places of ping and pong: P takes that of S, dA and dS those of A, mask and statistics."""
    temp, row_term = parts[-2:]
    ping, pong = parts[: len(parts[:-2]) // 2], parts[len(parts[:-2]) // 2 : -2]

    def half(own: tuple[Area, ...]) -> MainUb:
        scores, narrow, mask, statistics, drop = own
        return MainUb(
            scores=scores.start_bytes,
            narrow=narrow.start_bytes,
            mask=mask.start_bytes,
            statistics=statistics.start_bytes,
            drop=drop.start_bytes,
            p=scores.start_bytes,
            grad=narrow.start_bytes,
            grad_drop=drop.start_bytes,
            temp=temp.start_bytes,
            row_term=row_term.start_bytes,
            temp_bytes=temp.bytes,
            statistic_bytes=statistics.bytes // 2,
        )

    return half(ping), half(pong)


def _row_term_places(call: FagCall, tiling: FagTiling) -> RowTermUb:
    wide_dy, wide_out, dy, out, temp, result = row_term_in_main(call, tiling)
    return row_term_places(dy, out, wide_dy, wide_out, result, temp)


def _areas(tiling: FagTiling, matrix_floats: int) -> WorkAreas:
    assert tiling.offsets is not None
    assert tiling.offsets.dv is not None
    starts = {name: part.at // FLOAT_BYTES for name, part in workspace_parts(tiling.terms).items()}
    first = starts["S and dA"]
    return WorkAreas(
        dq=tiling.offsets.dq // FLOAT_BYTES,
        dk=tiling.offsets.dk // FLOAT_BYTES,
        dv=tiling.offsets.dv // FLOAT_BYTES,
        kept=starts.get("dropout mask"),
        d_a=first,
        scores=first + matrix_floats,
        a=starts["A"],
        d_s=starts["dS"],
    )
