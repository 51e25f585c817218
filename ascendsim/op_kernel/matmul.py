"""The matmul operator: C = A B (+ bias) on the Cube cores, GM to GM.

Each core makes blocks of C. For a block it goes along K: A and B come to L1 as fractals, several steps of base_k at a
time; every step goes on to L0A and L0B and is added to the block in L0C, which Fixpipe stores. Loads of the next step
are issued before the current one is multiplied, as far as the queues have buffers.
"""

from dataclasses import dataclass
from itertools import zip_longest

from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, INT8
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.load import LoadData2DParams, LoadData2dTransposeParams
from ascendsim.isa.mmad import MmadParams
from ascendsim.isa.move import DataCopyParams
from ascendsim.isa.nd2nz import Nd2NzParams
from ascendsim.isa.unit_flag import HAND_OVER, KEEP
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_host.matmul import (
    MOST_PITCH,
    Block,
    MatmulTiling,
    Panel,
    Step,
    blocks_of_core,
    square_side,
    steps_of_core,
)
from ascendsim.record import AiCore, tile
from ascendsim.terms import (
    CUBE_SIDE,
    FRACTAL_BYTES,
    MAX_REPEAT_TIMES,
    CO2Layout,
    Pipe,
    QuantMode,
    TPosition,
    align_up,
    ceil_div,
)
from ascendsim.tpipe import TPipe, TQue

BARRIER_FRACTALS = 10
"""Mmads of fewer fractals of C that add to each other need a barrier between them (asc-devkit docs, Mmad page)."""
BIAS_TABLE_BYTES = 64
"""Unit of copies into the bias table (asc-devkit docs, DataCopy L1 to BiasTable page)."""
QUANT = {HALF: QuantMode.F322F16, BFLOAT16: QuantMode.F322BF16}
"""Conversions on the way out; other types stay."""


@dataclass(frozen=True, slots=True)
class Operands:
    """The tensors in GM."""

    a: GlobalTensor
    b: GlobalTensor
    bias: GlobalTensor | None
    c: GlobalTensor


@dataclass(frozen=True, slots=True)
class Queues:
    """Where blocks wait between the pipes; c1 and c2 hold the bias."""

    a1: TQue
    b1: TQue
    a2: TQue
    b2: TQue
    co1: TQue
    c1: TQue | None
    c2: TQue | None


@dataclass(frozen=True, slots=True)
class Work:
    """What one load of B adds to a block of C.

    Attributes:
        m, n: of the block of C.
        k: of this load of B.
        a_k: of the load of A.
        a_at: where in it this work starts, along k.
        is_first: the block's first work: it starts from zero or from the bias.
        is_last: the block's last.
        with_bias: whether it starts from the bias.
    """

    m: int
    n: int
    k: int
    a_k: int
    a_at: int
    is_first: bool
    is_last: bool
    with_bias: bool


@dataclass(frozen=True, slots=True)
class Load:
    """Lengths of what is loaded together, 0 for what is not: A [m, a_k], B [k, n], the bias [bias_n]."""

    m: int
    a_k: int
    k: int
    n: int
    bias_n: int

    @classmethod
    def of(cls, panel: Panel | None, step: Step | None, start: Block | None) -> "Load":
        """Return the lengths of a load of A, of one of B, and of a block that starts from the bias."""
        m, a_k = (panel.m, panel.k) if panel else (0, 0)
        k, n = (step.k, step.block.n) if step else (0, 0)
        return cls(m, a_k, k, n, start.n if start else 0)


def matmul(asc: AiCore, a: GlobalTensor, b: GlobalTensor, c: GlobalTensor, t: MatmulTiling) -> None:
    """C = A B for matrices in GM.

    Args:
        asc: the core.
        a: [m, k], or [k, m] with t.a_transposed.
        b: [k, n], or [n, k] with t.b_transposed.
        c: [m, n].
        t: from op_host.
    """
    _matmul(asc, Operands(a, b, None, c), t)


def matmul_bias(
    asc: AiCore, a: GlobalTensor, b: GlobalTensor, bias: GlobalTensor, c: GlobalTensor, t: MatmulTiling
) -> None:
    """C = A B + bias, the bias [n] added to each row. Arguments otherwise as `matmul`."""
    _matmul(asc, Operands(a, b, bias, c), t)


