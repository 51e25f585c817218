"""Choices of a FlashAttention backward call, what the host says of them, and the scenario and inputs that they make."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pairwise import Case, Covering, covering

from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, DType
from ascendsim.errors import InputError
from ascendsim.fag_operator import FagKeys, fag_host
from ascendsim.op_host.fag_kernels import FagKernelTiling
from ascendsim.scenario import Scenario, scenario_from

TEMPLATES = {
    "S1s2Bn2gs1s2": 16000,
    "SameAB": 15500,
    "SameAB det": 1100,
    "S1s2Bn2": 15000,
    "S1s2Bn2 det": 1000,
    "N": 11000,
    "B": 10000,
}
DTYPES: dict[str, DType] = {"bf16": BFLOAT16, "fp16": HALF, "fp32": FLOAT}
KEEP_PROB = 0.8
RANDOMLY_HIDDEN = 0.3
"""Share of the scores that a mask of mode 1 hides."""
SMALL_MASK, SMALL_PREFIX_MASK = (2048, 2048), (3072, 2048)
LONG = 1024

FACTORS = {
    "template": tuple(TEMPLATES),
    "dtype": tuple(DTYPES),
    "layout": ("BNSD", "BSND", "BSH", "SBH"),
    "mask": ("none", "2", "3", "4", "0 S1,S2", "1 B,1,S1,S2", "1 B,N1,S1,S2", "5", "6"),
    "drop": ("none", "bits", "bytes"),
    "pse": ("none", "1 B,N1,S1,S2", "1 B,N1,1,S2", "1 1,N1,S1,S2", "0 B,N1,S1,S2", "0 B,N1,1,S2", "0 1,N1,S1,S2"),
    "B,N1,N2": ("1,2,2", "2,1,1", "2,2,1", "1,3,1", "1,4,2"),
    "D,Dv": ("64,64", "96,96", "128,128", "80,80", "192,192", "192,128", "256,256"),
    "S1,S2": ("48,48", "16,16", "16,48", "48,16", "33,44", "48,64", "1040,16", "16,1040", "1040,44", "48,1040"),
    "AICs": ("1", "2"),
    "tiles": ("own", "small"),
}
"""The plainest choice of each first. A mask begins with its sparse mode, a bias with its pseType."""
DECIDING = ("template", "S1,S2", "B,N1,N2", "AICs", "tiles", "dtype")
"""What else makes a call legal or not."""

LARGE = tuple(
    dict(zip(FACTORS, row.split(" | "), strict=True))
    for row in (
        # products of the L1-custom forms
        "SameAB | bf16 | BSH | 2 | none | none | 1,1,1 | 128,128 | 1040,1040 | 2 | own",
        "SameAB | bf16 | SBH | none | none | none | 1,2,1 | 64,64 | 528,560 | 1 | own",
        "SameAB | bf16 | BSND | none | none | none | 1,2,1 | 128,128 | 1024,512 | 1 | own",
        "SameAB | bf16 | BNSD | 3 | none | none | 1,1,1 | 256,256 | 528,1040 | 2 | own",
        "SameAB | bf16 | BNSD | 4 | none | none | 1,1,1 | 192,128 | 560,528 | 1 | own",
        "S1s2Bn2 | bf16 | BSH | none | none | none | 1,2,2 | 88,88 | 272,304 | 1 | own",
        "S1s2Bn2 | bf16 | SBH | none | none | none | 2,2,1 | 72,72 | 304,272 | 1 | own",
        "S1s2Bn2 | bf16 | BSND | none | none | none | 1,2,2 | 128,128 | 528,640 | 1 | own",
        "S1s2Bn2 | bf16 | BNSD | none | none | none | 1,2,2 | 128,128 | 513,516 | 2 | own",
        # a bias cut to its last rows
        "SameAB | fp16 | BSND | 2 | bits | 1 1,N1,1024,S2 | 2,1,1 | 64,64 | 1040,1040 | 1 | own",
        "SameAB det | bf16 | SBH | 2 | none | 0 B,N1,1024,S2 | 1,1,1 | 80,80 | 1040,1040 | 2 | own",
        "S1s2Bn2gs1s2 | fp32 | BSH | 2 | none | 0 B,N1,1024,S2 | 1,1,1 | 64,64 | 1040,1040 | 1 | own",
        "S1s2Bn2gs1s2 | bf16 | BNSD | 2 | bits | 1 B,N1,1024,S2 | 1,1,1 | 96,96 | 1040,1040 | 1 | own",
    )
)
"""Cases apart: what needs hundreds of rows and of columns."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Axes of a case."""

    b: int
    n1: int
    n2: int
    s1: int
    s2: int
    d: int
    dv: int


