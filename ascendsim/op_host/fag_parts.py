"""What kernels of FlashAttentionScoreGrad have in common: rows in a layout, places of a sub-tile in UB, products.

Base blocks of products are those of the host tiling; how much the matmul library keeps in L1 is not published: here A
and B have half of L1 each, two buffers of each.

Source: ops-transformer op_kernel, flash_attention_score_grad.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ascendsim.dtypes import FLOAT
from ascendsim.errors import InputError
from ascendsim.op_host.fag_call import FagCall, FagShape
from ascendsim.op_host.fag_params import Layout
from ascendsim.op_host.fag_result import Matmuls
from ascendsim.op_host.fag_workspace import WorkspaceTerm
from ascendsim.op_host.matmul import MatmulTiling
from ascendsim.op_host.matmul_base import BaseBlock
from ascendsim.terms import CUBE_SIDE, align_up

FLOAT_BYTES: Final = FLOAT.bytes
ALIBI_ROWS: Final = 1024
"""Rows of a pseShift that holds the last ones only."""
ADD_THEN_MULTIPLY: Final = 1
"""The pse_type that scales pseShift, too."""
BITS: Final = 8
"""Scores that a byte of a dropout mask in bits stands for."""
BUFFERS: Final = 2
"""Of L1 and L0, and of the scores in GM."""


@dataclass(frozen=True, slots=True)
class ProductBuffers:
    """How many buffers products have: of A and of B in L1, and in L0 of A, of B and, as far as there is room, of C."""

    l1: int = BUFFERS
    l0: int = BUFFERS


OWN_BUFFERS: Final = ProductBuffers()


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
class CallRows:
    """Rows of a call's tensors: of query and dq; key and dk; value and dv; dy and attentionIn."""

    query: Rows
    key: Rows
    value: Rows
    out: Rows


def call_rows(shape: FagShape) -> CallRows:
    """Return the rows of a call that has no lengths of its own for each batch."""
    return CallRows(
        Rows(shape.layout, shape.b, shape.n1, shape.s1, shape.d),
        Rows(shape.layout, shape.b, shape.n2, shape.s2, shape.d),
        Rows(shape.layout, shape.b, shape.n2, shape.s2, shape.dv),
        Rows(shape.layout, shape.b, shape.n1, shape.s1, shape.dv),
    )


@dataclass(frozen=True, slots=True)
class BiasRows:
    """Where pseShift [batches, heads, rows, columns] lies; lengths in elements.

    Attributes:
        batches: B, or 1 for one that all share.
        heads: N1.
        rows: of a head: S1, 1 for one that all rows of scores share, or the last ones of a bias that depends on i - j
            alone ("alibi").
        columns: of a row, S2.
        is_cut: only the last rows are given.
        comes_first: it is added before the scores are scaled.
    """

    batches: int
    heads: int
    rows: int
    columns: int
    is_cut: bool
    comes_first: bool

    @property
    def pitch(self) -> int:
        """From row to row, 0 for one row."""
        return self.columns if self.rows > 1 else 0

    def head_at(self, b: int, n1: int) -> int:
        """Return where a head begins."""
        return ((b if self.batches > 1 else 0) * self.heads + n1) * self.rows * self.columns

    def at(self, s1: int, s2: int, rows: int, columns: int) -> int:
        """Return where in its head the bias of so many rows and columns of scores begins, from (s1, s2) on.

        Of a cut one another row with the same i - j serves: row s1 modulo its number, or the last ones where they are.
        A part that would leave the tensor, which holds hidden scores then, moves up.

        Source: ops-transformer common kernels, pse, offset of the alibi form.
        """
        if not self.is_cut:
            return s1 * self.pitch + s2
        first = self.columns - self.rows
        row = s1 - first if s1 >= first else s1 % self.rows
        row = min(row, self.rows - rows, self.rows + s1 - s2 - columns)
        return row * self.columns + first + row - (s1 - s2)


def bias_rows(call: FagCall) -> BiasRows | None:
    """Return where pseShift lies, None without one or with slopes."""
    if call.pse is None or call.is_inner_pse:
        return None
    batches, heads, rows, columns = call.pse
    is_cut = rows == ALIBI_ROWS < call.shape.s1
    return BiasRows(batches, heads, rows, columns, is_cut, call.params.pse_type == ADD_THEN_MULTIPLY)


