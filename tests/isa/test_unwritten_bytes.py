"""Bytes that nobody wrote: moves carry them along in silence; arithmetic, and the way to GM, report them."""

import numpy as np
import pytest
from lane_harness import DEVICE, Ground, compare, gm_tensors, local, run_both

from ascendsim.execute import execute
from ascendsim.isa.move import (
    BrcbRepeatParams,
    CopyRepeatParams,
    DataCopyExtParams,
    DataCopyPadExtParams,
    DataCopyParams,
)
from ascendsim.memory import Bytes
from ascendsim.record import record
from ascendsim.terms import RoundMode

A, D = local("a", "float", 0, 1024), local("d", "float", 2048, 1024)


def half_written():
    """A: floats 0..7 written, 8..15 not, 16..23 written."""
    ground = Ground().write(A, np.arange(24, dtype=np.float32))
    ground.ub.content[32:64] = 0xFF
    ground.ub.written[32:64] = False
    return ground


def messages(both):
    return [(f.code, f.operand, f.message) for f in both.findings]


MOVES = {
    "copy": lambda asc: asc.copy(D, A, 24, 1, CopyRepeatParams(1, 1, 8, 8)),
    "data_copy": lambda asc: asc.data_copy(D, A, 24),
    "data_copy bursts": lambda asc: asc.data_copy(D, A, DataCopyParams(3, 1, 0, 2)),
    "brcb": lambda asc: asc.brcb(D, A[8], 2, BrcbRepeatParams(1, 8)),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_inside_ub_carry_unwritten_bytes_in_silence(name):
    both = compare(MOVES[name], half_written())
    assert both.findings == ()
    assert not both.ub.written[2048 : 2048 + 1024].all()
    assert both.ub.written[2048 : 2048 + 1024].any()


def test_a_move_of_unwritten_bytes_makes_written_ones_unwritten():
    ground = half_written().write(D, np.ones(24, np.float32))
    both = compare(lambda asc: asc.data_copy(D, A, 24), ground)
    assert both.ub.written[2048 : 2048 + 96].tolist() == [True] * 32 + [False] * 32 + [True] * 32


READERS = {
    "add": (lambda asc: asc.add(D, D, A, 24), "Add src1 reads 32 bytes of a that nobody wrote"),
    "adds": (lambda asc: asc.adds(D, A, 1, 12), "Adds src0 reads 16 bytes of a that nobody wrote"),
    "muls": (lambda asc: asc.muls(D, A, 1, 9), "Muls src0 reads 4 bytes of a that nobody wrote"),
    "cast": (
        lambda asc: asc.cast(local("h", "half", 4096, 64), A, RoundMode.CAST_RINT, 24),
        "Cast src0 reads 32 bytes of a that nobody wrote",
    ),
    "whole_reduce_sum": (
        lambda asc: asc.whole_reduce_sum(D, A, 10, 1, 1, 1, 8),
        "WholeReduceSum src0 reads 8 bytes of a that nobody wrote",
    ),
    "block_reduce_sum": (
        lambda asc: asc.block_reduce_sum(D, A, 1, 24, 1, 1, 8),
        "BlockReduceSum src0 reads 32 bytes of a that nobody wrote",
    ),
    "pair_reduce_sum": (
        lambda asc: asc.pair_reduce_sum(D, A, 1, 24, 1, 1, 8),
        "PairReduceSum src0 reads 32 bytes of a that nobody wrote",
    ),
    "get_value": (lambda asc: asc.get_value(A, 9), "GetValue src0 reads 4 bytes of a that nobody wrote"),
}


@pytest.mark.parametrize("name", READERS)
def test_arithmetic_on_unwritten_bytes_is_found_and_its_result_is_written(name):
    kernel, text = READERS[name]
    ground = half_written().write(D, np.zeros(64, np.float32))
    both = compare(kernel, ground)
    role = text.split(" ")[1]
    assert messages(both) == [("W-MEM-UNINIT", role, text)]
    assert both.ub.written[2048 : 2048 + 256].all()
    assert both.ub.written[4096:4144].all() == (name == "cast")


@pytest.mark.parametrize("kind", ["int16_t", "int32_t"])
def test_an_integer_times_zero_is_zero_whatever_nobody_wrote(kind):
    i = local("i", kind, 0, 32)
    both = run_both(lambda asc: asc.muls(i, i, 0, 6), Ground())
    assert both.findings == ()
    assert both.array(i, 7).tolist() == [0] * 6 + [-1]
    assert both.ub.written[: 8 * i.dtype.bytes].tolist() == [True] * 6 * i.dtype.bytes + [False] * 2 * i.dtype.bytes


@pytest.mark.parametrize(("kind", "scalar"), [("float", 0), ("half", 0), ("int16_t", 1)])
def test_other_products_depend_on_what_nobody_wrote(kind, scalar):
    i = local("i", kind, 0, 32)
    both = run_both(lambda asc: asc.muls(i, i, scalar, 6), Ground())
    assert [f.code for f in both.findings] == ["W-MEM-UNINIT"]


def test_a_product_with_a_register_of_zero_depends_on_it():
    i, z = local("i", "int16_t", 0, 32), local("z", "int16_t", 64, 32)
    ground = Ground().write(z, np.zeros(16, np.int16))
    both = run_both(lambda asc: asc.muls(i, i, asc.get_value(z), 6), ground)
    assert [f.code for f in both.findings] == ["W-MEM-UNINIT"]


def test_arithmetic_takes_an_unwritten_byte_as_all_ones():
    i = local("i", "int16_t", 0, 32)
    both = run_both(lambda asc: asc.adds(i, i, 0, 16), Ground())
    assert both.array(i, 16).tolist() == [-1] * 16


def test_masked_lanes_are_not_read():
    ground = half_written()
    both = compare(lambda asc: asc.adds(D, A, 1, (0xFF00FF, 0), 1), ground)
    assert both.findings == ()


def test_one_finding_for_one_line_operand_and_tensor():
    def kernel(asc):
        for first in (8, 9):
            asc.adds(D, A, 1, first + 2)

    both = compare(kernel, half_written())
    assert messages(both) == [("W-MEM-UNINIT", "src0", "Adds src0 reads 8 bytes of a that nobody wrote")]


def test_the_finding_says_where_and_how_to_mend_it():
    def kernel(asc):
        asc.adds(D, A, 1, 9)

    (found,) = run_both(kernel, half_written()).findings
    assert found.where == f"Adds (test_unwritten_bytes.py:{kernel.__code__.co_firstlineno + 1})"
    assert (found.got, found.wanted) == ("4", "0")
    assert found.hint == "load or Duplicate the buffer first, or mask the tail"
    assert found.source == "asc-tools, npu-check ErrorRead2"


def test_unwritten_bytes_on_the_way_to_gm_are_found_and_stay_unwritten():
    y = gm_tensors(("y", "float", 24))
    both = compare(lambda asc, y: asc.data_copy(y, A, 24), Ground(y))
    assert messages(both) == [("W-MEM-UNINIT", "src0", "DataCopy src0 reads 96 bytes of a that nobody wrote")]
    assert not both.gm[0].written.any()


def test_padding_that_was_never_given_a_value_is_found_when_it_is_used():
    x = gm_tensors(("x", "float", 24))
    ground = Ground(x).write(x[0], np.arange(24, dtype=np.float32))
    pad = DataCopyPadExtParams(is_pad=False, right_padding=1)

    def kernel(asc, x):
        asc.data_copy_pad(A, x, DataCopyExtParams(1, 12), pad)
        asc.adds(D, A, 1, 8)

    assert messages(compare(kernel, ground)) == [
        ("W-MEM-UNINIT", "src0", "Adds src0 reads 20 bytes of a that nobody wrote")
    ]


def test_data_copy_pad_to_gm_counts_only_what_it_takes():
    y = gm_tensors(("y", "float", 8))
    ground = Ground(y).write(A, np.arange(3, dtype=np.float32))

    def kernel(asc, y):
        asc.data_copy_pad(y, A, DataCopyExtParams(1, 12))
        asc.data_copy_pad(y[4], A, DataCopyExtParams(1, 16))

    both = compare(kernel, ground)
    assert messages(both) == [("W-MEM-UNINIT", "src0", "DataCopyPad src0 reads 4 bytes of a that nobody wrote")]
    assert both.gm[0].written.tolist() == [True] * 12 + [False] * 4 + [True] * 12 + [False] * 4


def test_loading_a_gm_tensor_that_was_never_written_is_found_when_it_is_used():
    x = gm_tensors(("x", "float", 8))

    def kernel(asc, x):
        asc.data_copy(A, x, 8)
        asc.adds(D, A, 1, 8)

    assert [m[0] for m in messages(compare(kernel, Ground(x)))] == ["W-MEM-UNINIT"]


def test_dummies_that_repeat_an_unwritten_element_are_unwritten():
    """Bytes nobody wrote stay unwritten when moved (ascendsim.isa.move)."""
    x = gm_tensors(("x", "float", 8))
    both = run_both(lambda asc, x: asc.data_copy_pad(A, x, DataCopyExtParams(1, 12)), Ground(x))
    assert not both.ub.written[:32].any()


def test_every_core_starts_with_unwritten_ub():
    y = gm_tensors(("y", "float", 16))

    def kernel(asc, y):
        if asc.get_block_idx() == 0:
            asc.duplicate(A, 5.0, 8)
        asc.data_copy(y[8 * asc.get_block_idx()], A, 8)

    memory = (Bytes(64),)
    done = execute(record(kernel, DEVICE, 2, y, ()).program, DEVICE, memory)
    assert [f.code for f in done.findings] == ["W-MEM-UNINIT"]
    assert memory[0].written.tolist() == [True] * 32 + [False] * 32
