"""The results of a search in one file, and beside it, while a search runs, a journal that nothing can damage for long.

The journal gets each row as it comes: one line of JSON, the first line saying what the search is. At the end, or when
the search is interrupted, all rows go into the file, whole and in the order of their numbers, and the journal is
removed. So a search that is killed loses at most the row that was being written, and the file's bytes do not depend on
who evaluated what, or when.
"""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, Self

from ascendsim.errors import InputError
from ascendsim.files import is_file
from ascendsim.runfolder import check_file, write_whole
from ascendsim.tuner.evaluation import DROPPED, LEFT_OUT, TIMED, Cell, Cells, Row, Setup
from ascendsim.tuner.head import AGAIN, DAMAGE, check_schema, difference, head_of, setup_of
from ascendsim.tuner.space import DEFAULT, Field, Value, value_text

JOURNAL = ".journal"
"""What a journal's name ends in, behind that of its file."""
_COMMENT = "# ascendsim tune "
_FINDINGS = "findings"
"""The column that may be an empty text."""
FRACTIONS = frozenset({"bound_share"})
"""Columns of numbers that are not whole."""
TEXTS = frozenset({"status", "code", "bound", _FINDINGS, "digest", "reason"})
"""Columns of texts."""
_NUMBERS = range(-(2**63), 2**63)
"""Whole numbers of a file, as Parquet has them."""


class Table(Protocol):
    """How rows lie in a file."""

    def dump(self, head: Mapping[str, Any], columns: Sequence[str], rows: Sequence[Row], setup: Setup) -> bytes:
        """Return the file's bytes."""

    def load(self, path: Path) -> tuple[dict[str, Any], list[list[Any]]]:
        """Return the head and the cells of each row.

        Raises:
            ValueError, KeyError, TypeError: the file is none of these.
        """


class CsvTable:
    """Comma-separated values; the first line is a comment with the head."""

    def dump(self, head: Mapping[str, Any], columns: Sequence[str], rows: Sequence[Row], setup: Setup) -> bytes:
        """Return the file's bytes."""
        del setup
        text = io.StringIO()
        text.write(_COMMENT + json.dumps(head, separators=(",", ":")) + "\n")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell_text(cell) for cell in row] for row in rows)
        return text.getvalue().encode()

    def load(self, path: Path) -> tuple[dict[str, Any], list[list[Any]]]:
        """Return the head and the cells of each row, as texts."""
        first, _, rest = path.read_text(encoding="utf-8").partition("\n")
        if not first.startswith(_COMMENT) or not rest.endswith("\n"):
            raise ValueError("no results of ascendsim tune, or cut short")
        lines = list(csv.reader(io.StringIO(rest), strict=True))
        return json.loads(first.removeprefix(_COMMENT)), [lines[0], *lines[1:]]


def _cell_text(cell: Cell) -> str:
    return "" if cell is None else value_text(cell) if isinstance(cell, int | str) else repr(cell)


@dataclass(frozen=True, slots=True)
class Results:
    """What a file of results holds.

    Attributes:
        setup: of the search.
        rows: by number.
    """

    setup: Setup
    rows: Mapping[int, Row]


def load_results(path: Path, table: Table) -> Results:
    """Read results, with what a journal beside them adds.

    Raises:
        InputError: nothing there, or no results, or those of another version's schema.
    """
    if not is_file(path) and not is_file(journal_of(path)):
        raise InputError(f"{path}: no such file; ascendsim tune SCENARIO --vary FIELD=VALUES --out {path} makes one")
    found = _read(path, table)
    setup = setup_of(found[0].head, found[0].file)
    return Results(setup, _rows(found, setup))


@dataclass(frozen=True, slots=True)
class _Lines:
    """What a file, or a journal, holds: the names of columns, and cells of whatever kind."""

    file: Path
    head: dict[str, Any]
    columns: Any
    rows: Sequence[Any]


def _read(path: Path, table: Table) -> list[_Lines]:
    """A file and its journal, as far as they are there.

    Raises:
        InputError: they are none, or of two searches.
    """
    found: list[_Lines] = []
    if is_file(path):
        try:
            head, lines = table.load(path)
            found.append(_Lines(path, head, lines[0], lines[1:]))
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
        except (csv.Error, *DAMAGE) as error:
            raise InputError(
                f"{path}: no results of ascendsim tune, or damaged ({error}); name another file, or remove it and "
                "search again"
            ) from None
    journal = journal_of(path)
    if is_file(journal):
        found.append(_read_journal(journal))
    for one in found:
        check_schema(one.file, one.head)
        if one.head != found[0].head:
            raise InputError(
                f"{one.file}: is of another search than {path}; remove it, or name another file for this search with "
                "--out"
            )
    return found


def _read_journal(journal: Path) -> _Lines:
    """A journal; what follows its last whole line was cut off when its search was killed."""
    try:
        lines = journal.read_bytes().split(b"\n")[:-1]
        first = json.loads(lines[0])
        return _Lines(journal, first["head"], first["columns"], list(map(json.loads, lines[1:])))
    except OSError as error:
        raise InputError(f"{journal}: cannot be read: {error.strerror}") from None
    except DAMAGE:
        raise InputError(
            f"{journal}: damaged: no journal of ascendsim tune; remove it, and what only it holds is searched again"
        ) from None


