"""Phase one of aclnnFlashAttentionScoreGrad: golden rows, every reason word by word, order, both pages, properties."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_fag_tiling import params_of, rows

from ascendsim.device import Platform
from ascendsim.errors import DeviceError, InputError
from ascendsim.op_host import fag_rules
from ascendsim.op_host import flash_attention_score_grad as fag
from ascendsim.op_host.fag_params import TENSORS
from ascendsim.op_host.fag_rules import Reason
from ascendsim.op_host.fag_tensors import acl_name

B2 = "Ascend910B2"
KEY_SIDE = ("key", "value", "dk", "dv")
MIB = 2**20
FUNCTION = "aclnnFlashAttentionScoreGrad"
UNPADDING = "aclnnFlashAttentionUnpaddingScoreGrad"

CALL = fag.FagParams("bf16", "BNSD", B=1, N2=8, S1=2048, S2=2048, D=128)
TND = fag.FagParams("bf16", "TND", N2=8, D=128, q_lens=(1024, 1536), kv_lens=(1024, 1536))
ROPE = replace(TND, atten_mask=(2048, 2048), sparse_mode=3, query_rope="[T1,N1,64]", key_rope="[T2,N2,64]")
OLD = replace(CALL, D=96)
"""A call that the seed page allows."""


def asked(params, soc="Ascend910B1", interface="current", **changes):
    return fag.get_workspace_size(replace(params, **changes), soc, interface=interface)


def as_given(name, **fields):
    return (fag.TensorGiven(name, **fields),)


def said(report):
    return [(reason.status, reason.code, reason.where, reason.what) for reason in report.reasons]


# --- golden rows ---

CASES = [row for row in rows("fag_cases.csv") if row["enabled"] == "1"]


@pytest.mark.parametrize("row", [row for row in CASES if row["level"] == "aclnn"], ids=lambda row: row["case_id"])
def test_golden_calls_of_the_interface(row):
    report = asked(params_of(row), "Ascend" + row["soc"])
    assert (report.status == 0) == (row["expected"] == "accept")
    assert report.status == (161002 if "161002" in row["note"] else 561002)


def test_the_golden_call_of_which_nobody_says_why_it_fails():
    row = next(row for row in CASES if row["case_id"] == "fagut193")
    assert said(asked(params_of(row), B2)) == [
        (561002, "E-FAG-PARAM", f"{FUNCTION}V2: pseType", "pse_type = 2 without pse: give pse, or leave pse_type at 1")
    ]


FREE_CASES = [row for row in CASES if row["level"] == "tiling" and not row["forced_template_priority"]]


@pytest.mark.parametrize("row", FREE_CASES, ids=lambda row: row["case_id"])
def test_golden_calls_of_the_tiling_fare_alike_through_the_interface(row):
    """But for those in which the test forces a template, which no caller can."""
    report = asked(params_of(row), "Ascend" + row["soc"])
    assert (report.status == 0) == (row["expected"] == "accept"), said(report)
    assert report.status in (0, 561002)


def test_golden_workspaces_without_a_graph():
    compared = 0
    for row in rows("fag_workspace.csv"):
        soc = Platform(int(row["aic_cores"]), int(row["aiv_cores"]), l2_bytes=int(row["l2_bytes"]))
        report = asked(params_of(row), soc)
        assert (report.status == 0) == (row["status"] == "ok"), (row["case_id"], said(report))
        if report.status == 0 and not report.graph_tensors:
            compared += 1
            want = [int(row[name]) for name in ("workspace_bytes", "workspace_bytes", "tiling_key", "block_dim")]
            assert [report.workspace_bytes, report.total_bytes, report.tiling_key, report.block_dim] == want
            assert sum(term.bytes for term in report.terms) == report.workspace_bytes
    assert compared > 300


# --- a call that succeeds ---


def test_the_worked_example():
    """147,392,512 bytes and this key are the documented example of the template."""
    report = asked(CALL)
    assert (report.status, report.status_name, report.returned_status) == (0, "ACLNN_SUCCESS", 0)
    assert (report.function, report.interface, report.device) == (FUNCTION, "current", "Ascend910B1")
    assert (report.workspace_bytes, report.total_bytes, report.tiling_key) == (147392512, 147392512, 1117790491700)
    assert (report.template, report.block_dim, report.tiles.cv_s1) == ("SameAB", 24, 512)
    assert (report.reasons, report.notes, report.graph_tensors) == ((), (), ())


@pytest.mark.parametrize(
    ("changes", "function"),
    [
        ({}, FUNCTION),
        ({"pse_type": 0, "pse": "[B,N1,S1,S2]"}, f"{FUNCTION}V2"),
        ({"q_start_idx": (0,)}, f"{FUNCTION}V2"),
        ({"kv_start_idx": (0,)}, f"{FUNCTION}V2"),
    ],
)
def test_the_function_that_takes_the_parameters(changes, function):
    assert (asked(CALL, **changes).function, asked(CALL, **changes).status) == (function, 0)


@pytest.mark.parametrize(
    ("params", "function"),
    [
        (TND, UNPADDING),
        (replace(TND, q_start_idx=(0,)), f"{UNPADDING}V2"),
        (ROPE, f"{UNPADDING}V3"),
        (replace(TND, softmax_in_layout="same_as_input"), f"{UNPADDING}V4"),
    ],
)
def test_the_unpadding_function_that_takes_the_parameters(params, function):
    assert asked(params).function == function


# --- every reason, word by word ---

NOT_PAIRED = (
    "q_lens has 2 lengths and kv_lens 3: one query and one key length belong to each batch; give both the same number"
)

LINES = [
    # null pointers
    *[
        (CALL, {"tensors": {name: None}}, 161001, "E-FAG-NULL", f"{FUNCTION}: {name}", f"{name} is null")
        for name in ("query", "key", "value", "dy", "attentionIn", "dq", "dk", "dv")
    ],
    *[
        (
            CALL,
            {"tensors": {name: how}},
            561002,
            "E-FAG-NULL",
            f"{FUNCTION}: {name}",
            f"{name} not given: the tiling needs query, key, value, dy, softmaxMax, softmaxSum, attentionIn",
        )
        for name in ("softmaxMax", "softmaxSum")
        for how in (None, ())
    ],
    # headNum, axes
    (CALL, {"head_num": 0}, 161002, "E-FAG-PARAM", f"{FUNCTION}: headNum", "headNum = 0: must be positive"),
    (CALL, {"head_num": -8}, 161002, "E-FAG-PARAM", f"{FUNCTION}: headNum", "headNum = -8: must be positive"),
    *[
        (
            CALL,
            {"tensors": {name: shape}},
            161002,
            "E-FAG-SHAPE",
            f"{FUNCTION}: {name}",
            f"{name} has {len(shape)} axes, at least 3 are needed",
        )
        for name, shape in (
            *(("query", (2048, 128)), ("key", (2048, 128)), ("value", ()), ("dy", (5,)), ("attentionIn", ())),
            *(("dq", ()), ("dk", (1, 1)), ("dv", (1,))),
        )
    ],
    *[
        (
            CALL,
            {"tensors": {name: (8, 2048, 128)}},
            161002,
            "E-FAG-SHAPE",
            f"{FUNCTION}: {name}",
            f"{name} has 3 axes, layout BNSD needs 4",
        )
        for name in ("query", "key", "value")
    ],
    (
        CALL,
        {"layout": "BSH", "head_num": 2000},
        161002,
        "E-FAG-SHAPE",
        f"{FUNCTION}: query",
        "head size D = 1024 // headNum 2000 = 0",
    ),
    (
        CALL,
        {"tensors": {"key": (1, 8, 2048, 120)}},
        161002,
        "E-FAG-SHAPE",
        f"{FUNCTION}: key",
        "head size of key 120 differs from that of query 128",
    ),
    (
        CALL,
        {"Dv": 136},
        161002,
        "E-FAG-SHAPE",
        f"{FUNCTION}: value",
        "head size of value 136 is above that of key 128",
    ),
    # types and formats
    (
        CALL,
        {"tensors": as_given("key", dtype="int8")},
        161002,
        "E-FAG-DTYPE",
        f"{FUNCTION}: key",
        "key has type INT8; the current interface takes BFLOAT16, FLOAT, FLOAT16",
    ),
    (
        CALL,
        {"atten_mask": "[S1,S2]", "mask_dtype": "fp16"},
        161002,
        "E-FAG-DTYPE",
        f"{FUNCTION}: attenMask",
        "attenMask has type FLOAT16; the current interface takes BOOL, UINT8",
    ),
    (
        CALL,
        {"tensors": as_given("softmaxSum", dtype="float16")},
        161002,
        "E-FAG-DTYPE",
        f"{FUNCTION}: softmaxSum",
        "softmaxSum has type FLOAT16; the current interface takes FLOAT",
    ),
    (
        CALL,
        {"tensors": as_given("dv", data_format="NZ")},
        161002,
        "E-FAG-DTYPE",
        f"{FUNCTION}: dv",
        "dv has format NZ; the current interface takes ND",
    ),
    (
        CALL,
        {"tensors": as_given("dy", dtype="fp32")},
        561003,
        "E-FAG-DTYPE",
        f"{FUNCTION}: dy",
        "dy has type FLOAT, query has BFLOAT16: no kernel is registered for the pair",
    ),
    (
        CALL,
        {"tensors": as_given("attentionIn", dtype="fp32")},
        561002,
        "E-FAG-DTYPE",
        f"{FUNCTION}: attentionIn",
        "attentionIn is fp32: must be bf16, as query",
    ),
    # arguments of the unpadding interfaces
    (
        CALL,
        {"q_lens": (2048,)},
        161002,
        "E-FAG-PARAM",
        f"{UNPADDING}: inputLayout",
        "inputLayout = BNSD: actualSeqQLen belongs to an interface that takes TND only",
    ),
    (
        CALL,
        {"kv_lens": (2048,)},
        161002,
        "E-FAG-PARAM",
        f"{UNPADDING}: inputLayout",
        "inputLayout = BNSD: actualSeqKvLen belongs to an interface that takes TND only",
    ),
    (
        CALL,
        {"softmax_in_layout": "same_as_input"},
        161002,
        "E-FAG-PARAM",
        f"{UNPADDING}V4: inputLayout",
        "inputLayout = BNSD: softmaxInLayout belongs to an interface that takes TND only",
    ),
    (
        TND,
        {"softmax_in_layout": "as_input"},
        161002,
        "E-FAG-PARAM",
        f"{UNPADDING}V4: softmaxInLayout",
        'softmaxInLayout = "as_input": must be "same_as_input" or empty',
    ),
    (
        TND,
        {"softmax_in_layout": "same_as_input", "q_start_idx": (0,)},
        None,
        "E-FAG-PARAM",
        f"{UNPADDING}V4: softmaxInLayout",
        "softmaxInLayout and qStartIdx are given: no version of the interface takes both",
    ),
    # rotary parts
    (
        ROPE,
        {"key_rope": None},
        161001,
        "E-FAG-NULL",
        f"{UNPADDING}V3: keyRope",
        "keyRope is null, but the other of queryRope and keyRope is given",
    ),
    (
        ROPE,
        {"query_rope": None},
        161001,
        "E-FAG-NULL",
        f"{UNPADDING}V3: queryRope",
        "queryRope is null, but the other of queryRope and keyRope is given",
    ),
    *[
        (
            ROPE,
            {"tensors": {"attenMask": mask}},
            161001,
            "E-FAG-NULL",
            f"{UNPADDING}V3: attenMask",
            f"queryRope and keyRope are given, but attenMask is {text}",
        )
        for mask, text in ((None, "null"), ((), "a scalar"))
    ],
    (
        ROPE,
        {"tensors": {"keyRope": (2560, 8)}},
        161002,
        "E-FAG-SHAPE",
        f"{UNPADDING}V3: keyRope",
        "keyRope has 2 axes, at least 3 are needed",
    ),
    (
        ROPE,
        {"query_rope": "[T1,N1,192]"},
        161002,
        "E-FAG-SHAPE",
        f"{UNPADDING}V3: queryRope",
        "head size of queryRope 192 is above that of query 128",
    ),
    (
        ROPE,
        {"tensors": as_given("queryRope", dtype="fp32")},
        161002,
        "E-FAG-DTYPE",
        f"{UNPADDING}V3: queryRope",
        "queryRope has type FLOAT; with queryRope and keyRope it must be BFLOAT16",
    ),
    (
        ROPE,
        {"drop_mask": (8,)},
        161002,
        "E-FAG-ROPE",
        f"{UNPADDING}V3: dropMask",
        "queryRope and keyRope with dropMask",
    ),
    (
        ROPE,
        {"pse": "[B,N1,1024,S2]", "pre_tokens": 2**31 - 1, "next_tokens": 0},
        161002,
        "E-FAG-ROPE",
        f"{UNPADDING}V3: pseShift",
        "queryRope and keyRope with pseShift",
    ),
    (
        ROPE,
        {"D": 132},
        161002,
        "E-FAG-ROPE",
        f"{UNPADDING}V3: query",
        "queryRope and keyRope with shapes that have to be padded or transposed",
    ),
    # operators around the kernel
    (
        CALL,
        {"layout": "BSND", "N2": 256, "D": 192, "Dv": 128},
        161001,
        "E-FAG-SHAPE",
        f"{FUNCTION}: value",
        "D = 192 with Dv = 128 keeps its value unpadded, but query and key are padded to 256 for the transpose",
    ),
    (
        CALL,
        {"tensors": {"dk": (1, 8, 2048, 64)}},
        161001,
        "E-FAG-SHAPE",
        f"{FUNCTION}: dk",
        "dk is [1,8,2048,64], the gradient is [1,8,2048,128]",
    ),
    # what the tiling refuses
    (
        CALL,
        {"head_num": 4},
        561002,
        "E-FAG-SHAPE",
        f"{FUNCTION}: query",
        "query has 8 heads and headNum is 4: both must agree",
    ),
    (
        CALL,
        {"keep_prob": 0.0, "drop_mask": "[B,N1,S1,S2]"},
        561002,
        "E-FAG-MASK",
        f"{FUNCTION}: keepProb",
        "keep_prob = 0.0: must be above 0 and at most 1",
    ),
    (
        CALL,
        {"sparse_mode": 7},
        561002,
        "E-FAG-PARAM",
        f"{FUNCTION}: sparseMode",
        "sparse_mode = 7 is for layout TND only, not BNSD",
    ),
    (
        CALL,
        {"tensors": {"softmaxMax": (1, 8, 2048, 1)}},
        561002,
        "E-FAG-MASK",
        f"{FUNCTION}: softmaxMax",
        "softmaxMax has shape (1, 8, 2048, 1): must be (1, 8, 2048, 8), each statistic 8 times",
    ),
    (
        CALL,
        {"tensors": {"dy": (1, 8, 1024, 128)}},
        561002,
        "E-FAG-SHAPE",
        f"{FUNCTION}: dy",
        "dy has shape (1, 8, 1024, 128): must be like query, (1, 8, 2048, 128), the last axis not larger",
    ),
    (
        replace(CALL, D=72),
        {"tensors": {"dy": (1, 8, 1024, 72)}},
        561002,
        "E-FAG-SHAPE",
        f"{FUNCTION}: dy",
        "dy has shape (1, 8, 1024, 72): must be like query, (1, 8, 2048, 72), the last axis not larger",
    ),
    (
        TND,
        {"tensors": {"actualSeqQLen": None}},
        561002,
        "E-FAG-NULL",
        f"{UNPADDING}: actualSeqQLen",
        "layout TND needs q_lens and kv_lens, the lengths of each batch",
    ),
    (
        TND,
        {"tensors": {"actualSeqKvLen": (3,)}},
        561002,
        "E-FAG-SHAPE",
        f"{UNPADDING}: actualSeqQLen",
        NOT_PAIRED,
    ),
]


@pytest.mark.parametrize(("params", "changes", "status", "code", "where", "what"), LINES)
def test_one_mistake_is_one_reason(params, changes, status, code, where, what):
    report = asked(params, **changes)
    assert said(report) == [(status, code, where, what)]
    assert report.status == (status or 0)
    assert report.total_bytes is None or report.status == 0
    assert all((report.reasons[0].got, report.reasons[0].wanted, report.reasons[0].source))


def test_several_things_beside_rotary_parts():
    params = replace(ROPE, sparse_mode=6, atten_mask=(3072, 2048), prefix=(1024, 1536))
    assert said(asked(params)) == [
        (161002, "E-FAG-ROPE", f"{UNPADDING}V3: sparseMode", "queryRope and keyRope with sparseMode 6")
    ]
    params = replace(ROPE, keep_prob=0.5, drop_mask="[N1*sum(q*kv)]")
    assert [reason.what for reason in asked(params).reasons] == [
        "queryRope and keyRope with dropMask",
        "queryRope and keyRope with keepProb = 0.5",
    ]
    types = [reason.where for reason in asked(replace(ROPE, dtype="fp16")).reasons]
    assert types == [f"{UNPADDING}V3: {name}" for name in ("query", "queryRope", "key", "keyRope", "value")]


def test_batches_of_query_and_key():
    report = asked(CALL, tensors=dict.fromkeys(KEY_SIDE, (2, 8, 2048, 128)))
    what = "query has 1 batches and key 2: both must have the same batch axis"
    assert said(report) == [(561002, "E-FAG-SHAPE", f"{FUNCTION}: query", what)]


def test_more_key_heads_than_query_heads():
    report = asked(CALL, tensors=dict.fromkeys(KEY_SIDE, (1, 16, 2048, 128)))
    assert [(reason.status, reason.code) for reason in report.reasons] == [
        (561002, "E-FAG-SHAPE"),
        (None, "E-FAG-SHAPE"),
    ]
    assert report.reasons[0].what == (
        "query (1, 8, 2048, 128) and key (1, 16, 2048, 128) with headNum 8: the query heads must be a positive "
        "multiple of the key heads"
    )
    assert report.reasons[1].what == "8 query heads are no multiple of 16 key heads"


def test_the_text_of_a_reason():
    (reason,) = asked(CALL, tensors={"query": None}).reasons
    assert str(reason) == f"161001 E-FAG-NULL {FUNCTION}: query: query is null (to mend it: pass the tensor)"
    (reason,) = asked(CALL, N2=257).reasons
    assert str(reason).startswith(f"no code E-FAG-SHAPE {FUNCTION}: constraints: N = 257: outside the limits")


def test_every_code_occurs():
    """Above, or in the tests of the products: no code stands in the catalogue that nothing can break."""
    tested = {line[3] for line in LINES} | {"E-FAG-PRODUCT"}
    assert {rule.code for rule in vars(fag_rules).values() if isinstance(rule, fag_rules.Rule)} == tested


# --- limits of the page, to which it ties no return code ---


def limit(params, interface="current", **changes):
    report = asked(params, interface=interface, **changes)
    assert {reason.status for reason in report.reasons} == {None}
    return report.status, [(reason.got, reason.wanted) for reason in report.reasons]


@pytest.mark.parametrize(
    ("params", "changes", "got", "wanted"),
    [
        (CALL, {"N2": 257}, "257", "1..256"),
        (CALL, {"B": 2**21 + 1, "N2": 1, "S1": 16, "S2": 16}, "2097153", "1..2097152"),
        (CALL, {"S1": 2**20 + 1}, "1048577", "1..1048576"),
        (CALL, {"D": 769}, "769", "1..768"),
        (CALL, {"D": 520, "pse_type": 0, "pse": "[B,N1,S1,S2]"}, "520", "1..512"),
        (TND, {"D": 520}, "520", "1..512"),
        (TND, {"q_lens": (2**20, 1), "kv_lens": (1, 1)}, "1048577", "1..1048576"),
        (TND, {"q_lens": (1,) * 2049, "kv_lens": (1,) * 2049}, "2049", "1..2048"),
        (CALL, {"sparse_mode": 5, "atten_mask": "[B,1,S1,S2]", "prefix": (2049,)}, "2049", "0..2048"),
    ],
)
def test_a_limit_of_the_page_has_no_status(params, changes, got, wanted):
    assert limit(params, **changes) == (0, [(got, wanted)])


def test_prefix_limits():
    modes = {"sparse_mode": 5, "atten_mask": "[B,1,S1,S2]"}
    assert limit(CALL, S2=3072, prefix=(1023,), **modes) == (0, [("1023", "1024..3072")])
    assert asked(CALL, S2=3072, prefix=(1024,), **modes).reasons == ()
    assert asked(CALL, S1=3072, prefix=(0,), **modes).reasons == ()
    assert limit(CALL, B=2049, N2=1, S1=16, S2=16, prefix=(16,) * 2049, **modes) == (0, [("2049", "1..2048")])


@pytest.mark.parametrize(
    ("changes", "got", "wanted"),
    [
        ({"B": 257}, "257", "1..256"),
        ({"N2": 257}, "257", "1..256"),
        ({"S1": 2056}, "2056", "1..32768 and a multiple of 16"),
        ({"S2": 32784}, "32784", "1..32768 and a multiple of 16"),
        ({"D": 80}, "80", "one of 64, 96, 128, 256"),
    ],
)
def test_a_limit_of_the_seed_page(changes, got, wanted):
    assert limit(OLD, "seed", **changes) == (0, [(got, wanted)])
    (reason,) = asked(OLD, interface="seed", **changes).reasons
    assert reason.source == "seed page aclnnFlashAttentionScoreGrad, constraints"
    assert "limits of the seed interface" in reason.what


def test_the_limits_themselves_are_inside():
    for changes in ({"B": 256, "N2": 256, "S1": 16, "S2": 16}, {"S1": 32768, "D": 256}, {"D": 64}, {"D": 128}):
        assert asked(OLD, interface="seed", **changes).reasons == ()
    for changes in ({"N2": 256, "S1": 1, "S2": 1}, {"S1": 2**20}, {"D": 768}, {"D": 1}):
        assert asked(CALL, **changes).reasons == ()


# --- the order decides the status, and hides nothing ---


def test_the_order_of_the_checks():
    wrong = {
        "softmax_in_layout": "same_as_input",
        "head_num": 0,
        "keep_prob": 2.0,
        "mask_dtype": "fp16",
        "atten_mask": "[S1,S2]",
        "tensors": (*as_given("dy", is_null=True), *as_given("dq", shape=(1,)), *as_given("value", dtype="fp32")),
        "N2": 257,
    }
    reasons = asked(CALL, **wrong).reasons
    assert [(r.status, r.where.partition(": ")[2]) for r in reasons] == [
        *((161002, "inputLayout"), (161001, "dy"), (161002, "headNum"), (161002, "dq"), (161002, "attenMask")),
        *((561003, "value"), (561002, "keepProb"), (None, "constraints")),
    ]


def test_nulls_come_before_the_head_count_and_that_before_the_rest():
    null, heads, rank = {"dy": None}, {"head_num": 0}, {"query": (1,)}
    assert asked(CALL, tensors=null | rank, **heads).status == 161001
    assert asked(CALL, tensors=rank, keep_prob=9.0).status == 161002
    assert asked(CALL, "Ascend310P3", keep_prob=9.0).status == 561003
    assert asked(CALL, keep_prob=9.0).status == 561002


def test_what_the_caller_of_the_public_sources_sees():
    """Whatever a layer below refuses comes back as a null result, which is tested with the code for null pointers."""
    seen = [
        (r.status, r.status_name, r.returned_status) for r in (asked(CALL, keep_prob=9.0), asked(CALL, "Ascend310P3"))
    ]
    assert seen == [
        (561002, "ACLNN_ERR_INNER_TILING_ERROR", 161001),
        (561003, "ACLNN_ERR_INNER_FIND_KERNEL_ERROR", 161001),
    ]
    assert asked(CALL, head_num=0).returned_status == 161002
    assert asked(CALL, tensors={"dq": None}).status_name == "ACLNN_ERR_PARAM_NULLPTR"
    assert asked(CALL, head_num=0).status_name == "ACLNN_ERR_PARAM_INVALID"


# --- empty tensors and scalars ---

NOTHING = {"dq": (0, 8, 5, 128), "dk": (1, 0, 1, 128), "dv": (0,)}


def test_nothing_to_do():
    report = asked(CALL, tensors=NOTHING, head_num=0, keep_prob=7.0)
    assert (report.status, report.workspace_bytes, report.total_bytes, report.reasons) == (0, 0, 0, ())
    assert report.notes == ("dq, dk and dv are empty: nothing else is checked and there is no kernel",)
    assert (report.tiling, report.tiling_key, report.template, report.tiles, report.terms) == (None, None, "", None, ())
    assert report.block_dim is None


def test_nothing_to_do_comes_behind_the_null_checks():
    assert asked(CALL, tensors=NOTHING | {"query": None}).status == 161001


def test_a_dpse_that_is_not_empty_is_something_to_do():
    assert asked(CALL, tensors=NOTHING | {"dpse": (0, 3)}).total_bytes == 0
    assert asked(CALL, tensors=NOTHING | {"dpse": (1,)}, head_num=0).status == 161002


@pytest.mark.parametrize("axis", ["S1", "S2"])
def test_one_empty_gradient_takes_a_fixed_workspace(axis):
    report = asked(CALL, **{axis: 0})
    assert (report.status, report.tiling_key, report.workspace_bytes) == (0, 90, 100 * MIB)
    assert (report.template, report.graph_tensors) == ("empty_output", ())


def test_the_kernel_goes_by_its_own_gradients():
    """An empty tensor of the caller is of the wrong shape, not an empty gradient."""
    report = asked(CALL, tensors={"dk": (1, 8, 0, 128)})
    assert said(report)[0][3] == "dk is [1,8,0,128], the gradient is [1,8,2048,128]"


def test_an_optional_scalar_counts_as_absent():
    report = asked(CALL, tensors={"attenMask": (), "pseShift": ()}, sparse_mode=2)
    assert report.status == 0
    assert report.tiling_key == asked(CALL, sparse_mode=2).tiling_key
    assert report.notes == (
        "pseShift is a scalar: it counts as not given",
        "attenMask is a scalar: it counts as not given",
    )


# --- the operators around the kernel ---


def graph(params, **changes):
    report = asked(params, **changes)
    assert report.status == 0, said(report)
    assert report.total_bytes == report.workspace_bytes + sum(tensor.bytes for tensor in report.graph_tensors)
    return [(tensor.name, tensor.shape) for tensor in report.graph_tensors], report


def five(step, shape, key_shape=None):
    """The inputs after one step."""
    key = key_shape or shape
    return [(f"{name}_{step}", s) for name, s in zip(("query", "key", "value", "dy", "attentionIn"),
                                                     (shape, key, key, shape, shape), strict=True)]  # fmt: skip


def three(step, shape, key_shape=None):
    """The gradients after one step."""
    key = key_shape or shape
    return [(f"{name}_{step}", s) for name, s in zip(("dq", "dk", "dv"), (shape, key, key), strict=True)]


@pytest.mark.parametrize(
    ("layout", "d", "shape", "wide"),
    [
        ("BNSD", 72, (1, 8, 2048, 80), 80),
        ("BSH", 71, (1, 2048, 8, 80), 80),
        ("BSND", 127, (1, 2048, 8, 128), 128),
        ("SBH", 8, (2048, 1, 8, 16), 16),
        ("BSH", 160, (1, 2048, 8, 256), 256),
        ("BNSD", 260, (1, 8, 2048, 384), 384),
    ],
)
def test_d_is_padded(layout, d, shape, wide):
    tensors, report = graph(CALL, layout=layout, D=d)
    assert tensors == five("padded", shape) + three("of_kernel", shape)
    assert report.graph_tensors[0].bytes == 2048 * 8 * wide * 2
    same = asked(CALL, layout={"BSH": "BSND"}.get(layout, layout), D=wide)
    assert (report.tiling_key, report.workspace_bytes) == (same.tiling_key, same.workspace_bytes)


@pytest.mark.parametrize(
    ("layout", "changes"),
    [
        *(("BNSD", {"D": d}) for d in (16, 96, 128, 192, 256, 384)),
        *((layout, {"D": d}) for layout in ("BSH", "BSND", "SBH") for d in (72, 88, 192)),
        ("BSH", {"D": 72, "S1": 4096, "S2": 4096}),
    ],
)
def test_d_that_stays(layout, changes):
    assert graph(CALL, layout=layout, **changes)[0] == []


@pytest.mark.parametrize("changes", [{"S1": 4097}, {"S2": 4097}, {"G": 2, "N2": 4}])
def test_72_is_padded_where_its_exception_ends(changes):
    assert graph(CALL, layout="BSH", D=72, **changes)[0][0][0] == "query_padded"


@pytest.mark.parametrize(
    ("changes", "is_padded"),
    [
        ({"D": 72}, False),
        ({"D": 72, "deterministic": True}, True),
        ({"D": 71, "q_lens": (512,), "kv_lens": (1024,)}, False),
        ({"D": 71, "q_lens": (512,), "kv_lens": (1025,)}, True),
        ({"D": 95, "q_lens": (512,), "kv_lens": (512,)}, False),
        ({"D": 97, "q_lens": (512,), "kv_lens": (512,)}, True),
        ({"D": 71, "q_lens": (163839,), "kv_lens": (16,)}, False),
        ({"D": 71, "q_lens": (163840,), "kv_lens": (16,)}, True),
        (
            {"D": 71, "q_lens": (512,), "kv_lens": (512,), "keep_prob": 0.9, "drop_mask": "[N1*sum(q*kv)]"},
            True,
        ),
        ({"D": 192, "Dv": 128}, False),
    ],
)
def test_d_of_tnd(changes, is_padded):
    tensors, _ = graph(TND, **changes)
    assert bool(tensors) == is_padded
    if is_padded:
        unit = 16 if changes["D"] < 128 else 128
        rows = sum(changes.get("q_lens", TND.q_lens))
        assert tensors[0] == ("query_padded", (rows, 8, -(-changes["D"] // unit) * unit))


def test_a_long_stride_is_transposed():
    """256 heads of 256 are 65536 elements between two rows."""
    tensors, report = graph(CALL, layout="BSND", N2=256, D=256)
    assert tensors == five("transposed", (1, 256, 2048, 256)) + three("of_kernel", (1, 256, 2048, 256))
    assert report.tiling_key == asked(CALL, N2=256, D=256).tiling_key
    assert graph(CALL, layout="BSND", N2=255, D=256)[0] == []
    assert graph(CALL, layout="SBH", B=64, D=128)[0][0] == ("query_transposed", (64, 8, 2048, 128))
    assert graph(CALL, layout="SBH", B=63, D=128)[0] == []


def test_padding_makes_a_stride_long():
    """Heads of 160 become 256: the stride counts padded. Gradients are transposed back before they are sliced."""
    tensors, _ = graph(CALL, layout="BSH", N2=128, G=2, D=160)
    query, key = (1, 2048, 256, 256), (1, 2048, 128, 256)
    inner, inner_key = (1, 256, 2048, 256), (1, 128, 2048, 256)
    gradients = zip(three("of_kernel", inner, inner_key), three("transposed", query, key), strict=True)
    assert tensors == [
        *five("padded", query, key),
        *five("transposed", inner, inner_key),
        *(tensor for pair in gradients for tensor in pair),
    ]


def test_a_narrow_value_is_widened():
    tensors, report = graph(CALL, Dv=64)
    shape = (1, 8, 2048, 128)
    assert tensors == [
        *((f"{name}_widened", shape) for name in ("value", "dy", "attentionIn")),
        ("dv_of_kernel", shape),
    ]
    assert report.workspace_bytes == asked(CALL).workspace_bytes


def test_a_narrow_value_is_widened_and_padded():
    """dV is sliced twice, and only the last slice is the caller's tensor."""
    tensors, _ = graph(CALL, D=72, Dv=64)
    narrow, wide = (1, 8, 2048, 72), (1, 8, 2048, 80)
    assert tensors == [
        *((f"{name}_widened", narrow) for name in ("value", "dy", "attentionIn")),
        *five("padded", wide),
        *three("of_kernel", wide),
        ("dv_sliced", narrow),
    ]


