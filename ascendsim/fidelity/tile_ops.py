"""Published cycles of tile operations of arch 2201, rebuilt from vector instructions and scheduled alone.

A tile is rows x cols in UB, row after row. How it becomes repeats is what pto-isa's tile operations do: a contiguous
tile is one run of whole repeats with a masked one behind it, or one run in counter mode where rows are longer than a
repeat and no whole ones; operations of two tiles whose rows are shorter than a repeat take one masked repeat for each
row; what is not contiguous takes one instruction for each 256 B of a row, with a repeat for each row. Tiles start alike
modulo 512 B, as the rows state, so both sources of an operation meet in every bank group.

Cycles are those of the pipe from its first start to its last result. What the scalar unit does before the first
instruction is left out: in counter mode two mask set-ups of a cycle each. Row reductions are measured 10 cycles longer
than that, constantly; nothing that is published of the scalar unit makes 10 of these.

Sources: hw-native-sys+pto-isa, tile operations of A2 and A3 (how a tile is covered) and its tests (cycles).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast as typing_cast

from ascendsim.device import Device
from ascendsim.dtypes import UINT8, DType
from ascendsim.fidelity.course import Course
from ascendsim.fidelity.lengths import number_in
from ascendsim.fidelity.measured import Measured, Uncovered
from ascendsim.fidelity.rebuild import dtype_of, ub_tensor
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams, begin_count
from ascendsim.isa.mmad import MmadParams
from ascendsim.isa.move import DataCopyExtParams, DataCopyParams
from ascendsim.isa.transpose import TransDataTo5HDParams
from ascendsim.memory import LocalTensor, place_in_gm
from ascendsim.record import AiCore
from ascendsim.terms import (
    DATABLOCK_BYTES,
    HardEvent,
    KernelType,
    Pipe,
    RoundMode,
    SelMode,
    TPosition,
    align_up,
    ceil_div,
)

_MOST_REPEATS = 255
_ALIKE_BYTES = 512
_MOST_LOADED = 1 << 20
"""Elements of a TLOAD: more than UB holds of any type."""


def course_of(row: Measured, device: Device) -> Course:
    """Return a measured tile operation, rebuilt.

    Raises:
        Uncovered: no instructions here do that, or the row does not say enough to rebuild it.
    """
    if row.op == "TLOAD":
        return _load(row, device)
    if row.op == "TMATMUL":
        return _product(row, device)
    return _in_ub(row, device)


def _in_ub(row: Measured, device: Device) -> Course:
    if row.op not in _BODIES:
        raise Uncovered(f"{row.op} is not rebuilt")
    tile, body = _tile(row), _BODIES[row.op]
    why = _why_not(row.op, tile, device)
    if why:
        raise Uncovered(why)
    return Course(lambda asc: body(asc, tile), Pipe.V, device, is_streamed=False)


def _why_not(op: str, tile: "Tile", device: Device) -> str:
    """Why a tile cannot be rebuilt, or ""."""
    length, ub = tile.rows * tile.cols * max(tile.dtype.bytes, tile.result.bytes), device.memory.ub_bytes.value
    if length > ub:
        return f"a tile of {length} B; UB holds {ub} B"
    if tile.cols * tile.dtype.bytes % DATABLOCK_BYTES and tile.rows > 1:
        return f"rows of {tile.cols * tile.dtype.bytes} B, which are no whole datablocks of {DATABLOCK_BYTES} B"
    if op == "TCVT" and not tile.is_contiguous:
        return "conversion of a part of a tile"
    if op == "TTRANS" and (tile.rows % 16 or tile.cols % 16 or tile.dtype.bytes not in (2, 4)):
        return "transposition of a ragged tile"
    return ""


# ---- tiles --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of a measurement.

    Attributes:
        dtype: of its elements.
        result: of the result's.
        cols: elements from one row to the next.
        valid_rows, valid_cols: what is computed.
    """

    dtype: DType
    result: DType
    rows: int
    cols: int
    valid_rows: int
    valid_cols: int

    @property
    def lanes(self) -> int:
        """Elements of a repeat."""
        return self.dtype.per_repeat

    @property
    def row_blocks(self) -> int:
        """Datablocks from one row to the next."""
        return self.cols * self.dtype.bytes // DATABLOCK_BYTES

    @property
    def is_contiguous(self) -> bool:
        """Whether what is computed lies in one piece."""
        return self.valid_cols == self.cols or self.valid_rows == 1

    @property
    def room_bytes(self) -> int:
        """From one tile to the next, so that all start alike."""
        return align_up(self.rows * self.cols * max(self.dtype.bytes, self.result.bytes), _ALIKE_BYTES)

    def at(self, place: int, dtype: DType | None = None) -> LocalTensor:
        """Return a tile of this shape; sources come first, then the destination."""
        return ub_tensor(f"tile{place}", dtype or self.dtype, place * self.room_bytes, self.room_bytes)


