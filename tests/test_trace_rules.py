"""The rules of both viewers: our traces keep them, and a trace that breaks any one of them is refused."""

import json
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from conftest import ROOT
from trace_rules import violations

import ascendsim as asc
from ascendsim.errors import Finding
from ascendsim.trace import trace_json

TIMES = ("us", "cycle")


@pytest.fixture(scope="module")
def run():
    """Flags of a core's own and of other cores, Cube and Vector; and findings, two at one line and one at none."""
    result = asc.run(ROOT / "scenarios/matmul_plus_one.toml", set={"machine.values": "none"})
    line = "matmul_plus_one.py:45"
    found = [Finding("W-ONE", "first", where=line), Finding("W-TWO", "second", "do it", where=line)]
    return replace(result, findings=(*found, Finding("W-ALL", "nowhere", where="block_dim")))


@pytest.fixture(scope="module")
def texts(run):
    return {time: trace_json(run, time) for time in TIMES}


@pytest.mark.parametrize("time", TIMES)
def test_a_trace_keeps_every_rule(texts, time):
    assert violations(texts[time]) == []


def _events(doc, phase, **wanted):
    return [e for e in doc["traceEvents"] if e["ph"] == phase and all(e.get(k) == v for k, v in wanted.items())]


def _change(phase, **fields):
    """Change fields of the first event of a kind."""

    def change(doc):
        _events(doc, phase)[0].update(fields)

    return change


def _drop(phase, field=None):
    """Leave the first event of a kind out, or one of its fields."""

    def change(doc):
        event = _events(doc, phase)[0]
        if field is None:
            doc["traceEvents"].remove(event)
        else:
            del event[field]

    return change


def _args(phase, **fields):
    def change(doc):
        _events(doc, phase)[0]["args"].update(fields)

    return change


def _again(phase):
    """Have the first event of a kind twice."""

    def change(doc):
        event = _events(doc, phase)[0]
        doc["traceEvents"].insert(doc["traceEvents"].index(event), dict(event))

    return change


def _swap_first_two_numbers(doc):
    """The ends of two flags get each other's numbers."""
    first, *others = _events(doc, "E", name="SET_FLAG")
    other = next(e for e in others if e["pid"] == first["pid"] and e["tid"] == first["tid"])
    first["id"], other["id"] = other["id"], first["id"]


def _number_of_another_core(doc):
    first = _events(doc, "B", name="SET_FLAG")[0]
    other = next(e for e in _events(doc, "B", name="SET_FLAG") if e["pid"] != first["pid"])
    for e in doc["traceEvents"]:
        if e.get("id") == other["id"]:
            e["id"] = first["id"]


def _longer_slice(doc):
    first, second, *_ = [e for e in _events(doc, "X") if e["tid"] == "MTE2"]
    first["dur"] = second["ts"] + second["dur"] - first["ts"]


def _metadata_last(doc):
    doc["traceEvents"].append(doc["traceEvents"].pop(0))


def _arrow(phase, move):
    """Move an end of an arrow by nanoseconds."""

    def change(doc):
        event = _events(doc, phase)[0]
        event["ts"] = round(event["ts"] + move / 1000, 6)

    return change


def _arrow_after_its_end(doc):
    """The end of an arrow is told before its begin."""
    s = _events(doc, "s")[0]
    (t,) = _events(doc, "t", id=s["id"])
    s["ts"] = round(t["ts"] + 1, 6)


def _back_in_time(doc):
    first, second, *_ = _events(doc, "C", name="GM_TO_UB")
    first["ts"], second["ts"] = second["ts"], first["ts"]


def _end_before_begin(doc):
    begin = _events(doc, "B")[0]
    end = next(e for e in _events(doc, "E") if (e["name"], e["id"]) == (begin["name"], begin["id"]))
    end["ts"] = begin["ts"]


def _throughput_that_goes_on(doc):
    _events(doc, "C", name="GM_TO_UB")[-1]["args"]["throughput(MB/s)"] = 5


def _without_a_track(doc):
    doc["traceEvents"] = [e for e in doc["traceEvents"] if e["name"] != "L1_TO_GM"]