def test_192_keeps_its_narrow_value_unless_deterministic():
    assert graph(CALL, D=192, Dv=128)[0] == []
    assert graph(CALL, D=192, Dv=128, deterministic=True)[0][0] == ("value_widened", (1, 8, 2048, 192))
    assert graph(CALL, D=192, Dv=96)[0][0] == ("value_widened", (1, 8, 2048, 192))


def test_statistics_in_the_layout_of_the_input_are_transposed():
    tensors, report = graph(TND, softmax_in_layout="same_as_input")
    assert tensors == [("softmaxMax_transposed", (8, 2560, 8)), ("softmaxSum_transposed", (8, 2560, 8))]
    assert [tensor.bytes for tensor in report.graph_tensors] == [8 * 2560 * 8 * 4] * 2


def test_rotary_parts_add_their_sums():
    """T x N x 64 floats each, and a step to the next boundary."""
    plain = replace(ROPE, query_rope=None, key_rope=None, G=2, kv_lens=(1040, 1600))
    report = asked(plain, query_rope="[T1,N1,64]", key_rope="[T2,N2,64]")
    assert (report.status, report.template) == (0, "SameAB")
    more = 2560 * 16 * 64 * 4 + 512 + 2640 * 8 * 64 * 4 + 512
    assert report.workspace_bytes == asked(plain).workspace_bytes + more
    assert report.tiling.key_fields == replace(asked(plain).tiling.key_fields, rope=1)
    assert [term.name for term in report.terms[1:6]] == [f"{n} sums" for n in ("dQ", "dqRope", "dK", "dkRope", "dV")]


