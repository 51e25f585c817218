"""Mmad's sums of products, bit for bit, against exact fractions added up one element at a time."""

import os
import platform
import subprocess
import sys
import zlib
from fractions import Fraction
from itertools import product as pairs
from pathlib import Path

import numpy as np
import pytest
from number_oracle import decode, encode_float

from ascendsim.dtypes import dtype
from ascendsim.isa.mmad_arithmetic import accumulate
from ascendsim.layout import c0_elements
from ascendsim.terms import MmadOrder

FLOATS = ("half", "bfloat16_t", "float")
NAN = 0x7FC00000


# ---- the truth -------------------------------------------------------------------------------------------------------


def exact_product(x, y):
    """Product of two values (negative, magnitude), infinite where it would be one as a float."""
    negative, one, other = x[0] != y[0], x[1], y[1]
    if "nan" in (one, other) or ("inf" in (one, other) and 0 in (one, other)):
        return False, "nan"
    if "inf" in (one, other):
        return negative, "inf"
    beyond = encode_float((False, one * other), "float", "RINT") == 0x7F800000
    return negative, "inf" if beyond else one * other


def exact_sum(parts):
    """Sum of values; 0 is negative only if every part is -0."""
    if any(magnitude == "nan" for _, magnitude in parts):
        return False, "nan"
    infinite = {negative for negative, magnitude in parts if magnitude == "inf"}
    if infinite:
        return (infinite.pop(), "inf") if len(infinite) == 1 else (False, "nan")
    total = sum((-magnitude if negative else magnitude for negative, magnitude in parts), Fraction(0))
    if total == 0:
        return all(negative and magnitude == 0 for negative, magnitude in parts), Fraction(0)
    return total < 0, abs(total)


def truth(a, b, c, depth):
    """Bits of c + a @ b, rounded after every `depth` products."""
    values_a, values_b = ([[decode(int(x), "float") for x in row] for row in m.view(np.uint32)] for m in (a, b))
    sums = []
    for i in range(a.shape[0]):
        sums.append([])
        for j in range(b.shape[1]):
            bits = int(c.view(np.uint32)[i, j])
            products = [exact_product(values_a[i][s], values_b[s][j]) for s in range(a.shape[1])]
            for first in range(0, len(products), depth):
                parts = [*products[first : first + depth], decode(bits, "float")]
                bits = encode_float(exact_sum(parts), "float", "RINT")
            sums[-1].append(bits)
    return np.array(sums, np.uint32).reshape(c.shape)


def added(a, b, c, order, fractal_k):
    result = c.copy()
    accumulate(a, b, result, order, fractal_k)
    return result


def check(a, b, c, fractal_k):
    for order, depth in ((MmadOrder.STEP, 1), (MmadOrder.FRACTAL, fractal_k)):
        got, want = added(a, b, c, order, fractal_k).view(np.uint32), truth(a, b, c, depth)
        wrong = np.argwhere(got != want)
        assert wrong.size == 0, (order, wrong[:3], hex(got[tuple(wrong[0])]), hex(want[tuple(wrong[0])]))


# ---- inputs ----------------------------------------------------------------------------------------------------------


def of_bits(rng, kind, shape, lowest=0, highest=None):
    """Random bit patterns of a type as float32: signs, and magnitudes among these patterns."""
    width = 8 * dtype(kind).bytes
    bits = rng.integers(lowest, highest or 1 << (width - 1), shape) | rng.integers(0, 2, shape) << (width - 1)
    return bits.astype(f"u{width // 8}").view(dtype(kind).numpy).astype(np.float32)


def ordinary(rng, kind, shape):
    return rng.standard_normal(shape).astype(dtype(kind).numpy).astype(np.float32)


def every_bit_pattern(rng, kind, shape):
    """NaN and infinities are rare here but for half; most sums meet one nevertheless."""
    return of_bits(rng, kind, shape)


def every_finite_one(rng, kind, shape):
    return of_bits(rng, kind, shape, highest={"half": 0x7C00, "bfloat16_t": 0x7F80, "float": 0x7F800000}[kind])


