"""Pages in a browser, opened from disk: what they show is the run, and pointer and keys find their way in it."""

import base64
import io
import itertools
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from browser import ABSENT, Browser, find_browser
from PIL import Image

import ascendsim as asc
from ascendsim import analysis, dumps, window
from ascendsim.engine.base import Kind
from ascendsim.errors import Finding
from ascendsim.isa.log import called, mnemonic
from ascendsim.terms import Pipe
from ascendsim.viewer import report_html

pytestmark = pytest.mark.skipif(find_browser() is None, reason=ABSENT)
STORED = Path(__file__).parent / "page_of_vector_add.png"
ORDINARY_BYTES, LONG_BYTES = 2_000_000, 15_000_000
SHIFT = 8
"""Of modifiers."""


@pytest.fixture(scope="module")
def browser():
    with Browser() as begun:
        yield begun


@pytest.fixture(scope="module")
def softmax():
    return asc.run("softmaxgrad_960x960_float", set={"machine.values": "none"})


@pytest.fixture(scope="module")
def mixed():
    return asc.run("fag_same_ab_small", set={"machine.values": "none"})


@pytest.fixture(scope="module")
def product():
    """Its scalar units have no rows of their own, they only dispatch."""
    return asc.run("matmul_512x512x512_half", set={"machine.values": "none"})


@pytest.fixture(scope="module")
def show(browser, tmp_path_factory):
    """A function that opens a run's page; in the end nothing may have gone wrong on any."""
    pages = []

    def shown(result, folder="page", **how):
        file = tmp_path_factory.mktemp(folder) / "report.html"
        file.write_text(report_html(result), encoding="utf-8")
        pages.append(browser.open(file, **how))
        return pages[-1]

    yield shown
    assert [page.troubles() for page in pages] == [[]] * len(pages)


@pytest.fixture(scope="module")
def softmax_page(show, softmax):
    return show(softmax)


@pytest.fixture
def page(softmax_page):
    """A page as it is when opened."""
    softmax_page.show()
    softmax_page.run("document.getElementById('help').close(); document.getElementById('lanes').focus()")
    softmax_page.key("Escape")
    softmax_page.run(
        "viewer.view.folded.clear(); viewer.view.scroll = 0; viewer.view.setCore(0); viewer.panels.show('overview')"
    )
    softmax_page.run("viewer.view.look(0, viewer.model.makespan)")
    softmax_page.settle()
    return softmax_page


def _view(page):
    return page.run("[viewer.view.from, viewer.view.to]")


def _index(page, number):
    return page.run(f"viewer.model.row({number})")


def _place(page, number):
    """Where a row is on the screen, its lane brought into view."""
    page.run(f"viewer.view.goTo(viewer.model.row({number}))")
    page.settle()
    return page.run(f"""(() => {{
        const {{ view, model }} = viewer, row = model.row({number});
        const box = document.getElementById("lanes").getBoundingClientRect();
        const x = view.x((model.start[row] + model.occupied[row]) / 2);
        return [box.left + x, box.top + view.painter.laneY.get(model.laneOf[row])];
    }})()""")


def _set_marks(page, state):
    """What is drawn over the boxes: arrows and critical path."""
    page.run(f"viewer.view.showArrows = viewer.view.showCritical = {state}")


def _corner(page):
    """Where the lanes begin on the screen."""
    return page.run(
        "(() => { const b = document.getElementById('lanes').getBoundingClientRect(); return [b.left, b.top]; })()"
    )


def _first(result, kind, core=0):
    t = result.timeline
    return int(np.flatnonzero((t["kind"] == kind) & (t["core"] == core) & (t["wait_cycles"] > 0))[0])


# ---- what it holds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "mixed"])
def test_the_page_holds_the_timeline(show, name, request):
    result = request.getfixturevalue(name)
    t, page = result.timeline, show(result)
    assert page.run("viewer.model.count") == len(t) == result.timeline.row_count
    sums = page.run("['start', 'occupied', 'end'].map((name) => viewer.model[name].reduce((a, b) => a + b, 0))")
    assert sums == [int(t[name].sum()) for name in ("start", "occupied", "end")]
    by_number = page.run("""(() => {
        const m = viewer.model;
        return Array.from(m.byNumber, (i) => [m.start[i], m.end[i], m.core(i), m.number[i]]);
    })()""")
    assert by_number == np.stack([t["start"], t["end"], t["core"], t["number"]], axis=1).tolist()
    pairs = page.run("""(() => {
        const m = viewer.model, waits = Array.from(m.start.keys()).filter((i) => m.columns.partner[i]);
        return waits.map((i) => [m.number[i], m.number[m.partners(i)[0]]]);
    })()""")
    assert dict(pairs) == analysis.flag_pairs(analysis.Rows(result.program, t))
    lives = analysis.Lives(result.program, t)
    counted = page.run("""viewer.model.cores.map((core) => {
        const places = [...viewer.model.memoryOf.get(core).values()].flat();
        return places.reduce((sum, place) => sum + place.strip.count, 0);
    })""")
    assert counted == [len(lives.of(core)) for core in range(result.program.core_count)]


@pytest.mark.parametrize("name", ["softmax", "mixed", "product"])
def test_busy_shares_are_those_of_the_report(show, name, request):
    result = request.getfixturevalue(name)
    page = show(result)
    shares = page.run("""viewer.model.lanes.map((lane) => [
        lane.core, lane.pipe, viewer.model.strip(lane).busyBetween(0, viewer.model.makespan),
    ])""")
    busy = {(use.core, int(use.pipe)): use.busy_cycles for use in result.pipe_use}
    assert {(core, pipe): cycles for core, pipe, cycles in shares if (core, pipe) in busy and pipe} == {
        key: cycles for key, cycles in busy.items() if key[1]
    }


@pytest.mark.parametrize("name", ["mixed", "product"])
def test_the_critical_path_tiles_the_run(show, name, request):
    result = request.getfixturevalue(name)
    page = show(result)
    steps = page.run(
        "viewer.model.critical.map((s) => [s.begin, s.end, s.row < 0 ? -1 : viewer.model.number[s.row], s.edge])"
    )
    assert steps == [[s.begin_cycles, s.end_cycles, s.row, s.edge.words] for s in result.critical_path]
    assert page.run("viewer.model.critical.every((s) => s.lane >= 0)")
    assert page.run("!document.getElementById('tab-critical').hidden")


