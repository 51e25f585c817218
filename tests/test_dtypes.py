"""Element types and conversions against exact fractions, and against every neighbouring pair of 16-bit floats."""

import itertools
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim import dtypes
from ascendsim.dtypes import DTYPES, cast, dtype, from_numpy, pack, saturate, unpack
from ascendsim.errors import InputError
from ascendsim.terms import HalfOverflow, RoundMode

sys.path.insert(0, str(Path(__file__).parent / "isa"))  # the oracle lies with the tests that need it most
from number_oracle import FLOATS, INTEGERS, SIZE, convert, decode, encode, is_nan, number_of

MODES = list(RoundMode)
NARROW = ("half", "bfloat16_t")
INF = {"half": 0x7C00, "bfloat16_t": 0x7F80}
many = settings(max_examples=200, deadline=None, derandomize=True, database=None)


def name_of(mode):
    return mode.name.removeprefix("CAST_")


def bits_of(array):
    return array.view(f"u{array.dtype.itemsize}").astype(np.int64)


def floats(bits):
    return np.array(bits, np.uint32).view(np.float32)


def same_bits(got, want, kind):
    """Equal, or both NaN."""
    return [
        (i, hex(g), hex(w))
        for i, (g, w) in enumerate(zip(got, want, strict=True))
        if g != w and not (is_nan(g, kind) and is_nan(w, kind))
    ]


def converted(source_bits, source, target, mode, overflow=HalfOverflow.INF_NAN):
    values = np.array(source_bits, f"u{SIZE[source]}").view(dtype(source).numpy)
    with np.errstate(all="ignore"):
        result = cast(values, dtype(target), mode, overflow)
    assert result.dtype == dtype(target).numpy
    return [int(b) for b in result.view(f"u{SIZE[target]}")]


# ---- every number between two neighbours -------------------------------------------------------------------------


def expected(low, mode, above_half, tie, negative):
    """Bits of a magnitude strictly between the patterns low and low + 1, by the rounding table."""
    up = low + 1
    match name_of(mode):
        case "RINT" | "NONE":
            return np.where(tie, low + (low & 1), np.where(above_half, up, low))
        case "ROUND":
            return np.where(tie | above_half, up, low)
        case "FLOOR":
            return up if negative else low
        case "CEIL":
            return low if negative else up
        case "TRUNC":
            return low
        case "ODD":
            return low | 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", NARROW)
def test_every_gap_between_neighbours_rounds_as_the_mode_says(kind, mode):
    """All gaps, subnormal ones too: the midpoint, one float above the lower and one below the upper neighbour."""
    low = np.arange(INF[kind] - 1)  # up to the gap below the largest finite number
    ends = [np.array(p, np.uint16).view(dtype(kind).numpy).astype(np.float64) for p in (low, low + 1)]
    middle = ((ends[0] + ends[1]) / 2).astype(np.float32)
    points = {
        "middle": (middle, False, True),
        "just above the lower": (np.nextafter(ends[0].astype(np.float32), np.float32(np.inf)), False, False),
        "just below the upper": (np.nextafter(ends[1].astype(np.float32), np.float32(-np.inf)), True, False),
    }
    for what, (x, above_half, tie) in points.items():
        inside = (x > ends[0]) & (x < ends[1])  # a bfloat16_t subnormal gap is still 2**16 floats wide
        assert inside.all()
        for negative in (False, True):
            got = bits_of(cast(-x if negative else x, dtype(kind), mode))
            want = expected(low, mode, above_half, tie, negative) + 0x8000 * negative
            assert np.array_equal(got, np.broadcast_to(want, got.shape)), (what, negative)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", NARROW)
def test_numbers_that_fit_are_kept_in_every_mode(kind, mode):
    patterns = np.concatenate([np.arange(INF[kind] + 1), 0x8000 + np.arange(INF[kind] + 1)])
    wide = np.array(patterns, np.uint16).view(dtype(kind).numpy).astype(np.float32)
    assert np.array_equal(bits_of(cast(wide, dtype(kind), mode)), patterns)


