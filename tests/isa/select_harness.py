"""Run one kernel on the library and on the oracle of reductions, comparisons, selections and gathers."""

from lane_harness import DEVICE, OVERLAPS, Both, as_memory, same_memory, without_advice
from select_oracle import SelectOracle

from ascendsim.checks import check_rows
from ascendsim.execute import execute
from ascendsim.record import record
from ascendsim.terms import HalfOverflow


def run_both(kernel, ground, saturate=False):
    """Record and execute `kernel(asc)`, run it on the oracle, and return both ends."""
    oracle = SelectOracle(as_memory(ground.ub), [], saturate)
    recording = record(kernel, DEVICE, 1, (), ())
    assert recording.complete
    static = without_advice((*recording.findings, *check_rows(recording.program, DEVICE)))
    mode = HalfOverflow.SATURATE if saturate else HalfOverflow.INF_NAN
    done = execute(recording.program, DEVICE, (), overflow=mode, ub=ground.ub, log_core=0)
    kernel(oracle)
    return Both(ground.ub, (), oracle, done.findings, static)


def compare(kernel, ground, saturate=False, allowed=()):
    """Hold every byte of the library's run to the oracle; beforehand only overlaps and `allowed` may be found."""
    both = run_both(kernel, ground, saturate)
    assert [f for f in both.static if f.code not in (*allowed, *OVERLAPS)] == []
    same_memory("UB", both.ub, both.oracle.ub)
    found = {(f.where.split(" ")[0], f.operand) for f in both.findings if f.code == "W-MEM-UNINIT"}
    assert found == set(both.oracle.unwritten)
    return both
