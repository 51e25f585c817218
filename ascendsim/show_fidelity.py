"""How far the model is off, in words: tables for the terminal, a page in Markdown, rows as CSV."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ascendsim.fidelity.compare import Comparison
from ascendsim.fidelity.crossing import CrossedFamily
from ascendsim.fidelity.errors_of import Errors
from ascendsim.fidelity.families import Bound
from ascendsim.fidelity.judge import Fidelity, Judged, Verdict
from ascendsim.fidelity.judge_kernels import JudgedKernel, KernelVerdict

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


_KERNEL_COLUMNS = ("kernel", "what", "measured us", "predicted us", "error", "slowest pipe", "named")
_CROSSED_COLUMNS = ("family", "coefficients", "rows", "mean error, fitted half", "mean error, other half")


def kernel_cells(found: KernelVerdict) -> Cells:
    """One line for each kernel that is covered."""
    named = {True: "yes", False: "no", None: ""}
    return [
        (
            j.row.id,
            kernel_words(j),
            f"{j.row.us:.6g}",
            f"{j.prediction.us:.6g}",
            f"{j.bias:+.1%}",
            j.measured_bottleneck,
            named[j.names_bottleneck],
        )
        for j in found.covered
        if j.prediction is not None
    ]


def kernel_words(judged: JudgedKernel) -> str:
    """Return what a kernel is, in a few words."""
    row = judged.row
    return f"{row.op} {row.dtype} {row.shape}, {row.tiling}, arch {row.arch}, {row.cores or '?'} cores"


def crossed_cells(found: Sequence[CrossedFamily]) -> Cells:
    """One line for each family whose coefficients are fitted."""
    return [
        (c.title, str(c.paths), str(len(c.kept_back.values)), f"{c.fitted.mean:.2%}", f"{c.kept_back.mean:.2%}")
        for c in found
    ]


def kernels_text(found: KernelVerdict) -> list[str]:
    """Return what whole kernels come to, as sentences."""
    said = [f"{len(found.covered)} of {len(found.rows)} measured kernels are covered."]
    if found.errors is not None:
        e = found.errors
        said.append(
            f"Task duration: median error {e.median:.1%}, 90th percentile {e.p90:.1%}, worst {e.worst:.1%}. Of the "
            f"{len(found.judged)} whose whole schedule is stated: {_median(found.judged)}."
        )
    said += [f"Variants of {r.kernel}: rank correlation {r.correlation:.2f} over {r.variants}." for r in found.rankings]
    return said


def _median(rows: Sequence[JudgedKernel]) -> str:
    errors = Errors(tuple(row.error for row in rows)) if rows else None
    return "none" if errors is None else f"median {errors.median:.1%}"


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


def terminal(found: Comparison) -> RenderableType:
    """Return everything for a terminal."""
    parts: list[RenderableType] = []
    for part in _parts(found):
        if isinstance(part, str):
            parts.append(Text(part))
        else:
            parts.append(_table(*part))
    parts += [Text(text, "bold red") for text in found.broken]
    return Group(*parts)


Section = tuple[str, tuple[str, ...], Cells]
"""Title, columns, rows."""


def _parts(found: Comparison) -> Iterator[str | Section]:
    """Sentences and tables, in the order in which they are shown."""
    rows = found.instructions
    if rows.judged:
        yield f"{coverage_text(rows)}."
        yield "Relative errors by family", _FAMILY_COLUMNS, family_cells(rows)
        yield from (
            (f"Worst rows: {v.family.title}, arch {v.family.arch}", _ROW_COLUMNS, row_cells(v.worst))
            for v in rows.verdicts
            if v.worst
        )
    if found.crossings:
        yield (
            "Coefficients that are fitted were fitted once more on one random half of their measurements and judged by "
            "the other half, both ways."
        )
        yield "Cross-validation", _CROSSED_COLUMNS, crossed_cells(found.crossings)
    if found.kernels is not None and found.kernels.rows:
        yield from kernels_text(found.kernels)
        yield "Whole kernels", _KERNEL_COLUMNS, kernel_cells(found.kernels)
        yield "Kernels that are not covered", ("why", "kernels"), uncovered_kernel_cells(found.kernels)
    yield from ((title, columns, cells(rows)) for title, columns, cells in _TABLES if cells(rows))


def uncovered_kernel_cells(found: KernelVerdict) -> Cells:
    """Why kernels are not covered, and which."""
    reasons: dict[str, list[str]] = {}
    for j in found.rows:
        if j.prediction is None:
            reasons.setdefault(j.reason, []).append(j.row.id)
    return [(reason, ", ".join(ids)) for reason, ids in sorted(reasons.items())]


def _table(title: str, columns: Sequence[str], cells: Cells) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in cells:
        table.add_row(*row)
    return table


def markdown(found: Comparison) -> str:
    """Return everything as Markdown, to stand below a heading of its own."""
    lines: list[str] = []
    for part in _parts(found):
        lines += ["", part] if isinstance(part, str) else _section(*part)
    if found.broken:
        lines += ["", "Bounds that are not held:", "", *(f"- {text}" for text in found.broken)]
    return "\n".join(lines[1:]) + "\n"


def _section(title: str, columns: Sequence[str], cells: Cells) -> Iterator[str]:
    yield from ("", f"### {title}", "", f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}")
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


def kernels_csv(found: KernelVerdict) -> str:
    """Return every kernel with what was measured and predicted, as CSV."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        ("id", "arch", "category", "op", "shape", "tiling", "cores", "measured_us", "predicted_us", "why_not")
    )
    for j in found.rows:
        row, predicted = j.row, "" if j.prediction is None else f"{j.prediction.us:.6g}"
        writer.writerow(
            (
                row.id,
                row.arch,
                row.category,
                row.op,
                row.shape,
                row.tiling,
                row.cores,
                f"{row.us:.6g}",
                predicted,
                j.reason,
            )
        )
    return file.getvalue()
