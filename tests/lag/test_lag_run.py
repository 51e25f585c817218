"""LaserAttentionGrad's kernel: gradients against float64, repeatability, flags, defects of the original, refusals."""

from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from lag_other import gradients
from lag_scenario import FEW, GRADIENTS, scenario

from ascendsim import machine
from ascendsim.errors import InputError, Severity
from ascendsim.op_kernel import laser_attention_grad, laser_cube, laser_passes, laser_vector
from ascendsim.record import AiCore
from ascendsim.reference.laser_attention_grad import LaserAttention, LaserForward
from ascendsim.reference.relative_errors import LEAST, relative_errors
from ascendsim.terms import Pipe

ONE, THREE = {"aic_cores": 1, "aiv_cores": 2}, {"aic_cores": 3, "aiv_cores": 6}


@dataclass(frozen=True, eq=False)
class Case:
    """A call by what the pairs are of, and how its scenario has it."""

    mask: str
    groups: int
    size: int
    layout: str
    batch: int
    rounds: str
    heads: int
    length: int
    platform: dict = field(default_factory=lambda: ONE)
    kv_length: int | None = None

    @property
    def factors(self):
        return (self.mask, self.groups, self.size, self.layout, self.batch, self.rounds)

    @property
    def how(self):
        return {
            "layout": self.layout, "batch": self.batch, "heads": self.heads, "kv_heads": self.heads // self.groups,
            "length": self.length, "kv_length": self.kv_length, "size": self.size, "has_mask": self.mask != "none",
            "window": 256 if self.mask == "window" else None, "platform": self.platform,
        }  # fmt: skip


FACTORS = (("none", "triangle", "window"), (1, 2, 4), (128, 192), ("BNSD", "SBH"), (1, 2), ("one", "two", "more"))
CASES = (
    Case("none", 1, 128, "BNSD", 1, "one", heads=2, length=256, kv_length=512),
    Case("none", 2, 192, "SBH", 2, "two", heads=2, length=256, kv_length=512),
    Case("none", 4, 192, "BNSD", 1, "more", heads=4, length=256, kv_length=768),
    Case("triangle", 1, 192, "BNSD", 1, "two", heads=1, length=768),
    Case("triangle", 1, 192, "SBH", 1, "more", heads=3, length=512),
    Case("triangle", 2, 128, "BNSD", 2, "more", heads=2, length=512),
    Case("triangle", 4, 192, "SBH", 2, "one", heads=4, length=256, platform=FEW),
    Case("window", 1, 128, "BNSD", 2, "more", heads=2, length=512),
    Case("window", 2, 128, "BNSD", 1, "one", heads=2, length=512, platform=FEW),
    Case("window", 4, 128, "BNSD", 2, "two", heads=4, length=512, platform=THREE),
)
IMPOSSIBLE = {("window", 192), ("window", "SBH"), (128, "SBH")}
"""The operator refuses heads of 192 with a window, and SBH has no others."""
ROUNDS = CASES[5]
FIRST = (CASES[0], CASES[8], ROUNDS, *(case for case in CASES if case.factors[:4] == ("triangle", 4, 192, "SBH")))
"""Each mask, both head classes, both layouts; the others with `make deep`."""


def pairs(factors):
    """Pairs of values, each with the places of its factors."""
    return {((i, a), (j, b)) for (i, a), (j, b) in combinations(enumerate(factors), 2)}


def test_the_cases_have_every_pair_of_options():
    wanted = set().union(*map(pairs, product(*FACTORS)))
    possible = {(a, b) for a, b in wanted if (a[1], b[1]) not in IMPOSSIBLE}
    assert set().union(*(pairs(case.factors) for case in CASES)) == possible


@cache
def ran(case):
    """A case's scenario and its run."""
    made = scenario(**case.how)
    return made, machine.run(made)


def blind(case):
    """What no query sees: the mask, and what lies before the window."""
    rows, columns = case.length, case.kv_length or case.length
    i, j = np.arange(rows)[:, None], np.arange(columns)
    hidden = np.zeros((rows, columns), np.bool_) if case.mask == "none" else j > i
    return hidden | (j < i - 256) if case.mask == "window" else hidden


