"""Worked examples of the further element-wise instructions, results written out; test_every_instruction runs them."""

import math
import struct

import numpy as np
from lane_harness import Ground, local, run_both

from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.terms import RoundMode

EXAMPLES = {}

INF, NAN = math.inf, math.nan
F = [local(n, "float", 1024 * i, 1024) for i, n in enumerate("dab")]
H = [local(n, "half", 4096 + 1024 * i, 1024) for i, n in enumerate("dab")]
W = [local(n, "int32_t", 8192 + 1024 * i, 1024) for i, n in enumerate("dab")]
S = [local(n, "int16_t", 12288 + 1024 * i, 1024) for i, n in enumerate("dab")]
U = [local(n, "uint16_t", 16384 + 1024 * i, 1024) for i, n in enumerate("dab")]
BYTES = local("d", "int8_t", 20480, 1024)
NO_BYTES = local("d", "uint8_t", 20480, 1024)


def example(*names):
    """An example of these instructions."""

    def keep(fn):
        for name in names:
            EXAMPLES.setdefault(name, []).append(fn)
        return fn

    return keep


def run(kernel, out, count, *writes, saturate=False):
    """Elements of `out` after running the kernel on (tensor, values) pairs."""
    ground = Ground()
    for tensor, values in writes:
        ground.write(tensor, np.array(values).astype(tensor.dtype.numpy))
    both = run_both(kernel, ground, saturate)
    assert both.static == ()
    assert both.findings == ()
    return both.array(out, count).tolist()


def same(got, want):
    """Equal, NaN to NaN, and zeros of one sign."""
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert (math.isnan(g) and math.isnan(w)) or (g == w and math.copysign(1, g) == math.copysign(1, w)), (got, want)


def two(name, tensors, a, b, want, saturate=False):
    d, s0, s1 = tensors
    got = run(lambda asc: getattr(asc, name)(d, s0, s1, len(a)), d, len(a), (s0, a), (s1, b), saturate=saturate)
    same(got, want)


def one(name, tensors, a, want, saturate=False):
    d, s0, _ = tensors
    same(run(lambda asc: getattr(asc, name)(d, s0, len(a)), d, len(a), (s0, a), saturate=saturate), want)


def scaled(name, tensors, a, scalar, want, saturate=False):
    d, s0, _ = tensors
    same(run(lambda asc: getattr(asc, name)(d, s0, scalar, len(a)), d, len(a), (s0, a), saturate=saturate), want)


# ---- basic arithmetic -------------------------------------------------------------------------------------------


@example("max", "min")
def the_larger_and_the_smaller_know_signed_zeros_and_nan():
    """Boundary-value tables 13 and 14: of 0 and -0 the larger is 0, the smaller -0; NaN wins."""
    a, b = [1, -5, 0.0, -0.0, NAN, -INF, INF], [2, -7, -0.0, 0.0, 3, NAN, 4]
    for t in (F, H):
        two("max", t, a, b, [2, -5, 0.0, 0.0, NAN, NAN, INF])
        two("min", t, a, b, [1, -7, -0.0, -0.0, NAN, NAN, 4])
    two("max", H, a, b, [2, -5, 0.0, 0.0, 0.0, 0.0, 65504], saturate=True)
    two("min", H, a, b, [1, -7, -0.0, -0.0, 0.0, 0.0, 4], saturate=True)


@example("max", "min", "maxs", "mins")
def the_larger_and_the_smaller_of_integers_keep_all_bits():
    a, b = [-(2**31), 2**31 - 1, 2**24 + 1], [2**31 - 1, -(2**31), 2**24]
    two("max", W, a, b, [2**31 - 1, 2**31 - 1, 2**24 + 1])
    two("min", W, a, b, [-(2**31), -(2**31), 2**24])
    scaled("maxs", W, a, 2**24 + 1, [2**24 + 1, 2**31 - 1, 2**24 + 1])
    scaled("mins", W, a, -(2**31) + 1, [-(2**31), -(2**31) + 1, -(2**31) + 1])
    two("max", S, [-32768, 5], [32767, 4], [32767, 5])


@example("maxs", "mins")
def a_scalar_limits_each_lane():
    for t in (F, H):
        scaled("maxs", t, [-1, 3, NAN, -0.0, -INF], 0.0, [0.0, 3, NAN, 0.0, 0.0])
        scaled("mins", t, [-1, 3, NAN, 0.0, INF], -0.0, [-1, -0.0, NAN, -0.0, -0.0])
    scaled("maxs", H, [1, INF], NAN, [0, 0], saturate=True)


