"""Exported tilings: TOML that a scenario runs, and AscendC lines with the right arguments and fields."""

import re
from dataclasses import asdict

import pytest
from conftest import ROOT

import ascendsim as asc
from ascendsim import tmpfolder
from ascendsim.scenario import load_scenario
from ascendsim.tmpsize import tmp_curve, tmp_size
from ascendsim.tmpsize.apis import APIS
from ascendsim.tmpsize.export import _HOSTS, host_lines, tiling_toml

SCENARIO = """
schema = 1
operator = "softmax_grad"
device = "Ascend910B1"
block_dim = 1
tiling = "{tiling}"
tensors.grad = {{ role = "input", shape = [64, 128], dtype = "float", fill = "normal", seed = 1 }}
tensors.src = {{ role = "input", shape = [64, 128], dtype = "float", fill = "softmax_rows", seed = 2 }}
tensors.dst = {{ role = "output", shape = [{rows}], dtype = "float" }}
"""


def _exported(answer, folder):
    return tmpfolder.write_tiling(answer, answer.recommended, folder)


@pytest.mark.parametrize(("is_front", "rows"), [(False, "64, 128"), (True, "64, 8")])
@pytest.mark.parametrize("size", [8000, 16384, None])
def test_a_scenario_runs_the_exported_tiling(tmp_path, is_front, rows, size):
    answer = tmp_size("softmaxgrad", (64, 128), "float", is_front=is_front, tmp_bytes=size)
    toml, _ = _exported(answer, tmp_path)
    assert toml.name == f"softmaxgrad_64x128_float{'_front' if is_front else ''}.toml"
    scenario = tmp_path / "s.toml"
    scenario.write_text(SCENARIO.format(tiling=toml.name, rows=rows))
    assert load_scenario(scenario).name == "s"
    result = asc.run(scenario)
    assert result.findings == ()
    log = result.program.instruction_log()
    assert result.peak_bytes["UB"] == 2 * 32768 + (2048 if is_front else 32768) + answer.recommended.tmp_bytes
    tiles = sum(row["ascendc_api"].startswith("Mul#") for row in log)
    tiling = answer.recommended.tiling
    assert tiles == (1 if is_front else 2) * (tiling.range_m + bool(tiling.tail_m))


def test_the_toml():
    answer = tmp_size("softmaxgrad", (64, 128), "float", tmp_bytes=16384)
    assert tiling_toml(answer, answer.recommended) == (
        "# SoftmaxGrad 64x128 float: a tile of 64 rows, temp 16384 B, split_m 16; one buffer a queue.\n"
        "schema = 1\n"
        'operator = "softmax_grad"\n'
        'description = "SoftmaxGrad 64x128 float, temp 16384 B, split_m 16"\n'
        "\n[tiling]\ntile_m = 64\ntmp_bytes = 16384\nis_front = false\n"
        "\n[queues]\nin_grad.num = 1\nin_p.num = 1\nout.num = 1\n"
        '\n[check]\ndevice = "Ascend910B1"\nblock_dim = 1\nshape = [64, 128]\ndtype = "float"\n'
    )


def test_the_host_lines():
    answer = tmp_size("softmaxgrad", (4, 16, 128), "float", is_front=True, tmp_bytes=16384)
    lines = host_lines(answer, answer.recommended).splitlines()
    size = "(shape, 4 /* float */, true /* isFront */, false /* isReuseSource */);"
    assert lines[:13] == [
        "// SoftmaxGrad 4x16x128 float, front, NpuArch 2201: temp and tiling found by ascendsim tmpsize.",
        "// Expected here: minTmpBytes 800, maxTmpBytes 51200.",
        "// In the operator's tiling function on the host:",
        '#include "tiling/tiling_api.h"',
        "",
        "const ge::Shape shape({4, 16, 128});",
        f"const uint32_t maxTmpBytes = AscendC::GetSoftMaxGradMaxTmpSize{size}",
        f"const uint32_t minTmpBytes = AscendC::GetSoftMaxGradMinTmpSize{size}",
        "const uint32_t tmpBytes = 16384;",
        "AscendC::tiling::SoftMaxTiling tiling;",
        "AscendC::SoftMaxGradTilingFunc(shape, 4 /* float */, tmpBytes, tiling, true /* isFront */);",
        "",
        "// What the call above fills in, for a kernel that is given constants:",
    ]
    assert lines[13] == "constexpr SoftMaxTiling expectedTiling = {"
    assert lines[30] == "};"
    fields = [re.fullmatch(r" {4}(\d+),  // (\w+)", line).groups() for line in lines[14:30]]
    names = (
        "srcM srcK srcSize outMaxM outMaxK outMaxSize splitM splitK splitSize reduceM reduceK reduceSize "
        "rangeM tailM tailSplitSize tailReduceSize"
    )
    assert [name for _, name in fields] == names.split()
    assert [int(value) for value, _ in fields] == list(asdict(answer.recommended.tiling).values())


