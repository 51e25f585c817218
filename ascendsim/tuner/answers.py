"""What a search has found: ranking, ties, what each field matters, the Pareto front, why the best beats the default.

The model is off by some percent of any makespan, and every run says by how much at most nine times in ten
(`error_bar`). Candidates whose makespans lie within that range of the best one's are ties: the model cannot tell which
of them is the fastest.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ascendsim.errors import AscendSimError, InputError
from ascendsim.result import RunResult
from ascendsim.terms import CoreKind, Pipe
from ascendsim.tuner.evaluation import DROPPED, LEFT_OUT, TIMED, Cell, Evaluator, Row, Setup
from ascendsim.tuner.space import DEFAULT, Value

OBJECTIVES: Mapping[str, str] = {
    "cycles": "cycles",
    "peak_ub": "peak_ub_bytes",
    "peak_l1": "peak_l1_bytes",
    "workspace": "workspace_bytes",
}
"""What can be made small: the column of each objective."""
CYCLES = "cycles"

Cells = Mapping[str, Cell]
"""A row by the names of its columns."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What one value of a field comes to.

    Attributes:
        value: of the field.
        timed: candidates with it that were timed.
        best: the least objective of them, None where there are none.
    """

    value: Value
    timed: int
    best: int | None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How much a field matters.

    Attributes:
        field: its name.
        effects: of each of its values.
        spread: how much worse than the best of all the best candidate with its worst value is, as a share.
    """

    field: str
    effects: tuple[Effect, ...]
    spread: float


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the makespan of one pipe, the mean of its cores: busy, lost to a cause, or without work."""

    what: str
    default_cycles: float
    best_cycles: float

    @property
    def saved_cycles(self) -> float:
        """What the best candidate spends less."""
        return self.default_cycles - self.best_cycles


@dataclass(frozen=True, slots=True)
class Gain:
    """The best candidate against the scenario as it stands.

    Attributes:
        default_cycles, best_cycles: makespans.
        pipe: the pipe with the most work in the default, as reports call it.
        parts: where its cycles go in both, the largest saving first; each side adds up to its makespan.
        is_tie: the difference lies within the model's stated error.
    """

    default_cycles: int
    best_cycles: int
    pipe: str
    parts: tuple[Part, ...]
    is_tie: bool

    @property
    def share(self) -> float:
        """What is gained of the default's makespan."""
        return 1 - self.best_cycles / self.default_cycles if self.default_cycles else 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search has found.

    Attributes:
        setup: of the search.
        objectives: what was to be small; with several, the front counts.
        counts: candidates by what became of them, dropped ones by code.
        ranked: those that were timed, best first.
        front: of them, those that no other beats in every objective, by the first objective.
        default: the scenario as it stands, None where it was not timed.
        why_no_default: the reason then.
        error: how far off the best one's makespan may be, as a share; None where the model states nothing.
        ties: how many of the first ranks the model cannot tell apart, the best among them.
        sensitivities: of each field, the most important first.
        gain: of the best candidate, None without a default or a best.
    """

    setup: Setup
    objectives: tuple[str, ...]
    counts: Mapping[str, Mapping[str, int]]
    ranked: tuple[Cells, ...]
    front: tuple[Cells, ...]
    default: Cells | None
    why_no_default: str
    error: float | None
    ties: int
    sensitivities: tuple[Sensitivity, ...]
    gain: Gain | None

    @property
    def best(self) -> Cells | None:
        """The best candidate."""
        return self.ranked[0] if self.ranked else None

    def us(self, cells: Cells) -> float:
        """Return the makespan of a row in microseconds."""
        cycles = cells[CYCLES]
        assert isinstance(cycles, int)
        return self.setup.scenario.load_device().microseconds(cycles)

    def to_dict(self, top: int) -> dict[str, Any]:
        """Return the answer as plain values, with the first ranks."""
        return {
            "scenario": self.setup.scenario.name,
            "space": {f.name: list(f.values) for f in self.setup.space.fields},
            "objectives": list(self.objectives),
            "counts": {kind: dict(codes) for kind, codes in self.counts.items()},
            "stated_error": self.error,
            "ties": self.ties,
            "ranked": [dict(cells) for cells in self.ranked[:top]],
            "front": [dict(cells) for cells in self.front],
            "default": None if self.default is None else dict(self.default),
            "sensitivities": [
                {
                    "field": s.field,
                    "spread": round(s.spread, 6),
                    "values": [{"value": e.value, "timed": e.timed, "best": e.best} for e in s.effects],
                }
                for s in self.sensitivities
            ],
            "gain": None if self.gain is None else _gain_dict(self.gain),
        }


def _gain_dict(gain: Gain) -> dict[str, Any]:
    return {
        "default_cycles": gain.default_cycles,
        "best_cycles": gain.best_cycles,
        "share": round(gain.share, 6),
        "is_tie": gain.is_tie,
        "pipe": gain.pipe,
        "parts": [
            {"what": p.what, "default_cycles": round(p.default_cycles), "best_cycles": round(p.best_cycles)}
            for p in gain.parts
        ],
    }


def check_objectives(names: Sequence[str]) -> tuple[str, ...]:
    """Return objectives, cycles where none is named.

    Raises:
        InputError: an unknown one, or one twice.
    """
    for name in names:
        if name not in OBJECTIVES:
            raise InputError(f"--objective {name}: unknown; choose from {', '.join(OBJECTIVES)}")
        if names.count(name) > 1:
            raise InputError(f"--objective {name}: comes twice; name each objective once")
    return tuple(names) or (CYCLES,)


def answer(setup: Setup, rows: Mapping[int, Row], objectives: Sequence[str]) -> Answer:
    """Return what a search has found; the best candidate and the default are timed again, with their causes.

    Args:
        setup: of the search.
        rows: by number.
        objectives: names of `OBJECTIVES`, the first one ranks.
    """
    wanted = check_objectives(objectives)
    cells = [dict(zip(setup.columns, rows[number], strict=True)) for number in sorted(rows)]
    own = [row for row in cells if row["candidate"] != DEFAULT]
    columns = [OBJECTIVES[name] for name in wanted]
    ranked = ranked_rows(setup, rows, wanted)
    default = next((row for row in cells if row["candidate"] == DEFAULT), None)
    is_timed = default is not None and default["status"] == TIMED
    why = "" if is_timed or default is None else f"{default['code']}: {default['reason']}"
    evaluator = Evaluator(setup)
    best_run = _run(evaluator, ranked[0]) if ranked else None
    error = _error(best_run)
    ties = _ties(ranked, wanted, columns[0], error)
    gain = _gain(evaluator, best_run, error) if is_timed and best_run is not None else None
    return Answer(
        setup=setup,
        objectives=wanted,
        counts=_counts(own),
        ranked=tuple(ranked),
        front=tuple(front(ranked, columns)),
        default=default if is_timed else None,
        why_no_default=why,
        error=error,
        ties=ties,
        sensitivities=_sensitivities(setup, ranked, columns[0]),
        gain=gain,
    )


def ranked_rows(setup: Setup, rows: Mapping[int, Row], objectives: Sequence[str]) -> list[Cells]:
    """Return the candidates that were timed, best first; equal ones by their numbers.

    Args:
        setup: of the search.
        rows: by number.
        objectives: names of `OBJECTIVES`, the first one ranks; cycles where there are none.

    Raises:
        InputError: as `check_objectives`.
    """
    columns = [OBJECTIVES[name] for name in check_objectives(objectives)]
    cells = [dict(zip(setup.columns, row, strict=True)) for row in rows.values()]
    timed = [row for row in cells if row["candidate"] != DEFAULT and row["status"] == TIMED]
    return sorted(timed, key=lambda row: (*(_number(row[c]) for c in columns), number_of(row)))


def number_of(row: Cells) -> int:
    """Return a candidate's number."""
    return _number(row["candidate"])


