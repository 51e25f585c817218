"""What a page holds, read without a browser: its size, its bytes, and that nothing in it can break out."""

import base64
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

import ascendsim as asc
from ascendsim import analysis, colours, inspection, kept_values, runfolder, window
from ascendsim.dtypes import HALF
from ascendsim.dumps import Dump
from ascendsim.errors import Finding
from ascendsim.plot import style
from ascendsim.viewer import page, report_html
from ascendsim.viewer.columns import Column, packed
from ascendsim.viewer.rows import Shown, shown

HOSTILE = "</script><script>document.title='hit'</script><!-- <b>\"'&amp; ]]> \u2028 @DATA@ @SCRIPT@"


@pytest.fixture(scope="module")
def added():
    return asc.run("vector_add")


def _data(text):
    """Head and columns of a page or of packed bytes, undone as columns.py says it, without its code."""
    if isinstance(text, str):
        text = base64.b64decode(re.search(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', text)[1])
    content = zlib.decompress(text)
    length = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + length])
    columns, at = {}, 8 + length
    for name, count, width, as_steps in head["columns"]:
        planes = [content[at + k * count : at + (k + 1) * count] for k in range(width)]
        folded = [sum(plane[i] << (8 * k) for k, plane in enumerate(planes)) for i in range(count)]
        values = [-(v + 1) // 2 if v % 2 else v // 2 for v in folded]
        columns[name] = np.cumsum(values, dtype=np.int64).tolist() if as_steps else values
        at += count * width
    assert at == len(content)
    return head, columns


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-(2**52), 2**52), max_size=40), st.lists(st.integers(-300, 300), max_size=40))
def test_columns_come_back(steps, plain):
    given_columns = {
        "steps": Column(np.array(steps, np.int64), as_steps=True),
        "plain": Column(np.array(plain, np.int64)),
    }
    head, columns = _data(packed({"name": HOSTILE}, given_columns))
    assert (head["name"], columns) == (HOSTILE, {"steps": steps, "plain": plain})


def test_small_numbers_take_one_byte():
    head, _ = _data(
        packed({}, {"a": Column(np.array([-128, 127])), "b": Column(np.array([128])), "c": Column(np.zeros(0))})
    )
    assert head["columns"] == [["a", 2, 1, 0], ["b", 1, 2, 0], ["c", 0, 1, 0]]


def test_a_name_ends_no_tag_and_fills_no_mark(added):
    finding = Finding("W-X", HOSTILE, where=HOSTILE, hint="\ud800")
    text = report_html(replace(added, name=HOSTILE, findings=(finding,), sources={"a.py": HOSTILE}))
    assert text.count("<script") == text.count("</script>") == 2
    assert "document.title='hit'" not in text
    head, _ = _data(text)
    assert (head["name"], head["findings"][0]["message"], head["sources"]["a.py"]) == (HOSTILE, HOSTILE, HOSTILE)
    assert head["findings"][0]["hint"] == "?"


