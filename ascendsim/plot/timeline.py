"""The timeline of a run: a lane for each pipe of the chosen cores, or an overview and lanes of parts of a long run."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from ascendsim.critical import Edge
from ascendsim.engine.base import Wait
from ascendsim.plot.canvas import Hatch, Line, Look, Pattern, Picture, Text
from ascendsim.plot.lanes import (
    BAND,
    CHART,
    LANES,
    LEFT,
    PITCH,
    CoreLanes,
    Flag,
    Hold,
    Lane,
    View,
    ai_core,
    core_lanes,
    view_of,
)
from ascendsim.plot.overview import draw_overview, overview_entries, overview_height
from ascendsim.plot.parts import MOST, Part, is_in_parts, kept, left_out, to_draw
from ascendsim.plot.style import (
    ALARM,
    AXIS,
    COLOURS,
    EDGED,
    FRAME,
    GROUND,
    HIGH,
    INK,
    LINE,
    LOW,
    OVER,
    PALE,
    SMALL,
    SOFT,
    STRIP,
    TEXT,
    TOP,
    WHITE,
    WIDTH,
    WORDS,
    Chart,
    Entry,
    arrow,
    cycle_axis,
    fitting,
    heading,
    legend,
    legend_rows,
    lighter,
    time_axis,
    title_lines,
)
from ascendsim.result import RunResult
from ascendsim.terms import Pipe

_HATCH_INK = "#8c8c8c"
_HATCHES = {
    Wait.FLAG: Hatch(Pattern.SLANT, 6.0, _HATCH_INK),
    Wait.BUFFER: Hatch(Pattern.BACK, 6.0, _HATCH_INK),
    Wait.BARRIER: Hatch(Pattern.CROSS, 4.0, _HATCH_INK),
    Wait.DISPATCH: Hatch(Pattern.DOTS, 3.0, _HATCH_INK),
    Wait.CROSS_CORE: Hatch(Pattern.GRID, 4.0, _HATCH_INK),
    Wait.QUEUE_FULL: Hatch(Pattern.UPRIGHT, 6.0, _HATCH_INK),
    Wait.UNIT_FLAG: Hatch(Pattern.UPRIGHT, 3.0, _HATCH_INK),
}
_STEP_COLOURS = ("#d9d9d9", "#eaeaea")
_DISPATCHES = lighter(COLOURS[Pipe.S], 0.6)
_CROSS_INK = "#7a1fa2"
"""Colour of flags between cores."""
_BRACKET = 0.22
"""Inches from the left edge to the bracket beside the cores of an AI Core."""
_STRETCHED = Look(fill=WHITE, hatch=Hatch(Pattern.SLANT, 3.0, "#444444"))

_PATH_INK = "#c2003a"
"""Colour of the critical path."""

_BAR, _GROUP_GAP, _STRIP, _PART_HEAD = 0.38, 0.22, 0.07, 0.55
"""Inches: height of a bar, distance of two cores, height of the strip of time lost to others, room above a part."""
_PATH, _PATH_GAP, _JUMP = 0.045, 0.01, 0.9
"""Height of the line above the bars of the critical path and its distance from them, in inches; width of the lines
between lanes, in points."""
_MAX_FLAGS = 24
"""So many of one core can be told apart."""
_MAX_HEIGHT = 400.0


@dataclass(frozen=True, slots=True)
class _Panel:
    """Lanes over one stretch of time."""

    view: View
    groups: tuple[CoreLanes, ...]
    height: float
    title: str = ""

    @property
    def with_flags(self) -> bool:
        """Whether its flags are few enough to be read."""
        return max(sum(not f.is_cross for f in g.flags) for g in self.groups) <= _MAX_FLAGS


def timeline_picture(
    result: RunResult, cores: tuple[int, ...] | None = None, first: int = 0, last: int | None = None
) -> Picture:
    """Draw what every pipe did.

    If windows were asked for, or not all rows of the run were kept, and nothing is chosen here: an overview of the
    whole run, and lanes of core 0 in the windows, or in the parts that were kept. Of a mixed kernel, instead of core 0
    and of a core that ends last: all cores of the AI Core that ends last.

    Args:
        result: the run.
        cores: which cores; None for core 0 and the one that ends last.
        first: cycle at the left edge.
        last: cycle at the right edge; None for the end of the run.

    Raises:
        ValueError: a core that the run does not have, or an empty range.
    """
    if is_in_parts(result) and cores is None and first == 0 and last is None:
        return _in_parts(result)
    return _of_view(view_of(result, cores, first, last))


def aligned_picture(title: str, runs: Sequence[tuple[str, RunResult]]) -> Picture:
    """Draw the lanes of several runs below each other over the same stretch of time, up to the end of the longest.

    Of each run: the core that ends last, in a mixed kernel all cores of the AI Core that does. A dashed line stands
    where a run ends.

    Args:
        title: of the picture.
        runs: what each is called, and the run.
    """
    most_us = max(result.makespan_us for _, result in runs)
    panels = [_aligned_panel(name, result, most_us) for name, result in runs]
    entries, notes = _entries(panels), _notes(panels)
    notes = [*notes, "dashed: end of the run"] + ["clocks differ: the panels share their microseconds"] * (
        len({result.device.clock_mhz for _, result in runs}) > 1
    )
    head = TOP - AXIS + 0.2
    below = head + sum(panel.height + _PART_HEAD + AXIS for panel in panels)
    picture = Picture(WIDTH, below + (legend_rows(entries, WIDTH - 0.5) + len(notes)) * LINE + 0.15)
    top = head
    for panel in panels:
        _draw_panel(picture, panel, top + _PART_HEAD)
        _draw_end(picture, panel, top + _PART_HEAD)
        top += _PART_HEAD + panel.height + AXIS
    spans = [f"{name}: {result.makespan_cycles:,} cycles = {result.makespan_us:,.3f} µs" for name, result in runs]
    title_lines(picture, title, spans)
    _draw_foot(picture, entries, notes, below)
    return picture


def _aligned_panel(name: str, result: RunResult, most_us: float) -> _Panel:
    """A run's lanes up to a time that may lie behind its end."""
    last = max(1, round(most_us * result.device.clock_mhz))
    cores = ai_core(result)
    return _panel(view_of(result, cores, 0, last), f"{name}: {result.name} on {result.device.name}")