def test_lines_cost_what_the_steps_cost(page, softmax):
    """Cycles per line and per marked step are two ways to add the same cycles up."""
    total = page.run("viewer.model.head.line_cycles.reduce((sum, [, work]) => sum + work, 0)")
    assert total == int(softmax.timeline.totals.spent_cycles.sum())
    shown = page.run("document.querySelectorAll('#panel-source .source tbody button').length")
    assert shown > 5


# ---- pointer and keys -------------------------------------------------------------------------------------------


def test_keys_zoom_and_pan(page, softmax):
    end = softmax.makespan_cycles
    page.key("+")
    assert _view(page) == [end / 4, 3 * end / 4]
    page.key("ArrowRight")
    assert _view(page) == pytest.approx([end / 4 + 0.15 * end / 2, 3 * end / 4 + 0.15 * end / 2])
    page.key("ArrowLeft")
    page.key("-")
    assert _view(page) == [0, end]
    page.key("+")
    page.key("Home")
    assert _view(page) == [0, end / 2]
    page.key("End")
    assert _view(page) == [end / 2, end]
    page.key("0")
    assert _view(page) == [0, end]
    for _ in range(30):
        page.key("+")
    first, last = _view(page)
    assert last - first == 8
    page.key("ArrowDown")
    assert page.run("viewer.view.scroll") == 40


def test_the_wheel_zooms_where_the_pointer_is(page, softmax):
    box = _corner(page)
    x, y = box[0] + 400, box[1] + 100
    cycle = page.run("viewer.view.cycle(400)")
    page.wheel(x, y, -150)
    first, last = _view(page)
    assert last - first == pytest.approx(softmax.makespan_cycles * np.exp(-0.5))
    assert page.run("viewer.view.cycle(400)") == pytest.approx(cycle)
    page.wheel(x, y, 150)
    assert _view(page) == pytest.approx([0, softmax.makespan_cycles])
    page.wheel(box[0] + 20, y, 90)
    assert (page.run("viewer.view.scroll"), _view(page)) == (90, pytest.approx([0, softmax.makespan_cycles]))


def test_dragging_pans_and_on_the_ruler_zooms(page):
    left, top = _corner(page)
    first, last = page.run("[viewer.view.cycle(300), viewer.view.cycle(500)]")
    page.drag((left + 300, top + 10), (left + 500, top + 10))
    assert _view(page) == pytest.approx([first, last])
    page.drag((left + 500, top + 100), (left + 400, top + 100))
    moved = (last - first) * 100 / page.run("viewer.view.right - 118")
    assert _view(page) == pytest.approx([first + moved, last + moved])


def test_memory_has_the_same_time_axis(page):
    page.run("viewer.view.look(2000, 4000)")
    page.settle()
    found = page.run("""(() => {
        const { view } = viewer, band = view.painter.shownBands[0], place = band.places[0], at = place.strip.find(2500);
        const y = band.top + band.height * (1 - (place.address + 10) / band.bytes);
        const hit = view.hitMemory(view.x(2500), y);
        return [hit.place === place, hit.at === at, view.painter.words.lifeFacts(place, at)];
    })()""")
    assert found[:2] == [True, True]
    assert ["memory", "UB of core 0"] in found[2]


def test_hovering_says_all_of_an_instruction(page, softmax):
    t, rows = softmax.timeline, analysis.Rows(softmax.program, softmax.timeline)
    load = _first(softmax, Kind.TRANSFER, core=1)
    x, y = _place(page, load)
    page.mouse("mouseMoved", x, y)
    page.settle()
    tip = page.run("document.getElementById('tip').innerText")
    row, start, end = rows.row(load), int(t["start"][load]), int(t["end"][load])
    call = softmax.program.call(int(t["call"][load]))
    source = softmax.program.gm[call.slot_tensor[rows.tensors(load)[row.src0.tensor].slot]]
    address = call.slot_base_bytes[rows.tensors(load)[row.src0.tensor].slot] + row.src0.offset_bytes
    for text in (
        "DataCopy (copy_gm_to_ubuf",
        "core 1, MTE2",
        f"{start:,} to {end:,} ({end - start:,} cycles",
        f"{source.name} + {address - source.base_bytes:,}, GM 0x{address:x}",
        rows.line(load),
        f"row\t{load:,}" if "\t" in tip else f"{load:,}, call",
    ):
        assert text in tip, f"{text!r} is not in {tip!r}"
    wait = _first(softmax, Kind.WAIT_FLAG)
    x, y = _place(page, wait)
    page.mouse("mouseMoved", x, y)
    page.settle()
    tip = page.run("document.getElementById('tip').innerText")
    cycles = int(t["wait_cycles"][wait])
    name = analysis.waited_name(softmax.program, rows.template(wait), rows.row(wait), t["waited_for"][wait])
    assert f"{cycles:,} cycles for " in tip
    assert f"({name})" in tip


def test_a_click_selects_a_flag_and_another_follows_it(page, softmax):
    pairs = analysis.flag_pairs(analysis.Rows(softmax.program, softmax.timeline))
    wait = next(w for w in pairs if softmax.timeline["wait_cycles"][w] > 100)
    x, y = _place(page, wait)
    page.key("Escape")
    page.click(x, y)
    assert page.run("viewer.model.number[viewer.view.selected]") == wait
    assert page.run("document.getElementById('tab-selected').getAttribute('aria-selected')") == "true"
    page.click(x, y)
    assert page.run("viewer.model.number[viewer.view.selected]") == pairs[wait]
    page.key("j")
    assert page.run("viewer.model.number[viewer.view.selected]") == wait
    page.key("w")
    assert page.run("viewer.model.number[viewer.view.selected]") == softmax.timeline["released_by"][wait]
    page.key("[")
    page.key("]")
    assert page.run("viewer.model.number[viewer.view.selected]") == softmax.timeline["released_by"][wait]