def test_rotary_parts_in_a_template_of_which_nothing_is_known():
    report = asked(ROPE, q_lens=(64,), kv_lens=(96,))
    (note,) = report.notes
    assert note == (
        f"queryRope and keyRope are given: what template {report.template} adds to its workspace for them is not "
        "published, and is not counted"
    )


# --- tensors that say more than the parameters ---


def test_the_axes_come_from_the_tensors():
    shape, short = (2, 4, 1024, 64), (2, 4, 512, 64)
    statistics = dict.fromkeys(("softmaxMax", "softmaxSum"), (2, 4, 1024, 8))
    tensors = dict.fromkeys(("query", "dy", "attentionIn", "dq"), shape) | dict.fromkeys(
        ("key", "value", "dk", "dv"), short
    )
    report = asked(CALL, tensors=tensors | statistics, head_num=4)
    same = asked(CALL, B=2, N2=4, S1=1024, S2=512, D=64)
    assert (report.status, report.workspace_bytes, report.tiling_key) == (0, same.workspace_bytes, same.tiling_key)


def test_the_type_comes_from_the_tensors():
    names = ("query", "key", "value", "dy", "attentionIn", "dq", "dk", "dv")
    report = asked(CALL, tensors=tuple(fag.TensorGiven(name, dtype="float") for name in names))
    assert (report.tiling_key, report.template) == (asked(CALL, dtype="fp32").tiling_key, "S1s2Bn2gs1s2")


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("half", "FLOAT16"), ("bfloat16_t", "BFLOAT16"), ("DT_FLOAT", "FLOAT"), ("uint8_t", "UINT8"), ("bool", "BOOL")],
)
def test_names_of_types(dtype, name):
    assert acl_name(dtype) == name


