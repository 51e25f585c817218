"""What tests of comparisons share: small runs, and traces as msopprof's simulator lays them out.

The traces are made of a run's rows and of the documented field tables alone.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np

import ascendsim as asc
from ascendsim.terms import Pipe
from ascendsim.trace import core_name, slice_name

ROOT = Path(__file__).parent.parent.parent
SMALL = {"block_dim": 2} | {f"tensors.{name}.shape": [16384] for name in ("x", "y", "z")}
"""Of `vector_add`: two cores with four tiles of 2048 half each."""
FINER = SMALL | {"tiling.tile_length": 1024}

LANE = {Pipe.S: "SCALAR", Pipe.V: "VECTOR", Pipe.M: "CUBE", Pipe.MTE1: "MTE1", Pipe.MTE2: "MTE2", Pipe.MTE3: "MTE3",
        Pipe.FIX: "FIXP"}  # fmt: skip
NUMBER = {"SCALAR": 10, "VECTOR": 30, "CUBE": 40, "MTE1": 50, "MTE2": 60, "MTE3": 70, "FIXP": 80}


@cache
def added():
    """The small sum."""
    return asc.run("vector_add", set=SMALL)


@cache
def added_finer():
    """The same in tiles half as long."""
    return asc.run("vector_add", set=FINER)


@cache
def mixed():
    """Cube and vector cores."""
    return asc.run("matmul_plus_one")


def instructions(result):
    """Rows of a run as plain dicts in whole cycles; SET_FLAG and BAR as they are drawn, in their last cycle."""
    t, program, found = result.timeline, result.program, []
    for at in range(len(t)):
        call = program.call(int(t["call"][at]))
        row = program.templates[call.template].rows[int(t["row"][at])]
        name, start, end = slice_name(row, int(t["kind"][at])), int(t["start"][at]), int(t["end"][at])
        if name in ("SET_FLAG", "BAR"):
            start = end - 1
        found.append(
            {
                "core": core_name(result, int(t["core"][at])),
                "lane": LANE[Pipe(int(t["pipe"][at]))],
                "name": name,
                "start": start,
                "cycles": end - start,
                "code": program.lines[row.line],
            }
        )
    return found


def all_cores(rows, mhz, decimals=None):
    """One file of all cores: pid is the core, tid the lane; microseconds in single precision."""
    events = []
    for number, r in enumerate(rows):
        place = {"pid": r["core"], "tid": r["lane"]}
        args = {"pc_addr": hex(number), "code": r["code"], "detail": ""}
        ts, dur = us(r["start"], mhz, decimals), us(r["cycles"], mhz, decimals)
        if r["name"] in ("SET_FLAG", "WAIT_FLAG"):
            own = {"name": r["name"], "id": f"{r['core']}_{number}", **place}
            events.append({"ph": "B", "ts": ts, "cname": "yellow", "args": args, **own})
            events.append({"ph": "E", "ts": us(r["start"] + r["cycles"], mhz, decimals), **own})
            events.append({"ph": "s", "cat": "MTE2ToVECTOR", "ts": ts, **own, "name": "flow"})
        else:
            events.append({"name": r["name"], "ph": "X", "cname": "good", "ts": ts, "dur": dur, "args": args, **place})
    for core in dict.fromkeys(r["core"] for r in rows):
        meta = {"name": "process_sort_index", "ph": "M", "pid": core, "tid": "NA", "args": {"sort_index": 2}}
        events.append(meta)
    counter = {"name": "GM_TO_UB", "ph": "C", "pid": "MTE Throughput", "tid": 0, "ts": 1.0}
    events.append(counter | {"args": {"throughput(MB/s)": 12.5}})
    return {"schemaVersion": 2, "displayTimeUnit": "ns", "profilingType": "op", "traceEvents": events}


def one_core(rows, mhz, core):
    """The file of one core: pid is the number of the pipe, tid a sub-lane, of which overlapping slices have several."""
    events, free = [], {}
    for lane, number in NUMBER.items():
        meta = {"name": "process_name", "ph": "M", "pid": number, "args": {"name": lane}}
        events.append(meta)
    for r in sorted((r for r in rows if r["core"] == core), key=lambda r: r["start"]):
        lanes = free.setdefault(r["lane"], [])
        sub = next((i for i, end in enumerate(lanes) if end <= r["start"]), len(lanes))
        lanes[sub : sub + 1] = [r["start"] + r["cycles"]]
        events.append(
            {"name": r["name"], "ph": "X", "pid": NUMBER[r["lane"]], "tid": sub + 1, "ts": us(r["start"], mhz),
             "dur": us(r["cycles"], mhz), "args": {"pc_addr": "0x0", "code": r["code"], "detail": ""}}
        )  # fmt: skip
    return {"schemaVersion": 1, "displayTimeUnit": "ns", "profilingType": "op", "traceEvents": events}


def us(cycles, mhz, decimals=None):
    """Microseconds in single precision, as the tool computes them; rounded to some decimals if asked for."""
    value = float(np.float32(cycles) / np.float32(mhz))
    return value if decimals is None else round(value, decimals)


def write(folder, content, name="trace.json"):
    """Write a trace and return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(content))
    return folder / name
