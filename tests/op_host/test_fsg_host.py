"""FastSoftMaxGradOperation on the host: published cases, golden tilings, who has which row."""

import csv
from collections import Counter

import pytest
from conftest import GOLDEN
from hypothesis import given, settings
from hypothesis import strategies as st

import ascendsim as asc
from ascendsim import atb
from ascendsim.op_host.fsg_tiling import TMP_BYTES, fsg_tiling

UB = 196608
STRUCT = ("split_m", "reduce_m", "range_m", "tail_m", "tail_split_size", "tail_reduce_size")
FIELDS = (
    "seq", "seq_aligned", "data_offset_elems", "data_length_elems", "outer_rows", "row_bytes", "tile_rows",
    "tail_tile_rows", "former_cores", "latter_cores", "former_tiles", "latter_tiles",
)  # fmt: skip


def rows(name):
    with (GOLDEN / name).open() as file:
        return list(csv.DictReader(file))


def numbers(text):
    return [int(part) for part in text.split(";") if part]


def descs(row, side):
    columns = (row[f"{side}_{what}"].split(";") for what in ("dtypes", "formats", "shapes"))
    return [
        atb.TensorDesc(kind, form, tuple(int(axis) for axis in dims.split(",")))
        for kind, form, dims in zip(*columns, strict=True)
    ]


# ---- the three stages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", rows("fastsoftmaxgrad_cases.csv"), ids=lambda row: row["case_id"])
def test_published_cases(row):
    reserved = [1, *[0] * 7] if row["rsv_nonzero"] == "yes" else [0] * 8
    params = atb.FastSoftMaxGradParam(int(row["head_num"]), numbers(row["q_seq_len"]), reserved)
    report = atb.setup(params, descs(row, "in"), row["soc"], descs(row, "out"))
    assert (report.stage, report.error) == (row["error_stage"] or "ok", row["expected_error"])
    assert (report.tiling is None) == (report.message != "") == bool(row["error_stage"])
    assert params.n_square_tokens == int(row["head_num_times_sum_sq"])


def test_the_page_of_the_operation():
    params = atb.FastSoftMaxGradParam(headNum=8, qSeqLen=[487, 16, 532, 413])
    report = atb.setup(params, {"yInput": params.desc, "yGrad": params.desc}, "Ascend910_9392")
    assert params.n_square_tokens == 5528144
    assert (report.stage, report.error, report.message) == (atb.Stage.OK, atb.ErrorName.NO_ERROR, "")
    assert report.outputs == (atb.TensorDesc("float16", "nd", (5528144,)),)
    assert report.workspace_bytes == 0


def test_the_defaults_are_the_pages():
    params = atb.FastSoftMaxGradParam()
    assert (params.headNum, params.qSeqLen, params.rsv) == (0, (), (0,) * 8)
    assert (params.head_num, params.q_seq_len) == (0, ())


@pytest.mark.parametrize(
    ("soc", "stage"),
    [
        ("Atlas 350 accelerator cards", "create"),
        ("Atlas training products", "create"),
        ("Atlas inference products", "create"),
        ("Atlas 200I/500 A2 inference products", "create"),
        ("Ascend310P3", "create"),
        ("Ascend310B1", "create"),
        ("Ascend950PR_9589", "create"),
        ("Ascend910A", "create"),
        ("Ascend910B4", "ok"),
        ("Ascend910_9392", "ok"),
        (asc.Platform(aic_cores=20, aiv_cores=40), "ok"),
    ],
)
def test_products(soc, stage):
    params = atb.FastSoftMaxGradParam(1, [16])
    report = atb.setup(params, [params.desc] * 2, soc)
    assert report.stage == stage
    if stage == "create":
        assert report.error == "ERROR_INVALID_PARAM"
        assert f"does not run on {soc}" in report.message
        assert "its page marks the product x, and creation takes parts of the 910B class" in report.message


@pytest.mark.parametrize("name", ["Atlas A2 training products", "Atlas A3 inference products"])
def test_a_product_that_has_parts_to_choose_from(name):
    params = atb.FastSoftMaxGradParam(1, [16])
    with pytest.raises(asc.DeviceError, match="choose one of its parts: Ascend910"):
        atb.setup(params, [params.desc] * 2, name)


