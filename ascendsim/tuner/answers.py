"""What a search has found: ranking, ties, what each field matters, the Pareto front, why the best beats the default.

The model is off by some percent of any makespan, and every run says by how much at most nine times in ten
(`error_bar`). Candidates whose makespans lie within that range of the best one's are ties: the model cannot tell which
of them is the fastest.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from ascendsim.errors import AscendSimError, InputError
from ascendsim.result import RunResult
from ascendsim.terms import CoreKind, Pipe
from ascendsim.tuner.evaluation import DROPPED, LEFT_OUT, TIMED, Cell, Cells, Evaluator, Row, Setup
from ascendsim.tuner.export import number_of
from ascendsim.tuner.result import CYCLES, OBJECTIVES, Effect, Gain, Part, Sensitivity, TuneResult
from ascendsim.tuner.space import DEFAULT, Value


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


def answer(setup: Setup, rows: Mapping[int, Row], objectives: Sequence[str]) -> TuneResult:
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
    return TuneResult(
        setup=setup,
        objectives=wanted,
        rows=tuple(cells),
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
        found.append(Sensitivity(field.name, effects, max(1, worst) / least - 1))
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
    lanes = [(b.kind, b.pipe) for b in default.bubbles if b.pipe is not Pipe.S]
    if not lanes:  # a kernel may leave all pipes idle
        return None
    lane = max(lanes, key=lambda lane: _busy(default, lane))
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
