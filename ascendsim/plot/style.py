"""What all pictures share: colours and sizes, charts over cycles, the frame around a drawing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ascendsim import colours
from ascendsim.device import NOT_CALIBRATED
from ascendsim.plot.canvas import DPI, Box, Hatch, Line, Look, Pattern, Picture, Shape, Text, text_height
from ascendsim.plot.fonts import text_width
from ascendsim.result import RunResult

STAMP = "SIMULATED DESPITE FINDINGS"

COLOURS = colours.PIPES
INK, SOFT, ALARM, PALE, WHITE = "#222222", "#666666", "#b00020", "#f4f4f4", "#ffffff"
GAP = Look(fill="#fbfbfb", hatch=Hatch(Pattern.BACK, 4.0, "#c4c4c4"))
"""Time of which there are no rows."""

# Inches.
WIDTH, TOP, AXIS, LINE = 12.0, 1.0, 0.5, 0.18
"""Of a picture: its width, the room above its charts, below them for ticks and label, and for a line of text."""
EDGED = 0.04
"""Boxes are outlined from this width on."""
_TICK = 0.042
_FINE = 1 / DPI
"""Edges that meet are put on whole pixels, or both would let the ground show."""
_SWATCH = (0.22, 0.08)
_COLUMN = 0.5
"""What a column of the legend needs beside its texts."""

# Points.
TEXT, SMALL, TITLE, FRAME = 9.0, 8.0, 13.0, 0.6

# Layers.
GROUND, GRID, LOW, MIDDLE, HIGH, STRIP, OVER, WORDS = range(8)


@dataclass(frozen=True, slots=True)
class Chart:
    """A part of a picture over which time runs from left to right; all but cycles in inches, y from its top."""

    picture: Picture
    left: float
    top: float
    width: float
    height: float
    first: int
    last: int
    slack: float = 0.35
    """How far texts of its ticks may reach beyond it."""

    @property
    def right(self) -> float:
        """Its right edge in the picture."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """Its lower edge in the picture."""
        return self.top + self.height

    @property
    def per_cycle(self) -> float:
        """Inches of one cycle."""
        return self.width / (self.last - self.first)

    def x(self, cycle: float) -> float:
        """Place of a cycle in the picture; what is outside comes to the edge."""
        return self.left + (min(max(cycle, self.first), self.last) - self.first) * self.per_cycle

    def spans(
        self, spans: Sequence[tuple[int, int]], top: float, height: float, look: Look, layer: int = MIDDLE
    ) -> None:
        """Put boxes of one look and height where stretches of time are in view."""
        seen = [(a, b) for a, b in spans if b > a and b > self.first and a < self.last]
        y = self.top + top
        self.picture.boxes([(self.x(a), y, self.x(b), y + height) for a, b in seen], look, layer)

    def steps(self, spans: Sequence[tuple[int, int, float]], look: Look, layer: int = LOW) -> None:
        """Put boxes that stand on the bottom side by side: stretches of time and heights. No seam is to be seen."""
        for a, b, height in spans:
            if b > self.first and a < self.last and height > 0:
                left, right = (round(self.x(at) / _FINE) * _FINE for at in (a, b))
                self.picture.boxes([(left, self.bottom - height, right, self.bottom)], look, layer)

    def say(self, cycle: float, y: float, text: str, ground: str) -> None:
        """Put a measured text over a cycle, on a ground that keeps arrows and hatches off it."""
        if text:
            self.picture.add(Text(self.x(cycle), self.top + y, text, SMALL, INK, ground=ground), WORDS)

    def beside(self, y: float, text: str, ink: str = SOFT, away: float = 0.1) -> None:
        """Put a text to the right of the chart."""
        self.picture.add(Text(self.right + away, self.top + y, text, SMALL, ink, side="left"), WORDS)

    def name(self, y: float, text: str, size: float = TEXT) -> None:
        """Put a name to the left of the chart."""
        self.picture.add(Text(self.left - 0.08, self.top + y, text, size, INK, side="right"), WORDS)

    def level(self, y: float, ink: str, points: float, dashes: tuple[float, float] | None = None) -> None:
        """Draw a line across the chart."""
        line = Line((self.left, self.top + y), (self.right, self.top + y), ink, points, dashes)
        self.picture.add(line, GRID if dashes is None and points < FRAME else STRIP)

    def frame(self, *, sides: bool = False) -> None:
        """Draw a line above and below, and at the sides."""
        box = (self.left, self.top, self.right, self.bottom)
        lines = [((box[0], y), (box[2], y)) for y in (box[1], box[3])]
        lines += [((x, box[1]), (x, box[3])) for x in (box[0], box[2])] * sides
        for start, end in lines:
            self.picture.add(Line(start, end, "#000000", FRAME), OVER)


def text_size(text: str) -> tuple[float, float]:
    """Width and height of a small text in inches."""
    return max(text_width(line, SMALL) for line in text.split("\n")), text_height(text, SMALL)


def fitting(labels: Sequence[str], width: float, height: float) -> str:
    """The first label that fits in small letters, or nothing."""
    for label in labels:
        w, h = text_size(label)
        if w + 0.06 <= width and h <= height:
            return label
    return ""


def shortened(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """A line cut so that it fits, with an ellipsis if it was cut."""
    if text_width(text, size, bold=bold) <= width:
        return text
    while text and text_width(text + "…", size, bold=bold) > width:
        text = text[:-1]
    return text + "…"


def lighter(colour: str, share: float) -> str:
    """Return a colour mixed with a share of white."""
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c + (255 - c) * share):02x}" for c in channels)


# ---- axes -------------------------------------------------------------------------------------------------------


def cycle_axis(chart: Chart) -> None:
    """Cycles below a chart."""
    step = _step(chart, 1.0, whole=True)
    for value in _ticks(chart, step, 1.0):
        _tick(chart, value, chart.bottom, _decimal(value, step), down=True)
    chart.picture.add(Text((chart.left + chart.right) / 2, chart.bottom + 0.32, "cycles", SMALL, INK), WORDS)


def time_axis(chart: Chart, clock_mhz: int) -> None:
    """Microseconds above a chart."""
    step = _step(chart, 1 / clock_mhz, whole=False)
    for value in _ticks(chart, step, 1 / clock_mhz):
        _tick(chart, value * clock_mhz, chart.top, _decimal(value, step), down=False)
    chart.picture.add(Text((chart.left + chart.right) / 2, chart.top - 0.3, "µs", SMALL, INK), WORDS)


def _tick(chart: Chart, cycle: float, y: float, text: str, *, down: bool) -> None:
    """A tick outwards, and its text if that does not reach far beyond the chart."""
    x, sign = chart.x(cycle), 1 if down else -1
    chart.picture.add(Line((x, y), (x, y + sign * _TICK), "#000000", FRAME), OVER)
    half = text_width(text, SMALL) / 2
    if text and x - half > chart.left - chart.slack and x + half < chart.right + chart.slack:
        chart.picture.add(Text(x, y + sign * (_TICK + 0.09), text, SMALL, INK), WORDS)


def _step(chart: Chart, unit: float, *, whole: bool) -> float:
    """Distance of ticks in a unit of so many cycles: at most ten, and their texts apart."""
    extent = (chart.last - chart.first) * unit
    for most in (10, 8, 6, 5, 4, 3, 2, 1):
        step = nice_step(extent / most, whole=whole)
        widest = max(text_width(_decimal(v * unit, step), SMALL) for v in (chart.first, chart.last))
        if widest + 0.15 <= step / extent * chart.width:
            return step
    return nice_step(extent, whole=whole)


def nice_step(least: float, *, whole: bool = False) -> float:
    """The smallest step that is not less: 1, 2, 2.5 or 5 times a power of ten, and whole if asked for."""
    exponent = math.floor(math.log10(least)) if least > 0 else 0
    steps = [factor * 10.0**power for power in (exponent, exponent + 1) for factor in (1, 2, 2.5, 5)]
    steps = [step for step in steps if not whole or step == int(step)]
    return next((step for step in steps if step >= least * (1 - 1e-9)), 1.0)


def _ticks(chart: Chart, step: float, unit: float) -> list[float]:
    """Multiples of a step that are in a chart's range, in its unit."""
    first, last = chart.first * unit / step, chart.last * unit / step
    return [k * step for k in range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1)]


