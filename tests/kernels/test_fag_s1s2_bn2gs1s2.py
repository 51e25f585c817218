"""FlashAttention backward, template S1s2Bn2gs1s2: gradients against the float64 reference, flags that are needed."""

from typing import Any

import numpy as np
import pytest
from same_ab_scenario import scenario

from ascendsim import machine
from ascendsim.errors import InputError, Severity
from ascendsim.op_kernel import fag_s1s2_bn2gs1s2, fag_served, fag_tiles
from ascendsim.record import AiCore
from ascendsim.scenario import Scenario
from ascendsim.terms import HardEvent, Pipe

SMALL = [2048, 2048]
"""A compressed attention mask."""


def case(
    shape: tuple[int, int, int, int, int, int], tile: tuple[int, int] | None = None, cores: int = 1, **keys: Any
) -> Scenario:
    """B, N1, S1, S2, D, Dv on one AI Core, floats unless said."""
    return scenario(shape, tile, cores=cores, **{"dtype": "float", "template": 16000, **keys})


CASES = {
    "four rounds": case((1, 2, 64, 128, 32, 32), (32, 64), vec_s1=32, vec_s2=16),
    "AIV 1 has a block less": case((1, 1, 48, 64, 32, 32), (16, 64), vec_s1=16, vec_s2=16),
    "two AI Cores add to the same sums": case((1, 1, 64, 64, 32, 32), (16, 64), cores=2, vec_s1=16, vec_s2=16),
    "strips of a row term of their own": case((1, 1, 64, 48, 64, 64), (64, 48), vec_s1=16, vec_s2=16),
    "D in two parts": case((1, 1, 16, 32, 96, 96)),
    "Dv less than D": case((1, 1, 16, 32, 192, 128), layout="SBH"),
    "tails": case((1, 2, 24, 40, 40, 24), layout="BSH"),
    "S1 1040": case((1, 1, 1040, 16, 16, 16)),
    "S1 that the matmul tiling cuts into 24 at a time": case((1, 1, 40, 48, 40, 40)),
    "a row left over": case((1, 1, 17, 16, 16, 16), (16, 16), vec_s1=16, vec_s2=16),
    "bf16, two query heads for a key head": case(
        (1, 4, 16, 128, 32, 32), layout="BSND", n2=2, dtype="bfloat16_t", vec_s1=16, vec_s2=16
    ),
    "fp16, scores in NZ": case((2, 1, 32, 48, 64, 64), layout="SBH", dtype="half"),
    "bf16, scores and sums in NZ": case((1, 2, 32, 48, 80, 80), dtype="bfloat16_t", layout="BSH", n2=1),
    "sums in NZ, as many rows as the post pass takes at a time": case((1, 1, 16, 200, 96, 96), dtype="half"),
    "causal, compressed mask": case((1, 1, 64, 64, 32, 32), (16, 64), mask=SMALL, sparse_mode=2, vec_s1=16, vec_s2=16),
    "a band": case((1, 1, 32, 64, 32, 32), mask=SMALL, sparse_mode=4, pre_tokens=44, next_tokens=-24),
    "prefixes": case((2, 1, 32, 48, 32, 32), mask=[3072, 2048], sparse_mode=6, prefix=[40, 18]),
    "whole mask, a row of bias": case((1, 2, 16, 40, 32, 32), mask=[1, 2, 16, 40], pse=[1, 2, 1, 40], next_tokens=0),
    "bias behind the scale, dropout in bits": case((1, 2, 32, 64, 32, 32), pse=[1, 2, 32, 64], pse_type=0, drops=True),
    "dropout in bytes": case((1, 1, 16, 36, 32, 32), drops=True),
    "fp16, all of it": case(
        (1, 4, 16, 64, 32, 32),
        layout="BSND",
        n2=2,
        dtype="half",
        mask=SMALL,
        sparse_mode=3,
        pse=[1, 4, 16, 64],
        drops=True,
    ),
}


