"""Fits of the device files' coefficients to measurements: few numbers for each family and type, of round values.

What is fitted: the cycles of a repeat and the least distance of two instructions of a vector family, the lines of a
path from or to GM, the fixed part and the rate of a move on the chip, the parts of a product. Each makes the mean of
the relative errors least, which lets a few odd measurements be odd. Fixed parts of vector instructions are not fitted:
they show in isolated tile operations only, too few for each family, and come from published tables.
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from pydantic import BaseModel

from ascendsim.device import CubeCost, Device, Line, LocalCost, TransferCost, VectorCost
from ascendsim.fidelity.course import Course
from ascendsim.fidelity.quick import Path, cost_at, moved_bytes, quick_cycles, with_cost

LEAST_POINTS = 6
"""Measurements that a fit needs; with fewer the coefficients stay as they are."""
_MOST_POINTS = 60
"""Points of which every pair is tried as the ends of a line."""


@dataclass(frozen=True)
class Point:
    """A measurement and how it is rebuilt."""

    id: str
    course: Course
    cycles: float

    def error(self, device: Device) -> float:
        """Relative error on a device."""
        return abs(quick_cycles(self.course, device) - self.cycles) / self.cycles


def mean_error(points: Sequence[Point], device: Device, most: float = math.inf) -> float:
    """Return the mean of the relative errors on a device; infinity as soon as it is above `most`, to be quick."""
    total = 0.0
    for point in points:
        total += point.error(device)
        if total > most * len(points):
            return math.inf
    return total / len(points)


def fitted(device: Device, path: Path, points: Sequence[Point]) -> BaseModel:
    """Return the coefficients at a path that suit the points best; as they are with too few points."""
    cost = cost_at(device, path)
    if len(points) < LEAST_POINTS:
        return cost
    return _FITS[type(cost)](device, path, cost, points)


# ---- coordinates over round values --------------------------------------------------------------------------------


def _steps(first: float, last: float, step: float) -> list[float]:
    return [round(first + i * step, 6) for i in range(round((last - first) / step) + 1)]


def _best(
    device: Device, path: Path, cost: BaseModel, points: Sequence[Point], name: str, values: Iterable[float]
) -> BaseModel:
    """The cost with the value of one coefficient that suits best; of several equally good ones the first."""
    best, least = cost, mean_error(points, with_cost(device, path, cost))
    for value in values:
        tried = cost.model_copy(update={name: value})
        error = mean_error(points, with_cost(device, path, tried), least)
        if error < least - 1e-9:
            best, least = tried, error
    return best


def _vector(device: Device, path: Path, cost: Any, points: Sequence[Point]) -> BaseModel:
    """Cycles of a repeat, in halves and then in tenths, and the least distance; twice, as each changes the other."""
    for _ in range(2):
        cost = _best(device, path, cost, points, "per_repeat", _steps(0.5, 32, 0.5))
        near = [v for v in _steps(cost.per_repeat - 0.4, cost.per_repeat + 0.4, 0.1) if v > 0]
        cost = _best(device, path, cost, points, "per_repeat", near)
        cost = _best(device, path, cost, points, "min_issue", range(1, 33))
    return cost  # type: ignore[no-any-return]


def _local(device: Device, path: Path, cost: Any, points: Sequence[Point]) -> BaseModel:
    """A rate that is a power of two, and what is paid for each instruction."""
    cost = _best(device, path, cost, points, "bytes_per_cycle", [float(1 << n) for n in range(4, 11)])
    return _best(device, path, cost, points, "fixed_cycles", range(33))


def _cube(device: Device, path: Path, cost: Any, points: Sequence[Point]) -> BaseModel:
    cost = _best(device, path, cost, points, "per_fractal", range(1, 17))
    cost = _best(device, path, cost, points, "fixed_cycles", range(17))
    return _best(device, path, cost, points, "startup", range(41))


# ---- lines --------------------------------------------------------------------------------------------------------


def _transfer(device: Device, path: Path, cost: Any, points: Sequence[Point]) -> BaseModel:
    """As many lines as there are, each through two of the measurements, the steeper ones for longer transfers."""
    sizes = sorted((float(moved_bytes(point.course)), point.cycles) for point in points)
    best, least = cost, mean_error(points, with_cost(device, path, cost))
    for lines in _lines(sizes, len(cost.lines)):
        tried = cost.model_copy(update={"lines": lines})
        error = mean_error(points, with_cost(device, path, tried), least)
        if error < least - 1e-9:
            best, least = tried, error
    return best  # type: ignore[no-any-return]


def _lines(sizes: Sequence[tuple[float, float]], count: int) -> Iterator[tuple[Line, ...]]:
    """Candidates: one line, or two that meet at one of the sizes."""
    if count == 1:
        yield (_line(sizes),)
        return
    for at in range(3, len(sizes) - 2, max(1, len(sizes) // 24)):
        yield _line(sizes[:at]), _line(sizes[at:])


def _line(sizes: Sequence[tuple[float, float]]) -> Line:
    """The line through two of the points that has the least mean relative error; of many points some are tried."""
    some = sizes[:: max(1, len(sizes) // _MOST_POINTS)]
    best, least = Line(fixed_cycles=0, bytes_per_cycle=1.0), float("inf")
    for (b0, c0), (b1, c1) in combinations(some, 2):
        if b1 <= b0 or c1 <= c0:
            continue
        slope = (c1 - c0) / (b1 - b0)
        fixed = max(0, round(c0 - slope * b0))
        error = sum(abs(fixed + slope * b - c) / c for b, c in sizes)
        if error < least:
            best, least = Line(fixed_cycles=fixed, bytes_per_cycle=float(f"{1 / slope:.3g}")), error
    return best


_FITS: Mapping[type[BaseModel], Callable[[Device, Path, Any, Sequence[Point]], BaseModel]] = {
    VectorCost: _vector,
    LocalCost: _local,
    CubeCost: _cube,
    TransferCost: _transfer,
}


# ---- halves -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Crossed:
    """A path fitted on one half of its measurements and judged by the other, both ways.

    Attributes:
        fitted: relative errors of the halves that were fitted.
        kept_back: relative errors of the halves that were not.
    """

    path: Path
    fitted: tuple[float, ...]
    kept_back: tuple[float, ...]


def crossed(device: Device, path: Path, points: Sequence[Point], seed: int) -> Crossed | None:
    """Fit each of two random halves and judge the other; None with too few points."""
    if len(points) < 2 * LEAST_POINTS:
        return None
    shuffled = sorted(points, key=lambda point: point.id)
    random.Random(seed).shuffle(shuffled)
    halves = (shuffled[::2], shuffled[1::2])
    own: list[float] = []
    other: list[float] = []
    for mine, theirs in (halves, halves[::-1]):
        changed = with_cost(device, path, fitted(device, path, mine))
        own += [point.error(changed) for point in mine]
        other += [point.error(changed) for point in theirs]
    return Crossed(path, tuple(own), tuple(other))


def by_path(points: Iterable[tuple[Path, Point]]) -> dict[Path, list[Point]]:
    """Return points by the coefficients that they rest on."""
    found: dict[Path, list[Point]] = defaultdict(list)
    for path, point in points:
        found[path].append(point)
    return dict(sorted(found.items()))
