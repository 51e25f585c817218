"""Worked examples of comparisons, selections, gathers and Transpose, their results written out here."""

import numpy as np
from examples_reduce import result
from lane_harness import local

from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.gather import GatherRepeatParams
from ascendsim.isa.gather_mask import GatherMaskParams
from ascendsim.terms import CmpMode, SelMode

EXAMPLES = {}


def example(*names):
    """An example of these instructions."""

    def keep(fn):
        for name in names:
            EXAMPLES.setdefault(name, []).append(fn)
        return fn

    return keep


A, B = local("a", "float", 0, 4096), local("b", "float", 4096, 4096)
D = local("d", "float", 8192, 4096)
H, E = local("h", "half", 0, 4096), local("e", "half", 8192, 4096)
X32, Y32 = local("i", "int32_t", 0, 4096), local("j", "int32_t", 4096, 4096)
M, N = local("m", "uint8_t", 16384, 1024), local("n", "int8_t", 16384, 1024)
OFFSETS = local("o", "uint32_t", 20480, 4096)


def eight(*numbers):
    return np.float32(numbers * 8)


# ---- comparisons ------------------------------------------------------------------------------------------------


@example("compare")
def the_six_relations_of_the_documentation():
    """Compare page: src0 = 2 3 5 7 11 13 17 19, src1 = 2 4 6 8 10 12 14 16; element 0 is the lowest bit."""
    left, right = eight(2, 3, 5, 7, 11, 13, 17, 19), eight(2, 4, 6, 8, 10, 12, 14, 16)
    wanted = {"LT": 0b00001110, "GT": 240, "GE": 241, "LE": 15, "EQ": 1, "NE": 0b11111110}
    for mode, byte in wanted.items():
        got = result(
            lambda asc, m=mode: asc.compare(M, A, B, CmpMode[m], 64), M, 9,
            a=(A, left), b=(B, right), m=(M, np.full(9, 77, np.uint8)),
        )  # fmt: skip
        assert got == [byte] * 8 + [77], mode


@example("compare")
def integers_are_compared_for_equality_and_bits_go_to_signed_bytes_too():
    left = np.arange(64, dtype=np.int32)
    right = left.copy()
    right[[7, 63]] = -1
    got = result(lambda asc: asc.compare(N, X32, Y32, CmpMode.EQ, 64), N, 8, x=(X32, left), y=(Y32, right))
    assert got == [0x7F, -1, -1, -1, -1, -1, -1, 0x7F]


@example("compare")
def repeats_of_a_comparison_lie_one_behind_the_other():
    """Two repeats of half, the second from datablock 9 on, against one datablock; dst's strides have no effect."""
    values = np.arange(400, dtype=np.float16)
    got = result(
        lambda asc: asc.compare(
            M, H, H[32], CmpMode.LT, 128, 2, BinaryRepeatParams(1, 1, 0, 8, 9, 0)
        ),
        M, 33,
        h=(H, values), m=(M, np.full(33, 5, np.uint8)),
    )  # fmt: skip
    first = [0xFF] * 4 + [0] * 12  # lane l of 0..127 against 32 + l % 16: below it up to 31, 32..47 equal
    assert got == first + [0] * 16 + [5]


@example("compare")
def a_comparison_with_nan_is_false_but_for_ne():
    left = np.full(64, np.nan, np.float32)
    for mode in CmpMode:
        got = result(lambda asc, m=mode: asc.compare(M, A, B, m, 64), M, 1, a=(A, left), b=(B, eight(0)[:1].repeat(64)))
        assert got == [255 if mode is CmpMode.NE else 0]


@example("compares")
def a_scalar_is_compared_in_the_sources_type():
    values = np.float16([0.0999755859375, 0.1001, 0.0998, 0.1] * 32)
    got = result(lambda asc: asc.compares(M, H, 0.1, CmpMode.EQ, 128), M, 2, h=(H, values))
    assert got == [0b10011001, 0b10011001]


@example("compares")
def compares_takes_strides():
    values = np.arange(512, dtype=np.float32)
    got = result(
        lambda asc: asc.compares(M, A, 64, CmpMode.GE, 64, 2, UnaryRepeatParams(1, 2, 8, 1)), M, 16, a=(A, values)
    )
    assert got == [0, 0, 0, 0, 255, 255, 255, 255] * 2


