"""The softmax APIs whose temp can be sized, each once: host functions, what it may be asked with, tensors in UB.

M is the product of all axes but the last [rows], K the last axis [elements]. A row result (max, sum, ...) is one
datablock a row, or one element a row where the outputs are not broadcast.
Sources: asc-devkit docs, pages of SoftMax, LogSoftMax, SoftmaxFlash, SoftmaxFlashV2, SoftmaxFlashV3, SoftmaxGrad and of
their tilings.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from ascendsim.dtypes import FLOAT, HALF, DType
from ascendsim.errors import InputError
from ascendsim.op_host.softmax import (
    SOFTMAX_GRAD_ARCHS,
    cann_outcome_tiling,
    cann_outcome_tmp_size,
    is_basic_block_shape,
    row_cost_floats,
)
from ascendsim.op_host.softmax_family import (
    cann_outcome_log_soft_max_tiling,
    cann_outcome_log_soft_max_tmp_size,
    cann_outcome_soft_max_flash_tiling,
    cann_outcome_soft_max_flash_tmp_size,
    cann_outcome_soft_max_tiling,
    cann_outcome_soft_max_tmp_size,
    soft_max_flash_row_floats,
    soft_max_row_floats,
)
from ascendsim.op_host.softmax_flash_v2 import (
    SoftMaxFlashV2TmpSizeFunction,
    cann_outcome_soft_max_flash_v2_tiling,
    cann_outcome_soft_max_flash_v2_tmp_size,
    soft_max_flash_v2_row_floats,
)
from ascendsim.op_host.softmax_flash_v3 import (
    cann_outcome_soft_max_flash_v3_tiling,
    cann_outcome_soft_max_flash_v3_tmp_size,
    soft_max_flash_v3_row_floats,
)
from ascendsim.op_host.softmax_outcome import CannOutcome, SoftMaxInputError
from ascendsim.terms import DATABLOCK_BYTES, NZ_COLUMNS, DataFormat, align_up
from ascendsim.tmpsize.high_water import Unit, unit_of


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an API whose temp is asked for.

    Attributes:
        api: its name in APIS.
        shape: axes of the data as it lies in UB, padded; only the product of the leading ones matters.
        element: of the data.
        sum_element: of max and sum.
        npu_arch: architecture number such as 2201.
        is_front: SoftmaxGrad's row sums only.
        is_update: SoftMaxFlash and its versions update the max and sum of an earlier call.
        is_basic_block: the basic-block form; of SoftmaxGrad that of SoftmaxGradFront.
        is_flash_output_brc: SoftMaxFlashV2's row results are not broadcast, [m, 1] instead of a datablock a row.
        data_format: ND, or NZ for SoftmaxGrad.
        reuse_source: dst lies on src, and of the Flash APIs the row results on those that come in.
    """

    api: str
    shape: tuple[int, ...]
    element: DType
    sum_element: DType
    npu_arch: int
    is_front: bool = False
    is_update: bool = False
    is_basic_block: bool = False
    is_flash_output_brc: bool = False
    data_format: DataFormat = DataFormat.ND
    reuse_source: bool = False

    @property
    def k(self) -> int:
        """Elements of a row."""
        return self.shape[-1]

    @property
    def m(self) -> int:
        """Rows."""
        return prod(self.shape[:-1])

    @property
    def is_grad(self) -> bool:
        """Whether this is SoftmaxGrad, the one of them whose kernel is here."""
        return self.api == "softmaxgrad"


Sizes = Callable[[Call], tuple[int, int, bool]]
"""Minimum and maximum temp [bytes], and whether CANN's 32 bits overflowed."""
Tensors = Callable[[Call], dict[str, int]]
"""Bytes of each tensor of a call in UB."""


@dataclass(frozen=True, slots=True)
class Api:
    """One API.

    Attributes:
        title: AscendC's name.
        takes: the optional arguments of Call that mean something to it.
        sizes: minimum and maximum temp.
        tiling: CANN's answer for so many bytes of temp.
        row_floats: what the tiling reserves for one row.
        tensors: what it works on.
    """

    title: str
    takes: frozenset[str]
    sizes: Sizes
    tiling: Callable[[Call, int], CannOutcome]
    row_floats: Callable[[Call], int]
    tensors: Tensors


def _both(least: CannOutcome, most: CannOutcome) -> tuple[int, int, bool]:
    for outcome in (least, most):
        if outcome.is_error or outcome.returned_bytes is None:
            raise SoftMaxInputError(outcome.problem, outcome)
    assert least.returned_bytes is not None
    assert most.returned_bytes is not None
    return least.returned_bytes, most.returned_bytes, least.wrapped or most.wrapped


# --- sizes and tilings ---


def _grad_sizes(call: Call) -> tuple[int, int, bool]:
    arguments = (call.shape, call.element.bytes, call.is_front, call.npu_arch)
    least = cann_outcome_tmp_size("GetSoftMaxGradMinTmpSize", *arguments)
    return _both(least, cann_outcome_tmp_size("GetSoftMaxGradMaxTmpSize", *arguments))


