"""The other element-wise operations on bit patterns, by exact fractions and integers, written apart from the library.

Square roots come from whole square roots with a sticky bit, exp and ln from their series in fixed point, 240 bits.
"""

from fractions import Fraction
from math import isqrt

from number_oracle import (
    FLOATS,
    INTEGERS,
    arithmetic,
    convert,
    decode,
    encode_float,
    encode_integer,
    largest,
    number_of,
    width,
)

NAN = (False, "nan")
BITS = 240
ONE = 1 << BITS


def rounded(value, kind, saturate):
    """Bits to nearest even; float never saturates."""
    return encode_float(value, kind, "RINT", saturate and kind == "half")


def signed(value):
    """A value as a comparable number: infinities beyond every finite float; -0 is 0."""
    negative, magnitude = value
    number = largest("float") * 4 if magnitude == "inf" else magnitude
    return -number if negative else number


def extremum(name, a, b, kind, saturate=False):
    """The larger ("max") or smaller one; NaN wins, and zeros are told apart by their sign."""
    x, y = decode(a, kind), decode(b, kind)
    if kind in FLOATS and "nan" in (x[1], y[1]):
        return rounded(NAN, kind, saturate)
    keys = [(signed(v), not v[0]) for v in (x, y)]
    first = keys[0] >= keys[1] if name == "max" else keys[0] <= keys[1]
    value = x if first else y
    return rounded(value, kind, saturate) if kind in FLOATS else (a if first else b)


def quotient(a, b, kind, saturate=False):
    (sa, x), (sb, y) = decode(a, kind), decode(b, kind)
    negative = sa != sb
    if "nan" in (x, y) or (x == "inf" and y == "inf") or (x == 0 and y == 0):
        value = NAN
    elif x == "inf" or y == 0:
        value = (negative, "inf")
    elif y == "inf":
        value = (negative, Fraction(0))
    else:
        value = (negative, x / y)
    return rounded(value, kind, saturate)


def root_of(x):
    """Square root with 300 bits behind the point and a sticky one behind them."""
    scaled = x * (1 << 600)
    whole = isqrt(scaled.numerator // scaled.denominator)
    return Fraction(2 * whole + (Fraction(whole) ** 2 != scaled), 1 << 301)


def square_root(value):
    negative, x = value
    if x == "nan" or (negative and x != 0):
        return NAN
    return value if x in ("inf", 0) else (False, root_of(x))


def inverse_root(value):
    negative, x = value
    if x == 0:
        return (negative, "inf")
    if x == "nan" or negative:
        return NAN
    return (False, Fraction(0)) if x == "inf" else (False, root_of(1 / x))


def inverse(value):
    negative, x = value
    if x == "nan":
        return NAN
    return (negative, "inf") if x == 0 else (negative, Fraction(0) if x == "inf" else 1 / x)


def log_of_two():
    return sum(ONE // (k << k) for k in range(1, BITS))


LOG_2 = log_of_two()


def exponential(value):
    negative, x = value
    if x == "nan":
        return NAN
    if x == "inf" or x > 200:
        return (False, Fraction(0) if negative else "inf")
    fixed = int(-x * ONE if negative else x * ONE)
    twos, rest = divmod(fixed, LOG_2)
    total, term, n = 0, ONE, 0
    while term:
        total += term
        n += 1
        term = term * rest // (n * ONE)
    return (False, Fraction(total, ONE) * Fraction(2) ** twos)


def logarithm(value):
    negative, x = value
    if x == 0:
        return (True, "inf")
    if x == "nan" or negative:
        return NAN
    if x == "inf":
        return (False, "inf")
    twos = 0
    while x > Fraction(3, 2):
        x, twos = x / 2, twos + 1
    while x < Fraction(3, 4):
        x, twos = x * 2, twos - 1
    z = int((x - 1) / (x + 1) * ONE)
    total, power, n = 0, z, 1
    while power:
        total += 2 * power // n
        power = power * z // ONE * z // ONE
        n += 2
        if abs(power) <= 1:  # rounding down never reaches zero from below
            break
    total += twos * LOG_2
    return (total < 0, Fraction(abs(total), ONE))


FUNCTIONS = {
    "exp": exponential,
    "ln": logarithm,
    "sqrt": square_root,
    "rsqrt": inverse_root,
    "reciprocal": inverse,
    "abs": lambda value: (False, value[1]),
}


def function(name, a, kind, saturate=False):
    """Bits of a function of one number, rounded once to nearest even."""
    return rounded(FUNCTIONS[name](decode(a, kind)), kind, saturate)


def zero_or_more(a, kind, saturate=False):
    return extremum("max", a, 0, kind, saturate)


def leaky(a, scalar, kind, saturate=False):
    if decode(a, kind)[0]:
        return arithmetic("*", a, scalar, kind, saturate)
    return rounded(decode(a, kind), kind, saturate)


def sum_or_zero(symbol, a, b, kind, saturate=False):
    return zero_or_more(arithmetic(symbol, a, b, kind, saturate), kind, saturate)


def multiply_add(a, b, c, source, kind, saturate=False):
    """a * b in the type of c, then + c, each rounded, and saturated in half."""
    a, b = (bits if source == kind else convert(bits, source, kind, "NONE") for bits in (a, b))
    return arithmetic("+", arithmetic("*", a, b, kind, saturate), c, kind, saturate)


def multiply_cast(a, b, target, saturate=False):
    return convert(arithmetic("*", a, b, "half", saturate), "half", target, "NONE")


def dequantise(a, scale, saturate=False):
    """An int32 times a half, rounded once to half."""
    (sa, x), (sb, y) = decode(a, "int32_t"), decode(scale, "half")
    lost = y == "nan" or (y == "inf" and x == 0)
    return rounded(NAN if lost else (sa != sb, "inf" if y == "inf" else x * y), "half", saturate)


def bitwise(name, a, b, kind):
    return {"and": a & b, "or": a | b, "not": ~a & ((1 << width(kind)) - 1)}[name]


def shift_left(a, bits, kind):
    """The sign bit of a signed type stays; every other bit moves, and what passes the top is lost."""
    size, is_signed = INTEGERS[kind]
    moving = size - 1 if is_signed else size
    kept = a >> moving << moving
    return kept | (a << bits) % (1 << moving)


def shift_right(a, bits, kind, rounds=False):
    number = number_of(a, kind)
    moved = number >> bits
    if rounds and bits and INTEGERS[kind][1]:
        moved += number >> (bits - 1) & 1
    return encode_integer((moved < 0, Fraction(abs(moved))), kind, "NONE")
