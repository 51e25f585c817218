"""Scenario files: what is wrong in one is said by name; nothing is half done."""

import pickle
import shutil

import ml_dtypes
import numpy as np
import pytest
from conftest import ROOT, SCENARIOS

import ascendsim as asc
from ascendsim.arrays import load_npz, npz_bytes, restored, storable
from ascendsim.commands.options import parse_changes
from ascendsim.scenario import load_scenario

SMALL = """
schema = 1
device = "Ascend910B1"
operator = "softmax_grad"
block_dim = 2

[tiling]
tile_m = 8

[tensors.grad]
role = "input"
shape = [32, 64]
dtype = "float"
fill = "normal"
seed = 1

[tensors.src]
role = "input"
shape = [32, 64]
dtype = "float"
fill = "softmax_rows"
seed = 2

[tensors.dst]
role = "output"
shape = [32, 64]
dtype = "float"
"""


@pytest.fixture
def small(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    return file


def _edit(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return file


def _message(file, **more):
    with pytest.raises(asc.AscendSimError) as caught:
        asc.run(file, **more)
    return str(caught.value)


def test_small_runs(small):
    result = asc.run(small)
    assert result.name == "small"
    assert result.outputs["dst"].shape == (32, 64)
    assert result.findings == ()


@pytest.mark.parametrize("name", SCENARIOS)
def test_shipped_scenarios_meet_their_expectations(name, ascendsim_run):
    result = ascendsim_run(ROOT / "scenarios" / f"{name}.toml")
    assert result.expectations


def test_a_shipped_scenario_is_found_by_name():
    assert load_scenario("vector_add").kernel == "vector_add.py:main"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("schema = 1", "schema = 2", "schema = 2 is newer than this version of ascendsim, which reads up to 1"),
        ("schema = 1", "", "schema is missing; start the file with schema = 1"),
        ("schema = 1", "schema = 'x'", "schema = 'x'; this version reads schema 1"),
        ("block_dim = 2", "blok_dim = 2", "blok_dim: unknown key; did you mean block_dim?"),
        ("tile_m = 8", "tile_n = 8", "tiling.tile_m: Field required; tiling.tile_n: unknown key; did you mean tile_m?"),
        ("tile_m = 8", "tile_m = 0", "small.toml: tiling.tile_m: Input should be greater than or equal to 1"),
        ("tile_m = 8", "tile_m = 8\ntmp_bytes = -5", "tiling.tmp_bytes = -5: must be positive"),
        ("tile_m = 8", "tile_m = 8\nori_k = 65", "tiling.ori_k = 65: must be 1..64, the tensors' last axis"),
        ("Ascend910B1", "Ascend910B9", "small.toml: device: unknown device 'Ascend910B9'; did you mean Ascend910B4?"),
        ("Ascend910B1", "Atlas A2 training", "is a product family, not a part; choose one of its parts: "),
        ("Ascend910B1", "Ascend910B", "this is a first-generation part (arch 1001), where"),
        ('"softmax_grad"', '"softmaxgrad"', "operator = 'softmaxgrad': unknown; known: softmax_grad"),
        ("[tensors.dst]", "[tensors.dts]", "tensors.dts: operator softmax_grad has grad, src, dst; the nearest is dst"),
        ("seed = 1", "", "fill = 'normal' needs a seed, so that every run has the same data"),
        ('fill = "normal"', "", "an input needs exactly one of fill and file"),
        ('fill = "normal"', 'fill = "gauss"', "tensors.grad.fill: Input should be 'normal', 'uniform', "),
        (
            'dtype = "float"',
            'dtype = "float64"',
            "small.toml: tensors.grad.dtype: unknown dtype 'float64'; known: half, ",
        ),
        (
            'dtype = "float"',
            'dtype = "half"',
            "tensors.grad is half [32, 64], tensors.src float [32, 64]: must be equal",
        ),
        ("shape = [32, 64]", "shape = [32, 0]", "shape [32, 0]: every axis must be at least 1"),
        ("block_dim = 2", "block_dim = 49", "block_dim 49 is more than the 48 AIVs of the device"),
        ("[tiling]", "[tiling", "not valid TOML: "),
    ],
)
def test_what_is_wrong_is_said(small, old, new, text):
    message = _message(_edit(small, old, new))
    assert text in message
    assert "Traceback" not in message


