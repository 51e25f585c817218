"""What a timeline means, by small programs whose numbers are worked out here."""

from collections import Counter

import pytest
from conftest import ROOT
from small_programs import load, program, s, v

import ascendsim as asc
from ascendsim import analysis
from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT
from ascendsim.engine import reference
from ascendsim.machine import schedule
from ascendsim.memory import FRAMEWORK_TMP, LocalTensor
from ascendsim.record import record
from ascendsim.terms import Pipe, TPosition

DEVICE = load_device("Ascend910B1")
HALF_FRONT = ROOT / "scenarios/softmaxgrad_half_front.toml"


def _local(address, count=4096):
    return LocalTensor(f"t{address}", TPosition.VECCALC, FLOAT, address, 4 * count)


def _recorded(kernel):
    recorded = record(kernel, DEVICE, 1, (), ()).program
    return recorded, schedule(recorded, DEVICE)


def test_a_row_counts_for_its_step_until_the_next_one_starts():
    """The drain of the first Add (11) passes while the second works; the last row counts whole."""

    def kernel(core):
        for step in ("first", "second"):
            core.trace_start(step)
            core.add(_local(0x20000), _local(0), _local(0x10100), 4096)
            core.trace_stop(step)

    recorded, timeline = _recorded(kernel)
    work = timeline["pipe"] == Pipe.V
    assert (timeline["end"] - timeline["start"])[work].tolist() == [13 + 64 + 11, 64 + 11]
    assert analysis.step_cycles(recorded, timeline) == {"first": 13 + 64, "second": 64 + 11}


def test_the_scalar_unit_is_stalled_while_a_queue_is_full():
    """Depth 1, so S stands before V's queue from cycle 2 to 11, 12 to 21; what else it does takes 4 cycles."""
    t = reference.schedule(program((0, [v(10), v(10), v(10), v(10), s(0)]), depth=1))
    assert t["dispatched"].tolist() == [1, 2, 12, 22, 22]
    (use,) = (u for u in analysis.all_pipe_use(t) if u.pipe is Pipe.S)
    assert (use.busy_cycles, use.stalled_cycles, use.idle_cycles) == (4, 9 + 9, 41 - 4 - 18)


def test_a_full_queue_of_one_pipe_holds_what_another_pipe_waits_for():
    t = reference.schedule(program((0, [load(30), load(5), load(5), v(1)]), depth=1))
    s_time = analysis.scalar_time(t, 0, 1)
    assert (s_time.begun - s_time.stuck).tolist() == [0, 0, 29, 0]


def test_the_framework_temp_counts_as_far_as_it_is_touched():
    """Of 100,000 bytes from 0x1000 on, one Add reads 128 from byte 1024 on and another writes 256 from byte 512 on."""

    def kernel(core):
        temp = LocalTensor(FRAMEWORK_TMP, TPosition.VECCALC, FLOAT, 0x1000, 100_000)
        core.add(_local(512, 64), _local(0, 64), temp[256], 32)
        core.add(temp[128], _local(0, 64), _local(256, 64), 64)

    recorded, timeline = _recorded(kernel)
    assert recorded.ub_high_water_bytes == 768
    assert analysis.peak_ub_bytes(recorded) == 0x1000 + 1024 + 128
    lives = analysis.lives(recorded, timeline, 0)
    assert {life.name: life.allocation_bytes for life in lives} == {"t0": 256, "t256": 256, "t512": 256,
                                                                    FRAMEWORK_TMP: 1024 + 128}  # fmt: skip
    assert int(analysis.occupancy(lives)[1].max()) == 3 * 256 + 1024 + 128


def test_buffers_count_whole():
    recorded, timeline = _recorded(lambda core: core.duplicate(_local(0x1000, 4096), 1.0, 8))
    assert analysis.peak_ub_bytes(recorded) == recorded.ub_high_water_bytes == 0x1000 + 16384
    (life,) = analysis.lives(recorded, timeline, 0)
    assert life.allocation_bytes == 16384


@pytest.mark.parametrize("core", [0, 5])
def test_the_shipped_scenario_with_a_framework_temp(core):
    """Two buffers of 4096 B each for both inputs, 256 B for the output; the rest of UB is the temp."""
    result = asc.run(HALF_FRONT)
    assert result.program.ub_high_water_bytes == 4 * 4096 + 256
    assert result.peak_bytes == {"UB": 42240}
    lives = analysis.lives(result.program, result.timeline, core)
    assert max(life.address_bytes + life.allocation_bytes for life in lives) == 42240
    assert int(analysis.occupancy(lives)[1].max()) == 37888
    temp = [life.allocation_bytes for life in lives if life.name == FRAMEWORK_TMP]
    assert max(temp) == 42240 - (4 * 4096 + 256)
    assert len(temp) == 2, "one life for each of the core's two tiles"


def test_a_queue_buffer_has_a_life_for_each_turn():
    """Four tiles a core, two buffers a queue."""
    result = asc.run(ROOT / "scenarios/vector_add.toml")
    names = Counter(life.name for life in analysis.lives(result.program, result.timeline, 0))
    assert names == {f"{que}[{buffer}]": 2 for que in ("in_x", "in_y", "out_z") for buffer in (0, 1)}


def test_runs_with_other_timelines_have_other_digests():
    file = ROOT / "scenarios/vector_add.toml"
    runs = {mode: asc.run(file, set={"machine.l2": mode}) for mode in ("model", "hit", "miss")}
    assert {mode: run.makespan_cycles for mode, run in runs.items()} == {"model": 1761, "hit": 1314, "miss": 1761}
    assert len({run.digest for run in runs.values()}) == 3
    assert runs["model"].digest == asc.run(file).digest