def _decimal(value: float, step: float) -> str:
    """A number with as many decimals as its steps need."""
    places = next((n for n in range(9) if abs(round(step, n) - step) < step * 1e-6), 9)
    return f"{value:,.{places}f}"


# ---- frame ------------------------------------------------------------------------------------------------------


def heading(picture: Picture, result: RunResult, subject: str, facts: Sequence[str]) -> None:
    """Title, facts of the run below it, and the stamp if it is due."""
    room = WIDTH - 0.3
    if result.despite_findings:
        stamp = Text(WIDTH - 0.2, 0.2, STAMP, 11, ALARM, bold=True, side="right")
        room -= stamp.width + 0.4
        left, top, right, bottom = stamp.box
        picture.boxes([(left - 0.06, top - 0.03, right + 0.06, bottom + 0.03)], Look(WHITE, ALARM, 1.0), OVER)
        picture.add(stamp, WORDS)
    caution = "" if result.device.calibrated.value else f" ({NOT_CALIBRATED.lower()})"
    run = f"{result.device.name}{caution}, makespan {result.makespan_cycles:,} cycles = {result.makespan_us:,.3f} µs"
    title_lines(picture, f"{result.name}: {subject}", [run, *facts], room)


def title_lines(picture: Picture, title: str, facts: Sequence[str], room: float = WIDTH - 0.3) -> None:
    """A title that has so much room, and a line of facts below it."""
    title = shortened(title, room, TITLE, bold=True)
    picture.add(Text(0.15, 0.2, title, TITLE, "#000000", bold=True, side="left"), WORDS)
    line = shortened(" · ".join(facts), WIDTH - 0.3, TEXT)
    picture.add(Text(0.15, 0.45, line, TEXT, INK, side="left"), WORDS)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the legend; without a look it is an arrow."""

    label: str
    look: Look | None
    ink: str = INK
    """Of an arrow."""


def legend_rows(entries: Sequence[Entry], width: float) -> int:
    """How many lines a legend of some width in inches has."""
    return -(-len(entries) // _columns(entries, width))


def _columns(entries: Sequence[Entry], width: float) -> int:
    widest = max((text_width(entry.label, SMALL) for entry in entries), default=1.0)
    return max(1, int(width // (widest + _COLUMN)))


def legend(picture: Picture, entries: Sequence[Entry], left: float, top: float, width: float) -> None:
    """A legend whose upper left corner is there, filled column by column."""
    rows = legend_rows(entries, width)
    for column in range(0, len(entries), max(1, rows)):
        some = entries[column : column + rows]
        for i, entry in enumerate(some):
            y = top + (i + 0.5) * LINE
            _swatch(picture, entry, left, y)
            picture.add(Text(left + _SWATCH[0] + 0.1, y, entry.label, SMALL, INK, side="left"), WORDS)
        left += max(text_width(entry.label, SMALL) for entry in some) + _COLUMN


def _swatch(picture: Picture, entry: Entry, left: float, y: float) -> None:
    box: Box = (left, y - _SWATCH[1] / 2, left + _SWATCH[0], y + _SWATCH[1] / 2)
    if entry.look is not None:
        picture.boxes([box], entry.look, OVER)
    else:
        arrow(picture, (left, y), (left + _SWATCH[0], y), entry.ink)


def arrow(picture: Picture, tail: tuple[float, float], tip: tuple[float, float], ink: str = INK) -> None:
    """An arrow between two points of a picture."""
    dx, dy = tip[0] - tail[0], tip[1] - tail[1]
    length = max(math.hypot(dx, dy), 1e-9)
    dx, dy = dx / length, dy / length
    long, half = min(0.065, length), 0.026
    neck = (tip[0] - dx * long, tip[1] - dy * long)
    picture.add(Line(tail, neck, ink, 0.8), OVER)
    corners = (tip, (neck[0] - dy * half, neck[1] + dx * half), (neck[0] + dy * half, neck[1] - dx * half))
    picture.add(Shape(corners, ink), OVER)
