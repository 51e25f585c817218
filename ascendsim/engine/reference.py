"""The readable engine, on SimPy: one process for each scalar unit and each pipe. It defines what the contract means."""

from collections import defaultdict, deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np
import simpy

from ascendsim.engine.base import TIMELINE_COLUMNS, UNITS_PER_BYTE, Keep, Kind, ScheduleInput, Timeline, Wait
from ascendsim.engine.link import L2, Box, EndOfCycle, FairLink, Transfer
from ascendsim.engine.totals import whole_timeline
from ascendsim.errors import Deadlock
from ascendsim.progress import StageProgress
from ascendsim.terms import Pipe

Process = Generator[simpy.Event, Any, None]
Flag = tuple[int, int]
"""Number, and 0 or one more than the cross-core mode."""
_REPORT_EVERY = 4096


class _Way(NamedTuple):
    """How a transfer goes: whether it is a hit, and how many bytes it moves over which link."""

    hit: bool
    bytes: int
    link: int


class _Row:
    """One row on its way: its schedule, and what is known of its times."""

    __slots__ = ("call", "dispatched", "dispatched_after", "fields", "number")

    def __init__(self, number: int, call: int, fields: dict[str, int]) -> None:
        self.number = number
        self.call = call
        self.fields = fields
        self.dispatched = 0
        self.dispatched_after = -1

    @property
    def flag(self) -> Flag:
        """The flag that this row sets or waits for."""
        return self.fields["flag"], self.fields["cross"]

    @property
    def flag_wait(self) -> Wait:
        """What this row waits for if it is a WAIT_FLAG that has to wait."""
        if self.fields["cross"]:
            return Wait.CROSS_CORE
        return Wait.BUFFER if self.fields["buffer_wait"] else Wait.FLAG


