"""SoftmaxGrad as vector functions, for devices that have them (arch 3510): everything happens in registers.

ND: one function; row by row, a register sums the products of 64 columns at a time, then the columns are read again. No
temp, and the tiling's split is not looked at. Columns that are no data are masked, rows that are none not touched.

NZ [k / 16, m, 16]: 64 lanes are four rows of one slab. Sums of half rows go into the temp, two floats a row; the halves
are added in place; then comes the rest. Temp in floats: 2 * src_m, read and written 128 at a time.
Sources: asc-devkit docs, SoftmaxGrad page; micro-operations observed from the real library (docs/provenance.md).
"""

from collections.abc import Iterator

from ascendsim.dtypes import FLOAT, HALF
from ascendsim.isa.micro import ALL_LANES, LoadDist, MaskReg, RegTensor, StoreDist, VectorFunction
from ascendsim.memory import LocalTensor
from ascendsim.op_kernel.softmax_grad_call import LANES, Call, E
from ascendsim.record import AiCore
from ascendsim.terms import NZ_COLUMNS, ceil_div

GROUP_ROWS = LANES // NZ_COLUMNS
"""Rows of one slab in a register of floats."""
GROUP_SUMS = 2 * GROUP_ROWS
"""Half-row sums of such a group."""


def softmax_grad_vector_function(asc: AiCore, call: Call) -> None:
    """SoftmaxGrad or SoftmaxGradFront in ND: rows 0 .. ori_m, columns 0 .. ori_k."""
    k = call.tiling.src_k
    with asc.vector_function() as vf:
        for row in vf.loop(call.ori_m):
            grad, src = call.grad[row * k], call.src[row * k]
            total = _row_sum(asc, vf, grad, src, call.ori_k)
            if call.is_front:
                with asc.trace("broadcast"):
                    block = vf.update_mask(call.dst.dtype.per_datablock)
                    _store(vf, call.dst[row * call.dst.dtype.per_datablock], vf.duplicate_lane0(total, block), block)
                continue
            with asc.trace("broadcast"):
                row_sum = vf.duplicate_lane0(total)
            for first in _steps(vf, call.ori_k, LANES):
                mask = vf.update_mask(min(LANES, call.ori_k - first))
                src32, grad32 = _load(vf, src[first]), _load(vf, grad[first])
                _rest(asc, vf, call.dst[row * k + first], (grad32, src32, row_sum), mask)


def _steps(vf: VectorFunction, end: int, step: int) -> Iterator[int]:
    """0, step, 2 step, ... below `end`, as a loop."""
    return (i * step for i in vf.loop(ceil_div(end, step)))


def _row_sum(asc: AiCore, vf: VectorFunction, grad: LocalTensor, src: LocalTensor, columns: int) -> RegTensor:
    """Lane 0: the sum of grad * src over the columns, 64 sums side by side first."""
    total = vf.duplicate(0.0)
    for first in _steps(vf, columns, LANES):
        mask = vf.update_mask(min(LANES, columns - first))
        with asc.trace("mul"):
            product = vf.mul(_load(vf, src[first]), _load(vf, grad[first]), mask)
        with asc.trace("reducesum"):
            total = vf.add(total, product)
    with asc.trace("reducesum"):
        return vf.reduce_sum(total)


def _rest(
    asc: AiCore, vf: VectorFunction, dst: LocalTensor, values: tuple[RegTensor, RegTensor, RegTensor], mask: MaskReg
) -> None:
    """Dst = (grad - row_sum) * src on the active lanes, of values (grad, src, row_sum)."""
    grad, src, row_sum = values
    with asc.trace("sub"):
        difference = vf.sub(grad, row_sum, mask)
    with asc.trace("mul by src"):
        _store(vf, dst, vf.mul(difference, src, mask), mask)


def _load(vf: VectorFunction, src: LocalTensor) -> RegTensor:
    """64 elements as floats."""
    if src.dtype is HALF:
        return vf.cast(vf.load_align(src, LoadDist.UNPACK_B16), FLOAT)
    return vf.load_align(src)


def _store(vf: VectorFunction, dst: LocalTensor, value: RegTensor, mask: MaskReg) -> None:
    """Floats in dst's type."""
    if dst.dtype is HALF:
        vf.store_align(dst, vf.cast(value, HALF, mask), mask, StoreDist.PACK_B32)
    else:
        vf.store_align(dst, value, mask)