def _number(cell: Cell) -> int:
    return cell if isinstance(cell, int) else 0


def _counts(rows: Sequence[Cells]) -> dict[str, dict[str, int]]:
    """Candidates by status; dropped ones by code, those with most first."""
    found: dict[str, dict[str, int]] = {}
    for status in (TIMED, DROPPED, LEFT_OUT):
        codes = Counter(str(row["code"] or "") for row in rows if row["status"] == status)
        if codes:
            found[status] = dict(sorted(codes.items(), key=lambda item: (-item[1], item[0])))
    return found


def front(ranked: Sequence[Cells], columns: Sequence[str]) -> list[Cells]:
    """Return the candidates that no other beats: none is at most as large in every column and smaller in one.

    Args:
        ranked: sorted by the columns.
        columns: what is to be small.
    """
    kept: list[tuple[tuple[int, ...], Cells]] = []
    for row in ranked:
        point = tuple(_number(row[column]) for column in columns)
        if not any(all(a <= b for a, b in zip(other, point, strict=True)) for other, _ in kept):
            kept.append((point, row))
    return [row for _, row in kept]


def _run(evaluator: Evaluator, row: Cells) -> RunResult:
    return evaluator.result(number_of(row))


def _error(run: RunResult | None) -> float | None:
    bar = None if run is None else run.error_bar
    return None if bar is None else bar.p90_error


