"""Random kernels against the graph of `plain_order`: no race is missed or invented, loops and tiles change nothing."""

import random

import pytest
from plain_order import PlainRow, races

from ascendsim import tile
from ascendsim.checks.accesses import Accesses
from ascendsim.checks.hazards import check_hazards
from ascendsim.checks.order import Order
from ascendsim.device import load_device
from ascendsim.dtypes import dtype
from ascendsim.memory import LocalTensor, place_in_gm
from ascendsim.record import record
from ascendsim.terms import HardEvent, Pipe, TPosition

DEVICE = load_device("Ascend910B1")
SLOTS, SLOT_BYTES = 6, 64
GM = place_in_gm([("x", dtype("float"), (4096,)), ("z", dtype("float"), (1 << 20,))])
EVENTS = [HardEvent.MTE2_V, HardEvent.V_MTE3, HardEvent.V_MTE2, HardEvent.MTE3_V, HardEvent.MTE3_MTE2, HardEvent.V_S,
          HardEvent.S_V, HardEvent.MTE2_MTE3, HardEvent.S_MTE2, HardEvent.MTE2_S]  # fmt: skip


def slot(number):
    return LocalTensor(f"s{number}", TPosition.VECCALC, dtype("float"), number * SLOT_BYTES, SLOT_BYTES)


def random_ops(rng, count, flags):
    """A list of operations; flags come in pairs whose wait may stand in front of its set."""
    ops = []
    for _ in range(count):
        kind = rng.choice(["load", "vec", "vec", "vec", "store", "get", "barrier"])
        a, b, half = rng.randrange(SLOTS), rng.randrange(SLOTS), rng.random() < 0.3
        ops.append((kind, a, b, half, rng.choice([Pipe.V, Pipe.V, Pipe.MTE2, Pipe.MTE3, Pipe.ALL])))
    for _ in range(flags):
        event, event_id = rng.choice(EVENTS), rng.randrange(6)
        at, wait = sorted((rng.randrange(len(ops) + 1), rng.randrange(len(ops) + 1)))
        if rng.random() < 0.1:
            at, wait = wait, at
        ops.insert(max(at, wait), ("wait" if wait >= at else "set", event, event_id, None, None))
        ops.insert(min(at, wait), ("set" if wait >= at else "wait", event, event_id, None, None))
    return ops


def record_ops(asc, ops, x, z, first=0):
    """Record operations, each as a step that bears its number."""
    for number, op in enumerate(ops):
        with asc.trace(str(first + number)):
            record_op(asc, op, x, z[16 * number])


def record_op(asc, op, x, z):
    kind, a, b, half, pipe = op
    count = 8 if half else 16
    if kind == "load":
        asc.data_copy(slot(a), x, count)
    elif kind == "vec":
        asc.adds(slot(a), slot(b), 1.0, count)
    elif kind == "store":
        asc.data_copy(z, slot(b), count)
    elif kind == "get":
        asc.get_value(slot(b), 1)
    elif kind == "barrier":
        asc.pipe_barrier(pipe)
    elif kind == "set":
        asc.set_flag(a, b)
    else:
        asc.wait_flag(a, b)


def plain_rows(ops):
    rows = []
    for kind, a, b, half, pipe in ops:
        count = 32 if half else 64
        mine = lambda n, count=count: frozenset(range(n * SLOT_BYTES, n * SLOT_BYTES + count))  # noqa: E731
        if kind == "load":
            rows.append(PlainRow("MTE2", touches=(("UB", mine(a), True),)))
        elif kind == "vec":
            rows.append(PlainRow("V", touches=(("UB", mine(b), False), ("UB", mine(a), True))))
        elif kind == "store":
            rows.append(PlainRow("MTE3", touches=(("UB", mine(b), False),)))
        elif kind == "get":
            rows.append(
                PlainRow("S", touches=(("UB", frozenset(range(b * SLOT_BYTES + 4, b * SLOT_BYTES + 8)), False),))
            )
        elif kind == "barrier":
            rows.append(PlainRow("S", "barrier_all") if pipe is Pipe.ALL else PlainRow(pipe.name, "barrier"))
        else:
            rows.append(PlainRow((a.src if kind == "set" else a.dst).name, kind, (int(a), b)))
    return rows


def found_in(program):
    """Pairs of operations that the package finds in one core's program, and its last state."""
    accesses = Accesses(program)
    order = Order(accesses, ordered_pipes=frozenset({Pipe.S}))
    state, pairs = order.start, set()
    for template in program.calls["template"].tolist():
        outcome = order.outcome(state, template)
        for clash in outcome.clashes:
            first, second = accesses.all[clash.earlier], accesses.all[clash.later]
            pairs.add(tuple(int(program.steps[accesses.row(a).step]) for a in (first, second)))
        state = outcome.after
    return pairs, order.states[state]


def recorded(ops, repeat=1):
    def kernel(asc, x, z):
        for turn in range(repeat):
            record_ops(asc, ops, x, z[4096 * turn], first=0)

    recording = record(kernel, DEVICE, 1, GM, ())
    assert recording.complete
    return recording.program


