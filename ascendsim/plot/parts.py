"""Which stretches of a run can be drawn row by row: all of it, or what was kept of a long one, or chosen windows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ascendsim import analysis
from ascendsim.result import RunResult

MOST = 6
"""So many parts are drawn in one picture."""


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a run of which a core's rows are all there, in cycles."""

    name: str
    first: int
    last: int


def is_in_parts(result: RunResult) -> bool:
    """Whether only parts of a run are to be drawn row by row."""
    return bool(result.windows) or not result.timeline.is_whole


def windows(result: RunResult) -> list[Part]:
    """The windows that were asked for, as far as the run reaches."""
    end = result.makespan_cycles
    known = [(first, min(last, end)) for first, last in result.windows if first < end]
    return [Part(f"window {i}" if len(known) > 1 else "window", *span) for i, span in enumerate(known, start=1)]


def kept(result: RunResult, cores: Sequence[int]) -> list[Part]:
    """What was kept of all of some cores, by time; parts that meet are one."""
    if result.timeline.is_whole:
        return [Part("run", 0, result.makespan_cycles)]
    ends = [analysis.edges(result.program, result.timeline, core) for core in cores]
    begin, end = ((max(e[i][0] for e in ends), min(e[i][1] for e in ends)) for i in (0, 1))
    parts = [Part("first part", *begin), Part("last part", *end), *windows(result)]
    found: list[Part] = []
    for part in sorted((p for p in parts if p.last > p.first), key=lambda p: p.first):
        if found and part.first <= found[-1].last:
            found[-1] = replace(found[-1], last=max(part.last, found[-1].last))
        else:
            found.append(part)
    return found


def to_draw(result: RunResult, cores: Sequence[int]) -> list[Part]:
    """The parts whose lanes are drawn: the windows if there are some, else what was kept."""
    return windows(result) if result.windows else kept(result, cores)


def left_out(parts: Sequence[Part]) -> list[str]:
    """A note that some parts are not drawn, if it is so."""
    return [f"{len(parts) - MOST} more parts are not drawn: choose fewer windows"] if len(parts) > MOST else []
