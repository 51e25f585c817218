import struct
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text

import ascendsim as asc
from ascendsim import analysis, plot
from ascendsim.engine.base import Kind, Wait
from ascendsim.plot import lanes, memory, style, timeline
from ascendsim.terms import Pipe

ROOT = Path(__file__).parent.parent
ONE_TILE = {"cores": (0,), "first": 2300, "last": 5300}
PIPES = (Pipe.S, Pipe.V, Pipe.MTE2, Pipe.MTE3)
STALLS = (Wait.FLAG, Wait.BUFFER, Wait.BARRIER, Wait.QUEUE_FULL)


@pytest.fixture(scope="module")
def double():
    return asc.run(ROOT / "scenarios/softmaxgrad_960x960_float.toml")


@pytest.fixture(scope="module")
def single():
    changes = {f"queues.{name}.num": 1 for name in ("in_grad", "in_p", "out")} | {"block_dim": 4}
    changes |= {f"tensors.{name}.shape": [80, 960] for name in ("grad", "src", "dst")}
    return asc.run(ROOT / "scenarios/softmaxgrad_960x960_float.toml", set=changes)


@pytest.fixture(scope="module")
def add():
    return asc.run(ROOT / "scenarios/vector_add.toml")


@pytest.fixture(scope="module")
def despite():
    """Twelve buffers of 16 KiB fill UB to the last byte, more than Ascend C sees of it."""
    full = {"tiling.tile_length": 8192} | {f"queues.{name}.num": 4 for name in ("in_x", "in_y", "out_z")}
    result = asc.run(ROOT / "scenarios/vector_add.toml", set=full, despite_findings=True)
    assert result.despite_findings
    return result


def _call(m, k, dtype, **options):
    rng = np.random.default_rng(7)
    grad, src = (rng.random((m, k)).astype(dtype) for _ in range(2))
    return asc.softmax_grad(grad, src, **options)


@pytest.fixture(scope="module")
def call():
    return _call(8, 64, np.float32)


@pytest.fixture(scope="module")
def half_call():
    return _call(33, 64, np.float16)


@pytest.fixture(scope="module")
def reuse_call():
    return _call(16, 128, np.float32, reuse_source=True)


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    folder = tmp_path_factory.mktemp("empty")
    (folder / "nothing.py").write_text("def main(asc, x, z, t):\n    pass\n")
    tensor = 'role = "{}"\nshape = [64]\ndtype = "half"\n'
    text = 'schema = 1\ndevice = "Ascend910B1"\nkernel = "nothing.py:main"\nblock_dim = 2\n'
    text += f"[tensors.x]\n{tensor.format('input')}fill = 'normal'\nseed = 1\n[tensors.z]\n{tensor.format('output')}"
    (folder / "nothing.toml").write_text(text)
    return asc.run(folder / "nothing.toml")


@pytest.fixture(scope="module")
def named(despite):
    """A name that would run into the stamp, with what other text systems would take for markup."""
    return replace(despite, name="$x_{1}$ & <b>数据</b> " * 6)


RESULTS = ("double", "single", "add", "despite", "call", "half_call", "reuse_call", "empty", "named")


class _Picture(NamedTuple):
    """Every text that comes to be drawn, with its box in pixels; the size of the picture; the heights of its axes."""

    texts: list
    size: tuple
    axes: list

    def words(self):
        return [text for text, _ in self.texts]


