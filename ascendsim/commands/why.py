"""`ascendsim why`."""

from pathlib import Path
from typing import Annotated

import typer

from ascendsim.commands.options import AsJson
from ascendsim.commands.terminal import print_json, print_lines
from ascendsim.errors import InputError


def why(
    folder: Annotated[Path, typer.Argument(help="Folder of a run.", metavar="RUN")],
    pipes: Annotated[str, typer.Option(help="Pipes to explain, such as MTE2,V; none for all.")] = "",
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Schedule it once more for each pipe, with that pipe's work free.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say in words what a run's pipes waited for, and what they have of its critical path."""
    from ascendsim.runfolder import load_run
    from ascendsim.words import pipe_names
    from ascendsim.words import why as explain

    try:
        chosen = pipe_names(pipes) if pipes else ()
    except ValueError as error:
        raise InputError(f"--pipes {pipes}: {error}") from None
    result = load_run(folder)
    lines = explain(result, chosen, result.what_if if what_if else ())
    if as_json:
        print_json({"run": str(folder), "why": lines})
    else:
        print_lines(lines)
