"""Worked examples of reductions to extremes and of tensor-level reductions, their results written out here."""

import numpy as np
from lane_harness import Ground, local
from select_harness import run_both

from ascendsim.terms import ReduceOrder

EXAMPLES = {}


def example(*names):
    """An example of these instructions."""

    def keep(fn):
        for name in names:
            EXAMPLES.setdefault(name, []).append(fn)
        return fn

    return keep


A, D = local("a", "float", 0, 4096), local("d", "float", 8192, 4096)
W = local("w", "float", 16384, 1024)
H, E = local("h", "half", 0, 8192), local("e", "half", 8192, 1024)


def result(kernel, tensor, count, saturate=False, **start):
    """Elements of `tensor` after running the kernel, which nothing objects to."""
    ground = Ground()
    for where, values in start.values():
        ground.write(where, values)
    both = run_both(kernel, ground, saturate)
    assert both.static == ()
    assert both.findings == ()
    return both.array(tensor, count).tolist()


def bits(tensor):
    return tensor.reinterpret_cast("uint32_t" if tensor.dtype.bytes == 4 else "uint16_t")


# ---- inside a repeat --------------------------------------------------------------------------------------------


@example("block_reduce_max", "block_reduce_min")
def block_extremes_leave_out_masked_lanes():
    values = np.float32([3, -1, 9, 2, 7, 7, 0, 5] + [4, -8] + [0] * 54)
    mask = 0xFB | 0b11 << 8  # without the 9; two lanes of datablock 1
    start = {"a": (A, values), "d": (D, np.full(8, 6, np.float32))}
    assert result(lambda asc: asc.block_reduce_max(D, A, 1, (mask, 0), 1, 1, 8), D, 4, **start) == [7, 4, 6, 6]
    assert result(lambda asc: asc.block_reduce_min(D, A, 1, (mask, 0), 1, 1, 8), D, 4, **start) == [-1, -8, 6, 6]


@example("block_reduce_max", "block_reduce_min")
def block_extremes_of_half_are_sixteen_wide_and_nan_wins():
    values = np.float16([1, 2, np.nan, *[3] * 13, -np.inf, *[-5] * 15])
    for call in ("block_reduce_max", "block_reduce_min"):
        got = result(lambda asc, c=call: getattr(asc, c)(E, H, 1, 32, 1, 1, 8), E, 2, h=(H, values))
        assert np.isnan(got[0])
        assert got[1] == (-5 if "max" in call else -np.inf)


@example("whole_reduce_max", "whole_reduce_min")
def whole_extremes_by_every_order():
    """The documentation's shape: 11 at lane 52, then 12 at lane 100, in half; an index is bits, not a number."""
    values = np.float16([1] * 256)
    values[52], values[128:], values[228] = 11, 2, 12
    orders = {
        ReduceOrder.ORDER_VALUE_INDEX: [0x4980, 52, 0x4A00, 100],
        ReduceOrder.ORDER_INDEX_VALUE: [52, 0x4980, 100, 0x4A00],
        ReduceOrder.ORDER_ONLY_VALUE: [0x4980, 0x4A00, 7, 7],
        ReduceOrder.ORDER_ONLY_INDEX: [52, 0, 100, 0],
    }
    for order, want in orders.items():
        got = result(
            lambda asc, o=order: asc.whole_reduce_max(E, H, 128, 2, 1, 1, 8, o), bits(E), 4,
            h=(H, values), e=(bits(E), np.full(4, 7, np.uint16)),
        )  # fmt: skip
        assert got == want, order
        got = result(
            lambda asc, o=order: asc.whole_reduce_min(E, H, 128, 2, 1, 1, 8, o), bits(E), 4,
            h=(H, -values), e=(bits(E), np.full(4, 7, np.uint16)),
        )  # fmt: skip
        assert got == [w | 0x8000 if w in (0x4980, 0x4A00) else w for w in want], order


@example("whole_reduce_max", "whole_reduce_min")
def of_equal_elements_the_first_is_taken():
    values = np.float32([2, 5, 5, 1, 1, 5] + [2] * 58)
    got = result(lambda asc: asc.whole_reduce_max(D, A, 64, 1, 1, 1, 8), bits(D), 2, a=(A, values))
    assert got == [0x40A00000, 1]
    got = result(lambda asc: asc.whole_reduce_min(D, A, 64, 1, 1, 1, 8), bits(D), 2, a=(A, values))
    assert got == [0x3F800000, 3]
    got = result(lambda asc: asc.whole_reduce_max(D, A, (0b111000, 0), 1, 1, 1, 8), bits(D), 2, a=(A, values))
    assert got == [0x40A00000, 5]  # the index counts lanes, masked ones too


@example("whole_reduce_max")
def a_repeat_without_lanes_leaves_its_result():
    got = result(
        lambda asc: asc.whole_reduce_max(D, A, 0, 1, 1, 1, 8), D, 2,
        a=(A, np.ones(64, np.float32)), d=(D, np.float32([8, 9])),
    )  # fmt: skip
    assert got == [8, 9]


