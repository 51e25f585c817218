"""What an instruction does or takes on other architectures than 2201, from the instructions page, sections 4 and 5."""

import itertools

import numpy as np
import pytest
from lane_harness import Ground, local

from ascendsim.checks import check_rows
from ascendsim.device import load_device
from ascendsim.execute import execute
from ascendsim.isa.forms import BinaryRepeatParams
from ascendsim.machine import schedule
from ascendsim.record import record
from ascendsim.terms import CmpMode, ReduceOrder, RoundMode, SelMode

SOC = {2201: "Ascend910B1", 2002: "Ascend310P3", 3002: "Ascend310B1", 3510: "Ascend950PR_9579"}
X, D = local("x", "float", 0, 1024), local("d", "float", 2048, 1024)
U8, U32 = local("u", "uint8_t", 4096, 1024), local("w", "uint32_t", 8192, 1024)
H, I16, I32 = local("h", "half", 12288, 1024), local("i", "int16_t", 16384, 1024), local("j", "int32_t", 20480, 1024)
I64 = local("l", "int64_t", 24576, 1024)


def found(kernel, arch=2201):
    device = load_device(SOC[arch])
    recording = record(kernel, device, 1, (), ())
    return (*recording.findings, *check_rows(recording.program, device))


def run(kernel, arch, tensor, count, **start):
    """Elements of `tensor` after the kernel."""
    device, ground = load_device(SOC[arch]), Ground(ub_bytes=65536)
    for where, values in start.values():
        ground.write(where, values)
    program = record(kernel, device, 1, (), ()).program
    assert [f for f in check_rows(program, device) if f.severity.value == "E"] == []
    assert execute(program, device, (), ub=ground.ub).findings == ()
    assert schedule(program, device).makespan_cycles > 0
    at, width = tensor.start_bytes, tensor.dtype.bytes
    return ground.ub.content[at : at + count * width].view(tensor.dtype.numpy).tolist()


# ---- Cast -------------------------------------------------------------------------------------------------------

