"""UB over time: a box for each buffer's life, the limits, and the bytes in use."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from ascendsim import analysis
from ascendsim.plot.style import (
    ALARM,
    AXIS,
    COLOURS,
    DPI,
    EDGED,
    INK,
    LINE,
    SMALL,
    SOFT,
    TOP,
    WIDTH,
    add_axes,
    cycle_axes,
    extent,
    fitting,
    heading,
    legend,
    lighter,
    png,
    say,
    settings,
)
from ascendsim.result import RunResult
from ascendsim.terms import Pipe

_POSITIONS = {"VECIN": COLOURS[Pipe.MTE2], "VECCALC": COLOURS[Pipe.V], "VECOUT": COLOURS[Pipe.MTE3]}

_LEFT, _RIGHT = 1.05, 1.75
_CHART = WIDTH - _LEFT - _RIGHT
_GAP, _USE = 0.38, 1.0
_Y_LABEL = (-0.73 / _CHART, 0.5)
_ENLARGE_BELOW = 0.3
"""A used region smaller than this share of UB is drawn a second time, enlarged."""


def memory_png(result: RunResult, core: int = 0) -> bytes:
    """Draw what lay where in UB of one core, over time.

    Raises:
        ValueError: a core that the run does not have.
    """
    with settings():
        return png(_figure(result, core))


def _figure(result: RunResult, core: int) -> Figure:
    if core not in range(result.program.block_dim):
        raise ValueError(f"core {core}: the run has cores 0 to {result.program.block_dim - 1}")
    lives = analysis.lives(result.program, result.timeline, core)
    used = max((life.address_bytes + life.allocation_bytes for life in lives), default=0)
    enlarged = 0 < used < _ENLARGE_BELOW * result.device.ub_bytes
    whole, detail = (2.4, 2.6) if enlarged else (4.6, 0.0)
    foot = AXIS + LINE + 0.15
    height = TOP + whole + (detail + _GAP) * enlarged + _GAP / 2 + _USE + foot
    figure = Figure((WIDTH, height), dpi=DPI)
    y = height - TOP - whole
    axes = _memory_axes(figure, result, y, whole, max(used, result.device.ub_bytes))
    cycle_axes(axes, result)
    axes.tick_params(axis="x", labelbottom=False)
    _draw_limits(axes, result, whole)
    _draw_lives(axes, lives, whole)
    if enlarged:
        y -= _GAP + detail
        axes = _memory_axes(figure, result, y, detail, used)
        axes.tick_params(axis="x", labelbottom=False)
        axes.set_title("the used addresses, enlarged", size=SMALL, loc="left", pad=3)
        _draw_lives(axes, lives, detail)
    _draw_use(figure, result, lives, y - _GAP / 2 - _USE)
    shown = [p for p in _POSITIONS if p in {life.position for life in lives}]
    legend(figure, [Patch(facecolor=_POSITIONS[p], edgecolor=INK, linewidth=0.5, label=p) for p in shown],
            _LEFT, foot - AXIS, 3)  # fmt: skip
    facts = [
        f"core {core} of {result.program.block_dim}",
        f"highest address used {used:,} B of {result.device.ub_bytes:,} B",
    ]
    heading(figure, result, "UB over time", facts)
    return figure


def _memory_axes(figure: Figure, result: RunResult, bottom: float, height: float, top_bytes: int) -> Axes:
    """Axes of addresses over cycles."""
    axes = add_axes(figure, _LEFT, bottom, _CHART, height)
    axes.set_xlim(0, max(result.makespan_cycles, 1))
    axes.set_ylim(0, top_bytes)
    step = 32
    while top_bytes / step > height * 2.2:
        step *= 2
    axes.yaxis.set_major_locator(MultipleLocator(step))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda b, _: _size_text(b)))
    axes.tick_params(axis="y", labelsize=SMALL, length=3, pad=2)
    axes.tick_params(axis="x", labelsize=SMALL, length=3, pad=2)
    axes.set_ylabel("UB address", size=SMALL)
    axes.yaxis.set_label_coords(*_Y_LABEL)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.5)
    axes.set_axisbelow(True)
    return axes


def _size_text(count: float) -> str:
    return f"{count / 1024:g} KiB" if count >= 1024 or count == 0 else f"{count:g} B"


def _draw_limits(axes: Axes, result: RunResult, height: float) -> None:
    """The three limits of UB, named outside the axes, one above the other."""
    ub = result.device.ub
    limits = (("safe", ub.safe_bytes.value, ":"), ("visible", ub.visible_bytes.value, "--"),
              ("hardware", result.device.ub_bytes, "-"))  # fmt: skip
    axes.axhspan(ub.safe_bytes.value, result.device.ub_bytes, facecolor=ALARM, alpha=0.08, zorder=0)
    per_byte = height / axes.get_ylim()[1]
    y = -1.0
    for name, size, dashes in limits:
        y = max(size * per_byte - 0.1, y + 0.19)
        axes.axhline(size, color=ALARM, linewidth=0.9, linestyle=dashes, zorder=4)
        line: dict[str, Any] = {
            "arrowstyle": "-",
            "color": ALARM,
            "linewidth": 0.6,
            "linestyle": dashes,
            "shrinkA": 0,
            "shrinkB": 0,
            "relpos": (0, 0.5),
        }
        axes.annotate(
            f"{name} {size:,} B", (1, size * per_byte / height), (1 + 0.4 / _CHART, y / height),
            xycoords="axes fraction", textcoords="axes fraction", annotation_clip=False, size=SMALL, color=ALARM,
            va="center", arrowprops=line,
        )  # fmt: skip


def _draw_lives(axes: Axes, lives: Sequence[analysis.Life], height: float) -> None:
    """A rectangle for each life, named where the name fits and hides no other."""
    per_byte = height / axes.get_ylim()[1]
    per_cycle = _CHART / axes.get_xlim()[1]
    taken: list[tuple[float, float, float, float]] = []
    for life in lives:
        low, high = life.address_bytes, life.address_bytes + life.allocation_bytes
        width, tall = (life.end - life.start) * per_cycle, life.allocation_bytes * per_byte
        colour = _POSITIONS.get(life.position, SOFT)
        colour = lighter(colour, 0.35 if life.tile % 2 == 1 and life.tile > 0 else 0.0)
        box = PolyCollection(
            [[(life.start, low), (life.end, low), (life.end, high), (life.start, high)]],
            facecolor=colour, edgecolor=INK, linewidth=0.5 if width > EDGED and tall > EDGED else 0, zorder=2,
        )  # fmt: skip
        axes.add_collection(box, autolim=False)
        text = fitting(_life_labels(life), width, tall)
        x, y = (life.start + life.end) / 2, (low + high) / 2
        if text and _claim(taken, x * per_cycle, y * per_byte, text):
            say(axes, x, y, text, colour)


def _life_labels(life: analysis.Life) -> tuple[str, ...]:
    if life.tile < 0:
        return (life.name,)
    return f"{life.name}\ntile {life.tile}", f"{life.name}, tile {life.tile}", life.name


def _claim(taken: list[tuple[float, float, float, float]], x: float, y: float, text: str) -> bool:
    """Take the place of a text centred there, unless another text has part of it."""
    w, h = extent(text, SMALL)
    box = (x - w / 2, x + w / 2, y - h / 2, y + h / 2)
    if any(box[0] < b[1] and b[0] < box[1] and box[2] < b[3] and b[2] < box[3] for b in taken):
        return False
    taken.append(box)
    return True


def _draw_use(figure: Figure, result: RunResult, lives: tuple[analysis.Life, ...], bottom: float) -> None:
    """Strip of bytes in use over time."""
    axes = add_axes(figure, _LEFT, bottom, _CHART, _USE)
    at, use = analysis.occupancy(lives)
    end = max(result.makespan_cycles, 1)
    at, use = np.concatenate([[0], at, [end]]), np.concatenate([[0], use, [0]])
    axes.fill_between(at, use, step="post", facecolor="#bdbdbd", edgecolor=INK, linewidth=0.7)
    peak = int(use.max())
    axes.set_xlim(0, end)
    axes.set_ylim(0, max(peak, 1) * 1.15)
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.set_xlabel("cycles", size=SMALL, labelpad=2)
    axes.yaxis.set_major_locator(MultipleLocator(_use_step(peak)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda b, _: _size_text(b)))
    axes.tick_params(labelsize=SMALL, length=3, pad=2)
    axes.set_ylabel("in use", size=SMALL)
    axes.yaxis.set_label_coords(*_Y_LABEL)
    axes.axhline(peak, color=SOFT, linewidth=0.6, linestyle="--")
    axes.text(
        1 + 0.1 / _CHART, peak, f"at most {peak:,} B", size=SMALL, color=SOFT,
        va="center", transform=axes.get_yaxis_transform(),
    )  # fmt: skip


def _use_step(peak: int) -> int:
    """Distance of ticks: a power of two with at most four of them."""
    step = 32
    while peak / step > 4:
        step *= 2
    return step