def _draw_end(picture: Picture, panel: _Panel, top: float) -> None:
    """A dashed line where a run ends."""
    view = panel.view
    x = LEFT + min(view.result.makespan_cycles, view.last) * view.inches
    picture.add(Line((x, top), (x, top + panel.height), ALARM, 1.0, (3.0, 2.0)), OVER)


def _of_view(view: View) -> Picture:
    """Lanes over one stretch of time."""
    panel = _panel(view)
    entries, notes = _entries([panel]), _notes([panel])
    foot = AXIS + (legend_rows(entries, WIDTH - 0.5) + len(notes)) * LINE + 0.15
    picture = Picture(WIDTH, TOP + panel.height + foot)
    _draw_panel(picture, panel, TOP)
    facts = [f"bottleneck {view.result.bottleneck}", _cores_text(view)]
    if not view.whole:
        facts.append(f"cycles {view.first:,} to {view.last:,}")
    heading(picture, view.result, "timeline", facts)
    _draw_foot(picture, entries, notes, TOP + panel.height + AXIS)
    return picture


def _in_parts(result: RunResult) -> Picture:
    """An overview, and below it the lanes of core 0, or of an AI Core, in some parts."""
    cores = ai_core(result) if result.program.kernel_type.is_mix else (0,)
    parts, there = to_draw(result, cores), [] if result.timeline.is_whole else kept(result, cores)
    panels = [_part_panel(result, cores, part) for part in parts[:MOST]]
    entries = overview_entries(result, parts, there) + _entries(panels)
    high = overview_height(result)
    chart = Chart(Picture(WIDTH, 0), LEFT, TOP, CHART, high, 0, max(1, result.makespan_cycles))
    notes = draw_overview(chart, result, parts[:MOST], there) + _notes(panels) + left_out(parts)
    below = TOP + high + AXIS + sum(panel.height + _PART_HEAD + AXIS for panel in panels)
    picture = Picture(WIDTH, below + (legend_rows(entries, WIDTH - 0.5) + len(notes)) * LINE + 0.15)
    picture.layers.update(chart.picture.layers)
    top = TOP + high + AXIS
    for panel in panels:
        _draw_panel(picture, panel, top + _PART_HEAD)
        top += _PART_HEAD + panel.height + AXIS
    heading(picture, result, "timeline", [f"bottleneck {result.bottleneck}", _rows_text(result)])
    _draw_foot(picture, entries, notes, below)
    return picture


def _rows_text(result: RunResult) -> str:
    timeline = result.timeline
    if timeline.is_whole:
        return f"{timeline.row_count:,} rows"
    return f"{len(timeline):,} of {timeline.row_count:,} rows kept"


def _part_panel(result: RunResult, cores: tuple[int, ...], part: Part) -> _Panel:
    who = _ai_core_name(result, cores[0]) if len(cores) > 1 else f"core {cores[0]}"
    title = f"{who}, {part.name}: cycles {part.first:,} to {part.last:,}"
    return _panel(view_of(result, cores, part.first, part.last), title)


