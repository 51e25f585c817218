"""A chosen temp and its tiling as files: [tiling] of a scenario, and the AscendC host lines that reproduce it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

from ascendsim.dtypes import DType
from ascendsim.errors import InputError
from ascendsim.op_host.softmax_outcome import SoftMaxTiling
from ascendsim.terms import DataFormat, ascendc_field
from ascendsim.tmpsize.answer import TmpChoice, TmpSize
from ascendsim.tmpsize.apis import Call


@dataclass(frozen=True, slots=True)
class Host:
    """AscendC's host functions of an API.

    Attributes:
        sizes: lines that ask for minTmpBytes and maxTmpBytes.
        tiling: the tiling function's name.
        first, last: its arguments before the temp, and behind the struct.
        struct: the struct's name.
    """

    sizes: tuple[str, ...]
    tiling: str
    first: str
    last: str
    struct: str = "SoftMaxTiling"


def file_stem(answer: TmpSize) -> str:
    """Return the name of a call's files, without an ending."""
    call = answer.call
    shape = "x".join(str(axis) for axis in call.shape)
    sums = "" if call.sum_element is call.element else f"_{call.sum_element}"
    flags = {
        "front": call.is_front,
        "update": call.is_update,
        "basic_block": call.is_basic_block,
        "brc": call.is_flash_output_brc,
        "nz": call.data_format is DataFormat.NZ,
    }
    return "_".join([call.api, shape, f"{call.element}{sums}", *(name for name, is_set in flags.items() if is_set)])


def check_export(answer: TmpSize, choice: TmpChoice) -> SoftMaxTiling:
    """Return the tiling to export.

    Raises:
        InputError: there is no row in it, or the tensors leave no room for it; the text says which shape would do.
    """
    room = answer.left_bytes
    if answer.largest_tile_m is not None and room is not None and room < answer.min_bytes:
        rows = answer.largest_tile_m
        how = f"ask for a tile of at most {rows} rows: --shape {rows},{answer.call.k}" if rows else "use shorter rows"
        raise InputError(f"--export: {answer.title} does not fit in UB with its minimum temp; {how}")
    if choice.tiling is None or choice.tiling.split_m == 0:
        raise InputError(
            f"--export: a temp of {choice.tmp_bytes} B gives no row (split_m 0); pass one with --temp, at least "
            f"{answer.row_bytes} B"
        )
    return choice.tiling


def tiling_toml(answer: TmpSize, choice: TmpChoice) -> str | None:
    """Return [tiling] and [queues] of the softmax_grad operator, as `tilings/` holds them, and [check]: for what.

    None where no operator is here: other APIs, NZ, basic block, and dst on src.
    """
    tiling, call = check_export(answer, choice), answer.call
    if not call.is_grad or call.data_format is DataFormat.NZ or call.is_basic_block or call.reuse_source:
        return None
    sizes = f"temp {choice.tmp_bytes} B, split_m {tiling.split_m}"
    return "\n".join(
        [
            f"# {answer.title}: a tile of {call.m} rows, {sizes}; one buffer a queue.",
            "schema = 1",
            'operator = "softmax_grad"',
            f'description = "{answer.title}, {sizes}"',
            "",
            "[tiling]",
            f"tile_m = {call.m}",
            f"tmp_bytes = {choice.tmp_bytes}",
            f"is_front = {_bool(call.is_front)}",
            "",
            "[queues]",
            *(f"{queue}.num = 1" for queue in ("in_grad", "in_p", "out")),
            "",
            "[check]",
            *([] if answer.device is None else [f'device = "{answer.device.name}"']),
            "block_dim = 1",
            f"shape = {list(call.shape)}",
            f'dtype = "{call.element}"',
            "",
        ]
    )


