"""Errors, bounds and rankings, from small numbers worked by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.fidelity.errors_of import Errors, quantile
from ascendsim.fidelity.families import FAMILIES, Bound, Family, bank_case, is_june
from ascendsim.fidelity.judge import judge
from ascendsim.fidelity.judge_kernels import (
    JudgedKernel,
    KernelVerdict,
    judge_kernels,
    spearman,
)
from ascendsim.fidelity.kernels.predicted import Prediction, pipe_times
from ascendsim.fidelity.measured import Measured, MeasuredKernel, Uncovered, read_instructions


def row(id_="r0", cycles=100.0, *, status="as_published", op="TADD", family="f", conditions=""):
    return Measured(
        id_, 2201, "", family, op, "fp32", "", None, None, None, None, None, None, None, cycles, status, conditions, ""
    )


def kernel(id_, us, **pipe_us):
    return MeasuredKernel(id_, 2201, "", "", "Add", "8x8", "fp16", "", "1", us, pipe_us, "", "x/data_copy/y")


def family(bound=None, holds=lambda row: True):
    return Family("f", "Some rows", 2201, holds, bound)


def told(done, total):
    assert 0 < done <= total


def verdict(bound, predicted):
    """A family whose rows were measured as 100 cycles each."""
    rows = [row(f"r{i}") for i in range(len(predicted))]
    answers = dict(zip((r.id for r in rows), predicted, strict=True))
    return judge(rows, [family(bound)], lambda r: answers[r.id], told).verdicts[0]


def test_errors_in_a_few_numbers():
    errors = Errors((0.0, 0.1, 0.2, 0.3, 1.5))
    assert (errors.median, errors.worst, errors.within_quarter) == (0.2, 1.5, 0.6)
    assert errors.mean == pytest.approx(0.42)
    assert errors.p90 == pytest.approx(0.3 + 0.6 * 1.2)
    assert errors.accuracy == pytest.approx((1 + 0.9 + 0.8 + 0.7 + 0) / 5)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40))
def test_quantiles_lie_between_their_neighbours(values):
    ordered = sorted(values)
    assert quantile(values, 0) == ordered[0]
    assert quantile(values, 1) == ordered[-1]
    below = sum(v <= quantile(values, 0.9) for v in values)
    assert below >= 0.9 * (len(values) - 1)


@pytest.mark.parametrize(
    ("bound", "predicted", "said"),
    [
        (Bound(median=0.05), (100, 105, 200), ()),
        (Bound(median=0.05), (100, 106, 200), ("median 6.00% is above 5.0%",)),
        (Bound(mean=0.1), (110, 90), ()),
        (Bound(mean=0.1), (110, 89), ("mean 10.50% is above 10.0%",)),
        (Bound(worst=0.05), (100, 94), ("worst 6.00% is above 5.0%",)),
        (Bound(within_quarter=0.8), (100, 100, 100, 100, 126), ()),
        (Bound(within_quarter=0.8), (100, 100, 100, 74, 126), ("share within 25 % 0.6000 is below 0.8",)),
        (Bound(accuracy=0.965), (100, 100, 90), ()),
        (Bound(accuracy=0.965), (100, 100, 300), ("mean accuracy 0.6667 is below 0.965",)),
    ],
)
def test_a_bound_is_held_or_its_breach_is_told(bound, predicted, said):
    assert verdict(bound, predicted).broken == said


def test_rows_that_are_no_measurements_stand_apart_and_break_no_bound():
    rows = [row("a"), row("b", status="implausible")]
    found = judge(rows, [family(Bound(worst=0.01))], lambda r: 100.0 if r.id == "a" else 900.0, told)
    assert found.broken == ()
    assert [j.row.id for j in found.verdicts[0].rows] == ["a"]
    assert [(j.row.id, j.bias) for j in found.apart] == [("b", 8.0)]


def test_what_nothing_rebuilds_is_counted_with_its_reason():
    def predict(r):
        if r.op == "TSORT":
            raise Uncovered("no instruction sorts")
        return 100.0

    found = judge([row("a"), row("b", op="TSORT"), row("c")], [family()], predict, told)
    assert found.coverage == pytest.approx(2 / 3)
    assert [j.reason for j in found.judged] == ["", "no instruction sorts", ""]


def test_a_row_of_two_families_is_predicted_once():
    asked = []
    found = judge([row("a")], [family(), family()], lambda r: asked.append(r.id) or 100.0, told)
    assert asked == ["a"]
    assert len(found.verdicts) == 2
    assert len(found.judged) == 1


def test_the_worst_rows_come_first():
    found = verdict(None, (100, 150, 40, 101, 99, 98, 120))
    assert [j.row.id for j in found.worst] == ["r2", "r1", "r6", "r5", "r3"]
    assert found.worst[0].bias == pytest.approx(-0.6)


def test_every_usable_measurement_belongs_to_a_family():
    left = [
        r.id for r in read_instructions() if r.is_usable and not any(f.arch == r.arch and f.holds(r) for f in FAMILIES)
    ]
    assert left == []


def test_names_of_families_are_their_own():
    names = [f.name for f in FAMILIES]
    assert len(names) == len(set(names))


def test_campaigns_and_cases_are_read_from_the_conditions():
    assert is_june(row(family="pto_tileop", conditions="campaign B (commit x, 2026-06-26)"))
    assert not is_june(row(family="pto_tileop", conditions="campaign A (commit x, 2026-04-17); replaced in campaign C"))
    assert bank_case(row(family="ascendc_api", op="Add", conditions="scenario 7: src0 blkStride 0")) == 7
    assert bank_case(row(family="ascendc_api", op="reduce_sequence", conditions="scenario 7:")) is None
    assert [bank_case(r) for r in read_instructions() if bank_case(r)] == [1, 2, 3, 4, 5, 6, 7, 8]


# ---- kernels --------------------------------------------------------------------------------------------------------


def test_times_of_pipes_are_told_from_times_of_cores():
    times = {"aiv_time": 9.0, "aiv_vec_time": 3.0, "aic_mac_time": 4.0, "aicore_time": 9.0, "aiv_mte2_time": 5.0}
    assert pipe_times(times) == {"aiv_vec_time": 3.0, "aic_mac_time": 4.0, "aiv_mte2_time": 5.0}


def test_the_slowest_pipe_is_compared_where_several_were_measured():
    said = Prediction(10.0, {"aiv_vec_time": 2.0, "aiv_mte2_time": 7.0}, "aiv_mte2_time")
    assert JudgedKernel(kernel("k", 10.0, aiv_vec_time=3.0, aiv_mte2_time=6.0), said).names_bottleneck is True
    assert JudgedKernel(kernel("k", 10.0, aiv_vec_time=8.0, aiv_mte2_time=6.0), said).names_bottleneck is False
    assert JudgedKernel(kernel("k", 10.0, aiv_vec_time=8.0), said).names_bottleneck is None


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ((1, 2, 3, 4), (10, 20, 30, 40), 1.0),
        ((1, 2, 3, 4), (40, 30, 20, 10), -1.0),
        ((1, 2, 3, 4), (10, 20, 40, 30), 0.8),
        ((1, 2, 2, 4), (10, 20, 20, 30), 1.0),
        ((1, 1, 1), (3, 2, 1), 1.0),
    ],
)
def test_rank_correlation(first, second, wanted):
    assert spearman(first, second) == pytest.approx(wanted)


def test_kernels_hold_their_bounds_or_say_which_not():
    rows = [kernel("a", 100.0, aiv_vec_time=9.0, aiv_mte2_time=5.0), kernel("b", 80.0), kernel("c", 60.0)]
    said = {"a": 120.0, "b": 130.0, "c": 60.0}

    def predict(r):
        return Prediction(said[r.id], {"aiv_vec_time": 1.0, "aiv_mte2_time": 5.0}, "aiv_mte2_time")

    found = judge_kernels(rows, predict, told)
    assert found.broken == (
        "median 20.0% is above 12%",
        "another pipe is the slowest in a",
        "the variants of Add, arch 2201: 8x8 rank otherwise (correlation 0.50, below 0.9)",
    )
    assert KernelVerdict(found.rows[2:]).broken == ()
