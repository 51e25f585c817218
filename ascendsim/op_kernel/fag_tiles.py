"""Tiles of FlashAttention backward on a vector core: P and A of a vector sub-tile, and dS.

    A    S -> [rows] -> scale, [bias] in either order -> [hide] -> P = exp(S - max) / sum -> [drop] -> 16 bits
    B    dA -> [rows] -> [drop] -> dA - D -> dS = P (dA - D) -> 16 bits

What A makes goes to GM where S was, what B makes where dA was. A stored row of 16 bits begins where the row of floats
began, so it is twice as far from row to row as it is long. In NZ that goes for each 16 columns, so that an AIV
overwrites nothing but what it has loaded itself. P stays in UB between the two steps. Each step has one event id for
all its flags.
Source: ops-transformer op_kernel, flash_attention_score_grad SameAB: order of the steps, places in UB, flags.
"""

from dataclasses import dataclass

from ascendsim.dtypes import FLOAT, UINT8, UINT16, DType
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.move import CopyRepeatParams, DataCopyExtParams, DataCopyParams
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_host.fag_parts import BITS, MainUb
from ascendsim.op_host.softmax_family import soft_max_tiling_func
from ascendsim.op_kernel.attention import pass_on
from ascendsim.op_kernel.drop_out import DropOutMode, DropOutShapeInfo, drop_out
from ascendsim.op_kernel.select_with_bytes_mask import SelectWithBytesMaskShapeInfo, select_with_bytes_mask
from ascendsim.op_kernel.simple_softmax import simple_softmax
from ascendsim.op_kernel.softmax_grad_call import LANES, ROW_GROUP
from ascendsim.record import AiCore
from ascendsim.terms import CUBE_SIDE, DATABLOCK_BYTES, HardEvent, Pipe, RoundMode, align_up, ceil_div
from ascendsim.tpipe import TBuf

LOWEST = -3.4028234663852886e38
"""Score of a hidden key: the lowest finite float (0xFF7FFFFF)."""
NZ_BLOCKS = 2
"""Datablocks of a row of 16 floats."""
A_DROP_TEMP_BYTES = 32 * 1024
"""Temp of the dropout of P: from the place of A on, over what is used up of masks and statistics."""
COPY_PANELS = 8
"""Times 16 columns that one Copy takes: as many as a repeat has datablocks."""
STEP_A, STEP_B = 0, 1
"""Event ids of the two steps."""


@dataclass(frozen=True, slots=True)
class SubTile:
    """A vector sub-tile.

    Attributes:
        rows, columns: of scores.
        width: columns in whole fractals, as they lie in UB.
        pitch: from row to row of the block's scores in GM [floats]; in NZ from one 16 columns to the next.
        is_nz: they lie in NZ.
    """

    rows: int
    columns: int
    width: int
    pitch: int
    is_nz: bool

    @property
    def count(self) -> int:
        """Elements in UB."""
        return self.rows * self.width

    @property
    def panels(self) -> int:
        """Times 16 columns."""
        return self.width // CUBE_SIDE

    @property
    def is_basic_block(self) -> bool:
        """Whether SimpleSoftMax takes it as whole basic blocks."""
        return self.rows % ROW_GROUP == 0 and self.width % LANES == 0


@dataclass(frozen=True, slots=True)
class Turn:
    """Where in its core's share of a block a sub-tile stands."""

    is_first: bool
    is_last: bool
    starts_strip: bool
    """The sub-tile before it had other rows."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the call asks of all sub-tiles.

    Attributes:
        scale: factor of the scores.
        mask_pitch: from row to row of the attention mask.
        bias: how a position bias is added, None without one.
        drop: how scores are dropped, None without dropout.
    """

    scale: float
    mask_pitch: int
    bias: "Bias | None" = None
    drop: "Dropout | None" = None


@dataclass(frozen=True, slots=True)
class Masks:
    """The masks of a sub-tile; None for no such mask.

    Attributes:
        hides: bytes that are not 0 where a key is hidden.
        beside: bytes that are 0 where a key is not hidden whatever `hides` holds (a prefix).
        keeps: bytes that are 0 where a key is hidden.
    """

    hides: GlobalTensor | None
    beside: GlobalTensor | None
    keeps: GlobalTensor | None


