"""FlashAttentionScoreGrad on the host: golden rows, hand-worked examples, refusals word by word, properties."""

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ascendsim.device import Platform, load_device
from ascendsim.errors import InputError
from ascendsim.op_host.fag_band import Band, band_batch, batch_tokens
from ascendsim.op_host.fag_blocks import valid_blocks
from ascendsim.op_host.fag_call import FagCall, read_shape
from ascendsim.op_host.fag_key import KEY_BITS, KeyFields, decode_key, encode_key
from ascendsim.op_host.fag_params import TENSORS, FagParams, TensorGiven
from ascendsim.op_host.fag_platform import fag_platform
from ascendsim.op_host.fag_result import FagTiles, TileOverride
from ascendsim.op_host.fag_tiling import TEMPLATES, fag_tiling
from ascendsim.op_host.fag_tiling_same_ab import vector_tile
from ascendsim.op_host.matmul_base import BaseBlock, Product, base_block

GOLDEN = Path(__file__).parent.parent / "golden"
MIB = 2**20
TENSOR_NAMES = {"attenRes": "attentionIn", "pse": "pseShift"}
SOC_CORES = {"910B2": (24, 48), "910B3": (20, 40)}
OLD_KEY_DIGITS = 20


def rows(name):
    with (GOLDEN / name).open(newline="") as file:
        return tuple(csv.DictReader(file))


@cache
def device(aic=24, aiv=48, l2_bytes=192 * MIB, ub_bytes=196608):
    return Platform(aic, aiv, l2_bytes=l2_bytes, ub_bytes=ub_bytes).device()


def numbers(text):
    """Read "1;2;3", in which "0*4" is four zeros."""
    found = []
    for part in filter(None, text.split(";")):
        value, _, times = part.partition("*")
        found += [int(value)] * int(times or 1)
    return tuple(found)


def overrides(text):
    for part in text.split():
        name, _, axes = part.partition("=")
        yield TensorGiven(TENSOR_NAMES.get(name, name), shape=numbers(axes.strip("[]")))


def params_of(row):
    return FagParams(
        dtype=row["dtype"],
        layout=row["layout"],
        **{name: int(row[name]) for name in ("B", "N2", "G", "S1", "S2", "D")},
        Dv=int(row["Dv"]) if row.get("Dv") else None,
        **{name: numbers(row.get(name, "")) for name in ("q_lens", "kv_lens", "prefix", "q_start_idx", "kv_start_idx")},
        **{name: float(row[name]) for name in ("scale", "keep_prob")},
        **{name: int(row[name]) for name in ("pre_tokens", "next_tokens", "sparse_mode", "pse_type")},
        **{name: row[name] for name in ("atten_mask", "pse", "drop_mask")},
        padding_mask=row.get("padding_mask"),
        mask_dtype=row["mask_dtype"] or "bool",
        deterministic=row["deterministic"] == "1",
        inner_precise=int(row.get("inner_precise", 0)),
        tensors=tuple(overrides(row.get("shape_overrides", ""))),
    )


def call(**fields):
    """Return a call of 1 x 8 heads x 2048 x 2048 x 128, bf16, BNSD, but for the fields given."""
    return FagParams(**{"dtype": "bf16", "layout": "BNSD", "B": 1, "N2": 8, "S1": 2048, "S2": 2048, "D": 128} | fields)


def tnd(q_lens, kv_lens, **fields):
    return FagParams(**{"dtype": "fp16", "layout": "TND", "q_lens": q_lens, "kv_lens": kv_lens, "D": 64} | fields)


def tiling(params, **arguments):
    return fag_tiling(params, device(), **arguments)


def given_as(params, name, **fields):
    return replace(params, tensors=(*params.tensors, TensorGiven(name, **fields)))


# --- golden rows ---


def split_text(split):
    if split is None:
        return ""
    tail = f"s2Align={split.s2_aligned};dropWs={split.drop_bytes}"
    if split.axis == "batch":
        return f"bIn={split.units};bCvRatio={split.cv_units // split.units};bOut={split.groups};{tail}"
    return f"nIn={split.units};nCvInner={split.cv_units};nOut={split.groups};{tail}"


def columns(result):
    """Return the golden columns of a tiling."""
    tiles, offsets, matmuls = result.tiles, result.offsets, result.matmuls
    names = ("status", "template", "template_priority", "tiling_key", "block_dim", "workspace_bytes")
    tile_names = ("cv_s1", "cv_s2", "vec_s1", "vec_s2", "outer_s1", "outer_s2", "used_cores")
    return (
        {name: getattr(result, name) for name in names}
        | {name: getattr(tiles, name) for name in tile_names}
        | {"batch_split": split_text(result.split)}
        | {f"{name}_offset": getattr(offsets, name, None) for name in ("dq", "dk", "dv")}
        | {
            "mm1_base_mnk": matmuls and matmuls.scores,
            "mm2_base_mnk": matmuls and matmuls.dk_dv,
            "mm3_base_mnk": matmuls and matmuls.dq,
        }
    )


WORKSPACE_ROWS = rows("fag_workspace.csv")


def test_there_are_golden_rows_of_every_template():
    assert len(WORKSPACE_ROWS) == 423
    named = {t.name for t in TEMPLATES}
    assert {row["template"] for row in WORKSPACE_ROWS} == named | {""}


@pytest.mark.parametrize("row", WORKSPACE_ROWS, ids=lambda row: row["case_id"])
def test_workspace_row(row):
    part = device(int(row["aic_cores"]), int(row["aiv_cores"]), int(row["l2_bytes"]))
    result = fag_tiling(params_of(row), part)
    got = {name: str(value) for name, value in columns(result).items() if row[name] != ""}
    assert got == {name: row[name] for name in got}
    assert sum(term.bytes for term in result.terms) == (result.workspace_bytes or 0)
    assert bool(result.reasons) == (row["status"] == "failed")
    if row["status"] == "ok":
        assert decode_key(result.tiling_key) == result.key_fields
        assert all(term.bytes >= term.payload_bytes for term in result.terms)


CASE_ROWS = tuple(row for row in rows("fag_cases.csv") if row["level"] == "tiling")


@pytest.mark.parametrize("row", CASE_ROWS, ids=lambda row: row["case_id"])
def test_unit_test_row(row):
    result = fag_tiling(
        params_of(row), device(*SOC_CORES[row["soc"]]), priority=int(row["forced_template_priority"] or 0) or None
    )
    expected = {"accept": "ok", "reject": "failed"}[row["expected"]]
    assert result.status == (row["host_status"] or expected)
    if row["enabled"] == "1":
        assert result.status == expected
    for name in ("template", "tiling_key", "block_dim", "workspace_bytes"):
        if row[f"host_{name}"]:
            assert str(getattr(result, name)) == row[f"host_{name}"]
    key = row["expected_tiling_key"]
    if key and result.status == "ok" and len(key) < OLD_KEY_DIGITS:
        assert str(result.tiling_key) == key
    assert bool(result.reasons) == (result.status == "failed")


