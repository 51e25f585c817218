"""`ascendsim fsg`: what it prints, what it exits with, what it says to wrong input."""

import json
import re
import subprocess
import sys

import pytest
from conftest import ROOT
from typer.testing import CliRunner

from ascendsim import atb, cli
from ascendsim.machine import run as run_scenario

PAGE = ("--head-num", "8", "--q-seq-len", "487,16,532,413")


def run(*words):
    return CliRunner().invoke(cli.app, ["fsg", *words])


def test_the_page_of_the_operation():
    done = run(*PAGE)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[:20] == [
        "FastSoftMaxGradOperation headNum 8, qSeqLen [487, 16, 532, 413] on Ascend910B1",
        "accepted: NO_ERROR",
        "nSquareTokens = 8 * 691,018 = 5,528,144",
        "yInput, yGrad and output of 11,056,288 B each; workspace 0 B",
        "block dim 48, tiling data 712 B, shared temp 49,536 B",
        "",
        "Items; K padded row, tiles of the first and of the other cores, splitM of SoftmaxGrad in a tile",
        "  item    n    K   rows  tile rows  left over            tiles  splitM  first element     UB B",
        "  0     487  496  3,896         14          4  38 x 6 + 10 x 5       7              0  132,864",
        "  1      16   16    128          3          2   42 x 1 + 6 x 0       3      1,897,352   50,112",
        "  2     532  544  4,256         13          5   39 x 7 + 9 x 6       7      1,899,400  134,400",
        "  3     413  416  3,304         18         10   39 x 4 + 9 x 3       8      4,163,592  139,392",
        "",
        "Load of 48 AIVs: 834 tiles, of a core 14 to 18",
        "  busiest AIV 0 with 119,104 elements, idlest AIV 42 with 97,888; balance 0.967",
        "",
        "UB, item 3: 139,392 of 196,608 B, 57,216 B free",
        "                from       B",
        "  y_input[0]       0  14,976",
        "  y_input[1]  14,976  14,976",
    ]
    assert lines[-1].startswith("  in all ")


def test_as_json():
    done = run(*PAGE, "--json", "--soc", "Ascend910B3")
    found = json.loads(done.stdout)
    assert (found["stage"], found["error"], found["message"]) == ("ok", "NO_ERROR", "")
    assert (found["n_square_tokens"], found["block_dim"]) == (5528144, 40)
    assert [s["seq_aligned"] for s in found["samples"]] == [496, 16, 544, 416]
    assert sum(found["load"]["elements"]) == 5528144
    assert found["load"]["balance"] == sum(found["load"]["elements"]) / 40 / max(found["load"]["elements"])
    first = found["samples"][0]
    assert [area["start_bytes"] for area in first["areas"]][:2] == [0, first["tile_rows"] * 992]
    assert found["estimate"]["cycles"] == max(found["estimate"]["core_cycles"])


def test_a_refused_call():
    done = run("--head-num", "8", "--q-seq-len", "8,8", "--tensor", "yGrad=bf16")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "FastSoftMaxGradOperation headNum 8, qSeqLen [8, 8] on Ascend910B1",
        "infer_shape: ERROR_INVALID_TENSOR_INI_MATCH",
        "nSquareTokens = 8 * 128 = 1,024",
        "",
        "error E-ATB-INI yGrad is bf16 nd: FastSoftMaxGradOperation takes float16 nd",
        "  where: FastSoftMaxGradOperation yGrad; got bf16 nd, wanted float16 nd",
        "  to mend it: convert the tensor",
        "  source: ascend-transformer-boost, atb_ops_info.ini",
    ]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--tensor", "yGrad=null"), "infer_shape: ERROR_INVALID_IN_TENSOR_NUM"),
        (("--tensor", "yInput:format=NZ"), "infer_shape: ERROR_INVALID_TENSOR_INI_MATCH"),
        (("--tensor", "yInput=2,512"), "infer_shape: ERROR_INVALID_TENSOR_DIM_NUM"),
        (("--tensor", "output=512"), "setup: ERROR_INVALID_TENSOR_SIZE"),
        (("--rsv", "0,0,0,0,0,0,0,1"), "create: ERROR_INVALID_PARAM"),
        (("--soc", "Ascend310P3"), "create: ERROR_INVALID_PARAM"),
        (("--soc", "Atlas training products"), "create: ERROR_INVALID_PARAM"),
    ],
)
def test_refusals(words, error):
    done = run("--head-num", "8", "--q-seq-len", "8,8", *words)
    assert (done.exit_code, done.stdout.splitlines()[1]) == (1, error)
    as_json = json.loads(run("--head-num", "8", "--q-seq-len", "8,8", *words, "--json").stdout)
    assert f"{as_json['stage']}: {as_json['error']}" == error
    assert "samples" not in as_json