SMALL = atb.FastSoftMaxGradParam(2, [4, 3])
HALF = SMALL.desc


def desc(*dims, dtype="float16", form="nd"):
    return atb.TensorDesc(dtype, form, dims)


@pytest.mark.parametrize(
    ("params", "inputs", "outputs", "stage", "error", "text"),
    [
        ((0, []), None, None, "create", "PARAM", "qSeqLen is empty: must have 1 .. 32 lengths"),
        ((0, [1] * 33), None, None, "create", "PARAM", "qSeqLen has 33 lengths: at most 32"),
        ((0, [5000, -1]), None, None, "create", "PARAM", "qSeqLen[0] = 5000: at most 4096, a limit that the page does"),
        ((0, [1, -1]), None, None, "create", "PARAM", "qSeqLen[1] = -1: must be greater than 0"),
        ((-3, [1]), None, None, "create", "PARAM", "headNum = -3: must be greater than 0"),
        ((2, [1], [0, 0, 7, 0, 0, 0, 0, 0]), None, None, "create", "PARAM", "rsv[2] = 7: must be 0"),
        ((2, [4, 3]), [HALF] * 3, None, "infer_shape", "IN_TENSOR_NUM", "3 input tensors: FastSoftMaxGradOperation"),
        ((2, [4, 3]), [HALF, desc()], None, "infer_shape", "TENSOR_DIM", "yGrad has 0 axes: a tensor has 1 .. 8"),
        ((2, [4, 3]), [desc(0), HALF], None, "infer_shape", "TENSOR_SIZE", "yInput [0] has 0 B: must be"),
        (
            *((2, [4, 3]), [desc(2, 25, dtype="bf16"), desc(1)], None, "infer_shape", "TENSOR_INI_MATCH"),
            "yInput is bf16 nd: FastSoftMaxGradOperation takes float16 nd",
        ),
        ((2, [4, 3]), [desc(1), desc(2, 25)], None, "infer_shape", "TENSOR_DIM_NUM", "yGrad has 2 axes [2, 25]"),
        (
            *((2, [4, 3]), [HALF, desc(51)], None, "infer_shape", "TENSOR_DIM"),
            "yGrad has 51 elements: must have nSquareTokens = headNum * sum of squares = 50",
        ),
        ((2, [4, 3]), None, [], "setup", "IN_TENSOR_NUM", "0 output tensors: FastSoftMaxGradOperation has 1, output"),
        ((2, [4, 3]), None, [desc(50, dtype="float")], "setup", "TENSOR_INI_MATCH", "output is float nd"),
        ((2, [4, 3]), None, [desc(2, 25)], "setup", "TENSOR_DIM", "output has 2 axes [2, 25]"),
        ((2, [4, 3]), None, [desc(49)], "setup", "TENSOR_SIZE", "output has 49 elements, yInput 50"),
    ],
)
def test_checks_in_their_order(params, inputs, outputs, stage, error, text):
    made = atb.FastSoftMaxGradParam(*params)
    report = atb.setup(made, [made.desc] * 2 if inputs is None else inputs, "Ascend910B1", outputs)
    assert (report.stage, report.error) == (stage, f"ERROR_INVALID_{error}")
    assert text in report.message
    assert "to mend it: " in report.message


