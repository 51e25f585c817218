"""Single rows: what their operands hold in front of them and behind them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.context import Machine
from ascendsim.dtypes import unpack
from ascendsim.engine.base import Timeline, Wait
from ascendsim.errors import InputError
from ascendsim.execute import Moment
from ascendsim.inspection.views import MOST_VALUES, Chosen, Held, Ints, RowView, Run, Times, Values, ready
from ascendsim.isa.instruction import Operand, Row, TensorRef
from ascendsim.isa.log import dtype_text, mnemonic, note
from ascendsim.looker import Looker, Note
from ascendsim.memory import Bytes, Lanes
from ascendsim.program import Program, Template
from ascendsim.terms import Buffer, MaskMode


def values(run: Run, rows: Sequence[int], most: int | None = MOST_VALUES) -> dict[int, RowView]:
    """Look at rows of a run, all in one execution, and return them by number.

    Args:
        run: a result whose values were all computed.
        rows: numbers over the whole program, as in the timeline.
        most: elements of each operand that are kept, None for all.

    Raises:
        InputError: a row that is not there, or a run that cannot be executed again.
    """
    return look_at_rows(run, rows, Chosen(most=most))


def look_at_rows(run: Run, rows: Sequence[int], chosen: Chosen) -> dict[int, RowView]:
    """As `values`, for chosen elements."""
    wanted = _wanted(run.program, rows)
    left = len(dict.fromkeys(rows))
    replay = ready(run)
    watch = Watch(replay.program, run.timeline, wanted, chosen)
    for moment in replay.moments(wanted) if left else ():
        watch.take(moment)
        if len(watch.found) == left:
            break
    return {row: watch.found[row] for row in dict.fromkeys(rows)}


def watch_rows(program: Program, timeline: Timeline, rows: Sequence[int], most: int) -> "Watch":
    """Return what looks at rows while their program is executed; at most so many elements of each operand.

    Raises:
        InputError: a row that is not there.
    """
    return Watch(program, timeline, _wanted(program, rows), Chosen(most=most))


class Watch:
    """Looks at rows in front of them and behind them.

    Attributes:
        wanted: by call, which rows of its template.
        found: the rows that have run, by number.
    """

    def __init__(
        self, program: Program, timeline: Timeline, wanted: Mapping[int, Sequence[int]], chosen: Chosen
    ) -> None:
        self.wanted = wanted
        self.found: dict[int, RowView] = {}
        self._program, self._timeline, self._chosen = program, timeline, chosen
        self._before: _Before | None = None

    def take(self, moment: Moment) -> None:
        """Look at the operands of the row that the program stands at."""
        if not moment.is_after:
            self._before = _Before(self._program, moment)
            return
        assert self._before is not None, "the moment in front of a row comes first"
        number = int(self._program.first_rows[moment.call]) + moment.position
        self.found[number] = self._before.view(self._timeline, number, self._chosen)


def _wanted(program: Program, rows: Sequence[int]) -> dict[int, list[int]]:
    """By call, the template rows of some rows of the program."""
    wanted: dict[int, list[int]] = {}
    for row in dict.fromkeys(rows):
        call, position = _place_of(program, row)
        wanted.setdefault(call, []).append(position)
    return wanted


def _place_of(program: Program, row: int) -> tuple[int, int]:
    """The call and the template row of a row of the program."""
    if not 0 <= row < len(program):
        there = f"rows 0 to {len(program) - 1}" if len(program) else "no rows"
        raise InputError(f"row {row}: the program has {there}")
    call = int(np.searchsorted(program.first_rows, row, side="right")) - 1
    return call, row - int(program.first_rows[call])


def row_of_core(program: Program, core: int, number: int) -> int:
    """Return the number over the whole program of a core's row.

    Raises:
        InputError: there is no such core, or no such row of it.
    """
    check_core(program, core)
    calls, ends = _rows_of(program, core)
    total = int(ends[-1]) if len(ends) else 0
    if not 0 <= number < total:
        there = f"rows 0 to {total - 1}" if total else "no rows"
        raise InputError(f"row {number}: {program.core_name(core)} has {there}")
    at = int(np.searchsorted(ends, number, side="right"))
    return int(program.first_rows[calls[at]]) + number - (int(ends[at - 1]) if at else 0)


def _rows_of(program: Program, core: int) -> tuple[Ints, Ints]:
    """A core's calls, and how many rows it has behind each."""
    calls = np.flatnonzero(program.calls["core"] == core)
    return calls, np.cumsum(program.first_rows[calls + 1] - program.first_rows[calls])


def check_core(program: Program, core: int) -> None:
    """Raise InputError for a core that does not run the program."""
    if not 0 <= core < program.core_count:
        raise InputError(f"core {core}: the run has cores 0 to {program.core_count - 1}")


@dataclass(frozen=True, slots=True)
class Touched:
    """Elements of an operand that a row reads or writes, ascending, counted from the operand's start."""

    role: str
    operand: Operand
    elements: Ints
    is_written: bool


