"""Sampled tiles of kernels whose cores wait for each other: the bytes of a full run, from the calls that they need."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sample import checked

from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT
from ascendsim.errors import Deadlock
from ascendsim.execute import execute
from ascendsim.machine import _gm_bytes, _prepare
from ascendsim.memory import Bytes, LocalTensor, place_in_gm
from ascendsim.record import record, tile
from ascendsim.sample import Closure, choose_tiles, execute_sample
from ascendsim.scenario import load_scenario
from ascendsim.terms import HardEvent, KernelType, Pipe, TPosition
from ascendsim.turns import Turns

OLD, NEW = load_device("Ascend910B1"), load_device("Ascend950PR_9589")
MIX = KernelType.MIX_AIC_1_2
SCENARIOS = Path(__file__).parent.parent / "scenarios"
ROW = 8
"""Floats of a datablock."""
L1 = [LocalTensor(f"l{i}", TPosition.A1, FLOAT, 32 * i, 32) for i in range(4)]
UB = [LocalTensor(f"u{i}", TPosition.VECCALC, FLOAT, 32 * i, 32) for i in range(4)]


def recorded(kernel, *gm, blocks=1, device=OLD, kernel_type=MIX):
    """A kernel of GM tensors of (name, datablocks), recorded."""
    placed = place_in_gm([(name, FLOAT, (count * ROW,)) for name, count in gm])
    recording = record(kernel, device, blocks, placed, (), None, kernel_type)
    assert recording.findings == ()
    return recording.program


def memories(program, empty=()):
    """1, 2, 3, ..; those that are named unwritten."""
    return tuple(
        Bytes(g.tensor_bytes) if g.name in empty else Bytes.of(np.arange(1, g.count + 1, dtype=np.float32))
        for g in program.gm
    )


def calls_of(program, name, *numbers, core=None):
    """Calls of a function, on a core: these of them."""
    calls = program.calls
    names = np.array([t.name for t in program.templates])[calls["template"]]
    found = np.flatnonzero((names == name) & ((calls["core"] == core) | (core is None)))
    return np.isin(np.arange(len(names)), found[list(numbers)])


def needed(program, roots):
    """(Core, function, which call of the core) of every call that a sample runs."""
    calls, core = program.calls, program.calls["core"]
    return [
        (int(core[i]), program.templates[int(calls["template"][i])].name, int((core[:i] == core[i]).sum()))
        for i in np.flatnonzero(Closure(program, roots).needed)
    ]


# ---- a Cube core that hands rows to vector cores ---------------------------------------------------------------------


@tile
def produce(asc, x, ws):
    asc.data_copy(L1[0], x, ROW)
    asc.pipe_barrier(Pipe.ALL)
    asc.data_copy(ws, L1[0], ROW)
    asc.cross_core_set_flag(2, Pipe.MTE3, 0)


@tile
def consume(asc, ws, y):
    asc.cross_core_wait_flag(2, Pipe.MTE2, 0)
    asc.data_copy(UB[0], ws, ROW)
    asc.pipe_barrier(Pipe.ALL)
    asc.adds(UB[0], UB[0], 0.5, ROW)
    asc.pipe_barrier(Pipe.ALL)
    asc.data_copy(y, UB[0], ROW)
    asc.cross_core_set_flag(2, Pipe.MTE3, 1)


@tile
def taken(asc):
    asc.cross_core_wait_flag(2, Pipe.MTE2, 1)


def ping_pong(rounds):
    """Two places in the workspace, written over in turns; one round ahead."""

    def kernel(asc, x, ws, y):
        block = asc.get_block_idx() // (1 if asc.is_aic else 2)
        for i in range(rounds):
            place = ws[(2 * block + i % 2) * ROW]
            if asc.is_aic:
                if i > 1:
                    taken(asc)
                produce(asc, x[(block * rounds + i) * ROW], place)
            else:
                consume(asc, place, y[((2 * block + asc.get_sub_block_idx()) * rounds + i) * ROW])

    return recorded(kernel, ("x", 2 * rounds), ("ws", 4), ("y", 4 * rounds), blocks=2)


@pytest.mark.parametrize("number", [0, 1, 5, 49])
def test_of_a_workspace_that_is_written_over_the_last_write_before_the_read_is_needed(number):
    program = ping_pong(50)
    roots = calls_of(program, "consume", number, core=5)
    calls = needed(program, roots)
    assert [call[:2] for call in calls] == [(3, "produce"), (5, "consume")]
    assert calls[0][2] == max(number, 2 * number - 1)
    sample, execution = checked(program, roots, lambda: memories(program, ("ws", "y")))
    assert (sample.calls_run, sample.calls) == (2, 2 * (3 * 50 + 48))
    assert execution.findings == ()


def test_flags_of_what_is_left_out_are_not_waited_for():
    program = ping_pong(4)
    order = Closure(program, calls_of(program, "consume", 2, core=1)).order
    assert [s.core for s in order.stretches if s.calls.size] == [0, 1]
    assert [s.core for s in order.stretches if s.is_end] == [0, 1, 2, 3, 4, 5]


def test_tiles_are_chosen_among_those_that_write_a_tensor():
    program = ping_pong(4)
    names = np.array([t.name for t in program.templates])[program.calls["template"]]
    every, some = (choose_tiles(program, ("tail",), tensors=t) for t in (None, frozenset([2])))
    assert sorted(names[every]) == ["consume"] * 4 + ["produce"] * 2
    assert sorted(names[some]) == ["consume"] * 4
    assert not choose_tiles(program, ("tail",), tensors=frozenset([0])).any()


def test_what_a_deadlock_stops_is_a_deadlock_in_a_sample():
    def kernel(asc, x, y):
        if asc.is_aic:
            produce(asc, x, y)
            taken(asc)
        elif asc.get_sub_block_idx() == 0:
            consume(asc, y, x)

    program = recorded(kernel, ("x", 2), ("y", 2))
    with pytest.raises(Deadlock, match=r"AIC 0 waits .* which AIV 1 never sets"):
        execute_sample(program, OLD, memories(program), calls_of(program, "produce", 0))


# ---- sums ------------------------------------------------------------------------------------------------------------


def test_an_addition_to_what_nobody_wrote_is_told_whatever_was_prepared_last():
    """The rule depends on where the destination lies, which is known when its row is prepared."""

    @tile
    def add(asc, x, acc):
        asc.data_copy(UB[0], x, ROW)
        asc.set_atomic_add("float")
        asc.data_copy(acc, UB[0], ROW)
        asc.set_atomic_none()

    @tile
    def fill(asc):
        asc.duplicate(UB[0], 1.0, ROW)

    @tile
    def empty(asc):
        asc.duplicate(UB[1], 1.0, ROW)

    def kernel(asc, x, acc):
        fill(asc)
        asc.data_copy(acc, UB[0], ROW)
        add(asc, x, acc)
        empty(asc)
        add(asc, x, acc[16 * ROW])

    program = recorded(kernel, ("x", 1), ("acc", 17), kernel_type=KernelType.AIV_ONLY)
    found = execute(program, OLD, memories(program, ("acc",))).findings
    assert [(f.code, f.got) for f in found] == [("W-ATOMIC-NOINIT", "32")]


def test_a_sum_needs_all_that_add_to_it_and_the_zeros_before():
    """Each vector core zeroes its place, all add to both, one stores what came of it."""

    @tile
    def zero(asc, acc):
        asc.duplicate(UB[1], 0.0, ROW)
        asc.pipe_barrier(Pipe.ALL)
        asc.data_copy(acc, UB[1], ROW)

    @tile
    def add(asc, x, acc):
        asc.data_copy(UB[0], x, ROW)
        asc.pipe_barrier(Pipe.ALL)
        asc.set_atomic_add("float")
        asc.data_copy(acc, UB[0], ROW)
        asc.set_atomic_none()

    @tile
    def put(asc, acc, y):
        asc.data_copy(UB[2], acc, ROW)
        asc.pipe_barrier(Pipe.ALL)
        asc.data_copy(y, UB[2], ROW)

    def kernel(asc, x, acc, y):
        me = asc.get_block_idx()
        zero(asc, acc[me * ROW])
        asc.sync_all()
        for i in range(4):
            add(asc, x[(4 * me + i) * ROW], acc[(i % 3) * ROW])
        asc.sync_all()
        put(asc, acc[me * ROW], y[me * ROW])

    program = recorded(kernel, ("x", 12), ("acc", 3), ("y", 3), blocks=3, kernel_type=KernelType.AIV_ONLY)
    for core, adding in ((0, 2), (1, 1)):
        roots = calls_of(program, "put", 0, core=core)
        assert sorted(name for _, name, _ in needed(program, roots)) == [*["add"] * 3 * adding, "put", "zero"]
        sample, execution = checked(program, roots, lambda: memories(program, ("acc", "y")))
        assert (sample.calls_run, execution.findings) == (3 * adding + 2, ())


# ---- calls that wait in the middle -----------------------------------------------------------------------------------


@tile
def load_and_finish(asc, x, ws, y):
    """Reads a register before the wait, and uses it behind."""
    asc.data_copy(UB[0], x, ROW)
    asc.set_flag(HardEvent.MTE2_S, 0)
    asc.wait_flag(HardEvent.MTE2_S, 0)
    value = asc.get_value(UB[0], 3)
    asc.cross_core_wait_flag(2, Pipe.MTE2, 0)
    asc.duplicate(UB[1], value, ROW)
    asc.pipe_barrier(Pipe.ALL)
    asc.data_copy(y, UB[1], ROW)
    asc.data_copy(UB[2], ws, ROW)


@tile
def pass_on(asc, y, z):
    asc.data_copy(UB[3], y, ROW)
    asc.pipe_barrier(Pipe.ALL)
    asc.data_copy(z, UB[3], ROW)


def test_a_register_lives_over_a_wait():
    """What is stored behind the wait needs the register set before it, of which no byte is wanted."""

    def kernel(asc, x, ws, y, z):
        for i in range(3):
            mine = (3 * asc.get_sub_block_idx() + i) * ROW if asc.is_aiv else 0
            if asc.is_aic:
                if i:
                    taken(asc)
                produce(asc, x[i * ROW], ws)
                continue
            load_and_finish(asc, x[i * ROW], ws, y[mine])
            if i < 2:
                asc.cross_core_set_flag(2, Pipe.MTE3, 1)
            pass_on(asc, y[mine], z[mine])

    program = recorded(kernel, ("x", 3), ("ws", 1), ("y", 6), ("z", 6))
    assert any((s.parts >= len(program.templates)).any() for s in Turns(program).all())
    for number in range(3):
        roots = calls_of(program, "pass_on", number, core=2)
        sample, execution = checked(program, roots, lambda: memories(program, ("ws", "y", "z")))
        assert execution.findings == ()
        assert sample.calls_run == 2  # what is loaded of ws goes nowhere


# ---- shipped --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["first", "tail", "random"])
def test_matmul_plus_one(how):
    """One call a core; the sample of a vector core's rows needs its Cube core's product."""
    ready = _prepare(load_scenario(SCENARIOS / "matmul_plus_one.toml"), with_data=True)
    arguments = (ready.device, ready.block_dim, ready.gm, (ready.argument,), None, ready.kernel_type)
    program = record(ready.kernel, *arguments).program
    roots = choose_tiles(program, (how,), 0, 1)
    if how == "tail":
        roots &= program.calls["core"] == 5
    sample, execution = checked(program, roots, lambda: tuple(_gm_bytes(g, ready.inputs) for g in ready.gm))
    assert execution.findings == ()
    if how == "tail":
        assert (sample.calls_run, sample.calls) == (2, 6)


# ---- any program ----------------------------------------------------------------------------------------------------


PLACES = 6
"""Halves of datablocks in GM; stores of neighbouring ones overlap."""
WORK = st.tuples(
    st.sampled_from(["load", "store", "add", "sum", "get", "use"]), st.integers(0, 3), st.integers(0, PLACES - 1)
)
STEPS = st.lists(WORK, min_size=1, max_size=4)
HAND_OVER = st.sampled_from(["none", "all", "cube", "vector", "mode 1", "both"])


@st.composite
def kernels(draw):
    """Rounds of (tile of the Cube cores, tile of the vector cores, GM place of each, hand-over in its middle)."""
    tiles = draw(st.lists(st.tuples(STEPS, STEPS, STEPS, STEPS), min_size=1, max_size=3))
    rounds = draw(
        st.lists(
            st.tuples(st.integers(0, len(tiles) - 1), st.integers(0, 3), st.integers(0, 3), HAND_OVER),
            min_size=1,
            max_size=7,
        )
    )
    return tiles, rounds


def hand_over(asc, how):
    """Flags that nobody waits for in vain, if all cores get here."""
    if how == "all":
        asc.sync_all(is_aiv_only=False)
    if how == "mode 1" and asc.is_aiv:
        asc.cross_core_set_flag(1, Pipe.MTE3, 3)
        asc.cross_core_wait_flag(1, Pipe.MTE2, 3)
    setters = {"cube": [asc.is_aic], "vector": [asc.is_aiv], "both": [True]}.get(how, [False])
    waiters = {"cube": [asc.is_aiv], "vector": [asc.is_aic], "both": [True]}.get(how, [False])
    if setters[0]:
        asc.cross_core_set_flag(2, Pipe.MTE3, 4)
    if waiters[0]:
        asc.cross_core_wait_flag(2, Pipe.MTE2, 4)


def work(asc, g, steps):
    """Steps of a tile; a register that was got is used at once or in a later step."""
    places, value = L1 if asc.is_aic else UB, None
    for what, local, at in steps:
        if what == "load":
            asc.data_copy(places[local], g[4 * at], ROW)
        if what == "store":
            asc.data_copy(g[4 * at], places[local], ROW)
        if what == "sum":
            asc.set_atomic_add("float")
            asc.data_copy(g[4 * at], places[local], ROW)
            asc.set_atomic_none()
        if asc.is_aic:
            continue
        if what == "add":
            asc.add(places[local], places[local], places[at % 4], ROW)
        if what == "get":
            value = asc.get_value(places[local], at)
        if what == "use" and value is not None:
            asc.duplicate(places[local], value, ROW)
    return value


def random_kernel(tiles, rounds, *, own_flags):
    @tile
    def one(asc, g, number, how):
        before, behind = tiles[number][0:2] if asc.is_aic else tiles[number][2:4]
        value = work(asc, g, before)
        if own_flags:
            asc.set_flag(HardEvent.MTE2_MTE3, 0)
        hand_over(asc, how)
        if value is not None:
            asc.duplicate(UB[3], value, ROW)
        work(asc, g, behind)
        if own_flags:
            asc.wait_flag(HardEvent.MTE2_MTE3, 0)

    def kernel(asc, g):
        if own_flags and asc.is_aiv:  # a load that waits for one behind it
            asc.wait_flag(HardEvent.V_MTE2, 1)
            asc.data_copy(UB[0], g, ROW)
            asc.set_flag(HardEvent.V_MTE2, 1)
        me = asc.get_block_idx()
        for number, cube, vector, how in rounds:
            place = (cube + me) if asc.is_aic else (vector * (1 + me % 2))
            one(asc, g[4 * (place % 4)], number, how)

    return kernel


@settings(max_examples=150, deadline=None)
@given(kernels(), st.integers(1, 2), st.booleans(), st.booleans(), st.booleans(), st.data())
def test_a_sample_of_any_mixed_program_is_what_a_full_run_leaves(made, blocks, is_new, own_flags, is_empty, data):
    device = NEW if is_new else OLD
    tiles, rounds = made
    kernel = random_kernel(tiles, rounds, own_flags=own_flags)
    program = record(kernel, device, blocks, place_in_gm([("g", FLOAT, (ROW * 8,))]), (), None, MIX).program
    roots = data.draw(st.lists(st.booleans(), min_size=len(program.calls["core"]), max_size=len(program.calls["core"])))
    checked(program, np.array(roots, np.bool_), lambda: memories(program, "g" if is_empty else ""), device)


@settings(max_examples=50, deadline=None)
@given(kernels(), st.booleans(), st.integers(0, 2))
def test_the_log_of_one_core_changes_nothing_and_lists_each_row_once(made, own_flags, core):
    kernel = random_kernel(*made, own_flags=own_flags)
    program = record(kernel, OLD, 1, place_in_gm([("g", FLOAT, (ROW * 8,))]), (), None, MIX).program
    plain, logged = memories(program), memories(program)
    execute(program, OLD, plain)
    log = execute(program, OLD, logged, log_core=core).log
    assert logged[0].content.tobytes() == plain[0].content.tobytes()
    static = program.instruction_log(core)
    assert [(row["index"], row["ascendc_api"]) for row in log] == [(r["index"], r["ascendc_api"]) for r in static]
