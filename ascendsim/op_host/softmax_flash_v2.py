"""SoftMaxFlashV2 on the host: temp-buffer bytes and tiling. Numbers equal CANN's.

M is the product of all axes but the last [rows], K the last axis [elements], e the elements of one datablock of max and
sum. The functions take two element sizes: of the data, and of max and sum.

CANN computes in uint32 and wraps without a word; so does this module, and `CannOutcome.wrapped` tells. What raises and
what does not: see `ascendsim.op_host.softmax`.

Source: asc-devkit 9.1.0, softmax tiling (host).
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, Literal

from ascendsim.dtypes import FLOAT, HALF
from ascendsim.op_host.softmax_call import ELEMENT_BYTES, Call, Check, Remark, new_call
from ascendsim.op_host.softmax_outcome import CannOutcome, Kind, SoftMaxTiling, size_or_raise, tiling_or_raise
from ascendsim.op_host.softmax_tiles import (
    LANES,
    ROW_GROUP,
    WHOLE_INPUT_ARCHS,
    RowCost,
    Uint32,
    basic_block_rows,
    row_sum_floats,
    rows_in_halved_tile,
    whole_groups,
    whole_input_floats,
)
from ascendsim.terms import DATABLOCK_BYTES

SoftMaxFlashV2TmpSizeFunction = Literal["GetSoftMaxFlashV2MinTmpSize", "GetSoftMaxFlashV2MaxTmpSize"]

_MIN: Final = "GetSoftMaxFlashV2MinTmpSize"
_MAX: Final = "GetSoftMaxFlashV2MaxTmpSize"
_TILING: Final = "SoftMaxFlashV2TilingFunc"

_TWO_REPEATS_K = 1024
"""With this K a basic-block row reserves a second repeat."""

_ROWS_OF_UPDATE_MINIMUM = 2
"""Up to this many rows an updating call on WHOLE_INPUT_ARCHS has a maximum equal to its minimum."""

_SUM_DTYPE_REJECT = Remark(
    "call refused because the element size of max and sum is not 2 or 4", code="E_SUM_DTYPE_REJECT"
)


# --- the formulas, each once ---


def _plain_row(size: int) -> RowCost:
    """Return a row's cost without basic blocks; half data adds the row itself."""
    if size == HALF.bytes:
        return RowCost(rows=1, datablocks=2, floats=LANES)
    return RowCost(rows=0, datablocks=1, floats=LANES)


def _basic_block_row(size: int, repeats: int) -> RowCost:
    """Return a row's cost with basic blocks."""
    return RowCost(rows=1 if size == HALF.bytes else 0, datablocks=1, floats=repeats * LANES)


def _repeats(k: int) -> int:
    return 2 if k == _TWO_REPEATS_K else 1


def _is_whole_blocks(m: int, k: int) -> bool:
    return k % LANES == 0 and m % ROW_GROUP == 0


