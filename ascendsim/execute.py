"""Values from a program: every row's arithmetic on real bytes, core by core."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.context import Machine, written_bytes
from ascendsim.device import Device
from ascendsim.dtypes import DType
from ascendsim.errors import Finding
from ascendsim.isa.log import log_row, micro_log_row
from ascendsim.memory import Bytes
from ascendsim.pipes import FlagOrder, FlagWalk, Item, Pipes
from ascendsim.program import Program
from ascendsim.progress import StageProgress
from ascendsim.terms import Buffer, HalfOverflow

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
    run = _Run(program, gm, mode, max(device.ub_bytes, program.ub_high_water_bytes), only)
    with np.errstate(all="ignore"):  # overflow and NaN are results here, not accidents
        for number in range(program.block_dim):
            run.core(number, ub if number == 0 else None, keep_log=number == log_core)
            if progress is not None:
                progress(number + 1, program.block_dim)
    return Execution(gm, tuple(run.findings.values()), _numbered(run.log))


class _Run:
    """One execution of a program, core by core."""

    def __init__(
        self,
        program: Program,
        gm: tuple[Bytes, ...],
        overflow: HalfOverflow,
        ub_bytes: int,
        only: NDArray[np.bool_] | None,
    ) -> None:
        self.findings: dict[tuple[str, str, str], Finding] = {}
        self.log: dict[int, list[dict[str, str]]] = {}
        self._program = program
        self._gm = gm
        self._overflow = overflow
        self._ub_bytes = ub_bytes
        self._only = only
        self._flags = FlagWalk(program)
        self._shared: Machine | None = None
        """Runs every core that has no UB given and keeps no log; its prepared templates serve all of them."""

    def core(self, number: int, ub: Bytes | None, *, keep_log: bool) -> None:
        """Run one core."""
        program = self._program
        calls = np.flatnonzero(program.calls["core"] == number)
        in_order = self._flags.order(program.calls["template"][calls]) is FlagOrder.PAIRED and not keep_log
        if in_order and self._only is not None:
            calls = calls[self._only[calls]]
            if calls.size == 0:
                return
        machine = self._machine(ub, keep_log=keep_log)
        if in_order:
            self._run_in_order(machine, calls)
        else:
            self._run_through_pipes(machine, number, calls)
        self.findings |= {k: f for k, f in machine.findings.items() if k not in self.findings}

    def _machine(self, ub: Bytes | None, *, keep_log: bool) -> Machine:
        if ub is not None or keep_log:
            return Machine(self._program, self._gm, ub or Bytes(self._ub_bytes), self._overflow, keep_log)
        if self._shared is None:
            self._shared = Machine(self._program, self._gm, Bytes(self._ub_bytes), self._overflow)
        else:
            self._shared.start_core()
        return self._shared

    def _run_in_order(self, machine: Machine, calls: Array) -> None:
        """All waits find their flags, so rows run in program order and nothing is held."""
        columns = self._program.calls
        templates, slot_starts = columns["template"][calls].tolist(), columns["slot_start"][calls].tolist()
        for template, slot_start in zip(templates, slot_starts, strict=True):
            machine.enter(machine.frame(template, slot_start))
            for step in machine.prepare(template).work:
                step()

    def _run_through_pipes(self, machine: Machine, number: int, calls: Array) -> None:
        def run(item: Item) -> None:
            machine.enter(item.frame)
            machine.spans.clear()
            machine.micro_written.clear()
            if item.step is not None:
                item.step()
            if machine.keep_log and (self._only is None or self._only[item.call]):
                self.log[item.number] = _log_entries(machine, item)

        pipes = Pipes(number, self._program.lines, run)
        at = 0
        for index in calls.tolist():
            template, slot_start = (int(self._program.calls[c][index]) for c in ("template", "slot_start"))
            at = self._offer_call(pipes, machine, (index, template, slot_start), at)
        pipes.finish()

    def _offer_call(self, pipes: Pipes, machine: Machine, call: tuple[int, int, int], at: int) -> int:
        """Offer the rows of a call, the first of which is the core's row `at`; return the number after its last."""
        index, template, slot_start = call
        prepared, frame = machine.prepare(template), machine.frame(template, slot_start)
        is_wanted = self._only is None or bool(self._only[index])
        for position in range(len(prepared.rows)) if is_wanted else prepared.sync:
            step = prepared.steps[position] if is_wanted else None
            pipes.offer(Item(prepared.rows[position], position, index, at + position, frame, step))
        return at + len(prepared.rows)


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
        memory = machine.ub if tensor is None or tensor.buffer is Buffer.UB else machine.slots[tensor.slot][0]
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
