"""An axis of equal factors."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ROOM = 0.14
"""Inches that stay free at both ends."""
_LEAST_FACTOR = 2.0
"""An axis spans at least this factor."""


@dataclass(frozen=True, slots=True)
class LogAxis:
    """Values along an axis by equal factors: from `first` at inch `start` to `last` at inch `end`."""

    first: float
    last: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Inches of a value."""
        share = math.log(value / self.first) / math.log(self.last / self.first)
        return self.start + share * (self.end - self.start)

    def ticks(self, digits: tuple[int, ...] = (1, 2, 5)) -> Iterator[int]:
        """Whole numbers within the axis: some digits times powers of ten."""
        for exponent in range(int(math.log10(max(self.last, 1))) + 1):
            yield from (n * 10**exponent for n in digits if self.first <= n * 10**exponent <= self.last)


def log_axis(values: Sequence[float], start: float, end: float, room: float = ROOM) -> LogAxis:
    """Return an axis over the values, with some room at both ends."""
    low, high = min(values), max(values)
    middle, factor = math.sqrt(low * high), max(high / low, _LEAST_FACTOR)
    length = abs(end - start)
    half = math.sqrt(factor) ** (length / (length - 2 * room))
    return LogAxis(middle / half, middle * half, start, end)
