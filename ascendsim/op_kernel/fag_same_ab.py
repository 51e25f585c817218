"""FlashAttentionScoreGrad, template SameAB: an AIC and its two AIVs share blocks of scores, one block ahead.

    AIV    zeros; [bytes of the dropout mask]; row term; SyncAll
    AIC    S and dA of block t                          | dQ, dK, dV of block t - 1
    AIV            P, A and dS of block t - 1, half of its strips of rows, or in NZ of its columns, each
    AIV    SyncAll; scale, round and store the gradients

Flags between an AIC and its AIVs have two ids each, for even and odd rounds. An AIC waits for the tiles of block t - 1
behind its products of block t, so these run beside the vector work; S, dA and what takes their place have two buffers
in GM. The first sums are added behind such a flag, which an AIV sets behind SyncAll: so every core's zeros are there.
Prescribed, an AIC may be no block ahead or two, with three ids for each flag, and have other numbers of buffers.
The public kernel has a TPipe for each phase; here one buffer of UB serves all, with the same places.
Products go through the matmul operator's own loop, as the library's is not published: a row of blocks keeps its A in
L1, and loads of B pass by. Those of the L1-custom form stand in `fag_l1_custom` and `fag_l1_custom_sizes`.

Order of the sums of several AICs: whoever comes first, in the simulator the cores in turns. The deterministic form has
one of its own, whoever comes first: the first block of a tile is stored by its AIC, and round after round the total of
the others' private tiles, core by core, is added by the AIV that owns the rows (`fag_private_sums`). There an AIC says
after every block that its tiles are in GM, and after round t all AIVs add up round t - 1 between two SyncAlls, so two
rounds without new scores follow the last.
Source: ops-transformer op_kernel, flash_attention_score_grad SameAB.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from ascendsim.dtypes import FLOAT, DType
from ascendsim.memory import GlobalTensor
from ascendsim.op_host.fag_call import PREFIX_MODES
from ascendsim.op_host.fag_dealing import AIV_PER_AIC, Block, Share, shares, vector_step
from ascendsim.op_host.fag_kernel_tiling import Products
from ascendsim.op_host.fag_parts import BUFFERS, Rows, score_pitch, sum_at
from ascendsim.op_host.fag_private_sums import PrivateSums, RoundBlock
from ascendsim.op_host.fag_same_ab import SameAbTiling, block_products
from ascendsim.op_kernel.attention import tell, turns, wait_for, wrong_block_dim
from ascendsim.op_kernel.fag_l1_custom import (
    BLOCK,
    L1Queues,
    Scores,
    Source,
    Sums,
    init_l1_queues,
    query_and_key_gradients,
    score_product,
    value_gradient,
)
from ascendsim.op_kernel.fag_l1_custom_sizes import (
    small_key_gradient,
    small_query_gradient,
    wide_key_gradient,
    wide_query_gradient,
    wide_score_product,
)
from ascendsim.op_kernel.fag_options import (
    SMALL_MASK,
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
from ascendsim.op_kernel.fag_passes import expand_drop_mask, row_terms, store_gradients, zero_sums
from ascendsim.op_kernel.fag_private_sums import add_tiles
from ascendsim.op_kernel.fag_products import multiply, operands_of
from ascendsim.op_kernel.fag_tensors import STATISTICS, Tensors
from ascendsim.op_kernel.fag_tiles import (
    STEP_A,
    STEP_B,
    Options,
    SubTile,
    Turn,
    Ub,
    step_a,
    step_b,
)
from ascendsim.op_kernel.matmul import Queues, init_queues
from ascendsim.record import AiCore, tile
from ascendsim.terms import CUBE_SIDE, HardEvent, Pipe, TPosition, align_up

SCORES_ARE_THERE = 1
"""Flag of the AIC: both score products of a block are in GM. One more for odd rounds, as below."""
TILES_ARE_THERE = 4
"""Flag of the AIVs: A and dS of a block are in GM."""
SUMS_ARE_THERE = 7
"""Flag of the AIC: all its blocks are added up; deterministic, this block is stored."""


def fag_same_ab(asc: AiCore, gm: Tensors, t: SameAbTiling) -> None:
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


def _flag(flag: int, block: Block, t: SameAbTiling) -> int:
    return flag + block.turn % max(BUFFERS, t.look_ahead + 1)


# ---- AIC -------------------------------------------------------------------------------------------------------------


def _cube(asc: AiCore, gm: Tensors, t: SameAbTiling) -> None:
    core = asc.get_block_idx()
    queues = _init_queues(asc, gm, t)
    blocks = tuple(t.dealing.of_core(core))
    for begun, back in turns(len(blocks), t.look_ahead):
        if begun is not None:
            _score_products(asc, gm, queues, blocks[begun], core, t)
            tell(asc, Pipe.FIX, _flag(SCORES_ARE_THERE, blocks[begun], t))
        if back is not None:
            before = blocks[back]
            wait_for(asc, _flag(TILES_ARE_THERE, before, t))
            _gradient_products(asc, gm, queues, before, core, t)
            if before is blocks[-1] or t.private:
                tell(asc, Pipe.FIX, _flag(SUMS_ARE_THERE, before, t))


def _init_queues(asc: AiCore, gm: Tensors, t: SameAbTiling) -> Queues | L1Queues:
    if t.tiling.tiles.is_l1_custom:
        return init_l1_queues(asc, asc.t_pipe(), t.query.columns, gm.query.dtype)
    return init_queues(asc, asc.t_pipe(), t.products.scores)


def _tile_at(area: int, core: int, block: Block, t: SameAbTiling) -> int:
    """Return where a block's S or dA lies in the workspace [floats]."""
    return area + (core * t.score_buffers + block.turn % t.score_buffers) * t.tile_floats


