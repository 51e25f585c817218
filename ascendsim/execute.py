"""Values from a program: every row's arithmetic on real bytes, in the order of `turns`.

Atomic additions to GM happen in that order, whatever the timeline says.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ascendsim.context import CoreState, Frame, Machine, written_bytes
from ascendsim.device import Device
from ascendsim.dtypes import DType
from ascendsim.dumps import Dump, DumpLog
from ascendsim.errors import Finding
from ascendsim.isa.instruction import Row, Step, TensorRef
from ascendsim.isa.log import log_row, micro_log_row
from ascendsim.memory import Bytes
from ascendsim.program import Program
from ascendsim.progress import StageProgress
from ascendsim.terms import Buffer, HalfOverflow
from ascendsim.turns import Order, Parts, Stretch, Turns

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Moment:
    """A program that stands in front of a row, or just behind it.

    Attributes:
        core: which core the row runs on.
        call: which call it belongs to.
        position: which row of the call's template it is.
        is_after: whether it has run.
        machine: the memories, as that core sees them.
    """

    core: int
    call: int
    position: int
    is_after: bool
    machine: Machine


class Watcher(Protocol):
    """Who looks at rows while a program is executed."""

    @property
    def wanted(self) -> Mapping[int, Collection[int]]:
        """By call, which rows of its template."""

    def take(self, moment: Moment) -> None:
        """Look, in front of each of them and behind it."""


class Nobody:
    """Looks at no row."""

    wanted: Mapping[int, Collection[int]] = MappingProxyType({})

    def take(self, moment: Moment) -> None:
        """Do nothing."""


NOBODY = Nobody()


@dataclass(frozen=True, slots=True)
class Execution:
    """What running the program gave.

    Attributes:
        gm: bytes of every GM tensor afterwards.
        findings: of what only the data show, such as unwritten bytes read.
        log: instruction log of one core with its data columns, if asked for.
        dumps: what DumpTensor has shown, in the order in which it ran.
    """

    gm: tuple[Bytes, ...]
    findings: tuple[Finding, ...]
    log: tuple[dict[str, str], ...]
    dumps: tuple[Dump, ...] = ()


def execute(
    program: Program,
    device: Device,
    gm: tuple[Bytes, ...],
    *,
    overflow: HalfOverflow | None = None,
    log_core: int | None = None,
    ub: Bytes | None = None,
    order: Order | None = None,
    watcher: Watcher = NOBODY,
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
        order: what to compute, and in which order; None for all of the program.
        watcher: looks at rows; at none of a core whose log is kept.
        progress: told how many cores are done.

    Raises:
        Deadlock: a core's pipes, or all cores, wait for flags that are never set.
    """
    if order is None:
        turns = Turns(program)
        order = Order(turns.parts, turns.all())
    run = _Run(program, gm, device, overflow or device.arithmetic.half_overflow.value, order.parts)
    done = 0
    with np.errstate(all="ignore"):  # overflow and NaN are results here, not accidents
        for stretch in order.stretches:
            if stretch.calls.size:
                run.begin(stretch.core, ub if stretch.core == 0 else None)
                if stretch.core == log_core:
                    run.logged(stretch)
                else:
                    run.stretch(stretch, watcher)
            if stretch.is_end:
                run.end(stretch.core)
                done += 1
                if progress is not None:
                    progress(done, program.core_count)
    return Execution(gm, tuple(run.findings.values()), _numbered(run.log), tuple(run.dumps.all))


def moments(
    program: Program,
    device: Device,
    gm: tuple[Bytes, ...],
    wanted: Mapping[int, Collection[int]],
    *,
    overflow: HalfOverflow | None = None,
    ub: Bytes | None = None,
) -> Iterator[Moment]:
    """Run a program in the order of `execute`, and stop in front of some rows and behind them.

    Args:
        program: as `execute`, like all others but one.
        device: as `execute`.
        gm: as `execute`.
        wanted: by call, which rows of its template.
        overflow: as `execute`.
        ub: as `execute`.

    Raises:
        Deadlock: as `execute`.
    """
    turns = Turns(program)
    run = _Run(program, gm, device, overflow or device.arithmetic.half_overflow.value, turns.parts)
    with np.errstate(all="ignore"):
        for stretch in turns.all():
            if stretch.calls.size:
                run.begin(stretch.core, ub if stretch.core == 0 else None)
                yield from run.stopping(stretch, wanted)
            if stretch.is_end:
                run.end(stretch.core)


