"""`ascendsim tmpsize`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ascendsim.commands.bar import progress_bar
from ascendsim.commands.options import AsJson, Soc, need_folder, parse_shape
from ascendsim.commands.terminal import Exit, print_json, print_written, wide
from ascendsim.errors import InputError
from ascendsim.terms import DEFAULT_SOC

if TYPE_CHECKING:
    from ascendsim.tmpsize import Curve, TmpChoice, TmpSize


def tmpsize(
    api: Annotated[
        str, typer.Argument(help="softmaxgrad, softmax, logsoftmax, softmaxflash, softmaxflashv2 or softmaxflashv3.")
    ],
    shape: Annotated[str, typer.Option(help="Axes of the data in UB joined by commas, such as 64,128.")],
    element: Annotated[str, typer.Option("--dtype", help="half or float.")],
    sum_element: Annotated[str | None, typer.Option("--sum-dtype", help="Of max and sum (Flash V2, V3).")] = None,
    front: Annotated[bool, typer.Option("--front", help="SoftmaxGrad: only the row sums (isFront).")] = False,
    update: Annotated[bool, typer.Option("--update", help="Flash APIs: isUpdate.")] = False,
    basic_block: Annotated[
        bool, typer.Option("--basic-block", help="Flash V2 and V3: isBasicBlock; with --front: SoftmaxGradFront's.")
    ] = False,
    brc: Annotated[bool, typer.Option("--brc", help="Flash V2: isFlashOutputBrc, row results are [m, 1].")] = False,
    data_format: Annotated[str, typer.Option("--format", help="SoftmaxGrad: ND or NZ.")] = "ND",
    reuse_source: Annotated[bool, typer.Option("--reuse-source", help="dst lies on src.")] = False,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            help="A buffer in UB, repeatable, such as in_grad=32768x2; without any the call's own tensors count.",
            metavar="NAME=BYTES[xNUM]",
        ),
    ] = None,
    temp: Annotated[
        int | None, typer.Option(help="The temp you pass, in bytes: is it enough, what is touched?")
    ] = None,
    curve: Annotated[bool, typer.Option("--curve", help="Cycles against temp, at each size that changes it.")] = False,
    within: Annotated[
        float | None, typer.Option(help="The smallest temp within so many percent of the fastest.", metavar="PERCENT")
    ] = None,
    picture: Annotated[Path | None, typer.Option("--out", help="Folder for a picture of the curve.")] = None,
    svg: Annotated[bool, typer.Option("--svg", help="With --out: the picture as SVG, too.")] = False,
    export: Annotated[Path | None, typer.Option(help="Folder for the tiling: TOML, and host lines in AscendC.")] = None,
    soc: Soc = DEFAULT_SOC,
    arch: Annotated[
        int | None, typer.Option(help="An architecture number instead of a part (--soc is not used): sizes only.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Size an API's temp: min, max, what fits in UB, what each size gives and costs, and what to beware of.

    A buffer named with --beside, or a temp given with --temp, makes a plan of UB: exit code 1 if it does not hold.
    """
    from ascendsim import show_tmp
    from ascendsim.tmpsize import tmp_curve, tmp_size

    if svg and picture is None:
        raise InputError("--svg: name a folder for the picture with --out DIR")
    need_folder("--out", picture)
    need_folder("--export", export)
    answer = tmp_size(
        api,
        parse_shape(shape),
        element,
        soc,
        npu_arch=arch,
        sum_type=sum_element,
        is_front=front,
        is_update=update,
        is_basic_block=basic_block,
        is_flash_output_brc=brc,
        data_format=data_format,
        reuse_source=reuse_source,
        beside=beside or (),
        tmp_bytes=temp,
    )
    found = None
    if curve or within is not None or picture is not None:
        with progress_bar() as progress:
            found = tmp_curve(answer, progress)
    chosen = None if found is None or within is None else found.within(within)
    files = []
    if export is not None:
        wanted = answer.recommended if chosen is None or temp is not None else chosen.choice
        files += _write_tiling(answer, wanted, export)
    if found is not None and picture is not None:
        files += _draw(found, picture, within, svg)
    if as_json:
        more = {} if found is None else {"curve": found.to_dict()}
        more |= {} if chosen is None else {"within": {"percent": within, **chosen.to_dict()}}
        print_json(answer.to_dict() | more | {"files": [str(file) for file in files]})
    else:
        wide.print(show_tmp.tmp_size(answer), soft_wrap=True)
        if found is not None:
            wide.print(show_tmp.curve(found, within, chosen), soft_wrap=True)
        print_written(files)
    if show_tmp.has_errors(answer):
        raise typer.Exit(Exit.FINDINGS)


def _write_tiling(answer: "TmpSize", choice: "TmpChoice", folder: Path) -> list[Path]:
    from ascendsim import tmpfolder  # with what it draws with

    return tmpfolder.write_tiling(answer, choice, folder)


def _draw(found: "Curve", folder: Path, within: float | None, svg: bool) -> list[Path]:
    from ascendsim import tmpfolder

    files = [tmpfolder.write_curve(found, folder, within)]
    if svg:
        files.append(tmpfolder.write_curve_svg(found, folder, within))
    return files