# ---- against fractions -------------------------------------------------------------------------------------------

EDGES = (
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000,  # zeros, subnormals, smallest normal
    0x33000000, 0x33000001, 0x32FFFFFF, 0x33800000, 0xB3000000,  # around half of the smallest half subnormal
    0x387FC000, 0x387FE000, 0x38800000,  # around the smallest normal half
    0x477FE000, 0x477FEFFF, 0x477FF000, 0x477FF001, 0x47800000,  # 65504, 65519.99.., 65520, just above, 65536
    0xC77FE000, 0xC77FEFFF, 0xC77FF000, 0xC77FF001, 0xC7800000,
    0x7F7F0000, 0x7F7F7FFF, 0x7F7F8000, 0x7F7F8001, 0x7F7FFFFF, 0xFF7F8000, 0xFF7FFFFF,  # around bfloat16_t's largest
    0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FFFFFFF,  # inf, NaNs
)  # fmt: skip


def sample_bits(seed, count):
    """Random float patterns; half of them with exponents where half is at home, some with ties."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32, count, np.uint64)
    near = rng.integers(0x66, 0x90, count, np.uint64) << np.uint64(23)
    bits = np.where(rng.integers(0, 2, count), bits, bits & np.uint64(0x807FFFFF) | near)
    ties = rng.integers(0, 4, count)
    cleared = np.where(ties == 0, bits & np.uint64(0xFFFFF000), np.where(ties == 1, bits & np.uint64(0xFFFF8000), bits))
    return [int(b) for b in cleared]


@pytest.mark.parametrize("overflow", HalfOverflow)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", NARROW)
def test_float_to_narrow_equals_the_exact_oracle(kind, mode, overflow):
    source = [*EDGES, *sample_bits(1, 2000)]
    got = converted(source, "float", kind, mode, overflow)
    want = [convert(b, "float", kind, name_of(mode), overflow is HalfOverflow.SATURATE) for b in source]
    assert same_bits(got, want, kind) == []


@many
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=8), st.sampled_from(MODES), st.sampled_from(NARROW))
def test_float_to_narrow_on_any_pattern(source, mode, kind):
    want = [convert(b, "float", kind, name_of(mode)) for b in source]
    assert same_bits(converted(source, "float", kind, mode), want, kind) == []


@pytest.mark.parametrize(
    ("value", "mode", "want"),
    [
        (65519.99609375, "RINT", 65504),
        (65520, "RINT", np.inf),
        (65519.99609375, "ROUND", 65504),
        (65520, "ROUND", np.inf),
        (65520, "FLOOR", 65504),
        (-65520, "FLOOR", -np.inf),
        (65504.00390625, "CEIL", np.inf),
        (-65520, "CEIL", -65504),
        (1e30, "TRUNC", 65504),
        (65519.99609375, "ODD", 65504),
    ],
)
def test_the_end_of_half(value, mode, want):
    assert cast(np.float32([value]), dtype("half"), RoundMode[f"CAST_{mode}"])[0] == want


def test_saturation_clamps_infinities_and_turns_nan_into_zero():
    x = np.float32([np.inf, -np.inf, np.nan, 1e9, -1e9, 1.5])
    for kind, top in (("half", 65504.0), ("bfloat16_t", 3.3895313892515355e38)):
        got = cast(x, dtype(kind), RoundMode.CAST_RINT, HalfOverflow.SATURATE).astype(np.float64)
        ends = [top, -top, 0, top, -top, 1.5] if kind == "half" else [top, -top, 0, 1.0e9, -1.0e9, 1.5]
        assert np.allclose(got, ends, rtol=2**-8)
        assert got[:2].tolist() == [top, -top]


@pytest.mark.parametrize("kind", NARROW)
def test_widening_is_exact(kind):
    patterns = [*range(0x200), *range(0x200, 65536, 5)]
    got = converted(patterns, kind, "float", RoundMode.CAST_NONE)
    want = [convert(b, kind, "float", "NONE") for b in patterns]
    assert same_bits(got, want, "float") == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", INTEGERS)
def test_float_to_integer_rounds_and_clamps(kind, mode):
    size, signed = INTEGERS[kind]
    low, high = (-(1 << (size - 1)), (1 << (size - 1)) - 1) if signed else (0, (1 << size) - 1)
    around = [v + d for v in (low, high, 0, 100) for d in (-1.5, -1, -0.5, -0.25, 0, 0.25, 0.5, 1, 1.5)]
    source = [*EDGES, *(int(b) for b in np.float32(around).view(np.uint32)), *sample_bits(2, 500)]
    got = converted(source, "float", kind, mode)
    assert same_bits(got, [convert(b, "float", kind, name_of(mode)) for b in source], kind) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["int8_t", "uint8_t", "int16_t"])
def test_half_to_integer_in_every_pattern(kind, mode):
    source = range(0, 65536, 7)
    got = converted(source, "half", kind, mode)
    assert same_bits(got, [convert(b, "half", kind, name_of(mode)) for b in source], kind) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", ["int8_t", "uint8_t", "int16_t"])
def test_integer_to_half(source, mode):
    patterns = range(0, 1 << (8 * SIZE[source]), 1 if SIZE[source] == 1 else 5)
    got = converted(patterns, source, "half", mode)
    assert same_bits(got, [convert(b, source, "half", name_of(mode)) for b in patterns], "half") == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", ["float", "int32_t", "int64_t"])
def test_int64_to_others(target, mode):
    rng = np.random.default_rng(5)
    lengths = rng.integers(1, 64, 600).tolist()
    source = [int(rng.integers(1 << (n - 1), 1 << n)) * (-1) ** n & (1 << 64) - 1 for n in lengths]
    ties = [(1 << 63 - n) + (1 << 39 - n) + d & (1 << 64) - 1 for n in range(1, 12) for d in (-1, 0, 1)]
    source += [*ties, *((1 << 64) - t for t in ties), 0, 1 << 63, (1 << 63) - 1]
    want = [convert(b, "int64_t", target, name_of(mode)) for b in source]
    assert same_bits(converted(source, "int64_t", target, mode), want, target) == []


def test_pack_keeps_all_bits_of_an_integer():
    assert pack(2**63 - 1, dtype("int64_t")) == 2**63 - 1
    assert pack(-(2**31), dtype("int32_t")) == 2**31
    assert pack(-1, dtype("uint16_t")) == 65535
    assert pack(2.75, dtype("int32_t")) == 2
    assert pack(float("nan"), dtype("int32_t")) == 0


def test_cast_keeps_shape():
    x = np.zeros((2, 3, 4), np.float32)
    for target in DTYPES:
        assert cast(x, target, RoundMode.CAST_RINT).shape == (2, 3, 4)


def test_rounding_once_from_double_does_not_round_twice():
    """A double just above the tie of two halves: through float it would be the tie itself."""
    tie = 1 + 2**-11
    assert cast(np.array([tie + 2**-40]), dtype("half"), RoundMode.CAST_RINT)[0] == np.float16(1 + 2**-10)
    assert cast(np.array([tie]), dtype("half"), RoundMode.CAST_RINT)[0] == np.float16(1)


# ---- the half-overflow mode ---------------------------------------------------------------------------------------


def test_saturate_touches_only_half_and_bfloat16():
    for kind in DTYPES:
        x = np.array([1, 0, 2]).astype(kind.numpy)
        assert saturate(x, HalfOverflow.INF_NAN) is x
        narrow = kind.name in NARROW
        assert (saturate(x, HalfOverflow.SATURATE) is x) is not narrow
    wide = np.float32([np.inf, np.nan])
    assert saturate(wide, HalfOverflow.SATURATE) is wide


def test_saturate_clamps():
    for kind in NARROW:
        x = np.array([np.inf, -np.inf, np.nan, -0.0, 3]).astype(dtype(kind).numpy)
        got = saturate(x, HalfOverflow.SATURATE)
        assert got.dtype == x.dtype
        assert bits_of(got).tolist() == [INF[kind] - 1, 0x8000 | INF[kind] - 1, 0, 0x8000, *bits_of(x[4:])]


# ---- bits of one value ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DTYPES, ids=str)
def test_bits_survive_unpack_and_pack(kind):
    patterns = range(256) if kind.bytes == 1 else range(0, 1 << 16, 3) if kind.bytes == 2 else sample_bits(3, 3000)
    for bits in patterns:
        value = unpack(bits, kind)
        assert value.dtype == kind.numpy
        assert value.shape == ()
        if not is_nan(bits, kind.name):
            assert (
                number_of(bits, kind.name) == value if decode(bits, kind.name)[1] != "inf" else np.isinf(float(value))
            )
            assert pack(number_of(bits, kind.name), kind) == bits


def test_pack_rounds_to_nearest_even():
    for kind in ("half", "float"):
        bits = FLOATS[kind][1] + 1
        assert pack(1 + 2**-bits, dtype(kind)) == pack(1.0, dtype(kind))
        assert pack(1 + 3 * 2**-bits, dtype(kind)) == pack(1 + 4 * 2**-bits, dtype(kind))


@pytest.mark.parametrize(("kind", "value"), [("half", 1e6), ("float", 1e300), ("int32_t", 2**40)])
def test_pack_of_a_value_beyond_the_type_is_silent(kind, value):
    """asc.duplicate(half_tensor, 1e6, n) records infinity; the warning is the library's own accident."""
    pack(value, dtype(kind))


