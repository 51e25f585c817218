"""What candidates share changes no row, no program and no finding."""

import pytest

from ascendsim.errors import AscendSimError
from ascendsim.machine import Series, judged
from ascendsim.scenario import load_scenario
from ascendsim.tuner.evaluation import Evaluator, Setup
from ascendsim.tuner.space import parse_space

SMALL = {f"tensors.{name}.shape": [700, 64] for name in ("grad", "src", "dst")}
SPACES = {
    "softmaxgrad_960x960_float": (
        SMALL,
        ("tile_m=99,600", "buffer_num=1,2", "block_dim=4,6"),
    ),
    "fast_softmax_grad_small": ({}, ("tile_rows=8,16", "buffer_num=1,2")),
}
"""Some candidates are dropped, some have warnings."""


@pytest.fixture(params=SPACES)
def setup(request):
    changes, vary = SPACES[request.param]
    scenario = load_scenario(request.param, changes)
    return Setup(scenario, parse_space(vary, scenario))


def test_rows_are_those_of_candidates_alone(setup):
    numbers = range(1, setup.space.count + 1)
    series = Evaluator(setup)
    rows = {number: series.row(number) for number in (*numbers, *reversed(numbers))}
    assert rows == {number: Evaluator(setup).row(number) for number in numbers}
    column = setup.columns.index("status")
    assert {row[column] for row in rows.values()} >= {"timed"}


def test_programs_and_findings_are_those_without(setup):
    series = Series(setup.scenario.load_device())
    for number in range(1, setup.space.count + 1):
        scenario = setup.scenario_of(number)
        try:
            alone = judged(scenario)
        except AscendSimError:  # the host side refuses it
            continue
        ours = judged(scenario, series)
        assert (ours.program.digest, ours.findings) == (alone.program.digest, alone.findings)


def test_little_room(setup, monkeypatch):
    numbers = range(1, setup.space.count + 1)
    expected = [Evaluator(setup).row(number) for number in numbers]
    monkeypatch.setattr("ascendsim.builder._MOST_SHARED", 2)
    monkeypatch.setattr("ascendsim.checks.quiet._MOST_TEMPLATES", 2)
    monkeypatch.setattr("ascendsim.program._MOST_KEPT", 1)
    series = Evaluator(setup)
    assert [series.row(number) for number in numbers] == expected
