"""What the documents show is what the program does."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

import ascendsim as asc
from ascendsim.isa.table import TABLE
from ascendsim.operators import MatmulKeys, SoftmaxGradTiling
from ascendsim.record import AiCore
from ascendsim.scenario import (
    ExpectSpec,
    MachineSpec,
    PeakSpec,
    PlatformSpec,
    QueueSpec,
    Range,
    Scenario,
    SuppressSpec,
    TensorSpec,
    ValueSpec,
)

DOCS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
COMMANDS = Path(sys.executable).parent
README = (ROOT / "README.md").read_text()


def _blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("document", DOCS, ids=lambda p: p.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCS, ids=lambda p: p.name)
def test_named_files_exist(document):
    for name in re.findall(
        r"`((?:ascendsim|tests|docs|scenarios|tilings|plots|tools)/[\w./-]+)`", document.read_text()
    ):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("name", ["vector_add", "scaled_softmax_grad", "matmul_plus_one"])
def test_kernels_of_the_guide_are_the_shipped_ones(name):
    blocks = _blocks((ROOT / "docs/writing-a-kernel.md").read_text(), "python")
    assert (ROOT / "scenarios" / f"{name}.py").read_text() in blocks


NEW_INSTRUCTION = """
import sys
import numpy as np
from ascendsim.device import load_device
from ascendsim.dtypes import INT32
from ascendsim.errors import DeviceError
from ascendsim.execute import execute
from ascendsim.isa import vector
from ascendsim.machine import schedule
from ascendsim.memory import Bytes, LocalTensor
from ascendsim.record import AiCore, record
from ascendsim.terms import TPosition

names = dict(vars(vector))
exec(sys.stdin.read(), names)
AiCore.abs_sub = names["abs_sub"]
device = load_device("Ascend910B1")
dst, a, b = (LocalTensor(n, TPosition.VECCALC, INT32, i * 32, 32) for i, n in enumerate(("dst", "a", "b")))
ub = Bytes(device.ub_bytes)
for tensor, values in ((a, range(-3, 5)), (b, [0, 9] * 4)):
    ub.content[tensor.start_bytes : tensor.start_bytes + 32] = np.array(list(values), np.int32).view(np.uint8)
    ub.written[tensor.start_bytes : tensor.start_bytes + 32] = True
program = record(lambda asc: asc.abs_sub(dst, a, b, 8), device, 1, (), ()).program
assert execute(program, device, (), ub=ub).findings == ()
print(ub.content[:32].view(np.int32).tolist())
try:
    schedule(program, device)
except DeviceError as error:
    print(error)
