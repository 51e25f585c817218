"""How instructions are called: the count form and the mask/repeat form of AscendC, once for all instructions.

A form is a descriptor on the AiCore class; `asc.mul` gives a callable that records. The count form of a vector
instruction is counter mode with the count as mask, repeat 1, then normal mode with a full mask, as the real library
issues it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache, partial
from operator import attrgetter
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import numpy as np

from ascendsim.dtypes import DType, saturate
from ascendsim.errors import Rule
from ascendsim.isa import rules
from ascendsim.isa.instruction import (
    Array,
    Check,
    Context,
    Execute,
    Geometry,
    Instruction,
    Operand,
    Recorder,
    Register,
    Row,
    Step,
    Touch,
    in_turn,
    need_int,
    need_local,
    register_instruction,
    run_nothing,
    touch_nothing,
)
from ascendsim.isa.lanes import byte_range, element_offsets, lane_grid, lanes_of, mask_bits, operand_at
from ascendsim.isa.overlap import no_partial_overlap
from ascendsim.isa.params import ParamsT, need_params
from ascendsim.memory import Lanes, LocalTensor
from ascendsim.terms import FULL_MASK, HalfOverflow, MaskMode, Pipe

Mask = int | tuple[int, int] | None
"""Lanes from lane 0; or (low, high) 64-bit words; or None: the mask set before (MASK_PLACEHOLDER)."""
MASK_WORDS = 2
"""64-bit words of a mask."""

BINARY = (
    "repeat",
    "dst_blk_stride",
    "src0_blk_stride",
    "src1_blk_stride",
    "dst_rep_stride",
    "src0_rep_stride",
    "src1_rep_stride",
)
UNARY = ("repeat", "dst_blk_stride", "src0_blk_stride", "dst_rep_stride", "src0_rep_stride")
REDUCE = ("repeat", "src0_blk_stride", "dst_rep_stride", "src0_rep_stride")
FILL = ("repeat", "dst_blk_stride", "dst_rep_stride")


@dataclass(frozen=True, slots=True)
class BinaryRepeatParams:
    """Strides in datablocks of a two-source instruction."""

    dst_blk_stride: int = 1
    src0_blk_stride: int = 1
    src1_blk_stride: int = 1
    dst_rep_stride: int = 8
    src0_rep_stride: int = 8
    src1_rep_stride: int = 8


@dataclass(frozen=True, slots=True)
class UnaryRepeatParams:
    """Strides in datablocks of a one-source instruction."""

    dst_blk_stride: int = 1
    src_blk_stride: int = 1
    dst_rep_stride: int = 8
    src_rep_stride: int = 8


@dataclass(frozen=True, slots=True)
class Strides:
    """Strides of a call, in the order of the instruction's parameters: of the count form, and of the mask form."""

    count_form: tuple[int, ...]
    mask_form: tuple[int, ...]


CallT = TypeVar("CallT")


class Form(Generic[CallT]):
    """An instruction as an attribute of AiCore: `asc.name` is the callable that records it."""

    call: type[CallT]

    def __init__(self, op: Instruction, call: type[CallT]) -> None:
        self.op = op
        self.call = call
        self.__doc__ = op.doc

    @overload
    def __get__(self, asc: None, owner: type) -> Self: ...
    @overload
    def __get__(self, asc: Recorder, owner: type) -> CallT: ...
    def __get__(self, asc: Recorder | None, owner: type) -> Self | CallT:
        if asc is None:
            return self
        return self.call(asc, self.op)  # type: ignore[call-arg]


