"""What a run says about itself in words, and that a run folder gives it back whole."""

import json
from dataclasses import fields, replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from conftest import Undrawn
from rich.console import Console

import ascendsim as asc
from ascendsim import report, runfolder, trace
from ascendsim.arrays import load_npz, npz_bytes
from ascendsim.computed import Sample, Tile
from ascendsim.engine.base import Keep, Skip, Totals
from ascendsim.errors import InputError
from ascendsim.plot import process
from ascendsim.result import Expectation
from ascendsim.stored import result_of

SMALL = {
    "block_dim": 3,
    "tiling.tile_m": 2,
    "tensors.grad.shape": [24, 64],
    "tensors.src.shape": [24, 64],
    "tensors.dst.shape": [24, 64],
    "expect.overlap.MTE2,V.min": 0.0,
}
SKIPS = (Skip(1000, 2000, 250, 1200), Skip(3000, 4000, 500, 34))


@pytest.fixture(scope="module")
def run():
    return asc.run("softmaxgrad_960x960_float", set=SMALL)


@pytest.fixture(scope="module")
def long(run):
    t = run.timeline
    calls = np.isin(np.arange(len(run.program.calls["core"])), (0, 1, 2))
    rows = Keep(calls, ((500, 900),)).chosen(t["call"], t["call"], t["dispatched"], t["stuck_cycles"], t["end"])
    columns = {name: column[rows] for name, column in t.columns.items()}
    return replace(run, timeline=replace(t, columns=columns, skipped=SKIPS), windows=((500, 900),), engine="both")


def _sampled(result):
    scenario = {**result.scenario, "machine": {**result.scenario["machine"], "sample": ["first", "tail"]}}
    tiles = tuple(Tile(core, "tile", number) for core in range(3) for number in range(4))
    return replace(result, values="sample", sample=Sample(tiles, 48_000, 96, 144_000), scenario=scenario)


# ---- report ------------------------------------------------------------------------------------------------------


def test_the_schedule_in_a_line(run, long):
    assert report.schedule_text(run) == "compiled engine, all rows kept"
    kept, rows = len(long.timeline), len(run.timeline)
    assert report.schedule_text(long) == (
        f"both engines agree, {kept:,} of {rows:,} rows kept, 1,234 rows repeated from periods of 250 to 500 cycles"
    )
    one = replace(long, timeline=replace(long.timeline, skipped=SKIPS[:1]), engine="compiled")
    assert report.schedule_text(one) == (
        f"compiled engine, {kept:,} of {rows:,} rows kept, 1,200 rows repeated from periods of 250 cycles"
    )


def test_the_values_in_a_line(run):
    assert report.values_text(run) == "all"
    assert report.values_text(replace(run, values="none")) == "not computed"
    sampled = "sampled, 12 of 48,000 tiles (first, tail), 96 of 144,000 calls run"
    assert report.values_text(_sampled(run)) == sampled


def test_both_stand_in_the_report_and_on_the_terminal(run, long):
    lines = report.markdown(long).splitlines()
    assert f"- schedule: {report.schedule_text(long)}" in lines
    assert "- values: all" in lines
    assert f"- program: {len(run.timeline):,} rows in {len(run.program.templates)} templates" in lines
    console = Console(width=200, file=StringIO())
    console.print(report.terminal(long))
    text = console.file.getvalue()
    assert report.schedule_text(long) in text
    assert "values" in text


def test_what_was_not_computed_is_not_judged(run):
    lines = [Expectation("a", "1", "1", met=True), Expectation("b", "1", "2", met=False)]
    result = replace(run, expectations=(*lines, Expectation("c", "1", "", met=None)))
    assert [cells[0] for cells in report.expectation_cells(result)] == ["met", "NOT MET", "not judged"]


# ---- run folder --------------------------------------------------------------------------------------------------


def _assert_equal(a, b):
    for name in a.timeline.columns:
        assert (a.timeline[name] == b.timeline[name]).all()
        assert a.timeline[name].dtype == b.timeline[name].dtype
    for field in fields(Totals):
        mine, its = getattr(a.timeline.totals, field.name), getattr(b.timeline.totals, field.name)
        assert type(mine) is type(its)
        assert np.array_equal(mine, its)
    for name in ("row_count", "makespan_cycles", "skipped", "is_whole"):
        assert getattr(a.timeline, name) == getattr(b.timeline, name)
    for name in ("name", "device", "engine", "windows", "values", "sample", "findings", "expectations", "digest"):
        assert getattr(a, name) == getattr(b, name)
    assert a.summary() == b.summary()
    assert a.outputs.keys() == b.outputs.keys()
    assert all(np.array_equal(a.outputs[name], b.outputs[name]) for name in a.outputs)


class DrawnHere(Undrawn):
    """Draws in this process, which has the drawing library loaded already."""

    def begin(self, record, arrays):
        """Keep what is to be drawn."""
        super().begin(record, arrays)
        self._run = result_of(record, arrays, {}, Path())

    def pictures(self):
        """The pictures by file name."""
        return process.draw(self._run)


@pytest.mark.parametrize("kind", ["whole", "long", "sampled"])
def test_a_run_comes_back_as_it_was(run, long, kind, tmp_path):
    result = {"whole": run, "long": long, "sampled": _sampled(run)}[kind]
    files = runfolder.write_run(result, tmp_path / "run", painter=DrawnHere())
    loaded = runfolder.load_run(tmp_path / "run")
    _assert_equal(result, loaded)
    assert trace.trace_json(loaded) == trace.trace_json(result)
    assert set(files) == {file for file in (tmp_path / "run").rglob("*") if file.is_file()}
    again = runfolder.write_run(result, tmp_path / "run", painter=DrawnHere())
    assert [f.read_bytes() for f in files] == [f.read_bytes() for f in again]


def test_a_run_of_an_older_version_is_refused(run, tmp_path):
    runfolder.write_run(run, tmp_path, painter=Undrawn())
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["schema"] == 4
    (tmp_path / "run.json").write_text(json.dumps(record | {"schema": 1}))
    with pytest.raises(InputError, match="schema = 1 is of an older version of ascendsim; run the scenario again"):
        runfolder.load_run(tmp_path)


def test_random_numbers_are_stored_as_they_are_and_the_rest_is_compressed(tmp_path):
    rng = np.random.default_rng(1)
    arrays = {
        "random": rng.random(100_000),
        "zeros": np.zeros(100_000),
        "tail": np.zeros(100_000),
        "empty": np.zeros(0),
    }
    arrays["tail"][:9000] = rng.random(9000)
    data = npz_bytes(arrays)
    assert 800_000 < len(data) < 900_000
    (tmp_path / "a.npz").write_bytes(data)
    loaded = load_npz(tmp_path / "a.npz")
    assert all(np.array_equal(loaded[name], array) for name, array in arrays.items())
