"""Vector part of LaserAttentionGrad: P and dS of the segments of a round, by an AIV for its 64 rows of each block.

    of a line    D = rowsum(O * dO), L = ln(sum) + max
    of a block   S -> scale, [hide], subtract L, exp: P -> 16 bits in place of S
                 dP -> subtract D, multiply by P: dS -> 16 bits in place of dP

Each in two halves of 32 rows: half 0 with event 1 and the first half of each buffer, half 1 with event 0 and the
second. Rows of 16 bits lie one behind the other from the start of the AIV's half of the floats' place on, so the stores
of a half overwrite only what has been loaded.

    UB, KiB   float 32, float 32, 16-bit 16, 16-bit 16, row sums 1, spread 8, L 1, spread 8, max 1, sum 1,
              mask 16, float of the mask 32; the window's kernel has 16 more for its second mask

Source: ascend-transformer-boost, laser_attention_grad kernel, vector part: steps, buffers, events.
"""

from dataclasses import dataclass

from ascendsim.dtypes import BFLOAT16, FLOAT, DType
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.move import BrcbRepeatParams, DataCopyExtParams
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_host.lag_blocks import BLOCK, Block
from ascendsim.op_kernel.attention import pass_on
from ascendsim.op_kernel.laser_cube import AIV_ROWS, BLOCK_FLOATS
from ascendsim.record import AiCore, tile
from ascendsim.terms import HardEvent, Pipe, RoundMode
from ascendsim.tpipe import TBuf

HALF_ROWS = 32
HALF = HALF_ROWS * BLOCK
"""Elements of half of an AIV's share of a block."""
HALVES = 2
LANES = FLOAT.per_repeat
ROW_BLOCKS = BLOCK // FLOAT.per_datablock
"""Datablocks of a row of floats."""
HIDDEN = -1e30
"""What a mask of 1 adds to a score."""
KIB = 1024
AT_WIDE, AT_GRAD, AT_NARROW, AT_NARROW_GRAD = 0, 32 * KIB, 64 * KIB, 80 * KIB
AT_SUMS, AT_SUMS_SPREAD, AT_LEVEL, AT_LEVEL_SPREAD = 96 * KIB, 97 * KIB, 105 * KIB, 106 * KIB
AT_MAX, AT_SUM, AT_MASK, AT_WIDE_MASK = 114 * KIB, 115 * KIB, 116 * KIB, 132 * KIB
AT_HEAD_MASK = 164 * KIB
"""Of the window's kernel."""
REPEATS = HALF // LANES
ONE, BOTH = UnaryRepeatParams(), BinaryRepeatParams()
WIDEN, NARROW = UnaryRepeatParams(1, 1, 8, 4), UnaryRepeatParams(1, 1, 4, 8)
"""Repeats of 64 between floats and 16 bits."""
WITH_ROW = BinaryRepeatParams(1, 1, 0, ROW_BLOCKS, ROW_BLOCKS, 1)
"""A row of floats and one datablock for all of it."""


def event_of(half: int) -> int:
    """Return the event id of a half."""
    return 1 - half


@dataclass(frozen=True, slots=True)
class Places:
    """UB."""

    buffer: TBuf

    def floats(self, at_bytes: int, count: int) -> LocalTensor:
        """Return a view of floats."""
        return self.buffer.get_with_offset(FLOAT, count, at_bytes)

    def narrow(self, at_bytes: int, count: int, element: DType = BFLOAT16) -> LocalTensor:
        """Return a view of 16-bit elements."""
        return self.buffer.get_with_offset(element, count, at_bytes)


@dataclass(frozen=True, slots=True)
class MaskForm:
    """How the mask is read.

    Attributes:
        element: type of its bits.
        pitch: from row to row [elements].
    """

    element: DType
    pitch: int


# ---- a line ----------------------------------------------------------------------------------------------------------