# --- the worked example ---


def test_the_example_with_its_terms_by_name():
    result = tiling(call())
    assert (result.tiling_key, result.block_dim, result.workspace_bytes) == (1117790491700, 24, 147_392_512)
    assert (result.offsets.dq, result.offsets.dk, result.offsets.dv) == (65_536, 8_454_656, 16_843_776)
    sums = 8 * 2048 * 128 * 4
    scores = 48 * 512 * 512 * 4 * 2
    assert [(t.name, t.payload_bytes, t.bytes) for t in result.terms] == [
        ("sync area", 65536, 65536),
        ("dQ sums", sums, sums + 512),
        ("dK sums", sums, sums + 512),
        ("dV sums", sums, sums + 512),
        ("row term", 8 * 2048 * 32, 8 * 2048 * 32),
        ("S and dA", scores, scores + 512),
        ("system reserve", 20 * MIB, 20 * MIB),
    ]
    assert result.terms[1].formula == "elements of dQ * 4 B, then on to the next 512-byte boundary"
    assert result.tiles == FagTiles(
        used_cores=48,
        cv_s1=512,
        cv_s2=512,
        vec_s1=32,
        vec_s2=256,
        outer_s1=4,
        outer_s2=4,
        is_l1_custom=True,
        is_score_nz=True,
        is_gradient_nz=True,
    )


def test_the_templates_asked_before_tell_why_they_left_the_call():
    assert [(p.priority, p.template, p.why) for p in tiling(call()).passed_over] == [
        (1000, "S1s2Bn2_deterministic", "for deterministic calls"),
        (1001, "basic_tnd", "takes layout TND only"),
        (1100, "SameAB_deterministic", "for deterministic calls"),
        (2000, "S1s2Bn2gs1s2_tnd", "takes layout TND only"),
        (10000, "Ungs1s2_B", "needs N1 * al16(S1) * al16(S2) of at most 6144"),
        (11000, "Ngs1s2_BN", "needs the scores of a head in 32768 bytes, a row in 1536"),
        (15000, "S1s2Bn2", "needs S1 and S2 below 1024"),
    ]


