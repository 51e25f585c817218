"""Operations, bytes and roofs by formulas of their own; the picture's texts; pictures that are the same every time."""

from itertools import combinations

import pytest
from conftest import ROOT

import ascendsim as asc
from ascendsim import plot
from ascendsim.plot.tmp_curve import curve_png, curve_svg
from ascendsim.roofline import CUBE, L2, MEMORY, VECTOR

MHZ = 1850


@pytest.fixture(scope="module")
def add():
    return asc.run("vector_add")


@pytest.fixture(scope="module")
def product():
    return asc.run("matmul_512x512x512_half", set={"machine.values": "none"})


@pytest.fixture(scope="module")
def mixed():
    return asc.run("fag_same_ab_small", set={"machine.values": "none"})


def test_an_add_is_one_operation_for_an_element(add):
    (point,) = add.roofline.points
    assert (point.name, point.ops, point.gm_bytes) == ("AIV", 65536, 3 * 2 * 65536)
    assert point.intensity == pytest.approx(1 / 6)
    assert point.tera_ops == pytest.approx(65536 / (1761 / MHZ * 1e6))


def test_roofs_are_those_of_the_device_file(add, device):
    vector, memory, l2 = (add.roofline.roof(name) for name in (VECTOR, MEMORY, L2))
    assert vector.tera == pytest.approx(128 * 48 * MHZ * 1e6 / 1e12)  # a repeat of 128 halves a cycle on 48 cores
    # two thirds of the bytes are read; the link of stores would take a third of three times as much
    read, l2_read, store = (
        device.link_bytes_per_cycle(n) * MHZ * 1e6 / 1e12 for n in ("hbm_read", "l2_read", "gm_write")
    )
    assert memory.tera == pytest.approx(min(read * 3 / 2, store * 3))
    assert l2.tera == pytest.approx(min(l2_read * 3 / 2, store * 3))
    assert add.roofline.roof(CUBE) is None


def test_a_product_has_two_operations_for_each_product_of_elements(product, device):
    (point,) = product.roofline.points
    assert (point.name, point.ops) == ("AIC", 2 * 512**3)
    cube = product.roofline.roof(CUBE)
    assert cube.tera == pytest.approx(device.cube_peak_flop("half") / 1e12)
    assert cube.tera == pytest.approx(2 * 16**3 * 24 * MHZ * 1e6 / 1e12)
    assert product.roofline.roof(VECTOR) is None


def test_the_kinds_of_a_mixed_kernel_add_up_to_the_run(mixed):
    points = {point.name: point for point in mixed.roofline.points}
    assert set(points) == {"run", "AIC", "AIV"}
    for field in ("ops", "gm_bytes"):
        assert getattr(points["run"], field) == sum(getattr(points[kind], field) for kind in ("AIC", "AIV"))
    assert points["run"].gm_bytes == sum(one.bytes for one in mixed.traffic)


PARTS = sorted(path.stem for path in (ROOT / "ascendsim/devices").glob("Ascend*.toml"))


@pytest.mark.parametrize("soc", PARTS)
def test_every_part_has_roofs(soc):
    """An Add runs on each; memory is slower than L2, and both are below what a core could ask for."""
    cores = asc.load_device(soc).aiv
    block_dim = 2 ** (min(8, cores).bit_length() - 1)
    found = asc.run("vector_add", set={"device": soc, "block_dim": block_dim, "machine.values": "none"}).roofline
    vector, memory, l2 = (found.roof(name) for name in (VECTOR, MEMORY, L2))
    assert vector.tera > 0
    assert 0 < memory.tera <= l2.tera
    (point,) = found.points
    assert point.ops == 65536
    assert point.share <= 1


@pytest.mark.parametrize("name", ["add", "product", "mixed"])
def test_no_point_is_above_the_roof_that_it_names(request, name):
    found = request.getfixturevalue(name).roofline
    for point in found.points:
        roof = found.roof(point.bound)
        level = roof.tera * (point.intensity if roof.is_bandwidth else 1)
        assert point.share == pytest.approx(point.tera_ops / level)
        assert 0 < point.share <= 1


@pytest.mark.parametrize("name", ["add", "product", "mixed"])
def test_texts_of_the_picture_lie_inside_and_apart(request, name):
    result = request.getfixturevalue(name)
    picture = plot.roofline_picture(result)
    texts = [text for text in picture.texts() if text.text.strip()]
    for text in texts:
        left, top, right, bottom = text.box
        assert left >= 0
        assert top >= 0
        assert right <= picture.width
        assert bottom <= picture.height
    for one, other in combinations(texts, 2):
        a, b = one.box, other.box
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (one.text, other.text)
    words = " ".join(text.text for text in texts)
    assert f"{result.name}: roofline" in words
    assert result.device.name in words
    assert "operations for each byte of GM moved, op/B" in words
    for point in result.roofline.points:
        assert f"{point.share:.0%} of {point.bound}" in words
    for roof in result.roofline.roofs:
        assert f"{roof.name} ({roof.detail}): " in words


def test_every_picture_is_the_same_every_time_and_has_no_date(add):
    curve = asc.tmp_curve(asc.tmp_size("softmaxgrad", (8, 64), "float"))
    drawn = [
        lambda: plot.timeline_png(add), lambda: plot.timeline_svg(add), lambda: plot.memory_png(add),
        lambda: plot.memory_svg(add), lambda: plot.balance_png(add), lambda: plot.balance_svg(add),
        lambda: plot.roofline_png(add), lambda: plot.roofline_svg(add), lambda: curve_png(curve),
        lambda: curve_svg(curve),
    ]  # fmt: skip
    for draw in drawn:
        content = draw()
        assert content == draw()
        if content.startswith(b"<?xml"):
            assert b"dc:date" not in content
            assert b"<title>" in content or b"dc:title" in content
        else:
            assert content.startswith(b"\x89PNG")
            assert b"tIME" not in content


def test_the_command_writes_svgs_where_they_are_asked_for(ascendsim, tmp_path):
    ascendsim("run", "vector_add", "--out", tmp_path / "out", "--svg")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"memory.svg", "balance.svg", "roofline.svg", "roofline.png"} <= names
    ascendsim("run", "vector_add", "--out", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").glob("*.svg")} == {"timeline.svg"}


def test_the_curve_as_svg(ascendsim, tmp_path):
    sized = ("tmpsize", "softmaxgrad", "--shape", "8,64", "--dtype", "float")
    done = ascendsim(*sized, "--out", tmp_path, "--svg", columns=400)
    assert f"wrote {tmp_path / 'softmaxgrad_8x64_float_curve.svg'}" in done.stdout
    assert "--svg: name a folder for the picture with --out DIR" in ascendsim(*sized, "--svg", code=2).stderr