def test_prescribed_numbers():
    done = run(*PAGE, "--set", "tile_rows=5", "--set", "tmp_bytes=20000", "--set", "buffers=1", "--set", "cores=4")
    assert done.exit_code == 0
    assert "block dim 4, tiling data 712 B, shared temp 20,000 B" in done.stdout
    too_much = run(*PAGE, "--set", "tile_rows=60")
    assert too_much.exit_code == 1
    assert "error E-CAP-UB-HW UB address" in too_much.stdout
    no_tile = run(*PAGE, "--set", "tmp_bytes=1000", "--json")
    assert no_tile.exit_code == 1
    assert {f["code"] for f in json.loads(no_tile.stdout)["findings"]} == {"E-SMG-NOTILE"}
    assert json.loads(no_tile.stdout)["estimate"]["cycles"] is None


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--q-seq-len", "8,x"), "--q-seq-len 8,x: want whole numbers joined by commas, such as 487,16,532,413"),
        (("--rsv", "0"), "rsv has 1 bytes: must be 8"),
        (("--tensor", "yGrad"), "--tensor yGrad: want NAME=HOW, such as yInput=bf16; HOW is null, empty, a type"),
        (("--tensor", "y=half"), "--tensor y=half: FastSoftMaxGradOperation has yInput, yGrad, output"),
        (("--tensor", "yInput=format="), "--tensor yInput=format=: want null, empty, a type"),
        (("--set", "tile=3"), "--set tile: unknown; it may be tile_rows, tmp_bytes, cores, buffers"),
        (("--set", "tile_rows=0"), "--set tile_rows = 0: must be a whole number of at least 1"),
        (("--set", "cores=49"), "cores = 49: Ascend910B1 has 48 AIVs; choose at most that many"),
        (("--soc", "Ascend910B9"), "unknown device 'Ascend910B9'"),
    ],
)
def test_wrong_input(words, text):
    done = run(*PAGE, *words)
    assert text in str(done.exception)


def test_the_estimate_is_near_a_run():
    """Within 15 % of what the whole simulation says; it errs slow, as its cores keep in step."""
    found = atb.answer(atb.FastSoftMaxGradParam(8, [487, 16, 532, 413]))
    cycles = run_scenario("fast_softmax_grad_page", set={"machine.values": "none"}).makespan_cycles
    assert cycles <= found.cycles <= 1.15 * cycles


def test_the_example_of_the_page():
    text = (ROOT / "docs/fsg.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    first, second, third = done.stdout.splitlines()
    assert first == "ok NO_ERROR 2"
    assert second.startswith("infer_shape ERROR_INVALID_TENSOR_INI_MATCH infer_shape: ")
    assert third.startswith("[")


def test_the_lines_of_the_page_are_printed():
    text = (ROOT / "docs/fsg.md").read_text()
    (block,) = re.findall(r"    \$ ascendsim fsg (.*?)\n\n", text, re.DOTALL)
    words, *shown = block.split("\n")
    printed = run(*words.split()).stdout.splitlines()
    assert [line.strip() for line in shown if line.strip() not in [p.strip() for p in printed]] == ["..."] * 2
