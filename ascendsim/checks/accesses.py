"""What the rows of a program do that other rows can meet: bytes of UB they touch, flags, barriers."""

from collections.abc import Hashable
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks.lanes import Bytes, RowLanes, lanes_of, shape_of
from ascendsim.isa.instruction import Row
from ascendsim.program import Places, Program, RowForm, Template
from ascendsim.terms import Buffer, HardEvent, Pipe

Ints = NDArray[np.int64]


FAR = 1 << 60
"""Bytes beyond every memory, that columns of 64 bits still add up with; operands may reach further."""
_MOST_MARKS = 1 << 24
"""Bytes that are marked one by one: more than any core has on chip, where an operand may be said to be any length."""


Site = tuple[int, int]
"""Template and row in it."""


class Act(IntEnum):
    """What a row does to the order of others."""

    TOUCH = 0
    SET = 1
    WAIT = 2
    BARRIER = 3
    BARRIER_ALL = 4
    CROSS_SET = 5
    CROSS_WAIT = 6


class Access(NamedTuple):
    """One operand of one row of a template, in UB.

    Attributes:
        number: its place among all accesses of the program.
        template: the template's number.
        at: the row's place in it.
        role: the operand's; an operand that is read and written is there once for each.
        start: where the operand begins in UB.
        first: lowest byte in UB.
        end: the byte behind the highest.
    """

    number: int
    template: int
    at: int
    role: str
    tensor: str
    pipe: Pipe
    start: int
    first: int
    end: int
    writes: bool


class Step(NamedTuple):
    """A row as far as order is concerned.

    Attributes:
        at: the row's place in its template.
        pipe: where it runs.
        flag: event and id, of SET and WAIT.
        accesses: numbers of what it touches.
        is_shared: whether rows of other cores can meet it: it touches GM, or is about a flag between cores.
    """

    act: Act
    at: int
    pipe: Pipe
    flag: tuple[int, int] = (-1, -1)
    accesses: tuple[int, ...] = ()
    is_shared: bool = False