def _score_products(
    asc: AiCore, gm: Tensors, queues: Queues | L1Queues, block: Block, core: int, t: SameAbTiling
) -> None:
    """Make dA = dY V^T, then S = Q K^T, both to the workspace."""
    of = operands_of(gm, block, t)
    d_a = gm.workspace[_tile_at(t.areas.d_a, core, block, t)]
    scores = gm.workspace[_tile_at(t.areas.scores, core, block, t)]
    if isinstance(queues, L1Queues):
        shape = (block.rows, block.columns)
        rows = t.query, t.key, t.value, t.out
        _custom_scores(asc, of.dy, of.value, d_a, of.query, of.key, scores, queues, shape, *rows)
        return
    products = _products(block, t)
    with asc.trace("dA"):
        multiply(asc, of.dy, of.value, d_a, queues, products.d_a, False)
    with asc.trace("S"):
        multiply(asc, of.query, of.key, scores, queues, products.scores, False)


def _gradient_products(
    asc: AiCore, gm: Tensors, queues: Queues | L1Queues, block: Block, core: int, t: SameAbTiling
) -> None:
    """Add dQ += dS K, dK += dS^T Q, dV += A^T dY; deterministic store them, as sums or as private tiles."""
    of, element = operands_of(gm, block, t), gm.query.dtype
    n1, is_nz = t.call.shape.query_head(block.n2, block.g), t.tiling.tiles.is_gradient_nz
    d_s = gm.workspace[_tile_at(t.areas.d_a, core, block, t)].reinterpret_cast(element)
    a = gm.workspace[_tile_at(t.areas.scores, core, block, t)].reinterpret_cast(element)
    dq = gm.workspace[t.areas.dq + sum_at(t.query, block.b, n1, block.s1, is_nz=is_nz)]
    dk = gm.workspace[t.areas.dk + sum_at(t.key, block.b, block.n2, block.s2, is_nz=is_nz)]
    dv = gm.workspace[t.areas.dv + sum_at(t.value, block.b, block.n2, block.s2, is_nz=is_nz)]
    if isinstance(queues, L1Queues):
        shape, rows = (block.rows, block.columns), (t.query, t.key, t.value, t.out)
        _custom_gradients(asc, d_s, a, of.query, of.key, of.dy, dq, dk, dv, queues, shape, *rows, is_nz)
        return
    products, adds = _products(block, t), t.private is None
    one = t.private.block_of(core, block.turn) if t.private else None
    if t.private and one:
        products = _to_private_tiles(products, one, t.private)
        if not one.stores_dq:
            dq = gm.workspace[t.private.dq.tile_at(one)]
        if not one.stores_dk_dv:
            dk, dv = (gm.workspace[tiles.tile_at(one)] for tiles in (t.private.dk, t.private.dv))
    with asc.trace("dQ"):
        multiply(asc, d_s, of.key, dq, queues, products.dq, adds)
    with asc.trace("dK"):
        multiply(asc, d_s, of.query, dk, queues, products.dk, adds)
    with asc.trace("dV"):
        multiply(asc, a, of.dy, dv, queues, products.dv, adds)


