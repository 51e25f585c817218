"""Where the time of a run goes: one bar for each pipe, and for each AI Core how its units share the makespan.

Bars are sums, as long as their cycles; what is left of one does not come before what is right of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ascendsim.engine.base import Wait
from ascendsim.plot.canvas import Hatch, Look, Pattern, Picture, Text
from ascendsim.plot.style import (
    AXIS,
    COLOURS,
    GROUND,
    INK,
    LINE,
    LOW,
    MIDDLE,
    PALE,
    SMALL,
    SOFT,
    TEXT,
    TOP,
    WIDTH,
    WORDS,
    Chart,
    Entry,
    cycle_axis,
    fitting,
    heading,
    legend,
    legend_rows,
)
from ascendsim.result import RunResult
from ascendsim.terms import CoreKind, Pipe
from ascendsim.tuning import BUBBLES, UNITS, Bubbles, UnitUse, core_bubbles

_LEFT, _CHART = 1.35, 8.9
"""Inches: left edge and width of the charts."""
_LANE, _LANE_BAR, _CORE, _CORE_BAR, _GROUP, _HEAD = 0.36, 0.28, 0.165, 0.125, 0.07, 0.35
"""Inches: distance of two pipes and height of their bars, the same of cores, room between AI Cores, above a chart."""
_LOST = {
    Wait.CROSS_CORE: "#a6a0e5",
    Wait.FLAG: "#c4c4c4",
    Wait.BUFFER: "#b99478",
    Wait.UNIT_FLAG: "#7594b1",
    Wait.BARRIER: "#8d8d8d",
    Wait.QUEUE_FULL: "#e7cfa3",
    Wait.DISPATCH: "#abd6f1",
}
_SHARING = Hatch(Pattern.SLANT, 3.0, "#444444")
_BOTH, _NONE = "#2f78ad", Look(fill=PALE)
_UNITS = (("both", _BOTH), ("cube_only", COLOURS[Pipe.M]), ("vector_only", COLOURS[Pipe.V]))


@dataclass(frozen=True, slots=True)
class _Bar:
    """A bar: its name, (cycles, look, what it says) of its parts from the left, and what stands beside it."""

    name: str
    parts: tuple[tuple[float, Look, str], ...]
    beside: str
    is_first: bool = False
    """Of an AI Core with several."""


def balance_picture(result: RunResult) -> Picture:
    """Draw where the time of every pipe went, and of every AI Core."""
    lanes, cores = [_lane_bar(result, lane) for lane in result.bubbles], list(_core_bars(result))
    entries = _entries(result)
    room = WIDTH - _LEFT - 0.3
    heights = max(1, len(lanes)) * _LANE, sum(_CORE + _GROUP * bar.is_first for bar in cores) + _GROUP
    foot = (legend_rows(entries, room) + 1) * LINE + 0.15
    picture = Picture(WIDTH, TOP + heights[0] + AXIS + _HEAD + heights[1] + AXIS + foot)
    last = max(1, result.makespan_cycles)
    above = Chart(picture, _LEFT, TOP, _CHART, heights[0], 0, last)
    below = Chart(picture, _LEFT, above.bottom + AXIS + _HEAD, _CHART, heights[1], 0, last)
    _draw(above, "Pipes, the mean of their cores", lanes, _LANE, _LANE_BAR)
    _draw(below, _cores_title(result), cores, _CORE, _CORE_BAR)
    legend(picture, entries, _LEFT, below.bottom + AXIS, room)
    note = "lengths are sums of cycles; their order is not that of time"
    picture.add(Text(_LEFT, picture.height - 0.15, note, SMALL, SOFT, side="left"), WORDS)
    heading(picture, result, "where the time goes", [f"bottleneck {result.bottleneck}", *_facts(result)])
    return picture


def _facts(result: RunResult) -> list[str]:
    """Floating-point operations a second, and as a share of the peak."""
    rate, peak = result.tflops, result.peak_tflops
    if rate is None:
        return []
    share = [f"{rate / peak:.1%} of the Cube cores' peak"] if peak else []
    return [f"{rate:.4g} TFLOP/s", *share]


def _cores_title(result: RunResult) -> str:
    if result.unit_use:
        return "AI Cores: Cube (M) and Vector (V) at once; below it the time of each"
    kind = result.program.kernel_type.kinds[0]
    return f"Cores: time of {_pipe(result, kind).name}"


def _pipe(result: RunResult, kind: CoreKind) -> Pipe:
    """The pipe that stands for cores of a kind: the one that computes, or the busiest if it has no work."""
    own = {balance.pipe: balance.mean for balance in result.balances if balance.kind is kind}
    unit = UNITS[kind]
    return unit if unit in own or not own else max(own, key=lambda pipe: own[pipe])


def _core_bars(result: RunResult) -> Iterator[_Bar]:
    """The bars of all AI Cores, or of all cores of a kernel on one kind."""
    program = result.program
    kinds = list(dict.fromkeys(program.kernel_type.kinds))
    for block in range(program.block_dim):
        if result.unit_use:
            yield _unit_bar(result, block, result.unit_use[block])
        for kind in kinds:
            some = core_bubbles(program, result.timeline, block, kind, _pipe(result, kind))
            is_alone = len(kinds) == 1 and not result.unit_use
            name = f"core {block}" if is_alone else kind.name if len(some) == 1 else f"{len(some)} {kind.name}"
            shares = " and ".join(f"{_share(result, one.busy)}" for one in some)
            yield _Bar(name, _parts(result, some, 1 / len(some)), f"{some[0].pipe.name} {shares}")


def _unit_bar(result: RunResult, block: int, use: UnitUse) -> _Bar:
    parts = tuple((float(getattr(use, name)), Look(fill=ink), "") for name, ink in _UNITS)
    work = result.work
    blocks = f", {work.blocks[block]} blocks" if work and len(work.blocks) == result.program.block_dim else ""
    return _Bar(f"AI Core {block}", parts, f"both {_share(result, use.both)}{blocks}", is_first=True)


def _lane_bar(result: RunResult, lane: Bubbles) -> _Bar:
    parts = _parts(result, (lane,), 1 / lane.cores)
    return _Bar(result.lane_name(lane.pipe, lane.kind), parts, f"{_share(result, lane.busy / lane.cores)} busy")


def _share(result: RunResult, cycles: float) -> str:
    return f"{cycles / max(1, result.makespan_cycles):.1%}"


def _parts(result: RunResult, lanes: Sequence[Bubbles], per: float) -> tuple[tuple[float, Look, str], ...]:
    """Busy cycles, those that sharing a link added, and what was lost to each cause, of some pipes together."""
    colour = COLOURS[lanes[0].pipe]
    busy, shared = (sum(getattr(lane, name) for lane in lanes) * per for name in ("busy", "shared"))
    parts = [
        (busy - shared, Look(fill=colour), "busy"),
        (shared, Look(fill=colour, hatch=_SHARING), "sharing a link"),
    ]
    parts += [
        (sum(lane.lost.get(wait, 0) for lane in lanes) * per, Look(fill=_LOST[wait]), wait.words) for wait in BUBBLES
    ]
    return tuple((c, look, f"{name} {_share(result, c)}") for c, look, name in parts)


def _draw(chart: Chart, title: str, bars: Sequence[_Bar], pitch: float, high: float) -> None:
    chart.picture.add(Text(0.15, chart.top - 0.14, title, TEXT, INK, bold=True, side="left"), WORDS)
    cycle_axis(chart)
    chart.frame(sides=True)
    y = (chart.height - sum(pitch + _GROUP * bar.is_first for bar in bars)) / 2
    for bar in bars:
        y += _GROUP * bar.is_first
        top = y + (pitch - high) / 2
        chart.spans([(chart.first, chart.last)], top, high, _NONE, GROUND)
        at = 0.0
        for cycles, look, says in bar.parts:
            chart.spans([(round(at), round(at + cycles))], top, high, look, MIDDLE if look.hatch else LOW)
            text = fitting((says, says.rpartition(" ")[2]), cycles * chart.per_cycle, high)
            chart.say(at + cycles / 2, y + pitch / 2, text, look.fill)
            at += cycles
        chart.name(y + pitch / 2, bar.name, SMALL)
        chart.beside(y + pitch / 2, bar.beside)
        y += pitch


def _entries(result: RunResult) -> list[Entry]:
    """Legend entries of what is in the picture."""
    pipes = {lane.pipe for lane in result.bubbles}
    entries = [Entry("Cube and Vector busy at once", Look(fill=_BOTH))] * bool(result.unit_use)
    entries += [Entry(f"{pipe.name} busy", Look(fill=COLOURS[pipe])) for pipe in COLOURS if pipe in pipes]
    if any(lane.shared for lane in result.bubbles):
        entries.append(Entry("busy, added by sharing a link", Look(fill=PALE, hatch=_SHARING)))
    causes = {wait for lane in result.bubbles for wait in lane.lost}
    entries += [Entry(f"lost to: {wait.words}", Look(fill=_LOST[wait])) for wait in BUBBLES if wait in causes]
    return [*entries, Entry("no work left", Look(fill=PALE, edge="#c0c0c0"))]
