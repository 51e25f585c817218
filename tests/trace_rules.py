"""What MindStudio Insight and Perfetto ask of a trace, as a parser of its own: it shares no code with the writer.

`violations` reads the text as both importers do and names each rule that it breaks. Sources of the rules: MindStudio
Insight, project parser and operator timeline event parser; Perfetto, JSON trace tokenizer, parser and flow tracker;
msopprof, core timeline (lanes, order, colours, counters).
"""

import json
import math
import re
from collections import defaultdict
from itertools import pairwise

LANES = {
    "SCALAR": (1, "startup"),
    "FLOWCTRL": (2, "cq_build_passed"),
    "MTE1": (3, "thread_state_running"),
    "CUBE": (4, "background_memory_dump"),
    "FIXP": (5, "thread_state_unknown"),
    "MTE2": (6, "thread_state_iowait"),
    "VECTOR": (7, "cq_build_failed"),
    "MTE3": (8, "rail_response"),
    "CACHEMISS": (9, "thread_state_runnable"),
    "SCALARLDST": (10, "startup"),
    "ALL": (11, "good"),
    "USERMARK": (12, "rail_load"),
}
"""Place and colour of each lane of a core."""
FLAG_COLOURS = {"SET_FLAG": "black", "WAIT_FLAG": "yellow", "set_event": "black", "wait_event": "yellow"}
SETS, WAITS = ("SET_FLAG", "set_event"), ("WAIT_FLAG", "wait_event")
CROSS_SETS, CROSS_WAITS = ("CROSS_CORE_SET_FLAG",), ("CROSS_CORE_WAIT_FLAG",)
THROUGHPUT = ("GM_TO_UB", "GM_TO_L1", "GM_TO_TOTAL", "UB_TO_GM", "L1_TO_GM", "TOTAL_TO_GM")
FIELDS = {
    "X": {"name", "ph", "cname", "pid", "tid", "args", "ts", "dur"},
    "B": {"name", "ph", "cname", "id", "pid", "tid", "args", "ts"},
    "E": {"name", "ph", "id", "pid", "tid", "ts"},
    "s": {"name", "ph", "cat", "id", "pid", "tid", "ts"},
    "t": {"name", "ph", "cat", "id", "pid", "tid", "ts"},
    "M": {"name", "ph", "pid", "tid", "args"},
    "C": {"name", "ph", "pid", "args", "ts"},
}
"""Fields of each kind of event, as msopprof writes them; a counter's lane is left out or 0."""
METADATA = {"process_name": "name", "thread_name": "name", "process_sort_index": "sort_index",
            "thread_sort_index": "sort_index"}  # fmt: skip
CORE = re.compile(r"core(\d+)\.(?:cubecore0|veccore(\d+))")
FLAG_DETAIL = re.compile(r"PIPE:\w+,TRIGGERPIPE:\w+,FLAGID:\d+,")
TIME = re.compile(r"\d+\.\d{1,6}|\d+")
ROUNDINGS = (0, 500)
"""Picoseconds added before times are cut to whole nanoseconds: a viewer may cut or round."""


class Number(str):
    """A number with a point, as it is written."""

    __slots__ = ()