class _Run:
    """One execution of a program."""

    def __init__(
        self, program: Program, gm: tuple[Bytes, ...], device: Device, overflow: HalfOverflow, parts: Parts
    ) -> None:
        self.findings: dict[tuple[str, str, str], Finding] = {}
        self.log: dict[int, list[dict[str, str]]] = {}
        self.dumps = DumpLog(program)
        self._program = program
        self._gm = gm
        self._parts = parts
        self._overflow = overflow
        self._mmad_order = device.arithmetic.mmad_order.value
        self._places = program.places({b: device.buffer_bytes(b) for b in Buffer if b is not Buffer.GM})
        self._plain = self._machine(keep_log=False)
        """Runs every core whose instructions are not logged; its prepared templates serve all of them."""
        self._logging = self._machine(keep_log=True)
        self._rows_before: dict[int, int] = {}
        self._cores: dict[int, CoreState] = {}
        """Cores that have begun and are not done."""
        self._given: set[int] = set()
        """Cores that run in memories of the caller."""
        self._free: list[CoreState] = []
        """Memories of cores that are done."""
        self._registers: dict[int, list[Array]] = {}
        """Of calls that do not run in one go."""
        self._steps: dict[int, tuple[Step, ...]] = {}
        """By part: what there is to execute."""

    def begin(self, core: int, ub: Bytes | None) -> None:
        """Give a core its memories, if it has none yet: those given, or unwritten ones."""
        if core in self._cores:
            return
        if ub is not None:
            self._cores[core] = CoreState(ub)
            self._given.add(core)
            return
        state = self._free.pop() if self._free else CoreState(Bytes(self._places.length_bytes))
        state.restart()
        self._cores[core] = state

    def end(self, core: int) -> None:
        """A core is done: another may have its memories, unless they were given."""
        state = self._cores.pop(core, None)
        if state is not None and core not in self._given:
            self._free.append(state)

    def stretch(self, stretch: Stretch, watcher: Watcher) -> None:
        """Run what a core runs until another goes on."""
        machine = self._plain
        machine.go_on(self._cores[stretch.core])
        slot_starts = self._program.calls["slot_start"][stretch.calls].tolist()
        for call, part, slot_start in zip(stretch.calls.tolist(), stretch.parts.tolist(), slot_starts, strict=True):
            machine.enter(self._frame(call, part, slot_start))
            if call in watcher.wanted:
                for moment in self._stops(stretch.core, call, part, watcher.wanted[call]):
                    watcher.take(moment)
            else:
                for step in self._steps_of(part):
                    step()
            if machine.dumped:
                self.dumps.take(machine.dumped, stretch.core, call)
        machine.set_aside()

    def logged(self, stretch: Stretch) -> None:
        """Run a stretch, and keep the log of its rows."""
        machine = self._logging
        machine.go_on(self._cores[stretch.core])
        first_rows = self._first_rows(stretch.core)
        for call, part in zip(stretch.calls.tolist(), stretch.parts.tolist(), strict=True):
            machine.enter(self._frame(call, part, int(self._program.calls["slot_start"][call])))
            template, positions = self._parts[part]
            for position in positions:
                self.log[first_rows[call] + position] = _run_logged(machine, template, position)
            if machine.dumped:
                self.dumps.take(machine.dumped, stretch.core, call)
        machine.set_aside()

    def stopping(self, stretch: Stretch, wanted: Mapping[int, Collection[int]]) -> Iterator[Moment]:
        """Run a stretch, and stop in front of some rows and behind them."""
        machine = self._plain
        machine.go_on(self._cores[stretch.core])
        for call, part in zip(stretch.calls.tolist(), stretch.parts.tolist(), strict=True):
            machine.enter(self._frame(call, part, int(self._program.calls["slot_start"][call])))
            yield from self._stops(stretch.core, call, part, wanted.get(call, ()))
        machine.dumped.clear()
        machine.set_aside()

    def _stops(self, core: int, call: int, part: int, wanted: Collection[int]) -> Iterator[Moment]:
        """Run a part of a call, and stop in front of some rows and behind them."""
        machine = self._plain
        template, positions = self._parts[part]
        steps = machine.prepare(template).steps
        for position in positions:
            step, is_wanted = steps[position], position in wanted
            if is_wanted:
                yield Moment(core, call, position, False, machine)
            if step is not None:
                step()
            if is_wanted:
                yield Moment(core, call, position, True, machine)

    def _first_rows(self, core: int) -> dict[int, int]:
        """By call of the logged core: how many rows of the core come before it."""
        if not self._rows_before:
            program = self._program
            calls = np.flatnonzero(program.calls["core"] == core)
            lengths = np.array([len(t) for t in program.templates], np.int64)[program.calls["template"][calls]]
            self._rows_before = dict(zip(calls.tolist(), (np.cumsum(lengths) - lengths).tolist(), strict=True))
        return self._rows_before

    def _machine(self, *, keep_log: bool) -> Machine:
        program, order = self._program, self._mmad_order
        nowhere = Bytes(0)
        return Machine(
            program, self._gm, nowhere, self._places, self._overflow, order, keep_log, findings=self.findings
        )

    def _frame(self, call: int, part: int, slot_start: int) -> Frame:
        """The slots and registers of a call; the same registers for all parts of it."""
        templates = self._program.templates
        if part < len(templates):
            return self._plain.frame(part, slot_start)
        template, _ = self._parts[part]
        frame = self._plain.frame(template, slot_start)
        if not frame.registers:
            return frame
        return Frame(frame.slots, self._registers.setdefault(call, frame.registers))

    def _steps_of(self, part: int) -> tuple[Step, ...]:
        known = self._steps.get(part)
        if known is None:
            template, positions = self._parts[part]
            steps = self._plain.prepare(template).steps
            known = tuple(step for step in (steps[p] for p in positions) if step is not None)
            self._steps[part] = known
        return known


def _run_logged(machine: Machine, template: int, position: int) -> list[dict[str, str]]:
    """Run a row and return its log."""
    prepared = machine.prepare(template)
    machine.spans.clear()
    machine.micro_written.clear()
    step = prepared.steps[position]
    if step is not None:
        step()
    return _log_entries(machine, prepared.rows[position], machine.program.templates[template].tensors)


def _log_entries(machine: Machine, row: Row, tensors: tuple[TensorRef, ...]) -> list[dict[str, str]]:
    """The instruction log of one row just after it ran: one entry, or one for each micro-operation."""
    if row.body is not None:
        entries = [micro_log_row(micro, 0, tensors) for micro in row.body.rows]
        for number, written in machine.micro_written.items():
            entries[number]["written_bytes"], entries[number]["written_crc32"] = written
        return entries
    entry = log_row(row, 0, 0, tensors)
    if row.op.takes_scalar or row.register >= 0:
        entry["scalar_bits"] = f"0x{machine.scalar_bits(row):x}"
    if machine.spans:
        tensor = None if row.dst is None else tensors[row.dst.tensor]
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
