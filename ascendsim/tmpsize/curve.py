"""Predicted cycles against temp bytes: one point for each temp from which the tiling is another one.

A tiling depends on how many rows' worth the temp is, n = temp // row: each n up to a group of rows may give another
one, beyond only whole groups of eight do, and all rows. So a curve is complete with few points.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ascendsim.errors import InputError
from ascendsim.op_host.softmax_tiles import ROW_GROUP
from ascendsim.progress import Progress, silent
from ascendsim.tmpsize.answer import TmpChoice, TmpSize, choice_of, predictor_of
from ascendsim.tmpsize.apis import APIS

MOST_POINTS = 64
"""A curve of more steps is thinned to so many."""
STAGE = "predict"


@dataclass(frozen=True, slots=True)
class Point:
    """A temp from which on the tiling is another one.

    Attributes:
        choice: the temp and what it gives.
        shrinks: its tile has fewer rows than the one before, though the temp is larger.
        slower_than_bytes: the smallest temp that takes fewer cycles; None if none that is smaller does.
    """

    choice: TmpChoice
    shrinks: bool
    slower_than_bytes: int | None

    @property
    def remark(self) -> str:
        """What is odd about it, in words."""
        slower = "" if self.slower_than_bytes is None else f"slower than {self.slower_than_bytes} B"
        return ", ".join(text for text in ("tile shrinks" * self.shrinks, slower) if text)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers for JSON."""
        return self.choice.to_dict() | {"shrinks": self.shrinks, "slower_than_bytes": self.slower_than_bytes}


@dataclass(frozen=True, slots=True)
class Curve:
    """The curve of a call.

    Attributes:
        answer: the call it belongs to.
        points: by rising temp.
        last_bytes: where it ends: the maximum, or what fits.
        steps: how many points there would be if none were left out.
        note: what limits it, in words.
    """

    answer: TmpSize
    points: tuple[Point, ...]
    last_bytes: int
    steps: int
    note: str

    @property
    def best(self) -> Point:
        """The fastest point, of equally fast ones that with the least temp."""
        return min(self.points, key=lambda point: (_cycles(point), point.choice.tmp_bytes))

    def within(self, percent: float) -> Point:
        """Return the smallest temp that takes at most so many percent longer than the fastest.

        Raises:
            InputError: a percentage below 0.
        """
        if not 0 <= percent < math.inf:
            raise InputError(f"--within {percent:g}: want a percentage of 0 or more, such as 5")
        most = _cycles(self.best) * (1 + percent / 100)
        return next(point for point in self.points if _cycles(point) <= most)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers for JSON."""
        return {
            "points": [point.to_dict() for point in self.points],
            "last_bytes": self.last_bytes,
            "steps": self.steps,
            "note": self.note,
            "best_bytes": self.best.choice.tmp_bytes,
        }


def tmp_curve(answer: TmpSize, progress: Progress = silent, most_points: int = MOST_POINTS) -> Curve:
    """Return predicted cycles over all temps from the minimum to the maximum or what fits.

    Args:
        answer: of `tmp_size`, for SoftmaxGrad on a part.
        progress: told how many points are done.
        most_points: a curve of more steps is thinned evenly, its ends kept.

    Raises:
        InputError: an API without a kernel here, no part, or no temp that gives a row.
    """
    call, device = answer.call, answer.device
    predictor = predictor_of(call, device)
    if not call.is_grad:
        raise InputError(f"curve: {APIS[call.api].title} has no kernel here, so no cycles; softmaxgrad has one")
    if device is None or predictor is None:
        raise InputError("curve: an architecture has no cycles; name a part with --soc")
    last, note = _end(answer)
    steps = _steps(answer, last)
    chosen = _thinned(steps, most_points)
    api = APIS[call.api]
    choices: list[TmpChoice] = []
    for done, size in enumerate(chosen):
        progress(STAGE, done, len(chosen))
        choices.append(choice_of(call, predictor, size, api.tiling(call, size)))
    progress(STAGE, len(chosen), len(chosen))
    points = tuple(_points([choice for choice in choices if choice.cycles is not None]))
    if not points:
        raise InputError(
            f"curve: no temp up to {last} B gives a row (one row needs {answer.row_bytes} B); use shorter rows"
        )
    if len(chosen) < len(steps):
        note += f"; {len(chosen)} of {len(steps)} steps"
    return Curve(answer, points, last, len(steps), note)


def _end(answer: TmpSize) -> tuple[int, str]:
    """Where the curve ends, and why there."""
    assert answer.device is not None
    low, high = answer.min_bytes, max(answer.min_bytes, answer.max_bytes)
    left, safe = answer.left_bytes, answer.device.ub.safe_bytes.value
    if answer.max_bytes <= low:
        return low, f"only the minimum, {low} B: the maximum is not above it"
    if left is not None and left >= low:
        if high <= left:
            return high, f"up to the maximum, {high} B"
        return left, f"up to what fits, {left} B (maximum {high} B)"
    if high <= safe:
        return high, f"up to the maximum, {high} B, though nothing fits beside {answer.beside_bytes} B"
    return safe, f"up to all of UB, {safe} B, though nothing fits beside {answer.beside_bytes} B (maximum {high} B)"


def _steps(answer: TmpSize, last: int) -> list[int]:
    """The temps from which on the tiling is another one, the minimum first."""
    call, row = answer.call, answer.row_bytes
    api = APIS[call.api]
    steps: list[int] = []
    before: int | None = None
    for size in _candidates(answer.min_bytes, last, row, call.m):
        tiling = api.tiling(call, size).tiling
        height = None if tiling is None else tiling.split_m
        if not steps or height != before:
            steps.append(size)
        before = height
    return steps


def _candidates(low: int, last: int, row: int, m: int) -> Iterator[int]:
    """Temps at which a tiling can change."""
    yield low
    most = min(m, last // row)
    rows = [*range(1, min(most, ROW_GROUP) + 1), *range(2 * ROW_GROUP, most + 1, ROW_GROUP)]
    if most == m and m not in rows:
        rows.append(m)
    yield from (n * row for n in rows if n * row > low)


def _thinned(steps: list[int], most: int) -> list[int]:
    """At most so many of the steps, evenly, first and last among them."""
    if len(steps) <= most:
        return steps
    return [steps[round(i * (len(steps) - 1) / (most - 1))] for i in range(most)]


def _points(choices: list[TmpChoice]) -> Iterator[Point]:
    """The points with what is odd about them."""
    best: TmpChoice | None = None
    before = 0
    for choice in choices:
        assert choice.tiling is not None
        assert choice.cycles is not None
        slower = best is not None and best.cycles is not None and choice.cycles > best.cycles
        yield Point(choice, choice.tiling.split_m < before, _faster(choices, choice) if slower else None)
        if not slower:
            best = choice
        before = choice.tiling.split_m


def _faster(choices: list[TmpChoice], one: TmpChoice) -> int:
    """The smallest temp of fewer cycles."""
    assert one.cycles is not None
    return next(c.tmp_bytes for c in choices if c.cycles is not None and c.cycles < one.cycles)


def _cycles(point: Point) -> int:
    assert point.choice.cycles is not None
    return point.choice.cycles
