"""The trace as viewers see it: parsed from its text, judged by their rules and against the timeline."""

import json
from collections import Counter, defaultdict
from dataclasses import replace
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal
from itertools import pairwise

import numpy as np
import pytest

import ascendsim as asc
from ascendsim.analysis import lives, occupancy, utilisation
from ascendsim.dtypes import FLOAT
from ascendsim.engine.base import TIMELINE_COLUMNS, Kind, Skip, Timeline, Wait
from ascendsim.isa.instruction import TABLE
from ascendsim.machine import schedule
from ascendsim.memory import place_in_gm
from ascendsim.record import record
from ascendsim.result import RunResult
from ascendsim.terms import HardEvent, TPosition
from ascendsim.trace import LANES, MNEMONICS, trace_json

SMALL = {
    "block_dim": 3,
    "tiling.tile_m": 2,
    "tensors.grad.shape": [24, 64],
    "tensors.src.shape": [24, 64],
    "tensors.dst.shape": [24, 64],
    "expect.overlap.MTE2,V.min": 0.0,
}
TIMES = ("us", "cycle")
PATH = "Critical path"
INSIGHT_PHASES = set("XBEstMC")
PERFETTO_LAST = 2**63 - 1
ROUNDINGS = (ROUND_FLOOR, ROUND_HALF_UP)


def _all(result, time="us"):
    """Parsed with exact decimals, so that no comparison here depends on floats."""
    return json.loads(trace_json(result, time), parse_float=Decimal)


def _doc(result, time="us"):
    """As `_all`, without the critical path and the marks of findings, which repeat rows."""
    doc = _all(result, time)
    doc["traceEvents"] = [e for e in doc["traceEvents"] if e["pid"] != PATH and e.get("tid") != "USERMARK"]
    return doc


@pytest.fixture(scope="module")
def run():
    return asc.run("softmaxgrad_960x960_float", set=SMALL)


@pytest.fixture(scope="module")
def call():
    grad, src = np.random.default_rng(5).random((2, 8, 64), np.float32)
    return asc.softmax_grad(grad, src)


@pytest.fixture(scope="module")
def docs(run):
    return {time: _doc(run, time) for time in TIMES}


@pytest.fixture(params=TIMES)
def events(docs, request):
    return docs[request.param]["traceEvents"]


def _of(events, phases):
    return [e for e in events if e["ph"] in phases]


def _lane(event):
    return event["pid"], event["tid"]


def _row(event):
    return int(event["args"]["pc_addr"], 16)


def _slices(events):
    """(begin event, start, end) of every slice, with begin and end paired as Insight does: by name and id."""
    opened = {}
    found = []
    for e in events:
        if e["ph"] == "X":
            found.append((e, e["ts"], e["ts"] + e["dur"]))
        elif e["ph"] == "B":
            assert (e["name"], e["id"]) not in opened
            opened[e["name"], e["id"]] = e
        elif e["ph"] == "E":
            begin = opened.pop((e["name"], e["id"]))
            assert _lane(begin) == _lane(e)
            found.append((begin, begin["ts"], e["ts"]))
    assert not opened
    return found


# ---- head -------------------------------------------------------------------------------------------------------


def test_profiling_type_comes_first_and_before_any_array(run):
    text = trace_json(run)
    assert text.startswith('{"profilingType":"op",')
    before = text[: text.index("[")]
    assert "profilingType" in before
    assert before.endswith('"traceEvents":')
    doc = json.loads(text)
    assert list(doc) == ["profilingType", "schemaVersion", "displayTimeUnit", "otherData", "traceEvents"]
    assert (doc["schemaVersion"], doc["displayTimeUnit"]) == (2, "ns")


def test_other_data_says_what_ran(run, docs):
    other = docs["cycle"]["otherData"]
    assert other["tool"] == f"ascendsim {asc.__version__}"
    assert (other["soc"], other["clock_mhz"], other["time"]) == ("Ascend910B1", 1850, "cycle")
    assert other["case"] == "softmaxgrad_960x960_float"
    assert other["seed"] == {"grad": 1, "src": 2}
    assert other["digest"] == run.digest
    assert (other["findings"], other["errors"], other["despite_findings"]) == (len(run.findings), 0, False)
    assert docs["us"]["otherData"]["time"] == "us"


