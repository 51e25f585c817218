"""Cast: conversions between element types with AscendC's rounding modes."""

from collections.abc import Callable, Iterable
from typing import overload

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import BFLOAT16, DTYPES, FLOAT, HALF, INT8, INT16, INT32, INT64, UINT8, DType, cast, pack, unpack
from ascendsim.errors import Finding, Rule
from ascendsim.isa import rules
from ascendsim.isa.elementwise import contiguous, widest
from ascendsim.isa.forms import (
    UNARY,
    Call,
    Form,
    Mask,
    Strides,
    UnaryRepeatParams,
    declare,
    run_elementwise,
    touch_elementwise,
)
from ascendsim.isa.instruction import Array, Context, Row, TensorRef, finds
from ascendsim.isa.overlap import no_partial_overlap
from ascendsim.memory import LocalTensor
from ascendsim.terms import Pipe, RoundMode

_LOSSLESS = (RoundMode.CAST_NONE,)
_FIVE = (
    RoundMode.CAST_RINT,
    RoundMode.CAST_FLOOR,
    RoundMode.CAST_CEIL,
    RoundMode.CAST_ROUND,
    RoundMode.CAST_TRUNC,
)

_INTEGERS = (
    RoundMode.CAST_FLOOR,
    RoundMode.CAST_CEIL,
    RoundMode.CAST_ROUND,
    RoundMode.CAST_TRUNC,
    RoundMode.CAST_NONE,
)

ROUND_MODES: dict[tuple[DType, DType], tuple[RoundMode, ...]] = {
    (HALF, FLOAT): _LOSSLESS,
    (BFLOAT16, FLOAT): _LOSSLESS,
    (INT8, HALF): _LOSSLESS,
    (UINT8, HALF): _LOSSLESS,
    (INT16, FLOAT): _LOSSLESS,
    (INT16, HALF): (*_FIVE, RoundMode.CAST_NONE),
    (INT32, FLOAT): (*_FIVE, RoundMode.CAST_NONE),
    (HALF, INT8): (*_FIVE, RoundMode.CAST_NONE),
    (HALF, UINT8): (*_FIVE, RoundMode.CAST_NONE),
    (HALF, INT16): _FIVE,
    (HALF, INT32): _FIVE,
    (BFLOAT16, INT32): _FIVE,
    (INT32, INT16): _LOSSLESS,
    (INT32, INT64): _LOSSLESS,
    (INT64, INT32): _LOSSLESS,
    (INT32, HALF): _LOSSLESS,
    (INT64, FLOAT): _FIVE,
    (FLOAT, HALF): (*_FIVE, RoundMode.CAST_ODD, RoundMode.CAST_NONE),
    (FLOAT, BFLOAT16): _FIVE,
    (FLOAT, INT16): _FIVE,
    (FLOAT, INT32): _FIVE,
    (FLOAT, INT64): _FIVE,
    (FLOAT, FLOAT): _FIVE,
}
"""Allowed (source, destination) pairs of arch 2201 and their rounding modes (asc-devkit docs, Cast page).

Without int4, which is not simulated. From int32_t to half `deq_cast_any_mode` allows every mode, and ignores it.
"""

NARROW_ROUND_MODES: dict[tuple[DType, DType], tuple[RoundMode, ...]] = {
    (HALF, FLOAT): _LOSSLESS,
    (INT8, HALF): _LOSSLESS,
    (UINT8, HALF): _LOSSLESS,
    (INT16, HALF): _LOSSLESS,
    (INT32, FLOAT): _LOSSLESS,
    (INT32, INT16): _LOSSLESS,
    (INT32, HALF): _LOSSLESS,
    (HALF, INT8): _INTEGERS,
    (HALF, UINT8): _INTEGERS,
    (HALF, INT16): (RoundMode.CAST_RINT,),
    (HALF, INT32): _FIVE,
    (FLOAT, HALF): (RoundMode.CAST_ODD, RoundMode.CAST_NONE),
    (FLOAT, INT32): _FIVE,
    (FLOAT, INT64): _FIVE,
}
"""The same for devices without `wide_cast` (arch 2002)."""

NARROW_UNDOCUMENTED = ((FLOAT, INT32),)
"""Pairs of devices without `wide_cast` that are in the library's code, not on its page."""

CAST_UNDOCUMENTED = Rule(
    "W-CAST-PAIR",
    "Cast: {got} is in the library's code for arch {arch}, not on the page",
    "cast to half first if only the page counts",
    "asc-devkit docs, Cast page; the library's code",
    condition="Cast gets a pair of types that is in the library's code and not on its page.",
    archs=(2002,),
)

_SUFFIX = {
    RoundMode.CAST_NONE: "",
    RoundMode.CAST_RINT: "r",
    RoundMode.CAST_FLOOR: "f",
    RoundMode.CAST_CEIL: "c",
    RoundMode.CAST_ROUND: "a",
    RoundMode.CAST_TRUNC: "z",
    RoundMode.CAST_ODD: "o",
}


_ONE = pack(1.0, HALF)


def _is_dequantisation(source: DType, to: DType) -> bool:
    """Whether a conversion multiplies by the scale that SetDeqScale has set."""
    return (source, to) == (INT32, HALF)


def cast_mnemonic(row: Row) -> str:
    """Return the intrinsic's name, for example vconv_f322f16a."""
    assert row.dst is not None
    assert row.src0 is not None
    if _is_dequantisation(row.src0.dtype, row.dst.dtype):
        return "vconv_deq"
    mode = RoundMode(row.param("round_mode"))
    return f"vconv_{row.src0.dtype.log_name}2{row.dst.dtype.log_name}{_SUFFIX[mode]}"


