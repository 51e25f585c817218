"""`ascendsim.tune`: what the command finds, as an object."""

import gc
import subprocess
import sys

import numpy as np
import pytest
from tune_harness import command

import ascendsim as asc
from ascendsim.plot.pareto import pareto_png

VARY = {"tile_length": [256, 1024, 8192], "buffer_num": range(1, 3), "block_dim": "4,8"}
OPTIONS = ("--vary=tile_length=256,1024,8192", "--vary=buffer_num=1:2:1", "--vary=block_dim=4,8")
BOTH = ("cycles", "peak_ub")


@pytest.fixture(scope="module")
def found():
    return asc.tune("vector_add", vary=VARY, objective=BOTH, workers=1)


def test_what_was_found(found):
    assert [row["candidate"] for row in found.rows] == list(range(13))
    assert {row["status"] for row in found.rows} == {"timed"}
    assert found.default is not None
    assert (found.default["candidate"], found.default["tile_length"], found.default["cycles"]) == (0, 2048, 1761)
    assert found.best == found.rows[10]
    assert (found.best["tile_length"], found.best["buffer_num"], found.best["cycles"]) == (8192, 1, 1346)
    assert found.ties == 2
    assert [row["candidate"] for row in found.ranked[: found.ties]] == [10, 12]
    assert [row["candidate"] for row in found.front] == [10, 8, 6, 4, 2]
    assert [(s.field, round(s.spread, 3)) for s in found.sensitivities] == [
        ("tile_length", 2.069), ("block_dim", 0.648), ("buffer_num", 0.0),
    ]  # fmt: skip
    assert (found.gain.default_cycles, found.gain.best_cycles) == (1761, 1346)
    assert (found.file, found.evaluated, found.resumed) == (None, 13, 0)
    assert found.us(found.best) == pytest.approx(0.7276, abs=1e-4)


def test_what_it_says_of_itself(found):
    assert repr(found) == (
        "TuneResult(vector_add, 12 of 12 timed, "
        "best 1346 cycles with tile_length = 8192, buffer_num = 1, block_dim = 8)"
    )
    nothing = asc.tune("vector_add", vary={"block_dim": [999]}, workers=1)
    assert repr(nothing) == "TuneResult(vector_add, 0 of 1 timed, none timed)"
    assert str(nothing).splitlines()[-1] == (
        "no candidate was timed; number 1, refused: block_dim 999 is more than the 48 AIVs of the device: it runs as "
        "several rounds, which is not simulated; set block_dim=48 or less"
    )


def test_the_command_prints_the_same_and_goes_on_with_the_same_file(found, tmp_path):
    file = tmp_path / "a.csv"
    kept = asc.tune("vector_add", vary=VARY, objective=BOTH, workers=1, out=str(file))
    content = file.read_bytes()
    said = command("tune", "vector_add", *OPTIONS, "--workers", "1", "--out", str(file),
                   *(f"--objective={name}" for name in BOTH))  # fmt: skip
    assert said.stdout == f"{found}\n0 evaluated now, 13 known before\nwrote {file}\n"
    assert file.read_bytes() == content
    again = asc.tune("vector_add", vary=VARY, workers=1, out=file)
    assert (kept.file, kept.evaluated, again.evaluated, again.resumed) == (file, 13, 0, 13)
    assert (kept.rows, again.rows) == (found.rows, found.rows)


def test_files_are_those_of_the_command(found, tmp_path):
    asc.tune("vector_add", vary=VARY, objective=BOTH, workers=1, out=tmp_path / "a.csv")
    for number, options in ((None, ()), (3, ("--candidate", "3"))):
        ours, theirs = tmp_path / f"ours{number}", tmp_path / f"theirs{number}"
        files = found.export(ours, number)
        assert [file.name for file in files] == ["vector_add_tuned.toml", "vector_add_tuned_tiling.h"]
        assert command("export", str(tmp_path / "a.csv"), "--out", str(theirs), *options).returncode == 0
        for file in files:
            assert file.read_bytes() == (theirs / file.name).read_bytes()


def test_the_scenario_of_a_candidate_runs(found, tmp_path):
    for number in (None, 3):
        row = found.best if number is None else found.rows[number]
        scenario = found.scenario(number)
        assert asc.run(scenario, set=None).makespan_cycles == row["cycles"]
        file, _ = found.export(tmp_path, number)
        assert asc.run(file).makespan_cycles == row["cycles"]


def test_nothing_is_written_without_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asc.tune(asc.load_scenario("vector_add"), vary={"tile_length": [1024]}, workers=1)
    assert list(tmp_path.iterdir()) == []


