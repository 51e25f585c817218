"""The estimate of LaserAttentionGrad: its parts by hand, and what must hold for all calls."""

import pytest

from ascendsim.device import load_device
from ascendsim.lag import answer, request_of

B1 = load_device("Ascend910B1")
MMAD = 23 + 512
"""Cycles of a 128 x 128 x 128 product (start and fractals)."""
HALF_MMAD = 23 + 256


def estimate_of(**call):
    return answer(request_of(None, call)).estimate


def instruction(family, repeats, types="float"):
    cost = B1.vector[family][types]
    return cost.startup + max(cost.min_issue, -(-cost.per_repeat * repeats // 1)) + cost.drain


def test_the_stages_of_a_full_dense_round():
    """16 blocks in 8 columns of 2 rows: 5 products a block, half a block for an AIV."""
    found = estimate_of(shape=[1, 24, 1024], mask=False)
    stages = found.round
    assert (stages.cube_1, stages.cube_3, stages.cube_2) == (32 * MMAD, 32 * MMAD, 16 * MMAD)
    half = sum(instruction(name, 64) for name in ("Muls", "Exp", "Mul")) + 4 * instruction("Sub", 32)
    half += 2 * instruction("Cast", 64, "float->bfloat16_t")
    assert found.block_vector == 2 * half
    line = 2 * instruction("Cast", 64, "bfloat16_t->float") + instruction("Mul", 64) + 4 * instruction("Add", 32)
    line += instruction("BlockReduceSum", 8)
    line = 2 * line + 2 * instruction("Brcb", 8, "b32") + instruction("Ln", 1) + instruction("Add", 1)
    assert stages.vector == 16 * found.block_vector + 2 * line


def test_writes_of_a_full_dense_round():
    """S and dP as floats, P and dS as bf16, a row of sums for each column (dK, dV) and line (dQ)."""
    found = estimate_of(shape=[1, 24, 1024], mask=False)
    written = 16 * 128 * 128 * (2 * 4 + 2 * 2) + 4 * 128 * (8 * 256 + 2 * 128)
    assert found.round.memory == -(-written // (25.9 * 2))
    assert found.round.path == "writes to GM"


def test_heads_of_192_pay_half_a_product_more_for_what_they_add():
    found = estimate_of(shape=[1, 24, 1024, 192], mask=False).round
    assert found.cube_1 == 16 * (2 * MMAD + HALF_MMAD)
    assert found.cube_3 == 16 * (2 * MMAD + HALF_MMAD)
    assert found.cube_2 == 16 * (MMAD + HALF_MMAD)


def test_a_call_of_one_round_overlaps_nothing():
    found = estimate_of(shape=[1, 1, 512])
    main = next(phase for phase in found.phases if phase.name == "main")
    flags = 2 * B1.sync.cross_core_cycles.value
    assert main.cycles == max(found.round.alone, found.round.period) + flags


def test_a_busiest_core_of_equal_rounds_takes_as_many_periods():
    found = answer(request_of(None, {"shape": [1, 24, 2048], "mask": False}))
    main = next(phase for phase in found.estimate.phases if phase.name == "main")
    assert found.blocks.rounds == 16
    assert main.cycles == 16 * found.estimate.round.period + found.estimate.head_tail_cycles


def test_phases_of_both_layouts():
    assert [phase.name for phase in estimate_of(shape=[1, 4, 512]).phases] == ["memset", "main", "post"]
    wide = estimate_of(shape=[1, 4, 512, 192], layout="SBH")
    assert [phase.name for phase in wide.phases] == ["memset", "transpose in", "main", "transpose back"]


@pytest.mark.parametrize("tokens", [512, 1024, 2048])
def test_flops_are_those_of_the_computed_blocks(tokens):
    found = answer(request_of(None, {"shape": [1, 4, 2048], "pre_tokens": tokens}))
    assert found.estimate.flop == sum(found.load.blocks) * 5 * 2 * 128**3
    assert found.estimate.tflops == pytest.approx(found.estimate.flop / found.estimate.us / 1e6)


def test_a_folded_triangle_is_quicker_than_an_unfolded_one():
    call = {"shape": [1, 8, 4096]}
    assert estimate_of(**call).cycles < estimate_of(**call, order="unfolded").cycles


def test_more_cores_are_not_slower():
    few, many = (estimate_of(shape=[1, 16, 4096], soc=soc) for soc in ("Ascend910B4", "Ascend910B2"))
    assert many.us < few.us
