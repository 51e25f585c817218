"""What a trace shows beside the rows: the critical path, and marks where findings are."""

from collections.abc import Iterator

import numpy as np

from ascendsim import analysis
from ascendsim.critical import Edge, Step
from ascendsim.errors import Finding
from ascendsim.result import RunResult
from ascendsim.trace.events import NS, Event, dumps, duration, picoseconds, process, thread, us
from ascendsim.trace.lanes import LANES, USERMARK, core_name
from ascendsim.trace.rows import RowEvents

PATH = "Critical path"
"""Process and lane of the critical path, above all cores."""
NOT_KEPT = "ROWS_NOT_KEPT"
DISPATCH = "DISPATCH"


def critical_path(result: RunResult, rows: RowEvents, mhz: int) -> Iterator[str]:
    """One slice for each step of the critical path of a row that is in the trace; its colour is that of the pipe.

    Args:
        result: the run, with all its rows.
        rows: those of the trace.
        mhz: clock of the trace.
    """
    named = [(step, rows.title(step.row)) for step in result.critical_path]
    for step, title in ((s, t) for s, t in named if t is not None or s.edge is Edge.UNKNOWN):
        begin, end = picoseconds(step.begin_cycles, mhz), picoseconds(step.end_cycles, mhz)
        name, cname, args = _unknown(step) if title is None else _step(result, step, *title)
        yield slice_text(name, cname, (PATH, PATH), args, begin, duration(begin, end))


def _unknown(step: Step) -> tuple[str, str, Event]:
    detail = "rows of this stretch were not kept, the path is known behind it only"
    return NOT_KEPT, "grey", {"detail": detail, "code": "", "pc_addr": "0x0", "cycles": step.cycles}


def _step(result: RunResult, step: Step, name: str, code: str) -> tuple[str, str, Event]:
    """Name, colour and args of a step's slice."""
    lane = LANES[step.pipe]
    own = result.timeline["pipe"][result.timeline.position(step.row)] == step.pipe
    where = f"{core_name(result, step.core)} {lane.tid}"
    what = where if own else f"{where}: dispatch of {name}"
    args = {"detail": f"{what}; waited for: {step.edge.words}", "code": code, "pc_addr": f"0x{step.row:x}"}
    return name if own else DISPATCH, lane.cname, {**args, "cycles": step.cycles, "edge": step.edge.value}


def slice_text(name: str, cname: str, place: tuple[str, str], args: Event, begin: int, length: int) -> str:
    """A slice as JSON; begin and length in picoseconds."""
    event = dumps({"name": name, "ph": "X", "cname": cname, "pid": place[0], "tid": place[1], "args": args})
    return f'{event[:-1]},"ts":{us(begin)},"dur":{us(length)}}}'


def lanes(result: RunResult) -> Iterator[str]:
    """Names and places of the lanes of all of these."""
    if result.makespan_cycles:
        yield from process(PATH, 0)
        yield from thread(PATH, PATH, 0)
    for core in sorted({int(result.timeline["core"][at]) for at, _, _ in _placed(result)}):
        yield from thread(core_name(result, core), USERMARK.tid, USERMARK.sort_index)


def _placed(result: RunResult) -> list[tuple[int, int, Finding]]:
    """(Position of a row, its start, finding) of each finding, in order of time; none where there are no rows."""
    found = [(*_row_of(result, finding), finding) for finding in result.findings if len(result.timeline)]
    return sorted(found, key=lambda one: one[1])


def findings(result: RunResult, mhz: int) -> Iterator[str]:
    """A mark of one cycle for each finding, at the first row in the trace of the line that it names.

    Instant events would be left out by MindStudio Insight, so it is a slice on the lane of user marks of the row's
    core. A finding that names no line of the program stands at the begin, on the first core. Marks that would cover
    each other come one behind the other.
    """
    free: dict[int, int] = {}
    for at, start, finding in _placed(result):
        core = int(result.timeline["core"][at])
        pid = core_name(result, core)
        begin = max(picoseconds(start, mhz), free.get(core, 0))
        length = max(NS, picoseconds(1, mhz))
        free[core] = begin + length
        args, place = _finding(finding, int(result.timeline["number"][at])), (pid, USERMARK.tid)
        yield slice_text(finding.code, USERMARK.cname, place, args, begin, duration(begin, begin + length))


def _finding(finding: Finding, number: int) -> Event:
    detail = f"{finding.message}; {finding.hint}" if finding.hint else finding.message
    return {
        "detail": detail,
        "code": finding.where,
        "pc_addr": f"0x{number:x}",
        "severity": finding.severity.name.lower(),
        "count": finding.count,
    }


def _row_of(result: RunResult, finding: Finding) -> tuple[int, int]:
    """Position and start of the first row of a finding's line; of those on the first core where it names none."""
    t, program = result.timeline, result.program
    if finding.where in program.lines:
        line = program.lines.index(finding.where)
        lines = analysis.TemplateRows(program).column("line")
        starts = np.cumsum([0, *(len(template) for template in program.templates)])
        row = starts[program.calls["template"][t["call"]]] + t["row"]
        here = np.flatnonzero(lines[row] == line)
        if here.size:
            first = int(here[np.argmin(t["start"][here])])
            return first, int(t["start"][first])
    return 0, 0
