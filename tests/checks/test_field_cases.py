"""Situations that users reported, as kernels: what the plans and temp sizes of tests/plan and tests/tmpsize leave out.

F7 is about the Cube side, whose buffers a plan knows; F9 is a plan of buffers.
"""

import pytest
from codes_harness import B2, checked, flagged, local, sized

from ascendsim.device import load_device
from ascendsim.dtypes import dtype
from ascendsim.isa.forms import BinaryRepeatParams
from ascendsim.isa.move import DataCopyExtParams, DataCopyPadExtParams
from ascendsim.machine import schedule
from ascendsim.memory import place_in_gm
from ascendsim.op_host.softmax import soft_max_grad_tiling_func
from ascendsim.op_kernel.softmax_grad import softmax_grad
from ascendsim.record import record
from ascendsim.terms import HardEvent, Pipe, TPosition

VECIN, VECCALC = TPosition.VECIN, TPosition.VECCALC


def said(findings):
    return [(f.code, f.message) for f in findings]


# ---- F1: a double buffer of 48000 floats ----------------------------------------------------------------------------


def loading(num, elements):
    """A kernel that loads one tile into a queue of so many buffers."""

    def kernel(asc, x):
        que = asc.t_que(VECIN, 1, "in_x")
        asc.t_pipe().init_buffer(que, num, 4 * elements)
        tensor = que.alloc_tensor("float")
        asc.data_copy(tensor, x, elements)
        que.enque(tensor)
        tensor = que.deque("float")
        asc.adds(tensor, tensor, 1.0, 4096)
        que.free_tensor(tensor)

    return lambda: checked(kernel, {"x": ("float", 48000)})


@pytest.mark.parametrize(
    ("num", "elements", "found"),
    [
        (
            2,
            48000,
            [
                ("E-CAP-UB-HW", "UB address 384000 is past the end of UB (196608 B): in_x 2 x 192000 B"),
                ("E-CAP-UB", "UB use 384000 B exceeds the 196352 B that Ascend C sees: in_x 2 x 192000 B"),
            ],
        ),
        (2, 24552, [("E-CAP-UB", "UB use 196416 B exceeds the 196352 B that Ascend C sees: in_x 2 x 98208 B")]),
        (
            2,
            24544,
            [
                (
                    "W-CAP-UB-SAFE",
                    "UB use 196352 B leaves less than the 8 KiB that some APIs reserve (safe up to 188160 B)",
                )
            ],
        ),
        (2, 23520, []),
        (
            1,
            48000,
            [
                (
                    "W-CAP-UB-SAFE",
                    "UB use 192000 B leaves less than the 8 KiB that some APIs reserve (safe up to 188160 B)",
                )
            ],
        ),
    ],
)
def test_f1_a_double_buffer_of_floats(num, elements, found):
    assert said(loading(num, elements)()) == found


# ---- F3, F4: a TBuf and SoftmaxGrad ---------------------------------------------------------------------------------


def beside_a_tbuf(claimed, temp):
    """SoftmaxGrad of 64 x 128 floats on one TBuf, its temp the framework's (None) or so many bytes of another TBuf."""

    def kernel(asc, *_):
        pipe, work = asc.t_pipe(), asc.t_buf(VECCALC, "work")
        pipe.init_buffer(work, 1, claimed)
        grad, src = work.get("float"), work.get_with_offset("float", 8192, 32768)
        tmp = None
        if temp is not None:
            buf = asc.t_buf(VECCALC, "tmp")
            pipe.init_buffer(buf, 1, temp)
            tmp = buf.get("uint8_t")
        asc.duplicate(work.get("float"), 1.0, 16384)
        asc.pipe_barrier(Pipe.V)
        dst = work.get_with_offset("float", 8192, 65536)
        softmax_grad(asc, dst, grad, src, tmp, soft_max_grad_tiling_func((64, 128), 4, temp or 832, False))

    return checked(kernel)


def test_f3_a_tbuf_of_all_that_is_visible_leaves_128_bytes_to_the_framework():
    """PopStackBuffer gives what lies up to 196480 B, the visible end 196352 B."""
    assert ("E-TMP-SMALL", "SoftmaxGrad temp has 128 B, the minimum for last axis 128 is 832 B") in said(
        beside_a_tbuf(196352, None)
    )


@pytest.mark.parametrize(("claimed", "codes"), [(195520, {"W-CAP-UB-SAFE"}), (195552, {"E-CAP-UB"})])
def test_f3_a_temp_of_832_bytes_beside_it(claimed, codes):
    found = beside_a_tbuf(claimed, 832)
    assert {f.code for f in found} - {"W-BANK-RR"} == codes


@pytest.mark.parametrize(
    ("beside", "text"),
    [
        ("calc=196352", "0 B left in the Ascend C visible UB, the API needs at least 832 B (53248 B for full speed)"),
        ("calc=195552", "800 B left in the Ascend C visible UB, the API needs at least 832 B (53248 B for full speed)"),
    ],
)
def test_f3_by_tmpsize(beside, text):
    found = sized("softmaxgrad", (64, 128), "float", soc=B2, beside=[beside])
    assert ("E-TMP-LEFT", text) in said(found)


