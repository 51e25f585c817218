"""Run folders that can be executed again: what is looked into need not have been kept."""

from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

from ascendsim import runfolder
from ascendsim.errors import InputError
from ascendsim.inspection import Replay
from ascendsim.machine import replay_of
from ascendsim.result import RunResult
from ascendsim.scenario import scenario_from


def load_run(folder: str | Path) -> RunResult:
    """Read a run folder back; the result can be looked into.

    Raises:
        InputError: no run there, a damaged one, files of two runs, or one of a newer version.
    """
    result = runfolder.load_run(folder)
    return replace(result, replay=partial(_replay, result, Path(folder)))


def _replay(result: RunResult, folder: Path) -> Replay:
    """Record the scenario of a stored run again; its kernel must still be what it was."""
    if any(spec.get("fill") == "array" for spec in result.scenario.get("tensors", {}).values()):
        raise InputError(
            f"{folder}: the run was given arrays that its folder does not hold; look into the result of that call"
        )
    replay = replay_of(scenario_from(deepcopy(dict(result.scenario)), folder / "scenario.toml"), {})
    if replay.program.digest != result.program.digest:
        raise InputError(
            f"{folder}: the kernel or this program records something else now than when the run was made; run the "
            "scenario again"
        )
    return replay
