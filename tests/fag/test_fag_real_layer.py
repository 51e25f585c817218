"""FlashAttention backward on a layer of a real model: the fixture fits the older one, and its gradients come out."""

from pathlib import Path

import numpy as np
import pytest

from ascendsim import machine
from ascendsim.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "scenarios/data"
LAYERS = {"fag_minilm_layer": np.float32, "fag_minilm_layer_half": np.float16}
GRADIENTS = ("dq", "dk", "dv")


def layer(name: str) -> dict[str, np.ndarray]:
    with np.load(DATA / f"{name.removeprefix('fag_')}.npz") as data:
        return {key: data[key].astype(np.float64) for key in data.files}


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def older() -> tuple[np.ndarray, np.ndarray]:
    """P and dL/dP as SoftmaxGrad's fixture has them, [12, 90, 90]."""
    with np.load(DATA / "minilm_attention.npz") as data:
        k = int(data["valid_k"])
        return tuple(data[name][:, :k].reshape(-1, k, k).astype(np.float64) for name in ("p", "grad"))


def test_scores_and_gradient_are_those_of_the_fixture_of_softmax_grad():
    x, (p, grad) = layer("fag_minilm_layer"), older()
    made = softmax(x["query"][0] @ x["key"][0].transpose(0, 2, 1) / np.sqrt(32))
    np.testing.assert_allclose(made, p, rtol=1e-5, atol=0)
    upstream = x["dy"][0] @ x["value"][0].transpose(0, 2, 1)
    np.testing.assert_allclose(upstream, float(x["loss_scale"]) * grad, rtol=0, atol=1e-5)
    assert np.abs(upstream).max() > 10


def test_the_models_gradients_are_those_of_the_attention_formulas():
    x, (p, grad) = layer("fag_minilm_layer"), older()
    grad = float(x["loss_scale"]) * grad
    ds = p * (grad - (grad * p).sum(-1, keepdims=True)) / np.sqrt(32)
    for name, made in (
        ("dq", ds @ x["key"][0]),
        ("dk", ds.transpose(0, 2, 1) @ x["query"][0]),
        ("dv", p.transpose(0, 2, 1) @ x["dy"][0]),
    ):
        np.testing.assert_allclose(made, x[name][0], rtol=0, atol=3e-5)


def test_half_holds_the_same_numbers():
    wide, narrow = layer("fag_minilm_layer"), layer("fag_minilm_layer_half")
    assert sorted(wide) == sorted(narrow)
    assert all(np.allclose(narrow[name], wide[name], rtol=2**-11, atol=2**-24) for name in wide)


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_the_models_back_propagation(name):
    result = machine.run(load_scenario(ROOT / f"scenarios/{name}.toml"))
    assert {e.what: e.met for e in result.expectations} == {
        "findings": True,
        **{f"values of {g}": True for g in GRADIENTS},
    }
    assert {x.dtype.type for x in result.outputs.values()} == {LAYERS[name]}
    assert all(np.abs(x.astype(np.float64)).max() > 1 for x in result.outputs.values())


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_the_operators_reference(name):
    scenario = load_scenario(ROOT / f"scenarios/{name}.toml")
    by_reference = {
        g: spec.model_copy(
            update={"file": None, "key": None, "rtol": 0, "atol": 0, "reference": "operator", "bound": "operator"}
        )
        for g, spec in scenario.expect.values.items()
    }
    expect = scenario.expect.model_copy(update={"values": by_reference})
    result = machine.run(scenario.model_copy(update={"expect": expect}))
    assert all(e.met for e in result.expectations)
    assert len(result.expectations) == 1 + len(GRADIENTS)