def test_the_passes_of_same_ab():
    """UB 196352 less 8 KiB of the matmul: 62,720 bytes a buffer; 24 KiB of 128 halves are 96 rows."""
    result = tiling(call(dtype="fp16"))
    assert (result.post.buffer_bytes, result.post.step_elements, result.post.cores) == (62_720, 31_360, 48)
    row_term = result.row_term
    assert (row_term.rows_per_step, row_term.out_bytes, row_term.temp_bytes) == (96, 3072, 37_888)
    assert (row_term.rows_per_core, row_term.cores) == (-(-8 * 2048 // 48), 48)
    assert result.pre.dq_elements == -(-8 * 2048 * 128 // 48)
    assert not result.pre.expands_mask


def test_the_post_pass_in_nz_keeps_whole_rows():
    post = tiling(call(dtype="fp16", D=72)).post
    assert post.buffer_bytes == (196352 - 8192 - 2 * 5 * 32 * 4) // 10 // 256 * 256
    assert post.step_elements == post.buffer_bytes // 2 // 80 * 72


def test_a_dropout_mask_whose_rows_end_within_a_byte_is_expanded():
    fields = {"S2": 2044, "keep_prob": 0.8, "drop_mask": "[B,N1,S1,ceil(S2/8)] bits"}
    result = tiling(call(**fields))
    scores = 8 * 2048 * 2044
    assert {t.name: t.payload_bytes for t in result.terms}["dropout mask"] == scores
    assert result.pre.expands_mask
    assert (result.pre.mask_step_elements, result.pre.in_bytes, result.pre.out_bytes) == (30720, 4096, 30720)
    assert result.pre.mask_elements == -(-scores // 48 // 32) * 32


@pytest.mark.parametrize(
    ("arguments", "tile"),
    [
        ((512, 512, False, False), (32, 256)),
        ((512, 200, False, True), (36, 200)),
        ((512, 300, True, False), (51, 160)),
        ((512, 300, False, False), (32, 256)),
        ((16, 16, True, False), (16, 16)),
        ((512, 64, False, False), (128, 64)),
    ],
)
def test_vector_tile_of_same_ab(arguments, tile):
    cv_s1, columns, is_nz, has_mask_or_drop = arguments
    assert vector_tile(cv_s1, columns, is_nz=is_nz, has_mask_or_drop=has_mask_or_drop) == tile


# --- empty outputs ---


@pytest.mark.parametrize(
    ("fields", "block_dim"),
    [
        ({"S1": 0}, 24),
        ({"B": 0}, 0),
        ({"S1": 0, "N2": 1, "S2": 1, "D": 16}, 8),
        ({"S2": 0, "pse": (1, 8, 2048, 0), "S1": 1, "D": 4}, 16),
        ({"Dv": 0}, 24),
    ],
)
def test_empty_outputs_take_key_90_and_100_mib(fields, block_dim):
    result = tiling(call(**fields))
    assert (result.status, result.template, result.tiling_key) == ("ok", "empty_output", 90)
    assert (result.workspace_bytes, result.block_dim) == (104_857_600, block_dim)
    assert (result.key_fields, result.template_priority) == (None, None)
    assert [t.bytes for t in result.terms] == [104_857_600]


# --- refusals ---


REFUSALS = [
    (call(keep_prob=1.5), "keep_prob = 1.5: must be above 0 and at most 1"),
    (call(keep_prob=0.0), "keep_prob = 0.0: must be above 0 and at most 1"),
    (
        call(keep_prob=0.8),
        "keep_prob = 0.8 drops scores: give drop_mask, one bit for each, or keep_prob 1",
    ),
    (
        call(keep_prob=0.8, drop_mask=(8 * 2048 * 256 - 1,)),
        "dropMask has shape (4194303,), 4194303 bytes: 33554432 scores need 4194304",
    ),
    (
        given_as(call(keep_prob=0.8, drop_mask=(8 * 2048 * 256,)), "dropMask", dtype="fp16"),
        "dropMask is fp16: must be uint8, a bit for each score",
    ),
    (call(sparse_mode=9), "sparse_mode = 9: must be 0..8"),
    (call(sparse_mode=-1), "sparse_mode = -1: must be 0..8"),
    (call(sparse_mode=7), "sparse_mode = 7 is for layout TND only, not BNSD"),
    (call(pse_type=4), "pse_type = 4: must be 0..3"),
    (call(pse_type=0), "pse_type = 0 without pse: give pse, or leave pse_type at 1"),
    (
        given_as(call(pse="[B,N1,S1,S2]"), "pseShift", dtype="fp32"),
        "pseShift is fp32: pse_type 1 wants bf16",
    ),
    (
        given_as(call(pse="[N1]", pse_type=2), "pseShift", dtype="bf16"),
        "pseShift is bf16: pse_type 2 wants fp32",
    ),
    (
        call(pse="[N1,B]", pse_type=3),
        "pseShift has shape (8, 1): pse_type 3 wants slopes, (8,) or (1, 8)",
    ),
    (
        call(pse="[B,N1,1024,S2]"),
        (
            "pseShift has shape (1, 8, 1024, 2048): must be (1, 8, 2048, 2048), (1, 8, 1, 2048), (1, 8, 2048, 2048), "
            "or [1, 8, 1024, 2048] with a causal band (pre_tokens >= 2048, next_tokens = 0) and S1 = S2 >= 1024"
        ),
    ),
    (
        call(atten_mask="[S1,S2]", mask_dtype="float"),
        "attenMask is float: must be bool or uint8, 1 = not computed",
    ),
    (
        call(atten_mask=(2048,)),
        "attenMask has shape (2048,): must have two axes, or four of which the first two are one of (1, 1), (1, 8)",
    ),
    (
        call(atten_mask=(2, 1, 2048, 2048)),
        (
            "attenMask has shape (2, 1, 2048, 2048): must have two axes, or four of which the first two are one of "
            "(1, 1), (1, 8)"
        ),
    ),
    (
        call(atten_mask=(2048, 2047)),
        "attenMask has last axes (2048, 2047): sparse_mode 0 wants a mask of S1 x S2, (2048, 2048)",
    ),
    (
        call(atten_mask=(1024, 1024), sparse_mode=2),
        "attenMask has last axes (1024, 1024): sparse_mode 2 wants a compressed mask, (2048, 2048)",
    ),
    (
        call(atten_mask=(2048, 2048), sparse_mode=6, prefix=(5,)),
        "attenMask has last axes (2048, 2048): sparse_mode 6 wants a compressed mask, (3072, 2048)",
    ),
    (
        call(atten_mask=(3072, 2048), sparse_mode=6, prefix=(5, 5)),
        "prefix has shape (2,): sparse_mode 6 wants one number for each of 1 batches",
    ),
    (
        call(atten_mask="[S1,S2]", pre_tokens=-10, next_tokens=5),
        (
            "pre_tokens = -10, next_tokens = 5: no score of 2048 x 2048 lies in this band; choose tokens whose sum is "
            "not negative and that reach the scores"
        ),
    ),
    (
        call(S1=1024, atten_mask="[S1,S2]", next_tokens=-1025),
        (
            "pre_tokens = 65536, next_tokens = -1025: no score of 1024 x 2048 lies in this band; choose tokens whose "
            "sum is not negative and that reach the scores"
        ),
    ),
    (
        given_as(call(), "softmaxMax", shape=(1, 8, 2048, 1)),
        "softmaxMax has shape (1, 8, 2048, 1): must be (1, 8, 2048, 8), each statistic 8 times",
    ),
    (given_as(call(), "softmaxSum", dtype="fp16"), "softmaxSum is fp16: must be fp32"),
    (
        given_as(call(), "attentionIn", shape=(1, 8, 2047, 128)),
        "attentionIn has shape (1, 8, 2047, 128): must be like query, (1, 8, 2048, 128), all but the last axis",
    ),
    (given_as(call(), "attentionIn", dtype="fp16"), "attentionIn is fp16: must be bf16, as query"),
    (
        given_as(call(), "dy", shape=(1, 8, 2048, 129)),
        "dy has shape (1, 8, 2048, 129): must be like query, (1, 8, 2048, 128), the last axis not larger",
    ),
    (
        given_as(call(), "value", shape=(1, 8, 2047, 128)),
        "value has shape (1, 8, 2047, 128): must be like key, (1, 8, 2048, 128), the last axis not larger",
    ),
    (
        given_as(call(), "softmaxMax", is_null=True),
        "softmaxMax not given: the tiling needs query, key, value, dy, softmaxMax, softmaxSum, attentionIn",
    ),
    (
        given_as(call(), "query", shape=(8, 2048, 128)),
        "query has shape (8, 2048, 128): layout BNSD wants 4 axes, [B, N, S, D]",
    ),
    (call(head_num=0), "headNum = 0: must be the number of query heads, 8"),
    (call(head_num=4), "query has 8 heads and headNum is 4: both must agree"),
    (call(layout="BSH", head_num=3), "query has H = 1024: must be a multiple of headNum = 3"),
    (
        given_as(call(), "key", shape=(2, 8, 2048, 128)),
        "query has 1 batches and key 2: both must have the same batch axis",
    ),
    (
        given_as(call(), "key", shape=(1, 8, 2048, 256)),
        "query has D = 128 and key 256: both must have the same head size",
    ),
    (call(Dv=160), "value has D = 160, key 128: value's must not be larger"),
    (
        given_as(call(), "key", shape=(1, 9, 2048, 128)),
        (
            "query (1, 8, 2048, 128) and key (1, 9, 2048, 128) with headNum 8: the query heads must be a positive "
            "multiple of the key heads"
        ),
    ),
    (
        tnd((), (), B=1, S1=5, S2=5),
        "layout TND needs q_lens and kv_lens, the lengths of each batch",
    ),
    (
        tnd((5, 6), (5, 6, 7)),
        (
            "q_lens has 2 lengths and kv_lens 3: one query and one key length belong to each batch; give both the same "
            "number"
        ),
    ),
    (
        tnd((5, 6), (5, 5), pse="[N1]", pse_type=2, sparse_mode=7, atten_mask=(2048, 2048)),
        "pse_type 2 does not go with sparse_mode 7; use 8, or an outer pse",
    ),
    (
        tnd((5, 6), (4, 6), pse="[N1]", pse_type=2, sparse_mode=8, atten_mask=(2048, 2048)),
        (
            "batch 0 has 5 queries and 4 keys: pse_type 2 with sparse_mode 8 wants equal lengths, in batch 0 with the "
            "start indices added"
        ),
    ),
    (
        tnd((5, 6), (4, 6), pse=(3,)),
        (
            "pseShift has shape (3,): must be (10,), (56,), or [1 or 2, 1, 1024, 6] with a causal band (pre_tokens >= "
            "6, next_tokens = 0)"
        ),
    ),
    (
        tnd((4096, 0), (0, 4096), dtype="fp32"),
        "no tile of scores holds work: the band of tokens, or the lengths, leave nothing to compute",
    ),
    (
        tnd((4096, 0), (0, 4096), deterministic=True),
        "no batch has both queries and keys: there is no score to compute",
    ),
]


@pytest.mark.parametrize(("params", "reason"), REFUSALS)
def test_refusal_and_its_words(params, reason):
    result = tiling(params)
    assert result.status == "failed"
    assert reason in result.reasons
    assert (result.template, result.tiling_key, result.workspace_bytes, result.terms) == ("", None, None, ())


def test_several_mistakes_are_told_at_once():
    result = tiling(call(keep_prob=2.0, sparse_mode=9, pse_type=5))
    assert result.reasons == (
        "keep_prob = 2.0: must be above 0 and at most 1",
        "sparse_mode = 9: must be 0..8",
        "pse_type = 5: must be 0..3",
    )


def test_a_start_index_makes_up_for_unequal_lengths_of_batch_0():
    fields = {"pse": "[N1]", "pse_type": 2, "sparse_mode": 8, "atten_mask": (2048, 2048)}
    lens = (5, 6), (4, 6)
    assert tiling(tnd(*lens, kv_start_idx=(1,), **fields)).status == "ok"
    assert tiling(tnd(*lens, q_start_idx=(1,), **fields)).status == "failed"


def test_a_tensor_of_rank_0_counts_as_absent():
    plain, other = tiling(call()), tiling(call(atten_mask=(), pse=()))
    assert replace(other, passed_over=plain.passed_over) == plain


def test_keep_prob_is_a_float32():
    """1 - 1e-9 rounds to 1 in float32, so nothing is dropped."""
    assert tiling(call(keep_prob=1 - 1e-9)) == tiling(call())
    assert tiling(call(keep_prob=1e300)).reasons == ("keep_prob = 1e+300: must be above 0 and at most 1",)


def test_tokens_are_read_as_32_bits_by_the_template_asked_first():
    """The largest int64 has the low bits of -1; with both of them the band is empty."""
    result = tiling(call(pre_tokens=2**63 - 1, next_tokens=2**63 - 1))
    assert result.reasons == (
        (
            "pre_tokens = -1, next_tokens = -1: no score of 2048 x 2048 lies in this band; choose tokens whose sum is "
            "not negative and that reach the scores; the host reads only the low 32 bits of 9223372036854775807 and "
            "9223372036854775807"
        ),
    )


def test_a_deterministic_short_call_is_not_held_to_the_size_of_its_dropout_mask():
    """S1s2Bn2 is asked first and takes it; no template that looks at the size is ever asked."""
    fields = {"S1": 512, "S2": 512, "keep_prob": 0.5, "drop_mask": (1,)}
    assert tiling(call(**fields, deterministic=True)).template == "S1s2Bn2_deterministic"
    assert tiling(call(**fields)).reasons == ("dropMask has shape (1,), 1 bytes: 2097152 scores need 262144",)


# --- one template asked ---


def test_a_priority_that_no_template_has():
    result = tiling(call(), priority=15600)
    assert result.reasons == (
        "no template has priority 15600; known: 1000, 1001, 1100, 2000, 10000, 11000, 15000, 15500, 16000",
    )


def test_the_last_template_takes_what_same_ab_would():
    result = tiling(call(), priority=16000)
    assert (result.template, result.tiles.cv_s1, result.tiles.cv_s2) == ("S1s2Bn2gs1s2", 128, 512)
    assert result.passed_over == ()


def test_a_template_asked_alone_that_leaves_the_call():
    result = tiling(call(), priority=15000)
    assert (result.status, result.reasons) == ("failed", ("template S1s2Bn2: needs S1 and S2 below 1024",))


SMALL = {"layout": "BNSD", "B": 4, "N2": 16, "S1": 16, "S2": 16, "D": 64}
LEFT = [
    (10000, {"pse": "[B,N1,1024,S2]"}, "does not take pse of shape (4, 16, 1024, 16)"),
    (10000, {"pse": "[N1]", "pse_type": 2}, "does not take pse of shape (16,)"),
    (10000, {"pse": "[B,N1,S1,S2]", "pse_type": 0}, "takes pse_type 1 only"),
    (10000, {"atten_mask": (3, 16, 16, 16)}, "does not take attenMask of shape (3, 16, 16, 16)"),
    (10000, {"atten_mask": (16, 16), "mask_dtype": "fp16"}, "does not take attenMask of fp16"),
    (10000, {"atten_mask": (2048, 2048), "sparse_mode": 4}, "takes sparse modes 0 to 3 only"),
    (10000, {"keep_prob": 2.0}, "keep_prob = 2.0 is not in (0, 1]"),
    (10000, {"dtype": "fp32"}, "takes fp16 and bf16 only"),
    (10000, {"Dv": 32}, "needs Dv = D"),
    (10000, {"D": 256, "N2": 24}, "operands of 786432 bytes, 2 batches, do not fit L1"),
    (11000, {"atten_mask": (16, 15)}, "attenMask has last axes (16, 15), fewer elements than 16 x 16"),
    (11000, {"atten_mask": (31, 31), "sparse_mode": 3}, "attenMask has last axes (31, 31), no square of at least 32"),
    (11000, {"G": 2}, "needs G = 1"),
    (11000, {"D": 768}, "16 heads do not fit UB, L0 or L1"),
    (15000, {"deterministic": True}, "not for deterministic calls"),
    (15000, {"G": 2, "B": 1}, "B * N2 = 16 key heads leave half of 48 AIVs idle, and G = 2 could use them"),
    (
        15000,
        {"S1": 800, "B": 1},
        "B * N2 = 16 key heads leave AIVs idle, and sequences beyond 768 could use them",
    ),
    (15000, {"D": 128, "G": 4}, "D = 128 with few batches and G >= 4 is left to SameAB"),
    (15500, {"dtype": "fp32"}, "takes fp16 and bf16 only"),
]


@pytest.mark.parametrize(("priority", "fields", "why"), LEFT)
def test_why_a_template_leaves_a_call(priority, fields, why):
    result = tiling(call(**SMALL | fields), priority=priority)
    assert [p.why for p in result.passed_over] == [why]


BASIC = {"q_lens": (128, 256), "kv_lens": (128, 256)}
LEFT_BASIC = [
    ({"atten_mask": (1024, 1024)}, "takes a mask of 2048 x 2048 only"),
    ({"q_start_idx": (1,)}, "takes no start index"),
    ({"dtype": "fp32"}, "takes fp16 and bf16 only, and is not deterministic"),
    ({"pse": "[N1]", "pse_type": 2}, "takes no pse"),
    ({"keep_prob": 0.5}, "drops no scores"),
    ({"sparse_mode": 2}, "takes sparse mode 0 without a mask, 2 and 3 with one"),
    ({"D": 72}, "needs D = Dv, a multiple of 16 and at most 128"),
    ({"kv_lens": (256, 128)}, "needs equal query and key lengths of at most 32768"),
    ({"q_lens": (32769,), "kv_lens": (32769,)}, "needs equal query and key lengths of at most 32768"),
]


@pytest.mark.parametrize(("fields", "why"), LEFT_BASIC)
def test_why_the_basic_template_leaves_a_call(fields, why):
    params = tnd(**BASIC | fields)
    assert tiling(params, priority=1001).reasons == (f"template basic_tnd: {why}",)
    assert tiling(params).template != "basic_tnd"


# --- TND ---


def test_batches_of_equal_length_are_taken_as_bsh():
    result = tiling(tnd((64, 64), (64, 64), N2=32, D=72))
    assert (result.template, result.key_fields.layout) == ("S1s2Bn2", 0)
    assert (
        result.workspace_bytes
        == tiling(call(layout="BSH", dtype="fp16", B=2, N2=32, S1=64, S2=64, D=72), priority=15000).workspace_bytes
    )


@pytest.mark.parametrize(
    "fields",
    [{"pse": "[T2*N1]"}, {"sparse_mode": 7, "atten_mask": (2048, 2048)}, {"q_lens": (64, 63)}],
)
def test_what_keeps_a_tnd_call_from_being_taken_as_bsh(fields):
    result = tiling(tnd(**{"q_lens": (64, 64), "kv_lens": (64, 64), "D": 72} | fields))
    assert (result.template, result.key_fields.layout) == ("S1s2Bn2gs1s2_tnd", 3)


def test_empty_batches_at_the_end_do_not_count():
    short, long = tiling(tnd((64,), (48,), N2=4)), tiling(tnd((64, 0, 0), (48, 0, 0), N2=4))
    assert short.workspace_bytes == long.workspace_bytes
    assert short.tiles == long.tiles


def test_mean_length_decides_between_same_ab_and_the_tnd_template():
    assert tiling(tnd((1024, 1024), (1024, 1025))).template == "SameAB"
    assert tiling(tnd((1024, 1023), (1024, 1025))).template == "S1s2Bn2gs1s2_tnd"
    assert tiling(tnd((2000, 100), (1024, 1025))).template == "SameAB"
    assert tiling(tnd((1024, 1024), (1024, 1023))).template == "S1s2Bn2gs1s2_tnd"


@pytest.mark.parametrize(
    ("fields", "template"),
    [
        ({}, "S1s2Bn2gs1s2"),
        ({"G": 2}, "SameAB"),
        ({"keep_prob": 0.5, "drop_mask": (2**30,)}, "SameAB"),
        ({"sparse_mode": 2, "atten_mask": (2048, 2048), "q_start_idx": (0,)}, "SameAB"),
        ({"q_lens": (2048, 9000), "kv_lens": (2048, 9000), "atten_mask": (9000, 9000)}, "SameAB"),
        ({"q_lens": (9000, 2048), "kv_lens": (9000, 2048), "atten_mask": (9000, 9000)}, "S1s2Bn2gs1s2"),
        ({"q_lens": (4096, 0), "kv_lens": (4096, 0), "atten_mask": (4096, 4096)}, "SameAB"),
        ({"kv_lens": (2048, 2048)}, "SameAB"),
    ],
)
def test_tnd_with_d_128_and_many_groups_is_left_to_the_last_template(fields, template):
    base = {"q_lens": (1024, 3072), "kv_lens": (1024, 3072), "D": 128, "G": 4, "atten_mask": (3072, 3072)}
    params = tnd(**base | fields)
    params = replace(
        params, atten_mask=params.atten_mask if fields.get("sparse_mode") else (params.q_len, params.kv_len)
    )
    assert tiling(params).template == template


@pytest.mark.parametrize(
    ("kv_len", "dtype", "tile"),
    [
        (69, "fp16", (512, 128)),
        (70, "fp16", (512, 256)),
        (79, "bf16", (512, 256)),
        (80, "bf16", (512, 128)),
        (128, "fp16", (512, 128)),
        (129, "fp16", (512, 256)),
        (256, "fp16", (512, 256)),
        (257, "fp16", (128, 512)),
        (129, "fp32", (128, 512)),
    ],
)
def test_score_tile_of_long_queries_and_short_keys(kv_len, dtype, tile):
    result = tiling(tnd((2048, 2048), (kv_len, kv_len), D=96, dtype=dtype))
    assert (result.tiles.cv_s1, result.tiles.cv_s2) == tile
    assert result.tiles.is_row_ping_pong == (tile[0] == 512)
    assert result.key_fields.tnd_ping_pong == 0


def test_the_band_batch_of_modes_7_and_8():
    lens = (0, 5, 6, 0), (3, 5, 6, 1)
    assert band_batch(fag_call(tnd(*lens, sparse_mode=7, atten_mask=(2048, 2048)))) == 2
    assert band_batch(fag_call(tnd(*lens, sparse_mode=8, atten_mask=(2048, 2048)))) == 1
    assert band_batch(fag_call(tnd(*lens, sparse_mode=7))) == 0


def test_tokens_of_each_batch_in_mode_7():
    band = Band(10, 20, is_sparse=True)
    one = fag_call(tnd((5, 6), (8, 8), sparse_mode=7, atten_mask=(2048, 2048)))
    assert batch_tokens(one, band, 0) == (2**31 - 1 - 3, 3)
    assert batch_tokens(one, band, 1) == (8, 22)
    other = fag_call(tnd((5, 6), (8, 8), sparse_mode=8, atten_mask=(2048, 2048)))
    assert batch_tokens(other, band, 0) == (7, 23)
    assert batch_tokens(other, band, 1) == (2**31 - 1, 0)


# --- the score tile and the options around it ---


@pytest.mark.parametrize(
    ("fields", "tile"),
    [
        ({"S1": 4096, "S2": 2048, "sparse_mode": 3, "atten_mask": (2048, 2048)}, (512, 512)),
        ({"S1": 8192, "S2": 2048, "sparse_mode": 3, "atten_mask": (2048, 2048)}, (512, 512)),
        ({"S1": 6144, "S2": 2048, "sparse_mode": 3, "atten_mask": (2048, 2048)}, (256, 512)),
        ({"S1": 1024, "S2": 4096, "sparse_mode": 2, "atten_mask": (2048, 2048)}, (256, 512)),
        ({"S1": 1024, "S2": 4096, "sparse_mode": 1, "atten_mask": "[S1,S2]"}, (512, 512)),
        ({"S1": 2048, "S2": 1100, "D": 96}, (464, 560)),
        ({"S1": 2048, "S2": 100, "D": 96}, (1024, 112)),
        ({"S1": 16, "S2": 1900, "D": 96}, (16, 480)),
        ({"S1": 3072, "S2": 2048, "pre_tokens": 100, "next_tokens": 100, "atten_mask": "[S1,S2]"}, (256, 512)),
        ({"S1": 3072, "S2": 2048, "pre_tokens": -1, "next_tokens": 300, "atten_mask": "[S1,S2]"}, (256, 512)),
        ({"S1": 3072, "S2": 2048, "pre_tokens": 500, "next_tokens": -1, "atten_mask": "[S1,S2]"}, (256, 512)),
        ({"S1": 3072, "S2": 2048, "pre_tokens": 1500, "next_tokens": -1, "atten_mask": "[S1,S2]"}, (512, 512)),
    ],
)
def test_score_tile_of_same_ab(fields, tile):
    result = tiling(call(**fields), priority=15500)
    assert (result.tiles.cv_s1, result.tiles.cv_s2) == tile


def test_a_deterministic_call_on_few_cores_has_small_tiles():
    """512 rows over 4 // 3 = 1 group of AIVs: 512 * 128 * 8 bytes are more than 189 KiB."""
    result = fag_tiling(call(deterministic=True), device(2, 4))
    assert (result.tiles.cv_s1, result.tiles.cv_s2) == (256, 256)


def test_private_sums_of_a_deterministic_call():
    terms = {t.name: t.bytes for t in tiling(call(deterministic=True, Dv=64)).terms}
    assert terms["private dQ tiles"] == terms["private dK tiles"] == 512 * 128 * 4 * 24 * 2
    assert terms["private dV tiles"] == 512 * 64 * 4 * 24 * 2


@pytest.mark.parametrize(
    ("fields", "tile"),
    [
        ({"S1": 2048, "S2": 2048}, (64, 1024)),
        ({"S1": 2048, "S2": 2048 + 100}, (73, 1024)),
        ({"S1": 16, "S2": 2048}, (512, 1024)),
    ],
)
def test_tile_of_the_inner_bias(fields, tile):
    """8192 elements: as many rows as the columns of the last part, or of 1024, leave; at least 8192 / rows."""
    rows, columns = tile
    result = tiling(call(**fields, pse="[N1]", pse_type=2), priority=15500)
    assert {t.name: t.bytes for t in result.terms}["inner pse"] == -(-rows * columns * 2 // 512) * 512 * 48


@pytest.mark.parametrize(
    ("fields", "is_custom"),
    [
        ({}, True),
        ({"D": 64}, True),
        ({"D": 64, "atten_mask": (2048, 2048), "sparse_mode": 3}, False),
        ({"D": 192}, False),
        ({"D": 192, "atten_mask": (2048, 2048), "sparse_mode": 3}, True),
        ({"D": 192, "atten_mask": (2048, 2048), "sparse_mode": 3, "layout": "BSND"}, False),
        ({"D": 272, "atten_mask": (2048, 2048), "sparse_mode": 3}, False),
        ({"dtype": "fp16"}, False),
        ({"pse": "[B,N1,1,S2]"}, False),
        ({"keep_prob": 0.5, "drop_mask": (2**23,)}, False),
        ({"deterministic": True}, False),
        ({"S1": 511}, False),
    ],
)
def test_l1_custom_of_same_ab(fields, is_custom):
    result = tiling(call(**fields))
    assert result.tiles.is_l1_custom == is_custom
    assert result.key_fields.s1_template == int(is_custom)


def test_prescribed_tiles_decide_the_rest():
    plain, other = tiling(call()), tiling(call(), override=TileOverride(cv_s1=256, cv_s2=1024))
    assert (other.tiles.outer_s1, other.tiles.outer_s2, other.tiles.is_l1_custom) == (8, 2, False)
    assert other.workspace_bytes == plain.workspace_bytes
    assert other.matmuls.scores == BaseBlock(128, 128, 128)
    small = tiling(call(), override=TileOverride(cv_s1=128, cv_s2=128))
    assert plain.workspace_bytes - small.workspace_bytes == 48 * (512 * 512 - 128 * 128) * 8


def test_prescribed_tiles_of_the_other_templates():
    fp32 = tiling(call(dtype="fp32"), override=TileOverride(vec_s1=64, cv_s1=256, vec_s2=32, cv_s2=64))
    assert fp32.tiles.valid_blocks == 8 * 8 * 32
    assert (fp32.tiles.outer_s1, fp32.tiles.outer_s2) == (8, 32)
    short = tiling(call(S1=512, S2=512, N2=64, D=64), override=TileOverride(vec_s1=16, cv_s1=128, cv_s2=512))
    assert (short.tiles.vec_s1, short.tiles.outer_s1, short.tiles.outer_s2) == (16, 4, 1)
    batches = tiling(call(**SMALL | {"B": 8, "N2": 4}), override=TileOverride(units=2, cv_units=4))
    assert (batches.split.units, batches.split.cv_units, batches.split.groups) == (2, 4, 2)
    heads = tiling(call(**SMALL | {"N2": 32}), override=TileOverride(units=4, cv_units=8))
    assert (heads.split.units, heads.split.cv_units, heads.split.groups) == (4, 8, 4)


@pytest.mark.parametrize(
    ("params", "override", "message"),
    [
        (call(), {"units": 2}, "template SameAB has no units to prescribe; it takes cv_s1, cv_s2, vec_s1, vec_s2"),
        (
            call(**SMALL | {"N2": 4}),
            {"cv_s1": 16},
            "template Ungs1s2_B has no cv_s1 to prescribe; it takes units, cv_units",
        ),
        (tnd(**BASIC), {"cv_s1": 16}, "template basic_tnd has no cv_s1 to prescribe; it takes none"),
        (call(dtype="fp32"), {"cv_s1": 100}, "cv_s1 = 100: must be a multiple of the vector tile's 128"),
    ],
)
def test_a_tile_that_cannot_be_prescribed(params, override, message):
    with pytest.raises(InputError) as error:
        tiling(params, override=TileOverride(**override))
    assert str(error.value) == message


def test_a_tile_of_nothing_cannot_be_prescribed():
    with pytest.raises(InputError, match=r"^cv_s1 = 0: must be at least 1$"):
        TileOverride(cv_s1=0)


def test_no_base_block_for_a_tile_beyond_what_the_library_knows():
    result = tiling(call(), override=TileOverride(cv_s1=16, cv_s2=8))
    assert result.matmuls.scores.n == 16


# --- score tiles with work ---


def fag_call(params):
    return FagCall(params, read_shape(params), fag_platform(device()))


@given(
    s1_tiles=st.integers(1, 5),
    s2=st.integers(1, 40),
    cv_s1=st.integers(1, 6),
    cv_s2=st.integers(1, 9),
    pre=st.integers(-10, 40),
    after=st.integers(-10, 40),
)
def test_counted_tiles_are_those_that_hold_a_score_of_the_band(s1_tiles, s2, cv_s1, cv_s2, pre, after):
    """Of bands that are not refused: pre + next is not negative."""
    assume(pre + after >= 0)
    s1 = s1_tiles * cv_s1
    one = fag_call(call(S1=s1, S2=s2, N2=1))
    held = {(i // cv_s1, j // cv_s2) for i in range(s1) for j in range(s2) if j - i <= after and i - j <= pre}
    assert valid_blocks(one, Band(pre, after, is_sparse=True), cv_s1, cv_s2) == len(held)


@given(
    s1=st.integers(1, 40),
    longer=st.integers(0, 20),
    prefixes=st.lists(st.integers(0, 40), min_size=1, max_size=3),
    cv_s1=st.integers(1, 6),
    cv_s2=st.integers(1, 9),
)
def test_tiles_right_of_a_prefix_start_below_the_diagonal(s1, longer, prefixes, cv_s1, cv_s2):
    s2 = s1 + longer
    prefixes = tuple(min(max(p, longer + 1), s2) for p in prefixes)
    one = fag_call(call(S1=s1, S2=s2, N2=1, B=len(prefixes), sparse_mode=5, prefix=prefixes))
    expected = sum(
        sum(1 for top in range(0, s1, cv_s1) if top < s1 - max(0, first - longer if first > prefix else 0))
        for prefix in prefixes
        for first in range(0, s2, cv_s2)
    )
    assert valid_blocks(one, Band(0, 0, is_sparse=True), cv_s1, cv_s2) == expected


# --- keys ---


@given(st.builds(KeyFields, **{name: st.integers(0, (1 << bits) - 1) for name, bits in KEY_BITS.items()}))
def test_a_key_decodes_to_its_fields(fields):
    key = encode_key(fields)
    if key != 90:
        assert decode_key(key) == fields


def test_keys_that_are_none():
    with pytest.raises(InputError, match=r"^dtype = 4: the field of the tiling key has 2 bits, 0\.\.3$"):
        encode_key(KeyFields(4, 3, 4, dtype=4))
    with pytest.raises(InputError, match=r"^tiling key 90 is that of empty outputs; it has no fields$"):
        decode_key(90)
    for key in (-1, 1 << 44):
        with pytest.raises(InputError, match=rf"^tiling key {key}: must be in 0\.\.{2**44 - 1}$"):
            decode_key(key)


# --- properties of whole tilings ---

SIZES = st.sampled_from((1, 15, 16, 63, 64, 128, 257, 500, 512, 768, 1000, 1024, 2047, 2048, 4096))
CALLS = st.builds(
    call,
    dtype=st.sampled_from(("fp16", "bf16", "fp32")),
    layout=st.sampled_from(("BSH", "SBH", "BSND", "BNSD")),
    B=st.integers(1, 9),
    N2=st.integers(1, 40),
    G=st.sampled_from((1, 1, 2, 4, 8)),
    S1=SIZES,
    S2=SIZES,
    D=st.sampled_from((16, 64, 72, 88, 96, 128, 192, 256, 512, 768)),
    keep_prob=st.sampled_from((1.0, 1.0, 0.8)),
    drop_mask=st.just("[B,N1,S1,S2] bytes"),
    atten_mask=st.sampled_from((None, "[S1,S2]", "[B,1,S1,S2]")),
    sparse_mode=st.sampled_from((0, 1)),
    deterministic=st.booleans(),
)


@given(CALLS)
def test_every_plain_call_is_taken_and_its_workspace_is_its_terms(params):
    result = tiling(params)
    assert (result.status, result.reasons) == ("ok", ())
    assert result.workspace_bytes == sum(term.bytes for term in result.terms)
    assert decode_key(result.tiling_key) == result.key_fields
    assert 1 <= result.block_dim <= 24
    assert result.key_fields.deterministic <= params.deterministic
    tiles = result.tiles
    if tiles.cv_s1:
        assert (tiles.outer_s1 - 1) * tiles.cv_s1 < params.S1 <= tiles.outer_s1 * tiles.cv_s1
        assert (tiles.outer_s2 - 1) * tiles.cv_s2 < params.S2 <= tiles.outer_s2 * tiles.cv_s2
    for block in (result.matmuls.scores, result.matmuls.dk_dv, result.matmuls.dq):
        assert block.m * block.k * 4 <= 65536 * 4
        assert block.m * block.n * 4 <= 131072


@given(CALLS, st.integers(1, 4))
def test_more_batches_never_need_less_workspace(params, more):
    """As long as the same template takes the call."""
    less, greater = tiling(params), tiling(replace(params, B=params.B + more))
    if less.template == greater.template and less.template not in {"S1s2Bn2", "S1s2Bn2_deterministic"}:
        assert less.workspace_bytes <= greater.workspace_bytes


def stepped(size, payload):
    return (size + payload + 512) // 512 * 512


@given(
    b=st.integers(1, 9),
    n2=st.integers(1, 40),
    g=st.sampled_from((1, 2, 8)),
    s1=st.integers(1024, 9000),
    s2=st.integers(1024, 9000),
    d=st.sampled_from((64, 72, 128, 192, 256)),
    keep_prob=st.sampled_from((1.0, 0.5)),
    deterministic=st.booleans(),
)
def test_workspace_of_same_ab_by_its_formula(b, n2, g, s1, s2, d, keep_prob, deterministic):
    params = FagParams(
        "bf16", "BSND", b, n2, g, s1, s2, d, keep_prob=keep_prob, drop_mask="[B,N1,S1,S2]", deterministic=deterministic
    )
    result = tiling(params)
    assert result.template == ("SameAB_deterministic" if deterministic else "SameAB")
    assert result.block_dim == 24
    cv_s1, cv_s2 = result.tiles.cv_s1, result.tiles.cv_s2
    width = -(-d // 16) * 16 if d == 72 or result.tiles.is_gradient_nz else d
    query, key = b * n2 * g * s1, b * n2 * s2
    size = 65536
    for elements in (query * width, key * width, key * width):
        size = stepped(size, 4 * elements)
    if keep_prob < 1 and s2 % 8:
        size = stepped(size, b * n2 * g * s1 * s2)
    size += -(-query * 32 // 512) * 512
    size = stepped(size, 48 * cv_s1 * cv_s2 * 8) + 20 * MIB
    if deterministic:
        size += sum(-(-rows * -(-d // 16) * 16 * 4 * 48 // 512) * 512 for rows in (cv_s1, cv_s2, cv_s2))
    assert result.workspace_bytes == size


@given(
    b=st.integers(1, 9),
    n2=st.integers(1, 9),
    s1=st.integers(1, 5000),
    s2=st.integers(1024, 5000),
    d=st.integers(1, 768),
)
def test_workspace_and_cores_of_the_last_template_by_their_formulas(b, n2, s1, s2, d):
    result = tiling(FagParams("fp32", "BNSD", b, n2, 1, s1, s2, d))
    assert result.template == "S1s2Bn2gs1s2"
    v1, v2 = min(128, -(-s1 // 16) * 16), min(64, -(-s2 // 16) * 16)
    r2 = 16 if d == 64 else 8
    blocks = b * n2 * -(-s1 // v1) * -(-s2 // (v2 * r2))
    cores = -(-blocks // -(-blocks // 48))
    assert (result.tiles.used_cores, result.block_dim) == (cores, -(-cores // 2))
    size = 16384
    for elements in (b * n2 * s1 * d, b * n2 * s2 * d, b * n2 * s2 * d):
        size = stepped(size, 4 * elements)
    for _ in range(3):
        size = stepped(size, 48 * v1 * v2 * r2 * 8)
    assert result.workspace_bytes == size + 20 * MIB


# --- base blocks ---


@given(
    m=st.integers(1, 1024),
    n=st.integers(1, 1024),
    k=st.integers(1, 1024),
    element_bytes=st.sampled_from((2, 4)),
    a_transposed=st.booleans(),
    b_transposed=st.booleans(),
)
def test_a_base_block_fits_half_of_l0a_and_l0b_and_all_of_l0c(m, n, k, element_bytes, a_transposed, b_transposed):
    product = Product(m, n, k, element_bytes, a_transposed=a_transposed, b_transposed=b_transposed)
    block = base_block(product, fag_platform(device()))
    assert block.m * block.k * element_bytes <= 32768
    assert block.n * block.k * element_bytes <= 32768
    assert block.m * block.n * 4 <= 131072
    assert block.m % 16 == block.n % 16 == 0
    assert block.k * element_bytes % 32 == 0


def test_a_prescribed_base_wider_than_the_product_gives_none():
    platform = fag_platform(device())
    assert base_block(Product(16, 64, 64, 2, fixed_m=128), platform) is None
    assert base_block(Product(128, 64, 64, 2, fixed_m=128), platform) == BaseBlock(128, 64, 64)


# --- parameters ---


@pytest.mark.parametrize(
    ("layout", "query", "key"),
    [
        ("BSH", (2, 10, 6 * 64), (2, 11, 3 * 64)),
        ("SBH", (10, 2, 6 * 64), (11, 2, 3 * 64)),
        ("BSND", (2, 10, 6, 64), (2, 11, 3, 64)),
        ("BNSD", (2, 6, 10, 64), (2, 3, 11, 64)),
    ],
)
def test_shapes_of_the_tensors(layout, query, key):
    params = FagParams(
        "fp16", layout, 2, 3, 2, 10, 11, 64, Dv=32, pse="[B,N1,1,S2]", drop_mask="[B,N1,S1,ceil(S2/8)] bits"
    )
    assert params.shape_of("query") == params.shape_of("dq") == query
    assert params.shape_of("key") == params.shape_of("dk") == key
    value = tuple(32 if axis == 64 else 3 * 32 if axis == 3 * 64 else axis for axis in key)
    assert params.shape_of("value") == params.shape_of("dv") == value
    assert params.shape_of("softmaxMax") == params.shape_of("softmaxSum") == (2, 6, 10, 8)
    assert params.shape_of("pseShift") == params.shape_of("dpse") == (2, 6, 1, 11)
    assert params.shape_of("dropMask") == (2, 6, 10, 2)
    assert params.shape_of("attenMask") is None
    assert params.shape_of("prefix") is None


def test_shapes_of_a_tnd_call():
    params = tnd((3, 5), (4, 6), N2=2, G=3, pse="[sum(q*kv)*N1]", padding_mask="S1_S2")
    assert (params.batch, params.q_len, params.kv_len, params.T1, params.T2) == (2, 5, 6, 8, 10)
    assert params.shape_of("query") == (8, 6, 64)
    assert params.shape_of("value") == (10, 2, 64)
    assert params.shape_of("softmaxSum") == (8, 6, 8)
    assert params.shape_of("pseShift") == ((3 * 4 + 5 * 6) * 6,)
    assert params.shape_of("paddingMask") == (5, 6)
    assert params.shape_of("actualSeqQLen") == (2,)


def test_types_of_the_tensors():
    params = call(pse="[N1]", pse_type=2, atten_mask="[S1,S2]", mask_dtype="uint8")
    found = {name: params.dtype_of(name) for name in TENSORS}
    assert found["query"] == found["dv"] == found["attentionIn"] == "bf16"
    assert found["softmaxMax"] == found["softmaxSum"] == found["pseShift"] == "fp32"
    assert found["dropMask"] == found["attenMask"] == "uint8"
    assert found["prefix"] == found["actualSeqKvLen"] == "int64"
    assert given_as(params, "query", dtype="fp64").dtype_of("query") == "fp64"


def test_a_tensor_given_twice_counts_as_given_last():
    params = given_as(given_as(call(), "dy", shape=(1,)), "dy", shape=(2,))
    assert params.shape_of("dy") == (2,)
    assert given_as(params, "dy", is_null=True).shape_of("dy") is None


def test_the_scale_is_the_root_of_d_unless_given():
    assert call(D=64).scale_value == 0.125
    assert call(scale=3.0).scale_value == 3.0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dtype": "fp8"}, 'dtype = \'fp8\': must be "fp16", "bf16" or "fp32"'),
        ({"layout": "NBSD"}, "layout = 'NBSD': must be one of BSH, SBH, BSND, BNSD, TND"),
        ({"B": None}, "B is not given; only layout TND takes it from q_lens and kv_lens"),
        ({"D": -1}, "D = -1: must not be negative"),
        ({"q_lens": (-1,)}, "q_lens, kv_lens: a length must not be negative"),
        (
            {"atten_mask": "[S1,S3]"},
            (
                "atten_mask = '[S1,S3]': not a shape; give numbers, or names such as \"[B,1,S1,S2]\" made of B, N1, "
                "N2, S1, S2, T1, T2, ceil(S2/8), sum(q*kv), numbers and products with *"
            ),
        ),
    ],
)
def test_parameters_that_no_call_can_have(fields, message):
    with pytest.raises(InputError) as error:
        call(**fields)
    assert str(error.value) == message


def test_a_tensor_the_operator_has_not():
    with pytest.raises(InputError, match=r"^tensor 'bias': no such tensor; FlashAttentionScoreGrad has query, key,"):
        TensorGiven("bias")


def test_a_device_of_another_architecture_is_refused():
    with pytest.raises(InputError) as error:
        fag_tiling(call(), load_device("Ascend310P3"))
    assert str(error.value) == (
        "device Ascend310P3: arch 2002; the FlashAttentionScoreGrad tiling known here is of arch 2201, choose a device "
        "of Atlas A2 or A3"
    )


def test_the_platform_less_what_the_query_hides():
    platform = fag_platform(load_device("Ascend910B2"))
    assert (platform.aic_cores, platform.aiv_cores, platform.ub_bytes, platform.l1_bytes) == (24, 48, 196352, 524032)
