"""All timed candidates of a search: the first objective to the right, the second upwards, the Pareto front marked."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ascendsim.device import NOT_CALIBRATED
from ascendsim.plot.canvas import Box, Line, Look, Picture, Shape, Text
from ascendsim.plot.fonts import text_width
from ascendsim.plot.log_axis import LogAxis, log_axis
from ascendsim.plot.log_frame import draw_frame, ticks_below, ticks_beside
from ascendsim.plot.paint import png
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
    legend,
    legend_rows,
    title_lines,
)
from ascendsim.terms import Pipe
from ascendsim.tuner.answers import front
from ascendsim.tuner.evaluation import Cells
from ascendsim.tuner.result import OBJECTIVES, TuneResult

_LEFT, _RIGHT, _TOP, _TALL, _FOOT = 1.05, 0.45, 0.75, 4.6, 0.85
_DOT = 0.032
_FRONT = COLOURS[Pipe.V]
_DEFAULT = COLOURS[Pipe.FIX]
_PLAIN = COLOURS[Pipe.MTE2]
_NAMES = {"cycles": "predicted cycles", "peak_ub": "peak UB, bytes", "peak_l1": "peak L1, bytes"}
_NAMES |= {"workspace": "workspace, bytes"}
_MOST_LABELS = 12
_FEW_TICKS = 2


def pareto_png(found: TuneResult) -> bytes:
    """Draw a search as PNG; see `pareto_picture`."""
    return png(pareto_picture(found))


def axes_of(found: TuneResult) -> tuple[str, str]:
    """Return the objectives of both axes; one that was not asked for is the memory that candidates differ in."""
    objectives = [*found.objectives, *(name for name in OBJECTIVES if name not in found.objectives)]
    first = objectives[0]
    for name in objectives[1:]:
        if len({_value(row, name) for row in found.ranked}) > 1 or name in found.objectives:
            return first, name
    return first, objectives[1]


def pareto_picture(found: TuneResult) -> Picture:
    """Draw the candidates of a search that were timed, and the scenario as it stands."""
    right, up = axes_of(found)
    best = front(
        sorted(found.ranked, key=lambda row: (_value(row, right), _value(row, up))), [OBJECTIVES[right], OBJECTIVES[up]]
    )
    entries = [
        Entry(f"Pareto front, {len(best)} candidates: none is smaller in both", Look(_FRONT, INK)),
        Entry(f"other candidates, {len(found.ranked) - len(best)}", Look(_PLAIN, INK)),
        *([Entry("the scenario as it stands", Look(_DEFAULT, INK))] if found.default is not None else []),
    ]
    width = WIDTH - _LEFT - _RIGHT
    foot = _FOOT + LINE * (legend_rows(entries, width) - 1)
    picture = Picture(WIDTH, _TOP + _TALL + foot)
    rows = [*found.ranked, *([] if found.default is None else [found.default])]
    x = log_axis([_value(row, right) for row in rows] or [1], _LEFT, WIDTH - _RIGHT)
    y = log_axis([_value(row, up) for row in rows] or [1], _TOP + _TALL, _TOP)
    _frame(picture, x, y, _NAMES[right], _NAMES[up])
    places = [(x.at(_value(row, right)), y.at(_value(row, up))) for row in best]
    chosen = {row["candidate"] for row in best}
    for row in found.ranked:
        if row["candidate"] not in chosen:
            _box(picture, x.at(_value(row, right)), y.at(_value(row, up)), _DOT, _PLAIN, MIDDLE)
    for (left, above), (after, below) in pairwise(places):
        picture.add(Line((left, above), (after, above), SOFT, 0.8, (2.0, 2.0)), LOW)
        picture.add(Line((after, above), (after, below), SOFT, 0.8, (2.0, 2.0)), LOW)
    if found.default is not None:
        _diamond(picture, x.at(_value(found.default, right)), y.at(_value(found.default, up)))
    for across, upwards in places:
        _box(picture, across, upwards, 1.5 * _DOT, _FRONT, OVER)
    _labels(picture, found, best, places, x)
    legend(picture, entries, _LEFT, _TOP + _TALL + 0.55, width)
    device = found.setup.scenario.load_device()
    caution = "" if device.calibrated.value else f" ({NOT_CALIBRATED.lower()})"
    facts = [f"{device.name}{caution}", f"{len(found.ranked)} timed of {found.setup.space.count} points"]
    title_lines(picture, f"{found.setup.scenario.name}: {_NAMES[up]} against {_NAMES[right]}", facts)
    return picture


def _value(row: Cells, objective: str) -> int:
    """A number for an axis of equal factors, which cannot show 0."""
    cell = row[OBJECTIVES[objective]]
    return max(1, cell) if isinstance(cell, int) else 1


def _box(picture: Picture, x: float, y: float, half: float, fill: str, layer: int) -> None:
    picture.boxes([(x - half, y - half, x + half, y + half)], Look(fill, INK, 0.3), layer)


def _diamond(picture: Picture, x: float, y: float) -> None:
    size = 3 * _DOT
    picture.add(Shape(((x, y - size), (x + size, y), (x, y + size), (x - size, y)), _DEFAULT), OVER)


def _labels(
    picture: Picture, found: TuneResult, best: Sequence[Cells], places: Sequence[tuple[float, float]], x: LogAxis
) -> None:
    """The fields of candidates of the front, as many as have room below or above them."""
    taken: list[Box] = [(at - _DOT, y - _DOT, at + _DOT, y + _DOT) for at, y in places]
    for row, (at, y) in list(zip(best, places, strict=True))[:_MOST_LABELS]:
        words = ", ".join(f"{f.name} {row[f.name]}" for f in found.setup.space.fields)
        half = text_width(words, SMALL) / 2
        middle = min(max(at, x.start + half + 0.05), x.end - half - 0.05)
        for away in (0.15, -0.15):
            text = Text(middle, y + away, words, SMALL, INK, ground="#ffffff")
            if _is_free(text.box, taken):
                taken.append(text.box)
                picture.add(text, WORDS)
                break


def _is_free(box: Box, taken: Sequence[Box]) -> bool:
    if box[1] < _TOP + 0.02 or box[3] > _TOP + _TALL - 0.02:
        return False
    return not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken)


def _ticks(axis: LogAxis) -> Iterator[int]:
    """Ticks of an axis; one that spans few of them gets every digit."""
    few = tuple(axis.ticks((1, 2, 5)))
    return iter(few) if len(few) > _FEW_TICKS else axis.ticks(tuple(range(1, 10)))


def _frame(picture: Picture, x: LogAxis, y: LogAxis, right: str, up: str) -> None:
    draw_frame(picture, x, y)
    ticks_below(picture, x, y, _ticks(x))
    ticks_beside(picture, x, y, _ticks(y), 0.08)
    picture.add(Text((x.start + x.end) / 2, y.start + 0.34, right, SMALL, INK), WORDS)
    picture.add(Text(0.25, (y.start + y.end) / 2, up, SMALL, INK, upright=True), WORDS)
