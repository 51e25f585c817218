"""What is to be drawn on a timeline, without drawing it: each pipe's work and waits, flags, marked steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby, pairwise
from typing import Any, TypeVar

import numpy as np

from ascendsim import analysis
from ascendsim.engine.base import Kind, Wait
from ascendsim.isa.instruction import Row
from ascendsim.isa.log import cube_api, mnemonic, size_text
from ascendsim.plot.style import WIDTH, text_size
from ascendsim.result import RunResult
from ascendsim.terms import Buffer, HardEvent, Pipe

T = TypeVar("T")

LANES = (Pipe.S, Pipe.MTE2, Pipe.MTE1, Pipe.M, Pipe.FIX, Pipe.V, Pipe.MTE3)
"""Pipes from top to bottom."""
_HELD = (Wait.FLAG, Wait.BUFFER, Wait.BARRIER, Wait.DISPATCH, Wait.CROSS_CORE, Wait.UNIT_FLAG)

# Inches.
LEFT, PITCH, BAND = 1.4, 0.47, 0.2
"""Room left of the lanes, distance of two lanes, height of the band of steps above V."""
CHART = WIDTH - LEFT - 0.95
"""Width of the lanes."""
_TINY, _TOUCH = 0.05, 0.02
"""Bars narrower on average than the first may be merged over gaps up to the second."""
_NAMED = 0.1
"""No name fits into a narrower bar."""
_DENSE = 0.8
"""A run of bars is merged only if they fill this share of it: a block must not look busier than the pipe was."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Work on a pipe: one row, or several rows of one marked step drawn as one block."""

    start: int
    occupied: int
    end: int
    group: tuple[int, ...]
    """Call and step, of the Cube's instructions also which one."""
    labels: tuple[str, ...]
    """What may stand in it, best first."""
    stretch: int = 0
    """Cycles that sharing a link added to a transfer."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A stretch of time in which a pipe waits."""

    start: int
    end: int
    cause: Wait
    what: str
    """Name of the flag, queue, step or pipe."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag from where it is raised to where it is taken."""

    source: Pipe
    raised: int
    target: Pipe
    taken: int
    source_core: int
    target_core: int

    @property
    def is_cross(self) -> bool:
        """Whether it was raised by another core."""
        return self.source_core != self.target_core


@dataclass(frozen=True, slots=True)
class Lane:
    """One pipe of one core, ready to be drawn; y is its middle, in inches from the top of the axes."""

    pipe: Pipe
    y: float
    bars: tuple[Bar, ...]
    holds: tuple[Hold, ...]
    dispatches: tuple[tuple[int, int], ...]
    """Where the scalar unit puts rows into queues; empty for other pipes."""
    busy_share: float
    path: tuple[tuple[int, int], ...]
    """Stretches of the critical path in view."""


@dataclass(frozen=True, slots=True)
class CoreLanes:
    """One core's lanes, flags and marked steps."""

    core: int
    lanes: tuple[Lane, ...]
    flags: tuple[Flag, ...]
    steps: tuple[Bar, ...]
    band_y: float


@dataclass(frozen=True)
class View:
    """What part of a run is drawn."""

    result: RunResult
    cores: tuple[int, ...]
    first: int
    last: int
    rows: analysis.Rows = field(repr=False)
    by_core: dict[int, dict[int, analysis.Ints]] = field(default_factory=dict, repr=False)
    """Positions of each core's rows by pipe, in the order of their starts, as far as they were asked for."""

    def rows_of(self, core: int, pipe: Pipe) -> analysis.Ints:
        """Positions of the rows of a pipe of a core, in the order of their starts."""
        if core not in self.by_core:
            t = self.result.timeline
            here = np.flatnonzero(t["core"] == core)
            here = here[np.argsort(t["start"][here], kind="stable")]
            pipes = t["pipe"][here]
            self.by_core[core] = {pipe: here[pipes == pipe] for pipe in np.unique(pipes).tolist()}
        return self.by_core[core].get(pipe, np.zeros(0, np.int64))

    @property
    def inches(self) -> float:
        """Inches of one cycle."""
        return CHART / (self.last - self.first)

    @property
    def whole(self) -> bool:
        """Whether all of the run is in view."""
        return self.first == 0 and self.last >= self.result.makespan_cycles

    def width(self, start: float, end: float) -> float:
        """Inches of what is visible of a range of cycles."""
        return (min(end, self.last) - max(start, self.first)) * self.inches

    def middle(self, start: float, end: float) -> float:
        """Cycle in the middle of what is visible of a range."""
        return (min(end, self.last) + max(start, self.first)) / 2

    def scalar_time(self, core: int) -> analysis.ScalarTime:
        """What the scalar unit of a core did beside its own rows."""
        return analysis.scalar_time(self.result.timeline, core, self.result.device.scalar.dispatch_cycles.value)

    def tile(self, call: int) -> str:
        """Name of a call's tile, "" if it has none."""
        tile = int(self.result.program.calls["tile"][call])
        return f"tile {tile}" if tile >= 0 else ""

    def step(self, index: int) -> str:
        """Last part of a marked step's name."""
        return self.result.program.steps[index].rsplit("/", 1)[-1]


