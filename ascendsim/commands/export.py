"""`ascendsim export`: the best of what `ascendsim tune` has found."""

from pathlib import Path
from typing import Annotated

import typer

from ascendsim.commands.options import AsJson
from ascendsim.commands.terminal import print_json, print_written


def export(
    results: Annotated[Path, typer.Argument(help="Results of ascendsim tune, .csv or .parquet.", metavar="RESULTS")],
    candidate: Annotated[int | None, typer.Option(min=1, help="Another one than the best, by its number.")] = None,
    folder: Annotated[Path, typer.Option("--out", help="Folder for the two files.")] = Path("out"),
    objectives: Annotated[
        list[str] | None, typer.Option("--objective", help="By which the best is the best, repeatable.", metavar="NAME")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the best candidate of a search as a scenario, and as a tiling header for the host side in AscendC."""
    from ascendsim.tuner.answers import ranked_rows
    from ascendsim.tuner.export import chosen, write_candidate
    from ascendsim.tuner.parts import table_of
    from ascendsim.tuner.store import load_results

    found = load_results(results, table_of(results, "export"))
    row = chosen(ranked_rows(found.setup, found.rows, tuple(objectives or ())), candidate)
    files = write_candidate(found.setup, row, folder)
    if as_json:
        print_json({"candidate": dict(row), "files": [str(file) for file in files]})
    else:
        print_written(files)
