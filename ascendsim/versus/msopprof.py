"""A strict reader of the traces that msopprof's simulator writes: all cores in one file, or one core in its own.

Times are microseconds, whole cycles at the clock that the tool took for the part, in single precision. What is read are
slices: X events, and pairs of B and E. Metadata, arrows, counters and marks are looked at only as far as they must be
well-formed. What no such trace has is refused with the number of the event: half a trace would compare wrongly.

Source: msopprof, core timeline and per-core timeline; MindStudio Insight, operator timeline parser (pairs).
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NoReturn

from ascendsim.errors import InputError
from ascendsim.files import is_file
from ascendsim.trace import PATH, USERMARK

Event = Mapping[str, Any]

MOST_BYTES: Final = 1 << 30
"""Of a trace; MindStudio Insight takes no longer ones. Source: MindStudio Insight, operator tuning guide."""
LANES: Final = {
    10: "SCALAR", 20: "SCALARLDST", 30: "VECTOR", 40: "CUBE", 50: "MTE1", 60: "MTE2", 70: "MTE3", 80: "FIXP",
    90: "FLOWCTRL", 100: "ALL", 110: "CACHEMISS", 120: "USERMARK",
}  # fmt: skip
"""Pipes by the numbers that per-core traces have as pid. Source: msopprof, per-core timeline."""
OTHER_LANES: Final = frozenset(
    ("EVENT", "SET_FLAG", "WAIT_FLAG", "set_event", "wait_event", "RVECEX", "RVECLP", "RVECST", "RVECLD", "PUSHQ",
     "RVECSU")
)  # fmt: skip
"""Lanes that all-cores traces may have besides. Source: msopprof, core timeline."""
PAIRED: Final = ("SET_FLAG", "WAIT_FLAG", "set_event", "wait_event")
"""Names of slices that are begin and end. Source: MindStudio Insight, operator timeline parser."""
OVERHEAD: Final = ("cache_time", "ccu_time")
"""Slices of what the scalar unit adds to an instruction, drawn beside it. Source: msopprof, core timeline."""
CLOCKS_MHZ: Final = (1850, 1800, 1650, 1500, 1224, 1060, 800, 550, 500)
"""Clocks of parts, as msopprof and the device files have them."""
_UNREAD: Final = ("M", "C", "s", "t", "f", "i", "I")
_CORE: Final = re.compile(r"core\d+(\.(vec|cube)core\d+)?")
_SUB_LANE: Final = re.compile(r"(.+)_\d+")
_NEAR: Final = 0.02
"""A duration is a whole number of cycles if it is so near to one: single precision and six decimals are nearer."""
_MOST_SHARE: Final = 0.9
_MOST_US: Final = 10**9
"""A thousand seconds: no kernel takes so long, and its cycles are exact as floats."""
_MOST_MHZ: Final = 100_000


@dataclass(frozen=True, slots=True)
class Slice:
    """One instruction of a lane.

    Attributes:
        core: as the trace calls it, "core0.veccore0".
        lane: the pipe's lane, without the number of a sub-lane.
        start, cycles: when it begins and how long it lasts, in cycles.
        code: the source line, "" if the trace has none.
    """

    core: str
    lane: str
    name: str
    start: int
    cycles: int
    code: str

    @property
    def end(self) -> int:
        """Cycle by which it is over."""
        return self.start + self.cycles


def drawn_order(s: Slice) -> tuple[str, str, int, int]:
    """What slices are sorted by: core, lane, begin, end."""
    return s.core, s.lane, s.start, s.end


@dataclass(frozen=True)
class MeasuredTrace:
    """What a trace file holds.

    Attributes:
        is_whole: whether it has all cores; a per-core file has one.
        clock_mhz: at which its microseconds were made cycles.
        whole_clock_mhz: another clock at which its durations are whole cycles while they are not at `clock_mhz`; 0 if
            there is none.
        slices: of all lanes, by core, lane and begin.
        overhead: slices that are no instructions, by name.
    """

    path: Path
    is_whole: bool
    clock_mhz: int
    whole_clock_mhz: int
    slices: tuple[Slice, ...] = field(repr=False)
    overhead: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Raw:
    """A slice in microseconds."""

    core: str
    lane: str
    name: str
    ts: float
    dur: float
    code: str
    cycles: int = -1
    """From start to completion, which this program's own traces tell beside what they draw; -1 for none."""


def read_trace(path: str | Path, clock_mhz: int, core: str = "", *, is_fixed: bool = False) -> MeasuredTrace:
    """Read a trace.

    Args:
        path: trace.json of msopprof's simulator.
        clock_mhz: of the part; a trace that names its clock itself (as those of this program) is read with that.
        core: whose trace a per-core file is; "" takes the name of its folder.
        is_fixed: whether `clock_mhz` holds whatever the trace says.

    Raises:
        InputError: no such trace; the text names the event.
    """
    file = Path(path)
    if not 0 < clock_mhz <= _MOST_MHZ:
        raise InputError(f"clock_mhz = {clock_mhz}: must be from 1 to {_MOST_MHZ:,}")
    content = _content(file)
    raw, is_whole, overhead = _Reader(file, core).read(content)
    clock = clock_mhz if is_fixed else _own_clock(content) or clock_mhz
    ordered = sorted((_slice(r, clock) for r in raw), key=drawn_order)
    return MeasuredTrace(file, is_whole, clock, _better_clock(raw, clock), tuple(ordered), overhead)


