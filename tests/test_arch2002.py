"""An operator end to end on an Atlas inference part, and the banner of a device whose cycles are not its own."""

import json
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import ascendsim as asc
from ascendsim import report, show, show_tmp, trace
from ascendsim.checks import check_rows
from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT, dtype
from ascendsim.errors import DeviceError, InputError, Rejected
from ascendsim.memory import LocalTensor
from ascendsim.plot import style
from ascendsim.plot.canvas import Picture
from ascendsim.record import record
from ascendsim.terms import RoundMode, TPosition
from ascendsim.tmpsize import softmax_grad_tmp_size
from ascendsim.words import why

BANNER = "NOT CALIBRATED: no instruction timing of arch 2002 was found; cycles rest on arch 2201's figures"
SCENARIO = """
schema = 1
name = "small"
device = "{device}"
operator = "softmax_grad"
block_dim = 4

[tiling]
tile_m = 5
is_front = {front}

[tensors.grad]
role = "input"
shape = [44, {k}]
dtype = "{dtype}"
fill = "normal"
seed = 1

[tensors.src]
role = "input"
shape = [44, {k}]
dtype = "{dtype}"
fill = "softmax_rows"
seed = 2

[tensors.dst]
role = "output"
shape = [44, {out_k}]
dtype = "{dtype}"

[expect.values.dst]
reference = "operator"
bound = "operator"
"""


def _scenario(folder, device="Ascend310P3", dtype="float", k=64, front=False):
    out_k = (16 if dtype == "half" else 8) if front else k
    text = SCENARIO.format(device=device, dtype=dtype, k=k, out_k=out_k, front=str(front).lower())
    path = folder / "small.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("device", ["Ascend310P1", "Ascend310P3", "Ascend310P5", "Ascend310P7"])
@pytest.mark.parametrize(("dtype", "k", "front"), [("float", 64, False), ("half", 208, False), ("float", 72, True)])
def test_the_operator_runs(tmp_path, device, dtype, k, front):
    result = asc.run(_scenario(tmp_path, device, dtype, k, front))
    assert all(e.met for e in result.expectations)
    assert result.makespan_cycles > 0
    codes = {f.code for f in result.findings}
    assert codes == ({"W-MEM-UNINIT", "I-SMG-STALE"} if k > 64 else set()) | ({"I-SMG-MASK"} if front else set())


