"""FlashAttention backward in NumPy, once in float64 and once with the roundings that the operator documents.

Written from the formulas and the table of roundings alone: one batch and query head after the other, without tiles.

Source: ops-transformer, aclnnFlashAttentionScoreGrad page and op_kernel. Vector steps are in float; A and dS are cast
to 16 bits with ROUND (ties away from zero); sums are in float; gradients are cast with ROUND, dV of templates N and B
with RINT.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from fag_cover_cases import DTYPES, KEEP_PROB, Case, Spread, given, kept_in, scenario_of, sizes

from ascendsim.dtypes import FLOAT, DType, cast
from ascendsim.fag_operator import FagKeys, _left_out
from ascendsim.terms import RoundMode

Array = np.ndarray[Any, Any]
LOWEST = np.finfo(np.float32).min
LANES = 8
ALIBI_ROWS = 1024
GRADIENTS = ("dq", "dk", "dv")
STEPS = {"bf16": 2.0**-7, "fp16": 2.0**-10, "fp32": 2.0**-23}
"""From 1 to the next value of a type."""
LEAST_EXPONENT = {"bf16": -126, "fp16": -14, "fp32": -126}
"""Of values that are not denormal."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a case should give.

    Attributes:
        arrays: all inputs of the call.
        exact: gradients in float64, from the inputs as they are.
        rounded: gradients before their last cast, as floats, from rounded A, dS and attention_in.
        stored: the same behind it.
        flip: how far one A or dS that falls to its other neighbour moves a gradient at most.
    """

    arrays: dict[str, Array]
    exact: dict[str, Array]
    rounded: dict[str, Array]
    stored: dict[str, Array]
    flip: dict[str, float]


def expected(case: Case, spread: Spread) -> Expected:
    """Return the inputs of a case, with what the forward pass leaves, and the gradients."""
    s, dtype, layout = sizes(case), DTYPES[case["dtype"]], case["layout"]
    arrays = given(case, spread)
    layer = _Layer(case, arrays)
    statistics = np.empty((2, s.b, s.n1, s.s1, LANES), np.float32)
    out = np.empty((s.b, s.n1, s.s1, s.dv))
    for at in np.ndindex(s.b, s.n1):
        statistics[0][at], statistics[1][at], out[at] = layer.forward(at)
    arrays["softmax_max"], arrays["softmax_sum"] = statistics
    arrays["attention_in"] = cast(_from_bnsd(out, layout), dtype, RoundMode.CAST_RINT)
    read_out = _to_bnsd(arrays["attention_in"].astype(np.float64), layout, s.n1)
    skipped = _skipped(case, arrays)
    exact, rounded = layer.zeros(), layer.zeros()
    flip = dict.fromkeys(GRADIENTS, 0.0)
    for at in np.ndindex(s.b, s.n1):
        left_out = skipped[at[0] % len(skipped), 0]
        layer.add(exact, at, *layer.exact_tiles(at, out[at], left_out))
        a, d_s = layer.rounded_tiles(at, read_out[at], left_out, statistics[:, *at, :, :1], dtype)
        layer.add(rounded, at, a, d_s)
        for name, tile, other in (
            ("dq", d_s, layer.k[layer.kv(at)]),
            ("dk", d_s, layer.q[at]),
            ("dv", a, layer.dy[at]),
        ):
            flip[name] = max(flip[name], float(np.abs(tile).max() * np.abs(other).max()) * STEPS[case["dtype"]])
    for name in ("dq", "dk"):
        exact[name] *= layer.scale
        rounded[name] = (rounded[name].astype(np.float32) * np.float32(layer.scale)).astype(np.float64)
        flip[name] *= layer.scale
    return Expected(
        arrays,
        {name: _from_bnsd(x, layout) for name, x in exact.items()},
        {name: _from_bnsd(x, layout) for name, x in rounded.items()},
        {name: _from_bnsd(_stored(case, name, x, dtype), layout) for name, x in rounded.items()},
        flip,
    )


def _stored(case: Case, name: str, x: Array, dtype: DType) -> Array:
    """Return a gradient cast to its type; in templates N and B dV leaves the cube already so."""
    is_of_cube = name == "dv" and case["template"] in ("N", "B")
    mode = RoundMode.CAST_RINT if is_of_cube else RoundMode.CAST_ROUND
    return x.astype(np.float32) if dtype is FLOAT else cast(x.astype(np.float32), dtype, mode)


def half_step(x: Array, dtype: str) -> Array:
    """Return half the distance of neighbours of a type where values lie."""
    exponent = np.maximum(np.frexp(x)[1] - 1, LEAST_EXPONENT[dtype])
    return np.ldexp(STEPS[dtype] / 2, exponent)


def _skipped(case: Case, arrays: dict[str, Array]) -> Array:
    """Return which scores lie in blocks that no core computes: it matters for rows without a key."""
    s, scenario = sizes(case), scenario_of(case)
    left_out = _left_out(arrays, FagKeys.model_validate(scenario.tiling), scenario.load_device())
    return np.zeros((1, 1, s.s1, s.s2), np.bool_) if left_out is None else left_out


class _Layer:
    """Inputs as [B, N, S, D] of float64, and what one head makes of them."""

    def __init__(self, case: Case, arrays: dict[str, Array]) -> None:
        s, layout = sizes(case), case["layout"]
        self.case, self.sizes = case, s
        wide = {name: x.astype(np.float64) for name, x in arrays.items()}
        self.q, self.dy = (_to_bnsd(wide[name], layout, s.n1) for name in ("query", "dy"))
        self.k, self.v = (_to_bnsd(wide[name], layout, s.n2) for name in ("key", "value"))
        self.scale = float(np.float32(1 / np.sqrt(s.d)))
        self.keep_prob = 1.0 if case["drop"] == "none" else KEEP_PROB
        kept = np.ones((1, 1, 1, 1), np.bool_) if case["drop"] == "none" else kept_in(case)
        bias = wide.get("pse_shift", np.zeros((1, 1, 1, 1)))
        whole = s.b, s.n1, s.s1, s.s2
        self.kept, self.bias, self.hidden = (
            np.broadcast_to(x, whole) for x in (kept, _spread_bias(bias, s.s1), _hidden(case, arrays))
        )

    def kv(self, at: tuple[int, ...]) -> tuple[int, int]:
        """Return batch and key head of a batch and query head."""
        return at[0], at[1] * self.sizes.n2 // self.sizes.n1

    def zeros(self) -> dict[str, Array]:
        """Return room for gradients."""
        return {name: np.zeros(x.shape) for name, x in zip(GRADIENTS, (self.q, self.k, self.v), strict=True)}

    def add(self, to: dict[str, Array], at: tuple[int, ...], a: Array, d_s: Array) -> None:
        """Add a head's share to gradients that have no scale yet."""
        to["dq"][at] += d_s @ self.k[self.kv(at)]
        to["dk"][self.kv(at)] += d_s.T @ self.q[at]
        to["dv"][self.kv(at)] += a.T @ self.dy[at]

    def scores(self, at: tuple[int, ...], kind: type[np.floating[Any]]) -> Array:
        """Return scaled scores with a bias, hidden ones at the lowest float; each step in `kind`."""
        products = (self.q[at] @ self.k[self.kv(at)].T).astype(kind)
        scale, bias = kind(self.scale), self.bias[at].astype(kind)
        scores = products * scale + bias if self.case["pse"].startswith("0") else (products + bias) * scale
        return np.where(self.hidden[at], kind(LOWEST), scores)

    def forward(self, at: tuple[int, ...]) -> tuple[Array, Array, Array]:
        """Return largest scores, sums and outputs in float64."""
        scores = self.scores(at, np.float64)
        largest = scores.max(axis=-1, keepdims=True)
        p = np.exp(scores - largest)
        total = p.sum(axis=-1, keepdims=True)
        return largest, total, p / total * self.kept[at] / self.keep_prob @ self.v[self.kv(at)]

    def exact_tiles(self, at: tuple[int, ...], out: Array, left_out: Array) -> tuple[Array, Array]:
        """Return A and dS in float64."""
        scores = self.scores(at, np.float64)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        p = np.where(left_out, 0.0, p / p.sum(axis=-1, keepdims=True))
        kept = self.kept[at] / self.keep_prob
        d_p = self.dy[at] @ self.v[self.kv(at)].T * kept
        return p * kept, p * (d_p - (self.dy[at] * out).sum(axis=-1, keepdims=True))

    def rounded_tiles(
        self, at: tuple[int, ...], out: Array, left_out: Array, statistics: Array, dtype: DType
    ) -> tuple[Array, Array]:
        """Return A and dS, made in floats and cast to the type of the inputs."""
        p = np.exp(self.scores(at, np.float32) - statistics[0]) / statistics[1]
        p = np.where(left_out, np.float32(0), p)
        factor = np.float32(1 / np.float32(self.keep_prob))
        d_a = (self.dy[at] @ self.v[self.kv(at)].T).astype(np.float32)
        row_term = (self.dy[at] * out).sum(axis=-1, keepdims=True).astype(np.float32)
        a, d_p = (np.where(self.kept[at], x, np.float32(0)) * factor for x in (p, d_a))
        d_s = (d_p - row_term) * p
        if dtype is not FLOAT:
            a, d_s = (cast(x, dtype, RoundMode.CAST_ROUND) for x in (a, d_s))
        return a.astype(np.float64), d_s.astype(np.float64)


