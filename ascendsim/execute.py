"""Values from a program: every row's arithmetic on real bytes.

Rows are taken in program order; a row whose pipe is held by a flag that nobody has set yet stays behind on its pipe
and runs when the flag comes, so waits that precede their set in program order work. Cores run one after another.
Every byte starts as 0xFF and unwritten; arithmetic on unwritten bytes, and storing them to GM, is found.
"""

import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.device import Device
from ascendsim.dtypes import DType, pack, unpack
from ascendsim.errors import Deadlock, Finding, Rule
from ascendsim.isa.instruction import Operand, Row
from ascendsim.isa.log import log_row
from ascendsim.memory import Bytes
from ascendsim.program import Call, Program, Template
from ascendsim.progress import StageProgress
from ascendsim.terms import Buffer, HalfOverflow, HardEvent, Pipe

Array = NDArray[Any]
At = slice | Array

UNINIT = Rule(
    "W-MEM-UNINIT",
    "{api} {operand} reads {got} bytes of {tensor} that nobody wrote",
    "load or Duplicate the buffer first, or mask the tail",
    "asc-tools, npu-check ErrorRead2",
)
DUPLICATE = Rule(
    "E-SYNC-DUPLICATE",
    "flag {operand} id {got} is set again before anybody waited for it",
    "use another id, or wait first",
    "asc-devkit docs, SetFlag/WaitFlag page",
)
UNPAIRED = Rule(
    "E-SYNC-UNPAIRED",
    "flag {operand} id {got} is set and never waited for",
    "wait for it, or remove the set",
    "asc-devkit docs, SetFlag/WaitFlag page",
)


@dataclass(frozen=True, slots=True)
class Execution:
    """What running the program gave.

    Attributes:
        gm: bytes of every GM tensor afterwards.
        findings: unwritten bytes read, flags unpaired.
        log: instruction log of one core with its data columns, if asked for.
    """

    gm: tuple[Bytes, ...]
    findings: tuple[Finding, ...]
    log: tuple[dict[str, str], ...]


@dataclass(slots=True)
class _Item:
    """A row to run, in its call."""

    call: Call
    template: Template
    row: Row
    position: int
    registers: list[Array]


