"""Pictures of a run as matplotlib figures, for notebooks and for other formats (`figure.savefig("timeline.pdf")`)."""

from typing import Any

from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ascendsim.plot.canvas import DPI, Picture
from ascendsim.plot.paint import paint, png
from ascendsim.plot.timeline import timeline_picture
from ascendsim.result import RunResult

_PART = 0.01
"""Of a pixel: sizes in inches are cut to whole pixels, and must not lose one."""


class PictureFigure(Figure):
    """A figure that holds one picture. Saved at its own size it has the picture's strokes, in any format."""

    def __init__(self, picture: Picture) -> None:
        wide, high = ((round(side * DPI) + _PART) / DPI for side in (picture.width, picture.height))
        super().__init__(figsize=(wide, high), dpi=DPI)
        FigureCanvasAgg(self)
        self.picture = picture
        self.add_artist(_Drawn(picture))

    def _repr_png_(self) -> bytes:
        """What a notebook shows, whichever backend it uses."""
        return png(self.picture)


class _Drawn(Artist):
    """A picture as the only artist of its figure."""

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self._picture = picture

    def draw(self, renderer: Any, *args: Any, **kwargs: Any) -> None:
        """Put the picture on a renderer."""
        del args, kwargs
        figure = self.get_figure(root=True)
        assert figure is not None
        paint(renderer, self._picture, figure.dpi)


def timeline_figure(
    result: RunResult, cores: tuple[int, ...] | None = None, window: tuple[int, int] | None = None
) -> Figure:
    """Draw what every pipe did.

    Args:
        result: the run.
        cores: which cores; None for the usual ones of `timeline_picture`.
        window: (first, last) cycles; None for the whole run.

    Raises:
        ValueError: a core that the run does not have, or an empty range.
    """
    first, last = (0, None) if window is None else window
    return PictureFigure(timeline_picture(result, cores, first, last))
