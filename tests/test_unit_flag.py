"""The unit flag of recorded kernels in time: who waits how long for whom, in engines, reports, trace and pictures."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascendsim as asc_public
from ascendsim.checks import check_program
from ascendsim.device import load_device
from ascendsim.dtypes import dtype
from ascendsim.engine.base import Wait
from ascendsim.errors import Deadlock, Rejected
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.mmad import MmadParams
from ascendsim.isa.unit_flag import units_of
from ascendsim.machine import schedule
from ascendsim.memory import LocalTensor, place_in_gm
from ascendsim.plot import lanes
from ascendsim.record import record
from ascendsim.terms import CO2Layout, HardEvent, KernelType, Pipe, TPosition
from ascendsim.trace import trace_json
from ascendsim.words import cause_sentence

DEVICE = load_device("Ascend910B1")
HALF, FLOAT = dtype("half"), dtype("float")
A = LocalTensor("a", TPosition.A2, HALF, 0, 0x10000)
B = LocalTensor("b", TPosition.B2, HALF, 0, 0x10000)
C = LocalTensor("c", TPosition.CO1, FLOAT, 0, 0x20000)
GM = place_in_gm([("y", FLOAT, (1 << 15,))])
STEP = MmadParams(128, 256, 64)
"""2 cycles and 512 steps, and 21 on an idle pipe, 12 where it adds behind another; 128 fractals, so 5 cycles each."""
FETCH = FixpipeParamsV220(256, 128, 128, 256, unit_flag=3)
"""131072 B at 116 B a cycle: 1130 cycles, 9 for each fractal."""


def recorded(kernel):
    return record(kernel, DEVICE, 1, GM, (), None, KernelType.AIC_ONLY)


def timeline(kernel):
    return schedule(recorded(kernel).program, DEVICE, "both")


def tiles(count, *, flags=True):
    """Tiles of four Mmads and a Fixpipe, ordered by unit flags, or by flags of the kernel."""

    def kernel(asc, y):
        for _ in range(count):
            for k in range(4):
                flag = 0 if not flags else 3 if k == 3 else 2
                asc.mmad(C, A, B, replace(STEP, unit_flag=flag, cmatrix_init_val=k == 0))
            if not flags:
                ordered(asc, HardEvent.M_FIX)
            asc.fixpipe(y, C, replace(FETCH, unit_flag=3 if flags else 0))
            if not flags:
                ordered(asc, HardEvent.FIX_M)

    return kernel


def ordered(asc, event):
    asc.set_flag(event, 0)
    asc.wait_flag(event, 0)


def rows(t, pipe):
    """(start, end, cause, cycles, releaser) of a pipe's rows."""
    names = ("start", "end", "waited_for", "wait_cycles", "released_by")
    columns = [t[name][t["pipe"] == pipe].tolist() for name in names]
    return list(zip(*columns, strict=True))


def test_fixpipe_follows_the_last_mmad_and_the_next_mmad_follows_fixpipe():
    t = timeline(tiles(2))
    m, fix = rows(t, Pipe.M), rows(t, Pipe.FIX)
    assert m[3][:2] == (1 + 21 + 514 + 2 * 526, 1588 + 12 + 514)
    assert fix[0] == (1588 + 12 + 5, 1605 + 1130, Wait.UNIT_FLAG, 1605 - 5, 3)
    assert m[4] == (2735 - 514 + 5, 2226 + 21 + 514, Wait.UNIT_FLAG, 2226 - 2114, 4)
    assert fix[1][0] == m[7][0] + 12 + 5
    assert t.makespan_cycles == fix[1][1] == 2761 + 2 * 526 + 17 + 1130


def test_flags_of_the_kernel_instead_let_nothing_overlap():
    """A flag takes a cycle to set and one to wait for."""
    assert timeline(tiles(2, flags=False)).makespan_cycles == 1 + 2 * (21 + 4 * 514 + 3 * 12 + 2 + 1130 + 2)


def test_a_fixpipe_quicker_than_its_mmad_ends_a_step_behind_it():
    def kernel(asc, y):
        asc.mmad(C, A, B, MmadParams(128, 128, 256, unit_flag=3))
        asc.fixpipe(y, C, FixpipeParamsV220(128, 128, 128, 128, unit_flag=3))

    t = timeline(kernel)
    assert rows(t, Pipe.M)[0][:2] == (1, 1 + 21 + 2 + 1024)
    assert rows(t, Pipe.FIX)[0] == (1048 + 9 - 565, 1048 + 9, Wait.UNIT_FLAG, 492 - 2, 0)


def test_two_tiles_in_l0c_keep_the_cube_busy():
    halves = C, C[0x4000]

    def kernel(asc, y):
        for tile in range(4):
            for k in range(3):
                flag = 3 if k == 2 else 2
                asc.mmad(halves[tile % 2], A, B, MmadParams(128, 128, 128, unit_flag=flag, cmatrix_init_val=k == 0))
            asc.fixpipe(y, halves[tile % 2], FixpipeParamsV220(128, 128, 128, 128, unit_flag=3))

    t = timeline(kernel)
    m = rows(t, Pipe.M)
    assert all(cause is not Wait.UNIT_FLAG for _, _, cause, _, _ in m)
    assert m[-1][1] == 1 + 21 + 12 * (2 + 512) + 8 * 12


