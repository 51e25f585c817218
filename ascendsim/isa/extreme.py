"""Largest and smallest elements inside a repeat: values, and where they lie.

Of equal elements the first counts, so the value is that of the smallest index; +0 and -0 are equal. A NaN wins over
every number, the first one over later ones. The documents say both of the index and that a NaN makes the result NaN;
which NaN, and which zero, they leave open. The half-overflow mode changes nothing.
"""

from collections.abc import Callable
from typing import cast as typing_cast

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import UINT32, DType, word_of
from ascendsim.errors import Finding
from ascendsim.isa import rules
from ascendsim.isa.forms import REDUCE, Call, Form, Mask, declare
from ascendsim.isa.instruction import (
    Array,
    Context,
    Row,
    TensorRef,
    finds,
    need_member,
)
from ascendsim.isa.reduce import REDUCE_RULES, BlockReduceCall, Present, Reducer, Reduction, record_reduce
from ascendsim.memory import LocalTensor
from ascendsim.terms import Pipe, ReduceOrder

WHOLE = (*REDUCE, "order")

Best = Callable[[Array, Present], Array]
"""Values [n, lanes] and which of them are there, to the lane that wins in each row."""


def _best(largest: bool) -> Best:
    """Return what finds the winning lane of each row."""

    def best(values: Array, present: Present) -> Array:
        there = np.ones(values.shape, np.bool_) if present is None else present
        wide = values.astype(np.float32)
        nan = np.isnan(wide) & there
        key = np.where(there & ~nan, wide if largest else -wide, -np.inf)
        wins = there & (key == key.max(axis=-1, keepdims=True))
        lanes: Array = np.where(nan.any(axis=-1, keepdims=True), nan, wins).argmax(axis=-1)
        return lanes

    return best


BEST = {"Max": _best(largest=True), "Min": _best(largest=False)}


def values_at(values: Array, lanes: Array) -> Array:
    """Return of each row of values the one in that row's lane."""
    taken: Array = np.take_along_axis(values, lanes[:, None], axis=-1)[:, 0]
    return taken


def _block_bind(kind: str) -> Callable[[Context, Row], Reducer]:
    def bind(ctx: Context, row: Row) -> Reducer:
        del ctx, row
        return lambda values, present: values_at(values, BEST[kind](values, present))

    return bind


def _block_extreme(kind: str, mnemonic: str) -> Form[BlockReduceCall]:
    shape = Reduction(_block_bind(kind), lambda dtype: dtype.per_datablock)
    word = "largest" if kind == "Max" else "smallest"
    op = declare(
        f"block_reduce_{kind.lower()}",
        f"""dst[8r + b] = {word} element of datablock b of repeat r, a NaN before all; half, float.

        A datablock without a lane leaves its result as it was. Devices with `reduce_fills_masked` (arch 3002 and 3510)
        write a default there, whose value is not known here; theirs is left, too.

        Source: asc-devkit docs, ReduceDataBlock page.
        """,
        api=f"BlockReduce{kind}",
        mnemonic=mnemonic,
        pipe=Pipe.V,
        params=REDUCE,
        cost="vector",
        family=f"BlockReduce{kind}",
        execute=shape.execute,
        touch=shape.touch,
        checks=(*REDUCE_RULES[:3], rules.reduce_dst_aligned(8), *REDUCE_RULES[3:]),
        uses_mask=True,
    )
    return Form(op, BlockReduceCall)


class WholeExtremeCall(Call):
    """dst, src, mask, repeat_times, dst_rep_stride, src_blk_stride, src_rep_stride, order.

    dst_rep_stride counts results: two elements where value and index are asked for, one element for the value, 4 B for
    the index alone.
    """

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
        order: ReduceOrder = ReduceOrder.ORDER_VALUE_INDEX,
    ) -> None:
        """Record the call."""
        need_member(self.asc, self.op.api, "order", order, ReduceOrder)
        record_reduce(self, dst, src, mask, (repeat_times, src_blk_stride, dst_rep_stride, src_rep_stride), int(order))


