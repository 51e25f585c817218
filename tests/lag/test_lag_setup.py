"""LaserAttentionGrad up to its kernel: golden rows, every refusal word by word, the order of checks, notes."""

from dataclasses import replace

import numpy as np
import pytest
from lag_harness import EMPTY_LAYOUT, params_of_row, rows, shapes, tensors_of_row

from ascendsim.device import Platform
from ascendsim.errors import DeviceError, InputError
from ascendsim.lag import LaserAttentionGradParam, TensorDesc, Tensors, gradient_range, mask_values, setup
from ascendsim.op_host.lag_params import INI, LagCall
from ascendsim.op_host.lag_tiling import LagPlatform, lag_tiling

B1 = "Ascend910B1"
PARAMS = {"headNum": 4, "preTokens": 1024}


def asked(tensors=None, soc=B1, **params):
    return setup(LaserAttentionGradParam(**{**PARAMS, **params}), shapes() if tensors is None else tensors, soc)


def said(report):
    return str(report.stage), str(report.error), report.findings[0].message


# --- golden rows ---


@pytest.mark.parametrize("row", rows("laser_attention_grad_cases.csv"), ids=lambda row: row["case_id"])
def test_golden_calls(row):
    report = setup(params_of_row(row), tensors_of_row(row), row["soc"] or B1)
    assert (str(report.stage), str(report.error)) == (row["error_stage"] or "ok", row["expected_error"])


@pytest.mark.parametrize("row", rows("laser_attention_grad_tiling.csv"), ids=lambda row: row["case_id"])
def test_golden_tilings(row):
    numbers = {name: int(value) for name, value in row.items() if value.isdecimal()}
    sizes = {"batch": "B", "heads": "Nq", "kv_heads": "Nkv", "length": "Sq", "kv_length": "Skv", "size": "Dq"}
    call = shapes(row["layout"], has_mask=numbers["has_mask"] == 1, **{name: numbers[of] for name, of in sizes.items()})
    params = LaserAttentionGradParam(headNum=numbers["Nq"], inputLayout=row["layout"], preTokens=numbers["pre_tokens"])
    part = Platform(numbers["aic_cores"], numbers["aiv_cores"], numbers["ub_bytes"])
    report = setup(params, call, part)
    assert (str(report.error), report.workspace_bytes) == ("NO_ERROR", numbers["workspace_bytes"])
    found = report.tiling.fields()
    assert list(found) == list(row)[15:]
    words = {"yes": 1, "no": 0}
    assert found == {name: words[row[name]] if row[name] in words else int(row[name]) for name in found}


def test_a_golden_tiling_of_25_cubes_through_setup():
    row = next(row for row in rows("laser_attention_grad_tiling.csv") if row["case_id"] == "lagt122")
    tensors = shapes(length=512, kv_length=1024, has_mask=False)
    report = setup(LaserAttentionGradParam(headNum=4, preTokens=512), tensors, Platform(25, 50))
    assert report.tiling is not None
    assert report.workspace_bytes == int(row["workspace_bytes"])
    assert [finding.code for finding in report.findings] == ["W-LAG-CORES", "W-LAG-POST"]
    assert report.findings[0].message == (
        "the chip reports 25 AICs, 24 blocks are launched: the pass behind the kernel deals gradients to 50 AIVs, of "
        "which 48 run, so the share of the others is never written"
    )


# --- parameters ---


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"headNum": 0}, "headNum = 0: must be greater than 0"),
        ({"headNum": -1}, "headNum = -1: must be greater than 0"),
        (
            {"inputLayout": "BSH"},
            'inputLayout = "BSH": must be "BNSD" or "SBH"; the page lists BNSD alone, the operator takes SBH, too',
        ),
        ({"scaleValue": 0.0}, "scaleValue = 0.0: must be above 0 and at most 1"),
        ({"scaleValue": float("nan")}, "scaleValue = nan: must be above 0 and at most 1"),
        ({"preTokens": 0}, "preTokens = 0: must be at least 1 and a multiple of 256"),
        ({"preTokens": 300}, "preTokens = 300: must be at least 1 and a multiple of 256"),
        ({"innerPrecise": 0}, "innerPrecise = 0: must be 1, high precision"),
        ({"rsv": (0, 0, 7, 0, 0, 0, 0, 0)}, "rsv[2] = 7: must be 0"),
    ],
)
def test_parameters_that_are_refused(params, message):
    assert said(asked(**params)) == ("create", "ERROR_INVALID_PARAM", message)


def test_a_missing_layout_is_the_default_and_an_empty_text_is_none():
    assert asked().call.layout == LaserAttentionGradParam().inputLayout == "BNSD"
    assert said(asked(inputLayout=""))[1:] == (
        "ERROR_INVALID_PARAM",
        'inputLayout = "": must be "BNSD" or "SBH"; the page lists BNSD alone, the operator takes SBH, too',
    )