class Trace:
    """A trace that is read, and the rules that it breaks."""

    def __init__(self, text):
        self.broken = []
        self.events = []
        self.is_cycles = False
        self._head(text)
        try:
            doc = json.loads(text, parse_float=Number, parse_constant=self._constant, object_pairs_hook=self._object)
        except ValueError as error:
            self.say("json", str(error))
            return
        self._document(doc)

    def say(self, rule, what):
        """Note a broken rule."""
        self.broken.append((rule, what))

    def _constant(self, name):
        raise ValueError(f"{name} is no JSON")

    def _object(self, pairs):
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError(f"a key comes twice among {[key for key, _ in pairs]}")
        return dict(pairs)

    def _head(self, text):
        """Insight takes a file for an operator's timeline if `profilingType` and `op` come before the first array."""
        before = text.partition("[")[0]
        if not re.search(r'"profilingType"\s*:\s*"op"', before):
            self.say("head", "profilingType is not op before the first array")
        if not before.rstrip().endswith('"traceEvents":'):
            self.say("head", "an array comes before traceEvents")

    def _document(self, doc):
        if not isinstance(doc, dict) or doc.get("schemaVersion") != 2 or doc.get("displayTimeUnit") != "ns":
            self.say("head", "no object with schemaVersion 2 and displayTimeUnit ns")
            return
        self.is_cycles = doc.get("otherData", {}).get("time") == "cycle"
        events = doc.get("traceEvents")
        if not isinstance(events, list) or not all(isinstance(e, dict) for e in events):
            self.say("head", "traceEvents is no list of objects")
            return
        self.events = [e for e in events if self._is_well_formed(e)]

    def _is_well_formed(self, e):
        """Whether an event has the fields that its kind needs, of the right types."""
        count, phase = len(self.broken), e.get("ph")
        if phase not in FIELDS:
            self.say("phase", f"{phase!r} is not handled in operator mode")
            return False
        fields = set(e) - ({"tid"} if phase == "C" and e.get("tid") == 0 else set())
        if fields != FIELDS[phase]:
            self.say("fields", f"{phase} has {sorted(fields ^ FIELDS[phase])} too much or not")
            return False
        for name in ("name", "pid", *(("tid",) if phase != "C" else ())):
            if not isinstance(e[name], str) or not e[name]:
                self.say("names", f"{name} = {e[name]!r} is no name")
        for name in ("ts", "dur"):
            if name in e:
                self._time(e, name)
        if "id" in e and (isinstance(e["id"], bool) or not isinstance(e["id"], int) or e["id"] < 1):
            self.say("id", f"{e['id']!r} is no number from 1 on")
        return len(self.broken) == count

    def _time(self, e, name):
        """Turn microseconds into whole picoseconds."""
        text = str(e[name])
        if isinstance(e[name], bool) or not isinstance(e[name], (int, Number)) or not TIME.fullmatch(text):
            self.say("time", f"{name} = {e[name]!r} is no time of at most six decimals")
            e[name] = 0
            return
        whole, _, part = text.partition(".")
        e[name] = int(whole) * 1_000_000 + int(part.ljust(6, "0") or 0)
        if self.is_cycles and e[name] % 1000:
            self.say("time", f"{name} = {text} is no whole nanosecond where one is a cycle")

    def of(self, phases):
        """Events of some kinds, in the order of the file."""
        return [e for e in self.events if e["ph"] in phases]


def violations(text):
    """Return (rule, what is wrong) of everything in a trace that one of the viewers would drop or draw wrongly."""
    trace = Trace(text)
    for check in (_metadata, _args, _flags, _arrows, _lanes, _counters, *(_perfetto(r) for r in ROUNDINGS)):
        check(trace)
    return trace.broken


def _lane(e):
    return e["pid"], e["tid"]


# ---- names and order ---------------------------------------------------------------------------------------------


def _metadata(trace):
    """Names and places come first and are there for every lane; numbers are msopprof's."""
    phases = [e["ph"] for e in trace.events]
    if "M" in phases and phases.index("M") + phases.count("M") != len(phases) - phases[::-1].index("M"):
        trace.say("metadata", "names and places do not stand together")
    if phases and phases[0] != "M":
        trace.say("metadata", "names and places do not come first")
    known = defaultdict(dict)
    for e in trace.of("M"):
        key = METADATA.get(e["name"])
        if key is None or set(e["args"]) != {key}:
            trace.say("metadata", f"{e['name']} with {sorted(e['args'])}")
            continue
        place = (e["pid"], e["tid"]) if e["name"].startswith("thread") else e["pid"]
        if place in known[e["name"]]:
            trace.say("metadata", f"{e['name']} of {place} comes twice")
        known[e["name"]][place] = e["args"][key]
    for lane in {_lane(e) for e in trace.of("XBEst")}:
        if lane not in known["thread_name"] or lane not in known["thread_sort_index"]:
            trace.say("metadata", f"lane {lane} has no name or place")
        if lane[0] not in known["process_sort_index"]:
            trace.say("metadata", f"process {lane[0]} has no place")
    _order(trace, known)


def _order(trace, known):
    vectors = max((int(m[2]) + 1 for m in map(CORE.fullmatch, known["process_sort_index"]) if m and m[2]), default=1)
    per = 3 if vectors > 1 else None
    for pid, index in known["process_sort_index"].items():
        match = CORE.fullmatch(pid)
        if match and per is not None and index != per * int(match[1]) + (1 if match[2] is None else 2 + int(match[2])):
            trace.say("order", f"process {pid} stands at {index}")
    for (pid, tid), index in known["thread_sort_index"].items():
        if CORE.fullmatch(pid) and LANES.get(tid.removesuffix("_2"), (None,))[0] != index:
            trace.say("order", f"lane {tid} stands at {index}")


