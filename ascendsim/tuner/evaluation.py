"""One candidate of a search: what becomes of a point, as a row of the results.

A row depends on the setup and the point alone, not on who evaluates it, nor on what was evaluated before: what a
process keeps between candidates only spares work.
"""

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ascendsim.errors import Deadlock, InputError, KernelError, Rejected, Severity
from ascendsim.machine import Judged, Series, host_argument, judged
from ascendsim.result import RunResult
from ascendsim.scenario import Scenario
from ascendsim.terms import Buffer
from ascendsim.tuner.constraints import Constraint, parse_constraints
from ascendsim.tuner.space import BUFFER_NUM, DEFAULT, Field, Space, Value, default_value, with_values

Cell = int | float | bool | str | None
Row = tuple[Cell, ...]
"""One candidate of the results, in the order of `Setup.columns`."""
Cells = Mapping[str, Cell]
"""A row by the names of its columns."""

TIMED, DROPPED, LEFT_OUT = "timed", "dropped", "left out"
"""What becomes of a candidate: simulated; a check fails; a constraint over derived numbers does not hold."""
REFUSED, KERNEL_ERROR = "refused", "kernel error"
"""Instead of a code, where the host side or the recorder refuses in words."""
DEADLOCK = "E-SYNC-DEADLOCK"
PEAKS = {f"peak_{b.name.lower()}_bytes": b.name for b in Buffer if b is not Buffer.GM}
FIXED = ("cycles", "bound", "bound_share", *PEAKS, "workspace_bytes")
"""Columns of a candidate that was timed."""
_ALLOCATIONS = 1_000_000
"""New objects between two searches for unreachable ones, as in the command."""
_MOST_KEPT = 4096
"""Programs whose outcome a process keeps."""


