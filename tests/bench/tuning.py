"""How many candidates of SoftmaxGrad a search times in a second, warm, with one process and with two.

    python tests/bench/tuning.py

Every candidate is recorded, judged by all rules and timed. Rows of 64 floats dealt out evenly (1, 2, 4 .. 32 cores), on
one to eight cores, and on any number of them, where nearly every candidate has last tiles of its own; and the shipped
960 x 960 on up to 48. Beside the clock's time stands the
processor time of the evaluating processes (Linux), which others on the computer change less. `make bench` runs it.
"""

import os
import sys
import time
from pathlib import Path

from ascendsim.scenario import load_scenario
from ascendsim.tuner.evaluation import Setup
from ascendsim.tuner.executors import Processes
from ascendsim.tuner.search import all_numbers
from ascendsim.tuner.space import parse_space

SMALL = {f"tensors.{name}.shape": [1024, 64] for name in ("grad", "src", "dst")}
SPACES = {
    "1024 x 64 float, even shares": (SMALL, ("tile_m=8:64:8", "buffer_num=1,2", "block_dim=1:32:*2")),
    "1024 x 64 float, up to 8 cores": (SMALL, ("tile_m=8:64:8", "buffer_num=1,2", "block_dim=1:8")),
    "960 x 960 float": ({}, ("tile_m=2:8", "buffer_num=1,2", "block_dim=8:48:8")),
    "1024 x 64 float, all cores": (SMALL, ("tile_m=16:128:16", "buffer_num=1,2", "block_dim=1:48")),
}


def processor_seconds(process_id):
    """What a process has computed so far."""
    fields = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rate(setup, workers):
    """(Candidates a second, processor seconds of each), without what beginning takes: each process is warm."""
    numbers = all_numbers(setup)
    with Processes(setup, workers) as processes:
        list(processes.rows(numbers[: 4 * workers]))
        before, begun = sum(map(processor_seconds, processes.process_ids)), time.perf_counter()
        rows = list(processes.rows(numbers))
        seconds = time.perf_counter() - begun
        computed = sum(map(processor_seconds, processes.process_ids)) - before
    return len(rows) / seconds, computed / len(rows)


def main():
    """Print a line for each space."""
    for name, (changes, vary) in SPACES.items():
        scenario = load_scenario("softmaxgrad_960x960_float", changes)
        setup = Setup(scenario, parse_space(vary, scenario))
        (one, one_each), (two, two_each) = (rate(setup, workers) for workers in (1, 2))
        sys.stdout.write(
            f"{name}: {len(all_numbers(setup))} candidates, {one:.1f} and {two:.1f} a second, {two / one / 2:.2f} of "
            f"twice; {1e3 * one_each:.1f} and {1e3 * two_each:.1f} ms of CPU time each, {two_each / one_each:.2f} "
            "times as much\n"
        )


if __name__ == "__main__":
    main()
