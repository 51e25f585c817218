"""Predicted cycles and rows of a tile against the temp, all axes by equal factors; what is odd is marked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ascendsim.device import NOT_CALIBRATED
from ascendsim.plot.canvas import Box, Line, Look, Picture, Shape, Text
from ascendsim.plot.fonts import text_width
from ascendsim.plot.log_axis import LogAxis, log_axis
from ascendsim.plot.log_frame import TICK
from ascendsim.plot.paint import png, svg
from ascendsim.plot.style import (
    ALARM,
    COLOURS,
    FRAME,
    GRID,
    INK,
    LINE,
    LOW,
    MIDDLE,
    OVER,
    SMALL,
    SOFT,
    WIDTH,
    WORDS,
    Entry,
    legend,
    legend_rows,
    title_lines,
)
from ascendsim.terms import Pipe
from ascendsim.tmpsize import Curve, Point

_LEFT, _RIGHT, _TOP = 1.05, 0.45, 0.75
_TALL, _LOW, _GAP, _FOOT = 3.6, 1.5, 0.25, 0.85
"""Inches: height of the two panels, between them, below them for the axis and the legend."""
_DOT, _AWAY = 0.035, 0.06
_NEAR = 0.13
"""Inches between a point and the middle of its text."""
_NO_ROW = 0.5

_BEST = COLOURS[Pipe.V]
_CHOSEN = COLOURS[Pipe.M]
_ODD = COLOURS[Pipe.FIX]
_PLAIN = COLOURS[Pipe.MTE2]
_STEP = "#4d4d4d"


def curve_png(curve: Curve, percent: float | None = None) -> bytes:
    """Draw a curve as PNG; arguments as `curve_picture`."""
    return png(curve_picture(curve, percent))


def curve_svg(curve: Curve, percent: float | None = None) -> bytes:
    """Draw a curve as SVG; arguments as `curve_picture`."""
    return svg(curve_picture(curve, percent), curve.answer.title)


@dataclass(frozen=True, slots=True)
class _Panel:
    """One chart: steps of a value over the temp."""

    picture: Picture
    x: LogAxis
    y: LogAxis
    value: Callable[[Point], float]

    def place(self, point: Point) -> tuple[float, float]:
        """Where a point stands."""
        return self.x.at(point.choice.tmp_bytes), self.y.at(self.value(point))


def curve_picture(curve: Curve, percent: float | None = None) -> Picture:
    """Draw a curve: cycles above, rows of a tile below, the same temps under each other.

    Args:
        curve: with at least one point.
        percent: mark the smallest temp within so many percent of the fastest, too.
    """
    chosen = None if percent is None else curve.within(percent)
    entries = _entries(curve, chosen, percent)
    width = WIDTH - _LEFT - _RIGHT
    foot = _FOOT + LINE * (legend_rows(entries, width) - 1)
    height = _TOP + _TALL + _GAP + _LOW + foot
    picture = Picture(WIDTH, height)
    x = log_axis([*(p.choice.tmp_bytes for p in curve.points), curve.last_bytes], _LEFT, WIDTH - _RIGHT)
    cycles = [_cycles(p) for p in curve.points]
    upper = _Panel(picture, x, log_axis(cycles, _TOP + _TALL, _TOP, 2 * _NEAR), _cycles)
    below = _TOP + _TALL + _GAP
    rows = [_rows(p) for p in curve.points]
    lower = _Panel(picture, x, log_axis(rows, below + _LOW, below), _rows)
    for panel, name in ((upper, "predicted cycles"), (lower, "rows of a tile")):
        _frame(panel, name)
        _steps(panel, curve)
        for point in curve.points:
            _dot(panel, point, _BEST if point is curve.best else _CHOSEN if point is chosen else "")
    _temp_axis(lower)
    _labels(upper, curve, chosen)
    legend(picture, entries, _LEFT, height - foot + 0.55, width)
    title_lines(picture, f"{curve.answer.title}: cycles against temp", _facts(curve))
    return picture


def _entries(curve: Curve, chosen: Point | None, percent: float | None) -> list[Entry]:
    """The legend: of the named points also what they are."""
    entries = [Entry(f"fastest: {_said(curve.best)}", Look(_BEST, INK))]
    if chosen is not None and chosen is not curve.best:
        entries.append(Entry(f"smallest within {percent:g} %: {_said(chosen)}", Look(_CHOSEN, INK)))
    odd = any(p.remark for p in curve.points)
    entries += [Entry("more temp, but a smaller tile or more cycles", Look(_ODD, INK))] * odd
    entries.append(Entry("from here on the tiling is another one", Look(_PLAIN, INK)))
    return entries


def _said(point: Point) -> str:
    return f"{point.choice.tmp_bytes:,} B, {point.choice.cycles:,} cycles"


def _cycles(point: Point) -> float:
    """Cycles, for an axis that cannot show none."""
    return max(1, point.choice.cycles or 0)


def _rows(point: Point) -> float:
    """Rows of a tile; an axis of equal factors shows none as half a row, see `_frame`."""
    return max(_NO_ROW, point.choice.tiling.split_m if point.choice.tiling is not None else 0)


def _facts(curve: Curve) -> list[str]:
    device = curve.answer.device
    assert device is not None
    caution = "" if device.calibrated.value else f" ({NOT_CALIBRATED.lower()})"
    return [f"{device.name}{caution}", f"{len(curve.points)} temps, {curve.note}"]


def _frame(panel: _Panel, name: str) -> None:
    x, y, picture = panel.x, panel.y, panel.picture
    for start, end in (
        ((x.start, y.start), (x.end, y.start)),
        ((x.start, y.end), (x.end, y.end)),
        ((x.start, y.start), (x.start, y.end)),
        ((x.end, y.start), (x.end, y.end)),
    ):
        picture.add(Line(start, end, "#000000", FRAME), OVER)
    last = y.start + LINE
    for value in (0, *y.ticks()) if y.first < _NO_ROW < y.last else y.ticks():
        at = y.at(value or _NO_ROW)
        picture.add(Line((x.start, at), (x.end, at), "#e6e6e6", 0.5), GRID)
        if last - at >= LINE:
            picture.add(Line((x.start - TICK, at), (x.start, at), "#000000", FRAME), OVER)
            picture.add(Text(x.start - 0.08, at, f"{value:,}", SMALL, INK, side="right"), WORDS)
            last = at
    picture.add(Text(0.25, (y.start + y.end) / 2, name, SMALL, INK, upright=True), WORDS)


def _temp_axis(panel: _Panel) -> None:
    """Bytes below the panels, as many texts as fit."""
    x, bottom = panel.x, panel.y.start
    free = 0.0
    for value in x.ticks():
        at, text = x.at(value), f"{value:,}"
        for top, end in ((_TOP, _TOP + _TALL), (panel.y.end, bottom)):
            panel.picture.add(Line((at, top), (at, end), "#e6e6e6", 0.5), GRID)
        panel.picture.add(Line((at, bottom), (at, bottom + TICK), "#000000", FRAME), OVER)
        half = text_width(text, SMALL) / 2
        if at - half > free:
            panel.picture.add(Text(at, bottom + TICK + 0.09, text, SMALL, INK), WORDS)
            free = at + half + 0.1
    panel.picture.add(Text((x.start + x.end) / 2, bottom + 0.32, "temp, bytes", SMALL, INK), WORDS)


def _steps(panel: _Panel, curve: Curve) -> None:
    """A value holds until the next temp that changes it."""
    places = [panel.place(point) for point in curve.points]
    places.append((panel.x.at(max(curve.last_bytes, curve.points[-1].choice.tmp_bytes)), places[-1][1]))
    for (left, at), (right, after) in pairwise(places):
        panel.picture.add(Line((left, at), (right, at), _STEP, 1.0), LOW)
        panel.picture.add(Line((right, at), (right, after), _STEP, 0.6, (1.5, 1.5)), LOW)


def _dot(panel: _Panel, point: Point, named: str) -> None:
    """A box, larger and of its own colour if it is named; a diamond for what is odd: not colour alone tells."""
    x, y = panel.place(point)
    if named:
        size = 1.5 * _DOT
        panel.picture.boxes([(x - size, y - size, x + size, y + size)], Look(named, INK), OVER)
    elif point.remark:
        size = 1.5 * _DOT
        corners = ((x, y - size), (x + size, y), (x, y + size), (x - size, y))
        panel.picture.add(Shape(corners, _ODD), OVER)
    else:
        panel.picture.boxes([(x - _DOT, y - _DOT, x + _DOT, y + _DOT)], Look(_PLAIN, INK), MIDDLE)


def _labels(panel: _Panel, curve: Curve, chosen: Point | None) -> None:
    """Sizes of points, the most important first; one that would hide another, a point or a step is left out."""
    places = [panel.place(point) for point in curve.points]
    taken = [_around(place) for place in places]
    for (left, at), (right, after) in pairwise(places):
        taken.append((left, at - 0.01, right, at + 0.01))
        taken.append((right - 0.01, min(at, after), right + 0.01, max(at, after)))
    named = [curve.best, *([chosen] if chosen else [])]
    odd = [p for p in curve.points if p.remark]
    for point in dict.fromkeys([*named, *odd, *curve.points]):
        ink = INK if point in named else ALARM if point.remark else SOFT
        for text in _around_texts(panel.place(point), f"{point.choice.tmp_bytes:,} B", ink):
            if _is_free(panel, text.box, taken):
                taken.append(text.box)
                panel.picture.add(text, WORDS)
                break


def _around(place: tuple[float, float]) -> Box:
    x, y = place
    return x - _DOT, y - _DOT, x + _DOT, y + _DOT


def _around_texts(place: tuple[float, float], text: str, ink: str) -> Iterator[Text]:
    """A text above and below a point, to the right and to the left."""
    x, y = place
    for dy in (-_NEAR, _NEAR):
        for side, dx in (("left", _AWAY), ("right", -_AWAY)):
            yield Text(x + dx, y + dy, text, SMALL, ink, side=side)


def _is_free(panel: _Panel, box: Box, taken: Sequence[Box]) -> bool:
    left, top, right, bottom = box
    if left < panel.x.start + 0.02 or right > panel.x.end - 0.02:
        return False
    if top < panel.y.end + 0.02 or bottom > panel.y.start - 0.02:
        return False
    return not any(left < b[2] + 0.03 and b[0] < right + 0.03 and top < b[3] and b[1] < bottom for b in taken)
