"""What commands say to a terminal, to a pipe and to the shell: consoles, JSON, exit codes."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer
from rich.console import Console, RenderableType

from ascendsim.errors import Rejected

_TABLE_WIDTH = 200
"""Columns that wide tables may take: a narrow terminal breaks their lines, but no number is cut."""

out = Console(highlight=False, emoji=False, markup=False)
err = Console(stderr=True, highlight=False, emoji=False, markup=False)
wide = Console(highlight=False, emoji=False, markup=False, width=_TABLE_WIDTH)


class Exit(IntEnum):
    """Exit codes."""

    DONE = 0
    FINDINGS = 1
    INPUT = 2
    EXPECTATION = 3
    DEADLOCK = 4
    ENGINES = 5
    PICTURES = 6
    INTERRUPTED = 130


def print_json(value: object) -> None:
    """Print one JSON object."""
    sys.stdout.write(json.dumps(value, indent=1) + "\n")


def print_lines(lines: Iterable[RenderableType], console: Console = out) -> None:
    """Print lines, none of which is broken at the terminal's width."""
    for line in lines:
        console.print(line, soft_wrap=True)


def print_written(files: Iterable[object]) -> None:
    """Say which files there are now."""
    print_lines(f"wrote {file}" for file in files)


@contextmanager
def rejection_as_json(as_json: bool) -> Iterator[None]:
    """With --json, print the findings that end a command as its one object, like `check --json` does."""
    try:
        yield
    except Rejected as error:
        if not as_json:
            raise
        print_json({"findings": [f.to_dict() for f in error.findings]})
        raise typer.Exit(Exit.FINDINGS) from None
