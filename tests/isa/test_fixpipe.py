"""Fixpipe against loops over elements: where results go, what becomes of them, and what counts as touched."""

import numpy as np
import pytest
from cube_harness import (
    A1,
    A2,
    B1,
    B2,
    C1,
    CO1,
    DEVICE,
    NEW_DEVICE,
    hull,
    in_gm,
    noted,
    on_chip,
    random_source,
    run,
    touched,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from test_load_data import fill_up
from test_mmad import l0c_offset, numbers

from ascendsim.dtypes import dtype
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.load import LoadData2DParams
from ascendsim.isa.mmad import MmadParams
from ascendsim.isa.nd2nz import Nd2NzParams
from ascendsim.terms import CO2Layout, QuantMode

KINDS = {
    (QuantMode.NO_QUANT, "float", "float"),
    (QuantMode.NO_QUANT, "int32_t", "int32_t"),
    (QuantMode.F322F16, "float", "half"),
    (QuantMode.F322BF16, "float", "bfloat16_t"),
    (QuantMode.QF322B8_PRE, "float", "int8_t"),
    (QuantMode.VQF322B8_PRE, "float", "int8_t"),
    (QuantMode.QF322B8_PRE, "float", "uint8_t"),
    (QuantMode.DEQF16, "int32_t", "half"),
    (QuantMode.VDEQF16, "int32_t", "half"),
    (QuantMode.REQ8, "int32_t", "int8_t"),
    (QuantMode.VREQ8, "int32_t", "uint8_t"),
}
C_ELEMENTS = 1 << 13


def without_low_bits(scale):
    """A float with the low 13 bits of its mantissa cut off."""
    return (np.float32(scale).view(np.uint32) >> np.uint32(13) << np.uint32(13)).view(np.float32)


def converted(value, mode, kind, relu, scale):
    """One result on its way out."""
    if relu and value < 0:
        value = type(value)(0)
    if mode is QuantMode.NO_QUANT:
        return value
    if mode in (QuantMode.F322F16, QuantMode.F322BF16):
        return to_sixteen_bits(float(value), kind)
    scaled = np.float32(value) * without_low_bits(scale)
    if kind == "half":
        with np.errstate(over="ignore"):
            return np.float16(scaled)
    low, high = {"int8_t": (-128, 127), "uint8_t": (0, 255)}[kind]
    return dtype(kind).numpy.type(min(max(round(float(scaled)), low), high))


def to_sixteen_bits(value, kind):
    """The nearest half or bfloat16_t, the even one of two: numbers of a range without infinities or subnormals."""
    if value == 0:
        return dtype(kind).numpy.type(value)
    digits = {"half": 11, "bfloat16_t": 8}[kind]
    mantissa, exponent = np.frexp(np.float64(value))
    return dtype(kind).numpy.type(float(np.ldexp(round(float(np.ldexp(mantissa, digits))), int(exponent) - digits)))


def results(rng, kind, count):
    """Random results, of which many lie halfway between two of their conversions."""
    if kind == "int32_t":
        return (rng.integers(-(2**20), 2**20, count) >> rng.integers(0, 16, count)).astype(np.int32)
    values = (rng.standard_normal(count) * 2.0 ** rng.integers(-4, 8, count)).astype(np.float32)
    kept = rng.choice(np.array([0, 12, 15, 19], np.uint32), count)
    return (values.view(np.uint32) >> kept << kept).view(np.float32)


@st.composite
def settings_of(draw, nd):
    """FixpipeParamsV220 and the types, for destinations whose parts do not meet."""
    mode, source, kind = draw(st.sampled_from(sorted(KINDS)))
    m = draw(st.integers(1, 20))
    split = not nd and mode is QuantMode.NO_QUANT and source == "float" and draw(st.booleans())
    n = draw(st.integers(1, 40)) if nd else draw(st.integers(1, 5)) * (8 if split else 16)
    stride = fill_up(m, 16) + 16 * draw(st.integers(0, 1))
    if n <= 16:
        stride = draw(st.sampled_from([stride, 0, 1]))
    if nd:
        number, pitch = draw(st.integers(1, 3)), n + draw(st.integers(0, 9))
        matrix = m * pitch + draw(st.integers(0, 9))
        apart = draw(st.integers(1, 6))
    else:
        number, matrix, apart = 1, 0, 0
        columns = 8 if split else 32 if dtype(kind).bytes == 1 else 16
        pitch = m * columns * dtype(kind).bytes // 32 + draw(st.integers(0, 3))
    p = FixpipeParamsV220(
        n, m, stride, pitch, mode, draw(st.sampled_from([0.5, 0.1, 3.0, -1.7])), number, apart, matrix,
        relu_en=draw(st.booleans()), is_channel_split=split,
    )  # fmt: skip
    return p, source, kind


def targets(p, nd, width, unit):
    """(Element of the destination, element of L0C, column) one by one, as the pages place them."""
    found = []
    if nd:
        for i in range(p.nd_num):
            for m in range(p.m_size):
                for n in range(p.n_size):
                    at = i * p.src_nd_stride * unit + n // 16 * p.src_stride * 16 + m * 16 + n % 16
                    found.append((i * p.dst_nd_stride + m * p.dst_stride + n, at, n))
        return found
    columns = 8 if p.is_channel_split else 32 if width == 1 else 16
    for m in range(p.m_size):
        for n in range(p.n_size):
            block = n // columns
            wide = min(columns, p.n_size - block * columns)
            at = n // 16 * p.src_stride * 16 + m * 16 + n % 16
            found.append((block * p.dst_stride * 32 // width + m * wide + n % columns, at, n))
    return found


@pytest.mark.parametrize("nd", [True, False])
@settings(max_examples=100, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_element(nd, data):
    p, source, kind = data.draw(settings_of(nd))
    device = (DEVICE, NEW_DEVICE)[data.draw(st.integers(0, 1))]
    width = dtype(kind).bytes
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    table = targets(p, nd, width, 16 if device is NEW_DEVICE else 256)
    gm = in_gm(("y", kind, max(to for to, _, _ in table) + 3))
    l0c, scales = on_chip(CO1, source, C_ELEMENTS, 1024), on_chip(C1, "int64_t", p.n_size, 64)
    have = results(rng, source, C_ELEMENTS)
    floats = rng.uniform(0.01, 2, p.n_size).astype(np.float32)
    words = floats.view(np.uint32).astype(np.int64) | rng.integers(0, 1 << 31, p.n_size) << 32
    per_column = p.quant_pre.is_per_column
    layout = CO2Layout.ROW_MAJOR if nd else CO2Layout.NZ

    def kernel(asc, y):
        asc.fixpipe(y, l0c, p, layout, *([scales] if per_column else []))

    ran = run(kernel, [(l0c, have, None), *([(scales, words, None)] if per_column else [])], gm, device)
    assert ran.findings == ran.recorded == ()
    flags = np.zeros(gm[0].tensor_bytes, np.bool_).reshape(-1, width)
    got = ran.values(gm[0])
    for to, at, column in table:
        scale = floats[column] if per_column else np.float32(p.deq_scalar)
        want = converted(have[at], p.quant_pre, kind, p.relu_en, scale)
        assert got[to].tobytes() == want.tobytes(), (to, at, have[at], got[to], want)
        flags[to] = True
    assert np.array_equal(ran.written(gm[0]), flags.reshape(-1))
    wrote, read = ({of[i] for of in table} for i in (0, 1))
    want = {"dst": (0, hull(wrote)[1] * width), "src0": (0, hull(read)[1] * 4)}
    if per_column:
        want["src2"] = (0, 8 * p.n_size)
    assert touched(ran) == want
    assert noted(ran)["dst", True] == bytes_of(wrote, width)
    assert noted(ran)["src0", False] == bytes_of(read, 4)
    assert noted(ran).get(("src2", False), set()) == (set(range(8 * p.n_size)) if per_column else set())


def bytes_of(elements, width):
    return {e * width + byte for e in elements for byte in range(width)}


def test_blocks_that_lie_over_each_other_count_to_the_end_of_the_longest():
    """Merged blocks of 32, 32 and 16 columns, one datablock apart: the last one is the shortest."""
    l0c, gm = on_chip(CO1, "int32_t", 2048), in_gm(("y", "int8_t", 4096))
    p = FixpipeParamsV220(80, 16, 16, 1, QuantMode.REQ8, 1.0)
    ran = run(lambda asc, y: asc.fixpipe(y, l0c, p, CO2Layout.NZ), [(l0c, np.ones(2048, np.int32), None)], gm)
    assert touched(ran)["dst"] == hull(noted(ran)["dst", True]) == (0, 32 + 512)


@pytest.mark.parametrize(
    ("mode", "kind", "bits", "want"),
    [
        (QuantMode.F322F16, "half", 0x3F801000, 0x3C00),
        (QuantMode.F322F16, "half", 0x3F803000, 0x3C02),
        (QuantMode.F322F16, "half", 0x477FF000, 0x7C00),
        (QuantMode.F322F16, "half", 0x33000000, 0x0000),
        (QuantMode.F322F16, "half", 0x33000001, 0x0001),
        (QuantMode.F322BF16, "bfloat16_t", 0x3F808000, 0x3F80),
        (QuantMode.F322BF16, "bfloat16_t", 0x3F818000, 0x3F82),
        (QuantMode.F322BF16, "bfloat16_t", 0x7F7F8000, 0x7F80),
    ],
)
def test_ties_go_to_the_even_one(mode, kind, bits, want):
    l0c, gm = on_chip(CO1, "float", 256), in_gm(("y", kind, 16))
    p = FixpipeParamsV220(16, 1, 16, 16, mode)
    ran = run(lambda asc, y: asc.fixpipe(y, l0c, p), [(l0c, np.full(256, bits, np.uint32), None)], gm)
    assert ran.content(gm[0]).view(np.uint16).tolist() == [want] * 16


@pytest.mark.parametrize(("value", "want"), [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (127.5, 127),
                                             (-128.5, -128), (1e9, 127), (-1e9, -128)])  # fmt: skip
def test_eight_bits_round_to_even_and_saturate(value, want):
    l0c, gm = on_chip(CO1, "float", 256), in_gm(("y", "int8_t", 32))
    p = FixpipeParamsV220(16, 2, 16, 16, QuantMode.QF322B8_PRE, 1.0)
    ran = run(lambda asc, y: asc.fixpipe(y, l0c, p), [(l0c, np.full(256, value, np.float32), None)], gm)
    assert ran.values(gm[0]).tolist() == [want] * 32


def test_a_scale_loses_the_low_13_bits_of_its_mantissa():
    """1 + 2**-11 is read as 1, 1 + 2**-10 as it is."""
    l0c, gm = on_chip(CO1, "int32_t", 256), in_gm(("y", "half", 32))

    def kernel(asc, y):
        for i, scale in enumerate((1 + 2.0**-11, 1 + 2.0**-10)):
            asc.fixpipe(y[16 * i], l0c, FixpipeParamsV220(16, 1, 16, 16, QuantMode.DEQF16, scale))

    ran = run(kernel, [(l0c, np.full(256, 1024, np.int32), None)], gm)
    assert ran.values(gm[0]).tolist() == [1024.0] * 16 + [1025.0] * 16


def test_results_nobody_wrote_are_found():
    l0c, gm = on_chip(CO1, "float", 512), in_gm(("y", "float", 16 * 20))
    ran = run(
        lambda asc, y: asc.fixpipe(y, l0c, FixpipeParamsV220(20, 16, 16, 20)),
        [(l0c, np.ones(256, np.float32), None)],
        gm,
    )
    assert [(f.operand, f.message) for f in ran.findings] == [
        ("src0", "Fixpipe src0 reads 256 bytes of co1_0 that nobody wrote")
    ]


@pytest.mark.parametrize("field", ["n_size", "m_size", "nd_num"])
def test_nothing_leaves_where_a_size_is_zero(field):
    p = FixpipeParamsV220(**({"n_size": 16, "m_size": 16, "nd_num": 1} | {field: 0}), src_stride=16, dst_stride=16)
    l0c, gm = on_chip(CO1, "float", 256), in_gm(("y", "float", 256))
    ran = run(lambda asc, y: asc.fixpipe(y, l0c, p), [(l0c, np.ones(256, np.float32), None)], gm)
    assert not ran.written(gm[0]).any()
    assert touched(ran) == {"dst": (0, 0), "src0": (0, 0)}
    assert noted(ran) == {}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(m=st.integers(1, 20), blocks=st.integers(1, 4), seed=st.integers(0, 99))
def test_to_l1_as_fractals(m, blocks, seed):
    """As halves for the next product: columns of fractals of fill_up(m) rows, of which m are written."""
    l0c, l1 = on_chip(CO1, "float", C_ELEMENTS), on_chip(A1, "half", 4096, 32)
    have = results(np.random.default_rng(seed), "float", C_ELEMENTS)
    rows = fill_up(m, 16)
    p = FixpipeParamsV220(16 * blocks, m, rows, rows, QuantMode.F322F16)
    ran = run(lambda asc: asc.fixpipe(l1, l0c, p, CO2Layout.NZ), [(l0c, have, None)])
    assert (ran.row.op.name, ran.findings, ran.recorded) == ("fixpipe_to_l1", (), ())
    got, flags = ran.values(l1)[: 16 * rows * blocks].reshape(blocks, rows, 16), ran.written(l1)
    want = have[: 16 * rows * blocks].reshape(blocks, rows, 16)
    assert got[:, :m].tobytes() == want[:, :m].astype(np.float16).tobytes()
    assert flags.sum() == m * 16 * blocks * 2
    assert flags[: 32 * rows * blocks].reshape(blocks, rows, 32)[:, :m].all()


# ---- there and back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["half", "bfloat16_t", "float", "int8_t"])
@settings(max_examples=12, deadline=None, derandomize=True)
@given(m=st.integers(2, 40), k=st.integers(1, 40), seed=st.integers(0, 99))
def test_a_matrix_times_one_comes_back(kind, m, k, seed):
    """ND -> NZ -> ZZ, times the identity that was laid out by hand, -> L0C -> ND."""
    width = dtype(kind).bytes
    c0, rows, result = 32 // width, fill_up(m, 16), "int32_t" if kind == "int8_t" else "float"
    across, columns = -(-k // c0), fill_up(k, 16)
    matrix = numbers(np.random.default_rng(seed), kind, (m, k))
    gm = in_gm(("x", kind, m * k), ("y", result, m * k))
    l1, a = on_chip(A1, kind, rows * across * c0), on_chip(A2, kind, rows * across * c0)
    b, c = on_chip(B2, kind, across * c0 * columns), on_chip(CO1, result, rows * columns)
    one = np.zeros(across * c0 * columns, dtype(kind).numpy)
    for i in range(k):
        one[(i // c0 * (columns // 16) + i // 16) * 16 * c0 + i % 16 * c0 + i % c0] = 1

    def kernel(asc, x, y):
        asc.data_copy(l1, x, Nd2NzParams(1, m, k, 0, k, rows, 1, 0))
        for i in range(rows // 16):
            asc.load_data(
                a[i * across * 16 * c0], l1[i * 16 * c0], LoadData2DParams(0, across, rows // 16, 0, 0, False)
            )
        asc.mmad(c, a, b, MmadParams(m, k, k))
        asc.fixpipe(y, c, FixpipeParamsV220(k, m, rows, k))

    ran = run(kernel, [(gm[0], matrix, None), (b, one, None)], gm)
    assert ran.findings == ran.recorded == ()
    assert np.array_equal(ran.values(gm[1]).reshape(m, k), matrix.astype(dtype(result).numpy))
    assert ran.written(gm[1]).all()


def test_the_identity_times_a_matrix_comes_back():
    """B of 32 x 48 halves: NZ in L1, transposed fractal by fractal to ZN."""
    k, n = 32, 48
    matrix = numbers(np.random.default_rng(5), "half", (k, n))
    gm = in_gm(("x", "half", k * n), ("y", "float", k * n))
    l1, a, b, c = (
        on_chip(B1, "half", k * n),
        on_chip(A2, "half", k * k),
        on_chip(B2, "half", k * n),
        on_chip(CO1, "float", k * n),
    )
    one = np.zeros(k * k, np.float16)
    for i in range(k):
        one[(i // 16 * 2 + i // 16) * 256 + i % 16 * 17] = 1

    def kernel(asc, x, y):
        asc.data_copy(l1, x, Nd2NzParams(1, k, n, 0, n, k, 1, 0))
        for i in range(k // 16):
            asc.load_data(b[i * 16 * n], l1[i * 256], LoadData2DParams(0, n // 16, k // 16, 0, 0, True))
        asc.mmad(c, a, b, MmadParams(k, n, k))
        asc.fixpipe(y, c, FixpipeParamsV220(n, k, k, n))

    ran = run(kernel, [(gm[0], matrix, None), (a, one, None)], gm)
    assert ran.findings == ran.recorded == ()
    assert np.array_equal(ran.values(gm[1]).reshape(k, n), matrix.astype(np.float32))


def test_where_results_lie():
    """The layout that Mmad writes is the one that Fixpipe reads: row 17, column 18 of 32 x 32."""
    assert l0c_offset(17, 18, 32, 1) == (1 * 2 + 1) * 256 + 1 * 16 + 2
    l0c, gm = on_chip(CO1, "float", 1024), in_gm(("y", "float", 1024))
    have = random_source(1, 4096)[0].view(np.uint32) & np.uint32(0x3FFFFFFF)
    ran = run(lambda asc, y: asc.fixpipe(y, l0c, FixpipeParamsV220(32, 32, 32, 32)), [(l0c, have, None)], gm)
    assert ran.content(gm[0]).view(np.uint32)[17 * 32 + 18] == have[l0c_offset(17, 18, 32, 1)]
