"""Counters of a trace: traffic, links, queues, memories, and how busy the pipes were."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

import numpy as np

from ascendsim import analysis
from ascendsim.cost import template_schedules
from ascendsim.engine.base import Kind, Wait
from ascendsim.result import RunResult
from ascendsim.terms import Buffer, CoreKind, Pipe, ceil_div
from ascendsim.trace.events import Ints, counter, picoseconds
from ascendsim.trace.lanes import LANES, core_name, cores_here
from ascendsim.trace.texts import moved_bytes

THROUGHPUT = ("GM_TO_UB", "GM_TO_L1", "GM_TO_TOTAL", "UB_TO_GM", "L1_TO_GM", "TOTAL_TO_GM")
"""Tracks of the throughput counters, in msopprof's order; those of L1 stay 0 without Cube cores. What Fixpipe stores is
in the last one only."""

MB_PER_S = 1e6 / 2**20
"""A byte per microsecond in the unit of the throughput counters, whose MB is 2**20 bytes. Source: msopprof."""

BINS = 256
"""Stretches of time that the counters of links and queues divide a run into, finer than microseconds in a short one."""


def buffers(result: RunResult, core: int, lives: Iterable[analysis.Life]) -> list[Buffer]:
    """Memories whose use is counted: those that something lies in, and UB of a core that has one."""
    own = set() if result.program.core_kind(core) is CoreKind.AIC else {Buffer.UB}
    return sorted(own | {life.buffer for life in lives})


def throughput(result: RunResult, mhz: int) -> Iterator[str]:
    """GM traffic of all cores: a point for each microsecond of the device's clock, and a last one of 0."""
    moved = {name: _moved_bytes(transfers, result.device.clock_mhz) for name, transfers in _transfers(result).items()}
    points = max((index + 2 for counts in moved.values() for index in counts), default=0)
    for total, way in (("GM_TO_TOTAL", "GM_TO_"), ("TOTAL_TO_GM", "_TO_GM")):
        moved[total] = sum((counts for name, counts in moved.items() if way in name), Counter[int]())
    for index in range(points):
        ps = picoseconds(index * result.device.clock_mhz, mhz)
        for name in THROUGHPUT:
            count = moved[name][index] if name in moved else 0
            yield counter("MTE Throughput", name, {"throughput(MB/s)": count * MB_PER_S}, ps)


def _transfers(result: RunResult) -> dict[str, list[tuple[int, int, int]]]:
    """Bytes, start and end of occupancy of every transfer, by direction."""
    t, rows = result.timeline, analysis.Rows(result.program, result.timeline)
    found: dict[str, list[tuple[int, int, int]]] = {}
    for number in np.flatnonzero(t["kind"] == Kind.TRANSFER).tolist():
        row = rows.row(number)
        assert row.src0 is not None
        assert row.dst is not None
        source, target = (rows.tensors(number)[operand.tensor].buffer.name for operand in (row.src0, row.dst))
        span = moved_bytes(row), int(t["start"][number]), int(t["occupied"][number])
        found.setdefault(f"{source}_TO_{target}", []).append(span)
    return found


