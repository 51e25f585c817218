"""Matmul kernels that were measured against what the model makes of them."""

from dataclasses import replace
from statistics import median

import numpy as np
import pytest
from fidelity_harness import kernel_of

from ascendsim.device import load_device
from ascendsim.fidelity.kernels.matmul import predict_schedule, schedule_of
from ascendsim.fidelity.kernels.matmul_kernel import blocks
from ascendsim.fidelity.kernels.predicted import slowest_pipe
from ascendsim.fidelity.measured import Uncovered, read_kernels

ROWS = {row.id: row for row in read_kernels()}
BOUND = ("kn0013", "kn0014", "kn0015", "kn0016", "kn0017", "kn0018", "kn0019", "kn0020", "kn0021")
"""Cases 0 to 8 on a 910B1, from the slowest to the fastest."""
DEVICE = load_device("Ascend910B1")


@pytest.fixture(scope="module")
def predicted():
    return {name: kernel_of(ROWS[name]) for name in BOUND}


def test_task_durations_are_within_the_bounds(predicted):
    errors = {name: abs(predicted[name].us / ROWS[name].us - 1) for name in BOUND}
    assert median(errors.values()) <= 0.12
    assert max(errors.values()) <= 0.15


@pytest.mark.parametrize("name", BOUND)
def test_slowest_pipe_is_the_boards(predicted, name):
    assert predicted[name].bottleneck == slowest_pipe(ROWS[name].pipe_us) == "aic_mte2_time"


@pytest.mark.parametrize(
    ("pipe", "bound"),
    [("aic_mte2_time", 0.15), ("aic_scalar_time", 0.11), ("aic_mte1_time", 0.25)],
)
@pytest.mark.parametrize("name", BOUND)
def test_pipe_times(predicted, name, pipe, bound):
    assert predicted[name].pipe_us[pipe] == pytest.approx(ROWS[name].pipe_us[pipe], rel=bound)


@pytest.mark.parametrize("name", BOUND[1:])
def test_mmads_of_128_x_256_x_64_take_what_the_board_takes(predicted, name):
    assert predicted[name].pipe_us["aic_mac_time"] == pytest.approx(ROWS[name].pipe_us["aic_mac_time"], rel=0.08)


@pytest.mark.parametrize("name", ["kn0369", "kn0370"])
def test_gemms_of_another_project(name):
    assert kernel_of(ROWS[name]).us == pytest.approx(ROWS[name].us, rel=0.12)


def test_scaling_a_few_blocks_gives_what_all_of_them_give():
    """A tenth of the example's depth, where starts and ends of columns count most."""
    found, cores = schedule_of(replace(ROWS["kn0018"], shape="M=8192 N=8192 K=768"), DEVICE)
    whole = predict_schedule(replace(found, single_m=found.single_m + 1), cores, DEVICE)  # no whole blocks: recorded
    assert predict_schedule(found, cores, DEVICE).us == pytest.approx(whole.us, rel=0.05)


def test_cores_share_all_blocks():
    """Each element of C is made once, whichever way the example cuts it."""
    for name in (*BOUND, "kn0024", "kn0025", "kn0032"):
        found, cores = schedule_of(
            ROWS[name], load_device("Ascend910B1" if ROWS[name].arch == 2201 else "Ascend950PR_9589")
        )
        made = np.zeros((found.m // 32, found.n), np.int64)
        for core in range(cores):
            for m_at, n_at, m, n in blocks(found, core % found.cores_m, core // found.cores_m):
                made[m_at // 32 : (m_at + m) // 32, n_at : n_at + n] += 1
        assert (made == 1).all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"op": "Matmul (PyPTO)"}, "Matmul (PyPTO): its schedule is not published with the measurement"),
        ({"dtype": "int8"}, "element type int8: only half factors are rebuilt"),
        ({"cores": "24 AIC + 48 AIV"}, "cores '24 AIC + 48 AIV' are no number of cores"),
        ({"shape": "8192x8192"}, "shape '8192x8192' does not give M, N and K"),
        ({"tiling": "+ more"}, "Case 5 (+ more) is no case of the example that is rebuilt here"),
        ({"cores": "22"}, "22 cores are not 4 parts of M for each part of N (+ L1 reuse)"),
        (
            {"arch": 3510, "soc": "", "tiling": "MDL template"},
            "the library's own tiling are not published for arch 3510",
        ),
        (
            {"conditions": "no L2 split", "tiling": ""},
            "tiling '' does not give single, base, step (1 along M and N) and depth",
        ),
    ],
)
def test_says_why_a_row_is_not_covered(change, text):
    row = replace(ROWS["kn0018"], **change)
    with pytest.raises(Uncovered) as error:
        schedule_of(row, load_device("Ascend950PR_9589") if row.arch == 3510 else DEVICE)
    assert text in str(error.value)
