"""A board's dumps beside a run: distances, mismatches, and who wrote them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from compare_harness import added, mixed
from hypothesis import given
from hypothesis import strategies as st

import ascendsim as asc
from ascendsim.dtypes import BFLOAT16, DTYPES, HALF
from ascendsim.errors import InputError
from ascendsim.versus.outputs import ulp_distance
from ascendsim.versus.writers import NOBODY, owners_of

# ---- units in the last place --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [HALF, BFLOAT16], ids=str)
def test_units_in_the_last_place_count_the_numbers_of_a_type(kind):
    """Every value of 16 bits by its rank among all of them, 0 and -0 being one."""
    every = np.arange(1 << 16, dtype=np.uint16).view(kind.numpy)
    every = every[~np.isnan(every.astype(np.float32))]
    values = every.astype(np.float64)
    rank = np.unique(values, return_inverse=True)[1]
    zero = rank[values == 0][0]
    distance = ulp_distance(every, np.zeros_like(every))
    assert (distance == np.abs(rank - zero).astype(np.uint64)).all()
    shuffled = np.random.default_rng(3).permutation(len(every))
    assert (ulp_distance(every, every[shuffled]) == np.abs(rank - rank[shuffled]).astype(np.uint64)).all()


@given(st.floats(-(2.0**99), 2.0**99, width=32), st.integers(0, 5))
def test_units_in_the_last_place_of_float_are_steps_to_the_next(value, steps):
    a = b = np.array([value], np.float32)
    for _ in range(steps):
        b = np.nextafter(b, np.float32(np.inf))
    assert ulp_distance(a, b)[0] == ulp_distance(b, a)[0] == steps


def test_units_in_the_last_place_of_integers_are_their_differences():
    a, b = np.array([-128, 127, 5], np.int8), np.array([127, -128, 5], np.int8)
    assert ulp_distance(a, b).tolist() == [255, 255, 0]
    wide = np.iinfo(np.int64)
    assert ulp_distance(np.array([wide.min]), np.array([wide.max])).tolist() == [2**64 - 1]


# ---- errors ---------------------------------------------------------------------------------------------------------


def _dump(folder, **arrays):
    folder.mkdir(exist_ok=True)
    for name, array in arrays.items():
        (folder / f"{name}.bin").write_bytes(array.tobytes())
    return folder


def test_the_same_values_are_within_tolerance(tmp_path):
    found = asc.compare_outputs(added(), _dump(tmp_path, z=added().outputs["z"]))
    (z,) = found.tensors
    assert (z.mismatches, z.max_abs, z.max_ulp, z.first, z.tiles, z.compared) == (0, 0.0, 0, None, (), 16384)
    assert (z.relative.mare, z.relative.mere, z.relative.rmse) == (0.0, 0.0, 0.0)
    assert str(found).splitlines() == [
        "run:     vector_add on Ascend910B1 (vector_add)",
        f"outputs: {tmp_path}",
        "",
        "output  dtype  compared  mismatches  max abs  max ulp  MARE  MERE  RMSE               tolerance",
        "z       half     16,384           0        0        0     0     0     0  atol 0.001, rtol 0.001",
        "",
        "all compared values are within tolerance",
    ]


def test_errors_are_those_of_independent_formulas(tmp_path):
    run = added().outputs["z"]
    board = run.copy()
    board[100] += np.float16(0.5)
    board[9000:9010] = run[9000:9010] * np.float16(1.25)
    (z,) = asc.compare_outputs(added(), _dump(tmp_path, z=board)).tensors
    a, g = board.astype(np.float64), run.astype(np.float64)
    assert z.max_abs == np.abs(a - g).max()
    relative = np.abs(a - g) / (np.abs(g) + 1e-7)
    assert z.relative.mare == relative.max()
    assert z.relative.mere == pytest.approx(relative.mean(), rel=1e-12)
    assert z.relative.rmse == pytest.approx(np.sqrt(((a - g) ** 2).mean()), rel=1e-12)
    assert z.mismatches == int((np.abs(a - g) > 1e-3 + 1e-3 * np.abs(g)).sum()) == 11
    assert z.max_ulp == max(_steps(x, y) for x, y in zip(run, board, strict=True))


def _steps(x, y):
    """How many numbers of half lie between two, by their bits: to 0 and on if their signs differ."""
    a, b = (int(v.view(np.uint16)) & 0x7FFF for v in (x, y))
    return abs(a - b) if (x < 0) == (y < 0) else a + b


@pytest.mark.parametrize(
    ("options", "mismatches"),
    [
        ({}, 2),
        ({"ulp": 1}, 2),
        ({"ulp": 3}, 1),
        ({"atol": 0.0, "rtol": 0.0}, 3),
        ({"atol": 0.0, "rtol": 0.0, "ulp": 1}, 2),
        ({"atol": 1.0}, 0),
        ({"atol": 0.0, "rtol": 0.01}, 1),
    ],
)
def test_tolerances(options, mismatches, tmp_path):
    """One value is off by one unit in the last place, one by three, one by far."""
    run = np.full(16384, 1.5, np.float16)
    board, unit = run.copy(), np.float16(2.0**-10)
    board[1], board[2], board[3] = 1.5 + unit, 1.5 + 3 * unit, 1.75
    result = replace(added(), outputs={"z": run})
    (z,) = asc.compare_outputs(result, _dump(tmp_path, z=board), **options).tensors
    assert z.mismatches == mismatches
    assert z.max_ulp == 256


def test_values_that_are_not_finite(tmp_path):
    run = added().outputs["z"].copy()
    run[:4] = [np.nan, np.inf, -np.inf, 1.0]
    board = run.copy()
    result = replace(added(), outputs={"z": run})
    (z,) = asc.compare_outputs(result, _dump(tmp_path, z=board)).tensors
    assert (z.mismatches, z.not_finite) == (0, 0)
    board[:5] = [1.0, -np.inf, -np.inf, np.nan, np.inf]
    found = asc.compare_outputs(result, _dump(tmp_path, z=board))
    (z,) = found.tensors
    assert (z.mismatches, z.not_finite, z.max_abs, z.max_ulp) == (4, 4, 0.0, 0)
    assert [i for i in range(6) if z.excess[i] > 0] == [0, 1, 3, 4]
    assert "  4 mismatches are NaN or infinite on one side\n" in str(found)
    assert "first mismatch at [0]: board 1, run nan\n" in str(found)
    first = json.loads(json.dumps(found.to_dict(), allow_nan=False))["tensors"][0]["first"]
    assert (first["board"], first["run"], first["ulp"]) == (1.0, "nan", None)


def test_a_nan_that_signals_is_one_all_the_same(tmp_path):
    run = np.ones(4, np.float32)
    board = np.array([0x7F800001, 0x3F800000, 0x3F800000, 0x3F800000], np.uint32).view(np.float32)
    program = _kernel(tmp_path, turns=1).program
    found = asc.compare_outputs(
        replace(added(), program=program, outputs={"z": np.resize(run, (8, 64))}),
        _dump(tmp_path / "d", z=np.resize(board, (8, 64))),
    )
    assert (found.tensors[0].mismatches, found.tensors[0].not_finite) == (128, 128)


# ---- who wrote it -------------------------------------------------------------------------------------------------


def test_the_first_mismatch_leads_to_core_address_and_line(tmp_path):
    """Tile 2 of core 0 begins at element 4096 and lies in the first of two buffers again.

    In UB the queues follow each other, so out_z begins behind two buffers of in_x and of in_y.
    """
    board = added().outputs["z"].copy()
    board[5000] += 1
    board[12000:12050] += 1
    found = asc.compare_outputs(added(), _dump(tmp_path, z=board))
    (z,) = found.tensors
    w = z.first.written
    assert z.first.index == (5000,)
    assert (w.core, w.tile, w.api, w.mnemonic, w.line) == (
        "core 0",
        "",
        "DataCopy",
        "copy_ubuf_to_gm",
        "vector_add.py:26",
    )
    assert (w.memory, w.tensor, w.address_bytes) == ("UB", "out_z[0]", 4 * 4096 + (5000 - 4096) * 2)
    gm = added().program.gm[2]
    assert (gm.name, w.gm_address_bytes) == ("z", gm.base_bytes + 5000 * 2)
    stores = sorted(_stores(added(), 0))
    assert (w.start, w.end) == stores[2]
    assert str(w) == (
        f"written on core 0 by DataCopy (copy_ubuf_to_gm) at vector_add.py:26 from out_z[0] at UB address 0x4710, "
        f"cycles {w.start:,} to {w.end:,}"
    )
    tiles = [(t.core, t.mismatches, t.elements, t.worst_abs, t.first) for t in z.tiles]
    off = np.abs(board.astype(float) - added().outputs["z"].astype(float))
    worst = float(off[12000:].max())
    assert tiles == [("core 1", 50, 2048, worst, (12000,)), ("core 0", 1, 2048, float(off[5000]), (5000,))]
    assert z.tiles[0].tile.endswith("of call 1, vector_add.py:26")


def _stores(result, core):
    """Start and end of every transfer of MTE3 on a core."""
    t = result.timeline
    here = (t["core"] == core) & (t["pipe"] == asc.Pipe.MTE3) & (t["kind"] == 4)
    return list(zip(t["start"][here].tolist(), t["end"][here].tolist(), strict=True))


TILED = """from ascendsim import TPosition, tile

