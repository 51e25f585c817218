"""Flags between cores of recorded kernels: values and both engines."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.analysis import double_sets
from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT
from ascendsim.engine.base import Wait
from ascendsim.errors import Deadlock
from ascendsim.execute import execute
from ascendsim.machine import schedule
from ascendsim.memory import Bytes, LocalTensor, place_in_gm
from ascendsim.program import from_arrays, to_arrays
from ascendsim.record import record, tile
from ascendsim.sample import execute_sample
from ascendsim.terms import HardEvent, KernelType, Pipe, TPosition
from ascendsim.turns import Turns

DEVICE = load_device("Ascend910B1")
NEW = load_device("Ascend950PR_9589")
MIX = KernelType.MIX_AIC_1_2
UB = LocalTensor("ub", TPosition.VECCALC, FLOAT, 0, 4096)
UB2 = LocalTensor("ub2", TPosition.VECCALC, FLOAT, 4096, 4096)
L1 = LocalTensor("l1", TPosition.A1, FLOAT, 0, 4096)
ROW = 8
"""Floats of a datablock."""


def recorded(kernel, gm, blocks=1, kernel_type=MIX, device=DEVICE):
    recording = record(kernel, device, blocks, gm, (), None, kernel_type)
    assert recording.findings == ()
    return recording.program


def executed(program, *arrays, device=DEVICE, **how):
    memory = tuple(Bytes.of(a) if isinstance(a, np.ndarray) else Bytes(a) for a in arrays)
    findings = execute(program, device, memory, **how).findings
    return memory, findings


def floats(memory):
    return memory.content.view(np.float32)


def both(program, device=DEVICE):
    """The schedule; the two engines agree on every row, or "both" raises."""
    return schedule(program, device, "both")


def one(count):
    return place_in_gm([("g", FLOAT, (count,))])


def rows_of(program, timeline, core, name):
    """Row numbers of a core's rows of an instruction."""
    found = []
    for i in np.flatnonzero(timeline["core"] == core):
        template = program.templates[int(program.calls["template"][int(timeline["call"][i])])]
        if template.rows[int(timeline["row"][i])].op.name == name:
            found.append(int(i))
    return found


# ---- who a core is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel_type", "device", "want"),
    [
        (KernelType.AIV_ONLY, DEVICE, [("AIV", i, 0, 1) for i in range(3)]),
        (KernelType.AIC_ONLY, DEVICE, [("AIC", i, 0, 1) for i in range(3)]),
        (KernelType.MIX_AIC_1_1, DEVICE, [(k, i, 0, 1) for i in range(3) for k in ("AIC", "AIV")]),
        (
            MIX,
            DEVICE,
            [row for i in range(3) for row in (("AIC", i, 0, 1), ("AIV", 2 * i, 0, 2), ("AIV", 2 * i + 1, 1, 2))],
        ),
        (KernelType.AICORE, load_device("Ascend310P1"), [("AICORE", i, 0, 1) for i in range(3)]),
    ],
)
def test_who_a_core_is(kernel_type, device, want):
    """(Kind, GetBlockIdx, GetSubBlockIdx, GetTaskRation); a Cube core has a ratio of 1."""
    seen = []

    def kernel(asc):
        seen.append((asc.kind.value, asc.get_block_idx(), asc.get_sub_block_idx(), asc.get_task_ration()))
        assert asc.get_block_num() == 3
        assert (asc.is_aic, asc.is_aiv) == (asc.kind.value != "AIV", asc.kind.value != "AIC")

    program = recorded(kernel, (), 3, kernel_type, device)
    assert seen == want
    assert program.core_count == len(want)
    assert [program.core_kind(i).value for i in range(len(want))] == [w[0] for w in want]
    names = [f"{w[0]} {w[1]}" if kernel_type.is_mix else f"core {i}" for i, w in enumerate(want)]
    assert [program.core_name(i) for i in range(len(want))] == names


# ---- modes ----------------------------------------------------------------------------------------------------------


