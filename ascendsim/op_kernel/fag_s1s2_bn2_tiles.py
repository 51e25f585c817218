"""Vector work of template S1s2Bn2 of FlashAttention backward: row term, P, A and dS of a block.

It goes in strips of at most 256 rows: their row term, then sub-tiles in two halves of UB, ping and pong. Steps of a
pair: left of ping, left of pong, right of ping, right of pong.

    left     S -> [rows] -> scale, [bias] -> [hide] -> P = exp(S - max) / sum -> [drop] -> 16 bits -> [NZ] -> A
    right    dA -> [rows] -> [drop] -> dA - D -> dS = P (dA - D) -> 16 bits -> [NZ] -> dS

dA comes to the place of what the left step of its half has used up, so it waits for the store of A. Dropout reads bits
where the columns of a sub-tile divide S2, else the bytes of a pass before.

Inferred: pairs are sub-tiles that follow one another, strip by strip of their own height. Dropped P goes to dA's place,
with the temp of all as DropOut's; the dropout mask is loaded again for dA, as DropOut closes its rows up; a bias of
floats comes to the temp and is added from there. Float tiles are stored as they are.
Source: ops-transformer op_kernel, flash_attention_score_grad S1s2Bn2: steps, load order, places in UB.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ascendsim.dtypes import FLOAT, DType
from ascendsim.isa.move import DataCopyExtParams, DataCopyPadExtParams, DataCopyParams
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_host.fag_dealing import Block
from ascendsim.op_host.fag_parts import score_pitch
from ascendsim.op_host.fag_s1s2_bn2 import RowTermUb, S1s2Bn2Tiling
from ascendsim.op_host.softmax import soft_max_grad_tiling_func
from ascendsim.op_host.softmax_family import soft_max_tiling_func
from ascendsim.op_kernel.attention import pass_on
from ascendsim.op_kernel.fag_options import (
    MasksAt,
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
from ascendsim.op_kernel.fag_s1s2_bn2_places import scores_at, tiles_at
from ascendsim.op_kernel.fag_tensors import STATISTICS, Tensors
from ascendsim.op_kernel.fag_tiles import (
    Dropout,
    Masks,
    Options,
    SubTile,
    Ub,
    add_bias,
    drop_grad,
    drop_scores,
    hide_keys,
    load_bias,
    load_drop,
    load_mask,
    load_scores,
    subtract_row_term,
    to_columns,
    to_rows,
    zero_columns,
)
from ascendsim.op_kernel.simple_softmax import simple_softmax
from ascendsim.op_kernel.softmax_grad import softmax_grad_front
from ascendsim.op_kernel.softmax_grad_call import LANES, ROW_GROUP
from ascendsim.record import AiCore, tile
from ascendsim.terms import CUBE_SIDE, HardEvent, Pipe, RoundMode, align_up
from ascendsim.tpipe import TBuf

ID = 0
"""Event id of flags outside the sub-tiles, whose ids are those of their half."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A sub-tile and where what it reads begins.

    Attributes:
        row: its first in the strip.
        sub: the sub-tile.
        at: in the block's scores, and in what takes their place.
        masks: of its attention masks.
        bias, kept: of its position bias and dropout mask, behind those of the block.
    """

    row: int
    sub: SubTile
    at: int
    masks: MasksAt
    bias: int
    kept: int | None


@dataclass(frozen=True, slots=True)
class _Given:
    """What the scores of a sub-tile meet in GM; None for what there is not."""

    masks: Masks
    pse: GlobalTensor | None
    kept: GlobalTensor | None


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a block that an AIV works on, and the core whose scores they are (an AIV, in L1-custom the AIC)."""

    core: int
    first: int
    rows: int


def vector_block(
    asc: AiCore, gm: Tensors, buffer: TBuf, block: Block, part: Part, wait: Callable[[], None], t: S1s2Bn2Tiling
) -> None:
    """Make A and dS of a block.

    Args:
        asc: the core.
        gm: the tensors.
        buffer: UB.
        block: the block.
        part: the AIV's rows of it.
        wait: waits for S and dA; called once.
        t: the tiling.
    """
    n1 = t.call.shape.query_head(block.n2, block.g)
    scores, d_a = scores_at(gm, part.core, block, t)
    a, d_s = tiles_at(gm, part.core, block, t)
    mask, mask_pitch = mask_of_block(gm, block, n1, t)
    options = Options(t.scale, mask_pitch, bias_form(t), dropout(t))
    if not part.rows:
        wait()
    for first in range(part.first, part.first + part.rows, t.row_strip):
        rows = min(t.row_strip, part.first + part.rows - first)
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
        if first == part.first:
            wait()
        row = ((block.b * t.query.n + n1) * t.query.s + s1) * STATISTICS
        _strip(
            asc,
            gm.softmax_sum[row],
            gm.softmax_max[row],
            scores,
            d_a,
            a,
            d_s,
            mask,
            bias_of_block(gm, block, n1, t),
            kept_of_block(gm, block, n1, t),
            (Ub(buffer, t.halves[0]), Ub(buffer, t.halves[1])),
            tuple(_sub_tiles(block, first, rows, options.drop, t)),
            options,
        )


