"""FlashAttentionScoreGrad, template S1s2Bn2: each AIV takes whole key heads, one after the other.

    AIV    row term of block t; P, A and dS of block t; gradients of the head that block t - 2 ended
    AIC    for each of its AIVs: S and dA of block t | dV, dQ, dK of block t - 1

An AIV goes through a key head's query heads, and in each through score blocks, along S1 first. Who orders products, and
the flags between the cores, stand in `fag_served`. S and dA have one buffer in GM, A and dS two. Sums need no zeros:
the first product of a head replaces (dQ at the first block of a row of blocks, dK and dV at the first of a column of
the first query head), the others add. Only where blocks are skipped are sums zeros to begin with; each AIV stores those
of its own heads, so that nobody else has to wait (inferred). With float inputs dV is summed up in its own tensor.

Vector work of a block goes in strips of at most 256 rows: their row term, then sub-tiles in two halves of UB, ping and
pong. Steps of a pair: left of ping, left of pong, right of ping, right of pong.

    left     S -> [rows] -> scale -> P = exp(S - max) / sum -> 16 bits -> [NZ] -> A
    right    dA -> [rows] -> dA - D -> dS = P (dA - D) -> 16 bits -> [NZ] -> dS

dA comes to the place of what the left step of its half has used up, so it waits for the store of A.

Inferred: pairs are sub-tiles that follow one another, strip by strip of their own height; the row term of a block's
first strip is made before its scores are waited for; a finished head is scaled and cast two blocks later, when the
scores' flag says that its sums are there (the public kernel waits for its products dQ, then dK and dV), so two finished
heads are kept; the last ones at the end. NZ sums are cast 255 rows at a time at most, the repeats of a Copy.
All additions to a head come from one AIC, in the order of its blocks. So the deterministic form, which is the same
kernel here, has no other order; what it changes is which calls take the template.
Source: ops-transformer op_kernel, flash_attention_score_grad S1s2Bn2.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ascendsim.dtypes import FLOAT
from ascendsim.isa.forms import BinaryRepeatParams
from ascendsim.isa.move import DataCopyExtParams, DataCopyPadExtParams, DataCopyParams
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_host.fag_dealing import Block
from ascendsim.op_host.fag_parts import BUFFERS, Rows, nz_sum_at, score_pitch
from ascendsim.op_host.fag_s1s2_bn2 import RowTermUb, S1s2Bn2Tiling, block_products
from ascendsim.op_host.fag_same_ab import Products
from ascendsim.op_host.matmul import MatmulTiling, blocks_of_core
from ascendsim.op_host.softmax import soft_max_grad_tiling_func
from ascendsim.op_host.softmax_family import soft_max_tiling_func
from ascendsim.op_kernel.fag_served import AIVS, end_turn, serve, start_turn, wait_for_scores, wait_for_sums
from ascendsim.op_kernel.fag_tensors import Tensors
from ascendsim.op_kernel.fag_tiles import (
    LANES,
    NZ_BLOCKS,
    ROW_GROUP,
    SubTile,
    Ub,
    load_scores,
    nz_to_rows,
    pass_on,
    to_columns,
    to_rows,
)
from ascendsim.op_kernel.matmul import Operands, Queues, init_queues, iterate_all
from ascendsim.op_kernel.simple_softmax import simple_softmax
from ascendsim.op_kernel.softmax_grad import softmax_grad_front
from ascendsim.record import AiCore, tile
from ascendsim.terms import CUBE_SIDE, MAX_REPEAT_TIMES, HardEvent, Pipe, RoundMode, TPosition, align_up
from ascendsim.tpipe import TBuf

STATISTICS = FLOAT.per_datablock
"""How often GM holds a row's statistic: one datablock."""
ID = 0
"""Event id of flags outside the sub-tiles, whose ids are those of their half."""
ZEROS = 8192
"""Floats of a buffer of zeros: as many as a vector tile has (inferred)."""
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
        raise asc.fail(
            f"block_dim {asc.get_block_num()}: the tiling deals its heads to {t.block_dim} AI Cores; leave block_dim "
            "out, and give a [platform] with fewer cores for a smaller part"
        )
    if asc.is_aic:
        _cube(asc, gm, t)
    else:
        _vector(asc, gm, t)


