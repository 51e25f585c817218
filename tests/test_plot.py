import pickle
import struct
import subprocess
import sys
from dataclasses import replace
from functools import cache
from io import BytesIO
from itertools import combinations, pairwise
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

import ascendsim as asc
from ascendsim import analysis, plot, runfolder
from ascendsim.engine.base import Keep, Kind, Skip, Wait
from ascendsim.plot import lanes, memory, overview, parts, style, timeline
from ascendsim.plot.canvas import DPI, Boxes, Hatch, Line, Look, Pattern, Picture, Shape, Text
from ascendsim.plot.fonts import text_width
from ascendsim.plot.paint import pixels
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


class _Seen(NamedTuple):
    """Every text of a picture with its box, and the size of the picture, in pixels."""

    texts: list
    size: tuple
    picture: Picture

    def words(self):
        return [text for text, _ in self.texts]


class _Box(NamedTuple):
    x0: float
    y0: float
    x1: float
    y1: float


def _seen(picture):
    texts = [(t.text, _Box(*(side * DPI for side in t.box))) for t in picture.texts() if t.text.strip()]
    return _Seen(texts, (round(picture.width * DPI), round(picture.height * DPI)), picture)


@pytest.fixture(scope="module")
def timeline_of(request):
    """Timeline of a result given by its fixture's name. Each picture is drawn once."""

    @cache
    def of(name, cores=None, first=0, last=None):
        return _seen(plot.timeline_picture(request.getfixturevalue(name), cores, first, last))

    return of


@pytest.fixture(scope="module")
def memory_of(request):
    """UB picture of a result given by its fixture's name. Each picture is drawn once."""

    @cache
    def of(name, core=0):
        return _seen(plot.memory_picture(request.getfixturevalue(name), core))

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


def test_sizes_in_pixels(files, timeline_of, memory_of):
    for of, png in ((timeline_of, files[0]), (memory_of, files[2])):
        assert _png_size(png) == of("call").size
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


def test_matplotlib_is_used_for_its_font_only():
    loaded = "import sys, ascendsim.runfolder; print([m for m in sys.modules if m.startswith('matplotlib.fig')])"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout == "[]\n"