def test_findings_lead_to_their_places(show, softmax):
    line = softmax.program.lines.index("softmax_grad_nd.py:57")
    findings = (
        Finding("W-A", "of an instruction", where="Sub (softmax_grad_nd.py:57)", operand="src1"),
        Finding("W-B", "of a buffer", where="queues.out", operand="out"),
        Finding("W-C", "of the run", where="block_dim"),
    )
    page = show(replace(softmax, findings=findings))
    assert page.run("document.getElementById('tab-findings').textContent") == "Findings (3)"
    page.key("n")
    first = next(
        at
        for at in range(len(softmax.timeline))
        if (row := analysis.Rows(softmax.program, softmax.timeline).row(at)).line == line and row.op.api == "Sub"
    )
    assert page.run("viewer.model.number[viewer.view.selected]") == first
    assert page.run("viewer.view.life.place.name") == "tmp"
    from_, to = _view(page)
    assert from_ <= softmax.timeline["start"][first] < softmax.timeline["occupied"][first] <= to
    page.key("n")
    assert page.run("viewer.view.life.place.name") == "out[0]"
    page.key("n")
    assert (
        page.run("document.getElementById('status').textContent") == "W-C is about block_dim: it has no place in time"
    )
    page.key("p")
    assert page.run("document.querySelector('#panel-findings [aria-current=true]').innerText").startswith("W-B")


def test_a_source_line_shows_its_instructions(page, softmax):
    page.run("document.getElementById('tab-source').click()")
    line, number = page.run("""(() => {
        const button = document.querySelector("#panel-source .source tbody button");
        button.click();
        return [viewer.view.line, button.textContent];
    })()""")
    assert softmax.program.lines[line].endswith(f":{number}")
    page.key("l")
    assert page.run("viewer.model.line(viewer.view.selected)") == line
    first = page.run("viewer.model.number[viewer.view.selected]")
    page.key("l")
    assert page.run("viewer.model.number[viewer.view.selected]") > first
    page.key("Escape")
    assert page.run("viewer.view.line") == -1


@pytest.fixture(scope="module")
def added():
    return asc.run("vector_add")


def test_a_click_shows_values_before_and_after(show, added):
    """Those that looking into the run gives; and the line to type for more of them, and for a row without any."""
    page = show(added, folder="it's a page")
    number = next(n for n, view in added.looked_at.items() if view.api == "Add")
    x, y = _place(page, number)
    page.key("Escape")
    page.click(x, y)
    tables = page.run("""[...document.querySelectorAll("#panel-selected .operand")].map((title) => {
        const rows = [...title.nextElementSibling.querySelectorAll("tr")];
        return [title.textContent, rows.map((row) => [...row.children].map((cell) => cell.textContent))];
    })""")
    dst, *sources = added.inspect(row=number, most=16).operands
    assert tables[0] == [
        f"dst {dst.tensor}, UB 0x{dst.address_bytes:x}, half, the first 16 of 2,048 elements; 2,048 changed",
        [["element", "before", "after"]]
        + [[str(i), "never written", dumps.value_text(value, is_written=True)] for i, value in enumerate(dst.after)],
    ]
    for (title, rows), source in zip(tables[1:], sources, strict=True):
        assert title.startswith(f"{source.role} {source.tensor}, ")
        assert [row[0] for row in rows[1:]] == ["0", "4", "8", "12"]
        shown = [dumps.value_text(value, is_written=True) for value in source.before]
        assert [text for row in rows[1:] for text in row[1:]] == shown
    folder = page.run("decodeURIComponent(location.pathname)").removesuffix("/report.html")
    quoted = shlex.quote(folder).replace("'\"'\"'", "'\\''")
    text = "document.getElementById('panel-selected').innerText"
    assert page.run(text).endswith(f"More of them: ascendsim inspect {quoted} --row {number} --elements 16:64")
    other = next(n for n in range(len(added.program)) if n not in added.looked_at and added.inspect(row=n).operands)
    page.run(f"viewer.view.goTo(viewer.model.row({other}))")
    assert f"Of this row there are none: they were kept of {len(added.looked_at)} rows" in page.run(text)
    assert page.run(text).endswith(f"To get them: ascendsim inspect {quoted} --row {other}")
    page.run(f"viewer.view.goTo(viewer.model.row({_first(added, Kind.WAIT_FLAG)}))")
    assert "Values" not in page.run(text)


def test_a_run_without_values_says_so(page, softmax):
    page.run(f"viewer.view.goTo(viewer.model.row({_first(softmax, Kind.TRANSFER)}))")
    text = page.run("document.getElementById('panel-selected').innerText")
    assert text.endswith('Of this row there are none: the run computed none (machine.values = "none").')


BEGIN_OF_PAGE = """(() => {
    const { body } = document;
    body.tabIndex = -1;
    body.focus();
    body.removeAttribute("tabindex");
})()"""
"""Focus the body: Tab goes on from where the focus was last, not from the begin, if it was only taken away."""


def test_it_can_be_used_without_a_pointer(page):
    page.run(BEGIN_OF_PAGE)
    seen = []
    for _ in range(17):
        page.key("Tab")
        seen.append(page.run("document.activeElement.id || document.activeElement.tagName"))
    wanted = [
        *("zoom-in", "zoom-out", "fit", "fold", "core", "arrows", "critical", "steps", "help-button"),
        *("lanes", "memory", "find", "find-before", "find-next", "tab-overview", "panel-overview"),
    ]
    assert seen[: len(wanted)] == wanted
    page.run("document.getElementById('tab-overview').focus()")
    page.key("ArrowRight")
    assert page.run("[viewer.panels.shown, document.activeElement.id]") == ["selected", "tab-selected"]
    page.key("?")
    assert page.run("document.getElementById('help').open")
    page.run("document.getElementById('help').close()")
    page.key("f")
    assert page.run("viewer.view.folded.size") == 48
    page.key("f")
    page.key("m")
    assert page.run("[viewer.view.folded.size, viewer.view.core, document.getElementById('core').value]") == [0, 1, "1"]
    for key, shown in (("a", "showArrows"), ("c", "showCritical"), ("t", "showSteps")):
        for state in (False, True):
            page.key(key)
            assert page.run(f"viewer.view.{shown}") is state
    page.key("/")
    assert page.run("document.activeElement.id") == "find"
    page.key("Escape")
    assert page.run("document.activeElement.id") == "lanes"


