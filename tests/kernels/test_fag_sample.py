"""Samples of FlashAttention backward: values of some tiles are those of a full run, and inputs are made where read."""

import numpy as np
import pytest
from same_ab_scenario import scenario

from ascendsim import machine
from ascendsim.errors import Severity

POISON = 0xFFFF
"""Bytes that were never computed: a NaN, which no gradient is."""
CASES = {
    "causal, two heads": scenario((1, 2, 128, 128, 64, 64), (64, 64), mask=[2048, 2048], sparse_mode=2),
    "sums in NZ, heads that share keys": scenario((1, 2, 128, 64, 80, 80), (64, 64), n2=1, layout="BSH"),
}


def sampled(case, tiles, seed):
    how = type(case.machine).model_validate(
        {"values": "sample", "sample": ["random"], "sample_tiles": tiles, "sample_seed": seed}
    )
    return case.model_copy(update={"machine": how})


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_tiles_have_the_values_of_a_full_run(case):
    whole = machine.run(case)
    for seed in range(3):
        part = machine.run(sampled(case, 2, seed))
        assert part.sample.calls_run < part.sample.calls
        assert [e.met for e in part.expectations if e.met is not None] != []
        assert all(e.met in (True, None) for e in part.expectations)
        assert not [f for f in part.findings if f.severity is Severity.ERROR]
        found = 0
        for name, got in part.outputs.items():
            values, want = got.view(np.uint16), whole.outputs[name].view(np.uint16)
            found += int((values != POISON).sum())
            assert np.array_equal(values[values != POISON], want[values != POISON])
        assert found > 0


def test_only_tiles_of_outputs_are_chosen():
    case = CASES["causal, two heads"]
    part = machine.run(sampled(case, 100000, 0))
    assert {tile.function for tile in part.sample.tiles} <= {"_round", "_round_nz"}
    whole = machine.run(case)
    assert all(np.array_equal(part.outputs[n].view(np.uint16), whole.outputs[n].view(np.uint16)) for n in part.outputs)


def test_a_forward_pass_is_made_for_the_rows_that_are_read():
    case = sampled(CASES["causal, two heads"], 1, 0)
    ready = machine._prepare(case, with_data=True)
    assert not {"softmax_max", "softmax_sum", "attention_in"} & ready.inputs.keys()
    assert "atten_mask" in ready.inputs
