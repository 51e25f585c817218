"""How far the model is off, in words: tables for the terminal, a page in Markdown, rows as CSV."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ascendsim.fidelity.compare import Comparison
from ascendsim.fidelity.crossing import CrossedFamily
from ascendsim.fidelity.errors_of import Errors
from ascendsim.fidelity.families import Bound
from ascendsim.fidelity.judge import Fidelity, Judged, Verdict
from ascendsim.fidelity.judge_kernels import JudgedKernel, KernelVerdict
from ascendsim.fidelity.kernels.attention import CATEGORY, compared

Cells = list[tuple[str, ...]]
_FAMILY_COLUMNS = ("family", "arch", "rows", "covered", "median", "p90", "mean", "worst", "bound", "held")
_ROW_COLUMNS = ("row", "what", "measured", "predicted", "error")
_OUTSIDE_COLUMNS = ("row", "what", "measured", "predicted", "error", "why")
_SHORT_COLUMNS = ("family", "arch", "covered", "median", "p90", "mean", "worst", "bound")
_SHOWN_OUTSIDE = 3
"""Rows of a family that the summary lists."""
_BOUND_WORDS = (
    ("median", "median {:g}%"),
    ("mean", "mean {:g}%"),
    ("worst", "worst {:g}%"),
    ("within_quarter", "{:g}% within 25%"),
    ("accuracy", "accuracy {:g}%"),
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


def short_family_cells(found: Fidelity) -> Cells:
    """One line for each family, by the name that --family takes, no wider than a terminal."""
    return [_short_family(verdict) for verdict in found.verdicts]


def _short_family(verdict: Verdict) -> tuple[str, ...]:
    family, errors = verdict.family, verdict.errors
    head = (family.name, str(family.arch), f"{len(verdict.covered)} of {len(verdict.rows)}")
    bound = "" if family.bound is None else bound_words(family.bound) + (" BROKEN" if verdict.broken else "")
    if errors is None:
        return (*head, "-", "-", "-", "-", bound)
    return (*head, *(f"{value:.2%}" for value in (errors.median, errors.p90, errors.mean, errors.worst)), bound)


def bound_words(bound: Bound) -> str:
    """Return a bound in words: errors are at most that, the share of rows and the accuracy at least."""
    said = ((words, getattr(bound, name)) for name, words in _BOUND_WORDS)
    return ", ".join(words.format(round(limit * 100, 6)) for words, limit in said if limit is not None)


def row_cells(rows: Sequence[Judged]) -> Cells:
    """One line for each row that is predicted."""
    return [
        (j.row.id, what(j), f"{j.row.cycles:.6g}", f"{j.predicted:.6g}", f"{j.bias:+.1%}")
        for j in rows
        if j.predicted is not None
    ]


def outside_cells(rows: Sequence[Judged]) -> Cells:
    """One line for each row that is far off, with the reason."""
    return [(*cells, j.why_off) for cells, j in zip(row_cells(rows), rows, strict=True)]


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
_CROSSED_COLUMNS = ("family", "coefficients", "rows", "mean error of the fitted half", "of the other half")


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


_ATTENTION_COLUMNS = ("row", "what", "measured us", "predicted us", "error", "compared")


def attention_cells(found: KernelVerdict) -> Cells:
    """One line for each row of attention backward that is covered."""
    return [
        (j.row.id, j.row.op, f"{j.row.us:.6g}", f"{j.prediction.us:.6g}", f"{j.bias:+.1%}", compared(j.row))
        for j in found.covered
        if j.prediction is not None and j.row.category == CATEGORY
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
    others = len(found.covered) - len(found.rebuilt)
    apart = f", {others} of them by another implementation of the same call" if others else ""
    said = [f"{len(found.covered)} of {len(found.rows)} measured kernels are covered{apart}."]
    if found.errors is not None:
        e = found.errors
        said.append(
            f"Task duration of those rebuilt: median error {e.median:.1%}, 90th percentile {e.p90:.1%}, worst "
            f"{e.worst:.1%}; {_median(found.judged)} of {len(found.judged)} with stated schedules."
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


def summary(found: Comparison) -> RenderableType:
    """Return what matters, for a terminal of 100 columns: families, what is far off, halves, kernels, bounds."""
    return _page(_summary_parts(found), found)


def terminal(found: Comparison) -> RenderableType:
    """Return everything for a terminal."""
    return _page(_parts(found), found)


def _page(parts: Iterable["str | Section"], found: Comparison) -> RenderableType:
    shown: list[RenderableType] = [Text(part) if isinstance(part, str) else _table(*part) for part in parts]
    shown += [Text(f"not held: {text}", "bold red") for text in found.broken]
    if not found.broken and _has_bounds(found):
        shown.append(Text("All bounds are held."))
    return Group(*shown)


def _has_bounds(found: Comparison) -> bool:
    return any(v.family.bound is not None and v.covered for v in found.instructions.verdicts) or (
        found.kernels is not None and bool(found.kernels.judged)
    )


Section = tuple[str, tuple[str, ...], Cells]
"""Title, columns, rows."""


def _summary_parts(found: Comparison) -> Iterator[str | Section]:
    """The summary's sentences and tables."""
    rows = found.instructions
    if not rows.judged and not rows.apart and (found.kernels is None or not found.kernels.rows):
        yield "There are no measurements to compare with."
    if rows.judged:
        yield f"{coverage_text(rows)}."
        yield "Relative errors", _SHORT_COLUMNS, short_family_cells(rows)
        far = [j for v in rows.verdicts if v.family.bound is not None for j in v.outside[:_SHOWN_OUTSIDE]]
        if far:
            yield f"Far off, of families with a bound ({_SHOWN_OUTSIDE} of each at most)", _FAR_COLUMNS, far_cells(far)
    if found.crossings:
        cells = [(c.name, *rest) for c, (_, *rest) in zip(found.crossings, crossed_cells(found.crossings), strict=True)]
        yield _HALVES, _CROSSED_COLUMNS, cells
    if found.kernels is not None and found.kernels.rows:
        yield from kernels_text(found.kernels)
    yield from left_out_text(found)


