"""What a search has found, for the terminal, as lines."""

from collections.abc import Iterator, Sequence

from ascendsim.aligned import columns
from ascendsim.tuner.evaluation import DROPPED, LEFT_OUT, TIMED, Cells
from ascendsim.tuner.result import CYCLES, OBJECTIVES, TOP, Gain, Sensitivity, TuneResult
from ascendsim.tuner.space import DEFAULT, value_text

MOST_EFFECTS = 12
"""Values of a field that the table of effects shows: those next to the best one."""
_LEAST_PART = 0.001
"""Share of the default's makespan below which a part of the gain is left out."""
PART_HEADS = ("", "default", "best", "difference")


def page(found: TuneResult, top: int = TOP) -> Iterator[str]:
    """Yield what the command prints, line by line; `top` ranks are listed."""
    yield from head(found)
    if found.best is None:
        yield nothing_timed(found)
        return
    yield ""
    yield from _ranking(found, top)
    yield ""
    yield from _sensitivity(found)
    if len(found.objectives) > 1:
        yield ""
        yield from _front(found, top)
    yield ""
    yield from _against_default(found)


def closing(evaluated: int, resumed: int, files: Sequence[object]) -> Iterator[str]:
    """Yield what a search has done, and its files."""
    yield f"{evaluated} evaluated now, {resumed} known before" if resumed else f"{evaluated} evaluated"
    for file in files:
        yield f"wrote {file}"


def head(found: TuneResult) -> Iterator[str]:
    """Yield what was looked through, and what became of it."""
    setup = found.setup
    fields = ", ".join(f"{f.name} ({len(f.values)})" for f in setup.space.fields)
    points = f"{count_text(setup.space.count, 'point')} of {fields}"
    yield f"{setup.scenario.name} on {setup.scenario.load_device().name}: {points}"
    for constraint in setup.constraints:
        yield f"where {constraint.text}"
    timed = sum(found.counts.get(TIMED, {}).values())
    yield f"{timed} timed, {sum(found.counts.get(DROPPED, {}).values())} dropped before simulation"
    for kind in (DROPPED, LEFT_OUT):
        for code, count in found.counts.get(kind, {}).items():
            yield f"  {count} {kind}: {code}"


def nothing_timed(found: TuneResult) -> str:
    """Return that there is no best candidate, and what is wrong with the first."""
    first = next((row for row in found.rows if row["candidate"] != DEFAULT and row["status"] == DROPPED), None)
    why = "" if first is None else f"; number {first['candidate']}, {first['code']}: {first['reason']}"
    return f"no candidate was timed{why}"


def _ranking(found: TuneResult, top: int) -> Iterator[str]:
    yield ranking_title(found, top)
    yield from columns([heads(found), *ranking_rows(found, top)], left=())
    if found.objectives[0] == CYCLES:
        yield tie_text(found)


def ranking_title(found: TuneResult, top: int) -> str:
    """Return what stands above the ranking."""
    more = f", ties with the best: {found.ties}" if found.ties > 1 else ""
    return f"Best {min(top, len(found.ranked))} of {len(found.ranked)} by {' and '.join(found.objectives)}{more}"


def ranking_rows(found: TuneResult, top: int) -> list[tuple[str, ...]]:
    """Return the first ranks under `heads`."""
    return [_cells(found, place, row) for place, row in enumerate(found.ranked[:top], 1)]


def tie_text(found: TuneResult) -> str:
    """Return which candidates the model cannot tell apart."""
    if found.error is None:
        return "The model states no error for this kernel on this part, so no differences are called ties."
    text = f"The model may be off by {found.error:.1%} here (nine times in ten)"
    if len(found.ranked) == 1:
        return f"{text}."
    if found.ties == 1:
        return f"{text}: the best is ahead by more than that."
    return f"{text}: the {found.ties} marked = cannot be told apart."


def heads(found: TuneResult) -> tuple[str, ...]:
    """Return the names of the ranking's columns."""
    fields = tuple(f.name for f in found.setup.space.fields)
    extra = tuple(name for name in found.objectives if name != CYCLES)
    return ("", "number", *fields, "cycles", "us", "over best", *(OBJECTIVES[name] for name in extra), "bound", "busy")