def test_messages_name_the_file(small):
    assert _message(_edit(small, "tile_m = 8", "tile_m = 0")).startswith(str(small))


def test_misaligned_last_axis(small):
    small.write_text(small.read_text().replace("shape = [32, 64]", "shape = [32, 60]"))
    message = _message(small)
    assert "last axis 60 of 4-byte elements is 240 bytes, not a multiple of 32; pad K to 64." in message
    assert "CANN logs E_LAST_AXIS_UNALIGNED and still returns" in message


def test_temp_below_minimum(small):
    with pytest.raises(asc.Rejected) as caught:
        asc.run(small, set={"tiling.tmp_bytes": 480})
    finding = next(f for f in caught.value.findings if f.code == "E-TMP-SMALL")
    assert finding.message == "SoftmaxGrad temp has 480 B, the minimum for last axis 64 is 576 B"
    assert (finding.got, finding.wanted) == ("480", "576")


def test_tiling_that_does_not_fit_ub():
    with pytest.raises(asc.Rejected) as caught:
        asc.run(ROOT / "scenarios/softmaxgrad_960x960_float.toml", set={"tiling.tile_m": 9})
    codes = [f.code for f in caught.value.findings]
    assert codes == ["E-CAP-UB-HW", "E-CAP-UB"]
    assert caught.value.findings[1].message == (
        "UB use 211520 B exceeds the 196352 B that Ascend C sees: in_grad 2 x 34560 B, in_p 2 x 34560 B, "
        "out 2 x 34560 B, tmp 1 x 4160 B"
    )


def test_between_safe_and_visible_is_a_warning():
    findings = asc.check(ROOT / "scenarios/softmaxgrad_960x960_float.toml", set={"tiling.tile_m": 8})
    assert {f.code for f in findings} == {"W-CAP-UB-SAFE", "W-BANK-RR"}


def test_despite_findings_simulates_where_that_has_a_meaning():
    path = ROOT / "scenarios/softmaxgrad_960x960_float.toml"
    change = {"tiling.tile_m": 8, "tiling.tmp_bytes": 10240}
    assert "E-CAP-UB" not in [f.code for f in asc.check(path, set=change)]
    over = {"tiling.tile_m": 8, "tiling.tmp_bytes": 12256}
    with pytest.raises(asc.Rejected):
        asc.run(path, set=over)
    result = asc.run(path, set=over, despite_findings=True)
    assert result.despite_findings
    assert [f.code for f in result.errors] == ["E-CAP-UB"]
    with pytest.raises(asc.Rejected):  # past the physical end there is no meaning
        asc.run(path, set={"tiling.tile_m": 12}, despite_findings=True)


def test_set_reaches_every_level(small):
    assert asc.run(small, set={"tiling.tile_m": 4}).scenario["tiling"]["tile_m"] == 4
    changed = load_scenario(small, {"queues.in_p.num": 1, "machine.l2": "hit", "tensors.grad.seed": 9})
    assert changed.queues["in_p"].num == 1
    assert changed.machine.l2 == "hit"
    assert changed.tensors["grad"].seed == 9


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("tiling.tilem", "tiling.tile_m"), ("queues.in_q.num", "queues.in_p.num"), ("blockdim", "block_dim")],
)
def test_an_unknown_key_names_the_nearest(small, key, nearest):
    message = _message(small, set={key: 1})
    assert message == f"{small}: --set {key}: unknown key; the nearest is {nearest}"