def _blocks(core: int, t: S1s2Bn2Tiling) -> tuple[Block, ...]:
    """Return the blocks of an AIV, none of one that takes no part."""
    return tuple(t.dealing.of_core(core)) if core < t.dealing.cores else ()


def _n1(block: Block, t: S1s2Bn2Tiling) -> int:
    return block.n2 * t.call.shape.g + block.g


# ---- places in the workspace -----------------------------------------------------------------------------------------


def _floats(gm: Tensors, at_bytes: int) -> GlobalTensor:
    return gm.workspace[at_bytes // FLOAT.bytes]


def _scores_at(gm: Tensors, core: int, t: S1s2Bn2Tiling) -> tuple[GlobalTensor, GlobalTensor]:
    """Return S and dA of an AIV's block."""
    step = core * t.areas.score_step
    return _floats(gm, t.areas.scores + step), _floats(gm, t.areas.d_a + step)


def _tiles_at(gm: Tensors, core: int, block: Block, t: S1s2Bn2Tiling) -> tuple[GlobalTensor, GlobalTensor]:
    """Return A and dS of an AIV's block."""
    step = (core * BUFFERS + block.turn % BUFFERS) * t.areas.tile_step
    a, d_s = (_floats(gm, at + step).reinterpret_cast(gm.query.dtype) for at in (t.areas.a, t.areas.d_s))
    return a, d_s


def _sum_at(rows: Rows, b: int, n: int, s: int, t: S1s2Bn2Tiling) -> int:
    """Return where the sums of a row begin [floats]; in NZ heads follow one another whatever the layout."""
    return nz_sum_at(rows, b, n, s) if t.tiling.tiles.is_gradient_nz else rows.at(b, n, s)


def _query_sums(gm: Tensors, b: int, n1: int, s1: int, t: S1s2Bn2Tiling) -> GlobalTensor:
    return _floats(gm, t.areas.dq)[_sum_at(t.query_sums, b, n1, s1, t)]


def _key_sums(gm: Tensors, at_bytes: int, b: int, n2: int, s2: int, t: S1s2Bn2Tiling) -> GlobalTensor:
    return _floats(gm, at_bytes)[_sum_at(t.key_sums, b, n2, s2, t)]


# ---- AIC -------------------------------------------------------------------------------------------------------------


def _cube(asc: AiCore, gm: Tensors, t: S1s2Bn2Tiling) -> None:
    queues = init_queues(asc, asc.t_pipe(), t.products.scores)
    first = asc.get_block_idx() * AIVS
    blocks = tuple(_blocks(first + aiv, t) for aiv in range(AIVS))

    def scores(aiv: int, turn: int) -> None:
        if turn < len(blocks[aiv]):
            _score_products(asc, gm, queues, blocks[aiv][turn], first + aiv, t)

    def gradients(aiv: int, turn: int) -> None:
        if turn < len(blocks[aiv]):
            _gradient_products(asc, gm, queues, blocks[aiv][turn], first + aiv, t)

    serve(asc, max(map(len, blocks)), scores, gradients)


def _score_products(asc: AiCore, gm: Tensors, queues: Queues, block: Block, core: int, t: S1s2Bn2Tiling) -> None:
    """Make S = Q K^T, then dA = dY V^T, both to the workspace."""
    row, column = t.query.at(block.b, _n1(block, t), block.s1), t.key.at(block.b, block.n2, block.s2)
    scores, d_a = _scores_at(gm, core, t)
    products = _products(block, t)
    with asc.trace("S"):
        _multiply(asc, gm.query[row], gm.key[column], scores, queues, products.scores, False)
    with asc.trace("dA"):
        _multiply(asc, gm.dy[row], gm.value[column], d_a, queues, products.d_a, False)


def _gradient_products(asc: AiCore, gm: Tensors, queues: Queues, block: Block, core: int, t: S1s2Bn2Tiling) -> None:
    """Make or add dV += A^T dY, dQ += dS K, dK += dS^T Q."""
    n1 = _n1(block, t)
    row, column = t.query.at(block.b, n1, block.s1), t.key.at(block.b, block.n2, block.s2)
    a, d_s = _tiles_at(gm, core, block, t)
    dq = _query_sums(gm, block.b, n1, block.s1, t)
    dk = _key_sums(gm, t.areas.dk, block.b, block.n2, block.s2, t)
    dv = gm.dv[column] if t.call.is_fp32 else _key_sums(gm, t.areas.dv, block.b, block.n2, block.s2, t)
    query_adds = t.is_sparse or block.s2 > 0
    key_adds = t.is_sparse or block.g > 0 or block.s1 > 0
    products = _products(block, t)
    with asc.trace("dV"):
        _multiply(asc, a, gm.dy[row], dv, queues, products.dv, key_adds)
    with asc.trace("dQ"):
        _multiply(asc, d_s, gm.key[column], dq, queues, products.dq, query_adds)
    with asc.trace("dK"):
        _multiply(asc, d_s, gm.query[row], dk, queues, products.dk, key_adds)


def _products(block: Block, t: S1s2Bn2Tiling) -> Products:
    is_whole = (block.rows, block.columns) == (t.products.scores.m, t.products.scores.n)
    return t.products if is_whole else block_products(t.call, t.tiling, block.rows, block.columns)


@tile
def _multiply(
    asc: AiCore,
    a: GlobalTensor,
    b: GlobalTensor,
    c: GlobalTensor,
    queues: Queues,
    product: MatmulTiling,
    adds: bool,
) -> None:
    """A whole product by the matmul operator's loop."""
    iterate_all(asc, Operands(a, b, None, c), queues, blocks_of_core(product, 1, 0), product, adds=adds)


# ---- AIV -------------------------------------------------------------------------------------------------------------


def _vector(asc: AiCore, gm: Tensors, t: S1s2Bn2Tiling) -> None:
    buffer = asc.t_buf(TPosition.VECCALC, "ub")
    asc.t_pipe().init_buffer(buffer, 1, t.ub_bytes)
    core = asc.get_block_idx()
    blocks = _blocks(core, t)
    rounds = max(len(blocks), len(_blocks(core ^ 1, t)))
    finished = _finished(blocks)
    if t.is_sparse:
        _zero_heads(asc, gm, buffer, blocks, t)
    for turn in range(rounds):
        start_turn(asc, turn)
        if turn < len(blocks):
            _vector_block(asc, gm, buffer, blocks[turn], core, t)
        else:
            wait_for_scores(asc)
        end_turn(asc)
        while finished and finished[0].turn + KEPT <= turn:
            _store_head(asc, gm, buffer, finished.pop(0), t)
    wait_for_sums(asc, rounds)
    for head in finished:
        _store_head(asc, gm, buffer, head, t)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A sub-tile, where its scores begin in those of the block [elements], and its first row in the strip."""

    at: int
    row: int
    sub: SubTile


def _vector_block(asc: AiCore, gm: Tensors, buffer: TBuf, block: Block, core: int, t: S1s2Bn2Tiling) -> None:
    """A and dS of a block."""
    n1 = _n1(block, t)
    scores, d_a = _scores_at(gm, core, t)
    a, d_s = _tiles_at(gm, core, block, t)
    for first in range(0, block.rows, t.row_strip):
        rows = min(t.row_strip, block.rows - first)
        s1 = block.s1 + first
        at = t.query.at(block.b, n1, s1)
        _row_term(
            asc,
            gm.dy[at],
            gm.attention_in[at],
            buffer,
            rows,
            t.query.columns,
            t.query.pitch,
            t.row_step,
            t.row_term,
            t.halves[0].row_term,
        )
        if first == 0:
            wait_for_scores(asc)
        row = ((block.b * t.query.n + n1) * t.query.s + s1) * STATISTICS
        _strip(
            asc,
            gm.softmax_sum[row],
            gm.softmax_max[row],
            scores,
            d_a,
            a,
            d_s,
            (Ub(buffer, t.halves[0]), Ub(buffer, t.halves[1])),
            tuple(_sub_tiles(block, first, rows, t)),
            t.scale,
        )


def _sub_tiles(block: Block, first: int, rows: int, t: S1s2Bn2Tiling) -> Iterator[_Placed]:
    """Yield the sub-tiles of a strip of a block, along S2 first."""
    tiles = t.tiling.tiles
    height, width = tiles.vec_s1 or 1, tiles.vec_s2 or 1
    is_nz = tiles.is_score_nz
    pitch = score_pitch(block.rows, block.columns, is_nz=is_nz)
    unit = CUBE_SIDE if is_nz else FLOAT.per_datablock
    for row in range(0, rows, height):
        for column in range(0, block.columns, width):
            columns = min(width, block.columns - column)
            sub = SubTile(min(height, rows - row), columns, align_up(columns, unit), pitch, is_nz)
            down = first + row
            at = column // CUBE_SIDE * pitch + down * CUBE_SIDE if is_nz else down * pitch + column
            yield _Placed(at, row, sub)


@tile
def _row_term(
    asc: AiCore,
    dy: GlobalTensor,
    out: GlobalTensor,
    buffer: TBuf,
    rows: int,
    columns: int,
    pitch: int,
    step: int,
    at: RowTermUb,
    result_bytes: int,
) -> None:
    """D = rowsum(dY * O) of the rows of a strip, which stays in UB."""
    with asc.trace("row term"):
        asc.pipe_barrier(Pipe.ALL)
        for row in range(0, rows, step):
            count = min(step, rows - row)
            if row:
                pass_on(asc, HardEvent.V_MTE2, ID)
            wide = _load_wide(asc, dy[row * pitch], out[row * pitch], buffer, (count, columns, pitch), at)
            width = align_up(columns, dy.dtype.per_datablock)
            result = buffer.get_with_offset(FLOAT, count * STATISTICS, result_bytes + row * STATISTICS * FLOAT.bytes)
            temp = buffer.get_with_offset("uint8_t", at.temp_bytes, at.temp).with_size(at.temp_bytes)
            tiling = soft_max_grad_tiling_func((count, width), FLOAT.bytes, at.temp_bytes, True)
            is_basic = count % ROW_GROUP == 0 and width % LANES == 0
            softmax_grad_front(asc, result, *wide, temp, tiling, is_basic_block=is_basic)
        asc.pipe_barrier(Pipe.ALL)


def _load_wide(
    asc: AiCore, dy: GlobalTensor, out: GlobalTensor, buffer: TBuf, shape: tuple[int, int, int], at: RowTermUb
) -> tuple[LocalTensor, LocalTensor]:
    """Load (rows, columns, pitch) of dY and O and return them in float."""
    rows, columns, pitch = shape
    element = dy.dtype
    width = align_up(columns, element.per_datablock)
    wide = tuple(buffer.get_with_offset(FLOAT, rows * width, place) for place in (at.wide_dy, at.wide_out))
    narrow = tuple(buffer.get_with_offset(element, rows * width, place) for place in (at.dy, at.out))
    bursts = DataCopyExtParams(rows, columns * element.bytes, (pitch - columns) * element.bytes, 0)
    for src, local in zip((dy, out), wide if element is FLOAT else narrow, strict=True):
        asc.data_copy_pad(local, src, bursts, DataCopyPadExtParams(True, 0, width - columns, 0))
    pass_on(asc, HardEvent.MTE2_V, ID)
    if element is not FLOAT:
        for dst, local in zip(wide, narrow, strict=True):
            asc.cast(dst, local, RoundMode.CAST_NONE, rows * width)
        asc.pipe_barrier(Pipe.V)
    return wide[0], wide[1]


# ---- sub-tiles -------------------------------------------------------------------------------------------------------


@tile
def _strip(
    asc: AiCore,
    sums: GlobalTensor,
    maxima: GlobalTensor,
    scores: GlobalTensor,
    grad: GlobalTensor,
    a: GlobalTensor,
    d_s: GlobalTensor,
    halves: tuple[Ub, Ub],
    placed: tuple[_Placed, ...],
    scale: float,
) -> None:
    """The sub-tiles of a strip in pairs: their left steps, then their right steps."""
    for first in range(0, len(placed), len(halves)):
        pair = placed[first : first + len(halves)]
        for half, one in enumerate(pair):
            row = one.row * STATISTICS
            if first:
                asc.wait_flag(HardEvent.MTE3_MTE2, half)
            _left(asc, sums[row], maxima[row], scores[one.at], a[one.at], halves[half], one.sub, scale, half)
            asc.set_flag(HardEvent.MTE3_MTE2, half)
        for half, one in enumerate(pair):
            asc.wait_flag(HardEvent.MTE3_MTE2, half)
            _right(asc, grad[one.at], d_s[one.at], halves[half], one, half)
            if first + len(halves) + half < len(placed):
                asc.set_flag(HardEvent.MTE3_MTE2, half)


def _left(
    asc: AiCore,
    sums: GlobalTensor,
    maxima: GlobalTensor,
    scores: GlobalTensor,
    result: GlobalTensor,
    ub: Ub,
    sub: SubTile,
    scale: float,
    half: int,
) -> None:
    """Make P of a sub-tile, which stays in UB, and store it as A."""
    at, count = ub.at, sub.rows * STATISTICS
    s = ub.floats(at.scores, sub.count)
    sum_local, max_local = ub.floats(at.statistics, count), ub.floats(at.statistics + at.statistic_bytes, count)
    with asc.trace("load S"):
        asc.data_copy(sum_local, sums, count)
        asc.data_copy(max_local, maxima, count)
        _load_tile(asc, s, scores, sub)
        pass_on(asc, HardEvent.MTE2_V, half)
    with asc.trace("P"):
        if sub.is_nz:
            to_rows(asc, s, ub, sub)
        asc.muls(s, s, scale, sub.count)
        asc.pipe_barrier(Pipe.V)
        temp = ub.bytes(at.temp, at.temp_bytes).with_size(at.temp_bytes)
        tiling = soft_max_tiling_func((sub.rows, sub.width), FLOAT.bytes, at.temp_bytes)
        simple_softmax(asc, s, sum_local, max_local, s, temp, tiling, is_basic_block=sub.is_basic_block)
        asc.pipe_barrier(Pipe.V)
    _store_tile(asc, result, s, ub, sub, half)


def _right(asc: AiCore, grad: GlobalTensor, result: GlobalTensor, ub: Ub, placed: _Placed, half: int) -> None:
    """Make dS of a sub-tile over the P that its left step left in UB, and store it."""
    at, sub = ub.at, placed.sub
    d_a, p = ub.floats(at.grad, sub.count), ub.floats(at.p, sub.count)
    row_bytes = at.row_term + placed.row * STATISTICS * FLOAT.bytes
    row_terms = ub.floats(row_bytes, sub.rows * STATISTICS)
    with asc.trace("load dA"):
        _load_tile(asc, d_a, grad, sub)
        pass_on(asc, HardEvent.MTE2_V, half)
    with asc.trace("dS"):
        if sub.is_nz:
            to_rows(asc, d_a, ub, sub)
        blocks = sub.width // FLOAT.per_datablock
        strides = BinaryRepeatParams(1, 1, 0, blocks, blocks, 1)
        for column in range(0, sub.width, LANES):
            asc.sub(d_a[column], d_a[column], row_terms, min(LANES, sub.width - column), sub.rows, strides)
        asc.pipe_barrier(Pipe.V)
        asc.mul(p, p, d_a, sub.count)
        asc.pipe_barrier(Pipe.V)
    _store_tile(asc, result, p, ub, sub, half)


def _load_tile(asc: AiCore, dst: LocalTensor, src: GlobalTensor, sub: SubTile) -> None:
    """Load a tile of scores; in rows up to its own last column, with zeros to the end of a datablock."""
    if sub.is_nz:
        load_scores(asc, dst, src, sub)
        return
    bursts = DataCopyExtParams(sub.rows, sub.columns * FLOAT.bytes, (sub.pitch - sub.columns) * FLOAT.bytes, 0)
    asc.data_copy_pad(dst, src, bursts, DataCopyPadExtParams(True, 0, sub.width - sub.columns, 0))


def _store_tile(asc: AiCore, dst: GlobalTensor, src: LocalTensor, ub: Ub, sub: SubTile, half: int) -> None:
    """Store a tile in its type: 16 bits rounded, ties away from zero, and put into NZ; floats as they are."""
    if sub.is_nz:
        narrow = ub.narrow(ub.at.narrow, sub.count + sub.panels * CUBE_SIDE, dst.dtype)
        with asc.trace("cast"):
            rows = ub.narrow(ub.at.temp, sub.count, dst.dtype)
            asc.cast(rows, src, RoundMode.CAST_ROUND, sub.count)
            asc.pipe_barrier(Pipe.V)
            _clear_columns(asc, rows, sub)
            to_columns(asc, narrow, rows, sub)
    with asc.trace("store"):
        pass_on(asc, HardEvent.V_MTE3, half)
        if sub.is_nz:
            between = sub.pitch // CUBE_SIDE
            asc.data_copy(dst, narrow, DataCopyParams(sub.panels, sub.rows, 1, between - sub.rows))
        else:
            row, pitch = sub.columns * FLOAT.bytes, sub.pitch * FLOAT.bytes
            asc.data_copy_pad(dst, src, DataCopyExtParams(sub.rows, row, 0, pitch - row))


def _clear_columns(asc: AiCore, rows: LocalTensor, sub: SubTile) -> None:
    """Make zeros of what lies behind the last column of a tile in rows."""
    left = sub.columns % CUBE_SIDE
    if left:
        lanes = (1 << CUBE_SIDE) - (1 << left)
        asc.duplicate(rows[sub.width - CUBE_SIDE], 0, (lanes, 0), sub.rows, 1, sub.panels)
        asc.pipe_barrier(Pipe.V)


# ---- zeros -----------------------------------------------------------------------------------------------------------


def _zero_heads(asc: AiCore, gm: Tensors, buffer: TBuf, blocks: tuple[Block, ...], t: S1s2Bn2Tiling) -> None:
    """Fill the sums of an AIV's own heads with zeros."""
    with asc.trace("zero"):
        _fill_zeros(asc, buffer)
        for b, n2 in dict.fromkeys((block.b, block.n2) for block in blocks):
            for n1 in range(n2 * t.call.shape.g, (n2 + 1) * t.call.shape.g):
                _zero_rows(asc, _query_sums(gm, b, n1, 0, t), buffer, t.query_sums, t)
            _zero_rows(asc, _key_sums(gm, t.areas.dk, b, n2, 0, t), buffer, t.key_sums, t)
            if t.call.is_fp32:
                _zero_rows(asc, gm.dv[t.key.at(b, n2, 0)], buffer, t.key, t)
            else:
                _zero_rows(asc, _key_sums(gm, t.areas.dv, b, n2, 0, t), buffer, t.key_sums, t)
        asc.pipe_barrier(Pipe.ALL)


def _zero_rows(asc: AiCore, dst: GlobalTensor, buffer: TBuf, rows: Rows, t: S1s2Bn2Tiling) -> None:
    """Fill the rows of one head, which begin at dst, with zeros."""
    columns = align_up(rows.columns, CUBE_SIDE) if t.tiling.tiles.is_gradient_nz else rows.columns
    pitch = columns if t.tiling.tiles.is_gradient_nz else rows.pitch
    step = ZEROS // columns
    for s in range(0, rows.s, step):
        _store_zeros(asc, dst[s * pitch], buffer, min(step, rows.s - s), columns, pitch)


@tile
def _fill_zeros(asc: AiCore, buffer: TBuf) -> None:
    asc.duplicate(buffer.get_with_offset(FLOAT, ZEROS, 0), 0.0, ZEROS)
    pass_on(asc, HardEvent.V_MTE3, ID)


@tile
def _store_zeros(asc: AiCore, dst: GlobalTensor, buffer: TBuf, rows: int, columns: int, pitch: int) -> None:
    zeros = buffer.get_with_offset(FLOAT, rows * columns, 0)
    bursts = DataCopyExtParams(rows, columns * FLOAT.bytes, 0, (pitch - columns) * FLOAT.bytes)
    asc.data_copy_pad(dst, zeros, bursts)


# ---- heads -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Head:
    """A head that is through: which block was its last, and whether it was the last query head of its key head."""

    turn: int
    b: int
    n2: int
    g: int
    ends_key_head: bool


def _finished(blocks: tuple[Block, ...]) -> list[_Head]:
    """Return the query heads of blocks in order."""
    heads = []
    for i, block in enumerate(blocks):
        after = blocks[i + 1] if i + 1 < len(blocks) else None
        ends_key_head = after is None or (after.b, after.n2) != (block.b, block.n2)
        if after is None or ends_key_head or after.g != block.g:
            heads.append(_Head(i, block.b, block.n2, block.g, ends_key_head))
    return heads


def _store_head(asc: AiCore, gm: Tensors, buffer: TBuf, head: _Head, t: S1s2Bn2Tiling) -> None:
    """Scale and round the sums of a head: dQ, and behind the last query head dK and dV."""
    n1 = head.n2 * t.call.shape.g + head.g
    with asc.trace("post"):
        asc.pipe_barrier(Pipe.ALL)
        _store_rows(asc, gm.dq, _floats(gm, t.areas.dq), buffer, (head.b, n1), (t.query, t.query_sums), t.scale, t)
        if head.ends_key_head:
            place, rows = (head.b, head.n2), (t.key, t.key_sums)
            _store_rows(asc, gm.dk, _floats(gm, t.areas.dk), buffer, place, rows, t.scale, t)
            if not t.call.is_fp32:
                _store_rows(asc, gm.dv, _floats(gm, t.areas.dv), buffer, place, rows, None, t)
        asc.pipe_barrier(Pipe.ALL)


@dataclass(frozen=True, slots=True)
class _Step:
    """Rows of a head in one step of the cast.

    Attributes:
        rows, columns: of the gradient.
        pitch, sum_pitch: from row to row of the gradient and of its sums; in NZ the latter is not used.
        head_rows: rows of the head.
        is_nz: the sums lie in NZ.
    """

    rows: int
    columns: int
    pitch: int
    sum_pitch: int
    head_rows: int
    is_nz: bool


def _store_rows(
    asc: AiCore,
    dst: GlobalTensor,
    sums: GlobalTensor,
    buffer: TBuf,
    place: tuple[int, int],
    rows: tuple[Rows, Rows],
    factor: float | None,
    t: S1s2Bn2Tiling,
) -> None:
    """Store a gradient of the head at (b, n): rows of the gradient and of its sums."""
    (b, n), (own, of_sums) = place, rows
    is_nz = t.tiling.tiles.is_gradient_nz
    step = t.post.step_elements // of_sums.columns
    step = min(step, MAX_REPEAT_TIMES) if is_nz else step
    for s in range(0, own.s, step):
        shape = _Step(min(step, own.s - s), own.columns, own.pitch, of_sums.pitch, own.s, is_nz)
        _store_step(asc, dst[own.at(b, n, s)], sums[_sum_at(of_sums, b, n, s, t)], buffer, shape, factor)


@tile
def _store_step(
    asc: AiCore, dst: GlobalTensor, sums: GlobalTensor, buffer: TBuf, step: _Step, factor: float | None
) -> None:
    size = dst.dtype.bytes
    width = align_up(step.columns, CUBE_SIDE) if step.is_nz else step.columns
    count = step.rows * width
    rows = _load_sums(asc, sums, buffer, step, width)
    if factor is not None:
        asc.muls(rows, rows, factor, count)
    result = rows
    if dst.dtype is not FLOAT:
        asc.pipe_barrier(Pipe.V)
        result = buffer.get_with_offset(dst.dtype, count, 0 if step.is_nz else count * FLOAT.bytes)
        asc.cast(result, rows, RoundMode.CAST_ROUND, count)
    pass_on(asc, HardEvent.V_MTE3, ID)
    bursts = DataCopyExtParams(step.rows, step.columns * size, 0, (step.pitch - step.columns) * size)
    asc.data_copy_pad(dst, result, bursts)
    pass_on(asc, HardEvent.MTE3_MTE2, ID)


def _load_sums(asc: AiCore, sums: GlobalTensor, buffer: TBuf, step: _Step, width: int) -> LocalTensor:
    """Load sums and return them in rows."""
    count = step.rows * width
    if not step.is_nz:
        rows = buffer.get_with_offset(FLOAT, count, 0)
        between = (step.sum_pitch - step.columns) * FLOAT.bytes
        asc.data_copy_pad(rows, sums, DataCopyExtParams(step.rows, step.columns * FLOAT.bytes, between, 0))
        pass_on(asc, HardEvent.MTE2_V, ID)
        return rows
    panels = width // CUBE_SIDE
    nz_count = count + panels * FLOAT.per_datablock
    nz = buffer.get_with_offset(FLOAT, nz_count, 0)
    rows = buffer.get_with_offset(FLOAT, count, nz_count * FLOAT.bytes)
    gap = (step.head_rows - step.rows) * NZ_BLOCKS
    asc.data_copy(nz, sums, DataCopyParams(panels, step.rows * NZ_BLOCKS, gap, 1))
    pass_on(asc, HardEvent.MTE2_V, ID)
    nz_to_rows(asc, rows, nz, step.rows, width)
    asc.pipe_barrier(Pipe.V)
    return rows
