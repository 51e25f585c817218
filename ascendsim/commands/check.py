"""`ascendsim check`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ascendsim.commands.options import AsJson, Changes, parse_changes, parse_shape
from ascendsim.commands.terminal import Exit, out, print_json, print_lines, print_written, rejection_as_json
from ascendsim.errors import InputError, Severity


def check(
    target: Annotated[
        str | None,
        typer.Argument(
            help="Scenario, plan or tiling, a file or the name of a shipped one; or a kernel, FILE.py[:FUNCTION].",
            metavar="TARGET",
            show_default=False,
        ),
    ] = None,
    changes: Changes = None,
    tensors: Annotated[
        list[str] | None,
        typer.Option(
            "--tensor",
            help="Kernel: a GM tensor, repeatable, such as x=64x128:half or z=8192:float:output.",
            metavar="NAME=SHAPE:DTYPE[:ROLE]",
        ),
    ] = None,
    shape: Annotated[str | None, typer.Option(help="Tiling: shape of the data in GM, such as 960,960.")] = None,
    element: Annotated[str | None, typer.Option("--dtype", help="Tiling: half or float.")] = None,
    soc: Annotated[str | None, typer.Option("--soc", help="Part, such as Ascend910B1; else the file's.")] = None,
    block_dim: Annotated[
        int | None, typer.Option("--block-dim", min=1, help="Cores that run it; else the file's, or all.")
    ] = None,
    select: Annotated[
        str | None, typer.Option(help="Only these codes or beginnings of codes, such as E-CAP,W-.", metavar="CODES")
    ] = None,
    ignore: Annotated[str | None, typer.Option(help="All but these codes.", metavar="CODES")] = None,
    sarif_file: Annotated[
        str | None, typer.Option("--sarif", help="Write SARIF 2.1.0; - prints it and nothing else.", metavar="FILE")
    ] = None,
    list_rules: Annotated[bool, typer.Option("--list", help="List all rules: code, severity, architectures.")] = False,
    code: Annotated[
        str | None, typer.Option("--explain", help="Explain a rule, such as E-ALIGN-UB.", metavar="CODE")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what the rules find in a scenario, plan, tiling or kernel, without simulating; or list the rules.

    Exit code 1 if there are errors that the scenario does not suppress, 2 if the target cannot be used.
    """
    if list_rules or code is not None:
        _show_rules(code, as_json)
        return
    if target is None:
        raise InputError("check: name a scenario, plan, tiling or kernel, or use --list or --explain CODE")
    from ascendsim import show_findings
    from ascendsim.check_target import Asked, judge
    from ascendsim.sarif import sarif_text, write_sarif

    if as_json and sarif_file == "-":
        raise InputError("--json and --sarif -: both print one object and nothing else; name a file for SARIF")
    axes = None if shape is None else parse_shape(shape)
    asked = Asked(parse_changes(changes), tuple(tensors or ()), block_dim, soc, axes, element)
    with rejection_as_json(as_json):
        judged = judge(target, asked).chosen(select, ignore)
    if sarif_file not in (None, "-"):
        write_sarif(judged, Path(str(sarif_file)))
    if sarif_file == "-":
        sys.stdout.write(sarif_text(judged))
    elif as_json:
        print_json(show_findings.to_json(judged))
    else:
        print_lines(show_findings.page(judged))
        print_written([] if sarif_file is None else [sarif_file])
    if any(f.severity is Severity.ERROR for f in judged.findings):
        raise typer.Exit(Exit.FINDINGS)


def _show_rules(code: str | None, as_json: bool) -> None:
    """Print one rule, or all of them."""
    from ascendsim import show_rules

    if code is None:
        print_json(show_rules.rule_list()) if as_json else out.print(show_rules.rule_table())
        return
    known = show_rules.explain(code)
    print_json(show_rules.explanation(known)) if as_json else out.print(show_rules.explanation_page(known))
