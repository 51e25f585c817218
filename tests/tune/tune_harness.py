"""Searches without simulation: rows that are known beforehand, and a store in memory."""

import contextlib
import csv
import importlib.util
import io
import os
import subprocess
import sys
from pathlib import Path

from ascendsim import cli
from ascendsim.commands import terminal
from ascendsim.progress import silent
from ascendsim.tuner.search import Session

ROOT = Path(__file__).parent.parent.parent
FAG_SPACE = Path(__file__).parent / "data" / "fag_space.csv"


def space_tool():
    """The tool that makes FAG_SPACE."""
    spec = importlib.util.spec_from_file_location("make_fag_space", ROOT / "tools" / "make_fag_space.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def known_rows(setup):
    """By number: the row of each candidate of FAG_SPACE, as far as a search looks at it."""
    found = {}
    with FAG_SPACE.open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            number, cycles, code = int(line["candidate"]), line["cycles"], line["code"]
            cells = {"candidate": number, **setup.space.point(number), "status": "dropped" if code else "timed"}
            cells |= {"code": code or None, "cycles": int(cycles) if cycles else None}
            found[number] = tuple(cells.get(name) for name in setup.columns)
    return found


class MemoryStore:
    """Rows of a search, kept nowhere."""

    def __init__(self):
        self.rows = {}

    def add(self, row):
        assert row[0] not in self.rows
        self.rows[row[0]] = row


class Replay:
    """Answers with rows that are known, in an order of one's own."""

    def __init__(self, rows, order=list):
        self._rows, self._order = rows, order
        self.asked = []

    def rows(self, numbers):
        self.asked += numbers
        return (self._rows[number] for number in self._order(numbers))


def session(rows, order=list):
    """A session that answers with known rows."""
    return Session(MemoryStore(), Replay(rows, order), silent, len(rows))


def command(*arguments, cwd=None):
    """What `ascendsim` prints and returns, called in this process."""
    before, argv = Path.cwd(), sys.argv
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["ascendsim", *arguments]
    widths = [console._width for console in (terminal.out, terminal.err)]
    try:
        os.chdir(cwd or before)
        terminal.out._width = terminal.err._width = 200
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli._run_command()
        code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        os.chdir(before)
        sys.argv = argv
        terminal.out._width, terminal.err._width = widths
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())
