"""The command as a user meets it, judged by what it prints, writes and exits with."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

import ascendsim as asc

COMMAND = [str(Path(sys.executable).parent / "ascendsim")]
FILES = {
    "report.md", "timeline.png", "timeline.svg", "memory.png", "balance.png", "trace.json", "outputs.npz",
    "findings.json", "scenario.toml", "run.npz", "run.json", "memory_info.json", "PipeUtilization.csv", "simulator",
}  # fmt: skip
PICTURES = {"timeline.png", "timeline.svg", "memory.png", "balance.png"}


def _files(folder):
    """How many files a folder and those in it hold."""
    return sum(path.is_file() for path in folder.rglob("*"))


def _run(*arguments, cwd=ROOT, code=0):
    """Run the command as a process; the fixture `ascendsim` calls it in this one."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def double_buffered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "double"
    return folder, _run("run", "scenarios/softmaxgrad_960x960_float.toml", "--out", folder)


@pytest.fixture(scope="module")
def single_buffered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "single"
    one = [f"--set=queues.{q}.num=1" for q in ("in_grad", "in_p", "out")]
    # The scenario expects an overlap that one buffer cannot give: exit code 3.
    return folder, _run("run", "scenarios/softmaxgrad_960x960_float.toml", *one, "--out", folder, code=3)


def test_run_writes_everything(double_buffered):
    folder, done = double_buffered
    assert {p.name for p in folder.iterdir()} == FILES
    assert f"{_files(folder)} files in {folder}" in done.stdout.replace("\n", "")
    for text in ("makespan", "bottleneck", "MTE2", "Top causes of waiting", "peak UB", "SoftmaxGrad/reducesum"):
        assert text in done.stdout
    assert json.loads((folder / "findings.json").read_text()) == []
    assert np.load(folder / "outputs.npz")["dst"].shape == (960, 960)


def test_two_buffers_overlap_and_one_does_not(double_buffered, single_buffered):
    two = asc.load_run(double_buffered[0]).summary()["overlap"]
    one = asc.load_run(single_buffered[0]).summary()["overlap"]
    assert two["V,MTE2"] > 0.7
    assert two["V,MTE3"] > 0.5
    assert two["MTE2,MTE3"] > 0.5
    assert one["V,MTE2"] == 0
    assert one["V,MTE3"] == 0


def test_why_names_the_queue(single_buffered, ascendsim):
    folder, _ = single_buffered
    text = ascendsim("why", folder, "--pipes", "MTE2,V").stdout
    assert "V and MTE2 worked at the same time for 0 cycles" in text
    assert "because no buffer of queue in_grad was free: it has 1 buffer" in text
    assert "V waited" in text
    assert "for data in queue in_grad" in text
    assert json.loads(ascendsim("why", folder, "--json").stdout)["run"] == str(folder)


def test_why_refuses_what_it_cannot_explain(tmp_path, single_buffered, ascendsim):
    assert "no run there (run.json is missing)" in ascendsim("why", tmp_path, code=2).stderr
    assert (
        "'XY' is no pipe; pipes are S, V, M, " in ascendsim("why", single_buffered[0], "--pipes", "XY", code=2).stderr
    )


def test_a_run_is_read_back_as_it_was(double_buffered):
    folder, _ = double_buffered
    back = asc.load_run(folder)
    fresh = asc.run(ROOT / "scenarios/softmaxgrad_960x960_float.toml")
    assert back.digest == fresh.digest
    assert back.summary() == fresh.summary()
    assert back.outputs["dst"].tobytes() == fresh.outputs["dst"].tobytes()
    assert back.expectations == fresh.expectations
    assert back.instruction_log() == fresh.instruction_log()


def test_the_resolved_scenario_runs_from_its_folder(tmp_path, ascendsim):
    folder = tmp_path / "real"
    ascendsim("run", "scenarios/softmaxgrad_minilm_attention.toml", "--out", folder)
    again = asc.run(folder / "scenario.toml")
    assert again.digest == asc.load_run(folder).digest


def test_same_scenario_same_bytes(tmp_path):
    for name in ("a", "b"):
        _run("run", "vector_add", "--out", tmp_path / name)
    files = {file.relative_to(tmp_path / "a") for file in (tmp_path / "a").rglob("*") if file.is_file()}
    assert len(files) > 20
    for file in sorted(file for file in files if file.name not in PICTURES):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def test_json_is_one_object(tmp_path, ascendsim):
    done = ascendsim("run", "vector_add", "--json", "--out", tmp_path / "x")
    summary = json.loads(done.stdout)
    assert summary["name"] == "vector_add"
    assert summary["makespan_cycles"] > 0
    assert {"V", "MTE2", "MTE3", "S"} == set(summary["pipes"])


