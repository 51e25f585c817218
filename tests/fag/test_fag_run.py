"""Phase two as a call: names, shapes and types that it takes, what it gives, what it refuses."""

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from conftest import ROOT

import ascendsim
from ascendsim import fag
from ascendsim.errors import InputError, Rejected, Severity
from ascendsim.reference.attention import Attention, to_bnsd

PART = fag.Platform(aic_cores=2, aiv_cores=4)
CALL = fag.FagParams("bf16", "BNSD", B=1, N2=1, S1=1024, S2=32, D=32)
"""Long enough for template SameAB."""
WORKSPACE = 22_259_712
"""Sync area, three sums, row term, S and dA of 4 AIVs x 1024 x 32, 20 MiB."""


def tensors_of(params, seed=0, **more):
    """Arrays of a call by the page's names, statistics and output from the forward pass."""
    rng = np.random.default_rng(seed)
    element = params.element.numpy
    found = {n: (rng.normal(size=params.shape_of(n)) / 2).astype(element) for n in ("query", "key", "value", "dy")}
    found["dy"] /= 4
    there = layer_of(params).forward(*(found[n] for n in ("query", "key", "value")), **more)
    found["softmaxMax"] = there.softmax_max.astype(np.float32)
    found["softmaxSum"] = there.softmax_sum.astype(np.float32)
    found["attentionIn"] = there.attention_in.astype(element)
    return found


def layer_of(params):
    return Attention(
        params.N1, params.scale_value, params.layout, params.N2, pse_type=params.pse_type, keep_prob=params.keep_prob
    )


PRECISION = {"bf16": 2.0**-7, "fp16": 2.0**-10}


def near(done, params, tensors, **more):
    """Whether the gradients are those of the reference."""
    wanted = layer_of(params).backward(*(tensors[n] for n in ("query", "key", "value", "dy")), **more)
    for name in ("dq", "dk", "dv"):
        got, want = getattr(done, name), getattr(wanted, name)
        assert got.dtype == params.element.numpy
        off = np.abs(got.astype(np.float64) - want) / np.maximum(1, np.abs(want))
        assert off.max() <= PRECISION[params.dtype], name
    return True


@pytest.fixture(scope="module")
def report():
    return fag.get_workspace_size(CALL, PART)


@pytest.fixture(scope="module")
def tensors():
    return tensors_of(CALL)


@pytest.fixture(scope="module")
def done(report, tensors):
    return fag.run(report, tensors, report.workspace_bytes, compare=True)


def test_gradients_cycles_and_timeline(done, tensors):
    assert near(done, CALL, tensors)
    assert done.dpse is None
    assert done.cycles == done.result.makespan_cycles == done.timeline.makespan_cycles > 0
    assert [(e.what, e.met) for e in done.result.expectations] == [(f"values of {n}", True) for n in ("dq", "dk", "dv")]
    assert not [f for f in done.findings if f.severity is Severity.ERROR]
    assert done.findings == done.result.findings


def test_the_module_and_its_names_are_public():
    assert ascendsim.fag is fag
    assert "fag" in dir(ascendsim)


def test_all_spellings_an_answer_and_bits_give_the_same(tensors, done):
    """Snake case, the page's names of optional tensors, bfloat16 as bits, the answer of the command; a second run.

    Outputs that are given are written into, but for dpse.
    """
    request = fag.request_of(None, {"shape": "1,1,1024,32,32", "dtype": "bf16", "layout": "BNSD"})
    answer = replace(fag.answer(request), report=fag.get_workspace_size(request.params, PART))
    snake = {
        "query": tensors["query"].view(np.uint16),
        "key": tensors["key"],
        "value": tensors["value"],
        "dy": tensors["dy"],
        "softmax_max": tensors["softmaxMax"],
        "softmaxSumOptional": tensors["softmaxSum"],
        "attention_in": tensors["attentionIn"],
        "pseShift": None,
        "paddingMask": np.float32(0),
    }
    given = {name: np.zeros_like(getattr(done, name)) for name in ("dq", "dk", "dv")}
    given["dq"] = given["dq"].view(np.uint16)
    dpse = np.full((3,), 7, np.float16)
    again = fag.run(answer, snake | given | {"dpse": dpse}, WORKSPACE)
    for name in ("dq", "dk", "dv"):
        assert getattr(again, name).tobytes() == given[name].tobytes() == getattr(done, name).tobytes()
    assert again.result.expectations == ()
    assert again.dpse is dpse
    assert dpse.tolist() == [7, 7, 7]
    assert [(f.code, f.where) for f in again.findings if "-FAG-" in f.code] == [("I-FAG-DPSE", "tensors.dpse")]


