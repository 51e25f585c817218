"""Layouts and moves of the cube against scalar loops written from the pages, one address at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.layout import (
    FIXPIPE_ND_STRIDE_ELEMENTS,
    FIXPIPE_ND_STRIDE_ELEMENTS_3510,
    MERGED_COLUMNS,
    PADDING,
    SPLIT_COLUMNS,
    FeatureMap,
    c0_elements,
    copied,
    elements,
    fixpipe_nd_offsets,
    fixpipe_nz_offsets,
    fractal_elements,
    fractal_shape,
    load_data_2d_fractals,
    load_data_3d,
    nd2nz_offsets,
    offsets,
    pack,
    square_fractals,
    square_side,
    transpose_fractals,
    transpose_fractals_v2,
    transposed,
    unpack,
)
from ascendsim.terms import Layout

some = settings(max_examples=60, deadline=None, derandomize=True, database=None)
sizes = st.integers(1, 70)
widths = st.sampled_from([1, 2, 4])
TYPES = {1: np.int8, 2: np.int16, 4: np.int32}
FRACTALS = [Layout.NZ, Layout.ZZ, Layout.ZN, Layout.NZ_L0C]


def numbers(rows, columns, element_bytes):
    """A matrix whose elements tell their places apart, as far as 8 bits can."""
    return np.arange(rows * columns).reshape(rows, columns).astype(TYPES[element_bytes])


def moved(moves, src, size, fill=-7, padding=0):
    """Carry a move out one element after the other; what is not written keeps `fill`."""
    dst = [fill] * size
    for to, at in zip(moves.dst.tolist(), moves.src.tolist(), strict=True):
        dst[to] = padding if at == PADDING else int(src[at])
    return dst


# ---- layouts ---------------------------------------------------------------------------------------------------------


ORDERS = {
    Layout.ND: ("rows", lambda c0: (1, 1), "rows"),
    Layout.NZ: ("columns", lambda c0: (16, c0), "rows"),
    Layout.ZZ: ("rows", lambda c0: (16, c0), "rows"),
    Layout.ZN: ("rows", lambda c0: (c0, 16), "columns"),
    Layout.NZ_L0C: ("columns", lambda c0: (16, 16), "rows"),
}
"""Which fractal comes next, its rows and columns, which element comes next inside."""


def grid(down, across, order):
    """Pairs (row, column) in the order of a page's picture."""
    if order == "rows":
        return [(r, c) for r in down for c in across]
    return [(r, c) for c in across for r in down]


