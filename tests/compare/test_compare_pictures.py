"""Pictures of comparisons: what is on them, and that no two texts overlap."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from compare_harness import added, added_finer, all_cores, instructions, mixed, write

import ascendsim as asc
from ascendsim.comparefolder import write_comparison
from ascendsim.plot.bad_tiles import bad_tiles_picture
from ascendsim.plot.canvas import Boxes, Line
from ascendsim.plot.overlay import overlay_picture
from ascendsim.plot.timeline import aligned_picture

LEAST = 0.01
"""Inches by which texts may touch."""


def _texts(picture):
    return [text.text for text in picture.texts()]


def _check(picture):
    """Every text is on the picture, and none lies on another."""
    for text in picture.texts():
        x0, y0, x1, y1 = text.box
        assert -LEAST <= x0 < x1 <= picture.width + LEAST, text
        assert -LEAST <= y0 < y1 <= picture.height + LEAST, text
    for a, b in combinations(picture.texts(), 2):
        (ax0, ay0, ax1, ay1), (bx0, by0, bx1, by1) = a.box, b.box
        apart = min(ax1, bx1) - max(ax0, bx0) < LEAST or min(ay1, by1) - max(ay0, by0) < LEAST
        assert apart, (a.text, b.text)


def _dashed(picture):
    """(x, how far down) of dashed alarm lines, from left."""
    lines = [i for i in picture.items() if isinstance(i, Line) and i.dashes and i.start[0] == i.end[0]]
    return [line.start[0] for line in lines]


def test_two_runs_share_their_time():
    picture = aligned_picture("two", [("A", added()), ("B", added_finer())])
    _check(picture)
    texts = _texts(picture)
    assert "A: vector_add on Ascend910B1" in texts
    assert "A: 1,761 cycles = 0.952 µs · B: 1,817 cycles = 0.982 µs" in texts
    assert "dashed: end of the run" in texts
    assert "critical path" in texts
    assert not any("of the critical path" in text for text in texts)
    ends = _dashed(picture)
    left, right = 1.4, 1.4 + 9.65
    assert ends == pytest.approx([left + (right - left) * 1761 / 1817, right])


def test_runs_of_other_clocks_share_their_microseconds():
    other = asc.run("matmul_plus_one", set={"device": "Ascend910B4"})
    picture = aligned_picture("two", [("A", mixed()), ("B", other)])
    _check(picture)
    assert "clocks differ: the panels share their microseconds" in _texts(picture)
    left, right = 1.4, 1.4 + 9.65
    assert _dashed(picture) == pytest.approx([left + (right - left) * 1650 / 1850, right], abs=0.01)


def _changed():
    rows = instructions(added())
    rows.remove(next(r for r in rows if r["name"] == "VADD"))
    max((r for r in rows if r["core"] == "core0.veccore1"), key=lambda r: r["start"])["cycles"] += 50
    return [r | {"start": r["start"] + 700} for r in rows]


def test_a_run_over_a_trace(tmp_path):
    found = asc.compare_trace(added(), write(tmp_path, all_cores(_changed(), 1850)))
    picture = overlay_picture(found)
    _check(picture)
    texts = _texts(picture)
    assert "vector_add: run over measured trace" in texts
    assert {"core0.veccore0", "core0.veccore1", "MTE2", "VECTOR", "MTE3", "run", "trace"} <= set(texts)
    assert "no partner in the other" in texts
    assert "the trace is drawn 700 cycles earlier, so that the first pairs begin together" in texts
    hatched = [
        b
        for i in picture.items()
        if isinstance(i, Boxes) and i.look.hatch and i.look.hatch.ink == "#b00020"
        for b in i.boxes
    ]
    assert len(hatched) == 2  # the sum without a partner, and its place in the legend


def test_the_bars_of_pairs_lie_below_each_other(tmp_path):
    found = asc.compare_trace(added(), write(tmp_path, all_cores(_changed(), 1850)))
    picture = overlay_picture(found)
    blue = sorted(
        {(round(b[0], 4), round(b[2], 4)) for i in picture.items() if isinstance(i, Boxes) and i.look.fill == "#56b4e9"
         for b in i.boxes if b[1] < picture.height - 1}
    )  # fmt: skip
    assert len(blue) == 8  # loads of a core; both cores and the trace have them at the same places


def _bad(name="z", index=(5000,), result=None):
    result = result or added()
    board = result.outputs[name].copy()
    board[index] += 8
    return result, board


def test_where_an_output_is_wrong(tmp_path):
    result, board = _bad()
    board[12000:12010] = np.nan
    (tmp_path / "z.bin").write_bytes(board.tobytes())
    (z,) = asc.compare_outputs(result, tmp_path).tensors
    picture = bad_tiles_picture(result, z)
    _check(picture)
    texts = _texts(picture)
    assert "vector_add: output z, board against run" in texts
    assert "Ascend910B1, half [16384] · 11 of 16,384 elements outside atol 0.001, rtol 0.001 · max " in " ".join(texts)
    assert {"within tolerance", "within tolerance, of a tile with mismatches", "more than 100 times"} <= set(texts)
    assert {"NaN or infinite on one side, or no tolerance", "lines: another tile begins"} <= set(texts)
    assert "the tensor has one axis and is folded at 256 elements" in texts
    cell = _boxes(picture, "#08306b")
    rows, columns = 64, 256  # of which a cell takes 1 x 2
    side = min(10.6 / 128, 5.0 / 64)
    x, y = 0.9 + (5000 % columns // 2) * side, 0.7 + 5000 // columns * side
    assert cell[0] == pytest.approx((x, y, x + side, y + side))
    tiles = _boxes(picture, "#fde5d6")
    assert min(b[1] for b in tiles) == pytest.approx(0.7 + 16 * side)  # tile 2 of core 0 begins in row 16 of 256
    assert rows * columns == z.compared


def _boxes(picture, fill):
    return [b for i in picture.items() if isinstance(i, Boxes) and i.look.fill == fill for b in i.boxes]


def test_where_a_matrix_is_wrong(tmp_path):
    result, board = _bad("c", (slice(80, 90), slice(3, 60)), mixed())
    (tmp_path / "c.bin").write_bytes(board.tobytes())
    (c,) = asc.compare_outputs(result, tmp_path).tensors
    picture = bad_tiles_picture(result, c)
    _check(picture)
    assert "a cell is the worst of 3 x 1 elements" in _texts(picture)
    assert "the tensor has one axis and is folded at 256 elements" not in _texts(picture)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (3, 1000), (1000, 3), (2, 3, 40), (777,)])
def test_any_shape_can_be_drawn(shape, tmp_path):
    (z,) = _tensor_of(shape, tmp_path)
    picture = bad_tiles_picture(added(), z)
    _check(picture)


def _tensor_of(shape, folder):
    """Errors of a tensor of some shape, as if it were a part of z."""
    result, board = _bad()
    (folder / "z.bin").write_bytes(board.tobytes())
    (z,) = asc.compare_outputs(result, folder).tensors
    count = int(np.prod(shape))
    excess = np.zeros(count)
    excess[count // 2] = 5.0
    owners = replace(z.owners, calls=z.owners.calls[:count], rows=z.owners.rows[:count])
    return (replace(z, shape=shape, excess=excess.reshape(shape), owners=owners),)


@pytest.mark.parametrize("form", ["runs", "trace", "outputs"])
def test_files_of_a_comparison(form, tmp_path):
    result, board = _bad()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "z.bin").write_bytes(board.tobytes())
    found = {
        "runs": lambda: asc.compare(added(), added_finer()),
        "trace": lambda: asc.compare_trace(added(), write(tmp_path, all_cores(_changed(), 1850))),
        "outputs": lambda: asc.compare_outputs(result, tmp_path / "d"),
    }[form]()
    files = write_comparison(found, tmp_path / "out")
    names = {"runs": "timelines.png", "trace": "overlay.png", "outputs": "bad_tiles_z.png"}
    assert [f.name for f in files] == ["compare.txt", "compare.json", names[form]]
    assert files[0].read_text() == f"{found}\n"
    assert files[2].read_bytes().startswith(b"\x89PNG")
    before = [f.read_bytes() for f in files]
    write_comparison(found, tmp_path / "out")
    assert [f.read_bytes() for f in files] == before


def test_equal_outputs_have_no_picture(tmp_path):
    (tmp_path / "z.bin").write_bytes(added().outputs["z"].tobytes())
    files = write_comparison(asc.compare_outputs(added(), tmp_path), tmp_path / "out")
    assert [f.name for f in files] == ["compare.txt", "compare.json"]
