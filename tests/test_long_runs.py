"""Runs whose rows, values or engines are chosen: what comes out must be what a whole run gives."""

from dataclasses import replace

import numpy as np
import pytest

import ascendsim as asc
from ascendsim import analysis, plot, window
from ascendsim.engine import both, compiled, reference
from ascendsim.engine.base import TIMELINE_COLUMNS
from ascendsim.errors import EnginesDiffer, InputError
from ascendsim.expect import _compare

OPERATOR = "softmaxgrad_960x960_float"
TALL = {f"tensors.{name}.shape": [9600, 960] for name in ("grad", "src", "dst")}


@pytest.fixture(scope="module")
def whole():
    return asc.run(OPERATOR)


@pytest.fixture
def long_runs_are_short(monkeypatch):
    monkeypatch.setattr(window, "EDGE_ROWS", 4_800)
    monkeypatch.setattr(window.rows_to_keep, "__defaults__", ((), 30_000))


# ---- rows -------------------------------------------------------------------------------------------------------


def test_a_bounded_run_has_the_rows_and_totals_of_the_whole_one(whole, long_runs_are_short):
    bounded = asc.run(OPERATOR, windows=[(7_000, 7_200)])
    t, kept = whole.timeline, bounded.timeline
    assert (t.is_whole, kept.is_whole, kept.row_count) == (True, False, 36_720)
    in_window = (t["dispatched"] - t["stuck_cycles"] < 7_200) & (t["end"] > 7_000)
    assert set(np.flatnonzero(in_window)) <= set(kept["number"].tolist())
    assert len(kept) < 12_000
    for name in TIMELINE_COLUMNS:
        assert (kept[name] == t[name][kept["number"]]).all(), name
    summaries = [run.summary() for run in (whole, bounded)]
    assert [s.pop("rows_kept") for s in summaries] == [36_720, len(kept)]
    paths = [s.pop("critical_path") for s in summaries]
    assert [path["unknown_cycles"] > 0 for path in paths] == [False, True]
    assert summaries[0] == summaries[1]
    assert bounded.findings == whole.findings
    assert bounded.causes == whole.causes


def test_a_long_run_that_repeats_says_what_was_added_up(monkeypatch):
    """L2 forced, so that nothing depends on addresses; 800 tiles on one core."""
    monkeypatch.setattr(compiled, "CHUNK_ROWS", 512)
    changes = TALL | {"machine.l2": "miss", "machine.values": "none", "block_dim": 2}
    full = asc.run(OPERATOR, set=changes)
    monkeypatch.setattr(window, "EDGE_ROWS", 2_000)
    monkeypatch.setattr(window.rows_to_keep, "__defaults__", ((), 1_000))
    bounded = asc.run(OPERATOR, set=changes)
    (skip,) = bounded.timeline.skipped
    assert skip.rows > 300_000
    assert (skip.last - skip.first) % skip.period_cycles == 0
    a, b = full.summary(), bounded.summary()
    assert (a.pop("rows_repeated"), b.pop("rows_repeated")) == (0, skip.rows)
    assert (a.pop("rows_kept"), b.pop("rows_kept")) == (full.timeline.row_count, len(bounded.timeline))
    assert (a.pop("critical_path")["unknown_cycles"], b.pop("critical_path")["unknown_cycles"] > 0) == (0, True)
    assert a == b


def test_windows_behind_the_end_are_left_out():
    result = asc.run("vector_add", windows=[(1_000, 1_100), (1_761, 1_800)])
    assert result.windows == ((1_000, 1_100),)


@pytest.mark.parametrize("window", ["0:20", (1, 2, 3), (50, 50), (-1, 3), (0.5, 7), 10, ("2us", "4us")])
def test_what_is_no_window_is_refused(window):
    with pytest.raises(InputError) as error:
        asc.run("vector_add", windows=[window])
    assert str(error.value) == (
        f"window {window!r}: want (first, last) in whole cycles, first at least 0 and below last"
    )


def test_a_long_call_keeps_its_first_and_last_rows(monkeypatch):
    """vector_add has no @tile: each core is one call of 80 rows."""
    whole = asc.run("vector_add").timeline
    monkeypatch.setattr(window, "EDGE_ROWS", 80)
    monkeypatch.setattr(window.rows_to_keep, "__defaults__", ((), 100))
    part = asc.run("vector_add").timeline
    assert len(part) == 8 * 2 * 10
    assert part["row"].tolist() == 8 * [*range(10), *range(70, 80)]
    for name in TIMELINE_COLUMNS:
        assert (part[name] == whole[name][part["number"]]).all(), name


def test_a_run_of_which_no_call_is_kept_whole_has_a_picture(monkeypatch):
    monkeypatch.setattr(window, "EDGE_ROWS", 80)
    monkeypatch.setattr(window.rows_to_keep, "__defaults__", ((), 100))
    result = asc.run("vector_add", set={"machine.values": "none"})
    (_, begin), (end, _) = analysis.edges(result.program, result.timeline, 0)
    assert (begin, end) == (0, result.makespan_cycles)
    texts = [text.text for text in plot.timeline_picture(result).texts()]
    assert any("160 of 640 rows kept" in text for text in texts)


