"""`ascendsim plan` as a user meets it, its picture, and its documentation."""

import json
import re
import shlex
from io import BytesIO
from itertools import combinations

import pytest
from conftest import ROOT
from PIL import Image
from plan_harness import answer_of

from ascendsim.plan import model
from ascendsim.plan.answer import answer, load_plan
from ascendsim.plot.plan_map import plan_picture, plan_png

PAGE = ROOT / "docs/plan.md"
PLANS = sorted(path.stem for path in (ROOT / "tilings").glob("plan_*.toml"))


@pytest.fixture
def plan(ascendsim):
    return lambda *arguments, code=0: ascendsim("plan", *arguments, code=code)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("plan_double_buffer",), 0),
        (("plan_double_buffer", "--set", "tiling.elements=48000"), 1),
        (("plan_row_width",), 1),
        (("plan_double_buffer", "--solve", "depth"), 2),
        (("nothing.toml",), 2),
        (("scenarios/vector_add.toml",), 0),
    ],
)
def test_exit_codes(arguments, code, plan):
    plan(*arguments, code=code)


def test_json_is_one_object_with_everything(plan):
    found = json.loads(plan("plan_fused_softmax_grad", "--json").stdout)
    assert found["fits"] is True
    assert found["tiling"] == {"rows": 9, "k": 1024}
    assert found["solved"]["largest"] == {"safe": 8, "visible": 9, "hardware": 9}
    assert found["map"][0] == {
        "name": "in_p", "kind": "queue", "place": "UB", "start_bytes": 0, "bytes": 18432, "num": 2, "steps": None,
        "end_bytes": 36864,
    }  # fmt: skip
    assert found["margins"][1] == {
        "place": "UB", "limit": "visible", "capacity_bytes": 196352, "used_bytes": 196352, "margin_bytes": 0,
    }  # fmt: skip
    row = next(r for r in found["table"] if r["value"] == 8 and r["limits"] == ["visible"])
    assert (row["temp_bytes"], row["split_m"], row["loops"], row["tail_m"]) == (32512, 7, 2, 1)
    assert row["cycles"] > 0
    assert [f["code"] for f in found["findings"]] == ["W-CAP-UB-SAFE"]


def test_each_call_has_its_own_sizes_where_two_share_a_temp(plan):
    """By hand: of 16x512 floats SoftMax keeps 512 + 72 floats a row, SoftmaxGrad 512 + 80."""
    own = {"softmax": (2336, 37376), "gradient": (2368, 37888)}
    lines = [line.split() for line in plan("plan_softmax_steps").stdout.splitlines()]
    cells = {line[0]: (int(line[3]), int(line[4])) for line in lines if line[0] in own and line[1] == "16x512"}
    assert cells == own
    found = json.loads(plan("plan_softmax_steps", "--json").stdout)
    assert {call["call"]: (call["least_bytes"], call["most_bytes"]) for call in found["calls"]} == own
    assert [(temp["least_bytes"], temp["most_bytes"]) for temp in found["temps"]] == [(2368, 37888)]


@pytest.mark.parametrize(("device", "calibrated"), [("Ascend910B1", True), ("Ascend310P3", False)])
def test_json_says_whether_cycles_are_calibrated(device, calibrated):
    changes = {"device": device, "block_dim": 8}
    found = answer(load_plan("softmaxgrad_960x960_float", changes), "tile_m").to_dict()
    assert found["calibrated"] is calibrated
    assert any(row["cycles"] for row in found["table"])


def test_out_writes_a_picture_and_the_answer(tmp_path, plan):
    folder = tmp_path / "a" / "b"
    plan("plan_matmul_l0b", "--out", folder, code=1)
    assert {p.name for p in folder.iterdir()} == {"plan.png", "plan.json"}
    assert json.loads((folder / "plan.json").read_text())["fits"] is False
    first = (folder / "plan.png").read_bytes()
    assert Image.open(BytesIO(first)).size[0] == 1800
    plan("plan_matmul_l0b", "--out", folder, code=1)
    assert (folder / "plan.png").read_bytes() == first, "the same plan gives the same bytes"


