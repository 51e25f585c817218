"""Products of SameAB's L1-custom form for other D than 128: 64, and those above up to 256.

    D = 64     L1     right: K or V, then Q or dY 64 KiB | left, tiles: Q or dY, then up to 14 blocks of dS or A 448 KiB
               dA, S  as for D = 128
               dQ     for m: for n: dS[m, n] K[n], all n of them in L0C, then one addition; dS stays in L1
               dK     for n: for m: dS[m, n]^T Q[m]; of 16 blocks the last two take the places of the first two
               dV     as dK from A and dY, whose blocks all come from GM
    D to 256   L1     right 256 KiB | left, tiles 256 KiB
               dA, S  for each 256 rows: for n: for m: both halves of D in L0C, then one store
               dQ     for each 256 rows: for m: for each 128 columns of D: all n of them in L0C, then one addition
               dK     for each 256 columns: for n: for each 128 columns of D: all m of them in L0C, then one addition
               dV     as dK from A and dY

In the public kernel the matmul library multiplies what the kernel has put into L1, one flag behind each step's loads.
Here a flag of eight stands for the loads of two steps: a pipe may not set one again before it was waited for.
Source: ops-transformer op_kernel, flash_attention_score_grad SameAB: L1 regions, slices, order of the products.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_kernel.fag_l1_custom import (
    BLOCK,
    BLOCKS,
    SLICE,
    Factor,
    L1Queues,
    Scores,
    Source,
    Sums,
    block_in,
    blocks_of,
    let_loads_go_on,
    load_nz,
    load_rows,
    multiply,
    store_results,
)
from ascendsim.record import AiCore
from ascendsim.terms import CUBE_SIDE, HardEvent, align_up, ceil_div

RESIDENT = 14
"""Blocks of tiles that D = 64 keeps."""
PAIR = 2
"""Steps whose loads share a flag."""


@dataclass(frozen=True, slots=True)
class _Load:
    """A block for L1: rows that become fractals, or a tile in NZ."""

    dst: LocalTensor
    src: GlobalTensor
    rows: int
    columns: int
    pitch: int
    is_nz: bool


@dataclass(frozen=True, slots=True)
class _Store:
    """Where results go: rows at a pitch, or in NZ from one 16 columns to the next."""

    dst: GlobalTensor
    rows: int
    columns: int
    pitch: int
    is_nz: bool
    adds: bool


@dataclass(frozen=True, slots=True)
class _Step:
    """A product of two blocks.

    Attributes:
        loads: what it needs that is not in L1 yet.
        a1, b1: the blocks.
        factor: how they are multiplied.
        starts: results begin anew.
        store: what becomes of them, None while more is added.
    """

    loads: tuple[_Load, ...]
    a1: LocalTensor
    b1: LocalTensor
    factor: Factor
    starts: bool
    store: _Store | None


def _run(asc: AiCore, queues: L1Queues, steps: Sequence[_Step], c1: LocalTensor | None = None) -> LocalTensor | None:
    """Load and multiply, two steps at a time; c1 and what is returned hold unfinished results."""
    event_id = 0
    for at in range(0, len(steps), PAIR):
        pair = steps[at : at + PAIR]
        loads = [load for step in pair for load in step.loads]
        for load in loads:
            take = load_nz if load.is_nz else load_rows
            take(asc, load.dst, load.src, load.rows, load.columns, load.pitch)
        awaited = None
        if loads:
            awaited, event_id = event_id, event_id + 1
            asc.set_flag(HardEvent.MTE2_MTE1, awaited)
        for step in pair:
            factor, awaited = replace(step.factor, event_id=awaited), None
            c1 = multiply(asc, None if step.starts else c1, step.a1, step.b1, queues, factor)
            if step.store:
                queues.co1.enque(c1)
                to = step.store
                store_results(asc, to.dst, queues, to.rows, to.columns, to.pitch, to.is_nz, to.adds)
    return c1


def _run_all(asc: AiCore, queues: L1Queues, steps: Sequence[_Step], until: int) -> None:
    """Run steps; loads of those from `until` on wait for all that is read before."""
    c1 = _run(asc, queues, steps[:until])
    let_loads_go_on(asc)
    if len(steps) > until:
        _run(asc, queues, steps[until:], c1)
        let_loads_go_on(asc)


def _row_load(dst: LocalTensor, src: Source, number: int, rows: int, column: int, columns: int) -> _Load:
    """Load columns of the `number`-th 128 rows."""
    return _Load(dst, src.gm[number * BLOCK * src.pitch + column], rows, columns, src.pitch, is_nz=False)


def _tile_load(dst: LocalTensor, tiles: Scores, m: int, n: int) -> _Load:
    at = n * BLOCK // CUBE_SIDE * tiles.pitch + m * BLOCK * CUBE_SIDE
    rows, columns = min(BLOCK, tiles.rows - m * BLOCK), min(BLOCK, tiles.columns - n * BLOCK)
    return _Load(dst, tiles.gm[at], rows, columns, tiles.pitch, is_nz=True)


def _add(sums: Sums, row: int, rows: int, column: int, columns: int) -> _Store:
    return _Store(sums.at(row, column), rows, columns, sums.pitch, sums.is_nz, adds=True)


# ---- D = 64 ----------------------------------------------------------------------------------------------------------


def small_query_gradient(asc: AiCore, queues: L1Queues, d_s: Scores, key: Source, columns: int, dq: Sums) -> None:
    """Add dQ += dS K for D of at most 64; most blocks of dS stay in L1."""
    _run_all(asc, queues, list(_small_query_steps(queues, d_s, key, columns, dq)), RESIDENT)


def _small_query_steps(queues: L1Queues, d_s: Scores, key: Source, columns: int, dq: Sums) -> Iterator[_Step]:
    element, widths = key.gm.dtype, list(blocks_of(d_s.columns))
    for m, rows in blocks_of(d_s.rows):
        for n, length in widths:
            a1 = block_in(queues.tiles, (m * len(widths) + n) % RESIDENT, element, BLOCK)
            b1 = block_in(queues.right, n, element, columns)
            loads = [_tile_load(a1, d_s, m, n)]
            if m == 0:
                loads.insert(0, _row_load(b1, key, n, length, 0, columns))
            store = _add(dq, m * BLOCK, rows, 0, columns) if n + 1 == len(widths) else None
            yield _Step(
                tuple(loads), a1, b1, Factor(rows, columns, length, False, False, None), starts=n == 0, store=store
            )


def small_key_gradient(
    asc: AiCore, queues: L1Queues, tiles: Scores, query: Source, columns: int, dk: Sums, is_resident: bool
) -> None:
    """Add dK += dS^T Q, or dV += A^T dY, for D of at most 64.

    Args:
        asc: the core.
        queues: regions and queues.
        tiles: dS or A.
        query: Q or dY.
        columns: of it.
        dk: the sums.
        is_resident: tiles are in L1, but for the first two of sixteen, which the last two have overwritten.
    """
    heights, widths = ceil_div(tiles.rows, BLOCK), ceil_div(tiles.columns, BLOCK)
    steps = list(_small_key_steps(queues, tiles, query, columns, dk, is_resident))
    last = RESIDENT - 1  # its step reads the last block that has a place of its own
    until = last % widths * heights + last // widths + 1 if heights * widths > RESIDENT else len(steps)
    _run_all(asc, queues, steps, until)


def _small_key_steps(
    queues: L1Queues, tiles: Scores, query: Source, columns: int, dk: Sums, is_resident: bool
) -> Iterator[_Step]:
    element = query.gm.dtype
    heights, widths = list(blocks_of(tiles.rows)), list(blocks_of(tiles.columns))
    for n, length in widths:
        for m, rows in heights:
            number = m * len(widths) + n
            a1 = block_in(queues.tiles, number % RESIDENT, element, BLOCK)
            b1 = block_in(queues.right, m, element, columns)
            loads = [_row_load(b1, query, m, rows, 0, columns)] if n == 0 else []
            if not is_resident or not PAIR <= number < RESIDENT:
                loads.append(_tile_load(a1, tiles, m, n))
            store = _add(dk, n * BLOCK, length, 0, columns) if m + 1 == len(heights) else None
            yield _Step(
                tuple(loads), a1, b1, Factor(length, columns, rows, True, False, None), starts=m == 0, store=store
            )


# ---- D above 128 -----------------------------------------------------------------------------------------------------


def wide_score_product(
    asc: AiCore, queues: L1Queues, left: Source, right: Source, columns: int, scores: Scores
) -> None:
    """Make left right^T, the scores or dA; more than 128 columns in two halves."""
    _run_all(asc, queues, list(_wide_score_steps(queues, left, right, columns, scores)), BLOCKS * BLOCKS * PAIR)


def _wide_score_steps(queues: L1Queues, left: Source, right: Source, columns: int, scores: Scores) -> Iterator[_Step]:
    element, width = left.gm.dtype, align_up(columns, CUBE_SIDE)
    half = align_up(ceil_div(columns, 2), CUBE_SIDE) if columns > BLOCK else columns
    heights = list(blocks_of(left.rows))
    for first in range(0, len(heights), SLICE):
        for n, length in blocks_of(right.rows):
            b1 = block_in(queues.right, n, element, width)
            for m, rows in heights[first : first + SLICE]:
                a1 = block_in(queues.left, m, element, width)
                loads = [_row_load(a1, left, m, rows, 0, columns)] if n == 0 else []
                if m == 0:
                    loads.append(_row_load(b1, right, n, length, 0, columns))
                at = n * BLOCK // CUBE_SIDE * scores.pitch + m * BLOCK * CUBE_SIDE
                store = _Store(scores.gm[at], rows, length, scores.pitch, is_nz=True, adds=False)
                for column in range(0, columns, half):
                    depth, is_last = min(half, columns - column), column + half >= columns
                    yield _Step(
                        () if column else tuple(loads),
                        a1[column * align_up(rows, CUBE_SIDE)],
                        b1[column * align_up(length, CUBE_SIDE)],
                        Factor(rows, length, depth, False, True, None),
                        starts=column == 0,
                        store=store if is_last else None,
                    )


def wide_query_gradient(asc: AiCore, queues: L1Queues, d_s: Scores, key: Source, columns: int, dq: Sums) -> None:
    """Add dQ += dS K, 256 rows of dS and 128 columns of D at a time; K stays in L1."""
    heights = list(blocks_of(d_s.rows))
    for first in range(0, len(heights), SLICE):
        _run(asc, queues, list(_wide_query_steps(queues, d_s, key, columns, dq, heights[first : first + SLICE])))
        let_loads_go_on(asc)


def _wide_query_steps(
    queues: L1Queues, d_s: Scores, key: Source, columns: int, dq: Sums, heights: list[tuple[int, int]]
) -> Iterator[_Step]:
    element, widths = key.gm.dtype, list(blocks_of(d_s.columns))
    for m, rows in heights:
        for part, depth in blocks_of(columns):
            for n, length in widths:
                a1 = block_in(queues.tiles, m % SLICE * BLOCKS + n, element, BLOCK)
                b1 = block_in(queues.right, part * BLOCKS + n, element, BLOCK)
                loads = [_row_load(b1, key, n, length, part * BLOCK, depth)] if m == 0 else []
                if part == 0:
                    loads.append(_tile_load(a1, d_s, m, n))
                store = _add(dq, m * BLOCK, rows, part * BLOCK, depth) if n + 1 == len(widths) else None
                yield _Step(
                    tuple(loads), a1, b1, Factor(rows, depth, length, False, False, None), starts=n == 0, store=store
                )


def wide_key_gradient(asc: AiCore, queues: L1Queues, tiles: Scores, query: Source, columns: int, dk: Sums) -> None:
    """Add dK += dS^T Q, or dV += A^T dY, 256 columns of dS and 128 of D at a time; Q or dY stays in L1."""
    widths = list(blocks_of(tiles.columns))
    for first in range(0, len(widths), SLICE):
        _run(asc, queues, list(_wide_key_steps(queues, tiles, query, columns, dk, widths[first : first + SLICE])))
        let_loads_go_on(asc)


def _wide_key_steps(
    queues: L1Queues, tiles: Scores, query: Source, columns: int, dk: Sums, widths: list[tuple[int, int]]
) -> Iterator[_Step]:
    element, heights = query.gm.dtype, list(blocks_of(tiles.rows))
    for n, length in widths:
        for part, depth in blocks_of(columns):
            for m, rows in heights:
                a1 = block_in(queues.tiles, n % SLICE * BLOCKS + m, element, BLOCK)
                b1 = block_in(queues.right, part * BLOCKS + m, element, BLOCK)
                loads = [_row_load(b1, query, m, rows, part * BLOCK, depth)] if n == 0 else []
                if part == 0:
                    loads.append(_tile_load(a1, tiles, m, n))
                store = _add(dk, n * BLOCK, length, part * BLOCK, depth) if m + 1 == len(heights) else None
                yield _Step(
                    tuple(loads), a1, b1, Factor(length, depth, rows, True, False, None), starts=m == 0, store=store
                )