def view_of(result: RunResult, cores: tuple[int, ...] | None, first: int, last: int | None) -> View:
    """Choose a part of a run; arguments and errors as `timeline_picture`."""
    known = range(result.program.core_count)
    chosen = _default_cores(result) if cores is None else tuple(dict.fromkeys(cores))
    missing = [core for core in chosen if core not in known]
    if missing or not chosen:
        raise ValueError(f"cores {list(chosen)}: the run has cores 0 to {known[-1]}, choose at least one of them")
    end = max(result.makespan_cycles, 1) if last is None else last
    if not 0 <= first < end:
        raise ValueError(f"cycles {first} to {end}: the first must be at least 0 and before the last")
    return View(result, chosen, first, end, analysis.Rows(result.program, result.timeline))


def _default_cores(result: RunResult) -> tuple[int, ...]:
    """Core 0 and the core that ends last; of several that end together, the one with the highest number.

    Of a mixed kernel the cores of one AI Core, see `ai_core`.
    """
    if result.program.kernel_type.is_mix:
        return ai_core(result)
    return tuple(dict.fromkeys((0, analysis.last_block(result.program, result.timeline))))


def ai_core(result: RunResult) -> tuple[int, ...]:
    """Cores of the AI Core of a mixed kernel that ends last, see `last_block`."""
    cores, block = result.program.block_cores, analysis.last_block(result.program, result.timeline)
    return tuple(range(block * cores, (block + 1) * cores))


def core_lanes(view: View, core: int, pipes: Sequence[Pipe], top: float) -> CoreLanes:
    """Collect one core's lanes, the first of them `top` inches below the top of the axes."""
    shares = {u.pipe: u.busy_cycles / view.result.makespan_cycles for u in view.result.pipe_use if u.core == core}
    lanes, steps, y, band_y = [], list[Bar](), top, top
    for pipe in pipes:
        bars = _bars(view, core, pipe)
        if pipe is Pipe.V:
            steps, band_y, y = _step_band(view, bars), y + BAND / 2, y + BAND
        holds = tuple(_holds(view, core, pipe))
        sent = _dispatches(view, core) if pipe is Pipe.S else ()
        share, path = shares.get(pipe, 0.0), _path(view, core, pipe)
        lanes.append(Lane(pipe, y + PITCH / 2, tuple(_merged(view, bars)), holds, sent, share, path))
        y += PITCH
    return CoreLanes(core, tuple(lanes), tuple(_flags(view, core)), tuple(steps), band_y)


def _path(view: View, core: int, pipe: Pipe) -> tuple[tuple[int, int], ...]:
    """Stretches of the critical path that lie on a pipe, in view, without the seams between them."""
    own = [s for s in view.result.critical_path if (s.core, s.pipe) == (core, pipe)]
    seen = [(s.begin_cycles, s.end_cycles) for s in own if s.end_cycles > view.first and s.begin_cycles < view.last]
    runs = _runs(seen, lambda before, after: before[1] == after[0])
    return tuple((run[0][0], run[-1][1]) for run in runs)


def _work(view: View, core: int, pipe: Pipe) -> analysis.Ints:
    """Positions of a pipe's instructions and transfers, in the order of their starts."""
    rows = view.rows_of(core, pipe)
    return rows[np.isin(view.result.timeline["kind"][rows], analysis.WORK)]