@example("compares")
def bits_may_go_to_the_start_of_what_is_compared():
    """Four repeats of half: 64 bytes of bits over 1024 bytes of source."""
    values = np.float16([1, 0, 0, 2] * 128)
    bits = local("hb", "uint8_t", 0, 4096)
    got = result(lambda asc: asc.compares(bits, H, 0, CmpMode.NE, 512), bits, 66, h=(H, values))
    assert got == [0b10011001] * 64 + [0x00, 0x3C]  # then the source as it was: 1.0


# ---- selections -------------------------------------------------------------------------------------------------


def masked(*bytes_):
    return (M, np.uint8(bytes_ + (0,) * (64 - len(bytes_))))


@example("set_cmpmask", "select")
def mode_2_uses_the_bits_one_after_another():
    got = result(
        lambda asc: asc.select(D, M, A, B, SelMode.VSEL_TENSOR_TENSOR_MODE, 68), D, 70,
        a=(A, np.arange(128, dtype=np.float32)), b=(B, -np.arange(128, dtype=np.float32)),
        m=masked(0b101, 0, 0, 0, 0, 0, 0, 0x80, 0b10), d=(D, np.full(70, 0.5, np.float32)),
    )  # fmt: skip
    want = [-float(i) for i in range(68)]
    want[0], want[2], want[63], want[65] = 0, 2, 63, 65
    assert got == [*want, 0.5, 0.5]


@example("set_cmpmask", "select")
def mode_0_uses_the_same_bits_in_every_repeat():
    got = result(
        lambda asc: asc.select(D, M, A, B, SelMode.VSEL_CMPMASK_SPR, 64, 2, BinaryRepeatParams()), D, 128,
        a=(A, np.full(128, 1, np.float32)), b=(B, np.full(128, 2, np.float32)), m=masked(0b11),
    )  # fmt: skip
    assert [i for i, v in enumerate(got) if v == 1] == [0, 1, 64, 65]


@example("select_scalar", "set_cmpmask")
def mode_1_takes_a_scalar_where_the_bit_is_0():
    got = result(
        lambda asc: asc.select(E, M, H, -2.5, SelMode.VSEL_TENSOR_SCALAR_MODE, 3, 2, BinaryRepeatParams()), E, 132,
        h=(H, np.arange(256, dtype=np.float16)), m=masked(0b110, *[0] * 15, 0b001), e=(E, np.full(132, 9, np.float16)),
    )  # fmt: skip
    assert got == [-2.5, 1, 2, *[9] * 125, 128, -2.5, -2.5, 9]


@example("select_scalar")
def mode_1_takes_a_register():
    got = result(
        lambda asc: asc.select(D, M, A, asc_value(asc), SelMode.VSEL_TENSOR_SCALAR_MODE, 4), D, 4,
        a=(A, np.float32([1, 2, 3, 4])), b=(B, np.float32([10, 20])), m=masked(0b0101),
    )  # fmt: skip
    assert got == [1, 20, 3, 20]


def asc_value(asc):
    return asc.get_value(B, 1)


@example("set_cmp_mask", "select_held")
def select_without_src1_takes_the_registers_first_element():
    """The mask that is set holds; bits of a repeat lie behind those of the one before."""

    def kernel(asc):
        asc.set_cmp_mask(B)
        asc.set_vector_mask(0, 0b111)
        asc.select(D, M, A, 2, BinaryRepeatParams(1, 1, 1, 1, 2, 0))

    got = result(
        kernel, D, 16,
        a=(A, np.arange(64, dtype=np.float32)), b=(B, np.float32([-7, 1, 2, 3])),
        m=masked(0b010, *[0] * 7, 0b101), d=(D, np.full(16, 9, np.float32)),
    )  # fmt: skip
    assert got == [-7, 1, -7, *[9] * 5, 16, -7, 18, *[9] * 5]


@example("set_cmp_mask", "select_held")
def the_register_holds_bytes_of_any_type():
    """0xC0003C00: a half takes the low half of the word."""
    words = local("k", "uint32_t", 20480, 64)

    def kernel(asc):
        asc.set_cmp_mask(words)
        asc.set_mask_count()
        asc.set_vector_mask(0, 3)
        asc.select(E, M, H, 1)
        asc.set_mask_norm()

    got = result(
        kernel, E, 4,
        h=(H, np.float16([5, 6, 7])), m=masked(0b010), k=(words, np.uint32([0xC0003C00] * 4)),
        e=(E, np.full(4, 9, np.float16)),
    )  # fmt: skip
    assert got == [1, 6, 1, 9]


# ---- gathers ----------------------------------------------------------------------------------------------------


