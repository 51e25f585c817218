"""Advice: for each code a kernel that gets exactly it, with its words, and a neighbour that gets nothing."""

import re

import pytest

from ascendsim import tile
from ascendsim.checks import advise, advise_timeline, idle_cores
from ascendsim.checks.advice import RULES
from ascendsim.device import load_device
from ascendsim.dtypes import dtype
from ascendsim.isa.extreme import ReduceOrder
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.move import DataCopyParams
from ascendsim.library import is_library
from ascendsim.machine import schedule
from ascendsim.memory import LocalTensor, place_in_gm
from ascendsim.record import record
from ascendsim.terms import Pipe, TPosition

B2 = load_device("Ascend910B2")
A950 = load_device("Ascend950PR_9579")
FLOATS = 16384  # bytes of 4096 floats


def local(name, address, length=FLOATS, kind="float"):
    return LocalTensor(name, TPosition.VECCALC, dtype(kind), address, length)


def gm(*specs):
    return place_in_gm([(name, dtype("float"), (count,)) for name, count in specs])


def recorded(kernel, tensors=(), cores=1, device=B2):
    recording = record(kernel, device, cores, tuple(tensors), ())
    assert recording.complete
    assert recording.findings == ()
    return recording.program


def said(findings):
    """(code, message, hint) of each; no message holds a line number."""
    return [(f.code, f.message, f.hint) for f in findings]


def advice(kernel, tensors=(), cores=1, device=B2):
    return said(advise(recorded(kernel, tensors, cores, device), device))


def codes(*args, **kwargs):
    return [code for code, _, _ in advice(*args, **kwargs)]


def adding(src0, src1, dst, params=BinaryRepeatParams()):
    """Kernel of one Add of 64 repeats on three tensors at these addresses."""

    def kernel(asc):
        asc.add(local("z", dst), local("x", src0), local("y", src1), 64, 64, params)

    return kernel


