"""Products of template S1s2Bn2's L1-custom form: an AIC takes whole key heads and keeps their operands in L1.

    AIC    S and dA of block t | dQ, dV, dK of block t - 1
    AIV                        | vector steps of block t - 1, half of the rows each

    L1     right: K, V of a score tile's columns | left: Q, dY of its rows, twice | a block of dS or A, 128 x 128
    S, dA  left rows in L1 first; for m: for n: left block m times right block n, transposed
    dQ     for m: dS[m, n] K[n], all n in L0C, then one store
    dV     for n: A[m, n]^T dY[m], all m in L0C, then one store; dK likewise of dS and Q

K and V are loaded where a column of blocks begins. They have one buffer, which the products of block t - 1 still need:
there these come before S and dA of block t (inferred). Flags between the cores: three ids each for scores and tiles,
one for each block in turn; dQ, and dK with dV, have one id each, for a head that is through. Which flags the public
kernel has inside a product is not published: here blocks of K and V have one each, the first with the rows on the left,
and the block of dS or A has one in either direction.
Source: ops-transformer op_kernel, flash_attention_score_grad S1s2Bn2: flags, order of the products; its host tiling: L1
sizes.
"""

from dataclasses import dataclass

from ascendsim.dtypes import FLOAT
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_host.fag_dealing import Block
from ascendsim.op_host.fag_parts import BUFFERS, score_pitch
from ascendsim.op_host.fag_s1s2_bn2 import S1s2Bn2Tiling
from ascendsim.op_kernel.fag_l1_custom import (
    BLOCK,
    L0_BUFFERS,
    Factor,
    L1Queues,
    Scores,
    Sums,
    let_loads_go_on,
    load_nz,
    load_rows,
    multiply,
    store_results,
)
from ascendsim.op_kernel.fag_l1_custom import (
    blocks_of as pieces_of,
)
from ascendsim.op_kernel.fag_products import operands_of
from ascendsim.op_kernel.fag_s1s2_bn2_heads import Head, finished_heads
from ascendsim.op_kernel.fag_s1s2_bn2_places import (
    blocks_of,
    key_sums,
    query_sums,
    scores_at,
    tiles_at,
)
from ascendsim.op_kernel.fag_tensors import Tensors
from ascendsim.record import AiCore, tile
from ascendsim.terms import CUBE_SIDE, CrossMode, HardEvent, Pipe, TPosition
from ascendsim.tpipe import TBuf

SCORES_ARE_THERE = 1
"""Flag of the AIC: S and dA of a block are in GM. Up to two more for later blocks, as below."""
TILES_ARE_THERE = 4
"""Flag of the AIVs: A and dS of a block are in GM."""
QUERY_SUMS_ARE_THERE = 7
"""Flag of the AIC: the sums of dQ of a head are in GM."""
KEY_SUMS_ARE_THERE = 8
"""Flag of the AIC: the sums of dK and dV of a head are in GM."""
TURNS = 3
"""Ids of a flag that goes with the blocks."""
LEFT_ID = TILE_ID = 0
"""Event id of what is on the left with the first block on the right, and of a block of dS or A."""


def turn_flag(flag: int, block: Block) -> int:
    """Return the id of a flag of a block."""
    return flag + block.turn % TURNS


