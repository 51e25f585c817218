"""SoftMax, SoftMaxFlash and LogSoftMax on the host: temp-buffer bytes and tilings. Numbers equal CANN's.

M is the product of all axes but the last [rows], K the last axis [elements], e the elements of one datablock. One size
of element stands for the data and for the row results (max and sum). SoftMaxFlashV2 and V3, which take two sizes, have
modules of their own.

CANN computes in uint32 and wraps without a word; so does this module, and `CannOutcome.wrapped` tells. What raises and
what does not: see `ascendsim.op_host.softmax`.

Source: asc-devkit 9.1.0, softmax tiling and logsoftmax tiling (host).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from ascendsim.dtypes import FLOAT, HALF
from ascendsim.op_host.softmax_call import Call, new_call
from ascendsim.op_host.softmax_outcome import CannOutcome, Kind, SoftMaxTiling, size_or_raise, tiling_or_raise
from ascendsim.op_host.softmax_tiles import (
    LANES,
    WHOLE_INPUT_ARCHS,
    RowCost,
    Uint32,
    basic_block_rows,
    host_rows,
    whole_groups,
    whole_input_floats,
)
from ascendsim.terms import DATABLOCK_BYTES

SoftMaxTmpSizeFunction = Literal["GetSoftMaxMinTmpSize", "GetSoftMaxMaxTmpSize"]
SoftMaxFlashTmpSizeFunction = Literal["GetSoftMaxFlashMinTmpSize", "GetSoftMaxFlashMaxTmpSize"]
LogSoftMaxTmpSizeFunction = Literal["GetLogSoftMaxMinTmpSize", "GetLogSoftMaxMaxTmpSize"]

_SOFT_MAX_MIN: Final = "GetSoftMaxMinTmpSize"
_SOFT_MAX_MAX: Final = "GetSoftMaxMaxTmpSize"
_SOFT_MAX_TILING: Final = "SoftMaxTilingFunc"
_SOFT_MAX_KERNEL_TILING: Final = "SoftMaxTilingFunc (kernel)"
_FLASH_MIN: Final = "GetSoftMaxFlashMinTmpSize"
_FLASH_MAX: Final = "GetSoftMaxFlashMaxTmpSize"
_FLASH_TILING: Final = "SoftMaxFlashTilingFunc"
_LOG_MIN: Final = "GetLogSoftMaxMinTmpSize"
_LOG_MAX: Final = "GetLogSoftMaxMaxTmpSize"
_LOG_TILING: Final = "LogSoftMaxTilingFunc"
_MAXIMA = frozenset({_SOFT_MAX_MAX, _FLASH_MAX, _LOG_MAX})

_ROW = RowCost(rows=1, datablocks=1, floats=LANES)
_UPDATE_ROW = RowCost(rows=2, datablocks=4, floats=0)
_LEAST_ROW = RowCost(rows=1, datablocks=1, floats=0)
"""What each row costs in a minimum where the whole input counts; the maximum there goes by _ROW."""

_KERNEL_FLOAT_ROW = RowCost(rows=0, datablocks=1, floats=LANES)
"""What the kernel's own tiling of SoftMax reserves for a row of float."""

_SOFT_MAX_WHOLE_INPUT_ARCHS = WHOLE_INPUT_ARCHS | {3003}

_RESULT_FLOATS = 8
"""Floats for each row, beside its K, in the sum that does not depend on e: one datablock of float."""


# --- the formulas, each once ---


def _call(function: str, kind: Kind, shape: Sequence[int], data_type_size: int, row: RowCost) -> Call:
    return new_call(function, kind, shape, (data_type_size, data_type_size), lambda _size, _m, _k: row)


def _row_by_row(call: Call) -> int:
    """Return floats: the cost of one row for a minimum, of all rows for a maximum."""
    return call.m * call.row_floats if call.function in _MAXIMA else call.row_floats


def _all_rows(call: Call) -> int:
    """Return floats where the whole input counts: every row, a minimum without the repeat of a maximum."""
    return call.u32(call.m * call.floats(_ROW if call.function in _MAXIMA else _LEAST_ROW))


def _whole_input(call: Call) -> int:
    """Return floats where the whole input counts: every row, or the sum that does not depend on e if that is more."""
    return max(call.u32(whole_input_floats(call.m, call.k, _RESULT_FLOATS)), _all_rows(call))


