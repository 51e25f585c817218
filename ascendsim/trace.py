"""A run as one Chrome trace JSON that MindStudio Insight and Perfetto both open.

Everything written is already in the result; nothing is computed anew. Shapes follow the trace of msopprof's simulator,
and where the two viewers differ, the narrower one decides.

**Slices.** A pipe works in order and its next row starts when the occupancy of the one before is over, so a lane needs
no sub-lanes. The drain after it overlaps the next row: a slice is drawn from start to completion only if the next row
of its lane starts no earlier, and from start to end of occupancy otherwise. SET_FLAG is always drawn without the time
until the flag is up, WAIT_FLAG and BAR with the time they hold their pipe. `cycles` is start to completion in any case.

**Time.** Picoseconds are made from each whole cycle by itself, so errors do not add up. The viewers round to 1 ns, and
a cycle of a real clock is shorter: a begin and an end on the same nanosecond would be taken in the wrong order. So a
flag is at least 1 ns long and a wait ends at least 2 ns after its set begins; what that pushes along on the lane
catches up at the next longer row. Other rows of under 1 ns may have no length in a viewer; `cycles` tells theirs. With
time="cycle" one cycle is 1 ns and nothing is moved or lost.

Source: msopprof (trace of the simulator), MindStudio Insight (operator timeline parser), Perfetto (JSON importer).
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ascendsim import __version__, analysis
from ascendsim.engine.base import Kind, Timeline, Wait
from ascendsim.isa.instruction import Operand, Row
from ascendsim.isa.log import dtype_text, mnemonic
from ascendsim.isa.move import burst_geometry
from ascendsim.program import Call
from ascendsim.result import RunResult
from ascendsim.terms import Buffer, HardEvent, MaskMode, Pipe

Time = Literal["us", "cycle"]
Ints = NDArray[Any]
Event = dict[str, Any]

NS = 1000
"""Picoseconds in the viewers' unit of time."""

CYCLE_MHZ = 1000
"""The clock at which one cycle is 1 ns."""


@dataclass(frozen=True, slots=True)
class Lane:
    """How a pipe is shown."""

    tid: str
    sort_index: int
    cname: str
    flag_name: str
    """The pipe as the details of flags spell it."""


LANES = {
    Pipe.S: Lane("SCALAR", 1, "startup", "SCALAR"),
    Pipe.MTE1: Lane("MTE1", 3, "thread_state_running", "MTE1"),
    Pipe.M: Lane("CUBE", 4, "background_memory_dump", "CUBE"),
    Pipe.FIX: Lane("FIXP", 5, "thread_state_unknown", "FIXP"),
    Pipe.MTE2: Lane("MTE2", 6, "thread_state_iowait", "MTE2"),
    Pipe.V: Lane("VECTOR", 7, "cq_build_failed", "VEC"),
    Pipe.MTE3: Lane("MTE3", 8, "rail_response", "MTE3"),
    Pipe.ALL: Lane("ALL", 11, "good", "ALL"),
}
"""Lane names, order and colours. Source: msopprof, core timeline."""

FLAGS = {Kind.SET_FLAG: ("SET_FLAG", "black"), Kind.WAIT_FLAG: ("WAIT_FLAG", "yellow")}
"""Name and colour of the slices that are written as begin and end."""

MNEMONICS = {
    "copy_gm_to_ubuf": "MOV_OUT_TO_UB",
    "copy_gm_to_ubuf_align": "MOV_OUT_TO_UB_ALIGN",
    "copy_ubuf_to_gm": "MOV_UB_TO_OUT",
    "copy_ubuf_to_gm_align": "MOV_UB_TO_OUT_ALIGN",
    "copy_ubuf_to_ubuf": "MOV_UB_TO_UB",
    "pipe_barrier": "BAR",
    "scalar_load": "LD_XD_XN_IMM",
    "set_mask_count": "MOV_SPR_XN",
    "set_mask_norm": "MOV_SPR_XN",
    "set_vector_mask": "MOVEMASK",
}
"""Intrinsics whose trace name is not their own in capitals. Source: msopprof, instruction tables of A2."""

