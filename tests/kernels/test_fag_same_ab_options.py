"""FlashAttention backward, template SameAB: bias, dropout, prefixes, deterministic sums, and flags that these need."""

import pytest
from same_ab_scenario import leave_out, leave_out_calls, scenario

from ascendsim import machine
from ascendsim.errors import Severity
from ascendsim.op_host import fag_checks, fag_parts, fag_tiling_same_ab
from ascendsim.op_kernel import fag_passes, fag_private_sums, fag_tiles
from ascendsim.record import AiCore
from ascendsim.reference import attention
from ascendsim.scenario import Scenario
from ascendsim.terms import Pipe
from ascendsim.turns import Turns

GRADIENTS = ("dq", "dk", "dv")
CAUSAL = {"mask": [2048, 2048], "sparse_mode": 2}
FIXED = {"template": 1100, "deterministic": True}

CASES = {
    "a bias for each batch": scenario((2, 1, 32, 64, 32, 32), (32, 64), pse=[2, 1, 32, 64]),
    "one row of bias, behind the scale": scenario(
        (2, 2, 32, 64, 32, 32), (32, 64), pse=[2, 2, 1, 64], pse_type=0, layout="BSH"
    ),
    "a bias for all batches, scores in NZ": scenario(
        (2, 1, 48, 40, 32, 32), (32, 32), pse=[1, 1, 48, 40], dtype="half"
    ),
    "dropout in bits": scenario((1, 2, 48, 128, 32, 32), (32, 64), drops=True),
    "dropout in bits, whole repeats": scenario((1, 1, 32, 256, 16, 16), (32, 256), drops=True),
    "dropout in bits, scores in NZ": scenario((1, 2, 48, 72, 32, 32), (32, 48), drops=True, keep_prob=0.5),
    "dropout in bytes": scenario((1, 2, 48, 70, 32, 32), (32, 48), drops=True, dtype="half"),
    "dropout in bytes, whole mask": scenario(
        (1, 1, 36, 36, 32, 32), (32, 48), drops=True, mask=[36, 36], next_tokens=0
    ),
    "bias, dropout, causal": scenario(
        (1, 2, 64, 64, 32, 32), (32, 64), drops=True, pse=[1, 2, 64, 64], pse_type=0, **CAUSAL
    ),
    "a whole mask with prefixes": scenario(
        (2, 1, 32, 64, 32, 32), (32, 64), mask=[2, 1, 32, 64], sparse_mode=5, prefix=[34, 60]
    ),
    "a compressed mask with prefixes": scenario(
        (2, 1, 64, 64, 32, 32), (32, 32), mask=[3072, 2048], sparse_mode=6, prefix=[10, 43]
    ),
    "prefixes that reach no row, and all": scenario(
        (2, 1, 32, 64, 32, 32), (32, 32), mask=[3072, 2048], sparse_mode=6, prefix=[32, 64]
    ),
    "a single row left over, scores in NZ": scenario((1, 1, 33, 40, 32, 32), (32, 48), layout="BSH"),
    "deterministic": scenario((1, 2, 64, 64, 32, 32), (32, 32), **FIXED),
    "deterministic, grouped heads": scenario((1, 4, 64, 64, 32, 32), (32, 64), n2=2, layout="BSND", **FIXED),
    "deterministic, causal": scenario((1, 1, 64, 64, 32, 32), (32, 64), dtype="half", **CAUSAL, **FIXED),
    "deterministic, tails": scenario((1, 1, 40, 56, 32, 16), (32, 32), cores=3, layout="SBH", **FIXED),
    "deterministic, sums in NZ": scenario((1, 1, 144, 40, 72, 72), (128, 32), **FIXED),
    "deterministic, all AIVs for each gradient": scenario((1, 1, 64, 64, 384, 384), (64, 32), **FIXED),
    "deterministic, a single tile": scenario((1, 2, 32, 64, 32, 32), (32, 64), **FIXED),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_are_those_of_the_reference(case):
    check_run(case)


def check_run(case: Scenario) -> None:
    result = machine.run(case)
    assert [(e.what, e.met) for e in result.expectations] == [(f"values of {name}", True) for name in GRADIENTS]
    assert not [f for f in result.findings if f.severity is Severity.ERROR]


def test_the_last_rows_of_a_bias_serve_all(monkeypatch):
    """64 rows of bias instead of 1024."""
    for owner, name in ((fag_parts, "ALIBI_ROWS"), (fag_checks, "_ALIBI_ROWS"), (attention, "ALIBI_ROWS")):
        monkeypatch.setattr(owner, name, 64)
    check_run(scenario((1, 1, 96, 96, 32, 32), (32, 32), pse=[1, 1, 64, 96], **CAUSAL))


@pytest.mark.parametrize(("s1", "s2"), [(0, 0), (992, 768), (1024, 0), (1536, 1024), (2047, 2040)])
def test_an_element_of_a_cut_bias_is_the_references(s1, s2):
    rows, columns, _ = attention._alibi_places(2048)
    bias = fag_parts.BiasRows(1, 1, 1024, 2048, is_cut=True, comes_first=True)
    assert bias.at(s1, s2, 1, 1) == rows[s1, s2] * 2048 + columns[s1, s2]


@pytest.mark.parametrize(
    ("d", "dv", "how"),
    [
        (64, 64, {"layout": "BSND"}),
        (128, 64, {"layout": "BSH"}),
        (192, 128, {"mask": [2048, 2048], "sparse_mode": 3}),
    ],
)
def test_l1_custom_gradients_are_those_of_the_reference(d, dv, how, monkeypatch):
    """The form begins with tiles of 128 x 128 instead of 512 x 512."""
    monkeypatch.setattr(fag_tiling_same_ab, "_TILE", 128)
    check_run(scenario((1, 1, 130, 128, d, dv), (128, 128), **how))


# ---- determinism -----------------------------------------------------------------------------------------------------


def gradients(case: Scenario) -> list[bytes]:
    outputs = machine.run(case).outputs
    return [outputs[name].tobytes() for name in GRADIENTS]


def turned_round(monkeypatch) -> None:
    """The last core takes the first turn."""
    begin = Turns._begin
    monkeypatch.setattr(
        Turns, "_begin", lambda self, number, flags: begin(self, self._program.core_count - 1 - number, flags)
    )


def test_deterministic_sums_do_not_depend_on_who_comes_first(monkeypatch):
    case = scenario((1, 1, 32, 160, 32, 32), (32, 32), cores=3, **FIXED)
    before = gradients(case)
    turned_round(monkeypatch)
    assert gradients(case) == before


def test_only_deterministic_sums_have_an_order():
    fixed, free = (scenario((1, 1, 64, 64, 32, 32), (32, 32), **how) for how in (FIXED, {}))
    assert "W-RACE-ATOMICORDER" not in {f.code for f in machine.check(fixed)}
    assert "W-RACE-ATOMICORDER" in {f.code for f in machine.check(free)}


# ---- flags -----------------------------------------------------------------------------------------------------------


def codes(case: Scenario) -> set[str]:
    return {f.code for f in machine.check(case) if f.severity is Severity.ERROR}


RACES = {"E-RACE-RAW", "E-RACE-WAR", "E-RACE-WAW", "E-RACE-GM"}


@pytest.mark.parametrize(
    ("module", "case"), [(fag_passes, "dropout in bytes, whole mask"), (fag_private_sums, "deterministic")]
)
def test_missing_flags_of_a_pass_are_found(module, case, monkeypatch):
    monkeypatch.setattr(module, "pass_on", lambda *_: None)
    assert codes(CASES[case]) & RACES


def test_missing_flags_of_the_second_mask_are_found(monkeypatch):
    spare, pass_on = fag_tiles.spare_prefix, fag_tiles.pass_on

    def without_flags(*args):
        monkeypatch.setattr(fag_tiles, "pass_on", lambda *_: None)
        spare(*args)
        monkeypatch.setattr(fag_tiles, "pass_on", pass_on)

    monkeypatch.setattr(fag_tiles, "spare_prefix", without_flags)
    assert codes(CASES["a compressed mask with prefixes"]) & RACES


def test_without_a_barrier_the_expanded_mask_meets_zeros(monkeypatch):
    leave_out_calls(monkeypatch, "pipe_barrier", lambda pipe: pipe is Pipe.ALL)
    assert codes(CASES["dropout in bytes, whole mask"]) & RACES


def test_private_tiles_wait_for_their_flag(monkeypatch):
    leave_out(monkeypatch, "SUMS_ARE_THERE")
    assert codes(CASES["deterministic"]) & RACES


def test_without_sync_all_private_tiles_are_added_too_early(monkeypatch):
    monkeypatch.setattr(AiCore, "sync_all", lambda *_, **__: None)
    assert codes(CASES["deterministic"]) >= {"E-RACE-GM"}
