"""Print how time and memory grow with the length of a program: the tables of docs/performance.md.

Each line is a process of its own, so that its peak memory is its own. `python tests/bench/growth.py [LARGEST]`, where
LARGEST is a power of ten up to 10**8.
"""

import json
import math
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import programs
from programs import CORES

from ascendsim.checks import check_program
from ascendsim.engine import compiled, reference
from ascendsim.engine.base import Keep

REFERENCE_ROWS = 10**6
"""The reference engine is not asked for more."""


def timed(work, *arguments, times=1):
    """Run something and return what it gives and how long it took at best, in seconds."""
    best = math.inf
    for _ in range(times):
        begun = time.perf_counter()
        value = work(*arguments)
        best = min(best, time.perf_counter() - begun)
    return value, best


def mebibytes():
    """Peak memory of this process so far."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def measure(cores, size):
    """Measure one length of program in this process."""
    made = CORES[cores][size]
    small = programs.program_input(CORES[cores][10**4].m, cores)
    compiled.schedule(small[1])  # load the compiled code
    compiled.makespan_cycles(small[1])
    idle = mebibytes()
    often = 5 if made.rows < REFERENCE_ROWS / 2 else 3 if made.rows < 2 * REFERENCE_ROWS else 1
    (program, device), record_s = timed(programs.recorded, made.m, cores, times=often)
    recorded = mebibytes()
    _, check_s = timed(check_program, program, device, times=often)
    schedule_input = programs.schedule_input(program, device, "model")
    makespan, makespan_s = timed(compiled.makespan_cycles, schedule_input, times=often)
    nothing = Keep(np.zeros(len(schedule_input.call_core), np.bool_))
    timeline, totals_s = timed(compiled.schedule, schedule_input, None, nothing, times=often)
    scheduled = mebibytes()
    found = {"rows": made.rows, "record_s": record_s, "check_s": check_s, "makespan_s": makespan_s}
    found |= {"totals_s": totals_s, "idle_mib": idle, "recorded_mib": recorded, "scheduled_mib": scheduled}
    if made.rows <= REFERENCE_ROWS * 1.1:
        slow, found["reference_s"] = timed(reference.schedule, schedule_input)
        assert slow.makespan_cycles == makespan
    assert (len(program), timeline.row_count) == (made.rows, made.rows)
    assert makespan == timeline.makespan_cycles == made.makespan_cycles
    return found


def slope(lines, key):
    """Slope of the straight line through log(seconds) over log(rows) from 10**5 rows on."""
    points = [(math.log(line["rows"]), math.log(line[key])) for line in lines if line["rows"] > 5 * 10**4]
    mean_x, mean_y = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def table(cores, largest):
    """Measure and print the lines of one number of cores."""
    print(f"\n{cores} core{'s' if cores > 1 else ''}:\n")
    print("| rows | record | check | makespan only | with totals | reference | times as fast | memory |")
    print("|---|---|---|---|---|---|---|---|")
    lines = []
    for size in (s for s in CORES[cores] if s <= largest):
        command = [sys.executable, __file__, "--measure", str(cores), str(size)]
        line = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        lines.append(line)
        print("| " + " | ".join(cells(line)) + " |", flush=True)
    if len(lines) > 2:
        slopes = {key: slope(lines, key) for key in ("record_s", "makespan_s", "totals_s")}
        print("\nSlope from 10^5 rows on: " + ", ".join(f"{k[:-2]} {v:.2f}" for k, v in slopes.items()))


def cells(line):
    """A measured line as text."""
    rates = [_rate(line, key) for key in ("record_s", "check_s", "makespan_s", "totals_s")]
    slow, ratio = "-", "-"
    if "reference_s" in line:
        slow = _rate(line, "reference_s")
        ratio = " / ".join(f"{line['reference_s'] / line[key]:.0f}" for key in ("makespan_s", "totals_s"))
    memory = f"{line['recorded_mib'] - line['idle_mib']} + {line['scheduled_mib'] - line['recorded_mib']} MiB"
    return (f"{line['rows']:,}", *rates, slow, ratio, memory)


def _rate(line, key):
    return f"{line[key]:.3g} s, {line['rows'] / line[key] / 1e6:.3g} M/s"


def main():
    """Print the machine and both tables, or measure one line for that."""
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(int(sys.argv[2]), int(sys.argv[3]))))
        return
    processor = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    print(f"Python {platform.python_version()}, {processor}")
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else 10**8
    for cores in CORES:
        table(cores, largest)


if __name__ == "__main__":
    main()