def _ai_core_name(result: RunResult, core: int) -> str:
    return f"AI Core {core // result.program.block_cores}"


def _panel(view: View, title: str = "") -> _Panel:
    pipes = {core: _pipes(view, core) for core in view.cores}
    heights = [len(p) * PITCH + BAND * (Pipe.V in p) + _GROUP_GAP for p in pipes.values()]
    tops = np.cumsum([0, *heights]).tolist()
    if tops[-1] > _MAX_HEIGHT:
        raise ValueError(f"{len(view.cores)} cores do not fit one picture, choose fewer")
    groups = tuple(core_lanes(view, c, pipes[c], _GROUP_GAP / 2 + top) for c, top in zip(pipes, tops, strict=False))
    return _Panel(view, groups, tops[-1], title)


def _pipes(view: View, core: int) -> list[Pipe]:
    """Pipes with rows on the cores in view that are of a core's kind."""
    timeline, program = view.result.timeline, view.result.program
    alike = [c for c in view.cores if program.core_kind(c) is program.core_kind(core)]
    present = {int(p) for p in np.unique(timeline["pipe"][np.isin(timeline["core"], alike)])}
    return [p for p in LANES if p in present] or [Pipe.S]


def _lane_name(pipe: Pipe) -> str:
    return "SCALAR" if pipe is Pipe.S else pipe.name


def _cores_text(view: View) -> str:
    total = view.result.program.core_count
    if len(view.cores) == total:
        return "all cores" if total > 1 else "1 core"
    if len(view.cores) > 4:
        return f"{len(view.cores)} of {total} cores"
    program = view.result.program
    if program.kernel_type.is_mix:
        if view.cores == tuple(range(view.cores[0], view.cores[0] + program.block_cores)):
            return f"{_ai_core_name(view.result, view.cores[0])} of {program.block_dim}"
        return ", ".join(map(program.core_name, view.cores))
    names = " and ".join(filter(None, (", ".join(map(str, view.cores[:-1])), str(view.cores[-1]))))
    return f"{'cores' if len(view.cores) > 1 else 'core'} {names} of {total}"


def _notes(panels: Sequence[_Panel]) -> list[str]:
    notes = []
    unread = [panel for panel in panels if not panel.with_flags]
    if unread:
        count = sum(len(g.flags) for panel in unread for g in panel.groups)
        why = f"more than {_MAX_FLAGS} of a core cannot be read, choose a shorter range of cycles, --trace-window"
        notes.append(f"{count} flags are not drawn: {why}")
    if not all(panel.view.whole for panel in panels):
        notes.append("busy shares are those of the whole run")
    notes += _path_notes(panels)
    if any(not panel.title and not panel.view.result.timeline.is_whole for panel in panels):
        notes.append("not all rows of the run were kept: only those are drawn")
    return notes


def _path_notes(panels: Sequence[_Panel]) -> list[str]:
    """What of each run's critical path is not in the picture; nothing where no lane is."""
    runs = {id(panel.view.result): panel for panel in panels}
    notes = []
    for key, last in runs.items():
        cores = {core for panel in panels if id(panel.view.result) == key for core in panel.view.cores}
        name = f"{last.title}: " if len(runs) > 1 else ""
        notes += [f"{name}{note}" for note in _missing_of_path(last.view.result, cores)]
    return notes


def _missing_of_path(result: RunResult, cores: set[int]) -> list[str]:
    """What of a run's critical path is not on these cores, or not known."""
    path = [step for step in result.critical_path if step.edge is not Edge.UNKNOWN]
    elsewhere = sum(step.cycles for step in path if step.core not in cores)
    known, notes = sum(step.cycles for step in path), []
    if elsewhere:
        notes.append(f"{elsewhere:,} of {known:,} cycles of the critical path are on cores that are not drawn")
    if known < result.makespan_cycles:
        notes.append(f"the critical path is known for the last {known:,} cycles; rows before were not kept")
    return notes


