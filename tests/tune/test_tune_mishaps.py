"""What happens to a search: Ctrl-C, a full disk, places where nothing can be written, results that are no numbers."""

import errno
import json
import multiprocessing.forkserver
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT
from tune_harness import command

import ascendsim as asc
from ascendsim.tuner import store
from ascendsim.tuner.evaluation import Setup
from ascendsim.tuner.executors import Processes
from ascendsim.tuner.parts import local
from ascendsim.tuner.space import parse_space
from ascendsim.tuner.store import journal_of

VARY = ("--vary=tile_length=256,512,1024,2048", "--vary=buffer_num=1,2")
PATIENCE_S = 120
WAITS = """
import time
from pathlib import Path


def main(asc, x, y, z, t):
    while t.tile_length == 2048 and (Path(__file__).parent / "hold").exists():
        time.sleep(0.01)
    add(asc, x, y, z, t)


def add("""
"""Some candidates are recorded as soon as a file is gone."""


@pytest.fixture
def waiting(tmp_path):
    """A folder with a scenario whose default, and some candidates, wait while the file "hold" is there."""
    kernel = (ROOT / "scenarios" / "vector_add.py").read_text()
    (tmp_path / "vector_add.py").write_text(kernel.replace("def main(", WAITS.lstrip("\n"), 1))
    text = (ROOT / "scenarios" / "vector_add.toml").read_text()
    (tmp_path / "s.toml").write_text(text.replace("tile_length = 2048", "tile_length = 4096"))
    return tmp_path


