"""Pictures are begun as soon as there is a timeline: what stays as it was, and what becomes of them afterwards."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import Undrawn

import ascendsim as asc
from ascendsim.errors import Deadlock, Rejected
from ascendsim.plot import process
from ascendsim.runfolder import PICTURES
from ascendsim.stored import arrays_of, outline_of, result_of

KERNEL = """
import signal

from ascendsim import TPosition


def main(asc, x, at, y, t):
    pipe = asc.t_pipe()
    ques = asc.t_que(TPosition.VECIN, 1, "in_x"), asc.t_que(TPosition.VECIN, 1, "in_at")
    out = asc.t_que(TPosition.VECOUT, 1, "out")
    for que in (*ques, out):
        pipe.init_buffer(que, 1, 256)
    for que, source in zip(ques, (x, at)):
        local = que.alloc_tensor(source.dtype)
        asc.data_copy(local, source, 64)
        que.enque(local)
    values, offsets, got = ques[0].deque(x.dtype), ques[1].deque(at.dtype), out.alloc_tensor(y.dtype)
    asc.gather(got, values, offsets, 0, 64)
    out.enque(got)
    ques[0].free_tensor(values)
    ques[1].free_tensor(offsets)
    got = out.deque(y.dtype)
    asc.data_copy(y, got, 64)
    out.free_tensor(got)


def reference(inputs):
    signal.raise_signal(signal.SIGINT)
"""
SCENARIO = """
schema = 1
name = "gathered"
device = "Ascend910B1"
kernel = "k.py:main"
block_dim = 1
tensors.x = { role = "input", shape = [64], dtype = "float", fill = "normal", seed = 1 }
tensors.at = { role = "input", shape = [64], dtype = "uint32_t", file = "at.npy" }
tensors.y = { role = "output", shape = [64], dtype = "float" }
"""
OUTSIDE = 256
"""An offset that only computing values shows to lie outside."""


@pytest.fixture
def gathered(tmp_path):
    """Write a scenario that gathers, all offsets 0 but one, and return its file."""

    def written(offset, more=""):
        np.save(tmp_path / "at.npy", np.uint32([offset] + [0] * 63))
        (tmp_path / "k.py").write_text(KERNEL)
        (tmp_path / "s.toml").write_text(SCENARIO + more)
        return tmp_path / "s.toml"

    return written


@pytest.fixture
def begun(monkeypatch):
    """What painters were begun with, as (record, arrays), when the command runs in this process."""
    found = []

    class Kept(Undrawn):
        def begin(self, record, arrays):
            super().begin(record, arrays)
            found.append((record, arrays))

    monkeypatch.setattr("ascendsim.painter.Painter", Kept)
    return found


def _command(folder, *arguments):
    """Run the command as a process whose temporary files lie in a folder of their own; return it and what is left."""
    place = folder / "temporary"
    place.mkdir()
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ascendsim"), *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=120, env=os.environ | {"TMPDIR": str(place)},
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done, list(place.glob("ascendsim-*"))


def test_the_timeline_comes_before_values_and_once():
    told = []
    result = asc.run(
        "vector_add",
        on_timeline=told.append,
        progress=lambda stage, done, total: told.append(stage),
    )
    stages = [t if isinstance(t, str) else "timeline" for t in told]
    assert list(dict.fromkeys(stages)) == ["record", "schedule", "timeline", "values"]
    (early,) = (t for t in told if not isinstance(t, str))
    assert (dict(early.outputs), early.findings, early.expectations) == ({}, (), ())
    assert early.timeline.columns is result.timeline.columns
    assert (early.name, early.digest, early.engine) == (result.name, result.digest, result.engine)
    assert set(result.outputs) == {"z"}
    assert result.expectations


def test_pictures_of_the_early_result_are_those_of_the_whole():
    told = []
    result = asc.run("vector_add", windows=[(200, 300), (90_000, 90_001)], on_timeline=told.append)
    sent = result_of(outline_of(told[0], told[0].scenario), arrays_of(told[0]), {}, Path())
    assert sent.windows == ((200, 300),)
    assert process.draw(sent, PICTURES) == process.draw(result, PICTURES)


def test_findings_of_values_still_reject(gathered):
    told = []
    with pytest.raises(Rejected, match="E-INDEX-RANGE"):
        asc.run(gathered(OUTSIDE), on_timeline=told.append)
    assert len(told) == 1


def test_a_deadlock_comes_after_what_values_show(gathered, monkeypatch):
    def stuck(*arguments):
        raise Deadlock("no pipe can move", ())

    monkeypatch.setattr("ascendsim.machine.schedule", stuck)
    told = []
    with pytest.raises(Rejected, match="E-INDEX-RANGE"):
        asc.run(gathered(OUTSIDE), on_timeline=told.append)
    with pytest.raises(Deadlock, match="no pipe can move"):
        asc.run(gathered(0), on_timeline=told.append)
    assert told == []


def test_the_command_begins_pictures_once_and_early(gathered, tmp_path, ascendsim, begun):
    ascendsim("run", gathered(0), "--out", tmp_path / "x")
    ((record, _),) = begun
    assert record["summary"] == {"name": "gathered", "despite_findings": False}


def test_the_command_begins_pictures_before_values_reject(gathered, tmp_path, ascendsim, begun):
    done = ascendsim("run", gathered(OUTSIDE), "--out", tmp_path / "x", code=1)
    assert "E-INDEX-RANGE" in done.stderr
    assert len(begun) == 1
    assert not (tmp_path / "x").exists()


def test_an_error_found_in_values_is_stamped_on_pictures(gathered, tmp_path, ascendsim, begun):
    ascendsim("run", gathered(OUTSIDE), "--despite-findings", "--out", tmp_path / "x")
    ((record, _),) = begun
    assert record["summary"]["despite_findings"] is True


def test_a_rejected_run_leaves_nothing_behind(gathered, tmp_path):
    done, left = _command(tmp_path, "run", gathered(OUTSIDE), "--out", tmp_path / "x")
    assert (done.returncode, left) == (1, [])
    assert "E-INDEX-RANGE" in done.stderr
    assert not (tmp_path / "x").exists()


def test_ctrl_c_while_pictures_are_drawn_leaves_nothing_behind(gathered, tmp_path):
    path = gathered(0, '[expect.values.y]\nreference = "k.py:reference"\n')
    done, left = _command(tmp_path, "run", path, "--out", tmp_path / "x")
    assert (done.returncode, done.stderr, left) == (130, "interrupted\n", [])
    assert not (tmp_path / "x").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="copies of processes are used on Linux only")
def test_ending_a_painter_ends_its_copy(tmp_path):
    """Both hold the writing end of a pipe, which is at its end when both are gone."""
    (tmp_path / "slow_painter.py").write_text(
        "import os, sys, time, pathlib\nif os.fork():\n"
        "    (pathlib.Path(sys.argv[1]) / 'both').touch()\ntime.sleep(100)\n"
    )
    script = (
        "import os, pathlib, select, sys, time\nfrom ascendsim import painter\n"
        "painter.MODULE = 'slow_painter'\nplace = pathlib.Path(sys.argv[1])\nreading, writing = os.pipe()\n"
        "with (place / 'messages').open('wb') as messages:\n    forked = painter.Forked(place, messages)\n"
        "os.close(writing)\n"
        "while not (place / 'both').exists():\n    time.sleep(0.01)\n"
        "forked.kill()\nforked.communicate()\nprint(select.select([reading], [], [], 20)[0] == [reading])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False, timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)
