"""A plan's address map: a column for each physical buffer, its limits, and what lies where."""

from collections.abc import Sequence
from dataclasses import dataclass

from ascendsim.plan.answer import Answer, Margin
from ascendsim.plan.layout import Entry
from ascendsim.plot.canvas import Line, Look, Picture, Text
from ascendsim.plot.paint import png
from ascendsim.plot.style import (
    ALARM,
    COLOURS,
    FRAME,
    GAP,
    GRID,
    GROUND,
    INK,
    LINE,
    MIDDLE,
    OVER,
    SMALL,
    SOFT,
    STRIP,
    TEXT,
    TITLE,
    WORDS,
    fitting,
    legend,
    legend_rows,
    lighter,
    shortened,
)
from ascendsim.plot.style import (
    Entry as LegendEntry,
)
from ascendsim.terms import DATABLOCK_BYTES, Pipe

_COLOURS = {"queue": COLOURS[Pipe.MTE2], "buffer": COLOURS[Pipe.V], "temp": COLOURS[Pipe.MTE3]}

# Inches.
_TOP, _BOTTOM = 0.95, 0.85
_WIDTHS = (7.5, 10.0, 12.0)
"""Of a picture with one, two and three panels side by side; more go below."""
_BEFORE, _BETWEEN = 0.85, 0.65
"""Room left of a column for addresses, and between two rows of panels."""
_APART = 0.17
"""Between two labels."""
_LEAD = 0.3
"""Length of the line from a place to its label."""
_SHORT, _TALL = 3.6, 9.0
"""Least and most height of a column."""


@dataclass(frozen=True, slots=True)
class _Label:
    """Texts for beside a column, the best first, and the height, in inches from its top, that they are about."""

    at: float
    texts: tuple[str, ...]
    ink: str


@dataclass(frozen=True, slots=True)
class _Column:
    """One physical buffer: addresses run upward, steps from left to right."""

    picture: Picture
    left: float
    top: float
    width: float
    height: float
    room: float
    """Width for labels at its right."""
    top_bytes: int
    steps: tuple[int, int]

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.top + self.height

    def y(self, address: float) -> float:
        """Distance of an address from the column's top."""
        return self.height * (1 - address / self.top_bytes)

    def x(self, step: int) -> float:
        """Left edge of a step in the picture."""
        first, last = self.steps
        return self.left + self.width * (step - first) / (last + 1 - first)


def plan_png(answer: Answer) -> bytes:
    """Draw a plan's map, as PNG."""
    return png(plan_picture(answer))


