"""Pages in a browser, opened from disk: what they show is the run, and pointer and keys find their way in it."""

import io
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
from ascendsim.viewer import report_html

pytestmark = pytest.mark.skipif(find_browser() is None, reason=ABSENT)
STORED = Path(__file__).parent / "page_of_vector_add.png"
ORDINARY_BYTES, LONG_BYTES = 2_000_000, 15_000_000


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
    box = page.run(
        "(() => { const b = document.getElementById('lanes').getBoundingClientRect(); return [b.left, b.top]; })()"
    )
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
    left, top = page.run(
        "(() => { const b = document.getElementById('lanes').getBoundingClientRect(); return [b.left, b.top]; })()"
    )
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


def test_names_are_text_and_nothing_else(show, softmax):
    name = "</script><img src=x onerror=\"document.title='hit'\"><b>&amp;"
    finding = Finding("W-X", name, where=name)
    page = show(replace(softmax, name=name, findings=(finding,), sources={"softmax_grad_nd.py": name}))
    assert page.run("document.getElementById('name').textContent") == name
    assert page.run("document.title") == f"{name} on Ascend910B1"
    assert page.run("document.querySelectorAll('img, b.W ~ b').length") == 0
    assert name in page.run("document.getElementById('panel-findings').textContent")
