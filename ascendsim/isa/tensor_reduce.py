"""ReduceSum, the sum of a whole tensor, RepeatReduceSum, and SetValue.

ReduceSum is recorded as the rows that the library of arch 2201 issues: it hands over from V to S, stores, and hands on
to V and MTE3, so the scalar unit stands until the vector pipe is done.
"""

from collections.abc import Callable
from typing import overload

import numpy as np

from ascendsim.dtypes import FLOAT, HALF, saturate
from ascendsim.errors import Rule
from ascendsim.isa import rules
from ascendsim.isa.forms import Call, Form, Mask, apply_mask, begin_count, declare, end_count, set_mask, set_mask_mode
from ascendsim.isa.instruction import Array, Context, Recorder, Register, Row, Step, need_count, need_int
from ascendsim.isa.lanes import byte_range, element_offsets, lane_grid, operand_at, repeats_of
from ascendsim.isa.reduce import adjacent_pair_tree, record_reduce, sum_of
from ascendsim.isa.scalar import ScalarInstructions
from ascendsim.isa.sync import BarrierCall, FlagCall, SyncInstructions
from ascendsim.memory import Lanes, LocalTensor
from ascendsim.terms import MAX_REPEAT_TIMES, HardEvent, MaskMode, Pipe, align_up, ceil_div

TMP_REDUCE = Rule(
    "E-TMP-REDUCE",
    "{api} {operand}: the work buffer has {got} elements, {wanted} are needed",
    "enlarge shared_tmp_buffer; its size follows from the repeats",
    "asc-devkit docs, ReduceSum, ReduceMax and ReduceMin pages",
    condition="The work buffer of ReduceSum, ReduceMax or ReduceMin has fewer elements than the repeats need.",
)
LANES = ("repeat", "src0_blk_stride", "src0_rep_stride")


# ---- between pipes, and one element ---------------------------------------------------------------------------------


def hand_over(asc: Recorder, *events: HardEvent) -> None:
    """Record a flag and its wait for each of these pairs, with ids that are free now (FetchEventID)."""
    for event in events:
        event_id = asc.fetch_event_id(event)
        FlagCall(asc, SyncInstructions.set_flag.op)(event, event_id)
        FlagCall(asc, SyncInstructions.wait_flag.op)(event, event_id)


def _barrier(asc: Recorder) -> None:
    BarrierCall(asc, SyncInstructions.pipe_barrier.op)(Pipe.V)


def _store(asc: Recorder, dst: LocalTensor, scalar: Register) -> None:
    """The scalar unit stores a result that V made and tells V and MTE3."""
    asc.emit(SetValueInstruction.set_value.op, dst=dst, scalar=scalar, scalar_dtype=dst.dtype)
    hand_over(asc, HardEvent.S_V, HardEvent.S_MTE3)


class SetValueCall(Call):
    """tensor, index in elements, value; the value is a number or a Register."""

    def __call__(self, tensor: LocalTensor, index: int, value: float | Register) -> None:
        """Record the call."""
        self.locals(tensor=tensor)
        need_int(self.asc, self.op.api, "index", index)
        self.asc.emit(self.op, dst=tensor[index], scalar=value, scalar_dtype=tensor.dtype)


def _touch_element(row: Row) -> tuple[tuple[str, int, int], ...]:
    assert row.dst is not None
    return (("dst", 0, row.dst.dtype.bytes),)


def _run_set_value(ctx: Context, row: Row) -> Step:
    assert row.dst is not None
    scalar, write = ctx.scalar(row), ctx.writer(row.dst, Lanes.run(1))
    return lambda: write(scalar().reshape(1))


class SetValueInstruction:
    """SetValue."""

    set_value = Form(
        declare(
            "set_value",
            """Write one element of UB on the scalar unit: a number or a Register. It takes as long as GetValue.

            Source: asc-devkit docs, LocalTensor SetValue page.
            """,
            api="SetValue",
            mnemonic="scalar_store",
            pipe=Pipe.S,
            params=(),
            cost="scalar",
            family="get_value",
            execute=_run_set_value,
            touch=_touch_element,
            checks=(rules.element_aligned, rules.in_bounds),
            uses_mask=False,
            takes_scalar=True,
        ),
        SetValueCall,
    )


# ---- sums -----------------------------------------------------------------------------------------------------------