class _Machine:
    """The chip: clock, links, L2, and the timeline being written."""

    def __init__(self, program: ScheduleInput, progress: StageProgress | None) -> None:
        self.env = simpy.Environment()
        self.program = program
        self.progress = progress
        self.links = [FairLink(self.env, info) for info in program.links]
        self.l2 = L2(program.l2)
        self.starts = program.row_starts()
        self.total = int(self.starts[-1])
        self.out: dict[str, list[int]] = {name: [0] * self.total for name in TIMELINE_COLUMNS}
        self.out["released_by"] = [-1] * self.total
        self.done = 0
        self.rows = [_rows_of(t.columns) for t in program.templates]
        self._starting: list[tuple[int, int, _Row, simpy.Event]] = []
        self._lines_in_use: dict[tuple[int, int], int] = {}
        """Of a core and a pipe, the line of the load that bypasses L2 there."""
        # Of a flag and a setter, what its group has not used up: (minus its cycle, core, pipe, row); least is last.
        self._cross_sets: defaultdict[tuple[Flag, int], deque[tuple[int, int, int, int]]] = defaultdict(deque)
        if program.l2.mode == "warm":
            self._warm_up()
        self.cores = [_Core(self, number) for number in range(program.core_count)]

    def at(self, cycle: int, then: Callable[[], None]) -> None:
        """Do something at a cycle, now or later."""
        if cycle == self.env.now:
            then()
            return
        later = self.env.timeout(cycle - int(self.env.now))
        assert later.callbacks is not None
        later.callbacks.append(lambda _event: then())

    def set_cross_core(self, core: int, row: _Row) -> None:
        """Count a set; if it is the last that its group still needed, the flags of all waiters rise in a while."""
        mode = self.program.cross_modes[row.fields["cross"] - 1]
        for setters, waiters in zip(mode.setters, mode.waiters, strict=True):
            if core in setters:
                self._cross_sets[row.flag, core].append((-int(self.env.now), core, row.fields["pipe"], row.number))
                sets = [self._cross_sets[row.flag, setter] for setter in setters]
                if all(sets):
                    _, _, _, last = min(queue.popleft() for queue in sets)
                    self._rise(row.flag, waiters, last)

    def _rise(self, flag: Flag, waiters: tuple[int, ...], by: int) -> None:
        def rise() -> None:
            for waiter in waiters:
                self.cores[waiter].rise(flag, by)

        self.at(int(self.env.now) + self.program.cross_cycles, rise)

    def write(self, core: int, row: _Row, **times: int) -> None:
        """Write a finished row."""
        n = row.number
        out = self.out
        out["number"][n], out["core"][n], out["call"][n] = n, core, row.call
        out["row"][n] = n - int(self.starts[row.call])
        out["pipe"][n], out["kind"][n] = row.fields["pipe"], row.fields["kind"]
        out["dispatched"][n] = row.dispatched
        for name, value in times.items():
            out[name][n] = value
        self.done += 1
        if self.progress is not None and self.done % _REPORT_EVERY == 0:
            self.progress(self.done, self.total)

    def begin_transfer(self, core: int, row: _Row) -> simpy.Event:
        """Look a transfer up in L2 at the end of this cycle, in (core, pipe) order; the event's value is its way."""
        if not self._starting:
            EndOfCycle(self.env, self._start_transfers)
        event = self.env.event()
        self._starting.append((core, row.fields["pipe"], row, event))
        return event

    def _start_transfers(self) -> None:
        batch, self._starting = sorted(self._starting, key=lambda s: s[:2]), []
        is_forced = self.program.l2.mode in ("hit", "miss")
        for core, pipe, row, _ in batch:
            if not is_forced and row.fields["bypass"] and not row.fields["writes"] and row.fields["bytes"]:
                self._lines_in_use[core, pipe] = self.l2.line(self._box(row.call, row.fields).first)
        for core, pipe, row, event in batch:
            event.succeed(self._way(core, pipe, row))

    def _way(self, core: int, pipe: int, row: _Row) -> _Way:
        """Look a transfer up in L2, and see whether another core uses its line."""
        f, mode = row.fields, self.program.l2.mode
        if mode in ("hit", "miss"):
            suffix = "_hit" if mode == "hit" else ""
            return _Way(mode == "hit", f[f"bytes{suffix}"], f[f"link{suffix}"])
        if f["bypass"]:
            line = self._lines_in_use.get((core, pipe))
            others = (used for (other, _), used in self._lines_in_use.items() if other != core)
            return _Way(False, f["bytes"], f["link_clash" if line is not None and line in others else "link"])
        resident, written_back = self.l2.touch(self._box(row.call, f), writes=bool(f["writes"]))
        hit = not written_back if f["writes"] else resident
        if hit or not f["bytes"]:
            return _Way(hit, f["bytes_hit"] if hit else 0, f["link_hit" if hit else "link"])
        moves = max(f["bytes"], written_back) if f["writes"] else f["bytes"] + written_back
        return _Way(hit, moves, f["link"])

    def leave_line(self, core: int, pipe: int) -> None:
        """The data phase of a transfer is over."""
        self._lines_in_use.pop((core, pipe), None)

    def _box(self, call: int, f: dict[str, int]) -> Box:
        slot = int(self.program.call_slot_start[call]) + f["slot"]
        first = int(self.program.slot_base_bytes[slot]) + f["gm_offset"]
        return Box(first, f["gm_rows"], f["gm_length"], f["gm_pitch"])

    def _warm_up(self) -> None:
        """Leave L2 as the program itself does, without a clock: the first call of every core, then the second, ..."""
        core = self.program.call_core
        turn = [int(np.count_nonzero(core[:call] == core[call])) for call in range(len(core))]
        for call in sorted(range(len(core)), key=lambda call: (turn[call], core[call])):
            for f in self.rows[int(self.program.call_template[call])]:
                if f["kind"] == Kind.TRANSFER and not f["bypass"]:
                    self.l2.touch(self._box(call, f), writes=bool(f["writes"]))