def test_the_page_names_no_other_host(added):
    text = report_html(added)
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(", re.sub(r'id="data">[^<]*<', "", text))
    assert "default-src 'none'" in text


def test_style_and_scripts_are_sent_without_comments(added):
    """Line by line what the files hold; a text over several lines would lose its indentation, so there is none."""
    style, script = (
        re.search(rf"<{tag}>\n(.*?)</{tag}>", report_html(added), re.DOTALL)[1] for tag in ("style", "script")
    )
    for sent, names in ((style, ["view.css"]), (script, page.SCRIPTS)):
        texts = [(Path(page.__file__).parent / name).read_text() for name in names]
        lines = [line.strip() for text in texts for line in text.splitlines()]
        assert sent.splitlines() == [line for line in lines if line and not line.startswith(("//", "/*"))]
        assert all(line.endswith("*/") for line in lines if line.startswith("/*"))
        assert all(line.count("`") % 2 == 0 for line in lines)


def test_the_same_run_gives_the_same_bytes(added, tmp_path):
    runfolder.write_run(added, tmp_path)
    first = (tmp_path / "report.html").read_bytes()
    assert first == report_html(added).encode()
    assert report_html(runfolder.load_run(tmp_path), added.looked_at).encode() == first


def test_it_lists_the_files_beside_it(added, tmp_path, monkeypatch):
    """All but those of the run itself that only this program reads, and itself."""

    def listed(result, folder):
        runfolder.write_run(result, folder)
        head, _ = _data((folder / "report.html").read_text())
        assert all(what for _, what in head["files"])
        names = [name for name, _ in head["files"]]
        assert {*names, "report.html", "run.npz"} == {path.name for path in folder.iterdir()}
        return names

    assert listed(added, tmp_path / "plain") == [name for name, _ in page.FILES if name != "dumps.txt"]
    dumped = replace(added, dumps=(_dump(),))
    assert listed(dumped, tmp_path / "dumped") == [name for name, _ in page.FILES]
    monkeypatch.setattr(window.rows_to_keep, "__defaults__", ((), 100))
    monkeypatch.setattr(window, "EDGE_ROWS", 80)
    assert "simulator" not in listed(asc.run("vector_add"), tmp_path / "long")


def _dump():
    values = np.ones(1, np.float16)
    return Dump(
        0, "core 0", 3, "k.py:1", 7, "x", "UB", 0, HALF, 1, (1,), values, np.ones(1, np.bool_), is_dropped=False
    )


def test_it_carries_the_kernel(added):
    head, _ = _data(report_html(added))
    assert head["sources"]["vector_add.py"] == (ROOT / "scenarios/vector_add.py").read_text()
    assert {line.rpartition(":")[0] for line in head["lines"]} - {"", "end of kernel"} <= set(head["sources"])


# ---- values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vector_add", "matmul_plus_one", "fag_same_ab_small"])
def test_rows_are_looked_at_while_values_are_computed(name):
    """Each row is what looking into the run afterwards gives; there are rows of every sort."""
    result = asc.run(name)
    rows = tuple(result.looked_at)
    again = inspection.values(result, rows, kept_values.MOST_VALUES)
    assert {row: view.to_dict() for row, view in result.looked_at.items()} == {r: v.to_dict() for r, v in again.items()}
    assert rows == kept_values.rows_to_look_at(result.program, result.critical_path, result.findings)
    assert all(view.operands for view in result.looked_at.values())
    assert {view.core_name.split()[0] for view in again.values()} == {
        result.program.core_name(core).split()[0] for core in range(result.program.core_count)
    }
    longest = max(result.critical_path, key=lambda step: step.end_cycles - step.begin_cycles)
    assert longest.row in rows


def test_a_line_has_the_first_row_of_each_of_its_instructions(added):
    """Here as a third reading of the rows: of all cores, in the order of numbers."""
    rows, firsts = analysis.Rows(added.program, added.timeline), {}
    for number in range(len(added.program)):
        row = rows.row(number)
        if row.operands:
            firsts.setdefault((row.op.name, row.line), number)
    assert set(firsts.values()) <= set(added.looked_at)
    first, last = min(added.looked_at), max(n for n, view in added.looked_at.items() if view.core == 0)
    operated = [n for n in range(len(added.program)) if rows.row(n).operands and added.timeline["core"][n] == 0]
    assert (first, last) == (operated[0], operated[-1])


def test_a_finding_has_the_row_that_it_names(added):
    line = "vector_add.py:26"
    found = [Finding("W-X", "m", where=f"DataCopy ({line})"), Finding("W-Y", "m", where="block_dim")]
    program = added.program
    rows = list(kept_values._named(program, dict(kept_values._firsts(program)), found))
    views = inspection.values(added, rows)
    assert [(view.line, view.api) for view in views.values()] == [(line, "DataCopy")]


def test_the_page_has_what_rows_found_and_left(added):
    head, _ = _data(report_html(added))
    assert {int(row) for row in head["values"]} == set(added.looked_at)
    number = next(n for n, view in added.looked_at.items() if view.api == "Add")
    facts, operands = head["values"][str(number)]
    view = added.inspect(row=number, most=16)
    assert facts == []
    assert [(o[0], o[2], o[3]) for o in operands] == [("dst", 2048, 2048), ("src0", 2048, -1), ("src1", 2048, -1)]
    for (_, place, _, _, elements, before, after), seen in zip(operands, view.operands, strict=True):
        assert place == f"{seen.tensor}, UB 0x{seen.address_bytes:x}, half"
        assert elements == list(range(16))
        assert [float(text) for text in after or before] == pytest.approx(seen.after.astype(float), abs=1e-6)
        assert before == ["never written"] * 16 or not after


def test_what_a_page_says_of_rows_without_values(added, monkeypatch):
    def hints(result):
        return _data(report_html(result))[0]["hints"]

    on_disk = {
        "how": "ascendsim inspect {run} --row {row}",
        "more": "ascendsim inspect {run} --row {row} --elements 16:64",
    }
    nowhere = {"how": "", "more": ""}
    in_python = {"how": "result.inspect(row={row})", "more": "result.inspect(row={row}, most=None)"}
    kept = hints(added)
    assert kept["why"].startswith(f"they were kept of {len(added.looked_at)} rows: the longest steps of the critical")
    assert kept | {"why": ""} == on_disk | {"why": ""}
    assert hints(replace(added, looked_at={})) == on_disk | {"why": "none were kept here"}
    none, sample = (asc.run("vector_add", set={"machine.values": how}) for how in ("none", "sample"))
    assert (none.looked_at, sample.looked_at) == ({}, {})
    assert hints(none) == nowhere | {"why": 'the run computed none (machine.values = "none")'}
    assert hints(sample) == nowhere | {"why": 'the run computed those of some tiles only (machine.values = "sample")'}
    ones = np.ones((16, 64), np.float32)
    assert hints(asc.softmax_grad(ones, ones)) == in_python | {"why": "none were kept here"}
    arrays = {"x": np.ones(65536, np.float16)}
    given_one = asc.run("vector_add", set={"tensors.x.fill": "array", "tensors.x.seed": None}, arrays=arrays)
    assert hints(given_one) == in_python | {"why": kept["why"]}
    monkeypatch.setattr(window.rows_to_keep, "__defaults__", ((), 100))
    monkeypatch.setattr(window, "EDGE_ROWS", 80)
    long = asc.run("vector_add")
    assert hints(long) == on_disk | {"why": "the run is long (640 rows), so none were kept"}


# ---- the kernel -------------------------------------------------------------------------------------------------


TWO_FILES = {
    "other/k.py": """
def inner(asc, a):
    asc.adds(a, a, 1.0, 64)
""",
    "k.py": """
import importlib.util
from pathlib import Path

from ascendsim import TPosition

spec = importlib.util.spec_from_file_location("inner_k", Path(__file__).parent / "other" / "k.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)


def main(asc, x, y, t):
    pipe = asc.t_pipe()
    que = asc.t_que(TPosition.VECIN, 1, "in")
    out = asc.t_que(TPosition.VECOUT, 1, "out")
    pipe.init_buffer(que, 1, 256)
    pipe.init_buffer(out, 1, 256)
    a = que.alloc_tensor(x.dtype)
    asc.data_copy(a, x, 64)
    que.enque(a)
    a, b = que.deque(x.dtype), out.alloc_tensor(y.dtype)
    module.inner(asc, a)
    asc.adds(b, a, 1.0, 64)
    out.enque(b)
    que.free_tensor(a)
    b = out.deque(y.dtype)
    asc.data_copy(y, b, 64)
    out.free_tensor(b)
""",
    "s.toml": """
schema = 1
name = "two"
device = "Ascend910B1"
kernel = "k.py:main"
block_dim = 1
tensors.x = { role = "input", shape = [64], dtype = "float", fill = "normal", seed = 1 }
tensors.y = { role = "output", shape = [64], dtype = "float" }
""",
}


def test_a_file_whose_name_another_has_is_left_out(tmp_path):
    (tmp_path / "other").mkdir()
    for name, text in TWO_FILES.items():
        (tmp_path / name).write_text(text)
    result = asc.run(tmp_path / "s.toml")
    assert "k.py" not in result.sources
    assert any(line.startswith("k.py:") for line in result.program.lines)


def test_rows_beyond_what_a_page_has_room_for_are_those_of_the_middle(added, monkeypatch):
    monkeypatch.setattr("ascendsim.viewer.rows.MOST_ROWS", 64)
    cores = added.program.core_count
    found: Shown = shown(added)
    each = 64 // (2 * cores)
    for core in range(cores):
        here = np.flatnonzero(added.timeline["core"] == core)
        kept = np.sort(found.at[found.timeline["core"][found.at] == core])
        assert kept.tolist() == [*here[:each], *here[-each:]]


def test_pictures_and_page_have_the_same_colours():
    assert style.COLOURS is colours.PIPES
    head = {int(p): c for p, c in colours.PIPES.items()}
    assert len(set(head.values())) == len(head) == 7
