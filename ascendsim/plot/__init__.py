"""Pictures of a run: which pipe did what when, where the time went, what lay where on chip. Of a result, bytes out.

A picture is a list of boxes, lines and texts in inches (`canvas`), which matplotlib's renderers paint (`paint`). The
same result gives the same bytes, whatever settings the user has. A text is drawn only where it was measured to fit.
"""

from ascendsim.plot.balance import balance_picture
from ascendsim.plot.memories import memory_picture
from ascendsim.plot.paint import png, svg
from ascendsim.plot.roofline import roofline_picture
from ascendsim.plot.timeline import timeline_picture
from ascendsim.result import RunResult

__all__ = [
    "balance_picture",
    "balance_png",
    "balance_svg",
    "memory_picture",
    "memory_png",
    "memory_svg",
    "png",
    "roofline_picture",
    "roofline_png",
    "roofline_svg",
    "svg",
    "timeline_picture",
    "timeline_png",
    "timeline_svg",
]


def balance_png(result: RunResult) -> bytes:
    """Draw where the time of every pipe and every AI Core went, as PNG."""
    return png(balance_picture(result))


def timeline_png(
    result: RunResult, cores: tuple[int, ...] | None = None, first: int = 0, last: int | None = None
) -> bytes:
    """Draw what every pipe did, as PNG; arguments and errors as `timeline_picture`."""
    return png(timeline_picture(result, cores, first, last))


def timeline_svg(
    result: RunResult, cores: tuple[int, ...] | None = None, first: int = 0, last: int | None = None
) -> bytes:
    """Draw what every pipe did, as SVG; arguments and errors as `timeline_picture`."""
    return svg(timeline_picture(result, cores, first, last), result.name)


def memory_png(result: RunResult, core: int | None = None) -> bytes:
    """Draw what lay where on chip, as PNG; arguments and errors as `memory_picture`."""
    return png(memory_picture(result, core))


def memory_svg(result: RunResult, core: int | None = None) -> bytes:
    """Draw what lay where on chip, as SVG; arguments and errors as `memory_picture`."""
    return svg(memory_picture(result, core), result.name)


def roofline_png(result: RunResult) -> bytes:
    """Draw operations for each byte of GM below the device's roofs, as PNG."""
    return png(roofline_picture(result))


def roofline_svg(result: RunResult) -> bytes:
    """Draw operations for each byte of GM below the device's roofs, as SVG."""
    return svg(roofline_picture(result), result.name)


def balance_svg(result: RunResult) -> bytes:
    """Draw where the time of every pipe and every AI Core went, as SVG."""
    return svg(balance_picture(result), result.name)
