"""What the kernel of template SameAB is given: places in GM and UB, the products of a block, and who computes what.

The order of areas and offsets inside the workspace's "S and dA" term is not published; here dA (mm1) lies before S
(mm2), and in each the AICs' two buffers follow one another. Base blocks are those of the host tiling; how much the
matmul library keeps in L1 is not published: here A and B have half of L1 each, two buffers of each.

Source: ops-transformer op_kernel, flash_attention_score_grad SameAB.
"""

from dataclasses import dataclass, replace
from typing import Final

from ascendsim.dtypes import FLOAT
from ascendsim.errors import InputError
from ascendsim.op_host.fag_call import COMPRESSED_MASK_MODES, FagCall, as_float32
from ascendsim.op_host.fag_dealing import Dealing, dealing
from ascendsim.op_host.fag_map import Area, main_ub, row_term_ub
from ascendsim.op_host.fag_params import Layout
from ascendsim.op_host.fag_result import FagTiling, Matmuls, PostPass, PrePass, RowTermPass
from ascendsim.op_host.fag_tiling_same_ab import sum_elements
from ascendsim.op_host.matmul import MatmulTiling
from ascendsim.op_host.matmul_base import BaseBlock
from ascendsim.terms import CUBE_SIDE, align_up

FLOAT_BYTES: Final = FLOAT.bytes
CUSTOM_HEAD_SIZE: Final = 128
"""D of the L1-custom form that the kernel has."""
BUFFERS: Final = 2
"""Of L1 and L0, and of the scores in GM."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A tensor of B batches, N heads, S rows and some columns in one of the layouts; lengths in elements.

    Attributes:
        layout: order of the axes.
        b, n, s: batches, heads, rows of a head.
        columns: of a row.
    """

    layout: Layout
    b: int
    n: int
    s: int
    columns: int

    @property
    def pitch(self) -> int:
        """From one row of a head to the next."""
        return {"BNSD": 1, "BSND": self.n, "BSH": self.n, "SBH": self.b * self.n}[self.layout] * self.columns

    @property
    def count(self) -> int:
        """Elements of the tensor."""
        return self.b * self.n * self.s * self.columns

    def at(self, b: int, n: int, s: int) -> int:
        """Return where a row of a head begins."""
        row = {
            "BNSD": (b * self.n + n) * self.s + s,
            "BSND": (b * self.s + s) * self.n + n,
            "BSH": (b * self.s + s) * self.n + n,
            "SBH": (s * self.b + b) * self.n + n,
        }[self.layout]
        return row * self.columns


@dataclass(frozen=True, slots=True)
class Products:
    """The five products of a block, in the order of their issue.

    Attributes:
        d_a: dA = dY V^T.
        scores: S = Q K^T.
        dq: dQ += dS K.
        dk: dK += dS^T Q.
        dv: dV += A^T dY.
    """

    d_a: MatmulTiling
    scores: MatmulTiling
    dq: MatmulTiling
    dk: MatmulTiling
    dv: MatmulTiling


@dataclass(frozen=True, slots=True)
class MainUb:
    """Where the parts of a vector sub-tile begin in UB [bytes], in the order of the memory map."""

    scores: int
    narrow: int
    mask: int
    statistics: int
    drop: int
    p: int
    grad: int
    grad_drop: int
    temp: int
    row_term: int
    temp_bytes: int
    statistic_bytes: int
    """Of the sums; the maxima lie behind them."""


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
class GmAreas:
    """Where the areas of the workspace begin [floats]."""

    dq: int
    dk: int
    dv: int
    row_term: int
    d_a: int
    scores: int


@dataclass(frozen=True, slots=True)
class SameAbTiling:
    """What the kernel takes.

    Attributes:
        names: the GM tensors it is called with, in order.
        call: as the kernel gets it.
        block_dim: AI Cores.
        workspace_bytes: of the workspace.
        dealing: who computes which block.
        query, key, value, out: rows of query and dq; key and dk; value and dv; dy and attentionIn.
        areas: of the workspace.
        sum_counts: floats of the sums of dQ, dK and dV.
        tile_floats: of one buffer of S or dA.
        ub, row_term_ub: places in UB.
        ub_bytes: UB that the kernel takes.
        pre, row_term, post: the passes around the main one.
        tiling: the host tiling.
        products: of a full block; its buffers serve all blocks.
        scale: scaleValue as the kernel's float.
        next_tokens, pre_tokens: the band.
        has_mask: there is an attention mask.
        is_compressed: the mask is one small triangle.
    """

    names: tuple[str, ...]
    call: FagCall
    block_dim: int
    workspace_bytes: int
    dealing: Dealing
    query: Rows
    key: Rows
    value: Rows
    out: Rows
    areas: GmAreas
    sum_counts: tuple[int, int, int]
    tile_floats: int
    ub: MainUb
    row_term_ub: RowTermUb
    ub_bytes: int
    pre: PrePass
    row_term: RowTermPass
    post: PostPass
    tiling: FagTiling
    products: Products
    scale: float
    next_tokens: int
    pre_tokens: int
    has_mask: bool
    is_compressed: bool


