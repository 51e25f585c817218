"""The part of a report that says which instructions make the run as long as it is, and what a free pipe would save."""

from collections.abc import Mapping, Sequence

from ascendsim.critical import Edge
from ascendsim.result import MOST_PLACES, RunResult
from ascendsim.what_if import WhatIf

Cells = Sequence[tuple[str, ...]]
_MOST_EDGES = 3
_LEAST_SHARE = 0.01
"""Edges that a line of the table names: so many at most, if they have so much of it."""


def headline(result: RunResult) -> str:
    """Return who has most of the critical path, or how much of it is known."""
    shares, makespan = result.path_shares, result.makespan_cycles
    if not makespan:
        return "none"
    known = makespan - shares.unknown_cycles
    if not shares.lanes:
        return f"not known: the rows of the last {makespan} cycles were not kept"
    lanes = ((result.lane_name(pipe, kind), sum(edges.values())) for (kind, pipe), edges in shares.lanes.items())
    text = ", ".join(f"{name} {cycles / known:.0%}" for name, cycles in list(lanes)[:_MOST_EDGES])
    if not shares.unknown_cycles:
        return text
    return f"{text} of the last {known} cycles; of the {shares.unknown_cycles} before rows were not kept"


def pipe_cells(result: RunResult) -> Cells:
    """Per pipe: cycles of the critical path, their share, what they waited for, and the run with that pipe free."""
    shares, makespan = result.path_shares, max(1, result.makespan_cycles)
    free = {(one.kind, one.pipe): one for one in (result.what_if if result.timeline.is_whole else ())}
    rows = []
    for lane in dict.fromkeys((*shares.lanes, *free)):
        edges = shares.lanes.get(lane, {})
        cycles = sum(edges.values())
        kind, pipe = lane
        name = result.lane_name(pipe, kind)
        rows.append((name, str(cycles), f"{cycles / makespan:.1%}", _edges_text(edges), *_free_text(free.get(lane))))
    if shares.unknown_cycles:
        share = f"{shares.unknown_cycles / makespan:.1%}"
        rows.append(("rows not kept", str(shares.unknown_cycles), share, "", "", ""))
    return rows


def _edges_text(edges: Mapping[Edge, int]) -> str:
    """What the stretches of a pipe waited for, most first."""
    total = sum(edges.values())
    shares = [(edge.words, cycles / total) for edge, cycles in edges.items()]
    return ", ".join(f"{words} {share:.0%}" for words, share in shares[:_MOST_EDGES] if share >= _LEAST_SHARE)


def _free_text(free: WhatIf | None) -> tuple[str, str]:
    """The makespan with a pipe free, and what it would gain."""
    return ("", "") if free is None else (str(free.makespan_cycles), str(free.gain_cycles))


def place_cells(result: RunResult) -> Cells:
    """The instructions with most cycles of the critical path, and in the last row what the others have."""
    makespan, places = max(1, result.makespan_cycles), result.path_shares.places
    rows = [
        (
            result.lane_name(place.pipe, place.kind),
            place.name,
            place.line,
            str(place.count),
            str(place.cycles),
            f"{place.cycles / makespan:.1%}",
        )
        for place in places[:MOST_PLACES]
    ]
    rest = places[MOST_PLACES:]
    if rest:
        cycles = sum(place.cycles for place in rest)
        rows.append(
            (f"{len(rest)} more", "", "", str(sum(p.count for p in rest)), str(cycles), f"{cycles / makespan:.1%}")
        )
    return rows


def tables(result: RunResult) -> list[tuple[str, tuple[str, ...], Cells]]:
    """Return (title, heads, rows) of every table."""
    return [
        (
            "Critical path",
            ("pipe", "cycles", "of the makespan", "waited for", "makespan if it were free", "gain"),
            pipe_cells(result),
        ),
        (
            "Critical path by instruction",
            ("pipe", "instruction", "line", "rows", "cycles", "share"),
            place_cells(result),
        ),
    ]