def test_findings_stop_the_run_and_write_nothing(tmp_path, ascendsim):
    done = ascendsim("run", "softmaxgrad_960x960_float", "--set", "tiling.tile_m=9", "--out", tmp_path / "x", code=1)
    assert "E-CAP-UB" in done.stderr
    assert "2 errors: not simulated" in done.stderr
    assert not (tmp_path / "x").exists()


def test_despite_findings_stamps(tmp_path, ascendsim):
    changes = ["--set", "tiling.tile_m=8", "--set", "tiling.tmp_bytes=12256"]
    folder = tmp_path / "x"
    done = ascendsim("run", "softmaxgrad_960x960_float", *changes, "--despite-findings", "--out", folder, code=3)
    assert "SIMULATED DESPITE FINDINGS" in done.stdout
    assert "SIMULATED DESPITE FINDINGS" in (folder / "report.md").read_text()
    assert json.loads((folder / "findings.json").read_text())[0]["code"] == "E-CAP-UB"


def test_a_folder_with_other_files_is_left_alone(tmp_path, ascendsim):
    (tmp_path / "mine.txt").write_text("keep")
    done = ascendsim("run", "vector_add", "--out", tmp_path, code=2)
    assert "holds other files and no run" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_check(tmp_path, ascendsim):
    assert ascendsim("check", "softmaxgrad_960x960_float", "--ignore", "W-BANK").stdout == "no findings\n"
    done = ascendsim("check", "softmaxgrad_960x960_float", "--set", "tiling.tmp_bytes=4000", "--json", code=1)
    assert [f["code"] for f in json.loads(done.stdout)["findings"]] == ["E-TMP-SMALL", "E-SMG-NOTILE"]


def test_wrong_input_is_named_and_exits_with_2(tmp_path, ascendsim):
    assert "error: nothere.toml: no such scenario file" in ascendsim("run", "nothere.toml", code=2).stderr
    assert "Missing argument 'SCENARIO'" in ascendsim("run", code=2).stderr
    assert "No such option: --foo" in ascendsim("run", "--foo", code=2).stderr
    assert "--time ns: want us or cycle" in ascendsim("run", "vector_add", "--time", "ns", code=2).stderr
    binary = tmp_path / "b.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "not a text file in UTF-8" in ascendsim("run", binary, code=2).stderr
    assert "unknown engine 'warp'" in ascendsim("run", "vector_add", "--engine", "warp", code=2).stderr


def test_deadlock_exits_with_4(tmp_path):
    (tmp_path / "k.py").write_text(
        "from ascendsim import HardEvent\n\n\ndef main(asc, x, t):\n    asc.wait_flag(HardEvent.MTE3_MTE2, 0)\n"
    )
    (tmp_path / "k.toml").write_text(
        'schema = 1\ndevice = "Ascend910B1"\nkernel = "k.py:main"\nblock_dim = 1\n'
        '[tensors.x]\nrole = "output"\nshape = [8]\ndtype = "float"\n'
    )
    done = _run("run", "k.toml", "--out", "o", cwd=tmp_path, code=4)
    assert "deadlock on core 0: no pipe can move" in done.stderr
    assert "MTE2 waits at k.py:5 for MTE3_MTE2 id 0, which MTE3 never sets" in done.stderr
    assert not (tmp_path / "o").exists()


def test_devices(ascendsim):
    assert "Ascend910B1" in ascendsim("devices").stdout
    names = [d["name"] for d in json.loads(ascendsim("devices", "Atlas A3 training", "--json").stdout)]
    assert names == [n for n in names if n.startswith(("Ascend910_93", "Ascend910C"))]
    page = ascendsim("devices", "Ascend910B1").stdout
    for text in ("196608", "196352", "188160", "hardware", "visible", "safe"):
        assert text in page
    assert json.loads(ascendsim("devices", "Ascend910B4", "--json").stdout)["cores"]["clock_mhz"]["value"] == 1650
    assert "first-generation part" in ascendsim("devices", "Ascend910B", code=2).stderr