THROUGHPUT = ("GM_TO_UB", "GM_TO_L1", "GM_TO_TOTAL", "UB_TO_GM", "L1_TO_GM", "TOTAL_TO_GM")
"""Tracks of the throughput counters, in msopprof's order. L1 is never used by vector cores; its tracks stay 0."""

MB_PER_S = 1e6 / 2**20
"""A byte per microsecond in the unit of the throughput counters, whose MB is 2**20 bytes. Source: msopprof."""


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
        "otherData": _other_data(result, time),
    }
    events = (*_metadata(result), *_RowEvents(result, mhz).all(), *_throughput(result, mhz), *_ub_bytes(result, mhz))
    lines = ",\n".join(events)
    return f'{_dumps(head)[:-1]},"traceEvents":[\n{lines}\n]}}\n'


def _dumps(value: object) -> str:
    """JSON without spaces; control characters are escaped, which Perfetto needs."""
    return json.dumps(value, separators=(",", ":"))


def _other_data(result: RunResult, time: Time) -> dict[str, Any]:
    tensors = result.scenario.get("tensors", {})
    return {
        "tool": f"ascendsim {__version__}",
        "soc": result.device.name,
        "clock_mhz": result.device.clock_mhz,
        "time": time,
        "case": result.name,
        "seed": {name: spec["seed"] for name, spec in tensors.items() if "seed" in spec},
        "digest": result.digest,
        "makespan_cycles": result.makespan_cycles,
        "findings": len(result.findings),
        "errors": len(result.errors),
        "despite_findings": result.despite_findings,
    }


# ---- time -------------------------------------------------------------------------------------------------------


def picoseconds(cycle: int, mhz: int) -> int:
    """Return a cycle's time, to the nearest picosecond."""
    return (2_000_000 * cycle + mhz) // (2 * mhz)


def _us(ps: int) -> str:
    return f"{ps // 1_000_000}.{ps % 1_000_000:06d}"


def _timed(event: Event, ps: int, duration_ps: int | None = None) -> str:
    """An event as text; times are put in as decimals, which no float has touched."""
    duration = "" if duration_ps is None else f',"dur":{_us(duration_ps)}'
    return f'{_dumps(event)[:-1]},"ts":{_us(ps)}{duration}}}'


