"""On-chip memory over time: a box for each buffer's life, the limits, and the bytes in use.

Of a kernel on vector cores UB alone, with its limits and a strip of the bytes in use; of one with Cube cores a chart
for each memory of a core that something lies in (`memories`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ascendsim import analysis, colours
from ascendsim.plot.canvas import Line, Look, Picture, Text
from ascendsim.plot.parts import MOST, Part, kept, left_out
from ascendsim.plot.style import (
    ALARM,
    AXIS,
    EDGED,
    FRAME,
    GAP,
    GROUND,
    HIGH,
    INK,
    LINE,
    MIDDLE,
    OVER,
    SMALL,
    SOFT,
    STRIP,
    TOP,
    WHITE,
    WIDTH,
    WORDS,
    Chart,
    Entry,
    cycle_axis,
    fitting,
    heading,
    legend,
    lighter,
    time_axis,
)
from ascendsim.result import RunResult

POSITIONS = colours.POSITIONS

LEFT, _RIGHT = 1.05, 1.75
CHART = WIDTH - LEFT - _RIGHT
_GAP, _USE, _APART = 0.38, 1.0, 0.5
"""Inches: between two rows of charts, height of the strip of use, between two parts of the run."""
ENLARGE_BELOW = 0.3
"""A used region smaller than this share of a memory is drawn a second time, enlarged."""
CUT = "beside a gap a buffer is seen only from its first to its last access on this side"
"""What is said of a long run in parts."""
_IN_USE = Look(fill="#bdbdbd")


@dataclass(frozen=True, slots=True)
class Row:
    """Charts of addresses side by side, one for each part."""

    charts: tuple[Chart, ...]
    top_bytes: int

    @property
    def per_byte(self) -> float:
        """Inches of a byte."""
        return self.charts[0].height / self.top_bytes

    def y(self, address: float) -> float:
        """Distance of an address from the top of the charts."""
        return self.charts[0].height - address * self.per_byte


def ub_picture(result: RunResult, core: int) -> Picture:
    """Draw what lay where in UB of one core, over time; of a long run in the parts of which rows were kept."""
    parts = kept(result, (core,))
    lives = analysis.lives(result.program, result.timeline, core)
    used = max((life.address_bytes + life.allocation_bytes for life in lives), default=0)
    enlarged = 0 < used < ENLARGE_BELOW * result.device.ub_bytes
    whole, detail = (2.4, 2.6) if enlarged else (4.6, 0.0)
    notes = [CUT] * (len(parts) > 1) + left_out(parts)
    foot = AXIS + LINE * (1 + len(notes)) + 0.15
    height = TOP + whole + (detail + _GAP) * enlarged + _GAP / 2 + _USE + foot
    picture = Picture(WIDTH, height)
    row = chart_row(picture, result, parts, (TOP, whole), max(used, result.device.ub_bytes))
    for chart in row.charts:
        time_axis(chart, result.device.clock_mhz)
    _y_label(row, "UB address")
    draw_limits(row, result)
    draw_lives(row, lives)
    y = TOP + whole
    if enlarged:
        row = chart_row(picture, result, parts, (y + _GAP, detail), used)
        picture.add(Text(LEFT, y + _GAP - 0.1, "the used addresses, enlarged", SMALL, INK, side="left"), WORDS)
        draw_lives(row, lives)
        y += _GAP + detail
    _draw_use(chart_row(picture, result, parts, (y + _GAP / 2, _USE), _most_in_use(lives)), lives)
    shown = [p for p in POSITIONS if p in {life.position for life in lives}]
    entries = [Entry(p, Look(POSITIONS[p], INK)) for p in shown]
    legend(picture, entries, LEFT, height - foot + AXIS, CHART)
    for i, note in enumerate(reversed(notes)):
        picture.add(Text(LEFT, height - 0.15 - i * LINE, note, SMALL, SOFT, side="left"), WORDS)
    facts = [
        f"core {core} of {result.program.core_count}",
        f"highest address used {used:,} B of {result.device.ub_bytes:,} B",
    ]
    heading(picture, result, result.memory_title, facts)
    return picture


def chart_row(
    picture: Picture, result: RunResult, parts: Sequence[Part], place: tuple[float, float], top_bytes: int
) -> Row:
    """Charts of addresses over the parts, with the gaps between them; place is (top, height)."""
    spans = [(p.first, max(p.last, p.first + 1)) for p in parts[:MOST]] or [(0, max(1, result.makespan_cycles))]
    width = (CHART - _APART * (len(spans) - 1)) / len(spans)
    slack = 0.35 if len(spans) == 1 else _APART / 2 - 0.05
    charts = tuple(
        Chart(picture, LEFT + i * (width + _APART), place[0], width, place[1], *span, slack=slack)
        for i, span in enumerate(spans)
    )
    row = Row(charts, top_bytes)
    for chart in charts:
        chart.frame(sides=True)
        _draw_addresses(row, chart, named=chart is charts[0])
    for chart, ((_, last), (first, _)) in zip(charts, pairwise(spans), strict=False):
        box = (chart.right, chart.top, chart.right + _APART, chart.bottom)
        picture.boxes([box], GAP, GROUND)
        text = fitting((f"{first - last:,} cycles without rows", "no rows"), chart.height, 1.0)
        x, y = chart.right + _APART / 2, (chart.top + chart.bottom) / 2
        picture.add(Text(x, y, text, SMALL, SOFT, ground=WHITE, upright=True), WORDS)
    return row


def _draw_addresses(row: Row, chart: Chart, *, named: bool) -> None:
    """Ticks and lines of addresses; a power of two apart."""
    step = 32
    while row.top_bytes / step > chart.height * 2.2:
        step *= 2
    for address in range(0, row.top_bytes + 1, step):
        y = row.y(address)
        chart.level(y, "#e6e6e6", 0.5)
        if named:
            left, at = chart.left, chart.top + y
            chart.picture.add(Line((left - 0.042, at), (left, at), "#000000", FRAME), OVER)
            chart.name(y, _size_text(address), SMALL)


def _size_text(count: float) -> str:
    return f"{count / 1024:g} KiB" if count >= 1024 or count == 0 else f"{count:g} B"


def _y_label(row: Row, text: str) -> None:
    chart = row.charts[0]
    chart.picture.add(Text(0.3, (chart.top + chart.bottom) / 2, text, SMALL, INK, upright=True), WORDS)


def draw_limits(row: Row, result: RunResult) -> float:
    """The three limits of UB, named outside the charts, one below the other; return how far down the names reach."""
    ub = result.device.ub
    limits = (("safe", ub.safe_bytes.value, (1.0, 1.6)), ("visible", ub.visible_bytes.value, (3.4, 1.5)),
              ("hardware", result.device.ub_bytes, None))  # fmt: skip
    last = row.charts[-1]
    for chart in row.charts:
        top = chart.top + row.y(result.device.ub_bytes)
        box = (chart.left, top, chart.right, chart.top + row.y(ub.safe_bytes.value))
        chart.picture.boxes([box], Look(fill=lighter(ALARM, 0.92)), GROUND)
    y = last.height + 1.0
    for name, size, dashes in limits:
        at = row.y(size)
        y = min(at + 0.1, y - 0.19)
        for chart in row.charts:
            chart.level(at, ALARM, 0.9, dashes)
        line = Line((last.right, last.top + at), (last.right + 0.37, last.top + y), ALARM, 0.6, dashes)
        last.picture.add(line, STRIP)
        last.beside(y, f"{name} {size:,} B", ALARM, away=0.4)
    return row.y(ub.safe_bytes.value) + 0.1 + 0.19


def draw_lives(row: Row, lives: Sequence[analysis.Life]) -> None:
    """A rectangle for each life, named where the name fits and hides no other."""
    for chart in row.charts:
        taken: list[tuple[float, float, float, float]] = []
        for life in lives:
            if life.end > chart.first and life.start < chart.last:
                _draw_life(row, chart, life, taken)


def _draw_life(row: Row, chart: Chart, life: analysis.Life, taken: list[tuple[float, float, float, float]]) -> None:
    left, right = chart.x(life.start), chart.x(life.end)
    tall = life.allocation_bytes * row.per_byte
    top = chart.top + row.y(life.address_bytes + life.allocation_bytes)
    colour = lighter(POSITIONS.get(life.position, SOFT), 0.35 if life.tile % 2 == 1 and life.tile > 0 else 0.0)
    is_edged = right - left > EDGED and tall > EDGED
    chart.picture.boxes([(left, top, right, top + tall)], Look(colour, INK if is_edged else ""), MIDDLE)
    text = fitting(_life_labels(life), right - left, tall)
    if text:
        note = Text((left + right) / 2, top + tall / 2, text, SMALL, INK, ground=colour)
        if _claim(taken, note):
            chart.picture.add(note, WORDS)


def _life_labels(life: analysis.Life) -> tuple[str, ...]:
    if life.tile < 0:
        return (life.name,)
    return f"{life.name}\ntile {life.tile}", f"{life.name}, tile {life.tile}", life.name


def _claim(taken: list[tuple[float, float, float, float]], text: Text) -> bool:
    """Take the place of a text, unless another text has part of it."""
    left, top, right, bottom = text.box
    if any(left < b[2] and b[0] < right and top < b[3] and b[1] < bottom for b in taken):
        return False
    taken.append(text.box)
    return True


# ---- bytes in use -----------------------------------------------------------------------------------------------


def _most_in_use(lives: tuple[analysis.Life, ...]) -> int:
    """Where the axis of the bytes in use ends."""
    return max(1, round(1.15 * int(analysis.occupancy(lives)[1].max(initial=0))))


def _draw_use(row: Row, lives: tuple[analysis.Life, ...]) -> None:
    """Strip of bytes in use over time."""
    _y_label(row, "in use")
    at, use = (values.tolist() for values in analysis.occupancy(lives))
    peak = max(use, default=0)
    for chart in row.charts:
        cycle_axis(chart)
        steps = _steps(chart, at, use)
        chart.steps([(first, last, count * row.per_byte) for first, last, count in steps], _IN_USE)
        for first, last, count in steps:
            chart.spans([(first, last)], row.y(count) - 0.005, 0.01, Look(fill=INK), HIGH)
        for (_, cycle, before), (_, _, after) in pairwise(steps):
            x, heights = chart.x(cycle), (chart.top + row.y(before), chart.top + row.y(after))
            chart.picture.boxes([(x - 0.005, min(heights), x + 0.005, max(heights))], Look(fill=INK), HIGH)
        chart.level(row.y(peak), SOFT, 0.6, (2.2, 1.0))
    row.charts[-1].beside(row.y(peak), f"at most {peak:,} B")


def _steps(chart: Chart, at: Sequence[int], use: Sequence[int]) -> list[tuple[int, int, int]]:
    """Stretches of a chart in which so many bytes are in use."""
    steps: list[tuple[int, int, int]] = []
    for first, last, count in zip([0, *at], [*at, chart.last], [0, *use], strict=True):
        begin, end = max(first, chart.first), min(last, chart.last)
        if end > begin and steps and steps[-1][2] == count:
            steps[-1] = (steps[-1][0], end, count)
        elif end > begin:
            steps.append((begin, end, count))
    return steps
