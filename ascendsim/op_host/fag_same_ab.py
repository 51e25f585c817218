"""What the kernel of template SameAB is given: places in GM and UB, the products of a block, and who computes what.

In the workspace's "S and dA" term dA (mm1) lies before S (mm2), and in each the AICs' two buffers follow one another.

Source: ops-transformer op_kernel, flash_attention_score_grad SameAB.
"""

from dataclasses import dataclass, replace

from ascendsim.errors import Rejected
from ascendsim.op_host.fag_call import COMPRESSED_MASK_MODES, FagCall, as_float32
from ascendsim.op_host.fag_dealing import required_dealing
from ascendsim.op_host.fag_kernel_tiling import BlockAreas, BlockTiling, Products
from ascendsim.op_host.fag_map import Area, main_ub, row_term_ub
from ascendsim.op_host.fag_parts import (
    BUFFERS,
    FLOAT_BYTES,
    OWN_BUFFERS,
    MainUb,
    Product,
    ProductBuffers,
    bias_rows,
    call_rows,
    product_tiling,
    refuse_unwritten,
    score_pitch,
    workspace_parts,
)
from ascendsim.op_host.fag_private_sums import PrivateSums, private_sums
from ascendsim.op_host.fag_result import FagTiling, Matmuls, RowTermPass
from ascendsim.op_host.fag_run_rules import TILE
from ascendsim.op_host.fag_tiling_same_ab import sum_elements
from ascendsim.terms import CUBE_SIDE


@dataclass(frozen=True, slots=True)
class RowTermUb:
    """Where the parts of the row-term pass begin in UB [bytes]."""

    dy: int
    out: int
    wide_dy: int
    wide_out: int
    result: int
    temp: int
    temp_bytes: int


@dataclass(frozen=True, slots=True)
class GmAreas(BlockAreas):
    """Where the areas of the workspace begin [floats].

    Attributes:
        row_term: row terms of all rows.
    """

    row_term: int


@dataclass(frozen=True, slots=True)
class SameAbTiling(BlockTiling):
    """What the kernel takes.

    Attributes:
        areas: of the workspace.
        sum_counts: floats of the sums of dQ, dK and dV.
        tile_floats: of one buffer of S or dA.
        ub, row_term_ub: places in UB.
        row_term: the pass before the main one that makes row terms.
        private: how private tiles are added up, None where AICs add to the sums themselves.
        look_ahead: blocks that an AIC is ahead of its gradients.
        score_buffers: of S and of dA in GM, for each AIC.
        buffers: of the products.
    """

    areas: GmAreas
    sum_counts: tuple[int, int, int]
    tile_floats: int
    ub: MainUb
    row_term_ub: RowTermUb
    row_term: RowTermPass
    private: PrivateSums | None
    look_ahead: int
    score_buffers: int
    buffers: ProductBuffers


def same_ab_kernel(call: FagCall, tiling: FagTiling, names: tuple[str, ...]) -> SameAbTiling:
    """Return what the kernel takes.

    Args:
        call: that SameAB took.
        tiling: of it.
        names: the GM tensors that the kernel is called with.

    Raises:
        InputError: what this kernel does not do yet.
        Rejected: score tiles that are not made of whole fractals.
    """
    _check(call, tiling)
    deal = required_dealing(call, tiling)
    assert tiling.pre is not None
    assert tiling.row_term is not None
    assert tiling.post is not None
    assert tiling.band is not None
    assert tiling.block_dim is not None
    assert tiling.workspace_bytes is not None
    rows = call_rows(call.shape)
    cv_s1, cv_s2 = tiling.tiles.cv_s1 or 0, tiling.tiles.cv_s2 or 0
    parts = main_ub(call, tiling)
    return SameAbTiling(
        names=names,
        call=call,
        block_dim=tiling.block_dim,
        workspace_bytes=tiling.workspace_bytes,
        dealing=deal,
        query=rows.query,
        key=rows.key,
        value=rows.value,
        out=rows.out,
        areas=_areas(tiling, call.platform.aic_cores * BUFFERS * cv_s1 * cv_s2),
        sum_counts=sum_elements(call, is_nz=tiling.tiles.is_gradient_nz),
        tile_floats=cv_s1 * cv_s2,
        ub=_main_places(parts),
        row_term_ub=row_term_places(*row_term_ub(call, tiling.row_term)),
        ub_bytes=parts[-1].end_bytes,
        pre=tiling.pre,
        row_term=tiling.row_term,
        post=tiling.post,
        tiling=tiling,
        products=block_products(call, tiling, cv_s1, cv_s2),
        scale=as_float32(call.params.scale_value),
        next_tokens=tiling.band.next_tokens,
        pre_tokens=tiling.band.pre_tokens,
        has_mask=call.mask is not None,
        is_compressed=call.params.sparse_mode in COMPRESSED_MASK_MODES,
        bias=bias_rows(call),
        private=private_sums(call, tiling, deal, parts[-1].end_bytes),
        look_ahead=1,
        score_buffers=BUFFERS,
        buffers=OWN_BUFFERS,
    )


