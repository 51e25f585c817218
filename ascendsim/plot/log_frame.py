"""The frame of a chart with two axes of equal factors, and its ticks."""

from collections.abc import Iterable

from ascendsim.plot.canvas import Line, Picture, Text
from ascendsim.plot.fonts import text_width
from ascendsim.plot.log_axis import LogAxis
from ascendsim.plot.style import FRAME, GRID, INK, LINE, OVER, SMALL, WORDS

TICK = 0.042
"""Inches."""
_BLACK, _PALE = "#000000", "#e6e6e6"


def draw_frame(picture: Picture, x: LogAxis, y: LogAxis) -> None:
    """Draw the four edges."""
    corners = [(x.start, y.start), (x.end, y.start), (x.end, y.end), (x.start, y.end)]
    for start, end in zip(corners, [*corners[1:], corners[0]], strict=True):
        picture.add(Line(start, end, _BLACK, FRAME), OVER)


def mark_below(picture: Picture, x: LogAxis, y: LogAxis, value: float) -> float:
    """Draw a value's line and its tick below the chart; return where it is."""
    at = x.at(value)
    picture.add(Line((at, y.start), (at, y.end), _PALE, 0.5), GRID)
    picture.add(Line((at, y.start), (at, y.start + TICK), _BLACK, FRAME), OVER)
    return at


def mark_beside(picture: Picture, x: LogAxis, y: LogAxis, value: float) -> float:
    """Draw a value's line and its tick left of the chart; return where it is."""
    at = y.at(value)
    picture.add(Line((x.start, at), (x.end, at), _PALE, 0.5), GRID)
    picture.add(Line((x.start - TICK, at), (x.start, at), _BLACK, FRAME), OVER)
    return at


def ticks_below(picture: Picture, x: LogAxis, y: LogAxis, values: Iterable[int]) -> None:
    """Draw values below the chart, as many texts as fit."""
    free = 0.0
    for value in values:
        at, text = mark_below(picture, x, y, value), f"{value:,}"
        half = text_width(text, SMALL) / 2
        if at - half > free:
            picture.add(Text(at, y.start + TICK + 0.09, text, SMALL, INK), WORDS)
            free = at + half + 0.1


def ticks_beside(picture: Picture, x: LogAxis, y: LogAxis, values: Iterable[int], away: float) -> None:
    """Draw values left of the chart, so many inches away, as many texts as fit."""
    last = y.start + LINE
    for value in values:
        at = mark_beside(picture, x, y, value)
        if last - at >= LINE:
            picture.add(Text(x.start - away, at, f"{value:,}", SMALL, INK, side="right"), WORDS)
            last = at