def _duration(start_ps: int, end_ps: int) -> int:
    """Length of a slice, shortened by under 1 ns where start and length, each rounded to 1 ns, would pass the end.

    Source: Perfetto, JSON importer: ts and dur are rounded one by one, and slices that overlap are drawn wrong.
    """
    whole = (end_ps + NS // 2) // NS - (start_ps + NS // 2) // NS
    return min(end_ps - start_ps, whole * NS + NS // 2 - 1)


def slice_ends(timeline: Timeline) -> Ints:
    """Cycle at which each row's slice ends: completion, or end of occupancy where the drain would overlap."""
    t = timeline
    order = np.lexsort((t["pipe"], t["core"]))
    same = (t["core"][order][1:] == t["core"][order][:-1]) & (t["pipe"][order][1:] == t["pipe"][order][:-1])
    following = np.full(len(t), np.iinfo(np.int64).max)
    following[order[:-1][same]] = t["start"][order[1:][same]]
    with_drain = (t["end"] <= following) & (t["kind"] != Kind.SET_FLAG)
    return np.where(with_drain, t["end"], t["occupied"])


def _placed(timeline: Timeline, set_of: dict[int, int], mhz: int) -> tuple[list[int], list[int]]:
    """Start and end of every slice in picoseconds, see the module docstring."""
    t, ends = timeline, slice_ends(timeline)
    core, pipe, kind, start = (t[name].tolist() for name in ("core", "pipe", "kind", "start"))
    begin_ps, end_ps = [0] * len(t), [0] * len(t)
    free: dict[tuple[int, int], int] = defaultdict(int)
    for row in np.argsort(ends, kind="stable").tolist():  # in this order a set precedes its wait
        lane = core[row], pipe[row]
        begin = max(picoseconds(start[row], mhz), free[lane])
        end = max(picoseconds(int(ends[row]), mhz), begin)
        if kind[row] in FLAGS:
            end = max(end, begin + NS)
        if row in set_of:
            end = max(end, begin_ps[set_of[row]] + 2 * NS)
        begin_ps[row], end_ps[row], free[lane] = begin, end, end
    return begin_ps, end_ps


# ---- lanes ------------------------------------------------------------------------------------------------------


def core_name(result: RunResult, core: int) -> str:
    """Return a vector core as traces call it: the AI Core it belongs to, and which of its vector cores it is."""
    number, vector = divmod(core, _vector_cores(result))
    return f"core{number}.veccore{vector}"


def _vector_cores(result: RunResult) -> int:
    """Vector cores of an AI Core."""
    return max(1, result.device.cores.aiv.value // result.device.cores.aic.value)


def _sort_index(result: RunResult, core: int) -> int:
    """Place among all cores, each cube core before its vector cores. Source: msopprof, core timeline."""
    per_core = _vector_cores(result)
    number, vector = divmod(core, per_core)
    return (1 + per_core) * number + 2 + vector


def _metadata(result: RunResult) -> Iterator[str]:
    """Names and order of processes and lanes."""
    t = result.timeline
    for core in np.unique(t["core"]).tolist():
        pid, index = core_name(result, core), _sort_index(result, core)
        yield from _process(pid, index)
        pipes = (Pipe(p) for p in np.unique(t["pipe"][t["core"] == core]).tolist())
        for lane in sorted((LANES[p] for p in pipes), key=lambda lane: lane.sort_index):
            yield _meta("thread_name", pid, lane.tid, {"name": lane.tid})
            yield _meta("thread_sort_index", pid, lane.tid, {"sort_index": lane.sort_index})
        yield from _process(f"{pid} UB", index)


def _process(pid: str, index: int) -> Iterator[str]:
    yield _meta("process_name", pid, "NA", {"name": pid})
    yield _meta("process_sort_index", pid, "NA", {"sort_index": index})


def _meta(name: str, pid: str, tid: str, args: Event) -> str:
    return _dumps({"name": name, "ph": "M", "pid": pid, "tid": tid, "args": args})


# ---- rows -------------------------------------------------------------------------------------------------------


class _RowEvents:
    """The events of the timeline's rows, in row order, which is time order on each lane."""

    def __init__(self, result: RunResult, mhz: int) -> None:
        self.result = result
        self.rows = analysis.Rows(result.program, result.timeline)
        self.columns = {name: result.timeline[name].tolist() for name in result.timeline.columns}
        self.set_of = flag_pairs(self.rows)
        self.wait_of = {by: wait for wait, by in self.set_of.items()}
        self.begin_ps, self.end_ps = _placed(result.timeline, self.set_of, mhz)
        self.calls: dict[int, Call] = {}

    def all(self) -> Iterator[str]:
        """Every row's events."""
        for number in range(len(self.result.timeline)):
            if self.columns["kind"][number] in FLAGS:
                yield from self._flag(number)
            else:
                yield self._slice(number)

    def _slice(self, number: int) -> str:
        row = self.rows.row(number)
        name = mnemonic(row)
        begin, end = self.begin_ps[number], self.end_ps[number]
        event = {
            "name": MNEMONICS.get(name, name.upper()),
            "ph": "X",
            "cname": self._lane(number).cname,
            **self._place(number),
            "args": self._args(number, row),
        }
        return _timed(event, begin, _duration(begin, end))

    def _flag(self, number: int) -> Iterator[str]:
        """Begin, arrow and end of a SET_FLAG or WAIT_FLAG; its number is that of the set it belongs to.

        The arrow stands between begin and end: it belongs to the slice that is open when it comes. Numbers start at 1.
        Source: MindStudio Insight, event parser (begin and end are paired by name and number alone); Perfetto, JSON
        importer (arrows need whole numbers and an open slice).
        """
        name, cname = FLAGS[self.columns["kind"][number]]
        own = {"id": self.set_of.get(number, number) + 1, **self._place(number)}
        begin, end = self.begin_ps[number], self.end_ps[number]
        args = self._args(number, self.rows.row(number))
        yield _timed({"name": name, "ph": "B", "cname": cname, **own, "args": args}, begin)
        if number in self.wait_of:
            yield self._arrow("s", number, number, self.wait_of[number], begin)
        if number in self.set_of:
            yield self._arrow("t", number, self.set_of[number], number, end - NS)
        yield _timed({"name": name, "ph": "E", **own}, end)

    def _arrow(self, phase: str, number: int, set_row: int, wait_row: int, ps: int) -> str:
        category = f"{self._lane(set_row).tid}To{self._lane(wait_row).tid}"
        event = {"name": "flow", "ph": phase, "cat": category, "id": set_row + 1, **self._place(number)}
        return _timed(event, ps)

    def _lane(self, number: int) -> Lane:
        return LANES[Pipe(self.columns["pipe"][number])]

    def _place(self, number: int) -> Event:
        return {"pid": core_name(self.result, self.columns["core"][number]), "tid": self._lane(number).tid}

    def _args(self, number: int, row: Row) -> Event:
        """What a click on the slice shows; fields without a meaning for the row are left out."""
        c, program = self.columns, self.result.program
        call = self._call(c["call"][number])
        step = program.steps[row.step]
        args: Event = {
            "detail": self._detail(number, row, call),
            "code": f"{program.lines[row.line]}\n{step}" if step else program.lines[row.line],
            "pc_addr": f"0x{number:x}",
            "cycles": c["end"][number] - c["start"][number],
        }
        if c["kind"][number] == Kind.TRANSFER:
            args["process_bytes"] = _bytes(row)
            args["l2"] = "hit" if c["l2_hit"][number] else "miss"
        if c["wait_cycles"][number] and c["waited_for"][number] in analysis.STALLS:
            args["stall"] = self._stall(number, row)
        if call.tile >= 0:
            args["tile"] = call.tile
        args["call"] = call.index
        if c["stretch_cycles"][number]:
            args["stretch_cycles"] = c["stretch_cycles"][number]
        return args

    def _call(self, index: int) -> Call:
        if index not in self.calls:
            self.calls[index] = self.result.program.call(index)
        return self.calls[index]

    def _stall(self, number: int, row: Row) -> Event:
        """What the row waited for, how long, and the queue, GM tensor or step that held it."""
        wait = Wait(self.columns["waited_for"][number])
        name = analysis.waited_name(self.rows, number, row, wait)
        return {"reason": wait.words, "cycles": self.columns["wait_cycles"][number], "name": name}

    def _detail(self, number: int, row: Row, call: Call) -> str:
        """The instruction's fields as KEY:value, separated by commas."""
        if row.op.name in ("set_flag", "wait_flag"):
            event = HardEvent(row.param("event"))
            pipes = f"PIPE:{LANES[event.src].flag_name},TRIGGERPIPE:{LANES[event.dst].flag_name}"
            return f"{pipes},FLAGID:{row.param('event_id')},"
        if row.op.name == "pipe_barrier":
            return f"PIPE:{LANES[Pipe(row.param('barrier_pipe'))].flag_name},"
        operands = [f"{role.upper()}:{self._operand(number, operand, call)}" for role, operand in row.operands]
        params = [f"{name.upper()}:{value}" for name, value in zip(row.op.params, row.params, strict=True)]
        return ",".join((*operands, *params, *_dtype(row), *_mask(row), *_scalar(row)))

    def _operand(self, number: int, operand: Operand, call: Call) -> str:
        """Address, and in brackets the tensor and the byte in it."""
        ref = self.rows.tensors(number)[operand.tensor]
        base, offset = ref.address_bytes, operand.offset_bytes
        if ref.buffer is Buffer.GM:
            base = self.result.program.gm[call.slot_tensor[ref.slot]].base_bytes
            offset += call.slot_base_bytes[ref.slot] - base
        return f"0x{base + offset:x}({ref.name}{f'+{offset}' if offset else ''})"


def flag_pairs(rows: analysis.Rows) -> dict[int, int]:
    """Return the row of the set that each wait belongs to: of a core and flag, the n-th set and the n-th wait.

    Flags without a partner are left out. Source: msopprof, core timeline (pairs flags of equal detail in order).
    """
    found: dict[tuple[int, ...], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    kinds = rows.timeline["kind"]
    for number in np.flatnonzero(np.isin(kinds, tuple(FLAGS))).tolist():
        key = (int(rows.timeline["core"][number]), *rows.row(number).params)
        found[key][int(kinds[number])].append(number)
    return {
        wait: by for flag in found.values() for by, wait in zip(flag[Kind.SET_FLAG], flag[Kind.WAIT_FLAG], strict=False)
    }


def _bytes(row: Row) -> int:
    count, length, _, _ = burst_geometry(row)
    return count * length


def _dtype(row: Row) -> tuple[str, ...]:
    text = dtype_text(row)
    return (f"DTYPE:{text}",) if text else ()


def _mask(row: Row) -> tuple[str, ...]:
    """The mask of a row that reads or sets it: a count of elements, or a bit for each lane."""
    if row.op.name in ("set_mask_count", "set_mask_norm"):
        return (f"SPR:CTRL,MASK_MODE:{row.mask_mode.log_name}",)
    if not row.op.uses_mask and row.op.name != "set_vector_mask":
        return ()
    if row.mask_mode is MaskMode.COUNTER:
        return (f"COUNT:{row.mask_lo}",)
    return (f"MASK:0x{row.mask_hi << 64 | row.mask_lo:x}",)


def _scalar(row: Row) -> tuple[str, ...]:
    """The scalar operand: a register, or the bits of a number."""
    if row.register >= 0:
        return (f"REG:{row.register}",)
    return (f"SCALAR:0x{row.scalar_bits:x}",) if row.op.takes_scalar else ()


# ---- counters ---------------------------------------------------------------------------------------------------


def _counter(pid: str, name: str, args: Event, ps: int) -> str:
    """A point of a counter; at 0 it would be dropped (MindStudio Insight, event parser), so it comes 1 ns later."""
    return _timed({"name": name, "ph": "C", "pid": pid, "args": args}, max(ps, NS))


def _throughput(result: RunResult, mhz: int) -> Iterator[str]:
    """GM traffic of all cores: a point for each microsecond of the device's clock, and a last one of 0."""
    moved = {name: _moved_bytes(transfers, result.device.clock_mhz) for name, transfers in _transfers(result).items()}
    points = max((index + 2 for counts in moved.values() for index in counts), default=0)
    moved |= {"GM_TO_TOTAL": moved["GM_TO_UB"], "TOTAL_TO_GM": moved["UB_TO_GM"]}
    for index in range(points):
        ps = picoseconds(index * result.device.clock_mhz, mhz)
        for name in THROUGHPUT:
            count = moved[name][index] if name in moved else 0
            yield _counter("MTE Throughput", name, {"throughput(MB/s)": count * MB_PER_S}, ps)


def _transfers(result: RunResult) -> dict[str, list[tuple[int, int, int]]]:
    """Bytes, start and end of occupancy of every transfer, by direction."""
    t, rows = result.timeline, analysis.Rows(result.program, result.timeline)
    found: dict[str, list[tuple[int, int, int]]] = {"GM_TO_UB": [], "UB_TO_GM": []}
    for number in np.flatnonzero(t["kind"] == Kind.TRANSFER).tolist():
        row = rows.row(number)
        assert row.src0 is not None
        is_load = rows.tensors(number)[row.src0.tensor].buffer is Buffer.GM
        span = _bytes(row), int(t["start"][number]), int(t["occupied"][number])
        found["GM_TO_UB" if is_load else "UB_TO_GM"].append(span)
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


def _ub_bytes(result: RunResult, mhz: int) -> Iterator[str]:
    """Bytes of UB in use on each core, a point for each change."""
    for core in np.unique(result.timeline["core"]).tolist():
        at, used = analysis.occupancy(analysis.lives(result.program, result.timeline, core))
        pid = f"{core_name(result, core)} UB"
        before = 0
        for cycle, count in zip(at.tolist(), used.tolist(), strict=True):
            if count != before:
                yield _counter(pid, "UB bytes", {"used": count}, picoseconds(cycle, mhz))
            before = count
