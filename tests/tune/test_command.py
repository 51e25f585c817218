"""`ascendsim tune` and `ascendsim export`: what they print, write and refuse."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from tune_harness import command

from ascendsim.scenario import load_scenario
from ascendsim.tuner.answers import front

VARY = ("--vary", "tile_m=3:5", "--vary", "buffer_num=1,2")
MACROS = """
#include <cstdint>
#define BEGIN_TILING_DATA_DEF(name) class name { public:
#define TILING_DATA_FIELD_DEF(type, field) \\
    type field##_ = 0; void set_##field(type value) { field##_ = value; } type get_##field() const { return field##_; }
#define TILING_DATA_FIELD_DEF_ARR(type, count, field) \\
    type field##_[count] = {}; \\
    void set_##field(const type *values) { for (int i = 0; i < count; ++i) { field##_[i] = values[i]; } } \\
    const type *get_##field() const { return field##_; }
#define TILING_DATA_FIELD_DEF_STRUCT(type, field) type field
#define END_TILING_DATA_DEF }
"""
SOFT_MAX_FIELDS = (
    *("srcM", "srcK", "srcSize", "outMaxM", "outMaxK", "outMaxSize", "splitM", "splitK", "splitSize", "reduceM"),
    *("reduceK", "reduceSize", "rangeM", "tailM", "tailSplitSize", "tailReduceSize"),
)


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A folder with results, and what the command printed."""
    folder = tmp_path_factory.mktemp("searched")
    out = command("tune", "softmaxgrad_960x960_float", *VARY, "--workers", "1", "--out", str(folder / "r.csv"),
                  "--objective", "cycles", "--objective", "peak_ub", "--picture", str(folder / "p.png"))  # fmt: skip
    assert out.returncode == 0, out.stderr
    return folder, out.stdout


def test_the_page(searched):
    _, text = searched
    lines = text.splitlines()
    assert lines[:2] == [
        "softmaxgrad_960x960_float on Ascend910B1: 6 points of tile_m (3), buffer_num (2)",
        "6 timed, 0 dropped before simulation",
    ]
    assert lines[3] == "Best 6 of 6 by cycles and peak_ub"
    assert lines[5].split() == ["1", "6", "5", "2", "12343", "6.67", "+0.0%", "136000", "MTE2", "74.1%"]
    assert "The model may be off by 7.0% here (nine times in ten): the best is ahead by more than that." in lines
    assert "Pareto front of cycles and peak_ub: 6 candidates" in lines
    assert "Default: tile_m = 4, buffer_num = 2" in lines
    assert "Best against default: 12343 cycles against 13660, gain 9.6%" in lines
    assert lines[-3:] == ["7 evaluated", *(f"wrote {searched[0] / name}" for name in ("r.csv", "p.png"))]


def test_the_parts_of_the_gain_add_up(searched):
    folder, _ = searched
    out = command(
        "tune", "softmaxgrad_960x960_float", *VARY, "--workers", "1", "--out", str(folder / "r.csv"), "--json"
    )
    found = json.loads(out.stdout)
    assert found["ties"] == 1
    gain = found["gain"]
    assert (gain["default_cycles"], gain["best_cycles"], gain["pipe"], gain["is_tie"]) == (13660, 12343, "V", False)
    for side in ("default_cycles", "best_cycles"):
        assert sum(part[side] for part in gain["parts"]) == pytest.approx(gain[side], abs=len(gain["parts"]))
    assert found["sensitivities"][0] == {
        "field": "buffer_num",
        "spread": pytest.approx(18891 / 12343 - 1, abs=1e-6),
        "values": [{"value": 1, "timed": 3, "best": 18891}, {"value": 2, "timed": 3, "best": 12343}],
    }


def test_the_picture(searched):
    folder, _ = searched
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")


def test_no_other_candidate_beats_one_of_the_front():
    values = np.random.default_rng(0).integers(0, 9, (60, 2)).tolist()
    rows = sorted(({"a": a, "b": b} for a, b in values), key=lambda row: (row["a"], row["b"]))
    kept = [(row["a"], row["b"]) for row in front(rows, ["a", "b"])]
    beaten = {(a, b) for a, b in map(tuple, values) for c, d in values if c <= a and d <= b and (c, d) != (a, b)}
    assert set(kept) == set(map(tuple, values)) - beaten
    assert len(kept) == len(set(kept))


def compiled(header, lines, tmp_path):
    """What a program with a stub of the macros prints of a header."""
    (tmp_path / "register").mkdir()
    (tmp_path / "tiling").mkdir()
    (tmp_path / "register" / "tilingdata_base.h").write_text("#pragma once" + MACROS)
    fields = "\n".join(f"TILING_DATA_FIELD_DEF(uint32_t, {name});" for name in SOFT_MAX_FIELDS)
    struct = f"namespace optiling {{ BEGIN_TILING_DATA_DEF(SoftMaxTiling)\n{fields}\nEND_TILING_DATA_DEF; }}\n"
    (tmp_path / "tiling" / "tiling_api.h").write_text(f'#pragma once\n#include "register/tilingdata_base.h"\n{struct}')
    main = tmp_path / "main.cpp"
    main.write_text(f'#include "{header}"\n#include <cstdio>\nusing namespace optiling;\nint main() {{\n{lines}\n}}\n')
    program = tmp_path / "main"
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", str(tmp_path)]
    subprocess.run(["g++", *flags, str(main), "-o", str(program)], check=True)
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.split()


needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")


