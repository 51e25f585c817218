"""The parts that a trace's events are put together from: time, JSON, names of processes."""

import json
from collections.abc import Iterator
from typing import Any, Literal, TypeVar

from numpy.typing import NDArray

Time = Literal["us", "cycle"]
Ints = NDArray[Any]
Event = dict[str, Any]
Count = TypeVar("Count", int, Ints)

NS = 1000
"""Picoseconds in the viewers' unit of time."""

CYCLE_MHZ = 1000
"""The clock at which one cycle is 1 ns."""

dumps = json.JSONEncoder(separators=(",", ":")).encode
"""JSON without spaces; control characters are escaped, which Perfetto needs."""


def picoseconds(cycle: Count, mhz: int) -> Count:
    """Return a cycle's time, or that of each of several, to the nearest picosecond."""
    return (2_000_000 * cycle + mhz) // (2 * mhz)


def us(ps: int) -> str:
    """Microseconds as a decimal, which no float has touched."""
    return f"{ps // 1_000_000}.{ps % 1_000_000:06d}"


def duration(start_ps: int, end_ps: int) -> int:
    """Length of a slice, shortened by under 1 ns where start and length, each rounded to 1 ns, would pass the end.

    Source: Perfetto, JSON importer: ts and dur are rounded one by one, and slices that overlap are drawn wrong.
    """
    whole = (end_ps + NS // 2) // NS - (start_ps + NS // 2) // NS
    return min(end_ps - start_ps, whole * NS + NS // 2 - 1)


def process(pid: str, index: int) -> Iterator[str]:
    """Name and place of a process."""
    yield meta("process_name", pid, "NA", {"name": pid})
    yield meta("process_sort_index", pid, "NA", {"sort_index": index})


def thread(pid: str, tid: str, index: int) -> Iterator[str]:
    """Name and place of a lane."""
    yield meta("thread_name", pid, tid, {"name": tid})
    yield meta("thread_sort_index", pid, tid, {"sort_index": index})


def meta(name: str, pid: str, tid: str, args: Event) -> str:
    """An event that says how something is called or where it stands."""
    return dumps({"name": name, "ph": "M", "pid": pid, "tid": tid, "args": args})


def counter(pid: str, name: str, args: Event, ps: int) -> str:
    """A point of a counter; at 0 it would be dropped (MindStudio Insight, event parser), so it comes 1 ns later."""
    event = dumps({"name": name, "ph": "C", "pid": pid, "args": args})
    return f'{event[:-1]},"ts":{us(max(ps, NS))}}}'
