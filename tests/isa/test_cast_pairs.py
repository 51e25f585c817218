"""Which conversions Cast takes, against the table of the vendor's page, and what the less usual ones compute."""

import itertools

import numpy as np
import pytest
from lane_harness import DEVICE, Ground, local, run_both

from ascendsim.checks import check_rows
from ascendsim.record import record
from ascendsim.terms import RoundMode

FIVE = {"RINT", "FLOOR", "CEIL", "ROUND", "TRUNC"}
PAGE = {
    ("int8_t", "half"): {"NONE"},
    ("uint8_t", "half"): {"NONE"},
    ("int16_t", "half"): FIVE | {"NONE"},
    ("int16_t", "float"): {"NONE"},
    ("half", "int8_t"): FIVE | {"NONE"},
    ("half", "uint8_t"): FIVE | {"NONE"},
    ("half", "int16_t"): FIVE,
    ("half", "int32_t"): FIVE,
    ("half", "float"): {"NONE"},
    ("bfloat16_t", "int32_t"): FIVE,
    ("bfloat16_t", "float"): {"NONE"},
    ("int32_t", "int16_t"): {"NONE"},
    ("int32_t", "int64_t"): {"NONE"},
    ("int32_t", "half"): FIVE | {"ODD", "NONE"},
    ("int64_t", "int32_t"): {"NONE"},
    ("int64_t", "float"): FIVE,
    ("int32_t", "float"): FIVE | {"NONE"},
    ("float", "int16_t"): FIVE,
    ("float", "half"): FIVE | {"ODD", "NONE"},
    ("float", "bfloat16_t"): FIVE,
    ("float", "int32_t"): FIVE,
    ("float", "int64_t"): FIVE,
    ("float", "float"): FIVE,
}
"""Instructions page, section 5, arch 2201; without int4. Of int32 to half the page says: rounding ignored."""

TYPES = ("half", "bfloat16_t", "float", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t")


def findings(source, target, mode):
    d, s = local("d", target, 0, 64), local("s", source, 64, 64)
    recording = record(lambda asc: asc.cast(d, s, RoundMode[f"CAST_{mode}"], 8), DEVICE, 1, (), ())
    return check_rows(recording.program, DEVICE)


@pytest.mark.parametrize(
    ("source", "target"),
    list(itertools.product(TYPES, TYPES)),
)
def test_pairs_and_modes_are_those_of_the_page(source, target):
    wanted = PAGE.get((source, target))
    for mode in RoundMode:
        name = mode.name.removeprefix("CAST_")
        codes = [f.code for f in findings(source, target, name)]
        if wanted is None:
            assert codes == ["E-CAST-PAIR"], name
        else:
            assert codes == ([] if name in wanted else ["E-CAST-ROUND"]), name


def cast(source, target, mode, values):
    d, s = local("d", target, 1024, 1024), local("s", source, 0, 1024)
    both = run_both(lambda asc: asc.cast(d, s, RoundMode[f"CAST_{mode}"], len(values)), Ground().write(s, values))
    return both.array(d, len(values)).tolist()


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        ("FLOOR", [2**25, -(2**25) - 4]),
        ("TRUNC", [2**25, -(2**25)]),
        ("CEIL", [2**25 + 4, -(2**25)]),
        ("ROUND", [2**25 + 4, -(2**25) - 4]),
    ],
)
def test_int32_to_float_rounds_by_mode(mode, want):
    """precision_conversion page: int32_t to float rounds to what float can hold, in the given mode."""
    value = 2**25 + (3 if mode in ("FLOOR", "TRUNC") else 2 if mode == "ROUND" else 1)
    assert cast("int32_t", "float", mode, np.int32([value, -value])) == want


@pytest.mark.parametrize(
    ("mode", "want"),
    [("RINT", [0, 2, -2]), ("FLOOR", [0, 1, -2]), ("CEIL", [1, 2, -1]), ("ROUND", [1, 2, -2]), ("TRUNC", [0, 1, -1])],
)
def test_float_to_float_rounds_to_whole_numbers(mode, want):
    """precision_conversion page: 0.5 becomes 0.0 (RINT, FLOOR, TRUNC) or 1.0 (CEIL, ROUND), still a float."""
    assert cast("float", "float", mode, np.float32([0.5, 1.5, -1.5])) == want


