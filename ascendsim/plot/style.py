"""What all pictures share: settings, colours and sizes, files, measured texts, and the frame around a drawing."""

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.style import context
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FuncFormatter, MaxNLocator, ScalarFormatter

from ascendsim.result import RunResult
from ascendsim.terms import Pipe

DPI = 150
STAMP = "SIMULATED DESPITE FINDINGS"

# Okabe-Ito: distinct to colour-blind eyes, and light enough for black text.
COLOURS = {
    Pipe.S: "#cc79a7",
    Pipe.MTE2: "#56b4e9",
    Pipe.MTE1: "#8fa8d6",
    Pipe.M: "#f0e442",
    Pipe.FIX: "#d55e00",
    Pipe.V: "#1fae85",
    Pipe.MTE3: "#e69f00",
}
INK, SOFT, ALARM = "#222222", "#666666", "#b00020"

# Inches.
WIDTH, TOP, AXIS, LINE = 12.0, 1.0, 0.5, 0.18
"""Of a picture: its width, the room above its axes, below them for ticks and label, and for a line of text."""
EDGED = 0.04
"""Boxes are outlined from this width on."""

# Points.
TEXT, SMALL, _TITLE = 9.0, 8.0, 13.0
_CHINESE = ("Noto Sans CJK SC", "Source Han Sans SC", "WenQuanYi Micro Hei", "Microsoft YaHei", "PingFang SC", "SimHei")


@contextmanager
def settings() -> Iterator[None]:
    """Matplotlib's defaults plus ours. Chinese names use an installed font; without one they become boxes."""
    installed = set(fontManager.get_font_names())
    ours = {
        "font.family": ["DejaVu Sans", *(name for name in _CHINESE if name in installed)],
        "font.size": TEXT,
        "axes.linewidth": 0.6,
        "hatch.linewidth": 0.5,
        "svg.fonttype": "path",
        "svg.hashsalt": "ascendsim",
    }
    with context(["default", ours]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def png(figure: Figure) -> bytes:
    """Write a figure as PNG."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=DPI, metadata={"Software": None}, pil_kwargs={"compress_level": 9})
    return out.getvalue()


def svg(figure: Figure, title: str) -> bytes:
    """Write a figure as SVG, without a date."""
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "ascendsim", "Title": title})
    return out.getvalue()


@cache
def _measure(line: str, size: float, weight: str = "normal") -> float:
    """Width of a line of text in inches."""
    font = FontProperties(size=size, weight=weight)
    return text_to_path.get_text_width_height_descent(line, font, ismath=False)[0] / 72


def extent(text: str, size: float) -> tuple[float, float]:
    """Width and height of a text in inches."""
    lines = text.split("\n")
    return max(_measure(line, size) for line in lines), len(lines) * size * 1.25 / 72


def fitting(labels: Sequence[str], width: float, height: float, size: float = SMALL) -> str:
    """The first label that fits, or nothing."""
    for label in labels:
        w, h = extent(label, size)
        if w + 0.06 <= width and h <= height:
            return label
    return ""


def _shortened(text: str, width: float, size: float, weight: str = "normal") -> str:
    """A line cut so that it fits, with an ellipsis if it was cut."""
    if _measure(text, size, weight) <= width:
        return text
    while text and _measure(text + "…", size, weight) > width:
        text = text[:-1]
    return text + "…"


def lighter(colour: str, share: float) -> str:
    """Return a colour mixed with a share of white."""
    red, green, blue = (c + (1 - c) * share for c in to_rgb(colour))
    return to_hex((red, green, blue))


def add_axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes placed in inches."""
    w, h = figure.get_size_inches()
    return figure.add_axes((left / w, bottom / h, width / w, height / h))


def cycle_axes(axes: Axes, result: RunResult) -> None:
    """Cycles below, microseconds above."""
    clock = result.device.clock_mhz

    def to_time(cycles: Any) -> Any:
        return np.asarray(cycles) / clock

    def to_cycles(time: Any) -> Any:
        return np.asarray(time) * clock

    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    above = axes.secondary_xaxis("top", functions=(to_time, to_cycles))
    above.xaxis.set_major_locator(MaxNLocator(10))
    above.xaxis.set_major_formatter(ScalarFormatter(useOffset=False))
    above.set_xlabel("µs", size=SMALL, labelpad=4)
    for axis in (axes, above):
        axis.tick_params(axis="x", labelsize=SMALL, length=3, pad=2)


def say(axes: Axes, x: float, y: float, text: str, ground: str) -> None:
    """Put a measured text into the axes, on a ground that keeps arrows and hatches off it."""
    if text:
        axes.text(
            x, y, text, size=SMALL, color=INK, ha="center", va="center" if "\n" in text else "center_baseline",
            linespacing=1.05, parse_math=False, zorder=6, clip_on=True,
            bbox={"facecolor": ground, "edgecolor": "none", "pad": 0.7},
        )  # fmt: skip


def heading(figure: Figure, result: RunResult, subject: str, facts: Sequence[str]) -> None:
    """Title, facts of the run below it, and the stamp if it is due."""
    height = figure.get_figheight()
    room = WIDTH - 0.3
    if result.despite_findings:
        room -= _measure(STAMP, 11, "bold") + 0.4
        figure.text(
            1 - 0.2 / WIDTH, 1 - 0.2 / height, STAMP, size=11, weight="bold", color=ALARM, ha="right", va="center",
            bbox={"facecolor": "white", "edgecolor": ALARM, "boxstyle": "square,pad=0.3"},
        )  # fmt: skip
    title = _shortened(f"{result.name}: {subject}", room, _TITLE, "bold")
    x = 0.15 / WIDTH
    figure.text(x, 1 - 0.2 / height, title, size=_TITLE, weight="bold", va="center", parse_math=False)
    run = f"{result.device.name}, makespan {result.makespan_cycles:,} cycles = {result.makespan_us:,.3f} µs"
    line = _shortened(" · ".join([run, *facts]), WIDTH - 0.3, TEXT)
    figure.text(x, 1 - 0.45 / height, line, size=TEXT, va="center", color=INK, parse_math=False)


def legend(figure: Figure, handles: Sequence[Artist], left: float, top: float, columns: int) -> None:
    """A legend whose upper left corner is at (left, top), in inches from the lower left."""
    figure.legend(
        handles=list(handles), loc="upper left", bbox_to_anchor=(left / WIDTH, top / figure.get_figheight()),
        ncols=columns, frameon=False, fontsize=SMALL, borderaxespad=0, borderpad=0, handlelength=2.0,
        labelspacing=0.5, columnspacing=1.5,
    )  # fmt: skip


def legend_columns(handles: Sequence[Artist], width: float) -> int:
    """How many columns of a legend fit into a width in inches."""
    widest = max((_measure(str(h.get_label()), SMALL) for h in handles), default=1.0)
    return max(1, int(width // (widest + 0.5)))
