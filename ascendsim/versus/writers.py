"""Which instruction wrote an element of an output last, and from where on chip: found from the program alone.

Each row that writes GM runs once against a context that only looks (`looker`); the calls are then walked in the order
in which rows run (`turns`), so that what is written twice belongs to the last one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.isa.instruction import Row
from ascendsim.isa.log import cube_api, mnemonic
from ascendsim.looker import Looker, Note
from ascendsim.memory import GlobalTensor
from ascendsim.program import Program, Template
from ascendsim.result import RunResult
from ascendsim.terms import Buffer
from ascendsim.turns import Turns

Ints = NDArray[np.int64]
NOBODY = -1


@dataclass(frozen=True, slots=True)
class _Write:
    """What a row of a template writes of GM: elements of the tensor, counted from its slot's base in bytes."""

    row: int
    slot: int
    offsets: Ints


@dataclass(frozen=True, slots=True)
class Owners:
    """Who wrote each element of a tensor last: call and row of its template, `NOBODY` for elements nobody wrote."""

    calls: Ints
    rows: Ints


@dataclass(frozen=True, slots=True)
class Written:
    """One element, and the instruction that wrote it last.

    Attributes:
        core: as reports call it.
        tile: the use of a @tile function, "" outside of one.
        api, mnemonic, line: the instruction, and the kernel line.
        adds: it adds to what is there, so that others have had their part.
        gm_address_bytes: of the element.
        memory, tensor, address_bytes: where on chip it came from; None where elements do not lie there one by one.
        start, end: cycles; None where the run did not keep the row.
    """

    core: str
    tile: str
    api: str
    mnemonic: str
    line: str
    adds: bool
    gm_address_bytes: int
    memory: str
    tensor: str
    address_bytes: int | None
    start: int | None
    end: int | None

    def __str__(self) -> str:
        where = f"{self.core}, {self.tile}" if self.tile else self.core
        verb = "added to" if self.adds else "written"
        at = "" if self.address_bytes is None else f" at {self.memory} address 0x{self.address_bytes:x}"
        time = "" if self.start is None else f", cycles {self.start:,} to {self.end:,}"
        source = f" from {self.tensor}{at}" if self.tensor else ""
        return f"{verb} on {where} by {self.api} ({self.mnemonic}) at {self.line}{source}{time}"


def owners_of(program: Program, tensor: GlobalTensor) -> Owners:
    """Return who wrote each element of a GM tensor last."""
    count = tensor.tensor_bytes // tensor.dtype.bytes
    owners = Owners(np.full(count, NOBODY, np.int64), np.full(count, NOBODY, np.int64))
    turns = Turns(program)
    writes = [tuple(_writes(template, tensor.dtype.bytes)) for template in program.templates]
    for stretch in turns.all():
        for index, part in zip(stretch.calls.tolist(), stretch.parts.tolist(), strict=True):
            template, positions = turns.parts[part]
            if not writes[template]:
                continue
            call, there = program.call(index), set(positions)
            for write in writes[template]:
                if write.row in there and call.slot_tensor[write.slot] == tensor.index:
                    at = write.offsets + (call.slot_base_bytes[write.slot] - tensor.base_bytes)
                    elements = at // tensor.dtype.bytes
                    elements = elements[(elements >= 0) & (elements < count)]
                    owners.calls[elements], owners.rows[elements] = index, write.row
    return owners


def written(result: RunResult, tensor: GlobalTensor, owners: Owners, element: int) -> Written | None:
    """Return who wrote an element of a GM tensor last, None where nobody did."""
    index, at = int(owners.calls[element]), int(owners.rows[element])
    if index == NOBODY:
        return None
    program = result.program
    call = program.call(index)
    template = program.templates[call.template]
    row = template.rows[at]
    address = tensor.base_bytes + element * tensor.dtype.bytes
    memory, name, local = _source(template, row, address - call.slot_base_bytes[_slot(template, row)])
    start, end = _cycles(result, index, at)
    return Written(
        core=program.core_name(call.core),
        tile=tile_name(template.name, call.tile),
        api=cube_api(row) or row.op.api,
        mnemonic=mnemonic(row),
        line=program.lines[row.line],
        adds=row.op.reads_dst,
        gm_address_bytes=address,
        memory=memory,
        tensor=name,
        address_bytes=local,
        start=start,
        end=end,
    )


def tile_name(function: str, number: int) -> str:
    """Return what a use of a @tile function is called; "" outside of one."""
    return f"tile {number} of {function}" if number >= 0 else ""


def _writes(template: Template, element_bytes: int) -> Iterator[_Write]:
    for at, row in enumerate(template.rows):
        if row.dst is not None and template.tensors[row.dst.tensor].buffer is Buffer.GM:
            for note in _looked(template, row).notes:
                if note.writes:
                    starts = np.unique((note.at.offsets + note.operand.offset_bytes) // element_bytes) * element_bytes
                    yield _Write(at, template.tensors[note.operand.tensor].slot, starts)


def _looked(template: Template, row: Row) -> Looker:
    looker = Looker(template.tensors)
    looker.look(row)
    return looker


def _slot(template: Template, row: Row) -> int:
    assert row.dst is not None
    return template.tensors[row.dst.tensor].slot


def _source(template: Template, row: Row, offset_bytes: int) -> tuple[str, str, int | None]:
    """(memory, tensor, address) that an element of what a row writes comes from; `offset_bytes` is in its slot.

    Moves of bytes say it themselves. An instruction that converts reads as many elements as it writes, in their order.
    """
    if row.src0 is None:
        return "", "", None
    source = template.tensors[row.src0.tensor]
    looker = _looked(template, row)
    for note in looker.notes:
        found = np.flatnonzero(note.at.offsets + note.operand.offset_bytes == offset_bytes) if note.writes else _NONE
        if len(found):
            from_ = _partner(looker, note, row)
            if from_ is None:
                break
            place = int(found[-1]) * from_.at.size // note.at.size
            address = source.address_bytes + from_.operand.offset_bytes + int(from_.at.offsets[place])
            return source.buffer.name, source.name, address
    return source.buffer.name, source.name, None


_NONE: NDArray[Any] = np.zeros(0, np.int64)


def _partner(looker: Looker, note: Note, row: Row) -> Note | None:
    """What a row reads for what it writes, element by element; None where that is not known."""
    for src, dst in looker.moves:
        if dst is note:
            return src
    for other in looker.notes:
        same = other.at.size * note.operand.dtype.bytes == note.at.size * other.operand.dtype.bytes
        if not other.writes and other.operand is row.src0 and same:
            return other
    return None


def _cycles(result: RunResult, call: int, row: int) -> tuple[int | None, int | None]:
    t = result.timeline
    found = np.flatnonzero((t["call"] == call) & (t["row"] == row))
    return (int(t["start"][found[0]]), int(t["end"][found[0]])) if len(found) else (None, None)
