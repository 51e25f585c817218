"""Input that cannot be used is refused with a text that names file and key; what can be used is not refused."""

import io
import json
import pickle
import shutil
import sys
import zipfile

import numpy as np
import pytest
from conftest import ROOT, Undrawn

import ascendsim as asc
from ascendsim.arrays import load_array, load_npz
from ascendsim.dtypes import FLOAT
from ascendsim.fills import make_fill
from ascendsim.runfolder import write_run
from ascendsim.scenario import TensorSpec, load_scenario
from ascendsim.user_code import load_function

OPERATOR = """
schema = 1
device = "Ascend910B1"
operator = "softmax_grad"
block_dim = 1
tiling.tile_m = 4
[tensors]
grad = { role = "input", shape = [8, 64], dtype = "float", fill = "ones" }
src = { role = "input", shape = [8, 64], dtype = "float", fill = "ones" }
dst = { role = "output", shape = [8, 64], dtype = "float" }
"""
KERNEL = """
schema = 1
device = "Ascend910B1"
kernel = "k.py:main"
block_dim = 1
[tensors]
x = { role = "input", shape = [64], dtype = "float", fill = "ones" }
y = { role = "output", shape = [64], dtype = "float" }
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(OPERATOR)
    return path


def _refused(file, old="", new="", changes=None):
    """What loading the file says after its own name."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(asc.AscendSimError) as caught:
        load_scenario(file, changes)
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    return message.removeprefix(f"{file}: ")


# ---- keys and values -----------------------------------------------------------------------------------------------

