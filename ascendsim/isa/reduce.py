"""Reductions inside a repeat, and the sums. The order of additions is the documented one: adjacent pairs, as a tree.

A masked lane takes no part ("absent"); the documents leave open whether it counts as +0, which shows only when the sum
is -0. A result all of whose lanes are masked is not written; BlockReduceSum and PairReduceSum write 0 there on devices
with `reduce_fills_masked`, also where counter mode ends inside a repeat.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast as typing_cast

import numpy as np

from ascendsim.dtypes import FLOAT, HALF, DType, saturate
from ascendsim.isa import rules
from ascendsim.isa.forms import REDUCE, Call, Form, Mask, apply_mask, declare, meet
from ascendsim.isa.instruction import Array, Check, Context, Instruction, Row, Step, in_turn, need_int
from ascendsim.isa.lanes import byte_range, element_offsets, lane_grid, operand_at, repeats_of
from ascendsim.memory import Lanes, LocalTensor
from ascendsim.terms import Pipe

FILLING = (*REDUCE, "fills_masked")
"""Parameters of a reduction that may write results of which it has seen no lane."""

Adder = Callable[[Array, Array], Array]
Present = Array | None
"""Which lanes take part; None: all of them."""
Body = Callable[[Array, Present, Adder], Array]
Reducer = Callable[[Array, Present], Array]
"""Values [n, lanes of a group] and which of them are there, to results [n] or [n, cells of a result]."""


def adjacent_pair_tree(values: Array, present: Present, add: Adder) -> Array:
    """Sum the last axis of [n, width] by adjacent pairs, absent lanes left out; width is a power of two.

    `add` rounds, and saturates if that mode is on, at each step (asc-devkit docs, ReduceDataBlock page).
    """
    while values.shape[-1] > 1:
        a, b = values[..., 0::2], values[..., 1::2]
        if present is None:
            values = add(a, b)
            continue
        pa, pb = present[..., 0::2], present[..., 1::2]
        values = np.where(pa & pb, add(a, b), np.where(pa, a, b))
        present = pa | pb
    return values[..., 0]


class BlockReduceCall(Call):
    """dst, src, repeat_times, mask, dst_rep_stride, src_blk_stride, src_rep_stride.

    dst_rep_stride counts the results of one repeat (8 for BlockReduceSum, half a repeat for PairReduceSum); the source
    strides count datablocks.
    """

    reports = (rules.RANGE_MASK,)

    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        repeat_times: int,
        mask: Mask,
        dst_rep_stride: int,
        src_blk_stride: int,
        src_rep_stride: int,
    ) -> None:
        """Record the call."""
        more = (int(self.asc.device.has("reduce_fills_masked")),) if self.op.params == FILLING else ()
        record_reduce(self, dst, src, mask, (repeat_times, src_blk_stride, dst_rep_stride, src_rep_stride), *more)


class WholeReduceCall(Call):
    """dst, src, mask, repeat_times, dst_rep_stride, src_blk_stride, src_rep_stride; dst_rep_stride counts elements."""

    reports = (rules.RANGE_MASK,)

    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        mask: Mask,
        repeat_times: int,
        dst_rep_stride: int,
        src_blk_stride: int,
        src_rep_stride: int,
    ) -> None:
        """Record the call."""
        record_reduce(self, dst, src, mask, (repeat_times, src_blk_stride, dst_rep_stride, src_rep_stride))


def record_reduce(
    call: Call, dst: LocalTensor, src: LocalTensor, mask: Mask, params: tuple[int, ...], *more: int
) -> None:
    """Record the mask set-up and the reduction; `more` are parameters behind those that all reductions have."""
    call.locals(dst=dst, src=src)
    for name, value in zip(("repeat_times", "src_blk_stride", "dst_rep_stride", "src_rep_stride"), params, strict=True):
        need_int(call.asc, call.op.api, name, value)
    apply_mask(call.asc, call.op.api, mask, src.dtype)
    call.asc.emit(call.op, dst=dst, src0=src, params=(*params, *more))


def same_cell(row: Row) -> tuple[DType, int]:
    """A result is one element of dst."""
    assert row.dst is not None
    return row.dst.dtype, 1


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction of groups of `group(dtype)` neighbouring lanes to one result each.

    Attributes:
        bind: the arithmetic of a row.
        group: lanes of a group.
        cells: type and number of the elements that hold one result.
    """

    bind: Callable[[Context, Row], Reducer]
    group: Callable[[DType], int]
    cells: Callable[[Row], tuple[DType, int]] = same_cell

    def touch(self, row: Row) -> tuple[tuple[str, int, int], ...]:
        """Byte ranges of the results that are written and of the lanes that are read."""
        src = row.src0
        assert src is not None
        dtype = src.dtype
        repeats, lanes = lane_grid(row, dtype.per_repeat)
        per_repeat = dtype.per_repeat // self.group(dtype)
        cell, cells = self.cells(row)
        numbers = _written(row, _running(row, dtype), repeats * per_repeat + lanes // self.group(dtype), per_repeat)
        results = _result_at(row, numbers, per_repeat) * cells
        first, end = (int(results.min()), int(results.max()) + cells) if results.size else (0, 0)
        read = operand_at(
            row, dtype.per_repeat, row.param("src0_blk_stride"), row.param("src0_rep_stride"), dtype.bytes
        )
        return (("dst", first * cell.bytes, end * cell.bytes), ("src0", *byte_range(read, dtype.bytes)))

    def execute(self, ctx: Context, row: Row) -> Step:
        """Reduce everything at once, or repeat by repeat where dst lies on src: each is read whole, then written."""
        dst, src = row.dst, row.src0
        assert dst is not None
        assert src is not None
        running = _running(row, src.dtype)
        (_, *written), (_, *read) = self.touch(row)
        if not meet(ctx, dst, (written[0], written[1]), src, (read[0], read[1])):
            return self._reduce(ctx, row, running)
        return in_turn([self._reduce(ctx, row, running[r : r + 1]) for r in running])

    def _reduce(self, ctx: Context, row: Row, running: Array) -> Step:
        """Read the lanes of these repeats, reduce each group, write the results of groups that have a lane, or all."""
        dst, src = row.dst, row.src0
        assert dst is not None
        assert src is not None
        dtype = src.dtype
        group = self.group(dtype)
        per_repeat = dtype.per_repeat // group
        repeats, lanes = lane_grid(row, dtype.per_repeat)
        here = np.isin(repeats, running)
        repeats, lanes = repeats[here], lanes[here]
        numbers = repeats * per_repeat + lanes // group
        results = _written(row, running, numbers, per_repeat)
        which = np.searchsorted(results, numbers)
        strides = row.param("src0_blk_stride"), row.param("src0_rep_stride")
        read = ctx.reader(src, Lanes.at(element_offsets(repeats, lanes, *strides, dtype.bytes)))
        cell, cells = self.cells(row)
        at = (_result_at(row, results, per_repeat)[:, None] * cells + np.arange(cells)).reshape(-1)
        write = ctx.writer(replace(dst, dtype=cell), Lanes.at(at))
        arrange, present = _arranged((which, lanes % group), (results.size, group))
        reduce = self.bind(ctx, row)

        def step() -> None:
            write(reduce(arrange(read()), present).reshape(-1))

        return step


def _with_adder(body: Body) -> Callable[[Context, Row], Reducer]:
    """A sum's body, given the addition of the half-overflow mode in force."""

    def bind(ctx: Context, row: Row) -> Reducer:
        del row

        def add(a: Array, b: Array) -> Array:
            return saturate(a + b, ctx.overflow)

        return lambda values, present: body(values, present, add)

    return bind


def _arranged(at: tuple[Array, Array], shape: tuple[int, int]) -> tuple[Callable[[Array], Array], Present]:
    """Return what puts lanes into [groups, lanes of a group], and which places of that have one."""
    if at[0].size == shape[0] * shape[1]:  # lanes come in order, so all places are taken one after another
        return lambda values: values.reshape(shape), None
    present = np.zeros(shape, np.bool_)
    present[at] = True

    def arrange(values: Array) -> Array:
        grid = np.zeros(shape, values.dtype)
        grid[at] = values
        return grid

    return arrange, present


def _running(row: Row, dtype: DType) -> Array:
    """Numbers of the repeats that run."""
    return np.arange(repeats_of(row, dtype.per_repeat))


def _written(row: Row, running: Array, numbers: Array, per_repeat: int) -> Array:
    """Numbers of the results that are written, in order: those that have a lane (`numbers`), or all that run."""
    if row.op.params == FILLING and row.param("fills_masked"):
        return (running[:, None] * per_repeat + np.arange(per_repeat)).reshape(-1)
    return numbers[np.diff(numbers, prepend=-1) > 0]  # lanes come in order, so equal numbers are neighbours


def _result_at(row: Row, results: Array, per_repeat: int) -> Array:
    """Element offset of each result number."""
    offsets: Array = results // per_repeat * (row.param("dst_rep_stride") * per_repeat) + results % per_repeat
    return offsets


REDUCE_RULES: tuple[Check, ...] = (
    rules.dtypes((HALF, FLOAT), "dst", "src0"),
    rules.same_dtype,
    rules.aligned("src0"),
    *rules.UNDER_MASK,
    rules.strides(65535, 65535),
    rules.in_bounds,
)
"""What every reduction of repeats must keep; the alignment of its destination differs."""


def sum_of(  # noqa: D417 - the others are those of `declare`
    body: Body,
    group: Callable[[DType], int],
    dst_elements: int,
    params: tuple[str, ...] = REDUCE,
    *,
    name: str,
    api: str,
    mnemonic: str,
    family: str,
) -> Instruction:
    """Declare a sum of groups.

    Args:
        body: sums the last axis of [n, group], given which lanes are present.
        group: lanes of a group.
        dst_elements: elements to which dst is aligned.
        params: REDUCE, or FILLING.
    """
    shape = Reduction(_with_adder(body), group)
    return declare(
        name,
        body.__doc__,
        api=api,
        mnemonic=mnemonic,
        pipe=Pipe.V,
        params=params,
        cost="vector",
        family=family,
        execute=shape.execute,
        touch=shape.touch,
        checks=(rules.sums_floats, *REDUCE_RULES[:3], rules.reduce_dst_aligned(dst_elements), *REDUCE_RULES[3:]),
        uses_mask=True,
    )


def _reduction(
    api: str,
    mnemonic: str,
    group: Callable[[DType], int],
    dst_elements: int,
    call: type[Call],
    params: tuple[str, ...] = REDUCE,
) -> Callable[[Body], Form[Call]]:
    """Declare a reduction; the decorated function sums the last axis of [n, group], given which lanes are present."""

    def make(body: Body) -> Form[Call]:
        op = sum_of(body, group, dst_elements, params, name=body.__name__, api=api, mnemonic=mnemonic, family=api)
        return Form(op, call)

    return make


def block_reduction(api: str, mnemonic: str, group: Callable[[DType], int]) -> Callable[[Body], Form[BlockReduceCall]]:
    """Declare a reduction with AscendC's argument order (repeat before mask); dst is aligned to 8 elements."""
    return typing_cast("Callable[[Body], Form[BlockReduceCall]]", _reduction(api, mnemonic, group, 8, BlockReduceCall))


def filling_reduction(
    api: str, mnemonic: str, group: Callable[[DType], int]
) -> Callable[[Body], Form[BlockReduceCall]]:
    """As block_reduction; results without a lane are 0 on devices with `reduce_fills_masked`."""
    made = _reduction(api, mnemonic, group, 8, BlockReduceCall, FILLING)
    return typing_cast("Callable[[Body], Form[BlockReduceCall]]", made)


def whole_reduction(api: str, mnemonic: str, group: Callable[[DType], int]) -> Callable[[Body], Form[WholeReduceCall]]:
    """Declare a reduction with AscendC's argument order (mask before repeat); dst is aligned to 1 element."""
    return typing_cast("Callable[[Body], Form[WholeReduceCall]]", _reduction(api, mnemonic, group, 1, WholeReduceCall))


class ReduceInstructions:
    """BlockReduceSum (ReduceDataBlock), WholeReduceSum (ReduceRepeat), PairReduceSum (ReducePairElem)."""

    @filling_reduction("BlockReduceSum", "vcgadd", lambda dtype: dtype.per_datablock)
    @staticmethod
    def block_reduce_sum(values: Array, present: Present, add: Adder) -> Array:
        """dst[8r + b] = sum of datablock b of repeat r, as an adjacent-pair tree; half, float.

        A datablock without a lane is left out, or gives 0 on devices with `reduce_fills_masked` (arch 3002 and 3510).

        Source: asc-devkit docs, ReduceDataBlock page.
        """
        return adjacent_pair_tree(values, present, add)

    @whole_reduction("WholeReduceSum", "vcadd", lambda dtype: dtype.per_repeat)
    @staticmethod
    def whole_reduce_sum(values: Array, present: Present, add: Adder) -> Array:
        """dst[r * dst_rep_stride] = sum of repeat r, as an adjacent-pair tree; half, float.

        Source: asc-devkit docs, ReduceRepeat page.
        """
        return adjacent_pair_tree(values, present, add)

    @filling_reduction("PairReduceSum", "vcpadd", lambda _dtype: 2)
    @staticmethod
    def pair_reduce_sum(values: Array, present: Present, add: Adder) -> Array:
        """dst[i] = src[2i] + src[2i + 1] within each repeat; half, float.

        A pair without a lane is left out, or gives 0 on devices with `reduce_fills_masked` (arch 3002 and 3510).

        Source: asc-devkit docs, ReducePairElem page.
        """
        return adjacent_pair_tree(values, present, add)
