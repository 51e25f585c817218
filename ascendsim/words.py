"""Waiting causes and pipe use in words, for reports and `why`."""

from collections.abc import Mapping, Sequence

from ascendsim.analysis import Cause, PipeUse
from ascendsim.critical import Edge
from ascendsim.engine.base import Wait
from ascendsim.record import END_OF_KERNEL
from ascendsim.result import RunResult
from ascendsim.terms import CoreKind, Pipe
from ascendsim.what_if import WhatIf


def pipe_names(text: str) -> tuple[Pipe, ...]:
    """Parse "MTE2,V".

    Raises:
        ValueError: a name that is no pipe; the text lists the pipes.
    """
    known = [p.name for p in Pipe if p is not Pipe.ALL]
    found = []
    for name in text.split(","):
        if name.strip().upper() not in known:
            raise ValueError(f"{name.strip()!r} is no pipe; pipes are {', '.join(known)}")
        found.append(Pipe[name.strip().upper()])
    return tuple(found)


def cause_sentence(result: RunResult, cause: Cause) -> str:
    """Return one cause as a sentence: who waited, how long, for what, where, and what would help."""
    total = len(_uses(result, cause.pipe, cause.kind)) * result.makespan_cycles
    share = f"{cause.cycles / total:.1%}" if total else "0 %"
    times = "once" if cause.count == 1 else f"{cause.count} times"
    return (
        f"{result.lane_name(cause.pipe, cause.kind)} waited {cause.cycles} cycles ({share} of its time, {times}) "
        f"{_because(result, cause)} [{cause.line}]. {_advice(result, cause)}"
    ).strip()


def _uses(result: RunResult, pipe: Pipe, kind: CoreKind | None) -> list[PipeUse]:
    """The use of a pipe on all cores of a kind; None for those of every kind."""
    of_kind = ((k, uses) for (k, p), uses in result.lane_use.items() if p is pipe)
    return [use for k, uses in of_kind if kind in (None, k) for use in uses]


def _because(result: RunResult, cause: Cause) -> str:
    is_queue = any(q.name == cause.name for q in result.program.ques)
    if cause.line == END_OF_KERNEL:
        return f"for the last turn of queue {cause.name} when the kernel ends"
    texts = {
        Wait.BUFFER: f"because no buffer of queue {cause.name} was free: it has {_buffers(result, cause.name)}",
        Wait.FLAG: f"for data in queue {cause.name}" if is_queue else f"for the flag {cause.name}",
        Wait.BARRIER: f"for its own results at a barrier in step {cause.name}",
        Wait.BANDWIDTH: f"because other cores shared the bandwidth of tensor {cause.name}",
        Wait.UNIT_FLAG: f"for the unit flags of tensor {cause.name}",
        Wait.CROSS_CORE: f"for the cross-core {cause.name}",
        Wait.QUEUE_FULL: f"because the queue of {cause.name} was full",
        Wait.DISPATCH: f"because the scalar unit had not issued the work of {cause.name} yet",
    }
    return texts.get(cause.wait, f"for {cause.wait.words}")


_L1_TURNS, _L0_TURNS = "loading into L1 and into L0", "loading into L0 and multiplying"
_TURNS = {
    "VECOUT": "computing and storing",
    "A1": _L1_TURNS,
    "B1": _L1_TURNS,
    "C1": _L1_TURNS,
    "A2": _L0_TURNS,
    "B2": _L0_TURNS,
    "C2": _L0_TURNS,
    "CO1": "multiplying and storing",
}
"""What takes turns where a queue on a position has one buffer."""


def _buffers(result: RunResult, queue: str) -> str:
    num = next((q.num for q in result.program.ques if q.name == queue), 0)
    return "1 buffer" if num == 1 else f"{num} buffers"


def _advice(result: RunResult, cause: Cause) -> str:
    if cause.wait is Wait.BUFFER:
        return f"Give {cause.name} another buffer, or free it earlier."
    single = [q for q in result.program.ques if q.name == cause.name and q.num == 1]
    if cause.wait is Wait.FLAG and single:
        turns = _TURNS.get(single[0].position, "loading and computing")
        return f"{cause.name} has 1 buffer, so {turns} take turns; with 2 they can overlap."
    if cause.wait is Wait.DISPATCH:
        return "Issue it earlier in the program, before a step that makes the scalar unit wait."
    return ""


