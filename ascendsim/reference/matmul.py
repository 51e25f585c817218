"""A matrix product in float64, with the error that float arithmetic in any order can make."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_ROUNDINGS = {"float16": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 2.0**-134), "float32": (2.0**-24, 2.0**-150)}
"""Half an ulp of a number of each type: relative, and absolute for the smallest."""


@np.errstate(all="ignore")  # data may be infinite or NaN: a finding says so
def matmul(
    a: Array,
    b: Array,
    bias: Array | None = None,
    *,
    a_transposed: bool = False,
    b_transposed: bool = False,
    relu: bool = False,
) -> Array:
    """Return A B (+ bias) for A [m, k] and B [k, n], each the other way round if transposed; with relu at least 0."""
    left, right = _operands(a, b, a_transposed, b_transposed)
    exact = left @ right + (0 if bias is None else np.asarray(bias, np.float64))
    return np.maximum(exact, 0) if relu else np.asarray(exact)


@np.errstate(all="ignore")
def matmul_bound(
    a: Array,
    b: Array,
    bias: Array | None = None,
    *,
    output: str,
    a_transposed: bool = False,
    b_transposed: bool = False,
    split_k: int = 1,
) -> Array:
    """Return the largest |computed - exact| that float arithmetic allows, elementwise.

    Each of the k products and sums rounds once, 2^-24 (k + 1) (|A| |B| + |bias|) to first order with as much again for
    the rest; then the output is rounded, and once more for each part of K that is added in GM. Whole numbers are exact.

    Args:
        a, b, bias, a_transposed, b_transposed: as of `matmul`.
        output: NumPy name of C's type.
        split_k: parts of K.
    """
    left, right = (np.abs(x) for x in _operands(a, b, a_transposed, b_transposed))
    largest = left @ right + (0 if bias is None else np.abs(np.asarray(bias, np.float64)))
    if output not in _ROUNDINGS:
        return np.zeros_like(largest)
    n = left.shape[1] + 1
    unit = 2.0**-24
    bound = n * unit / (1 - n * unit) * largest
    relative, least = _ROUNDINGS[output]
    if output == "float32":
        return np.asarray(bound + (split_k - 1) * (relative * (largest + bound) + least) + n * least)
    exact = np.abs(matmul(a, b, bias, a_transposed=a_transposed, b_transposed=b_transposed)) + bound
    if split_k == 1:
        return np.asarray(bound + relative * exact + least)
    return np.asarray(
        bound + (2 * split_k - 1) * (relative * (1 + relative) ** (2 * split_k) * (largest + bound) + least)
    )


def _operands(a: Array, b: Array, a_transposed: bool, b_transposed: bool) -> tuple[Array, Array]:
    left, right = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return (left.T if a_transposed else left), (right.T if b_transposed else right)
