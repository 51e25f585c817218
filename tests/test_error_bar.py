"""The range of a makespan by the errors measured on its instruction mix, and the table that these come from."""

import json
import math
import statistics
import tomllib
from dataclasses import replace
from io import StringIO

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import ascendsim as asc
from ascendsim import report
from ascendsim.error_bar import ErrorBar, error_bar
from ascendsim.errors import InputError
from ascendsim.known_errors import Family, FamilyErrors, read_errors, summarise, write_errors
from ascendsim.leaning import Charge, Figure
from ascendsim.terms import CoreKind, Pipe

ADD = Figure("vector.Add.half", "measured", "s")
AXPY = Figure("vector.Axpy.half", "inferred", "s")
MUL_CAST = Figure("vector.MulCast.half->int8_t", "assumed", "s")
LOAD = Figure("transfer.gm_to_ub_miss", "fitted", "s")
DISPATCH = Figure("scalar.dispatch_cycles", "assumed", "s")
VECTOR = FamilyErrors(Family("vector", 2201, ("vector.*",)), 100, 0.02, 0.1, 0.0)
LOADS = FamilyErrors(Family("loads", 2201, ("transfer.gm_to_ub_*", "link.*")), 50, 0.01, 0.04, 0.0)
V, MTE2, S = ((CoreKind.AIV, pipe) for pipe in (Pipe.V, Pipe.MTE2, Pipe.S))


def _bar(charges, families=(VECTOR, LOADS), lane=V, busy=0.8, makespan=1000, arch=2201):
    return error_bar(
        makespan, [Charge(*where, figure, cycles) for where, figure, cycles in charges], lane, busy, arch, families
    )


# ---- the rule ----------------------------------------------------------------------------------------------------


def test_the_bottleneck_by_its_share_and_the_rest_by_the_others():
    bar = _bar([(V, ADD, 700), (V, AXPY, 100), (MTE2, LOAD, 300), (S, DISPATCH, 100)])
    p90 = 0.8 * 0.1 + 0.2 * 0.75 * 0.04
    assert bar.p90_error == pytest.approx(p90)
    assert bar.median_error == pytest.approx(0.8 * 0.02 + 0.2 * 0.75 * 0.01)
    assert (bar.low_cycles, bar.high_cycles) == (920, 1095)  # 1000 / 1.086 = 920.8, 1000 / 0.914 = 1094.1
    assert bar.unmeasured_share == pytest.approx(0.05)
    assert [(f.family.name, round(part, 6)) for f, part in bar.family_shares] == [("vector", 0.8), ("loads", 0.15)]


def test_another_bottleneck_weighs_otherwise():
    charges = [(V, ADD, 800), (MTE2, LOAD, 300)]
    assert _bar(charges, lane=MTE2, busy=0.9).p90_error == pytest.approx(0.9 * 0.04 + 0.1 * 0.1)


def test_pipes_of_the_other_kind_of_core_are_others():
    bar = _bar([(V, ADD, 800), ((CoreKind.AIC, Pipe.V), LOAD, 1)])
    assert [round(part, 6) for _, part in bar.family_shares] == [0.8, 0.2]


def test_what_is_waited_weighs_nothing():
    charges = [Charge(*V, ADD, 10), Charge(*MTE2, LOAD, 0, 500)]
    bar = error_bar(1000, charges, V, 0.5, 2201, [VECTOR, LOADS])
    assert [f.family.name for f, _ in bar.family_shares] == ["vector"]
    assert bar.unmeasured_share == 0.5


def test_an_assumed_number_has_no_error():
    bar = _bar([(V, ADD, 300), (V, MUL_CAST, 100)], busy=1.0)
    assert bar.unmeasured_share == pytest.approx(0.25)
    assert bar.p90_error == pytest.approx(0.075)


def test_the_family_with_the_largest_errors_counts():
    wide = FamilyErrors(Family("tile ops", 2201, ("vector.Add.*",)), 3, 0.005, 0.2, 0.0)
    for families in ((VECTOR, wide), (wide, VECTOR)):
        bar = _bar([(V, ADD, 500), (V, AXPY, 500)], families, busy=1.0)
        assert {f.family.name: part for f, part in bar.family_shares} == {"tile ops": 0.5, "vector": 0.5}


def test_no_range_without_a_measurement_of_the_mix():
    assert _bar([(V, ADD, 1)], families=()) is None
    assert _bar([(V, ADD, 1)], arch=3510) is None
    assert _bar([(V, MUL_CAST, 1)]) is None
    assert _bar([(V, ADD, 1)], families=(LOADS,)) is None