def test_an_entry_under_the_name_of_another():
    with pytest.raises(InputError, match=r"tensors\['dy'\] is a TensorGiven of 'dq'; use one name"):
        replace(CALL, tensors={"dy": fag.TensorGiven("dq")})


def test_a_negative_axis_of_a_tensor():
    with pytest.raises(InputError, match=r"tensor dq has shape \(1, -1\): an axis must not be negative"):
        replace(CALL, tensors={"dq": (1, -1)})


# --- the seed page ---


def test_the_seed_page_takes_what_the_kernel_does_not():
    report = asked(
        OLD,
        interface="seed",
        keep_prob=0.9,
        drop_mask="[B,N1,S1,S2]",
        pse="[B,N1,S1,S2]",
        atten_mask="[S1,S2]",
        tensors=(*as_given("softmaxMax", dtype="fp16"), *as_given("dropMask", dtype="fp16")),
    )
    same = asked(OLD, keep_prob=0.9, drop_mask="[B,N1,S1,ceil(S2/8)]", pse="[B,N1,S1,S2]", atten_mask="[S1,S2]")
    assert (report.status, report.workspace_bytes, report.tiling_key) == (0, same.workspace_bytes, same.tiling_key)
    assert report.notes == (
        "pseShift is FLOAT, as the seed page has it: taken as BFLOAT16",
        "dropMask is FLOAT16, as the seed page has it: taken as UINT8, a bit for each element",
        "softmaxMax is FLOAT16, as the seed page has it: taken as FLOAT",
    )