@dataclass(frozen=True, slots=True)
class _Operand:
    """Rows of an operand in L1, in blocks of 128: the region, where they begin in it, and their columns [elements]."""

    region: TBuf
    at: int
    columns: int

    def block(self, number: int, gm: GlobalTensor) -> LocalTensor:
        """Return a block, of the type of the operand in GM."""
        return self.region.get(gm.dtype)[self.at + number * BLOCK * self.columns]


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the operands of a block are in L1."""

    query: _Operand
    dy: _Operand
    key: _Operand
    value: _Operand


def custom_products(asc: AiCore, gm: Tensors, t: S1s2Bn2Tiling) -> None:
    """Make the products of an AIC's heads.

    Args:
        asc: the AIC.
        gm: the tensors.
        t: the tiling.
    """
    blocks = blocks_of(asc.get_block_idx(), t)
    heads = {head.turn: head for head in finished_heads(blocks)}
    queues = _init_queues(asc, t)
    before: Block | None = None
    for block in (*blocks, None):
        keeps = block is not None and before is not None and _columns_of(block) == _columns_of(before)
        if before and not keeps:
            _gradient_products(asc, gm, queues, before, heads.get(before.turn), t)
        if block:
            _score_products(asc, gm, queues, block, not keeps, t)
            asc.cross_core_set_flag(CrossMode.AIC_AIV, Pipe.FIX, turn_flag(SCORES_ARE_THERE, block))
        if before and keeps:
            _gradient_products(asc, gm, queues, before, heads.get(before.turn), t)
        before = block


def _columns_of(block: Block) -> tuple[int, int, int]:
    """Return what tells which K and V a block needs."""
    return block.b, block.n2, block.s2


def _init_queues(asc: AiCore, t: S1s2Bn2Tiling) -> L1Queues:
    pipe, size = asc.t_pipe(), t.call.element_bytes
    row, tiles = t.call.shape.d_aligned * size, t.tiling.tiles
    left, right, block = (asc.t_buf(TPosition.A1, name) for name in ("left", "right", "tile"))
    pipe.init_buffer(right, 1, 2 * (tiles.cv_s2 or 0) * row)
    pipe.init_buffer(left, 1, 2 * BUFFERS * (tiles.cv_s1 or 0) * row)
    pipe.init_buffer(block, 1, BLOCK * BLOCK * size)
    a2, b2, co1 = asc.t_que(TPosition.A2, 1, "a2"), asc.t_que(TPosition.B2, 1, "b2"), asc.t_que(TPosition.CO1, 1, "co1")
    pipe.init_buffer(a2, L0_BUFFERS, BLOCK * BLOCK * size)
    pipe.init_buffer(b2, L0_BUFFERS, BLOCK * BLOCK * size)
    pipe.init_buffer(co1, L0_BUFFERS, BLOCK * BLOCK * FLOAT.bytes)
    return L1Queues(left, right, block, a2, b2, co1)


def _places(queues: L1Queues, block: Block, t: S1s2Bn2Tiling) -> _Places:
    width = t.call.shape.d_aligned
    query_elements, key_elements = (t.tiling.tiles.cv_s1 or 0) * width, (t.tiling.tiles.cv_s2 or 0) * width
    first = block.turn % BUFFERS * 2 * query_elements
    return _Places(
        query=_Operand(queues.left, first, width),
        dy=_Operand(queues.left, first + query_elements, width),
        key=_Operand(queues.right, 0, width),
        value=_Operand(queues.right, key_elements, width),
    )


def _score_products(asc: AiCore, gm: Tensors, queues: L1Queues, block: Block, is_new: bool, t: S1s2Bn2Tiling) -> None:
    """Make S = Q K^T, then dA = dY V^T; K and V are loaded where they are new."""
    of, (scores, d_a) = operands_of(gm, block, t), scores_at(gm, asc.get_block_idx(), block, t)
    at, shape, pitches = _places(queues, block, t), (block.rows, block.columns, t.query.columns), _pitches(t)
    with asc.trace("S"):
        _score_product(asc, of.query, of.key, scores, queues, (at.query, at.key), shape, pitches, is_new)
    with asc.trace("dA"):
        _score_product(asc, of.dy, of.value, d_a, queues, (at.dy, at.value), shape, pitches, is_new)


def _pitches(t: S1s2Bn2Tiling) -> tuple[int, int]:
    return t.query.pitch, t.key.pitch


@tile
def _score_product(
    asc: AiCore,
    left: GlobalTensor,
    right: GlobalTensor,
    dst: GlobalTensor,
    queues: L1Queues,
    places: tuple[_Operand, _Operand],
    shape: tuple[int, int, int],
    pitches: tuple[int, int],
    is_new: bool,
) -> None:
    """S or dA of (rows, columns, D); pitches of left and right."""
    (rows, columns, d), (left_at, right_at) = shape, places
    pitch = score_pitch(rows, columns, is_nz=True)
    for m, height in pieces_of(rows):
        load_rows(asc, left_at.block(m, left), left[m * BLOCK * pitches[0]], height, d, pitches[0])
    if not is_new:
        asc.set_flag(HardEvent.MTE2_MTE1, LEFT_ID)
    for m, height in pieces_of(rows):
        for n, width in pieces_of(columns):
            b1 = right_at.block(n, right)
            if m == 0 and is_new:
                load_rows(asc, b1, right[n * BLOCK * pitches[1]], width, d, pitches[1])
                asc.set_flag(HardEvent.MTE2_MTE1, n)
            event_id = n if m == 0 and (is_new or n == LEFT_ID) else None
            c1 = multiply(
                asc, None, left_at.block(m, left), b1, queues, Factor(height, width, d, False, True, event_id)
            )
            queues.co1.enque(c1)
            at = n * BLOCK // CUBE_SIDE * pitch + m * BLOCK * CUBE_SIDE
            store_results(asc, dst[at], queues, height, width, pitch, True, False)
    let_loads_go_on(asc)


def _gradient_products(
    asc: AiCore, gm: Tensors, queues: L1Queues, block: Block, ended: Head | None, t: S1s2Bn2Tiling
) -> None:
    """Make or add dQ += dS K, dV += A^T dY, dK += dS^T Q, once the tiles of the block are there."""
    asc.cross_core_wait_flag(CrossMode.AIC_AIV, Pipe.MTE2, turn_flag(TILES_ARE_THERE, block))
    a, d_s = tiles_at(gm, asc.get_block_idx(), block, t)
    at, shape, is_nz = (
        _places(queues, block, t),
        (block.rows, block.columns, t.query.columns),
        t.tiling.tiles.is_gradient_nz,
    )
    dq = query_sums(gm, block.b, t.call.shape.query_head(block.n2, block.g), block.s1, t)
    dk, dv = (key_sums(gm, area, block.b, block.n2, block.s2, t) for area in (t.areas.dk, t.areas.dv))
    adds = block.g > 0 or block.s1 > 0
    query_pitch, key_pitch = (rows.s * CUBE_SIDE if is_nz else rows.pitch for rows in (t.query_sums, t.key_sums))
    with asc.trace("dQ"):
        _query_gradient(asc, d_s, dq, queues, at.key, shape, query_pitch, is_nz, block.s2 > 0)
    if ended:
        asc.cross_core_set_flag(CrossMode.AIC_AIV, Pipe.FIX, QUERY_SUMS_ARE_THERE)
    with asc.trace("dV"):
        _key_gradient(asc, a, dv, queues, at.dy, shape, key_pitch, is_nz, adds)
    with asc.trace("dK"):
        _key_gradient(asc, d_s, dk, queues, at.query, shape, key_pitch, is_nz, adds)
    if ended and ended.ends_key_head:
        asc.cross_core_set_flag(CrossMode.AIC_AIV, Pipe.FIX, KEY_SUMS_ARE_THERE)


@tile
def _query_gradient(
    asc: AiCore,
    d_s: GlobalTensor,
    dst: GlobalTensor,
    queues: L1Queues,
    key: _Operand,
    shape: tuple[int, int, int],
    pitch: int,
    is_nz: bool,
    adds: bool,
) -> None:
    """Make or add dQ of (rows, columns, D), rows of 128 at a time."""
    rows, columns, d = shape
    scores, sums = Scores(d_s, rows, columns, score_pitch(rows, columns, is_nz=True)), Sums(dst, pitch, is_nz)
    for m, height in pieces_of(rows):
        c1 = None
        for n, width in pieces_of(columns):
            a1 = _load_tile(asc, queues, scores, m, n, m == n == 0)
            factor = Factor(height, d, width, False, False, TILE_ID)
            c1 = multiply(asc, c1, a1, key.block(n, d_s), queues, factor)
            asc.set_flag(HardEvent.MTE1_MTE2, TILE_ID)
        _store_sums(asc, sums, queues, m, height, d, c1, adds)
    asc.wait_flag(HardEvent.MTE1_MTE2, TILE_ID)


@tile
def _key_gradient(
    asc: AiCore,
    narrow: GlobalTensor,
    dst: GlobalTensor,
    queues: L1Queues,
    right: _Operand,
    shape: tuple[int, int, int],
    pitch: int,
    is_nz: bool,
    adds: bool,
) -> None:
    """Make or add dV from A and dY, or dK from dS and Q, of (rows, columns, D), columns of 128 at a time."""
    rows, columns, d = shape
    scores, sums = Scores(narrow, rows, columns, score_pitch(rows, columns, is_nz=True)), Sums(dst, pitch, is_nz)
    for n, width in pieces_of(columns):
        c1 = None
        for m, height in pieces_of(rows):
            a1 = _load_tile(asc, queues, scores, m, n, m == n == 0)
            factor = Factor(width, d, height, True, False, TILE_ID)
            c1 = multiply(asc, c1, a1, right.block(m, narrow), queues, factor)
            asc.set_flag(HardEvent.MTE1_MTE2, TILE_ID)
        _store_sums(asc, sums, queues, n, width, d, c1, adds)
    asc.wait_flag(HardEvent.MTE1_MTE2, TILE_ID)


def _load_tile(asc: AiCore, queues: L1Queues, scores: Scores, m: int, n: int, is_first: bool) -> LocalTensor:
    """Load block (m, n) of A or dS once MTE1 is through with the one before it."""
    local = queues.tiles.get(scores.gm.dtype)
    if not is_first:
        asc.wait_flag(HardEvent.MTE1_MTE2, TILE_ID)
    at = n * BLOCK // CUBE_SIDE * scores.pitch + m * BLOCK * CUBE_SIDE
    rows, columns = min(BLOCK, scores.rows - m * BLOCK), min(BLOCK, scores.columns - n * BLOCK)
    load_nz(asc, local, scores.gm[at], rows, columns, scores.pitch)
    asc.set_flag(HardEvent.MTE2_MTE1, TILE_ID)
    return local


def _store_sums(
    asc: AiCore, sums: Sums, queues: L1Queues, number: int, rows: int, columns: int, c1: LocalTensor | None, adds: bool
) -> None:
    """Store a block of rows of sums."""
    assert c1 is not None
    queues.co1.enque(c1)
    store_results(asc, sums.at(number * BLOCK, 0), queues, rows, columns, sums.pitch, sums.is_nz, adds)
