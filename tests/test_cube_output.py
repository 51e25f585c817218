"""What people see of kernels with Cube cores: reports, sentences, expectations, logs, traces, run folders."""

import json
from collections import Counter, defaultdict
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from conftest import ROOT
from test_report import _assert_equal
from test_trace import ROUNDINGS, TIMES, _doc, _import_like_perfetto, _lane, _of, _row, _slices

import ascendsim as asc
from ascendsim import analysis, report, runfolder, trace, words
from ascendsim.dtypes import FLOAT, HALF
from ascendsim.engine.base import Wait
from ascendsim.errors import InputError
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.load import LoadData2DParams, LoadData2dTransposeParams, LoadData3DParamsV2
from ascendsim.isa.log import log_row, size_text
from ascendsim.isa.mmad import MmadParams
from ascendsim.isa.nd2nz import Nd2NzParams
from ascendsim.machine import schedule
from ascendsim.memory import LocalTensor, place_in_gm
from ascendsim.program import from_arrays, to_arrays
from ascendsim.record import record
from ascendsim.terms import Buffer, CO2Layout, CoreKind, KernelType, Pipe, QuantMode, TPosition

SCENARIO = ROOT / "scenarios/matmul_plus_one.toml"
CUBE_ONLY = {"kernel": "matmul_plus_one.py:product", "kernel_type": "AIC_ONLY"}
MEMORIES = {
    "L1": {"peak_bytes": 65536, "capacity_bytes": 524288, "free_bytes": 458752},
    "L0A": {"peak_bytes": 32768, "capacity_bytes": 65536, "free_bytes": 32768},
    "L0B": {"peak_bytes": 32768, "capacity_bytes": 65536, "free_bytes": 32768},
    "L0C": {"peak_bytes": 65536, "capacity_bytes": 131072, "free_bytes": 65536},
}
CUBE_PIPES = ("M", "MTE1", "MTE2", "FIX")


@pytest.fixture(scope="module")
def mixed():
    return asc.run(SCENARIO, despite_findings=True)


@pytest.fixture(scope="module")
def cube():
    return asc.run(SCENARIO, set=CUBE_ONLY)


# ---- numbers and reports ----------------------------------------------------------------------------------------


def test_the_values_are_those_of_the_product(mixed, cube):
    a, b = (cube_input.astype(np.float64) for cube_input in _inputs())
    assert np.abs(cube.outputs["c"] - a @ b).max() < 1e-4
    assert np.abs(mixed.outputs["c"] - (a @ b + 1)).max() < 1e-4


def _inputs():
    shapes = {1: (256, 128), 2: (128, 128)}
    return [np.random.RandomState(seed).standard_normal(shape).astype(np.float16) for seed, shape in shapes.items()]


def test_every_memory_has_its_peak_its_capacity_and_what_is_free(mixed, cube):
    ub = {"UB": {"peak_bytes": 65536, "capacity_bytes": 196608, "free_bytes": 131072}}
    assert cube.summary()["memories"] == MEMORIES
    assert mixed.summary()["memories"] == ub | MEMORIES
    assert cube.peak_bytes == {name: use["peak_bytes"] for name, use in MEMORIES.items()}
    assert (cube.summary()["kernel_type"], mixed.summary()["kernel_type"]) == ("AIC_ONLY", "MIX_AIC_1_2")


def test_a_run_on_vector_cores_says_what_it_said():
    result = asc.run(ROOT / "scenarios/vector_add.toml")
    assert not {"memories", "kernel_type"} & result.summary().keys()
    assert [use.buffer for use in result.memories] == [Buffer.UB]
    assert result.memory_title == "UB over time"


def test_the_head_of_a_report(mixed, cube):
    line = "Ascend910B1, 2 of 24 AI Cores, each 1 AIC and 2 AIVs"
    assert dict(report.headline(mixed))["device"] == line
    head = dict(report.headline(cube))
    assert head["device"] == "Ascend910B1, 2 of 24 AICs"
    assert head["peak L1"] == "65536 B of 524288 B, 458752 B free"
    assert head["peak L0C"] == "65536 B of 131072 B, 65536 B free"
    assert "peak UB" not in head
    assert dict(report.headline(mixed))["peak UB"] == "65536 B (safe to 188160, visible to 196352)"
    assert "![on-chip memory over time](memory.png)" in report.markdown(cube)