def _touch_lanes(row: Row) -> tuple[tuple[str, int, int], ...]:
    assert row.src0 is not None
    d = row.src0.dtype
    at = operand_at(row, d.per_repeat, row.param("src0_blk_stride"), row.param("src0_rep_stride"), d.bytes)
    return (("src0", *byte_range(at, d.bytes)),)


def _run_accumulate(ctx: Context, row: Row) -> Step | None:
    """Each repeat as an adjacent-pair tree, then one repeat's sum after the other; no lanes, no sum."""
    src = row.src0
    assert src is not None
    lanes = src.dtype.per_repeat
    repeats, lane = lane_grid(row, lanes)
    if not lane.size:
        return None
    strides = row.param("src0_blk_stride"), row.param("src0_rep_stride")
    read = ctx.reader(src, Lanes.at(element_offsets(repeats, lane, *strides, src.dtype.bytes)))
    keep = ctx.register(row)
    present = np.zeros((repeats_of(row, lanes), lanes), np.bool_)
    present[repeats, lane] = True

    def add(a: Array, b: Array) -> Array:
        return saturate(a + b, ctx.overflow)

    def step() -> None:
        grid = np.zeros(present.shape, src.dtype.numpy)
        grid[present] = read()
        sums = adjacent_pair_tree(grid, present, add)
        total = sums[:1]
        for at in range(1, sums.size):
            total = add(total, sums[at : at + 1])
        keep(total[0])

    return step


ACCUMULATE = declare(
    "reduce_sum_accumulate",
    """A register = the sum of all lanes: a tree inside each repeat, then repeat after repeat (vcadd, mode 1).

    Source: asc-devkit docs, ReduceSum page, first way.
    """,
    api="ReduceSum",
    mnemonic="vcadd",
    pipe=Pipe.V,
    params=LANES,
    cost="vector",
    family="WholeReduceSum",
    execute=_run_accumulate,
    touch=_touch_lanes,
    checks=(
        rules.sums_floats,
        rules.dtypes((HALF, FLOAT), "src0"),
        rules.aligned("src0"),
        *rules.UNDER_MASK,
        rules.in_bounds,
    ),
    uses_mask=True,
)


def _tree(values: Array, present: Array | None, add: Callable[[Array, Array], Array]) -> Array:
    """Sums of repeats, one of the rounds of ReduceSum's second way; half, float.

    Source: asc-devkit docs, ReduceSum page, second way.
    """
    return adjacent_pair_tree(values, present, add)


def _tree_again(values: Array, present: Array | None, add: Callable[[Array, Array], Array]) -> Array:
    """dst[r * dst_rep_stride] = sum of repeat r, as WholeReduceSum without a bit mask; half, float.

    Source: asc-devkit docs, RepeatReduceSum and ReduceRepeat pages.
    """
    return adjacent_pair_tree(values, present, add)


SUM_ROUND = sum_of(
    _tree, lambda d: d.per_repeat, 1,
    name="reduce_sum_round", api="ReduceSum", mnemonic="vcadd", family="WholeReduceSum",
)  # fmt: skip
REPEAT_SUM = sum_of(
    _tree_again, lambda d: d.per_repeat, 1,
    name="repeat_reduce_sum", api="RepeatReduceSum", mnemonic="vcadd", family="WholeReduceSum",
)  # fmt: skip


class RepeatReduceSumCall(Call):
    """dst, src, repeat_times, mask (a number of lanes), dst_blk_stride, src_blk_stride, dst_rep_stride, src_rep_stride.

    dst_blk_stride has no effect; dst_rep_stride counts elements.
    """

    reports = (rules.RANGE_MASK,)

    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        repeat_times: int,
        mask: int,
        dst_blk_stride: int,
        src_blk_stride: int,
        dst_rep_stride: int,
        src_rep_stride: int,
    ) -> None:
        """Record the call."""
        need_int(self.asc, self.op.api, "mask", mask)
        need_int(self.asc, self.op.api, "dst_blk_stride", dst_blk_stride)
        record_reduce(self, dst, src, mask, (repeat_times, src_blk_stride, dst_rep_stride, src_rep_stride))


