"""Each instruction of the table by small worked examples whose results are written out here.

The table is walked: an instruction without an example fails.
"""

import struct

import examples_arithmetic
import examples_cube
import examples_micro
import examples_reduce
import examples_select
import examples_transpose
import numpy as np
import pytest
from lane_harness import DEVICE, Ground, gm_tensors, local, run_both

from ascendsim.errors import Deadlock
from ascendsim.execute import execute
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.instruction import TABLE
from ascendsim.isa.move import (
    BrcbRepeatParams,
    CopyRepeatParams,
    DataCopyExtParams,
    DataCopyPadExtParams,
    DataCopyParams,
)
from ascendsim.machine import schedule
from ascendsim.memory import Bytes
from ascendsim.record import record
from ascendsim.terms import HardEvent, MaskMode, Pipe, RoundMode

EXAMPLES = {
    name: list(runs)
    for more in (
        examples_arithmetic,
        examples_transpose,
        examples_micro,
        examples_reduce,
        examples_select,
        examples_cube,
    )
    for name, runs in more.EXAMPLES.items()
}
"""By the instruction's name; those of a subject of its own stand in a module of their own."""


def example(*names):
    """An example of these instructions."""

    def keep(fn):
        for name in names:
            EXAMPLES.setdefault(name, []).append(fn)
        return fn

    return keep


@pytest.mark.parametrize("name", TABLE)
def test_instruction_has_examples_and_they_hold(name):
    examples = EXAMPLES.get(name)
    assert examples, f"instruction {name} has no value test: write one in {__file__}"
    for run in examples:
        run()


def floats(start, count):
    return np.arange(start, start + count, dtype=np.float32)


def result(kernel, tensor, count, found=(), **start):
    """Elements of `tensor` after running the kernel; `start` maps tensors' names to (tensor, values).

    Args:
        kernel: what to run.
        tensor: what to return.
        count: of its elements.
        found: codes that static rules must give.
        start: values before the run.
    """
    ground = Ground()
    for where, values in start.values():
        ground.write(where, values)
    both = run_both(kernel, ground)
    assert tuple(f.code for f in both.static) == found
    assert both.findings == ()
    return both.array(tensor, count).tolist()


A, B, D = local("a", "float", 0, 4096), local("b", "float", 4096, 4096), local("d", "float", 8192, 4096)


# ---- arithmetic -------------------------------------------------------------------------------------------------


@example("add")
def add_counts_elements_and_leaves_the_rest():
    got = result(
        lambda asc: asc.add(D, A, B, 70),
        D, 72,
        a=(A, floats(0, 70)), b=(B, floats(100, 70)), d=(D, np.full(72, -1, np.float32)),
    )  # fmt: skip
    assert got == [100 + 2 * i for i in range(70)] + [-1, -1]


@example("add")
def add_in_bit_mask_form_touches_the_set_lanes_of_each_repeat():
    got = result(
        lambda asc: asc.add(D, A, B, (0b1001, 0), 2, BinaryRepeatParams(1, 1, 1, 1, 1, 0)),
        D, 16,
        a=(A, floats(0, 16)), b=(B, floats(100, 8)), d=(D, np.zeros(16, np.float32)),
    )  # fmt: skip
    assert got == [100, 0, 0, 106, 0, 0, 0, 0, 108, 0, 0, 114, 0, 0, 0, 0]


@example("add", "whole_reduce_sum")
def the_longest_repeat_is_carried_out():
    x, d, r = local("x", "half", 0, 255 * 32), local("d", "half", 8192, 255 * 32), local("r", "half", 32768, 512)

    def kernel(asc):
        asc.add(d, x, x, 16, 255, BinaryRepeatParams(1, 1, 1, 1, 1, 1))
        asc.whole_reduce_sum(r, d, 16, 255, 1, 1, 1)

    values = np.arange(255 * 16) % 7
    got = result(kernel, r, 255, x=(x, values.astype(np.float16)))
    assert got == (2 * values.reshape(255, 16).sum(axis=1)).tolist()


