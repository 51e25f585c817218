"""Runs that leave out what repeats against the same runs in full."""

from collections import Counter

import numpy as np
import pytest
from agreement import PROFILE
from hypothesis import given, settings
from hypothesis import strategies as st
from random_loops import assembled, loops
from small_programs import (
    barrier,
    exec_row,
    fix_store,
    fixpipe,
    load,
    mmad,
    s,
    set_cross,
    set_flag,
    store,
    v,
    wait_cross,
    wait_flag,
)

from ascendsim.engine import both, compiled, steady
from ascendsim.engine.base import TIMELINE_COLUMNS, CrossMode, Keep, L2Info, Timeline, UnitFlag, Wait
from ascendsim.engine.totals import TotalsBuilder
from ascendsim.errors import Deadlock
from ascendsim.terms import HardEvent, Pipe


class Counting(TotalsBuilder):
    """Counts the rows that were simulated."""

    simulated = 0

    def settle(self, frontier):
        Counting.simulated = self.rows_taken
        return super().settle(frontier)


@pytest.fixture
def run(monkeypatch):
    """A function that schedules with a Keep, in chunks and strides of some lengths."""
    monkeypatch.setattr(compiled, "TotalsBuilder", Counting)

    def schedule(p, keep, chunk=30, calls=1, chunks=1, misses=48):
        Counting.simulated = 0
        monkeypatch.setattr(compiled, "CHUNK_ROWS", chunk)
        monkeypatch.setattr(steady, "_STRIDE_CALLS", calls)
        monkeypatch.setattr(steady, "_STRIDE_CHUNKS", chunks)
        monkeypatch.setattr(steady, "_MISSES", misses)
        return compiled.schedule(p, keep=keep)

    return schedule


def kept_of(whole: Timeline, keep: Keep) -> Timeline:
    """What of a whole run is to be kept."""
    chosen = keep.chosen(whole["call"], whole["call"], whole["dispatched"], whole["stuck_cycles"], whole["end"])
    columns = {name: whole[name][chosen] for name in TIMELINE_COLUMNS}
    return Timeline(columns, whole.row_count, whole.makespan_cycles, whole.totals)


def check_against_whole(whole: Timeline, part: Timeline, keep: Keep) -> None:
    assert both.disagreements(part, kept_of(whole, keep)) == []
    assert Counting.simulated + sum(skip.rows for skip in part.skipped) == part.row_count
    now = 0
    for skip in part.skipped:
        assert skip.rows > 0
        assert now <= skip.first < skip.last
        assert (skip.last - skip.first) % skip.period_cycles == 0
        now = skip.last


def edges(p, first, last):
    """Keep so many first and last calls of each core."""
    calls = np.zeros(len(p.call_core), np.bool_)
    for core in range(p.core_count):
        mine = np.flatnonzero(p.call_core == core)
        calls[mine[:first]] = True
        calls[mine[len(mine) - last :]] = True
    return calls


def draw_keep(data, p, makespan):
    calls = edges(p, data.draw(st.integers(0, 5)), data.draw(st.integers(0, 5)))
    if len(calls) and data.draw(st.integers(0, 3)) == 0:
        calls[data.draw(st.lists(st.integers(0, len(calls) - 1), max_size=2))] = True
    window = st.tuples(st.integers(0, makespan), st.sampled_from([1, 10, 100, 1000]))
    windows = data.draw(st.lists(window, max_size=2))
    return Keep(calls, tuple((first, first + length) for first, length in windows))


@pytest.mark.long
def test_what_is_kept_and_all_totals_are_those_of_the_whole_run(run):
    """Random loops, each with nothing kept and with some calls and windows kept; most must really leave rows out."""
    seen, skips = Counter(), Counter()

    @settings(PROFILE, max_examples=450)
    @given(loops(), st.data())
    def check(loop, data):
        p = loop.program
        chunk = data.draw(st.sampled_from([20, 60, 7, 200]))
        calls, chunks = data.draw(st.sampled_from([1, 2, 6, 24])), data.draw(st.sampled_from([1, 1, 4]))
        misses = data.draw(st.sampled_from([48, 3]))
        whole = run(p, None, chunk=1 << 12)  # the length of its chunks is what test_agreement.py varies
        nothing = Keep(np.zeros(len(p.call_core), np.bool_))
        for keep in (nothing, draw_keep(data, p, whole.makespan_cycles)):
            part = run(p, keep, chunk, calls, chunks, misses)
            check_against_whole(whole, part, keep)
            features = loop.features | {f"{len(keep.windows)} windows", "runs"}
            seen.update(features)
            if part.skipped:
                skips.update(features)
                skips["several"] += len(part.skipped) > 1
                skips["most rows"] += sum(skip.rows for skip in part.skipped) > part.row_count // 2

    check()
    assert seen["runs"] >= 900
    assert skips["runs"] >= 100
    # What is drawn depends on which modules are loaded, so rare features have tests of their own below.
    often = ("most rows", "1 cores", "2 cores", "3 cores", "transfer")
    assert {name: skips[name] for name in often if skips[name] < 10} == {}


