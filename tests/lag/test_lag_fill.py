"""Fill laser_qkv: even over a range within [-100, 100], else normal; and what a scenario says to wrong keys."""

import numpy as np
import pytest
from pydantic import ValidationError

from ascendsim.fills import make_fill
from ascendsim.scenario import TensorSpec


def spec(**changes):
    given = {
        "role": "input",
        "shape": [200, 50],
        "dtype": "float",
        "fill": "laser_qkv",
        "seed": 1,
        "range": [-2.0, 2.0],
    }
    return TensorSpec(**(given | changes))


def values(**changes):
    return make_fill(spec(**changes), "tensors.query").astype(np.float64)


def test_a_range_within_100_is_drawn_from_evenly():
    found = values(range=[-2.0, 6.0])
    assert -2 <= found.min() < -1.9
    assert 5.9 < found.max() <= 6
    assert np.histogram(found, 4, (-2, 6))[0] == pytest.approx(2500, rel=0.1)


def test_a_wider_range_is_normal_about_a_drawn_mean():
    means, deviations = [], []
    for seed in range(40):
        found = values(range=[-100.0, 101.0], seed=seed)
        means.append(found.mean())
        deviations.append(found.std())
    assert -101 < min(means) < -50
    assert 50 < max(means) < 101
    assert 0.9 < min(deviations) < 5
    assert 20 < max(deviations) < 25.5


def test_the_same_seed_gives_the_same_bits():
    assert values().tobytes() == values().tobytes()
    assert values(seed=2).tobytes() != values().tobytes()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"range": None}, "needs range"),
        ({"seed": None}, "needs a seed"),
        ({"range": [2.0, -2.0]}, "the least value, then the largest"),
        ({"range": [0.0, float("inf")]}, "both finite"),
        ({"range": [0.0]}, "at least 2 items"),
        ({"fill": "normal"}, "range belongs to fill"),
    ],
)
def test_keys_that_do_not_fit(changes, text):
    with pytest.raises(ValidationError, match=text):
        spec(**changes)
