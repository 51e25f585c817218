"""exp, ln and 1/sqrt: the correctly rounded value whatever the math library's last bits are."""

from decimal import Decimal

import arithmetic_oracle
import numpy as np
import pytest
from number_oracle import SIZE, is_nan

from ascendsim.dtypes import dtype
from ascendsim.isa.instruction import TABLE
from ascendsim.isa.rounding import larger, rounded_once, smaller
from ascendsim.isa.vector import VectorInstructions

CALLS = {
    "exp": (np.exp, Decimal.exp),
    "ln": (np.log, Decimal.ln),
    "rsqrt": (lambda x: 1 / np.sqrt(x), lambda x: 1 / x.sqrt()),
}


def bits_of(array):
    return [int(b) for b in array.view(f"u{array.dtype.itemsize}")]


def numbers(kind, bits):
    return np.array(bits, f"u{SIZE[kind]}").view(dtype(kind).numpy)


def rounded(name, kind, bits, error=0.0):
    quick, exactly = CALLS[name]
    with np.errstate(all="ignore"):
        return bits_of(rounded_once(numbers(kind, bits), lambda x: quick(x) * (1 + error), exactly))


def differ(got, want, kind):
    return [(g, w) for g, w in zip(got, want, strict=True) if g != w and not (is_nan(g, kind) and is_nan(w, kind))]


@pytest.mark.parametrize("name", CALLS)
def test_halves_equal_the_series(name):
    bits = range(0, 65536, 5)
    want = [arithmetic_oracle.function(name, b, "half") for b in bits]
    assert differ(rounded(name, "half", bits), want, "half") == []


@pytest.mark.parametrize("name", CALLS)
def test_floats_equal_the_series(name):
    rng = np.random.default_rng(7)
    near = rng.integers(0x3C000000, 0x43000000, 3000).tolist()
    bits = [*near, *(b | 1 << 31 for b in near[:1000]), *rng.integers(0, 1 << 32, 1000).tolist(), *range(20)]
    want = [arithmetic_oracle.function(name, b, "float") for b in bits]
    assert differ(rounded(name, "float", bits), want, "float") == []


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["half", "float"])
def test_the_last_bits_of_the_math_library_do_not_count(name, kind):
    """Two libraries 8 units in the last place apart, on many floats and on every half."""
    rng = np.random.default_rng(8)
    bits = range(65536) if kind == "half" else rng.integers(0x3C000000, 0x43000000, 400_000).tolist()
    assert rounded(name, kind, bits, 2.0**-49) == rounded(name, kind, bits, -(2.0**-49))


def test_what_a_double_cannot_tell_is_settled_with_more_digits():
    """A function that lies 2**-60 above and below the middle of two halves, and on it."""
    middle = 1 + 2.0**-11
    for offset, want in ((Decimal(2) ** -60, 1 + 2.0**-10), (-(Decimal(2) ** -60), 1.0), (Decimal(0), 1.0)):
        got = rounded_once(
            np.ones(3, np.float16),
            lambda x: np.full(x.shape, middle),
            lambda _, offset=offset: Decimal(middle) + offset,
        )
        assert got.tolist() == [want] * 3


def test_zeros_are_told_apart_whatever_their_order():
    for n in (1, 7, 64):
        plus, minus = np.zeros(n, np.float32), np.full(n, -0.0, np.float32)
        for a, b in ((plus, minus), (minus, plus)):
            assert not np.signbit(larger(a, b)).any()
            assert np.signbit(smaller(a, b)).all()
        assert np.signbit(larger(minus, minus)).all()
        assert not np.signbit(smaller(plus, plus)).any()


@pytest.mark.parametrize("name", ["exp", "ln", "sqrt", "rsqrt", "reciprocal", "div"])
def test_an_approximation_says_what_it_is_and_how_it_errs(name):
    doc = " ".join(TABLE[name].doc.split())
    assert "Our model is the correctly rounded" in doc
    assert "errs to the optimistic side" in doc
    assert getattr(VectorInstructions, name).op is TABLE[name]
