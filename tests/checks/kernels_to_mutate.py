"""Small programs of every kernel in the repository: all steps of each, few tiles."""

from conftest import ROOT

from ascendsim.machine import _loaded, _prepare
from ascendsim.record import record

SCENARIOS = {
    "vector_add": {
        "tensors.x.shape": [2048],
        "tensors.y.shape": [2048],
        "tensors.z.shape": [2048],
        "block_dim": 1,
        "tiling.tile_length": 512,
    },
    "scaled_softmax_grad": {
        "block_dim": 1,
        "tensors.dp.shape": [64, 128],
        "tensors.p.shape": [64, 128],
        "tensors.ds.shape": [64, 128],
    },
    "softmaxgrad_960x960_float": {
        "block_dim": 1,
        "tensors.grad.shape": [16, 960],
        "tensors.src.shape": [16, 960],
        "tensors.dst.shape": [16, 960],
    },
}
"""Scenario and what is changed so that it is small."""


def recorded(name, changes):
    ready = _prepare(_loaded(ROOT / f"scenarios/{name}.toml", changes), with_data=False)
    recording = record(ready.kernel, ready.device, ready.block_dim, ready.gm, (ready.argument,))
    assert recording.complete
    return recording.program, ready.device
