"""Tables and memory map beside the trace: columns against msopprof's, and figures against rows counted one by one."""

import csv
import io
import json
from collections import defaultdict

import numpy as np
import pytest
from conftest import ROOT

import ascendsim as asc
from ascendsim import runfolder
from ascendsim.trace import core_name, memory_info, tables

SIMULATOR_TABLES = {
    "instr_exe": ["instr", "addr", "pipe", "call_count", "cycles", "running_time(us)", "detail"],
    "code_exe": ["code", "call_count", "cycles", "running_time(us)"],
}
"""Source: msopprof docs, performance data of the simulator, tables 1 and 2."""
PIPE_FIELDS = {
    "aic": ("cube", "scalar", "mte1", "mte2", "mte3", "fixpipe"),
    "aiv": ("vec", "scalar", "mte2", "mte3"),
}
BANDWIDTHS = ("aic_mte1", "aic_mte2", "aic_mte3", "aic_fixpipe", "aiv_mte2", "aiv_mte3")
"""Source: msopprof docs, PipeUtilization."""


@pytest.fixture(scope="module")
def mixed():
    return asc.run(ROOT / "scenarios/matmul_plus_one.toml", set={"machine.values": "none"})


@pytest.fixture(scope="module")
def vector():
    return asc.run("scaled_softmax_grad", set={"machine.values": "none"})


@pytest.fixture(params=["mixed", "vector"])
def result(request):
    return request.getfixturevalue(request.param)


def _rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_files_lie_as_msopprof_lays_them(mixed):
    cores = [f"core{block}.{kind}" for block in (0, 1) for kind in ("cubecore0", "veccore0", "veccore1")]
    want = [f"simulator/{core}/{core}_{kind}_exe.csv" for core in cores for kind in ("instr", "code")]
    assert list(tables(mixed)) == ["PipeUtilization.csv", *want]


def test_columns_are_msopprof_s(result):
    files = tables(result)
    for name, text in files.items():
        for kind, columns in SIMULATOR_TABLES.items():
            if name.endswith(f"{kind}.csv"):
                assert text.splitlines()[0] == ",".join(columns)
    columns = set(files["PipeUtilization.csv"].splitlines()[0].split(","))
    want = {"block_id", "sub_block_id"}
    for kind, pipes in PIPE_FIELDS.items():
        want |= {f"{kind}_time(us)", f"{kind}_total_cycles", f"{kind}_icache_miss_rate"}
        want |= {f"{kind}_{pipe}_{what}" for pipe in pipes for what in ("time(us)", "ratio")}
    assert columns == want | {f"{pipe}_active_bw(GB/s)" for pipe in BANDWIDTHS}


def _counted(result, core, key):
    """Executions, cycles and marks of cycles at work of each key of a core's rows."""
    t, found = result.timeline, defaultdict(lambda: [0, 0, np.zeros(result.makespan_cycles + 1, bool)])
    for n in np.flatnonzero(t["core"] == core).tolist():
        one = found[key(n)]
        one[0] += 1
        one[1] += int(t["end"][n] - t["start"][n])
        one[2][t["start"][n] : t["end"][n]] = True
    return {k: (str(a), str(b), f"{int(m.sum()) / result.device.clock_mhz:.2f}") for k, (a, b, m) in found.items()}


@pytest.mark.parametrize("core", [0, 1])
def test_lines_and_instructions_are_those_of_the_rows(result, core):
    t, program = result.timeline, result.program
    name = core_name(result, core)
    starts = np.cumsum([0, *(len(template) for template in program.templates)])

    def address(n):
        return str(starts[program.calls["template"][t["call"][n]]] + t["row"][n])

    def line(n):
        template = program.templates[program.calls["template"][t["call"][n]]]
        return program.lines[template.rows[t["row"][n]].line]

    files = tables(result)
    for kind, column, key in (("instr", "addr", address), ("code", "code", line)):
        rows = _rows(files[f"simulator/{name}/{name}_{kind}_exe.csv"])
        shown = {row[column]: (row["call_count"], row["cycles"], row["running_time(us)"]) for row in rows}
        assert len(shown) == len(rows)
        assert shown == _counted(result, core, key)
        cycles = [int(row["cycles"]) for row in rows]
        assert cycles == sorted(cycles, reverse=True)


