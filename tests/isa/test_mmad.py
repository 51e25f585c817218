"""Mmad through record and execute: where its operands lie, what it starts from, and its sums bit for bit."""

import numpy as np
import pytest
from cube_harness import A1, A2, B2, C2, CO1, DEVICE, NEW_DEVICE, noted, on_chip, run, touched
from hypothesis import given, settings
from hypothesis import strategies as st
from test_load_data import fill_up, l0a_offset, l0b_offset
from test_mmad_arithmetic import truth

from ascendsim.device import load_device
from ascendsim.dtypes import dtype
from ascendsim.isa.load import LoadData2DParams
from ascendsim.isa.mmad import MmadParams
from ascendsim.terms import KernelType, MmadOrder

TRIPLES = {
    "half": ("half", "float"),
    "bfloat16_t": ("bfloat16_t", "float"),
    "float": ("float", "float"),
    "int8_t": ("int8_t", "int32_t"),
}
A_BYTES = 1 << 14
C_ELEMENTS = 1 << 12


def with_order(device, order):
    """The device with another order of sums."""
    rule = device.arithmetic.mmad_order.model_copy(update={"value": order})
    arithmetic = device.arithmetic.model_copy(update={"mmad_order": rule})
    return device.model_copy(update={"arithmetic": arithmetic})


def l0c_offset(r, c, rows, width=4):
    """Byte of element (r, c) among fractals of 16 x 16 results, column of fractals by column."""
    return ((c // 16 * -(-rows // 16) + r // 16) * 256 + r % 16 * 16 + c % 16) * width


def laid(matrix, length, place):
    """(Bytes, written flags) of a memory that holds a matrix and nothing else."""
    content, flags = np.zeros(length, np.uint8), np.zeros(length, np.bool_)
    width = matrix.dtype.itemsize
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(*matrix.shape, width)
    for r in range(matrix.shape[0]):
        for c in range(matrix.shape[1]):
            at = place(r, c)
            content[at : at + width] = raw[r, c]
            flags[at : at + width] = True
    return content, flags


def integers(a, b, start, depth):
    """The sum of products, saturated after every `depth` of them."""
    found = start.copy()
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for first in range(0, a.shape[1], depth):
                total = int(found[i, j])
                for s in range(first, min(first + depth, a.shape[1])):
                    total += int(a[i, s]) * int(b[s, j])
                found[i, j] = min(max(total, -(2**31)), 2**31 - 1)
    return found


def numbers(rng, kind, shape):
    if kind in ("int8_t", "uint8_t"):
        low = -128 if kind == "int8_t" else 0
        return rng.integers(low, low + 256, shape).astype(dtype(kind).numpy)
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 7, shape)).astype(dtype(kind).numpy)


def start_of_result(rng, kind, shape):
    if kind == "int32_t":
        near = rng.integers(0, 40000, shape)
        return np.where(rng.integers(0, 2, shape), 2**31 - 1 - near, -(2**31) + near).astype(np.int32)
    return (rng.standard_normal(shape) * 8).astype(np.float32)


def expected(a, b, start, order, kind):
    depth = {"half": 16, "bfloat16_t": 16, "float": 8, "int8_t": 32}[kind] if order is MmadOrder.FRACTAL else 1
    if start.dtype == np.int32:
        return integers(a, b, start, depth)
    return truth(a.astype(np.float32), b.astype(np.float32), start, depth).view(np.float32)


