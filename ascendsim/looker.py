"""Which bytes a row reads and writes: its arithmetic runs on a Context that computes with zeros and takes notes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ascendsim.dtypes import unpack
from ascendsim.isa.instruction import Array, CompareMask, Operand, Row, Step, TensorRef
from ascendsim.memory import Lanes
from ascendsim.terms import Buffer, HalfOverflow


@dataclass(frozen=True, slots=True)
class Note:
    """Bytes that a row reads or writes, counted from its operand's start.

    What may be read or written depending on data (gather, selection) counts whole: it errs towards more bytes.
    """

    operand: Operand
    at: Lanes
    writes: bool


class _NotedMask(CompareMask):
    """A compare-mask register that notes whether it is read before it is set, and whether it is set."""

    __slots__ = ("_held", "is_read_first", "is_set")

    def __init__(self) -> None:
        self._held = np.zeros(0, np.uint8)
        self.is_read_first = self.is_set = False

    @property
    def content(self) -> Array:
        """What it holds."""
        self.is_read_first |= not self.is_set
        return self._held

    @content.setter
    def content(self, held: Array) -> None:
        self._held, self.is_set = held, True


class Looker:
    """The Context that computes with zeros and notes which bytes are read and written."""

    overflow = HalfOverflow.INF_NAN
    keeps_log = False

    def __init__(self, tensors: tuple[TensorRef, ...]) -> None:
        self.notes: list[Note] = []
        """In the order in which the row reads and writes."""
        self.moves: list[tuple[Note, Note]] = []
        """Those of them that move bytes one for one: the source's and the destination's."""
        self.is_plain = True
        """Whether all that is read must have been written, and all that is written counts as written then."""
        self.takes_registers = self.sets_registers = False
        """Whether a row takes its scalar from a register, and whether one sets a register."""
        self.compare_mask = _NotedMask()
        self._tensors = tensors

    def look(self, row: Row) -> None:
        """Note what a row reads and writes."""
        step = row.op.execute(self, row)
        if step is not None:
            with np.errstate(all="ignore"):  # the data mean nothing
                step()

    def distance(self, a: Operand, b: Operand) -> int | None:
        """Return the bytes from the start of `a` to the start of `b`, None where one lies in GM."""
        first, second = self._tensors[a.tensor], self._tensors[b.tensor]
        if first.buffer is Buffer.GM or first.buffer is not second.buffer:
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
        if src_at.size == dst_at.size > 0:
            self.moves.append((self.notes[-2], self.notes[-1]))
        return _nothing

    def filler(self, dst: Operand, at: Lanes, value: Array | None) -> Step:
        """Return what fills nothing."""
        self.is_plain &= value is not None
        self._note(dst, at, writes=True)
        return _nothing

    def disowner(self, dst: Operand, at: Lanes) -> Step:
        """Return what leaves bytes as they are and changes how they count."""
        self.is_plain = False
        self._note(dst, at, writes=False)
        self._note(dst, at, writes=True)
        return _nothing

    def loader(self, operand: Operand, at: Lanes) -> Callable[[], tuple[Array, Array | None]]:
        """Return what gives zeros for elements of an operand, all of them written."""
        self.is_plain = False
        read = self.reader(operand, at)
        return lambda: (read(), None)

    def storer(self, operand: Operand, at: Lanes) -> Callable[[Array, Array | None], None]:
        """Return what takes elements of an operand."""
        self.writer(operand, at)
        return lambda values, flags: None  # noqa: ARG005

    def tensor_bytes(self, operand: Operand) -> int:
        """Return the length of the operand's tensor."""
        return self._tensors[operand.tensor].tensor_bytes

    def dumper(self, operand: Operand, at: Lanes) -> Step:
        """Return what shows nothing: a dump is no access that others have to wait for."""
        del operand, at
        return _nothing

    def logged(self, number: int) -> None:
        """Nothing is logged."""
        del number

    def picker(self, operand: Operand, length_bytes: int, unit_bytes: int) -> Callable[[Array], Array]:
        """Return what gives zeros: all that may be picked counts as read."""
        self.is_plain = False
        self._note(operand, Lanes.run(max(0, length_bytes)), writes=False)
        return lambda offsets: np.zeros(offsets.size * (unit_bytes // operand.dtype.bytes), operand.dtype.numpy)

    def placer(self, operand: Operand, length_bytes: int) -> Callable[[Array], None]:
        """Return what takes any number of elements: what may be written or left counts as read and written."""
        self.is_plain = False
        at = Lanes.run(max(0, length_bytes))
        self._note(operand, at, writes=False)
        self._note(operand, at, writes=True)
        return lambda values: None  # noqa: ARG005

    def accumulate(self, a: Array, b: Array, c: Array, fractal_k: int) -> None:
        """Nothing is multiplied."""

    def scalar(self, row: Row) -> Callable[[], Array]:
        """Return what gives a zero."""
        self.takes_registers |= row.register >= 0
        zero = unpack(0, row.scalar_dtype)
        return lambda: zero

    def register(self, row: Row) -> Callable[[Array], None]:
        """Return what sets no register."""
        del row
        self.sets_registers = True
        return lambda value: None  # noqa: ARG005

    def _note(self, operand: Operand, at: Lanes, *, writes: bool) -> None:
        if at.size:
            self.notes.append(Note(operand, at, writes))


def _nothing() -> None:
    """Nothing."""
