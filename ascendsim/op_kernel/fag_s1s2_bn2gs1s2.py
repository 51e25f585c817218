"""FlashAttentionScoreGrad, template S1s2Bn2gs1s2: each AIV has blocks of scores of its own, two AIVs share an AIC.

    AIV    zeros; SyncAll
    AIV    row term of block t | P, A and dS of block t
    AIC                        | S and dA of block t + 1; dQ, dK, dV of block t, for AIV 0, then for AIV 1
    AIV    SyncAll; scale, round and store the gradients

S and dA lie once in GM, A and dS twice: the next S and dA come when the vector steps of a block are over, before its
dQ, dK and dV. Who waits for what stands in `fag_served`, and how an AIV's messages become flags.
The row term of a block is made before its scores are waited for; in blocks several vector tiles high, strip by strip.

Vector steps of a block go strip by strip through sub-tiles, two by two: A of one, A of the next, B of both. They take
the halves of UB in turns, ping and pong, also from strip to strip. B's dA comes to the places that A's bias, mask and
statistics had, so it waits for the store of A; each half has one event id.

    A    S -> [rows] -> scale, [bias] in either order -> [hide] -> P = exp(S - max) / sum, which stays -> [drop] -> A
    B    dA -> [rows] -> [drop] -> dA - D -> dS = P (dA - D)

Float tiles need no cast: A is stored as it is, and dV is added up in the output tensor. A float bias comes to temp when
it is needed; where scores are dropped A is stored from temp, so all pipes wait before the dropout mask is loaded.
Inferred: the barrier of all pipes before a block's row term, which takes UB anew (a message of the matmul library is
sent behind what came before it); float sums of dQ and dK come to UB in one base buffer of the post pass.
Products go through the matmul operator's own loop, as the library's is not published. Order of the sums of several
AICs: whoever comes first, in the simulator the cores in turns; within an AIC as above.
Source: ops-transformer op_kernel, flash_attention_score_grad S1s2Bn2gs1s2.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ascendsim.dtypes import FLOAT, UINT8
from ascendsim.isa.move import DataCopyExtParams, DataCopyPadExtParams
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_host.fag_dealing import AIV_PER_AIC, Block, vector_step
from ascendsim.op_host.fag_kernel_tiling import Products
from ascendsim.op_host.fag_parts import BUFFERS, score_pitch, sum_at
from ascendsim.op_host.fag_s1s2_bn2gs1s2 import S1s2Bn2gs1s2Tiling
from ascendsim.op_host.fag_same_ab import RowTermUb, block_products
from ascendsim.op_host.fag_tiling_same_ab import NZ_SPARE
from ascendsim.op_host.softmax import soft_max_grad_tiling_func
from ascendsim.op_kernel.attention import pass_on, wrong_block_dim
from ascendsim.op_kernel.fag_options import (
    MasksAt,
    all_kept,
    bias_at,
    bias_form,
    bias_of_block,
    dropout,
    kept_of_block,
    mask_of_block,
    masks_at,
    masks_of,
    part_of,
)
from ascendsim.op_kernel.fag_passes import Gradient, expand_drop_mask, store_sums, zero
from ascendsim.op_kernel.fag_products import multiply, operands_of
from ascendsim.op_kernel.fag_served import end_turn, serve_blocks, start_turn, wait_for_scores, wait_for_sums
from ascendsim.op_kernel.fag_tensors import STATISTICS, Tensors
from ascendsim.op_kernel.fag_tiles import (
    A_DROP_TEMP_BYTES,
    Bias,
    Dropout,
    Masks,
    Options,
    SubTile,
    Ub,
    add_bias,
    add_wide_bias,
    drop_grad,
    drop_scores,
    hide_keys,
    load_bias,
    load_drop,
    load_mask,
    load_scores,
    probabilities,
    round_tile,
    subtract_row_term,
    to_rows,
)
from ascendsim.op_kernel.matmul import Queues, init_queues
from ascendsim.op_kernel.softmax_grad import softmax_grad_front
from ascendsim.op_kernel.softmax_grad_call import LANES, ROW_GROUP
from ascendsim.record import AiCore, tile
from ascendsim.terms import CUBE_SIDE, DATABLOCK_BYTES, HardEvent, Pipe, RoundMode, TPosition, align_up, ceil_div
from ascendsim.tpipe import TBuf

ROW_TERM = 0
"""Event id of the row term's flags."""


