"""The `ascendsim` command. Each command imports what it needs itself, so that `--help` is quick.

Exit codes: 0 done; 1 findings of severity E; 2 input that cannot be used; 3 an expectation of the scenario is not met;
4 deadlock; 5 the engines disagree; 6 the pictures could not be drawn; 130 interrupted.
"""

import gc
import io
import json
import signal
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from ascendsim import __version__
from ascendsim.errors import (
    AscendSimError,
    Deadlock,
    EnginesDiffer,
    Finding,
    InputError,
    PainterError,
    Rejected,
    Severity,
)
from ascendsim.files import is_file, parse_toml
from ascendsim.progress import COMPILING

if TYPE_CHECKING:
    from ascendsim.result import RunResult
    from ascendsim.tuner.parts import Workers

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
out = Console(highlight=False, emoji=False, markup=False)
err = Console(stderr=True, highlight=False, emoji=False, markup=False)

Scenario = Annotated[str, typer.Argument(help="Scenario file, or the name of a shipped one.", metavar="SCENARIO")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a key: --set tiling.tile_m=32 --set queues.in_p.num=2.", metavar="KEY=VALUE"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Soc = Annotated[str, typer.Option("--soc", help="Part, such as Ascend910B1; a product name lists its parts.")]


_TABLE_WIDTH = 200
"""Columns that the tables of temp sizes may take: a narrow terminal breaks their lines, but no number is cut."""
_ALLOCATIONS = 1_000_000
"""New objects between two searches for unreachable ones. A run makes many, and hardly any that refer to each other."""


class Exit(IntEnum):
    """Exit codes."""

    DONE = 0
    FINDINGS = 1
    INPUT = 2
    EXPECTATION = 3
    DEADLOCK = 4
    ENGINES = 5
    PICTURES = 6
    INTERRUPTED = 130


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """Print the version if asked."""
    if show:
        out.print(__version__)
        raise typer.Exit


@app.command()
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
        with _rejection_as_json(as_json), _progress() as progress:
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
            for first, last in windows:
                if (first, last) not in result.windows:
                    text = f"note: the run is over at cycle {result.makespan_cycles}; window {first}:{last} is left out"
                    err.print(text, soft_wrap=True)
            files = write_run(result, target, time=unit, pictures=pictures, painter=painter, progress=progress)
    if as_json:
        _print_json(result.summary() | {"out": str(target)})
    else:
        out.print(terminal(result))
        for line in show_dumps.page(result, str(target / DUMPS)):
            out.print(line, soft_wrap=True)
        out.print(f"{len(files)} files in {target}", soft_wrap=True)
    if any(e.met is False for e in result.expectations):
        raise typer.Exit(Exit.EXPECTATION)


@app.command()
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
    with _rejection_as_json(as_json):
        judged = judge(target, asked).chosen(select, ignore)
    if sarif_file not in (None, "-"):
        write_sarif(judged, Path(str(sarif_file)))
    if sarif_file == "-":
        sys.stdout.write(sarif_text(judged))
    elif as_json:
        _print_json(show_findings.to_json(judged))
    else:
        for block in show_findings.page(judged):
            out.print(block, soft_wrap=True)
        if sarif_file is not None:
            out.print(f"wrote {sarif_file}", soft_wrap=True)
    if any(f.severity is Severity.ERROR for f in judged.findings):
        raise typer.Exit(Exit.FINDINGS)


def _show_rules(code: str | None, as_json: bool) -> None:
    """Print one rule, or all of them."""
    from ascendsim import show_rules

    if code is None:
        _print_json(show_rules.rule_list()) if as_json else out.print(show_rules.rule_table())
        return
    known = show_rules.explain(code)
    _print_json(show_rules.explanation(known)) if as_json else out.print(show_rules.explanation_page(known))


@app.command()
def devices(
    name: Annotated[str | None, typer.Argument(help="A part or a product name; none lists all parts.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the parts, or show one with its UB limits."""
    from ascendsim import show
    from ascendsim.device import find_product, load_device, parts_of

    product = None if name is None else find_product(name)
    if product is not None and product.reason:
        raise InputError(f"{name} cannot be simulated: {product.reason}")
    if name is None or product is not None:
        names = None if product is None else parts_of(product.family)
        _print_json(show.device_list(names)) if as_json else out.print(show.device_table(names))
        return
    device = load_device(name)
    _print_json(json.loads(device.model_dump_json(by_alias=True))) if as_json else out.print(show.device_page(device))


@app.command()
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
    soc: Soc = "Ascend910B1",
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
    _need_folder("--out", picture)
    _need_folder("--export", export)
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
    found, chosen = None, None
    if curve or within is not None or picture is not None:
        with _progress() as progress:
            found = tmp_curve(answer, progress)
        chosen = None if within is None else found.within(within)
    files = []
    if export is not None or picture is not None:
        from ascendsim import tmpfolder  # with what it draws with
    if export is not None:
        wanted = answer.recommended if chosen is None or temp is not None else chosen.choice
        files += tmpfolder.write_tiling(answer, wanted, export)
    if found is not None and picture is not None:
        files.append(tmpfolder.write_curve(found, picture, within))
        files += [tmpfolder.write_curve_svg(found, picture, within)] if svg else []
    if as_json:
        more = {} if found is None else {"curve": found.to_dict()}
        more |= {} if chosen is None else {"within": {"percent": within, **chosen.to_dict()}}
        _print_json(answer.to_dict() | more | {"files": [str(file) for file in files]})
    else:
        wide = Console(highlight=False, emoji=False, markup=False, width=_TABLE_WIDTH)
        wide.print(show_tmp.tmp_size(answer), soft_wrap=True)
        if found is not None:
            wide.print(show_tmp.curve(found, within, chosen), soft_wrap=True)
        for file in files:
            out.print(f"wrote {file}", soft_wrap=True)
    if show_tmp.has_errors(answer):
        raise typer.Exit(Exit.FINDINGS)


@app.command()
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

    _need_folder("--out", folder)
    with _rejection_as_json(as_json):
        found = answer(load_plan(file, parse_changes(changes)), solve)
    if folder is not None:
        from ascendsim.plot.plan_map import plan_png
        from ascendsim.runfolder import write_files

        content = (json.dumps(found.to_dict(), indent=1) + "\n").encode()
        write_files(folder, {"plan.png": plan_png(found), "plan.json": content})
    if as_json:
        _print_json(found.to_dict())
    else:
        out.print(plan_page(found))
    if not found.fits:
        raise typer.Exit(Exit.FINDINGS)


@app.command()
def fag(
    file: Annotated[
        str | None,
        typer.Argument(
            help="Call in a TOML file, or the name of a shipped one; options count more.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
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
    scale: Annotated[float | None, typer.Option(help="scaleValue; default 1 / sqrt(D).")] = None,
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
    soc: Annotated[str | None, typer.Option("--soc", help="Part, default Ascend910B1.")] = None,
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

    given = {
        "shape": shape, "dtype": dtype, "layout": layout, "groups": groups, "kv_heads": kv_heads, "q_lens": q_lens,
        "kv_lens": kv_lens, "scale": scale, "keep_prob": keep_prob, "pre_tokens": pre_tokens,
        "next_tokens": next_tokens, "sparse_mode": sparse_mode, "prefix": prefix, "atten_mask": atten_mask,
        "mask_dtype": mask_dtype, "pse": pse, "pse_type": pse_type, "drop_mask": drop_mask,
        "inner_precise": inner_precise, "head_num": head_num, "interface": interface, "soc": soc,
        "deterministic": deterministic or None, "tensors": parse_tensors(tensors or []) or None,
        "tiles": parse_changes(changes) or None,
    }  # fmt: skip
    found = answer(request_of(file, {name: value for name, value in given.items() if value is not None}))
    if core is not None and found.dealt is not None:
        found.blocks_of(core)  # refused before anything is printed
    if as_json:
        _print_json(found.to_dict(core))
    else:
        for line in show_fag.page(found, core):
            out.print(line, soft_wrap=True)
    if found.is_refused:
        raise typer.Exit(Exit.FINDINGS)


@app.command()
def fsg(
    head_num: Annotated[int, typer.Option("--head-num", help="headNum, heads of every item.")],
    q_seq_len: Annotated[
        str, typer.Option("--q-seq-len", help="qSeqLen, length of each item: 487,16,532,413.", metavar="N,N,...")
    ],
    rsv: Annotated[str | None, typer.Option(help="The eight reserved bytes; default 0,0,0,0,0,0,0,0.")] = None,
    soc: Soc = "Ascend910B1",
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

    lengths = _numbers("--q-seq-len", q_seq_len, "487,16,532,413")
    reserved = (0,) * 8 if rsv is None else _numbers("--rsv", rsv, "0,0,0,0,0,0,0,0")
    params = FastSoftMaxGradParam(head_num, lengths, reserved)
    implied = dict.fromkeys((one.name for one in (*INI.inputs, *INI.outputs)), params.desc)
    inputs, outputs = given_tensors(INI, implied, parse_tensors(tensors or [], INI))
    found = answer(params, soc, inputs=tuple(inputs), outputs=tuple(outputs), chosen=Chosen.of(parse_changes(changes)))
    if as_json:
        _print_json(found.to_dict())
    else:
        for line in show_fsg.page(found):
            out.print(line, soft_wrap=True)
    if found.is_refused:
        raise typer.Exit(Exit.FINDINGS)


@app.command()
def lag(
    file: Annotated[
        str | None,
        typer.Argument(
            help="Call in a TOML file, or the name of a shipped one; options count more.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
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
    scale: Annotated[float | None, typer.Option(help="scaleValue; default 1 / sqrt(D).")] = None,
    head_num: Annotated[int | None, typer.Option("--head-num", help="The parameter headNum; default N.")] = None,
    keep_prob: Annotated[float | None, typer.Option("--keep-prob", help="keepProb; not read.")] = None,
    next_tokens: Annotated[int | None, typer.Option("--next-tokens", help="nextTokens; not read.")] = None,
    sparse_mode: Annotated[int | None, typer.Option("--sparse-mode", help="sparseMode; not read.")] = None,
    inner_precise: Annotated[int | None, typer.Option("--inner-precise", help="innerPrecise, 1.")] = None,
    soc: Annotated[str | None, typer.Option("--soc", help="Part, default Ascend910B1.")] = None,
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

    given = {
        "shape": shape, "layout": layout, "kv_heads": kv_heads, "mask": mask, "pre_tokens": pre_tokens, "scale": scale,
        "head_num": head_num, "keep_prob": keep_prob, "next_tokens": next_tokens, "sparse_mode": sparse_mode,
        "inner_precise": inner_precise, "soc": soc, "order": order, "vendor_quirks": vendor_quirks or None,
        "tensors": parse_tensors(tensors or [], INI) or None,
    }  # fmt: skip
    found = answer(request_of(file, {name: value for name, value in given.items() if value is not None}))
    if found.blocks is not None:  # refused before anything is printed
        found.rounds_of(0 if core is None else core)
        found.round_of(0 if turn is None else turn)
    if as_json:
        _print_json(found.to_dict(core, turn))
    else:
        for line in show_lag.page(found, core, turn):
            out.print(line, soft_wrap=True)
    if found.is_refused:
        raise typer.Exit(Exit.FINDINGS)


@app.command()
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
    from ascendsim.runfolder import check_png, write_file
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
        with _progress() as progress:
            found = search_for(loaded, asked, parts, progress)
    except _Interrupted:
        if is_file(target):
            err.print(f"what is done is kept in {target}; the same command goes on there", soft_wrap=True)
        raise
    files = [target]
    if picture is not None:
        from ascendsim.plot.pareto import pareto_png

        if found.best is not None:
            write_file("--picture", picture, pareto_png(found))
            files.append(picture)
    if as_json:
        _print_json(found.to_dict(top) | {"files": [str(one) for one in files]})
    else:
        wide = Console(highlight=False, emoji=False, markup=False, width=_TABLE_WIDTH)
        for line in show_tune.page(found, top):
            wide.print(line, soft_wrap=True)
        for line in show_tune.closing(found.evaluated, found.resumed, files):
            out.print(line, soft_wrap=True)
    if found.best is None:
        raise typer.Exit(Exit.FINDINGS)


@app.command()
def export(
    results: Annotated[Path, typer.Argument(help="Results of ascendsim tune, .csv or .parquet.", metavar="RESULTS")],
    candidate: Annotated[int | None, typer.Option(min=1, help="Another one than the best, by its number.")] = None,
    folder: Annotated[Path, typer.Option("--out", help="Folder for the two files.")] = Path("out"),
    objectives: Annotated[
        list[str] | None, typer.Option("--objective", help="By which the best is the best, repeatable.", metavar="NAME")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the best candidate of a search as a scenario, and as a tiling header for the host side in AscendC."""
    from ascendsim.tuner.answers import ranked_rows
    from ascendsim.tuner.export import chosen, write_candidate
    from ascendsim.tuner.parts import table_of
    from ascendsim.tuner.store import load_results

    found = load_results(results, table_of(results, "export"))
    row = chosen(ranked_rows(found.setup, found.rows, tuple(objectives or ())), candidate)
    files = write_candidate(found.setup, row, folder)
    if as_json:
        _print_json({"candidate": dict(row), "files": [str(file) for file in files]})
    else:
        for file in files:
            out.print(f"wrote {file}", soft_wrap=True)


def _workers(executor: str, workers: int | None) -> "Workers":
    """Who evaluates: processes, or the cluster of an address."""
    if executor == "processes":
        return workers
    if executor.startswith("dask://") and workers is not None:
        raise InputError("--workers: a cluster has its own; leave it out, or leave --executor out")
    return executor


@app.command()
def fidelity(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with instruction_cycles.csv, kernels.csv or both; default the shipped measurements."),
    ] = None,
    families: Annotated[
        list[str] | None, typer.Option("--family", help="Only this family, repeatable.", metavar="NAME")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for accuracy.md, rows.csv, kernels.csv and two pictures.")
    ] = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="List rows, too: the worst, what is not covered and why, what stands apart.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the model with published measurements: errors by family, what is far off and why, whole kernels.

    Exit code 1 if a family is further off than this version promises.
    """
    from ascendsim import show_fidelity
    from ascendsim.fidelity.compare import compare

    _need_folder("--out", folder)
    with _progress() as progress:
        found = compare(data, tuple(families or ()), progress)
    files: tuple[Path, ...] = ()
    if folder is not None:
        from ascendsim.fidelityfolder import write_fidelity  # with what it draws with

        files = write_fidelity(found, folder)
    if as_json:
        _print_json(found.to_dict() | {"files": [str(file) for file in files]})
    else:
        wide = Console(highlight=False, emoji=False, markup=False, width=_TABLE_WIDTH)
        wide.print(show_fidelity.terminal(found) if rows else show_fidelity.summary(found), soft_wrap=True)
        for file in files:
            out.print(f"wrote {file}", soft_wrap=True)
    if found.broken:
        raise typer.Exit(Exit.FINDINGS)


@app.command()
def why(
    folder: Annotated[Path, typer.Argument(help="Folder of a run.", metavar="RUN")],
    pipes: Annotated[str, typer.Option(help="Pipes to explain, such as MTE2,V; none for all.")] = "",
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Schedule it once more for each pipe, with that pipe's work free.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say in words what a run's pipes waited for, and what they have of its critical path."""
    from ascendsim.runfolder import load_run
    from ascendsim.words import pipe_names
    from ascendsim.words import why as explain

    try:
        chosen = pipe_names(pipes) if pipes else ()
    except ValueError as error:
        raise InputError(f"--pipes {pipes}: {error}") from None
    result = load_run(folder)
    lines = explain(result, chosen, result.what_if if what_if else ())
    if as_json:
        _print_json({"run": str(folder), "why": lines})
    else:
        for line in lines:
            out.print(line, soft_wrap=True)


@app.command()
def inspect(
    target: Annotated[str, typer.Argument(help="Folder of a run, or a scenario.", metavar="RUN")],
    row: Annotated[
        int | None, typer.Option(help="A row by its number in the timeline; with --core, the how-many-th of that core.")
    ] = None,
    cycle: Annotated[int | None, typer.Option(help="A cycle, with --tensor.")] = None,
    tensor: Annotated[
        str | None, typer.Option(help="A tensor's name: in GM, or on chip, such as out_z[0].", metavar="NAME")
    ] = None,
    core: Annotated[int | None, typer.Option(help="Whose rows, or whose memories; default core 0.")] = None,
    elements: Annotated[
        str | None,
        typer.Option(help="Elements of each operand, such as 64:128; else the first 32.", metavar="FIRST:LAST"),
    ] = None,
    element: Annotated[str | None, typer.Option("--dtype", help="With --tensor: read it as this element type.")] = None,
    changes: Changes = None,
    as_json: AsJson = False,
) -> None:
    """Look into a run: operands of a row before and after it, or a tensor at a cycle. It is executed again so far."""
    from ascendsim import show_inspection
    from ascendsim.inspection.views import MOST_VALUES

    if (row is None) == (cycle is None) or (cycle is None) != (tensor is None):
        raise InputError("inspect: give --row N, or --cycle T and --tensor NAME")
    span = None if elements is None else _span(elements)
    most = MOST_VALUES if span is None else None
    with _progress() as progress:
        result = _run_of(target, changes, progress)
    if row is not None:
        if element is not None:
            raise InputError("--dtype goes with --cycle and --tensor; an operand of a row has its own element type")
        view = result.inspect(row=row, core=core, elements=span, most=most)
        lines = show_inspection.row_page(view)
        plain = view.to_dict()
    else:
        assert cycle is not None
        assert tensor is not None
        held = result.inspect(cycle=cycle, tensor=tensor, core=core, elements=span, most=most, element=element)
        lines, plain = show_inspection.tensor_page(held), held.to_dict()
    if as_json:
        _print_json(plain)
        return
    for line in lines:
        out.print(line, soft_wrap=True)


def _run_of(target: str, changes: list[str] | None, progress: "_LazyBar") -> "RunResult":
    """A run folder read back, or a scenario run."""
    from ascendsim.machine import run as run_scenario
    from ascendsim.rerun import load_run

    if Path(target).is_dir():
        if changes:
            raise InputError("--set changes a scenario; a run's folder is what was run")
        return load_run(target)
    return run_scenario(target, set=parse_changes(changes), progress=progress)


def _span(text: str) -> tuple[int, int]:
    """Turn "64:128" into (64, 128).

    Raises:
        InputError: not two whole numbers.
    """
    first, _, last = text.partition(":")
    try:
        return int(first), int(last)
    except ValueError:
        raise InputError(f"--elements {text}: want FIRST:LAST in elements, such as 64:128") from None


@app.command()
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
    _need_folder("--out", folder)
    if (other is None) == (outputs is None):
        raise InputError("compare: name one thing to compare with: B (a run or a trace), or --outputs FOLDER")
    is_trace = other is not None and other.endswith(".json")
    _check_compare(
        is_trace,
        other,
        (clock_mhz is not None, core, alias),
        (atol is not None, rtol is not None, ulp),
        (changes_of_b, equal or None),
    )
    from ascendsim import versus

    first = parse_changes(changes)
    with _progress() as progress:
        found: Any
        if outputs is not None:
            found = versus.compare_outputs(run, outputs, atol=atol, rtol=rtol, ulp=ulp, set=first, progress=progress)
            is_met = found.mismatches == 0
        elif is_trace:
            found = versus.compare_trace(
                run,
                str(other),
                clock_mhz=clock_mhz,
                core=core,
                aliases=_aliases(alias),
                set=first,
                progress=progress,
            )
            is_met = True
        else:
            second = first | parse_changes(changes_of_b)
            found = versus.compare(run, str(other), set_a=first, set_b=second, progress=progress)
            is_met = found.is_equal or not equal
    files: tuple[Path, ...] = ()
    if folder is not None:
        from ascendsim.comparefolder import write_comparison  # with what it draws with

        files = write_comparison(found, folder)
    if as_json:
        _print_json(found.to_dict() | {"files": [str(file) for file in files]})
    else:
        out.print(str(found), soft_wrap=True)
        for file in files:
            out.print(f"wrote {file}", soft_wrap=True)
    if not is_met:
        raise typer.Exit(Exit.EXPECTATION)


def _check_compare(
    is_trace: bool, other: str | None, of_trace: tuple[Any, ...], of_dumps: tuple[Any, ...], of_runs: tuple[Any, ...]
) -> None:
    """Refuse options of another form of `compare` than the one that is asked for."""
    is_dumps, is_runs = other is None, other is not None and not is_trace
    for is_form, given, text in (
        (is_trace, of_trace, "--clock-mhz, --core and --alias are about a trace: B must end in .json"),
        (is_dumps, of_dumps, "--atol, --rtol and --ulp are about dumps: give --outputs FOLDER"),
        (is_runs, of_runs, "--set-b and --equal are about two runs: B must be a run's folder or a scenario"),
    ):
        if not is_form and any(given):
            raise InputError(text)


def _aliases(options: list[str] | None) -> dict[str, str]:
    """Turn OURS=THEIRS options into names."""
    found = {}
    for option in options or []:
        ours, equals, theirs = option.partition("=")
        if not equals or not ours or not theirs:
            raise InputError(f"--alias {option}: want OURS=THEIRS, such as MOV_OUT_TO_UB=MOV_OUT_TO_UB_ALIGN")
        found[ours] = theirs
    return found


def parse_changes(changes: list[str] | None) -> dict[str, Any]:
    """Turn KEY=VALUE options into values: TOML where it parses as TOML, else text.

    Raises:
        InputError: an option without "=", or a value that TOML does not have.
    """
    parsed: dict[str, Any] = {}
    for change in changes or []:
        key, equals, text = change.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--set {change}: want KEY=VALUE, such as tiling.tile_m=32")
        try:
            parsed[key.strip()] = parse_toml(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            parsed[key.strip()] = text
        except ValueError as error:
            raise InputError(f"--set {key}: {str(error).removeprefix('value: ')}") from None
    return parsed


def parse_shape(text: str) -> tuple[int, ...]:
    """Turn "960,960" into (960, 960).

    Raises:
        InputError: not whole numbers joined by commas.
    """
    try:
        return tuple(int(axis) for axis in text.split(","))
    except ValueError:
        raise InputError(f"--shape {text}: want whole numbers joined by commas, such as 960,960") from None


def _numbers(option: str, text: str, example: str) -> tuple[int, ...]:
    """Turn "1,2" into (1, 2), and "" into ().

    Raises:
        InputError: not whole numbers joined by commas.
    """
    try:
        return tuple(int(part) for part in text.split(",")) if text.strip() else ()
    except ValueError:
        raise InputError(f"{option} {text}: want whole numbers joined by commas, such as {example}") from None


def _time_unit(text: str) -> Literal["us", "cycle"]:
    if text == "us":
        return "us"
    if text == "cycle":
        return "cycle"
    raise InputError(f"--time {text}: want us or cycle")


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, indent=1) + "\n")


def _need_folder(option: str, path: Path | None) -> None:
    """Refuse a folder that nothing can be written into before anything is computed."""
    if path is not None:
        from ascendsim.runfolder import check_place

        check_place(option, path)


@contextmanager
def _rejection_as_json(as_json: bool) -> Iterator[None]:
    """With --json, print the findings that end a command as its one object, like `check --json` does."""
    try:
        yield
    except Rejected as error:
        if not as_json:
            raise
        _print_json({"findings": [f.to_dict() for f in error.findings]})
        raise typer.Exit(Exit.FINDINGS) from None


class _LazyBar:
    """A progress bar that appears on a terminal when something takes longer than a second."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        _interrupt.check()
        if self._bar is None and err.is_terminal and (stage == COMPILING or time.monotonic() - self._begun > 1):
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=err, transient=True)
            self._task = self._bar.add_task(stage)
            self._bar.start()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=stage, completed=done, total=total)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def _progress() -> Iterator[_LazyBar]:
    bar = _LazyBar()
    try:
        yield bar
    finally:
        bar.stop()


class _Interrupted(BaseException):
    """Ctrl-C. Not a KeyboardInterrupt, which the command-line library would turn into its own message and code."""


class _Interrupt:
    """What Ctrl-C does: it raises, and says so again later, because Python drops what is raised while objects go.

    While a module is being imported it waits: compiled modules do not survive an exception from elsewhere. A second
    Ctrl-C does not wait.
    """

    def __init__(self) -> None:
        self.seen = False

    def __call__(self, signal_number: int, frame: FrameType | None) -> None:
        is_first = signal_number == signal.SIGINT and not self.seen
        self.seen = True
        if _is_importing(frame) and (is_first or signal_number != signal.SIGINT) and hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, self)
            signal.setitimer(signal.ITIMER_REAL, _IMPORT_WAIT_S)
            return
        raise _Interrupted

    def check(self) -> None:
        """Raise if there was a Ctrl-C."""
        if self.seen:
            raise _Interrupted


_IMPORT_WAIT_S = 0.02
"""Seconds after which a Ctrl-C that came during an import is tried again."""


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load" and "importlib" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


_interrupt = _Interrupt()


def main() -> None:
    """Run the command and turn a user's mistakes, and Ctrl-C, into a message and an exit code."""
    gc.set_threshold(_ALLOCATIONS)
    signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _unraisable
    try:
        _run_command()
        _interrupt.check()
    except BaseException:
        if not _interrupt.seen:
            raise
        err.print("interrupted")  # whatever the interrupted code has made of it
        sys.exit(Exit.INTERRUPTED)
    finally:
        gc.freeze()  # the interpreter ends: what a run has left need not be searched for cycles, 0.1 s


def _unraisable(what: "sys.UnraisableHookArgs") -> None:
    """Say what Python drops, except a Ctrl-C, which is said at the end."""
    if not isinstance(what.exc_value, _Interrupted):
        sys.__unraisablehook__(what)


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