def _products(block: Block, t: SameAbTiling) -> Products:
    if t.products.are_of(block):
        return t.products
    return block_products(t.call, t.tiling, block.rows, block.columns, buffers=t.buffers)


def _to_private_tiles(products: Products, one: RoundBlock, private: PrivateSums) -> Products:
    """Return the products with the pitches of private tiles, where they go there."""
    if not one.stores_dq:
        products = replace(products, dq=replace(products.dq, c_pitch=private.dq.pitch(one.block.rows)))
    if one.stores_dk_dv:
        return products
    dk = replace(products.dk, c_pitch=private.dk.pitch(one.block.columns))
    return replace(products, dk=dk, dv=replace(products.dv, c_pitch=private.dv.pitch(one.block.columns)))


@tile
def _custom_scores(
    asc: AiCore,
    dy: GlobalTensor,
    value: GlobalTensor,
    d_a: GlobalTensor,
    query: GlobalTensor,
    key: GlobalTensor,
    scores: GlobalTensor,
    queues: L1Queues,
    shape: tuple[int, int],
    query_rows: Rows,
    key_rows: Rows,
    value_rows: Rows,
    out_rows: Rows,
) -> None:
    """Both score products of (rows, columns) in the L1-custom form."""
    rows, columns = shape
    pitch = score_pitch(rows, columns, is_nz=True)
    make = score_product if query_rows.columns <= BLOCK else wide_score_product
    with asc.trace("dA"):
        operands = Source(dy, rows, out_rows.pitch), Source(value, columns, value_rows.pitch)
        make(asc, queues, *operands, out_rows.columns, Scores(d_a, rows, columns, pitch))
    with asc.trace("S"):
        operands = Source(query, rows, query_rows.pitch), Source(key, columns, key_rows.pitch)
        make(asc, queues, *operands, query_rows.columns, Scores(scores, rows, columns, pitch))


@tile
def _custom_gradients(
    asc: AiCore,
    d_s: GlobalTensor,
    a: GlobalTensor,
    query: GlobalTensor,
    key: GlobalTensor,
    dy: GlobalTensor,
    dq: GlobalTensor,
    dk: GlobalTensor,
    dv: GlobalTensor,
    queues: L1Queues,
    shape: tuple[int, int],
    query_rows: Rows,
    key_rows: Rows,
    value_rows: Rows,
    out_rows: Rows,
    is_nz: bool,
) -> None:
    """Add dQ, dK and dV of (rows, columns) in the L1-custom form."""
    rows, columns = shape
    d, dv_columns = query_rows.columns, value_rows.columns
    queries, keys = Source(query, rows, query_rows.pitch), Source(key, columns, key_rows.pitch)
    grad = Source(dy, rows, out_rows.pitch)
    d_s_tiles, a_tiles = (_narrow_scores(x, rows, columns) for x in (d_s, a))
    query_sums, key_sums, value_sums = (
        _custom_sums(gm, of, is_nz) for gm, of in ((dq, query_rows), (dk, key_rows), (dv, value_rows))
    )
    if d == BLOCK:
        query_and_key_gradients(asc, queues, d_s_tiles, keys, queries, d, query_sums, key_sums)
        with asc.trace("dV"):
            value_gradient(asc, queues, a_tiles, grad, dv_columns, value_sums)
    elif d < BLOCK:
        with asc.trace("dQ"):
            small_query_gradient(asc, queues, d_s_tiles, keys, d, query_sums)
        with asc.trace("dK"):
            small_key_gradient(asc, queues, d_s_tiles, queries, d, key_sums, True)
        with asc.trace("dV"):
            small_key_gradient(asc, queues, a_tiles, grad, dv_columns, value_sums, False)
    else:
        with asc.trace("dQ"):
            wide_query_gradient(asc, queues, d_s_tiles, keys, d, query_sums)
        with asc.trace("dK"):
            wide_key_gradient(asc, queues, d_s_tiles, queries, d, key_sums)
        with asc.trace("dV"):
            wide_key_gradient(asc, queues, a_tiles, grad, dv_columns, value_sums)


def _custom_sums(gm: GlobalTensor, rows: Rows, is_nz: bool) -> Sums:
    return Sums(gm, rows.s * CUBE_SIDE if is_nz else rows.pitch, is_nz)