def test_float_to_float_turns_minus_zero_into_plus_zero():
    """Instructions page, section 5: a documented deviation from IEEE."""
    assert not np.signbit(cast("float", "float", "RINT", np.float32([-0.0, 1.0])))[0]


def test_bfloat16_to_int32_is_taken():
    assert findings("bfloat16_t", "int32_t", "RINT") == ()


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        ("RINT", [0, 2, 2, -2, 127, -128]),
        ("FLOOR", [0, 1, 2, -3, 127, -128]),
        ("CEIL", [1, 2, 3, -2, 127, -128]),
        ("ROUND", [1, 2, 3, -3, 127, -128]),
        ("TRUNC", [0, 1, 2, -2, 127, -128]),
        ("NONE", [0, 2, 2, -2, 127, -128]),
    ],
)
def test_half_to_int8_rounds_then_clamps(mode, want):
    values = np.float16([0.5, 1.5, 2.5, -2.5, 127.5, -200])
    assert cast("half", "int8_t", mode, values) == want


@pytest.mark.parametrize(
    ("mode", "want"), [("RINT", 2**12), ("FLOOR", 2**12), ("CEIL", 2**12 + 4), ("ROUND", 2**12 + 4), ("TRUNC", 2**12)]
)
def test_int16_to_half_as_the_page_works_it_out(mode, want):
    assert cast("int16_t", "half", mode, np.int16([2**12 + 2, -1])) == [want, -1]


@pytest.mark.parametrize(
    ("mode", "want"), [("RINT", 2**22), ("FLOOR", 2**22), ("CEIL", 2**22 + 1), ("ROUND", 2**22 + 1)]
)
def test_float_to_int32_as_the_page_works_it_out(mode, want):
    assert cast("float", "int32_t", mode, np.float32([2**22 + 0.5, 1e20])) == [want, 2**31 - 1]


@pytest.mark.parametrize("mode", sorted(FIVE))
def test_float_to_bfloat16_as_the_page_works_it_out(mode):
    want = 0.5 if mode in ("FLOOR", "TRUNC") else 0.5 + 2**-8
    assert cast("float", "bfloat16_t", mode, np.float32([0.5 + 2**-9 + 2**-11])) == [want]


def test_int64_and_int32_convert_exactly_and_clamp():
    """Boundary-value table 32: int64 to int32 gives 2147483647 and -2147483648 beyond the range."""
    assert cast("int32_t", "int64_t", "NONE", np.int32([2**31 - 1, -(2**31), -1])) == [2**31 - 1, -(2**31), -1]
    wide = np.int64([2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 7])
    top, low = 2**31 - 1, -(2**31)
    assert cast("int64_t", "int32_t", "NONE", wide) == [top, low, top, low, top, low, 7]


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        ("RINT", [2**62 + 2**39, -(2**62) - 2**39, 2**62]),
        ("FLOOR", [2**62, -(2**62) - 2**39, 2**62]),
        ("CEIL", [2**62 + 2**39, -(2**62), 2**62 + 2**39]),
        ("ROUND", [2**62 + 2**39, -(2**62) - 2**39, 2**62 + 2**39]),
        ("TRUNC", [2**62, -(2**62), 2**62]),
    ],
)
def test_int64_to_float_rounds_once(mode, want):
    """Floats near 2**62 lie 2**39 apart: one above the middle, its negative, and the middle. A double has only 53 bits,
    and would see all three as the middle."""
    middle = 2**62 + 2**38
    assert cast("int64_t", "float", mode, np.int64([middle + 1, -middle - 1, middle])) == want


@pytest.mark.parametrize("mode", sorted(FIVE))
def test_float_to_int64_clamps(mode):
    values = np.float32([2**63, -(2**63), np.inf, -np.inf, np.nan, 3e38, -3e38, 2**62, -5])
    top, low = 2**63 - 1, -(2**63)
    assert cast("float", "int64_t", mode, values) == [top, low, top, low, 0, top, low, 2**62, -5]
