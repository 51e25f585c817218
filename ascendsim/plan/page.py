"""An answer for the terminal."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ascendsim.plan.answer import Answer
from ascendsim.plan.layout import Cut
from ascendsim.plan.solve import TableRow, enough_temp
from ascendsim.report import finding_text

Cells = Sequence[tuple[str, ...]]
_MOST_HINTS = 5
"""Pairs of buffers that are named; --json has all."""


def plan_page(answer: Answer) -> RenderableType:
    """Return what `ascendsim plan` prints."""
    plan = answer.plan
    verdict = "fits" if answer.fits else "does not fit"
    parts: list[RenderableType] = [Text(f"{plan.name} on {plan.device.name}: {verdict}", "bold")]
    if plan.device.caution and any(cycles is not None for cycles in answer.cycles):
        parts.append(Text(plan.device.caution, style="bold yellow"))
    names = (*plan.ranges, *plan.fields)
    if names:
        parts.append(Text(", ".join(f"{name} = {answer.layout.names[name]}" for name in names)))
    parts += [Text(line) for line in _solved(answer)]
    parts.append(_table("Map", ("name", "place", "start", "end", "bytes", "num"), _map_cells(answer)))
    parts.append(_table("Margins", ("place", "limit", "capacity", "used", "left"), _margin_cells(answer)))
    if answer.layout.cuts:
        columns = ("call", "temp", "min", "max", "bytes", "split_m", "loops", "tail_m", "cycles")
        parts.append(
            _table(f"Calls, their temps sized for the {answer.layout.limit} limit", columns, _call_cells(answer))
        )
    if answer.table:
        parts.append(_choices(answer))
    parts += [Text(line) for line in _fastest(answer)]
    parts += [Text(f"Reuse: {pair.sentence}.") for pair in answer.reuse[:_MOST_HINTS]]
    more = len(answer.reuse) - _MOST_HINTS
    if more > 0:
        parts.append(Text(f"Reuse: {'1 more pair saves' if more == 1 else f'{more} more pairs save'} less."))
    parts += [Text(f"Reuse: {alive.sentence}.") for alive in answer.alive]
    parts += [Text(f"Temp {less.sentence}.") for less in answer.less_temp]
    parts += [finding_text(finding) for finding in answer.layout.findings]
    return Group(*parts)


def _fastest(answer: Answer) -> list[str]:
    row = answer.fastest
    if row is None or row.cut is None or answer.solution is None:
        return []
    choice = f"{answer.solution.field} = {row.value}; {enough_temp(row.cut)} B of temp are enough"
    return [f"Fewest cycles a row of those shown, below the {answer.table_limit} limit: {choice}."]


def _solved(answer: Answer) -> list[str]:
    solution = answer.solution
    if solution is None:
        return []
    margins = {limit: value for limit, value in solution.largest.items() if value is not None}
    if not margins:
        return [f"no value of {solution.field} fits: {solution.reason}"]
    found = ", ".join(f"{'none' if v is None else v} ({limit})" for limit, v in solution.largest.items())
    return [f"largest {solution.field}: {found}; shown: {answer.chosen[solution.field]}"]


def _map_cells(answer: Answer) -> Cells:
    return [
        (e.name, e.place, str(e.start_bytes), str(e.end_bytes), str(e.bytes), str(e.num)) for e in answer.layout.entries
    ]


def _margin_cells(answer: Answer) -> Cells:
    return [
        (m.place, m.limit or "-", str(m.capacity_bytes), str(m.used_bytes), str(m.margin_bytes)) for m in answer.margins
    ]


def _call_cells(answer: Answer) -> Cells:
    rows = []
    for cut, cycles in zip(answer.layout.cuts, answer.cycles, strict=True):
        shape = "x".join(str(axis) for axis in cut.call.shape)
        least, most = cut.call.sizes()
        call = f"{cut.call.name} {shape}".strip()
        rows.append(
            (call, cut.call.temp, str(least), str(most), str(cut.temp_bytes), *_cut_cells(cut), _or_dash(cycles))
        )
    return rows


def _cut_cells(cut: Cut) -> tuple[str, ...]:
    tiling = cut.tiling
    if tiling is None:
        return ("-", "-", "-")
    return str(tiling.split_m), _or_dash(cut.loops), str(tiling.tail_m)


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _choices(answer: Answer) -> Table:
    """The table of the solved field."""
    assert answer.solution is not None
    others = list(answer.table[0].others)
    has_calls = any(row.cut is not None for row in answer.table)
    many = len({row.cut.call.name for row in answer.table if row.cut is not None}) > 1
    columns = [answer.solution.field, *others, "limit", *answer.table[0].used_bytes]
    if has_calls:
        columns += [*["call"] * many, "temp", "split_m", "loops", "tail_m", "cycles", "a row"]
    cells = [_choice_cells(row, many=many) for row in answer.table]
    return _table(f"What each value of {answer.solution.field} gives", tuple(columns), cells)


def _choice_cells(row: TableRow, *, many: bool) -> tuple[str, ...]:
    head = (
        str(row.value),
        *(str(v) for v in row.others.values()),
        row.limits[0] if len(row.limits) == 1 else "both",
        *(str(size) for size in row.used_bytes.values()),
    )
    if row.cut is None:
        return head
    per_row = "-" if row.cycles_per_row is None else f"{row.cycles_per_row:.0f}"
    name = [row.cut.call.name] * many
    return (*head, *name, str(row.cut.temp_bytes), *_cut_cells(row.cut), _or_dash(row.cycles), per_row)


_TEXTS = ("name", "place", "limit", "call")


def _table(title: str, columns: tuple[str, ...], rows: Cells) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", header_style="dim", box=None, padding=(0, 2, 0, 0)
    )
    for column in columns:
        is_text = column in _TEXTS
        table.add_column(column, justify="left" if is_text else "right", no_wrap=is_text, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
