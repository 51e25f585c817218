"""Fractals of Mmad's factors: ways to lay a matrix that are right, and ways that are not, over every path to L0."""

from dataclasses import replace

import numpy as np
import pytest
from codes_cube import (
    A1,
    A2,
    ALL,
    B1,
    B2,
    CUBE,
    FETCH,
    TILE,
    C,
    as_nz,
    as_zn,
    as_zz,
    fetched,
    laid,
    staged,
)
from codes_harness import A950, checked, flagged
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.checks.factors import UNKNOWN, Source, disorder
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.load import LoadData2DParams, LoadData3DParamsV2
from ascendsim.isa.mmad import MmadParams
from ascendsim.isa.move import DataCopyParams
from ascendsim.isa.nd2nz import Nd2NzParams
from ascendsim.layout import FeatureMap, offsets
from ascendsim.record import tile
from ascendsim.terms import CO2Layout, HardEvent, Layout, QuantMode

CODES = ("E-MMAD-LAYOUT", "E-MMAD-GEMV")
SWAPPED = "from (0, 0) to (0, 16) it goes 16 rows of x and from (0, 0) to (16, 0) it goes 32 B of x"


def found(kernel, **how):
    """What is found of layouts: (code, operand, what is wrong)."""
    return [(f.code, f.operand, f.got) for f in checked(kernel, **(CUBE | how)) if f.code in CODES]


# ---- the rule, on places alone --------------------------------------------------------------------------------------

WIDTHS = {1: 32, 2: 16, 4: 8}


def judged(at, pitch_bytes=0, width=2, layout=Layout.ZZ):
    """What is told of a factor that is taken from these bytes of one source; negative ones are not known."""
    source = Source(0, 0, 0, pitch_bytes, "x")
    return disorder(np.where(at < 0, UNKNOWN, 0), at, [source], layout, width)


sides = st.integers(1, 70)
widths = st.sampled_from([1, 2, 4])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(layout=st.sampled_from([Layout.ND, Layout.NZ, Layout.ZZ, Layout.ZN]), m=sides, k=sides, width=widths,
       first=st.tuples(st.integers(0, 40), st.integers(0, 40)), is_turned=st.booleans())  # fmt: skip
def test_a_part_of_a_matrix_however_gm_holds_it(layout, m, k, width, first, is_turned):
    pitch = 128
    at = offsets(layout, 128, pitch, width)[first[0] :, first[1] :][:m, :k] * width
    at = at.T if is_turned else at
    assert judged(at, pitch * width if layout is Layout.ND else 0, width) is None


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rows=st.lists(st.integers(0, 200), min_size=1, max_size=40), k=sides, first=st.integers(0, 50))
def test_rows_that_were_picked_one_by_one(rows, k, first):
    at = (np.array(rows)[:, None] * 256 + first + np.arange(k)) * 2
    assert judged(at, 512) is None
    assert judged(at.T, 512) is None


@pytest.mark.parametrize("is_beside", [False, True])
def test_heads_one_below_the_other(is_beside):
    """Columns of several heads of one load as rows of the factor; and their rows as its columns."""
    rows, head, d = np.arange(16), np.arange(4)[:, None, None], np.arange(32)
    at = (rows[:, None] * 128 + head * 32 + d).reshape(64, 32) * 2
    assert judged(at.T if is_beside else at, 256) is None


