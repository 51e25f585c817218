"""Temp sizes for the terminal."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ascendsim.errors import Severity
from ascendsim.report import finding_text
from ascendsim.tmpsize import Curve, Point, TmpSize
from ascendsim.tmpsize.answer import TmpChoice


def tmp_size(answer: TmpSize) -> RenderableType:
    """Return the answer of `tmpsize`: each size, what is left of UB, findings."""
    where = f"arch {answer.call.npu_arch}" if answer.device is None else answer.device.name
    parts: list[RenderableType] = [Text(f"{answer.title} on {where}", "bold")]
    if answer.device is not None and answer.device.caution and answer.call.is_grad:
        parts.append(Text(answer.device.caution, "bold yellow"))
    parts.append(_sizes([(name, choice, "") for name, choice in answer.choices.items()], is_grad=answer.call.is_grad))
    if answer.limits:
        parts += [Text(_beside(answer)), _limits(answer)]
    if answer.largest_tile_m is not None and "fits" not in answer.choices:
        rows = answer.largest_tile_m
        most = f"At most {rows} row{'s' * (rows > 1)}" if rows else "Not one row"
        parts.append(Text(f"{most} can be in UB together with the minimum temp."))
    return Group(*parts, *map(finding_text, answer.findings))


def curve(found: Curve, percent: float | None = None, chosen: Point | None = None) -> RenderableType:
    """Return the points of a curve, and the choices they suggest.

    Args:
        found: the curve.
        percent: how much slower than the fastest a temp may be, if that was asked.
        chosen: the smallest temp within it.
    """
    rows = [("best" if point is found.best else "", point.choice, point.remark) for point in found.points]
    parts: list[RenderableType] = [
        Text(f"Temp sizes from which the tiling is another one, {found.note}"),
        _sizes(rows, is_grad=True),
    ]
    best = found.best.choice
    parts.append(Text(f"Fastest: {best.tmp_bytes} B, {best.cycles} cycles."))
    if percent is not None and chosen is not None:
        size, cycles = chosen.choice.tmp_bytes, chosen.choice.cycles
        parts.append(Text(f"Smallest within {percent:g} % of the fastest: {size} B, {cycles} cycles."))
    return Group(*parts)


def has_errors(answer: TmpSize) -> bool:
    """Whether a plan of UB that was given does not hold."""
    return any(finding.severity is Severity.ERROR for finding in answer.findings)


def _sizes(rows: Sequence[tuple[str, TmpChoice, str]], *, is_grad: bool) -> Table:
    """One line for each temp: what it gives, and of SoftmaxGrad what it costs."""
    with_remarks = any(remark for _, _, remark in rows)
    columns = [
        "",
        "temp B",
        *["reserved B", "touched B"] * is_grad,
        "split_m",
        "tiles",
        "tail_m",
        *["cycles"] * is_grad,
    ]
    table = _table([*columns, *[""] * with_remarks])
    for name, choice, remark in rows:
        t = choice.tiling
        tiling = ("-", "-", "-") if t is None else (t.split_m, t.range_m, t.tail_m)
        memory = (choice.reserved_bytes, choice.touched_bytes) if is_grad else ()
        cells = (choice.tmp_bytes, *memory, *tiling, *((choice.cycles,) if is_grad else ()))
        table.add_row(name, *("-" if cell is None else str(cell) for cell in cells), *[remark] * with_remarks)
    return table


def _beside(answer: TmpSize) -> str:
    claims = ", ".join(map(str, answer.beside))
    return f"Beside it in UB: {claims}; {answer.beside_bytes} B in all."


def _limits(answer: TmpSize) -> Table:
    table = _table(["limit of UB", "B", "left B", f"rows of {answer.row_bytes} B"])
    for limit in answer.limits:
        table.add_row(limit.name, str(limit.limit_bytes), str(limit.left_bytes), str(limit.rows))
    return table


def _table(columns: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 or not column else "right", no_wrap=True)
    return table
