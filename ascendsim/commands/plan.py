"""`ascendsim plan`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ascendsim.commands.options import AsJson, Changes, need_folder, parse_changes
from ascendsim.commands.terminal import Exit, out, print_json, rejection_as_json

if TYPE_CHECKING:
    from ascendsim.plan.answer import Answer


def plan(
    file: Annotated[str, typer.Argument(help="Plan or scenario file, or the name of a shipped one.", metavar="FILE")],
    solve: Annotated[
        str | None, typer.Option(help="Find the largest value of this tiling field with which everything fits.")
    ] = None,
    changes: Changes = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for plan.png, the map as a picture, and plan.json.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say whether buffers, queues and temps fit: address map, margins, largest legal tile.

    Exit code 1 if they do not.
    """
    from ascendsim.plan.answer import answer, load_plan
    from ascendsim.plan.page import plan_page

    need_folder("--out", folder)
    with rejection_as_json(as_json):
        found = answer(load_plan(file, parse_changes(changes)), solve)
    if folder is not None:
        _write(found, folder)
    if as_json:
        print_json(found.to_dict())
    else:
        out.print(plan_page(found))
    if not found.fits:
        raise typer.Exit(Exit.FINDINGS)


def _write(found: "Answer", folder: Path) -> None:
    """Write the map as a picture, and the answer as JSON."""
    from ascendsim.plot.plan_map import plan_png
    from ascendsim.runfolder import write_files

    content = (json.dumps(found.to_dict(), indent=1) + "\n").encode()
    write_files(folder, {"plan.png": plan_png(found), "plan.json": content})