@dataclass(frozen=True)
class Setup:
    """What all candidates of a search have in common.

    Attributes:
        scenario: what is changed for each.
        space: what varies.
        where: constraints, as they were written.
    """

    scenario: Scenario
    space: Space
    where: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[type["Setup"], tuple[object, ...]]:
        """Go to other processes without what is made of the fields: expressions hold functions."""
        return Setup, (self.scenario, self.space, self.where)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints."""
        return parse_constraints(self.where)

    @cached_property
    def derived_names(self) -> tuple[str, ...]:
        """Numbers that the host side derives and that do not vary themselves."""
        operator, own = self.scenario.find_operator(), {field.name for field in self.space.fields}
        return () if operator is None else tuple(name for name in operator.derived_names if name not in own)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of a row's cells."""
        fields = tuple(field.name for field in self.space.fields)
        return ("candidate", *fields, "status", "code", *FIXED, "findings", "digest", *self.derived_names, "reason")

    @cached_property
    def given(self) -> dict[str, int]:
        """Whole numbers of the scenario by the names that constraints use."""
        numbers = {name: value for name, value in self.scenario.tiling.items() if isinstance(value, int)}
        if self.scenario.block_dim is not None:
            numbers["block_dim"] = self.scenario.block_dim
        nums = {queue.num for queue in self.scenario.queues.values()}
        if len(nums) == 1:
            numbers[BUFFER_NUM] = nums.pop()
        return {name: int(value) for name, value in numbers.items()}

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Fields that are words for some candidate."""
        return tuple(f.name for f in self.space.fields if any(isinstance(v, str) for v in f.values))

    @cached_property
    def early(self) -> tuple[Constraint, ...]:
        """Constraints over given numbers alone."""
        known = {*self.given, *(field.name for field in self.space.fields)}
        return tuple(c for c in self.constraints if set(c.names) <= known)

    @cached_property
    def late(self) -> tuple[Constraint, ...]:
        """Constraints that look at derived numbers."""
        return tuple(c for c in self.constraints if c not in self.early)

    def numbers(self, point: Mapping[str, Value | None]) -> dict[str, int]:
        """Return the given numbers of a point."""
        own = {name: int(v) for name, v in point.items() if isinstance(v, int)}
        return self.given | own

    def broken(self, point: Mapping[str, Value | None]) -> Constraint | None:
        """Return the first constraint over given numbers that a point breaks."""
        numbers = self.numbers(point)
        return next((c for c in self.early if not c.holds(numbers)), None)

    def values(self, number: int) -> dict[str, Value | None]:
        """Return the value of each field, None where the scenario as it stands leaves it open."""
        if number == DEFAULT:
            return {field.name: default_value(self.scenario, field) for field in self.space.fields}
        return dict(self.space.point(number))

    def scenario_value(self, field: Field) -> Value | None:
        """Return what a field is in the scenario as it stands, None where it leaves that open."""
        return default_value(self.scenario, field)

    def scenario_of(self, number: int) -> Scenario:
        """Return the scenario of a candidate."""
        if number == DEFAULT:
            return self.scenario
        return with_values(self.scenario, self.space.changes(self.space.point(number)))


def derived_of(scenario: Scenario, argument: object) -> Mapping[str, int | None]:
    """Return the numbers that the host side has derived."""
    operator = scenario.find_operator()
    return {} if operator is None or operator.derived is None else operator.derived(argument)


class Evaluator:
    """Evaluates candidates one after the other and keeps what they share."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._known: dict[str, dict[str, Cell]] = {}
        is_shipped = setup.scenario.find_operator() is not None
        self._series = Series(setup.scenario.load_device()) if is_shipped else None
        gc.set_threshold(_ALLOCATIONS)

    def row(self, number: int) -> Row:
        """Return the row of a candidate."""
        setup = self._setup
        cells: dict[str, Cell] = {"candidate": number, **setup.values(number)}
        try:
            cells |= self._outcome(setup.scenario_of(number), setup.values(number))
        except Rejected as error:
            first = next((f for f in error.findings if f.severity is Severity.ERROR), error.findings[0])
            cells |= _dropped(first.code, first.message, [f.code for f in error.findings])
        except Deadlock as error:
            cells |= _dropped(DEADLOCK, str(error).partition("\n")[0], [DEADLOCK])
        except KernelError as error:
            cells |= _dropped(KERNEL_ERROR, str(error), [])
        except InputError as error:
            cells |= _dropped(REFUSED, str(error), [])
        return tuple(cells.get(name) for name in setup.columns)

    def result(self, number: int) -> RunResult:
        """Return the run of a candidate, with totals.

        Raises:
            AscendSimError: it was not timed.
        """
        return judged(self._setup.scenario_of(number)).timed()

    def _outcome(self, scenario: Scenario, point: Mapping[str, Value | None]) -> dict[str, Cell]:
        late = self._setup.late
        if late:
            derived = derived_of(scenario, host_argument(scenario))
            numbers = self._setup.numbers(point) | {n: v for n, v in derived.items() if v is not None}
            broken = next((c for c in late if not c.holds(numbers)), None)
            if broken is not None:
                return {"status": LEFT_OUT, "code": broken.text, "findings": ""}
        found = judged(scenario, self._series)
        codes = [f.code for f in found.findings]
        if found.stoppers:
            first = found.stoppers[0]
            return _dropped(first.code, first.message, codes) | self._derived(scenario, found)
        digest = found.program.digest
        if digest not in self._known:
            if len(self._known) == _MOST_KEPT:
                self._known.clear()
            self._known[digest] = _timed(found)
        timed: dict[str, Cell] = {"status": TIMED, "findings": _joined(codes), "digest": digest[:16]}
        return timed | self._known[digest] | _workspace(scenario, found) | self._derived(scenario, found)

    def _derived(self, scenario: Scenario, found: Judged) -> dict[str, Cell]:
        derived = derived_of(scenario, found.argument)
        return {name: derived[name] for name in self._setup.derived_names}


def _dropped(code: str, reason: str, codes: Sequence[str]) -> dict[str, Cell]:
    return {"status": DROPPED, "code": code, "reason": " ".join(reason.split()), "findings": _joined(codes)}


def _joined(codes: Sequence[str]) -> str:
    return " ".join(dict.fromkeys(codes))


def _timed(found: Judged) -> dict[str, Cell]:
    """Cycles, bound and peaks of a program."""
    result = found.timed()
    peaks = {name: result.peak_bytes.get(place) for name, place in PEAKS.items()}
    bound: dict[str, Cell] = {"bound": None, "bound_share": None}
    if result.bounds:  # a kernel may do nothing
        kind, pipe, _, share = result.bounds[0]
        bound = {"bound": result.lane_name(pipe, kind), "bound_share": round(share, 6)}
    return {"cycles": result.makespan_cycles, **bound, **peaks}


def _workspace(scenario: Scenario, found: Judged) -> dict[str, Cell]:
    operator = scenario.find_operator()
    if operator is None or operator.workspace_bytes is None:
        return {"workspace_bytes": 0}
    return {"workspace_bytes": operator.workspace_bytes(found.argument)}
