"""FlashAttention backward: cases that hold every pair of options; some of them, one for each template and type."""

import random

import ml_dtypes
import numpy as np
import pytest
from fag_cover import SMALL, judge, off_roundings
from fag_cover_cases import DECIDING, DTYPES, FACTORS, LARGE, TEMPLATES, cover, host, reason
from fag_emulation import expected, half_step
from pairwise import all_pairs, covering, pairs_of

QUICK = [
    dict(zip(FACTORS, row.split(" | "), strict=True))
    for row in (
        "S1s2Bn2gs1s2 | bf16 | SBH | 3 | bits | 0 B,N1,S1,S2 | 1,3,1 | 192,192 | 48,48 | 1 | small",
        "S1s2Bn2gs1s2 | fp16 | BSND | 2 | bits | 1 B,N1,S1,S2 | 2,1,1 | 96,96 | 16,16 | 2 | small",
        "S1s2Bn2gs1s2 | fp32 | BSH | 6 | bits | 1 B,N1,1,S2 | 2,2,1 | 128,128 | 16,48 | 1 | own",
        "SameAB | bf16 | SBH | 4 | none | 0 B,N1,1,S2 | 1,3,1 | 80,80 | 48,16 | 2 | small",
        "SameAB | fp16 | BSND | 5 | bytes | 1 1,N1,S1,S2 | 2,2,1 | 192,128 | 33,44 | 1 | own",
        "SameAB det | bf16 | BNSD | 1 B,1,S1,S2 | bits | 1 B,N1,S1,S2 | 2,1,1 | 192,128 | 48,16 | 1 | own",
        "SameAB det | fp16 | BSH | 2 | none | 0 B,N1,1,S2 | 1,3,1 | 128,128 | 48,48 | 2 | small",
        "S1s2Bn2 | bf16 | BSH | 5 | bytes | none | 1,4,2 | 256,256 | 16,16 | 1 | small",
        "S1s2Bn2 | fp16 | BSND | 6 | bits | 0 1,N1,S1,S2 | 2,2,1 | 80,80 | 48,64 | 1 | small",
        "S1s2Bn2 | fp32 | SBH | 1 B,1,S1,S2 | bytes | 1 B,N1,S1,S2 | 1,2,2 | 64,64 | 33,44 | 2 | small",
        "S1s2Bn2 det | bf16 | BNSD | 4 | none | 0 B,N1,S1,S2 | 1,4,2 | 96,96 | 33,44 | 1 | own",
        "S1s2Bn2 det | fp16 | SBH | 0 S1,S2 | none | 1 1,N1,S1,S2 | 2,1,1 | 128,128 | 16,48 | 2 | small",
        "S1s2Bn2 det | fp32 | BSND | none | none | 0 B,N1,1,S2 | 2,1,1 | 64,64 | 1040,16 | 1 | own",
        "N | bf16 | BSH | 1 B,N1,S1,S2 | bits | 1 B,N1,S1,S2 | 1,2,2 | 192,192 | 48,16 | 2 | own",
        "N | fp16 | SBH | 3 | bytes | 1 1,N1,S1,S2 | 2,1,1 | 64,64 | 33,44 | 2 | small",
        "B | bf16 | BSND | 0 S1,S2 | bits | 1 B,N1,1,S2 | 2,2,1 | 80,80 | 48,16 | 2 | small",
        "B | fp16 | BNSD | 2 | none | 1 B,N1,S1,S2 | 1,3,1 | 256,256 | 16,16 | 1 | own",
    )
]


FIRST = {
    ("S1s2Bn2gs1s2", "fp16"), ("SameAB", "bf16"), ("SameAB det", "fp16"), ("S1s2Bn2", "fp32"),
    ("S1s2Bn2 det", "bf16"), ("N", "fp16"), ("B", "bf16"),
}  # fmt: skip
"""One for each template; the others with `make deep`."""


def depth(case):
    """The case as a parameter, marked if it is not among the first."""
    name = (case["template"], case["dtype"])
    return pytest.param(case, id=" ".join(name), marks=[] if name in FIRST else [pytest.mark.deep])


@pytest.mark.parametrize("case", [depth(case) for case in QUICK])
def test_gradients_are_within_the_bound_and_those_of_the_documented_roundings(case):
    assert judge(case).wrong == ""


def test_each_template_is_tried_with_each_type_that_it_takes():
    tried = {(case["template"], case["dtype"]) for case in QUICK}
    narrow = {(template, "fp32") for template in ("SameAB", "SameAB det", "N", "B")}
    assert tried == {(template, dtype) for template in TEMPLATES for dtype in DTYPES} - narrow


@pytest.fixture(scope="module")
def found():
    return cover()


@pytest.mark.deep
def test_every_pair_is_in_a_case_or_refused(found):
    held = {pair for case in found.cases for pair in pairs_of(case)}
    assert held | set(found.excluded) == set(all_pairs(FACTORS))
    assert not held & set(found.excluded)
    assert [reason(case) for case in found.cases] == [None] * len(found.cases)


