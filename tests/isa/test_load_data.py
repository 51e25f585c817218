"""LoadData and LoadDataWithTranspose against loops over elements: every byte of L0, and what counts as touched."""

import numpy as np
import pytest
from cube_harness import (
    A1,
    A2,
    B1,
    B2,
    DEVICE,
    NEW_DEVICE,
    check_moves,
    check_ranges,
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

from ascendsim.checks import check_rows
from ascendsim.dtypes import dtype
from ascendsim.isa.load import LoadData2DParams, LoadData2dTransposeParams, LoadData3DParamsV2

WIDTHS = {"half": 2, "bfloat16_t": 2, "float": 4, "int8_t": 1, "int32_t": 4, "uint8_t": 1}


# ---- 2D -------------------------------------------------------------------------------------------------------------


def moves_2d(p, width):
    """Fractal i of the destination, byte by byte, from fractal start_index + i * src_stride, counted down if asked."""
    moved = {}
    for i in range(p.repeat_times):
        to = i * (p.dst_gap + 1) * 512
        at = (p.start_index + i * p.src_stride * (-1 if p.addr_mode else 1)) * 512
        for byte in range(512):
            r, c = divmod(byte // width, 16)
            from_byte = (c * 16 + r) * width + byte % width if p.if_transpose else byte
            moved[to + byte] = at + from_byte
    return moved


@st.composite
def fields_2d(draw, turns):
    repeat, stride = draw(st.integers(0, 6)), draw(st.integers(0, 4))
    down = draw(st.booleans())
    first = draw(st.integers(0, 3)) + (stride * max(0, repeat - 1) if down else 0)
    return LoadData2DParams(first, repeat, stride, 0, draw(st.integers(0, 3)), turns and draw(st.booleans()), int(down))


@settings(max_examples=120, deadline=None, derandomize=True)
@given(data=st.data())
def test_2d_every_byte(data):
    kind = data.draw(st.sampled_from(list(WIDTHS)))
    width = WIDTHS[kind]
    p = data.draw(fields_2d(width == 2))
    place = data.draw(st.sampled_from([A2, B2]))
    l1, l0 = on_chip(A1, kind, 40 * 512 // width, 64), on_chip(place, kind, 32 * 512 // width)
    source, written = random_source(data.draw(st.integers(0, 99)), 40 * 512)
    ran = run(lambda asc: asc.load_data(l0[512 // width], l1, p), [(l1, source, written)])
    moved = moves_2d(p, width)
    check_moves(ran, l0[512 // width], source, written, moved)
    check_ranges(ran, moved)
    assert ran.findings == ()
    names = {A2: "load_data_2d_l0a", B2: "load_data_2d_l0b"}
    assert (ran.row.op.name, ran.row.pipe.name) == (names[place], "MTE1")


@pytest.mark.parametrize("place", [A1, A2, B2])
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_2d_from_gm(data, place):
    kind = data.draw(st.sampled_from(list(WIDTHS)))
    p = data.draw(fields_2d(turns=False))
    gm = in_gm(("x", kind, 40 * 512 // WIDTHS[kind]))
    to = on_chip(place, kind, 32 * 512 // WIDTHS[kind])
    source, written = random_source(data.draw(st.integers(0, 99)), 40 * 512)
    ran = run(lambda asc, x: asc.load_data(to, x, p), [(gm[0], source, written)], gm)
    moved = moves_2d(p, WIDTHS[kind])
    check_moves(ran, to, source, written, moved)
    check_ranges(ran, moved)
    assert ran.row.pipe.name == "MTE2"


@pytest.mark.parametrize("kind", ["float", "int8_t"])
def test_2d_transposes_16_bits_whatever_the_type(kind):
    """It is found, and a run that goes on all the same takes fractals as 16 x 16 of 16 bits."""
    l1, l0 = on_chip(A1, kind, 1024 // WIDTHS[kind]), on_chip(A2, kind, 1024 // WIDTHS[kind])
    source, written = random_source(3, 1024)
    p = LoadData2DParams(0, 2, 1, 0, 0, True)
    ran = run(lambda asc: asc.load_data(l0, l1, p), [(l1, source, written)])
    check_moves(ran, l0, source, written, moves_2d(p, 2))
    check_ranges(ran, moves_2d(p, 2))
    (found,) = check_rows(ran.program, DEVICE)
    assert (
        found.message
        == f"LoadData: {kind} cannot be transposed on the way to L0A; the 2D form transposes 16-bit elements"
    )


# ---- with transpose -------------------------------------------------------------------------------------------------


def moves_transposed(p, width):
    """Square i of the source, transposed, over the fractals of square i of the destination.

    A square of bytes is 32 x 32: rows 0 to 15 and 16 to 31 are a fractal each. One of 16 bits is a fractal. One of 32
    bits is 16 x 16: columns 0 to 7 and 8 to 15 are a fractal each.
    """
    side, square = max(16, 32 // width), {1: 1024, 2: 512, 4: 1024}[width]

    def place(r, c):
        """(Fractal of the square, byte in it)."""
        if width == 1:
            return r // 16, r % 16 * 32 + c
        if width == 2:
            return 0, (r * 16 + c) * 2
        return c // 8, (r * 8 + c % 8) * 4

    moved = {}
    for i in range(p.repeat_times):
        for r in range(side):
            for c in range(side):
                to, inside_to = place(r, c)
                at, inside_at = place(c, r)
                first = (p.start_index + i * p.src_stride * (-1 if p.addr_mode else 1)) * square
                target = (i * (p.dst_gap + 1) + to * (p.dst_frac_gap + 1)) * 512
                for byte in range(width):
                    moved[target + inside_to + byte] = first + at * 512 + inside_at + byte
    return moved


@settings(max_examples=80, deadline=None, derandomize=True)
@given(data=st.data())
def test_transposed_every_byte(data):
    kind = data.draw(st.sampled_from(list(WIDTHS)))
    width = WIDTHS[kind]
    repeat, stride, down = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 3)), data.draw(st.booleans())
    first = data.draw(st.integers(0, 2)) + (stride * max(0, repeat - 1) if down else 0)
    frac_gap = data.draw(st.integers(0, 5))
    if width == 2:
        gap = data.draw(st.integers(0, 3))
    else:  # fractals of neighbouring squares do not meet: the second ones lie behind all the first, or between them
        gap = data.draw(st.integers(1, 3)) if frac_gap == 0 else data.draw(st.sampled_from([0, 2 * frac_gap + 1]))
        frac_gap = max(frac_gap, 4) if gap == 0 else frac_gap
    p = LoadData2dTransposeParams(first, repeat, stride, gap, frac_gap, int(down))
    place = data.draw(st.sampled_from([A2, B2]))
    l1, l0 = on_chip(B1, kind, 16 * 1024 // width, 32), on_chip(place, kind, 60 * 512 // width, 512)
    source, written = random_source(data.draw(st.integers(0, 99)), 16 * 1024)
    ran = run(lambda asc: asc.load_data_with_transpose(l0, l1, p), [(l1, source, written)])
    moved = moves_transposed(p, width)
    check_moves(ran, l0, source, written, moved)
    check_ranges(ran, moved)
    assert ran.findings == ()


# ---- 3D -------------------------------------------------------------------------------------------------------------


def image_to_column(p, width):
    """The matrix of windows as a table of source bytes, None where a window looks over the edge."""
    c0 = 32 // width
    out_h = (p.l1_h + p.pad_top + p.pad_bottom - p.dilation_filter_h * (p.filter_h - 1) - 1) // p.stride_h + 1
    out_w = (p.l1_w + p.pad_left + p.pad_right - p.dilation_filter_w * (p.filter_w - 1) - 1) // p.stride_w + 1
    matrix = []
    for top in range(max(0, out_h)):
        for left in range(max(0, out_w)):
            row = []
            for c1 in range(p.channel_size // c0):
                for fh in range(p.filter_h):
                    for fw in range(p.filter_w):
                        h = top * p.stride_h - p.pad_top + fh * p.dilation_filter_h
                        w = left * p.stride_w - p.pad_left + fw * p.dilation_filter_w
                        inside = 0 <= h < p.l1_h and 0 <= w < p.l1_w
                        first = (c1 * p.l1_h * p.l1_w + h * p.l1_w + w) * 32
                        row += [first + c * width if inside else None for c in range(c0)]
            matrix.append(row)
    return matrix


def l0a_offset(r, c, columns, width, nz_rows=None):
    """Byte of element (r, c) among fractals of 16 rows x 32 B, row of fractals by row, or column by column (NZ)."""
    c0 = 32 // width
    across = -(-columns // c0)
    fractal = r // 16 * across + c // c0 if nz_rows is None else c // c0 * -(-nz_rows // 16) + r // 16
    return fractal * 512 + (r % 16 * c0 + c % c0) * width


def l0b_offset(r, c, columns, width):
    """Byte of element (r, c) among fractals of 32 B of rows x 16 columns, column by column inside."""
    c0 = 32 // width
    fractal = r // c0 * -(-columns // 16) + c // 16
    return fractal * 512 + (c % 16 * c0 + r % c0) * width


def fill_up(n, unit):
    return -(-n // unit) * unit


@st.composite
def fields_3d(draw, c0):
    filters = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return LoadData3DParamsV2(
        l1_h=draw(st.integers(1, 6)),
        l1_w=draw(st.integers(1, 7)),
        channel_size=c0 * draw(st.integers(1, 2)),
        k_extension=draw(st.integers(1, 3 * c0)),
        m_extension=draw(st.integers(1, 36)),
        k_start_pt=draw(st.integers(0, 3)) * c0,
        m_start_pt=draw(st.integers(0, 9)),
        stride_w=draw(st.integers(1, 3)),
        stride_h=draw(st.integers(1, 3)),
        filter_w=filters[0],
        filter_h=filters[1],
        dilation_filter_w=draw(st.integers(1, 2)),
        dilation_filter_h=draw(st.integers(1, 2)),
        pad_left=draw(st.integers(0, 2)),
        pad_right=draw(st.integers(0, 2)),
        pad_top=draw(st.integers(0, 2)),
        pad_bottom=draw(st.integers(0, 2)),
        en_transpose=draw(st.booleans()),
        pad_value=draw(st.sampled_from([0, 0x7F, 0x3C00])),
    )


@settings(max_examples=120, deadline=None, derandomize=True)
@given(data=st.data())
def test_3d_every_element(data):
    kind = data.draw(st.sampled_from(["half", "float", "int8_t", "bfloat16_t"]))
    width = WIDTHS[kind]
    p = data.draw(fields_3d(32 // width))
    device = (None, NEW_DEVICE)[data.draw(st.integers(0, 1))]
    place = data.draw(st.sampled_from([A2, B2]))
    l1, l0 = on_chip(A1, kind, 4096 // width), on_chip(place, kind, 32768 // width)
    source, written = random_source(data.draw(st.integers(0, 99)), 4096)
    ran = run(lambda asc: asc.load_data(l0, l1, p), [(l1, source, written)], **({"device": device} if device else {}))
    m, k = p.m_extension, p.k_extension
    side = max(16, 32 // width)
    want, flags = np.full(32768, 0xFF, np.uint8), np.zeros(32768, np.bool_)
    pad = np.frombuffer(p.pad_value.to_bytes(4, "little")[:width], np.uint8)
    written_to, read = set(), set()
    for i, row in enumerate(image_to_column(p, width)[p.m_start_pt : p.m_start_pt + m]):
        for j, at in enumerate(row[p.k_start_pt : p.k_start_pt + k]):
            if place is B2:
                to = l0b_offset(i, j, fill_up(k, side), width)
            elif p.en_transpose:
                to = l0a_offset(j, i, fill_up(m, side), width, fill_up(k, side) if device else None)
            else:
                to = l0a_offset(i, j, k, width, m if device else None)
            for byte in range(width):
                want[to + byte] = pad[byte] if at is None else source[at + byte] if written[at + byte] else 0xFF
                flags[to + byte] = at is None or written[at + byte]
                written_to.add(to + byte)
                read |= set() if at is None else {at + byte}
    assert np.flatnonzero(ran.written(l0) != flags).tolist() == []
    assert np.flatnonzero(ran.content(l0) != want).tolist() == []
    assert noted(ran).get(("dst", True), set()) == written_to
    assert noted(ran).get(("src0", False), set()) == read
    whole = p.l1_h * p.l1_w * p.channel_size * width
    first, end = touched(ran)["dst"]
    assert (first, touched(ran)["src0"]) == (0, (0, whole))
    assert hull(written_to)[1] <= end
    assert hull(read)[1] <= whole


def test_3d_with_one_point_is_a_2d_load():
    """A map of one column and a filter of one point: rows are the matrix that lies as NZ in L1, here 32 x 32."""
    l1, a = on_chip(A1, "half", 1024), on_chip(A2, "half", 1024)
    values = np.arange(1024, dtype=np.uint16)
    p = LoadData3DParamsV2(l1_h=32, l1_w=1, channel_size=32, k_extension=32, m_extension=32)
    by_3d = run(lambda asc: asc.load_data(a, l1, p), [(l1, values, None)]).values(a)

    def by_rows(asc):
        for i in range(2):
            asc.load_data(a[i * 512], l1[i * 256], LoadData2DParams(0, 2, 2, 0, 0, False))

    by_2d = run(by_rows, [(l1, values, None)]).values(a)
    assert by_3d.tobytes() == by_2d.tobytes()


def test_types_of_the_widths():
    assert {kind: dtype(kind).bytes for kind in WIDTHS} == WIDTHS