def softmax_grad_vector_function_nz(asc: AiCore, call: Call) -> None:
    """SoftmaxGrad or SoftmaxGradFront in NZ; of the last slab only ori_k % 16 columns count where k is padded."""
    last_slab = ALL_LANES
    if call.ori_k != call.tiling.src_k:
        columns = (1 << call.ori_k % NZ_COLUMNS) - 1
        asc.set_vector_mask(0, sum(columns << NZ_COLUMNS * row for row in range(GROUP_ROWS)))
    with asc.vector_function() as vf:
        if call.ori_k != call.tiling.src_k:
            last_slab = vf.move_mask()
        _half_row_sums(asc, vf, call, last_slab)
        vf.local_mem_bar()
        _add_halves(asc, vf, call)
        vf.local_mem_bar()
        if call.is_front:
            _spread_sums(asc, vf, call)
        else:
            _rest_nz(asc, vf, call, last_slab)


def _half_row_sums(asc: AiCore, vf: VectorFunction, call: Call, last_slab: MaskReg) -> None:
    """tmp[2m], tmp[2m + 1] = sums of the first and the last eight of a row's sixteen sums over slabs, for all rows."""
    m, slabs = call.tiling.src_m, call.tiling.src_k // NZ_COLUMNS
    for group in vf.loop(ceil_div(m, GROUP_ROWS)):
        total = vf.duplicate(0.0)
        for slab in vf.loop(slabs):
            at = slab * m * NZ_COLUMNS + group * LANES
            mask = last_slab if slab == slabs - 1 else ALL_LANES
            with asc.trace("mul"):
                product = vf.mul(_load(vf, call.src[at]), _load(vf, call.grad[at]), mask)
            with asc.trace("reducesum"):
                total = vf.add(total, product)
        with asc.trace("reducesum"):
            sums = vf.reduce_sum_data_block(total)
            vf.store_align(call.tmp[group * GROUP_SUMS], sums, vf.update_mask(GROUP_SUMS))


def _add_halves(asc: AiCore, vf: VectorFunction, call: Call) -> None:
    """Row sums in place of their halves: each twice, or for front results packed, in dst's type."""
    with asc.trace("reducesum"):
        for part in vf.loop(ceil_div(2 * call.tiling.src_m, 2 * LANES)):
            halves = call.tmp[part * 2 * LANES]
            first, second = vf.load_align2(halves, LoadDist.DINTLV_B32)
            row_sums = vf.add(first, second)
            if call.is_front:
                packed = call.tmp.reinterpret_cast(call.dst.dtype)[part * LANES]
                _store(vf, packed, row_sums, ALL_LANES)
            else:
                vf.store_align2(halves, row_sums, row_sums)


def _spread_sums(asc: AiCore, vf: VectorFunction, call: Call) -> None:
    """dst[m, :] = row sum m in one datablock: eight rows at a time."""
    kind = call.dst.dtype
    sums = call.tmp.reinterpret_cast(kind)
    dist = LoadDist.E2B_B16 if kind is HALF else LoadDist.E2B_B32
    with asc.trace("broadcast"):
        for first in _steps(vf, call.tiling.src_m, E):
            rows = vf.update_mask((call.ori_m - first) * kind.per_datablock)
            vf.store_align(call.dst[first * kind.per_datablock], vf.load_align(sums[first], dist), rows)


def _rest_nz(asc: AiCore, vf: VectorFunction, call: Call, last_slab: MaskReg) -> None:
    """Dst = (grad - row sum) * src, slab by slab, four rows at a time; rows from ori_m on are masked."""
    m, slabs = call.tiling.src_m, call.tiling.src_k // NZ_COLUMNS
    for slab in vf.loop(slabs):
        for group in vf.loop(ceil_div(m, GROUP_ROWS)):
            rows = vf.update_mask((call.ori_m - group * GROUP_ROWS) * NZ_COLUMNS)
            mask = MaskReg(rows.bits & last_slab.bits) if slab == slabs - 1 else rows
            at = slab * m * NZ_COLUMNS + group * LANES
            src32, grad32 = _load(vf, call.src[at]), _load(vf, call.grad[at])
            with asc.trace("broadcast to k"):
                row_sum = vf.load_align(call.tmp[group * GROUP_SUMS], LoadDist.E2B_B32)
            _rest(asc, vf, call.dst[at], (grad32, src32, row_sum), mask)