MUTANTS = {
    "an instant event": ("phase", _change("X", ph="i")),
    "an arrow that ends with f": ("phase", _change("t", ph="f")),
    "a slice without a length": ("fields", _drop("X", "dur")),
    "a slice with a field of its own": ("fields", _change("X", group="x")),
    "a flag without a number": ("fields", _drop("B", "id")),
    "a slice without a colour": ("fields", _drop("X", "cname")),
    "an empty process": ("names", _change("X", pid="")),
    "a process with a number": ("names", _change("X", pid=7)),
    "a lane with a number": ("names", _change("X", tid=3)),
    "a time in words": ("time", _change("X", ts="1.5")),
    "a time of seven decimals": ("time", _change("X", ts=0.0000001)),
    "a time before the run": ("time", _change("X", ts=-1)),
    "a number of msopprof's": ("id", _change("s", id="core0.veccore0_3")),
    "a number that is none": ("id", _change("s", id=True)),
    "number 0": ("id", _change("s", id=0)),
    "names that come last": ("metadata", _metadata_last),
    "a lane without a place": ("metadata", lambda doc: doc["traceEvents"].remove(_lane_place(doc))),
    "two places": ("metadata", _again("M")),
    "metadata nobody knows": ("metadata", _change("M", name="process_colour")),
    "a core in another's place": ("order", lambda doc: _process_place(doc)["args"].update(sort_index=9)),
    "a lane in another's place": ("order", lambda doc: _lane_place(doc)["args"].update(sort_index=5)),
    "no source line": ("args", lambda doc: _events(doc, "X")[0]["args"].pop("code")),
    "a place in the program that is no number": ("args", _args("X", pc_addr=16)),
    "a lane nobody knows": ("lane", lambda doc: _on_a_core(doc).update(tid="VEC")),
    "another pipe's colour": ("colour", lambda doc: _on_a_core(doc).update(cname="grey")),
    "a begin that is no flag's": ("flag", _change("B", name="BAR")),
    "a begin without an end": ("flag", _drop("E")),
    "an end without a begin": ("flag", _drop("B")),
    "a begin that comes twice": ("flag", _again("B")),
    "a flag of no length": ("flag", _end_before_begin),
    "ends of two flags mixed up": ("nesting", _swap_first_two_numbers),
    "one number on two cores": ("flag", _number_of_another_core),
    "a flag that does not say which": ("flag", _args("B", detail="flag 0")),
    "an arrow without an end": ("arrow", _drop("t")),
    "an arrow without a begin": ("arrow", _drop("s")),
    "ends of two kinds": ("arrow", _change("s", cat="MTE2ToMTE3")),
    "another name at the end": ("arrow", _change("t", name="dep")),
    "an arrow that begins before its slice": ("arrow", _arrow("s", -1)),
    "an arrow that ends with its slice": ("arrow", _arrow("t", 1)),
    "an arrow that points back": ("arrow", _arrow_after_its_end),
    "slices that overlap": ("overlap", _longer_slice),
    "slices that do not nest": ("nesting", _longer_slice),
    "a counter at 0": ("counter", _change("C", ts=0)),
    "a counter of words": ("counter", _change("C", args={"used": "7"})),
    "a counter without a value": ("counter", _change("C", args={})),
    "a counter that goes back": ("counter", _back_in_time),
    "throughput that does not end": ("counter", _throughput_that_goes_on),
    "a track left out": ("counter", _without_a_track),
    "schema 1": ("head", lambda doc: doc.update(schemaVersion=1)),
}


def _lane_place(doc):
    return next(e for e in _events(doc, "M", name="thread_sort_index") if e["tid"] == "MTE2")


def _process_place(doc):
    return _events(doc, "M", name="process_sort_index", pid="core1.cubecore0")[0]


def _on_a_core(doc):
    return next(e for e in _events(doc, "X") if e["pid"].startswith("core"))


@pytest.mark.parametrize("what", MUTANTS)
def test_a_broken_rule_is_found(texts, what):
    rule, change = MUTANTS[what]
    doc = json.loads(texts["us"])
    change(doc)
    assert rule in {rule for rule, _ in violations(json.dumps(doc))}


