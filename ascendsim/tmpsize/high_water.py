"""How much of its temp SoftmaxGrad really touches, as a closed formula, against what its tiling reserves.

A tile of b = split_m rows of K elements lies in the temp as regions one behind the other (docs/softmax-grad.md, Temp);
all tiles use the same place. With S = b * K and Q = b * e, e the elements of one datablock of the data, in floats:
what stands below each formula is the highest float that an instruction reads or writes.
Source: asc-devkit 9.1.0, SoftmaxGrad kernels; equal to every run in tests/golden/softmaxgrad_tmp_highwater.csv.
"""

from enum import Enum

from ascendsim.dtypes import FLOAT, HALF, DType
from ascendsim.op_host.softmax import SoftMaxTiling, row_cost_floats
from ascendsim.op_host.softmax_tiles import LANES, ROW_GROUP
from ascendsim.terms import NZ_COLUMNS, DataFormat, align_up


class Unit(Enum):
    """The kinds of vector unit that SoftmaxGrad has a sequence of instructions for."""

    DATABLOCK_SUMS = "on memory, sums by datablocks"
    REPEAT_SUMS = "on memory, sums by repeats"
    REGISTER = "through registers"
    VECTOR_FUNCTION = "vector functions"


_UNITS = {2201: Unit.DATABLOCK_SUMS, 2002: Unit.REPEAT_SUMS, 3002: Unit.REGISTER}


def unit_of(npu_arch: int) -> Unit:
    """Return which sequence an architecture that has SoftmaxGrad runs.

    Source: asc-devkit 9.1.0, softmax_grad_base_impl.
    """
    return _UNITS.get(npu_arch, Unit.VECTOR_FUNCTION)


def reserved_bytes(tiling: SoftMaxTiling, element: DType, is_front: bool) -> int:
    """Return what the tiling reserves for its tile: split_m times the cost of a row."""
    return FLOAT.bytes * tiling.split_m * row_cost_floats(tiling.split_k, element.bytes, is_front)


def touched_bytes(
    tiling: SoftMaxTiling,
    element: DType,
    npu_arch: int,
    *,
    is_front: bool = False,
    data_format: DataFormat = DataFormat.ND,
    is_basic_block: bool = False,
) -> int:
    """Return the highest temp byte that a call touches, plus one. All columns are data.

    Args:
        tiling: that the kernel works with; with split_m 0 a unit that looks at it does nothing.
        element: of the data, half or float.
        npu_arch: architecture number that has SoftmaxGrad.
        is_front: SoftmaxGrad with isFront, or SoftmaxGradFront.
        data_format: ND or NZ.
        is_basic_block: SoftmaxGradFront with basic block, in ND.
    """
    unit = unit_of(npu_arch)
    is_nz = data_format is DataFormat.NZ
    if unit is Unit.VECTOR_FUNCTION:  # the split is not looked at
        return FLOAT.bytes * align_up(2 * tiling.src_m, 2 * LANES) if is_nz else 0
    if tiling.split_m == 0:
        return 0
    if unit is Unit.REGISTER:
        floats = _register(tiling, element, is_front)
    elif is_nz:
        floats = _nz(tiling, element, is_front)
    elif is_basic_block:
        floats = _basic_block(tiling, element, unit)
    else:
        floats = _nd(tiling, element, unit, is_front)
    return FLOAT.bytes * floats


def _nd(tiling: SoftMaxTiling, element: DType, unit: Unit, is_front: bool) -> int:
    """Src and grad as floats (half only), product, scratch for the sums, sums (float front: they go to dst)."""
    if element is HALF:
        return 3 * tiling.split_size + 2 * tiling.reduce_size
    if not is_front:
        return tiling.split_size + 2 * tiling.reduce_size
    return tiling.split_size + (tiling.reduce_size if _has_scratch(tiling, unit) else 0)


def _has_scratch(tiling: SoftMaxTiling, unit: Unit) -> bool:
    """Sums by repeats need a place beside dst only where a row has more than one repeat."""
    return unit is not Unit.REPEAT_SUMS or tiling.split_k > LANES


def _basic_block(tiling: SoftMaxTiling, element: DType, unit: Unit) -> int:
    """As ND without the scratch, sums as single floats in whole datablocks; rows that fill no tile take ND's steps."""
    is_half = element is HALF
    sums = (3 if is_half else 1) * tiling.split_size
    tail = 0
    if tiling.tail_m and is_half:
        tail = sums + tiling.reduce_size + tiling.tail_reduce_size
    elif tiling.tail_m:
        tail = sums + (tiling.tail_reduce_size if _has_scratch(tiling, unit) else 0)
    return max(sums + align_up(tiling.split_m, ROW_GROUP), tail)


def _nz(tiling: SoftMaxTiling, element: DType, is_front: bool) -> int:
    """Src (front: then the product) and grad as floats (half only), product, sums as rows of a slab."""
    regions = (2 if is_front else 3) if element is HALF else 1
    return regions * tiling.split_size + NZ_COLUMNS * tiling.split_m


def _register(tiling: SoftMaxTiling, element: DType, is_front: bool) -> int:
    """As ND, the scratch last and of a repeat a row (short rows: a datablock); half front has it where src was."""
    size, sums = tiling.split_size, tiling.reduce_size
    is_long = tiling.split_k > LANES
    scratch = LANES * tiling.split_m if is_long else ROW_GROUP * align_up(tiling.split_m, ROW_GROUP)
    if element is HALF:
        return 3 * size + 2 * sums if is_front else 3 * size + sums + scratch
    return size + scratch + (0 if is_front else sums)