@pytest.mark.parametrize("seed", range(300))
def test_what_is_found_is_what_the_graph_says(seed):
    rng = random.Random(seed)
    ops = random_ops(rng, rng.randrange(2, 30), rng.randrange(0, 9))
    program = recorded(ops)
    pairs, state = found_in(program)
    want = races(plain_rows(ops))
    if want is None:
        assert state.held, "rows that wait for each other are held"
        return
    assert not state.held
    got = {tuple(sorted(pair)) for pair in pairs}  # a row that stayed behind on its pipe is the later one
    assert got <= want, "no false alarm"
    if want:
        assert got, "a race is found"
        # What is found counts as ordered from there on, as the missing flag would order it. So the first row that races
        # with anything is found, and with the last row of each pipe that it races with.
        later = min(k for _, k in want)
        assert any(k == later for _, k in got)


def test_the_random_kernels_are_of_all_kinds():
    kinds = {"none": 0, "races": 0, "held": 0, "pipes": set()}
    for seed in range(300):
        rng = random.Random(seed)
        ops = random_ops(rng, rng.randrange(2, 30), rng.randrange(0, 9))
        want = races(plain_rows(ops))
        kinds["held" if want is None else "races" if want else "none"] += 1
        rows = plain_rows(ops)
        kinds["pipes"] |= {(rows[i].pipe, rows[k].pipe) for i, k in want or ()}
    assert kinds["none"] >= 20
    assert kinds["races"] >= 100
    assert kinds["held"] >= 20
    assert kinds["pipes"] >= {
        ("MTE2", "V"),
        ("V", "MTE3"),
        ("V", "MTE2"),
        ("V", "V"),
        ("MTE2", "MTE2"),
        ("MTE3", "MTE2"),
    }


@pytest.mark.parametrize("seed", range(120))
def test_tiles_and_loops_change_nothing(seed):
    """A loop of tiles, each walked once for each state, finds what the same rows in one piece give."""
    rng = random.Random(1000 + seed)
    ops = random_ops(rng, rng.randrange(2, 14), rng.randrange(0, 7))
    if rng.random() < 0.5:  # flags that the loop carries from turn to turn
        event = rng.choice(EVENTS)
        ops = [("wait", event, 7, None, None), *ops, ("set", event, 7, None, None)]
    turns, parts = 6, rng.randrange(1, 3)
    cut = len(ops) // parts if parts > 1 else len(ops)

    @tile
    def first_part(asc, x, z):
        record_ops(asc, ops[:cut], x, z)

    @tile
    def second_part(asc, x, z):
        record_ops(asc, ops[cut:], x, z, first=cut)

    def tiled(asc, x, z):
        for turn in range(turns):
            first_part(asc, x, z[4096 * turn])
            if parts > 1:
                second_part(asc, x, z[4096 * turn])

    pairs, state = found_in(record(tiled, DEVICE, 1, GM, ()).program)
    whole, last = found_in(recorded(ops, turns))
    assert pairs == whole
    assert bool(state.held) == bool(last.held)
    assert len(state.pending) == len(last.pending)


def test_a_loop_comes_back_to_a_state():
    @tile
    def turn(asc, x, z):
        asc.data_copy(slot(0), x, 16)
        asc.set_flag(HardEvent.MTE2_V, 0)
        asc.wait_flag(HardEvent.MTE2_V, 0)
        asc.adds(slot(1), slot(0), 1.0, 16)
        asc.set_flag(HardEvent.V_MTE2, 0)
        asc.wait_flag(HardEvent.V_MTE2, 0)

    def kernel(asc, x, z):
        for at in range(500):
            turn(asc, x, z[16 * at])

    accesses = Accesses(record(kernel, DEVICE, 1, GM, ()).program)
    order = Order(accesses)
    state = order.start
    for template in accesses.program.calls["template"].tolist():
        state = order.outcome(state, template).after
    assert len(order.states) <= 4


def test_pipes_that_never_hear_of_each_other_do_not_make_states_grow():
    @tile
    def turn(asc, x, z):
        asc.data_copy(slot(0), x, 16)
        asc.adds(slot(2), slot(1), 1.0, 16)

    def kernel(asc, x, z):
        for at in range(300):
            turn(asc, x, z[16 * at])

    accesses = Accesses(record(kernel, DEVICE, 1, GM, ()).program)
    order = Order(accesses)
    state = order.start
    for template in accesses.program.calls["template"].tolist():
        state = order.outcome(state, template).after
    assert len(order.states) <= 4


def test_findings_are_counted_over_calls_and_cores():
    @tile
    def turn(asc, x, z):
        asc.data_copy(slot(0), x, 16)
        asc.adds(slot(1), slot(0), 1.0, 16)

    def kernel(asc, x, z):
        for _ in range(5):
            turn(asc, x, z)

    program = record(kernel, DEVICE, 3, GM, ()).program
    hazards = check_hazards(Accesses(program), DEVICE)
    counts = {h.finding.code: h.finding.count for h in hazards}
    assert counts["E-RACE-RAW"] == 15
    assert counts["E-RACE-WAR"] == 12
