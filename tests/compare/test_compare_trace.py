"""A run beside traces of the same kernel, in the documented layouts, with known changes."""

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pytest
from compare_harness import added, all_cores, instructions, mixed, one_core, us, write
from hypothesis import given
from hypothesis import strategies as st

import ascendsim as asc
from ascendsim.errors import InputError
from ascendsim.trace import trace_json
from ascendsim.versus.msopprof import read_trace

FIRST, SECOND = "core0.veccore0", "core0.veccore1"


def _kinds(found):
    return {(k.lane, k.name): k for k in found.kinds}


def _compared(tmp_path, rows, mhz=1850, **options):
    return asc.compare_trace(added(), write(tmp_path, all_cores(rows, mhz)), **options)


@pytest.mark.parametrize("run", [added, mixed])
@pytest.mark.parametrize("time", ["us", "cycle"])
def test_a_runs_own_trace_has_no_error(run, time, tmp_path):
    (tmp_path / "trace.json").write_text(trace_json(run(), time))
    found = asc.compare_trace(run(), tmp_path / "trace.json")
    rows = instructions(run())
    assert len(found.pairs) == len(rows) == sum(kind.run_count for kind in found.kinds)
    assert (found.unmatched, found.not_modelled, found.too_different) == ((), {}, ())
    errors = {(kind.median_error, kind.worst_error) for kind in found.kinds}
    assert errors == {(0.0, 0.0), (None, None)}
    assert found.trace.clock_mhz == (1000 if time == "cycle" else 1850)
    if time == "cycle":  # with microseconds some flags are moved, so that viewers show them
        assert found.span[0] == found.span[1]


@pytest.mark.parametrize("run", [added, mixed])
def test_the_profilers_layout_of_all_cores_has_no_error(run, tmp_path):
    rows = instructions(run())
    found = asc.compare_trace(run(), write(tmp_path, all_cores(rows, 1850)))
    assert len(found.pairs) == len(rows)
    assert {(k.median_error, k.worst_error) for k in found.kinds} == {(0.0, 0.0), (None, None)}
    assert (found.error, found.shift, found.trace.whole_clock_mhz) == (0.0, 0, 0)
    assert [(k.run_cycles, k.run_median) for k in found.kinds] == [
        (k.trace_cycles, k.trace_median) for k in found.kinds
    ]
    assert {c for c, _ in Counter((r["core"], r["lane"]) for r in rows)} == set(found.cores)


def test_the_profilers_layout_of_one_core_has_no_error(tmp_path):
    rows = instructions(mixed())
    file = write(tmp_path / "core0.cubecore0", one_core(rows, 1850, "core0.cubecore0"))
    found = asc.compare_trace(mixed(), file)
    own = [r for r in rows if r["core"] == "core0.cubecore0"]
    assert len(found.pairs) == len(own) > 0
    assert (found.cores, found.cores_of_run, found.unmatched) == (("core0.cubecore0",), (), ())
    assert {(k.median_error, k.worst_error) for k in found.kinds} == {(0.0, 0.0), (None, None)}
    assert f"trace: {file}, one core, core0.cubecore0, read at 1850 MHz" in str(found)
    elsewhere = write(tmp_path / "saved", one_core(rows, 1850, "core0.cubecore0"))
    assert asc.compare_trace(mixed(), elsewhere, core="core0.cubecore0").pairs
    with pytest.raises(InputError) as error:
        asc.compare_trace(mixed(), elsewhere)
    assert str(error.value) == (
        f"{elsewhere}: a trace of one core, and its folder saved is not called as one; "
        "say which with --core, such as core0.veccore0"
    )


