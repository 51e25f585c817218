"""Fields and values of a search, points by number, constraints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.errors import InputError
from ascendsim.scenario import load_scenario
from ascendsim.tuner.constraints import parse_constraints
from ascendsim.tuner.evaluation import Setup
from ascendsim.tuner.head import check_setup
from ascendsim.tuner.search import all_numbers, random_numbers
from ascendsim.tuner.space import Field, Space, parse_space

GRAD = load_scenario("softmaxgrad_960x960_float")
FAG = load_scenario("fag_same_ab_small")
ADD = load_scenario("vector_add")


def values(text, scenario=GRAD):
    return parse_space([text], scenario).fields[0].values


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tile_m=8:32:8", (8, 16, 24, 32)),
        ("tile_m=8:31:8", (8, 16, 24)),
        ("tile_m=3:5", (3, 4, 5)),
        ("tile_m=1:64:*4", (1, 4, 16, 64)),
        ("buffer_num=1,2", (1, 2)),
        ("tmp_bytes=min,max,20480", ("min", "max", 20480)),
        ("is_front=false,true", (False, True)),
        ("block_dim= 8 , 48", (8, 48)),
    ],
)
def test_values_in_their_order(text, found):
    assert values(text) == found
    assert [type(one) for one in values(text)] == [type(one) for one in found]


@pytest.mark.parametrize(
    ("text", "keys", "scenario"),
    [
        ("tile_m=4", ("tiling.tile_m",), GRAD),
        ("tiling.tile_m=4", ("tiling.tile_m",), GRAD),
        ("buffer_num=2", ("queues.in_grad.num", "queues.in_p.num", "queues.out.num"), GRAD),
        ("queues.out.num=2", ("queues.out.num",), GRAD),
        ("block_order=rows", ("tiling.block_order",), FAG),
        ("tile_length=512", ("tiling.tile_length",), ADD),
    ],
)
def test_what_a_field_sets(text, keys, scenario):
    assert parse_space([text], scenario).fields[0].keys == keys


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ([], "--vary: nothing varies; name at least one field, "),
        (["tile_m"], "--vary tile_m: want FIELD=VALUES, "),
        (["tile_n=1,2"], "--vary tile_n: softmaxgrad_960x960_float has no such field; the nearest is tile_m. It has "),
        (["reduce_m=1,2"], "--vary reduce_m: follows from "),
        (["tile_m=8:4"], "--vary tile_m=8:4: the last value 4 is below the first 8; write the smaller one first"),
        (["tile_m=8:16:0"], "--vary tile_m=8:16:0: the step 0 must be at least 1"),
        (["tile_m=8:16:*1"], "--vary tile_m=8:16:*1: *1 from 8 on does not grow; "),
        (["tile_m=8:x"], "--vary tile_m=8:x: want FIRST:LAST:STEP or FIRST:LAST:*FACTOR in whole numbers, "),
        (["tile_m=1:2:3:4"], "--vary tile_m=1:2:3:4: want FIRST:LAST:STEP or FIRST:LAST:*FACTOR "),
        (["tile_m=4,,5"], "--vary tile_m=4,,5: a value is missing; "),
        (["tile_m=4,4"], "--vary tile_m=4,4: 4 comes twice; give each value once"),
        (["tile_m=4.5"], "--vary tile_m=4.5: '4.5' is no whole number, no word, true or false; "),
        (["tile_m=0,4"], "--vary tile_m=0,4: tile_m = 0: Input should be greater than or equal to 1"),
        (["tmp_bytes=most"], "--vary tmp_bytes=most: tmp_bytes = most: 'most': must be a number of bytes, or "),
        (["buffer_num=0"], "--vary buffer_num=0: buffer_num = 0: Input should be greater than or equal to 1"),
        (["tile_m=1:999999999"], "--vary tile_m=1:999999999: more than 100000 values; take a larger step"),
        (
            ["buffer_num=1", "queues.out.num=2"],
            "--vary queues.out.num=2: queues.out.num varies with buffer_num already; ",
        ),
    ],
)
def test_what_cannot_vary(texts, reason):
    with pytest.raises(InputError) as error:
        parse_space(texts, GRAD)
    assert str(error.value).startswith(reason)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_a_number_is_a_point_and_back(lengths):
    space = Space(tuple(Field(f"f{i}", (f"tiling.f{i}",), tuple(range(n))) for i, n in enumerate(lengths)))
    points = [space.point(number) for number in range(1, space.count + 1)]
    assert [space.number(point) for point in points] == list(range(1, space.count + 1))
    assert points == sorted(points, key=lambda point: tuple(point.values()))


def setup(*where, vary=("tile_m=1:8", "buffer_num=1,2")):
    one = Setup(GRAD, parse_space(vary, GRAD), where)
    check_setup(one)
    return one


def test_constraints_over_given_numbers():
    one = setup("tile_m * buffer_num <= 8", "tile_m % 2 == 0")
    kept = [one.space.point(number) for number in all_numbers(one)]
    assert [(p["tile_m"], p["buffer_num"]) for p in kept] == [(2, 1), (2, 2), (4, 1), (4, 2), (6, 1), (8, 1)]


def test_constraints_over_derived_numbers_wait_for_the_host_side():
    one = setup("tile_m <= 4", "split_m == tile_m")
    assert [c.text for c in one.early] == ["tile_m <= 4"]
    assert [c.text for c in one.late] == ["split_m == tile_m"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tile_m", '--where "tile_m": no comparison; want two expressions with one of <=, >=, ==, !=, <, > '),
        ("1 < tile_m < 4", '--where "1 < tile_m < 4": 2 comparisons; want two expressions '),
        ("tile_m <= 4 +", '--where "tile_m <= 4 +": column 14: '),
        ("tile_m * <= 4", '--where "tile_m * <= 4": column 10: '),
        ("tile_m <= tiel_m", "--where \"tile_m <= tiel_m\": column 11: unknown name 'tiel_m'; did you mean tile_m?"),
    ],
)
def test_what_is_no_constraint(text, reason):
    with pytest.raises(InputError) as error:
        setup(text)
    assert str(error.value).startswith(reason)


def test_words_cannot_be_compared():
    with pytest.raises(InputError, match="column 1: tmp_bytes has words among its values"):
        setup("tmp_bytes <= 4", vary=("tmp_bytes=min,4096",))


def test_a_constraint_without_a_value():
    (constraint,) = parse_constraints(["8 // tile_m <= 4"])
    with pytest.raises(InputError, match=r"division by zero \(8 divided by 0\) with tile_m = 0"):
        constraint.holds({"tile_m": 0})


def test_nothing_is_left():
    with pytest.raises(InputError, match='no candidate of 16 meets "tile_m > 8"; loosen it'):
        all_numbers(setup("tile_m > 8"))


def test_a_space_beyond_looking_at():
    with pytest.raises(InputError, match="10000000 candidates; all are evaluated up to 1000000"):
        all_numbers(setup(vary=("tile_m=1:1000", "tmp_bytes=1:10000")))


def test_random_candidates_hang_on_the_seed_and_more_of_them_begin_alike():
    one = setup("tile_m > 2")
    assert random_numbers(one, 4, 5) == random_numbers(one, 9, 5)[:4]
    assert random_numbers(one, 9, 5) != random_numbers(one, 9, 6)
    assert set(random_numbers(one, 99, 0)) == set(all_numbers(one))
    large = setup("tile_m > 2", vary=("tile_m=1:1000", "tmp_bytes=1:10000"))
    drawn = random_numbers(large, 20, 1)
    assert len(set(drawn)) == 20
    assert all(large.space.point(number)["tile_m"] > 2 for number in drawn)
    assert random_numbers(large, 30, 1)[:20] == drawn
