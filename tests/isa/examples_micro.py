"""Examples of vector functions by hand, one for each micro-operation; the table test runs them."""

import numpy as np
from lane_harness import local

from ascendsim.checks import check_rows
from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT, HALF
from ascendsim.execute import execute
from ascendsim.isa.micro import LoadDist, StoreDist
from ascendsim.memory import Bytes
from ascendsim.record import record

DEVICE = load_device("Ascend950PR_9589")
A, B, D = local("a", "float", 0, 1024), local("b", "float", 1024, 1024), local("d", "float", 2048, 1024)
H, G = local("h", "half", 3072, 512), local("g", "half", 3584, 512)


def run(body, *filled, log_core=None):
    """UB after one vector function, and its log; `filled` are (tensor, values)."""

    def kernel(asc):
        with asc.vector_function() as vf:
            body(vf)

    recording = record(kernel, DEVICE, 1, (), ())
    assert check_rows(recording.program, DEVICE) == ()
    ub = Bytes(8192)
    for tensor, values in filled:
        raw = np.ascontiguousarray(values).view(np.uint8)
        ub.content[tensor.start_bytes : tensor.start_bytes + raw.size] = raw
        ub.written[tensor.start_bytes : tensor.start_bytes + raw.size] = True
    done = execute(recording.program, DEVICE, (), ub=ub, log_core=log_core)
    return ub, done


