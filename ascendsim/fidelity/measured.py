"""Published measurements as rows: of instructions and tile operations, and of whole kernels."""

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ascendsim.errors import InputError
from ascendsim.files import is_file, is_folder

DATA = Path(__file__).parent / "data"
INSTRUCTIONS = "instruction_cycles.csv"
KERNELS = "kernels.csv"
INSTRUCTION_COLUMNS = (
    *("id", "arch", "soc", "family", "op", "dtype", "dst_dtype", "rows", "cols", "valid_rows", "valid_cols", "repeat"),
    *("bytes", "mkn", "measured_cycles", "status", "conditions", "source"),
)
KERNEL_COLUMNS = (
    *("id", "arch", "soc", "category", "op", "shape", "dtype", "tiling", "cores", "measured_us", "pipe_times"),
    *("conditions", "source"),
)
"""Columns that each file needs; others are left alone."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement of an instruction, a transfer, a product or a tile operation.

    Attributes:
        id: name of the row.
        arch: NPU architecture.
        soc: what was measured on, in the source's words.
        family: where it comes from and what it is, such as "mskpp_vector" or "pto_tileop".
        op: the source's name of what was measured.
        dtype, dst_dtype: element types by the source's names, such as "fp16"; "" where there is none.
        rows, cols, valid_rows, valid_cols: shape of a tile, None where the source states none.
        repeat: repeats of the instruction.
        bytes: bytes of source or of the transfer.
        mkn: (m, k, n) of a product.
        cycles: what was measured, in core cycles.
        status: "as_published", "converted", or why it is no measurement to be judged by.
        conditions: in words, addresses among them.
        source: who published it.
    """

    id: str
    arch: int
    soc: str
    family: str
    op: str
    dtype: str
    dst_dtype: str
    rows: int | None
    cols: int | None
    valid_rows: int | None
    valid_cols: int | None
    repeat: int | None
    bytes: int | None
    mkn: tuple[int, int, int] | None
    cycles: float
    status: str
    conditions: str
    source: str

    @property
    def extent(self) -> tuple[int | tuple[int, int, int] | None, ...]:
        """All that says how much was measured: shape, repeats, bytes, product."""
        return self.rows, self.cols, self.valid_rows, self.valid_cols, self.repeat, self.bytes, self.mkn

    @property
    def is_usable(self) -> bool:
        """Whether it is a measurement, neither implausible nor replaced nor a model's own output."""
        return self.status in ("as_published", "converted")


@dataclass(frozen=True, slots=True)
class MeasuredKernel:
    """One measurement of a whole kernel.

    Attributes:
        id, arch, soc, op, shape, dtype, tiling, conditions, source: as the source states them.
        category: "elementwise", "matmul", "move", ...
        cores: cores that ran it, in the source's words: "48", "24 AIC + 48 AIV", or "".
        us: task duration in microseconds.
        pipe_us: microseconds of a pipe or of the core, by the profiler's name, such as "aiv_vec_time".
    """

    id: str
    arch: int
    soc: str
    category: str
    op: str
    shape: str
    dtype: str
    tiling: str
    cores: str
    us: float
    pipe_us: dict[str, float]
    conditions: str
    source: str


def read_instructions(folder: Path = DATA) -> tuple[Measured, ...]:
    """Return the instruction measurements of a folder; those the package ships unless told otherwise.

    Raises:
        InputError: the file is not there, lacks a column, a field is no number where one is due, or two rows have one
            id.
    """
    rows = _rows(folder / INSTRUCTIONS, INSTRUCTION_COLUMNS)
    return tuple(_measured(fields) for fields in rows)


def read_kernels(folder: Path = DATA) -> tuple[MeasuredKernel, ...]:
    """Return the kernel measurements of a folder that state a time; those the package ships unless told otherwise.

    Raises:
        InputError: as `read_instructions`.
    """
    rows = _rows(folder / KERNELS, KERNEL_COLUMNS)
    return tuple(_kernel(fields) for fields in rows if fields.text("measured_us"))


def files_of(folder: Path) -> tuple[str, ...]:
    """Return which of the two files a folder has.

    Raises:
        InputError: none, or it is no folder.
    """
    if not is_folder(folder):
        raise InputError(f"--data {folder}: no such folder; name one with {INSTRUCTIONS}, {KERNELS} or both")
    found = tuple(name for name in (INSTRUCTIONS, KERNELS) if is_file(folder / name))
    if not found:
        raise InputError(f"--data {folder}: neither {INSTRUCTIONS} nor {KERNELS} is in it; name a folder with one")
    return found


