"""`ascendsim fsg`."""

from typing import Annotated

import typer

from ascendsim.commands.options import AsJson, Soc, parse_changes, parse_numbers
from ascendsim.commands.terminal import Exit, print_json, print_lines
from ascendsim.terms import DEFAULT_SOC


def fsg(
    head_num: Annotated[int, typer.Option("--head-num", help="headNum, heads of every item.")],
    q_seq_len: Annotated[
        str, typer.Option("--q-seq-len", help="qSeqLen, length of each item: 487,16,532,413.", metavar="N,N,...")
    ],
    rsv: Annotated[str | None, typer.Option(help="The eight reserved bytes; default 0,0,0,0,0,0,0,0.")] = None,
    soc: Soc = DEFAULT_SOC,
    tensors: Annotated[
        list[str] | None,
        typer.Option(
            "--tensor",
            help="A tensor given otherwise, repeatable: yInput=bf16, output=2,512, yGrad:format=NZ, yGrad=null.",
            metavar="NAME=HOW",
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Prescribe tile_rows, tmp_bytes, buffers or cores: --set tile_rows=4.", metavar="NAME=NUMBER"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """FastSoftMaxGrad: checks with stage and error, sizes, tiling of each item, load of cores, and an estimate.

    Exit code 1 if the operation refuses the call, or a prescribed number breaks a rule.
    """
    from ascendsim import show_fsg
    from ascendsim.atb_request import given_tensors, parse_tensors
    from ascendsim.fsg_answer import Chosen, answer
    from ascendsim.op_host.fast_softmax_grad import INI, FastSoftMaxGradParam

    lengths = parse_numbers("--q-seq-len", q_seq_len, "487,16,532,413")
    reserved = (0,) * 8 if rsv is None else parse_numbers("--rsv", rsv, "0,0,0,0,0,0,0,0")
    params = FastSoftMaxGradParam(head_num, lengths, reserved)
    implied = dict.fromkeys((one.name for one in (*INI.inputs, *INI.outputs)), params.desc)
    inputs, outputs = given_tensors(INI, implied, parse_tensors(tensors or [], INI))
    found = answer(params, soc, inputs=tuple(inputs), outputs=tuple(outputs), chosen=Chosen.of(parse_changes(changes)))
    if as_json:
        print_json(found.to_dict())
    else:
        print_lines(show_fsg.page(found))
    if found.is_refused:
        raise typer.Exit(Exit.FINDINGS)