QUEUES = "a table with one table a queue, such as queues.in_x.num = 2"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("block_dim = 1", "queues.in_grad = 2", f"queues.in_grad = 2: must be a table; queues is {QUEUES}"),
        ("block_dim = 1", "queues = 2", f"queues = 2: must be {QUEUES}"),
        ("block_dim = 1", "machine = 2", "machine = 2: must be a table [machine]"),
        ("block_dim = 1", "expect = []", "expect = []: must be a table [expect]"),
        ("tiling.tile_m = 4", "tiling = 4", "tiling = 4: must be a table [tiling], or the name of a tiling file"),
        ('"softmax_grad"', "[]", "operator: Input should be a valid string"),
        (
            "grad = {",
            "grad = 3 #",
            ("tensors.grad = 3: must be a table; tensors is a table with one table a tensor, such as [tensors.x]"),
        ),
        ('"ones"', '"normal", seed = 4294967296', "tensors.grad.seed: Input should be less than 4294967296"),
        ('"ones"', '"normal", seed = -1', "tensors.grad.seed: Input should be greater than or equal to 0"),
        ('role = "input"', 'role = "output"', "tensors.grad: an output takes no fill"),
        (
            'dtype = "float"',
            'dtype = "f8"',
            (
                "tensors.grad.dtype: unknown dtype 'f8'; known: half, bfloat16_t, float, "
                "int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t"
            ),
        ),
        ('device = "Ascend910B1"', "", "give exactly one of device and [platform]"),
        ("tile_m = 4", "tile_m = 0", "tiling.tile_m: Input should be greater than or equal to 1"),
        (
            "tile_m = 4",
            "tile_m = 4\ntiling.tmp_bytes = 'most'",
            'tiling.tmp_bytes: \'most\': must be a number of bytes, or "min", "max", "framework"',
        ),
        ("schema = 1", "schema = true", "schema = True; this version reads schema 1"),
        (
            "schema = 1",
            'schema = 1\nname = "../../.."',
            ("name: '../../..' names the run's folder, so it must be a plain file name without / and \\"),
        ),
        (
            "schema = 1",
            'schema = 1\nname = ".."',
            ("name: '..' names the run's folder, so it must be a plain file name without / and \\"),
        ),
        (
            "schema = 1",
            "schema = 1\nplatform.aic_cores = 0",
            ("platform.aic_cores: Input should be greater than or equal to 1; platform.aiv_cores: Field required"),
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_key(file, old, new, text):
    assert _refused(file, old, new) == text


def test_roles_are_the_operators(file):
    output = 'role = "output", shape = [8, 64], dtype = "float" }'
    text = file.read_text()
    file.write_text(text.replace('role = "input", shape = [8, 64], dtype = "float", fill = "ones" }', output, 1))
    assert _refused(file) == (
        'tensors.grad.role = "output": operator softmax_grad has grad as an input; write role = "input"'
    )
    file.write_text(text.replace('role = "output"', 'fill = "ones", role = "input"'))
    assert _refused(file) == (
        'tensors.dst.role = "input": operator softmax_grad has dst as an output; write role = "output"'
    )


def test_a_tiling_file_is_held_to_tables_too(file, tmp_path):
    named = OPERATOR.replace("tiling.tile_m = 4", 'tiling = "t.toml"\nqueues = 2')
    (tmp_path / "t.toml").write_text('schema = 1\noperator = "softmax_grad"\ntiling.tile_m = 4\nqueues.out.num = 1\n')
    file.write_text(named)
    assert _refused(file) == f"queues = 2: must be {QUEUES}"
    file.write_text(named.replace("queues = 2", ""))
    assert load_scenario(file).queues["out"].num == 1
    (tmp_path / "t.toml").write_text('schema = 1\noperator = "softmax_grad"\ntiling = 3\n')
    with pytest.raises(asc.InputError) as caught:
        load_scenario(file)
    assert str(caught.value) == (
        f"{tmp_path / 't.toml'}: tiling = 3: must be a table [tiling], or the name of a tiling file"
    )


def test_devices_are_named_with_their_key(file):
    text = _refused(file, "Ascend910B1", "Ascend910B9")
    assert text.startswith("device: unknown device 'Ascend910B9'; did you mean Ascend910B4? Known: Ascend310B1, ")
    file.write_text(OPERATOR.replace('device = "Ascend910B1"', "platform = { aic_cores = 1, aiv_cores = 2 }"))
    assert _refused(file, changes={"platform.ub_bytes": 100}) == (
        "platform.ub_bytes: Platform(ub_bytes=100): too small, 8448 bytes of it are reserved"
    )


def test_tensors_larger_than_gm(file):
    file.write_text(OPERATOR.replace("[8, 64]", "[1000000, 1000000]"))
    assert _refused(file) == (
        "tensors.grad.shape = [1000000, 1000000]: all tensors take 12000000000000 B, GM of Ascend910B1 has "
        "68719476736 B; make them smaller"
    )
    platform = "platform = { aic_cores = 1, aiv_cores = 2 }"  # has no gm_bytes
    file.write_text(
        OPERATOR.replace("[8, 64]", "[10000000000, 10000000000]").replace('device = "Ascend910B1"', platform)
    )
    assert _refused(file) == (
        "tensors.grad.shape = [10000000000, 10000000000]: all tensors take 1200000000000000000000 B, a computer can "
        "address 140737488355328 B; make them smaller"
    )


def test_too_little_memory_is_said():
    spec = TensorSpec(role="input", shape=[1 << 23, 1 << 22], dtype="float", fill="ones")
    with pytest.raises(asc.InputError) as caught:
        make_fill(spec, "tensors.x")
    assert str(caught.value) == (
        "tensors.x.shape = [8388608, 4194304]: this computer has too little memory for that many elements; "
        "make it smaller"
    )


# ---- --set ---------------------------------------------------------------------------------------------------------


def test_set_takes_every_key_of_the_schema(file):
    changes = {
        "expect.us.max": 9.5,
        "expect.cycles.min": 1,
        "expect.findings": [],
        "expect.values.dst.reference": "operator",
        "machine.half_overflow": "saturate",
        "description": "x",
        "block_dim": 2,
        "tiling.ori_k": 60,
    }
    scenario = load_scenario(file, changes | {'expect.overlap."MTE2,V".min': 0.5})
    assert scenario.expect.us.max == 9.5
    assert scenario.expect.cycles.min == 1
    assert scenario.expect.findings == []
    assert scenario.expect.values["dst"].reference == "operator"
    assert scenario.expect.overlap["MTE2,V"].min == 0.5
    assert scenario.tiling["ori_k"] == 60
    file.write_text(OPERATOR.replace('device = "Ascend910B1"', "platform = { aic_cores = 1, aiv_cores = 2 }"))
    assert load_scenario(file, {"platform.clock_mhz": 1000}).load_device().clock_mhz == 1000


def test_set_below_a_value(file):
    assert _refused(file, changes={"operator.x": 1}) == (
        "--set operator.x: operator = 'softmax_grad' is no table; set operator itself"
    )
    assert _refused(file, changes={"tensors.grad.shape.0": 1}) == (
        "--set tensors.grad.shape.0: tensors.grad.shape = [8, 64] is no table; set tensors.grad.shape itself"
    )
    assert _refused(file, "block_dim = 1", "expect.us = 3", changes={"expect.us.max": 1}) == (
        "--set expect.us.max: expect.us = 3 is no table; set expect.us itself"
    )


@pytest.mark.parametrize("key", ["expect.us.most", "expect.values.other.file", "folder", "tiling", "platform"])
def test_set_refuses_other_keys(file, key):
    assert _refused(file, changes={key: 1}).startswith(f"--set {key}: unknown key; the nearest is ")


def test_set_of_the_operator_to_no_name(file):
    changes = {"operator": [], "block_dim": 2}
    assert _refused(file, changes=changes) == "operator: Input should be a valid string"


# ---- data files ----------------------------------------------------------------------------------------------------


def test_missing_files_are_noticed_before_anything_runs(file):
    text = _refused(file, 'fill = "ones"', 'file = "no.npy"')
    there = file.parent / "no.npy"
    assert text == f"tensors.grad.file = 'no.npy': {there} does not exist; names start at the scenario's folder"
    with pytest.raises(asc.InputError, match="does not exist"):
        asc.check(file)
    file.write_text(OPERATOR + '[expect.values.dst]\nfile = "no.npy"\n')
    assert _refused(file).startswith("expect.values.dst.file = 'no.npy': ")


def _npy():
    out = io.BytesIO()
    np.save(out, np.zeros(64, np.float32))
    return out.getvalue()


def _npz(compressed=False):
    out = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(out, x=np.arange(64, dtype=np.float32))
    return out.getvalue()


def _broken_stream():
    raw = bytearray(_npz(compressed=True))
    start = raw.index(b"x.npy") + 5
    raw[start + 20 : start + 60] = b"\xff" * 40
    return bytes(raw)


def _zip_of_text():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("x.txt", "hello")
    return out.getvalue()


NOT_LIKE_ONE = "cannot be read as a NumPy file: it does not begin like one; save the array with numpy.save"
PICKLED = (
    "holds pickled Python objects, which are not loaded because they can run code; save plain numeric arrays with "
    "numpy.save(..., allow_pickle=False)"
)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.npy", b"", "cannot be read as a NumPy file: it is empty; save the array again"),
        ("a.npz", b"", "cannot be read as a NumPy file: it is empty; save the array again"),
        ("a.npy", b"1 2 3\n4 5 6.", NOT_LIKE_ONE),
        ("a.npz", b"text", NOT_LIKE_ONE),
        ("a.npy", pickle.dumps([1, 2]), PICKLED),
        ("a.npz", pickle.dumps([1, 2], protocol=0), PICKLED),
        ("a.npz", _npy(), "holds .npy data, but its name says .npz; rename it to .npy"),
        ("a.npy", _npz(), "holds .npz data, but its name says .npy; rename it to .npz"),
        ("a.npz", _zip_of_text(), "entry 'x.txt' is no NumPy array; save arrays with numpy.savez"),
        ("a.npz", b"PK\x05\x06" + b"\0" * 18, "holds no arrays; save some with numpy.savez"),
    ],
)
def test_a_file_that_is_no_array(tmp_path, name, content, text):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(asc.InputError) as caught:
        load_array(path, None, FLOAT, (64,), "tensors.x")
    assert str(caught.value) == f"tensors.x: file {path} {text}"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.npy", _npy()[:40]),
        ("a.npy", _npy()[:-9]),
        ("a.npy", _npy().replace(b"'<f4'", b"'<q9'")),
        ("a.npy", _npy().replace(b"(64,)", b"(6**)")),
        ("a.npz", _npz()[:50]),
        ("a.npz", _npz().replace(b"\x93NUMPY", b"\x93NUMPI")),
        ("a.npz", _broken_stream()),
    ],
)
def test_a_damaged_file(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(asc.InputError) as caught:
        load_array(path, None, FLOAT, (64,), "tensors.x")
    start = f"tensors.x: file {path} cannot be read as a NumPy file: it is cut off or damaged ("
    assert str(caught.value).startswith(start)
    assert str(caught.value).endswith("); save it again")


def test_every_flipped_byte_gives_an_array_or_a_message(tmp_path):
    path = tmp_path / "a.npz"
    raw = _npz(compressed=True)
    for at in range(len(raw)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 0x55]) + raw[at + 1 :])
        try:
            load_npz(path)
        except asc.InputError as error:
            assert str(error).startswith(f"{path}: ")  # noqa: PT017 - many bytes make no difference