def _args(trace):
    """What Insight shows of a slice is there as text; colours are those of the lane or flag."""
    for e in trace.of("XB"):
        missing = [key for key in ("detail", "code", "pc_addr") if not isinstance(e["args"].get(key), str)]
        if missing:
            trace.say("args", f"{e['name']} has no text {missing}")
        elif not re.fullmatch(r"0x[0-9a-f]+", e["args"]["pc_addr"]):
            trace.say("args", f"pc_addr {e['args']['pc_addr']!r}")
        if CORE.fullmatch(e["pid"]):
            tid = e["tid"].removesuffix("_2")
            flag = FLAG_COLOURS.get(e["name"].removeprefix("CROSS_CORE_"))
            if tid not in LANES:
                trace.say("lane", f"no lane {tid}")
            elif e["cname"] != (flag or LANES[tid][1]):
                trace.say("colour", f"{e['name']} on {tid} is {e['cname']}")


# ---- flags -------------------------------------------------------------------------------------------------------


def _flags(trace):
    """Insight pairs begin and end by name and number, over all cores; a number belongs to one set and one wait."""
    opened, of_id = {}, defaultdict(list)
    for e in trace.of("BE"):
        key = e["name"], e["id"]
        if e["name"] not in FLAG_COLOURS:
            trace.say("flag", f"begin or end of {e['name']}")
        elif e["ph"] == "B":
            _begin(trace, e, of_id[e["id"]])
            opened[key] = e
            of_id[e["id"]].append(e)
        elif key not in opened:
            trace.say("flag", f"{key} ends without a begin before it")
        else:
            _end(trace, opened.pop(key), e)
    for key in opened:
        trace.say("flag", f"{key} has no end")
    for number, some in of_id.items():
        sides = [sum(e["name"] in side for e in some) for side in (SETS, WAITS)]
        if max(sides) > 1 or len({e["args"].get("detail") for e in some}) > 1:
            trace.say("flag", f"id {number} belongs to flags that are no pair")


def _begin(trace, e, others):
    if any(e["name"] == other["name"] for other in others):
        trace.say("flag", f"{e['name']} {e['id']} begins twice")
    if not FLAG_DETAIL.fullmatch(str(e["args"].get("detail"))):
        trace.say("flag", f"{e['name']} {e['id']} has detail {e['args'].get('detail')!r}")