def why(result: RunResult, pipes: tuple[Pipe, ...], free: Sequence[WhatIf] = (), most: int = 8) -> list[str]:
    """Return how busy the given pipes were, how far they overlap, and what they waited for, in sentences.

    Args:
        result: the run.
        pipes: the pipes; none means all.
        free: what the run would take with pipes free; those of the given ones are told.
        most: causes that are told.
    """
    chosen = pipes or tuple(sorted({u.pipe for u in result.pipe_use}))
    lines = [result.device.caution] if result.device.caution else []
    lines += [sentence for pipe in chosen for sentence in _use_sentences(result, pipe)]
    lines += [
        f"{o.first.name} and {o.second.name} worked at the same time for {o.shared_cycles} cycles, "
        f"{o.share:.0%} of the less busy one's time."
        for o in result.overlaps
        if o.first in chosen and o.second in chosen
    ]
    lines += path_sentences(result, chosen)
    lines += [free_sentence(result, one) for one in free if one.pipe in chosen and one.gain_cycles]
    wanted = [c for c in result.causes if c.pipe in chosen]
    lines += [cause_sentence(result, c) for c in wanted[:most]]
    if not wanted:
        lines.append("Nothing was waited for.")
    elif len(wanted) > most:
        lines.append(f"{len(wanted) - most} smaller causes are left out.")
    return lines


_LEAST_SHARE = 0.005
"""A pipe with less of the critical path is not told."""


def path_sentences(result: RunResult, pipes: Sequence[Pipe]) -> list[str]:
    """Return what given pipes have of the critical path, and where; what is not known of it is told."""
    shares, lines = result.path_shares, []
    known = result.makespan_cycles - shares.unknown_cycles
    if shares.unknown_cycles:
        lines.append(
            f"The critical path is known for the last {known} of {result.makespan_cycles} cycles; rows before were not "
            "kept."
        )
    for (kind, pipe), edges in shares.lanes.items():
        cycles = sum(edges.values())
        if pipe in pipes and cycles >= _LEAST_SHARE * known:
            own = next(p for p in shares.places if (p.kind, p.pipe) == (kind, pipe))
            lines.append(
                f"{result.lane_name(pipe, kind)} has {cycles} cycles of the critical path ({cycles / known:.0%}), "
                f"{own.cycles} of them in {own.name} [{own.line}]; what most of them waited for: "
                f"{_edge_words(edges)}."
            )
    return lines


def _edge_words(edges: Mapping[Edge, int]) -> str:
    return max(edges, key=lambda edge: edges[edge]).words


def free_sentence(result: RunResult, one: WhatIf) -> str:
    """Return what a run would take with a pipe free."""
    change = f"{abs(one.gain_cycles)} {'less' if one.gain_cycles >= 0 else 'more'}"
    return (
        f"With {result.lane_name(one.pipe, one.kind)} free the run would take {one.makespan_cycles} cycles, {change}."
    )


def _use_sentences(result: RunResult, pipe: Pipe) -> list[str]:
    """How busy a pipe is, in a mixed kernel on each kind of core."""
    lanes = {kind: uses for (kind, p), uses in result.lane_use.items() if p is pipe}
    return [_use_sentence(result, pipe, kind, uses) for kind, uses in lanes.items()] or [f"{pipe.name} has no work."]


def _use_sentence(result: RunResult, pipe: Pipe, kind: CoreKind, uses: Sequence[PipeUse]) -> str:
    total = len(uses) * result.makespan_cycles
    busy, stalled = sum(u.busy_cycles for u in uses), sum(u.stalled_cycles for u in uses)
    return (
        f"{result.lane_name(pipe, kind)} was busy {busy / total:.0%}, stalled {stalled / total:.0%} and idle "
        f"{(total - busy - stalled) / total:.0%} of {result.makespan_cycles} cycles on {len(uses)} cores."
    )
