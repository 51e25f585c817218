"""Any value at any key of a plan: used, or refused with a message; never anything else."""

import tomllib
from copy import deepcopy

import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.errors import AscendSimError
from ascendsim.plan.formulas import compiled
from ascendsim.plan.layout import lay_out
from ascendsim.plan.model import plan_file
from ascendsim.plan.solve import field_to_solve, solve, values_of

PLANS = {path.stem: tomllib.loads(path.read_text()) for path in sorted((ROOT / "tilings").glob("plan_*.toml"))}
ODD = [
    -1, 0, 1, 8, 2**31, 2**62, 2**63, 1.5, float("nan"), True, "", " ", "x", "rows", "k", "1 //", "1 // 0", "half",
    "9" * 30, "-(1)", "fit", "framework", [], [1], [2, 1], [1, 2], ["k", 8], {}, {"min": 1}, {"min": 1, "max": 3},
    {"min": 3, "max": 1}, {"min": 1, "max": 2**40}, {"a": {}}, {"bytes": 1}, {"width": 3, "dtype": "float"},
]  # fmt: skip


def _paths(tree, at=()):
    for key, value in tree.items():
        yield (*at, key)
        if isinstance(value, dict):
            yield from _paths(value, (*at, key))


def _with(tree, path, value):
    changed = deepcopy(tree)
    here = changed
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = deepcopy(value)
    return changed


def _answered(raw, changes):
    """Everything but the predicted cycles."""
    plan = compiled(plan_file(raw, "p.toml", changes), "p.toml")
    field = field_to_solve(plan, None)
    chosen = values_of(plan, field)
    if field is not None:
        chosen[field] = solve(plan, field).largest["safe"] or plan.ranges[field].min
    return lay_out(plan, chosen, plan.limit)


def _checked(raw, changes):
    try:
        layout = _answered(raw, changes)
    except AscendSimError as error:
        assert str(error).startswith("p.toml: "), error  # noqa: PT017 - success is fine, too
        return
    assert all(str(finding) for finding in layout.findings)


CASES = [(name, path) for name, tree in PLANS.items() for path in _paths(tree)]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(CASES), st.sampled_from(ODD))
def test_a_value_in_a_file(case, value):
    name, path = case
    _checked(_with(PLANS[name], path, value), {})


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(CASES), st.sampled_from(ODD))
def test_a_value_from_outside(case, value):
    name, path = case
    _checked(PLANS[name], {".".join(path): value})


@pytest.mark.parametrize("name", PLANS)
def test_the_shipped_plans_are_answered(name):
    assert _answered(PLANS[name], {}).entries
