"""ReduceMax and ReduceMin: the largest and smallest element of a whole tensor.

They are one vector row with the time of all rounds that the library issues, because it walks back through its rounds on
the scalar unit to find an index: those few scalar loads and stores are not counted, which errs fast. The hand-overs
from V to S and from S to V and MTE3 are those of the library, so the scalar unit stands until the vector pipe is done.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import overload

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import FLOAT, HALF, DType, word_of
from ascendsim.errors import Finding
from ascendsim.isa import rules
from ascendsim.isa.extreme import BEST, values_at
from ascendsim.isa.forms import Form, Mask, apply_mask, begin_count, declare, end_count
from ascendsim.isa.gather import BASE_RANGE
from ascendsim.isa.instruction import (
    Array,
    Context,
    Instruction,
    Row,
    Step,
    TensorRef,
    finds,
    need_count,
    need_int,
)
from ascendsim.isa.lanes import element_offsets, lane_grid
from ascendsim.isa.params import need_bool
from ascendsim.isa.tensor_reduce import WorkCall, hand_over
from ascendsim.memory import Lanes, LocalTensor
from ascendsim.terms import HardEvent, MaskMode, Pipe, align_up, ceil_div

HALF_INDEX = BASE_RANGE.saying(
    "{api}: indices reach {got}, a half holds at most {wanted}",
    "reduce in float, or in parts",
    "asc-devkit docs, ReduceMax and ReduceMin pages",
)
MOST_HALF_INDEX = 65535
EXTREME = ("repeat", "src0_rep_stride", "with_index", "work_elements")


def work_elements(repeats: int, dtype: DType, *, with_index: bool) -> int:
    """Elements of the work buffer of ReduceMax and ReduceMin for this many repeats.

    Every repeat leaves a value and an index; with an index wanted, the pairs of all rounds are kept, those of each
    round on whole datablocks. Source: asc-devkit docs, ReduceMax page.
    """
    pairs = 2 * repeats
    total = align_up(pairs, dtype.per_datablock)
    while with_index and pairs > 2:
        pairs = 2 * ceil_div(pairs, dtype.per_repeat)
        total += align_up(pairs, dtype.per_datablock)
    return total


class ReduceExtremeCall(WorkCall):
    """dst, src, shared_tmp_buffer; then count, or mask, repeat_times (any number), src_rep_stride; then cal_index."""

    @overload
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        shared_tmp_buffer: LocalTensor,
        count: int,
        /,
        *,
        cal_index: bool = ...,
    ) -> None: ...
    @overload
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        shared_tmp_buffer: LocalTensor,
        mask: Mask,
        repeat_times: int,
        src_rep_stride: int,
        *,
        cal_index: bool = ...,
    ) -> None: ...
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        shared_tmp_buffer: LocalTensor,
        mask: Mask,
        repeat_times: int | None = None,
        src_rep_stride: int = 8,
        *,
        cal_index: bool = False,
    ) -> None:
        """Record the call."""
        asc, api, lanes = self.asc, self.op.api, src.dtype.per_repeat
        self.operands(dst, src, shared_tmp_buffer)
        need_bool(asc, api, "cal_index", cal_index)
        is_count = repeat_times is None
        if repeat_times is None:
            repeat_times, whole = 1, need_count(asc, api, "count", mask) // lanes
        else:
            whole = need_count(asc, api, "repeat_times", repeat_times)
            need_int(asc, api, "src_rep_stride", src_rep_stride)
        needed = work_elements(whole, src.dtype, with_index=cal_index)
        if not self.has_work(shared_tmp_buffer, needed):
            return
        if is_count:
            begin_count(asc, api, mask)
        else:
            apply_mask(asc, api, mask, src.dtype)
        params = (repeat_times, src_rep_stride, int(cal_index), needed)
        asc.emit(self.op, dst=dst, src0=src, src1=shared_tmp_buffer, params=params)
        hand_over(asc, HardEvent.V_S, HardEvent.S_V, HardEvent.S_MTE3)
        if is_count:
            end_count(asc)


def _source_at(row: Row) -> Array:
    """Element offset of every active lane; it is the lane's index, too."""
    assert row.src0 is not None
    d = row.src0.dtype
    return element_offsets(*lane_grid(row, d.per_repeat), 1, row.param("src0_rep_stride"), d.bytes)


