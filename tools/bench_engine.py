"""How fast are recording, checking, executing and scheduling? Prints rows a second for the main scenario.

Times depend on the machine; the ratios between the stages less so. Row counts are asserted, so that a faster figure
never comes from doing less.
"""

import platform
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ascendsim.checks import check_program
from ascendsim.execute import execute
from ascendsim.machine import _gm_bytes, _prepare, schedule
from ascendsim.record import record
from ascendsim.scenario import load_scenario

SCENARIO = Path(__file__).parent.parent / "scenarios" / "softmaxgrad_960x960_float.toml"
ROWS = 36720


def timed(name: str, work: Callable[[], Any]) -> Any:
    """Run something, print how long it took and rows a second, and return what it gave."""
    begun = time.perf_counter()
    value = work()
    seconds = time.perf_counter() - begun
    print(f"{name:10} {seconds:7.3f} s {ROWS / seconds:12,.0f} rows/s")
    return value


def main() -> None:
    """Time each stage of the main scenario once."""
    print(f"Python {platform.python_version()}, {platform.machine()}, {SCENARIO.stem}, {ROWS} rows on 48 cores")
    ready = _prepare(load_scenario(SCENARIO), with_data=True)
    recording = timed(
        "record", lambda: record(ready.kernel, ready.device, ready.block_dim, ready.gm, (ready.argument,))
    )
    program = recording.program
    timed("check", lambda: check_program(program, ready.device))
    gm = tuple(_gm_bytes(g, ready.inputs) for g in ready.gm)
    timed("execute", lambda: execute(program, ready.device, gm))
    timeline = timed("schedule", lambda: schedule(program, ready.device))
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak memory {peak_kib / 1024:.0f} MiB")
    if len(program) != ROWS or len(timeline) != ROWS:
        sys.exit(f"the program has {len(program)} rows, not {ROWS}: the figures above are for something else")


if __name__ == "__main__":
    main()
