"""SoftmaxGrad on vector units that work on registers, against the order of additions written out row by row.

- arch 3002: 64 sums side by side over stripes of 64 columns, missing lanes of the last stripe untouched; a tree over
  them. Up to 64 columns: a tree over the columns.
- arch 3510, ND: the same, but the sums start at 0 and missing lanes add 0; only data is written.
- arch 3510, NZ: 16 sums that start at 0, over slabs of 16 columns, missing columns of the last slab adding 0; the trees
  of both halves are added.
"""

import closed_form
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascendsim as asc
from ascendsim.op_host.softmax import (
    get_soft_max_grad_max_tmp_size,
    get_soft_max_grad_min_tmp_size,
    soft_max_grad_tiling_func,
)

SOC = {3002: "Ascend310B1", 3510: "Ascend950PR_9579"}
ZERO = np.float32(0)


def lanes_3002(products):
    if len(products) <= 64:
        return closed_form.tree([*products, *[None] * (64 - len(products))])
    acc = list(products[:64])
    for at in range(64, len(products), 64):
        for lane, value in enumerate(products[at : at + 64]):
            acc[lane] = np.float32(acc[lane] + value)
    return closed_form.tree(acc)


def lanes_3510(products):
    acc = [ZERO] * 64
    for at in range(0, len(products), 64):
        stripe = [*products[at : at + 64], *[ZERO] * 64][:64]
        acc = [np.float32(a + b) for a, b in zip(acc, stripe, strict=True)]
    return closed_form.tree(acc)


def slabs_3510(products):
    acc = [ZERO] * 16
    for at in range(0, len(products), 16):
        slab = [*products[at : at + 16], *[ZERO] * 16][:16]
        acc = [np.float32(a + b) for a, b in zip(acc, slab, strict=True)]
    return np.float32(closed_form.tree(acc[:8]) + closed_form.tree(acc[8:]))


