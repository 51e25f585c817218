"""The engines against the contract in ascendsim/engine/base.py: schedules worked out by hand, and random programs.

Every engine of `agreement.ENGINES` runs every program; `plain` is an independent second reading of the contract.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import plain
import pytest
from agreement import (
    ENGINES,
    EVERYTHING,
    EVERYTHING_OF_ROWS,
    FEW,
    PROFILE,
    kinds_of,
    kinds_of_rows,
    meetings,
    mismatches,
    passed,
    risings,
    template_column,
)
from hypothesis import given
from hypothesis import strategies as st
from random_programs import Shape, programs
from small_programs import (
    GM,
    L2_LINK,
    barrier,
    load,
    program,
    s,
    set_flag,
    store,
    times,
    v,
    wait_flag,
    waits,
)

from ascendsim import analysis, machine
from ascendsim.engine import reference
from ascendsim.engine.base import TIMELINE_COLUMNS, UNITS_PER_BYTE, Keep, Kind, L2Info, TemplateSchedule, Wait
from ascendsim.errors import Deadlock
from ascendsim.terms import HardEvent, Pipe

NONE = (Wait.NOTHING, 0, -1)
MODEL = L2Info("model", 512, 64, 256)  # room for two segments of four lines


@pytest.fixture(params=ENGINES.values(), ids=ENGINES)
def schedule(request):
    return request.param


def one_core(schedule, *rows, **machine):
    return schedule(program((0, list(rows)), **machine))


# --- Start-up, drain, barriers


def test_start_up_is_paid_in_full_by_the_first_row_and_after_a_gap(schedule):
    t = one_core(schedule, v(10, startup=5, warm=2), v(10, startup=5, warm=2), s(30), v(10, startup=5, warm=2))
    assert times(t) == [(1, 1, 16, 16), (2, 16, 28, 28), (2, 2, 32, 32), (33, 33, 48, 48)]
    assert waits(t) == [(Wait.DISPATCH, 1, -1), (Wait.PIPE_ORDER, 14, 0), NONE, (Wait.DISPATCH, 5, 2)]


@pytest.mark.parametrize(("scalar_cycles", "expected"), [(14, (16, 16, 28, 28)), (15, (17, 17, 32, 32))])
def test_a_row_that_comes_as_the_row_before_ends_is_warm_and_one_cycle_later_cold(schedule, scalar_cycles, expected):
    t = one_core(schedule, v(10, startup=5, warm=2), s(scalar_cycles), v(10, startup=5, warm=2))
    assert times(t)[2] == expected


def test_a_row_after_a_barrier_is_cold(schedule):
    t = one_core(schedule, v(10, startup=5, warm=2), barrier(Pipe.V), v(10, startup=5, warm=2))
    assert times(t) == [(1, 1, 16, 16), (2, 16, 16, 16), (3, 16, 31, 31)]
    assert waits(t)[1:] == [(Wait.PIPE_ORDER, 14, 0), (Wait.PIPE_ORDER, 13, 1)]


@pytest.mark.parametrize(
    ("scalar_cycles", "wait", "after", "cause"),
    [
        (12, (2, 16, 17, 17), (3, 17, 29, 29), (Wait.PIPE_ORDER, 14, 0)),
        (13, (2, 16, 18, 18), (3, 18, 33, 33), (Wait.FLAG, 1, 4)),
    ],
)
def test_only_a_wait_that_had_to_wait_cools_its_pipe(schedule, scalar_cycles, wait, after, cause):
    """The wait is ready in cycle 16; S raises the flag in cycle 16 or 17."""
    work = v(10, startup=5, warm=2)
    t = one_core(schedule, work, wait_flag(HardEvent.S_V), work, s(scalar_cycles), set_flag(HardEvent.S_V))
    assert times(t)[1:3] == [wait, after]
    assert waits(t)[1] == cause


def test_flags_that_hold_nothing_up_leave_a_pipe_as_warm_or_cold_as_it_was(schedule):
    work = v(10, startup=5, warm=2)
    t = one_core(schedule, set_flag(HardEvent.V_MTE2), work, set_flag(HardEvent.V_MTE3), work)
    assert times(t) == [(1, 1, 2, 2), (2, 2, 17, 17), (3, 17, 18, 18), (4, 18, 30, 30)]


def test_occupancy_frees_the_pipe_and_drain_completes_the_row(schedule):
    t = one_core(schedule, v(10, drain=7), v(3, drain=1))
    assert times(t) == [(1, 1, 11, 18), (2, 11, 14, 15)]
    assert t.makespan_cycles == 18


def test_a_barrier_waits_for_the_drain_of_all_earlier_rows_of_its_pipe(schedule):
    t = one_core(schedule, v(10, drain=17), v(3, drain=1), barrier(Pipe.V, 2), v(4))
    assert times(t)[2:] == [(3, 14, 30, 30), (4, 30, 34, 34)]
    assert waits(t)[2:] == [(Wait.BARRIER, 14, 0), (Wait.PIPE_ORDER, 26, 2)]


def test_a_barrier_ignores_other_pipes(schedule):
    t = one_core(schedule, load(100), v(2), barrier(Pipe.V), v(2))
    assert times(t)[1:] == [(2, 2, 4, 4), (3, 4, 4, 4), (4, 4, 6, 6)]


def test_a_barrier_on_s_waits_for_all_pipes(schedule):
    t = one_core(schedule, v(10, drain=4), load(8), barrier(Pipe.S, 1), v(2))
    assert times(t) == [(1, 1, 11, 15), (2, 2, 10, 10), (2, 2, 16, 16), (17, 17, 19, 19)]
    assert waits(t)[2] == (Wait.BARRIER, 13, 0)


@pytest.mark.parametrize(("scalar_cycles", "cause"), [(13, (Wait.BARRIER, 1, 0)), (14, NONE), (15, NONE)])
def test_a_barrier_on_s_that_comes_as_the_last_row_completes_does_not_wait(schedule, scalar_cycles, cause):
    t = one_core(schedule, v(10, drain=4), s(scalar_cycles), barrier(Pipe.S, 1))
    start = 1 + scalar_cycles
    assert times(t)[2] == (start, start, max(start, 15) + 1, max(start, 15) + 1)
    assert waits(t)[2] == cause


def test_a_barrier_on_s_waits_for_rows_still_in_a_queue(schedule):
    t = one_core(schedule, v(10), v(10, drain=1), barrier(Pipe.S, 0), s(1))
    assert times(t)[2:] == [(2, 2, 22, 22), (22, 22, 23, 23)]
    assert waits(t)[2] == (Wait.BARRIER, 20, 1)


def test_the_first_pipe_is_named_when_two_complete_in_the_same_cycle(schedule):
    t = one_core(schedule, load(8), v(5, drain=2), barrier(Pipe.S), v(3, drain=4), v(1, drain=3), barrier(Pipe.V))
    assert times(t)[:3] == [(1, 1, 9, 9), (2, 2, 7, 9), (2, 2, 9, 9)]
    assert waits(t)[2] == (Wait.BARRIER, 7, 1)
    assert times(t)[3:] == [(10, 10, 13, 17), (11, 13, 14, 17), (12, 14, 17, 17)]
    assert waits(t)[5] == (Wait.BARRIER, 3, 3)


# --- Flags


def test_a_flag_rises_when_earlier_rows_are_complete_and_its_pipe_goes_on_meanwhile(schedule):
    t = one_core(
        schedule, v(10, drain=7), set_flag(HardEvent.V_MTE2), v(3), wait_flag(HardEvent.V_MTE2, buffer=True), load(5)
    )
    assert times(t) == [(1, 1, 11, 18), (2, 11, 12, 18), (3, 12, 15, 15), (4, 4, 19, 19), (5, 19, 24, 24)]
    assert waits(t)[3] == (Wait.BUFFER, 14, 1)


@pytest.mark.parametrize(("ready", "cause"), [(17, (Wait.FLAG, 1, 1)), (18, (Wait.DISPATCH, 18, 2))])
def test_a_wait_ready_as_the_flag_rises_does_not_wait_and_one_cycle_earlier_does(schedule, ready, cause):
    t = one_core(schedule, v(10, drain=7), set_flag(HardEvent.V_MTE2), s(ready - 3), wait_flag(HardEvent.V_MTE2))
    assert times(t)[3] == (ready, ready, 19, 19)
    assert waits(t)[3] == cause


def test_a_flag_set_long_before_the_wait_costs_the_wait_only_its_occupancy(schedule):
    t = one_core(schedule, set_flag(HardEvent.V_MTE2), s(20), wait_flag(HardEvent.V_MTE2, occupancy=3), load(5))
    assert times(t) == [(1, 1, 2, 2), (1, 1, 21, 21), (22, 22, 25, 25), (23, 25, 30, 30)]
    assert waits(t)[2:] == [(Wait.DISPATCH, 22, 1), (Wait.PIPE_ORDER, 2, 2)]


def test_a_wait_clears_its_flag(schedule):
    t = one_core(
        schedule,
        set_flag(HardEvent.V_MTE2),
        wait_flag(HardEvent.V_MTE2),
        s(10),
        set_flag(HardEvent.V_MTE2),
        wait_flag(HardEvent.V_MTE2),
    )
    assert times(t)[1:] == [(2, 2, 3, 3), (2, 2, 12, 12), (13, 13, 14, 14), (14, 14, 15, 15)]
    assert waits(t)[4] == (Wait.DISPATCH, 11, 3)


def test_flag_ids_and_pairs_and_cores_are_told_apart(schedule):
    mine = [set_flag(HardEvent.S_V, 0, 9), set_flag(HardEvent.S_V, 1, 9), wait_flag(HardEvent.S_V, 1)]
    other = [s(40), set_flag(HardEvent.S_V, 1), wait_flag(HardEvent.S_V, 1)]
    t = schedule(program((0, [*mine, wait_flag(HardEvent.S_V, 0)]), (1, other)))
    assert times(t)[2:4] == [(19, 19, 20, 20), (20, 20, 21, 21)]
    assert times(t)[6] == (42, 42, 43, 43)


def test_each_set_of_a_flag_lets_one_wait_pass(schedule):
    t = one_core(
        schedule, set_flag(HardEvent.S_V), s(5), set_flag(HardEvent.S_V), v(20), wait_flag(HardEvent.S_V), v(1)
    )
    assert times(t)[4] == (9, 28, 29, 29)
    again = [set_flag(HardEvent.S_V), set_flag(HardEvent.S_V), wait_flag(HardEvent.S_V), wait_flag(HardEvent.S_V)]
    t = one_core(schedule, *again)
    assert times(t)[2:] == [(3, 3, 4, 4), (4, 4, 5, 5)]
    with pytest.raises(Deadlock):
        one_core(schedule, *again, wait_flag(HardEvent.S_V))


def test_the_first_row_that_raised_a_flag_is_named(schedule):
    """Both flags rise in cycle 31, when the first row is complete."""
    rows = [v(10, drain=20), set_flag(HardEvent.V_MTE2), set_flag(HardEvent.V_MTE2), wait_flag(HardEvent.V_MTE2)]
    t = one_core(schedule, *rows)
    assert times(t)[1:] == [(2, 11, 12, 31), (3, 12, 13, 31), (4, 4, 32, 32)]
    assert waits(t)[3] == (Wait.FLAG, 27, 1)


def test_s_waits_for_a_flag_of_v(schedule):
    t = one_core(schedule, v(10, drain=4), set_flag(HardEvent.V_S), wait_flag(HardEvent.V_S), s(3), v(1))
    assert times(t) == [(1, 1, 11, 15), (2, 11, 12, 15), (2, 2, 16, 16), (16, 16, 19, 19), (20, 20, 21, 21)]
    assert waits(t) == [
        (Wait.DISPATCH, 1, -1),
        (Wait.PIPE_ORDER, 9, 0),
        (Wait.FLAG, 13, 1),
        NONE,
        (Wait.DISPATCH, 8, 3),
    ]


def test_a_set_in_the_cycle_of_a_wait_is_not_lost(schedule):
    """In cycle 20 V gets to its first wait, the flag is up, and S raises it again, for the next wait."""
    rows = [
        set_flag(HardEvent.S_V),  # raised in cycle 1
        v(18),  # dispatched in cycle 2, over in cycle 20
        wait_flag(HardEvent.S_V),
        s(16),
        set_flag(HardEvent.S_V),  # 19 to 20
        wait_flag(HardEvent.S_V),
    ]
    assert times(one_core(schedule, *rows[:-1]))[1:] == [
        (2, 2, 20, 20),
        (3, 20, 21, 21),
        (3, 3, 19, 19),
        (19, 19, 20, 20),
    ]
    assert times(one_core(schedule, *rows))[5] == (21, 21, 22, 22)


def test_a_set_of_no_cycles_is_refused():
    """It could raise a flag in the cycle in which the flag was cleared, and after that."""
    with pytest.raises(ValueError, match=r"^the occupancy of a SET_FLAG is at least 1$"):
        program((0, [v(0), set_flag(HardEvent.V_MTE2, occupancy=0)]))
    program((0, [set_flag(HardEvent.V_MTE2, occupancy=1), wait_flag(HardEvent.V_MTE2, occupancy=0)]))


@pytest.mark.parametrize("turns", [1, 2, 5])
def test_a_flag_used_again_at_once(schedule, turns):
    """Waits and dispatches of no cycles: every turn of one id takes the cycle of its set."""
    turn = [set_flag(HardEvent.MTE3_V), wait_flag(HardEvent.MTE3_V, occupancy=0), set_flag(HardEvent.V_MTE3)]
    t = one_core(schedule, *[*turn, wait_flag(HardEvent.V_MTE3, occupancy=0)] * turns, dispatch=0)
    assert t.makespan_cycles == 2 * turns
    assert t["occupied"].tolist() == [
        cycle for n in range(turns) for cycle in (2 * n + 1, 2 * n + 1, 2 * n + 2, 2 * n + 2)
    ]


# --- Dispatch and queues


def test_every_row_of_another_pipe_costs_s_its_dispatch(schedule):
    t = one_core(schedule, v(1), load(9), s(2), v(1), dispatch=3)
    assert times(t) == [(3, 3, 4, 4), (6, 6, 15, 15), (6, 6, 8, 8), (11, 11, 12, 12)]
    assert waits(t) == [(Wait.DISPATCH, 3, -1), (Wait.DISPATCH, 6, 0), NONE, (Wait.DISPATCH, 7, 2)]


def test_dispatch_may_cost_nothing(schedule):
    t = one_core(schedule, v(5), v(10), load(3), dispatch=0)
    assert times(t) == [(0, 0, 5, 5), (0, 5, 15, 15), (0, 0, 3, 3)]
    assert waits(t) == [NONE, (Wait.PIPE_ORDER, 5, 0), NONE]


def test_a_row_dispatched_as_the_pipe_gets_free_waited_for_nothing(schedule):
    t = one_core(schedule, v(5), s(4), v(1))
    assert times(t)[2] == (6, 6, 7, 7)
    assert waits(t)[2] == NONE


@pytest.mark.parametrize(
    ("depth", "dispatched", "after"),
    [(1, [1, 2, 12, 22, 32], 33), (2, [1, 2, 3, 12, 22], 23), (3, [1, 2, 3, 4, 12], 13), (4, [1, 2, 3, 4, 5], 6)],
)
def test_a_full_queue_holds_the_scalar_unit(schedule, depth, dispatched, after):
    t = one_core(schedule, *[v(10)] * 5, load(1), depth=depth)
    assert t["dispatched"].tolist() == [*dispatched, after]
    assert t["start"].tolist() == [1, 11, 21, 31, 41, after]
    assert waits(t)[1:5] == [(Wait.PIPE_ORDER, 10 * n + 1 - dispatched[n], n - 1) for n in range(1, 5)]


def test_a_pipe_held_by_a_wait_works_on_it_and_the_rest_queues_behind(schedule):
    t = one_core(schedule, wait_flag(HardEvent.MTE2_V), v(1), load(20), set_flag(HardEvent.MTE2_V), v(1), v(1), depth=2)
    assert times(t) == [
        (1, 1, 25, 25),
        (2, 25, 26, 26),
        (3, 3, 23, 23),
        (4, 23, 24, 24),
        (5, 26, 27, 27),
        (26, 27, 28, 28),
    ]
    assert waits(t)[0] == (Wait.FLAG, 23, 3)


def test_calls_of_a_core_follow_each_other_and_cores_run_side_by_side(schedule):
    t = schedule(program((0, [v(10), v(1)]), (1, [v(2)]), (0, [s(3), v(4)])))
    assert times(t) == [(1, 1, 11, 11), (2, 11, 12, 12), (1, 1, 3, 3), (2, 2, 5, 5), (6, 12, 16, 16)]
    assert t["core"].tolist() == [0, 0, 1, 0, 0]
    assert t["call"].tolist() == [0, 0, 1, 2, 2]
    assert t["row"].tolist() == [0, 1, 0, 0, 1]
    assert t["pipe"].tolist() == [Pipe.V, Pipe.V, Pipe.V, Pipe.S, Pipe.V]
    assert t["kind"].tolist() == [Kind.EXEC] * 5


def test_dispatch_is_released_by_the_row_before_on_the_same_core(schedule):
    t = schedule(program((0, [s(5)]), (1, [s(7)]), (0, [v(2)]), (1, [v(2)])))
    assert waits(t)[2:] == [(Wait.DISPATCH, 6, 0), (Wait.DISPATCH, 8, 1)]


def test_the_first_row_of_a_core_is_released_by_nobody(schedule):
    t = schedule(program((0, [v(5)]), (1, [v(5)])))
    assert waits(t) == [(Wait.DISPATCH, 1, -1)] * 2


# --- Transfers


def test_one_transfer_alone(schedule):
    t = one_core(schedule, load(100, 3, startup=7, startup_warm=1, drain=2), load(100, 3, startup=7, startup_warm=1))
    assert times(t) == [(1, 1, 42, 44), (2, 42, 77, 77)]
    assert waits(t) == [(Wait.DISPATCH, 1, -1), (Wait.PIPE_ORDER, 40, 0)]
    assert t["stretch_cycles"].tolist() == [0, 0]


def test_two_cores_share_a_link_in_halves(schedule):
    t = schedule(program((0, [load(100, 3)]), (1, [load(100, 3)])))
    assert times(t) == [(1, 1, 51, 51)] * 2
    assert waits(t) == [(Wait.BANDWIDTH, 16, -1)] * 2
    assert t["stretch_cycles"].tolist() == [16, 16]


def test_three_cores_get_whole_units(schedule):
    """16384 // 3 units serve 409600 in a little more than 75 cycles; exact thirds would do in 75."""
    t = schedule(program(*[(core, [load(100, 3)]) for core in range(3)]))
    assert times(t) == [(1, 1, 77, 77)] * 3
    assert t["stretch_cycles"].tolist() == [42] * 3