def test_one_golden_row_alone_needs_the_empty_text():
    """All others that creation refuses give a parameter, or a part, that it refuses."""
    refused = [row for row in rows("laser_attention_grad_cases.csv") if row["error_stage"] == "create"]
    other = [row["case_id"] for row in refused if asked_as_written(row) != "create"]
    assert other == [EMPTY_LAYOUT]


def asked_as_written(row):
    """The stage that refuses a row whose empty cells are defaults, all of them."""
    params = replace(params_of_row(row), inputLayout=row["input_layout"] or "BNSD")
    return str(setup(params, tensors_of_row(row), row["soc"] or B1).stage)


def test_the_default_of_pre_tokens_fails_its_own_check():
    report = setup(LaserAttentionGradParam(headNum=4), shapes(), B1)
    assert said(report) == (
        "create",
        "ERROR_INVALID_PARAM",
        (
            "preTokens is not given, and its default, 2147483647, is no multiple of 256: the operator refuses its own "
            "default"
        ),
    )


def test_parameters_are_checked_in_order_and_before_tensors():
    report = asked({}, headNum=0, inputLayout="x", scaleValue=2.0, preTokens=1, innerPrecise=0)
    assert said(report)[2].startswith("headNum = 0")
    assert asked({}, soc="Ascend310P3", headNum=0).findings[0].operand == "soc"


@pytest.mark.parametrize("value", [True, 2.0, "4", 2**31])
def test_values_that_the_struct_cannot_hold(value):
    with pytest.raises(InputError, match="headNum"):
        LaserAttentionGradParam(headNum=value)


def test_a_part_that_is_none():
    with pytest.raises(DeviceError, match="product family"):
        asked(soc="Atlas A2 training")


# --- tensors ---


def changed(name, *dims, dtype=None, **call):
    found = shapes(**call)
    found[name] = TensorDesc(dtype or {line.name: line for line in INI.inputs}[name].dtypes[0], "nd", dims)
    return found


WIDE = {"size": 192}
SBH = {"layout": "SBH", "size": 192}