def same_ab_kernel(call: FagCall, tiling: FagTiling, names: tuple[str, ...]) -> SameAbTiling:
    """Return what the kernel takes.

    Args:
        call: that SameAB took.
        tiling: of it.
        names: the GM tensors that the kernel is called with.

    Raises:
        InputError: what this kernel does not do yet.
    """
    _check(call, tiling)
    deal = dealing(call, tiling)
    if deal is None:
        raise InputError("the call has more blocks of scores than are looked at one by one; make S1 and S2 smaller")
    assert tiling.pre is not None
    assert tiling.row_term is not None
    assert tiling.post is not None
    assert tiling.band is not None
    assert tiling.block_dim is not None
    assert tiling.workspace_bytes is not None
    shape = call.shape
    cv_s1, cv_s2 = tiling.tiles.cv_s1 or 0, tiling.tiles.cv_s2 or 0
    parts = main_ub(call, tiling)
    row_parts = row_term_ub(call, tiling.row_term)
    return SameAbTiling(
        names=names,
        call=call,
        block_dim=tiling.block_dim,
        workspace_bytes=tiling.workspace_bytes,
        dealing=deal,
        query=Rows(shape.layout, shape.b, shape.n1, shape.s1, shape.d),
        key=Rows(shape.layout, shape.b, shape.n2, shape.s2, shape.d),
        value=Rows(shape.layout, shape.b, shape.n2, shape.s2, shape.dv),
        out=Rows(shape.layout, shape.b, shape.n1, shape.s1, shape.dv),
        areas=_areas(tiling, call.platform.aic_cores * BUFFERS * cv_s1 * cv_s2),
        sum_counts=sum_elements(call, is_nz=tiling.tiles.is_gradient_nz),
        tile_floats=cv_s1 * cv_s2,
        ub=_main_places(parts),
        row_term_ub=_row_term_places(row_parts),
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
    )


def _check(call: FagCall, tiling: FagTiling) -> None:
    """Refuse what the kernel does not do yet."""
    tiles = tiling.tiles
    for what, is_asked in (
        ("the L1-custom form of a D other than 128", tiles.is_l1_custom and call.shape.d != CUSTOM_HEAD_SIZE),
        ("the L1-custom form with Dv less than D", tiles.is_l1_custom and call.shape.dv != call.shape.d),
        ("scores in NZ with a single row left over", tiles.is_score_nz and call.shape.s1 % (tiles.cv_s1 or 1) == 1),
        ("pseShift", call.pse is not None),
        ("dropout", call.has_drop),
        ("rotary parts", call.rope_sizes is not None),
        ("deterministic sums", call.params.deterministic),
        ("layout TND", call.shape.is_tnd),
    ):
        if is_asked:
            raise InputError(f"template SameAB: {what}: the host answers (ascendsim fag), a kernel is not there yet")
    for name, length in (("cv_s1", tiles.cv_s1 or 0), ("cv_s2", tiles.cv_s2 or 0)):
        if length % CUBE_SIDE:
            raise InputError(f"{name} = {length}: must be a multiple of {CUBE_SIDE}, rows and columns of a fractal")


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


def _row_term_places(parts: tuple[Area, ...]) -> RowTermUb:
    dy, out, wide_dy, wide_out, result, temp = parts
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
    starts, at = {}, 0
    for term in tiling.terms:
        starts[term.name] = at
        at += term.bytes
    first = starts["S and dA"] // FLOAT_BYTES
    return GmAreas(
        dq=tiling.offsets.dq // FLOAT_BYTES,
        dk=tiling.offsets.dk // FLOAT_BYTES,
        dv=tiling.offsets.dv // FLOAT_BYTES,
        row_term=starts["row term"] // FLOAT_BYTES,
        d_a=first,
        scores=first + matrix_floats,
    )


# ---- products --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Product:
    """One product of a block: lengths, pitches in GM, which operands lie transposed, and which in NZ."""

    m: int
    n: int
    k: int
    a_pitch: int
    b_pitch: int
    c_pitch: int
    base: BaseBlock
    a_transposed: bool = False
    b_transposed: bool = False
    a_is_nz: bool = False
    c_is_nz: bool = False