class TemplateAccesses:
    """Every access of templates that are added one after the other, by number, and the steps that each takes.

    Args:
        places: where the on-chip memories lie.
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        self.templates: list[Template] = []
        self.all: list[Access] = []
        self.steps: list[tuple[Step, ...]] = []
        self.crossed = -1
        """An access of no bytes: behind it a pipe has waited for another core."""
        self.lines: list[tuple[str, ...]] = []
        """By template: the source lines that its rows name."""
        self._edges = np.zeros((3, 0), np.int64)
        self._marked = np.zeros(min(places.length_bytes, _MOST_MARKS), np.bool_)
        """Bytes of an access that another is compared with."""
        self._meets: dict[tuple[int, int], bool] = {}
        self._bytes: dict[int, tuple[int, Bytes | None]] = {}
        self._shapes: dict[Hashable, RowLanes] = {}
        self._lanes_of_form: dict[RowForm, RowLanes] = {}

    def add(self, template: Template, lines: tuple[str, ...]) -> int:
        """Add a template, whose rows name these source lines, and return its number."""
        number = len(self.templates)
        self.templates.append(template)
        self.lines.append(lines)
        self.steps.append(self._steps(number, template))
        return number

    @property
    def edges(self) -> Ints:
        """In three rows: lowest byte of each access, byte behind its highest, 1 where it writes."""
        known = self._edges.shape[1]
        if known < len(self.all):
            new = [(max(a.first, -FAR), min(a.end, FAR), a.writes) for a in self.all[known:]]
            self._edges = np.concatenate([self._edges, np.array(new, np.int64).T], axis=1)
        return self._edges

    def row(self, access: Access) -> Row:
        """The instruction of an access."""
        return self.templates[access.template].rows[access.at]

    def line(self, access: Access) -> str:
        """The source line of an access."""
        return self.lines[access.template][self.row(access).line]

    def meet(self, one: int, other: int) -> bool:
        """Whether two accesses share a byte, lane by lane; their ranges are known to."""
        key = (one, other) if one < other else (other, one)
        known = self._meets.get(key)
        if known is None:
            known = self._meets[key] = len(self._both(*key)) > 0
        return known

    def shared(self, one: int, other: int) -> tuple[int, int]:
        """First and last UB byte that two accesses share, which meet."""
        both = self._both(one, other)
        return int(both[0]), int(both[-1])

    def _both(self, one: int, other: int) -> Ints | range:
        a, b = self.bytes_of(one), self.bytes_of(other)
        if isinstance(a, slice) and isinstance(b, slice):
            return range(max(a.start, b.start), min(a.stop, b.stop))
        if isinstance(a, slice):
            a, b = b, a
        assert not isinstance(a, slice)
        if isinstance(b, slice):
            inside: Ints = a[(a >= b.start) & (a < b.stop)]
            return inside
        if min(a[0], b[0]) < 0 or max(a[-1], b[-1]) >= len(self._marked):
            both: Ints = np.intersect1d(a, b, assume_unique=True)
            return both
        self._marked[a] = True
        both = b[self._marked[b]]
        self._marked[a] = False
        return both

    def count(self, number: int) -> int:
        """How many bytes an access touches."""
        at = self.bytes_of(number)
        return int(at.stop - at.start) if isinstance(at, slice) else len(at)

    def bytes_of(self, number: int) -> Bytes:
        """Every on-chip byte of an access, counted through the memories."""
        known = self._bytes.get(number)
        if known is None:
            known = self._bytes[number] = self._find_bytes(number)
        start, at = known
        if at is None:  # the declaration names the range only
            return slice(self.all[number].first, self.all[number].end)
        return slice(start + at.start, start + at.stop) if isinstance(at, slice) else at + start

    def _find_bytes(self, number: int) -> tuple[int, Bytes | None]:
        """(Where the access's operand begins, its bytes counted from there)."""
        access = self.all[number]
        return access.start, self._lanes(access.template, access.at).lanes.get((access.role, access.writes))

    def is_plain(self, number: int, step: Step) -> bool:
        """Whether a row of template `number` reads what must be written and leaves written what it writes."""
        return self._lanes(number, step.at).is_plain

    def _lanes(self, number: int, at: int) -> RowLanes:
        """What `lanes_of` says of a row."""
        template = self.templates[number]
        known = self._lanes_of_form.get(template.forms[at])
        if known is None:
            known = self._lanes_of_form[template.forms[at]] = self._find_lanes(template, template.rows[at])
        return known

    def _find_lanes(self, template: Template, row: Row) -> RowLanes:
        """Rows of one shape are looked at once."""
        key = shape_of(template, row)
        known = self._shapes.get(key)
        if known is None:
            known = self._shapes[key] = lanes_of(template, row)
        return known

    def _steps(self, number: int, template: Template) -> tuple[Step, ...]:
        found = []
        for at, (row, touched) in enumerate(zip(template.rows, template.touched, strict=True)):
            name = row.op.name
            if name == "set_flag":
                event, event_id = row.params
                found.append(Step(Act.SET, at, HardEvent(event).src, (event, event_id)))
            elif name == "wait_flag":
                event, event_id = row.params
                found.append(Step(Act.WAIT, at, HardEvent(event).dst, (event, event_id)))
            elif name == "pipe_barrier":
                everything = row.pipe is Pipe.S
                found.append(Step(Act.BARRIER_ALL if everything else Act.BARRIER, at, row.pipe))
            elif name == "cross_core_set_flag":
                found.append(Step(Act.CROSS_SET, at, row.pipe, is_shared=True))
            elif name == "cross_core_wait_flag":
                found.append(Step(Act.CROSS_WAIT, at, row.pipe, is_shared=True))
            elif touched:
                is_shared = any(template.tensors[t.tensor].buffer is Buffer.GM for t in touched)
                own = self._new(number, template, at)
                found.append(Step(Act.TOUCH, at, row.pipe, accesses=own, is_shared=is_shared))
        return tuple(found)

    def _new(self, number: int, template: Template, at: int) -> tuple[int, ...]:
        row, before = template.rows[at], len(self.all)
        for t in template.touched[at]:
            ref = template.tensors[t.tensor]
            if ref.buffer is Buffer.GM or t.end <= t.first:
                continue
            base = self.places.of(ref)
            is_dst = t.role.startswith("dst")
            kinds = (False, True) if is_dst and row.op.reads_dst else (is_dst,)
            first, end, start = base + t.first, base + t.end, base + t.start
            for writes in kinds:
                one = Access(len(self.all), number, at, t.role, ref.name, row.pipe, start, first, end, writes)
                self.all.append(one)
        return tuple(range(before, len(self.all)))


class Accesses(TemplateAccesses):
    """Every access of a program's templates."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.places({}))
        self.program = program
        for template in program.templates:
            self.add(template, program.lines)
        self.crossed = len(self.all)
        self.all.append(Access(self.crossed, -1, -1, "", "", Pipe.S, FAR, FAR, -FAR, writes=False))

    def memory(self, access: Access) -> tuple[Buffer, int]:
        """The memory that an access lies in, and where that begins among all."""
        template = self.program.templates[access.template]
        operand = dict(self.row(access).operands).get(access.role)
        if operand is None:  # a vector function, which knows UB only
            return Buffer.UB, self.places.bases[Buffer.UB]
        place = template.tensors[operand.tensor].buffer
        return place, self.places.bases[place]