def references(made, inputs):
    """Gradients in float64."""
    keys, sizes = made.tiling, made.tensors["value"].shape
    kv_heads = sizes[2] // 128 if keys["input_layout"] == "SBH" else sizes[1]
    layer = LaserAttention(keys["head_num"], kv_heads, keys["scale_value"], keys["input_layout"], keys["pre_tokens"])
    forward = LaserForward(inputs["softmax_max"], inputs["softmax_sum"], inputs["attention_in"])
    tensors = (inputs[name] for name in ("query", "key", "value", "attention_out_grad"))
    found = layer.backward(*tensors, forward, inputs.get("atten_mask"))
    return {"query_grad": found.dq, "key_grad": found.dk, "value_grad": found.dv}


def check_relative_errors(result, inputs, made, hidden):
    """ATB's criteria: errors against float64 beside those of another implementation of the same types."""
    other = gradients(inputs, made.tiling, hidden)
    for name, values in references(made, inputs).items():
        theirs = relative_errors(other[name], values)
        assert relative_errors(result.outputs[name], values).is_accepted(theirs, LEAST["bfloat16_t"]), name


FOUND = {
    "W-CAP-UB-SAFE", "W-RACE-ATOMICORDER", "W-TILE-IDLE", "W-LAG-MASKBITS", "W-LAG-POST", "W-LAG-CORES",
}  # fmt: skip
"""What a correct call may lead to: none of it is an error."""


def depth(case):
    """The case as a parameter, marked if it is not among the first."""
    return pytest.param(case, id="-".join(map(str, case.factors)), marks=[] if case in FIRST else [pytest.mark.deep])


@pytest.mark.parametrize("case", [depth(case) for case in CASES])
def test_gradients_are_those_of_the_reference(case):
    """Data as all published cases draw them, from -2 to 2: within 5e-3 (allclose), and by ATB's relative errors."""
    made, result = ran(case)
    assert [(e.what, e.met) for e in result.expectations] == [(f"values of {name}", True) for name in GRADIENTS]
    assert {f.code for f in result.findings} <= FOUND
    rounds = {"one": 1, "two": 2}.get(case.rounds, 3)
    assert lag_rounds(made) == rounds
    inputs = machine._prepare(made, with_data=True).inputs
    check_relative_errors(result, inputs, made, blind(case))


def lag_rounds(made):
    """Rounds of a scenario's block map."""
    return machine._prepare(made, with_data=False).argument.blocks.rounds


@pytest.mark.parametrize("drawn", [(-100.0, 100.0), (-200.0, 200.0)], ids=["uniform", "normal"])
def test_data_as_wide_as_the_page_draws_them(drawn):
    """P and dS in bfloat16 put results of any implementation further off than 5e-3; ATB's errors compare them."""
    made, hidden = scenario(drawn=drawn, length=256, platform=ONE), np.arange(256) > np.arange(256)[:, None]
    result = machine.run(made)
    inputs = machine._prepare(made, with_data=True).inputs
    check_relative_errors(result, inputs, made, hidden)
    other = gradients(inputs, made.tiling, hidden)
    for name, values in references(made, inputs).items():
        mine, theirs = (
            np.mean(np.abs(x.astype(np.float64) - values) > 5e-3 * (1 + np.abs(values)))
            for x in (result.outputs[name], other[name])
        )
        assert abs(mine - theirs) < 1e-3, name


def test_an_unfolded_triangle_has_the_same_gradients():
    made = scenario(length=512, heads=1, order="unfolded")
    result = machine.run(made)
    assert all(e.met for e in result.expectations)
    assert lag_rounds(made) == 1


def test_columns_of_a_wide_key_that_are_not_read_have_no_gradient():
    found = ran(CASES[3])[1].outputs["key_grad"].astype(np.float64)
    assert not found[..., 192:].any()
    assert found[..., :192].any(axis=-1).all()


