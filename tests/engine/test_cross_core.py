"""Flags between cores: schedules worked out by hand, for every engine of `agreement.ENGINES`."""

import pytest
from agreement import ENGINES, FEW
from hypothesis import given
from hypothesis import strategies as st
from small_programs import (
    exec_row,
    load,
    program,
    s,
    set_cross,
    set_flag,
    times,
    v,
    wait_cross,
    wait_flag,
    waits,
)

from ascendsim.engine import reference
from ascendsim.engine.base import CrossMode, Wait
from ascendsim.errors import Deadlock
from ascendsim.terms import HardEvent, Pipe

ALL = CrossMode("all", ((0, 1),), ((0, 1),))
PAIRS = CrossMode("pairs", ((0, 1), (2, 3)), ((0, 1), (2, 3)))
DOWN = CrossMode("down", ((0,),), ((1, 2),))
UP = CrossMode("up", ((1, 2),), ((0,),))
TO_LAST = CrossMode("to last", ((0, 1),), ((2,),))
NONE = (Wait.NOTHING, 0, -1)


@pytest.fixture(params=ENGINES.values(), ids=ENGINES)
def schedule(request):
    return request.param


# --- Groups


@pytest.mark.parametrize("later", [0, 1, 5])
def test_all_cores_wait_for_the_last_of_them_to_set(schedule, later):
    """Core 1's set ends in cycle 22, and its flag rises when the row before is complete, in cycle 25."""
    sync = [set_cross(Pipe.V, 0, 3), wait_cross(Pipe.V, 0, 3), v(3)]
    t = schedule(program((0, [v(10), *sync]), (1, [v(20, drain=4), *sync]), cross_modes=(ALL,), cross_cycles=later))
    up = 25 + later
    after = [(3, 22, up + 1, up + 1), (4, up + 1, up + 4, up + 4)]
    assert times(t)[:2] == [(1, 1, 11, 11), (2, 11, 12, 12)]
    assert times(t)[2:4] == [(3, 12, *after[0][2:]), after[1]]
    assert times(t)[4:] == [(1, 1, 21, 25), (2, 21, 22, 25), *after]
    assert waits(t)[2:4] == [(Wait.CROSS_CORE, up - 12, 5), (Wait.PIPE_ORDER, up - 3, 2)]
    assert waits(t)[6:] == [(Wait.CROSS_CORE, up - 22, 5), (Wait.PIPE_ORDER, up - 3, 6)]


def test_a_cube_core_hands_over_to_two_vector_cores_and_back(schedule):
    """One id in two modes; the cube core goes on when the slower vector core has set."""
    cube = [exec_row(Pipe.M, 10), set_cross(Pipe.M, 0, 3), wait_cross(Pipe.M, 1, 3), exec_row(Pipe.M, 2)]
    vectors = [[wait_cross(Pipe.MTE2, 0, 3), load(n), set_cross(Pipe.MTE2, 1, 3)] for n in (8, 20)]
    t = schedule(program((0, cube), (1, vectors[0]), (2, vectors[1]), cross_modes=(DOWN, UP)))
    assert times(t)[:4] == [(1, 1, 11, 11), (2, 11, 12, 12), (3, 12, 35, 35), (4, 35, 37, 37)]
    assert times(t)[4:7] == [(1, 1, 13, 13), (2, 13, 21, 21), (3, 21, 22, 22)]
    assert times(t)[7:] == [(1, 1, 13, 13), (2, 13, 33, 33), (3, 33, 34, 34)]
    assert [waits(t)[n] for n in (2, 4, 7)] == [
        (Wait.CROSS_CORE, 22, 9),
        (Wait.CROSS_CORE, 11, 1),
        (Wait.CROSS_CORE, 11, 1),
    ]


def test_groups_of_a_mode_do_not_wait_for_each_other(schedule):
    calls = [(core, [s(cycles), set_cross(Pipe.S, 0, 0), wait_cross(Pipe.S, 0, 0)])
             for core, cycles in enumerate([4, 9, 29, 19])]  # fmt: skip
    t = schedule(program(*calls, cross_modes=(PAIRS,)))
    assert t["end"].tolist()[2::3] == [11, 11, 31, 31]
    assert waits(t)[2::3] == [(Wait.CROSS_CORE, 5, 4), NONE, NONE, (Wait.CROSS_CORE, 10, 7)]


