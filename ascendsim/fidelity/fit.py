"""Fits of the device files' coefficients to measurements: few numbers for each family and type, of round values.

What is fitted: the cycles of a repeat and the least distance of two instructions of a vector family, the lines of a
path from or to GM, the fixed part and the rate of a move on the chip, the parts of a product, the starts of loops in a
vector function. Each makes the mean of the relative errors least, which lets a few odd measurements be odd. Fixed parts
of vector instructions are not fitted: they show in isolated tile operations only, too few for each family, and come
from published tables.

A coefficient is changed only where several measurements of different extents speak for it: none is a function of one.
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from pydantic import BaseModel

from ascendsim.device import CubeCost, Device, Line, LocalCost, TransferCost, VectorCost, VectorFunctionCost
from ascendsim.fidelity.course import Course
from ascendsim.fidelity.quick import Path, cost_at, moved_bytes, quick_cycles, with_cost
from ascendsim.terms import ceil_div

LEAST_POINTS = 6
"""Measurements that a fit needs; with fewer the coefficients stay as they are."""
LEAST_EXTENTS = 4
"""Different extents among them that it needs, too: one more than a family has coefficients that are fitted."""
LEAST_WITNESSES = 2
"""Measurements of different extents that another value has to suit better before a coefficient is changed."""
WORTH = 0.001
"""What the mean error has to fall by before coefficients are changed; less is within what measurements scatter."""
_MOST_POINTS = 60
"""Points of which every pair is tried as the ends of a line."""
_LEAST_ON_LINE = 3
"""Different lengths of transfers that a line needs."""
_FLAT = 1e6
"""Bytes in a cycle where the length does not matter."""


@dataclass(frozen=True)
class Point:
    """A measurement and how it is rebuilt.

    Attributes:
        id: name of the measurement.
        extent: how much was measured, such as repeats or bytes; measurements of one extent differ by chance.
        course: what was measured.
        cycles: what it took.
    """

    id: str
    extent: Hashable
    course: Course
    cycles: float

    def error(self, device: Device) -> float:
        """Relative error on a device."""
        return abs(quick_cycles(self.course, device) - self.cycles) / self.cycles


def mean_error(points: Sequence[Point], device: Device) -> float:
    """Return the mean of the relative errors on a device."""
    return sum(point.error(device) for point in points) / len(points)


def fitted(device: Device, path: Path, points: Sequence[Point]) -> BaseModel:
    """Return the coefficients at a path that suit the points best; as they are where the points are too few."""
    cost = cost_at(device, path)
    if len(points) < LEAST_POINTS or len({point.extent for point in points}) < LEAST_EXTENTS:
        return cost
    found = _FITS[type(cost)](_Fit(device, path, points), cost)
    before, after = (mean_error(points, with_cost(device, path, c)) for c in (cost, found))
    return found if after < before - WORTH else cost


# ---- candidates ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fit:
    """What is fitted, and to what."""

    device: Device
    path: Path
    points: Sequence[Point]

    def best(self, cost: BaseModel, candidates: Iterable[BaseModel]) -> BaseModel:
        """Return the candidate that suits best; `cost` if none suits better, the first of several that suit equally."""
        at_first = self._errors(cost, math.inf)
        best, least = cost, sum(at_first)
        for candidate in candidates:
            errors = self._errors(candidate, least)
            if sum(errors) < least - 1e-9 and self._witnesses(at_first, errors) >= LEAST_WITNESSES:
                best, least = candidate, sum(errors)
        return best

    def _errors(self, cost: BaseModel, most: float) -> list[float]:
        """Error of each point, until their sum reaches `most`."""
        device = with_cost(self.device, self.path, cost)
        errors, total = [], 0.0
        for point in self.points:
            errors.append(point.error(device))
            total += errors[-1]
            if total >= most:
                break
        return errors

    def _witnesses(self, before: Sequence[float], after: Sequence[float]) -> int:
        """Different extents among the points whose error fell."""
        return len({p.extent for p, b, a in zip(self.points, before, after, strict=True) if a < b})


Step = Callable[[_Fit, BaseModel], BaseModel]


def _settled(fit: _Fit, cost: BaseModel, *steps: Step) -> BaseModel:
    """Take all steps again as long as one changes something, as each depends on what the others found."""
    before = None
    while cost != before:
        before = cost
        for step in steps:
            cost = step(fit, cost)
    return cost


def _over(name: str, values: Sequence[float]) -> Step:
    """The step that looks for one coefficient's best value."""
    return lambda fit, cost: fit.best(cost, (cost.model_copy(update={name: value}) for value in values))


