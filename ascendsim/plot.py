"""Pictures of a run: which pipe did what when, and what lay where in UB. Functions of a result, bytes out.

Figures are built without pyplot, under matplotlib's own defaults whatever the user's settings are, so that the same
result gives the same bytes. Everything is laid out in inches: a text is drawn only where it was measured to fit.
"""

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby, pairwise
from typing import Any, TypeVar

import numpy as np
from matplotlib import style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator, ScalarFormatter

from ascendsim import analysis
from ascendsim.engine.base import Kind, Wait
from ascendsim.isa.instruction import Row
from ascendsim.isa.log import mnemonic
from ascendsim.result import RunResult
from ascendsim.terms import Buffer, HardEvent, Pipe

T = TypeVar("T")

DPI = 150
STAMP = "SIMULATED DESPITE FINDINGS"
LANES = (Pipe.S, Pipe.MTE2, Pipe.MTE1, Pipe.M, Pipe.FIX, Pipe.V, Pipe.MTE3)
"""Pipes from top to bottom."""

# Okabe-Ito: distinct to colour-blind eyes, and light enough for black text.
_COLOURS = {
    Pipe.S: "#cc79a7",
    Pipe.MTE2: "#56b4e9",
    Pipe.MTE1: "#8fa8d6",
    Pipe.M: "#f0e442",
    Pipe.FIX: "#d55e00",
    Pipe.V: "#1fae85",
    Pipe.MTE3: "#e69f00",
}
_POSITIONS = {"VECIN": _COLOURS[Pipe.MTE2], "VECCALC": _COLOURS[Pipe.V], "VECOUT": _COLOURS[Pipe.MTE3]}
_QUEUE_FULL = "queue full"
_HATCHES = {
    Wait.FLAG.words: "///",
    Wait.BUFFER.words: "\\\\\\",
    Wait.BARRIER.words: "xxxxx",
    Wait.DISPATCH.words: "....",
    Wait.CROSS_CORE.words: "++++",
    _QUEUE_FULL: "||",
}
_HELD = (Wait.FLAG, Wait.BUFFER, Wait.BARRIER, Wait.DISPATCH, Wait.CROSS_CORE)
_INK, _SOFT, _PALE, _HATCH_INK, _ALARM = "#222222", "#666666", "#f4f4f4", "#8c8c8c", "#b00020"

# Inches.
_WIDTH = 12.0
_LEFT, _RIGHT = 1.4, 0.95
_PITCH, _BAR, _BAND, _GROUP_GAP, _STRIP = 0.47, 0.38, 0.2, 0.22, 0.07
_TOP, _AXIS, _LINE = 1.0, 0.5, 0.18
_TINY, _TOUCH, _EDGED = 0.05, 0.02, 0.04
"""Bars narrower on average than the first may be merged over gaps up to the second; outlines start at the third."""
_DENSE = 0.8
"""A run of bars is merged only if they fill this share of it: a block must not look busier than the pipe was."""

# Points.
_TEXT, _SMALL, _TITLE = 9.0, 8.0, 13.0
_MAX_FLAGS = 24
"""So many of one core can be told apart."""
_MAX_HEIGHT = 400.0
_CHINESE = ("Noto Sans CJK SC", "Source Han Sans SC", "WenQuanYi Micro Hei", "Microsoft YaHei", "PingFang SC", "SimHei")


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
    with _settings():
        return _png(_timeline_figure(result, cores, first, last))


def timeline_svg(
    result: RunResult, cores: tuple[int, ...] | None = None, first: int = 0, last: int | None = None
) -> bytes:
    """Draw what every pipe did, as SVG; arguments and errors as `timeline_png`."""
    with _settings():
        return _svg(_timeline_figure(result, cores, first, last), result.name)


def memory_png(result: RunResult, core: int = 0) -> bytes:
    """Draw what lay where in UB of one core, over time.

    Raises:
        ValueError: a core that the run does not have.
    """
    with _settings():
        return _png(_memory_figure(result, core))


# ---- files, text ------------------------------------------------------------------------------------------------


@contextmanager
def _settings() -> Iterator[None]:
    """Matplotlib's defaults plus ours. Chinese names use an installed font; without one they become boxes."""
    installed = set(fontManager.get_font_names())
    ours = {
        "font.family": ["DejaVu Sans", *(name for name in _CHINESE if name in installed)],
        "font.size": _TEXT,
        "axes.linewidth": 0.6,
        "hatch.linewidth": 0.5,
        "svg.fonttype": "path",
        "svg.hashsalt": "ascendsim",
    }
    with style.context(["default", ours]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _png(figure: Figure) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=DPI, metadata={"Software": None}, pil_kwargs={"compress_level": 9})
    return out.getvalue()


def _svg(figure: Figure, title: str) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "ascendsim", "Title": title})
    return out.getvalue()


@cache
def _measure(line: str, size: float, weight: str = "normal") -> float:
    """Width of a line of text in inches."""
    font = FontProperties(size=size, weight=weight)
    return text_to_path.get_text_width_height_descent(line, font, ismath=False)[0] / 72


def _extent(text: str, size: float) -> tuple[float, float]:
    """Width and height of a text in inches."""
    lines = text.split("\n")
    return max(_measure(line, size) for line in lines), len(lines) * size * 1.25 / 72


def _fitting(labels: Sequence[str], width: float, height: float, size: float = _SMALL) -> str:
    """The first label that fits, or nothing."""
    for label in labels:
        w, h = _extent(label, size)
        if w + 0.06 <= width and h <= height:
            return label
    return ""


