"""Pictures of a run: which pipe did what when, and what lay where in UB. Functions of a result, bytes out.

Figures are built without pyplot, under matplotlib's own defaults whatever the user's settings are, so that the same
result gives the same bytes. Everything is laid out in inches: a text is drawn only where it was measured to fit.
"""

from ascendsim.plot.memory import memory_png
from ascendsim.plot.timeline import timeline_png, timeline_svg

__all__ = ["memory_png", "timeline_png", "timeline_svg"]
