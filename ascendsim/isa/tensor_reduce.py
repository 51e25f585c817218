"""Reductions of a whole tensor to one result, which the library makes of several instructions; and SetValue.

ReduceSum is recorded as the rows that the library of arch 2201 issues. ReduceMax and ReduceMin are one vector row with
the time of all their rounds, because the library walks back through its rounds on the scalar unit to find an index:
those few scalar loads and stores are not counted, which errs fast. All three hand over from V to S and from S to V and
MTE3, as the library does, so the scalar unit stands until the vector pipe is done.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import overload

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import FLOAT, HALF, DType, saturate
from ascendsim.errors import Finding, Rule
from ascendsim.isa import rules
from ascendsim.isa.extreme import BEST, values_at, word_of
from ascendsim.isa.forms import Call, Form, Mask, apply_mask, declare, set_mask, set_mask_mode
from ascendsim.isa.instruction import Array, Context, Instruction, Recorder, Register, Row, Step, TensorRef, need_int
from ascendsim.isa.lanes import byte_range, element_offsets, lane_grid, operand_at, repeats_of
from ascendsim.isa.reduce import adjacent_pair_tree, record_reduce, sum_of
from ascendsim.isa.scalar import ScalarInstructions
from ascendsim.isa.sync import BarrierCall, FlagCall, SyncInstructions
from ascendsim.memory import Lanes, LocalTensor
from ascendsim.terms import FULL_MASK, MAX_REPEAT_TIMES, HardEvent, MaskMode, Pipe, align_up, ceil_div

TMP_REDUCE = Rule(
    "E-TMP-REDUCE",
    "{api} {operand}: the work buffer has {got} elements, {wanted} are needed",
    "enlarge shared_tmp_buffer; its size follows from the repeats",
    "asc-devkit docs, ReduceSum, ReduceMax and ReduceMin pages",
)
HALF_INDEX = Rule(
    "E-INDEX-RANGE",
    "{api}: indices reach {got}, a half holds at most {wanted}",
    "reduce in float, or in parts",
    "asc-devkit docs, ReduceMax and ReduceMin pages",
)
MOST_HALF_INDEX = 65535
EXTREME = ("repeat", "src0_rep_stride", "with_index", "work_elements")
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


def _run_accumulate(ctx: Context, row: Row) -> Step:
    """Each repeat as an adjacent-pair tree, then one repeat's sum after the other."""
    src = row.src0
    assert src is not None
    lanes = src.dtype.per_repeat
    repeats, lane = lane_grid(row, lanes)
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
    checks=(rules.dtypes((HALF, FLOAT), "src0"), rules.aligned("src0"), rules.repeat_range, rules.in_bounds),
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

    def operands(self, dst: LocalTensor, src: LocalTensor, work: LocalTensor) -> None:
        """Refuse what is no local tensor, and note a dst of another dtype."""
        self.locals(dst=dst, src=src, shared_tmp_buffer=work)
        if dst.dtype.name != src.dtype.name:
            got = f"dst {dst.dtype}, src0 {src.dtype}"
            self.asc.report(rules.DTYPE_SAME, operand="dst", got=got, wanted="one dtype", api=self.op.api)

    def need_work(self, work: LocalTensor, elements: int) -> None:
        """Note a work buffer that is too small."""
        if work.count < elements:
            self.asc.report(TMP_REDUCE, operand="work", got=work.count, wanted=elements, api=self.op.api)


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
            need_int(self.asc, self.op.api, "count", mask)
            self._accumulate(dst, src, int(mask))  # type: ignore[arg-type]
            return
        need_int(self.asc, self.op.api, "repeat_times", repeat_times)
        need_int(self.asc, self.op.api, "src_rep_stride", src_rep_stride)
        self.need_work(shared_tmp_buffer, align_up(repeat_times, src.dtype.per_datablock))
        self._in_rounds(dst, src, shared_tmp_buffer, mask, repeat_times, src_rep_stride)

    def _accumulate(self, dst: LocalTensor, src: LocalTensor, count: int) -> None:
        asc = self.asc
        set_mask_mode(asc, MaskMode.COUNTER)
        set_mask(asc, 0, count)
        total = asc.new_register(src.dtype)
        asc.emit(ACCUMULATE, src0=src, params=(1, 1, 8), scalar=total)
        if count:
            hand_over(asc, HardEvent.V_S)
            _store(asc, dst, total)
        set_mask_mode(asc, MaskMode.NORMAL)
        set_mask(asc, FULL_MASK, FULL_MASK)

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


# ---- largest and smallest -------------------------------------------------------------------------------------------


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
        is_count = repeat_times is None
        if repeat_times is None:
            need_int(asc, api, "count", mask)
            set_mask_mode(asc, MaskMode.COUNTER)
            set_mask(asc, 0, int(mask))  # type: ignore[arg-type]
            repeat_times, whole = 1, int(mask) // lanes  # type: ignore[arg-type]
        else:
            need_int(asc, api, "repeat_times", repeat_times)
            need_int(asc, api, "src_rep_stride", src_rep_stride)
            apply_mask(asc, api, mask, src.dtype)
            whole = repeat_times
        needed = work_elements(whole, src.dtype, with_index=cal_index)
        self.need_work(shared_tmp_buffer, needed)
        params = (repeat_times, src_rep_stride, int(cal_index), needed)
        asc.emit(self.op, dst=dst, src0=src, src1=shared_tmp_buffer, params=params)
        hand_over(asc, HardEvent.V_S, HardEvent.S_V, HardEvent.S_MTE3)
        if is_count:
            set_mask_mode(asc, MaskMode.NORMAL)
            set_mask(asc, FULL_MASK, FULL_MASK)


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


def _any_repeat(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Any number of repeats is taken; none is worth a warning."""
    del tensors, device
    what = "count" if row.mask_mode is MaskMode.COUNTER else "repeat"
    number = row.mask_lo if row.mask_mode is MaskMode.COUNTER else row.param("repeat")
    if number > 0:
        return []
    return [rules.REPEAT_ZERO.finding(where, got=number, wanted="at least 1", fill={"api": row.op.api, "what": what})]


def _index_fits(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """An index of half data has 16 bits."""
    del tensors, device
    at = _source_at(row)
    if row.src0 is None or row.src0.dtype is not HALF or not row.param("with_index") or not at.size:
        return []
    if at.max() <= MOST_HALF_INDEX:
        return []
    return [HALF_INDEX.finding(where, operand="dst", got=at.max(), wanted=MOST_HALF_INDEX, fill={"api": row.op.api})]


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


class TensorReduceInstructions(SetValueInstruction):
    """RepeatReduceSum, ReduceSum, ReduceMax, ReduceMin, SetValue."""

    repeat_reduce_sum = Form(REPEAT_SUM, RepeatReduceSumCall)
    reduce_sum = Form(ACCUMULATE, ReduceSumCall)
    reduce_max = Form(_extreme("Max"), ReduceExtremeCall)
    reduce_min = Form(_extreme("Min"), ReduceExtremeCall)
