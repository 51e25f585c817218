"""The roofs of a device over operations for each byte of GM, and where a run stands below them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ascendsim.plot.canvas import Box, Line, Look, Picture, Shape, Text
from ascendsim.plot.log_axis import LogAxis
from ascendsim.plot.log_frame import TICK, draw_frame, mark_below, mark_beside
from ascendsim.plot.style import (
    COLOURS,
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
    heading,
    legend,
    legend_rows,
)
from ascendsim.result import RunResult
from ascendsim.roofline import CUBE, L2, MEMORY, VECTOR, Point, Roof, Roofline
from ascendsim.terms import Pipe

_LEFT, _RIGHT, _TOP, _TALL, _FOOT = 1.05, 0.45, 0.95, 4.4, 0.85
"""Inches beside, above and below the chart, and its height."""
_DOT, _AWAY = 0.055, 0.1
_SHORT = 2.5
"""Powers of ten along an axis below which more of its values are written."""
_FACTOR = 3.0
"""So much lies beyond the outermost roofs and points."""
_INKS = {CUBE: "#b07d00", VECTOR: COLOURS[Pipe.V], MEMORY: "#0072b2", L2: COLOURS[Pipe.MTE2]}
_DASHES = {L2: (5.0, 2.5), VECTOR: (9.0, 2.0)}
_COUNTED = "operations: 2 for a product of Mmad, 1 for a lane of V, 2 where it adds to dst; bytes as cores move them"
_POINT_INKS = {"run": INK, "AIC": COLOURS[Pipe.M], "AIV": COLOURS[Pipe.V], "AICORE": COLOURS[Pipe.MTE3]}


@dataclass(frozen=True, slots=True)
class _Axes:
    """Operations a byte to the right, 10^12 operations a second upwards, both by equal factors."""

    x: LogAxis
    y: LogAxis

    def place(self, intensity: float, tera: float) -> tuple[float, float]:
        """Where a point stands in the picture."""
        return self.x.at(intensity), self.y.at(tera)


def roofline_picture(result: RunResult) -> Picture:
    """Draw the roofs of the device and the points of a run: of all cores, and in a mixed kernel of each kind."""
    found = result.roofline
    entries = [_roof_entry(roof) for roof in found.roofs] + [_point_entry(point) for point in found.points]
    room = WIDTH - _LEFT - _RIGHT
    foot = _FOOT + LINE * legend_rows(entries, room) + LINE
    picture = Picture(WIDTH, _TOP + _TALL + foot)
    axes = _axes(found)
    _frame(picture, axes)
    for roof in found.roofs:
        _roof(picture, axes, found, roof)
    taken: list[Box] = []
    for point in found.points:
        _point(picture, axes, point)
        taken.append(_around(*axes.place(point.intensity, point.tera_ops)))
    _labels(picture, axes, found, taken)
    legend(picture, entries, _LEFT, _TOP + _TALL + 0.6, room)
    note = _COUNTED if found.points else "no point: the run computes nothing, or moves nothing to or from GM"
    picture.add(Text(_LEFT, picture.height - 0.15, note, SMALL, SOFT, side="left"), WORDS)
    kind, blocks = result.program.kernel_type, result.program.block_dim
    cores = f"{blocks} of {result.device.most_blocks(kind)} {kind.block_word}"
    heading(picture, result, "roofline", [cores, "roofs of the whole device"])
    return picture


def _roof_entry(roof: Roof) -> Entry:
    unit = "TB/s" if roof.is_bandwidth else "TOP/s"
    return Entry(f"{roof.name} ({roof.detail}): {_number(roof.tera)} {unit}", Look(fill=_INKS[roof.name]))


def _point_entry(point: Point) -> Entry:
    where = f"{_number(point.intensity)} op/B, {_number(point.tera_ops)} TOP/s"
    name = "all cores" if point.name == "run" else f"{point.name} cores"
    return Entry(f"{name}: {where}, {point.share:.0%} of {point.bound}", Look(fill=_POINT_INKS[point.name], edge=INK))


def _number(value: float) -> str:
    """Three digits."""
    return f"{float(f'{value:.3g}'):g}"


def _axes(found: Roofline) -> _Axes:
    """Axes that hold all points, the feet of the roofs, and where slanted and level ones meet."""
    slopes = [roof.tera for roof in found.roofs if roof.is_bandwidth]
    levels = [roof.tera for roof in found.roofs if not roof.is_bandwidth] or [max(slopes)]
    xs = [level / slope for level in levels for slope in slopes] + [p.intensity for p in found.points]
    low, high = min(xs) / _FACTOR, max(xs) * _FACTOR
    ys = [*levels, *(p.tera_ops for p in found.points)]
    bottom = min(*ys, low * min(slopes) * _FACTOR) / _FACTOR
    x = LogAxis(low, high, _LEFT, WIDTH - _RIGHT)
    return _Axes(x, LogAxis(bottom, max(ys) * _FACTOR, _TOP + _TALL, _TOP))


def _frame(picture: Picture, axes: _Axes) -> None:
    x, y = axes.x, axes.y
    draw_frame(picture, x, y)
    for value in _ticks(x):
        at = mark_below(picture, x, y, value)
        picture.add(Text(at, y.start + TICK + 0.09, f"{value:,g}", SMALL, INK), WORDS)
    for value in _ticks(y):
        at = mark_beside(picture, x, y, value)
        picture.add(Text(x.start - 0.07, at, f"{value:,g}", SMALL, INK, side="right"), WORDS)
    under = "operations for each byte of GM moved, op/B"
    picture.add(Text((x.start + x.end) / 2, y.start + 0.32, under, SMALL, INK), WORDS)
    beside = "operations a second, 10¹² (TOP/s)"
    picture.add(Text(0.25, (y.start + y.end) / 2, beside, SMALL, INK, upright=True), WORDS)


def _ticks(axis: LogAxis) -> Iterator[float]:
    """Powers of ten within an axis, on a short one two and five times them, too."""
    low, high = (math.log10(value) for value in (axis.first, axis.last))
    digits = (1, 2, 5) if high - low < _SHORT else (1,)
    values = (digit * 10.0**n for n in range(math.floor(low), math.floor(high) + 1) for digit in digits)
    yield from (float(f"{value:.3g}") for value in values if axis.first <= value <= axis.last)


def _roof(picture: Picture, axes: _Axes, found: Roofline, roof: Roof) -> None:
    """A level line from where memory reaches it on, or a slanted one up to the highest level."""
    start, end = _ends(axes, found, roof)
    dashes = _DASHES.get(roof.name)
    picture.add(Line(axes.place(*start), axes.place(*end), _INKS[roof.name], 1.6, dashes), LOW)


def _ends(axes: _Axes, found: Roofline, roof: Roof) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where a roof begins and ends, as values."""
    slopes = [one.tera for one in found.roofs if one.is_bandwidth]
    levels = [one.tera for one in found.roofs if not one.is_bandwidth]
    if not roof.is_bandwidth:
        return (max(axes.x.first, roof.tera / max(slopes)), roof.tera), (axes.x.last, roof.tera)
    first = max(axes.x.first, axes.y.first / roof.tera)
    last = min(axes.x.last, max(levels, default=axes.y.last) / roof.tera)
    return (first, first * roof.tera), (last, last * roof.tera)