def test_an_error_of_one_leaves_no_upper_end():
    wild = replace(VECTOR, p90=1.0)
    bar = _bar([(V, ADD, 1)], (wild,), busy=1.0)
    assert (bar.low_cycles, bar.high_cycles) == (500, None)
    assert _bar([(V, ADD, 1)], (replace(wild, p90=0.99),), busy=1.0).high_cycles == 100_000


@given(
    st.lists(st.tuples(st.sampled_from([ADD, AXPY, LOAD, DISPATCH]), st.integers(0, 1000)), min_size=1, max_size=9),
    st.floats(0, 1),
)
def test_shares_add_up_and_the_makespan_is_in_its_range(mix, busy):
    bar = _bar(
        [((V, MTE2)[i % 2], figure, cycles) for i, (figure, cycles) in enumerate(mix)], busy=busy, makespan=12345
    )
    if bar is None:
        return
    assert math.fsum(part for _, part in bar.family_shares) + bar.unmeasured_share == pytest.approx(1)
    assert bar.low_cycles <= 12345 <= bar.high_cycles
    assert 0 <= bar.median_error <= bar.p90_error <= 0.1 + 1e-12


# ---- the table ---------------------------------------------------------------------------------------------------


def test_a_summary_of_errors():
    errors = [0.1, -0.2, 0.05, 0.0, -0.3, 0.4, 0.02, -0.01, 0.03, 0.06, 0.07]
    found = summarise(Family("f", 2201), errors)
    sizes = sorted(abs(e) for e in errors)
    assert (found.count, found.median, found.bias) == (11, statistics.median(sizes), statistics.median(errors))
    assert found.p90 == sizes[9]  # rank 0.9 * 10 of eleven
    assert summarise(Family("f", 2201), [0.0, -1.0]).p90 == 0.9  # between two
    assert summarise(Family("f", 2201), [1 / 3]) == FamilyErrors(Family("f", 2201), 1, 0.333333, 0.333333, 0.333333)
    with pytest.raises(ValueError, match="family f: no errors"):
        summarise(Family("f", 2201), [])


def test_the_table_comes_back_as_it_was_written(tmp_path):
    file = tmp_path / "errors.toml"
    vector, kernels = Family("vector", 2201, ("vector.*", "cube.Mmad.*")), Family("kernels", 3510)
    write_errors({vector: [0.1, -0.1, 0.3], Family("nothing", 2201): [], kernels: [-0.5]}, file)
    assert read_errors(file) == (
        FamilyErrors(vector, 3, 0.1, 0.26, 0.1),
        FamilyErrors(kernels, 1, 0.5, 0.5, -0.5),
    )
    text = file.read_text()
    assert text.startswith(
        "# Errors of predicted cycles, relative to what was measured and published. Made by tools/write_accuracy.py.\n"
    )
    assert tomllib.loads(text)["family"][0] == {
        "name": "vector",
        "arch": 2201,
        "covers": ["vector.*", "cube.Mmad.*"],
        "count": 3,
        "median": 0.1,
        "p90": 0.26,
        "bias": 0.1,
    }


def test_no_table_and_a_damaged_one(tmp_path):
    assert read_errors(tmp_path / "none.toml") == ()
    damaged = {"not toml": "Invalid statement|Expected", "schema = 1": "family", "[[family]]\nname = 'a'": "arch"}
    for i, (text, why) in enumerate(damaged.items()):
        (tmp_path / f"{i}.toml").write_text(text)
        with pytest.raises(InputError, match=rf"{i}\.toml: no table of errors \(.*({why})"):
            read_errors(tmp_path / f"{i}.toml")


@pytest.mark.parametrize(
    ("arch", "number", "covered"),
    [
        (2201, "transfer.gm_to_ub_miss", True),
        (2201, "transfer.gm_to_ub_hit", True),
        (3510, "transfer.gm_to_ub_hit", False),
        (2201, "transfer.gm_to_l1_hit", False),
        (2201, "link.hbm_read.bytes_per_cycle_per_aiv", True),
        (2201, "a.link.b", False),
    ],
)
def test_a_family_stands_for_the_numbers_of_its_patterns(arch, number, covered):
    assert LOADS.covers(arch, number) is covered


def test_the_shipped_table_names_numbers_that_there_are():
    for errors in read_errors():
        device = {2201: "Ascend910B1", 3510: "Ascend950PR_9589"}[errors.family.arch]
        paths = _paths(asc.load_device(device).model_dump(by_alias=True))
        for pattern in errors.family.covers:
            assert any(
                replace(errors, family=replace(errors.family, covers=(pattern,))).covers(errors.family.arch, p)
                for p in paths
            ), pattern
        assert 0 <= errors.median <= errors.p90