def test_shares_change_in_mid_transfer(schedule):
    """3 bytes per cycle to cycle 11, then 2 for 15 cycles, then 3 again for the last 40."""
    t = schedule(program((0, [load(100, 3)]), (1, [s(10), load(30, 3)])))
    assert times(t) == [(1, 1, 40, 40), (0, 0, 10, 10), (11, 11, 26, 26)]
    assert waits(t)[0] == (Wait.BANDWIDTH, 5, 2)
    assert waits(t)[2] == (Wait.DISPATCH, 11, 1)
    assert t["stretch_cycles"].tolist() == [5, 0, 5]


def test_what_a_slow_transfer_leaves_of_its_share_goes_to_nobody(schedule):
    t = schedule(program((0, [load(20, 1)]), (1, [load(60, 3)])))
    assert times(t) == [(1, 1, 21, 21), (1, 1, 28, 28)]
    assert t["stretch_cycles"].tolist() == [0, 7]
    assert waits(t)[1] == (Wait.BANDWIDTH, 7, 0)


def test_pipes_of_one_core_share_a_link_too(schedule):
    t = one_core(schedule, load(40, 3), store(60, 3), dispatch=0)
    assert times(t) == [(0, 0, 20, 20), (0, 0, 27, 27)]
    assert waits(t) == [(Wait.BANDWIDTH, 6, -1), (Wait.BANDWIDTH, 7, 0)]


