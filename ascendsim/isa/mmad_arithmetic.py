"""The sums of products that Mmad adds to its result, in a fixed order and rounded as declared; compiled.

Order and rounding inside the cube are not documented (asc-devkit docs, Mmad page). The model is a choice between two,
`MmadOrder`; in both of them
- products are exact, but one that would round to infinity as a float is infinity: the appendix of Mmad's boundary
  values lets products overflow before they are added;
- sums are rounded to nearest even, subnormals are kept, infinities and NaN follow IEEE 754, and every NaN that comes
  out has the bits 0x7FC00000;
- integers saturate at every sum: the Mmad page has no other mode for them.
Each element of the result is a chain of its own. Vectors run across elements, so their width changes no result, and no
library of matrix products is used.
"""

from collections.abc import Callable
from typing import Any, cast

import numba.extending
import numpy as np
from numba import types

from ascendsim.isa.instruction import Array
from ascendsim.jit import compiled_in_place, inlined
from ascendsim.terms import MmadOrder

_Decorator = Callable[[Callable[..., object]], Any]
_intrinsic = cast("_Decorator", numba.extending.intrinsic)
_overload = cast("Callable[..., _Decorator]", numba.extending.overload)

_NAN = np.float32(np.nan)
_INFINITY = np.float32(np.inf)
_INFINITY_BITS = np.int32(0x7F800000)
_OVERFLOW = float(2**128 - 2**103)
"""From here on a number rounds to infinity in a float: half a unit in the last place above the largest one."""
_INT32 = np.iinfo(np.int32)
_LOWEST, _HIGHEST = int(_INT32.min), int(_INT32.max)


def accumulate(a: Array, b: Array, c: Array, order: MmadOrder, fractal_k: int) -> None:
    """Add the matrix product of a and b to c, in place. Without rows, columns or products nothing happens.

    Args:
        a: [m, k]: float32, which holds half and bfloat16_t exactly, or integers of at most 8 bits.
        b: [k, n], likewise.
        c: [m, n], C-contiguous: float32, or int32 for integers.
        order: where sums are rounded, or saturated.
        fractal_k: products of one sum for `MmadOrder.FRACTAL`: columns of a fractal of a (C0: 32 for 8 bits, 16 for 16
            bits, 8 for float), counted from the first. That is the depth of the cube's fractal (CANN's platform
            files, DtypeMKN, and k0 of the performance tables); how many the hardware adds at once is not known.
    """
    assert c.flags.c_contiguous
    if 0 in (*a.shape, b.shape[1]):
        return
    step = order is MmadOrder.STEP
    a, b = (_plain(x, c.dtype) for x in (a, b))
    if c.dtype == np.int32:
        _add_integers(a, b, c, 1 if step else fractal_k)
    elif step:
        _add_in_steps(a, b, c)
    else:
        _add_fractals(a, b, c, fractal_k, np.empty((3, c.shape[1])), np.empty(fractal_k + 2))


def _plain(values: Array, kind: np.dtype[Any]) -> Array:
    """Return values as the compiled functions take them: other arrays would each be compiled for anew."""
    plain = np.ascontiguousarray(values, kind)
    return plain if plain.flags.writeable else plain.copy()


# ---- one rounding a product ------------------------------------------------------------------------------------------


