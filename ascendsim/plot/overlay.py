"""A run over a measured trace of the same kernel: for each lane a bar of the run above one of the trace."""

from collections.abc import Sequence

from ascendsim.plot.canvas import Hatch, Look, Pattern, Picture, Text
from ascendsim.plot.paint import png
from ascendsim.plot.style import (
    ALARM,
    AXIS,
    COLOURS,
    EDGED,
    GROUND,
    INK,
    LINE,
    LOW,
    MIDDLE,
    PALE,
    SMALL,
    SOFT,
    WHITE,
    WIDTH,
    WORDS,
    Chart,
    Entry,
    cycle_axis,
    fitting,
    legend,
    legend_rows,
    lighter,
    title_lines,
)
from ascendsim.terms import Pipe
from ascendsim.trace import LANES
from ascendsim.versus.measured import COUNTED, WAITS, TraceComparison
from ascendsim.versus.msopprof import Slice

MOST_CORES = 2
_LEFT, _CHART, _HEAD, _TOP = 1.3, 9.7, 0.35, 0.6
_BAR, _PAIR, _PITCH = 0.2, 0.22, 0.56
"""Inches: height of a bar, distance of the two of a lane, distance of two lanes."""
_PIPES = {LANES[pipe].tid: pipe for pipe in COLOURS}
_ALONE = Hatch(Pattern.CROSS, 3.0, ALARM)
_WAIT = Look(fill="#f0f0f0", hatch=Hatch(Pattern.SLANT, 6.0, "#8c8c8c"))


def overlay_png(found: TraceComparison) -> bytes:
    """Draw a run over a trace, as PNG."""
    return png(overlay_picture(found))


def overlay_picture(found: TraceComparison) -> Picture:
    """Draw a run over a trace, their first pairs at the same place: one core, and the one whose trace ends last."""
    cores = _cores(found)
    lanes = {core: _lanes(found, core) for core in cores}
    heights = {core: max(1, len(lanes[core])) * _PITCH + 0.1 for core in cores}
    entries = _entries(found, {lane for some in lanes.values() for lane in some})
    below = _TOP + sum(_HEAD + heights[core] + AXIS for core in cores)
    picture = Picture(WIDTH, below + (legend_rows(entries, WIDTH - 0.5) + 1) * LINE + 0.15)
    first, last = _window(found, cores)
    top = _TOP
    for core in cores:
        chart = Chart(picture, _LEFT, top + _HEAD, _CHART, heights[core], first, last)
        picture.add(Text(0.15, chart.top - 0.14, core, SMALL, INK, bold=True, side="left"), WORDS)
        cycle_axis(chart)
        chart.frame(sides=True)
        for number, lane in enumerate(lanes[core]):
            _draw_lane(chart, found, core, lane, 0.05 + number * _PITCH)
        top = chart.bottom + AXIS
    legend(picture, entries, 0.3, below, WIDTH - 0.5)
    way = "earlier" if found.shift > 0 else "later"
    note = f"the trace is drawn {abs(found.shift):,} cycles {way}, so that the first pairs begin together"
    if found.shift:
        picture.add(Text(0.3, picture.height - 0.15, note, SMALL, SOFT, side="left"), WORDS)
    error = "" if found.error is None else f": {found.error:+.1%}"
    facts = [
        f"{found.result.device.name}, trace at {found.trace.clock_mhz} MHz",
        f"run {found.span[0]:,} cycles, trace {found.span[1]:,}{error}",
        f"{len(found.pairs):,} pairs, {len(found.unmatched):,} instructions alone",
    ]
    title_lines(picture, f"{found.result.name}: run over measured trace", facts)
    return picture


def _cores(found: TraceComparison) -> tuple[str, ...]:
    """The first core, and the one whose trace ends last."""
    ends: dict[str, int] = dict.fromkeys(found.cores, 0)
    for s in found.trace.slices:
        if s.core in ends:
            ends[s.core] = max(ends[s.core], s.end)
    last = max(found.cores, key=lambda core: ends[core])
    return tuple(dict.fromkeys((found.cores[0], last)))[:MOST_CORES]