def test_set_values_are_toml_where_they_can_be():
    parsed = parse_changes(["a.b=3", "c=text", 'd="3"', "e=[1, 2]", "f=true"])
    assert parsed == {"a.b": 3, "c": "text", "d": "3", "e": [1, 2], "f": True}
    with pytest.raises(asc.InputError, match="want KEY=VALUE"):
        parse_changes(["nothing"])


# ---- files ------------------------------------------------------------------------------------------------------


def _with_file(small, name, key=""):
    extra = f'\nkey = "{key}"' if key else ""
    return _edit(small, 'fill = "normal"\nseed = 1', f'file = "{name}"{extra}')


def test_npy_npz_and_bin_give_the_same_result(small, tmp_path):
    grad = np.random.RandomState(3).standard_normal((32, 64)).astype(np.float32)
    np.save(tmp_path / "g.npy", grad)
    np.savez(tmp_path / "g.npz", other=grad * 2, mine=grad)
    grad.tofile(tmp_path / "g.bin")
    results = []
    for name, key in (("g.npy", ""), ("g.npz", "mine"), ("g.bin", "")):
        small.write_text(SMALL)
        results.append(asc.run(_with_file(small, name, key)).outputs["dst"])
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()


@pytest.mark.parametrize(
    ("make", "name", "text"),
    [
        (lambda p: np.save(p, np.zeros((32, 63), np.float32)), "a.npy", "holds shape [32, 63], declared is [32, 64]"),
        (lambda p: np.save(p, np.zeros((32, 64))), "a.npy", "holds float64, declared is float (float32)"),
        (lambda p: p.write_bytes(b"12345"), "a.bin", "has 5 bytes, float [32, 64] needs 8192"),
        (lambda p: p.write_bytes(pickle.dumps([1, 2])), "a.npy", "holds pickled Python objects, which are not loaded"),
        (lambda p: np.save(p, np.array([{"a": 1}])), "a.npy", "holds pickled Python objects, which are not loaded"),
        (lambda p: p.write_bytes(b""), "a.npy", "cannot be read as a NumPy file: it is empty; save the array again"),
        (lambda p: np.savez(p, x=np.zeros(2), y=np.zeros(2)), "a.npz", "give key = one of x, y"),
        (lambda p: p.write_text("x"), "a.txt", "must end in .npy, .npz or .bin"),
    ],
)
def test_a_wrong_file_is_named(small, tmp_path, make, name, text):
    make(tmp_path / name)
    message = _message(_with_file(small, name))
    assert message.startswith("tensors.grad: file ")
    assert name in message
    assert text in message


def test_bfloat16_survives_a_round_trip(tmp_path):
    values = np.array([1.5, -0.0, np.inf, 3.3895e38], ml_dtypes.bfloat16)
    file = tmp_path / "x.npz"
    file.write_bytes(npz_bytes(storable({"x": values, "y": np.arange(3)})))
    back = load_npz(file)
    assert list(back) == ["x", "y"]
    assert back["x"].dtype == values.dtype
    assert (back["x"].view(np.uint16) == values.view(np.uint16)).all()
    assert restored(storable({"x": values}))["x"].dtype == values.dtype


def test_npz_bytes_do_not_depend_on_the_day():
    arrays = {"a": np.arange(5), "b": np.zeros((2, 2), np.float16)}
    assert npz_bytes(arrays) == npz_bytes(arrays)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinities_in_the_data_are_named(small, tmp_path, value):
    grad = np.ones((32, 64), np.float32)
    grad[3, 7] = value
    np.save(tmp_path / "g.npy", grad)
    findings = asc.run(_with_file(small, "g.npy")).findings
    assert [f.code for f in findings] == ["W-NUM-NAN", "W-NUM-NAN"]
    assert findings[0].message == "input grad holds 1 NaN or infinite values, the first at element [3, 7]"
    assert findings[1].message.startswith("output dst holds 64 NaN or infinite values, the first at element [3, 0]")


