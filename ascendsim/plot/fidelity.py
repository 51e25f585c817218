"""Predicted against measured, both by equal factors; a point on the line is right."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from ascendsim.fidelity.judge import Fidelity, Verdict
from ascendsim.fidelity.judge_kernels import KernelVerdict
from ascendsim.plot.canvas import Line, Look, Picture, Text
from ascendsim.plot.log_axis import log_axis
from ascendsim.plot.log_frame import draw_frame, ticks_below, ticks_beside
from ascendsim.plot.paint import png
from ascendsim.plot.style import (
    COLOURS,
    INK,
    LINE,
    LOW,
    MIDDLE,
    SMALL,
    SOFT,
    WIDTH,
    WORDS,
    Entry,
    legend,
    legend_rows,
    title_lines,
)
from ascendsim.terms import Pipe

_LEFT, _GAP, _RIGHT, _TOP = 0.75, 0.85, 0.3, 0.95
_FOOT = 0.9
_DOT = 0.022
_NEAR = 1.25
"""The dashed lines are this factor from the line of equality."""
_INKS = (COLOURS[Pipe.MTE2], COLOURS[Pipe.V], COLOURS[Pipe.M], COLOURS[Pipe.FIX], COLOURS[Pipe.S], COLOURS[Pipe.MTE3])
_GROUPS = (
    ("vector instructions in a stream", ("vector_steady",)),
    ("tile operations and vector functions", ("tile_june", "tile_published", "tile_other", "sequence", "tile_3510")),
    ("Mmad", ("mmad", "mmad_3510")),
    ("bank conflicts", ("bank", "bank_half", "bank_3510")),
    ("moves", ("gm_3510", "gm_to_ub", "ub_to_gm", "l0c_to_gm", "gm_to_l1", "gm_to_l1_nd2nz", "gm_to_l0")),
    ("moves on the chip", ("l1_to_l0a", "l1_to_l0b", "ub_to_ub", "l1_to_bt_fb", "load_repeats", "chip_3510")),
)


@dataclass(frozen=True, slots=True)
class Cloud:
    """Points of one colour: (measured, predicted)."""

    label: str
    ink: str
    points: tuple[tuple[float, float], ...]


def instructions_png(found: Fidelity) -> bytes:
    """Draw all covered rows as PNG; see `instructions_picture`."""
    return png(instructions_picture(found))


def kernels_png(found: KernelVerdict) -> bytes:
    """Draw all covered kernels as PNG; see `kernels_picture`."""
    return png(kernels_picture(found))


def kernels_picture(found: KernelVerdict) -> Picture:
    """Draw the task durations of all covered kernels, one panel for each architecture."""
    archs = sorted({j.row.arch for j in found.covered})
    panels = [(f"arch {arch}, us", _kernel_clouds(found, arch)) for arch in archs]
    facts = [f"{len(found.covered)} kernels of {len(found.rows)}", "dashed: 25 % off"]
    return cloud_picture("Whole kernels, predicted against measured", facts, panels)


def _kernel_clouds(found: KernelVerdict, arch: int) -> tuple[Cloud, ...]:
    groups: dict[str, list[tuple[float, float]]] = {}
    for j in found.covered:
        if j.row.arch == arch and j.prediction is not None:
            groups.setdefault(j.row.category, []).append((j.row.us, j.prediction.us))
    inks = dict(zip(sorted({j.row.category for j in found.covered}), cycle(_INKS), strict=False))
    return tuple(Cloud(category, inks[category], tuple(points)) for category, points in sorted(groups.items()))


def instructions_picture(found: Fidelity) -> Picture:
    """Draw all covered rows, one panel for each architecture."""
    archs = sorted({v.family.arch for v in found.verdicts if v.covered})
    panels = [(f"arch {arch}, cycles", _clouds(found, arch)) for arch in archs]
    facts = [f"{sum(len(c.points) for _, clouds in panels for c in clouds):,} measurements", "dashed: 25 % off"]
    return cloud_picture("Predicted against measured", facts, panels)


def _clouds(found: Fidelity, arch: int) -> tuple[Cloud, ...]:
    clouds = []
    for (label, names), ink in zip(_GROUPS, _INKS, strict=True):
        verdicts = [v for v in found.verdicts if v.family.arch == arch and v.family.name in names]
        points = dict(point for v in verdicts for point in _points(v))
        if points:
            clouds.append(Cloud(label, ink, tuple(points.values())))
    return tuple(clouds)


def _points(verdict: Verdict) -> list[tuple[str, tuple[float, float]]]:
    return [(j.row.id, (j.row.cycles, j.predicted)) for j in verdict.covered if j.predicted is not None]


def cloud_picture(title: str, facts: Sequence[str], panels: Sequence[tuple[str, tuple[Cloud, ...]]]) -> Picture:
    """Draw panels side by side: measured to the right, predicted upwards, on the same axes."""
    side = (WIDTH - _LEFT - _RIGHT - _GAP * (len(panels) - 1)) / max(2, len(panels))
    entries = [Entry(label, Look(ink, INK)) for label, ink in _legend(panels).items()]
    foot = _FOOT + LINE * legend_rows(entries, WIDTH - _LEFT - _RIGHT)
    picture = Picture(WIDTH, _TOP + side + foot)
    for number, (name, clouds) in enumerate(panels):
        _panel(picture, _LEFT + number * (side + _GAP), side, name, clouds)
    legend(picture, entries, _LEFT, _TOP + side + 0.7, WIDTH - _LEFT - _RIGHT)
    title_lines(picture, title, facts)
    return picture


def _legend(panels: Sequence[tuple[str, tuple[Cloud, ...]]]) -> dict[str, str]:
    return {cloud.label: cloud.ink for _, clouds in panels for cloud in clouds}


def _panel(picture: Picture, left: float, side: float, name: str, clouds: tuple[Cloud, ...]) -> None:
    values = [value for cloud in clouds for point in cloud.points for value in point]
    x, y = log_axis(values, left, left + side), log_axis(values, _TOP + side, _TOP)
    draw_frame(picture, x, y)
    ticks_below(picture, x, y, x.ticks((1,)))
    ticks_beside(picture, x, y, y.ticks((1,)), 0.07)
    for factor in (1 / _NEAR, 1.0, _NEAR):
        first, last = max(x.first, x.first / factor), min(x.last, x.last / factor)
        dashes = None if factor == 1 else (3.0, 2.0)
        start, end = (x.at(first), y.at(first * factor)), (x.at(last), y.at(last * factor))
        picture.add(Line(start, end, SOFT, 0.7, dashes), LOW)
    for cloud in clouds:
        boxes = [_dot(x.at(measured), y.at(predicted)) for measured, predicted in cloud.points]
        for box in boxes:
            picture.boxes([box], Look(cloud.ink, INK, 0.25), MIDDLE)
    picture.add(Text((x.start + x.end) / 2, _TOP - 0.14, name, SMALL, INK), WORDS)
    picture.add(Text((x.start + x.end) / 2, _TOP + side + 0.36, "measured", SMALL, INK), WORDS)
    picture.add(Text(left - 0.62, _TOP + side / 2, "predicted", SMALL, INK, upright=True), WORDS)


def _dot(x: float, y: float) -> tuple[float, float, float, float]:
    return x - _DOT, y - _DOT, x + _DOT, y + _DOT
