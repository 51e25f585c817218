"""A matrix product in float64, with the error that float arithmetic in any order can make."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_ROUNDINGS = {"float16": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 2.0**-134), "float32": (2.0**-24, 2.0**-150)}
"""Half an ulp of a number of each type: relative, and absolute for the smallest."""


@np.errstate(all="ignore")  # data may be infinite or NaN: a finding says so
def matmul(a: Array, b: Array, bias: Array | None = None, *, relu: bool = False) -> Array:
    """Return A B (+ bias) for A [m, k] and B [k, n]; with relu at least 0."""
    exact = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    if bias is not None:
        exact = exact + np.asarray(bias, np.float64)
    return np.maximum(exact, 0) if relu else exact


@np.errstate(all="ignore")
def matmul_bound(a: Array, b: Array, bias: Array | None = None, *, output: str, split_k: int = 1) -> Array:
    """Return the largest |computed - exact| that float arithmetic allows in any order, elementwise.

    A product passes at most n = k + 1 roundings on its way into the sum, which is off by n u / (1 - n u) (|A| |B| +
    |bias|), u = 2^-24. The output rounds it once more; where parts of K are added in GM, each part and each addition
    rounds to C's type. Whole numbers are exact. ReLU makes no error larger.

    Args:
        a: [m, k].
        b: [k, n].
        bias: [n].
        output: NumPy's name of C's type.
        split_k: parts of K.
    """
    left, right = (np.abs(np.asarray(x, np.float64)) for x in (a, b))
    largest = left @ right
    if bias is not None:
        largest = largest + np.abs(np.asarray(bias, np.float64))
    if output not in _ROUNDINGS:
        return np.zeros_like(largest)
    roundings = left.shape[1] + 1
    unit, tiny = _ROUNDINGS["float32"]
    bound = roundings * unit / (1 - roundings * unit) * largest + roundings * tiny
    relative, least = _ROUNDINGS[output]
    if split_k == 1:
        return np.asarray(bound + relative * (np.abs(matmul(a, b, bias)) + bound) + least)
    times = 2 * split_k - 1
    grown = (1 + relative) ** times * (largest + bound)
    return np.asarray(bound + times * (relative * grown + least))