def test_scaled_durations(tmp_path):
    """MOV_OUT_TO_UB twice as long but once thrice, VADD four fifths: exact medians and worst errors."""
    rows, scaled = instructions(added()), 0
    for r in rows:
        if r["name"] == "MOV_OUT_TO_UB":
            scaled += 1
            r["cycles"] *= 3 if scaled == 5 else 2
        if r["name"] == "VADD":
            assert r["cycles"] % 4 == 0
            r["cycles"] = r["cycles"] * 5 // 4
    found = _compared(tmp_path, rows)
    kinds = _kinds(found)
    loads, sums, stores = kinds["MTE2", "MOV_OUT_TO_UB"], kinds["VECTOR", "VADD"], kinds["MTE3", "MOV_UB_TO_OUT"]
    assert (loads.run_count, loads.trace_count, loads.matched) == (16, 16, 16)
    assert (loads.median_error, loads.worst_error) == (-0.5, -2 / 3)
    assert loads.worst_at == f"{FIRST} #{_position(rows, 'MOV_OUT_TO_UB', 4)} vector_add.py:18"
    assert loads.trace_median == 2 * loads.run_median
    assert loads.trace_cycles == sum(r["cycles"] for r in rows if r["name"] == "MOV_OUT_TO_UB")
    assert loads.run_cycles == sum(r["cycles"] for r in instructions(added()) if r["name"] == "MOV_OUT_TO_UB")
    assert (sums.median_error, sums.worst_error) == (-0.2, -0.2)
    assert (stores.median_error, stores.worst_error, stores.worst_at) == (0.0, 0.0, "")
    assert [k.trace_cycles for k in found.kinds] == sorted((k.trace_cycles for k in found.kinds), reverse=True)


def _position(rows, name, number):
    """The how-many-th on its lane the `number`-th of a name on the first core is."""
    lane = next(r["lane"] for r in rows if r["name"] == name)
    ordered = sorted((r for r in rows if (r["core"], r["lane"]) == (FIRST, lane)), key=lambda r: r["start"])
    return [i for i, r in enumerate(ordered) if r["name"] == name][number]


def test_removed_and_inserted_instructions(tmp_path):
    rows = instructions(added())
    gone = next(r for r in rows if r["name"] == "VADD" and r["core"] == SECOND)
    position = _lane_position(rows, gone)
    rows.remove(gone)
    store = max((r for r in rows if r["lane"] == "MTE3" and r["core"] == FIRST), key=lambda r: r["start"])
    rows.append(
        store | {"name": "MOV_UB_TO_L1", "start": store["start"] + store["cycles"], "cycles": 7, "code": "k.cpp:9"}
    )
    found = _compared(tmp_path, rows)
    lines = [(u.side, u.core, u.lane, u.name, u.position, u.start, u.code) for u in found.unmatched]
    stores = sum(r["core"] == FIRST and r["lane"] == "MTE3" for r in rows)
    assert lines == [
        ("run", SECOND, "VECTOR", "VADD", position, gone["start"], "vector_add.py:21"),
        ("trace", FIRST, "MTE3", "MOV_UB_TO_L1", stores - 1, store["start"] + store["cycles"], "k.cpp:9"),
    ]
    kinds = _kinds(found)
    sums, extra = kinds["VECTOR", "VADD"], kinds["MTE3", "MOV_UB_TO_L1"]
    assert (sums.run_count, sums.trace_count, sums.matched, sums.worst_error) == (8, 7, 7, 0.0)
    assert (extra.run_count, extra.trace_count, extra.matched, extra.median_error) == (0, 1, 0, None)
    assert len(found.pairs) == len(instructions(added())) - 1
    assert "\nUnmatched\n  of     core            lane    at" in str(found)
    assert f"  run    {SECOND}  VECTOR  #{position}" in str(found)


def _lane_position(rows, row):
    lane = sorted((r for r in rows if (r["core"], r["lane"]) == (row["core"], row["lane"])), key=lambda r: r["start"])
    return lane.index(row)


def test_another_clock(tmp_path):
    rows = instructions(added())
    file = write(tmp_path, all_cores(rows, 1800))
    found = asc.compare_trace(added(), file)
    assert (found.trace.clock_mhz, found.trace.whole_clock_mhz) == (1850, 1800)
    assert (
        "note: the trace's durations are no whole cycles at 1850 MHz and are at 1800 MHz; "
        "read it with --clock-mhz 1800\n"
    ) in str(found)
    right = asc.compare_trace(added(), file, clock_mhz=1800)
    assert {k.worst_error for k in right.kinds} == {0.0, None}
    assert "note:" not in str(right)