def _narrow_scores(gm: GlobalTensor, rows: int, columns: int) -> Scores:
    """A or dS, of 16 bits where floats were."""
    pitch = score_pitch(rows, columns, is_nz=True) * FLOAT.bytes // gm.dtype.bytes
    return Scores(gm, rows, columns, pitch)


# ---- AIV -------------------------------------------------------------------------------------------------------------


def _vector(asc: AiCore, gm: Tensors, t: SameAbTiling) -> None:
    buffer = asc.t_buf(TPosition.VECCALC, "ub")
    asc.t_pipe().init_buffer(buffer, 1, t.ub_bytes)
    core = asc.get_block_idx() // AIV_PER_AIC
    zero_sums(asc, gm.workspace, buffer, t)
    if gm.drop_mask and t.areas.kept is not None:
        asc.pipe_barrier(Pipe.ALL)
        expand_drop_mask(asc, all_kept(gm, t.areas.kept), gm.drop_mask, buffer, t.pre, t.call.shape.scores)
    asc.pipe_barrier(Pipe.ALL)
    row_terms(asc, gm.dy, gm.attention_in, gm.workspace, buffer, t)
    asc.sync_all()
    share = _Share(Ub(buffer, t.ub), asc.get_sub_block_idx(), _options(t), {})
    if t.private:
        _vector_rounds(asc, gm, share, core, t, t.private)
    else:
        last = None
        for last in t.dealing.of_core(core):
            _vector_turn(asc, gm, share, last, core, t)
        if last:
            wait_for(asc, _flag(SUMS_ARE_THERE, last, t))
    asc.sync_all()
    store_gradients(asc, (gm.dq, gm.dk, gm.dv), gm.workspace, buffer, t)


def _vector_turn(asc: AiCore, gm: Tensors, share: "_Share", block: Block, core: int, t: SameAbTiling) -> None:
    """Wait for a block's scores, make its tiles, and say so."""
    wait_for(asc, _flag(SCORES_ARE_THERE, block, t))
    _vector_block(asc, gm, share, block, core, t)
    tell(asc, Pipe.MTE3, _flag(TILES_ARE_THERE, block, t))


def _vector_rounds(asc: AiCore, gm: Tensors, share: "_Share", core: int, t: SameAbTiling, private: PrivateSums) -> None:
    """Deterministic: behind a round's tiles add up the private ones of the round before, all cores together."""
    for turn in range(len(private.rounds) + 1):
        one, before = private.block_of(core, turn), private.block_of(core, turn - 1)
        if one:
            _vector_turn(asc, gm, share, one.block, core, t)
        if turn == 0:
            continue
        if before:
            wait_for(asc, _flag(SUMS_ARE_THERE, before.block, t))
        asc.sync_all()
        add_tiles(asc, gm.workspace, share.ub.buffer, private.rounds[turn - 1], t)
        asc.sync_all()


@dataclass(frozen=True, slots=True)
class _Placed:
    """A sub-tile, and where things of it begin.

    Attributes:
        row, column: in the block.
        sub: the sub-tile.
        masks: its attention masks.
        bias: its position bias, behind that of the block.
    """

    row: int
    column: int
    sub: SubTile
    masks: MasksAt
    bias: int


@dataclass(frozen=True, slots=True)
class _Placing:
    """The sub-tiles of a share."""

    placed: tuple[_Placed, ...]


Alike = tuple[int, ...]
"""What the sub-tiles of a share depend on."""


@dataclass(frozen=True, slots=True)
class _Share:
    """What an AIV does of every block.

    Attributes:
        ub: places in UB.
        number: which of its AIC's AIVs it is.
        options: what the call asks.
        known: sub-tiles of the blocks so far; those of blocks that lie alike are the same.
    """

    ub: Ub
    number: int
    options: Options
    known: dict[Alike, _Placing]

    def placing(self, block: Block, t: SameAbTiling) -> _Placing:
        """Return the sub-tiles of a block's share. How far the band's edges are matters where they may cut it."""
        apart, reach = block.s1 - block.s2, block.rows + block.columns
        edges = (max(-reach, min(apart + edge, reach)) for edge in (t.next_tokens, -t.pre_tokens))
        has_prefix = t.call.params.sparse_mode in PREFIX_MODES
        own = (block.b, block.s1, block.s2) if has_prefix or t.bias else ()
        alike = (block.rows, block.columns, *edges, *own)
        if alike not in self.known:
            step = vector_step(t.call, t.tiling, block.columns)
            part = shares(block.rows, block.columns, t.dealing.cut, *step)[self.number]
            self.known[alike] = _Placing(tuple(_sub_tiles(part, block, t)))
        return self.known[alike]