def test_every_rule_says_when_it_holds():
    assert len({r.code for r in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.condition
        assert rule.source
        assert rule.code.startswith("W-")


# ---- banks --------------------------------------------------------------------------------------------------------


def test_field_case_f10_without_a_conflict():
    assert advice(adding(0x0, 0x10100, 0x20000)) == []


def test_field_case_f10_with_a_conflict():
    assert advice(adding(0x0, 0x4000, 0x10000)) == [
        (
            "W-BANK-RR",
            (
                "Add src0 0x0 (x) and src1 0x4000 (y) read the same bank groups in 64 of 64 repeats: 1.00 cycles a "
                "repeat lost, 64 cycles over all cores"
            ),
            "start src1 (y) 256 B further, at 0x4100",
        )
    ]


def test_the_start_that_the_hint_names_has_no_conflict():
    assert advice(adding(0x0, 0x4100, 0x10000)) == []


@pytest.mark.parametrize(
    ("src0", "src1", "dst", "found"),
    [
        (0x0, 0x10000, 0x14100, ["W-BANK-RR"]),  # one group, different banks
        (0x0, 0x10100, 0x4000, []),  # src0 and dst block by block in one bank
        (0x0, 0x10100, 0x4020, ["W-BANK-RW"]),  # one datablock behind
        (0x0, 0x10100, 0x10100, []),  # in place
    ],
)
def test_the_measured_rows(src0, src1, dst, found):
    """Rows 3 to 6 of asc-devkit's bank_conflict_ub example: what costs there gets advice, what is free gets none."""
    assert codes(adding(src0, src1, dst)) == found


@pytest.mark.parametrize(("rep_stride", "found"), [(1, ["W-BANK-RR"]), (8, [])])
def test_a_datablock_that_is_broadcast(rep_stride, found):
    """Rows 7 and 8 of the example: walking by one block it meets the other source, by eight it never does."""
    params = BinaryRepeatParams(src0_blk_stride=0, src0_rep_stride=rep_stride)
    assert codes(adding(0x0, 0x10100, 0x10100, params)) == found


def test_a_broadcast_that_no_start_saves():
    params = BinaryRepeatParams(src0_blk_stride=0, src0_rep_stride=1)
    ((_, message, hint),) = advice(adding(0x0, 0x10000, 0x14100, params))
    assert message == (
        "Add src0 0x0 (x) and src1 0x10000 (y) read the same bank groups in 32 of 64 repeats: 0.50 cycles a repeat "
        "lost, 32 cycles over all cores"
    )
    assert hint == "no start of src1 avoids it: choose repeat strides that keep src0 and src1 in different groups"


def test_a_tensor_with_itself_cannot_be_moved():
    def kernel(asc):
        x = local("x", 0)
        asc.mul(local("z", 0x10000), x, x, 4096)

    assert advice(kernel) == []


def test_div_of_half_hides_the_second_read():
    def kernel(asc):
        x, y, z = (local(n, a, kind="half") for n, a in (("x", 0), ("y", 0x4000), ("z", 0x10000)))
        asc.div(z, x, y, 8192)

    assert advice(kernel) == []


def test_three_buffers_in_all_pairs():
    def kernel(asc):
        x, y, t = local("x", 0x0), local("y", 0x4000), local("t", 0x8000)
        for a, b in ((x, y), (y, t), (x, t)):
            asc.mul(local("z", 0x20000), a, b, 4096)

    ((code, message, _hint),) = advice(kernel)
    assert code == "W-BANK-RR"
    assert "192 of 192 repeats" in message  # one line, one finding

    def apart(asc):
        x, y, t = local("x", 0x0), local("y", 0x4000), local("t", 0x8000)
        z = local("z", 0x20000)
        asc.mul(z, x, y, 4096)
        asc.mul(z, y, t, 4096)
        asc.mul(z, x, t, 4096)

    assert [hint.partition("; ")[2] for _, _, hint in advice(apart)] == [
        "t, x, y are read in all three pairs, of which only two can be kept apart"
    ] * 3


def queued_add(gap_bytes):
    """Kernel of an Add on two queues of two buffers, with a TBuf of `gap_bytes` between them."""

    def kernel(asc, x, y):
        pipe = asc.t_pipe()
        ques = [asc.t_que(TPosition.VECIN, 1, name) for name in ("in_x", "in_y")]
        pipe.init_buffer(ques[0], 2, FLOATS)
        if gap_bytes:
            pipe.init_buffer(asc.t_buf(TPosition.VECCALC, "gap"), 1, gap_bytes)
        pipe.init_buffer(ques[1], 2, FLOATS)
        for i in range(4):
            for que, source in zip(ques, (x, y), strict=True):
                part = que.alloc_tensor(source.dtype)
                asc.data_copy(part, source[i * 4096], 4096)
                que.enque(part)
            a, b = (que.deque(x.dtype) for que in ques)
            asc.add(local("z", 0x20000), a, b, 4096)
            for que, part in zip(ques, (a, b), strict=True):
                que.free_tensor(part)

    return kernel


def test_following_the_hint_gains_the_cycles_it_names():
    def v_cycles(program):
        return int(schedule(program, B2, "reference").totals.busy_cycles[:, Pipe.V].sum())

    tensors = gm(("x", FLOATS), ("y", FLOATS))
    program, apart = (recorded(queued_add(gap), tensors) for gap in (0, 256))
    assert said(advise(program, B2)) == [
        (
            "W-BANK-RR",
            (
                "Add src0 0x0 (in_x) and src1 0x8000 (in_y) read the same bank groups in 256 of 256 repeats: 1.00 "
                "cycles a repeat lost, 256 cycles over all cores"
            ),
            "start src1 (in_y) 256 B further, at 0x8100, by a TBuf of 256 B in front of it",
        )
    ]
    assert said(advise(apart, B2)) == []
    assert v_cycles(program) - v_cycles(apart) == 256


def test_one_source_with_its_blocks_in_one_group():
    def kernel(asc, stride):
        asc.adds(local("z", 0x10000), local("x", 0, 65536), 1.0, 64, 4, UnaryRepeatParams(1, stride, 8, 1))

    assert advice(lambda asc: kernel(asc, 16)) == [
        (
            "W-BANK-RR",
            (
                "Adds src0 0x0 (x) reads up to 8 datablocks of a repeat from one bank group (block stride 16): 7.00 "
                "cycles a repeat lost, 28 cycles over all cores"
            ),
            "use a block stride that is odd, such as one datablock more between blocks",
        )
    ]
    assert advice(lambda asc: kernel(asc, 17)) == []


def test_write_one_block_behind_a_source():
    assert advice(adding(0x0, 0x10100, 0x4020)) == [
        (
            "W-BANK-RW",
            (
                "Add dst 0x4020 (z) writes banks that src0 0x0 (x) reads, not block for block, in 64 of 64 repeats: "
                "about 49 cycles over all cores by the measured 0.77 a repeat"
            ),
            "start dst (z) 224 B further, at 0x4100",
        )
    ]
    assert advice(adding(0x0, 0x10100, 0x4100)) == []


@pytest.mark.parametrize(("stride", "most", "cycles"), [(16, 8, 448), (8, 4, 192)])
def test_writes_into_one_group(stride, most, cycles):
    def kernel(asc, blk):
        asc.duplicate(local("z", 0, 160000), 0.0, 64, 64, blk, 1)

    assert advice(lambda asc: kernel(asc, stride)) == [
        (
            "W-BANK-WW",
            (
                f"Duplicate dst 0x0 (z) writes up to {most} datablocks of a repeat into one bank group (block stride "
                f"{stride}): {cycles / 64:.2f} cycles a repeat lost, {cycles} cycles over all cores"
            ),
            "make the block stride odd, such as one datablock more between blocks",
        )
    ]
    assert advice(lambda asc: kernel(asc, stride + 1)) == []


def test_three_operands_on_3510():
    assert advice(adding(0x0, 0x4000, 0x8000), device=A950) == [
        (
            "W-BANK-3510",
            (
                "Add dst 0x8000 (z) is written into banks that src0 0x0 (x) reads in 64 of 64 repeats; measured 7 "
                "to 10 % slower than both sources in one bank and dst in the other of the group"
            ),
            (
                "let both sources start alike modulo 512 B and dst 256 B further; an instruction in place gains "
                "nothing here"
            ),
        )
    ]
    assert advice(adding(0x0, 0x4000, 0x8100), device=A950) == []


# ---- GM -----------------------------------------------------------------------------------------------------------


def copying(count, times):
    """Kernel that loads `times` tiles of `count` floats per core."""

    def kernel(asc, x):
        first = asc.get_block_idx() * count * times
        for i in range(times):
            asc.data_copy(local("u", 0, count * 4), x[first + i * count], count)

    return kernel


def test_small_copies():
    assert advice(copying(1024, 8), gm(("x", 16384)), cores=2) == [
        (
            "W-MTE-SMALL",
            "16 copies from GM tensor x of at most 4096 B each; 16384 B or more in one copy reach the full bandwidth",
            "larger tiles: 4 of these in one, as far as UB allows; it holds 47.9 times what is used",
        )
    ]


@pytest.mark.parametrize(("count", "times"), [(4096, 2), (3072, 4), (1024, 7), (1024, 1)])
def test_copies_that_are_large_enough_or_too_few(count, times):
    """Full size; nearly so; less than two full ones in all; once only."""
    assert advice(copying(count, times), gm(("x", 65536))) == []


def test_small_copies_where_ub_is_full():
    def kernel(asc, x):
        copying(1024, 8)(asc, x)
        asc.duplicate(local("rest", 0x8000, 120000), 0.0, 64)

    assert advice(kernel, gm(("x", 8192))) == []


def rows_of(length, pitch, start=0):
    """Kernel that loads 64 rows of `length` bytes, `pitch` bytes apart in GM."""

    def kernel(asc, x):
        params = DataCopyParams(64, length // 32, (pitch - length) // 32, 0)
        asc.data_copy(local("u", 0, 64 * length), x[start // 4], params)

    return kernel


def test_rows_that_end_inside_a_block():
    assert sum((992 * r + 991) // 512 - 992 * r // 512 + 1 for r in range(64)) == 184
    assert [a for a in advice(rows_of(992, 992), gm(("x", 16384))) if a[0] != "W-ALIGN-GM"] == [
        (
            "W-MTE-TAIL",
            (
                "rows of 992 B from GM tensor x are no multiple of 512 B: 184 blocks of 512 B are touched where padded "
                "rows touch 128 (43.8 % more); 21.6 % less throughput was measured with such rows"
            ),
            "pad the rows in GM to 1024 B",
        )
    ]


@pytest.mark.parametrize(("length", "pitch", "want"), [(1024, 1024, []), (992, 1024, []), (480, 480, ["W-ALIGN-GM"])])
def test_rows_that_gain_nothing_by_padding(length, pitch, want):
    """Whole blocks; padded in GM already; less than a block, where only their starts lie off the boundary."""
    assert codes(rows_of(length, pitch), gm(("x", 16384))) == want


def walking(start):
    """Kernel whose cores load four tiles of 16 KiB; core c begins at tile start(c)."""

    def kernel(asc, x):
        for i in range(4):
            asc.data_copy(local("u", 0), x[(i + start(asc.get_block_idx())) % 4 * 4096], 4096)

    return kernel


def test_cores_that_walk_in_step():
    assert advice(walking(lambda _: 0), gm(("x", 16384)), cores=4) == [
        (
            "W-GM-SAMEADDR",
            (
                "4 cores read the same 512 B block of GM tensor x in 100 % of their steps: such reads wait for one "
                "another, up to 1.54 times the time was measured"
            ),
            "let each core begin at another tile, such as (i + GetBlockIdx()) modulo the tiles",
        )
    ]
    assert advice(walking(lambda core: core), gm(("x", 16384)), cores=4) == []


def test_what_every_core_loads_once_is_no_walk():
    def kernel(asc, x):
        for _ in range(4):
            asc.data_copy(local("u", 0), x[0], 4096)

    assert advice(kernel, gm(("x", 4096)), cores=4) == []


def test_a_second_pass_over_more_than_l2():
    tiles = 4000  # of 64 KiB: 250 MiB, L2 has 192

    @tile
    def load(asc, part):
        asc.data_copy(local("u", 0, 65536), part, 16384)

    def kernel(asc, x, passes=2):
        for i in [*range(tiles)] * passes:
            load(asc, x[i * 16384])

    tensors = gm(("x", tiles * 16384))
    assert advice(kernel, tensors) == [
        (
            "W-GM-L2",
            (
                "100 % of 262144000 B that are read again from GM come back only after more than the 201326592 B of L2 "
                "were read; 262144000 different B are read in all"
            ),
            "work through slices that fit into L2 before going on",
        )
    ]

    def sliced(asc, x):
        for i in range(tiles):
            load(asc, x[i * 16384])
            load(asc, x[i * 16384])

    assert advice(sliced, tensors) == []
    assert advice(lambda asc, x: kernel(asc, x, passes=1), tensors) == []


# ---- vector calls -------------------------------------------------------------------------------------------------


def test_calls_that_could_be_one():
    assert advice(adds_at(range(0, 384, 64))) == [
        (
            "W-VEC-SHORT",
            (
                "Adds is called 6 times one behind the other with 1 repeats each, against a head of about 24 cycles a "
                "call; one call can do it (6 calls in all)"
            ),
            "one call of 6 repeats with mask 64, repeat strides dst 8, src0 8",
        )
    ]
    assert advice(adds_at(range(0, 768, 128))) == [
        (
            "W-VEC-SHORT",
            (
                "Adds is called 6 times one behind the other with 1 repeats each, against a head of about 24 cycles a "
                "call; one call can do it (6 calls in all)"
            ),
            "one call of 6 repeats with mask 64, repeat strides dst 16, src0 16",
        )
    ]


def adds_at(places, *, scalar=lambda _: 1.0, count=64, after=lambda _: None):
    """Kernel of one Adds at each of these elements."""

    def kernel(asc):
        x, z = local("x", 0, 65536), local("z", 0x10000, 65536)
        for i in places:
            asc.adds(z[i], x[i], scalar(i), count)
            after(asc)

    return kernel


@pytest.mark.parametrize(
    "kernel",
    [
        adds_at((0, 64, 192, 256, 384, 448)),
        adds_at(range(0, 384, 64), scalar=float),
        adds_at(range(0, 384, 64), after=lambda asc: asc.pipe_barrier(Pipe.V)),
        adds_at(range(0, 8192, 2048), count=2048),
        adds_at(range(0, 192, 64)),
    ],
    ids=["uneven", "different scalars", "barriers", "long calls", "three"],
)
def test_calls_that_are_not_worth_merging_or_cannot_be_one(kernel):
    assert advice(kernel) == []


def test_a_loop_of_several_instructions():
    def kernel(asc, rows=32):
        x, z = local("x", 0), local("z", 0x10000)
        for i in range(rows):
            asc.adds(z[i * 64], x[i * 64], 1.0, 64)
            asc.muls(z[i * 64], z[i * 64], 2.0, 64)

    assert advice(kernel) == [
        (
            "W-SCALAR",
            (
                f"{api} is issued 32 times in one tile from one kernel line, at a constant distance; the queue of the "
                "pipe holds 32 (32 calls in all)"
            ),
            "one call with a repeat stride instead of a loop",
        )
        for api in ("Adds", "Muls")
    ]
    assert advice(lambda asc: kernel(asc, 31)) == []


def test_a_loop_of_get_value():
    def kernel(asc, times=32):
        x = local("x", 0)
        for i in range(times):
            asc.get_value(x, i)

    assert advice(kernel) == [
        (
            "W-SCALAR",
            (
                "GetValue is executed 32 times in one tile from one kernel line, each by the scalar unit, which "
                "meanwhile issues nothing (32 times in all)"
            ),
            "use a vector instruction (a reduction, Brcb, Gather), or read fewer values",
        )
    ]
    assert advice(lambda asc: kernel(asc, 31)) == []


def test_a_call_that_ends_inside_a_repeat():
    def kernel(asc, count):
        asc.adds(local("z", 0x10000), local("x", 0), 1.0, count)

    assert advice(lambda asc: kernel(asc, 1000)) == [
        (
            "W-VEC-TAIL",
            (
                "Adds works on 1000 elements, no multiple of the 64 of a repeat: 16 cycles over all cores for partial "
                "last repeats"
            ),
            "work on 1024 elements, the rest being padding",
        )
    ]
    for count in (1024, 40):  # whole; less than one repeat
        assert advice(lambda asc, count=count: kernel(asc, count)) == []


def test_two_whole_reductions():
    def kernel(asc, first="whole_reduce_sum", repeats=4):
        x, t, z = local("x", 0), local("t", 0x10000), local("z", 0x11000)
        if first == "whole_reduce_sum":
            asc.whole_reduce_sum(t, x, 64, repeats, 1, 1, 8)
        else:
            asc.block_reduce_sum(t, x, repeats, 64, 1, 1, 8)
        asc.pipe_barrier(Pipe.V)
        width = repeats if first == "whole_reduce_sum" else 8 * repeats
        asc.whole_reduce_sum(z, t, width, 1, 1, 1, 8)

    assert advice(kernel) == [
        (
            "W-RED-WHOLE",
            (
                "WholeReduceSum reduces 4 repeats and then its own results; BlockReduceSum first would leave 32 "
                "values, one repeat for the second call, and save 33 cycles over all cores"
            ),
            "reduce to datablocks first, then once over the whole repeat",
        )
    ]
    assert advice(lambda asc: kernel(asc, "block_reduce_sum")) == []
    assert advice(lambda asc: kernel(asc, repeats=9)) == []  # 72 values are more than a repeat


def test_two_maxima_with_their_places_are_left_alone():
    def kernel(asc, order):
        x, t, z = local("x", 0), local("t", 0x10000), local("z", 0x11000)
        asc.whole_reduce_max(t, x, 64, 4, 1, 1, 8, order)
        asc.whole_reduce_max(z, t, 4, 1, 1, 1, 8, order)

    assert codes(lambda asc: kernel(asc, ReduceOrder.ORDER_ONLY_VALUE)) == ["W-RED-WHOLE"]
    assert codes(lambda asc: kernel(asc, ReduceOrder.ORDER_VALUE_INDEX)) == []


def test_what_a_library_call_does_inside_is_its_own_matter():
    """Rows of op_kernel files are looked at for conflicts between buffers that the caller places, nothing else."""
    assert is_library("softmax_grad_nd.py:49")
    assert not is_library("softmax_grad_operator.py:70")
    assert not is_library("vector_add.py:21")


# ---- order --------------------------------------------------------------------------------------------------------


def barred(asc, x, *, touch_other=False):
    """Load, all-barrier, compute."""
    a, b, z = local("a", 0), local("b", 0x4000), local("z", 0x10000)
    asc.data_copy(a, x, 4096)
    if touch_other:
        asc.duplicate(b, 0.0, 4096)
    asc.pipe_barrier(Pipe.ALL)
    asc.adds(z, a, 1.0, 4096)
    if touch_other:
        asc.data_copy(x, b, 4096)


def test_a_barrier_of_all_pipes_for_one_pair():
    assert advice(barred, gm(("x", 4096))) == [
        (
            "W-SYNC-BARRIERALL",
            "PipeBarrier<ALL> stops every pipe (1 times), but what stands around it depends on V behind MTE2 only",
            "SetFlag and WaitFlag of MTE2_V",
        )
    ]
    assert advice(lambda asc, x: barred(asc, x, touch_other=True), gm(("x", 4096))) == []


def test_a_barrier_of_all_pipes_inside_one_pipe():
    def kernel(asc):
        a, b, c = local("a", 0), local("b", 0x10000), local("c", 0x20000)
        asc.adds(b, a, 1.0, 4096)
        asc.pipe_barrier(Pipe.ALL)
        asc.muls(c, b, 2.0, 4096)

    assert advice(kernel) == [
        (
            "W-SYNC-BARRIERALL",
            "PipeBarrier<ALL> stops every pipe (1 times), but what stands around it depends on pipe V's own order only",
            "PipeBarrier<V>",
        )
    ]


def test_what_comes_in_the_next_tile_counts():
    """The barrier also keeps the next tile's load behind this tile's computation: two pairs."""

    @tile
    def one(asc, part):
        a = local("a", 0)
        asc.data_copy(a, part, 4096)
        asc.pipe_barrier(Pipe.ALL)
        asc.adds(local("z", 0x10000), a, 1.0, 4096)
        asc.pipe_barrier(Pipe.V)

    def once(asc, x):
        one(asc, x[0])

    def twice(asc, x):
        one(asc, x[0])
        one(asc, x[4096])

    assert codes(once, gm(("x", 4096))) == ["W-SYNC-BARRIERALL"]
    assert codes(twice, gm(("x", 8192))) == []


# ---- cores and buffers --------------------------------------------------------------------------------------------


def spread(tiles_of):
    """Kernel in which core c loads tiles_of(c) tiles of 16 KiB."""

    def kernel(asc, x):
        core = asc.get_block_idx()
        for i in range(tiles_of(core)):
            asc.data_copy(local("u", 0), x[(core * 20 + i) * 4096], 4096)

    return kernel


def test_cores_without_work():
    program = recorded(spread(lambda core: 2 * (core < 3)), gm(("x", 4 * 20 * 4096)), cores=4)
    assert said(idle_cores(program)) == [
        ("W-TILE-IDLE", "1 of 4 AIVs have no rows to work on", "lower block_dim, or split the work finer")
    ]


def test_cores_with_unequal_work():
    def found(tiles_of):
        return said(idle_cores(recorded(spread(tiles_of), gm(("x", 4 * 20 * 4096)), cores=4)))

    assert found(lambda core: 3 if core == 0 else 2) == [
        (
            "W-TILE-IDLE",
            "the busiest of 4 AIVs moves 49152 B from and to GM, 33 % more than the average of 36864 B",
            "split the work finer, or spread what is left over cores",
        )
    ]
    assert found(lambda core: 11 if core < 2 else 10) == []  # 4.8 %
    assert found(lambda core: 2) == []


def adding_tiles(num, work=1):
    """Kernel of a queue for loads with `num` buffers, and `work` additions a tile."""

    def kernel(asc, x):
        pipe = asc.t_pipe()
        que = asc.t_que(TPosition.VECIN, 1, "in_x")
        pipe.init_buffer(que, num, FLOATS)
        for i in range(8):
            a = que.alloc_tensor(x.dtype)
            asc.data_copy(a, x[i * 4096], 4096)
            que.enque(a)
            a = que.deque(x.dtype)
            for _ in range(work):
                asc.adds(local("z", 0x20000), a, 1.0, 4096)
                asc.pipe_barrier(Pipe.V)
            que.free_tensor(a)

    return kernel


def timeline_advice(kernel):
    program = recorded(kernel, gm(("x", 8 * 4096)))
    return said(advise_timeline(program, schedule(program, B2, "reference"), B2))


def test_one_buffer_while_loads_are_critical():
    ((code, message, hint),) = timeline_advice(adding_tiles(1))
    assert code == "W-NODB"
    assert re.sub(r"\d+", "#", message) == (
        "in_x has one buffer and MTE# is the critical pipe (# % busy): # cycles of waiting for that buffer, # % of the "
        "run, on an average core"
    )
    assert hint == "num = 2: 16384 B more, 48896 B are free"
    assert timeline_advice(adding_tiles(2)) == []
    assert timeline_advice(adding_tiles(1, work=12)) == []  # V is critical


# ---- cost ---------------------------------------------------------------------------------------------------------


def test_a_finding_counts_all_calls_and_is_made_once():
    @tile
    def one(asc, part):
        asc.data_copy(local("u", 0, 4096), part, 1024)
        asc.add(local("z", 0x10000), local("x", 0), local("y", 0x4000), 4096)

    def kernel(asc, x):
        for i in range(64):
            one(asc, x[i * 1024])

    found = list(advise(recorded(kernel, gm(("x", 65536)), cores=2), B2))
    assert (found[0].code, found[0].count) == ("W-BANK-RR", 128)
    assert [(f.code, f.count) for f in found if f.code == "W-MTE-SMALL"] == [("W-MTE-SMALL", 128)]
    assert len({(f.code, f.where, f.operand) for f in found}) == len(found)
