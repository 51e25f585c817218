"""Pictures of kernels with Cube cores, by what is drawn in them."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import ROOT
from test_plot import _check_texts, _seen

import ascendsim as asc
from ascendsim import analysis, plot
from ascendsim.engine.base import Wait
from ascendsim.plot import lanes, memories, memory, overview, parts, style, timeline
from ascendsim.plot.canvas import Line
from ascendsim.terms import Buffer, Pipe

SCENARIO = ROOT / "scenarios/matmul_plus_one.toml"
WINDOWS = ((1100, 1900), (3500, 4500))
VIEWS = [
    {},
    {"cores": (0, 2, 5)},
    {"cores": (1,)},
    {"cores": tuple(range(6))},
    {"first": 1110, "last": 1210},
    {"cores": (3, 4), "first": 2830, "last": 3230},
]


@pytest.fixture(scope="module")
def mixed():
    return asc.run(SCENARIO, despite_findings=True)


@pytest.fixture(scope="module")
def cube():
    return asc.run(SCENARIO, set={"kernel": "matmul_plus_one.py:product", "kernel_type": "AIC_ONLY"})


@pytest.fixture(scope="module")
def windows(mixed):
    return replace(mixed, windows=WINDOWS)


@pytest.fixture(scope="module")
def slow_second(mixed):
    """As if the second AI Core ended last."""
    t = mixed.timeline
    shift = np.where(t["core"] >= 3, 2000, 0)
    columns = t.columns | {name: t[name] + shift for name in ("start", "occupied", "end")}
    return replace(mixed, timeline=replace(t, columns=columns, makespan_cycles=t.makespan_cycles + 2000))


def _words(picture):
    return [text.text for text in picture.texts()]


# ---- timelines ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
def test_no_two_texts_of_a_timeline_overlap(mixed, view):
    _check_texts(_seen(plot.timeline_picture(mixed, **view)))


def test_no_two_texts_overlap_elsewhere(cube, windows, mixed):
    for picture in (
        plot.timeline_picture(cube),
        plot.timeline_picture(windows),
        plot.memory_picture(cube),
        plot.memory_picture(mixed),
        *(plot.memory_picture(mixed, core) for core in range(6)),
    ):
        _check_texts(_seen(picture))


def test_a_timeline_shows_the_cores_of_one_ai_core(mixed):
    words = _words(plot.timeline_picture(mixed))
    assert [w for w in words if w in {"AIC 0", "AIV 0", "AIV 1", "AIC 1", "AIV 2", "AIV 3"}] == [
        "AIC 0",
        "AIV 0",
        "AIV 1",
    ]
    assert words.count("AI Core 0") == 1
    assert any(w.endswith("AI Core 0 of 2") for w in words)
    assert [words.count(name) for name in ("FIX", "M", "MTE1", "V", "MTE3", "MTE2", "SCALAR")] == [1, 1, 1, 2, 2, 3, 2]


def test_instructions_of_the_cube_say_how_much_they_work_on(mixed):
    words = _words(plot.timeline_picture(mixed))
    assert {"ND2NZ\n128×128, a", "ND2NZ\n128×128, b", "Mmad\n128×128×128", "Fixpipe\n128×128, c"} <= set(words)
    near = _words(plot.timeline_picture(mixed, (0,), 1110, 1210))
    assert "LoadData\n8 fractals" in near


def test_loads_of_one_kind_become_a_block(mixed):
    view = lanes.view_of(mixed, (0,), 0, None)
    (lane,) = lanes.core_lanes(view, 0, [Pipe.MTE1], 0.0).lanes
    assert lane.bars[0].labels[0] == "LoadData\n8 instr."


@pytest.mark.parametrize(("name", "cores"), [("mixed", (0, 1, 2)), ("slow_second", (3, 4, 5))])
def test_the_ai_core_that_ends_last_is_drawn(name, cores, request):
    result = request.getfixturevalue(name)
    assert lanes.ai_core(result) == cores
    assert lanes.view_of(result, None, 0, None).cores == cores


def test_of_ai_cores_that_end_together_the_busiest_is_drawn(mixed):
    t = mixed.timeline
    ends = np.where(t["end"] == t["end"][t["core"] >= 3].max(), mixed.makespan_cycles, t["end"])
    level = replace(mixed, timeline=replace(t, columns=t.columns | {"end": ends}))
    busy = [sum(u.busy_cycles for u in mixed.pipe_use if u.core // 3 == b and u.pipe is not Pipe.S) for b in (0, 1)]
    assert lanes.ai_core(level)[0] == 3 * (busy[1] > busy[0])
    idle = replace(t.totals, busy_cycles=t.totals.busy_cycles * 0)
    twins = replace(level, timeline=replace(level.timeline, totals=idle))
    assert lanes.ai_core(twins) == (0, 1, 2)


def test_flags_between_cores_have_arrows_of_their_own(mixed):
    picture = plot.timeline_picture(mixed)
    drawn = [i for i in picture.layers[style.OVER] if isinstance(i, Line) and i.ink == timeline._CROSS_INK]
    assert len(drawn) == 2 + 1, "one for each AIV, one in the legend"
    assert "cross-core flag" in _words(picture)
    assert "waits: cross-core flag" in _words(picture)
    assert "cross-core flag 0 of mode 2" in _words(picture)
    view = lanes.view_of(mixed, (0, 1, 2), 0, None)
    flags = [f for core in (1, 2) for f in lanes.core_lanes(view, core, [Pipe.S], 0.0).flags if f.is_cross]
    t = mixed.timeline
    set_ends = t["end"][(t["core"] == 0) & (t["pipe"] == Pipe.FIX)].max()
    waits = {int(c): int(t["wait_cycles"][i]) for i, c in enumerate(t["core"]) if t["waited_for"][i] == Wait.CROSS_CORE}
    assert [(f.source_core, f.source, f.raised, f.target_core, f.target, f.taken) for f in flags] == [
        (0, Pipe.FIX, set_ends, core, Pipe.S, waits[core]) for core in (1, 2)
    ]
    alone = [i.ink for i in plot.timeline_picture(mixed, (1, 5)).layers[style.OVER] if isinstance(i, Line)]
    assert timeline._CROSS_INK not in alone, "who set them is not there"


def test_cores_of_two_ai_cores_have_a_bracket_each(mixed):
    words = _words(plot.timeline_picture(mixed, (0, 2, 5)))
    assert [w for w in words if w.startswith("AI Core")] == ["AI Core 0", "AI Core 1"]
    assert any(w.endswith("AIC 0, AIV 1, AIV 3") for w in words)


def test_cube_cores_alone_are_numbered(cube):
    words = _words(plot.timeline_picture(cube))
    assert "core 0" in words
    assert not any(w.startswith("AI Core") for w in words)
    assert any(w.endswith("core 0 of 2") for w in words)


def test_windows_show_an_ai_core(windows):
    words = _words(plot.timeline_picture(windows))
    assert "AI Core 0, window 1: cycles 1,100 to 1,900" in words
    assert words.count("AIV 1") == 2
    assert any("share of the cores that have the pipe at work" in w for w in words)
    for pipe, cores in ((Pipe.M, 2), (Pipe.V, 4), (Pipe.MTE2, 6)):
        busy = windows.timeline.totals.busy_cycles[:, pipe].sum()
        assert overview._busy(windows, pipe) == pytest.approx(busy / (cores * windows.makespan_cycles))


def test_what_is_kept_of_an_ai_core_is_kept_of_each_of_its_cores(mixed, monkeypatch):
    ends = {0: ((0, 100), (900, 1000)), 1: ((0, 80), (850, 1000)), 2: ((0, 120), (940, 1000))}
    monkeypatch.setattr(analysis, "edges", lambda program, timeline, core: ends[core])
    t = mixed.timeline
    part = replace(mixed, timeline=replace(t, columns={name: column[:1] for name, column in t.columns.items()}))
    assert parts.kept(part, (0, 1, 2)) == [parts.Part("first part", 0, 80), parts.Part("last part", 940, 1000)]
    assert parts.kept(part, (1,)) == [parts.Part("first part", 0, 80), parts.Part("last part", 850, 1000)]


# ---- memory maps --------------------------------------------------------------------------------------------------


def test_each_memory_has_a_chart_with_its_capacity(mixed, cube):
    words = _words(plot.memory_picture(cube))
    assert [w for w in words if w in Buffer.__members__] == ["L1", "L0A", "L0B", "L0C"]
    for memory_name in ("l1", "l0a", "l0c"):
        assert f"capacity {cube.device.buffer_bytes(Buffer[memory_name.upper()]):,} B" in words
    assert {"a1", "b1", "a2", "b2", "co1", "A1", "B1", "A2", "B2", "CO1", "512 KiB"} <= set(words)
    assert words.count("the used addresses, enlarged") == 1, "of L1 only an eighth is used"
    assert words.count("cycles") == words.count("µs") == 1, "one axis for all"
    assert "matmul_plus_one: on-chip memory over time" in words
    both = _words(plot.memory_picture(mixed))
    assert [w for w in both if w in Buffer.__members__] == ["L1", "L0A", "L0B", "L0C", "UB"]
    assert {"AIC 0", "AIV 0", "in_c", "out_c", "safe 188,160 B", "visible 196,352 B", "hardware 196,608 B"} <= set(both)
    assert any(w.endswith("AIC 0 and AIV 0, of AI Core 0 of 2") for w in both)
    alone = _words(plot.memory_picture(mixed, 4))
    assert [w for w in alone if w in Buffer.__members__] == ["UB"]
    assert any(w.endswith("AIV 2, of AI Core 1 of 2") for w in alone)


def test_the_ai_core_that_ends_last_is_the_one_of_the_map(slow_second):
    assert memories._default_cores(slow_second) == (3, 4)


def test_a_core_without_memory(mixed):
    with pytest.raises(ValueError, match="core 6: the run has cores 0 to 5"):
        plot.memory_picture(mixed, 6)


def test_boxes_stand_where_their_allocations_lie(cube):
    """L0A, L0B and L0C from top to bottom below L1, which is drawn twice."""
    picture = plot.memory_picture(cube)
    lives = analysis.lives(cube.program, cube.timeline, 0)
    boxes = {}
    for item in picture.layers[style.MIDDLE]:
        boxes.setdefault(item.look.fill, []).extend(item.boxes)
    top = style.TOP + memories._SLIM + memories._APART + memories._DETAIL + memories._APART
    for name, position in (("a2", "A2"), ("b2", "B2"), ("co1", "CO1")):
        (life,) = [x for x in lives if x.name == name]
        ((left, upper, right, lower),) = boxes[memory.POSITIONS[position]]
        per_byte = memories._HEIGHT / cube.device.buffer_bytes(life.buffer)
        assert left - memory.LEFT == pytest.approx(life.start / cube.makespan_cycles * memory.CHART)
        assert right - memory.LEFT == pytest.approx(life.end / cube.makespan_cycles * memory.CHART)
        assert lower == pytest.approx(top + memories._HEIGHT - life.address_bytes * per_byte)
        assert lower - upper == pytest.approx(life.allocation_bytes * per_byte)
        top += memories._HEIGHT + memories._APART
    assert len(boxes[memory.POSITIONS["A1"]]) == 2


def test_a_core_that_does_nothing_has_an_empty_chart(mixed):
    t = mixed.timeline
    others = {name: column[t["core"] != 0] for name, column in t.columns.items()}
    idle = replace(mixed, timeline=replace(t, columns=others, row_count=len(others["core"])))
    words = _words(plot.memory_picture(idle, 0))
    assert "L1" in words
    assert "used to 0 B" in words