def _sub_tiles(block: Block, first: int, rows: int, drop: Dropout | None, t: S1s2Bn2Tiling) -> Iterator[_Placed]:
    """Yield the sub-tiles of a strip of a block, along S2 first."""
    tiles = t.tiling.tiles
    height, width = tiles.vec_s1 or 1, tiles.vec_s2 or 1
    is_nz = tiles.is_score_nz
    pitch = score_pitch(block.rows, block.columns, is_nz=is_nz)
    unit = CUBE_SIDE if is_nz else FLOAT.per_datablock
    for row in range(0, rows, height):
        for column in range(0, block.columns, width):
            columns, down = min(width, block.columns - column), first + row
            sub = SubTile(min(height, rows - row), columns, align_up(columns, unit), pitch, is_nz)
            at = column // CUBE_SIDE * pitch + down * CUBE_SIDE if is_nz else down * pitch + column
            masks, bias = masks_at(down, column, sub, block, t), bias_at(down, column, sub, block, t)
            yield _Placed(row, sub, at, masks, bias, drop.bytes_of(down * drop.pitch + column) if drop else None)


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
    mask: GlobalTensor | None,
    pse: GlobalTensor | None,
    kept: GlobalTensor | None,
    halves: tuple[Ub, Ub],
    placed: tuple[_Placed, ...],
    options: Options,
) -> None:
    """The sub-tiles of a strip in pairs: their left steps, then their right steps."""
    for first in range(0, len(placed), len(halves)):
        pair = placed[first : first + len(halves)]
        for half, one in enumerate(pair):
            row = one.row * STATISTICS
            if first:
                asc.wait_flag(HardEvent.MTE3_MTE2, half)
            given = _Given(masks_of(mask, one.masks), part_of(pse, one.bias), part_of(kept, one.kept))
            _load_left(asc, sums[row], maxima[row], scores[one.at], given, halves[half], one.sub, options, half)
            _left(asc, a[one.at], given, halves[half], one.sub, options, half)
            asc.set_flag(HardEvent.MTE3_MTE2, half)
        for half, one in enumerate(pair):
            asc.wait_flag(HardEvent.MTE3_MTE2, half)
            _right(asc, grad[one.at], d_s[one.at], part_of(kept, one.kept), halves[half], one, options.drop, half)
            if first + len(halves) + half < len(placed):
                asc.set_flag(HardEvent.MTE3_MTE2, half)


def _load_left(
    asc: AiCore,
    sums: GlobalTensor,
    maxima: GlobalTensor,
    scores: GlobalTensor,
    given: _Given,
    ub: Ub,
    sub: SubTile,
    options: Options,
    half: int,
) -> None:
    """Load what a left step needs: bias, attention mask, dropout mask, sums, maxima, S."""
    at, count = ub.at, sub.rows * STATISTICS
    with asc.trace("load S"):
        if given.pse and options.bias:
            if given.pse.dtype is FLOAT:
                pass_on(asc, HardEvent.V_MTE2, half)
            load_bias(asc, given.pse, options.bias, _bias_ub(ub, given.pse.dtype), sub)
        first_mask = given.masks.hides or given.masks.keeps
        if first_mask:
            load_mask(asc, first_mask, options.mask_pitch, ub, sub)
        if given.kept and options.drop:
            load_drop(asc, given.kept, at.drop, options.drop, ub, sub)
        asc.data_copy(ub.floats(at.statistics, count), sums, count)
        asc.data_copy(ub.floats(at.statistics + at.statistic_bytes, count), maxima, count)
        _load_tile(asc, ub.floats(at.scores, sub.count), scores, sub)
        pass_on(asc, HardEvent.MTE2_V, half)


