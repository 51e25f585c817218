"""Order between cores: chains over several, loops, what SyncAll orders, and which pipe a wait holds."""

import pytest
from codes_harness import A950, B2, checked, flagged, local

from ascendsim.checks import check_program
from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT
from ascendsim.memory import place_in_gm
from ascendsim.record import record
from ascendsim.terms import HardEvent, KernelType, Pipe, TPosition

U, V = local("u", "float", 0, 4096), local("v", "float", 4096, 4096)
L1 = local("l", "float", 0, 4096, TPosition.A1)
GM = {"x": ("float", 65536), "y": {"role": "output", "shape": [65536], "dtype": "float"}}
DOWN, UP, ACROSS, DONE = 0, 1, 2, 3


def races(kernel, kernel_type=KernelType.MIX_AIC_1_2, blocks=1, soc=B2):
    """Codes and the cores or flags of what the check finds but for advice."""
    gm = place_in_gm([("x", FLOAT, (65536,)), ("y", FLOAT, (65536,))])
    device = load_device(soc)
    recording = record(kernel, device, blocks, gm, (), None, kernel_type)
    assert recording.findings == ()
    found = check_program(recording.program, device, with_lifetimes=False)
    return [(f.code, f.got) for f in found]


def stored(asc, to, tensor=U):
    """A store of 1024 floats that are there."""
    asc.duplicate(tensor, 1.0, 1024)
    flagged(asc, HardEvent.V_MTE3)
    asc.data_copy(to, tensor, 1024)


@pytest.mark.parametrize("is_passed_on", [True, False])
def test_a_chain_over_the_cube_core(is_passed_on):
    """AIV 0 writes, both AIVs release the AIC, which releases both: AIV 1 may read."""

    def kernel(asc, x, y):
        if asc.is_aiv and asc.get_sub_block_idx() == 0:
            stored(asc, y)
        if asc.is_aiv:
            asc.cross_core_set_flag(2, Pipe.MTE3, UP)
            asc.cross_core_wait_flag(2, Pipe.MTE2, DOWN)
            if asc.get_sub_block_idx() == 1:
                asc.data_copy(V, y, 1024)
        elif is_passed_on:
            asc.cross_core_wait_flag(2, Pipe.MTE2, UP)
            asc.cross_core_set_flag(2, Pipe.MTE2, DOWN)
        else:
            asc.cross_core_set_flag(2, Pipe.MTE2, DOWN)
            asc.cross_core_wait_flag(2, Pipe.MTE2, UP)

    assert races(kernel) == ([] if is_passed_on else [("E-RACE-GM", "AIV 0 and AIV 1")])


@pytest.mark.parametrize(
    ("set_by", "found"), [(Pipe.MTE3, []), (Pipe.MTE2, [("E-RACE-GM", "AIV 0 and AIV 1")])], ids=["MTE3", "MTE2"]
)
def test_vector_cores_of_one_block_among_themselves(set_by, found):
    def kernel(asc, x, y):
        if asc.is_aic:
            return
        if asc.get_sub_block_idx() == 0:
            stored(asc, y)
        asc.cross_core_set_flag(1, set_by, ACROSS)
        asc.cross_core_wait_flag(1, Pipe.MTE2, ACROSS)
        if asc.get_sub_block_idx() == 1:
            asc.data_copy(V, y, 1024)

    assert races(kernel) == found


@pytest.mark.parametrize("where", ["before", "behind"])
def test_sync_all_orders_every_pipe_of_every_core(where):
    """The first reads what the second writes; the store stands in front of SyncAll, or behind it."""

    def kernel(asc, x, y):
        mine, next_one = (1024 * ((asc.get_block_idx() + n) % 3) for n in (0, 1))
        if where == "before":
            stored(asc, y[mine])
        asc.sync_all()
        if where == "behind":
            stored(asc, y[mine])
        asc.data_copy(V, y[next_one], 1024)

    found = races(kernel, KernelType.AIV_ONLY, 3)
    assert {code for code, _ in found} == (set() if where == "before" else {"E-RACE-GM"})


def test_an_answer_orders_the_next_turn_of_a_loop():
    """The Cube core overwrites what the vector cores have read; without the answer the second turn may come early."""

    def loop(turns, answered):
        def kernel(asc, x, y):
            for turn in range(turns):
                if asc.is_aic:
                    if turn and answered:
                        asc.cross_core_wait_flag(2, Pipe.MTE3, UP)
                    asc.data_copy(L1, x, 1024)
                    flagged(asc, HardEvent.MTE2_MTE3)
                    asc.data_copy(y, L1, 1024)
                    flagged(asc, HardEvent.MTE3_MTE2)
                    asc.cross_core_set_flag(2, Pipe.MTE3, DOWN)
                else:
                    asc.cross_core_wait_flag(2, Pipe.MTE2, DOWN)
                    asc.data_copy(V, y, 1024)
                    if turn < turns - 1 and answered:
                        asc.cross_core_set_flag(2, Pipe.MTE2, UP)
                    asc.pipe_barrier(Pipe.MTE2)

        return kernel

    assert races(loop(20, answered=True)) == []
    assert races(loop(2, answered=False)) == [("E-RACE-GM", "AIC 0 and AIV 0")]
    assert {code for code, _ in races(loop(20, answered=False))} == {"E-RACE-GM", "E-XSYNC-OVERFLOW"}


@pytest.mark.parametrize(
    ("pipe", "flag", "found"),
    [(Pipe.MTE2, False, []), (Pipe.V, False, ["E-RACE-GM"]), (Pipe.V, True, [])],
    ids=["on the pipe that reads", "on another", "on another that hands it on"],
)
def test_a_wait_that_holds_one_pipe_only(pipe, flag, found):
    """Arch 3510; on arch 2201 any pipe's wait holds all."""

    def kernel(asc, x, y):
        if asc.is_aic:
            return
        if asc.get_sub_block_idx() == 0:
            stored(asc, y)
        asc.cross_core_set_flag(1, Pipe.MTE3, ACROSS)
        asc.cross_core_wait_flag(1, pipe, ACROSS)
        if asc.get_sub_block_idx() == 1:
            if flag:
                flagged(asc, HardEvent.V_MTE2)
            asc.data_copy(V, y, 1024)

    assert [code for code, _ in races(kernel, soc=A950)] == found
    assert [code for code, _ in races(kernel)] == ["W-SYNC-REDUNDANT"] * flag


def test_a_core_that_ends_before_sync_all_is_told_once():
    def kernel(asc, x, y):
        if asc.get_block_idx() != 2:
            asc.sync_all()
            stored(asc, y)

    assert [(f.code, f.got) for f in checked(kernel, GM, cores=4) if f.code.startswith("E")] == [
        ("E-XSYNC-BLOCK", "core 2")
    ]
