"""Products of LaserAttentionGrad on a Cube core: S and dP, dV and dK, dQ, of the segments of a round.

    cube 1  left: rows of Q or dO of both lines, right: a column of K or V   each block to its slot of S or dP
    cube 3  left: a block of P or dS transposed, right: rows of dO or Q      lines of a column summed, then to dV or dK
    cube 2  left: a block of dS, right: a column of K                        columns of a line summed, then to dQ

    L1   A ping 0, A pong 128 KiB, B ping 256 KiB, B pong 384 KiB
    L0   A and B in halves of 32 KiB, C in halves of 64 KiB

Whatever is loaded into a half of L1 or L0 is waited for at once, and its half is given back behind its last use:
events 0 and 1 for L1 B, 2 and 3 for L1 A, 4 and 5 for the two places in L1 A that blocks of P or dS of cube 3 take in
turn; 0, 1 for L0A and 2, 3 for L0B. Mmad and Fixpipe follow one another by the unit flag.

Heads of 192: a column of K is loaded with all its 256 columns, S is two Mmads, of depth 128 and 64; dQ and dK are made
in columns 0..127 and then 128..191.

A block that is skipped issues nothing. (The original lets its Mmad of cube 2 run on what L0A holds, and never stores
it.) The kernel of the window goes the same way with segments of one line; what it does inside a product is not
published.
Source: ascend-transformer-boost, laser_attention_grad kernel, cube part: loads, buffers, events, order.
"""

from dataclasses import dataclass

from ascendsim.dtypes import BFLOAT16, FLOAT
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.load import LoadData2DParams
from ascendsim.isa.mmad import MmadParams
from ascendsim.isa.nd2nz import Nd2NzParams
from ascendsim.isa.unit_flag import HAND_OVER, KEEP
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_host.lag_blocks import BLOCK, Segment
from ascendsim.op_kernel.attention import pass_on
from ascendsim.record import AiCore, tile
from ascendsim.terms import CUBE_SIDE, FRACTAL_BYTES, CO2Layout, HardEvent, TPosition, ceil_div
from ascendsim.tpipe import TBuf, TPipe

BLOCK_FLOATS = BLOCK * BLOCK
L1_BYTES = 128 * 1024
"""Of a half of L1 A or B; the last one is used to its middle, and the framework has the end of L1."""
LAST_BYTES = 64 * 1024
BLOCK_BYTES = BLOCK * BLOCK * BFLOAT16.bytes
"""Of a block of 128 x 128 in L1; a half of L0A or L0B."""
RESULT_BYTES = BLOCK * BLOCK * FLOAT.bytes
HALVES = 2
L1_A, PLACES = 2, 4
"""First event ids of halves of L1 A, and of the places that cube 3 takes in one."""
L0_B = 2
"""First event id of halves of L0B."""
L1_EVENTS, L0_EVENTS = 6, 4
FRACTAL = FRACTAL_BYTES // BFLOAT16.bytes
"""Elements of a fractal."""
SIDE = BLOCK // CUBE_SIDE
"""Fractals along a block."""
AIV_ROWS = BLOCK // 2
"""Rows of a block that one AIV has made."""
AIV_PITCH = 2 * AIV_ROWS * BLOCK
"""From the rows of one AIV to those of the other [16-bit elements]: they fill half of the floats' place."""
C0 = BFLOAT16.per_datablock


