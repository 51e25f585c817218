"""FlashAttention backward, templates N and B: gradients against the float64 reference, and flags that are needed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascendsim import machine
from ascendsim.device import load_device
from ascendsim.errors import InputError, Severity
from ascendsim.op_host.fag_call import FagCall, read_shape
from ascendsim.op_host.fag_kernels import kernel_tiling
from ascendsim.op_host.fag_params import FagParams
from ascendsim.op_host.fag_platform import fag_platform
from ascendsim.op_host.fag_tiling import fag_tiling
from ascendsim.op_kernel import fag_heads_pass, fag_whole_heads
from ascendsim.record import AiCore
from ascendsim.scenario import Scenario, load_scenario, scenario_from, shipped
from ascendsim.terms import HardEvent

N, B = 11000, 10000
SEEDS = {"query": 1, "key": 2, "value": 3, "dy": 4}


def scenario(
    template: int,
    shape: tuple[int, int, int, int, int],
    *,
    layout: str = "BNSD",
    dtype: str = "bfloat16_t",
    n2: int | None = None,
    mask: list[int] | None = None,
    pse: list[int] | None = None,
    cores: int = 1,
    **keys: float,
) -> Scenario:
    """B, N1, S1, S2, D; a dropout mask where keys have a keep_prob."""
    b, n1, s1, s2, d = shape

    def axes(n: int, s: int) -> list[int]:
        return {
            "BNSD": [b, n, s, d],
            "BSND": [b, s, n, d],
            "BSH": [b, s, n * d],
            "SBH": [s, b, n * d],
        }[layout]

    of = {name: axes(*((n2 or n1, s2) if name in ("key", "value") else (n1, s1))) for name in SEEDS}
    tensors: dict[str, Any] = {
        # Where a query sees few keys, D of a rounded O alone makes dS differ by more than a bound that is for values
        # of about 1; so dY is smaller.
        name: {
            "role": "input",
            "shape": of[name],
            "dtype": dtype,
            "fill": "normal",
            "seed": seed,
            "scale": 0.5 if name == "dy" else 1.0,
        }
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
        bits = [-(-b * n1 * s1 * s2 // 8)]
        tensors["drop_mask"] = {"role": "input", "shape": bits, "dtype": "uint8_t", "fill": "operator"}
    for name, like in (("dq", "query"), ("dk", "key"), ("dv", "value")):
        tensors[name] = {"role": "output", "shape": of[like], "dtype": dtype}
    return scenario_from(
        {
            "schema": 1,
            "operator": "flash_attention_score_grad",
            "platform": {"aic_cores": cores, "aiv_cores": 2 * cores},
            "tiling": {"head_num": n1, "layout": layout, "template": template, **keys},
            "tensors": tensors,
            "expect": {"values": {name: {"reference": "operator", "bound": "operator"} for name in ("dq", "dk", "dv")}},
        },
        Path("fag.toml"),
    )


CASES = {
    "N, three units and two": scenario(N, (5, 1, 16, 16, 32)),
    "N, two passes a unit": scenario(N, (1, 9, 16, 16, 32), units=1, cv_units=2, cores=2),
    "N, BSH, fp16, tails": scenario(N, (1, 3, 33, 40, 80), layout="BSH", dtype="half"),
    "N, SBH, S 48": scenario(N, (2, 1, 48, 48, 96), layout="SBH"),
    "N, BSND, a whole mask for every head": scenario(
        N, (1, 2, 32, 48, 128), layout="BSND", mask=[1, 2, 32, 48], next_tokens=8
    ),
    "N, D in three pieces": scenario(N, (1, 2, 48, 64, 192)),
    "N, two base blocks, D 256": scenario(N, (1, 1, 144, 48, 256)),
    "N, too few rows for NZ": scenario(N, (1, 2, 3, 200, 64)),
    "N, causal from the bottom right, bias": scenario(
        N, (1, 3, 32, 48, 64), mask=[96, 96], sparse_mode=3, pse=[1, 3, 32, 48]
    ),
    "N, a row of bias for all, a mask for every batch": scenario(
        N, (2, 2, 20, 40, 64), pse=[2, 2, 1, 40], mask=[2, 1, 20, 40], next_tokens=0
    ),
    "N, dropout by bits": scenario(N, (1, 3, 32, 48, 64), keep_prob=0.8),
    "N, dropout by bytes": scenario(N, (1, 3, 24, 40, 64), keep_prob=0.8),
    "B, two units and one": scenario(B, (3, 2, 16, 16, 32), units=1, cv_units=1),
    "B, BSH, two query heads for a key head": scenario(B, (2, 4, 16, 16, 64), layout="BSH", n2=2),
    "B, fp16, three query heads for a key head, tails": scenario(B, (2, 3, 17, 19, 80), n2=1, dtype="half"),
    "B, one row": scenario(B, (3, 2, 1, 48, 64)),
    "B, SBH, D 96": scenario(B, (2, 2, 16, 32, 96), layout="SBH"),
    "B, BSND, dropout by bytes": scenario(B, (2, 2, 16, 15, 64), layout="BSND", keep_prob=0.8),
    "B, causal, a row of bias for all, dropout by bits": scenario(
        B, (2, 2, 16, 16, 64), mask=[64, 64], sparse_mode=2, pse=[2, 2, 1, 16], keep_prob=0.8
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_are_those_of_the_reference(case):
    result = machine.run(case)
    assert [(e.what, e.met) for e in result.expectations] == [(f"values of {n}", True) for n in ("dq", "dk", "dv")]
    assert not [f for f in result.findings if f.severity is Severity.ERROR]


def test_a_second_run_gives_the_same_bytes():
    case = CASES["B, two units and one"]
    one, other = machine.run(case).outputs, machine.run(case).outputs
    assert all(np.array_equal(one[name].view(np.uint16), other[name].view(np.uint16)) for name in ("dq", "dk", "dv"))


def test_without_query_heads_to_add_up_dv_is_rounded_once():
    """A sum in 16 bits over the query heads of a key head would miss the bound of fp16 where it cancels."""
    result = machine.run(scenario(B, (1, 4, 16, 16, 64), n2=1, dtype="half"))
    assert [e.met for e in result.expectations if e.what == "values of dv"] == [True]


def codes(case: Scenario) -> set[str]:
    return {f.code for f in machine.check(case) if f.severity is Severity.ERROR}


CHECKED = CASES["N, three units and two"]


def test_check_finds_no_error():
    assert codes(CHECKED) == set()


def without(event: HardEvent, event_id: int) -> Callable[[AiCore, HardEvent, int], None]:
    real = fag_heads_pass.pass_on

    def pass_on(asc: AiCore, one: HardEvent, number: int) -> None:
        if (one, number) != (event, event_id):
            real(asc, one, number)

    return pass_on


@pytest.mark.parametrize(
    ("event", "event_id", "found"),
    [
        (HardEvent.MTE2_V, fag_heads_pass.ID, "E-RACE-RAW"),
        (HardEvent.V_MTE2, fag_heads_pass.ID, "E-RACE-WAR"),
        (HardEvent.V_MTE3, fag_heads_pass.ID, "E-RACE-RAW"),
        (HardEvent.V_MTE3, fag_heads_pass.A_ID, "E-RACE-RAW"),  # the event that the public kernel does not have
        (HardEvent.MTE3_MTE2, fag_heads_pass.ID, "E-RACE-WAR"),
    ],
)
def test_missing_flags_inside_a_pass_are_found(monkeypatch, event, event_id, found):
    monkeypatch.setattr(fag_heads_pass, "pass_on", without(event, event_id))
    assert found in codes(CHECKED)


@pytest.mark.parametrize(
    ("event", "event_id"), [(HardEvent.V_MTE3, fag_heads_pass.ZERO_ID), (HardEvent.MTE3_V, fag_heads_pass.ID)]
)
def test_missing_flags_round_zeros_are_found(monkeypatch, event, event_id):
    monkeypatch.setattr(fag_whole_heads, "pass_on", without(event, event_id))
    assert codes(CHECKED) & {"E-RACE-RAW", "E-RACE-WAR", "E-RACE-WAW"}


def test_without_sync_all_gradients_meet_sums(monkeypatch):
    monkeypatch.setattr(AiCore, "sync_all", lambda *_, **__: None)
    assert codes(CASES["N, two passes a unit"]) >= {"E-RACE-GM"}


@pytest.mark.parametrize(
    "ids",
    [(1, 2), (3, 4), (5,), (6, 7), (8, 9)],
    ids=["S is there", "A and dS are there", "all is there", "dA is there", "zeros are there"],
)
def test_missing_flags_between_cores_are_found(monkeypatch, ids):
    """Neither set nor awaited: what they order is a race between cores."""
    for name in ("cross_core_set_flag", "cross_core_wait_flag"):
        monkeypatch.setattr(AiCore, name, but_for(name, ids), raising=False)
    assert codes(CHECKED) >= {"E-RACE-GM"}


def but_for(name: str, ids: tuple[int, ...]) -> property:
    """The call as it is, but for some ids."""
    form = next(base.__dict__[name] for base in AiCore.__mro__ if name in base.__dict__)

    def call(asc: AiCore) -> Any:
        real = form.__get__(asc, AiCore)
        return lambda mode, pipe, number: None if number in ids else real(mode, pipe, number)

    return property(call)


def test_another_block_dim_than_the_tilings_is_refused():
    with pytest.raises(Exception, match="block_dim 1: the tiling deals its heads to 2 AI Cores"):
        machine.check(CASES["N, two passes a unit"].model_copy(update={"block_dim": 1}))


def test_a_plain_mask_of_another_size_is_refused():
    wanted = (
        r"atten_mask has last axes \[32, 64\]: the kernel of template Ngs1s2_BN reads one of 32 x 48, or with "
        "sparse_mode 2 or 3 a compressed one"
    )
    params = FagParams(
        dtype="bf16", layout="BNSD", B=1, N2=2, G=1, S1=32, S2=48, D=64, sparse_mode=1, atten_mask=(32, 64)
    )
    device = load_device("Ascend910B1")
    tiling = fag_tiling(params, device, priority=N)
    with pytest.raises(InputError, match=wanted):
        kernel_tiling(FagCall(params, read_shape(params), fag_platform(device)), tiling, ("query",))


@pytest.mark.parametrize("name", ["fag_n_small", "fag_b_small"])
def test_shipped_scenarios_meet_their_expectations(name):
    result = machine.run(load_scenario(shipped("scenarios", f"{name}.toml")))
    assert result.expectations
    assert all(e.met for e in result.expectations)
    assert {f.code for f in result.findings} <= {"W-TILE-IDLE"}