def _slice(raw: _Raw, mhz: int) -> Slice:
    cycles = round(raw.dur * mhz) if raw.cycles < 0 else raw.cycles
    return Slice(raw.core, raw.lane, raw.name, round(raw.ts * mhz), cycles, raw.code)


def _content(file: Path) -> Event:
    """The file's object, with a list of events."""
    if not is_file(file):
        raise InputError(f"{file}: no such file")
    if file.stat().st_size > MOST_BYTES:
        raise InputError(f"{file}: {file.stat().st_size} B; a trace has at most {MOST_BYTES} B: trace fewer cores")
    try:
        content = json.loads(file.read_text(encoding="utf-8"), parse_constant=_no_number)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not JSON: {error}") from None
    if isinstance(content, list):
        raise InputError(f"{file}: an array of events; msopprof's trace is an object with the key traceEvents")
    if not isinstance(content, dict) or not isinstance(content.get("traceEvents"), list):
        raise InputError(f"{file}: no trace: the key traceEvents with an array is missing")
    for key, wanted in (("profilingType", "op"), ("displayTimeUnit", "ns")):
        if content.get(key, wanted) != wanted:
            raise InputError(f"{file}: {key} = {json.dumps(content[key])}; traces of operators have {wanted!r} there")
    return content


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


class _Reader:
    """Reads the events of one file."""

    def __init__(self, file: Path, core: str) -> None:
        self._file = file
        self._core = core
        self._at = 0
        self._is_own = False
        self._open: dict[tuple[object, ...], tuple[int, _Raw]] = {}
        self._forms: dict[bool, int] = {}

    def read(self, content: Event) -> tuple[list[_Raw], bool, Counter[str]]:
        """Return the slices, whether the file is of all cores, and slices that are no instructions by name."""
        raw, overhead = list[_Raw](), Counter[str]()
        self._is_own = _own_clock(content) > 0
        for self._at, event in enumerate(content["traceEvents"]):
            for found in self._slices(event):
                if found.name in OVERHEAD:
                    overhead[found.name] += 1
                else:
                    raw.append(found)
        if self._open:
            self._at, opened = next(iter(self._open.values()))
            self._refuse(f"{opened.name} begins here and never ends")
        if not raw:
            raise InputError(f"{self._file}: no instructions: no event has ph X, or B and E")
        return raw, True in self._forms, overhead

    def _slices(self, event: object) -> Iterator[_Raw]:
        """The slice that an event completes, if it does."""
        if not isinstance(event, dict):
            self._refuse("no object")
        phase = event.get("ph")
        if phase == "X" and self._is_own and (event.get("pid") == PATH or event.get("tid") == USERMARK.tid):
            return
        if phase == "X":
            yield self._raw(event, self._time(event, "ts"), self._time(event, "dur"))
        elif phase in ("B", "E"):
            yield from self._paired(event, phase == "B")
        elif phase == "M":
            self._check_name(event)
        elif phase not in _UNREAD:
            self._refuse(f"ph = {json.dumps(phase)}; msopprof writes X, B, E, s, t, M and C")

    def _paired(self, event: Event, is_begin: bool) -> Iterator[_Raw]:
        name, number = self._text(event, "name"), event.get("id")
        if name not in PAIRED:
            self._refuse(f"ph {event['ph']} of {name}; only {', '.join(PAIRED)} are begin and end")
        if not isinstance(number, int | str) or isinstance(number, bool):
            self._refuse(f"{name} has no id, so that nobody knows which begin and end belong together")
        key = (str(event.get("pid")), str(event.get("tid")), name, number)
        ts = self._time(event, "ts")
        if is_begin:
            if key in self._open:
                self._refuse(f"{name} {number} begins again before it has ended")
            self._open[key] = self._at, self._raw(event, ts, 0.0)
            return
        if key not in self._open:
            self._refuse(f"{name} {number} ends here and never began on this lane")
        begun = self._open.pop(key)[1]
        if ts < begun.ts:
            self._refuse(f"{name} {number} ends at {ts} us, before it begins at {begun.ts} us")
        yield replace(begun, dur=ts - begun.ts)

    def _raw(self, event: Event, ts: float, dur: float) -> _Raw:
        core, lane = self._place(event)
        args = event.get("args", {})
        if not isinstance(args, dict):
            self._refuse("args is no object")
        code = args.get("code", "")
        line = next(iter(code.splitlines()), "") if isinstance(code, str) else ""
        line = "".join(c if c.isprintable() else "?" for c in line)
        cycles = args.get("cycles", -1) if self._is_own else -1
        if isinstance(cycles, bool) or not isinstance(cycles, int):
            self._refuse(f"args.cycles = {json.dumps(cycles)}; want a whole number")
        return _Raw(core, lane, self._text(event, "name"), ts, dur, line, cycles)

    def _place(self, event: Event) -> tuple[str, str]:
        """Core and lane, from pid and tid of either form."""
        pid, tid = event.get("pid"), event.get("tid")
        is_whole = isinstance(pid, str) and not pid.isdecimal()
        self._forms.setdefault(is_whole, self._at)
        if len(self._forms) > 1:
            first = self._forms[not is_whole]
            self._refuse(f"pid = {json.dumps(pid)}, but event {first} is of the other form (all cores, or one core)")
        return self._place_of_all(str(pid), tid) if is_whole else self._place_of_one(pid, tid)

    def _place_of_all(self, pid: str, tid: object) -> tuple[str, str]:
        if not _CORE.fullmatch(pid):
            self._refuse(f"pid = {json.dumps(pid)}; want a core such as core0.veccore0 or core0.cubecore0")
        sub = _SUB_LANE.fullmatch(tid) if isinstance(tid, str) else None
        for lane in (tid, sub[1] if sub else ""):
            if isinstance(lane, str) and (lane in LANES.values() or lane in OTHER_LANES):
                return pid, lane
        return self._refuse(f"tid = {json.dumps(tid)} is no lane; msopprof has {', '.join(LANES.values())}")

    def _place_of_one(self, pid: object, tid: object) -> tuple[str, str]:
        number = int(pid) if isinstance(pid, str) and pid.isdecimal() else pid
        if isinstance(number, bool) or not isinstance(number, int) or number not in LANES:
            numbers = ", ".join(f"{n} {name}" for n, name in LANES.items())
            self._refuse(f"pid = {json.dumps(pid)}; want the name of a core, or the number of a pipe: {numbers}")
        if isinstance(tid, bool) or not (isinstance(tid, int) or (isinstance(tid, str) and tid.isdecimal())):
            self._refuse(f"tid = {json.dumps(tid)}; beside the number of a pipe want that of a sub-lane, 1, 2, ...")
        return self._own_core(), LANES[number]

    def _own_core(self) -> str:
        if not self._core:
            folder = self._file.absolute().parent.name
            if not _CORE.fullmatch(folder):
                raise InputError(
                    f"{self._file}: a trace of one core, and its folder {folder} is not called as one; "
                    "say which with --core, such as core0.veccore0"
                )
            self._core = folder
        if not _CORE.fullmatch(self._core):
            raise InputError(f"--core {self._core}: want a core such as core0.veccore0 or core0.cubecore0")
        return self._core

    def _check_name(self, event: Event) -> None:
        """Refuse a per-core file whose pipes have other numbers."""
        pid, args = event.get("pid"), event.get("args")
        if event.get("name") == "process_name" and isinstance(pid, int) and isinstance(args, dict):
            name = args.get("name")
            if pid in LANES and name != LANES[pid]:
                self._refuse(f"pid {pid} is called {json.dumps(name)}; msopprof's pipe {pid} is {LANES[pid]}")

    def _text(self, event: Event, key: str) -> str:
        value = event.get(key)
        if not isinstance(value, str) or not value or not value.isprintable():
            self._refuse(f"{key} = {json.dumps(value)}; want a name")
        return value

    def _time(self, event: Event, key: str) -> float:
        value = event.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_US:
            self._refuse(f"{key} = {json.dumps(value)}; want microseconds from 0 to {_MOST_US:,}")
        return float(value)

    def _refuse(self, why: str) -> NoReturn:
        raise InputError(f"{self._file}: event {self._at}: {why}")


def _own_clock(content: Event) -> int:
    """The clock by which a trace of this program tells its cycles; 0 of any other."""
    other = content.get("otherData")
    clock = other.get("clock_mhz") if isinstance(other, dict) else None
    if not isinstance(clock, int) or isinstance(clock, bool) or not 0 < clock <= _MOST_MHZ:
        return 0
    return 1000 if isinstance(other, dict) and other.get("time") == "cycle" else clock


def _better_clock(raw: list[_Raw], clock_mhz: int) -> int:
    """The one clock at which durations are whole cycles, where they are not at `clock_mhz`; 0 if there is none."""
    if _whole_share(raw, clock_mhz) >= _MOST_SHARE:
        return 0
    found = [mhz for mhz in CLOCKS_MHZ if _whole_share(raw, mhz) >= _MOST_SHARE]
    return found[0] if len(found) == 1 else 0


def _whole_share(raw: list[_Raw], mhz: int) -> float:
    cycles = [r.dur * mhz for r in raw if r.dur > 0]
    return sum(abs(c - round(c)) < _NEAR for c in cycles) / len(cycles) if cycles else 1.0
