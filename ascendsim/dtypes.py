"""Element types and conversions between them. The only module that uses ml_dtypes.

Names are AscendC's: half, bfloat16_t, float, int8_t .. int64_t. Rounding follows the modes of Cast (asc-devkit docs,
precision_conversion page); overflow follows CTRL bit 48 (SetCtrlSpr page). Subnormal results underflow gradually,
which the documents leave open.
"""

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ascendsim.errors import InputError
from ascendsim.terms import DATABLOCK_BYTES, REPEAT_BYTES, HalfOverflow, RoundMode

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    `log_name` is the short spelling of instruction logs ("f16"); `code` is the number stored in program columns.
    """

    name: str
    code: int
    bytes: int
    log_name: str
    numpy: np.dtype[Any]

    @property
    def per_datablock(self) -> int:
        """Elements of one 32-byte datablock."""
        return DATABLOCK_BYTES // self.bytes

    @property
    def per_repeat(self) -> int:
        """Lanes of one 256-byte repeat."""
        return REPEAT_BYTES // self.bytes

    def __str__(self) -> str:
        return self.name


HALF = DType("half", 0, 2, "f16", np.dtype(np.float16))
BFLOAT16 = DType("bfloat16_t", 1, 2, "bf16", np.dtype(ml_dtypes.bfloat16))
FLOAT = DType("float", 2, 4, "f32", np.dtype(np.float32))
INT8 = DType("int8_t", 3, 1, "s8", np.dtype(np.int8))
UINT8 = DType("uint8_t", 4, 1, "u8", np.dtype(np.uint8))
INT16 = DType("int16_t", 5, 2, "s16", np.dtype(np.int16))
UINT16 = DType("uint16_t", 6, 2, "u16", np.dtype(np.uint16))
INT32 = DType("int32_t", 7, 4, "s32", np.dtype(np.int32))
UINT32 = DType("uint32_t", 8, 4, "u32", np.dtype(np.uint32))
INT64 = DType("int64_t", 9, 8, "s64", np.dtype(np.int64))

DTYPES: tuple[DType, ...] = (HALF, BFLOAT16, FLOAT, INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64)
"""Every element type, at the index of its code."""

_ALIASES = {
    "float16": HALF, "fp16": HALF, "float32": FLOAT, "fp32": FLOAT, "bfloat16": BFLOAT16, "bf16": BFLOAT16,
    "int8": INT8, "uint8": UINT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32,
    "int64": INT64,
    "bool": UINT8,
}  # fmt: skip
_BY_NAME = {d.name: d for d in DTYPES} | _ALIASES

_SIGNIFICAND_BITS = {HALF.code: 11, BFLOAT16.code: 8, FLOAT.code: 24}
_MIN_EXPONENT = {HALF.code: -24, BFLOAT16.code: -133, FLOAT.code: -149}  # exponent of the smallest subnormal
_LARGEST = {HALF.code: 65504.0, BFLOAT16.code: 3.3895313892515355e38, FLOAT.code: 3.4028234663852886e38}
_SATURATING = (HALF, BFLOAT16)
"""Types that follow the half-overflow mode; float never saturates (SetCtrlSpr page)."""


def dtype(name: str | DType) -> DType:
    """Return the element type of that name ("half", "float", "bfloat16_t", or NumPy's spelling; bool is uint8_t).

    Raises:
        InputError: no such type; the text lists the known names.
    """
    if isinstance(name, DType):
        return name
    found = _BY_NAME.get(name)
    if found is None:
        known = ", ".join(d.name for d in DTYPES)
        raise InputError(f"unknown dtype {name!r}; known: {known}")
    return found


def from_numpy(array_dtype: np.dtype[Any]) -> DType:
    """Return the element type of a NumPy array.

    Raises:
        InputError: a NumPy type without an AscendC counterpart, such as float64.
    """
    for d in DTYPES:
        if d.numpy == array_dtype:
            return d
    raise InputError(f"arrays of dtype {array_dtype} have no AscendC type; use one of {[str(d) for d in DTYPES]}")


def word_of(kind: DType) -> DType:
    """Return the unsigned type as wide as one of 16 or 32 bits, in which elements are moved as bits."""
    return UINT16 if kind.bytes == UINT16.bytes else UINT32


def cast(values: Array, to: DType, mode: RoundMode, overflow: HalfOverflow = HalfOverflow.INF_NAN) -> Array:
    """Convert an array to another element type, rounding once in the given mode.

    To half, bfloat16_t and float: rounded per `mode` (widening is exact); half and bfloat16_t follow `overflow`. From
    float to float: rounded to whole numbers, -0 becomes +0, as documented. To integers: rounded, then clamped, NaN to
    0. Source: asc-devkit docs, Cast page and boundary-value table.
    """
    if values.dtype.kind in "iu" and to.numpy.kind in "iu":
        return np.clip(values.astype(np.int64), np.iinfo(to.numpy).min, np.iinfo(to.numpy).max).astype(to.numpy)
    wide = _double(values)
    if to is FLOAT and values.dtype == FLOAT.numpy:
        return (_round_to_integer(wide, mode) + 0.0).astype(np.float32)
    if to.code in _SIGNIFICAND_BITS:
        return _narrow(wide, to, mode, overflow if to in _SATURATING else HalfOverflow.INF_NAN)
    return _to_integer(wide, to, mode)


def _double(values: Array) -> Array:
    """Return values as float64.

    Of an int64 beyond 53 bits the dropped bits make the last kept one odd, so that a rounding to 24 bits or fewer that
    follows is the only one.
    """
    if values.dtype != INT64.numpy:
        return np.asarray(values, np.float64)
    odd = values >> 11 | (values & 0x7FF != 0)
    fits = (values >= -(2**53)) & (values <= 2**53)
    return np.where(fits, values.astype(np.float64), np.ldexp(odd.astype(np.float64), 11))


def _narrow(wide: Array, to: DType, mode: RoundMode, overflow: HalfOverflow) -> Array:
    """Round float64 values to a floating type."""
    bits, lowest = _SIGNIFICAND_BITS[to.code], _MIN_EXPONENT[to.code]
    finite = np.isfinite(wide)
    safe = np.where(finite, wide, 0.0)
    exponent = np.maximum(np.frexp(safe)[1] - bits, lowest)
    kept = np.ldexp(_round_to_integer(np.ldexp(safe, -exponent), mode), exponent)  # power-of-two scaling is exact
    rounded = np.copysign(kept, wide)
    largest = _LARGEST[to.code]
    beyond = np.abs(rounded) > largest
    towards_zero = (
        (mode is RoundMode.CAST_TRUNC or mode is RoundMode.CAST_ODD)
        | ((mode is RoundMode.CAST_FLOOR) & (wide > 0))
        | ((mode is RoundMode.CAST_CEIL) & (wide < 0))
    )
    rounded = np.where(beyond, np.copysign(np.where(towards_zero, largest, np.inf), wide), rounded)
    result = np.where(finite, rounded, wide)
    if overflow is HalfOverflow.SATURATE:
        result = np.where(np.isnan(result), 0.0, np.clip(result, -largest, largest))
    return result.astype(to.numpy)


def _round_to_integer(x: Array, mode: RoundMode) -> Array:
    """Round float64 values to whole numbers in the given mode."""
    match mode:
        case RoundMode.CAST_NONE | RoundMode.CAST_RINT:
            return np.rint(x)
        case RoundMode.CAST_FLOOR:
            return np.floor(x)
        case RoundMode.CAST_CEIL:
            return np.ceil(x)
        case RoundMode.CAST_ROUND:
            return np.copysign(np.floor(np.abs(x) + 0.5), x)
        case RoundMode.CAST_TRUNC:
            return np.trunc(x)
        case RoundMode.CAST_ODD:
            low = np.trunc(x)
            even = np.mod(low, 2.0) == 0.0
            return np.where((low != x) & even, low + np.copysign(1.0, x), low)


def _to_integer(wide: Array, to: DType, mode: RoundMode) -> Array:
    info = np.iinfo(to.numpy)
    rounded = _round_to_integer(np.nan_to_num(wide, nan=0.0), mode)
    beyond = rounded >= float(info.max)  # as a double, the largest int64 is 2**63
    return np.where(beyond, info.max, np.where(beyond, 0.0, np.maximum(rounded, float(info.min))).astype(to.numpy))


def saturate(values: Array, overflow: HalfOverflow) -> Array:
    """Apply the half-overflow mode to a half or bfloat16_t result; other types pass unchanged."""
    if overflow is HalfOverflow.INF_NAN or from_numpy(values.dtype) not in _SATURATING:
        return values
    largest = _LARGEST[from_numpy(values.dtype).code]
    wide = values.astype(np.float64)
    return np.where(np.isnan(wide), 0.0, np.clip(wide, -largest, largest)).astype(values.dtype)


def pack(value: float, to: DType) -> int:
    """Return the bits of one value as an unsigned integer; an integer type takes it modulo its range, all bits kept."""
    if to.numpy.kind in "iu":
        return int(value) & ((1 << 8 * to.bytes) - 1) if math.isfinite(value) else 0
    with np.errstate(over="ignore", invalid="ignore"):  # a value beyond the type is what the user asked for
        return int(np.asarray(value, np.float64).astype(to.numpy).view(f"u{to.bytes}"))


def unpack(bits: int, to: DType) -> Array:
    """Return the 0-d array that has these bits."""
    return np.asarray(bits, f"u{to.bytes}").view(to.numpy)
