"""Some of the cases that `make deep` runs, and the smallest input of each mistake that they have found."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import Undrawn
from fuzz_cases import data_files, scenarios
from fuzz_odd import npz_of, toml_of
from fuzz_run import series

import ascendsim as asc
from ascendsim import cli
from ascendsim.arrays import load_array
from ascendsim.commands.options import parse_changes
from ascendsim.dtypes import FLOAT
from ascendsim.fills import make_fill
from ascendsim.op_host.softmax import soft_max_grad_tiling_func
from ascendsim.plan.answer import answer, load_plan
from ascendsim.runfolder import write_run
from ascendsim.scenario import TensorSpec, load_scenario
from ascendsim.user_code import load_function

CASES, SERIES = 1000, 4
SCENARIO = """
schema = 1
device = "Ascend910B1"
operator = "softmax_grad"
block_dim = 1
tiling.tile_m = 4
[tensors]
grad = { role = "input", shape = [8, 64], dtype = "float", file = "x.bin" }
src = { role = "input", shape = [8, 64], dtype = "float", file = "x.bin" }
dst = { role = "output", shape = [8, 64], dtype = "float" }
[expect.values.dst]
"""
PLAN = 'schema = 1\ndevice = "Ascend910B1"\n[tiling]\nn = 8\n[buffers]\nb = { bytes = "n * float" }\n'
LONG = "a" * 300


@pytest.mark.parametrize("part", range(SERIES))
def test_no_input_gives_a_traceback_or_half_a_file(tmp_path, part):
    each = CASES // SERIES
    told = series(0, range(part * each, (part + 1) * each), tmp_path)
    assert [(number, case.argv, found) for number, _, case, _, found in told if found] == []


# ---- TOML ----------------------------------------------------------------------------------------------------------

TOO_LARGE = "a whole number must lie in -2^63..2^63 - 1"
TOO_DEEP = "tables and arrays lie deeper than 50 inside each other"


@pytest.mark.parametrize("load", [load_scenario, lambda file: load_plan(file, {})])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = " + "9" * 5000, TOO_LARGE),
        ("x.y = [1, 9223372036854775808]", f"x.y.1: {TOO_LARGE}"),
        ("x = -9223372036854775809", f"x: {TOO_LARGE}"),
        ("x = " + "[" * 3000 + "]" * 3000, TOO_DEEP),
        ("k." * 60 + "k = 1", f"k.k.k: {TOO_DEEP}"),
        ("x = " + "[" * 51 + "]" * 51, f"x.0.0: {TOO_DEEP}"),
    ],
)
def test_numbers_and_nesting_that_toml_has_no_room_for(tmp_path, load, text, reason):
    file = tmp_path / "s.toml"
    file.write_text(f"schema = 1\n{text}\n")
    with pytest.raises(asc.InputError) as caught:
        load(file)
    assert str(caught.value) == f"{file}: not valid TOML: {reason}"


@pytest.mark.parametrize(("value", "reason"), [("9" * 5000, TOO_LARGE), ("[" * 3000 + "]" * 3000, TOO_DEEP)])
def test_the_same_in_set(value, reason):
    with pytest.raises(asc.InputError) as caught:
        parse_changes([f"tiling.x={value}"])
    assert str(caught.value) == f"--set tiling.x: {reason}"


def test_names_that_no_file_can_have(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO.replace("tiling.tile_m = 4", f'tiling = "{LONG}"'))
    with pytest.raises(asc.InputError, match="no such file beside the scenario, and no shipped tiling"):
        load_scenario(file)
    file.write_text(SCENARIO.replace("x.bin", f"{LONG}.bin"))
    with pytest.raises(asc.InputError, match="does not exist"):
        load_scenario(file)
    with pytest.raises(asc.InputError, match="no such scenario file"):
        load_scenario(LONG)
    with pytest.raises(asc.InputError, match="no such plan or scenario file"):
        load_plan(LONG, {})
    with pytest.raises(asc.InputError, match="no run there"):
        asc.load_run(LONG)
    with pytest.raises(asc.InputError, match="does not exist"):
        load_array(tmp_path / f"{LONG}.npy", None, FLOAT, (64,), "tensors.x")
    with pytest.raises(asc.InputError, match="is not there"):
        load_function(f"{LONG}.py:main", tmp_path, "kernel")


def test_a_temp_beyond_ub_is_not_searched_through(tmp_path):
    text = 'schema = 1\ndevice = "Ascend910B1"\n[apis.a]\napi = "soft_max"\nshape = [8, 64]\ntemp = "t"\n'
    (tmp_path / "p.toml").write_text(f"{text}[temps.t]\nbytes = {10**17}\n")
    found = answer(load_plan(tmp_path / "p.toml", {}))
    assert [f.code for f in found.layout.findings] == ["E-CAP-UB-HW", "E-CAP-UB"]
    assert [less.bytes for less in found.less_temp] == [4352]


def test_infinite_numbers_survive_in_the_resolved_scenario(tmp_path):
    tree = scenarios()[0] | {"tiling": {"tile_m": 16, "tmp_bytes": 13312, "scale": 1.0, "lowest": float("-inf")}}
    (tmp_path / "s.toml").write_bytes(toml_of(tree))
    resolved = load_scenario(tmp_path / "s.toml").resolved()
    assert resolved["tiling"]["lowest"] == float("-inf")
    toml_of(resolved)


@pytest.mark.parametrize("size", [float("inf"), float("nan"), 13312.0])
def test_a_temp_that_is_no_whole_number_ends_the_recording(tmp_path, size):
    tree = scenarios()[0]
    (tmp_path / "s.toml").write_bytes(toml_of(tree | {"tiling": tree["tiling"] | {"tmp_bytes": size}}))
    (tmp_path / "scaled_softmax_grad.py").write_bytes(data_files()["scaled_softmax_grad.py"])
    with pytest.raises(asc.KernelError):
        asc.check(tmp_path / "s.toml")
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        soft_max_grad_tiling_func((16, 128), 4, size, False)


def test_a_name_that_no_terminal_shows(tmp_path):
    (tmp_path / "p\udcff.toml").write_text(PLAN)
    command = [Path(sys.executable).parent / "ascendsim", "plan", "p\udcff.toml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(rb"p\udcff on Ascend910B1: fits")


def test_data_larger_than_the_computers_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("ascendsim.machine.memory_bytes", lambda: 10_000)
    (tmp_path / "s.toml").write_text(SCENARIO.replace('file = "x.bin"', 'fill = "ones"'))
    with pytest.raises(asc.InputError) as caught:
        asc.run(tmp_path / "s.toml")
    assert str(caught.value) == (
        "tensors.grad.shape = [8, 64]: computing values takes at least 16384 B of memory, this computer has 10000 B; "
        'make it smaller, or set machine.values = "none"'
    )
    assert asc.run(tmp_path / "s.toml", set={"machine.values": "none"}).values == "none"


@pytest.mark.parametrize("fill", ["normal", "uniform", "softmax_rows", "arange"])
@pytest.mark.parametrize("scale", [float("inf"), float("-inf"), float("nan"), 1e308])
def test_fills_of_any_scale(fill, scale):
    make_fill(TensorSpec(role="input", shape=[3, 4], dtype="half", fill=fill, seed=1, scale=scale), "tensors.x")


# ---- data and runs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [b"{", b"(" * 5000, b"", b"[" * 200])
@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_a_header_that_is_no_table(tmp_path, header, name):
    npy = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    (tmp_path / name).write_bytes(npy if name == "x.npy" else npz_of({"x": npy}))
    with pytest.raises(asc.InputError, match="it is cut off or damaged"):
        load_array(tmp_path / name, None, FLOAT, (64,), "tensors.x")


def test_a_header_that_claims_more_than_there_is(tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000000,), }\n"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(asc.InputError, match="more than this computer's memory; it is damaged, or must be smaller"):
        load_array(tmp_path / "x.npy", None, FLOAT, (64,), "tensors.x")


@pytest.mark.parametrize("bits", [0x7FA00000, 0x7F800000], ids=["a NaN that signals", "infinity"])
@pytest.mark.parametrize("wanted", ['reference = "operator"\nbound = "operator"', 'file = "x.bin"\nrtol = 0'])
def test_no_warnings_of_numpy(tmp_path, bits, wanted):
    (tmp_path / "s.toml").write_text(SCENARIO + wanted)
    (tmp_path / "x.bin").write_bytes(np.full((8, 64), bits, np.uint32).tobytes())
    assert {f.code for f in asc.run(tmp_path / "s.toml").findings} == {"W-NUM-NAN"}


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("run")
    (place / "s.toml").write_text(SCENARIO + 'reference = "operator"\natol = 1')
    (place / "x.bin").write_bytes(np.ones((8, 64), np.float32).tobytes())
    write_run(asc.run(place / "s.toml"), place / "r", painter=Undrawn())
    return place / "r"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("totals.rows", lambda a: np.pad(a, ((0, 0), (0, 90)), constant_values=1)),
        ("totals.wait_cycles", lambda a: np.concatenate([a, a + 1])),
        ("totals.busy_cycles", lambda a: a.reshape(-1)),
        ("totals.overlap_cycles", lambda a: a[:0]),
    ],
)
def test_a_run_whose_arrays_do_not_fit_each_other(tmp_path, run_folder, name, change):
    shutil.copytree(run_folder, tmp_path / "r")
    with np.load(tmp_path / "r" / "run.npz") as stored:
        arrays = dict(stored)
    arrays[name] = change(arrays[name])
    (tmp_path / "r" / "run.npz").write_bytes(npz_of(arrays))
    with pytest.raises(asc.InputError, match=r"the run is damaged \(.*\); run the scenario again"):
        asc.load_run(tmp_path / "r")


@pytest.mark.parametrize("change", [lambda a: a[:1], lambda a: a[:, None], lambda a: np.append(a, a)])
@pytest.mark.parametrize("name", ["start", "waited_for", "released_by"])
def test_a_run_whose_timeline_has_columns_of_other_lengths(tmp_path, run_folder, name, change):
    shutil.copytree(run_folder, tmp_path / "r")
    with np.load(tmp_path / "r" / "run.npz") as stored:
        arrays = dict(stored)
    arrays[f"timeline.{name}"] = column = change(arrays[f"timeline.{name}"])
    (tmp_path / "r" / "run.npz").write_bytes(npz_of(arrays))
    count = len(arrays["timeline.number"])
    with pytest.raises(asc.InputError) as error:
        asc.load_run(tmp_path / "r")
    shape = f"timeline.{name} has shape {list(column.shape)}, timeline.number has {count} rows"
    assert str(error.value) == f"{tmp_path / 'r'}: the run is damaged (ValueError: {shape}); run the scenario again"


OTHER_ROWS = {
    "number": (lambda a: a[::-1], "timeline.number does not ascend within the program's {} rows"),
    "core": (lambda a: a + 1, "timeline.core is not that of the program's rows"),
    "pipe": (lambda a: a * 0, "timeline.pipe is not that of the program's rows"),
    "released_by": (lambda a: a + 9999, "timeline.released_by names rows that the program has not"),
    "waited_for": (lambda a: a + 77, "timeline.waited_for has unknown causes"),
    "end": (lambda a: a * 0.5, "timeline.end is float64, want whole numbers"),
}


@pytest.mark.parametrize("name", OTHER_ROWS)
def test_a_timeline_of_other_rows_than_the_programs(tmp_path, run_folder, name):
    shutil.copytree(run_folder, tmp_path / "r")
    with np.load(tmp_path / "r" / "run.npz") as stored:
        arrays = dict(stored)
    change, told = OTHER_ROWS[name]
    arrays[f"timeline.{name}"] = change(arrays[f"timeline.{name}"])
    (tmp_path / "r" / "run.npz").write_bytes(npz_of(arrays))
    with pytest.raises(asc.InputError) as error:
        asc.load_run(tmp_path / "r")
    told = told.format(len(arrays["timeline.number"]))
    assert str(error.value) == f"{tmp_path / 'r'}: the run is damaged (ValueError: {told}); run the scenario again"


@pytest.mark.parametrize("option", ["--out", "--export"])
def test_a_folder_that_cannot_be_is_refused_before_anything_is_written(tmp_path, monkeypatch, capsys, option):
    monkeypatch.chdir(tmp_path)
    Path("x").touch()
    other = {"--out": "--export", "--export": "--out"}[option]
    call = ["ascendsim", "tmpsize", "softmaxgrad", "--shape", "8,64", "--dtype", "half", option, "x/y", other, "o"]
    monkeypatch.setattr("sys.argv", call)
    with pytest.raises(SystemExit) as ended:
        cli._run_command()
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        f"error: {option} x/y: nothing can be written into {tmp_path / 'x'}; name another folder\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_no_infinite_percentage():
    answer = asc.tmp_size("softmaxgrad", (8, 64), "half")
    with pytest.raises(asc.InputError, match="--within inf: want a percentage of 0 or more, such as 5"):
        asc.tmp_curve(answer).within(float("inf"))
