"""The guided search on a space of FlashAttention backward of which every candidate's time is known."""

import random

import pytest
from tune_harness import known_rows, session, space_tool

from ascendsim.tuner.evaluation import Evaluator

pytest.importorskip("optuna")

from ascendsim.tuner.guided import guided

TOOL = space_tool()
SETUP = TOOL.setup()
ROWS = known_rows(SETUP)
CYCLES = SETUP.columns.index("cycles")
TIMES = {number: row[CYCLES] for number, row in ROWS.items() if row[CYCLES] is not None}
BEST = min(TIMES.values())
PART = 0.07


def found(seed, order=list):
    """Candidates that a search looks at, in its order."""
    one = session(ROWS, order)
    guided(one, SETUP, ("cycles",), int(PART * SETUP.space.count), seed)
    return list(one.store.rows)


def best_of(numbers):
    return min(TIMES[number] for number in numbers if number in TIMES)


def test_the_space_is_whole():
    assert set(ROWS) == set(range(1, SETUP.space.count + 1))
    assert 1000 <= SETUP.space.count <= 1200
    assert len(TIMES) == 768


@pytest.mark.parametrize("number", [9, 460, 1001])
def test_its_times_are_what_the_model_says_now(number):
    """`python tools/make_fag_space.py --check` looks at all of them."""
    assert TOOL.line(SETUP, Evaluator(SETUP).row(number)) == TOOL.line(SETUP, ROWS[number])


def test_near_the_optimum_with_few_of_the_evaluations():
    searches = {seed: found(seed) for seed in range(10)}
    assert all(len(numbers) <= PART * SETUP.space.count for numbers in searches.values())
    near = [seed for seed, numbers in searches.items() if best_of(numbers) <= 1.01 * BEST]
    assert len(near) >= 9, {seed: best_of(numbers) / BEST for seed, numbers in searches.items()}


def test_the_search_hangs_on_the_seed_alone():
    """Whoever is done first: rows come in another order."""

    def shuffled(numbers):
        return random.Random(7).sample(list(numbers), len(numbers))

    assert sorted(found(3)) == sorted(found(3, shuffled))
    assert sorted(found(3)) != sorted(found(4))


def test_a_search_that_goes_on_does_not_look_twice():
    one = session(ROWS)
    guided(one, SETUP, ("cycles",), 40, 0)
    again = session(ROWS)
    again.store.rows.update(dict(list(one.store.rows.items())[:17]))
    guided(again, SETUP, ("cycles",), 40, 0)
    assert set(again.store.rows) == set(one.store.rows)
    assert again.evaluated == 40 - 17


def test_more_than_there_is_ends_with_all():
    small = type(SETUP)(SETUP.scenario, TOOL.parse_space(("cv_s1=64,128", "look_ahead=0:2"), SETUP.scenario))
    rows = {n: tuple(n if c == "candidate" else "timed" if c == "status" else 100 + n for c in small.columns)
            for n in range(1, 7)}  # fmt: skip
    one = session(rows)
    guided(one, small, ("cycles",), 50, 0)
    assert sorted(one.store.rows) == [1, 2, 3, 4, 5, 6]
