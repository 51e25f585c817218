"""FlashAttentionScoreGrad, template S1s2Bn2: each AIV takes whole key heads, one after the other.

    AIV    row term of block t; P, A and dS of block t; gradients of the head that block t - 2 ended
    AIC    for each of its AIVs: S and dA of block t | dV, dQ, dK of block t - 1

An AIV goes through a key head's query heads, and in each through score blocks, along S1 first. Who orders products, and
the flags between the cores, stand in `fag_served`. S and dA have one buffer in GM, A and dS two. Sums need no zeros:
the first product of a head replaces (dQ at the first block of a row of blocks, dK and dV at the first of a column of
the first query head), the others add. Only where blocks are skipped are sums zeros to begin with; each AIV stores those
of its own heads, so that nobody else has to wait (inferred). With float inputs dV is summed up in its own tensor.
Dropout that reads bytes has all AIVs make them of the bits first, and then meet (SyncAll).

In the L1-custom form an AIC takes the key heads and its AIVs halves of each block's rows, also when a head is stored;
its products and flags stand in `fag_s1s2_bn2_custom`.

Inferred: the row term of a block's first strip is made before its scores are waited for; a finished head is scaled and
cast two blocks later, when the scores' flag says that its sums are there (the public kernel waits for its products dQ,
then dK and dV), so two finished heads are kept; the last ones at the end.
All additions to a head come from one AIC, in the order of its blocks. So the deterministic form, which is the same
kernel here, has no other order; what it changes is which calls take the template.
Source: ops-transformer op_kernel, flash_attention_score_grad S1s2Bn2.
"""

from functools import partial

from ascendsim.op_host.fag_dealing import AIV_PER_AIC, Block, shares
from ascendsim.op_host.fag_kernel_tiling import Products
from ascendsim.op_host.fag_s1s2_bn2 import S1s2Bn2Tiling, block_products
from ascendsim.op_kernel.attention import wrong_block_dim
from ascendsim.op_kernel.fag_options import all_kept
from ascendsim.op_kernel.fag_passes import expand_drop_mask
from ascendsim.op_kernel.fag_products import multiply, operands_of
from ascendsim.op_kernel.fag_s1s2_bn2_custom import (
    KEY_SUMS_ARE_THERE,
    QUERY_SUMS_ARE_THERE,
    SCORES_ARE_THERE,
    TILES_ARE_THERE,
    custom_products,
    turn_flag,
)
from ascendsim.op_kernel.fag_s1s2_bn2_heads import (
    Head,
    HeadPart,
    finished_heads,
    store_key_head,
    store_query_head,
    zero_heads,
)
from ascendsim.op_kernel.fag_s1s2_bn2_places import (
    blocks_of,
    key_sums,
    query_sums,
    scores_at,
    tiles_at,
)
from ascendsim.op_kernel.fag_s1s2_bn2_tiles import Part, vector_block
from ascendsim.op_kernel.fag_served import (
    end_turn,
    serve_blocks,
    start_turn,
    wait_for_scores,
    wait_for_sums,
)
from ascendsim.op_kernel.fag_tensors import Tensors
from ascendsim.op_kernel.matmul import Queues, init_queues
from ascendsim.record import AiCore
from ascendsim.terms import CrossMode, Pipe, TPosition
from ascendsim.tpipe import TBuf

KEPT = 2
"""Blocks behind its last one after which a head's sums are there."""


def fag_s1s2_bn2(asc: AiCore, gm: Tensors, t: S1s2Bn2Tiling) -> None:
    """Run on one core.

    Args:
        asc: the core.
        gm: the tensors.
        t: the tiling.

    Raises:
        KernelError: block_dim is not the tiling's.
    """
    if asc.get_block_num() != t.block_dim:
        raise asc.fail(wrong_block_dim(asc, t.block_dim, "heads"))
    if t.tiling.tiles.is_l1_custom:
        (custom_products if asc.is_aic else _custom_vector)(asc, gm, t)
    else:
        (_cube if asc.is_aic else _vector)(asc, gm, t)


# ---- AIC -------------------------------------------------------------------------------------------------------------


def _cube(asc: AiCore, gm: Tensors, t: S1s2Bn2Tiling) -> None:
    queues = init_queues(asc, asc.t_pipe(), t.products.scores)
    first = asc.get_block_idx() * AIV_PER_AIC
    serve_blocks(
        asc,
        tuple(blocks_of(first + aiv, t) for aiv in range(AIV_PER_AIC)),
        lambda block, core: _score_products(asc, gm, queues, block, core, t),
        lambda block, core: _gradient_products(asc, gm, queues, block, core, t),
    )


def _score_products(asc: AiCore, gm: Tensors, queues: Queues, block: Block, core: int, t: S1s2Bn2Tiling) -> None:
    """Make S = Q K^T, then dA = dY V^T, both to the workspace."""
    of, products = operands_of(gm, block, t), _products(block, t)
    scores, d_a = scores_at(gm, core, block, t)
    with asc.trace("S"):
        multiply(asc, of.query, of.key, scores, queues, products.scores, False)
    with asc.trace("dA"):
        multiply(asc, of.dy, of.value, d_a, queues, products.d_a, False)