class Call:
    """Base of the callables: the core that records and the instruction."""

    __slots__ = ("asc", "op")

    reports: ClassVar[tuple[Rule, ...]] = ()
    """Rules that the call itself may find while it is recorded, beside the checks of its rows."""

    def __init__(self, asc: Recorder, op: Instruction) -> None:
        self.asc = asc
        self.op = op

    def issue(
        self,
        mask: Mask,
        repeat_times: int | None,
        strides: Strides,
        dst: LocalTensor,
        src0: LocalTensor | None = None,
        src1: LocalTensor | None = None,
        *,
        scalar: float | Register | None = None,
        more_params: tuple[int, ...] = (),
        lanes: DType | None = None,
    ) -> None:
        """Record the count form (no repeat_times: `mask` is the count) or the mask form of a vector instruction.

        Args:
            mask: the count, or the mask.
            repeat_times: None for the count form.
            strides: of the count form, and the parameters of the mask form.
            dst: destination, then up to two sources.
            src0: first source.
            src1: second source.
            scalar: number or register, taken in dst's type, or in that of the operand that the instruction names.
            more_params: what the instruction takes beside repeat and strides.
            lanes: type whose lanes a mask counts, dst's if left out.
        """
        asc, op = self.asc, self.op
        if repeat_times is None:
            begin_count(asc, op.api, mask)
            params = (1, *strides.count_form, *more_params)
        else:
            need_int(asc, op.api, "repeat_times", repeat_times)
            apply_mask(asc, op.api, mask, lanes or dst.dtype)
            params = (repeat_times, *strides.mask_form, *more_params)
        like = src0 if op.scalar_role == "src0" and src0 is not None else dst
        asc.emit(op, dst=dst, src0=src0, src1=src1, params=params, scalar=scalar, scalar_dtype=like.dtype)
        if repeat_times is None:
            end_count(asc)

    def fields(self, params: object, kind: type[ParamsT]) -> tuple[int, ...]:
        """Return the fields of a parameter struct in their order, or refuse what is none of this kind."""
        return _values_of(kind)(need_params(self.asc, self.op.api, params, kind))

    def locals(self, **tensors: object) -> None:
        """Refuse operands that are not local tensors."""
        for arg, tensor in tensors.items():
            need_local(self.asc, self.op.api, arg, tensor)


@cache
def _values_of(kind: type[Any]) -> Callable[[object], tuple[int, ...]]:
    """What gives the fields of a struct of several numbers: what `astuple` gives, which takes many times as long."""
    return attrgetter(*(field.name for field in fields(kind)))


def begin_count(asc: Recorder, api: str, count: object) -> None:
    """Counter mode with `count` elements, as the count form of every instruction begins."""
    need_int(asc, api, "count", count)
    set_mask_mode(asc, MaskMode.COUNTER)
    set_mask(asc, 0, int(count))  # type: ignore[call-overload]


def end_count(asc: Recorder) -> None:
    """Normal mode with a full mask, as the count form of every instruction ends."""
    set_mask_mode(asc, MaskMode.NORMAL)
    set_mask(asc, FULL_MASK, FULL_MASK)


def set_mask_mode(asc: Recorder, mode: MaskMode) -> None:
    """Record SetMaskCount or SetMaskNorm."""
    asc.mask.mode = mode
    asc.emit(MASK_OPS["count" if mode is MaskMode.COUNTER else "norm"])


def set_mask(asc: Recorder, hi: int, lo: int) -> None:
    """Record SetVectorMask."""
    for word in (hi, lo):
        if not 0 <= word <= FULL_MASK:
            raise asc.fail(f"mask or count {word} does not fit the 64-bit mask register")
    asc.mask.hi, asc.mask.lo = hi, lo
    asc.emit(MASK_OPS["mask"])


MASK_OPS: dict[str, Instruction] = {}
"""The three mask set-up instructions; `scalar.py` declares them and enters them here."""


def apply_mask(asc: Recorder, api: str, mask: Mask, dtype: DType) -> None:
    """Record the mask set-up of a mask/repeat form."""
    if mask is None:
        return
    if isinstance(mask, tuple):
        _need_pair(asc, api, mask)
        set_mask(asc, mask[1], mask[0])
        _report_bits_beyond(asc, api, mask, dtype)
        return
    need_int(asc, api, "mask", mask)
    if asc.mask.mode is MaskMode.COUNTER:
        set_mask(asc, 0, mask)
        return
    set_mask(asc, *mask_bits(max(0, min(mask, dtype.per_repeat))))
    if mask > dtype.per_repeat or mask < 0:
        asc.report(rules.RANGE_MASK, got=mask, wanted=dtype.per_repeat, api=api)


def _need_pair(asc: Recorder, api: str, mask: tuple[object, ...]) -> None:
    """Raise a KernelError unless a mask that is a tuple is two whole numbers."""
    if len(mask) != MASK_WORDS or any(isinstance(word, bool) or not isinstance(word, int) for word in mask):
        raise asc.fail(f"{api}: a mask pair must be two whole numbers (low, high), got {mask!r}")


