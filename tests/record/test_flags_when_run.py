"""Flags while a program runs: held pipes, flags set twice or never awaited, and waits that can never end."""

import numpy as np
import pytest
from record_harness import DEVICE, gm_tensors, local, recorded

from ascendsim.checks import check_program
from ascendsim.errors import Deadlock, Severity
from ascendsim.execute import execute
from ascendsim.memory import Bytes
from ascendsim.terms import HardEvent, Pipe

X, Y = local("x", "float", 0, 1024), local("y", "float", 1024, 1024)


def done(kernel, *gm, cores=1):
    memory = tuple(Bytes.of(np.arange(g.count, dtype=np.float32)) for g in gm)
    return execute(recorded(kernel, *gm, cores=cores).program, DEVICE, memory)


def found(kernel, **how):
    """What is found, after a run that finds nothing more."""
    assert done(kernel, **how).findings == ()
    program = recorded(kernel, **how).program
    return [(f.code, f.where, f.message) for f in check_program(program, DEVICE) if f.severity is Severity.ERROR]


def line(kernel, offset):
    return f"test_flags_when_run.py:{kernel.__code__.co_firstlineno + offset}"


def test_a_paired_flag_is_silent_and_can_be_used_again():
    def kernel(asc):
        for _ in range(3):
            asc.set_flag(HardEvent.V_MTE3, 5)
            asc.wait_flag(HardEvent.V_MTE3, 5)

    assert found(kernel) == []


def test_ids_and_pairs_are_flags_of_their_own():
    def kernel(asc):
        for event, event_id in ((HardEvent.V_MTE3, 0), (HardEvent.V_MTE3, 1), (HardEvent.V_MTE2, 0)):
            asc.set_flag(event, event_id)
        for event, event_id in ((HardEvent.V_MTE2, 0), (HardEvent.V_MTE3, 1), (HardEvent.V_MTE3, 0)):
            asc.wait_flag(event, event_id)

    assert found(kernel) == []


def test_a_flag_set_twice():
    def kernel(asc):
        asc.set_flag(HardEvent.V_MTE3, 5)
        asc.set_flag(HardEvent.V_MTE3, 5)
        asc.wait_flag(HardEvent.V_MTE3, 5)

    assert found(kernel) == [
        (
            "E-SYNC-DUPLICATE",
            f"SetFlag ({line(kernel, 2)})",
            "flag V_MTE3 id 5 is set again before anybody waited for it",
        )
    ]


def test_a_flag_nobody_waits_for():
    def kernel(asc):
        asc.set_flag(HardEvent.MTE2_V, 0)
        asc.set_flag(HardEvent.MTE2_V, 3)
        asc.wait_flag(HardEvent.MTE2_V, 0)

    assert found(kernel, cores=2) == [
        ("E-SYNC-UNPAIRED", f"SetFlag ({line(kernel, 2)})", "flag MTE2_V id 3 is set and never waited for")
    ]


def test_a_wait_that_nobody_ends():
    def kernel(asc):
        asc.wait_flag(HardEvent.MTE2_V, 2)

    with pytest.raises(Deadlock) as caught:
        done(kernel)
    assert str(caught.value) == (
        f"deadlock on core 0: no pipe can move\n  V waits at {line(kernel, 1)} for MTE2_V id 2, which MTE2 never sets"
    )


def test_pipes_that_wait_for_each_other():
    def kernel(asc):
        asc.wait_flag(HardEvent.MTE2_V, 0)
        asc.set_flag(HardEvent.V_MTE2, 0)
        asc.wait_flag(HardEvent.V_MTE2, 0)
        asc.set_flag(HardEvent.MTE2_V, 0)

    with pytest.raises(Deadlock) as caught:
        done(kernel)
    assert str(caught.value) == (
        "deadlock on core 0: no pipe can move\n"
        f"  V waits at {line(kernel, 1)} for MTE2_V id 0, which MTE2 never sets\n"
        f"  MTE2 waits at {line(kernel, 3)} for V_MTE2 id 0, which V never sets"
    )


def test_a_barrier_of_all_pipes_behind_a_wait():
    def kernel(asc):
        asc.wait_flag(HardEvent.MTE2_V, 0)
        asc.pipe_barrier(Pipe.ALL)
        asc.set_flag(HardEvent.MTE2_V, 0)

    with pytest.raises(Deadlock) as caught:
        done(kernel)
    first, *rest = str(caught.value).split("\n")
    assert first == "deadlock on core 0: no pipe can move"
    assert rest[0] == f"  V waits at {line(kernel, 1)} for MTE2_V id 0, which MTE2 never sets"
    assert rest[1].startswith(f"  S waits at {line(kernel, 2)} for PIPE_ALL ")


def test_the_scalar_unit_that_waits_holds_everything_behind_it():
    def kernel(asc):
        asc.wait_flag(HardEvent.V_S, 0)
        asc.set_flag(HardEvent.V_S, 0)

    with pytest.raises(Deadlock) as caught:
        done(kernel)
    assert str(caught.value) == (
        f"deadlock on core 0: no pipe can move\n  S waits at {line(kernel, 1)} for V_S id 0, which V never sets"
    )


def test_the_core_that_stands_is_named():
    def kernel(asc):
        if asc.get_block_idx() == 1:
            asc.wait_flag(HardEvent.MTE2_V, 0)

    with pytest.raises(Deadlock, match=r"^deadlock on core 1: no pipe can move\n"):
        done(kernel, cores=2)


def test_flags_are_each_cores_own():
    def kernel(asc):
        if asc.get_block_idx() == 0:
            asc.set_flag(HardEvent.MTE2_V, 0)
        else:
            asc.wait_flag(HardEvent.MTE2_V, 0)

    with pytest.raises(Deadlock, match="on core 1"):
        done(kernel, cores=2)


def test_a_chain_of_held_pipes_runs_in_order_once_the_last_flag_comes():
    """V behind MTE2 behind MTE3; each has work behind its wait that the next one needs."""
    g = gm_tensors(("g", "float", 32))

    def kernel(asc, g):
        asc.wait_flag(HardEvent.MTE2_V, 0)
        asc.adds(Y, X, 100.0, 8)
        asc.set_flag(HardEvent.V_MTE3, 0)
        asc.wait_flag(HardEvent.MTE3_MTE2, 0)
        asc.data_copy(X, g[16], 8)
        asc.set_flag(HardEvent.MTE2_V, 0)
        asc.duplicate(X[64], 7.0, 8)  # V is held: this comes after the sum
        asc.set_flag(HardEvent.V_MTE3, 1)
        asc.set_flag(HardEvent.MTE3_MTE2, 0)  # now everything goes
        asc.wait_flag(HardEvent.V_MTE3, 0)
        asc.wait_flag(HardEvent.V_MTE3, 1)
        asc.data_copy(g, Y, 8)
        asc.data_copy(g[8], X[64], 8)

    memory = (Bytes.of(np.arange(32, dtype=np.float32)),)
    run = execute(recorded(kernel, *g).program, DEVICE, memory)
    assert run.findings == ()
    want = [116 + i for i in range(8)] + [7] * 8 + list(range(16, 32))
    assert memory[0].content.view(np.float32).tolist() == want