@pytest.mark.parametrize("case", [CASES[0], CASES[8]], ids=["dense", "window"])
def test_a_second_run_gives_the_same_bytes(case):
    made, first = ran(case)
    second = machine.run(made)
    assert first.makespan_cycles == second.makespan_cycles
    for name in GRADIENTS:
        assert first.outputs[name].tobytes() == second.outputs[name].tobytes()


def test_cores_that_take_no_blocks_only_keep_step():
    """Block_cores of 1 on two AICs: values as ever, products on the first only, nothing against the rules."""
    result = machine.run(scenario(heads=2, length=512, platform=FEW, block_cores=1))
    assert {f.code for f in result.findings} <= FOUND
    assert [(e.what, e.met) for e in result.expectations] == [(f"values of {name}", True) for name in GRADIENTS]
    busy = {use.core: use.busy_cycles for use in result.pipe_use if use.pipe is Pipe.M}
    assert result.program.block_dim > 1
    assert [core for core, cycles in busy.items() if cycles] == [0]


# ---- flags -----------------------------------------------------------------------------------------------------------


RACES = {"E-RACE-RAW", "E-RACE-WAR", "E-RACE-WAW", "E-RACE-GM"}
SMALL = CASES[0]


def codes(**how):
    return {f.code for f in machine.check(scenario(**how)) if f.severity is Severity.ERROR}


def leave_out(monkeypatch, name, is_left_out):
    """Have a core's API do nothing for some arguments."""
    form = next(base.__dict__[name] for base in AiCore.__mro__ if name in base.__dict__)

    def call(asc):
        real = form.__get__(asc, AiCore)
        return lambda *args, **more: None if is_left_out(*args) else real(*args, **more)

    monkeypatch.setattr(AiCore, name, property(call), raising=False)


@pytest.mark.parametrize("flag", [laser_attention_grad.SCORES_ARE_THERE, laser_attention_grad.TILES_ARE_THERE])
def test_a_missing_flag_between_cores_is_found(flag, monkeypatch):
    for name in ("cross_core_set_flag", "cross_core_wait_flag"):
        leave_out(monkeypatch, name, lambda _mode, _pipe, number: number == flag)
    assert codes(**ROUNDS.how) & RACES


@pytest.mark.parametrize("module", [laser_vector, laser_cube, laser_passes])
def test_missing_flags_between_pipes_are_found(module, monkeypatch):
    monkeypatch.setattr(module, "pass_on", lambda *_: None)
    assert codes(**SMALL.how) & (RACES | {"E-MMAD-LAYOUT", "W-MEM-UNINIT"})


@pytest.mark.parametrize(("name", "event_id"), [("MTE3_MTE2", 0), ("MTE3_MTE2", 1)])
def test_a_missing_flag_of_one_half_is_found(name, event_id, monkeypatch):
    for call in ("set_flag", "wait_flag"):
        leave_out(monkeypatch, call, lambda event, number: (event.name, number) == (name, event_id))
    assert codes(**SMALL.how) & RACES


def test_without_sync_all_sums_are_added_before_they_are_zero(monkeypatch):
    monkeypatch.setattr(AiCore, "sync_all", lambda *_, **__: None)
    assert codes(length=256, heads=1) & RACES


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
    assert "E-OOB-GM" in codes(**how, vendor_quirks=True)
    assert codes(**how) == set()


# ---- what is told and refused ----------------------------------------------------------------------------------------


def test_what_is_told_of_a_call_that_runs():
    changes = {"attention_out_grad": {"scale": 1.0}}
    made = scenario(length=256, heads=1, has_mask=False, tensors=changes, keep_prob=0.5, next_tokens=7, sparse_mode=1)
    found = [(f.code, f.severity.value, f.operand) for f in machine.run(made).findings if "-LAG-" in f.code]
    assert found == [
        ("W-LAG-RANGE", "W", "attentionOutGrad"),
        ("I-LAG-IGNORED", "I", "keepProb"),
        ("I-LAG-IGNORED", "I", "nextTokens"),
        ("I-LAG-IGNORED", "I", "sparseMode"),
    ]


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