def test_links_do_not_share_with_each_other_nor_does_start_up(schedule):
    t = schedule(program((0, [load(30, 3, link=GM)]), (1, [load(30, 3, link=L2_LINK)]), (2, [load(30, 3, startup=10)])))
    assert times(t) == [(1, 1, 11, 11), (1, 1, 11, 11), (1, 1, 21, 21)]
    assert t["stretch_cycles"].tolist() == [0, 0, 0]


def test_a_short_transfer_keeps_its_pipe_for_its_occupancy_but_not_the_link(schedule):
    """The minimum counts from the row's start; the link is free again when the bytes are through, in cycle 8."""
    t = schedule(program((0, [load(4, 2, startup=5, occupancy=20, drain=3), load(2)]), (1, [load(100, 4, startup=4)])))
    assert times(t) == [(1, 1, 21, 24), (2, 21, 23, 23), (1, 1, 32, 32)]
    assert t["stretch_cycles"].tolist() == [0, 0, 2]


def test_a_long_transfer_takes_no_notice_of_its_occupancy(schedule):
    t = one_core(schedule, load(30, startup=5, occupancy=20))
    assert times(t) == [(1, 1, 36, 36)]


def test_a_transfer_of_no_bytes_takes_its_start_up(schedule):
    t = one_core(schedule, load(0, startup=6, drain=1), load(0, startup_warm=2, occupancy=9))
    assert times(t) == [(1, 1, 7, 8), (2, 7, 16, 16)]


