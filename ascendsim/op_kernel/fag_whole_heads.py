"""FlashAttention backward, templates N and B: an AIV takes the whole scores of some heads, its AIC makes the products.

    AIV    orders dA and S of its unit t; zeros dK and dV of t - 1; orders dQ, dK and dV of t - 1; vector passes of t
    AIC    for AIV 0, then AIV 1: dA, S of its unit t | dQ, dK, dV of its unit t - 1, as soon as they are ordered
    AIV    all that was ordered is there; SyncAll; dQ and dK are scaled, rounded and stored

Flags are those of `fag_served`, and two more. dA has one of its own, because an AIV waits for it first. And one lets
the AIC begin with dQ, dK and dV when the zeros are there, which is when the public kernel orders them. dK and dV are
added to zeros, dQ is stored; dV leaves the cube in its own type.
Source: ops-transformer op_kernel, flash_attention_score_grad ngs1s2_bn and bngs1s2_b: order of the steps, and what the
scores of a unit are. Inferred: zeros come from the temps of library calls.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from ascendsim.dtypes import FLOAT, UINT8
from ascendsim.isa.move import DataCopyExtParams
from ascendsim.memory import GlobalTensor
from ascendsim.op_host.fag_dealing import AIV_PER_AIC, Block
from ascendsim.op_host.fag_parts import BITS, BUFFERS, Rows, sum_at
from ascendsim.op_host.fag_tiling_n import NZ_SPARE
from ascendsim.op_host.fag_whole_heads import Span, Strides, WholeHeadsTiling, WholeHeadsUb, strides_of
from ascendsim.op_kernel.attention import pass_on, wrong_block_dim
from ascendsim.op_kernel.fag_batch import init_batch_queues, iterate_batch
from ascendsim.op_kernel.fag_heads_pass import (
    ID,
    ZERO_ID,
    Pass,
    PassUb,
    add_bias,
    grad,
    load_bias,
    load_drop,
    load_mask,
    load_scores,
    probabilities,
    row_term,
)
from ascendsim.op_kernel.fag_passes import Gradient, expand_drop_mask, store_sums
from ascendsim.op_kernel.fag_served import (
    end_turn,
    flag_of,
    serve,
    start_turn,
    wait,
    wait_for_scores,
    wait_for_sums,
)
from ascendsim.op_kernel.fag_tensors import STATISTICS, Tensors
from ascendsim.op_kernel.matmul import Queues
from ascendsim.record import AiCore, tile
from ascendsim.terms import CUBE_SIDE, CrossMode, HardEvent, Pipe, TPosition, align_up
from ascendsim.tpipe import TBuf

D_A_IS_THERE = 6
"""Flag of the AIC: dA of AIV 0 is in GM; one more for AIV 1."""
ZEROS_ARE_THERE = 8
"""Flag of the AIVs: AIV 0 has zeroed what its dK and dV are added to; one more for AIV 1."""


@dataclass(frozen=True, slots=True)
class Waits:
    """When an AIV waits for the products of its unit.

    Attributes:
        ordered: as soon as it has ordered them.
        d_a: before it loads dA.
        scores: before it loads S.
    """

    ordered: Callable[[AiCore], None]
    d_a: Callable[[AiCore], None]
    scores: Callable[[AiCore], None]


def wait_for_d_a(asc: AiCore) -> None:
    """Wait for dA of the own unit; what was set for AIV 0 is up by then."""
    for aiv in range(asc.get_sub_block_idx() + 1):
        wait(asc, flag_of(D_A_IS_THERE, aiv))


def wait_for_both(asc: AiCore) -> None:
    """Wait for dA and S of the own unit."""
    wait_for_d_a(asc)
    wait_for_scores(asc)


def wait_for_nothing(asc: AiCore) -> None:
    """Go on: what there is to wait for is there."""
    del asc


def fag_whole_heads(asc: AiCore, gm: Tensors, waits: Waits, t: WholeHeadsTiling) -> None:
    """Run on one core.

    Args:
        asc: the core.
        gm: the tensors.
        waits: when an AIV waits for products.
        t: the tiling.

    Raises:
        KernelError: block_dim is not the tiling's.
    """
    if asc.get_block_num() != t.block_dim:
        raise asc.fail(wrong_block_dim(asc, t.block_dim, "heads"))
    if asc.is_aic:
        _cube(asc, gm, t)
    else:
        _vector(asc, gm, waits, t)


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
            _score_product(asc, gm, (gm.dy, gm.value), t.areas.d_a, queues, block, core * AIV_PER_AIC + aiv, t)
        asc.cross_core_set_flag(CrossMode.AIC_AIV, Pipe.FIX, flag_of(D_A_IS_THERE, aiv))
        for block in own:
            _score_product(asc, gm, (gm.query, gm.key), t.areas.scores, queues, block, core * AIV_PER_AIC + aiv, t)

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
    return sum_at(rows, span.b, span.n, 0, is_nz=t.tiling.tiles.is_gradient_nz)


def _sums(rows: Rows, span: Span, t: WholeHeadsTiling) -> Strides:
    """Return how the sums of a span lie."""
    if t.tiling.tiles.is_gradient_nz:
        return _matrices(span, rows.s, align_up(rows.columns, CUBE_SIDE))
    return strides_of(rows, span, span.heads)


# ---- AIV -------------------------------------------------------------------------------------------------------------


def _vector(asc: AiCore, gm: Tensors, waits: Waits, t: WholeHeadsTiling) -> None:
    buffer = asc.t_buf(TPosition.VECCALC, "ub")
    asc.t_pipe().init_buffer(buffer, 1, t.ub_bytes)
    if gm.drop_mask and t.pre.expands_mask:
        expand_drop_mask(asc, _drop_bytes(gm, t), gm.drop_mask, buffer, t.pre, t.call.shape.scores)
        asc.sync_all()
    units = _units(asc.get_block_idx() // AIV_PER_AIC, t)
    own, rounds = units[asc.get_sub_block_idx()], _rounds(units)
    for turn in range(rounds):
        _start_turn(asc, turn)
        waits.ordered(asc)
        if turn:
            _zero_units(asc, gm, buffer, own[turn - 1 : turn], t)
        for block in own[turn : turn + 1]:
            _unit(asc, gm, buffer, block, waits, t)
        if turn >= len(own):
            waits.d_a(asc)
            waits.scores(asc)
        end_turn(asc)
    _zero_units(asc, gm, buffer, own[rounds - 1 : rounds], t)
    if asc.get_sub_block_idx() == 0:
        wait(asc, flag_of(D_A_IS_THERE, 1))
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
        wait(asc, flag_of(D_A_IS_THERE, other))


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


# ---- vector passes ---------------------------------------------------------------------------------------------------


def _unit(asc: AiCore, gm: Tensors, buffer: TBuf, block: Block, waits: Waits, t: WholeHeadsTiling) -> None:
    """A and dS of a unit, in vector passes."""
    unit, ub, aiv = t.span(block), PassUb(buffer, t.ub), asc.get_block_idx()
    for number, one in enumerate(t.passes(unit)):
        inside = (t.head_number(one) - t.head_number(unit)) * t.query.s * t.width
        d_a, scores = (_floats(gm, area + aiv * t.aiv_bytes)[inside] for area in (t.areas.d_a, t.areas.scores))
        at, p = t.out.at(one.b, one.n, 0), _pass_of(one, t)
        _load_drop(asc, gm, ub, one, p, t)
        row_term(asc, gm.dy[at], gm.attention_in[at], strides_of(t.out, one, one.heads), ub, p)
        if number == 0:
            waits.d_a(asc)
        grad(asc, d_a, ub, p)
        if gm.pse_shift:
            load_bias(asc, *_bias(gm.pse_shift, one, t), ub, p)
        elif gm.atten_mask:
            load_mask(asc, *_mask(gm.atten_mask, one, t), ub, p)
        if number == 0:
            waits.scores(asc)
        load_scores(asc, scores, ub, p)
        if gm.pse_shift:
            add_bias(asc, gm.pse_shift.dtype, _shares_row(gm.pse_shift), ub, p)
            if gm.atten_mask:
                load_mask(asc, *_mask(gm.atten_mask, one, t), ub, p)
        row, out = t.head_number(one) * t.query.s, t.head_number(one) * t.query.s * t.key.s
        maxima, sums = gm.softmax_max[row * STATISTICS], gm.softmax_sum[row * STATISTICS]
        a, d_s = (_narrow(gm, area, block, t)[out] for area in (t.areas.a, t.areas.d_s))
        probabilities(asc, maxima, sums, a, d_s, gm.atten_mask is not None, ub, p)


def _pass_of(one: Span, t: WholeHeadsTiling) -> Pass:
    return Pass(
        heads=one.count,
        rows=t.query.s,
        columns=t.key.s,
        width=t.width,
        d=t.out.columns,
        row_columns=t.row_columns,
        is_nz=t.is_score_nz,
        keep_prob=t.call.keep_prob,
        scale=t.scale,
    )


def _drop_bytes(gm: Tensors, t: WholeHeadsTiling) -> GlobalTensor:
    """Return the dropout mask that the pre pass makes: a byte for each score."""
    return _floats(gm, t.areas.drop).reinterpret_cast(UINT8)


def _load_drop(asc: AiCore, gm: Tensors, ub: PassUb, one: Span, p: Pass, t: WholeHeadsTiling) -> None:
    first = t.head_number(one) * t.query.s * t.key.s
    if gm.drop_mask and p.keep_prob < 1:
        load_drop(asc, _drop_bytes(gm, t)[first] if t.pre.expands_mask else gm.drop_mask[first // BITS], ub, p)


def _bias(pse: GlobalTensor, one: Span, t: WholeHeadsTiling) -> tuple[GlobalTensor, Strides]:
    """Return the bias of a pass's first head, and how those of the others follow."""
    head = prod(pse.shape[2:])
    b_step = head * pse.shape[1] if pse.shape[0] > 1 else 0
    pitch = 0 if _shares_row(pse) else t.key.s
    return pse[one.b * b_step + one.n * head], Strides(one.batches, b_step, one.heads, head, pitch)


def _shares_row(pse: GlobalTensor) -> bool:
    """Whether the bias has one row for all rows of a head."""
    return pse.shape[2] == 1


def _mask(mask: GlobalTensor, one: Span, t: WholeHeadsTiling) -> tuple[GlobalTensor, Strides]:
    """Return the mask of a pass's first head, and how those of the others follow."""
    axes = (1, 1, *mask.shape)[-4:]
    if t.mask_at is not None:
        return mask[t.mask_at], Strides(one.batches, 0, one.heads, 0, axes[3])
    head = axes[2] * axes[3]
    b_step, n_step = (head * axes[1] if axes[0] > 1 else 0), (head if axes[1] > 1 else 0)
    return mask[one.b * b_step + one.n * n_step], Strides(one.batches, b_step, one.heads, n_step, axes[3])
