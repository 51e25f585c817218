"""`ascendsim lag`."""

from typing import Annotated

import typer

from ascendsim.commands.options import AsJson, CallFile, Scale, SocOfCall, given
from ascendsim.commands.terminal import Exit, print_json, print_lines


def lag(
    file: CallFile = None,
    shape: Annotated[
        str | None,
        typer.Option(help="B,N,S or B,N,S,D, D 128 or 192 of query; B,N,S,Skv,D where key has another length."),
    ] = None,
    layout: Annotated[str | None, typer.Option(help="BNSD (default), or SBH with D 192.")] = None,
    kv_heads: Annotated[int | None, typer.Option("--kv-heads", help="Key heads; default N.")] = None,
    mask: Annotated[
        bool | None, typer.Option("--mask/--no-mask", help="With attenMask, a triangle (default), or without.")
    ] = None,
    pre_tokens: Annotated[
        int | None, typer.Option("--pre-tokens", help="preTokens; default S. Less with a mask is a window.")
    ] = None,
    scale: Scale = None,
    head_num: Annotated[int | None, typer.Option("--head-num", help="The parameter headNum; default N.")] = None,
    keep_prob: Annotated[float | None, typer.Option("--keep-prob", help="keepProb; not read.")] = None,
    next_tokens: Annotated[int | None, typer.Option("--next-tokens", help="nextTokens; not read.")] = None,
    sparse_mode: Annotated[int | None, typer.Option("--sparse-mode", help="sparseMode; not read.")] = None,
    inner_precise: Annotated[int | None, typer.Option("--inner-precise", help="innerPrecise, 1.")] = None,
    soc: SocOfCall = None,
    order: Annotated[
        str | None, typer.Option(help="operator (default), or unfolded: the triangle as a square, to compare.")
    ] = None,
    vendor_quirks: Annotated[
        bool, typer.Option("--vendor-quirks", help="With what the original kernel does against its own intent.")
    ] = False,
    tensors: Annotated[
        list[str] | None,
        typer.Option(
            "--tensor",
            help="A tensor given otherwise, repeatable: softmaxIn=1,8, attenMask=empty, key=float:1,4,256,128.",
            metavar="NAME=HOW",
        ),
    ] = None,
    core: Annotated[int | None, typer.Option(help="List the segments of this AIC, round by round.", min=0)] = None,
    turn: Annotated[
        int | None, typer.Option("--round", help="List the segments of this round, AIC by AIC.", min=0)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """LaserAttentionGrad: checks, workspace, tiling, who computes which blocks, and an estimate of the time.

    Exit code 1 if the operator refuses the call, or what it makes of it cannot work.
    """
    from ascendsim import show_lag
    from ascendsim.atb_request import parse_tensors
    from ascendsim.lag_answer import answer
    from ascendsim.lag_request import request_of
    from ascendsim.op_host.lag_params import INI

    options = {
        "shape": shape, "layout": layout, "kv_heads": kv_heads, "mask": mask, "pre_tokens": pre_tokens, "scale": scale,
        "head_num": head_num, "keep_prob": keep_prob, "next_tokens": next_tokens, "sparse_mode": sparse_mode,
        "inner_precise": inner_precise, "soc": soc, "order": order, "vendor_quirks": vendor_quirks or None,
        "tensors": parse_tensors(tensors or [], INI) or None,
    }  # fmt: skip
    found = answer(request_of(file, given(options)))
    if found.blocks is not None:  # refused before anything is printed
        found.rounds_of(0 if core is None else core)
        found.round_of(0 if turn is None else turn)
    if as_json:
        print_json(found.to_dict(core, turn))
    else:
        print_lines(show_lag.page(found, core, turn))
    if found.is_refused:
        raise typer.Exit(Exit.FINDINGS)