# ---- the user's own code -------------------------------------------------------------------------------------------


def test_dataclasses_and_modules_beside_the_kernel(tmp_path):
    for folder, value in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "sizes.py").write_text(f"SIZE = {value}\n")
        (tmp_path / folder / "json.py").write_text(
            "from __future__ import annotations\nfrom dataclasses import dataclass\nimport sizes\n\n\n"
            "@dataclass\nclass Part:\n    size: int\n\n\ndef main():\n    return Part(sizes.SIZE)\n"
        )
    path = list(sys.path)
    first = load_function("json.py:main", tmp_path / "a", "kernel")
    second = load_function("json.py:main", tmp_path / "b", "kernel")
    assert (first().size, second().size) == (1, 2)
    assert sys.path == path
    assert "sizes" not in sys.modules
    assert sys.modules["json"] is json


@pytest.mark.parametrize("code", ["sys.exit(3)", "raise SystemExit(3)"])
def test_sys_exit_while_importing(tmp_path, code, ascendsim):
    (tmp_path / "k.py").write_text(f"import sys\n{code}\n")
    (tmp_path / "s.toml").write_text(KERNEL)
    with pytest.raises(asc.InputError) as caught:
        asc.check(tmp_path / "s.toml")
    assert str(caught.value) == (
        f"kernel = 'k.py:main': importing {tmp_path / 'k.py'} failed: it calls sys.exit(3); a file that is imported "
        'must not end the program, so put that call under if __name__ == "__main__"'
    )
    ascendsim("check", "s.toml", cwd=tmp_path, code=2)