def test_despite_findings_is_told(run):
    assert _doc(replace(run, despite_findings=True))["otherData"]["despite_findings"] is True


def test_same_result_same_bytes(run):
    again = asc.run("softmaxgrad_960x960_float", set=SMALL)
    assert trace_json(run) == trace_json(run) == trace_json(again)


def test_control_characters_and_brackets_are_escaped_or_harmless(run):
    text = trace_json(replace(run, name='a "b"\n[c]\x01'))
    assert "\x01" not in text
    assert json.loads(text)["otherData"]["case"] == 'a "b"\n[c]\x01'
    assert text.startswith('{"profilingType":"op",')


def test_unknown_unit_of_time_is_refused(run):
    with pytest.raises(KeyError):
        trace_json(run, "s")


# ---- what the viewers take ---------------------------------------------------------------------------------------


def test_insight_takes_every_event(events):
    assert {e["ph"] for e in events} == INSIGHT_PHASES
    assert {e["name"] for e in _of(events, "BE")} == {"SET_FLAG", "WAIT_FLAG"}
    for e in events:
        assert isinstance(e["pid"], str)
        assert e["pid"]
        assert e["ph"] == "C" or e["tid"]
        assert e["ph"] == "M" or e["ts"] >= 0
    for e in _of(events, "XB"):
        assert {"detail", "code", "pc_addr"} <= set(e["args"])
        assert all(isinstance(e["args"][name], str) for name in ("detail", "code", "pc_addr"))


def test_slices_of_a_lane_do_not_overlap(events):
    lanes = defaultdict(list)
    for e, start, end in _slices(events):
        assert end >= start
        lanes[_lane(e)].append((start, end))
    for spans in lanes.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert {tid for _, tid in lanes} == {"SCALAR", "MTE2", "VECTOR", "MTE3"}


def test_flag_numbers_belong_to_one_pair(events):
    begins, ends = _of(events, "B"), _of(events, "E")
    assert Counter((e["name"], e["id"]) for e in begins) == Counter((e["name"], e["id"]) for e in ends)
    assert all(isinstance(e["id"], int) and e["id"] > 0 for e in begins)
    of_id = defaultdict(list)
    for e in begins:
        of_id[e["id"]].append(e)
    for pair in of_id.values():
        assert [e["name"] for e in sorted(pair, key=lambda e: e["name"])] == ["SET_FLAG", "WAIT_FLAG"]
        assert len({(e["pid"], e["args"]["detail"]) for e in pair}) == 1


def _check_arrows(events):
    slices = {(e["name"], e["id"]): (_lane(e), start, end) for e, start, end in _slices(events) if e["ph"] == "B"}
    starts = {e["id"]: e for e in _of(events, "s")}
    steps = {e["id"]: e for e in _of(events, "t")}
    assert starts.keys() == steps.keys() == {number for _, number in slices}
    for number, s in starts.items():
        t = steps[number]
        assert (s["name"], s["cat"]) == (t["name"], t["cat"]) == ("flow", f"{s['tid']}To{t['tid']}")
        lane, start, end = slices["SET_FLAG", number]
        assert (_lane(s), s["ts"]) == (lane, start)
        assert s["ts"] < end
        lane, start, end = slices["WAIT_FLAG", number]
        assert (_lane(t), t["ts"]) == (lane, end - Decimal("0.001"))
        assert start <= t["ts"]
        assert s["ts"] < t["ts"]


def test_arrows_stand_inside_the_slices_of_their_pair(events):
    assert _of(events, "s")
    _check_arrows(events)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_perfetto_opens_and_closes_every_slice_on_its_nanoseconds(events, rounding):
    _import_like_perfetto(events, rounding)


