"""Small programs of every kernel in the repository: all steps of each, few tiles."""

from conftest import ROOT

from ascendsim.device import load_device
from ascendsim.dtypes import UINT8, dtype
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.load import LoadData2DParams
from ascendsim.isa.mmad import MmadParams
from ascendsim.isa.nd2nz import Nd2NzParams
from ascendsim.machine import _prepare, loaded_scenario
from ascendsim.memory import LocalTensor, place_in_gm
from ascendsim.op_host.softmax import get_soft_max_grad_max_tmp_size, soft_max_grad_tiling_func
from ascendsim.op_kernel.softmax_grad import SoftMaxShapeInfo, softmax_grad, softmax_grad_front
from ascendsim.record import record
from ascendsim.terms import DATABLOCK_BYTES, DataFormat, HardEvent, KernelType, Pipe, TPosition, align_up


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


CUBE = {"matmul by queues": KernelType.AIC_ONLY, "matmul handed to vector cores": KernelType.MIX_AIC_1_2}
"""Kernels of the Cube core, and which cores run them."""
SIDE = 64


def recorded(name):
    """(program, device, whether UB begins unwritten)."""
    if name in CUBE:
        return of_cube(CUBE[name])
    if name in LIBRARY:
        return of_library(*LIBRARY[name])
    changes = dict(SCENARIOS[name])
    if name == "softmaxgrad_half_front":
        changes |= rows(64, 256, "grad", "src") | rows(64, 16, "dst")
    ready = _prepare(loaded_scenario(ROOT / f"scenarios/{name}.toml", changes), with_data=False)
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


def of_cube(kernel_type):
    """Two products of half [64, 64] through queues; in a mixed kernel the vector cores then add 1 to each."""
    device, half, single = load_device("Ascend910B1"), dtype("half"), dtype("float")
    shape = (SIDE, SIDE)
    gm = place_in_gm([("a", half, shape), ("b", half, shape), ("w", single, shape), ("out", single, (2, *shape))])

    def kernel(asc, a, b, w, out):
        if asc.is_aic:
            matmul(asc, a, b, w, is_mix=kernel_type.is_mix)
        else:
            add_one(asc, w, out)

    recording = record(kernel, device, 1, gm, (), None, kernel_type)
    assert recording.complete
    assert recording.findings == ()
    return recording.program, device, True


def matmul(asc, a, b, w, *, is_mix):
    """Both products into the same GM; the second waits until the vector cores have read the first."""
    pipe = asc.t_pipe()
    names = {"a1": TPosition.A1, "b1": TPosition.B1, "a2": TPosition.A2, "b2": TPosition.B2, "c1": TPosition.CO1}
    ques = {name: asc.t_que(position, 1, name) for name, position in names.items()}
    for name, que in ques.items():
        pipe.init_buffer(que, 1, SIDE * SIDE * (4 if name == "c1" else 2))
    for turn in range(2):
        for name, source in (("a1", a), ("b1", b)):
            staged = ques[name].alloc_tensor("half")
            asc.data_copy(staged, source, Nd2NzParams(1, SIDE, SIDE, 0, SIDE, SIDE, 1, 0))
            ques[name].enque(staged)
        for name, is_turned in (("a", False), ("b", True)):
            staged, tile = ques[f"{name}1"].deque("half"), ques[f"{name}2"].alloc_tensor("half")
            for i in range(SIDE // 16):
                asc.load_data(tile[i * 16 * SIDE], staged[i * 256], LoadData2DParams(0, 4, 4, 0, 0, is_turned))
            ques[f"{name}2"].enque(tile)
            ques[f"{name}1"].free_tensor(staged)
        left, right, result = ques["a2"].deque("half"), ques["b2"].deque("half"), ques["c1"].alloc_tensor("float")
        asc.mmad(result, left, right, MmadParams(SIDE, SIDE, SIDE))
        ques["c1"].enque(result)
        ques["a2"].free_tensor(left)
        ques["b2"].free_tensor(right)
        result = ques["c1"].deque("float")
        if is_mix and turn:
            asc.cross_core_wait_flag(2, Pipe.FIX, 1)
        asc.fixpipe(w, result, FixpipeParamsV220(SIDE, SIDE, SIDE, SIDE))
        if is_mix:
            asc.cross_core_set_flag(2, Pipe.FIX, 0)
        ques["c1"].free_tensor(result)


def add_one(asc, w, out):
    """Half of each product on each vector core."""
    count = SIDE * SIDE // 2
    first = count * asc.get_sub_block_idx()
    values = LocalTensor("values", TPosition.VECCALC, dtype("float"), 0, count * 4)
    for turn in range(2):
        asc.cross_core_wait_flag(2, Pipe.MTE2, 0)
        asc.data_copy(values, w[first], count)
        if turn == 0:
            asc.cross_core_set_flag(2, Pipe.MTE2, 1)
        asc.set_flag(HardEvent.MTE2_V, 0)
        asc.wait_flag(HardEvent.MTE2_V, 0)
        asc.adds(values, values, 1.0, count)
        asc.set_flag(HardEvent.V_MTE3, 0)
        asc.wait_flag(HardEvent.V_MTE3, 0)
        asc.data_copy(out[turn * SIDE * SIDE + first], values, count)
        if turn == 0:
            asc.set_flag(HardEvent.MTE3_MTE2, 0)
            asc.wait_flag(HardEvent.MTE3_MTE2, 0)