def soft_max_row_floats(k: int, data_type_size: int) -> int:
    """Return the temp floats that the tiling of SoftMax and LogSoftMax reserves for one row of k elements."""
    return _ROW.of(k, DATABLOCK_BYTES // data_type_size)


def soft_max_flash_row_floats(k: int, data_type_size: int, is_update: bool) -> int:
    """Return the temp floats that the tiling of SoftMaxFlash reserves for one row of k elements."""
    return _flash_row(is_update).of(k, DATABLOCK_BYTES // data_type_size)


# --- CANN's answer, never an exception ---


def cann_outcome_soft_max_tmp_size(
    function: SoftMaxTmpSizeFunction,
    shape: Sequence[int],
    data_type_size: int,
    npu_arch: int,
    *,
    is_reuse_source: bool = False,
) -> CannOutcome:
    """Return what CANN's temp-size function for SoftMax does with these arguments.

    Args:
        function: which of the two.
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        npu_arch: architecture number such as 2201.
        is_reuse_source: CANN ignores it, with a warning.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    call = _call(function, "size", shape, data_type_size, _ROW)
    stop = call.check((call.type_check(), call.reuse_check(is_reuse_source)), call.refusals())
    if stop is not None:
        return call.stopped(stop)
    return call.returned(_whole_input(call) if npu_arch in _SOFT_MAX_WHOLE_INPUT_ARCHS else _row_by_row(call))


def cann_outcome_soft_max_tiling(shape: Sequence[int], data_type_size: int, local_work_space_size: int) -> CannOutcome:
    """Return what CANN's tiling function for SoftMax does with these arguments.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        local_work_space_size: bytes of the temp buffer.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return _tiling(_call(_SOFT_MAX_TILING, "tiling", shape, data_type_size, _ROW), local_work_space_size)


def cann_outcome_soft_max_flash_tmp_size(
    function: SoftMaxFlashTmpSizeFunction,
    shape: Sequence[int],
    data_type_size: int,
    is_update: bool,
    npu_arch: int,
    *,
    is_reuse_source: bool = False,
) -> CannOutcome:
    """Return what CANN's temp-size function for SoftMaxFlash does with these arguments.

    Args:
        function: which of the two.
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        is_update: the call updates the max and sum of an earlier one.
        npu_arch: architecture number such as 2201.
        is_reuse_source: CANN ignores it, with a warning.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    call = _call(function, "size", shape, data_type_size, _flash_row(is_update))
    stop = call.check((call.type_check(), call.reuse_check(is_reuse_source)), call.refusals())
    if stop is not None:
        return call.stopped(stop)
    if npu_arch not in WHOLE_INPUT_ARCHS:
        return call.returned(_row_by_row(call))
    return call.returned(_all_rows(call) if is_update else _whole_input(call))


def cann_outcome_soft_max_flash_tiling(
    shape: Sequence[int], data_type_size: int, local_work_space_size: int, is_update: bool
) -> CannOutcome:
    """Return what CANN's tiling function for SoftMaxFlash does with these arguments.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        local_work_space_size: bytes of the temp buffer.
        is_update: the call updates the max and sum of an earlier one.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return _tiling(_call(_FLASH_TILING, "tiling", shape, data_type_size, _flash_row(is_update)), local_work_space_size)


def cann_outcome_log_soft_max_tmp_size(
    function: LogSoftMaxTmpSizeFunction,
    shape: Sequence[int],
    data_type_size: int,
    npu_arch: int,
    *,
    is_reuse_source: bool = False,
) -> CannOutcome:
    """Return what CANN's temp-size function for LogSoftMax does with these arguments.

    It logs what SoftMax's refuses, and computes on; only element size 0 gives 0.

    Args:
        function: which of the two.
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        npu_arch: architecture number such as 2201.
        is_reuse_source: CANN ignores it, with a warning.

    Source: asc-devkit 9.1.0, logsoftmax tiling (host).
    """
    call = _call(function, "size", shape, data_type_size, _ROW)
    stop = call.check((call.type_check(), call.reuse_check(is_reuse_source), call.no_elements_check()), ())
    if stop is not None:
        return call.stopped(stop)
    if call.data_type_size == 0:
        return call.returned(0)
    return call.returned(_whole_input(call) if npu_arch in WHOLE_INPUT_ARCHS else _row_by_row(call))


def cann_outcome_log_soft_max_tiling(
    shape: Sequence[int], data_type_size: int, local_work_space_size: int
) -> CannOutcome:
    """Return what CANN's tiling function for LogSoftMax does with these arguments: with no row in a tile it crashes.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        local_work_space_size: bytes of the temp buffer.

    Source: asc-devkit 9.1.0, logsoftmax tiling (host).
    """
    call = _call(_LOG_TILING, "tiling", shape, data_type_size, _ROW)
    logged = call.type_check(), call.workspace_check(local_work_space_size), call.no_elements_check()
    stop = call.check(logged, ())
    if stop is not None:
        return call.stopped(stop)
    if call.data_type_size == 0:
        return call.stopped("rejected")
    tiling = call.cut(call.m, host_rows, "by which it divides (undefined behaviour)")
    return call.stopped("crash_SIGFPE") if tiling is None or tiling.split_m == 0 else call.filled(tiling)


def _flash_row(is_update: bool) -> RowCost:
    return _UPDATE_ROW if is_update else _ROW


def _tiling(call: Call, local_work_space_size: int) -> CannOutcome:
    stop = call.check((call.type_check(), call.workspace_check(local_work_space_size)), call.refusals())
    return call.stopped(stop) if stop is not None else call.filled(call.cut(call.m, host_rows))


# --- CANN's functions ---


def get_soft_max_min_tmp_size(
    shape: Sequence[int], data_type_size: int, npu_arch: int, *, is_reuse_source: bool = False
) -> int:
    """Return the least temp bytes of SoftMax: one row, or something of every row on 3510, 5102 and 3003.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        npu_arch: architecture number such as 2201.
        is_reuse_source: CANN ignores it, with a warning.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return size_or_raise(
        cann_outcome_soft_max_tmp_size(_SOFT_MAX_MIN, shape, data_type_size, npu_arch, is_reuse_source=is_reuse_source)
    )


def get_soft_max_max_tmp_size(
    shape: Sequence[int], data_type_size: int, npu_arch: int, *, is_reuse_source: bool = False
) -> int:
    """Return CANN's largest temp bytes for SoftMax: the cost of all rows; 3510, 5102 and 3003 have a rule of their own.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        npu_arch: architecture number such as 2201.
        is_reuse_source: CANN ignores it, with a warning.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return size_or_raise(
        cann_outcome_soft_max_tmp_size(_SOFT_MAX_MAX, shape, data_type_size, npu_arch, is_reuse_source=is_reuse_source)
    )


def soft_max_tiling_func(shape: Sequence[int], data_type_size: int, local_work_space_size: int) -> SoftMaxTiling:
    """Return the host tiling of SoftMax, the same on every architecture.

    A workspace below one row gives split_m 0 and range_m 0 without a word, as in CANN with a fresh struct.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        local_work_space_size: bytes of the temp buffer.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return tiling_or_raise(cann_outcome_soft_max_tiling(shape, data_type_size, local_work_space_size))


def get_soft_max_flash_min_tmp_size(
    shape: Sequence[int], data_type_size: int, is_update: bool, npu_arch: int, *, is_reuse_source: bool = False
) -> int:
    """Return the least temp bytes of SoftMaxFlash: one row, or something of every row on 3510 and 5102.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        is_update: the call updates the max and sum of an earlier one.
        npu_arch: architecture number such as 2201.
        is_reuse_source: CANN ignores it, with a warning.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return size_or_raise(
        cann_outcome_soft_max_flash_tmp_size(
            _FLASH_MIN, shape, data_type_size, is_update, npu_arch, is_reuse_source=is_reuse_source
        )
    )


def get_soft_max_flash_max_tmp_size(
    shape: Sequence[int], data_type_size: int, is_update: bool, npu_arch: int, *, is_reuse_source: bool = False
) -> int:
    """Return CANN's largest temp bytes for SoftMaxFlash: the cost of all rows; 3510 and 5102 have a rule of their own.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        is_update: the call updates the max and sum of an earlier one.
        npu_arch: architecture number such as 2201.
        is_reuse_source: CANN ignores it, with a warning.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return size_or_raise(
        cann_outcome_soft_max_flash_tmp_size(
            _FLASH_MAX, shape, data_type_size, is_update, npu_arch, is_reuse_source=is_reuse_source
        )
    )


def soft_max_kernel_tiling(
    shape: tuple[int, int],
    ori_src_m: int,
    data_type_size: int,
    sum_type_size: int,
    work_local_count: int,
    *,
    is_basic_block: bool = False,
) -> SoftMaxTiling:
    """Return the tiling that SimpleSoftMax's kernel makes itself when the struct's src_m or src_k is not the tensor's.

    Unlike the host, it cuts only the rows that are data, and reserves no row of temp for a row of float.

    Args:
        shape: rows, and elements of one row.
        ori_src_m: rows that are data.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        sum_type_size: bytes of an element of max and sum.
        work_local_count: floats of the temp tensor.
        is_basic_block: the kernel's template flag.

    Raises:
        SoftMaxInputError: the tile height is 0, which the kernel asserts on (debug) or divides by (release).

    Source: asc-devkit, softmax_tiling_func (kernel), read, not run.
    """
    row = _ROW if data_type_size == HALF.bytes else _KERNEL_FLOAT_ROW
    call = new_call(_SOFT_MAX_KERNEL_TILING, "kernel", shape, (data_type_size, sum_type_size), lambda _s, _m, _k: row)
    call.work_bytes = FLOAT.bytes * call.u32(work_local_count)

    def rows(u32: Uint32, fit: int, m: int, k: int) -> int:
        height = basic_block_rows(u32, fit, m, k) if is_basic_block else fit
        return min(whole_groups(height, ori_src_m), ori_src_m)

    tiling = call.cut(call.m, rows)
    if tiling is None or tiling.split_m == 0:
        return tiling_or_raise(call.filled(None) if tiling is None else call.asserted(tiling))
    full, tail = divmod(ori_src_m, tiling.split_m)
    sizes = {"tail_split_size": tail * tiling.split_k, "tail_reduce_size": tail * tiling.reduce_k}
    return tiling_or_raise(call.filled(replace(tiling, range_m=full, tail_m=tail, **sizes)))


def soft_max_flash_tiling_func(
    shape: Sequence[int], data_type_size: int, local_work_space_size: int, is_update: bool
) -> SoftMaxTiling:
    """Return the host tiling of SoftMaxFlash, the same on every architecture.

    A workspace below one row gives split_m 0 and range_m 0 without a word, as in CANN with a fresh struct.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        local_work_space_size: bytes of the temp buffer.
        is_update: the call updates the max and sum of an earlier one.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return tiling_or_raise(cann_outcome_soft_max_flash_tiling(shape, data_type_size, local_work_space_size, is_update))


def get_log_soft_max_min_tmp_size(
    shape: Sequence[int], data_type_size: int, npu_arch: int, *, is_reuse_source: bool = False
) -> int:
    """Return the least temp bytes of LogSoftMax: one row, or something of every row on 3510 and 5102.

    CANN computes a number also for element sizes other than 2 and 4, which `.cann` of the exception holds.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        npu_arch: architecture number such as 2201.
        is_reuse_source: CANN ignores it, with a warning.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, logsoftmax tiling (host).
    """
    return size_or_raise(
        cann_outcome_log_soft_max_tmp_size(_LOG_MIN, shape, data_type_size, npu_arch, is_reuse_source=is_reuse_source)
    )


def get_log_soft_max_max_tmp_size(
    shape: Sequence[int], data_type_size: int, npu_arch: int, *, is_reuse_source: bool = False
) -> int:
    """Return CANN's largest temp bytes for LogSoftMax: the cost of all rows; 3510 and 5102 have a rule of their own.

    CANN computes a number also for element sizes other than 2 and 4, which `.cann` of the exception holds.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        npu_arch: architecture number such as 2201.
        is_reuse_source: CANN ignores it, with a warning.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, logsoftmax tiling (host).
    """
    return size_or_raise(
        cann_outcome_log_soft_max_tmp_size(_LOG_MAX, shape, data_type_size, npu_arch, is_reuse_source=is_reuse_source)
    )


def log_soft_max_tiling_func(shape: Sequence[int], data_type_size: int, local_work_space_size: int) -> SoftMaxTiling:
    """Return the host tiling of LogSoftMax, the same on every architecture.

    A workspace below one row makes CANN divide by zero; so does a tile that is halved until no row is left.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        local_work_space_size: bytes of the temp buffer.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, logsoftmax tiling (host).
    """
    return tiling_or_raise(cann_outcome_log_soft_max_tiling(shape, data_type_size, local_work_space_size))