def test_a_shorter_stretch_than_the_wait_before_is_not_the_cause(schedule):
    other = (1, [s(20), load(40, 3)])
    longer = schedule(program((0, [s(12), load(40, 3)]), other))
    assert longer["stretch_cycles"].tolist() == [0, 2, 0, 2]
    assert waits(longer)[1] == (Wait.DISPATCH, 13, 0)
    in_order = schedule(program((0, [v(1), load(45, 3), load(30, 3)]), other))
    assert in_order["stretch_cycles"].tolist() == [0, 0, 3, 0, 3]
    assert waits(in_order)[2] == (Wait.BANDWIDTH, 3, -1)


def test_a_link_slower_than_the_cap_is_no_sharing(schedule):
    t = one_core(schedule, load(40, 4), capacity=(2, 2))
    assert times(t) == [(1, 1, 21, 21)]
    assert t["stretch_cycles"].tolist() == [0]
    assert waits(t) == [(Wait.DISPATCH, 1, -1)]


def test_transfers_that_were_never_on_the_link_together_are_no_rivals(schedule):
    """Core 0 leaves the link in cycle 11, as core 1's data phase begins; core 2 holds it from cycle 13 on."""
    t = schedule(
        program(
            (0, [s(1), load(2, 2, startup=8)]),  # on the link from 10 to 11
            (1, [load(60, 4, startup=10)]),  # from 11
            (2, [load(100, 4, startup=12)]),  # from 13
        )
    )
    assert times(t)[1:] == [(2, 2, 11, 11), (1, 1, 39, 39), (1, 1, 51, 51)]
    assert t["stretch_cycles"].tolist() == [0, 0, 13, 13]
    assert waits(t)[2:] == [(Wait.BANDWIDTH, 13, -1), (Wait.BANDWIDTH, 13, 2)]