@pytest.mark.parametrize(("last", "stage"), [(4095, "ok"), (4096, "setup")])
def test_what_the_kernel_counts_in_32_bits(last, stage):
    """32 items of 4096 and 8 heads are 2^32 elements, one more than the kernel can count."""
    params = atb.FastSoftMaxGradParam(8, [*[4096] * 31, last])
    report = atb.setup(params, [params.desc] * 2)
    assert report.stage == stage
    if stage == "setup":
        assert report.error == "ERROR_RT_FAIL"
        assert "sum of squares of qSeqLen = 536870912: the kernel counts elements in 32 bits" in report.message
        assert "must be below 536870911 = floor((2^32 - 1) / headNum)" in report.message
        assert report.outputs == (params.desc,)  # shape inference accepts it


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: atb.FastSoftMaxGradParam(headNum=2.0), "headNum = 2.0: must be a whole number"),
        (lambda: atb.FastSoftMaxGradParam(headNum=2**31), "headNum = 2147483648: its type holds -2147483648 .. "),
        (lambda: atb.FastSoftMaxGradParam(1, 5), "qSeqLen = 5: must be a list of whole numbers"),
        (lambda: atb.FastSoftMaxGradParam(1, [1, True]), r"qSeqLen\[1\] = True: must be a whole number"),
        (lambda: atb.FastSoftMaxGradParam(1, [1], [0] * 7), "rsv has 7 bytes: must be 8"),
        (lambda: atb.FastSoftMaxGradParam(1, [1], [256, *[0] * 7]), r"rsv\[0\] = 256: its type holds 0 .. 255"),
        (lambda: atb.setup(SMALL, ["half"]), r"tensors: 'half' is no TensorDesc\(dtype, format, dims\)"),
        (lambda: atb.setup(SMALL, {"y": HALF}), "has yInput, yGrad, output, not 'y'"),
        (lambda: atb.setup({"headNum": 1}, [HALF] * 2), "must be a FastSoftMaxGradParam"),
    ],
)
def test_what_no_call_can_hold(make, text):
    with pytest.raises(asc.InputError, match=text):
        make()


@pytest.mark.parametrize("spelled", ["float16", "half", "FP16", "ACL_FLOAT16"])
def test_types_by_any_name(spelled):
    assert atb.TensorDesc(spelled, "ACL_FORMAT_ND", [50]) == HALF


# ---- tiling --------------------------------------------------------------------------------------------------------


def test_every_golden_tiling():
    found = rows("fastsoftmaxgrad_tiling.csv")
    for row in found:
        tiling = fsg_tiling(*(int(row["head_num"]), numbers(row["q_seq_len"])), int(row["aiv_cores"]), UB)
        sample = tiling.samples[int(row["sample"])]
        got = {"block_dim": tiling.block_dim, "tiling_bytes": tiling.tiling_bytes}
        got |= {name: getattr(sample, name) for name in FIELDS}
        for part in ("main", "tail"):
            struct = getattr(sample, part)
            got |= {f"{part}_{name}": 0 if struct is None else getattr(struct, name) for name in STRUCT}
        assert {name: str(value) for name, value in got.items()} == {name: row[name] for name in got}, row["case_id"]
    assert len(found) == 598


LENGTHS = st.lists(st.integers(1, 4096), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(heads=st.integers(1, 12), lengths=LENGTHS, cores=st.sampled_from([1, 40, 48]), rows_at_most=st.integers(0, 40))
def test_every_row_has_one_core_and_all_fits(heads, lengths, cores, rows_at_most):
    tiling = fsg_tiling(heads, lengths, cores, UB, tile_rows=rows_at_most or None)
    at = 0
    for sample in tiling.samples:
        seen = Counter(
            row for core in range(cores) for first, count in sample.tiles(core) for row in range(first, first + count)
        )
        assert seen == Counter(range(heads * sample.seq))
        assert sum(map(sample.rows_of_core, range(cores))) == heads * sample.seq
        assert sample.data_offset_elems == at
        at += heads * sample.seq**2
        if not rows_at_most:
            assert tiling.used_bytes(sample) <= 147072
        else:
            assert sample.tile_rows <= rows_at_most
    assert (sum(tiling.elements()), tiling.count) == (at, at)


def test_temp_is_one_row_of_the_longest_item():
    assert TMP_BYTES == 4 * (3 * 4096 + 96) == 49536


@pytest.mark.parametrize(
    ("prescribed", "text"),
    [
        ({"tmp_bytes": 98304}, "tiling.tmp_bytes = 98304 with 2 buffers: the operator's formula, UB / buffers - "),
        ({"nums": (3, 2, 2)}, "leaves 16000 B for a row of length 4096, which takes 24640 B"),
    ],
)
def test_prescribed_numbers_that_leave_no_row(prescribed, text):
    with pytest.raises(asc.InputError) as caught:
        fsg_tiling(1, [4096], 48, UB, **prescribed)
    assert text in str(caught.value)


def test_few_rows_leave_cores_idle():
    tiling = fsg_tiling(1, [2], 48, UB)
    assert tiling.tiles() == (1, 1, *[0] * 46)
    assert tiling.block_dim == 48