def test_ids_and_modes_and_a_cores_own_flags_are_told_apart(schedule):
    """All of number 3 and 4; each wait of core 0 passes in another cycle."""
    mine = [
        wait_cross(Pipe.M, 0, 3),
        wait_cross(Pipe.MTE1, 0, 4),
        wait_cross(Pipe.FIX, 1, 3),
        wait_flag(HardEvent.MTE2_V, 3),
        load(15),
        set_flag(HardEvent.MTE2_V, 3),
    ]
    other = [row for flag in ((0, 4), (1, 3), (0, 3)) for row in (s(9), set_cross(Pipe.S, *flag))]
    one_way = [CrossMode(name, ((1,),), ((0,),)) for name in ("a", "b")]
    t = schedule(program((0, mine), (1, other), cross_modes=tuple(one_way)))
    assert t["end"].tolist()[:4] == [31, 11, 21, 22]
    assert waits(t)[:4] == [
        (Wait.CROSS_CORE, 29, 11),
        (Wait.CROSS_CORE, 8, 7),
        (Wait.CROSS_CORE, 17, 9),
        (Wait.FLAG, 17, 5),
    ]


def test_a_core_of_no_group_may_set_but_nobody_waits_for_it(schedule):
    late = (2, [s(90), set_cross(Pipe.S, 0, 0)])
    sync = [set_cross(Pipe.S, 0, 0), wait_cross(Pipe.S, 0, 0)]
    t = schedule(program((0, sync), (1, sync), late, cross_modes=(ALL,)))
    assert t["end"].tolist() == [1, 2, 1, 2, 90, 91]


def test_a_core_may_wait_for_itself_alone(schedule):
    rows = [wait_cross(Pipe.V, 0, 0), set_cross(Pipe.MTE2, 0, 0)]
    t = schedule(program((0, rows), cross_modes=(CrossMode("own", ((0,),), ((0,),)),), cross_cycles=4))
    assert times(t) == [(1, 1, 8, 8), (2, 2, 3, 3)]
    assert waits(t)[0] == (Wait.CROSS_CORE, 6, 1)


# --- Waiting


@pytest.mark.parametrize(
    ("scalar_cycles", "wait", "after", "cause"),
    [
        (13, (2, 16, 17, 17), (3, 17, 29, 29), (Wait.PIPE_ORDER, 14, 2)),
        (14, (2, 16, 18, 18), (3, 18, 33, 33), (Wait.CROSS_CORE, 1, 1)),
    ],
)
def test_only_a_wait_that_had_to_wait_cools_its_pipe(schedule, scalar_cycles, wait, after, cause):
    """The wait is ready in cycle 16; the set ends a cycle after the scalar row, and the flag rises 2 later."""
    work = v(10, startup=5, warm=2)
    setter, waiter = [s(scalar_cycles), set_cross(Pipe.S, 0, 0)], [work, wait_cross(Pipe.V, 0, 0), work]
    t = schedule(program((0, setter), (1, waiter), cross_modes=(DOWN,), cross_cycles=2, cores=3))
    assert times(t)[3:] == [wait, after]
    assert waits(t)[3] == cause


def test_the_scalar_unit_waits_for_another_core(schedule):
    t = schedule(
        program(
            (0, [v(10, drain=4), set_cross(Pipe.V, 0, 0)]),
            (1, [wait_cross(Pipe.S, 0, 0, occupancy=2), v(1)]),
            cross_modes=(DOWN,),
            cross_cycles=3,
            cores=3,
        )
    )
    assert times(t)[2:] == [(0, 0, 20, 20), (21, 21, 22, 22)]
    assert waits(t)[2] == (Wait.CROSS_CORE, 18, 1)


