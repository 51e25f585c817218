"""Products of LaserAttentionGrad on a Cube core: S and dP, dV and dK, dQ, of the segments of a round.

    cube 1  left: rows of Q or dO of both lines, right: a column of K or V    each block to its slot of S or dP
    cube 3  left: a block of P or dS transposed, right: rows of dO or Q       lines of a column added up, then to dV or dK
    cube 2  left: a block of dS, right: a column of K                         columns of a line added up, then to dQ

    L1   A ping 0, A pong 128 KiB, B ping 256 KiB, B pong 384 KiB
    L0   A and B in halves of 32 KiB, C in halves of 64 KiB

Whatever is loaded into a half of L1 or L0 is waited for at once, and its half is given back behind its last use: events
0 and 1 for L1 B, 2 and 3 for L1 A, 4 and 5 for the two places in L1 A that blocks of P or dS of cube 3 take in turn; 0, 1 for
L0A and 2, 3 for L0B. Mmad and Fixpipe follow one another by the unit flag.

Heads of 192: a column of K is loaded with all its 256 columns, S is two Mmads, of depth 128 and 64; dQ and dK are made
in columns 0..127 and then 128..191.

A block that is skipped issues nothing. (The original lets its Mmad of cube 2 run on what L0A holds, and never stores it.)
The kernel of the window goes the same way with segments of one line; what it does inside a product is not published.
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
from ascendsim.op_kernel.fag_tiles import pass_on
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
    """Which half comes next."""

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
class Extent:
    """What of a segment is computed.

    Attributes:
        lines: rows of blocks.
        columns: columns of blocks, skipped ones too.
        computed: blocks of each line that are computed, its first ones.
    """

    lines: int
    columns: int
    computed: tuple[int, ...]

    @property
    def used_columns(self) -> int:
        """Columns with a block."""
        return max(self.computed)

    @property
    def blocks(self) -> int:
        """Blocks that are computed."""
        return sum(self.computed)

    def lines_in(self, column: int) -> tuple[int, ...]:
        """Return the lines that have a block in a column."""
        return tuple(line for line in range(self.lines) if column < self.computed[line])

    @property
    def used_lines(self) -> tuple[int, ...]:
        """Lines that have a block."""
        return self.lines_in(0)

    def slot(self, line: int, column: int) -> int:
        """Return where a block begins in the segment's area [elements of a block of floats]."""
        return (line * self.columns + column) * BLOCK_FLOATS


def extent_of(segment: Segment) -> Extent:
    """Return what of a segment is computed."""
    return Extent(segment.lines, segment.columns, tuple(segment.computed(line) for line in range(segment.lines)))


# ---- cube 1 ----------------------------------------------------------------------------------------------------------


def after_scores(turns: Turns, extent: Extent, depths: tuple[int, ...]) -> Turns:
    """Return whose turn it is behind `score_blocks`."""
    parts = len(depths)
    return turns.after(
        Turns(
            l1_a=1,
            l1_b=extent.used_columns,
            l0_a=extent.blocks * parts,
            l0_b=extent.used_columns * parts,
            l0_c=extent.blocks,
        )
    )


