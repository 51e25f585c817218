"""Where rows stand in their core's past: the same whether a kernel is one template or many, walked once or again."""

import random
from functools import partial

import numpy as np
import pytest
from test_order import DEVICE, GM, random_ops, record_op

from ascendsim import tile
from ascendsim.checks.accesses import Accesses
from ascendsim.checks.history import History
from ascendsim.checks.order import Order
from ascendsim.record import record
from ascendsim.terms import Pipe


def history_of(program):
    """History of a program of one core, (call, place in its template) of every row that touches GM, and its races."""
    accesses = Accesses(program)
    order = Order(accesses, ordered_pipes=frozenset({Pipe.S}))
    calls = np.arange(len(program.calls["core"]))
    state, states, races = order.start, [], False
    for template in program.calls["template"].tolist():
        states.append(state)
        outcome = order.outcome(state, template)
        state, races = outcome.after, races or bool(outcome.clashes)
    rows = [
        (call, step.at)
        for call, template in enumerate(program.calls["template"].tolist())
        for step in accesses.steps[template]
        if step.is_shared
    ]
    return History(program, order, [[calls]], np.array(states, np.int64)), rows, races


def numbers(program):
    """For each row that touches GM and runs its begin and end, and where nothing races what it knows of every pipe."""
    history, places, races = history_of(program)
    call, at = (np.array(column, np.int64) for column in zip(*places, strict=True))
    rows = history.rows(call, at)
    columns = [history.begins(rows), history.ends(rows)]
    pipes = len({row.pipe for template in program.templates for row in template.rows} | {Pipe.S})
    if not races:  # what a row that races knows is rounded up between templates
        columns += [history.known(rows, np.full(len(call), pipe)) for pipe in range(pipes)]
    found = np.stack(columns, axis=1)
    return [tuple(one) if runs else None for one, runs in zip(found.tolist(), rows.row >= 0, strict=True)]


def whole(ops, repeat):
    def kernel(asc, x, z):
        for _ in range(repeat):
            for op in ops:
                record_op(asc, op, x, z)

    return kernel


def in_tiles(ops, cut, repeat):
    def part(asc, x, z, first, end):
        for op in ops[first:end]:
            record_op(asc, op, x, z)

    turn = tile(part)

    def kernel(asc, x, z):
        for _ in range(repeat):
            turn(asc, x, z, 0, cut)
            turn(asc, x, z, cut, len(ops))

    return kernel


def apart(ops):
    """Operations with slots of their own, and everything finished behind them: nothing races."""
    moved = [
        (kind, 2 * i, 2 * i + 1, half, pipe) if kind in ("load", "vec", "store", "get") else (kind, a, b, half, pipe)
        for i, (kind, a, b, half, pipe) in enumerate(ops)
    ]
    return [*moved, ("barrier", 0, 0, False, Pipe.ALL)]


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("is_apart", [True, False])
def test_tiles_change_nothing(seed, is_apart):
    rng = random.Random(seed)
    ops = [("load", 0, 0, False, None), *random_ops(rng, rng.randrange(4, 14), rng.randrange(0, 5))]
    ops, repeat = (apart(ops) if is_apart else ops), rng.randrange(1, 5)
    run = partial(record, device=DEVICE, block_dim=1, gm=GM, arguments=())
    one, many = (run(kernel).program for kernel in (whole(ops, repeat), in_tiles(ops, len(ops) // 2, repeat)))
    assert numbers(many) == numbers(one)
