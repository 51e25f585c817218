"""Values that IEEE 754 leaves to the library: exp, ln and 1/sqrt rounded once, and larger or smaller with signed zeros.

The results are the same on every machine: what two math libraries may compute differently is settled with 50 digits.
"""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np

from ascendsim.isa.instruction import Array

_MARGIN = 2.0**-48
"""Bound of a double's relative error, 16 units in the last place: above that of any math library."""

Exactly = Callable[[Decimal], Decimal]


def rounded_once(values: Array, quick: Callable[[Array], Array], exactly: Exactly) -> Array:
    """Return f(values), rounded once to nearest even in their type.

    Computed as a double and rounded; where the double lies so close to the middle between two results that its own
    error could decide, f is computed with 50 digits.

    Args:
        values: half or float.
        quick: f on float64, to less than `_MARGIN`.
        exactly: f of one finite number.
    """
    kind = values.dtype
    wide = values.astype(np.float64)
    near = quick(wide)
    result = near.astype(kind)
    is_open = (near * (1 - _MARGIN)).astype(kind) != (near * (1 + _MARGIN)).astype(kind)
    for i in np.flatnonzero(is_open & np.isfinite(near)):
        result[i] = _to_odd(wide[i], exactly)
    return result


def _to_odd(value: float, exactly: Exactly) -> np.float64:
    """f(value) as a double whose last bit is 1 unless f is exact: the next rounding, to fewer bits, is the only one."""
    with localcontext(prec=50):
        exact = exactly(Decimal(float(value)))
    near = np.float64(float(exact))
    if Decimal(float(near)) == exact or near.view(np.int64) & 1:
        return near
    return np.float64(math.nextafter(near, math.inf if exact > Decimal(float(near)) else -math.inf))


def larger(a: Array, b: Array) -> Array:
    """The larger of two numbers; NaN wins, and +0 is larger than -0."""
    return np.where((a == 0) & (b == 0), a + b, np.maximum(a, b))


def smaller(a: Array, b: Array) -> Array:
    """The smaller of two numbers; NaN wins, and -0 is smaller than +0."""
    return np.where((a == 0) & (b == 0), -(-a + -b), np.minimum(a, b))