@example("whole_reduce_min")
def whole_minima_in_counter_mode_end_with_a_partial_repeat():
    def kernel(asc):
        asc.set_mask_count()
        asc.whole_reduce_min(D, A, 66, 9, 2, 1, 8, ReduceOrder.ORDER_ONLY_VALUE)
        asc.set_mask_norm()
        asc.reset_mask()

    got = result(
        kernel, D, 4, a=(A, np.arange(100, 0, -1, dtype=np.float32)), d=(D, np.full(4, -1, np.float32))
    )  # fmt: skip
    assert got == [37, -1, 35, -1]


@example("repeat_reduce_sum")
def repeat_sums_are_whole_sums_with_other_arguments():
    got = result(
        lambda asc: asc.repeat_reduce_sum(D, A, 2, 3, 1, 1, 4, 8), D, 5,
        a=(A, np.arange(128, dtype=np.float32)), d=(D, np.full(5, -1, np.float32)),
    )  # fmt: skip
    assert got == [3, -1, -1, -1, 64 + 65 + 66]


# ---- of a whole tensor ------------------------------------------------------------------------------------------


@example("reduce_sum_accumulate", "set_value")
def a_counted_sum_adds_repeat_after_repeat():
    """2^24, then sixty-four ones twice: each 64 is kept, one after another; single ones would be lost."""
    values = np.zeros(192, np.float32)
    values[0], values[64:192] = 2**24, 1
    got = result(lambda asc: asc.reduce_sum(D[3], A, W, 192), D, 5, a=(A, values), d=(D, np.full(5, -1, np.float32)))
    assert got == [-1, -1, -1, 2**24 + 128, -1]


@example("reduce_sum_accumulate")
def a_counted_sum_is_no_tree_over_repeats():
    """Halves 2048, then 1 in each of three repeats: 2048 + 1 rounds to 2048 each time; a tree would reach 2050."""
    values = np.zeros(512, np.float16)
    values[0], values[128], values[256], values[384] = 2048, 1, 1, 1
    assert result(lambda asc: asc.reduce_sum(E, H, W.reinterpret_cast("half"), 512), E, 1, h=(H, values)) == [2048]


@example("reduce_sum_round", "set_value")
def a_masked_sum_is_a_tree_over_repeats():
    values = np.zeros(512, np.float16)
    values[0], values[128], values[256], values[384] = 2048, 1, 1, 1
    work = W.reinterpret_cast("half")
    assert result(lambda asc: asc.reduce_sum(E, H, work, 128, 4, 8), E, 1, h=(H, values)) == [2050]


@example("reduce_sum_round")
def a_masked_sum_of_many_repeats_takes_three_rounds():
    """70 repeats of one datablock each, two lanes of it: 70 sums, two sums of those, one."""
    got = result(lambda asc: asc.reduce_sum(D, A, W, 2, 70, 1), D, 1, a=(A, np.arange(70 * 8, dtype=np.float32)))
    assert got == [sum(8 * r + 8 * r + 1 for r in range(70))]


@example("reduce_sum_round")
def a_masked_sum_of_one_repeat_is_copied_by_the_scalar_unit():
    got = result(lambda asc: asc.reduce_sum(D, A, W, 5, 1, 8), D, 1, a=(A, np.float32([1, 2, 3, 4, 5, 6])))
    assert got == [15]


@example("reduce_max", "reduce_min")
def the_extreme_of_a_count_and_its_index():
    values = np.float32([4] * 150)
    values[[70, 90]], values[[130, 131]] = 9, -9
    start = {"a": (A, values), "w": (W, np.zeros(64, np.float32)), "d": (D, np.float32([5, 5, 5]))}
    assert result(lambda asc: asc.reduce_max(D, A, W, 150), D, 3, **start) == [9, 5, 5]
    assert result(lambda asc: asc.reduce_max(D, A, W, 150, cal_index=True), bits(D), 2, **start) == [0x41100000, 70]
    assert result(lambda asc: asc.reduce_min(D, A, W, 150, cal_index=True), bits(D), 2, **start) == [0xC1100000, 130]


@example("reduce_max", "reduce_min")
def an_index_counts_elements_with_the_gaps_between_repeats():
    values = np.zeros(256, np.float16)
    values[16 * 3 + 2], values[16 * 3 + 5], values[16 * 2 + 1] = 7, 8, -7
    work = W.reinterpret_cast("half")
    got = result(lambda asc: asc.reduce_max(E, H, work, 5, 4, 1, cal_index=True), bits(E), 2, h=(H, values))
    assert got == [0x4700, 50]
    got = result(lambda asc: asc.reduce_min(E, H, work, 5, 4, 1, cal_index=True), bits(E), 2, h=(H, values))
    assert got == [0xC700, 33]


@example("reduce_max")
def a_destination_may_lie_on_the_work_buffer():
    values = np.arange(128, dtype=np.float32)
    assert result(lambda asc: asc.reduce_max(W, A, W, 128), W, 1, a=(A, values)) == [127]


@example("set_value")
def set_value_writes_one_element_in_its_type():
    got = result(lambda asc: asc.set_value(H, 2, 0.1), H, 4, h=(H, np.zeros(4, np.float16)))
    assert got == [0, 0, 0.0999755859375, 0]


@example("set_value")
def set_value_takes_a_register():
    got = result(
        lambda asc: asc.set_value(A, 1, asc.get_value(H[4096 // 2], 0)), A, 2,
        a=(A, np.zeros(2, np.float32)), h=(H[4096 // 2], np.float16([1.5])),
    )  # fmt: skip
    assert got == [0, 1.5]
