"""The estimate: hand-worked figures, and how it moves."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.device import load_device
from ascendsim.fag_answer import answer
from ascendsim.fag_request import Request
from ascendsim.op_host.fag_estimate import product_cycles
from ascendsim.op_host.fag_params import FagParams
from ascendsim.op_host.fag_tiling import NO_OVERRIDE
from ascendsim.op_host.matmul_base import BaseBlock

MMAD = load_device("Ascend910B1").cube["Mmad"]
CALL = FagParams("bf16", "BNSD", B=1, N2=8, S1=2048, S2=2048)


def estimate_of(params, soc="Ascend910B1"):
    return answer(Request(params, soc, "current", NO_OVERRIDE)).estimate


def test_the_cycles_of_an_mmad_are_those_of_the_device():
    whole = BaseBlock(4095, 4095, 4095)
    for name, m, n, k, steps in (
        ("bfloat16_t", 128, 128, 128, 512), ("half", 128, 128, 128, 512), ("float", 128, 128, 128, 8 * 8 * 16 * 2),
        ("half", 1, 17, 33, 1 * 2 * 3),
    ):  # fmt: skip
        assert product_cycles(m, n, k, whole, MMAD[name]) == 23 + steps


def test_a_product_pays_the_start_of_each_base_block():
    assert product_cycles(512, 512, 128, BaseBlock(128, 128, 128), MMAD["half"]) == 16 * (23 + 512)
    assert product_cycles(500, 512, 128, BaseBlock(128, 128, 128), MMAD["half"]) == 12 * 535 + 4 * (23 + 8 * 8 * 8)


def test_the_stages_of_the_worked_example():
    """Cube: 16 Mmads of 535 cycles for each product of 512 x 512 x 128. Writes: S and dA 2 MiB, A and dS 1 MiB, sums
    768 KiB through a 24th of 48 * 25.9 B a cycle."""
    found = estimate_of(CALL)
    block = found.block
    assert (block.cube_1, block.cube_2) == (2 * 16 * 535, 3 * 16 * 535)
    assert block.memory == -(-(2 + 1 + 0.75) * 2**20 // (25.9 * 2))
    assert block.binds == "memory (writes to GM)"
    assert found.flop == 5 * 2 * 8 * 2048 * 2048 * 128
    assert found.tflops == pytest.approx(found.flop / found.us / 1e6)


def test_a_busiest_core_of_six_blocks_takes_six_periods():
    found = estimate_of(CALL)
    main = next(phase for phase in found.phases if phase.name == "main")
    assert main.cycles == 6 * found.block.period + found.head_tail_cycles


def test_skipped_blocks_are_no_work():
    causal = replace(CALL, sparse_mode=2, atten_mask=(2048, 2048))
    assert estimate_of(causal).flop == estimate_of(CALL).flop * 10 // 16


def test_dv_counts_for_two_of_five_products():
    narrow = estimate_of(replace(CALL, D=192, Dv=128))
    assert narrow.flop == 2 * 8 * 2048 * 2048 * (3 * 192 + 2 * 128)


@settings(deadline=None)
@given(
    s=st.sampled_from([1024, 1100, 1536, 3000, 8192]),
    dtype=st.sampled_from(["bf16", "fp32"]),
    mode=st.sampled_from([0, 2]),
    heads=st.sampled_from([1, 8, 40]),
)
def test_twice_the_length_takes_longer(s, dtype, mode, heads):
    """Of long sequences; with short ones the tiling itself may spread more over more cores."""
    mask = (2048, 2048) if mode else None
    first, second = (
        estimate_of(FagParams(dtype, "BNSD", B=1, N2=heads, S1=n, S2=n, sparse_mode=mode, atten_mask=mask))
        for n in (s, 2 * s)
    )
    assert first.cycles < second.cycles


def test_more_options_never_make_a_block_faster():
    plain = replace(CALL, layout="BSND", S1=2000, S2=2000)
    vectors = [
        estimate_of(params).block.vector
        for params in (
            plain,
            replace(plain, atten_mask="[S1,S2]"),
            replace(plain, atten_mask="[S1,S2]", pse="[B,N1,S1,S2]"),
            replace(plain, atten_mask="[S1,S2]", pse="[B,N1,S1,S2]", keep_prob=0.9, drop_mask=(4_000_000,)),
        )
    ]
    assert vectors == sorted(set(vectors))


def test_fewer_cores_take_longer():
    assert estimate_of(CALL, "Ascend910B3").cycles > estimate_of(CALL).cycles
