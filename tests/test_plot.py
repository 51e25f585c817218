import struct
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.text import Text

import ascendsim as asc
from ascendsim import analysis, plot
from ascendsim.engine.base import Kind, Wait
from ascendsim.terms import Pipe

ROOT = Path(__file__).parent.parent
ONE_TILE = {"cores": (0,), "first": 2300, "last": 5300}


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


@pytest.fixture
def named(despite):
    """A name that would run into the stamp, with what other text systems would take for markup."""
    return replace(despite, name="$x_{1}$ & <b>数据</b> " * 12)


RESULTS = ("double", "single", "add", "despite", "call", "half_call", "reuse_call", "empty", "named")


def _timeline(result, cores=None, first=0, last=None):
    with plot._settings():
        return plot._timeline_figure(result, cores, first, last)


def _memory(result, core=0):
    with plot._settings():
        return plot._memory_figure(result, core)


def _drawn(figure, monkeypatch):
    """Every text that is really drawn, with its box in pixels."""
    for collection in figure.findobj(PolyCollection):
        collection.set_visible(False)  # texts are what is looked at; hatches are slow
    texts = []
    draw = Text.draw

    def noted(self, renderer, *args, **kwargs):
        if self.get_visible() and self.get_text().strip():
            texts.append((self.get_text(), Text.get_window_extent(self, renderer)))
        return draw(self, renderer, *args, **kwargs)

    monkeypatch.setattr(Text, "draw", noted)
    with plot._settings():
        FigureCanvasAgg(figure).draw()
    monkeypatch.undo()
    return texts


def _collisions(texts):
    """Pairs of texts that share more than a pixel in both directions."""
    return [
        (a, b)
        for (a, p), (b, q) in combinations(texts, 2)
        if min(p.x1, q.x1) - max(p.x0, q.x0) > 1 and min(p.y1, q.y1) - max(p.y0, q.y0) > 1
    ]


def _texts(figure, monkeypatch):
    return [text for text, _ in _drawn(figure, monkeypatch)]


def _check_texts(figure, monkeypatch):
    texts = _drawn(figure, monkeypatch)
    assert _collisions(texts) == []
    width, height = figure.get_size_inches() * figure.dpi
    outside = [t for t, b in texts if b.x0 < 0 or b.y0 < 0 or b.x1 > width or b.y1 > height]
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
def test_no_two_texts_of_a_timeline_overlap(name, request, monkeypatch):
    _check_texts(_timeline(request.getfixturevalue(name)), monkeypatch)


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
def test_no_two_texts_of_a_part_overlap(double, view, monkeypatch):
    _check_texts(_timeline(double, **view), monkeypatch)


@pytest.mark.parametrize("name", RESULTS)
def test_no_two_texts_of_a_memory_picture_overlap(name, request, monkeypatch):
    _check_texts(_memory(request.getfixturevalue(name)), monkeypatch)


def test_sizes_in_pixels(add, call):
    for png in (plot.timeline_png(add), plot.timeline_png(call), plot.memory_png(add), plot.memory_png(call)):
        width, height = _png_size(png)
        assert width == 1800
        assert 450 < height < 1400


def test_the_same_result_gives_the_same_bytes(half_call):
    assert plot.timeline_png(half_call) == plot.timeline_png(half_call)
    assert plot.timeline_svg(half_call) == plot.timeline_svg(half_call)
    assert plot.memory_png(half_call) == plot.memory_png(half_call)


def test_the_users_settings_neither_matter_nor_change(call):
    svg, memory = plot.timeline_svg(call), plot.memory_png(call)
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black", "svg.fonttype": "none", "figure.dpi": 40}):
        before = dict(mpl.rcParams)
        assert plot.timeline_svg(call) == svg
        assert plot.memory_png(call) == memory
        assert dict(mpl.rcParams) == before


def test_the_stamp_stands_only_where_findings_were_ignored(despite, add, monkeypatch):
    assert plot.STAMP in _svg_texts(plot.timeline_svg(despite))
    assert plot.STAMP in _texts(_memory(despite), monkeypatch)
    assert plot.STAMP not in _svg_texts(plot.timeline_svg(add))
    assert plot.STAMP not in _texts(_memory(add), monkeypatch)


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
    source = (ROOT / "ascendsim" / "plot.py").read_text(encoding="utf-8")
    assert "import pyplot" not in source
    assert "matplotlib.pyplot" not in source


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
    for fact in (double.name, "Ascend910B1", "makespan 14,577 cycles = 7.879 µs", "bottleneck MTE2", "of 48"):
        assert fact in texts


def test_one_tile_names_its_instructions_steps_and_waits(double):
    texts = _svg_texts(plot.timeline_svg(double, **ONE_TILE))
    for name in ("Mul", "Copy", "Sub", "reducesum, tile 0", "broadcast to k, tile 0", "flag: V_S", "queue of V full"):
        assert name in texts
    assert "cycles 2,300 to 5,300" in texts
    assert "instr." not in texts


def test_a_single_call_has_the_lanes_it_uses(call, monkeypatch):
    texts = _texts(_timeline(call), monkeypatch)
    assert {"SCALAR", "V", "Mul", "Block\nReduceSum", "Copy", "Sub", "reducesum", "mul by src"} <= set(texts)
    assert not {"MTE2", "MTE3"} & set(texts)