def test_times_cut_to_nanoseconds_are_no_sign_of_another_clock(tmp_path):
    found = asc.compare_trace(added(), write(tmp_path, all_cores(instructions(added()), 1850, decimals=3)))
    assert found.trace.whole_clock_mhz == 0
    assert _kinds(found)["MTE2", "MOV_OUT_TO_UB"].worst_error == pytest.approx(0, abs=0.011)  # 1 of about 100 cycles


def test_a_trace_that_begins_later(tmp_path):
    rows = [r | {"start": r["start"] + 5000} for r in instructions(added())]
    found = _compared(tmp_path, rows)
    assert (found.shift, found.error) == (5000, 0.0)


def test_flags_and_barriers_are_counted_and_waits_are_shown(tmp_path):
    rows = instructions(added())
    for r in rows:
        if r["name"] == "SET_FLAG":
            r["cycles"] += 3
    found = _compared(tmp_path, rows)
    for kind in found.kinds:
        if kind.name == "SET_FLAG":
            assert (kind.median_error, kind.worst_error, kind.run_median, kind.trace_median) == (None, None, None, None)
            assert kind.matched == kind.run_count > 0
    waits = _kinds(found)["VECTOR", "WAIT_FLAG"]
    own = [r["cycles"] for r in rows if (r["lane"], r["name"]) == ("VECTOR", "WAIT_FLAG")]
    assert (waits.trace_median, waits.matched, waits.median_error) == (median(own), len(own), 0.0)


def test_what_the_compiler_adds_is_not_modelled(tmp_path):
    rows = instructions(added())
    base = {"core": FIRST, "start": 10, "cycles": 1, "code": ""}
    rows += [base | {"lane": "SCALAR", "name": "MOV_XD_IMM"}] * 3
    rows += [base | {"lane": "FLOWCTRL", "name": "JUMP"}, base | {"lane": "CACHEMISS", "name": "ICMISS"}]
    found = _compared(tmp_path, rows)
    assert found.not_modelled == {("CACHEMISS", "ICMISS"): 1, ("FLOWCTRL", "JUMP"): 1, ("SCALAR", "MOV_XD_IMM"): 3}
    assert found.unmatched == ()
    assert len(found.pairs) == len(instructions(added()))


def test_another_spelling(tmp_path):
    rows = instructions(added())
    for r in rows:
        if r["name"] == "MOV_OUT_TO_UB":
            r["name"] = "MOV_OUT_TO_UB_ALIGN_V2"
    found = _compared(tmp_path, rows)
    assert Counter(u.side for u in found.unmatched) == {"run": 16, "trace": 16}
    same = _compared(tmp_path, rows, aliases={"MOV_OUT_TO_UB": "MOV_OUT_TO_UB_ALIGN_V2"})
    assert same.unmatched == ()
    assert _kinds(same)["MTE2", "MOV_OUT_TO_UB_ALIGN_V2"].matched == 16
    with pytest.raises(InputError) as error:
        _compared(tmp_path, rows, aliases={"VMUL": "VMULS"})
    assert str(error.value) == (
        "--alias VMUL=VMULS: the run has MOVEMASK, MOV_OUT_TO_UB, MOV_SPR_XN, MOV_UB_TO_OUT, SET_FLAG, VADD, WAIT_FLAG"
    )


def test_overlapping_sub_lanes_and_overhead(tmp_path):
    rows = instructions(added())
    content = all_cores(rows, 1850)
    for event in content["traceEvents"]:
        if event["ph"] == "X" and event["name"] == "VADD":
            event["tid"] = "VECTOR_2"
    place = {"pid": FIRST, "tid": "SCALAR", "ph": "X", "ts": 0.1, "dur": 0.1, "group_id": 1}
    content["traceEvents"] += [place | {"name": "cache_time"}, place | {"name": "ccu_time"}]
    found = asc.compare_trace(added(), write(tmp_path, content))
    assert found.unmatched == ()
    assert found.trace.overhead == {"cache_time": 1, "ccu_time": 1}


