"""Two runs beside each other: what differs in them, in their results, and what made one faster.

The cycles of a pipe of one core are busy, lost to a cause, or without work, and add up to the makespan (see
`tuning.bubbles`). So on every pipe the differences of these parts add up to the difference of the makespans, which is
what says why one run is faster. All of it comes from totals, so that runs whose rows were not kept compare as well.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from ascendsim import analysis
from ascendsim.engine.base import TIMELINE_COLUMNS, Timeline, Totals, Wait
from ascendsim.errors import Finding, Severity
from ascendsim.result import RunResult
from ascendsim.terms import Pipe
from ascendsim.tuning import BUBBLES, read_hit_share
from ascendsim.versus.table import indented, left_out, number, percent, signed, table

Value = int | float | str | None

EQUAL = "the runs are equal: same program digest, same timeline"
BUSY, SHARED, REST = "busy", "sharing a link", "no work left"
PARTS = (BUSY, SHARED, *(wait.words for wait in BUBBLES), REST)
"""What the cycles of a pipe are; "busy" is without what sharing a link added."""
_WAITS = (Wait.FLAG, Wait.BUFFER, Wait.CROSS_CORE, Wait.UNIT_FLAG, Wait.BARRIER, Wait.DISPATCH)
_MOST_FIELDS, _MOST_FINDINGS, _MOST_PLACES, _MOST_LINES = 12, 10, 8, 10
"""Lines of the text; plain data have all."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: a number or name of both runs; None where a run has none."""

    name: str
    a: Value
    b: Value

    @property
    def change(self) -> int | float | None:
        """B less A, None where they are no numbers."""
        both = isinstance(self.a, int | float) and isinstance(self.b, int | float)
        return self.b - self.a if both else None  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field of scenario, device or program that differs; None where it is not there."""

    path: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class PipeChange:
    """Where the cycles of a pipe went, over all cores of a kind: cycles of A and of B by part (`PARTS`).

    Attributes:
        cores: on how many cores of A and of B.
    """

    pipe: str
    cores: tuple[int, int]
    parts: Mapping[str, tuple[int, int]]

    def of_core(self, part: str) -> tuple[float, float]:
        """Return the mean cycles of a core in a part, in A and in B."""
        a, b = self.parts[part]
        return a / max(1, self.cores[0]), b / max(1, self.cores[1])

    def changes(self) -> list[tuple[str, float]]:
        """Return (part, B less A in cycles of a core), the largest first; parts that did not change are left out."""
        found = [(part, b - a) for part in self.parts for a, b in [self.of_core(part)] if a != b]
        return sorted(found, key=lambda one: -abs(one[1]))


@dataclass(frozen=True, slots=True)
class CoreChange:
    """Cycles of one part on one pipe of one core that differ."""

    core: str
    pipe: str
    part: str
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class LineChange:
    """Cycles of a kernel line, over all cores: spent in its instructions, and waited by them."""

    line: str
    spent: tuple[int, int]
    waited: tuple[int, int]

    @property
    def change(self) -> int:
        """B less A, both together."""
        return self.spent[1] - self.spent[0] + self.waited[1] - self.waited[0]


@dataclass(frozen=True)
class RunComparison:
    """Two runs beside each other.

    Attributes:
        a, b: the runs.
        names: what they are called: the folders or scenarios they come from.
        same_program: whether the recorded programs are the same.
        same_timeline: whether every row of them ran at the same time.
        same_outputs: whether their outputs have the same bytes; None where one of them has no values.
        figures: the table.
        fields: what differs in scenario, device and program.
        came: findings of B that A has not.
        went: findings of A that B has not.
        pipes: where the cycles of every pipe went.
        cores: what differs on single cores, the most cycles first; empty where their kinds or numbers differ.
        lines: cycles of kernel lines that differ, the most first.
    """

    a: RunResult = field(repr=False)
    b: RunResult = field(repr=False)
    names: tuple[str, str]
    same_program: bool
    same_timeline: bool
    same_outputs: bool | None
    figures: tuple[Figure, ...]
    fields: tuple[FieldChange, ...]
    came: tuple[Finding, ...]
    went: tuple[Finding, ...]
    pipes: tuple[PipeChange, ...]
    cores: tuple[CoreChange, ...]
    lines: tuple[LineChange, ...]

    @property
    def is_equal(self) -> bool:
        """Whether programs, timelines, findings and (where both are there) outputs are the same."""
        alike = self.same_program and self.same_timeline and self.same_outputs is not False
        return alike and not self.came and not self.went

    @property
    def faster(self) -> str:
        """Which run takes less time: "a", "b" or ""; of parts with other clocks by microseconds."""
        a, b = self.times
        return "" if a == b else "a" if a < b else "b"

    @property
    def is_of_one_clock(self) -> bool:
        """Whether cycles of both are equally long."""
        return self.a.device.clock_mhz == self.b.device.clock_mhz

    @property
    def times(self) -> tuple[float, float]:
        """Makespans: cycles if the clocks are the same, else microseconds."""
        if self.is_of_one_clock:
            return self.a.makespan_cycles, self.b.makespan_cycles
        return self.a.makespan_us, self.b.makespan_us

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Why one is faster: for the pipes that bound either run, what their cycles went to, in sentences."""
        names = dict.fromkeys(
            run.lane_name(pipe, kind) for run in (self.a, self.b) for kind, pipe, _, _ in run.bounds[:1]
        )
        lanes = {lane.pipe: lane for lane in self.pipes}
        return tuple(_reason(self, lanes[name]) for name in names if name in lanes)

    def to_dict(self) -> dict[str, Any]:
        """Return it in plain numbers, ready for JSON."""
        return {
            "a": self.names[0],
            "b": self.names[1],
            "equal": self.is_equal,
            "same_program": self.same_program,
            "same_timeline": self.same_timeline,
            "same_outputs": self.same_outputs,
            "program_digests": [self.a.program.digest, self.b.program.digest],
            "faster": self.faster,
            "figures": [{"name": f.name, "a": f.a, "b": f.b, "change": f.change} for f in self.figures],
            "fields": [asdict(f) for f in self.fields],
            "came": [f.to_dict() for f in self.came],
            "went": [f.to_dict() for f in self.went],
            "reasons": list(self.reasons),
            "pipes": [
                {"pipe": p.pipe, "cores": list(p.cores), "cycles": {n: list(ab) for n, ab in p.parts.items()}}
                for p in self.pipes
            ],
            "cores": [asdict(c) for c in self.cores],
            "lines": [
                {"line": x.line, "spent": list(x.spent), "waited": list(x.waited), "change": x.change}
                for x in self.lines
            ],
        }

    def __str__(self) -> str:
        return "\n".join(_text(self))


