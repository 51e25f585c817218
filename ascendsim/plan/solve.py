"""The largest value of a tiling field with which a plan fits, and what each value gives."""

from collections.abc import Mapping
from dataclasses import dataclass

from ascendsim.device import Device
from ascendsim.errors import AscendSimError, InputError, Severity
from ascendsim.plan.expressions import near_name
from ascendsim.plan.formulas import Plan
from ascendsim.plan.layout import Cut, Layout, cut_of, lay_out, limit_bytes, units_exceed_ub
from ascendsim.plan.model import LIMITS, PLACES, Limit, Place
from ascendsim.terms import DATABLOCK_BYTES, align_up
from ascendsim.tmpsize import predicted_cycles

MOST_VALUES = 65536
"""Values of a range that are tried one by one; nothing is assumed about how sizes grow."""
MOST_ROWS = 16
"""Values of a table."""
_TABLE_LIMITS: tuple[Limit, ...] = ("safe", "visible")


@dataclass(frozen=True, slots=True)
class Solution:
    """The largest legal value of a field under each limit of UB, None where there is none.

    `reason` is why the smallest value is not legal, if it is not.
    """

    field: str
    largest: Mapping[Limit, int | None]
    reason: str


@dataclass(frozen=True, slots=True)
class TableRow:
    """One value of the solved field under one or both limits, and one API call.

    Attributes:
        value: of the field.
        others: fields that change with it.
        limits: those under which temps get these sizes.
        without_temps_bytes: UB without temps.
        used_bytes: of each place that the plan uses.
        cut: the call and its tiling, None for a plan without APIs.
        cycles: predicted for one call, None where nothing predicts it.
    """

    value: int
    others: Mapping[str, int]
    limits: tuple[Limit, ...]
    without_temps_bytes: int
    used_bytes: Mapping[Place, int]
    cut: Cut | None
    cycles: int | None

    @property
    def cycles_per_row(self) -> float | None:
        """Cycles of the call over its rows."""
        return None if self.cycles is None or self.cut is None else self.cycles / self.cut.call.rows


def field_to_solve(plan: Plan, wanted: str | None) -> str | None:
    """Return the field to solve for: the one asked for, or the only range that has no value, or None.

    Raises:
        InputError: not a range of the plan, or several could be meant.
    """
    if wanted is not None:
        if wanted not in plan.ranges:
            known = ", ".join(plan.ranges) or "none"
            near = near_name(wanted, plan.ranges)
            raise InputError(f"{plan.source}: --solve {wanted}: not a field with min and max; there is {known}{near}")
        return wanted
    free = [name for name, spec in plan.ranges.items() if spec.value is None]
    if len(free) > 1:
        raise InputError(
            f"{plan.source}: tiling.{free[1]}: {' and '.join(free)} have no value; choose one with --solve and give "
            f"the others one, such as --set tiling.{free[1]}={plan.ranges[free[1]].min}"
        )
    return free[0] if free else None


def values_of(plan: Plan, solved: str | None) -> dict[str, int]:
    """Return the value of every range but the solved one.

    Raises:
        InputError: a range without a value.
    """
    values = {}
    for name, spec in plan.ranges.items():
        if name == solved:
            continue
        if spec.value is None:
            raise InputError(f"{plan.source}: tiling.{name}: has no value; --set tiling.{name}={spec.min} gives it one")
        values[name] = spec.value
    return values


def solve(plan: Plan, field: str) -> Solution:
    """Return the largest legal value of a range under each limit.

    Legal under a limit: the plan's UB ends at or below it, with its temps sized for it, and there is no finding of
    severity E. A value with which an expression or an API has no answer is not legal.

    Raises:
        InputError: the range has too many values.
    """
    spec = plan.ranges[field]
    if spec.count > MOST_VALUES:
        raise InputError(
            f"{plan.source}: tiling.{field}: the range has {spec.count} values, at most {MOST_VALUES} are tried; "
            "take a larger step"
        )
    values, others = spec.values, values_of(plan, field)
    largest: dict[Limit, int | None] = dict.fromkeys(LIMITS)
    for value in reversed(values):
        chosen = {**others, field: value}
        if units_exceed_ub(plan, chosen):
            continue
        # What is legal under a lower limit need not be under a higher one, because temps are sized for each.
        for limit in LIMITS:
            if largest[limit] is None and not why_not(plan, chosen, limit):
                largest[limit] = value
        if None not in largest.values():
            break
    return Solution(field, largest, why_not(plan, {**others, field: values[0]}, "visible"))