def subnormal(rng, kind, shape):
    """Numbers that are subnormal or nearly so, and zeros; products of floats are far below the smallest float."""
    highest = {"half": 0x0800, "bfloat16_t": 0x0100, "float": 0x01000000}[kind]
    return of_bits(rng, kind, shape, highest=highest) * rng.integers(0, 2, shape).astype(np.float32)


def around_one_float(rng, kind, shape):
    """Products near the smallest float, so that sums of them are rounded among subnormals."""
    low = {"half": 0x0001, "bfloat16_t": 0x1B00, "float": 0x1B000000}[kind]
    high = {"half": 0x0400, "bfloat16_t": 0x2200, "float": 0x22000000}[kind]
    return of_bits(rng, kind, shape, low, high)


def huge(rng, kind, shape):
    """Products and sums that overflow, or nearly so."""
    low = {"half": 0x7800, "bfloat16_t": 0x5E00, "float": 0x5E000000}[kind]
    high = {"half": 0x7C00, "bfloat16_t": 0x6000, "float": 0x60000000}[kind]
    return of_bits(rng, kind, shape, low, high)


def special(rng, kind, shape):
    """Mostly zeros of both signs, infinities, NaN, one and the largest number."""
    largest = {"half": 65504.0, "bfloat16_t": 3.3895313892515355e38, "float": 3.4028234663852886e38}[kind]
    some = np.array([0.0, -0.0, 0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, largest, -largest, 2.0**-14], np.float32)
    return rng.choice(some, shape, p=[0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.02, 0.02, 0.01, 0.05, 0.05, 0.05])


def wide(rng, kind, shape):
    """A few digits at exponents far apart: sums with more digits than two doubles hold, and middles between floats."""
    reach = {"half": 12, "bfloat16_t": 60, "float": 60}[kind]
    digits = rng.choice(np.array([1.0, 1.5, 1.25, 1 + 2.0**-7, 0.0]), shape)
    signs, exponents = rng.choice(np.array([-1.0, 1.0]), shape), rng.integers(-reach, reach, shape)
    return (signs * digits * 2.0**exponents).astype(dtype(kind).numpy).astype(np.float32)


INPUTS = (ordinary, every_bit_pattern, every_finite_one, subnormal, around_one_float, huge, special, wide)
SHAPES = ((2, 21, 37), (1, 3, 19), (3, 40, 1))


# ---- floats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", INPUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", FLOATS)
def test_sums_have_the_bits_of_exact_fractions(kind, make):
    rng = np.random.default_rng(len(kind) + 100 * INPUTS.index(make))
    for m, k, n in SHAPES:
        a, b = make(rng, kind, (m, k)), make(rng, kind, (k, n))
        for c in (np.zeros((m, n), np.float32), every_bit_pattern(rng, "float", (m, n))):
            check(a, b, c, c0_elements(dtype(kind).bytes))


@pytest.mark.parametrize("kind", FLOATS)
def test_what_cancels_leaves_its_last_digits(kind):
    """Every product comes again with the other sign, in another place, and c is nearly what was added."""
    rng = np.random.default_rng(21)
    for make in (ordinary, every_finite_one, wide):
        a, b = make(rng, kind, (2, 8)), make(rng, kind, (8, 33))
        order = rng.permutation(16)
        a, b = np.hstack([a, -a])[:, order], np.vstack([b, b])[order]
        check(a, b, np.zeros((2, 33), np.float32), c0_elements(dtype(kind).bytes))
        a, b = np.ascontiguousarray(a[:, :10]), np.ascontiguousarray(b[:10])
        c = -added(a, b, np.zeros((2, 33), np.float32), MmadOrder.STEP, 16)
        check(a, b, c, c0_elements(dtype(kind).bytes))


