"""What DumpTensor has shown in a run, and its text as the real one prints it.

Source: asc-devkit docs, DumpTensor page: heads, fields and brackets of the print, what a shape does, 1 MiB a core.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.context import Dumped
from ascendsim.dtypes import DType
from ascendsim.isa.dump import shape_of
from ascendsim.isa.instruction import TensorRef
from ascendsim.program import Program
from ascendsim.terms import DATABLOCK_BYTES, align_up

Array = NDArray[Any]

CORE_BYTES = 1 << 20
"""What all dumps of a core take at most, a head of 32 B and datablocks each; later ones print nothing."""
_HEAD_BYTES = 32
NOT_THERE = "-"
"""What stands for an element that the tensor does not have."""
UNWRITTEN = "?"
"""What stands behind an element of which some byte was never written."""


@dataclass(frozen=True, slots=True, eq=False)
class Dump:
    """What one DumpTensor has shown.

    Attributes:
        core: which core ran it.
        core_name: what reports call that core.
        number: row of the program, as in the timeline's column `number`.
        line: kernel line, "file.py:31".
        desc: the number that the kernel gave it.
        tensor: name of the tensor.
        memory: where it lies: UB, L1, L0C or GM.
        address_bytes: address of its first element in that memory.
        dtype: element type.
        count: elements that were asked for.
        shape: in which they are printed; () for one row.
        values: elements that are there, 1-D; none behind the 1 MiB of a core.
        written: for each value, whether all its bytes were ever written.
        is_dropped: whether the core had dumped 1 MiB before.
    """

    core: int
    core_name: str
    number: int
    line: str
    desc: int
    tensor: str
    memory: str
    address_bytes: int
    dtype: DType
    count: int
    shape: tuple[int, ...]
    values: Array
    written: NDArray[np.bool_]
    is_dropped: bool = False

    @property
    def place(self) -> str:
        """Who dumped what where, in one line."""
        return f"{self.core_name}, {self.tensor}, {self.line}, row {self.number}"

    @property
    def head(self) -> str:
        """The line that the real one prints before the values."""
        return (
            f"DumpTensor: desc={self.desc}, addr={self.address_bytes:x}, data_type={self.dtype.numpy.name}, "
            f"position={self.memory}, dump_size={self.count}"
        )


class DumpLog:
    """Collects what DumpTensor shows while a program runs."""

    def __init__(self, program: Program) -> None:
        self.all: list[Dump] = []
        self._program = program
        self._taken_bytes: dict[int, int] = {}
        """By core."""

    def take(self, dumped: list[Dumped], core: int, call: int) -> None:
        """Take what a call has shown out of the list, up to 1 MiB of a core."""
        for shown in dumped:
            taken = self._taken_bytes.get(core, 0) + _HEAD_BYTES + align_up(shown.content.size, DATABLOCK_BYTES)
            if taken <= CORE_BYTES:
                self._taken_bytes[core] = taken
            self.all.append(self._dump(shown, core, call, is_dropped=taken > CORE_BYTES))
        dumped.clear()

    def _dump(self, shown: Dumped, core: int, call: int, *, is_dropped: bool) -> Dump:
        program, row, tensor = self._program, shown.row, shown.tensor
        assert row.src0 is not None
        element = row.src0.dtype
        whole = 0 if is_dropped else shown.content.size // element.bytes * element.bytes
        rows = program.templates[int(program.calls["template"][call])].rows
        return Dump(
            core=core,
            core_name=program.core_name(core),
            number=int(program.first_rows[call]) + next(i for i, one in enumerate(rows) if one is row),
            line=program.lines[row.line],
            desc=row.param("desc"),
            tensor=tensor.name,
            memory=tensor.buffer.name,
            address_bytes=shown.offset_bytes + self._base(tensor, call),
            dtype=element,
            count=row.param("dump_size"),
            shape=shape_of(row),
            values=shown.content[:whole].view(element.numpy),
            written=np.logical_and.reduce(shown.written[:whole].reshape(-1, element.bytes), axis=1),
            is_dropped=is_dropped,
        )

    def _base(self, tensor: TensorRef, call: int) -> int:
        """GM address of the tensor; 0 on chip."""
        if tensor.slot < 0:
            return 0
        program = self._program
        return program.gm[int(program.slot_tensor[int(program.calls["slot_start"][call]) + tensor.slot])].base_bytes


def dump_lines(dump: Dump, most: int | None = None) -> Iterator[str]:
    """Return a dump's text: where it comes from, its head, its values in brackets.

    Args:
        dump: the dump.
        most: print so many values at most, None for all.
    """
    yield f"# {dump.place}"
    yield dump.head
    if dump.is_dropped:
        yield f"[not printed: this core had dumped {CORE_BYTES} B before]"
        return
    words = [value_text(v, is_written=bool(w)) for v, w in zip(dump.values[:most], dump.written[:most], strict=True)]
    wanted = prod(dump.shape) if dump.shape else dump.count
    shown = wanted if most is None else min(wanted, most)
    words = [*words[:shown], *[NOT_THERE] * (shown - len(words))]
    if dump.shape and shown == wanted:
        yield from _nested(words, dump.shape)
    else:
        more = [f"... {wanted - shown} more"] if shown < wanted else []
        yield f"[{', '.join([*words, *more])}]"
    if not dump.written[:shown].all():
        yield f"({UNWRITTEN}: never written)"


def value_text(value: Any, *, is_written: bool) -> str:
    """Return a value as the real one prints it: floats with six decimals."""
    text = f"{float(value):.6f}" if value.dtype.kind not in "iub" else str(int(value))
    return text if is_written else text + UNWRITTEN


def _nested(words: Sequence[str], shape: tuple[int, ...]) -> Iterator[str]:
    """Values in the brackets of their shape, a line for each row."""
    row = shape[-1]
    rows = [words[at : at + row] for at in range(0, len(words), row)]
    for number, line in enumerate(rows):
        opened, closed = _brackets(number, shape[:-1]), _brackets(len(rows) - 1 - number, shape[:-1])
        comma = "," if number < len(rows) - 1 else ""
        yield " " * (len(shape) - 1 - opened) + "[" * (opened + 1) + ", ".join(line) + "]" * (closed + 1) + comma


def _brackets(number: int, axes: tuple[int, ...]) -> int:
    """How many outer brackets open at a row, or close at the row that so many follow."""
    found = 0
    for axis in reversed(axes):
        if number % axis:
            break
        number //= axis
        found += 1
    return found