def result(body, tensor, count, *filled):
    ub, _ = run(body, *filled)
    return ub.typed(tensor.dtype)[tensor.start_bytes // tensor.dtype.bytes :][:count].tolist()


def up(count, kind=np.float32):
    return np.arange(count).astype(kind)


def store_leaves_what_the_mask_leaves_out():
    got = result(lambda vf: vf.store_align(D, vf.load_align(A), vf.update_mask(3)), D, 5, (A, up(64)), (D, up(64) - 99))
    assert got == [0, 1, 2, -96, -95]


def arithmetic_makes_masked_lanes_zero():
    def body(vf):
        a, b, two = vf.load_align(A), vf.load_align(B), vf.update_mask(2)
        vf.store_align(D, vf.add(vf.mul(a, b, two), vf.sub(a, b)))

    got = result(body, D, 64, (A, up(64)), (B, np.full(64, 3, np.float32)))
    assert got == [-3, 3 - 2] + [i - 3 for i in range(2, 64)]


def sums_are_adjacent_pair_trees():
    values = np.ones(64, np.float32)
    values[::4] = 2**24  # 2^24 + 1 rounds back
    got = result(lambda vf: vf.store_align(D, vf.reduce_sum(vf.load_align(A))), D, 2, (A, values))
    assert got == [16 * (2**24 + 2), 0]
    blocks = result(lambda vf: vf.store_align(D, vf.reduce_sum_data_block(vf.load_align(A))), D, 9, (A, values))
    assert blocks == [2 * (2**24 + 2)] * 8 + [0]


def lane_0_goes_everywhere():
    def body(vf):
        vf.store_align(D, vf.duplicate_lane0(vf.load_align(A), vf.update_mask(8)))

    assert result(body, D, 9, (A, up(64) + 5)) == [5] * 8 + [0]


def halves_are_unpacked_and_packed_with_ties_to_even():
    def body(vf):
        wide = vf.cast(vf.load_align(H, LoadDist.UNPACK_B16), FLOAT)
        vf.store_align(D, wide)
        tie = vf.add(wide, vf.duplicate(2**-12))
        vf.store_align(G, vf.cast(tie, HALF), dist=StoreDist.PACK_B32)

    start = (H, np.float16([0.5, 0.50048828125] + [0] * 62))
    assert result(body, D, 2, start) == [0.5, 0.50048828125]
    assert result(body, G, 2, start) == [0.5, 0.5009765625]


def words_take_turns():
    def body(vf):
        even, odd = vf.load_align2(A, LoadDist.DINTLV_B32)
        vf.store_align2(D, odd, even)

    assert result(body, D, 6, (A, up(128))) == [1, 0, 3, 2, 5, 4]


def an_element_fills_a_datablock():
    wide = result(lambda vf: vf.store_align(D, vf.load_align(A, LoadDist.E2B_B32)), D, 64, (A, up(8)))
    assert wide == [i // 8 for i in range(64)]
    narrow = result(lambda vf: vf.store_align(G, vf.load_align(H, LoadDist.E2B_B16)), G, 128, (H, up(8, np.float16)))
    assert narrow == [i // 16 for i in range(128)]


def a_bar_lets_a_load_see_a_store():
    def body(vf):
        vf.store_align(D, vf.load_align(A))
        vf.local_mem_bar()
        vf.store_align(B, vf.add(vf.load_align(D), vf.load_align(A)))

    assert result(body, B, 64, (A, up(64))) == [2 * i for i in range(64)]


def scalars_have_the_type_of_the_register():
    def body(vf):
        a, three = vf.load_align(A), vf.update_mask(3)
        vf.store_align(D, vf.adds(a, 0.5, three))
        vf.store_align(D[64], vf.muls(a, -1.0))
        vf.store_align(D[128], vf.mins(a, 0.0))
        vf.store_align(D[192], vf.maxs(a, 0.0))

    values = np.float32([1.0, -0.0, np.nan, -3.0] + [0.0] * 60)
    ub, _ = run(body, (A, values))
    got = ub.typed(D.dtype)[D.start_bytes // 4 :].reshape(-1, 64)[:4, :4]
    np.testing.assert_array_equal(got[0], np.float32([1.5, 0.5, np.nan, 0.0]))
    np.testing.assert_array_equal(got[1], np.float32([-1.0, 0.0, np.nan, 3.0]))
    np.testing.assert_array_equal(got[2], np.float32([0.0, -0.0, np.nan, -3.0]))
    np.testing.assert_array_equal(got[3], np.float32([1.0, 0.0, np.nan, 0.0]))
    assert np.signbit(got[2, 1])  # -0 is smaller than +0
    assert not np.signbit(got[3, 1])


def slow_functions_flush_subnormal_numbers():
    def body(vf):
        a = vf.load_align(A)
        vf.store_align(D, vf.div(vf.duplicate(1.0), a, vf.update_mask(4)))
        vf.store_align(D[64], vf.sqrt(a))
        vf.store_align(D[128], vf.exp(a))

    values = np.float32([4.0, -0.0, 1e-40, -100.0] + [0.0] * 60)
    ub, _ = run(body, (A, values))
    got = ub.typed(D.dtype)[D.start_bytes // 4 :].reshape(-1, 64)[:3, :5]
    np.testing.assert_array_equal(got[0], np.float32([0.25, -np.inf, np.inf, np.float32(-0.01), 0.0]))
    np.testing.assert_array_equal(got[1], np.float32([2.0, -0.0, 0.0, np.nan, 0.0]))
    np.testing.assert_array_equal(got[2], np.float32([54.598150033144236, 1.0, 1.0, 0.0, 1.0]))  # e^-100 is subnormal


def a_scalar_may_fill_some_lanes():
    assert result(lambda vf: vf.store_align(D, vf.duplicate(2.5, mask=vf.update_mask(2))), D, 3) == [2.5, 2.5, 0.0]


def bfloat16_is_cast_through_words_or_half_for_half():
    brain = H.reinterpret_cast("bfloat16_t")
    values = np.array([1.0, -2.5, 3.0e38] + [0.0] * 125).astype(brain.dtype.numpy)

    def body(vf):
        vf.store_align(D, vf.cast(vf.load_align(brain, LoadDist.UNPACK_B16), FLOAT))
        vf.store_align(G, vf.cast(vf.load_align(brain), HALF))

    assert result(body, D, 3, (brain, values)) == [1.0, -2.5, float(values[2])]
    assert result(body, G, 3, (brain, values)) == [1.0, -2.5, np.inf]


def a_loop_does_what_its_iterations_do():
    def body(vf):
        for i in vf.loop(3):
            for j in vf.loop(2):
                vf.store_align(D[64 * j], vf.duplicate(10.0 * i + j))

    assert result(body, D, 128) == [20.0] * 64 + [21.0] * 64


EXAMPLES = {
    "vector_function": (
        store_leaves_what_the_mask_leaves_out,
        arithmetic_makes_masked_lanes_zero,
        sums_are_adjacent_pair_trees,
        lane_0_goes_everywhere,
        halves_are_unpacked_and_packed_with_ties_to_even,
        words_take_turns,
        an_element_fills_a_datablock,
        a_bar_lets_a_load_see_a_store,
        scalars_have_the_type_of_the_register,
        slow_functions_flush_subnormal_numbers,
        a_scalar_may_fill_some_lanes,
        bfloat16_is_cast_through_words_or_half_for_half,
        a_loop_does_what_its_iterations_do,
    )
}