REFUSED = {
    "a missing input": (
        {"query": (1, 4, 1024, 128)},
        {},
        "IN_TENSOR_NUM",
        (
            "8 input tensors: LaserAttentionGradOperation takes 15, query, key, value, attentionOutGrad, pseShift, "
            "dropMask, paddingMask, attenMask, softmaxMax, softmaxSum, softmaxIn, attentionIn, prefix, actualSeqQLen, "
            "actualSeqKVLen"
        ),
    ),
    "softmaxIn empty": (changed("softmaxIn"), {}, "TENSOR_DIM", "softmaxIn has 0 axes: a tensor has 1 .. 8"),
    "type of key": (
        changed("key", 1, 4, 1024, 128, dtype="float16"),
        {},
        "TENSOR_INI_MATCH",
        "key is float16 nd: LaserAttentionGradOperation takes bf16 nd",
    ),
    "rank of query": (
        changed("query", 4, 1024, 128),
        {},
        "TENSOR_DIM_NUM",
        "query has 3 axes [4, 1024, 128]: must have 4",
    ),
    "heads of query": (
        shapes(),
        {"headNum": 8},
        "TENSOR_DIM",
        "query [1, 4, 1024, 128]: axis 1 is 4, must be headNum = 8",
    ),
    "513 heads": (
        shapes(heads=513, kv_heads=1),
        {"headNum": 513},
        "TENSOR_DIM",
        "query [1, 513, 1024, 128] has 513 heads: at most 512; the page allows all that an int holds, the operator 512",
    ),
    "length of query": (
        shapes(length=1000),
        {},
        "TENSOR_DIM",
        "query [1, 4, 1000, 128]: axis 2 is 1000, must be a multiple of 256",
    ),
    "length below preTokens": (
        shapes(length=768),
        {},
        "TENSOR_DIM",
        "query [1, 4, 768, 128]: axis 2 is 768, must be at least preTokens = 1024, as the head size is 128",
    ),
    "length with heads of 192": (
        shapes(length=2048, **WIDE),
        {},
        "TENSOR_DIM",
        "query [1, 4, 2048, 192]: axis 2 is 2048, must be preTokens = 1024, as the head size is 192",
    ),
    "head size": (shapes(size=64), {}, "TENSOR_DIM", "query [1, 4, 1024, 64]: axis 3 is 64, must be 128 or 192"),
    "heads of key": (
        shapes(kv_heads=3),
        {},
        "TENSOR_DIM",
        "key [1, 3, 1024, 128]: axis 1 is 3, must be a divisor of the 4 heads of query",
    ),
    "head size of key": (
        changed("key", 1, 4, 1024, 192, **WIDE),
        {},
        "TENSOR_DIM",
        "key [1, 4, 1024, 192]: axis 3 is 192, must be 256, as the head size of query is 192",
    ),
    "head size of value": (
        changed("value", 1, 4, 1024, 64),
        {},
        "TENSOR_DIM",
        "value [1, 4, 1024, 64]: axis 3 is 64, must be 128, the only head size of value",
    ),
    "length of the gradient": (
        changed("attentionOutGrad", 1, 4, 512, 128),
        {},
        "TENSOR_DIM",
        "attentionOutGrad [1, 4, 512, 128]: axis 2 is 512, must be 1024, the length of query",
    ),
    "dropMask": (
        changed("dropMask", 8),
        {},
        "TENSOR_DIM_NUM",
        "dropMask has 1 axes [8]: must be empty, the input is reserved",
    ),
    "rank of the mask": (
        changed("attenMask", 1024),
        {},
        "TENSOR_DIM_NUM",
        "attenMask has 1 axes [1024]: must have 2",
    ),
    "mask of a rectangle": (
        shapes(kv_length=2048),
        {},
        "TENSOR_DIM",
        (
            "attenMask [1024, 2048]: axis 0 is 1024, must be the length of query, 1024, and that of key, 2048, which "
            "must be equal with a mask"
        ),
    ),
    "statistics of FlashAttentionScoreGrad": (
        changed("softmaxMax", 1, 4, 1024, 8),
        {},
        "TENSOR_DIM_NUM",
        "softmaxMax has 4 axes [1, 4, 1024, 8]: must have 3",
    ),
    "sums unlike maxima": (
        changed("softmaxSum", 1, 4, 512),
        {},
        "TENSOR_DIM",
        "softmaxSum [1, 4, 512]: axis 2 is 512, must be 1024, that of softmaxMax",
    ),
    "heads of the output": (
        changed("attentionIn", 1, 2, 1024, 128),
        {},
        "TENSOR_DIM",
        "attentionIn [1, 2, 1024, 128]: axis 1 is 2, must be 4, the heads of query",
    ),
    "prefix": (
        changed("prefix", 1),
        {},
        "TENSOR_DIM_NUM",
        "prefix has 1 axes [1]: must be empty, the input is reserved",
    ),
    "SBH length": (
        shapes(**SBH, length=512),
        {"inputLayout": "SBH"},
        "TENSOR_DIM",
        "query [512, 1, 768]: axis 0 is 512, must be preTokens = 1024, as the layout is SBH",
    ),
    "SBH heads": (
        shapes(**SBH),
        {"inputLayout": "SBH", "headNum": 3},
        "TENSOR_DIM",
        "query [1024, 1, 768]: axis 2 is 768, must be 192 * headNum = 576",
    ),
    "SBH heads of key": (
        changed("key", 1024, 1, 255, **SBH),
        {"inputLayout": "SBH"},
        "TENSOR_DIM",
        "key [1024, 1, 255]: axis 2 is 255, must be 256 times a divisor of the 4 heads of query",
    ),
    "SBH heads of value": (
        changed("value", 1024, 1, 256, **SBH),
        {"inputLayout": "SBH"},
        "TENSOR_DIM",
        "value [1024, 1, 256]: axis 2 is 256, must be 128 * 4 = 512, as key has 4 heads",
    ),
}


