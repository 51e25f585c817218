"""GM that two calls touch: between cores against sets of bytes, on one core by what flags say."""

import random

import pytest

from ascendsim import TPosition, tile
from ascendsim.checks import check_program
from ascendsim.device import load_device
from ascendsim.dtypes import dtype
from ascendsim.isa.move import DataCopyParams
from ascendsim.memory import LocalTensor, place_in_gm
from ascendsim.record import record
from ascendsim.terms import HardEvent, Pipe

DEVICE = load_device("Ascend910B1")
GM = place_in_gm([("x", dtype("float"), (4096,)), ("z", dtype("float"), (4096,))])
BUF = LocalTensor("buf", TPosition.VECCALC, dtype("float"), 0, 4096)


def found(kernel, cores=1):
    recording = record(kernel, DEVICE, cores, GM, ())
    assert recording.complete
    findings = check_program(recording.program, DEVICE, with_lifetimes=False)
    return [f for f in findings if f.code in ("E-RACE-GM", "E-RACE-RAW", "E-RACE-WAR", "E-RACE-WAW", "E-HAZARD-MTE")]


@pytest.mark.parametrize("seed", range(150))
def test_races_between_cores_are_those_of_their_bytes(seed):
    """Each core stores once and loads once, in rows with gaps, behind a barrier of all pipes."""
    rng = random.Random(seed)
    cores = rng.randrange(2, 5)
    ops = [
        [
            (write, 8 * rng.randrange(100), rng.randrange(1, 4), rng.randrange(1, 4), rng.randrange(0, 4))
            for write in (True, False)
        ]
        for _ in range(cores)
    ]
    same = rng.random() < 0.5  # whether what is stored is what is loaded

    def kernel(asc, x, z):
        for write, first, count, length, gap in ops[asc.get_block_idx()]:
            if write:
                asc.data_copy(z[first], BUF, DataCopyParams(count, length, 0, gap))
            else:
                asc.data_copy(BUF, (z if same else x)[first], DataCopyParams(count, length, gap, 0))
            asc.pipe_barrier(Pipe.ALL)

    want = False
    touched = [
        {
            (("z" if write or same else "x", 4 * first + 32 * (row * (length + gap)) + byte), write)
            for write, first, count, length, gap in core
            for row in range(count)
            for byte in range(32 * length)
        }
        for core in ops
    ]
    for a in range(cores):
        for b in range(a):
            first, second = touched[a], touched[b]
            want |= any((at, True) in second or (write and (at, False) in second) for at, write in first)
    assert bool([f for f in found(kernel, cores) if f.code == "E-RACE-GM"]) == want


def test_a_race_between_cores_names_cores_bytes_and_rows():
    def kernel(asc, x, z):
        asc.data_copy(z[64 * asc.get_block_idx()], BUF, 128)

    (race,) = found(kernel, cores=3)
    line = f"DataCopy (test_gm.py:{kernel.__code__.co_firstlineno + 1})"
    assert race.where == line
    assert race.message == (f"cores 0 and 1 touch bytes 256 to 511 of GM tensor z in no order: {line} and {line}")
    assert race.hint == "give each core its own part, by get_block_idx and the tail"
    assert race.count == 2


def test_cores_that_only_read_the_same_do_not_race():
    def kernel(asc, x, z):
        asc.data_copy(BUF, x, 128)
        asc.pipe_barrier(Pipe.MTE2)
        asc.data_copy(BUF, x, 128)

    assert found(kernel, cores=3) == []


def through(asc, source, target, count=64):
    """Load, add, store, with the flags between."""
    asc.data_copy(BUF, source, count)
    asc.set_flag(HardEvent.MTE2_V, 0)
    asc.wait_flag(HardEvent.MTE2_V, 0)
    asc.adds(BUF, BUF, 1.0, count)
    asc.set_flag(HardEvent.V_MTE3, 0)
    asc.wait_flag(HardEvent.V_MTE3, 0)
    asc.data_copy(target, BUF, count)


def back(asc):
    asc.set_flag(HardEvent.MTE3_MTE2, 0)
    asc.wait_flag(HardEvent.MTE3_MTE2, 0)


@pytest.mark.parametrize("tiled", [False, True])
def test_in_place_is_ordered_by_the_flags_of_the_tile(tiled):
    def body(asc, x):
        through(asc, x, x)
        back(asc)

    turn = tile(body) if tiled else body

    def kernel(asc, x, z):
        for at in range(4):
            turn(asc, x[64 * at])

    assert found(kernel) == []


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_load_of_what_an_earlier_tile_stored(is_ordered):
    """The second tile reads what the first wrote; V orders loads and stores of BUF, MTE3_MTE2 those of GM."""
    other = LocalTensor("other", TPosition.VECCALC, dtype("float"), 8192, 4096)

    def kernel(asc, x, z):
        through(asc, x, z)
        if is_ordered:
            back(asc)
        asc.data_copy(other, z, 64)

    races = found(kernel)
    assert [f.code for f in races] == ([] if is_ordered else ["E-RACE-RAW"])
    if races:
        assert "bytes 0 to 255 of GM tensor z" in races[0].message
        assert races[0].hint.startswith("set_flag(HardEvent.MTE3_MTE2, id) behind ")


@pytest.mark.parametrize("has_barrier", [True, False])
def test_two_stores_to_the_same_bytes(has_barrier):
    def kernel(asc, x, z):
        asc.data_copy(z, BUF, 64)
        if has_barrier:
            asc.pipe_barrier(Pipe.MTE3)
        asc.data_copy(z[32], BUF, 64)

    assert [f.code for f in found(kernel)] == ([] if has_barrier else ["E-HAZARD-MTE"])


def test_rows_of_one_copy_that_lie_on_each_other_are_no_pair():
    def kernel(asc, x, z):
        for at in range(3):
            asc.data_copy(z[512 * at], BUF, DataCopyParams(4, 2, 0, 2))

    assert found(kernel) == []
