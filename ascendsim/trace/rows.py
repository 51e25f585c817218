"""The slices and arrows of a timeline's rows."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ascendsim import analysis
from ascendsim.engine.base import Kind, Timeline, Wait
from ascendsim.isa.instruction import Operand, Row
from ascendsim.isa.log import dtype_text, mnemonic
from ascendsim.isa.move import burst_geometry
from ascendsim.program import Call
from ascendsim.result import RunResult
from ascendsim.terms import Buffer, HardEvent, MaskMode, Pipe
from ascendsim.trace.lanes import CROSS_CNAMES, FLAGS, LANES, MNEMONICS, Lane, core_name
from ascendsim.trace.text import NS, Ints, dumps, duration, picoseconds, us


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


class RowEvents:
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

    def title(self, number: int) -> tuple[str, str] | None:
        """Name and source line of the row of a number, None if it is not here."""
        at = self.result.timeline.position(number)
        if at < 0:
            return None
        text = self._text(at)
        return json.loads(text.name), json.loads(text.code)

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
            f'"ts":{us(begin)},"dur":{us(duration(begin, self.end_ps[at]))}}}'
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
        yield f'{{"name":{text.name},"ph":"B","cname":{text.cname},{own},"args":{args},"ts":{us(begin)}}}'
        if at in self.wait_of:
            yield self._arrow("s", at, self.wait_of[at], own, begin)
        if at in self.set_of:
            yield self._arrow("t", self.set_of[at], at, own, end - NS)
        yield f'{{"name":{text.name},"ph":"E",{own},"ts":{us(end)}}}'

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
        return f'{{"name":"flow","ph":"{phase}","cat":"{category}",{own},"ts":{us(ps)}}}'

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
        step, name = program.steps[row.step], mnemonic(row)
        title, cname = FLAGS.get(kind, (MNEMONICS.get(name, name.upper()), self._lane(at).cname))
        if analysis.is_cross_flag(row):
            title, cname = name.upper(), CROSS_CNAMES[kind]
        is_same = all(refs[operand.tensor].buffer is not Buffer.GM for _, operand in row.operands)
        return _RowText(
            name=dumps(title),
            cname=dumps(cname),
            detail=dumps(self._detail(at, row)) if is_same else "",
            code=dumps(f"{program.lines[row.line]}\n{step}" if step else program.lines[row.line]),
            moved=f',"process_bytes":{moved_bytes(row)}' if kind == Kind.TRANSFER else "",
        )

    def _args(self, at: int, text: _RowText) -> str:
        """What a click on the slice shows; fields without a meaning for the row are left out."""
        c = self.columns
        detail = text.detail or dumps(self._detail(at, self.rows.row(at)))
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
            self.stalls[key] = f',"stall":{{"reason":{dumps(wait.words)},"cycles":', f',"name":{dumps(name)}}}'
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


def moved_bytes(row: Row) -> int:
    """Bytes that a transfer moves."""
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