def soft_max_flash_v2_row_floats(
    m: int, k: int, data_type_size1: int, data_type_size2: int, *, is_basic_block: bool = False
) -> int:
    """Return the temp floats that the tiling of SoftMaxFlashV2 reserves for one of m rows of k elements."""
    return _row(is_basic_block, data_type_size1, m, k).of(k, DATABLOCK_BYTES // data_type_size2)


def _row(is_basic_block: bool, size: int, m: int, k: int) -> RowCost:
    is_basic = is_basic_block and _is_whole_blocks(m, k)
    return _basic_block_row(size, _repeats(k)) if is_basic else _plain_row(size)


def _update_row(size: int, sum_size: int) -> RowCost:
    """Return what each row costs, beside the row sums, in the minimum of an updating call on WHOLE_INPUT_ARCHS."""
    if size == FLOAT.bytes:
        return RowCost(rows=0, datablocks=2, floats=0)
    return RowCost(rows=1, datablocks=2 if sum_size == HALF.bytes else 3, floats=0)


def _least_update_floats(call: Call) -> int:
    size = call.data_type_size
    return row_sum_floats(call.m, size == FLOAT.bytes) + call.m * call.floats(_update_row(size, call.sum_type_size))


def _most_update_floats(call: Call, is_basic_block: bool) -> int:
    if call.m <= _ROWS_OF_UPDATE_MINIMUM:
        return _least_update_floats(call)
    if is_basic_block and _is_whole_blocks(call.m, call.k):
        return call.m * call.floats(_basic_block_row(call.data_type_size, 1))
    return call.m * call.floats(_plain_row(call.data_type_size))


def _whole_input_floats(call: Call, per_row: int, row: RowCost) -> int:
    """Return the larger of two sums over every row."""
    return max(call.u32(whole_input_floats(call.m, call.k, per_row)), call.u32(call.m * call.floats(row)))


def _min_floats(call: Call, is_basic_block: bool, is_flash_output_brc: bool) -> int:
    """Return the floats of the least temp: one row, a group for basic blocks or with is_flash_output_brc."""
    rows_of_group = min(DATABLOCK_BYTES // call.data_type_size, call.m)
    if not (is_basic_block and call.k % LANES == 0):
        row = call.floats(_plain_row(call.data_type_size))
        return row * (rows_of_group if is_flash_output_brc else 1)
    group = call.u32(ROW_GROUP * call.floats(_basic_block_row(call.data_type_size, _repeats(call.k))))
    return group // ROW_GROUP * rows_of_group if is_flash_output_brc else group


def _max_floats(call: Call, is_basic_block: bool) -> int:
    """Return the floats of all rows, for basic blocks of as many as a tile may have."""
    m, k, size = call.m, call.k, call.data_type_size
    if is_basic_block and _is_whole_blocks(m, k):
        return rows_in_halved_tile(call.u32, m, k) * call.floats(_basic_block_row(size, _repeats(k)))
    return m * call.floats(_plain_row(size))


# --- CANN's answer, never an exception ---


def _call(function: str, kind: Kind, shape: Sequence[int], sizes: tuple[int, int], is_basic_block: bool) -> Call:
    return new_call(function, kind, shape, sizes, partial(_row, is_basic_block))


def _refusals(call: Call) -> tuple[Check, ...]:
    return *call.refusals(), (_SUM_DTYPE_REJECT, call.sum_type_size not in ELEMENT_BYTES)


def cann_outcome_soft_max_flash_v2_tmp_size(
    function: SoftMaxFlashV2TmpSizeFunction,
    shape: Sequence[int],
    data_type_size1: int,
    data_type_size2: int,
    is_update: bool,
    npu_arch: int,
    *,
    is_basic_block: bool = False,
    is_flash_output_brc: bool = False,
) -> CannOutcome:
    """Return what CANN's temp-size function for SoftMaxFlashV2 does with these arguments.

    Args:
        function: which of the two.
        shape: axes [elements]; -1 and -2 are the graph engine's "known at run time".
        data_type_size1: bytes of an element of the data.
        data_type_size2: bytes of an element of max and sum.
        is_update: the call updates the max and sum of an earlier one.
        npu_arch: 2201, 3510, ...; a number without a rule of its own takes the common one.
        is_basic_block: the kernel's basic-block form.
        is_flash_output_brc: row results are not broadcast, they are [m, 1]; only the minimum looks at it.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    call = _call(function, "size", shape, (data_type_size1, data_type_size2), is_basic_block)
    stop = call.check((call.type_check(), call.sum_type_check()), _refusals(call))
    if stop is not None:
        return call.stopped(stop)
    is_least = function == _MIN
    if npu_arch not in WHOLE_INPUT_ARCHS:
        least = _min_floats(call, is_basic_block, is_flash_output_brc)
        return call.returned(least if is_least else _max_floats(call, is_basic_block))
    if is_update:
        return call.returned(_least_update_floats(call) if is_least else _most_update_floats(call, is_basic_block))
    if is_least:
        return call.returned(_whole_input_floats(call, 4 if is_basic_block else 8, RowCost(1, 1, 0)))
    return call.returned(_whole_input_floats(call, 8, RowCost(1, 1, LANES)))


def cann_outcome_soft_max_flash_v2_tiling(
    shape: Sequence[int],
    data_type_size1: int,
    data_type_size2: int,
    local_work_space_size: int,
    *,
    is_basic_block: bool = False,
    is_flash_output_brc: bool = False,
) -> CannOutcome:
    """Return what CANN's tiling function for SoftMaxFlashV2 does with these arguments; is_update changes nothing.

    Args:
        shape: axes [elements].
        data_type_size1: bytes of an element of the data.
        data_type_size2: bytes of an element of max and sum.
        local_work_space_size: bytes of the temp buffer.
        is_basic_block: the kernel's basic-block form.
        is_flash_output_brc: row results are not broadcast, they are [m, 1].

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    call = _call(_TILING, "tiling", shape, (data_type_size1, data_type_size2), is_basic_block)
    logged = call.type_check(), call.sum_type_check(), call.workspace_check(local_work_space_size)
    stop = call.check(logged, _refusals(call))
    if stop is not None:
        return call.stopped(stop)
    rows_of_group = DATABLOCK_BYTES // call.data_type_size
    group = rows_of_group if is_flash_output_brc else ROW_GROUP

    def tile_rows(u32: Uint32, fit: int, m: int, k: int) -> int:
        is_basic = is_basic_block and _is_whole_blocks(m, k)
        return whole_groups(basic_block_rows(u32, fit, m, k) if is_basic else fit, m, group)

    tiling = call.cut(call.m, tile_rows)
    if is_flash_output_brc and tiling is not None and not _is_whole_groups(tiling, rows_of_group):
        call.remarks.append(_brc_misaligned(tiling.split_m, rows_of_group))
    return call.filled(tiling)


def _is_whole_groups(tiling: SoftMaxTiling, rows: int) -> bool:
    """Return whether one tile holds all rows, or each full tile a multiple of `rows`."""
    return (tiling.range_m <= 1 and tiling.tail_m == 0) or tiling.reduce_m % rows == 0


def _brc_misaligned(split_m: int, rows: int) -> Remark:
    return Remark(
        f"a tile of {split_m} rows is no multiple of {rows} with is_flash_output_brc (logged with the struct filled)",
        f"with is_flash_output_brc a tile of {split_m} rows must be a multiple of {rows} or hold all rows;"
        " choose another local_work_space_size",
        "E_BRC_REDUCE_M",
    )


# --- CANN's functions ---


def get_soft_max_flash_v2_min_tmp_size(
    shape: Sequence[int],
    data_type_size1: int,
    data_type_size2: int,
    is_update: bool,
    npu_arch: int,
    *,
    is_basic_block: bool = False,
    is_flash_output_brc: bool = False,
) -> int:
    """Return the least temp bytes of SoftMaxFlashV2: one row or one group of rows; on 3510 and 5102 every row.

    With basic blocks it counts 8 rows (16 for half data with broadcast output) even where a tile may not have that
    many, so it can be above the maximum.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size1: bytes of an element of the data, 2 (half) or 4 (float).
        data_type_size2: bytes of an element of max and sum, 2 (half) or 4 (float).
        is_update: the call updates the max and sum of an earlier one; only 3510 and 5102 look at it.
        npu_arch: architecture number such as 2201.
        is_basic_block: the kernel's basic-block form.
        is_flash_output_brc: the output is broadcast; 3510 and 5102 ignore it.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return size_or_raise(
        cann_outcome_soft_max_flash_v2_tmp_size(
            _MIN,
            shape,
            data_type_size1,
            data_type_size2,
            is_update,
            npu_arch,
            is_basic_block=is_basic_block,
            is_flash_output_brc=is_flash_output_brc,
        )
    )


def get_soft_max_flash_v2_max_tmp_size(
    shape: Sequence[int],
    data_type_size1: int,
    data_type_size2: int,
    is_update: bool,
    npu_arch: int,
    *,
    is_basic_block: bool = False,
    is_flash_output_brc: bool = False,
) -> int:
    """Return CANN's largest temp bytes for SoftMaxFlashV2: the cost of all rows.

    Rows of basic blocks (M a multiple of 8, K of 64) are halved until they hold less than 16384 elements: 0 bytes for a
    K of 16384 or more, and often less than the minimum. 3510 and 5102 do not halve.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size1: bytes of an element of the data, 2 (half) or 4 (float).
        data_type_size2: bytes of an element of max and sum, 2 (half) or 4 (float).
        is_update: the call updates the max and sum of an earlier one; only 3510 and 5102 look at it.
        npu_arch: architecture number such as 2201.
        is_basic_block: the kernel's basic-block form.
        is_flash_output_brc: CANN ignores it here.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return size_or_raise(
        cann_outcome_soft_max_flash_v2_tmp_size(
            _MAX,
            shape,
            data_type_size1,
            data_type_size2,
            is_update,
            npu_arch,
            is_basic_block=is_basic_block,
            is_flash_output_brc=is_flash_output_brc,
        )
    )


def soft_max_flash_v2_tiling_func(
    shape: Sequence[int],
    data_type_size1: int,
    data_type_size2: int,
    local_work_space_size: int,
    is_update: bool,  # noqa: ARG001 - CANN takes it and does not look at it
    *,
    is_basic_block: bool = False,
    is_flash_output_brc: bool = False,
) -> SoftMaxTiling:
    """Return the host tiling of SoftMaxFlashV2, the same on every architecture.

    A workspace below one row gives split_m 0 and range_m 0 without a word, as in CANN with a fresh struct. With
    is_flash_output_brc CANN logs an error when there are tiles that are no multiple of 8 rows (float data) or 16
    (half), but fills the struct: `.cann.tiling` of the exception.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size1: bytes of an element of the data, 2 (half) or 4 (float).
        data_type_size2: bytes of an element of max and sum, 2 (half) or 4 (float).
        local_work_space_size: bytes of the temp buffer.
        is_update: CANN ignores it here.
        is_basic_block: the kernel's basic-block form.
        is_flash_output_brc: row results are not broadcast, they are [m, 1].

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return tiling_or_raise(
        cann_outcome_soft_max_flash_v2_tiling(
            shape,
            data_type_size1,
            data_type_size2,
            local_work_space_size,
            is_basic_block=is_basic_block,
            is_flash_output_brc=is_flash_output_brc,
        )
    )