@dataclass(frozen=True, slots=True)
class CubeBuffers:
    """L1 and L0."""

    l1: tuple[TBuf, ...]
    l0a: TBuf
    l0b: TBuf
    l0c: TBuf

    def a1(self, half: int, at_bytes: int, count: int) -> LocalTensor:
        """Return a view of L1 A."""
        return self.l1[half].get_with_offset(BFLOAT16, count, at_bytes)

    def b1(self, half: int, at_bytes: int, count: int) -> LocalTensor:
        """Return a view of L1 B."""
        return self.l1[HALVES + half].get_with_offset(BFLOAT16, count, at_bytes)

    def a2(self, half: int) -> LocalTensor:
        """Return a half of L0A."""
        return self.l0a.get_with_offset(BFLOAT16, BLOCK_FLOATS, half * BLOCK_BYTES)

    def b2(self, half: int) -> LocalTensor:
        """Return a half of L0B."""
        return self.l0b.get_with_offset(BFLOAT16, BLOCK_FLOATS, half * BLOCK_BYTES)

    def c1(self, half: int) -> LocalTensor:
        """Return a half of L0C."""
        return self.l0c.get_with_offset(FLOAT, BLOCK_FLOATS, half * RESULT_BYTES)


def init_cube(asc: AiCore, pipe: TPipe) -> CubeBuffers:
    """Return the buffers of a Cube core, all of them free."""
    names = ("a_ping", "a_pong", "b_ping", "b_pong")
    l1 = tuple(asc.t_buf(TPosition.A1, name) for name in names)
    for buffer in l1:
        pipe.init_buffer(buffer, 1, LAST_BYTES if buffer is l1[-1] else L1_BYTES)
    l0a, l0b, l0c = (
        asc.t_buf(position, name)
        for position, name in ((TPosition.A2, "l0a"), (TPosition.B2, "l0b"), (TPosition.CO1, "l0c"))
    )
    pipe.init_buffer(l0a, 1, HALVES * BLOCK_BYTES)
    pipe.init_buffer(l0b, 1, HALVES * BLOCK_BYTES)
    pipe.init_buffer(l0c, 1, HALVES * RESULT_BYTES)
    for event_id in range(L1_EVENTS):
        asc.set_flag(HardEvent.MTE1_MTE2, event_id)
    for event_id in range(L0_EVENTS):
        asc.set_flag(HardEvent.M_MTE1, event_id)
    return CubeBuffers(l1, l0a, l0b, l0c)


def end_cube(asc: AiCore) -> None:
    """Take back what `init_cube` has set."""
    for event_id in range(L1_EVENTS):
        asc.wait_flag(HardEvent.MTE1_MTE2, event_id)
    for event_id in range(L0_EVENTS):
        asc.wait_flag(HardEvent.M_MTE1, event_id)