def _whole_cells(row: Row) -> tuple[DType, int]:
    """Elements of one result: a pair of words, a word, or an index of 32 bits."""
    assert row.src0 is not None
    order = ReduceOrder(row.param("order"))
    if order is ReduceOrder.ORDER_ONLY_INDEX:
        return UINT32, 1
    return word_of(row.src0.dtype), 1 if order is ReduceOrder.ORDER_ONLY_VALUE else 2


def _whole_bind(kind: str) -> Callable[[Context, Row], Reducer]:
    def bind(ctx: Context, row: Row) -> Reducer:
        del ctx
        assert row.src0 is not None
        cell, _ = _whole_cells(row)
        word, order = word_of(row.src0.dtype).numpy, ReduceOrder(row.param("order"))

        def reduce(values: Array, present: Present) -> Array:
            lanes = BEST[kind](values, present)
            value, index = values_at(values, lanes).view(word), lanes.astype(cell.numpy)
            return {
                ReduceOrder.ORDER_VALUE_INDEX: lambda: np.stack((value, index), axis=-1),
                ReduceOrder.ORDER_INDEX_VALUE: lambda: np.stack((index, value), axis=-1),
                ReduceOrder.ORDER_ONLY_VALUE: lambda: value,
                ReduceOrder.ORDER_ONLY_INDEX: lambda: index,
            }[order]()

        return reduce

    return bind


@finds(rules.ALIGN_REDUCE)
def _result_aligned(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """The destination is aligned to one result of its order."""
    del device
    assert row.dst is not None
    cell, cells = _whole_cells(row)
    tensor = rules.tensor_of(row.dst, tensors)
    address, need = tensor.address_bytes + row.dst.offset_bytes, cell.bytes * cells
    if address % need == 0:
        return []
    fill = {"api": row.op.api, "tensor": tensor.name}
    return [rules.ALIGN_REDUCE.finding(where, operand="dst", got=f"0x{address:x}", wanted=need, fill=fill)]


@finds(rules.API_PRODUCT)
def _order_known(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """The device has the order; value before index is what all have, the others are a capability of their name."""
    del tensors
    order = ReduceOrder(row.param("order"))
    if order is ReduceOrder.ORDER_VALUE_INDEX:
        return []
    return rules.lacking(device, order.name.lower(), f"{row.op.api} with {order.name}", where)


def _whole_extreme(kind: str, mnemonic: str) -> Form[WholeExtremeCall]:
    shape = Reduction(_whole_bind(kind), lambda dtype: dtype.per_repeat, _whole_cells)
    word = "largest" if kind == "Max" else "smallest"
    op = declare(
        f"whole_reduce_{kind.lower()}",
        f"""The {word} element of each repeat and its lane, a NaN before all; half, float.

        An index is a whole number in the bits of an element (16 or 32), alone it has 32 bits; ties go to the first.

        Source: asc-devkit docs, ReduceRepeat page.
        """,
        api=f"WholeReduce{kind}",
        mnemonic=mnemonic,
        pipe=Pipe.V,
        params=WHOLE,
        cost="vector",
        family=f"WholeReduce{kind}",
        execute=shape.execute,
        touch=shape.touch,
        checks=(_order_known, *REDUCE_RULES[:3], _result_aligned, *REDUCE_RULES[3:]),
        uses_mask=True,
    )
    return typing_cast("Form[WholeExtremeCall]", Form(op, WholeExtremeCall))


class ExtremeInstructions:
    """BlockReduceMax/Min (ReduceDataBlock) and WholeReduceMax/Min (ReduceRepeat)."""

    block_reduce_max = _block_extreme("Max", "vcgmax")
    block_reduce_min = _block_extreme("Min", "vcgmin")
    whole_reduce_max = _whole_extreme("Max", "vcmax")
    whole_reduce_min = _whole_extreme("Min", "vcmin")