CALLS = {
    "softmax": ({}, "SoftMaxTilingFunc(shape, 2 /* half */, tmpBytes, tiling);", "SoftMaxTiling"),
    "logsoftmax": ({}, "LogSoftMaxTilingFunc(shape, 2 /* half */, tmpBytes, tiling);", "LogSoftMaxTiling"),
    "softmaxflash": (
        {"is_update": True},
        "SoftMaxFlashTilingFunc(shape, 2 /* half */, tmpBytes, tiling, true /* isUpdate */);",
        "SoftMaxTiling",
    ),
    "softmaxflashv2": (
        {"sum_type": "float", "is_basic_block": True},
        (
            "SoftMaxFlashV2TilingFunc(shape, 2 /* half */, 4 /* float */, tmpBytes, tiling, false /* isUpdate */, "
            "true /* isBasicBlock */, false /* isFlashOutputBrc */);"
        ),
        "SoftMaxTiling",
    ),
    "softmaxflashv3": (
        {},
        (
            "SoftMaxFlashV3TilingFunc(shape, 2 /* half */, 4 /* float */, tmpBytes, tiling, false /* isUpdate */, "
            "false /* isBasicBlock */);"
        ),
        "SoftMaxTiling",
    ),
}


@pytest.mark.parametrize("api", CALLS)
def test_the_host_lines_of_the_family(api):
    more, call, struct = CALLS[api]
    answer = tmp_size(api, (16, 1024), "half", **more)
    text = host_lines(answer, answer.recommended)
    assert f"AscendC::{call}\n" in text
    assert f"AscendC::tiling::{struct} tiling;\n" in text
    assert f"constexpr {struct} expectedTiling" in text
    assert tiling_toml(answer, answer.recommended) is None


def test_v3_asks_for_both_sizes_at_once():
    answer = tmp_size("softmaxflashv3", (16, 1024), "half", is_update=True)
    both = "maxTmpBytes, minTmpBytes, true /* isUpdate */"
    assert f"GetSoftMaxFlashV3MaxMinTmpSize(shape, 2 /* half */, 4 /* float */, {both}" in host_lines(
        answer, answer.recommended
    )


def test_the_shipped_tiling_is_an_exported_one():
    answer = tmp_size("softmaxgrad", (64, 128), "float")
    shipped = (ROOT / "tilings/softmaxgrad_64x128_float.toml").read_text()
    assert shipped == tiling_toml(answer, answer.recommended)


def test_every_api_has_host_lines():
    assert set(_HOSTS) == set(APIS)


@pytest.mark.parametrize(
    ("more", "stem"),
    [
        ({"is_front": True, "is_basic_block": True}, "softmaxgrad_64x128_float_front_basic_block"),
        ({"data_format": "NZ"}, "softmaxgrad_64x128_float_nz"),
    ],
)
def test_what_no_operator_takes_has_host_lines_only(tmp_path, more, stem):
    files = _exported(tmp_size("softmaxgrad", (64, 128), "float", **more), tmp_path)
    assert [file.name for file in files] == [f"{stem}_tiling.h"]


@pytest.mark.parametrize(
    ("arguments", "more", "text"),
    [
        (
            ("softmaxgrad", (960, 960), "float"),
            {},
            (
                "--export: SoftmaxGrad 960x960 float does not fit in UB with its minimum temp; ask for a tile of at "
                "most 15 rows: --shape 15,960"
            ),
        ),
        (
            ("softmaxgrad", (8, 65536), "float"),
            {},
            "--export: SoftmaxGrad 8x65536 float does not fit in UB with its minimum temp; use shorter rows",
        ),
        (
            ("softmaxgrad", (64, 128), "float"),
            {"tmp_bytes": 800},
            "--export: a temp of 800 B gives no row (split_m 0); pass one with --temp, at least 832 B",
        ),
    ],
)
def test_what_cannot_be_exported(tmp_path, arguments, more, text):
    with pytest.raises(asc.InputError) as raised:
        _exported(tmp_size(*arguments, **more), tmp_path / "x")
    assert str(raised.value) == text
    assert not (tmp_path / "x").exists()


def test_files_are_written_whole_and_again(tmp_path):
    answer = tmp_size("softmaxgrad", (64, 128), "float")
    first = {file: file.read_bytes() for file in _exported(answer, tmp_path / "a" / "b")}
    assert {file: file.read_bytes() for file in _exported(answer, tmp_path / "a" / "b")} == first
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == [
        "softmaxgrad_64x128_float.toml",
        "softmaxgrad_64x128_float_tiling.h",
    ]


def test_a_folder_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    answer = tmp_size("softmaxgrad", (8, 64), "float")
    with pytest.raises(asc.InputError, match=r"softmaxgrad_8x64_float.toml cannot be written: .*; name another folder"):
        _exported(answer, tmp_path / "file")
    with pytest.raises(asc.InputError, match=r"--out .*softmaxgrad_8x64_float_curve.png cannot be written"):
        tmpfolder.write_curve(tmp_curve(answer), tmp_path / "file")