def _ties(ranked: Sequence[Cells], objectives: Sequence[str], column: str, error: float | None) -> int:
    """How many of the first cannot be told from the best one; bytes are exact."""
    if not ranked:
        return 0
    best = _number(ranked[0][column])
    limit = best / (1 - error) if objectives[0] == CYCLES and error is not None and error < 1 else best
    return sum(_number(row[column]) <= limit for row in ranked)


def _sensitivities(setup: Setup, timed: Sequence[Cells], column: str) -> tuple[Sensitivity, ...]:
    if not timed:
        return ()
    least = max(1, min(_number(row[column]) for row in timed))
    found = []
    for field in setup.space.fields:
        effects = tuple(_effect(field.name, value, timed, column) for value in field.values)
        worst = max(effect.best for effect in effects if effect.best is not None)
        found.append(Sensitivity(field.name, effects, worst / least - 1))
    return tuple(sorted(found, key=lambda one: -one.spread))


def _effect(name: str, value: Value, timed: Sequence[Cells], column: str) -> Effect:
    own = [
        _number(row[column])
        for row in timed
        if row[name] == value and isinstance(row[name], bool) == isinstance(value, bool)
    ]
    return Effect(value, len(own), min(own, default=None))


def _gain(evaluator: Evaluator, best: RunResult, error: float | None) -> Gain | None:
    try:
        default = evaluator.result(DEFAULT)
    except AscendSimError:
        return None
    lane = max(
        ((b.kind, b.pipe) for b in default.bubbles if b.pipe is not Pipe.S),
        key=lambda lane: _busy(default, lane),
    )
    parts = _parts(default, best, lane)
    here, there = best.makespan_cycles, default.makespan_cycles
    is_tie = error is not None and (error >= 1 or max(here, there) <= min(here, there) / (1 - error))
    return Gain(there, here, default.lane_name(lane[1], lane[0]), parts, is_tie)


def _busy(run: RunResult, lane: tuple[CoreKind, Pipe]) -> float:
    return next(b.busy / b.cores for b in run.bubbles if (b.kind, b.pipe) == lane)


def _parts(default: RunResult, best: RunResult, lane: tuple[CoreKind, Pipe]) -> tuple[Part, ...]:
    there, here = _cycles_of(default, lane), _cycles_of(best, lane)
    parts = [Part(what, there.get(what, 0.0), here.get(what, 0.0)) for what in dict.fromkeys([*there, *here])]
    return tuple(sorted(parts, key=lambda part: -abs(part.saved_cycles)))


def _cycles_of(run: RunResult, lane: tuple[CoreKind, Pipe]) -> dict[str, float]:
    """Where the cycles of a pipe go, the mean of its cores; a pipe without work has no other part."""
    for b in run.bubbles:
        if (b.kind, b.pipe) == lane:
            parts = {"busy": b.busy - b.shared, "busy, sharing a link": b.shared}
            parts |= {wait.words: lost for wait, lost in b.lost.items()} | {"no work": b.rest}
            return {what: cycles / b.cores for what, cycles in parts.items() if cycles}
    return {"no work": float(run.makespan_cycles)}