# ---- named tilings, kernels, expectations ------------------------------------------------------------------------


def test_a_tiling_for_another_operator_is_refused(small, tmp_path):
    (tmp_path / "t.toml").write_text('schema = 1\noperator = "other"\n[tiling]\ntile_m = 4\n')
    _edit(small, "[tiling]\ntile_m = 8", "")
    _edit(small, "block_dim = 2", 'block_dim = 2\ntiling = "t.toml"')
    assert "tiling t.toml is for operator 'other', the scenario runs 'softmax_grad'" in _message(small)


def test_kernel_file_problems_are_named(tmp_path):
    for name in ("vector_add.toml", "vector_add.py"):
        shutil.copy(ROOT / "scenarios" / name, tmp_path / name)
    file = tmp_path / "vector_add.toml"
    assert 'want "file.py:function"' in _message(_edit(file, "vector_add.py:main", "nothere.py:main"))
    _edit(file, "nothere.py:main", "vector_add.py:mian")
    assert "has no function mian" in _message(file)
    _edit(file, "vector_add.py:mian", "broken.py:main")
    (tmp_path / "broken.py").write_text("def main(:\n")
    assert "importing" in _message(file)
    (tmp_path / "broken.py").write_text("def main(asc, x, y, z, t):\n    1 / 0\n")
    assert "broken.py:2: the kernel raised ZeroDivisionError" in _message(file)


def test_expectations_set_the_outcome(small, ascendsim_run):
    small.write_text(small.read_text() + '\n[expect]\ncycles = { max = 10 }\noverlap."MTE2, V" = { max = 0.0 }\n')
    result = asc.run(small)
    assert [(e.what, e.met) for e in result.expectations] == [("makespan cycles", False), ("overlap MTE2,V", False)]
    with pytest.raises(pytest.fail.Exception, match="2 expectations not met"):
        ascendsim_run(small)


def test_expected_values_from_a_file(small, tmp_path):
    want = asc.run(small).outputs["dst"]
    np.save(tmp_path / "want.npy", want)
    small.write_text(small.read_text() + '\n[expect.values.dst]\nfile = "want.npy"\n')
    assert all(e.met for e in asc.run(small).expectations)
    np.save(tmp_path / "want.npy", want + np.float32(1))
    expectation = asc.run(small).expectations[0]
    assert not expectation.met
    assert expectation.got.startswith("2048 outside, first at [0, 0]: ")


def test_expect_names_what_does_not_exist(small):
    text = small.read_text()
    small.write_text(text + '\n[expect]\noverlap."MTE1,V" = { min = 0.1 }\n')
    assert 'expect.overlap."MTE1,V": pairs with work here are ' in _message(small)
    small.write_text(text + '\n[expect.values.out]\nreference = "operator"\n')
    assert "expect.values.out: outputs are dst" in _message(small)


def test_same_scenario_same_bytes(small):
    first, second = asc.run(small), asc.run(small)
    assert first.digest == second.digest
    assert first.outputs["dst"].tobytes() == second.outputs["dst"].tobytes()
    assert all((first.timeline[n] == second.timeline[n]).all() for n in first.timeline.columns)
    assert first.summary() == second.summary()


def test_unknown_engine(small):
    assert _message(small, engine="fast") == "unknown engine 'fast'; this version has: compiled, reference, both"


def test_a_platform_of_ones_own(small):
    _edit(small, 'device = "Ascend910B1"', "[platform]\naic_cores = 1\naiv_cores = 2\nub_bytes = 131072\n")
    text = small.read_text()
    head, rest = text.split("[platform]")
    small.write_text(head + rest[rest.index("operator") :] + "\n[platform]" + rest[: rest.index("operator")])
    result = asc.run(small)
    assert result.device.aiv == 2
    assert result.device.ub_bytes == 131072
