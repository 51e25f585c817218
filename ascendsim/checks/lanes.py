"""Which bytes one row touches, lane by lane: its arithmetic is asked what it would read and write."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendsim.isa.instruction import Operand, Row
from ascendsim.looker import Looker
from ascendsim.memory import Lanes, distinct
from ascendsim.program import Template
from ascendsim.terms import Buffer

Ints = NDArray[np.int64]
_MOST_MARKS = 1 << 22
"""Bytes that are marked one by one: more than an operand spans, but one with a stride that is out of bounds."""
Bytes = slice | Ints
"""Bytes one behind the other as a slice, others in ascending order."""


@dataclass(frozen=True, slots=True)
class RowLanes:
    """Which bytes of UB a row touches.

    Attributes:
        lanes: counted from its operand's start, by role and whether it is written. What may be read or written
            depending on data (gather, selection) counts whole: it errs towards more bytes.
        is_plain: all that is read must have been written, and all that it writes counts as written then.
    """

    lanes: dict[tuple[str, bool], Bytes]
    is_plain: bool


def lanes_of(template: Template, row: Row) -> RowLanes:
    """Return which bytes of UB a row touches."""
    looker = Looker(template.tensors)
    looker.look(row)
    found: dict[tuple[str, bool], list[Lanes]] = {}
    for note in looker.notes:
        if template.tensors[note.operand.tensor].buffer is not Buffer.GM:
            for role in _roles(row, note.operand, writes=note.writes):
                found.setdefault((role, note.writes), []).append(note.at)
    is_plain = looker.is_plain and row.body is None
    return RowLanes({key: _joined(parts) for key, parts in found.items()}, is_plain)


def gm_lanes_of(template: Template, row: Row) -> tuple[tuple[str, bool, Bytes], ...]:
    """Return (role, whether written, bytes counted from its operand's start in ascending order) of GM operands."""
    looker = Looker(template.tensors)
    looker.look(row)
    found: dict[tuple[str, bool], list[Lanes]] = {}
    for note in looker.notes:
        if template.tensors[note.operand.tensor].buffer is Buffer.GM:
            for role in _roles(row, note.operand, writes=note.writes):
                found.setdefault((role, note.writes), []).append(note.at)
    return tuple((*key, _joined(parts)) for key, parts in found.items())


def _roles(row: Row, operand: Operand, *, writes: bool) -> list[str]:
    """The roles that an operand has in a row: of several that name the same place, all."""
    if row.body is not None:
        return [
            use.role
            for use in row.body.uses
            if use.operand.tensor == operand.tensor and use.role.startswith("dst") == writes
        ]
    roles = [role for role, o in row.operands if o == operand]
    sided = [role for role in roles if role.startswith("dst") == writes]
    return sided or roles


def shape_of(template: Template, row: Row) -> Hashable:
    """Return what the bytes that a row touches, counted from its operands' starts, depend on.

    How long an operand's tensor is matters to vector functions only: their loads end there.
    """
    tensors = template.tensors
    if row.body is None:
        operands = [(role, o.dtype.code, int(tensors[o.tensor].buffer is Buffer.GM)) for role, o in row.operands]
    else:
        operands = [(role, o.dtype.code, tensors[o.tensor].tensor_bytes) for role, o in row.operands]
    is_zero = row.register < 0 and row.scalar_bits == 0  # what times 0 reads need not be written
    # The mode by its identity, which is quicker to hash.
    return (
        row.op.opcode,
        row.params,
        id(row.mask_mode),
        row.mask_hi,
        row.mask_lo,
        tuple(operands),
        is_zero,
        id(row.body),
    )


def _joined(parts: list[Lanes]) -> Bytes:
    if len(parts) == 1 and parts[0].strides == (1,):
        return slice(parts[0].first, parts[0].first + parts[0].size)
    first, end = min(part.bounds[0] for part in parts), max(part.bounds[1] for part in parts)
    if end - first > _MOST_MARKS:
        return distinct(np.concatenate([part.offsets for part in parts]))
    marks = np.zeros(end - first, np.bool_)
    for part in parts:
        marks[part.offsets - first] = True
    if marks.all():
        return slice(first, end)
    return np.flatnonzero(marks) + first