def exchange(mode, blocks, kernel_type, partner, device=DEVICE):
    """Each core stores its number, sets and waits, then copies what the core `partner` names has stored."""
    width = len(kernel_type.kinds)
    cores = blocks * width
    gm = place_in_gm([("mine", FLOAT, (cores * ROW,)), ("theirs", FLOAT, (cores * ROW,)), ("x", FLOAT, (cores * ROW,))])
    number = iter(range(cores))

    def kernel(asc, mine, theirs, x):
        me = next(number)
        local, out = (L1, Pipe.MTE3) if asc.kind.value == "AIC" else (UB, Pipe.MTE3)
        asc.data_copy(local, x[me * ROW], ROW)
        asc.pipe_barrier(Pipe.ALL)
        asc.data_copy(mine[me * ROW], local, ROW)
        if mode == "all":
            asc.sync_all(is_aiv_only=False)
        elif mode == "aiv":
            if asc.is_aiv:
                asc.sync_all()
        else:
            asc.cross_core_set_flag(mode, out, 3)
            asc.cross_core_wait_flag(mode, Pipe.MTE2, 3)
        asc.data_copy(local, mine[partner(me, width) * ROW], ROW)
        asc.pipe_barrier(Pipe.ALL)
        asc.data_copy(theirs[me * ROW], local, ROW)

    program = recorded(kernel, gm, blocks, kernel_type, device)
    x = np.repeat(np.arange(cores, dtype=np.float32), ROW)
    memory, findings = executed(program, np.zeros_like(x), np.zeros_like(x), x, device=device)
    both(program, device)
    return floats(memory[1])[::ROW].astype(int).tolist(), findings


def next_of_kind(blocks):
    """The core of the same kind and place one block further on."""
    return lambda me, width: (me + width) % (blocks * width)


def other_aiv(me, width):
    return me if me % width == 0 else me // width * width + 3 - me % width


def across(me, width):
    """From the Cube core to its second vector core, from each of those to the Cube core."""
    return me + 2 if me % width == 0 else me // width * width


@pytest.mark.parametrize("device", [DEVICE, NEW], ids=["2201", "3510"])
@pytest.mark.parametrize(
    ("mode", "partner"), [(0, next_of_kind(3)), (2, across), ("all", lambda me, width: (7 * me + 4) % (3 * width))]
)
def test_everyone_reads_what_the_others_stored(mode, partner, device):
    got, findings = exchange(mode, 3, MIX, partner, device)
    assert got == [partner(me, 3) for me in range(9)]
    assert findings == ()


def test_mode_1_joins_the_vector_cores_of_one_ai_core():
    gm = one(4 * ROW)

    def kernel(asc, g):
        if asc.is_aic:
            return
        if asc.get_sub_block_idx() == 1:
            asc.duplicate(UB, 5.0 + asc.get_block_idx(), ROW)
            asc.pipe_barrier(Pipe.ALL)
            asc.data_copy(g[asc.get_block_idx() * ROW], UB, ROW)
        asc.cross_core_set_flag(1, Pipe.MTE3, 0)
        asc.cross_core_wait_flag(1, Pipe.MTE2, 0)
        if asc.get_sub_block_idx() == 0:
            asc.data_copy(UB, g[(asc.get_block_idx() + 1) * ROW], ROW)
            asc.pipe_barrier(Pipe.ALL)
            asc.data_copy(g[asc.get_block_idx() * ROW], UB, ROW)

    program = recorded(kernel, gm, 2)
    (memory,), findings = executed(program, gm[0].tensor_bytes)
    assert floats(memory)[::ROW].tolist() == [6.0, 6.0, 8.0, 8.0]
    assert findings == ()
    both(program)


def test_sync_all_of_vector_cores_alone():
    got, findings = exchange("aiv", 4, KernelType.AIV_ONLY, lambda me, width: (me + 3) % 4)
    assert (got, findings) == ([3, 0, 1, 2], ())


def test_24_ai_cores():
    """72 cores, mode 2 and SyncAll."""
    got, findings = exchange("all", 24, MIX, lambda me, width: (me + 36) % 72)
    assert (got, findings) == ([(me + 36) % 72 for me in range(72)], ())
    got, findings = exchange(2, 24, MIX, across)
    assert (got, findings) == ([across(me, 3) for me in range(72)], ())