def test_a_sum_in_the_middle_of_two_floats_is_decided_by_what_lies_far_below():
    """1 + 2**-24 lies in the middle between 1 and the next float; products far below settle it, without one it is 1."""
    tiny = [0.0, 2.0**-120, -(2.0**-120), 2.0**-60, -(2.0**-60), 2.0**-20, -(2.0**-20)]
    for start, middle in pairs((1.0, 1 + 2.0**-23, 2 - 2.0**-23, 2.0**-126, 2.0**-130), (1.0, -1.0)):
        last = 2.0 ** max(np.frexp(start)[1] - 1 - 23, -149)
        a = np.array([[middle * last / 2 * 2.0**60, 1.0, 1.0]], np.float32)
        b = np.array([[2.0**-60] * 49, *zip(*pairs(tiny, tiny), strict=True)], np.float32)
        scale = np.float32(start * 2.0**-20 if start >= 1 else 2.0**-100)
        b[1:] *= scale
        check(a, b, np.full((1, 49), start, np.float32), 8)


def test_a_middle_that_doubles_reach_in_three_parts():
    """c = 2 and the products are 2**-105 above 1.5 + 2**-24, in doubles one unit below it and 2**-52 + 2**-105 more."""
    b = np.array([[-(0.5 - 2.0**-24), -3 * 2.0**-54, *[2.0**-56] * 12, 2.0**-105]], np.float32).T
    a, c = np.ones((1, 15), np.float32), np.full((1, 1), 2.0, np.float32)
    assert added(a, b, c, MmadOrder.FRACTAL, 16).tolist() == [[1.5 + 2.0**-23]]
    b[-1] = 0
    assert added(a, b, c, MmadOrder.FRACTAL, 16).tolist() == [[1.5]]


def test_a_product_of_floats_is_exact_before_it_is_added():
    x = np.array([[1 + 2.0**-12]], np.float32)
    c = np.array([[-(1 + 2.0**-11)]], np.float32)
    for order in MmadOrder:
        assert added(x, x, c, order, 8).tolist() == [[2.0**-24]]


def test_the_two_orders_differ():
    a = np.array([[2.0**24, 1.0, -(2.0**24)]], np.float32)
    b, c = np.ones((3, 1), np.float32), np.zeros((1, 1), np.float32)
    assert added(a, b, c, MmadOrder.STEP, 16).tolist() == [[0.0]]
    assert added(a, b, c, MmadOrder.FRACTAL, 16).tolist() == [[1.0]]
    assert added(a, b, c, MmadOrder.FRACTAL, 2).tolist() == [[0.0]]


@pytest.mark.parametrize("order", MmadOrder)
def test_a_product_beyond_the_largest_float_is_infinite_before_it_is_added(order):
    below, above = 2.0**64 - 2.0**40, 2.0**64
    c = np.full((1, 1), -(2.0**127), np.float32)
    one = np.full((1, 1), 2.0**64, np.float32)
    assert added(one, np.full((1, 1), above, np.float32), c, order, 8).tolist() == [[np.inf]]
    assert added(one, np.full((1, 1), below, np.float32), c, order, 8).tolist() == [[2.0**127 - 2.0**104]]
    both = np.array([[2.0**64, -(2.0**64)]], np.float32)
    assert np.isnan(added(both, np.full((2, 1), above, np.float32), c, order, 8)).all()


@pytest.mark.parametrize("order", MmadOrder)
def test_every_nan_is_the_same(order):
    """Processors make NaN of either sign, and carry digits of theirs along."""
    odd_nan = np.array([0xFFC12345, 0x7F812345, 0xFFFFFFFF], np.uint32).view(np.float32)
    one = np.ones((1, 1), np.float32)
    for value in odd_nan:
        nan = np.full((1, 1), value)
        for a, b, c in ((nan, one, one), (one, nan, one), (one, one, nan)):
            assert added(a, b, c, order, 8).view(np.uint32).tolist() == [[NAN]]
    inf, zero = one * np.inf, one * 0
    assert added(inf, zero, one, order, 8).view(np.uint32).tolist() == [[NAN]]
    assert added(inf, one, -inf, order, 8).view(np.uint32).tolist() == [[NAN]]


@pytest.mark.parametrize("order", MmadOrder)
def test_minus_zero_needs_minus_zeros_only(order):
    minus, plus, one = (np.full((1, 1), x, np.float32) for x in (-0.0, 0.0, 1.0))
    assert np.signbit(added(minus, one, minus, order, 8))
    assert not np.signbit(added(minus, one, plus, order, 8))
    assert not np.signbit(added(plus, one, minus, order, 8))
    assert not np.signbit(added(one, one, -one, order, 8))