def _matmul(asc: AiCore, gm: Operands, t: MatmulTiling) -> None:
    queues = init_queues(asc, asc.t_pipe(), t)
    blocks = blocks_of_core(t, asc.get_block_num(), asc.get_block_idx())
    adds = iterate_all(asc, gm, queues, blocks, t, adds=False)
    if t.parts_k > 1 and not adds:
        asc.sync_all(is_aiv_only=False)


def iterate_all(
    asc: AiCore, gm: Operands, queues: Queues, blocks: tuple[Block, ...], t: MatmulTiling, *, adds: bool
) -> bool:
    """Make blocks of C one after another; return whether the last was added to what C held.

    Args:
        asc: the core.
        gm: the operands.
        queues: whose buffers hold what t says of them.
        blocks: of C; those behind the first part of K last.
        t: lengths, pitches and transpositions.
        adds: all blocks are added. Otherwise those of the first part of K replace, and all cores meet before others.
    """
    steps, panels = steps_of_core(t, blocks)
    starts = [block for block in blocks if gm.bias and block.k_at == 0]
    loaded = [0, 0, 0]
    for i, step in enumerate(steps):
        wanted = (
            panels[loaded[0] : step.panel + t.a1_num],
            steps[loaded[1] : i + t.b1_num],
            starts[loaded[2] : step.block_number + t.c1_num],
        )
        for panel, ahead, start in zip_longest(*wanted):
            _load(asc, *_sources(gm, panel, ahead, start, t), queues, Load.of(panel, ahead, start), t)
        loaded = [done + len(more) for done, more in zip(loaded, wanted, strict=True)]
        work = _work(step, panels[step.panel], t)
        if step.starts_panel:
            a1 = queues.a1.deque(t.ab)
        b1 = queues.b1.deque(t.ab)
        if step.is_first:
            c1 = start_block(asc, a1, b1, queues, work, t)
        add_steps(asc, c1, a1, b1, queues, work, t)
        queues.b1.free_tensor(b1)
        if step.ends_panel:
            queues.a1.free_tensor(a1)
        if step.is_last:
            queues.co1.enque(c1)
            if step.block.k_at and not adds:  # every first part has to be in GM before others are added to it
                asc.sync_all(is_aiv_only=False)
                adds = True
            store_block(asc, gm.c[place_of_block(step.block, t)], queues, step.block.m, step.block.n, adds, t)
    return adds


def place_of_block(block: Block, t: MatmulTiling) -> int:
    """Return where a block begins in C [elements]."""
    if t.c_is_nz:
        return block.n_at // CUBE_SIDE * t.c_pitch + block.m_at * CUBE_SIDE
    return block.m_at * t.c_pitch + block.n_at


def init_queues(asc: AiCore, pipe: TPipe, t: MatmulTiling) -> Queues:
    """Return the queues of a product, with buffers."""
    queues = Queues(
        a1=asc.t_que(TPosition.A1, t.a1_num, "a1"),
        b1=asc.t_que(TPosition.B1, t.b1_num, "b1"),
        a2=asc.t_que(TPosition.A2, 1, "a2"),
        b2=asc.t_que(TPosition.B2, 1, "b2"),
        co1=asc.t_que(TPosition.CO1, 1, "co1"),
        c1=asc.t_que(TPosition.C1, t.c1_num, "c1") if t.has_bias else None,
        c2=asc.t_que(TPosition.C2, 1, "c2") if t.has_bias else None,
    )
    pipe.init_buffer(queues.a1, t.a1_num, t.a1_bytes)
    pipe.init_buffer(queues.b1, t.b1_num, t.b1_bytes)
    pipe.init_buffer(queues.a2, t.a2_num, t.a2_bytes)
    pipe.init_buffer(queues.b2, t.b2_num, t.b2_bytes)
    pipe.init_buffer(queues.co1, t.co1_num, t.co1_bytes)
    if queues.c1 and queues.c2:
        pipe.init_buffer(queues.c1, t.c1_num, t.c1_bytes)
        pipe.init_buffer(queues.c2, t.c2_num, t.c2_bytes)
    return queues