def _left(asc: AiCore, result: GlobalTensor, given: _Given, ub: Ub, sub: SubTile, options: Options, half: int) -> None:
    """Make P of a sub-tile, which stays in UB, and store it as A."""
    at, bias = ub.at, options.bias
    s, temp = ub.floats(at.scores, sub.count), ub.bytes(at.temp, at.temp_bytes)
    sums, maxima = (ub.floats(at.statistics + i * at.statistic_bytes, sub.rows * STATISTICS) for i in range(2))
    with asc.trace("P"):
        if sub.is_nz:
            to_rows(asc, s, ub, sub)
        if given.pse and bias and bias.comes_first:
            add_bias(asc, s, given.pse.dtype, bias, _bias_ub(ub, given.pse.dtype), sub)
        asc.muls(s, s, options.scale, sub.count)
        asc.pipe_barrier(Pipe.V)
        if given.pse and bias and not bias.comes_first:
            add_bias(asc, s, given.pse.dtype, bias, _bias_ub(ub, given.pse.dtype), sub)
        hide_keys(asc, s, given.masks, options.mask_pitch, ub, sub)
        tiling = soft_max_tiling_func((sub.rows, sub.width), FLOAT.bytes, at.temp_bytes)
        simple_softmax(asc, s, sums, maxima, s, temp, tiling, is_basic_block=sub.is_basic_block)
        asc.pipe_barrier(Pipe.V)
    stays, narrow = s, at.narrow
    if options.drop:
        stays, narrow = ub.floats(at.grad, sub.count), at.grad
        with asc.trace("drop"):
            drop_scores(asc, stays, s, at.drop, temp, options.drop, ub, sub)
    _store_tile(asc, result, stays, narrow, ub, sub, half)


def _bias_ub(ub: Ub, element: DType) -> Ub:
    """Return UB as the calls of a bias should see it: one of floats has no place but the temp."""
    return replace(ub, at=replace(ub.at, narrow=ub.at.temp)) if element is FLOAT else ub


def _right(
    asc: AiCore,
    grad: GlobalTensor,
    result: GlobalTensor,
    kept: GlobalTensor | None,
    ub: Ub,
    placed: _Placed,
    drop: Dropout | None,
    half: int,
) -> None:
    """Make dS of a sub-tile over the P that its left step left in UB, and store it."""
    at, sub = ub.at, placed.sub
    d_a, p = ub.floats(at.grad, sub.count), ub.floats(at.p, sub.count)
    row_bytes = at.row_term + placed.row * STATISTICS * FLOAT.bytes
    row_terms = ub.floats(row_bytes, sub.rows * STATISTICS)
    with asc.trace("load dA"):
        _load_tile(asc, d_a, grad, sub)
        if kept and drop:
            load_drop(asc, kept, at.grad_drop, drop, ub, sub)
        pass_on(asc, HardEvent.MTE2_V, half)
    with asc.trace("dS"):
        drop_grad(asc, d_a, drop, ub, sub)
        subtract_row_term(asc, d_a, row_terms, sub)
        asc.pipe_barrier(Pipe.V)
        asc.mul(p, p, d_a, sub.count)
        asc.pipe_barrier(Pipe.V)
    _store_tile(asc, result, p, at.narrow, ub, sub, half)


def _load_tile(asc: AiCore, dst: LocalTensor, src: GlobalTensor, sub: SubTile) -> None:
    """Load a tile of scores; in rows up to its own last column, with zeros to the end of a datablock."""
    if sub.is_nz:
        load_scores(asc, dst, src, sub)
        return
    bursts = DataCopyExtParams(sub.rows, sub.columns * FLOAT.bytes, (sub.pitch - sub.columns) * FLOAT.bytes, 0)
    asc.data_copy_pad(dst, src, bursts, DataCopyPadExtParams(True, 0, sub.width - sub.columns, 0))


def _store_tile(
    asc: AiCore, dst: GlobalTensor, src: LocalTensor, narrow_bytes: int, ub: Ub, sub: SubTile, half: int
) -> None:
    """Store a tile in its type: 16 bits rounded, ties away from zero, and put into NZ; floats as they are."""
    if sub.is_nz:
        narrow = ub.narrow(narrow_bytes, sub.count + sub.panels * CUBE_SIDE, dst.dtype)
        with asc.trace("cast"):
            rows = ub.narrow(ub.at.temp, sub.count, dst.dtype)
            asc.cast(narrow, src, RoundMode.CAST_ROUND, sub.count)
            asc.pipe_barrier(Pipe.V)
            if sub.columns < sub.width:
                zero_columns(asc, narrow, sub.rows, sub.columns, sub.width)
                asc.pipe_barrier(Pipe.V)
            asc.data_copy(rows, narrow, sub.count)
            asc.pipe_barrier(Pipe.V)
            to_columns(asc, narrow, rows, sub)
    with asc.trace("store"):
        pass_on(asc, HardEvent.V_MTE3, half)
        if sub.is_nz:
            between = sub.pitch // CUBE_SIDE
            asc.data_copy(dst, narrow, DataCopyParams(sub.panels, sub.rows, 1, between - sub.rows))
        else:
            row, pitch = sub.columns * FLOAT.bytes, sub.pitch * FLOAT.bytes
            asc.data_copy_pad(dst, src, DataCopyExtParams(sub.rows, row, 0, pitch - row))