def _report_bits_beyond(asc: Recorder, api: str, mask: tuple[int, int], dtype: DType) -> None:
    """Say that a bit mask names lanes that a repeat does not have; all bits, as ResetMask sets them, name all lanes."""
    low, high = mask
    is_full = low == high == FULL_MASK
    beyond = (low | high << 64) >> dtype.per_repeat
    if asc.mask.mode is MaskMode.NORMAL and beyond and not is_full:
        got = f"0x{high:016x}{low:016x}"
        asc.report(rules.RANGE_MASK_BITS, operand="mask", got=got, wanted=dtype.per_repeat, api=api)


def declare(
    name: str,
    doc: str | None,
    *,
    api: str,
    mnemonic: str,
    pipe: Pipe | None,
    params: tuple[str, ...],
    cost: str,
    family: str,
    execute: Execute,
    touch: Touch,
    checks: tuple[Check, ...],
    uses_mask: bool,
    takes_scalar: bool = False,
    scalar_role: str = "dst",
    reads_dst: bool = False,
    lane_roles: tuple[str, ...] = ("dst", "src0", "src1"),
    geometry: Geometry | None = None,
) -> Instruction:
    """Enter one instruction into the table."""
    return register_instruction(
        Instruction(
            api=api,
            mnemonic=mnemonic,
            pipe=pipe,
            params=params,
            cost=cost,
            family=family,
            execute=execute,
            touch=touch,
            checks=checks,
            uses_mask=uses_mask,
            takes_scalar=takes_scalar,
            doc=doc or "",
            name=name,
            scalar_role=scalar_role,
            reads_dst=reads_dst,
            lane_roles=lane_roles,
            geometry=geometry,
        )
    )


def declare_setter(name: str, doc: str, *, api: str = "") -> Instruction:
    """Enter an instruction that sets a register of the core and touches no data; each costs what a mask setter does."""
    return declare(
        name,
        doc,
        api=api,
        mnemonic=name,
        pipe=Pipe.S,
        params=(),
        cost="scalar",
        family="mask",
        execute=run_nothing,
        touch=touch_nothing,
        checks=(),
        uses_mask=False,
    )


def elements(row: Row, role: str, operand: Operand) -> Lanes:
    """Elements that one operand of an element-wise row touches."""
    return operand_at(
        row, lanes_of(row), row.param(f"{role}_blk_stride"), row.param(f"{role}_rep_stride"), operand.dtype.bytes
    )


def touch_elementwise(row: Row) -> tuple[tuple[str, int, int], ...]:
    """Byte ranges of an element-wise row."""
    return tuple((role, *byte_range(elements(row, role, o), o.dtype.bytes)) for role, o in row.operands)


Arithmetic = Callable[..., Array]
"""Sources, 1-D, one lane behind the other, to results of the same length; dst comes first where it is a source."""
Bind = Callable[[Context, Row], Arithmetic]
"""The arithmetic of a row, with what it takes from the row's parameters or scalar."""


def times_nothing(row: Row) -> bool:
    """Whether a product is 0 whatever the source holds: an integer times an immediate 0."""
    return row.register < 0 and row.scalar_bits == 0 and row.scalar_dtype.numpy.kind in "iu"


def run_elementwise(bind: Bind, *, is_blind: Callable[[Row], bool] | None = None) -> Execute:
    """Return the execution of dst = f(sources) over all active lanes, repeat by repeat where operands overlap.

    Args:
        bind: the arithmetic.
        is_blind: rows whose result does not depend on their sources, which need not have been written then.
    """

    def execute(ctx: Context, row: Row) -> Step:
        dst = row.dst
        assert dst is not None
        if is_blind is not None and is_blind(row):
            return _apply(ctx, row, bind(ctx, row), partial(elements, row), is_blind=True)
        fn = bind(ctx, row)
        again = row.op.reads_dst and elements(row, "dst", dst).meets_itself
        if again or any(_overlaps(ctx, row, dst, role, o) for role, o in row.operands if role != "dst"):
            return in_turn([_apply(ctx, row, fn, at) for at in _repeat_by_repeat(row)])
        return _apply(ctx, row, fn, partial(elements, row))

    return execute


