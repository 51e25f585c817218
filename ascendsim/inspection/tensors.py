"""A tensor at a cycle: what the rows that were complete by then have left in it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendsim.dtypes import DType, dtype
from ascendsim.engine.base import Timeline
from ascendsim.errors import InputError
from ascendsim.inspection.rows import bytes_of, check_core, touched
from ascendsim.inspection.views import Chosen, Held, Replay, Run, TensorView, Values, Writer, ready
from ascendsim.isa.instruction import Row
from ascendsim.isa.log import mnemonic
from ascendsim.isa.names import nearest
from ascendsim.memory import Bytes
from ascendsim.program import Program
from ascendsim.terms import Buffer

Ints = NDArray[np.int64]


def look_at_tensor(
    run: Run, cycle: int, name: str, core: int = 0, *, element: str | None = None, chosen: Chosen | None = None
) -> TensorView:
    """Return what a tensor held at a cycle.

    Args:
        run: a result whose values were all computed.
        cycle: from 0 to the makespan.
        name: of a GM tensor, or of one on chip; "NAME@0x2000" where several of a name lie on chip.
        core: whose on-chip memories; GM has no use for it.
        element: element type to read it as; None for that of most operands in it.
        chosen: elements that are kept, None for the first few.

    Raises:
        InputError: no such cycle, core or tensor; a cycle of a long run whose rows were not kept; a run that cannot be
            executed again.
    """
    timeline = run.timeline
    if not 0 <= cycle <= timeline.makespan_cycles:
        raise InputError(f"cycle {cycle}: the run has cycles 0 to {timeline.makespan_cycles}")
    check_core(run.program, core)
    replay = ready(run)
    program = replay.program  # of a stored run, this one has the arithmetic of instructions of its own
    region = _find(program, name, core)
    writes = list(_writes(program, region))
    numbers = np.array([write.number for write in writes], np.int64)
    begun, complete = _Clock(program, timeline).at(cycle, numbers)
    kind = region.dtype if element is None else dtype(element)
    some = [write for write, has_begun in zip(writes, begun, strict=True) if has_begun]
    done = {write.number for write, is_complete in zip(writes, complete, strict=True) if is_complete}
    before, after = _states(replay, region, some, done)
    elements = np.arange(region.length_bytes // kind.bytes)
    at = bytes_of(elements, kind.bytes)
    is_gm = region.buffer is Buffer.GM
    known = [_writer(program, timeline, write) for write in some if timeline.position(write.number) >= 0]
    finished = [writer for writer in known if writer.number in done]
    return TensorView(
        cycle=cycle,
        core=None if is_gm else core,
        core_name="all cores" if is_gm else program.core_name(core),
        last=max(finished, key=lambda writer: (writer.end, writer.number), default=None),
        in_flight=tuple(writer for writer in known if writer.number not in done),
        values=Values(
            role="",
            tensor=region.name,
            memory=region.buffer.name,
            address_bytes=region.address_bytes,
            dtype=kind,
            is_written=bool(some),
            **Held(before.content[at], before.written[at]).values_to(
                Held(after.content[at], after.written[at]), kind, elements, chosen or Chosen()
            ),
        ),
    )


# ---- which bytes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Region:
    """A tensor's bytes: address of the first in its memory, how many; in GM, which tensor; on chip, whose."""

    name: str
    buffer: Buffer
    address_bytes: int
    length_bytes: int
    dtype: DType
    gm: int
    core: int


def _find(program: Program, name: str, core: int) -> _Region:
    for tensor in program.gm:
        if tensor.name == name:
            length, number = tensor.tensor_bytes, tensor.index
            return _Region(name, Buffer.GM, tensor.base_bytes, length, tensor.dtype, number, -1)
    wanted, at, address = name.partition("@")
    places: dict[tuple[Buffer, int], int] = {}
    kinds: Counter[tuple[tuple[Buffer, int], DType]] = Counter()
    names: set[str] = set()
    for number in np.unique(program.calls["template"][program.calls["core"] == core]).tolist():
        template = program.templates[number]
        refs = [t for t in template.tensors if t.buffer is not Buffer.GM]
        names |= {t.name for t in refs}
        for t in refs:
            if t.name == wanted and (not at or _address(address) == t.address_bytes):
                key = (t.buffer, t.address_bytes)
                places[key] = max(places.get(key, 0), t.tensor_bytes)
        for row in template.rows:
            for _, operand in row.operands:
                t = template.tensors[operand.tensor]
                kinds[(t.buffer, t.address_bytes), operand.dtype] += t.name == wanted
    if not places:
        known = sorted(names | {t.name for t in program.gm})
        near = nearest(wanted, known) or known
        raise InputError(f"tensor {name}: {program.core_name(core)} has none of that name; there is {_some(near)}")
    if len(places) > 1:
        listed = ", ".join(f"{wanted}@0x{address:x} ({buffer.name})" for buffer, address in sorted(places))
        raise InputError(f"tensor {name} lies at several places: name one of {listed}")
    (key, length) = next(iter(places.items()))
    kind = max((k for k in kinds if k[0] == key), key=lambda k: (kinds[k], -k[1].code))[1]
    return _Region(wanted, *key, length, kind, -1, core)