@settings(max_examples=40, deadline=None, derandomize=True)
@given(stride=st.integers(1, 3), dilation=st.integers(1, 2), pad=st.integers(0, 2), filters=st.integers(1, 3))
def test_a_feature_map_under_a_kernel(stride, dilation, pad, filters):
    image = FeatureMap(9, 11, 32, pad, pad, pad, pad, stride, stride, filters, filters, dilation, dilation)
    places = image.sources(np.arange(image.rows)[:, None], np.arange(image.columns), 2)
    assert judged(places * 2) is None
    channel_last = np.where(places < 0, places, places // 16 % 99 * 32 + places // (99 * 16) * 16 + places % 16)
    assert judged(channel_last * 2, 64) is None


@settings(max_examples=60, deadline=None, derandomize=True)
@given(m=st.integers(2, 4), k=st.integers(2, 4), data=st.data())
def test_two_fractals_that_changed_places(m, k, data):
    """Rows and columns, too, were changed then; not if they are the only ones of a row or column."""
    places = [(i, j) for i in range(m) for j in range(k)]
    one, other = data.draw(st.lists(st.sampled_from(places), min_size=2, max_size=2, unique=True))
    fractals = (np.arange(16 * m)[:, None] * 256 + np.arange(16 * k)).reshape(m, 16, k, 16).transpose(0, 2, 1, 3) * 2
    fractals = fractals.copy()
    fractals[one], fractals[other] = fractals[other].copy(), fractals[one].copy()
    at = fractals.transpose(0, 2, 1, 3).reshape(16 * m, 16 * k)
    told = judged(at, 512)
    assert told is not None
    assert told[0].code == "E-MMAD-LAYOUT"


@pytest.mark.parametrize(("m", "k", "is_told"), [(32, 32, True), (16, 64, False), (64, 16, False), (16, 16, False)])
def test_fractals_that_are_turned_each(m, k, is_told):
    """A single row of them may be a row of another matrix, whose columns are the rows of this one."""
    r, c = np.arange(m)[:, None], np.arange(k)
    at = ((r // 16 * 16 + c % 16) * 256 + c // 16 * 16 + r % 16) * 2
    assert (judged(at, 512) is not None) == is_told


def test_what_is_not_known_is_no_mistake():
    at = (np.arange(32)[:, None] * 256 + np.arange(32)) * 2
    at[:16, 16:] = -1
    at[16:, 16:] += 4096
    assert judged(at, 512) is None
    assert judged(np.full((32, 32), -1), 512) is None


# ---- paths to L0 -----------------------------------------------------------------------------------------------------


def by_columns(asc, dst, src):
    """A tile as fractals by plain copies: each brings 32 B of every row."""
    for i in range(4):
        asc.data_copy(dst[i * 1024], src[i * 16], DataCopyParams(64, 1, 15, 0))


def with_a(bring, left, mmad=ALL):
    """A product whose left tile comes to L1 another way."""

    def kernel(asc, x, y):
        bring(asc, x)
        asc.data_copy(B1, x[16384], TILE)
        flagged(asc, HardEvent.MTE2_MTE1)
        left(asc)
        as_zn(asc)
        flagged(asc, HardEvent.MTE1_M)
        asc.mmad(C, A2, B2, mmad)
        fetched(asc, y)

    return kernel


@pytest.mark.parametrize(("left", "is_told"), [(as_zz, False), (as_nz, True)])
def test_plain_copies_of_columns_of_fractals(left, is_told):
    told = [("E-MMAD-LAYOUT", "src0", SWAPPED)] if is_told else []
    assert found(with_a(lambda asc, x: by_columns(asc, A1, x), left)) == told


@pytest.mark.parametrize("left", [as_zz, as_nz])
def test_a_plain_copy_of_gm_that_may_hold_anything(left):
    """It may be in NZ, or in ZZ."""
    assert found(with_a(lambda asc, x: asc.data_copy(A1, x, 4096), left)) == []


def test_a_plain_copy_that_no_layout_explains():
    """Fractals of three, read as rows of four."""

    def three(asc):
        for i in range(4):
            asc.load_data(A2[i * 1024], A1[i * 768], LoadData2DParams(0, 4, 1 + i % 2))

    ((code, operand, got),) = found(with_a(lambda asc, x: asc.data_copy(A1, x, 4096), three))
    assert (code, operand) == ("E-MMAD-LAYOUT", "src0")
    assert got == "from (0, 15) to (0, 16) it goes 482 B of x, but from (16, 15) to (16, 16) it goes 994 B of x"


def through_l0c(left):
    """A product whose left factor is a result that Fixpipe brought to L1."""

    def kernel(asc, x, y):
        staged(asc, x)
        as_zz(asc)
        as_zn(asc)
        flagged(asc, HardEvent.MTE1_M)
        asc.mmad(C, A2, B2, ALL)
        flagged(asc, HardEvent.M_FIX)
        asc.fixpipe(A1, C, FixpipeParamsV220(64, 64, 64, 64, QuantMode.F322F16), CO2Layout.NZ)
        flagged(asc, HardEvent.FIX_MTE1)
        flagged(asc, HardEvent.M_MTE1)
        left(asc)
        flagged(asc, HardEvent.MTE1_M)
        flagged(asc, HardEvent.FIX_M)
        asc.mmad(C, A2, B2, ALL)
        fetched(asc, y)

    return kernel


@pytest.mark.parametrize(("left", "is_told"), [(as_zz, False), (as_nz, True)])
def test_a_result_as_a_factor(left, is_told):
    told = [("E-MMAD-LAYOUT", "src0", SWAPPED.replace("x", "c"))] if is_told else []
    assert found(through_l0c(left)) == told


@pytest.mark.parametrize("soc", ["Ascend910B2", A950])
def test_a_window_of_a_feature_map(soc):
    """Kernels of 3 x 3 over 8 x 8 points of 16 channels, which ND2NZ has brought from rows of GM."""

    def windows(asc):
        image = LoadData3DParamsV2(8, 8, 16, 64, 64, filter_w=3, filter_h=3, pad_left=1, pad_right=1, pad_top=1,
                                   pad_bottom=1)  # fmt: skip
        asc.load_data(A2, A1, image)

    assert found(with_a(lambda asc, x: asc.data_copy(A1, x, replace(TILE, d_value=16)), windows), soc=soc) == []


@pytest.mark.parametrize("is_multiplied", [False, True])
def test_rows_that_a_shorter_tile_leaves_over(is_multiplied):
    """40 of 64 rows come anew, into fractals of another number; the rest of the last fractal is of nobody."""

    def kernel(asc, x, y):
        staged(asc, x)
        as_zn(asc)
        if is_multiplied:
            as_zz(asc)
            flagged(asc, HardEvent.MTE1_M)
            asc.mmad(C, A2, B2, ALL)
            fetched(asc, y)
        asc.data_copy(A1, x[8192], replace(TILE, n_value=40, dst_nz_c0_stride=48))
        flagged(asc, HardEvent.MTE2_MTE1)
        for i in range(3):
            asc.load_data(A2[i * 1024], A1[i * 256], LoadData2DParams(0, 4, 3))
        flagged(asc, HardEvent.MTE1_M)
        asc.mmad(C, A2, B2, replace(ALL, m=48))
        fetched(asc, y, replace(FETCH, m_size=40, src_stride=48))

    assert found(kernel) == []


def test_rows_that_were_left_before():
    """Rows come one by one: 64 of them, then 40, whose halves change places as those of the right tile would."""

    def kernel(asc, x, y):
        for r in range(64):
            asc.data_copy(A1[r * 16], x[r * 256], replace(TILE, n_value=1))
        asc.data_copy(B1, x[16384], TILE)
        flagged(asc, HardEvent.MTE2_MTE1)
        as_zz(asc)
        as_zn(asc)
        flagged(asc, HardEvent.MTE1_M)
        asc.mmad(C, A2, B2, ALL)
        for r in range(40):
            for half in range(2):
                place = A1[r * 16 + half * 2048]
                asc.data_copy(place, x[r * 256 + 32 - half * 32], replace(TILE, n_value=1, d_value=32))
        flagged(asc, HardEvent.MTE2_MTE1)
        as_zz(asc)
        as_zn(asc)
        flagged(asc, HardEvent.MTE1_M)
        asc.mmad(C, A2, B2, replace(ALL, m=48))

    assert found(kernel) == []


@pytest.mark.parametrize("apart", [16, 16 * 256, 16 * 256 + 16])
def test_matrices_of_one_load_as_fractals(apart):
    """Beside each other, below each other, askew: two rows of two of them are a matrix of their own."""

    def kernel(asc, x, y):
        asc.data_copy(A1, x, Nd2NzParams(4, 16, 16, apart, 256, 16, 1, 256))
        asc.data_copy(B1, x[16384], TILE)
        flagged(asc, HardEvent.MTE2_MTE1)
        asc.load_data(A2, A1, LoadData2DParams(0, 4, 1))
        as_zn(asc)
        flagged(asc, HardEvent.MTE1_M)
        asc.mmad(C, A2, B2, replace(ALL, m=32, k=32))

    assert found(kernel) == []


@tile
def bring(asc, x, first):
    """Half of the left tile's rows of fractals."""
    asc.data_copy(A1, x, replace(TILE, n_value=32, dst_nz_c0_stride=32))
    flagged(asc, HardEvent.MTE2_MTE1)


def test_a_tile_that_was_called_again_brings_other_places():
    """Its first half is in L0A already when it brings the second from elsewhere, to be turned."""

    def kernel(asc, x, y):
        staged(asc, x)
        as_zn(asc)
        bring(asc, x, 0)
        asc.load_data(A2, A1, LoadData2DParams(0, 2, 2))
        asc.load_data(A2[512], A1[256], LoadData2DParams(0, 2, 2))
        bring(asc, x[8192], 0)
        asc.load_data(A2[1024], A1, LoadData2DParams(0, 2, 1, if_transpose=True))
        asc.load_data(A2[1536], A1[512], LoadData2DParams(0, 2, 1, if_transpose=True))
        flagged(asc, HardEvent.MTE1_M)
        asc.mmad(C, A2, B2, replace(ALL, k=32))
        fetched(asc, y)

    assert found(kernel) == []


def test_another_width_than_that_of_the_load_is_not_known():
    a, b, c = (t.reinterpret_cast(kind) for t, kind in ((A2, "int8_t"), (B2, "int8_t"), (C, "int32_t")))

    def kernel(asc, x, y):
        staged(asc, x)
        as_nz(asc)
        as_zn(asc)
        flagged(asc, HardEvent.MTE1_M)
        asc.mmad(c, a, b, ALL)

    assert found(kernel) == []


# ---- a single row ----------------------------------------------------------------------------------------------------


def row(k, load, **change):
    return laid(lambda asc: asc.load_data(A2, A1, load), as_zn, replace(TILE, **change), MmadParams(1, 64, k))


PLAIN = {"n_value": 1, "dst_nz_c0_stride": 1}


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (row(64, LoadData2DParams(0, 1, 1), **PLAIN), None),
        (row(16, LoadData2DParams(0, 4, 4)), None),
        (row(17, LoadData2DParams(0, 4, 4)), "512"),
        (row(64, LoadData2DParams(0, 4, 4), n_value=1), "512"),
        (row(64, LoadData2DParams(0, 4, 1), n_value=1, dst_nz_c0_stride=16), "512"),
        (row(64, LoadData2DParams(0, 16, 1)), "2048"),
        (row(64, LoadData2DParams(0, 16, 1, if_transpose=True)), "512"),
    ],
)
@pytest.mark.parametrize("soc", ["Ascend910B2", A950])
def test_a_row_for_mmad_as_it_comes(kernel, at, soc):
    assert found(kernel, soc=soc) == ([("E-MMAD-GEMV", "src0", at)] if at else [])