class CastCall(Call):
    """dst, src, round_mode; then count, or mask, repeat_times and strides."""

    reports = (rules.RANGE_MASK, rules.DEQ_SCALE)

    @overload
    def __call__(self, dst: LocalTensor, src: LocalTensor, round_mode: RoundMode, count: int, /) -> None: ...
    @overload
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        round_mode: RoundMode,
        mask: Mask,
        repeat_times: int,
        repeat_params: UnaryRepeatParams = ...,
    ) -> None: ...
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        round_mode: RoundMode,
        mask: Mask,
        repeat_times: int | None = None,
        repeat_params: UnaryRepeatParams = UnaryRepeatParams(),
    ) -> None:
        """Record the call."""
        self.locals(dst=dst, src=src)
        if not isinstance(round_mode, RoundMode):
            raise self.asc.fail(f"Cast: round_mode must be a RoundMode, got {round_mode!r}")
        strides = Strides(contiguous(dst, src), self.fields(repeat_params, UnaryRepeatParams))
        more = (int(round_mode), self._scale(src.dtype, dst.dtype))
        self.issue(mask, repeat_times, strides, dst, src, more_params=more, lanes=widest(dst, src))

    def _scale(self, source: DType, to: DType) -> int:
        """Bits of the half that a dequantisation multiplies by, 0 for any other conversion."""
        if not _is_dequantisation(source, to):
            return 0
        if self.asc.deq_scale is None:
            self.asc.report(rules.DEQ_SCALE, operand="src0", got="no scale", wanted="a scale", api="Cast")
            return _ONE
        return self.asc.deq_scale


def round_modes(device: Device) -> dict[tuple[DType, DType], tuple[RoundMode, ...]]:
    """Return the allowed pairs of a device and their rounding modes."""
    modes = ROUND_MODES if device.has("wide_cast") else NARROW_ROUND_MODES
    return modes | {(INT32, HALF): tuple(RoundMode)} if device.has("deq_cast_any_mode") else modes


def _detour(source: DType, to: DType, pairs: Iterable[tuple[DType, DType]]) -> str:
    """What to do where there is no conversion: go through another type, if two conversions lead there."""
    known = set(pairs)
    if source is to:
        return "nothing is to be converted: copy"
    via = [d for d in DTYPES if (source, d) in known and (d, to) in known]
    if via:
        return f"go through {via[0]}"
    return "no two conversions lead there either: use another type, or reinterpret_cast if the bits are meant"


@finds(rules.CAST_PAIR, CAST_UNDOCUMENTED, rules.CAST_ROUND)
def _pair_and_mode(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """The pair of types exists, and the rounding mode is allowed for it."""
    del tensors
    assert row.dst is not None
    assert row.src0 is not None
    modes = round_modes(device)
    pair = f"{row.src0.dtype}->{row.dst.dtype}"
    kinds = row.src0.dtype, row.dst.dtype
    allowed = modes.get(kinds)
    if allowed is None:
        wanted = ", ".join(f"{a}->{b}" for a, b in modes)
        return [rules.CAST_PAIR.finding(where, operand="dst", got=pair, wanted=wanted, hint=_detour(*kinds, modes))]
    mode = RoundMode(row.param("round_mode"))
    if mode in allowed and not device.has("wide_cast") and kinds in NARROW_UNDOCUMENTED:
        return [CAST_UNDOCUMENTED.finding(where, operand="dst", got=pair, fill={"arch": device.npu_arch})]
    if mode in allowed:
        return []
    wanted = ", ".join(m.name for m in allowed)
    return [rules.CAST_ROUND.finding(where, operand="dst", got=pair, wanted=wanted, fill={"mode": mode.name})]


def _conversion(ctx: Context, row: Row) -> Callable[[Array], Array]:
    assert row.dst is not None
    assert row.src0 is not None
    to, mode = row.dst.dtype, RoundMode(row.param("round_mode"))
    if _is_dequantisation(row.src0.dtype, to):
        scale = unpack(row.param("deq_scale"), HALF).astype(np.float64)
        # 31 bits times 11: exact as a double, so this rounds once.
        return lambda values: cast(values.astype(np.float64) * scale, to, RoundMode.CAST_RINT, ctx.overflow)
    return lambda values: cast(values, to, mode, ctx.overflow)


class ConvertInstructions:
    """Cast."""

    cast = Form(
        declare(
            "cast",
            """dst[i] = src[i] converted, rounded once per round_mode; lanes are counted by the wider type.

            From int32_t to half dst[i] = src[i] * the scale of SetDeqScale, rounded once to nearest even, whatever
            round_mode says.
            Source: asc-devkit docs, Cast and precision_conversion pages.
            """,
            api="Cast",
            mnemonic="vconv",
            pipe=Pipe.V,
            params=(*UNARY, "round_mode", "deq_scale"),
            cost="vector",
            family="Cast",
            execute=run_elementwise(_conversion),
            touch=touch_elementwise,
            checks=(
                _pair_and_mode,
                rules.aligned("dst", "src0"),
                *rules.UNDER_MASK,
                rules.strides(65535, 255),
                no_partial_overlap(),
                rules.in_bounds,
            ),
            uses_mask=True,
        ),
        CastCall,
    )
