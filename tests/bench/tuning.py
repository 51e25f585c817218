"""How many candidates of SoftmaxGrad a search times in a second, warm, with one process and with two.

    python tests/bench/tuning.py

Every candidate is recorded, judged by all rules and timed. Two spaces: rows of 64 floats on up to eight cores, and the
shipped 960 x 960 on up to 48. `make bench` runs it.
"""

import sys
import time

from ascendsim.scenario import load_scenario
from ascendsim.tune.evaluation import Setup
from ascendsim.tune.executors import Processes
from ascendsim.tune.search import all_numbers
from ascendsim.tune.space import parse_space

SMALL = {f"tensors.{name}.shape": [1024, 64] for name in ("grad", "src", "dst")}
SPACES = {
    "1024 x 64 float": (SMALL, ("tile_m=8:64:8", "buffer_num=1,2", "block_dim=1:8")),
    "960 x 960 float": ({}, ("tile_m=2:8", "buffer_num=1,2", "block_dim=8:48:8")),
}


def rate(setup, workers):
    """Candidates a second, without what beginning takes: each process has evaluated some before."""
    numbers = all_numbers(setup)
    with Processes(setup, workers) as processes:
        list(processes.rows(numbers[: 4 * workers]))
        begun = time.perf_counter()
        rows = list(processes.rows(numbers))
        return len(rows) / (time.perf_counter() - begun)


def main():
    """Print a line for each space."""
    for name, (changes, vary) in SPACES.items():
        scenario = load_scenario("softmaxgrad_960x960_float", changes)
        setup = Setup(scenario, parse_space(vary, scenario))
        one, two = (rate(setup, workers) for workers in (1, 2))
        counted = len(all_numbers(setup))
        sys.stdout.write(
            f"{name}: {counted} candidates, {one:.1f} and {two:.1f} a second, {two / one / 2:.2f} of twice\n"
        )


if __name__ == "__main__":
    main()
