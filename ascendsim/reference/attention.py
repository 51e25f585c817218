"""Flash attention in float64, forward and backward, as `aclnnFlashAttentionScoreGrad` defines it.

With B batches, N1 query heads, N2 key and value heads, G = N1 / N2, S1 queries, S2 keys, D columns of query and key and
Dv of value, for one batch and query head (which uses key head n1 // G):

    T  = (Q K^T + pse) * scale            pse_type 1
    T  = Q K^T * scale + pse              any other
    S  = T, and the lowest finite float where the attention mask hides
    P  = exp(S - max) / sum               over the keys
    A  = P * drop / keep_prob
    Y  = A V
    dA = dY V^T,  dP = dA * drop / keep_prob,  D = rowsum(dY * Y),  dS = P * (dP - D)
    dQ = scale * dS K,  dK = scale * dS^T Q,  dV = A^T dY    (dK and dV summed over the G heads of a key head)
    dpse = scale * dS for pse_type 1, dS else, summed over what pse was spread along

pse of ALIBI_ROWS rows stands for S1 = S2 more of them: they are the last rows of a bias that depends on i - j alone,
and serve the triangle j <= i.

Source: aclnnFlashAttentionScoreGrad page; the backward is the derivative of the forward, which tests check by
differences.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Layout = Literal["BSH", "SBH", "BSND", "BNSD"]
LAYOUTS: tuple[Layout, ...] = ("BSH", "SBH", "BSND", "BNSD")
LOWEST = float(np.finfo(np.float32).min)
"""Score of a hidden key: it replaces the score, so a row with all keys hidden has P = 1 / S2."""
STATISTICS = 8
"""How often softmaxMax and softmaxSum hold a row's value: one datablock of floats."""
ALIBI_ROWS = 1024
"""Rows of a pse that is cut to its last ones."""
ADD_THEN_MULTIPLY = 1
"""The pse_type that scales pse, too."""