FIVE = {"RINT", "FLOOR", "CEIL", "ROUND", "TRUNC"}
PAGE_2002 = {
    ("int8_t", "half"): {"NONE"},
    ("uint8_t", "half"): {"NONE"},
    ("int16_t", "half"): {"NONE"},
    ("half", "int8_t"): {"FLOOR", "CEIL", "ROUND", "TRUNC", "NONE"},
    ("half", "uint8_t"): {"FLOOR", "CEIL", "ROUND", "TRUNC", "NONE"},
    ("half", "int16_t"): {"RINT"},
    ("half", "int32_t"): FIVE,
    ("half", "float"): {"NONE"},
    ("int32_t", "float"): {"NONE"},
    ("int32_t", "int16_t"): {"NONE"},
    ("int32_t", "half"): {"NONE"},
    ("float", "half"): {"ODD", "NONE"},
    ("float", "int64_t"): FIVE,
    ("float", "int32_t"): FIVE,
}
"""Instructions page, section 5, row 2002, without int4; the last pair only with a warning."""
TYPES = ("half", "bfloat16_t", "float", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t")


def casts(source, target, arch):
    """Codes found by rounding mode."""
    d, s = local("d", target, 0, 64), local("s", source, 64, 64)
    return {
        mode.name.removeprefix("CAST_"): [
            f.code for f in found(lambda asc, m=mode: (asc.set_deq_scale(1.0), asc.cast(d, s, m, 8)), arch)
        ]
        for mode in RoundMode
    }


@pytest.mark.parametrize(("source", "target"), list(itertools.product(TYPES, TYPES)))
def test_casts_of_arch_2002_are_those_of_the_page(source, target):
    wanted = PAGE_2002.get((source, target))
    allowed = ["W-CAST-PAIR"] if (source, target) == ("float", "int32_t") else []
    for mode, codes in casts(source, target, 2002).items():
        if wanted is None:
            assert codes == ["E-CAST-PAIR"], mode
        else:
            assert codes == (allowed if mode in wanted else ["E-CAST-ROUND"]), mode


@pytest.mark.parametrize(
    ("arch", "wanted"),
    [
        (2201, set(RoundMode.__members__)),
        (2002, {"CAST_NONE"}),
        (3002, {"CAST_NONE"}),
        (3510, set(RoundMode.__members__)),
    ],
)
def test_modes_of_the_dequantisation(arch, wanted):
    taken = {f"CAST_{mode}" for mode, codes in casts("int32_t", "half", arch).items() if not codes}
    assert taken == wanted


def test_the_dequantisation_of_arch_2002_multiplies_by_the_scale():
    def kernel(asc):
        asc.set_deq_scale(0.5)
        asc.cast(H, I32, RoundMode.CAST_NONE, 4)

    assert run(kernel, 2002, H, 4, i=(I32, np.int32([1, -3, 100, 4097]))) == [0.5, -1.5, 50, 2048]


def test_float_to_int64_on_arch_2002():
    got = run(
        lambda asc: asc.cast(I64, X, RoundMode.CAST_FLOOR, 3), 2002, I64, 3, x=(X, np.float32([1.5, -1.5, 2**40]))
    )
    assert got == [1, -2, 2**40]


@pytest.mark.parametrize(
    ("source", "target", "arch", "hint"),
    [
        ("int8_t", "float", 2201, "go through half"),
        ("float", "int8_t", 2201, "go through half"),
        ("bfloat16_t", "half", 2201, "go through float"),
        ("int16_t", "int32_t", 2201, "go through half"),
        ("int16_t", "float", 2002, "go through half"),
        ("float", "int16_t", 2002, "go through half"),
        ("float", "float", 2002, "nothing is to be converted: copy"),
        (
            "float", "uint16_t", 2201,
            "no two conversions lead there either: use another type, or reinterpret_cast if the bits are meant",
        ),
    ],
)  # fmt: skip
def test_a_missing_cast_names_the_way_round(source, target, arch, hint):
    d, s = local("d", target, 0, 64), local("s", source, 64, 64)
    (finding,) = found(lambda asc: asc.cast(d, s, RoundMode.CAST_NONE, 8), arch)
    assert (finding.code, finding.hint) == ("E-CAST-PAIR", hint)


# ---- masked results of reductions -------------------------------------------------------------------------------

ONES = np.arange(1, 129, dtype=np.float32)
OLD = np.full(128, -1, np.float32)


@pytest.mark.parametrize(("arch", "blank"), [(2201, -1), (2002, -1), (3002, 0), (3510, 0)])
def test_a_datablock_without_a_lane(arch, blank):
    mask = (0xFF | 0b11 << 16 | 1 << 63, 0)
    got = run(lambda a: a.block_reduce_sum(D, X, 2, mask, 2, 1, 8), arch, D, 25, x=(X, ONES), d=(D, OLD))
    first = [36, blank, 17 + 18, blank, blank, blank, blank, 64]
    second = [36 + 8 * 64, blank, 81 + 82, blank, blank, blank, blank, 128]
    assert got == [*first, *[-1] * 8, *second, -1]


@pytest.mark.parametrize(("arch", "blank"), [(2201, -1), (2002, -1), (3002, 0), (3510, 0)])
def test_a_pair_without_a_lane(arch, blank):
    got = run(lambda a: a.pair_reduce_sum(D, X, 1, (0b0110_0011, 0), 1, 1, 8), arch, D, 33, x=(X, ONES), d=(D, OLD))
    assert got == [1 + 2, blank, 6, 7, *[blank] * 28, -1]


@pytest.mark.parametrize(("arch", "blank"), [(2201, -1), (3002, 0)])
def test_a_mask_without_a_lane(arch, blank):
    got = run(lambda a: a.block_reduce_sum(D, X, 1, (0, 0), 1, 1, 8), arch, D, 9, x=(X, ONES), d=(D, OLD))
    assert got == [blank] * 8 + [-1]


@pytest.mark.parametrize(("arch", "blank"), [(2201, -1), (3510, 0)])
def test_counter_mode_that_ends_inside_a_repeat(arch, blank):
    def kernel(asc):
        asc.set_mask_count()
        asc.block_reduce_sum(D, X, 1, 72, 1, 1, 8)

    got = run(kernel, arch, D, 17, x=(X, ONES), d=(D, OLD))
    sums = [sum(range(8 * b + 1, 8 * b + 9)) for b in range(9)]
    assert got == [*sums, *[blank] * 7, -1]


@pytest.mark.parametrize(("arch", "blank"), [(2201, None), (3002, 0)])
def test_in_place_each_repeat_is_read_before_it_is_written(arch, blank):
    kept = [2, 3, 4, 5, 6, 7, 8] if blank is None else [0] * 7
    got = run(lambda a: a.block_reduce_sum(X, X, 1, 8, 1, 1, 8), arch, X, 9, x=(X, ONES))
    assert got == [36, *kept, 9]


@pytest.mark.parametrize("arch", [2201, 3002, 3510])
def test_extremes_leave_a_masked_datablock(arch):
    got = run(lambda a: a.block_reduce_max(D, X, 1, 8, 1, 1, 8), arch, D, 8, x=(X, ONES), d=(D, OLD))
    assert got == [8, *[-1] * 7]


def test_what_is_filled_has_to_fit():
    small = local("s", "float", 3072, 32)

    def kernel(asc):
        asc.block_reduce_sum(small, X, 2, 8, 1, 1, 8)

    assert [f.message for f in found(kernel, 3002)] == [
        "BlockReduceSum dst touches 32 B past the end of s (64 B needed, 32 B there)"
    ]
    assert [f.message for f in found(kernel)] == [
        "BlockReduceSum dst touches 4 B past the end of s (36 B needed, 32 B there)"
    ]


@pytest.mark.parametrize("arch", [2201, 3510])
def test_every_order_is_taken(arch):
    for order in ReduceOrder:
        assert found(lambda asc, o=order: asc.whole_reduce_max(D, X, 64, 1, 1, 1, 8, o), arch) == ()


# ---- words ------------------------------------------------------------------------------------------------------

BITS = "use one of the types named; reinterpret_cast if the bits are meant"


@pytest.mark.parametrize(
    ("kernel", "hints"),
    [
        (lambda a: a.and_(X, X, X, 64), [BITS] * 3),
        (lambda a: a.not_(X, X, 64), [BITS] * 2),
        (lambda a: a.shift_left(X, X, 1, 64), [BITS] * 2),
        (lambda a: a.compare(X, D, D, CmpMode.LT, 64), [BITS]),
        (lambda a: a.select(D, X, X, X, SelMode.VSEL_TENSOR_TENSOR_MODE, 64), [BITS]),
        (lambda a: a.duplicate(U8, 0, 64), [BITS]),
        (lambda a: a.exp(I32, I32, 64), ["cast to float or half first"] * 2),
        (lambda a: a.add(U32, U32, U32, 64, 1, BinaryRepeatParams()), ["cast to float or half first"] * 3),
    ],
)
def test_the_hint_fits_the_allowed_types(kernel, hints):
    assert [f.hint for f in found(kernel) if f.code == "E-DTYPE-OP"] == hints


@pytest.mark.parametrize(
    ("api", "kernel"),
    {
        "Gather": lambda a: a.gather(D, X, U32, 0, 0),
        "Compare": lambda a: a.compare(U8, D, X, CmpMode.LT, 0),
        "Compares": lambda a: a.compares(U8, X, 1.0, CmpMode.LT, 0),
    }.items(),
)
def test_a_count_of_zero_is_called_a_count(api, kernel):
    assert [(f.code, f.message) for f in found(kernel)] == [("W-REPEAT-ZERO", f"{api} does nothing: its count is 0")]


def test_a_repeat_of_zero_is_called_a_repeat():
    (finding,) = found(lambda a: a.gather(D, X, U32, 0, 64, 0, 8))
    assert finding.message == "Gather does nothing: its repeat is 0"