def _rows_of(columns: dict[str, np.ndarray[Any, Any]]) -> list[dict[str, int]]:
    names = list(columns)
    return [dict(zip(names, values, strict=True)) for values in zip(*(columns[n].tolist() for n in names), strict=True)]


class _PipeState:
    """One pipe of one core."""

    def __init__(self, core: "_Core", pipe: Pipe, depth: int) -> None:
        self.core = core
        self.pipe = pipe
        self.depth = depth
        self.queue: deque[_Row] = deque()
        self.arrival: simpy.Event | None = None
        self.room: simpy.Event | None = None
        self.occupied = 0
        self.last = -1
        self.complete = 0
        self.complete_by = -1
        self.cold = True
        self.busy = False

    def push(self, row: _Row) -> None:
        """Put a dispatched row into the queue."""
        self.queue.append(row)
        if self.arrival is not None:
            arrival, self.arrival = self.arrival, None
            arrival.succeed()

    def run(self) -> Process:
        """Work the queue off, for ever."""
        env = self.core.machine.env
        while True:
            if not self.queue:
                self.busy = False
                self.core.pipe_idle()
                self.arrival = env.event()
                yield self.arrival
            row = self.queue.popleft()
            self.busy = True
            if self.room is not None:
                room, self.room = self.room, None
                room.succeed()
            if env.now > self.occupied:
                self.cold = True
            yield from self._work(row)
            self.last = row.number

    def _work(self, row: _Row) -> Process:
        match row.fields["kind"]:
            case Kind.EXEC:
                yield from self._exec(row)
            case Kind.TRANSFER:
                yield from self._transfer(row)
            case Kind.SET_FLAG:
                yield from self._set_flag(row)
            case Kind.WAIT_FLAG:
                yield from self._wait_flag(row)
            case _:
                yield from self._barrier(row)

    def _cause(self, row: _Row) -> tuple[Wait, int, int]:
        """What a row that starts now waited for, how long, and which row released it."""
        now = int(self.core.machine.env.now)
        if self.last >= 0 and self.occupied == now and row.dispatched < now:
            return Wait.PIPE_ORDER, now - row.dispatched, self.last
        if row.dispatched == now and now > self.occupied:
            return Wait.DISPATCH, now - self.occupied, row.dispatched_after
        return Wait.NOTHING, 0, -1

    def _finish(self, row: _Row, start: int, end: int, cause: tuple[Wait, int, int], **more: int) -> None:
        """Write a row whose occupancy ends now and which is complete at `end`."""
        self.occupied = int(self.core.machine.env.now)
        if end > self.complete or self.complete_by < 0:
            self.complete, self.complete_by = end, row.number
        waited, cycles, by = cause
        self.core.machine.write(
            self.core.number, row, start=start, occupied=self.occupied, end=end,
            waited_for=waited, wait_cycles=cycles, released_by=by, **more,
        )  # fmt: skip

    def _exec(self, row: _Row) -> Process:
        env, f = self.core.machine.env, row.fields
        start, cause = int(env.now), self._cause(row)
        startup = f["startup"] if self.cold else f["startup_warm"]
        self.cold = False
        yield env.timeout(startup + f["occupancy"])
        self._finish(row, start, int(env.now) + f["drain"], cause)

    def _transfer(self, row: _Row) -> Process:
        machine, f = self.core.machine, row.fields
        env = machine.env
        start, cause = int(env.now), self._cause(row)
        way: _Way = yield machine.begin_transfer(self.core.number, row)
        suffix = "_hit" if way.hit else ""
        startup = f[f"startup{suffix}"] if self.cold else f[f"startup_warm{suffix}"]
        self.cold = False
        cap = f[f"cap_units{suffix}"]
        least, rival = start + startup, -1
        if way.bytes:
            place = (self.core.number, int(self.pipe))
            transfer = Transfer(row.number, place, cap, way.bytes * UNITS_PER_BYTE, env.event())
            link = machine.links[way.link]
            link.join(transfer)
            yield transfer.done
            machine.leave_line(*place)
            least += link.cycles_alone(way.bytes, cap)
            rival = transfer.rival
        stretch = max(0, int(env.now) - least)
        yield env.timeout(max(0, least - int(env.now), start + f["occupancy"] - int(env.now)))
        if stretch > cause[1] or (stretch and cause[0] is Wait.PIPE_ORDER):
            cause = (Wait.BANDWIDTH, stretch, rival)
        end = int(env.now) + f["drain"]
        self._finish(row, start, end, cause, stretch_cycles=stretch, l2_hit=int(way.hit))

    def _set_flag(self, row: _Row) -> Process:
        env, f = self.core.machine.env, row.fields
        start, cause = int(env.now), self._cause(row)
        yield env.timeout(f["occupancy"])
        raised = max(int(env.now), self.complete)
        self._finish(row, start, raised, cause)
        self.core.machine.at(raised, lambda: self.core.set_flag(row))

    def _wait_flag(self, row: _Row) -> Process:
        env, f = self.core.machine.env, row.fields
        ready, cause = int(env.now), self._cause(row)
        by = yield from self.core.take_flag(row.flag)
        waited = int(env.now) - ready
        if waited:
            self.cold = True
            cause = (row.flag_wait, waited, by)
        yield env.timeout(f["occupancy"])
        self._finish(row, ready, int(env.now), cause)

    def _barrier(self, row: _Row) -> Process:
        env, f = self.core.machine.env, row.fields
        ready, cause = int(env.now), self._cause(row)
        waited = self.complete - ready
        if waited > 0:
            cause = (Wait.BARRIER, waited, self.complete_by)
        yield env.timeout(max(0, waited) + f["occupancy"])
        self.cold = True
        self._finish(row, ready, int(env.now), cause)


