"""DataCopy ND2NZ against a loop over elements: every byte of L1, which are written, and what counts as touched."""

import pytest
from cube_harness import A1, ZERO, check_moves, check_ranges, in_gm, on_chip, random_source, run
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.dtypes import dtype
from ascendsim.isa.nd2nz import Nd2NzParams

L1_BYTES = 1 << 16


def moves(p, width):
    """Bytes of L1 by offset, with the byte of GM that each comes from."""
    c0 = 32 // width
    moved = {}
    for i in range(p.nd_num):
        for n in range(p.n_value):
            for d in range(-(-p.d_value // c0) * c0):
                block = d // c0 * p.dst_nz_c0_stride + n * p.dst_nz_n_stride
                to = (i * p.dst_nz_matrix_stride + d % c0) * width + block * 32
                at = (i * p.src_nd_matrix_stride + n * p.src_d_value + d) * width
                for byte in range(width):
                    moved[to + byte] = at + byte if d < p.d_value else ZERO
    return moved


@st.composite
def fields(draw, c0):
    """Matrices whose destinations do not meet; sources may."""
    number = draw(st.integers(1, 3))
    rows, columns = draw(st.integers(1, 20)), draw(st.integers(1, 3 * c0 + 1))
    n_stride = draw(st.integers(1, 3))
    c0_stride = (rows - 1) * n_stride + 1 + draw(st.integers(0, 5))
    blocks = (-(-columns // c0) - 1) * c0_stride + (rows - 1) * n_stride + 1
    return Nd2NzParams(
        number,
        rows,
        columns,
        draw(st.integers(0, 2 * rows * columns)),
        draw(st.integers(1, columns + 9)),
        c0_stride,
        n_stride,
        (blocks + draw(st.integers(0, 3))) * c0,
    )


@settings(max_examples=120, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_byte(data):
    kind = data.draw(st.sampled_from(["half", "bfloat16_t", "float", "int8_t", "int32_t"]))
    width = dtype(kind).bytes
    p = data.draw(fields(32 // width))
    src_first, dst_first = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 3)) * (32 // width)
    moved = moves(p, width)
    gm = in_gm(("x", kind, max(moved.values()) // width + 1 + src_first))
    l1 = on_chip(A1, kind, L1_BYTES // width, address=512)
    source, written = random_source(data.draw(st.integers(0, 99)), gm[0].tensor_bytes)
    ran = run(lambda asc, x: asc.data_copy(l1[dst_first], x[src_first], p), [(gm[0], source, written)], gm)
    assert ran.findings == ()
    skipped = src_first * width
    check_moves(ran, l1[dst_first], source[skipped:], written[skipped:], moved)
    assert not ran.written(l1)[: dst_first * width].any()
    check_ranges(ran, moved)


def test_rows_of_a_last_fractal_that_n_value_does_not_fill_stay_unwritten():
    """A matrix of 5 x 20 halves as two columns of fractals of 16 rows: 11 rows of each are left."""
    gm = in_gm(("x", "half", 100))
    l1 = on_chip(A1, "half", 512)
    ran = run(
        lambda asc, x: asc.data_copy(l1, x, Nd2NzParams(1, 5, 20, 0, 20, 16, 1, 0)), [(gm[0], bytes_of(200), None)], gm
    )
    flags = ran.written(l1).reshape(2, 16, 32).all(axis=2)
    assert flags.tolist() == [[True] * 5 + [False] * 11] * 2
    assert ran.content(l1).reshape(2, 16, 32)[1, :5, 8:].tolist() == [[0] * 24] * 5


def bytes_of(count):
    return random_source(7, count)[0]


@pytest.mark.parametrize("field", ["nd_num", "n_value", "d_value"])
def test_nothing_is_copied_where_a_count_is_zero(field):
    values = {"nd_num": 1, "n_value": 4, "d_value": 16} | {field: 0}
    p = Nd2NzParams(**values, src_nd_matrix_stride=0, src_d_value=16, dst_nz_c0_stride=4, dst_nz_n_stride=1,
                    dst_nz_matrix_stride=0)  # fmt: skip
    gm = in_gm(("x", "half", 64))
    l1 = on_chip(A1, "half", 64)
    ran = run(lambda asc, x: asc.data_copy(l1, x, p), [(gm[0], bytes_of(128), None)], gm)
    assert not ran.written(l1).any()
    check_ranges(ran, {})
