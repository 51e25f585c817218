"""Tile operations of arch 3510 rebuilt as vector functions, against the published rows."""

from dataclasses import replace
from statistics import mean, median

import pytest
from fidelity_harness import cycles_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.fidelity.families import predict
from ascendsim.fidelity.functions import FAMILIES
from ascendsim.fidelity.measured import Measured, Uncovered, read_instructions
from ascendsim.fidelity.target import device_of

ROWS = tuple(r for r in read_instructions() if r.arch == 3510 and r.family in FAMILIES and r.is_usable)
TILES = tuple(r for r in ROWS if r.family == "pto_tileop_a5")
CASES = {int(r.conditions.split(":")[0].removeprefix("case ")): r for r in ROWS if r.family == "ascendc_reg"}
FEW_ELEMENTS = 3200
"""Rows of more are looked at one in eight, to be quick."""


def sample():
    small = [r for r in TILES if r.valid_rows * r.valid_cols <= FEW_ELEMENTS]
    large = [r for r in TILES if r.valid_rows * r.valid_cols > FEW_ELEMENTS]
    return [*small, *large[::8]]


@pytest.fixture(scope="module")
def accuracies():
    """(row, 1 - |model - measured| / measured) of the rows of the sample that are covered."""
    found = []
    for row in sample():
        try:
            cycles = cycles_of(row)
        except Uncovered:
            continue
        found.append((row, max(0.0, 1 - abs(cycles - row.cycles) / row.cycles)))
    return found


def test_mean_accuracy(accuracies):
    values = [accuracy for _, accuracy in accuracies]
    assert len(values) > 250
    assert mean(values) >= 0.98
    assert median(values) >= 0.988


@pytest.mark.parametrize("op", ["TADD", "TSUB", "TMUL", "TMINS", "TNEG", "TEXP", "TSQRT", "TDIVS", "TRECIP", "TRSQRT"])
def test_every_elementwise_operation(op, accuracies):
    values = [accuracy for row, accuracy in accuracies if row.op == op]
    assert len(values) >= 20
    assert mean(values) >= 0.97


def test_casts_are_off_most_where_one_row_is_slower_than_five(accuracies):
    """Of fp16 to fp32, 64 elements are published with 81 cycles and 320 with 73: no model of ours has that."""
    worst = min(accuracies, key=lambda found: found[1])[0]
    assert (worst.op, worst.dst_dtype, worst.valid_cols, worst.cycles) == ("TCVT", "fp32", 64, 81.0)
    casts = [accuracy for row, accuracy in accuracies if row.op == "TCVT"]
    assert mean(casts) >= 0.93


def tile(op, dtype, rows, cols, valid_cols=None, **more):
    blank = Measured("x", 3510, "", "pto_tileop_a5", op, dtype, "", rows, cols, rows, valid_cols or cols, None, None,
                     None, 1.0, "as_published", "", "")  # fmt: skip
    return replace(blank, **more)


def cycles(*args, **more):
    row = tile(*args, **more)
    return predict(row, device_of(row))


@pytest.mark.parametrize(
    ("op", "dtype", "elements", "measured"),
    [
        ("TSUB", "fp32", 1, 55),
        ("TMUL", "fp32", 64, 56),
        ("TEXP", "fp32", 64, 64),
        ("TEXP", "fp16", 128, 69),
        ("TSQRT", "fp32", 64, 65),
        ("TDIVS", "fp32", 1, 67),
        ("TDIVS", "fp16", 128, 72),
        ("TRSQRT", "fp32", 64, 79),
        ("TRSQRT", "fp16", 128, 89),
    ],
)
def test_one_iteration_is_exact(op, dtype, elements, measured):
    published = {r.cycles for r in TILES if (r.op, r.dtype, r.valid_rows, r.valid_cols) == (op, dtype, 1, elements)}
    assert measured in published
    assert cycles(op, dtype, 1, 64 if dtype == "fp32" else 128, elements) == measured