def _bars(view: View, core: int, pipe: Pipe) -> list[Bar]:
    """A pipe's work in view. What drains ends where the next row starts."""
    t, rows = view.result.timeline, _work(view, core, pipe)
    following = np.append(t["start"][rows][1:], np.iinfo(np.int64).max)
    ends = np.minimum(t["end"][rows], np.maximum(following, t["occupied"][rows]))
    seen = (ends > view.first) & (t["start"][rows] < view.last)
    return [_bar(view, at, end) for at, end in zip(rows[seen].tolist(), ends[seen].tolist(), strict=True)]


def _bar(view: View, at: int, end: int) -> Bar:
    t, row, call = view.result.timeline, view.rows.row(at), int(view.result.timeline["call"][at])
    start, occupied = int(t["start"][at]), int(t["occupied"][at])
    is_seen = view.width(start, occupied) > _NAMED
    labels = _bar_labels(view, at, row, view.tile(call)) if is_seen else (_bar_name(row),)
    group = (call, row.step, row.op.opcode) if size_text(row) else (call, row.step)
    return Bar(start, occupied, end, group, labels, int(t["stretch_cycles"][at]))


def _bar_name(row: Row) -> str:
    """What an instruction is called in a picture; the copy that makes fractals is told from plain ones."""
    api = cube_api(row)
    return "ND2NZ" if api == "DataCopyND2NZ" else api or mnemonic(row)


def _bar_labels(view: View, at: int, row: Row, tile: str) -> tuple[str, ...]:
    name, size = _bar_name(row), size_text(row)
    refs = view.rows.tensors(at)
    gm = [refs[o.tensor].name for _, o in row.operands if refs[o.tensor].buffer is Buffer.GM]
    if size:
        behind = [", ".join(filter(None, (size, *gm, tile))), ", ".join((size, *gm)), size]
        return tuple(dict.fromkeys([*(f"{name}\n{text}" for text in behind), name, _two_lines(name)]))
    details = [", ".join(filter(None, (*gm, tile))), *gm]
    return tuple(dict.fromkeys([*(f"{name}\n{d}" for d in details if d), name, _two_lines(name)]))


@cache
def _two_lines(name: str) -> str:
    """BlockReduceSum as "Block" above "ReduceSum": broken before the capital that leaves the narrowest text."""
    breaks = [i for i in range(1, len(name)) if name[i].isupper()]
    return min((f"{name[:i]}\n{name[i:]}" for i in breaks), key=lambda t: text_size(t)[0], default=name)


def _merged(view: View, bars: list[Bar]) -> list[Bar]:
    """Bars, with runs of tiny ones of the same call and step made one block."""
    out: list[Bar] = []
    for run in _runs(bars, lambda a, b: a.group == b.group and (b.start - a.end) * view.inches <= _TOUCH):
        busy = sum(b.end - b.start for b in run)
        tiny = len(run) > 1 and busy * view.inches < _TINY * len(run)
        dense = busy > _DENSE * (run[-1].end - run[0].start)
        out += [_block(view, run)] if tiny and dense else run
    return out


def _runs(items: Sequence[T], together: Callable[[T, T], bool]) -> list[list[T]]:
    """Split a sequence where two neighbours do not belong together."""
    out: list[list[T]] = [[item] for item in items[:1]]
    for before, item in pairwise(items):
        if together(before, item):
            out[-1].append(item)
        else:
            out.append([item])
    return out


def _block(view: View, run: list[Bar]) -> Bar:
    call, step = run[0].group[:2]
    name = view.step(step) or run[0].labels[-1].replace("\n", "")
    count = f"{len(run)} instr."
    details = (", ".join(filter(None, (count, view.tile(call)))), count)
    labels = (*(f"{name}\n{d}" for d in details), f"{name} ×{len(run)}", name)
    return Bar(run[0].start, run[-1].end, run[-1].end, run[0].group, labels, sum(b.stretch for b in run))


def _step_band(view: View, bars: list[Bar]) -> list[Bar]:
    """One bar for each marked step that V works through."""
    out = []
    for (call, step), group in groupby(bars, lambda b: b.group[:2]):
        run = list(group)
        if name := view.step(step):
            tile = view.tile(call)
            labels = (f"{name}, {tile}", name) if tile else (name,)
            out.append(Bar(run[0].start, run[-1].end, run[-1].end, (call, step), labels))
    return out


