"""The relative-error criteria by which ATB's tests compare a fused attention with a reference.

    relative error   |a - g| / (|g| + 1e-7) of each element, NaN and infinities taken as 0
    MARE, MERE       its maximum and its mean
    RMSE             root of the mean of (a - g)^2
    accepted         MARE / max(MARE of another implementation, t) < 10, and the like ratios of MERE and RMSE < 2

Source: ascend-transformer-boost, operator tests, class CV_FUSION.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LEAST: Final = {"bfloat16_t": 2.0**-8, "half": 2.0**-11, "float": 2.0**-14}
"""t by the type of the result."""
_FLOOR: Final = 1e-7
MOST_MARE: Final = 10.0
MOST_MEAN: Final = 2.0
"""Of MERE and of RMSE."""


@dataclass(frozen=True, slots=True)
class RelativeErrors:
    """Errors of a result against a reference."""

    mare: float
    mere: float
    rmse: float

    def ratios(self, other: "RelativeErrors | None", least: float) -> "RelativeErrors":
        """Return these errors over those of another implementation, or over `least` where theirs are smaller."""
        theirs = RelativeErrors(0.0, 0.0, 0.0) if other is None else other
        return RelativeErrors(
            self.mare / max(theirs.mare, least),
            self.mere / max(theirs.mere, least),
            self.rmse / max(theirs.rmse, least),
        )

    def is_accepted(self, other: "RelativeErrors | None", least: float) -> bool:
        """Whether the ratios are within what the tests accept."""
        found = self.ratios(other, least)
        return found.mare < MOST_MARE and found.mere < MOST_MEAN and found.rmse < MOST_MEAN


def relative_errors(result: Array, reference: Array) -> RelativeErrors:
    """Return the errors of a result; an empty one has none.

    Raises:
        ValueError: different shapes.
    """
    a, g = (
        np.nan_to_num(np.asarray(x).astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0) for x in (result, reference)
    )
    if a.shape != g.shape:
        raise ValueError(f"result of shape {a.shape}, reference of {g.shape}")
    if a.size == 0:
        return RelativeErrors(0.0, 0.0, 0.0)
    off = np.abs(a - g)
    relative = off / (np.abs(g) + _FLOOR)
    return RelativeErrors(float(relative.max()), float(relative.mean()), float(np.sqrt((off * off).mean())))
