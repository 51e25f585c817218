"""The `ascendsim` command: which commands there are, and how they end. What each does is in `commands`.

Exit codes: 0 done; 1 findings of severity E; 2 input that cannot be used; 3 an expectation of the scenario is not met;
4 deadlock; 5 the engines disagree; 6 the pictures could not be drawn; 130 interrupted.
"""

import gc
import io
import signal
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from ascendsim import __version__
from ascendsim.commands.check import check
from ascendsim.commands.compare import compare
from ascendsim.commands.devices import devices
from ascendsim.commands.export import export
from ascendsim.commands.fag import fag
from ascendsim.commands.fidelity import fidelity
from ascendsim.commands.fsg import fsg
from ascendsim.commands.inspect import inspect
from ascendsim.commands.interrupt import interrupt, unraisable
from ascendsim.commands.lag import lag
from ascendsim.commands.plan import plan
from ascendsim.commands.run import run
from ascendsim.commands.terminal import Exit, err, out
from ascendsim.commands.tmpsize import tmpsize
from ascendsim.commands.tune import tune
from ascendsim.commands.why import why
from ascendsim.errors import AscendSimError, Deadlock, EnginesDiffer, Finding, PainterError, Rejected, Severity

_COMMANDS: tuple[Callable[..., None], ...] = (
    *(run, check, devices, tmpsize, plan, fag, fsg, lag, tune, export, fidelity, why, inspect, compare),
)
"""In the order in which --help lists them."""
_ALLOCATIONS = 1_000_000
"""New objects between two searches for unreachable ones. A run makes many, and hardly any that refer to each other."""

app = typer.Typer(
    name="ascendsim",
    help="Simulate AscendC operators without an NPU: values, cycles, memory map and findings from one run.\n\n"
    "Exit codes: 0 done, 1 findings of severity E, 2 input that cannot be used, 3 an expectation is not met, "
    "4 deadlock, 5 the engines disagree, 6 no pictures, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """Print the version if asked."""
    if show:
        out.print(__version__)
        raise typer.Exit


for _command in _COMMANDS:
    app.command()(_command)


def main() -> None:
    """Run the command and turn a user's mistakes, and Ctrl-C, into a message and an exit code."""
    gc.set_threshold(_ALLOCATIONS)
    signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = unraisable
    try:
        _run_command()
        interrupt.check()
    except BaseException:
        if not interrupt.seen:
            raise
        err.print("interrupted")  # whatever the interrupted code has made of it
        sys.exit(Exit.INTERRUPTED)
    finally:
        gc.freeze()  # the interpreter ends: what a run has left need not be searched for cycles, 0.1 s


def _run_command() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files may hold what no terminal can show
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except Rejected as error:
        _print_rejected(error.findings)
        sys.exit(Exit.FINDINGS)
    except Deadlock as error:
        err.print(f"error: {error}")
        sys.exit(Exit.DEADLOCK)
    except PainterError as error:
        err.print(f"error: {error}", soft_wrap=True)
        sys.exit(Exit.PICTURES)
    except EnginesDiffer as error:
        err.print(f"error: {error}", soft_wrap=True)
        sys.exit(Exit.ENGINES)
    except AscendSimError as error:
        err.print(f"error: {error}", soft_wrap=True)
        sys.exit(Exit.INPUT)
    except MemoryError:
        err.print("error: this computer has too little memory for the scenario; make its tensors smaller")
        sys.exit(Exit.INPUT)


def _print_rejected(findings: tuple[Finding, ...]) -> None:
    from ascendsim.report import finding_text

    for finding in findings:
        err.print(finding_text(finding), soft_wrap=True)
    errors = sum(f.severity is Severity.ERROR for f in findings)
    err.print(
        f"{errors} error{'s' * (errors > 1)}: not simulated (--despite-findings simulates where that has a meaning)"
    )
