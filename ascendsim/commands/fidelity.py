"""`ascendsim fidelity`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ascendsim.commands.bar import progress_bar
from ascendsim.commands.options import AsJson, need_folder
from ascendsim.commands.terminal import Exit, print_json, print_written, wide

if TYPE_CHECKING:
    from ascendsim.fidelity.compare import Comparison


def fidelity(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with instruction_cycles.csv, kernels.csv or both; default the shipped measurements."),
    ] = None,
    families: Annotated[
        list[str] | None, typer.Option("--family", help="Only this family, repeatable.", metavar="NAME")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for accuracy.md, rows.csv, kernels.csv and two pictures.")
    ] = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="List rows, too: the worst, what is not covered and why, what stands apart.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the model with published measurements: errors by family, what is far off and why, whole kernels.

    Exit code 1 if a family is further off than this version promises.
    """
    from ascendsim import show_fidelity
    from ascendsim.fidelity.compare import compare

    need_folder("--out", folder)
    with progress_bar() as progress:
        found = compare(data, tuple(families or ()), progress)
    files = () if folder is None else _write(found, folder)
    if as_json:
        print_json(found.to_dict() | {"files": [str(file) for file in files]})
    else:
        wide.print(show_fidelity.terminal(found) if rows else show_fidelity.summary(found), soft_wrap=True)
        print_written(files)
    if found.broken:
        raise typer.Exit(Exit.FINDINGS)


def _write(found: "Comparison", folder: Path) -> tuple[Path, ...]:
    from ascendsim.fidelityfolder import write_fidelity  # with what it draws with

    return write_fidelity(found, folder)
