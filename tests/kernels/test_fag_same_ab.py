"""FlashAttention backward, template SameAB: gradients against the float64 reference, and flags that are needed."""

import numpy as np
import pytest
from same_ab_scenario import leave_out, scenario

from ascendsim import machine
from ascendsim.errors import InputError, Severity
from ascendsim.op_host import fag_kernels
from ascendsim.op_kernel import fag_tiles
from ascendsim.record import AiCore
from ascendsim.scenario import Scenario

CASES = {
    "four blocks for each of two heads": scenario((1, 2, 128, 128, 64, 64), (64, 64)),
    "fp16": scenario((1, 1, 128, 128, 128, 128), (64, 64), dtype="half"),
    "BSH": scenario((2, 2, 64, 128, 64, 64), (32, 64), layout="BSH"),
    "SBH": scenario((2, 2, 64, 128, 64, 64), (64, 32), layout="SBH", dtype="half"),
    "BSND, two query heads for a key head": scenario((1, 4, 64, 128, 32, 32), (64, 64), layout="BSND", n2=2),
    "Dv less than D": scenario((1, 1, 64, 128, 192, 128), (64, 64)),
    "S1 of 16": scenario((1, 2, 16, 128, 64, 64), (16, 64)),
    "a tail of rows": scenario((1, 1, 80, 128, 64, 64), (64, 64)),
    "scores in NZ": scenario((1, 1, 64, 96, 64, 64), (32, 48), dtype="half"),
    "scores in NZ, a tail of columns": scenario((1, 1, 80, 80, 64, 64), (64, 64), layout="BSH"),
    "sums in NZ": scenario((1, 2, 128, 128, 80, 80), (64, 64), n2=1, layout="BSH"),
    "sums in NZ, D no multiple of 16": scenario((1, 1, 128, 128, 72, 72), (64, 64)),
    "causal, compressed mask": scenario((1, 1, 128, 128, 64, 64), (64, 64), mask=[2048, 2048], sparse_mode=2),
    "causal from the bottom right": scenario((1, 1, 64, 128, 64, 64), (32, 64), mask=[2048, 2048], sparse_mode=3),
    "a band": scenario(
        (1, 1, 128, 128, 64, 64), (64, 64), mask=[2048, 2048], sparse_mode=4, pre_tokens=40, next_tokens=8
    ),
    "causal, whole mask": scenario((1, 2, 64, 128, 64, 64), (32, 64), mask=[1, 2, 64, 128], next_tokens=0),
    "causal, scores in NZ": scenario((1, 1, 96, 96, 64, 64), (32, 48), mask=[2048, 2048], sparse_mode=2),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_are_those_of_the_reference(case):
    result = machine.run(case)
    assert [(e.what, e.met) for e in result.expectations] == [(f"values of {n}", True) for n in ("dq", "dk", "dv")]
    assert not [f for f in result.findings if f.severity is Severity.ERROR]


def test_a_second_run_gives_the_same_bytes():
    case = CASES["four blocks for each of two heads"]
    one, other = machine.run(case).outputs, machine.run(case).outputs
    assert all(np.array_equal(one[name].view(np.uint16), other[name].view(np.uint16)) for name in ("dq", "dk", "dv"))


def codes(case: Scenario) -> set[str]:
    return {f.code for f in machine.check(case) if f.severity is Severity.ERROR}


def test_check_finds_no_error():
    assert codes(CASES["four blocks for each of two heads"]) == set()


def test_missing_flags_inside_a_core_are_found(monkeypatch):
    monkeypatch.setattr(fag_tiles, "pass_on", lambda *_: None)
    assert codes(CASES["four blocks for each of two heads"]) >= {"E-RACE-RAW"}


def test_without_sync_all_sums_meet_zeros(monkeypatch):
    monkeypatch.setattr(AiCore, "sync_all", lambda *_, **__: None)
    assert codes(CASES["four blocks for each of two heads"]) >= {"E-RACE-GM"}


@pytest.mark.parametrize("flag", ["SCORES_ARE_THERE", "TILES_ARE_THERE", "SUMS_ARE_THERE"])
def test_missing_flags_between_cores_are_found(monkeypatch, flag):
    """Neither set nor awaited: what it orders is a race, between cores or round one of them."""
    leave_out(monkeypatch, flag)
    assert codes(CASES["four blocks for each of two heads"]) & {"E-RACE-GM", "E-RACE-RAW", "E-RACE-WAR"}


def test_another_block_dim_than_the_tilings_is_refused():
    case = CASES["S1 of 16"].model_copy(update={"block_dim": 1})
    with pytest.raises(Exception, match="block_dim 1: the tiling deals its blocks to 2 AI Cores"):
        machine.check(case)


def test_tensors_that_do_not_belong_together_are_refused():
    case = CASES["S1 of 16"]
    tensors = dict(case.tensors) | {"dy": case.tensors["dy"].model_copy(update={"shape": [1, 2, 32, 64]})}
    with pytest.raises(
        InputError, match=r"tensors.dy is bfloat16_t \[1, 2, 32, 64\], must be bfloat16_t \[1, 2, 16, 64\]"
    ):
        machine.check(case.model_copy(update={"tensors": tensors}))


def test_a_template_without_a_kernel_is_named(monkeypatch):
    monkeypatch.delitem(fag_kernels.KERNELS, "Ungs1s2_B")
    case = CASES["S1 of 16"]
    tiling = {k: v for k, v in case.tiling.items() if k not in ("template", "cv_s1", "cv_s2")}
    with pytest.raises(InputError, match="template Ungs1s2_B takes this call, of which there is no kernel yet"):
        machine.check(case.model_copy(update={"tiling": tiling}))
