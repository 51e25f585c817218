"""split_m by hand: all 16 fields follow, and whether SoftMaxGradTilingFunc could return them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.machine import host_argument
from ascendsim.op_host.softmax import (
    row_cost_floats,
    soft_max_grad_splits,
    soft_max_grad_tiling_func,
    soft_max_grad_tiling_of_split,
)
from ascendsim.scenario import load_scenario

SHAPES = st.tuples(st.integers(1, 70), st.sampled_from([8, 32, 64, 96, 128, 960]))


@given(SHAPES, st.sampled_from([2, 4]), st.booleans(), st.integers(1, 80))
def test_what_the_function_gives_is_found_with_its_least_temp(shape, size, is_front, rows):
    m, k = shape
    k = k * 4 // size
    row_bytes = 4 * row_cost_floats(k, size, is_front)
    splits = soft_max_grad_splits((m, k), size, is_front)
    given_by_function = {soft_max_grad_tiling_func((m, k), size, fit * row_bytes, is_front).split_m
                         for fit in range(1, m + 2)} - {0}  # fmt: skip
    assert set(splits) == given_by_function
    tiling = soft_max_grad_tiling_func((m, k), size, rows * row_bytes, is_front)
    if tiling.split_m:
        assert tiling == soft_max_grad_tiling_of_split((m, k), size, tiling.split_m)
        least = splits[tiling.split_m]
        assert soft_max_grad_tiling_func((m, k), size, least, is_front) == tiling
        assert least <= rows * row_bytes
        assert soft_max_grad_tiling_func((m, k), size, least - 1, is_front) != tiling


def test_all_sixteen_fields():
    """7 rows of 64 floats, 3 at a time: two whole tiles and one of a row."""
    tiling = soft_max_grad_tiling_of_split((7, 64), 4, 3)
    fields = [getattr(tiling, name) for name in tiling.__dataclass_fields__]
    assert fields == [7, 64, 448, 7, 8, 56, 3, 64, 192, 3, 8, 24, 2, 1, 64, 8]


@pytest.mark.parametrize(("split_m", "rows"), [(3, 3), (99, 4)])
def test_a_scenario_with_it(split_m, rows):
    scenario = load_scenario("softmaxgrad_960x960_float", {"tiling.split_m": split_m})
    assert host_argument(scenario).soft_max_tiling == soft_max_grad_tiling_of_split((4, 960), 4, rows)