def journal_lines(path):
    """Lines that the journal of a search has, 0 before there is one."""
    try:
        return journal_of(path).read_bytes().count(b"\n")
    except OSError:
        return 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(waiting, workers):
    path = waiting / "r.csv"
    words = ("tune", "s.toml", *VARY, "--out", "r.csv")
    (waiting / "hold").touch()
    search = subprocess.Popen(
        [sys.executable, "-m", "ascendsim", *words, "--workers", workers],
        cwd=waiting,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + PATIENCE_S
    while journal_lines(path) < 1 + 5:  # head, default, some candidates
        assert time.monotonic() < until
        assert search.poll() is None
        time.sleep(0.01)
    os.killpg(search.pid, signal.SIGINT)  # as a terminal does: to all processes
    out, err = search.communicate(timeout=PATIENCE_S)
    assert (search.returncode, out) == (130, "")
    assert err == "what is done is kept in r.csv; the same command goes on there\ninterrupted\n"
    assert not journal_of(path).exists()
    known = len(path.read_text().splitlines()) - 2
    assert 5 <= known <= 7
    (waiting / "hold").unlink()
    said = command(*words, "--workers", "1", cwd=waiting)
    assert f"\n{9 - known} evaluated now, {known} known before\n" in said.stdout
    content = path.read_bytes()
    path.unlink()
    assert command(*words, "--workers", "1", cwd=waiting).returncode == 0
    assert path.read_bytes() == content


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_ctrl_c_reaches_no_process_not_even_one_that_begins():
    scenario = asc.load_scenario("vector_add")
    with Processes(Setup(scenario, parse_space(("tile_length=1024",), scenario)), 2) as processes:
        ids = (*processes.process_ids, multiprocessing.forkserver._forkserver._forkserver_pid)
        for one in ids:
            status = dict(line.split(":\t", 1) for line in Path(f"/proc/{one}/status").read_text().splitlines())
            assert int(status["SigBlk"], 16) >> (signal.SIGINT - 1) & 1


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
from ascendsim.cli import main
sys.argv = ["ascendsim", *sys.argv[2:]]
main()
"""


def test_a_full_disk(tmp_path):
    """No file may be larger than the head and about three rows."""
    path, words = tmp_path / "r.csv", ("tune", "vector_add", *VARY, "--workers", "1", "--out", "r.csv")
    assert command(*words, cwd=tmp_path).returncode == 0
    whole = path.read_bytes()
    path.unlink()
    limited = [sys.executable, "-c", LIMITED, str(len(b"".join(whole.splitlines(keepends=True)[:5]))), *words]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, check=False)
    kept = "make room, and the same command goes on with what is done"
    told = f"error: --out r.csv: cannot be written: File too large; {kept}\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)
    assert [file.name for file in tmp_path.iterdir()] == ["r.csv"]  # which has shorter lines than its journal
    known = len(path.read_text().splitlines()) - 2
    assert 1 <= known <= 4
    again = command(*words, cwd=tmp_path)
    assert f"\n{9 - known} evaluated now, {known} known before\n" in again.stdout
    assert path.read_bytes() == whole


def test_a_disk_that_is_full_in_the_end(tmp_path, monkeypatch):
    words = ("tune", "vector_add", *VARY, "--workers", "1", "--out", "r.csv")
    assert command(*words, cwd=tmp_path).returncode == 0
    whole = (tmp_path / "r.csv").read_bytes()
    (tmp_path / "r.csv").unlink()
    real = store.write_whole

    def full(path, content):
        if path.name == "r.csv":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, content)

    monkeypatch.setattr(store, "write_whole", full)
    said = command(*words, cwd=tmp_path)
    kept = "make room, and the same command goes on with what is done, which stands in r.csv.journal"
    told = f"error: --out r.csv: cannot be written: No space left on device; {kept}\n"
    assert (said.returncode, said.stdout, said.stderr) == (2, "", told)
    assert [file.name for file in tmp_path.iterdir()] == ["r.csv.journal"]
    monkeypatch.setattr(store, "write_whole", real)
    assert "\n0 evaluated now, 9 known before\n" in command(*words, cwd=tmp_path).stdout
    assert (tmp_path / "r.csv").read_bytes() == whole


def shut(monkeypatch, folder):
    """Let a folder be one that cannot be written into, also for who may write everywhere."""
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder and real(path, mode))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--out", "ro/r.csv"), "--out ro/r.csv: nothing can be written into {}/ro; name another file"),
        (("--out", "ro/x/r.csv"), "--out ro/x/r.csv: nothing can be written into {}/ro; name another file"),
        (("--out", "f.csv/r.csv"), "--out f.csv/r.csv: nothing can be written into {}/f.csv; name another file"),
        (("--out", "d.csv"), "--out d.csv: is a folder; name a file"),
        (("--out", "r.csv", "--picture", "ro/p.png"), "--picture ro/p.png: nothing can be written into {}/ro; name "),
        (("--out", "r.csv", "--picture", "d.png"), "--picture d.png: is a folder; name a file"),
        (("--out", "r.csv", "--picture", "."), "--picture .: want a name that ends in .png"),
        (("--out", "r.csv", "--picture", "r.csv"), "--picture r.csv: want a name that ends in .png"),
        (("--out", "f.csv"), "f.csv: no results of ascendsim tune, or damaged (no results of ascendsim tune, or cut "),
    ],
)
def test_places_where_nothing_can_be_written(options, reason, tmp_path, monkeypatch):
    for name in ("ro", "d.csv", "d.png"):
        (tmp_path / name).mkdir()
    (tmp_path / "f.csv").write_text("a,b\n1,2\n")
    shut(monkeypatch, tmp_path / "ro")
    before = sorted(tmp_path.rglob("*"))
    said = command("tune", "vector_add", *VARY, "--workers", "1", *options, cwd=tmp_path)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith(f"error: {reason.format(tmp_path)}")
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "f.csv").read_text() == "a,b\n1,2\n"


def test_a_picture_that_cannot_be_written_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("ascendsim.runfolder.check_png", lambda option, target: None)
    (tmp_path / "p.png").mkdir()
    said = command("tune", "vector_add", *VARY, "--workers", "1", "--out", "r.csv", "--picture", "p.png", cwd=tmp_path)
    assert (said.returncode, said.stderr) == (2, "error: --picture p.png: cannot be written: Is a directory\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.png", "r.csv"]


@pytest.mark.parametrize("search", ["exhaustive", "random", "guided"])
def test_nothing_is_kept_of_a_search_that_has_not_begun(tmp_path, search):
    """A constraint that has no value for the first candidate."""
    if search == "guided":
        pytest.importorskip("optuna")
    said = command("tune", "vector_add", *VARY, "--where", "1 // (buffer_num - 1) > 0", "--workers", "1",
                   "--search", search, "--out", "r.csv", cwd=tmp_path)  # fmt: skip
    assert (said.returncode, said.stderr) == (
        2,
        'error: --where "1 // (buffer_num - 1) > 0": division by zero (1 divided by 0) with buffer_num = 1\n',
    )
    assert list(tmp_path.iterdir()) == []


def test_why_no_candidate_was_timed(tmp_path):
    said = command(
        "tune", "vector_add", "--vary", "tile_length=8200,abc", "--workers", "1", "--out", "r.csv", cwd=tmp_path
    )
    assert said.returncode == 1
    lines = said.stdout.splitlines()
    assert lines[1:4] == [
        "0 timed, 2 dropped before simulation",
        "  1 dropped: E-ALIGN-COUNT",
        "  1 dropped: kernel error",
    ]
    assert lines[4].startswith("no candidate was timed; number 1, E-ALIGN-COUNT: ")


def test_an_objective_that_is_nothing_here(tmp_path):
    said = command("tune", "vector_add", "--vary", "tile_length=256,1024", "--objective", "peak_l1", "--json",
                   "--workers", "1", "--out", "r.csv", cwd=tmp_path)  # fmt: skip
    found = json.loads(said.stdout)
    assert [row["peak_l1_bytes"] for row in found["ranked"]] == [None, None]
    assert [s["spread"] for s in found["sensitivities"]] == [0.0]


def test_no_more_processes_than_candidates():
    scenario = asc.load_scenario("vector_add")
    setup = Setup(scenario, parse_space(("tile_length=256,1024",), scenario))
    assert local(1000)(setup)._count == 3
    assert local(2)(setup)._count == 2


def test_one_candidate_is_not_ahead(tmp_path):
    said = command("tune", "vector_add", "--vary", "tile_length=1024", "--workers", "1", "--out", "r.csv", cwd=tmp_path)
    assert "vector_add on Ascend910B1: 1 point of tile_length (1)" in said.stdout.splitlines()
    assert "The model may be off by 1.8% here (nine times in ten)." in said.stdout.splitlines()
