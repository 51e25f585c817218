"""Random legal parameters of reductions to extremes, comparisons, selections and gathers against the oracle."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lane_harness import Ground, local, random_bytes
from number_oracle import SIZE
from select_harness import compare

from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.gather import GatherRepeatParams
from ascendsim.isa.gather_mask import GatherMaskParams
from ascendsim.terms import CmpMode, ReduceOrder, SelMode

many = settings(
    max_examples=60, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
seeds = st.integers(0, 2**32 - 1)
FLOATS = st.sampled_from(["half", "float"])
WORDS = st.sampled_from(["half", "bfloat16_t", "float", "int16_t", "uint16_t", "int32_t", "uint32_t"])
few = st.integers(0, 4)


def known(seed, *tensors, holes=False, tame=False):
    """UB with random elements in these tensors; with holes some bytes are unwritten, tame ones repeat themselves."""
    rng = np.random.default_rng(seed)
    ground = Ground()
    for tensor in tensors:
        count = tensor.allocation_bytes // tensor.dtype.bytes
        raw = random_bytes(rng, tensor.dtype.name, count)
        if tame:  # few values, so that ties are common
            raw = rng.choice(raw.view(f"u{tensor.dtype.bytes}")[:5], count).view(np.uint8)
        ground.write(tensor, raw)
        if holes:
            start = tensor.start_bytes + int(rng.integers(0, tensor.allocation_bytes - 8))
            ground.ub.written[start : start + int(rng.integers(1, 8))] = False
    return ground


@st.composite
def masks(draw, lanes):
    """(what is set before, mask, repeat): a count of lanes, bits, none, or counter mode."""
    repeat = draw(st.integers(0, 5))
    kind = draw(st.sampled_from(["lanes", "bits", "outside", "counter"]))
    if kind == "lanes":
        return kind, draw(st.integers(0, lanes)), max(1, repeat)
    if kind == "counter":
        return kind, draw(st.integers(1, 3 * lanes)), max(1, repeat)
    bits = draw(st.one_of(st.integers(1, 2**lanes - 1), st.just(2**lanes - 1)))
    return kind, (bits & (2**64 - 1), bits >> 64), max(1, repeat)


def around(asc, mask, call):
    kind, value, repeat = mask
    if kind == "counter":
        asc.set_mask_count()
    if kind == "outside":
        asc.set_vector_mask(value[1], value[0])
    call(None if kind == "outside" else value, repeat)
    asc.set_mask_norm()
    asc.reset_mask()


@many
@given(st.data(), seeds, FLOATS, st.booleans())
def test_block_extremes(data, seed, kind, tame):
    d, a = local("d", kind, 0, 8192), local("a", kind, 8192, 24576)
    mask = data.draw(masks(256 // SIZE[kind]))
    name = data.draw(st.sampled_from(["block_reduce_max", "block_reduce_min"]))
    strides = (data.draw(few), data.draw(few), data.draw(st.integers(0, 9)))
    compare(
        lambda asc: around(asc, mask, lambda m, n: getattr(asc, name)(d, a, n, m, *strides)),
        known(seed, d, a, holes=data.draw(st.booleans()), tame=tame),
    )


@many
@given(st.data(), seeds, FLOATS, st.booleans(), st.booleans())
def test_whole_extremes(data, seed, kind, tame, in_place):
    d, a = local("d", kind, 0, 32768), local("a", kind, 0 if in_place else 32768, 32768)
    mask = data.draw(masks(256 // SIZE[kind]))
    name = data.draw(st.sampled_from(["whole_reduce_max", "whole_reduce_min"]))
    strides = (data.draw(few), data.draw(few), data.draw(st.integers(0, 9)))
    order = data.draw(st.sampled_from(list(ReduceOrder)))
    compare(
        lambda asc: around(asc, mask, lambda m, n: getattr(asc, name)(d, a, m, n, *strides, order)),
        known(seed, d, a, tame=tame),
        saturate=data.draw(st.booleans()),
    )


@many
@given(st.data(), seeds, FLOATS)
def test_repeat_sums(data, seed, kind):
    d, a = local("d", kind, 0, 4096), local("a", kind, 8192, 24576)
    mask, repeat = data.draw(st.integers(0, 256 // SIZE[kind])), data.draw(st.integers(1, 5))
    strides = (data.draw(few), data.draw(few), data.draw(few), data.draw(st.integers(0, 9)))
    compare(lambda asc: asc.repeat_reduce_sum(d, a, repeat, mask, *strides), known(seed, d, a))


@many
@given(st.data(), seeds, FLOATS, st.booleans())
def test_tensor_sums(data, seed, kind, saturate):
    d, a, w = local("d", kind, 0, 32), local("a", kind, 8192, 24576), local("w", kind, 1024, 2048)
    ground = known(seed, d, a, w)
    if data.draw(st.booleans()):
        count = data.draw(st.integers(1, 1000))
        compare(lambda asc: asc.reduce_sum(d, a, w, count), ground, saturate)
        return
    mask, repeat = data.draw(st.integers(1, 256 // SIZE[kind])), data.draw(st.integers(1, 300))
    stride = data.draw(st.integers(0, 2))
    compare(lambda asc: asc.reduce_sum(d, a, w, mask, repeat, stride), ground, saturate)


@many
@given(st.data(), seeds, FLOATS, st.booleans())
def test_tensor_extremes(data, seed, kind, tame):
    d, a, w = local("d", kind, 0, 32), local("a", kind, 8192, 24576), local("w", kind, 1024, 2048)
    ground = known(seed, d, a, w, tame=tame)
    name = data.draw(st.sampled_from(["reduce_max", "reduce_min"]))
    index = data.draw(st.booleans())
    if data.draw(st.booleans()):
        count = data.draw(st.integers(1, 1000))
        compare(lambda asc: getattr(asc, name)(d, a, w, count, cal_index=index), ground)
        return
    mask, repeat, stride = data.draw(st.integers(1, 256 // SIZE[kind])), data.draw(st.integers(1, 150)), data.draw(few)
    compare(lambda asc: getattr(asc, name)(d, a, w, mask, repeat, stride, cal_index=index), ground)


@many
@given(st.data(), seeds, st.sampled_from(["half", "float", "int32_t"]), st.booleans())
def test_compare(data, seed, kind, tame):
    lanes = 256 // SIZE[kind]
    d = local("d", data.draw(st.sampled_from(["uint8_t", "int8_t"])), 0, 4096)
    a, b = (local(n, kind, at, 24576) for n, at in (("a", 4096), ("b", 32768)))
    mode = CmpMode.EQ if kind == "int32_t" else data.draw(st.sampled_from(list(CmpMode)))
    ground = known(seed, d, a, b, holes=data.draw(st.booleans()), tame=tame)
    if data.draw(st.booleans()):
        count = data.draw(st.integers(1, 300)) * (lanes // 4)
        count = max(lanes, min(count, 24576 // SIZE[kind] - lanes))
        compare(lambda asc: asc.compare(d, a, b, mode, count), ground, allowed=("E-ALIGN-COMPARE",))
        return
    repeat = data.draw(st.integers(1, 5))
    strides = BinaryRepeatParams(1, data.draw(few), data.draw(few), 8, data.draw(few), data.draw(few))
    mask = data.draw(st.integers(0, lanes))
    compare(lambda asc: asc.compare(d, a, b, mode, mask, repeat, strides), ground, allowed=("W-MASK-MODE",))


@many
@given(st.data(), seeds, st.sampled_from(["half", "float", "int32_t"]))
def test_compares(data, seed, kind):
    lanes = 256 // SIZE[kind]
    d, a = local("d", "uint8_t", 0, 4096), local("a", kind, 4096, 24576)
    mode = CmpMode.EQ if kind == "int32_t" else data.draw(st.sampled_from(list(CmpMode)))
    ground = known(seed, d, a, tame=True)
    scalar = data.draw(
        st.sampled_from([0, 1, -3, 7.5, float("inf"), float("nan")] if kind != "int32_t" else [0, -1, 9])
    )
    if data.draw(st.booleans()):
        count = lanes * data.draw(st.integers(1, 40))
        compare(lambda asc: asc.compares(d, a, scalar, mode, count), ground)
        return
    repeat, strides = data.draw(st.integers(1, 5)), UnaryRepeatParams(1, data.draw(few), 8, data.draw(few))
    compare(lambda asc: asc.compares(d, a, scalar, mode, lanes, repeat, strides), ground)


def test_compare_of_more_than_252_repeats_goes_on_behind_the_first_bits():
    d, a, b = local("d", "uint8_t", 0, 4096), local("a", "half", 4096, 1), local("b", "half", 0, 1)
    a, b = local("a", "half", 0x1000, 0x10000), local("b", "half", 0x11000, 0x10000)
    ground = Ground(ub_bytes=0x21000)
    rng = np.random.default_rng(3)
    for tensor in (a, b):
        ground.write(tensor, rng.integers(0, 3, 32768).astype(np.float16))
    both = compare(lambda asc: asc.compare(d, a, b, CmpMode.GE, 32768), ground)
    want = ground.ub.content[0x1000:0x11000].view(np.float16) >= ground.ub.content[0x11000:0x21000].view(np.float16)
    assert np.array_equal(np.unpackbits(both.array(d, 4096), bitorder="little"), want)


@many
@given(st.data(), seeds, FLOATS, st.sampled_from(list(SelMode)), st.booleans())
def test_select(data, seed, kind, mode, meets):
    lanes = 256 // SIZE[kind]
    d, a = local("d", kind, 0, 24576), local("a", kind, 32 * data.draw(st.integers(0, 20)) if meets else 24576, 8192)
    b = local("b", kind, 40960, 8192)
    m = local("m", data.draw(st.sampled_from(["uint8_t", "uint16_t", "uint32_t"])), 49152, 2048)
    other = data.draw(st.sampled_from([0, -1.5, 3])) if mode is SelMode.VSEL_TENSOR_SCALAR_MODE else b
    ground = known(seed, d, local("x", kind, 24576, 8192), b, m, holes=data.draw(st.booleans()))
    if data.draw(st.booleans()):
        count = data.draw(st.integers(1, 8192 // SIZE[kind]))
        compare(lambda asc: asc.select(d, m, a, other, mode, count), ground)
        return
    mask = data.draw(masks(lanes))
    strides = BinaryRepeatParams(1 + data.draw(few), *(data.draw(few) for _ in range(5)))
    compare(lambda asc: around(asc, mask, lambda k, n: asc.select(d, m, a, other, mode, k, n, strides)), ground)


@many
@given(st.data(), seeds, FLOATS, st.booleans())
def test_select_by_the_compare_mask_register(data, seed, kind, is_in_place):
    lanes = 256 // SIZE[kind]
    d = local("d", kind, 0, 24576)
    a = d if is_in_place else local("a", kind, 24576, 8192)
    m, s = local("m", "uint8_t", 49152, 2048), local("s", data.draw(WORDS), 57344, 64)
    ground = known(seed, d, a, m, s, holes=data.draw(st.booleans()))
    is_counted, repeat = data.draw(st.booleans()), data.draw(st.integers(1, 5))
    mask = data.draw(st.integers(1, 3 * lanes)) if is_counted else data.draw(st.integers(1, 2**64 - 1))
    strides = (1, 1, 0, 8, 8, 3) if is_in_place else (1 + data.draw(few), *(data.draw(few) for _ in range(5)))

    def kernel(asc):
        asc.set_cmp_mask(s)
        if is_counted:
            asc.set_mask_count()
        asc.set_vector_mask(0, mask)
        asc.select(d, m, a, repeat, BinaryRepeatParams(*strides))
        asc.set_mask_norm()

    compare(kernel, ground)


@many
@given(st.data(), seeds, st.sampled_from(["half", "float"]))
def test_compares_in_place_and_in_counter_mode(data, seed, kind):
    """Bits over the start of the source; elements behind the count are compared, but need not be written."""
    lanes, repeat = 256 // SIZE[kind], data.draw(st.integers(1, 6))
    a, bits = local("a", kind, 4096, 4096), local("b", "uint8_t", 4096, 4096)
    count = data.draw(st.integers(0, repeat * lanes))
    ground = known(seed, a, tame=True)
    ground.ub.written[4096 + data.draw(st.integers(0, count)) * SIZE[kind] : 8192] = False
    mode = data.draw(st.sampled_from(list(CmpMode)))

    def kernel(asc):
        asc.set_mask_count()
        asc.set_vector_mask(0, count)
        asc.compares(bits, a, 0, mode, None, repeat)
        asc.set_mask_norm()

    compare(kernel, ground, allowed=("W-MASK-MODE",))


@many
@given(st.data(), seeds, WORDS)
def test_gather(data, seed, kind):
    size = SIZE[kind]
    lanes = 256 // size
    d, a, o = local("d", kind, 0, 8192), local("a", kind, 8192, 4096), local("o", "uint32_t", 16384, 16384)
    base = size * data.draw(st.integers(0, 100))
    ground = known(seed, d, a, holes=data.draw(st.booleans()))
    rng = np.random.default_rng(seed)
    ground.write(o, (rng.integers(0, (4096 - base) // size, 4096) * size).astype(np.uint32))
    if data.draw(st.booleans()):
        count = data.draw(st.integers(1, 5 * lanes))
        compare(lambda asc: asc.gather(d, a, o, base, count), ground)
        return
    mask, stride = data.draw(masks(lanes)), data.draw(st.integers(0, 9))
    compare(lambda asc: around(asc, mask, lambda k, n: asc.gather(d, a, o, base, k, n, stride)), ground)


@many
@given(st.data(), seeds, st.sampled_from(["uint16_t", "uint32_t"]))
def test_gatherb(data, seed, kind):
    d, a, o = local("d", kind, 0, 16384), local("a", kind, 16384, 4096), local("o", "uint32_t", 32768, 1024)
    ground = known(seed, d, a, holes=data.draw(st.booleans()))
    ground.write(o, (np.random.default_rng(seed).integers(0, 128, 256) * 32).astype(np.uint32))
    params = GatherRepeatParams(1 + data.draw(few), data.draw(st.integers(0, 20)))
    repeat = data.draw(st.integers(1, 6))
    compare(lambda asc: asc.gatherb(d, a, o, repeat, params), ground)


@many
@given(st.data(), seeds, WORDS)
def test_gather_mask(data, seed, kind):
    size = SIZE[kind]
    d, a = local("d", kind, 0, 8192), local("a", kind, 16384, 16384)
    bits = local("p", f"uint{8 * size}_t", 8192, 4096)
    pattern = data.draw(st.one_of(st.integers(1, 7), st.just(bits)))
    ground = known(seed, d, a, bits, holes=data.draw(st.booleans()))
    reduce_mode = data.draw(st.booleans())
    mask = data.draw(st.integers(1, 300)) if reduce_mode else 0
    strides = (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5)), data.draw(st.integers(0, 9)), data.draw(few))
    n = local("n", "uint32_t", 40960, 32)

    def kernel(asc):
        count = asc.gather_mask(d, a, pattern, reduce_mode, mask, GatherMaskParams(*strides))
        asc.reset_mask()
        asc.duplicate(n, count, 8)

    compare(kernel, ground)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("kind", ["half", "int16_t", "uint16_t"])
def test_transpose(kind, in_place):
    a = local("a", kind, 0, 512)
    d = a if in_place else local("d", kind, 512, 512)
    compare(lambda asc: asc.transpose(d, a), known(7, a, holes=True))