def _rows(found: Sequence[_Lines], setup: Setup) -> dict[int, Row]:
    """All rows by number.

    Raises:
        InputError: one of them is none of this search.
    """
    rows: dict[int, Row] = {}
    for one in found:
        if one.columns != list(setup.columns):
            raise InputError(f"{one.file}: damaged: its columns are not those of its search; {AGAIN}")
        for cells in one.rows:
            row = _typed(cells, setup, one.file)
            rows[number_of_row(row)] = row
    return rows


def number_of_row(row: Row) -> int:
    """Return the number of a row's candidate."""
    number = row[0]
    assert isinstance(number, int)
    return number


def _typed(cells: Any, setup: Setup, file: Path) -> Row:
    """Cells as numbers, words and None, whatever the file had them as."""
    fields = {field.name: field for field in setup.space.fields}
    try:
        row = tuple(_typed_cell(name, cell, fields) for name, cell in zip(setup.columns, cells, strict=True))
        if _is_sound(dict(zip(setup.columns, row, strict=True)), setup):
            return row
    except DAMAGE:
        pass
    number = cells[0] if isinstance(cells, list) and cells else "?"
    raise InputError(f"{file}: damaged: the row of candidate {number} is none of this search; {AGAIN}")


def _is_sound(row: Cells, setup: Setup) -> bool:
    """Whether a row has a candidate's number, that candidate's fields, and all that others look at."""
    number = row["candidate"]
    if not isinstance(number, int) or not DEFAULT <= number <= setup.space.count:
        return False
    if any(row[name] != value for name, value in setup.values(number).items()):
        return False
    if row["status"] == TIMED:
        return row["cycles"] is not None and (row["bound"] is None) is (row["bound_share"] is None)
    return row["status"] in (DROPPED, LEFT_OUT)


def _typed_cell(name: str, cell: Any, fields: Mapping[str, Field]) -> Cell:
    if cell is None or cell == "":
        return cell if name == _FINDINGS else None
    if name in fields:
        return cell if isinstance(cell, int) else _field_value(str(cell), fields[name])
    if name in TEXTS:
        return str(cell)
    return _fraction(cell) if name in FRACTIONS else _whole(cell)


def _whole(cell: Any) -> int:
    number = int(cell)
    if number not in _NUMBERS:
        raise ValueError(cell)
    return number


def _fraction(cell: Any) -> float:
    number = float(cell)
    if not math.isfinite(number):
        raise ValueError(cell)
    return number


def _field_value(text: str, field: Field) -> Value:
    """A value of a field, or what the scenario as it stands has, which may lie outside of the space."""
    if text in map(value_text, field.values):
        return field.read(text)
    return {"true": True, "false": False}.get(text, int(text) if text.lstrip("-").isdigit() else text)


def journal_of(path: Path) -> Path:
    """Return the journal of a file of results."""
    return path.with_name(path.name + JOURNAL)


class Rows:
    """The rows of a running search, in memory."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.resumed = 0
        """How many rows were there before."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to keep."""

    def add(self, row: Row) -> None:
        """Keep a row."""
        self.rows[number_of_row(row)] = row


class Store(Rows):
    """The results of a running search in a file. Use as a context: whatever ends it, what is done is kept.

    Args:
        path: the file.
        table: how rows lie in it.
        setup: of the search.

    Raises:
        InputError: there are results of another search, or damaged ones, or nothing can be written there.
    """

    def __init__(self, path: Path, table: Table, setup: Setup) -> None:
        check_file("--out", path)
        self._path, self._table, self._setup = path, table, setup
        self._head = head_of(setup, path.parent)
        super().__init__()
        if is_file(path) or is_file(journal_of(path)):
            self._take_over()
        self.resumed = len(self.rows)
        self._journal: IO[bytes] | None = None

    def _take_over(self) -> None:
        found = _read(self._path, self._table)
        head = found[0].head
        if head != self._head:
            if head.get("ascendsim") == self._head["ascendsim"]:
                setup_of(head, found[0].file)  # which says what is damaged
            raise InputError(
                f"--out {self._path}: holds {difference(head, self._head)}; name another file, or remove it"
            )
        self.rows = _rows(found, self._setup)

    def __enter__(self) -> Self:
        journal = journal_of(self._path)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            head = json.dumps({"head": self._head, "columns": self._setup.columns}).encode()
            lines = [head, *(json.dumps(self.rows[number]).encode() for number in sorted(self.rows))]
            write_whole(journal, b"\n".join(lines) + b"\n")
            self._journal = journal.open("ab")
        except OSError as error:
            raise InputError(f"--out {self._path}: cannot be written: {error.strerror}; name another file") from None
        return self

    def add(self, row: Row) -> None:
        """Keep a row."""
        assert self._journal is not None
        if row[0] in self.rows:
            return
        super().add(row)
        try:
            self._journal.write(json.dumps(row).encode() + b"\n")
            self._journal.flush()
        except OSError as error:
            raise InputError(
                f"--out {self._path}: cannot be written: {error.strerror}; make room, and the same command goes on "
                "with what is done"
            ) from None

    def __exit__(self, *_: object) -> None:
        assert self._journal is not None
        with suppress(OSError):  # a full disk; what could not be written was told
            self._journal.close()
        rows = [self.rows[number] for number in sorted(self.rows)]
        try:
            if rows:
                write_whole(self._path, self._table.dump(self._head, self._setup.columns, rows, self._setup))
            journal_of(self._path).unlink(missing_ok=True)
        except OSError as error:
            raise InputError(
                f"--out {self._path}: cannot be written: {error.strerror}; make room, and the same command goes on "
                f"with what is done, which stands in {journal_of(self._path)}"
            ) from None