@tile
def score_blocks(
    asc: AiCore,
    left: GlobalTensor,
    right: GlobalTensor,
    out: GlobalTensor,
    buffers: CubeBuffers,
    turns: Turns,
    extent: Extent,
    depths: tuple[int, ...],
    right_columns: int,
) -> None:
    """Make left right^T of all blocks of a segment.

    Args:
        asc: the core.
        left: its first row, rows of as many elements as all depths together.
        right: the first row of its first column, rows of `right_columns`.
        out: its first slot.
        buffers: L1 and L0.
        turns: which halves come next.
        extent: what is computed.
        depths: of the Mmads of a block.
        right_columns: that are loaded.
    """
    rows, width = extent.lines * BLOCK, sum(depths)
    a1 = buffers.a1(turns.l1_a, 0, rows * width)
    asc.wait_flag(HardEvent.MTE1_MTE2, L1_A + turns.l1_a)
    asc.data_copy(a1, left, Nd2NzParams(1, rows, width, 0, width, rows, 1, 0))
    pass_on(asc, HardEvent.MTE2_MTE1, L1_A + turns.l1_a)
    for column in range(extent.used_columns):
        b1 = buffers.b1(turns.l1_b, 0, BLOCK * right_columns)
        asc.wait_flag(HardEvent.MTE1_MTE2, turns.l1_b)
        right_rows = right[column * BLOCK * right_columns]
        asc.data_copy(b1, right_rows, Nd2NzParams(1, BLOCK, right_columns, 0, right_columns, BLOCK, 1, 0))
        pass_on(asc, HardEvent.MTE2_MTE1, turns.l1_b)
        halves = tuple((turns.l0_b + part) % HALVES for part in range(len(depths)))
        for part, (half, depth) in enumerate(zip(halves, depths, strict=True)):
            asc.wait_flag(HardEvent.M_MTE1, L0_B + half)
            fractals = depth // C0 * SIDE
            at = part * BLOCK // C0 * SIDE * FRACTAL
            asc.load_data(buffers.b2(half), b1[at], LoadData2DParams(0, fractals, 1))
            pass_on(asc, HardEvent.MTE1_M, L0_B + half)
        asc.set_flag(HardEvent.MTE1_MTE2, turns.l1_b)
        for line in extent.lines_in(column):
            c1 = buffers.c1(turns.l0_c)
            for part, (half, depth) in enumerate(zip(halves, depths, strict=True)):
                first = part * BLOCK // C0 * (rows // CUBE_SIDE) + line * SIDE
                _left_to_l0a(asc, buffers, a1[first * FRACTAL], turns.l0_a, depth // C0, rows // CUBE_SIDE)
                is_last = part + 1 == len(depths)
                _mmad(asc, buffers, c1, turns.l0_a, half, MmadParams(
                    BLOCK, BLOCK, depth, HAND_OVER if is_last else KEEP, cmatrix_init_val=part == 0
                ))  # fmt: skip
                turns = turns.after(Turns(l0_a=1))
            asc.fixpipe(out[extent.slot(line, column)], c1, _results(BLOCK, BLOCK), CO2Layout.ROW_MAJOR)
            turns = turns.after(Turns(l0_c=1))
        for half in halves:
            asc.set_flag(HardEvent.M_MTE1, L0_B + half)
        turns = turns.after(Turns(l1_b=1, l0_b=len(depths)))
    asc.set_flag(HardEvent.MTE1_MTE2, L1_A + turns.l1_a)


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


def _load_scores(asc: AiCore, dst: LocalTensor, src: GlobalTensor) -> None:
    """Load a block of P or dS: the rows of both AIVs, each from the start of the place of its floats."""
    asc.data_copy(dst, src, Nd2NzParams(2, AIV_ROWS, BLOCK, AIV_PITCH, BLOCK, BLOCK, 1, AIV_ROWS * C0))


# ---- cube 3 ----------------------------------------------------------------------------------------------------------


def after_columns(turns: Turns, extent: Extent) -> Turns:
    """Return whose turn it is behind `column_sums`."""
    return turns.after(Turns(l1_a=1, l1_b=1, place=extent.blocks, l0_a=extent.blocks, l0_c=extent.used_columns))


@tile
def column_sums(
    asc: AiCore,
    left: GlobalTensor,
    right: GlobalTensor,
    out: GlobalTensor,
    buffers: CubeBuffers,
    turns: Turns,
    extent: Extent,
    columns: int,
    pitch: int,
    out_pitch: int,
) -> None:
    """Add left^T right, over the lines of a segment, to what stands for its columns.

    Args:
        asc: the core.
        left: its first slot of P or dS.
        right: its first row of dO or Q.
        out: where the sums of its first column begin.
        buffers: L1 and L0.
        turns: which halves come next.
        extent: what is computed.
        columns: of right that are multiplied, 128 or 64.
        pitch: of right [elements].
        out_pitch: of the sums [floats].
    """
    lines = extent.used_lines
    asc.wait_flag(HardEvent.MTE1_MTE2, turns.l1_b)
    b1 = [buffers.b1(turns.l1_b, line * BLOCK * columns * BFLOAT16.bytes, BLOCK * columns) for line in lines]
    for line in lines:
        rows = right[line * BLOCK * pitch]
        asc.data_copy(b1[line], rows, Nd2NzParams(1, BLOCK, columns, 0, pitch, BLOCK, 1, 0))
    pass_on(asc, HardEvent.MTE2_MTE1, turns.l1_b)
    for line in lines:
        asc.wait_flag(HardEvent.M_MTE1, L0_B + line)
        _right_to_l0b(asc, buffers.b2(line), b1[line], columns)
        pass_on(asc, HardEvent.MTE1_M, L0_B + line)
    asc.set_flag(HardEvent.MTE1_MTE2, turns.l1_b)
    asc.wait_flag(HardEvent.MTE1_MTE2, L1_A + turns.l1_a)
    for column in range(extent.used_columns):
        c1, here = buffers.c1(turns.l0_c), extent.lines_in(column)
        for line in here:
            a1 = buffers.a1(turns.l1_a, turns.place * BLOCK_BYTES, BLOCK_FLOATS)
            asc.wait_flag(HardEvent.MTE1_MTE2, PLACES + turns.place)
            _load_scores(asc, a1, left[extent.slot(line, column) * FLOAT.bytes // BFLOAT16.bytes])
            pass_on(asc, HardEvent.MTE2_MTE1, PLACES + turns.place)
            _turned_to_l0a(asc, buffers, a1, turns.l0_a)
            asc.set_flag(HardEvent.MTE1_MTE2, PLACES + turns.place)
            flag = HAND_OVER if line == here[-1] else KEEP
            params = MmadParams(BLOCK, columns, BLOCK, flag, cmatrix_init_val=line == here[0])
            _mmad(asc, buffers, c1, turns.l0_a, line, params)
            turns = turns.after(Turns(place=1, l0_a=1))
        _add(asc, out[column * BLOCK * out_pitch], c1, columns, out_pitch)
        turns = turns.after(Turns(l0_c=1))
    for line in lines:
        asc.set_flag(HardEvent.M_MTE1, L0_B + line)
    asc.set_flag(HardEvent.MTE1_MTE2, L1_A + turns.l1_a)


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


def after_lines(turns: Turns, extent: Extent) -> Turns:
    """Return whose turn it is behind `line_sums`."""
    columns = extent.used_columns
    return turns.after(Turns(l1_a=columns, l1_b=columns, l0_a=extent.blocks, l0_b=columns, l0_c=len(extent.used_lines)))


@tile
def line_sums(
    asc: AiCore,
    left: GlobalTensor,
    right: GlobalTensor,
    out: GlobalTensor,
    buffers: CubeBuffers,
    turns: Turns,
    extent: Extent,
    columns: int,
    pitch: int,
    out_pitch: int,
) -> None:
    """Add left right, over the columns of a segment, to what stands for its lines.

    Args:
        asc: the core.
        left: its first slot of dS.
        right: the first row of its first column of K.
        out: where the sums of its first line begin.
        buffers: L1 and L0.
        turns: which halves come next.
        extent: what is computed.
        columns: of right that are multiplied, 128 or 64.
        pitch: of right [elements].
        out_pitch: of the sums [floats].
    """
    halves = {line: (turns.l0_c + i) % HALVES for i, line in enumerate(extent.used_lines)}
    for column in range(extent.used_columns):
        here = extent.lines_in(column)
        asc.wait_flag(HardEvent.MTE1_MTE2, L1_A + turns.l1_a)
        a1 = {line: buffers.a1(turns.l1_a, line * BLOCK_BYTES, BLOCK_FLOATS) for line in here}
        for line in here:
            _load_scores(asc, a1[line], left[extent.slot(line, column) * FLOAT.bytes // BFLOAT16.bytes])
        pass_on(asc, HardEvent.MTE2_MTE1, L1_A + turns.l1_a)
        b1 = buffers.b1(turns.l1_b, 0, BLOCK * columns)
        asc.wait_flag(HardEvent.MTE1_MTE2, turns.l1_b)
        asc.data_copy(b1, right[column * BLOCK * pitch], Nd2NzParams(1, BLOCK, columns, 0, pitch, BLOCK, 1, 0))
        pass_on(asc, HardEvent.MTE2_MTE1, turns.l1_b)
        asc.wait_flag(HardEvent.M_MTE1, L0_B + turns.l0_b)
        _right_to_l0b(asc, buffers.b2(turns.l0_b), b1, columns)
        asc.set_flag(HardEvent.MTE1_MTE2, turns.l1_b)
        pass_on(asc, HardEvent.MTE1_M, L0_B + turns.l0_b)
        for line in here:
            c1, is_last = buffers.c1(halves[line]), column + 1 == extent.computed[line]
            _left_to_l0a(asc, buffers, a1[line], turns.l0_a, SIDE, SIDE)
            flag = HAND_OVER if is_last else KEEP
            params = MmadParams(BLOCK, columns, BLOCK, flag, cmatrix_init_val=column == 0)
            _mmad(asc, buffers, c1, turns.l0_a, turns.l0_b, params)
            if is_last:
                _add(asc, out[line * BLOCK * out_pitch], c1, columns, out_pitch)
            turns = turns.after(Turns(l0_a=1))
        asc.set_flag(HardEvent.MTE1_MTE2, L1_A + turns.l1_a)
        asc.set_flag(HardEvent.M_MTE1, L0_B + turns.l0_b)
        turns = turns.after(Turns(l1_a=1, l1_b=1, l0_b=1))
