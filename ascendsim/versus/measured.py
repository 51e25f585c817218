"""A run beside a measured trace of the same kernel: instructions paired by core, lane and order, errors by kind.

On each lane of each core the names of both are aligned (`alignment`); pairs give errors, what is left over is listed.
The profiler draws SET_FLAG and BAR one cycle long, at their end, so these are counted only. A set is complete when all
rows before it are, while the pipe goes on: where it is drawn says nothing of its place in the order, so the sets of a
lane are a sequence of their own. A WAIT_FLAG lasts as its pipe is held,
which is a matter of schedule and not of the instruction, so it is shown and left out of the sums. Names on the scalar
lane that the run does not have are what the compiler made around the kernel's calls, which is not modelled.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import numpy as np

from ascendsim import analysis
from ascendsim.errors import InputError
from ascendsim.result import RunResult
from ascendsim.terms import Pipe
from ascendsim.trace import LANES, core_name, slice_name
from ascendsim.versus.alignment import MOST_EDITS, aligned
from ascendsim.versus.msopprof import MeasuredTrace, Slice, drawn_order
from ascendsim.versus.table import indented, left_out, number, table

SET = "SET_FLAG"
COUNTED = (SET, "BAR")
"""Drawn one cycle long, whatever they take. Source: msopprof, core timeline."""
WAITS = ("WAIT_FLAG",)
_SCALAR = LANES[Pipe.S].tid
_MOST_LEFT = 12
"""Lines of unmatched instructions in the text; plain data have all."""

Place = tuple[str, str]
"""Core and lane."""


@dataclass(frozen=True, slots=True)
class KindError:
    """Instructions of one name on one lane. Errors are the run's cycles less the trace's, over the trace's.

    Attributes:
        run_count, trace_count, matched: how many there are, and how many pairs.
        run_cycles, trace_cycles: of all pairs.
        run_median, trace_median, median_error, worst_error: of the pairs: cycles of one, and errors; None where there
            is no pair, and for names that are only counted.
        worst_at: core, which one on its lane, and the kernel line of the pair with the worst error.
    """

    lane: str
    name: str
    run_count: int
    trace_count: int
    matched: int
    run_cycles: int
    trace_cycles: int
    run_median: float | None
    trace_median: float | None
    median_error: float | None
    worst_error: float | None
    worst_at: str


@dataclass(frozen=True, slots=True)
class Unmatched:
    """An instruction that has no partner.

    Attributes:
        side: "run" or "trace".
        position: the how-many-th on its lane, from 0.
        start: cycles, as its side has it.
    """

    side: str
    core: str
    lane: str
    name: str
    position: int
    start: int
    code: str


@dataclass(frozen=True)
class TraceComparison:
    """A run beside a measured trace.

    Attributes:
        name: what the run is called.
        cores: that both have.
        cores_of_run, cores_of_trace: that only one has; a trace of one core lacks none.
        span: cycles from the first paired instruction's begin to the last one's end, in run and trace, over all cores.
        shift: cycles by which the trace's first paired instruction begins later than the run's.
        kinds: errors by lane and name, the most cycles of the trace first.
        unmatched: by core, lane and order, those of the run first.
        not_modelled: slices of the trace that the run has no counterpart of, by lane and name.
        too_different: lanes of cores that need more insertions and deletions than are looked for; nothing is paired.
        pairs: positions in `run` and `trace` slices.
    """

    result: RunResult = field(repr=False)
    trace: MeasuredTrace
    name: str
    cores: tuple[str, ...]
    cores_of_run: tuple[str, ...]
    cores_of_trace: tuple[str, ...]
    span: tuple[int, int]
    shift: int
    kinds: tuple[KindError, ...]
    unmatched: tuple[Unmatched, ...]
    not_modelled: Mapping[tuple[str, str], int]
    too_different: tuple[Place, ...]
    run_slices: tuple[Slice, ...] = field(repr=False)
    pairs: tuple[tuple[Slice, Slice], ...] = field(repr=False)

    @property
    def error(self) -> float | None:
        """What the run's span is off, over the trace's."""
        return _error(*self.span)

    def to_dict(self) -> dict[str, Any]:
        """Return it in plain numbers, ready for JSON."""
        return {
            "run": self.name,
            "trace": str(self.trace.path),
            "form": "all cores" if self.trace.is_whole else "one core",
            "clock_mhz": self.trace.clock_mhz,
            "whole_clock_mhz": self.trace.whole_clock_mhz,
            "cores": list(self.cores),
            "cores_of_run": list(self.cores_of_run),
            "cores_of_trace": list(self.cores_of_trace),
            "run_cycles": self.span[0],
            "trace_cycles": self.span[1],
            "error": self.error,
            "shift_cycles": self.shift,
            "matched": len(self.pairs),
            "kinds": [asdict(kind) for kind in self.kinds],
            "unmatched": [asdict(one) for one in self.unmatched],
            "not_modelled": [{"lane": lane, "name": n, "count": c} for (lane, n), c in self.not_modelled.items()],
            "too_different": [{"core": core, "lane": lane} for core, lane in self.too_different],
        }

    def __str__(self) -> str:
        return "\n".join(_text(self))


def compare_with_trace(
    result: RunResult, trace: MeasuredTrace, aliases: Mapping[str, str] | None = None, name: str = ""
) -> TraceComparison:
    """Return a run beside a trace.

    Args:
        result: a run whose rows were all kept.
        trace: of the same kernel.
        aliases: the run's names of instructions that the trace calls otherwise, with the trace's.
        name: what the run is called.

    Raises:
        InputError: a run whose rows were not all kept, an alias of a name that the run has not, or no core in common.
    """
    ours = _slices_of(result, aliases or {})
    sides = _by_place(ours), _by_place(trace.slices)
    have, has = (tuple(dict.fromkeys(core for core, _ in side)) for side in sides)
    common = tuple(core for core in have if core in has)
    if not common:
        raise InputError(
            f"{trace.path}: has {', '.join(has)}, the run has {', '.join(have)}: no core in common; "
            "run the kernel with the same cores, or say whose a per-core trace is with --core"
        )
    not_modelled = _not_modelled(sides[0], sides[1], common)
    pairs: list[tuple[Slice, Slice]] = []
    unmatched: list[Unmatched] = []
    too_different = []
    for place in dict.fromkeys(p for side in sides for p in side if p[0] in common):
        some = sides[0].get(place, [])
        others = [s for s in sides[1].get(place, []) if (s.lane, s.name) not in not_modelled]
        found = _paired(some, others)
        if found is None:
            too_different.append(place)
        pairs += found or ()
        taken = {id(s) for pair in found or () for s in pair}
        unmatched += [*_left("run", some, taken), *_left("trace", others, taken)]
    here = [
        [s for s in side if s.core in common and (s.lane, s.name) not in not_modelled] for side in (ours, trace.slices)
    ]
    return TraceComparison(
        result=result,
        trace=trace,
        name=name or result.name,
        cores=common,
        cores_of_run=tuple(core for core in have if core not in has) if trace.is_whole else (),
        cores_of_trace=tuple(core for core in has if core not in have),
        span=(_span([a for a, _ in pairs]), _span([b for _, b in pairs])),
        shift=min((b.start for _, b in pairs), default=0) - min((a.start for a, _ in pairs), default=0),
        kinds=tuple(_kinds(here[0], here[1], pairs)),
        unmatched=tuple(sorted(unmatched, key=lambda u: u.side)),
        not_modelled=not_modelled,
        too_different=tuple(too_different),
        run_slices=tuple(s for s in ours if s.core in common),
        pairs=tuple(pairs),
    )


def _slices_of(result: RunResult, aliases: Mapping[str, str]) -> list[Slice]:
    """The run's rows as a trace has them, from start to completion, flags and barriers one cycle long."""
    t = result.timeline
    if not t.is_whole:
        raise InputError(
            f"{result.name}: {len(t)} of its {t.row_count} rows were kept, so it cannot be compared row by row; "
            "run a smaller problem, or ask for its whole time with --trace-window"
        )
    rows, names = analysis.Rows(result.program, t), dict[tuple[int, int], str]()
    columns = zip(*(t[name].tolist() for name in ("core", "pipe", "kind", "start", "end", "row")), strict=True)
    cores = {core: core_name(result, core) for core in np.unique(t["core"]).tolist()}
    found = []
    for at, (core, pipe, kind, start, end, number_) in enumerate(columns):
        key = rows.template_of[at], number_
        if key not in names:
            names[key] = slice_name(rows.row(at), kind)
        name = names[key]
        begin = end - 1 if name in COUNTED else start
        lane = LANES[Pipe(pipe)].tid
        found.append(Slice(cores[core], lane, aliases.get(name, name), begin, end - begin, rows.line(at)))
    unknown = [name for name in aliases if name not in names.values()]
    if unknown:
        known = ", ".join(sorted(set(names.values())))
        raise InputError(f"--alias {unknown[0]}={aliases[unknown[0]]}: the run has {known}")
    return sorted(found, key=drawn_order)


