"""The families that the model is judged by: which measurements belong to each, how far off the model may be.

A bound is what this version holds, not what it hopes for; tests hold it over the shipped measurements. A measurement
may belong to two families.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from ascendsim.device import Device
from ascendsim.errors import AscendSimError
from ascendsim.fidelity import cube, functions, moves, tile_ops, vectors
from ascendsim.fidelity.course import Course
from ascendsim.fidelity.lengths import check_lengths
from ascendsim.fidelity.measured import Measured, Uncovered

Rebuild = Callable[[Measured, Device], Course]

ELEMENTWISE = frozenset(
    {
        *("TABS", "TADD", "TADDS", "TSUB", "TMUL", "TMULS", "TMAX", "TMAXS", "TMIN", "TMINS", "TDIV", "TDIVS"),
        *("TEXP", "TLOG", "TSQRT", "TRSQRT", "TRECIP", "TRELU", "TLRELU", "TNEG", "TNOT", "TAND", "TOR", "TCVT"),
    }
)
ROW_REDUCE = frozenset({"TROWSUM", "TROWMAX", "TROWMIN"})
ROW_EXPAND = frozenset({"TROWEXPAND"})
BANK_HALF_MET = 7
"""The case of the bank conflict example that its own rule does not explain: a broadcast block."""

_REBUILT_BY: dict[tuple[int, str], Rebuild] = {
    (2201, "mskpp_vector"): vectors.course_of,
    (2201, "ascendc_api"): vectors.course_of,
    (2201, "pto_tileop"): tile_ops.course_of,
    (2201, "mskpp_move"): moves.course_of,
    (2201, "mskpp_move_repeat"): moves.course_of,
    (2201, "mskpp_cube"): cube.course_of,
    (3510, "mskpp_move"): moves.course_of,
    (3510, "mskpp_cube"): cube.course_of,
    (3510, "pto_tileop_a5"): functions.course_of,
    (3510, "ascendc_reg"): functions.course_of,
}


def course_of(row: Measured, device: Device) -> Course:
    """Return the instructions that were measured.

    Raises:
        Uncovered: they cannot be rebuilt.
    """
    rebuild = _REBUILT_BY.get((row.arch, row.family))
    if rebuild is None:
        raise Uncovered(f"nothing rebuilds measurements of family {row.family} on architecture {row.arch}")
    check_lengths(row, device)
    return rebuild(row, device)


def predict(row: Measured, device: Device) -> float:
    """Return the cycles that the model gives for what was measured.

    Raises:
        Uncovered: it cannot be rebuilt, breaks a rule of the device, or the device has no cost for it.
    """
    try:
        return course_of(row, device).cycles()
    except AscendSimError as error:
        raise Uncovered(str(error)) from None


@dataclass(frozen=True, slots=True)
class Bound:
    """How far off a family may be, as shares of what was measured; None is no bound.

    Attributes:
        median, mean, worst: of the relative errors.
        within_quarter: least share of rows that are off by no more than 25 %.
        accuracy: least mean of 1 - relative error, no row counted below 0.
    """

    median: float | None = None
    mean: float | None = None
    worst: float | None = None
    within_quarter: float | None = None
    accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """Measurements that are judged together.

    Attributes:
        name: stable, of letters, digits and underscores.
        title: for people.
        holds: whether a usable measurement belongs to it.
        bound: None for families that are only reported.
    """

    name: str
    title: str
    arch: int
    holds: Callable[[Measured], bool]
    bound: Bound | None = None


def is_june(row: Measured) -> bool:
    """Whether a tile operation was measured in the campaign of June 2026."""
    return row.family == "pto_tileop" and "campaign B" in row.conditions


def _is_tile(*ops: frozenset[str]) -> Callable[[Measured], bool]:
    wanted = frozenset().union(*ops)
    return lambda row: row.family == "pto_tileop" and row.op in wanted


def _moves(*paths: str, repeats: bool = False) -> Callable[[Measured], bool]:
    family = "mskpp_move_repeat" if repeats else "mskpp_move"
    return lambda row: row.family == family and row.op in paths


def bank_case(row: Measured) -> int | None:
    """Return the number of a case of the bank conflict example, None for other measurements."""
    found = re.match(r"scenario (\d+):", row.conditions)
    return int(found[1]) if row.family == "ascendc_api" and row.op == "Add" and found else None


_WITH_BOUND = ELEMENTWISE | ROW_REDUCE | ROW_EXPAND

FAMILIES = (
    Family("tile_june", "vector tile operations, isolated, June 2026", 2201, is_june, Bound(0.01, 0.03, 0.09)),
    Family(
        "tile_published",
        "vector tile operations, elementwise, row reduce, row expand",
        2201,
        _is_tile(_WITH_BOUND),
        Bound(median=0.06, within_quarter=0.8),
    ),
    Family(
        "tile_other",
        "other tile operations",
        2201,
        lambda row: row.family == "pto_tileop" and row.op not in _WITH_BOUND,
    ),
    Family(
        "vector_steady",
        "vector instructions in a stream",
        2201,
        lambda row: row.family == "mskpp_vector",
        Bound(0.005, 0.025),
    ),
    Family(
        "bank",
        "bank conflicts of UB",
        2201,
        lambda row: bank_case(row) not in (None, BANK_HALF_MET),
        Bound(worst=0.05),
    ),
    Family(
        "bank_half",
        "bank conflicts of UB, a broadcast that meets in every second repeat",
        2201,
        lambda row: bank_case(row) == BANK_HALF_MET,
        Bound(worst=0.15),
    ),
    Family(
        "sequence",
        "short sequences of reductions",
        2201,
        lambda row: row.family == "ascendc_api" and row.op != "Add",
    ),
    Family("mmad", "Mmad", 2201, lambda row: row.family == "mskpp_cube", Bound(mean=0.01)),
    Family("l1_to_l0a", "L1 to L0A", 2201, _moves("L1_TO_L0A"), Bound(mean=0.01)),
    Family("l1_to_l0b", "L1 to L0B", 2201, _moves("L1_TO_L0B"), Bound(mean=0.01)),
    Family("ub_to_ub", "UB to UB", 2201, _moves("UB_TO_UB"), Bound(mean=0.01)),
    Family("gm_to_ub", "GM to UB, one stream", 2201, _moves("GM_TO_UB"), Bound(mean=0.02)),
    Family("ub_to_gm", "UB to GM, one stream", 2201, _moves("UB_TO_GM"), Bound(mean=0.02)),
    Family("l0c_to_gm", "L0C to GM", 2201, _moves("L0C_TO_GM", "L0C_TO_GM_TRANS"), Bound(mean=0.04)),
    Family("gm_to_l1", "GM to L1, one stream", 2201, _moves("GM_TO_L1"), Bound(mean=0.04)),
    Family("gm_to_l1_nd2nz", "GM to L1 by ND2NZ, one stream", 2201, _moves("GM_TO_L1_TRANS"), Bound(mean=0.18)),
    Family("gm_to_l0", "GM to L0A and L0B", 2201, _moves("GM_TO_L0A", "GM_TO_L0B")),
    Family("l1_to_bt_fb", "L1 to BT and FB", 2201, _moves("L1_TO_BT", "L1_TO_FB")),
    Family(
        "load_repeats",
        "LoadData by number of repeats",
        2201,
        lambda row: row.family == "mskpp_move_repeat",
    ),
    Family(
        "tile_3510",
        "vector functions of tile operations",
        3510,
        lambda row: row.family == "pto_tileop_a5",
        Bound(accuracy=0.965),
    ),
    Family("bank_3510", "vector functions with bank conflicts", 3510, lambda row: row.family == "ascendc_reg"),
    Family("mmad_3510", "Mmad", 3510, lambda row: row.family == "mskpp_cube"),
    Family(
        "gm_3510", "moves from and to GM", 3510, _moves("GM_TO_UB", "UB_TO_GM", "GM_TO_L1", "L0C_TO_GM", "L1_TO_GM")
    ),
    Family(
        "chip_3510",
        "moves on the chip",
        3510,
        _moves("L1_TO_L0A", "L1_TO_L0B", "L0C_TO_L1", "L0C_TO_UB", "L1_TO_UB", "UB_TO_L1"),
    ),
)

RUN_FAMILIES = {
    "tile_june": ("vector.*",),
    "mmad": ("cube.Mmad.*",),
    "l1_to_l0a": ("local.l1_to_l0a",),
    "l1_to_l0b": ("local.l1_to_l0b",),
    "l1_to_bt_fb": ("local.l1_to_bt", "local.l1_to_fb"),
    "gm_to_ub": ("transfer.gm_to_ub_*",),
    "ub_to_gm": ("transfer.ub_to_gm*",),
    "l0c_to_gm": ("transfer.l0c_to_gm*",),
    "gm_to_l1": ("transfer.gm_to_l1_hit", "transfer.gm_to_l1_miss"),
    "gm_to_l1_nd2nz": ("transfer.gm_to_l1_nd2nz_*",),
    "gm_to_l0": ("transfer.gm_to_l0*",),
    "tile_3510": ("vector_function*",),
    "mmad_3510": ("cube.Mmad.*",),
    "gm_3510": ("transfer.*",),
}
"""Families by which a run's makespan is given a range, and the numbers of a device file that each stands for.

Of vector instructions it is the isolated tile operations, since a kernel's instructions wait for one another, and their
errors contain those of a stream. Those of April 2026 are left out: their fixed parts contradict all other sources.
"""
