"""Every golden call of FlashAttentionScoreGrad: tiles fit their places, blocks are as many as the host counts."""

from test_fag_tiling import device, params_of, rows

from ascendsim.op_host.fag_call import FagCall, read_shape
from ascendsim.op_host.fag_dealing import dealing
from ascendsim.op_host.fag_map import memory_maps
from ascendsim.op_host.fag_platform import fag_platform
from ascendsim.op_host.fag_tiling import fag_tiling
from ascendsim.op_host.fag_tiling_s1s2_bn2 import relabelled


def made():
    for row in rows("fag_workspace.csv"):
        if row["status"] != "ok":
            continue
        part = device(int(row["aic_cores"]), int(row["aiv_cores"]), int(row["l2_bytes"]))
        params = params_of(row)
        tiling = fag_tiling(params, part)
        call = FagCall(params, read_shape(params), fag_platform(part))
        yield row["case_id"], (relabelled(call) if tiling.key_fields.core_axis == 1 else call), tiling, part


def test_the_tiles_of_all_golden_calls_fit():
    for case, call, tiling, part in made():
        for found in memory_maps(call, tiling, part):
            assert list(found.findings()) == [], case
            assert found.free_bytes >= 0, case


def test_blocks_are_as_many_as_the_host_counts():
    compared = 0
    for case, call, tiling, _ in made():
        if tiling.tiles.valid_blocks is not None:
            dealt = dealing(call, tiling)
            assert (dealt.count, dealt.cores) == (tiling.tiles.valid_blocks, cores_of(tiling)), case
            compared += 1
    assert compared > 20


def cores_of(tiling):
    """AIVs of S1s2Bn2gs1s2; without a band the kernel steps on by an even number of them."""
    used = tiling.tiles.used_cores
    return used if tiling.band.is_sparse else used + used % 2