def _holds(view: View, core: int, pipe: Pipe) -> list[Hold]:
    """A pipe's waiting in view, without the time in which it is busy (for a barrier: in which it still issues)."""
    t, rows, work = view.result.timeline, view.rows_of(core, pipe), _work(view, core, pipe)
    rows = rows[np.isin(t["waited_for"][rows], _HELD) & (t["wait_cycles"][rows] > 0)]
    busy = analysis.union_intervals(t["start"][work], t["end"][work])
    issuing = analysis.union_intervals(t["start"][work], t["occupied"][work])
    found = [] if pipe is not Pipe.S else _queue_full(view, core)
    for at in rows.tolist():
        hold = _hold(view, at)
        if hold.end > view.first and hold.start < view.last:
            found += _outside(hold, issuing if hold.cause is Wait.BARRIER else busy)
    return _joined(view, sorted(found, key=lambda h: h.start))


def _hold(view: View, at: int) -> Hold:
    t, row = view.result.timeline, view.rows.row(at)
    wait, start, cycles = Wait(int(t["waited_for"][at])), int(t["start"][at]), int(t["wait_cycles"][at])
    if wait is Wait.DISPATCH:
        return Hold(start - cycles, start, wait, "")
    if analysis.is_cross_flag(row):
        what = analysis.cross_flag_name(row)
    elif t["kind"][at] == Kind.WAIT_FLAG and row.que < 0:
        what = HardEvent(row.param("event")).name  # its step is named above the lane
    else:
        what = analysis.waited_name(view.result.program, view.rows.template(at), row, wait).rsplit("/", 1)[-1]
    begin = start - cycles if wait is Wait.UNIT_FLAG else start
    return Hold(begin, begin + cycles, wait, what)


def _queue_full(view: View, core: int) -> list[Hold]:
    """Times in view in which the scalar unit cannot dispatch because the pipe's queue has no room."""
    s = view.scalar_time(core)
    seen = np.flatnonzero((s.begun > s.stuck) & (s.begun > view.first) & (s.stuck < view.last))
    pipes = view.result.timeline["pipe"][s.number]
    return [Hold(int(s.stuck[i]), int(s.begun[i]), Wait.QUEUE_FULL, Pipe(int(pipes[i])).name) for i in seen]


def _dispatches(view: View, core: int) -> tuple[tuple[int, int], ...]:
    """Times in view in which the scalar unit dispatches rows to other pipes."""
    s = view.scalar_time(core)
    seen = (s.done > view.first) & (s.begun < view.last)
    spans = analysis.union_intervals(s.begun[seen], s.done[seen])
    return tuple(zip(spans[0].tolist(), spans[1].tolist(), strict=True))


def _outside(hold: Hold, busy: tuple[Any, Any]) -> list[Hold]:
    """The parts of a wait that lie outside disjoint sorted intervals."""
    out, at = [], hold.start
    first = int(np.searchsorted(busy[1], hold.start, "right"))
    for start, end in zip(busy[0][first:], busy[1][first:], strict=True):
        if start >= hold.end:
            break
        if start > at:
            out.append(replace(hold, start=at, end=int(start)))
        at = int(end)
    return [*out, replace(hold, start=at)] if at < hold.end else out


def _joined(view: View, holds: list[Hold]) -> list[Hold]:
    """Waits of one cause with gaps too narrow to see become one."""
    runs = _runs(
        holds, lambda a, b: (a.cause, a.what) == (b.cause, b.what) and (b.start - a.end) * view.inches <= _TOUCH
    )
    return [replace(run[0], end=max(h.end for h in run)) for run in runs]


def _flags(view: View, core: int) -> list[Flag]:
    """Flags raised and taken in view; those of other cores only where the core that raised it is drawn, too."""
    t, found = view.result.timeline, []
    for wait, by in analysis.flag_pairs(view.rows, core).items():
        held = t["waited_for"][wait] in (Wait.FLAG, Wait.BUFFER, Wait.CROSS_CORE)
        taken = int(t["start"][wait]) + held * int(t["wait_cycles"][wait])
        pipes = view.rows.row(by).pipe, view.rows.row(wait).pipe
        found.append(Flag(pipes[0], int(t["end"][by]), pipes[1], taken, int(t["core"][by]), core))
    found = [f for f in found if f.raised >= view.first and f.taken <= view.last]
    return [f for f in found if f.source_core in view.cores and (f.is_cross or f.source is not f.target)]