def test_engines_agree(tmp_path):
    result = asc.run(_scenario(tmp_path, k=72), engine="both")
    assert result.engine == "both"


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return asc.run(_scenario(tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    return asc.run(_scenario(tmp_path_factory.mktemp("run"), "Ascend910B1"))


def _printed(renderable):
    console = Console(file=StringIO(), width=200)
    console.print(renderable)
    return console.file.getvalue()


def test_reports_say_that_cycles_are_not_calibrated(result, calibrated):
    assert BANNER in _printed(report.terminal(result))
    assert f"**{BANNER}**" in report.markdown(result)
    assert why(result, ())[0] == BANNER
    assert result.summary()["calibrated"] is False
    for text in (_printed(report.terminal(calibrated)), report.markdown(calibrated), "\n".join(why(calibrated, ()))):
        assert "CALIBRATED" not in text
    assert calibrated.summary()["calibrated"] is True


def test_traces_and_pictures_say_it_too(result, calibrated):
    for run, is_calibrated in ((result, False), (calibrated, True)):
        document = json.loads(trace.trace_json(run))
        assert document["otherData"]["calibrated"] is is_calibrated
        assert ("not calibrated" in _heading(run)) is not is_calibrated


def _heading(run):
    picture = Picture(12.0, 2.0)
    style.heading(picture, run, "timeline", ["4 cores"])
    return " ".join(t.text for t in picture.texts())


def test_temp_sizes_and_device_pages_say_it():
    device = load_device("Ascend310P3")
    answer = softmax_grad_tmp_size((64, 128), FLOAT, False, 2002, device)
    assert BANNER in _printed(show_tmp.tmp_size(answer))
    assert answer.choices["max"].cycles is not None
    page = _printed(show.device_page(device))
    assert BANNER in page
    assert "what GetCoreMemSize(UB) tells the host, as much: E-CAP-UB above it" in page
    other = _printed(show.device_page(load_device("Ascend910B1")))
    assert "CALIBRATED" not in other
    assert "what GetCoreMemSize(UB) tells the host, 256 B less: E-CAP-UB above it" in other
    assert [d["name"] for d in show.device_list() if not d["calibrated"]] == [
        "Ascend310B1", "Ascend310B2", "Ascend310B3", "Ascend310B4",
        "Ascend310P1", "Ascend310P3", "Ascend310P5", "Ascend310P7",
    ]  # fmt: skip


KERNEL = """
import ascendsim as asc_package
from ascendsim import TPosition

def main(asc, y, t):
    pipe = asc.t_pipe()
    queue = asc.t_que(TPosition.VECOUT, 1, "out")
    pipe.init_buffer(queue, 1, 256)
    local = queue.alloc_tensor(y.dtype)
    asc.duplicate(local, 1, 64)
    queue.enque(local)
    local = queue.deque(y.dtype)
    asc.data_copy_pad(y, local, asc_package.DataCopyExtParams(1, 240))
    queue.free_tensor(local)
"""
USER = """
schema = 1
name = "user"
device = "Ascend310P3"
kernel = "user.py:main"
block_dim = 1
[tensors.y]
shape = [60]
dtype = "float"
role = "output"
"""


@pytest.mark.parametrize("despite_findings", [False, True])
def test_a_kernel_with_an_instruction_that_is_not_there_is_refused(tmp_path, despite_findings):
    (tmp_path / "user.py").write_text(KERNEL)
    (tmp_path / "user.toml").write_text(USER)
    with pytest.raises(Rejected) as caught:
        asc.run(tmp_path / "user.toml", despite_findings=despite_findings)
    assert [(f.code, f.got, f.wanted) for f in caught.value.findings] == [
        ("E-API-PRODUCT", "Ascend310P3", "data_copy_pad")
    ]
    assert asc.run(tmp_path / "user.toml", set={"device": "Ascend910B1"}).findings == ()


@pytest.mark.parametrize(
    ("source", "target", "mode", "codes"),
    [
        ("float", "half", RoundMode.CAST_NONE, set()),
        ("float", "half", RoundMode.CAST_ODD, set()),
        ("float", "half", RoundMode.CAST_RINT, {"E-CAST-ROUND"}),
        ("half", "int16_t", RoundMode.CAST_FLOOR, {"E-CAST-ROUND"}),
        ("half", "int32_t", RoundMode.CAST_FLOOR, set()),
        ("float", "bfloat16_t", RoundMode.CAST_RINT, {"E-CAST-PAIR"}),
        ("int16_t", "float", RoundMode.CAST_NONE, {"E-CAST-PAIR"}),
    ],
)
def test_cast_takes_the_modes_of_the_device(source, target, mode, codes):
    """asc-devkit, Cast page: fewer pairs and modes on arch 2002; all of these exist on arch 2201."""

    def found(soc):
        a, b = (LocalTensor(k, TPosition.VECCALC, dtype(k), i * 512, 512) for i, k in enumerate((source, target)))
        program = record(lambda c: c.cast(b, a, mode, 64), load_device(soc), 1, (), ()).program
        return {f.code for f in check_rows(program, load_device(soc))}

    assert found("Ascend310P3") == codes
    assert found("Ascend910B1") == set()


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("Atlas inference Vector Core", "SoftmaxGrad is not supported on the Vector Core of this product"),
        ("Atlas training", "this is a first-generation part (arch 1001), where SoftmaxGrad is not supported"),
        ("Atlas inference AI Core", "choose one of its parts: Ascend310P1, Ascend310P3, Ascend310P5, Ascend310P7"),
    ],
)
def test_families_without_softmax_grad_stay_refused(family, text):
    with pytest.raises(DeviceError, match=r"SoftmaxGrad|choose one") as caught:
        load_device(family)
    assert text in str(caught.value)


def test_half_results_saturate_by_default():
    grad = np.full((1, 16), 60000, np.float16)
    src = np.full((1, 16), -4, np.float16)
    here, there = (asc.softmax_grad(grad, src, soc).outputs["dst"] for soc in ("Ascend310P3", "Ascend910B1"))
    assert (here == -65504).all()
    assert np.isinf(there).all()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"data_format": "nz"}, 'data_format=\'nz\': must be "ND" or "NZ"'),
        ({"data_format": "NZ"}, "src has shape [4, 16]: in NZ it must be [k / 16, m, 16]"),
    ],
)
def test_formats_that_are_refused(arguments, text):
    x = np.ones((4, 16), np.float32)
    with pytest.raises(InputError) as caught:
        asc.softmax_grad(x, x, **arguments)
    assert str(caught.value) == text