@pytest.mark.parametrize("one", CASES.values(), ids=CASES)
def test_gradients_are_those_of_the_reference(one):
    result = machine.run(one)
    assert [(e.what, e.met) for e in result.expectations] == [(f"values of {n}", True) for n in ("dq", "dk", "dv")]
    assert not [f for f in result.findings if f.severity is Severity.ERROR]


def test_a_second_run_gives_the_same_bytes():
    one, other = (machine.run(CASES["AIV 1 has a block less"]).outputs for _ in range(2))
    assert all(np.array_equal(one[name].view(np.uint32), other[name].view(np.uint32)) for name in ("dq", "dk", "dv"))


def codes(one: Scenario) -> set[str]:
    return {f.code for f in machine.check(one) if f.severity is Severity.ERROR}


def test_missing_flags_from_loads_to_vector_are_found(monkeypatch):
    for module in (fag_s1s2_bn2gs1s2, fag_tiles):
        monkeypatch.setattr(module, "pass_on", lambda *_: None)
    assert codes(CASES["four rounds"]) >= {"E-RACE-RAW"}


@pytest.mark.parametrize(
    ("event", "name_of"), [(HardEvent.MTE3_MTE2, "four rounds"), (HardEvent.V_MTE2, "D in two parts")]
)
def test_missing_flags_inside_a_core_are_found(monkeypatch, event, name_of):
    """What frees a half of UB, and what frees the operands of the row term."""
    for name in ("set_flag", "wait_flag"):
        monkeypatch.setattr(AiCore, name, but_for(name, lambda event_of, _: event_of is event), raising=False)
    assert codes(CASES[name_of]) & {"E-RACE-RAW", "E-RACE-WAR", "E-RACE-WAW"}


def test_missing_barriers_of_all_pipes_are_found(monkeypatch):
    monkeypatch.setattr(AiCore, "pipe_barrier", but_for("pipe_barrier", lambda pipe: pipe is Pipe.ALL), raising=False)
    assert codes(CASES["four rounds"]) & {"E-RACE-RAW", "E-RACE-WAR", "E-RACE-WAW"}


def test_without_sync_all_sums_meet_zeros(monkeypatch):
    monkeypatch.setattr(AiCore, "sync_all", lambda *_, **__: None)
    assert codes(CASES["two AI Cores add to the same sums"]) >= {"E-RACE-GM"}


@pytest.mark.parametrize(
    "ids",
    [
        {fag_served.SCORES_ARE_THERE},
        {fag_served.SCORES_ARE_THERE + 1},
        {fag_served.TILES_ARE_THERE},
        {fag_served.TILES_ARE_THERE + 1},
        {fag_served.SUMS_ARE_THERE},
    ],
)
def test_missing_flags_between_cores_are_found(monkeypatch, ids):
    """Neither set nor awaited: what it orders is a race, between cores or round one of them."""
    for name in ("cross_core_set_flag", "cross_core_wait_flag"):
        monkeypatch.setattr(AiCore, name, but_for(name, lambda _mode, _pipe, number: number in ids), raising=False)
    assert codes(CASES["four rounds"]) & {"E-RACE-GM", "E-RACE-RAW", "E-RACE-WAR"}


def but_for(name: str, is_left_out: Any) -> property:
    """The call as it is, but for some arguments."""
    form = next(base.__dict__[name] for base in AiCore.__mro__ if name in base.__dict__)

    def call(asc: AiCore) -> Any:
        real = form.__get__(asc, AiCore)
        return lambda *arguments, **named: None if is_left_out(*arguments) else real(*arguments, **named)

    return property(call)


def test_a_step_of_less_than_a_row_is_refused():
    with pytest.raises(InputError, match=r"vec_s1 \* vec_s2 = 128: .* at least one row of 256"):
        machine.check(case((1, 1, 16, 512, 32, 32), (16, 256), vec_s1=8, vec_s2=16))