def test_a_window_shows_what_the_scalar_unit_does_in_it(monkeypatch):
    """Rows that it dispatches, or is stuck with, in the window are there although they start later."""
    whole = asc.run(OPERATOR).timeline
    monkeypatch.setattr(window, "EDGE_ROWS", 480)
    monkeypatch.setattr(window.rows_to_keep, "__defaults__", ((), 1_000))
    part = asc.run(OPERATOR, windows=[(6_500, 6_700)]).timeline
    for t in (whole, part):
        begun = t["dispatched"] - t["stuck_cycles"]
        t.columns["seen"] = np.flatnonzero((begun < 6_700) & (t["dispatched"] > 6_500))
    assert len(whole["seen"]) == len(part["seen"])
    assert (whole["start"][whole["seen"]] >= 6_700).sum() > 300


# ---- engines ----------------------------------------------------------------------------------------------------


def test_engines_give_one_result():
    runs = {name: asc.run("vector_add", engine=name) for name in ("compiled", "reference", "both")}
    assert asc.run("vector_add").engine == "compiled"
    summaries = [run.summary() for run in runs.values()]
    assert [s.pop("engine") for s in summaries] == list(runs)
    assert summaries[0] == summaries[1] == summaries[2]
    assert len({run.digest for run in runs.values()}) == 1


def test_engines_that_differ_are_named_with_the_first_row(monkeypatch):
    def slower(*arguments):
        t = reference.schedule(*arguments)
        t["end"][600:] += 1
        return replace(t, makespan_cycles=t.makespan_cycles + 1)

    monkeypatch.setattr(both, "reference", type("Slower", (), {"schedule": staticmethod(slower)}))
    with pytest.raises(EnginesDiffer) as error:
        asc.run("vector_add", engine="both")
    lines = str(error.value).splitlines()
    assert lines[0] == "the two engines disagree; this is an error of ascendsim, please report it with the scenario"
    assert lines[1] == "  makespan: compiled 1761, reference 1762"
    assert lines[2].startswith("  end: ")
    assert "the first row 600 (core " in lines[2]
    assert len(lines) == 3


# ---- values -----------------------------------------------------------------------------------------------------


def test_no_values_are_computed_if_none_are_wanted(whole):
    result = asc.run(OPERATOR, set={"machine.values": "none"})
    assert dict(result.outputs) == {}
    assert result.makespan_cycles == whole.makespan_cycles
    judged = {e.what: (e.got, e.met) for e in result.expectations}
    assert judged["values of dst"] == ("not computed", None)
    assert result.summary()["expectations_met"]


@pytest.mark.parametrize("how", [["first"], ["tail"], ["diagonal"], ["random"], ["first", "tail", "random"]])
def test_sampled_values_are_those_of_a_whole_run_and_nothing_else(whole, how):
    changes = {"machine.values": "sample", "machine.sample": how}
    if "random" in how:
        changes |= {"machine.sample_tiles": 5, "machine.sample_seed": 3}
    result = asc.run(OPERATOR, set=changes)
    dst, want = result.outputs["dst"], whole.outputs["dst"]
    rows = np.flatnonzero((dst.view(np.uint32) != 0xFFFFFFFF).any(axis=1))
    assert len(rows) == 4 * len(result.sample.tiles)  # a tile is four rows
    assert (dst[rows] == want[rows]).all()
    assert result.sample.tiles_there == 240
    assert {f.code for f in result.findings} == {f.code for f in whole.findings}
    (judged,) = (e for e in result.expectations if e.what == "values of dst")
    assert judged.met
    assert judged.wanted == f"within tolerance of the reference, {4 * 960 * len(result.sample.tiles)} values"
    assert result.makespan_cycles == whole.makespan_cycles


def test_a_wrong_value_in_the_sample_is_found(whole, tmp_path):
    """The reference is of other data."""
    changes = {"machine.values": "sample", "machine.sample": ["first"]}
    other = tmp_path / "other.npy"
    np.save(other, whole.outputs["dst"] + np.float32(1))
    changes |= {"expect.values.dst.file": str(other)}
    scenario = asc.load_scenario(OPERATOR, changes)
    spec = scenario.expect.values["dst"].model_copy(update={"reference": None, "bound": None})
    expect = scenario.expect.model_copy(update={"values": {"dst": spec}})
    result = asc.run(scenario.model_copy(update={"expect": expect}))
    (judged,) = (e for e in result.expectations if e.what == "values of dst")
    assert judged.met is False
    assert judged.got.startswith("184320 outside, first at [0, 0]: ")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"machine.values": "some"}, "machine.values"),
        ({"machine.values": "sample", "machine.sample": []}, "machine.sample"),
        ({"machine.values": "sample", "machine.sample": ["middle"]}, "machine.sample"),
        ({"machine.values": "sample", "machine.sample_tiles": 0}, "machine.sample_tiles"),
        ({"machine.sample": ["first"]}, 'sample says which tiles to compute; it needs values = "sample"'),
    ],
)
def test_a_wrong_choice_of_values_names_its_key(changes, text):
    with pytest.raises(InputError) as error:
        asc.run(OPERATOR, set=changes)
    assert text in str(error.value)


def test_an_expectation_of_which_no_value_was_computed_is_not_met_nor_missed():
    judged = _compare("z", np.zeros(4), np.ones(4), np.zeros(4), np.zeros(4, np.bool_))
    assert (judged.met, judged.got) == (None, "none of them was computed")
