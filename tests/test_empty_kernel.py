"""A kernel that does nothing is no mistake: every command says so and none stumbles."""

import json

import pytest

SCENARIO = """schema = 1
kernel = "k.py:main"
device = "Ascend910B1"
[tensors.x]
role = "input"
shape = [64]
dtype = "float"
fill = "normal"
seed = 1
"""
NOTHING, WAITING = "pass", "asc.scalar_work(10)"


@pytest.fixture(params=[NOTHING, WAITING], ids=["nothing", "scalar unit only"])
def folder(request, tmp_path):
    (tmp_path / "s.toml").write_text(SCENARIO)
    (tmp_path / "k.py").write_text(f"def main(asc, x, t):\n    {request.param}\n")
    return tmp_path


def test_it_runs_and_its_folder_is_whole(folder, ascendsim):
    ascendsim("run", "s.toml", "--out", "o", cwd=folder)
    events = json.loads((folder / "o" / "trace.json").read_text())["traceEvents"]
    assert not [e for e in events if e.get("name") == "GB/s" or e.get("pid") == "Links"]
    assert ascendsim("why", "o", cwd=folder).stdout.strip().splitlines()
    told = ascendsim("compare", "o", "o", cwd=folder).stdout
    assert told.strip().splitlines()[-1].startswith("the runs are equal: same program digest, same timeline")


def test_its_rows_are_none(tmp_path, ascendsim):
    (tmp_path / "s.toml").write_text(SCENARIO)
    (tmp_path / "k.py").write_text("def main(asc, x, t):\n    pass\n")
    ascendsim("run", "s.toml", "--out", "o", cwd=tmp_path)
    for options, what in (((), "the program has no rows"), (("--core", "1"), "core 1 has no rows")):
        assert (
            ascendsim("inspect", "o", "--row", "0", *options, cwd=tmp_path, code=2).stderr == f"error: row 0: {what}\n"
        )


def test_a_search_has_nothing_to_gain(folder, ascendsim):
    told = ascendsim("tune", "s.toml", "--vary", "block_dim=1,2", "--workers", "1", "--out", "t.csv", cwd=folder).stdout
    ranks = [line.split()[-3:] for line in told.splitlines() if line.startswith(("1=", "2="))]
    assert ranks == [["+0.0%", "-", "-"]] * 2
    assert "Best against default" not in told
    again = ascendsim(
        "tune", "s.toml", "--vary", "block_dim=1,2", "--workers", "1", "--out", "t.csv", cwd=folder
    ).stdout
    assert "0 evaluated now, 3 known before" in again
    ascendsim("export", "t.csv", "--out", "e", cwd=folder)
    assert (folder / "e" / "s_tuned.toml").exists()