TEXTS = {
    "profilingType behind the events": lambda text: "{" + text[1:-2].removeprefix('"profilingType":"op",')
    + ',"profilingType":"op"}',
    "another type": lambda text: text.replace('"profilingType":"op"', '"profilingType":"system"'),
    "an array in the head": lambda text: text.replace('"otherData":{', '"otherData":{"list":[1],', 1),
    "a bare array": lambda text: text[text.index("[") : text.rindex("]") + 1],
    "a control character": lambda text: text.replace('"detail":"', '"detail":"\n', 1),
    "a number that is none": lambda text: re.sub(r'"ts":[\d.]+', '"ts":NaN', text, count=1),
    "a key that comes twice": lambda text: text.replace('"ph":"X"', '"ph":"X","ph":"X"', 1),
    "half a file": lambda text: text[: len(text) // 2],
    "cycles between nanoseconds": lambda text: text.replace('"time":"us"', '"time":"cycle"', 1),
}  # fmt: skip


@pytest.mark.parametrize("what", TEXTS)
def test_a_broken_text_is_found(texts, what):
    assert violations(TEXTS[what](texts["us"]))


# ---- what is not a row -------------------------------------------------------------------------------------------


def test_findings_are_marks_on_the_lane_of_user_marks(run, texts):
    marks = [e for e in json.loads(texts["cycle"])["traceEvents"] if e["ph"] == "X" and e["tid"] == "USERMARK"]
    assert [(m["name"], m["pid"], m["dur"]) for m in marks] == [
        ("W-ALL", "core0.cubecore0", 0.001),
        ("W-ONE", "core0.cubecore0", 0.001),
        ("W-TWO", "core0.cubecore0", 0.001),
    ]
    nowhere, first, second = marks
    assert (nowhere["ts"], nowhere["args"]["detail"], nowhere["args"]["code"]) == (0, "nowhere", "block_dim")
    t, lines = run.timeline, run.program.lines
    number = int(first["args"]["pc_addr"], 16)
    rows = [n for n in range(len(t)) if lines[_row(run, n).line] == "matmul_plus_one.py:45"]
    assert number == min(rows, key=lambda n: (t["start"][n], n))
    assert round(first["ts"] * 1000) == t["start"][number]
    assert round(second["ts"] * 1000) == t["start"][number] + 1
    assert second["args"] == {
        "detail": "second; do it",
        "code": "matmul_plus_one.py:45",
        "pc_addr": first["args"]["pc_addr"],
        "severity": "warning",
        "count": 1,
    }


def _row(run, number):
    call = run.timeline["call"][number]
    return run.program.templates[run.program.calls["template"][call]].rows[run.timeline["row"][number]]


def test_the_critical_path_is_a_lane_of_its_own(run, texts):
    steps = [e for e in json.loads(texts["cycle"])["traceEvents"] if e["ph"] == "X" and e["pid"] == "Critical path"]
    path = run.critical_path
    assert [(round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)) for e in steps] == [
        (s.begin_cycles, s.end_cycles) for s in path
    ]
    assert [(int(e["args"]["pc_addr"], 16), e["args"]["cycles"], e["args"]["edge"]) for e in steps] == [
        (s.row, s.cycles, s.edge.value) for s in path
    ]
    first, second = steps[:2]
    assert (first["name"], first["args"]["detail"]) == (
        "DISPATCH",
        "core0.cubecore0 SCALAR: dispatch of MOV_OUT_TO_L1_MULTI_ND2NZ; waited for: begin of the run",
    )
    assert (second["name"], second["args"]["detail"]) == (
        "MOV_OUT_TO_L1_MULTI_ND2NZ",
        "core0.cubecore0 MTE2; waited for: dispatch",
    )


def test_the_counters_of_links_add_up_to_what_the_links_carry(run, texts):
    events = json.loads(texts["cycle"])["traceEvents"]
    moved = sum(run.summary()["bytes_moved"].values())
    bins = max(1, -(-run.makespan_cycles // 256))
    points = {}
    for e in events:
        if e["ph"] == "C" and e["pid"] == "Links":
            points.setdefault(e["name"], []).append((max(0, round(e["ts"] * 1000) - 1), e["args"]["GB/s"]))
    total = 0.0
    for track in points.values():
        assert track[-1][1] == 0
        for (at, value), (after, _) in pairwise(track):
            total += value * 1000 / run.device.clock_mhz * (after - at)
    assert points
    assert total == pytest.approx(moved, rel=0.05, abs=bins)


def test_the_counters_of_queues_are_the_rows_that_wait(run, texts):
    """Against a count, cycle by cycle, of what was dispatched and has not started."""
    events = json.loads(texts["cycle"])["traceEvents"]
    t, bins = run.timeline, max(1, -(-run.makespan_cycles // 256))
    pipes = {"MTE2": 4, "CUBE": 2, "MTE1": 3, "FIXP": 6}
    core0 = [e for e in events if e["ph"] == "C" and e["pid"] == "core0.cubecore0 queues"]
    assert {e["name"] for e in core0} <= set(pipes)
    for name, pipe in pipes.items():
        here = (t["core"] == 0) & (t["pipe"] == pipe)
        taken = t["start"][here] - t["wait_cycles"][here] * (t["waited_for"][here] == 9)
        waiting = [
            int(((t["dispatched"][here] <= cycle) & (cycle < taken)).sum()) for cycle in range(run.makespan_cycles)
        ]
        want, before = [], 0
        for begin in [*range(0, run.makespan_cycles, bins), None]:
            now = 0 if begin is None else max(waiting[begin : begin + bins])
            if now != before:
                want.append(now)
            before = now
        assert [e["args"]["rows"] for e in core0 if e["name"] == name] == want
