"""Small programs of every kernel in the repository: all steps of each, few tiles."""

from conftest import ROOT

from ascendsim.device import load_device
from ascendsim.dtypes import UINT8, dtype
from ascendsim.machine import _loaded, _prepare
from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import get_soft_max_grad_max_tmp_size, soft_max_grad_tiling_func
from ascendsim.op_kernel.softmax_grad import SoftMaxShapeInfo, softmax_grad, softmax_grad_front
from ascendsim.record import record
from ascendsim.terms import DATABLOCK_BYTES, DataFormat, TPosition, align_up


def rows(count, columns, *names):
    return {f"tensors.{name}.shape": [count, columns] for name in names}


SCENARIOS = {
    "vector_add": {"tensors.x.shape": [2048], "tensors.y.shape": [2048], "tensors.z.shape": [2048], "block_dim": 1,
                   "tiling.tile_length": 512},
    "scaled_softmax_grad": {"block_dim": 1} | rows(64, 128, "dp", "p", "ds"),
    "softmaxgrad_960x960_float": {"block_dim": 1} | rows(16, 960, "grad", "src", "dst"),
    "softmaxgrad_half_front": {"block_dim": 1},
}  # fmt: skip
"""Scenario and what is changed so that it is small."""

LIBRARY = {
    "2201 float": ("Ascend910B1", "float", (16, 128), "ND", False),
    "2201 half, one datablock": ("Ascend910B1", "half", (8, 16), "ND", False),
    "2201 half NZ": ("Ascend910B1", "half", (16, 48), "NZ", False),
    "2201 front": ("Ascend910B1", "float", (16, 64), "ND", True),
    "2002 half": ("Ascend310P3", "half", (16, 64), "ND", False),
    "3002 float": ("Ascend310B1", "float", (8, 64), "ND", False),
    "3510 float": ("Ascend950PR_9579", "float", (8, 96), "ND", False),
}
"""Calls of the library alone: part, type, shape, format, front."""


def recorded(name):
    """(program, device, whether UB begins unwritten)."""
    if name in LIBRARY:
        return of_library(*LIBRARY[name])
    changes = dict(SCENARIOS[name])
    if name == "softmaxgrad_half_front":
        changes |= rows(64, 256, "grad", "src") | rows(64, 16, "dst")
    ready = _prepare(_loaded(ROOT / f"scenarios/{name}.toml", changes), with_data=False)
    recording = record(ready.kernel, ready.device, ready.block_dim, ready.gm, (ready.argument,))
    assert recording.complete
    return recording.program, ready.device, True


def of_library(soc, kind, shape, data_format, front):
    device, element = load_device(soc), dtype(kind)
    m, k = shape
    lengths = {"dst": m * DATABLOCK_BYTES if front else m * k * element.bytes, "grad": m * k * element.bytes}
    lengths["src"] = lengths["grad"]
    tensors, at = {}, 0
    for name, length in lengths.items():
        tensors[name] = LocalTensor(name, TPosition.VECCALC, element, at, length)
        at = align_up(at + length, DATABLOCK_BYTES)
    tmp_bytes = get_soft_max_grad_max_tmp_size(shape, element.bytes, front, device.npu_arch)
    tmp = LocalTensor("tmp", TPosition.VECCALC, UINT8, at, tmp_bytes)
    tiling = soft_max_grad_tiling_func(shape, element.bytes, tmp_bytes, front)
    info = SoftMaxShapeInfo(m, k, m, k)

    def kernel(asc):
        operands = (tensors["dst"], tensors["grad"], tensors["src"], tmp, tiling)
        if front:
            softmax_grad_front(asc, *operands, info, data_format=DataFormat(data_format))
        else:
            softmax_grad(asc, *operands, False, info, data_format=DataFormat(data_format))

    recording = record(kernel, device, 1, (), ())
    assert recording.complete
    return recording.program, device, False
