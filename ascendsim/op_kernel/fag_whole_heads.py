"""FlashAttention backward, templates N and B: an AIV takes the whole scores of some heads, its AIC makes the products.

    AIV    orders dA and S of its unit t; zeros dK and dV of t - 1; orders dQ, dK and dV of t - 1; vector passes of t
    AIC    for AIV 0, then AIV 1: dA, S of its unit t | dQ, dK, dV of its unit t - 1, as soon as they are ordered

A vector pass, of as many heads as UB holds:

    row term    O, dY -> float -> D = rowsum(dY * O), where need be some columns of D after the others
    dS part     dA -> [rows] -> [dropout] -> dA - D
    P part      S -> [rows] -> [bias] -> scale -> [hide] -> P = exp(S - max) / sum; dS = P (dA - D); [dropout of P]
    stores      dS and A in 16 bits, rows of S2 one behind the other

Flags are those of `fag_served`, and two more. dA has one of its own, because an AIV waits for it first. And one lets
the AIC begin with dQ, dK and dV when the zeros are there, which is when the public kernel orders them. dK and dV are
added to zeros, dQ is stored; dV leaves the cube in its own type.
The public kernel has no event between the Cast of A and its store; here V is waited for, as for dS. The public kernel's
maxima and sums are waited for by the scalar unit, here by V.
Source: ops-transformer op_kernel, flash_attention_score_grad ngs1s2_bn and bngs1s2_b: order of the steps, and what the
scores of a unit are.
"""

from dataclasses import dataclass

from ascendsim.dtypes import FLOAT, UINT8, DType
from ascendsim.isa.forms import BinaryRepeatParams
from ascendsim.isa.move import DataCopyExtParams, DataCopyPadExtParams, DataCopyParams
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_host.fag_dealing import AIV_PER_AIC, Block
from ascendsim.op_host.fag_parts import BUFFERS, Rows, nz_sum_at
from ascendsim.op_host.fag_tiling_n import NZ_SPARE
from ascendsim.op_host.fag_whole_heads import Span, Strides, WholeHeadsTiling, WholeHeadsUb, strides_of
from ascendsim.op_host.softmax import soft_max_grad_tiling_func
from ascendsim.op_host.softmax_family import soft_max_tiling_func
from ascendsim.op_kernel.fag_batch import init_batch_queues, iterate_batch
from ascendsim.op_kernel.fag_passes import Gradient, store_sums
from ascendsim.op_kernel.fag_served import (
    AIVS,
    end_turn,
    flag_of,
    serve,
    start_turn,
    wait_for_scores,
    wait_for_sums,
)
from ascendsim.op_kernel.fag_tensors import Tensors
from ascendsim.op_kernel.fag_tiles import LANES, LOWEST, NZ_BLOCKS, ROW_GROUP, pass_on
from ascendsim.op_kernel.matmul import Queues
from ascendsim.op_kernel.select_with_bytes_mask import SelectWithBytesMaskShapeInfo, select_with_bytes_mask
from ascendsim.op_kernel.simple_softmax import simple_softmax
from ascendsim.op_kernel.softmax_grad import softmax_grad_front
from ascendsim.record import AiCore, tile
from ascendsim.terms import CUBE_SIDE, DATABLOCK_BYTES, CrossMode, HardEvent, Pipe, RoundMode, TPosition, align_up
from ascendsim.tpipe import TBuf

D_A_IS_THERE = 6
"""Flag of the AIC: dA of AIV 0 is in GM; one more for AIV 1."""
ZEROS_ARE_THERE = 8
"""Flag of the AIVs: AIV 0 has zeroed what its dK and dV are added to; one more for AIV 1."""
STATISTICS = 8
"""How often GM holds a row's statistic: one datablock."""
ID, A_ID, ZERO_ID = 0, 1, 2
"""Event ids: of all flags but two from V to MTE3, which V would set again before MTE3 has waited for the other."""


def fag_whole_heads(asc: AiCore, gm: Tensors, t: WholeHeadsTiling) -> None:
    """Run on one core.

    Args:
        asc: the core.
        gm: the tensors.
        t: the tiling.

    Raises:
        KernelError: block_dim is not the tiling's.
    """
    if asc.get_block_num() != t.block_dim:
        raise asc.fail(
            f"block_dim {asc.get_block_num()}: the tiling deals its heads to {t.block_dim} AI Cores; leave block_dim "
            "out, and give a [platform] with fewer cores for a smaller part"
        )
    if asc.is_aic:
        _cube(asc, gm, t)
    else:
        _vector(asc, gm, t)