@example("gather")
def gather_counts_bytes_from_the_base():
    got = result(
        lambda asc: asc.gather(E, H, OFFSETS, 4, 3), E, 4,
        h=(H, np.arange(64, dtype=np.float16)), o=(OFFSETS, np.uint32([10, 0, 122])), e=(E, np.full(4, 77, np.float16)),
    )  # fmt: skip
    assert got == [7, 2, 63, 77]


@example("gather")
def the_documentations_example_turns_128_halves_around():
    got = result(
        lambda asc: asc.gather(E, H, OFFSETS, 0, 128, 1, 8), E, 128,
        h=(H, np.arange(128, dtype=np.float16)), o=(OFFSETS, np.arange(254, -1, -2, dtype=np.uint32)),
    )  # fmt: skip
    assert got == list(range(127, -1, -1))


@example("gather")
def masked_lanes_of_a_gather_keep_their_place_among_the_offsets():
    got = result(
        lambda asc: asc.gather(D, A, OFFSETS, 0, (0b1010, 0), 2, 1), D, 12,
        a=(A, np.arange(64, dtype=np.float32)), o=(OFFSETS, 4 * np.arange(128, dtype=np.uint32) % 256),
        d=(D, np.full(12, -1, np.float32)),
    )  # fmt: skip
    assert got == [-1, 1, -1, 3, -1, -1, -1, -1, -1, 1, -1, 3]


@example("gather")
def the_mask_of_the_tail_stays_set():
    def kernel(asc):
        asc.gather(D, A, OFFSETS, 0, 67)
        asc.add(D[128], A, A, None, 1)

    got = result(
        kernel, D, 136,
        a=(A, np.arange(128, dtype=np.float32)), o=(OFFSETS, np.zeros(67, np.uint32)), d=(D, np.zeros(136, np.float32)),
    )  # fmt: skip
    assert got[128:] == [0, 2, 4, 0, 0, 0, 0, 0]


@example("gatherb")
def gatherb_turns_datablocks_around():
    """Gatherb page: offsets 224, 192, ..., 0."""
    u, v = local("u", "uint16_t", 0, 512), local("v", "uint16_t", 1024, 512)
    got = result(
        lambda asc: asc.gatherb(v, u, OFFSETS, 1, GatherRepeatParams(1, 8)), v, 128,
        u=(u, np.arange(128, dtype=np.uint16)), o=(OFFSETS, np.arange(224, -1, -32, dtype=np.uint32)),
    )  # fmt: skip
    assert got == [16 * block + i for block in range(7, -1, -1) for i in range(16)]


@example("gather_mask")
def the_documentations_pattern_keeps_odd_elements():
    """GatherMask page, pattern 2 in place: 1 2 3 ... 256 becomes 2 4 6 ... 256."""

    def kernel(asc):
        kept = asc.gather_mask(A, A, 2, False, 0, GatherMaskParams(1, 4, 8, 0))
        asc.reset_mask()
        asc.duplicate(D, kept, 1)

    start = {"a": (A, np.arange(1, 257, dtype=np.float32))}
    assert result(kernel, A, 130, **start) == [*range(2, 257, 2), 129, 130]
    assert result(kernel, D, 1, **start) == [128]


@example("gather_mask")
def fixed_patterns_count_inside_a_repeat():
    kept = {1: [0, 2, 4, 6], 2: [1, 3, 5], 3: [0, 4], 4: [1, 5], 5: [2, 6], 6: [3], 7: list(range(7))}
    for pattern, want in kept.items():
        got = result(
            lambda asc, p=pattern: asc.gather_mask(D, A, p, True, 7, GatherMaskParams(1, 2, 2, 0)), D, 2 * len(want),
            a=(A, np.arange(32, dtype=np.float32)),
        )  # fmt: skip
        assert got == want + [16 + w for w in want], pattern


@example("gather_mask")
def bits_of_a_pattern_are_used_one_after_another_in_a_repeat():
    got = result(
        lambda asc: asc.gather_mask(D, A, OFFSETS, True, 70, GatherMaskParams(1, 2, 4, 0)), D, 72,
        a=(A, np.arange(128, dtype=np.float32)), o=(OFFSETS, np.full(3, 0x99999999, np.uint32)),
    )  # fmt: skip
    each = [i for i in range(70) if i % 4 in (0, 3)]
    assert got == [*each, *(32 + i for i in each), *got[70:]]
    assert len(each) == 35


@example("transpose")
def transpose_exchanges_rows_and_columns():
    values = np.arange(256, dtype=np.float16)
    got = result(lambda asc: asc.transpose(E, H), E, 256, h=(H, values))
    assert got == [16 * j + i for i in range(16) for j in range(16)]
