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

One head after the other, and of it some rows of scores at a time, so that memory holds no more than these. Rows and
columns of which nothing is wanted are left out: what an output depends on is what it would be of all.

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
MOST_SCORES = 1 << 22
"""Scores that are in memory at a time, at least one row."""
ADD_THEN_MULTIPLY = 1
"""The pse_type that scales pse, too."""


@dataclass(frozen=True, slots=True)
class Forward:
    """What a forward pass leaves for the backward.

    Attributes:
        softmax_max: largest score of each row, [B, N1, S1, 8].
        softmax_sum: sum of exp(S - max) of each row, [B, N1, S1, 8].
        attention_in: Y, in the layout of query.
        hidden_rows: rows all of whose keys are hidden, [B, N1, S1].
    """

    softmax_max: Array
    softmax_sum: Array
    attention_in: Array
    hidden_rows: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Gradients:
    """Gradients in the layouts of their inputs; `dpse` has the shape of pse, or is None without one."""

    dq: Array
    dk: Array
    dv: Array
    dpse: Array | None


@dataclass(frozen=True, slots=True)
class Part:
    """Which gradients are wanted: rows of dq [B, N1, S1], rows of dk and dv [B, N2, S2]."""

    dq: NDArray[np.bool_]
    dk_dv: NDArray[np.bool_]


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
        wanted: Array | None = None,
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
            wanted: rows [B, N1, S1]; the others are 0 in the result. None for all.

        Raises:
            ValueError: shapes that do not belong together.
        """
        call = self._call(query, key, value, pse, atten_mask, drop_mask)
        b, n1, s1, _ = call.shape
        most, sums = np.zeros((b, n1, s1, STATISTICS)), np.zeros((b, n1, s1, STATISTICS))
        out, hidden_rows = np.zeros((b, n1, s1, call.v.shape[-1])), np.zeros((b, n1, s1), np.bool_)
        for at in np.ndindex(b, n1):
            for rows in call.some_rows(np.arange(s1) if wanted is None else np.flatnonzero(wanted[at])):
                part, place = self._rows(call, at, rows), (*at, rows)
                most[place], sums[place], out[place] = part.largest, part.total, part.out
                hidden_rows[place] = part.hidden_rows
        return Forward(most, sums, from_bnsd(out, self.layout), hidden_rows)

    def probabilities(
        self, query: Array, key: Array, value: Array, *, pse: Array | None = None, atten_mask: Array | None = None
    ) -> Array:
        """Return P, before dropout, of all heads: [B, N1, S1, S2]; arguments as `forward`.

        Raises:
            ValueError: shapes that do not belong together.
        """
        call = self._call(query, key, value, pse, atten_mask, None)
        every = np.arange(call.shape[2])
        return np.reshape([self._rows(call, at, every).p for at in np.ndindex(call.shape[:2])], call.shape)

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
        left_out: Array | None = None,
        part: Part | None = None,
    ) -> Gradients:
        """Return the gradients of sum(dy * Y); arguments as `forward`, dy as its output.

        `left_out`, which spreads to [B, N1, S1, S2], marks scores that the backward does not look at: P = 0. That
        differs only for rows all of whose keys are hidden, and makes the result a gradient of nothing. With `part` all
        that is not wanted may be anything, and there is no dpse.

        Raises:
            ValueError: shapes that do not belong together.
        """
        call = self._call(query, key, value, pse, atten_mask, drop_mask)
        d_out = _bnsd_view(dy, self.layout, self.head_num)
        skipped = None if left_out is None else np.broadcast_to(left_out, call.shape)
        d_q, d_k, d_v = np.zeros(call.q.shape), np.zeros(call.k.shape), np.zeros(call.v.shape)
        d_pse = None if call.bias is None or part is not None else np.zeros(call.bias.shape)
        factor = self.scale if self.pse_type == ADD_THEN_MULTIPLY else 1.0
        for at in np.ndindex(call.shape[:2]):
            of = call.kv_of(at)
            k, v = _wide(call.k[of]), _wide(call.v[of])
            columns = np.arange(len(k)) if part is None else np.flatnonzero(part.dk_dv[of])
            wanted = np.arange(call.shape[2]) if part is None or len(columns) else np.flatnonzero(part.dq[at])
            for rows in [wanted] if d_pse is not None else call.some_rows(wanted):
                of_rows, q, d_o = self._rows(call, at, rows), _wide(call.q[at][rows]), _wide(d_out[at][rows])
                for_q = part is None or bool(part.dq[at][rows].any())
                those = np.arange(len(k)) if for_q else columns
                p, kept = of_rows.p[:, those], of_rows.kept_of(those)
                if skipped is not None:
                    p = np.where(skipped[at][np.ix_(rows, those)], 0.0, p)
                d_s = d_scores(p, kept, v[those], d_o, of_rows.out)
                if for_q:
                    d_q[(*at, rows)] = self.scale * (d_s @ k[those])
                if len(columns):
                    d_k[(*of, those)] += self.scale * (d_s.T @ q)
                    d_v[(*of, those)] += (p * kept).T @ d_o
                if d_pse is not None:
                    place = call.bias_of(at)
                    d_pse[place] += _gathered_bias(factor * d_s, d_pse[place].shape)
        if d_pse is not None and pse is not None:
            d_pse = d_pse.reshape(pse.shape)
        d_q, d_k, d_v = (from_bnsd(g, self.layout) for g in (d_q, d_k, d_v))
        return Gradients(d_q, d_k, d_v, d_pse)

    def _call(
        self,
        query: Array,
        key: Array,
        value: Array,
        pse: Array | None,
        atten_mask: Array | None,
        drop_mask: Array | None,
    ) -> "_Call":
        kv_heads = self.kv_head_num or self.head_num
        if self.head_num % kv_heads:
            raise ValueError(f"head_num {self.head_num} is no multiple of kv_head_num {kv_heads}")
        q = _bnsd_view(query, self.layout, self.head_num)
        k, v = _bnsd_view(key, self.layout, kv_heads), _bnsd_view(value, self.layout, kv_heads)
        if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or k.shape[:3] != v.shape[:3]:
            raise ValueError(f"as [B, N, S, D] query is {q.shape}, key {k.shape}, value {v.shape}")
        shape = (*q.shape[:3], k.shape[2])
        hidden = np.broadcast_to(np.asarray(False if atten_mask is None else atten_mask, np.bool_), shape)
        bias = None
        if pse is not None:
            bias = np.asarray(pse, np.float64).reshape((1,) * (4 - pse.ndim) + pse.shape)
            if not _spreads(bias.shape, shape):
                raise ValueError(f"pse of shape {pse.shape} does not spread to {shape}")
        if drop_mask is not None:
            _check_bits(drop_mask, shape)
        return _Call(q, k, v, bias, hidden, drop_mask)

    def _rows(self, call: "_Call", at: tuple[int, ...], rows: Array) -> "_Rows":
        """The forward pass of some rows of one batch and query head."""
        of = call.kv_of(at)
        products = _wide(call.q[at][rows]) @ _wide(call.k[of]).T
        bias = 0.0 if call.bias is None else _rows_of(spread_bias(call.bias[call.bias_of(at)], call.shape[2:]), rows)
        is_scaled_last = self.pse_type == ADD_THEN_MULTIPLY
        scores = (products + bias) * self.scale if is_scaled_last else products * self.scale + bias
        hidden = call.hidden[at][rows]
        scores = np.where(hidden, LOWEST, scores)
        largest = scores.max(axis=-1, keepdims=True)
        p = np.exp(scores - largest)
        total = p.sum(axis=-1, keepdims=True)
        p /= total
        hidden_rows: NDArray[np.bool_] = hidden.all(axis=-1)
        if self.hidden_row_is_zero:
            p[hidden_rows] = 0.0
        kept = np.ones((1, 1)) if call.drop_mask is None else call.kept(at)[rows] / self.keep_prob
        return _Rows(p, kept, largest, total, (p * kept) @ _wide(call.v[of]), hidden_rows)


def d_scores(p: Array, kept: Array | float, v: Array, d_out: Array, out: Array) -> Array:
    """Return dS of some rows of a head.

    Args:
        p: probabilities [rows, S2].
        kept: what dropout multiplies them with.
        v: value, [S2, Dv].
        d_out: gradient of the output, [rows, Dv].
        out: the output, [rows, Dv].
    """
    return np.asarray(p * (d_out @ v.T * kept - (d_out * out).sum(axis=-1, keepdims=True)))


@dataclass(frozen=True, slots=True)
class _Call:
    """Tensors as [B, N, S, D] of their own types; bias and mask over the scores, bits in bytes."""

    q: Array
    k: Array
    v: Array
    bias: Array | None
    hidden: Array
    drop_mask: Array | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Axes of the scores: B, N1, S1, S2."""
        return self.hidden.shape

    def some_rows(self, rows: Array) -> list[Array]:
        """Return rows in portions of which memory holds the scores."""
        step = max(1, MOST_SCORES // max(1, self.shape[3]))
        return [rows[i : i + step] for i in range(0, len(rows), step)]

    def kv_of(self, at: tuple[int, ...]) -> tuple[int, int]:
        """Return batch and key head of a batch and query head."""
        return at[0], at[1] * self.k.shape[1] // self.q.shape[1]

    def bias_of(self, at: tuple[int, ...]) -> tuple[int, ...]:
        """Return where the bias of a batch and query head stands."""
        assert self.bias is not None
        return tuple(0 if length == 1 else i for i, length in zip(at, self.bias.shape[:2], strict=True))

    def kept(self, at: tuple[int, ...]) -> Array:
        """Return the bits of a batch and query head as 0.0 and 1.0, [S1, S2]."""
        assert self.drop_mask is not None
        count = self.shape[2] * self.shape[3]
        first = (at[0] * self.shape[1] + at[1]) * count
        raw = np.asarray(self.drop_mask, np.uint8).reshape(-1)[first // 8 : -(-(first + count) // 8)]
        bits = np.unpackbits(raw, bitorder="little")[first % 8 :][:count]
        return bits.reshape(self.shape[2:]).astype(np.float64)


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the forward pass makes of rows of a head: P, what dropout multiplies it with, statistics and output."""

    p: Array
    kept: Array
    largest: Array
    total: Array
    out: Array
    hidden_rows: NDArray[np.bool_]

    def kept_of(self, columns: Array) -> Array:
        """Return what dropout multiplies some columns of P with."""
        return self.kept if self.kept.shape[1] == 1 else self.kept[:, columns]


def _wide(x: Array) -> Array:
    return np.asarray(x, np.float64)


def _rows_of(bias: Array, rows: Array) -> Array:
    """Rows of a bias that may have one for all."""
    return bias if bias.shape[0] == 1 else bias[rows]


def _spreads(bias: tuple[int, ...], scores: tuple[int, ...]) -> bool:
    """Whether a bias belongs to scores [B, N1, S1, S2]."""
    plain = all(length in (1, whole) for length, whole in zip(bias, scores, strict=True))
    leading = all(length in (1, whole) for length, whole in zip(bias[:2], scores[:2], strict=True))
    return plain or (leading and is_alibi(bias[2:], scores[2:]))


def _check_bits(drop_mask: Array, shape: tuple[int, ...]) -> None:
    bits, count = 8 * np.size(drop_mask), int(np.prod(shape))
    if bits < count:
        raise ValueError(f"the drop mask has {bits} bits, {count} are needed")


def to_bnsd(x: Array, layout: Layout, heads: int) -> Array:
    """Return a tensor in one of the layouts as [B, N, S, D] of float64.

    Raises:
        ValueError: an unknown layout, or columns that are no multiple of the heads.
    """
    return _wide(_bnsd_view(x, layout, heads))


def _bnsd_view(x: Array, layout: Layout, heads: int) -> Array:
    """As `to_bnsd`, of the tensor's own type."""
    x = np.asarray(x)
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


def is_alibi(pse: tuple[int, ...], scores: tuple[int, ...]) -> bool:
    """Return whether a bias with these last two axes holds the last rows of one for scores [S1, S2]."""
    return pse[0] == ALIBI_ROWS < scores[0] == scores[1] == pse[1]


def spread_bias(pse: Array, scores: tuple[int, ...]) -> Array:
    """Return a head's bias so that it spreads to scores [S1, S2]; above the diagonal a cut one is 0."""
    if not is_alibi(pse.shape, scores):
        return pse
    rows, columns, is_below = _alibi_places(scores[0])
    return np.where(is_below, pse[rows, columns], 0)


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
    """Sum the gradient of a head's bias over the scores that each of its elements serves."""
    if not is_alibi(shape, grad.shape):
        axes = tuple(axis for axis, length in enumerate(shape) if length == 1)
        return np.asarray(grad.sum(axis=axes, keepdims=True))
    rows, columns, is_below = _alibi_places(grad.shape[0])
    places = (rows * shape[1] + columns)[is_below]
    return np.bincount(places, grad[is_below], ALIBI_ROWS * shape[1]).reshape(shape)
