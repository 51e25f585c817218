"""Executing: calls left out, flags in program order, and lanes as grids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT, dtype
from ascendsim.errors import Deadlock
from ascendsim.execute import execute
from ascendsim.isa.instruction import TABLE
from ascendsim.isa.move import CopyRepeatParams
from ascendsim.memory import Bytes, Lanes, LocalTensor, place_in_gm
from ascendsim.pipes import FlagOrder, FlagWalk
from ascendsim.record import record, tile
from ascendsim.terms import HardEvent, Pipe, TPosition
from ascendsim.turns import Turns

DEVICE = load_device("Ascend910B1")
A = LocalTensor("a", TPosition.VECCALC, FLOAT, 0, 32)
MTE2_V = HardEvent.MTE2_V


def recorded(kernel, count=0, cores=1):
    gm = place_in_gm([("g", dtype("float"), (count,))]) if count else ()
    recording = record(kernel, DEVICE, cores, gm, ())
    assert recording.complete
    return recording.program


@tile
def put(asc, g, value):
    asc.duplicate(A, value, 8)
    asc.data_copy(g, A, 8)


@tile
def flags(asc, steps):
    for step in steps:
        (asc.set_flag if step == "s" else asc.wait_flag)(MTE2_V, 0)


def flag_program(*calls):
    def kernel(asc):
        for steps in calls:
            flags(asc, tuple(steps))

    return recorded(kernel)


# ---- calls left out -------------------------------------------------------------------------------------------------


def test_only_some_calls():
    def kernel(asc, g):
        for i in range(4):
            put(asc, g[8 * i], float(i))

    program = recorded(kernel, 32)
    memory = (Bytes(128),)
    execute(program, DEVICE, memory, order=Turns(program).chosen(np.array([False, True, False, True])))
    assert memory[0].written.reshape(4, 32).all(axis=1).tolist() == [False, True, False, True]
    assert memory[0].content.view(np.float32)[[8, 24]].tolist() == [1, 3]


def test_flags_of_calls_left_out_still_hold_and_wake():
    @tile
    def late(asc, g):
        asc.wait_flag(MTE2_V, 0)
        asc.adds(A, A, 1.0, 8)
        asc.set_flag(HardEvent.V_MTE3, 0)
        asc.wait_flag(HardEvent.V_MTE3, 0)
        asc.data_copy(g, A, 8)

    @tile
    def wake(asc):
        asc.set_flag(MTE2_V, 0)

    def kernel(asc, g):
        asc.duplicate(A, 5.0, 8)
        late(asc, g)
        asc.data_copy(A, g[8], 8)
        wake(asc)

    program = recorded(kernel, 16)
    for only, want in ((None, 2), (np.array([True, True, False, False]), 6)):
        memory = (Bytes.of(np.ones(16, np.float32)),)
        done = execute(program, DEVICE, memory, order=None if only is None else Turns(program).chosen(only))
        assert done.findings == ()
        assert memory[0].content.view(np.float32)[0] == want


def test_left_out_calls_can_still_deadlock():
    program = flag_program("w")
    with pytest.raises(Deadlock):
        execute(program, DEVICE, (), order=Turns(program).chosen(np.array([False])))


def test_a_template_is_prepared_once_for_all_its_calls_and_cores():
    asked = []
    ask = TABLE["duplicate"].execute

    def counting(ctx, row):
        asked.append(row)
        return ask(ctx, row)

    def kernel(asc, g):
        for i in range(5):
            put(asc, g[8 * i], 2.0)

    program = recorded(kernel, 40, cores=3)
    try:
        object.__setattr__(TABLE["duplicate"], "execute", counting)
        execute(program, DEVICE, (Bytes(160),))
    finally:
        object.__setattr__(TABLE["duplicate"], "execute", ask)
    assert len(asked) == 1


def test_flags_and_barriers_write_nothing_in_the_log():
    def kernel(asc):
        asc.duplicate(A, 1.0, 8)
        asc.duplicate(A, 2.0, (1, 0), 1)
        asc.set_flag(HardEvent.V_S, 0)
        asc.wait_flag(HardEvent.V_S, 0)
        asc.pipe_barrier(Pipe.ALL)

    log = execute(recorded(kernel), DEVICE, (), log_core=0).log
    assert [row["written_bytes"] for row in log if row["ascendc_api"]] == ["32", "4", "", "", ""]


B, OUT = LocalTensor("b", TPosition.VECCALC, FLOAT, 32, 32), LocalTensor("out", TPosition.VECCALC, FLOAT, 64, 32)


def unwritten(kernel, cores=1):
    return [(f.operand, f.got) for f in execute(recorded(kernel, cores=cores), DEVICE, ()).findings]


def test_bytes_that_become_unwritten_are_found_though_they_were_read_before():
    def kernel(asc):
        asc.duplicate(A, 1.0, 8)
        asc.adds(OUT, A, 1.0, 8)
        asc.copy(A, B, 4, 1, CopyRepeatParams(1, 1, 8, 8))  # half of A is now as unwritten as B
        asc.adds(OUT, A, 1.0, 8)

    assert unwritten(kernel) == [("src0", "16")]


def test_bytes_written_again_are_not_found():
    def kernel(asc):
        asc.copy(A, B, 8, 1, CopyRepeatParams(1, 1, 8, 8))
        asc.duplicate(A, 1.0, 8)
        asc.adds(OUT, A, 1.0, 8)
        asc.duplicate(B, 1.0, (0x0F, 0), 1)
        asc.copy(OUT, B, 8, 1, CopyRepeatParams(1, 1, 8, 8))
        asc.adds(OUT, OUT, 1.0, 4)

    assert unwritten(kernel) == []


def test_what_one_core_wrote_is_unwritten_on_the_next():
    def kernel(asc):
        if asc.get_block_idx() == 0:
            asc.duplicate(A, 1.0, 8)
        asc.adds(OUT, A, 1.0, 8)

    assert unwritten(kernel, cores=2) == [("src0", "32")]


# ---- flags in program order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "order"),
    [
        ((), FlagOrder.PAIRED),
        (("sw", "sw"), FlagOrder.PAIRED),
        (("s", "w", "s", "w"), FlagOrder.PAIRED),
        (("s", "ws", "ws", "w"), FlagOrder.PAIRED),
        (("s",), FlagOrder.FOUND),
        (("ss", "w"), FlagOrder.FOUND),
        (("s", "s", "w"), FlagOrder.FOUND),
        (("w", "s"), FlagOrder.HELD),
        (("sw", "w"), FlagOrder.HELD),
        (("ssw", "w"), FlagOrder.HELD),
    ],
)
def test_what_flags_do_in_program_order(calls, order):
    program = flag_program(*calls)
    walk = FlagWalk(program)
    for _ in range(2):
        assert walk.order(program.calls["template"]) is order


def order_of(program, most_held, monkeypatch):
    """(Call, row) in the order in which they run."""
    monkeypatch.setattr("ascendsim.turns.MOST_HELD", most_held)
    turns = Turns(program)
    found = []
    for stretch in turns.all():
        for call, part in zip(stretch.calls.tolist(), stretch.parts.tolist(), strict=True):
            found += [(call, position) for position in turns.parts[part][1]]
    return found


@pytest.mark.parametrize(
    "calls", [("w", "w", "s", "s"), ("ww", "sw", "s", "s", "sw"), ("sw", "w", "w", "w", "s", "ss")]
)
def test_the_order_of_held_rows_is_the_same_however_many_are_remembered(calls, monkeypatch):
    program = flag_program(*calls)
    everything = order_of(program, 4096, monkeypatch)
    assert sorted(everything) == [(c, i) for c, steps in enumerate(calls) for i in range(len(steps))]
    for most_held in (0, 1, 2):
        assert order_of(program, most_held, monkeypatch) == everything


# ---- lanes ----------------------------------------------------------------------------------------------------------


OFFSETS = st.lists(st.integers(-20, 60), max_size=12).map(lambda o: np.array(o, np.int64))
GRIDS = st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 12)), min_size=1, max_size=3)


def held(lanes, want):
    """Offsets, size, bounds, whether two meet, and the bytes of elements."""
    assert lanes.offsets.tolist() == want.tolist()
    assert lanes.size == want.size
    assert lanes.bounds == ((want.min(), want.max() + 1) if want.size else (0, 0))
    assert lanes.meets_itself == (len(set(want.tolist())) < want.size)
    assert lanes.of_bytes(4).offsets.tolist() == [4 * o + i for o in want.tolist() for i in range(4)]


@given(OFFSETS)
def test_any_offsets(offsets):
    lanes = Lanes.at(offsets)
    held(lanes, offsets)
    pick = offsets % 2 == 0
    held(lanes.select(pick), offsets[pick])


@given(GRIDS, st.integers(0, 50))
def test_any_grid_is_found_in_its_offsets(axes, first):
    shape, strides = tuple(n for n, _ in axes), tuple(s for _, s in axes)
    at = np.array(first)
    for length, stride in axes:
        at = at[..., None] + np.arange(length) * stride
    held(Lanes.grid(first, shape, strides), at.reshape(-1))
    found = Lanes.at(at.reshape(-1))
    held(found, at.reshape(-1))
    assert found.table is None or any(n > 1 and s == 0 for n, s in axes) or len(axes) > 1


def test_a_run_is_the_same_object_each_time():
    assert Lanes.run(8) is Lanes.at(np.arange(8))
    assert Lanes.grid(0, (2, 4), (4, 1)) is Lanes.run(8)
    assert Lanes.run(8).of_bytes(4) is Lanes.run(32)
    assert Lanes.at(np.array([0, 1, 8, 9])).strides == (8, 1)
    assert Lanes.at(np.array([0, 1, 8])).table is not None