# ---- order of sets and waits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cube_first", [True, False], ids=["set before wait", "wait before set"])
def test_either_may_come_first(cube_first):
    """The Cube core sets at once and the vector cores come late, or the other way round."""
    gm = one(ROW)

    def kernel(asc, g):
        busy = asc.is_aic != cube_first
        if busy:
            local = L1 if asc.is_aic else UB
            for _ in range(5):
                asc.data_copy(local, g, ROW)
            asc.pipe_barrier(Pipe.ALL)
        if asc.is_aic:
            asc.cross_core_set_flag(2, Pipe.MTE3, 1)
        else:
            asc.cross_core_wait_flag(2, Pipe.V, 1)

    program = recorded(kernel, gm)
    executed(program, gm[0].tensor_bytes)
    t = both(program)
    for core in (1, 2):
        (wait,) = rows_of(program, t, core, "cross_core_wait_flag")
        assert (t["waited_for"][wait] == Wait.CROSS_CORE) == (not cube_first)


def test_several_sets_may_be_pending():
    """The Cube core sets five times before a vector core takes the first; each set is taken once."""
    gm = one(3 * ROW)

    def kernel(asc, g):
        if asc.is_aic:
            for _ in range(5):
                asc.cross_core_set_flag(2, Pipe.FIX, 4)
            asc.cross_core_wait_flag(2, Pipe.MTE2, 5)
        else:
            for _ in range(5):
                asc.cross_core_wait_flag(2, Pipe.MTE2, 4)
            asc.cross_core_set_flag(2, Pipe.MTE3, 5)

    program = recorded(kernel, gm)
    executed(program, gm[0].tensor_bytes)
    assert double_sets(program, both(program)) == ()


def test_a_wait_more_than_there_are_sets_is_a_deadlock():
    def kernel(asc):
        if asc.is_aic:
            asc.cross_core_set_flag(2, Pipe.FIX, 4)
        else:
            asc.cross_core_wait_flag(2, Pipe.MTE2, 4)
            asc.cross_core_wait_flag(2, Pipe.MTE2, 4)

    program = recorded(kernel, ())
    at = f"test_cross_core_kernels.py:{kernel.__code__.co_firstlineno + 5}"
    with pytest.raises(Deadlock) as caught:
        executed(program)
    assert str(caught.value) == (
        "deadlock: every core that is left waits for another\n"
        f"  AIV 0 waits at {at} for cross-core flag 4 of mode 2, which AIC 0 never sets\n"
        f"  AIV 1 waits at {at} for cross-core flag 4 of mode 2, which AIC 0 never sets"
    )
    for engine in ("compiled", "reference"):
        with pytest.raises(Deadlock, match="cross-core flag 4 of mode 2"):
            schedule(program, DEVICE, engine)


def test_a_deadlock_names_the_one_core_that_did_not_set():
    def kernel(asc):
        if asc.is_aic:
            asc.cross_core_wait_flag(2, Pipe.MTE2, 1)
        elif asc.get_sub_block_idx() == 0:
            asc.cross_core_set_flag(2, Pipe.MTE3, 1)

    with pytest.raises(Deadlock, match=r"\n  AIC 1 waits at .* flag 1 of mode 2, which AIV 3 never sets$"):
        executed(recorded(kernel, (), 2))


def test_a_core_stuck_in_flags_of_its_own_is_called_by_its_name():
    def kernel(asc):
        if asc.is_aiv:
            asc.wait_flag(HardEvent.MTE2_V, 1)
        else:
            asc.cross_core_wait_flag(0, Pipe.MTE2, 1)

    with pytest.raises(Deadlock, match=r"^deadlock on AIV 0: no pipe can move\n"):
        executed(recorded(kernel, ()))


def test_a_set_that_nobody_waits_for():
    def kernel(asc):
        asc.cross_core_set_flag(0, Pipe.MTE2, 1)

    program = recorded(kernel, (), 2)
    executed(program)
    assert len(both(program)) == 6


# ---- what a wait holds ----------------------------------------------------------------------------------------------


def holding(asc, g, where):
    """A vector core waits on MTE2 with work on V behind it; the Cube core is busy before it sets."""
    if asc.is_aic:
        for _ in range(4):
            asc.data_copy(L1, g, 1024)
        asc.cross_core_set_flag(2, where, 0)
    else:
        asc.cross_core_wait_flag(2, Pipe.MTE2, 0)
        asc.duplicate(UB, 1.0, 64)
        asc.data_copy(UB2, g, ROW)