def _tile(row: Measured) -> Tile:
    if row.rows is None or row.cols is None:
        raise Uncovered("shape not stated")
    dtype = dtype_of(row.dtype)
    valid_rows = row.rows if row.valid_rows is None else row.valid_rows
    valid_cols = row.cols if row.valid_cols is None else row.valid_cols
    return Tile(dtype, dtype_of(row.dst_dtype) if row.dst_dtype else dtype, row.rows, row.cols, valid_rows, valid_cols)


@dataclass(frozen=True, slots=True)
class Piece:
    """What one instruction takes of a tile.

    Attributes:
        first: its first element.
        active: lanes of a repeat; elements of all of it in counter mode.
        repeat: repeats, None for counter mode.
        rep_stride: datablocks from one repeat to the next.
    """

    first: int
    active: int
    repeat: int | None = None
    rep_stride: int = 8

    @property
    def binary(self) -> tuple[int | BinaryRepeatParams, ...]:
        """What the call takes behind its operands: the count, or mask, repeats and strides."""
        if self.repeat is None:
            return (self.active,)
        n = self.rep_stride
        return self.active, self.repeat, BinaryRepeatParams(1, 1, 1, n, n, n)

    @property
    def unary(self) -> tuple[int | UnaryRepeatParams, ...]:
        """The same for an operation of one source."""
        if self.repeat is None:
            return (self.active,)
        return self.active, self.repeat, UnaryRepeatParams(1, 1, self.rep_stride, self.rep_stride)


def pieces_of_one(tile: Tile) -> Iterator[Piece]:
    """Return the instructions of an operation of one tile."""
    if not tile.is_contiguous:
        yield from _by_rows(tile)
        return
    count = tile.valid_rows * tile.valid_cols
    whole, rest = divmod(count, tile.lanes)
    is_ragged = tile.cols > tile.lanes and tile.cols % tile.lanes != 0
    if is_ragged or whole + (rest > 0) > _MOST_REPEATS:
        yield Piece(0, count)
        return
    if whole:
        yield Piece(0, tile.lanes, whole)
    if rest:
        yield Piece(whole * tile.lanes, rest, 1)


def pieces_of_two(tile: Tile) -> Iterator[Piece]:
    """Return the instructions of an operation of two tiles."""
    if tile.cols < tile.lanes and tile.rows <= _MOST_REPEATS:
        yield Piece(0, tile.cols, tile.valid_rows, tile.row_blocks)
    else:
        yield from pieces_of_one(tile)


def _by_rows(tile: Tile) -> Iterator[Piece]:
    """One instruction for each repeat's length of the rows, with a repeat for each row."""
    for first in range(0, tile.valid_cols, tile.lanes):
        active = min(tile.lanes, tile.valid_cols - first)
        for row in range(0, tile.valid_rows, _MOST_REPEATS):
            repeat = min(_MOST_REPEATS, tile.valid_rows - row)
            yield Piece(row * tile.cols + first, active, repeat, tile.row_blocks)


# ---- element by element -------------------------------------------------------------------------------------------

_Body = Callable[[AiCore, Tile], None]
"""Records a tile operation."""


def _two_tiles(name: str) -> _Body:
    def body(asc: AiCore, tile: Tile) -> None:
        a, b, dst = (tile.at(place) for place in range(3))
        for p in pieces_of_two(tile):
            getattr(asc, name)(dst[p.first], a[p.first], b[p.first], *p.binary)

    return body


def _one_tile(name: str) -> _Body:
    def body(asc: AiCore, tile: Tile) -> None:
        src, dst = tile.at(0), tile.at(1)
        for p in pieces_of_one(tile):
            getattr(asc, name)(dst[p.first], src[p.first], *p.unary)

    return body


def _with_scalar(name: str) -> _Body:
    def body(asc: AiCore, tile: Tile) -> None:
        src, dst = tile.at(0), tile.at(1)
        for p in pieces_of_one(tile):
            getattr(asc, name)(dst[p.first], src[p.first], 1, *p.unary)

    return body


def _divide_by_scalar(asc: AiCore, tile: Tile) -> None:
    """The scalar is spread over dst, and the tile divided by it, or it by the tile."""
    src, dst, divide = tile.at(0), tile.at(1), typing_cast("Callable[..., None]", asc.div)
    for p in pieces_of_one(tile):
        if p.repeat is None:
            asc.duplicate(dst, 1, p.active)
        else:
            asc.duplicate(dst[p.first], 1, p.active, p.repeat, 1, p.rep_stride)
        asc.pipe_barrier(Pipe.V)
        divide(dst[p.first], src[p.first], dst[p.first], *p.binary)