def host_lines(answer: TmpSize, choice: TmpChoice) -> str:
    """Return AscendC lines for the host: the calls that give these sizes and this tiling, and the 16 fields."""
    tiling, call = check_export(answer, choice), answer.call
    host = _HOSTS[call.api](call)
    axes = ", ".join(str(axis) for axis in call.shape)
    kernel = "LogSoftMaxTiling" if host.struct == "LogSoftMaxTiling" else "SoftMaxTiling"
    fields = [(ascendc_field(name), value) for name, value in asdict(tiling).items()]
    return "\n".join(
        [
            f"// {answer.title}, NpuArch {call.npu_arch}: temp and tiling found by ascendsim tmpsize.",
            f"// Expected here: minTmpBytes {answer.min_bytes}, maxTmpBytes {answer.max_bytes}.",
            "// In the operator's tiling function on the host:",
            '#include "tiling/tiling_api.h"',
            "",
            f"const ge::Shape shape({{{axes}}});",
            *host.sizes,
            f"const uint32_t tmpBytes = {choice.tmp_bytes};",
            f"AscendC::tiling::{host.struct} tiling;",
            f"AscendC::{host.tiling}({host.first}, tmpBytes, tiling{host.last});",
            "",
            "// What the call above fills in, for a kernel that is given constants:",
            f"constexpr {kernel} expectedTiling = {{",
            *(f"    {value},  // {name}" for name, value in fields),
            "};",
            "",
        ]
    )


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _size(element: DType) -> str:
    return f"{element.bytes} /* {element.name} */"


def _asked(maximum: str, minimum: str, arguments: str) -> tuple[str, ...]:
    return (
        f"const uint32_t maxTmpBytes = AscendC::{maximum}({arguments});",
        f"const uint32_t minTmpBytes = AscendC::{minimum}({arguments});",
    )


def _grad(call: Call) -> Host:
    front, size = _bool(call.is_front), _size(call.element)
    arguments = f"shape, {size}, {front} /* isFront */, false /* isReuseSource */"
    sizes = _asked("GetSoftMaxGradMaxTmpSize", "GetSoftMaxGradMinTmpSize", arguments)
    return Host(sizes, "SoftMaxGradTilingFunc", f"shape, {size}", f", {front} /* isFront */")


def _soft_max(call: Call) -> Host:
    arguments = f"shape, {_size(call.element)}, false /* isReuseSource */"
    sizes = _asked("GetSoftMaxMaxTmpSize", "GetSoftMaxMinTmpSize", arguments)
    return Host(sizes, "SoftMaxTilingFunc", f"shape, {_size(call.element)}", "")


def _log(call: Call) -> Host:
    arguments = f"shape, {_size(call.element)}, false /* isReuseSource */"
    sizes = _asked("GetLogSoftMaxMaxTmpSize", "GetLogSoftMaxMinTmpSize", arguments)
    return Host(sizes, "LogSoftMaxTilingFunc", f"shape, {_size(call.element)}", "", "LogSoftMaxTiling")


def _flash(call: Call) -> Host:
    update = f"{_bool(call.is_update)} /* isUpdate */"
    arguments = f"shape, {_size(call.element)}, {update}, false /* isReuseSource */"
    sizes = _asked("GetSoftMaxFlashMaxTmpSize", "GetSoftMaxFlashMinTmpSize", arguments)
    return Host(sizes, "SoftMaxFlashTilingFunc", f"shape, {_size(call.element)}", f", {update}")


def _flags_of_v2(call: Call) -> str:
    update, basic = _bool(call.is_update), _bool(call.is_basic_block)
    brc = _bool(call.is_flash_output_brc)
    return f"{update} /* isUpdate */, {basic} /* isBasicBlock */, {brc} /* isFlashOutputBrc */"


def _v2(call: Call) -> Host:
    first = f"shape, {_size(call.element)}, {_size(call.sum_element)}"
    arguments = f"{first}, {_flags_of_v2(call)}"
    sizes = _asked("GetSoftMaxFlashV2MaxTmpSize", "GetSoftMaxFlashV2MinTmpSize", arguments)
    return Host(sizes, "SoftMaxFlashV2TilingFunc", first, f", {_flags_of_v2(call)}")


def _v3(call: Call) -> Host:
    first = f"shape, {_size(call.element)}, {_size(call.sum_element)}"
    flags = f"{_bool(call.is_update)} /* isUpdate */, {_bool(call.is_basic_block)} /* isBasicBlock */"
    sizes = (
        "uint32_t maxTmpBytes = 0;",
        "uint32_t minTmpBytes = 0;",
        f"AscendC::GetSoftMaxFlashV3MaxMinTmpSize({first}, maxTmpBytes, minTmpBytes, {flags});",
    )
    return Host(sizes, "SoftMaxFlashV3TilingFunc", first, f", {flags}")


_HOSTS: dict[str, Callable[[Call], Host]] = {
    "softmaxgrad": _grad,
    "softmax": _soft_max,
    "logsoftmax": _log,
    "softmaxflash": _flash,
    "softmaxflashv2": _v2,
    "softmaxflashv3": _v3,
}
