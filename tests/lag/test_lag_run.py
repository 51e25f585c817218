"""LaserAttentionGrad's kernel: gradients against float64, repeatability, flags, defects of the original, refusals."""

import numpy as np
import pytest
from lag_scenario import GRADIENTS, scenario

from ascendsim import machine
from ascendsim.dtypes import BFLOAT16, cast
from ascendsim.errors import InputError, Severity
from ascendsim.op_kernel import laser_attention_grad, laser_cube, laser_passes, laser_vector
from ascendsim.record import AiCore
from ascendsim.reference.laser_attention_grad import LaserAttention, LaserForward
from ascendsim.reference.relative_errors import LEAST, relative_errors
from ascendsim.terms import RoundMode

ONE = {"aic_cores": 1, "aiv_cores": 2}
WIDE = {"size": 192}

CASES = {
    "no mask, one round": {"length": 256, "heads": 1, "has_mask": False},
    "no mask, longer keys, groups, two rounds": {
        "length": 256, "kv_length": 512, "heads": 4, "kv_heads": 2, "has_mask": False, "platform": ONE,
    },
    "triangle, groups, three rounds": {"length": 512, "heads": 4, "kv_heads": 1, "platform": ONE},
    "triangle of an odd number of pairs": {"length": 768, "heads": 1, "platform": ONE},
    "window": {"length": 512, "window": 256, "heads": 3, "platform": ONE},
    "window, groups, two batches": {"batch": 2, "length": 512, "window": 256, "heads": 2, "kv_heads": 1},
    "192, triangle, groups": {"length": 256, "heads": 2, "kv_heads": 1, **WIDE},
    "192, SBH, no mask, two batches": {"batch": 2, "length": 256, "has_mask": False, "layout": "SBH", **WIDE},
    "192, SBH, triangle, groups, two rounds": {
        "length": 512, "heads": 2, "kv_heads": 1, "layout": "SBH", "platform": ONE, **WIDE,
    },
    "triangle, unfolded": {"length": 512, "heads": 1, "order": "unfolded"},
}  # fmt: skip


def layer_of(case):
    sizes = case.tensors["key"].shape
    is_sbh = case.tiling["input_layout"] == "SBH"
    kv_heads = sizes[2] // 256 if is_sbh else sizes[1]
    keys = case.tiling
    return LaserAttention(keys["head_num"], kv_heads, keys["scale_value"], keys["input_layout"], keys["pre_tokens"])


def to_bf16(x):
    return cast(np.asarray(x), BFLOAT16, RoundMode.CAST_RINT).astype(np.float64)


def references(case, inputs, rounded=np.asarray):
    """Gradients in float64, with P, dS and results rounded if asked."""
    forward = LaserForward(inputs["softmax_max"], inputs["softmax_sum"], inputs["attention_in"])
    tensors = (inputs[name] for name in ("query", "key", "value", "attention_out_grad"))
    found = layer_of(case).backward(*tensors, forward, inputs.get("atten_mask"), rounded)
    return {"query_grad": found.dq, "key_grad": found.dk, "value_grad": found.dv}


@pytest.mark.parametrize("how", CASES.values(), ids=CASES)
def test_gradients_are_those_of_the_reference(how):
    """Within 5e-3, and by ATB's relative errors against a computation that rounds where the kernel does."""
    case = scenario(**how)
    result = machine.run(case)
    assert [(e.what, e.met) for e in result.expectations] == [(f"values of {name}", True) for name in GRADIENTS]
    assert not [f for f in result.findings if f.severity is Severity.ERROR]
    inputs = machine._prepare(case, with_data=True).inputs
    exact, same_precision = references(case, inputs), references(case, inputs, to_bf16)
    for name, values in exact.items():
        theirs = relative_errors(same_precision[name], values)
        assert relative_errors(result.outputs[name], values).is_accepted(theirs, LEAST["bfloat16_t"]), name


def test_columns_of_a_wide_key_that_are_not_read_have_no_gradient():
    found = machine.run(scenario(length=256, heads=1, **WIDE)).outputs["key_grad"].astype(np.float64)
    assert not found[..., 192:].any()
    assert found[..., :192].any(axis=-1).all()


def test_a_second_run_gives_the_same_bytes():
    runs = [machine.run(scenario(**CASES["window"])) for _ in range(2)]
    for name in GRADIENTS:
        assert runs[0].outputs[name].tobytes() == runs[1].outputs[name].tobytes()
    assert runs[0].makespan_cycles == runs[1].makespan_cycles


# ---- flags -----------------------------------------------------------------------------------------------------------


RACES = {"E-RACE-RAW", "E-RACE-WAR", "E-RACE-WAW", "E-RACE-GM"}
ROUNDS = CASES["triangle, groups, three rounds"]


def codes(how):
    return {f.code for f in machine.check(scenario(**how)) if f.severity is Severity.ERROR}