def _fused(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    """Return a * b + c, rounded once.

    Compiled it is `_fma`; this is for where compiling is switched off. The product is exact in a double: it has 48
    digits, and the exponents of doubles reach more than twice as far as those of floats.
    """
    product, addend = np.float64(a) * np.float64(b), np.float64(c)
    if not np.isfinite(product + addend):
        return np.float32(product + addend)
    return np.float32(_to_odd(product, addend)) if product + addend != 0 else np.float32(product + addend)


@_intrinsic
def _fma(typing: object, a: object, b: object, c: object) -> Any:  # noqa: ARG001 - numba calls it so
    """Fused multiply-add of IEEE 754: one instruction, or the C library's function where the processor has none."""

    def code(_context: object, builder: Any, _signature: object, values: Any) -> Any:
        return builder.fma(*values)

    return types.float32(types.float32, types.float32, types.float32), code


@_overload(_fused, strict=False)
def _compiled_fused(a: object, b: object, c: object) -> Any:  # noqa: ARG001 - the names of _fused
    def fused(a: object, b: object, c: object) -> Any:
        return _fma(a, b, c)

    return fused


@compiled_in_place
def _add_in_steps(a: Array, b: Array, c: Array) -> None:
    """Add products one after the other. Four steps of a row are taken at once, so that c stays in registers."""
    m, k = a.shape
    n = b.shape[1]
    if _largest(a) * _largest(b) >= _OVERFLOW:
        _add_in_steps_that_overflow(a, b, c)
        return
    whole = k - k % 4
    for i in range(m):
        for s in range(0, whole, 4):
            x0, x1, x2, x3 = a[i, s], a[i, s + 1], a[i, s + 2], a[i, s + 3]
            for j in range(n):
                sum2 = _fused(x1, b[s + 1, j], _fused(x0, b[s, j], c[i, j]))
                c[i, j] = _fused(x3, b[s + 3, j], _fused(x2, b[s + 2, j], sum2))
        for s in range(whole, k):
            x0 = a[i, s]
            for j in range(n):
                c[i, j] = _fused(x0, b[s, j], c[i, j])
        _one_nan(c, i)


@compiled_in_place
def _add_in_steps_that_overflow(a: Array, b: Array, c: Array) -> None:
    """The same where a product may be beyond the largest float: infinity, whatever c is."""
    for i in range(a.shape[0]):
        for s in range(a.shape[1]):
            x = a[i, s]
            for j in range(b.shape[1]):
                product = x * b[s, j]
                fused = _fused(x, b[s, j], c[i, j])
                c[i, j] = c[i, j] + product if abs(product) == _INFINITY else fused
        _one_nan(c, i)


@inlined
def _largest(values: Array) -> np.float64:
    """The largest finite magnitude. Magnitudes compare as their bits do, which vectors compare faster."""
    largest = np.int32(0)
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            bits = np.float32(values[i, j]).view(np.int32) & np.int32(0x7FFFFFFF)
            largest = max(largest, bits if bits < _INFINITY_BITS else np.int32(0))
    return np.float64(np.int32(largest).view(np.float32))


@inlined
def _one_nan(c: Array, i: int) -> None:
    """Processors differ in sign and digits of a NaN; rows of c have one of them only."""
    for j in range(c.shape[1]):
        c[i, j] = c[i, j] if c[i, j] == c[i, j] else _NAN


# ---- one rounding a fractal ------------------------------------------------------------------------------------------


@inlined
def _two_sum(a: np.float64, b: np.float64) -> tuple[np.float64, np.float64]:
    """Return a + b rounded and what the rounding dropped; exact (Knuth, The Art of Computer Programming 4.2.2)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@inlined
def _to_odd(a: np.float64, b: np.float64) -> np.float64:
    """Return a + b as a double whose last bit is 1 unless it is exact; the sum is finite.

    A number with 53 digits rounded to odd rounds to 24 digits as the exact one does (Boldo and Melquiond, "Emulation of
    FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008), so the conversion to float is the
    only rounding.
    """
    total, dropped = _two_sum(a, b)
    bits = np.float64(total).view(np.int64)
    away = np.int64(1) if (dropped > 0) == (total > 0) else np.int64(-1)
    bits += away if dropped != 0 and bits & 1 == 0 else np.int64(0)
    return np.int64(bits).view(np.float64)


@compiled_in_place
def _add_fractals(a: Array, b: Array, c: Array, fractal_k: int, sums: Array, scratch: Array) -> None:
    """Add the products of each fractal and c exactly, then round.

    A sum is kept as head + tail, two doubles, and `lost` is 0 as long as that is exact. It always is for half: products
    are multiples of 2**-48 below 2**32, so what 16 of them drop adds up to a multiple of 2**-48 below 2**-12.

    Args:
        a: [m, k] float32.
        b: [k, n] float32.
        c: [m, n] float32.
        fractal_k: products of a fractal.
        sums: memory of [3, n] doubles.
        scratch: memory of fractal_k + 2 doubles.
    """
    head, tail, lost = sums[0], sums[1], sums[2]
    for i in range(a.shape[0]):
        for first in range(0, a.shape[1], fractal_k):
            end = min(first + fractal_k, a.shape[1])
            for j in range(b.shape[1]):
                head[j], tail[j], lost[j] = _product(a[i, first], b[first, j]), 0.0, 0.0
            for s in range(first + 1, end):
                x = a[i, s]
                for j in range(b.shape[1]):
                    head[j], dropped = _two_sum(head[j], _product(x, b[s, j]))
                    tail[j], dropped = _two_sum(tail[j], dropped)
                    lost[j] += abs(dropped)
            _finish(a, b, c, i, first, end, sums, scratch)
        _one_nan(c, i)


@inlined
def _finish(a: Array, b: Array, c: Array, i: int, first: int, end: int, sums: Array, scratch: Array) -> None:
    """Add the sums of a fractal to row i of c; again and exactly where something was lost."""
    head, tail, lost = sums[0], sums[1], sums[2]
    if _all_exact(head, lost, c, i):
        for j in range(c.shape[1]):
            c[i, j] = _rounded(head[j], tail[j], np.float64(c[i, j]))
        return
    for j in range(c.shape[1]):
        if not abs(head[j] + c[i, j]) < np.inf:
            c[i, j] = np.float32(head[j] + c[i, j])
        elif lost[j] == 0:
            c[i, j] = _rounded(head[j], tail[j], np.float64(c[i, j]))
        else:
            c[i, j] = _exactly(a, b, i, j, first, end, np.float64(c[i, j]), scratch)


@inlined
def _all_exact(head: Array, lost: Array, c: Array, i: int) -> bool:
    """Whether every column has a finite sum of which nothing was lost: the usual case, which vectors can finish."""
    others = 0
    for j in range(c.shape[1]):
        others += 0 if lost[j] == 0 and abs(head[j] + c[i, j]) < np.inf else 1
    return others == 0


@inlined
def _product(a: np.float32, b: np.float32) -> np.float64:
    """Return a * b, exact; infinite where a float would be."""
    exact = np.float64(a) * np.float64(b)
    return np.float64(a * b) if abs(exact) >= _OVERFLOW else exact


@inlined
def _rounded(head: np.float64, tail: np.float64, c: np.float64) -> np.float32:
    """Return head + tail + c, rounded once.

    After two exact sums it is top + middle + bottom, with middle the error of top. To which float it rounds is settled
    by comparing with floats and the middles between them. If middle is 0, top + bottom is rounded to odd, which is
    right. If not, middle and bottom together are at most some units in the last place of top; the differences between
    top and the numbers to compare with are multiples of a quarter of that unit, hence doubles whose last bit is 0, and
    rounding middle + bottom to odd leaves it on the same side of each.

    A sum of 0 is -0 if every part is, else +0; head is -0 only if all products are.
    """
    upper, bottom = _two_sum(tail, c)
    top, middle = _two_sum(head, upper)
    total = _to_odd(top, _to_odd(middle, bottom))
    if total == 0:
        return np.float32(head + c) if head == 0 and c == 0 else np.float32(0)
    return np.float32(total)


@compiled_in_place
def _exactly(a: Array, b: Array, i: int, j: int, first: int, end: int, c: np.float64, scratch: Array) -> np.float32:
    """Return the products of a fractal and c added up exactly, then rounded once; the sum is finite.

    `scratch` holds doubles whose digits do not overlap, the smallest first, and whose exact sum is what was added so
    far (Shewchuk, "Adaptive precision floating-point arithmetic and fast robust geometric predicates", 1997). They are
    added up from the largest until something is dropped; what is left is smaller than that and cannot change its sign.
    """
    count = 0
    for s in range(first, end + 1):
        rest = c if s == end else _product(a[i, s], b[s, j])
        kept = 0
        for part in range(count):
            rest, dropped = _two_sum(rest, scratch[part])
            if dropped != 0:
                scratch[kept] = dropped
                kept += 1
        scratch[kept] = rest
        count = kept + 1
    total = np.float64(0)
    dropped = np.float64(0)
    while count > 0 and dropped == 0:
        count -= 1
        total, dropped = _two_sum(total, scratch[count])
    return np.float32(_to_odd(total, dropped))


# ---- integers --------------------------------------------------------------------------------------------------------


@compiled_in_place
def _add_integers(a: Array, b: Array, c: Array, depth: int) -> None:
    """Add sums of `depth` products, each of which saturates; int32 arrays, a and b of at most 8 bits."""
    m, k = a.shape
    n = b.shape[1]
    if k * _largest_integer(a) * _largest_integer(b) + _largest_integer(c) <= _HIGHEST:
        for i in range(m):
            for s in range(k):
                x = a[i, s]
                for j in range(n):
                    c[i, j] += x * b[s, j]  # no sum on the way can reach the bounds
        return
    for i in range(m):
        for first in range(0, k, depth):
            for j in range(n):
                total = np.int64(c[i, j])
                for s in range(first, min(first + depth, k)):
                    total += np.int64(a[i, s]) * np.int64(b[s, j])
                c[i, j] = min(max(total, _LOWEST), _HIGHEST)


@inlined
def _largest_integer(values: Array) -> np.int64:
    largest = np.int64(0)
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            largest = max(largest, abs(np.int64(values[i, j])))
    return largest