def test_the_nth_wait_passes_when_every_setter_has_set_n_times(schedule):
    """Core 0 sets in cycles 1, 2 and 3, core 1 in cycles 11 and 22."""
    ahead = [set_cross(Pipe.S, 0, 0)] * 3
    behind = [s(10), set_cross(Pipe.S, 0, 0)] * 2
    rows = [wait_cross(Pipe.V, 0, 0)] * 2
    t = schedule(program((0, ahead), (1, behind), (2, rows), cross_modes=(TO_LAST,)))
    assert times(t)[7:] == [(1, 1, 12, 12), (2, 12, 23, 23)]
    assert waits(t)[7:] == [(Wait.CROSS_CORE, 10, 4), (Wait.CROSS_CORE, 10, 6)]
    with pytest.raises(Deadlock):
        schedule(program((0, ahead), (1, behind), (2, [*rows, rows[0]]), cross_modes=(TO_LAST,)))


def test_rises_of_one_cycle_count_one_by_one(schedule):
    """Core 1 has set twice before core 0's two flags rise together, when its first row is complete."""
    late = [v(2, drain=20), set_cross(Pipe.V, 0, 0), set_cross(Pipe.V, 0, 0)]
    rows = [wait_cross(Pipe.V, 0, 0), s(40), wait_cross(Pipe.V, 0, 0)]
    t = schedule(program((0, late), (1, [set_cross(Pipe.S, 0, 0)] * 2), (2, rows), cross_modes=(TO_LAST,)))
    assert t["end"].tolist()[:3] == [23, 23, 23]
    assert times(t)[5:] == [(1, 1, 24, 24), (1, 1, 41, 41), (42, 42, 43, 43)]
    assert waits(t)[5] == (Wait.CROSS_CORE, 22, 1)
    assert waits(t)[7] == (Wait.DISPATCH, 18, 6)


def test_each_waiter_takes_its_own_rise(schedule):
    setter = [set_cross(Pipe.S, 0, 0)] * 2
    early, late = [wait_cross(Pipe.V, 0, 0)] * 2, [s(20), *[wait_cross(Pipe.V, 0, 0)] * 2]
    t = schedule(program((0, setter), (1, early), (2, late), cross_modes=(DOWN,), cross_cycles=5))
    assert times(t)[2:4] == [(1, 1, 7, 7), (2, 7, 8, 8)]
    assert waits(t)[2:4] == [(Wait.CROSS_CORE, 5, 0), (Wait.PIPE_ORDER, 5, 2)]
    assert times(t)[5:] == [(21, 21, 22, 22), (22, 22, 23, 23)]


@pytest.mark.parametrize("setters", [(0, 1), (1, 0)])
def test_of_sets_that_end_in_one_cycle_the_first_cores_releases(schedule, setters):
    """Whatever the order of the rows and of the setters."""
    rows = [s(5), set_cross(Pipe.S, 0, 0)]
    mode = CrossMode("to last", (setters,), ((2,),))
    t = schedule(program((1, rows), (0, rows), (2, [wait_cross(Pipe.V, 0, 0)]), cross_modes=(mode,), cross_cycles=1))
    assert t["core"].tolist() == [1, 1, 0, 0, 2]
    assert waits(t)[4] == (Wait.CROSS_CORE, 6, 3)


def test_the_later_cores_set_releases_if_it_ends_later(schedule):
    calls = [(core, [s(5 + core), set_cross(Pipe.S, 0, 0)]) for core in (0, 1)]
    t = schedule(program(*calls, (2, [wait_cross(Pipe.V, 0, 0)]), cross_modes=(TO_LAST,)))
    assert waits(t)[4] == (Wait.CROSS_CORE, 6, 3)


def test_a_wait_may_come_before_its_cores_own_set_if_the_queue_lets_s_get_there(schedule):
    def run(between):
        rows = [wait_cross(Pipe.V, 0, 0), *[v(1)] * between, s(5), set_cross(Pipe.S, 0, 0)]
        return schedule(program((0, rows), (1, [set_cross(Pipe.S, 0, 0)]), cross_modes=(ALL,), depth=2))

    assert times(run(2)) == [
        (1, 1, 10, 10),
        (2, 10, 11, 11),
        (3, 11, 12, 12),
        (3, 3, 8, 8),
        (8, 8, 9, 9),
        (0, 0, 1, 1),
    ]
    with pytest.raises(Deadlock, match="cross-core flag 0 of mode all"):
        run(3)


# --- Deadlocks and refusals