@pytest.mark.parametrize(("device", "v_waits"), [(DEVICE, True), (NEW, False)], ids=["2201", "3510"])
def test_a_wait_holds_all_pipes_or_the_named_one(device, v_waits):
    gm = one(1024)
    program = recorded(lambda asc, g: holding(asc, g, Pipe.MTE2), gm, 1, MIX, device)
    t = both(program, device)
    (up,) = (int(t["end"][i]) for i in rows_of(program, t, 0, "cross_core_set_flag"))
    for core in (1, 2):
        (fill,), (load,) = (rows_of(program, t, core, name) for name in ("duplicate", "data_copy_gm_to_ub"))
        assert (t["start"][fill] > up) == v_waits
        assert t["start"][load] >= up + device.sync.cross_core_cycles.value


def test_other_pipes_set_what_the_other_core_needs_while_one_waits():
    """Arch 3510: MTE2 waits for the Cube core, which waits for a set that stands behind that wait on MTE3.

    The set is in a call of its own, and a barrier of all pipes comes behind it.
    """
    gm = place_in_gm([("x", FLOAT, (ROW,)), ("y", FLOAT, (2 * ROW,))])

    @tile
    def hand_over(asc):
        asc.cross_core_set_flag(2, Pipe.MTE3, 1)

    def kernel(asc, x, y):
        if asc.is_aic:
            asc.cross_core_wait_flag(2, Pipe.MTE2, 1)
            asc.cross_core_set_flag(2, Pipe.MTE2, 2)
            return
        asc.cross_core_wait_flag(2, Pipe.MTE2, 2)
        asc.data_copy(UB, x, ROW)
        hand_over(asc)
        asc.pipe_barrier(Pipe.ALL)
        asc.data_copy(y[asc.get_sub_block_idx() * ROW], UB, ROW)

    program = recorded(kernel, gm, 1, MIX, NEW)
    memory, findings = executed(program, np.arange(ROW, dtype=np.float32), 2 * ROW * 4, device=NEW)
    assert floats(memory[1]).tolist() == [*range(ROW), *range(ROW)]
    assert findings == ()
    both(program, NEW)
    with pytest.raises(Deadlock, match="AIC 0 waits"):
        executed(recorded(kernel, gm), np.arange(ROW, dtype=np.float32), 2 * ROW * 4)


def test_one_set_lets_one_wait_pass_behind_a_held_scalar_unit():
    """Arch 3510: two waits of MTE2 behind a wait that holds the scalar unit; the second needs a set of its own."""

    def kernel(asc, sets):
        if asc.is_aiv:
            asc.cross_core_set_flag(0, Pipe.MTE3, 9)
            return
        asc.sync_all(is_aiv_only=False)
        asc.cross_core_wait_flag(2, Pipe.MTE2, 1)
        asc.cross_core_wait_flag(2, Pipe.MTE2, 1)
        del sets

    def whole(sets):
        def run(asc):
            if asc.is_aiv:
                for _ in range(sets):
                    asc.cross_core_set_flag(2, Pipe.MTE3, 1)
                asc.sync_all(is_aiv_only=False)
            else:
                kernel(asc, sets)

        return run

    executed(recorded(whole(2), (), 1, MIX, NEW), device=NEW)
    with pytest.raises(Deadlock, match="AIC 0 waits"):
        executed(recorded(whole(1), (), 1, MIX, NEW), device=NEW)


# ---- pipelines ------------------------------------------------------------------------------------------------------


