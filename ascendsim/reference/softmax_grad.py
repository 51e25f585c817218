"""SoftmaxGrad in float64, with the error that float arithmetic in any order can make."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@np.errstate(all="ignore")  # data may be infinite or NaN: a finding says so
def softmax_grad(grad: Array, src: Array, *, is_front: bool = False, ori_k: int | None = None) -> Array:
    """Return (grad - rowsum(grad * src)) * src for [m, k] arrays; with is_front the row sums, [m, 1].

    Columns from ori_k on take no part in the sum.
    """
    g, p = np.asarray(grad, np.float64), np.asarray(src, np.float64)
    k = p.shape[-1] if ori_k is None else ori_k
    row_sum = (g[:, :k] * p[:, :k]).sum(axis=1, keepdims=True)
    return np.asarray(row_sum if is_front else (g - row_sum) * p)


@np.errstate(all="ignore")
def softmax_grad_bound(grad: Array, src: Array, *, is_front: bool = False, ori_k: int | None = None) -> Array:
    """Return the largest |computed - exact| that float arithmetic allows, elementwise.

    2^-24 (n + 3) (|grad| + sum |grad * src|) |src|, n the longest chain of additions, plus half an ulp of a half
    output.
    """
    g, p = np.abs(np.asarray(grad, np.float64)), np.abs(np.asarray(src, np.float64))
    k = p.shape[-1] if ori_k is None else ori_k
    row_sum = (g[:, :k] * p[:, :k]).sum(axis=1, keepdims=True)
    unit = 2.0**-24 * (longest_chain(k) + 3)
    bound = unit * row_sum if is_front else unit * (g + row_sum) * p
    if np.asarray(src).dtype == np.float16:
        exact = np.abs(softmax_grad(grad, src, is_front=is_front, ori_k=ori_k)) + bound
        bound = bound + np.spacing(exact.astype(np.float16)).astype(np.float64) / 2
    return np.asarray(bound)


def longest_chain(k: int) -> int:
    """Additions on the longest way of one product into its row's sum on arch 2201.

    A tree of 8 in each datablock (3), 64-column stripes one after another, a tree of 8 over the datablock sums (3), and
    the rest columns' tree added last.
    """
    stripes, rest = divmod(k, 64)
    tree = 6 if stripes else 0
    return tree + max(0, stripes - 1) + (7 if rest and not stripes else 1 if rest else 0)