def block_products(call: FagCall, tiling: FagTiling, rows: int, columns: int) -> Products:
    """Return the products of a block of so many rows and columns of scores.

    A and dS take the place of S and dA: their rows of 16 bits begin where rows of floats do, 2 elements for each. In NZ
    that goes for 16 columns at a time.
    """
    assert tiling.matmuls is not None
    base: Matmuls = tiling.matmuls
    shape, is_nz, is_sum_nz = call.shape, tiling.tiles.is_score_nz, tiling.tiles.is_gradient_nz
    query = Rows(shape.layout, shape.b, shape.n1, shape.s1, shape.d)
    key = Rows(shape.layout, shape.b, shape.n2, shape.s2, shape.d)
    value = Rows(shape.layout, shape.b, shape.n2, shape.s2, shape.dv)
    out = Rows(shape.layout, shape.b, shape.n1, shape.s1, shape.dv)
    pitch = score_pitch(rows, columns, is_nz=is_nz)
    narrow = pitch * FLOAT_BYTES // call.element_bytes
    d_a = _Product(
        rows, columns, shape.dv, out.pitch, value.pitch, pitch, base.scores, b_transposed=True, c_is_nz=is_nz
    )
    dq = _Product(rows, shape.d, columns, narrow, key.pitch, query.pitch, base.dq, a_is_nz=is_nz)
    dk = replace(dq, m=columns, k=rows, b_pitch=query.pitch, c_pitch=key.pitch, base=base.dk_dv, a_transposed=True)
    dv = replace(dk, n=shape.dv, b_pitch=out.pitch, c_pitch=value.pitch)
    scores = replace(d_a, k=shape.d, a_pitch=query.pitch, b_pitch=key.pitch)
    if is_sum_nz:
        dq = replace(dq, c_pitch=query.s * CUBE_SIDE, c_is_nz=True)
        dk, dv = (replace(one, c_pitch=key.s * CUBE_SIDE, c_is_nz=True) for one in (dk, dv))
    return Products(*(_product_tiling(call, base, one) for one in (d_a, scores, dq, dk, dv)))


def nz_sum_at(rows: Rows, b: int, n: int, s: int) -> int:
    """Return where the NZ sums of a row of a head begin: heads follow one another (inferred) [floats]."""
    return (b * rows.n + n) * rows.s * align_up(rows.columns, CUBE_SIDE) + s * CUBE_SIDE


def score_pitch(rows: int, columns: int, *, is_nz: bool) -> int:
    """Return the pitch of a block's scores in GM [floats]: of rows, or in NZ from one 16 columns to the next."""
    return align_up(rows, CUBE_SIDE) * CUBE_SIDE if is_nz else align_up(columns, CUBE_SIDE)


def _product_tiling(call: FagCall, base: Matmuls, product: _Product) -> MatmulTiling:
    """Return the tiling of one product; buffers are large enough for each of the five."""
    size = call.element_bytes
    blocks = base.scores, base.dk_dv, base.dq
    load_bytes = call.platform.l1_bytes // (2 * BUFFERS) // CUBE_SIDE * CUBE_SIDE
    own = product.base
    whole = align_up(product.k, own.k)
    load_ka, load_kb = (
        max(own.k, min(whole, load_bytes // (length * size) // own.k * own.k)) for length in (own.m, own.n)
    )
    load_kb = min(load_ka, load_kb)
    results = max(block.m * block.n * FLOAT_BYTES for block in blocks)
    return MatmulTiling(
        m=product.m,
        n=product.n,
        k=product.k,
        base_m=own.m,
        base_n=own.n,
        base_k=own.k,
        single_core_m=product.m,
        single_core_n=product.n,
        single_core_k=whole,
        load_ka=load_ka // load_kb * load_kb,
        load_kb=load_kb,
        a_transposed=product.a_transposed,
        b_transposed=product.b_transposed,
        relu=False,
        unit_flag=False,
        has_bias=False,
        a_pitch=product.a_pitch,
        b_pitch=product.b_pitch,
        c_pitch=product.c_pitch,
        a_is_nz=product.a_is_nz,
        c_is_nz=product.c_is_nz,
        ab=call.params.element,
        acc=FLOAT,
        a1_bytes=load_bytes,
        b1_bytes=load_bytes,
        c1_bytes=0,
        a2_bytes=max(block.m * block.k * size for block in blocks),
        b2_bytes=max(block.n * block.k * size for block in blocks),
        c2_bytes=0,
        co1_bytes=results,
        a1_num=BUFFERS,
        b1_num=BUFFERS,
        c1_num=0,
        a2_num=BUFFERS,
        b2_num=BUFFERS,
        c2_num=0,
        co1_num=min(BUFFERS, call.platform.l0c_bytes // results),
    )
