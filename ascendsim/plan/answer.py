"""What `ascendsim plan` answers: the map, the margins, the largest legal value, the table and the hints."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ascendsim.errors import InputError
from ascendsim.files import is_file, read_toml
from ascendsim.plan.formulas import Plan, compiled
from ascendsim.plan.hints import Alive, LessTemp, Reuse, less_temp, most_alive, reuse
from ascendsim.plan.layout import Cut, Layout, capacity_bytes, lay_out, limit_bytes
from ascendsim.plan.model import LIMITS, PLACES, Limit, Place, is_scenario, plan_file
from ascendsim.plan.scenarios import plan_of_scenario
from ascendsim.plan.solve import Solution, TableRow, cut_cycles, field_to_solve, solve, tabulate, values_of
from ascendsim.scenario import load_scenario, shipped

_NEAREST = 3
"""Shipped names that are told instead of an unknown one."""


@dataclass(frozen=True, slots=True)
class Margin:
    """What one capacity leaves free; `limit` is "" but for UB, which has three."""

    place: Place
    limit: Limit | None
    capacity_bytes: int
    used_bytes: int

    @property
    def margin_bytes(self) -> int:
        """Free bytes, negative where the plan does not fit."""
        return self.capacity_bytes - self.used_bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """One plan, answered.

    Attributes:
        solution: of the field that was solved for, None if none was.
        chosen: the value of every range.
        layout: with these values.
        cycles: predicted cycles of each of the layout's calls.
    """

    plan: Plan
    solution: Solution | None
    chosen: Mapping[str, int]
    layout: Layout
    cycles: tuple[int | None, ...]
    margins: tuple[Margin, ...]
    table: tuple[TableRow, ...]
    reuse: tuple[Reuse, ...]
    alive: tuple[Alive, ...]
    less_temp: tuple[LessTemp, ...]

    @property
    def fits(self) -> bool:
        """Whether nothing of severity E was found."""
        return not self.layout.has_errors

    @property
    def table_limit(self) -> Limit:
        """The plan's limit, or visible where the plan looks at the hardware's: tables end at visible."""
        return "safe" if self.layout.limit == "safe" else "visible"

    @property
    def fastest(self) -> TableRow | None:
        """The row of the table with the fewest predicted cycles a row of data, under `table_limit`.

        None where nothing predicts them, or several calls share the work.
        """
        if len(self.plan.apis) != 1:
            return None
        known = [
            (row.cycles_per_row, i)
            for i, row in enumerate(self.table)
            if self.table_limit in row.limits and row.cycles_per_row is not None
        ]
        return self.table[min(known)[1]] if known else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        layout, plan = self.layout, self.plan
        return {
            "plan": plan.name,
            "device": plan.device.name,
            "calibrated": plan.device.calibrated.value,
            "limit": layout.limit,
            "fits": self.fits,
            "tiling": {name: layout.names[name] for name in (*plan.ranges, *plan.fields)},
            "solved": None if self.solution is None else _solution(self.solution),
            "map": [entry.to_dict() for entry in layout.entries],
            "margins": [
                {
                    "place": m.place,
                    "limit": m.limit,
                    "capacity_bytes": m.capacity_bytes,
                    "used_bytes": m.used_bytes,
                    "margin_bytes": m.margin_bytes,
                }
                for m in self.margins
            ],
            "temps": [
                {
                    "name": use.name,
                    "policy": use.policy or "expression",
                    "least_bytes": use.least_bytes,
                    "most_bytes": use.most_bytes,
                    "bytes": use.bytes,
                    "apis": [call.name for call in use.calls],
                }
                for use in layout.temps
            ],
            "calls": [_cut(cut, cycles) for cut, cycles in zip(layout.cuts, self.cycles, strict=True)],
            "table": [_row(row) for row in self.table],
            "fastest": None if self.fastest is None else self.fastest.value,
            "reuse": [
                {"first": pair.first.name, "second": pair.second.name, "saved_bytes": pair.saved_bytes}
                for pair in self.reuse
            ],
            "most_alive": [
                {"place": a.place, "bytes": a.bytes, "step": a.step, "used_bytes": a.used_bytes} for a in self.alive
            ],
            "less_temp": [
                {
                    "temp": less.use.name,
                    "temp_bytes": less.bytes,
                    "calls": [{"call": cut.call.name, "loops": cut.loops} for cut in less.better],
                }
                for less in self.less_temp
            ],
            "findings": [finding.to_dict() for finding in layout.findings],
        }


def _solution(solution: Solution) -> dict[str, Any]:
    return {"field": solution.field, "largest": dict(solution.largest), "reason": solution.reason}


def _cut(cut: Cut, cycles: int | None) -> dict[str, Any]:
    tiling = cut.tiling
    least, most = cut.call.sizes()
    return {
        "call": cut.call.name,
        "api": cut.call.api,
        "shape": list(cut.call.shape),
        "temp": cut.call.temp,
        "least_bytes": least,
        "most_bytes": most,
        "temp_bytes": cut.temp_bytes,
        "split_m": None if tiling is None else tiling.split_m,
        "loops": cut.loops,
        "tail_m": None if tiling is None else tiling.tail_m,
        "cycles": cycles,
    }


def _row(row: TableRow) -> dict[str, Any]:
    call = {} if row.cut is None else _cut(row.cut, row.cycles)
    return {
        "value": row.value,
        "tiling": dict(row.others),
        "limits": list(row.limits),
        "without_temps_bytes": row.without_temps_bytes,
        "used_bytes": dict(row.used_bytes),
        **call,
    }


def load_plan(path: str | Path, changes: Mapping[str, Any]) -> Plan:
    """Read a plan or a scenario, from a file or a shipped one by name, and apply changes.

    Raises:
        InputError, DeviceError: names file, key, what is wrong and what would be right.
    """
    file = Path(path)
    if not is_file(file):
        known = [shipped(kind, str(path)) for kind in ("tilings", "scenarios")] if file.parent == Path() else []
        file = next((found for found in known if found is not None), file)
    if not is_file(file):
        near = _nearest_shipped(file.stem) if file.parent == Path() else ""
        raise InputError(f"{path}: no such plan or scenario file{near}")
    raw = read_toml(file)
    if "operator" in raw and "tensors" not in raw:
        raise InputError(f"{file}: a tiling of an operator, without tensors; plan the scenario that names it")
    if is_scenario(raw):
        return plan_of_scenario(load_scenario(file, changes), str(file))
    return compiled(plan_file(raw, str(file), changes), str(file))


def _nearest_shipped(name: str) -> str:
    """Return the nearest names of plans and scenarios that come with the package, in words."""
    package = Path(str(resources.files("ascendsim")))
    patterns = ("tilings/plan_*.toml", "scenarios/*.toml")
    files = [file for folder in (package / "data", package.parent) for text in patterns for file in folder.glob(text)]
    names = sorted({file.stem for file in files})
    near = difflib.get_close_matches(name, names, n=_NEAREST, cutoff=0.0)
    return f"; the nearest that come with the package: {', '.join(near)}" if near else ""


def answer(plan: Plan, wanted: str | None = None) -> Answer:
    """Lay a plan out, after solving for a field if one is asked for or is left open.

    Raises:
        InputError: a field without a value, or with one that no buffer can have.
    """
    field = field_to_solve(plan, wanted)
    solution = None if field is None else solve(plan, field)
    chosen = values_of(plan, field)
    if solution is not None:
        chosen[solution.field] = _best(plan, solution)
    layout = lay_out(plan, chosen, plan.limit)
    return Answer(
        plan=plan,
        solution=solution,
        chosen=chosen,
        layout=layout,
        cycles=tuple(cut_cycles(plan.device, cut) for cut in layout.cuts),
        margins=_margins(plan, layout),
        table=() if solution is None else tuple(tabulate(plan, solution)),
        reuse=tuple(reuse(layout.entries)),
        alive=tuple(most_alive(layout.entries)),
        less_temp=tuple(less_temp(layout.temps, layout.cuts, plan.device.ub_bytes)),
    )


def _best(plan: Plan, solution: Solution) -> int:
    """The largest value under the plan's limit, or under the next that has one, or the smallest to say why not."""
    above = LIMITS[LIMITS.index(plan.limit) :]
    legal = [solution.largest[limit] for limit in above]
    return next((value for value in legal if value is not None), plan.ranges[solution.field].min)


def _margins(plan: Plan, layout: Layout) -> tuple[Margin, ...]:
    ub = [Margin("UB", limit, limit_bytes(plan.device, limit), layout.used_bytes("UB")) for limit in LIMITS]
    others = [
        Margin(place, None, capacity_bytes(plan.device, place), layout.used_bytes(place))
        for place in PLACES
        if place != "UB" and layout.used_bytes(place)
    ]
    return (*(ub if layout.used_bytes("UB") else ()), *others)