def test_a_kernel_file_must_be_python(tmp_path):
    (tmp_path / "k.txt").write_text("")
    with pytest.raises(asc.InputError, match=r'want "file\.py:function", a file beside the scenario and a function in'):
        load_function("k.txt:main", tmp_path, "kernel")


# ---- run folders ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vector_add", "scaled_softmax_grad", "softmaxgrad_minilm_attention"])
def test_a_reloaded_and_rewritten_run_runs_again(tmp_path, name):
    fresh = asc.run(ROOT / "scenarios" / f"{name}.toml")
    write_run(fresh, tmp_path / "first", painter=Undrawn())
    back = asc.load_run(tmp_path / "first")
    write_run(back, tmp_path / "deeper" / "second", painter=Undrawn())
    again = asc.run(tmp_path / "deeper" / "second" / "scenario.toml")
    assert again.digest == fresh.digest
    assert all(e.met for e in again.expectations)


def test_the_log_of_an_api_call_is_kept(tmp_path):
    x = np.ones((8, 64), np.float32)
    fresh = asc.softmax_grad(x, x)
    write_run(fresh, tmp_path / "x", painter=Undrawn())
    assert asc.load_run(tmp_path / "x").instruction_log() == fresh.instruction_log()
    assert asc.load_run(tmp_path / "x").log == fresh.log


@pytest.fixture
def two_runs(file, tmp_path):
    results = [asc.run(file), asc.run(file, set={"tiling.tile_m": 2})]
    for number, result in enumerate(results):
        write_run(result, tmp_path / f"{number}", painter=Undrawn())
    return results, tmp_path


