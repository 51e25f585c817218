"""`ascendsim compare`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ascendsim.commands.bar import progress_bar
from ascendsim.commands.options import AsJson, Changes, need_folder, parse_changes
from ascendsim.commands.terminal import Exit, out, print_json, print_written
from ascendsim.errors import InputError

if TYPE_CHECKING:
    from ascendsim.comparefolder import Comparison


def compare(
    run: Annotated[
        str, typer.Argument(help="A run: its folder, a scenario, or the name of a shipped one.", metavar="A")
    ],
    other: Annotated[
        str | None,
        typer.Argument(
            help="Another run; or a trace of msopprof's simulator of the same kernel, a file that ends in .json.",
            metavar="B",
            show_default=False,
        ),
    ] = None,
    outputs: Annotated[
        Path | None, typer.Option(help="Instead of B: folder of a board's dumps, NAME.bin for each output.")
    ] = None,
    changes: Changes = None,
    changes_of_b: Annotated[
        list[str] | None, typer.Option("--set-b", help="As --set, of B only.", metavar="KEY=VALUE")
    ] = None,
    clock_mhz: Annotated[
        int | None, typer.Option("--clock-mhz", help="Trace: its clock; else what it names, or the device's.")
    ] = None,
    core: Annotated[
        str, typer.Option(help="Trace of one core: which, such as core0.veccore0; else its folder's name.")
    ] = "",
    alias: Annotated[
        list[str] | None,
        typer.Option(help="Trace: it calls the run's instruction OURS otherwise.", metavar="OURS=THEIRS"),
    ] = None,
    atol: Annotated[
        float | None, typer.Option(min=0, help="Dumps: absolute tolerance; else that of the dtype.")
    ] = None,
    rtol: Annotated[
        float | None, typer.Option(min=0, help="Dumps: relative tolerance; else that of the dtype.")
    ] = None,
    ulp: Annotated[int, typer.Option(min=0, help="Dumps: so many units in the last place are no mismatch.")] = 0,
    equal: Annotated[bool, typer.Option("--equal", help="Exit with code 3 unless A and B are equal runs.")] = False,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for compare.txt, compare.json and pictures.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare a run with another one, with a measured trace, or with a board's outputs.

    Exit code 0 if it could be compared, whatever differs; 3 if dumped values are outside their tolerance, or if --equal
    was asked for and the runs are not; 2 if something cannot be used.
    """
    need_folder("--out", folder)
    if (other is None) == (outputs is None):
        raise InputError("compare: name one thing to compare with: B (a run or a trace), or --outputs FOLDER")
    is_trace = other is not None and other.endswith(".json")
    _check_form(
        (is_trace, clock_mhz is not None or core != "" or bool(alias)),
        (outputs is not None, atol is not None or rtol is not None or ulp != 0),
        (other is not None and not is_trace, bool(changes_of_b) or equal),
    )
    from ascendsim import versus

    found: Comparison
    first = parse_changes(changes)
    is_met = True
    with progress_bar() as progress:
        if outputs is not None:
            found = versus.compare_outputs(run, outputs, atol=atol, rtol=rtol, ulp=ulp, set=first, progress=progress)
            is_met = found.mismatches == 0
        elif is_trace:
            names = _aliases(alias)
            found = versus.compare_trace(
                run, str(other), clock_mhz=clock_mhz, core=core, aliases=names, set=first, progress=progress
            )
        else:
            second = first | parse_changes(changes_of_b)
            found = versus.compare(run, str(other), set_a=first, set_b=second, progress=progress)
            is_met = found.is_equal or not equal
    files = () if folder is None else _write(found, folder)
    if as_json:
        print_json(found.to_dict() | {"files": [str(file) for file in files]})
    else:
        out.print(str(found), soft_wrap=True)
        print_written(files)
    if not is_met:
        raise typer.Exit(Exit.EXPECTATION)


def _check_form(of_trace: tuple[bool, bool], of_dumps: tuple[bool, bool], of_runs: tuple[bool, bool]) -> None:
    """Refuse options of another form than the one asked for. Of each: whether it is, and whether its options are."""
    for (is_form, is_given), text in (
        (of_trace, "--clock-mhz, --core and --alias are about a trace: B must end in .json"),
        (of_dumps, "--atol, --rtol and --ulp are about dumps: give --outputs FOLDER"),
        (of_runs, "--set-b and --equal are about two runs: B must be a run's folder or a scenario"),
    ):
        if is_given and not is_form:
            raise InputError(text)


def _write(found: "Comparison", folder: Path) -> tuple[Path, ...]:
    from ascendsim.comparefolder import write_comparison  # with what it draws with

    return write_comparison(found, folder)


def _aliases(options: list[str] | None) -> dict[str, str]:
    """Turn OURS=THEIRS options into names."""
    found = {}
    for option in options or []:
        ours, equals, theirs = option.partition("=")
        if not equals or not ours or not theirs:
            raise InputError(f"--alias {option}: want OURS=THEIRS, such as MOV_OUT_TO_UB=MOV_OUT_TO_UB_ALIGN")
        found[ours] = theirs
    return found