def _check(call: FagCall, tiling: FagTiling) -> None:
    """Refuse what the kernel does not do yet."""
    tiles = tiling.tiles
    refuse_unwritten(call, "SameAB")
    for name, length in (("cv_s1", tiles.cv_s1 or 0), ("cv_s2", tiles.cv_s2 or 0)):
        if length % CUBE_SIDE:
            raise Rejected([TILE.finding(f"tiling.{name}", operand=name, got=length, wanted=CUBE_SIDE)])


def _main_places(parts: tuple[Area, ...]) -> MainUb:
    scores, narrow, mask, statistics, drop, p, grad, grad_drop, temp, row_term = parts
    return MainUb(
        scores.start_bytes,
        narrow.start_bytes,
        mask.start_bytes,
        statistics.start_bytes,
        drop.start_bytes,
        p.start_bytes,
        grad.start_bytes,
        grad_drop.start_bytes,
        temp.start_bytes,
        row_term.start_bytes,
        temp.bytes,
        statistics.bytes // 2,
    )


def row_term_places(dy: Area, out: Area, wide_dy: Area, wide_out: Area, result: Area, temp: Area) -> RowTermUb:
    """Return where the parts of the row term begin."""
    return RowTermUb(
        dy.start_bytes,
        out.start_bytes,
        wide_dy.start_bytes,
        wide_out.start_bytes,
        result.start_bytes,
        temp.start_bytes,
        temp.bytes,
    )


def _areas(tiling: FagTiling, matrix_floats: int) -> GmAreas:
    assert tiling.offsets is not None
    assert tiling.offsets.dv is not None
    starts = {name: part.at // FLOAT_BYTES for name, part in workspace_parts(tiling.terms).items()}
    first = starts["S and dA"]
    return GmAreas(
        dq=tiling.offsets.dq // FLOAT_BYTES,
        dk=tiling.offsets.dk // FLOAT_BYTES,
        dv=tiling.offsets.dv // FLOAT_BYTES,
        row_term=starts["row term"],
        d_a=first,
        scores=first + matrix_floats,
        kept=starts.get("dropout mask"),
    )


# ---- products --------------------------------------------------------------------------------------------------------


def block_products(
    call: FagCall,
    tiling: FagTiling,
    rows: int,
    columns: int,
    *,
    takes_place: bool = True,
    buffers: ProductBuffers = OWN_BUFFERS,
) -> Products:
    """Return the products of a block of so many rows and columns of scores.

    Args:
        call: as the kernel gets it.
        tiling: of it.
        rows: of the block.
        columns: of the block.
        takes_place: A and dS take the place of S and dA: their rows of 16 bits begin where rows of floats do, 2
            elements for each; in NZ that goes for 16 columns at a time. Otherwise they have areas of their own, in
            which they lie as S and dA do.
        buffers: of the products.
    """
    assert tiling.matmuls is not None
    base: Matmuls = tiling.matmuls
    shape, is_nz, is_sum_nz = call.shape, tiling.tiles.is_score_nz, tiling.tiles.is_gradient_nz
    of = call_rows(shape)
    query, key, value, out = of.query, of.key, of.value, of.out
    pitch = score_pitch(rows, columns, is_nz=is_nz)
    narrow = pitch * FLOAT_BYTES // call.element_bytes if takes_place else pitch
    d_a = Product(rows, columns, shape.dv, out.pitch, value.pitch, pitch, base.scores, b_transposed=True, c_is_nz=is_nz)
    dq = Product(rows, shape.d, columns, narrow, key.pitch, query.pitch, base.dq, a_is_nz=is_nz)
    dk = replace(dq, m=columns, k=rows, b_pitch=query.pitch, c_pitch=key.pitch, base=base.dk_dv, a_transposed=True)
    dv = replace(dk, n=shape.dv, b_pitch=out.pitch, c_pitch=value.pitch)
    scores = replace(d_a, k=shape.d, a_pitch=query.pitch, b_pitch=key.pitch)
    if is_sum_nz:
        dq = replace(dq, c_pitch=query.s * CUBE_SIDE, c_is_nz=True)
        dk, dv = (replace(one, c_pitch=key.s * CUBE_SIDE, c_is_nz=True) for one in (dk, dv))
    return Products(*(product_tiling(call, base, one, buffers) for one in (d_a, scores, dq, dk, dv)))