def test_cores_that_only_one_has(tmp_path):
    rows = instructions(added())
    file = write(tmp_path, all_cores([r for r in rows if r["core"] == FIRST], 1850))
    found = asc.compare_trace(added(), file)
    assert (found.cores, found.cores_of_run, found.cores_of_trace) == ((FIRST,), (SECOND,), ())
    assert f"note: only the run has {SECOND}\n" in str(found)
    with pytest.raises(InputError) as error:
        asc.compare_trace(mixed(), write(tmp_path, all_cores([r | {"core": "core7.veccore0"} for r in rows], 1850)))
    assert str(error.value) == (
        f"{tmp_path / 'trace.json'}: has core7.veccore0, the run has core0.cubecore0, core0.veccore0, core0.veccore1, "
        "core1.cubecore0, core1.veccore0, core1.veccore1: no core in common; run the kernel with the same cores, or "
        "say whose a per-core trace is with --core"
    )


def test_a_lane_in_another_order_is_not_paired(tmp_path, monkeypatch):
    monkeypatch.setattr("ascendsim.versus.alignment.aligned.__defaults__", (1,))
    rows = instructions(added())
    lane = sorted((r for r in rows if (r["core"], r["lane"]) == (FIRST, "VECTOR")), key=lambda r: r["start"])
    for r, name in zip(lane, [r["name"] for r in lane][::-1], strict=True):
        r["name"] = name
    found = _compared(tmp_path, rows)
    assert found.too_different == ((FIRST, "VECTOR"),)
    assert f"note: {FIRST} VECTOR: more than 2000 insertions and deletions, nothing is paired\n" in str(found)
    assert Counter((u.side, u.core, u.lane) for u in found.unmatched) == {
        ("run", FIRST, "VECTOR"): len(lane), ("trace", FIRST, "VECTOR"): len(lane)
    }  # fmt: skip


def test_a_run_without_its_rows_is_refused(tmp_path):
    result = added()
    columns = {name: column[:100] for name, column in result.timeline.columns.items()}
    from dataclasses import replace

    part = replace(result, timeline=replace(result.timeline, columns=columns))
    with pytest.raises(InputError) as error:
        asc.compare_trace(part, write(tmp_path, all_cores(instructions(result), 1850)))
    assert str(error.value) == (
        "vector_add: 100 of its 160 rows were kept, so it cannot be compared row by row; run a smaller problem, or ask "
        "for its whole time with --trace-window"
    )


def test_plain_data(tmp_path):
    found = _compared(tmp_path, instructions(added()))
    plain = json.loads(json.dumps(found.to_dict()))
    assert (plain["form"], plain["clock_mhz"], plain["matched"], plain["error"]) == ("all cores", 1850, 160, 0.0)
    assert plain["run_cycles"] == plain["trace_cycles"] == found.span[0]
    assert plain["kinds"][0]["lane"] == found.kinds[0].lane


# ---- events written by hand -------------------------------------------------------------------------------------

PIPES = {10: "SCALAR", 20: "SCALARLDST", 30: "VECTOR", 40: "CUBE", 50: "MTE1", 60: "MTE2", 70: "MTE3", 80: "FIXP",
         90: "FLOWCTRL", 100: "ALL", 110: "CACHEMISS", 120: "USERMARK"}  # fmt: skip
"""Numbers of pipes in per-core traces, as documented."""

X = {"ph": "X", "name": "VADD", "pid": FIRST, "tid": "VECTOR", "ts": 1.0, "dur": 0.5, "args": {}}
B = {"ph": "B", "name": "SET_FLAG", "pid": FIRST, "tid": "MTE2", "ts": 2.0, "id": f"{FIRST}_1"}
E = B | {"ph": "E", "ts": 2.25}


def _read(tmp_path, events, **head):
    return read_trace(
        write(tmp_path, {"profilingType": "op", "displayTimeUnit": "ns", **head, "traceEvents": events}), 1000
    )