def test_a_deadlock_names_the_cross_core_flag(schedule):
    calls = [(0, [v(10)]), (1, [set_cross(Pipe.S, 0, 3), wait_cross(Pipe.MTE2, 0, 3)])]
    with pytest.raises(Deadlock, match=r"core 1.* waits for cross-core flag 3 of mode all") as caught:
        schedule(program(*calls, cross_modes=(ALL,), cross_cycles=50))
    assert caught.value.cycle == 11


def test_the_reference_says_it_in_one_sentence():
    rows = [set_cross(Pipe.S, 0, 3), wait_cross(Pipe.MTE2, 0, 3), wait_flag(HardEvent.S_V, 3)]
    with pytest.raises(Deadlock) as caught:
        reference.schedule(program((1, rows), cross_modes=(ALL,)))
    assert str(caught.value).splitlines() == [
        "deadlock at cycle 1: 2 of 3 rows cannot run",
        "  core 1 waits for cross-core flag 3 of mode all, which nobody raises",
        "  core 1 waits for S_V id 3, which nobody raises",
    ]


def test_a_core_that_is_in_no_group_waits_for_ever(schedule):
    calls = [(core, [set_cross(Pipe.S, 0, 0)]) for core in (0, 1)]
    with pytest.raises(Deadlock, match=r"core 2.* waits for cross-core flag 0 of mode all"):
        schedule(program(*calls, (2, [wait_cross(Pipe.V, 0, 0)]), cross_modes=(ALL,)))


@pytest.mark.parametrize(("flag", "cycle"), [(0, 52), (1, 2)])
def test_a_rise_that_nobody_takes_is_no_move(schedule, flag, cycle):
    """The flag rises in cycle 51; the first wait takes it or waits for another."""
    calls = [(0, [set_cross(Pipe.S, 0, 0), v(0)]), (1, [wait_cross(Pipe.S, 0, flag), wait_cross(Pipe.S, 0, flag)])]
    with pytest.raises(Deadlock) as caught:
        schedule(program(*calls, cross_modes=(DOWN,), cross_cycles=50, cores=3))
    assert caught.value.cycle == cycle


@pytest.mark.parametrize(
    ("setters", "waiters", "text"),
    [
        (((0,),), (), "cross-core mode x: as many groups of setters as of waiters"),
        (((0,), (0,)), ((1,), (2,)), "cross-core mode x: a core sets in one group, and no group is empty"),
        (((0, 0),), ((1,),), "cross-core mode x: a core sets in one group, and no group is empty"),
        (((0,), ()), ((1,), (2,)), "cross-core mode x: a core sets in one group, and no group is empty"),
        (((0,), (1,)), ((2,), (2,)), "cross-core mode x: a core waits in one group, and no group is empty"),
        (((0,),), ((),), "cross-core mode x: a core waits in one group, and no group is empty"),
    ],
)
def test_a_mode_whose_groups_overlap_or_lack_cores_is_refused(setters, waiters, text):
    with pytest.raises(ValueError, match=r"^cross-core mode") as caught:
        CrossMode("x", setters, waiters)
    assert str(caught.value) == text


def test_flags_have_names():
    p = program(cross_modes=(UP, ALL), cores=3)
    assert p.flag_text(3) == "MTE2_V id 3"
    assert p.flag_text(3, 2) == "cross-core flag 3 of mode all"


# --- Random programs

ROWS = {
    "v": v(3, drain=4),
    "s": s(6),
    "S": set_cross(Pipe.V, 0, 0),
    "W": wait_cross(Pipe.MTE2, 0, 0),
    "T": set_cross(Pipe.MTE2, 0, 1),
    "X": wait_cross(Pipe.S, 0, 1),
}


@FEW
@given(*[st.lists(st.sampled_from([*ROWS, "S", "T"]), max_size=8)] * 2, st.integers(1, 3), st.integers(0, 3))
def test_engines_agree_on_which_programs_are_stuck(first, second, depth, later):
    """Flags in any order, so most programs hang."""
    rows = [[ROWS[letter] for letter in letters] for letters in (first, second)]
    p = program(*enumerate(rows), depth=depth, cross_modes=(ALL,), cross_cycles=later)
    outcomes = []
    for scheduler in ENGINES.values():
        try:
            t = scheduler(p)
            outcomes.append((times(t), waits(t)))
        except Deadlock:
            outcomes.append("stuck")
    assert all(outcome == outcomes[0] for outcome in outcomes)
