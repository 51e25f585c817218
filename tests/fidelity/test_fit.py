"""Fits: they find what was planted, whatever a few odd measurements say, and leave alone what nothing speaks for."""

import importlib.util
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.device import Line, load_device
from ascendsim.errors import DeviceError
from ascendsim.fidelity.crossing import FITTED, KEPT, points_of
from ascendsim.fidelity.families import FAMILIES, course_of
from ascendsim.fidelity.fit import (
    LEAST_EXTENTS,
    LEAST_POINTS,
    Point,
    crossed,
    fitted,
    halves,
    mean_error,
    unfitted,
)
from ascendsim.fidelity.measured import Uncovered, read_instructions
from ascendsim.fidelity.quick import cost_at, quick_cycles, with_cost
from ascendsim.fidelity.target import device_of

ROWS = read_instructions()
DEVICE = load_device("Ascend910B1")
DEVICES = Path(__file__).parents[2] / "ascendsim" / "devices"
ABS = ("vector", "Abs", "float")
SIZES = (*range(512, 8192, 512), *range(8192, 65536, 4096))
"""Bytes of transfers."""


def like(op, arch=2201, **changed):
    """The first shipped row of an operation, changed."""
    return replace(next(r for r in ROWS if r.op == op and r.arch == arch and r.is_usable), **changed)


def points(rows, device, odd=lambda number: False):
    """What the model itself says of rows on a device; odd ones took half as long again."""
    courses = [course_of(row, device_of(row)) for row in rows]
    return [
        Point(f"p{i:03}", row.extent, course, quick_cycles(course, device) * (1.5 if odd(i) else 1))
        for i, (row, course) in enumerate(zip(rows, courses, strict=True))
    ]


def planted(path, **numbers):
    """The device with other coefficients at a path."""
    return with_cost(DEVICE, path, cost_at(DEVICE, path).model_copy(update=numbers))


def found(path, measured):
    """Fit without knowing what the device file says."""
    return fitted(with_cost(DEVICE, path, unfitted(cost_at(DEVICE, path))), path, measured)


ONE_IN_TEN = st.integers(0, 9).map(lambda first: lambda number: number % 10 == first)
"""Which tenth of the measurements is odd."""


