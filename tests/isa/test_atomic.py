"""Stores that add to GM: every path and type, the mode across tiles, and what is found."""

import numpy as np
import pytest
from cube_harness import A1, CO1, DEVICE, in_gm, noted, on_chip, run, touched
from test_fixpipe import results
from test_mmad import numbers

from ascendsim.dtypes import dtype
from ascendsim.execute import execute
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.move import DataCopyExtParams, DataCopyParams
from ascendsim.memory import Bytes
from ascendsim.record import record, tile
from ascendsim.terms import HalfOverflow, KernelType, QuantMode, TPosition

AIV = KernelType.AIV_ONLY


def added(before, values):
    """Sums of two arrays of one type, one element at a time: integers wrap, others are rounded once."""
    kind = before.dtype
    if kind.kind in "iu":
        bits = 8 * kind.itemsize
        sums = [
            (int(b) + int(v) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for b, v in zip(before, values, strict=True)
        ]
        return np.array(sums, kind)
    return np.array([float(b) + float(v) for b, v in zip(before, values, strict=True)]).astype(kind)


def numbers_of(kind, count, seed):
    rng = np.random.default_rng(seed)
    if dtype(kind).numpy.kind == "i":
        info = np.iinfo(dtype(kind).numpy)
        return rng.integers(info.min, info.max + 1, count).astype(dtype(kind).numpy)
    return numbers(rng, kind, count)


KINDS = ["int8_t", "int16_t", "half", "bfloat16_t", "int32_t", "float"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", ["UB", "UB padded", "L1"])
def test_copies_add(kind, path):
    """Two bursts with a gap on either side; what lies between is left alone."""
    width = dtype(kind).bytes
    e = 32 // width
    position, kernel_type = (A1, KernelType.AIC_ONLY) if path == "L1" else (TPosition.VECOUT, AIV)
    local, gm = on_chip(position, kind, 8 * e), in_gm(("y", kind, 10 * e))
    values, before = numbers_of(kind, 8 * e, 1), numbers_of(kind, 10 * e, 2)

    def kernel(asc, y):
        asc.set_atomic_add(kind)
        if path == "UB padded":
            asc.data_copy_pad(y[e], local, DataCopyExtParams(2, 32 + 4, 1, 12))
        else:
            asc.data_copy(y[e], local, DataCopyParams(2, 2, 1, 3))
        asc.set_atomic_none()
        asc.data_copy(y, local[7 * e], e)

    ran = run(kernel, [(local, values, None), (gm[0], before, None)], gm, kernel_type=kernel_type)
    want = before.copy()
    spans = [(e, 0, 36), (e + 48 // width, 3 * e, 36)] if path == "UB padded" else [(e, 0, 64), (6 * e, 3 * e, 64)]
    for to, at, length in spans:
        count = length // width
        want[to : to + count] = added(want[to : to + count], values[at : at + count])
    want[:e] = values[7 * e :]
    assert ran.values(gm[0]).tobytes() == want.tobytes()
    assert ran.findings == ran.recorded == ()


@pytest.mark.parametrize(
    ("mode", "source", "kind"),
    [
        (QuantMode.NO_QUANT, "float", "float"),
        (QuantMode.NO_QUANT, "int32_t", "int32_t"),
        (QuantMode.F322F16, "float", "half"),
        (QuantMode.F322BF16, "float", "bfloat16_t"),
    ],
)
def test_fixpipe_adds_twice(mode, source, kind):
    """12 x 20 results onto rows of 24: converted first, then added, and again."""
    l0c, gm = on_chip(CO1, source, 512), in_gm(("y", kind, 288))
    have, before = results(np.random.default_rng(4), source, 512), numbers_of(kind, 288, 5)
    p = FixpipeParamsV220(20, 12, 16, 24, mode)

    def kernel(asc, y):
        asc.set_atomic_add(kind)
        asc.fixpipe(y, l0c, p)
        asc.fixpipe(y, l0c, p)
        asc.set_atomic_none()

    ran = run(kernel, [(l0c, have, None), (gm[0], before, None)], gm)
    matrix = have.reshape(2, 16, 16).transpose(1, 0, 2).reshape(16, 32)[:12, :20].astype(dtype(kind).numpy)
    want = before.reshape(12, 24).copy()
    for _ in range(2):
        want[:, :20] = added(want[:, :20].reshape(-1), matrix.reshape(-1)).reshape(12, 20)
    assert ran.values(gm[0]).tobytes() == want.tobytes()
    assert ran.findings == ran.recorded == ()


def test_an_adding_store_reads_and_writes_what_it_adds_to():
    l0c, gm = on_chip(CO1, "float", 256), in_gm(("y", "half", 20 * 16))

    def kernel(asc, y):
        asc.set_atomic_add("half")
        asc.fixpipe(y, l0c, FixpipeParamsV220(16, 16, 16, 20, QuantMode.F322F16))

    ran = run(kernel, [(l0c, np.ones(256, np.float32), None)], gm)
    seen = noted(ran)
    assert seen["dst", True] == seen["dst", False]
    assert len(seen["dst", True]) == 512
    assert touched(ran)["dst"] == (0, 2 * (15 * 20 + 16))
    assert [(f.operand, f.message) for f in ran.findings] == [
        ("dst", "Fixpipe adds to 512 bytes of GM tensor y that nobody wrote")
    ]


@pytest.mark.parametrize(("mode", "want"), [(HalfOverflow.INF_NAN, float("inf")), (HalfOverflow.SATURATE, 65504.0)])
def test_sums_beyond_the_largest_half(mode, want):
    gm = in_gm(("x", "half", 16), ("y", "half", 16))
    ub = on_chip(TPosition.VECCALC, "half", 16)

    def kernel(asc, x, y):
        asc.data_copy(ub, x, 16)
        asc.set_atomic_add("half")
        asc.data_copy(y, ub, 16)

    memory = (Bytes.of(np.full(16, 60000, np.float16)), Bytes.of(np.full(16, 50000, np.float16)))
    execute(record(kernel, DEVICE, 1, gm, ()).program, DEVICE, memory, overflow=mode)
    assert memory[1].content.view(np.float16).tolist() == [want] * 16


def test_the_mode_lasts_across_tiles_and_tells_them_apart():
    """One tile called while stores replace, while they add, and again after it was reset inside another tile."""
    gm, ub = in_gm(("y", "float", 24)), on_chip(TPosition.VECOUT, "float", 8)

    @tile
    def store(asc, y):
        asc.data_copy(y, ub, 8)

    @tile
    def add(asc):
        asc.set_atomic_add("float")

    @tile
    def replace(asc):
        asc.set_atomic_none()

    def kernel(asc, y):
        store(asc, y)
        add(asc)
        store(asc, y[8])
        store(asc, y[8])
        replace(asc)
        store(asc, y[16])
        add(asc)
        store(asc, y[16])

    contents = [(ub, np.full(8, 3, np.float32), None), (gm[0], np.ones(24, np.float32), None)]
    ran = run(kernel, contents, gm, kernel_type=AIV)
    assert ran.values(gm[0]).tolist() == [3.0] * 8 + [7.0] * 8 + [6.0] * 8
    names = [[row.op.name for row in t.rows] for t in ran.program.templates if t.name == "store"]
    assert names == [["data_copy_ub_to_gm"], ["data_copy_ub_to_gm_atomic_add"]]


def test_another_type_than_that_of_the_mode_is_found():
    gm, ub = in_gm(("y", "half", 16)), on_chip(TPosition.VECOUT, "half", 16)

    def kernel(asc, y):
        asc.set_atomic_add("float")
        asc.data_copy(y, ub, 16)
        asc.set_atomic_none()

    ran = run(
        kernel, [(ub, np.ones(16, np.float16), None), (gm[0], np.ones(16, np.float16), None)], gm, kernel_type=AIV
    )
    assert [(f.code, f.message) for f in ran.recorded] == [
        ("E-DTYPE-ATOMIC", "DataCopy dst: SetAtomicAdd was set for float, the store writes half")
    ]


def test_a_type_that_the_product_does_not_add_is_found():
    (found,) = run(lambda asc: asc.set_atomic_add("uint8_t"), [], kernel_type=AIV).recorded
    known = "int8_t, int16_t, half, bfloat16_t, int32_t, float"
    assert found.code == "E-DTYPE-ATOMIC"
    assert found.message == f"SetAtomicAdd: arch 2201 does not add uint8_t in GM; it adds {known}"
