"""The memory map of a run: UB of a vector core, or every memory that a core of a kernel with Cube cores uses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ascendsim import analysis
from ascendsim.plot.canvas import Look, Picture, Text
from ascendsim.plot.lanes import ai_core
from ascendsim.plot.memory import (
    CHART,
    CUT,
    ENLARGE_BELOW,
    LEFT,
    POSITIONS,
    Row,
    chart_row,
    draw_limits,
    draw_lives,
    ub_picture,
)
from ascendsim.plot.parts import Part, kept, left_out
from ascendsim.plot.style import (
    ALARM,
    AXIS,
    INK,
    LINE,
    SMALL,
    SOFT,
    TEXT,
    TOP,
    WIDTH,
    WORDS,
    Entry,
    cycle_axis,
    heading,
    legend,
    legend_rows,
    time_axis,
)
from ascendsim.result import RunResult
from ascendsim.terms import Buffer, CoreKind

_HEIGHT, _SLIM, _DETAIL, _APART, _HEAD = 1.3, 0.46, 1.2, 0.38, 0.3
"""Inches: a chart, one with an enlarged one below it, that one, between two charts, a core's name above its charts."""
_PITCH = 0.17
"""Distance of two texts beside a chart."""


@dataclass(frozen=True, slots=True)
class _Panel:
    """One memory of one core.

    Attributes:
        used: the highest byte in use, plus one.
        capacity: what the hardware has.
    """

    buffer: Buffer
    lives: tuple[analysis.Life, ...]
    used: int
    capacity: int

    @property
    def is_enlarged(self) -> bool:
        """Whether its used addresses are drawn a second time."""
        return 0 < self.used < ENLARGE_BELOW * self.capacity

    @property
    def height(self) -> float:
        """Inches that it takes."""
        return _SLIM + _APART + _DETAIL if self.is_enlarged else _HEIGHT


def memory_picture(result: RunResult, core: int | None = None) -> Picture:
    """Draw what lay where on chip, over time; of a long run in the parts of which rows were kept.

    Args:
        result: the run.
        core: whose memories; None for core 0, in a mixed kernel for the Cube core and the vector core that ends last of
            the AI Core that ends last.

    Raises:
        ValueError: a core that the run does not have.
    """
    if core is not None and core not in range(result.program.core_count):
        raise ValueError(f"core {core}: the run has cores 0 to {result.program.core_count - 1}")
    if not result.has_cube:
        return ub_picture(result, core or 0)
    cores = _default_cores(result) if core is None else (core,)
    return _picture(result, cores, kept(result, cores))


def _default_cores(result: RunResult) -> tuple[int, ...]:
    """Core 0, or a Cube core and one of its vector cores."""
    if not result.program.kernel_type.is_mix:
        return (0,)
    t, (cube, *vector) = result.timeline, ai_core(result)
    return cube, max(vector, key=lambda core: (int(t["end"][t["core"] == core].max(initial=0)), -core))


def _panels(result: RunResult, core: int) -> list[_Panel]:
    """The memories of a core that something lies in, those of the Cube first; one at least."""
    lives = analysis.lives(result.program, result.timeline, core)
    own = Buffer.L1 if result.program.core_kind(core) is CoreKind.AIC else Buffer.UB
    used = {life.buffer for life in lives} or {own}
    panels = []
    for buffer in sorted(used, key=lambda b: (b is Buffer.UB, b)):
        here = tuple(life for life in lives if life.buffer is buffer)
        end = max((life.address_bytes + life.allocation_bytes for life in here), default=0)
        panels.append(_Panel(buffer, here, end, result.device.buffer_bytes(buffer)))
    return panels


def _picture(result: RunResult, cores: Sequence[int], parts: Sequence[Part]) -> Picture:
    panels = {core: _panels(result, core) for core in cores}
    head = _HEAD if len(cores) > 1 else 0.0
    charts = sum(head + sum(panel.height + _APART for panel in some) for some in panels.values()) - _APART
    positions = {life.position for some in panels.values() for panel in some for life in panel.lives}
    entries = [Entry(p, Look(POSITIONS[p], INK)) for p in POSITIONS if p in positions]
    notes = [CUT] * (len(parts) > 1) + left_out(parts)
    foot = AXIS + LINE * (legend_rows(entries, CHART) + len(notes)) + 0.15
    picture = Picture(WIDTH, TOP + charts + foot)
    y = TOP
    rows: list[Row] = []
    for core, some in panels.items():
        if head:
            name = result.program.core_name(core)
            picture.add(Text(0.15, y + head / 2 - 0.05, name, TEXT, INK, bold=True, side="left"), WORDS)
            y += head
        for panel in some:
            rows += _draw_panel(picture, result, parts, panel, y)
            y += panel.height + _APART
    for chart in rows[0].charts:
        time_axis(chart, result.device.clock_mhz)
    for chart in rows[-1].charts:
        cycle_axis(chart)
    legend(picture, entries, LEFT, picture.height - foot + AXIS, CHART)
    for i, note in enumerate(reversed(notes)):
        picture.add(Text(LEFT, picture.height - 0.15 - i * LINE, note, SMALL, SOFT, side="left"), WORDS)
    heading(picture, result, result.memory_title, [_cores_text(result, cores)])
    return picture


def _cores_text(result: RunResult, cores: Sequence[int]) -> str:
    program = result.program
    if not program.kernel_type.is_mix:
        return f"core {cores[0]} of {program.core_count}"
    names = " and ".join(map(program.core_name, cores))
    return f"{names}, of AI Core {cores[0] // program.block_cores} of {program.block_dim}"


def _draw_panel(picture: Picture, result: RunResult, parts: Sequence[Part], panel: _Panel, top: float) -> list[Row]:
    """Draw one memory, and return its rows of charts from top to bottom."""
    height = _SLIM if panel.is_enlarged else _HEIGHT
    row = chart_row(picture, result, parts, (top, height), max(panel.used, panel.capacity))
    name = Text(0.15, top + panel.height / 2, panel.buffer.name, TEXT, INK, bold=True, side="left")
    picture.add(name, WORDS)
    below = _draw_capacity(row, result, panel)
    draw_lives(row, panel.lives)
    if not panel.is_enlarged:
        _draw_used(row, panel, below)
        return [row]
    y = top + height + _APART
    detail = chart_row(picture, result, parts, (y, _DETAIL), panel.used)
    picture.add(Text(LEFT, y - 0.1, "the used addresses, enlarged", SMALL, INK, side="left"), WORDS)
    draw_lives(detail, panel.lives)
    _draw_used(detail, panel, 0.0)
    return [row, detail]


def _draw_capacity(row: Row, result: RunResult, panel: _Panel) -> float:
    """The limits of a memory; return how far down beside the charts their names reach."""
    if panel.buffer is Buffer.UB:
        return draw_limits(row, result)
    at = row.y(panel.capacity)
    for chart in row.charts:
        chart.level(at, ALARM, 0.9)
    row.charts[-1].beside(at, f"capacity {panel.capacity:,} B", ALARM)
    return at + _PITCH


def _draw_used(row: Row, panel: _Panel, below: float) -> None:
    """How far a memory is used, and how much of it at the same time, beside the charts."""
    at, last = row.y(panel.used), row.charts[-1]
    for chart in row.charts:
        chart.level(at, SOFT, 0.6, (2.2, 1.0))
    y = min(max(at, below), last.height - _PITCH)
    last.beside(y, f"used to {panel.used:,} B")
    most = int(np.max(analysis.occupancy(panel.lives)[1], initial=0))
    last.beside(y + _PITCH, f"at most {most:,} B at once")
