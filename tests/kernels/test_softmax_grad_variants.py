"""NZ, basic block and arch 2002 against the closed form, and what surprises in them is found."""

import json

import closed_form
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascendsim as asc
from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT, HALF, UINT8
from ascendsim.errors import Rejected
from ascendsim.machine import schedule
from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import (
    get_soft_max_grad_max_tmp_size,
    get_soft_max_grad_min_tmp_size,
    soft_max_grad_tiling_func,
)
from ascendsim.op_kernel import SoftMaxShapeInfo, softmax_grad, softmax_grad_front
from ascendsim.program import from_arrays, to_arrays
from ascendsim.record import record
from ascendsim.report import markdown
from ascendsim.terms import DataFormat, Pipe, TPosition
from ascendsim.trace import trace_json

SOCS = {"Ascend910B1": 2201, "Ascend310P3": 2002}


def _data(m, k, dtype, seed):
    random = np.random.RandomState(seed)
    logits = random.standard_normal((m, k)) * 2
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return random.standard_normal((m, k)).astype(dtype), (p / p.sum(axis=1, keepdims=True)).astype(dtype)


def _bits(array):
    return array.view(f"u{array.dtype.itemsize}")


def _drawn(data, unit):
    """(part, dtype, m, k, ori_k, is_front, temp bytes, grad, src) with last axes in this unit or the dtype's."""
    soc = data.draw(st.sampled_from(sorted(SOCS)))
    dtype = data.draw(st.sampled_from([np.float32, np.float16]))
    size = np.dtype(dtype).itemsize
    unit = unit or 32 // size
    m = data.draw(st.integers(1, 30))
    k = unit * data.draw(st.integers(1, 12))
    ori_k = data.draw(st.integers(max(1, k - unit + 1), k))
    is_front = data.draw(st.booleans())
    tmp_bytes = get_soft_max_grad_min_tmp_size((m, k), size, is_front, 2201) * data.draw(st.integers(1, m))
    grad, src = _data(m, k, dtype, data.draw(st.integers(0, 99)))
    return soc, dtype, m, k, ori_k, is_front, tmp_bytes, grad, src


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_nd_on_arch_2002(data):
    _, dtype, m, _, ori_k, is_front, tmp_bytes, grad, src = _drawn(data, 0)
    result = asc.softmax_grad(grad, src, "Ascend310P3", ori_shape=(m, ori_k), tmp_bytes=tmp_bytes, is_front=is_front)
    want = closed_form.softmax_grad(grad, src, ori_k, is_front=is_front, row_sum=closed_form.row_sum_2002, to_even=True)
    assert result.outputs["dst"].dtype == dtype
    assert (_bits(result.outputs["dst"]) == _bits(want)).all()