@pytest.mark.parametrize("kind", [np.float32, np.int32])
@pytest.mark.parametrize(("m", "k", "n"), [(0, 3, 3), (3, 0, 3), (3, 3, 0)])
@pytest.mark.parametrize("order", MmadOrder)
def test_without_products_nothing_happens(order, m, k, n, kind):
    c = np.full((m, n), 0xFFC12345, np.uint32).view(kind)
    assert np.array_equal(
        added(np.ones((m, k), kind), np.ones((k, n), kind), c, order, 8).view(np.uint32), c.view("u4")
    )


def test_operands_may_be_views_and_read_only():
    a, b = (np.arange(144, dtype=np.float32).reshape(12, 12) for _ in range(2))
    b.flags.writeable = False
    c = np.zeros((6, 12), np.float32)
    accumulate(a.T[::2], b, c, MmadOrder.STEP, 16)
    assert np.array_equal(c, truth(np.ascontiguousarray(a.T[::2]), b, c * 0, 1).view(np.float32))


# ---- integers --------------------------------------------------------------------------------------------------------


def integer_truth(a, b, c, depth):
    sums = [[int(x) for x in row] for row in c]
    for i, j in pairs(range(c.shape[0]), range(c.shape[1])):
        for first in range(0, a.shape[1], depth):
            steps = range(first, min(first + depth, a.shape[1]))
            total = sums[i][j] + sum(int(a[i, s]) * int(b[s, j]) for s in steps)
            sums[i][j] = min(max(total, -(2**31)), 2**31 - 1)
    return sums


@pytest.mark.parametrize(("kind_a", "kind_b"), [(np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8)])
@pytest.mark.parametrize("start", [0, 2**31 - 1, -(2**31), 2**31 - 200_000, None])
def test_integers_are_exact_and_saturate(kind_a, kind_b, start):
    rng = np.random.default_rng(22)
    for m, k, n in (*SHAPES, (2, 70, 33)):
        a, b = (
            rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
            for kind, shape in ((kind_a, (m, k)), (kind_b, (k, n)))
        )
        c = rng.integers(-(2**31), 2**31, (m, n)) if start is None else np.full((m, n), start)
        for order, depth in ((MmadOrder.STEP, 1), (MmadOrder.FRACTAL, 32)):
            assert added(a, b, c.astype(np.int32), order, 32).tolist() == integer_truth(a, b, c, depth)


def test_integers_saturate_at_every_sum():
    a, b = np.array([[127, -127]], np.int8), np.full((2, 1), 127, np.int8)
    c = np.full((1, 1), 2**31 - 1, np.int32)
    assert added(a, b, c, MmadOrder.STEP, 32).tolist() == [[2**31 - 1 - 127 * 127]]
    assert added(a, b, c, MmadOrder.FRACTAL, 32).tolist() == [[2**31 - 1]]


# ---- machines --------------------------------------------------------------------------------------------------------

SCRIPT = "import sys; sys.path.insert(0, sys.argv[1]); import test_mmad_arithmetic as t; print(t.digest())"


def digest():
    """One number for many results."""
    rng = np.random.default_rng(9)
    found = 0
    for kind, make in pairs(FLOATS, INPUTS):
        a, b, c = make(rng, kind, (2, 18)), make(rng, kind, (18, 9)), make(rng, "float", (2, 9))
        with np.errstate(all="ignore"):
            results = [added(a, b, c, order, 8) for order in MmadOrder]
        found = zlib.crc32(b"".join(r.tobytes() for r in results), found)
    return found


def digest_elsewhere(tmp_path, **environment):
    """The same number from a process of another environment."""
    command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parent)]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)} | environment
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return int(ran.stdout)


def test_interpreted_the_results_are_the_same(tmp_path):
    assert digest_elsewhere(tmp_path, NUMBA_DISABLE_JIT="1") == digest()


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names of x86 processors")
def test_a_processor_without_fused_multiply_add_gives_the_same(tmp_path):
    assert digest_elsewhere(tmp_path, NUMBA_CPU_NAME="x86-64", NUMBA_CPU_FEATURES="") == digest()