# ---- names ------------------------------------------------------------------------------------------------------


def test_names_aliases_and_objects_find_their_type():
    for kind in DTYPES:
        assert dtype(kind.name) is kind
        assert dtype(kind) is kind
        assert from_numpy(kind.numpy) is kind
        assert str(kind) == kind.name
        assert DTYPES[kind.code] is kind
    aliases = {
        "float16": "half", "fp16": "half", "float32": "float", "fp32": "float", "bfloat16": "bfloat16_t",
        "bf16": "bfloat16_t", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "uint16": "uint16_t",
        "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t",
    }  # fmt: skip
    assert {a: dtype(a).name for a in aliases} == aliases


def test_sizes():
    for kind in DTYPES:
        assert kind.bytes == SIZE[kind.name] == kind.numpy.itemsize
        assert (kind.per_datablock, kind.per_repeat) == (32 // kind.bytes, 256 // kind.bytes)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError) as caught:
        dtype("double")
    assert str(caught.value) == (
        "unknown dtype 'double'; known: half, bfloat16_t, float, int8_t, uint8_t, int16_t, uint16_t, int32_t, "
        "uint32_t, int64_t"
    )


def test_an_array_type_without_a_counterpart_is_named():
    with pytest.raises(InputError) as caught:
        from_numpy(np.dtype(np.float64))
    assert str(caught.value) == (
        "arrays of dtype float64 have no AscendC type; use one of ['half', 'bfloat16_t', 'float', 'int8_t', 'uint8_t', "
        "'int16_t', 'uint16_t', 'int32_t', 'uint32_t', 'int64_t']"
    )


# ---- the oracle itself --------------------------------------------------------------------------------------------


def test_the_oracle_reads_back_what_it_writes():
    for kind, bits in itertools.product(NARROW, range(0, 65536, 7)):
        if not is_nan(bits, kind):
            assert encode(decode(bits, kind), kind, "TRUNC") == bits


def test_the_oracle_agrees_with_numpy_on_nearest_even():
    source = sample_bits(4, 3000)
    with np.errstate(all="ignore"):
        want = [int(b) for b in floats(source).astype(np.float16).view(np.uint16)]
    assert same_bits([convert(b, "float", "half", "RINT") for b in source], want, "half") == []


def test_the_oracle_knows_the_limits():
    assert decode(0x7BFF, "half") == (False, Fraction(65504))
    assert decode(0x0001, "half") == (False, Fraction(1, 2**24))
    assert decode(0x7F7F, "bfloat16_t")[1] == Fraction(dtypes._LARGEST[1])
