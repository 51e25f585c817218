"""Which rows of a run are in its trace: all of a short one, windows, or the ends of a long one."""

from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim import analysis
from ascendsim.engine.base import Timeline
from ascendsim.result import RunResult
from ascendsim.trace.events import Ints

MOST_ROWS = 120_000
"""Rows of a long run's trace, about 350 bytes each, without those of windows."""


def shown(result: RunResult) -> Timeline:
    """The rows of a trace: of a run whose rows are all there, those of its windows; of any other what was kept.

    The latter are at most about MOST_ROWS, as many at the begin as at the end of every core, and those of its windows.
    """
    timeline = result.timeline
    if timeline.is_whole:
        return analysis.within(timeline, result.windows)
    if len(timeline) <= MOST_ROWS:
        return timeline
    order = np.argsort(timeline["core"], kind="stable")
    counts = np.bincount(timeline["core"], minlength=result.program.core_count)
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    from_end = np.repeat(counts, counts) - 1 - place
    chosen = np.zeros(len(order), np.bool_)
    chosen[order] = np.minimum(place, from_end) < MOST_ROWS // (2 * result.program.core_count)
    for first, last in result.windows:
        chosen |= (timeline["start"] < last) & (timeline["end"] > first)
    return replace(timeline, columns={name: column[chosen] for name, column in timeline.columns.items()})


def kept(result: RunResult) -> dict[str, Any]:
    """Which rows of a run are in its trace, where it has not all of them; without arrays, see `trace_json`."""
    timeline, here = result.timeline, shown(result)
    if here.is_whole:
        return {}
    windows = [f"cycles {first} to {last}" for first, last in result.windows]
    ends = [] if timeline.is_whole else ["first and last rows of each core"]
    return {
        "rows": timeline.row_count,
        "rows_here": len(here),
        "kept": "; ".join([*ends, *windows]),
        "rows_repeated": sum(skip.rows for skip in timeline.skipped),
        "repeated": "; ".join(
            f"cycles {skip.first} to {skip.last}: {skip.rows} rows from a period of {skip.period_cycles} cycles"
            for skip in timeline.skipped
        ),
    }


def renumbered(pairs: dict[int, int], before: Ints, now: Ints) -> dict[int, int]:
    """Pairs of rows by their new positions, given the numbers of all and of those left; pairs cut apart are dropped."""
    at = dict(zip(now.tolist(), range(len(now)), strict=True))
    numbers = before.tolist()
    known = ((at.get(numbers[wait], -1), at.get(numbers[by], -1)) for wait, by in pairs.items())
    return {wait: by for wait, by in known if wait >= 0 and by >= 0}
