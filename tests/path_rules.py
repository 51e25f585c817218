"""What holds of every critical path, read off the timeline's columns by the contract of ascendsim/engine/base.py."""

from collections import defaultdict
from itertools import pairwise

import numpy as np

from ascendsim.critical import Edge
from ascendsim.engine.base import Kind, Wait
from ascendsim.terms import Pipe

WAITED = {Edge.FLAG: Wait.FLAG, Edge.BUFFER: Wait.BUFFER, Edge.CROSS: Wait.CROSS_CORE}


def check_path(path, t, dispatch_cycles, depth):
    """Assert that a path tiles [0, makespan) of a whole timeline, and that each step begins when its edge lets it.

    `depth` is how many rows a pipe's queue takes, by pipe.
    """
    if t.makespan_cycles == 0:
        assert path == ()
        return
    assert (path[0].begin_cycles, path[-1].end_cycles) == (0, t.makespan_cycles)
    assert all(before.end_cycles == after.begin_cycles for before, after in pairwise(path))
    assert sum(step.cycles for step in path) == t.makespan_cycles
    assert path[0].edge in (Edge.START, Edge.LINK)
    assert all(step.cycles > 0 for step in path)
    if not dispatch_cycles:
        return  # what waits for a dispatch of no length has the edge of what was in front of it
    lanes = _lanes(t)
    for before, step in zip((None, *path), path, strict=False):
        _check_step(before, step, t, dispatch_cycles, depth, lanes)


def _lanes(t):
    """Numbers of the rows of each pipe of each core, in order, and each row's place among them."""
    lanes, places = defaultdict(list), []
    for number, lane in enumerate(zip(t["core"].tolist(), t["pipe"].tolist(), strict=True)):
        places.append((lane, len(lanes[lane])))
        lanes[lane].append(number)
    return lanes, places


def _earlier(lanes, number, rows):
    """The row so many before one on its pipe."""
    lane, place = lanes[1][number]
    return lanes[0][lane][place - rows]


def _check_step(before, step, t, dispatch_cycles, depth, lanes):
    n = step.row
    row = {name: int(column[n]) for name, column in t.columns.items()}
    assert step.core == row["core"]
    is_dispatch = step.pipe is Pipe.S and row["pipe"] != Pipe.S
    assert is_dispatch or step.pipe == row["pipe"]
    if is_dispatch:
        assert (step.begin_cycles, step.end_cycles) == (row["dispatched"] - dispatch_cycles, row["dispatched"])
    elif step.edge is not Edge.CROSS:  # which begins on the other core
        assert row["start"] <= step.begin_cycles < step.end_cycles
        assert step.end_cycles <= row["end"] or step.pipe in (Pipe.M, Pipe.FIX)  # what they hand over may come later
    match step.edge:
        case Edge.START:
            assert (before, step.begin_cycles) == (None, 0)
            assert step.pipe is Pipe.S
        case Edge.QUEUE:
            assert is_dispatch
            assert row["stuck_cycles"] > 0
            leaves = _earlier(lanes, n, depth[Pipe(row["pipe"])] + 1)
            assert t["occupied"][leaves] == step.begin_cycles
            assert before.row == leaves or t["end"][before.row] == step.begin_cycles
        case Edge.DISPATCH:
            assert row["start"] == row["dispatched"] == step.begin_cycles
            assert (before.row, before.pipe) == (n, Pipe.S)
        case Edge.LINK:
            assert row["kind"] == Kind.TRANSFER
            assert step.cycles <= row["stretch_cycles"]
            assert before.row == n or step.begin_cycles == row["start"]
        case Edge.UNIT:
            assert (row["waited_for"], row["start"]) == (Wait.UNIT_FLAG, step.begin_cycles)
            assert t["start"][row["released_by"]] <= step.begin_cycles
        case Edge.PIPE:
            assert row["start"] == step.begin_cycles
            assert t["occupied"][_earlier(lanes, n, 1)] == step.begin_cycles
        case Edge.SCALAR:
            assert step.pipe is Pipe.S
            assert before.core == step.core
        case _:
            _check_released(before, step, t)


def _check_released(before, step, t):
    """Flags and barriers: the row was held, or comes behind one that was; the path comes from what released it."""
    held = _held(step, t)
    waits = {Edge.BARRIER: Wait.BARRIER, **WAITED}
    assert t["waited_for"][held] == waits[step.edge]
    by = int(t["released_by"][held])
    release = int(t["start"][held] + t["wait_cycles"][held])
    if held != step.row:
        assert release <= step.begin_cycles
        return
    if step.edge is Edge.CROSS:
        assert step.begin_cycles == t["end"][by]
        assert release >= step.begin_cycles
    else:
        assert step.begin_cycles == release == t["end"][by]
    assert t["end"][before.row] >= step.begin_cycles
    assert before.core == t["core"][by] or t["end"][by] == before.end_cycles


def _held(step, t):
    """The flag or barrier that a step waited at: itself, or the last one in front of it."""
    here = t["pipe"][step.row] if step.pipe == t["pipe"][step.row] else Pipe.S
    held = np.isin(t["waited_for"], (Wait.FLAG, Wait.BUFFER, Wait.CROSS_CORE, Wait.BARRIER))
    lane = (t["core"] == step.core) & (t["pipe"] == here) & (t["number"] <= step.row)
    return int(np.flatnonzero(held & lane)[-1])