def _paths(tree, path=""):
    if not isinstance(tree, dict):
        return []
    if "status" in tree:
        return [path]
    return [p for key, value in tree.items() for p in _paths(value, f"{path}.{key}".lstrip("."))]


# ---- what a run says ---------------------------------------------------------------------------------------------

BUSY = {Pipe.S: 100, Pipe.V: 700, Pipe.MTE2: 800, Pipe.MTE3: 0}
CHARGES = (
    Charge(*MTE2, LOAD, 700),
    Charge(*MTE2, replace(ADD, path="link.hbm_read.bytes_per_cycle_per_aiv", status="inferred", source="a link"), 100),
    Charge(*V, ADD, 500),
    Charge(*V, MUL_CAST, 200),
    Charge(*S, DISPATCH, 100),
    Charge(*S, replace(DISPATCH, path="scalar.queue_depth.V", source="a depth"), 0, 321),
)


@pytest.fixture(scope="module")
def plain():
    """One core: MTE2 is busy for 80 % of 1000 cycles."""
    run = asc.run("vector_add", set={"machine.values": "none", "block_dim": 1})
    busy = run.timeline.totals.busy_cycles.copy()
    for pipe, cycles in BUSY.items():
        busy[0, pipe] = cycles
    totals = replace(run.timeline.totals, busy_cycles=busy)
    return replace(run, timeline=replace(run.timeline, makespan_cycles=1000, totals=totals))


@pytest.fixture
def run(plain, monkeypatch):
    monkeypatch.setattr("ascendsim.leaning.charges_of", lambda *_: CHARGES)
    monkeypatch.setattr("ascendsim.result.read_errors", lambda: (VECTOR, LOADS))
    return replace(plain)


P90 = 0.8 * 0.04 + 0.2 * 500 / 800 * 0.1
"""MTE2 by itself; V's Add among what the others are busy with."""


def _without_table(monkeypatch):
    monkeypatch.setattr("ascendsim.result.read_errors", lambda: ())


def _printed(result):
    console = Console(width=300, file=StringIO())
    console.print(report.terminal(result))
    return console.file.getvalue()


MAKESPAN = (
    "1000 cycles (957 to 1050 by the errors measured on its instruction mix; 7.5% of the cycles rest on nothing "
    "measured), 0.541 us at 1850 MHz"
)
RESTS = "numbers of the device file: measured 31.2%, fitted 43.8%, inferred 6.2%, assumed 18.8% of the busy cycles"


def test_the_report(run):
    uncertain = len(run.device.uncertain_numbers())
    lines = report.markdown(run).splitlines()
    assert f"- makespan: {MAKESPAN}" in lines
    assert f"- rests on: {RESTS}" in lines
    assert lines[lines.index("## What this rests on") :] == [
        "## What this rests on",
        "",
        "- half overflow: inf_nan (inferred)",
        "- rounding of half results: CAST_ROUND",
        f"- {uncertain} numbers of the device file are inferred or assumed; the schedule used those listed below",
        "- kernel launch and instruction cache are not part of the makespan",
        "",
        "Inferred or assumed numbers that the schedule used:",
        "",
        "| number | status | busy cycles | of all | cycles waited | source |",
        "|---|---|---|---|---|---|",
        "| vector.MulCast.half->int8_t | assumed | 200 | 12.5% | 0 | s |",
        "| link.hbm_read.bytes_per_cycle_per_aiv | inferred | 100 | 6.2% | 0 | a link |",
        "| scalar.dispatch_cycles | assumed | 100 | 6.2% | 0 | s |",
        "| scalar.queue_depth.V | assumed | 0 | 0.0% | 321 | a depth |",
        "",
        "Measurements behind the range of the makespan:",
        "",
        "| family | of the makespan | measurements | median error | 90th percentile |",
        "|---|---|---|---|---|",
        "| loads | 80.0% | 50 | 1.0% | 4.0% |",
        "| vector | 12.5% | 100 | 2.0% | 10.0% |",
    ]


def test_the_terminal(run):
    text = _printed(run)
    assert f"makespan       {MAKESPAN}" in text
    assert f"rests on       {RESTS}" in text


