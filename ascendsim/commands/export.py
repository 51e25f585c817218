"""`ascendsim export`: the best of what `ascendsim tune` has found."""

from pathlib import Path
from typing import Annotated

import typer

from ascendsim.commands.extras import table_of
from ascendsim.commands.options import AsJson, need_folder
from ascendsim.commands.terminal import print_json, print_written


def export(
    results: Annotated[Path, typer.Argument(help="Results of ascendsim tune, .csv or .parquet.", metavar="RESULTS")],
    candidate: Annotated[int | None, typer.Option(min=1, help="Another one than the best, by its number.")] = None,
    folder: Annotated[Path, typer.Option("--out", help="Folder for the two files.")] = Path("out"),
    objectives: Annotated[list[str] | None, typer.Option("--objective", help="By which the best is the best.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the best candidate of a search as a scenario, and as a tiling header for the host side in AscendC."""
    from ascendsim.runfolder import relocated, write_files
    from ascendsim.tune.answers import number_of, ranked_rows
    from ascendsim.tune.export import chosen, scenario_toml, tiling_header
    from ascendsim.tune.store import load_results

    need_folder("--out", folder)
    found = load_results(results, table_of(results, "export"))
    row = chosen(ranked_rows(found.setup, found.rows, tuple(objectives or ())), candidate)
    scenario = found.setup.scenario_of(number_of(row))
    stem = f"{found.setup.scenario.name}_tuned"
    plain = relocated(scenario.resolved(), scenario.folder, folder)
    contents = {
        f"{stem}.toml": scenario_toml(found.setup, row, plain),
        f"{stem}_tiling.h": tiling_header(found.setup, row).encode(),
    }
    write_files(folder, contents)
    files = [folder / name for name in contents]
    if as_json:
        print_json({"candidate": dict(row), "files": [str(file) for file in files]})
    else:
        print_written(files)
