"""FlashAttention backward in NumPy, once in float64 and once with the roundings that the operator documents.

Written from the formulas and the table of roundings alone, for one batch and query head after the other, without tiles.

Source: ops-transformer, aclnnFlashAttentionScoreGrad page and op_kernel: vector steps in float, A and dS cast to 16 bits
with ROUND (ties away from zero), sums in float, gradients cast with ROUND; dV of templates N and B with RINT.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from fag_cover_cases import KEEP_PROB, Case, Spread, given, kept_in, scenario_of, sizes

from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, DType, cast
from ascendsim.fag_operator import FagKeys, _left_out
from ascendsim.terms import RoundMode

Array = np.ndarray[Any, Any]
LOWEST = np.finfo(np.float32).min
LANES = 8
DTYPES: dict[str, DType] = {"bf16": BFLOAT16, "fp16": HALF, "fp32": FLOAT}
GRADIENTS = ("dq", "dk", "dv")


@dataclass(frozen=True, slots=True)
class Expected:
    """What a case should give.

    Attributes:
        arrays: all inputs of the call.
        exact: gradients in float64, from the inputs as they are.
        rounded: gradients as float sums and scales leave them, before their last cast, from rounded A, dS and O.
        flip: how far one A or dS that falls to its other neighbour moves a gradient at most.
    """

    arrays: dict[str, Array]
    exact: dict[str, Array]
    rounded: dict[str, Array]
    flip: dict[str, float]


def expected(case: Case, spread: Spread) -> Expected:
    """Return the inputs of a case, with what the forward pass leaves, and the gradients."""
    s, dtype = sizes(case), DTYPES[case["dtype"]]
    arrays = given(case, spread)
    layer = _Layer(case, arrays)
    statistics = np.empty((2, s.b, s.n1, s.s1, LANES), np.float32)
    out = np.empty((s.b, s.n1, s.s1, s.dv))
    for at in np.ndindex(s.b, s.n1):
        scores = layer.scores(at, np.float64)
        largest = scores.max(axis=-1, keepdims=True)
        p = np.exp(scores - largest)
        statistics[0][at], statistics[1][at] = largest, p.sum(axis=-1, keepdims=True)
        out[at] = p / p.sum(axis=-1, keepdims=True) * layer.kept(at) / KEEP_PROB**layer.drops @ layer.v[layer.kv(at)]
    arrays["softmax_max"], arrays["softmax_sum"] = statistics
    arrays["attention_in"] = cast(_from_bnsd(out, case["layout"]), dtype, RoundMode.CAST_RINT)
    skipped = _skipped(case, arrays)
    exact = {name: np.zeros(x.shape) for name, x in zip(GRADIENTS, (layer.q, layer.k, layer.v), strict=True)}
    rounded = {name: np.zeros(x.shape) for name, x in exact.items()}
    flip = dict.fromkeys(GRADIENTS, 0.0)
    read_out = _to_bnsd(arrays["attention_in"].astype(np.float64), case["layout"], s.n1)
    for at in np.ndindex(s.b, s.n1):
        hidden = skipped[at[0] % len(skipped), 0]
        a, d_s = layer.exact_tiles(at, out[at], hidden)
        _add(exact, layer, at, a, d_s)
        a, d_s = layer.rounded_tiles(at, read_out[at], hidden, statistics[:, *at, :, :1], dtype)
        _add(rounded, layer, at, a, d_s)
        for name, tile, other in (
            ("dq", d_s, layer.k[layer.kv(at)] * layer.scale),
            ("dk", d_s, layer.q[at] * layer.scale),
            ("dv", a, layer.dy[at]),
        ):
            flip[name] = max(flip[name], float(np.abs(tile).max() * np.abs(other).max()) * _ulp(dtype))
    for name in ("dq", "dk"):
        exact[name] *= layer.scale
        rounded[name] = (rounded[name].astype(np.float32) * np.float32(layer.scale)).astype(np.float64)
    return Expected(
        arrays,
        {name: _from_bnsd(x, case["layout"]) for name, x in exact.items()},
        {name: _from_bnsd(x, case["layout"]) for name, x in rounded.items()},
        flip,
    )


def _ulp(dtype: DType) -> float:
    return {"bfloat16_t": 2.0**-7, "half": 2.0**-10, "float": 2.0**-23}[dtype.name]


def half_step(x: Array, dtype: DType) -> Array:
    """Return half the distance of neighbours of a type where values lie."""
    least = {"bfloat16_t": -126, "half": -14, "float": -126}[dtype.name]
    exponent = np.maximum(np.floor(np.log2(np.maximum(np.abs(x), 1e-300))), least)
    return _ulp(dtype) / 2 * 2.0**exponent


def _add(to: dict[str, Array], layer: "_Layer", at: tuple[int, ...], a: Array, d_s: Array) -> None:
    to["dq"][at] += d_s @ layer.k[layer.kv(at)]
    to["dk"][layer.kv(at)] += d_s.T @ layer.q[at]
    to["dv"][layer.kv(at)] += a.T @ layer.dy[at]


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
        self.drops = case["drop"] != "none"
        whole = s.b, s.n1, s.s1, s.s2
        self.bias = np.broadcast_to(wide.get("pse_shift", np.zeros((1, 1, 1, 1))), whole)
        self.hidden = np.broadcast_to(_hidden(case, arrays), whole)
        self._kept = kept_in(case) if self.drops else np.ones((1, 1, 1, 1), np.bool_)
        self._kept = np.broadcast_to(self._kept, whole)

    def kv(self, at: tuple[int, ...]) -> tuple[int, int]:
        return at[0], at[1] * self.sizes.n2 // self.sizes.n1

    def kept(self, at: tuple[int, ...]) -> Array:
        return self._kept[at]

    def scores(self, at: tuple[int, ...], kind: type[np.floating[Any]]) -> Array:
        """Return scaled scores with a bias, hidden ones at the lowest float; each step in `kind`."""
        products = (self.q[at] @ self.k[self.kv(at)].T).astype(kind)
        scale, bias = kind(self.scale), self.bias[at].astype(kind)
        scores = products * scale + bias if self.case["pse"].startswith("0") else (products + bias) * scale
        return np.where(self.hidden[at], kind(LOWEST), scores)

    def exact_tiles(self, at: tuple[int, ...], out: Array, skipped: Array) -> tuple[Array, Array]:
        """Return A and dS in float64."""
        scores = self.scores(at, np.float64)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        p = np.where(skipped, 0.0, p / p.sum(axis=-1, keepdims=True))
        kept = self.kept(at) / KEEP_PROB**self.drops
        d_p = self.dy[at] @ self.v[self.kv(at)].T * kept
        return p * kept, p * (d_p - (self.dy[at] * out).sum(axis=-1, keepdims=True))

    def rounded_tiles(
        self, at: tuple[int, ...], out: Array, skipped: Array, statistics: Array, dtype: DType
    ) -> tuple[Array, Array]:
        """Return A and dS, made in floats and cast to the type of the inputs."""
        p = np.exp(self.scores(at, np.float32) - statistics[0]) / statistics[1]
        p = np.where(skipped, np.float32(0), p)
        kept, factor = self.kept(at), np.float32(1 / np.float32(KEEP_PROB)) if self.drops else np.float32(1)
        d_a = (self.dy[at] @ self.v[self.kv(at)].T).astype(np.float32)
        row_term = (self.dy[at] * out).sum(axis=-1, keepdims=True).astype(np.float32)
        d_s = (np.where(kept, d_a, np.float32(0)) * factor - row_term) * p
        a = np.where(kept, p, np.float32(0)) * factor
        if dtype is FLOAT:
            return a.astype(np.float64), d_s.astype(np.float64)
        return tuple(cast(x, dtype, RoundMode.CAST_ROUND).astype(np.float64) for x in (a, d_s))


def _hidden(case: Case, arrays: dict[str, Array]) -> Array:
    """Return what is hidden, to spread over [B, N1, S1, S2]; a small mask stands for the band of its mode."""
    s, mode = sizes(case), case["mask"][0]
    if mode == "n":
        return np.zeros((1, 1, 1, 1), np.bool_)
    if mode in "015":
        mask = arrays["atten_mask"].astype(np.bool_)
        return mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    apart = np.arange(s.s2) - np.arange(s.s1)[:, None]
    keys = scenario_of(case).tiling
    if mode == "2":
        return apart > 0
    behind = apart > s.s2 - s.s1
    if mode == "3":
        return behind
    if mode == "6":
        return behind & (np.arange(s.s2) >= np.reshape(keys["prefix"], (-1, 1, 1, 1)))
    return (apart - (s.s2 - s.s1) > keys["next_tokens"]) | (s.s2 - s.s1 - apart > keys["pre_tokens"])


def _to_bnsd(x: Array, layout: str, heads: int) -> Array:
    if layout in ("BSH", "SBH"):
        x = x.reshape(*x.shape[:2], heads, -1)
    return x.transpose({"BNSD": (0, 1, 2, 3), "SBH": (1, 2, 0, 3)}.get(layout, (0, 2, 1, 3)))


def _from_bnsd(x: Array, layout: str) -> Array:
    x = x.transpose({"BNSD": (0, 1, 2, 3), "SBH": (2, 0, 1, 3)}.get(layout, (0, 2, 1, 3)))
    return np.ascontiguousarray(x.reshape(*x.shape[:2], -1) if layout in ("BSH", "SBH") else x)
