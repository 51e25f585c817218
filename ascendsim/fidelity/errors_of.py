"""Relative errors of some measurements, in a few numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_SPREAD = 0.9
QUARTER = 0.25
"""Rows that are further off are listed one by one."""


@dataclass(frozen=True)
class Errors:
    """Relative errors of some rows."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one, or the mean of the two in the middle."""
        return quantile(self.values, 0.5)

    @property
    def p90(self) -> float:
        """The 90th percentile."""
        return quantile(self.values, _SPREAD)

    @property
    def mean(self) -> float:
        """Their mean."""
        return math.fsum(self.values) / len(self.values)

    @property
    def worst(self) -> float:
        """The largest."""
        return max(self.values)

    @property
    def within_quarter(self) -> float:
        """Share of rows off by at most 25 %."""
        return sum(value <= QUARTER for value in self.values) / len(self.values)

    @property
    def accuracy(self) -> float:
        """Mean of 1 - error, no row below 0."""
        return math.fsum(max(0.0, 1 - value) for value in self.values) / len(self.values)

    def to_dict(self) -> dict[str, float]:
        """Return the numbers by name."""
        return {name: getattr(self, name) for name in ("median", "p90", "mean", "worst", "within_quarter", "accuracy")}


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile, linear between neighbours."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
