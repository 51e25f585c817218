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

**Part of a run.** If a run is too long to keep all rows, or windows were asked for, the trace has only the rows that
were kept, and `otherData` says which. Traffic is known only where all rows are there; instead of its tracks there
are some of how busy each pipe was, over the whole run.

Source: msopprof (trace of the simulator), MindStudio Insight (operator timeline parser), Perfetto (JSON importer).
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ascendsim import __version__, analysis
from ascendsim.engine.base import Kind, Timeline, Wait
from ascendsim.isa.instruction import Operand, Row
from ascendsim.isa.log import dtype_text, mnemonic
from ascendsim.isa.move import burst_geometry
from ascendsim.program import Call
from ascendsim.result import RunResult
from ascendsim.terms import Buffer, CoreKind, HardEvent, MaskMode, Pipe

Time = Literal["us", "cycle"]
Ints = NDArray[Any]
Event = dict[str, Any]
Count = TypeVar("Count", int, Ints)

MOST_ROWS = 120_000
"""Rows of a long run's trace, about 350 bytes each, without those of windows."""

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

CROSS_CNAMES = {Kind.SET_FLAG: "black", Kind.WAIT_FLAG: "yellow"}
"""Colours of flags between cores, which are slices like any other: one set may release several waits, and a viewer
pairs begins and ends by their number alone."""

FLAGS = {Kind.SET_FLAG: ("SET_FLAG", "black"), Kind.WAIT_FLAG: ("WAIT_FLAG", "yellow")}
"""Name and colour of the slices that are written as begin and end."""

MNEMONICS = {
    "copy_cbuf_to_bt": "MOV_L1_TO_BT",
    "copy_cbuf_to_fbuf": "MOV_L1_TO_FB",
    "copy_cbuf_to_gm": "MOV_L1_TO_OUT",
    "copy_gm_to_cbuf": "MOV_OUT_TO_L1",
    "copy_gm_to_cbuf_multi_nd2nz": "MOV_OUT_TO_L1_MULTI_ND2NZ",
    "copy_gm_to_ubuf": "MOV_OUT_TO_UB",
    "copy_gm_to_ubuf_align": "MOV_OUT_TO_UB_ALIGN",
    "copy_ubuf_to_cbuf": "MOV_UB_TO_L1",
    "copy_ubuf_to_gm": "MOV_UB_TO_OUT",
    "copy_ubuf_to_gm_align": "MOV_UB_TO_OUT_ALIGN",
    "copy_ubuf_to_ubuf": "MOV_UB_TO_UB",
    "fix_matrix_cc_to_cbuf": "FIX_L0C_TO_L1",
    "fix_matrix_cc_to_gm": "FIX_L0C_TO_OUT",
    "load_cbuf_to_ca": "LOAD_2D",
    "load_cbuf_to_cb": "LOAD_2D",
    "load_gm_to_cbuf": "LOAD_2D",
    "pipe_barrier": "BAR",
    "scalar_load": "LD_XD_XN_IMM",
    "set_mask_count": "MOV_SPR_XN",
    "set_mask_norm": "MOV_SPR_XN",
    "set_vector_mask": "MOVEMASK",
}
"""Intrinsics whose trace name is not their own in capitals. Source: msopprof, instruction tables of A2.

Names of moves between L1, BT, FB and L0C follow those of the others.
"""

THROUGHPUT = ("GM_TO_UB", "GM_TO_L1", "GM_TO_TOTAL", "UB_TO_GM", "L1_TO_GM", "TOTAL_TO_GM")
"""Tracks of the throughput counters, in msopprof's order; those of L1 stay 0 without Cube cores. What Fixpipe stores is
in the last one only."""

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
        "otherData": _other_data(result, time) | _kept(result),
    }
    pairs = analysis.flag_pairs(analysis.Rows(result.program, result.timeline))
    shown = _shown(result)
    if len(shown) < len(result.timeline):
        pairs = _renumbered(pairs, result.timeline["number"], shown["number"])
        result = replace(result, timeline=shown)
    traffic = _throughput(result, mhz) if result.timeline.is_whole else _utilisation(result, mhz)
    all_lives = analysis.Lives(result.program, result.timeline)
    lives = {core: all_lives.of(core) for core in _cores(result)}
    events = (
        *_metadata(result, lives),
        *_RowEvents(result, pairs, mhz).all(),
        *traffic,
        *_local_bytes(result, lives, mhz),
    )
    lines = ",\n".join(events)
    return f'{_dumps(head)[:-1]},"traceEvents":[\n{lines}\n]}}\n'