def leave_out(monkeypatch, name, is_left_out):
    """Have a core's API do nothing for some arguments."""
    form = next(base.__dict__[name] for base in AiCore.__mro__ if name in base.__dict__)

    def call(asc):
        real = form.__get__(asc, AiCore)
        return lambda *args, **more: None if is_left_out(*args) else real(*args, **more)

    monkeypatch.setattr(AiCore, name, property(call), raising=False)


def test_nothing_is_found_with_all_flags():
    assert codes(ROUNDS) == set()


@pytest.mark.parametrize("flag", [laser_attention_grad.SCORES_ARE_THERE, laser_attention_grad.TILES_ARE_THERE])
def test_a_missing_flag_between_cores_is_found(flag, monkeypatch):
    for name in ("cross_core_set_flag", "cross_core_wait_flag"):
        leave_out(monkeypatch, name, lambda _mode, _pipe, number: number == flag)
    assert codes(ROUNDS) & RACES


@pytest.mark.parametrize("module", [laser_vector, laser_cube, laser_passes])
def test_missing_flags_between_pipes_are_found(module, monkeypatch):
    monkeypatch.setattr(module, "pass_on", lambda *_: None)
    assert codes(ROUNDS) & (RACES | {"E-MMAD-LAYOUT", "W-MEM-UNINIT"})


@pytest.mark.parametrize(("name", "event_id"), [("MTE3_MTE2", 0), ("MTE3_MTE2", 1)])
def test_a_missing_flag_of_one_half_is_found(name, event_id, monkeypatch):
    for call in ("set_flag", "wait_flag"):
        leave_out(monkeypatch, call, lambda event, number: (event.name, number) == (name, event_id))
    assert codes(CASES["no mask, one round"]) & RACES


def test_without_sync_all_sums_are_added_before_they_are_zero(monkeypatch):
    monkeypatch.setattr(AiCore, "sync_all", lambda *_, **__: None)
    assert codes(CASES["triangle of an odd number of pairs"]) & RACES


# ---- defects of the original -----------------------------------------------------------------------------------------


def test_bits_read_as_bfloat16_hide_whole_blocks_at_the_left_edge():
    case = scenario(length=512, window=256, heads=1, platform=ONE, vendor_quirks=True)
    result = machine.run(case)
    inputs = machine._prepare(case, with_data=True).inputs
    i, j = np.arange(512)[:, None], np.arange(512)
    hidden = (j > i) | (j // 128 <= i // 128 - 2)
    forward = LaserForward(inputs["softmax_max"], inputs["softmax_sum"], inputs["attention_in"])
    tensors = (inputs[name] for name in ("query", "key", "value", "attention_out_grad"))
    found = LaserAttention(1, 1, case.tiling["scale_value"]).backward(*tensors, forward, hidden)
    for name, values in (("query_grad", found.dq), ("key_grad", found.dk), ("value_grad", found.dv)):
        np.testing.assert_allclose(result.outputs[name].astype(np.float64), values, rtol=5e-3, atol=5e-3)
    assert {f.code: f.severity.value for f in result.findings}["W-LAG-MASKBITS"] == "W"


def test_the_wrong_field_of_the_pass_behind_writes_behind_dq():
    """256 * 128 elements on 3 AIC: six AIVs of 5462 elements write 4 more than there are."""
    how = {"length": 256, "heads": 1, "platform": {"aic_cores": 3, "aiv_cores": 6}}
    assert "E-OOB-GM" in codes(how | {"vendor_quirks": True})
    assert codes(how) == set()


# ---- what is told and refused ----------------------------------------------------------------------------------------


def test_a_gradient_outside_its_range_is_told():
    case = scenario(length=256, heads=1, has_mask=False, tensors={"attention_out_grad": {"scale": 1.0}})
    assert "W-LAG-RANGE" in {f.code for f in machine.run(case).findings}


def test_parameters_that_are_not_read_are_told():
    case = scenario(length=256, heads=1, has_mask=False, keep_prob=0.5, sparse_mode=1)
    found = [f.operand for f in machine.run(case).findings if f.code == "I-LAG-IGNORED"]
    assert found == ["keepProb", "sparseMode"]


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"window": 300}, "tiling.pre_tokens: preTokens = 300: must be at least 1 and a multiple of 256 (create:"),
        ({"window": 1024}, "tensors.query: query [1, 2, 512, 128]: axis 2 is 512, must be at least preTokens = 1024"),
        ({"kv_heads": 1, "heads": 3, "tensors": {"value": {"shape": [1, 3, 512, 128]}}}, "tensors.value: value"),
        ({"tensors": {"key": {"dtype": "half"}}}, "tensors.key: key is float16 nd: LaserAttentionGradOperation takes"),
        ({"order": "unfolded", "has_mask": False}, 'tiling.order = "unfolded": the call computes a dense map'),
        ({"block_cores": 3}, "tiling.block_cores = 3: 2 AICs are launched; take at most those"),
    ],
)
def test_calls_that_are_refused(how, text):
    with pytest.raises(InputError) as error:
        machine.check(scenario(**how))
    assert text in str(error.value)
