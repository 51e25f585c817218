"""What a search has found, as HTML that a notebook shows; in the way of `notebook`."""

from collections.abc import Iterable, Sequence
from html import escape

from ascendsim import show_tune
from ascendsim.notebook import box, faint, table, title
from ascendsim.tuner.result import CYCLES, TOP, TuneResult


def tune_html(found: TuneResult) -> str:
    """Return a search as HTML: what was looked through, the best candidates, what fields matter, what is gained."""
    first, *more = show_tune.head(found)
    parts = [title(f"Search for a tiling of {first}"), *map(_line, more)]
    if found.best is None:
        return box([*parts, _line(show_tune.nothing_timed(found))])
    parts += [
        _line(show_tune.ranking_title(found, TOP)),
        _table(show_tune.heads(found), show_tune.ranking_rows(found, TOP)),
    ]
    if found.objectives[0] == CYCLES:
        parts.append(_line(show_tune.tie_text(found)))
    if len(found.objectives) > 1:
        numbers = ", ".join(str(row["candidate"]) for row in found.front[:TOP])
        more_of_it = ", ..." if len(found.front) > TOP else ""
        parts.append(
            _line(f"Pareto front: {show_tune.count_text(len(found.front), 'candidate')}, numbers {numbers}{more_of_it}")
        )
    parts += [
        _line(show_tune.sensitivity_title(found)),
        _table(("field", "spread", ""), show_tune.effect_rows(found)),
        *map(_line, show_tune.default_lines(found)),
    ]
    if found.gain is not None:
        parts += [_line(show_tune.part_title(found.gain)), _table(show_tune.PART_HEADS, show_tune.part_rows(found))]
    return box(parts)


def _line(text: str) -> str:
    return f"<div>{escape(text)}</div>"


def _table(heads: Iterable[str], rows: Sequence[Sequence[str]]) -> str:
    return table([[faint(name) for name in heads], *([escape(cell) for cell in row] for row in rows)])