def _lanes(found: TraceComparison, core: str) -> list[str]:
    """Lanes of a core on which either has something that is compared, in the order of the device's pipes."""
    there = {s.lane for s in (*found.run_slices, *_compared(found)) if s.core == core}
    return [lane for lane in _PIPES if lane in there]


def _compared(found: TraceComparison) -> list[Slice]:
    """The trace's slices, without those that are not modelled."""
    return [s for s in found.trace.slices if (s.lane, s.name) not in found.not_modelled]


def _window(found: TraceComparison, cores: Sequence[str]) -> tuple[int, int]:
    ours = [s for s in found.run_slices if s.core in cores]
    theirs = [s for s in _compared(found) if s.core in cores]
    ends = [s.end for s in ours] + [s.end - found.shift for s in theirs]
    begins = [0] + [s.start - found.shift for s in theirs]
    return min(begins), max(*ends, 1)


def _draw_lane(chart: Chart, found: TraceComparison, core: str, lane: str, y: float) -> None:
    pipe, paired = _PIPES[lane], {id(s) for pair in found.pairs for s in pair}
    ours = [s for s in found.run_slices if (s.core, s.lane) == (core, lane)]
    theirs = [s for s in _compared(found) if (s.core, s.lane) == (core, lane)]
    for slices, shift, top, name in ((ours, 0, y, "run"), (theirs, found.shift, y + _PAIR, "trace")):
        chart.spans([(chart.first, chart.last)], top, _BAR, Look(fill=PALE), GROUND)
        _draw_slices(chart, slices, shift, top, pipe, paired)
        chart.beside(top + _BAR / 2, name, SOFT)
    chart.name(y + _PAIR, lane, SMALL)


def _draw_slices(chart: Chart, slices: Sequence[Slice], shift: int, top: float, pipe: Pipe, paired: set[int]) -> None:
    waits = [(s.start - shift, s.end - shift) for s in slices if s.name in WAITS]
    chart.spans(waits, top, _BAR, _WAIT, LOW)
    for is_paired, fill in ((True, COLOURS[pipe]), (False, lighter(COLOURS[pipe], 0.6))):
        spans = [(s.start - shift, s.end - shift) for s in slices if (id(s) in paired) is is_paired and _is_work(s)]
        wide, narrow = (
            [span for span in spans if ((span[1] - span[0]) * chart.per_cycle >= EDGED) is is_wide]
            for is_wide in (True, False)
        )
        hatch = None if is_paired else _ALONE
        chart.spans(wide, top, _BAR, Look(fill, WHITE, hatch=hatch), MIDDLE)
        chart.spans(narrow, top, _BAR, Look(fill, hatch=hatch), MIDDLE)
    for s, end in zip(slices, [*(s.start for s in slices[1:]), chart.last + shift], strict=True):
        if _is_work(s) and id(s) in paired:
            seen = min(s.end, end)  # where it overlaps the next one, that is drawn over it
            text = fitting((s.name,), (seen - s.start) * chart.per_cycle, _BAR)
            chart.say((s.start + seen) / 2 - shift, top + _BAR / 2, text, COLOURS[pipe])


def _is_work(s: Slice) -> bool:
    return s.name not in WAITS and s.name not in COUNTED


def _entries(found: TraceComparison, lanes: set[str]) -> list[Entry]:
    entries = [Entry(lane, Look(fill=COLOURS[pipe])) for lane, pipe in _PIPES.items() if lane in lanes]
    if any(s.name in WAITS for s in (*found.run_slices, *found.trace.slices)):
        entries.append(Entry("WAIT_FLAG", _WAIT))
    if found.unmatched:
        entries.append(Entry("no partner in the other", Look(fill=lighter("#777777", 0.6), hatch=_ALONE)))
    return entries
