"""Bytes of UB over their life, against runs of the same kernels and by themselves."""

import random

import numpy as np
import pytest

from ascendsim import tile
from ascendsim.checks import check_program
from ascendsim.checks.accesses import Accesses
from ascendsim.checks.lifetimes import Lives, check_lifetimes, dead_pairs, first_turns, sequences_of
from ascendsim.device import load_device
from ascendsim.dtypes import dtype
from ascendsim.execute import execute
from ascendsim.memory import Bytes, LocalTensor, place_in_gm
from ascendsim.record import record
from ascendsim.terms import HardEvent, Pipe, TPosition

DEVICE = load_device("Ascend910B1")
GM = place_in_gm([("x", dtype("float"), (4096,)), ("z", dtype("float"), (4096,))])


def slot(number, length=128):
    return LocalTensor(f"s{number}", TPosition.VECCALC, dtype("float"), number * 128, length)


def program_of(kernel, cores=1):
    recording = record(kernel, DEVICE, cores, GM, ())
    assert recording.complete
    return recording.program


def lives(kernel):
    program = program_of(kernel)
    return [(f.code, f.operand, f.got) for f in check_lifetimes(program, DEVICE, Accesses(program))]


def run_findings(program):
    memory = (Bytes.of(np.ones(4096, np.float32)), Bytes(4 * 4096))
    return {(f.code, f.where, f.operand, f.got) for f in execute(program, DEVICE, memory).findings}


def random_kernel(rng, most=12):
    """Loads, copies, sums and stores of whole or half slots, each behind a barrier of all pipes."""
    ops = [
        (rng.choice(["load", "load", "copy", "add", "fill", "sum", "store"]), rng.randrange(4), rng.randrange(4),
         rng.choice([8, 16, 32]))
        for _ in range(rng.randrange(1, most))
    ]  # fmt: skip
    turns = rng.randrange(1, 4)

    @tile
    def turn(asc, x, z):
        for kind, a, b, count in ops:
            if kind == "load":
                asc.data_copy(slot(a), x, count)
            elif kind == "copy":
                asc.data_copy(slot(a), slot(b), count)
            elif kind == "add":
                asc.add(slot(a), slot(b), slot(b), count)
            elif kind == "fill":
                asc.duplicate(slot(a), 0.0, count)
            elif kind == "sum":
                asc.whole_reduce_sum(slot(a), slot(b), count, 1, 1, 1, 8)
            else:
                asc.data_copy(z, slot(b), count)
            asc.pipe_barrier(Pipe.ALL)

    def kernel(asc, x, z):
        for at in range(turns):
            turn(asc, x, z[512 * at])

    return kernel


@pytest.mark.parametrize("seed", range(150))
def test_unwritten_reads_are_those_that_a_run_finds(seed):
    program = program_of(random_kernel(random.Random(seed)))
    accesses = Accesses(program)
    checked = check_lifetimes(program, DEVICE, accesses)
    found = {(f.code, f.where, f.operand, f.got) for f in checked if f.code == "W-MEM-UNINIT"}
    assert found == run_findings(program)
    if all(map(Lives(accesses).is_written, sequences_of(program))):
        assert found == set()


def several_tiles(rng):
    """Tiles of random rows, called in random order: what one leaves another may read, or overwrite."""
    kernels = [random_kernel(rng, most=4) for _ in range(3)]

    def kernel(asc, x, z):
        for _ in range(rng.randrange(2, 5)):
            rng.choice(kernels)(asc, x, z)

    return kernel


@pytest.mark.parametrize("seed", range(150))
def test_stores_are_read_as_the_walk_row_by_row_says(seed):
    accesses = Accesses(program := program_of(several_tiles(random.Random(seed))))
    lives = Lives(accesses)
    for templates in map(first_turns, sequences_of(program)):
        assert lives.is_read(templates) is (dead_pairs(accesses, templates) == [])


def test_random_tiles_are_of_both_kinds():
    read = []
    for seed in range(150):
        program = program_of(several_tiles(random.Random(seed)))
        read.append(Lives(Accesses(program)).is_read(first_turns(sequences_of(program)[0])))
    assert 10 <= sum(read) <= 140


def test_random_kernels_are_of_both_kinds():
    whole = [
        all(map(Lives(Accesses(p)).is_written, sequences_of(p)))
        for p in (program_of(random_kernel(random.Random(s))) for s in range(150))
    ]
    assert 10 <= sum(whole) <= 140


def test_padding_that_reaches_a_sum_is_found():
    def kernel(asc, x, z):
        asc.data_copy(slot(0), x, 24)
        asc.set_flag(HardEvent.MTE2_V, 0)
        asc.wait_flag(HardEvent.MTE2_V, 0)
        asc.whole_reduce_sum(slot(1), slot(0), 32, 1, 1, 1, 8)

    assert lives(kernel) == [("W-MEM-UNINIT", "src0", "32")]


def test_a_store_overwritten_unread():
    def kernel(asc, x, z):
        asc.duplicate(slot(0), 1.0, 32)
        asc.pipe_barrier(Pipe.V)
        asc.duplicate(slot(0), 2.0, 32)

    program = program_of(kernel)
    (found,) = check_program(program, DEVICE)
    line = kernel.__code__.co_firstlineno
    assert found.code == "W-MEM-DEADSTORE"
    assert found.where == f"Duplicate (test_lifetimes.py:{line + 1})"
    assert found.message == (
        "what Duplicate wrote to s0, 128 B from UB byte 0 on, is overwritten by Duplicate "
        f"(test_lifetimes.py:{line + 3}) before anybody reads it"
    )


@pytest.mark.parametrize("count", [8, 24])
def test_a_store_of_which_a_part_stays_is_not_dead(count):
    def kernel(asc, x, z):
        asc.duplicate(slot(0), 0.0, 32)
        asc.pipe_barrier(Pipe.V)
        asc.duplicate(slot(0), 2.0, count)

    assert lives(kernel) == []


def test_a_store_read_in_part_is_not_dead():
    def kernel(asc, x, z):
        asc.duplicate(slot(0), 0.0, 32)
        asc.adds(slot(1), slot(0), 1.0, 8)
        asc.duplicate(slot(0), 2.0, 32)

    assert lives(kernel) == []


def test_what_a_loop_leaves_unread_is_found_in_its_next_turn():
    @tile
    def turn(asc, x):
        asc.data_copy(slot(0), x, 32)

    def kernel(asc, x, z):
        for at in range(2):
            turn(asc, x[32 * at])

    assert lives(kernel) == [("W-MEM-DEADSTORE", "dst", "128")]


def test_a_buffer_without_use():
    def kernel(asc, x, z):
        pipe = asc.t_pipe()
        used, unused = asc.t_buf(TPosition.VECCALC, "used"), asc.t_buf(TPosition.VECCALC, "unused")
        pipe.init_buffer(used, 1, 128)
        pipe.init_buffer(unused, 1, 96)
        asc.duplicate(used.get("float"), 0.0, 32)

    (found,) = check_program(program_of(kernel), DEVICE)
    assert str(found) == (
        "W-BUF-UNUSED InitBuffer of unused: unused: 96 B of UB are given to it and no instruction touches them "
        "(to mend it: remove the buffer; a work buffer that an API demands may be as small as its page says)"
    )