def expected(grad, src, row_sum, ori_k, is_front):
    """Float results of every row, before they are converted."""
    g, s = grad.astype(np.float32), src.astype(np.float32)
    sums = np.array([row_sum(list(row)) for row in (g * s)[:, :ori_k]], np.float32)
    return np.repeat(sums[:, None], 32 // src.itemsize, axis=1) if is_front else (g - sums[:, None]) * s


def converted(values, dtype, arch):
    if dtype == np.float32:
        return values
    return closed_form.to_half_ties_away(values) if arch == 3002 else values.astype(np.float16)


def same(got, want):
    unsigned = f"u{want.dtype.itemsize}"
    return ((got.view(unsigned) == want.view(unsigned)) | (np.isnan(got) & np.isnan(want))).all()


def inputs(draw, m, k, dtype):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    src = rng.random((m, k)).astype(dtype)
    return (rng.standard_normal((m, k)) * 4).astype(dtype), src


@st.composite
def calls(draw):
    dtype = draw(st.sampled_from([np.float32, np.float16]))
    unit = 32 // np.dtype(dtype).itemsize
    m, k = draw(st.integers(1, 24)), unit * draw(st.integers(1, 24))
    return dtype, (m, k), draw(st.integers(max(1, k - unit + 1), k)), draw(st.booleans()), draw


@settings(max_examples=40, deadline=None)
@given(calls())
def test_arch_3002_in_nd(call):
    dtype, (m, k), ori_k, is_front, draw = call
    grad, src = inputs(draw, m, k, dtype)
    low = get_soft_max_grad_min_tmp_size((m, k), src.itemsize, is_front, 3002)
    high = get_soft_max_grad_max_tmp_size((m, k), src.itemsize, is_front, 3002)
    result = asc.softmax_grad(
        grad, src, SOC[3002], is_front=is_front, ori_shape=(m, ori_k), tmp_bytes=draw(st.integers(low, high))
    )
    want = converted(expected(grad, src, lanes_3002, ori_k, is_front), dtype, 3002)
    assert same(result.outputs["dst"], want)


@settings(max_examples=40, deadline=None)
@given(calls())
def test_arch_3510_in_nd_writes_data_only(call):
    dtype, (m, k), ori_k, is_front, draw = call
    grad, src = inputs(draw, m, k, dtype)
    ori_m = draw(st.integers(1, m))
    low = get_soft_max_grad_min_tmp_size((m, k), src.itemsize, is_front, 3510)
    result = asc.softmax_grad(grad, src, SOC[3510], is_front=is_front, ori_shape=(ori_m, ori_k), tmp_bytes=low)
    want = converted(expected(grad, src, lanes_3510, ori_k, is_front), dtype, 3510)
    columns = want.shape[1] if is_front else ori_k
    got = result.outputs["dst"]
    assert same(np.ascontiguousarray(got[:ori_m, :columns]), np.ascontiguousarray(want[:ori_m, :columns]))
    rest = np.ones(got.shape, bool)
    rest[:ori_m, :columns] = False
    assert (got.view(f"u{got.itemsize}")[rest] == np.iinfo(f"u{got.itemsize}").max).all()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_arch_3510_in_nz(data):
    dtype = data.draw(st.sampled_from([np.float32, np.float16]))
    m, k = 16 * data.draw(st.integers(1, 5)), 16 * data.draw(st.integers(1, 10))
    ori_m, ori_k = data.draw(st.integers(1, m)), data.draw(st.integers(k - 15, k))
    is_front = data.draw(st.booleans())
    grad, src = inputs(data.draw, m, k, dtype)
    nz = [np.ascontiguousarray(a.reshape(m, k // 16, 16).transpose(1, 0, 2)) for a in (grad, src)]
    result = asc.softmax_grad(
        *nz, SOC[3510], is_front=is_front, ori_shape=(ori_m, ori_k), tmp_bytes=-(-2 * m // 128) * 512, data_format="NZ"
    )
    want = converted(expected(grad, src, slabs_3510, ori_k, is_front), dtype, 3510)
    got = result.outputs["dst"]
    if not is_front:
        got = got.transpose(1, 0, 2).reshape(m, k)[:, :ori_k]
        want = want[:, :ori_k]
    assert same(np.ascontiguousarray(got[:ori_m]), np.ascontiguousarray(want[:ori_m]))
    padded = {"I-SMG-PADKEPT"} if (ori_m, ori_k) != (m, k) else set()
    assert {f.code for f in result.findings} == padded | ({"I-SMG-MASK"} if ori_k != k else set())


# ---- what is found ----------------------------------------------------------------------------------------------


def found(*args, **kwargs):
    try:
        result = asc.softmax_grad(*args, **kwargs)
    except asc.Rejected as rejected:
        return {f.code: f.message for f in rejected.findings}
    return {f.code: f.message for f in result.findings}


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


def test_arch_3002_has_no_nz():
    nz = ones(2, 16, 16)
    assert found(nz, nz, SOC[3002], data_format="NZ")["E-MODE-NZ"] == (
        "NZ format and basic block are not supported on Ascend310B1"
    )


def test_arch_3002_has_no_basic_block():
    with pytest.raises(asc.Rejected, match="E-MODE-NZ"):
        asc.softmax_grad_front(ones(8, 64), ones(8, 64), SOC[3002], is_basic_block=True)


def test_arch_3002_counts_rows_in_eight_bits():
    """260 rows of 72 columns in one tile: 4 of them are summed. Tiles below 256 rows are right."""
    grad, src = ones(260, 72), ones(260, 72)
    one_tile = get_soft_max_grad_max_tmp_size((260, 72), 4, False, 3002)
    texts = found(grad, src, SOC[3002], tmp_bytes=one_tile)
    assert texts["E-SMG-ROWS"] == "SoftmaxGrad counts the rows of a tile in eight bits: of 260 rows 4 are summed"
    halves = asc.softmax_grad(grad, src, SOC[3002], tmp_bytes=one_tile // 2)
    assert (halves.outputs["dst"] == np.float32(1 - 72)).all()


def test_arch_3510_looks_at_no_tile():
    """The minimum temp gives split_m 0, which other architectures refuse."""
    grad, src = ones(64, 128), ones(64, 128)
    result = asc.softmax_grad(grad, src, SOC[3510], tmp_bytes=512)
    assert result.findings == ()
    assert (result.outputs["dst"] == np.float32(1 - 128)).all()


def test_arch_3510_tiles_again_only_with_a_row_of_temp():
    tiling = soft_max_grad_tiling_func((9, 64), 4, 8192, False)
    assert "E-SMG-NOTILE" in found(ones(8, 64), ones(8, 64), SOC[3510], tmp_bytes=512, tiling=tiling)


def test_arch_3510_asks_for_its_own_minimum():
    assert found(ones(8, 64), ones(8, 64), SOC[3510], tmp_bytes=256)["E-TMP-SMALL"] == (
        "SoftmaxGrad temp has 256 B, the minimum for last axis 64 is 512 B"
    )


def test_arch_3510_masks_the_last_slab_only():
    nz = ones(4, 16, 16)
    texts = found(nz, nz, SOC[3510], data_format="NZ", ori_shape=(16, 40))
    assert texts["W-SMG-NZSLABS"] == (
        "SoftmaxGrad NZ masks the last slab only, to 8 of its columns: with ori_src_k 40 of 64 padded columns are "
        "summed"
    )
    result = asc.softmax_grad(nz, nz, SOC[3510], data_format="NZ", ori_shape=(16, 40))
    assert result.outputs["dst"][0, 0, 0] == 1 - 56  # three slabs whole, 8 columns of the last


def test_arch_3510_has_no_basic_block_sequence():
    plain = asc.softmax_grad_front(ones(8, 64), ones(8, 64), SOC[3510])
    block = asc.softmax_grad_front(ones(8, 64), ones(8, 64), SOC[3510], is_basic_block=True)
    assert [f.code for f in block.findings] == ["I-SMG-NOBLOCKS"]
    assert plain.program.digest == block.program.digest


def test_arch_3510_counts_in_sixteen_bits():
    grad = np.zeros((1, 4096, 16), np.float16)
    texts = found(grad, grad, SOC[3510], data_format="NZ", tmp_bytes=32768)
    assert texts["E-SMG-COUNTER"] == (
        "SoftmaxGrad NZ of 4096x16: m, k and 16 * m must not exceed 65535, the library counts in 16 bits"
    )


def test_arch_3510_in_nz_takes_rows_that_fill_no_group_of_four():
    """The last group loads beyond the tensor, where the temp lies: harmless, with dst on src as well."""
    rng = np.random.default_rng(3)
    for m in (1, 5, 18, 63):
        src, grad = rng.random((2, m, 16), np.float32), rng.standard_normal((2, m, 16)).astype(np.float32)
        result = asc.softmax_grad(grad, src, SOC[3510], data_format="NZ", reuse_source=True)
        flat = [a.transpose(1, 0, 2).reshape(m, 32) for a in (grad, src)]
        want = expected(*flat, slabs_3510, 32, False)
        assert same(np.ascontiguousarray(result.outputs["dst"].transpose(1, 0, 2).reshape(m, 32)), want)
        assert result.findings == ()


def test_arch_3510_has_room_for_its_sums_by_default():
    """72 rows of 1,024 columns fill UB; the temp is then no larger than needed, and no smaller."""
    nz = ones(64, 72, 16, dtype=np.float16)
    result = asc.softmax_grad_front(nz, nz, SOC[3510], data_format="NZ")
    assert result.scenario["tmp_bytes"] >= 1024
    assert "E-SMG-NZTEMP" not in {f.code for f in result.findings}