def _sources(
    gm: Operands, panel: Panel | None, step: Step | None, start: Block | None, t: MatmulTiling
) -> tuple[GlobalTensor | None, GlobalTensor | None, GlobalTensor | None]:
    """Where A, B and the bias to load begin in GM; None for what is not loaded."""
    a = b = bias = None
    if panel:
        row, column = (panel.k_at, panel.m_at) if t.a_transposed else (panel.m_at, panel.k_at)
        a = gm.a[column // CUBE_SIDE * t.a_pitch + row * CUBE_SIDE if t.a_is_nz else row * t.a_pitch + column]
    if step:
        row, column = (step.block.n_at, step.k_at) if t.b_transposed else (step.k_at, step.block.n_at)
        b = gm.b[row * t.b_pitch + column]
    if start and gm.bias:
        bias = gm.bias[start.n_at]
    return a, b, bias


def _work(step: Step, panel: Panel, t: MatmulTiling) -> Work:
    block = step.block
    with_bias = t.has_bias and step.is_first and block.k_at == 0
    return Work(block.m, block.n, step.k, panel.k, step.k_at - panel.k_at, step.is_first, step.is_last, with_bias)


# ---- GM -> L1 --------------------------------------------------------------------------------------------------------


@tile
def _load(
    asc: AiCore,
    a: GlobalTensor | None,
    b: GlobalTensor | None,
    bias: GlobalTensor | None,
    queues: Queues,
    load: Load,
    t: MatmulTiling,
) -> None:
    with asc.trace("load"):
        # All buffers before the first copy: were one waited for behind a copy only, MTE1 could run ahead and set the
        # flag of that wait again.
        a1 = queues.a1.alloc_tensor(t.ab) if a else None
        b1 = queues.b1.alloc_tensor(t.ab) if b else None
        c1 = queues.c1.alloc_tensor(t.acc) if queues.c1 and bias else None
        if a and a1:
            _load_a(asc, a1, a, load.m, load.a_k, t)
            queues.a1.enque(a1)
        if b and b1:
            _load_b(asc, b1, b, load.k, load.n, t)
            queues.b1.enque(b1)
        if queues.c1 and bias and c1:
            _load_bias(asc, c1, bias, load.bias_n, t)
            queues.c1.enque(c1)


def _load_a(asc: AiCore, a1: LocalTensor, a: GlobalTensor, m: int, k: int, t: MatmulTiling) -> None:
    if t.a_is_nz:
        _copy_nz(asc, a1, a, *((k, m) if t.a_transposed else (m, k)), t.a_pitch)
    elif t.a_transposed:
        _to_turn(asc, a1, a, k, m, t.a_pitch)
    elif m == 1:  # Mmad reads a single row as it comes
        asc.data_copy(a1, a, Nd2NzParams(1, 1, k, 0, t.a_pitch, 1, 1, 0))
    else:
        asc.data_copy(a1, a, Nd2NzParams(1, m, k, 0, t.a_pitch, align_up(m, CUBE_SIDE), 1, 0))


def _copy_nz(asc: AiCore, dst: LocalTensor, src: GlobalTensor, rows: int, columns: int, pitch: int) -> None:
    """Copy a part of a matrix of 16 bits in NZ: a burst for each 16 columns, whose rows are datablocks."""
    gaps = pitch // CUBE_SIDE - rows, align_up(rows, CUBE_SIDE) - rows
    asc.data_copy(dst, src, DataCopyParams(ceil_div(columns, CUBE_SIDE), rows, *gaps))


def _load_b(asc: AiCore, b1: LocalTensor, b: GlobalTensor, k: int, n: int, t: MatmulTiling) -> None:
    if t.b_transposed:
        asc.data_copy(b1, b, Nd2NzParams(1, n, k, 0, t.b_pitch, align_up(n, CUBE_SIDE), 1, 0))
    else:
        _to_turn(asc, b1, b, k, n, t.b_pitch)


def _load_bias(asc: AiCore, c1: LocalTensor, bias: GlobalTensor, n: int, t: MatmulTiling) -> None:
    per_datablock = t.acc.per_datablock
    asc.data_copy(c1, bias, Nd2NzParams(1, 1, n, 0, n, 1, 1, 0))
    filled = align_up(n, per_datablock)
    rest = (_mmad_n(n, t) - filled) // per_datablock
    if rest > 0:  # beside columns of B that are zeros, which Mmad starts from any number
        asc.data_copy(c1[filled], bias, Nd2NzParams(rest, 1, 1, 0, 1, 1, 1, per_datablock))


def _to_turn(asc: AiCore, dst: LocalTensor, src: GlobalTensor, rows: int, columns: int, pitch: int) -> None:
    """Load rows along k so that whole squares of them can be transposed on the way to L0.

    A square of 8 bits is two fractals below each other and one of 16 bits a fractal: both are in NZ. One of 32 bits is
    two fractals side by side, so every 16 rows are fractals of their own.
    """
    if src.dtype.bytes != FLOAT.bytes:
        height = align_up(rows, square_side(src.dtype))
        asc.data_copy(dst, src, Nd2NzParams(1, rows, columns, 0, pitch, height, 1, 0))
        return
    band = CUBE_SIDE * align_up(columns, CUBE_SIDE)
    together = max(1, rows // CUBE_SIDE) if CUBE_SIDE * pitch <= MOST_PITCH else 1
    for row in range(0, rows, together * CUBE_SIDE):
        left = rows - row
        bands, height = (min(together, left // CUBE_SIDE), CUBE_SIDE) if left >= CUBE_SIDE else (1, left)
        stride = CUBE_SIDE * pitch if bands > 1 else 0
        params = Nd2NzParams(bands, height, columns, stride, pitch, CUBE_SIDE, 1, band)
        asc.data_copy(dst[row // CUBE_SIDE * band], src[row * pitch], params)


# ---- L1 -> L0 -> L0C -------------------------------------------------------------------------------------------------


def start_block(
    asc: AiCore, a1: LocalTensor, b1: LocalTensor, queues: Queues, work: Work, t: MatmulTiling
) -> LocalTensor:
    """Make the first base_k step of a block and return where its results are.

    M takes the operands before it waits for a free buffer of results: otherwise MTE1 could bring the next operands
    meanwhile, and set the flag of that wait again.
    """
    _first_to_l0(asc, a1, b1, queues, work, t)
    a2, b2 = queues.a2.deque(t.ab), queues.b2.deque(t.ab)
    bias = queues.c2.deque(t.acc) if queues.c2 and work.with_bias else None
    c1 = queues.co1.alloc_tensor(t.acc)
    _first_mmad(asc, c1, a2, b2, bias, queues, work, t)
    return c1


@tile
def _first_to_l0(asc: AiCore, a1: LocalTensor, b1: LocalTensor, queues: Queues, work: Work, t: MatmulTiling) -> None:
    if queues.c1 and queues.c2 and work.with_bias:
        c1, c2 = queues.c1.deque(t.acc), queues.c2.alloc_tensor(t.acc)
        length = align_up(_mmad_n(work.n, t) * t.acc.bytes, BIAS_TABLE_BYTES)
        asc.data_copy(c2, c1, length // t.acc.bytes)
        queues.c2.enque(c2)
        queues.c1.free_tensor(c1)
    _to_l0(asc, a1, b1, queues, work, 0, t)


@tile
def _first_mmad(
    asc: AiCore,
    c1: LocalTensor,
    a2: LocalTensor,
    b2: LocalTensor,
    bias: LocalTensor | None,
    queues: Queues,
    work: Work,
    t: MatmulTiling,
) -> None:
    _mmad(asc, c1, a2, b2, bias, queues, work, 0, t)
    if queues.c2 and bias:
        queues.c2.free_tensor(bias)


@tile
def add_steps(
    asc: AiCore, c1: LocalTensor, a1: LocalTensor, b1: LocalTensor, queues: Queues, work: Work, t: MatmulTiling
) -> None:
    """Add what is in L1 to a block, but for its first base_k step."""
    for at in range(t.base_k if work.is_first else 0, work.k, t.base_k):
        _to_l0(asc, a1, b1, queues, work, at, t)
        a2, b2 = queues.a2.deque(t.ab), queues.b2.deque(t.ab)
        _mmad(asc, c1, a2, b2, None, queues, work, at, t)


def _to_l0(asc: AiCore, a1: LocalTensor, b1: LocalTensor, queues: Queues, work: Work, at: int, t: MatmulTiling) -> None:
    """Bring the base_k step that begins at `at` of this load of B to L0A and L0B."""
    k = min(t.base_k, work.k - at)
    with asc.trace("to L0"):
        a2, b2 = queues.a2.alloc_tensor(t.ab), queues.b2.alloc_tensor(t.ab)
        _to_l0a(asc, a2, a1, work, work.a_at + at, k, t)
        queues.a2.enque(a2)
        _to_l0b(asc, b2, b1, work, at, k, t)
        queues.b2.enque(b2)


def _mmad(
    asc: AiCore,
    c1: LocalTensor,
    a2: LocalTensor,
    b2: LocalTensor,
    bias: LocalTensor | None,
    queues: Queues,
    work: Work,
    at: int,
    t: MatmulTiling,
) -> None:
    """Add the base_k step that begins at `at` to the block."""
    k = min(t.base_k, work.k - at)
    starts, ends = work.is_first and at == 0, work.is_last and at + k == work.k
    with asc.trace("multiply"):
        asc.mmad(c1, a2, b2, _mmad_params(work, k, starts, ends, t), bias)
        if ceil_div(work.m, CUBE_SIDE) * ceil_div(work.n, CUBE_SIDE) < BARRIER_FRACTALS:
            asc.pipe_barrier(Pipe.M)
        queues.a2.free_tensor(a2)
        queues.b2.free_tensor(b2)


def _mmad_params(work: Work, k: int, starts: bool, ends: bool, t: MatmulTiling) -> MmadParams:
    unit_flag = 0 if not t.unit_flag else HAND_OVER if ends else KEEP
    return MmadParams(
        m=_mmad_m(work.m, t),
        n=_mmad_n(work.n, t),
        k=k,
        unit_flag=unit_flag,
        cmatrix_source=starts and work.with_bias,
        cmatrix_init_val=starts and not work.with_bias,
        k_direction_align=t.a_transposed and t.ab is FLOAT,
    )


def _mmad_m(m: int, t: MatmulTiling) -> int:
    """Rows of a block, a transposed A's with the zeros that ND2NZ adds.

    Mmad reads a single row as it lies; one of A in NZ lies in fractals, so a second row is multiplied, too.
    """
    if t.a_transposed:
        return align_up(m, t.ab.per_datablock)
    return max(m, 2) if t.a_is_nz else m


def _mmad_n(n: int, t: MatmulTiling) -> int:
    """Columns of a block; 8-bit squares bring 32, and ND2NZ has filled them up with zeros. NZ leaves in whole 16."""
    if t.c_is_nz:
        return align_up(n, CUBE_SIDE)
    return align_up(n, t.ab.per_datablock) if t.ab is INT8 and not t.b_transposed else n


def _to_l0a(asc: AiCore, a2: LocalTensor, a1: LocalTensor, work: Work, at: int, k: int, t: MatmulTiling) -> None:
    """Move [m, k] of a load of A, from `at` on along k, to L0A: rows of fractals, or columns where L0A is NZ."""
    c0 = t.ab.per_datablock
    fractal = FRACTAL_BYTES // t.ab.bytes
    rows, columns = ceil_div(work.m, CUBE_SIDE), ceil_div(k, c0)
    if t.a_transposed:
        _turn_to_l0a(asc, a2, a1, work, at, k, t)
    elif work.m == 1 and not t.a_is_nz:
        asc.load_data(a2, a1[at], LoadData2DParams(0, ceil_div(k, fractal), 1))
    elif asc.device.has("l0a_is_nz"):
        _copy_fractals(asc, a2, a1[at // c0 * rows * fractal], rows * columns)
    else:
        for row in range(rows):
            first = (at // c0 * rows + row) * fractal
            asc.load_data(a2[row * columns * fractal], a1[first], LoadData2DParams(0, columns, rows))


def _turn_to_l0a(asc: AiCore, a2: LocalTensor, a1: LocalTensor, work: Work, at: int, k: int, t: MatmulTiling) -> None:
    """As `_to_l0a` from A that lies as [k, m]."""
    fractal = FRACTAL_BYTES // t.ab.bytes
    side = square_side(t.ab)
    squares_m, squares_k = ceil_div(work.m, side), ceil_div(k, side)
    if t.ab.bytes == HALF.bytes:
        down = ceil_div(work.a_k, side)
        is_nz = asc.device.has("l0a_is_nz")
        for i in range(squares_m):
            to, gap = (i, squares_m - 1) if is_nz else (i * squares_k, 0)
            params = LoadData2DParams(at // side, squares_k, 1, 0, gap, True)
            asc.load_data(a2[to * fractal], a1[i * down * fractal], params)
    elif t.ab is FLOAT:  # L0A is filled up to 16 along k, two fractals to a square
        for i in range(squares_m):
            turned = LoadData2dTransposeParams(at // side * squares_m + i, squares_k, squares_m, 1, 0)
            asc.load_data_with_transpose(a2[2 * i * squares_k * fractal], a1, turned)
    else:
        down = ceil_div(work.a_k, side)
        for i in range(squares_m):
            turned = LoadData2dTransposeParams(at // side + i * down, squares_k, 1, 0, squares_k - 1)
            asc.load_data_with_transpose(a2[2 * i * squares_k * fractal], a1, turned)


def _to_l0b(asc: AiCore, b2: LocalTensor, b1: LocalTensor, work: Work, at: int, k: int, t: MatmulTiling) -> None:
    """Move [k, n] of a load of B, from `at` on along k, to L0B: fractals whose columns run along k."""
    c0 = t.ab.per_datablock
    fractal = FRACTAL_BYTES // t.ab.bytes
    columns = ceil_div(_mmad_n(work.n, t), CUBE_SIDE)
    side = square_side(t.ab)
    if t.b_transposed:
        _copy_fractals(asc, b2, b1[at // c0 * columns * fractal], ceil_div(k, c0) * columns)
        return
    for row in range(ceil_div(k, side)):
        square = at // side + row
        if t.ab.bytes == HALF.bytes:
            params = LoadData2DParams(square, columns, ceil_div(work.k, side), 0, 0, True)
            asc.load_data(b2[row * columns * fractal], b1, params)
        elif t.ab is FLOAT:
            turned = LoadData2dTransposeParams(square * columns, columns, 1, 0, columns - 1)
            asc.load_data_with_transpose(b2[2 * row * columns * fractal], b1, turned)
        else:
            turned = LoadData2dTransposeParams(square, columns // 2, ceil_div(work.k, side), 1, 0)
            asc.load_data_with_transpose(b2[row * columns * fractal], b1, turned)


def _copy_fractals(asc: AiCore, dst: LocalTensor, src: LocalTensor, count: int) -> None:
    """Copy fractals that lie one behind the other."""
    fractal = FRACTAL_BYTES // src.dtype.bytes
    for first in range(0, count, MAX_REPEAT_TIMES):
        params = LoadData2DParams(0, min(MAX_REPEAT_TIMES, count - first), 1)
        asc.load_data(dst[first * fractal], src[first * fractal], params)


# ---- L0C -> GM -------------------------------------------------------------------------------------------------------


@tile
def store_block(asc: AiCore, c: GlobalTensor, queues: Queues, m: int, n: int, adds: bool, t: MatmulTiling) -> None:
    """Store the m x n results that wait in co1, or add them to what c holds."""
    with asc.trace("store"):
        c1 = queues.co1.deque(t.acc)
        params = FixpipeParamsV220(
            n_size=_mmad_n(n, t) if t.c_is_nz else n,
            m_size=m,
            src_stride=align_up(_mmad_m(m, t), CUBE_SIDE),
            dst_stride=t.c_pitch // c.dtype.per_datablock if t.c_is_nz else t.c_pitch,
            quant_pre=QUANT.get(c.dtype, QuantMode.NO_QUANT),
            relu_en=t.relu,
            unit_flag=HAND_OVER if t.unit_flag else 0,
        )
        if adds:
            asc.set_atomic_add(c.dtype)
        asc.fixpipe(c, c1, params, CO2Layout.NZ if t.c_is_nz else CO2Layout.ROW_MAJOR)
        if adds:
            asc.set_atomic_none()
        queues.co1.free_tensor(c1)