@settings(max_examples=90, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_element(data):
    kind = data.draw(st.sampled_from(list(TRIPLES)))
    _, result = TRIPLES[kind]
    m = data.draw(st.one_of(st.just(1), st.integers(2, 34)))
    n, k = data.draw(st.integers(1, 34)), data.draw(st.integers(1, 36))
    if m * n * k > 6000:
        m = max(1, 6000 // (n * k))
    order = data.draw(st.sampled_from(list(MmadOrder)))
    base = (DEVICE, NEW_DEVICE)[data.draw(st.integers(0, 1))]
    source = data.draw(st.sampled_from(["zero", "L0C", "bias", "bias by flag"]))
    fills = kind == "float" and base is DEVICE and data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    a, b = numbers(rng, kind, (m, k)), numbers(rng, kind, (k, n))
    start = np.zeros((m, n), dtype(result).numpy)
    if source == "L0C":
        start = start_of_result(rng, result, (m, n))
    bias = start_of_result(rng, result, (1, n))
    if source.startswith("bias"):
        start = np.repeat(bias, m, axis=0)
    width = a.dtype.itemsize
    deep = fill_up(k, 16) if fills else k
    ta, tb = on_chip(A2, kind, A_BYTES // width, 512), on_chip(B2, kind, A_BYTES // width)
    tc, tbias = on_chip(CO1, result, C_ELEMENTS, 1024), on_chip(C2, result, 64, 128)

    def place_a(r, c):
        if m == 1:
            return c * width
        return l0a_offset(r, c, deep, width, m if base is NEW_DEVICE else None)

    contents = [
        (ta, *laid(a, A_BYTES, place_a)),
        (tb, *laid(b, A_BYTES, lambda r, c: l0b_offset(r, c, n, width))),
    ]
    if source == "L0C":
        contents.append((tc, *laid(start, C_ELEMENTS * 4, lambda r, c: l0c_offset(r, c, m))))
    if source.startswith("bias"):
        contents.append((tbias, bias, None))
    p = MmadParams(
        m,
        n,
        k,
        0,
        cmatrix_source=source == "bias by flag",
        cmatrix_init_val=source not in ("L0C", "bias by flag"),
        k_direction_align=fills,
    )
    more = (tbias,) if source.startswith("bias") else ()
    ran = run(lambda asc: asc.mmad(tc, ta, tb, p, *more), contents, device=with_order(base, order))
    assert ran.findings == ran.recorded == ()
    want, flags = laid(expected(a, b, start, order, kind), C_ELEMENTS * 4, lambda r, c: l0c_offset(r, c, m))
    assert np.array_equal(ran.written(tc), flags)
    assert ran.content(tc)[flags].tobytes() == want[flags].tobytes()
    check_touched(ran, (m, n, deep), width, source)


def check_touched(ran, shape, width, source):
    """Whole fractals count as touched; what is read and written lies inside them."""
    m, n, k = shape
    c0 = 32 // width
    ends = {
        "dst": fill_up(m, 16) * fill_up(n, 16) * 4,
        "src0": k * width if m == 1 else fill_up(m, 16) * fill_up(k, c0) * width,
        "src1": fill_up(k, c0) * fill_up(n, 16) * width,
    }
    if source.startswith("bias"):
        ends["src2"] = 4 * n
    assert touched(ran) == {role: (0, end) for role, end in ends.items()}
    seen = noted(ran)
    assert {role for role, writes in seen if writes} == {"dst"}
    assert {role for role, writes in seen if not writes} == set(ends) - ({"dst"} if source != "L0C" else set())
    for (role, _), offsets in seen.items():
        assert max(offsets) < ends[role]


def test_uint8_on_a_combined_core():
    """Arch 2002 multiplies uint8_t; its bias lies in L0C."""
    device = load_device("Ascend310P1")
    rng = np.random.default_rng(3)
    a, b, bias = numbers(rng, "uint8_t", (3, 40)), numbers(rng, "uint8_t", (40, 17)), np.arange(17, dtype=np.int32)
    ta, tb = on_chip(A2, "uint8_t", 2048), on_chip(B2, "uint8_t", 2048)
    tc, tbias = on_chip(CO1, "int32_t", 512), on_chip(C2, "int32_t", 32, 8192)
    contents = [
        (ta, *laid(a, 2048, lambda r, c: l0a_offset(r, c, 40, 1))),
        (tb, *laid(b, 2048, lambda r, c: l0b_offset(r, c, 17, 1))),
        (tbias, bias, None),
    ]
    ran = run(lambda asc: asc.mmad(tc, ta, tb, MmadParams(3, 17, 40), tbias), contents, (), device, KernelType.AICORE)
    got = [[int(ran.values(tc)[l0c_offset(r, c, 3, 1)]) for c in range(17)] for r in range(3)]
    assert got == (a.astype(np.int64) @ b.astype(np.int64) + bias).tolist()
    assert ran.findings == ran.recorded == ()


def ones(position, count=512):
    return on_chip(position, "half", count), np.ones(count, np.float16), None


@pytest.mark.parametrize("field", ["m", "n", "k"])
def test_nothing_is_multiplied_where_a_dimension_is_zero(field):
    p = MmadParams(**({"m": 4, "n": 4, "k": 4} | {field: 0}))
    c = on_chip(CO1, "float", 256)
    a, b = ones(A2), ones(B2)
    ran = run(lambda asc: asc.mmad(c, a[0], b[0], p), [a, b])
    assert not ran.written(c).any()
    assert set(touched(ran).values()) == {(0, 0)}
    assert noted(ran) == {}


def test_loads_carry_unwritten_bytes_and_mmad_finds_them():
    """A 16 x 16 product of which 3 halves of A in L1 were never written."""
    l1 = on_chip(A1, "half", 256)
    a, b, c = on_chip(A2, "half", 256), ones(B2, 256), on_chip(CO1, "float", 256)
    flags = np.ones(512, np.bool_)
    flags[40:46] = False

    def kernel(asc):
        asc.load_data(a, l1, LoadData2DParams(0, 1, 0, 0, 0, False))
        asc.mmad(c, a, b[0], MmadParams(16, 16, 16))

    ran = run(kernel, [b, (l1, np.ones(256, np.float16), flags)])
    assert [(f.code, f.operand, f.message) for f in ran.findings] == [
        ("W-MEM-UNINIT", "src0", "Mmad src0 reads 6 bytes of a2_0 that nobody wrote")
    ]
    assert ran.written(c).all()


def test_what_a_product_does_not_need_may_be_unwritten():
    """Of A's fractal 5 rows and 9 columns are used, of B's 9 rows and 3 columns; the rest was never written."""
    ta, tb, tc = on_chip(A2, "half", 256), on_chip(B2, "half", 256), on_chip(CO1, "float", 256)
    a, b = np.full((5, 9), 2, np.float16), np.full((9, 3), 3, np.float16)
    ran = run(
        lambda asc: asc.mmad(tc, ta, tb, MmadParams(5, 3, 9)),
        [
            (ta, *laid(a, 512, lambda r, c: l0a_offset(r, c, 9, 2))),
            (tb, *laid(b, 512, lambda r, c: l0b_offset(r, c, 3, 2))),
        ],
    )
    assert ran.findings == ()
    assert ran.values(tc).reshape(16, 16)[:5, :3].tolist() == [[54.0] * 3] * 5
    assert ran.written(tc).sum() == 5 * 3 * 4


def test_accumulating_onto_a_result_nobody_wrote_is_found():
    c, a, b = on_chip(CO1, "float", 256), ones(A2), ones(B2)
    p = MmadParams(16, 16, 16, cmatrix_init_val=False)
    ran = run(lambda asc: asc.mmad(c, a[0], b[0], p), [a, b])
    assert [(f.code, f.operand) for f in ran.findings] == [("E-MMAD-INIT", "dst")]


def test_products_one_after_the_other_are_one_product_along_k():
    """Two steps of k = 16 onto each other give the bits of one product of k = 32, whatever the order of sums."""
    rng = np.random.default_rng(1)
    a, b = numbers(rng, "half", (16, 32)), numbers(rng, "half", (32, 16))
    ta, tb, tc = on_chip(A2, "half", 512), on_chip(B2, "half", 512), on_chip(CO1, "float", 256)
    contents = [
        (ta, *laid(a, 1024, lambda r, c: l0a_offset(r, c, 32, 2))),
        (tb, *laid(b, 1024, lambda r, c: l0b_offset(r, c, 16, 2))),
    ]

    def in_two(asc):
        asc.mmad(tc, ta, tb, MmadParams(16, 16, 16))
        asc.mmad(tc, ta[256], tb[256], MmadParams(16, 16, 16, cmatrix_init_val=False))

    for order in MmadOrder:
        device = with_order(DEVICE, order)
        whole = run(lambda asc: asc.mmad(tc, ta, tb, MmadParams(16, 16, 32)), contents, device=device)
        assert run(in_two, contents, device=device).content(tc).tobytes() == whole.content(tc).tobytes()