def _shortened(text: str, width: float, size: float, weight: str = "normal") -> str:
    """A line cut so that it fits, with an ellipsis if it was cut."""
    if _measure(text, size, weight) <= width:
        return text
    while text and _measure(text + "…", size, weight) > width:
        text = text[:-1]
    return text + "…"


def _lighter(colour: str, share: float) -> str:
    red, green, blue = (c + (1 - c) * share for c in to_rgb(colour))
    return to_hex((red, green, blue))


def _heading(figure: Figure, result: RunResult, subject: str, facts: Sequence[str]) -> None:
    """Title, facts of the run below it, and the stamp if it is due."""
    height = figure.get_figheight()
    room = _WIDTH - 0.3
    if result.despite_findings:
        room -= _measure(STAMP, 11, "bold") + 0.4
        figure.text(
            1 - 0.2 / _WIDTH, 1 - 0.2 / height, STAMP, size=11, weight="bold", color=_ALARM, ha="right", va="center",
            bbox={"facecolor": "white", "edgecolor": _ALARM, "boxstyle": "square,pad=0.3"},
        )  # fmt: skip
    title = _shortened(f"{result.name}: {subject}", room, _TITLE, "bold")
    x = 0.15 / _WIDTH
    figure.text(x, 1 - 0.2 / height, title, size=_TITLE, weight="bold", va="center", parse_math=False)
    run = f"{result.device.name}, makespan {result.makespan_cycles:,} cycles = {result.makespan_us:,.3f} µs"
    line = _shortened(" · ".join([run, *facts]), _WIDTH - 0.3, _TEXT)
    figure.text(x, 1 - 0.45 / height, line, size=_TEXT, va="center", color=_INK, parse_math=False)


def _cycle_axes(axes: Axes, result: RunResult) -> None:
    """Cycles below, microseconds above."""
    clock = result.device.clock_mhz

    def to_time(cycles: Any) -> Any:
        return np.asarray(cycles) / clock

    def to_cycles(time: Any) -> Any:
        return np.asarray(time) * clock

    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    above = axes.secondary_xaxis("top", functions=(to_time, to_cycles))
    above.xaxis.set_major_locator(MaxNLocator(10))
    above.xaxis.set_major_formatter(ScalarFormatter(useOffset=False))
    above.set_xlabel("µs", size=_SMALL, labelpad=4)
    for axis in (axes, above):
        axis.tick_params(axis="x", labelsize=_SMALL, length=3, pad=2)


def _legend(figure: Figure, handles: Sequence[Artist], left: float, top: float, columns: int) -> None:
    """A legend whose upper left corner is at (left, top), in inches from the lower left."""
    figure.legend(
        handles=list(handles), loc="upper left", bbox_to_anchor=(left / _WIDTH, top / figure.get_figheight()),
        ncols=columns, frameon=False, fontsize=_SMALL, borderaxespad=0, borderpad=0, handlelength=2.0,
        labelspacing=0.5, columnspacing=1.5,
    )  # fmt: skip


