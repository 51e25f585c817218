"""What the kernels of templates N and B are given: both take the whole scores of several heads at a time.

Two things no source states, and are assumed: in the workspace dA (mm1) of all AIVs lies before S (mm2), and A's two
buffers before those of dS.

Source: ops-transformer op_kernel, flash_attention_score_grad ngs1s2_bn and bngs1s2_b.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from ascendsim.errors import InputError
from ascendsim.op_host.fag_call import COMPRESSED_MASK_MODES, FagCall, as_float32
from ascendsim.op_host.fag_dealing import Block, dealing
from ascendsim.op_host.fag_kernel_tiling import KernelTiling
from ascendsim.op_host.fag_parts import BITS, BUFFERS, Product, Rows, call_rows, product_tiling, workspace_parts
from ascendsim.op_host.fag_result import FagTiling, Matmuls, UnitSplit
from ascendsim.op_host.matmul import MatmulTiling
from ascendsim.terms import CUBE_SIDE, DATABLOCK_BYTES, FRACTAL_BYTES, align_up, ceil_div

LEAST_TEMP_BYTES: Final = 1024
"""What the library calls ask for at least."""


@dataclass(frozen=True, slots=True)
class Span:
    """Heads that are worked on together.

    Attributes:
        b, batches: first batch, and how many.
        n, heads: first query head of each batch, and how many.
    """

    b: int
    batches: int
    n: int
    heads: int

    @property
    def count(self) -> int:
        """Heads of all batches."""
        return self.batches * self.heads


@dataclass(frozen=True, slots=True)
class Strides:
    """Matrices of a span in GM: how many batches and heads, from one to the next, and from row to row [elements]."""

    batches: int
    b_step: int
    heads: int
    n_step: int
    pitch: int

    @property
    def count(self) -> int:
        """Matrices."""
        return self.batches * self.heads

    def at(self, number: int) -> int:
        """Return where a matrix begins."""
        batch, head = divmod(number, self.heads)
        return batch * self.b_step + head * self.n_step


@dataclass(frozen=True, slots=True)
class Piece:
    """What one load brings of each matrix of an operand into L1.

    Attributes:
        at: where the piece of the first matrix begins in the operand [elements].
        from_row, from_column: of the matrix.
        rows, columns: of it.
        height: rows from one 16 columns to the next in L1.
        elements: from one matrix to the next in L1.
    """

    at: int
    from_row: int
    from_column: int
    rows: int
    columns: int
    height: int
    elements: int


@dataclass(frozen=True, slots=True)
class BatchProduct:
    """A product of each head of a span.

    Attributes:
        matmul: of one head; its buffers hold what the product needs.
        b_share: heads that use the same B.
        c_sum: heads that are added up to one C.
    """

    matmul: MatmulTiling
    b_share: int
    c_sum: int

    def a_pieces(self, count: int) -> tuple[Piece, ...]:
        """Return the pieces of so many A, one for each base_m rows of C."""
        t = self.matmul
        return _pieces(t.m, t.base_m, t.k, count, along_rows=not t.a_transposed)

    def b_pieces(self, count: int) -> tuple[Piece, ...]:
        """Return the pieces of so many B, one for each base_n columns of C."""
        t = self.matmul
        return _pieces(t.n, t.base_n, t.k, count, along_rows=t.b_transposed)

    def l1_elements(self, heads: int) -> int:
        """Return the elements of both operands of so many heads."""
        pieces = *self.a_pieces(heads), *self.b_pieces(heads)
        counts = [heads] * len(self.a_pieces(heads)) + [heads // self.b_share] * len(self.b_pieces(heads))
        return sum(one.elements * count for one, count in zip(pieces, counts, strict=True))


def _pieces(length: int, base: int, k: int, count: int, *, along_rows: bool) -> tuple[Piece, ...]:
    """Return the pieces of a matrix whose rows, or else columns, C has along `length`."""
    pieces, at = [], 0
    for begin in range(0, length, base):
        part = min(base, length - begin)
        rows, columns = (part, k) if along_rows else (k, part)
        is_row = along_rows and rows == 1  # Mmad reads a single row of A as it lies
        height = 1 if is_row else align_up(rows, CUBE_SIDE)
        elements = align_up(k, FRACTAL_BYTES // 2) if is_row else height * align_up(columns, CUBE_SIDE)
        from_row, from_column = (begin, 0) if along_rows else (0, begin)
        pieces.append(Piece(at, from_row, from_column, rows, columns, height, elements))
        at += elements * count
    return tuple(pieces)


@dataclass(frozen=True, slots=True)
class BatchProducts:
    """The five products of a span.

    Attributes:
        d_a: dA = dY V^T.
        scores: S = Q K^T.
        dq: dQ = dS K.
        dk: dK += dS^T Q.
        dv: dV += A^T dY.
    """

    d_a: BatchProduct
    scores: BatchProduct
    dq: BatchProduct
    dk: BatchProduct
    dv: BatchProduct


@dataclass(frozen=True, slots=True)
class WholeHeadsUb:
    """Where the parts of a vector pass begin in UB [bytes].

    Attributes:
        rows_dy, rows_out: rows of dY and O as they come.
        wide_dy, wide_out: the same in float.
        partial: row terms of some columns of D, where it is cut.
        row_term: sums of those.
        nz_d_a, nz_scores: dA and S as they come in NZ.
        d_a: dA, then dS.
        scores: S, then P, then A.
        maxima, sums: of rows.
        bias: position bias as it comes.
        mask: attention mask.
        drop: dropout mask.
        temp, temp_bytes: of library calls.
        end: behind all of it.
    """

    rows_dy: int
    rows_out: int
    wide_dy: int
    wide_out: int
    partial: int
    row_term: int
    nz_d_a: int
    nz_scores: int
    d_a: int
    scores: int
    maxima: int
    sums: int
    bias: int
    mask: int
    drop: int
    temp: int
    temp_bytes: int
    end: int


@dataclass(frozen=True, slots=True)
class GmAreas:
    """Where the areas of the workspace begin [bytes].

    Attributes:
        drop: bytes of the dropout mask.
        d_a, scores: of all AIVs.
        dq, dk: sums.
        a, d_s: both buffers.
    """

    drop: int
    d_a: int
    scores: int
    dq: int
    dk: int
    a: int
    d_s: int


@dataclass(frozen=True, slots=True)
class WholeHeadsTiling(KernelTiling):
    """What the kernel takes.

    Attributes:
        split: batches or heads of a vector pass, and of what the cube hands over together.
        areas: of the workspace.
        aiv_bytes: of dA or S of one AIV.
        buffer_bytes: of one buffer of A or dS.
        width: columns of scores in UB and in GM, in whole fractals.
        row_columns: columns of D that the row term takes at a time.
        ub: places in UB.
        products: of a full span; they serve smaller ones, too.
        l1_bytes, l1_num: a buffer of both operands of a product, and how many there are.
        is_score_nz: dA and S leave the cube in NZ.
        mask_at: where the whole of a compressed mask begins to be read [elements]; None for another mask, or none.
    """

    split: UnitSplit
    areas: GmAreas
    aiv_bytes: int
    buffer_bytes: int
    width: int
    row_columns: int
    ub: WholeHeadsUb
    products: BatchProducts
    l1_bytes: int
    l1_num: int
    is_score_nz: bool
    mask_at: int | None

    def span(self, block: Block) -> Span:
        """Return the heads of a block."""
        if self.split.axis == "head":
            return Span(block.b, 1, block.n2 * self.call.shape.g, block.heads)
        return Span(block.b, block.heads // self.query.n, 0, self.query.n)

    def passes(self, span: Span) -> Iterator[Span]:
        """Yield the heads of one vector pass after the other."""
        step = self.split.units
        if self.split.axis == "head":
            for n in range(0, span.heads, step):
                yield Span(span.b, 1, span.n + n, min(step, span.heads - n))
            return
        for b in range(0, span.batches, step):
            yield Span(span.b + b, min(step, span.batches - b), 0, span.heads)

    def head_number(self, span: Span) -> int:
        """Return the number of a span's first head among all, in the order [B, N1]."""
        return span.b * self.query.n + span.n