@needs_compiler
def test_the_header_compiles_and_holds_the_best(searched, tmp_path):
    folder, _ = searched
    out = command("export", str(folder / "r.csv"), "--out", str(folder / "ex"))
    assert out.stdout.splitlines() == [
        f"wrote {folder / 'ex' / name}"
        for name in ("softmaxgrad_960x960_float_tuned.toml", "softmaxgrad_960x960_float_tuned_tiling.h")
    ]
    name = "Softmaxgrad960x960FloatTilingData"
    values = ["t.get_tileM()", "t.get_inPNum()", "t.get_tempBytes()", f"{name}BlockDim"]
    values += [f"t.softMaxTilingData.get_{field}()" for field in SOFT_MAX_FIELDS]
    prints = "\n".join(f'std::printf("%u ", (unsigned){value});' for value in values)
    header = folder / "ex" / "softmaxgrad_960x960_float_tuned_tiling.h"
    printed = compiled(header, f"{name} t; Fill{name}(t);\n{prints}", tmp_path)
    best = {"srcM": 5, "srcK": 960, "srcSize": 4800, "outMaxM": 5, "outMaxK": 8, "outMaxSize": 40, "splitM": 5}
    best |= {"splitK": 960, "splitSize": 4800, "reduceM": 5, "reduceK": 8, "reduceSize": 40, "rangeM": 1}
    assert [int(one) for one in printed] == [5, 2, 20800, 48, *(best.get(field, 0) for field in SOFT_MAX_FIELDS)]


def test_the_scenario_of_the_best_is_the_best(searched):
    folder, _ = searched
    command("export", str(folder / "r.csv"), "--out", str(folder / "ex2"))
    scenario = load_scenario(folder / "ex2" / "softmaxgrad_960x960_float_tuned.toml")
    assert (scenario.tiling["tile_m"], scenario.queues["out"].num, scenario.block_dim) == (5, 2, 48)


@needs_compiler
def test_a_header_of_lists_words_and_a_users_kernel(tmp_path):
    ragged = "FastSoftmaxGradSmallTilingData t; FillFastSoftmaxGradSmallTilingData(t);"
    ragged += 'std::printf("%u %u", t.get_qSeqLen()[4], t.get_tileRows());'
    add = 'VectorAddTilingData t; FillVectorAddTilingData(t); std::printf("%u %u", t.get_tileLength(), t.get_inXNum());'
    for name, vary, lines, numbers in (
        ("fast_softmax_grad_small", "tile_rows=4", ragged, ["130", "4"]),
        ("vector_add", "tile_length=1024", add, ["1024", "2"]),
    ):
        folder = tmp_path / name
        folder.mkdir()
        command("tune", name, "--vary", vary, "--workers", "1", "--out", str(folder / "r.csv"))
        command("export", str(folder / "r.csv"), "--out", str(folder))
        assert compiled(folder / f"{name}_tuned_tiling.h", lines, folder) == numbers
        assert command("check", str(folder / f"{name}_tuned.toml")).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "--vary: nothing varies"),
        (("--vary", "tile_m=4", "--search", "best"), "--search best: unknown; choose from exhaustive, random, guided"),
        (("--vary", "tile_m=4", "--samples", "3"), "--samples: an exhaustive search looks at all candidates"),
        (("--vary", "tile_m=4", "--objective", "speed"), "--objective speed: unknown; choose from cycles, peak_ub, "),
        (("--vary", "tile_m=4", "--out", "r.xlsx"), "--out r.xlsx: want a name that ends in .csv or .parquet"),
        (
            ("--vary", "tile_m=4", "--executor", "slurm"),
            "--executor slurm: want processes, or dask://HOST:PORT such as ",
        ),
        (
            ("--vary", "tile_m=4", "--executor", "dask://127.0.0.1:1", "--workers", "2"),
            "--workers: a cluster has its own",
        ),
    ],
)
def test_what_is_refused(arguments, reason, tmp_path):
    out = command("tune", "softmaxgrad_960x960_float", *arguments, cwd=tmp_path)
    assert out.returncode == 2
    assert out.stderr.startswith(f"error: {reason}")
    assert list(tmp_path.iterdir()) == []


def test_no_candidate_can_be_timed(tmp_path):
    path = str(tmp_path / "r.csv")
    out = command("tune", "softmaxgrad_960x960_float", "--vary", "tile_m=90:92", "--workers", "1", "--out", path)
    assert out.returncode == 1
    assert "  3 dropped: E-CAP-UB-HW" in out.stdout
    assert "no candidate was timed" in out.stdout
    out = command("export", path)
    assert (out.returncode, out.stderr) == (
        2, "error: export: no candidate of these results was timed, so there is nothing to export\n",
    )  # fmt: skip


def test_random_search(tmp_path):
    arguments = ("tune", "softmaxgrad_960x960_float", *VARY, "--workers", "1", "--search", "random", "--samples", "2")
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for file in files:
        assert command(*arguments, "--seed", "1", "--out", str(file)).returncode == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(files[0].read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("optuna", ("--search", "guided"), "guided"),
        ("distributed", ("--executor", "dask://127.0.0.1:8786"), "cluster"),
        ("pyarrow", ("--out", "r.parquet"), "parquet"),
    ],
)
def test_an_extra_that_is_not_installed(module, arguments, extra, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, module, None)
    for name in ("guided", "cluster", "parquet"):
        monkeypatch.delitem(sys.modules, f"ascendsim.tuner.{name}", raising=False)
    out = command("tune", "vector_add", "--vary", "tile_length=1024", *arguments, cwd=tmp_path)
    assert out.returncode == 2
    assert f"which is not installed; install the extra: pip install 'ascendsim[{extra}]'" in out.stderr


def test_nothing_of_a_search_is_loaded_with_the_package():
    code = "import ascendsim, ascendsim.cli, sys; print([m for m in sys.modules if m.startswith('ascendsim.tuner')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