def _import_like_perfetto(events, rounding):
    """Its importer in small: times to 1 ns one by one, ends first, long slices first, arrows to the open slice."""

    def ns(value):
        return int((value * 1000).quantize(Decimal(1), rounding))

    def key(e):
        tie = -1 if e["ph"] == "E" else PERFETTO_LAST - ns(e.get("dur", Decimal(0)))
        return ns(e["ts"]), tie

    stacks, begun = defaultdict(list), set()
    for e in sorted(_of(events, "XBEst"), key=key):
        stack, now = stacks[_lane(e)], ns(e["ts"])
        if e["ph"] == "E":
            name, number, start, end = stack.pop()
            assert (name, number, end) == (e["name"], e["id"], None)
            assert now > start
        elif e["ph"] in "XB":
            end = now + ns(e["dur"]) if e["ph"] == "X" else None
            while stack and stack[-1][3] is not None and stack[-1][3] <= now:
                stack.pop()
            # A row of under 1 ns may have no length left; it then sorts behind the next row, at whose start it lies.
            assert not stack or (end == now and stack[-1][2] == now)
            stack.append((e["name"], e.get("id"), now, end))
        else:
            flag = "SET_FLAG" if e["ph"] == "s" else "WAIT_FLAG"
            assert stack[-1][:2] in ((flag, e["id"]), (f"CROSS_CORE_{flag}", None))
            assert stack[-1][3] is None or now < stack[-1][3]
            assert e["ph"] == "s" or e["id"] in begun
            begun.add(e["id"])
    assert all(end is not None for stack in stacks.values() for *_, end in stack)


def test_lanes_are_named_and_ordered(events):
    order = {
        (e["pid"], e["tid"]): e["args"]["sort_index"] for e in _of(events, "M") if e["name"] == "thread_sort_index"
    }
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in _of(events, "M") if e["name"] == "thread_name"}
    used = {_lane(e) for e in _of(events, "XB")}
    assert order.keys() == names.keys() == used
    assert all(name == tid for (_, tid), name in names.items())
    assert {tid: index for (_, tid), index in order.items()} == {"SCALAR": 1, "MTE2": 6, "VECTOR": 7, "MTE3": 8}
    cores = {e["pid"]: e["args"]["sort_index"] for e in _of(events, "M") if e["name"] == "process_sort_index"}
    assert [cores[f"core{c}.veccore{v}"] for c, v in ((0, 0), (0, 1), (1, 0))] == [2, 3, 5]


# ---- against the timeline ----------------------------------------------------------------------------------------


def test_every_row_is_one_slice(run, events):
    slices = _slices(events)
    assert sorted(_row(e) for e, _, _ in slices) == list(range(len(run.timeline)))
    for e, _, _ in slices:
        n = _row(e)
        core = int(run.timeline["core"][n])
        assert e["pid"] == f"core{core // 2}.veccore{core % 2}"
        assert e["tid"] == LANES[run.timeline["pipe"][n]].tid
        assert e["args"]["cycles"] == run.timeline["end"][n] - run.timeline["start"][n]
        assert e["args"]["call"] == run.timeline["call"][n]


@pytest.mark.parametrize("name", ["run", "call"])
def test_in_cycle_mode_times_are_the_timeline_s_cycles(name, request):
    result = request.getfixturevalue(name)
    t = result.timeline
    latest, following = {}, {}
    for n in reversed(range(len(t))):
        lane = int(t["core"][n]), int(t["pipe"][n])
        following[n] = latest.get(lane)
        latest[lane] = t["start"][n]
    for e, start, end in _slices(_doc(result, "cycle")["traceEvents"]):
        n = _row(e)
        assert start * 1000 == int(t["start"][n])
        fits = following[n] is None or t["end"][n] <= following[n]
        whole = fits and e["name"] != "SET_FLAG"
        assert end * 1000 == int(t["end" if whole else "occupied"][n])


def test_in_us_mode_times_are_the_clock_s(run, docs):
    mhz = run.device.clock_mhz
    text = trace_json(run)
    assert all(len(part.split(",")[0].split("}")[0].split(".")[1]) == 6 for part in text.split('"ts":')[1:])
    for e, start, _ in _slices(docs["us"]["traceEvents"]):
        exact = Decimal(int(run.timeline["start"][_row(e)])) / mhz
        assert Decimal("-0.000001") < start - exact < Decimal("0.005")


