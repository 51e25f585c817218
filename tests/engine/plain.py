"""A second scheduler of the contract in ascendsim/engine/base.py: one loop over cycles, written to be obvious.

No events and no heap: in every cycle every pipe of every core is asked what it can do, and every transfer gets its
share of that one cycle. It was first written from the contract's text alone; where the text left a choice, it was then
brought in line with the reference, and "Choice:" marks the place.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ascendsim.engine.base import TIMELINE_COLUMNS, UNITS_PER_BYTE, Kind, L2Info, ScheduleInput, Timeline, Wait
from ascendsim.engine.totals import whole_timeline
from ascendsim.errors import Deadlock
from ascendsim.terms import Pipe

NOBODY = -1
WORK = (Kind.EXEC, Kind.TRANSFER)


@dataclass(eq=False)
class Row:
    """One program row: what it is, and what has happened to it so far (None: not yet)."""

    number: int
    index: int  # in its template
    core: int
    call: int
    kind: Kind
    pipe: Pipe
    given: dict[str, int]
    gm_base: int
    flag: tuple[int, int]  # number, and 0 or one more than the cross-core mode
    cold: bool = False
    taken_after: "Row | None" = None  # the row before it in the core's order
    stuck_cycles: int = 0  # S waited for room in the queue
    dispatched: int | None = None
    start: int | None = None
    complete: bool = False
    passed: int | None = None  # of a WAIT_FLAG or BARRIER: it holds its pipe no longer
    occupied: int | None = None
    end: int | None = None
    waited_for: Wait = Wait.NOTHING
    wait_cycles: int = 0
    released_by: int = NOBODY
    # Of a transfer:
    l2_hit: bool = False
    moves: int = 0  # bytes
    startup: int = 0
    link: int = NOBODY
    cap_units: int = 0
    data_start: int | None = None
    units_left: int = 0
    data_end: int | None = None
    stretch_cycles: int = 0
    last_to_leave: int = NOBODY  # the link, while this one was on it


@dataclass
class PipeState:
    """A pipe: its queue, the row it works on, the rows that are not complete yet, and all rows it has started."""

    queue: list[Row] = field(default_factory=list)
    working: Row | None = None
    incomplete: list[Row] = field(default_factory=list)
    started: list[Row] = field(default_factory=list)
    cold: bool = True


@dataclass
class Core:
    """A core: the rows its scalar unit has yet to take, the one it dispatches, its pipes, and its raised flags."""

    rows: list[Row]
    dispatching: Row | None = None
    dispatch_end: int = 0
    taken: Row | None = None  # the last row it took
    pipes: dict[Pipe, PipeState] = field(default_factory=lambda: {p: PipeState() for p in Pipe if p != Pipe.ALL})
    raised_by: dict[tuple[int, int], list[Row]] = field(default_factory=dict)  # of its own and cross-core flags
    cross_sets: dict[tuple[int, int], list[Row]] = field(default_factory=dict)  # its sets of cross-core flags, all


class L2:
    """Resident lines of each segment; segments stand in least-recently-used order.

    Choice: a box touches its segments once each, in ascending order, and each makes room when it has come; it stays
    itself. A forced mode holds for loads and stores.
    """

    def __init__(self, info: L2Info) -> None:
        self.info = info
        self.room = info.bytes // info.line_bytes
        self.segments: OrderedDict[int, set[int]] = OrderedDict()
        self.written: set[int] = set()

    def look_and_update(self, row: Row) -> tuple[bool, int]:
        """Whether it is a hit, and the bytes that it moves."""
        own = row.given["bytes"]
        if self.info.mode in {"hit", "miss"}:
            return self.info.mode == "hit", row.given["bytes_hit"] if self.info.mode == "hit" else own
        if row.given["bypass"]:
            return False, own
        resident, back = self.touch(row)
        hit, back_bytes = resident, len(back) * self.info.line_bytes
        if row.given["writes"]:
            hit, back_bytes = not back, max(0, back_bytes - own)
        if hit:
            return True, row.given["bytes_hit"]
        return False, own + back_bytes if own else 0

    def touch(self, row: Row) -> tuple[bool, set[int]]:
        """Whether all lines were resident, and those written back."""
        lines, back = self.lines(row), set()
        resident = set().union(*self.segments.values())
        for segment in sorted({self.segment(line) for line in lines}):
            mine = {n for n in lines if self.segment(n) == segment}
            self.segments.setdefault(segment, set()).update(mine)
            if row.given["writes"]:
                self.written |= mine
            self.segments.move_to_end(segment)
            while sum(map(len, self.segments.values())) > self.room and len(self.segments) > 1:
                _, dropped = self.segments.popitem(last=False)
                back |= dropped & self.written
                self.written -= dropped
        return lines <= resident, back

    def warm_up(self, rows: list[Row], calls: list[list[int]]) -> None:
        """`calls`: numbers of the calls of each core."""
        for turn in range(max(map(len, calls), default=0)):
            for mine in calls:
                of_call = [row for row in rows if turn < len(mine) and row.call == mine[turn]]
                for row in of_call:
                    if row.kind == Kind.TRANSFER and not row.given["bypass"]:
                        self.touch(row)

    def segment(self, line: int) -> int:
        return line * self.info.line_bytes // self.info.segment_bytes

    def lines(self, row: Row) -> set[int]:
        first_byte = row.gm_base + row.given["gm_offset"]
        starts = [first_byte + i * row.given["gm_pitch"] for i in range(row.given["gm_rows"])]
        return {byte // self.info.line_bytes for at in starts for byte in range(at, at + row.given["gm_length"])}


class Scheduler:
    def __init__(self, program: ScheduleInput) -> None:
        self.program = program
        self.rows = program_rows(program)
        self.cores = [Core([r for r in self.rows if r.core == c]) for c in range(program.core_count)]
        self.links: list[list[Row]] = [[] for _ in program.links]
        self.l2 = L2(program.l2)
        if program.l2.mode == "warm":
            calls = [np.flatnonzero(program.call_core == core).tolist() for core in range(program.core_count)]
            self.l2.warm_up(self.rows, calls)
        self.groups = [
            (number, setters, waiters)
            for number, mode in enumerate(program.cross_modes, start=1)
            for setters, waiters in zip(mode.setters, mode.waiters, strict=True)
        ]
        self.rises: Counter[tuple[tuple[int, int], tuple[int, ...]]] = Counter()  # of a cross-core flag and a group
        self.now = 0
        self.last_move = 0

    def run(self) -> None:
        while True:
            # Choice: what takes no time at all ends in the cycle it starts in, so ask until nothing moves.
            while self.completions() or self.starts() or self.look_ups():
                self.last_move = self.now
            if all(row.complete for row in self.rows):
                return
            coming = any(core.dispatching for core in self.cores) or any(self.next_rises())
            if not coming and not any(map(self.ticks, self.rows)):
                raise Deadlock(self.deadlock_text(), self.last_move)
            self.move_bytes()
            self.count_stuck_scalar_units()
            self.now += 1

    # --- Completions

    def completions(self) -> bool:
        moved = self.leave_links()
        for core in self.cores:
            if core.dispatching is not None and core.dispatch_end == self.now:
                core.dispatching.dispatched = self.now
                core.pipes[core.dispatching.pipe].queue.append(core.dispatching)
                core.dispatching = None
                moved = True
            for pipe in core.pipes.values():
                if pipe.working is not None and self.occupancy_is_over(pipe.working):
                    pipe.working = None
                    moved = True
                for row in list(pipe.incomplete):
                    if self.completes(core, pipe, row):
                        row.complete = True
                        pipe.incomplete.remove(row)
                        moved = True
        self.raise_cross_core_flags()
        return moved

    def raise_cross_core_flags(self) -> None:
        while due := [rise for rise in self.next_rises() if rise[0] <= self.now]:
            for _, flag, setters, waiters, releaser in due:
                self.rises[flag, setters] += 1
                for waiter in waiters:
                    self.cores[waiter].raised_by.setdefault(flag, []).append(releaser)

    def next_rises(self) -> Iterator[tuple[int, tuple[int, int], tuple[int, ...], tuple[int, ...], Row]]:
        """(cycle, flag, setters, waiters, last set) of the next rise of each flag that all its setters have set."""
        for flag in sorted({flag for core in self.cores for flag in core.cross_sets}):
            for mode, setters, waiters in self.groups:
                if mode != flag[1]:
                    continue
                sets = [self.cores[setter].cross_sets.get(flag, []) for setter in setters]
                turn = self.rises[flag, setters]
                if all(len(of_one) > turn for of_one in sets):
                    rows = [of_one[turn] for of_one in sets]
                    last = max(row.end for row in rows)
                    releaser = min((row for row in rows if row.end == last), key=lambda r: (r.core, r.pipe))
                    yield last + self.program.cross_cycles, flag, setters, waiters, releaser

    def leave_links(self) -> bool:
        left = []
        for link in self.links:
            through = [row for row in link if row.units_left <= 0 and self.now >= row.data_start]
            link[:] = [row for row in link if row not in through]
            for row in through:
                self.end_data(row)
            # Choice: of several that leave in one cycle, the first in (core, pipe) order, as for barriers.
            shared = [row for row in through if row.data_start < self.now]
            for other in link:
                if shared and other.data_start < self.now:
                    other.last_to_leave = min(shared, key=lambda r: (r.core, r.pipe)).number
            left += through
        return bool(left)

    def end_data(self, row: Row) -> None:
        """All bytes are through. Choice: the least occupancy counts from the row's start, and needs no link."""
        row.data_end = self.now
        least = row.start + row.startup
        if row.moves:
            alone = min(row.cap_units, self.program.links[row.link].capacity_units)
            least += ceil_div(row.moves * UNITS_PER_BYTE, alone)
        row.occupied = max(self.now, least, row.start + row.given["occupancy"])
        row.end = row.occupied + row.given["drain"]
        row.stretch_cycles = max(0, self.now - least)
        # Choice: sharing is the cause if it cost more than the wait before, or if that was for the row before only.
        if row.stretch_cycles > (0 if row.waited_for == Wait.PIPE_ORDER else row.wait_cycles):
            row.waited_for, row.wait_cycles, row.released_by = Wait.BANDWIDTH, row.stretch_cycles, row.last_to_leave

    def occupancy_is_over(self, row: Row) -> bool:
        return row.occupied is not None and row.occupied <= self.now

    def completes(self, core: Core, pipe: PipeState, row: Row) -> bool:
        if row.kind == Kind.SET_FLAG:
            if not self.occupancy_is_over(row) or pipe.incomplete[0] is not row:
                return False
            row.end = self.now
            up = core.cross_sets if row.given["cross"] else core.raised_by
            up.setdefault(row.flag, []).append(row)
            return True
        return row.end is not None and row.end <= self.now

    # --- Starts

    def starts(self) -> bool:
        moved = False
        for core in self.cores:
            for name, pipe in core.pipes.items():
                if name == Pipe.S:
                    moved |= self.scalar_unit(core)
                elif pipe.working is None and pipe.queue:
                    self.start(pipe, pipe.queue.pop(0))
                    moved = True
                held = pipe.working
                if held is not None and held.kind in {Kind.WAIT_FLAG, Kind.BARRIER} and held.passed is None:
                    moved |= self.try_to_pass(core, name, pipe, held)
        return moved

    def scalar_unit(self, core: Core) -> bool:
        scalar = core.pipes[Pipe.S]
        if core.dispatching is not None or scalar.working is not None or not core.rows:
            return False
        row = core.rows[0]
        if row.pipe != Pipe.S and len(core.pipes[row.pipe].queue) >= self.program.queue_depth[row.pipe]:
            return False
        core.rows.pop(0)
        if row.pipe == Pipe.S:
            row.dispatched = self.now
            self.start(scalar, row)
        else:
            core.dispatching = row
            core.dispatch_end = self.now + self.program.dispatch_cycles
        row.taken_after, core.taken = core.taken, row
        return True

    def start(self, pipe: PipeState, row: Row) -> None:
        before = pipe.started[-1] if pipe.started else None
        row.start = self.now
        pipe.working = row
        pipe.started.append(row)
        pipe.incomplete.append(row)
        if row.pipe != Pipe.S:
            explain_start(before, row)
        if before is not None and before.occupied < self.now:
            pipe.cold = True
        # Choice: flags and barriers have no start-up and no drain, and a flag that held nothing up leaves a cold pipe
        # cold and a warm one warm. Rows of S have neither either.
        row.cold = pipe.cold
        if row.kind in WORK:
            pipe.cold = False
        if row.kind == Kind.EXEC:
            on_pipe = row.pipe != Pipe.S
            startup = row.given["startup" if row.cold else "startup_warm"] if on_pipe else 0
            row.occupied = self.now + startup + row.given["occupancy"]
            row.end = row.occupied + (row.given["drain"] if on_pipe else 0)
        if row.kind == Kind.SET_FLAG:
            row.occupied = self.now + row.given["occupancy"]

    def try_to_pass(self, core: Core, name: Pipe, pipe: PipeState, row: Row) -> bool:
        """Let a WAIT_FLAG or BARRIER go on if what it waits for is there."""
        if row.kind == Kind.WAIT_FLAG:
            if not core.raised_by.get(row.flag):
                return False
            releaser = core.raised_by[row.flag].pop(0)
            cause = Wait.BUFFER if row.given["buffer_wait"] else Wait.FLAG
            if row.given["cross"]:
                cause = Wait.CROSS_CORE
        else:
            pipes = list(core.pipes.values()) if name == Pipe.S else [pipe]
            if name == Pipe.S and any(p.queue for p in pipes):
                return False
            if any(r is not row for p in pipes for r in p.incomplete):
                return False
            # Choice: of rows that completed in the same cycle, the first on the lowest pipe. S waits for other pipes.
            earlier = [r for p in pipes for r in p.started if r is not row and (r.pipe != Pipe.S)]
            releaser = min(earlier, key=lambda r: (-r.end, r.pipe, r.number), default=None)
            cause = Wait.BARRIER
        row.passed = self.now
        row.occupied = row.end = self.now + row.given["occupancy"]
        if row.passed > row.start:
            row.waited_for, row.wait_cycles, row.released_by = cause, row.passed - row.start, releaser.number
        if row.kind == Kind.BARRIER or row.passed > row.start:
            pipe.cold = True
        return True

    def look_ups(self) -> bool:
        """Start the transfers of this cycle in (core, pipe) order. Choice: last, when all others have started."""
        new = [
            pipe.working
            for core in self.cores
            for pipe in core.pipes.values()
            if pipe.working is not None and pipe.working.kind == Kind.TRANSFER and pipe.working.data_start is None
        ]
        # Choice: a load of no bytes uses no line.
        past_l2 = [r for r in self.rows if r.given["bypass"] and not r.given["writes"] and r.given["bytes"]]
        if self.program.l2.mode in {"hit", "miss"}:
            past_l2 = []
        in_use = [r for r in past_l2 if r.kind == Kind.TRANSFER and r.start is not None and r.data_end is None]
        for row in new:
            row.l2_hit, row.moves = self.l2.look_and_update(row)
            suffix = "_hit" if row.l2_hit else ""
            row.link = row.given["link" + suffix]
            line = min(self.l2.lines(row), default=None)
            if row in in_use and any(r.core != row.core and min(self.l2.lines(r)) == line for r in in_use):
                row.link = row.given["link_clash"]
            row.cap_units = row.given["cap_units" + suffix]
            row.startup = row.given[("startup" if row.cold else "startup_warm") + suffix]
            row.data_start = self.now
            row.units_left = row.moves * UNITS_PER_BYTE
            self.links[row.link].append(row)
        return bool(new)

    # --- Time

    def move_bytes(self) -> None:
        """Give each transfer in its data phase its share of this cycle."""
        for link, info in zip(self.links, self.program.links, strict=True):
            sharing = [row for row in link if row.data_start <= self.now]
            for row in sharing:
                row.units_left -= min(row.cap_units, info.capacity_units // len(sharing))

    def count_stuck_scalar_units(self) -> None:
        for core in self.cores:
            if core.rows and core.dispatching is None and core.pipes[Pipe.S].working is None:
                core.rows[0].stuck_cycles += 1

    def ticks(self, row: Row) -> bool:
        """Whether a row will do something by itself as time passes."""
        if row.kind == Kind.SET_FLAG:  # later it only waits for rows before it
            return row.occupied is not None and row.occupied > self.now
        return not row.complete and (row.occupied is not None or row.data_start is not None)

    # --- Output

    def timeline(self) -> Timeline:
        field_of = {name: name for name in TIMELINE_COLUMNS} | {"row": "index"}
        columns = {n: np.array([getattr(r, field_of[n]) for r in self.rows], np.int64) for n in TIMELINE_COLUMNS}
        return replace(whole_timeline(self.program, columns), columns=columns)

    def deadlock_text(self) -> str:
        lines = [f"deadlock at cycle {self.last_move}: {sum(row.end is None for row in self.rows)} of {len(self.rows)}"]
        for number, core in enumerate(self.cores):
            for name, pipe in core.pipes.items():
                if pipe.working is not None:
                    lines.append(f"core {number} {name.name} waits for {self.what(pipe.working)}")
            if core.rows and core.pipes[Pipe.S].working is None:
                lines.append(f"core {number} S waits for room in the queue of {core.rows[0].pipe.name}")
        return "\n".join(lines)

    def what(self, row: Row) -> str:
        return self.program.flag_text(*row.flag) if row.kind == Kind.WAIT_FLAG else "a barrier"


def explain_start(before: Row | None, row: Row) -> None:
    """Say whether a row of a pipe waited for the row before on the pipe, or for its dispatch."""
    free = 0 if before is None else before.occupied
    if free > row.dispatched:
        row.waited_for, row.wait_cycles, row.released_by = Wait.PIPE_ORDER, free - row.dispatched, before.number
    elif row.dispatched > free:
        row.waited_for, row.wait_cycles = Wait.DISPATCH, row.dispatched - free
        row.released_by = NOBODY if row.taken_after is None else row.taken_after.number


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def program_rows(program: ScheduleInput) -> list[Row]:
    rows: list[Row] = []
    for call, (core, template) in enumerate(zip(program.call_core, program.call_template, strict=True)):
        columns = program.templates[template].columns
        for index in range(len(program.templates[template])):
            given = {name: int(column[index]) for name, column in columns.items()}
            base = int(program.slot_base_bytes[program.call_slot_start[call] + given["slot"]])
            kind, pipe, flag = Kind(given["kind"]), Pipe(given["pipe"]), (given["flag"], given["cross"])
            rows.append(Row(len(rows), index, int(core), call, kind, pipe, given, base, flag))
    return rows


def schedule(program: ScheduleInput) -> Timeline:
    """Return when every row runs; raise Deadlock when no pipe can move."""
    scheduler = Scheduler(program)
    scheduler.run()
    return scheduler.timeline()