@dataclass(frozen=True, slots=True)
class Ub:
    """The buffer of UB and the places in it; a view of bytes ends behind them, as library calls use all of a temp."""

    buffer: TBuf
    at: MainUb

    def floats(self, offset_bytes: int, count: int) -> LocalTensor:
        """Return a view of floats."""
        return self.buffer.get_with_offset(FLOAT, count, offset_bytes)

    def bytes(self, offset_bytes: int, count: int) -> LocalTensor:
        """Return a view of bytes."""
        return self.buffer.get_with_offset(UINT8, count, offset_bytes).with_size(count)

    def narrow(self, offset_bytes: int, count: int, element: DType) -> LocalTensor:
        """Return a view of 16-bit elements."""
        return self.buffer.get_with_offset(element, count, offset_bytes)


@dataclass(frozen=True, slots=True)
class Bias:
    """How the position bias comes to the scores.

    Attributes:
        pitch: from row to row in GM [elements]; 0 for one row that all rows of scores share.
        comes_first: it is added before the scores are scaled (pse_type 1), not behind.
    """

    pitch: int
    comes_first: bool


@dataclass(frozen=True, slots=True)
class Dropout:
    """How scores are dropped.

    Attributes:
        keep_prob: share of scores that stay.
        is_bytes: GM holds a byte for each score, else a bit.
        pitch: from row to row in GM [scores].
    """

    keep_prob: float
    is_bytes: bool
    pitch: int

    def bytes_of(self, scores: int) -> int:
        """Bytes of the mask for so many scores of a row."""
        return scores if self.is_bytes else ceil_div(scores, BITS)


def step_a(
    asc: AiCore,
    sums: GlobalTensor,
    maxima: GlobalTensor,
    scores: GlobalTensor,
    result: GlobalTensor,
    masks: Masks,
    pse: GlobalTensor | None,
    kept: GlobalTensor | None,
    ub: Ub,
    sub: SubTile,
    turn: Turn,
    options: Options,
) -> None:
    """Make P of a sub-tile, which stays in UB, and store it as A.

    Args:
        asc: the core.
        sums: of the rows, a datablock each.
        maxima: like sums.
        scores: the products, float.
        result: where A goes, of its type.
        masks: the attention masks.
        pse: the position bias, None without one.
        kept: the dropout mask, None without dropout.
        ub: places in UB.
        sub: the sub-tile.
        turn: where it stands.
        options: of the call.
    """
    at, bias, drop = ub.at, options.bias, options.drop
    s, p = ub.floats(at.scores, sub.count), ub.floats(at.p, sub.count)
    sum_local = ub.floats(at.statistics, sub.rows * FLOAT.per_datablock)
    max_local = ub.floats(at.statistics + at.statistic_bytes, sub.rows * FLOAT.per_datablock)
    with asc.trace("load S"):
        if not turn.is_first:
            asc.wait_flag(HardEvent.MTE3_MTE2, STEP_A)
        asc.data_copy(sum_local, sums, sub.rows * FLOAT.per_datablock)
        asc.data_copy(max_local, maxima, sub.rows * FLOAT.per_datablock)
        if pse and bias:
            load_bias(asc, pse, bias, ub, sub)
        first_mask = masks.hides or masks.keeps
        if first_mask:
            load_mask(asc, first_mask, options.mask_pitch, ub, sub)
        if kept and drop:
            load_drop(asc, kept, at.drop, drop, ub, sub)
        load_scores(asc, s, scores, sub)
        pass_on(asc, HardEvent.MTE2_V, STEP_A)
    with asc.trace("P"):
        if sub.is_nz:
            to_rows(asc, s, ub, sub)
        if pse and bias and bias.comes_first:
            add_bias(asc, s, pse.dtype, bias, ub, sub)
        asc.muls(s, s, options.scale, sub.count)
        asc.pipe_barrier(Pipe.V)
        if pse and bias and not bias.comes_first:
            add_bias(asc, s, pse.dtype, bias, ub, sub)
        hide_keys(asc, s, masks, options.mask_pitch, ub, sub)
        probabilities(asc, p, s, sum_local, max_local, ub, sub)
        asc.pipe_barrier(Pipe.V)
    stays = p
    if drop:
        stays, temp = ub.floats(at.temp, sub.count), ub.bytes(at.narrow, A_DROP_TEMP_BYTES)
        with asc.trace("drop"):
            drop_scores(asc, stays, p, at.drop, temp, drop, ub, sub)
    store_narrow(asc, result, stays, at.narrow, ub, sub, turn, STEP_A)