@settings(max_examples=50, deadline=None, derandomize=True)
@given(data=st.data())
def test_nz(data):
    """The padding holds data: rows that sum it do so in the result, too."""
    soc, _, m, k, ori_k, is_front, tmp_bytes, grad, src = _drawn(data, 16)
    api = data.draw(st.sampled_from([asc.softmax_grad, asc.softmax_grad_front] if is_front else [asc.softmax_grad]))
    more = {"is_front": is_front} if api is asc.softmax_grad else {}
    result = api(
        closed_form.to_nz(grad),
        closed_form.to_nz(src),
        soc,
        data_format="NZ",
        ori_shape=(m, ori_k),
        tmp_bytes=tmp_bytes,
        **more,
    )
    tiling = soft_max_grad_tiling_func((m, k), src.itemsize, tmp_bytes, is_front)
    tiles = [tiling.split_m] * tiling.range_m + [tiling.tail_m] * (tiling.tail_m > 0)
    products = grad.astype(np.float32) * src.astype(np.float32)
    sums = closed_form.sums_nz(products, ori_k, tiles, is_front=is_front)
    want = closed_form.softmax_grad(grad, src, is_front=is_front, sums=sums, to_even=SOCS[soc] == 2002)
    want = want if is_front else closed_form.to_nz(want)
    assert (_bits(result.outputs["dst"]) == _bits(want)).all()
    summed = ori_k < k and (is_front or (k > 16 and any(rows >= 4 for rows in tiles)))
    assert summed == any(f.code == "W-SMG-NZPAD" for f in result.findings)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_basic_block(data):
    soc = data.draw(st.sampled_from(sorted(SOCS)))
    dtype = data.draw(st.sampled_from([np.float32, np.float16]))
    size = np.dtype(dtype).itemsize
    m = 8 * data.draw(st.integers(1, 5))
    k = 64 * data.draw(st.integers(4 // size, 6))
    rows = 8 * data.draw(st.integers(1, m // 8))
    tmp_bytes = get_soft_max_grad_min_tmp_size((m, k), size, True, 2201) * rows
    ori_k = data.draw(st.sampled_from([k, k - 1]))
    grad, src = _data(m, k, dtype, data.draw(st.integers(0, 99)))
    result = asc.softmax_grad_front(grad, src, soc, is_basic_block=True, tmp_bytes=tmp_bytes, ori_shape=(m, ori_k))
    want = closed_form.softmax_grad(
        grad, src, is_front=True, row_sum=closed_form.row_sum_basic_block, to_even=SOCS[soc] == 2002
    )
    assert (_bits(result.outputs["dst"]) == _bits(want)).all()
    codes = {f.code for f in result.findings}
    assert codes == ({"W-SMG-PADDING", "W-SMG-BLOCKPAD"} if ori_k < k else set())


@pytest.mark.parametrize("soc", sorted(SOCS))
@pytest.mark.parametrize(
    ("m", "k", "dtype", "data_format", "basic"),
    [
        (600, 16, np.float32, "NZ", False),  # more rows in a tile than one repeat field holds
        (300, 48, np.float16, "NZ", False),
        (13, 64, np.float32, "NZ", False),  # rows by the scalar unit, eight at a time
        (2, 2048, np.float32, "NZ", False),
        (32, 1024, np.float16, "ND", True),
        (8, 1984, np.float32, "ND", True),
    ],
)
def test_large_ones(soc, m, k, dtype, data_format, basic):
    grad, src = _data(m, k, dtype, 5)
    to_even = SOCS[soc] == 2002
    if basic:
        tmp_bytes = get_soft_max_grad_max_tmp_size((m, k), src.itemsize, True, 2201)  # all rows in one pass
        result = asc.softmax_grad_front(grad, src, soc, is_basic_block=True, tmp_bytes=tmp_bytes)
        row_sum = closed_form.row_sum_basic_block
        want = closed_form.softmax_grad(grad, src, is_front=True, row_sum=row_sum, to_even=to_even)
    else:
        result = asc.softmax_grad(closed_form.to_nz(grad), closed_form.to_nz(src), soc, data_format="NZ")
        sums = closed_form.sums_nz(grad.astype(np.float32) * src.astype(np.float32), k, [m], is_front=False)
        want = closed_form.to_nz(closed_form.softmax_grad(grad, src, sums=sums, to_even=to_even))
    assert {f.code for f in result.errors} <= {"E-CAP-UB", "E-CAP-UB-HW"}
    assert (_bits(result.outputs["dst"]) == _bits(want)).all()


@pytest.mark.parametrize("soc", sorted(SOCS))
@pytest.mark.parametrize("data_format", list(DataFormat))
@pytest.mark.parametrize("is_front", [False, True])
def test_the_frameworks_temp_gives_the_same_values(soc, data_format, is_front):
    grad, src = _data(16, 128, np.float16, 8)
    if data_format is DataFormat.NZ:
        grad, src = closed_form.to_nz(grad), closed_form.to_nz(src)
    common = {"soc": soc, "data_format": data_format, "is_front": is_front}
    shared, framework = (asc.softmax_grad(grad, src, tmp_bytes=t, **common) for t in (None, "framework"))
    assert (_bits(shared.outputs["dst"]) == _bits(framework.outputs["dst"])).all()


@pytest.mark.parametrize("soc", sorted(SOCS))
def test_the_frameworks_temp_inside_a_kernel(soc):
    """Without a shared buffer each variant takes what lies behind the queues."""
    x = [LocalTensor(n, TPosition.VECCALC, FLOAT, i * 8192, 8192) for i, n in enumerate(("dst", "grad", "src"))]
    tiling = soft_max_grad_tiling_func((16, 64), 4, 65536, False)

    def kernel(a):
        a.t_pipe()
        softmax_grad(a, *x, None, tiling)
        softmax_grad(a, *x, None, tiling, data_format=DataFormat.NZ)
        softmax_grad_front(a, *x, None, tiling, is_basic_block=True)

    recording = record(kernel, load_device(soc), 1, (), ())
    assert recording.complete
    assert {f.code for f in recording.findings} <= {"E-OVERLAP-TMP"}  # the temp begins at 0: there are no queues
    names = {t.name for template in recording.program.templates for t in template.tensors}
    assert names == {"dst", "grad", "src", "framework_tmp"}


def test_marked_steps_follow_the_page():
    """mul, reducesum, broadcast, sub, mul, in this order, whatever the layout and the architecture."""
    grad, src = _data(16, 128, np.float16, 8)
    nz = (closed_form.to_nz(grad), closed_form.to_nz(src))
    for soc in SOCS:
        runs = {
            "ND": asc.softmax_grad(grad, src, soc),
            "NZ": asc.softmax_grad(*nz, soc, data_format="NZ"),
            "basic": asc.softmax_grad_front(grad, src, soc, is_basic_block=True),
        }
        for name, result in runs.items():
            steps = [s.split("/")[1] for s in result.program.steps if "/" in s]
            wanted = ["cast in", "mul", "reducesum", "broadcast"]
            wanted += {"ND": ["broadcast to k"], "NZ": [], "basic": []}[name]
            wanted += [] if name == "basic" else ["sub", "mul by src"]
            assert steps == [*wanted, "cast out"], (soc, name)


def test_a_run_in_nz_is_shown_and_kept():
    """Trace, report and run folder know the transpose, whose operands are in registers."""
    grad, src = (closed_form.to_nz(a) for a in _data(16, 64, np.float32, 2))
    result = asc.softmax_grad(grad, src, data_format="NZ")
    events = [e for e in json.loads(trace_json(result))["traceEvents"] if e["pid"] != "Critical path"]
    assert sum(e["name"] == "SCATTER_VNCHWCONV_B32" for e in events) == 1
    assert sum(e["name"] == "SET_VA_REG_SB" for e in events) == 4
    assert "SoftmaxGrad/broadcast" in markdown(result)
    arrays = to_arrays(result.program)
    assert from_arrays(arrays).digest == result.program.digest
    transposed = [r for t in result.program.templates for r in t.rows if r.op.name == "trans_data_to5hd"]
    assert [r.pipe for r in transposed] == [Pipe.V]
    assert result.scenario["data_format"] == "NZ"
    assert len(schedule(result.program, result.device, "both")) == len(result.program)


# ---- what surprises is found ------------------------------------------------------------------------------------


def _findings(soc="Ascend910B1", **changes):
    """Record one call on tensors that lie apart and return (code, message) of what was found."""
    m, k, ori_m, ori_k = changes.pop("shape", (16, 64, 16, 64))
    element = changes.pop("element", FLOAT)
    tmp_bytes = changes.pop("tmp_bytes", 65536)
    is_front, front_api = changes.pop("is_front", False), changes.pop("front_api", False)
    basic, data_format = changes.pop("is_basic_block", False), changes.pop("data_format", DataFormat.ND)
    tiling_shape = changes.pop("tiling_shape", (m, k))
    assert not changes
    size = m * k * element.bytes
    dst, grad, src = (LocalTensor(n, TPosition.VECCALC, element, i * size, size) for i, n in enumerate("dgs"))
    tmp = LocalTensor("tmp", TPosition.VECCALC, UINT8, 3 * size, tmp_bytes)
    tiling = soft_max_grad_tiling_func(tiling_shape, element.bytes, tmp_bytes, is_front or front_api)
    info = SoftMaxShapeInfo(m, k, ori_m, ori_k)

    def kernel(a):
        if front_api:
            softmax_grad_front(
                a, dst, grad, src, tmp, tiling, info, data_format=data_format, is_basic_block=basic
            )  # fmt: skip
        else:
            softmax_grad(a, dst, grad, src, tmp, tiling, is_front, info, data_format=data_format)

    recording = record(kernel, load_device(soc), 1, (), ())
    assert all(f.where.startswith("test_softmax_grad_variants.py:") for f in recording.findings)
    assert all(f.hint and f.source for f in recording.findings)
    return [(f.code, f.message) for f in recording.findings]


NZ = {"data_format": DataFormat.NZ}
BLOCKS = {"front_api": True, "is_basic_block": True}
HALF_BLOCKS = BLOCKS | {"element": HALF}
ON_2002 = {"soc": "Ascend310P3"}


def _nz_padding(rows, m, ori_k, k):
    return "W-SMG-NZPAD", f"SoftmaxGrad NZ sums padded columns in {rows} of {m} rows (ori_src_k {ori_k} of {k})"


def _block_rows(rows, past):
    text = f"SoftmaxGradFront with basic block and {rows} rows a pass: the last pass writes {past} B behind dst"
    return "E-SMG-BLOCKROWS", text


def _basic(low, shape):
    text = f"basic block needs rows % 8 == 0, last axis % 64 == 0 and {low} <= last axis < 2048, the shape is {shape}"
    return "E-SMG-BASIC", text


def _stale(words):
    return "I-SMG-STALE", f"SoftmaxGrad adds row sums as whole datablocks, {words} words of each of which nobody wrote"


BLOCK_PADDING = "W-SMG-BLOCKPAD", "SoftmaxGradFront with basic block sums all 64 columns, ori_src_k 60 is ignored"
ORI_ROWS = "I-SMG-ORIM", "SoftmaxGrad computes all 16 rows, ori_src_m 11 is ignored"
MASK = "I-SMG-MASK", "SoftmaxGrad leaves the vector mask at its first 8 lanes instead of a full mask"
NZ_AXIS = "E-SMG-NZ", "SoftmaxGrad last axis 24 is no multiple of 16 elements, the columns of an NZ slab"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        (NZ | {"shape": (16, 64, 16, 57)}, _nz_padding(16, 16, 57, 64)),
        (NZ | {"shape": (14, 64, 14, 57)}, _nz_padding(12, 14, 57, 64)),  # two rows behind three groups of four
        (NZ | {"shape": (16, 64, 16, 40)}, _nz_padding(16, 16, 40, 64)),  # more than the last slab is padding
        (NZ | {"shape": (3, 64, 3, 40)}, _nz_padding(3, 3, 40, 64)),
        (NZ | {"shape": (16, 16, 16, 9), "is_front": True}, _nz_padding(16, 16, 9, 16)),
        (BLOCKS | {"shape": (16, 64, 16, 60)}, BLOCK_PADDING),
        (BLOCKS | {"tmp_bytes": 544}, _block_rows(1, 224)),
        (BLOCKS | {"tmp_bytes": 4 * 544}, _block_rows(4, 128)),
        (HALF_BLOCKS | {"shape": (16, 128, 16, 128), "tmp_bytes": 2 * 1920}, _block_rows(2, 64)),
        ({"shape": (16, 64, 11, 64)}, ORI_ROWS),
        ({"shape": (15, 64, 15, 64), "is_front": True}, MASK),
        (ON_2002 | {"is_front": True}, MASK),
        (ON_2002 | {"shape": (16, 72, 16, 65)}, _stale(7)),
        (ON_2002 | {"shape": (16, 80, 16, 80), "element": HALF}, _stale(15)),
        (NZ | {"shape": (16, 24, 16, 24)}, NZ_AXIS),
        (BLOCKS | {"shape": (15, 64, 15, 64)}, _basic(64, "15x64")),
        (HALF_BLOCKS | {"shape": (8, 64, 8, 64)}, _basic(128, "8x64")),
        (BLOCKS | {"shape": (8, 2048, 8, 2048)}, _basic(64, "8x2048")),
    ],
)
def test_a_surprise_is_found_with_its_words(changes, found):
    assert found in _findings(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        NZ,
        NZ | {"is_front": True},
        BLOCKS,
        BLOCKS | {"tmp_bytes": 8 * 544},
        BLOCKS | {"element": HALF, "shape": (16, 128, 16, 128), "tmp_bytes": 4 * 1920},
        BLOCKS | {"soc": "Ascend310P3"},
        {"is_front": True},
        {"is_front": True, "element": HALF, "soc": "Ascend310P3"},
        {"soc": "Ascend310P3"},
        NZ | {"soc": "Ascend310P3", "shape": (16, 128, 16, 128)},
    ],
)
def test_nothing_is_found_where_nothing_surprises(changes):
    assert _findings(**changes) == []


@pytest.mark.parametrize(
    "shape",
    [
        (3, 64, 3, 57),  # fewer than four rows: every row leaves the padding out
        (16, 16, 16, 9),  # one slab: a tree over the data
    ],
)
def test_padding_that_nz_leaves_out_is_only_padding(shape):
    m, k, _, ori_k = shape
    (found,) = _findings(**NZ, shape=shape)
    text = f"{m * (k - ori_k)} padded elements of {m}x{k} (data {m}x{ori_k}) are computed and written too"
    assert found == ("W-SMG-PADDING", text)


def test_a_last_basic_block_that_the_tail_overwrites_is_no_error():
    """Passes of 3 rows over 8: rows 0-2, 3-5, a tail of 2. The second pass writes 8 rows from row 3 on, 3 too many."""
    found = dict(_findings(**BLOCKS, shape=(8, 64, 8, 64), tmp_bytes=3 * 544))
    assert found["E-SMG-BLOCKROWS"].endswith("the last pass writes 96 B behind dst")
    assert "E-SMG-BLOCKROWS" not in dict(_findings(**BLOCKS, shape=(16, 64, 16, 64), tmp_bytes=7 * 544))


@pytest.mark.parametrize("soc", sorted(SOCS))
def test_a_temp_below_the_kernels_own_need_ends_the_recording(soc):
    """The host's minimum for front results is 8 floats less than what the kernel asks for in NZ when it re-tiles."""
    grad, src = (closed_form.to_nz(a) for a in _data(16, 64, np.float32, 3))
    low = get_soft_max_grad_min_tmp_size((16, 64), 4, True, SOCS[soc])
    other = soft_max_grad_tiling_func((17, 64), 4, low, True)
    with pytest.raises(Rejected) as caught:
        asc.softmax_grad_front(grad, src, soc, data_format="NZ", tmp_bytes=low, tiling=other)
    assert [f.code for f in caught.value.findings] == ["E-SMG-NOTILE"]
    with pytest.raises(Rejected):
        asc.softmax_grad_front(
            grad, src, soc, data_format="NZ", tmp_bytes=low, tiling=other, despite_findings=True
        )  # fmt: skip
    fits = asc.softmax_grad_front(grad, src, soc, data_format="NZ", tmp_bytes=low + 32, tiling=other)
    assert fits.findings == ()


def test_basic_block_tiles_that_are_halved_away_end_the_recording():
    grad, src = _data(16, 16384, np.float32, 4)
    other = soft_max_grad_tiling_func((17, 16384), 4, 16 * 65824, True)
    with pytest.raises(Rejected) as caught:
        asc.softmax_grad_front(grad, src, is_basic_block=True, tmp_bytes=16 * 65824, tiling=other)
    assert {f.code for f in caught.value.findings} >= {"E-SMG-NOTILE"}