def test_lanes_come_in_the_usual_order(double, monkeypatch):
    boxes = dict(_drawn(_timeline(double, (7,)), monkeypatch))
    heights = [boxes[name].y0 for name in ("SCALAR", "MTE2", "V", "MTE3")]
    assert heights == sorted(heights, reverse=True)


def test_default_cores_are_the_first_and_the_one_that_ends_last(add):
    columns = dict(add.timeline.columns)
    columns["end"] = columns["end"].copy()
    columns["end"][np.flatnonzero(columns["core"] == 5)[-1]] += 10
    late = replace(add, timeline=replace(add.timeline, columns=columns))
    assert plot._view(late, None, 0, None).cores == (0, 5)
    assert "cores 0 and 5 of 8" in _svg_texts(plot.timeline_svg(late))
    assert plot._view(add, None, 0, None).cores == (0, 7), "all end together"
    assert plot._view(add, (3, 3, 1), 0, None).cores == (3, 1)


def test_flags_are_drawn_only_when_they_can_be_read(double, monkeypatch):
    few, many = (_texts(_timeline(double, **view), monkeypatch) for view in (ONE_TILE, {"cores": (0,)}))
    assert any(t.startswith("flag: SET_FLAG") for t in few)
    assert not any("not drawn" in t for t in few)
    assert any(t.startswith("40 flags are not drawn") for t in many)
    assert not any(t.startswith("flag: SET_FLAG") for t in many)


def _whole(result, cores=(0,)):
    return plot._view(result, cores, 0, None)


def test_every_wait_takes_the_flag_that_was_set_for_it(double):
    flags = plot._flags(_whole(double), 0)
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
    spans = [(h.start, h.end) for h in plot._queue_full(view, 0)] + list(plot._dispatches(view, 0))
    spans += list(zip(t["start"][here].tolist(), t["end"][here].tolist(), strict=True))
    start, end = analysis.union_intervals(*(np.array(side) for side in zip(*spans, strict=True)))
    assert (start.tolist(), end.tolist()) == ([0], [max(e for _, e in spans)])
    assert sum(e - s for s, e in spans) == end[0]


@pytest.mark.parametrize("pipe", [Pipe.S, Pipe.V, Pipe.MTE2, Pipe.MTE3])
def test_waits_in_the_picture_are_the_stalls_of_the_analysis(double, pipe):
    holds = [h for h in plot._holds(_whole(double), 0, pipe) if h.cause in (Wait.FLAG.words, Wait.BUFFER.words)]
    use = next(u for u in double.pipe_use if (u.core, u.pipe) == (0, pipe))
    drawn = sum(h.end - h.start for h in holds)
    assert use.stalled_cycles <= drawn <= use.stalled_cycles + 2 * len(holds)


def test_merged_blocks_hold_as_much_work_as_the_rows_in_them(double):
    view = _whole(double)
    for pipe in (Pipe.S, Pipe.V, Pipe.MTE2, Pipe.MTE3):
        bars = plot._bars(view, 0, pipe)
        blocks = plot._merged(view, bars)
        busy, drawn = (sum(b.end - b.start for b in some) for some in (bars, blocks))
        assert busy <= drawn < 1.3 * busy
    assert len(plot._merged(view, plot._bars(view, 0, Pipe.V))) < len(plot._bars(view, 0, Pipe.V)) / 3


def test_a_wait_is_cut_around_busy_time():
    hold = plot._Hold(10, 50, "flag", "q")
    busy = (np.array([0, 20, 40, 60]), np.array([12, 30, 60, 70]))
    assert [(h.start, h.end) for h in plot._outside(hold, busy)] == [(12, 20), (30, 40)]
    assert plot._outside(hold, (np.array([0]), np.array([100]))) == []
    assert plot._outside(hold, (np.array([], int), np.array([], int))) == [hold]


# ---- memory -----------------------------------------------------------------------------------------------------


def test_memory_names_buffers_tiles_and_limits(double, monkeypatch):
    texts = _texts(_memory(double), monkeypatch)
    assert {"in_grad[0]\ntile 0", "in_p[1]\ntile 3", "out[0]\ntile 4", "tmp\ntile 2"} <= set(texts)
    assert {"safe 188,160 B", "visible 196,352 B", "hardware 196,608 B", "192 KiB", "0 KiB"} <= set(texts)
    assert {"VECIN", "VECCALC", "VECOUT"} <= set(texts)


def test_a_small_region_is_shown_twice(call, double, monkeypatch):
    small, large = _memory(call), _memory(double)
    assert (len(small.axes), len(large.axes)) == (3, 2)
    assert small.axes[0].get_ylim() == large.axes[0].get_ylim() == (0, 196608)
    assert small.axes[1].get_ylim() == (0, call.peak_bytes["UB"])
    assert {"grad", "src", "dst", "tmp"} <= set(_texts(small, monkeypatch))


def test_texts_of_tensors_that_share_their_place_do_not_overlap(reuse_call, monkeypatch):
    assert _collisions(_drawn(_memory(reuse_call), monkeypatch)) == []
    boxes = []
    assert plot._claim(boxes, 1.0, 1.0, "dst")
    assert not plot._claim(boxes, 1.05, 1.05, "src")
    assert plot._claim(boxes, 3.0, 1.0, "src")