@example("add")
def add_rounds_floats_to_nearest_even_and_keeps_subnormals():
    tiny = struct.unpack("<f", b"\1\0\0\0")[0]
    got = result(
        lambda asc: asc.add(D, A, B, 4),
        D, 4,
        a=(A, np.float32([2**24, 2**24 + 2, tiny, np.inf])), b=(B, np.float32([1, 1, tiny, 1])),
    )  # fmt: skip
    assert got == [2**24, 2**24 + 4, 2 * tiny, np.inf]


@example("sub")
def sub_subtracts_the_second_source_and_integers_wrap():
    x, y, d = (local(n, "int16_t", 1024 * i, 32) for i, n in enumerate("xyd"))
    got = result(
        lambda asc: asc.sub(d, x, y, 3), d, 3, x=(x, np.int16([5, -32768, 32767])), y=(y, np.int16([7, 1, -1]))
    )
    assert got == [-2, 32767, -32768]


@example("mul")
def mul_reads_one_datablock_for_all_with_source_stride_zero():
    got = result(
        lambda asc: asc.mul(D, A, B, 64, 1, BinaryRepeatParams(1, 1, 0, 8, 8, 8)),
        D, 64,
        a=(A, floats(0, 64)), b=(B, floats(1, 8)),
    )  # fmt: skip
    assert got == [i * (i % 8 + 1) for i in range(64)]


@example("mul")
def mul_in_half_rounds_once():
    x, y, d = (local(n, "half", 1024 * i, 32) for i, n in enumerate("xyd"))
    got = result(
        lambda asc: asc.mul(d, x, y, 3), d, 3, x=(x, np.float16([1.0009765625, 300, 2**-24])),
        y=(y, np.float16([1.0009765625, 300, 0.5])),
    )  # fmt: skip
    assert got == [1.001953125, np.inf, 0]


@example("adds", "muls")
def scalars_are_taken_in_the_tensors_type():
    x, d, e = local("x", "half", 0, 32), local("d", "half", 1024, 32), local("e", "half", 2048, 32)

    def kernel(asc):
        asc.adds(d, x, 0.1, 2)
        asc.muls(e, x, 0.1, 2)

    tenth = 0.0999755859375  # nearest half
    start = {"x": (x, np.float16([0, 1]))}
    assert result(kernel, d, 2, **start) == [tenth, 1.099609375]
    assert result(kernel, e, 2, **start) == [0, tenth]


@example("adds", "muls", "get_value")
def scalars_come_from_a_register():
    def kernel(asc):
        asc.adds(D, A, asc.get_value(B, 2), 8)
        asc.muls(D[8], A, asc.get_value(B[1], 2), 8)

    got = result(kernel, D, 16, a=(A, floats(0, 8)), b=(B, np.float32([0, 0, 10, 100])))
    assert got == [10 + i for i in range(8)] + [100 * i for i in range(8)]


# ---- reductions -------------------------------------------------------------------------------------------------


@example("block_reduce_sum")
def block_sums_skip_masked_lanes_and_write_only_blocks_with_a_lane():
    mask = 0xFF | 0b11 << 8 | 0b1 << 63  # block 0 whole, two lanes of block 1, one of block 7
    got = result(
        lambda asc: asc.block_reduce_sum(D, A, 2, (mask, 0), 2, 1, 8),
        D, 24,
        a=(A, floats(1, 128)), d=(D, np.full(24, -1, np.float32)),
    )  # fmt: skip
    first = [36, 9 + 10, -1, -1, -1, -1, -1, 64]
    second = [36 + 8 * 64, 73 + 74, -1, -1, -1, -1, -1, 128]
    assert got == [*first, *[-1] * 8, *second]


