"""Products of SameAB's L1-custom form: the kernel keeps operands in L1, in blocks of 128 rows. Here those of D = 128.

    L1     left: Q or dY 128 KiB | right: K or V 128 KiB | tiles: dS or A of 256 columns 256 KiB
    dA, S  for m: for n: left block m times right block n, transposed; right blocks are loaded while m is 0
    dQ     for each 256 columns: for m: dS[m, n] K[n], both n of them in L0C, then one addition
    dK     for each 256 columns: for n: dS[m, n]^T Q[m], all m of them in L0C, then one addition
    dV     behind all dQ and dK, as dK from A and dY

Each block that is loaded has a flag of its own to MTE1; a product, or 256 columns of it, ends with one from MTE1 to
MTE2. A block of Q, K or dY is loaded just before the first tile that meets it, whose flag stands for both. Which flags
the public kernel has inside a product is not published.
Source: ops-transformer op_kernel, flash_attention_score_grad SameAB: L1 regions, slices, order of the products.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ascendsim.dtypes import FLOAT, DType
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.load import LoadData2DParams
from ascendsim.isa.mmad import MmadParams
from ascendsim.isa.move import DataCopyParams
from ascendsim.isa.nd2nz import Nd2NzParams
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_kernel.matmul import BARRIER_FRACTALS
from ascendsim.record import AiCore, tile
from ascendsim.terms import CUBE_SIDE, FRACTAL_BYTES, CO2Layout, HardEvent, Pipe, TPosition, align_up, ceil_div
from ascendsim.tpipe import TBuf, TPipe, TQue

BLOCK = 128
"""Rows and columns of a block of an operand, and of one Mmad."""
SLICE = 2
"""Blocks along S2 that dQ and dK take at a time."""
BLOCKS = 4
"""Blocks along a side of a score tile of 512 x 512."""
SMALL_COLUMNS = 64
"""D of the form that keeps all tiles."""
L0_BUFFERS = 2
RIGHT_IDS = BLOCKS
"""First event id of right blocks; left ones have those before."""


@dataclass(frozen=True, slots=True)
class L1Queues:
    """Regions of L1, and queues of L0; but for D = 128 left operands and tiles share a region."""

    left: TBuf
    right: TBuf
    tiles: TBuf
    a2: TQue
    b2: TQue
    co1: TQue


@dataclass(frozen=True, slots=True)
class Source:
    """An operand in GM: where its rows begin, how many, and the pitch [elements]."""

    gm: GlobalTensor
    rows: int
    pitch: int


@dataclass(frozen=True, slots=True)
class Scores:
    """A score tile in GM in NZ: where it begins, its extent, and from one 16 columns to the next [elements]."""

    gm: GlobalTensor
    rows: int
    columns: int
    pitch: int


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums in GM: where the first row begins; from row to row, or in NZ from one 16 columns to the next [floats]."""

    gm: GlobalTensor
    pitch: int
    is_nz: bool

    def at(self, row: int, column: int) -> GlobalTensor:
        """Return the sums from a row and a column on, this in NZ a multiple of 16."""
        if self.is_nz:
            return self.gm[column // CUBE_SIDE * self.pitch + row * CUBE_SIDE]
        return self.gm[row * self.pitch + column]


@dataclass(frozen=True, slots=True)
class Factor:
    """One product of two blocks in L1.

    Attributes:
        m, n, k: lengths.
        a_transposed: A lies as [k, m].
        b_transposed: B lies as [n, k].
        event_id: of the flag of what was loaded last for it, None if that has been waited for.
    """

    m: int
    n: int
    k: int
    a_transposed: bool
    b_transposed: bool
    event_id: int | None


def init_l1_queues(asc: AiCore, pipe: TPipe, columns: int, element: DType) -> L1Queues:
    """Return regions and queues for query and key of so many columns; the regions are all of L1."""
    side = BLOCKS * BLOCK
    if columns == BLOCK:
        left, right, tiles = (asc.t_buf(TPosition.A1, name) for name in ("left", "right", "tiles"))
        pipe.init_buffer(left, 1, side * columns * element.bytes)
        pipe.init_buffer(right, 1, side * columns * element.bytes)
        pipe.init_buffer(tiles, 1, SLICE * BLOCK * side * element.bytes)
    else:
        right, tiles = (asc.t_buf(TPosition.A1, name) for name in ("right", "tiles"))
        left, kept = tiles, SMALL_COLUMNS if columns <= SMALL_COLUMNS else SLICE * BLOCK
        pipe.init_buffer(right, 1, side * kept * element.bytes)
        pipe.init_buffer(tiles, 1, side * (side - kept) * element.bytes)
    queues = L1Queues(
        left,
        right,
        tiles,
        asc.t_que(TPosition.A2, 1, "a2"),
        asc.t_que(TPosition.B2, 1, "b2"),
        asc.t_que(TPosition.CO1, 1, "co1"),
    )
    pipe.init_buffer(queues.a2, L0_BUFFERS, BLOCK * BLOCK * element.bytes)
    pipe.init_buffer(queues.b2, L0_BUFFERS, BLOCK * BLOCK * element.bytes)
    pipe.init_buffer(queues.co1, L0_BUFFERS, BLOCK * BLOCK * FLOAT.bytes)
    return queues


def blocks_of(length: int) -> Iterator[tuple[int, int]]:
    """Yield (number, length) of blocks."""
    for number in range(ceil_div(length, BLOCK)):
        yield number, min(BLOCK, length - number * BLOCK)


def block_in(region: TBuf, number: int, element: DType, columns: int) -> LocalTensor:
    """Return a block of a region."""
    return region.get(element)[number * BLOCK * columns]


def score_product(asc: AiCore, queues: L1Queues, left: Source, right: Source, columns: int, scores: Scores) -> None:
    """Make left right^T, the scores or dA, of operands with so many columns."""
    element = left.gm.dtype
    for m, rows in blocks_of(left.rows):
        a1 = block_in(queues.left, m, element, columns)
        load_rows(asc, a1, left.gm[m * BLOCK * left.pitch], rows, columns, left.pitch)
        asc.set_flag(HardEvent.MTE2_MTE1, m)
        for n, length in blocks_of(right.rows):
            b1 = block_in(queues.right, n, element, columns)
            if m == 0:
                load_rows(asc, b1, right.gm[n * BLOCK * right.pitch], length, columns, right.pitch)
                asc.set_flag(HardEvent.MTE2_MTE1, RIGHT_IDS + n)
            if n == 0:
                asc.wait_flag(HardEvent.MTE2_MTE1, m)
            event_id = RIGHT_IDS + n if m == 0 else None
            c1 = multiply(asc, None, a1, b1, queues, Factor(rows, length, columns, False, True, event_id))
            queues.co1.enque(c1)
            at = n * BLOCK // CUBE_SIDE * scores.pitch + m * BLOCK * CUBE_SIDE
            store_results(asc, scores.gm[at], queues, rows, length, scores.pitch, True, False)
    let_loads_go_on(asc)


def query_and_key_gradients(
    asc: AiCore, queues: L1Queues, d_s: Scores, key: Source, query: Source, columns: int, dq: Sums, dk: Sums
) -> None:
    """Add dQ += dS K and dK += dS^T Q, 256 columns of dS at a time."""
    element = key.gm.dtype
    heights, widths = list(blocks_of(d_s.rows)), list(blocks_of(d_s.columns))
    for first in range(0, len(widths), SLICE):
        here = widths[first : first + SLICE]
        with asc.trace("dQ"):
            for m, rows in heights:
                if first == 0:
                    q1 = block_in(queues.left, m, element, columns)
                    load_rows(asc, q1, query.gm[m * BLOCK * query.pitch], rows, columns, query.pitch)
                c1 = None
                for n, length in here:
                    k1 = block_in(queues.right, n, element, columns)
                    if m == 0:
                        load_rows(asc, k1, key.gm[n * BLOCK * key.pitch], length, columns, key.pitch)
                    a1, event_id = _load_tile(asc, queues, d_s, m, n, n - first)
                    factor = Factor(rows, columns, length, False, False, event_id)
                    c1 = multiply(asc, c1, a1, k1, queues, factor)
                assert c1 is not None
                queues.co1.enque(c1)
                store_results(asc, dq.at(m * BLOCK, 0), queues, rows, columns, dq.pitch, dq.is_nz, True)
        with asc.trace("dK"):
            for n, length in here:
                c1 = None
                for m, rows in heights:
                    a1 = block_in(queues.tiles, m * SLICE + n - first, element, BLOCK)
                    q1 = block_in(queues.left, m, element, columns)
                    c1 = multiply(asc, c1, a1, q1, queues, Factor(length, columns, rows, True, False, None))
                assert c1 is not None
                queues.co1.enque(c1)
                store_results(asc, dk.at(n * BLOCK, 0), queues, length, columns, dk.pitch, dk.is_nz, True)
        let_loads_go_on(asc)


def value_gradient(asc: AiCore, queues: L1Queues, a: Scores, dy: Source, columns: int, dv: Sums) -> None:
    """Add dV += A^T dY: dY stays in L1, A comes 256 columns at a time."""
    element = dy.gm.dtype
    heights, widths = list(blocks_of(a.rows)), list(blocks_of(a.columns))
    for first in range(0, len(widths), SLICE):
        for n, length in widths[first : first + SLICE]:
            c1 = None
            for m, rows in heights:
                dy1 = block_in(queues.left, m, element, columns)
                if n == 0:
                    load_rows(asc, dy1, dy.gm[m * BLOCK * dy.pitch], rows, columns, dy.pitch)
                a1, event_id = _load_tile(asc, queues, a, m, n, n - first)
                c1 = multiply(asc, c1, a1, dy1, queues, Factor(length, columns, rows, True, False, event_id))
            assert c1 is not None
            queues.co1.enque(c1)
            store_results(asc, dv.at(n * BLOCK, 0), queues, length, columns, dv.pitch, dv.is_nz, True)
        let_loads_go_on(asc)


def let_loads_go_on(asc: AiCore) -> None:
    """What is loaded from here on may overwrite what MTE1 has read."""
    asc.set_flag(HardEvent.MTE1_MTE2, 0)
    asc.wait_flag(HardEvent.MTE1_MTE2, 0)


def _load_tile(asc: AiCore, queues: L1Queues, scores: Scores, m: int, n: int, place: int) -> tuple[LocalTensor, int]:
    """Load block (m, n) of 16-bit scores as the `place`-th of its row; return it and the id of its flag."""
    number = m * SLICE + place
    local = block_in(queues.tiles, number, scores.gm.dtype, BLOCK)
    at = n * BLOCK // CUBE_SIDE * scores.pitch + m * BLOCK * CUBE_SIDE
    rows, columns = min(BLOCK, scores.rows - m * BLOCK), min(BLOCK, scores.columns - n * BLOCK)
    load_nz(asc, local, scores.gm[at], rows, columns, scores.pitch)
    asc.set_flag(HardEvent.MTE2_MTE1, number)
    return local, number


@tile
def load_rows(asc: AiCore, dst: LocalTensor, src: GlobalTensor, rows: int, columns: int, pitch: int) -> None:
    """Load rows as fractals."""
    asc.data_copy(dst, src, Nd2NzParams(1, rows, columns, 0, pitch, align_up(rows, CUBE_SIDE), 1, 0))


@tile
def load_nz(asc: AiCore, dst: LocalTensor, src: GlobalTensor, rows: int, columns: int, pitch: int) -> None:
    """Load a block of 16-bit scores, which lie in NZ."""
    gaps = pitch // CUBE_SIDE - rows, align_up(rows, CUBE_SIDE) - rows
    asc.data_copy(dst, src, DataCopyParams(ceil_div(columns, CUBE_SIDE), rows, *gaps))


def multiply(
    asc: AiCore, c1: LocalTensor | None, a1: LocalTensor, b1: LocalTensor, queues: L1Queues, factor: Factor
) -> LocalTensor:
    """Multiply two blocks into c1, or for None into a free buffer, and return where the result is.

    A single row lies in fractals, as others do, so Mmad takes two.

    M takes the operands before it waits for a free buffer of results, as in the matmul operator.
    """
    _to_l0(asc, a1, b1, queues, factor)
    a2, b2 = queues.a2.deque(a1.dtype), queues.b2.deque(b1.dtype)
    result = queues.co1.alloc_tensor(FLOAT) if c1 is None else c1
    _mmad(
        asc,
        result,
        a2,
        b2,
        queues,
        MmadParams(max(factor.m, 2), align_up(factor.n, CUBE_SIDE), factor.k, cmatrix_init_val=c1 is None),
    )
    return result


@tile
def _to_l0(asc: AiCore, a1: LocalTensor, b1: LocalTensor, queues: L1Queues, factor: Factor) -> None:
    if factor.event_id is not None:
        asc.wait_flag(HardEvent.MTE2_MTE1, factor.event_id)
    with asc.trace("to L0"):
        a2, b2 = queues.a2.alloc_tensor(a1.dtype), queues.b2.alloc_tensor(b1.dtype)
        _to_l0a(asc, a2, a1, factor)
        queues.a2.enque(a2)
        _to_l0b(asc, b2, b1, factor)
        queues.b2.enque(b2)


@tile
def _mmad(asc: AiCore, c1: LocalTensor, a2: LocalTensor, b2: LocalTensor, queues: L1Queues, params: MmadParams) -> None:
    with asc.trace("multiply"):
        asc.mmad(c1, a2, b2, params)
        if ceil_div(params.m, CUBE_SIDE) * ceil_div(params.n, CUBE_SIDE) < BARRIER_FRACTALS:
            asc.pipe_barrier(Pipe.M)
        queues.a2.free_tensor(a2)
        queues.b2.free_tensor(b2)


def _to_l0a(asc: AiCore, a2: LocalTensor, a1: LocalTensor, factor: Factor) -> None:
    """A to L0A, rows of fractals."""
    fractal = FRACTAL_BYTES // a1.dtype.bytes
    down, across = ceil_div(factor.m, CUBE_SIDE), ceil_div(factor.k, CUBE_SIDE)
    for row in range(down):
        if factor.a_transposed:
            asc.load_data(
                a2[row * across * fractal], a1[row * across * fractal], LoadData2DParams(0, across, 1, 0, 0, True)
            )
        else:
            asc.load_data(a2[row * across * fractal], a1[row * fractal], LoadData2DParams(0, across, down))


def _to_l0b(asc: AiCore, b2: LocalTensor, b1: LocalTensor, factor: Factor) -> None:
    """B to L0B, rows of fractals whose columns run along k."""
    fractal = FRACTAL_BYTES // b1.dtype.bytes
    down, across = ceil_div(factor.k, CUBE_SIDE), ceil_div(factor.n, CUBE_SIDE)
    if factor.b_transposed:
        asc.load_data(b2, b1, LoadData2DParams(0, down * across, 1))
        return
    for row in range(down):
        asc.load_data(b2[row * across * fractal], b1[row * fractal], LoadData2DParams(0, across, down, 0, 0, True))


@tile
def store_results(
    asc: AiCore,
    dst: GlobalTensor,
    queues: L1Queues,
    rows: int,
    columns: int,
    pitch: int,
    is_nz: bool,
    adds: bool,
) -> None:
    """Store the results that wait in co1, or add them: rows at a pitch, or in NZ from one 16 columns to the next."""
    with asc.trace("store"):
        c1 = queues.co1.deque(FLOAT)
        width, step = (align_up(columns, CUBE_SIDE), pitch // FLOAT.per_datablock) if is_nz else (columns, pitch)
        if adds:
            asc.set_atomic_add(FLOAT)
        params = FixpipeParamsV220(width, rows, align_up(rows, CUBE_SIDE), step)
        asc.fixpipe(dst, c1, params, CO2Layout.NZ if is_nz else CO2Layout.ROW_MAJOR)
        if adds:
            asc.set_atomic_none()
        queues.co1.free_tensor(c1)