def hide_keys(
    asc: AiCore, s: LocalTensor, masks: Masks, pitch: int, ub: Ub, sub: SubTile, event_id: int = STEP_A
) -> None:
    """Hide keys by the masks of a sub-tile, of which the first one is in UB."""
    if masks.hides and masks.beside:
        spare_prefix(asc, masks.beside, pitch, ub, sub, event_id)
    if masks.hides:
        hide(asc, s, ub, sub, is_inverted=False)
    if masks.hides and masks.keeps:
        pass_on(asc, HardEvent.V_MTE2, event_id)
        load_mask(asc, masks.keeps, pitch, ub, sub)
        pass_on(asc, HardEvent.MTE2_V, event_id)
    if masks.keeps:
        hide(asc, s, ub, sub, is_inverted=True)


def step_b(
    asc: AiCore,
    row_terms: GlobalTensor,
    grad: GlobalTensor,
    result: GlobalTensor,
    kept: GlobalTensor | None,
    ub: Ub,
    sub: SubTile,
    turn: Turn,
    drop: Dropout | None,
) -> None:
    """Make dS of a sub-tile from the P that step A left in UB, and store it.

    Args:
        asc: the core.
        row_terms: D of the rows, a datablock each.
        grad: dA, float.
        result: where dS goes, of its type.
        kept: the dropout mask, None without dropout.
        ub: places in UB.
        sub: the sub-tile.
        turn: where it stands.
        drop: how scores are dropped.
    """
    at = ub.at
    d_a, p = ub.floats(at.grad, sub.count), ub.floats(at.p, sub.count)
    row_local = ub.floats(at.row_term, sub.rows * FLOAT.per_datablock)
    with asc.trace("load dA"):
        if not turn.is_first:
            asc.wait_flag(HardEvent.MTE3_MTE2, STEP_B)
        if turn.starts_strip:
            asc.data_copy(row_local, row_terms, sub.rows * FLOAT.per_datablock)
        if kept and drop:
            load_drop(asc, kept, at.grad_drop, drop, ub, sub)
        load_scores(asc, d_a, grad, sub)
        pass_on(asc, HardEvent.MTE2_V, STEP_B)
    with asc.trace("dS"):
        drop_grad(asc, d_a, drop, ub, sub)
        subtract_row_term(asc, d_a, row_local, sub)
        asc.pipe_barrier(Pipe.V)
        asc.mul(d_a, p, d_a, sub.count)
        asc.pipe_barrier(Pipe.V)
    store_narrow(asc, result, d_a, at.grad, ub, sub, turn, STEP_B)


def drop_grad(asc: AiCore, d_a: LocalTensor, drop: Dropout | None, ub: Ub, sub: SubTile) -> None:
    """Put dA into rows, and drop of it what is dropped of P."""
    if sub.is_nz:
        to_rows(asc, d_a, ub, sub)
    if drop:
        drop_scores(asc, d_a, d_a, ub.at.grad_drop, ub.bytes(ub.at.temp, ub.at.temp_bytes), drop, ub, sub)


def subtract_row_term(asc: AiCore, d_a: LocalTensor, row_terms: LocalTensor, sub: SubTile) -> None:
    """Make dA - D, 64 columns at a time; D of a row is a datablock."""
    blocks = sub.width // FLOAT.per_datablock
    strides = BinaryRepeatParams(1, 1, 0, blocks, blocks, 1)
    for column in range(0, sub.width, LANES):
        asc.sub(d_a[column], d_a[column], row_terms, min(LANES, sub.width - column), sub.rows, strides)