@pytest.mark.parametrize(("tensors", "params", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_tensors_that_are_refused(tensors, params, error, message):
    assert said(asked(tensors, **params)) == ("infer_shape", f"ERROR_INVALID_{error}", message)


def test_outputs_are_checked_at_setup():
    outputs = {
        "queryGrad": (1, 4, 1024, 128),
        "keyGrad": (1, 4, 512, 128),
        "valueGrad": (1, 4, 1024, 128),
        "dpse": (1,),
    }
    report = asked(shapes() | outputs)
    assert said(report) == (
        "setup", "ERROR_INVALID_TENSOR_DIM", "keyGrad [1, 4, 512, 128]: axis 2 is 512, must be 1024, that of key"
    )  # fmt: skip
    assert asked(shapes() | outputs | {"keyGrad": (1, 4, 1024, 128)}).error == "NO_ERROR"
    with pytest.raises(InputError, match="of the outputs dpse not given"):
        asked(shapes() | {name: dims for name, dims in outputs.items() if name != "dpse"})


def test_shape_inference_gives_each_gradient_the_shape_of_its_input():
    report = asked(shapes(kv_heads=2, kv_length=2048, has_mask=False))
    assert [desc.dims for desc in report.outputs] == [
        (1, 4, 1024, 128), (1, 2, 2048, 128), (1, 2, 2048, 128), (1, 4, 1024, 128)
    ]  # fmt: skip


def test_names_and_values_that_are_no_tensors():
    with pytest.raises(InputError, match="tensors\\['dy'\\]: no such tensor"):
        asked({"dy": (1,)})
    with pytest.raises(InputError, match="must be a TensorDesc, a shape, or None"):
        asked({"query": 3})
    with pytest.raises(InputError, match="whole number"):
        asked({"query": (1.5,)})


def test_an_empty_mask_can_be_given_in_three_ways():
    for mask in (None, (), (0, 1024)):
        assert not asked(shapes() | {"attenMask": mask}).call.has_mask


def test_tensors_in_the_operators_order():
    by_name = shapes()
    inputs = [TensorDesc(*line.combination(0), by_name.get(line.name, ())) for line in INI.inputs]
    assert asked(Tensors(inputs)).tiling == asked().tiling


# --- notes ---


def codes(report):
    return [(finding.code, finding.severity.value) for finding in report.findings]


def test_parameters_that_are_not_read():
    report = asked(keepProb=0.5, nextTokens=7, sparseMode=3)
    assert [finding.message for finding in report.findings if finding.code == "I-LAG-IGNORED"] == [
        "keepProb = 0.5: the operator does not read it",
        "nextTokens = 7: the operator does not read it",
        "sparseMode = 3: the operator does not read it",
    ]
    assert report.error == "NO_ERROR"


def test_bytes_that_wrap():
    tensors = shapes(batch=4, heads=64, kv_heads=8, length=32768)
    report = asked(tensors, headNum=64, preTokens=32768)
    (finding,) = (finding for finding in report.findings if finding.code == "E-LAG-WRAP")
    assert (finding.got, finding.wanted) == (str(4 * 4 * 64 * 32768 * 128), "0")
    assert report.tiling.dq_elems == 0


@pytest.mark.parametrize(("quirks", "level"), [(False, "I"), (True, "W")])
def test_defects_of_the_original_where_they_matter(quirks, level):
    def asked_for(length, tokens, heads):
        tensors = shapes(length=length, heads=heads, kv_heads=heads)
        params = LaserAttentionGradParam(headNum=heads, preTokens=tokens)
        return codes(setup(params, tensors, B1, vendor_quirks=quirks))

    assert asked_for(1024, 512, 4) == [("W-LAG-MASKBITS", level), ("W-LAG-POST", level)]
    assert asked_for(1024, 1024, 4) == [("W-LAG-POST", level)]
    assert asked_for(1024, 1024, 3) == []  # 3 * 1024 * 128 elements divide by 48


def test_what_the_defect_of_the_pass_behind_writes_too_much():
    (finding,) = asked().findings
    share = -(-4 * 1024 * 128 // 48)
    assert (finding.got, finding.wanted) == (str(share), str(48 * share - 4 * 1024 * 128))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([-0.5, 0.5, 0.0], None),
        ([-0.75, 0.25], "attentionOutGrad has values from -0.75 to 0.25: outside [-0.5, 0.5]"),
        ([np.nan, 0.1], "attentionOutGrad has values from 0.1 to 0.1: outside [-0.5, 0.5]"),
    ],
)
def test_the_range_of_the_gradient(values, message):
    assert [finding.message for finding in gradient_range(np.array(values))] == ([message] if message else [])


def test_masks_that_are_not_the_triangle():
    triangle = 1 - np.tri(256)
    assert list(mask_values(triangle.astype(np.float16), vendor_quirks=True)) == []
    (form,) = mask_values(np.zeros((256, 256)), vendor_quirks=False)
    assert (form.code, form.got) == ("W-LAG-MASKFORM", str(256 * 255 // 2))
    (values,) = mask_values(triangle * 0.5, vendor_quirks=True)
    assert (values.code, values.got, values.severity.value) == ("W-LAG-MASKBITS", str(256 * 255 // 2), "W")


# --- properties of the workspace ---


def test_the_terms_add_up_and_are_in_the_kernels_order():
    call = LagCall("SBH", 2, 8, 2, 1024, 1024, 192, 256, 128, True, 1024)
    tiling = lag_tiling(call, LagPlatform(20, 40, 196608))
    assert [term.name for term in tiling.terms] == [
        "system", "dQ sums", "dK sums", "dV sums", "S", "dP", "Q copy", "K copy", "V copy", "O copy", "dO copy", "end",
    ]  # fmt: skip
    assert sum(term.bytes for term in tiling.terms) == tiling.workspace_bytes
    assert tiling.memset_bytes == sum(term.bytes for term in tiling.terms[:4])


def test_the_pass_behind_deals_every_element_once():
    split = lag_tiling(
        LagCall("BNSD", 1, 1, 1, 256, 256, 128, 128, 128, False, 256), LagPlatform(24, 48, 196608)
    ).post_dq
    shares = [split.share(core) for core in range(48)]
    assert [first for first, _ in shares] == [sum(count for _, count in shares[:core]) for core in range(48)]
    assert sum(count for _, count in shares) == 256 * 128