def _by_place(slices: Iterable[Slice]) -> dict[Place, list[Slice]]:
    found: dict[Place, list[Slice]] = defaultdict(list)
    for one in slices:
        found[one.core, one.lane].append(one)
    return dict(found)


def _not_modelled(
    run: Mapping[Place, Sequence[Slice]], trace: Mapping[Place, Sequence[Slice]], cores: Sequence[str]
) -> dict[tuple[str, str], int]:
    """Lanes that no pipe of the run has, and on the scalar lane names that the run does not have there."""
    lanes = {lane.tid for lane in LANES.values()}
    scalar = {s.name for (_, lane), slices in run.items() if lane == _SCALAR for s in slices}
    counts = Counter(
        (s.lane, s.name)
        for (core, lane), slices in trace.items()
        for s in slices
        if core in cores and (lane not in lanes or (lane == _SCALAR and s.name not in scalar))
    )
    return dict(sorted(counts.items()))


def _paired(run: Sequence[Slice], trace: Sequence[Slice]) -> list[tuple[Slice, Slice]] | None:
    """Pairs of one lane, sets of flags apart from all others; None where either is too different."""
    pairs: list[tuple[Slice, Slice]] = []
    for is_set in (False, True):
        some, others = ([s for s in side if (s.name == SET) is is_set] for side in (run, trace))
        found = aligned([s.name for s in some], [s.name for s in others])
        if found is None:
            return None
        pairs += [(some[i], others[j]) for i, j in found]
    return pairs