def test_transfers_carry_all_bytes(run, events):
    moved = Counter()
    for e in _of(events, "X"):
        assert ("process_bytes" in e["args"]) == (e["name"] in ("MOV_OUT_TO_UB", "MOV_UB_TO_OUT"))
        moved[e["name"]] += e["args"].get("process_bytes", 0)
    summary = run.summary()["bytes_moved"]
    assert moved["MOV_OUT_TO_UB"] == summary["grad read"] + summary["src read"] == 2 * 24 * 64 * 4
    assert moved["MOV_UB_TO_OUT"] == summary["dst written"] == 24 * 64 * 4


def test_stalls_say_why_and_on_what(run, events):
    t = run.timeline
    for e in _of(events, "XB"):
        n = _row(e)
        reason = Wait(int(t["waited_for"][n]))
        stalled = t["wait_cycles"][n] > 0 and reason not in (Wait.NOTHING, Wait.PIPE_ORDER)
        assert ("stall" in e["args"]) == stalled
        if stalled:
            stall = e["args"]["stall"]
            assert (stall["reason"], stall["cycles"]) == (reason.words, t["wait_cycles"][n])
            assert stall["name"]
        assert e["args"].get("stretch_cycles", 0) == t["stretch_cycles"][n]
    names = {e["args"]["stall"]["name"] for e in _of(events, "B") if "stall" in e["args"]}
    assert {"in_grad", "out"} <= names


def test_a_wait_that_had_to_wait_is_paired_with_the_set_that_released_it(run, events):
    t = run.timeline
    waited = [e for e in _of(events, "B") if e["args"].get("stall", {}).get("reason") in ("flag", "buffer not free")]
    assert waited
    for e in waited:
        assert e["name"] == "WAIT_FLAG"
        assert e["id"] - 1 == t["released_by"][_row(e)]


def test_tile_index_counts_the_tiles_of_a_core(run, events):
    tiles = defaultdict(set)
    for e in _of(events, "X"):
        if e["name"] == "MOV_OUT_TO_UB":
            tiles[e["pid"]].add(e["args"]["tile"])
    assert set(map(frozenset, tiles.values())) == {frozenset({0, 1, 2, 3})}
    assert all("tile" not in e["args"] for e in _of(events, "XB") if run.program.calls["tile"][e["args"]["call"]] < 0)


# ---- counters ----------------------------------------------------------------------------------------------------


def test_counters_begin_after_0_and_end_at_0(run, events):
    tracks = defaultdict(list)
    for e in _of(events, "C"):
        (value,) = e["args"].values()
        tracks[e["pid"], e["name"]].append((e["ts"], value))
    throughput = {name for pid, name in tracks if pid == "MTE Throughput"}
    assert throughput == {"GM_TO_UB", "GM_TO_L1", "GM_TO_TOTAL", "UB_TO_GM", "L1_TO_GM", "TOTAL_TO_GM"}
    assert sum(name == "UB bytes" for _, name in tracks) == run.program.block_dim
    for points in tracks.values():
        assert points[0][0] >= Decimal("0.001")
        assert points[-1][1] == 0
        assert [ts for ts, _ in points] == sorted({ts for ts, _ in points})


def test_throughput_adds_up_to_all_bytes(run, docs):
    """A point holds for one microsecond of the device's clock; the unit is 2**20 bytes per second."""
    summary = run.summary()["bytes_moved"]
    want = {"GM_TO_UB": summary["grad read"] + summary["src read"], "UB_TO_GM": summary["dst written"]}
    want |= {"GM_TO_TOTAL": want["GM_TO_UB"], "TOTAL_TO_GM": want["UB_TO_GM"], "GM_TO_L1": 0, "L1_TO_GM": 0}
    for doc in docs.values():
        total = Counter()
        for e in _of(doc["traceEvents"], "C"):
            if e["pid"] == "MTE Throughput":
                total[e["name"]] += e["args"]["throughput(MB/s)"] * 2**20 / 10**6
        assert {name: total[name] for name in want} == want


def test_ub_counter_is_the_occupancy_of_each_core(run, events):
    for core in range(run.program.block_dim):
        pid = f"core{core // 2}.veccore{core % 2} UB"
        shown = [e["args"]["used"] for e in _of(events, "C") if e["pid"] == pid]
        used = occupancy(lives(run.program, run.timeline, core))[1].tolist()
        assert shown == [now for before, now in pairwise([0, *used]) if now != before]
        assert all(before != after for before, after in pairwise(shown))


