"""Modules that know results, as methods of results use them: found by name when they are asked for.

`plot` imports `result`, so a method of a result that draws cannot import `plot`; and nobody who does not draw is to
wait for the drawing library.
"""

from importlib import import_module
from typing import Any


def pages() -> Any:
    """The module that makes HTML of results."""
    return import_module("ascendsim.notebook")


def figures() -> Any:
    """The module that makes matplotlib figures of results."""
    return import_module("ascendsim.plot.figure")


def tune_lines() -> Any:
    """The module that makes lines of what searches have found."""
    return import_module("ascendsim.show_tune")


def tune_pages() -> Any:
    """The module that makes HTML of what searches have found."""
    return import_module("ascendsim.notebook_tune")