class WorkCall(Call):
    """Base of the tensor-level reductions: operands, and the work buffer's size."""

    reports = (rules.RANGE_MASK, rules.DTYPE_SAME, TMP_REDUCE)

    def operands(self, dst: LocalTensor, src: LocalTensor, work: LocalTensor) -> None:
        """Refuse what is no local tensor, and note a dst of another dtype."""
        self.locals(dst=dst, src=src, shared_tmp_buffer=work)
        if dst.dtype.name != src.dtype.name:
            got = f"dst {dst.dtype}, src0 {src.dtype}"
            self.asc.report(rules.DTYPE_SAME, operand="dst", got=got, wanted="one dtype", api=self.op.api)

    def has_work(self, work: LocalTensor, elements: int) -> bool:
        """Whether the work buffer is large enough; one that is not is noted, and nothing is recorded with it."""
        if work.count < elements:
            self.asc.report(TMP_REDUCE, operand="work", got=work.count, wanted=elements, api=self.op.api)
        return work.count >= elements


class ReduceSumCall(WorkCall):
    """dst, src, shared_tmp_buffer; then count, or mask, repeat_times (any number), src_rep_stride."""

    @overload
    def __call__(self, dst: LocalTensor, src: LocalTensor, shared_tmp_buffer: LocalTensor, count: int, /) -> None: ...
    @overload
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        shared_tmp_buffer: LocalTensor,
        mask: Mask,
        repeat_times: int,
        src_rep_stride: int,
    ) -> None: ...
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        shared_tmp_buffer: LocalTensor,
        mask: Mask,
        repeat_times: int | None = None,
        src_rep_stride: int = 8,
    ) -> None:
        """Record the call."""
        self.operands(dst, src, shared_tmp_buffer)
        if repeat_times is None:
            self._accumulate(dst, src, need_count(self.asc, self.op.api, "count", mask))
            return
        need_count(self.asc, self.op.api, "repeat_times", repeat_times)
        need_int(self.asc, self.op.api, "src_rep_stride", src_rep_stride)
        if self.has_work(shared_tmp_buffer, align_up(repeat_times, src.dtype.per_datablock)):
            self._in_rounds(dst, src, shared_tmp_buffer, mask, repeat_times, src_rep_stride)

    def _accumulate(self, dst: LocalTensor, src: LocalTensor, count: int) -> None:
        asc = self.asc
        begin_count(asc, self.op.api, count)
        total = asc.new_register(src.dtype)
        asc.emit(ACCUMULATE, src0=src, params=(1, 1, 8), scalar=total)
        if count:
            hand_over(asc, HardEvent.V_S)
            _store(asc, dst, total)
        end_count(asc)

    def _in_rounds(
        self, dst: LocalTensor, src: LocalTensor, work: LocalTensor, mask: Mask, repeat_times: int, src_rep_stride: int
    ) -> None:
        """Sums of repeats, sums of those, and the sum of what is left; a single one is copied by the scalar unit."""
        asc, d = self.asc, src.dtype
        apply_mask(asc, self.op.api, mask, d)
        for first in range(0, repeat_times, MAX_REPEAT_TIMES) or (0,):
            part = min(MAX_REPEAT_TIMES, repeat_times - first)
            source = src[first * src_rep_stride * d.per_datablock]
            asc.emit(SUM_ROUND, dst=work[first], src0=source, params=(part, 1, 1, src_rep_stride))
        if repeat_times > 1:
            _barrier(asc)
            set_mask_mode(asc, MaskMode.COUNTER)
            set_mask(asc, 0, repeat_times)
            asc.emit(SUM_ROUND, dst=work, src0=work, params=(1, 1, 1, 8))
            set_mask_mode(asc, MaskMode.NORMAL)
            _barrier(asc)
        left = ceil_div(repeat_times, d.per_repeat)
        if left > 1:
            apply_mask(asc, self.op.api, left, d)
            asc.emit(SUM_ROUND, dst=dst, src0=work, params=(1, 1, 1, 8))
        elif left == 1:
            hand_over(asc, HardEvent.V_S)
            _store(asc, dst, ScalarInstructions.get_value.call(asc, ScalarInstructions.get_value.op)(work))


class TensorReduceInstructions(SetValueInstruction):
    """RepeatReduceSum, ReduceSum, SetValue."""

    repeat_reduce_sum = Form(REPEAT_SUM, RepeatReduceSumCall)
    reduce_sum = Form(ACCUMULATE, ReduceSumCall)
