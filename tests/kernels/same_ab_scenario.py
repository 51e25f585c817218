"""Scenarios of FlashAttention backward that template SameAB takes, and its kernel without one of its flags."""

from pathlib import Path
from typing import Any

import pytest

from ascendsim.op_kernel import fag_same_ab
from ascendsim.record import AiCore
from ascendsim.scenario import Scenario, scenario_from

LEFT_OUT = -1
"""Id of a flag that is neither set nor awaited."""
SEEDS = {"query": 1, "key": 2, "value": 3, "dy": 4}


def scenario(
    shape: tuple[int, int, int, int, int, int],
    tile: tuple[int, int] | None,
    *,
    layout: str = "BNSD",
    dtype: str = "bfloat16_t",
    n2: int | None = None,
    mask: list[int] | None = None,
    pse: list[int] | None = None,
    drops: bool = False,
    cores: int = 2,
    **keys: Any,
) -> Scenario:
    """B, N1, S1, S2, D, Dv on some AI Cores, with score tiles of these rows and columns, or the operator's own."""
    b, n1, s1, s2, d, dv = shape
    n2 = n2 or n1
    tiles = {"cv_s1": tile[0], "cv_s2": tile[1]} if tile else {}

    def axes(n: int, s: int, columns: int) -> list[int]:
        return {
            "BNSD": [b, n, s, columns],
            "BSND": [b, s, n, columns],
            "BSH": [b, s, n * columns],
            "SBH": [s, b, n * columns],
        }[layout]

    of = {
        "query": axes(n1, s1, d),
        "key": axes(n2, s2, d),
        "value": axes(n2, s2, dv),
        "dy": axes(n1, s1, dv),
    }
    tensors: dict[str, Any] = {
        name: {"role": "input", "shape": of[name], "dtype": dtype, "fill": "normal", "seed": seed}
        for name, seed in SEEDS.items()
    }
    for name in ("softmax_max", "softmax_sum"):
        tensors[name] = {"role": "input", "shape": [b, n1, s1, 8], "dtype": "float", "fill": "operator"}
    tensors["attention_in"] = {"role": "input", "shape": of["dy"], "dtype": dtype, "fill": "operator"}
    if mask:
        tensors["atten_mask"] = {"role": "input", "shape": mask, "dtype": "uint8_t", "fill": "operator"}
    if pse:
        tensors["pse_shift"] = {"role": "input", "shape": pse, "dtype": dtype, "fill": "normal", "seed": 5}
    if drops:
        length = [-(-b * n1 * s1 * s2 // 8)]
        tensors["drop_mask"] = {"role": "input", "shape": length, "dtype": "uint8_t", "fill": "operator"}
        keys = {"keep_prob": 0.8} | keys
    for name, like in (("dq", "query"), ("dk", "key"), ("dv", "value")):
        tensors[name] = {"role": "output", "shape": of[like], "dtype": dtype}
    return scenario_from(
        {
            "schema": 1,
            "operator": "flash_attention_score_grad",
            "platform": {"aic_cores": cores, "aiv_cores": 2 * cores},
            "tiling": {"head_num": n1, "layout": layout, "template": 15500, **tiles, **keys},
            "tensors": tensors,
            "expect": {"values": {name: {"reference": "operator", "bound": "operator"} for name in ("dq", "dk", "dv")}},
        },
        Path("fag.toml"),
    )


def leave_out(monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    """Have the kernel neither set nor await a flag between cores, named as in its module."""
    id_of, left_out = fag_same_ab._flag, getattr(fag_same_ab, flag)
    monkeypatch.setattr(
        fag_same_ab, "_flag", lambda number, block, t: LEFT_OUT if number == left_out else id_of(number, block, t)
    )
    for name in ("cross_core_set_flag", "cross_core_wait_flag"):
        leave_out_calls(monkeypatch, name, lambda _mode, _pipe, number: number == LEFT_OUT)


def leave_out_calls(monkeypatch: pytest.MonkeyPatch, name: str, is_left_out: Any) -> None:
    """Have a core's API do nothing for some arguments."""
    form = next(base.__dict__[name] for base in AiCore.__mro__ if name in base.__dict__)

    def call(asc: AiCore) -> Any:
        real = form.__get__(asc, AiCore)
        return lambda *args: None if is_left_out(*args) else real(*args)

    monkeypatch.setattr(AiCore, name, property(call), raising=False)
