"""Cycles of the Cube side, from published figures and formulas."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.cost import template_schedule
from ascendsim.device import device_names, load_device
from ascendsim.dtypes import dtype
from ascendsim.engine.base import UNITS_PER_BYTE
from ascendsim.errors import DeviceError
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.load import LoadData2DParams, LoadData2dTransposeParams, LoadData3DParamsV2
from ascendsim.isa.mmad import MmadParams
from ascendsim.isa.nd2nz import Nd2NzParams
from ascendsim.machine import schedule
from ascendsim.memory import LocalTensor, place_in_gm
from ascendsim.record import record
from ascendsim.terms import CO2Layout, KernelType, QuantMode, TPosition

OLD, NEW = load_device("Ascend910B1"), load_device("Ascend950PR_9589")
RATE = {
    (2201, "half"): (16, 1), (2201, "bfloat16_t"): (16, 1), (2201, "int8_t"): (32, 1), (2201, "float"): (8, 2),
    (3510, "half"): (16, 1), (3510, "bfloat16_t"): (16, 1), (3510, "int8_t"): (32, 1), (3510, "float"): (8, 8),
}  # fmt: skip
"""(k of a step, its cycles) of Mmad (asc-devkit docs, Cube theory table)."""
HEAD = {2201: 21, 3510: 25}


def local(position, kind, count=1 << 15, address=0):
    element = dtype(kind)
    return LocalTensor(f"{position.value}@{address}", position, element, address, count * element.bytes)


def fields(kernel, device, gm=(), kernel_type=KernelType.AIC_ONLY):
    """Schedule columns of a kernel's last row."""
    program = record(kernel, device, 1, gm, (), None, kernel_type).program
    return {name: int(c[-1]) for name, c in template_schedule(program.templates[0], device).columns.items()}


def mmad(kind, shape):
    result = "int32_t" if kind == "int8_t" else "float"
    tensors = local(TPosition.CO1, result), local(TPosition.A2, kind), local(TPosition.B2, kind)
    return lambda asc: asc.mmad(*tensors, MmadParams(*shape))


def times(kernel, device=OLD, gm=()):
    return schedule(record(kernel, device, 1, gm, (), None, KernelType.AIC_ONLY).program, device, "both")


# ---- Mmad -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "cycles"), [((16, 16, 16), 22), ((128, 128, 128), 533)])
def test_a_product_of_halves_on_an_idle_pipe(shape, cycles):
    t = times(mmad("half", shape))
    assert int(t["end"][0] - t["start"][0]) == cycles