_dumps = json.JSONEncoder(separators=(",", ":")).encode
"""JSON without spaces; control characters are escaped, which Perfetto needs."""


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


def _shown(result: RunResult) -> Timeline:
    """The rows of a trace: of a run whose rows are all there, those of its windows; of any other what was kept.

    The latter are at most about MOST_ROWS, as many at the begin as at the end of every core, and those of its windows.
    """
    timeline = result.timeline
    if timeline.is_whole:
        return analysis.within(timeline, result.windows)
    if len(timeline) <= MOST_ROWS:
        return timeline
    order = np.argsort(timeline["core"], kind="stable")
    counts = np.bincount(timeline["core"], minlength=result.program.core_count)
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    from_end = np.repeat(counts, counts) - 1 - place
    chosen = np.zeros(len(order), np.bool_)
    chosen[order] = np.minimum(place, from_end) < MOST_ROWS // (2 * result.program.core_count)
    for first, last in result.windows:
        chosen |= (timeline["start"] < last) & (timeline["end"] > first)
    return replace(timeline, columns={name: column[chosen] for name, column in timeline.columns.items()})


def _kept(result: RunResult) -> dict[str, Any]:
    """Which rows of a run are in its trace, where it has not all of them; without arrays, see `trace_json`."""
    timeline, shown = result.timeline, _shown(result)
    if shown.is_whole:
        return {}
    windows = [f"cycles {first} to {last}" for first, last in result.windows]
    ends = [] if timeline.is_whole else ["first and last rows of each core"]
    return {
        "rows": timeline.row_count,
        "rows_here": len(shown),
        "kept": "; ".join([*ends, *windows]),
        "rows_repeated": sum(skip.rows for skip in timeline.skipped),
        "repeated": "; ".join(
            f"cycles {skip.first} to {skip.last}: {skip.rows} rows from a period of {skip.period_cycles} cycles"
            for skip in timeline.skipped
        ),
    }


def _renumbered(pairs: dict[int, int], before: Ints, now: Ints) -> dict[int, int]:
    """Pairs of rows by their new positions, given the numbers of all and of those left; pairs cut apart are dropped."""
    at = dict(zip(now.tolist(), range(len(now)), strict=True))
    numbers = before.tolist()
    known = ((at.get(numbers[wait], -1), at.get(numbers[by], -1)) for wait, by in pairs.items())
    return {wait: by for wait, by in known if wait >= 0 and by >= 0}


# ---- time -------------------------------------------------------------------------------------------------------


def picoseconds(cycle: Count, mhz: int) -> Count:
    """Return a cycle's time, or that of each of several, to the nearest picosecond."""
    return (2_000_000 * cycle + mhz) // (2 * mhz)


def _us(ps: int) -> str:
    """Microseconds as a decimal, which no float has touched."""
    return f"{ps // 1_000_000}.{ps % 1_000_000:06d}"


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
    is_flag = np.isin(t["kind"], tuple(FLAGS)).tolist()
    lanes = (t["core"].astype(np.int64) * len(LANES) + t["pipe"]).tolist()
    begin_ps, end_ps = (picoseconds(cycles.astype(np.int64), mhz).tolist() for cycles in (t["start"], ends))
    free = [0] * (max(lanes, default=0) + 1)
    for row in np.argsort(ends, kind="stable").tolist():  # in this order a set precedes its wait
        lane = lanes[row]
        begin = begin_ps[row] = max(begin_ps[row], free[lane])
        end = max(end_ps[row], begin)
        if is_flag[row]:
            end = max(end, begin + NS)
            if row in set_of:
                end = max(end, begin_ps[set_of[row]] + 2 * NS)
        end_ps[row] = free[lane] = end
    return begin_ps, end_ps


