"""The closed formula of touched temp: equal to every golden row, and to the highest byte a recorded program touches."""

import csv

import pytest
from conftest import GOLDEN
from golden_cases import SOC, touched_end
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT, HALF, UINT8
from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import is_basic_block_shape, soft_max_grad_tiling_func
from ascendsim.op_host.softmax_tiles import Uint32, tiling_fields
from ascendsim.op_kernel.softmax_grad import softmax_grad, softmax_grad_front
from ascendsim.record import record
from ascendsim.terms import DataFormat, TPosition
from ascendsim.tmpsize.high_water import Unit, reserved_bytes, touched_bytes, unit_of

KINDS = {"half": HALF, "float": FLOAT}
MODES = {
    "full": {},
    "front": {"is_front": True},
    "front_basic_block": {"is_front": True, "is_basic_block": True},
}
with (GOLDEN / "softmaxgrad_tmp_highwater.csv").open() as file:
    ROWS = list(csv.DictReader(file))


class _EveryRole:
    def __contains__(self, role):
        return True


def _formula(row, tiling):
    mode = MODES[row["mode"]]
    return touched_bytes(
        tiling, KINDS[row["dtype"]], int(row["arch"]), data_format=DataFormat(row["format"]), **mode
    )  # fmt: skip


def test_every_golden_row():
    assert len(ROWS) == 681
    for row in ROWS:
        kind = KINDS[row["dtype"]]
        m, k, split_m = (int(row[name]) for name in ("m", "k", "split_m"))
        tiling = tiling_fields(Uint32(), m, k, kind.per_datablock, split_m)
        assert _formula(row, tiling) == int(row["touched_bytes"]), row
        assert reserved_bytes(tiling, kind, row["mode"] != "full") == int(row["tiling_formula_bytes"]), row


def _touched_by_program(arch, kind, tiling, mode, data_format, tmp_bytes):
    size = tiling.src_size * kind.bytes
    dst, grad, src = (
        LocalTensor(n, TPosition.VECCALC, kind, i * size, size) for i, n in enumerate(("dst", "grad", "src"))
    )
    tmp = LocalTensor("tmp", TPosition.VECCALC, UINT8, 3 * size, tmp_bytes)

    def kernel(asc):
        if mode == "front_basic_block":
            softmax_grad_front(asc, dst, grad, src, tmp, tiling, data_format=data_format, is_basic_block=True)
        else:
            softmax_grad(asc, dst, grad, src, tmp, tiling, mode == "front", data_format=data_format)

    program = record(kernel, load_device(SOC[arch]), 1, (), ()).program
    return touched_end(program, "tmp", _EveryRole())


FORMS = [
    (arch, mode, data_format)
    for arch in SOC
    for mode in MODES
    for data_format in DataFormat
    if not (mode == "front_basic_block" and data_format is DataFormat.NZ)
    if not (arch == "3002" and (data_format is DataFormat.NZ or mode == "front_basic_block"))
]


@pytest.mark.parametrize(("arch", "mode", "data_format"), FORMS, ids=lambda v: str(getattr(v, "value", v)))
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_a_recorded_program_touches_exactly_so_much(arch, mode, data_format, data):
    kind = data.draw(st.sampled_from([HALF, FLOAT]))
    is_front = mode != "full"
    if mode == "front_basic_block":
        m, k = 8 * data.draw(st.integers(1, 6)), 64 * data.draw(st.integers(1, 5))
        if not is_basic_block_shape(m, k, kind.bytes):
            k = 128
    else:
        unit = 16 if data_format is DataFormat.NZ else kind.per_datablock
        m, k = data.draw(st.integers(1, 40)), unit * data.draw(st.integers(1, 20))
    split_m = data.draw(st.integers(1, m))
    tiling = tiling_fields(Uint32(), m, k, kind.per_datablock, split_m)
    reserved = max(reserved_bytes(tiling, kind, is_front), 8192)
    got = _touched_by_program(arch, kind, tiling, mode, data_format, reserved)
    flags = {"is_front": is_front, "is_basic_block": mode == "front_basic_block", "data_format": data_format}
    want = touched_bytes(tiling, kind, int(arch), **flags)
    assert got == want, (m, k, split_m)
    is_row_sums = arch == "3510" and data_format is DataFormat.NZ
    assert is_row_sums or want <= reserved_bytes(tiling, kind, is_front) or mode == "front_basic_block"


def test_units_are_what_the_devices_can():
    for soc in SOC.values():
        device = load_device(soc)
        unit = unit_of(device.npu_arch)
        assert device.has("vector_function") is (unit is Unit.VECTOR_FUNCTION)
        assert device.has("register_vector") is (unit is Unit.REGISTER)
        assert device.has("softmax_grad_block_reduce") is (unit is Unit.DATABLOCK_SUMS)
    assert {unit_of(arch) for arch in (3003, 3113, 5102)} == {Unit.VECTOR_FUNCTION}


@pytest.mark.parametrize(("arch", "data_format", "touched"), [(2201, DataFormat.ND, 0), (3510, DataFormat.NZ, 1024)])
def test_a_tiling_without_a_row(arch, data_format, touched):
    tiling = soft_max_grad_tiling_func((100, 64), 4, 4, False)
    assert tiling.split_m == 0
    assert touched_bytes(tiling, FLOAT, arch, data_format=data_format) == touched