def _end(trace, begin, e):
    if _lane(begin) != _lane(e):
        trace.say("flag", f"{e['name']} {e['id']} ends on another lane")
    if any((e["ts"] + r) // 1000 <= (begin["ts"] + r) // 1000 for r in ROUNDINGS):
        trace.say("flag", f"{e['name']} {e['id']} has no length")


def _arrows(trace):
    """Each arrow has one begin and one end of the same name and kind, from a set to the wait of its number."""
    ends = {phase: defaultdict(list) for phase in "st"}
    for e in trace.of("st"):
        ends[e["ph"]][e["id"]].append(e)
    for number in ends["s"].keys() | ends["t"].keys():
        s, t = (ends[phase][number] for phase in "st")
        if (len(s), len(t)) != (1, 1):
            trace.say("arrow", f"id {number} has {len(s)} begins and {len(t)} ends")
            continue
        if (s[0]["name"], s[0]["cat"]) != (t[0]["name"], t[0]["cat"]):
            trace.say("arrow", f"id {number} has ends of two kinds")
        if s[0]["cat"] != f"{s[0]['tid']}To{t[0]['tid']}":
            trace.say("arrow", f"id {number} is {s[0]['cat']} from {s[0]['tid']} to {t[0]['tid']}")


# ---- slices ------------------------------------------------------------------------------------------------------


def _spans(trace):
    """(lane, start, end, event) of every slice; begins without an end were told already."""
    opened, found = {}, []
    for e in trace.of("XBE"):
        if e["ph"] == "X":
            found.append((_lane(e), e["ts"], e["ts"] + e["dur"], e))
        elif e["ph"] == "B":
            opened[e["name"], e["id"]] = e
        elif (e["name"], e["id"]) in opened:
            begin = opened.pop((e["name"], e["id"]))
            found.append((_lane(begin), begin["ts"], e["ts"], begin))
    return found


def _lanes(trace):
    """Slices of a lane do not overlap."""
    lanes = defaultdict(list)
    for lane, start, end, _ in _spans(trace):
        if end < start:
            trace.say("lane", f"a slice on {lane} ends before it begins")
        lanes[lane].append((start, end))
    for lane, spans in lanes.items():
        spans.sort()
        for before, after in pairwise(spans):
            if before[1] > after[0]:
                trace.say("overlap", f"{lane}: {before} and {after}")


def _perfetto(rounding):
    """A check that opens and closes slices as Perfetto does, with times on whole nanoseconds."""

    def ns(ps):
        return (ps + rounding) // 1000

    def key(item):
        index, e = item
        return ns(e["ts"]), 0 if e["ph"] == "E" else 1, -ns(e.get("dur", 0)) if e["ph"] in "XB" else 1, index

    def check(trace):
        stacks, begun = defaultdict(list), set()
        for _, e in sorted(enumerate(trace.of("XBEst")), key=key):
            stack, now = stacks[_lane(e)], ns(e["ts"])
            while stack and stack[-1][2] is not None and stack[-1][2] <= now:
                stack.pop()
            if e["ph"] == "E":
                _close(trace, e, stack)
            elif e["ph"] in "XB":
                _open(trace, e, stack, now, now + ns(e["dur"]) if e["ph"] == "X" else None)
            else:
                _bind(trace, e, stack, begun)

    return check


def _close(trace, e, stack):
    if not stack or stack[-1][:2] != (e["name"], e["id"]):
        trace.say("nesting", f"{e['name']} {e['id']} ends while another slice is open")
    else:
        stack.pop()


def _open(trace, e, stack, now, end):
    """A row of under 1 ns may have no length left; it covers nothing."""
    if end == now:
        return
    if stack:
        trace.say("nesting", f"{e['name']} begins at {now} while {stack[-1][0]} is open")
    stack.append((e["name"], e.get("id"), end))


def _bind(trace, e, stack, begun):
    """An arrow's end belongs to the slice that is open when it comes: the flag of its number."""
    sides = (SETS, CROSS_SETS) if e["ph"] == "s" else (WAITS, CROSS_WAITS)
    if not stack:
        trace.say("arrow", f"{e['ph']} {e['id']} comes while no slice is open")
        return
    name, number, _ = stack[-1]
    if not (name in sides[0] and number == e["id"]) and name not in sides[1]:
        trace.say("arrow", f"{e['ph']} {e['id']} comes in {name} {number}")
    if e["ph"] == "t" and e["id"] not in begun:
        trace.say("arrow", f"t {e['id']} comes before its begin")
    if e["ph"] == "s":
        begun.add(e["id"])


# ---- counters ----------------------------------------------------------------------------------------------------


def _counters(trace):
    """Insight drops points at 0; each track goes forward in time; msopprof's tracks have its names and end at 0."""
    tracks = defaultdict(list)
    for e in trace.of("C"):
        if any((e["ts"] + r) // 1000 < 1 for r in ROUNDINGS):
            trace.say("counter", f"{e['name']} at 0")
        if not e["args"] or not all(_is_number(value) for value in e["args"].values()):
            trace.say("counter", f"{e['name']} has {e['args']}")
            continue
        for key, value in e["args"].items():
            tracks[e["pid"], e["name"], key].append((e["ts"], float(value)))
    for track, points in tracks.items():
        _track(trace, track, points)
    of_throughput = {name for pid, name, _ in tracks if pid == "MTE Throughput"}
    if of_throughput and of_throughput != set(THROUGHPUT):
        trace.say("counter", f"MTE Throughput has {sorted(of_throughput)}")


def _track(trace, track, points):
    if any(after[0] <= before[0] for before, after in pairwise(points)):
        trace.say("counter", f"{track} goes back in time")
    if track[0] == "MTE Throughput":
        if track[2] != "throughput(MB/s)":
            trace.say("counter", f"{track} is no track of msopprof's")
        if points[-1][1] != 0:
            trace.say("counter", f"{track} does not end at 0")


def _is_number(value):
    return not isinstance(value, bool) and isinstance(value, (int, Number)) and math.isfinite(float(value))