def touched(template: Template, row: Row) -> Iterator[Touched]:
    """Return what a row reads and writes, by operand. What only data decide counts whole."""
    looker = Looker(template.tensors)
    looker.look(row)
    for role, operand in row.operands:
        notes = [one for one in looker.notes if one.operand is operand]
        if row.op.family == "dump":
            notes = [Note(operand, Lanes.run(row.param("dump_size") * operand.dtype.bytes), writes=False)]
        if notes:
            offsets = np.concatenate([one.at.offsets for one in notes])
            elements = _distinct(offsets // operand.dtype.bytes)
            yield Touched(role, operand, elements, any(one.writes for one in notes))


def _distinct(elements: Ints) -> Ints:
    """Each once, ascending. They mostly are already; sorting those is faster than the table that np.unique makes."""
    ordered = np.sort(elements)
    is_new = np.diff(ordered, prepend=ordered[:1] - 1) != 0
    distinct: Ints = ordered[is_new]
    return distinct


def bytes_of(elements: Ints, width: int) -> NDArray[np.int64]:
    """Return the byte offsets of elements, [elements, bytes of one]."""
    return elements[:, None] * width + np.arange(width)


@dataclass(frozen=True, slots=True)
class _Place:
    """An operand's elements while its row runs: in which memory, from which byte on, at which address."""

    touched: Touched
    tensor: TensorRef
    memory: Bytes
    first_bytes: int
    address_bytes: int

    def read(self) -> Held:
        """What they hold now; elements beyond the memory's end are left out."""
        at = bytes_of(self.elements, self.touched.operand.dtype.bytes) + self.first_bytes
        return Held(self.memory.content[at], self.memory.written[at])

    @property
    def elements(self) -> Ints:
        """Those that the memory has."""
        width, found = self.touched.operand.dtype.bytes, self.touched.elements
        start = found * width + self.first_bytes
        return found[(start >= 0) & (start + width <= len(self.memory.content))]

    def values(self, before: Held, chosen: Chosen) -> Values:
        """What they held before, and hold now."""
        element = self.touched.operand.dtype
        return Values(
            role=self.touched.role,
            tensor=self.tensor.name,
            memory=self.tensor.buffer.name,
            address_bytes=self.address_bytes,
            dtype=element,
            is_written=self.touched.is_written,
            **before.values_to(self.read(), element, self.elements, chosen),
        )


class _Before:
    """A row's operands in front of it."""

    def __init__(self, program: Program, moment: Moment) -> None:
        self._program, self._moment = program, moment
        self._template = program.templates[int(program.calls["template"][moment.call])]
        self._row = self._template.rows[moment.position]
        self._places = [self._place(one) for one in touched(self._template, self._row)]
        self._held = [place.read() for place in self._places]
        self._scalar = self._scalar_text(moment.machine) if self._row.op.takes_scalar else None

    def _place(self, one: Touched) -> _Place:
        program, machine = self._program, self._moment.machine
        tensor, offset = self._template.tensors[one.operand.tensor], one.operand.offset_bytes
        if tensor.buffer is not Buffer.GM:
            return _Place(one, tensor, machine.local, machine.places.of(tensor) + offset, tensor.address_bytes + offset)
        memory, base = machine.slots[tensor.slot]
        slot = int(program.calls["slot_start"][self._moment.call]) + tensor.slot
        return _Place(one, tensor, memory, base + offset, int(program.slot_base_bytes[slot]) + offset)

    def _scalar_text(self, machine: Machine) -> str:
        return str(unpack(machine.scalar_bits(self._row), self._row.scalar_dtype))

    def view(self, timeline: Timeline, number: int, chosen: Chosen) -> RowView:
        """Return the row with its operands, now that it has run."""
        program, row, moment = self._program, self._row, self._moment
        calls, ends = _rows_of(program, moment.core)
        earlier = np.searchsorted(calls, moment.call)
        sets = row.register >= 0 and not row.op.takes_scalar
        return RowView(
            number=number,
            core=moment.core,
            core_name=program.core_name(moment.core),
            core_number=(int(ends[earlier - 1]) if earlier else 0) + moment.position,
            api=row.op.api,
            instr=mnemonic(row),
            dtype=dtype_text(row),
            pipe=row.pipe.name,
            line=program.lines[row.line],
            step=program.steps[row.step],
            params=dict(zip(row.op.params, row.params, strict=True)),
            mask=_mask_text(row),
            note=note(row, self._template.tensors),
            scalar=self._scalar,
            result=str(moment.machine.registers[row.register]) if sets else None,
            times=_times(timeline, number),
            operands=tuple(p.values(held, chosen) for p, held in zip(self._places, self._held, strict=True)),
        )


def _mask_text(row: Row) -> str:
    if not row.op.uses_mask:
        return ""
    if row.mask_mode is MaskMode.COUNTER:
        return f"counter, {row.mask_lo} elements"
    return f"normal, lanes 0x{row.mask_hi:x} 0x{row.mask_lo:x}"


def _times(timeline: Timeline, number: int) -> Times | None:
    at = timeline.position(number)
    if at < 0:
        return None
    column: dict[str, Any] = {n: int(timeline[n][at]) for n in ("dispatched", "start", "end", "wait_cycles")}
    return Times(**column, waited_for=Wait(int(timeline["waited_for"][at])).words)