def _touch_extreme(row: Row) -> tuple[tuple[str, int, int], ...]:
    assert row.src0 is not None
    at, width = _source_at(row), row.src0.dtype.bytes
    if not at.size:
        return (("dst", 0, 0), ("src0", 0, 0), ("src1", 0, 0))
    return (
        ("dst", 0, width * (1 + row.param("with_index"))),
        ("src0", int(at.min()) * width, (int(at.max()) + 1) * width),
        ("src1", 0, width * row.param("work_elements")),
    )


def _run_extreme(kind: str) -> Callable[[Context, Row], Step | None]:
    def execute(ctx: Context, row: Row) -> Step | None:
        dst, src, work = row.dst, row.src0, row.src1
        assert dst is not None
        assert src is not None
        assert work is not None
        at, word = _source_at(row), word_of(src.dtype)
        if not at.size:
            return None
        read = ctx.reader(src, Lanes.at(at))
        spoil = ctx.filler(work, Lanes.run(row.param("work_elements") * src.dtype.bytes), None)
        write = ctx.writer(replace(dst, dtype=word), Lanes.run(1 + row.param("with_index")))

        def step() -> None:
            values = read().reshape(1, -1).copy()
            lanes = BEST[kind](values, None)
            result = np.concatenate((values_at(values, lanes).view(word.numpy), at[lanes].astype(word.numpy)))
            spoil()
            write(result[: 1 + row.param("with_index")])

        return step

    return execute


@finds(rules.REPEAT_ZERO)
def _any_repeat(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Any number of repeats is taken; none is worth a warning."""
    del tensors, device
    what = "count" if row.mask_mode is MaskMode.COUNTER else "repeat"
    number = row.mask_lo if row.mask_mode is MaskMode.COUNTER else row.param("repeat")
    if number > 0:
        return []
    return [rules.REPEAT_ZERO.finding(where, got=number, wanted="at least 1", fill={"api": row.op.api, "what": what})]


@finds(HALF_INDEX)
def _index_fits(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """An index of half data has 16 bits."""
    del tensors, device
    at = _source_at(row)
    if row.src0 is None or row.src0.dtype is not HALF or not row.param("with_index") or not at.size:
        return []
    if at.max() <= MOST_HALF_INDEX:
        return []
    return [HALF_INDEX.finding(where, operand="dst", got=at.max(), wanted=MOST_HALF_INDEX, fill={"api": row.op.api})]


@finds(rules.ALIGN_REDUCE)
def _result_aligned(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """The destination is aligned to what is written: a value, or a value and an index."""
    return rules.reduce_dst_aligned(1 + row.param("with_index"))(row, tensors, device, where)


def _extreme(kind: str) -> Instruction:
    word = "largest" if kind == "Max" else "smallest"
    return declare(
        f"reduce_{kind.lower()}",
        f"""dst[0] = the {word} active element of all repeats, dst[1] its index on request; half, float.

        The index counts elements from src, as a whole number in the bits of an element; of equal ones the first is
        taken. One row that takes as long as the rounds of WholeReduce{kind} that the library issues, each waiting for
        the one before; the last, partial repeat of the count form is taken in the first round, where the library
        reduces it on its own afterwards (errs fast). What the work buffer holds afterwards is undefined.

        Source: asc-devkit docs, Reduce{kind} page.
        """,
        api=f"Reduce{kind}",
        mnemonic=f"vc{kind.lower()}",
        pipe=Pipe.V,
        params=EXTREME,
        cost="rounds",
        family=f"WholeReduce{kind}",
        execute=_run_extreme(kind),
        touch=_touch_extreme,
        checks=(
            rules.dtypes((HALF, FLOAT), "dst", "src0"),
            rules.aligned("src0", "src1"),
            _result_aligned,
            _any_repeat,
            rules.strides(65535, 65535),
            _index_fits,
            rules.in_bounds,
        ),
        uses_mask=True,
    )


class TensorExtremeInstructions:
    """ReduceMax and ReduceMin."""

    reduce_max = Form(_extreme("Max"), ReduceExtremeCall)
    reduce_min = Form(_extreme("Min"), ReduceExtremeCall)
