"""Where destination and source of one vector instruction may share memory.

Inside a repeat they are the same bytes lane for lane or none; across repeats nothing is read that an earlier repeat
has written (asc-devkit docs, general constraints, address overlap). What the rule takes out:

- an accumulation: src1 of Add, Sub, Mul, Max, Min, AddRelu and SubRelu, half, float or int32_t, where its repeat stride
  or that of dst is 0 (same page);
- reductions in place, a source whose block and repeat stride are 0, and bits of Compares at the start of its source,
  which the library's own kernels use;
- operands of different widths inside a repeat: a narrowing Cast in place is what shipped kernels do, and a repeat is
  read whole before it is written.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ascendsim.device import Device
from ascendsim.dtypes import FLOAT, HALF, INT32
from ascendsim.errors import Finding, Rule
from ascendsim.isa.instruction import Check, Operand, Row, TensorRef, finds
from ascendsim.isa.lanes import element_offsets, lane_grid, lanes_of, operand_at

Offsets = NDArray[np.int64]
Grid = Callable[[Row, int], tuple[Offsets, Offsets]]
"""Repeat and lane numbers of a row's active lanes, given the lanes of a repeat."""

_PAGE = "asc-devkit docs, general constraints, address overlap"

OVERLAP = Rule(
    "E-OVERLAP",
    "{api}: dst and {operand} share bytes of {tensor} in repeat {got} without being the same lane for lane",
    "let them coincide with the same strides, or keep them apart",
    _PAGE,
    condition="A destination and a source of one instruction share memory in a way its page does not allow.",
)
OVERLAP_LATER = OVERLAP.saying(
    "{api}: repeat {got} reads as {operand} what repeat {writer} wrote to {tensor}",
    hint="keep dst and the source apart, or let each repeat work on its own bytes",
)
OVERLAP_NONE = OVERLAP.saying(
    "{api}: dst overlaps {operand} in {tensor}, which its page does not allow", hint="give dst its own memory"
)
OVERLAP_WIDEN = Rule(
    "E-OVERLAP-WIDEN",
    "Cast {got} in place: dst overwrites elements of {tensor} that are still to be read",
    "give dst its own memory, or put the source behind what dst overwrites first",
    "asc-devkit docs, Cast page",
    condition="A Cast to a wider type writes over source elements that a later repeat reads, or starts at its source.",
)
ACCUMULATING = ("Add", "Sub", "Mul", "Max", "Min", "AddRelu", "SubRelu")
"""Instructions that may add repeat upon repeat into the same bytes through src1."""
ACCUMULATED = (HALF, FLOAT, INT32)


def start_of(operand: Operand, tensors: tuple[TensorRef, ...]) -> int:
    """Return the UB address of an operand's first byte."""
    return tensors[operand.tensor].address_bytes + operand.offset_bytes


