"""What an instruction is called in traces and tables, where it stands in the source, and its fields in one line."""

from ascendsim import analysis
from ascendsim.engine.base import Kind
from ascendsim.isa.instruction import Operand, Row
from ascendsim.isa.log import dtype_text, mnemonic
from ascendsim.isa.move import burst_geometry
from ascendsim.program import Call
from ascendsim.result import RunResult
from ascendsim.terms import Buffer, HardEvent, MaskMode, Pipe
from ascendsim.trace.lanes import CROSS_CNAMES, FLAGS, LANES, MNEMONICS


class RowTexts:
    """Texts of a timeline's rows, by their positions in it."""

    def __init__(self, result: RunResult) -> None:
        self.program = result.program
        self.rows = analysis.Rows(result.program, result.timeline)
        self.call_of: list[int] = result.timeline["call"].tolist()
        self.calls: dict[int, Call] = {}

    def call(self, index: int) -> Call:
        """A call of the program."""
        if index not in self.calls:
            self.calls[index] = self.program.call(index)
        return self.calls[index]

    def title(self, at: int) -> tuple[str, str]:
        """Name and colour of a row."""
        row, name = self.rows.row(at), mnemonic(self.rows.row(at))
        kind = Kind(int(self.rows.timeline["kind"][at]))
        if analysis.is_cross_flag(row):
            return name.upper(), CROSS_CNAMES[kind]
        return FLAGS.get(kind, (MNEMONICS.get(name, name.upper()), LANES[row.pipe].cname))

    def code(self, at: int) -> str:
        """Source line of a row, and below it the marked step that it is in."""
        row = self.rows.row(at)
        line, step = self.program.lines[row.line], self.program.steps[row.step]
        return f"{line}\n{step}" if step else line

    def is_same(self, at: int) -> bool:
        """Whether a row has the same fields in every call."""
        refs = self.rows.tensors(at)
        return all(refs[operand.tensor].buffer is not Buffer.GM for _, operand in self.rows.row(at).operands)

    def detail(self, at: int, row: Row) -> str:
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
            call = self.call(self.call_of[at])
            base = self.program.gm[call.slot_tensor[ref.slot]].base_bytes
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