# ---- panning ----------------------------------------------------------------------------------------------------

BAR, GUTTER, SIDE = 15, 118, 240
"""Pixels of a bar, and of the names beside the lanes; columns of a piece of the picture."""


def _lanes(page):
    """The picture of the lanes, [height, width, 3]."""
    png = page.run("viewer.view.drawNow(); document.getElementById('lanes').toDataURL()").partition(",")[2]
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB"), np.int64)


def _pixels_of(page, colour, top, height):
    """How many pixels of each column of the lanes have a colour, between two of their lines."""
    part = _lanes(page)[int(top) : int(top) + height, GUTTER:]
    return (part == [int(colour[at : at + 2], 16) for at in (1, 3, 5)]).all(axis=2).sum(axis=0)


@pytest.mark.parametrize("keys", ["+", "+ ArrowRight ArrowRight ArrowRight", "+ End ArrowLeft"])
def test_a_column_is_as_high_as_its_share(page, softmax, keys):
    """Of a scalar unit, where what a column stands for is narrower than two pixels, however the view came there."""
    _set_marks(page, "false")
    for key in keys.split():
        page.key(key)
    core, t = 2, softmax.timeline
    rows = np.flatnonzero(t["core"] == core)
    own = t["pipe"][rows] == Pipe.S
    stop = np.where(own, t["occupied"][rows], t["dispatched"][rows]).astype(float)
    start = np.where(own, t["start"][rows], stop - softmax.device.scalar.dispatch_cycles.value)
    width = int(page.run("viewer.view.right")) - GUTTER
    at = np.array(page.run(f"Array.from({{ length: {width + 1} }}, (_, x) => viewer.view.cycle({GUTTER} + x))"))
    works = ~own | (t["kind"][rows] == Kind.EXEC)
    begin, done = analysis.union_intervals(start[works], stop[works])
    shares = np.diff((np.clip(at[:, None], begin, done) - begin).sum(axis=1)) / np.diff(at)
    lane, colour = page.run(f"""(() => {{
        const lane = viewer.model.lanes.find((lane) => lane.core === {core} && lane.pipe === {int(Pipe.S)});
        return [lane.index, viewer.model.head.pipes[lane.pipe][1]];
    }})()""")
    top = page.run(f"viewer.view.painter.laneY.get({lane})") - 8
    found = _pixels_of(page, colour, top, BAR)[:width]
    is_wide = (stop - start) * width / (at[-1] - at[0]) >= 2

    def touched(which):
        return ((start[which] < at[1:, None]) & (stop[which] >= at[:-1, None])).any(axis=1)

    columns = touched(~is_wide) & ~touched(is_wide)
    wanted = np.where(shares > 0, np.maximum(1, np.floor(BAR * shares + 0.5)), 0)
    assert columns.sum() > 30
    assert len(set(wanted[columns])) > 5
    assert found[columns].tolist() == wanted[columns].tolist()
    page.run(f"viewer.view.look({begin[5] - 3}, {begin[5] + 6_000})")  # a new zoom, whose first column is busy in part
    first, second = page.run(f"[viewer.view.cycle({GUTTER}), viewer.view.cycle({GUTTER + 1})]")
    share = (np.clip(second, begin, done) - np.clip(first, begin, done)).sum() / (second - first)
    assert 0.1 < share < 0.9
    assert _pixels_of(page, colour, top, BAR)[0] == np.floor(BAR * share + 0.5)
    _set_marks(page, "true")


AT_ONCE, IN_PIECES = "viewer.view.painter.pieces.forget(); viewer.view.drawNow()", "viewer.view.drawNow()"


@pytest.mark.parametrize("ratio", [1, 1.5, 2])
@pytest.mark.parametrize("name", ["softmax", "mixed"])
def test_a_picture_does_not_hang_on_how_the_view_came_there(show, name, ratio, request):
    """What was kept of other views is what is drawn anew, and where a piece ends cannot be seen."""
    page = show(request.getfixturevalue(name), ratio=ratio, width=960, height=560)
    page.run(
        "viewer.view.foldAll(); viewer.view.fold(0); viewer.view.fold(1); viewer.view.showLine(viewer.model.line(9))"
    )
    for key in ("+", "+", "+", "End", *("ArrowLeft",) * 4, "ArrowDown", "ArrowDown"):
        page.key(key)
    page.run("""(() => {
        const { view } = viewer, left = view.cycle(118 - view.shift % 12); // hatchings are 6 pixels wide
        view.look(left, left + view.to - view.from);
    })()""")

    def drawn(change):
        page.run(f"{change}; 0")
        return _lanes(page)[: -2 * round(ratio)]

    def is_same(a, b):
        """But for rounding: a browser paints the same shapes at once a shade otherwise than apart."""
        return np.abs(a - b)[int(34 * ratio) + 1 :, int(GUTTER * ratio) + 1 :].max() <= 4

    kept = drawn("")
    assert is_same(drawn(AT_ONCE), kept)
    assert np.array_equal(drawn(IN_PIECES), kept)
    assert is_same(drawn("viewer.view._level = null"), kept)
    assert page.run("viewer.view.shift") == 0  # so pieces begin elsewhere than before
    assert is_same(drawn(IN_PIECES), kept)
    for change in (
        "viewer.view.pan(0.15)",
        "viewer.view.fold(1)",
        "viewer.view.showLine(-1)",
        "viewer.view.setSteps(!viewer.view.showSteps)",
        "viewer.view.zoom(0.4)",
    ):
        before, kept = kept, drawn(change)
        assert not is_same(before, kept), change
        assert is_same(drawn(AT_ONCE), kept), change
        assert is_same(drawn(IN_PIECES), kept), change