@pytest.mark.parametrize(
    ("changes", "argument", "what"),
    [
        ({"mask_dtype": "uint8", "atten_mask": "[S1,S2]"}, "attenMask", "UINT8; the seed interface takes BOOL"),
        (
            {"keep_prob": 0.9, "drop_mask": "[B,N1,S1,S2]", "tensors": as_given("dropMask", dtype="uint8")},
            "dropMask",
            "UINT8; the seed interface takes FLOAT, FLOAT16",
        ),
        (
            {"padding_mask": (1,), "tensors": as_given("paddingMask", dtype="bool")},
            "paddingMask",
            "BOOL; the seed interface takes FLOAT, FLOAT16",
        ),
    ],
)
def test_types_of_the_seed_page(changes, argument, what):
    report = asked(OLD, interface="seed", **changes)
    assert said(report) == [(161002, "E-FAG-DTYPE", f"{FUNCTION}: {argument}", f"{argument} has type {what}")]


def test_the_seed_page_ties_no_code_to_a_missing_attention_in():
    """Its list of 161001 leaves attentionIn out; the tiling cannot do without."""
    report = asked(OLD, interface="seed", tensors={"attentionIn": None})
    assert [(r.status, r.code, r.where) for r in report.reasons] == [(561002, "E-FAG-NULL", f"{FUNCTION}: attentionIn")]
    assert asked(OLD, tensors={"attentionIn": None}).status == 161001


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"sparse_mode": 2}, "sparse_mode = 2"),
        ({"prefix": (1,)}, "prefix = (1,)"),
        ({"pse_type": 0}, "pse_type = 0"),
        ({"q_start_idx": (1,)}, "q_start_idx = (1,)"),
        ({"softmax_in_layout": "same_as_input"}, "softmax_in_layout = 'same_as_input'"),
        ({"query_rope": (1, 2, 3)}, "query_rope = (1, 2, 3)"),
        ({"tensors": {"keyRope": (1, 2, 3)}}, "tensor keyRope"),
        ({"layout": "TND", "q_lens": (16,), "kv_lens": (16,)}, 'q_lens = (16,), kv_lens = (16,), layout = "TND"'),
    ],
)
def test_parameters_that_the_seed_page_has_not(changes, what):
    with pytest.raises(InputError) as error:
        asked(OLD, interface="seed", **changes)
    assert str(error.value) == (
        f'the seed page of {FUNCTION} has not: {what}; leave it out, or ask with interface="current"'
    )