def _apply(
    ctx: Context, row: Row, fn: Arithmetic, at: Callable[[str, Operand], Lanes], *, is_blind: bool = False
) -> Step:
    """Read all lanes of the sources, compute, write all lanes of dst."""
    assert row.dst is not None
    reader = partial(_whatever, ctx) if is_blind else ctx.reader
    reads = [reader(o, at(role, o)) for role, o in row.operands if role != "dst" or row.op.reads_dst]
    write = ctx.writer(row.dst, at("dst", row.dst))

    def step() -> None:
        write(fn(*[read() for read in reads]))

    return step


def _whatever(ctx: Context, operand: Operand, at: Lanes) -> Callable[[], Array]:
    """Return what gives elements of an operand, written or not."""
    load = ctx.loader(operand, at)
    return lambda: load()[0]


def clamped(bind: Bind) -> Bind:
    """In saturation mode half results and integer results clamp; otherwise integers wrap and halves overflow."""

    def clamping(ctx: Context, row: Row) -> Arithmetic:
        return _clamped(ctx, row, bind(ctx, row))

    return clamping


def _clamped(ctx: Context, row: Row, fn: Arithmetic) -> Arithmetic:
    if ctx.overflow is HalfOverflow.INF_NAN:
        return fn
    assert row.src0 is not None
    kind = row.src0.dtype.numpy
    if kind.kind not in "iu":
        return lambda *values: saturate(fn(*values), ctx.overflow)
    info = np.iinfo(kind)
    return lambda *values: np.clip(fn(*(v.astype(np.int64) for v in values)), info.min, info.max).astype(kind)


def _overlaps(ctx: Context, row: Row, dst: Operand, role: str, src: Operand) -> bool:
    """Whether a source shares bytes with dst other than lane for lane, each byte once."""
    same = (
        ctx.distance(dst, src) == 0
        and dst.dtype.bytes == src.dtype.bytes
        and row.param("dst_blk_stride") == row.param(f"{role}_blk_stride")
        and row.param("dst_rep_stride") == row.param(f"{role}_rep_stride")
    )
    written, read = elements(row, "dst", dst), elements(row, role, src)
    if same and not written.meets_itself:
        return False
    return meet(ctx, dst, byte_range(written, dst.dtype.bytes), src, byte_range(read, src.dtype.bytes))


def meet(ctx: Context, dst: Operand, written: tuple[int, int], src: Operand, read: tuple[int, int]) -> bool:
    """Whether two byte ranges, each relative to its operand's start, share a byte."""
    apart = ctx.distance(dst, src)
    return apart is not None and written[0] < apart + read[1] and apart + read[0] < written[1]


def _repeat_by_repeat(row: Row) -> Iterator[Callable[[str, Operand], Lanes]]:
    """A whole repeat is read, then written (asc-devkit docs, general constraints)."""
    repeats, lanes = lane_grid(row, lanes_of(row))
    for r in np.unique(repeats):
        pick = repeats == r

        def at(role: str, o: Operand, pick: Array = pick) -> Lanes:
            blk, rep = row.param(f"{role}_blk_stride"), row.param(f"{role}_rep_stride")
            return Lanes.at(element_offsets(repeats[pick], lanes[pick], blk, rep, o.dtype.bytes))

        yield at


def with_scalar(fn: Arithmetic) -> Bind:
    """Return the arithmetic whose last argument is the row's scalar."""

    def bind(ctx: Context, row: Row) -> Arithmetic:
        scalar = ctx.scalar(row)
        return lambda *values: fn(*values, scalar())

    return bind


def element_wise(
    fn: Arithmetic,
    api: str,
    mnemonic: str,
    params: tuple[str, ...],
    bind: Bind,
    types: tuple[Check, ...],
    *,
    takes_scalar: bool = False,
    scalar_role: str = "dst",
    reads_dst: bool = False,
    is_blind: Callable[[Row], bool] | None = None,
) -> Instruction:
    """Declare an element-wise instruction whose name and docstring are those of `fn`.

    Args:
        fn: gives them.
        api: its AscendC name.
        mnemonic: its name in logs.
        params: its parameters.
        bind: the arithmetic.
        types: rules for types.
        takes_scalar: the last operand is a scalar.
        scalar_role: the operand whose type the scalar has.
        reads_dst: dst is a source, too.
        is_blind: rows whose result does not depend on their sources.
    """
    two = "src1_blk_stride" in params
    return declare(
        fn.__name__,
        fn.__doc__,
        api=api,
        mnemonic=mnemonic,
        pipe=Pipe.V,
        params=params,
        cost="vector",
        family=api,
        execute=run_elementwise(bind, is_blind=is_blind),
        touch=touch_elementwise,
        checks=(
            *types,
            rules.aligned("dst", "src0", "src1"),
            *rules.UNDER_MASK,
            rules.strides(255 if two else 65535, 255),
            no_partial_overlap(),
            rules.in_bounds,
        ),
        uses_mask=True,
        takes_scalar=takes_scalar,
        scalar_role=scalar_role,
        reads_dst=reads_dst,
    )


