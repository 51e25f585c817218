"""Sums inside a repeat. The order of additions is the documented one: adjacent pairs, as a binary tree.

A masked lane takes no part ("absent"); the documents leave open whether it counts as +0, which shows only when the sum
is -0. A result all of whose lanes are masked is not written on arch 2201.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast as typing_cast

import numpy as np

from ascendsim.dtypes import FLOAT, HALF, DType, saturate
from ascendsim.isa import rules
from ascendsim.isa.forms import REDUCE, Call, Form, Mask, apply_mask, declare, meet
from ascendsim.isa.instruction import Array, Context, Row, Step, in_turn, need_int
from ascendsim.isa.lanes import byte_range, element_offsets, lane_grid, operand_at
from ascendsim.memory import Lanes, LocalTensor
from ascendsim.terms import Pipe

Adder = Callable[[Array, Array], Array]
Present = Array | None
"""Which lanes take part; None: all of them."""
Body = Callable[[Array, Present, Adder], Array]


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
        record_reduce(self, dst, src, mask, (repeat_times, src_blk_stride, dst_rep_stride, src_rep_stride))


class WholeReduceCall(Call):
    """dst, src, mask, repeat_times, dst_rep_stride, src_blk_stride, src_rep_stride; dst_rep_stride counts elements."""

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


def record_reduce(call: Call, dst: LocalTensor, src: LocalTensor, mask: Mask, params: tuple[int, ...]) -> None:
    """Record the mask set-up and the reduction."""
    call.locals(dst=dst, src=src)
    need_int(call.asc, call.op.api, "repeat_times", params[0])
    apply_mask(call.asc, call.op.api, mask, src.dtype)
    call.asc.emit(call.op, dst=dst, src0=src, params=params)


@dataclass(frozen=True, slots=True)
class _Reduction:
    """A reduction of groups of `group(dtype)` neighbouring lanes to one element each."""

    body: Body
    group: Callable[[DType], int]

    def touch(self, row: Row) -> tuple[tuple[str, int, int], ...]:
        """Byte ranges of the results that are written and of the lanes that are read."""
        dst, src = row.dst, row.src0
        assert dst is not None
        assert src is not None
        dtype = src.dtype
        repeats, lanes = lane_grid(row, dtype.per_repeat)
        per_repeat = dtype.per_repeat // self.group(dtype)
        results = _result_at(row, repeats * per_repeat + lanes // self.group(dtype), per_repeat)
        first, end = (int(results.min()), int(results.max()) + 1) if results.size else (0, 0)
        read = operand_at(
            row, dtype.per_repeat, row.param("src0_blk_stride"), row.param("src0_rep_stride"), dtype.bytes
        )
        return (("dst", first * dst.dtype.bytes, end * dst.dtype.bytes), ("src0", *byte_range(read, dtype.bytes)))

    def execute(self, ctx: Context, row: Row) -> Step:
        """Reduce everything at once, or repeat by repeat where dst lies on src: each is read whole, then written."""
        dst, src = row.dst, row.src0
        assert dst is not None
        assert src is not None
        repeats, lanes = lane_grid(row, src.dtype.per_repeat)
        (_, *written), (_, *read) = self.touch(row)
        if not meet(ctx, dst, (written[0], written[1]), src, (read[0], read[1])):
            return self._sum(ctx, row, repeats, lanes)
        return in_turn([self._sum(ctx, row, repeats[repeats == r], lanes[repeats == r]) for r in np.unique(repeats)])

    def _sum(self, ctx: Context, row: Row, repeats: Array, lanes: Array) -> Step:
        """Read these lanes, sum each group, write the sums of groups that have a lane."""
        dst, src = row.dst, row.src0
        assert dst is not None
        assert src is not None
        dtype = src.dtype
        group = self.group(dtype)
        per_repeat = dtype.per_repeat // group
        results, which = np.unique(repeats * per_repeat + lanes // group, return_inverse=True)
        strides = row.param("src0_blk_stride"), row.param("src0_rep_stride")
        read = ctx.reader(src, Lanes.at(element_offsets(repeats, lanes, *strides, dtype.bytes)))
        write = ctx.writer(dst, Lanes.at(_result_at(row, results, per_repeat)))
        arrange, present = _arranged((which, lanes % group), (results.size, group))

        def add(a: Array, b: Array) -> Array:
            return saturate(a + b, ctx.overflow)

        def step() -> None:
            write(self.body(arrange(read()), present, add))

        return step


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


def _result_at(row: Row, results: Array, per_repeat: int) -> Array:
    """Element offset of each result number."""
    offsets: Array = results // per_repeat * (row.param("dst_rep_stride") * per_repeat) + results % per_repeat
    return offsets


def _reduction(
    api: str, mnemonic: str, group: Callable[[DType], int], dst_elements: int, call: type[Call]
) -> Callable[[Body], Form[Call]]:
    """Declare a reduction; the decorated function sums the last axis of [n, group], given which lanes are present."""

    def make(body: Body) -> Form[Call]:
        shape = _Reduction(body, group)
        op = declare(
            body.__name__,
            body.__doc__,
            api=api,
            mnemonic=mnemonic,
            pipe=Pipe.V,
            params=REDUCE,
            cost="vector",
            family=api,
            execute=shape.execute,
            touch=shape.touch,
            checks=(
                rules.dtypes((HALF, FLOAT), "dst", "src0"),
                rules.same_dtype,
                rules.aligned("src0"),
                rules.reduce_dst_aligned(dst_elements),
                rules.repeat_range,
                rules.strides(65535, 65535),
                rules.in_bounds,
            ),
            uses_mask=True,
        )
        return Form(op, call)

    return make


def block_reduction(api: str, mnemonic: str, group: Callable[[DType], int]) -> Callable[[Body], Form[BlockReduceCall]]:
    """Declare a reduction with AscendC's argument order (repeat before mask); dst is aligned to 8 elements."""
    return typing_cast("Callable[[Body], Form[BlockReduceCall]]", _reduction(api, mnemonic, group, 8, BlockReduceCall))


def whole_reduction(api: str, mnemonic: str, group: Callable[[DType], int]) -> Callable[[Body], Form[WholeReduceCall]]:
    """Declare a reduction with AscendC's argument order (mask before repeat); dst is aligned to 1 element."""
    return typing_cast("Callable[[Body], Form[WholeReduceCall]]", _reduction(api, mnemonic, group, 1, WholeReduceCall))


class ReduceInstructions:
    """BlockReduceSum (ReduceDataBlock), WholeReduceSum (ReduceRepeat), PairReduceSum (ReducePairElem)."""

    @block_reduction("BlockReduceSum", "vcgadd", lambda dtype: dtype.per_datablock)
    @staticmethod
    def block_reduce_sum(values: Array, present: Present, add: Adder) -> Array:
        """dst[8r + b] = sum of datablock b of repeat r, as an adjacent-pair tree; half, float.

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

    @block_reduction("PairReduceSum", "vcpadd", lambda _dtype: 2)
    @staticmethod
    def pair_reduce_sum(values: Array, present: Present, add: Adder) -> Array:
        """dst[i] = src[2i] + src[2i + 1] within each repeat; half, float.

        Source: asc-devkit docs, ReducePairElem page.
        """
        return adjacent_pair_tree(values, present, add)