def sizes(case: Case) -> Sizes:
    """Return the axes."""
    return Sizes(*(int(n) for factor in ("B,N1,N2", "S1,S2", "D,Dv") for n in case[factor].split(",")))


def cover() -> Covering:
    """Return the cases, and pairs that the host does not take."""
    return covering(FACTORS, DECIDING, reason)


def host(case: Case) -> FagKernelTiling:
    """Return what the kernel is given.

    Raises:
        InputError: the case cannot be run.
    """
    scenario = scenario_of(case)
    shapes = {name: (tuple(spec.shape), spec.element) for name, spec in scenario.tensors.items()}
    return fag_host(scenario.load_device(), shapes, FagKeys.model_validate(scenario.tiling), {})


def reason(case: Case) -> str | None:
    """Return why the case cannot be run, in the host's words; None where it can."""
    try:
        tiling = host(case)
    except InputError as error:
        return str(error)
    form = "none"
    if case["drop"] != "none":
        form = "bytes" if tiling.tiling.pre and tiling.tiling.pre.expands_mask else "bits"
    if form != case["drop"]:
        return f"the template takes the dropout mask as {form} here"
    if case["pse"].endswith(" 1,N1,S1,S2") and sizes(case).b == 1:
        return "a bias for one batch is one for all where there is but one"
    return None


# ---- the scenario ----------------------------------------------------------------------------------------------------


def scenario_of(case: Case) -> Scenario:
    """Return the scenario; all its inputs come as arrays."""
    s, dtype = sizes(case), DTYPES[case["dtype"]].name
    of = _shapes(case)
    types = dict.fromkeys(of, dtype) | dict.fromkeys(("softmax_max", "softmax_sum"), "float")
    types |= dict.fromkeys(("atten_mask", "drop_mask"), "uint8_t")
    tensors: dict[str, Any] = {
        name: {"role": "input", "shape": list(shape), "dtype": types[name], "fill": "array"}
        for name, shape in of.items()
    }
    for name, like in (("dq", "query"), ("dk", "key"), ("dv", "value")):
        tensors[name] = {"role": "output", "shape": list(of[like]), "dtype": dtype}
    aics = int(case["AICs"])
    keys = {"head_num": s.n1, "layout": case["layout"], "template": TEMPLATES[case["template"]]}
    return scenario_from(
        {
            "schema": 1,
            "operator": "flash_attention_score_grad",
            "platform": {"aic_cores": aics, "aiv_cores": 2 * aics},
            "tiling": keys | _options(case) | _tiles(case),
            "tensors": tensors,
            "expect": {"values": {name: {"reference": "operator", "bound": "operator"} for name in ("dq", "dk", "dv")}},
        },
        Path("fag.toml"),
    )