def test_values_of_any_kind():
    found = asc.tune(
        "softmaxgrad_960x960_float",
        vary={"tile_m": np.array([4, 60]), "tmp_bytes": ("min", 20480), "is_front": [False], "block_dim": "24:48:*2"},
        where=["tile_m * block_dim < 1000", "block_dim == 48"],
        set={"machine.l2": "warm"},
        workers=1,
    )
    assert [(row["tile_m"], row["tmp_bytes"], row["is_front"], row["block_dim"]) for row in found.rows[1:]] == [
        (4, "min", False, 48), (4, 20480, False, 48),
    ]  # fmt: skip
    assert found.setup.scenario.machine.l2 == "warm"


def test_progress_and_the_callers_own_settings():
    told, thresholds = [], gc.get_threshold()
    asc.tune(
        "vector_add",
        vary={"tile_length": [1024, 2048]},
        search="random",
        samples=1,
        seed=3,
        workers=1,
        progress=lambda stage, done, total: told.append((stage.partition(",")[0], done, total)),
    )
    assert told == [("candidates", 0, 2), ("candidates", 1, 2), ("candidates", 2, 2)]
    assert gc.get_threshold() == thresholds


def test_a_script_without_a_guard_and_processes(tmp_path):
    (tmp_path / "s.py").write_text(
        'print("begun")\nimport ascendsim as asc\n'
        'print(asc.tune("vector_add", vary={"tile_length": [256, 1024, 8192]}, workers=2).best["cycles"])\n'
    )
    done = subprocess.run([sys.executable, tmp_path / "s.py"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("begun\n1346\n", "")


def test_a_picture(found):
    assert pareto_png(found).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"vary": {}}, "--vary: nothing varies; name at least one field, such as tile_m=8:128:8, "),
        ({"vary": ["tile_length=1"]}, "vary=['tile_length=1']: must be {field: values}, such as {\"tile_m\": range("),
        ({"vary": {"tile_length": 4}}, 'vary: tile_length: 4 is not iterable; give all values, [4] or "8:128:8"'),
        ({"vary": {"tile_length": [4.5]}}, "vary: tile_length: 4.5 is no whole number, no word and no bool"),
        ({"vary": {"tile_length": ["1,2"]}}, "vary: tile_length: '1,2' is no whole number, no word and no bool"),
        ({"vary": {"tile_length": []}}, "--vary tile_length=: a value is missing; join values with commas, such as "),
        ({"vary": {"tile_length": range(0)}}, "--vary tile_length=: a value is missing; "),
        (
            {"vary": {"tile_lenght": [1]}},
            "--vary tile_lenght: vector_add has no such field; the nearest is tile_length. ",
        ),
        ({"where": "tile_length"}, '--where "tile_length": no comparison; want two expressions '),
        ({"objective": "speed"}, "--objective speed: unknown; choose from cycles, peak_ub, peak_l1, workspace"),
        ({"search": "best"}, "--search best: unknown; choose from exhaustive, random, guided"),
        ({"samples": 0}, "samples=0: must be a whole number of at least 1, or None for a fifth of the space"),
        ({"samples": 2.0}, "samples=2.0: must be a whole number of at least 1, or None for a fifth of the space"),
        ({"seed": None}, "seed=None: must be a whole number of at least 0"),
        ({"seed": -1}, "seed=-1: must be a whole number of at least 0"),
        ({"workers": 0}, "workers=0: must be a whole number of at least 1, None for one a core, or dask://HOST:PORT"),
        ({"workers": True}, "workers=True: must be a whole number of at least 1, None for one a core, or dask://"),
        ({"workers": "slurm"}, "--executor slurm: want processes, or dask://HOST:PORT such as dask://127.0.0.1:8786"),
        ({"out": "r.xlsx"}, "--out r.xlsx: want a name that ends in .csv or .parquet"),
    ],
)
def test_what_is_refused(options, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(asc.InputError) as error:
        asc.tune("vector_add", **{"vary": {"tile_length": [1024]}} | options)
    assert str(error.value).startswith(reason)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_exported(found, tmp_path):
    with pytest.raises(asc.InputError) as error:
        found.export(tmp_path / "x", 99)
    assert str(error.value) == (
        "--candidate 99: no candidate with this number was timed; the table of ascendsim tune has them"
    )
    (tmp_path / "f").touch()
    with pytest.raises(asc.InputError) as error:
        found.export(tmp_path / "f")
    assert str(error.value) == f"--out {tmp_path / 'f'}: is a file; name a folder"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
