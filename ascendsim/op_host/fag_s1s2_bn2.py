"""What the kernel of template S1s2Bn2 is given: places in GM and UB, the products of a block, and who computes what.

Inferred: the order inside the workspace's terms (dA of all cores, then S; A in its two buffers, then dS), and that sums
lie as the gradients do, with D in whole 16 columns, or in NZ head by head.

Source: ops-transformer op_kernel, flash_attention_score_grad S1s2Bn2.
"""

from dataclasses import dataclass, replace
from typing import Final

from ascendsim.errors import InputError
from ascendsim.op_host.fag_band import wide_band
from ascendsim.op_host.fag_call import COMPRESSED_MASK_MODES, FagCall, as_float32
from ascendsim.op_host.fag_dealing import required_dealing
from ascendsim.op_host.fag_kernel_tiling import BlockAreas, BlockTiling, Products
from ascendsim.op_host.fag_map import Area, main_ub
from ascendsim.op_host.fag_parts import (
    BUFFERS,
    FLOAT_BYTES,
    MainUb,
    Product,
    Rows,
    bias_rows,
    call_rows,
    product_tiling,
    refuse_unwritten,
    require_fractals,
    score_pitch,
    workspace_parts,
)
from ascendsim.op_host.fag_result import FagTiling
from ascendsim.terms import CUBE_SIDE, DATABLOCK_BYTES

KIB: Final = 1024
RESERVE: Final = "system reserve"
"""The workspace's term that is not the kernel's."""
ROW_STRIP: Final = 256
"""Rows of a block whose D is in UB at a time."""


@dataclass(frozen=True, slots=True)
class RowTermUb:
    """Where the parts of the row term begin in UB [bytes]; rows of floats come to the places of the copies at once."""

    dy: int = 0
    out: int = 16 * KIB
    wide_dy: int = 32 * KIB
    wide_out: int = 64 * KIB
    temp: int = 96 * KIB
    temp_bytes: int = 64 * KIB


@dataclass(frozen=True, slots=True)
class GmAreas(BlockAreas):
    """Where the areas of the workspace begin [floats]; of tiles the first core's, and from buffer to buffer.

    Attributes:
        a, d_s: tiles of the type of query, the first of two buffers.
        score_step: from one buffer of dA or S to the next.
        tile_step: from one buffer of A or dS to the next; a core has two.
    """

    a: int
    d_s: int
    score_step: int
    tile_step: int


@dataclass(frozen=True, slots=True)
class S1s2Bn2Tiling(BlockTiling):
    """What the kernel takes.

    Attributes:
        areas: of the workspace.
        query_sums, key_sums: rows of the sums of dq; of dk and dv.
        score_buffers: of S and dA of a core.
        halves: places in UB of ping and pong.
        row_term: places in UB of the row term.
        row_strip: rows whose row term is made together.
        row_step: rows that it takes at a time.
        is_sparse: blocks are skipped, so that sums have to be zeros before the first is added.
    """

    areas: GmAreas
    query_sums: Rows
    key_sums: Rows
    score_buffers: int
    halves: tuple[MainUb, MainUb]
    row_term: RowTermUb
    row_strip: int
    row_step: int
    is_sparse: bool


