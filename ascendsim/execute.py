"""Values from a program: every row's arithmetic on real bytes, core by core.

Cores that wait for each other take turns: each runs until it waits for a cross-core flag that is not up, then the next
goes on. Atomic additions to GM therefore happen in that order, whatever the timeline says.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.context import CoreState, Machine, Prepared, written_bytes
from ascendsim.cross import CrossFlags
from ascendsim.device import Device
from ascendsim.dtypes import DType
from ascendsim.errors import Deadlock, Finding
from ascendsim.isa.instruction import Row
from ascendsim.isa.log import log_row, micro_log_row
from ascendsim.memory import Bytes
from ascendsim.pipes import Cross, FlagOrder, FlagWalk, Item, Pipes, cross_flag
from ascendsim.program import CROSS, Program
from ascendsim.progress import StageProgress
from ascendsim.terms import Buffer, HalfOverflow, Pipe

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Execution:
    """What running the program gave.

    Attributes:
        gm: bytes of every GM tensor afterwards.
        findings: of what only the data show, such as unwritten bytes read.
        log: instruction log of one core with its data columns, if asked for.
    """

    gm: tuple[Bytes, ...]
    findings: tuple[Finding, ...]
    log: tuple[dict[str, str], ...]


def execute(
    program: Program,
    device: Device,
    gm: tuple[Bytes, ...],
    *,
    overflow: HalfOverflow | None = None,
    log_core: int | None = None,
    ub: Bytes | None = None,
    only: NDArray[np.bool_] | None = None,
    progress: StageProgress | None = None,
) -> Execution:
    """Run a program on GM contents, which it changes in place.

    Args:
        program: what to run.
        device: for the UB size and the default half-overflow mode.
        gm: bytes of every GM tensor, in the program's order.
        overflow: half-overflow mode, None for the device's.
        log_core: keep the instruction log of this core.
        ub: UB that core 0 starts with; every other core, and core 0 without it, starts with an unwritten one.
        only: which calls to compute, None for all. Of the others only flags and barriers count.
        progress: told how many cores are done.

    Raises:
        Deadlock: a core's pipes wait for flags that are never set.
    """
    mode = overflow or device.arithmetic.half_overflow.value
    run = _Run(program, gm, mode, device, only)
    with np.errstate(all="ignore"):  # overflow and NaN are results here, not accidents
        if program.is_cross:
            run.all_cores(log_core, progress)
        else:
            for number in range(program.core_count):
                run.core(number, ub if number == 0 else None, keep_log=number == log_core)
                if progress is not None:
                    progress(number + 1, program.core_count)
    return Execution(gm, tuple(run.findings.values()), _numbered(run.log))


class _Run:
    """One execution of a program, core by core."""

    def __init__(
        self,
        program: Program,
        gm: tuple[Bytes, ...],
        overflow: HalfOverflow,
        device: Device,
        only: NDArray[np.bool_] | None,
    ) -> None:
        self.findings: dict[tuple[str, str, str], Finding] = {}
        self.log: dict[int, list[dict[str, str]]] = {}
        self._program = program
        self._gm = gm
        self._overflow = overflow
        self._places = program.places({b: device.buffer_bytes(b) for b in Buffer if b is not Buffer.GM})
        self._mmad_order = device.arithmetic.mmad_order.value
        self._cross = CrossFlags(program.kernel_type, program.block_dim)
        self._crosses = np.array([any(row.op.name in CROSS for row in t.rows) for t in program.templates], np.bool_)
        """Which templates have cross-core flags."""
        self._waits_hold_all = all(
            row.pipe is Pipe.S for t in program.templates for row in t.rows if row.op.name == "cross_core_wait_flag"
        )
        """Whether nothing goes on behind a cross-core wait, so that rows can run in program order."""
        self._only = only
        self._flags = FlagWalk(program)
        self._moves = 0
        """Cross-core sets and waits done."""
        self._waits: dict[int, Row] = {}
        """By core: the cross-core wait that holds it."""
        self._shared: Machine | None = None
        """Runs every core that has no UB given and keeps no log; its prepared templates serve all of them."""

    def core(self, number: int, ub: Bytes | None, *, keep_log: bool) -> None:
        """Run one core from begin to end."""
        calls, in_order = self._calls(number, keep_log=keep_log)
        if in_order and calls.size == 0:
            return
        machine = self._machine(ub, keep_log=keep_log)
        for _ in self._turns(machine, number, calls, in_order=in_order):
            raise AssertionError("a core waits for another in a program without such waits")
        self._keep_findings(machine)

    def all_cores(self, log_core: int | None, progress: StageProgress | None) -> None:
        """Run all cores in turns.

        Raises:
            Deadlock: no core can move.
        """
        waiting = [self._start(number, keep_log=number == log_core) for number in range(self._program.core_count)]
        done = 0
        while waiting:
            before = self._moves
            still = [turn for turn in waiting if turn.go_on()]
            done += len(waiting) - len(still)
            if still and len(still) == len(waiting) and self._moves == before:
                raise Deadlock(self._describe_deadlock([turn.core for turn in still]))
            waiting = still
            if progress is not None:
                progress(done, self._program.core_count)

    def _start(self, number: int, *, keep_log: bool) -> "_Turn":
        calls, in_order = self._calls(number, keep_log=keep_log)
        machine = self._machine(None, keep_log=keep_log)
        turn = _Turn(number, machine, self._turns(machine, number, calls, in_order=in_order), self._keep_findings)
        turn.set_aside()
        return turn

    def _calls(self, number: int, *, keep_log: bool) -> tuple[Array, bool]:
        """The calls of a core that run, and whether they can run in program order."""
        program = self._program
        calls = np.flatnonzero(program.calls["core"] == number)
        templates = program.calls["template"][calls]
        in_order = self._flags.order(templates) is FlagOrder.PAIRED and not keep_log and self._waits_hold_all
        if in_order and self._only is not None:
            calls = calls[self._only[calls] | self._crosses[templates]]
        return calls, in_order

    def _turns(self, machine: Machine, number: int, calls: Array, *, in_order: bool) -> Iterator[None]:
        """Run a core; whenever it waits for a flag of another core that is not up, yield."""
        if in_order:
            yield from self._run_in_order(machine, number, calls)
        else:
            yield from self._run_through_pipes(machine, number, calls)

    def _keep_findings(self, machine: Machine) -> None:
        self.findings |= {k: f for k, f in machine.findings.items() if k not in self.findings}

    def _machine(self, ub: Bytes | None, *, keep_log: bool) -> Machine:
        if ub is not None or keep_log:
            return self._new_machine(ub or Bytes(self._places.length_bytes), keep_log=keep_log)
        if self._shared is None:
            self._shared = self._new_machine(Bytes(self._places.length_bytes), keep_log=False)
        else:
            self._shared.start_core()
        return self._shared

    def _new_machine(self, local: Bytes, *, keep_log: bool) -> Machine:
        order = self._mmad_order
        return Machine(self._program, self._gm, local, self._places, self._overflow, order, keep_log)

    def _cross_set(self, number: int, row: Row) -> None:
        self._cross.set(number, cross_flag(row))
        self._moves += 1

    def _cross_taken(self, number: int, row: Row) -> bool:
        """Take the flag that a core waits for if it is up."""
        flag = cross_flag(row)
        if not self._cross.is_up(number, flag):
            self._waits[number] = row
            return False
        self._cross.take(number, flag)
        self._waits.pop(number, None)
        self._moves += 1
        return True

    def _describe_deadlock(self, cores: list[int]) -> str:
        program = self._program
        lines = ["deadlock: every core that is left waits for another"]
        for core in cores:
            row = self._waits.get(core)
            if row is None:
                continue
            flag = cross_flag(row)
            missing = ", ".join(program.core_name(c) for c in self._cross.missing(core, flag)) or "no core"
            at = program.lines[row.line]
            lines.append(
                f"  {program.core_name(core)} waits at {at} for cross-core flag {flag.flag_id} of mode "
                f"{flag.mode.value}, which {missing} never sets"
            )
        return "\n".join(lines)

    def _run_in_order(self, machine: Machine, number: int, calls: Array) -> Iterator[None]:
        """All waits of a core's own flags find them, so rows run in program order and nothing is held."""
        columns = self._program.calls
        templates, slot_starts = columns["template"][calls].tolist(), columns["slot_start"][calls].tolist()
        for index, template, slot_start in zip(calls.tolist(), templates, slot_starts, strict=True):
            machine.enter(machine.frame(template, slot_start))
            prepared = machine.prepare(template)
            if prepared.is_cross:
                yield from self._run_rows(number, prepared, self._is_wanted(index))
                continue
            for step in prepared.work:
                step()

    def _is_wanted(self, call: int) -> bool:
        """Whether a call is computed."""
        return self._only is None or bool(self._only[call])

    def _run_rows(self, number: int, prepared: Prepared, is_wanted: bool) -> Iterator[None]:
        """Rows of a template among which are cross-core flags; only those if the call is not wanted."""
        steps = prepared.steps if is_wanted else (None,) * len(prepared.rows)
        for row, step in zip(prepared.rows, steps, strict=True):
            if row.op.name == "cross_core_set_flag":
                self._cross_set(number, row)
            elif row.op.name == "cross_core_wait_flag":
                while not self._cross_taken(number, row):
                    yield
            elif step is not None:
                step()

    def _run_through_pipes(self, machine: Machine, number: int, calls: Array) -> Iterator[None]:
        def run(item: Item) -> None:
            machine.enter(item.frame)
            machine.spans.clear()
            machine.micro_written.clear()
            if item.step is not None:
                item.step()
            if machine.keep_log and self._is_wanted(item.call):
                self.log[item.number] = _log_entries(machine, item)

        cross = Cross(partial(self._cross_set, number), partial(self._cross_taken, number))
        pipes = Pipes(self._program.core_name(number), self._program.lines, run, cross)
        at = 0
        for index in calls.tolist():
            template, slot_start = (int(self._program.calls[c][index]) for c in ("template", "slot_start"))
            at = self._offer_call(pipes, machine, (index, template, slot_start), at)
            while pipes.waits_for_core and not pipes.takes_more:
                yield
                pipes.retry()
        while pipes.waits_for_core:
            yield
            pipes.retry()
        pipes.finish()

    def _offer_call(self, pipes: Pipes, machine: Machine, call: tuple[int, int, int], at: int) -> int:
        """Offer the rows of a call, the first of which is the core's row `at`; return the number after its last."""
        index, template, slot_start = call
        prepared, frame = machine.prepare(template), machine.frame(template, slot_start)
        is_wanted = self._is_wanted(index)
        for position in range(len(prepared.rows)) if is_wanted else prepared.sync:
            step = prepared.steps[position] if is_wanted else None
            pipes.offer(Item(prepared.rows[position], position, index, at + position, frame, step))
        return at + len(prepared.rows)