def _cells(found: TuneResult, place: int, row: Cells) -> tuple[str, ...]:
    assert found.best is not None
    fields = tuple(_text(row[f.name]) for f in found.setup.space.fields)
    extra = tuple(_text(row[OBJECTIVES[name]]) for name in found.objectives if name != CYCLES)
    cycles, best = row[CYCLES], found.best[CYCLES]
    assert isinstance(cycles, int)
    assert isinstance(best, int)
    is_tie = found.objectives[0] == CYCLES and 1 < found.ties >= place
    over = f"{max(1, cycles) / max(1, best) - 1:+.1%}"
    return (
        f"{place}{'=' if is_tie else ' '}",
        _text(row["candidate"]),
        *fields,
        str(cycles),
        f"{found.us(row):.2f}",
        over,
        *extra,
        _text(row["bound"]),
        "-" if row["bound_share"] is None else f"{row['bound_share']:.1%}",
    )


def _sensitivity(found: TuneResult) -> Iterator[str]:
    yield sensitivity_title(found)
    names = ("field", "spread", f"value: {OBJECTIVES[found.objectives[0]]}")
    yield from columns([names, *effect_rows(found)], left=(0, 2))


def sensitivity_title(found: TuneResult) -> str:
    """Return what stands above the effects of fields."""
    what = OBJECTIVES[found.objectives[0]]
    return f"What each field matters: least {what} with each of its values, and its worst value over the best of all"


def effect_rows(found: TuneResult) -> list[tuple[str, str, str]]:
    """Return each field, its spread, and the least objective with each of its values."""
    return [(s.field, f"{s.spread:+.1%}", _effects(s)) for s in found.sensitivities]


def _effects(sensitivity: Sensitivity) -> str:
    effects = sensitivity.effects
    if len(effects) > MOST_EFFECTS:
        known = [i for i, e in enumerate(effects) if e.best is not None]
        best = min(known, key=lambda i: (effects[i].best or 0, i))
        first = max(0, min(best - MOST_EFFECTS // 2, len(effects) - MOST_EFFECTS))
        effects = effects[first : first + MOST_EFFECTS]
    return ", ".join(f"{value_text(e.value)}: {'-' if e.best is None else e.best}" for e in effects)


def _front(found: TuneResult, top: int) -> Iterator[str]:
    shown = found.front[:top]
    yield f"Pareto front of {' and '.join(found.objectives)}: {count_text(len(found.front), 'candidate')}"
    rows = [heads(found), *(_cells(found, len(found.ranked) + 1, row) for row in shown)]
    yield from columns([row[1:] for row in rows], left=())


def _against_default(found: TuneResult) -> Iterator[str]:
    yield from default_lines(found)
    rows = part_rows(found)
    if found.gain is not None and rows:
        yield part_title(found.gain)
        yield from columns([PART_HEADS, *rows])


def default_lines(found: TuneResult) -> Iterator[str]:
    """Yield what the scenario as it stands is, and what the best candidate gains over it."""
    if found.default is None:
        yield f"The scenario as it stands was not timed{': ' + found.why_no_default if found.why_no_default else ''}"
        return
    yield f"Default: {', '.join(f'{f.name} = {_text(found.default[f.name])}' for f in found.setup.space.fields)}"
    if found.gain is not None:
        gain = found.gain
        tie = "; a tie: less than the model's stated error" if gain.is_tie and gain.share else ""
        cycles = f"{gain.best_cycles} cycles against {gain.default_cycles}"
        yield f"Best against default: {cycles}, gain {gain.share:.1%}{tie}"


def part_title(gain: Gain) -> str:
    """Return what stands above the parts of a gain."""
    return f"Where the cycles of {gain.pipe} go, mean of its cores"


def part_rows(found: TuneResult) -> list[tuple[str, ...]]:
    """Return the parts of the gain under `PART_HEADS`, small ones left out."""
    if found.gain is None:
        return []
    least = _LEAST_PART * found.gain.default_cycles
    shown = [p for p in found.gain.parts if abs(p.saved_cycles) >= least]
    return [(p.what, f"{p.default_cycles:.0f}", f"{p.best_cycles:.0f}", f"{-p.saved_cycles:+.0f}") for p in shown]


def count_text(count: int, what: str) -> str:
    """Return how many of something there are."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def _text(cell: object) -> str:
    return "-" if cell is None else value_text(cell) if isinstance(cell, int | str) else str(cell)