def load_scores(asc: AiCore, dst: LocalTensor, src: GlobalTensor, sub: SubTile) -> None:
    """Load a tile; of NZ each 16 columns leave a datablock free behind them, so that rows of all meet other banks."""
    if sub.is_nz:
        column, between = sub.rows * NZ_BLOCKS, sub.pitch // FLOAT.per_datablock
        asc.data_copy(dst, src, DataCopyParams(sub.panels, column, between - column, 1))
        return
    if sub.width == sub.pitch:
        asc.data_copy(dst, src, sub.count)
        return
    row, gap = (length // FLOAT.per_datablock for length in (sub.width, sub.pitch - sub.width))
    asc.data_copy(dst, src, DataCopyParams(sub.rows, row, gap, 0))


def load_mask(asc: AiCore, mask: GlobalTensor, pitch: int, ub: Ub, sub: SubTile, at_bytes: int | None = None) -> None:
    """Load the mask bytes of a tile, rows of whole datablocks, to the mask's place or another one."""
    local = ub.bytes(ub.at.mask if at_bytes is None else at_bytes, sub.rows * align_up(sub.columns, DATABLOCK_BYTES))
    asc.data_copy_pad(local, mask, DataCopyExtParams(sub.rows, sub.columns, pitch - sub.columns, 0))


def spare_prefix(asc: AiCore, beside: GlobalTensor, pitch: int, ub: Ub, sub: SubTile, event_id: int) -> None:
    """Clear bytes of the mask in UB where those of a second one, loaded to temp, are 0."""
    row = align_up(sub.columns, DATABLOCK_BYTES)
    pass_on(asc, HardEvent.V_MTE2, event_id)
    load_mask(asc, beside, pitch, ub, sub, ub.at.temp)
    pass_on(asc, HardEvent.MTE2_V, event_id)
    mask, other = (ub.bytes(at, sub.rows * row).reinterpret_cast(UINT16) for at in (ub.at.mask, ub.at.temp))
    asc.and_(mask, other, mask, sub.rows * row // UINT16.bytes)
    asc.pipe_barrier(Pipe.V)


def hide(asc: AiCore, s: LocalTensor, ub: Ub, sub: SubTile, *, is_inverted: bool) -> None:
    """Give hidden keys the lowest score: those whose mask byte is not 0, inverted those whose byte is 0."""
    row = align_up(sub.columns, DATABLOCK_BYTES)
    mask, temp = ub.bytes(ub.at.mask, sub.rows * row), ub.bytes(ub.at.temp, ub.at.temp_bytes)
    src0, src1 = (LOWEST, s) if is_inverted else (s, LOWEST)
    select_with_bytes_mask(asc, s, src0, src1, mask, temp, SelectWithBytesMaskShapeInfo(sub.rows, sub.width, row))


def load_bias(asc: AiCore, pse: GlobalTensor, bias: Bias, ub: Ub, sub: SubTile, at_bytes: int | None = None) -> None:
    """Load the bias of a tile, its rows or the one for all, to where A goes later or to another place."""
    rows, size = (sub.rows if bias.pitch else 1), pse.dtype.bytes
    local = ub.narrow(ub.at.narrow if at_bytes is None else at_bytes, rows * sub.width, pse.dtype)
    gap = (bias.pitch - sub.columns) * size if bias.pitch else 0
    rest = (sub.width - align_up(sub.columns, pse.dtype.per_datablock)) // pse.dtype.per_datablock
    asc.data_copy_pad(local, pse, DataCopyExtParams(rows, sub.columns * size, gap, rest))


def add_bias(asc: AiCore, s: LocalTensor, element: DType, bias: Bias, ub: Ub, sub: SubTile) -> None:
    """Widen the bias in temp, floats stay as they are, and add it to the scores."""
    count = sub.count if bias.pitch else sub.width
    wide = given = ub.narrow(ub.at.narrow, count, element)
    if element is not FLOAT:
        wide = ub.floats(ub.at.temp, count)
        asc.cast(wide, given, RoundMode.CAST_NONE, count)
        asc.pipe_barrier(Pipe.V)
    add_wide_bias(asc, s, wide, bias, sub)


def add_wide_bias(asc: AiCore, s: LocalTensor, wide: LocalTensor, bias: Bias, sub: SubTile) -> None:
    """Add a float bias to the scores, one row for all 64 columns at a time."""
    if bias.pitch:
        asc.add(s, s, wide, sub.count)
    else:
        blocks = sub.width // FLOAT.per_datablock
        strides = BinaryRepeatParams(1, 1, 1, blocks, blocks, 0)
        for column in range(0, sub.width, LANES):
            asc.add(s[column], s[column], wide[column], min(LANES, sub.width - column), sub.rows, strides)
    asc.pipe_barrier(Pipe.V)


def load_drop(asc: AiCore, keeps: GlobalTensor, at_bytes: int, drop: Dropout, ub: Ub, sub: SubTile) -> None:
    """Load the dropout mask of a tile, bits or bytes, in rows of whole datablocks."""
    row = drop.bytes_of(sub.columns)
    local = ub.bytes(at_bytes, sub.rows * align_up(row, DATABLOCK_BYTES))
    bursts = DataCopyExtParams(sub.rows, row, drop.bytes_of(drop.pitch) - row, 0)
    asc.data_copy_pad(local, keeps, bursts)


def drop_scores(
    asc: AiCore,
    dst: LocalTensor,
    src: LocalTensor,
    mask_bytes: int,
    temp: LocalTensor,
    drop: Dropout,
    ub: Ub,
    sub: SubTile,
) -> None:
    """Drop elements of a tile and scale the others; dst may be src.

    The mode is given: by the lengths alone DropOut takes rows of at most 32 bits for bytes.

    Args:
        asc: the core.
        dst: of the tile, float.
        src: like dst.
        mask_bytes: where in UB `load_drop` has put the mask.
        temp: of bytes, apart from the others.
        drop: how.
        ub: places in UB.
        sub: the sub-tile.
    """
    needed = drop.bytes_of(sub.width)
    row = align_up(needed, DATABLOCK_BYTES)
    whole, padded = (
        (DropOutMode.BYTE_ALIGN, DropOutMode.BYTE_MISALIGN)
        if drop.is_bytes
        else (DropOutMode.BIT_ALIGN, DropOutMode.BIT_MISALIGN)
    )
    mode, info = (whole if row == needed else padded), DropOutShapeInfo(sub.rows, sub.width, row)
    drop_out(asc, dst, src, ub.bytes(mask_bytes, sub.rows * row), temp, drop.keep_prob, info, drop_out_mode=mode)


def zero_columns(asc: AiCore, x: LocalTensor, rows: int, columns: int, width: int) -> None:
    """Zero what rows [rows, width] have behind so many columns, less than 16 of them, by a masked Duplicate."""
    if columns == width:
        return
    first = columns // CUBE_SIDE * CUBE_SIDE
    lanes = (1 << (width - first)) - (1 << (columns - first))
    asc.duplicate(x[first], 0.0, (lanes, 0), rows, 1, width // x.dtype.per_datablock)


def probabilities(
    asc: AiCore,
    p: LocalTensor,
    s: LocalTensor,
    sums: LocalTensor,
    maxima: LocalTensor,
    ub: Ub,
    sub: SubTile,
) -> None:
    """P = exp(S - max) / sum: SimpleSoftMax where it takes whole basic blocks, else 64 columns at a time."""
    if sub.is_basic_block:
        temp = ub.bytes(ub.at.temp, ub.at.temp_bytes)
        tiling = soft_max_tiling_func((sub.rows, sub.width), FLOAT.bytes, ub.at.temp_bytes)
        simple_softmax(asc, p, sums, maxima, s, temp, tiling, is_basic_block=True)
        return
    temp, blocks = ub.floats(ub.at.temp, sub.count), sub.width // FLOAT.per_datablock
    with_row, alone = BinaryRepeatParams(1, 1, 0, blocks, blocks, 1), UnaryRepeatParams(1, 1, blocks, blocks)
    for column in range(0, sub.width, LANES):
        mask = min(LANES, sub.width - column)
        asc.sub(p[column], s[column], maxima, mask, sub.rows, with_row)
        asc.pipe_barrier(Pipe.V)
        asc.exp(temp[column], p[column], mask, sub.rows, alone)
        asc.pipe_barrier(Pipe.V)
        asc.div(p[column], temp[column], sums, mask, sub.rows, with_row)


def store_narrow(
    asc: AiCore, dst: GlobalTensor, src: LocalTensor, at_bytes: int, ub: Ub, sub: SubTile, turn: Turn, event_id: int
) -> None:
    """Round a tile and store its rows where rows of floats begin."""
    size = dst.dtype.bytes
    narrow = ub.narrow(at_bytes, sub.count + sub.panels * CUBE_SIDE * sub.is_nz, dst.dtype)
    round_tile(asc, narrow, src, ub, sub)
    with asc.trace("store"):
        pass_on(asc, HardEvent.V_MTE3, event_id)
        if sub.is_nz:
            between = sub.pitch // FLOAT.per_datablock
            asc.data_copy(dst, narrow, DataCopyParams(sub.panels, sub.rows, 1, between - sub.rows))
        else:
            row_bytes, pitch_bytes = sub.width * size, sub.pitch * FLOAT.bytes
            asc.data_copy_pad(dst, narrow, DataCopyExtParams(sub.rows, row_bytes, 0, pitch_bytes - row_bytes))
        if not turn.is_last:
            asc.set_flag(HardEvent.MTE3_MTE2, event_id)


def round_tile(asc: AiCore, narrow: LocalTensor, src: LocalTensor, ub: Ub, sub: SubTile) -> None:
    """Round a tile to 16 bits, ties away from zero; put it into NZ where its block lies so, over temp."""
    with asc.trace("cast"):
        asc.cast(narrow, src, RoundMode.CAST_ROUND, sub.count)
        if sub.is_nz:
            rows = ub.narrow(ub.at.temp, sub.count, narrow.dtype)
            asc.pipe_barrier(Pipe.V)
            asc.data_copy(rows, narrow, sub.count)
            asc.pipe_barrier(Pipe.V)
            to_columns(asc, narrow, rows, sub)


# ---- NZ --------------------------------------------------------------------------------------------------------------


def to_rows(asc: AiCore, tile_local: LocalTensor, ub: Ub, sub: SubTile) -> None:
    """Put a tile that came in NZ into rows, over temp."""
    count = sub.panels * (sub.rows * NZ_BLOCKS + 1) * FLOAT.per_datablock
    temp = ub.floats(ub.at.temp, count)
    asc.data_copy(temp, tile_local, count)
    asc.pipe_barrier(Pipe.V)
    nz_to_rows(asc, tile_local, temp, sub.rows, sub.width)
    asc.pipe_barrier(Pipe.V)


def nz_to_rows(asc: AiCore, dst: LocalTensor, src: LocalTensor, rows: int, width: int) -> None:
    """Put floats in NZ, with a datablock free behind each 16 columns, into rows [rows, width].

    Repeats of a Copy are rows, its datablocks one half of each of 8 times 16 columns.
    """
    blocks = rows * NZ_BLOCKS + 1
    for first in range(0, width, COPY_PANELS * CUBE_SIDE):
        panels = min(COPY_PANELS, (width - first) // CUBE_SIDE)
        from_panel = first // CUBE_SIDE * blocks * FLOAT.per_datablock
        for half in range(0, CUBE_SIDE, FLOAT.per_datablock):
            strides = CopyRepeatParams(NZ_BLOCKS, blocks, width // FLOAT.per_datablock, NZ_BLOCKS)
            asc.copy(dst[first + half], src[from_panel + half], panels * FLOAT.per_datablock, rows, strides)


def to_columns(asc: AiCore, dst: LocalTensor, src: LocalTensor, sub: SubTile) -> None:
    """Put rows of 16-bit elements into NZ, with a datablock free behind each 16 columns."""
    lanes = COPY_PANELS * CUBE_SIDE
    for first in range(0, sub.width, lanes):
        strides = CopyRepeatParams(sub.rows + 1, 1, 1, sub.panels)
        to = first * (sub.rows + 1)
        asc.copy(dst[to], src[first], min(lanes, sub.width - first), sub.rows, strides)
