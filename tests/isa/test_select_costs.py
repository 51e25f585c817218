"""Cycles of reductions, comparisons, selections and gathers by hand from the device's numbers; and their logs."""

import pytest
from lane_harness import DEVICE, local

from ascendsim.isa.gather import GatherRepeatParams
from ascendsim.isa.gather_mask import GatherMaskParams
from ascendsim.machine import schedule
from ascendsim.record import record
from ascendsim.terms import CmpMode, ReduceOrder, SelMode

F, G, D = (local(n, "float", at, 8192) for n, at in (("f", 0), ("g", 0x4100), ("d", 0x8000)))
H, E = local("h", "half", 0, 8192), local("e", "half", 0x8000, 8192)
U, OFFSETS = local("u", "uint8_t", 0xC000, 1024), local("o", "uint32_t", 0xD000, 4096)
W = local("w", "float", 0xE000, 2048)
V, X = local("v", "uint16_t", 0, 4096), local("x", "uint16_t", 0x4000, 4096)


def program(kernel):
    return record(kernel, DEVICE, 1, (), ()).program


def cycles(kernel):
    return schedule(program(kernel), DEVICE).makespan_cycles


CASES = {
    "BlockReduceMax of float, 4 repeats": (lambda a: a.block_reduce_max(D, F, 4, 64, 1, 1, 8), 1, 13 + 4 + 6),
    "BlockReduceMin of half, 4 repeats": (lambda a: a.block_reduce_min(E, H, 4, 128, 1, 1, 8), 1, 13 + 28 + 7),
    "WholeReduceMax of float, 4 repeats": (lambda a: a.whole_reduce_max(D, F, 64, 4, 1, 1, 8), 1, 13 + 28 + 9),
    "WholeReduceMin of half, half a repeat": (lambda a: a.whole_reduce_min(E, H, 64, 1, 1, 1, 8), 1, 13 + 7 + 16 + 10),
    "RepeatReduceSum as WholeReduceSum": (lambda a: a.repeat_reduce_sum(D, F, 4, 64, 1, 1, 1, 8), 1, 13 + 28 + 21),
    "Compare of 16 repeats": (lambda a: a.compare(U, F, G, CmpMode.LT, 1024), 0, 13 + 16 + 10),
    "Compares of 16 repeats": (lambda a: a.compares(U, F, 1, CmpMode.LT, 1024), 0, 13 + 16 + 11),
    "Gather of float, 2 repeats": (lambda a: a.gather(D, F, OFFSETS, 0, 64, 2, 8), 1, 13 + 2 * (8 + 4) + 3 + 2),
    "Gather of half, 2 repeats": (lambda a: a.gather(E, H, OFFSETS, 0, 128, 2, 8), 1, 13 + 2 * (16 + 8) + 3 + 2),
    "Gatherb, 5 repeats": (lambda a: a.gatherb(X, V, OFFSETS, 5, GatherRepeatParams()), 1, 13 + 8 + 5 + 2 + 5),
    "GatherMask, fixed": (lambda a: a.gather_mask(D, F, 1, False, 0, GatherMaskParams(1, 5, 8, 0)), 2, 13 + 10 + 3),
    "GatherMask, bits, 2 repeats of 70": (
        lambda a: a.gather_mask(D, F, OFFSETS, True, 70, GatherMaskParams(1, 2, 9, 0)), 2, 13 + 2 * 2 * 14 + 3
    ),
    "Transpose": (lambda a: a.transpose(X, V), 0, 13 + 3 + 7),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_call(name):
    """Mask rows and the dispatch first, then startup, repeats and drain."""
    kernel, masks, wanted = CASES[name]
    assert cycles(kernel) == masks + 1 + wanted


def test_select_sets_its_mask_and_waits_for_it():
    """The compare mask, a barrier, then two mask rows meanwhile and Select itself: 16 repeats."""

    def kernel(asc):
        asc.select(D, U, F, G, SelMode.VSEL_TENSOR_TENSOR_MODE, 1024)

    set_mask, select = 13 + 3 + 5, 13 + 16 + 13
    assert cycles(kernel) == 1 + set_mask + select


@pytest.mark.parametrize(
    ("repeats", "rounds"),
    [(1, []), (4, [1]), (32, [1]), (33, [2, 1]), (100, [4, 1])],
)
def test_rounds_of_a_tensor_maximum_wait_for_each_other(repeats, rounds):
    """Of float pairs a repeat holds 32; a later round costs its repeats, a start-up and a drain."""

    def kernel(asc):
        asc.reduce_max(D, F, W, 8, repeats, 1)

    first = 13 + 7 * repeats + 16 + 9  # a partial repeat, once
    later = sum(13 + 9 + 7 * r for r in rounds)
    short = cycles(lambda asc: asc.reduce_max(D, F, W, 8, 1, 1)) - (13 + 7 + 16 + 9)
    assert cycles(kernel) == first + later + short
    assert short < 16  # mask rows, dispatch and hand-overs


def test_a_counted_sum_stops_the_scalar_unit():
    def kernel(asc):
        asc.reduce_sum(D, F, W, 640)
        asc.add(D[64], F, F, 64)

    apart = cycles(lambda asc: asc.reduce_sum(D, F, W, 640)) + cycles(lambda asc: asc.add(D[64], F, F, 64))
    assert abs(cycles(kernel) - apart) < 12  # nothing of the two overlaps


# ---- logs -------------------------------------------------------------------------------------------------------


def logged(kernel, api):
    return [r for r in program(kernel).instruction_log() if r["ascendc_api"].partition("#")[0] == api]


def test_log_of_reductions():
    (row,) = logged(lambda a: a.whole_reduce_max(E, H, 7, 1, 1, 1, 8, ReduceOrder.ORDER_ONLY_INDEX), "WholeReduceMax")
    assert (row["instr"], row["dtype"], row["note"], row["mask_lo"]) == ("vcmax", "f16", "order=ONLY_INDEX", "0x7f")
    (row,) = logged(lambda a: a.block_reduce_min(D, F, 1, 64, 1, 1, 8), "BlockReduceMin")
    assert (row["instr"], row["note"]) == ("vcgmin", "")
    (row,) = logged(lambda a: a.reduce_sum(D, F, W, 10), "ReduceSum")
    assert (row["instr"], row["note"], row["dst_tensor"], row["src0_tensor"]) == ("vcadd", "mode=1", "", "f")
    rows = logged(lambda a: a.reduce_sum(D, F, W, 64, 70, 0), "ReduceSum")
    assert [(r["instr"], r["note"], r["dst_tensor"], r["repeat"]) for r in rows] == [
        ("vcadd", "mode=0", "w", "70"), ("vcadd", "mode=0", "w", "1"), ("vcadd", "mode=0", "d", "1"),
    ]  # fmt: skip
    (row,) = logged(lambda a: a.reduce_min(D, F, W, 10, cal_index=True), "ReduceMin")
    assert (row["instr"], row["note"]) == ("vcmin", "with_index=1")


def test_log_of_comparisons_and_selections():
    (row,) = logged(lambda a: a.compare(U, F, G, CmpMode.GE, 128), "Compare")
    assert (row["instr"], row["dtype"], row["repeat"], row["mask_mode"]) == ("vcmpv_ge", "f32", "2", "")
    (row,) = logged(lambda a: a.compares(U, H, 0.5, CmpMode.NE, 128), "Compares")
    assert (row["instr"], row["dtype"], row["scalar_bits"]) == ("vcmpvs_ne", "f16", "0x3800")
    rows = logged(lambda a: a.select(D, U, F, G, SelMode.VSEL_CMPMASK_SPR, 8), "Select")
    assert [(r["instr"], r["dtype"], r["note"]) for r in rows] == [
        ("set_cmpmask", "u8", "sel_mode=CMPMASK_SPR"), ("vsel", "f32", "sel_mode=CMPMASK_SPR"),
    ]  # fmt: skip


def test_log_of_gathers():
    (row,) = logged(lambda a: a.gather(E, H, OFFSETS, 6, 3), "Gather")
    assert (row["instr"], row["dtype"], row["note"], row["src1_tensor"]) == ("vgather", "u16", "base_bytes=6", "o")
    (row,) = logged(lambda a: a.gather_mask(D, F, 5, True, 70), "GatherMask")
    assert (row["instr"], row["note"], row["mask_mode"], row["mask_lo"]) == ("vreducev2", "pattern=5", "count", "0x46")
    (row,) = logged(lambda a: a.transpose(X, V), "Transpose")
    assert (row["instr"], row["dtype"]) == ("vtranspose", "u16")
