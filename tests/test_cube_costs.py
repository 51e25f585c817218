"""Cycles of the Cube side, from published figures and formulas."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.cost import template_schedule, template_schedules
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
from ascendsim.record import record, tile
from ascendsim.terms import CO2Layout, KernelType, QuantMode, TPosition

OLD, NEW = load_device("Ascend910B1"), load_device("Ascend950PR_9589")
RATE = {
    (2201, "half"): (16, 1), (2201, "bfloat16_t"): (16, 1), (2201, "int8_t"): (32, 1), (2201, "float"): (8, 2),
    (3510, "half"): (16, 1), (3510, "bfloat16_t"): (16, 1), (3510, "int8_t"): (32, 1), (3510, "float"): (8, 8),
}  # fmt: skip
"""(k of a step, its cycles) of Mmad (asc-devkit docs, Cube theory table)."""
HEAD = {2201: 21, 3510: 25}
STREAMED = {2201: 2, 3510: 0}
ADDING = 12
"""Cycles of an Mmad that finds the pipe idle, of each, of one that adds to L0C behind another."""


def local(position, kind, count=1 << 15, address=0):
    element = dtype(kind)
    return LocalTensor(f"{position.value}@{address}", position, element, address, count * element.bytes)


def fields(kernel, device, gm=(), kernel_type=KernelType.AIC_ONLY):
    """Schedule columns of a kernel's last row."""
    program = record(kernel, device, 1, gm, (), None, kernel_type).program
    return {name: int(c[-1]) for name, c in template_schedule(program.templates[0], device).columns.items()}


def mmad(kind, shape, *, onto=False):
    result = "int32_t" if kind == "int8_t" else "float"
    tensors = local(TPosition.CO1, result), local(TPosition.A2, kind), local(TPosition.B2, kind)
    return lambda asc: asc.mmad(*tensors, MmadParams(*shape, cmatrix_init_val=not onto))


def times(kernel, device=OLD, gm=()):
    return schedule(record(kernel, device, 1, gm, (), None, KernelType.AIC_ONLY).program, device, "both")


# ---- Mmad -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "cycles"), [((16, 16, 16), 24), ((128, 128, 128), 535)])
def test_a_product_of_halves_on_an_idle_pipe(shape, cycles):
    t = times(mmad("half", shape))
    assert int(t["end"][0] - t["start"][0]) == cycles


def test_a_stream_of_products_pays_its_head_once():
    def kernel(asc):
        for _ in range(8):
            mmad("half", (128, 256, 64))(asc)

    t = times(kernel)
    assert int(t["end"][-1] - t["start"][0]) == 8 * (512 + 2) + 21