def _moved_bytes(transfers: Iterable[tuple[int, int, int]], unit: int) -> Counter[int]:
    """Bytes in each unit of time, a transfer's spread evenly over its occupancy; all bytes are counted exactly once."""
    moved: Counter[int] = Counter()
    for count, start, end in transfers:
        length = max(1, end - start)
        through = 0
        for index in range(start // unit, (start + length - 1) // unit + 1):
            upto = count * (min((index + 1) * unit, start + length) - start) // length
            moved[index] += upto - through
            through = upto
    return moved


def utilisation(result: RunResult, mhz: int) -> Iterator[str]:
    """How busy each pipe was over the whole run, over all cores that have it; S left out."""
    cuts, shares = analysis.utilisation(result.timeline, result.program.block_cores)
    for pipe, share in sorted(shares.items()):
        percent = np.append(np.round(100 * share, 3), 0.0).tolist()
        for at, (before, now) in enumerate(pairwise([-1.0, *percent])):
            if now != before:
                ps = picoseconds(int(cuts[at]), mhz)
                yield counter("Utilisation", LANES[pipe].tid, {"busy(%)": now}, ps)


def local_bytes(result: RunResult, lives: Mapping[int, tuple[analysis.Life, ...]], mhz: int) -> Iterator[str]:
    """Bytes of each on-chip memory in use on each core, a point for each change."""
    for core, found in lives.items():
        for buffer in buffers(result, core, found):
            at, used = analysis.occupancy([life for life in found if life.buffer is buffer])
            pid, name = f"{core_name(result, core)} {buffer.name}", f"{buffer.name} bytes"
            before = 0
            for cycle, count in zip(at.tolist(), used.tolist(), strict=True):
                if count != before:
                    yield counter(pid, name, {"used": count}, picoseconds(cycle, mhz))
                before = count


def links(result: RunResult, mhz: int) -> Iterator[str]:
    """Bytes a second over each link that all cores share, a transfer's spread evenly over its occupancy.

    Bytes are what the link carries. What a store or load has L2 write back on top is not among them, and a load that
    meets another core's on a line counts for the link that it asks for.
    """
    bin_cycles = _bin_cycles(result)
    for name, spans in _link_spans(result).items():
        moved, before = _moved_bytes(spans, bin_cycles), -1.0
        for index in range(max(moved) + 2):
            now = round(moved[index] * result.device.clock_mhz / bin_cycles / 1000, 3)
            if now != before:
                yield counter("Links", name, {"GB/s": now}, picoseconds(index * bin_cycles, mhz))
            before = now


def _bin_cycles(result: RunResult) -> int:
    return max(1, ceil_div(result.makespan_cycles, BINS))


def _link_spans(result: RunResult) -> dict[str, list[tuple[int, int, int]]]:
    """Bytes, start and end of occupancy of every transfer, by link."""
    t, program = result.timeline, result.program
    schedules = template_schedules(program, result.device)
    names = sorted(result.device.link)
    starts = np.cumsum([0, *(len(template) for template in program.templates)])
    here = np.flatnonzero(t["kind"] == Kind.TRANSFER)
    row = starts[program.calls["template"][t["call"][here]]] + t["row"][here]
    column = {
        name: np.concatenate([np.zeros(0, np.int64), *(schedule.columns[name] for schedule in schedules)])[row]
        for name in ("link", "link_hit", "bytes", "bytes_hit")
    }
    hit = t["l2_hit"][here] > 0
    link, count = (np.where(hit, column[f"{name}_hit"], column[name]) for name in ("link", "bytes"))
    found: dict[str, list[tuple[int, int, int]]] = {}
    for number in np.unique(link[count > 0]).tolist():
        chosen = (link == number) & (count > 0)
        columns = (column[chosen].tolist() for column in (count, t["start"][here], t["occupied"][here]))
        found[names[number]] = list(zip(*columns, strict=True))
    return found


def queues(result: RunResult, mhz: int) -> Iterator[str]:
    """Rows that wait in the queue of each pipe of each core, the most of them in each stretch of time."""
    t, bin_cycles = result.timeline, _bin_cycles(result)
    taken = t["start"] - np.where(t["waited_for"] == Wait.UNIT_FLAG, t["wait_cycles"], 0)
    for core in cores_here(result):
        own = t["core"] == core
        for pipe in np.unique(t["pipe"][own]).tolist():
            if pipe != Pipe.S:
                here = own & (t["pipe"] == pipe)
                most, before = _most_waiting(t["dispatched"][here], taken[here], bin_cycles), 0
                for index, now in enumerate([*most, 0]):
                    if now != before:
                        ps = picoseconds(index * bin_cycles, mhz)
                        yield counter(f"{core_name(result, core)} queues", LANES[Pipe(pipe)].tid, {"rows": now}, ps)
                    before = now


def _most_waiting(put: Ints, taken: Ints, bin_cycles: int) -> list[int]:
    """The longest a queue is in each stretch of time, given when rows come and when they leave."""
    at, place = np.unique(np.concatenate([put, taken]), return_inverse=True)
    change = np.bincount(place[: len(put)], minlength=len(at)) - np.bincount(place[len(put) :], minlength=len(at))
    length = np.cumsum(change)
    first = np.arange(0, int(at[-1]) + 1, bin_cycles)
    carried = np.searchsorted(at, first, side="right") - 1
    most = np.where(carried >= 0, length[carried], 0)
    np.maximum.at(most, at // bin_cycles, length)
    found: list[int] = most.tolist()
    return found