@tile
def line_terms(
    asc: AiCore, out: GlobalTensor, d_out: GlobalTensor, maxima: GlobalTensor, sums: GlobalTensor, ub: Places
) -> None:
    """Make D and L of this AIV's 64 rows of a line, spread to a datablock a row, and open the halves.

    Args:
        asc: the core.
        out: O of the first row.
        d_out: dO of the first row.
        maxima: of the rows, one number each.
        sums: like maxima.
        ub: places in UB.
    """
    row_sums = ub.floats(AT_SUMS, 2 * AIV_ROWS)
    with asc.trace("row term"):
        for half in range(HALVES):
            _half_of_line(asc, out, d_out, maxima, sums, ub, half)
        level, total = ub.floats(AT_LEVEL, AIV_ROWS), ub.floats(AT_SUM, AIV_ROWS)
        asc.brcb(ub.floats(AT_SUMS_SPREAD, AIV_ROWS * 8), row_sums, AIV_ROWS // 8, BrcbRepeatParams(1, 8))
        asc.ln(level, total, LANES, 1, ONE)
        asc.pipe_barrier(Pipe.V)
        asc.add(level, level, ub.floats(AT_MAX, AIV_ROWS), LANES, 1, BOTH)
        asc.pipe_barrier(Pipe.V)
        asc.brcb(ub.floats(AT_LEVEL_SPREAD, AIV_ROWS * 8), level, AIV_ROWS // 8, BrcbRepeatParams(1, 8))
        asc.pipe_barrier(Pipe.V)
        for half in range(HALVES):
            asc.set_flag(HardEvent.MTE3_MTE2, event_of(half))


def _half_of_line(
    asc: AiCore,
    out: GlobalTensor,
    d_out: GlobalTensor,
    maxima: GlobalTensor,
    sums: GlobalTensor,
    ub: Places,
    half: int,
) -> None:
    """Load half of the rows, and sum O * dO of each."""
    event_id, at, row = event_of(half), half * HALF, half * HALF_ROWS
    narrow, narrow_grad = (ub.narrow(place, HALVES * HALF)[at] for place in (AT_NARROW, AT_NARROW_GRAD))
    wide, wide_grad = (ub.floats(place, HALVES * HALF)[at] for place in (AT_WIDE, AT_GRAD))
    asc.data_copy(narrow, out[at], HALF)
    asc.data_copy(narrow_grad, d_out[at], HALF)
    asc.data_copy(ub.floats(AT_MAX, AIV_ROWS)[row], maxima[row], HALF_ROWS)
    asc.data_copy(ub.floats(AT_SUM, AIV_ROWS)[row], sums[row], HALF_ROWS)
    pass_on(asc, HardEvent.MTE2_V, event_id)
    asc.cast(wide, narrow, RoundMode.CAST_NONE, LANES, REPEATS, WIDEN)
    asc.cast(wide_grad, narrow_grad, RoundMode.CAST_NONE, LANES, REPEATS, WIDEN)
    asc.pipe_barrier(Pipe.V)
    asc.mul(wide, wide, wide_grad, LANES, REPEATS, BOTH)
    asc.pipe_barrier(Pipe.V)
    width = LANES
    while width >= FLOAT.per_datablock:
        packs = width == FLOAT.per_datablock
        dst = wide_grad if packs else wide  # rows of one datablock follow one another, where dO is used up
        strides = BinaryRepeatParams(1, 1, 1, 1 if packs else ROW_BLOCKS, ROW_BLOCKS, ROW_BLOCKS)
        asc.add(dst, wide, wide[width], width, HALF_ROWS, strides)
        asc.pipe_barrier(Pipe.V)
        width //= 2
    repeats = HALF_ROWS * FLOAT.per_datablock // LANES
    asc.block_reduce_sum(ub.floats(AT_SUMS, 2 * AIV_ROWS)[row], wide_grad, repeats, LANES, 1, 1, 8)
    asc.pipe_barrier(Pipe.V)
    pass_on(asc, HardEvent.V_MTE2, event_id)


def end_line(asc: AiCore) -> None:
    """Take back what `line_terms` has set, behind the blocks of the line."""
    for half in range(HALVES):
        asc.wait_flag(HardEvent.MTE3_MTE2, event_of(half))


# ---- a block ---------------------------------------------------------------------------------------------------------


@tile
def block_tiles(
    asc: AiCore,
    scores: GlobalTensor,
    d_p: GlobalTensor,
    diagonal: GlobalTensor | None,
    left_edge: GlobalTensor | None,
    ub: Places,
    mask: MaskForm,
    scale: float,
) -> None:
    """Make P and dS of this AIV's 64 rows of a block, in place of S and dP.

    Args:
        asc: the core.
        scores: S of the first row.
        d_p: like scores.
        diagonal: the mask's corner, from this AIV's first row on, where keys behind the query are hidden.
        left_edge: like diagonal, one column on, where keys before the window are.
        ub: places in UB.
        mask: how it is read.
        scale: factor of the scores.
    """
    with asc.trace("P"):
        for half in range(HALVES):
            _probabilities(asc, scores, diagonal, left_edge, ub, mask, scale, half)
    with asc.trace("dS"):
        for half in range(HALVES):
            _gradients(asc, d_p, ub, half)


def _probabilities(
    asc: AiCore,
    scores: GlobalTensor,
    diagonal: GlobalTensor | None,
    left_edge: GlobalTensor | None,
    ub: Places,
    mask: MaskForm,
    scale: float,
    half: int,
) -> None:
    event_id, at = event_of(half), half * HALF
    s = ub.floats(AT_WIDE, HALVES * HALF)[at]
    asc.wait_flag(HardEvent.MTE3_MTE2, event_id)
    asc.data_copy(s, scores[at], HALF)
    pass_on(asc, HardEvent.MTE2_V, event_id)
    asc.muls(s, s, scale, LANES, REPEATS, ONE)
    asc.pipe_barrier(Pipe.V)
    if left_edge:
        _hide(asc, s, left_edge, ub, AT_HEAD_MASK, mask, half, is_inverted=True)
    if diagonal:
        _hide(asc, s, diagonal, ub, AT_MASK, mask, half, is_inverted=False)
    _subtract_rows(asc, s, ub.floats(AT_LEVEL_SPREAD, AIV_ROWS * 8)[half * HALF_ROWS * 8])
    asc.exp(s, s, LANES, REPEATS, ONE)
    asc.pipe_barrier(Pipe.V)
    _store(asc, scores, s, ub.narrow(AT_NARROW, HALVES * HALF)[at], half)


def _gradients(asc: AiCore, d_p: GlobalTensor, ub: Places, half: int) -> None:
    event_id, at = event_of(half), half * HALF
    p, grad = (ub.floats(place, HALVES * HALF)[at] for place in (AT_WIDE, AT_GRAD))
    asc.wait_flag(HardEvent.MTE3_MTE2, event_id)
    asc.data_copy(grad, d_p[at], HALF)
    pass_on(asc, HardEvent.MTE2_V, event_id)
    _subtract_rows(asc, grad, ub.floats(AT_SUMS_SPREAD, AIV_ROWS * 8)[half * HALF_ROWS * 8])
    asc.mul(grad, p, grad, LANES, REPEATS, BOTH)
    asc.pipe_barrier(Pipe.V)
    _store(asc, d_p, grad, ub.narrow(AT_NARROW_GRAD, HALVES * HALF)[at], half)


def _subtract_rows(asc: AiCore, x: LocalTensor, spread: LocalTensor) -> None:
    """Subtract a number for each row, 64 columns at a time."""
    for column in range(0, BLOCK, LANES):
        asc.sub(x[column], x[column], spread, LANES, HALF_ROWS, WITH_ROW)
    asc.pipe_barrier(Pipe.V)


def _hide(
    asc: AiCore,
    s: LocalTensor,
    mask: GlobalTensor,
    ub: Places,
    at_bytes: int,
    form: MaskForm,
    half: int,
    *,
    is_inverted: bool,
) -> None:
    """Add -1e30 times the mask, inverted times 1 - mask, to half of the scores."""
    event_id, at = event_of(half), half * HALF
    bits = ub.narrow(at_bytes, HALVES * HALF, form.element)[at]
    wide = ub.floats(AT_WIDE_MASK, HALVES * HALF)[at]
    pass_on(asc, HardEvent.V_MTE2, event_id)
    size = form.element.bytes
    bursts = DataCopyExtParams(HALF_ROWS, BLOCK * size, (form.pitch - BLOCK) * size, 0)
    asc.data_copy_pad(bits, mask[half * HALF_ROWS * form.pitch], bursts)
    pass_on(asc, HardEvent.MTE2_V, event_id)
    asc.cast(wide, bits, RoundMode.CAST_NONE, LANES, REPEATS, WIDEN)
    asc.pipe_barrier(Pipe.V)
    if is_inverted:
        asc.muls(wide, wide, -1.0, LANES, REPEATS, ONE)
        asc.pipe_barrier(Pipe.V)
        asc.adds(wide, wide, 1.0, LANES, REPEATS, ONE)
        asc.pipe_barrier(Pipe.V)
    asc.muls(wide, wide, HIDDEN, LANES, REPEATS, ONE)
    asc.pipe_barrier(Pipe.V)
    asc.add(s, s, wide, LANES, REPEATS, BOTH)
    asc.pipe_barrier(Pipe.V)


def _store(asc: AiCore, dst: GlobalTensor, wide: LocalTensor, narrow: LocalTensor, half: int) -> None:
    """Round half of a tile to 16 bits, and store it behind the other half from where the floats begin."""
    event_id = event_of(half)
    asc.cast(narrow, wide, RoundMode.CAST_RINT, LANES, REPEATS, NARROW)
    pass_on(asc, HardEvent.V_MTE3, event_id)
    asc.data_copy(dst.reinterpret_cast(BFLOAT16)[half * HALF], narrow, HALF)
    asc.set_flag(HardEvent.MTE3_MTE2, event_id)


def block_at(block: Block, sub_block: int) -> int:
    """Return where an AIV's rows of a block begin, behind its core's area [floats]."""
    return block.slot * BLOCK_FLOATS + sub_block * AIV_ROWS * BLOCK
