"""Tile operations of arch 3510 rebuilt as vector functions, and the bank conflict cases of the vendor.

A tile operation of pto-isa (family pto_tileop_a5) is one vector function: a loop over 256 B at a time where the valid
columns are all columns, else a loop over rows around one over columns. Whether its implementation advances addresses by
the instruction ("POST_UPDATE") or computes them changes no micro-operation. The rows state no addresses: tiles lie one
behind the other, and one that would not fit into UB any more lies on the first source.

The cases of the vendor's example bank_conflict_3510 (family ascendc_reg) are calls of a vector function in a stream, at
addresses that its page states by case.
Sources: pto-isa, element-wise tile operations of A5; asc-devkit, bank_conflict_3510 example.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ascendsim.device import Device
from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, DType
from ascendsim.fidelity.course import Course
from ascendsim.fidelity.measured import Measured, Uncovered
from ascendsim.fidelity.rebuild import dtype_of
from ascendsim.isa.micro import LoadDist, MaskReg, RegTensor, StoreDist, VectorFunction
from ascendsim.memory import LocalTensor
from ascendsim.record import AiCore
from ascendsim.terms import REPEAT_BYTES, Pipe, TPosition, align_up, ceil_div

FAMILIES = ("pto_tileop_a5", "ascendc_reg")
"""Families of measurements that are rebuilt here."""

_TYPES = (FLOAT, HALF, BFLOAT16)
_SCALAR = 3.0
"""Of a tile operation with a scalar; its value costs nothing."""

Values = tuple[RegTensor, ...]
Compute = Callable[[VectorFunction, Values, MaskReg], RegTensor]
"""What an iteration computes, of the registers made before the loop, and those it loads."""


@dataclass(frozen=True, slots=True)
class _TileOp:
    """A tile operation: its source tiles, a constant made before the loop, and what an iteration computes."""

    sources: int
    compute: Compute
    constant: float | None = None


def course_of(row: Measured, device: Device) -> Course:
    """Return a measurement rebuilt: one tile operation alone, or one call in a stream.

    Raises:
        Uncovered: no micro-operation here does what was measured, or the measurement is of another family.
    """
    if row.family == "pto_tileop_a5":
        return Course(_tile_body(row, device), Pipe.V, device, is_streamed=False)
    if row.family == "ascendc_reg":
        return Course(_case_body(row), Pipe.V, device, is_streamed=True)
    raise Uncovered(f"family {row.family} is no vector function of arch 3510")


# ---- tile operations ----------------------------------------------------------------------------------------------


_TILE_OPS: dict[str, _TileOp] = {
    "TADD": _TileOp(2, lambda vf, v, mask: vf.add(v[0], v[1], mask)),
    "TSUB": _TileOp(2, lambda vf, v, mask: vf.sub(v[0], v[1], mask)),
    "TMUL": _TileOp(2, lambda vf, v, mask: vf.mul(v[0], v[1], mask)),
    "TMINS": _TileOp(1, lambda vf, v, mask: vf.mins(v[0], _SCALAR, mask)),
    "TNEG": _TileOp(1, lambda vf, v, mask: vf.muls(v[0], -1.0, mask)),
    "TEXP": _TileOp(1, lambda vf, v, mask: vf.exp(v[0], mask)),
    "TSQRT": _TileOp(1, lambda vf, v, mask: vf.sqrt(v[0], mask)),
    "TDIVS": _TileOp(1, lambda vf, v, mask: vf.div(v[1], v[0], mask), _SCALAR),
    "TRECIP": _TileOp(1, lambda vf, v, mask: vf.div(v[0], v[1], mask), 1.0),
    "TRSQRT": _TileOp(1, lambda vf, v, mask: vf.div(v[0], vf.sqrt(v[1], mask), mask), 1.0),
}
"""A constant is the first of the values; that of TDIVS is the divisor. TNEG multiplies by -1."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a tile is walked through: rows of so many iterations, and the elements of each.

    Attributes:
        starts: element where each row starts.
        columns: valid elements of a row.
        lanes: elements of an iteration.
    """

    starts: tuple[int, ...]
    columns: int
    lanes: int

    def each(self, vf: VectorFunction) -> Iterator[tuple[int, MaskReg]]:
        """Yield (first element, mask) of each iteration."""
        for row in vf.loop(len(self.starts)):
            for i in vf.loop(ceil_div(self.columns, self.lanes)):
                yield self.starts[row] + i * self.lanes, vf.update_mask(self.columns - i * self.lanes)


def _tile_body(row: Measured, device: Device) -> Callable[[AiCore], None]:
    if row.op == "TCVT":
        return _cast_body(row, device)
    if row.op not in _TILE_OPS:
        raise Uncovered(f"{row.op} has no counterpart among the micro-operations")
    if "high_precision" in row.conditions:
        raise Uncovered(f"{row.op} high_precision: its algorithm is not published")
    op, kind = _TILE_OPS[row.op], _dtype(row.dtype)
    shape = _shape(row, REPEAT_BYTES // kind.bytes)
    tiles = _tiles(row, (kind,) * (op.sources + 1), device)

    def body(asc: AiCore) -> None:
        with asc.vector_function() as vf:
            constants = () if op.constant is None else (vf.duplicate(op.constant, kind, vf.update_mask(shape.lanes)),)
            for at, mask in shape.each(vf):
                values = (*constants, *(vf.load_align(tile[at]) for tile in tiles[:-1]))
                vf.store_align(tiles[-1][at], op.compute(vf, values, mask), mask)

    return body


def _cast_body(row: Measured, device: Device) -> Callable[[AiCore], None]:
    """TCVT: between two 16-bit types 128 at a time, else 64 through words."""
    source, target = _dtype(row.dtype), _dtype(row.dst_dtype)
    is_dense = source is not FLOAT and target is not FLOAT
    load = LoadDist.UNPACK_B16 if target is FLOAT else LoadDist.NORM
    store = StoreDist.PACK_B32 if source is FLOAT else StoreDist.NORM
    shape = _shape(row, REPEAT_BYTES // (HALF.bytes if is_dense else FLOAT.bytes))
    src, dst = _tiles(row, (source, target), device)

    def body(asc: AiCore) -> None:
        with asc.vector_function() as vf:
            for at, mask in shape.each(vf):
                vf.store_align(dst[at], vf.cast(vf.load_align(src[at], load), target, mask), mask, store)

    return body


def _dtype(name: str) -> DType:
    found = dtype_of(name)
    if found not in _TYPES:
        raise Uncovered(f"{name} is no type of the micro-operations")
    return found


def _shape(row: Measured, lanes: int) -> _Shape:
    _, columns, valid_rows, valid_columns = _extents(row)
    if valid_columns == columns:
        return _Shape((0,), valid_rows * valid_columns, lanes)
    return _Shape(tuple(range(0, valid_rows * columns, columns)), valid_columns, lanes)


def _extents(row: Measured) -> tuple[int, int, int, int]:
    if row.rows is None or row.cols is None or row.valid_rows is None or row.valid_cols is None:
        raise Uncovered("the measurement states no shape")
    return row.rows, row.cols, row.valid_rows, row.valid_cols


def _tiles(row: Measured, kinds: tuple[DType, ...], device: Device) -> list[LocalTensor]:
    """Tiles one behind the other."""
    rows, columns, *_ = _extents(row)
    tiles: list[LocalTensor] = []
    start = 0
    for i, kind in enumerate(kinds):
        tile_bytes = rows * columns * kind.bytes
        if tile_bytes > device.ub.visible_bytes.value:
            raise Uncovered(f"a tile of {tile_bytes} B; UB shows {device.ub.visible_bytes.value} B")
        if start + tile_bytes > device.ub.visible_bytes.value:
            start = 0
        tiles.append(LocalTensor(f"tile{i}", TPosition.VECCALC, kind, start, tile_bytes))
        start = align_up(start + tile_bytes, REPEAT_BYTES)
    return tiles


# ---- bank conflict cases ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Case:
    """dst = src0 + src1 of 4096 floats; unrolled, a loop over the first half takes the second along."""

    src0: int
    src1: int
    dst: int
    is_unrolled: bool


_CASES = {
    1: _Case(0x0, 0x5000, 0xA100, is_unrolled=True),
    2: _Case(0x0, 0x5100, 0xA000, is_unrolled=True),
    3: _Case(0x0, 0x5100, 0x0, is_unrolled=True),
    4: _Case(0x0, 0x5100, 0xA100, is_unrolled=True),
    5: _Case(0x0, 0x5100, 0x5100, is_unrolled=True),
    6: _Case(0x0, 0x5000, 0xA000, is_unrolled=False),
    7: _Case(0x0, 0x5000, 0xA000, is_unrolled=True),
}
"""Start addresses in UB by the example's number of the case."""


def _case_body(row: Measured) -> Callable[[AiCore], None]:
    found = re.match(r"case (\d+):", row.conditions)
    case = _CASES.get(int(found[1])) if found else None
    if case is None or row.bytes is None:
        raise Uncovered("gathers, scatters and accesses by datablocks have no micro-operation here")
    src0, src1, dst = (
        LocalTensor(name, TPosition.VECCALC, FLOAT, address, row.bytes)
        for name, address in (("src0", case.src0), ("src1", case.src1), ("dst", case.dst))
    )
    lanes = REPEAT_BYTES // FLOAT.bytes
    total = row.bytes // REPEAT_BYTES
    parts = 2 if case.is_unrolled else 1

    def body(asc: AiCore) -> None:
        with asc.vector_function() as vf:
            for i in vf.loop(total // parts):
                places = [(i + part * total // parts) * lanes for part in range(parts)]
                loaded = [(vf.load_align(src0[at]), vf.load_align(src1[at])) for at in places]
                for at, (a, b) in zip(places, loaded, strict=True):
                    vf.store_align(dst[at], vf.add(a, b))

    return body