def test_another_page():
    with pytest.raises(InputError, match='interface = "V5": must be "seed" or "current"'.replace('"V5"', "'V5'")):
        asked(CALL, interface="V5")


# --- products ---


def test_a_platform():
    cores = Platform(20, 40)
    assert (asked(CALL, cores).block_dim, asked(CALL, cores).device) == (20, "custom")


def test_an_unknown_part():
    with pytest.raises(DeviceError, match="unknown device 'Ascend910B9'"):
        asked(CALL, "Ascend910B9")


@pytest.mark.parametrize(("soc", "arch"), [("Ascend310P3", 2002), ("Ascend310B1", 3002), ("Ascend950PR_9579", 3510)])
def test_a_product_without_the_operator(soc, arch):
    what = f"FlashAttentionScoreGrad has no kernel for {soc} (arch {arch}); it has for arch 2201"
    assert said(asked(CALL, soc)) == [(561003, "E-FAG-PRODUCT", f"{FUNCTION}: device", what)]


def test_a_product_of_which_the_documents_disagree():
    report = asked(CALL, "Ascend910_9391")
    assert report.status == 0
    (note,) = report.notes
    assert note == (
        "the README of the operator says that Atlas A3 is not supported, its definition registers the chips of A3, "
        "too, and newer pages list it: taken as supported"
    )


