"""SoftmaxGrad against the closed form (bit for bit) and against float64 (within what float arithmetic can err)."""

import closed_form
import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

import ascendsim as asc
from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT, UINT8
from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import get_soft_max_grad_min_tmp_size, soft_max_grad_tiling_func
from ascendsim.op_kernel import SoftMaxShapeInfo, softmax_grad
from ascendsim.record import record
from ascendsim.reference import softmax_grad as reference
from ascendsim.terms import TPosition


def _data(m, k, dtype, seed):
    random = np.random.RandomState(seed)
    logits = random.standard_normal((m, k)) * 2
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return random.standard_normal((m, k)).astype(dtype), (p / p.sum(axis=1, keepdims=True)).astype(dtype)


def _bits(array):
    return array.view(f"u{array.dtype.itemsize}")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_shape_equals_the_closed_form(data):
    dtype = data.draw(st.sampled_from([np.float32, np.float16]))
    unit = 32 // np.dtype(dtype).itemsize
    m = data.draw(st.integers(1, 40))
    k = unit * data.draw(st.integers(1, 24))
    ori_k = data.draw(st.integers(max(1, k - unit + 1), k))
    is_front = data.draw(st.booleans())
    low = get_soft_max_grad_min_tmp_size((m, k), unit and np.dtype(dtype).itemsize, is_front, 2201)
    tmp_bytes = low * data.draw(st.integers(1, m))
    grad, src = _data(m, k, dtype, data.draw(st.integers(0, 99)))
    result = asc.softmax_grad(grad, src, ori_shape=(m, ori_k), tmp_bytes=tmp_bytes, is_front=is_front)
    want = closed_form.softmax_grad(grad, src, ori_k, is_front=is_front)
    assert (_bits(result.outputs["dst"]) == _bits(want)).all()


@pytest.mark.parametrize(
    ("m", "k", "dtype", "is_front"),
    [
        (600, 8, np.float32, False),  # more rows in a tile than one repeat field holds
        (300, 48, np.float32, True),
        (3, 4096, np.float32, False),  # more datablocks in a row than one Copy holds
        (2, 4112, np.float16, False),
        (9, 2048, np.float32, False),
    ],
)
def test_past_the_repeat_field(m, k, dtype, is_front):
    grad, src = _data(m, k, dtype, 5)
    result = asc.softmax_grad(grad, src, is_front=is_front)
    assert {f.code for f in result.errors} <= {"E-CAP-UB", "E-CAP-UB-HW"}  # one call, whatever fits
    assert (_bits(result.outputs["dst"]) == _bits(closed_form.softmax_grad(grad, src, is_front=is_front))).all()


def test_a_tiling_of_another_shape_is_recomputed():
    grad, src = _data(24, 64, np.float32, 6)
    other = soft_max_grad_tiling_func((7, 128), 4, 6656, False)
    result = asc.softmax_grad(grad, src, tmp_bytes=6656, tiling=other)
    assert (_bits(result.outputs["dst"]) == _bits(closed_form.softmax_grad(grad, src))).all()


def test_any_rank():
    grad, src = _data(12, 64, np.float32, 7)
    shaped = asc.softmax_grad(grad.reshape(2, 3, 2, 64), src.reshape(2, 3, 2, 64))
    assert shaped.outputs["dst"].shape == (2, 3, 2, 64)
    flat = asc.softmax_grad(grad, src)
    assert (_bits(shaped.outputs["dst"]).reshape(12, 64) == _bits(flat.outputs["dst"])).all()
    one = asc.softmax_grad(grad[0], src[0])
    assert (_bits(one.outputs["dst"]) == _bits(flat.outputs["dst"][0])).all()


def test_framework_temp_gives_the_same_values():
    grad, src = _data(24, 128, np.float16, 8)
    shared, framework = asc.softmax_grad(grad, src), asc.softmax_grad(grad, src, tmp_bytes="framework")
    assert (_bits(shared.outputs["dst"]) == _bits(framework.outputs["dst"])).all()


@pytest.mark.parametrize("name", ["softmaxgrad_960x960_float", "softmaxgrad_minilm_attention"])
def test_the_operator_on_48_cores_equals_the_closed_form(name):
    result = asc.run(ROOT / "scenarios" / f"{name}.toml")
    from ascendsim.machine import _inputs
    from ascendsim.scenario import load_scenario

    scenario = load_scenario(ROOT / "scenarios" / f"{name}.toml")
    inputs = _inputs(scenario, scenario.find_operator(), {})
    ori_k = result.scenario["tiling"].get("ori_k")
    picked = np.random.RandomState(0).choice(len(inputs["src"]), 60, replace=False)
    want = closed_form.softmax_grad(inputs["grad"][picked], inputs["src"][picked], ori_k)
    assert (_bits(result.outputs["dst"][picked]) == _bits(want)).all()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 20), st.integers(1, 40), st.integers(0, 999), st.sampled_from([np.float32, np.float16]))
def test_within_the_error_bound_of_float64(m, blocks, seed, dtype):
    k = 16 * blocks
    grad, src = _data(m, k, dtype, seed)
    got = asc.softmax_grad(grad, src).outputs["dst"].astype(np.float64)
    want = reference.softmax_grad(grad, src)
    assert (np.abs(got - want) <= reference.softmax_grad_bound(grad, src)).all()


