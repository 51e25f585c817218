"""`ascendsim run`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ascendsim.commands.bar import progress_bar
from ascendsim.commands.options import AsJson, Changes, Scenario, parse_changes
from ascendsim.commands.terminal import Exit, err, out, print_json, print_lines, rejection_as_json
from ascendsim.errors import InputError

if TYPE_CHECKING:
    from ascendsim.result import RunResult


def run(
    scenario: Scenario,
    folder: Annotated[Path | None, typer.Option("--out", help="Folder for the run; default out/NAME.")] = None,
    changes: Changes = None,
    engine: Annotated[
        str | None, typer.Option(help="Engine: compiled (default), reference, or both to compare the two.")
    ] = None,
    trace_window: Annotated[
        list[str] | None,
        typer.Option(
            "--trace-window",
            help="Show this stretch of time, in cycles or us: 1000:2000 or 2us:3.5us. A long run keeps all its rows.",
            metavar="FIRST:LAST",
        ),
    ] = None,
    despite_findings: Annotated[
        bool, typer.Option("--despite-findings", help="Simulate although there are errors, where that has a meaning.")
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare/--no-compare", help="Where the scenario prescribes tiles, time the operator's own, too."
        ),
    ] = True,
    svg: Annotated[
        bool, typer.Option("--svg", help="Write all pictures as SVG, too: memory, balance, roofline.")
    ] = False,
    trace_time: Annotated[
        str, typer.Option("--time", help="Unit of trace.json: us, or cycle (1 cycle shown as 1 ns).")
    ] = "us",
    as_json: AsJson = False,
) -> None:
    """Run a scenario: values, cycles, findings, pictures.

    Writes a folder with report.html, report.md, timeline.png and .svg, memory.png, balance.png, roofline.png,
    trace.json, memory_info.json, msopprof's tables, outputs.npz, findings.json and the resolved scenario.
    """
    from ascendsim import show_dumps
    from ascendsim.machine import run as run_scenario
    from ascendsim.painter import Forked, Painter, started
    from ascendsim.report import terminal
    from ascendsim.runfolder import DUMPS, PICTURES, SVGS, begin_pictures, check_folder, write_run
    from ascendsim.scenario import load_scenario
    from ascendsim.window import parse_window

    unit = _time_unit(trace_time)
    pictures = (*PICTURES, *SVGS) if svg else PICTURES
    with Painter(Forked if sys.platform == "linux" else started) as painter:  # it loads what it needs meanwhile
        loaded = load_scenario(scenario, parse_changes(changes))
        target = folder or Path("out") / loaded.name
        check_folder(target)
        windows = [parse_window(text, loaded.load_device().clock_mhz) for text in trace_window or ()]
        with rejection_as_json(as_json), progress_bar() as progress:
            result = run_scenario(
                loaded,
                engine,
                windows=windows,
                despite_findings=despite_findings,
                compare=compare,
                # an error found in values would still mark the pictures
                on_timeline=None if despite_findings else lambda begun: begin_pictures(begun, painter, pictures),
                progress=progress,
            )
            print_lines(_left_out(result, windows), err)
            files = write_run(result, target, time=unit, pictures=pictures, painter=painter, progress=progress)
    if as_json:
        print_json(result.summary() | {"out": str(target)})
    else:
        out.print(terminal(result))
        print_lines(show_dumps.page(result, str(target / DUMPS)))
        out.print(f"{len(files)} files in {target}", soft_wrap=True)
    if any(e.met is False for e in result.expectations):
        raise typer.Exit(Exit.EXPECTATION)


def _left_out(result: "RunResult", windows: list[tuple[int, int]]) -> Iterator[str]:
    """Notes about windows that the run does not reach."""
    for first, last in windows:
        if (first, last) not in result.windows:
            yield f"note: the run is over at cycle {result.makespan_cycles}; window {first}:{last} is left out"


def _time_unit(text: str) -> Literal["us", "cycle"]:
    if text == "us":
        return "us"
    if text == "cycle":
        return "cycle"
    raise InputError(f"--time {text}: want us or cycle")