def ping_pong(rounds):
    """The Cube core hands a row to its vector cores, which add 1 and hand it back, round after round."""

    @tile
    def produce(asc, g):
        asc.data_copy(L1, g, ROW)
        asc.pipe_barrier(Pipe.ALL)
        asc.data_copy(g[ROW], L1, ROW)
        asc.data_copy(g[2 * ROW], L1, ROW)
        asc.cross_core_set_flag(2, Pipe.MTE3, 0)

    @tile
    def consume(asc, g, back):
        asc.cross_core_wait_flag(2, Pipe.MTE2, 0)
        asc.data_copy(UB, g, ROW)
        asc.pipe_barrier(Pipe.ALL)
        asc.adds(UB, UB, 1.0, ROW)
        asc.pipe_barrier(Pipe.ALL)
        asc.data_copy(back, UB, ROW)
        asc.cross_core_set_flag(2, Pipe.MTE3, 1)

    def kernel(asc, g):
        place = g[asc.get_block_idx() // (1 if asc.is_aic else 2) * 128]
        for _ in range(rounds):
            if asc.is_aic:
                produce(asc, place)
                asc.cross_core_wait_flag(2, Pipe.MTE2, 1)
            else:
                sub = asc.get_sub_block_idx()
                consume(asc, place[(1 + sub) * ROW], place[64 * sub])

    return kernel


@pytest.mark.parametrize("rounds", [1, 100])
def test_rounds_of_a_pipeline(rounds):
    gm = one(256)
    program = recorded(ping_pong(rounds), gm, 2)
    start = np.arange(256, dtype=np.float32)
    (memory,), findings = executed(program, start)
    assert findings == ()
    got = floats(memory)
    for block in (0, 128):
        row = start[block : block + ROW]
        assert got[block : block + ROW].tolist() == (row + rounds).tolist()
        assert got[block + 64 : block + 64 + ROW].tolist() == (row + rounds).tolist()
        assert got[block + ROW : block + 2 * ROW].tolist() == (row + rounds - 1).tolist()
    t = both(program)
    (last,) = {t["end"][rows_of(program, t, 0, "cross_core_wait_flag")[-1]]}
    assert last >= rounds * 2 * DEVICE.sync.cross_core_cycles.value


def test_a_pipeline_read_from_a_file_is_the_same():
    program = recorded(ping_pong(2), one(256), 2)
    again = from_arrays(to_arrays(program))
    assert (again.digest, again.kernel_type, again.is_cross) == (program.digest, MIX, True)
    ends = [schedule(p, DEVICE, "compiled")["end"].tolist() for p in (program, again)]
    assert ends[0] == ends[1]


def test_a_sample_of_a_program_whose_cores_wait_computes_what_it_needs_of_the_other_cores():
    """Of one tile: what the vector cores store depends on every round before."""
    gm = one(256)
    program = recorded(ping_pong(3), gm, 2)
    whole, _ = executed(program, np.arange(256, dtype=np.float32))
    roots = np.zeros(len(program.calls["core"]), np.bool_)
    roots[np.flatnonzero(program.calls["core"] == 1)[-1]] = True
    memory = (Bytes.of(np.arange(256, dtype=np.float32)),)
    execution, _ = execute_sample(program, DEVICE, memory, roots)
    assert execution.findings == ()
    assert floats(memory[0])[:ROW].tolist() == floats(whole[0])[:ROW].tolist()


def test_calls_that_are_not_computed_keep_their_flags():
    program = recorded(ping_pong(3), one(256))
    only = np.zeros(len(program.calls["core"]), np.bool_)
    (memory,), findings = executed(program, np.arange(256, dtype=np.float32), order=Turns(program).chosen(only))
    assert floats(memory).tolist() == list(range(256))
    assert findings == ()


def test_the_log_of_one_core_changes_nothing():
    program = recorded(ping_pong(4), one(256))
    plain, _ = executed(program, np.arange(256, dtype=np.float32))
    for core in range(3):
        logged, _ = executed(program, np.arange(256, dtype=np.float32), log_core=core)
        assert logged[0].content.tobytes() == plain[0].content.tobytes()


# ---- cores in turn --------------------------------------------------------------------------------------------------


def test_atomic_additions_happen_core_by_core_up_to_the_next_wait():
    """Adding 2**24, then 1 three times, then -2**24 loses ones or not, depending on the order: cores in turn.

    Cores 0 to 2 add 1, 2**24 and 1 before the flag; afterwards -2**24 is added. 1 + 2**24 is a tie that goes to
    2**24; adding 1 again, too.
    """
    gm = one(ROW)
    terms = {0: 1.0, 1: 2.0**24, 2: 1.0}

    def kernel(asc, g):
        me = asc.get_block_idx()
        asc.set_atomic_add("float")
        asc.duplicate(UB, terms[me], ROW)
        asc.pipe_barrier(Pipe.ALL)
        asc.data_copy(g, UB, ROW)
        asc.sync_all()
        if me == 0:
            asc.duplicate(UB, -(2.0**24), ROW)
            asc.pipe_barrier(Pipe.ALL)
            asc.data_copy(g, UB, ROW)
        asc.set_atomic_none()

    (memory,), findings = executed(recorded(kernel, gm, 3, KernelType.AIV_ONLY), np.zeros(ROW, np.float32))
    want = np.float32(0)
    for term in (1.0, 2.0**24, 1.0, -(2.0**24)):
        want = np.float32(want + np.float32(term))
    assert floats(memory).tolist() == [float(want)] * ROW
    assert (want, findings) == (0.0, ())


def test_cores_keep_memories_and_registers_of_their_own_over_a_wait():
    """Every core fills its UB, waits, and stores what it filled in; a core's unwritten bytes stay unwritten."""
    gm = one(4 * ROW)

    def kernel(asc, g):
        me = asc.get_block_idx()
        if me != 2:
            asc.duplicate(UB, float(me), ROW)
        asc.sync_all()
        asc.data_copy(g[me * ROW], UB, ROW)

    (memory,), findings = executed(recorded(kernel, gm, 4, KernelType.AIV_ONLY), gm[0].tensor_bytes)
    assert floats(memory)[[0, ROW, 3 * ROW]].tolist() == [0.0, 1.0, 3.0]
    assert memory.written.reshape(4, 32).all(axis=1).tolist() == [True, True, False, True]
    assert [f.code for f in findings] == ["W-MEM-UNINIT"]


def test_a_tile_on_cores_of_both_kinds_is_recorded_for_each():
    """The same tile asks what the core is; each kind keeps its own rows, and replays them."""
    gm = one(16 * ROW)

    @tile
    def step(asc, g):
        asc.data_copy(L1 if asc.is_aic else UB, g, ROW)

    def kernel(asc, g):
        for i in range(3):
            step(asc, g[i * 128 % 128])

    program = recorded(kernel, gm, 2)
    names = [t.rows[0].op.name for t in program.templates]
    assert names == ["data_copy_gm_to_l1", "data_copy_gm_to_ub"]
    assert program.calls["template"].tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1] * 2