def test_of_rivals_that_leave_in_one_cycle_the_first_core_is_named(schedule):
    """As for barriers, whose releaser is the first in (core, pipe) order."""
    t = schedule(program((0, [load(20, 1)]), (1, [load(20, 1)]), (2, [load(60, 3)])))
    assert t["occupied"].tolist() == [21, 21, 33]
    assert waits(t)[2] == (Wait.BANDWIDTH, 12, 0)


# --- L2


def cached(at, count=64, **more):
    """A load that costs 1 byte per cycle from GM and 4 from L2."""
    quick = {"startup": 10, "startup_warm": 5, "startup_hit": 2, "startup_warm_hit": 1, "link_hit": L2_LINK}
    return load(count, gm_offset=at, cap_units_hit=4 * UNITS_PER_BYTE, **quick, **more)


def hits(schedule, *rows, l2=MODEL, **machine):
    return one_core(schedule, *rows, l2=l2, **machine)["l2_hit"].tolist()


def test_a_hit_has_its_own_start_up_cap_and_link(schedule):
    t = one_core(schedule, cached(0), cached(0), s(200), cached(0), l2=MODEL)
    assert times(t) == [(1, 1, 75, 75), (2, 75, 92, 92), (2, 2, 202, 202), (203, 203, 221, 221)]
    assert t["l2_hit"].tolist() == [0, 1, 0, 1]


def test_the_link_of_a_hit_is_shared_with_hits_only(schedule):
    long = (1, [load(300, 4, gm_offset=256)])
    t = schedule(program((0, [cached(0, 4), s(40), cached(0, 4)]), long, l2=replace(MODEL, bytes=4096)))
    assert times(t) == [(1, 1, 15, 15), (1, 1, 41, 41), (42, 42, 45, 45), (1, 1, 78, 78)]
    assert t["stretch_cycles"].tolist() == [0, 0, 0, 2]