def _entries(panels: Sequence[_Panel]) -> list[Entry]:
    """Legend entries of what is in the picture."""
    lanes = [lane for panel in panels for g in panel.groups for lane in g.lanes]
    pipes = [pipe for pipe in LANES if pipe in {lane.pipe for lane in lanes}]
    entries = [Entry(f"{_lane_name(p)} busy", Look(fill=COLOURS[p])) for p in pipes]
    if any(lane.dispatches for lane in lanes):
        entries.append(Entry("SCALAR dispatches to other pipes", Look(fill=_DISPATCHES)))
    if any(b.end > b.occupied for lane in lanes for b in lane.bars):
        entries.append(Entry("lighter: drain, last results being written", Look(fill=lighter("#777777", 0.55))))
    if any(b.stretch for lane in lanes for b in lane.bars):
        entries.append(Entry("transfer time lost to other cores", _STRETCHED))
    causes = {h.cause for lane in lanes for h in lane.holds}
    entries += [Entry(f"waits: {_cause_name(c)}", _held(c)) for c in _HATCHES if c in causes]
    if any(lane.path for lane in lanes):
        entries.append(Entry("critical path", Look(fill=_PATH_INK)))
    if any(g.steps for panel in panels for g in panel.groups):
        entries.append(Entry("marked step on V", Look(fill=_STEP_COLOURS[0])))
    if any(panel.with_flags and g.flags for panel in panels for g in panel.groups):
        entries.append(Entry("flag: SET_FLAG to WAIT_FLAG", None))
    if any(flag.is_cross for panel in panels for g in panel.groups for flag in g.flags):
        entries.append(Entry("cross-core flag", None, _CROSS_INK))
    return entries


def _cause_name(cause: Wait) -> str:
    return "dispatch by SCALAR" if cause is Wait.DISPATCH else cause.words


def _held(cause: Wait) -> Look:
    return Look(fill="" if cause is Wait.BARRIER else "#f0f0f0", hatch=_HATCHES[cause])


def _draw_foot(picture: Picture, entries: Sequence[Entry], notes: Sequence[str], top: float) -> None:
    legend(picture, entries, 0.3, top, WIDTH - 0.5)
    for i, note in enumerate(reversed(notes)):
        picture.add(Text(0.3, picture.height - 0.15 - i * LINE, note, SMALL, SOFT, side="left"), WORDS)


def _draw_panel(picture: Picture, panel: _Panel, top: float) -> None:
    view = panel.view
    chart = Chart(picture, LEFT, top, CHART, panel.height, view.first, view.last)
    time_axis(chart, view.result.device.clock_mhz)
    cycle_axis(chart)
    chart.frame()
    if panel.title:
        picture.add(Text(0.15, top - 0.3, panel.title, TEXT, INK, bold=True, side="left"), WORDS)
    for lanes in panel.groups:
        _draw_core(chart, view, lanes, panel.with_flags)
    heights = {(lanes.core, lane.pipe): lane.y for lanes in panel.groups for lane in lanes.lanes}
    for flag in (flag for lanes in panel.groups for flag in lanes.flags if flag.is_cross):
        _draw_flag(chart, flag, heights, _CROSS_INK)
    _draw_jumps(chart, view, heights)
    if view.result.program.kernel_type.is_mix:
        _draw_ai_cores(chart, view, panel.groups)


def _draw_jumps(chart: Chart, view: View, heights: dict[tuple[int, Pipe], float]) -> None:
    """Where the critical path goes on in another lane: a line from the one to the other."""
    for before, after in pairwise(view.result.critical_path):
        lanes = (before.core, before.pipe), (after.core, after.pipe)
        in_view = view.first < after.begin_cycles < view.last
        if in_view and lanes[0] != lanes[1] and all(lane in heights for lane in lanes):
            x = chart.x(after.begin_cycles)
            start, end = ((x, chart.top + heights[lane] - _BAR / 2 - _PATH_GAP - _PATH / 2) for lane in lanes)
            chart.picture.add(Line(start, end, _PATH_INK, _JUMP), OVER)