def _left(side: str, slices: Sequence[Slice], taken: set[int]) -> Iterator[Unmatched]:
    for i, s in enumerate(slices):
        if id(s) not in taken:
            yield Unmatched(side, s.core, s.lane, s.name, i, s.start, s.code)


def _span(slices: Sequence[Slice]) -> int:
    return max((s.end for s in slices), default=0) - min((s.start for s in slices), default=0)


def _error(run: float, trace: float) -> float | None:
    return (run - trace) / trace if trace else None


def _kinds(run: Sequence[Slice], trace: Sequence[Slice], pairs: Sequence[tuple[Slice, Slice]]) -> Iterator[KindError]:
    counts = [Counter((s.lane, s.name) for s in side) for side in (run, trace)]
    positions = _positions(run)
    of_kind: dict[tuple[str, str], list[tuple[Slice, Slice]]] = {key: [] for key in (*counts[0], *counts[1])}
    for pair in pairs:
        of_kind[pair[0].lane, pair[0].name].append(pair)
    ordered = sorted(of_kind, key=lambda key: (-sum(b.cycles for _, b in of_kind[key]), key))
    for lane, name in ordered:
        some = of_kind[lane, name]
        timed = [] if name in COUNTED else some
        errors = [(e, a) for a, b in timed if (e := _error(a.cycles, b.cycles)) is not None]
        worst = max(errors, key=lambda one: abs(one[0]), default=None)
        yield KindError(
            lane,
            name,
            counts[0][lane, name],
            counts[1][lane, name],
            len(some),
            sum(a.cycles for a, _ in some),
            sum(b.cycles for _, b in some),
            median(a.cycles for a, _ in timed) if timed else None,
            median(b.cycles for _, b in timed) if timed else None,
            median(e for e, _ in errors) if errors else None,
            worst[0] if worst else None,
            f"{worst[1].core} #{positions[id(worst[1])]} {worst[1].code}" if worst and worst[0] else "",
        )


