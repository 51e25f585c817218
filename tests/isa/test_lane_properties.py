"""Random legal parameters of every instruction family against the lane oracle, bit for bit.

Operands are as long as the instruction reaches, to the byte: no rule may object to that, and E-OOB-LOCAL must to a
byte less.
"""

import tracemalloc
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from lane_harness import DEVICE, Ground, compare, gm_tensors, local, random_bytes, run_both
from number_oracle import SIZE

from ascendsim.checks import check_rows
from ascendsim.dtypes import HALF, INT32
from ascendsim.isa.convert import ROUND_MODES
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.move import (
    BrcbRepeatParams,
    CopyRepeatParams,
    DataCopyExtParams,
    DataCopyPadExtParams,
    DataCopyParams,
)
from ascendsim.record import record
from ascendsim.terms import HardEvent

many = settings(
    max_examples=80, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
seeds = st.integers(0, 2**32 - 1)
ARITHMETIC = st.sampled_from(["half", "float", "int16_t", "int32_t"])
WORDS = st.sampled_from(["half", "bfloat16_t", "float", "int16_t", "uint16_t", "int32_t", "uint32_t"])
BINARY = st.sampled_from(["add", "sub", "mul"])
SCALAR = st.sampled_from(["adds", "muls"])
UB = 65536


@dataclass(frozen=True)
class Mask:
    """How a call is masked: what is set before it, its mask and repeat arguments, and the active lanes that follow."""

    counter: bool
    outside: bool
    mask: object
    repeat: int
    active: tuple

    def around(self, asc, call):
        if self.counter:
            asc.set_mask_count()
        if self.outside:
            low, high = self.mask if isinstance(self.mask, tuple) else (self.mask, 0)
            asc.set_vector_mask(high, low)
        call(None if self.outside else self.mask, self.repeat)
        asc.set_mask_norm()
        asc.reset_mask()


@st.composite
def masks(draw, lanes, counts_each_repeat=False):
    counter = draw(st.booleans())
    outside = draw(st.booleans())
    repeat = draw(st.one_of(st.integers(1, 3), st.integers(1, 12)))
    if counter:
        count = draw(st.integers(1, 4 * lanes))
        if counts_each_repeat:
            active = [(r, range(count)) for r in range(repeat)]
        else:
            active = [(r, range(min(lanes, count - r * lanes))) for r in range(-(-count // lanes))]
        return Mask(True, outside, count, repeat, tuple(active))
    if draw(st.booleans()) and not outside:
        mask = draw(st.integers(0, lanes))
        active = range(mask)
    else:
        bits = draw(st.one_of(st.integers(0, 2**lanes - 1), st.just(2**lanes - 1), st.just(2**128 - 1)))
        mask = (bits & (2**64 - 1), bits >> 64)
        active = [lane for lane in range(lanes) if bits >> lane & 1]
    return Mask(False, outside, mask, repeat, tuple((r, active) for r in range(repeat)))


def cells(active, size, blk, rep):
    """First byte of each lane, repeat by repeat, relative to the operand's start."""
    e = 32 // size
    return [[r * rep * 32 + lane // e * blk * 32 + lane % e * size for lane in lanes] for r, lanes in active]


def reach(active, size, blk, rep):
    return max((at + size for row in cells(active, size, blk, rep) for at in row), default=0)


def lay_out(*operands):
    """Tensors of (name, type, bytes), one behind the other on datablocks, each exactly so long."""
    tensors, at = [], 0
    for name, kind, length in operands:
        tensors.append(local(name, kind, at, max(length, 1)))
        at = (at + length + 31) // 32 * 32
    assume(at <= UB)
    return tensors


def known(seed, *tensors, holes=False):
    """Ground whose tensors hold random elements; with `holes`, runs of them were never written."""
    rng = np.random.default_rng(seed)
    ground = Ground()
    for t in tensors:
        size = SIZE[t.dtype.name]
        ground.write(t, random_bytes(rng, t.dtype.name, t.allocation_bytes // size))
        if holes and t.allocation_bytes >= size:
            start = t.start_bytes + int(rng.integers(0, t.allocation_bytes // size)) * size
            ground.ub.written[start : start + size * int(rng.integers(1, 9))] = False
    return ground


def one_byte_less_is_refused(kernel, tensors, reaches):
    """Shorten each tensor in turn; `kernel(asc, tensors)`."""
    for i, (tensor, end) in enumerate(zip(tensors, reaches, strict=True)):
        if not end:
            continue
        short = [*tensors[:i], replace(tensor, allocation_bytes=end - 1), *tensors[i + 1 :]]
        recording = record(lambda asc, short=short: kernel(asc, short), DEVICE, 1, (), ())
        found = [f for f in check_rows(recording.program, DEVICE) if f.code == "E-OOB-LOCAL"]
        role = "dst" if i == 0 else f"src{i - 1}"
        text = f"{role} touches 1 B past the end of {tensor.name} ({end} B needed, {end - 1} B there)"
        assert [f.message.partition(" ")[2] for f in found] == [text]


blocks = st.integers(0, 4)
repeats = st.one_of(st.integers(0, 9), st.sampled_from([64, 255]))


# ---- element-wise -----------------------------------------------------------------------------------------------


@many
@given(BINARY, ARITHMETIC, st.data(), seeds, st.booleans(), st.booleans())
def test_binary(name, kind, data, seed, holes, saturate):
    size = SIZE[kind]
    mask = data.draw(masks(256 // size))
    blk = [max(1, data.draw(blocks)), data.draw(blocks), data.draw(blocks)]
    rep = [data.draw(repeats) for _ in range(3)]
    reaches = [reach(mask.active, size, b, r) for b, r in zip(blk, rep, strict=True)]
    tensors = lay_out(*((n, kind, length) for n, length in zip(("d", "a", "b"), reaches, strict=True)))

    def kernel(asc, t=tensors):
        mask.around(asc, lambda m, n: getattr(asc, name)(*t, m, n, BinaryRepeatParams(*blk, *rep)))

    compare(kernel, known(seed, *tensors, holes=holes), saturate)
    one_byte_less_is_refused(kernel, tensors, reaches)


@many
@given(BINARY, ARITHMETIC, st.integers(1, 700), seeds)
def test_binary_of_a_count(name, kind, count, seed):
    tensors = lay_out(*((n, kind, count * SIZE[kind]) for n in "dab"))

    def kernel(asc, t=tensors):
        getattr(asc, name)(*t, count)

    compare(kernel, known(seed, *tensors, holes=True))
    one_byte_less_is_refused(kernel, tensors, [count * SIZE[kind]] * 3)


@many
@given(SCALAR, ARITHMETIC, st.data(), seeds, st.booleans(), st.booleans())
def test_scalar_binary(name, kind, data, seed, from_register, saturate):
    size = SIZE[kind]
    mask = data.draw(masks(256 // size))
    blk, rep = [max(1, data.draw(blocks)), data.draw(blocks)], [data.draw(repeats), data.draw(repeats)]
    reaches = [reach(mask.active, size, b, r) for b, r in zip(blk, rep, strict=True)]
    d, a, s = lay_out(("d", kind, reaches[0]), ("a", kind, reaches[1]), ("s", kind, 32))
    scalar = data.draw(st.integers(-3000, 3000)) / (1 if kind.startswith("int") else 16)

    def kernel(asc, t=(d, a)):
        value = asc.get_value(s, 32 // size - 1) if from_register else scalar
        mask.around(asc, lambda m, n: getattr(asc, name)(*t, value, m, n, UnaryRepeatParams(*blk, *rep)))

    compare(kernel, known(seed, d, a, s), saturate)
    one_byte_less_is_refused(kernel, [d, a], reaches)


PAIRS = [(a.name, b.name, mode) for (a, b), modes in ROUND_MODES.items() for mode in modes if (a, b) != (INT32, HALF)]


@settings(many, max_examples=250)
@given(st.sampled_from(PAIRS), st.data(), seeds, st.booleans())
def test_cast(pair, data, seed, saturate):
    source, target, mode = pair
    wide = max(SIZE[source], SIZE[target])
    mask = data.draw(masks(256 // wide))
    blk, rep = [max(1, data.draw(blocks)), data.draw(blocks)], [data.draw(repeats), data.draw(repeats)]
    # Lanes are counted by the wider type: a datablock of the narrower one holds more of them.
    reaches = [
        reach(mask.active, SIZE[kind], b, r) for kind, b, r in zip((target, source), blk, rep, strict=True)
    ]  # fmt: skip
    d, a = lay_out(("d", target, reaches[0]), ("a", source, reaches[1]))

    def kernel(asc, t=(d, a)):
        mask.around(asc, lambda m, n: asc.cast(*t, mode, m, n, UnaryRepeatParams(*blk, *rep)))

    compare(kernel, known(seed, d, a, holes=True), saturate)
    one_byte_less_is_refused(kernel, [d, a], reaches)


@many
@given(st.sampled_from(PAIRS), st.integers(1, 400), seeds)
def test_cast_of_a_count_is_contiguous_on_both_sides(pair, count, seed):
    source, target, mode = pair
    reaches = [count * SIZE[target], count * SIZE[source]]
    d, a = lay_out(("d", target, reaches[0]), ("a", source, reaches[1]))

    def kernel(asc, t=(d, a)):
        asc.cast(*t, mode, count)

    compare(kernel, known(seed, d, a))
    one_byte_less_is_refused(kernel, [d, a], reaches)


# ---- operands that share bytes ----------------------------------------------------------------------------------


starts = st.integers(0, 12)


@settings(many, max_examples=150)
@given(BINARY, ARITHMETIC, st.data(), seeds, st.booleans())
def test_binary_on_shared_bytes(name, kind, data, seed, saturate):
    """A repeat is read whole, then written, whatever overlaps."""
    size = SIZE[kind]
    mask = data.draw(masks(256 // size))
    operands = [(data.draw(starts), max(1, data.draw(blocks)), data.draw(st.integers(0, 9))) for _ in range(3)]
    if data.draw(st.booleans()):
        operands[1 + data.draw(st.integers(0, 1))] = operands[0]
    whole = local("all", kind, 0, UB)
    d, a, b = (whole[at * 32 // size] for at, _, _ in operands)
    strides = BinaryRepeatParams(*(blk for _, blk, _ in operands), *(rep for _, _, rep in operands))
    compare(
        lambda asc: mask.around(asc, lambda m, n: getattr(asc, name)(d, a, b, m, n, strides)),
        known(seed, local("some", kind, 0, 16384), holes=True),
        saturate,
    )


@many
@given(st.sampled_from(PAIRS), st.data(), seeds)
def test_cast_on_shared_bytes(pair, data, seed):
    source, target, mode = pair
    wide = max(SIZE[source], SIZE[target])
    mask = data.draw(masks(256 // wide))
    (d0, db, dr), (s0, sb, sr) = (
        (data.draw(starts), max(1, data.draw(blocks)), data.draw(st.integers(0, 9))) for _ in range(2)
    )
    if data.draw(st.booleans()):
        d0, db, dr = s0, sb, sr
    d, a = local("d", target, 32 * d0, 32768), local("a", source, 32 * s0, 32768)
    params = UnaryRepeatParams(db, sb, dr, sr)
    compare(
        lambda asc: mask.around(asc, lambda m, n: asc.cast(d, a, mode, m, n, params)),
        known(seed, local("all", source, 0, 16384)),
    )


@many
@given(st.data(), seeds, st.sampled_from(["half", "float"]), st.booleans())
def test_reductions_on_shared_bytes(data, seed, kind, saturate):
    """The real kernel sums datablocks in place: the results of repeat r land on sources of earlier repeats."""
    mask = data.draw(masks(256 // SIZE[kind]))
    name = data.draw(st.sampled_from(["block_reduce_sum", "pair_reduce_sum", "whole_reduce_sum"]))
    d, a = (local(n, kind, 32 * data.draw(starts), 32768) for n in "da")
    strides = (data.draw(st.integers(0, 9)), data.draw(st.integers(0, 3)), data.draw(st.integers(0, 9)))
    compare(
        lambda asc: mask.around(asc, lambda m, n: getattr(asc, name)(d, a, *order(name, m, n), *strides)),
        known(seed, local("all", kind, 0, 16384)),
        saturate,
    )


@many
@given(WORDS, st.data(), seeds)
def test_copy_on_shared_bytes(kind, data, seed):
    mask = data.draw(masks(256 // SIZE[kind], counts_each_repeat=True))
    d, a = (local(n, kind, 32 * data.draw(starts), 32768) for n in "da")
    blk, rep = [max(1, data.draw(blocks)), data.draw(blocks)], [data.draw(st.integers(0, 9)) for _ in range(2)]
    compare(
        lambda asc: mask.around(asc, lambda m, n: asc.copy(d, a, m, n, CopyRepeatParams(*blk, *rep))),
        known(seed, local("all", kind, 0, 16384), holes=True),
    )


def order(name, mask, repeat):
    """BlockReduceSum and PairReduceSum take the repeat first."""
    return (mask, repeat) if name == "whole_reduce_sum" else (repeat, mask)


def accumulate(kind, repeat, name="add"):
    acc, x = local("acc", kind, 0, 256), local("x", kind, 256, 256 * repeat)
    strides = BinaryRepeatParams(1, 1, 1, 0, 8, 0)

    def kernel(asc):
        getattr(asc, name)(acc, x, acc, 256 // SIZE[kind], repeat, strides)

    return kernel, (acc, x)


@settings(many, phases=[Phase.generate], max_examples=20)
@given(BINARY, ARITHMETIC, st.integers(2, 5), seeds)
def test_an_accumulate_adds_repeat_after_repeat(name, kind, repeat, seed):
    """dst = src1 with repeat stride 0 is the documented accumulate (general constraints, address overlap)."""
    kernel, tensors = accumulate(kind, repeat, name)
    compare(kernel, known(seed, *tensors))


def test_in_place_repeats_that_overlap_by_half_see_each_other():
    x, y = local("x", "float", 0, 384), local("y", "float", 512, 256)
    ground = Ground().write(x, np.arange(96, dtype=np.float32)).write(y, np.full(64, 1000, np.float32))
    compare(lambda asc: asc.add(x, x, y, 64, 2, BinaryRepeatParams(1, 1, 1, 4, 4, 0)), ground)


def test_copy_reads_and_writes_repeat_by_repeat():
    """A block copied to the next one, eight times: the first block runs through."""
    x = local("x", "float", 0, 288)
    ground = Ground().write(x, np.arange(72, dtype=np.float32))
    compare(lambda asc: asc.copy(x[8], x, 8, 8, CopyRepeatParams(1, 1, 1, 1)), ground)


def test_a_nan_counts_as_zero_in_its_own_addition_only():
    """Instructions page, section 4: in saturation mode 15 ones and a NaN give 14.0, as a NaN step becomes 0."""
    x, d = local("x", "half", 0, 32), local("d", "half", 1024, 16)
    ground = Ground().write(x, np.float16([1] * 15 + [np.nan]))
    both = run_both(lambda asc: asc.block_reduce_sum(d, x, 1, 16, 1, 1, 8), ground, saturate=True)
    assert both.array(d, 1).tolist() == [14.0]


@pytest.mark.parametrize("name", ["block_reduce_sum", "whole_reduce_sum"])
def test_half_sums_saturate_inside_the_tree(name):
    """Arithmetic page, section 3: 60000 + 60000 becomes 65504 before anything else is added."""
    x, d = local("x", "half", 0, 256), local("d", "half", 1024, 16)
    ground = Ground().write(x, np.float16([60000, 60000, -30000, 0] + [0] * 124))
    compare(lambda asc: getattr(asc, name)(d, x, *order(name, 128, 1), 1, 1, 8), ground, saturate=True)


def test_integers_clamp_in_saturation_mode():
    """Instructions page, section 14: integer add/mul overflow wraps in INF/NAN mode and clamps in saturation mode."""
    x = local("x", "int16_t", 0, 32)
    ground = Ground().write(x, np.full(16, 32767, np.int16))
    both = run_both(lambda asc: asc.adds(x, x, 1, 16), ground, saturate=True)
    assert both.array(x, 16).tolist() == [32767] * 16


# ---- reductions -------------------------------------------------------------------------------------------------


@settings(many, max_examples=120)
@given(
    st.sampled_from(["block_reduce_sum", "pair_reduce_sum", "whole_reduce_sum"]),
    st.sampled_from(["half", "float"]),
    st.data(),
    seeds,
    st.booleans(),
)
def test_reductions(name, kind, data, seed, saturate):
    size = SIZE[kind]
    lanes = 256 // size
    mask = data.draw(masks(lanes))
    dst_rep, blk, rep = data.draw(repeats), data.draw(blocks), data.draw(repeats)
    group = {"block_reduce_sum": 32 // size, "pair_reduce_sum": 2, "whole_reduce_sum": lanes}[name]
    written = [r * dst_rep * (lanes // group) + lane // group for r, active in mask.active for lane in active]
    reaches = [(max(written) + 1) * size if written else 0, reach(mask.active, size, blk, rep)]
    d, a = lay_out(("d", kind, reaches[0]), ("a", kind, reaches[1]))

    def kernel(asc, t=(d, a)):
        mask.around(asc, lambda m, n: getattr(asc, name)(*t, *order(name, m, n), dst_rep, blk, rep))

    compare(kernel, known(seed, d, a, holes=True), saturate)
    one_byte_less_is_refused(kernel, [d, a], reaches)


# ---- moves ------------------------------------------------------------------------------------------------------


@many
@given(WORDS, st.data(), seeds)
def test_copy(kind, data, seed):
    size = SIZE[kind]
    mask = data.draw(masks(256 // size, counts_each_repeat=True))
    blk, rep = [max(1, data.draw(blocks)), data.draw(blocks)], [data.draw(repeats), data.draw(repeats)]
    reaches = [reach(mask.active, size, b, r) for b, r in zip(blk, rep, strict=True)]
    d, a = lay_out(("d", kind, reaches[0]), ("a", kind, reaches[1]))

    def kernel(asc, t=(d, a)):
        mask.around(asc, lambda m, n: asc.copy(*t, m, n, CopyRepeatParams(*blk, *rep)))

    compare(kernel, known(seed, d, a, holes=True))
    one_byte_less_is_refused(kernel, [d, a], reaches)


@many
@given(WORDS, st.data(), seeds, st.booleans())
def test_duplicate(kind, data, seed, from_register):
    size = SIZE[kind]
    mask = data.draw(masks(256 // size))
    blk, rep = max(1, data.draw(blocks)), data.draw(repeats)
    reaches = [reach(mask.active, size, blk, rep)]
    d, s = lay_out(("d", kind, reaches[0]), ("s", kind, 32))
    scalar = data.draw(st.integers(0, 200)) / (1 if "int" in kind else 32)

    def kernel(asc, t=(d,)):
        value = asc.get_value(s[1], 2) if from_register else scalar
        mask.around(asc, lambda m, n: asc.duplicate(*t, value, m, n, blk, rep))

    compare(kernel, known(seed, d, s))
    one_byte_less_is_refused(kernel, [d], reaches)


@many
@given(WORDS, st.integers(1, 600), seeds)
def test_duplicate_of_a_count(kind, count, seed):
    (d,) = lay_out(("d", kind, count * SIZE[kind]))

    def kernel(asc, t=(d,)):
        asc.duplicate(*t, 3, count)

    compare(kernel, known(seed, d))
    one_byte_less_is_refused(kernel, [d], [count * SIZE[kind]])


@many
@given(WORDS, st.integers(1, 20), st.integers(1, 5), st.integers(0, 40), seeds)
def test_brcb(kind, repeat, blk, rep, seed):
    size = SIZE[kind]
    reaches = [max((r * rep + j * blk + 1) * 32 for r in range(repeat) for j in range(8)), 8 * repeat * size]
    d, a = lay_out(("d", kind, reaches[0]), ("a", kind, reaches[1]))

    def kernel(asc, t=(d, a)):
        asc.brcb(*t, repeat, BrcbRepeatParams(blk, rep))

    compare(kernel, known(seed, d, a, holes=True))
    one_byte_less_is_refused(lambda asc, t: kernel(asc, (t[0], a)), [d], reaches[:1])
    short = replace(a, allocation_bytes=reaches[1] - 1)
    program = record(lambda asc: kernel(asc, (d, short)), DEVICE, 1, (), ()).program
    (found,) = (f for f in check_rows(program, DEVICE) if f.severity.value == "E")
    wanted = f"Brcb reads {8 * repeat} elements, 8 for each repeat, and a has {8 * repeat - 1} from there on"
    assert (found.code, found.message) == ("E-BRCB-SRC", wanted)


def burst_reach(count, length, pitch):
    return (count - 1) * pitch + length


@many
@given(st.sampled_from(["int8_t", "half", "float"]), st.data(), seeds)
def test_data_copy_inside_ub(kind, data, seed):
    p = DataCopyParams(data.draw(st.integers(1, 9)), data.draw(st.integers(1, 6)), data.draw(blocks), data.draw(blocks))
    length = p.block_len * 32
    reaches = [burst_reach(p.block_count, length, length + gap * 32) for gap in (p.dst_gap, p.src_gap)]
    d, a = lay_out(("d", kind, reaches[0]), ("a", kind, reaches[1]))

    def kernel(asc, t=(d, a)):
        asc.data_copy(*t, p)

    compare(kernel, known(seed, d, a, holes=True))
    one_byte_less_is_refused(kernel, [d, a], reaches)


@many
@given(st.sampled_from(["uint8_t", "half", "float"]), st.data(), seeds)
def test_data_copy_to_ub_and_back(kind, data, seed):
    size = SIZE[kind]
    into = DataCopyParams(
        data.draw(st.integers(1, 9)), data.draw(st.integers(1, 6)), data.draw(blocks), data.draw(blocks)
    )
    out = replace(into, src_gap=data.draw(blocks), dst_gap=data.draw(blocks))
    shift = data.draw(st.integers(0, 20))
    length = into.block_len * 32
    ub = burst_reach(into.block_count, length, length + max(into.dst_gap, out.src_gap) * 32)
    x_bytes = burst_reach(into.block_count, length, length + into.src_gap * 32)
    y_bytes = burst_reach(into.block_count, length, length + out.dst_gap * 32)
    x, y = gm_tensors(("x", kind, shift + x_bytes // size), ("y", kind, shift + y_bytes // size))
    (t,) = lay_out(("t", kind, ub))
    rng = np.random.default_rng(seed)
    ground = Ground((x, y)).write(x, random_bytes(rng, kind, x.count)).write(t, random_bytes(rng, kind, ub // size))

    def kernel(asc, x, y):
        asc.data_copy(t, x[shift], into)
        asc.set_flag(HardEvent.MTE2_MTE3, 0)
        asc.wait_flag(HardEvent.MTE2_MTE3, 0)
        asc.data_copy(y[shift], t, out)

    compare(kernel, ground)


@settings(many, max_examples=120)
@given(st.sampled_from(["int8_t", "half", "bfloat16_t", "float", "int32_t"]), st.data(), seeds)
def test_data_copy_pad(kind, data, seed):
    size = SIZE[kind]
    count, elements = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 70))
    sides = [data.draw(st.integers(0, 32 // size)) if data.draw(st.booleans()) else 0 for _ in range(2)]
    pad = DataCopyPadExtParams(data.draw(st.booleans()), *sides, data.draw(st.integers(0, 100)))
    into = DataCopyExtParams(
        count, elements * size, data.draw(st.integers(0, 9)) * size, data.draw(st.integers(0, 3))
    )  # fmt: skip
    row = -(-(sum(sides) + elements) * size // 32) * 32
    out = DataCopyExtParams(
        count, elements * size, data.draw(st.integers(0, 3)), data.draw(st.integers(0, 9)) * size
    )  # fmt: skip
    x_bytes = burst_reach(count, into.block_len, into.block_len + into.src_stride)
    y_bytes = burst_reach(count, out.block_len, out.block_len + out.dst_stride)
    x, y = gm_tensors(("x", kind, 1 + x_bytes // size), ("y", kind, 1 + y_bytes // size))
    into_ub = burst_reach(count, row, row + into.dst_stride * 32)
    out_ub = burst_reach(count, out.block_len, -(-out.block_len // 32) * 32 + out.src_stride * 32)
    t, u = lay_out(("t", kind, into_ub), ("u", kind, out_ub))
    rng = np.random.default_rng(seed)
    ground = Ground((x, y)).write(x, random_bytes(rng, kind, x.count)).write(u, random_bytes(rng, kind, out_ub // size))
    ground.ub.written[u.start_bytes : u.start_bytes + int(rng.integers(0, 2)) * size] = False

    def kernel(asc, x, y):
        asc.data_copy_pad(t, x[1], into, pad)
        asc.data_copy_pad(y[1], u, out)

    compare(kernel, ground)


# ---- masks between calls ----------------------------------------------------------------------------------------

SLOTS = [local(f"s{i}", "float", 1024 * i, 1024) for i in range(4)]
slots = st.sampled_from(SLOTS)
calls = st.one_of(
    st.tuples(st.just("count"), st.integers(1, 256)),
    st.tuples(st.just("norm"), st.integers(0, 2**64 - 1)),
    st.tuples(BINARY, slots, slots, slots, st.integers(1, 256)),
    st.tuples(BINARY, slots, slots, slots, st.one_of(st.none(), st.integers(1, 64)), st.integers(1, 4)),
    st.tuples(SCALAR, slots, slots, st.integers(-4, 4), st.one_of(st.none(), st.integers(1, 64)), st.integers(1, 4)),
    st.tuples(st.just("duplicate"), slots, st.integers(-4, 4), st.one_of(st.none(), st.integers(1, 64)), st.just(4)),
    st.tuples(st.just("brcb"), st.just(SLOTS[3]), st.just(SLOTS[0]), st.just(1)),
    st.tuples(st.just("block_reduce_sum"), slots, slots, st.just(1), st.none(), st.just(1), st.just(1), st.just(8)),
)


@settings(many, max_examples=120)
@given(st.lists(calls, max_size=12), seeds)
def test_the_mask_is_carried_from_call_to_call(program, seed):
    def kernel(asc):
        for name, *arguments in program:
            if name in ("count", "norm"):
                (asc.set_mask_count if name == "count" else asc.set_mask_norm)()
                asc.set_vector_mask(0, *arguments)
            else:
                getattr(asc, name)(*arguments)
            if name == "brcb":  # it leaves a full mask, which as a count would reach past everything
                asc.set_mask_norm()
        asc.set_mask_norm()

    compare(kernel, known(seed, *SLOTS))


X, Y, _, _ = SLOTS
FORGOTTEN = {
    "Add": lambda asc: asc.add(X, Y, Y, None, 1),
    "Add, strided": lambda asc: asc.add(X, Y, Y, None, 1, BinaryRepeatParams(2, 1, 1, 8, 8, 8)),
    "Muls": lambda asc: asc.muls(X, Y, 2, None, 1),
    "Duplicate": lambda asc: asc.duplicate(X, 1, None, 1),
    "BlockReduceSum": lambda asc: asc.block_reduce_sum(X, Y, 1, None, 1, 1, 8),
    "Copy": lambda asc: asc.copy(X, Y, None, 1, CopyRepeatParams(1, 1, 8, 8)),
}


@pytest.mark.parametrize("api", FORGOTTEN)
def test_counter_mode_with_the_full_mask_is_out_of_bounds(api):
    """Forgetting set_vector_mask after set_mask_count leaves a count of 2**64 - 1."""

    def kernel(asc):
        asc.set_mask_count()
        FORGOTTEN[api](asc)
        asc.set_mask_norm()

    recording = record(kernel, DEVICE, 1, (), ())
    assert "E-OOB-LOCAL" in {f.code for f in check_rows(recording.program, DEVICE)}


def test_copy_with_the_full_mask_as_a_count_needs_little_memory():
    def kernel(asc):
        asc.set_mask_count()
        asc.copy(X, Y, None, 4, CopyRepeatParams(1, 1, 8, 8))
        asc.set_mask_norm()

    program = record(kernel, DEVICE, 1, (), ()).program
    tracemalloc.start()
    check_rows(program, DEVICE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20


def test_a_register_of_another_type_is_taken_in_the_tensors_type():
    """Instructions page, section 3: Adds and Muls take a scalar of the tensor type. 2**-11 is a tie above 1.0."""
    f, h = local("f", "float", 0, 32), local("h", "half", 1024, 32)
    ground = Ground().write(f, np.full(8, 2**-11 + 2**-23, np.float32)).write(h, np.ones(16, np.float16))
    both = run_both(lambda asc: asc.adds(h, h, asc.get_value(f, 0), 16), ground)
    assert both.array(h, 1).tolist() == [1.0]