def _hidden(case: Case, arrays: dict[str, Array]) -> Array:
    """Return what is hidden, to spread over [B, N1, S1, S2]; a small mask stands for the band of its mode."""
    s, mode = sizes(case), case["mask"][0]
    if mode == "n":
        return np.zeros((1, 1, 1, 1), np.bool_)
    if mode in "015":
        mask = arrays["atten_mask"].astype(np.bool_)
        return mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    apart, longer = np.arange(s.s2) - np.arange(s.s1)[:, None], s.s2 - s.s1
    if mode == "2":
        return apart > 0
    if mode == "3":
        return apart > longer
    keys = scenario_of(case).tiling
    if mode == "6":
        return (apart > longer) & (np.arange(s.s2) >= np.reshape(keys["prefix"], (-1, 1, 1, 1)))
    return (apart - longer > keys["next_tokens"]) | (longer - apart > keys["pre_tokens"])


def _spread_bias(bias: Array, length: int) -> Array:
    """Return a bias for all rows of S1 = S2; one of its last 1024 rows goes on along the diagonals."""
    if bias.shape[-2] != ALIBI_ROWS:
        return bias
    first = length - ALIBI_ROWS
    whole = np.zeros((*bias.shape[:2], length, length))
    whole[:, :, first:] = bias
    for i in range(first):
        whole[:, :, i, : i + 1] = bias[:, :, i % ALIBI_ROWS, first + i % ALIBI_ROWS - i :][..., : i + 1]
    return whole


def _to_bnsd(x: Array, layout: str, heads: int) -> Array:
    if layout in ("BSH", "SBH"):
        x = x.reshape(*x.shape[:2], heads, -1)
    return x.transpose({"BNSD": (0, 1, 2, 3), "SBH": (1, 2, 0, 3)}.get(layout, (0, 2, 1, 3)))


def _from_bnsd(x: Array, layout: str) -> Array:
    x = x.transpose({"BNSD": (0, 1, 2, 3), "SBH": (2, 0, 1, 3)}.get(layout, (0, 2, 1, 3)))
    return np.ascontiguousarray(x.reshape(*x.shape[:2], -1) if layout in ("BSH", "SBH") else x)