def test_the_summary(run):
    summary = run.summary()
    assert summary["error_bar"] == {
        "low_cycles": math.floor(1000 / (1 + P90)),
        "high_cycles": math.ceil(1000 / (1 - P90)),
        "median_error": 0.0105,
        "p90_error": 0.0445,
        "unmeasured_share": 0.075,
        "family_shares": {"loads": 0.8, "vector": 0.125},
    }
    assert summary["status_shares"] == {"measured": 0.3125, "fitted": 0.4375, "inferred": 0.0625, "assumed": 0.1875}
    assert summary["leans_on"][1] == {
        "number": "link.hbm_read.bytes_per_cycle_per_aiv",
        "status": "inferred",
        "busy_cycles": 100,
        "waited_cycles": 0,
        "source": "a link",
    }
    assert [used["number"] for used in summary["leans_on"]] == [u.figure.path for u in run.uncertain_leanings]
    assert json.loads(json.dumps(summary)) == summary


def test_the_page_shows_what_is_printed_and_names_every_key(run):
    page = (ROOT / "docs/accuracy-of-a-run.md").read_text()
    assert f"makespan {MAKESPAN} " in " ".join(page.split())
    summary = run.summary()
    keys = {"error_bar", "status_shares", "leans_on", *summary["error_bar"], *summary["leans_on"][0]}
    assert [key for key in sorted(keys) if f"`{key}`" not in page] == []


def test_without_a_table_there_is_no_range(run, monkeypatch):
    _without_table(monkeypatch)
    assert run.error_bar is None
    assert run.summary()["error_bar"] is None
    text = report.markdown(run)
    assert "- makespan: 1000 cycles, 0.541 us at 1850 MHz\n" in text
    assert "Measurements behind" not in text
    assert "Inferred or assumed numbers" in text


def test_no_range_on_a_device_that_is_not_calibrated(run):
    device = run.device.model_copy(update={"calibrated": run.device.calibrated.model_copy(update={"value": False})})
    result = replace(run, device=device)
    assert result.error_bar is None
    lines = report.markdown(result).splitlines()
    assert "- makespan: 1000 cycles, 0.541 us at 1850 MHz" in lines
    assert lines[2].startswith("**NOT CALIBRATED: ")


def test_a_run_without_work(run, monkeypatch):
    empty = replace(run.timeline.totals, rows=run.timeline.totals.rows * 0)
    monkeypatch.setattr("ascendsim.leaning.charges_of", lambda *_: ())
    result = replace(run, timeline=replace(run.timeline, makespan_cycles=0, totals=empty))
    assert (result.bottleneck, result.error_bar, result.status_shares) == ("none", None, {})
    text = report.markdown(result)
    assert "- rests on: nothing\n" in text
    assert "the schedule used none of them\n" in text
    assert "Inferred or assumed numbers" not in text


@pytest.mark.parametrize(
    ("low", "high", "unmeasured", "cycles", "rest"),
    [
        (14577, 14577, 0.0, "14500 to 14600", ""),
        (999, 1000, 0.0, "999 to 1000", ""),
        (99_999, 999_001, 0.0, "99900 to 1000000", ""),
        (7, None, 0.0, "7 or more", ""),
        (10, 11, 0.25, "10 to 11", "; 25.0% of the cycles rest on nothing measured"),
        (10, 11, 0.001, "10 to 11", "; 0.1% of the cycles rest on nothing measured"),
        (10, 11, 0.0009, "10 to 11", "; less than 0.1% of the cycles rest on nothing measured"),
    ],
)
def test_the_range_in_words(low, high, unmeasured, cycles, rest):
    text = report.error_bar_text(ErrorBar(low, high, 0.0, 0.0, unmeasured, ()))
    assert text == f"{cycles} by the errors measured on its instruction mix{rest}"


def test_l2_that_is_too_small_is_told(run):
    def lines(l2_bytes, mode):
        memory = run.device.memory
        number = memory.l2_bytes.model_copy(update={"value": l2_bytes})
        device = run.device.model_copy(update={"memory": memory.model_copy(update={"l2_bytes": number})})
        machine = {**run.scenario["machine"], "l2": mode}
        return report.markdown(replace(run, device=device, scenario={**run.scenario, "machine": machine})).splitlines()

    told = "- L2 is smaller than the tensors; it drops segments of 16384 B (inferred)"
    tensors = 3 * 2 * 65536
    assert told in lines(tensors - 1, "model")
    assert told not in lines(tensors, "model")
    assert told not in lines(tensors - 1, "miss")
    assert told in lines(tensors - 1, "warm")


def test_the_order_of_mmad_is_told_where_there_is_one(run):
    told = "- order of Mmad's additions: step (assumed)"
    assert told not in report.markdown(run).splitlines()
    assert told in report.markdown(asc.run("matmul_plus_one", set={"machine.values": "none"})).splitlines()
