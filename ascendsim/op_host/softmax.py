"""SoftmaxGrad on the host: temp-buffer bytes and tiling, and the kernel's own re-tiling. Numbers equal CANN's.

M is the product of all axes but the last [rows], K the last axis [elements]; a row is K elements. CANN computes in
uint32 and wraps without a word; so does this module, and `CannOutcome.wrapped` tells.

CANN answers some bad input with a log line and a number. `cann_outcome_*` report that answer and never raise. The
functions named after CANN's raise `SoftMaxInputError` where CANN logs an error, refuses or crashes; where CANN says
nothing they return its number.

Source: asc-devkit 9.1.0, softmax tiling (host) / softmax_tiling_func (kernel).
"""

from collections.abc import Sequence
from math import prod
from typing import Final, Literal

from ascendsim.dtypes import FLOAT, HALF
from ascendsim.op_host.softmax_call import ELEMENT_BYTES, TYPE_SIZE, Call, Remark, new_call
from ascendsim.op_host.softmax_outcome import (
    CannOutcome,
    Kind,
    SoftMaxInputError,
    SoftMaxTiling,
    Stale,
    Status,
    size_or_raise,
    tiling_or_raise,
)
from ascendsim.op_host.softmax_tiles import (
    LANES,
    ROW_GROUP,
    WHOLE_INPUT_ARCHS,
    RowCost,
    Uint32,
    basic_block_rows,
    host_rows,
    row_sum_floats,
    tiling_fields,
    whole_groups,
)
from ascendsim.terms import DATABLOCK_BYTES, REPEAT_BYTES

__all__ = [
    "SOFTMAX_GRAD_ARCHS",
    "CannOutcome",
    "SoftMaxInputError",
    "SoftMaxTiling",
    "Stale",
    "Status",
    "TmpSizeFunction",
    "cann_outcome_tiling",
    "cann_outcome_tmp_size",
    "fitting_tmp_size",
    "get_soft_max_grad_max_tmp_size",
    "get_soft_max_grad_min_tmp_size",
    "is_basic_block_in_soft_max",
    "is_basic_block_shape",
    "row_cost_floats",
    "row_sum_floats",
    "soft_max_grad_kernel_tiling",
    "soft_max_grad_splits",
    "soft_max_grad_tiling_func",
    "soft_max_grad_tiling_of_split",
]

TmpSizeFunction = Literal["GetSoftMaxGradMinTmpSize", "GetSoftMaxGradMaxTmpSize"]

_MIN: Final = "GetSoftMaxGradMinTmpSize"
_MAX: Final = "GetSoftMaxGradMaxTmpSize"
_TILING: Final = "SoftMaxGradTilingFunc"
_KERNEL_TILING: Final = "SoftMaxGradTilingFunc (kernel)"

_BASIC_BLOCK_K_END = 2048
"""Basic-block kernels take a K below this: their repeat stride 8 * K/64 has 8 bits."""

SOFTMAX_GRAD_ARCHS = (2002, 2201, 3002, 3003, 3113, 3510, 5102)
"""Architectures that have SoftmaxGrad (asc-devkit docs, SoftmaxGrad page and GetCurNpuArch page); 1001 has not."""

_NOT_COMPILED = Remark("the kernel is compiled for half and float only", TYPE_SIZE.remedy)

_HALF_ROW = RowCost(rows=3, datablocks=2, floats=LANES)
_FLOAT_ROW = RowCost(rows=1, datablocks=2, floats=LANES)
_FLOAT_FRONT_ROW = RowCost(rows=1, datablocks=1, floats=LANES)


def _row_cost(data_type_size: int, is_front: bool) -> RowCost:
    """Return what tiling reserves for one row.

    half keeps three float rows and two datablocks of sums, float one row and two datablocks (one when the sums go
    straight to the result); each adds one repeat.
    """
    if data_type_size == HALF.bytes:
        return _HALF_ROW
    return _FLOAT_FRONT_ROW if is_front else _FLOAT_ROW