def _gradient_products(asc: AiCore, gm: Tensors, queues: Queues, block: Block, core: int, t: S1s2Bn2Tiling) -> None:
    """Make or add dV += A^T dY, dQ += dS K, dK += dS^T Q."""
    of, products = operands_of(gm, block, t), _products(block, t)
    n1 = t.call.shape.query_head(block.n2, block.g)
    a, d_s = tiles_at(gm, core, block, t)
    dq = query_sums(gm, block.b, n1, block.s1, t)
    dk = key_sums(gm, t.areas.dk, block.b, block.n2, block.s2, t)
    dv = key_sums(gm, t.areas.dv, block.b, block.n2, block.s2, t)
    if t.call.is_fp32:
        dv = gm.dv[t.value.at(block.b, block.n2, block.s2)]
    query_adds = t.is_sparse or block.s2 > 0
    key_adds = t.is_sparse or block.g > 0 or block.s1 > 0
    with asc.trace("dV"):
        multiply(asc, a, of.dy, dv, queues, products.dv, key_adds)
    with asc.trace("dQ"):
        multiply(asc, d_s, of.key, dq, queues, products.dq, query_adds)
    with asc.trace("dK"):
        multiply(asc, d_s, of.query, dk, queues, products.dk, key_adds)


def _products(block: Block, t: S1s2Bn2Tiling) -> Products:
    return t.products if t.products.are_of(block) else block_products(t.call, t.tiling, block.rows, block.columns)


# ---- AIV -------------------------------------------------------------------------------------------------------------


def _vector(asc: AiCore, gm: Tensors, t: S1s2Bn2Tiling) -> None:
    buffer = asc.t_buf(TPosition.VECCALC, "ub")
    asc.t_pipe().init_buffer(buffer, 1, t.ub_bytes)
    core = asc.get_block_idx()
    blocks = blocks_of(core, t)
    rounds = max(len(blocks), len(blocks_of(core ^ 1, t)))
    finished = finished_heads(blocks)
    if gm.drop_mask and t.areas.kept is not None:
        kept = all_kept(gm, t.areas.kept)
        expand_drop_mask(asc, kept, gm.drop_mask, buffer, t.pre, t.call.shape.scores)
        asc.sync_all()
    if t.is_sparse:
        zero_heads(asc, gm, buffer, blocks, t)
    for turn in range(rounds):
        start_turn(asc, turn)
        if turn < len(blocks):
            part = Part(core, 0, blocks[turn].rows)
            vector_block(asc, gm, buffer, blocks[turn], part, lambda: wait_for_scores(asc), t)
        else:
            wait_for_scores(asc)
        end_turn(asc)
        while finished and finished[0].turn + KEPT <= turn:
            _store_head(asc, gm, buffer, finished.pop(0), t)
    wait_for_sums(asc, rounds)
    for head in finished:
        _store_head(asc, gm, buffer, head, t)


def _store_head(asc: AiCore, gm: Tensors, buffer: TBuf, head: Head, t: S1s2Bn2Tiling) -> None:
    """Store the gradients of a head, dK and dV behind the last query head of their key head."""
    whole = HeadPart(0, 1)
    asc.pipe_barrier(Pipe.ALL)
    store_query_head(asc, gm, buffer, head, whole, t)
    if head.ends_key_head:
        store_key_head(asc, gm, buffer, head, whole, t)
    asc.pipe_barrier(Pipe.ALL)


# ---- L1-custom -------------------------------------------------------------------------------------------------------


def _custom_vector(asc: AiCore, gm: Tensors, t: S1s2Bn2Tiling) -> None:
    """Vector work of an AIV on half of the rows of its AIC's blocks."""
    buffer = asc.t_buf(TPosition.VECCALC, "ub")
    asc.t_pipe().init_buffer(buffer, 1, t.ub_bytes)
    core, own = asc.get_block_idx() // AIV_PER_AIC, asc.get_sub_block_idx()
    blocks = blocks_of(core, t)
    finished = finished_heads(blocks)
    step = t.tiling.tiles.vec_s1 or 1, t.tiling.tiles.vec_s2 or 1
    for block in blocks:
        share = shares(block.rows, block.columns, t.dealing.cut, *step)[own]
        flag = turn_flag(SCORES_ARE_THERE, block)
        wait = partial(asc.cross_core_wait_flag, CrossMode.AIC_AIV, Pipe.MTE2, flag)
        vector_block(asc, gm, buffer, block, Part(core, share.s1, share.rows), wait, t)
        asc.cross_core_set_flag(CrossMode.AIC_AIV, Pipe.MTE3, turn_flag(TILES_ARE_THERE, block))
        while finished and finished[0].turn + KEPT <= block.turn:
            _store_half_head(asc, gm, buffer, finished.pop(0), t)
    for head in finished:
        _store_half_head(asc, gm, buffer, head, t)


def _store_half_head(asc: AiCore, gm: Tensors, buffer: TBuf, head: Head, t: S1s2Bn2Tiling) -> None:
    """Store this AIV's half of the rows of a head's gradients."""
    half = HeadPart(asc.get_sub_block_idx(), AIV_PER_AIC)
    asc.pipe_barrier(Pipe.ALL)
    asc.cross_core_wait_flag(CrossMode.AIC_AIV, Pipe.MTE2, QUERY_SUMS_ARE_THERE)
    store_query_head(asc, gm, buffer, head, half, t)
    if head.ends_key_head:
        asc.cross_core_wait_flag(CrossMode.AIC_AIV, Pipe.MTE2, KEY_SUMS_ARE_THERE)
        store_key_head(asc, gm, buffer, head, half, t)
    asc.pipe_barrier(Pipe.ALL)
