"""FlashAttention backward, template S1s2Bn2: gradients against the float64 reference, and flags that are needed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascendsim import machine
from ascendsim.errors import Severity
from ascendsim.op_host import fag_tiling_s1s2_bn2
from ascendsim.op_kernel import fag_s1s2_bn2_custom, fag_served
from ascendsim.record import AiCore
from ascendsim.scenario import Scenario, scenario_from
from ascendsim.terms import HardEvent

SEEDS = {"query": 1, "key": 2, "value": 3, "dy": 4}


def scenario(
    shape: tuple[int, int, int, int, int],
    *,
    layout: str = "BNSD",
    dtype: str = "bfloat16_t",
    n2: int | None = None,
    aic: int = 1,
    mask: list[int] | None = None,
    pse: list[int] | None = None,
    **keys: Any,
) -> Scenario:
    """B, N1, S1, S2, D on so many AI Cores."""
    b, n1, s1, s2, d = shape
    n2 = n2 or n1

    def axes(n: int, s: int) -> list[int]:
        return {"BNSD": [b, n, s, d], "BSND": [b, s, n, d], "BSH": [b, s, n * d], "SBH": [s, b, n * d]}[layout]

    of = {"query": axes(n1, s1), "key": axes(n2, s2), "value": axes(n2, s2), "dy": axes(n1, s1)}
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
    if "keep_prob" in keys:
        size = -(-b * n1 * s1 * s2 // 8)
        tensors["drop_mask"] = {"role": "input", "shape": [size], "dtype": "uint8_t", "fill": "operator"}
    for name, like in (("dq", "query"), ("dk", "key"), ("dv", "value")):
        tensors[name] = {"role": "output", "shape": of[like], "dtype": dtype}
    return scenario_from(
        {
            "schema": 1,
            "operator": "flash_attention_score_grad",
            "platform": {"aic_cores": aic, "aiv_cores": 2 * aic},
            "tiling": {"head_num": n1, "layout": layout, "template": 15000, **keys},
            "tensors": tensors,
            "expect": {"values": {name: {"reference": "operator", "bound": "operator"} for name in ("dq", "dk", "dv")}},
        },
        Path("fag.toml"),
    )


SMALL = {"cv_s1": 64, "cv_s2": 64, "vec_s1": 32, "vec_s2": 32}
TWO_HEADS = scenario((1, 2, 64, 64, 32), cv_s1=32, cv_s2=32, vec_s1=16, vec_s2=16)
CASES = {
    "two heads of four blocks, one for each AIV": TWO_HEADS,
    "three heads for two AIVs": scenario((1, 3, 64, 64, 32), cv_s1=32, cv_s2=32),
    "the tiles of the operator, fp16": scenario((2, 2, 48, 144, 64), dtype="half"),
    "BSH, tails of rows and columns": scenario((1, 2, 70, 50, 64), layout="BSH", cv_s1=64, cv_s2=48),
    "SBH, float": scenario((2, 1, 48, 80, 64), layout="SBH", dtype="float", cv_s1=32, cv_s2=48),
    "BSND, two query heads for a key head": scenario((1, 4, 48, 32, 32), layout="BSND", n2=2, cv_s1=32, cv_s2=32),
    "S1 of 16": scenario((1, 2, 16, 48, 96), dtype="half"),
    "a block of one row": scenario((1, 2, 33, 48, 64), cv_s1=32, cv_s2=48),
    "sums in NZ": scenario((1, 2, 64, 64, 80), layout="BSH", cv_s1=32, cv_s2=64),
    "sums in NZ, D no multiple of 16": scenario((1, 2, 48, 80, 72), cv_s1=48, cv_s2=48),
    "D of 192, float": scenario((1, 2, 48, 64, 192), dtype="float"),
    "D of 256": scenario((1, 2, 32, 48, 256)),
    "more rows than the row term takes at a time": scenario((1, 2, 80, 32, 128)),
    "bias, added before the scores are scaled": scenario((1, 2, 64, 64, 64), pse=[1, 2, 64, 64], **SMALL),
    "bias of one row, added behind": scenario((1, 2, 64, 64, 64), pse=[1, 2, 1, 64], pse_type=0, dtype="half", **SMALL),
    "bias, float": scenario((1, 2, 64, 64, 64), pse=[1, 2, 64, 64], dtype="float", **SMALL),
    "causal, whole mask": scenario((1, 2, 64, 96, 64), mask=[1, 2, 64, 96], next_tokens=32, **SMALL),
    "causal, compressed mask, blocks left out": scenario(
        (1, 2, 96, 96, 32), mask=[2048, 2048], sparse_mode=2, dtype="float", **SMALL
    ),
    "causal from the bottom right": scenario((1, 2, 64, 96, 64), mask=[2048, 2048], sparse_mode=3, **SMALL),
    "a band": scenario((1, 2, 128, 128, 64), mask=[2048, 2048], sparse_mode=4, pre_tokens=40, next_tokens=8, **SMALL),
    "a prefix, whole mask": scenario(
        (1, 2, 64, 96, 64), mask=[1, 1, 64, 96], sparse_mode=5, prefix=[40], dtype="half", **SMALL
    ),
    "a prefix, compressed mask": scenario((1, 2, 64, 64, 64), mask=[3072, 2048], sparse_mode=6, prefix=[20], **SMALL),
    "dropout by bits": scenario((1, 2, 64, 64, 64), keep_prob=0.8, **SMALL),
    "dropout by bytes, float": scenario((1, 2, 64, 80, 64), keep_prob=0.8, dtype="float", **SMALL),
    "dropout, bias and mask": scenario(
        (1, 2, 64, 72, 64), keep_prob=0.8, pse=[1, 2, 64, 72], mask=[64, 72], next_tokens=40, **SMALL
    ),
    "the deterministic form": scenario((1, 2, 64, 64, 64), **SMALL | {"deterministic": True, "template": 1000}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_are_those_of_the_reference(case):
    result = machine.run(case)
    assert [(e.what, e.met) for e in result.expectations] == [(f"values of {n}", True) for n in ("dq", "dk", "dv")]
    assert not [f for f in result.findings if f.severity is Severity.ERROR]


def test_a_second_run_gives_the_same_bytes():
    one, other = machine.run(TWO_HEADS).outputs, machine.run(TWO_HEADS).outputs
    assert all(np.array_equal(one[name].view(np.uint16), other[name].view(np.uint16)) for name in ("dq", "dk", "dv"))


def codes(case: Scenario) -> set[str]:
    return {f.code for f in machine.check(case) if f.severity is Severity.ERROR}


def test_check_finds_no_error():
    assert codes(TWO_HEADS) == set()


@pytest.mark.parametrize(
    "event", [HardEvent.MTE2_V, HardEvent.V_MTE3, HardEvent.MTE3_MTE2], ids=lambda event: event.name
)
def test_missing_flags_inside_a_core_are_found(monkeypatch, event):
    for name in ("set_flag", "wait_flag"):
        monkeypatch.setattr(AiCore, name, but_for(name, 0, event), raising=False)
    assert codes(TWO_HEADS) & {"E-RACE-RAW", "E-RACE-WAR"}


@pytest.mark.parametrize("flag", ["SCORES_ARE_THERE", "TILES_ARE_THERE", "SUMS_ARE_THERE"])
@pytest.mark.parametrize("aiv", [0, 1])
def test_missing_flags_between_cores_are_found(monkeypatch, flag, aiv):
    """Neither set nor awaited: what it orders is a race between cores."""
    left_out = getattr(fag_served, flag) + (aiv if flag != "SUMS_ARE_THERE" else 0)
    for name in ("cross_core_set_flag", "cross_core_wait_flag"):
        monkeypatch.setattr(AiCore, name, but_for(name, 2, left_out), raising=False)
    assert codes(TWO_HEADS) & {"E-RACE-GM", "E-RACE-RAW", "E-RACE-WAR"}


def but_for(name: str, place: int, left_out: int) -> property:
    """A call about flags as it is, but for those with this argument at a place."""
    form = next(base.__dict__[name] for base in AiCore.__mro__ if name in base.__dict__)

    def call(asc: AiCore) -> Any:
        real = form.__get__(asc, AiCore)
        return lambda *flag, **que: None if flag[place] == left_out else real(*flag, **que)

    return property(call)


def test_without_sync_all_bytes_of_the_dropout_mask_are_not_there(monkeypatch):
    monkeypatch.setattr(AiCore, "sync_all", lambda *_, **__: None)
    assert codes(scenario((1, 3, 32, 40, 64), keep_prob=0.8)) >= {"E-RACE-GM"}


# ---- L1-custom -------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_custom(monkeypatch):
    """L1-custom for every call, with score tiles of 128 x 128: the operator takes it for hundreds of rows."""
    monkeypatch.setattr(fag_tiling_s1s2_bn2, "custom_tile", lambda _: (128, 128))


CUSTOM_CASES = {
    "a head of four blocks": scenario((1, 1, 144, 144, 32)),
    "BSH, two query heads for a key head, tails": scenario((2, 2, 40, 150, 32), n2=1, layout="BSH"),
    "a block of one row": scenario((1, 3, 129, 48, 64), layout="SBH"),
    "sums in NZ, two AI Cores": scenario((1, 3, 48, 64, 88), layout="BSND", aic=2),
}


@pytest.mark.usefixtures("small_custom")
@pytest.mark.parametrize("case", CUSTOM_CASES.values(), ids=CUSTOM_CASES)
def test_gradients_of_the_l1_custom_form_are_those_of_the_reference(case):
    result = machine.run(case)
    assert [(e.what, e.met) for e in result.expectations] == [(f"values of {n}", True) for n in ("dq", "dk", "dv")]
    assert not [f for f in result.findings if f.severity is Severity.ERROR]


@pytest.mark.usefixtures("small_custom")
@pytest.mark.parametrize("flag", ["SCORES_ARE_THERE", "TILES_ARE_THERE", "QUERY_SUMS_ARE_THERE", "KEY_SUMS_ARE_THERE"])
def test_missing_flags_between_cores_of_the_l1_custom_form_are_found(monkeypatch, flag):
    for name in ("cross_core_set_flag", "cross_core_wait_flag"):
        monkeypatch.setattr(AiCore, name, but_for(name, 2, getattr(fag_s1s2_bn2_custom, flag)), raising=False)
    assert codes(CUSTOM_CASES["a head of four blocks"]) & {"E-RACE-GM", "E-RACE-RAW", "E-RACE-WAR"}


@pytest.mark.usefixtures("small_custom")
@pytest.mark.parametrize("event", [HardEvent.MTE2_MTE1, HardEvent.MTE1_MTE2], ids=lambda event: event.name)
def test_missing_flags_between_loads_and_products_are_found(monkeypatch, event):
    for name in ("set_flag", "wait_flag"):
        monkeypatch.setattr(AiCore, name, but_for(name, 0, event), raising=False)
    assert codes(CUSTOM_CASES["a head of four blocks"]) & {"E-RACE-RAW", "E-RACE-WAR"}
