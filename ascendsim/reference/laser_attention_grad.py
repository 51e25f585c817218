"""LaserAttentionGrad in float64: the backward of attention from the statistics and the output of a forward pass.

For one batch and query head n, with key head n // (Nq / Nkv), O the forward's output and dO its gradient:

    S = Q K^T (of a wide key the first columns, as many as Q has)     L = max + ln(sum)
    P = exp(scale * S - L), 0 where a key is hidden                   dP = dO V^T,  D = rowsum(O * dO)
    dS = P * (dP - D)                                                 dQ = scale * dS K
    dK = scale * dS^T Q, its further columns 0                        dV = P^T dO    (both summed over the group)

Hidden is what the mask hides, and what lies further back than the window: key j of query i with j < i - window.

Source: LaserAttentionGradOperation page; the backward is that of `reference.attention`, one head after the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.reference.attention import Attention, Gradients, Layout, d_scores, from_bnsd, to_bnsd

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class LaserForward:
    """What a forward pass leaves: statistics [B, N, S], and the output in the layout of query."""

    softmax_max: Array
    softmax_sum: Array
    attention_in: Array


@dataclass(frozen=True, slots=True)
class LaserAttention:
    """One layer: everything but its tensors.

    Attributes:
        head_num: query heads.
        kv_head_num: key heads.
        scale: factor of the scores.
        layout: "BNSD" or "SBH".
        window: how far back a query sees; None for all the way.
    """

    head_num: int
    kv_head_num: int
    scale: float
    layout: Layout = "BNSD"
    window: int | None = None

    def forward(self, query: Array, key: Array, value: Array, mask: Array | None = None) -> LaserForward:
        """Return statistics and output; `mask` [S, Skv] hides where it is not 0.

        Raises:
            ValueError: shapes that do not belong together.
        """
        q, k, v = self._heads(query, key, value)
        hidden = self._hidden(mask, q.shape[2], k.shape[2])
        layer = Attention(self.head_num, self.scale, "BNSD", self.kv_head_num)
        found = layer.forward(q, k, v, atten_mask=hidden)
        largest, total = found.softmax_max[..., 0], found.softmax_sum[..., 0]
        return LaserForward(largest, total, from_bnsd(found.attention_in, self.layout))

    def backward(
        self,
        query: Array,
        key: Array,
        value: Array,
        attention_out_grad: Array,
        forward: LaserForward,
        mask: Array | None = None,
        rounded: Callable[[Array], Array] = np.asarray,
    ) -> Gradients:
        """Return the gradients, in the layouts of query, key and value.

        Args:
            query: in `layout`.
            key: in `layout`; of more columns than query the first are used.
            value: in `layout`.
            attention_out_grad: gradient of the output.
            forward: what a forward pass has left.
            mask: [S, Skv], hides where it is not 0; None without one.
            rounded: what P, dS and the results become, for a baseline of the same precision as a kernel.

        Raises:
            ValueError: shapes that do not belong together.
        """
        q, k, v = self._heads(query, key, value)
        d_out = to_bnsd(attention_out_grad, self.layout, self.head_num)
        out = to_bnsd(forward.attention_in, self.layout, self.head_num)
        hidden = self._hidden(mask, q.shape[2], k.shape[2])
        level = np.asarray(forward.softmax_max, np.float64) + np.log(np.asarray(forward.softmax_sum, np.float64))
        d_q, d_k, d_v = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
        for b, n in np.ndindex(q.shape[:2]):
            of = b, n * self.kv_head_num // self.head_num
            scores = self.scale * (q[b, n] @ k[of].T) - level[b, n, :, None]
            p = np.exp(np.where(hidden, -np.inf, scores))
            d_s = rounded(d_scores(p, 1.0, v[of], d_out[b, n], out[b, n]))
            d_q[b, n] = self.scale * (d_s @ k[of])
            d_k[of] += self.scale * (d_s.T @ q[b, n])
            d_v[of] += rounded(p).T @ d_out[b, n]
        wide = to_bnsd(key, self.layout, self.kv_head_num).shape[-1]
        missing = np.zeros((*k.shape[:-1], wide - q.shape[-1]))
        d_k = np.concatenate((d_k, missing), axis=-1)
        d_q, d_k, d_v = (rounded(from_bnsd(g, self.layout)) for g in (d_q, d_k, d_v))
        return Gradients(d_q, d_k, d_v, None)

    def _heads(self, query: Array, key: Array, value: Array) -> tuple[Array, Array, Array]:
        q = to_bnsd(query, self.layout, self.head_num)
        k, v = (to_bnsd(x, self.layout, self.kv_head_num) for x in (key, value))
        return q, k[..., : q.shape[-1]], v

    def _hidden(self, mask: Array | None, rows: int, columns: int) -> NDArray[np.bool_]:
        """Return which scores are hidden, [S, Skv]."""
        hidden = np.zeros((rows, columns), np.bool_) if mask is None else np.asarray(mask) != 0
        if self.window is None or mask is None:
            return hidden
        return hidden | (np.arange(columns) < np.arange(rows)[:, None] - self.window)