def test_pipes_are_told_apart_by_the_kind_of_their_cores(mixed, cube):
    assert [cells[0] for cells in report.pipe_cells(cube)] == list(CUBE_PIPES)
    lanes = [cells[0] for cells in report.pipe_cells(mixed)]
    assert lanes == [*(f"AIC {pipe}" for pipe in CUBE_PIPES), "AIV S", "AIV V", "AIV MTE2", "AIV MTE3"]
    assert list(mixed.summary()["pipes"]) == lanes
    t = mixed.timeline
    for kind, cores in (("AIC", (0, 3)), ("AIV", (1, 2, 4, 5))):
        busy = sum(_busy(t, core, Pipe.MTE2) for core in cores)
        assert mixed.summary()["pipes"][f"{kind} MTE2"]["busy_cycles"] == busy


def _busy(t, core, pipe):
    start, end = _spans(t, core, pipe)
    return int((end - start).sum())


def _spans(t, core, pipe):
    here = (t["core"] == core) & (t["pipe"] == pipe) & np.isin(t["kind"], analysis.WORK)
    return analysis.union_intervals(t["start"][here], t["end"][here])


def test_the_bottleneck_is_the_busiest_pipe_of_a_core(mixed):
    """AIVs are twice as many: their MTE3 has the more cycles in all once it is 0.6 times as busy on each."""
    t = mixed.timeline
    busy = {
        (kind, pipe): sum(_busy(t, core, pipe) for core in cores) / len(cores)
        for kind, cores in (("AIC", (0, 3)), ("AIV", (1, 2, 4, 5)))
        for pipe in Pipe
        if pipe is not Pipe.S
    }
    kind, pipe = max(busy, key=lambda lane: busy[lane])
    assert mixed.bottleneck == f"{kind} {pipe.name}" == "AIC MTE2"


def test_overlap_counts_cores_that_have_both_pipes(mixed):
    found = {(o.first, o.second): o for o in mixed.overlaps}
    assert (Pipe.V, Pipe.M) not in found
    assert (Pipe.M, Pipe.MTE3) not in found
    assert (Pipe.V, Pipe.MTE2) in found
    t, cores = mixed.timeline, (0, 3)
    shared = 0
    for core in cores:
        cycles = np.zeros((2, mixed.makespan_cycles), np.bool_)
        for i, pipe in enumerate((Pipe.MTE1, Pipe.MTE2)):
            for start, end in zip(*_spans(t, core, pipe), strict=True):
                cycles[i, start:end] = True
        shared += int(cycles.all(axis=0).sum())
    smaller = min(sum(_busy(t, core, pipe) for core in cores) for pipe in (Pipe.MTE1, Pipe.MTE2))
    overlap = found[Pipe.MTE1, Pipe.MTE2]
    assert shared > 0
    assert (overlap.shared_cycles, overlap.share) == (shared, shared / smaller)


def test_use_over_time_is_that_of_the_cores_that_have_the_pipe(mixed):
    t, per = mixed.timeline, mixed.program.block_cores
    cuts, shares = analysis.utilisation(t, per)
    for pipe, cores in ((Pipe.M, 2), (Pipe.V, 4), (Pipe.MTE2, 6)):
        assert analysis.cores_with(t, pipe, per) == cores
        total = sum(_busy(t, core, pipe) for core in range(6))
        assert float((shares[pipe] * np.diff(cuts)).sum()) == pytest.approx(total / cores)


def test_why_says_what_was_waited_for_on_which_core(mixed, cube):
    lines = words.why(mixed, (), most=3)
    waited = next(c for c in mixed.causes if c.wait is Wait.CROSS_CORE)
    assert waited.kind is CoreKind.AIV
    share = f"{waited.cycles / (4 * mixed.makespan_cycles):.1%}"
    sentence = f"AIV S waited {waited.cycles} cycles ({share} of its time, 4 times) for the cross-core flag 0 of mode 2"
    assert f"{sentence} [matmul_plus_one.py:14]." in lines
    assert waited in mixed.top_causes
    for kind, cores in (("AIC", (0, 3)), ("AIV", (1, 2, 4, 5))):
        busy = sum(_busy(mixed.timeline, core, Pipe.MTE2) for core in cores) / (len(cores) * mixed.makespan_cycles)
        begin, end = f"{kind} MTE2 was busy {busy:.0%}, ", f"on {len(cores)} cores."
        assert any(line.startswith(begin) and line.endswith(end) for line in lines)
    assert words.why(mixed, (Pipe.ALL,))[0] == "ALL has no work."
    single = words.why(cube, (Pipe.FIX, Pipe.M, Pipe.MTE1))
    for queue, turns in (
        ("co1", "multiplying and storing"),
        ("a2", "loading into L0 and multiplying"),
        ("a1", "loading into L1 and into L0"),
    ):
        assert any(f"{queue} has 1 buffer, so {turns} take turns; with 2 they can overlap." in s for s in single)


