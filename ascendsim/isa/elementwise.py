"""More call forms of element-wise instructions: one source, dst as a source, operands of different types, shifts."""

from collections.abc import Callable
from typing import overload

from ascendsim.dtypes import DType, cast, saturate
from ascendsim.isa import rules
from ascendsim.isa.forms import (
    BINARY,
    UNARY,
    Arithmetic,
    BinaryRepeatParams,
    Call,
    Form,
    Mask,
    ScalarCall,
    Strides,
    UnaryRepeatParams,
    clamped,
    element_wise,
    one_type,
    with_scalar,
)
from ascendsim.isa.instruction import Array, Check, Context, Register, Row
from ascendsim.isa.params import need_bool
from ascendsim.memory import LocalTensor
from ascendsim.terms import RoundMode

Kinds = tuple[tuple[DType, DType], ...]
"""Allowed (dst, source) types; two sources have one type."""


def widest(*tensors: LocalTensor) -> DType:
    """The type whose lanes a mask counts."""
    return max((t.dtype for t in tensors), key=lambda d: d.bytes)


def contiguous(dst: LocalTensor, *sources: LocalTensor) -> tuple[int, ...]:
    """Strides of the count form: block strides, then repeat strides, smaller for the narrower types."""
    tensors = (dst, *sources)
    wide = widest(*tensors).bytes
    return (*(1 for _ in tensors), *(8 * t.dtype.bytes // wide for t in tensors))


# ---- one source ---------------------------------------------------------------------------------------------------


class UnaryCall(Call):
    """dst, src; then count, or mask, repeat_times and strides."""

    reports = (rules.RANGE_MASK,)

    @overload
    def __call__(self, dst: LocalTensor, src: LocalTensor, count: int, /) -> None: ...
    @overload
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        mask: Mask,
        repeat_times: int,
        repeat_params: UnaryRepeatParams = ...,
    ) -> None: ...
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        mask: Mask,
        repeat_times: int | None = None,
        repeat_params: UnaryRepeatParams = UnaryRepeatParams(),
    ) -> None:
        """Record the call."""
        self.locals(dst=dst, src=src)
        strides = Strides((1, 1, 8, 8), self.fields(repeat_params, UnaryRepeatParams))
        self.issue(mask, repeat_times, strides, dst, src)


def unary(api: str, mnemonic: str, allowed: tuple[DType, ...], *more: Check) -> Callable[[Arithmetic], Form[UnaryCall]]:
    """Declare a one-source element-wise instruction; the decorated function is its arithmetic.

    Args:
        api: its AscendC name.
        mnemonic: its name in logs.
        allowed: element types.
        more: rules beyond those of the form.
    """

    def make(fn: Arithmetic) -> Form[UnaryCall]:
        bind = clamped(lambda _ctx, _row: fn)
        return Form(element_wise(fn, api, mnemonic, UNARY, bind, (*one_type(allowed), *more)), UnaryCall)

    return make


def unary_bits(api: str, mnemonic: str, allowed: tuple[DType, ...]) -> Callable[[Arithmetic], Form[UnaryCall]]:
    """Declare a one-source instruction on bits: nothing overflows, so no mode clamps its results."""

    def make(fn: Arithmetic) -> Form[UnaryCall]:
        op = element_wise(fn, api, mnemonic, UNARY, lambda _ctx, _row: fn, one_type(allowed))
        return Form(op, UnaryCall)

    return make


# ---- shifts -------------------------------------------------------------------------------------------------------


class RoundingShiftCall(Call):
    """dst, src, scalar; then count, or mask, repeat_times, strides and round_en."""

    reports = (rules.RANGE_MASK,)

    @overload
    def __call__(self, dst: LocalTensor, src: LocalTensor, scalar: int | Register, count: int, /) -> None: ...
    @overload
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        scalar: int | Register,
        mask: Mask,
        repeat_times: int,
        repeat_params: UnaryRepeatParams = ...,
        round_en: bool = ...,
    ) -> None: ...
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        scalar: int | Register,
        mask: Mask,
        repeat_times: int | None = None,
        repeat_params: UnaryRepeatParams = UnaryRepeatParams(),
        round_en: bool = False,
    ) -> None:
        """Record the call."""
        self.locals(dst=dst, src=src)
        need_bool(self.asc, self.op.api, "round_en", round_en)
        strides = Strides((1, 1, 8, 8), self.fields(repeat_params, UnaryRepeatParams))
        self.issue(mask, repeat_times, strides, dst, src, scalar=scalar, more_params=(int(round_en),))


def _shift_checks(allowed: tuple[DType, ...]) -> tuple[Check, ...]:
    return (rules.on_devices_with("vector_shift"), *one_type(allowed), rules.shift_range)