def test_the_error_bound_is_tight_enough_to_fail():
    grad, src = _data(8, 960, np.float32, 9)
    bound = reference.softmax_grad_bound(grad, src)
    off = np.abs(asc.softmax_grad(grad, src).outputs["dst"] - reference.softmax_grad(grad, src))
    assert (off > bound / 100).any()  # the bound is within two decades of what really happens
    wrong = asc.softmax_grad(grad, src, ori_shape=(8, 959)).outputs["dst"]  # one column forgotten
    assert (np.abs(wrong - reference.softmax_grad(grad, src)) > bound).any()


@pytest.mark.parametrize(("k", "additions"), [(8, 7), (64, 6), (72, 7), (128, 7), (960, 20), (1000, 21)])
def test_longest_chain(k, additions):
    assert reference.longest_chain(k) == additions


# ---- what a call breaks is found ------------------------------------------------------------------------------------


def _findings(**changes):
    """Record one call on hand-placed tensors and return what was found."""
    m, k = 8, 64
    size = m * k * 4
    places = {"dst": 0, "grad": size, "src": 2 * size, "tmp": 3 * size}
    places |= changes.pop("places", {})
    tmp_bytes = changes.pop("tmp_bytes", 4608)
    element = changes.pop("element", FLOAT)
    t = {n: LocalTensor(n, TPosition.VECCALC, element, places[n], size) for n in ("dst", "grad", "src")}
    tmp = LocalTensor("tmp", TPosition.VECCALC, changes.pop("tmp_dtype", UINT8), places["tmp"], tmp_bytes)
    tiling = soft_max_grad_tiling_func((m, k), 4, changes.pop("tiling_bytes", 4608), False)
    shape = SoftMaxShapeInfo(*changes.pop("shape", (m, k, m, k)))
    is_front = changes.pop("is_front", False)
    assert not changes

    def kernel(asc_):
        softmax_grad(asc_, t["dst"], t["grad"], t["src"], tmp, tiling, is_front, shape)

    return record(kernel, load_device("Ascend910B1"), 1, (), ()).findings


def test_a_correct_call_finds_nothing():
    assert _findings() == ()


def test_dst_on_src_is_documented_and_dst_on_grad_is_not():
    assert _findings(places={"dst": 2 * 2048}) == ()
    (found,) = _findings(places={"dst": 2048})
    assert found.code == "W-SMG-DSTGRAD"
    assert found.message == "SoftmaxGrad dst is grad; only dst on src is documented"


def test_dst_on_grad_computes_the_same_values():
    """Allowed, and right with this instruction sequence."""
    grad, src = _data(8, 64, np.float32, 10)
    want = closed_form.softmax_grad(grad, src)
    from ascendsim.execute import execute
    from ascendsim.memory import Bytes

    g = LocalTensor("grad", TPosition.VECCALC, FLOAT, 0, 2048)
    s = LocalTensor("src", TPosition.VECCALC, FLOAT, 2048, 2048)
    tmp = LocalTensor("tmp", TPosition.VECCALC, UINT8, 4096, 4608)
    tiling = soft_max_grad_tiling_func((8, 64), 4, 4608, False)
    device = load_device("Ascend910B1")
    program = record(lambda a: softmax_grad(a, g, g, s, tmp, tiling), device, 1, (), ()).program
    ub = Bytes(device.ub_bytes)
    for tensor, array in ((g, grad), (s, src)):
        ub.content[tensor.start_bytes : tensor.start_bytes + 2048] = array.reshape(-1).view(np.uint8)
        ub.written[tensor.start_bytes : tensor.start_bytes + 2048] = True
    execute(program, device, (), ub=ub)
    assert (ub.content[:2048].view(np.uint32).reshape(8, 64) == _bits(want)).all()


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"tmp_bytes": 512}, "E-TMP-SMALL", "SoftmaxGrad temp has 512 B, the minimum for last axis 64 is 576 B"),
        ({"tmp_dtype": FLOAT}, "E-TMP-DTYPE", "temp tensor is float, must be uint8_t"),
        ({"places": {"tmp": 2 * 2048 + 1024}}, "E-OVERLAP-TMP", "SoftmaxGrad temp overlaps src"),
        (
            {"places": {"dst": 2048 + 1024}},
            "E-OVERLAP",
            "SoftmaxGrad dst overlaps grad without being the same tensor",
        ),
        (
            {"shape": (9, 64, 9, 64)},
            "E-SMG-SHAPE",
            "SoftmaxGrad dst has 512 elements, the shape 9x64 needs 576",
        ),
        (
            {"shape": (8, 60, 8, 60)},
            "E-ALIGN-LASTAXIS",
            "SoftmaxGrad last axis 60 is 240 B, no multiple of 32 B",
        ),
        (
            {"shape": (8, 64, 8, 60)},
            "W-SMG-PADDING",
            "32 padded elements of 8x64 (data 8x60) are computed and written too",
        ),
        (
            {"tiling_bytes": 100},
            "E-SMG-NOTILE",
            "the tiling has split_m 0: no row fits its temp, nothing is computed and dst stays as it is",
        ),
        (
            {"is_front": True, "places": {"dst": 2048}},
            "W-SMG-FRONTREUSE",
            "SoftmaxGrad front result overlaps grad, whose later rows are still to be read",
        ),
        ({"element": UINT8}, "E-SMG-DTYPE", "SoftmaxGrad dst is uint8_t; it supports half, float"),
    ],
)
def test_a_broken_call_is_found(changes, code, message):
    found = _findings(**changes)
    assert (code, message) in [(f.code, f.message) for f in found]
    assert all(f.where.startswith("test_softmax_grad_values.py:") for f in found)
    assert all(", in softmax_grad.py:" in f.where for f in found)
