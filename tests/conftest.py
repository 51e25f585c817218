import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from hypothesis import settings

from ascendsim import cli
from ascendsim.commands import terminal
from ascendsim.device import Device, load_device

settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")  # a slow day is no failure

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden"
LONG_SCENARIOS = (
    *("fag_llama7b_layer", "fag_tuning_balance", "fag_tuning_s6144", "fag_tuning_s9216"),
    *("fast_softmax_grad_32_lengths", "laser_attention_grad_192", "laser_attention_grad_8192"),
)
"""Thousands of score blocks, or a hundred million rows, on a whole chip: `make deep` runs them."""
SCENARIOS = sorted({path.stem for path in (ROOT / "scenarios").glob("*.toml")} - set(LONG_SCENARIOS))


def pytest_sessionstart(session):
    """Compile once before processes begin side by side: each would, and so would every command that they start."""
    if session.config.getoption("numprocesses", None):
        from ascendsim.machine import run

        run("vector_add")


def pytest_collection_modifyitems(items):
    """Begin with the long ones; the others keep their order."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def device() -> Device:
    return load_device("Ascend910B1")


class Undrawn:
    """Stands in for the process that draws, in tests that do not look at pictures: starting it takes a second."""

    is_begun = False

    def __init__(self, begin=None):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def begin(self, record, arrays):
        """Take what is to be drawn."""
        self.is_begun = True
        self.names = record["pictures"]

    def pictures(self):
        """The pictures' names, and something for each."""
        return dict.fromkeys(self.names, b"picture")


@pytest.fixture
def ascendsim(monkeypatch, capsys):
    """A function that calls `ascendsim` in this process, without pictures, and asserts its exit code; None allows any.

    What a process is needed for is tested with one: how it begins, draws, is interrupted and ends.
    """
    monkeypatch.setattr("ascendsim.painter.Painter", Undrawn)

    def called(*arguments, cwd=ROOT, code=0, columns=80):
        argv = ["ascendsim", *map(str, arguments)]
        for console in (terminal.out, terminal.err):
            monkeypatch.setattr(console, "_width", columns)  # whatever terminal this is
        monkeypatch.setattr(sys, "argv", argv)
        monkeypatch.chdir(cwd)
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli._run_command()
        done = CompletedProcess(argv, int(ended.value.code or 0), *capsys.readouterr())
        assert code in (None, done.returncode), f"{done.returncode}: {done.stdout}{done.stderr}"
        return done

    return called