def fag_s1s2_bn2gs1s2(asc: AiCore, gm: Tensors, t: S1s2Bn2gs1s2Tiling) -> None:
    """Run on one core.

    Args:
        asc: the core.
        gm: the tensors.
        t: the tiling.

    Raises:
        KernelError: block_dim is not the tiling's.
    """
    if asc.get_block_num() != t.block_dim:
        raise asc.fail(wrong_block_dim(asc, t.block_dim, "blocks"))
    if asc.is_aic:
        _cube(asc, gm, t)
    else:
        _vector(asc, gm, t)


def _blocks_of(aic: int, t: S1s2Bn2gs1s2Tiling) -> tuple[tuple[Block, ...], ...]:
    """Return the blocks of both AIVs of an AIC."""
    return tuple(tuple(t.dealing.of_core(aic * AIV_PER_AIC + aiv)) for aiv in range(AIV_PER_AIC))


def _scores_of(gm: Tensors, area: int, aiv: int, t: S1s2Bn2gs1s2Tiling) -> GlobalTensor:
    """Return an AIV's S or dA, in an area of the workspace."""
    return gm.workspace[area + aiv * t.tile_elements]


def _narrow_of(gm: Tensors, area: int, aiv: int, block: Block, t: S1s2Bn2gs1s2Tiling) -> GlobalTensor:
    """Return an AIV's A or dS of a block, in an area of the workspace."""
    buffer = block.turn % BUFFERS * t.call.platform.aiv_cores + aiv
    return gm.workspace[area].reinterpret_cast(gm.query.dtype)[buffer * t.tile_elements]


def _dv_sums(gm: Tensors, t: S1s2Bn2gs1s2Tiling) -> GlobalTensor:
    return gm.dv if t.call.is_fp32 else gm.workspace[t.areas.dv]


# ---- AIC -------------------------------------------------------------------------------------------------------------


def _cube(asc: AiCore, gm: Tensors, t: S1s2Bn2gs1s2Tiling) -> None:
    queues = init_queues(asc, asc.t_pipe(), t.products.scores)
    serve_blocks(
        asc,
        _blocks_of(asc.get_block_idx(), t),
        lambda block, aiv: _score_products(asc, gm, queues, block, aiv, t),
        lambda block, aiv: _gradient_products(asc, gm, queues, block, aiv, t),
    )


def _score_products(asc: AiCore, gm: Tensors, queues: Queues, block: Block, aiv: int, t: S1s2Bn2gs1s2Tiling) -> None:
    """Make dA = dY V^T, then S = Q K^T, both to the workspace."""
    of, products = operands_of(gm, block, t), _products(block, t)
    with asc.trace("dA"):
        multiply(asc, of.dy, of.value, _scores_of(gm, t.areas.d_a, aiv, t), queues, products.d_a, False)
    with asc.trace("S"):
        multiply(asc, of.query, of.key, _scores_of(gm, t.areas.scores, aiv, t), queues, products.scores, False)


def _gradient_products(asc: AiCore, gm: Tensors, queues: Queues, block: Block, aiv: int, t: S1s2Bn2gs1s2Tiling) -> None:
    """Add dQ += dS K, dK += dS^T Q, dV += A^T dY."""
    of, products = operands_of(gm, block, t), _products(block, t)
    n1, is_nz = t.call.shape.query_head(block.n2, block.g), t.tiling.tiles.is_gradient_nz
    d_s, a = (_narrow_of(gm, at, aiv, block, t) for at in (t.areas.d_s, t.areas.a))
    dq = gm.workspace[t.areas.dq + sum_at(t.query, block.b, n1, block.s1, is_nz=is_nz)]
    dk = gm.workspace[t.areas.dk + sum_at(t.key, block.b, block.n2, block.s2, is_nz=is_nz)]
    dv = _dv_sums(gm, t)[sum_at(t.value, block.b, block.n2, block.s2, is_nz=is_nz)]
    with asc.trace("dQ"):
        multiply(asc, d_s, of.key, dq, queues, products.dq, True)
    with asc.trace("dK"):
        multiply(asc, d_s, of.query, dk, queues, products.dk, True)
    with asc.trace("dV"):
        multiply(asc, a, of.dy, dv, queues, products.dv, True)