def test_several_fixpipes_of_one_tile_follow_one_another_and_the_next_mmad_the_last():
    def kernel(asc, y):
        asc.mmad(C, A, B, replace(STEP, unit_flag=3))
        for half in range(2):
            asc.fixpipe(y[half * 128], C[half * 0x4000], replace(FETCH, n_size=128))
        asc.mmad(C, A, B, replace(STEP, unit_flag=3))
        asc.fixpipe(y, C, FETCH)

    t = timeline(kernel)
    m, fix = rows(t, Pipe.M), rows(t, Pipe.FIX)
    assert fix[0][0] == 1 + 21 + 5
    assert fix[1][0] == fix[0][1] == 27 + 565
    assert m[1][2:] == (Wait.UNIT_FLAG, m[1][0] - 536, 2)
    assert m[1][0] == fix[1][1] + 5 - 514


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 70), st.integers(1, 4), st.sampled_from(CO2Layout), st.integers(0, 3))
def test_mmad_and_fixpipe_of_one_tile_name_the_same_units(m, blocks, layout, base):
    """Those of 512 B in which elements of the tile lie: 8 rows of 16 floats each."""
    n, fetch = 16 * blocks, FixpipeParamsV220(16 * blocks, m, -(-m // 16) * 16, 16 * blocks, unit_flag=3)

    def kernel(asc, y):
        asc.mmad(C[base * 256], A, B, MmadParams(m, n, 16, unit_flag=3))
        asc.fixpipe(y, C[base * 256], fetch, layout)

    template = recorded(kernel).program.templates[0]
    column = -(-m // 16) * 2
    expected = [2 * base + block * column + unit for block in range(blocks) for unit in range(-(-m // 8))]
    for row in template.rows:
        assert units_of(row, template.tensors).tolist() == expected


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((2, 3), "FIX waits for unit flags that no Mmad raises"),
        ((3, 0, 3, 3), "M waits for unit flags that no Fixpipe lowers"),
    ],
)
def test_flags_that_do_not_fit_are_found_and_end_in_a_deadlock(flags, words):
    """Mmad and Fixpipe in turns, with these flags."""

    def kernel(asc, y):
        for at, flag in enumerate(flags):
            if at % 2:
                ordered(asc, HardEvent.M_FIX)
                asc.fixpipe(y, C, replace(FETCH, unit_flag=flag))
            else:
                asc.mmad(C, A, B, replace(STEP, unit_flag=flag))

    program = recorded(kernel).program
    assert "E-UNITFLAG" in {f.code for f in check_program(program, DEVICE)}
    for engine in ("reference", "compiled"):
        with pytest.raises(Deadlock, match=words):
            schedule(program, DEVICE, engine)


SOURCE = """
from ascendsim.dtypes import dtype
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.mmad import MmadParams
from ascendsim.memory import LocalTensor
from ascendsim.terms import TPosition

A = LocalTensor("a", TPosition.A2, dtype("half"), 0, 0x8000)
B = LocalTensor("b", TPosition.B2, dtype("half"), 0, 0x8000)
C = LocalTensor("c", TPosition.CO1, dtype("float"), 0, 0x8000)


def kernel(asc, y, _):
    for _ in range(2):
        asc.mmad(C, A, B, MmadParams(64, 64, 64, unit_flag={mmad}))
        asc.fixpipe(y, C, FixpipeParamsV220(64, 64, 64, 64, unit_flag=3))
"""
SCENARIO = """
schema = 1
name = "unit_flags"
device = "Ascend910B1"
kernel = "kernel.py:kernel"
kernel_type = "AIC_ONLY"
block_dim = 1

[tensors.y]
role = "output"
shape = [4096]
dtype = "float"
"""


def ran(folder, mmad):
    (folder / "kernel.py").write_text(SOURCE.format(mmad=mmad))
    (folder / "case.toml").write_text(SCENARIO)
    return lambda: asc_public.run(folder / "case.toml", despite_findings=True)


def test_reports_the_trace_and_pictures_tell_what_waited_for_unit_flags(tmp_path):
    result = ran(tmp_path, 3)()
    causes = [c for c in result.causes if c.wait is Wait.UNIT_FLAG]
    assert {(c.pipe, c.name, c.count) for c in causes} == {(Pipe.FIX, "c", 1), (Pipe.M, "c", 1)}
    assert "for the unit flags of tensor c" in cause_sentence(result, causes[0])
    waited = result.timeline["waited_for"] == Wait.UNIT_FLAG
    stalls = [e["args"]["stall"] for e in json.loads(trace_json(result))["traceEvents"] if "stall" in e.get("args", ())]
    told = [stall["cycles"] for stall in stalls if (stall["reason"], stall["name"]) == ("unit flag", "c")]
    assert sorted(told) == sorted(result.timeline["wait_cycles"][waited].tolist())
    view = lanes.view_of(result, (0,), 0, None)
    holds = [hold for lane in lanes.core_lanes(view, 0, (Pipe.M, Pipe.FIX), 0).lanes for hold in lane.holds]
    ends = sorted(hold.end for hold in holds if hold.cause is Wait.UNIT_FLAG)
    assert ends == sorted(result.timeline["start"][waited].tolist())
    assert np.count_nonzero(waited) == 2


def test_a_run_despite_the_finding_ends_in_the_deadlock(tmp_path):
    run = ran(tmp_path, 2)
    with pytest.raises(Deadlock, match="FIX waits for unit flags that no Mmad raises"):
        run()
    with pytest.raises(Rejected, match="E-UNITFLAG"):
        asc_public.run(tmp_path / "case.toml")
