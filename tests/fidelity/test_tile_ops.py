"""Tile operations of arch 2201, rebuilt: how far the model is off, over every published row, and what that hangs on."""

from dataclasses import replace

import pytest
from fidelity_harness import errors, shipped

from ascendsim.device import load_device
from ascendsim.fidelity.families import predict
from ascendsim.fidelity.measured import Uncovered

DEVICE = load_device("Ascend910B1")
ROWS = shipped("pto_tileop")
WITHOUT_BOUND = ("TLOAD", "TLOADCONV", "TTRANS", "TSEL")


def is_judged(row):
    return row.op not in WITHOUT_BOUND and not row.op.startswith("TCOL")


@pytest.fixture(scope="module")
def off():
    return errors(ROWS)


def test_all_of_the_families_with_a_bound_are_predicted(off):
    assert sum("campaign B" in row.conditions for row in off) == 19
    assert sum(map(is_judged, off)) == sum(map(is_judged, ROWS)) == 50


def test_a_model_without_bank_conflicts_fails():
    add = DEVICE.vector["Add"]
    free = {key: cost.model_copy(update={"conflict": "none"}) for key, cost in add.items()}
    device = DEVICE.model_copy(update={"vector": dict(DEVICE.vector) | {"Add": free}})
    june = [r for r in ROWS if r.op == "TADD" and "campaign B" in r.conditions]
    assert min(errors(june, device).values()) > 0.3


def test_rows_that_are_not_judged_are_predicted_too():
    known = {row.op for row in errors(shipped("pto_tileop", usable=False))}
    assert known == {
        "TADD",
        "TCOLMAX",
        "TDIV",
        "TEXP",
        "TMATMUL",
        "TMOV",
        "TMUL",
        "TROWMAX",
        "TROWMIN",
        "TROWSUM",
        "TSUB",
    }


ROW = next(r for r in ROWS if r.op == "TADD")


def cycles(op, dtype, rows, cols, valid=(None, None), dst_dtype=""):
    row = replace(
        ROW, op=op, dtype=dtype, dst_dtype=dst_dtype, rows=rows, cols=cols, valid_rows=valid[0], valid_cols=valid[1]
    )
    return predict(row, DEVICE)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (("TEXP", "fp32", 64, 64), 2 * 64 + 31),  # 159 measured
        (("TADD", "int32", 64, 64), 2 * 64 + 24),
        (("TADD", "int16", 64, 64), 2 * 64 + 24 + 16),  # a masked repeat for each row
        (("TMAX", "fp16", 64, 64), 2 * 64 + 23 + 16),  # 167 measured
        (("TDIV", "fp32", 64, 64), 4 * 64 + 31),
        (("TRSQRT", "fp16", 64, 64), 32 + 24),  # one source: one run
        (("TMULS", "fp32", 7, 448), 49 + 26),
        (("TMULS", "int16", 15, 192), 23 + 26 + 16),  # longer than a repeat and ragged: counter mode
        (("TMINS", "fp16", 63, 64), 31 + 3 + 16 + 23),  # whole repeats, then a masked one right behind
        (("TABS", "fp32", 300, 64), 300 + 22),  # more than 255 repeats
        (("TABS", "fp32", 64, 64, (64, 40)), 64 + 22 + 16),  # not contiguous: a masked repeat for each row
        (("TABS", "fp32", 64, 128, (64, 100)), 64 + 64 + 22 + 16),
        (("TROWSUM", "fp32", 64, 64), 7 * 64 + 34),  # 492 measured: 10 of mask set-up and loop are not explained
        (("TROWMAX", "fp16", 64, 128), 7 * 64 + 23),
        (("TROWSUM", "fp32", 16, 32), 7 * 16 + 34 + 16),
        # 128 B apart, the halves of a row meet in no group: fold, then reduce
        (("TROWSUM", "fp32", 16, 128), 16 + 24 + 7 * 16 + 34),
        (("TDIVS", "fp32", 32, 64), 32 + 19 + 4 * 32 + 31),
        (("TCVT", "fp16", 4, 64, (None, None), "fp32"), 4 + 29),
        (("TMOV", "fp32", 64, 128), 64 * 2 + 14),
    ],
)
def test_cycles_by_hand(what, expected):
    """Passes, what is fixed, and 16 for a repeat with inactive lanes."""
    assert cycles(*what) == expected


def test_sources_of_an_operation_meet_in_every_bank_group():
    """Equal modulo 512 B, as the rows state: twice the cycles of one source."""
    assert cycles("TMAX", "fp32", 64, 64) - cycles("TMAXS", "fp32", 64, 64) == 64


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"op": "TSORT32"}, "TSORT32 is not rebuilt"),
        ({"op": "TLOADCONV"}, "TLOADCONV is not rebuilt"),
        ({"rows": None}, "shape not stated"),
        ({"dtype": "int4"}, "element type int4"),
        ({"op": "TDIVS", "dtype": "int32"}, "has no cost for Div with int32_t->int32_t"),
        ({"op": "TLOAD"}, "only tiles in ND whose shape in GM is stated"),
        ({"op": "TMATMUL"}, "shape of the product not stated"),
        ({"op": "TTRANS", "rows": 17}, "transposition of a ragged tile"),
        ({"op": "TCVT", "valid_cols": 8}, "conversion of a part of a tile"),
    ],
)
def test_why_a_row_is_not_covered(change, why):
    with pytest.raises(Uncovered, match=why):
        predict(replace(ROW, **change), DEVICE)