# ---- one thing at a time ----------------------------------------------------------------------------------------

LOAD_AND_USE = [
    load(30, startup=5, drain=2),
    set_flag(HardEvent.MTE2_V),
    wait_flag(HardEvent.MTE2_V),
    v(20, startup=3, drain=4),
    s(1),
]
SPIN = [s(7), load(3, 1), v(2)]
END = [v(1, drain=9), barrier(Pipe.S), s(3)]


def tried(run, calls, keep=None, mode="miss", **more):
    """The parts of a run that were left out, after comparing it with the whole run."""
    p = assembled(calls, l2=L2Info(mode, 512, 64, 256), **more)
    keep = keep or Keep(np.zeros(len(calls), np.bool_))
    check_against_whole(run(p, None), part := run(p, keep), keep)
    return part


def skipped_rows(part):
    return sum(skip.rows for skip in part.skipped)


def on_core(core, *calls):
    return [(core, rows) for rows in calls]


def test_a_loop_is_left_out_except_for_its_ends(run):
    part = tried(run, on_core(0, *[LOAD_AND_USE] * 200, END))
    assert part.skipped[0].period_cycles > 0
    assert skipped_rows(part) > 0.8 * part.row_count


def test_a_core_that_ends_early_does_not_keep_the_rest_from_being_left_out(run):
    calls = on_core(0, *[LOAD_AND_USE] * 400, END) + on_core(1, *[LOAD_AND_USE] * 60, END)
    part = tried(run, calls)
    assert skipped_rows(part) > 0.5 * part.row_count