def compare_runs(a: RunResult, b: RunResult, names: tuple[str, str] = ("A", "B")) -> RunComparison:
    """Return two runs beside each other; `names` says where they come from."""
    return RunComparison(
        a=a,
        b=b,
        names=names,
        same_program=a.program.digest == b.program.digest,
        same_timeline=_same_timeline(a.timeline, b.timeline),
        same_outputs=_same_outputs(a, b),
        figures=tuple(_figures(a, b)),
        fields=tuple(_field_changes(a, b)),
        came=_missing(b.findings, a.findings),
        went=_missing(a.findings, b.findings),
        pipes=tuple(_pipe_changes(a, b)),
        cores=tuple(sorted(_core_changes(a, b), key=lambda c: -abs(c.b - c.a))),
        lines=tuple(sorted(_line_changes(a, b), key=lambda x: (-abs(x.change), x.line))),
    )


# ---- what is the same -------------------------------------------------------------------------------------------


def _same_timeline(a: Timeline, b: Timeline) -> bool:
    """Whether rows that both kept, and what all rows add up to, are the same."""
    if (a.row_count, a.makespan_cycles, len(a)) != (b.row_count, b.makespan_cycles, len(b)):
        return False
    names = [f.name for f in fields(Totals)]
    same_totals = all(np.array_equal(getattr(a.totals, name), getattr(b.totals, name)) for name in names)
    return same_totals and all(np.array_equal(a[name], b[name]) for name in TIMELINE_COLUMNS)