def test_one_iteration_is_start_load_chain_store_and_drain():
    """23 + 6 + 5 + 9 + 12 of an addition."""
    assert cycles("TADD", "fp32", 1, 64, 64) == 23 + 6 + 5 + 9 + 12


ELEMENTWISE = st.sampled_from(["TADD", "TSUB", "TMUL", "TMINS", "TNEG", "TEXP", "TSQRT", "TDIVS", "TRECIP", "TRSQRT"])


@settings(max_examples=20, deadline=None)
@given(ELEMENTWISE, st.sampled_from(["fp32", "fp16"]), st.integers(2, 5), st.integers(1, 5))
def test_twice_as_much_costs_more_and_a_loop_over_rows_is_not_cheaper(op, dtype, rows, registers):
    lanes = 64 if dtype == "fp32" else 128
    whole = cycles(op, dtype, rows, registers * lanes)
    assert whole < cycles(op, dtype, rows, 2 * registers * lanes)
    assert whole < cycles(op, dtype, 2 * rows, registers * lanes)
    assert whole <= cycles(op, dtype, rows, (registers + 1) * lanes, registers * lanes)


@settings(max_examples=15, deadline=None)
@given(ELEMENTWISE, st.integers(1, 4), st.integers(1, 63))
def test_a_register_that_is_not_full_costs_a_whole_one(op, rows, fewer):
    assert cycles(op, "fp32", rows, 192, 128 - fewer) == cycles(op, "fp32", rows, 192, 128)


def test_address_updates_cost_nothing():
    assert cycles("TEXP", "fp32", 1, 640, conditions="VFIMPL_1D_POST_UPDATE") == cycles(
        "TEXP", "fp32", 1, 640, conditions="VFIMPL_1D_NO_POST_UPDATE"
    )


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (tile("TSEL", "fp32", 1, 64), "TSEL has no counterpart among the micro-operations"),
        (tile("TCVT", "fp32", 1, 64, dst_dtype="fp8_e4m3"), "element type fp8_e4m3"),
        (tile("TADD", "int32", 1, 64), "int32 is no type of the micro-operations"),
        (
            tile("TRECIP", "fp32", 1, 64, conditions="VFIMPL_DEFAULT high_precision"),
            "TRECIP high_precision: its algorithm is not published",
        ),
        (tile("TADD", "fp32", None, 64), "the measurement states no shape"),
        (
            tile("Add", "fp32", 1, 64, family="mskpp_vector"),
            "nothing rebuilds measurements of family mskpp_vector on architecture 3510",
        ),
        (CASES[9], "gathers, scatters and accesses by datablocks have no micro-operation here"),
        (CASES[12], "gathers, scatters and accesses by datablocks have no micro-operation here"),
    ],
)
def test_what_is_not_covered_says_why(row, why):
    with pytest.raises(Uncovered) as error:
        predict(row, device_of(row))
    assert str(error.value) == why


def test_bank_conflict_cases_rank_as_measured():
    """Sources in one bank and the loop unrolled (1, 7) are the fast cases; the others lie within 4 % of each other.

    Only proportions are compared: 1000 calls of 64 additions cannot take what the page says, 2200 cycles each at
    1650 MHz; of 10,000 calls it would be 220.
    """
    model = {case: predict(CASES[case], device_of(CASES[case])) for case in range(1, 8)}
    fast, slow = (1, 7), (2, 3, 4, 5, 6)
    assert max(model[c] for c in fast) < min(model[c] for c in slow)
    assert max(CASES[c].cycles for c in fast) < min(CASES[c].cycles for c in slow)
    for case in slow:
        assert model[case] / model[1] == pytest.approx(CASES[case].cycles / CASES[1].cycles, rel=0.11)
    assert model[7] == model[1]
    assert CASES[7].cycles == pytest.approx(CASES[1].cycles, rel=0.002)