@pytest.mark.parametrize(("mode", "expected", "end"), [("hit", [1, 1], 37), ("miss", [0, 0], 144)])
def test_l2_can_be_forced(schedule, mode, expected, end):
    t = one_core(schedule, cached(0), cached(0), l2=replace(MODEL, mode=mode))
    assert t["l2_hit"].tolist() == expected
    assert t.makespan_cycles == {37: 1 + 2 + 16 + 1 + 16, 144: 1 + 10 + 64 + 5 + 64}[end]


def test_the_least_recently_used_segment_goes_first(schedule):
    order = [0, 256, 0, 512, 0, 256, 0, 512]
    assert hits(schedule, *map(cached, order)) == [0, 0, 1, 0, 1, 0, 1, 0]


def test_a_hit_needs_every_line(schedule):
    assert hits(schedule, cached(0), cached(0, 65), cached(64), cached(0, 128), cached(60, 8)) == [0, 0, 1, 1, 1]


def test_stores_leave_their_lines_in_l2(schedule):
    rows = [store(64), set_flag(HardEvent.MTE3_MTE2), wait_flag(HardEvent.MTE3_MTE2), cached(0), cached(64)]
    assert hits(schedule, *rows) == [0, 0, 0, 1, 0]


def test_a_strided_box_touches_the_lines_of_its_rows_only(schedule):
    box = cached(0, gm_rows=2, gm_length=32, gm_pitch=128)  # lines 0 and 2
    assert hits(schedule, box, cached(128), cached(0), box, cached(64)) == [0, 1, 1, 1, 0]
    apart = cached(0, gm_rows=2, gm_length=64, gm_pitch=128)  # lines 0 and 2
    assert hits(schedule, apart, cached(128), cached(64)) == [0, 1, 0]
    shifted = cached(40, gm_rows=2, gm_length=32, gm_pitch=128)  # lines 0, 1, 2, 3
    assert hits(schedule, shifted, cached(0, 256)) == [0, 1]
    close = cached(0, gm_rows=3, gm_length=20, gm_pitch=20)  # line 0 alone
    assert hits(schedule, close, cached(0), cached(64)) == [0, 1, 0]


def test_a_box_larger_than_l2_leaves_its_last_segments(schedule):
    assert hits(schedule, cached(0, 768), cached(256, 512), cached(0, 1)) == [0, 1, 0]


def test_a_segment_that_comes_back_has_none_of_its_old_lines(schedule):
    assert hits(schedule, cached(0), cached(256), cached(512), cached(64), cached(0)) == [0, 0, 0, 0, 0]


def test_addresses_count_from_the_base_of_their_slot(schedule):
    rows = [cached(0, slot=1), cached(64, slot=1), cached(128), cached(192)]
    assert hits(schedule, *rows, bases=(0, 128)) == [0, 0, 1, 1]


def test_an_empty_box_is_a_hit(schedule):
    assert hits(schedule, cached(0, 0), cached(0), cached(0, 0)) == [1, 0, 1]


def test_l2_is_looked_up_at_the_start_of_a_row_not_at_its_end(schedule):
    """Core 1 starts one cycle after core 0, long before core 0's bytes are there."""
    t = schedule(program((0, [cached(0)]), (1, [s(1), cached(0)]), l2=MODEL))
    assert t["l2_hit"].tolist() == [0, 0, 1]


def test_transfers_of_one_cycle_look_l2_up_in_core_order_then_pipe_order(schedule):
    cores = schedule(program((1, [cached(0)]), (0, [cached(0)]), l2=MODEL))
    assert cores["l2_hit"].tolist() == [1, 0]
    pipes = one_core(schedule, store(64), cached(0), dispatch=0, l2=MODEL)
    assert times(pipes)[0][1] == times(pipes)[1][1] == 0
    assert pipes["l2_hit"].tolist() == [1, 0]


# --- Edges


def test_an_empty_program_takes_no_time(schedule):
    for empty in (program(), program((0, []), cores=3)):
        t = schedule(empty)
        assert len(t) == 0
        assert t.makespan_cycles == 0
        assert set(t.columns) == set(TIMELINE_COLUMNS)


def test_a_deadlock_names_the_flag_the_core_and_the_last_cycle(schedule):
    rows = [v(10), wait_flag(HardEvent.MTE2_V, 3), v(1), load(4)]
    with pytest.raises(Deadlock) as caught:
        schedule(program((0, [v(1)]), (1, rows)))
    assert caught.value.cycle == 11
    for words in ("cycle 11", "2 of 5", "core 1", "MTE2_V id 3"):
        assert words in str(caught.value)
    assert "core 0" not in str(caught.value)


