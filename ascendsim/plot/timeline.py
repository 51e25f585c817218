"""The timeline of a run: a lane for each pipe of the chosen cores."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ascendsim.engine.base import Wait
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
    core_lanes,
    view_of,
)
from ascendsim.plot.style import (
    AXIS,
    COLOURS,
    DPI,
    EDGED,
    INK,
    LINE,
    SMALL,
    SOFT,
    TEXT,
    TOP,
    WIDTH,
    add_axes,
    cycle_axes,
    fitting,
    heading,
    legend,
    legend_columns,
    lighter,
    png,
    say,
    settings,
    svg,
)
from ascendsim.result import RunResult
from ascendsim.terms import Pipe

_HATCHES = {
    Wait.FLAG: "///",
    Wait.BUFFER: "\\\\\\",
    Wait.BARRIER: "xxxxx",
    Wait.DISPATCH: "....",
    Wait.CROSS_CORE: "++++",
    Wait.QUEUE_FULL: "||",
}
_PALE, _HATCH_INK = "#f4f4f4", "#8c8c8c"
_STEP_COLOURS = ("#d9d9d9", "#eaeaea")
_DISPATCHES = lighter(COLOURS[Pipe.S], 0.6)
_STRETCHED: dict[str, Any] = {"facecolor": "white", "edgecolor": "#444444", "hatch": "////////", "linewidth": 0}

_BAR, _GROUP_GAP, _STRIP = 0.38, 0.22, 0.07
"""Inches: height of a bar, distance of two cores, height of the strip of time lost to other cores."""
_MAX_FLAGS = 24
"""So many of one core can be told apart."""
_MAX_HEIGHT = 400.0


def timeline_png(
    result: RunResult, cores: tuple[int, ...] | None = None, first: int = 0, last: int | None = None
) -> bytes:
    """Draw what every pipe did.

    Args:
        result: the run.
        cores: which cores; None for core 0 and the one that ends last.
        first: cycle at the left edge.
        last: cycle at the right edge; None for the end of the run.

    Raises:
        ValueError: a core that the run does not have, or an empty range.
    """
    with settings():
        return png(_figure(result, cores, first, last))


def timeline_svg(
    result: RunResult, cores: tuple[int, ...] | None = None, first: int = 0, last: int | None = None
) -> bytes:
    """Draw what every pipe did, as SVG; arguments and errors as `timeline_png`."""
    with settings():
        return svg(_figure(result, cores, first, last), result.name)


def _figure(result: RunResult, cores: tuple[int, ...] | None, first: int, last: int | None) -> Figure:
    view = view_of(result, cores, first, last)
    present = {int(p) for p in np.unique(result.timeline["pipe"][np.isin(result.timeline["core"], view.cores)])}
    pipes = [p for p in LANES if p in present] or [Pipe.S]
    group = len(pipes) * PITCH + BAND * (Pipe.V in pipes) + _GROUP_GAP
    groups = [core_lanes(view, c, pipes, _GROUP_GAP / 2 + i * group) for i, c in enumerate(view.cores)]
    with_flags = max(len(g.flags) for g in groups) <= _MAX_FLAGS
    handles = _handles(groups, pipes, with_flags)
    columns = legend_columns(handles, WIDTH - 0.5)
    notes = _notes(view, groups, with_flags)
    foot = AXIS + (-(-len(handles) // columns) + len(notes)) * LINE + 0.15
    height = len(groups) * group
    if height > _MAX_HEIGHT:
        raise ValueError(f"{len(groups)} cores do not fit one picture, choose fewer")
    figure = Figure((WIDTH, TOP + height + foot), dpi=DPI)
    axes = add_axes(figure, LEFT, foot, CHART, height)
    axes.set_xlim(view.first, view.last)
    axes.set_ylim(height, 0)
    for lanes in groups:
        _draw_core(axes, view, lanes, with_flags)
    _finish(figure, axes, view, groups)
    legend(figure, handles, 0.3, foot - AXIS, columns)
    for i, note in enumerate(reversed(notes)):
        figure.text(0.3 / WIDTH, (0.1 + i * LINE) / figure.get_figheight(), note, size=SMALL, color=SOFT)
    return figure


def _finish(figure: Figure, axes: Axes, view: View, groups: Sequence[CoreLanes]) -> None:
    cycle_axes(axes, view.result)
    axes.set_xlabel("cycles", size=SMALL, labelpad=2)
    lanes = [lane for g in groups for lane in g.lanes]
    axes.set_yticks([lane.y for lane in lanes], [_lane_name(lane.pipe) for lane in lanes], size=TEXT)
    axes.tick_params(axis="y", length=0, pad=5)
    for side in ("left", "right"):
        axes.spines[side].set_visible(False)
    facts = [f"bottleneck {view.result.bottleneck}", _cores_text(view)]
    if not view.whole:
        facts.append(f"cycles {view.first:,} to {view.last:,}")
    heading(figure, view.result, "timeline", facts)


def _lane_name(pipe: Pipe) -> str:
    return "SCALAR" if pipe is Pipe.S else pipe.name


def _cores_text(view: View) -> str:
    total = view.result.program.block_dim
    if len(view.cores) == total:
        return "all cores" if total > 1 else "1 core"
    if len(view.cores) > 4:
        return f"{len(view.cores)} of {total} cores"
    names = " and ".join(filter(None, (", ".join(map(str, view.cores[:-1])), str(view.cores[-1]))))
    return f"{'cores' if len(view.cores) > 1 else 'core'} {names} of {total}"


def _notes(view: View, groups: Sequence[CoreLanes], with_flags: bool) -> list[str]:
    notes = []
    if not with_flags:
        count = sum(len(g.flags) for g in groups)
        why = f"more than {_MAX_FLAGS} of a core cannot be read, choose a shorter range of cycles"
        notes.append(f"{count} flags are not drawn: {why}")
    if not view.whole:
        notes.append("busy shares are those of the whole run")
    return notes


def _handles(groups: Sequence[CoreLanes], pipes: Sequence[Pipe], with_flags: bool) -> list[Artist]:
    """Legend entries of what is in the picture."""
    lanes = [lane for g in groups for lane in g.lanes]
    handles: list[Artist] = [Patch(facecolor=COLOURS[p], label=f"{_lane_name(p)} busy") for p in pipes]
    if any(lane.dispatches for lane in lanes):
        handles.append(Patch(facecolor=_DISPATCHES, label="SCALAR dispatches to other pipes"))
    if any(b.end > b.occupied for lane in lanes for b in lane.bars):
        handles.append(Patch(facecolor=lighter("#777777", 0.55), label="lighter: drain, last results being written"))
    if any(b.stretch for lane in lanes for b in lane.bars):
        handles.append(Patch(**_STRETCHED, label="transfer time lost to other cores"))
    causes = {h.cause for lane in lanes for h in lane.holds}
    handles += [Patch(**_held(c), label=f"waits: {_cause_name(c)}") for c in _HATCHES if c in causes]
    if any(g.steps for g in groups):
        handles.append(Patch(facecolor=_STEP_COLOURS[0], edgecolor="white", label="marked step on V"))
    if with_flags and any(g.flags for g in groups):
        line = Line2D([], [], color=INK, linewidth=0.8, marker=">", markersize=4, label="flag: SET_FLAG to WAIT_FLAG")
        handles.append(line)
    return handles


def _cause_name(cause: Wait) -> str:
    return "dispatch by SCALAR" if cause is Wait.DISPATCH else cause.words


def _held(cause: Wait) -> dict[str, Any]:
    ground = "none" if cause is Wait.BARRIER else "#f0f0f0"
    return {"facecolor": ground, "edgecolor": _HATCH_INK, "hatch": _HATCHES[cause], "linewidth": 0}


def _draw_core(axes: Axes, view: View, lanes: CoreLanes, with_flags: bool) -> None:
    for lane in lanes.lanes:
        _draw_lane(axes, view, lane)
    _draw_steps(axes, view, lanes)
    if with_flags:
        heights = {lane.pipe: lane.y for lane in lanes.lanes}
        for flag in lanes.flags:
            _draw_flag(axes, flag, heights)
    middle = (lanes.lanes[0].y + lanes.lanes[-1].y) / 2
    left = (0.15 - LEFT) / CHART
    axes.text(
        left, middle, f"core {lanes.core}", size=TEXT, weight="bold", va="center", transform=axes.get_yaxis_transform()
    )


def _draw_lane(axes: Axes, view: View, lane: Lane) -> None:
    top, colour = lane.y - _BAR / 2, COLOURS[lane.pipe]
    axes.axhspan(top, top + _BAR, facecolor=_PALE, zorder=0)
    for cause in _HATCHES:
        spans = [(h.start, h.end) for h in lane.holds if h.cause is cause]
        _spans(axes, spans, top, _BAR, zorder=2, **_held(cause))
    _spans(axes, lane.dispatches, top, _BAR, zorder=1, facecolor=_DISPATCHES, linewidth=0)
    drains = [(b.occupied, b.end) for b in lane.bars]
    _spans(axes, drains, top, _BAR, zorder=1, facecolor=lighter(colour, 0.55), linewidth=0)
    wide = [(b.start, b.occupied) for b in lane.bars if view.width(b.start, b.occupied) >= EDGED]
    narrow = [(b.start, b.occupied) for b in lane.bars if view.width(b.start, b.occupied) < EDGED]
    _spans(axes, narrow, top, _BAR, zorder=3, facecolor=colour, linewidth=0)
    _spans(axes, wide, top, _BAR, zorder=3, facecolor=colour, edgecolor="white", linewidth=0.5)
    lost = [(b.end - b.stretch, b.end) for b in lane.bars if b.stretch]
    _spans(axes, lost, top + _BAR - _STRIP, _STRIP, zorder=4, **_STRETCHED)
    _draw_lane_texts(axes, view, lane)


def _draw_lane_texts(axes: Axes, view: View, lane: Lane) -> None:
    for bar in lane.bars:
        strip = _STRIP if bar.stretch else 0.0
        text = fitting(bar.labels, view.width(bar.start, bar.occupied), _BAR - strip)
        say(axes, view.middle(bar.start, bar.occupied), lane.y - strip / 2, text, COLOURS[lane.pipe])
    for hold in lane.holds:
        text = fitting(_hold_labels(hold), view.width(hold.start, hold.end) - 0.06, _BAR)
        say(axes, view.middle(hold.start, hold.end), lane.y, text, "white")
    axes.text(
        1.01, lane.y, f"{lane.busy_share:.0%} busy", size=SMALL, color=SOFT, va="center",
        transform=axes.get_yaxis_transform(),
    )  # fmt: skip


def _hold_labels(hold: Hold) -> tuple[str, ...]:
    if hold.cause is Wait.QUEUE_FULL:
        return f"queue of {hold.what} full", f"queue of\n{hold.what} full", "queue\nfull"
    cause = hold.cause.words
    bare = (cause, cause.replace(" ", "\n", 1))
    return (f"{cause}: {hold.what}", f"{cause}:\n{hold.what}", *bare) if hold.what else bare


def _spans(axes: Axes, spans: Sequence[tuple[int, int]], top: float, height: float, **look: Any) -> None:
    """Rectangles of one look and height."""
    boxes = [[(a, top), (b, top), (b, top + height), (a, top + height)] for a, b in spans if b > a]
    if boxes:
        axes.add_collection(PolyCollection(boxes, **look), autolim=False)


def _draw_steps(axes: Axes, view: View, lanes: CoreLanes) -> None:
    top = lanes.band_y - BAND / 2 + 0.02
    for index, colour in enumerate(_STEP_COLOURS):
        spans = [(s.start, s.end) for s in lanes.steps[index::2]]
        _spans(axes, spans, top, BAND - 0.03, zorder=1, facecolor=colour, linewidth=0)
    for index, step in enumerate(lanes.steps):
        text = fitting(step.labels, view.width(step.start, step.end), BAND)
        say(axes, view.middle(step.start, step.end), lanes.band_y, text, _STEP_COLOURS[index % 2])


def _draw_flag(axes: Axes, flag: Flag, heights: dict[Pipe, float]) -> None:
    down = _BAR * (0.3 if heights[flag.target] > heights[flag.source] else -0.3)
    arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": 0.8, "mutation_scale": 7, "shrinkA": 0, "shrinkB": 0}
    tip, tail = (flag.taken, heights[flag.target] - down), (flag.raised, heights[flag.source] + down)
    axes.annotate("", tip, tail, arrowprops=arrow, zorder=5)