@example("block_reduce_sum")
def block_sums_add_adjacent_pairs():
    a = np.float32([2**24, 1, 1, 1, 2**24, 1, 1, 1])  # left to right and pairwise differ
    got = result(lambda asc: asc.block_reduce_sum(D, A, 1, 8, 1, 1, 8), D, 1, a=(A, a))
    pairs = [2**24, 2, 2**24, 2]  # 2**24 + 1 rounds to 2**24
    assert got == [pairs[0] + pairs[1] + pairs[2] + pairs[3]]
    left_to_right = np.float32(0)
    for x in a:
        left_to_right += x
    assert got != [left_to_right]


@example("block_reduce_sum")
def block_sums_in_place_read_a_repeat_before_writing_it():
    got = result(lambda asc: asc.block_reduce_sum(A, A, 2, 64, 1, 1, 8), A, 16, a=(A, floats(0, 128)))
    assert got == [sum(range(8 * b, 8 * b + 8)) for b in range(16)]


@example("whole_reduce_sum")
def whole_sums_put_one_element_per_repeat():
    got = result(
        lambda asc: asc.whole_reduce_sum(D, A, 3, 2, 5, 1, 8),
        D, 7,
        a=(A, floats(1, 128)), d=(D, np.full(7, -1, np.float32)),
    )  # fmt: skip
    assert got == [6, -1, -1, -1, -1, 65 + 66 + 67, -1]


@example("whole_reduce_sum")
def whole_sums_in_counter_mode_end_with_a_partial_repeat():
    def kernel(asc):
        asc.set_mask_count()
        asc.whole_reduce_sum(D, A, 65, 9, 1, 1, 8)  # the repeat field is ignored
        asc.set_mask_norm()
        asc.reset_mask()

    got = result(kernel, D, 3, a=(A, floats(0, 128)), d=(D, np.full(3, -1, np.float32)))
    assert got == [2016, 64, -1]


@example("pair_reduce_sum")
def pair_sums_leave_out_masked_lanes():
    got = result(
        lambda asc: asc.pair_reduce_sum(D, A, 1, (0b100111, 0), 1, 1, 8),
        D, 4,
        a=(A, floats(1, 64)), d=(D, np.full(4, -1, np.float32)),
    )  # fmt: skip
    assert got == [1 + 2, 3, 6, -1]


@example("pair_reduce_sum")
def pair_sums_of_half_stride_by_128_bytes():
    x, d = local("x", "half", 0, 512), local("d", "half", 1024, 512)
    got = result(lambda asc: asc.pair_reduce_sum(d, x, 2, 2, 1, 1, 8), d, 65, x=(x, np.ones(256, np.float16)),
                 d=(d, np.zeros(256, np.float16)))  # fmt: skip
    assert got == [2, *[0] * 63, 2]


# ---- conversions ------------------------------------------------------------------------------------------------


@example("cast")
def cast_float_to_half_rounds_a_tie_by_mode():
    h = local("h", "half", 16384, 32)
    tie = np.float32([0.5 + 2**-12, -(0.5 + 2**-12), 0.5 + 3 * 2**-12])
    even, up, above = 0.5, 0.5 + 2**-11, 0.5 + 2**-10
    wanted = {
        "NONE": [even, -even, above],
        "RINT": [even, -even, above],
        "FLOOR": [even, -up, up],
        "CEIL": [up, -even, above],
        "ROUND": [up, -up, above],
        "TRUNC": [even, -even, up],
        "ODD": [up, -up, up],
    }
    for mode, want in wanted.items():
        got = result(lambda asc, m=RoundMode[f"CAST_{mode}"]: asc.cast(h, A, m, 3), h, 3, a=(A, tie))
        assert got == want, mode


@example("cast")
def cast_counts_lanes_by_the_wider_type():
    h = local("h", "half", 16384, 1024)
    params = UnaryRepeatParams(1, 1, 4, 8)
    got = result(
        lambda asc: asc.cast(h, A, RoundMode.CAST_RINT, 64, 2, params), h, 128, a=(A, floats(0, 128))
    )  # fmt: skip
    assert got == list(range(128))