def test_a_deadlock_of_s_names_its_flag(schedule):
    with pytest.raises(Deadlock, match=r"core 0.* waits for V_S id 0"):
        one_core(schedule, wait_flag(HardEvent.V_S), set_flag(HardEvent.V_S))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([wait_flag(HardEvent.S_V), barrier(Pipe.S), set_flag(HardEvent.S_V)], "barrier"),
        ([wait_flag(HardEvent.S_V), v(1), v(1), set_flag(HardEvent.S_V)], "queue"),
    ],
)
def test_a_deadlock_names_every_unit_that_waits(schedule, rows, words):
    with pytest.raises(Deadlock, match="S_V id 0") as caught:
        one_core(schedule, *rows, depth=1)
    assert words in str(caught.value)


@pytest.mark.parametrize("last", [s(50), v(9, drain=41)])
def test_a_deadlock_tells_the_last_cycle_in_which_anything_moved(schedule, last):
    with pytest.raises(Deadlock) as caught:
        one_core(schedule, wait_flag(HardEvent.V_MTE2), last)
    assert caught.value.cycle == (51 if last["pipe"] == Pipe.S else 52)


def test_the_reference_reports_progress():
    told = []
    reference.schedule(program((0, [s(1)] * 5000)), lambda done, total: told.append((done, total)))
    assert told
    assert all(0 < done <= total == 5000 for done, total in told)


def test_the_reference_keeps_the_rows_of_some_calls_and_of_some_time():
    """Call 1, and what the scalar unit is at before cycle 12 and is complete after cycle 11."""
    p = program((0, [v(10), v(1), v(5)]), (1, [v(2)]), (0, [s(3), v(4)]))
    whole = reference.schedule(p)
    assert times(whole)[:3] == [(1, 1, 11, 11), (2, 11, 12, 12), (3, 12, 17, 17)]
    kept = reference.schedule(p, keep=Keep(np.array([False, True, False]), ((11, 12),)))
    assert kept["number"].tolist() == [1, 2, 3, 5]
    assert times(kept) == [times(whole)[number] for number in (1, 2, 3, 5)]
    assert (kept.row_count, kept.makespan_cycles) == (len(whole), 21)
    assert (kept.totals.busy_cycles == whole.totals.busy_cycles).all()


# --- Random programs

ANY = Shape()
STEADY = Shape(plain_startup=True, minimum=False)
ALONE = Shape(max_cores=1, max_cap=1.8, plain_startup=True, l2_modes=("hit", "miss"))


def test_engines_agree_on_every_column_of_every_row():
    seen = Counter()
    others = [engine for name, engine in ENGINES.items() if name != "plain"]

    @PROFILE
    @given(programs(ANY))
    def check(p):
        mine = plain.Scheduler(p)
        mine.run()
        timeline = mine.timeline()
        for engine in others:
            assert mismatches(timeline, engine(p)) == []
        kinds = +(kinds_of(p, timeline) + kinds_of_rows(mine.rows))
        assert timeline.totals.double_sets.sum() == kinds["flag set twice"]
        seen.update(set(kinds))

    check()
    assert {kind for kind in EVERYTHING | EVERYTHING_OF_ROWS if seen[kind] < 5} == set()