# ---- F5: rows of 16 B in UB -----------------------------------------------------------------------------------------

TILE = local("tile", "float", 0, 1024)
NARROW = {"x": ("float", 32)}


def row_by_row(width):
    """Eight rows of four floats, each to a UB row of `width` floats."""

    def kernel(asc, x):
        for i in range(8):
            asc.data_copy_pad(TILE[width * i], x[4 * i], DataCopyExtParams(1, 16), DataCopyPadExtParams())

    return [f for f in checked(kernel, NARROW) if f.severity.value == "E"]


def test_f5_rows_of_16_bytes_are_no_datablocks():
    assert said(row_by_row(4)) == [
        ("E-ALIGN-UB", f"DataCopyPad dst tile: UB address 0x{16 * i:x} is 16 B past a 32 B boundary")
        for i in (1, 3, 5, 7)
    ]
    assert row_by_row(8) == []


# ---- F6: starts that are off ----------------------------------------------------------------------------------------


def loaded_to(offset, gm_offset=0):
    """A load to `offset` floats into a tensor, from `gm_offset` floats into x."""

    def kernel(asc, x, _):
        if gm_offset:
            asc.data_copy_pad(TILE[offset], x[gm_offset], DataCopyExtParams(1, 32), DataCopyPadExtParams())
        else:
            asc.data_copy(TILE[offset], x, 8)

    return checked(kernel)


def test_f6_a_start_in_ub_must_be_a_multiple_of_32_bytes():
    (found,) = loaded_to(1)
    assert (found.code, found.operand, found.got, found.wanted) == ("E-ALIGN-UB", "dst", "0x4", "a multiple of 32")
    assert found.message == "DataCopy dst tile: UB address 0x4 is 4 B past a 32 B boundary"
    assert (
        found.hint == "start operands on whole datablocks (32 B): use offsets that are multiples of 8 elements of float"
    )
    assert loaded_to(8) == ()


def test_f6_gm_is_addressed_by_bytes():
    """Legal for the padded copy; what it costs is advice."""
    assert said(loaded_to(0, gm_offset=1)) == [
        ("W-ALIGN-GM", "DataCopyPad src0: start 4 B in GM tensor x is no multiple of 512 B, which costs bandwidth")
    ]


# ---- F8: a flag that is set only later ------------------------------------------------------------------------------


def ring(asc, x, y, sets_first):
    places = [local("in0", "float", 0, 4096), local("in1", "float", 0x1000, 4096)]
    results = [local("out0", "float", 0x10000, 4096), local("out1", "float", 0x11000, 4096)]
    if sets_first:
        for i in range(2):
            asc.set_flag(HardEvent.MTE3_MTE2, i)
    for i in range(4):
        asc.wait_flag(HardEvent.MTE3_MTE2, i % 2)
        asc.data_copy(places[i % 2], x[1024 * i], 1024)
        flagged(asc, HardEvent.MTE2_V, i % 2)
        asc.adds(results[i % 2], places[i % 2], 1.0, 1024)
        flagged(asc, HardEvent.V_MTE3, i % 2)
        asc.data_copy(y[1024 * i], results[i % 2], 1024)
        asc.set_flag(HardEvent.MTE3_MTE2, i % 2)
    if sets_first:
        for i in range(2):
            asc.wait_flag(HardEvent.MTE3_MTE2, i)


def test_f8_mte2_waits_for_a_flag_that_mte3_sets_only_later():
    (found,) = checked(lambda asc, x, y: ring(asc, x, y, sets_first=False))
    first = ring.__code__.co_firstlineno
    wait, later = (f"Flag (test_field_cases.py:{first + n})" for n in (7, 13))
    assert (found.code, found.operand, found.got) == ("E-SYNC-DEADLOCK", "MTE3_MTE2", "id 0")
    assert found.message.startswith(
        f"deadlock: MTE2 waits at Wait{wait} for MTE3_MTE2 id 0, which MTE3 sets only later, at Set{later}"
    )
    assert found.hint == "set the flag before the wait, on the pipe that its name begins with"


def test_f8_one_set_per_id_before_and_one_wait_after():
    assert said(checked(lambda asc, x, y: ring(asc, x, y, sets_first=True))) == []


# ---- F10: bank conflicts of an Add ----------------------------------------------------------------------------------

DEVICE = load_device(B2)


def adding(src0, src1, dst):
    """One Add of 64 repeats on three tensors at these addresses."""
    x, y, z = (local(name, "float", at, 16384) for name, at in (("x", src0), ("y", src1), ("z", dst)))
    return lambda asc, *_: asc.add(z, x, y, 64, 64, BinaryRepeatParams())


def cycles(kernel):
    program = record(kernel, DEVICE, 1, place_in_gm([("x", dtype("float"), (8,))]), ()).program
    return int(schedule(program, DEVICE, "reference").totals.busy_cycles[:, Pipe.V].sum())


def test_f10_the_ratio_that_a_board_measured():
    free, clash = cycles(adding(0x0, 0x10100, 0x20000)), cycles(adding(0x0, 0x4000, 0x10000))
    assert 1.65 <= clash / free <= 1.85
    assert clash - free == 64