def _vector(fit: _Fit, cost: BaseModel) -> BaseModel:
    """Cycles of a repeat, in halves, and the least distance.

    Finer steps would fit clocks: tables that lie 2.7 % below whole cycles are those of 1800 MHz read as 1850 MHz.
    """
    halves = [n / 2 for n in range(1, 65)]
    return _settled(fit, cost, _over("per_repeat", halves), _over("min_issue", range(1, 33)))


def _vector_function(fit: _Fit, cost: BaseModel) -> BaseModel:
    return _settled(fit, cost, _over("loop_restart", range(1, 11)), _over("loop_start", range(1, 11)))


def _local(fit: _Fit, cost: BaseModel) -> BaseModel:
    """A rate that is a power of two, and what is paid for each instruction."""
    return fit.best(
        cost, _together(cost, {"bytes_per_cycle": [2.0**n for n in range(4, 11)], "fixed_cycles": range(33)})
    )


def _cube(fit: _Fit, cost: BaseModel) -> BaseModel:
    """Cycles of a step, and what is paid for each product and for each that finds the pipe idle."""
    return _settled(fit, cost, _over("per_fractal", range(1, 17)), _fixed_parts)


def _fixed_parts(fit: _Fit, cost: BaseModel) -> BaseModel:
    return fit.best(cost, _together(cost, {"fixed_cycles": range(17), "startup": range(41)}))


def _together(cost: BaseModel, values: Mapping[str, Sequence[float]]) -> Iterator[BaseModel]:
    """Candidates of coefficients of which one can stand in for another, so that they are looked for together."""
    return (cost.model_copy(update=dict(zip(values, chosen, strict=True))) for chosen in product(*values.values()))


# ---- lines --------------------------------------------------------------------------------------------------------


def _transfer(fit: _Fit, cost: BaseModel) -> BaseModel:
    """As many lines as there are, each through two of the measurements, the steeper ones for longer transfers."""
    assert isinstance(cost, TransferCost)
    sizes = sorted(_transferred(point, cost.most_bytes) for point in fit.points)
    return fit.best(cost, (cost.model_copy(update={"lines": lines}) for lines in _lines(sizes, len(cost.lines))))


def _transferred(point: Point, most_bytes: int | None) -> tuple[float, float]:
    """Bytes and cycles of one transfer, of those that a point consists of."""
    moved = moved_bytes(point.course)
    parts = sum(1 if most_bytes is None else max(1, ceil_div(each, most_bytes)) for each in moved)
    return sum(moved) / parts, point.cycles / parts