class _Core:
    """One core: its scalar unit, pipes and flags."""

    def __init__(self, machine: _Machine, number: int) -> None:
        self.machine = machine
        self.number = number
        self.pipes = {p: _PipeState(self, p, d) for p, d in machine.program.queue_depth.items()}
        self.flags: defaultdict[Flag, deque[int]] = defaultdict(deque)
        self.waiting: dict[Flag, simpy.Event] = {}
        self.idle: simpy.Event | None = None
        self.scalar_waits = ""
        for state in self.pipes.values():
            machine.env.process(state.run())
        machine.env.process(self._scalar())

    def set_flag(self, row: _Row) -> None:
        """A SET_FLAG of this core is complete."""
        if row.fields["cross"]:
            self.machine.set_cross_core(self.number, row)
        else:
            self.rise(row.flag, row.number)

    def rise(self, flag: Flag, by: int) -> None:
        """Raise a flag once more; who waits for it goes on."""
        self.flags[flag].append(by)
        waiter = self.waiting.pop(flag, None)
        if waiter is not None:
            waiter.succeed()

    def take_flag(self, flag: Flag) -> Generator[simpy.Event, Any, int]:
        """Wait until a flag is up, take one set of it, and return the row that set it."""
        if not self.flags[flag]:
            self.waiting[flag] = self.machine.env.event()
            yield self.waiting[flag]
        return self.flags[flag].popleft()

    def pipe_idle(self) -> None:
        """A pipe ran out of rows."""
        if self.idle is not None and self._all_idle():
            idle, self.idle = self.idle, None
            idle.succeed()

    def _all_idle(self) -> bool:
        return all(not s.queue and not s.busy for s in self.pipes.values())

    def _scalar(self) -> Process:
        """Run scalar rows and dispatch the others. `at` runs ahead of the clock over rows that nobody can notice."""
        machine, env = self.machine, self.machine.env
        at = 0
        previous = -1
        for row in self._stream():
            f = row.fields
            if f["pipe"] != Pipe.S:
                state = self.pipes[Pipe(f["pipe"])]
                if len(state.queue) >= state.depth:
                    yield env.timeout(at - int(env.now))
                    while len(state.queue) >= state.depth:
                        state.room = env.event()
                        self.scalar_waits = f"room in the queue of {state.pipe.name}"
                        yield state.room
                    self.scalar_waits = ""
                    at = int(env.now)
                at += machine.program.dispatch_cycles
                yield env.timeout(at - int(env.now))
                row.dispatched, row.dispatched_after = at, previous
                state.push(row)
            elif f["kind"] == Kind.EXEC:
                row.dispatched = at
                end = at + f["occupancy"]
                self._write_scalar(row, at, end, (Wait.NOTHING, 0, -1))
                at = end
            else:
                yield env.timeout(at - int(env.now))
                at = yield from self._scalar_sync(row, previous)
            previous = row.number

    def _write_scalar(self, row: _Row, start: int, end: int, cause: tuple[Wait, int, int]) -> None:
        waited, cycles, by = cause
        self.machine.write(
            self.number, row, start=start, occupied=end, end=end, waited_for=waited, wait_cycles=cycles, released_by=by
        )

    def _scalar_sync(self, row: _Row, previous: int) -> Generator[simpy.Event, Any, int]:
        """A flag or barrier on the scalar unit; returns when it ends."""
        env, f = self.machine.env, row.fields
        start = int(env.now)
        row.dispatched = start
        by = previous
        if f["kind"] == Kind.WAIT_FLAG:
            by = yield from self.take_flag(row.flag)
        elif f["kind"] == Kind.BARRIER:
            if not self._all_idle():
                self.idle = env.event()
                self.scalar_waits = "a barrier on all pipes"
                yield self.idle
                self.scalar_waits = ""
            last = max(self.pipes.values(), key=lambda s: s.complete)
            by = last.complete_by
            yield env.timeout(max(0, last.complete - int(env.now)))
        waited = int(env.now) - start
        yield env.timeout(f["occupancy"])
        end = int(env.now)
        reason = Wait.BARRIER if f["kind"] == Kind.BARRIER else row.flag_wait
        cause = (reason, waited, by) if waited else (Wait.NOTHING, 0, -1)
        self._write_scalar(row, start, end, cause)
        if f["kind"] == Kind.SET_FLAG:
            self.set_flag(row)
        return end

    def _stream(self) -> Generator[_Row, None, None]:
        """This core's rows in order."""
        program = self.machine.program
        for call in np.flatnonzero(program.call_core == self.number):
            first = int(self.machine.starts[call])
            for i, fields in enumerate(self.machine.rows[int(program.call_template[call])]):
                yield _Row(first + i, int(call), fields)


def schedule(program: ScheduleInput, progress: StageProgress | None = None, keep: Keep | None = None) -> Timeline:
    """Return when every row runs, or only those to keep.

    Raises:
        Deadlock: rows are left that wait for flags nobody raises.
    """
    machine = _Machine(program, progress)
    machine.env.run()
    if machine.done < machine.total:
        last = max(machine.out["end"], default=0)
        raise Deadlock(_describe(machine, last), last)
    columns = {name: np.array(values, np.int64) for name, values in machine.out.items()}
    return whole_timeline(program, columns, keep)


def _describe(machine: _Machine, last: int) -> str:
    left = machine.total - machine.done
    lines = [f"deadlock at cycle {last}: {left} of {machine.total} rows cannot run"]
    for core in machine.cores:
        waiting = (machine.program.flag_text(*flag) for flag in core.waiting)
        lines += [f"  core {core.number} waits for {text}, which nobody raises" for text in waiting]
        if core.scalar_waits:
            lines.append(f"  core {core.number}: S waits for {core.scalar_waits}")
    return "\n".join(lines[:20])