def _grad_tiling(call: Call, tmp_bytes: int) -> CannOutcome:
    return cann_outcome_tiling(call.shape, call.element.bytes, tmp_bytes, call.is_front)


def _soft_max_sizes(call: Call) -> tuple[int, int, bool]:
    arguments = (call.shape, call.element.bytes, call.npu_arch)
    least = cann_outcome_soft_max_tmp_size("GetSoftMaxMinTmpSize", *arguments)
    return _both(least, cann_outcome_soft_max_tmp_size("GetSoftMaxMaxTmpSize", *arguments))


def _soft_max_tiling(call: Call, tmp_bytes: int) -> CannOutcome:
    return cann_outcome_soft_max_tiling(call.shape, call.element.bytes, tmp_bytes)


def _log_sizes(call: Call) -> tuple[int, int, bool]:
    arguments = (call.shape, call.element.bytes, call.npu_arch)
    least = cann_outcome_log_soft_max_tmp_size("GetLogSoftMaxMinTmpSize", *arguments)
    return _both(least, cann_outcome_log_soft_max_tmp_size("GetLogSoftMaxMaxTmpSize", *arguments))


def _log_tiling(call: Call, tmp_bytes: int) -> CannOutcome:
    return cann_outcome_log_soft_max_tiling(call.shape, call.element.bytes, tmp_bytes)


def _flash_sizes(call: Call) -> tuple[int, int, bool]:
    arguments = (call.shape, call.element.bytes, call.is_update, call.npu_arch)
    least = cann_outcome_soft_max_flash_tmp_size("GetSoftMaxFlashMinTmpSize", *arguments)
    return _both(least, cann_outcome_soft_max_flash_tmp_size("GetSoftMaxFlashMaxTmpSize", *arguments))


def _flash_tiling(call: Call, tmp_bytes: int) -> CannOutcome:
    return cann_outcome_soft_max_flash_tiling(call.shape, call.element.bytes, tmp_bytes, call.is_update)


def _v2_sizes(call: Call) -> tuple[int, int, bool]:
    return _both(_v2_size(call, "GetSoftMaxFlashV2MinTmpSize"), _v2_size(call, "GetSoftMaxFlashV2MaxTmpSize"))


def _v2_size(call: Call, function: SoftMaxFlashV2TmpSizeFunction) -> CannOutcome:
    return cann_outcome_soft_max_flash_v2_tmp_size(
        function,
        call.shape,
        call.element.bytes,
        call.sum_element.bytes,
        call.is_update,
        call.npu_arch,
        is_basic_block=call.is_basic_block,
        is_flash_output_brc=call.is_flash_output_brc,
    )


def _v2_tiling(call: Call, tmp_bytes: int) -> CannOutcome:
    flags = {"is_basic_block": call.is_basic_block, "is_flash_output_brc": call.is_flash_output_brc}
    sizes = (call.element.bytes, call.sum_element.bytes)
    return cann_outcome_soft_max_flash_v2_tiling(call.shape, *sizes, tmp_bytes, **flags)


def _v3_sizes(call: Call) -> tuple[int, int, bool]:
    sizes = (call.element.bytes, call.sum_element.bytes)
    outcome = cann_outcome_soft_max_flash_v3_tmp_size(call.shape, *sizes, call.is_update, call.npu_arch)
    if outcome.is_error or outcome.max_min_bytes is None:
        raise SoftMaxInputError(outcome.problem, outcome)
    most, least = outcome.max_min_bytes
    return least, most, outcome.wrapped


def _v3_tiling(call: Call, tmp_bytes: int) -> CannOutcome:
    sizes = (call.element.bytes, call.sum_element.bytes)
    return cann_outcome_soft_max_flash_v3_tiling(call.shape, *sizes, tmp_bytes)


# --- tensors ---


def _data_bytes(call: Call) -> int:
    return align_up(call.m * call.k * call.element.bytes, DATABLOCK_BYTES)


def _result_bytes(call: Call, element: DType) -> int:
    """One result for each row: a datablock, or one element where nothing is broadcast."""
    return align_up(call.m * (element.bytes if call.is_flash_output_brc else DATABLOCK_BYTES), DATABLOCK_BYTES)


def _grad_tensors(call: Call) -> dict[str, int]:
    data = _data_bytes(call)
    dst = call.m * DATABLOCK_BYTES if call.is_front else data
    return {"grad": data, "src": data} if call.reuse_source else {"grad": data, "src": data, "dst": dst}


def _soft_max_tensors(call: Call) -> dict[str, int]:
    data = _data_bytes(call)
    dst = {} if call.reuse_source else {"dst": data}
    return {
        "src": data,
        **dst,
        "sum": _result_bytes(call, call.sum_element),
        "max": _result_bytes(call, call.sum_element),
    }


def _flash_tensors(call: Call) -> dict[str, int]:
    """The sum and max of the call before count when they are read and do not lie on the new ones."""
    result = _result_bytes(call, call.sum_element)
    before = {"in_sum": result, "in_max": result} if call.is_update and not call.reuse_source else {}
    return {**_soft_max_tensors(call), "exp_max": _result_bytes(call, call.element), **before}