"""


def test_the_instruction_of_the_guide_works():
    """In a process of its own: an instruction stays in the table."""
    example, _ = _blocks((ROOT / "docs/adding-an-instruction.md").read_text(), "python")
    done = subprocess.run(
        [sys.executable, "-c", NEW_INSTRUCTION], input=example, capture_output=True, text=True, check=False
    )
    values, cost = done.stdout.splitlines() or [done.stderr, ""]
    assert values == str([3, 11, 1, 9, 1, 7, 3, 5])
    assert "has no cost for AbsSub" in cost
    assert "table vector.AbsSub has nothing" in cost


def test_the_declared_instructions_of_the_guide_work(tmp_path):
    page = (ROOT / "docs/adding-an-instruction.md").read_text()
    (tmp_path / "squared.py").write_text(_blocks(page, "python")[1])
    (tmp_path / "squared.toml").write_text(_blocks(page, "toml")[0])
    for _ in range(2):  # loading a file again declares anew
        result = asc.run(tmp_path / "squared.toml")
        assert [e.met for e in result.expectations] == [True]
        assert result.findings == ()
        calls = {r["ascendc_api"]: r["instr"] for r in result.program.instruction_log()}
        assert calls["SquaredDiff#3"] == "squared_diff"
        assert calls["Ramp#4"] == "ramp"


def test_the_kernel_of_the_attention_page_works(tmp_path):
    """Masked scores, probabilities, dropout, as NumPy has them; nothing is found in it."""
    (tmp_path / "page.py").write_text(_blocks((ROOT / "docs/attention-pieces.md").read_text(), "python")[0])
    (m, k), rng = (16, 64), np.random.default_rng(1)
    inputs = {
        "scores": rng.normal(size=(m, k)).astype(np.float32),
        "row_max": np.repeat(rng.uniform(2, 3, (m, 1)).astype(np.float32), 8, axis=1),
        "row_sum": np.repeat(rng.uniform(1, 9, (m, 1)).astype(np.float32), 8, axis=1),
        "hidden": rng.integers(0, 2, (m, 96), np.uint8),
        "keep": rng.integers(0, 256, (m, k // 8), np.uint8),
    }
    tensors = {"p": f'role = "output", shape = [{m}, {k}], dtype = "float"'}
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
        kind = "float" if array.dtype == np.float32 else "uint8_t"
        tensors[name] = f'role = "input", shape = {list(array.shape)}, dtype = "{kind}", file = "{name}.npy"'
    order = [*inputs, "p"]
    (tmp_path / "page.toml").write_text(
        'schema = 1\ndevice = "Ascend910B1"\nkernel = "page.py:main"\nblock_dim = 1\n'
        "tiling = { tmp_bytes = 4096, keep_prob = 0.75 }\n[tensors]\n"
        + "".join(f"{name} = {{ {tensors[name]} }}\n" for name in order)
    )
    result = asc.run(tmp_path / "page.toml")
    assert result.findings == ()
    masked = np.where(inputs["hidden"][:, :k] != 0, -1e30, inputs["scores"].astype(np.float64))
    probabilities = np.exp(masked - inputs["row_max"][:, :1]) / inputs["row_sum"][:, :1]
    kept = np.unpackbits(inputs["keep"], axis=1, bitorder="little")
    assert np.allclose(result.outputs["p"], kept * probabilities / 0.75, rtol=1e-6, atol=1e-12)


def test_the_vector_add_is_about_20_lines():
    source = (ROOT / "scenarios/vector_add.py").read_text()
    body = source[source.index("def main") : source.index("def reference")]
    assert sum(bool(line.strip()) for line in body.splitlines()) <= 25


def test_python_of_the_readme_runs(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    block = next(b for b in _blocks(README, "python") if "import ascendsim" in b)
    exec(compile(block, "README.md", "exec"), {})  # noqa: S102 - our own text
    printed = capsys.readouterr().out
    assert "'V,MTE2'" in printed
    assert printed.rstrip().endswith("vmul")


@pytest.mark.long
def test_commands_of_the_readme_run(tmp_path):
    """Every `$ ascendsim` line, in the order shown, from the repository's root; outputs go elsewhere."""
    lines = re.findall(r"^ {4}\$ (ascendsim (?:.*\\\n)*.*)$", README, re.MULTILINE)
    assert len(lines) == 9
    for line in lines:
        words = shlex.split(line.replace("\\\n", " "))
        words = [str(tmp_path / w) if w.startswith("out/") else w for w in words]
        done = subprocess.run(
            [str(COMMANDS / words[0]), *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == _expected_code(line), f"{line}: {done.stdout}{done.stderr}"


def _expected_code(line):
    return 1 if "ascendsim check" in line else 3 if "out/one" in line and "run" in line else 0


def test_tmpsize_of_the_readme_is_what_is_printed(ascendsim):
    shown = re.search(r"\$ ascendsim tmpsize softmaxgrad --shape 64,128 --dtype float\n((?: {4}.*\n)+)", README)
    done = ascendsim("tmpsize", "softmaxgrad", "--shape", "64,128", "--dtype", "float")
    assert shown[1].split() == done.stdout.split()


def test_the_scenario_table_of_the_readme_is_valid(tmp_path):
    toml = next(b for b in _blocks(README, "toml") if "[expect]" in b)
    text = (ROOT / "scenarios/softmaxgrad_960x960_float.toml").read_text()
    file = tmp_path / "s.toml"
    file.write_text(text[: text.index("[expect]")] + toml)
    result = asc.run(file)
    assert len(result.expectations) == 4
    assert all(e.met for e in result.expectations)


def test_public_names():
    for name in asc.__all__:
        assert getattr(asc, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = asc.nothing


def test_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make (\w+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_a_fixture_is_small_and_real():
    file = ROOT / "scenarios/data/minilm_attention.npz"
    assert file.stat().st_size < 1_000_000
    with np.load(file) as data:
        k = int(data["valid_k"])
        assert np.abs(data["p"][:, :k].sum(axis=1, dtype=np.float64) - 1).max() < 1e-6
        assert not data["p"][:, k:].any()
        assert not data["grad"][:, k:].any()
        assert np.abs(data["grad"]).max() > 1e-3


@pytest.mark.parametrize("name", ["minilm_layer.npz", "minilm_layer_half.npz"])
def test_the_fixture_of_a_layer_is_small(name):
    assert (ROOT / "scenarios/data" / name).stat().st_size < 1_000_000


def test_no_machine_paths_in_the_repository():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout")
    for name in tracked:
        path = ROOT / name
        if path.suffix in (".png", ".npz", ".zip") or not path.is_file() or name.startswith("tests/test_docs"):
            continue
        assert not re.search(r"(^|[^\w.])/(work|root|home)/[A-Za-z.]", path.read_text(errors="ignore")), name


def test_the_scenario_page_names_every_key():
    page = (ROOT / "docs/scenario.md").read_text()
    models = (
        Scenario,
        TensorSpec,
        QueueSpec,
        MachineSpec,
        PeakSpec,
        PlatformSpec,
        Range,
        ValueSpec,
        ExpectSpec,
        SuppressSpec,
        SoftmaxGradTiling,
        MatmulKeys,
    )
    keys = {field.alias or name for model in models for name, field in model.model_fields.items()} - {"folder"}
    assert sorted(k for k in keys if not re.search(rf"[`.]{k}\b", page)) == []


def test_the_kernel_page_names_every_call():
    page = (ROOT / "docs/writing-a-kernel.md").read_text()
    names = {re.sub(r"_(gm|ub)_to_(gm|ub)$", "", op.name) for op in TABLE.values()}
    calls = {n for n in names if hasattr(AiCore, n)}  # the others are rows of a call of another name
    assert sorted(c for c in calls if f"`{c}`" not in page) == []
    structs = re.findall(r"\b([A-Z]\w+Params)\b", page)
    assert all(hasattr(asc, s) for s in structs)
