"""What a picture is made of: boxes, lines, shapes and texts, in inches from its upper left corner.

A picture is a list of such things in layers, the lowest first; `paint` turns it into files. It knows no axes and no
run, so that where every text stands can be read off it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ascendsim.plot.fonts import text_width

DPI = 150
"""Pixels of an inch."""
LINE_PITCH = 1.2
"""Distance of two lines of a text, in sizes of its letters."""
_CAPITAL = 0.73
"""Height of a capital letter, in sizes of the letters."""

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
Point = tuple[float, float]


class Pattern(Enum):
    """What is drawn over an area: slanted, crossed or upright lines, or dots."""

    SLANT = "slant"
    BACK = "back"
    CROSS = "cross"
    DOTS = "dots"
    GRID = "grid"
    UPRIGHT = "upright"


@dataclass(frozen=True, slots=True)
class Hatch:
    """A pattern over an area; distance (a divisor of 12) and thickness of its lines in points."""

    pattern: Pattern
    pitch: float
    ink: str
    thickness: float = 0.5


@dataclass(frozen=True, slots=True)
class Look:
    """How an area is filled: colours as #rrggbb, "" for none; an edge's thickness in points."""

    fill: str = ""
    edge: str = ""
    edge_points: float = 0.5
    hatch: Hatch | None = None


@dataclass(frozen=True, slots=True)
class Boxes:
    """Rectangles of one look that do not overlap each other."""

    boxes: tuple[Box, ...]
    look: Look


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line; thickness, and lengths of dash and gap, in points."""

    start: Point
    end: Point
    ink: str
    points: float
    dashes: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """A filled convex polygon, its corners clockwise as seen."""

    corners: tuple[Point, ...]
    fill: str


@dataclass(frozen=True, slots=True)
class Text:
    """A text around a point; several lines are centred above each other.

    Attributes:
        x, y: where it stands.
        size: of its letters in points.
        side: which of its ends is at x: "left", "middle" or "right".
        ground: colour of a box behind it, "" for none.
        upright: whether it runs from bottom to top.
    """

    x: float
    y: float
    text: str
    size: float
    ink: str
    bold: bool = False
    side: str = "middle"
    ground: str = ""
    upright: bool = False

    @property
    def width(self) -> float:
        """Length of its longest line in inches."""
        return max(text_width(line, self.size, bold=self.bold) for line in self.text.split("\n"))

    @property
    def height(self) -> float:
        """Height of its lines in inches."""
        return text_height(self.text, self.size)

    @property
    def box(self) -> Box:
        """Where it is."""
        w, h = (self.height, self.width) if self.upright else (self.width, self.height)
        left = self.x - {"left": 0.0, "middle": w / 2, "right": w}[self.side]
        return left, self.y - h / 2, left + w, self.y + h / 2

    def lines(self) -> Iterator[tuple[str, float, float]]:
        """Every line with the left end of its baseline, as if the text were not upright."""
        lines = self.text.split("\n")
        pitch = LINE_PITCH * self.size / 72
        for i, line in enumerate(lines):
            w = text_width(line, self.size, bold=self.bold)
            left = self.x - {"left": 0.0, "middle": w / 2, "right": w}[self.side]
            yield line, left, self.y + _CAPITAL * self.size / 144 + (i - (len(lines) - 1) / 2) * pitch


def text_height(text: str, size: float) -> float:
    """Height of a text's lines in inches."""
    return (text.count("\n") + 1) * LINE_PITCH * size / 72


Item = Boxes | Line | Shape | Text


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of some inches, and what is on it."""

    width: float
    height: float
    layers: dict[int, list[Item]] = field(default_factory=dict)

    def add(self, item: Item, layer: int = 0) -> None:
        """Put something on top of its layer."""
        self.layers.setdefault(layer, []).append(item)

    def boxes(self, boxes: Sequence[Box], look: Look, layer: int = 0) -> None:
        """Put rectangles of one look on a layer."""
        if boxes:
            self.add(Boxes(tuple(boxes), look), layer)

    def items(self) -> Iterator[Item]:
        """Everything, the lowest first."""
        for layer in sorted(self.layers):
            yield from self.layers[layer]

    def texts(self) -> list[Text]:
        """Every text."""
        return [item for item in self.items() if isinstance(item, Text)]