def strides_of(rows: Rows, span: Span, heads: int) -> Strides:
    """Return how a span's matrices lie in a tensor of which so many heads belong to it."""
    b_step = rows.at(1, 0, 0) if span.batches > 1 else 0
    return Strides(span.batches, b_step, heads, rows.at(0, 1, 0) if heads > 1 else 0, rows.pitch)


def whole_heads_kernel(
    call: FagCall, tiling: FagTiling, names: tuple[str, ...], ub: WholeHeadsUb, heads: int
) -> WholeHeadsTiling:
    """Return what the kernel takes.

    Args:
        call: that the template took.
        tiling: of it.
        names: the GM tensors that the kernel is called with.
        ub: places in UB.
        heads: of a full span.

    Raises:
        InputError: what the kernel does not do yet.
    """
    _check(call, tiling, ub)
    deal = dealing(call, tiling)
    assert deal is not None
    assert tiling.split is not None
    assert tiling.pre is not None
    assert tiling.post is not None
    assert tiling.block_dim is not None
    assert tiling.workspace_bytes is not None
    assert tiling.tiles.used_cores is not None
    shape = call.shape
    products = _products(call, tiling)
    parts = products.d_a, products.scores, products.dq, products.dk, products.dv
    l1_bytes = max(one.l1_elements(heads) for one in parts) * call.element_bytes
    rows, parts_of = call_rows(shape), workspace_parts(tiling.terms)
    both, tiles, drop = parts_of["S and dA"], parts_of["A and dS"], parts_of.get("dropout mask")
    buffer_bytes = tiles.bytes // (2 * BUFFERS)
    return WholeHeadsTiling(
        names=names,
        call=call,
        tiling=tiling,
        block_dim=tiling.block_dim,
        workspace_bytes=tiling.workspace_bytes,
        dealing=deal,
        split=tiling.split,
        query=rows.query,
        key=rows.key,
        value=rows.value,
        out=rows.out,
        areas=GmAreas(
            drop=drop.at if drop else 0,
            d_a=both.at,
            scores=both.at + both.bytes // 2,
            dq=parts_of["dQ sums"].at,
            dk=parts_of["dK sums"].at,
            a=tiles.at,
            d_s=tiles.at + BUFFERS * buffer_bytes,
        ),
        aiv_bytes=both.bytes // 2 // tiling.tiles.used_cores,
        buffer_bytes=buffer_bytes,
        width=tiling.split.s2_aligned,
        row_columns=tiling.tiles.row_term_columns or 0,
        ub=ub,
        ub_bytes=call.platform.ub_bytes,
        pre=tiling.pre,
        post=tiling.post,
        products=products,
        l1_bytes=l1_bytes,
        l1_num=BUFFERS if BUFFERS * l1_bytes <= call.platform.l1_bytes else 1,
        scale=as_float32(call.params.scale_value),
        is_score_nz=tiling.tiles.is_score_nz,
        mask_at=_mask_at(call),
    )