def test_panning_draws_only_what_was_not_in_view(page):
    page.run("""(() => {
        const { painter } = viewer.view;
        painter.piece = function (context, level, across, down) {
            window.drawn.push([across, down]);
            Painter.prototype.piece.call(this, context, level, across, down);
        };
        window.drawn = [];
    })()""")

    def in_view():
        shift, scroll, width, height = page.run(
            "[viewer.view.shift, viewer.view.scroll, viewer.view.sheets.lanes.width - 118, viewer.view.height - 34]"
        )
        across = range(int(shift // SIDE), int(-(-(shift + width) // SIDE)))
        return {(i, j) for i in across for j in range(int(scroll // SIDE), int(-(-(scroll + height) // SIDE)))}

    page.key("+")
    page.key("+")
    page.key("+")
    page.run("drawn.splice(0)")
    page.key("+")
    assert page.run("drawn.splice(0)") == []  # another zoom is drawn at once
    seen = set()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
        page.key(key)
        drawn = page.run("drawn.splice(0)")
        assert {tuple(piece) for piece in drawn} == in_view() - seen
        assert len(drawn) == len(in_view() - seen)
        seen |= in_view()
    page.key("End")
    assert page.run("drawn.splice(0)") == []  # and what is far away
    page.run("delete viewer.view.painter.piece")


# ---- marked steps -----------------------------------------------------------------------------------------------


def _steps(result):
    """By core and pipe (step, first cycle of work, last) of rows that follow each other in a step and tile of a core.

    A step in which another pipe works, or which has such steps inside, is none of the scalar unit's.
    """
    program, t, rows = result.program, result.timeline, analysis.Rows(result.program, result.timeline)
    found, last = {}, None
    for at in np.lexsort((t["number"], t["core"])).tolist():
        core, tile = int(t["core"][at]), int(program.calls["tile"][t["call"][at]])
        run = (core, rows.row(at).step, tile)
        if run != last:
            last, first = run, at
        if run[1] and t["kind"][at] in (Kind.EXEC, Kind.TRANSFER):
            mine = found.setdefault((core, int(t["pipe"][at])), {})
            begin, _ = mine.get(first, (int(t["start"][at]), 0))
            mine[first] = (begin, int(t["occupied"][at]))
    named = {
        key: [(program.steps[rows.row(first).step], *span) for first, span in mine.items()]
        for key, mine in found.items()
    }
    for core in {core for core, _ in named}:
        others = {
            f"{step}/" for (c, pipe), mine in named.items() if c == core and pipe != Pipe.S for step, _, _ in mine
        }
        own = [one for one in named.pop((core, int(Pipe.S)), []) if not any(o.startswith(f"{one[0]}/") for o in others)]
        named |= {(core, int(Pipe.S)): own} if own else {}
    return named


STEPS_OF_LANES = """viewer.model.lanes.filter((lane) => viewer.model.steps.isOn(lane)).map((lane) => {
    const { steps } = viewer.model, { start, stop, what } = steps.strip(lane);
    return [lane.core, lane.pipe, what.map((row, i) => [steps.name(row), start[i], stop[i]])];
})"""


@pytest.mark.parametrize("name", ["softmax", "mixed", "product", "scalar"])
def test_steps_are_those_of_the_rows(show, name, request):
    result = request.getfixturevalue(name)
    page = show(result)
    shown = {(core, pipe): list(map(tuple, steps)) for core, pipe, steps in page.run(STEPS_OF_LANES)}
    assert shown == _steps(result)


@pytest.fixture(scope="module")
def scalar(tmp_path_factory):
    """A step in which only the scalar unit works, and calls of a tile with one step over all of them."""
    folder = tmp_path_factory.mktemp("scalar")
    (folder / "k.py").write_text(SCALAR_STEP)
    (folder / "s.toml").write_text(
        'schema = 1\nname = "scalar"\ndevice = "Ascend910B1"\nkernel = "k.py:main"\nblock_dim = 1\n'
        'tensors.x = { role = "input", shape = [64], dtype = "float", fill = "normal", seed = 1 }\n'
        'tensors.y = { role = "output", shape = [64], dtype = "float" }\n'
    )
    return asc.run(folder / "s.toml")


SCALAR_STEP = """
from ascendsim import Pipe, TPosition, tile


@tile
def doubled(asc, b):
    asc.adds(b, b, 1.0, 64)
    asc.pipe_barrier(Pipe.V)


def main(asc, x, y, t):
    pipe = asc.t_pipe()
    que, out = asc.t_que(TPosition.VECIN, 1, "in"), asc.t_que(TPosition.VECOUT, 1, "out")
    pipe.init_buffer(que, 1, 256)
    pipe.init_buffer(out, 1, 256)
    a = que.alloc_tensor(x.dtype)
    asc.data_copy(a, x, 64)
    que.enque(a)
    a, b = que.deque(x.dtype), out.alloc_tensor(y.dtype)
    with asc.trace("all"):
        asc.adds(b, a, 1.0, 64)
        for _ in range(3):
            doubled(asc, b)
        with asc.trace("by hand"):
            asc.set_value(b, 3, 2.0)
    out.enque(b)
    que.free_tensor(a)
    b = out.deque(y.dtype)
    asc.data_copy(y, b, 64)
    out.free_tensor(b)
"""


def test_a_step_goes_on_over_calls_and_ends_with_its_tile(scalar):
    """What the run above is made for."""
    steps = _steps(scalar)
    assert [step for step, _, _ in steps[0, int(Pipe.V)]] == ["all"] * 4
    assert [step for step, _, _ in steps[0, int(Pipe.S)]] == ["all/by hand"]


TEXTS_IN_STEPS = """(() => {
    const { view } = viewer, { context } = view.sheets.lanes, bands = new Map(), texts = [];
    for (const line of view.visibleLines()) if (line.steps) bands.set(line.y, line.lane);
    context.fillText = function (text, x, y) {
        const lane = [...bands].find(([top]) => y >= top && y < top + 13 && x >= 118)?.[1];
        if (lane) texts.push([lane.core, lane.pipe, text, x, x + context.measureText(text).width]);
        return CanvasRenderingContext2D.prototype.fillText.call(context, text, x, y);
    };
    view.drawNow();
    delete context.fillText;
    return texts;
})()"""  # fmt: skip


def test_labels_of_steps_stand_in_their_steps(page, softmax):
    page.run("viewer.view.look(1800, 4200)")
    page.settle()
    texts, steps = page.run(TEXTS_IN_STEPS), _steps(softmax)
    assert {core for core, *_ in texts} >= {0, 1}
    mine = [text for core, pipe, text, *_ in texts if (core, pipe) == (0, Pipe.V)]
    assert mine[:2] == ["mul", "SoftmaxGrad/reducesum"]
    assert "broadcast" not in mine  # 139 cycles, 42 pixels: less than the word
    in_view = {}
    for core, pipe, text, left, right in texts:
        first, last = page.run(f"[viewer.view.cycle({left}), viewer.view.cycle({right})]")
        (own,) = [step for step in steps[core, pipe] if step[1] <= first and last <= step[2]]
        assert f"/{own[0]}".endswith(f"/{text}")
        in_view.setdefault((core, pipe), []).append((left, right))
    for labels in in_view.values():
        assert all(right < left for (_, right), (left, _) in itertools.pairwise(labels))


def test_a_step_too_narrow_for_its_label_is_read_by_pointing(page, softmax):
    page.run("viewer.view.look(1800, 4200)")
    page.settle()
    step, start, stop = next(s for s in _steps(softmax)[0, int(Pipe.V)] if s[0] == "SoftmaxGrad/broadcast")
    left, top = _corner(page)
    lane = f"viewer.model.lanes.find((lane) => lane.core === 0 && lane.pipe === {int(Pipe.V)})"
    band = f"viewer.view.visibleLines().find((line) => line.steps && line.lane === {lane})"
    x, y = page.run(f"[viewer.view.x({(start + stop) / 2}), {band}.y + 6]")
    page.mouse("mouseMoved", left + x, top + y)
    page.settle()
    tip = page.run("document.getElementById('tip').innerText").replace("\t", "\n").splitlines()
    assert tip[:5] == [
        f"step {step}",
        "lane",
        "core 0, V",
        "cycles",
        f"{start:,} to {stop:,} ({stop - start} cycles, {(stop - start) / 1850:.3f} µs)",
    ]
    assert tip[5:8] == ["tile", "0", "first"]
    page.click(left + x, top + y)
    row = page.run("viewer.model.number[viewer.view.selected]")
    assert (int(softmax.timeline["start"][row]), analysis.Rows(softmax.program, softmax.timeline).row(row).step) == (
        start, softmax.program.steps.index(step),
    )  # fmt: skip


def test_steps_come_with_the_zoom_and_what_is_pointed_at_stays(show, mixed):
    page = show(mixed, width=600, height=700)
    lines = "viewer.view.visibleLines().filter((line) => line.steps).length"
    assert page.run(lines) == 0
    page.run("document.getElementById('steps').click(); document.getElementById('steps').click()")
    assert page.run("document.getElementById('status').textContent") == "marked steps are shown when you zoom in"
    left, top = _corner(page)
    lane = "viewer.view.visibleLines().find((line) => !line.steps && line.lane === viewer.model.lanesOf.get(1)[2])"
    y = page.run(f"{lane}.y")
    page.mouse("mouseMoved", left + 300, top + y + 10)
    page.wheel(left + 300, top + y + 10, -150)
    assert page.run(lines) > 0
    assert (page.run(f"{lane}.y"), page.run("viewer.view.scroll") > 0) == (y, True)
    page.run("document.getElementById('lanes').focus()")
    page.key("t")
    assert (page.run(lines), page.run(f"{lane}.y")) == (0, y)


def test_a_kernel_without_marks_has_no_steps(show):
    page = show(asc.run("vector_add"))
    assert page.run("[document.getElementById('steps-label').hidden, viewer.model.steps.areThere]") == [True, False]
    page.key("t")
    assert page.run("viewer.view.visibleLines().some((line) => line.steps)") is False


# ---- search -----------------------------------------------------------------------------------------------------


def _names(result):
    """Of each row what it can be found by."""
    program, t, rows = result.program, result.timeline, analysis.Rows(result.program, result.timeline)
    for at in range(len(t)):
        row, call = rows.row(at), program.call(int(t["call"][at]))
        tensors = [rows.tensors(at)[operand.tensor] for _, operand in row.operands]
        named = [x.name if x.slot < 0 else program.gm[call.slot_tensor[x.slot]].name for x in tensors]
        yield [called(row), mnemonic(row), *named, program.lines[row.line], program.steps[row.step]]


def _found(result, text, names=None):
    """Numbers of the rows that a text finds: by a whole name; if no row has such a one by a part of any."""
    wanted, names = text.lower(), [[name.lower() for name in row] for row in names or _names(result)]

    def is_whole(name):
        return wanted in (name, re.sub(r"\[\d+\]$", "", name), *name.split("/"))

    def has(name):
        return name.endswith(wanted) if re.search(r":\d+$", wanted) else wanted in name

    test = is_whole if any(is_whole(name) for row in names for name in row) else has
    numbers = result.timeline["number"]
    return sorted(int(numbers[at]) for at, row in enumerate(names) if any(map(test, row)))


def _search(page, text):
    page.run(f"""(() => {{
        const field = document.getElementById("find");
        field.value = {text!r};
        field.dispatchEvent(new Event("input"));
    }})()""")
    return page.run("document.getElementById('found').textContent")


@pytest.mark.parametrize("name", ["softmax", "mixed"])
def test_a_text_finds_rows_by_what_they_are_called(show, name, request):
    result = request.getfixturevalue(name)
    page, names, counts = show(result), list(_names(result)), {}
    line = result.program.lines[analysis.Rows(result.program, result.timeline).row(20).line]
    texts = [
        "mul",
        "Mu",
        "grad",
        "copy in",
        " Load ",
        line,
        f":{line.split(':')[1]}",
        "COPY_GM",
        "in_grad",
        "in_grad[0]",
        "set_",
        "workspace",
        "cast",
        "py:1",
    ]
    for text in texts:
        found = _found(result, text.strip(), names)
        counts[text] = len(found)
        assert _search(page, text) == (f"{len(found):,} found" if found else "nothing found"), text
        assert page.run("Array.from(viewer.view.finder.rows, (row) => viewer.model.number[row])") == found, text
    assert len(set(counts.values())) > 5
    assert _search(page, "") == ""


def test_enter_steps_through_what_was_found(page, softmax):
    found = _found(softmax, "mul")
    count, selected = f"{len(found):,} found", "viewer.model.number[viewer.view.selected]"
    told = "document.getElementById('found').textContent"
    page.run("viewer.view.foldAll()")
    page.key("/")
    for letter in "mul":
        page.key(letter)
    assert (page.run(told), page.run("viewer.view.selected")) == (count, -1)
    for place, modifiers in ((0, 0), (1, 0), (2, 0), (1, SHIFT), (0, SHIFT), (-1, SHIFT), (0, 0)):
        page.key("Enter", modifiers=modifiers)
        assert page.run(selected) == found[place]
        assert page.run(told) == f"{place % len(found) + 1:,} of {count}"
        from_, to = _view(page)
        start, stop = softmax.timeline["start"][found[place]], softmax.timeline["occupied"][found[place]]
        assert from_ <= start <= stop <= to
        lane = "viewer.model.lanes[viewer.model.laneOf[viewer.view.selected]]"
        assert page.run(f"viewer.view.visibleLines().some((line) => !line.steps && line.lane === {lane})")
    assert page.run("document.activeElement.id") == "find"
    assert (
        page.run("document.getElementById('status').textContent")
        == "step SoftmaxGrad/mul: set_mask_count, row 10 on core 0, S"
    )
    page.run("document.getElementById('find-next').click()")
    assert page.run(selected) == found[1]
    page.run("document.getElementById('find-before').click()")
    assert page.run(selected) == found[0]
    page.run(f"viewer.view.goTo(viewer.model.row({found[7] + 1}))")
    expected = next(i for i, number in enumerate(found) if number > found[7] + 1)
    page.key("Enter")
    assert (page.run(selected), page.run(told)) == (found[expected], f"{expected + 1} of {count}")
    page.key("Escape")
    assert page.run(
        f"[document.activeElement.id, document.getElementById('find').value, {told}, viewer.view.meant]"
    ) == ["lanes", "", "", None]
    assert _search(page, "no such name") == "nothing found"
    page.run("document.getElementById('find').focus()")
    before = page.run(selected)
    page.key("Enter")
    assert (page.run(selected), page.run(told)) == (before, "nothing found")


def test_what_was_not_found_is_pale(page, softmax):
    """Of boxes in a lane, by their pixels; a chosen line takes the place of a text, and the other way round."""
    _set_marks(page, "false")
    page.run("viewer.view.look(3800, 4150)")
    t, rows = softmax.timeline, analysis.Rows(softmax.program, softmax.timeline)
    mine = {
        rows.row(at).op.api: at
        for at in np.flatnonzero((t["core"] == 0) & (t["pipe"] == Pipe.V))
        if t["start"][at] < 4000
    }
    colour = page.run(f"viewer.model.head.pipes[{int(Pipe.V)}][1]")
    lane = page.run(f"viewer.model.laneOf[viewer.model.row({mine['Mul']})]")

    def bright():
        """Whether the middle of a box, near its lower edge, has the colour of its pipe."""
        page.settle()
        top = page.run(f"viewer.view.painter.laneY.get({lane})") - 8
        found = _pixels_of(page, colour, top + 11, 3)
        at = {
            api: page.run(
                f"Math.round(viewer.view.x({(int(t['start'][mine[api]]) + int(t['occupied'][mine[api]])) / 2}))"
            )
            for api in ("Sub", "Mul")
        }
        return [found[at[api] - GUTTER] == 3 for api in ("Sub", "Mul")]

    assert bright() == [True, True]
    _search(page, "sub")
    assert bright() == [True, False]
    page.run(f"viewer.view.showLine(viewer.model.line(viewer.model.row({mine['Mul']})))")
    assert bright() == [False, True]
    _search(page, "sub")
    assert (bright(), page.run("viewer.view.line")) == ([True, False], -1)
    page.key("Escape")
    assert bright() == [True, True]
    _set_marks(page, "true")


def test_the_search_has_names(page):
    page.ask("Accessibility.enable")
    nodes = page.ask("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], node["name"]["value"]) for node in nodes if node.get("name") and node.get("role")}
    assert {
        ("searchbox", "Find an instruction, tensor, step or kernel line"),
        ("button", "The match before"),
        ("button", "The next match"),
        ("checkbox", "Steps"),
    } <= named
    assert {"search", "status"} <= {node["role"]["value"] for node in nodes if node.get("role")}


# ---- looks ------------------------------------------------------------------------------------------------------


def _luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def _contrast(a, b):
    light, dark = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read(show, softmax, scheme):
    """Contrast of 4.5 at least. Source: WCAG 2.1, success criterion 1.4.3."""
    page = show(softmax, scheme=scheme)
    theme, pipes = page.run("[viewer.view.theme, viewer.model.head.pipes]")
    assert (_luminance(theme["ground"]) < 0.1) == (scheme == "dark")
    for name in ("ink", "soft", "alarm", "accent"):
        for ground in ("ground", "pale"):
            assert _contrast(theme[name], theme[ground]) >= 4.5, (name, ground)
    for name, colour in pipes.values():
        assert _contrast(theme["boxInk"], colour) >= 4.5, name


def _blocks(png, size=(80, 66)):
    picture = Image.open(io.BytesIO(png)).convert("RGB").resize(size, Image.Resampling.BOX)
    return np.asarray(picture, np.int64)


def test_the_picture_is_the_stored_one(show):
    """Compared in blocks of 10 x 10 pixels, so that another version's letters do not matter."""
    page = show(asc.run("vector_add"), width=800, height=660)
    page.run("document.getElementById('side').style.visibility = 'hidden'")
    page.key("+")
    png = page.picture()
    stored = STORED.read_bytes()
    off = np.abs(_blocks(png) - _blocks(stored)).max(axis=2)
    assert (off > 24).mean() < 0.02
    page.key("ArrowRight")
    other = np.abs(_blocks(page.picture()) - _blocks(stored)).max(axis=2)
    assert (other > 24).mean() > 0.02  # a picture that is another one is noticed


def test_nothing_sticks_out_of_a_narrow_window(show):
    page = show(asc.run("vector_add"), width=600, height=700)
    assert page.run("document.documentElement.scrollWidth") == 600
    assert page.run("viewer.view.right") > 400


# ---- long runs --------------------------------------------------------------------------------------------------


def test_sizes_of_ordinary_runs(softmax, mixed):
    assert max(len(report_html(result)) for result in (softmax, mixed)) < ORDINARY_BYTES


@pytest.mark.long
def test_a_run_of_a_million_rows(show, tmp_path):
    shapes = {f"tensors.{name}.shape": [26_000, 960] for name in ("grad", "src", "dst")}
    result = asc.run("softmaxgrad_960x960_float", set=shapes | {"machine.values": "none"})
    t = result.timeline
    assert len(t) == t.row_count == 998_448
    assert len(report_html(result)) < LONG_BYTES
    page = show(result)
    assert page.run("viewer.model.count") == 998_448
    assert page.run("viewer.model.end.reduce((a, b) => a + b, 0)") == int(t["end"].sum())
    before = page.run("viewer.view.drawn")
    page.key("+")
    assert page.run("viewer.view.drawn") > before


def test_a_run_of_which_rows_are_missing_says_where(show, monkeypatch):
    monkeypatch.setattr(window, "EDGE_ROWS", 4_800)
    monkeypatch.setattr(window.rows_to_keep, "__defaults__", ((), 30_000))
    result = asc.run("softmaxgrad_960x960_float", set={"machine.values": "none"}, windows=[(7_000, 7_200)])
    kept = result.timeline
    page = show(result)
    assert page.run("[viewer.model.count, viewer.model.isWhole]") == [len(kept), False]
    assert (
        page.run("Array.from(viewer.model.byNumber, (i) => [viewer.model.number[i], viewer.model.start[i]])")
        == np.stack([kept["number"], kept["start"]], axis=1).tolist()
    )
    (_, first), (last, _) = analysis.edges(result.program, kept, 0)
    assert page.run("viewer.model.head.gaps[0]") == [[first, 7_000], [7_200, last]]
    assert f"{len(kept):,} of 36,720 rows are here" in page.run("document.getElementById('facts').textContent")
    found = _found(result, "copy in")
    assert _search(page, "copy in") == f"{len(found):,} found in the rows that the page holds"
    page.key("/")
    page.key("Enter")
    assert page.run("document.getElementById('found').textContent") == (
        f"1 of {len(found):,} found in the rows that the page holds"
    )
    assert _search(page, "no such name") == "nothing found in the rows that the page holds"
    _search(page, "")


def test_steps_of_which_rows_are_missing_say_so(show, monkeypatch):
    """All rows of a call are known from its template, so the page knows how many a step has of which it holds some."""
    whole = asc.run("softmaxgrad_960x960_float", set={"machine.values": "none"})
    monkeypatch.setattr(window, "EDGE_ROWS", 4_800)
    monkeypatch.setattr(window.rows_to_keep, "__defaults__", ((), 30_000))
    part = asc.run("softmaxgrad_960x960_float", set={"machine.values": "none"}, windows=[(7_000, 7_200)])
    page = show(part)
    page.run("viewer.view.look(6_900, 7_400)")
    page.settle()
    (_, start, stop) = next(one for one in _steps(whole)[0, int(Pipe.V)] if one[1] < 7_100 < one[2])
    t, program = part.timeline, part.program
    here = np.flatnonzero((t["core"] == 0) & (t["pipe"] == Pipe.V) & (t["occupied"] > t["start"]))
    here = here[(t["start"][here] >= start) & (t["occupied"][here] <= stop)]
    first, last = int(t["start"][here].min()), int(t["occupied"][here].max())
    assert start < first < last <= stop
    rows = analysis.Rows(program, t)
    step, call = rows.row(here[0]).step, int(t["call"][here[0]])
    assert program.steps[step] == "SoftmaxGrad/reducesum"
    all_of_it = sum(row.step == step for row in rows.template(here[0]).rows)
    kept = sum(rows.row(at).step == step for at in np.flatnonzero(t["call"] == call).tolist())
    assert 0 < kept < all_of_it
    lane = f"viewer.model.lanes.find((lane) => lane.core === 0 && lane.pipe === {int(Pipe.V)})"
    y = page.run(f"viewer.view.visibleLines().find((line) => line.steps && line.lane === {lane}).y + 6")

    def tip(cycle):
        title, facts = page.run(f"viewer.view.tipFor(viewer.view.hit(viewer.view.x({cycle}), {y}))")
        return title, dict(facts)

    title, facts = tip((first + last) / 2)
    assert (title, facts["rows"]) == ("step SoftmaxGrad/reducesum", f"{kept} of {all_of_it} are here")
    assert facts["cycles"].startswith(f"{first:,} to {last:,} (")
    assert "SoftmaxGrad/reducesum …" in [text for core, pipe, text, *_ in page.run(TEXTS_IN_STEPS) if core == 0]
    assert tip(6_920) == (
        "no rows kept here",
        {"lane": "core 0, V", "steps": "not known here; the cycles of each over the whole run are in the overview"},
    )


def test_names_are_text_and_nothing_else(show, softmax):
    name = "</script><img src=x onerror=\"document.title='hit'\"><b>&amp;"
    finding = Finding("W-X", name, where=name)
    page = show(replace(softmax, name=name, findings=(finding,), sources={"softmax_grad_nd.py": name}))
    assert page.run("document.getElementById('name').textContent") == name
    assert page.run("document.title") == f"{name} on Ascend910B1"
    assert page.run("document.querySelectorAll('img, b.W ~ b').length") == 0
    assert name in page.run("document.getElementById('panel-findings').textContent")