@tile
def copy(asc, source, result, z, x, at):
    local = source.alloc_tensor(x.dtype)
    asc.data_copy(local, x[at], 64)
    source.enque(local)
    local, sums = source.deque(x.dtype), result.alloc_tensor(x.dtype)
    asc.add(sums, local, local, 64)
    result.enque(sums)
    source.free_tensor(local)
    sums = result.deque(x.dtype)
    asc.data_copy(z[at], sums, 64)
    result.free_tensor(sums)

def main(asc, x, z, t):
    pipe = asc.t_pipe()
    source, result = asc.t_que(TPosition.VECIN, 1, "q"), asc.t_que(TPosition.VECOUT, 1, "r")
    pipe.init_buffer(source, 2, 256)
    pipe.init_buffer(result, 2, 256)
    for turn in range(t.turns):
        if turn == t.adds_from:
            asc.set_atomic_add("float")
        for at in range(0, t.count, 64):
            copy(asc, source, result, z, x, at + 256 * asc.get_block_idx())
    if t.turns > t.adds_from:
        asc.set_atomic_none()
"""


def _kernel(folder, turns, *, count=256, adds_from=9):
    (folder / "k.py").write_text(TILED)
    (folder / "k.toml").write_text(
        'schema = 1\ndevice = "Ascend910B1"\nkernel = "k.py:main"\nblock_dim = 2\n'
        f"[tiling]\nturns = {turns}\ncount = {count}\nadds_from = {adds_from}\n[tensors]\n{XZ}"
    )
    return asc.run(folder / "k.toml")


XZ = (
    'x = { role = "input", shape = [8, 64], dtype = "float", fill = "normal", seed = 1 }\n'
    'z = { role = "output", shape = [8, 64], dtype = "float" }\n'
)


def test_what_is_written_again_belongs_to_the_last(tmp_path):
    result = _kernel(tmp_path, turns=2)
    owners = owners_of(result.program, result.program.gm[1])
    tiles = result.program.calls["tile"][owners.calls.reshape(8, 64)]
    assert (tiles == np.array([4, 5, 6, 7] * 2)[:, None]).all()
    assert (result.program.calls["core"][owners.calls].reshape(2, 256) == [[0], [1]]).all()
    board = result.outputs["z"].copy()
    board[5, 3:9] = 0
    found = asc.compare_outputs(result, _dump(tmp_path / "d", z=board))
    (z,) = found.tensors
    assert [(t.core, t.tile, t.mismatches, t.elements, t.first) for t in z.tiles] == [
        ("core 1", "tile 5 of copy", 6, 64, (5, 3))
    ]
    w = z.first.written
    assert (w.core, w.tile, w.tensor, w.memory, w.address_bytes) == (
        "core 1",
        "tile 5 of copy",
        "r[1]",
        "UB",
        3 * 256 + 12,
    )
    assert str(w).startswith(
        "written on core 1, tile 5 of copy by DataCopy (copy_ubuf_to_gm) at k.py:13 from r[1] at UB"
    )


def test_elements_that_nobody_wrote(tmp_path):
    result = _kernel(tmp_path, turns=1, count=192)
    owners = owners_of(result.program, result.program.gm[1])
    assert (owners.calls.reshape(2, 256)[:, 192:] == NOBODY).all()
    assert (owners.calls.reshape(2, 256)[:, :192] != NOBODY).all()
    board = result.outputs["z"].copy()
    board[3] = 0
    found = asc.compare_outputs(result, _dump(tmp_path / "d", z=board))
    assert "z: first mismatch at [3, 0]: board 0, run nan\n  nobody wrote it in the run\n" in str(found)
    assert [(t.core, t.tile, t.mismatches, t.elements) for t in found.tensors[0].tiles] == [("", "nobody", 64, 128)]


def test_what_is_added_to_is_said(tmp_path):
    result = _kernel(tmp_path, turns=2, adds_from=1)
    board = result.outputs["z"] + 1
    (z,) = asc.compare_outputs(result, _dump(tmp_path / "d", z=board)).tensors
    assert z.first.written.adds
    assert str(z.first.written).startswith("added to on core 0, tile 4 of copy by DataCopy")


def test_a_result_of_the_cube_leads_into_its_fractal(tmp_path):
    """L0C holds fractals of 16 x 16 float, a column of them behind the other: element (i, j) of a tile of m rows."""
    result = asc.run("matmul_512x512x512_half")
    board = result.outputs["c"].copy()
    row, column = 37, 21
    board[row, column] += 1
    (c,) = asc.compare_outputs(result, _dump(tmp_path, c=board)).tensors
    w = c.first.written
    assert c.first.index == (row, column)
    assert (w.api, w.memory) == ("Fixpipe", "L0C")
    m, start = _tile_of_the_cube(result, w)
    assert w.address_bytes - start == ((column // 16 * m + row) * 16 + column % 16) * 4


def _tile_of_the_cube(result, found):
    """Rows of the tile in L0C that a Fixpipe stores, and where it begins, as its row says."""
    program = result.program
    for template in program.templates:
        for row in template.rows:
            if (
                row.src0 is not None
                and template.tensors[row.src0.tensor].name == found.tensor
                and row.op.api == "Fixpipe"
            ):
                tensor = template.tensors[row.src0.tensor]
                return row.param("src_stride"), tensor.address_bytes + row.src0.offset_bytes
    raise AssertionError


def test_cores_of_both_kinds(tmp_path):
    board = mixed().outputs["c"].copy()
    board[85, 42] += 2
    (c,) = asc.compare_outputs(mixed(), _dump(tmp_path, c=board)).tensors
    w = c.first.written
    assert (w.core, w.api, w.line, w.memory, w.tensor) == ("AIV 1", "DataCopy", "matmul_plus_one.py:72", "UB", "out_c")
    assert [(t.core, t.elements, t.mismatches) for t in c.tiles] == [("AIV 1", 8192, 1)]


# ---- dumps that cannot be used ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "hint"),
    [
        (100, ""),
        (4 * 16384, "; it would fit float or int32_t or uint32_t: convert it"),
        (16384, "; it would fit int8_t or uint8_t: convert it"),
        (0, ""),
    ],
)
def test_a_dump_of_the_wrong_length(length, hint, tmp_path):
    (tmp_path / "z.bin").write_bytes(bytes(length))
    with pytest.raises(InputError) as error:
        asc.compare_outputs(added(), tmp_path)
    assert str(error.value) == (
        f"{tmp_path / 'z.bin'}: {length} B; output z is half [16384], row-major, which is 32768 B{hint}"
    )


def test_a_folder_without_dumps(tmp_path):
    with pytest.raises(InputError) as error:
        asc.compare_outputs(added(), tmp_path / "gone")
    assert str(error.value) == (
        f"--outputs {tmp_path / 'gone'}: no such folder; want one with NAME.bin for each output"
    )
    with pytest.raises(InputError) as error:
        asc.compare_outputs(added(), tmp_path)
    assert str(error.value) == f"--outputs {tmp_path}: holds no .bin file; want z.bin"
    (tmp_path / "out.bin").write_bytes(b"1")
    with pytest.raises(InputError) as error:
        asc.compare_outputs(added(), tmp_path)
    assert str(error.value) == f"--outputs {tmp_path}: holds out.bin; want z.bin"


def test_missing_dumps_and_other_files_are_told(tmp_path):
    result = replace(added(), outputs=dict(added().outputs) | {"w": np.zeros(3, np.float32)})
    found = asc.compare_outputs(result, _dump(tmp_path, z=added().outputs["z"], x=np.zeros(4)))
    assert (found.missing, found.others) == (("w",), ("x.bin",))
    assert "note: no dump of w\nnote: no output is called as x.bin\n" in str(found)


def test_a_run_without_values(tmp_path):
    result = replace(added(), values="none", outputs={})
    with pytest.raises(InputError) as error:
        asc.compare_outputs(result, tmp_path)
    assert str(error.value) == (
        'vector_add: the run computed no values (machine.values = "none"), so there is nothing to compare with; '
        'run it with machine.values = "all"'
    )


def test_of_a_sample_only_computed_values_are_compared(tmp_path):
    run = added().outputs["z"].copy()
    run[4096:].view(np.uint16)[:] = 0xFFFF
    result = replace(added(), values="sample", outputs={"z": run})
    board = added().outputs["z"].copy()
    board[17] += 1
    board[5000] += 1
    found = asc.compare_outputs(result, _dump(tmp_path, z=board))
    (z,) = found.tensors
    assert (z.compared, z.mismatches, z.first.index) == (4096, 1, (17,))
    assert z.max_abs == abs(float(board[17]) - float(run[17]))
    assert "note: the run computed a sample of tiles; only their values are compared\n" in str(found)


@pytest.mark.parametrize(
    ("name", "value"), [("atol", -1.0), ("rtol", float("nan")), ("rtol", float("inf")), ("ulp", -3)]
)
def test_what_is_no_tolerance(name, value, tmp_path):
    with pytest.raises(InputError) as error:
        asc.compare_outputs(added(), tmp_path, **{name: value})
    assert str(error.value) == f"{name} = {value}: must be a finite number, at least 0"


def test_a_tolerance_that_overflows_allows_all(tmp_path):
    result = added()
    (result.outputs["z"] + 1).tofile(tmp_path / "z.bin")
    assert asc.compare_outputs(result, tmp_path, atol=1.7e308, rtol=1.7e308).tensors[0].mismatches == 0


def test_every_type_has_a_tolerance_in_words():
    from ascendsim.versus.outputs import Tolerance

    assert {str(kind): str(Tolerance().of(kind)) for kind in DTYPES if kind.numpy.kind not in "iu"} == {
        "half": "atol 0.001, rtol 0.001",
        "bfloat16_t": "atol 0.0078125, rtol 0.0078125",
        "float": "atol 0.0001, rtol 0.0001",
    }
    assert {str(Tolerance().of(kind)) for kind in DTYPES if kind.numpy.kind in "iu"} == {"atol 0, rtol 0"}
    assert str(Tolerance(ulp=2).of(HALF)) == "atol 0.001, rtol 0.001, or 2 ulp"
