"""What notebooks show: HTML without a server, and figures."""

import io
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

import ascendsim as asc
from ascendsim import plot
from ascendsim.errors import Finding
from ascendsim.terms import Pipe

VOID = {"br", "hr", "img", "input", "meta", "link", "path"}


class Parsed(HTMLParser):
    """Tags, attributes and words; a tag that is not closed in its turn is an error."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.words, self.starts = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.starts.append((tag, attrs))
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def add():
    return asc.run("vector_add")


@pytest.fixture(scope="module")
def mixed():
    return asc.run("matmul_plus_one")


@pytest.fixture(params=["add", "mixed"])
def result(request):
    return request.getfixturevalue(request.param)


def pages(result):
    return Parsed(result._repr_html_()), Parsed(result.timeline._repr_html_())


def test_pages_are_whole_small_and_stand_alone(result):
    for text, page in zip((result._repr_html_(), result.timeline._repr_html_()), pages(result), strict=True):
        assert len(text.encode()) < 30_000
        assert not {"script", "link", "iframe", "img", "style"} & set(page.tags)
        assert not any(name in ("src", "href") or name.startswith("on") for name, _ in page.attributes)
        assert "http" not in text
        assert text.startswith('<div class="ascendsim"')


def test_pages_are_read_on_light_and_dark(result):
    """Text has the page's colour; only pipes have one of their own."""
    for page in pages(result):
        styles = [value for name, value in page.attributes if name in ("style", "fill", "stroke")]
        for style in styles:
            colours = [part.split(";")[0].strip() for part in style.split("color:")[1:]]
            assert set(colours) <= {"inherit"}
        tables = [dict(attributes) for tag, attributes in page.starts if tag == "table"]
        assert tables
        assert all("color:inherit" in table["style"] for table in tables)
        grounds = {s.split("background:")[1].split(";")[0] for s in styles if "background:" in s}
        assert grounds <= {"transparent", *(c for c in plot.style.COLOURS.values())}


def test_a_run_says_what_its_report_says(add):
    words = "".join(Parsed(add._repr_html_()).words)
    for text in ("vector_add on Ascend910B1", "1761 cycles", "8 of 48 AIVs", "values of z", "no findings"):
        assert text in words
    busy = sum(u.busy_cycles for u in add.pipe_use if u.pipe is Pipe.MTE2) / (8 * 1761)
    assert f"{busy:.1%} busy" in words


def test_a_timeline_has_a_band_for_each_pipe(mixed):
    page = Parsed(mixed.timeline._repr_html_())
    for name in ("MTE2", "MTE1", "M", "FIX", "V", "MTE3"):
        assert name in page.words
    assert "".join(page.words).startswith("Timeline of matmul_plus_one")
    assert f"makespan {mixed.makespan_cycles:,} cycles" in "".join(page.words)


def test_text_is_escaped(add):
    finding = Finding("W-X", "<script>alert(1)</script> & more", where="k.py:1 <i>")
    evil = replace(add, name='<b onload="x">&', findings=(finding,) * 12)
    for page in pages(evil):
        assert "script" not in page.tags
        assert "b" not in page.tags or all(name != "onload" for name, _ in page.attributes)
    words = "".join(Parsed(evil._repr_html_()).words)
    assert '<b onload="x">&' in words
    assert "<script>alert(1)</script> & more" in words
    assert "2 more findings" in words


def test_a_changed_result_has_a_timeline_of_its_own(add):
    other = replace(add, name="other")
    assert "Timeline of other" in other.timeline._repr_html_()
    assert "Timeline of vector_add" in add.timeline._repr_html_()


def test_a_run_of_nothing(tmp_path):
    (tmp_path / "k.py").write_text("def main(asc, x, t):\n    pass\n")
    (tmp_path / "s.toml").write_text(
        'schema = 1\ndevice = "Ascend910B1"\nkernel = "k.py:main"\nblock_dim = 1\n[tensors.x]\nrole = "input"\n'
        'shape = [64]\ndtype = "half"\nfill = "normal"\nseed = 1\n'
    )
    result = asc.run(tmp_path / "s.toml")
    pages(result)
    assert isinstance(result.timeline.plot(), Figure)
    plot.roofline_png(result)
    assert result.roofline.points == ()


@pytest.fixture(scope="module")
def search():
    return asc.tune(
        "vector_add",
        vary={"tile_length": [1024, 8192, 99999999], "buffer_num": [1, 2]},
        where="tile_length > 1",
        objective=("cycles", "peak_ub"),
        workers=1,
    )


def test_a_search_says_what_the_command_prints(search):
    page = Parsed(search._repr_html_())
    title = "vector_add on Ascend910B1: 6 points of tile_length (3), buffer_num (2)"
    assert page.words[0] == f"Search for a tiling of {title}"
    words = " ".join(" ".join(page.words).split())
    lines = [" ".join(line.split()) for line in str(search).splitlines()]
    own = [line for line in lines if line.startswith(("Pareto front", "field"))]  # the page has them in other words
    first, front = lines.index(own[1]), search.front
    left = lines[first : first + 2 + len(front)]
    assert own[1] == "Pareto front of cycles and peak_ub: 3 candidates"
    assert "Pareto front: 3 candidates, numbers 3, 2, 1" in words
    assert [line for line in lines if line not in (*own, *left) and line not in words] == []


def test_a_search_without_a_best():
    found = asc.tune("vector_add", vary={"block_dim": [999]}, workers=1)
    words = Parsed(found._repr_html_()).words
    assert words[1:3] == ["0 timed, 1 dropped before simulation", "  1 dropped: refused"]
    assert words[3:] == [str(found).splitlines()[-1]]


def test_a_search_stands_alone_and_is_escaped(search):
    evil = replace(search, why_no_default="<script>&", default=None)
    text = evil._repr_html_()
    page = Parsed(text)
    assert set(page.tags) == {"div", "table", "tr", "td", "span"}
    assert not any(name in ("src", "href") for name, _ in page.attributes)
    assert "The scenario as it stands was not timed: <script>&" in page.words
    assert len(text) < 30_000


def pixels(content):
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def saved(figure, kind):
    out = io.BytesIO()
    figure.savefig(out, format=kind)
    return out.getvalue()


@pytest.mark.parametrize("chosen", [{}, {"cores": (1, 2)}, {"cores": (0,), "window": (300, 900)}])
def test_a_figure_is_the_picture(add, chosen):
    figure = add.timeline.plot(**chosen)
    assert isinstance(figure, Figure)
    first, last = chosen.get("window", (0, None))
    wanted = plot.timeline_png(add, chosen.get("cores"), first, last)
    assert (pixels(saved(figure, "png")) == pixels(wanted)).all()
    assert figure._repr_png_() == wanted


@pytest.mark.parametrize("kind", ["pdf", "svg"])
def test_a_figure_goes_into_other_formats(add, kind):
    content = saved(add.timeline.plot(cores=(0,)), kind)
    assert content[:5] in (b"%PDF-", b"<?xml")


def test_what_a_figure_refuses(add):
    with pytest.raises(ValueError, match="the run has cores 0 to 7"):
        add.timeline.plot(cores=(8,))
    with pytest.raises(ValueError, match="before the last"):
        add.timeline.plot(window=(5, 5))


def test_results_do_not_load_the_drawing_library():
    import subprocess
    import sys

    code = (
        "import sys, ascendsim as asc; r = asc.run('vector_add'); r._repr_html_(); r.timeline._repr_html_();"
        "print([m for m in sys.modules if m.startswith('matplotlib')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