def test_peaks_can_be_expected():
    limits = {"expect.peak_bytes.L1.max": 65535, "expect.peak_bytes.L0C.min": 65536, "expect.peak_bytes.UB.max": 0}
    judged = asc.run(SCENARIO, set=CUBE_ONLY | limits).expectations
    got = [(e.what, e.wanted, e.got, e.met) for e in judged if e.what.startswith("peak")]
    assert got == [
        ("peak UB bytes", "<= 0", "0", True),
        ("peak L1 bytes", "<= 65535", "65536", False),
        ("peak L0C bytes", ">= 65536", "65536", True),
    ]
    with pytest.raises(InputError, match=r"expect\.peak_bytes\.L2\.max: unknown key"):
        asc.run(SCENARIO, set={"expect.peak_bytes.L2.max": 1})


# ---- lives --------------------------------------------------------------------------------------------------------


def _tiles(core, a, b, c):
    """Two products of 16 x 16 x 16 through queues of one buffer."""
    pipe = core.t_pipe()
    names = ("A1", "B1", "A2", "B2", "CO1")
    ques = {name: core.t_que(TPosition[name], 1, name.lower()) for name in names}
    for que in ques.values():
        pipe.init_buffer(que, 1, 1024)
    for _ in range(2):
        for source, near, far in ((a, "A1", "A2"), (b, "B1", "B2")):
            staged = ques[near].alloc_tensor("half")
            core.data_copy(staged, source, Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0))
            ques[near].enque(staged)
            staged, loaded = ques[near].deque("half"), ques[far].alloc_tensor("half")
            core.load_data(loaded, staged, LoadData2DParams(0, 1, 1))
            ques[far].enque(loaded)
            ques[near].free_tensor(staged)
        left, right, product = ques["A2"].deque("half"), ques["B2"].deque("half"), ques["CO1"].alloc_tensor("float")
        core.mmad(product, left, right, MmadParams(16, 16, 16))
        ques["CO1"].enque(product)
        ques["A2"].free_tensor(left)
        ques["B2"].free_tensor(right)
        product = ques["CO1"].deque("float")
        core.fixpipe(c, product, FixpipeParamsV220(16, 16, 16, 16))
        ques["CO1"].free_tensor(product)


def test_a_buffer_of_every_position_has_a_life_for_each_turn(device):
    gm = place_in_gm([("a", HALF, (16, 16)), ("b", HALF, (16, 16)), ("c", FLOAT, (16, 16))])
    program = record(_tiles, device, 1, gm, (), None, KernelType.AIC_ONLY).program
    found = analysis.lives(program, schedule(program, device), 0)
    assert Counter((life.name, life.buffer) for life in found) == {
        ("a1", Buffer.L1): 2,
        ("b1", Buffer.L1): 2,
        ("a2", Buffer.L0A): 2,
        ("b2", Buffer.L0B): 2,
        ("co1", Buffer.L0C): 2,
    }
    for first, second in (sorted((x for x in found if x.name == n), key=lambda x: x.start) for n in ("a1", "co1")):
        assert first.end <= second.start
    peaks = analysis.peak_bytes(program)
    assert peaks == {Buffer.L1: 2048, Buffer.L0A: 1024, Buffer.L0B: 1024, Buffer.L0C: 1024}


def _both_ways(core, c):
    """Two rounds of an AIC and its AIVs waiting for each other, then all cores."""
    vector = [LocalTensor("v", TPosition.VECCALC, FLOAT, 0, 256)]
    for _ in range(2):
        if core.is_aic:
            core.cross_core_set_flag(2, Pipe.FIX, 0)
            core.cross_core_wait_flag(2, Pipe.M, 1)
        else:
            core.cross_core_wait_flag(2, Pipe.V, 0)
            if core.get_sub_block_idx() == 1:
                core.duplicate(vector[0], 1.0, 64)
            core.cross_core_set_flag(2, Pipe.V, 1)
    core.sync_all(is_aiv_only=False)


