"""The compiled engine against the reference: thousands of random programs and kernels, row for row."""

import copy
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from agreement import EVERYTHING, PROFILE, kinds_of
from hypothesis import given, settings
from hypothesis import strategies as st
from random_kernels import DEVICE, FEATURES, kernels
from random_programs import Shape, programs

from ascendsim.engine import both, compiled, reference
from ascendsim.engine.base import Kind, UnitFlag, Wait
from ascendsim.errors import Deadlock
from ascendsim.machine import schedule

PROGRAMS, KERNELS, AT_LEAST = 2050, 220, 100
LARGE = Shape(max_cores=3, max_calls=9, max_steps=9)
CHUNKS = st.sampled_from([1, 2, 7, 30, 200, 1 << 16])
"""Rows of a chunk: the first ones make the loops stop wherever they can."""


@pytest.fixture
def chunk(monkeypatch):
    """A function that sets the length of a chunk."""
    return lambda rows: monkeypatch.setattr(compiled, "CHUNK_ROWS", rows)


@pytest.mark.long
def test_the_compiled_engine_agrees_with_the_reference_on_thousands_of_programs(chunk):
    """Every column of every row, all totals, and the makespan, whatever the length of a chunk."""
    seen, count = Counter(), 0

    @settings(PROFILE, max_examples=PROGRAMS)
    @given(programs(LARGE), CHUNKS)
    def check(p, rows):
        nonlocal count
        chunk(rows)
        fast, slow = compiled.schedule(p), reference.schedule(p)
        assert both.disagreements(fast, slow) == []
        assert compiled.makespan_cycles(p) == slow.makespan_cycles
        kinds = +kinds_of(p, slow)
        assert slow.totals.double_sets.sum() == kinds["flag set twice"]
        seen.update(set(kinds))
        count += 1

    check()
    assert count >= 2000
    assert {kind: seen[kind] for kind in sorted(EVERYTHING) if seen[kind] < AT_LEAST} == {}


def outcome(engine, p):
    """A timeline, or the text of a deadlock: its first line, and the others in any order."""
    try:
        return engine(p), None
    except Deadlock as deadlock:
        first, *others = str(deadlock).splitlines()
        return None, (first, sorted(others), deadlock.cycle)


def without_some_rows(p, data):
    """The program with a few flags, unit flags or barriers left out, so that most likely somebody waits for ever."""
    templates = list(p.templates)
    rows = [
        (number, row)
        for number, t in enumerate(templates)
        for row in np.flatnonzero(
            np.isin(t.columns["kind"], (Kind.SET_FLAG, Kind.BARRIER)) | (t.columns["unit_flag"] > UnitFlag.KEEP)
        )
    ]
    if not rows:
        return p
    for number, row in data.draw(st.lists(st.sampled_from(rows), min_size=1, max_size=3)):
        columns = copy.copy(templates[number].columns)
        columns["kind"], columns["unit_flag"] = columns["kind"].copy(), columns["unit_flag"].copy()
        columns["kind"][row], columns["unit_flag"][row] = Kind.EXEC, UnitFlag.NONE
        templates[number] = replace(templates[number], columns=columns)
    return replace(p, templates=tuple(templates))


def test_both_engines_find_the_same_deadlocks_and_describe_them_alike(chunk):
    seen = Counter()

    @settings(PROFILE, max_examples=500)
    @given(programs(LARGE), CHUNKS, st.data())
    def check(p, rows, data):
        chunk(rows)
        p = without_some_rows(p, data)
        fast, slow = outcome(compiled.schedule, p), outcome(reference.schedule, p)
        assert fast[1] == slow[1]
        if slow[0] is not None:
            assert both.disagreements(fast[0], slow[0]) == []
            seen["runs"] += 1
            return
        with pytest.raises(Deadlock):
            compiled.makespan_cycles(p)
        text = str(slow[1])
        seen.update(
            {
                "deadlocks",
                *(word for word in ("room", "barrier", "cross-core", "no Mmad", "no Fixpipe") if word in text),
            }
        )

    check()
    wanted = dict.fromkeys(("runs", "deadlocks", "cross-core", "room", "barrier"), 20) | {"no Mmad": 5, "no Fixpipe": 5}
    assert {what: seen[what] for what, least in wanted.items() if seen[what] < least} == {}
    assert seen["deadlocks"] >= AT_LEAST


def test_the_engines_agree_on_random_kernels_of_the_public_interface(chunk):
    seen = Counter()

    @settings(PROFILE, max_examples=KERNELS)
    @given(kernels(), CHUNKS)
    def check(kernel, rows):
        chunk(rows)
        fast, slow = (schedule(kernel.program, DEVICE, engine=name) for name in ("compiled", "reference"))
        assert both.disagreements(fast, slow) == []
        waits = slow.totals.wait_count.sum(axis=0)
        seen.update({"kernels", *kernel.features, *(Wait(wait).name for wait in np.flatnonzero(waits))})
        seen["L2 hit"] += bool(slow["l2_hit"].any())

    check()
    assert seen["kernels"] >= 200
    waits = {wait.name for wait in Wait} - {"NOTHING", "CROSS_CORE", "UNIT_FLAG"}
    assert {name: seen[name] for name in (*FEATURES, *waits, "L2 hit") if seen[name] < 5} == {}