def test_a_window_inside_of_the_loop_is_all_there_and_the_loop_left_out_on_both_sides(run):
    calls = on_core(0, *[LOAD_AND_USE] * 400, END)
    makespan = tried(run, calls).makespan_cycles
    window = (makespan // 2, makespan // 2 + 900)
    part = tried(run, calls, Keep(np.zeros(len(calls), np.bool_), (window,)))
    assert len(part) > 10
    assert skipped_rows(part) > 0.4 * part.row_count
    assert part.skipped[0].last <= window[0]
    assert part.skipped[-1].first >= window[1]


def test_a_kept_call_inside_of_the_loop_is_all_there(run):
    calls = on_core(0, *[LOAD_AND_USE] * 400, END)
    kept = np.arange(len(calls)) == 200
    part = tried(run, calls, Keep(kept))
    assert part["call"].tolist() == [200] * len(LOAD_AND_USE)
    assert skipped_rows(part) > 0.7 * part.row_count
    assert len(part.skipped) >= 2


@pytest.mark.parametrize(
    ("mode", "rows", "skips"),
    [
        ("model", LOAD_AND_USE, False),
        ("hit", LOAD_AND_USE, True),
        ("miss", LOAD_AND_USE, True),
        ("model", [v(9), s(5)], True),
    ],
)
def test_nothing_is_left_out_where_l2_is_looked_at(run, mode, rows, skips):
    assert bool(tried(run, on_core(0, *[rows] * 300, END), mode=mode).skipped) == skips


def test_calls_without_rows_do_not_stop_a_core(run):
    part = tried(run, on_core(0, *[LOAD_AND_USE] * 150, *[[]] * 300, *[LOAD_AND_USE] * 150, END))
    assert len(part.skipped) >= 1


def test_a_loop_without_instructions_and_transfers_leaves_the_bins_as_short_as_they_are(run):
    part = tried(run, on_core(0, [v(5)], *[[s(10), set_flag(HardEvent.S_V), wait_flag(HardEvent.S_V)]] * 400))
    assert part.skipped
    assert part.totals.bin_cycles == 1


BEFORE = {
    "a row that drains until the middle of the loop": ([exec_row(Pipe.MTE1, 2, drain=1500)], []),
    "a row of the same pipe that drains": ([v(2, drain=1500)], []),
    "a long row of another pipe": ([exec_row(Pipe.MTE1, 1500)], []),
    "a pipe that waits for a flag all the time": (
        [wait_flag(HardEvent.S_MTE3), exec_row(Pipe.MTE3, 9, startup=2)], [s(40), set_flag(HardEvent.S_MTE3)]),
    "a flag that is up all the time": ([set_flag(HardEvent.S_MTE3)], [wait_flag(HardEvent.S_MTE3), store(9)]),
    "a flag that rises in the middle and is taken at the end": (
        [exec_row(Pipe.V, 2, drain=1500), set_flag(HardEvent.V_MTE3)], [wait_flag(HardEvent.V_MTE3), store(9)]),
    "a transfer that lasts": ([store(1500, 1)], [store(1)]),
    "a transfer that lasts on the other link": ([store(1500, 1, link=1)], [store(1)]),
    "a transfer of another link that is long in starting": ([store(3, 1, startup=1500)], [store(1)]),
}  # fmt: skip


@pytest.mark.parametrize("what", BEFORE)
def test_what_comes_from_before_the_loop_ends_or_goes_on_in_its_time(run, what):
    before, after = BEFORE[what]
    part = tried(run, on_core(0, before, *[SPIN] * 900, after, END))
    assert skipped_rows(part) > 0.4 * part.row_count
    assert part.makespan_cycles > 3000


def test_a_pipe_that_waits_for_another_core_all_the_time(run):
    """Rows of that core are not settled before it goes on, so nothing may be left out; what comes out is the same."""
    calls = on_core(
        0, [wait_cross(Pipe.FIX, 0, 0), exec_row(Pipe.FIX, 9)], *[SPIN] * 300, [set_cross(Pipe.V, 0, 0)], END
    )
    modes = (CrossMode("all", ((0,),), ((0,),)),)
    tried(run, calls, cross_modes=modes, cross_cycles=4)


@pytest.mark.parametrize("depth", [1, 8])
@pytest.mark.parametrize("units", [((0, 1), (0, 1)), ((0,), (1,))])
def test_a_loop_of_products_and_what_fetches_them(run, depth, units):
    """On one part of L0C, and on two in turns; a third has its flag up all the time."""
    turn = [
        row
        for part in units
        for row in (
            mmad(part, 9, UnitFlag.KEEP),
            mmad(part, 20, unit_step=2, unit_lead=18),
            fix_store(part, 70, 2, unit_step=4, unit_lead=31),
        )
    ]
    part = tried(run, on_core(0, [mmad((2,), 5)], *[turn] * 400, [fixpipe((2,), 3)], END), depth=depth)
    assert part.totals.wait_count[:, Wait.UNIT_FLAG].max() > 300
    assert skipped_rows(part) > 0.5 * part.row_count


@pytest.mark.parametrize("depth", [1, 2])
def test_a_queue_that_is_full_for_ever(run, depth):
    part = tried(run, on_core(0, *[[v(10), v(4, drain=3), load(2)]] * 300, END), depth=depth)
    assert part.totals.wait_count[:, Wait.QUEUE_FULL].max() > 200
    assert skipped_rows(part) > 0.7 * part.row_count


@pytest.mark.parametrize("period", [2, 7, 13])
def test_a_period_longer_than_the_distance_between_looks_is_found(run, period):
    body = [[v(2 + number), s(number % 3), load(3)] for number in range(period)]
    part = tried(run, on_core(0, *(body * (2600 // period)), END))
    assert skipped_rows(part) > 0.3 * part.row_count


def test_a_change_of_the_body_in_the_middle_ends_one_stretch_and_begins_another(run):
    other = [*SPIN, v(3)]
    part = tried(run, on_core(0, *[SPIN] * 300, *[other] * 300, *[SPIN] * 300, END))
    assert len(part.skipped) == 3
    assert skipped_rows(part) > 0.7 * part.row_count


@pytest.mark.parametrize("order", ["one core after the other", "in turns"])
def test_cores_that_share_a_link_and_end_one_after_the_other(run, order):
    """Core 1 has half of core 0's turns."""
    turn = [load(8, 4), set_flag(HardEvent.MTE2_V), wait_flag(HardEvent.MTE2_V), v(3)]
    long, short = on_core(0, *[turn] * 600, END), on_core(1, *[turn] * 300, END)
    in_turns = [*(call for pair in zip(long, short, strict=False) for call in pair), *long[len(short) :]]
    part = tried(run, in_turns if order == "in turns" else [*short, *long])
    assert len(part.skipped) >= 2
    assert skipped_rows(part) > 0.6 * part.row_count


def test_a_barrier_of_all_cores_in_the_loop(run):
    bodies = [
        [load(8 + core, 4), v(3 + 5 * core), set_cross(Pipe.V, 0, 0), wait_cross(Pipe.S, 0, 0)] for core in (0, 1)
    ]
    calls = [(core, bodies[core]) for _ in range(300) for core in (0, 1)]
    part = tried(run, calls, cross_modes=(CrossMode("all", ((0, 1),), ((0, 1),)),), cross_cycles=4)
    assert skipped_rows(part) > 0.7 * part.row_count


def test_a_deadlock_behind_the_loop_is_described_as_that_of_the_whole_run(run):
    p = assembled(on_core(0, *[SPIN] * 300, [wait_flag(HardEvent.MTE3_V), v(3)]), l2=L2Info("miss", 512, 64, 256))
    texts = []
    for keep in (None, Keep(np.zeros(len(p.call_core), np.bool_))):
        with pytest.raises(Deadlock) as caught:
            run(p, keep)
        texts.append((str(caught.value), caught.value.cycle))
    assert texts[0] == texts[1]
    assert Counting.simulated < 300 * len(SPIN) // 2