# ---- random programs ------------------------------------------------------------------------------------------------


@st.composite
def scripts(draw):
    """Steps that cannot hang: work on one core, or a hand-over that all setters and waiters take part in."""
    steps = []
    for _ in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(["work", "work", "cube", "vector", "both", "all", "mode 0", "mode 1"]))
        steps.append((kind, draw(st.integers(0, 8)), draw(st.integers(1, 60)), draw(st.integers(0, 10))))
    return steps


def scripted(steps):
    """A kernel of these steps: (what, which core works, floats in datablocks, flag id)."""

    def work(asc, g, blocks):
        local = L1 if asc.is_aic else UB
        asc.data_copy(local, g, blocks * ROW)
        if asc.is_aiv:
            asc.adds(UB2, UB2, 1.0, blocks * ROW)

    def kernel(asc, g):
        me = asc.get_block_idx() if asc.is_aic else 3 + asc.get_block_idx()
        for what, core, blocks, flag in steps:
            if what == "work" and core == me:
                work(asc, g, blocks)
            if (what in ("cube", "both") and asc.is_aic) or (what in ("vector", "both") and asc.is_aiv):
                asc.cross_core_set_flag(2, Pipe.MTE2, flag)
            if (what in ("cube", "both") and asc.is_aiv) or (what in ("vector", "both") and asc.is_aic):
                asc.cross_core_wait_flag(2, Pipe.MTE3, flag)
            if what == "all":
                asc.sync_all(is_aiv_only=False)
            if what == "mode 0" or (what == "mode 1" and asc.is_aiv):
                mode = int(what[-1])
                asc.cross_core_set_flag(mode, Pipe.MTE2, flag)
                asc.cross_core_wait_flag(mode, Pipe.MTE3, flag)

    return kernel


@settings(max_examples=120, deadline=None, derandomize=True)
@given(steps=scripts(), blocks=st.integers(1, 2), new=st.booleans())
def test_engines_agree_on_random_mixed_programs(steps, blocks, new):
    device = NEW if new else DEVICE
    recording = record(scripted(steps), device, blocks, one(512), (), None, MIX)
    executed(recording.program, np.zeros(512, np.float32), device=device)
    if len(recording.program):
        both(recording.program, device)
