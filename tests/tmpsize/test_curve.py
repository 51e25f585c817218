"""The curve: every step of the tiling and no other, what is odd about it, the choices it suggests, and its picture."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascendsim as asc
from ascendsim.op_host.softmax import soft_max_grad_tiling_func
from ascendsim.plot.canvas import Text
from ascendsim.plot.tmp_curve import curve_picture, curve_png
from ascendsim.terms import DataFormat
from ascendsim.tmpsize import curve as curve_module
from ascendsim.tmpsize import cycles, tmp_curve, tmp_size


@pytest.fixture(scope="module")
def wide():
    """120x1024 float: more temp can shrink the tile."""
    return tmp_curve(tmp_size("softmaxgrad", (120, 1024), "float"))


@pytest.fixture(scope="module")
def small():
    return tmp_curve(tmp_size("softmaxgrad", (64, 128), "float"))


def test_every_step_of_64x128(small):
    steps = [(p.choice.tmp_bytes, p.choice.tiling.split_m) for p in small.points]
    assert steps == [(832 * n, n) for n in (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64)]
    assert [p.choice.touched_bytes for p in small.points] == [576 * n for _, n in steps]
    assert (small.steps, small.last_bytes, small.note) == (11, 53248, "up to the maximum, 53248 B")
    assert not any(p.remark for p in small.points)
    assert all(a.choice.cycles > b.choice.cycles for a, b in pairwise(small.points))
    assert (small.points[0].choice.cycles, small.best.choice.cycles) == (27228, 2180)


def test_more_temp_can_shrink_the_tile(wide):
    steps = [(p.choice.tmp_bytes, p.choice.tiling.split_m, p.remark) for p in wide.points]
    assert steps[:8] == [(4416 * n, n, "") for n in range(1, 9)]
    assert steps[8:] == [
        (24 * 4416, 12, "slower than 35328 B"),
        (40 * 4416, 10, "tile shrinks, slower than 35328 B"),
    ]
    assert wide.best.choice.tmp_bytes == 35328
    assert wide.note == "up to all of UB, 188160 B, though nothing fits beside 1474560 B (maximum 529920 B)"


def test_within(wide, small):
    assert wide.within(0) is wide.best
    for percent in (5, 30, 100, 1000):
        point = small.within(percent)
        most = small.best.choice.cycles * (1 + percent / 100)
        assert point.choice.cycles <= most
        assert all(p.choice.cycles > most for p in small.points if p.choice.tmp_bytes < point.choice.tmp_bytes)
    assert small.within(10).choice.tmp_bytes == 26624
    for bad in (-1, float("nan")):
        with pytest.raises(asc.InputError, match="want a percentage of 0 or more, such as 5"):
            small.within(bad)


@settings(deadline=None, max_examples=40)
@given(m=st.integers(1, 120), units=st.integers(1, 40), is_half=st.booleans(), is_front=st.booleans())
def test_no_step_is_missed(m, units, is_half, is_front):
    """Against every number of whole rows and what lies just below."""
    kind, k = ("half", 16 * units) if is_half else ("float", 8 * units)
    answer = tmp_size("softmaxgrad", (m, k), kind, npu_arch=2201, is_front=is_front)
    got = curve_module._steps(answer, answer.max_bytes)
    want, before = [], None
    for n in range(1, m + 1):
        size = n * answer.row_bytes
        split_m = soft_max_grad_tiling_func((m, k), answer.call.element.bytes, size, is_front).split_m
        if split_m != before:
            want.append(size)
        before = split_m
    assert got == want


def test_a_long_curve_is_thinned_and_says_so(monkeypatch):
    monkeypatch.setattr(cycles.Predictor, "cycles", lambda self, tiling, tmp_bytes: 10_000 // tiling.split_m)
    answer = tmp_size("softmaxgrad", (601, 8), "float")
    whole, thin = tmp_curve(answer, most_points=1000), tmp_curve(answer, most_points=20)
    assert len(whole.points) == whole.steps == 8 + 130464 // 352 // 8 - 1
    assert (len(thin.points), thin.steps) == (20, whole.steps)
    assert (thin.points[0], thin.points[-1]) == (whole.points[0], whole.points[-1])
    assert whole.note == "up to what fits, 130464 B (maximum 211552 B)"
    assert thin.note == f"{whole.note}; 20 of {whole.steps} steps"


def test_it_ends_where_the_plan_does():
    answer = tmp_size("softmaxgrad", (64, 128), "float", beside=["q=81920x2"])
    found = tmp_curve(answer)
    assert found.note == "up to what fits, 24320 B (maximum 53248 B)"
    assert found.points[-1].choice.tmp_bytes == 16 * 832


def test_a_maximum_below_the_minimum_leaves_one_point():
    found = tmp_curve(tmp_size("softmaxgrad", (1, 8), "float", "Ascend950PR_9589"))
    assert [p.choice.tmp_bytes for p in found.points] == [512]
    assert found.note == "only the minimum, 512 B: the maximum is not above it"


def test_progress_is_told():
    told = []
    tmp_curve(tmp_size("softmaxgrad", (16, 64), "float"), lambda stage, done, total: told.append((stage, done, total)))
    assert told[0] == ("predict", 0, 9)
    assert told[-1] == ("predict", 9, 9)


def test_a_size_that_is_not_looked_at_costs_the_same():
    found = tmp_curve(tmp_size("softmaxgrad", (64, 128), "float", "Ascend950PR_9589"))
    assert {p.choice.cycles for p in found.points} == {1051}
    assert {p.choice.touched_bytes for p in found.points} == {0}
    assert found.best.choice.tmp_bytes == 512
    assert found.points[0].choice.tiling.split_m == 0
    assert "0" in {t.text for t in curve_picture(found).texts()}, "rows of a tile at 512 B"


@pytest.mark.parametrize(
    ("arguments", "more", "text"),
    [
        (("softmax", (8, 8), "float"), {}, "curve: SoftMax has no kernel here, so no cycles; softmaxgrad has one"),
        (
            ("softmaxgrad", (8, 8), "float"),
            {"npu_arch": 2201},
            "curve: an architecture has no cycles; name a part with --soc",
        ),
        (
            ("softmaxgrad", (8, 65536), "float"),
            {},
            "curve: no temp up to 188160 B gives a row (one row needs 262464 B); use shorter rows",
        ),
    ],
)
def test_calls_without_a_curve(arguments, more, text):
    with pytest.raises(asc.InputError) as raised:
        tmp_curve(tmp_size(*arguments, **more))
    assert str(raised.value) == text


def test_plain_numbers(wide):
    plain = wide.to_dict()
    assert [p["tmp_bytes"] for p in plain["points"]] == [p.choice.tmp_bytes for p in wide.points]
    assert plain["points"][9]["shrinks"] is True
    assert plain["points"][9]["slower_than_bytes"] == 35328
    assert (plain["steps"], plain["best_bytes"], plain["last_bytes"]) == (10, 35328, 188160)


# ---- cycles of many tiles, vector functions ---------------------------------------------------------------------


@pytest.mark.parametrize("soc", ["Ascend910B1", "Ascend310P3", "Ascend310B1", "Ascend950PR_9589"])
@pytest.mark.parametrize(("shape", "rows"), [((300, 72), 1), ((300, 72), 7), ((2000, 8), 40), ((200, 200), 3)])
def test_a_continued_call_equals_the_whole_one(soc, shape, rows, monkeypatch):
    device = asc.load_device(soc)
    answer = tmp_size("softmaxgrad", shape, "float", soc, tmp_bytes=rows * 4 * (shape[1] + 80))
    for name in ("MODELLED_TILES", "MODELLED_REPEATS", "MODELLED_ROWS"):
        monkeypatch.setattr(cycles, name, 100_000)
    form = cycles.Form(answer.call.element)
    whole = cycles.Predictor(device, form).cycles(answer.choices["given"].tiling, answer.choices["given"].tmp_bytes)
    if device.ub.read_write_cycles is None:
        assert answer.choices["given"].cycles == whole
    else:  # which of a group's banks a tile is in changes every 64 KiB, and is not continued
        assert answer.choices["given"].cycles == pytest.approx(whole, rel=0.003)


@pytest.mark.parametrize(
    ("soc", "shape", "rows", "data_format"),
    [
        ("Ascend910B1", (60, 1032), 3, DataFormat.ND),
        ("Ascend310B1", (30, 2056), 2, DataFormat.ND),
        ("Ascend910B1", (20, 1040), 1, DataFormat.NZ),
        ("Ascend910B1", (9, 4112), 4, DataFormat.NZ),
    ],
)
def test_long_rows_are_off_by_a_percent_or_so(soc, shape, rows, data_format, monkeypatch):
    size = rows * 4 * (shape[1] + 80)
    answer = tmp_size("softmaxgrad", shape, "float", soc, tmp_bytes=size, data_format=data_format)
    for name in ("MODELLED_TILES", "MODELLED_REPEATS"):
        monkeypatch.setattr(cycles, name, 100_000)
    form = cycles.Form(answer.call.element, data_format=data_format)
    whole = cycles.Predictor(asc.load_device(soc), form).cycles(answer.choices["given"].tiling, size)
    assert answer.choices["given"].cycles == pytest.approx(whole, rel=0.015)


@pytest.mark.parametrize("soc", ["Ascend910B1", "Ascend310P3", "Ascend310B1", "Ascend950PR_9589"])
@pytest.mark.parametrize("shape", [(8192, 8192), (8192, 16), (8192, 1040), (1001, 4112)])
def test_no_shape_is_predicted_from_many_instructions(soc, shape, monkeypatch):
    rows = []

    def counted(program, device):
        rows.append(sum(len(template.rows) for template in program.templates))
        return 1

    monkeypatch.setattr(cycles, "predict_cycles", counted)
    tmp_size("softmaxgrad", shape, "half", soc)
    assert 0 < sum(rows) < 10_000


# ---- the picture ------------------------------------------------------------------------------------------------


def _overlapping(picture):
    texts = [item for item in picture.items() if isinstance(item, Text)]
    boxes = [(t.text, t.box) for t in texts]
    return [
        (a, b)
        for i, (a, p) in enumerate(boxes)
        for b, q in boxes[:i]
        if p[0] < q[2] and q[0] < p[2] and p[1] < q[3] and q[1] < p[3]
    ]


@pytest.mark.parametrize(
    ("shape", "kind", "soc"),
    [
        ((120, 1024), "float", "Ascend910B1"),
        ((64, 128), "float", "Ascend950PR_9589"),
        ((300, 80), "half", "Ascend310B1"),
        ((1, 8), "float", "Ascend910B1"),
        ((680, 8), "float", "Ascend910B1"),
    ],
)
def test_texts_of_the_picture_stand_apart_and_inside(shape, kind, soc):
    found = tmp_curve(tmp_size("softmaxgrad", shape, kind, soc))
    picture = curve_picture(found, 50)
    assert _overlapping(picture) == []
    for text in picture.texts():
        left, top, right, bottom = text.box
        assert left > 0
        assert top > 0
        assert right < picture.width
        assert bottom < picture.height


def test_the_picture_names_what_counts(wide):
    texts = {t.text for t in curve_picture(wide).texts()}
    assert "SoftmaxGrad 120x1024 float: cycles against temp" in texts
    assert f"fastest: 35,328 B, {wide.best.choice.cycles:,} cycles" in texts
    assert {"35,328 B", "105,984 B", "176,640 B"} <= texts
    assert {"predicted cycles", "rows of a tile", "temp, bytes"} <= texts
    assert "more temp, but a smaller tile or more cycles" in texts


def test_the_picture_names_the_chosen_one(small):
    texts = {t.text for t in curve_picture(small, 10).texts()}
    assert {"fastest: 53,248 B, 2,180 cycles", "smallest within 10 %: 26,624 B, 2,372 cycles"} <= texts
    assert "more temp, but a smaller tile or more cycles" not in texts
    assert not any("within" in t.text for t in curve_picture(small, 0).texts())


def test_the_picture_says_that_cycles_are_not_calibrated():
    found = tmp_curve(tmp_size("softmaxgrad", (8, 64), "float", "Ascend310P3"))
    assert any("not calibrated" in t.text for t in curve_picture(found).texts())


def test_the_same_curve_gives_the_same_bytes(small):
    assert curve_png(small) == curve_png(small)
    assert curve_png(small).startswith(b"\x89PNG")