def row_cost_floats(k: int, data_type_size: int, is_front: bool) -> int:
    """Return the temp floats that tiling reserves for one row: the number behind every size here.

    Args:
        k: elements of one row.
        data_type_size: bytes of an element, 2 or 4.
        is_front: the result is one datablock per row.
    """
    return _row_cost(data_type_size, is_front).of(k, DATABLOCK_BYTES // data_type_size)


# --- CANN's answer, never an exception ---


def _call(function: str, kind: Kind, shape: Sequence[int], data_type_size: int, is_front: bool) -> Call:
    sizes = data_type_size, data_type_size
    return new_call(function, kind, shape, sizes, lambda size, _m, _k: _row_cost(size, is_front))


def cann_outcome_tmp_size(
    function: TmpSizeFunction,
    shape: Sequence[int],
    data_type_size: int,
    is_front: bool,
    npu_arch: int,
    *,
    is_reuse_source: bool = False,
) -> CannOutcome:
    """Return what CANN's temp-size function does with these arguments.

    Args:
        function: which of the two.
        shape: axes [elements]; -1 and -2 are the graph engine's "known at run time".
        data_type_size: bytes of an element.
        is_front: the result is one datablock per row.
        npu_arch: 2201, 3510, ...; a number without a rule of its own takes the common one.
        is_reuse_source: CANN ignores it, with a warning.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    call = _call(function, "size", shape, data_type_size, is_front)
    stop = call.check((call.type_check(), call.reuse_check(is_reuse_source)), call.refusals())
    if stop is not None:
        return call.stopped(stop)
    if function == _MAX:
        return call.returned(call.m * call.row_floats)
    if npu_arch in WHOLE_INPUT_ARCHS:
        return call.returned(row_sum_floats(call.m, is_front))
    return call.returned(call.row_floats)


def cann_outcome_tiling(
    shape: Sequence[int], data_type_size: int, local_work_space_size: int, is_front: bool
) -> CannOutcome:
    """Return what CANN's host tiling function does with these arguments.

    Args:
        shape: axes [elements].
        data_type_size: bytes of an element.
        local_work_space_size: bytes of the temp buffer.
        is_front: the result is one datablock per row.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    call = _call(_TILING, "tiling", shape, data_type_size, is_front)
    stop = call.check((call.type_check(), call.workspace_check(local_work_space_size)), call.refusals())
    return call.stopped(stop) if stop is not None else call.filled(call.cut(call.m, host_rows))


def _kernel_outcome(call: Call, work_local_count: int, is_basic_block: bool) -> CannOutcome:
    work_floats = call.u32(work_local_count)
    call.work_bytes = FLOAT.bytes * work_floats
    if call.data_type_size not in ELEMENT_BYTES:
        call.remarks.append(_NOT_COMPILED)
        return call.stopped("rejected")
    tiling = call.cut(call.u32(call.shape[0]), _kernel_basic_block_rows if is_basic_block else _kernel_rows)
    if tiling is not None and tiling.split_m == 0:
        return call.asserted(tiling)
    return call.filled(tiling)


def _kernel_rows(_u32: Uint32, fit: int, m: int, _k: int) -> int:
    return whole_groups(fit, m)


def _kernel_basic_block_rows(u32: Uint32, fit: int, m: int, k: int) -> int:
    return basic_block_rows(u32, whole_groups(fit, m), m, k)


# --- CANN's functions ---


def get_soft_max_grad_max_tmp_size(shape: Sequence[int], data_type_size: int, is_front: bool, npu_arch: int) -> int:
    """Return the temp bytes with which all rows fit in one tile: M times the cost of a row, on every architecture.

    More never helps. Less may give fewer tiles: basic-block tiles must divide M and hold less than 16384 elements.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        is_front: the result is one datablock per row.
        npu_arch: architecture number such as 2201.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return size_or_raise(cann_outcome_tmp_size(_MAX, shape, data_type_size, is_front, npu_arch))


def get_soft_max_grad_min_tmp_size(shape: Sequence[int], data_type_size: int, is_front: bool, npu_arch: int) -> int:
    """Return the least temp bytes: the cost of one row, or the row sums of all rows on 3510 and 5102.

    On those two it may be below one row, for which `soft_max_grad_tiling_func` gives split_m 0, and for a single short
    row it may be above the maximum.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        is_front: the result is one datablock per row.
        npu_arch: architecture number such as 2201.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return size_or_raise(cann_outcome_tmp_size(_MIN, shape, data_type_size, is_front, npu_arch))


def fitting_tmp_size(shape: Sequence[int], data_type_size: int, is_front: bool, npu_arch: int, left_bytes: int) -> int:
    """Return the largest temp that the call can use and that `left_bytes` of UB hold, but at least the minimum.

    Args:
        shape: [..., k] of grad and src as they lie in UB.
        data_type_size: bytes of an element.
        is_front: only the row sums.
        npu_arch: architecture number such as 2201.
        left_bytes: what the tensors leave of UB; may be negative.

    Raises:
        SoftMaxInputError: as get_soft_max_grad_min_tmp_size.
    """
    low = get_soft_max_grad_min_tmp_size(shape, data_type_size, is_front, npu_arch)
    high = get_soft_max_grad_max_tmp_size(shape, data_type_size, is_front, npu_arch)
    return max(low, min(high, left_bytes // DATABLOCK_BYTES * DATABLOCK_BYTES))


def soft_max_grad_tiling_func(
    shape: Sequence[int], data_type_size: int, local_work_space_size: int, is_front: bool
) -> SoftMaxTiling:
    """Return the host tiling. The same on every architecture.

    A workspace below one row gives split_m 0 and range_m 0 without a word, as in CANN with a fresh struct. More
    workspace can give smaller tiles, because basic-block tiles must divide M.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        local_work_space_size: bytes of the temp buffer.
        is_front: the result is one datablock per row.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return tiling_or_raise(cann_outcome_tiling(shape, data_type_size, local_work_space_size, is_front))


def soft_max_grad_tiling_of_split(shape: Sequence[int], data_type_size: int, split_m: int) -> SoftMaxTiling:
    """Return the 16 fields with a tile height of one's own, whether the host function can give it or not.

    Args:
        shape: axes [elements], rank 1 or more.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        split_m: rows of a full tile, 1 to M.
    """
    k = shape[-1]
    return tiling_fields(Uint32(), prod(shape[:-1]), k, DATABLOCK_BYTES // data_type_size, split_m)


def soft_max_grad_splits(shape: Sequence[int], data_type_size: int, is_front: bool) -> dict[int, int]:
    """Return every tile height that `soft_max_grad_tiling_func` can give, with the least temp bytes that give it.

    Args:
        shape: axes [elements], rank 1 or more.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        is_front: the result is one datablock per row.
    """
    m, k = prod(shape[:-1]), shape[-1]
    row_bytes = FLOAT.bytes * row_cost_floats(k, data_type_size, is_front)
    found: dict[int, int] = {}
    for fit in range(1, m + 1):
        found.setdefault(host_rows(Uint32(), fit, m, k), fit * row_bytes)
    return {split: found[split] for split in sorted(found) if split}


def soft_max_grad_kernel_tiling(
    src_m: int,
    src_k: int,
    data_type_size: int,
    work_local_count: int,
    is_front: bool,
    *,
    is_basic_block: bool = False,
    is_nz: bool = False,
) -> SoftMaxTiling:
    """Return the tiling the kernel makes itself when the struct's src_m or src_k is not the tensor's.

    Unlike the host, it makes tiles divide M and keeps them below 16384 elements only for front basic blocks, and does
    not look whether K is whole repeats; NZ never saves the second datablock of sums.

    Args:
        src_m: rows.
        src_k: elements of one row.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        work_local_count: floats of the temp tensor.
        is_front: the result is one datablock per row.
        is_basic_block: the kernel's template flag; SoftmaxGrad always passes False.
        is_nz: the data is in NZ format.

    Raises:
        SoftMaxInputError: the tile height is 0, which the kernel asserts on (debug) or divides by (release), or the
            element size is none the kernel exists for.

    Source: asc-devkit 9.1.0, softmax_tiling_func (kernel).
    """
    call = _call(_KERNEL_TILING, "kernel", (src_m, src_k), data_type_size, is_front and not is_nz)
    return tiling_or_raise(_kernel_outcome(call, work_local_count, is_basic_block and is_front))


def is_basic_block_shape(src_m: int, src_k: int, data_type_size: int) -> bool:
    """Return whether SoftmaxGradFront may be called with basic block on tensors of this shape.

    Args:
        src_m: rows.
        src_k: elements of one row, padded.
        data_type_size: bytes of an element.

    Source: asc-devkit docs, SoftmaxGradFront page.
    """
    return (
        src_m % ROW_GROUP == 0 and src_k % LANES == 0 and REPEAT_BYTES // data_type_size <= src_k < _BASIC_BLOCK_K_END
    )


def is_basic_block_in_soft_max(tiling: SoftMaxTiling, data_type_size: int = 2) -> bool:
    """Return whether the basic-block kernel may run this tiling: no partial tile, K whole repeats and below 2048.

    Args:
        tiling: only src_k and tail_m are read.
        data_type_size: bytes of an element; 0 gives False.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    if data_type_size == 0 or tiling.tail_m != 0 or tiling.src_k % LANES:
        return False
    return REPEAT_BYTES // data_type_size <= tiling.src_k < _BASIC_BLOCK_K_END