def test_a_wait_for_other_cores_is_paired_with_the_set_that_released_it(device):
    gm = place_in_gm([("c", FLOAT, (16, 16))])
    program = record(_both_ways, device, 2, gm, (), None, KernelType.MIX_AIC_1_2).program
    t = schedule(program, device)
    pairs = analysis.flag_pairs(analysis.Rows(program, t))
    held = np.flatnonzero(t["waited_for"] == Wait.CROSS_CORE).tolist()
    assert len(held) >= 6
    assert {wait: pairs[wait] for wait in held} == {wait: int(t["released_by"][wait]) for wait in held}
    waits = [i for i in range(len(t)) if analysis.Rows(program, t).row(i).op.name == "cross_core_wait_flag"]
    assert set(pairs) == set(waits)
    assert len(waits) == 6 * 3
    mine = analysis.flag_pairs(analysis.Rows(program, t), 1)
    assert mine == {wait: by for wait, by in pairs.items() if t["core"][wait] == 1}
    assert analysis.double_sets(program, t) == ()
    names = {cause.name for cause in analysis.causes(program, t) if cause.wait is Wait.CROSS_CORE}
    assert {"flag 0 of mode 2", "flag 1 of mode 2"} <= names <= {
        "flag 0 of mode 2", "flag 1 of mode 2", "flag 13 of SyncAll",
    }  # fmt: skip


# ---- logs ---------------------------------------------------------------------------------------------------------


def _logged(device, kernel, kind=KernelType.AIC_ONLY):
    gm = place_in_gm([("x", HALF, (64, 64)), ("y", HALF, (64, 64))])
    recording = record(kernel, device, 1, gm, (), None, kind)
    (template,) = recording.program.templates
    return recording.program, [
        (log_row(row, i, 0, template.tensors), size_text(row)) for i, row in enumerate(template.rows)
    ]


def _local(position, dtype, name, length=32768, at=0):
    return LocalTensor(name, TPosition[position], dtype, at, length)


def _every_cube_instruction(core, x, y):
    a1, b1 = _local("A1", HALF, "a1"), _local("B1", HALF, "b1", at=32768)
    a2, b2 = _local("A2", HALF, "a2"), _local("B2", HALF, "b2")
    co1, bias = _local("CO1", FLOAT, "co1"), _local("C2", FLOAT, "bias", 256)
    core.data_copy(a1, x, Nd2NzParams(2, 16, 32, 2048, 64, 16, 1, 512))
    core.load_data(a2, a1, LoadData2DParams(0, 4, 1, 0, 0, False, 0))
    core.load_data(b2, b1, LoadData2DParams(1, 1, 1, 0, 0, True, 0))
    core.load_data_with_transpose(b2, b1, LoadData2dTransposeParams(0, 2, 1, 0, 0, 0))
    core.load_data(a2, a1, LoadData3DParamsV2(1, 32, 32, k_extension=32, m_extension=16))
    core.mmad(co1, a2, b2, MmadParams(32, 16, 48, cmatrix_source=True, cmatrix_init_val=False), bias[8])
    core.fixpipe(y, co1, FixpipeParamsV220(16, 32, 32, 64, QuantMode.F322F16, relu_en=True), CO2Layout.ROW_MAJOR)


def test_logs_and_sizes_of_the_cube_s_instructions(device):
    _, rows = _logged(device, _every_cube_instruction)
    assert [(row["instr"], row["pipe"], row["dtype"], size) for row, size in rows] == [
        ("copy_gm_to_cbuf_multi_nd2nz", "MTE2", "f16", "2 of 16×32"),
        ("load_cbuf_to_ca", "MTE1", "f16", "4 fractals"),
        ("load_cbuf_to_cb", "MTE1", "f16", "1 fractal"),
        ("load_cbuf_to_cb_transpose", "MTE1", "f16", "2 squares"),
        ("img2colv2_cbuf_to_ca", "MTE1", "f16", "16×32"),
        ("mmad", "M", "f32<-f16", "32×16×48"),
        ("fix_matrix_cc_to_gm", "FIX", "f16<-f32", "32×16"),
    ]
    notes = [row["note"] for row, _ in rows]
    assert notes[0] == (
        "nd_num=2;n_value=16;d_value=32;src_nd_matrix_stride=2048;src_d_value=64;dst_nz_c0_stride=16;dst_nz_n_stride=1;"
        "dst_nz_matrix_stride=512"
    )
    assert notes[2] == "start_index=1;repeat_times=1;src_stride=1;sid=0;dst_gap=0;if_transpose=1;addr_mode=0"
    assert notes[3] == "start_index=0;repeat_times=2;src_stride=1;dst_gap=0;dst_frac_gap=0;addr_mode=0"
    assert notes[4].startswith("l1_h=1;l1_w=32;channel_size=32;k_extension=32;m_extension=16;k_start_pt=0;")
    assert notes[5] == "m=32;n=16;k=48;unit_flag=0;k_direction_align=0;src2=bias+32"
    assert notes[6] == (
        "n_size=16;m_size=32;src_stride=32;dst_stride=64;quant_pre=F322F16;deq_scalar_bits=0x00000000;nd_num=1;"
        "src_nd_stride=0;dst_nd_stride=0;relu_en=1;unit_flag=0;is_channel_split=0;layout=ROW_MAJOR"
    )
    assert (rows[5][0]["dst_tensor"], rows[5][0]["src0_tensor"], rows[5][0]["src1_tensor"]) == ("co1", "a2", "b2")


