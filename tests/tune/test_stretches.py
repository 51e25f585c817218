"""Who is given which candidates: each once, neighbours to one process."""

from hypothesis import given
from hypothesis import strategies as st

from ascendsim.tuner.executors import BATCH, Stretches


def test_processes_begin_with_equal_parts_of_neighbours():
    stretches = Stretches(range(100), 3)
    assert [stretches.take(place) for place in range(3)] == [
        list(range(8)),
        list(range(33, 41)),
        list(range(66, 74)),
    ]


def test_batches_become_smaller_towards_the_end():
    stretches, lengths = Stretches(range(64), 1), []
    while stretches:
        lengths.append(len(stretches.take(0)))
    assert lengths == [16, 12, 9, 6, 5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1]


def test_one_that_is_through_takes_the_latter_half_of_the_longest():
    stretches = Stretches(range(9), 3)
    assert [stretches.take(0) for _ in range(4)] == [[0], [1], [2], [4]]
    assert [stretches.take(1), stretches.take(1)] == [[3], [7]]
    assert [stretches.take(0), stretches.take(2)] == [[5], [6]]
    assert [stretches.take(place) for place in (2,)] == [[8]]
    assert not stretches


def test_what_comes_back_is_given_first():
    stretches = Stretches(range(8), 2)
    taken = stretches.take(0)
    stretches.give_back(0, taken)
    assert stretches.take(0) == taken


@given(count=st.integers(1, 5), length=st.integers(0, 200), turns=st.lists(st.tuples(st.integers(0, 4), st.booleans())))
def test_every_candidate_is_given_once(count, length, turns):
    stretches, given_ = Stretches([7 * n for n in range(length)], count), []
    for place, dies in [*turns, *((0, False) for _ in range(length))]:
        if not stretches:
            break
        taken = stretches.take(place % count)
        assert 1 <= len(taken) <= BATCH
        if dies:
            stretches.give_back(place % count, taken)
        else:
            given_ += taken
    assert sorted(given_) == [7 * n for n in range(length)]
    assert not stretches
