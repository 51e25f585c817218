"""Measured moves against the model: bounds over all rows of the package, and exact cycles of a few."""

from dataclasses import replace
from statistics import mean

import pytest
from fidelity_harness import error_of

from ascendsim.fidelity.families import predict
from ascendsim.fidelity.measured import Uncovered, read_instructions
from ascendsim.fidelity.target import device_of

ROWS = tuple(r for r in read_instructions() if r.family in ("mskpp_move", "mskpp_move_repeat") and r.is_usable)


def errors(arch, *ops, families=("mskpp_move",)):
    rows = [r for r in ROWS if r.arch == arch and r.op in ops and r.family in families]
    return [error_of(r) for r in rows]


@pytest.mark.parametrize(
    ("ops", "count", "bound"),
    [
        (("GM_TO_UB",), 189, 0.02),
        (("UB_TO_GM",), 57, 0.02),
        (("L0C_TO_GM", "L0C_TO_GM_TRANS"), 72, 0.04),
        (("GM_TO_L1",), 55, 0.04),
        (("GM_TO_L1_TRANS",), 30, 0.08),
        (("GM_TO_L0A", "GM_TO_L0B"), 50, 0.04),
        (("UB_TO_UB",), 39, 0.01),
        (("L1_TO_BT",), 12, 0.01),
        (("L1_TO_FB",), 6, 0.01),
    ],
)
def test_mean_errors_of_2201(ops, count, bound):
    found = errors(2201, *ops)
    assert len(found) == count
    assert mean(found) <= bound


@pytest.mark.parametrize("op", ["L1_TO_L0A", "L1_TO_L0B"])
@pytest.mark.parametrize(("family", "count"), [("mskpp_move", 30), ("mskpp_move_repeat", 15)])
def test_mean_errors_of_load_data_of_2201(op, family, count):
    found = errors(2201, op, families=(family,))
    assert len(found) == count
    assert mean(found) <= 0.01


@pytest.mark.parametrize(
    ("op", "bound"),
    [("GM_TO_UB", 0.02), ("UB_TO_GM", 0.02), ("GM_TO_L1", 0.02), ("L0C_TO_GM", 0.02), ("L1_TO_L0A", 0.01)],
)
def test_mean_errors_of_3510(op, bound):
    assert mean(errors(3510, op)) <= bound


def row(op, length, arch=2201):
    """A measurement that never was."""
    like = next(r for r in ROWS if r.op == op and r.arch == arch)
    return replace(like, bytes=length)


@pytest.mark.parametrize(
    ("op", "length", "cycles"),
    [
        ("GM_TO_UB", 8704 - 128, 250 + 97),  # 67 pieces of 128 B
        ("UB_TO_GM", 9400, 142 + 101),  # 9472 B in pieces of 128
        ("L1_TO_L0A", 2048, 8 + 2),
        ("L1_TO_L0B", 2048, 16 + 2),
        ("UB_TO_UB", 2560, 10),
        ("L1_TO_BT", 64, 3),
        ("L1_TO_FB", 256, 15 + 8),
    ],
)
def test_cycles_of_a_transfer(op, length, cycles):
    measured = row(op, length)
    assert predict(measured, device_of(measured)) == cycles


def test_long_transfers_of_3510_are_two():
    short, long = row("UB_TO_GM", 16384, 3510), row("UB_TO_GM", 32768, 3510)
    device = device_of(short)
    assert predict(long, device) == 2 * predict(short, device)


@pytest.mark.parametrize("op", ["L1_TO_UB", "UB_TO_L1", "L0C_TO_UB", "L1_TO_GM"])
def test_paths_without_an_instruction_are_uncovered(op):
    measured = row(op, 4096, 3510)
    with pytest.raises(Uncovered) as caught:
        predict(measured, device_of(measured))
    assert str(caught.value) == f"no instruction of Ascend950PR_9589 moves bytes on the path {op}"


def test_a_move_of_unknown_length_is_uncovered():
    measured = row("GM_TO_UB", None)
    with pytest.raises(Uncovered) as caught:
        predict(measured, device_of(measured))
    assert str(caught.value) == "it does not say how many bytes it moves"