def test_a_rewrite_that_breaks_off_leaves_no_mixture(two_runs, monkeypatch):
    (_, second), folder = two_runs
    target = folder / "0"

    def full(path, content):
        if path.name == "run.json":
            raise OSError(28, "No space left on device")
        path.write_bytes(content)

    with monkeypatch.context() as patch:
        patch.setattr("ascendsim.runfolder.write_whole", full)
        with pytest.raises(asc.InputError, match="cannot write: No space left on device"):
            write_run(second, target, painter=Undrawn())
    with pytest.raises(asc.InputError) as caught:
        asc.load_run(target)
    assert str(caught.value) == (
        f"{target}: writing this run was broken off (run.json is missing); run the scenario again"
    )
    write_run(second, target, painter=Undrawn())  # it can be written again
    assert asc.load_run(target).digest == second.digest
    assert sorted(p.name for p in target.iterdir()) == sorted(p.name for p in (folder / "1").iterdir())


def test_files_of_two_runs_are_refused(two_runs):
    (first, second), folder = two_runs
    shutil.copy(folder / "1" / "run.npz", folder / "0" / "run.npz")
    with pytest.raises(asc.InputError) as caught:
        asc.load_run(folder / "0")
    assert str(caught.value) == (
        f"{folder / '0'}: run.json and run.npz are of two different runs: summary.makespan_cycles in run.json is "
        f"{first.makespan_cycles}, run.npz gives {second.makespan_cycles}; run the scenario again"
    )
    record = json.loads((folder / "1" / "run.json").read_text())
    record["summary"]["digest"] = first.digest
    (folder / "1" / "run.json").write_text(json.dumps(record))
    with pytest.raises(asc.InputError, match=f"summary.digest in run.json is {first.digest}, run.npz gives "):
        asc.load_run(folder / "1")


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ('"3"', "schema = '3'; this version reads schema 4; run the scenario again"),
        ("true", "schema = True; this version reads schema 4; run the scenario again"),
        ("1", "schema = 1 is of an older version of ascendsim; run the scenario again"),
        ("5", "schema = 5 is newer than this version of ascendsim, which reads up to 4"),
    ],
)
def test_run_json_of_another_schema(tmp_path, schema, text):
    (tmp_path / "run.json").write_text(f'{{"schema": {schema}}}')
    with pytest.raises(asc.InputError) as caught:
        asc.load_run(tmp_path)
    assert str(caught.value) == f"{tmp_path / 'run.json'}: {text}"


# ---- the command ---------------------------------------------------------------------------------------------------


def test_rejected_runs_print_json(tmp_path, ascendsim):
    changes = ("--set", "tiling.tile_m=9", "--json", "--out", tmp_path / "x")
    done = ascendsim("run", "softmaxgrad_960x960_float", *changes, cwd=tmp_path, code=1)
    assert [f["code"] for f in json.loads(done.stdout)["findings"]] == ["E-CAP-UB-HW", "E-CAP-UB"]
    assert done.stderr == ""
    assert not (tmp_path / "x").exists()


def test_a_name_cannot_leave_out(tmp_path, ascendsim):
    (tmp_path / "s.toml").write_text(OPERATOR)
    done = ascendsim("run", "s.toml", "--set", "name=../x", cwd=tmp_path, code=2)
    assert done.stderr == (
        "error: s.toml: name: '../x' names the run's folder, so it must be a plain file name without / and \\\n"
    )
    assert [p.name for p in tmp_path.iterdir()] == ["s.toml"]


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "x" * 300, "vector_add"),
        ("inspect", "x" * 300, "--row", "0"),
        ("fidelity", "--data", "x" * 300),
        ("run", "vector_add", "--set", "name=" + "x" * 300),
        ("run", "vector_add", "--out", "new/" + "x" * 300),
    ],
    ids=lambda words: " ".join(words)[:12],
)
def test_names_that_no_file_can_have(words, ascendsim, tmp_path):
    told = ascendsim(*words, cwd=tmp_path, code=2)
    assert told.stderr.startswith("error: ")
    assert "Traceback" not in told.stderr
    assert list(tmp_path.iterdir()) == []
