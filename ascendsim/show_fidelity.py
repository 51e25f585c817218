"""How far the model is off, in words: tables for the terminal, a page in Markdown, rows as CSV."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ascendsim.fidelity.families import Bound
from ascendsim.fidelity.judge import Fidelity, Judged, Verdict

Cells = list[tuple[str, ...]]
_FAMILY_COLUMNS = ("family", "arch", "rows", "covered", "median", "p90", "mean", "worst", "bound", "held")
_ROW_COLUMNS = ("row", "what", "measured", "predicted", "error")
_BOUND_WORDS = (
    ("median", "median <= {:.1%}"),
    ("mean", "mean <= {:.1%}"),
    ("worst", "worst <= {:.0%}"),
    ("within_quarter", "{:.0%} within 25 %"),
    ("accuracy", "accuracy >= {}"),
)


def family_cells(found: Fidelity) -> Cells:
    """One line for each family."""
    return [_family(verdict) for verdict in found.verdicts]


def _family(verdict: Verdict) -> tuple[str, ...]:
    family, errors = verdict.family, verdict.errors
    head = (family.title, str(family.arch), str(len(verdict.rows)), str(len(verdict.covered)))
    bound = "" if family.bound is None else bound_words(family.bound)
    if errors is None:
        return (*head, "-", "-", "-", "-", bound, "")
    held = "" if family.bound is None else "no" if verdict.broken else "yes"
    return (*head, *(f"{value:.2%}" for value in (errors.median, errors.p90, errors.mean, errors.worst)), bound, held)


def bound_words(bound: Bound) -> str:
    """Return a bound in words."""
    said = ((words, getattr(bound, name)) for name, words in _BOUND_WORDS)
    return ", ".join(words.format(limit) for words, limit in said if limit is not None)


def row_cells(rows: Sequence[Judged]) -> Cells:
    """One line for each row that is predicted."""
    return [
        (j.row.id, what(j), f"{j.row.cycles:.6g}", f"{j.predicted:.6g}", f"{j.bias:+.1%}")
        for j in rows
        if j.predicted is not None
    ]


def what(judged: Judged) -> str:
    """Return what a row measures, in a few words."""
    row = judged.row
    parts = [row.op, row.dtype + (f"->{row.dst_dtype}" if row.dst_dtype not in ("", row.dtype) else "")]
    if row.rows is not None and row.cols is not None:
        valid = row.valid_rows is not None and (row.valid_rows, row.valid_cols) != (row.rows, row.cols)
        parts.append(f"{row.rows}x{row.cols}" + (f" of which {row.valid_rows}x{row.valid_cols}" if valid else ""))
    if row.mkn is not None:
        parts.append("x".join(map(str, row.mkn)))
    elif row.repeat is not None:
        parts.append(f"{row.repeat} repeats")
    elif row.bytes is not None:
        parts.append(f"{row.bytes} B")
    return " ".join(part for part in parts if part)


def uncovered_cells(found: Fidelity) -> Cells:
    """Why rows are not covered, and how many."""
    reasons = Counter((j.row.op, j.reason) for j in found.judged if j.predicted is None)
    return [(op, reason, str(count)) for (op, reason), count in sorted(reasons.items())]


def apart_cells(found: Fidelity) -> Cells:
    """Rows that are no measurements to be judged by, by their status and operation."""
    groups: dict[tuple[str, str], list[Judged]] = {}
    for judged in found.apart:
        groups.setdefault((judged.row.status, judged.row.op), []).append(judged)
    return [
        (status, op, str(len(rows)), ", ".join(f"{j.bias:+.0%}" for j in rows if j.predicted is not None) or "-")
        for (status, op), rows in sorted(groups.items())
    ]


_TABLES = (
    ("Not covered: no instruction here does this", ("operation", "why", "rows"), uncovered_cells),
    (
        "Shown apart: not measurements to be judged by",
        ("status", "operation", "rows", "errors"),
        apart_cells,
    ),
)


def coverage_text(found: Fidelity) -> str:
    """Return how many usable measurements the model predicts."""
    covered = sum(j.predicted is not None for j in found.judged)
    return f"{covered} of {len(found.judged)} usable measurements are covered ({found.coverage:.1%})"


def terminal(found: Fidelity) -> RenderableType:
    """Return everything for a terminal."""
    parts: list[RenderableType] = [
        Text(coverage_text(found)),
        _table("Relative errors by family", _FAMILY_COLUMNS, family_cells(found)),
    ]
    parts += [Text(f"{v.family.title}: {'; '.join(v.broken)}", "bold red") for v in found.broken]
    parts += [
        _table(f"Worst rows: {v.family.title}", _ROW_COLUMNS, row_cells(v.worst)) for v in found.verdicts if v.worst
    ]
    parts += [_table(title, columns, cells(found)) for title, columns, cells in _TABLES if cells(found)]
    return Group(*parts)


def _table(title: str, columns: Sequence[str], cells: Cells) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in cells:
        table.add_row(*row)
    return table


def markdown(found: Fidelity) -> str:
    """Return everything as Markdown."""
    return "\n".join(_markdown(found)) + "\n"


def _markdown(found: Fidelity) -> Iterator[str]:
    yield f"{coverage_text(found)}."
    yield from _section("Errors by family", _FAMILY_COLUMNS, family_cells(found))
    for verdict in found.verdicts:
        if verdict.worst:
            yield from _section(f"Worst rows: {verdict.family.title}", _ROW_COLUMNS, row_cells(verdict.worst), 3)
    for title, columns, cells in _TABLES:
        if cells(found):
            yield from _section(title, columns, cells(found))


def _section(title: str, columns: Sequence[str], cells: Cells, level: int = 2) -> Iterator[str]:
    yield from ("", f"{'#' * level} {title}", "", f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}")
    yield from (f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in cells)


def rows_csv(found: Fidelity) -> str:
    """Return every row with what was measured and predicted, as CSV."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("id", "arch", "family", "op", "what", "status", "measured_cycles", "predicted_cycles", "why_not"))
    for j in (*found.judged, *found.apart):
        predicted = "" if j.predicted is None else f"{j.predicted:.6g}"
        row = j.row
        writer.writerow(
            (row.id, row.arch, row.family, row.op, what(j), row.status, f"{row.cycles:.6g}", predicted, j.reason)
        )
    return file.getvalue()