def test_events_by_hand_in_the_layout_of_all_cores(tmp_path):
    """A wait of the same id is a pair of its own; cycles are microseconds by the clock."""
    wait = {"ph": "B", "name": "WAIT_FLAG", "pid": FIRST, "tid": "VECTOR", "ts": 1.6, "id": f"{FIRST}_1"}
    events = [X, B, E, wait, wait | {"ph": "E", "ts": 2.3}, {"ph": "M", "name": "thread_sort_index", "pid": FIRST}]
    events += [{"ph": "s", "name": "flow", "id": f"{FIRST}_1", "ts": 2.25}, {"ph": "t", "name": "flow", "ts": 2.3}]
    found = _read(tmp_path, events)
    assert found.is_whole
    assert [(s.core, s.lane, s.name, s.start, s.cycles) for s in found.slices] == [
        (FIRST, "MTE2", "SET_FLAG", 2000, 250),
        (FIRST, "VECTOR", "VADD", 1000, 500),
        (FIRST, "VECTOR", "WAIT_FLAG", 1600, 700),
    ]


def test_events_by_hand_in_the_layout_of_one_core(tmp_path):
    events = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}} for pid, name in PIPES.items()]
    work = {"ph": "X", "tid": 1, "dur": 2, "args": {"code": "a.cpp:3\nb"}}
    events += [work | {"name": f"I{pid}", "pid": pid, "ts": pid} for pid in PIPES]
    events.append({"ph": "X", "name": "VADD", "pid": 30, "tid": 2, "ts": 31, "dur": 4})
    found = read_trace(write(tmp_path / "core3.veccore1", {"traceEvents": events}), 1000)
    assert not found.is_whole
    assert {(s.lane, s.name) for s in found.slices} == {(n, f"I{pid}") for pid, n in PIPES.items()} | {
        ("VECTOR", "VADD")
    }
    assert {s.core for s in found.slices} == {"core3.veccore1"}
    assert {s.code for s in found.slices} == {"a.cpp:3", ""}


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([X, 3], "event 1: no object"),
        ([X | {"ph": "Q"}], 'event 0: ph = "Q"; msopprof writes X, B, E, s, t, M and C'),
        ([X | {"ph": "b"}], 'event 0: ph = "b"; msopprof writes X, B, E, s, t, M and C'),
        ([X | {"name": ""}], 'event 0: name = ""; want a name'),
        ([X | {"ts": -1}], "event 0: ts = -1; want microseconds from 0 to 1,000,000,000"),
        ([X | {"ts": "1.0"}], 'event 0: ts = "1.0"; want microseconds from 0 to 1,000,000,000'),
        ([X | {"dur": None}], "event 0: dur = null; want microseconds from 0 to 1,000,000,000"),
        ([X | {"dur": True}], "event 0: dur = true; want microseconds from 0 to 1,000,000,000"),
        ([X | {"ts": 10**400}], f"event 0: ts = {10**400}; want microseconds from 0 to 1,000,000,000"),
        ([X | {"name": "V\n"}], 'event 0: name = "V\\n"; want a name'),
        ([X | {"args": []}], "event 0: args is no object"),
        ([X | {"pid": "device 3"}], 'event 0: pid = "device 3"; want a core such as core0.veccore0 or core0.cubecore0'),
        (
            [X | {"tid": "VEC"}],
            f'event 0: tid = "VEC" is no lane; msopprof has {", ".join(PIPES.values())}',
        ),
        (
            [X, X | {"pid": 30, "tid": 1}],
            "event 1: pid = 30, but event 0 is of the other form (all cores, or one core)",
        ),
        (
            [X | {"pid": 35, "tid": 1}],
            "event 0: pid = 35; want the name of a core, or the number of a pipe: "
            + ", ".join(f"{number} {name}" for number, name in PIPES.items()),
        ),
        (
            [X | {"pid": 30, "tid": "VECTOR"}],
            'event 0: tid = "VECTOR"; beside the number of a pipe want that of a sub-lane, 1, 2, ...',
        ),
        (
            [{"ph": "M", "name": "process_name", "pid": 30, "args": {"name": "CUBE"}}],
            'event 0: pid 30 is called "CUBE"; msopprof\'s pipe 30 is VECTOR',
        ),
        (
            [B | {"name": "VADD"}],
            "event 0: ph B of VADD; only SET_FLAG, WAIT_FLAG, set_event, wait_event are begin and end",
        ),
        (
            [{k: v for k, v in B.items() if k != "id"}],
            "event 0: SET_FLAG has no id, so that nobody knows which begin and end belong together",
        ),
        ([B, B], f"event 1: SET_FLAG {FIRST}_1 begins again before it has ended"),
        ([E], f"event 0: SET_FLAG {FIRST}_1 ends here and never began on this lane"),
        ([B, E | {"tid": "VECTOR"}], f"event 1: SET_FLAG {FIRST}_1 ends here and never began on this lane"),
        ([B, E | {"ts": 1.0}], f"event 1: SET_FLAG {FIRST}_1 ends at 1.0 us, before it begins at 2.0 us"),
        ([X, B, X], "event 1: SET_FLAG begins here and never ends"),
        ([{"ph": "M", "name": "x"}], "no instructions: no event has ph X, or B and E"),
    ],
)
def test_what_no_such_trace_has_is_refused(events, text, tmp_path):
    with pytest.raises(InputError) as error:
        _read(tmp_path, events)
    assert str(error.value) == f"{tmp_path / 'trace.json'}: {text}"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("[]", "an array of events; msopprof's trace is an object with the key traceEvents"),
        ("{}", "no trace: the key traceEvents with an array is missing"),
        ('{"traceEvents": {}}', "no trace: the key traceEvents with an array is missing"),
        ('{"profilingType": "pytorch", "traceEvents": []}',
         "profilingType = \"pytorch\"; traces of operators have 'op' there"),
        ('{"displayTimeUnit": "ms", "traceEvents": []}',
         "displayTimeUnit = \"ms\"; traces of operators have 'ns' there"),
        ('{"traceEvents": [', "not JSON: Expecting value: line 1 column 18 (char 17)"),
        ('{"traceEvents": [{"ts": NaN}]}', "not JSON: NaN is no number of JSON"),
    ],
)  # fmt: skip
def test_files_that_are_no_trace_are_refused(content, text, tmp_path):
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(InputError) as error:
        read_trace(tmp_path / "t.json", 1850)
    assert str(error.value) == f"{tmp_path / 't.json'}: {text}"


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError) as error:
        read_trace(tmp_path / "t.json", 1850)
    assert str(error.value) == f"{tmp_path / 't.json'}: no such file"


