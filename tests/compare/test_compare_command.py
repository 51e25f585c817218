"""`ascendsim compare`: its three forms, exit codes and messages."""

import json

import pytest
from compare_harness import FINER, SMALL, added, all_cores, instructions, write

import ascendsim as asc

SET = [f"--set={key}={value}" for key, value in SMALL.items()]


def test_two_tilings_of_one_scenario(ascendsim):
    done = ascendsim("compare", "vector_add", "vector_add", *SET, "--set-b=tiling.tile_length=1024")
    assert done.stdout == f"{asc.compare('vector_add', 'vector_add', set_a=SMALL, set_b=FINER)}\n"


def test_equal_runs_and_their_exit_code(ascendsim):
    done = ascendsim("compare", "vector_add", "vector_add", *SET, "--equal")
    assert done.stdout.endswith("the runs are equal: same program digest, same timeline, same outputs\n")
    ascendsim("compare", "vector_add", "vector_add", *SET, "--set-b=tiling.tile_length=1024", "--equal", code=3)


def test_plain_data_are_one_object(ascendsim, tmp_path):
    done = ascendsim("compare", "vector_add", "vector_add", *SET, "--json", "--out", tmp_path / "c")
    plain = json.loads(done.stdout)
    assert plain["equal"] is True
    assert plain["files"] == [str(tmp_path / "c" / n) for n in ("compare.txt", "compare.json", "timelines.png")]


def test_a_trace(ascendsim, tmp_path):
    rows = instructions(added())
    file = write(tmp_path, all_cores(rows, 1800))
    done = ascendsim("compare", "vector_add", file, *SET, "--clock-mhz=1800", "--json")
    plain = json.loads(done.stdout)
    assert (plain["matched"], plain["error"], plain["clock_mhz"]) == (160, 0.0, 1800)
    other = [r | {"name": "VADDS"} if r["name"] == "VADD" else r for r in rows]
    done = ascendsim("compare", "vector_add", write(tmp_path, all_cores(other, 1850)), *SET, "--alias=VADD=VADDS")
    assert "160 pairs on 2 cores, of 160 instructions of the run and 160 of the trace\n" in done.stdout


def test_dumps_and_their_exit_code(ascendsim, tmp_path):
    board = added().outputs["z"].copy()
    (tmp_path / "z.bin").write_bytes(board.tobytes())
    done = ascendsim("compare", "vector_add", *SET, "--outputs", tmp_path)
    assert done.stdout.endswith("all compared values are within tolerance\n")
    board[5000] += 1
    (tmp_path / "z.bin").write_bytes(board.tobytes())
    done = ascendsim("compare", "vector_add", *SET, "--outputs", tmp_path, code=3)
    assert "from out_z[0] at UB address 0x4710" in done.stdout
    ascendsim("compare", "vector_add", *SET, "--outputs", tmp_path, "--atol=2")
    ascendsim("compare", "vector_add", *SET, "--outputs", tmp_path, "--ulp=60000")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "compare: name one thing to compare with: B (a run or a trace), or --outputs FOLDER"),
        (
            ["vector_add", "--outputs=d"],
            "compare: name one thing to compare with: B (a run or a trace), or --outputs FOLDER",
        ),
        (["vector_add", "--core=x"], "--clock-mhz, --core and --alias are about a trace: B must end in .json"),
        (["--outputs=d", "--alias=a=b"], "--clock-mhz, --core and --alias are about a trace: B must end in .json"),
        (["t.json", "--rtol=1"], "--atol, --rtol and --ulp are about dumps: give --outputs FOLDER"),
        (["t.json", "--equal"], "--set-b and --equal are about two runs: B must be a run's folder or a scenario"),
        (
            ["--outputs=d", "--set-b=a=1"],
            "--set-b and --equal are about two runs: B must be a run's folder or a scenario",
        ),
        (["t.json", "--alias=a"], "--alias a: want OURS=THEIRS, such as MOV_OUT_TO_UB=MOV_OUT_TO_UB_ALIGN"),
        (["gone.json"], "gone.json: no such file"),
    ],
)
def test_wrong_input_is_named_and_exits_with_2(arguments, text, ascendsim):
    done = ascendsim("compare", "vector_add", *arguments, code=2)
    assert done.stderr == f"error: {text}\n"


def test_a_place_that_cannot_be_written_is_refused_first(ascendsim, tmp_path):
    (tmp_path / "file").write_text("")
    done = ascendsim("compare", "vector_add", "vector_add", "--out", tmp_path / "file", code=2)
    assert done.stderr == f"error: --out {tmp_path / 'file'}: is a file; name a folder\n"