class _Turn:
    """A core that takes turns with others, and what it has in its memories meanwhile."""

    def __init__(
        self, core: int, machine: Machine, run: Iterator[None], keep_findings: Callable[[Machine], None]
    ) -> None:
        self.core = core
        self._machine = machine
        self._run = run
        self._keep_findings = keep_findings
        self._state: CoreState | None = None

    def set_aside(self) -> None:
        """Store what the core has."""
        self._state = self._machine.store_core()

    def go_on(self) -> bool:
        """Run until the core waits for another; whether it does, False at its end."""
        assert self._state is not None
        self._machine.load_core(self._state)
        for _ in self._run:
            self.set_aside()
            return True
        self._state = None
        self._keep_findings(self._machine)
        return False


def _log_entries(machine: Machine, item: Item) -> list[dict[str, str]]:
    """The instruction log of one row just after it ran: one entry, or one for each micro-operation."""
    row, program = item.row, machine.program
    template = program.templates[int(program.calls["template"][item.call])]
    if row.body is not None:
        entries = [micro_log_row(micro, 0, template.tensors) for micro in row.body.rows]
        for number, written in machine.micro_written.items():
            entries[number]["written_bytes"], entries[number]["written_crc32"] = written
        return entries
    entry = log_row(row, 0, 0, template.tensors)
    if row.op.takes_scalar or row.register >= 0:
        entry["scalar_bits"] = f"0x{machine.scalar_bits(row):x}"
    if machine.spans:
        tensor = None if row.dst is None else template.tensors[row.dst.tensor]
        memory = machine.slots[tensor.slot][0] if tensor is not None and tensor.buffer is Buffer.GM else machine.local
        entry["written_bytes"], entry["written_crc32"] = written_bytes(machine.spans, memory)
    return [entry]


def _numbered(log: dict[int, list[dict[str, str]]]) -> tuple[dict[str, str], ...]:
    """Log entries in program order, vector calls numbered as in `Program.instruction_log`.

    The index is the row's number on its core, moved on by the micro-operations before it.
    """
    number = more = 0
    numbered: list[dict[str, str]] = []
    for position in sorted(log):
        for i, entry in enumerate(log[position]):
            entry["index"] = str(position + more + i)
            if entry["ascendc_api"] and entry["dst_tensor"]:
                number += 1
                entry["ascendc_api"] += f"#{number}"
        numbered += log[position]
        more += len(log[position]) - 1
    return tuple(numbered)


def dtype_array(memory: Bytes, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return a memory's content as an array."""
    return memory.content.view(dtype.numpy).reshape(shape)
