"""SoftMaxFlashV3 on the host: temp-buffer bytes and tiling. Numbers equal CANN's.

M is the product of all axes but the last [rows], K the last axis [elements], e the elements of one datablock of max and
sum. The data is half, max and sum are float; CANN refuses other data and only logs another size of max and sum.

CANN computes in uint32 and wraps without a word; so does this module, and `CannOutcome.wrapped` tells. What raises and
what does not: see `ascendsim.op_host.softmax`.

Source: asc-devkit 9.1.0, softmax tiling (host).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ascendsim.dtypes import FLOAT, HALF
from ascendsim.op_host.softmax_call import Call, Check, Remark, new_call
from ascendsim.op_host.softmax_outcome import (
    TAIL_FIELDS,
    CannOutcome,
    Kind,
    SoftMaxInputError,
    SoftMaxTiling,
    tiling_or_raise,
)
from ascendsim.op_host.softmax_tiles import LANES, WHOLE_INPUT_ARCHS, RowCost, Uint32, whole_groups
from ascendsim.terms import DATABLOCK_BYTES

_SIZES: Final = "GetSoftMaxFlashV3MaxMinTmpSize"
_TILING: Final = "SoftMaxFlashV3TilingFunc"

_ROW = RowCost(rows=2, datablocks=5, floats=LANES)
_WHOLE_INPUT_ROW = RowCost(rows=1, datablocks=0, floats=LANES)
_WHOLE_INPUT_UPDATE_ROW = RowCost(rows=1, datablocks=1, floats=LANES)

_TYPE_SIZE = Remark(
    "element size is not 2 (logged)", "element size {size} is not supported; use 2 (half)", "E_TYPE_SIZE"
)
_SUM_TYPE_SIZE = Remark(
    "element size of max and sum is not 4 (logged)",
    "element size {sum_size} of max and sum is not supported; use 4 (float)",
    "E_SUM_TYPE_SIZE",
)
_DTYPE_REJECT = Remark("call refused because the element size is not 2", code="E_DTYPE_REJECT")
_SUM_DTYPE_REJECT = Remark("call refused because the element size of max and sum is 0", code="E_SUM_DTYPE_REJECT")


class MaxMinTmpSize(NamedTuple):
    """The two temp sizes in CANN's order [bytes]."""

    max_value: int
    min_value: int


def _call(function: str, kind: Kind, shape: Sequence[int], sizes: tuple[int, int]) -> Call:
    return new_call(function, kind, shape, sizes, lambda _size, _m, _k: _ROW)


def _type_checks(call: Call) -> tuple[Check, Check]:
    return (
        call.type_check(_TYPE_SIZE, frozenset({HALF.bytes})),
        call.sum_type_check(_SUM_TYPE_SIZE, frozenset({FLOAT.bytes})),
    )


def _refusals(call: Call) -> tuple[Check, Check]:
    return (_DTYPE_REJECT, call.data_type_size != HALF.bytes), (_SUM_DTYPE_REJECT, call.sum_type_size == 0)


def soft_max_flash_v3_row_floats(k: int, data_type_size2: int) -> int:
    """Return the temp floats that the tiling of SoftMaxFlashV3 reserves for one row of k elements."""
    return _ROW.of(k, DATABLOCK_BYTES // data_type_size2)


# --- CANN's answer, never an exception ---


def cann_outcome_soft_max_flash_v3_tmp_size(
    shape: Sequence[int], data_type_size1: int, data_type_size2: int, is_update: bool, npu_arch: int
) -> CannOutcome:
    """Return what CANN's temp-size function for SoftMaxFlashV3 does with these arguments; isBasicBlock changes nothing.

    Args:
        shape: axes [elements]; -1 and -2 are the graph engine's "known at run time".
        data_type_size1: bytes of an element of the data.
        data_type_size2: bytes of an element of max and sum.
        is_update: the call updates the max and sum of an earlier one.
        npu_arch: 2201, 3510, ...; a number without a rule of its own takes the common one.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    call = _call(_SIZES, "max_min", shape, (data_type_size1, data_type_size2))
    stop = call.check((*_type_checks(call), call.no_elements_check()), _refusals(call))
    if stop is not None:
        return call.stopped(stop)
    if npu_arch not in WHOLE_INPUT_ARCHS:
        return call.gave(call.m * call.row_floats, call.row_floats)
    floats = call.m * call.floats(_WHOLE_INPUT_UPDATE_ROW if is_update else _WHOLE_INPUT_ROW)
    return call.gave(floats, floats)


def cann_outcome_soft_max_flash_v3_tiling(
    shape: Sequence[int], data_type_size1: int, data_type_size2: int, local_work_space_size: int
) -> CannOutcome:
    """Return what CANN's tiling function for SoftMaxFlashV3 does with these arguments; its flags change nothing.

    Args:
        shape: axes [elements].
        data_type_size1: bytes of an element of the data.
        data_type_size2: bytes of an element of max and sum.
        local_work_space_size: bytes of the temp buffer.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    call = _call(_TILING, "tiling", shape, (data_type_size1, data_type_size2))
    call.kept_without_tile = TAIL_FIELDS
    logged = *_type_checks(call), call.workspace_check(local_work_space_size), call.no_elements_check()
    stop = call.check(logged, _refusals(call))
    if stop is not None:
        return call.stopped(stop)
    return call.filled(call.cut(call.m, _tile_rows, "rangeM and the tail not written"))


def _tile_rows(_u32: Uint32, fit: int, m: int, _k: int) -> int:
    return whole_groups(fit, m)


# --- CANN's functions ---


def get_soft_max_flash_v3_max_min_tmp_size(
    shape: Sequence[int],
    data_type_size1: int,
    data_type_size2: int,
    is_update: bool,
    npu_arch: int,
    *,
    is_basic_block: bool = False,  # noqa: ARG001 - CANN takes it and does not look at it
) -> MaxMinTmpSize:
    """Return the largest and the least temp bytes of SoftMaxFlashV3: all rows, and one; the same on 3510 and 5102.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size1: bytes of an element of the data, 2 (half).
        data_type_size2: bytes of an element of max and sum, 4 (float).
        is_update: the call updates the max and sum of an earlier one; only 3510 and 5102 look at it.
        npu_arch: architecture number such as 2201.
        is_basic_block: CANN ignores it.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    outcome = cann_outcome_soft_max_flash_v3_tmp_size(shape, data_type_size1, data_type_size2, is_update, npu_arch)
    if outcome.is_error or outcome.max_min_bytes is None:
        raise SoftMaxInputError(outcome.problem, outcome)
    return MaxMinTmpSize(*outcome.max_min_bytes)


def soft_max_flash_v3_tiling_func(
    shape: Sequence[int],
    data_type_size1: int,
    data_type_size2: int,
    local_work_space_size: int,
    is_update: bool,  # noqa: ARG001 - CANN takes it and does not look at it
    *,
    is_basic_block: bool = False,  # noqa: ARG001 - as is_update
) -> SoftMaxTiling:
    """Return the host tiling of SoftMaxFlashV3, the same on every architecture: no basic blocks.

    A workspace below one row gives split_m 0 and no tail without a word, as in CANN with a fresh struct.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size1: bytes of an element of the data, 2 (half).
        data_type_size2: bytes of an element of max and sum, 4 (float).
        local_work_space_size: bytes of the temp buffer.
        is_update: CANN ignores it here.
        is_basic_block: CANN ignores it.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return tiling_or_raise(
        cann_outcome_soft_max_flash_v3_tiling(shape, data_type_size1, data_type_size2, local_work_space_size)
    )