def test_a_file_that_is_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr("ascendsim.versus.msopprof.MOST_BYTES", 10)
    file = write(tmp_path, {"traceEvents": []})
    with pytest.raises(InputError) as error:
        read_trace(file, 1850)
    assert str(error.value) == f"{file}: 19 B; a trace has at most 10 B: trace fewer cores"


@pytest.mark.parametrize("mhz", [0, -5, 100_001])
def test_a_clock_that_no_part_has(mhz, tmp_path):
    with pytest.raises(InputError) as error:
        asc.compare_trace(added(), tmp_path / "t.json", clock_mhz=mhz)
    assert str(error.value) == f"clock_mhz = {mhz}: must be from 1 to 100,000"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["code", "cycles"]), inner, max_size=2),
    max_leaves=3,
)
_KEYS = st.sampled_from(["ph", "name", "pid", "tid", "ts", "dur", "id", "args"])


@given(st.sampled_from([X, B, E]), _KEYS, _JSON, _JSON)
def test_whatever_stands_in_an_event_ends_in_slices_or_a_message(event, key, value, other):
    with TemporaryDirectory() as folder:
        content = {"otherData": {"clock_mhz": other}, "traceEvents": [X, event | {key: value}]}
        file = Path(folder) / "t.json"
        file.write_text(json.dumps(content))
        with suppress(InputError):
            found = read_trace(file, 1850, FIRST)
            assert all(s.cycles >= 0 and s.name.isprintable() for s in found.slices)


def test_a_core_that_no_trace_has(tmp_path):
    with pytest.raises(InputError) as error:
        read_trace(write(tmp_path, {"traceEvents": [X | {"pid": 30, "tid": 1}]}), 1850, "vector core 1")
    assert str(error.value) == "--core vector core 1: want a core such as core0.veccore0 or core0.cubecore0"


def test_microseconds_are_in_single_precision():
    assert us(1, 1850) == pytest.approx(1 / 1850, rel=2**-24)
    assert us(1, 1850) != 1 / 1850
