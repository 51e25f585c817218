"""A picture painted by matplotlib's own renderers: the same strokes as PNG (Agg) and as SVG.

Only the renderers are used, not figures and axes: those are for charts whose layout is left to the library, and take
longer to set up than the whole rest of a run.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO, StringIO
from math import cos, radians, sin
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends import backend_agg, backend_svg
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.transforms import Affine2D
from PIL import Image

from ascendsim.plot.canvas import DPI, Boxes, Hatch, Item, Line, Pattern, Picture, Shape, Text
from ascendsim.plot.fonts import FAMILIES, drawable

_RENDERERS: Any = (backend_agg.RendererAgg, backend_svg.RendererSVG)
"""Without types, as matplotlib has them."""
_GROUND = 0.7 / 72
"""How far the ground of a text reaches beyond it, in inches."""
_HATCHES = {
    Pattern.SLANT: "/",
    Pattern.BACK: "\\",
    Pattern.CROSS: "x",
    Pattern.DOTS: ".",
    Pattern.GRID: "+",
    Pattern.UPRIGHT: "|",
}
_HATCH_POINTS = 12
"""Distance of a hatch's lines if its sign stands once. Source: matplotlib, hatch (6 lines an inch)."""


def png(picture: Picture) -> bytes:
    """Return a picture as PNG; the same picture gives the same bytes."""
    out = BytesIO()
    Image.fromarray(pixels(picture)).save(out, "PNG", dpi=(DPI, DPI), compress_level=4)
    return out.getvalue()


def pixels(picture: Picture) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a picture's pixels, [height, width, 3]."""
    with _settings():
        renderer = _RENDERERS[0](round(picture.width * DPI), round(picture.height * DPI), DPI)
        _Painter(renderer, picture, DPI).paint()
        return np.asarray(renderer.buffer_rgba())[:, :, :3]


def svg(picture: Picture, title: str) -> bytes:
    """Return a picture as SVG; the same picture gives the same bytes. Texts are outlines: no viewer needs the font."""
    out = StringIO()
    with _settings():
        described = {"Date": None, "Title": _plain(title)}
        renderer = _RENDERERS[1](picture.width * 72, picture.height * 72, out, metadata=described)
        _Painter(renderer, picture, 72).paint()
        renderer.finalize()
    return out.getvalue().encode()


def paint(renderer: Any, picture: Picture, per_inch: float) -> None:
    """Draw a picture on any of matplotlib's renderers, with so many of its units an inch."""
    with _settings():
        _Painter(renderer, picture, per_inch).paint()


@contextmanager
def _settings() -> Iterator[None]:
    """What must not depend on the user's settings, nor change from run to run."""
    own: Any = {
        "svg.id": None,
        "svg.hashsalt": "ascendsim",
        "svg.fonttype": "path",
        "text.hinting": "none",
        "font.family": FAMILIES,
    }
    own |= {"path.simplify": False, "text.usetex": False, "text.parse_math": False, "path.sketch": None}
    with rc_context(own):
        yield


class _Painter:
    """Puts a picture's items on a renderer; x to the right and y up from the lower left corner, in its units."""

    def __init__(self, renderer: Any, picture: Picture, per_inch: float) -> None:
        self._renderer = renderer
        self._picture = picture
        self._per_inch = per_inch
        self._to_units = Affine2D().scale(per_inch, -per_inch).translate(0, picture.height * per_inch)

    def paint(self) -> None:
        """Draw everything, the lowest first."""
        self._area([(0, 0, self._picture.width, self._picture.height)], "#ffffff")
        for item in self._picture.items():
            self._draw(item)

    def _draw(self, item: Item) -> None:
        if isinstance(item, Boxes):
            self._boxes(item)
        elif isinstance(item, Line):
            gc = self._pen(item.ink, item.points)
            if item.dashes is not None:
                gc.set_dashes(0, item.dashes)
            self._renderer.draw_path(gc, Path([item.start, item.end]), self._to_units, None)
        elif isinstance(item, Shape):
            path = Path([*item.corners, item.corners[0]], closed=True)
            self._renderer.draw_path(self._pen("", 0), path, self._to_units, _rgb(item.fill))
        else:
            self._text(item)

    def _boxes(self, item: Boxes) -> None:
        look = item.look
        if look.fill or look.edge:
            self._area(item.boxes, look.fill, look.edge, look.edge_points)
        if look.hatch is not None:
            self._area(item.boxes, "", hatch=look.hatch)

    def _area(
        self,
        boxes: Sequence[tuple[float, ...]],
        fill: str,
        edge: str = "",
        points: float = 0,
        hatch: Hatch | None = None,
    ) -> None:
        gc = self._pen(edge, points)
        if hatch is not None:
            gc.set_hatch(_HATCHES[hatch.pattern] * round(_HATCH_POINTS / hatch.pitch))
            gc.set_hatch_color(hatch.ink)
            gc.set_hatch_linewidth(hatch.thickness)
        self._renderer.draw_path(gc, _outline(boxes), self._to_units, _rgb(fill) if fill else None)

    def _pen(self, ink: str, points: float) -> Any:
        gc = self._renderer.new_gc()
        gc.set_linewidth(points if ink else 0)
        gc.set_capstyle("butt")
        gc.set_joinstyle("miter")
        gc.set_snap(False)
        if ink:
            gc.set_foreground(ink)
        return gc

    def _text(self, item: Text) -> None:
        if item.ground:
            x0, y0, x1, y1 = item.box
            self._area([(x0 - _GROUND, y0 - _GROUND, x1 + _GROUND, y1 + _GROUND)], item.ground)
        gc = self._pen(item.ink, 0)
        gc.set_foreground(item.ink)
        font = FontProperties(family=FAMILIES, size=item.size, weight="bold" if item.bold else "normal")
        angle = 90 if item.upright else 0
        for line, left, base in item.lines():
            if line.strip():
                x, y = self._to_units.transform(_turned(item, left, base, angle))
                # Agg counts a text's y from the top, as do both renderers' callers inside matplotlib.
                self._renderer.draw_text(gc, x, self._flipped(y), _plain(line), font, angle)

    def _flipped(self, y: float) -> float:
        return self._picture.height * self._per_inch - y if self._renderer.flipy() else y


def _turned(item: Text, x: float, y: float, angle: float) -> tuple[float, float]:
    """A point turned around the text's own, to the left by an angle in degrees; y down."""
    c, s = cos(radians(angle)), sin(radians(angle))
    dx, dy = x - item.x, y - item.y
    return item.x + c * dx + s * dy, item.y - s * dx + c * dy


def _plain(line: str) -> str:
    """A line of what fonts have, and XML allows."""
    return "".join(map(drawable, line))


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def _outline(boxes: Sequence[tuple[float, ...]]) -> Path:
    """Rectangles as one path."""
    corners = np.array(boxes, float).reshape(-1, 4)[:, [0, 1, 2, 1, 2, 3, 0, 3, 0, 1]].reshape(-1, 2)
    codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(boxes))
    return Path(corners, codes)