def _draw_ai_cores(chart: Chart, view: View, groups: Sequence[CoreLanes]) -> None:
    """A bracket beside the cores of each AI Core."""
    per = view.result.program.block_cores
    for _, some in groupby(groups, lambda lanes: lanes.core // per):
        cores = list(some)
        top, bottom = cores[0].lanes[0].y - _BAR / 2, cores[-1].lanes[-1].y + _BAR / 2
        ends = ((_BRACKET + 0.05, chart.top + top), (_BRACKET + 0.05, chart.top + bottom))
        corners = ((_BRACKET, chart.top + top), (_BRACKET, chart.top + bottom))
        for start, end in ((ends[0], corners[0]), corners, (corners[1], ends[1])):
            chart.picture.add(Line(start, end, SOFT, FRAME), OVER)
        name = _ai_core_name(view.result, cores[0].core)
        chart.picture.add(Text(0.12, chart.top + (top + bottom) / 2, name, SMALL, INK, upright=True), WORDS)


def _draw_core(chart: Chart, view: View, lanes: CoreLanes, with_flags: bool) -> None:
    for lane in lanes.lanes:
        _draw_lane(chart, view, lane)
    _draw_steps(chart, view, lanes)
    if with_flags:
        heights = {(lanes.core, lane.pipe): lane.y for lane in lanes.lanes}
        for flag in lanes.flags:
            if not flag.is_cross:
                _draw_flag(chart, flag, heights, INK)
    middle = (lanes.lanes[0].y + lanes.lanes[-1].y) / 2
    program = view.result.program
    left = _BRACKET + 0.07 if program.kernel_type.is_mix else 0.15
    name = Text(left, chart.top + middle, program.core_name(lanes.core), TEXT, "#000000", bold=True, side="left")
    chart.picture.add(name, WORDS)


def _draw_lane(chart: Chart, view: View, lane: Lane) -> None:
    top, colour = lane.y - _BAR / 2, COLOURS[lane.pipe]
    chart.spans([(view.first, view.last)], top, _BAR, Look(fill=PALE), GROUND)
    for cause in _HATCHES:
        chart.spans([(h.start, h.end) for h in lane.holds if h.cause is cause], top, _BAR, _held(cause))
    chart.spans(lane.dispatches, top, _BAR, Look(fill=_DISPATCHES), LOW)
    chart.spans([(b.occupied, b.end) for b in lane.bars], top, _BAR, Look(fill=lighter(colour, 0.55)), LOW)
    wide = [(b.start, b.occupied) for b in lane.bars if view.width(b.start, b.occupied) >= EDGED]
    narrow = [(b.start, b.occupied) for b in lane.bars if view.width(b.start, b.occupied) < EDGED]
    chart.spans(narrow, top, _BAR, Look(fill=colour), HIGH)
    chart.spans(wide, top, _BAR, Look(colour, WHITE), HIGH)
    lost = [(b.end - b.stretch, b.end) for b in lane.bars if b.stretch]
    chart.spans(lost, top + _BAR - _STRIP, _STRIP, _STRETCHED, STRIP)
    chart.spans(lane.path, top - _PATH_GAP - _PATH, _PATH, Look(fill=_PATH_INK), OVER)
    _draw_lane_texts(chart, view, lane)


def _draw_lane_texts(chart: Chart, view: View, lane: Lane) -> None:
    for bar in lane.bars:
        strip = _STRIP if bar.stretch else 0.0
        text = fitting(bar.labels, view.width(bar.start, bar.occupied), _BAR - strip)
        chart.say(view.middle(bar.start, bar.occupied), lane.y - strip / 2, text, COLOURS[lane.pipe])
    for hold in lane.holds:
        middle = view.middle(hold.start, hold.end)
        if not any(bar.start <= middle < bar.occupied for bar in lane.bars):
            text = fitting(_hold_labels(hold), view.width(hold.start, hold.end) - 0.06, _BAR)
            chart.say(middle, lane.y, text, WHITE)
    chart.name(lane.y, _lane_name(lane.pipe))
    chart.beside(lane.y, f"{lane.busy_share:.0%} busy")


def _hold_labels(hold: Hold) -> tuple[str, ...]:
    if hold.cause is Wait.QUEUE_FULL:
        return f"queue of {hold.what} full", f"queue of\n{hold.what} full", "queue\nfull"
    if hold.cause is Wait.CROSS_CORE:
        return f"cross-core {hold.what}", f"cross-core\n{hold.what}", "cross-core\nflag"
    cause = hold.cause.words
    bare = (cause, cause.replace(" ", "\n", 1))
    return (f"{cause}: {hold.what}", f"{cause}:\n{hold.what}", *bare) if hold.what else bare


def _draw_steps(chart: Chart, view: View, lanes: CoreLanes) -> None:
    top = lanes.band_y - BAND / 2 + 0.02
    for index, colour in enumerate(_STEP_COLOURS):
        spans = [(s.start, s.end) for s in lanes.steps[index::2]]
        chart.spans(spans, top, BAND - 0.03, Look(fill=colour), LOW)
    for index, step in enumerate(lanes.steps):
        text = fitting(step.labels, view.width(step.start, step.end), BAND)
        chart.say(view.middle(step.start, step.end), lanes.band_y, text, _STEP_COLOURS[index % 2])


def _draw_flag(chart: Chart, flag: Flag, heights: dict[tuple[int, Pipe], float], ink: str) -> None:
    source, target = heights[flag.source_core, flag.source], heights[flag.target_core, flag.target]
    down = _BAR * (0.3 if target > source else -0.3)
    tail = (chart.x(flag.raised), chart.top + source + down)
    arrow(chart.picture, tail, (chart.x(flag.taken), chart.top + target - down), ink)