def s1s2_bn2_kernel(call: FagCall, tiling: FagTiling, names: tuple[str, ...]) -> S1s2Bn2Tiling:
    """Return what the kernel takes.

    Args:
        call: that S1s2Bn2 took.
        tiling: of it.
        names: the GM tensors that the kernel is called with.

    Raises:
        InputError: what this kernel does not do.
    """
    _check(call, tiling)
    deal = required_dealing(call, tiling)
    assert tiling.pre is not None
    assert tiling.post is not None
    assert tiling.band is not None
    assert tiling.block_dim is not None
    assert tiling.workspace_bytes is not None
    shape = call.shape
    cv_s1, cv_s2 = tiling.tiles.cv_s1 or 0, tiling.tiles.cv_s2 or 0
    rows = call_rows(shape)
    band = wide_band(call, prefix_is_causal=True)
    parts = main_ub(call, tiling)
    return S1s2Bn2Tiling(
        names=names,
        call=call,
        block_dim=tiling.block_dim,
        workspace_bytes=tiling.workspace_bytes,
        dealing=deal,
        query=rows.query,
        key=rows.key,
        value=rows.value,
        out=rows.out,
        query_sums=replace(rows.query, columns=shape.d_aligned),
        key_sums=replace(rows.key, columns=shape.d_aligned),
        areas=_areas(tiling),
        score_buffers=_score_buffers(tiling),
        halves=_halves(parts),
        row_term=RowTermUb(),
        row_strip=min(ROW_STRIP, cv_s1 // 2 if tiling.tiles.is_l1_custom else cv_s1),
        row_step=tiling.tiles.row_term_rows or 1,
        ub_bytes=parts[-1].end_bytes,
        pre=tiling.pre,
        post=tiling.post,
        tiling=tiling,
        products=block_products(call, tiling, cv_s1, cv_s2),
        scale=as_float32(call.params.scale_value),
        next_tokens=band.next_tokens,
        pre_tokens=band.pre_tokens,
        is_sparse=band.is_sparse or tiling.band.is_sparse,
        has_mask=call.mask is not None,
        is_compressed=call.params.sparse_mode in COMPRESSED_MASK_MODES,
        bias=bias_rows(call),
    )


def _check(call: FagCall, tiling: FagTiling) -> None:
    """Refuse what the kernel does not do."""
    tiles, shape = tiling.tiles, call.shape
    refuse_unwritten(call, "S1s2Bn2")
    if not tiles.is_gradient_nz and shape.d * call.element_bytes % DATABLOCK_BYTES:
        raise InputError(
            f"D = {shape.d}: template S1s2Bn2 takes rows of whole datablocks; the interface pads D to a multiple of 16"
        )
    require_fractals(cv_s1=tiles.cv_s1, cv_s2=tiles.cv_s2, vec_s2=tiles.vec_s2)


def _halves(parts: tuple[Area, ...]) -> tuple[MainUb, MainUb]:
    """Return the places of ping and pong; the softmax is in place, and dA comes where mask, A and statistics were."""
    temp, *halves, row_term = parts
    places = []
    for at in (0, len(halves) // 2):
        mask, narrow, sums, _, drop, scores = halves[at : at + len(halves) // 2]
        places.append(
            MainUb(
                scores=scores.start_bytes,
                narrow=narrow.start_bytes,
                mask=mask.start_bytes,
                statistics=sums.start_bytes,
                drop=drop.start_bytes,
                p=scores.start_bytes,
                grad=mask.start_bytes,
                grad_drop=drop.start_bytes,
                temp=temp.start_bytes,
                row_term=row_term.start_bytes,
                temp_bytes=temp.bytes,
                statistic_bytes=sums.bytes,
            )
        )
    return places[0], places[1]


def _score_buffers(tiling: FagTiling) -> int:
    return BUFFERS if tiling.tiles.is_l1_custom else 1


def _areas(tiling: FagTiling) -> GmAreas:
    assert tiling.offsets is not None
    assert tiling.offsets.dv is not None
    parts = workspace_parts(term for term in tiling.terms if term.name != RESERVE)
    scores, tiles, kept = parts["S and dA"], parts["A and dS"], parts.get("dropout mask")
    cores, buffers = tiling.tiles.used_cores or 1, _score_buffers(tiling)
    return GmAreas(
        dq=tiling.offsets.dq // FLOAT_BYTES,
        dk=tiling.offsets.dk // FLOAT_BYTES,
        dv=tiling.offsets.dv // FLOAT_BYTES,
        kept=None if kept is None else kept.at // FLOAT_BYTES,
        d_a=scores.at // FLOAT_BYTES,
        scores=(scores.at + scores.bytes // 2) // FLOAT_BYTES,
        a=tiles.at // FLOAT_BYTES,
        d_s=(tiles.at + tiles.bytes // 2) // FLOAT_BYTES,
        score_step=scores.bytes // 2 // cores // buffers // FLOAT_BYTES,
        tile_step=tiles.bytes // 2 // cores // BUFFERS // FLOAT_BYTES,
    )


def block_products(call: FagCall, tiling: FagTiling, rows: int, columns: int) -> Products:
    """Return the products of a block of so many rows and columns of scores; A and dS lie as S and dA do."""
    assert tiling.matmuls is not None
    base, shape = tiling.matmuls, call.shape
    is_nz, is_sum_nz = tiling.tiles.is_score_nz, tiling.tiles.is_gradient_nz
    query, key = call_rows(shape).query, call_rows(shape).key
    query_sums, key_sums = (replace(one, columns=shape.d_aligned) for one in (query, key))
    pitch = score_pitch(rows, columns, is_nz=is_nz)
    d_a = Product(rows, columns, shape.d, query.pitch, key.pitch, pitch, base.scores, b_transposed=True, c_is_nz=is_nz)
    dq = Product(rows, shape.d, columns, pitch, key.pitch, query_sums.pitch, base.dq, a_is_nz=is_nz)
    dk = replace(dq, m=columns, k=rows, b_pitch=query.pitch, c_pitch=key_sums.pitch, base=base.dk_dv, a_transposed=True)
    dv = replace(dk, c_pitch=key.pitch) if call.is_fp32 else dk
    if is_sum_nz:
        dq = replace(dq, c_pitch=query.s * CUBE_SIDE, c_is_nz=True)
        dk, dv = (replace(one, c_pitch=key.s * CUBE_SIDE, c_is_nz=True) for one in (dk, dv))
    return Products(*(product_tiling(call, base, one) for one in (d_a, d_a, dq, dk, dv)))
