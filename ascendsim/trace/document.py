"""A run as one Chrome trace JSON that MindStudio Insight and Perfetto both open.

Everything written follows from the result. Shapes follow the trace of msopprof's simulator, and where the two viewers
differ, the narrower one decides.

**Slices.** A pipe works in order and its next row starts when the occupancy of the one before is over, so a lane needs
no sub-lanes. The drain after it overlaps the next row: a slice is drawn from start to completion only if the next row
of its lane starts no earlier, and from start to end of occupancy otherwise. SET_FLAG is always drawn without the time
until the flag is up, WAIT_FLAG and BAR with the time they hold their pipe. `cycles` is start to completion in any case.

**Time.** Picoseconds are made from each whole cycle by itself, so errors do not add up. The viewers round to 1 ns, and
a cycle of a real clock is shorter: a begin and an end on the same nanosecond would be taken in the wrong order. So a
flag is at least 1 ns long and a wait ends at least 2 ns after its set begins; what that pushes along on the lane
catches up at the next longer row. Other rows of under 1 ns may have no length in a viewer; `cycles` tells theirs. With
time="cycle" one cycle is 1 ns and nothing is moved or lost.

**Part of a run.** If a run is too long to keep all rows, or windows were asked for, the trace has only the rows that
were kept, and `otherData` says which. Traffic and queues are known only where all rows are there; instead of their
tracks there are some of how busy each pipe was, over the whole run.

Source: msopprof (trace of the simulator), MindStudio Insight (operator timeline parser), Perfetto (JSON importer).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim import __version__, analysis
from ascendsim.result import RunResult
from ascendsim.terms import Pipe
from ascendsim.trace.counters import buffers, links, local_bytes, queues, throughput, utilisation
from ascendsim.trace.events import CYCLE_MHZ, Time, dumps, process, thread
from ascendsim.trace.lanes import LANES, core_name, cores_here, sort_index
from ascendsim.trace.marks import critical_path, findings, lanes
from ascendsim.trace.parts import kept, renumbered, shown
from ascendsim.trace.rows import RowEvents


def trace_json(result: RunResult, time: Time = "us") -> str:
    """Return the trace. With time="us" times are those of the device's clock, with "cycle" one cycle is 1 ns.

    The head comes before the events and holds no array: MindStudio Insight looks for `profilingType` in what precedes
    the first one. Source: MindStudio Insight, project parser.
    """
    mhz = {"us": result.device.clock_mhz, "cycle": CYCLE_MHZ}[time]
    head = {
        "profilingType": "op",
        "schemaVersion": 2,
        "displayTimeUnit": "ns",
        "otherData": _other_data(result, time) | kept(result),
    }
    pairs = analysis.flag_pairs(analysis.Rows(result.program, result.timeline))
    run, here = result, shown(result)
    if len(here) < len(result.timeline):
        pairs = renumbered(pairs, result.timeline["number"], here["number"])
        result = replace(result, timeline=here)
    is_whole = result.timeline.is_whole
    traffic = (throughput, links, queues) if is_whole else (utilisation,)
    all_lives = analysis.Lives(result.program, result.timeline)
    lives = {core: all_lives.of(core) for core in cores_here(result)}
    rows = RowEvents(result, pairs, mhz)
    events = (
        *_metadata(result, lives),
        *lanes(result),
        *critical_path(run, rows, mhz),
        *rows.all(),
        *findings(result, mhz),
        *(event for track in traffic for event in track(result, mhz)),
        *local_bytes(result, lives, mhz),
    )
    lines = ",\n".join(events)
    return f'{dumps(head)[:-1]},"traceEvents":[\n{lines}\n]}}\n'


def _other_data(result: RunResult, time: Time) -> dict[str, Any]:
    tensors = result.scenario.get("tensors", {})
    return {
        "tool": f"ascendsim {__version__}",
        "soc": result.device.name,
        "clock_mhz": result.device.clock_mhz,
        "calibrated": result.device.calibrated.value,
        "time": time,
        "case": result.name,
        "seed": {name: spec["seed"] for name, spec in tensors.items() if "seed" in spec},
        "digest": result.digest,
        "makespan_cycles": result.makespan_cycles,
        "findings": len(result.findings),
        "errors": len(result.errors),
        "despite_findings": result.despite_findings,
    }


def _metadata(result: RunResult, lives: Mapping[int, tuple[analysis.Life, ...]]) -> Iterator[str]:
    """Names and order of processes and lanes."""
    t = result.timeline
    for core in cores_here(result):
        pid, index = core_name(result, core), sort_index(result, core)
        yield from process(pid, index)
        pipes = (Pipe(p) for p in np.unique(t["pipe"][t["core"] == core]).tolist())
        for lane in sorted((LANES[p] for p in pipes), key=lambda lane: lane.sort_index):
            yield from thread(pid, lane.tid, lane.sort_index)
        for buffer in buffers(result, core, lives[core]):
            yield from process(f"{pid} {buffer.name}", index)
        if t.is_whole:
            yield from process(f"{pid} queues", index)