def test_a_smaller_workspace_is_refused_and_nothing_is_written(report, tensors):
    assert report.workspace_bytes == WORKSPACE
    dq = np.zeros(CALL.shape_of("dq"), ml_dtypes.bfloat16)
    with pytest.raises(Rejected) as caught:
        fag.run(report, tensors | {"dq": dq}, WORKSPACE - 512)
    (finding,) = caught.value.findings
    assert (finding.code, finding.severity, finding.got, finding.wanted) == (
        *("E-CAP-WORKSPACE", Severity.ERROR, str(WORKSPACE - 512), str(WORKSPACE)),
    )
    assert str(finding) == (
        f"E-CAP-WORKSPACE aclnnFlashAttentionScoreGrad: workspace_bytes: the workspace has {WORKSPACE - 512} B, phase "
        f"one asked for {WORKSPACE} B: 512 B of it would lie behind its end (to mend it: allocate what phase one "
        f"answers: workspace_bytes={WORKSPACE})"
    )
    assert not dq.any()


def test_no_values():
    report = fag.get_workspace_size(CALL, PART)
    got = fag.run(report, tensors_of(CALL), WORKSPACE, values="none")
    assert (got.dq, got.dk, got.dv) == (None, None, None)
    assert got.cycles > 0


def test_padding_stands_around_the_kernel():
    """D of 20 becomes 32; BSH then goes to the kernel as BSND. The gradients come back as they were given."""
    params = replace(CALL, layout="BSH", dtype="fp16", N2=2, S2=16, D=20)
    report = fag.get_workspace_size(params, PART)
    assert report.kernel_params.layout == "BSND"
    tensors = tensors_of(params)
    got = fag.run(report, tensors, report.workspace_bytes)
    assert near(got, params, tensors)
    (note,) = (f for f in got.findings if f.code == "I-FAG-GRAPH")
    assert note.got == str(report.total_bytes - report.workspace_bytes)
    assert note.message.startswith("the interface pads or transposes query, key, value, dy, attentionIn, dq, dk, dv a")


def test_masks_bias_and_dropout():
    """A mask of bools, a bias for all rows, and bits."""
    params = replace(
        CALL, dtype="fp16", S2=40, atten_mask="[1,1,S1,S2]", pse="[B,N1,1,S2]", pse_type=0, keep_prob=0.5,
        drop_mask=(5120,), inner_precise=1,
    )  # fmt: skip
    rng = np.random.default_rng(3)
    mask = rng.random((1, 1, 1024, 40)) < 0.3
    mask[0, 0, 5] = True
    pse = rng.normal(size=(1, 1, 1, 40)).astype(np.float16)
    bits = rng.integers(0, 256, 5120).astype(np.uint8)
    more = {"pse": pse, "atten_mask": mask, "drop_mask": bits}
    tensors = tensors_of(params, **more) | {"attenMask": mask, "pseShift": pse, "dropMask": bits}
    report = fag.get_workspace_size(params, PART)
    got = fag.run(report, tensors, report.workspace_bytes)
    assert near(got, params, tensors, **more)
    assert [f.code for f in got.findings if "-FAG-" in f.code] == ["W-FAG-HIDDEN", "I-FAG-IGNORED"]