# ---- known rows --------------------------------------------------------------------------------------------------


def test_vector_lane_of_one_call(call):
    shown = [e["name"] for e in _doc(call)["traceEvents"] if e.get("tid") == "VECTOR" and e["ph"] == "X"]
    assert shown == [
        "VMUL", "BAR", "VCGADD", "BAR", "MOV_UB_TO_UB", "BAR", "VCGADD", "BAR", "VBRCB", "BAR", "VCOPY", "BAR", "VSUB",
        "BAR", "VMUL",
    ]  # fmt: skip


def test_first_rows_of_one_call(call):
    x = _of(_doc(call, "cycle")["traceEvents"], "X")
    lines = [line for line in call.program.lines if line.startswith("softmax_grad_nd.py:")]
    place = {"ph": "X", "cname": "startup", "pid": "core0.veccore0", "tid": "SCALAR"}
    common = {"code": f"{lines[0]}\nSoftmaxGrad/mul", "call": 0}
    one = {"ts": Decimal("0.000000"), "dur": Decimal("0.001000")}
    spr = {"detail": "SPR:CTRL,MASK_MODE:count", "pc_addr": "0x0", "cycles": 1, **common}
    assert x[0] == {"name": "MOV_SPR_XN", **place, **one, "args": spr}
    assert x[1]["name"] == "MOVEMASK"
    assert x[1]["args"]["detail"] == "COUNT:512"
    assert x[2]["name"] == "VMUL"
    assert x[2]["args"]["detail"] == (
        "DST:0x1800(tmp),SRC0:0x800(src),SRC1:0x0(grad),REPEAT:1,DST_BLK_STRIDE:1,SRC0_BLK_STRIDE:1,"
        "SRC1_BLK_STRIDE:1,DST_REP_STRIDE:8,SRC0_REP_STRIDE:8,SRC1_REP_STRIDE:8,DTYPE:f32,COUNT:512"
    )
    assert x[4]["args"]["detail"] == f"MASK:0x{'f' * 32}"


def test_half_shows_conversions():
    grad, src = np.random.default_rng(6).random((2, 8, 64)).astype(np.float16)
    names = {e["name"] for e in _doc(asc.softmax_grad(grad, src))["traceEvents"]}
    assert {n for n in names if n.startswith("VCONV")} == {"VCONV_F162F32", "VCONV_F322F16A"}


def _load_and_double(core, x):
    pipe = core.t_pipe()
    queue = core.t_que(TPosition.VECIN, 1, "in_x")
    pipe.init_buffer(queue, 1, 256)
    local = queue.alloc_tensor("float")
    core.data_copy(local, x[64], 64)
    queue.enque(local)
    local = queue.deque("float")
    core.muls(local, local, 2.0, 64)
    core.set_flag(HardEvent.V_MTE3, 5)


@pytest.fixture(scope="module")
def double(device):
    program = record(_load_and_double, device, 1, place_in_gm([("x", FLOAT, (2, 64))]), ()).program
    timeline = schedule(program, device, "reference", "model")
    return RunResult("double", device, program, timeline, {}, (), {})


def test_transfer_and_flags_of_a_kernel_of_one_s_own(double):
    events = _doc(double, "cycle")["traceEvents"]
    rows = {_row(e): e for e in _of(events, "XB")}
    kinds = double.timeline["kind"].tolist()
    copy = rows[kinds.index(Kind.TRANSFER)]
    assert copy["name"] == "MOV_OUT_TO_UB"
    base = double.program.gm[0].base_bytes
    assert copy["args"]["detail"] == (
        f"DST:0x0(in_x),SRC0:0x{base + 256:x}(x+256),BLOCK_COUNT:1,BLOCK_LEN:8,SRC_GAP:0,DST_GAP:0,DTYPE:b8"
    )
    assert copy["args"]["process_bytes"] == 256
    assert copy["args"]["l2"] == "miss"
    assert copy["args"]["code"].startswith("test_trace.py:")
    assert "tile" not in copy["args"]
    first = kinds.index(Kind.SET_FLAG)
    wait = kinds.index(Kind.WAIT_FLAG)
    assert (rows[first]["tid"], rows[wait]["tid"]) == ("MTE2", "VECTOR")
    assert rows[first]["id"] == rows[wait]["id"] == first + 1
    assert rows[first]["args"]["detail"] == rows[wait]["args"]["detail"] == "PIPE:MTE2,TRIGGERPIPE:VEC,FLAGID:0,"
    assert rows[wait]["args"]["stall"]["name"] == "in_x"
    muls = next(e for e in rows.values() if e["name"] == "VMULS")
    assert "SCALAR:0x40000000" in muls["args"]["detail"]