def walk(layout, rows, columns, element_bytes):
    """Visit (row, column) in the order in which a layout holds them, padding included."""
    outer, shape, inner = ORDERS[layout]
    height, width = shape(32 // element_bytes)
    for top, left in grid(range(0, rows, height), range(0, columns, width), outer):
        for r, c in grid(range(height), range(width), inner):
            yield top + r, left + c


@some
@given(st.sampled_from(list(Layout)), sizes, sizes, widths)
def test_offsets_follow_the_order_of_the_layout(layout, rows, columns, element_bytes):
    order = list(walk(layout, rows, columns, element_bytes))
    got = offsets(layout, rows, columns, element_bytes)
    assert got.shape == (rows, columns)
    assert got.dtype == np.int64
    assert elements(layout, rows, columns, element_bytes) == len(order)
    want = {place: i for i, place in enumerate(order)}
    assert got.tolist() == [[want[r, c] for c in range(columns)] for r in range(rows)]


@some
@given(sizes, sizes, st.integers(0, 100), widths)
def test_nd_rows_lie_a_stride_apart(rows, columns, stride, element_bytes):
    got = offsets(Layout.ND, rows, columns, element_bytes, stride)
    assert got.tolist() == [[r * stride + c for c in range(columns)] for r in range(rows)]


@pytest.mark.parametrize(("element_bytes", "c0", "square", "fractals"), [(1, 32, 32, 2), (2, 16, 16, 1), (4, 8, 16, 2)])
def test_fractals_have_512_bytes_and_those_of_l0c_256_elements(element_bytes, c0, square, fractals):
    assert c0_elements(element_bytes) == c0
    assert fractal_shape(Layout.NZ, element_bytes) == fractal_shape(Layout.ZZ, element_bytes) == (16, c0)
    assert fractal_shape(Layout.ZN, element_bytes) == (c0, 16)
    assert fractal_shape(Layout.NZ_L0C, element_bytes) == (16, 16)
    assert fractal_shape(Layout.ND, element_bytes) == (1, 1)
    for layout in (Layout.NZ, Layout.ZZ, Layout.ZN):
        assert fractal_elements(layout, element_bytes) * element_bytes == 512
    assert fractal_elements(Layout.NZ_L0C, element_bytes) == 256
    assert (square_side(element_bytes), square_fractals(element_bytes)) == (square, fractals)


@some
@given(st.sampled_from(list(Layout)), sizes, sizes, widths)
def test_packed_and_unpacked_is_the_same(layout, rows, columns, element_bytes):
    matrix = numbers(rows, columns, element_bytes)
    flat = pack(matrix, layout, 0)
    assert flat.dtype == matrix.dtype
    assert np.array_equal(unpack(flat, layout, rows, columns), matrix)


@some
@given(st.sampled_from(FRACTALS), sizes, sizes, widths)
def test_what_a_fractal_does_not_hold_is_filled(layout, rows, columns, element_bytes):
    flat = pack(np.zeros((rows, columns), TYPES[element_bytes]), layout, 9)
    padding = elements(layout, rows, columns, element_bytes) - rows * columns
    assert sorted(flat.tolist()) == [0] * (rows * columns) + [9] * padding


def test_l0c_keeps_16_by_16_for_32_bits_and_nz_does_not():
    assert offsets(Layout.NZ_L0C, 20, 20, 4)[17, 17] == (1 * 2 + 1) * 256 + 1 * 16 + 1
    assert offsets(Layout.NZ, 20, 20, 4)[17, 17] == (2 * 2 + 1) * 128 + 1 * 8 + 1


# ---- ND2NZ -----------------------------------------------------------------------------------------------------------


def nd2nz_by_bytes(args, element_bytes):
    """(destination byte, source byte or PADDING) of every element, from the page's strides."""
    nd_num, n_value, d_value, src_matrix, src_d, dst_c0, dst_n, dst_matrix = args
    c0 = 32 // element_bytes
    for i in range(nd_num):
        for n in range(n_value):
            for d in range(-(-d_value // c0) * c0):
                to = i * dst_matrix * element_bytes + (d // c0 * dst_c0 + n * dst_n) * 32 + d % c0 * element_bytes
                at = (i * src_matrix + n * src_d + d) * element_bytes
                yield to, at if d < d_value else PADDING


@some
@given(
    st.tuples(
        *(st.integers(0, 3), st.integers(0, 20), st.integers(0, 70), st.integers(0, 500), st.integers(1, 90)),
        *(st.integers(1, 40), st.integers(1, 3), st.integers(0, 600)),
    ),
    widths,
)
def test_nd2nz_lands_where_its_strides_say(args, element_bytes):
    moves = nd2nz_offsets(*args, element_bytes)
    src = np.where(moves.src == PADDING, PADDING, moves.src * element_bytes)
    want = list(nd2nz_by_bytes(args, element_bytes))
    assert list(zip((moves.dst * element_bytes).tolist(), src.tolist(), strict=True)) == want


@some
@given(sizes, sizes, widths)
def test_nd2nz_of_a_matrix_is_nz_but_for_its_missing_rows(rows, columns, element_bytes):
    matrix = numbers(rows, columns, element_bytes)
    aligned_rows = -(-rows // 16) * 16
    moves = nd2nz_offsets(1, rows, columns, 0, columns, aligned_rows, 1, 0, element_bytes)
    got = np.array(moved(moves, matrix.reshape(-1), elements(Layout.NZ, rows, columns, element_bytes), fill=99))
    c0 = 32 // element_bytes
    padded = np.full((aligned_rows, -(-columns // c0) * c0), 99)
    padded[:rows] = 0
    padded[:rows, :columns] = matrix
    assert np.array_equal(got, padded.reshape(aligned_rows, -1, c0).transpose(1, 0, 2).reshape(-1))


def test_the_examples_of_the_nd2nz_page():
    """Two matrices of 8 x 23 half in rows of 32, in Z columns 37 blocks apart and every second row."""
    moves = nd2nz_offsets(2, 8, 23, 384, 32, 37, 2, 320, 2)
    at = dict(zip(moves.src.tolist(), moves.dst.tolist(), strict=True))
    assert at[0] == 0
    assert at[32] == 2 * 16
    assert at[16] == 37 * 16
    assert at[384 + 33] == 320 + 2 * 16 + 1
    assert np.count_nonzero(moves.src == PADDING) == 2 * 8 * 9


# ---- LoadData, LoadDataWithTranspose ---------------------------------------------------------------------------------


def loaded_2d(src, size, start, repeat, src_stride, dst_gap, element_bytes, *, turned=False, down=False):
    """LoadData with LoadData2DParams, one element after the other."""
    dst, per_fractal, c0 = [-7] * size, 512 // element_bytes, 32 // element_bytes
    for i in range(repeat):
        at, to = (start + (-i if down else i) * src_stride) * per_fractal, i * (dst_gap + 1) * per_fractal
        for r in range(16):
            for c in range(c0):
                dst[to + r * c0 + c] = int(src[at + c * c0 + r] if turned else src[at + r * c0 + c])
    return dst


@some
@given(st.integers(0, 5), st.integers(0, 6), st.integers(0, 4), st.integers(0, 3), widths, st.booleans())
def test_load_data_2d_takes_fractals(start, repeat, src_stride, dst_gap, element_bytes, down):
    start += 24 * down
    src = np.random.default_rng(1).integers(-99, 99, 64 * 512)
    size = 30 * 512 // element_bytes
    fractals = load_data_2d_fractals(start, repeat, src_stride, dst_gap, int(down))
    assert fractals.src.shape == fractals.dst.shape == (repeat, 1)
    want = loaded_2d(src, size, start, repeat, src_stride, dst_gap, element_bytes, down=down)
    assert moved(copied(fractals, element_bytes), src, size) == want
    if element_bytes == 2:
        want = loaded_2d(src, size, start, repeat, src_stride, dst_gap, 2, turned=True, down=down)
        assert moved(transposed(fractals, 2), src, size) == want


def with_transpose(src, size, start, repeat, src_stride, dst_gap, dst_frac_gap, element_bytes, src_frac_gap=0):
    """LoadDataWithTranspose, one square after the other; starts and strides of the source in fractals."""
    side, height, c0 = max(16, 32 // element_bytes), 16, 32 // element_bytes
    per_fractal = height * c0
    dst = [-7] * size

    def at(r, c, head, gap):
        """Fractals of a square lie below each other for 8 bits, side by side for 32."""
        below, beside = r // height, c // c0
        return (head + (below + beside) * (gap + 1)) * per_fractal + r % height * c0 + c % c0

    for i in range(repeat):
        for r in range(side):
            for c in range(side):
                to = at(r, c, i * (dst_gap + 1), dst_frac_gap)
                dst[to] = int(src[at(c, r, start + i * src_stride, src_frac_gap)])
    return dst


@some
@given(st.integers(0, 3), st.integers(0, 4), st.integers(0, 3), st.integers(0, 4), st.integers(0, 4), widths)
def test_load_data_with_transpose_turns_squares(start, repeat, src_stride, dst_gap, dst_frac_gap, element_bytes):
    src = np.random.default_rng(2).integers(-99, 99, 64 * 512)
    unit = {1: 2, 2: 1, 4: 2}[element_bytes]
    size = 40 * 512 // element_bytes
    fractals = transpose_fractals(start, repeat, src_stride, dst_gap, dst_frac_gap, element_bytes)
    assert fractals.src.shape == fractals.dst.shape == (repeat, unit)
    want = with_transpose(src, size, start * unit, repeat, src_stride * unit, dst_gap, dst_frac_gap, element_bytes)
    assert moved(transposed(fractals, element_bytes), src, size) == want


@some
@given(st.integers(0, 3), st.integers(0, 4), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), widths)
def test_the_second_struct_counts_fractals(start, repeat, src_stride, dst_gap, src_frac_gap, element_bytes):
    src = np.random.default_rng(3).integers(-99, 99, 64 * 512)
    size = 40 * 512 // element_bytes
    fractals = transpose_fractals_v2(start, repeat, src_stride, dst_gap, 1, src_frac_gap, element_bytes)
    want = with_transpose(src, size, start, repeat, src_stride, dst_gap, 1, element_bytes, src_frac_gap)
    assert moved(transposed(fractals, element_bytes), src, size) == want


def test_squares_can_be_taken_downwards():
    assert transpose_fractals(3, 3, 1, 0, 0, 1, addr_mode=1).src.tolist() == [[6, 7], [4, 5], [2, 3]]


def ceil(a, b):
    return -(-a // b)


@some
@given(sizes, sizes, widths)
def test_nz_becomes_zz_row_of_fractals_by_row_of_fractals(rows, columns, element_bytes):
    """A: L1 -> L0A as the LoadData 2D page does it."""
    matrix = numbers(rows, columns, element_bytes)
    src, want = pack(matrix, Layout.NZ, 0), pack(matrix, Layout.ZZ, 0)
    down, across = ceil(rows, 16), ceil(columns, 32 // element_bytes)
    got = np.zeros_like(want)
    for i in range(down):
        moves = copied(load_data_2d_fractals(i, across, down, 0), element_bytes)
        got[moves.dst + i * across * 512 // element_bytes] = src[moves.src]
    assert np.array_equal(got, want)


@some
@given(sizes, sizes)
def test_nz_becomes_zn_with_transposed_16_bit_fractals(k, n):
    """B row by row: L1 -> L0B."""
    matrix = numbers(k, n, 2)
    src, want = pack(matrix, Layout.NZ, 0), pack(matrix, Layout.ZN, 0)
    down, across = ceil(k, 16), ceil(n, 16)
    got = np.zeros_like(want)
    for i in range(down):
        moves = transposed(load_data_2d_fractals(i, across, down, 0), 2)
        got[moves.dst + i * across * 256] = src[moves.src]
    assert np.array_equal(got, want)


@some
@given(sizes, sizes)
def test_nz_becomes_zn_with_transposed_8_bit_squares(k, n):
    """B row by row: k and n in L1 and L0B are filled up to squares of 32, so n counts 32 in ZN as well."""
    matrix = np.zeros((ceil(k, 32) * 32, ceil(n, 32) * 32), np.int8)
    matrix[:k, :n] = numbers(k, n, 1)
    src, want = pack(matrix, Layout.NZ, 0), pack(matrix, Layout.ZN, 0)
    down, across = ceil(k, 32), ceil(n, 32)
    got = np.zeros_like(want)
    for i in range(down):
        moves = transposed(transpose_fractals(i, across, down, 1, 0, 1), 1)
        got[moves.dst + i * across * 1024] = src[moves.src]
    assert np.array_equal(got, want)


@some
@given(sizes, sizes, widths)
def test_b_column_by_column_is_zn_already(k, n, element_bytes):
    """NZ of the transposed matrix [n, k] holds the same bytes as ZN of [k, n]."""
    matrix = numbers(k, n, element_bytes)
    assert np.array_equal(pack(np.ascontiguousarray(matrix.T), Layout.NZ, 3), pack(matrix, Layout.ZN, 3))


# ---- LoadData 3D -----------------------------------------------------------------------------------------------------


def image_to_column(image, feature):
    """The matrix of values by the textbook: for each position of the kernel a row, [C1, point, C0] or what is left."""
    c0 = 32 // feature.dtype.itemsize
    h_end, w_end = image.l1_h + image.pad_bottom, image.l1_w + image.pad_right
    rows = []
    for top in range(-image.pad_top, h_end - (image.filter_h - 1) * image.dilation_filter_h, image.stride_h):
        for left in range(-image.pad_left, w_end - (image.filter_w - 1) * image.dilation_filter_w, image.stride_w):
            row = []
            for c1 in range(0, image.channel_size, c0):
                for i in range(image.filter_h):
                    for j in range(image.filter_w):
                        h, w = top + i * image.dilation_filter_h, left + j * image.dilation_filter_w
                        inside = 0 <= h < image.l1_h and 0 <= w < image.l1_w
                        channels = feature[h, w, c1 : c1 + c0].tolist() if inside else None
                        row += channels or [55] * (min(c1 + c0, image.channel_size) - c1)
            rows.append(row)
    return rows


def in_l1(feature):
    """[H, W, C] as NC1HWC0, the rest of the channels packed behind."""
    c0 = 32 // feature.dtype.itemsize
    blocks = [feature[:, :, c : c + c0].reshape(-1) for c in range(0, feature.shape[2], c0)]
    return np.concatenate(blocks)


@st.composite
def images(draw):
    element_bytes = draw(widths)
    c0 = 32 // element_bytes
    rest = draw(st.sampled_from([0, 4, 8, 16][: {1: 4, 2: 3, 4: 2}[element_bytes]]))
    channels = draw(st.integers(0, 2)) * c0 + rest
    small, pads = st.integers(1, 3), st.integers(0, 2)
    drawn = [draw(st.integers(1, 9)), draw(st.integers(1, 9)), channels or c0]
    drawn += [draw(pads) for _ in range(4)] + [draw(small) for _ in range(6)]
    return FeatureMap(*drawn), element_bytes


def feature_of(image, element_bytes):
    shape = (image.l1_h, image.l1_w, image.channel_size)
    return np.random.default_rng(4).integers(-40, 40, shape).astype(TYPES[element_bytes])


@some
@given(images(), st.data())
def test_load_data_3d_takes_a_window_of_the_image_to_column_matrix(drawn, data):
    image, element_bytes = drawn
    feature = feature_of(image, element_bytes)
    matrix = image_to_column(image, feature)
    assert (image.rows, image.columns) == (len(matrix), image.filter_h * image.filter_w * image.channel_size)
    c0, side = 32 // element_bytes, max(16, 32 // element_bytes)
    m0, m1 = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 40))
    k0, k1 = data.draw(st.integers(0, 2)) * c0, data.draw(st.integers(0, 80))
    layout = data.draw(st.sampled_from([Layout.ZZ, Layout.NZ, Layout.ZN]))
    en_transpose = data.draw(st.booleans())
    moves = load_data_3d(image, m0, m1, k0, k1, layout, element_bytes, en_transpose=en_transpose)
    size = max(1, ceil(m1, side) * ceil(k1, side) * side * side)
    got = moved(moves, in_l1(feature), size, padding=55)
    window = [row[k0 : k0 + k1] for row in matrix[m0 : m0 + m1]]
    high, wide = m1, k1
    if layout is Layout.ZN:
        high, wide = ceil(m1, side) * side, ceil(k1, side) * side
    elif en_transpose:
        window = [list(column) for column in zip(*window, strict=True)]
        high, wide = ceil(k1, side) * side, ceil(m1, side) * side
    want = [-7] * size
    for i, (r, c) in enumerate(walk(layout, high, wide, element_bytes)):
        if r < len(window) and c < len(window[r]):
            want[i] = window[r][c]
    assert got == want


@some
@given(sizes, sizes, widths)
def test_a_kernel_of_one_point_loads_a_matrix(rows, columns, element_bytes):
    """L1 holds NZ; a map of one pixel's kernel gives ZZ, ZN of the same matrix, or ZZ of the transposed one."""
    c0 = 32 // element_bytes
    matrix = np.random.default_rng(5).integers(-99, 99, (ceil(rows, 16) * 16, ceil(columns, c0) * c0))
    matrix = matrix.astype(TYPES[element_bytes])
    high, wide = matrix.shape
    src = pack(matrix, Layout.NZ, 0)
    image = FeatureMap(1, high, wide)
    moves = load_data_3d(image, 0, high, 0, wide, Layout.ZZ, element_bytes)
    assert moved(moves, src, matrix.size) == pack(matrix, Layout.ZZ, 0).tolist()
    moves = load_data_3d(image, 0, high, 0, wide, Layout.NZ, element_bytes)
    assert moved(moves, src, matrix.size) == src.tolist()
    side = max(16, c0)
    if high % side == wide % side == 0:
        moves = load_data_3d(image, 0, high, 0, wide, Layout.ZN, element_bytes)
        assert moved(moves, src, matrix.size) == pack(matrix, Layout.ZN, 0).tolist()
        moves = load_data_3d(image, 0, high, 0, wide, Layout.ZZ, element_bytes, en_transpose=True)
        assert moved(moves, src, matrix.size) == pack(np.ascontiguousarray(matrix.T), Layout.ZZ, 0).tolist()


def test_a_float_load_with_transpose_keeps_k_in_multiples_of_16():
    """[k, m] = [24, 24] in L1 becomes ZZ of [24, 24] whose rows of fractals hold four of them, not three."""
    image = FeatureMap(1, 24, 8)
    moves = load_data_3d(image, 0, 24, 0, 8, Layout.ZZ, 4, en_transpose=True)
    at = dict(zip(moves.src.tolist(), moves.dst.tolist(), strict=True))
    assert at[16 * 8 + 1] == 2 * 128 + 1 * 8
    image = FeatureMap(1, 24, 24)
    moves = load_data_3d(image, 0, 24, 0, 24, Layout.ZZ, 4, en_transpose=True)
    at = dict(zip(moves.src.tolist(), moves.dst.tolist(), strict=True))
    assert at[2 * 24 * 8] == 4 * 128


# ---- Fixpipe ---------------------------------------------------------------------------------------------------------


@some
@given(st.integers(0, 5), st.integers(0, 40), st.integers(1, 70), st.integers(1, 900))
def test_fixpipe_nz_moves_rows_of_sixteen(blocks, m_size, src_stride, dst_stride):
    moves = fixpipe_nz_offsets(16 * blocks, m_size, src_stride, dst_stride)
    want = [
        (k * dst_stride + j * 16 + e, j * 16 + k * src_stride * 16 + e)
        for j in range(m_size)
        for k in range(blocks)
        for e in range(16)
    ]
    assert list(zip(moves.dst.tolist(), moves.src.tolist(), strict=True)) == want


@some
@given(st.integers(1, 7), st.integers(1, 40))
def test_merged_channels_make_blocks_of_32_and_an_odd_last_one_of_16(blocks, m_size):
    n_size = 16 * blocks
    matrix = np.random.default_rng(6).integers(-99, 99, (m_size, n_size)).astype(np.int8)
    src = pack(matrix.astype(np.int32), Layout.NZ_L0C, 0)
    moves = fixpipe_nz_offsets(n_size, m_size, ceil(m_size, 16) * 16, m_size * 32, MERGED_COLUMNS)
    want = [
        int(matrix[r, c])
        for first in range(0, n_size, 32)
        for r in range(m_size)
        for c in range(first, min(first + 32, n_size))
    ]
    assert moved(moves, src, len(want)) == want


@some
@given(st.integers(1, 9), st.integers(1, 40))
def test_split_channels_make_the_nz_of_floats(blocks, m_size):
    """16 x 8 fractals: what ND2NZ of a float matrix gives."""
    n_size, rows = 8 * blocks, ceil(m_size, 16) * 16
    matrix = np.random.default_rng(7).integers(-99, 99, (m_size, n_size)).astype(np.int32)
    src = pack(matrix, Layout.NZ_L0C, 0)
    moves = fixpipe_nz_offsets(n_size, m_size, rows, rows * 8, SPLIT_COLUMNS)
    assert moved(moves, src, rows * n_size) == pack(matrix, Layout.NZ, -7).tolist()


@some
@given(
    *(st.integers(0, 40), st.integers(0, 20), st.integers(1, 70), st.integers(1, 99), st.integers(0, 3)),
    *(st.integers(0, 5), st.integers(0, 999)),
)
def test_fixpipe_nd_writes_rows(n_size, m_size, src_stride, dst_stride, nd_num, src_nd_stride, dst_nd_stride):
    step = src_nd_stride * FIXPIPE_ND_STRIDE_ELEMENTS
    moves = fixpipe_nd_offsets(n_size, m_size, src_stride, dst_stride, nd_num, step, dst_nd_stride)
    want = [
        (
            i * dst_nd_stride + j * dst_stride + 16 * k + e,
            (src_nd_stride * 1024 * i + j * 64 + k * src_stride * 64) // 4 + e,
        )
        for i in range(nd_num)
        for j in range(m_size)
        for k in range(ceil(n_size, 16))
        for e in range(min(16, n_size - 16 * k))
    ]
    assert list(zip(moves.dst.tolist(), moves.src.tolist(), strict=True)) == want


@some
@given(sizes, sizes)
def test_fixpipe_nd_unpacks_l0c(rows, columns):
    matrix = numbers(rows, columns, 4)
    src = pack(matrix, Layout.NZ_L0C, 0)
    moves = fixpipe_nd_offsets(columns, rows, ceil(rows, 16) * 16, columns)
    assert moved(moves, src, matrix.size) == matrix.reshape(-1).tolist()


def test_the_example_of_the_nz2nd_page():
    """Two matrices of 48 x 32 in L0C, 256 rows apart, become ND of 64 columns, 4096 elements apart."""
    moves = fixpipe_nd_offsets(32, 48, 64, 64, 2, 256 * FIXPIPE_ND_STRIDE_ELEMENTS_3510, 4096)
    at = dict(zip(moves.dst.tolist(), moves.src.tolist(), strict=True))
    assert at[64 + 17] == 64 * 16 + 16 + 1
    assert at[4096] == 256 * 16
    assert len(at) == 2 * 48 * 32