def _products(block: Block, t: S1s2Bn2gs1s2Tiling) -> Products:
    if t.products.are_of(block):
        return t.products
    return block_products(t.call, t.tiling, block.rows, block.columns, takes_place=False)


# ---- AIV -------------------------------------------------------------------------------------------------------------


def _vector(asc: AiCore, gm: Tensors, t: S1s2Bn2gs1s2Tiling) -> None:
    buffer = asc.t_buf(TPosition.VECCALC, "ub")
    asc.t_pipe().init_buffer(buffer, 1, t.ub_bytes)
    zero(asc, (gm.workspace[t.areas.dq], gm.workspace[t.areas.dk], _dv_sums(gm, t)), t.sum_counts, buffer, t.pre)
    if gm.drop_mask and t.areas.kept is not None:
        asc.pipe_barrier(Pipe.ALL)
        expand_drop_mask(asc, all_kept(gm, t.areas.kept), gm.drop_mask, buffer, t.pre, t.call.shape.scores)
    asc.sync_all()
    aiv = asc.get_block_idx()
    blocks = _blocks_of(aiv // AIV_PER_AIC, t)
    own, rounds = blocks[asc.get_sub_block_idx()], max(map(len, blocks))
    for turn in range(rounds):
        block = own[turn] if turn < len(own) else None
        if block and t.is_one_high:
            _row_terms(asc, gm, buffer, block, 0, block.rows, t)
        start_turn(asc, turn)
        wait_for_scores(asc)
        if block:
            _vector_block(asc, gm, buffer, block, aiv, t)
        end_turn(asc)
    wait_for_sums(asc, rounds)
    asc.sync_all()
    _store_gradients(asc, gm, buffer, t)


def _store_gradients(asc: AiCore, gm: Tensors, buffer: TBuf, t: S1s2Bn2gs1s2Tiling) -> None:
    """Scale the sums of dQ and dK, round all three to the gradients' type, and store them; float dV is there."""
    sums = [
        Gradient(gm.dq, t.query, t.areas.dq, t.sum_counts[0], t.scale),
        Gradient(gm.dk, t.key, t.areas.dk, t.sum_counts[1], t.scale),
    ]
    if not t.call.is_fp32:
        sums.append(Gradient(gm.dv, t.value, t.areas.dv, t.sum_counts[2], None))
    store_sums(asc, tuple(sums), gm.workspace, buffer, NZ_SPARE, t)


# ---- row term --------------------------------------------------------------------------------------------------------


def _row_terms(
    asc: AiCore, gm: Tensors, buffer: TBuf, block: Block, row: int, rows: int, t: S1s2Bn2gs1s2Tiling
) -> None:
    """D = rowsum(dY * O) of rows of a block, a datablock each, from its first on to the begin of its place in UB."""
    at = t.out.at(block.b, t.call.shape.query_head(block.n2, block.g), block.s1 + row)
    asc.pipe_barrier(Pipe.ALL)
    _row_term(
        asc,
        gm.dy[at],
        gm.attention_in[at],
        buffer,
        rows,
        t.out.columns,
        t.out.pitch,
        t.row_term_columns,
        t.row_term_ub,
        t.halves[0].row_term,
    )
    asc.pipe_barrier(Pipe.ALL)


@tile
def _row_term(
    asc: AiCore,
    dy: GlobalTensor,
    out: GlobalTensor,
    ub: TBuf,
    rows: int,
    columns: int,
    pitch: int,
    step: int,
    at: RowTermUb,
    result_at: int,
) -> None:
    """So many columns at a time, added up."""
    count = rows * FLOAT.per_datablock
    result, part = (ub.get_with_offset(FLOAT, count, place) for place in (result_at, at.result))
    with asc.trace("row term"):
        asc.duplicate(result, 0.0, count)
        for first in range(0, columns, step):
            if first:
                asc.wait_flag(HardEvent.V_MTE2, ROW_TERM)
            _partial_row_term(asc, dy[first], out[first], part, ub, rows, min(step, columns - first), pitch, at)
            asc.pipe_barrier(Pipe.V)
            asc.add(result, part, result, count)
            if first + step < columns:
                asc.set_flag(HardEvent.V_MTE2, ROW_TERM)


def _partial_row_term(
    asc: AiCore,
    dy: GlobalTensor,
    out: GlobalTensor,
    part: LocalTensor,
    ub: TBuf,
    rows: int,
    columns: int,
    pitch: int,
    at: RowTermUb,
) -> None:
    is_wide = dy.dtype is FLOAT
    width = align_up(columns, dy.dtype.per_datablock)
    loaded = (at.wide_dy, at.wide_out) if is_wide else (at.dy, at.out)
    narrow = tuple(ub.get_with_offset(dy.dtype, rows * width, place) for place in loaded)
    wide_dy, wide_out = (ub.get_with_offset(FLOAT, rows * width, place) for place in (at.wide_dy, at.wide_out))
    for dst, src in zip(narrow, (dy, out), strict=True):
        if pitch == columns == width:
            asc.data_copy(dst, src, rows * width)
        else:
            bursts = DataCopyExtParams(rows, columns * dy.dtype.bytes, (pitch - columns) * dy.dtype.bytes, 0)
            asc.data_copy_pad(dst, src, bursts, DataCopyPadExtParams(True, 0, width - columns, 0))
    pass_on(asc, HardEvent.MTE2_V, ROW_TERM)
    if not is_wide:
        for to, of in zip((wide_dy, wide_out), narrow, strict=True):
            asc.cast(to, of, RoundMode.CAST_NONE, rows * width)
        asc.pipe_barrier(Pipe.V)
    temp = ub.get_with_offset(UINT8, at.temp_bytes, at.temp).with_size(at.temp_bytes)
    tiling = soft_max_grad_tiling_func((rows, width), FLOAT.bytes, at.temp_bytes, True)
    is_basic = rows % ROW_GROUP == 0 and columns % LANES == 0
    softmax_grad_front(asc, part, wide_dy, wide_out, temp, tiling, is_basic_block=is_basic)


# ---- vector steps ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Step:
    """A sub-tile and what belongs to it.

    Attributes:
        half: of UB, 0 or 1.
        is_waiting: its half was used before in the block.
        is_last: its half is not used again in the block.
        column: in its strip.
        term_row: its first row among those whose row term is in UB.
        sub: the sub-tile.
        masks: where its attention masks begin.
        bias: where its position bias begins, behind that of the block.
        kept: where its dropout mask begins, behind that of the block.
    """

    half: int
    is_waiting: bool
    is_last: bool
    column: int
    term_row: int
    sub: SubTile
    masks: MasksAt
    bias: int
    kept: int


def _vector_block(asc: AiCore, gm: Tensors, buffer: TBuf, block: Block, aiv: int, t: S1s2Bn2gs1s2Tiling) -> None:
    """A and dS of a block, strip by strip."""
    n1 = t.call.shape.query_head(block.n2, block.g)
    height, width = vector_step(t.call, t.tiling, block.columns)
    pitch = score_pitch(block.rows, block.columns, is_nz=t.tiling.tiles.is_score_nz)
    mask, mask_pitch = mask_of_block(gm, block, n1, t)
    options = Options(t.scale, mask_pitch, bias_form(t), dropout(t))
    ubs = tuple(Ub(buffer, half) for half in t.halves)
    for row in range(0, block.rows, height):
        rows = min(height, block.rows - row)
        if not t.is_one_high:
            _row_terms(asc, gm, buffer, block, row, rows, t)
        statistics = ((block.b * t.query.n + n1) * t.query.s + block.s1 + row) * STATISTICS
        at = row * (CUBE_SIDE if t.tiling.tiles.is_score_nz else pitch)
        _vector_strip(
            asc,
            gm.softmax_sum[statistics],
            gm.softmax_max[statistics],
            _scores_of(gm, t.areas.scores, aiv, t)[at],
            _scores_of(gm, t.areas.d_a, aiv, t)[at],
            _narrow_of(gm, t.areas.a, aiv, block, t)[at],
            _narrow_of(gm, t.areas.d_s, aiv, block, t)[at],
            mask,
            bias_of_block(gm, block, n1, t),
            kept_of_block(gm, block, n1, t),
            ubs,
            tuple(_steps(block, row, rows, height, width, pitch, t)),
            options,
        )


def _steps(
    block: Block, row: int, rows: int, height: int, width: int, pitch: int, t: S1s2Bn2gs1s2Tiling
) -> Iterator[_Step]:
    """Yield the sub-tiles of a strip; the halves of UB go on from strip to strip."""
    across = ceil_div(block.columns, width)
    count, drop = ceil_div(block.rows, height) * across, dropout(t)
    for number in range(across):
        column, turn = number * width, row // height * across + number
        columns = min(width, block.columns - column)
        sub = SubTile(rows, columns, align_up(columns, CUBE_SIDE), pitch, t.tiling.tiles.is_score_nz)
        yield _Step(
            half=turn % BUFFERS,
            is_waiting=turn >= BUFFERS,
            is_last=turn + BUFFERS >= count,
            column=column,
            term_row=row if t.is_one_high else 0,
            sub=sub,
            masks=masks_at(row, column, sub, block, t),
            bias=bias_at(row, column, sub, block, t),
            kept=drop.bytes_of(row * drop.pitch + column) if drop else 0,
        )


@tile
def _vector_strip(
    asc: AiCore,
    sums: GlobalTensor,
    maxima: GlobalTensor,
    scores: GlobalTensor,
    grad: GlobalTensor,
    a: GlobalTensor,
    d_s: GlobalTensor,
    mask: GlobalTensor | None,
    pse: GlobalTensor | None,
    kept: GlobalTensor | None,
    ubs: tuple[Ub, ...],
    steps: tuple[_Step, ...],
    options: Options,
) -> None:
    """Steps A, then B, of two sub-tiles at a time."""
    for first in range(0, len(steps), BUFFERS):
        pair = steps[first : first + BUFFERS]
        for one in pair:
            at, ub = _score_at(one), ubs[one.half]
            masks = masks_of(mask, one.masks)
            own_pse, own_kept = part_of(pse, one.bias), part_of(kept, one.kept)
            _step_a(asc, sums, maxima, scores[at], a[at], masks, own_pse, own_kept, ub, one, options)
        for one in pair:
            at, ub = _score_at(one), ubs[one.half]
            _step_b(asc, grad[at], d_s[at], part_of(kept, one.kept), ub, one, options.drop)


def _score_at(one: _Step) -> int:
    """Return where a sub-tile begins in its strip."""
    return one.column // CUBE_SIDE * one.sub.pitch if one.sub.is_nz else one.column


def _step_a(
    asc: AiCore,
    sums: GlobalTensor,
    maxima: GlobalTensor,
    scores: GlobalTensor,
    result: GlobalTensor,
    masks: Masks,
    pse: GlobalTensor | None,
    kept: GlobalTensor | None,
    ub: Ub,
    one: _Step,
    options: Options,
) -> None:
    """Make P of a sub-tile, which stays in UB, and store it as A."""
    at, sub, event = ub.at, one.sub, one.half
    bias, drop, is_wide = options.bias, options.drop, result.dtype is FLOAT
    s = ub.floats(at.scores, sub.count)
    sum_local = ub.floats(at.statistics, sub.rows * FLOAT.per_datablock)
    max_local = ub.floats(at.statistics + at.statistic_bytes, sub.rows * FLOAT.per_datablock)
    with asc.trace("load S"):
        if one.is_waiting:
            asc.wait_flag(HardEvent.MTE3_MTE2, event)
        asc.data_copy(sum_local, sums, sub.rows * FLOAT.per_datablock)
        asc.data_copy(max_local, maxima, sub.rows * FLOAT.per_datablock)
        if pse and bias and not is_wide:
            load_bias(asc, pse, bias, ub, sub)
        first_mask = masks.hides or masks.keeps
        if first_mask:
            load_mask(asc, first_mask, options.mask_pitch, ub, sub)
        if kept and drop:
            _load_drop(asc, kept, drop, ub, sub, is_wide)
        load_scores(asc, s, scores, sub)
        pass_on(asc, HardEvent.MTE2_V, event)
    with asc.trace("P"):
        if sub.is_nz:
            to_rows(asc, s, ub, sub)
        if pse and bias and bias.comes_first:
            _add_bias(asc, s, pse, bias, ub, one)
        asc.muls(s, s, options.scale, sub.count)
        asc.pipe_barrier(Pipe.V)
        if pse and bias and not bias.comes_first:
            _add_bias(asc, s, pse, bias, ub, one)
        hide_keys(asc, s, masks, options.mask_pitch, ub, sub, event)
        probabilities(asc, s, s, sum_local, max_local, ub, sub)
        asc.pipe_barrier(Pipe.V)
    stays = s
    if drop:
        stays, temp = ub.floats(at.temp, sub.count), ub.bytes(at.narrow, A_DROP_TEMP_BYTES)
        with asc.trace("drop"):
            drop_scores(asc, stays, s, at.drop, temp, drop, ub, sub)
        if is_wide:
            asc.pipe_barrier(Pipe.ALL)
    _store(asc, result, stays, ub, one)
    asc.set_flag(HardEvent.MTE3_MTE2, event)


def _add_bias(asc: AiCore, s: LocalTensor, pse: GlobalTensor, bias: Bias, ub: Ub, one: _Step) -> None:
    """Add the bias, which is float only now loaded, to temp."""
    if pse.dtype is not FLOAT:
        add_bias(asc, s, pse.dtype, bias, ub, one.sub)
        return
    pass_on(asc, HardEvent.V_MTE2, one.half)
    load_bias(asc, pse, bias, ub, one.sub, ub.at.temp)
    pass_on(asc, HardEvent.MTE2_V, one.half)
    wide = ub.floats(ub.at.temp, one.sub.count if bias.pitch else one.sub.width)
    add_wide_bias(asc, s, wide, bias, one.sub)


def _load_drop(asc: AiCore, kept: GlobalTensor, drop: Dropout, ub: Ub, sub: SubTile, is_wide: bool) -> None:
    """Load the dropout mask; with floats everything before has ended then, as temp may still be stored as A."""
    if is_wide:
        asc.pipe_barrier(Pipe.ALL)
    load_drop(asc, kept, ub.at.drop, drop, ub, sub)


def _step_b(
    asc: AiCore,
    grad: GlobalTensor,
    result: GlobalTensor,
    kept: GlobalTensor | None,
    ub: Ub,
    one: _Step,
    drop: Dropout | None,
) -> None:
    """Make dS of a sub-tile from the P that step A left in UB, and store it."""
    at, sub, event = ub.at, one.sub, one.half
    d_a, p = ub.floats(at.grad, sub.count), ub.floats(at.p, sub.count)
    row_term = ub.floats(at.row_term + one.term_row * DATABLOCK_BYTES, sub.rows * FLOAT.per_datablock)
    with asc.trace("load dA"):
        asc.wait_flag(HardEvent.MTE3_MTE2, event)
        if kept and drop:
            _load_drop(asc, kept, drop, ub, sub, result.dtype is FLOAT)
        load_scores(asc, d_a, grad, sub)
        pass_on(asc, HardEvent.MTE2_V, event)
    with asc.trace("dS"):
        drop_grad(asc, d_a, drop, ub, sub)
        asc.pipe_barrier(Pipe.V)
        subtract_row_term(asc, d_a, row_term, sub)
        asc.pipe_barrier(Pipe.V)
        asc.mul(d_a, d_a, p, sub.count)
        asc.pipe_barrier(Pipe.V)
    _store(asc, result, d_a, ub, one)
    if not one.is_last:
        asc.set_flag(HardEvent.MTE3_MTE2, event)


def _store(asc: AiCore, dst: GlobalTensor, src: LocalTensor, ub: Ub, one: _Step) -> None:
    """Store a tile, floats as they are, else rounded to 16 bits, ties away from zero."""
    sub, size = one.sub, dst.dtype.bytes
    local = src
    if dst.dtype is not FLOAT:
        local = ub.narrow(ub.at.narrow, sub.count + sub.panels * CUBE_SIDE * sub.is_nz, dst.dtype)
        round_tile(asc, local, src, ub, sub)
    with asc.trace("store"):
        pass_on(asc, HardEvent.V_MTE3, one.half)
        if sub.is_nz:
            column = sub.rows * CUBE_SIDE * size
            bursts = DataCopyExtParams(sub.panels, column, 1, sub.pitch * size - column)
        else:
            bursts = DataCopyExtParams(sub.rows, sub.width * size, 0, (sub.pitch - sub.width) * size)
        asc.data_copy_pad(dst, local, bursts)