def test_a_flag_nobody_waits_for_has_a_slice_and_no_arrow(double):
    events = _doc(double)["traceEvents"]
    lonely = [e for e in _of(events, "B") if e["args"]["detail"] == "PIPE:VEC,TRIGGERPIPE:MTE3,FLAGID:5,"]
    assert len(lonely) == 1
    assert lonely[0]["id"] not in {e["id"] for e in _of(events, "st")}
    _slices(events)


def _raise_many(core):
    """MTE3 waits for the last of many flags that V raises cycle after cycle."""
    for event_id in reversed(range(8)):
        core.wait_flag(HardEvent.V_MTE3, event_id)
    for event_id in range(8):
        core.set_flag(HardEvent.V_MTE3, event_id)


@pytest.mark.parametrize("time", TIMES)
def test_arrows_point_forward_where_flags_come_faster_than_nanoseconds(device, time):
    program = record(_raise_many, device, 1, (), ()).program
    result = RunResult("flags", device, program, schedule(program, device, "reference", "model"), {}, (), {})
    events = _doc(result, time)["traceEvents"]
    assert len(_of(events, "s")) == 8
    _check_arrows(events)
    for rounding in ROUNDINGS:
        _import_like_perfetto(events, rounding)


def test_a_run_without_rows_is_a_trace_without_rows(double):
    columns = {name: np.zeros(0, np.int64) for name in TIMELINE_COLUMNS}
    nothing = Timeline(columns, 0, 0, double.timeline.totals)
    assert _doc(replace(double, timeline=nothing))["traceEvents"] == []


def test_mnemonic_table_names_known_instructions():
    assert set(MNEMONICS) <= {instruction.mnemonic for instruction in TABLE.values()}


# ---- part of a run -----------------------------------------------------------------------------------------------


def _kept(result, numbers):
    columns = {name: column[numbers] for name, column in result.timeline.columns.items()}
    return replace(result, timeline=replace(result.timeline, columns=columns))


@pytest.fixture(scope="module")
def long(run):
    """The first and last four calls of every core."""
    core, calls = run.program.calls["core"], np.zeros(len(run.program.calls["core"]), np.bool_)
    for number in range(run.program.block_dim):
        mine = np.flatnonzero(core == number)
        calls[mine[:4]] = calls[mine[-4:]] = True
    part = _kept(run, np.flatnonzero(calls[run.timeline["call"]]))
    assert 0 < len(part.timeline) < len(run.timeline)
    return part


@pytest.fixture(scope="module")
def windows(run):
    return replace(run, windows=((500, 900), (2000, 2200)))


@pytest.fixture(params=["long", "windows"])
def part(request):
    return request.getfixturevalue(request.param)


def _rows_shown(result):
    t = result.timeline
    if t.is_whole:
        return sorted(
            {
                n
                for a, b in result.windows
                for n in np.flatnonzero((t["dispatched"] - t["stuck_cycles"] < b) & (t["end"] > a)).tolist()
            }
        )
    return t["number"].tolist()


@pytest.mark.parametrize("time", TIMES)
def test_a_part_has_its_own_rows_under_their_own_numbers(part, run, time):
    slices = _slices(_doc(part, time)["traceEvents"])
    assert sorted(_row(e) for e, _, _ in slices) == _rows_shown(part)
    for e, start, _ in slices:
        n = _row(e)
        assert e["args"]["call"] == run.timeline["call"][n]
        assert e["args"]["cycles"] == run.timeline["end"][n] - run.timeline["start"][n]
        assert time == "us" or start * 1000 == int(run.timeline["start"][n])