def test_logs_of_flags_between_cores(mixed, device):
    notes = {r["note"] for core in (0, 1) for r in mixed.program.instruction_log(core) if "cross" in r["instr"]}
    assert notes == {"mode=2;id=0"}
    kernel = lambda core, x, y: core.sync_all(is_aiv_only=False)  # noqa: E731
    program = record(kernel, device, 1, (), (None, None), None, KernelType.MIX_AIC_1_2).program
    log = program.instruction_log(0)
    assert [(r["ascendc_api"], r["pipe"], r["note"]) for r in log if r["note"].startswith("mode")] == [
        ("CrossCoreSetFlag", "FIX", "mode=all;id=13"),
        ("CrossCoreWaitFlag", "S", "mode=all;id=13"),
    ]


# ---- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mixed", "cube"])
def test_a_run_comes_back_as_it_was(name, request, tmp_path):
    result = request.getfixturevalue(name)
    runfolder.write_run(result, tmp_path / "run")
    loaded = runfolder.load_run(tmp_path / "run")
    _assert_equal(result, loaded)
    assert loaded.program.kernel_type is result.program.kernel_type
    assert trace.trace_json(loaded) == trace.trace_json(result)
    assert [t.rows for t in loaded.program.templates] == [t.rows for t in result.program.templates]
    assert json.loads((tmp_path / "run/run.json").read_text())["summary"] == result.summary()


def test_the_scenario_of_a_run_folder_runs_again(cube, tmp_path):
    runfolder.write_run(cube, tmp_path / "run")
    again = asc.run(tmp_path / "run/scenario.toml")
    assert again.digest == cube.digest
    assert again.program.kernel_type is KernelType.AIC_ONLY


def test_a_program_with_a_third_source_and_many_parameters_comes_back(device):
    """The file has its memories in another order than the program: the digest must not depend on that."""
    program, _ = _logged(device, _every_cube_instruction)
    again = from_arrays(to_arrays(program))
    assert list(again.high_water_bytes) != list(program.high_water_bytes)
    assert again.digest == program.digest
    assert [t.rows for t in again.templates] == [t.rows for t in program.templates]
    assert any(row.src2 is not None for row in again.templates[0].rows)
    assert max(len(row.params) for row in again.templates[0].rows) > 8
    assert again.high_water_bytes == program.high_water_bytes


# ---- traces -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def docs(mixed):
    return {time: _doc(mixed, time)["traceEvents"] for time in TIMES}


@pytest.fixture(params=TIMES)
def events(docs, request):
    return docs[request.param]


def test_cores_are_named_as_msopprof_does(events, cube):
    order = {e["pid"]: e["args"]["sort_index"] for e in _of(events, "M") if e["name"] == "process_sort_index"}
    assert {pid: index for pid, index in order.items() if " " not in pid} == {
        "core0.cubecore0": 1,
        "core0.veccore0": 2,
        "core0.veccore1": 3,
        "core1.cubecore0": 4,
        "core1.veccore0": 5,
        "core1.veccore1": 6,
    }
    names = defaultdict(list)
    for e in _of(events, "M"):
        if e["name"] == "thread_name":
            names[e["pid"]].append(e["args"]["name"])
    assert names["core1.cubecore0"] == ["MTE1", "CUBE", "FIXP", "MTE2"]
    assert names["core1.veccore1"] == ["SCALAR", "MTE2", "VECTOR", "MTE3"]
    alone = {e["pid"] for e in _doc(cube)["traceEvents"] if e["ph"] == "X"}
    assert alone == {"core0.cubecore0", "core1.cubecore0"}


