"""Memory maps of FlashAttentionScoreGrad: they add up, hold what the kernel's pages say, and tell what does not fit."""

import pytest

from ascendsim.device import load_device
from ascendsim.op_host.fag_call import FagCall, read_shape
from ascendsim.op_host.fag_map import memory_maps
from ascendsim.op_host.fag_params import FagParams
from ascendsim.op_host.fag_platform import fag_platform
from ascendsim.op_host.fag_result import TileOverride
from ascendsim.op_host.fag_tiling import NO_OVERRIDE, fag_tiling
from ascendsim.op_host.fag_tiling_s1s2_bn2 import relabelled
from ascendsim.terms import Buffer

B1 = load_device("Ascend910B1")
KIB = 1024


def maps_of(params, override=NO_OVERRIDE):
    tiling = fag_tiling(params, B1, override=override)
    assert tiling.status == "ok", tiling.reasons
    call = FagCall(params, read_shape(params), fag_platform(B1))
    return memory_maps(relabelled(call) if tiling.template == "S1s2Bn2" else call, tiling, B1)


def of(maps, phase, memory=Buffer.UB):
    return next(m for m in maps if m.phase == phase and m.memory is memory)


CALLS = {
    "SameAB": FagParams("bf16", "BNSD", B=1, N2=8, S1=2048, S2=2048),
    "SameAB, all options": FagParams(
        "fp16", "BSND", B=2, N2=4, S1=1500, S2=1500, keep_prob=0.9, drop_mask=(2 * 4 * 1500 * 1500 // 8,),
        atten_mask="[S1,S2]", pse="[B,N1,S1,S2]",
    ),
    "SameAB, D = 64": FagParams("bf16", "BNSD", B=1, N2=8, S1=2048, S2=2048, D=64),
    "SameAB, D = 256": FagParams(
        "bf16", "BNSD", B=1, N2=8, S1=2048, S2=2048, D=256, atten_mask=(2048, 2048), sparse_mode=2
    ),
    "S1s2Bn2gs1s2": FagParams("fp32", "BNSD", B=1, N2=8, S1=2048, S2=2048),
    "S1s2Bn2": FagParams("bf16", "BSH", B=8, N2=8, S1=400, S2=400, D=64),
    "S1s2Bn2, L1-custom": FagParams("bf16", "BSH", B=16, N2=8, S1=512, S2=512, D=128),
    "N": FagParams("bf16", "BSH", B=16, N2=8, S1=64, S2=64, D=64),
    "B": FagParams("fp16", "BSH", B=4, N2=4, S1=16, S2=16, D=64),
    "basic": FagParams("bf16", "TND", N2=4, D=128, q_lens=(512, 300), kv_lens=(512, 300)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_maps_add_up_and_hold_what_the_operator_chooses(name):
    for found in maps_of(CALLS[name]):
        assert sum(area.bytes for area in found.areas) + found.free_bytes == found.capacity_bytes
        assert found.free_bytes >= 0
        ends = [0, *(area.end_bytes for area in found.areas)]
        assert all(area.start_bytes >= end for area, end in zip(found.areas, ends, strict=False))
        assert list(found.findings()) == []


def test_the_ub_of_the_main_phase_of_same_ab():
    """Offsets in KiB as the kernel has them: 0, 33, 50, 58, 66, 74, 107, 140, 148, 181 and an end at 189."""
    found = of(maps_of(CALLS["SameAB"]), "main")
    assert [area.start_bytes // KIB for area in found.areas] == [0, 33, 50, 58, 66, 74, 107, 140, 148, 181]
    assert found.used_bytes == 189 * KIB
    assert found.capacity_bytes == 196352


def test_the_row_term_takes_96_rows_of_128():
    found = of(maps_of(CALLS["SameAB"]), "row term")
    assert [area.bytes for area in found.areas] == [24576, 24576, 49152, 49152, 3072, 37888]
    assert [area.needed_bytes for area in found.areas] == [24576, 24576, 49152, 49152, 3072, None]
    assert found.used_bytes == 184 * KIB


def test_the_post_pass_of_nd_takes_31360_elements():
    params = FagParams("bf16", "BSND", B=1, N2=8, S1=2048, S2=2048, D=128, deterministic=True)
    found = of(maps_of(params), "post")
    assert [(a.bytes, a.needed_bytes) for a in found.areas] == [(125440, 125440), (62720, 62720)]


def test_the_mask_is_needed_only_where_there_is_one():
    masked = FagParams("bf16", "BNSD", B=1, N2=8, S1=2048, S2=2048, atten_mask=(2048, 2048), sparse_mode=2)
    needed = [{a.name: a.needed_bytes for a in of(maps_of(p), "main").areas} for p in (CALLS["SameAB"], masked)]
    assert [n["attenMask"] for n in needed] == [0, 32 * 256]


def test_a_prescribed_tile_that_does_not_fit_is_told():
    found = of(maps_of(CALLS["SameAB"], TileOverride(vec_s1=64)), "main")
    texts = [str(finding) for finding in found.findings()]
    assert texts[0] == (
        "E-FAG-FIT main, UB: S needs 66048 B, its place has 33792 B (to mend it: prescribe a smaller tile, or leave "
        "the choice to the operator)"
    )
    assert [f.operand for f in found.findings()] == [
        *("S", "pse, then A", "P", "dA, then dS", "temp of select, softmax, dropout, NZ"),
    ]


def test_l1_custom_pins_its_operands():
    assert [a.bytes for a in of(maps_of(CALLS["SameAB"]), "main", Buffer.L1).areas] == [131072, 131072, 262144]
    assert [a.bytes for a in of(maps_of(CALLS["SameAB, D = 64"]), "main", Buffer.L1).areas] == [65536, 458752]
    assert [a.bytes for a in of(maps_of(CALLS["SameAB, D = 256"]), "main", Buffer.L1).areas] == [262144, 262144]