def shift(api: str, mnemonic: str, allowed: tuple[DType, ...]) -> Callable[[Arithmetic], Form[ScalarCall]]:
    """Declare a shift by a scalar number of bits; the decorated function takes the source and the number."""

    def make(fn: Arithmetic) -> Form[ScalarCall]:
        op = element_wise(fn, api, mnemonic, UNARY, with_scalar(fn), _shift_checks(allowed), takes_scalar=True)
        return Form(op, ScalarCall)

    return make


def rounding_shift(
    api: str, mnemonic: str, allowed: tuple[DType, ...]
) -> Callable[[Arithmetic], Form[RoundingShiftCall]]:
    """Declare a shift that may round; the decorated function takes the source, round_en and the number of bits."""

    def make(fn: Arithmetic) -> Form[RoundingShiftCall]:
        def bind(ctx: Context, row: Row) -> Arithmetic:
            round_en = bool(row.param("round_en"))
            return with_scalar(lambda values, bits: fn(values, round_en, bits))(ctx, row)

        params = (*UNARY, "round_en")
        op = element_wise(fn, api, mnemonic, params, bind, _shift_checks(allowed), takes_scalar=True)
        return Form(op, RoundingShiftCall)

    return make


# ---- two sources, and dst as one -----------------------------------------------------------------------------------


class MixedBinaryCall(Call):
    """dst, src0, src1; then count, or mask, repeat_times and strides. A mask counts lanes of the wider type."""

    reports = (rules.RANGE_MASK,)

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
        strides = Strides(contiguous(dst, src0, src1), self.fields(repeat_params, BinaryRepeatParams))
        self.issue(mask, repeat_times, strides, dst, src0, src1, lanes=widest(dst, src0, src1))


class AxpyCall(Call):
    """dst, src, scalar; then count, or mask, repeat_times and strides. The scalar has src's type."""

    reports = (rules.RANGE_MASK,)

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
        strides = Strides(contiguous(dst, src), self.fields(repeat_params, UnaryRepeatParams))
        self.issue(mask, repeat_times, strides, dst, src, scalar=scalar, lanes=widest(dst, src))


def _multiply_add(ctx: Context, row: Row, fn: Arithmetic) -> Arithmetic:
    """Let `fn` see dst's type only, with a multiplication that saturates, and saturate what it returns."""
    assert row.dst is not None
    kind = row.dst.dtype.numpy

    def multiply(a: Array, b: Array) -> Array:
        return saturate(a.astype(kind) * b.astype(kind), ctx.overflow)

    return lambda *values: saturate(fn(multiply, *values), ctx.overflow)


def accumulate(api: str, mnemonic: str, kinds: Kinds) -> Callable[[Arithmetic], Form[MixedBinaryCall]]:
    """Declare an instruction of dst and two sources; the decorated function takes the multiplication, then these."""

    def make(fn: Arithmetic) -> Form[MixedBinaryCall]:
        def bind(ctx: Context, row: Row) -> Arithmetic:
            return _multiply_add(ctx, row, fn)

        types = (rules.dtype_pairs(kinds),)
        return Form(element_wise(fn, api, mnemonic, BINARY, bind, types, reads_dst=True), MixedBinaryCall)

    return make


def accumulate_scalar(api: str, mnemonic: str, kinds: Kinds) -> Callable[[Arithmetic], Form[AxpyCall]]:
    """Declare an instruction of dst, a source and a scalar; the decorated function takes the multiplication first."""

    def make(fn: Arithmetic) -> Form[AxpyCall]:
        def bind(ctx: Context, row: Row) -> Arithmetic:
            return with_scalar(_multiply_add(ctx, row, fn))(ctx, row)

        types = (rules.dtype_pairs(kinds),)
        op = element_wise(fn, api, mnemonic, UNARY, bind, types, takes_scalar=True, scalar_role="src0", reads_dst=True)
        return Form(op, AxpyCall)

    return make


def binary_cast(api: str, mnemonic: str, kinds: Kinds) -> Callable[[Arithmetic], Form[MixedBinaryCall]]:
    """Declare a two-source instruction whose result is converted to dst's type with CAST_NONE."""

    def make(fn: Arithmetic) -> Form[MixedBinaryCall]:
        def bind(ctx: Context, row: Row) -> Arithmetic:
            assert row.dst is not None
            to = row.dst.dtype
            return lambda a, b: cast(saturate(fn(a, b), ctx.overflow), to, RoundMode.CAST_NONE, ctx.overflow)

        return Form(element_wise(fn, api, mnemonic, BINARY, bind, (rules.dtype_pairs(kinds),)), MixedBinaryCall)

    return make