@example("max")
def max_in_bit_mask_form_touches_the_set_lanes_of_each_repeat():
    d, a, b = F
    got = run(
        lambda asc: asc.max(d, a, b, (0b1001, 0), 2, BinaryRepeatParams(1, 1, 1, 1, 1, 0)),
        d, 16,
        (a, range(16)), (b, [2] * 8), (d, [-1] * 16),
    )  # fmt: skip
    assert got == [2, -1, -1, 3, -1, -1, -1, -1, 8, -1, -1, 11, -1, -1, -1, -1]


@example("div")
def quotients_are_rounded_once():
    """Boundary-value table 12 for zeros and infinities."""
    a, b = [1, -7, 1, -1, 0, INF, -0.0, 65504], [3, 2, 0, 0, 0, INF, 5, -INF]
    third = struct.unpack("<f", bytes.fromhex("abaaaa3e"))[0]
    two("div", F, a, b, [third, -3.5, INF, -INF, NAN, NAN, -0.0, -0.0])
    two("div", H, a, b, [0.333251953125, -3.5, INF, -INF, NAN, NAN, -0.0, -0.0])
    two("div", H, a, b, [0.333251953125, -3.5, 65504, -65504, 0, 0, -0.0, -0.0], saturate=True)
    two("div", H, [60000, 2**-14], [0.25, 1024], [INF, 2**-24])


@example("exp")
def powers_of_e_are_rounded_once():
    """2.718281828459045: half has 2**-9 below 4, float 2**-22. Boundary-value table 2 for the rest."""
    one("exp", H, [1, 0, -0.0, -INF, 65504, NAN, 11], [2.71875, 1, 1, 0, INF, NAN, 59872])
    one("exp", H, [65504, INF, NAN, -INF, 11.09375], [65504, 65504, 0, 0, 65504], saturate=True)
    one("exp", F, [1, 0, -INF, INF, NAN, 88.75, -104], [2.7182817459106445, 1, 0, INF, NAN, INF, 0])


@example("ln")
def logarithms_are_rounded_once():
    """0.6931471805599453, and ln(65504) = 11.089866...: half has 2**-7 there. Boundary-value table 3 for the rest."""
    one("ln", H, [2, 1, 65504, 0, -0.0, -1, INF], [0.693359375, 0.0, 11.09375, -INF, -INF, NAN, INF])
    one("ln", H, [0, -0.0, -1, INF, -INF, NAN], [-65504, -65504, 0, 65504, 0, 0], saturate=True)
    one("ln", F, [2, 1, 0, -1, INF], [0.6931471824645996, 0.0, -INF, NAN, INF])


@example("sqrt")
def roots_are_rounded_once():
    """1.4142135623730951: half has 2**-10 there, float 2**-23. Boundary-value table 6 for zeros and infinities.

    That table gives 256 for sqrt(65504) = 255.93749...; the nearest half is 255.875.
    """
    one("sqrt", H, [2, 9, 65504, 0.0, -0.0, -4, INF], [1.4140625, 3, 255.875, 0.0, -0.0, NAN, INF])
    one("sqrt", H, [-4, INF, NAN, -0.0], [0, 65504, 0, -0.0], saturate=True)
    one("sqrt", F, [2, 9, -0.0, -4], [1.4142135381698608, 3, -0.0, NAN])


@example("rsqrt")
def inverse_roots_are_the_correctly_rounded_ones():
    """0.7071067811865476 and 1 / sqrt(65504) = 0.003907...; boundary-value table 7 for the rest."""
    one("rsqrt", H, [2, 4, 65504, 0.0, -0.0, -1, INF], [0.70703125, 0.5, 0.00390625, INF, -INF, NAN, 0.0])
    one("rsqrt", H, [0.0, -0.0, -1, NAN, INF], [65504, -65504, 0, 0, 0.0], saturate=True)
    one("rsqrt", F, [2, 0.25, -0.0], [0.7071067690849304, 2, -INF])


@example("reciprocal")
def reciprocals_are_the_correctly_rounded_ones():
    """Boundary-value table 5 for zeros and infinities."""
    one("reciprocal", H, [3, -4, 0.0, -0.0, -INF, NAN], [0.333251953125, -0.25, INF, -INF, -0.0, NAN])
    one("reciprocal", H, [0.0, -0.0, -INF, NAN], [65504, -65504, -0.0, 0], saturate=True)
    one("reciprocal", F, [3, -4, -0.0], [0.3333333432674408, -0.25, -INF])