# ---- whose turn it is ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turns:
    """Which half comes next; cube 3 has two places in a half of L1 A."""

    l1_a: int = 0
    l1_b: int = 0
    place: int = 0
    l0_a: int = 0
    l0_b: int = 0
    l0_c: int = 0

    def after(self, used: "Turns") -> "Turns":
        """Return the halves behind so many uses of each."""
        return Turns(
            (self.l1_a + used.l1_a) % HALVES,
            (self.l1_b + used.l1_b) % HALVES,
            (self.place + used.place) % HALVES,
            (self.l0_a + used.l0_a) % HALVES,
            (self.l0_b + used.l0_b) % HALVES,
            (self.l0_c + used.l0_c) % HALVES,
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in GM: where the first begins, how many columns of it are taken, from row to row [elements]."""

    gm: GlobalTensor
    columns: int
    pitch: int

    def block(self, number: int) -> GlobalTensor:
        """Return where the `number`-th 128 rows begin."""
        return self.gm[number * BLOCK * self.pitch]


@dataclass(frozen=True, slots=True)
class Scores:
    """Blocks of a segment in its core's area: S or dP as floats, or P or dS as 16 bits."""

    gm: GlobalTensor
    segment: Segment

    def block(self, line: int, column: int) -> GlobalTensor:
        """Return where a block begins."""
        words = FLOAT.bytes // self.gm.dtype.bytes
        return self.gm[(line * self.segment.columns + column) * BLOCK_FLOATS * words]

    def lines_in(self, column: int) -> tuple[int, ...]:
        """Return the lines that have a block in a column; lines without any come never."""
        return tuple(line for line in range(self.segment.lines) if column < self.segment.computed(line))

    def blocks_in(self, column: int) -> tuple[GlobalTensor | None, GlobalTensor | None]:
        """Return the blocks of both lines in a column, None where there is none."""
        here = self.lines_in(column)
        first, second = (self.block(line, column) if line in here else None for line in range(HALVES))
        return first, second


# ---- cube 1 ----------------------------------------------------------------------------------------------------------


def score_blocks(
    asc: AiCore, left: Rows, right: Rows, out: Scores, buffers: CubeBuffers, turns: Turns, depths: tuple[int, ...]
) -> Turns:
    """Make left right^T of all blocks of a segment, and return whose turn it is then.

    Args:
        asc: the core.
        left: from its first line on, as many columns as all depths together.
        right: from its first column on.
        out: where the blocks go.
        buffers: L1 and L0.
        turns: which halves come next.
        depths: of the Mmads of a block.
    """
    segment = out.segment
    rows = segment.lines * BLOCK
    _load_left(asc, left.gm, buffers, turns.l1_a, rows, left.columns, left.pitch)
    for column in range(segment.computed_columns):
        outs = out.blocks_in(column)
        _score_column(asc, right.block(column), *outs, buffers, turns, rows, depths, right.columns)
        count = len(out.lines_in(column))
        used = Turns(l1_b=1, l0_a=count * len(depths), l0_b=len(depths), l0_c=count)
        turns = turns.after(used)
    asc.set_flag(HardEvent.MTE1_MTE2, L1_A + turns.l1_a)
    return turns.after(Turns(l1_a=1))


@tile
def _load_left(
    asc: AiCore, left: GlobalTensor, buffers: CubeBuffers, half: int, rows: int, columns: int, pitch: int
) -> None:
    """Load rows to a half of L1 A."""
    a1 = buffers.a1(half, 0, rows * columns)
    asc.wait_flag(HardEvent.MTE1_MTE2, L1_A + half)
    asc.data_copy(a1, left, Nd2NzParams(1, rows, columns, 0, pitch, rows, 1, 0))
    pass_on(asc, HardEvent.MTE2_MTE1, L1_A + half)


@tile
def _score_column(
    asc: AiCore,
    right: GlobalTensor,
    out: GlobalTensor | None,
    other_out: GlobalTensor | None,
    buffers: CubeBuffers,
    turns: Turns,
    rows: int,
    depths: tuple[int, ...],
    right_columns: int,
) -> None:
    """Make the blocks of a column, of both lines."""
    b1 = buffers.b1(turns.l1_b, 0, BLOCK * right_columns)
    asc.wait_flag(HardEvent.MTE1_MTE2, turns.l1_b)
    asc.data_copy(b1, right, Nd2NzParams(1, BLOCK, right_columns, 0, right_columns, BLOCK, 1, 0))
    pass_on(asc, HardEvent.MTE2_MTE1, turns.l1_b)
    halves = tuple((turns.l0_b + part) % HALVES for part in range(len(depths)))
    for part, (half, depth) in enumerate(zip(halves, depths, strict=True)):
        asc.wait_flag(HardEvent.M_MTE1, L0_B + half)
        at = part * BLOCK // C0 * SIDE * FRACTAL
        asc.load_data(buffers.b2(half), b1[at], LoadData2DParams(0, depth // C0 * SIDE, 1))
        pass_on(asc, HardEvent.MTE1_M, L0_B + half)
    asc.set_flag(HardEvent.MTE1_MTE2, turns.l1_b)
    a1 = buffers.a1(turns.l1_a, 0, rows * sum(depths))
    for line, dst in enumerate((out, other_out)):
        if not dst:
            continue
        c1 = buffers.c1(turns.l0_c)
        for part, (half, depth) in enumerate(zip(halves, depths, strict=True)):
            first = part * BLOCK // C0 * (rows // CUBE_SIDE) + line * SIDE
            _left_to_l0a(asc, buffers, a1[first * FRACTAL], turns.l0_a, depth // C0, rows // CUBE_SIDE)
            flag = HAND_OVER if part + 1 == len(depths) else KEEP
            params = MmadParams(BLOCK, BLOCK, depth, flag, cmatrix_init_val=part == 0)
            _mmad(asc, buffers, c1, turns.l0_a, half, params)
            turns = turns.after(Turns(l0_a=1))
        asc.fixpipe(dst, c1, _results(BLOCK, BLOCK), CO2Layout.ROW_MAJOR)
        turns = turns.after(Turns(l0_c=1))
    for half in halves:
        asc.set_flag(HardEvent.M_MTE1, L0_B + half)


def _left_to_l0a(asc: AiCore, buffers: CubeBuffers, a1: LocalTensor, half: int, across: int, stride: int) -> None:
    """Load a block of a left operand, `across` fractals deep, from NZ whose columns of fractals are `stride` apart."""
    asc.wait_flag(HardEvent.M_MTE1, half)
    a2 = buffers.a2(half)
    for row in range(SIDE):
        asc.load_data(a2[row * across * FRACTAL], a1[row * FRACTAL], LoadData2DParams(0, across, stride))
    pass_on(asc, HardEvent.MTE1_M, half)


def _mmad(asc: AiCore, buffers: CubeBuffers, c1: LocalTensor, half_a: int, half_b: int, params: MmadParams) -> None:
    """Multiply what is in L0A and L0B, and give the half of L0A back."""
    asc.mmad(c1, buffers.a2(half_a), buffers.b2(half_b), params)
    asc.set_flag(HardEvent.M_MTE1, half_a)


def _results(columns: int, pitch: int) -> FixpipeParamsV220:
    return FixpipeParamsV220(columns, BLOCK, BLOCK, pitch, unit_flag=HAND_OVER)


def _load_tile(asc: AiCore, dst: LocalTensor, src: GlobalTensor) -> None:
    """Load a block of P or dS: the rows of both AIVs, each from the start of the place of its floats."""
    asc.data_copy(dst, src, Nd2NzParams(2, AIV_ROWS, BLOCK, AIV_PITCH, BLOCK, BLOCK, 1, AIV_ROWS * C0))


# ---- cube 3 ----------------------------------------------------------------------------------------------------------


def column_sums(asc: AiCore, left: Scores, right: Rows, out: Rows, buffers: CubeBuffers, turns: Turns) -> Turns:
    """Add left^T right, over the lines of a segment, to what stands for its columns; return whose turn it is then.

    Args:
        asc: the core.
        left: P or dS of the segment.
        right: dO or Q from its first line on.
        out: sums from its first column on.
        buffers: L1 and L0.
        turns: which halves come next.
    """
    lines = left.lines_in(0)
    second = right.block(1) if 1 in lines else None
    _load_right(asc, right.block(0) if 0 in lines else None, second, buffers, turns.l1_b, right.columns, right.pitch)
    asc.wait_flag(HardEvent.MTE1_MTE2, L1_A + turns.l1_a)
    for column in range(left.segment.computed_columns):
        lefts = left.blocks_in(column)
        _sum_column(asc, *lefts, out.block(column), buffers, turns, right.columns, out.pitch)
        count = len(left.lines_in(column))
        turns = turns.after(Turns(place=count, l0_a=count, l0_c=1))
    for line in lines:
        asc.set_flag(HardEvent.M_MTE1, L0_B + line)
    asc.set_flag(HardEvent.MTE1_MTE2, L1_A + turns.l1_a)
    return turns.after(Turns(l1_a=1, l1_b=1))


@tile
def _load_right(
    asc: AiCore,
    right: GlobalTensor | None,
    other_right: GlobalTensor | None,
    buffers: CubeBuffers,
    half: int,
    columns: int,
    pitch: int,
) -> None:
    """Load the rows of both lines to a half of L1 B, and turned to the halves of L0B."""
    blocks = [buffers.b1(half, line * BLOCK * columns * BFLOAT16.bytes, BLOCK * columns) for line in range(HALVES)]
    asc.wait_flag(HardEvent.MTE1_MTE2, half)
    for b1, rows in zip(blocks, (right, other_right), strict=True):
        if rows:
            asc.data_copy(b1, rows, Nd2NzParams(1, BLOCK, columns, 0, pitch, BLOCK, 1, 0))
    pass_on(asc, HardEvent.MTE2_MTE1, half)
    for line, (b1, rows) in enumerate(zip(blocks, (right, other_right), strict=True)):
        if rows:
            asc.wait_flag(HardEvent.M_MTE1, L0_B + line)
            _right_to_l0b(asc, buffers.b2(line), b1, columns)
            pass_on(asc, HardEvent.MTE1_M, L0_B + line)
    asc.set_flag(HardEvent.MTE1_MTE2, half)


@tile
def _sum_column(
    asc: AiCore,
    left: GlobalTensor | None,
    other_left: GlobalTensor | None,
    out: GlobalTensor,
    buffers: CubeBuffers,
    turns: Turns,
    columns: int,
    pitch: int,
) -> None:
    """Multiply the blocks of a column, turned, with what stands in L0B for their lines, and add the sum of both."""
    c1 = buffers.c1(turns.l0_c)
    for line, block in enumerate((left, other_left)):
        if not block:
            continue
        a1 = buffers.a1(turns.l1_a, turns.place * BLOCK_BYTES, BLOCK_FLOATS)
        asc.wait_flag(HardEvent.MTE1_MTE2, PLACES + turns.place)
        _load_tile(asc, a1, block)
        pass_on(asc, HardEvent.MTE2_MTE1, PLACES + turns.place)
        _turned_to_l0a(asc, buffers, a1, turns.l0_a)
        asc.set_flag(HardEvent.MTE1_MTE2, PLACES + turns.place)
        flag = HAND_OVER if line == 1 or not other_left else KEEP
        params = MmadParams(BLOCK, columns, BLOCK, flag, cmatrix_init_val=line == 0 or not left)
        _mmad(asc, buffers, c1, turns.l0_a, line, params)
        turns = turns.after(Turns(place=1, l0_a=1))
    _add(asc, out, c1, columns, pitch)


def _right_to_l0b(asc: AiCore, b2: LocalTensor, b1: LocalTensor, columns: int) -> None:
    """Load 128 rows of a right operand as rows of fractals whose columns run along its rows."""
    across = ceil_div(columns, CUBE_SIDE)
    for row in range(SIDE):
        params = LoadData2DParams(0, across, SIDE, 0, 0, True)
        asc.load_data(b2[row * across * FRACTAL], b1[row * FRACTAL], params)


def _turned_to_l0a(asc: AiCore, buffers: CubeBuffers, a1: LocalTensor, half: int) -> None:
    """Load the transpose of a block of P or dS."""
    asc.wait_flag(HardEvent.M_MTE1, half)
    a2 = buffers.a2(half)
    for row in range(SIDE):
        at = row * SIDE * FRACTAL
        asc.load_data(a2[at], a1[at], LoadData2DParams(0, SIDE, 1, 0, 0, True))
    pass_on(asc, HardEvent.MTE1_M, half)


def _add(asc: AiCore, dst: GlobalTensor, c1: LocalTensor, columns: int, pitch: int) -> None:
    asc.set_atomic_add(FLOAT)
    asc.fixpipe(dst, c1, _results(columns, pitch), CO2Layout.ROW_MAJOR)
    asc.set_atomic_none()


# ---- cube 2 ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LineStep:
    """Where a column stands in its lines' sums: whether they begin with it, and which of them end.

    Attributes:
        halves: of L0C, for the first and the second line.
        is_first: the sums begin.
        ends: the lines whose last block it is.
    """

    halves: tuple[int, int]
    is_first: bool
    ends: tuple[int, ...]


def line_sums(asc: AiCore, left: Scores, right: Rows, out: Rows, buffers: CubeBuffers, turns: Turns) -> Turns:
    """Add left right, over the columns of a segment, to what stands for its lines; return whose turn it is then.

    Args:
        asc: the core.
        left: dS of the segment.
        right: K from its first column on.
        out: sums from its first line on.
        buffers: L1 and L0.
        turns: which halves come next.
    """
    segment, lines = left.segment, left.lines_in(0)
    halves = tuple((turns.l0_c + (line if len(lines) == HALVES else 0)) % HALVES for line in range(HALVES))
    for column in range(segment.computed_columns):
        here = left.lines_in(column)
        step = LineStep(
            (halves[0], halves[1]), column == 0, tuple(line for line in here if column + 1 == segment.computed(line))
        )
        first, second = (out.block(line) if line in step.ends else None for line in range(HALVES))
        lefts = left.blocks_in(column)
        _line_column(
            asc, *lefts, right.block(column), first, second, buffers, turns, step, right.columns, right.pitch, out.pitch
        )
        turns = turns.after(Turns(l1_a=1, l1_b=1, l0_a=len(here), l0_b=1))
    return turns.after(Turns(l0_c=len(lines)))


@tile
def _line_column(
    asc: AiCore,
    left: GlobalTensor | None,
    other_left: GlobalTensor | None,
    right: GlobalTensor,
    out: GlobalTensor | None,
    other_out: GlobalTensor | None,
    buffers: CubeBuffers,
    turns: Turns,
    step: LineStep,
    columns: int,
    pitch: int,
    out_pitch: int,
) -> None:
    """Multiply the blocks of a column with its rows of K, onto the sums of their lines, and add those that end."""
    asc.wait_flag(HardEvent.MTE1_MTE2, L1_A + turns.l1_a)
    blocks = [buffers.a1(turns.l1_a, line * BLOCK_BYTES, BLOCK_FLOATS) for line in range(HALVES)]
    for a1, block in zip(blocks, (left, other_left), strict=True):
        if block:
            _load_tile(asc, a1, block)
    pass_on(asc, HardEvent.MTE2_MTE1, L1_A + turns.l1_a)
    b1 = buffers.b1(turns.l1_b, 0, BLOCK * columns)
    asc.wait_flag(HardEvent.MTE1_MTE2, turns.l1_b)
    asc.data_copy(b1, right, Nd2NzParams(1, BLOCK, columns, 0, pitch, BLOCK, 1, 0))
    pass_on(asc, HardEvent.MTE2_MTE1, turns.l1_b)
    asc.wait_flag(HardEvent.M_MTE1, L0_B + turns.l0_b)
    _right_to_l0b(asc, buffers.b2(turns.l0_b), b1, columns)
    asc.set_flag(HardEvent.MTE1_MTE2, turns.l1_b)
    pass_on(asc, HardEvent.MTE1_M, L0_B + turns.l0_b)
    half_a = turns.l0_a
    for line, (block, dst) in enumerate(((left, out), (other_left, other_out))):
        if not block:
            continue
        c1, is_last = buffers.c1(step.halves[line]), line in step.ends
        _left_to_l0a(asc, buffers, blocks[line], half_a, SIDE, SIDE)
        flag = HAND_OVER if is_last else KEEP
        _mmad(
            asc,
            buffers,
            c1,
            half_a,
            turns.l0_b,
            MmadParams(BLOCK, columns, BLOCK, flag, cmatrix_init_val=step.is_first),
        )
        if dst:
            _add(asc, dst, c1, columns, out_pitch)
        half_a = 1 - half_a
    asc.set_flag(HardEvent.MTE1_MTE2, L1_A + turns.l1_a)
    asc.set_flag(HardEvent.M_MTE1, L0_B + turns.l0_b)