def _address(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise InputError(f"tensor address {text}: want a number such as 0x2000") from None


def _some(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


# ---- who writes them ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Write:
    """A row that writes bytes of the region: its call and place in it, and the offsets of those bytes."""

    number: int
    call: int
    position: int
    row: Row
    offsets: Ints


def _writes(program: Program, region: _Region) -> Iterator[_Write]:
    """All rows that write a region, call by call."""
    known: dict[int, list[tuple[int, Row, int, Ints]]] = {}
    on_core = program.calls["core"] == region.core
    for call, template in enumerate(program.calls["template"].tolist()):
        if region.core >= 0 and not on_core[call]:
            continue
        if template not in known:
            known[template] = list(_written(program, template, region))
        first = int(program.calls["slot_start"][call])
        for position, row, slot, offsets in known[template]:
            base = 0
            if slot >= 0:
                if program.slot_tensor[first + slot] != region.gm:
                    continue
                base = int(program.slot_base_bytes[first + slot]) - region.address_bytes
            inside = offsets + base
            inside = inside[(inside >= 0) & (inside < region.length_bytes)]
            if inside.size:
                yield _Write(int(program.first_rows[call]) + position, call, position, row, inside)


def _written(program: Program, number: int, region: _Region) -> Iterator[tuple[int, Row, int, Ints]]:
    """Rows of a template that write the region's memory: place, row, slot, offsets from the region or the slot."""
    template = program.templates[number]
    for position, row in enumerate(template.rows):
        for one in touched(template, row):
            tensor = template.tensors[one.operand.tensor]
            if not one.is_written or tensor.buffer is not region.buffer:
                continue
            offsets = bytes_of(one.elements, one.operand.dtype.bytes).reshape(-1) + one.operand.offset_bytes
            if tensor.slot < 0:
                offsets = offsets + tensor.address_bytes - region.address_bytes
            yield position, row, tensor.slot, offsets


def _writer(program: Program, timeline: Timeline, write: _Write) -> Writer:
    at = timeline.position(write.number)
    start, end = (int(timeline[name][at]) for name in ("start", "end"))
    return Writer(write.number, mnemonic(write.row), program.lines[write.row.line], start, end)


# ---- when -----------------------------------------------------------------------------------------------------------


class _Clock:
    """Tells which rows have begun and which are complete, also those that were not kept, where pipes tell it."""

    def __init__(self, program: Program, timeline: Timeline) -> None:
        self._program, self._timeline = program, timeline

    def at(self, cycle: int, numbers: Ints) -> tuple[list[bool], list[bool]]:
        """Return for rows whether they have begun by a cycle, and whether they are complete.

        Raises:
            InputError: a row was not kept, and what was kept of its pipe does not tell.
        """
        begun, complete = [], []
        for number in numbers.tolist():
            at = self._timeline.position(number)
            if at >= 0:
                begun.append(bool(self._timeline["start"][at] <= cycle))
                complete.append(bool(self._timeline["end"][at] <= cycle))
            else:
                is_done = self._is_done(number, cycle)
                begun.append(is_done)
                complete.append(is_done)
        return begun, complete

    def _is_done(self, number: int, cycle: int) -> bool:
        """Whether a row is through: a later one of its pipe has started. Behind one that has not, it has not either."""
        core, pipe = self._lane(number)
        lane = (self._timeline["core"] == core) & (self._timeline["pipe"] == pipe)
        kept, has_started = self._timeline["number"][lane], self._timeline["start"][lane] <= cycle
        if has_started[kept > number].any():
            return True
        if not has_started[kept < number].all():
            return False
        raise InputError(
            f"cycle {cycle}: the run is too long to keep all rows, and of {self._program.core_name(core)} those around "
            f"that cycle were not kept; run it again with --trace-window {max(0, cycle - 1000)}:{cycle + 1000}"
        )

    def _lane(self, number: int) -> tuple[int, int]:
        program = self._program
        call = int(np.searchsorted(program.first_rows, number, side="right")) - 1
        template = program.templates[int(program.calls["template"][call])]
        return int(program.calls["core"][call]), int(template.columns["pipe"][number - int(program.first_rows[call])])


# ---- what it held ---------------------------------------------------------------------------------------------------


def _states(replay: Replay, region: _Region, some: list[_Write], done: set[int]) -> tuple[Bytes, Bytes]:
    """The region after the rows that are complete, and after all that have begun."""
    before, after = _start(replay, region), _start(replay, region)
    by_place: dict[tuple[int, int], list[_Write]] = {}
    wanted: dict[int, list[int]] = {}
    for write in some:
        by_place.setdefault((write.call, write.position), []).append(write)
        wanted.setdefault(write.call, []).append(write.position)
    left = len(by_place)
    for moment in replay.moments(wanted) if left else ():
        if not moment.is_after:
            continue
        if region.buffer is Buffer.GM:
            memory, first = replay.gm[region.gm], 0
        else:
            memory, first = moment.machine.local, moment.machine.places.bases[region.buffer] + region.address_bytes
        for write in by_place[moment.call, moment.position]:
            for state in (before, after) if write.number in done else (after,):
                state.content[write.offsets] = memory.content[write.offsets + first]
                state.written[write.offsets] = memory.written[write.offsets + first]
        left -= 1
        if not left:
            break
    return before, after


def _start(replay: Replay, region: _Region) -> Bytes:
    """The region before anything ran."""
    found = Bytes(region.length_bytes)
    if region.buffer is Buffer.GM:
        found.content[:], found.written[:] = replay.gm[region.gm].content, replay.gm[region.gm].written
    elif region.buffer is Buffer.UB and region.core == 0 and replay.ub is not None:
        part = slice(region.address_bytes, region.address_bytes + region.length_bytes)
        found.content[:], found.written[:] = replay.ub.content[part], replay.ub.written[part]
    return found