def test_instructions_of_the_cube_have_the_names_of_traces(events):
    first = {_row(e) for e in _of(events, "X") if e["pid"] == "core0.cubecore0"}
    names = {e["name"] for e in _of(events, "X") if _row(e) in first}
    assert names == {"MOV_OUT_TO_L1_MULTI_ND2NZ", "LOAD_2D", "MMAD", "FIX_L0C_TO_OUT", "CROSS_CORE_SET_FLAG"}
    (mmad,) = (e for e in _of(events, "X") if e["name"] == "MMAD" and e["pid"] == "core0.cubecore0")
    assert mmad["tid"] == "CUBE"
    assert mmad["args"]["detail"] == (
        "DST:0x0(co1),SRC0:0x0(a2),SRC1:0x0(b2),M:128,N:128,K:128,UNIT_FLAG:0,K_DIRECTION_ALIGN:0,IS_NZ:0,"
        "DTYPE:f32<-f16"
    )
    (stored,) = (e for e in _of(events, "X") if e["name"] == "FIX_L0C_TO_OUT" and e["pid"] == "core0.cubecore0")
    assert stored["args"]["process_bytes"] == 128 * 128 * 4


def test_arrows_of_flags_between_cores_stand_inside_their_slices(events):
    slices = {(e["name"], _lane(e)): (start, end) for e, start, end in _slices(events) if "CROSS" in e["name"]}
    details = {e["args"]["detail"] for e in _of(events, "X") if "CROSS" in e["name"]}
    assert details == {"PIPE:FIXP,MODE:2,FLAGID:0,", "PIPE:SCALAR,MODE:2,FLAGID:0,"}
    starts = {e["id"]: e for e in _of(events, "s") if e["cat"] == "FIXPToSCALAR"}
    steps = {e["id"]: e for e in _of(events, "t") if e["cat"] == "FIXPToSCALAR"}
    assert starts.keys() == steps.keys()
    assert sorted((starts[n]["pid"], steps[n]["pid"]) for n in starts) == [
        (f"core{core}.cubecore0", f"core{core}.veccore{vector}") for core in (0, 1) for vector in (0, 1)
    ]
    for number, s in starts.items():
        t = steps[number]
        begin, end = slices["CROSS_CORE_SET_FLAG", _lane(s)]
        assert begin == s["ts"] < end
        begin, end = slices["CROSS_CORE_WAIT_FLAG", _lane(t)]
        assert begin <= t["ts"]
        assert Decimal("0.001") <= end - t["ts"] < Decimal("0.002")
        assert s["ts"] < t["ts"]
    others = {e["id"] for e in _of(events, "B")}
    assert not others & starts.keys()


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_perfetto_opens_and_closes_every_slice(events, rounding):
    _import_like_perfetto(events, rounding)


def test_throughput_adds_up_to_all_bytes(events, mixed):
    moved = mixed.summary()["bytes_moved"]
    want = {"GM_TO_L1": moved["a read"] + moved["b read"], "GM_TO_UB": moved["c read"], "UB_TO_GM": 131072}
    want |= {"GM_TO_TOTAL": want["GM_TO_L1"] + want["GM_TO_UB"], "TOTAL_TO_GM": moved["c written"], "L1_TO_GM": 0}
    total = Counter()
    for e in _of(events, "C"):
        if e["pid"] == "MTE Throughput":
            total[e["name"]] += e["args"]["throughput(MB/s)"] * 2**20 / 10**6
    assert {name: float(total[name]) for name in want} == want


def test_each_memory_has_a_counter_of_its_use(events, mixed):
    pids = {e["pid"] for e in _of(events, "C") if not e["pid"].endswith(" queues")} - {"MTE Throughput", "Links"}
    cube = {f"core{core}.cubecore0 {memory}" for core in (0, 1) for memory in ("L1", "L0A", "L0B", "L0C")}
    assert pids == cube | {f"core{core}.veccore{vector} UB" for core in (0, 1) for vector in (0, 1)}
    found = [life for life in analysis.lives(mixed.program, mixed.timeline, 0) if life.buffer is Buffer.L1]
    used = analysis.occupancy(found)[1].tolist()
    shown = [e["args"]["used"] for e in _of(events, "C") if e["pid"] == "core0.cubecore0 L1"]
    assert shown == [now for before, now in pairwise([0, *used]) if now != before]
    assert {e["name"] for e in _of(events, "C") if e["pid"] == "core0.cubecore0 L1"} == {"L1 bytes"}