def test_out_that_is_a_file_is_refused(tmp_path, plan):
    file = tmp_path / "x"
    file.touch()
    stderr = plan("plan_row_width", "--out", file, code=2).stderr
    assert stderr == f"error: --out {file}: is a file; name a folder\n"


# ---- pictures ---------------------------------------------------------------------------------------------------

MANY = "".join(f"[buffers.buffer_number_{i}]\nbytes = {32 * (1 + i % 3)}\nsteps = [{i}, {i + 3}]\n" for i in range(63))
OVER = "[buffers.a]\nbytes = 500000\n[buffers.b]\nbytes = 32\n"
EVERYWHERE = "".join(f'[buffers.the_{p.lower()}]\nplace = "{p}"\nbytes = 600\nnum = 3\n' for p in model.PLACES)


def _pictures():
    yield from (pytest.param(lambda n=name: answer(load_plan(n, {})), id=name) for name in PLANS)
    for name, text in (("many", MANY), ("over", OVER), ("everywhere", EVERYWHERE), ("nothing", "")):
        yield pytest.param(lambda t=text: answer_of(t), id=name)


@pytest.mark.parametrize("make", list(_pictures()))
def test_no_two_texts_of_a_map_overlap_and_all_are_inside(make):
    picture = plan_picture(make())
    texts = picture.texts()
    for text in texts:
        left, top, right, bottom = text.box
        assert left >= 0, text
        assert top >= 0, text
        assert right <= picture.width, text
        assert bottom <= picture.height, text
    slack = 0.02
    for a, b in combinations(texts, 2):
        (l0, t0, r0, b0), (l1, t1, r1, b1) = a.box, b.box
        apart = r0 <= l1 + slack or r1 <= l0 + slack or b0 <= t1 + slack or b1 <= t0 + slack
        assert apart, f"{a.text!r} and {b.text!r}"


def test_the_map_says_what_lies_where():
    texts = [t.text for t in plan_picture(answer(load_plan("plan_fused_softmax_grad", {}))).texts()]
    assert "plan_fused_softmax_grad: fits" in texts
    for wanted in ("in_p 2 x 18,432 B", "scratch 36,864 B", "tmp 12,032 B", "safe 188,160 B, 8,192 B too many"):
        assert wanted in texts


def test_labels_that_have_no_room_are_counted():
    texts = [t.text for t in plan_picture(answer_of(MANY)).texts()]
    (more,) = [t for t in texts if t.endswith("more in plan.json")]
    shown = sum(t.startswith("buffer_number_") and t.endswith(" B") for t in texts)
    assert shown + int(more.split()[0]) == 63


def test_a_picture_is_a_png():
    assert plan_png(answer_of(EVERYWHERE)).startswith(b"\x89PNG")


# ---- documentation ----------------------------------------------------------------------------------------------


def test_the_page_names_every_key():
    page = PAGE.read_text()
    models = (model.PlanFile, model.RangeSpec, model.QueueSpec, model.BufferSpec, model.ApiSpec, model.TempSpec)
    keys = {field.alias or name for m in (*models, model.RowSpec) for name, field in m.model_fields.items()}
    assert sorted(k for k in keys if not re.search(rf"`[^`]*\b{k}\b", page)) == []


def test_the_page_shows_shipped_plans():
    blocks = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    shipped = (ROOT / "tilings/plan_fused_softmax_grad.toml").read_text()
    assert shipped[shipped.index("schema") :] in blocks


def _sessions():
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [(block.split("\n", 1)[0].removeprefix("$ "), block.split("\n", 1)[1]) for block in blocks]


@pytest.mark.parametrize(("line", "shown"), _sessions(), ids=lambda text: text[:40])
def test_the_sessions_of_the_page_are_real(line, shown, tmp_path, ascendsim):
    """Predicted cycles may move with the cost model, so the last columns of tables are not compared."""
    words = [str(tmp_path / w) if w.startswith("out/") else w for w in shlex.split(line)]
    done = ascendsim(*words[1:], code=None, columns=100)
    got = [text.split()[:7] for text in (done.stdout + done.stderr).splitlines()]
    assert [text.split()[:7] for text in shown.splitlines()] == got