def why_not(plan: Plan, chosen: Mapping[str, int], limit: Limit) -> str:
    """Return why a tiling is not legal under a limit, or nothing if it is."""
    try:
        layout = lay_out(plan, chosen, limit)
    except InputError as error:
        return str(error)
    end, used = limit_bytes(plan.device, limit), layout.used_bytes("UB")
    if used > end:
        return f"UB use {used} B is above {end} B ({limit})"
    # Above the visible limit only what the hardware has is asked for.
    allowed = ("E-CAP-UB",) if limit == "hardware" else ()
    return next((str(f) for f in layout.findings if f.severity is Severity.ERROR and f.code not in allowed), "")


# ---- the table --------------------------------------------------------------------------------------------------


def tabulate(plan: Plan, solution: Solution) -> list[TableRow]:
    """Return what legal values of a solved field give, the largest first; of many only some, evenly chosen."""
    found = [v for limit, v in solution.largest.items() if limit in _TABLE_LIMITS and v is not None]
    if not found:
        return []
    others, field = values_of(plan, solution.field), solution.field
    values = [v for v in plan.ranges[field].values if v <= max(found)]
    changing = [name for name in plan.fields if name in plan.depends_on(field)]
    rows: list[TableRow] = []
    for value in _some(values[::-1], set(found)):
        layouts = {
            limit: lay_out(plan, {**others, field: value}, limit)
            for limit in _TABLE_LIMITS
            if not why_not(plan, {**others, field: value}, limit)
        }
        rows += _rows(plan, value, changing, layouts)
    return rows


def _some(values: list[int], needed: set[int]) -> list[int]:
    """At most about MOST_ROWS of the values, evenly, those that are needed and the last among them."""
    if len(values) <= MOST_ROWS:
        return values
    last = len(values) - 1
    places = {round(i * last / (MOST_ROWS - 1)) for i in range(MOST_ROWS)}
    return [v for i, v in enumerate(values) if i in places or v in needed]


def _rows(plan: Plan, value: int, changing: list[str], layouts: Mapping[Limit, Layout]) -> list[TableRow]:
    """Rows of one value; limits under which the temps are equal share theirs."""
    groups: dict[tuple[int, ...], list[Limit]] = {}
    for limit, layout in layouts.items():
        groups.setdefault(tuple(use.bytes for use in layout.temps), []).append(limit)
    return [
        _row(plan, value, changing, tuple(limits), layouts[limits[0]], cut)
        for limits in groups.values()
        for cut in layouts[limits[0]].cuts or (None,)
    ]


def _row(
    plan: Plan, value: int, changing: list[str], limits: tuple[Limit, ...], layout: Layout, cut: Cut | None
) -> TableRow:
    return TableRow(
        value=value,
        others={name: layout.names[name] for name in changing},
        limits=limits,
        without_temps_bytes=layout.without_temps_bytes,
        used_bytes={p: layout.used_bytes(p) for p in PLACES if layout.used_bytes(p)},
        cut=cut,
        cycles=None if cut is None else cut_cycles(plan.device, cut),
    )


def cut_cycles(device: Device, cut: Cut) -> int | None:
    """Return the predicted cycles of one call, None where no kernel is there to predict them from."""
    call = cut.call
    if call.fixed_bytes is not None or call.api != "softmax_grad" or cut.tiling is None:
        return None
    if cut.tiling.split_m == 0 and not call.ignores_tiles:
        return None
    element = call.element
    try:
        return predicted_cycles(device, element, (call.rows, call.shape[-1]), call.flags["is_front"], cut.temp_bytes)
    except AscendSimError:
        return None


def enough_temp(cut: Cut) -> int:
    """Return the least temp with which a call takes the same cycles: they depend on the rows of a tile, if on any."""
    least = cut.call.sizes()[0]
    if cut.call.ignores_tiles or cut.tiling is None:
        return min(least, cut.temp_bytes)
    for size in range(align_up(least, DATABLOCK_BYTES), cut.temp_bytes, DATABLOCK_BYTES):
        smaller = cut_of(cut.call, size).tiling
        if smaller is not None and smaller.split_m == cut.tiling.split_m:
            return size
    return cut.temp_bytes
