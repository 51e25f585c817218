"""Cycles of the further vector instructions: a table for each type, and figures that were published."""

import pytest

from ascendsim.checks import check_rows
from ascendsim.device import load_device
from ascendsim.dtypes import dtype
from ascendsim.isa.convert import ROUND_MODES
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.machine import schedule
from ascendsim.memory import LocalTensor
from ascendsim.record import record
from ascendsim.terms import RoundMode, TPosition

DEVICE = load_device("Ascend910B1")
REPEATS = 16
BANK = 0x4000
"""Operands this far apart meet in the same bank groups."""
REAL, WORD = ("half", "float"), ("int16_t", "uint16_t")
SIGNED = (*REAL, "int16_t", "int32_t")
TYPES = {
    **dict.fromkeys(("max", "min", "maxs", "mins"), SIGNED),
    **dict.fromkeys(("div", "exp", "ln", "sqrt", "rsqrt", "reciprocal", "abs", "leaky_relu"), REAL),
    "relu": (*REAL, "int32_t"),
    **dict.fromkeys(("add_relu", "sub_relu"), (*REAL, "int16_t")),
    **dict.fromkeys(("and_", "or_", "not_"), WORD),
    **dict.fromkeys(("shift_left", "shift_right"), (*WORD, "int32_t", "uint32_t")),
    **dict.fromkeys(("axpy", "mul_add_dst"), (*REAL, "half float")),
    "fused_mul_add": REAL,
    "mul_cast": ("half int8_t", "half uint8_t"),
}
TWO = ("max", "min", "div", "add_relu", "sub_relu", "and_", "or_", "mul_add_dst", "fused_mul_add", "mul_cast")
SCALAR = ("maxs", "mins", "leaky_relu", "shift_left", "shift_right", "axpy")


def call(asc, name, kinds, spread):
    """`REPEATS` whole repeats, operands `spread` bytes apart, contiguous."""
    src, dst = (kinds.split() * 2)[:2]
    wide = max(dtype(src).bytes, dtype(dst).bytes)
    d, a, b = (
        LocalTensor(n, TPosition.VECCALC, dtype(kind), i * spread, 0x4000)
        for i, (n, kind) in enumerate((("d", dst), ("a", src), ("b", src)))
    )
    mask, rep = 256 // wide, [8 * dtype(k).bytes // wide for k in (dst, src, src)]
    if name in TWO:
        getattr(asc, name)(d, a, b, mask, REPEATS, BinaryRepeatParams(1, 1, 1, *rep))
        return
    more = (1,) if name in SCALAR else ()
    getattr(asc, name)(d, a, *more, mask, REPEATS, UnaryRepeatParams(1, 1, *rep[:2]))


def cycles(name, kinds, spread):
    program = record(lambda asc: call(asc, name, kinds, spread), DEVICE, 1, (), ()).program
    assert {f.code for f in check_rows(program, DEVICE)} <= {"E-OOB-LOCAL", "W-NUM-RECIP"}
    return schedule(program, DEVICE).makespan_cycles - 2  # mask and dispatch


@pytest.mark.parametrize(("name", "kinds"), [(n, k) for n, kinds in TYPES.items() for k in kinds])
def test_every_type_has_a_cost_of_its_own_table(name, kinds):
    assert cycles(name, kinds, BANK) > REPEATS


@pytest.mark.parametrize(
    ("name", "kinds", "per_repeat", "fixed"),
    [
        ("exp", "half", 4, 31), ("exp", "float", 2, 31), ("ln", "half", 4, 33), ("ln", "float", 2, 33),
        ("sqrt", "half", 4, 31), ("sqrt", "float", 2, 31), ("rsqrt", "float", 1, 24), ("reciprocal", "half", 1, 23),
        ("abs", "float", 1, 22), ("relu", "half", 1, 23), ("relu", "int32_t", 1, 23), ("leaky_relu", "float", 1, 26),
        ("maxs", "int32_t", 1, 23), ("not_", "uint16_t", 1, 20), ("shift_left", "int32_t", 1, 24),
    ],
)  # fmt: skip
def test_one_source_costs_what_the_tables_say(name, kinds, per_repeat, fixed):
    """Recommended figures for arch 2201: fixed part and cycles a repeat; Exp and its kind do 32 elements a cycle."""
    assert cycles(name, kinds, BANK) == fixed + per_repeat * REPEATS


@pytest.mark.parametrize(
    ("name", "kinds", "per_repeat", "fixed"),
    [
        ("max", "float", 2, 23), ("and_", "int16_t", 2, 20), ("or_", "uint16_t", 2, 20), ("add_relu", "float", 2, 24),
        ("sub_relu", "half", 2, 24), ("div", "float", 4, 31), ("div", "half", 4, 31), ("axpy", "half", 2, 26),
        ("axpy", "float", 2, 26), ("mul_add_dst", "half", 6, 27),
        ("mul_add_dst", "float", 6, 27), ("fused_mul_add", "float", 6, 27),
    ],
)  # fmt: skip
def test_reads_that_meet_in_a_bank_group(name, kinds, per_repeat, fixed):
    """mskpp has all operands in one bank group: Max 2 a repeat, AddRelu 2, Div 4 in both types, Axpy 2 (it reads dst,
    too), MulAddDst and FusedMulAdd 6."""
    assert cycles(name, kinds, BANK) == fixed + per_repeat * REPEATS


def test_four_blocks_of_halves_meet_the_floats_in_half_of_the_repeats():
    """dst of repeat r is in groups 8r to 8r + 7 modulo 16, the source in 4r to 4r + 3."""
    assert cycles("axpy", "half float", BANK) == 26 + REPEATS * 3 // 2


@pytest.mark.parametrize(
    ("pair", "cycles_a_repeat"),
    [
        ("int32_t->int64_t", 1),
        ("int64_t->int32_t", 1),
        ("float->int64_t", 1),
        ("int64_t->float", 1),
        ("int32_t->half", 1),
    ],
)
def test_conversions(pair, cycles_a_repeat):
    """32 elements a cycle where one side has 64 bits, and a repeat has as many."""
    source, target = pair.split("->")
    d = LocalTensor("d", TPosition.VECCALC, dtype(target), 0, 0x8000)
    a = LocalTensor("a", TPosition.VECCALC, dtype(source), 0x10000, 0x8000)
    wide = max(d.dtype.bytes, a.dtype.bytes)
    mode = RoundMode.CAST_RINT if RoundMode.CAST_RINT in ROUND_MODES[a.dtype, d.dtype] else RoundMode.CAST_NONE

    def kernel(asc):
        asc.set_deq_scale(1.0)
        asc.cast(d, a, mode, 64 * 256 // wide)

    assert schedule(record(kernel, DEVICE, 1, (), ()).program, DEVICE).makespan_cycles == 4 + 29 + 64 * cycles_a_repeat
