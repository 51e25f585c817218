"""`ascendsim tune`."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ascendsim.commands.bar import progress_bar
from ascendsim.commands.interrupt import Interrupted
from ascendsim.commands.options import AsJson, Changes, Scenario, parse_changes
from ascendsim.commands.terminal import Exit, err, print_json, print_lines, wide
from ascendsim.errors import InputError
from ascendsim.files import is_file

if TYPE_CHECKING:
    from ascendsim.tuner.parts import Workers
    from ascendsim.tuner.result import TuneResult


def tune(
    scenario: Scenario,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            help="A field and its values, repeatable: tile_m=8:128:8, cv_s1=64:512:*2, buffer_num=1,2.",
            metavar="FIELD=VALUES",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help='A constraint, repeatable: "tile_m * buffer_num <= 64".', metavar="CONSTRAINT"),
    ] = None,
    changes: Changes = None,
    objectives: Annotated[
        list[str] | None,
        typer.Option(
            "--objective",
            help="cycles (default), peak_ub, peak_l1 or workspace, repeatable: several ask for their Pareto front.",
            metavar="NAME",
        ),
    ] = None,
    search: Annotated[
        str, typer.Option(help="exhaustive (default), random, or guided by a model (extra guided).")
    ] = "exhaustive",
    samples: Annotated[
        int | None, typer.Option(min=1, help="Candidates of a random or guided search; default a fifth of the space.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of a random or guided search.")] = 0,
    executor: Annotated[
        str, typer.Option(help="processes (default), or dask://HOST:PORT of a cluster's scheduler (extra cluster).")
    ] = "processes",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default one a core.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--out", help="Results, .csv or .parquet (extra parquet); default out/tune_NAME.csv or .parquet."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw all candidates over the first two objectives, FILE.png.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Candidates to list.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Search for a tiling: time the candidates of a space, rank them, and say what the best one gains and why.

    The same command goes on where an interrupted one stopped. Exit code 1 if no candidate can be timed.
    """
    from ascendsim import show_tune
    from ascendsim.runfolder import check_png
    from ascendsim.scenario import load_scenario
    from ascendsim.tuner.parts import parts_of
    from ascendsim.tuner.request import Asked, search_for

    if picture is not None:
        check_png("--picture", picture)
    loaded = load_scenario(scenario, parse_changes(changes))
    target = file or Path("out") / f"tune_{loaded.name}{'.parquet' if find_spec('pyarrow') else '.csv'}"
    asked = Asked(tuple(vary or ()), tuple(where or ()), tuple(objectives or ()), search, samples, seed, target)
    parts = parts_of(search, _workers(executor, workers), target)
    try:
        with progress_bar() as progress:
            found = search_for(loaded, asked, parts, progress)
    except Interrupted:
        if is_file(target):
            err.print(f"what is done is kept in {target}; the same command goes on there", soft_wrap=True)
        raise
    files = [target]
    if picture is not None and found.best is not None:
        _draw(found, picture)
        files.append(picture)
    if as_json:
        print_json(found.to_dict(top) | {"files": [str(one) for one in files]})
    else:
        print_lines(show_tune.page(found, top), wide)
        print_lines(show_tune.closing(found.evaluated, found.resumed, files))
    if found.best is None:
        raise typer.Exit(Exit.FINDINGS)


def _workers(executor: str, workers: int | None) -> "Workers":
    """Who evaluates: processes, or the cluster of an address."""
    if executor == "processes":
        return workers
    if executor.startswith("dask://") and workers is not None:
        raise InputError("--workers: a cluster has its own; leave it out, or leave --executor out")
    return executor


def _draw(found: "TuneResult", picture: Path) -> None:
    from ascendsim.plot.pareto import pareto_png  # with what it draws with
    from ascendsim.runfolder import write_file

    write_file("--picture", picture, pareto_png(found))
