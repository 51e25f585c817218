"""Run the scenarios that take too long for every change: python tests/long_scenarios.py. Ends with 1 if one misses."""

import sys
import time

from conftest import LONG_SCENARIOS, ROOT
from trace_rules import violations

import ascendsim as asc
from ascendsim.trace import trace_json


def main() -> int:
    """Print a line for each, and return the exit code."""
    missed = 0
    for name in LONG_SCENARIOS:
        begin = time.process_time()
        result = asc.run(ROOT / "scenarios" / f"{name}.toml")
        not_met = [e.what for e in result.expectations if not e.met]
        if sum(step.cycles for step in result.critical_path) != result.makespan_cycles:
            not_met.append("the critical path adds up to the makespan")
        if violations(trace_json(result)):
            not_met.append("the trace keeps the rules of the viewers")
        missed += bool(not_met)
        said = f"not met: {', '.join(not_met)}" if not_met else "expectations met"
        print(f"{name}: {result.makespan_cycles} cycles, {said}, {time.process_time() - begin:.0f} s of processor time")
    return min(1, missed)


if __name__ == "__main__":
    sys.exit(main())