@pytest.mark.parametrize("time", TIMES)
def test_a_part_is_what_the_viewers_take(part, time):
    events = _doc(part, time)["traceEvents"]
    test_slices_of_a_lane_do_not_overlap(events)
    for rounding in ROUNDINGS:
        _import_like_perfetto(events, rounding)
    begins = [(e["name"], e["id"]) for e in _of(events, "B")]
    assert len(begins) == len(set(begins))
    starts, steps = ({e["id"] for e in _of(events, phase)} for phase in "st")
    assert starts == steps
    assert starts


def test_arrows_of_a_part_are_those_of_the_whole_run(part, run):
    def pairs(result):
        found = defaultdict(dict)
        for e in _of(_doc(result)["traceEvents"], "B"):
            found[e["id"]][e["name"]] = _row(e)
        return {(p["SET_FLAG"], p["WAIT_FLAG"]) for p in found.values() if len(p) == 2}

    rows = set(_rows_shown(part))
    possible = {(by, wait) for by, wait in pairs(run) if by in rows and wait in rows}
    if part.timeline.is_whole:
        assert pairs(part) == possible
    else:
        t = run.timeline
        held = {n for n in rows if t["waited_for"][n] in (Wait.FLAG, Wait.BUFFER)}
        assert pairs(part) == {(by, wait) for by, wait in possible if wait in held}


def test_a_part_says_what_it_is(long, windows, run):
    text = trace_json(long)
    assert text[: text.index("[")].endswith('"traceEvents":')
    other = json.loads(text)["otherData"]
    assert (other["rows"], other["rows_here"]) == (len(run.timeline), len(long.timeline))
    assert other["kept"] == "first and last rows of each core"
    assert (other["rows_repeated"], other["repeated"]) == (0, "")
    other = _doc(windows)["otherData"]
    assert (other["rows"], other["rows_here"]) == (len(run.timeline), len(_rows_shown(windows)))
    assert other["kept"] == "cycles 500 to 900; cycles 2000 to 2200"
    skipped = replace(long.timeline, skipped=(Skip(1000, 2000, 250, 77), Skip(2100, 2200, 50, 8)))
    other = _doc(replace(long, timeline=skipped))["otherData"]
    assert other["rows_repeated"] == 85
    assert other["repeated"].startswith("cycles 1000 to 2000: 77 rows from a period of 250 cycles; cycles 2100")
    assert "rows_here" not in _doc(run)["otherData"]


def test_a_part_shows_how_busy_the_pipes_were_all_the_time(part, run):
    """Traffic is not known where rows are missing."""
    events = _doc(part, "cycle")["traceEvents"]
    counters = [e for e in _of(events, "C") if not e["pid"].endswith(" UB")]
    assert {e["pid"] for e in counters} == {"Utilisation"}
    cuts, shares = utilisation(run.timeline)
    for pipe, share in shares.items():
        points = {int(e["ts"] * 1000): e["args"]["busy(%)"] for e in counters if e["name"] == LANES[pipe].tid}
        assert points.pop(run.makespan_cycles, 0) == 0
        shown = np.zeros(len(share))
        for at, value in sorted(points.items()):
            shown[np.searchsorted(cuts, at if at > 1 else 0) :] = float(value)
        assert shown == pytest.approx(100 * share, abs=1e-3)
    assert not any(e["pid"] == "Utilisation" for e in _of(_doc(run)["traceEvents"], "C"))


def test_a_long_run_s_trace_stays_small(long, monkeypatch):
    monkeypatch.setattr("ascendsim.trace.parts.MOST_ROWS", 60)
    assert len(long.timeline) > 60
    t = long.timeline
    shown = {_row(e) for e, _, _ in _slices(_doc(long)["traceEvents"])}
    want = set()
    for core in range(3):
        mine = t["number"][t["core"] == core].tolist()
        want |= {*mine[:10], *mine[-10:]}
    assert shown == want
    window = replace(long, windows=((0, 300),))
    inside = t["number"][t["start"] < 300].tolist()
    assert {_row(e) for e, _, _ in _slices(_doc(window)["traceEvents"])} == want | set(inside)
