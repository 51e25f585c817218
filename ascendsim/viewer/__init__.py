"""A page that shows a run by itself in a browser: timeline, memory, findings and source, without a server."""

from ascendsim.viewer.page import report_html

__all__ = ["report_html"]
