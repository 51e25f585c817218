"""SoftmaxGrad of arch 2201, ND, without instructions: only the order of float additions.

For each row, with p = grad * src rounded to float and T the adjacent-pair tree: n = ori_k // 64 full stripes of 64
columns. B[j] = T(datablock j of the first stripe); each further stripe adds its T(datablock j) to B[j], in order;
s = T(B). A rest of ori_k % 64 columns: t = T of 64 lanes of which the rest are present; s + t, or t alone if n is 0.
Then (grad - s) * src, two roundings; half results are rounded once more, ties away from zero.
"""

from fractions import Fraction

import numpy as np


def tree(values):
    """Adjacent-pair tree over the last axis of float32 values; None marks an absent lane."""
    level = list(values)
    while len(level) > 1:
        level = [_add(a, b) for a, b in zip(level[0::2], level[1::2], strict=True)]
    return level[0]


def _add(a, b):
    if a is None or b is None:
        return b if a is None else a
    return np.float32(a + b)


def row_sum(products):
    stripes, rest = divmod(len(products), 64)
    total = None
    if stripes:
        blocks = [tree(products[8 * j : 8 * j + 8]) for j in range(8)]
        for stripe in range(1, stripes):
            at = 64 * stripe
            blocks = [np.float32(b + tree(products[at + 8 * j : at + 8 * j + 8])) for j, b in enumerate(blocks)]
        total = tree(blocks)
    if rest:
        total = _add(total, tree([*products[64 * stripes :], *[None] * (64 - rest)]))
    return total


def softmax_grad(grad, src, ori_k=None, *, is_front=False):
    g, s = grad.astype(np.float32), src.astype(np.float32)
    k = s.shape[1] if ori_k is None else ori_k
    sums = np.array([row_sum(list(row)) for row in (g * s)[:, :k]], np.float32)
    out = np.repeat(sums[:, None], 32 // src.itemsize, axis=1) if is_front else (g - sums[:, None]) * s
    return out if src.dtype == np.float32 else to_half_ties_away(out)


def to_half_ties_away(values):
    """Round float32 to half, ties away from zero, by exact comparison of the two neighbours."""
    nearest = values.astype(np.float16)
    out = nearest.copy()
    for index in np.flatnonzero(np.isfinite(values.reshape(-1)) & (nearest.reshape(-1) != values.reshape(-1))):
        x = values.reshape(-1)[index]
        even = nearest.reshape(-1)[index]
        towards = np.float16(np.inf) if abs(even) < abs(x) else np.float16(0)
        other = np.nextafter(even, np.copysign(towards, even), dtype=np.float16)
        if not np.isfinite(even) or not np.isfinite(other):
            continue
        exact = Fraction(float(x))
        if abs(exact - Fraction(float(even))) == abs(exact - Fraction(float(other))) and abs(other) > abs(even):
            out.reshape(-1)[index] = other
    return out