@example("cast")
def cast_to_integers_clamps_and_turns_nan_into_zero():
    i, x = local("i", "int16_t", 16384, 32), np.float32([40000, -40000, np.inf, -np.inf, np.nan, -2.5, 2.5])
    got = result(lambda asc: asc.cast(i, A, RoundMode.CAST_ROUND, 7), i, 7, a=(A, x))
    assert got == [32767, -32768, 32767, -32768, 0, -3, 3]


@example("cast")
def widening_in_place_overwrites_sources_of_later_repeats():
    """Each repeat is read whole; the second one reads what the first has written (Cast page: unsafe)."""
    h, f = local("h", "half", 0, 512), local("f", "float", 0, 512)
    start = (h, np.arange(128, dtype=np.float16))
    got = result(lambda asc: asc.cast(f, h, RoundMode.CAST_NONE, 128), f, 128, ("E-OVERLAP-WIDEN",), h=start)
    overwritten = np.arange(64, dtype=np.float32).view(np.float16)[64:128]
    assert got[:64] == list(range(64))
    assert got[64:] == overwritten.astype(np.float32).tolist()


# ---- moves in UB ------------------------------------------------------------------------------------------------


@example("copy")
def copy_in_counter_mode_counts_each_repeat():
    """[4 rows, one block] to [4 rows, 3 blocks]: mask 4 * 8, repeat 3, as SoftmaxGrad spreads its row sums."""

    def kernel(asc):
        asc.set_mask_count()
        asc.copy(D, A, (32, 0), 3, CopyRepeatParams(3, 1, 1, 0))
        asc.set_mask_norm()
        asc.reset_mask()

    got = result(kernel, D, 96, a=(A, floats(0, 32)))
    assert got == [row * 8 + i for row in range(4) for _ in range(3) for i in range(8)]


