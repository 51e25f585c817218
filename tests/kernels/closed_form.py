"""SoftmaxGrad without instructions: only the order of float additions of each layout and architecture.

For each row, with p = grad * src rounded to float and T the adjacent-pair tree:

- ND, arch 2201: n = ori_k // 64 full stripes of 64 columns. B[j] = T(datablock j of the first stripe); each further
  stripe adds its T(datablock j) to B[j], in order; s = T(B). A rest of ori_k % 64 columns: t = T of 64 lanes of which
  the rest are present; s + t, or t alone if n is 0.
- ND, arch 2002: T of each stripe of 64 columns, added in order, then T of the rest.
- Basic block: acc[64] is the first stripe, the others are added to it lane by lane; s = T of the 8 datablock trees. All
  columns.
- NZ: acc[16] is the first slab, the others are added to it lane by lane; the two datablocks of acc are added, then T.
  Rows behind the last whole group of four of a tile leave out what is padding in the last slab. One slab with padding
  is a tree over its data. Front results take all columns.

Then (grad - s) * src, two roundings; half results are rounded once more: ties away from zero on arch 2201, to even on
arch 2002.
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


def _padded(values):
    return [*values, *[None] * (64 - len(values))]


def row_sum(products):
    """ND row of arch 2201."""
    stripes, rest = divmod(len(products), 64)
    total = None
    if stripes:
        blocks = [tree(products[8 * j : 8 * j + 8]) for j in range(8)]
        for stripe in range(1, stripes):
            at = 64 * stripe
            blocks = [np.float32(b + tree(products[at + 8 * j : at + 8 * j + 8])) for j, b in enumerate(blocks)]
        total = tree(blocks)
    if rest:
        total = _add(total, tree(_padded(products[64 * stripes :])))
    return total


def row_sum_2002(products):
    """ND row of arch 2002."""
    total = None
    for at in range(0, len(products), 64):
        total = _add(total, tree(_padded(products[at : at + 64])))
    return total


def row_sum_basic_block(products):
    """A row of SoftmaxGradFront with basic block, all its columns."""
    lanes = list(products[:64])
    for at in range(64, len(products), 64):
        lanes = [np.float32(a + b) for a, b in zip(lanes, products[at : at + 64], strict=True)]
    return tree([tree(lanes[8 * j : 8 * j + 8]) for j in range(8)])


def row_sum_nz(products, data_of_last_slab):
    """A row in NZ; columns of the last slab from `data_of_last_slab` on are left out."""
    slabs = [list(products[at : at + 16]) for at in range(0, len(products), 16)]
    last = [p if i < data_of_last_slab else None for i, p in enumerate(slabs[-1])]
    if len(slabs) == 1 and None in last:
        return tree(last)
    slabs[-1] = last
    lanes = slabs[0]
    for slab in slabs[1:]:
        lanes = [_add(a, b) for a, b in zip(lanes, slab, strict=True)]
    return tree([np.float32(a + b) for a, b in zip(lanes[:8], lanes[8:], strict=True)])


def sums_nz(products, ori_k, tiles, *, is_front):
    """Row sums in NZ; `tiles`: the rows of each tile."""
    data = 16 if is_front else ori_k % 16 or 16
    is_single = products.shape[1] == 16
    masked = [is_single or i >= rows // 4 * 4 for rows in tiles for i in range(rows)]
    rows = zip(products, masked, strict=True)
    return np.array([row_sum_nz(list(row), data if is_masked else 16) for row, is_masked in rows], np.float32)


def softmax_grad(grad, src, ori_k=None, *, is_front=False, row_sum=row_sum, sums=None, to_even=False):
    """[m, k], or [m, one datablock] with is_front; `sums` are row sums that are known already."""
    g, s = grad.astype(np.float32), src.astype(np.float32)
    k = s.shape[1] if ori_k is None else ori_k
    if sums is None:
        sums = np.array([row_sum(list(row)) for row in (g * s)[:, :k]], np.float32)
    out = np.repeat(sums[:, None], 32 // src.itemsize, axis=1) if is_front else (g - sums[:, None]) * s
    if src.dtype == np.float32:
        return out
    return out.astype(np.float16) if to_even else to_half_ties_away(out)


def to_nz(array):
    """[m, k] as slabs of 16 columns, [k / 16, m, 16]."""
    m, k = array.shape
    return np.ascontiguousarray(array.reshape(m, k // 16, 16).transpose(1, 0, 2))


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
