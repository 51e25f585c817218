"""The critical path as people see it, and what a free pipe would gain: exact on small runs, and told in words."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import ROOT
from test_plot import _check_texts, _seen

import ascendsim as asc
from ascendsim import plot, report_critical, runfolder, window, words
from ascendsim.critical import Edge, critical_path
from ascendsim.engine import both
from ascendsim.engine.base import Kind, Wait
from ascendsim.machine import schedule
from ascendsim.memory import place_in_gm
from ascendsim.record import record
from ascendsim.report import headline, markdown
from ascendsim.schedule_input import schedule_input
from ascendsim.terms import CoreKind, HardEvent, Pipe, TPosition
from ascendsim.what_if import with_free

NO_VALUES = {"machine.values": "none"}
PATH_INK = "#c2003a"


@pytest.fixture(scope="module")
def add():
    return asc.run("vector_add", set=NO_VALUES)


@pytest.fixture(scope="module")
def mixed():
    return asc.run(ROOT / "scenarios/matmul_plus_one.toml", set=NO_VALUES)


@pytest.fixture(scope="module")
def shared():
    """Four AI Cores that share their links."""
    return asc.run("fag_same_ab_small", set=NO_VALUES)


def _path(kernel, device, cores=1):
    program = record(kernel, device, cores, place_in_gm([]), ()).program
    timeline = schedule(program, device)
    return [(s.row, s.begin_cycles, s.end_cycles, s.edge.value, s.pipe.name) for s in _of(program, timeline, device)]


def _of(program, timeline, device):
    return critical_path(program, timeline, device)


# ---- worked out by hand ------------------------------------------------------------------------------------------


def test_scalar_rows_follow_each_other(device):
    def kernel(core):
        core.scalar_work(7)
        core.scalar_work(5)

    assert _path(kernel, device) == [(0, 0, 7, "start", "S"), (1, 7, 12, "scalar", "S")]


def test_a_flag_that_is_up_in_time_is_not_waited_for(device):
    """A dispatch takes one cycle, a set and a wait one each: it rises in the cycle in which the wait starts."""

    def kernel(core):
        core.scalar_work(10)
        core.set_flag(HardEvent.MTE3_V, 0)
        core.wait_flag(HardEvent.MTE3_V, 0)
        core.set_flag(HardEvent.V_MTE2, 0)

    assert _path(kernel, device) == [
        (0, 0, 10, "start", "S"),
        (1, 10, 11, "scalar", "S"),
        (2, 11, 12, "scalar", "S"),
        (2, 12, 13, "dispatch", "V"),
        (3, 13, 14, "pipe", "V"),
    ]


def test_a_wait_that_was_held_names_its_flag(device):
    def kernel(core):
        core.wait_flag(HardEvent.MTE3_V, 0)
        core.set_flag(HardEvent.V_MTE2, 0)
        core.scalar_work(10)
        core.set_flag(HardEvent.MTE3_V, 0)

    assert _path(kernel, device) == [
        (0, 0, 1, "start", "S"),
        (1, 1, 2, "scalar", "S"),
        (2, 2, 12, "scalar", "S"),
        (3, 12, 13, "scalar", "S"),
        (3, 13, 14, "dispatch", "MTE3"),
        (0, 14, 15, "flag", "V"),
        (1, 15, 16, "flag", "V"),  # behind the wait, it waited for the same
    ]


def test_a_full_queue_holds_the_scalar_unit(device):
    """The queue takes so many rows behind the one at work; S can dispatch another when that one leaves."""
    depth = device.scalar.depth(Pipe.V)

    def kernel(core):
        buffer = core.t_buf(TPosition.VECCALC, "x")
        core.t_pipe().init_buffer(buffer, 1, 32768)
        x = buffer.get("float")
        core.muls(x, x, 2.0, 8192)
        for _ in range(depth + 1):
            core.set_flag(HardEvent.V_MTE2, 0)
        core.scalar_work(500)

    *_, work, dispatch, last = _path(kernel, device)
    assert work[3:] == ("dispatch", "V")
    assert dispatch == (last[0] - 1, work[2], work[2] + 1, "queue", "S")
    assert last == (last[0], dispatch[2], dispatch[2] + 500, "scalar", "S")


def test_no_rows_have_no_path(device):
    assert _path(lambda core: None, device) == []


def test_times_that_no_engine_made_are_refused(add):
    """As a damaged run folder may hold them: waits that are released by themselves."""
    t = add.timeline
    column = t["released_by"].copy()
    held = np.flatnonzero((t["waited_for"] == Wait.FLAG) & np.isin(t["number"], [s.row for s in add.critical_path]))
    column[held] = held
    damaged = replace(t, columns={**t.columns, "released_by": column})
    with pytest.raises(ValueError, match="the times of the timeline do not follow from each other"):
        critical_path(add.program, damaged, add.device)


# ---- shares ------------------------------------------------------------------------------------------------------


def test_shares_of_a_vector_kernel(add):
    shares, mte2 = add.path_shares, (CoreKind.AIV, Pipe.MTE2)
    assert add.makespan_cycles == 1761
    assert shares.lanes[mte2] == {Edge.PIPE: 1216, Edge.DISPATCH: 297}
    assert shares.edges == {Edge.PIPE: 1217, Edge.DISPATCH: 297, Edge.FLAG: 246, Edge.START: 1}
    assert list(shares.lines)[:2] == ["vector_add.py:18", "vector_add.py:26"]
    first = shares.places[0]
    assert (first.pipe, first.name, first.line, first.count, first.cycles) == (
        *(Pipe.MTE2, "DataCopy", "vector_add.py:18"),
        *(8, 1501),
    )


def test_what_sharing_a_link_adds_stands_apart(shared):
    """Each transfer on the path has a part for what sharing added: its stretch."""
    t = shared.timeline
    parts = [step for step in shared.critical_path if step.edge is Edge.LINK]
    assert sum(step.cycles for step in parts) == shared.path_shares.edges[Edge.LINK] > 10_000
    for step in parts:
        assert t["kind"][step.row] == Kind.TRANSFER
        assert step.cycles == t["stretch_cycles"][step.row]


def test_the_path_of_a_mixed_kernel_goes_over_its_cores(mixed):
    assert [step.core for step in mixed.critical_path if step.edge is Edge.CROSS] == [2, 2]
    signal = next(step for step in mixed.critical_path if step.edge is Edge.CROSS)
    wait = {name: int(column[signal.row]) for name, column in mixed.timeline.columns.items()}
    assert signal.end_cycles == wait["end"]
    assert signal.begin_cycles == mixed.timeline["end"][wait["released_by"]]


# ---- what if -----------------------------------------------------------------------------------------------------


def test_a_free_pipe_of_a_vector_kernel(add):
    found = {(one.kind, one.pipe): (one.makespan_cycles, one.gain_cycles) for one in add.what_if}
    assert found == {
        (None, Pipe.S): (1760, 1),
        (CoreKind.AIV, Pipe.V): (1706, 55),
        (CoreKind.AIV, Pipe.MTE2): (605, 1156),
        (CoreKind.AIV, Pipe.MTE3): (1575, 186),
    }


@pytest.mark.parametrize("name", ["add", "mixed"])
def test_both_engines_agree_on_a_free_pipe(name, request):
    result = request.getfixturevalue(name)
    given_ = schedule_input(result.program, result.device, "model")
    for one in result.what_if:
        timeline = both.schedule(with_free(given_, result.program, one.kind, one.pipe))
        assert timeline.makespan_cycles == one.makespan_cycles == result.makespan_cycles - one.gain_cycles


def test_a_free_pipe_is_free_on_the_cores_of_its_kind_only(mixed):
    free = with_free(schedule_input(mixed.program, mixed.device, "model"), mixed.program, CoreKind.AIV, Pipe.MTE2)
    timeline = both.schedule(free)
    work = (timeline["kind"] == Kind.TRANSFER) & (timeline["pipe"] == Pipe.MTE2)
    on_cube = timeline["core"] % 3 == 0
    cycles = timeline["end"] - timeline["start"]
    assert (cycles[work & ~on_cube] == 0).all()
    assert (cycles[work & on_cube] > 300).all()


def test_the_mode_of_l2_is_that_of_the_run():
    hit = asc.run("vector_add", set=NO_VALUES | {"machine.l2": "hit"})
    assert {one.makespan_cycles + one.gain_cycles for one in hit.what_if} == {hit.makespan_cycles} == {1314}


# ---- words and tables --------------------------------------------------------------------------------------------


def test_tables_of_the_report(add):
    assert list(report_critical.pipe_cells(add)) == [
        ("MTE2", "1513", "85.9%", "pipe order 80%, dispatch 20%", "605", "1156"),
        ("MTE3", "188", "10.7%", "flag 99%", "1575", "186"),
        ("V", "59", "3.4%", "flag 100%", "1706", "55"),
        ("S", "1", "0.1%", "begin of the run 100%", "1760", "1"),
    ]
    assert report_critical.place_cells(add)[:2] == [
        ("MTE2", "DataCopy", "vector_add.py:18", "8", "1501", "85.2%"),
        ("MTE3", "DataCopy", "vector_add.py:26", "1", "186", "10.6%"),
    ]
    assert dict(headline(add))["critical path"] == "MTE2 86%, MTE3 11%, V 3%"
    text = markdown(add)
    assert "| MTE2 | 1513 | 85.9% | pipe order 80%, dispatch 20% | 605 | 1156 |" in text
    assert "## Critical path by instruction" in text


def test_what_is_beyond_the_table_is_added_up(shared):
    *rows, rest = report_critical.place_cells(shared)
    places = shared.path_shares.places
    assert len(rows) == 10
    assert rest[0] == f"{len(places) - 10} more"
    assert sum(int(row[4]) for row in (*rows, rest)) == shared.makespan_cycles


def test_sentences(add):
    found = words.why(add, (Pipe.MTE2,), add.what_if)
    assert (
        "MTE2 has 1513 cycles of the critical path (86%), 1501 of them in DataCopy [vector_add.py:18]; "
        "what most of them waited for: pipe order." in found
    )
    assert "With MTE2 free the run would take 605 cycles, 1156 less." in found
    assert not any(line.startswith(("V has", "With V")) for line in found)


def test_a_pipe_that_would_cost_is_told_so(add):
    (one, *_) = add.what_if
    slower = replace(one, makespan_cycles=1800, gain_cycles=-39)
    assert words.free_sentence(add, slower) == "With S free the run would take 1800 cycles, 39 more."


def test_summary(add):
    found = add.summary()["critical_path"]
    assert (found["steps"], found["unknown_cycles"]) == (len(add.critical_path), 0)
    assert found["pipes"]["MTE2"] == {"pipe": 1216, "dispatch": 297}
    assert found["if_free"]["MTE2"] == {"makespan_cycles": 605, "gain_cycles": 1156}
    assert found["instructions"][0] == {
        "pipe": "MTE2", "name": "DataCopy", "line": "vector_add.py:18", "count": 8, "cycles": 1501
    }  # fmt: skip


def test_the_command_tells_what_if_on_request(tmp_path, ascendsim):
    ascendsim("run", "vector_add", "--out", tmp_path / "add", "--set", "machine.values=none")
    plain = ascendsim("why", tmp_path / "add", "--pipes", "MTE2").stdout
    asked = ascendsim("why", tmp_path / "add", "--pipes", "MTE2", "--what-if").stdout
    sentence = "With MTE2 free the run would take 605 cycles, 1156 less.\n"
    assert (sentence in plain, sentence in asked) == (False, True)
    assert asked.replace(sentence, "") == plain
    assert runfolder.load_run(tmp_path / "add").critical_path[0].edge is Edge.START


# ---- long runs ---------------------------------------------------------------------------------------------------


@pytest.fixture
def long(monkeypatch):
    monkeypatch.setattr(window, "EDGE_ROWS", 2_000)
    monkeypatch.setattr(window.rows_to_keep, "__defaults__", ((), 10_000))
    return asc.run("softmaxgrad_960x960_float", set=NO_VALUES)


def test_of_a_long_run_the_end_of_the_path_is_known_and_the_rest_is_told(long):
    gap, *known = long.critical_path
    assert (gap.row, gap.begin_cycles, gap.edge) == (-1, 0, Edge.UNKNOWN)
    assert gap.cycles + sum(step.cycles for step in known) == long.makespan_cycles == 13_660
    assert known
    shares = long.path_shares
    assert shares.unknown_cycles == gap.cycles
    rest = 13_660 - gap.cycles
    assert dict(headline(long))["critical path"].endswith(
        f" of the last {rest} cycles; of the {gap.cycles} before rows were not kept"
    )
    assert report_critical.pipe_cells(long)[-1][:2] == ("rows not kept", str(gap.cycles))
    assert all(row[4:] == ("", "") for row in report_critical.pipe_cells(long))
    assert f"The critical path is known for the last {rest} of 13660 cycles; rows before were not kept." in words.why(
        long, ()
    )
    assert long.summary()["critical_path"]["if_free"] == {}
    assert len(long.what_if) == 4


# ---- drawn -------------------------------------------------------------------------------------------------------


def _drawn(picture):
    return [
        box
        for boxes in picture.items()
        if getattr(boxes, "look", None) is not None and boxes.look.fill == PATH_INK
        for box in boxes.boxes
    ]


def test_the_path_is_a_line_over_the_lanes(add):
    picture = plot.timeline_picture(add, cores=(7,))
    boxes = _drawn(picture)
    swatch, lines = boxes[-1], boxes[:-1]
    left, right = min(b[0] for b in lines), max(b[2] for b in lines)
    assert sum(b[2] - b[0] for b in lines) == pytest.approx(right - left, rel=1e-6)
    assert swatch[2] - swatch[0] < 0.3
    seen = _seen(picture)
    assert "critical path" in seen.words()
    _check_texts(seen)


def test_what_of_the_path_is_on_other_cores_is_told(add):
    words_ = _seen(plot.timeline_picture(add, cores=(0,))).words()
    assert "1,761 of 1,761 cycles of the critical path are on cores that are not drawn" in words_
    assert "critical path" not in words_
    assert not any("critical path are" in word for word in _seen(plot.timeline_picture(add)).words())


def test_a_long_run_s_picture_says_how_much_is_known(long):
    known = long.makespan_cycles - long.path_shares.unknown_cycles
    said = f"the critical path is known for the last {known:,} cycles; rows before were not kept"
    assert said in _seen(plot.timeline_picture(long)).words()