def one_type(allowed: tuple[DType, ...]) -> tuple[Check, ...]:
    """Return rules: operands have one of these types, all the same."""
    return (rules.dtypes(allowed, "dst", "src0", "src1"), rules.same_dtype)


class BinaryCall(Call):
    """dst, src0, src1; then count, or mask, repeat_times and strides."""

    reports = (rules.RANGE_MASK, rules.RANGE_MASK_BITS)

    @overload
    def __call__(self, dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, count: int, /) -> None: ...
    @overload
    def __call__(
        self,
        dst: LocalTensor,
        src0: LocalTensor,
        src1: LocalTensor,
        mask: Mask,
        repeat_times: int,
        repeat_params: BinaryRepeatParams = ...,
    ) -> None: ...
    def __call__(
        self,
        dst: LocalTensor,
        src0: LocalTensor,
        src1: LocalTensor,
        mask: Mask,
        repeat_times: int | None = None,
        repeat_params: BinaryRepeatParams = BinaryRepeatParams(),
    ) -> None:
        """Record the call."""
        self.locals(dst=dst, src0=src0, src1=src1)
        strides = Strides((1, 1, 1, 8, 8, 8), self.fields(repeat_params, BinaryRepeatParams))
        self.issue(mask, repeat_times, strides, dst, src0, src1)


def binary(api: str, mnemonic: str, allowed: tuple[DType, ...]) -> Callable[[Callable[..., Array]], Form[BinaryCall]]:
    """Declare a two-source element-wise instruction; the decorated function is its arithmetic."""

    def make(fn: Callable[..., Array]) -> Form[BinaryCall]:
        op = element_wise(fn, api, mnemonic, BINARY, clamped(lambda _ctx, _row: fn), one_type(allowed))
        return Form(op, BinaryCall)

    return make


class ScalarCall(Call):
    """dst, src, scalar; then count, or mask, repeat_times and strides. The scalar is a number or a Register."""

    reports = (rules.RANGE_MASK, rules.RANGE_MASK_BITS)

    @overload
    def __call__(self, dst: LocalTensor, src: LocalTensor, scalar: float | Register, count: int, /) -> None: ...
    @overload
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        scalar: float | Register,
        mask: Mask,
        repeat_times: int,
        repeat_params: UnaryRepeatParams = ...,
    ) -> None: ...
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        scalar: float | Register,
        mask: Mask,
        repeat_times: int | None = None,
        repeat_params: UnaryRepeatParams = UnaryRepeatParams(),
    ) -> None:
        """Record the call."""
        self.locals(dst=dst, src=src)
        strides = Strides((1, 1, 8, 8), self.fields(repeat_params, UnaryRepeatParams))
        self.issue(mask, repeat_times, strides, dst, src, scalar=scalar)


def scalar_binary(
    api: str, mnemonic: str, allowed: tuple[DType, ...], *, is_blind: Callable[[Row], bool] | None = None
) -> Callable[[Callable[..., Array]], Form[ScalarCall]]:
    """Declare an instruction of one tensor and one scalar; the decorated function is its arithmetic.

    Args:
        api: its AscendC name.
        mnemonic: its name in logs.
        allowed: element types.
        is_blind: rows whose result does not depend on the tensor.
    """

    def make(fn: Callable[..., Array]) -> Form[ScalarCall]:
        bind = clamped(with_scalar(fn))
        op = element_wise(fn, api, mnemonic, UNARY, bind, one_type(allowed), takes_scalar=True, is_blind=is_blind)
        return Form(op, ScalarCall)

    return make