# ---- cycles without an engine -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FITTED)
def test_quick_cycles_are_those_of_the_engine(name):
    family = next(f for f in FAMILIES if f.name == name)
    rows = [r for r in ROWS if r.is_usable and r.arch == family.arch and family.holds(r)]
    assert sum(map(agrees, rows[:: max(1, len(rows) // 15)])) >= 8


def agrees(row):
    """Compare a row that can be rebuilt; False for another."""
    try:
        course = course_of(row, device_of(row))
        cycles = course.cycles()
    except (Uncovered, DeviceError):
        return False
    assert quick_cycles(course, course.device) == cycles
    return True


# ---- planted coefficients -----------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=15)
@given(ONE_IN_TEN, st.integers(1, 6), st.integers(6, 10))
def test_a_vector_family(odd, half_cycles, floor_repeats):
    """As many repeats as that take no longer than one."""
    per_repeat = half_cycles / 2
    planted_cost = {"per_repeat": per_repeat, "min_issue": int(per_repeat * floor_repeats)}
    rows = [like("VABS", dtype="fp32", dst_dtype="fp32", repeat=repeat) for repeat in range(1, 31)]
    measured = points(rows, planted(ABS, **planted_cost), odd)
    cost = found(ABS, measured)
    assert (cost.per_repeat, cost.min_issue) == (planted_cost["per_repeat"], planted_cost["min_issue"])


@settings(deadline=None, max_examples=15)
@given(ONE_IN_TEN, st.integers(0, 20), st.integers(5, 9))
def test_a_move_on_the_chip(odd, fixed, power):
    rows = [like("L1_TO_L0A", bytes=n) for n in range(1024, 33792, 1024)]
    path = ("local", "l1_to_l0a")
    device = planted(path, fixed_cycles=fixed, bytes_per_cycle=float(2**power))
    cost = found(path, points(rows, device, odd))
    assert (cost.fixed_cycles, cost.bytes_per_cycle) == (fixed, 2**power)


@settings(deadline=None, max_examples=15)
@given(ONE_IN_TEN, st.integers(20, 500), st.integers(20, 200))
def test_a_line(odd, fixed, rate):
    """Cycles are rounded up on the way, so the line may lie a little off."""
    rows = [like("GM_TO_L1", soc="Ascend910B3", bytes=n) for n in SIZES]
    path = ("transfer", "gm_to_l1_hit")
    device = planted(path, lines=(Line(fixed_cycles=fixed, bytes_per_cycle=float(rate)),))
    cost = found(path, points(rows, device, odd))
    assert cost.lines[0].fixed_cycles == pytest.approx(fixed, abs=2)
    assert cost.lines[0].bytes_per_cycle == pytest.approx(rate, rel=0.02)


@settings(deadline=None, max_examples=8)
@given(ONE_IN_TEN, st.integers(200, 400), st.integers(30, 60))
def test_two_lines(odd, fixed, rate):
    """A steep one for long transfers takes over where the flat one is at 16 KiB."""
    lines = (
        Line(fixed_cycles=fixed, bytes_per_cycle=100.0),
        Line(fixed_cycles=max(0, round(fixed + 164 - 16384 / rate)), bytes_per_cycle=float(rate)),
    )
    rows = [like("GM_TO_UB", conditions="L2 misses", bytes=n) for n in SIZES]
    path = ("transfer", "gm_to_ub_miss")
    device = planted(path, lines=lines)
    cost = found(path, points(rows, device, odd))
    assert len(cost.lines) == 2
    assert mean_error(points(rows, device), with_cost(DEVICE, path, cost)) < 0.02


@settings(deadline=None, max_examples=8)
@given(ONE_IN_TEN, st.integers(1, 4), st.integers(0, 10), st.integers(0, 30))
def test_a_product(odd, per_fractal, fixed, startup):
    """A B3's products show the start, a B1's do not."""
    shapes = [(m, k, n) for m in (16, 32, 64) for k in (16, 64) for n in (16, 48, 128)]
    rows = [like("MMAD", soc=soc, mkn=mkn) for soc in ("Ascend910B1", "Ascend910B3") for mkn in shapes]
    path = ("cube", "Mmad", "half")
    device = planted(path, per_fractal=per_fractal, fixed_cycles=fixed, startup=startup)
    cost = found(path, points(rows, device, odd))
    assert (cost.per_fractal, cost.fixed_cycles, cost.startup) == (per_fractal, fixed, startup)


def test_the_loops_of_a_vector_function():
    rows = [r for r in ROWS if r.family == "pto_tileop_a5" and r.op == "TADD" and r.is_usable][::2]
    device = device_of(rows[0])
    path = ("vector_function",)
    cost = cost_at(device, path)
    truth = with_cost(device, path, cost.model_copy(update={"loop_start": 4, "loop_restart": 9}))
    blank = with_cost(device, path, unfitted(cost))
    fit = fitted(blank, path, points(rows, truth, lambda i: i % 10 == 3))
    assert (fit.loop_start, fit.loop_restart) == (4, 9)


# ---- what nothing speaks for --------------------------------------------------------------------------------------


def abs_points(repeats, per_repeat=7.0, min_issue=3):
    """Abs of float, as if a repeat took so long."""
    rows = [like("VABS", dtype="fp32", dst_dtype="fp32", repeat=repeat) for repeat in repeats]
    return points(rows, planted(ABS, per_repeat=per_repeat, min_issue=min_issue))


@pytest.mark.parametrize(
    ("repeats", "per_repeat"),
    [
        (range(10, 10 + LEAST_POINTS - 1), 1),  # too few
        (range(10, 10 + LEAST_POINTS), 7),
        (sorted([*range(10, 10 + LEAST_EXTENTS - 1)] * 5), 1),  # many, of few extents
        (sorted([*range(10, 10 + LEAST_EXTENTS)] * 5), 7),
    ],
)
def test_few_measurements_or_few_extents_change_nothing(repeats, per_repeat):
    assert fitted(DEVICE, ABS, abs_points(repeats)).per_repeat == per_repeat


def test_a_single_measurement_moves_no_coefficient():
    """One repeat in 9 cycles is a floor of 9 only if other lengths say so, too; the same one again does not."""
    long = abs_points(range(10, 20), per_repeat=1)
    one = abs_points([1] * 5, per_repeat=1, min_issue=9)
    assert fitted(DEVICE, ABS, [*long, *one]) == cost_at(DEVICE, ABS)
    two = abs_points([1, 2] * 2, per_repeat=1, min_issue=9)
    assert fitted(DEVICE, ABS, [*long, *two]).min_issue == 9


def test_a_gain_within_what_measurements_scatter_changes_nothing():
    path = ("transfer", "gm_to_l1_hit")
    rows = [like("GM_TO_L1", soc="Ascend910B3", bytes=n) for n in SIZES]
    line = cost_at(DEVICE, path).lines[0]
    for further, is_changed in ((0.0005, False), (0.01, True)):
        rate = line.bytes_per_cycle * (1 + further)
        moved = Line(fixed_cycles=round(line.fixed_cycles / (1 + further)), bytes_per_cycle=rate)
        measured = points(rows, planted(path, lines=(moved,)))
        assert (fitted(DEVICE, path, measured) != cost_at(DEVICE, path)) == is_changed


# ---- halves -------------------------------------------------------------------------------------------------------


@given(st.integers(0, 40), st.integers(0, 9), st.randoms())
def test_halves_are_apart_and_together_all(count, seed, mixed):
    course = course_of(like("VABS"), DEVICE)
    all_points = [Point(f"p{i}", i, course, 1.0) for i in range(count)]
    first, second = halves(all_points, seed)
    assert {p.id for p in first}.isdisjoint(p.id for p in second)
    assert sorted(p.id for p in (*first, *second)) == sorted(p.id for p in all_points)
    assert 0 <= len(first) - len(second) <= 1
    other_order = mixed.sample(all_points, count)
    assert halves(other_order, seed) == (first, second)


def test_other_seeds_make_other_halves():
    course = course_of(like("VABS"), DEVICE)
    all_points = [Point(f"p{i}", i, course, 1.0) for i in range(20)]
    assert len({tuple(p.id for p in halves(all_points, seed)[0]) for seed in range(10)}) == 10


def test_each_half_is_judged_by_numbers_that_know_nothing_of_it():
    """Whatever the device file says: it does not reach the halves' fits."""
    measured = abs_points(range(1, 41), per_repeat=2)
    both = crossed(DEVICE, ABS, measured, seed=1)
    assert both == crossed(planted(ABS, per_repeat=31.5, min_issue=30), ABS, measured, seed=1)
    assert (len(both.fitted), len(both.kept_back), max(both.kept_back)) == (40, 40, 0)


def test_a_few_measurements_are_not_crossed():
    assert crossed(DEVICE, ABS, abs_points(range(1, 2 * LEAST_POINTS)), seed=1) is None
    assert crossed(DEVICE, ABS, abs_points(range(1, 2 * LEAST_POINTS + 1)), seed=1) is not None


def test_an_odd_table_shows_in_the_other_half():
    """Measurements that follow no rule cannot be predicted from one another."""
    rows = abs_points(range(1, 41), per_repeat=1)
    wild = [replace(p, cycles=p.cycles * (1 + i * 7 % 11)) for i, p in enumerate(rows)]
    assert min(crossed(DEVICE, ABS, rows, 1).kept_back) == 0
    both = crossed(DEVICE, ABS, wild, 1)
    assert sum(both.kept_back) / len(both.kept_back) > 0.3


def test_what_is_kept_exists_and_is_left_out():
    for arch, path in KEPT:
        assert cost_at({2201: DEVICE, 3510: load_device("Ascend950PR_9589")}[arch], path)
    rows = [r for r in ROWS if r.op in ("GM_TO_L1_TRANS", "L0C_TO_L1") and r.arch in (2201, 3510)]
    assert len(rows) > 20
    assert not any(points_of(rows).values())


def test_the_rows_of_l0c_to_l1_are_those_of_l1_to_l0b():
    """Why they are kept out: figure for figure the same table."""
    tables = [{r.bytes: r.cycles for r in ROWS if r.arch == 3510 and r.op == op} for op in ("L0C_TO_L1", "L1_TO_L0B")]
    assert tables[0] == tables[1]
    assert len(tables[0]) == 8


# ---- the tool -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tool():
    pytest.importorskip("tomlkit")
    file = Path(__file__).parents[2] / "tools" / "fit_costs.py"
    spec = importlib.util.spec_from_file_location("fit_costs", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SOME = [r for r in ROWS if r.op in ("VABS", "VREDUCE", "L1_TO_L0A", "UB_TO_GM", "GM_TO_L0A") and r.is_usable]


@pytest.fixture
def some(tool, monkeypatch):
    """A few tables of the shipped measurements are all that the tool knows."""
    monkeypatch.setattr(tool, "read_instructions", lambda: SOME)
    return tool


def changed(monkeypatch, tool, path, **numbers):
    """As if the file of arch 2201 had other numbers at a path."""
    shipped = tool.points_by_place

    def on_other_device(rows):
        return {
            (arch, place): [replace(p, course=replace(p.course, device=planted(path, **numbers))) for p in own]
            if arch == 2201
            else own
            for (arch, place), own in shipped(rows).items()
        }

    monkeypatch.setattr(tool, "points_by_place", on_other_device)


def test_the_device_files_are_what_a_fit_gives(some, capsys):
    assert some.main(["--check"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1].endswith("measurements: 0 changes")
    assert [line.split(" is left out: ")[0] for line in said[:-1]] == [
        f"arch{arch}.toml: {'.'.join(path)}" for arch, path in KEPT
    ]


def test_a_number_that_is_not_what_a_fit_gives_is_named(some, monkeypatch, capsys):
    changed(monkeypatch, some, ABS, per_repeat=2)
    assert some.main(["--check"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("arch2201.toml: vector.Abs.float.per_repeat 2 -> 1 (12 measurements, mean error ")
    assert said[0].endswith(" -> 0.53%)")
    assert said[-1].endswith(" measurements: 1 changes")


def test_only_the_number_and_its_status_are_written(some, monkeypatch, tmp_path):
    for arch in (2201, 3510):
        shutil.copy(DEVICES / f"arch{arch}.toml", tmp_path)
    file = tmp_path / "arch2201.toml"
    right = file.read_text()
    old, new = 'bytes_per_cycle = 256.0\nsource = "mskpp', 'bytes_per_cycle = 32.0\nsource = "mskpp'
    assert right.count(old) == 1
    file.write_text(right.replace(old, new))
    changed(monkeypatch, some, ("local", "l1_to_l0a"), bytes_per_cycle=32.0)
    monkeypatch.setattr(some, "DEVICES", tmp_path)
    assert some.main([]) == 0
    at = right.index(old)
    assert file.read_text() == right[:at] + right[at:].replace('status = "measured"', 'status = "fitted"', 1)
    assert (tmp_path / "arch3510.toml").read_text() == (DEVICES / "arch3510.toml").read_text()


def test_numbers_in_arrays_and_inline_tables(tool):
    text = (
        "# kept\n[transfer.a]   # as it is\n"
        "lines = [{ fixed_cycles = 1, bytes_per_cycle = 2.0 }, { fixed_cycles = 3, bytes_per_cycle = 4.0 }]\n"
        'status = "inferred"\n\n[vector.B]\n"half->float" = { per_repeat = 1, status = "measured" } # so\n'
    )
    found = [
        tool.Change(2201, ("transfer", "a", "lines", 1, "bytes_per_cycle"), 4.0, 5.5, ""),
        tool.Change(2201, ("vector", "B", "half->float", "per_repeat"), 1, 2.0, ""),
    ]
    assert str(found[0]) == "arch2201.toml: transfer.a.lines[1].bytes_per_cycle 4 -> 5.5 ()"
    assert tool.with_changes(text, found) == (
        text.replace("= 4.0", "= 5.5").replace('"inferred"', '"fitted"').replace("per_repeat = 1", "per_repeat = 2")
    ).replace('"measured"', '"fitted"')
    assert tool.with_changes(text, []) == text