def plan_picture(answer: Answer) -> Picture:
    """Draw a plan's map."""
    places = list(dict.fromkeys(m.place for m in answer.margins))
    most = max((len([e for e in answer.layout.entries if e.place == p]) for p in places), default=0)
    tall = min(_TALL, max(_SHORT, (most + 4) * _APART))
    panels = min(len(_WIDTHS), max(1, len(places)))
    wide = _WIDTHS[panels - 1]
    rows = -(-len(places) // panels)
    picture = Picture(wide, _TOP + rows * (tall + _BETWEEN) - _BETWEEN * (rows > 0) + _BOTTOM)
    _heading(picture, answer)
    share = (wide - 0.3) / panels
    for i, place in enumerate(places):
        margins = [m for m in answer.margins if m.place == place]
        entries = [e for e in answer.layout.entries if e.place == place]
        width = share * (0.45 if panels == 1 else 0.24)
        left = 0.15 + i % panels * share + _BEFORE
        column = _Column(
            picture,
            left,
            _TOP + i // panels * (tall + _BETWEEN),
            width,
            tall,
            share - _BEFORE - width - _LEAD - 0.15,
            max(margins[-1].capacity_bytes, margins[0].used_bytes, 1),
            _steps(entries),
        )
        _draw(column, place, margins, entries)
    shown = [k for k in _COLOURS if any(e.kind == k for e in answer.layout.entries)]
    marks = [LegendEntry(k, Look(_COLOURS[k], INK)) for k in shown] + [LegendEntry("free", GAP)]
    lines = legend_rows(marks, wide - 0.3)
    legend(picture, marks, 0.15, picture.height - 0.1 - LINE * lines, wide - 0.3)
    return picture


def _heading(picture: Picture, answer: Answer) -> None:
    plan = answer.plan
    title = shortened(
        f"{plan.name}: {'fits' if answer.fits else 'does not fit'}", picture.width - 0.3, TITLE, bold=True
    )
    picture.add(Text(0.15, 0.2, title, TITLE, "#000000", bold=True, side="left"), WORDS)
    names = [f"{name} = {answer.layout.names[name]:,}" for name in (*plan.ranges, *plan.fields)]
    line = shortened(" · ".join([plan.device.name, *names]), picture.width - 0.3, TEXT)
    picture.add(Text(0.15, 0.45, line, TEXT, INK, side="left"), WORDS)


def _steps(entries: Sequence[Entry]) -> tuple[int, int]:
    """First and last step of a column's axis; one step where nobody gives any."""
    given = [e.steps for e in entries if e.steps is not None]
    return (min(s[0] for s in given), max(s[1] for s in given)) if given else (0, 0)


def _draw(column: _Column, place: str, margins: Sequence[Margin], entries: Sequence[Entry]) -> None:
    picture, middle = column.picture, (column.left + column.right) / 2
    capacity = margins[-1].capacity_bytes
    picture.boxes([(column.left, column.top + column.y(capacity), column.right, column.bottom)], GAP, GROUND)
    picture.add(Text(middle, column.top - 0.12, place, TEXT, INK, bold=True), WORDS)
    labels = [label for entry in entries for label in _draw_entry(column, entry)]
    labels += [_draw_limit(column, margin) for margin in margins]
    _draw_labels(column, labels)
    _draw_axes(column)
    for start, end in _frame(column):
        picture.add(Line(start, end, "#000000", FRAME), OVER)


def _frame(column: _Column) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    left, top, right, bottom = column.left, column.top, column.right, column.bottom
    return [
        ((left, top), (right, top)),
        ((left, bottom), (right, bottom)),
        ((left, top), (left, bottom)),
        ((right, top), (right, bottom)),
    ]


def _draw_entry(column: _Column, entry: Entry) -> list[_Label]:
    """Its buffers, and a label for beside the column."""
    first, last = entry.steps or column.steps
    left, right = column.x(first), column.x(last + 1)
    colour = _COLOURS[entry.kind]
    for number in range(entry.num):
        low = entry.start_bytes + number * entry.bytes
        top, bottom = (column.top + column.y(low + entry.bytes), column.top + column.y(low))
        fill = lighter(colour, 0.35 if number % 2 else 0.0)
        column.picture.boxes([(left, top, right, bottom)], Look(fill, INK if bottom - top > 0.04 else ""), MIDDLE)
        name = fitting((entry.name,), right - left, bottom - top)
        if name:
            at = Text((left + right) / 2, (top + bottom) / 2, name, SMALL, INK, ground=fill)
            column.picture.add(at, WORDS)
    middle = column.y((entry.start_bytes + entry.end_bytes) / 2)
    size = f"{entry.bytes:,} B" if entry.num == 1 else f"{entry.num} x {entry.bytes:,} B"
    return [_Label(middle, (f"{entry.name} {size}",), INK)]


def _draw_limit(column: _Column, margin: Margin) -> _Label:
    at = column.y(margin.capacity_bytes)
    y = column.top + at
    column.picture.add(Line((column.left, y), (column.right, y), ALARM, 0.9, (3.4, 1.5)), STRIP)
    left = margin.margin_bytes
    told = f"{left:,} B left" if left >= 0 else f"{-left:,} B too many"
    name, size = margin.limit or "capacity", f"{margin.capacity_bytes:,} B"
    return _Label(at, (f"{name} {size}, {told}", f"{name}, {told}", f"{name} {size}"), ALARM)


def _draw_labels(column: _Column, labels: Sequence[_Label]) -> None:
    """Labels at the right, each near what it is about and none on another."""
    ordered = sorted(labels, key=lambda label: label.at)
    room = int((column.height + 0.1) / _APART)
    left_out = max(0, len(ordered) - room)
    if left_out:
        kept = [label for label in ordered if label.ink == ALARM] + [x for x in ordered if x.ink != ALARM]
        ordered = sorted(kept[: room - 1], key=lambda label: label.at)
        ordered.append(_Label(column.height, (f"{left_out + 1} more in plan.json",), SOFT))
    for label, y in zip(ordered, _spread([x.at for x in ordered], column.height), strict=True):
        start, end = (column.right, column.top + label.at), (column.right + _LEAD - 0.04, column.top + y)
        column.picture.add(Line(start, end, label.ink, 0.6), STRIP)
        text = fitting(label.texts, column.room, LINE) or shortened(label.texts[0], column.room, SMALL)
        column.picture.add(Text(column.right + _LEAD, column.top + y, text, SMALL, label.ink, side="left"), WORDS)


def _spread(wanted: Sequence[float], height: float) -> list[float]:
    """Heights at least _APART from each other, near the wanted ones, which are in order; inside the column."""
    placed: list[float] = []
    for at in wanted:
        placed.append(max(at, placed[-1] + _APART) if placed else max(at, 0.0))
    limit = height
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], limit)
        limit = placed[i] - _APART
    return placed


def _draw_axes(column: _Column) -> None:
    """Addresses at the left, steps below."""
    picture, step = column.picture, DATABLOCK_BYTES
    while column.top_bytes / step > column.height * 2.2:
        step *= 2
    for address in range(0, column.top_bytes + 1, step):
        y = column.top + column.y(address)
        picture.add(Line((column.left - 0.042, y), (column.left, y), "#000000", FRAME), OVER)
        text = f"{address / 1024:g} KiB" if step >= 1024 else f"{address} B"
        picture.add(Text(column.left - 0.08, y, text, SMALL, INK, side="right"), WORDS)
        picture.add(Line((column.left, y), (column.right, y), "#e6e6e6", 0.5), GRID)
    first, last = column.steps
    if last > first:
        wide = column.width / (last + 1 - first)
        every = max(1, -(-int(0.3 / wide * 100) // 100))
        for number in range(first, last + 1, every):
            x = (column.x(number) + column.x(number + 1)) / 2
            picture.add(Text(x, column.bottom + 0.12, str(number), SMALL, INK), WORDS)
        picture.add(Text((column.left + column.right) / 2, column.bottom + 0.3, "step", SMALL, INK), WORDS)