def _same_outputs(a: RunResult, b: RunResult) -> bool | None:
    if "none" in (a.values, b.values):
        return None
    if a.outputs.keys() != b.outputs.keys():
        return False
    pairs = [(a.outputs[name], b.outputs[name]) for name in a.outputs]
    return all((x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes()) for x, y in pairs)


def _missing(some: Sequence[Finding], others: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings whose code, place and operand the others have not."""
    known = {(f.code, f.where, f.operand) for f in others}
    return tuple(f for f in some if (f.code, f.where, f.operand) not in known)


# ---- what differs -----------------------------------------------------------------------------------------------


def _figures(a: RunResult, b: RunResult) -> Iterator[Figure]:
    columns = [dict(_figures_of(run)) for run in (a, b)]
    for name in dict.fromkeys([*columns[0], *columns[1]]):
        yield Figure(name, columns[0].get(name), columns[1].get(name))


def _figures_of(run: RunResult) -> Iterator[tuple[str, Value]]:
    """The table's column of one run."""
    yield "makespan cycles", run.makespan_cycles
    yield "makespan us", round(run.makespan_us, 6)
    yield "task us", round(run.task_us, 3)
    yield "block_dim", run.program.block_dim
    yield "rows", run.timeline.row_count
    yield "bound", ", ".join(run.lane_name(pipe, kind) for kind, pipe, _, _ in run.bounds[:1]) or "none"
    if run.tflops is not None:
        yield "TFLOP/s", round(run.tflops, 6)
    for buffer, peak in run.peak_bytes.items():
        yield f"peak {buffer} bytes", peak
    moved = analysis.bytes_moved(run.program)
    yield "GM bytes", sum(moved.values())
    for name, count in moved.items():
        yield f"{name} bytes", count
    hits = read_hit_share(run.traffic)
    if hits is not None:
        yield "L2 hits of reads %", round(100 * hits, 3)
    for name, severity in (("errors", Severity.ERROR), ("warnings", Severity.WARNING), ("advice", Severity.INFO)):
        yield name, sum(f.severity is severity for f in run.findings)


def _field_changes(a: RunResult, b: RunResult) -> Iterator[FieldChange]:
    """Fields of scenario and device that differ, and whether the programs do."""
    for prefix, one, other in (
        ("", _scenario(a), _scenario(b)),
        ("device.", _device(a), _device(b)),
        ("program.", _program(a), _program(b)),
    ):
        for path in dict.fromkeys([*one, *other]):
            if one.get(path) != other.get(path):
                yield FieldChange(prefix + path, one.get(path), other.get(path))


def _scenario(run: RunResult) -> dict[str, Any]:
    """The resolved scenario as paths and values; files by where they are, wherever the run's folder is."""
    flat = dict(_flat(run.scenario))
    for path, value in flat.items():
        names_file = path == "kernel" or path.endswith(".file") or (path.endswith(".reference") and ":" in str(value))
        if names_file:
            flat[path] = os.path.normpath(run.folder.absolute() / value)
    return flat


def _device(run: RunResult) -> dict[str, Any]:
    """The device file's values, without where each comes from."""
    flat = _flat(run.device.model_dump(mode="json", by_alias=True))
    return {path: value for path, value in flat if path.rpartition(".")[2] not in ("source", "status")}


def _program(run: RunResult) -> dict[str, Any]:
    program = run.program
    return {
        "templates": len(program.templates),
        "calls": len(program.calls["core"]),
        "kernel_type": program.kernel_type.name,
    }


def _flat(table_: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Paths and values of nested tables."""
    for key, value in table_.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _pipe_changes(a: RunResult, b: RunResult) -> Iterator[PipeChange]:
    sides = [{run.lane_name(lane.pipe, lane.kind): lane for lane in run.bubbles} for run in (a, b)]
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        lanes = [side.get(name) for side in sides]
        columns = [{} if lane is None else _parts(lane.busy, lane.shared, lane.lost, lane.rest) for lane in lanes]
        parts = {part: (columns[0].get(part, 0), columns[1].get(part, 0)) for part in PARTS}
        cores = [0 if lane is None else lane.cores for lane in lanes]
        yield PipeChange(name, (cores[0], cores[1]), {p: ab for p, ab in parts.items() if any(ab)})


def _parts(busy: int, shared: int, lost: Mapping[Wait, int], rest: int) -> dict[str, int]:
    return {BUSY: busy - shared, SHARED: shared, **{wait.words: lost[wait] for wait in lost}, REST: rest}


def _core_changes(a: RunResult, b: RunResult) -> Iterator[CoreChange]:
    """What differs on single cores, where both runs have the same ones."""
    if (a.program.block_dim, a.program.kernel_type) != (b.program.block_dim, b.program.kernel_type):
        return
    there = (a.timeline.totals.rows > 0) | (b.timeline.totals.rows > 0)
    for core, pipe in np.argwhere(there).tolist():
        one, other = (_core_parts(run.timeline, core, pipe) for run in (a, b))
        for part in PARTS:
            if one.get(part, 0) != other.get(part, 0):
                name = a.program.core_name(core)
                yield CoreChange(name, Pipe(pipe).name, part, one.get(part, 0), other.get(part, 0))


def _core_parts(timeline: Timeline, core: int, pipe: int) -> dict[str, int]:
    busy, lost = int(timeline.totals.busy_cycles[core, pipe]), timeline.totals.lost_cycles[core, pipe]
    by_cause = {wait: int(lost[wait]) for wait in BUBBLES}
    rest = timeline.makespan_cycles - busy - sum(by_cause.values())
    return _parts(busy, int(lost[Wait.BANDWIDTH]), by_cause, rest)


def _line_changes(a: RunResult, b: RunResult) -> Iterator[LineChange]:
    sides = [_line_cycles(run) for run in (a, b)]
    for line in dict.fromkeys(line for side in sides for column in side for line in column):
        (spent_a, waited_a), (spent_b, waited_b) = ((side[0][line], side[1][line]) for side in sides)
        if (spent_a, waited_a) != (spent_b, waited_b):
            yield LineChange(line, (spent_a, spent_b), (waited_a, waited_b))


def _line_cycles(run: RunResult) -> tuple[Counter[str], Counter[str]]:
    """Cycles spent and waited by kernel line, over all cores."""
    spent, waited = Counter[str](), Counter[str]()
    if run.program.templates:
        totals, lines = run.timeline.totals, analysis.TemplateRows(run.program).column("line").tolist()
        waits = totals.wait_cycles[:, list(_WAITS)].sum(axis=1).tolist()
        for line, own, wait in zip(lines, totals.spent_cycles.tolist(), waits, strict=True):
            spent[run.program.lines[line]] += own
            waited[run.program.lines[line]] += wait
    return spent, waited


# ---- text -------------------------------------------------------------------------------------------------------


def _text(found: RunComparison) -> Iterator[str]:
    for letter, name, run in zip("AB", found.names, (found.a, found.b), strict=True):
        yield f"{letter}: {run.name} on {run.device.name}, block_dim {run.program.block_dim} ({name})"
    yield ""
    yield _verdict(found)
    yield from _same_text(found)
    if found.is_equal and not found.fields:
        return
    yield ""
    yield from table(("", "A", "B", "change", ""), [_cells(figure) for figure in found.figures])
    if found.faster:
        yield ""
        yield "Why"
        yield from indented(found.reasons)
        yield ""
        yield from _pipes_text(found)
    yield from _changes_text(found)


def _verdict(found: RunComparison) -> str:
    if found.is_equal:
        return EQUAL + ("" if found.same_outputs is None else ", same outputs")
    if not found.faster:
        return f"both take {found.a.makespan_cycles:,} cycles"
    a, b = found.times
    unit = "cycles" if found.is_of_one_clock else "us"
    if found.faster == "b":
        return f"B is faster by {number(a - b)} {unit}: {b / a:.3f} of A's time"
    return f"B is slower by {number(b - a)} {unit}: {b / a:.3f} of A's time" if a else f"B takes {number(b)} {unit}"


def _same_text(found: RunComparison) -> Iterator[str]:
    """What is the same although the runs are not equal."""
    if found.is_equal:
        return
    parts = (("program", found.same_program), ("timeline", found.same_timeline), ("outputs", found.same_outputs))
    for word, wanted in (("same", True), ("other", False)):
        names = [name for name, is_same in parts if is_same is wanted]
        if names:
            yield f"{word} {', '.join(names)}"


def _cells(figure: Figure) -> tuple[str, ...]:
    a, b = ("-" if x is None else x if isinstance(x, str) else number(x) for x in (figure.a, figure.b))
    if figure.change is None or not isinstance(figure.a, int | float):
        return figure.name, a, b, "" if a == b else "differs", ""
    return figure.name, a, b, signed(figure.change), percent(figure.change, figure.a) if figure.change else ""


def _reason(found: RunComparison, lane: PipeChange) -> str:
    """Where the difference of the makespans lies on one pipe."""
    total = found.b.makespan_cycles - found.a.makespan_cycles
    parts = [f"{signed(round(change))} {part}" for part, change in lane.changes() if round(change)]
    bounds = [
        letter
        for letter, run in (("A", found.a), ("B", found.b))
        for kind, pipe, _, _ in run.bounds[:1]
        if run.lane_name(pipe, kind) == lane.pipe
    ]
    of = " (mean of its cores)" if max(lane.cores) > 1 else ""
    why = f"{signed(total)} cycles = {', '.join(parts)}{of}" if parts else "the same cycles, at another clock"
    return f"{lane.pipe}, which bounds {' and '.join(bounds)}: {why}"


def _pipes_text(found: RunComparison) -> Iterator[str]:
    yield "Cycles of a core on each pipe, A -> B"
    there = [part for part in PARTS if any(part in lane.parts for lane in found.pipes)]
    rows = []
    for lane in found.pipes:
        means = [lane.of_core(part) if part in lane.parts else (0.0, 0.0) for part in there]
        rows.append((lane.pipe, *(f"{a:,.0f} -> {b:,.0f}" if (a, b) != (0, 0) else "-" for a, b in means)))
    yield from indented(table(("pipe", *there), rows))


def _changes_text(found: RunComparison) -> Iterator[str]:
    if found.fields:
        yield ""
        yield "Differs in"
        rows = [(f.path, _value(f.a), _value(f.b)) for f in found.fields[:_MOST_FIELDS]]
        yield from indented(table(("field", "A", "B"), rows, left=3))
        yield from left_out(len(found.fields) - _MOST_FIELDS, "fields")
    for title, findings in (("Findings that came", found.came), ("Findings that went", found.went)):
        if findings:
            yield ""
            yield title
            yield from indented([str(f) for f in findings[:_MOST_FINDINGS]])
            yield from left_out(len(findings) - _MOST_FINDINGS, "findings")
    if found.cores:
        yield ""
        yield "Most changed on single cores"
        cores = _core_cells(found.cores)
        yield from indented(table(("pipe", "cycles", "cores", "A", "B", "change"), cores[:_MOST_PLACES], left=3))
        yield from left_out(len(cores) - _MOST_PLACES, "changes")
    if found.lines:
        yield ""
        yield "Most changed lines, cycles over all cores"
        lines = [(x.line, *(number(n) for n in (*x.spent, *x.waited)), signed(x.change)) for x in found.lines]
        columns = ("line", "spent A", "spent B", "waited A", "waited B", "change")
        yield from indented(table(columns, lines[:_MOST_LINES]))
        yield from left_out(len(lines) - _MOST_LINES, "lines")


def _core_cells(changes: Sequence[CoreChange]) -> list[tuple[str, ...]]:
    """Changes of single cores, equal ones on one line."""
    alike: dict[tuple[str, str, int, int], list[str]] = {}
    for c in changes:
        alike.setdefault((c.pipe, c.part, c.a, c.b), []).append(c.core)
    return [
        (pipe, part, f"{cores[0]} and {len(cores) - 1} more" if len(cores) > 1 else cores[0],
         number(a), number(b), signed(b - a))
        for (pipe, part, a, b), cores in alike.items()
    ]  # fmt: skip


def _value(value: Any) -> str:
    text = "-" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