def no_partial_overlap(*roles: str, grid: Grid = lane_grid) -> Check:
    """Dst and sources that share bytes do so lane for lane, and no repeat reads what an earlier one wrote.

    Args:
        roles: which sources; all if left out.
        grid: active lanes of a row.
    """
    looked_at = roles or ("src0", "src1")

    @finds(OVERLAP, OVERLAP_LATER, OVERLAP_NONE, OVERLAP_WIDEN)
    def check(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
        del device
        found: list[Finding] = []
        for role, source in row.operands:
            if role in looked_at and row.dst is not None and _may_meet(row.dst, source, tensors):
                found += _between(row, role, source, tensors, grid, where)
        return found

    return check


Excuse = Callable[[Row, Operand, tuple[TensorRef, ...]], bool]
"""Whether a row's destination may meet one of its sources."""


def _never(row: Row, source: Operand, tensors: tuple[TensorRef, ...]) -> bool:
    del row, source, tensors
    return False


def apart(*roles: str, unless: Excuse = _never) -> Check:
    """Dst shares no byte with the operands in these roles: their page allows none.

    Args:
        roles: which sources.
        unless: what is done all the same.
    """

    @finds(OVERLAP_NONE)
    def check(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
        del device
        return [
            OVERLAP_NONE.finding(where, operand=role, got="overlaps", wanted="apart", fill=_fill(row, operand, tensors))
            for role, operand in row.operands
            if role in roles
            and row.dst is not None
            and _may_meet(row.dst, operand, tensors)
            and ranges_meet(row, role, operand, tensors)
            and not unless(row, operand, tensors)
        ]

    return check


def _fill(row: Row, operand: Operand, tensors: tuple[TensorRef, ...]) -> dict[str, object]:
    return {"api": row.op.api, "tensor": tensors[operand.tensor].name}


def _may_meet(dst: Operand, source: Operand, tensors: tuple[TensorRef, ...]) -> bool:
    """Whether the allocations of two operands share a byte; most do not, and nothing more is to be looked at."""
    if dst.tensor == source.tensor:
        return True
    a, b = tensors[dst.tensor], tensors[source.tensor]
    return (
        a.buffer is b.buffer
        and a.slot == b.slot
        and a.address_bytes < b.address_bytes + b.tensor_bytes
        and b.address_bytes < a.address_bytes + a.tensor_bytes
    )


def ranges_meet(row: Row, role: str, source: Operand, tensors: tuple[TensorRef, ...]) -> bool:
    """Return whether the bytes from the first to the last that a row touches of dst and of a source share one."""
    assert row.dst is not None
    touched = {name: (first, end) for name, first, end in row.touched}
    (first, end), (read, read_end) = touched["dst"], touched[role]
    apart_bytes = start_of(source, tensors) - start_of(row.dst, tensors)
    return first < end and read < read_end and first < apart_bytes + read_end and apart_bytes + read < end


def _strides(row: Row, role: str) -> tuple[int, int]:
    return row.param(f"{role}_blk_stride"), row.param(f"{role}_rep_stride")


def _between(
    row: Row, role: str, source: Operand, tensors: tuple[TensorRef, ...], grid: Grid, where: str
) -> list[Finding]:
    """Findings between dst and one source whose allocations meet."""
    dst = row.dst
    assert dst is not None
    if _strides(row, role) == (0, 0) or _is_in_place(row, role, source, tensors, grid):
        return []
    if not ranges_meet(row, role, source, tensors):
        return []
    fill = _fill(row, source, tensors)
    if row.op.reads_dst and dst.dtype.bytes != source.dtype.bytes:
        return [OVERLAP_NONE.finding(where, operand=role, got="overlaps", wanted="apart", fill=fill)]
    return _lane_by_lane(row, role, source, tensors, grid, where)


def _is_in_place(row: Row, role: str, source: Operand, tensors: tuple[TensorRef, ...], grid: Grid) -> bool:
    """Whether a source is dst, lane for lane, and no two repeats meet: what most calls in place do."""
    assert row.dst is not None
    strides = _strides(row, role)
    if start_of(row.dst, tensors) != start_of(source, tensors) or row.dst.dtype.bytes != source.dtype.bytes:
        return False
    if strides != _strides(row, "dst") or grid is not lane_grid:
        return False
    return not operand_at(row, lanes_of(row), *strides, source.dtype.bytes).meets_itself


def _lane_by_lane(
    row: Row, role: str, source: Operand, tensors: tuple[TensorRef, ...], grid: Grid, where: str
) -> list[Finding]:
    """Findings between dst and one source that share a range of bytes, from the bytes of every lane."""
    dst = row.dst
    assert dst is not None
    fill = _fill(row, source, tensors)
    number, lane = grid(row, lanes_of(row))
    written, read = (
        start_of(o, tensors) + element_offsets(number, lane, *_strides(row, r), o.dtype.bytes) * o.dtype.bytes
        for r, o in (("dst", dst), (role, source))
    )
    pair = None if _accumulates(row, role, source) else _written_then_read(number, written, read, dst, source)
    if row.op.api == "Cast" and dst.dtype.bytes > source.dtype.bytes:
        return _widening(pair is not None or written[0] == read[0], source, dst, fill, where)
    if pair is not None:
        fill["writer"] = pair[0]
        return [OVERLAP_LATER.finding(where, operand=role, got=pair[1], wanted="apart", fill=fill)]
    part = _shared_in_part(number, written, read) if dst.dtype.bytes == source.dtype.bytes else None
    if part is None:
        return []
    return [OVERLAP.finding(where, operand=role, got=part, wanted="the same or apart", fill=fill)]


def _accumulates(row: Row, role: str, source: Operand) -> bool:
    """Whether a source may be what earlier repeats left in dst."""
    return (
        role == "src1"
        and row.op.api in ACCUMULATING
        and source.dtype in ACCUMULATED
        and 0 in (row.param("src1_rep_stride"), row.param("dst_rep_stride"))
    )


def _widening(is_found: bool, source: Operand, dst: Operand, fill: dict[str, object], where: str) -> list[Finding]:
    if not is_found:
        return []
    got = f"{source.dtype}->{dst.dtype}"
    return [OVERLAP_WIDEN.finding(where, operand="src0", got=got, wanted="apart", fill=fill)]


def _units(starts: Offsets, width: int, unit: int) -> Offsets:
    """Bytes of elements in steps of the narrower type's width."""
    return (starts[:, None] + np.arange(0, width, unit)).reshape(-1)


def _written_then_read(
    number: Offsets, written: Offsets, read: Offsets, dst: Operand, source: Operand
) -> tuple[int, int] | None:
    """The first repeat that writes a byte which a later one reads, and that later one; None where there is none."""
    unit = min(dst.dtype.bytes, source.dtype.bytes)
    writes, reads = _units(written, dst.dtype.bytes, unit), _units(read, source.dtype.bytes, unit)
    writer, reader = np.repeat(number, dst.dtype.bytes // unit), np.repeat(number, source.dtype.bytes // unit)
    at, first = np.unique(writes, return_index=True)  # repeats come in order, so this is the first to write it
    where = np.searchsorted(at, reads)
    where[where == at.size] = 0
    by = writer[first][where]
    late = (at[where] == reads) & (by < reader)
    if not late.any():
        return None
    one = int(np.flatnonzero(late)[0])
    return int(by[one]), int(reader[one])


def _shared_in_part(number: Offsets, written: Offsets, read: Offsets) -> int | None:
    """The first repeat in which dst and a source of one width share bytes, but not all of them lane for lane."""
    same = written == read
    if same.all():
        return None
    space = int(max(written.max(), read.max())) + 1
    shared = np.intersect1d(number * space + written, number * space + read) // space
    bad = np.intersect1d(shared, number[~same])
    return int(bad[0]) if bad.size else None
