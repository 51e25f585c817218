"""The vendor's tuning case: what its steps gain here, in the direction that it says."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ascendsim import machine
from ascendsim.device import load_device
from ascendsim.errors import InputError
from ascendsim.fidelity.kernels.predicted import recorded
from ascendsim.op_host.fag_block_order import by_rows
from ascendsim.op_host.fag_call import FagCall, read_shape
from ascendsim.op_host.fag_dealing import dealing
from ascendsim.op_host.fag_params import FagParams
from ascendsim.op_host.fag_platform import fag_platform
from ascendsim.op_host.fag_tiling import fag_tiling
from ascendsim.result import RunResult
from ascendsim.scenario import load_scenario
from ascendsim.terms import CoreKind, Pipe

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


@cache
def blocks(rows: int) -> RunResult:
    return machine.run(load_scenario(SCENARIOS / f"fag_vector_blocks_{rows}.toml"))


@pytest.mark.parametrize("rows", [64, 128])
def test_both_block_sizes_give_the_gradients_and_no_finding(rows):
    assert [(e.what, e.met) for e in blocks(rows).expectations] == [
        ("findings", True),
        *((f"values of {name}", True) for name in ("dq", "dk", "dv")),
    ]


def test_larger_vector_blocks_are_faster_and_take_more_of_ub():
    small, large = blocks(64), blocks(128)
    assert 1.2 < small.makespan_cycles / large.makespan_cycles < 2
    assert (small.peak_bytes["UB"], large.peak_bytes["UB"]) == (70 * 1024, 140 * 1024)


def fixpipe_cycles(result: RunResult) -> int:
    return sum(use.busy_cycles for use in result.lane_use[(CoreKind.AIC, Pipe.FIX)])


@cache
def shifted(shift_bytes: int) -> RunResult:
    changes = {"tiling.workspace_shift_bytes": shift_bytes, "expect.findings": None}
    return machine.run(load_scenario(SCENARIOS / "fag_same_ab_small.toml", changes))


def test_areas_of_the_workspace_off_512_bytes_cost_fixpipe_time():
    aligned, off = shifted(0), shifted(64)
    assert fixpipe_cycles(off) > 1.04 * fixpipe_cycles(aligned)
    assert off.makespan_cycles > aligned.makespan_cycles


def test_areas_elsewhere_hold_the_same_gradients():
    aligned, off = shifted(0), shifted(64)
    assert all(e.met for e in off.expectations)
    for name in ("dq", "dk", "dv"):
        assert np.array_equal(aligned.outputs[name].view(np.uint16), off.outputs[name].view(np.uint16))


def test_a_shift_is_of_whole_512_bytes_without_effect():
    assert fixpipe_cycles(shifted(512)) == fixpipe_cycles(shifted(0))


def causal(heads: int, batches: int = 1):
    device = load_device("Ascend910B1")
    params = FagParams(
        dtype="fp16", layout="BNSD", B=batches, N2=heads, S1=4096, S2=4096, sparse_mode=2, atten_mask=(2048, 2048)
    )
    tiling = fag_tiling(params, device)
    return dealing(FagCall(params, read_shape(params), fag_platform(device)), tiling)


@pytest.mark.parametrize(("heads", "batches"), [(1, 1), (3, 1), (2, 3)])
def test_rows_hold_the_blocks_that_were_there(heads, batches):
    deal = causal(heads, batches)

    def found(dealt):
        every = [b for core in range(24) for b in dealt.of_core(core)]
        return sorted((b.b, b.n2, b.g, b.s1, b.s2, b.rows, b.columns) for b in every)

    assert found(by_rows(deal)) == found(deal)
    assert len(found(deal)) == 36 * heads * batches


def test_row_k_of_all_heads_goes_to_core_k():
    deal = by_rows(causal(3))
    for core in range(8):
        own = list(deal.of_core(core))
        assert {b.s1 for b in own} == {512 * core}
        assert [b.turn for b in own] == list(range(3 * (core + 1)))
    assert list(deal.of_core(8)) == []


def cycles(name: str, **tiling: object) -> int:
    """Makespan of a shipped scenario, neither checked nor computed."""
    scenario = load_scenario(SCENARIOS / f"{name}.toml", {f"tiling.{key}": value for key, value in tiling.items()})
    ready = machine._prepare(scenario, with_data=False)
    program = recorded(ready.kernel, ready.device, ready.block_dim, ready.gm, (ready.argument,), ready.kernel_type)
    return machine.schedule(program, ready.device).makespan_cycles


def test_four_blocks_on_the_worst_core_take_half_the_time_of_eight():
    eight, four = (cycles("fag_tuning_balance", block_order=order) for order in ("rows", "blocks"))
    assert 1.8 < eight / four < 2


def test_what_is_not_same_ab_deals_and_places_as_it_does():
    for key, value in (("block_order", "rows"), ("block_cores", 2), ("workspace_shift_bytes", 64)):
        with pytest.raises(InputError, match=f"tiling.{key}.*only template SameAB"):
            machine.check(load_scenario(SCENARIOS / "fag_minilm_layer.toml", {f"tiling.{key}": value}))


def test_more_cores_than_there_are_cannot_take_blocks():
    with pytest.raises(InputError, match=r"tiling.block_cores = 3: there are 2 AICs; give at most so many"):
        machine.check(load_scenario(SCENARIOS / "fag_same_ab_small.toml", {"tiling.block_cores": 3}))


@pytest.mark.parametrize(("name", "blocks_of_all"), [("fag_tuning_s6144", 12 * 78), ("fag_tuning_s9216", 24 * 5 * 324)])
def test_the_cases_shapes_go_to_same_ab_in_tiles_of_512_x_512(name, blocks_of_all):
    scenario = load_scenario(SCENARIOS / f"{name}.toml")
    ready = machine._prepare(scenario, with_data=False)
    tiling = ready.argument
    assert tiling.tiling.template == "SameAB"
    assert (tiling.tiling.tiles.cv_s1, tiling.tiling.tiles.cv_s2) == (512, 512)
    assert (tiling.block_dim, tiling.dealing.count) == (24, blocks_of_all)
