"""Which bytes one row touches, lane by lane: its arithmetic is asked what it would read and write."""

from collections.abc import Callable, Hashable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ascendsim.dtypes import unpack
from ascendsim.isa.instruction import Array, CompareMask, Operand, Row, Step, TensorRef
from ascendsim.memory import Lanes
from ascendsim.program import Template
from ascendsim.terms import Buffer, HalfOverflow

Ints = NDArray[np.int64]
Bytes = slice | Ints
"""Bytes one behind the other as a slice, others in ascending order."""


def lanes_of(template: Template, row: Row) -> dict[tuple[str, bool], Bytes]:
    """Return which bytes of UB a row touches, counted from its operand's start, by role and whether it is written.

    What may be read or written depending on data (gather, selection) counts whole: it errs towards more bytes.
    """
    looker = _Looker(template.tensors, row)
    step = row.op.execute(looker, row)
    if step is not None:
        with np.errstate(all="ignore"):  # the data mean nothing
            step()
    return {key: _joined(parts) for key, parts in looker.found.items()}


def shape_of(template: Template, row: Row) -> Hashable:
    """Return what the bytes that a row touches, counted from its operands' starts, depend on."""
    operands = tuple(
        (role, o.dtype.code, template.tensors[o.tensor].buffer, template.tensors[o.tensor].tensor_bytes)
        for role, o in row.operands
    )
    return (row.op.opcode, row.params, row.mask_mode, row.mask_hi, row.mask_lo, operands, id(row.body))


def _joined(parts: list[Lanes]) -> Bytes:
    if len(parts) == 1 and parts[0].strides == (1,):
        return slice(parts[0].first, parts[0].first + parts[0].size)
    return np.unique(np.concatenate([part.offsets for part in parts]))


def gm_lanes_of(template: Template, row: Row) -> tuple[tuple[str, bool, int, Bytes], ...]:
    """Return (role, whether written, slot, bytes counted from the slot's base in ascending order) of GM operands."""
    looker = _Looker(template.tensors, row)
    row.op.execute(looker, row)
    return tuple((*key, _joined(parts)) for key, parts in looker.found_gm.items())


class _Looker:
    """The Context that computes with zeros and notes which bytes are read and written."""

    overflow = HalfOverflow.INF_NAN
    keeps_log = False

    def __init__(self, tensors: tuple[TensorRef, ...], row: Row) -> None:
        self.found: dict[tuple[str, bool], list[Lanes]] = {}
        self.found_gm: dict[tuple[str, bool, int], list[Lanes]] = {}
        self.compare_mask = CompareMask(np.zeros(0, np.uint8))
        self._tensors = tensors
        self._row = row

    def distance(self, a: Operand, b: Operand) -> int | None:
        """Return the bytes from the start of `a` to the start of `b`, None where one lies in GM."""
        first, second = self._tensors[a.tensor], self._tensors[b.tensor]
        if first.buffer is not Buffer.UB or second.buffer is not Buffer.UB:
            return None
        return second.address_bytes + b.offset_bytes - first.address_bytes - a.offset_bytes

    def reader(self, operand: Operand, at: Lanes) -> Callable[[], Array]:
        """Return what gives zeros for elements of an operand."""
        self._note(operand, at.of_bytes(operand.dtype.bytes), writes=False)
        zeros = np.zeros(at.size, operand.dtype.numpy)
        return lambda: zeros

    def writer(self, operand: Operand, at: Lanes) -> Callable[[Array], None]:
        """Return what takes elements of an operand."""
        self._note(operand, at.of_bytes(operand.dtype.bytes), writes=True)
        return lambda values: None  # noqa: ARG005

    def mover(self, dst: Operand, dst_at: Lanes, src: Operand, src_at: Lanes) -> Step:
        """Return what moves nothing."""
        self._note(src, src_at, writes=False)
        self._note(dst, dst_at, writes=True)
        return _nothing

    def filler(self, dst: Operand, at: Lanes, value: Array | None) -> Step:
        """Return what fills nothing."""
        del value
        self._note(dst, at, writes=True)
        return _nothing

    def disowner(self, dst: Operand, at: Lanes) -> Step:
        """Return what changes how bytes count."""
        self._note(dst, at, writes=True)
        return _nothing

    def loader(self, operand: Operand, at: Lanes) -> Callable[[], tuple[Array, Array | None]]:
        """Return what gives zeros for elements of an operand, all of them written."""
        read = self.reader(operand, at)
        return lambda: (read(), None)

    def storer(self, operand: Operand, at: Lanes) -> Callable[[Array, Array | None], None]:
        """Return what takes elements of an operand."""
        self.writer(operand, at)
        return lambda values, flags: None  # noqa: ARG005

    def tensor_bytes(self, operand: Operand) -> int:
        """Return the length of the operand's tensor."""
        return self._tensors[operand.tensor].tensor_bytes

    def logged(self, number: int) -> None:
        """Nothing is logged."""
        del number

    def picker(self, operand: Operand, length_bytes: int, unit_bytes: int) -> Callable[[Array], Array]:
        """Return what gives zeros: all that may be picked counts as read."""
        self._note(operand, Lanes.run(max(0, length_bytes)), writes=False)
        return lambda offsets: np.zeros(offsets.size * (unit_bytes // operand.dtype.bytes), operand.dtype.numpy)

    def placer(self, operand: Operand, length_bytes: int) -> Callable[[Array], None]:
        """Return what takes any number of elements: all that may be written counts as written."""
        self._note(operand, Lanes.run(max(0, length_bytes)), writes=True)
        return lambda values: None  # noqa: ARG005

    def scalar(self, row: Row) -> Callable[[], Array]:
        """Return what gives a zero."""
        zero = unpack(0, row.scalar_dtype)
        return lambda: zero

    def register(self, row: Row) -> Callable[[Array], None]:
        """Return what sets no register."""
        del row
        return lambda value: None  # noqa: ARG005

    def _note(self, operand: Operand, at: Lanes, *, writes: bool) -> None:
        """Keep bytes under the operand's role: of several that name the same place, all."""
        tensor = self._tensors[operand.tensor]
        if tensor.buffer is not Buffer.UB:
            for role in self._roles(operand, writes=writes) if at.size else []:
                lanes = replace(at, first=at.first + operand.offset_bytes) if at.table is None else None
                moved = lanes or Lanes.at(at.offsets + operand.offset_bytes)
                self.found_gm.setdefault((role, writes, tensor.slot), []).append(moved)
            return
        for role in self._roles(operand, writes=writes) if at.size else []:
            self.found.setdefault((role, writes), []).append(at)

    def _roles(self, operand: Operand, *, writes: bool) -> list[str]:
        body = self._row.body
        if body is not None:
            return [
                use.role
                for use in body.uses
                if use.operand.tensor == operand.tensor and use.role.startswith("dst") == writes
            ]
        roles = [role for role, o in self._row.operands if o == operand]
        sided = [role for role in roles if role.startswith("dst") == writes]
        return sided or roles


def _nothing() -> None:
    """Nothing."""
