"""The timeline of a run as its result holds it: with what is needed to draw and show it."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Self

from ascendsim.engine.base import Timeline

Drawn = Callable[[tuple[int, ...] | None, tuple[int, int] | None], Any]
"""What draws some cores and a window of cycles."""


@dataclass(frozen=True)
class RunTimeline(Timeline):
    """A timeline that knows which run it is of.

    Attributes:
        draw: makes a figure of it.
        page: makes the HTML of it.
    """

    draw: Drawn | None = field(default=None, repr=False, compare=False)
    page: Callable[[], str] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, timeline: Timeline, draw: Drawn, page: Callable[[], str]) -> Self:
        """Return a timeline with what draws and shows it."""
        own = {one.name: getattr(timeline, one.name) for one in fields(Timeline)}
        return cls(**own, draw=draw, page=page)

    def plot(self, cores: tuple[int, ...] | None = None, window: tuple[int, int] | None = None) -> Any:
        """Draw it as a matplotlib Figure.

        Args:
            cores: which cores; None for core 0 and the one that ends last, in a mixed kernel one AI Core.
            window: (first, last) cycles; None for the whole run.

        Raises:
            ValueError: a core that the run does not have, or an empty range.
        """
        assert self.draw is not None
        return self.draw(cores, window)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        assert self.page is not None
        return self.page()
