"""A pytest fixture that runs a scenario as a test.

def test_my_tiling(ascendsim_run):
result = ascendsim_run("scenarios/mine.toml", set={"tiling.tile_m": 32})
assert result.makespan_us < 20
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ascendsim.result import RunResult

RunScenario = Callable[..., "RunResult"]


@pytest.fixture
def ascendsim_run() -> RunScenario:
    """Return a function that runs a scenario and fails the test unless every expectation of the file is met."""

    def run_scenario(
        scenario: str | Path,
        *,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - the public name, as --set
        despite_findings: bool = False,
    ) -> "RunResult":
        from ascendsim.machine import run  # noqa: PLC0415 - every pytest run loads this plugin

        result = run(scenario, set=set, despite_findings=despite_findings)
        missed = [f"{e.what}: wanted {e.wanted}, got {e.got}" for e in result.expectations if not e.met]
        if missed:
            pytest.fail("\n".join([f"{scenario}: {len(missed)} expectations not met", *missed]), pytrace=False)
        return result

    return run_scenario
