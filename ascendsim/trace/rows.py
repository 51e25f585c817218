"""The slices and arrows of a timeline's rows."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ascendsim import analysis
from ascendsim.engine.base import Kind, Timeline, Wait
from ascendsim.result import RunResult
from ascendsim.terms import Pipe
from ascendsim.trace.events import NS, Ints, dumps, duration, picoseconds, us
from ascendsim.trace.lanes import FLAGS, LANES, Lane, core_name
from ascendsim.trace.texts import RowTexts, moved_bytes


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
        self.said = RowTexts(result)
        self.rows = self.said.rows
        self.columns = {name: result.timeline[name].tolist() for name in result.timeline.columns}
        self.set_of = set_of
        self.wait_of = {by: wait for wait, by in set_of.items()}
        self.waits_of: dict[int, list[int]] = {}
        for wait, by in set_of.items():
            self.waits_of.setdefault(by, []).append(wait)
        self.begin_ps, self.end_ps = _placed(result.timeline, set_of, mhz)
        self.calls: dict[int, str] = {}
        self.texts: dict[tuple[int, int], _RowText] = {}
        self.places: dict[tuple[int, int], str] = {}
        self.stalls: dict[tuple[int, int, int], tuple[str, str]] = {}

    def title(self, number: int) -> tuple[str, str] | None:
        """Name and source line of the row of a number, None if it is not here."""
        at = self.result.timeline.position(number)
        if at < 0:
            return None
        return self.said.title(at)[0], self.said.code(at)

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
            whole = duration(self.begin_ps[at], self.end_ps[at]) // NS  # so it is inside however a viewer rounds
            yield self._arrow("t", self.set_of[at], at, own, self.begin_ps[at] + (whole - 1) * NS)

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
        (title, cname), row = self.said.title(at), self.rows.row(at)
        is_transfer = self.columns["kind"][at] == Kind.TRANSFER
        return _RowText(
            name=dumps(title),
            cname=dumps(cname),
            detail=dumps(self.said.detail(at, row)) if self.said.is_same(at) else "",
            code=dumps(self.said.code(at)),
            moved=f',"process_bytes":{moved_bytes(row)}' if is_transfer else "",
        )

    def _args(self, at: int, text: _RowText) -> str:
        """What a click on the slice shows; fields without a meaning for the row are left out."""
        c = self.columns
        detail = text.detail or dumps(self.said.detail(at, self.rows.row(at)))
        where = f'"code":{text.code},"pc_addr":"0x{c["number"][at]:x}"'
        parts = [f'{{"detail":{detail},{where},"cycles":{c["end"][at] - c["start"][at]}']
        if text.moved:
            parts.append(f'{text.moved},"l2":"{"hit" if c["l2_hit"][at] else "miss"}"')
        if c["wait_cycles"][at] and c["waited_for"][at] in analysis.STALLS:
            parts.append(self._stall(at))
        parts.append(self._call(c["call"][at]))
        if c["stretch_cycles"][at]:
            parts.append(f',"stretch_cycles":{c["stretch_cycles"][at]}')
        return "".join(parts) + "}"

    def _call(self, index: int) -> str:
        """A call's place in the program as JSON."""
        if index not in self.calls:
            call = self.said.call(index)
            tile = f',"tile":{call.tile}' if call.tile >= 0 else ""
            self.calls[index] = f'{tile},"call":{call.index}'
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