def _check(call: FagCall, tiling: FagTiling, ub: WholeHeadsUb) -> None:
    """Refuse what the kernel does not do, and what it has no room for."""
    mask, s1, s2 = call.mask, call.shape.s1, call.shape.s2
    if mask and call.params.sparse_mode not in COMPRESSED_MASK_MODES and mask[-2:] != (s1, s2):
        raise InputError(
            f"atten_mask has last axes {list(mask[-2:])}: the kernel of template {tiling.template} reads one of "
            f"{s1} x {s2}, or with sparse_mode 2 or 3 a compressed one"
        )
    if ub.temp_bytes < LEAST_TEMP_BYTES:
        raise InputError(
            f"template {tiling.template}: {ub.temp_bytes} B of UB are left for the temps of library calls, they need "
            f"{LEAST_TEMP_BYTES}; prescribe fewer units"
        )


def _mask_at(call: FagCall) -> int | None:
    """Return where in a compressed mask the part begins whose diagonal is the band's edge: next is S2 - S1 in mode 3.

    Source: the rule of SameAB (derived), for a tile that starts at the first score.
    """
    mask, shape = call.mask, call.shape
    if mask is None or call.params.sparse_mode not in COMPRESSED_MASK_MODES:
        return None
    edge = shape.s2 - shape.s1 if call.params.sparse_mode == 3 else 0
    return -edge if edge < 0 else edge * mask[-1]


def drop_bytes(call: FagCall, rows: int) -> int:
    """Return the UB for a dropout mask of so many rows; 0 for none.

    A bit for each score, or where S2 is no multiple of 16 a byte, each row of them in whole datablocks.
    """
    if not call.has_drop:
        return 0
    s2 = call.shape.s2
    needed = rows * align_up(s2, DATABLOCK_BYTES) if s2 % CUBE_SIDE else ceil_div(rows * s2, BITS)
    return align_up(needed, DATABLOCK_BYTES)


# ---- products --------------------------------------------------------------------------------------------------------


def _products(call: FagCall, tiling: FagTiling) -> BatchProducts:
    """Return the products; A and dS lie in GM in rows of S2 elements, one behind the other."""
    assert tiling.matmuls is not None
    base: Matmuls = tiling.matmuls
    shape, is_nz, is_sum_nz = call.shape, tiling.tiles.is_score_nz, tiling.tiles.is_gradient_nz
    query, key = call_rows(shape).query, call_rows(shape).key
    pitch = shape.s1 * CUBE_SIDE if is_nz else shape.s2_aligned
    scores = Product(
        shape.s1, shape.s2, shape.d, query.pitch, key.pitch, pitch, base.scores, b_transposed=True, c_is_nz=is_nz
    )
    dq = Product(shape.s1, shape.d, shape.s2, shape.s2, key.pitch, query.pitch, base.dq)
    dv = replace(dq, m=shape.s2, k=shape.s1, b_pitch=query.pitch, c_pitch=key.pitch, base=base.dk_dv, a_transposed=True)
    dk = dv
    if is_sum_nz:
        dq = replace(dq, c_pitch=shape.s1 * CUBE_SIDE, c_is_nz=True)
        dk = replace(dk, c_pitch=shape.s2 * CUBE_SIDE, c_is_nz=True)
    t = {name: product_tiling(call, base, one) for name, one in (("S", scores), ("dQ", dq), ("dK", dk), ("dV", dv))}
    g = shape.g
    return BatchProducts(
        d_a=BatchProduct(t["S"], g, 1),
        scores=BatchProduct(t["S"], g, 1),
        dq=BatchProduct(t["dQ"], g, 1),
        dk=BatchProduct(t["dK"], 1, g),
        dv=BatchProduct(t["dV"], 1, g),
    )