def _options(t: SameAbTiling) -> Options:
    return Options(t.scale, SMALL_MASK if t.is_compressed else t.key.s, bias_form(t), dropout(t))


def _vector_block(asc: AiCore, gm: Tensors, share: _Share, block: Block, core: int, t: SameAbTiling) -> None:
    """A and dS of this core's share of a block."""
    placing = share.placing(block, t)
    if not placing.placed:
        return
    n1 = t.call.shape.query_head(block.n2, block.g)
    row = ((block.b * t.query.n + n1) * t.query.s + block.s1) * STATISTICS
    _vector_share(
        asc,
        gm.softmax_sum[row],
        gm.softmax_max[row],
        gm.workspace[t.areas.row_term + row],
        gm.workspace[_tile_at(t.areas.scores, core, block, t)],
        gm.workspace[_tile_at(t.areas.d_a, core, block, t)],
        mask_of_block(gm, block, n1, t)[0],
        bias_of_block(gm, block, n1, t),
        kept_of_block(gm, block, n1, t),
        share.ub,
        placing,
        gm.query.dtype,
        share.options,
    )


@tile
def _vector_share(
    asc: AiCore,
    sums: GlobalTensor,
    maxima: GlobalTensor,
    row_terms_of: GlobalTensor,
    scores: GlobalTensor,
    grad: GlobalTensor,
    mask: GlobalTensor | None,
    pse: GlobalTensor | None,
    kept: GlobalTensor | None,
    ub: Ub,
    placing: _Placing,
    element: DType,
    options: Options,
) -> None:
    """Steps A and B of one sub-tile after the other."""
    placed = placing.placed
    for event_id in (STEP_A, STEP_B):
        asc.set_flag(HardEvent.MTE3_MTE2, event_id)
        asc.wait_flag(HardEvent.MTE3_MTE2, event_id)
    for i, one in enumerate(placed):
        turn = Turn(i == 0, i + 1 == len(placed), i == 0 or placed[i - 1].row != one.row)
        row, sub, drop = one.row * STATISTICS, one.sub, options.drop
        at, narrow_at = (_score_at(one, words) for words in (1, FLOAT.bytes // element.bytes))
        a, d_s = (x.reinterpret_cast(element)[narrow_at] for x in (scores, grad))
        masks = masks_of(mask, one.masks)
        own_pse = part_of(pse, one.bias)
        own_kept = part_of(kept, drop.bytes_of(one.row * drop.pitch + one.column) if drop else None)
        step_a(asc, sums[row], maxima[row], scores[at], a, masks, own_pse, own_kept, ub, sub, turn, options)
        step_b(asc, row_terms_of[row], grad[at], d_s, own_kept, ub, sub, turn, drop)


def _score_at(one: _Placed, words: int) -> int:
    """Return where a sub-tile begins in its block's scores, in elements of which a float has so many."""
    if one.sub.is_nz:
        return one.column // CUBE_SIDE * one.sub.pitch * words + one.row * CUBE_SIDE
    return one.row * one.sub.pitch * words + one.column


def _sub_tiles(own: Share, block: Block, t: SameAbTiling) -> Iterator[_Placed]:
    """Yield the sub-tiles of a share: strip by strip, in NZ one column of them after the other."""
    is_nz = t.tiling.tiles.is_score_nz
    pitch = score_pitch(block.rows, block.columns, is_nz=is_nz)
    down, across = range(0, own.rows, own.step_rows), range(0, own.columns, own.step_columns)
    for at, beside in ((i, j) for j in across for i in down) if is_nz else product(down, across):
        rows, columns = min(own.step_rows, own.rows - at), min(own.step_columns, own.columns - beside)
        sub = SubTile(rows, columns, align_up(columns, CUBE_SIDE), pitch, is_nz)
        row, column = own.s1 + at, own.s2 + beside
        yield _Placed(row, column, sub, masks_at(row, column, sub, block, t), bias_at(row, column, sub, block, t))