def _drawn(figure):
    for axes in figure.axes:
        for collection in axes.collections:
            collection.set_visible(False)  # texts are what is looked at; hatches and glyphs are slow
    texts = []

    def noted(self, renderer, *args, **kwargs):
        if self.get_visible() and self.get_text().strip():
            texts.append((self.get_text(), Text.get_window_extent(self, renderer)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", noted)
        FigureCanvasAgg(figure).draw()
    return _Picture(texts, tuple(figure.get_size_inches() * figure.dpi), [axes.get_ylim() for axes in figure.axes])


@pytest.fixture(scope="module")
def timeline_of(request):
    """Timeline of a result given by its fixture's name. Each picture is drawn once."""

    @cache
    def of(name, cores=None, first=0, last=None):
        with style.settings():
            return _drawn(timeline._figure(request.getfixturevalue(name), cores, first, last))

    return of


@pytest.fixture(scope="module")
def memory_of(request):
    """UB picture of a result given by its fixture's name. Each picture is drawn once."""

    @cache
    def of(name, core=0):
        with style.settings():
            return _drawn(memory._figure(request.getfixturevalue(name), core))

    return of


@pytest.fixture(scope="module")
def files(call):
    """The three files of a small call."""
    return plot.timeline_png(call), plot.timeline_svg(call), plot.memory_png(call)


def _collisions(texts):
    """Pairs of texts that share more than a pixel in both directions."""
    return [
        (a, b)
        for (a, p), (b, q) in combinations(texts, 2)
        if min(p.x1, q.x1) - max(p.x0, q.x0) > 1 and min(p.y1, q.y1) - max(p.y0, q.y0) > 1
    ]


def _check_texts(picture):
    assert picture.texts
    assert _collisions(picture.texts) == []
    width, height = picture.size
    outside = [t for t, b in picture.texts if b.x0 < 0 or b.y0 < 0 or b.x1 > width or b.y1 > height]
    assert outside == []


def _png_size(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", png[16:24])


def _svg_texts(svg):
    """Texts of an SVG. They are drawn as paths; each stands before its paths as a comment."""
    root = ET.fromstring(svg, ET.XMLParser(target=ET.TreeBuilder(insert_comments=True)))  # noqa: S314 - our own file
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not list(root.iter("{http://www.w3.org/2000/svg}text"))
    return "\n".join(node.text for node in root.iter() if node.tag is ET.Comment)


# ---- both pictures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RESULTS)
def test_no_two_texts_of_a_timeline_overlap(name, timeline_of):
    _check_texts(timeline_of(name))


@pytest.mark.parametrize(
    "view",
    [
        ONE_TILE,
        {"cores": (0, 47), "first": 3400, "last": 4500},
        {"cores": (0,), "first": 2450, "last": 2560},
        {"cores": (46, 47), "first": 5000, "last": 5001},
        {"cores": (3,), "first": 0, "last": 1_000_000},
        {"cores": (0, 1, 2), "last": 6000},
    ],
)
def test_no_two_texts_of_a_part_overlap(view, timeline_of):
    _check_texts(timeline_of("double", **view))


@pytest.mark.parametrize("name", RESULTS)
def test_no_two_texts_of_a_memory_picture_overlap(name, memory_of):
    _check_texts(memory_of(name))


def test_only_the_pictures_are_offered():
    assert plot.__all__ == ["memory_png", "timeline_png", "timeline_svg"]


def test_sizes_in_pixels(files, timeline_of, memory_of):
    for of, png in ((timeline_of, files[0]), (memory_of, files[2])):
        assert _png_size(png) == tuple(int(side) for side in of("call").size)
        for name in RESULTS:
            width, height = of(name).size
            assert width == 1800
            assert (350 if name == "empty" else 450) < height < 1400


def test_the_same_result_gives_the_same_bytes_whatever_the_users_settings_are(call, files):
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black", "svg.fonttype": "none", "figure.dpi": 40}):
        before = dict(mpl.rcParams)
        assert (plot.timeline_png(call), plot.timeline_svg(call), plot.memory_png(call)) == files
        assert dict(mpl.rcParams) == before


def test_the_stamp_stands_only_where_findings_were_ignored(timeline_of, memory_of):
    for of in (timeline_of, memory_of):
        assert style.STAMP in of("despite").words()
        assert style.STAMP not in of("add").words()


@pytest.mark.parametrize("cores", [(48,), (-1,), (0, 99), ()])
def test_a_core_that_is_not_there(double, cores):
    with pytest.raises(ValueError, match="the run has cores 0 to 47"):
        plot.timeline_png(double, cores)


def test_a_core_without_memory(double):
    with pytest.raises(ValueError, match="core 48: the run has cores 0 to 47"):
        plot.memory_png(double, 48)


@pytest.mark.parametrize(("first", "last"), [(5, 5), (6, 5), (-1, 5), (20_000, None)])
def test_an_empty_range(double, first, last):
    with pytest.raises(ValueError, match="before the last"):
        plot.timeline_svg(double, first=first, last=last)


def test_pyplot_is_not_used():
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "ascendsim" / "plot").glob("*.py")]
    assert len(sources) == 5
    assert not any("import pyplot" in source or "matplotlib.pyplot" in source for source in sources)


# ---- timeline ---------------------------------------------------------------------------------------------------


def test_timeline_names_run_lanes_and_steps(double):
    texts = _svg_texts(plot.timeline_svg(double))
    for name in (
        "SCALAR",
        "MTE2",
        "V",
        "MTE3",
        "core 0",
        "core 47",
        "DataCopy",
        "grad, tile 0",
        "reducesum",
        "31 instr.",
    ):
        assert name in texts
    for fact in (
        double.name,
        "Ascend910B1",
        "makespan 14,577 cycles = 7.879 µs",
        "bottleneck MTE2",
        "cores 0 and 47 of 48",
    ):
        assert fact in texts


def test_one_tile_names_its_instructions_steps_and_waits(double):
    texts = _svg_texts(plot.timeline_svg(double, **ONE_TILE))
    for name in ("Mul", "Copy", "Sub", "reducesum, tile 0", "broadcast to k, tile 0", "flag: V_S", "queue of V full"):
        assert name in texts
    assert "cycles 2,300 to 5,300" in texts
    assert "instr." not in texts


def test_a_single_call_has_the_lanes_it_uses(timeline_of):
    texts = timeline_of("call").words()
    assert {"SCALAR", "V", "Mul", "Block\nReduceSum", "Copy", "Sub", "reducesum", "mul by src"} <= set(texts)
    assert not {"MTE2", "MTE3"} & set(texts)


def test_lanes_come_in_the_usual_order(timeline_of):
    boxes = dict(timeline_of("double", **ONE_TILE).texts)
    heights = [boxes[name].y0 for name in ("SCALAR", "MTE2", "V", "MTE3")]
    assert heights == sorted(heights, reverse=True)


def test_default_cores_are_the_first_and_the_one_that_ends_last(add):
    columns = dict(add.timeline.columns)
    columns["end"] = columns["end"].copy()
    columns["end"][np.flatnonzero(columns["core"] == 5)[-1]] += 10
    late = replace(add, timeline=replace(add.timeline, columns=columns))
    assert lanes.view_of(late, None, 0, None).cores == (0, 5)
    assert timeline._cores_text(lanes.view_of(late, None, 0, None)) == "cores 0 and 5 of 8"
    assert lanes.view_of(add, None, 0, None).cores == (0, 7), "all end together"
    assert lanes.view_of(add, (3, 3, 1), 0, None).cores == (3, 1)


def test_flags_are_drawn_only_when_they_can_be_read(timeline_of):
    few, many = (timeline_of("double", **view).words() for view in (ONE_TILE, {}))
    assert any(t.startswith("flag: SET_FLAG") for t in few)
    assert not any("not drawn" in t for t in few)
    assert any(t.startswith("80 flags are not drawn") for t in many)
    assert not any(t.startswith("flag: SET_FLAG") for t in many)


def _whole(result, cores=(0,)):
    return lanes.view_of(result, cores, 0, None)


def _union(spans):
    start, end = zip(*spans, strict=True) if spans else ((), ())
    return analysis.union_intervals(np.array(start, int), np.array(end, int))


def _length(intervals):
    return int((intervals[1] - intervals[0]).sum())


def _use(result, pipe):
    return next(u for u in result.pipe_use if (u.core, u.pipe) == (0, pipe))


def _work(view, pipe):
    """Spans in which a pipe of core 0 is drawn at work."""
    spans = [(b.start, b.end) for b in lanes._bars(view, 0, pipe)]
    return spans + list(lanes._dispatches(view, 0)) * (pipe is Pipe.S)


def test_every_wait_takes_the_flag_that_was_set_for_it(double):
    flags = lanes._flags(_whole(double), 0)
    t = double.timeline
    waits = np.flatnonzero((t["core"] == 0) & (t["kind"] == Kind.WAIT_FLAG))
    assert len(flags) == len(waits)
    assert all(f.raised <= f.taken for f in flags)
    held = waits[np.isin(t["waited_for"][waits], (Wait.FLAG, Wait.BUFFER))]
    released = {(int(t["end"][t["released_by"][n]]), int(t["start"][n] + t["wait_cycles"][n])) for n in held}
    assert released <= {(f.raised, f.taken) for f in flags}


def test_the_scalar_lane_accounts_for_every_cycle(double):
    view, t = _whole(double), double.timeline
    here = (t["core"] == 0) & (t["pipe"] == Pipe.S)
    spans = [(h.start, h.end) for h in lanes._queue_full(view, 0)] + list(lanes._dispatches(view, 0))
    spans += list(zip(t["start"][here].tolist(), t["end"][here].tolist(), strict=True))
    start, end = _union(spans)
    assert (start.tolist(), end.tolist()) == ([0], [max(e for _, e in spans)])
    assert sum(e - s for s, e in spans) == end[0]


@pytest.mark.parametrize("pipe", PIPES)
@pytest.mark.parametrize("name", ["double", "single"])
def test_waits_in_the_picture_are_the_stalls_of_the_analysis(name, pipe, request, monkeypatch):
    result = request.getfixturevalue(name)
    view = _whole(result)
    drawn = _union([(h.start, h.end) for h in lanes._holds(view, 0, pipe) if h.cause in STALLS])
    monkeypatch.setattr(lanes, "_TOUCH", 0.0)
    holds, work = [h for h in lanes._holds(view, 0, pipe) if h.cause in STALLS], _union(_work(view, pipe))
    exact = _union([(h.start, h.end) for h in holds])
    assert _length(exact) - analysis.shared_cycles(exact, work) == _use(result, pipe).stalled_cycles
    apart = _union([(h.start, h.end) for h in holds if h.cause is not Wait.BARRIER])
    assert analysis.shared_cycles(apart, work) == 0, "only a barrier may hold a pipe that still drains"
    # What is drawn is the same but for gaps too narrow to be seen.
    assert analysis.shared_cycles(exact, drawn) == _length(exact)
    assert set(drawn[0]) <= set(exact[0])
    assert set(drawn[1]) <= set(exact[1])
    inside = np.searchsorted(drawn[0], exact[0][1:], "right") == np.searchsorted(drawn[0], exact[1][:-1], "right")
    assert ((exact[0][1:] - exact[1][:-1])[inside] * view.inches <= 0.02).all()


@pytest.mark.parametrize("pipe", PIPES)
def test_the_share_beside_a_lane_is_the_work_drawn_in_it(double, pipe, timeline_of):
    work = _length(_union(_work(_whole(double), pipe)))
    assert work == _use(double, pipe).busy_cycles
    texts = timeline_of("double", **ONE_TILE).texts
    lane = dict(texts)["SCALAR" if pipe is Pipe.S else pipe.name]
    beside = [t for t, b in texts if t.endswith("% busy") and b.y0 < (lane.y0 + lane.y1) / 2 < b.y1]
    assert beside == [f"{work / double.makespan_cycles:.0%} busy"]


@pytest.mark.parametrize(("first", "last"), [(0, 3), (1, 2), (62, 1168), (1168, 1169), (1100, 1170), (2301, 5300)])
def test_a_part_shows_what_the_whole_shows_there(double, first, last):
    whole, part = _whole(double), lanes.view_of(double, (0,), first, last)

    def seen(spans):
        start, end = _union([(max(s, first), min(e, last)) for s, e in spans])
        return start.tolist(), end.tolist()

    for pipe in PIPES:
        assert seen(_work(part, pipe)) == seen(_work(whole, pipe))
    full = [[(h.start, h.end) for h in lanes._queue_full(view, 0)] for view in (part, whole)]
    assert seen(full[0]) == seen(full[1])


def test_what_the_scalar_unit_does_at_an_edge_is_shown(add, monkeypatch):
    arrays = (np.array(column) for column in ([0, 1, 2, 3], [0, 7, 16, 29], [2, 12, 25, 33], [6, 16, 29, 37]))
    known = analysis.ScalarTime(*arrays)
    monkeypatch.setattr(analysis, "scalar_time", lambda *_: known)
    view = lanes.view_of(add, (0,), 4, 14)
    assert lanes._dispatches(view, 0) == ((2, 6), (12, 16))
    assert [(h.start, h.end) for h in lanes._queue_full(view, 0)] == [(7, 12)]
    view = lanes.view_of(add, (0,), 6, 25)
    assert lanes._dispatches(view, 0) == ((12, 16),)
    assert [(h.start, h.end) for h in lanes._queue_full(view, 0)] == [(7, 12), (16, 25)]


def test_merged_blocks_hold_as_much_work_as_the_rows_in_them(double):
    view = _whole(double)
    for pipe in PIPES:
        bars = lanes._bars(view, 0, pipe)
        blocks = lanes._merged(view, bars)
        busy, drawn = (sum(b.end - b.start for b in some) for some in (bars, blocks))
        assert busy <= drawn < 1.3 * busy
    assert len(lanes._merged(view, lanes._bars(view, 0, Pipe.V))) < len(lanes._bars(view, 0, Pipe.V)) / 3


def test_a_wait_is_cut_around_busy_time():
    hold = lanes.Hold(10, 50, Wait.FLAG, "q")
    busy = (np.array([0, 20, 40, 60]), np.array([12, 30, 60, 70]))
    assert [(h.start, h.end) for h in lanes._outside(hold, busy)] == [(12, 20), (30, 40)]
    assert lanes._outside(hold, (np.array([0]), np.array([100]))) == []
    assert lanes._outside(hold, (np.array([], int), np.array([], int))) == [hold]


# ---- memory -----------------------------------------------------------------------------------------------------


def test_memory_names_buffers_tiles_and_limits(memory_of):
    texts = memory_of("double").words()
    assert {"in_grad[0]\ntile 0", "in_p[1]\ntile 3", "out[0]\ntile 4", "tmp\ntile 2"} <= set(texts)
    assert {"safe 188,160 B", "visible 196,352 B", "hardware 196,608 B", "192 KiB", "0 KiB"} <= set(texts)
    assert {"VECIN", "VECCALC", "VECOUT"} <= set(texts)


def test_a_life_has_the_colour_of_its_position(double):
    with style.settings():
        boxes = memory._figure(double, 0).axes[0].collections
    lives = analysis.lives(double.program, double.timeline, 0)
    assert {life.position for life in lives} == {"VECIN", "VECCALC", "VECOUT"}
    for life, box in zip(lives, boxes, strict=True):
        colour = memory._POSITIONS[life.position]
        wanted = style.lighter(colour, 0.35) if life.tile % 2 else colour
        assert to_hex(box.get_facecolor()[0]) == wanted


def test_a_small_region_is_shown_twice(call, memory_of):
    small, large = memory_of("call"), memory_of("double")
    assert (len(small.axes), len(large.axes)) == (3, 2)
    assert small.axes[0] == large.axes[0] == (0, 196608)
    assert small.axes[1] == (0, call.peak_bytes["UB"])
    assert {"grad", "src", "dst", "tmp"} <= set(small.words())


def test_a_text_takes_its_place_only_once():
    boxes = []
    assert memory._claim(boxes, 1.0, 1.0, "dst")
    assert not memory._claim(boxes, 1.05, 1.05, "src")
    assert memory._claim(boxes, 3.0, 1.0, "src")
