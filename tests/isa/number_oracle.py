"""Numbers by exact fractions, written apart from the library: bits to value and back in every rounding mode.

A value is (negative, magnitude); magnitude is a Fraction, or "inf", or "nan". Element types go by AscendC's names.
Directed modes (and ODD) stop at the largest finite number, the others pass to infinity, as IEEE 754 section 7.4 has it.
"""

import ctypes
import struct
from fractions import Fraction
from functools import cache

FLOATS = {"half": (5, 10), "bfloat16_t": (8, 7), "float": (8, 23)}
"""(exponent bits, fraction bits)"""
INTEGERS = {
    "int8_t": (8, True), "uint8_t": (8, False), "int16_t": (16, True),
    "uint16_t": (16, False), "int32_t": (32, True), "uint32_t": (32, False), "int64_t": (64, True),
}  # fmt: skip
"""(bits, signed)"""
SIZE = {"half": 2, "bfloat16_t": 2, "float": 4} | {name: bits // 8 for name, (bits, _) in INTEGERS.items()}
HALF = Fraction(1, 2)
MODES = ("NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD")

Value = tuple[bool, Fraction | str]


@cache
def two_to(exponent):
    return Fraction(2) ** exponent


def width(kind):
    return 1 + sum(FLOATS[kind]) if kind in FLOATS else INTEGERS[kind][0]


def decode(bits, kind):
    """The exact value of a bit pattern."""
    if kind in INTEGERS:
        size, signed = INTEGERS[kind]
        number = bits - (1 << size) if signed and bits >> (size - 1) else bits
        return number < 0, Fraction(abs(number))
    exponent_bits, fraction_bits = FLOATS[kind]
    negative = bool(bits >> (exponent_bits + fraction_bits))
    exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == (1 << exponent_bits) - 1:
        return negative, "nan" if fraction else "inf"
    if exponent == 0:
        return negative, fraction * two_to(1 - bias - fraction_bits)
    return negative, ((1 << fraction_bits) + fraction) * two_to(exponent - bias - fraction_bits)


def is_nan(bits, kind):
    return kind in FLOATS and decode(bits, kind)[1] == "nan"


@cache
def largest(kind):
    exponent_bits, fraction_bits = FLOATS[kind]
    bias = (1 << (exponent_bits - 1)) - 1
    return ((2 << fraction_bits) - 1) * two_to(bias - fraction_bits)


def goes_up(rest, whole, negative, mode):
    """Whether the kept digits `whole` grow by one, for a dropped part 0 <= rest < 1 (in units of the last digit)."""
    if rest == 0:
        return False
    if mode in ("NONE", "RINT"):
        return rest > HALF or (rest == HALF and whole % 2 == 1)
    if mode == "ROUND":
        return rest >= HALF
    return {"FLOOR": negative, "CEIL": not negative, "TRUNC": False, "ODD": whole % 2 == 0}[mode]


def exponent_of(magnitude):
    """floor(log2(magnitude)), exactly."""
    e = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return e if magnitude >= two_to(e) else e - 1


def encode_float(value, kind, mode, saturate=False):
    """Bits of the value rounded once to a floating type."""
    negative, magnitude = value
    exponent_bits, fraction_bits = FLOATS[kind]
    sign = int(negative) << (exponent_bits + fraction_bits)
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    if isinstance(magnitude, str):
        if magnitude == "nan":
            return 0 if saturate else infinity | 1 << (fraction_bits - 1)
        return sign | (infinity - 1 if saturate else infinity)
    bias = (1 << (exponent_bits - 1)) - 1
    lowest = 1 - bias - fraction_bits
    last = max(exponent_of(magnitude) - fraction_bits, lowest) if magnitude else lowest
    scaled = magnitude / two_to(last)
    digits = scaled.numerator // scaled.denominator
    digits += goes_up(scaled - digits, digits, negative, mode)
    rounded = digits * two_to(last)
    if rounded > largest(kind):
        stops = mode in ("TRUNC", "ODD") or (mode == "FLOOR" and not negative) or (mode == "CEIL" and negative)
        return sign | (infinity - 1 if stops or saturate else infinity)
    if digits == 2 << fraction_bits:
        digits, last = digits // 2, last + 1
    if digits < 1 << fraction_bits:
        return sign | digits
    return sign | (last - lowest + 1) << fraction_bits | (digits - (1 << fraction_bits))


def encode_integer(value, kind, mode):
    """Bits of the value rounded to a whole number and clamped; NaN becomes 0."""
    negative, magnitude = value
    size, signed = INTEGERS[kind]
    low, high = (-(1 << (size - 1)), (1 << (size - 1)) - 1) if signed else (0, (1 << size) - 1)
    if isinstance(magnitude, str):
        return 0 if magnitude == "nan" else (low if negative else high) & ((1 << size) - 1)
    whole = magnitude.numerator // magnitude.denominator
    whole += goes_up(magnitude - whole, whole, negative, mode)
    return min(max(-whole if negative else whole, low), high) & ((1 << size) - 1)


def encode(value, kind, mode="RINT", saturate=False):
    if kind in INTEGERS:
        return encode_integer(value, kind, mode)
    return encode_float(value, kind, mode, saturate and kind != "float")  # float never saturates


def convert(bits, source, target, mode, saturate=False):
    """Bits of one element after Cast. Float to float rounds to whole numbers, and no zero is negative."""
    if source == target == "float":
        return whole_float(bits, mode)
    return encode(decode(bits, source), target, mode, saturate)


def whole_float(bits, mode):
    negative, magnitude = decode(bits, "float")
    if isinstance(magnitude, str):
        return bits
    digits = magnitude.numerator // magnitude.denominator
    digits += goes_up(magnitude - digits, digits, negative, mode)
    return encode_float((negative and digits > 0, Fraction(digits)), "float", "RINT")


def bits_of(number, kind):
    """Bits of a Python number in a type, to nearest even."""
    if kind in INTEGERS:
        return int(number) & ((1 << width(kind)) - 1)
    if number != number:  # noqa: PLR0124 - NaN
        return encode_float((False, "nan"), kind, "RINT")
    negative = struct.pack("<d", number)[7] >> 7 == 1
    magnitude = "inf" if abs(number) == float("inf") else Fraction(abs(number))
    return encode_float((negative, magnitude), kind, "RINT")


def number_of(bits, kind):
    """A bit pattern as a Python int or float, exactly."""
    negative, magnitude = decode(bits, kind)
    if kind in INTEGERS:
        return -int(magnitude) if negative else int(magnitude)
    plain = float(magnitude)
    return -plain if negative else plain


# ---- arithmetic -------------------------------------------------------------------------------------------------


def arithmetic(symbol, a, b, kind, saturate=False):
    """Bits of a op b. Sums and products of floats are done in double and rounded once more: with 53 bits against 24
    the second rounding cannot differ from a single one (53 >= 2 * 24 + 2).
    """
    if kind in INTEGERS:
        x, y = number_of(a, kind), number_of(b, kind)
        exact = {"+": x + y, "-": x - y, "*": x * y}[symbol]
        if saturate:
            return encode_integer((exact < 0, Fraction(abs(exact))), kind, "NONE")
        return exact & ((1 << width(kind)) - 1)
    x, y = (struct.unpack("<f" if kind == "float" else "<e", n.to_bytes(SIZE[kind], "little"))[0] for n in (a, b))
    wide = x + y if symbol == "+" else x - y if symbol == "-" else x * y
    if kind == "float":
        return int.from_bytes(bytes(ctypes.c_float(wide)), "little")
    try:
        bits = int.from_bytes(struct.pack("<e", wide), "little")
    except OverflowError:
        bits = 0xFC00 if wide < 0 else 0x7C00
    if saturate:
        return encode_float(decode(bits, "half"), "half", "RINT", saturate=True)
    return bits


def tree_sum(lanes, kind, saturate=False):
    """Sum of a row of lanes by adjacent pairs; None is a lane that takes no part."""
    while len(lanes) > 1:
        lanes = [pair_sum(a, b, kind, saturate) for a, b in zip(lanes[::2], lanes[1::2], strict=True)]
    return lanes[0]


def pair_sum(a, b, kind, saturate):
    if a is None or b is None:
        return b if a is None else a
    return arithmetic("+", a, b, kind, saturate)