REFUSED = {
    ("template", "N|B|SameAB|SameAB det", "dtype", "fp32"): "takes fp16 and bf16 only",
    ("template", "N|B", "mask", "4|5|6"): "takes sparse modes 0 to 3 only",
    ("template", "N|B", "pse", "0 B,N1,S1,S2|0 B,N1,1,S2|0 1,N1,S1,S2"): "takes pse_type 1 only",
    ("template", "N", "B,N1,N2", "2,2,1|1,3,1|1,4,2"): "needs G = 1",
    ("template", "S1s2Bn2", "B,N1,N2", "1,3,1"): "B * N2 = 1 key heads leave half of 2 AIVs idle",
    ("template", "N|B|S1s2Bn2|S1s2Bn2 det", "D,Dv", "192,128"): "needs Dv = D",
    ("template", "S1s2Bn2", "S1,S2", "1040,16|16,1040|1040,44|48,1040"): "needs S1 and S2 below 1024",
    ("template", "N", "S1,S2", "1040,16|16,1040|1040,44|48,1040"): "needs the scores of a head in 32768 bytes",
    ("template", "B", "S1,S2", "1040,16|16,1040|1040,44|48,1040"): "needs N1 * al16(S1) * al16(S2) of at most 6144",
    ("drop", "bits", "S1,S2", "33,44|1040,44"): "the template takes the dropout mask as bytes here",
    ("pse", "1 1,N1,S1,S2|0 1,N1,S1,S2", "B,N1,N2", "1,2,2|1,3,1|1,4,2"): "a bias for one batch is one for all",
}


@pytest.mark.deep
def test_pairs_are_refused_for_known_reasons(found):
    known = {
        ((one, choice), (other, its)): why
        for (one, choices, other, others), why in REFUSED.items()
        for choice in choices.split("|")
        for its in others.split("|")
    }
    assert set(found.excluded) == set(known)
    assert {pair: why for pair, why in found.excluded.items() if known[pair] not in why} == {}


@pytest.mark.deep
def test_refused_pairs_are_refused_whatever_else_is_chosen(found):
    chosen = random.Random(0)
    for pair in found.excluded:
        for _ in range(10):
            case = {factor: chosen.choice(choices) for factor, choices in FACTORS.items()}
            assert reason(case | dict(pair)) is not None


def test_large_cases_are_taken_and_those_of_the_l1_custom_forms_are_such():
    assert [reason(case) for case in LARGE] == [None] * len(LARGE)
    custom = [host(case).tiling.tiles.is_l1_custom for case in LARGE]
    assert custom == [True] * 9 + [False] * 4


# ---- what judges -----------------------------------------------------------------------------------------------------


def test_pairs_without_a_rule_are_all_covered_by_few_cases():
    factors = {"a": ("1", "2", "3"), "b": ("1", "2", "3"), "c": ("1", "2", "3")}
    found = covering(factors, (), lambda _: None)
    assert {pair for case in found.cases for pair in pairs_of(case)} == set(all_pairs(factors))
    assert 9 <= len(found.cases) <= 11
    assert found.excluded == {}


def test_a_pair_is_excluded_only_where_no_choice_of_a_deciding_factor_helps():
    def why(case):
        if case["a"] == "2" and case["b"] != "1":
            return f"b = {case['b']} with a = 2"
        return "a = 3 needs c = 2" if case["a"] == "3" and case["c"] == "1" else None

    found = covering({"a": ("1", "2", "3"), "b": ("1", "2"), "c": ("1", "2")}, ("c",), why)
    assert found.excluded == {
        (("a", "2"), ("b", "2")): "b = 2 with a = 2",
        (("a", "3"), ("c", "1")): "a = 3 needs c = 2",
    }
    assert all(why(case) is None for case in found.cases)


def test_half_a_step_is_half_the_distance_to_the_next_value():
    x = np.array([1.0, 1.5, -3.0, 0.001, 60.0, -0.25])
    assert np.array_equal(2 * half_step(x, "fp16"), np.spacing(np.abs(x).astype(np.float16)).astype(np.float64))
    assert np.array_equal(2 * half_step(x, "fp32"), np.spacing(np.abs(x).astype(np.float32)).astype(np.float64))
    wide = np.abs(x).astype(ml_dtypes.bfloat16)
    above = (wide.view(np.uint16) + 1).view(ml_dtypes.bfloat16)
    assert np.array_equal(2 * half_step(x, "bf16"), above.astype(np.float64) - wide.astype(np.float64))


@pytest.mark.parametrize("case", [QUICK[1], QUICK[2]], ids=["fp16", "fp32"])
def test_gradients_that_are_a_little_off_are_told(case):
    """By one part in 500, or in 200,000: a fraction of the bound that is relative to 1 where values are small."""
    wanted = expected(case, SMALL)
    away = {"fp16": 1 / 500, "fp32": 1 / 200_000}[case["dtype"]]
    for name, x in wanted.stored.items():
        assert off_roundings(case, name, x, wanted) == 0
        assert off_roundings(case, name, x.astype(np.float64) * (1 + away), wanted) > 0


def test_what_decides_is_a_factor():
    assert set(DECIDING) <= set(FACTORS)