def test_an_instruction_s_line_is_exact(vector):
    (name, text) = next(item for item in tables(vector).items() if item[0].endswith("veccore0_instr_exe.csv"))
    assert name == "simulator/core0.veccore0/core0.veccore0_instr_exe.csv"
    copies = [line for line in text.splitlines() if line.startswith("VCOPY,")]
    (row,) = _rows("instr,addr,pipe,call_count,cycles,running_time(us),detail\n" + copies[0])
    assert (row["pipe"], row["call_count"], row["cycles"]) == ("VEC", "1", "271")
    assert copies[0].endswith('"')
    assert row["detail"].startswith("DST:0x")


def test_pipe_utilization_is_that_of_the_pipes(mixed):
    rows = _rows(tables(mixed)["PipeUtilization.csv"])
    assert [(row["block_id"], row["sub_block_id"]) for row in rows] == [
        (str(block), part) for block in (0, 1) for part in ("cube0", "vector0", "vector1")
    ]
    t, mhz = mixed.timeline, mixed.device.clock_mhz
    cube, vector = rows[0], rows[1]
    for row, core, kind, pipe, number in ((cube, 0, "aic", "mte2", 4), (vector, 1, "aiv", "vec", 1)):
        marks = np.zeros(mixed.makespan_cycles + 1, bool)
        for n in np.flatnonzero((t["core"] == core) & (t["pipe"] == number) & np.isin(t["kind"], (0, 4))).tolist():
            marks[t["start"][n] : t["end"][n]] = True
        work = np.isin(t["kind"], (0, 4)) & (t["pipe"] != 0) & (t["core"] == core)
        total = int(t["end"][work].max())
        assert row[f"{kind}_total_cycles"] == str(total)
        assert row[f"{kind}_time(us)"] == f"{total / mhz:.6f}"
        assert row[f"{kind}_{pipe}_time(us)"] == f"{marks.sum() / mhz:.6f}"
        assert row[f"{kind}_{pipe}_ratio"] == f"{marks.sum() / total:.6f}"
    assert all(value == "NA" for name, value in cube.items() if name.startswith("aiv"))
    assert all(value == "NA" for name, value in vector.items() if name.startswith("aic"))
    assert {row[f"{kind}_icache_miss_rate"] for row in rows for kind in ("aic", "aiv")} == {"NA"}


def test_active_bandwidth_is_all_bytes_of_the_busy_time(mixed):
    """Over all cores: bytes read by MTE2 of the Cube cores are those of both factors."""
    rows = _rows(tables(mixed)["PipeUtilization.csv"])
    cubes = [row for row in rows if row["sub_block_id"] == "cube0"]
    moved = sum(float(row["aic_mte2_active_bw(GB/s)"]) * 2**30 * float(row["aic_mte2_time(us)"]) / 1e6 for row in cubes)
    summary = mixed.summary()["bytes_moved"]
    assert moved == pytest.approx(summary["a read"] + summary["b read"], rel=1e-4)


def test_of_a_run_of_which_rows_are_missing_only_totals_are_told(vector):
    from dataclasses import replace

    from ascendsim.analysis import within  # what windows of a long run keep

    part = replace(vector, timeline=within(vector.timeline, [(0, 500)]))
    assert tables(part) == {"PipeUtilization.csv": tables(vector)["PipeUtilization.csv"]}


def test_the_memory_map_is_that_of_the_first_cores_that_use_each_memory(mixed):
    doc = json.loads(memory_info(mixed))
    assert [record["scope"] for record in doc["Record"]] == ["UB", "L1", "L0A", "L0B", "L0C"]
    assert {record["status"] for record in doc["Record"]} == {"success"}
    (first, *_), *_ = (record["memory_info_array"] for record in doc["Record"])
    assert (first["buffer"], first["offset"], first["source_location"]) == ("in_c", [0], "VECIN of core0.veccore0")
    assert first["extent"] == 8 * 32768


def test_a_run_folder_loses_the_tables_of_cores_that_are_gone(vector, tmp_path, ascendsim):
    folder = tmp_path / "run"
    ascendsim("run", "scaled_softmax_grad", "--out", folder)
    table = "simulator/core1.veccore1/core1.veccore1_instr_exe.csv"
    assert (folder / table).exists()
    mine = folder / "simulator/core1.veccore1/notes.txt"
    mine.write_text("mine")
    ascendsim("run", "vector_add", "--out", folder, "--set", "block_dim=2", code=None)
    assert not (folder / table).exists()
    assert not (folder / "simulator/core1.veccore0").exists()
    assert mine.exists()
    assert (folder / "simulator/core0.veccore1/core0.veccore1_code_exe.csv").exists()
    assert runfolder.load_run(folder).name == "vector_add"