DRAWN = """
import os, pickle, sys
from ascendsim.plot import process
from ascendsim.runfolder import load_run
mother = os.getpid()
if sys.argv[2] == "dies":
    whole = process._others
    process._others = lambda result: whole(result) if os.getpid() == mother else os._exit(9)
how = process.draw if sys.argv[2] == "alone" else process.draw_beside
sys.stdout.buffer.write(pickle.dumps(how(load_run(sys.argv[1]))))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="copies of processes are used on Linux only")
def test_pictures_are_the_same_whoever_draws_them(double, tmp_path):
    """One process, two, and two of which one is killed. Font files that both have open would give other texts."""
    runfolder.write_run(double, tmp_path / "run")

    def drawn(how):
        command = [sys.executable, "-c", DRAWN, str(tmp_path / "run"), how]
        return pickle.loads(subprocess.run(command, capture_output=True, check=True).stdout)  # noqa: S301 - our own

    alone = drawn("alone")
    assert set(alone) == set(runfolder.PICTURES)
    assert drawn("beside") == alone
    assert drawn("dies") == alone


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
        "src, tile 0",
        "reducesum",
        "31 instr.",
    ):
        assert name in texts
    for fact in (
        double.name,
        "Ascend910B1",
        "makespan 13,660 cycles = 7.384 µs",
        "bottleneck V",
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
    assert heights == sorted(heights)


def test_default_cores_are_the_first_and_the_one_that_ends_last(add):
    columns = dict(add.timeline.columns)
    columns["end"] = columns["end"].copy()
    columns["end"][np.flatnonzero(columns["core"] == 5)[-1]] += 10
    late = replace(add, timeline=replace(add.timeline, columns=columns, makespan_cycles=int(columns["end"].max())))
    assert lanes.view_of(late, None, 0, None).cores == (0, 5)
    assert timeline._cores_text(lanes.view_of(late, None, 0, None)) == "cores 0 and 5 of 8"
    assert lanes.view_of(add, None, 0, None).cores == (0, 7), "all end together"
    assert lanes.view_of(add, (3, 3, 1), 0, None).cores == (3, 1)


def test_flags_are_drawn_only_when_they_can_be_read(timeline_of):
    few, many = (timeline_of("double", **view).words() for view in (ONE_TILE, {}))
    assert any(t.startswith("flag: SET_FLAG") for t in few)
    assert not any("flags are not drawn" in t for t in few)
    assert any(t.startswith("80 flags are not drawn") for t in many)
    assert not any(t.startswith("flag: SET_FLAG") for t in many)


def _whole(result, cores=(0,)):
    return lanes.view_of(result, cores, 0, None)


def _union(spans):
    start, end = zip(*spans, strict=True) if spans else ((), ())
    return analysis.union_intervals(np.array(start, int), np.array(end, int))


def _length(intervals):
    return int((intervals[1] - intervals[0]).sum())


def _shared(a, b):
    """Length of what two sets of disjoint intervals have in common."""
    both = ((max(s, u), min(e, v)) for s, e in zip(*a, strict=True) for u, v in zip(*b, strict=True))
    return sum(max(0, int(end - start)) for start, end in both)


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
    assert _length(exact) - _shared(exact, work) == _use(result, pipe).stalled_cycles
    apart = _union([(h.start, h.end) for h in holds if h.cause is not Wait.BARRIER])
    assert _shared(apart, work) == 0, "only a barrier may hold a pipe that still drains"
    # What is drawn is the same but for gaps too narrow to be seen.
    assert _shared(exact, drawn) == _length(exact)
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


def test_a_life_has_the_colour_and_the_place_of_its_allocation(double):
    boxes = plot.memory_picture(double).layers[style.MIDDLE]
    lives = analysis.lives(double.program, double.timeline, 0)
    assert {life.position for life in lives} == {"VECIN", "VECCALC", "VECOUT"}
    for life, box in zip(lives, boxes, strict=True):
        colour = memory.POSITIONS[life.position]
        assert box.look.fill == (style.lighter(colour, 0.35) if life.tile % 2 else colour)
        ((left, top, right, bottom),) = box.boxes
        assert left - memory.LEFT == pytest.approx(life.start / double.makespan_cycles * memory.CHART)
        assert right - memory.LEFT == pytest.approx(life.end / double.makespan_cycles * memory.CHART)
        assert bottom - style.TOP == pytest.approx(4.6 * (1 - life.address_bytes / double.device.ub_bytes))
        assert bottom - top == pytest.approx(4.6 * life.allocation_bytes / double.device.ub_bytes)


def test_a_small_region_is_shown_twice(call, memory_of):
    small, large = memory_of("call").words(), memory_of("double").words()
    assert "the used addresses, enlarged" in small
    assert "the used addresses, enlarged" not in large
    assert {"grad", "src", "dst", "tmp"} <= set(small)
    boxes = [item.boxes[0] for item in plot.memory_picture(call).layers[style.MIDDLE]]
    lives = analysis.lives(call.program, call.timeline, 0)
    assert len(boxes) == 2 * len(lives)
    for life, (_, top, _, bottom) in zip(lives, boxes[len(lives) :], strict=True):
        assert bottom - top == pytest.approx(2.6 * life.allocation_bytes / call.peak_bytes["UB"])


def test_a_text_takes_its_place_only_once():
    taken = []

    def claim(x, text):
        return memory._claim(taken, Text(x, 1.0, text, 8, "#000000"))

    assert claim(1.0, "dst")
    assert not claim(1.05, "src")
    assert claim(3.0, "src")


# ---- canvas and files -------------------------------------------------------------------------------------------


def _pixels(*items, width=10, height=8):
    """Pixels of a picture of so many by so many of them, in which one unit of the items is one pixel."""
    picture = Picture(width / DPI, height / DPI)
    for item in items:
        picture.add(item)
    return pixels(picture)


def _px(*boxes, **look):
    return Boxes(tuple(tuple(side / DPI for side in box) for box in boxes), Look(**look))


def test_a_box_covers_its_pixels_and_its_share_of_those_at_its_edges():
    seen = _pixels(_px((2, 1, 5.5, 4), fill="#000000"))[:, :, 0]
    want = np.full((8, 10), 255)
    want[1:4, 2:5] = 0
    want[1:4, 5] = 128
    assert np.abs(seen.astype(int) - want).max() <= 1


def test_narrow_boxes_look_as_full_as_they_are():
    narrow = [(x + k / 4, 0, x + k / 4 + 0.125, 8) for x in range(10) for k in range(4)]
    assert set(_pixels(_px(*narrow, fill="#000000")).ravel().tolist()) <= {127, 128}


def test_what_reaches_beyond_the_picture_is_cut_off():
    assert (_pixels(_px((-5, -5, 50, 50), fill="#102030")) == (16, 32, 48)).all()
    assert (_pixels(_px((20, 20, 30, 30), fill="#000000")) == 255).all()
    text = Text(-0.02, 0.0, "clipped\nhere", 8, "#000000")
    assert _pixels(text).shape == (8, 10, 3)


def test_an_edge_lies_around_its_box():
    seen = _pixels(_px((2, 2, 8, 6), fill="#ffffff", edge="#000000", edge_points=2 * 72 / DPI))[:, :, 0]
    assert (seen[1:7, 1:3] == 0).all()
    assert (seen[3:5, 3:7] == 255).all()
    assert (seen[:, 0] == 255).all()


@pytest.mark.parametrize("pattern", list(Pattern))
def test_a_hatch_covers_its_box_and_nothing_else(pattern):
    seen = _pixels(_px((10, 10, 50, 50), hatch=Hatch(pattern, 3.0, "#000000", 1.0)), width=60, height=60)[:, :, 0]
    inside = seen[10:50, 10:50]
    assert 0.1 < (255 - inside).mean() / 255 < 0.75
    assert (255 - inside).any(axis=1).mean() > 0.3
    seen[10:50, 10:50] = 255
    assert (seen == 255).all()


def test_lines_and_dashes():
    flat = Line((0, 4 / DPI), (10 / DPI, 4 / DPI), "#000000", 2 * 72 / DPI)
    assert (_pixels(flat)[:, :, 0] == np.repeat([255, 0, 255], [3, 2, 3])[:, None]).all()
    dashed = replace(flat, dashes=(2 * 72 / DPI, 3 * 72 / DPI))
    assert _pixels(dashed)[3, :, 0].tolist() == [0, 0, 255, 255, 255] * 2
    steep = Line((1 / DPI, 1 / DPI), (9 / DPI, 7 / DPI), "#000000", 72 / DPI)
    length = (255 - _pixels(steep)[:, :, 0].astype(float)).sum() / 255
    assert length == pytest.approx(10, abs=1.5)


def test_a_shape_is_filled():
    triangle = Shape(((0, 0), (40 / DPI, 0), (0, 40 / DPI)), "#000000")
    seen = _pixels(triangle, width=40, height=40)[:, :, 0]
    assert (seen[:18, :18] == 0).all()
    assert (seen[22:, 22:] == 255).all()


@pytest.mark.parametrize(("text", "bold"), [("reducesum, tile 12", False), ("Block", False), ("SIMULATED", True)])
@pytest.mark.parametrize("upright", [False, True])
def test_texts_stand_where_they_were_measured_to(text, bold, upright):
    item = Text(1.6, 1.6, text, 24, "#000000", bold=bold, upright=upright)
    rows, columns = np.nonzero(_pixels(item, width=480, height=480)[:, :, 0] < 128)
    left, top, right, bottom = (side * DPI for side in item.box)
    along, across = 8, 18  # letters have some room beside them, and do not fill the height of a line
    assert columns.min() == pytest.approx(left, abs=across if upright else along)
    assert columns.max() == pytest.approx(right, abs=across if upright else along)
    assert rows.min() == pytest.approx(top, abs=along if upright else across)
    assert rows.max() == pytest.approx(bottom, abs=along if upright else across)


def test_a_character_without_a_font_is_measured_too():
    assert text_width("数", 8) > 0


def test_an_upright_text_is_a_quarter_turn_of_a_level_one():
    place = (30 / DPI, 30 / DPI)
    level = _pixels(Text(*place, "UB", 8, "#000000"), width=60, height=60)
    upright = _pixels(Text(*place, "UB", 8, "#000000", upright=True), width=60, height=60)
    assert (np.rot90(level) == upright).mean() > 0.97


def test_the_png_holds_the_pixels(call):
    picture = plot.timeline_picture(call)
    image = Image.open(BytesIO(plot.png(picture)))
    assert (np.asarray(image.convert("RGB")) == pixels(picture)).all()
    assert [round(d) for d in image.info["dpi"]] == [DPI, DPI]


def test_the_svg_holds_the_boxes_of_the_picture(call, named):
    picture = plot.timeline_picture(call)
    root = ET.fromstring(plot.svg(picture, call.name))  # noqa: S314 - our own file
    filled = [p for p in root.iter("{http://www.w3.org/2000/svg}path") if "fill: #" in p.get("style", "")]
    drawn = sum(
        p.get("d").count("z") for p in filled if "stroke" not in p.get("style") or "fill: none" not in p.get("style")
    )
    boxes = sum(len(item.boxes) for item in picture.items() if isinstance(item, Boxes) and item.look.fill)
    shapes = sum(isinstance(item, Shape) for item in picture.items())
    grounds = sum(bool(t.ground) for t in picture.texts())
    assert drawn >= boxes + shapes + grounds + 1
    root = ET.fromstring(plot.timeline_svg(replace(named, name="a\x01--b <&>")))  # noqa: S314 - our own file
    assert root.find("{http://www.w3.org/2000/svg}title").text == "a\u25a1--b <&>"


@pytest.mark.parametrize(
    ("least", "whole", "step"),
    [
        (1, True, 1),
        (0.3, True, 1),
        (2.1, True, 5),
        (21, True, 25),
        (2.1, False, 2.5),
        (0.011, False, 0.02),
        (10, True, 10),
        (999, True, 1000),
        (260_000, True, 500_000),
    ],
)
def test_steps_of_an_axis(least, whole, step):
    assert style.nice_step(least, whole=whole) == pytest.approx(step)


def _busy(t, core, pipe):
    """Disjoint stretches in which a pipe of a core is at work."""
    here = (t["core"] == core) & (t["pipe"] == pipe) & np.isin(t["kind"], analysis.WORK)
    return analysis.union_intervals(t["start"][here], t["end"][here])


# ---- long runs --------------------------------------------------------------------------------------------------

WINDOWS = ((5000, 6000), (9000, 9400))
SKIPS = (Skip(5250, 9000, 1250, 12_000), Skip(9100, 9110, 5, 300))


def _kept(result, calls, windows=()):
    """A run of which only the first and last calls of every core are kept, and what is in windows."""
    core = result.program.calls["core"]
    chosen = np.zeros(len(core), np.bool_)
    for number in np.unique(core):
        mine = np.flatnonzero(core == number)
        chosen[mine[:calls]] = chosen[mine[len(mine) - calls :]] = True
    t = result.timeline
    rows = Keep(chosen, windows).chosen(t["call"], t["call"], t["dispatched"], t["stuck_cycles"], t["end"])
    columns = {name: column[rows] for name, column in t.columns.items()}
    return replace(result, timeline=replace(t, columns=columns), windows=windows)


@pytest.fixture(scope="module")
def long(double):
    return _kept(double, 3)


@pytest.fixture(scope="module")
def long_windows(double):
    return _kept(double, 3, WINDOWS)


@pytest.fixture(scope="module")
def repeated(long):
    return replace(long, timeline=replace(long.timeline, skipped=SKIPS))


@pytest.fixture(scope="module")
def short_windows(double):
    return replace(double, windows=(*WINDOWS, (13_000, 99_999)))


@pytest.fixture(scope="module")
def many_windows(double):
    return _kept(double, 2, tuple((1000 * i, 1000 * i + 300) for i in range(1, 10)))


LONG = ("long", "long_windows", "repeated", "short_windows", "many_windows")


@pytest.mark.parametrize("name", LONG)
def test_no_two_texts_of_a_long_run_overlap(name, timeline_of, memory_of):
    _check_texts(timeline_of(name))
    _check_texts(memory_of(name))
    assert timeline_of(name).size[0] == 1800


@pytest.mark.parametrize("core", [0, 17, 47])
@pytest.mark.parametrize("calls", [1, 2, 3])
def test_no_row_is_missing_at_the_edges(double, calls, core):
    part, t = _kept(double, calls), double.timeline
    (zero, first), (last, end) = analysis.edges(part.program, part.timeline, core)
    assert (zero, end) == (0, double.makespan_cycles)
    assert 0 < first < last <= end
    assert calls == 1 or last < end
    missing = np.setdiff1d(np.flatnonzero(t["core"] == core), part.timeline["number"])
    assert missing.size
    assert (t["start"][missing] >= first).all()
    assert (t["occupied"][missing] <= last).all()
    assert analysis.edges(double.program, double.timeline, core) == ((0, end), (end, end))


def test_what_is_kept_and_drawn(double, long, long_windows, short_windows):
    begin, end = analysis.edges(long.program, long.timeline, 0)
    assert [(p.name, p.first, p.last) for p in parts.kept(long, (0,))] == [("first part", *begin), ("last part", *end)]
    assert parts.to_draw(long, (0,)) == parts.kept(long, (0,))
    assert [(p.first, p.last) for p in parts.to_draw(long_windows, (0,))] == list(WINDOWS)
    assert [(p.first, p.last) for p in parts.windows(short_windows)][-1] == (13_000, double.makespan_cycles)
    assert parts.kept(double, (0,)) == [parts.Part("run", 0, double.makespan_cycles)]
    meeting = _kept(double, 3, ((begin[0], begin[1] + 5), (begin[1] + 5, begin[1] + 9)))
    first = parts.kept(meeting, (0,))[0]
    assert (first.first, first.last) == (0, begin[1] + 9)


@pytest.mark.parametrize("pipe", PIPES)
def test_a_kept_part_shows_what_the_whole_run_shows_there(double, long, pipe):
    for part in parts.kept(long, (0,)):
        whole, cut = (lanes.view_of(result, (0,), part.first, part.last) for result in (double, long))
        shown = [[(max(b.start, part.first), min(b.occupied, part.last)) for b in lanes._bars(v, 0, pipe)
                  if b.occupied > part.first] for v in (whole, cut)]  # fmt: skip
        assert shown[0] == shown[1]


def test_arrows_stand_only_between_flags_that_are_known_to_belong_together(double, long):
    whole = set(lanes._flags(_whole(double), 0))
    cut = set(lanes._flags(_whole(long), 0))
    assert cut
    assert cut < whole


def test_the_overview_is_the_use_of_the_pipes(double):
    cuts, shares = analysis.utilisation(double.timeline)
    t, end = double.timeline, double.makespan_cycles
    width = t.totals.bin_cycles
    assert cuts.tolist() == [*range(0, end, width), end]
    assert set(shares) == {Pipe.V, Pipe.MTE2, Pipe.MTE3}
    for pipe, share in shares.items():
        busy = np.zeros(end, int)
        for core in range(double.program.block_dim):
            for a, b in zip(*_busy(t, core, pipe), strict=True):
                busy[a:b] += 1
        want = [busy[a:b].sum() / (48 * (b - a)) for a, b in pairwise(cuts.tolist())]
        assert share == pytest.approx(want)
        assert share.max() <= 1


def test_the_overview_shows_use_marks_and_periods(repeated):
    picture = plot.timeline_picture(repeated)
    words = [t.text for t in picture.texts()]
    shares = analysis.utilisation(repeated.timeline)[1]
    for pipe, share in shares.items():
        mine = [box for item in picture.items() if isinstance(item, Boxes) and item.look == Look(style.COLOURS[pipe])
                for box in item.boxes if box[3] < 4]  # fmt: skip
        assert sorted(b[3] - b[1] for b in mine) == pytest.approx(sorted(0.5 * s for s in share.tolist() if s > 0))
        busy = int(repeated.timeline.totals.busy_cycles[:, pipe].sum())
        assert f"{busy / (48 * repeated.makespan_cycles):.0%} busy" in words
    assert "period of 1,250 cycles, 12,000 rows" in words, "as much as fits"
    assert "cycles 9,100 to 9,110: repeats a period of 5 cycles, 300 rows not simulated" in words
    assert {"rows drawn below", "repeats a period, added up"} <= set(words)
    assert any(w.startswith("core 0, first part: cycles 0 to") for w in words)
    assert any(w.startswith("core 0, last part: cycles") for w in words)


def test_the_strip_marks_where_rows_are(long, long_windows):
    for result, drawn_parts in ((long, parts.kept(long, (0,))), (long_windows, parts.windows(long_windows))):
        picture = plot.timeline_picture(result)
        scale = lanes.CHART / result.makespan_cycles
        for look, wanted in ((overview._DRAWN, drawn_parts), (overview._KEPT, parts.kept(result, (0,)))):
            boxes = [item.boxes[0] for item in picture.items() if isinstance(item, Boxes) and item.look == look]
            strip = [(b[0] - lanes.LEFT, b[2] - lanes.LEFT) for b in boxes if b[1] == pytest.approx(style.TOP + 0.04)]
            assert strip == [pytest.approx((p.first * scale, p.last * scale)) for p in wanted]
    assert "rows kept" in [t.text for t in plot.timeline_picture(long_windows).texts()]


def test_windows_of_a_short_run_are_all_that_is_drawn(short_windows, timeline_of):
    words = timeline_of("short_windows").words()
    assert "core 0, window 1: cycles 5,000 to 6,000" in words
    assert "core 0, window 3: cycles 13,000 to 13,660" in words
    assert "rows kept" not in words
    assert "36,720 rows" in next(w for w in words if "makespan" in w)


def test_so_many_windows_are_not_all_drawn(timeline_of, memory_of):
    words = timeline_of("many_windows").words()
    assert sum(w.startswith("core 0, window") for w in words) == parts.MOST
    assert "3 more parts are not drawn: choose fewer windows" in words
    assert any("more parts are not drawn" in w for w in memory_of("many_windows").words())


def test_a_range_that_was_chosen_is_drawn_from_what_is_there(long, timeline_of):
    words = timeline_of("long", (0, 3), 0, 3000).words()
    assert {"core 0", "core 3"} <= set(words)
    assert "not all rows of the run were kept: only those are drawn" in words


def test_memory_of_a_long_run_has_a_gap(long, memory_of):
    begin, end = analysis.edges(long.program, long.timeline, 0)
    words = memory_of("long").words()
    assert f"{end[0] - begin[1]:,} cycles without rows" in words
    assert "beside a gap a buffer is seen only from its first to its last access on this side" in words
    picture = plot.memory_picture(long)
    gaps = [b for item in picture.items() if isinstance(item, Boxes) and item.look == style.GAP for b in item.boxes]
    assert len(gaps) == 2, "addresses and bytes in use"
    for left, _, right, _ in gaps:
        lives = [b for item in picture.layers[style.MIDDLE] for b in item.boxes]
        assert not any(a < right - 1e-9 and b > left + 1e-9 for a, _, b, _ in lives)