@dataclass(slots=True)
class _Core:
    """One core while it runs; also the Context that instructions see."""

    program: Program
    device: Device
    gm: tuple[Bytes, ...]
    number: int
    overflow: HalfOverflow
    keep_log: bool
    ub: Bytes
    flags: dict[tuple[int, int], str] = field(default_factory=dict)
    """Raised flags, and where they were set."""
    held: dict[Pipe, "deque[_Item]"] = field(default_factory=dict)
    item: _Item | None = None
    findings: dict[tuple[str, str, str], Finding] = field(default_factory=dict)
    log: dict[int, dict[str, str]] = field(default_factory=dict)
    written: list[tuple[Buffer, int, Array]] = field(default_factory=list)

    # ---- Context ------------------------------------------------------------------------------------------------

    def address(self, operand: Operand) -> int:
        """Return the absolute address of an operand's first byte."""
        assert self.item is not None
        tensor = self.item.template.tensors[operand.tensor]
        if tensor.buffer is Buffer.UB:
            return tensor.address_bytes + operand.offset_bytes
        return self.item.call.slot_base_bytes[tensor.slot] + operand.offset_bytes

    def _place(self, operand: Operand) -> tuple[Bytes, int]:
        """Memory and byte index of an operand's first byte."""
        assert self.item is not None
        tensor = self.item.template.tensors[operand.tensor]
        if tensor.buffer is Buffer.UB:
            return self.ub, tensor.address_bytes + operand.offset_bytes
        index = self.item.call.slot_tensor[tensor.slot]
        start = self.item.call.slot_base_bytes[tensor.slot] - self.program.gm[index].base_bytes
        return self.gm[index], start + operand.offset_bytes

    def load(self, operand: Operand, at: At) -> Array:
        """Return elements of an operand, noting unwritten ones."""
        memory, start = self._place(operand)
        width = operand.dtype.bytes
        if isinstance(at, slice):
            span = slice(start + at.start * width, start + at.stop * width)
            if not memory.written[span].all():
                self._note_unwritten(operand, int((~memory.written[span]).sum()))
            first = start // width
            return np.asarray(memory.typed(operand.dtype)[first + at.start : first + at.stop])
        index = at + start // width
        written = memory.written.reshape(-1, width)[index] if start % width == 0 else np.ones(1, np.bool_)
        if not written.all():
            self._note_unwritten(operand, int((~written).sum()))
        return np.asarray(memory.typed(operand.dtype)[index])

    def store(self, operand: Operand, at: At, values: Array) -> None:
        """Write elements of an operand."""
        memory, start = self._place(operand)
        width = operand.dtype.bytes
        view = memory.typed(operand.dtype)
        if isinstance(at, slice):
            first = start // width
            view[first + at.start : first + at.stop] = values
            span = np.arange(start + at.start * width, start + at.stop * width) if self.keep_log else None
            memory.written[start + at.start * width : start + at.stop * width] = True
        else:
            index = at + start // width
            view[index] = values
            span = (index[:, None] * width + np.arange(width)).reshape(-1)
            memory.written[span] = True
        self._log_written(operand, span)

    def copy(self, dst: Operand, dst_at: Array, src: Operand, src_at: Array) -> None:
        """Move bytes; unwritten ones stay unwritten, and are noted when they reach GM."""
        source, s = self._place(src)
        target, d = self._place(dst)
        moved, flags = source.content[src_at + s], source.written[src_at + s]
        target.content[dst_at + d] = moved
        target.written[dst_at + d] = flags
        self._log_written(dst, dst_at + d)
        if self._is_gm(dst) and not flags.all():
            self._note_unwritten(src, int((~flags).sum()))

    def fill(self, dst: Operand, at: Array, value: Array | None) -> None:
        """Write raw bytes, or leave them undefined."""
        target, d = self._place(dst)
        target.content[at + d] = 0xFF if value is None else value
        target.written[at + d] = value is not None
        self._log_written(dst, at + d)

    def disown(self, dst: Operand, at: Array) -> None:
        """Count bytes as never written, whatever they hold."""
        target, d = self._place(dst)
        target.written[at + d] = False

    def register(self, row: Row) -> Array:
        """Return the scalar of a row, in dst's dtype."""
        assert row.dst is not None
        return unpack(self._scalar_bits(row), row.dst.dtype)

    def set_register(self, row: Row, value: Array) -> None:
        """Set the register that a row names."""
        assert self.item is not None
        self.item.registers[row.register] = np.array(value)

    # ---- notes --------------------------------------------------------------------------------------------------

    def _is_gm(self, operand: Operand) -> bool:
        assert self.item is not None
        return self.item.template.tensors[operand.tensor].buffer is Buffer.GM

    def _note_unwritten(self, operand: Operand, count: int) -> None:
        assert self.item is not None
        row = self.item.row
        role = next(r for r, o in row.operands if o is operand)
        tensor = self.item.template.tensors[operand.tensor].name
        where = f"{row.op.api} ({self.program.lines[row.line]})"
        finding = UNINIT.finding(where, operand=role, got=count, wanted=0, fill={"api": row.op.api, "tensor": tensor})
        self.findings.setdefault((where, role, tensor), finding)

    def _log_written(self, operand: Operand, span: Array | None) -> None:
        if self.keep_log and span is not None:
            memory = Buffer.GM if self._is_gm(operand) else Buffer.UB
            self.written.append((memory, operand.tensor, span))

    # ---- running ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all rows of this core.

        Raises:
            Deadlock: rows are left that wait for flags nobody sets.
        """
        position = 0
        for call in self.program.calls_of(self.number):
            template = self.program.templates[call.template]
            registers: list[Array] = [np.zeros((), np.uint8)] * template.registers
            for row in template.rows:
                self._offer(_Item(call, template, row, position, registers))
                position += 1
        if any(self.held.values()):
            raise Deadlock(self._describe_deadlock())
        for (event, event_id), where in self.flags.items():
            finding = UNPAIRED.finding(where, operand=HardEvent(event).name, got=event_id, wanted="a wait")
            self.findings.setdefault((where, finding.code, finding.operand), finding)

    def _offer(self, item: _Item) -> None:
        """Run a row now, or leave it behind on its pipe. A held scalar unit holds everything that follows."""
        scalar = self.held.get(Pipe.S)
        line = scalar or self.held.get(item.row.pipe)
        if line:
            line.append(item)
        elif self._blocked(item):
            self.held[item.row.pipe] = deque([item])
        else:
            self._execute(item)

    def _blocked(self, item: _Item) -> bool:
        row = item.row
        if row.op.name == "wait_flag":
            return row.params not in self.flags
        return row.op.name == "pipe_barrier" and row.pipe is Pipe.S and any(self.held.values())

    def _execute(self, item: _Item) -> None:
        self.item = item
        row = item.row
        if row.op.name == "set_flag":
            self._set_flag(row)
        elif row.op.name == "wait_flag":
            del self.flags[row.params]  # type: ignore[arg-type]
        else:
            self.written.clear()
            row.op.execute(self, row)
        if self.keep_log:
            self.log[item.position] = self._log_entry(item)
        if row.op.name == "set_flag":
            self._wake(HardEvent(row.param("event")).dst)

    def _set_flag(self, row: Row) -> None:
        flag = (row.params[0], row.params[1])
        where = self.program.lines[row.line]
        if flag in self.flags:
            name = HardEvent(flag[0]).name
            finding = DUPLICATE.finding(where, operand=name, got=flag[1], wanted="a wait first")
            self.findings.setdefault((where, finding.code, name), finding)
        self.flags[flag] = where

    def _wake(self, pipe: Pipe) -> None:
        """Run what this pipe held, as far as it now goes."""
        line = self.held.get(pipe)
        while line and not self._blocked(line[0]):
            item = line.popleft()
            if pipe is Pipe.S and item.row.pipe is not Pipe.S:
                rest, self.held[pipe] = list(line), deque()
                line.clear()
                self._offer(item)
                for follower in rest:
                    self._offer(follower)
                line = self.held[pipe]
            else:
                self._execute(item)

    def _describe_deadlock(self) -> str:
        lines = [f"deadlock on core {self.number}: no pipe can move"]
        for pipe, waiting in self.held.items():
            if waiting:
                row = waiting[0].row
                event = HardEvent(row.param("event")).name if row.op.name == "wait_flag" else "PIPE_ALL"
                at = self.program.lines[row.line]
                setter = HardEvent[event].src.name if row.op.name == "wait_flag" else "every pipe"
                lines.append(f"  {pipe.name} waits at {at} for {event} id {row.params[-1]}, which {setter} never sets")
        return "\n".join(lines)

    def _log_entry(self, item: _Item) -> dict[str, str]:
        row = item.row
        entry = log_row(row, item.position, 0, item.template.tensors)
        if row.op.takes_scalar or row.register >= 0:
            entry["scalar_bits"] = f"0x{self._scalar_bits(row):x}"
        spans = [span for _, _, span in self.written]
        if spans:
            distinct = np.unique(np.concatenate(spans))
            memory = self._place(row.dst)[0] if row.dst is not None else self.ub
            entry["written_bytes"] = str(distinct.size)
            entry["written_crc32"] = f"{zlib.crc32(memory.content[distinct].tobytes()):08x}"
        return entry

    def _scalar_bits(self, row: Row) -> int:
        assert self.item is not None
        if row.register < 0:
            return row.scalar_bits
        value = self.item.registers[row.register]
        if row.dst is not None and row.dst.dtype.numpy != value.dtype:
            return pack(float(value), row.dst.dtype)  # C++ converts the argument on the way in
        return _bits(value)


def _bits(value: Array) -> int:
    return int(value.view(f"u{value.dtype.itemsize}"))


def execute(
    program: Program,
    device: Device,
    gm: tuple[Bytes, ...],
    *,
    overflow: HalfOverflow | None = None,
    log_core: int | None = None,
    ub: Bytes | None = None,
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
        progress: told how many cores are done.

    Raises:
        Deadlock: a core's pipes wait for flags that are never set.
    """
    findings: dict[tuple[str, str, str], Finding] = {}
    log: dict[int, dict[str, str]] = {}
    mode = overflow or device.arithmetic.half_overflow.value
    ub_bytes = max(device.ub_bytes, program.ub_high_water_bytes)
    with np.errstate(all="ignore"):  # overflow and NaN are results here, not accidents
        for number in range(program.block_dim):
            memory = ub if ub is not None and number == 0 else Bytes(ub_bytes)
            core = _Core(program, device, gm, number, mode, number == log_core, memory)
            core.run()
            findings |= {k: f for k, f in core.findings.items() if k not in findings}
            log |= core.log
            if progress is not None:
                progress(number + 1, program.block_dim)
    return Execution(gm, tuple(findings.values()), _numbered(log))


def _numbered(log: dict[int, dict[str, str]]) -> tuple[dict[str, str], ...]:
    """Log rows in program order, vector calls numbered as in `Program.instruction_log`."""
    number = 0
    rows = []
    for position in sorted(log):
        entry = log[position]
        if entry["ascendc_api"] and entry["dst_tensor"]:
            number += 1
            entry["ascendc_api"] += f"#{number}"
        rows.append(entry)
    return tuple(rows)


def dtype_array(memory: Bytes, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return a memory's content as an array."""
    return memory.content.view(dtype.numpy).reshape(shape)