def _point(picture: Picture, axes: _Axes, point: Point) -> None:
    """A diamond for the run, a box for a kind of cores; below it a line to the axis."""
    x, y = axes.place(point.intensity, point.tera_ops)
    picture.add(Line((x, y), (x, axes.y.start), SOFT, 0.6, (1.5, 2.0)), LOW)
    ink = _POINT_INKS[point.name]
    if point.name == "run":
        size = 1.4 * _DOT
        picture.add(Shape(((x, y - size), (x + size, y), (x, y + size), (x - size, y)), ink), OVER)
    else:
        picture.boxes([(x - _DOT, y - _DOT, x + _DOT, y + _DOT)], Look(ink, INK, 0.8), MIDDLE)


def _around(x: float, y: float) -> Box:
    return x - _AWAY, y - _AWAY, x + _AWAY, y + _AWAY


def _labels(picture: Picture, axes: _Axes, found: Roofline, taken: list[Box]) -> None:
    """Names at points and roofs, where nothing else stands; the legend has them all."""
    wanted = [_point_texts(axes, point) for point in found.points]
    wanted += [_roof_texts(axes, found, roof) for roof in found.roofs]
    lines = [(axes.place(*a), axes.place(*b)) for a, b in (_ends(axes, found, roof) for roof in found.roofs)]
    feet = [axes.place(point.intensity, point.tera_ops) for point in found.points]
    lines += [((x, y), (x, axes.y.start)) for x, y in feet]
    for candidates in wanted:
        for text in candidates:
            if _is_free(axes, text.box, taken, lines):
                taken.append(text.box)
                picture.add(text, WORDS)
                break


def _point_texts(axes: _Axes, point: Point) -> Iterator[Text]:
    x, y = axes.place(point.intensity, point.tera_ops)
    name = "all cores" if point.name == "run" else point.name
    text = f"{name}, {point.share:.0%} of {point.bound}"
    for dy in (0.0, 0.2, -0.2, 0.36, -0.36):
        for side, dx in (("left", 0.14), ("right", -0.14)):
            yield Text(x + dx, y + dy, text, SMALL, INK, side=side)


def _roof_texts(axes: _Axes, found: Roofline, roof: Roof) -> Iterator[Text]:
    start, end = (axes.place(*one) for one in _ends(axes, found, roof))
    unit = "TB/s" if roof.is_bandwidth else "TOP/s"
    text = f"{roof.name} {_number(roof.tera)} {unit}"
    for share in (0.5, 0.35, 0.65, 0.2, 0.8, 0.9):
        x, y = (a + (b - a) * share for a, b in zip(start, end, strict=True))
        if roof.is_bandwidth:
            yield Text(x - 0.1, y - 0.1, text, SMALL, INK, side="right")
            yield Text(x + 0.1, y + 0.1, text, SMALL, INK, side="left")
        else:
            yield Text(x, y - 0.12, text, SMALL, INK)
            yield Text(x, y + 0.12, text, SMALL, INK)


def _is_free(axes: _Axes, box: Box, taken: Sequence[Box], lines: Sequence[tuple[tuple[float, float], ...]]) -> bool:
    left, top, right, bottom = box
    if left < axes.x.start + 0.03 or right > axes.x.end - 0.03:
        return False
    if top < axes.y.end + 0.03 or bottom > axes.y.start - 0.03:
        return False
    if any(left < b[2] and b[0] < right and top < b[3] and b[1] < bottom for b in taken):
        return False
    return not any(_crosses(box, *line) for line in lines)


def _crosses(box: Box, start: tuple[float, float], end: tuple[float, float]) -> bool:
    """Whether a line runs through a box, looked at in steps of a hundredth of an inch or less."""
    steps = max(1, math.ceil(math.dist(start, end) * 100))
    for i in range(steps + 1):
        x, y = (a + (b - a) * i / steps for a, b in zip(start, end, strict=True))
        if box[0] < x < box[2] and box[1] < y < box[3]:
            return True
    return False
