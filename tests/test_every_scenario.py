"""What holds of every shipped scenario, each run once: memory in use, critical path, trace, tables."""

import csv
import io
import json

import pytest
from conftest import ROOT, SCENARIOS
from path_rules import check_path
from trace_rules import violations

import ascendsim as asc
from ascendsim import analysis
from ascendsim.engine.base import Kind
from ascendsim.terms import Pipe
from ascendsim.trace import memory_info, tables, trace_json

LONG_ROWS = 50_000
"""Of longer ones the trace is looked at in windows, or its text alone would take gigabytes."""


@pytest.fixture(scope="module", params=SCENARIOS)
def shipped(request):
    file = ROOT / "scenarios" / f"{request.param}.toml"
    return asc.run(file, set={"machine.values": "none"})


def test_what_is_in_use_never_exceeds_the_peak(shipped):
    for core in (0, shipped.program.core_count - 1):
        found = analysis.lives(shipped.program, shipped.timeline, core)
        for buffer in {life.buffer for life in found}:
            lives = [life for life in found if life.buffer is buffer]
            highest = max(life.address_bytes + life.allocation_bytes for life in lives)
            assert analysis.occupancy(lives)[1].max() <= highest <= shipped.peak_bytes[buffer.name]


def test_the_critical_path_adds_up_to_the_makespan(shipped):
    scalar = shipped.device.scalar
    depth = {pipe: scalar.depth(pipe) for pipe in Pipe if pipe not in (Pipe.S, Pipe.ALL)}
    path, shares = shipped.critical_path, shipped.path_shares
    check_path(path, shipped.timeline, scalar.dispatch_cycles.value, depth)
    cycles = shipped.makespan_cycles
    assert sum(sum(edges.values()) for edges in shares.lanes.values()) == cycles
    assert sum(shares.edges.values()) == sum(shares.lines.values()) == sum(p.cycles for p in shares.places) == cycles
    assert shares.unknown_cycles == 0


@pytest.mark.parametrize("time", ["us", "cycle"])
def test_the_trace_keeps_the_rules_of_both_viewers(shipped, time, monkeypatch):
    if shipped.timeline.row_count > LONG_ROWS:
        middle = shipped.makespan_cycles // 2
        windows = ((0, 3000), (middle, middle + 2000), (shipped.makespan_cycles - 2000, shipped.makespan_cycles))
        monkeypatch.setitem(vars(shipped), "windows", windows)
    assert violations(trace_json(shipped, time)) == []


def test_tables_count_every_row_and_cycle(shipped):
    t = shipped.timeline
    files = tables(shipped)
    cycles = int((t["end"] - t["start"]).sum())
    for kind in ("instr", "code"):
        found = [row for name, text in files.items() if name.endswith(f"_{kind}_exe.csv") for row in _rows(text)]
        assert sum(int(row["call_count"]) for row in found) == len(t)
        assert sum(int(row["cycles"]) for row in found) == cycles
    pipes = _rows(files["PipeUtilization.csv"])
    assert len(pipes) == shipped.program.core_count
    busy = t["end"][t["kind"] != Kind.SET_FLAG].max(initial=0)
    totals = [row[f"{kind}_total_cycles"] for row in pipes for kind in ("aic", "aiv")]
    assert max(int(total) for total in totals if total != "NA") <= busy


def test_the_memory_map_has_the_types_that_the_viewer_asks_for(shipped):
    doc = json.loads(memory_info(shipped))
    assert set(doc) == {"Header", "Record"}
    assert doc["Header"] == {"KernelName": shipped.name}
    assert {record["scope"] for record in doc["Record"]} == {m.buffer.name for m in shipped.memories if m.peak_bytes}
    for record in doc["Record"]:
        assert all(isinstance(record[key], str) for key in ("scope", "status", "err_msg", "error_info"))
        for life in record["memory_info_array"]:
            assert set(life) == {
                *("buffer", "alloc_time_in_ir", "life_time_in_ir", "extent", "offset", "is_tmpbuf"),
                "source_location",
            }
            assert isinstance(life["buffer"], str)
            assert isinstance(life["source_location"], str)
            assert isinstance(life["is_tmpbuf"], bool)
            start, end = life["life_time_in_ir"]
            numbers = (life["alloc_time_in_ir"], start, end, life["extent"], *life["offset"])
            assert all(type(number) is int and number >= 0 for number in numbers)
            assert start <= end <= shipped.makespan_cycles
            assert life["extent"] % 8 == 0


def _rows(text):
    return list(csv.DictReader(io.StringIO(text)))