@dataclass(frozen=True, slots=True)
class Forward:
    """What a forward pass leaves for the backward.

    Attributes:
        softmax_max: largest score of each row, [B, N1, S1, 8].
        softmax_sum: sum of exp(S - max) of each row, [B, N1, S1, 8].
        attention_in: Y, in the layout of query.
        probabilities: P before dropout, [B, N1, S1, S2].
        hidden_rows: rows all of whose keys are hidden, [B, N1, S1].
    """

    softmax_max: Array
    softmax_sum: Array
    attention_in: Array
    probabilities: Array
    hidden_rows: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Gradients:
    """Gradients in the layouts of their inputs; `dpse` has the shape of pse, or is None without one."""

    dq: Array
    dk: Array
    dv: Array
    dpse: Array | None


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention layer: everything but its tensors.

    Attributes:
        head_num: N1.
        scale: meant to be 1 / sqrt(D).
        layout: of query, key, value, their gradients and the output.
        kv_head_num: N2; None for N1.
        pse_type: 1 adds pse and then multiplies, any other multiplies and then adds.
        keep_prob: of dropout.
        hidden_row_is_zero: rows all of whose keys are hidden get P = 0 instead of the kernels' 1 / S2.
    """

    head_num: int
    scale: float
    layout: Layout = "BNSD"
    kv_head_num: int | None = None
    pse_type: int = ADD_THEN_MULTIPLY
    keep_prob: float = 1.0
    hidden_row_is_zero: bool = False

    def forward(
        self,
        query: Array,
        key: Array,
        value: Array,
        *,
        pse: Array | None = None,
        atten_mask: Array | None = None,
        drop_mask: Array | None = None,
    ) -> Forward:
        """Return statistics and output.

        Args:
            query: in `layout`, N1 heads of D columns.
            key: in `layout`, N2 heads of D columns.
            value: in `layout`, N2 heads of Dv columns.
            pse: [B or 1, N1, S1 or 1, S2], or with S1 = S2 > 1024 [B or 1, N1, 1024, S2], which goes with a mask
                that hides j > i.
            atten_mask: spreads to [B, N1, S1, S2]; true hides.
            drop_mask: bits in bytes, row by row over [B, N1, S1, S2], lowest bit first; 1 keeps.

        Raises:
            ValueError: shapes that do not belong together.
        """
        q, k, v = self._heads(query, key, value)
        return self._forward((q, k, v), pse, atten_mask, drop_mask)

    def backward(
        self,
        query: Array,
        key: Array,
        value: Array,
        dy: Array,
        *,
        pse: Array | None = None,
        atten_mask: Array | None = None,
        drop_mask: Array | None = None,
    ) -> Gradients:
        """Return the gradients of sum(dy * Y); arguments as `forward`, dy as its output.

        Raises:
            ValueError: shapes that do not belong together.
        """
        q, k, v = self._heads(query, key, value)
        there = self._forward((q, k, v), pse, atten_mask, drop_mask)
        d_out = to_bnsd(dy, self.layout, self.head_num)
        out = to_bnsd(there.attention_in, self.layout, self.head_num)
        p = there.probabilities
        kept = self._kept(drop_mask, p.shape)
        d_p = np.einsum("bnid,bnjd->bnij", d_out, v) * kept
        row_term = (d_out * out).sum(axis=-1, keepdims=True)
        d_s = p * (d_p - row_term)
        d_q = self.scale * np.einsum("bnij,bnjd->bnid", d_s, k)
        d_k = self._over_group(self.scale * np.einsum("bnij,bnid->bnjd", d_s, q))
        d_v = self._over_group(np.einsum("bnij,bnid->bnjd", p * kept, d_out))
        factor = self.scale if self.pse_type == ADD_THEN_MULTIPLY else 1.0
        d_pse = None if pse is None else _gathered_bias(factor * d_s, np.shape(pse))
        d_q, d_k, d_v = (from_bnsd(g, self.layout) for g in (d_q, d_k, d_v))
        return Gradients(d_q, d_k, d_v, d_pse)

    def _heads(self, query: Array, key: Array, value: Array) -> tuple[Array, Array, Array]:
        """Query, key and value as [B, N1, S, D]; each key head once for every query head that uses it."""
        kv_heads = self.kv_head_num or self.head_num
        if self.head_num % kv_heads:
            raise ValueError(f"head_num {self.head_num} is no multiple of kv_head_num {kv_heads}")
        q = to_bnsd(query, self.layout, self.head_num)
        k, v = (np.repeat(to_bnsd(x, self.layout, kv_heads), self.head_num // kv_heads, axis=1) for x in (key, value))
        if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or k.shape[:3] != v.shape[:3]:
            raise ValueError(f"as [B, N1, S, D] query is {q.shape}, key {k.shape}, value {v.shape}")
        return q, k, v

    def _forward(
        self, heads: tuple[Array, Array, Array], pse: Array | None, atten_mask: Array | None, drop_mask: Array | None
    ) -> Forward:
        q, k, v = heads
        products = np.einsum("bnid,bnjd->bnij", q, k)
        bias = 0.0 if pse is None else spread_bias(np.asarray(pse, np.float64), products.shape)
        scores = (products + bias) * self.scale
        if self.pse_type != ADD_THEN_MULTIPLY:
            scores = products * self.scale + bias
        if scores.shape != products.shape:
            shape = () if pse is None else pse.shape
            raise ValueError(f"pse of shape {shape} does not spread to {products.shape}")
        hidden = np.broadcast_to(np.asarray(False if atten_mask is None else atten_mask, np.bool_), scores.shape)
        scores = np.where(hidden, LOWEST, scores)
        largest = scores.max(axis=-1, keepdims=True)
        powers = np.exp(scores - largest)
        total = powers.sum(axis=-1, keepdims=True)
        rows: NDArray[np.bool_] = np.all(hidden, axis=-1)
        p = powers / total
        if self.hidden_row_is_zero:
            p = np.where(np.expand_dims(rows, -1), 0.0, p)
        out = np.einsum("bnij,bnjd->bnid", p * self._kept(drop_mask, p.shape), v)
        most, sums = (np.repeat(x, STATISTICS, axis=-1) for x in (largest, total))
        return Forward(most, sums, from_bnsd(out, self.layout), p, rows)

    def _kept(self, drop_mask: Array | None, shape: tuple[int, ...]) -> Array:
        """1 / keep_prob where a probability stays, 0 where it is dropped."""
        if drop_mask is None:
            return np.ones((1,) * len(shape))
        return dropped(drop_mask, shape) / self.keep_prob

    def _over_group(self, grad: Array) -> Array:
        """Sum over the query heads of each key head."""
        kv_heads = self.kv_head_num or self.head_num
        b, n, s, d = grad.shape
        return np.asarray(grad.reshape(b, kv_heads, n // kv_heads, s, d).sum(axis=2))


def to_bnsd(x: Array, layout: Layout, heads: int) -> Array:
    """Return a tensor in one of the layouts as [B, N, S, D] of float64.

    Raises:
        ValueError: an unknown layout, or columns that are no multiple of the heads.
    """
    x = np.asarray(x, np.float64)
    if layout in ("BSH", "SBH"):
        if x.ndim != 3 or x.shape[-1] % heads:
            raise ValueError(f"{layout} tensor of shape {x.shape} with {heads} heads")
        x = x.reshape(*x.shape[:2], heads, x.shape[-1] // heads)
        return x.transpose(0, 2, 1, 3) if layout == "BSH" else x.transpose(1, 2, 0, 3)
    if layout not in LAYOUTS or x.ndim != 4:
        raise ValueError(f"layout {layout!r} of shape {x.shape}: must be one of {', '.join(LAYOUTS)}")
    x = x.transpose(0, 2, 1, 3) if layout == "BSND" else x
    if x.shape[1] != heads:
        raise ValueError(f"{layout} tensor has {x.shape[1]} heads, {heads} are wanted")
    return x


def from_bnsd(x: Array, layout: Layout) -> Array:
    """Undo `to_bnsd`."""
    b, n, s, d = x.shape
    if layout == "BSND":
        return np.ascontiguousarray(x.transpose(0, 2, 1, 3))
    if layout == "BSH":
        return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(b, s, n * d)
    if layout == "SBH":
        return np.ascontiguousarray(x.transpose(2, 0, 1, 3)).reshape(s, b, n * d)
    return x


def dropped(drop_mask: Array, shape: tuple[int, ...]) -> Array:
    """Return the bits of a drop mask as 0.0 and 1.0 in a shape; the lowest bit of a byte comes first.

    Raises:
        ValueError: fewer bits than the shape has elements.
    """
    bits = np.unpackbits(np.asarray(drop_mask, np.uint8).reshape(-1), bitorder="little")
    count = int(np.prod(shape))
    if bits.size < count:
        raise ValueError(f"the drop mask has {bits.size} bits, {count} are needed")
    return bits[:count].reshape(shape).astype(np.float64)


def is_alibi(pse: tuple[int, ...], scores: tuple[int, ...]) -> bool:
    """Return whether a bias of that shape holds the last rows of one for scores [B, N1, S1, S2]."""
    return len(pse) == 4 and pse[2] == ALIBI_ROWS < scores[2] == scores[3] == pse[3]


def spread_bias(pse: Array, scores: tuple[int, ...]) -> Array:
    """Return a bias that spreads to scores [B, N1, S1, S2]; above the diagonal a cut one is 0."""
    if not is_alibi(pse.shape, scores):
        return pse
    rows, columns, is_below = _alibi_places(scores[2])
    return np.where(is_below, pse[:, :, rows, columns], 0)


def _alibi_places(length: int) -> tuple[Array, Array, Array]:
    """Return for each score the row and column of its bias, and whether it has one.

    The last rows are where they are. Any other is taken from row i mod 1024, moved along so that i - j is the same.

    Source: ops-transformer common kernels, pse, offset of the alibi form.
    """
    i, j = np.arange(length)[:, None], np.arange(length)[None, :]
    first = length - ALIBI_ROWS
    rows = np.where(i >= first, i - first, i % ALIBI_ROWS)
    columns = j + first + rows - i
    is_below = j <= i
    return np.broadcast_to(rows, is_below.shape), np.where(is_below, columns, 0), is_below


def _gathered_bias(grad: Array, shape: tuple[int, ...]) -> Array:
    """Sum the gradient of a bias over the scores that each of its elements serves."""
    if not is_alibi(shape, grad.shape):
        return _gathered(grad, shape)
    rows, columns, is_below = _alibi_places(grad.shape[2])
    places = (rows * shape[3] + columns)[is_below]
    planes = _gathered(grad, (shape[0], *grad.shape[1:]))[:, :, is_below].reshape(-1, places.size)
    return np.reshape([np.bincount(places, plane, ALIBI_ROWS * shape[3]) for plane in planes], shape)


def _gathered(grad: Array, shape: tuple[int, ...]) -> Array:
    """Sum a gradient over the axes that its input was spread along."""
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape)))) if len(shape) < grad.ndim else grad
    axes = tuple(i for i, (had, has) in enumerate(zip(shape, grad.shape, strict=True)) if had == 1 and has > 1)
    return np.asarray(grad.sum(axis=axes, keepdims=True) if axes else grad)