def _legend_columns(handles: Sequence[Artist], width: float) -> int:
    widest = max((_measure(str(h.get_label()), _SMALL) for h in handles), default=1.0)
    return max(1, int(width // (widest + 0.5)))


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes placed in inches."""
    w, h = figure.get_size_inches()
    return figure.add_axes((left / w, bottom / h, width / w, height / h))


# ---- timeline: data ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bar:
    """Work on a pipe: one row, or several rows of one marked step drawn as one block."""

    start: int
    occupied: int
    end: int
    group: tuple[int, int]
    """Call and step."""
    labels: tuple[str, ...]
    """What may stand in it, best first."""
    stretch: int = 0
    """Cycles that sharing a link added to a transfer."""


@dataclass(frozen=True, slots=True)
class _Hold:
    """A stretch of time in which a pipe waits."""

    start: int
    end: int
    cause: str
    what: str


@dataclass(frozen=True, slots=True)
class _Flag:
    """A flag from where it is raised to where it is taken."""

    source: Pipe
    raised: int
    target: Pipe
    taken: int


@dataclass(frozen=True, slots=True)
class _Lane:
    """One pipe of one core, ready to be drawn; y is its middle, in inches from the top of the axes."""

    pipe: Pipe
    y: float
    bars: tuple[_Bar, ...]
    holds: tuple[_Hold, ...]
    dispatches: tuple[tuple[int, int], ...]
    """Where the scalar unit puts rows into queues; empty for other pipes."""
    busy_share: float


@dataclass(frozen=True, slots=True)
class _CoreLanes:
    """One core's lanes, flags and marked steps."""

    core: int
    lanes: tuple[_Lane, ...]
    flags: tuple[_Flag, ...]
    steps: tuple[_Bar, ...]
    band_y: float


@dataclass(frozen=True)
class _View:
    """What part of a run is drawn."""

    result: RunResult
    cores: tuple[int, ...]
    first: int
    last: int
    rows: analysis.Rows = field(repr=False)

    @property
    def inches(self) -> float:
        """Inches of one cycle."""
        return (_WIDTH - _LEFT - _RIGHT) / (self.last - self.first)

    @property
    def whole(self) -> bool:
        """Whether all of the run is in view."""
        return self.first == 0 and self.last >= self.result.makespan_cycles

    def width(self, start: float, end: float) -> float:
        """Inches of what is visible of a range of cycles."""
        return (min(end, self.last) - max(start, self.first)) * self.inches

    def middle(self, start: float, end: float) -> float:
        """Cycle in the middle of what is visible of a range."""
        return (min(end, self.last) + max(start, self.first)) / 2

    def tile(self, call: int) -> str:
        """Name of a call's tile, "" if it has none."""
        tile = int(self.result.program.calls["tile"][call])
        return f"tile {tile}" if tile >= 0 else ""

    def step(self, index: int) -> str:
        """Last part of a marked step's name."""
        return self.result.program.steps[index].rsplit("/", 1)[-1]


def _view(result: RunResult, cores: tuple[int, ...] | None, first: int, last: int | None) -> _View:
    known = range(result.program.block_dim)
    chosen = _default_cores(result) if cores is None else tuple(dict.fromkeys(cores))
    missing = [core for core in chosen if core not in known]
    if missing or not chosen:
        raise ValueError(f"cores {list(chosen)}: the run has cores 0 to {known[-1]}, choose at least one of them")
    end = max(result.makespan_cycles, 1) if last is None else last
    if not 0 <= first < end:
        raise ValueError(f"cycles {first} to {end}: the first must be at least 0 and before the last")
    return _View(result, chosen, first, end, analysis.Rows(result.program, result.timeline))


def _default_cores(result: RunResult) -> tuple[int, ...]:
    """Core 0 and the core that ends last; of several that end together, the one with the highest number."""
    t = result.timeline
    last = t["core"][t["end"] == result.makespan_cycles].max(initial=0)
    return tuple(dict.fromkeys((0, int(last))))


def _rows_of(view: _View, core: int, kinds: Sequence[Kind], pipe: Pipe | None = None) -> Any:
    """Numbers of a core's rows of some kinds, in the order of their starts."""
    t = view.result.timeline
    here = (t["core"] == core) & np.isin(t["kind"], kinds)
    if pipe is not None:
        here &= t["pipe"] == pipe
    numbers = np.flatnonzero(here)
    return numbers[np.argsort(t["start"][numbers], kind="stable")]


def _bars(view: _View, core: int, pipe: Pipe) -> list[_Bar]:
    """A pipe's work in view. What drains ends where the next row starts."""
    t = view.result.timeline
    numbers = _rows_of(view, core, analysis.WORK, pipe)
    following = np.append(t["start"][numbers][1:], np.iinfo(np.int64).max)
    ends = np.minimum(t["end"][numbers], np.maximum(following, t["occupied"][numbers]))
    seen = (ends > view.first) & (t["start"][numbers] < view.last)
    return [_bar(view, int(n), int(end)) for n, end in zip(numbers[seen], ends[seen], strict=True)]


def _bar(view: _View, number: int, end: int) -> _Bar:
    t, row, call = view.result.timeline, view.rows.row(number), int(view.result.timeline["call"][number])
    return _Bar(
        int(t["start"][number]), int(t["occupied"][number]), end, (call, row.step),
        _bar_labels(view, number, row, view.tile(call)), int(t["stretch_cycles"][number]),
    )  # fmt: skip


def _bar_labels(view: _View, number: int, row: Row, tile: str) -> tuple[str, ...]:
    name = row.op.api or mnemonic(row)
    refs = view.rows.tensors(number)
    gm = [refs[o.tensor].name for _, o in row.operands if refs[o.tensor].buffer is Buffer.GM]
    details = [", ".join(filter(None, (*gm, tile))), *gm]
    return tuple(dict.fromkeys([*(f"{name}\n{d}" for d in details if d), name, _two_lines(name)]))


def _two_lines(name: str) -> str:
    """BlockReduceSum as "Block" above "ReduceSum": broken before the capital that leaves the narrowest text."""
    breaks = [i for i in range(1, len(name)) if name[i].isupper()]
    return min((f"{name[:i]}\n{name[i:]}" for i in breaks), key=lambda t: _extent(t, _SMALL)[0], default=name)


def _merged(view: _View, bars: list[_Bar]) -> list[_Bar]:
    """Bars, with runs of tiny ones of the same call and step made one block."""
    out: list[_Bar] = []
    for run in _runs(bars, lambda a, b: a.group == b.group and (b.start - a.end) * view.inches <= _TOUCH):
        busy = sum(b.end - b.start for b in run)
        tiny = len(run) > 1 and busy * view.inches < _TINY * len(run)
        dense = busy > _DENSE * (run[-1].end - run[0].start)
        out += [_block(view, run)] if tiny and dense else run
    return out


def _runs(items: Sequence[T], together: Callable[[T, T], bool]) -> list[list[T]]:
    """Split a sequence where two neighbours do not belong together."""
    out: list[list[T]] = [[item] for item in items[:1]]
    for before, item in pairwise(items):
        if together(before, item):
            out[-1].append(item)
        else:
            out.append([item])
    return out


def _block(view: _View, run: list[_Bar]) -> _Bar:
    call, step = run[0].group
    name, count = view.step(step) or run[0].labels[-1], f"{len(run)} instr."
    details = (", ".join(filter(None, (count, view.tile(call)))), count)
    labels = (*(f"{name}\n{d}" for d in details), f"{name} ×{len(run)}", name)
    return _Bar(run[0].start, run[-1].end, run[-1].end, run[0].group, labels, sum(b.stretch for b in run))


def _step_band(view: _View, bars: list[_Bar]) -> list[_Bar]:
    """One bar for each marked step that V works through."""
    out = []
    for (call, step), group in groupby(bars, lambda b: b.group):
        run = list(group)
        if name := view.step(step):
            tile = view.tile(call)
            labels = (f"{name}, {tile}", name) if tile else (name,)
            out.append(_Bar(run[0].start, run[-1].end, run[-1].end, (call, step), labels))
    return out


def _holds(view: _View, core: int, pipe: Pipe) -> list[_Hold]:
    """A pipe's waiting in view, without the time in which it is busy (for a barrier: in which it still issues)."""
    t = view.result.timeline
    numbers = _rows_of(view, core, tuple(Kind), pipe)
    numbers = numbers[np.isin(t["waited_for"][numbers], _HELD) & (t["wait_cycles"][numbers] > 0)]
    busy = analysis.busy_intervals(t, core, pipe)
    work = _rows_of(view, core, analysis.WORK, pipe)
    issuing = analysis.union_intervals(t["start"][work], t["occupied"][work])
    found = [] if pipe is not Pipe.S else _queue_full(view, core)
    for number in numbers:
        hold = _hold(view, int(number))
        if hold.end > view.first and hold.start < view.last:
            found += _outside(hold, issuing if hold.cause == Wait.BARRIER.words else busy)
    return _joined(view, sorted(found, key=lambda h: h.start))


def _hold(view: _View, number: int) -> _Hold:
    t, row = view.result.timeline, view.rows.row(number)
    wait, start, cycles = Wait(int(t["waited_for"][number])), int(t["start"][number]), int(t["wait_cycles"][number])
    if wait is Wait.DISPATCH:
        return _Hold(start - cycles, start, wait.words, "")
    what = analysis.waited_name(view.rows, number, row, wait).rsplit("/", 1)[-1]
    if t["kind"][number] == Kind.WAIT_FLAG and row.que < 0:
        what = HardEvent(row.param("event")).name
    return _Hold(start, start + cycles, wait.words, what)


def _queue_full(view: _View, core: int) -> list[_Hold]:
    """Times in which the scalar unit cannot dispatch because the pipe's queue has no room."""
    t = view.result.timeline
    here = np.flatnonzero(t["core"] == core)
    scalar = t["pipe"][here] == Pipe.S
    free = np.where(scalar, t["end"][here], t["dispatched"][here])
    begin = np.concatenate([np.zeros(1, np.int64), free])[:-1]
    end = t["dispatched"][here] - view.result.device.scalar.dispatch_cycles.value
    stuck = np.flatnonzero(~scalar & (end > begin) & (end > view.first) & (begin < view.last))
    return [_Hold(int(begin[i]), int(end[i]), _QUEUE_FULL, Pipe(int(t["pipe"][here[i]])).name) for i in stuck]


def _dispatches(view: _View, core: int) -> tuple[tuple[int, int], ...]:
    """Times in which the scalar unit dispatches rows to other pipes."""
    t = view.result.timeline
    end = t["dispatched"][(t["core"] == core) & (t["pipe"] != Pipe.S)]
    end = end[(end > view.first) & (end <= view.last)]
    spans = analysis.union_intervals(end - view.result.device.scalar.dispatch_cycles.value, end)
    return tuple(zip(spans[0].tolist(), spans[1].tolist(), strict=True))


def _outside(hold: _Hold, busy: tuple[Any, Any]) -> list[_Hold]:
    """The parts of a wait that lie outside disjoint sorted intervals."""
    out, at = [], hold.start
    first = int(np.searchsorted(busy[1], hold.start, "right"))
    for start, end in zip(busy[0][first:], busy[1][first:], strict=True):
        if start >= hold.end:
            break
        if start > at:
            out.append(replace(hold, start=at, end=int(start)))
        at = int(end)
    return [*out, replace(hold, start=at)] if at < hold.end else out


def _joined(view: _View, holds: list[_Hold]) -> list[_Hold]:
    """Waits of one cause with gaps too narrow to see become one."""
    runs = _runs(
        holds, lambda a, b: (a.cause, a.what) == (b.cause, b.what) and (b.start - a.end) * view.inches <= _TOUCH
    )
    return [replace(run[0], end=max(h.end for h in run)) for run in runs]


def _flags(view: _View, core: int) -> list[_Flag]:
    """Flags raised and taken in view: each wait takes what was raised last, a raised flag stays the one it is."""
    raised: dict[tuple[int, ...], tuple[Pipe, int]] = {}
    found = []
    for cycle, is_wait, _, row in sorted(_flag_moments(view, core), key=lambda m: m[:3]):
        if not is_wait:
            raised.setdefault(row.params, (row.pipe, cycle))
        elif row.params in raised:
            found.append(_Flag(*raised.pop(row.params), row.pipe, cycle))
    return [f for f in found if f.raised >= view.first and f.taken <= view.last and f.source is not f.target]


def _flag_moments(view: _View, core: int) -> Iterator[tuple[int, bool, int, Row]]:
    """When each flag is raised or taken: cycle, whether taken, row number, row."""
    t = view.result.timeline
    for number in _rows_of(view, core, (Kind.SET_FLAG, Kind.WAIT_FLAG)).tolist():
        row = view.rows.row(number)
        if t["kind"][number] == Kind.SET_FLAG:
            yield int(t["end"][number]), False, number, row
            continue
        held = t["waited_for"][number] in (Wait.FLAG, Wait.BUFFER)
        yield int(t["start"][number]) + held * int(t["wait_cycles"][number]), True, number, row


def _core_lanes(view: _View, core: int, pipes: Sequence[Pipe], top: float) -> _CoreLanes:
    shares = {u.pipe: u.busy_cycles / view.result.makespan_cycles for u in view.result.pipe_use if u.core == core}
    lanes, steps, y, band_y = [], list[_Bar](), top, top
    for pipe in pipes:
        bars = _bars(view, core, pipe)
        if pipe is Pipe.V:
            steps, band_y, y = _step_band(view, bars), y + _BAND / 2, y + _BAND
        holds = tuple(_holds(view, core, pipe))
        sent = _dispatches(view, core) if pipe is Pipe.S else ()
        lanes.append(_Lane(pipe, y + _PITCH / 2, tuple(_merged(view, bars)), holds, sent, shares.get(pipe, 0.0)))
        y += _PITCH
    return _CoreLanes(core, tuple(lanes), tuple(_flags(view, core)), tuple(steps), band_y)


# ---- timeline: drawing ------------------------------------------------------------------------------------------


def _timeline_figure(result: RunResult, cores: tuple[int, ...] | None, first: int, last: int | None) -> Figure:
    view = _view(result, cores, first, last)
    present = {int(p) for p in np.unique(result.timeline["pipe"][np.isin(result.timeline["core"], view.cores)])}
    pipes = [p for p in LANES if p in present] or [Pipe.S]
    group = len(pipes) * _PITCH + _BAND * (Pipe.V in pipes) + _GROUP_GAP
    groups = [_core_lanes(view, c, pipes, _GROUP_GAP / 2 + i * group) for i, c in enumerate(view.cores)]
    with_flags = max(len(g.flags) for g in groups) <= _MAX_FLAGS
    handles = _timeline_handles(groups, pipes, with_flags)
    columns = _legend_columns(handles, _WIDTH - 0.5)
    notes = _timeline_notes(view, groups, with_flags)
    foot = _AXIS + (-(-len(handles) // columns) + len(notes)) * _LINE + 0.15
    height = len(groups) * group
    if height > _MAX_HEIGHT:
        raise ValueError(f"{len(groups)} cores do not fit one picture, choose fewer")
    figure = Figure((_WIDTH, _TOP + height + foot), dpi=DPI)
    axes = _axes(figure, _LEFT, foot, _WIDTH - _LEFT - _RIGHT, height)
    axes.set_xlim(view.first, view.last)
    axes.set_ylim(height, 0)
    for lanes in groups:
        _draw_core(axes, view, lanes, with_flags)
    _finish_timeline(figure, axes, view, groups)
    _legend(figure, handles, 0.3, foot - _AXIS, columns)
    for i, note in enumerate(reversed(notes)):
        figure.text(0.3 / _WIDTH, (0.1 + i * _LINE) / figure.get_figheight(), note, size=_SMALL, color=_SOFT)
    return figure


def _finish_timeline(figure: Figure, axes: Axes, view: _View, groups: Sequence[_CoreLanes]) -> None:
    _cycle_axes(axes, view.result)
    axes.set_xlabel("cycles", size=_SMALL, labelpad=2)
    lanes = [lane for g in groups for lane in g.lanes]
    axes.set_yticks([lane.y for lane in lanes], [_lane_name(lane.pipe) for lane in lanes], size=_TEXT)
    axes.tick_params(axis="y", length=0, pad=5)
    for side in ("left", "right"):
        axes.spines[side].set_visible(False)
    facts = [f"bottleneck {view.result.bottleneck}", _cores_text(view)]
    if not view.whole:
        facts.append(f"cycles {view.first:,} to {view.last:,}")
    _heading(figure, view.result, "timeline", facts)


def _lane_name(pipe: Pipe) -> str:
    return "SCALAR" if pipe is Pipe.S else pipe.name


def _cores_text(view: _View) -> str:
    total = view.result.program.block_dim
    if len(view.cores) == total:
        return "all cores" if total > 1 else "1 core"
    if len(view.cores) > 4:
        return f"{len(view.cores)} of {total} cores"
    names = " and ".join(filter(None, (", ".join(map(str, view.cores[:-1])), str(view.cores[-1]))))
    return f"{'cores' if len(view.cores) > 1 else 'core'} {names} of {total}"


def _timeline_notes(view: _View, groups: Sequence[_CoreLanes], with_flags: bool) -> list[str]:
    notes = []
    if not with_flags:
        count = sum(len(g.flags) for g in groups)
        why = f"more than {_MAX_FLAGS} of a core cannot be read, choose a shorter range of cycles"
        notes.append(f"{count} flags are not drawn: {why}")
    if not view.whole:
        notes.append("busy shares are those of the whole run")
    return notes


def _timeline_handles(groups: Sequence[_CoreLanes], pipes: Sequence[Pipe], with_flags: bool) -> list[Artist]:
    """Legend entries of what is in the picture."""
    lanes = [lane for g in groups for lane in g.lanes]
    handles: list[Artist] = [Patch(facecolor=_COLOURS[p], label=f"{_lane_name(p)} busy") for p in pipes]
    if any(lane.dispatches for lane in lanes):
        handles.append(Patch(facecolor=_DISPATCHES, label="SCALAR dispatches to other pipes"))
    if any(b.end > b.occupied for lane in lanes for b in lane.bars):
        handles.append(Patch(facecolor=_lighter("#777777", 0.55), label="lighter: drain, last results being written"))
    if any(b.stretch for lane in lanes for b in lane.bars):
        handles.append(Patch(**_STRETCHED, label="transfer time lost to other cores"))
    causes = {h.cause for lane in lanes for h in lane.holds}
    handles += [Patch(**_held(c), label=f"waits: {_CAUSE_TEXT.get(c, c)}") for c in _HATCHES if c in causes]
    if any(g.steps for g in groups):
        handles.append(Patch(facecolor=_STEP_COLOURS[0], edgecolor="white", label="marked step on V"))
    if with_flags and any(g.flags for g in groups):
        line = Line2D([], [], color=_INK, linewidth=0.8, marker=">", markersize=4, label="flag: SET_FLAG to WAIT_FLAG")
        handles.append(line)
    return handles


_STRETCHED: dict[str, Any] = {"facecolor": "white", "edgecolor": "#444444", "hatch": "////////", "linewidth": 0}
_DISPATCHES = _lighter(_COLOURS[Pipe.S], 0.6)
_STEP_COLOURS = ("#d9d9d9", "#eaeaea")
_CAUSE_TEXT = {
    Wait.DISPATCH.words: "dispatch by SCALAR",
    _QUEUE_FULL: "queue of a pipe full",
}


def _held(cause: str) -> dict[str, Any]:
    ground = "none" if cause == Wait.BARRIER.words else "#f0f0f0"
    return {"facecolor": ground, "edgecolor": _HATCH_INK, "hatch": _HATCHES[cause], "linewidth": 0}


def _draw_core(axes: Axes, view: _View, lanes: _CoreLanes, with_flags: bool) -> None:
    for lane in lanes.lanes:
        _draw_lane(axes, view, lane)
    _draw_steps(axes, view, lanes)
    if with_flags:
        heights = {lane.pipe: lane.y for lane in lanes.lanes}
        for flag in lanes.flags:
            _draw_flag(axes, flag, heights)
    middle = (lanes.lanes[0].y + lanes.lanes[-1].y) / 2
    left = (0.15 - _LEFT) / (_WIDTH - _LEFT - _RIGHT)
    axes.text(
        left, middle, f"core {lanes.core}", size=_TEXT, weight="bold", va="center", transform=axes.get_yaxis_transform()
    )


def _draw_lane(axes: Axes, view: _View, lane: _Lane) -> None:
    top, colour = lane.y - _BAR / 2, _COLOURS[lane.pipe]
    axes.axhspan(top, top + _BAR, facecolor=_PALE, zorder=0)
    for cause in _HATCHES:
        spans = [(h.start, h.end) for h in lane.holds if h.cause == cause]
        _spans(axes, spans, top, _BAR, zorder=2, **_held(cause))
    _spans(axes, lane.dispatches, top, _BAR, zorder=1, facecolor=_DISPATCHES, linewidth=0)
    drains = [(b.occupied, b.end) for b in lane.bars]
    _spans(axes, drains, top, _BAR, zorder=1, facecolor=_lighter(colour, 0.55), linewidth=0)
    wide = [(b.start, b.occupied) for b in lane.bars if view.width(b.start, b.occupied) >= _EDGED]
    narrow = [(b.start, b.occupied) for b in lane.bars if view.width(b.start, b.occupied) < _EDGED]
    _spans(axes, narrow, top, _BAR, zorder=3, facecolor=colour, linewidth=0)
    _spans(axes, wide, top, _BAR, zorder=3, facecolor=colour, edgecolor="white", linewidth=0.5)
    lost = [(b.end - b.stretch, b.end) for b in lane.bars if b.stretch]
    _spans(axes, lost, top + _BAR - _STRIP, _STRIP, zorder=4, **_STRETCHED)
    _draw_lane_texts(axes, view, lane)


def _draw_lane_texts(axes: Axes, view: _View, lane: _Lane) -> None:
    for bar in lane.bars:
        strip = _STRIP if bar.stretch else 0.0
        text = _fitting(bar.labels, view.width(bar.start, bar.occupied), _BAR - strip)
        _say(axes, view.middle(bar.start, bar.occupied), lane.y - strip / 2, text, _COLOURS[lane.pipe])
    for hold in lane.holds:
        text = _fitting(_hold_labels(hold), view.width(hold.start, hold.end) - 0.06, _BAR)
        _say(axes, view.middle(hold.start, hold.end), lane.y, text, "white")
    axes.text(
        1.01, lane.y, f"{lane.busy_share:.0%} busy", size=_SMALL, color=_SOFT, va="center",
        transform=axes.get_yaxis_transform(),
    )  # fmt: skip


def _hold_labels(hold: _Hold) -> tuple[str, ...]:
    if hold.cause == _QUEUE_FULL:
        return f"queue of {hold.what} full", f"queue of\n{hold.what} full", "queue\nfull"
    bare = (hold.cause, hold.cause.replace(" ", "\n", 1))
    return (f"{hold.cause}: {hold.what}", f"{hold.cause}:\n{hold.what}", *bare) if hold.what else bare


def _say(axes: Axes, x: float, y: float, text: str, ground: str) -> None:
    """Put a measured text into the axes, on a ground that keeps arrows and hatches off it."""
    if text:
        axes.text(
            x, y, text, size=_SMALL, color=_INK, ha="center", va="center" if "\n" in text else "center_baseline",
            linespacing=1.05, parse_math=False, zorder=6, clip_on=True,
            bbox={"facecolor": ground, "edgecolor": "none", "pad": 0.7},
        )  # fmt: skip


def _spans(axes: Axes, spans: Sequence[tuple[int, int]], top: float, height: float, **look: Any) -> None:
    """Rectangles of one look and height."""
    boxes = [[(a, top), (b, top), (b, top + height), (a, top + height)] for a, b in spans if b > a]
    if boxes:
        axes.add_collection(PolyCollection(boxes, **look), autolim=False)


def _draw_steps(axes: Axes, view: _View, lanes: _CoreLanes) -> None:
    top = lanes.band_y - _BAND / 2 + 0.02
    for index, colour in enumerate(_STEP_COLOURS):
        spans = [(s.start, s.end) for s in lanes.steps[index::2]]
        _spans(axes, spans, top, _BAND - 0.03, zorder=1, facecolor=colour, linewidth=0)
    for index, step in enumerate(lanes.steps):
        text = _fitting(step.labels, view.width(step.start, step.end), _BAND)
        _say(axes, view.middle(step.start, step.end), lanes.band_y, text, _STEP_COLOURS[index % 2])


def _draw_flag(axes: Axes, flag: _Flag, heights: dict[Pipe, float]) -> None:
    down = _BAR * (0.3 if heights[flag.target] > heights[flag.source] else -0.3)
    arrow = {"arrowstyle": "-|>", "color": _INK, "linewidth": 0.8, "mutation_scale": 7, "shrinkA": 0, "shrinkB": 0}
    tip, tail = (flag.taken, heights[flag.target] - down), (flag.raised, heights[flag.source] + down)
    axes.annotate("", tip, tail, arrowprops=arrow, zorder=5)


# ---- memory -----------------------------------------------------------------------------------------------------

_MEMORY_LEFT, _MEMORY_RIGHT = 1.05, 1.75
_GAP, _USE = 0.38, 1.0
_Y_LABEL = (-0.73 / (_WIDTH - _MEMORY_LEFT - _MEMORY_RIGHT), 0.5)
_ENLARGE_BELOW = 0.3
"""A used region smaller than this share of UB is drawn a second time, enlarged."""


def _memory_figure(result: RunResult, core: int) -> Figure:
    if core not in range(result.program.block_dim):
        raise ValueError(f"core {core}: the run has cores 0 to {result.program.block_dim - 1}")
    lives = analysis.lives(result.program, result.timeline, core)
    used = max((life.address_bytes + life.allocation_bytes for life in lives), default=0)
    enlarged = 0 < used < _ENLARGE_BELOW * result.device.ub_bytes
    whole, detail = (2.4, 2.6) if enlarged else (4.6, 0.0)
    foot = _AXIS + _LINE + 0.15
    height = _TOP + whole + (detail + _GAP) * enlarged + _GAP / 2 + _USE + foot
    figure = Figure((_WIDTH, height), dpi=DPI)
    y = height - _TOP - whole
    axes = _memory_axes(figure, result, y, whole, max(used, result.device.ub_bytes))
    _cycle_axes(axes, result)
    axes.tick_params(axis="x", labelbottom=False)
    _draw_limits(axes, result, whole)
    positions = _positions(result)
    _draw_lives(axes, lives, positions, whole)
    if enlarged:
        y -= _GAP + detail
        axes = _memory_axes(figure, result, y, detail, used)
        axes.tick_params(axis="x", labelbottom=False)
        axes.set_title("the used addresses, enlarged", size=_SMALL, loc="left", pad=3)
        _draw_lives(axes, lives, positions, detail)
    _draw_use(figure, result, lives, y - _GAP / 2 - _USE)
    shown = [p for p in _POSITIONS if p in positions.values()]
    _legend(figure, [Patch(facecolor=_POSITIONS[p], edgecolor=_INK, linewidth=0.5, label=p) for p in shown],
            _MEMORY_LEFT, foot - _AXIS, 3)  # fmt: skip
    facts = [
        f"core {core} of {result.program.block_dim}",
        f"highest address used {used:,} B of {result.device.ub_bytes:,} B",
    ]
    _heading(figure, result, "UB over time", facts)
    return figure


def _memory_axes(figure: Figure, result: RunResult, bottom: float, height: float, top_bytes: int) -> Axes:
    """Axes of addresses over cycles."""
    axes = _axes(figure, _MEMORY_LEFT, bottom, _WIDTH - _MEMORY_LEFT - _MEMORY_RIGHT, height)
    axes.set_xlim(0, max(result.makespan_cycles, 1))
    axes.set_ylim(0, top_bytes)
    step = 32
    while top_bytes / step > height * 2.2:
        step *= 2
    axes.yaxis.set_major_locator(MultipleLocator(step))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda b, _: _size_text(b)))
    axes.tick_params(axis="y", labelsize=_SMALL, length=3, pad=2)
    axes.tick_params(axis="x", labelsize=_SMALL, length=3, pad=2)
    axes.set_ylabel("UB address", size=_SMALL)
    axes.yaxis.set_label_coords(*_Y_LABEL)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.5)
    axes.set_axisbelow(True)
    return axes


def _size_text(count: float) -> str:
    return f"{count / 1024:g} KiB" if count >= 1024 or count == 0 else f"{count:g} B"


def _positions(result: RunResult) -> dict[tuple[str, int], str]:
    """Position of each UB tensor, by name and address."""
    refs = (ref for template in result.program.templates for ref in template.tensors)
    return {(ref.name, ref.address_bytes): ref.position for ref in refs if ref.buffer is Buffer.UB}


def _draw_limits(axes: Axes, result: RunResult, height: float) -> None:
    """The three limits of UB, named outside the axes, one above the other."""
    ub = result.device.ub
    limits = (("safe", ub.safe_bytes.value, ":"), ("visible", ub.visible_bytes.value, "--"),
              ("hardware", result.device.ub_bytes, "-"))  # fmt: skip
    axes.axhspan(ub.safe_bytes.value, result.device.ub_bytes, facecolor=_ALARM, alpha=0.08, zorder=0)
    per_byte = height / axes.get_ylim()[1]
    width = _WIDTH - _MEMORY_LEFT - _MEMORY_RIGHT
    y = -1.0
    for name, size, dashes in limits:
        y = max(size * per_byte - 0.1, y + 0.19)
        axes.axhline(size, color=_ALARM, linewidth=0.9, linestyle=dashes, zorder=4)
        line: dict[str, Any] = {
            "arrowstyle": "-",
            "color": _ALARM,
            "linewidth": 0.6,
            "linestyle": dashes,
            "shrinkA": 0,
            "shrinkB": 0,
        }
        line["relpos"] = (0, 0.5)
        axes.annotate(
            f"{name} {size:,} B", (1, size * per_byte / height), (1 + 0.4 / width, y / height),
            xycoords="axes fraction", textcoords="axes fraction", annotation_clip=False, size=_SMALL, color=_ALARM,
            va="center", arrowprops=line,
        )  # fmt: skip


def _draw_lives(
    axes: Axes, lives: Sequence[analysis.Life], positions: dict[tuple[str, int], str], height: float
) -> None:
    """A rectangle for each life, named where the name fits and hides no other."""
    per_byte = height / axes.get_ylim()[1]
    per_cycle = (_WIDTH - _MEMORY_LEFT - _MEMORY_RIGHT) / axes.get_xlim()[1]
    taken: list[tuple[float, float, float, float]] = []
    for life in lives:
        low, high = life.address_bytes, life.address_bytes + life.allocation_bytes
        width, tall = (life.end - life.start) * per_cycle, life.allocation_bytes * per_byte
        colour = _POSITIONS.get(positions.get((life.name, life.address_bytes), ""), _SOFT)
        colour = _lighter(colour, 0.35 if life.tile % 2 == 1 and life.tile > 0 else 0.0)
        box = PolyCollection(
            [[(life.start, low), (life.end, low), (life.end, high), (life.start, high)]],
            facecolor=colour, edgecolor=_INK, linewidth=0.5 if width > _EDGED and tall > _EDGED else 0, zorder=2,
        )  # fmt: skip
        axes.add_collection(box, autolim=False)
        text = _fitting(_life_labels(life), width, tall)
        x, y = (life.start + life.end) / 2, (low + high) / 2
        if text and _claim(taken, x * per_cycle, y * per_byte, text):
            _say(axes, x, y, text, colour)


def _life_labels(life: analysis.Life) -> tuple[str, ...]:
    if life.tile < 0:
        return (life.name,)
    return f"{life.name}\ntile {life.tile}", f"{life.name}, tile {life.tile}", life.name


def _claim(taken: list[tuple[float, float, float, float]], x: float, y: float, text: str) -> bool:
    """Take the place of a text centred there, unless another text has part of it."""
    w, h = _extent(text, _SMALL)
    box = (x - w / 2, x + w / 2, y - h / 2, y + h / 2)
    if any(box[0] < b[1] and b[0] < box[1] and box[2] < b[3] and b[2] < box[3] for b in taken):
        return False
    taken.append(box)
    return True


def _draw_use(figure: Figure, result: RunResult, lives: tuple[analysis.Life, ...], bottom: float) -> None:
    """Strip of bytes in use over time."""
    axes = _axes(figure, _MEMORY_LEFT, bottom, _WIDTH - _MEMORY_LEFT - _MEMORY_RIGHT, _USE)
    at, use = analysis.occupancy(lives)
    end = max(result.makespan_cycles, 1)
    at, use = np.concatenate([[0], at, [end]]), np.concatenate([[0], use, [0]])
    axes.fill_between(at, use, step="post", facecolor="#bdbdbd", edgecolor=_INK, linewidth=0.7)
    peak = int(use.max())
    axes.set_xlim(0, end)
    axes.set_ylim(0, max(peak, 1) * 1.15)
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.set_xlabel("cycles", size=_SMALL, labelpad=2)
    axes.yaxis.set_major_locator(MultipleLocator(_use_step(peak)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda b, _: _size_text(b)))
    axes.tick_params(labelsize=_SMALL, length=3, pad=2)
    axes.set_ylabel("in use", size=_SMALL)
    axes.yaxis.set_label_coords(*_Y_LABEL)
    axes.axhline(peak, color=_SOFT, linewidth=0.6, linestyle="--")
    axes.text(
        1 + 0.1 / (_WIDTH - _MEMORY_LEFT - _MEMORY_RIGHT), peak, f"at most {peak:,} B", size=_SMALL, color=_SOFT,
        va="center", transform=axes.get_yaxis_transform(),
    )  # fmt: skip


def _use_step(peak: int) -> int:
    """Distance of ticks: a power of two with at most four of them."""
    step = 32
    while peak / step > 4:
        step *= 2
    return step