def _v3_tensors(call: Call) -> dict[str, int]:
    result = _result_bytes(call, call.sum_element)
    before = {"in_mean": result} if call.is_update and not call.reuse_source else {}
    return {**_flash_tensors(call), "mean": result, **before}


APIS: Mapping[str, Api] = {
    "softmaxgrad": Api(
        "SoftmaxGrad",
        frozenset({"is_front", "is_basic_block", "data_format"}),
        _grad_sizes,
        _grad_tiling,
        lambda call: row_cost_floats(call.k, call.element.bytes, call.is_front),
        _grad_tensors,
    ),
    "softmax": Api(
        "SoftMax",
        frozenset(),
        _soft_max_sizes,
        _soft_max_tiling,
        lambda call: soft_max_row_floats(call.k, call.element.bytes),
        _soft_max_tensors,
    ),
    "logsoftmax": Api(
        "LogSoftMax",
        frozenset(),
        _log_sizes,
        _log_tiling,
        lambda call: soft_max_row_floats(call.k, call.element.bytes),
        _soft_max_tensors,
    ),
    "softmaxflash": Api(
        "SoftMaxFlash",
        frozenset({"is_update"}),
        _flash_sizes,
        _flash_tiling,
        lambda call: soft_max_flash_row_floats(call.k, call.element.bytes, call.is_update),
        _flash_tensors,
    ),
    "softmaxflashv2": Api(
        "SoftMaxFlashV2",
        frozenset({"sum_element", "is_update", "is_basic_block", "is_flash_output_brc"}),
        _v2_sizes,
        _v2_tiling,
        lambda call: soft_max_flash_v2_row_floats(
            call.m, call.k, call.element.bytes, call.sum_element.bytes, is_basic_block=call.is_basic_block
        ),
        _flash_tensors,
    ),
    "softmaxflashv3": Api(
        "SoftMaxFlashV3",
        frozenset({"sum_element", "is_update", "is_basic_block"}),
        _v3_sizes,
        _v3_tiling,
        lambda call: soft_max_flash_v3_row_floats(call.k, call.sum_element.bytes),
        _v3_tensors,
    ),
}
"""By the name on the command line."""

OPTIONS = {
    "sum_element": "--sum-dtype",
    "is_front": "--front",
    "is_update": "--update",
    "is_basic_block": "--basic-block",
    "is_flash_output_brc": "--brc",
    "data_format": "--format NZ",
}
"""How the optional arguments are called on the command line."""


def api_of(name: str) -> Api:
    """Return an API by its name, in any case.

    Raises:
        InputError: no such API; the text lists the known ones.
    """
    if name.casefold() not in APIS:
        raise InputError(f"{name}: its temp is not known here; known: {', '.join(APIS)}")
    return APIS[name.casefold()]


def check_call(call: Call, given: frozenset[str]) -> None:
    """Refuse a call that the API cannot take.

    Args:
        call: the call.
        given: names of the optional arguments that were given.

    Raises:
        InputError: a shape, dtype or option that does not belong to the API; the text says what does.
    """
    api = APIS[call.api]
    if not call.shape or any(axis < 1 for axis in call.shape):
        raise InputError(f"shape {list(call.shape)}: every axis must be at least 1")
    if call.npu_arch not in SOFTMAX_GRAD_ARCHS:
        known = ", ".join(map(str, SOFTMAX_GRAD_ARCHS))
        raise InputError(f"architecture {call.npu_arch} has no {api.title}, or is not known here; known: {known}")
    for element, option in ((call.element, "--dtype"), (call.sum_element, "--sum-dtype")):
        if element not in (HALF, FLOAT):
            raise InputError(f"{option} {element}: {api.title} supports half and float")
    for name in sorted(given - api.takes):
        takers = ", ".join(known for known, other in APIS.items() if name in other.takes)
        raise InputError(f"{OPTIONS[name]}: {api.title} has no such argument; those that have it: {takers}")
    if call.is_grad:
        _check_grad(call)


def _check_grad(call: Call) -> None:
    is_nz = call.data_format is DataFormat.NZ
    if (is_nz or call.is_basic_block) and unit_of(call.npu_arch) is Unit.REGISTER:
        raise InputError(
            f"{'--format NZ' if is_nz else '--basic-block'}: SoftmaxGrad on architecture {call.npu_arch} has "
            "ND without basic block only"
        )
    if is_nz and call.k % NZ_COLUMNS:
        raise InputError(
            f"--format NZ: last axis {call.k} is no multiple of {NZ_COLUMNS}, the columns of a slab; pad it"
        )
    if call.reuse_source and call.is_front:
        raise InputError("--reuse-source with --front: the row sums are too short for src; leave one out")
    if not call.is_basic_block:
        return
    if not call.is_front:
        raise InputError("--basic-block: only SoftmaxGradFront has a basic-block form; add --front")
    if not is_basic_block_shape(call.m, call.k, call.element.bytes):
        raise InputError(
            f"--basic-block: needs rows % 8 == 0, last axis % 64 == 0 and {256 // call.element.bytes} <= last axis "
            f"< 2048, the shape is {call.m}x{call.k}; leave it out"
        )
