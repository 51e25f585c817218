"""Whether the elements of a factor of Mmad can be those of a matrix, given which byte of GM each of them is.

Mmad takes element (x, y) of a factor from byte f(x, y) of a source. Whatever the matrix is and however GM holds it
(rows, NZ, ZZ, ZN, a feature map under a sliding kernel, rows or columns picked one by one), f is a sum of a number that
depends on x and one that depends on y: one side of a factor chooses a row or column of the product, the other a term of
its sums, each regardless of the other. Where the source has rows of a known pitch, its rows or its columns belong to
one side of the factor alone, since they are what is summed over or what is not. A factor that breaks this was put
together wrong.
Source: asc-devkit docs, fractal formats page, for the layouts; the two conditions follow from what a product is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.errors import Rule
from ascendsim.isa.instruction import Row
from ascendsim.isa.move import burst_geometry
from ascendsim.layout import c0_elements, fractal_shape
from ascendsim.terms import DATABLOCK_BYTES, FRACTAL_BYTES, Layout, ceil_div

Ints = NDArray[Any]
Look = Callable[[Ints], tuple[Ints, Ints]]
"""What gives source and byte in it of elements, given the bytes of the factor where they begin."""
Told = tuple[Rule, str, str, dict[str, object]]
"""A rule that is broken; got, wanted, and what else its message names."""

MMAD_LAYOUT = Rule(
    "E-MMAD-LAYOUT",
    "wrong fractal layout for {api} {operand} {tensor}, which is read as {wanted}: {got}",
    "let fractals lie in L0A as ZZ (as NZ on arch 3510) and in L0B as ZN, in the order that m, n and k of Mmad ask "
    "for; a B that lies in rows along n is transposed on the way to L0B",
    "asc-devkit docs, fractal formats page; architecture pages",
    condition="A factor of Mmad is put together from what was loaded in a way in which no matrix lies: fractals in "
    "another order than ZZ (NZ on arch 3510) for the left one or ZN for the right one, or not transposed where they "
    "have to be. Told where it follows from the program from which places in GM all of it comes.",
)
MMAD_GEMV = Rule(
    "E-MMAD-GEMV",
    "{api} with m 1 reads {operand} {tensor} as a plain row, but it lies in fractals: element {element} of the row of "
    "{source} is at byte {got}, not at {wanted}",
    "bring a single row to L1 with dst_nz_c0_stride 1 and on to L0A as it is, or let m be 16",
    "asc-devkit docs, Mmad page; GEMV page",
    condition="Mmad with m = 1, which reads its left matrix as a plain row, gets one that lies in fractals.",
)
UNKNOWN = -1
"""As the source of an element: not known."""


@dataclass(frozen=True, slots=True)
class Source:
    """Bytes that are counted from one place.

    Attributes:
        template: what brings them: called again, it may bring others.
        batch: how many Mmads of the template come before: what is loaded between two of them is of one source.
        place: slot of GM, or -1 - row of a Fixpipe, whose results are counted row by row.
        pitch_bytes: from one row of the matrix to the next; 0 where it is not known.
        name: of the tensor.
    """

    template: int
    batch: int
    place: int
    pitch_bytes: int
    name: str


def pitch_bytes(row: Row) -> int:
    """Return the bytes in GM from one row of a matrix to the next, where a copy into L1 says so; else 0.

    ND2NZ does, unless its matrices lie askew to each other; a plain copy by bursts of a datablock does, since such are
    the rows of a column of fractals.
    """
    if row.op.cost != "transfer":
        return 0
    count, length, pitch, _ = burst_geometry(row)
    if row.op.name != "data_copy_nd2nz":
        return pitch if length == DATABLOCK_BYTES and count > 1 else 0
    matrices, columns, stride = row.param("nd_num"), row.param("d_value"), row.param("src_nd_matrix_stride")
    is_along = stride % row.param("src_d_value") == 0
    is_beside = (matrices - 1) * stride + columns <= row.param("src_d_value")
    return pitch if matrices == 1 or is_along or is_beside else 0


def disorder(sources: Ints, at: Ints, table: Sequence[Source], layout: Layout, width: int) -> Told | None:
    """Return what is wrong with a factor that is read in fractals, the first that is found; None for nothing.

    Args:
        sources: numbers of the elements' sources in the table, or `UNKNOWN`, [rows, columns].
        at: byte of each in its source, likewise.
        table: of sources.
        layout: how the factor is read.
        width: bytes of an element.
    """
    for number in np.unique(sources[sources != UNKNOWN]).tolist():
        why = _mixed(sources == number, at, table[number]) or _turned(
            sources == number, at, table[number], fractal_shape(layout, width)
        )
        if why:
            return MMAD_LAYOUT, why, layout.name, {}
    return None


def _mixed(known: Ints, at: Ints, source: Source) -> str:
    """Which two steps from one column to the next differ, though they must not."""
    step, both = np.diff(at, axis=1), known[:, 1:] & known[:, :-1]
    least = np.where(both, step, np.iinfo(np.int64).max).min(axis=0, initial=np.iinfo(np.int64).max)
    most = np.where(both, step, np.iinfo(np.int64).min).max(axis=0, initial=np.iinfo(np.int64).min)
    differing = np.flatnonzero(least < most)
    if differing.size == 0:
        return ""
    column = int(differing[0])
    first = int(np.flatnonzero(both[:, column])[0])
    other = int(np.flatnonzero(both[:, column] & (step[:, column] != step[first, column]))[0])
    return ", but ".join(
        _step(source, (row, column), (row, column + 1), int(step[row, column])) for row in (first, other)
    )


def _turned(known: Ints, at: Ints, source: Source, fractal: tuple[int, int]) -> str:
    """Which two steps show that rows of the source, and its columns, too, lie along both sides of the factor."""
    if source.pitch_bytes == 0:
        return ""
    row, column = np.divmod(at, source.pitch_bytes)
    if any(_is_of_one_side(known, part, axis) for part in (row, column) for axis in (0, 1)):
        return ""
    x, y = np.argwhere(known)[0].tolist()
    ends = (min(x + fractal[0], at.shape[0] - 1), y), (x, min(y + fractal[1], at.shape[1] - 1))
    return " and ".join(_step(source, (x, y), end, int(at[end] - at[x, y])) for end in reversed(ends) if known[end])


def _is_of_one_side(known: Ints, part: Ints, axis: int) -> bool:
    """Whether numbers are the same along an axis."""
    least = np.where(known, part, np.iinfo(np.int64).max).min(axis=axis)
    most = np.where(known, part, np.iinfo(np.int64).min).max(axis=axis)
    return bool((least >= most).all())


def _step(source: Source, first: tuple[int, int], second: tuple[int, int], length: int) -> str:
    """A step from one element to another, in words."""
    rows = round(length / source.pitch_bytes) if source.pitch_bytes else 0
    rest = length - rows * source.pitch_bytes
    parts = ([f"{rows} row{'' if rows == 1 else 's'}"] if rows else []) + ([f"{rest} B"] if rest or not rows else [])
    return f"from {first} to {second} it goes {' and '.join(parts)} of {source.name}"


def row_in_fractals(look: Look, table: Sequence[Source], k: int, width: int, room_bytes: int) -> Told | None:
    """Return what is wrong with a factor that is read as a plain row of k elements; None for nothing.

    It is wrong where what lies there is no run of a row (or of a column) of its source, and where taken in fractals,
    one at every so many, it is.

    Args:
        look: gives sources and bytes in them.
        table: of sources.
        k: elements of the row.
        width: bytes of an element.
        room_bytes: from the row's start to the end of its tensor.
    """
    c0 = c0_elements(width)
    element = np.arange(k, dtype=np.int64)
    source = _run_of(look, table, element * width, width)
    if k <= c0 or source is not None:
        return None
    blocks = ceil_div(k, c0) - 1
    for apart in range(1, room_bytes // FRACTAL_BYTES // blocks + 1):
        stride = apart * FRACTAL_BYTES
        at = element // c0 * stride + element % c0 * width
        source = _run_of(look, table, at, width) if int(at[-1]) + width <= room_bytes else None
        if source is not None:
            fill: dict[str, object] = {"element": c0, "source": source.name}
            return MMAD_GEMV, str(stride), str(DATABLOCK_BYTES), fill
    return None


def _run_of(look: Look, table: Sequence[Source], at: Ints, width: int) -> Source | None:
    """The source of which elements are neighbours in a row, or in a column; None if they are not."""
    sources, places = look(at)
    if sources[0] == UNKNOWN or (sources != sources[0]).any():
        return None
    source = table[int(sources[0])]
    steps = np.unique(np.diff(places)).tolist()
    return source if steps in ([], [width], [source.pitch_bytes]) else None
