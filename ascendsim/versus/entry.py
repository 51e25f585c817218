"""What users call: comparisons of runs that are given as results, folders or scenarios."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ascendsim.errors import InputError
from ascendsim.files import is_file, is_folder
from ascendsim.machine import run
from ascendsim.progress import Progress, silent
from ascendsim.result import RunResult
from ascendsim.runfolder import RUN_FILE, load_run
from ascendsim.versus.measured import TraceComparison, compare_with_trace
from ascendsim.versus.msopprof import read_trace
from ascendsim.versus.outputs import OutputComparison, Tolerance, compare_with_dumps
from ascendsim.versus.runs import RunComparison, compare_runs

Run = RunResult | str | Path
"""A result, the folder of a run, a scenario file, or the name of a shipped scenario."""


def run_of(given: Run, changes: Mapping[str, Any] | None = None, progress: Progress = silent) -> RunResult:
    """Return the run that is given: as it is, read from its folder, or run now from a scenario.

    Args:
        given: a result, the folder of a run, or a scenario.
        changes: to a scenario's keys, {"tiling.tile_m": 32}.
        progress: told how far a scenario has run.

    Raises:
        InputError: no run in the folder, changes to what has run already; and as `run`.
    """
    is_done = isinstance(given, RunResult) or is_folder(Path(given))
    if is_done and changes:
        raise InputError(f"{name_of(given)}: --set changes a scenario; this has run already, name its scenario file")
    if isinstance(given, RunResult):
        return given
    if is_file(Path(given) / "trace.json") and not is_file(Path(given) / RUN_FILE):
        raise InputError(f"{given}: no run there, but a trace; name the file {Path(given) / 'trace.json'}")
    return load_run(given) if is_done else run(given, set=changes, progress=progress)


def name_of(given: Run) -> str:
    """Return what messages call it."""
    return given.name if isinstance(given, RunResult) else str(given)


def compare(
    a: Run,
    b: Run,
    *,
    set_a: Mapping[str, Any] | None = None,
    set_b: Mapping[str, Any] | None = None,
    progress: Progress = silent,
) -> RunComparison:
    """Return two runs beside each other: figures, what differs, what got faster and why; `str` of it is a page.

    Args:
        a: a result, the folder of a run, a scenario file, or the name of a shipped scenario, which is run.
        b: another.
        set_a: changes to keys of the scenario `a`, {"tiling.tile_m": 32}.
        set_b: the same of `b`.
        progress: told how far a scenario has run.

    Raises:
        InputError: no run there; and for scenarios as `run`.
    """
    first, second = run_of(a, set_a, progress), run_of(b, set_b, progress)
    with _damage_told(a, b):
        found = compare_runs(first, second, (_named(a, set_a), _named(b, set_b)))
        _ = found.reasons  # all that looks into the runs' arrays
    return found


@contextmanager
def _damage_told(*given: Run) -> Iterator[None]:
    """Name the folders of runs whose arrays do not fit each other, which reading them does not find in all cases."""
    folders = [str(one) for one in given if not isinstance(one, RunResult) and is_folder(Path(one))]
    try:
        yield
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, StopIteration) as error:
        if not folders:
            raise
        what = f"the run is damaged ({type(error).__name__}: {error}); run the scenario again"
        raise InputError(f"{' or '.join(dict.fromkeys(folders))}: {what}") from error


def _named(given: Run, changes: Mapping[str, Any] | None) -> str:
    return " ".join([name_of(given), *(f"{key}={value}" for key, value in (changes or {}).items())])


def compare_trace(
    run: Run,
    trace: str | Path,
    *,
    clock_mhz: int | None = None,
    core: str = "",
    aliases: Mapping[str, str] | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the public name, as --set
    progress: Progress = silent,
) -> TraceComparison:
    """Return a run beside a trace that msopprof's simulator wrote of the same kernel; `str` of it is a page.

    Args:
        run: a result, the folder of a run, or a scenario.
        trace: trace.json of all cores, or of one core.
        clock_mhz: at which the trace's microseconds are cycles; None for what it names itself, else the device's.
        core: whose trace a per-core file is; "" takes the name of its folder.
        aliases: the run's names of instructions that the trace calls otherwise, with the trace's.
        set: changes to a scenario's keys.
        progress: told how far a scenario has run.

    Raises:
        InputError: no trace as msopprof writes them, no core in common, or a run whose rows were not all kept.
    """
    result = run_of(run, set, progress)
    clock = result.device.clock_mhz if clock_mhz is None else clock_mhz
    found = read_trace(trace, clock, core, is_fixed=clock_mhz is not None)
    with _damage_told(run):
        return compare_with_trace(result, found, aliases, _named(run, set))


def compare_outputs(
    run: Run,
    folder: str | Path,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    ulp: int = 0,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the public name, as --set
    progress: Progress = silent,
) -> OutputComparison:
    """Return a board's output tensors beside a run's: errors, bad tiles, who wrote the first bad element.

    Args:
        run: a result, the folder of a run, or a scenario.
        folder: with NAME.bin for each output: its elements in its dtype, row by row.
        atol: |board - run| <= atol + rtol * |run| counts as equal; None for half 1e-3, float 1e-4, bfloat16_t 2^-7,
            integers 0.
        rtol: relative to the run's value; None for the same numbers.
        ulp: so many units in the last place count as equal, too.
        set: changes to a scenario's keys.
        progress: told how far a scenario has run.

    Raises:
        InputError: a run without values, no dumps there, one of the wrong length, or what is no tolerance.
    """
    for name, value in (("atol", atol), ("rtol", rtol), ("ulp", ulp)):
        if value is not None and not 0 <= value < math.inf:
            raise InputError(f"{name} = {value}: must be a finite number, at least 0")
    result = run_of(run, set, progress)
    with _damage_told(run):
        return compare_with_dumps(result, Path(folder), Tolerance(atol, rtol, ulp), _named(run, set))