def test_a_stream_of_products_pays_its_head_once():
    """Eight of m128 n256 k64 take 8 x 512 and the head (asc-devkit docs, unit flag page: 4156 with 60 of overhead)."""

    def kernel(asc):
        for _ in range(8):
            mmad("half", (128, 256, 64))(asc)

    t = times(kernel)
    assert int(t["end"][-1] - t["start"][0]) == 8 * 512 + 21


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    key=st.sampled_from(sorted(RATE)),
    shape=st.tuples(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300)),
)
def test_steps_of_a_product(key, shape):
    arch, kind = key
    m, n, k = shape
    deep, cycles = RATE[key]
    got = fields(mmad(kind, shape), {2201: OLD, 3510: NEW}[arch])
    assert (got["startup"], got["startup_warm"], got["drain"]) == (HEAD[arch], 0, 0)
    assert got["occupancy"] == -(-m // 16) * -(-n // 16) * -(-k // deep) * cycles


@pytest.mark.parametrize("name", device_names())
def test_every_device_has_a_table(name):
    """Of its architecture, or where nothing is published that of arch 2201, said to be assumed."""
    device = load_device(name)
    lender = device.npu_arch if device.npu_arch in HEAD else 2201
    for kind in ("half", "int8_t"):
        deep, cycles = RATE[lender, kind]
        got = fields(mmad(kind, (32, 48, 64)), device, (), cube_kernel(device))
        assert (got["startup"], got["occupancy"]) == (HEAD[lender], 2 * 3 * (64 // deep) * cycles)
        borrowed = (
            device.cube["Mmad"][kind].source == f"nothing published for arch{device.npu_arch}; the figure of arch2201"
        )
        assert borrowed == (lender != device.npu_arch)


def cube_kernel(device):
    """The kernel type whose only core has a Cube unit."""
    return KernelType.AICORE if KernelType.AICORE in device.kernel_types() else KernelType.AIC_ONLY


# ---- moves on chip --------------------------------------------------------------------------------------------------


def load_2d(place, repeat):
    l1, l0 = local(TPosition.A1, "half"), local(place, "half")
    return lambda asc: asc.load_data(l0, l1, LoadData2DParams(0, repeat, 1, 0, 0, False))


def transposed(repeat):
    l1, l0 = local(TPosition.B1, "float"), local(TPosition.B2, "float")
    return lambda asc: asc.load_data_with_transpose(l0, l1, LoadData2dTransposeParams(0, repeat, 1, 1, 0))


def load_3d(place):
    p = LoadData3DParamsV2(l1_h=64, l1_w=1, channel_size=32, k_extension=32, m_extension=64)
    return lambda asc: asc.load_data(local(place, "half"), local(TPosition.A1, "half"), p)


def copy(place, count):
    return lambda asc: asc.data_copy(local(place, "float", 512), local(TPosition.C1, "float"), count)


def to_l1(m, n):
    p = FixpipeParamsV220(n, m, m, m, QuantMode.F322F16)
    return lambda asc: asc.fixpipe(local(TPosition.A1, "half"), local(TPosition.CO1, "float"), p, CO2Layout.NZ)


MOVES = [
    ("L1 to L0A", load_2d(TPosition.A2, 20), 20 * 512, (28, 1, 256), (30, 1, 256)),
    ("L1 to L0B", load_2d(TPosition.B2, 20), 20 * 512, (28, 1, 128), (30, 1, 256)),
    ("L1 to L0B, squares of floats", transposed(5), 5 * 1024, (28, 1, 128), (30, 1, 256)),
    ("L1 to L0A, windows", load_3d(TPosition.A2), 64 * 32 * 2, (50, 2, 256), (50, 2, 256)),
    ("L1 to L0B, windows", load_3d(TPosition.B2), 64 * 32 * 2, (50, 2, 128), (50, 2, 128)),
    ("L1 to the bias table", copy(TPosition.C2, 64), 256, (20, 0, 32), (20, 0, 32)),
    ("L1 to the fixpipe buffer", copy(TPosition.C2PIPE2GM, 64), 256, (20, 15, 32), (26, 15, 32)),
    ("L0C to L1", to_l1(64, 48), 64 * 48 * 2, (20, 2, 128), (26, 2, 128)),
]
"""What, kernel, bytes; (cycles beside the bytes alone, likewise in a stream, bytes a cycle) on arch 2201 and 3510."""


@pytest.mark.parametrize(("what", "kernel", "length", "old", "new"), MOVES, ids=[m[0] for m in MOVES])
@pytest.mark.parametrize("device", [OLD, NEW], ids=["2201", "3510"])
def test_moves_on_chip(what, kernel, length, old, new, device):
    del what
    alone, streamed, rate = old if device is OLD else new

    def twice(asc):
        kernel(asc)
        kernel(asc)

    t = times(twice, device)
    assert int(t["occupied"][0] - t["start"][0]) == alone + -(-length // rate)
    assert int(t["occupied"][1] - t["start"][1]) == streamed + -(-length // rate)


# ---- GM -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n"), [(16, 16), (100, 60), (128, 256)])
def test_a_result_to_gm(m, n):
    """90 cycles at least, else 116 B a cycle of what is written, pitches left out."""
    y = place_in_gm([("y", dtype("float"), (m * (n + 4),))])
    p = FixpipeParamsV220(n, m, -(-m // 16) * 16, n + 4)
    got = fields(lambda asc, y: asc.fixpipe(y, local(TPosition.CO1, "float"), p), OLD, y)
    assert (got["bytes"], got["gm_rows"], got["gm_length"], got["gm_pitch"]) == (4 * m * n, m, 4 * n, 4 * (n + 4))
    t = times(lambda asc, y: asc.fixpipe(y, local(TPosition.CO1, "float"), p), OLD, y)
    cycles, exact = int(t["occupied"][0] - t["start"][0]), max(90, 4 * m * n / 116)
    assert exact <= cycles <= exact + 2


def test_matrices_count_with_all_their_rows():
    x = place_in_gm([("x", dtype("half"), (4096,))])
    p = Nd2NzParams(3, 20, 24, 1000, 40, 20, 1, 2000)
    got = fields(lambda asc, x: asc.data_copy(local(TPosition.A1, "half"), x, p), OLD, x)
    assert (got["bytes"], got["gm_rows"], got["gm_length"], got["gm_pitch"]) == (3 * 20 * 48, 60, 48, 80)


def test_each_row_of_nd2nz_that_hits_begins_by_itself():
    """A load of A and one of B with rows of 128 B: 514 and 1380 cycles (matmul example, cases 0 and 1)."""
    x = place_in_gm([("x", dtype("half"), (256 * 8192,))])
    for rows, measured in (((64, 64), 514), ((128, 256), 1380)):
        total = 0.0
        for n in rows:
            p = Nd2NzParams(1, n, 64, 0, 8192, n, 1, 0)
            got = fields(lambda asc, x, p=p: asc.data_copy(local(TPosition.A1, "half"), x, p), OLD, x)
            total += got["startup_hit"] + got["bytes_hit"] * UNITS_PER_BYTE / got["cap_units_hit"]
        assert total == pytest.approx(measured, rel=0.02)


def test_a_path_without_a_cost_says_so():
    poor = OLD.model_copy(update={"transfer": {k: v for k, v in OLD.transfer.items() if k != "gm_to_l1_miss"}})
    x = place_in_gm([("x", dtype("half"), (256,))])
    with pytest.raises(DeviceError) as caught:
        fields(lambda asc, x: asc.data_copy(local(TPosition.A1, "half"), x, 256), poor, x)
    assert str(caught.value) == "device Ascend910B1 has no cost for DataCopy (table transfer.gm_to_l1_miss)"