def _shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs."""
    s = sizes(case)

    def axes(n: int, length: int, columns: int) -> tuple[int, ...]:
        return {
            "BNSD": (s.b, n, length, columns),
            "BSND": (s.b, length, n, columns),
            "BSH": (s.b, length, n * columns),
            "SBH": (length, s.b, n * columns),
        }[case["layout"]]

    statistics = s.b, s.n1, s.s1, 8
    of = {
        "query": axes(s.n1, s.s1, s.d),
        "key": axes(s.n2, s.s2, s.d),
        "value": axes(s.n2, s.s2, s.dv),
        "dy": axes(s.n1, s.s1, s.dv),
        "softmax_max": statistics,
        "softmax_sum": statistics,
        "attention_in": axes(s.n1, s.s1, s.dv),
    }
    mask = mask_shape(case)
    if mask:
        of["atten_mask"] = mask
    if case["pse"] != "none":
        of["pse_shift"] = _named(case["pse"].split()[1], s)
    if case["drop"] != "none":
        of["drop_mask"] = (-(-s.b * s.n1 * s.s1 * s.s2 // 8),)
    return of


def _named(axes: str, s: Sizes) -> tuple[int, ...]:
    known = {"B": s.b, "N1": s.n1, "S1": s.s1, "S2": s.s2}
    return tuple(known.get(axis) or int(axis) for axis in axes.split(","))


def mask_shape(case: Case) -> tuple[int, ...] | None:
    """Return the axes of the attention mask; templates N and B take small ones of any size that is large enough."""
    mode, _, axes = case["mask"].partition(" ")
    if mode == "none":
        return None
    s = sizes(case)
    if mode == "6":
        return SMALL_PREFIX_MASK
    return SMALL_MASK if mode in "234" else _named(axes or "B,1,S1,S2", s)


def _options(case: Case) -> dict[str, Any]:
    s, mode = sizes(case), case["mask"][0]
    keys: dict[str, Any] = {"deterministic": case["template"].endswith("det")}
    if case["pse"] != "none":
        keys["pse_type"] = int(case["pse"][0])
    if case["drop"] != "none":
        keys["keep_prob"] = KEEP_PROB
    if mode != "n":
        keys["sparse_mode"] = int(mode)
    if mode == "0":
        keys |= {"pre_tokens": s.s1 // 2, "next_tokens": s.s2 // 3}
    if mode == "4":  # of the keys that the last query may see, the last half; and some after its own
        keys |= {"pre_tokens": s.s2 // 2, "next_tokens": 6}
    if mode in "56":
        least = max(s.s2 - s.s1, 0)
        keys["prefix"] = [least + (s.s2 - least) * (batch + 1) // 3 for batch in range(s.b)]
    return keys


def _tiles(case: Case) -> dict[str, int]:
    """Return tiles that make several blocks even of short sequences, and several sub-tiles of a block."""
    if case["tiles"] == "own":
        return {}
    if case["template"] in ("N", "B"):
        return {"units": 1, "cv_units": 1}
    is_long = [length > LONG for length in (sizes(case).s1, sizes(case).s2)]
    keys = {name: 256 if long else 32 for name, long in zip(("cv_s1", "cv_s2"), is_long, strict=True)}
    if case["template"].startswith("S1s2Bn2"):
        keys |= {"vec_s1": 64 if is_long[0] else 16, "vec_s2": 64 if is_long[1] else 32}
    return keys


# ---- its inputs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spread:
    """Deviations of normal inputs.

    Attributes:
        query: of query, key and pse.
        value: of value and dy.
    """

    query: float = 1.0
    value: float = 1.0


def hidden_in(case: Case) -> np.ndarray[Any, Any]:
    """Return the attention mask itself, uint8."""
    mode, shape, s = case["mask"][0], mask_shape(case), sizes(case)
    assert shape is not None
    rows, columns = np.arange(shape[-2])[:, None], np.arange(shape[-1])
    keys = _options(case)
    if mode in "234":
        hidden = columns > rows
    elif mode == "6":
        hidden = np.where(rows < SMALL_MASK[0], columns > rows, columns >= SMALL_MASK[1] // 2)
    elif mode == "5":
        hidden = (columns - rows > s.s2 - s.s1) & (columns >= np.reshape(keys["prefix"], (-1, 1, 1, 1)))
    elif mode == "0":
        hidden = (columns - rows > keys["next_tokens"]) | (rows - columns > keys["pre_tokens"])
    else:  # each query keeps a key
        hidden = np.random.RandomState(9).random_sample(shape) < RANDOMLY_HIDDEN
        hidden &= columns != rows % s.s2
    return np.broadcast_to(hidden, shape).astype(np.uint8)


def kept_in(case: Case) -> np.ndarray[Any, Any]:
    """Return which scores dropout keeps, [B, N1, S1, S2]."""
    s = sizes(case)
    return np.random.RandomState(8).random_sample((s.b, s.n1, s.s1, s.s2)) < KEEP_PROB


def given(case: Case, spread: Spread) -> dict[str, np.ndarray[Any, Any]]:
    """Return the inputs that do not follow from others."""
    kind, shapes = DTYPES[case["dtype"]].numpy, _shapes(case)
    arrays = {}
    scales = {"query": spread.query, "key": spread.query, "value": spread.value, "dy": spread.value, "pse_shift": 1.0}
    for seed, (name, scale) in enumerate(scales.items()):
        if name in shapes:
            arrays[name] = (np.random.RandomState(seed).standard_normal(shapes[name]) * scale).astype(kind)
    if "atten_mask" in shapes:
        arrays["atten_mask"] = hidden_in(case)
    if "drop_mask" in shapes:
        bits = np.packbits(kept_in(case).reshape(-1), bitorder="little")
        arrays["drop_mask"] = bits
    return arrays