def _convert(asc: AiCore, tile: Tile) -> None:
    asc.deq_scale = 0
    mode = RoundMode.CAST_RINT if tile.result.bytes < tile.dtype.bytes else RoundMode.CAST_NONE
    asc.cast(tile.at(1, tile.result), tile.at(0), mode, tile.valid_rows * tile.valid_cols)


# ---- rows and columns -------------------------------------------------------------------------------------------


def _row_reduce(reduce: str, fold: str) -> _Body:
    """Each row to one element: folded to one repeat in a temp if it is longer, then reduced, a repeat for each row."""

    def body(asc: AiCore, tile: Tile) -> None:
        src, temp, dst = (tile.at(place) for place in range(3))
        if tile.valid_cols > tile.lanes:
            _fold_rows(asc, tile, fold)
            asc.pipe_barrier(Pipe.V)
        else:
            temp = src
        active = min(tile.valid_cols, tile.lanes)
        for row in range(0, tile.valid_rows, _MOST_REPEATS):
            repeat = min(_MOST_REPEATS, tile.valid_rows - row)
            getattr(asc, reduce)(dst[row], temp[row * tile.cols], active, repeat, 1, 1, tile.row_blocks)

    return body


def _fold_rows(asc: AiCore, tile: Tile, fold: str) -> None:
    """The first two repeats' lengths of each row into a temp, then the rest of the row, then the lengths between."""
    src, temp = tile.at(0), tile.at(1)
    whole, rest = divmod(tile.valid_cols, tile.lanes)
    n = tile.row_blocks
    strides = BinaryRepeatParams(1, 1, 1, n, n, n)
    if whole == 1:
        asc.data_copy(temp, src, DataCopyParams(tile.valid_rows, 8, n - 8, n - 8))
    else:
        getattr(asc, fold)(temp, src, src[tile.lanes], tile.lanes, tile.valid_rows, strides)
    if rest:
        asc.pipe_barrier(Pipe.V)
        getattr(asc, fold)(temp, temp, src[whole * tile.lanes], rest, tile.valid_rows, strides)
    for part in range(2, whole):
        asc.pipe_barrier(Pipe.V)
        getattr(asc, fold)(temp, temp, src[part * tile.lanes], tile.lanes, tile.valid_rows, strides)


def _row_expand(asc: AiCore, tile: Tile) -> None:
    """The scalar unit reads the first element of each row, behind one flag, and a Duplicate spreads it."""
    src, dst = tile.at(0), tile.at(1)
    ready = asc.fetch_event_id(HardEvent.V_S)
    read = asc.fetch_event_id(HardEvent.S_V)
    asc.set_flag(HardEvent.V_S, ready)
    asc.wait_flag(HardEvent.V_S, ready)
    begin_count(asc, "Duplicate", tile.valid_cols)
    for row in range(tile.valid_rows):
        value = asc.get_value(src, row * tile.cols)
        asc.set_flag(HardEvent.S_V, read)
        asc.wait_flag(HardEvent.S_V, read)
        asc.duplicate(dst[row * tile.cols], value, None, 1)


def _column_reduce(fold: str) -> _Body:
    """The first row is copied, each further one folded into it, behind a barrier."""

    def body(asc: AiCore, tile: Tile) -> None:
        src, dst = tile.at(0), tile.at(1)
        asc.data_copy(dst, src, DataCopyParams(1, ceil_div(tile.valid_cols * tile.dtype.bytes, DATABLOCK_BYTES)))
        for row in range(1, tile.valid_rows):
            asc.pipe_barrier(Pipe.V)
            getattr(asc, fold)(dst, dst, src[row * tile.cols], tile.valid_cols)

    return body


# ---- others -----------------------------------------------------------------------------------------------------


def _select(asc: AiCore, tile: Tile) -> None:
    """A row at a time, a repeat at a time: the compare mask is set, then the repeat is selected."""
    a, b, dst, bits = tile.at(0), tile.at(1), tile.at(2), tile.at(3, UINT8)
    for row in range(tile.valid_rows):
        for first in range(0, tile.valid_cols, tile.lanes):
            at, active = row * tile.cols + first, min(tile.lanes, tile.valid_cols - first)
            asc.select(dst[at], bits, a[at], b[at], SelMode.VSEL_CMPMASK_SPR, active, 1)


