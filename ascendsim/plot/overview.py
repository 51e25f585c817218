"""A whole run at a glance: how busy each pipe was over time, and of which stretches there are rows."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ascendsim import analysis
from ascendsim.engine.base import Skip
from ascendsim.plot.canvas import Hatch, Look, Pattern
from ascendsim.plot.parts import Part
from ascendsim.plot.style import (
    COLOURS,
    GROUND,
    HIGH,
    LOW,
    MIDDLE,
    PALE,
    SMALL,
    Chart,
    Entry,
    cycle_axis,
    fitting,
    time_axis,
)
from ascendsim.result import RunResult
from ascendsim.terms import Pipe

_MARKS, _BAND, _PITCH = 0.2, 0.5, 0.62
"""Inches: height of the strip of marks and of a band of use, distance of two bands."""
_DRAWN, _KEPT = Look(fill="#4d4d4d"), Look(fill="#a6a6a6")
_REPEATED = Look(fill="#f0f0f0", hatch=Hatch(Pattern.SLANT, 3.0, "#8c8c8c"))
_THIN = 0.02
"""Marks are at least so wide, in inches."""
_NOTES = 3


def overview_height(result: RunResult) -> float:
    """Height of the chart in inches."""
    return _MARKS + 0.12 + _PITCH * max(1, len(_pipes(result)))


def _pipes(result: RunResult) -> list[Pipe]:
    shares = analysis.utilisation(result.timeline, result.program.block_cores)[1]
    return [pipe for pipe in COLOURS if pipe in shares]


def draw_overview(chart: Chart, result: RunResult, drawn: Sequence[Part], kept: Sequence[Part]) -> list[str]:
    """Draw it, and return notes on what could not be said in it.

    Args:
        chart: where.
        result: the run.
        drawn: parts whose lanes are drawn below.
        kept: parts of which there are rows.
    """
    time_axis(chart, result.device.clock_mhz)
    cycle_axis(chart)
    chart.frame()
    cuts, shares = analysis.utilisation(result.timeline, result.program.block_cores)
    bins = list(pairwise(cuts.tolist()))
    for index, pipe in enumerate(_pipes(result)):
        top = _MARKS + 0.12 + index * _PITCH
        band = replace(chart, top=chart.top + top, height=_BAND)
        band.spans([(chart.first, chart.last)], 0, _BAND, Look(fill=PALE), GROUND)
        heights = (_BAND * shares[pipe]).tolist()
        band.steps([(*span, height) for span, height in zip(bins, heights, strict=True)], Look(fill=COLOURS[pipe]))
        band.level(0, "#d0d0d0", 0.5)
        chart.name(top + _BAND / 2, pipe.name)
        chart.beside(top + _BAND / 2, f"{_busy(result, pipe):.0%} busy")
    whose = "the cores that have the pipe" if result.program.kernel_type.is_mix else "all cores"
    share = f"share of {whose} at work, 0 to 100%, in bins of {result.timeline.totals.bin_cycles:,} cycles"
    return [f"height of the bands above: {share}", *_draw_marks(chart, result, drawn, kept)]


def _busy(result: RunResult, pipe: Pipe) -> float:
    """Share of the time of all cores that have the pipe."""
    busy = int(result.timeline.totals.busy_cycles[:, pipe].sum())
    cores = analysis.cores_with(result.timeline, pipe, result.program.block_cores)
    return busy / max(1, result.makespan_cycles * cores)


def _draw_marks(chart: Chart, result: RunResult, drawn: Sequence[Part], kept: Sequence[Part]) -> list[str]:
    """The strip that says what was kept and what was repeated."""
    height = _MARKS - 0.04
    chart.name(0.04 + height / 2, "rows", SMALL)
    chart.spans([(chart.first, chart.last)], 0.04, height, Look(fill=PALE), GROUND)
    unsaid = []
    for skip in result.timeline.skipped:
        chart.spans([(skip.first, skip.last)], 0.04, height, _REPEATED, LOW)
        text = fitting(_skip_labels(skip), (skip.last - skip.first) * chart.per_cycle - 0.06, height)
        chart.say((skip.first + skip.last) / 2, 0.04 + height / 2, text, "#ffffff")
        unsaid += [] if text else [skip]
    for part in kept:
        chart.spans([_wide(chart, part)], 0.04, height, _KEPT, MIDDLE)
    for part in drawn:
        chart.spans([_wide(chart, part)], 0.04, height, _DRAWN, HIGH)
    notes = [f"cycles {s.first:,} to {s.last:,}: {_skip_labels(s)[0]}" for s in unsaid[:_NOTES]]
    return notes + [f"{len(unsaid) - _NOTES} more stretches repeat a period"] * (len(unsaid) > _NOTES)


def _wide(chart: Chart, part: Part) -> tuple[int, int]:
    """A part, or as much around it as can be seen."""
    least = round(_THIN / chart.per_cycle)
    if part.last - part.first >= least:
        return part.first, part.last
    first = min(max(chart.first, (part.first + part.last - least) // 2), chart.last - least)
    return first, first + least


def _skip_labels(skip: Skip) -> tuple[str, ...]:
    period, rows = f"period of {skip.period_cycles:,} cycles", f"{skip.rows:,} rows"
    return f"repeats a {period}, {rows} not simulated", f"{period}, {rows}", f"{skip.period_cycles:,} cycles, {rows}"


def overview_entries(result: RunResult, drawn: Sequence[Part], kept: Sequence[Part]) -> list[Entry]:
    """Legend entries of what the strip shows."""
    entries = [Entry("rows drawn below", _DRAWN)] * bool(drawn)
    entries += [Entry("rows kept", _KEPT)] * any(part not in drawn for part in kept)
    return entries + [Entry("repeats a period, added up", _REPEATED)] * bool(result.timeline.skipped)
