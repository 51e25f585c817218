"""Published measurements as rows: of instructions and tile operations, and of whole kernels."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ascendsim.errors import InputError

DATA = Path(__file__).parent / "data"
INSTRUCTIONS = "instruction_cycles.csv"
KERNELS = "kernels.csv"


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
        InputError: the file is not there, lacks a column, or a field is no number where one is due.
    """
    return tuple(_measured(fields) for fields in _rows(folder / INSTRUCTIONS))


def read_kernels(folder: Path = DATA) -> tuple[MeasuredKernel, ...]:
    """Return the kernel measurements of a folder that state a time; those the package ships unless told otherwise.

    Raises:
        InputError: as `read_instructions`.
    """
    return tuple(_kernel(fields) for fields in _rows(folder / KERNELS) if fields.text("measured_us"))


@dataclass(frozen=True, slots=True)
class _Fields:
    """One line of a file, asked by column."""

    where: str
    values: dict[str, str]

    def text(self, column: str) -> str:
        """Return a field; a column that is missing is an error."""
        if column not in self.values:
            raise InputError(f"{self.where}: no column {column!r}")
        return (self.values[column] or "").strip()

    def number(self, column: str) -> float:
        """Return a field as a number."""
        text = self.text(column)
        try:
            return float(text)
        except ValueError:
            raise InputError(f"{self.where}: {column} is {text!r}, want a number") from None

    def count(self, column: str) -> int | None:
        """Return a field as a whole number, None where it is empty."""
        return int(self.number(column)) if self.text(column) else None


def _rows(path: Path) -> Iterator[_Fields]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for number, values in enumerate(csv.DictReader(file), start=2):
                yield _Fields(f"{path}, line {number}", values)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _measured(f: _Fields) -> Measured:
    return Measured(
        id=f.text("id"),
        arch=int(f.number("arch")),
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
        cycles=f.number("measured_cycles"),
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
        raise InputError(f"{f.where}: mkn is {text!r}, want m x k x n such as 16x32x16") from None
    return m, k, n


def _kernel(f: _Fields) -> MeasuredKernel:
    return MeasuredKernel(
        id=f.text("id"),
        arch=int(f.number("arch")),
        soc=f.text("soc"),
        category=f.text("category"),
        op=f.text("op"),
        shape=f.text("shape"),
        dtype=f.text("dtype"),
        tiling=f.text("tiling"),
        cores=f.text("cores"),
        us=f.number("measured_us"),
        pipe_us=dict(_times(f.text("pipe_times"))),
        conditions=f.text("conditions"),
        source=f.text("source"),
    )


def _times(text: str) -> Iterator[tuple[str, float]]:
    """Read "aiv_vec_time=761.65 us; aiv_total_cycles=49222116": microseconds only."""
    for part in filter(None, (p.strip() for p in text.split(";"))):
        name, _, value = part.partition("=")
        number, _, unit = value.partition(" ")
        if unit == "us":
            yield name, float(number)


class Uncovered(Exception):
    """A measurement that cannot be rebuilt from the instructions that exist here; the text says why."""