_FAR_COLUMNS = ("row", "what", "error", "why")
_HALVES = "Coefficients fitted to a random half of their measurements, both ways"


def far_cells(rows: Sequence[Judged]) -> Cells:
    """One short line for each row that is far off."""
    return [(j.row.id, what(j), f"{j.bias:+.0%}", j.why_off) for j in rows]


def left_out_text(found: Comparison) -> Iterator[str]:
    """What is not covered or stands apart, in numbers, and where to read of it."""
    statuses = Counter(j.row.status for j in found.instructions.apart)
    if statuses:
        said = ", ".join(f"{count} {status or 'without a status'}" for status, count in sorted(statuses.items()))
        yield f"Apart, judged by nothing: {said}."
    uncovered = sum(j.predicted is None for j in found.instructions.judged)
    if uncovered or statuses:
        yield f"Not covered: {uncovered} of the rows. --rows lists worst rows, kernels, what is not covered and why."


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
        yield from (
            (f"Far off, and why: {v.family.title}, arch {v.family.arch}", _OUTSIDE_COLUMNS, outside_cells(v.outside))
            for v in rows.verdicts
            if v.outside
        )
    if found.crossings:
        yield (
            "Coefficients that are fitted were fitted once more on one random half of their measurements and judged by "
            "the other half, both ways."
        )
        yield "Cross-validation", _CROSSED_COLUMNS, crossed_cells(found.crossings)
    if found.kernels is not None and found.kernels.rows:
        yield from kernels_text(found.kernels)
        if found.kernels.covered:
            yield "Whole kernels", _KERNEL_COLUMNS, kernel_cells(found.kernels)
        if cells := attention_cells(found.kernels):
            yield "Attention backward: what is compared", _ATTENTION_COLUMNS, cells
        if len(found.kernels.covered) < len(found.kernels.rows):
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
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_edge=False
    )
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
    yield from (f"| {' | '.join(_cell(cell) for cell in row)} |" for row in cells)


def _cell(text: str) -> str:
    """A text as a cell: on one line, without what would end the cell."""
    return " ".join(text.replace("|", "/").split())


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
