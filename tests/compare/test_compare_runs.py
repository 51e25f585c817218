"""Two runs: what is equal, what differs, and that the parts of every pipe make up what one is faster by."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from compare_harness import SMALL, added, added_finer, mixed

import ascendsim as asc
from ascendsim.analysis import union_intervals
from ascendsim.engine.base import Kind
from ascendsim.errors import InputError
from ascendsim.runfolder import write_run
from ascendsim.terms import Pipe
from ascendsim.versus.runs import EQUAL, PARTS


class Undrawn:
    is_begun = True

    def pictures(self):
        return {}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "deeper" / "run"
    write_run(added(), place, painter=Undrawn())
    return place


def test_equal_runs_are_said_to_be_equal(folder):
    found = asc.compare(folder, added())
    assert EQUAL == "the runs are equal: same program digest, same timeline"
    assert str(found).splitlines() == [
        f"A: vector_add on Ascend910B1, block_dim 2 ({folder})",
        "B: vector_add on Ascend910B1, block_dim 2 (vector_add)",
        "",
        f"{EQUAL}, same outputs",
    ]
    assert found.is_equal
    assert found.fields == ()  # the kernel's file is the same, wherever it is named from
    assert found.faster == ""
    assert (found.cores, found.lines, found.came, found.went) == ((), (), (), ())


def test_a_scenario_is_run():
    found = asc.compare("vector_add", added(), set_a=SMALL)
    assert found.is_equal
    assert found.names[0].startswith("vector_add block_dim=2 tensors.x.shape=[16384]")


def test_runs_without_values_are_equal_without_a_word_of_outputs():
    found = asc.compare(added(), "vector_add", set_b=SMALL | {"machine.values": "none"})
    assert (found.same_outputs, found.is_equal) == (None, True)
    assert f"\n{EQUAL}\n" in str(found)
    assert [(f.path, f.a, f.b) for f in found.fields] == [("machine.values", "all", "none")]


def test_other_data_are_no_equal_run():
    found = asc.compare(added(), "vector_add", set_b=SMALL | {"tensors.x.seed": 77})
    assert (found.same_program, found.same_timeline, found.same_outputs, found.is_equal) == (True, True, False, False)
    assert "both take 1,761 cycles\nsame program, timeline\nother outputs\n" in str(found)
    assert [(f.path, f.a, f.b) for f in found.fields] == [("tensors.x.seed", 5, 77)]


def test_figures_of_two_tilings():
    found = asc.compare(added(), added_finer())
    figures = {f.name: (f.a, f.b, f.change) for f in found.figures}
    assert figures["makespan cycles"] == (added().makespan_cycles, added_finer().makespan_cycles, 56)
    assert figures["rows"] == (160, 320, 160)
    assert figures["block_dim"] == (2, 2, 0)
    assert figures["bound"] == ("MTE2", "MTE2", None)
    buffers = 3 * 2 * 2  # three queues of two buffers of two-byte elements
    assert figures["peak UB bytes"] == (buffers * 2048, buffers * 1024, -buffers * 1024)
    assert figures["GM bytes"] == (3 * 16384 * 2, 3 * 16384 * 2, 0)
    assert figures["z written bytes"] == (16384 * 2, 16384 * 2, 0)
    assert next((f.path, f.a, f.b) for f in found.fields) == ("tiling.tile_length", 2048, 1024)
    assert found.faster == "a"
    assert "B is slower by 56 cycles: 1.032 of A's time\nsame outputs\nother program, timeline\n" in str(found)


@pytest.fixture(scope="module", params=["tiling", "cores", "mixed", "device"])
def pair(request):
    if request.param == "mixed":
        return asc.compare(mixed(), "matmul_plus_one", set_b={"machine.l2": "hit"})
    if request.param == "cores":
        return asc.compare(added(), "vector_add", set_b=SMALL | {"block_dim": 4})
    if request.param == "device":
        return asc.compare(added(), "vector_add", set_b=SMALL | {"device": "Ascend910B4"})
    return asc.compare(added(), added_finer())


def test_the_parts_of_every_pipe_add_up_to_the_makespan(pair):
    assert pair.pipes
    for lane in pair.pipes:
        for side, run in enumerate((pair.a, pair.b)):
            assert sum(both[side] for both in lane.parts.values()) == lane.cores[side] * run.makespan_cycles
        of_core = [Fraction(b, lane.cores[1]) - Fraction(a, lane.cores[0]) for a, b in lane.parts.values()]
        assert sum(of_core) == pair.b.makespan_cycles - pair.a.makespan_cycles
        assert set(lane.parts) <= set(PARTS)


def test_busy_cycles_are_those_of_the_rows(pair):
    """Independent of totals: the union of instructions and transfers on each pipe of each core."""
    for side, run in enumerate((pair.a, pair.b)):
        t, busy = run.timeline, Counter()
        for core in range(run.program.core_count):
            for pipe in Pipe:
                here = (
                    (t["core"] == core)
                    & (t["pipe"] == pipe)
                    & ((t["kind"] == Kind.EXEC) | (t["kind"] == Kind.TRANSFER))
                )
                starts, ends = union_intervals(t["start"][here], t["end"][here])
                busy[run.lane_name(pipe, run.program.core_kind(core))] += int((ends - starts).sum())
        for lane in pair.pipes:
            if not lane.pipe.endswith("S"):  # the scalar unit is busy dispatching, too
                assert lane.parts["busy"][side] + lane.parts.get("sharing a link", (0, 0))[side] == busy[lane.pipe]


def test_single_cores_add_up_to_their_pipe():
    found = asc.compare(added(), added_finer())
    changes = Counter()
    for c in found.cores:
        assert c.core in ("core 0", "core 1")
        changes[c.pipe, c.part] += c.b - c.a
    wanted = {(lane.pipe, part): b - a for lane in found.pipes for part, (a, b) in lane.parts.items() if a != b}
    assert {key: n for key, n in changes.items() if n} == wanted
    sizes = [abs(c.b - c.a) for c in found.cores]
    assert sizes == sorted(sizes, reverse=True)


def test_cores_are_not_compared_one_by_one_where_they_differ():
    assert asc.compare(added(), "vector_add", set_b=SMALL | {"block_dim": 4}).cores == ()


def test_the_reason_names_the_bound_and_adds_up():
    (reason,) = asc.compare(added(), added_finer()).reasons
    assert reason == (
        "MTE2, which bounds A and B: +56 cycles = +78 busy, -16 flag, -6 no work left (mean of its cores)"
    )


def test_cycles_of_lines_are_those_of_the_rows():
    found = asc.compare(added(), added_finer())
    wanted = [_spent(run) for run in (added(), added_finer())]
    spent = {x.line: x.spent for x in found.lines}
    assert spent["vector_add.py:26"] == (wanted[0]["vector_add.py:26"], wanted[1]["vector_add.py:26"])
    assert spent["vector_add.py:18"] == (wanted[0]["vector_add.py:18"], wanted[1]["vector_add.py:18"])
    waited = {x.line: x.waited for x in found.lines}
    assert waited["vector_add.py:25"] == tuple(_waited(run, "vector_add.py:25") for run in (added(), added_finer()))
    assert waited["vector_add.py:25"][0] > waited["vector_add.py:25"][1]
    sizes = [abs(x.change) for x in found.lines]
    assert sizes == sorted(sizes, reverse=True)


def _rows(run):
    t = run.timeline
    for at in range(len(t)):
        call = run.program.call(int(t["call"][at]))
        row = run.program.templates[call.template].rows[int(t["row"][at])]
        yield at, run.program.lines[row.line], {name: int(t[name][at]) for name in t.columns}


def _spent(run):
    """From the start of each instruction to its completion, or to the next start on its pipe if that is earlier."""
    found, starts = Counter(), {}
    work = [(line, row) for _, line, row in _rows(run) if row["kind"] in (Kind.EXEC, Kind.TRANSFER)]
    for line, row in reversed(work):
        lane = row["core"], row["pipe"]
        if row["pipe"] != Pipe.S:
            found[line] += min(row["end"], starts.get(lane, row["end"])) - row["start"]
        starts[lane] = row["start"]
    return found


def _waited(run, line):
    return sum(row["wait_cycles"] for _, own, row in _rows(run) if own == line and row["kind"] == Kind.WAIT_FLAG)


def test_findings_that_came_and_went():
    single = SMALL | {"queues.in_x.num": 1, "queues.in_y.num": 1}
    found = asc.compare(added(), "vector_add", set_b=single)
    assert [f.code for f in found.came] == ["W-NODB"]
    assert found.went == ()
    assert "\nFindings that came\n  W-NODB InitBuffer: in_x has one buffer" in str(found)
    back = asc.compare("vector_add", added(), set_a=single)
    assert ([f.code for f in back.went], back.came) == (["W-NODB"], ())
    assert "\nFindings that went\n  W-NODB InitBuffer: in_x has one buffer" in str(back)
    waits = {lane.pipe: lane.parts for lane in found.pipes}["MTE2"]["buffer not free"]
    assert waits[0] == 0 < waits[1]


def test_parts_of_other_clocks_are_compared_by_time():
    found = asc.compare(mixed(), "matmul_plus_one", set_b={"device": "Ascend910B4"})
    assert mixed().makespan_cycles == found.b.makespan_cycles
    assert found.faster == "a"
    assert f"B is slower by {found.b.makespan_us - mixed().makespan_us:.3f} us: {1850 / 1650:.3f} of A's time" in str(
        found
    )
    assert found.reasons == ("AIC MTE2, which bounds A and B: the same cycles, at another clock",)
    changed = {f.path: (f.a, f.b) for f in found.fields}
    assert changed["device"] == ("Ascend910B1", "Ascend910B4")
    assert changed["device.cores.clock_mhz.value"] == (1850, 1650)
    assert not any(path.endswith((".source", ".status")) for path in changed)


def test_plain_data_have_everything():
    found = asc.compare(added(), added_finer())
    plain = found.to_dict()
    assert (plain["equal"], plain["same_program"], plain["same_timeline"], plain["faster"]) == (
        False,
        False,
        False,
        "a",
    )
    assert {"name": "makespan cycles", "a": 1761, "b": 1817, "change": 56} in plain["figures"]
    assert {"path": "tiling.tile_length", "a": 2048, "b": 1024} in plain["fields"]
    assert plain["program_digests"] == [added().program.digest, added_finer().program.digest]
    assert plain["pipes"][2]["pipe"] == "MTE2"
    assert plain["pipes"][2]["cycles"]["flag"] == [2 * 57, 2 * 41]
    assert len(plain["cores"]) == len(found.cores) == 24


def test_a_run_cannot_be_changed(folder):
    with pytest.raises(InputError) as error:
        asc.compare(folder, folder, set_b={"tiling.tile_length": 1024})
    assert str(error.value) == f"{folder}: --set changes a scenario; this has run already, name its scenario file"


def test_folders_without_a_run(tmp_path):
    with pytest.raises(InputError) as error:
        asc.compare(tmp_path, "vector_add")
    assert str(error.value).startswith(f"{tmp_path}: no run there (run.json is missing); make one with ascendsim run")
    (tmp_path / "trace.json").write_text("{}")
    with pytest.raises(InputError) as error:
        asc.compare("vector_add", tmp_path, set_a=SMALL)
    assert str(error.value) == f"{tmp_path}: no run there, but a trace; name the file {tmp_path / 'trace.json'}"


def test_a_damaged_run_is_named(folder, tmp_path):
    place = tmp_path / "damaged"
    place.mkdir()
    for file in (one for one in folder.iterdir() if one.is_file()):
        (place / file.name).write_bytes(file.read_bytes())
    arrays = dict(np.load(place / "run.npz"))
    arrays["totals.lost_cycles"] = arrays["totals.lost_cycles"][:, :, :3]
    np.savez(place / "run.npz", **arrays)
    with pytest.raises(InputError) as error:
        asc.compare(added(), place)
    assert str(error.value).startswith(f"{place}: the run is damaged (IndexError: ")
    assert str(error.value).endswith("; run the scenario again")
