"""Random legal parameters of the further element-wise instructions against the lane oracle: each type and each form."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lane_harness import Ground, compare, local
from number_oracle import FLOATS, SIZE, convert, number_of, width
from test_lane_properties import UB, blocks, known, lay_out, masks, one_byte_less_is_refused, reach, repeats, seeds

from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.terms import RoundMode

few = settings(
    max_examples=12, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
REAL = ("half", "float")
SIGNED = (*REAL, "int16_t", "int32_t")
WORD = ("int16_t", "uint16_t")
TWO = [
    *((name, kind, kind) for name in ("max", "min") for kind in SIGNED),
    *(("div", kind, kind) for kind in REAL),
    *((name, kind, kind) for name in ("add_relu", "sub_relu") for kind in (*REAL, "int16_t")),
    *((name, kind, kind) for name in ("and_", "or_") for kind in WORD),
    *(("mul_cast", kind, "half") for kind in ("int8_t", "uint8_t")),
    *(("mul_add_dst", dst, src) for dst, src in (("half", "half"), ("float", "float"), ("float", "half"))),
    *(("fused_mul_add", kind, kind) for kind in REAL),
]
"""(call, dst's type, sources' type)"""
ONE = [
    *((name, kind, kind) for name in ("exp", "ln", "sqrt", "rsqrt", "reciprocal", "abs") for kind in REAL),
    *(("relu", kind, kind) for kind in (*REAL, "int32_t")),
    *(("not_", kind, kind) for kind in WORD),
]
SCALAR = [
    *((name, kind, kind) for name in ("maxs", "mins") for kind in SIGNED),
    *(("leaky_relu", kind, kind) for kind in REAL),
    *(("axpy", dst, src) for dst, src in (("half", "half"), ("float", "float"), ("float", "half"))),
    *((name, kind, kind) for name in ("shift_left", "shift_right") for kind in (*WORD, "int32_t", "uint32_t")),
]
READS_DST = ("axpy", "mul_add_dst", "fused_mul_add")


def names(cases):
    return [f"{name} {dst}" if dst == src else f"{name} {src} {dst}" for name, dst, src in cases]


def strided(data, kinds, mask):
    """Block and repeat strides of dst and sources, and how far each reaches."""
    blk = [max(1, data.draw(blocks)), *(data.draw(blocks) for _ in kinds[1:])]
    rep = [data.draw(repeats) for _ in kinds]
    return blk, rep, [reach(mask.active, SIZE[k], b, r) for k, b, r in zip(kinds, blk, rep, strict=True)]


def number(data, name, kind):
    """A scalar that the call takes in this type."""
    if name.startswith("shift"):
        return data.draw(st.integers(0, width(kind)))
    if kind in FLOATS:
        return data.draw(st.one_of(st.integers(-3000, 3000).map(lambda n: n / 16), st.sampled_from([0.0, -0.0])))
    return data.draw(st.integers(-(1 << width(kind) - 1), (1 << width(kind) - 1) - 1))


@pytest.mark.parametrize(("name", "dst", "src"), TWO, ids=names(TWO))
@few
@given(st.data(), seeds, st.booleans())
def test_two_sources(name, dst, src, data, seed, saturate):
    kinds = (dst, src, src)
    mask = data.draw(masks(256 // max(SIZE[dst], SIZE[src])))
    blk, rep, reaches = strided(data, kinds, mask)
    tensors = lay_out(*zip("dab", kinds, reaches, strict=True))

    def kernel(asc, t=tensors):
        mask.around(asc, lambda m, n: getattr(asc, name)(*t, m, n, BinaryRepeatParams(*blk, *rep)))

    compare(kernel, known(seed, *tensors, holes=True), saturate)
    one_byte_less_is_refused(kernel, tensors, reaches)


@pytest.mark.parametrize(("name", "dst", "src"), TWO, ids=names(TWO))
@settings(few, max_examples=4)
@given(st.integers(1, 500), seeds, st.booleans())
def test_two_sources_of_a_count(name, dst, src, count, seed, saturate):
    kinds = (dst, src, src)
    reaches = [count * SIZE[k] for k in kinds]
    tensors = lay_out(*zip("dab", kinds, reaches, strict=True))

    def kernel(asc, t=tensors):
        getattr(asc, name)(*t, count)

    compare(kernel, known(seed, *tensors, holes=True), saturate)
    one_byte_less_is_refused(kernel, tensors, reaches)


@pytest.mark.parametrize(("name", "dst", "src"), ONE, ids=names(ONE))
@few
@given(st.data(), seeds, st.booleans())
def test_one_source(name, dst, src, data, seed, saturate):
    mask = data.draw(masks(256 // SIZE[dst]))
    blk, rep, reaches = strided(data, (dst, src), mask)
    tensors = lay_out(*zip("da", (dst, src), reaches, strict=True))

    def kernel(asc, t=tensors):
        mask.around(asc, lambda m, n: getattr(asc, name)(*t, m, n, UnaryRepeatParams(*blk, *rep)))

    compare(kernel, known(seed, *tensors, holes=True), saturate)
    one_byte_less_is_refused(kernel, tensors, reaches)


@pytest.mark.parametrize(("name", "dst", "src"), ONE, ids=names(ONE))
@settings(few, max_examples=4)
@given(st.integers(1, 500), seeds)
def test_one_source_of_a_count(name, dst, src, count, seed):
    reaches = [count * SIZE[k] for k in (dst, src)]
    tensors = lay_out(*zip("da", (dst, src), reaches, strict=True))

    def kernel(asc, t=tensors):
        getattr(asc, name)(*t, count)

    compare(kernel, known(seed, *tensors, holes=True))
    one_byte_less_is_refused(kernel, tensors, reaches)


@pytest.mark.parametrize(("name", "dst", "src"), SCALAR, ids=names(SCALAR))
@few
@given(st.data(), seeds, st.booleans(), st.booleans())
def test_a_scalar(name, dst, src, data, seed, from_register, saturate):
    mask = data.draw(masks(256 // max(SIZE[dst], SIZE[src])))
    blk, rep, reaches = strided(data, (dst, src), mask)
    d, a, s = lay_out(("d", dst, reaches[0]), ("a", src, reaches[1]), ("s", src, 32))
    scalar = number(data, name, src)
    more = (data.draw(st.booleans()) and src.startswith("int"),) if name == "shift_right" else ()

    def kernel(asc, t=(d, a)):
        value = asc.get_value(s, 0) if from_register else scalar
        mask.around(asc, lambda m, n: getattr(asc, name)(*t, value, m, n, UnaryRepeatParams(*blk, *rep), *more))

    stored = np.full(32 // SIZE[src], scalar).astype(s.dtype.numpy)
    compare(kernel, known(seed, d, a, holes=True).write(s, stored), saturate)
    one_byte_less_is_refused(kernel, [d, a], reaches)


@pytest.mark.parametrize(("name", "dst", "src"), SCALAR, ids=names(SCALAR))
@settings(few, max_examples=4)
@given(st.data(), st.integers(1, 500), seeds, st.booleans())
def test_a_scalar_of_a_count(name, dst, src, data, count, seed, saturate):
    reaches = [count * SIZE[k] for k in (dst, src)]
    tensors = lay_out(*zip("da", (dst, src), reaches, strict=True))
    scalar = number(data, name, src)

    def kernel(asc, t=tensors):
        getattr(asc, name)(*t, scalar, count)

    compare(kernel, known(seed, *tensors, holes=True), saturate)
    one_byte_less_is_refused(kernel, tensors, reaches)


# ---- operands that share bytes ----------------------------------------------------------------------------------


starts = st.integers(0, 12)


@pytest.mark.parametrize("name", ["max", "add_relu", *READS_DST[1:], "mul_cast"])
@settings(few, max_examples=40)
@given(st.data(), seeds, st.booleans())
def test_two_sources_on_shared_bytes(name, data, seed, saturate):
    """A repeat is read whole, dst with it where it is a source, then written, whatever overlaps.

    Not with halves into float: a later repeat would read the payload of a NaN as a half.
    """
    kinds = {"mul_cast": ("int8_t", "half", "half"), "mul_add_dst": ["float"] * 3}.get(name, ["half"] * 3)
    mask = data.draw(masks(256 // max(SIZE[k] for k in kinds)))
    at = [(data.draw(starts), max(1, data.draw(blocks)), data.draw(st.integers(0, 9))) for _ in range(3)]
    if data.draw(st.booleans()):
        at[1 + data.draw(st.integers(0, 1))] = at[0]
    tensors = [local(n, kind, 32 * start, UB // 2) for n, kind, (start, _, _) in zip("dab", kinds, at, strict=True)]
    strides = BinaryRepeatParams(*(blk for _, blk, _ in at), *(rep for _, _, rep in at))
    compare(
        lambda asc: mask.around(asc, lambda m, n: getattr(asc, name)(*tensors, m, n, strides)),
        known(seed, local("all", "half", 0, 16384), holes=True),
        saturate,
    )


@pytest.mark.parametrize("name", ["axpy", "exp", "relu"])
@settings(few, max_examples=40)
@given(st.data(), seeds)
def test_one_source_on_shared_bytes(name, data, seed):
    kinds = ("float", "float") if name == "axpy" else ("half", "half")
    mask = data.draw(masks(256 // SIZE[kinds[0]]))
    (d0, db, dr), (s0, sb, sr) = (
        (data.draw(starts), max(1, data.draw(blocks)), data.draw(st.integers(0, 9))) for _ in range(2)
    )
    d, a = local("d", kinds[0], 32 * d0, UB // 2), local("a", kinds[1], 32 * s0, UB // 2)
    more = (2.5,) if name == "axpy" else ()
    compare(
        lambda asc: mask.around(
            asc, lambda m, n: getattr(asc, name)(d, a, *more, m, n, UnaryRepeatParams(db, sb, dr, sr))
        ),
        known(seed, local("all", "half", 0, 16384), holes=True),
    )


# ---- dequantisation ---------------------------------------------------------------------------------------------


@settings(few, max_examples=60)
@given(st.data(), seeds, st.sampled_from(list(RoundMode)), st.booleans())
def test_int32_to_half_takes_the_scale_whatever_the_mode(data, seed, mode, saturate):
    mask = data.draw(masks(64))
    blk, rep, reaches = strided(data, ("half", "int32_t"), mask)
    d, a = lay_out(("d", "half", reaches[0]), ("a", "int32_t", reaches[1]))
    scale = number_of(convert(data.draw(st.integers(0, 0x7BFF)), "half", "float", "NONE"), "float")

    def kernel(asc, t=(d, a)):
        asc.set_deq_scale(scale)
        mask.around(asc, lambda m, n: asc.cast(*t, mode, m, n, UnaryRepeatParams(*blk, *rep)))

    compare(kernel, known(seed, d, a, holes=True), saturate)
    one_byte_less_is_refused(kernel, [d, a], reaches)


def test_a_sum_into_dst_sees_what_the_repeat_before_left():
    """dst with repeat stride 0: one block collects the products of all repeats, one after another."""
    d, a, b = local("d", "float", 0, 256), local("a", "float", 256, 1024), local("b", "float", 2048, 1024)
    ground = Ground().write(d, np.ones(64, np.float32)).write(a, np.arange(256, dtype=np.float32))
    ground.write(b, np.full(256, 2, np.float32))
    both = compare(lambda asc: asc.mul_add_dst(d, a, b, 64, 4, BinaryRepeatParams(1, 1, 1, 0, 8, 8)), ground)
    assert both.array(d, 64).tolist() == [1 + 2 * (4 * i + 384) for i in range(64)]