@dataclass(frozen=True, slots=True)
class _Fields:
    """One line of a file, asked by column."""

    where: str
    values: dict[str, str]

    def text(self, column: str) -> str:
        """Return a field."""
        return (self.values[column] or "").strip()

    def number(self, column: str) -> float:
        """Return a field as a number."""
        try:
            value = float(self.text(column))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.wrong(column, "a number")
        return value

    def time(self, column: str) -> float:
        """Return a field as a number above 0, which errors are shares of."""
        value = self.number(column)
        if value <= 0:
            raise self.wrong(column, "a number above 0")
        return value

    def count(self, column: str) -> int | None:
        """Return a field as a whole number, None where it is empty."""
        return self.whole(column) if self.text(column) else None

    def whole(self, column: str) -> int:
        """Return a field as a whole number."""
        value = self.number(column)
        if value != int(value):
            raise self.wrong(column, "a whole number")
        return int(value)

    def wrong(self, column: str, want: str) -> InputError:
        """Return what to raise about a field."""
        return InputError(f"{self.where}: {column} is {self.text(column)!r}; want {want}")


def _rows(path: Path, columns: Iterable[str]) -> Iterator[_Fields]:
    """The lines of a file, with or without a byte order mark, whatever ends its lines."""
    lines: dict[str, int] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            _check_columns(path, reader.fieldnames or (), columns)
            for values in reader:
                fields = _Fields(f"{path}, line {reader.line_num}", values)
                _check_id(fields, reader.line_num, lines)
                yield fields
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as CSV in UTF-8: {error}") from None


def _check_columns(path: Path, found: Iterable[str], columns: Iterable[str]) -> None:
    there = set(found)
    missing = [column for column in columns if column not in there]
    if missing:
        raise InputError(
            f"{path}, line 1: no column {', '.join(missing)}; the first line names the columns, in any order, and "
            "needs them all"
        )


def _check_id(fields: _Fields, line: int, lines: dict[str, int]) -> None:
    """Refuse a row without a name of its own: reports name rows."""
    name = fields.text("id")
    if not name:
        raise fields.wrong("id", "a name, another for each row")
    if lines.setdefault(name, line) != line:
        raise InputError(f"{fields.where}: id is {name!r}, as in line {lines[name]}; want another for each row")


def _measured(f: _Fields) -> Measured:
    return Measured(
        id=f.text("id"),
        arch=f.whole("arch"),
        soc=f.text("soc"),
        family=f.text("family"),
        op=f.text("op"),
        dtype=f.text("dtype"),
        dst_dtype=f.text("dst_dtype"),
        rows=f.count("rows"),
        cols=f.count("cols"),
        valid_rows=f.count("valid_rows"),
        valid_cols=f.count("valid_cols"),
        repeat=f.count("repeat"),
        bytes=f.count("bytes"),
        mkn=_triple(f),
        cycles=f.time("measured_cycles"),
        status=f.text("status"),
        conditions=f.text("conditions"),
        source=f.text("source"),
    )


def _triple(f: _Fields) -> tuple[int, int, int] | None:
    text = f.text("mkn")
    if not text:
        return None
    try:
        m, k, n = (int(part) for part in text.split("x"))
    except ValueError:
        raise f.wrong("mkn", "m x k x n such as 16x32x16") from None
    return m, k, n


def _kernel(f: _Fields) -> MeasuredKernel:
    return MeasuredKernel(
        id=f.text("id"),
        arch=f.whole("arch"),
        soc=f.text("soc"),
        category=f.text("category"),
        op=f.text("op"),
        shape=f.text("shape"),
        dtype=f.text("dtype"),
        tiling=f.text("tiling"),
        cores=f.text("cores"),
        us=f.time("measured_us"),
        pipe_us=dict(_times(f)),
        conditions=f.text("conditions"),
        source=f.text("source"),
    )


def _times(f: _Fields) -> Iterator[tuple[str, float]]:
    """Read "aiv_vec_time=761.65 us; aiv_total_cycles=49222116": microseconds only."""
    for part in filter(None, (p.strip() for p in f.text("pipe_times").split(";"))):
        name, _, value = part.partition("=")
        number, _, unit = value.partition(" ")
        if unit != "us":
            continue
        try:
            yield name, float(number)
        except ValueError:
            raise f.wrong("pipe_times", "times such as aiv_vec_time=761.65 us, joined by semicolons") from None


class Uncovered(Exception):
    """A measurement that cannot be rebuilt from the instructions that exist here; the text says why."""