def _units(core: int, t: WholeHeadsTiling) -> tuple[list[Block], list[Block]]:
    """Return the units of both AIVs of an AIC."""
    first, second = (
        list(t.dealing.of_core(core * AIV_PER_AIC + aiv)) if _works(core, aiv, t) else [] for aiv in (0, 1)
    )
    return first, second


def _works(core: int, aiv: int, t: WholeHeadsTiling) -> bool:
    return core * AIV_PER_AIC + aiv < t.dealing.cores


def _rounds(units: tuple[list[Block], list[Block]]) -> int:
    return max(len(own) for own in units)


def _floats(gm: Tensors, offset_bytes: int) -> GlobalTensor:
    """Return the workspace from a byte on."""
    return gm.workspace[offset_bytes // FLOAT.bytes]


def _scores_at(area: int, aiv: int, t: WholeHeadsTiling) -> int:
    """Return where an AIV's dA or S begins in the workspace [bytes]."""
    return area + aiv * t.aiv_bytes


def _narrow(gm: Tensors, area: int, block: Block, t: WholeHeadsTiling) -> GlobalTensor:
    """Return one of the two buffers of A or dS, of all heads."""
    return _floats(gm, area + block.turn % BUFFERS * t.buffer_bytes).reinterpret_cast(gm.query.dtype)


# ---- AIC -------------------------------------------------------------------------------------------------------------


def _cube(asc: AiCore, gm: Tensors, t: WholeHeadsTiling) -> None:
    core = asc.get_block_idx()
    units = _units(core, t)
    queues = init_batch_queues(asc, asc.t_pipe(), t.products.scores.matmul, t.l1_bytes, t.l1_num)

    def scores(aiv: int, turn: int) -> None:
        own = units[aiv][turn : turn + 1]
        for block in own:
            _score_product(asc, gm, (gm.dy, gm.value), t.areas.d_a, queues, block, core * AIVS + aiv, t)
        asc.cross_core_set_flag(CrossMode.AIC_AIV, Pipe.FIX, flag_of(D_A_IS_THERE, aiv))
        for block in own:
            _score_product(asc, gm, (gm.query, gm.key), t.areas.scores, queues, block, core * AIVS + aiv, t)

    def gradients(aiv: int, turn: int) -> None:
        asc.cross_core_wait_flag(CrossMode.AIC_AIV, Pipe.MTE2, flag_of(ZEROS_ARE_THERE, aiv))
        for block in units[aiv][turn : turn + 1]:
            _gradient_products(asc, gm, queues, block, t)

    serve(asc, _rounds(units), scores, gradients)


def _key_span(span: Span, t: WholeHeadsTiling) -> Span:
    """Return the key heads of query heads."""
    g = t.call.shape.g
    return Span(span.b, span.batches, span.n // g, span.heads // g)


def _matrices(span: Span, rows: int, columns: int) -> Strides:
    """Return how matrices lie of which one follows the other."""
    return Strides(span.batches, span.heads * rows * columns, span.heads, rows * columns, columns)


def _score_product(
    asc: AiCore,
    gm: Tensors,
    operands: tuple[GlobalTensor, GlobalTensor],
    area: int,
    queues: Queues,
    block: Block,
    aiv: int,
    t: WholeHeadsTiling,
) -> None:
    """Make dA = dY V^T or S = Q K^T of a unit."""
    span = t.span(block)
    keys = _key_span(span, t)
    a, b = operands[0][t.query.at(span.b, span.n, 0)], operands[1][t.key.at(keys.b, keys.n, 0)]
    c = _floats(gm, _scores_at(area, aiv, t))
    lies = (
        strides_of(t.query, span, span.heads),
        strides_of(t.key, keys, keys.heads),
        _matrices(span, t.query.s, t.width),
    )
    with asc.trace("S" if area == t.areas.scores else "dA"):
        iterate_batch(asc, (a, b, c), lies, queues, t.products.scores, adds=False)


def _gradient_products(asc: AiCore, gm: Tensors, queues: Queues, block: Block, t: WholeHeadsTiling) -> None:
    """Make dQ = dS K, add dK += dS^T Q and dV += A^T dY of a unit."""
    span = t.span(block)
    keys = _key_span(span, t)
    at = t.head_number(span) * t.query.s * t.key.s
    a, d_s = _narrow(gm, t.areas.a, block, t)[at], _narrow(gm, t.areas.d_s, block, t)[at]
    query_at, key_at = t.query.at(span.b, span.n, 0), t.key.at(keys.b, keys.n, 0)
    scores = _matrices(span, t.query.s, t.key.s)
    queries, of_keys = strides_of(t.query, span, span.heads), strides_of(t.key, keys, keys.heads)
    dq, dk = (
        _floats(gm, area)[_sum_at(rows, its, t)]
        for area, rows, its in ((t.areas.dq, t.query, span), (t.areas.dk, t.key, keys))
    )
    for name, operands, lies, product, adds in (
        ("dQ", (d_s, gm.key[key_at], dq), (scores, of_keys, _sums(t.query, span, t)), t.products.dq, False),
        ("dK", (d_s, gm.query[query_at], dk), (scores, queries, _sums(t.key, keys, t)), t.products.dk, True),
        ("dV", (a, gm.dy[query_at], gm.dv[key_at]), (scores, queries, of_keys), t.products.dv, True),
    ):
        with asc.trace(name):
            iterate_batch(asc, operands, lies, queues, product, adds=adds)


def _sum_at(rows: Rows, span: Span, t: WholeHeadsTiling) -> int:
    """Return where the sums of a span begin [floats]."""
    if t.tiling.tiles.is_gradient_nz:
        return nz_sum_at(rows, span.b, span.n, 0)
    return rows.at(span.b, span.n, 0)


def _sums(rows: Rows, span: Span, t: WholeHeadsTiling) -> Strides:
    """Return how the sums of a span lie."""
    if t.tiling.tiles.is_gradient_nz:
        return _matrices(span, rows.s, align_up(rows.columns, CUBE_SIDE))
    return strides_of(rows, span, span.heads)


# ---- AIV -------------------------------------------------------------------------------------------------------------


def _vector(asc: AiCore, gm: Tensors, t: WholeHeadsTiling) -> None:
    buffer = asc.t_buf(TPosition.VECCALC, "ub")
    asc.t_pipe().init_buffer(buffer, 1, t.ub_bytes)
    units = _units(asc.get_block_idx() // AIV_PER_AIC, t)
    own, rounds = units[asc.get_sub_block_idx()], _rounds(units)
    for turn in range(rounds):
        _start_turn(asc, turn)
        if turn:
            _zero_units(asc, gm, buffer, own[turn - 1 : turn], t)
        for block in own[turn : turn + 1]:
            _unit(asc, gm, buffer, block, t)
        if turn >= len(own):
            _wait_for_d_a(asc)
            wait_for_scores(asc)
        end_turn(asc)
    _zero_units(asc, gm, buffer, own[rounds - 1 : rounds], t)
    if asc.get_sub_block_idx() == 0:
        _wait(asc, flag_of(D_A_IS_THERE, 1))
    wait_for_sums(asc, rounds)
    asc.sync_all()
    sums = tuple(
        Gradient(dst, rows, area // FLOAT.bytes, _sum_count(rows, t), t.scale)
        for dst, rows, area in ((gm.dq, t.query, t.areas.dq), (gm.dk, t.key, t.areas.dk))
    )
    store_sums(asc, sums, gm.workspace, buffer, NZ_SPARE, t)


def _sum_count(rows: Rows, t: WholeHeadsTiling) -> int:
    columns = align_up(rows.columns, CUBE_SIDE) if t.tiling.tiles.is_gradient_nz else rows.columns
    return rows.count // rows.columns * columns


def _start_turn(asc: AiCore, turn: int) -> None:
    """Start a turn, and join what the other AIV's two flags of these templates need."""
    start_turn(asc, turn)
    other = 1 - asc.get_sub_block_idx()
    asc.cross_core_set_flag(CrossMode.AIC_AIV, Pipe.MTE3, flag_of(ZEROS_ARE_THERE, other))
    if other and turn:
        _wait(asc, flag_of(D_A_IS_THERE, other))


def _wait_for_d_a(asc: AiCore) -> None:
    """Wait for dA of the own unit; what was set for AIV 0 is up by then."""
    for aiv in range(asc.get_sub_block_idx() + 1):
        _wait(asc, flag_of(D_A_IS_THERE, aiv))


def _wait(asc: AiCore, flag: int) -> None:
    asc.cross_core_wait_flag(CrossMode.AIC_AIV, Pipe.MTE2, flag)


# ---- zeros -----------------------------------------------------------------------------------------------------------


def _zero_units(asc: AiCore, gm: Tensors, buffer: TBuf, blocks: list[Block], t: WholeHeadsTiling) -> None:
    """Zero what dK and dV of a unit, if there is one, are added to, and let the AIC begin with them."""
    for block in blocks:
        keys = _key_span(t.span(block), t)
        bursts, length, pitch = _zeroed(keys, align_up(t.key.columns, CUBE_SIDE), t)
        with asc.trace("zero dK"):
            _zero(asc, _floats(gm, t.areas.dk)[_sum_at(t.key, keys, t)], buffer, t.ub, bursts, length, pitch)
        bursts, length, pitch = _zeroed(keys, t.key.columns, t)
        with asc.trace("zero dV"):
            _zero(asc, gm.dv[t.key.at(keys.b, keys.n, 0)], buffer, t.ub, bursts, length, pitch)
    asc.cross_core_set_flag(CrossMode.AIC_AIV, Pipe.MTE3, flag_of(ZEROS_ARE_THERE, asc.get_sub_block_idx()))


def _zeroed(keys: Span, nz_columns: int, t: WholeHeadsTiling) -> tuple[int, int, int]:
    """Return (bursts, elements of each, from one to the next) of what dK or dV of a span take."""
    layout = t.key.layout
    columns = nz_columns if t.tiling.tiles.is_gradient_nz else t.key.columns
    if layout == "BNSD" or (layout != "SBH" and keys.heads == t.key.n):
        return 1, keys.count * t.key.s * columns, 0
    return t.key.s, keys.count * columns, t.key.pitch


@tile
def _zero(asc: AiCore, dst: GlobalTensor, buffer: TBuf, at: WholeHeadsUb, bursts: int, length: int, pitch: int) -> None:
    """Store zeros from the temps, as many bursts at once as there are zeros for."""
    size, unit = dst.dtype.bytes, dst.dtype.per_datablock
    most = at.temp_bytes // size
    part = min(length, most)
    together = min(bursts, most // align_up(part, unit))
    zeros = buffer.get_with_offset(dst.dtype, together * align_up(part, unit), at.temp)
    asc.duplicate(zeros, 0.0, together * align_up(part, unit))
    pass_on(asc, HardEvent.V_MTE3, ZERO_ID)
    for burst in range(0, bursts, together):
        for first in range(0, length, part):
            count, elements = min(together, bursts - burst), min(part, length - first)
            gap = (pitch - elements) * size if count > 1 else 0
            asc.data_copy_pad(dst[burst * pitch + first], zeros, DataCopyExtParams(count, elements * size, 0, gap))
    pass_on(asc, HardEvent.MTE3_V, ID)


# ---- vector pass -----------------------------------------------------------------------------------------------------


def _unit(asc: AiCore, gm: Tensors, buffer: TBuf, block: Block, t: WholeHeadsTiling) -> None:
    """A and dS of a unit, in vector passes."""
    span, ub, aiv = t.span(block), _Ub(buffer, t.ub), asc.get_block_idx()
    for number, one in enumerate(t.passes(span)):
        is_first = number == 0
        _row_term_of(asc, gm, ub, one, t)
        if is_first:
            _wait_for_d_a(asc)
        _grad_of(asc, gm, ub, one, span, aiv, t)
        if is_first:
            wait_for_scores(asc)
        _scores_of(asc, gm, ub, one, span, block, aiv, t)


@dataclass(frozen=True, slots=True)
class _Pass:
    """Lengths of a vector pass.

    Attributes:
        heads: heads of all its batches.
        rows, columns: of scores of a head.
        width: columns in UB, in whole fractals.
        d: columns of dY and O.
        row_columns: columns of them that are taken at a time.
        is_nz: dA and S come in NZ.
    """

    heads: int
    rows: int
    columns: int
    width: int
    d: int
    row_columns: int
    is_nz: bool

    @property
    def all_rows(self) -> int:
        """Rows of all heads."""
        return self.heads * self.rows

    @property
    def count(self) -> int:
        """Scores in UB."""
        return self.all_rows * self.width

    @property
    def has_tail(self) -> bool:
        """Whether rows in UB are longer than in GM."""
        return self.columns != self.width


@dataclass(frozen=True, slots=True)
class _Ub:
    """The buffer of UB and the places in it."""

    buffer: TBuf
    at: WholeHeadsUb

    def floats(self, offset_bytes: int, count: int) -> LocalTensor:
        """Return a view of floats."""
        return self.buffer.get_with_offset(FLOAT, count, offset_bytes)

    def of(self, element: DType, offset_bytes: int, count: int) -> LocalTensor:
        """Return a view of elements."""
        return self.buffer.get_with_offset(element, count, offset_bytes)

    @property
    def temp(self) -> LocalTensor:
        """Temp of library calls."""
        return self.buffer.get_with_offset(UINT8, self.at.temp_bytes, self.at.temp)


def _pass_of(one: Span, t: WholeHeadsTiling) -> _Pass:
    return _Pass(one.count, t.query.s, t.key.s, t.width, t.out.columns, t.row_columns, t.is_score_nz)


def _row_term_of(asc: AiCore, gm: Tensors, ub: _Ub, one: Span, t: WholeHeadsTiling) -> None:
    at = t.out.at(one.b, one.n, 0)
    _row_term(asc, gm.dy[at], gm.attention_in[at], strides_of(t.out, one, one.heads), ub, _pass_of(one, t))


@tile
def _row_term(asc: AiCore, dy: GlobalTensor, out: GlobalTensor, lies: Strides, ub: _Ub, p: _Pass) -> None:
    """D = rowsum(dY * O), a datablock for each row; columns of D that are taken later are added."""
    starts = range(0, p.d, p.row_columns)
    with asc.trace("row term"):
        _load_rows(asc, dy, out, lies, ub, p, 0)
        for first in starts:
            columns = min(p.row_columns, p.d - first)
            width = align_up(columns, CUBE_SIDE)
            pass_on(asc, HardEvent.MTE2_V, ID)
            wide = []
            for narrow_at, wide_at in ((ub.at.rows_dy, ub.at.wide_dy), (ub.at.rows_out, ub.at.wide_out)):
                wide.append(ub.floats(wide_at, p.all_rows * width))
                narrow = ub.of(dy.dtype, narrow_at, p.all_rows * width)
                asc.cast(wide[-1], narrow, RoundMode.CAST_NONE, p.all_rows * width)
            asc.pipe_barrier(Pipe.V)
            if first != starts[-1]:
                pass_on(asc, HardEvent.V_MTE2, ID)
                _load_rows(asc, dy, out, lies, ub, p, first + p.row_columns)
            _reduce(asc, wide[0], wide[1], ub, p.all_rows, width, first == 0)
        pass_on(asc, HardEvent.V_MTE2, ID)


def _load_rows(asc: AiCore, dy: GlobalTensor, out: GlobalTensor, lies: Strides, ub: _Ub, p: _Pass, first: int) -> None:
    """Load columns of O and dY from `first` on, head by head, filled up with zeros to whole fractals."""
    columns = min(p.row_columns, p.d - first)
    width, size = align_up(columns, CUBE_SIDE), dy.dtype.bytes
    bursts = DataCopyExtParams(p.rows, columns * size, (lies.pitch - columns) * size, 0)
    pad = DataCopyPadExtParams(True, 0, width - columns, 0)
    for src, place in ((out, ub.at.rows_out), (dy, ub.at.rows_dy)):
        local = ub.of(src.dtype, place, p.all_rows * width)
        for head in range(p.heads):
            asc.data_copy_pad(local[head * p.rows * width], src[lies.at(head) + first], bursts, pad)


def _reduce(asc: AiCore, dy: LocalTensor, out: LocalTensor, ub: _Ub, rows: int, width: int, is_first: bool) -> None:
    """Row sums of dY * O, or what they add to those of other columns."""
    count = rows * FLOAT.per_datablock
    sums = ub.floats(ub.at.row_term, count)
    part = sums if is_first else ub.floats(ub.at.partial, count)
    tiling = soft_max_grad_tiling_func((rows, width), FLOAT.bytes, ub.at.temp_bytes, True)
    is_basic = rows % ROW_GROUP == 0 and width % LANES == 0
    softmax_grad_front(asc, part, dy, out, ub.temp, tiling, is_basic_block=is_basic)
    asc.pipe_barrier(Pipe.V)
    if not is_first:
        asc.add(sums, sums, part, count)
        asc.pipe_barrier(Pipe.V)


def _grad_of(asc: AiCore, gm: Tensors, ub: _Ub, one: Span, unit: Span, aiv: int, t: WholeHeadsTiling) -> None:
    inside = (t.head_number(one) - t.head_number(unit)) * t.query.s * t.width
    _grad(asc, _floats(gm, _scores_at(t.areas.d_a, aiv, t))[inside], ub, _pass_of(one, t))


@tile
def _grad(asc: AiCore, d_a: GlobalTensor, ub: _Ub, p: _Pass) -> None:
    """Make dA - D of a pass."""
    local = ub.floats(ub.at.d_a, p.count)
    with asc.trace("load dA"):
        _load_scores(asc, local, d_a, ub.at.nz_d_a, ub, p)
    with asc.trace("dA - D"):
        terms = ub.floats(ub.at.row_term, p.all_rows * FLOAT.per_datablock)
        blocks = p.width // FLOAT.per_datablock
        strides = BinaryRepeatParams(blocks, blocks, 1, 1, 1, 0)
        for head in range(p.heads):
            for first in range(0, p.rows, ROW_GROUP):
                row, rows = head * p.rows + first, min(ROW_GROUP, p.rows - first)
                part, term = local[row * p.width], terms[row * FLOAT.per_datablock]
                asc.sub(part, part, term, rows * FLOAT.per_datablock, blocks, strides)
        asc.pipe_barrier(Pipe.V)
        pass_on(asc, HardEvent.V_MTE2, ID)


def _load_scores(asc: AiCore, dst: LocalTensor, src: GlobalTensor, nz_at: int, ub: _Ub, p: _Pass) -> None:
    """Load dA or S of all heads, and put what comes in NZ into rows."""
    if p.is_nz:
        nz = ub.floats(nz_at, p.count)
        asc.data_copy(nz, src, p.count)
        pass_on(asc, HardEvent.MTE2_V, ID)
        panel = p.rows * CUBE_SIDE
        bursts = DataCopyParams(p.rows, NZ_BLOCKS, 0, p.width // FLOAT.per_datablock - NZ_BLOCKS)
        for head in range(p.heads):
            for column in range(0, p.width, CUBE_SIDE):
                at = head * p.rows * p.width
                asc.data_copy(dst[at + column], nz[at + column // CUBE_SIDE * panel], bursts)
        asc.pipe_barrier(Pipe.V)
        return
    if p.has_tail:
        asc.duplicate(dst, 0.0, p.count)
        pass_on(asc, HardEvent.V_MTE2, ID)
        filled = align_up(p.columns, FLOAT.per_datablock)
        gaps = (p.width - p.columns) * FLOAT.bytes, (p.width - filled) // FLOAT.per_datablock
        part = DataCopyExtParams(p.all_rows, p.columns * FLOAT.bytes, *gaps)
        asc.data_copy_pad(dst, src, part, DataCopyPadExtParams(True, 0, filled - p.columns, 0))
    else:
        asc.data_copy(dst, src, p.count)
    pass_on(asc, HardEvent.MTE2_V, ID)


def _scores_of(
    asc: AiCore, gm: Tensors, ub: _Ub, one: Span, unit: Span, block: Block, aiv: int, t: WholeHeadsTiling
) -> None:
    head = t.head_number(one)
    inside = (head - t.head_number(unit)) * t.query.s * t.width
    row, out = head * t.query.s * STATISTICS, head * t.query.s * t.key.s
    _probabilities(
        asc,
        gm.softmax_max[row],
        gm.softmax_sum[row],
        _floats(gm, _scores_at(t.areas.scores, aiv, t))[inside],
        *_mask(gm, one, t),
        _narrow(gm, t.areas.a, block, t)[out],
        _narrow(gm, t.areas.d_s, block, t)[out],
        ub,
        _pass_of(one, t),
        t.scale,
    )


def _mask(gm: Tensors, one: Span, t: WholeHeadsTiling) -> tuple[GlobalTensor | None, Strides]:
    """Return the mask of a pass's first head, and how those of the others follow."""
    mask = gm.atten_mask
    if mask is None:
        return None, Strides(one.batches, 0, one.heads, 0, 0)
    axes = (1, 1, *mask.shape)[-4:]
    if t.mask_at is not None:
        return mask[t.mask_at], Strides(one.batches, 0, one.heads, 0, axes[3])
    head = axes[2] * axes[3]
    b_step, n_step = (head * axes[1] if axes[0] > 1 else 0), (head if axes[1] > 1 else 0)
    return mask[one.b * b_step + one.n * n_step], Strides(one.batches, b_step, one.heads, n_step, axes[3])


@tile
def _probabilities(
    asc: AiCore,
    maxima: GlobalTensor,
    sums: GlobalTensor,
    scores: GlobalTensor,
    mask: GlobalTensor | None,
    mask_lies: Strides,
    a: GlobalTensor,
    d_s: GlobalTensor,
    ub: _Ub,
    p: _Pass,
    scale: float,
) -> None:
    """P and dS = P (dA - D) of a pass, both rounded and stored.

    Args:
        asc: the core.
        maxima: of the rows, a datablock each.
        sums: like maxima.
        scores: the products, float.
        mask: bytes that are not 0 where a key is hidden.
        mask_lies: masks of the heads.
        a: where A goes.
        d_s: where dS goes.
        ub: places in UB.
        p: lengths.
        scale: factor of the scores.
    """
    s, grad = ub.floats(ub.at.scores, p.count), ub.floats(ub.at.d_a, p.count)
    statistics = p.all_rows * FLOAT.per_datablock
    max_local, sum_local = ub.floats(ub.at.maxima, statistics), ub.floats(ub.at.sums, statistics)
    row_bytes = align_up(p.columns, DATABLOCK_BYTES)
    mask_local = ub.of(UINT8, ub.at.mask, p.all_rows * row_bytes)
    with asc.trace("load S"):
        if mask:
            bursts = DataCopyExtParams(p.rows, p.columns, mask_lies.pitch - p.columns, 0)
            for head in range(p.heads):
                asc.data_copy_pad(mask_local[head * p.rows * row_bytes], mask[mask_lies.at(head)], bursts)
        _load_scores(asc, s, scores, ub.at.nz_scores, ub, p)
        pass_on(asc, HardEvent.V_MTE2, ID)
        asc.data_copy(max_local, maxima, statistics)
        asc.data_copy(sum_local, sums, statistics)
        pass_on(asc, HardEvent.MTE2_V, ID)
    with asc.trace("P"):
        asc.muls(s, s, scale, p.count)
        asc.pipe_barrier(Pipe.V)
        if mask:
            info = SelectWithBytesMaskShapeInfo(p.all_rows, p.width, row_bytes)
            select_with_bytes_mask(asc, s, s, LOWEST, mask_local, ub.temp, info)
            asc.pipe_barrier(Pipe.V)
        tiling = soft_max_tiling_func((p.all_rows, p.width), FLOAT.bytes, ub.at.temp_bytes)
        is_basic = p.all_rows % ROW_GROUP == 0 and p.width % LANES == 0
        simple_softmax(asc, s, sum_local, max_local, s, ub.temp, tiling, is_basic_block=is_basic)
        asc.pipe_barrier(Pipe.V)
    with asc.trace("dS"):
        asc.mul(grad, grad, s, p.count)
        asc.pipe_barrier(Pipe.V)
    for dst, src, place, event_id in ((d_s, grad, ub.at.d_a, ID), (a, s, ub.at.scores, A_ID)):
        with asc.trace("store"):
            narrow = ub.of(dst.dtype, place, p.count)
            asc.cast(narrow, src, RoundMode.CAST_ROUND, p.count)
            pass_on(asc, HardEvent.V_MTE3, event_id)
            if p.has_tail:
                asc.data_copy_pad(dst, narrow, DataCopyExtParams(p.all_rows, p.columns * dst.dtype.bytes, 0, 0))
            else:
                asc.data_copy(dst, narrow, p.count)
    pass_on(asc, HardEvent.MTE3_MTE2, ID)