# ---- lanes ------------------------------------------------------------------------------------------------------


def core_name(result: RunResult, core: int) -> str:
    """Return a core as traces call it: the AI Core it belongs to, and which of its Cube or vector cores it is."""
    number, vector = _place_of(result, core)
    return f"core{number}.cubecore0" if vector < 0 else f"core{number}.veccore{vector}"


def _place_of(result: RunResult, core: int) -> tuple[int, int]:
    """(AI Core, which of its vector cores; -1 for its Cube core)."""
    program = result.program
    if program.kernel_type.is_mix:
        number, place = divmod(core, program.block_cores)
        return number, place - 1
    if program.core_kind(core) is CoreKind.AIC:
        return core, -1
    number, vector = divmod(core, _vector_cores(result))
    return number, vector


def _cores(result: RunResult) -> list[int]:
    """Cores that have rows here."""
    cores: list[int] = np.unique(result.timeline["core"]).tolist()
    return cores


def _vector_cores(result: RunResult) -> int:
    """Vector cores of an AI Core."""
    return max(1, result.device.cores.aiv.value // result.device.cores.aic.value)


def _sort_index(result: RunResult, core: int) -> int:
    """Place among all cores, each cube core before its vector cores. Source: msopprof, core timeline."""
    number, vector = _place_of(result, core)
    return (1 + _vector_cores(result)) * number + 2 + vector


def _metadata(result: RunResult, lives: Mapping[int, tuple[analysis.Life, ...]]) -> Iterator[str]:
    """Names and order of processes and lanes."""
    t = result.timeline
    for core in _cores(result):
        pid, index = core_name(result, core), _sort_index(result, core)
        yield from _process(pid, index)
        pipes = (Pipe(p) for p in np.unique(t["pipe"][t["core"] == core]).tolist())
        for lane in sorted((LANES[p] for p in pipes), key=lambda lane: lane.sort_index):
            yield _meta("thread_name", pid, lane.tid, {"name": lane.tid})
            yield _meta("thread_sort_index", pid, lane.tid, {"sort_index": lane.sort_index})
        for buffer in _buffers(result, core, lives[core]):
            yield from _process(f"{pid} {buffer.name}", index)


def _buffers(result: RunResult, core: int, lives: Iterable[analysis.Life]) -> list[Buffer]:
    """Memories whose use is counted: those that something lies in, and UB of a core that has one."""
    own = set() if result.program.core_kind(core) is CoreKind.AIC else {Buffer.UB}
    return sorted(own | {life.buffer for life in lives})


def _process(pid: str, index: int) -> Iterator[str]:
    yield _meta("process_name", pid, "NA", {"name": pid})
    yield _meta("process_sort_index", pid, "NA", {"sort_index": index})


def _meta(name: str, pid: str, tid: str, args: Event) -> str:
    return _dumps({"name": name, "ph": "M", "pid": pid, "tid": tid, "args": args})


# ---- rows -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _RowText:
    """What the events of a template's row have in common, as JSON.

    Attributes:
        name, cname: of the slice.
        detail: the instruction's fields; "" if they differ from call to call.
        code: source line and marked step.
        moved: bytes of a transfer.
    """

    name: str
    cname: str
    detail: str
    code: str
    moved: str


class _RowEvents:
    """The events of the timeline's rows, in row order, which is time order on each lane.

    A row of a template comes many times. What is the same each time is made once, and events are put together as text.
    """

    def __init__(self, result: RunResult, set_of: dict[int, int], mhz: int) -> None:
        self.result = result
        self.rows = analysis.Rows(result.program, result.timeline)
        self.columns = {name: result.timeline[name].tolist() for name in result.timeline.columns}
        self.set_of = set_of
        self.wait_of = {by: wait for wait, by in set_of.items()}
        self.waits_of: dict[int, list[int]] = {}
        for wait, by in set_of.items():
            self.waits_of.setdefault(by, []).append(wait)
        self.begin_ps, self.end_ps = _placed(result.timeline, set_of, mhz)
        self.calls: dict[int, tuple[Call, str]] = {}
        self.texts: dict[tuple[int, int], _RowText] = {}
        self.places: dict[tuple[int, int], str] = {}
        self.stalls: dict[tuple[int, int, int], tuple[str, str]] = {}

    def all(self) -> Iterator[str]:
        """Every row's events."""
        for at, kind in enumerate(self.columns["kind"]):
            if kind in FLAGS and analysis.is_cross_flag(self.rows.row(at)):
                yield from self._cross(at)
            elif kind in FLAGS:
                yield from self._flag(at)
            else:
                yield self._slice(at)

    def _slice(self, at: int) -> str:
        text, begin = self._text(at), self.begin_ps[at]
        return (
            f'{{"name":{text.name},"ph":"X","cname":{text.cname},{self._place(at)},"args":{self._args(at, text)},'
            f'"ts":{_us(begin)},"dur":{_us(_duration(begin, self.end_ps[at]))}}}'
        )

    def _flag(self, at: int) -> Iterator[str]:
        """Begin, arrow and end of a SET_FLAG or WAIT_FLAG; its number is that of the set it belongs to.

        The arrow stands between begin and end: it belongs to the slice that is open when it comes. Numbers start at 1.
        Source: MindStudio Insight, event parser (begin and end are paired by name and number alone); Perfetto, JSON
        importer (arrows need whole numbers and an open slice).
        """
        text, place = self._text(at), self._place(at)
        own = f'"id":{self.columns["number"][self.set_of.get(at, at)] + 1},{place}'
        begin, end = self.begin_ps[at], self.end_ps[at]
        args = self._args(at, text)
        yield f'{{"name":{text.name},"ph":"B","cname":{text.cname},{own},"args":{args},"ts":{_us(begin)}}}'
        if at in self.wait_of:
            yield self._arrow("s", at, self.wait_of[at], own, begin)
        if at in self.set_of:
            yield self._arrow("t", self.set_of[at], at, own, end - NS)
        yield f'{{"name":{text.name},"ph":"E",{own},"ts":{_us(end)}}}'

    def _cross(self, at: int) -> Iterator[str]:
        """The slice of a flag between cores, and the arrows to all waits that it releases, or from its set.

        An arrow has the number of its wait: that of the set belongs to several.
        """
        yield self._slice(at)
        for wait in self.waits_of.get(at, ()):
            own = f'"id":{self.columns["number"][wait] + 1},{self._place(at)}'
            yield self._arrow("s", at, wait, own, self.begin_ps[at])
        if at in self.set_of:
            own = f'"id":{self.columns["number"][at] + 1},{self._place(at)}'
            yield self._arrow("t", self.set_of[at], at, own, self.end_ps[at] - NS)

    def _arrow(self, phase: str, set_at: int, wait_at: int, own: str, ps: int) -> str:
        category = f"{self._lane(set_at).tid}To{self._lane(wait_at).tid}"
        return f'{{"name":"flow","ph":"{phase}","cat":"{category}",{own},"ts":{_us(ps)}}}'

    def _lane(self, at: int) -> Lane:
        return LANES[Pipe(self.columns["pipe"][at])]

    def _place(self, at: int) -> str:
        """Process and lane."""
        key = self.columns["core"][at], self.columns["pipe"][at]
        if key not in self.places:
            self.places[key] = f'"pid":"{core_name(self.result, key[0])}","tid":"{self._lane(at).tid}"'
        return self.places[key]

    def _text(self, at: int) -> _RowText:
        key = self.rows.template_of[at], self.columns["row"][at]
        if key not in self.texts:
            self.texts[key] = self._made(at)
        return self.texts[key]

    def _made(self, at: int) -> _RowText:
        program, row, refs, kind = (
            self.result.program,
            self.rows.row(at),
            self.rows.tensors(at),
            self.columns["kind"][at],
        )
        step = program.steps[row.step]
        cname = FLAGS[kind][1] if kind in FLAGS else self._lane(at).cname
        if analysis.is_cross_flag(row):
            cname = CROSS_CNAMES[kind]
        is_same = all(refs[operand.tensor].buffer is not Buffer.GM for _, operand in row.operands)
        return _RowText(
            name=_dumps(slice_name(row, kind)),
            cname=_dumps(cname),
            detail=_dumps(self._detail(at, row)) if is_same else "",
            code=_dumps(f"{program.lines[row.line]}\n{step}" if step else program.lines[row.line]),
            moved=f',"process_bytes":{_bytes(row)}' if kind == Kind.TRANSFER else "",
        )

    def _args(self, at: int, text: _RowText) -> str:
        """What a click on the slice shows; fields without a meaning for the row are left out."""
        c = self.columns
        detail = text.detail or _dumps(self._detail(at, self.rows.row(at)))
        where = f'"code":{text.code},"pc_addr":"0x{c["number"][at]:x}"'
        parts = [f'{{"detail":{detail},{where},"cycles":{c["end"][at] - c["start"][at]}']
        if text.moved:
            parts.append(f'{text.moved},"l2":"{"hit" if c["l2_hit"][at] else "miss"}"')
        if c["wait_cycles"][at] and c["waited_for"][at] in analysis.STALLS:
            parts.append(self._stall(at))
        parts.append(self._call(c["call"][at])[1])
        if c["stretch_cycles"][at]:
            parts.append(f',"stretch_cycles":{c["stretch_cycles"][at]}')
        return "".join(parts) + "}"

    def _call(self, index: int) -> tuple[Call, str]:
        """A call, and its place in the program as JSON."""
        if index not in self.calls:
            call = self.result.program.call(index)
            tile = f',"tile":{call.tile}' if call.tile >= 0 else ""
            self.calls[index] = call, f'{tile},"call":{call.index}'
        return self.calls[index]

    def _stall(self, at: int) -> str:
        """What the row waited for, how long, and the queue, GM tensor or step that held it."""
        key = self.rows.template_of[at], self.columns["row"][at], self.columns["waited_for"][at]
        if key not in self.stalls:
            wait, template, row = Wait(key[2]), self.rows.template(at), self.rows.row(at)
            name = analysis.waited_name(self.result.program, template, row, wait)
            self.stalls[key] = f',"stall":{{"reason":{_dumps(wait.words)},"cycles":', f',"name":{_dumps(name)}}}'
        before, after = self.stalls[key]
        return f"{before}{self.columns['wait_cycles'][at]}{after}"

    def _detail(self, at: int, row: Row) -> str:
        """The instruction's fields as KEY:value, separated by commas."""
        if row.op.name in ("set_flag", "wait_flag"):
            event = HardEvent(row.param("event"))
            pipes = f"PIPE:{LANES[event.src].flag_name},TRIGGERPIPE:{LANES[event.dst].flag_name}"
            return f"{pipes},FLAGID:{row.param('event_id')},"
        if analysis.is_cross_flag(row):
            return f"PIPE:{LANES[row.pipe].flag_name},MODE:{row.param('mode')},FLAGID:{row.param('flag_id')},"
        if row.op.name == "pipe_barrier":
            return f"PIPE:{LANES[Pipe(row.param('barrier_pipe'))].flag_name},"
        operands = [f"{role.upper()}:{self._operand(at, operand)}" for role, operand in row.operands]
        params = [f"{name.upper()}:{value}" for name, value in zip(row.op.params, row.params, strict=True)]
        return ",".join((*operands, *params, *_dtype(row), *_mask(row), *_scalar(row)))

    def _operand(self, at: int, operand: Operand) -> str:
        """Address, and in brackets the tensor and the byte in it."""
        ref = self.rows.tensors(at)[operand.tensor]
        base, offset = ref.address_bytes, operand.offset_bytes
        if ref.buffer is Buffer.GM:
            call = self._call(self.columns["call"][at])[0]
            base = self.result.program.gm[call.slot_tensor[ref.slot]].base_bytes
            offset += call.slot_base_bytes[ref.slot] - base
        return f"0x{base + offset:x}({ref.name}{f'+{offset}' if offset else ''})"


def slice_name(row: Row, kind: int) -> str:
    """Return what traces call an instruction; `kind` is that of the timeline."""
    name = mnemonic(row)
    if kind in FLAGS and not analysis.is_cross_flag(row):
        return FLAGS[Kind(kind)][0]
    return MNEMONICS.get(name, name.upper())


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
    event = _dumps({"name": name, "ph": "C", "pid": pid, "args": args})
    return f'{event[:-1]},"ts":{_us(max(ps, NS))}}}'


def _throughput(result: RunResult, mhz: int) -> Iterator[str]:
    """GM traffic of all cores: a point for each microsecond of the device's clock, and a last one of 0."""
    moved = {name: _moved_bytes(transfers, result.device.clock_mhz) for name, transfers in _transfers(result).items()}
    points = max((index + 2 for counts in moved.values() for index in counts), default=0)
    for total, way in (("GM_TO_TOTAL", "GM_TO_"), ("TOTAL_TO_GM", "_TO_GM")):
        moved[total] = sum((counts for name, counts in moved.items() if way in name), Counter[int]())
    for index in range(points):
        ps = picoseconds(index * result.device.clock_mhz, mhz)
        for name in THROUGHPUT:
            count = moved[name][index] if name in moved else 0
            yield _counter("MTE Throughput", name, {"throughput(MB/s)": count * MB_PER_S}, ps)


def _transfers(result: RunResult) -> dict[str, list[tuple[int, int, int]]]:
    """Bytes, start and end of occupancy of every transfer, by direction."""
    t, rows = result.timeline, analysis.Rows(result.program, result.timeline)
    found: dict[str, list[tuple[int, int, int]]] = {}
    for number in np.flatnonzero(t["kind"] == Kind.TRANSFER).tolist():
        row = rows.row(number)
        assert row.src0 is not None
        assert row.dst is not None
        source, target = (rows.tensors(number)[operand.tensor].buffer.name for operand in (row.src0, row.dst))
        span = _bytes(row), int(t["start"][number]), int(t["occupied"][number])
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


def _utilisation(result: RunResult, mhz: int) -> Iterator[str]:
    """How busy each pipe was over the whole run, over all cores that have it; S left out."""
    cuts, shares = analysis.utilisation(result.timeline, result.program.block_cores)
    for pipe, share in sorted(shares.items()):
        percent = np.append(np.round(100 * share, 3), 0.0).tolist()
        for at, (before, now) in enumerate(pairwise([-1.0, *percent])):
            if now != before:
                ps = picoseconds(int(cuts[at]), mhz)
                yield _counter("Utilisation", LANES[pipe].tid, {"busy(%)": now}, ps)


def _local_bytes(result: RunResult, lives: Mapping[int, tuple[analysis.Life, ...]], mhz: int) -> Iterator[str]:
    """Bytes of each on-chip memory in use on each core, a point for each change."""
    for core, found in lives.items():
        for buffer in _buffers(result, core, found):
            at, used = analysis.occupancy([life for life in found if life.buffer is buffer])
            pid, name = f"{core_name(result, core)} {buffer.name}", f"{buffer.name} bytes"
            before = 0
            for cycle, count in zip(at.tolist(), used.tolist(), strict=True):
                if count != before:
                    yield _counter(pid, name, {"used": count}, picoseconds(cycle, mhz))
                before = count
