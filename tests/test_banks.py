"""What datablocks meet, against counting by hand on random strides and addresses; and the conflicts of a program."""

import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.banks import Side, cycles_of
from ascendsim.conflicts import bank_losses
from ascendsim.cost import template_schedule
from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.machine import run, schedule
from ascendsim.memory import LocalTensor
from ascendsim.record import record
from ascendsim.report import MOST_BANK_LOSSES, bank_cells, markdown
from ascendsim.terms import Pipe, TPosition

DEVICE = load_device("Ascend910B1")
GROUPS, BANK_BYTES, BANKS, BLOCK, READ_WRITE = 16, 64 * 1024, 3, 32, 0.77


def local(address, name="t", tensor_bytes=64 * 1024):
    return LocalTensor(name, TPosition.VECCALC, FLOAT, address, tensor_bytes)


def recorded(kernel):
    return record(kernel, DEVICE, 1, (), ()).program


def occupancy(kernel):
    """Cycles of the last instruction of a kernel, start-up and drain left out."""
    return int(template_schedule(recorded(kernel).templates[0], DEVICE).columns["occupancy"][-1])


# ---- counting by hand -----------------------------------------------------------------------------------------------


def numbers(start, blk, rep, repeat, blocks=range(8)):
    """Datablock numbers of a repeat; one that is read eight times is read once."""
    first = start // BLOCK + repeat * rep
    return [first] if blk == 0 else [first + n * blk for n in blocks]


def busiest_group(*operands):
    """Accesses of the busiest bank group; operands are lists of datablock numbers."""
    count = [0] * GROUPS
    for blocks in operands:
        for block in blocks:
            count[block % GROUPS] += 1
    return max(1, *count)