# --- notes ---


def test_tensors_that_are_not_read():
    report = asked(CALL, padding_mask="[S1,S2]", tensors={"softmaxIn": (1,)})
    assert report.notes == (
        "paddingMask is given: the operator does not read it",
        "softmaxIn is given: the operator does not read it",
    )


def test_a_dpse_that_is_not_passed():
    pse = {"pse": "[B,N1,S1,S2]"}
    assert asked(CALL, **pse).notes == ()
    note = "dpse is null: the operator's own dpse of 67108864 B, which nobody writes or reads, is not counted"
    assert asked(CALL, tensors={"dpse": None}, **pse).notes == (note,)
    assert asked(CALL, dtype="fp32", **pse).notes == (note.replace("null", "FLOAT").replace("67108864", "134217728"),)


def test_the_null_check_of_v4():
    (note,) = asked(TND, softmax_in_layout="same_as_input").notes
    assert note == (
        "softmaxInLayout belongs to the V4 interface, whose public source tests only whether all tensors are null: "
        "there a single null pointer crashes instead of giving 161001"
    )


# --- properties ---

SHAPES = st.one_of(st.none(), st.just(()), st.lists(st.sampled_from((0, 1, 2, 8, 2048)), max_size=5).map(tuple))
LENGTHS = st.lists(st.sampled_from((0, 1, 16, 1500)), max_size=3).map(tuple)