def test_tmpsize(ascendsim):
    answer = json.loads(ascendsim("tmpsize", "softmaxgrad", "--shape", "64,128", "--dtype", "float", "--json").stdout)
    assert (answer["min_bytes"], answer["max_bytes"]) == (832, 53248)
    assert answer["choices"]["fits"]["tiling"]["split_m"] == 64
    assert answer["choices"]["min"]["cycles"] > answer["choices"]["max"]["cycles"] > 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["softmin", "--shape", "8,8", "--dtype", "float"], "softmin: its temp is not known here"),
        (["softmaxgrad", "--shape", "8;8", "--dtype", "float"], "--shape 8;8: want whole numbers joined by commas"),
        (["softmaxgrad", "--shape", "8,0", "--dtype", "float"], "shape [8, 0]: every axis must be at least 1"),
        (["softmaxgrad", "--shape", "8,-8", "--dtype", "float"], "shape [8, -8]: every axis must be at least 1"),
        (["softmaxgrad", "--shape", "8,8", "--dtype", "int8_t"], "SoftmaxGrad supports half and float"),
        (["softmaxgrad", "--shape", "8,12", "--dtype", "float"], "CANN logs E_LAST_AXIS_UNALIGNED and still returns"),
        (
            ["softmaxgrad", "--shape", "8,8", "--dtype", "float", "--soc", "Atlas 350"],
            "names the Atlas 350 card itself",
        ),
        (
            ["softmaxgrad", "--shape", "8,8", "--dtype", "float", "--soc", "Atlas A2 training"],
            "choose one of its parts",
        ),
    ],
)
def test_tmpsize_refuses(arguments, text, ascendsim):
    assert text in ascendsim("tmpsize", *arguments, code=2).stderr


def test_help_is_quick_to_load():
    """--help must not load the numeric packages."""
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom ascendsim.cli import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "print([m for m in ('numpy', 'numba', 'matplotlib', 'pydantic', 'simpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_documents_the_exit_codes(ascendsim):
    text = " ".join(ascendsim("--help").stdout.split())
    assert (
        "0 done, 1 findings of severity E, 2 input that cannot be used, 3 an expectation is not met, 4 deadlock" in text
    )
    assert ascendsim("--version").stdout.strip() == asc.__version__


def test_ctrl_c_leaves_nothing_behind(tmp_path):
    folder = tmp_path / "x"
    tall = [f"--set=tensors.{name}.shape=[96000, 960]" for name in ("grad", "src", "dst")]
    process = subprocess.Popen(
        [*COMMAND, "run", "softmaxgrad_960x960_float", *tall, "--out", str(folder)],
        cwd=ROOT, stderr=subprocess.PIPE, text=True, env=os.environ | {"NO_COLOR": "1"},
    )  # fmt: skip
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    assert not folder.exists()


