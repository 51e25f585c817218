"""`ascendsim inspect`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ascendsim.commands.bar import progress_bar
from ascendsim.commands.options import AsJson, Changes, parse_changes
from ascendsim.commands.terminal import print_json, print_lines
from ascendsim.errors import InputError
from ascendsim.files import is_folder
from ascendsim.progress import Progress

if TYPE_CHECKING:
    from ascendsim.result import RunResult


def inspect(
    target: Annotated[str, typer.Argument(help="Folder of a run, or a scenario.", metavar="RUN")],
    row: Annotated[
        int | None, typer.Option(help="A row by its number in the timeline; with --core, the how-many-th of that core.")
    ] = None,
    cycle: Annotated[int | None, typer.Option(help="A cycle, with --tensor.")] = None,
    tensor: Annotated[
        str | None, typer.Option(help="A tensor's name: in GM, or on chip, such as out_z[0].", metavar="NAME")
    ] = None,
    core: Annotated[int | None, typer.Option(help="Whose rows, or whose memories; default core 0.")] = None,
    elements: Annotated[
        str | None,
        typer.Option(help="Elements of each operand, such as 64:128; else the first 32.", metavar="FIRST:LAST"),
    ] = None,
    element: Annotated[str | None, typer.Option("--dtype", help="With --tensor: read it as this element type.")] = None,
    changes: Changes = None,
    as_json: AsJson = False,
) -> None:
    """Look into a run: operands of a row before and after it, or a tensor at a cycle. It is executed again so far."""
    from ascendsim import show_inspection
    from ascendsim.inspection.views import MOST_VALUES

    if (row is None) == (cycle is None) or (cycle is None) != (tensor is None):
        raise InputError("inspect: give --row N, or --cycle T and --tensor NAME")
    span = None if elements is None else _span(elements)
    most = MOST_VALUES if span is None else None
    with progress_bar() as progress:
        result = _run_of(target, changes, progress)
    if row is not None:
        if element is not None:
            raise InputError("--dtype goes with --cycle and --tensor; an operand of a row has its own element type")
        view = result.inspect(row=row, core=core, elements=span, most=most)
        lines = show_inspection.row_page(view)
        plain = view.to_dict()
    else:
        assert cycle is not None
        assert tensor is not None
        held = result.inspect(cycle=cycle, tensor=tensor, core=core, elements=span, most=most, element=element)
        lines, plain = show_inspection.tensor_page(held), held.to_dict()
    if as_json:
        print_json(plain)
    else:
        print_lines(lines)


def _run_of(target: str, changes: list[str] | None, progress: Progress) -> "RunResult":
    """A run folder read back, or a scenario run."""
    from ascendsim.machine import run as run_scenario
    from ascendsim.rerun import load_run

    if is_folder(Path(target)):
        if changes:
            raise InputError("--set changes a scenario; a run's folder is what was run")
        return load_run(target)
    return run_scenario(target, set=parse_changes(changes), progress=progress)


def _span(text: str) -> tuple[int, int]:
    """Turn "64:128" into (64, 128).

    Raises:
        InputError: not two whole numbers.
    """
    first, _, last = text.partition(":")
    try:
        return int(first), int(last)
    except ValueError:
        raise InputError(f"--elements {text}: want FIRST:LAST in elements, such as 64:128") from None
