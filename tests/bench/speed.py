"""How fast each stage is, and that it does all its work: rows and makespans are those of every run.

Not collected by default: `make bench`, or `pytest tests/bench/speed.py`. How figures grow: tests/bench/growth.py.
"""

import between_cores
import numpy as np
import programs
import pytest
from programs import CORES

from ascendsim.checks import check_program
from ascendsim.engine import compiled, reference
from ascendsim.engine.both import disagreements
from ascendsim.execute import execute
from ascendsim.isa.mmad_arithmetic import accumulate
from ascendsim.machine import _gm_bytes
from ascendsim.sample import execute_sample
from ascendsim.terms import MmadOrder
from ascendsim.window import rows_to_keep


@pytest.fixture(params=[1, 48], ids=["one core", "48 cores"])
def cores(request):
    return request.param


def _rate(benchmark, rows):
    benchmark.extra_info["rows_per_s"] = round(rows / benchmark.stats.stats.min)


def _sized(cores, rows):
    made = CORES[cores][rows]
    program, schedule_input = programs.program_input(made.m, cores)
    assert len(program) == made.rows
    return made, program, schedule_input


def test_reference_engine(benchmark, cores):
    made, _, schedule_input = _sized(cores, 10**5)
    timeline = benchmark.pedantic(reference.schedule, (schedule_input,), rounds=2)
    assert (timeline.row_count, timeline.makespan_cycles) == (made.rows, made.makespan_cycles)
    _rate(benchmark, made.rows)


def test_compiled_engine_with_every_row(benchmark, cores):
    made, _, schedule_input = _sized(cores, 10**5)
    timeline = benchmark.pedantic(compiled.schedule, (schedule_input,), rounds=5, warmup_rounds=1)
    assert (len(timeline), timeline.makespan_cycles) == (made.rows, made.makespan_cycles)
    assert disagreements(timeline, reference.schedule(schedule_input)) == []
    _rate(benchmark, made.rows)


def test_compiled_engine_with_totals(benchmark, cores):
    made, program, schedule_input = _sized(cores, 10**7)
    arguments = (schedule_input, None, rows_to_keep(program))
    timeline = benchmark.pedantic(compiled.schedule, arguments, rounds=3, warmup_rounds=1)
    assert (timeline.row_count, timeline.makespan_cycles) == (made.rows, made.makespan_cycles)
    assert len(timeline) < 300_000
    _rate(benchmark, made.rows)


def test_compiled_engine_makespan_only(benchmark, cores):
    made, _, schedule_input = _sized(cores, 10**7)
    makespan = benchmark.pedantic(compiled.makespan_cycles, (schedule_input,), rounds=3, warmup_rounds=1)
    assert makespan == made.makespan_cycles
    _rate(benchmark, made.rows)


def test_recording(benchmark, cores):
    made = CORES[cores][10**6]
    program, _ = benchmark.pedantic(programs.recorded, (made.m, cores), rounds=3)
    assert len(program) == made.rows
    _rate(benchmark, made.rows)


def test_checking(benchmark, cores):
    made = CORES[cores][10**6]
    program, device = programs.recorded(made.m, cores)
    assert benchmark.pedantic(check_program, (program, device), rounds=3) == ()
    _rate(benchmark, made.rows)


def test_executing(benchmark):
    made = CORES[48][10**5]
    ready = programs.prepared(made.m, 48, values="all")
    program, device = programs.recorded(made.m, 48)
    gm = tuple(_gm_bytes(g, ready.inputs) for g in ready.gm)
    execution = benchmark.pedantic(execute, (program, device, gm), rounds=2)
    assert execution.findings == ()
    assert np.all(gm[2].written)
    _rate(benchmark, made.rows)


def test_values_of_cores_that_wait_for_each_other(benchmark):
    """49,680 calls on 24 AIC and 48 AIV, which wait in every round."""
    program = between_cores.recorded(500, 16)
    gm = between_cores.memories(program)
    execution = benchmark.pedantic(execute, (program, between_cores.DEVICE, gm), rounds=1)
    assert (execution.findings, len(program.calls["core"])) == ((), 49_680)
    assert np.all(gm[5].written)
    _rate(benchmark, len(program))


def test_sample_of_cores_that_wait_for_each_other(benchmark):
    """Three blocks of the same program."""
    program = between_cores.recorded(500, 16)
    gm = between_cores.memories(program)
    names = np.array([t.name for t in program.templates])[program.calls["template"]]
    last = np.flatnonzero(names == "scale")
    roots = np.isin(np.arange(len(names)), last[[0, len(last) // 2, -1]])
    execution, sample = benchmark.pedantic(execute_sample, (program, between_cores.DEVICE, gm, roots), rounds=1)
    assert execution.findings == ()
    assert (len(sample.tiles), sample.calls_run, sample.calls) == (3, 389, 49_680)


@pytest.mark.parametrize("shape", [(128, 128, 128), (128, 64, 256), (16, 16, 16)], ids=str)
@pytest.mark.parametrize(
    ("order", "kind"),
    [(MmadOrder.STEP, np.float32), (MmadOrder.FRACTAL, np.float32), (MmadOrder.STEP, np.int32)],
    ids=["float, a step", "float, a fractal", "integer"],
)
def test_mmad(benchmark, order, kind, shape):
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-99, 99, size).astype(kind) for size in ((m, k), (k, n)))
    c = np.zeros((m, n), kind)
    accumulate(a, b, c, order, 16)
    assert np.array_equal(c, a.astype(np.int64) @ b.astype(np.int64))  # whole numbers: any order gives the same
    benchmark.pedantic(accumulate, (a, b, c, order, 16), rounds=30, warmup_rounds=1)
    benchmark.extra_info["gflop_per_s"] = round(2 * m * k * n / benchmark.stats.stats.min / 1e9, 1)
