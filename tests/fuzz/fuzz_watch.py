"""Calls the command in this process, as fast as that goes, and says what a user should never see."""

import gc
import io
import json
import os
import pickle
import re
import resource
import shutil
import signal
import sys
import traceback
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import typer.main

from ascendsim import cli, painter
from ascendsim.commands import terminal
from ascendsim.plot import process
from ascendsim.runfolder import PICTURES, RUN_FILE, UNFINISHED
from ascendsim.stored import result_of

CODES = {int(code) for code in terminal.Exit}
DRAWN = 200
LIMIT_S = 20
"""Seconds that one small case may take."""
MEMORY_BYTES = 8 << 30
"""What the process may take: a case that asks for more must be told so."""
RUN_FILES = {
    *("report.md", "trace.json", "outputs.npz", "findings.json", "scenario.toml", "run.npz", RUN_FILE, *PICTURES),
    *("report.html", "memory_info.json", "PipeUtilization.csv"),
}
_TEMPORARY = re.compile(r"\..*\.[0-9a-f]{8}")
_JSON_COMMANDS = ("run", "check", "devices", "tmpsize", "plan", "why", "compare", "inspect", "tune", "export")


class Hang(BaseException):
    """A case takes longer than LIMIT_S."""


class InPlace:
    """Stands in for the process that draws, which takes a second for each run.

    It draws one run in DRAWN, in this process; what goes wrong then escapes.
    """

    begun = 0
    is_begun = False

    def __init__(self, begin=None):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def begin(self, record, arrays):
        """Keep what is to be drawn."""
        InPlace.begun += 1
        self.is_begun = True
        self._names = record["pictures"]
        self._run = pickle.dumps((dict(record), dict(arrays))) if InPlace.begun % DRAWN == 1 else b""

    def pictures(self):
        """The pictures, or their names only."""
        if not self._run:
            return dict.fromkeys(self._names, b"picture")
        record, arrays = pickle.loads(self._run)
        return process.draw(result_of(record, arrays, {}, Path()), self._names)


@dataclass(frozen=True)
class Told:
    """What a command said."""

    code: int | None
    out: str
    err: str
    escaped: str = ""
    """Traceback of what it let through."""
    summary: str = ""
    """Kind and place of what it let through."""


@contextmanager
def watching(folder):
    """Work in a folder. One command object, hardly any pictures, warnings are errors, no .pyc files beside kernels."""
    before = cli.app, painter.Painter, sys.argv, sys.dont_write_bytecode, Path.cwd()
    alarm = signal.signal(signal.SIGALRM, _hang)
    cli.app, painter.Painter = typer.main.get_command(cli.app), InPlace
    sys.dont_write_bytecode = True
    os.chdir(folder)
    memory = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, memory[1]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    finally:
        cli.app, painter.Painter, sys.argv, sys.dont_write_bytecode = before[:4]
        os.chdir(before[4])
        resource.setrlimit(resource.RLIMIT_AS, memory)
        signal.signal(signal.SIGALRM, alarm)


def _hang(number, frame):
    raise Hang


def told_by(argv):
    """What the command says to these arguments."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="strict", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace", write_through=True)
    sys.argv = ["ascendsim", *argv]
    old = sys.stdout, sys.stderr
    code, escaped, summary = None, "", ""
    thresholds = gc.get_threshold()
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        sys.stdout, sys.stderr = out, err
        cli._run_command()
    except SystemExit as error:
        code = error.code
    except BaseException as error:  # noqa: BLE001 - all of it is what this looks for
        escaped = traceback.format_exc()
        summary = f"{type(error).__name__} at {_place(error)}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.set_threshold(*thresholds)  # a search has others, which only a process of its own should keep
        for console in (terminal.out, terminal.wide):
            console._buffer.clear()
        sys.stdout, sys.stderr = old
    return Told(int(code or 0), _text(out), _text(err), escaped, summary)


def _text(stream):
    return stream.buffer.getvalue().decode("utf-8", "replace")


def _place(error):
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "ascendsim" in f.filename]
    frames = [f for f in frames if "fuzz_" not in f.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno} {frames[-1].name}" if frames else "?"


def snapshot(folder):
    """Every file below a folder with its content, every folder with None."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in files:
            path = os.path.join(place, name)  # noqa: PTH118 - for speed
            with open(path, "rb") as file:  # noqa: PTH123 - for speed
                found[path] = file.read()
        for name in folders:
            found[os.path.join(place, name)] = None  # noqa: PTH118 - for speed
    return found


def wrong(argv, told, before, after):
    """What is wrong with how a command ended, in words; nothing where all is well."""
    if told.escaped:
        return [f"escaped: {told.summary}"]
    found = []
    if told.code not in CODES:
        found.append(f"exit code {told.code}")
    if "Traceback" in told.out or "Traceback" in told.err:
        found.append("a traceback is printed")
    found += _of_messages(argv, told)
    found += _of_files(told, before, after)
    return found


def _of_messages(argv, told):
    text = told.err.strip()
    if told.code == 2 and argv and not re.match(r"(Usage: .*)?[Ee]rror: .*\S", text, re.DOTALL):
        yield f"exit code 2 with the message {text[:80]!r}"
    if told.code not in (0, 2) and not (text or told.out.strip()):
        yield f"exit code {told.code} without a message"
    if re.search(r"(: |\()(\w*Error|None)?\)?$", text) and told.code == 2 and not text.endswith((")", *argv)):
        yield f"a message that ends in nothing: {text[-80:]!r}"
    if re.search(r"\.py:\d+: \w*Warning: ", told.err):
        yield "a warning of Python is printed"
    if told.code in (0, 1, 3) and _asks_for_json(argv):
        try:
            json.loads(told.out, parse_constant=_no_constant)
        except ValueError as error:
            yield f"--json prints no JSON: {error}"[:80]


def _asks_for_json(argv):
    """Whether --json is an option here, and not the value of one such as --out."""
    if argv[0] not in _JSON_COMMANDS or "--help" in argv:
        return False
    flags = {
        name for option in cli.app.commands[argv[0]].params if getattr(option, "is_flag", 0) for name in option.opts
    }
    return any(text == "--json" and (before in flags or not before.startswith("--")) for before, text in pairwise(argv))


def _no_constant(name):
    raise ValueError(f"{name} is no JSON")


def _of_files(told, before, after):
    new = {path: content for path, content in after.items() if before.get(path, ...) != content}
    gone = set(before) - set(after)
    for path in new:
        if _TEMPORARY.fullmatch(Path(path).name):
            yield "a temporary file is left"
    if told.code == 2 and (new or gone):
        names = sorted(Path(path).name for path in (*new, *gone))
        yield f"exit code 2, but files are written: {', '.join(names)[:80]}"
    for folder in {str(Path(path).parent) for path in new}:
        names = {Path(path).name for path in after if str(Path(path).parent) == folder}
        if UNFINISHED in names or (RUN_FILE in names and not names >= RUN_FILES):
            yield "half a run is left"


def empty(place):
    """Remove all from a case's folder but the one in it that is worked in."""
    for entry in [*os.scandir(place), *os.scandir(place / "work")]:
        if entry.path == str(place / "work"):
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.remove(entry.path)  # noqa: PTH107 - for speed