def _positions(slices: Sequence[Slice]) -> dict[int, int]:
    """The how-many-th of its lane each slice is, by identity."""
    seen: Counter[Place] = Counter()
    found = {}
    for s in slices:
        found[id(s)] = seen[s.core, s.lane]
        seen[s.core, s.lane] += 1
    return found


# ---- text -------------------------------------------------------------------------------------------------------


def _text(found: TraceComparison) -> Iterator[str]:
    trace, device = found.trace, found.result.device
    form = "all cores" if trace.is_whole else f"one core, {found.cores[0]}"
    yield f"run:   {found.result.name} on {device.name}, {device.clock_mhz} MHz ({found.name})"
    yield f"trace: {trace.path}, {form}, read at {trace.clock_mhz} MHz"
    yield from _notes(found)
    yield ""
    counts = [sum(getattr(kind, name) for kind in found.kinds) for name in ("run_count", "trace_count")]
    yield (
        f"{len(found.pairs):,} pairs on {len(found.cores)} core{'s' * (len(found.cores) > 1)}, "
        f"of {counts[0]:,} instructions of the run and {counts[1]:,} of the trace"
    )
    if found.pairs:
        error = "" if found.error is None else f": {found.error:+.1%}"
        yield f"first begin to last end: run {found.span[0]:,} cycles, trace {found.span[1]:,} cycles{error}"
    yield ""
    columns = (
        "lane",
        "instruction",
        "run",
        "trace",
        "pairs",
        "run median",
        "trace median",
        "error",
        "worst",
        "worst at",
    )
    yield from table(columns, [_cells(kind) for kind in found.kinds], left=2)
    if found.not_modelled:
        yield ""
        yield "Not modelled, left out of the pairs"
        rows = [(lane, name, number(count)) for (lane, name), count in found.not_modelled.items()]
        yield from indented(table(("lane", "name", "trace"), rows[:_MOST_LEFT], left=2))
        yield from left_out(len(rows) - _MOST_LEFT, "names")
    if found.unmatched:
        yield ""
        yield "Unmatched"
        left = [(u.side, u.core, u.lane, f"#{u.position}", u.name, number(u.start), u.code) for u in found.unmatched]
        heads = ("of", "core", "lane", "at", "instruction", "begins", "line")
        yield from indented(table(heads, left[:_MOST_LEFT], left=7))
        yield from left_out(len(left) - _MOST_LEFT, "instructions")


def _notes(found: TraceComparison) -> Iterator[str]:
    trace = found.trace
    if trace.whole_clock_mhz:
        yield (
            f"note: the trace's durations are no whole cycles at {trace.clock_mhz} MHz and are at "
            f"{trace.whole_clock_mhz} MHz; read it with --clock-mhz {trace.whole_clock_mhz}"
        )
    for cores, side in ((found.cores_of_run, "run"), (found.cores_of_trace, "trace")):
        if cores:
            yield f"note: only the {side} has {', '.join(cores)}"
    for core, lane in found.too_different:
        yield f"note: {core} {lane}: more than {MOST_EDITS} insertions and deletions, nothing is paired"


def _cells(kind: KindError) -> tuple[str, ...]:
    medians = ("-" if x is None else f"{x:g}" for x in (kind.run_median, kind.trace_median))
    errors = ("-" if x is None else f"{x:+.1%}" for x in (kind.median_error, kind.worst_error))
    counts = (number(n) for n in (kind.run_count, kind.trace_count, kind.matched))
    return kind.lane, kind.name, *counts, *medians, *errors, kind.worst_at