@example("abs")
def the_sign_goes():
    for t in (F, H):
        one("abs", t, [-1.5, 2, -0.0, -INF, NAN], [1.5, 2, 0.0, INF, NAN])
    one("abs", H, [-INF, NAN], [65504, 0], saturate=True)


@example("relu")
def below_zero_is_zero():
    """Boundary-value table 8: -0 gives 0, NaN stays."""
    for t in (F, H):
        one("relu", t, [-1.5, 2, -0.0, -INF, NAN, INF], [0.0, 2, 0.0, 0.0, NAN, INF])
    one("relu", H, [NAN, INF], [0, 65504], saturate=True)
    one("relu", W, [-(2**31), 2**31 - 1, -1], [0, 2**31 - 1, 0])


@example("relu")
def relu_in_mask_form_strides_over_datablocks():
    d, a, _ = F
    got = run(
        lambda asc: asc.relu(d, a, 10, 2, UnaryRepeatParams(2, 1, 4, 2)), d, 56, (a, range(-8, 56)), (d, [-1] * 56)
    )
    want = [-1] * 56
    for r in range(2):
        for lane in range(10):
            want[r * 32 + lane // 8 * 16 + lane % 8] = max(0, r * 16 + lane - 8)
    assert got == want


@example("leaky_relu")
def what_has_the_sign_bit_is_scaled():
    """Boundary-value table 19: -0 is multiplied, too, so times a negative number it gives 0."""
    for t in (F, H):
        scaled("leaky_relu", t, [-8, 8, 0.0, -0.0, NAN, INF], 0.125, [-1, 8, 0.0, -0.0, NAN, INF])
        scaled("leaky_relu", t, [-8, 0.0, -0.0], -0.5, [4, 0.0, 0.0])
        scaled("leaky_relu", t, [5, -0.0], INF, [5, NAN])
    scaled("leaky_relu", H, [-60000, -60000], 8.0, [-INF, -INF])
    scaled("leaky_relu", H, [-60000, -0.0], -8.0, [65504, 0.0], saturate=True)


# ---- bits -------------------------------------------------------------------------------------------------------


@example("and_", "or_", "not_")
def bits_in_both_overflow_modes():
    for saturate in (False, True):
        two("and_", S, [0b1100, -1, -32768], [0b1010, 5, -32768], [0b1000, 5, -32768], saturate)
        two("or_", S, [0b1100, -32768], [0b1010, 1], [0b1110, -32767], saturate)
        two("and_", U, [0xFF00, 65535], [0x0FF0, 0x8001], [0x0F00, 0x8001], saturate)
        two("or_", U, [0xFF00], [0x0FF0], [0xFFF0], saturate)
        one("not_", U, [0, 65535, 0x00FF], [65535, 0, 0xFF00], saturate)
        one("not_", S, [0, -1, 32767], [-1, 0, -32768], saturate)


@example("shift_left")
def shifts_to_the_left_keep_the_sign():
    """The page: 1010101010101010 by 1 is 0101010101010100 as uint16_t, 1101010101010100 as int16_t; by 3 the latter is
    1101010101010000."""
    pattern = 0b1010101010101010
    signed = pattern - 65536
    scaled("shift_left", U, [pattern, 1, 65535], 1, [0b0101010101010100, 2, 65534])
    scaled("shift_left", S, [signed, 1, -1], 1, [0b1101010101010100 - 65536, 2, -2])
    scaled("shift_left", S, [signed], 3, [0b1101010101010000 - 65536])
    scaled("shift_left", S, [signed, 32767, 5], 16, [-32768, 0, 0], saturate=True)
    scaled("shift_left", W, [1, 2**30, -(2**31)], 1, [2, 0, -(2**31)], saturate=True)
    scaled("shift_left", W, range(1, 6), 2, [4, 8, 12, 16, 20])
    scaled("shift_left", U, [65535], 0, [65535])


@example("shift_right")
def shifts_to_the_right_are_arithmetic_for_signed_types():
    """The page: 1010101010101010 by 1 is 0101010101010101 as uint16_t, 1101010101010101 as int16_t."""
    pattern = 0b1010101010101010
    scaled("shift_right", U, [pattern, 65535], 1, [0b0101010101010101, 32767])
    scaled("shift_right", S, [pattern - 65536, -1, 7], 1, [0b1101010101010101 - 65536, -1, 3])
    scaled("shift_right", S, [-32768, 32767], 16, [-1, 0])
    scaled("shift_right", U, [65535], 16, [0])
    scaled("shift_right", W, [-(2**31), 2**31 - 1], 32, [-1, 0])
    scaled("shift_right", W, [-(2**31), 2**31 - 1], 30, [-2, 1])


@example("shift_right")
def shifts_to_the_right_may_round():
    """The page: 17 by 5 with round_en gives 1, as the last bit dropped is 1."""
    d, a, _ = S
    params = UnaryRepeatParams()
    for rounds, want in ((True, [1, 0, 0, 0]), (False, [0, -1, 0, -1])):
        got = run(
            lambda asc, r=rounds: asc.shift_right(d, a, 5, 4, 1, params, round_en=r), d, 4, (a, [17, -16, 15, -1])
        )
        assert got == want


@example("shift_left", "shift_right")
def the_number_of_bits_may_come_from_a_register():
    d, a, b = W

    def kernel(asc):
        asc.shift_left(d, a, asc.get_value(b, 1), 3)
        asc.shift_right(d[8], a, asc.get_value(b, 1), 3)

    got = run(kernel, d, 16, (a, [16, -16, 2**30]), (b, [1, 4]), (d, [0] * 16))
    assert got[:3] == [256, -256, 0]
    assert got[8:11] == [1, -1, 2**26]


# ---- two steps at once ------------------------------------------------------------------------------------------


@example("axpy")
def axpy_rounds_the_product_and_then_the_sum():
    """Half: 1.0009765625**2 = 1.00195407..., rounded 1.001953125; less 1.001953125 that is 0."""
    d, a, _ = H
    got = run(lambda asc: asc.axpy(d, a, 1.0009765625, 3), d, 3, (a, [1.0009765625, 2, -1]), (d, [-1.001953125, 1, 0]))
    same(got, [0.0, 3.001953125, -1.0009765625])


@example("axpy")
def a_product_that_overflows_meets_the_sum_as_infinity():
    """Boundary-value table 20: 65504 * 65504 is infinity, and with -infinity in dst NaN; saturated, it is 65504."""
    d, a, _ = H
    for saturate, want in ((False, [NAN, INF]), (True, [0.0, 0.0])):
        before = [-65504 if saturate else -INF, -65504]
        got = run(lambda asc: asc.axpy(d, a, 65504, 2), d, 2, (a, [65504] * 2), (d, before), saturate=saturate)
        same(got, want)


@example("axpy")
def axpy_of_halves_into_float_takes_the_scalar_as_half():
    """0.1 as half is 0.0999755859375; 64 lanes a repeat, source repeat stride 4."""
    d, a = F[0], H[1]
    params = UnaryRepeatParams(1, 1, 8, 4)
    got = run(lambda asc: asc.axpy(d, a, 0.1, 64, 2, params), d, 128, (a, [2] * 128), (d, range(128)))
    assert got == [np.float32(i) + np.float32(0.199951171875) for i in range(128)]
    got = run(lambda asc: asc.axpy(d, a, 0.1, 70), d, 71, (a, [2] * 70), (d, [0] * 71))
    assert got == [np.float32(0.199951171875)] * 70 + [0]


@example("mul_add_dst")
def mul_add_dst_adds_to_dst():
    for t in (F, H):
        d, a, b = t
        writes = (a, [2, 3, -1]), (b, [5, 7, 0.5]), (d, [1, 1, 1])
        same(run(lambda asc, t=t: asc.mul_add_dst(*t, 3), d, 3, *writes), [11, 22, 0.5])


@example("mul_add_dst")
def products_of_halves_are_exact_in_float():
    """(1 + 2**-10)**2 = 1 + 2**-9 + 2**-20; a repeat has 64 lanes, four datablocks of halves."""
    d, a, b = F[0], H[1], H[2]
    x = [1 + 2**-10] * 128
    params = BinaryRepeatParams(1, 1, 1, 8, 4, 4)
    got = run(lambda asc: asc.mul_add_dst(d, a, b, 64, 2, params), d, 128, (a, x), (b, x), (d, [1] * 128))
    assert got == [2 + 2**-9 + 2**-20] * 128
    got = run(lambda asc: asc.mul_add_dst(d, a, b, 100), d, 101, (a, x), (b, x), (d, [0] * 101))
    assert got == [1 + 2**-9 + 2**-20] * 100 + [0]


@example("fused_mul_add")
def fused_mul_add_multiplies_dst():
    for t in (F, H):
        d, a, b = t
        writes = (a, [2, 3, -1]), (b, [5, 7, 0.5]), (d, [10, 100, 4])
        same(run(lambda asc, t=t: asc.fused_mul_add(*t, 3), d, 3, *writes), [25, 307, -3.5])


@example("fused_mul_add", "mul_add_dst")
def half_saturates_after_each_step():
    """Boundary-value tables 21 and 22: 300 * 300 becomes 65504 before 65504 is taken off; NaN counts as 0."""
    d, a, b = H
    writes = (a, [300, NAN]), (b, [300, 2]), (d, [-65504, 7])
    same(run(lambda asc: asc.mul_add_dst(d, a, b, 2), d, 2, *writes, saturate=True), [0.0, 7])
    writes = (a, [300, NAN]), (b, [-65504, 7]), (d, [300, 2])
    same(run(lambda asc: asc.fused_mul_add(d, a, b, 2), d, 2, *writes, saturate=True), [0.0, 7])


@example("add_relu", "sub_relu")
def sums_and_differences_below_zero_are_zero():
    """Boundary-value tables 24 and 25; int16_t wraps first, or clamps in saturation mode."""
    for t in (F, H):
        two("add_relu", t, [1, -5, -0.0, INF, NAN], [2, 3, -0.0, -INF, 1], [3, 0.0, 0.0, NAN, NAN])
        two("sub_relu", t, [1, 5, -0.0, INF, 2], [2, 3, 0.0, INF, NAN], [0.0, 2, 0.0, NAN, NAN])
    two("add_relu", H, [60000, NAN], [60000, 1], [65504, 0], saturate=True)
    two("add_relu", S, [32767, -5, 7], [1, 3, 8], [0, 0, 15])
    two("add_relu", S, [32767, -5, 7], [1, 3, 8], [32767, 0, 15], saturate=True)
    two("sub_relu", S, [-32768, 5, 3], [1, 3, 5], [32767, 2, 0])
    two("sub_relu", S, [-32768, 5, 3], [1, 3, 5], [0, 2, 0], saturate=True)


@example("mul_cast")
def mul_cast_rounds_to_half_then_to_the_nearest_byte():
    """Table 28: infinities clamp, NaN is 0. 1.5 * 1.6669921875 = 2.50048... is 2.5 as half, a tie, so 2."""
    a, b = [1, -2, 3, -6, 1.5, 16, -INF, NAN], [1, 3, -4, 5, 1.6669921875, 16, 2, 2]
    want = {BYTES: [1, -6, -12, -30, 2, 127, -128, 0], NO_BYTES: [1, 0, 0, 0, 2, 255, 0, 0]}
    for d, values in want.items():
        for saturate in (False, True):
            got = run(lambda asc, d=d: asc.mul_cast(d, *H[1:], 8), d, 8, (H[1], a), (H[2], b), saturate=saturate)
            assert got == values


@example("mul_cast")
def mul_cast_takes_128_lanes_a_repeat():
    d, a, b = BYTES, *H[1:]
    params = BinaryRepeatParams(1, 1, 1, 4, 8, 8)
    got = run(
        lambda asc: asc.mul_cast(d, a, b, 128, 2, params), d, 256, (a, [i % 11 for i in range(256)]), (b, [-3] * 256)
    )
    assert got == [-3 * (i % 11) for i in range(256)]


# ---- dequantisation ---------------------------------------------------------------------------------------------


@example("set_deq_scale", "cast")
def int32_to_half_multiplies_by_the_scale():
    """0.1 as half is 0.0999755859375. The sums of the AddDeqRelu page: 89, 69, 77 -> 8.9, 6.9, 7.7."""
    d, a = H[0], W[1]

    def kernel(asc):
        asc.set_deq_scale(0.1)
        asc.cast(d, a, RoundMode.CAST_NONE, 4)
        asc.set_deq_scale(1.0)
        asc.cast(d[16], a, RoundMode.CAST_CEIL, 4)

    got = run(kernel, d, 32, (a, [89, 69, 2**31 - 1, -2049]), (d, [0] * 32))
    assert got[:4] == [8.8984375, 6.8984375, INF, -204.875]
    assert got[16:20] == [89, 69, INF, -2048]
    got = run(kernel, d, 4, (a, [2**31 - 1, -(2**31), 0, 1000000]), (d, [0] * 32), saturate=True)
    assert got == [65504, -65504, 0, 65504]