def _lines(sizes: Sequence[tuple[float, float]], count: int) -> Iterator[tuple[Line, ...]]:
    """Candidates: one line, or two that meet at one of the lengths."""
    if count == 1:
        yield (_line(sizes),)
        return
    lengths = sorted({length for length, _ in sizes})
    for at in range(_LEAST_ON_LINE, len(lengths) - _LEAST_ON_LINE + 1, max(1, len(lengths) // 24)):
        short = [size for size in sizes if size[0] < lengths[at]]
        yield _line(short), _line(sizes[len(short) :])


def _line(sizes: Sequence[tuple[float, float]]) -> Line:
    """The line through two of the points, or the flat one, that has the least mean relative error.

    Of many points some are tried.
    """
    length, cycles = np.array(sizes).T
    some = sizes[:: max(1, len(sizes) // _MOST_POINTS)]
    rising = [(a, b) for a, b in combinations(some, 2) if b[0] > a[0] and b[1] > a[1]]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in rising]
    tried = [(max(0, round(a[1] - s * a[0])), float(f"{1 / s:.3g}")) for (a, _), s in zip(rising, slopes, strict=True)]
    tried.append((round(float(np.median(cycles))), _FLAT))
    fixed, rate = min(tried, key=lambda line: float((np.abs(line[0] + length / line[1] - cycles) / cycles).sum()))
    return Line(fixed_cycles=fixed, bytes_per_cycle=rate)


_FITS: Mapping[type[BaseModel], Step] = {
    VectorCost: _vector,
    LocalCost: _local,
    CubeCost: _cube,
    TransferCost: _transfer,
    VectorFunctionCost: _vector_function,
}


# ---- halves -------------------------------------------------------------------------------------------------------


_UNFITTED: Mapping[type[BaseModel], Mapping[str, float]] = {
    VectorCost: {"per_repeat": 1, "min_issue": 3},
    VectorFunctionCost: {"loop_start": 1, "loop_restart": 7},
    LocalCost: {"fixed_cycles": 0, "bytes_per_cycle": 32.0},
    CubeCost: {"per_fractal": 1, "fixed_cycles": 0, "startup": 0},
}
"""Where a cross-validation begins: values that none of the measurements chose. 3 cycles are what nearly all families
share; 7 is of pto-isa's simulator of vector functions."""
_MOST_OF_A_HALF = 80
"""Measurements of a half that are fitted; the other half is judged whole."""
_UNFITTED_LINE = Line(fixed_cycles=0, bytes_per_cycle=32.0)


def unfitted(cost: BaseModel) -> BaseModel:
    """Return coefficients of which those that are fitted know nothing of any measurement."""
    if isinstance(cost, TransferCost):
        return cost.model_copy(update={"lines": (_UNFITTED_LINE,) * len(cost.lines)})
    return cost.model_copy(update=dict(_UNFITTED[type(cost)]))


@dataclass(frozen=True, slots=True)
class Crossed:
    """A path fitted on one half of its measurements and judged by the other, both ways.

    Attributes:
        fitted: relative errors of the measurements that were fitted.
        kept_back: relative errors of the halves that were not.
    """

    path: Path
    fitted: tuple[float, ...]
    kept_back: tuple[float, ...]


def crossed(device: Device, path: Path, points: Sequence[Point], seed: int) -> Crossed | None:
    """Fit each of two random halves from scratch and judge the other; None with too few points."""
    if len(points) < 2 * LEAST_POINTS:
        return None
    blank = with_cost(device, path, unfitted(cost_at(device, path)))
    own: list[float] = []
    other: list[float] = []
    both = halves(points, seed)
    for half, theirs in (both, both[::-1]):
        mine = half[:_MOST_OF_A_HALF]
        changed = with_cost(device, path, fitted(blank, path, mine))
        own += [point.error(changed) for point in mine]
        other += [point.error(changed) for point in theirs]
    return Crossed(path, tuple(own), tuple(other))


def halves(points: Sequence[Point], seed: int) -> tuple[list[Point], list[Point]]:
    """Return two random halves, the same for the same seed whatever the order of the points."""
    shuffled = sorted(points, key=lambda point: point.id)
    random.Random(seed).shuffle(shuffled)
    return shuffled[::2], shuffled[1::2]


def by_path(points: Iterable[tuple[Path, Point]]) -> dict[Path, list[Point]]:
    """Return points by the coefficients that they rest on."""
    found: dict[Path, list[Point]] = defaultdict(list)
    for path, point in points:
        found[path].append(point)
    return dict(sorted(found.items()))
