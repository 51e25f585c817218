"""LaserAttentionGrad by `ascendsim.atb`: the calls that all operations of ATB have."""

import ml_dtypes
import numpy as np
import pytest
from lag_harness import shapes

import ascendsim
from ascendsim import atb, lag
from ascendsim.errors import InputError, Rejected
from ascendsim.op_host.lag_params import INI

PARAMS = atb.LaserAttentionGradParam(headNum=4, preTokens=1024)
SMALL = atb.LaserAttentionGradParam(headNum=2, preTokens=256)
TWO = atb.Platform(2, 4)


def descs(lines, dims):
    return [atb.TensorDesc(*line.combination(0), dims.get(line.name, ())) for line in lines]


def test_setup_says_the_same_however_tensors_are_given():
    named = atb.setup(PARAMS, shapes(), "Ascend910B3")
    in_order = atb.setup(PARAMS, descs(INI.inputs, shapes()), "Ascend910B3")
    assert (named.stage, named.error, named.message) == (atb.Stage.OK, atb.ErrorName.NO_ERROR, "")
    assert named == in_order == lag.setup(PARAMS, shapes(), "Ascend910B3")
    assert (named.tiling.tiling_id, named.tiling.block_dim) == (3, 20)
    assert ascendsim.atb is atb
    assert ascendsim.lag is lag


@pytest.mark.parametrize("is_named", [True, False])
def test_outputs_beside_inputs_of_both_forms(is_named):
    inputs = shapes() if is_named else descs(INI.inputs, shapes())
    outputs = descs(INI.outputs, {"queryGrad": (1, 4, 1024, 128), "keyGrad": (1, 4, 1024, 128), "dpse": (7,)})
    report = atb.setup(PARAMS, inputs, outputs=outputs)
    assert (report.stage, report.error) == ("setup", "ERROR_INVALID_TENSOR_DIM")
    assert report.findings[0].message == "valueGrad has 0 axes: a tensor has 1 .. 8"


@pytest.fixture(scope="module")
def tensors():
    """Arrays of a small call without a mask, as the page names them."""
    random = np.random.default_rng(1)
    size = (1, 2, 256, 128)
    names = ("query", "key", "value", "attentionOutGrad")
    made = {name: random.uniform(-0.5, 0.5, size).astype(ml_dtypes.bfloat16) for name in names}
    wide = {name: array.astype(np.float64) for name, array in made.items()}
    scores = SMALL.scaleValue * wide["query"] @ wide["key"].swapaxes(2, 3)
    largest = scores.max(axis=-1)
    sums = np.exp(scores - largest[..., None]).sum(axis=-1)
    p = np.exp(scores - largest[..., None]) / sums[..., None]
    statistics = {"softmaxMax": largest.astype(np.float32), "softmaxSum": sums.astype(np.float32)}
    return made | statistics | {"attentionIn": (p @ wide["value"]).astype(ml_dtypes.bfloat16)}


def test_arrays_in_gradients_out(tensors):
    done = atb.execute(SMALL, tensors | {"attenMask": None}, TWO, compare=True)
    assert [(e.what, e.met) for e in done.expectations] == [
        ("values of query_grad", True), ("values of key_grad", True), ("values of value_grad", True),
    ]  # fmt: skip
    wide = {name: array.astype(np.float64) for name, array in tensors.items()}
    scores = SMALL.scaleValue * wide["query"] @ wide["key"].swapaxes(2, 3)
    p = np.exp(scores - wide["softmaxMax"][..., None]) / wide["softmaxSum"][..., None]
    value_grad = p.swapaxes(2, 3) @ wide["attentionOutGrad"]
    assert done.outputs["value_grad"].dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(done.outputs["value_grad"].astype(np.float64), value_grad, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"key": None}, "tensors: key is missing; LaserAttentionGradOperation takes query, key, value, "),
        ({"dy": np.ones(3)}, "tensors['dy']: LaserAttentionGradOperation takes query, key, value, attentionOutGrad, "),
        ({"query": np.ones((1, 2, 256, 128))}, "tensors['query'] is float64: must be bfloat16; convert it"),
        ({"attenMask": np.ones((256, 256), np.float32)}, "tensors['attenMask'] is float32: must be float16; convert"),
    ],
)
def test_arrays_that_cannot_be_used(tensors, changes, text):
    with pytest.raises(InputError) as caught:
        atb.execute(SMALL, tensors | changes, TWO)
    assert text in str(caught.value)


def test_a_call_that_the_operation_refuses(tensors):
    mask = np.zeros((256, 512), np.float16)
    with pytest.raises(Rejected) as caught:
        atb.execute(SMALL, tensors | {"attenMask": mask}, TWO)
    assert "attenMask [256, 512]: axis 1 is 512, must be 256, the length of key" in str(caught.value)


def test_parameters_of_no_operation():
    text = "params = 3: must be a FastSoftMaxGradParam or a LaserAttentionGradParam"
    for call in (lambda: atb.setup(3, []), lambda: atb.execute(3, {})):
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == text
    with pytest.raises(InputError, match=r"'half' is no TensorDesc\(dtype, format, dims\)"):
        atb.setup(PARAMS, ["half"])