def test_the_seed_page_has_other_types():
    """Dropout as floats, one for each score; statistics of half precision."""
    params = replace(CALL, dtype="fp16", keep_prob=0.5, drop_mask="[B,N1,S1,S2]")
    report = fag.get_workspace_size(params, PART, interface="seed")
    kept = (np.random.default_rng(4).random((1, 1, 1024, 32)) < 0.5).astype(np.float32)
    bits = np.packbits(kept.reshape(-1) != 0, bitorder="little")
    tensors = tensors_of(params, drop_mask=bits) | {"dropMask": kept}
    got = fag.run(report, tensors, report.workspace_bytes)
    assert near(got, params, tensors, drop_mask=bits)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"query": None, "softmaxMax": None},
            (
                "tensors: query, softmaxMax not given; this call takes query, key, value, dy, softmaxMax, softmaxSum, "
                "attentionIn"
            ),
        ),
        ({"qeury": np.zeros(3)}, "tensors['qeury']: no such tensor; the nearest is query"),
        (
            {"softmax_max": np.zeros((1, 1, 1024, 8), np.float32)},
            "tensors['softmax_max']: softmaxMax is given twice, under two spellings; leave one out",
        ),
        (
            {"attenMask": np.zeros((1024, 32), np.bool_)},
            "tensors['attenMask'] is given: phase one was asked without it; ask it with attenMask",
        ),
        (
            {"query": np.zeros((1, 1, 1024, 32), np.float16)},
            "tensors['query'] is float16 [1, 1, 1024, 32]: phase one was asked with bfloat16 [1, 1, 1024, 32]",
        ),
        (
            {"dk": np.zeros((1, 1, 32, 16), ml_dtypes.bfloat16)},
            "tensors['dk'] is bfloat16 [1, 1, 32, 16]: phase one was asked with bfloat16 [1, 1, 32, 32]",
        ),
        (
            {"paddingMask": np.zeros(3)},
            (
                "arrays of dtype float64 have no AscendC type; use one of ['half', 'bfloat16_t', 'float', 'int8_t', "
                "'uint8_t', 'int16_t', 'uint16_t', 'int32_t', 'uint32_t', 'int64_t']"
            ),
        ),
    ],
)  # fmt: skip
def test_tensors_that_are_not_what_phase_one_was_asked_with(report, tensors, change, text):
    with pytest.raises(InputError) as caught:
        fag.run(report, tensors | change, WORKSPACE)
    assert str(caught.value) == text


def test_what_phase_one_refuses_does_not_run(tensors):
    refused = fag.get_workspace_size(replace(CALL, head_num=0), PART)
    with pytest.raises(Rejected) as caught:
        fag.run(refused, tensors, WORKSPACE)
    assert [f.code for f in caught.value.findings] == ["E-FAG-PARAM"]


@pytest.mark.parametrize(
    ("params", "text"),
    [
        (
            fag.FagParams("bf16", "TND", N2=1, D=64, q_lens=(64,), kv_lens=(64,)),
            "aclnnFlashAttentionUnpaddingScoreGrad: layout TND: the host answers, a kernel is not there yet",
        ),
        (
            replace(CALL, tensors=dict.fromkeys(("dq", "dk", "dv"), (0, 1, 64, 32))),
            "aclnnFlashAttentionScoreGrad: there is no kernel to run: dq, dk and dv are empty",
        ),
    ],
)
def test_calls_without_a_kernel(params, text):
    with pytest.raises(InputError) as caught:
        fag.run(fag.get_workspace_size(params, PART), {}, 1 << 30)
    assert str(caught.value) == text


@pytest.mark.parametrize("bytes_", [True, 1.5, "big"])
def test_a_workspace_is_a_number_of_bytes(report, bytes_):
    with pytest.raises(InputError) as caught:
        fag.run(report, {}, bytes_)
    assert str(caught.value) == f"workspace_bytes={bytes_!r}: must be a number of bytes, {WORKSPACE} or more"


@pytest.mark.parametrize("layout", ["BSH", "SBH", "BSND", "BNSD"])
def test_layouts_are_turned_into_each_other(layout):
    x = np.random.default_rng(1).normal(size=(2, 3, 5, 4))
    there = fag._from_bnsd(x, layout)
    assert np.array_equal(to_bnsd(there, layout, 3), x)
    assert np.array_equal(fag._to_bnsd(there, layout, 3), x)


def test_the_page_shows_a_call_that_runs(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/fag.md").read_text(), re.DOTALL)
    exec(compile(block, "fag.md", "exec"), {})  # noqa: S102 - our own text
    shown = capsys.readouterr().out
    assert shown.startswith("(1, 1, 1024, 32) ")
    assert shown.count("all within") == 3