def refuse_unwritten(call: FagCall, template: str) -> None:
    """Refuse what the host of a template answers and its kernel does not do yet.

    Raises:
        InputError: slopes for pseShift, rotary parts, or layout TND.
    """
    for what, is_asked in (
        ("pseShift made inside from slopes", call.is_inner_pse),
        ("rotary parts", call.rope_sizes is not None),
        ("layout TND", call.shape.is_tnd),
    ):
        if is_asked:
            raise InputError(
                f"template {template}: {what}: the host answers (ascendsim fag), a kernel is not there yet"
            )


def require_fractals(**lengths: int | None) -> None:
    """Refuse tile sizes that are not made of whole fractals.

    Raises:
        InputError: one of these sizes is not.
    """
    for name, length in lengths.items():
        if (length or 0) % CUBE_SIDE:
            raise InputError(f"{name} = {length}: must be a multiple of {CUBE_SIDE}, rows and columns of a fractal")


@dataclass(frozen=True, slots=True)
class Part:
    """Where a part of the workspace begins, and how long it is [bytes]."""

    at: int
    bytes: int


def workspace_parts(terms: Iterable[WorkspaceTerm]) -> dict[str, Part]:
    """Return the parts of a workspace by name."""
    found, at = dict[str, Part](), 0
    for term in terms:
        found[term.name] = Part(at, term.bytes)
        at += term.bytes
    return found


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
class Product:
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


def nz_sum_at(rows: Rows, b: int, n: int, s: int) -> int:
    """Return where the NZ sums of a row of a head begin: heads follow one another whatever the layout [floats]."""
    return (b * rows.n + n) * rows.s * align_up(rows.columns, CUBE_SIDE) + s * CUBE_SIDE


def sum_at(rows: Rows, b: int, n: int, s: int, *, is_nz: bool) -> int:
    """Return where the sums of a row of a head begin, as the gradient lies or in NZ [floats]."""
    return nz_sum_at(rows, b, n, s) if is_nz else rows.at(b, n, s)


def score_pitch(rows: int, columns: int, *, is_nz: bool) -> int:
    """Return the pitch of a block's scores in GM [floats]: of rows, or in NZ from one 16 columns to the next."""
    return align_up(rows, CUBE_SIDE) * CUBE_SIDE if is_nz else align_up(columns, CUBE_SIDE)


def _base_k(block: BaseBlock) -> int:
    """Return the K of a base block in whole fractals' sides, at least one."""
    return max(block.k // CUBE_SIDE, 1) * CUBE_SIDE


def product_tiling(
    call: FagCall, base: Matmuls, product: Product, buffers: ProductBuffers = OWN_BUFFERS
) -> MatmulTiling:
    """Return the tiling of one product of a template that hands its products to the matmul library.

    Buffers are large enough for each of its products, so that one set of queues serves them all. A base block of floats
    may have a K that is no multiple of 16; what is transposed on the way to L0 is squares of 16, so here it has less.

    Args:
        call: as the kernel gets it.
        base: base blocks of the host tiling.
        product: the product.
        buffers: how many.
    """
    size = call.element_bytes
    blocks = base.scores, base.dk_dv, base.dq
    load_bytes = call.platform.l1_bytes // (2 * buffers.l1) // CUBE_SIDE * CUBE_SIDE
    own = product.base
    base_k = _base_k(own)
    whole = align_up(product.k, base_k)
    load_ka, load_kb = (
        max(base_k, min(whole, load_bytes // (length * size) // base_k * base_k)) for length in (own.m, own.n)
    )
    load_kb = min(load_ka, load_kb)
    results = max(block.m * block.n * FLOAT_BYTES for block in blocks)
    return MatmulTiling(
        m=product.m,
        n=product.n,
        k=product.k,
        base_m=own.m,
        base_n=own.n,
        base_k=base_k,
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
        a2_bytes=max(block.m * _base_k(block) * size for block in blocks),
        b2_bytes=max(block.n * _base_k(block) * size for block in blocks),
        c2_bytes=0,
        co1_bytes=results,
        a1_num=buffers.l1,
        b1_num=buffers.l1,
        c1_num=0,
        a2_num=buffers.l0,
        b2_num=buffers.l0,
        c2_num=0,
        co1_num=min(buffers.l0, call.platform.l0c_bytes // results),
    )
