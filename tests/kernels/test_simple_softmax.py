"""SimpleSoftMax: values against exp(x - max) / sum in float32, instructions against the library's, findings."""

from dataclasses import replace

import closed_form
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from piece_harness import DEVICES, NAMES, found, local, place, run, same, sequence

from ascendsim.device import load_device
from ascendsim.errors import KernelError
from ascendsim.op_host.softmax import SoftMaxInputError
from ascendsim.op_host.softmax_family import get_soft_max_min_tmp_size, soft_max_kernel_tiling, soft_max_tiling_func
from ascendsim.op_kernel import SoftMaxShapeInfo, simple_softmax
from ascendsim.record import record
from ascendsim.terms import TPosition

many = settings(max_examples=40, deadline=None, derandomize=True)
LOWEST = np.uint32(0xFF7FFFFF).view(np.float32)
"""What attention puts where a score is hidden."""


def inputs(rng, rows, columns, kind, sums):
    """Scores with hidden ones, infinities and NaN, and the maximum and sum of each row, a datablock each."""
    src = (rng.standard_normal((rows, columns)) * 8).astype(kind)
    src[rng.random(src.shape) < 0.1] = LOWEST.astype(kind) if kind == np.float32 else kind(-65504)
    src[0, :2] = np.inf, np.nan
    src[-1] = src[-1, 0]
    largest = src.max(axis=1).astype(sums)
    total = rng.uniform(1, columns, rows).astype(sums)
    total[rng.random(rows) < 0.1] = 0
    return src, *(np.repeat(row[:, None], 32 // np.dtype(sums).itemsize, axis=1) for row in (total, largest))


def expected(src, in_sum, in_max, arch=2201):
    """Each step rounded to float32; half results once more, on arch 2002 to even and without infinities and NaN."""
    with np.errstate(all="ignore"):
        difference = src.astype(np.float32) - in_max[:, :1].astype(np.float32)
        result = np.exp(difference.astype(np.float64)).astype(np.float32) / in_sum[:, :1].astype(np.float32)
        if src.dtype == np.float32:
            return result
        if arch == 2201:
            return closed_form.to_half_ties_away(result)
        return np.nan_to_num(result.astype(np.float16), nan=0, posinf=65504, neginf=-65504)


def kernel(t, tiling, shape=None, is_basic_block=False):
    operands = [t[name] for name in ("dst", "in_sum", "in_max", "src", "tmp")]
    return lambda asc: simple_softmax(asc, *operands, tiling, shape, is_basic_block=is_basic_block)


def placed(src, in_sum, in_max, tmp_bytes, in_place=False):
    out = (NAMES[src.dtype.name], src.nbytes)
    t = place(src=src, in_sum=in_sum, in_max=in_max, dst=out, tmp=("uint8_t", tmp_bytes))
    return t | {"dst": t["src"]} if in_place else t


# ---- values ---------------------------------------------------------------------------------------------------------


@many
@given(data=st.data())
def test_values_of_both_forms(data):
    arch, is_basic_block = data.draw(st.sampled_from([2201, 2002])), data.draw(st.booleans())
    kind, sums = data.draw(st.sampled_from([(np.float32,) * 2, (np.float16,) * 2, (np.float16, np.float32)]))
    width = np.dtype(kind).itemsize
    if is_basic_block:
        rows, columns = 8 * data.draw(st.integers(1, 4)), 64 * data.draw(st.integers(4 // width, 6))
    else:
        rows, columns = data.draw(st.integers(1, 20)), 32 // width * data.draw(st.integers(1, 30))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    src, in_sum, in_max = inputs(rng, rows, columns, kind, sums)
    low = get_soft_max_min_tmp_size((rows, columns), in_sum.itemsize, arch)
    tmp_bytes = low * (data.draw(st.integers(1, rows)) if not is_basic_block else rows)
    tiling = soft_max_tiling_func((rows, columns), in_sum.itemsize, tmp_bytes)
    t = placed(src, in_sum, in_max, tmp_bytes, in_place=data.draw(st.booleans()))
    ran = run(kernel(t, tiling, is_basic_block=is_basic_block), t, arch, src=src, in_sum=in_sum, in_max=in_max)
    assert ran.findings == ()
    assert same(ran.array(t["dst"], src), expected(src, in_sum, in_max, arch))


@many
@given(data=st.data())
def test_values_where_the_tiling_is_of_another_shape(data):
    """The last tile of an operator uses the struct of full tiles; rows that are no data are computed, too, in float."""
    kind, sums = data.draw(st.sampled_from([(np.float32,) * 2, (np.float16,) * 2, (np.float16, np.float32)]))
    rows, columns = data.draw(st.integers(2, 20)), 16 * data.draw(st.integers(1, 14))
    data_rows = data.draw(st.integers(1, rows))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    src, in_sum, in_max = inputs(rng, rows, columns, kind, sums)
    tmp_bytes = get_soft_max_min_tmp_size((rows, columns), in_sum.itemsize, 2201) * data.draw(st.integers(1, 9))
    t = placed(src, in_sum, in_max, tmp_bytes)
    tiling = soft_max_tiling_func((rows + 3, columns), in_sum.itemsize, tmp_bytes)
    shape = SoftMaxShapeInfo(rows, columns, data_rows, columns)
    ran = run(kernel(t, tiling, shape), t, src=src, in_sum=in_sum, in_max=in_max)
    assert ran.findings == ()
    computed = rows if kind == np.float32 else data_rows
    got = ran.array(t["dst"], src)
    assert same(got[:computed], expected(src, in_sum, in_max)[:computed])
    assert (got[computed:].view(np.uint8) == 0xFF).all()


def test_the_example_of_the_page():
    """Rows 0, 4 and 7 of the SimpleSoftMax page, to the digits printed."""
    src = np.float32([
        [-100, -80, -60, -50, -30, -20, -15, -10],
        [0, 0.001, 0.01, 0.05, 0.1, 0.15, 0.2, 0.25],
        [9, 10, 15, 20, 30, 50, 60, 80],
    ])  # fmt: skip
    in_sum, in_max = (
        np.repeat(np.float32(row)[:, None], 8, axis=1) for row in ([1.0067834, 6.880514, 1], [-10, 0.25, 80])
    )
    t = placed(src, in_sum, in_max, 1024)
    ran = run(kernel(t, soft_max_tiling_func((3, 8), 4, 1024)), t, src=src, in_sum=in_sum, in_max=in_max)
    printed = [
        [0, 0, 0, 0, 0, 0.00004509, 0.00669255, 0.99326235],
        [0.11318932, 0.11330257, 0.1143269, 0.11899266, 0.12509353, 0.13150725, 0.13824977, 0.14533797],
        [0, 0, 0, 0, 0, 0, 0, 1],
    ]
    assert np.allclose(ran.array(t["dst"], src), printed, rtol=5e-7, atol=5e-9)  # the sums are printed, too


def test_a_hidden_row_becomes_one_over_its_sum():
    src = np.full((8, 64), LOWEST, np.float32)
    in_sum, in_max = np.full((8, 8), 64, np.float32), np.full((8, 8), LOWEST, np.float32)
    t = placed(src, in_sum, in_max, 1024)
    call = kernel(t, soft_max_tiling_func((8, 64), 4, 1024), is_basic_block=True)
    assert (run(call, t, src=src, in_sum=in_sum, in_max=in_max).array(t["dst"], src) == 1 / 64).all()


def test_the_framework_gives_the_temp():
    rng = np.random.default_rng(1)
    src, in_sum, in_max = inputs(rng, 4, 16, np.float16, np.float16)
    t = placed(src, in_sum, in_max, 32)

    def call(asc):
        buf = asc.t_buf(TPosition.VECCALC, "tensors")
        asc.t_pipe().init_buffer(buf, 1, 4096)
        dst, *rest = (buf.get("half")[t[n].start_bytes // 2] for n in ("dst", "in_sum", "in_max", "src"))
        simple_softmax(asc, dst, *rest, None, soft_max_tiling_func((4, 16), 2, 65536))

    ran = run(call, t, src=src, in_sum=in_sum, in_max=in_max)
    assert ran.findings == ()
    assert same(ran.array(t["dst"], src), expected(src, in_sum, in_max))


# ---- instructions ---------------------------------------------------------------------------------------------------


def blank(rows, columns, kind="float", sums="float", tmp_bytes=65536):
    """Tensors of a call without content."""
    width = {"float": 4, "half": 2}[kind]
    return place(src=(kind, rows * columns * width), in_sum=(sums, 32 * rows), in_max=(sums, 32 * rows),
                 dst=(kind, rows * columns * width), tmp=("uint8_t", tmp_bytes))  # fmt: skip


@pytest.mark.parametrize(("rows", "columns"), [(8, 64), (32, 256), (64, 128), (16, 1984)])
def test_sequence_of_basic_blocks(rows, columns):
    """Leading barrier; counter mask r*64: a Sub for each 64 columns; counter mask r*w: one Exp; a Div for each."""
    t, blocks = blank(rows, columns), columns // 8
    step = f"x1 1,1,0/{blocks},{blocks},1"
    chunks = range(0, columns, 64)
    assert sequence(kernel(t, soft_max_tiling_func((rows, columns), 4, 65536), is_basic_block=True), t) == [
        *("norm", "mask all", "barrier", "count"),
        f"mask n{64 * rows}",
        *(f"vsub n{64 * rows} {step} dst+{at} src+{at} in_max+0" for at in chunks),
        *(f"mask n{rows * columns}", "barrier"),
        f"vexp n{rows * columns} x1 1,1/8,8 dst+0 dst+0",
        *("barrier", f"mask n{64 * rows}"),
        *(f"vdiv n{64 * rows} {step} dst+{at} dst+{at} in_sum+0" for at in chunks),
        *("norm", "mask all"),
    ]


@pytest.mark.parametrize(("rows", "columns"), [(1, 8), (5, 16), (13, 184)])
def test_sequence_of_short_rows(rows, columns):
    """Below 192 columns: counter mask 8r, one instruction for each 8 columns, strides w/8, w/8, 1 and w, w, 8."""
    t, blocks = blank(rows, columns), columns // 8
    step = f"n{8 * rows} x1 {blocks},{blocks},1/{columns},{columns},8"
    chunks = range(0, columns, 8)
    assert sequence(kernel(t, soft_max_tiling_func((rows, columns), 4, 65536)), t) == [
        *("norm", "mask all"),
        *("count", f"mask n{8 * rows}"),
        *(f"vsub {step} dst+{at} src+{at} in_max+0" for at in chunks),
        *("norm", "mask all", "barrier"),
        *("count", f"mask n{rows * columns}", f"vexp n{rows * columns} x1 1,1/8,8 dst+0 dst+0", "norm", "mask all"),
        *("barrier", "count", f"mask n{8 * rows}"),
        *(f"vdiv {step} dst+{at} dst+{at} in_sum+0" for at in chunks),
        *("norm", "mask all"),
    ]


@pytest.mark.parametrize(("rows", "columns"), [(1, 192), (5, 200), (3, 1024)])
def test_sequence_of_long_rows(rows, columns):
    """From 192 columns on: counter mask w, one instruction a row, source-2 block stride 0."""
    t = blank(rows, columns)
    step = f"n{columns} x1 1,1,0/8,8,0"
    at = [(row * columns, 8 * row) for row in range(rows)]
    assert sequence(kernel(t, soft_max_tiling_func((rows, columns), 4, 65536)), t) == [
        *("norm", "mask all"),
        *("count", f"mask n{columns}"),
        *(f"vsub {step} dst+{a} src+{a} in_max+{s}" for a, s in at),
        *("norm", "mask all", "barrier"),
        *("count", f"mask n{rows * columns}", f"vexp n{rows * columns} x1 1,1/8,8 dst+0 dst+0", "norm", "mask all"),
        *("barrier", "count", f"mask n{columns}"),
        *(f"vdiv {step} dst+{a} dst+{a} in_sum+{s}" for a, s in at),
        *("norm", "mask all"),
    ]


def counted(line, count):
    return ["count", f"mask n{count}", f"{line.split(' ')[0]} n{count} {line.partition(' ')[2]}", "norm", "mask all"]


def test_sequence_of_half_with_half_sums():
    """Two tiles of two rows and one of one; maxima and sums are cast behind the data."""
    rows, columns, tmp = 5, 32, 2 * 4 * (32 + 16 + 64)
    t = blank(rows, columns, "half", "half", tmp)
    tiling = soft_max_tiling_func((rows, columns), 2, tmp)
    assert (tiling.split_m, tiling.range_m, tiling.tail_m) == (2, 2, 1)

    def one(first, count):
        n, at, sums = count * columns, first * columns, first * 16
        step = f"x1 4,4,2/{columns},{columns},16"
        parts = range(0, columns, 8)
        spread = f"x1 1,1/8,4 tmp+{2 * columns}"
        return [
            *counted(f"vconv_f162f32 x1 1,1/8,4 tmp+0 src+{at}", n),
            *counted(f"vconv_f162f32 {spread} in_max+{sums}", 16 * count),
            *("barrier", "count", f"mask n{8 * count}"),
            *(f"vsub n{8 * count} {step} tmp+{p} tmp+{p} tmp+{2 * columns}" for p in parts),
            *("norm", "mask all", "barrier"),
            *counted("vexp x1 1,1/8,8 tmp+0 tmp+0", n),
            *counted(f"vconv_f162f32 {spread} in_sum+{sums}", 16 * count),
            *("barrier", "count", f"mask n{8 * count}"),
            *(f"vdiv n{8 * count} {step} tmp+{p} tmp+{p} tmp+{2 * columns}" for p in parts),
            *("norm", "mask all", "barrier"),
            *counted(f"vconv_f322f16a x1 1,1/4,8 dst+{at} tmp+0", n),
        ]

    wanted = ["norm", "mask all", "barrier", *one(0, 2), *one(2, 2), "barrier", *one(4, 1)]
    assert sequence(kernel(t, tiling), t) == wanted


def test_sequence_of_half_basic_blocks():
    rows, columns, tmp = 16, 128, 8 * 4 * (128 + 16 + 64)
    t = blank(rows, columns, "half", "half", tmp)
    tiling = soft_max_tiling_func((rows, columns), 2, tmp)
    assert (tiling.split_m, tiling.range_m, tiling.tail_m) == (8, 2, 0)

    def one(first):
        at, sums, step = first * columns, first * 16, "all x8 1,1,0/16,16,2"
        return [
            f"vconv_f162f32 all x2 1,1/8,4 tmp+1024 in_max+{sums}",
            f"vconv_f162f32 all x16 1,1/8,4 tmp+0 src+{at}",
            "barrier",
            *(f"vsub {step} tmp+{p} tmp+{p} tmp+1024" for p in (0, 64)),
            "barrier",
            "vexp all x16 1,1/8,8 tmp+0 tmp+0",
            f"vconv_f162f32 all x2 1,1/8,4 tmp+1024 in_sum+{sums}",
            "barrier",
            *(f"vdiv {step} tmp+{p} tmp+{p} tmp+1024" for p in (0, 64)),
            "barrier",
            f"vconv_f322f16a all x16 1,1/4,8 dst+{at} tmp+0",
        ]

    assert sequence(kernel(t, tiling, is_basic_block=True), t) == [
        *("norm", "mask all", "barrier"),
        *one(0),
        *one(8),
    ]


def test_exp_of_half_with_float_sums_takes_a_full_tile_in_the_last_one_too():
    t = blank(3, 32, "half", "float", 2 * 4 * (32 + 8 + 64))
    tiling = soft_max_tiling_func((3, 32), 4, 2 * 4 * (32 + 8 + 64))
    assert (tiling.split_m, tiling.tail_m) == (2, 1)
    assert [line for line in sequence(kernel(t, tiling), t) if line.startswith("vexp")] == [
        "vexp n64 x1 1,1/8,8 tmp+0 tmp+0"
    ] * 2


def test_half_is_rounded_to_even_on_arch_2002():
    t = blank(1, 16, "half", "half")
    lines = sequence(kernel(t, soft_max_tiling_func((1, 16), 2, 65536)), t, 2002)
    assert lines[-4] == "vconv_f322f16 n16 x1 1,1/4,8 dst+0 tmp+0"


# ---- the kernel's own tiling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "sizes", "floats", "is_basic_block", "tiles"),
    [
        ((20, 32), (2, 2), 3 * (32 + 16 + 64), False, (3, 6, 2)),
        ((20, 32), (2, 4), 9 * (32 + 8 + 64), False, (8, 2, 4)),  # above 8 in groups of 8
        ((20, 32), (2, 2), 99 * (32 + 16 + 64), False, (20, 1, 0)),
        ((24, 128), (2, 2), 20 * (128 + 16 + 64), True, (8, 3, 0)),  # 16 does not divide 24
        ((16, 1984), (2, 2), 16 * (1984 + 16 + 64), True, (8, 2, 0)),  # 16 rows are 16384 elements and more
        ((20, 999), (4, 4), 5 * (8 + 64), False, (5, 4, 0)),  # float takes no row of temp
    ],
)
def test_the_kernels_own_tiling(shape, sizes, floats, is_basic_block, tiles):
    tiling = soft_max_kernel_tiling(shape, shape[0], *sizes, floats, is_basic_block=is_basic_block)
    assert (tiling.split_m, tiling.range_m, tiling.tail_m) == tiles
    assert (tiling.src_m, tiling.src_k, tiling.split_k) == (*shape, shape[1])
    assert (tiling.split_size, tiling.reduce_size) == (tiles[0] * shape[1], tiles[0] * 32 // sizes[1])
    assert (tiling.tail_split_size, tiling.tail_reduce_size) == (tiles[2] * shape[1], tiles[2] * 32 // sizes[1])


def test_the_kernels_own_tiling_cuts_only_rows_that_are_data():
    tiling = soft_max_kernel_tiling((20, 32), 11, 2, 2, 9 * (32 + 16 + 64))
    assert (tiling.src_m, tiling.split_m, tiling.range_m, tiling.tail_m) == (20, 8, 1, 3)


def test_the_kernels_own_tiling_without_a_row():
    with pytest.raises(SoftMaxInputError, match="In CANN a debug build asserts and a release build divides by zero"):
        soft_max_kernel_tiling((20, 32), 20, 2, 2, 32 + 16 + 63)


# ---- findings -------------------------------------------------------------------------------------------------------

APART = {"dst": 0, "in_sum": 16384, "in_max": 20480, "src": 32768, "tmp": 65536}


def call(rows=16, columns=128, kinds=None, at=None, lengths=None, tiling=None, is_basic_block=False):
    """A call by what differs from a good one of floats."""
    kinds = dict.fromkeys(APART, "float") | {"tmp": "uint8_t"} | (kinds or {})
    width = 2 if kinds["src"] == "half" else 4
    sizes = {"dst": rows * columns * width, "src": rows * columns * width, "in_sum": 32 * rows, "in_max": 32 * rows}
    sizes = sizes | {"tmp": 4096} | (lengths or {})
    t = {n: local(n, kinds[n], (APART | (at or {}))[n], sizes[n]) for n in APART}
    tiling = tiling or soft_max_tiling_func((rows, -(-columns // 16) * 16), 4, 4096)
    return kernel(t, tiling, SoftMaxShapeInfo(rows, columns, rows, columns), is_basic_block)


HALF = dict.fromkeys(("dst", "in_sum", "in_max", "src"), "half")
BASIC = (
    "SimpleSoftMax with basic block needs rows % 8 == 0, last axis % 64 == 0 and 64 <= last axis < 2048, "
    "the shape is 12x128"
)
LEFT_OVER = replace(soft_max_tiling_func((24, 128), 2, 16384), split_m=16, split_size=2048, range_m=1, tail_m=8)
FINDINGS = {
    "data of integers": (
        {"kinds": {"src": "int32_t", "dst": "int32_t"}},
        "E-DTYPE-OP", "SimpleSoftMax does not support int32_t for src; it takes half, float",
        "use one of the types named; reinterpret_cast if the bits are meant",
    ),
    "another destination": (
        {"kinds": {"dst": "half"}},
        "E-DTYPE-OP", "SimpleSoftMax does not support half for dst; it takes float",
        "use one of the types named; reinterpret_cast if the bits are meant",
    ),
    "half sums of float data": (
        {"kinds": {"in_sum": "half", "in_max": "half"}},
        "E-DTYPE-OP", "SimpleSoftMax does not support half for in_sum; it takes float",
        "use one of the types named; reinterpret_cast if the bits are meant",
    ),
    "maxima unlike sums": (
        {"kinds": HALF | {"in_max": "float"}},
        "E-DTYPE-OP", "SimpleSoftMax does not support float for in_max; it takes half",
        "use one of the types named; reinterpret_cast if the bits are meant",
    ),
    "a short destination": (
        {"lengths": {"dst": 8160}},
        "E-OOB-LOCAL", "SimpleSoftMax dst has 2040 elements, 16x128 needs 2048", "allocate the padded shape",
    ),
    "sums that are not datablocks": (
        {"lengths": {"in_sum": 64}},
        "E-OOB-LOCAL", "SimpleSoftMax in_sum has 16 elements, 16x128 needs 128", "allocate the padded shape",
    ),
    "rows of odd datablocks": (
        {"columns": 100},
        "E-ALIGN-LASTAXIS", "SimpleSoftMax last axis 100 is 400 B, no multiple of 32 B",
        "pad the last axis to 104 elements",
    ),
    "no basic block": (
        {"rows": 12, "is_basic_block": True},
        "E-SMG-BASIC",
        BASIC,
        "leave is_basic_block False for such shapes",
    ),
    "basic blocks of half with rows left": (
        {"kinds": HALF, "rows": 24, "is_basic_block": True, "tiling": LEFT_OVER},
        "E-SMG-BASIC",
        "SimpleSoftMax with basic block computes whole tiles only: the last 8 rows stay as they are (tail_m)",
        "make a tiling whose tiles divide the rows (IsBasicBlockInSoftMax), or leave is_basic_block False",
    ),
    "half without a tile": (
        {"kinds": HALF, "tiling": soft_max_tiling_func((16, 128), 2, 64)},
        "E-SMG-NOTILE",
        "SimpleSoftMax of half finds no row that fits its temp (split_m 0): nothing is computed, or it divides by zero",
        "compute the tiling with at least GetSoftMaxMinTmpSize bytes, and give the temp as many",
    ),
    "a temp of floats": (
        {"kinds": {"tmp": "float"}},
        "E-TMP-DTYPE", "temp tensor is float, must be uint8_t", "reinterpret_cast it to uint8_t",
    ),
    "a temp below a row": (
        {"lengths": {"tmp": 768}},
        "E-TMP-SMALL", "SimpleSoftMax temp has 768 B, the minimum for last axis 128 is 800 B",
        "enlarge it to at least the minimum (GetSoftMaxMinTmpSize)",
    ),
    "a temp on the maxima": (
        {"at": {"tmp": 20480}},
        "E-OVERLAP-TMP", "SimpleSoftMax temp overlaps in_max", "give the temp its own memory",
    ),
    "a destination partly on the source": (
        {"at": {"dst": 32768 + 32}},
        "E-OVERLAP", "SimpleSoftMax dst overlaps src without being the same tensor",
        "let them coincide, or keep them apart",
    ),
    "a destination on the sums": (
        {"at": {"dst": 16384 - 8160}},
        "E-OVERLAP", "SimpleSoftMax dst overlaps in_sum", "keep them apart",
    ),
    "a destination that is the sums": (
        {"rows": 16, "columns": 8, "at": {"dst": 16384}},
        "E-OVERLAP-TENSOR", "SimpleSoftMax dst and in_sum are the same tensor", "give each its own memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FINDINGS)
def test_findings(name):
    how, *wanted = FINDINGS[name]
    assert found(call(**how), DEVICES[2201]) == (tuple(wanted),)


def test_a_good_call_has_none():
    assert found(call(), DEVICES[2201]) == ()
    assert found(call(is_basic_block=True), DEVICES[2201]) == ()
    assert found(call(at={"dst": 32768}), DEVICES[2201]) == ()
    assert found(call(lengths={"tmp": 800}), DEVICES[2201]) == ()


def test_half_of_another_shape_with_a_temp_below_a_row_ends_the_recording():
    tiling = soft_max_tiling_func((16, 128), 2, 4096)
    codes = [f[0] for f in found(call(kinds=HALF, rows=15, lengths={"tmp": 768}, tiling=tiling), DEVICES[2201])]
    assert codes == ["E-TMP-SMALL", "E-SMG-NOTILE"]


@pytest.mark.parametrize(("name", "arch"), [("Ascend310B1", 3002), ("Ascend950PR_9579", 3510)])
def test_parts_whose_library_is_not_modelled(name, arch):
    with pytest.raises(KernelError) as error:
        record(call(), load_device(name), 1, (), ())
    assert str(error.value).endswith(
        f"SimpleSoftMax: {name} (arch {arch}) computes through vector registers, and the library's SimpleSoftMax for "
        "it is not modelled; use a part of arch 2201 or 2002"
    )