def _transpose(asc: AiCore, tile: Tile) -> None:
    """Sixteen rows at a time into a temp, which is copied."""
    src, temp, dst = (tile.at(place) for place in range(3))
    width, rows = tile.dtype.per_datablock, tile.rows
    entries = 16 // width  # entries of a destination row of sixteen elements
    for band in range(0, tile.rows, 16):
        sources = [src[(band + i) * tile.cols] for i in range(16)]
        targets = [temp[i // entries * rows + band + i % entries * width] for i in range(16)]
        blocks = width * rows * tile.dtype.bytes // DATABLOCK_BYTES
        asc.trans_data_to5hd(targets, sources, TransDataTo5HDParams(False, False, tile.cols // width, blocks, 1))
    asc.pipe_barrier(Pipe.V)
    asc.data_copy(dst, temp, tile.rows * tile.cols)


def _move(asc: AiCore, tile: Tile) -> None:
    length = ceil_div(tile.valid_cols * tile.dtype.bytes, DATABLOCK_BYTES)
    gap = tile.row_blocks - length
    asc.data_copy(tile.at(1), tile.at(0), DataCopyParams(tile.valid_rows, length, gap, gap))


def _load(row: Measured, device: Device) -> Course:
    """A load for each tile of the three outer dimensions, one burst a row; from L2."""
    stated = re.search(r"GM global shape (\d+)x(\d+)x(\d+)x(\d+)x(\d+);.*; ND;", row.conditions)
    if stated is None or row.cols is None:
        raise Uncovered("only tiles in ND whose shape in GM is stated")
    *outer, rows, cols = (number_in(n, _MOST_LOADED, "GM global shape") for n in stated.groups())
    dtype, count = dtype_of(row.dtype), outer[0] * outer[1] * outer[2]
    if not 0 < count * rows * cols <= _MOST_LOADED or cols > row.cols:
        raise Uncovered(f"a shape in GM of {count} x {rows} x {cols} does not fill a tile of {row.cols} columns")
    gm = place_in_gm([("x", dtype, (count * rows * cols,))])
    pad = (row.cols - cols) * dtype.bytes // DATABLOCK_BYTES
    tile = ub_tensor("tile", dtype, 0, rows * row.cols * dtype.bytes)

    def body(asc: AiCore) -> None:
        for number in range(count):
            asc.data_copy_pad(tile, gm[0][number * rows * cols], DataCopyExtParams(rows, cols * dtype.bytes, 0, pad))

    return Course(body, Pipe.MTE2, device, is_streamed=False, gm=gm)


def _product(row: Measured, device: Device) -> Course:
    if row.mkn is None:
        raise Uncovered("shape of the product not stated")
    m, k, n = row.mkn
    kind, result = dtype_of(row.dtype), dtype_of(row.dst_dtype)
    tensors = (
        LocalTensor("c", TPosition.CO1, result, 0, 0x20000),
        LocalTensor("a", TPosition.A2, kind, 0, 0x10000),
        LocalTensor("b", TPosition.B2, kind, 0, 0x10000),
    )
    params = MmadParams(m, n, k)
    kind_of_core = KernelType.AIC_ONLY
    return Course(lambda asc: asc.mmad(*tensors, params), Pipe.M, device, is_streamed=False, kernel_type=kind_of_core)


_BODIES: dict[str, _Body] = {
    **{
        op: _two_tiles(name)
        for op, name in (
            ("TADD", "add"), ("TSUB", "sub"), ("TMUL", "mul"), ("TDIV", "div"), ("TMAX", "max"), ("TMIN", "min"),
            ("TAND", "and_"), ("TOR", "or_"),
        )
    },
    **{
        op: _one_tile(name)
        for op, name in (
            ("TABS", "abs"), ("TEXP", "exp"), ("TLOG", "ln"), ("TSQRT", "sqrt"), ("TRSQRT", "rsqrt"),
            ("TRELU", "relu"), ("TNOT", "not_"),
        )
    },
    **{
        op: _with_scalar(name)
        for op, name in (
            ("TADDS", "adds"), ("TSUBS", "adds"), ("TMULS", "muls"), ("TMAXS", "maxs"), ("TMINS", "mins"),
            ("TLRELU", "leaky_relu"), ("TNEG", "muls"),
        )
    },
    "TDIVS": _divide_by_scalar,
    "TRECIP": _divide_by_scalar,
    "TCVT": _convert,
    "TROWSUM": _row_reduce("whole_reduce_sum", "add"),
    "TROWMAX": _row_reduce("whole_reduce_max", "max"),
    "TROWMIN": _row_reduce("whole_reduce_min", "min"),
    "TROWEXPAND": _row_expand,
    "TCOLSUM": _column_reduce("add"),
    "TCOLMAX": _column_reduce("max"),
    "TCOLMIN": _column_reduce("min"),
    "TSEL": _select,
    "TTRANS": _transpose,
    "TMOV": _move,
}  # fmt: skip
"""Operations by pto-isa's names. TSORT32 and TLOADCONV have no counterpart here, or do not state what is moved."""