@example("copy")
def copy_in_normal_mode_moves_masked_lanes():
    got = result(
        lambda asc: asc.copy(D, A, 10, 2, CopyRepeatParams(2, 1, 1, 8)),
        D, 32,
        a=(A, floats(0, 128)), d=(D, np.full(32, -1, np.float32)),
    )  # fmt: skip
    want = [-1] * 32
    for r in range(2):
        for lane in range(10):
            want[r * 8 + lane // 8 * 16 + lane % 8] = r * 64 + lane
    assert got == want


@example("duplicate")
def duplicate_fills_the_active_lanes_of_each_repeat():
    got = result(
        lambda asc: asc.duplicate(D, -0.0, 3, 2, 1, 2), D, 24, d=(D, np.full(24, 7, np.float32))
    )  # fmt: skip
    assert got == [0, 0, 0, *[7] * 13, 0, 0, 0, *[7] * 5]
    assert np.signbit(got[0])


@example("duplicate")
def duplicate_takes_a_count():
    u = local("u", "uint32_t", 0, 512)
    got = result(lambda asc: asc.duplicate(u, 4294967295, 66), u, 67, u=(u, np.zeros(67, np.uint32)))
    assert got == [4294967295] * 66 + [0]


@example("duplicate", "get_value")
def duplicate_takes_a_register():
    got = result(lambda asc: asc.duplicate(D, asc.get_value(A, 5), 9), D, 9, a=(A, floats(0, 8)))
    assert got == [5] * 9


@example("brcb")
def brcb_spreads_eight_elements_over_eight_blocks():
    got = result(lambda asc: asc.brcb(D, A, 2, BrcbRepeatParams(2, 16)), D, 256, a=(A, floats(0, 16)),
                 d=(D, np.full(256, -1, np.float32)))  # fmt: skip
    want = []
    for i in range(16):
        want += [i] * 8 + [-1] * 8
    assert got == want


@example("brcb")
def brcb_ends_with_a_full_mask():
    def kernel(asc):
        asc.set_vector_mask(0, 1)
        asc.brcb(D, A, 1)
        asc.add(B, A, A, None, 1)

    assert result(kernel, B, 64, a=(A, floats(0, 64))) == [2 * i for i in range(64)]


@example("data_copy_ub_to_ub")
def bursts_inside_ub_have_gaps_from_tail_to_head():
    got = result(
        lambda asc: asc.data_copy(D, A, DataCopyParams(2, 2, 1, 3)),
        D, 56,
        a=(A, floats(0, 48)), d=(D, np.full(56, -1, np.float32)),
    )  # fmt: skip
    assert got == [*range(16), *[-1] * 24, *range(24, 40)]


# ---- between GM and UB ------------------------------------------------------------------------------------------


def gm_result(kernel, gm, tensor, count, *writes):
    ground = Ground(gm)
    for where, values in writes:
        ground.write(where, values)
    both = run_both(kernel, ground)
    assert both.static == ()
    assert both.findings == ()
    return both.array(tensor, count).tolist()


@example("data_copy_gm_to_ub", "data_copy_ub_to_gm")
def bursts_between_gm_and_ub():
    x, y = gm_tensors(("x", "float", 64), ("y", "float", 64))

    def kernel(asc, x, y):
        asc.data_copy(A, x[3], DataCopyParams(2, 1, 2, 1))
        asc.data_copy(y[5], A, DataCopyParams(2, 1, 1, 0))

    got = gm_result(kernel, (x, y), y, 24, (x, floats(0, 64)), (y, np.full(64, -1, np.float32)))
    assert got == [*[-1] * 5, *range(3, 11), *range(27, 35), *[-1] * 3]


@example("data_copy_gm_to_ub")
def a_count_that_is_no_multiple_of_32_bytes_is_rounded_down():
    (x,) = gm_tensors(("x", "half", 64))
    h = local("h", "half", 0, 64)
    ground = Ground((x,)).write(x, np.arange(64, dtype=np.float16))
    both = run_both(lambda asc, x: asc.data_copy(h, x, 31), ground)
    assert both.array(h, 16).tolist() == list(range(16))
    assert not both.ub.written[32:].any()
    assert [f.code for f in both.static] == ["E-ALIGN-COUNT"]


@example("data_copy_pad_gm_to_ub")
def padding_with_a_value_fills_left_right_and_dummy():
    (x,) = gm_tensors(("x", "half", 64))
    h = local("h", "half", 0, 256)
    pad = DataCopyPadExtParams(is_pad=True, left_padding=2, right_padding=3, padding_value=-1.5)
    got = gm_result(
        lambda asc, x: asc.data_copy_pad(h, x[1], DataCopyExtParams(2, 10, 6, 1), pad),
        (x,), h, 48,
        (x, np.arange(64, dtype=np.float16)), (h, np.full(128, 9, np.float16)),
    )  # fmt: skip
    p = [-1.5]
    first = p * 2 + [1, 2, 3, 4, 5] + p * 9  # 2 + 5 + 3 elements, then dummies up to 32 B
    second = p * 2 + [9, 10, 11, 12, 13] + p * 9
    assert got == first + [9] * 16 + second


@example("data_copy_pad_gm_to_ub")
def without_padding_dummies_repeat_the_first_element_of_the_row():
    (x,) = gm_tensors(("x", "half", 64))
    h = local("h", "half", 0, 256)
    for is_pad in (False, True):
        pad = DataCopyPadExtParams(is_pad=is_pad, padding_value=77)
        got = gm_result(
            lambda asc, x, pad=pad: asc.data_copy_pad(h, x[1], DataCopyExtParams(2, 10, 0, 0), pad),
            (x,), h, 32,
            (x, np.arange(64, dtype=np.float16)),
        )  # fmt: skip
        assert got == [1, 2, 3, 4, 5, *[1] * 11, 6, 7, 8, 9, 10, *[6] * 11]


@example("data_copy_pad_gm_to_ub")
def padding_without_a_value_is_undefined():
    (x,) = gm_tensors(("x", "float", 64))
    ground = Ground((x,)).write(x, floats(0, 64)).write(A, floats(100, 16))
    pad = DataCopyPadExtParams(is_pad=False, left_padding=1, right_padding=1, padding_value=5)
    both = run_both(lambda asc, x: asc.data_copy_pad(A, x, DataCopyExtParams(1, 12, 0, 0), pad), ground)
    assert both.static == ()
    assert both.array(A, 16).tolist()[1:4] == [0, 1, 2]
    assert both.array(A, 16).tolist()[8:] == list(range(108, 116))
    assert both.ub.written[:64].tolist() == [False] * 4 + [True] * 12 + [False] * 16 + [True] * 32


@example("data_copy_pad_ub_to_gm")
def on_the_way_out_padding_is_dropped():
    (y,) = gm_tensors(("y", "half", 32))
    h = local("h", "half", 0, 256)
    got = gm_result(
        lambda asc, y: asc.data_copy_pad(y[1], h, DataCopyExtParams(2, 10, 1, 6)),
        (y,), y, 16,
        (h, np.arange(128, dtype=np.float16)), (y, np.full(32, -1, np.float16)),
    )  # fmt: skip
    assert got == [-1, 0, 1, 2, 3, 4, -1, -1, -1, 32, 33, 34, 35, 36, -1, -1]


# ---- scalar unit ------------------------------------------------------------------------------------------------


@example("set_mask_count", "set_mask_norm", "set_vector_mask")
def masks_set_outside_hold_for_calls_without_one():
    def kernel(asc):
        asc.set_vector_mask(0, 0b101)
        asc.add(D, A, A, None, 1)
        asc.set_mask_count()
        asc.set_vector_mask(0, 5)
        asc.add(D[16], A, A, None, 1)
        asc.set_mask_norm()
        asc.add(D[32], A, A, None, 1)  # the count 5 read as bits is lanes 0 and 2

    got = result(kernel, D, 40, a=(A, floats(1, 64)), d=(D, np.zeros(40, np.float32)))
    assert got == [2, 0, 6, *[0] * 13, 2, 4, 6, 8, 10, *[0] * 11, 2, 0, 6, *[0] * 5]


@example("set_vector_mask")
def the_high_word_masks_lanes_64_to_127():
    x, d = local("x", "half", 0, 256), local("d", "half", 1024, 256)

    def kernel(asc):
        asc.set_vector_mask(0b10, 0b1)
        asc.add(d, x, x, None, 1)

    got = result(kernel, d, 128, x=(x, np.ones(128, np.float16)), d=(d, np.zeros(128, np.float16)))
    assert [i for i, v in enumerate(got) if v] == [0, 65]


@example("set_vector_mask")
def the_count_form_ends_in_normal_mode_with_a_full_mask():
    def kernel(asc):
        asc.set_vector_mask(0, 1)
        asc.add(D, A, A, 3)
        assert (asc.mask.mode, asc.mask.hi, asc.mask.lo) == (MaskMode.NORMAL, 2**64 - 1, 2**64 - 1)

    assert record(kernel, DEVICE, 1, (), ()).complete


@example("get_value")
def get_value_reads_integers_as_integers():
    i, d = local("i", "int32_t", 0, 32), local("d", "int32_t", 1024, 32)
    got = result(lambda asc: asc.duplicate(d, asc.get_value(i, 1), 2), d, 2, i=(i, np.int32([0, -(2**31) + 1])))
    assert got == [-(2**31) + 1] * 2


# ---- order ------------------------------------------------------------------------------------------------------


def executed(kernel, *inputs):
    """Run on a copy of UB with A = 1, 2, 3, ...; return D."""
    ground = Ground().write(A, floats(1, 64)).write(D, np.zeros(64, np.float32))
    program = record(kernel, DEVICE, 1, (), ()).program
    done = execute(program, DEVICE, (), ub=ground.ub)
    return ground.ub.content[D.address_bytes :].view(np.float32)[:8].tolist(), done.findings


@example("set_flag", "wait_flag")
def a_wait_holds_its_pipe_until_the_flag_is_set():
    """V waits for MTE2, and MTE2 for MTE3, though the sets come later in the program."""

    def kernel(asc):
        asc.wait_flag(HardEvent.MTE2_V, 0)
        asc.add(D, A, A, 8)
        asc.wait_flag(HardEvent.MTE3_MTE2, 3)
        asc.set_flag(HardEvent.MTE2_V, 0)
        asc.set_flag(HardEvent.MTE3_MTE2, 3)

    assert executed(kernel) == ([2 * i for i in range(1, 9)], ())


@example("set_flag", "wait_flag")
def a_held_row_sees_what_earlier_rows_of_other_pipes_did_meanwhile():
    x = gm_tensors(("x", "float", 8))

    def kernel(asc, x):
        asc.wait_flag(HardEvent.MTE2_V, 0)
        asc.add(D, A, A, 8)  # held: it must see the copy that follows
        asc.data_copy(A, x, 8)
        asc.set_flag(HardEvent.MTE2_V, 0)

    ground = Ground(x).write(x[0], floats(10, 8)).write(A, floats(0, 8))
    program = record(kernel, DEVICE, 1, x, ()).program
    execute(program, DEVICE, tuple(ground.gm_bytes), ub=ground.ub)
    assert ground.ub.content[D.address_bytes :].view(np.float32)[:8].tolist() == [2.0 * i for i in range(10, 18)]


@example("scalar_work")
def scalar_work_changes_no_value_and_takes_its_cycles():
    def kernel(asc):
        asc.scalar_work(1000)
        asc.add(D, A, A, 8)

    assert executed(kernel) == ([2 * i for i in range(1, 9)], ())
    program = record(kernel, DEVICE, 1, (), ()).program
    assert schedule(program, DEVICE)["start"][program.templates[0].columns["pipe"] == Pipe.V].min() >= 1000


@example("dump_tensor")
def a_dump_shows_what_rows_before_it_left_and_changes_nothing():
    def kernel(asc):
        asc.dump_tensor(D, 1, 8)
        asc.add(D, A, A, 8)
        asc.dump_tensor(D, 2, 3)

    ground = Ground().write(A, floats(1, 8))
    program = record(kernel, DEVICE, 1, (), ()).program
    before, after = execute(program, DEVICE, (), ub=ground.ub).dumps
    assert not before.written.any()
    assert after.values.tolist() == [2.0, 4.0, 6.0]
    assert after.written.all()
    assert executed(kernel) == ([2 * i for i in range(1, 9)], ())


@example("pipe_barrier")
def a_barrier_changes_no_value():
    def kernel(asc):
        for pipe in (Pipe.V, Pipe.MTE2, Pipe.MTE3, Pipe.ALL):
            asc.pipe_barrier(pipe)
        asc.add(D, A, A, 8)

    assert executed(kernel) == ([2 * i for i in range(1, 9)], ())


@example("pipe_barrier")
def a_barrier_of_all_pipes_holds_the_scalar_unit_while_one_is_held():
    def kernel(asc):
        asc.wait_flag(HardEvent.MTE2_V, 0)
        asc.pipe_barrier(Pipe.ALL)
        asc.set_flag(HardEvent.MTE2_V, 0)  # never issued: the scalar unit stands

    program = record(kernel, DEVICE, 1, (), ()).program
    with pytest.raises(Deadlock):
        execute(program, DEVICE, (), ub=Bytes(1024))