@st.composite
def any_call(draw):
    one = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    layout = one("BSH", "SBH", "BSND", "BNSD", "TND")
    sizes = {} if layout == "TND" else {"B": one(0, 1, 3), "S1": one(0, 1, 128, 1500), "S2": one(0, 1, 128, 1500)}
    tensors = draw(st.dictionaries(st.sampled_from(TENSORS), SHAPES, max_size=3))
    name = one(*TENSORS)
    typed = as_given(name, dtype=one("fp32", "int8"), data_format=one("ND", "NZ")) if draw(st.booleans()) else ()
    return fag.FagParams(
        dtype=one("fp16", "bf16", "fp32"),
        layout=layout,
        **sizes,
        N2=one(0, 1, 5),
        G=one(0, 1, 3),
        D=one(0, 1, 71, 72, 128, 192),
        Dv=one(None, None, 0, 64, 200),
        q_lens=draw(LENGTHS) if layout == "TND" or one(*range(8)) == 0 else (),
        kv_lens=draw(LENGTHS) if layout == "TND" or one(*range(8)) == 0 else (),
        keep_prob=one(1.0, 0.9, 0.0, 2.0),
        sparse_mode=draw(st.integers(-1, 9)),
        atten_mask=one(None, "[S1,S2]", (2048, 2048), (3072, 2048), (7,)),
        prefix=draw(LENGTHS),
        pse=one(None, "[B,N1,S1,S2]", "[N1]"),
        pse_type=draw(st.integers(-1, 4)),
        drop_mask=one(None, "[B,N1,S1,ceil(S2/8)]"),
        next_tokens=one(65536, 0, -100),
        deterministic=draw(st.booleans()),
        head_num=one(None, None, 0, 3),
        query_rope=one(None, None, "[T1,N1,64]"),
        key_rope=one(None, None, "[T2,N2,64]"),
        softmax_in_layout=one("", "", "same_as_input", "?"),
        tensors=(*replace(CALL, tensors=tensors).tensors, *typed),
    )


@given(any_call(), st.sampled_from((B2, "Ascend910_9391", "Ascend310P3")))
@settings(max_examples=300, deadline=None)
def test_any_call_gets_an_answer(params, soc):
    report = asked(params, soc)
    codes = [reason.status for reason in report.reasons]
    assert report.status == next((code for code in codes if code is not None), 0)
    assert codes == sorted(codes, key=lambda code: code is None)
    assert report.status_name
    assert (report.total_bytes is None) == (report.status != 0)
    assert len(said(report)) == len(set(said(report)))
    assert all(isinstance(reason, Reason) and str(reason) for reason in report.reasons)


MISTAKES = {
    "dy": ({}, lambda p: as_given("dy", is_null=True)),
    "headNum": ({"head_num": 0}, None),
    "attentionIn": ({}, lambda p: as_given("attentionIn", shape=(2,))),
    "key": ({}, lambda p: as_given("key", shape=(1, p.N2, 2048, 64))),
    "value": ({}, lambda p: as_given("value", dtype="fp32")),
    "dq": ({}, lambda p: as_given("dq", shape=(1, 2, 3))),
    "dv": ({}, lambda p: as_given("dv", data_format="NZ")),
    "attenMask": ({"mask_dtype": "fp16"}, None),
    "dropMask": ({}, lambda p: as_given("dropMask", shape=(8,))),
    "keepProb": ({"keep_prob": 0.0}, None),
    "sparseMode": ({"sparse_mode": 9}, None),
    "pseType": ({"pse_type": 9}, None),
    "softmaxMax": ({}, lambda p: as_given("softmaxMax", shape=(1, p.N1, 2048, 1))),
    "softmaxSum": ({}, lambda p: as_given("softmaxSum", dtype="bf16")),
    "constraints": ({"N2": 257}, None),
}
"""One mistake in each of these arguments: changes, and tensors of the changed call."""

SOUND = replace(CALL, keep_prob=0.9, drop_mask="[B,N1,S1,ceil(S2/8)]", atten_mask="[S1,S2]", pse="[B,N1,S1,S2]")


def found_in(names):
    """Status, code and argument of all that is found with these mistakes made."""
    params = SOUND
    for name in names:
        params = replace(params, **MISTAKES[name][0])
    tensors = [makes(params) for makes in (MISTAKES[name][1] for name in names) if makes]
    report = asked(params, tensors=tuple(tensor for one in tensors for tensor in one))
    return [(r.status, r.code, r.where.partition(": ")[2]) for r in report.reasons]


@pytest.mark.parametrize("name", MISTAKES)
def test_each_of_these_mistakes_alone(name):
    assert found_in([]) == []
    assert [where for _, _, where in found_in([name])] == [name]


@given(st.sets(st.sampled_from(sorted(MISTAKES)), min_size=2))
@settings(max_examples=150, deadline=None)
def test_of_several_mistakes_each_is_found(names):
    assert set(found_in(names)) == {found for name in names for found in found_in([name])}