def banks(blocks):
    return [(block % GROUPS, block * BLOCK // BANK_BYTES % BANKS) for block in blocks]


def add_by_hand(dst, src0, src1, repeats):
    """Cycles of an Add: each operand is (start, block stride, repeat stride)."""
    total, met = 0, 0
    for r in range(repeats):
        d, a, b = (numbers(*side, r) for side in (dst, src0, src1))
        total += max(busiest_group(a, b), busiest_group(d))
        written = banks(d)
        met += any(
            len(read) == len(written) and set(read) & set(written) and read != written for read in (banks(a), banks(b))
        )
    return max(3, math.ceil(total + READ_WRITE * met))


SIDE = st.tuples(
    st.integers(0, 2000).map(lambda n: n * BLOCK), st.sampled_from([0, 1, 1, 1, 2, 3, 8, 16, 17]), st.integers(0, 20)
)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(SIDE, SIDE, SIDE, st.integers(1, 40))
def test_an_add_costs_what_counting_says(dst, src0, src1, repeats):
    def kernel(asc):
        strides = BinaryRepeatParams(dst[1], src0[1], src1[1], dst[2], src0[2], src1[2])
        asc.add(*(local(side[0]) for side in (dst, src0, src1)), 64, repeats, strides)

    assert occupancy(kernel) == add_by_hand(dst, src0, src1, repeats)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(SIDE, SIDE, st.integers(1, 40))
def test_an_exp_takes_each_half_of_a_repeat_by_itself(dst, src, repeats):
    """32 floats a cycle: four datablocks are read and written in each of two cycles, or as often as they meet."""

    def kernel(asc):
        strides = UnaryRepeatParams(dst[1], src[1], dst[2], src[2])
        asc.exp(local(dst[0]), local(src[0]), 64, repeats, strides)

    halves = list(product(range(repeats), (range(4), range(4, 8))))
    cycles = sum(
        max(busiest_group(numbers(*src, r, half)), busiest_group(numbers(*dst, r, half))) for r, half in halves
    )
    assert occupancy(kernel) == max(3, cycles)


def test_what_is_computed_for_seven_cycles_hides_reads():
    """A sum of each repeat takes 7 cycles; eight reads of one group take 8, four are hidden."""

    def kernel(asc, stride):
        asc.whole_reduce_sum(local(0x20000), local(0), 64, 10, 1, stride, 1)

    assert [occupancy(lambda asc, s=s: kernel(asc, s)) for s in (1, 8, 16)] == [70, 70, 80]


def test_less_than_a_cycle_a_repeat_slows_down_in_proportion():
    side = Side(0, 16, 1, tuple(range(8)))
    assert cycles_of((side,), (), 10, GROUPS, 0.5) == 40
    assert cycles_of((Side(0, 1, 8, tuple(range(8))),), (), 10, GROUPS, 0.5) == 5


def test_results_that_end_inside_a_datablock():
    """8 B of bits a repeat of floats: 5 cycles more of Compare, 6 of Compares, unless four repeats fill datablocks."""
    from ascendsim.terms import CmpMode

    def two(asc, repeat):
        asc.compare(local(0x20000), local(0), local(0x10100), CmpMode.LT, None, repeat)

    def one(asc, repeat):
        asc.compares(local(0x20000), local(0), 1.0, CmpMode.LT, None, repeat)

    assert [occupancy(lambda asc, n=n: two(asc, n)) for n in (7, 8)] == [7 + 5, 8]
    assert [occupancy(lambda asc, n=n: one(asc, n)) for n in (7, 8)] == [7 + 6, 8]


@pytest.mark.parametrize(("repeat", "cycles"), [(1, 3 + 8 + 4), (10, 3 + 10 * (8 + 4))])
def test_a_gather_reads_256_bytes_of_offsets_for_each_repeat(repeat, cycles):
    def kernel(asc):
        asc.gather(local(0x20000), local(0), local(0x10000).reinterpret_cast("uint32_t"), 0, 64, repeat, 8)

    assert occupancy(kernel) == cycles


# ---- of a program ---------------------------------------------------------------------------------------------------


def adding(src0, src1, dst, params=BinaryRepeatParams()):
    def kernel(asc):
        asc.add(local(dst, "z"), local(src0, "x"), local(src1, "y"), 64, 64, params)

    return kernel


def lost(kernel):
    return [(b.api, b.cycles, b.operands, b.remedy) for b in bank_losses(recorded(kernel), DEVICE)]


def test_what_a_kernel_line_loses_and_how_to_keep_it():
    assert lost(adding(0, 0x10100, 0x20000)) == []
    assert lost(adding(0, 0x4000, 0x10000)) == [
        ("Add", 64, "src0 0x0 (x) and src1 0x4000 (y)", "start src1 (y) 256 B further, at 0x4100")
    ]
    assert lost(adding(0, 0x10100, 0x4020)) == [
        ("Add", 49, "dst 0x4020 (z) and src0 0x0 (x)", "start dst (z) 224 B further, at 0x4100")
    ]


@pytest.mark.parametrize(("dst", "free"), [(0x10000, 0x10000), (0x4020, 0x4100)])
def test_the_remedy_gains_the_cycles_that_are_lost(dst, free):
    """Cycles of the timeline with and without what the table of a run says."""
    slow, fast = ((0, 0x4000, dst), (0, 0x4100, free)) if dst == free else ((0, 0x10100, dst), (0, 0x10100, free))
    ((_, cycles, _, _),) = lost(adding(*slow))
    took = [schedule(recorded(adding(*at)), DEVICE).makespan_cycles for at in (slow, fast)]
    assert took[0] - took[1] - cycles in (0, 1)  # the pipe rounds up


@pytest.mark.parametrize("repeats", [1, 2, 3, 4, 5, 6, 7])
def test_what_the_shortest_interval_hides_is_not_lost(repeats):
    """Adds of half are 6 cycles apart: up to three repeats that meet are hidden, up to six are in part."""

    def kernel(src1):
        x, y, z = (local(at, name).reinterpret_cast("half") for at, name in ((0, "x"), (src1, "y"), (0x20000, "z")))
        return lambda asc: asc.add(z, x, y, 128, repeats)

    took = [occupancy(kernel(src1)) for src1 in (0x4000, 0x4100)]
    assert took == [max(6, 2 * repeats), max(6, repeats)]
    assert sum(cycles for _, cycles, _, _ in lost(kernel(0x4000))) == took[0] - took[1]


def test_lines_come_in_the_order_of_their_loss():
    def kernel(asc):
        for repeats in (16, 64):
            asc.add(local(0x20000, "z"), local(0, "x"), local(0x4000, "y"), 64, repeats)
        asc.sub(local(0x20000, "z"), local(0, "x"), local(0x4000, "y"), 64, 64)
        asc.duplicate(local(0, "w", 180000), 0.0, 64, 32, 16, 1)

    assert [(api, cycles) for api, cycles, _, _ in lost(kernel)] == [("Duplicate", 7 * 32), ("Add", 80), ("Sub", 64)]


def test_busy_cycles_of_a_run_contain_what_is_lost():
    """A run's V pipe is busy as long as without conflicts and what the table says, together."""
    slow, fast = (schedule(recorded(adding(*at)), DEVICE) for at in ((0, 0x4000, 0x10000), (0, 0x4100, 0x10000)))
    busy = [int(t.totals.busy_cycles[:, Pipe.V].sum()) for t in (slow, fast)]
    assert busy[0] - busy[1] == bank_losses(recorded(adding(0, 0x4000, 0x10000)), DEVICE)[0].cycles


# ---- in the report ---------------------------------------------------------------------------------------------------


def test_the_report_of_a_run_names_line_operands_cycles_and_the_move():
    """vector_add loads two queues that start alike: 8 calls of 64 repeats on 8 cores meet in every group."""
    result = run("vector_add")
    line = (
        "| vector_add.py:21 | Add | 512 | src0 0x0 (in_x) and src1 0x2000 (in_y) | start src1 (in_y) 256 B further, at "
        "0x2100, by a TBuf of 256 B in front of it |"
    )
    lines = markdown(result).splitlines()
    at = lines.index("## UB bank conflicts (all cores)")
    assert lines[at + 2 : at + 5] == [
        "| line | instruction | cycles lost | operands that meet | what avoids it |",
        "|---|---|---|---|---|",
        line,
    ]


def test_what_a_library_call_loses_is_shown_without_a_move():
    """Rows spread inside the temp of SoftmaxGrad: its caller can move the temp, but nothing in it."""
    spread, *_ = bank_cells(run("softmaxgrad_minilm_attention"))
    assert spread[:2] == ("softmax_grad_rows.py:96", "Copy")
    assert spread[-1] == ""


def test_a_run_without_conflicts_has_no_table():
    result = run("matmul_512x512x512_half")
    assert bank_cells(result) == []
    assert "UB bank conflicts" not in markdown(result)


class Losing:
    """Stands in for a result with many lines."""

    bank_losses = bank_losses(
        recorded(
            lambda asc: [
                f(local(0x20000, "z"), local(0, "x"), local(0x4000, "y"), 64, 20 + n)
                for n, f in enumerate((asc.add, asc.sub, asc.mul, asc.max, asc.min, asc.div, asc.add_relu))
            ]
        ),
        DEVICE,
    )


def test_only_the_worst_lines_are_shown():
    losing = Losing()
    losing.bank_losses = losing.bank_losses * 2
    cells = bank_cells(losing)
    assert len(cells) == MOST_BANK_LOSSES + 1
    assert cells[-1] == ("4 more", "", str(sum(b.cycles for b in losing.bank_losses[10:])), "", "")