@FEW
@given(st.lists(st.sampled_from("vsSWSWb"), max_size=9), st.integers(1, 3))
def test_engines_agree_on_which_programs_are_stuck(letters, depth):
    """Flags of any order on one id, so most programs hang."""
    rows = [
        {
            "v": v(3, drain=4),
            "s": s(6),
            "S": set_flag((HardEvent.S_V, HardEvent.V_S)[i % 2]),
            "W": wait_flag((HardEvent.S_V, HardEvent.V_S)[i // 2 % 2]),
            "b": barrier(Pipe.S, 1),
        }[letter]
        for i, letter in enumerate(letters)
    ]
    p = program((0, rows), depth=depth)
    outcomes = []
    for scheduler in ENGINES.values():
        try:
            outcomes.append(times(scheduler(p)))
        except Deadlock:
            outcomes.append("stuck")
    assert all(outcome == outcomes[0] for outcome in outcomes)


def test_queues_of_four_buffers_set_flags_twice_and_both_engines_agree(monkeypatch):
    """The program of a real kernel whose ids are set again before their waits."""
    seen = []
    changes = {"block_dim": 2, "tiling.tile_length": 256} | {f"queues.{q}.num": 4 for q in ("in_x", "in_y", "out_z")}

    def spy(schedule_input, *more, **named):
        seen.append(schedule_input)
        return reference.schedule(schedule_input, *more, **named)

    monkeypatch.setitem(machine.ENGINES, "reference", spy)
    result = machine.run("vector_add", engine="reference", set=changes)
    assert analysis.double_sets(result.program, result.timeline)
    (p,) = seen
    assert mismatches(plain.schedule(p), result.timeline) == []


# --- Properties of the reference


@FEW
@given(programs(ANY))
def test_the_same_program_has_the_same_timeline(p):
    first, second = reference.schedule(p), reference.schedule(p)
    assert all((first[name] == second[name]).all() for name in TIMELINE_COLUMNS)


@FEW
@given(programs(ANY))
def test_rows_are_all_there_in_order_and_never_overlap(p):
    t = reference.schedule(p)
    starts = p.row_starts()
    assert len(t) == starts[-1]
    assert [(int(c), int(r)) for c, r in zip(t["call"], t["row"], strict=True)] == [
        (call, row) for call in range(len(p.call_core)) for row in range(starts[call + 1] - starts[call])
    ]
    assert (t["core"] == p.call_core[t["call"]]).all()
    assert (t["dispatched"] <= t["start"]).all()
    assert (t["start"] <= t["occupied"]).all()
    assert (t["occupied"] <= t["end"]).all()
    for core in range(p.core_count):
        for pipe in (Pipe.S, Pipe.V, Pipe.MTE2, Pipe.MTE3):
            here = np.flatnonzero((t["core"] == core) & (t["pipe"] == pipe))
            assert (t["start"][here][1:] >= t["occupied"][here][:-1]).all()
            if pipe != Pipe.S:
                depth = p.queue_depth[pipe]
                room = t["start"][here][:-depth] + p.dispatch_cycles
                assert (t["dispatched"][here][depth:] >= room).all()


@FEW
@given(programs(ANY))
def test_busy_stalled_and_idle_cycles_add_up_to_the_makespan(p):
    t = reference.schedule(p)
    for use in analysis.all_pipe_use(t):
        parts = (use.busy_cycles, use.stalled_cycles, use.idle_cycles)
        assert min(parts) >= 0
        assert sum(parts) == t.makespan_cycles


@FEW
@given(programs(ANY))
def test_every_wait_passes_once_its_set_has_risen_and_names_one_that_did_last(p):
    t = reference.schedule(p)
    for _, cross, sets_of_each, takers in meetings(p, t):
        rises = risings(p, t, cross, sets_of_each)
        for turn, wait in enumerate(takers):
            assert passed(t, wait) == max(t["start"][wait], rises[turn])
            if rises[turn] > t["start"][wait]:
                last = max((sets[turn] for sets in sets_of_each), key=lambda n: (t["end"][n], -t["core"][n]))
                assert t["released_by"][wait] == last


@FEW
@given(programs(STEADY))
def test_a_link_serves_every_byte_in_the_cycles_of_the_data_phases(p):
    """Without a minimum, a data phase lasts from the end of start-up to the end of occupancy: serve it again."""
    t = reference.schedule(p)
    column = {name: template_column(p, t, name) for name in ("bytes", "startup", "link", "cap_units")}
    transfers = np.flatnonzero((t["kind"] == Kind.TRANSFER) & (column["bytes"] > 0))
    begin = t["start"] + column["startup"]
    left = column["bytes"] * UNITS_PER_BYTE
    for number, link in enumerate(p.links):
        mine = transfers[column["link"][transfers] == number]
        for cycle in range(t.makespan_cycles):
            sharing = mine[(begin[mine] <= cycle) & (cycle < t["occupied"][mine])]
            assert (left[sharing] > 0).all()
            shares = np.minimum(column["cap_units"][sharing], link.capacity_units // max(1, len(sharing)))
            assert shares.sum() <= link.capacity_units
            left[sharing] -= shares
        assert (left[mine] <= 0).all()


SLOWER = ("occupancy", "startup", "drain", "bytes")


@FEW
@given(programs(ALONE), st.data())
def test_a_slower_row_makes_no_row_earlier(p, data):
    """On one core without contention, if a warm start-up costs what a cold one does and L2 is forced.

    Transfers of a core's two directions get by with half a link each. The next two tests show why the rest is needed.
    """
    before = reference.schedule(p)
    calls = [call for call, template in enumerate(p.call_template) if len(p.templates[template])]
    if not calls:
        return
    call = data.draw(st.sampled_from(calls))
    columns = {name: column.copy() for name, column in p.templates[p.call_template[call]].columns.items()}
    row = data.draw(st.integers(0, len(columns["kind"]) - 1))
    slower = data.draw(st.sampled_from(SLOWER))
    both = {"startup": ("startup", "startup_warm", "startup_hit", "startup_warm_hit"), "bytes": ("bytes", "bytes_hit")}
    names = both.get(slower, (slower,))
    for name in names:
        columns[name][row] += data.draw(st.shared(st.integers(1, 50), key="more"))
    templates = list(p.templates)
    templates[p.call_template[call]] = TemplateSchedule(columns)
    after = reference.schedule(replace(p, templates=tuple(templates)))
    for name in ("dispatched", "start", "occupied", "end"):
        assert (after[name] >= before[name]).all()


def test_a_slower_row_may_keep_its_pipe_warm_and_so_save_time(schedule):
    def makespan(first):
        return one_core(schedule, v(first), s(49), v(5, startup=20)).makespan_cycles

    assert makespan(40) == 76
    assert makespan(50) == 56


def test_a_slower_row_may_come_after_a_store_that_warms_l2_and_so_save_time(schedule):
    def ends(first):
        flags = [set_flag(HardEvent.V_MTE2), wait_flag(HardEvent.V_MTE2)]
        return one_core(schedule, v(first), *flags, cached(0), store(64), l2=MODEL)["end"].tolist()[3:]

    assert ends(1) == [4 + 10 + 64, 5 + 64]
    assert ends(4) == [7 + 2 + 16, 5 + 64]
