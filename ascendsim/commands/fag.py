"""`ascendsim fag`."""

from typing import Annotated

import typer

from ascendsim.commands.options import AsJson, CallFile, Scale, SocOfCall, given, parse_changes
from ascendsim.commands.terminal import Exit, print_json, print_lines


def fag(
    file: CallFile = None,
    shape: Annotated[
        str | None, typer.Option(help="B,N,S1,S2,D or B,N,S1,S2,D,Dv; N query heads. TND with --q-lens: N,D or N,D,Dv.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="bf16, fp16 or fp32.")] = None,
    layout: Annotated[str | None, typer.Option(help="BSH, SBH, BSND, BNSD or TND.")] = None,
    groups: Annotated[int | None, typer.Option(help="Query heads for each key head; default 1.")] = None,
    kv_heads: Annotated[int | None, typer.Option("--kv-heads", help="Key heads, instead of --groups.")] = None,
    q_lens: Annotated[str | None, typer.Option("--q-lens", help="TND: query length of each batch, 1024,512.")] = None,
    kv_lens: Annotated[
        str | None, typer.Option("--kv-lens", help="TND: key length of each batch; default those of the queries.")
    ] = None,
    scale: Scale = None,
    keep_prob: Annotated[float | None, typer.Option("--keep-prob", help="keepProb; default 1.")] = None,
    pre_tokens: Annotated[int | None, typer.Option("--pre-tokens", help="preTokens; default 65536.")] = None,
    next_tokens: Annotated[int | None, typer.Option("--next-tokens", help="nextTokens; default 65536.")] = None,
    sparse_mode: Annotated[int | None, typer.Option("--sparse-mode", help="0 to 8; default 0.")] = None,
    prefix: Annotated[str | None, typer.Option(help="One number for each batch, for sparse modes 5 and 6.")] = None,
    atten_mask: Annotated[
        str | None,
        typer.Option("--atten-mask", help="Shape: S1_S2, [B,1,S1,S2], 2048,2048, or compressed.", metavar="SHAPE"),
    ] = None,
    mask_dtype: Annotated[str | None, typer.Option("--mask-dtype", help="Of attenMask; default bool.")] = None,
    pse: Annotated[str | None, typer.Option(help="Shape of pseShift, such as [B,N1,S1,S2].", metavar="SHAPE")] = None,
    pse_type: Annotated[int | None, typer.Option("--pse-type", help="0 to 3; default 1.")] = None,
    drop_mask: Annotated[
        str | None, typer.Option("--drop-mask", help="Shape, or bits: one bit for each score.", metavar="SHAPE")
    ] = None,
    inner_precise: Annotated[
        int | None, typer.Option("--inner-precise", help="innerPrecise; no tiling reads it.")
    ] = None,
    head_num: Annotated[int | None, typer.Option("--head-num", help="The attribute headNum; default N.")] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="The system option: sums in a fixed order.")
    ] = False,
    interface: Annotated[str | None, typer.Option(help="Whose page: seed or current (default).")] = None,
    soc: SocOfCall = None,
    tensors: Annotated[
        list[str] | None,
        typer.Option(
            "--tensor",
            help="A tensor given otherwise, repeatable: query=null, dq=empty, key=half:2,3,4, attenMask:format=NZ.",
            metavar="NAME=HOW",
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Prescribe a tile: --set cv_s1=256 --set vec_s2=128.", metavar="TILE=SIZE"),
    ] = None,
    core: Annotated[int | None, typer.Option(help="List the blocks of this core.", min=0)] = None,
    as_json: AsJson = False,
) -> None:
    """FlashAttentionScoreGrad: status, workspace, tiling, who computes what, memory maps, and an estimate of the time.

    Exit code 1 if the operator refuses the call, or a prescribed tile does not fit.
    """
    from ascendsim import show_fag
    from ascendsim.fag_answer import answer
    from ascendsim.fag_request import parse_tensors, request_of

    options = {
        "shape": shape, "dtype": dtype, "layout": layout, "groups": groups, "kv_heads": kv_heads, "q_lens": q_lens,
        "kv_lens": kv_lens, "scale": scale, "keep_prob": keep_prob, "pre_tokens": pre_tokens,
        "next_tokens": next_tokens, "sparse_mode": sparse_mode, "prefix": prefix, "atten_mask": atten_mask,
        "mask_dtype": mask_dtype, "pse": pse, "pse_type": pse_type, "drop_mask": drop_mask,
        "inner_precise": inner_precise, "head_num": head_num, "interface": interface, "soc": soc,
        "deterministic": deterministic or None, "tensors": parse_tensors(tensors or []) or None,
        "tiles": parse_changes(changes) or None,
    }  # fmt: skip
    found = answer(request_of(file, given(options)))
    if core is not None and found.dealt is not None:
        found.blocks_of(core)  # refused before anything is printed
    if as_json:
        print_json(found.to_dict(core))
    else:
        print_lines(show_fag.page(found, core))
    if found.is_refused:
        raise typer.Exit(Exit.FINDINGS)