@pytest.mark.parametrize(("n", "least", "most"), [(256, 4209, 4225), (128, 2165, 2172)])
def test_a_sum_of_products_waits_for_its_parts(n, least, most):
    """Eight parts of k64 of one result of 128 rows (asc-devkit docs, unit flag page: 4209 to 4225, and 2172)."""

    def kernel(asc):
        for part in range(8):
            mmad("half", (128, n, 64), onto=part > 0)(asc)

    t = times(kernel)
    assert least <= int(t["end"][-1] - t["start"][0]) <= most
    assert int(t["end"][-1] - t["start"][0]) == 8 * (2 * n + 2) + 21 + 7 * 12


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    key=st.sampled_from(sorted(RATE)),
    shape=st.tuples(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300)),
)
def test_steps_of_a_product(key, shape):
    arch, kind = key
    m, n, k = shape
    deep, cycles = RATE[key]
    got, adding = (fields(mmad(kind, shape, onto=onto), {2201: OLD, 3510: NEW}[arch]) for onto in (False, True))
    assert (got["startup"], got["startup_warm"], got["drain"]) == (HEAD[arch], 0, 0)
    assert adding == got | {"startup_warm": ADDING}
    assert got["occupancy"] == STREAMED[arch] + -(-m // 16) * -(-n // 16) * -(-k // deep) * cycles


@pytest.mark.parametrize("name", device_names())
def test_every_device_has_a_table(name):
    """Of its architecture, or where nothing is published that of arch 2201, said to be assumed."""
    device = load_device(name)
    lender = device.npu_arch if device.npu_arch in HEAD else 2201
    for kind in ("half", "int8_t"):
        deep, cycles = RATE[lender, kind]
        got = fields(mmad(kind, (32, 48, 64)), device, (), cube_kernel(device))
        assert (got["startup"], got["occupancy"]) == (HEAD[lender], STREAMED[lender] + 6 * (64 // deep) * cycles)
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


def to_l1(m, n, kind="half", result="float", quant=QuantMode.F322F16):
    p = FixpipeParamsV220(n, m, m, m, quant)
    return lambda asc: asc.fixpipe(local(TPosition.A1, kind), local(TPosition.CO1, result), p, CO2Layout.NZ)


def narrow_to_l1(m, n):
    return to_l1(m, n, "int8_t", "int32_t", QuantMode.REQ8)


MOVES = [
    ("L1 to L0A", load_2d(TPosition.A2, 20), 20 * 512, (28, 1, 256), (30, 0, 256)),
    ("L1 to L0B", load_2d(TPosition.B2, 20), 20 * 512, (28, 1, 128), (30, 0, 256)),
    ("L1 to L0B, squares of floats", transposed(5), 5 * 1024, (28, 1, 128), (30, 0, 256)),
    ("L1 to L0A, windows", load_3d(TPosition.A2), 64 * 32 * 2, (50, 2, 256), (50, 2, 256)),
    ("L1 to L0B, windows", load_3d(TPosition.B2), 64 * 32 * 2, (50, 2, 128), (50, 2, 128)),
    ("L1 to the bias table", copy(TPosition.C2, 64), 256, (20, 0, 32), (20, 0, 32)),
    ("L1 to the fixpipe buffer", copy(TPosition.C2PIPE2GM, 64), 256, (20, 15, 32), (26, 15, 32)),
    ("L0C to L1", to_l1(64, 48), 64 * 48 * 2, (20, 2, 128), (26, 2, 128)),
    ("L0C to L1, 8 bits", narrow_to_l1(64, 64), 64 * 64, (20, 2, 64), (26, 2, 64)),
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
    """About 90 cycles, or 116 B a cycle of the 128 B pieces that its rows touch."""
    y = place_in_gm([("y", dtype("float"), (m * (n + 4),))])
    p = FixpipeParamsV220(n, m, -(-m // 16) * 16, n + 4)
    got = fields(lambda asc, y: asc.fixpipe(y, local(TPosition.CO1, "float"), p), OLD, y)
    length = 128 * sum(len({b // 128 for b in range(4 * (n + 4) * i, 4 * (n + 4) * i + 4 * n)}) for i in range(m))
    assert (got["bytes"], got["gm_rows"], got["gm_length"], got["gm_pitch"]) == (length, m, 4 * n, 4 * (n + 4))
    t = times(lambda asc, y: asc.fixpipe(y, local(TPosition.CO1, "float"), p), OLD, y)
    cycles, exact = int(t["occupied"][0] - t["start"][0]), max(86 + length / (25.9 * 48), length / 116)
    assert exact <= cycles <= exact + 2


def test_matrices_count_with_all_their_rows():
    x = place_in_gm([("x", dtype("half"), (4096,))])
    p = Nd2NzParams(3, 20, 24, 1000, 40, 20, 1, 2000)
    got = fields(lambda asc, x: asc.data_copy(local(TPosition.A1, "half"), x, p), OLD, x)
    assert (got["bytes"], got["gm_rows"], got["gm_length"], got["gm_pitch"]) == (-(-60 * 80 // 512) * 512, 60, 48, 80)
    pieces = sum(len({b // 128 for b in range(80 * i, 80 * i + 48)}) for i in range(60))
    assert got["bytes_hit"] == pieces * 128


@pytest.mark.parametrize(
    ("row_bytes", "pieces"), [(128, 1), (256, 1), (320, 2), (448, 2), (896, 3), (1024, 1), (1984, 4), (2048, 2)]
)
def test_rows_of_nd2nz_are_worked_in_pieces(row_bytes, pieces):
    """From HBM: 5.4 cycles for each of 1024, 512 and 256 B and for the rest, where 132 B a cycle are not slower."""
    exact = 400 + max(64 * pieces * 5.4, 64 * row_bytes / 132)
    assert exact <= nd2nz_cycles(row_bytes, "miss") <= exact + 2


@pytest.mark.parametrize("row_bytes", [128, 256, 320, 896, 1024, 2048])
def test_rows_of_nd2nz_that_hit_begin_by_themselves(row_bytes):
    """2.42 cycles for each row, then 132 B a cycle."""
    exact = 40 + 64 * 2.42 + 64 * row_bytes / 132
    assert exact <= nd2nz_cycles(row_bytes, "hit") <= exact + 3


def nd2nz_cycles(row_bytes, l2_mode):
    """Cycles of one load of 64 rows without gaps on an idle pipe."""
    x = place_in_gm([("x", dtype("half"), (1 << 17,))])
    p = Nd2NzParams(1, 64, row_bytes // 2, 0, row_bytes // 2, 64, 1, 0)
    program = record(
        lambda asc, x: asc.data_copy(local(TPosition.A1, "half"), x, p), OLD, 1, x, (), None, KernelType.AIC_ONLY
    ).program
    t = schedule(program, OLD, "both", l2_mode=l2_mode)
    return int(t["occupied"][0] - t["start"][0])


@pytest.mark.parametrize(("row_bytes", "ratio"), [(512, 1.97), (2048, 1.28)])
def test_odd_pitches_touch_more_lines(row_bytes, ratio):
    """Rows of 12287 halves against 12288 (asc-devkit docs, data_copy example: ND2NZ, and GM to UB)."""
    x = place_in_gm([("x", dtype("half"), (64 * 12288,))])

    def moved(columns):
        p = Nd2NzParams(1, 64, row_bytes // 2, 0, columns, 64, 1, 0)
        return fields(lambda asc, x: asc.data_copy(local(TPosition.A1, "half"), x, p), OLD, x)["bytes"]

    assert moved(12288) == 64 * row_bytes
    assert moved(12287) / moved(12288) == pytest.approx(ratio, rel=0.03)


def test_bases_of_tiles_count():
    """A burst of 512 B from a base that is 32 B off a line touches two lines."""
    x = place_in_gm([("x", dtype("half"), (4096,))])

    @tile
    def one(asc, x):
        asc.data_copy(local(TPosition.A1, "half"), x, 256)

    def moved(*offsets):
        def kernel(asc, x):
            for offset in offsets:
                one(asc, x[offset])

        program = record(kernel, OLD, 1, x, (), None, KernelType.AIC_ONLY).program
        return [int(s.columns["bytes"][0]) for s in template_schedules(program, OLD)]

    assert moved(0, 256, 512) == [512]
    assert moved(16, 272) == [1024]
    assert moved(0, 16, 272) == [1024]
    assert moved(0, 256, 16) == [512]


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