def test_ctrl_c_wins_over_what_interrupted_code_makes_of_it():
    code = (
        "import signal\nfrom ascendsim import cli\n"
        "@cli.app.command()\ndef closing() -> None:\n"
        "    try:\n        signal.raise_signal(signal.SIGINT)\n"
        "    finally:\n        raise ValueError('an archive that was open')\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "closing"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_ctrl_c_waits_for_an_import(tmp_path):
    (tmp_path / "slow.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\nprint('imported')\n")
    code = (
        "import time\nfrom ascendsim import cli\n"
        "@cli.app.command()\ndef slow() -> None:\n    import slow\n    time.sleep(60)\n"
        "cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "slow"], capture_output=True, text=True, check=False, timeout=30, cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "imported\n", "interrupted\n")


# ---- engines, windows, values -----------------------------------------------------------------------------------


def test_both_engines_can_be_compared(tmp_path, ascendsim):
    done = ascendsim("run", "scenarios/vector_add.toml", "--engine", "both", "--out", tmp_path / "a", "--json")
    assert json.loads(done.stdout)["engine"] == "both"
    assert "both engines agree" in (tmp_path / "a/report.md").read_text()


def test_an_unknown_engine_is_named(ascendsim):
    done = ascendsim("run", "vector_add", "--engine", "fast", code=2)
    assert done.stderr.strip() == "error: unknown engine 'fast'; this version has: compiled, reference, both"


def test_a_window_restricts_the_trace(tmp_path, ascendsim):
    full, part = tmp_path / "full", tmp_path / "part"
    ascendsim("run", "scenarios/vector_add.toml", "--out", full)
    ascendsim(
        "run", "scenarios/vector_add.toml", "--trace-window", "200:300", "--trace-window", "0.5us:0.6us", "--out", part
    )
    names = [
        {
            e["args"]["pc_addr"]
            for e in json.loads((folder / "trace.json").read_text())["traceEvents"]
            if "pc_addr" in e.get("args", {})
        }
        for folder in (full, part)
    ]
    assert 0 < len(names[1]) < len(names[0])
    assert names[1] < names[0]
    assert asc.load_run(part).windows == ((200, 300), (925, 1110))
    assert asc.load_run(part).makespan_cycles == asc.load_run(full).makespan_cycles


@pytest.mark.parametrize("text", ["5", "300:200", "a:b"])
def test_a_wrong_window_is_refused(tmp_path, text, ascendsim):
    done = ascendsim("run", "vector_add", "--trace-window", text, "--out", tmp_path / "x", code=2)
    assert done.stderr.startswith(f"error: --trace-window {text}: ")
    assert not (tmp_path / "x").exists()


def test_a_window_behind_the_end_is_left_out(tmp_path, ascendsim):
    done = ascendsim("run", "vector_add", "--trace-window", "5000:6000", "--out", tmp_path / "x")
    assert done.stderr.strip() == "note: the run is over at cycle 1761; window 5000:6000 is left out"
    assert asc.load_run(tmp_path / "x").windows == ()


def _first_on_path(folder):
    """The environment of a process that looks for modules in a folder first."""
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path}


def test_pictures_that_cannot_be_drawn_do_not_cost_the_run(tmp_path):
    """A module of the drawing library is broken for the process that draws."""
    (tmp_path / "PIL").mkdir()
    (tmp_path / "PIL/__init__.py").write_text("raise ImportError('broken on purpose')")
    done = subprocess.run(
        [*COMMAND, "run", "vector_add", "--out", str(tmp_path / "x")],
        capture_output=True, text=True, check=False, env=_first_on_path(tmp_path),
    )  # fmt: skip
    assert done.returncode == 6
    assert done.stderr.startswith(f"error: {tmp_path / 'x'}: the pictures could not be drawn (exit code 1): ")
    assert done.stderr.strip().endswith("ImportError: broken on purpose; the other files are written")
    assert asc.load_run(tmp_path / "x").makespan_cycles == 1761
    assert {p.name for p in (tmp_path / "x").iterdir()} == FILES - PICTURES


def test_a_chatty_painter_does_no_harm(tmp_path):
    """More on its standard output and error than a pipe holds."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nprint('x' * 100_000)\nprint('y' * 100_000, file=sys.stderr)"
    )
    done = subprocess.run(
        [*COMMAND, "run", "vector_add", "--out", str(tmp_path / "x")],
        capture_output=True, text=True, check=False, timeout=120, env=_first_on_path(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0
    assert {p.name for p in (tmp_path / "x").iterdir()} == FILES


def test_a_run_without_values_and_a_sampled_one_are_read_back(tmp_path, ascendsim):
    ascendsim("run", "vector_add", "--set", "machine.values=none", "--out", tmp_path / "none")
    none = asc.load_run(tmp_path / "none")
    assert (none.values, none.sample, dict(none.outputs)) == ("none", None, {})
    how = [
        "--set",
        "machine.values=sample",
        "--set",
        'machine.sample=["first", "random"]',
        "--set",
        "machine.sample_tiles=3",
    ]
    ascendsim("run", "vector_add", *how, "--out", tmp_path / "some")
    some, again = asc.load_run(tmp_path / "some"), asc.run(tmp_path / "some" / "scenario.toml")
    assert some.values == "sample"
    assert some.sample == again.sample
    assert "values: sampled" in (tmp_path / "some/report.md").read_text()
    assert "values: not computed" in (tmp_path / "none/report.md").read_text()


def test_a_folder_whose_name_looks_like_markup(tmp_path, ascendsim):
    done = ascendsim("run", "vector_add", "--out", "[/]", cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == f"{_files(tmp_path / '[')} files in [/]"


def test_a_target_with_a_name_that_no_file_can_have(ascendsim):
    done = ascendsim("check", "x" * 300, code=2)
    assert done.stderr.startswith(f"error: {'x' * 300}: no such file, want ")


def test_a_length_beyond_64_bits_in_bytes_is_found_like_any_other(ascendsim):
    done = ascendsim("check", "vector_add", "--set", "tiling.tile_length=9223372036854775807", "--json", code=1)
    assert "E-CAP-UB-HW" in {f["code"] for f in json.loads(done.stdout)["findings"]}


def test_a_sarif_file_with_a_name_that_no_file_can_have(tmp_path, ascendsim):
    done = ascendsim("check", "vector_add", "--sarif", tmp_path / ("x" * 300), code=2)
    assert done.stderr.endswith("cannot write: File name too long\n")
