"""The memories of the core that runs, as instructions see them: the Context.

Every byte starts as 0xFF and unwritten; arithmetic on unwritten bytes, and storing them to GM, is found. A template is
prepared once: its rows' addresses, lanes and views are the same for all calls and cores.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ascendsim.dtypes import UINT8, DType, pack, unpack
from ascendsim.errors import Finding, Rule
from ascendsim.isa.gather import BASE_ALIGN, BASE_RANGE
from ascendsim.isa.instruction import CompareMask, Operand, Row, Step, TensorRef
from ascendsim.isa.mmad import MMAD_INIT
from ascendsim.isa.mmad_arithmetic import accumulate
from ascendsim.isa.rules import OOB_LOCAL
from ascendsim.memory import POISON, Bytes, Lanes
from ascendsim.program import Places, Program, Template
from ascendsim.terms import CUBE_SIDE, Buffer, HalfOverflow, MmadOrder

Array = NDArray[Any]
Index = Array | EllipsisType

UNINIT = Rule(
    "W-MEM-UNINIT",
    "{api} {operand} reads {got} bytes of {tensor} that nobody wrote",
    "load or Duplicate the buffer first, or mask the tail",
    "asc-tools, npu-check ErrorRead2",
    condition="An instruction computes with bytes that nobody wrote, or copies them to GM.",
)
ND2NZ_ROWS = Rule(
    "W-ND2NZ-ROWS",
    "{api} {operand} multiplies {got} bytes of {tensor} that nobody wrote: rows behind the n_value of a copy ND2NZ "
    "stay as they are",
    "fill rows up to 16 with zeros, or multiply only those that were loaded",
    "asc-devkit docs, DataCopy ND2NZ page",
    condition="A Mmad reads rows of a tile that the copy from ND to NZ left unwritten, its n_value being no multiple "
    "of 16.",
)
ATOMIC_NOINIT = Rule(
    "W-ATOMIC-NOINIT",
    "{api} adds to {got} bytes of GM tensor {tensor} that nobody wrote",
    "zero the output before the first addition",
    "asc-devkit docs, SetAtomicAdd page",
    condition="A store adds to bytes of GM that nobody wrote before.",
)
MMAD_NAN = Rule(
    "W-MMAD-NAN",
    "{api} {operand}: {got} elements of {tensor} are NaN, which may end the kernel with an error",
    "keep NaN out of what is multiplied",
    "asc-devkit docs, Mmad page",
    condition="A factor of Mmad is NaN.",
)
OF_UNWRITTEN = (UNINIT.code, MMAD_INIT.code, ND2NZ_ROWS.code)
"""Codes of unwritten bytes on chip that an instruction computes with."""
INDEX_RANGE = BASE_RANGE.saying(
    "{api} {operand}: offset {got} B lies outside the {wanted} B of {tensor} behind the base",
    "keep offsets below the source's length in bytes",
    "asc-devkit docs, Gather page",
)
ALIGN_OFFSET = BASE_ALIGN.saying(
    "{api} {operand}: offset {got} B into {tensor} is no multiple of {wanted} B",
    "count offsets in bytes, in multiples of what is gathered at once",
    "asc-devkit docs, Gather and Gatherb pages",
)
OOB_PLACED = OOB_LOCAL.saying(
    "{api} {operand}: {got} B were selected, {tensor} has {wanted} B left",
    "enlarge the destination, or select fewer elements",
    "asc-tools, npu-check ErrorWrite2",
)


# ---- bytes of an operand ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Local:
    """The lanes of an operand in UB. Regular ones are a view (`index` is all of it), others are picked by index.

    Attributes:
        complete_since: the machine's epoch in which every byte was seen written; -1 for never.
    """

    content: Array
    written: Array
    index: Index
    byte_index: Index
    at: Array | None
    """Byte indices in UB, for the instruction log; None if there is none."""
    complete_since: int = -1

    def read(self) -> Array:
        """Elements, 1-D."""
        return self.content[self.index].reshape(-1)

    def put(self, values: Array) -> None:
        """Write elements."""
        self.content[self.index] = values.reshape(self.content.shape) if self.index is ... else values

    def flags(self) -> Array:
        """Which bytes were written, 1-D."""
        return self.written[self.byte_index].reshape(-1)

    def mark(self, flags: Array | bool) -> None:
        """Say which bytes are written now."""
        if isinstance(flags, np.ndarray) and self.byte_index is ...:
            flags = flags.reshape(self.written.shape)
        self.written[self.byte_index] = flags

    def span(self) -> Array:
        """Byte indices in UB."""
        assert self.at is not None
        return self.at


@dataclass(frozen=True, slots=True, eq=False)
class _OnChip:
    """The lanes of an operand on chip, on whichever core runs: each core that takes turns has memories of its own."""

    machine: "Machine"
    start_bytes: int
    at: Lanes
    element: DType
    is_grid: bool

    def find(self) -> _Local:
        """The lanes in the memories of the core that runs; of those on the same byte the last one stays."""
        memory, start, element = self.machine.local, self.start_bytes, self.element
        in_bytes = self.at.of_bytes(element.bytes)
        span = in_bytes.offsets + start if self.machine.keep_log or not self.is_grid else None
        if self.is_grid:
            content = _window(memory.content, start, self.at, element.numpy)
            return _Local(content, _window(memory.written, start, in_bytes, memory.written.dtype), ..., ..., span)
        assert span is not None
        first = start // element.bytes
        return _Local(memory.typed(element), memory.written, self.at.offsets + first, span, span)


@dataclass(slots=True, eq=False)
class _Global:
    """The lanes of an operand in GM, whose base each call supplies."""

    machine: "Machine"
    slot: int
    offset_bytes: int
    at: Lanes
    """In bytes from the operand's start."""
    element: np.dtype[Any]
    complete_since: int = -1

    def find(self) -> Self:
        """GM is the same on all cores."""
        return self

    def read(self) -> Array:
        """Elements, 1-D."""
        memory, start = self._place()
        return self._pick(memory.content, start).reshape(-1).view(self.element)

    def put(self, values: Array) -> None:
        """Write elements."""
        memory, start = self._place()
        self._set(memory.content, start, np.ascontiguousarray(values).view(np.uint8))

    def flags(self) -> Array:
        """Which bytes were written, 1-D."""
        memory, start = self._place()
        return self._pick(memory.written, start).reshape(-1)

    def mark(self, flags: Array | bool) -> None:
        """Say which bytes are written now."""
        memory, start = self._place()
        self._set(memory.written, start, flags)

    def span(self) -> Array:
        """Byte indices in the GM tensor."""
        return self.at.offsets + self._place()[1]

    def _place(self) -> tuple[Bytes, int]:
        memory, base = self.machine.slots[self.slot]
        return memory, base + self.offset_bytes

    def _pick(self, memory: Array, start: int) -> Array:
        if self.at.strides == (1,):
            first = start + self.at.first
            return memory[first : first + self.at.shape[0]]
        return _window(memory, start, self.at, memory.dtype) if self.at.table is None else memory[self.at.table + start]

    def _set(self, memory: Array, start: int, values: Array | bool) -> None:
        if self.at.table is None and not self.at.meets_itself:
            window = self._pick(memory, start)
            window[...] = values.reshape(window.shape) if isinstance(values, np.ndarray) else values
        else:  # of lanes on the same byte the last one stays
            memory[self.at.offsets + start] = values


class _Views(dict[_OnChip | _Global, _Local | _Global]):
    """Lanes as one core finds them, each found once."""

    def __missing__(self, area: _OnChip | _Global) -> _Local | _Global:
        found = area.find()
        self[area] = found
        return found


def _window(memory: Array, start: int, at: Lanes, element: np.dtype[Any]) -> Array:
    """Grid of lanes as a view of a memory of one-byte items; `start` in bytes, `at` in elements."""
    width = element.itemsize
    strides = tuple(s * width for s in at.strides)
    return np.ndarray(at.shape, element, memory.data, start + at.first * width, strides)


@dataclass(frozen=True, slots=True)
class Frame:
    """What belongs to one call: its slots and its registers."""

    slots: list[tuple[Bytes, int]]
    registers: list[Array]


@dataclass(slots=True)
class CoreState:
    """What a core has of its own, while another one runs.

    Attributes:
        views: lanes in its memories, as instructions found them.
    """

    local: Bytes
    compare_mask: Array = field(default_factory=lambda: np.zeros(0, np.uint8))
    epoch: int = 0
    views: _Views = field(default_factory=_Views)

    def restart(self) -> None:
        """Begin another core in the same memories, which nobody has written now."""
        self.local.reset()
        self.epoch += 1
        self.compare_mask = np.zeros(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Dumped:
    """What DumpTensor has shown.

    Attributes:
        offset_bytes: of the first byte, on chip in its memory, in GM in its tensor.
        content: bytes; fewer than asked for where a GM tensor ends.
        written: which of them somebody wrote.
    """

    row: Row
    tensor: TensorRef
    offset_bytes: int
    content: Array
    written: Array


# ---- one core's memories, as instructions see them ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepared:
    """A template ready to run.

    Attributes:
        steps: for each row its execution, None for one that touches no data.
        work: the executions there are, in order.
    """

    rows: tuple[Row, ...]
    steps: tuple[Step | None, ...]
    work: tuple[Step, ...]


@dataclass(slots=True)
class Machine:
    """The on-chip memories, GM, slots and registers of the core that runs; the Context that instructions see.

    Every template is prepared once: its rows' addresses, lanes and views are the same for all calls and cores.
    """

    program: Program
    gm: tuple[Bytes, ...]
    local: Bytes
    """The core's on-chip memories."""
    places: Places
    """Where in it they lie."""
    overflow: HalfOverflow
    mmad_order: MmadOrder = MmadOrder.STEP
    keep_log: bool = False
    slots: list[tuple[Bytes, int]] = field(default_factory=list)
    """Of the running call: the GM tensor's bytes, and where in them the slot begins."""
    registers: list[Array] = field(default_factory=list)
    """Of the running call."""
    findings: dict[tuple[str, str, str], Finding] = field(default_factory=dict)
    dumped: list[Dumped] = field(default_factory=list)
    """What DumpTensor has shown since somebody took it."""
    spans: list[Array] = field(default_factory=list)
    """Byte indices that the running row has written, with keep_log."""
    micro_written: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Of the running vector function, with keep_log: bytes and CRC of what each micro-operation has written."""
    epoch: int = 0
    """Counts the times that bytes may have become unwritten."""
    compare_mask: CompareMask = field(default_factory=lambda: CompareMask(np.zeros(0, np.uint8)))
    """Of the running core."""
    prepared: dict[int, Prepared] = field(default_factory=dict)
    views: _Views = field(default_factory=_Views)
    """Of the running core."""
    _areas: dict[tuple[object, ...], _OnChip] = field(default_factory=dict)
    _core: CoreState | None = None
    _template: Template | None = None
    _row: Row | None = None

    def go_on(self, core: CoreState) -> None:
        """Let a core run with what it has; nothing is copied."""
        self._core = core
        self.local, self.views, self.epoch = core.local, core.views, core.epoch
        self.compare_mask.content = core.compare_mask

    def set_aside(self) -> None:
        """Keep what the core has that ran."""
        assert self._core is not None
        self._core.compare_mask, self._core.epoch = self.compare_mask.content, self.epoch

    def enter(self, frame: "Frame") -> None:
        """Let the rows that follow belong to a call."""
        self.slots, self.registers = frame.slots, frame.registers

    def frame(self, template: int, slot_start: int) -> "Frame":
        """Return the slots and fresh registers of a call."""
        program = self.program
        slots = []
        for i in range(slot_start, slot_start + program.templates[template].slots):
            tensor = int(program.slot_tensor[i])
            slots.append((self.gm[tensor], int(program.slot_base_bytes[i]) - program.gm[tensor].base_bytes))
        return Frame(slots, [np.zeros((), np.uint8)] * program.templates[template].registers)

    def prepare(self, template: int) -> Prepared:
        """Return a template ready to run on these memories."""
        known = self.prepared.get(template)
        if known is None:
            self._template = self.program.templates[template]
            known = prepare_rows(self._template.rows, self._step)
            self.prepared[template] = known
        return known

    def _step(self, row: Row) -> Step | None:
        self._row = row
        return row.op.execute(self, row)

    # ---- Context ------------------------------------------------------------------------------------------------

    def distance(self, a: Operand, b: Operand) -> int | None:
        """Return the bytes from the start of `a` to the start of `b`; no instruction has two operands in GM."""
        first, second = self._tensor(a), self._tensor(b)
        if first.buffer is Buffer.GM or first.buffer is not second.buffer:
            return None
        return second.address_bytes + b.offset_bytes - first.address_bytes - a.offset_bytes

    def reader(self, operand: Operand, at: Lanes) -> Callable[[], Array]:
        """Return what gives elements of an operand, noting unwritten ones."""
        area, note = self._area(operand, at, operand.dtype), self._noter(operand)
        found = self._finder(operand) if self._is_factor(operand) else None

        def read() -> Array:
            here = self.views[area]
            if here.complete_since != self.epoch and not self._is_complete(here):
                note(here.flags())
            elif found is not None:
                _note_nan(here.read(), found)
            return here.read()

        return read

    def _is_factor(self, operand: Operand) -> bool:
        """Whether an operand of the row being prepared is a factor of floats of Mmad."""
        row = self._row
        is_mmad = row is not None and row.op.family == "Mmad" and operand in (row.src0, row.src1)
        return is_mmad and operand.dtype.numpy.kind not in "iu"

    def picker(self, operand: Operand, length_bytes: int, unit_bytes: int) -> Callable[[Array], Array]:
        """Return what gives the elements at byte offsets known only now, noting unwritten and bad ones."""
        width, units = operand.dtype.bytes, max(0, length_bytes // unit_bytes)
        each = unit_bytes // width
        area, note = self._area(operand, Lanes.run(units * each), operand.dtype), self._noter(operand)
        found = self._finder(operand)

        def pick(offsets: Array) -> Array:
            whole, inside = offsets % unit_bytes == 0, (offsets >= 0) & (offsets < units * unit_bytes)
            if not whole.all():
                found(ALIGN_OFFSET, int(offsets[~whole][0]), unit_bytes)
            if not inside.all():
                found(INDEX_RANGE, int(offsets[~inside][0]), units * unit_bytes)
            good = whole & inside
            at = offsets[good] // unit_bytes
            here = self.views[area]
            flags = here.flags().reshape(units, unit_bytes)[at]
            if not flags.all():
                note(flags)
            values = np.zeros((offsets.size, each), operand.dtype.numpy)
            values[good] = here.read().reshape(units, each)[at]
            return values.reshape(-1)

        return pick

    def placer(self, operand: Operand, length_bytes: int) -> Callable[[Array], None]:
        """Return what writes as many elements as there are values, noting those that do not fit."""
        width = operand.dtype.bytes
        room, found, tensor = max(0, length_bytes // width), self._finder(operand), self._tensor(operand)

        def place(values: Array) -> None:
            if values.size > room:
                found(OOB_PLACED, values.size * width, room * width)
            fits = min(values.size, room)
            area = self._area(operand, Lanes.run(fits), operand.dtype, written=True, tensor=tensor)
            here = self.views[area]
            here.put(values[:fits])
            self._complete(here)

        return place

    def writer(self, operand: Operand, at: Lanes) -> Callable[[Array], None]:
        """Return what writes elements of an operand."""
        area = self._area(operand, at, operand.dtype, written=True)

        def write(values: Array) -> None:
            here = self.views[area]
            here.put(values)
            self._complete(here)

        return write

    def mover(self, dst: Operand, dst_at: Lanes, src: Operand, src_at: Lanes) -> Step:
        """Return what moves bytes; unwritten ones stay unwritten, and are noted when they reach GM."""
        source_area = self._area(src, src_at, UINT8)
        target_area = self._area(dst, dst_at, UINT8, written=True)
        note = self._noter(src) if isinstance(target_area, _Global) else _silent

        def move() -> None:
            source, target = self.views[source_area], self.views[target_area]
            if source.complete_since == self.epoch or self._is_complete(source):
                target.put(source.read())
                self._complete(target)
                return
            flags = source.flags().copy()
            target.put(source.read())
            self._leave(target, flags)
            note(flags)

        return move

    def filler(self, dst: Operand, at: Lanes, value: Array | None) -> Step:
        """Return what writes raw bytes, or leaves them undefined."""
        area = self._area(dst, at, UINT8, written=True)
        content = np.full(at.size, POISON, np.uint8) if value is None else value

        def fill() -> None:
            here = self.views[area]
            here.put(content)
            if value is None:
                self._leave(here, flags=False)
            else:
                self._complete(here)

        return fill

    def disowner(self, dst: Operand, at: Lanes) -> Step:
        """Return what counts bytes as never written, whatever they hold."""
        area = self._area(dst, at, UINT8, written=True)

        def disown() -> None:
            self.views[area].mark(flags=False)
            self.epoch += 1

        return disown

    def loader(self, operand: Operand, at: Lanes) -> Callable[[], tuple[Array, Array | None]]:
        """Return what gives elements, and which of them are written; None where all are."""
        area, width = self._area(operand, at, operand.dtype), operand.dtype.bytes

        def load() -> tuple[Array, Array | None]:
            here = self.views[area]
            if here.complete_since == self.epoch or self._is_complete(here):
                return here.read(), None
            return here.read(), np.logical_and.reduce(here.flags().reshape(-1, width), axis=1)

        return load

    def dumper(self, operand: Operand, at: Lanes) -> Step:
        """Return what keeps bytes of an operand in `dumped`."""
        area, row, tensor = self._area(operand, at, UINT8), self._row, self._tensor(operand)
        assert row is not None
        start = operand.offset_bytes + tensor.address_bytes

        def dump() -> None:
            here = self.views[area]
            base = 0 if tensor.slot < 0 else self.slots[tensor.slot][1]
            self.dumped.append(Dumped(row, tensor, base + start, here.read().copy(), here.flags().copy()))

        return dump

    def tensor_bytes(self, operand: Operand) -> int:
        """Return the length of the operand's tensor."""
        return self._tensor(operand).tensor_bytes

    def storer(self, operand: Operand, at: Lanes) -> Callable[[Array, Array | None], None]:
        """Return what writes elements, and says which of them count as written; None for all."""
        area, width = self._area(operand, at, operand.dtype, written=True), operand.dtype.bytes

        def store(values: Array, flags: Array | None) -> None:
            here = self.views[area]
            here.put(values)
            if flags is None or flags.all():
                self._complete(here)
            else:
                self._leave(here, np.repeat(flags, width))

        return store

    @property
    def keeps_log(self) -> bool:
        """Whether micro-operations run one by one."""
        return self.keep_log

    def logged(self, number: int) -> None:
        """Keep what a micro-operation has written."""
        if self.spans:
            self.micro_written[number] = written_bytes(self.spans, self.local)
            self.spans.clear()

    def scalar(self, row: Row) -> Callable[[], Array]:
        """Return what gives the scalar of a row, in its dtype."""
        kind = row.scalar_dtype
        if row.register < 0:
            immediate = unpack(row.scalar_bits, kind)
            return lambda: immediate
        return lambda: unpack(self.scalar_bits(row), kind)

    def register(self, row: Row) -> Callable[[Array], None]:
        """Return what sets the register that a row names."""
        number = row.register

        def keep(value: Array) -> None:
            self.registers[number] = np.array(value)

        return keep

    def accumulate(self, a: Array, b: Array, c: Array, fractal_k: int) -> None:
        """Add the product of two matrices to a third."""
        accumulate(a, b, c, self.mmad_order, fractal_k)

    # ---- behind it ----------------------------------------------------------------------------------------------

    def scalar_bits(self, row: Row) -> int:
        """Return the bits of a row's scalar: its immediate, or what its register holds in the running call."""
        if row.register < 0:
            return row.scalar_bits
        value = self.registers[row.register]
        if row.op.takes_scalar and row.scalar_dtype.numpy != value.dtype:  # C++ converts the argument on the way in
            return pack(int(value) if value.dtype.kind in "iu" else float(value), row.scalar_dtype)
        return int(value.view(f"u{value.dtype.itemsize}"))

    def _tensor(self, operand: Operand) -> TensorRef:
        assert self._template is not None
        return self._template.tensors[operand.tensor]

    def _area(
        self, operand: Operand, at: Lanes, element: DType, *, written: bool = False, tensor: TensorRef | None = None
    ) -> _OnChip | _Global:
        """The lanes of an operand; `tensor` is known where no template is being prepared."""
        tensor = tensor or self._tensor(operand)
        width = element.bytes
        if tensor.buffer is Buffer.GM:
            return _Global(self, tensor.slot, operand.offset_bytes, at.of_bytes(width), element.numpy)
        is_grid = at.table is None and not (written and at.meets_itself)
        key = (self.places.of(tensor) + operand.offset_bytes, at, element.code, is_grid)
        known = self._areas.get(key)
        if known is None:
            known = _OnChip(self, key[0] // width * width, at, element, is_grid)
            self._areas[key] = known
        return known

    def _is_complete(self, area: _Local | _Global) -> bool:
        """Whether all bytes of an area are written; remembered as long as nothing becomes unwritten."""
        complete = bool(area.flags().all())
        if complete and isinstance(area, _Local):
            area.complete_since = self.epoch
        return complete

    def _complete(self, area: _Local | _Global) -> None:
        """Count an area as written."""
        if area.complete_since != self.epoch:
            area.mark(flags=True)
            if isinstance(area, _Local):
                area.complete_since = self.epoch
        if self.keep_log:
            self.spans.append(area.span())

    def _leave(self, area: _Local | _Global, flags: Array | bool) -> None:
        """Count bytes of an area as written or not."""
        area.mark(flags)
        self.epoch += 1
        if self.keep_log:
            self.spans.append(area.span())

    def _finder(self, operand: Operand) -> Callable[[Rule, int, int], None]:
        """Return what notes that the row being prepared breaks a rule with a value of the run; once for each rule."""
        row = self._row
        assert row is not None
        role = next(r for r, o in row.operands if o is operand)
        tensor = self._tensor(operand).name
        where = f"{row.op.api} ({self.program.lines[row.line]})"

        def found(rule: Rule, got: int, wanted: int) -> None:
            fill = {"api": row.op.api, "tensor": tensor}
            finding = rule.finding(where, operand=role, got=got, wanted=wanted, fill=fill)
            self.findings.setdefault((where, rule.code, role), finding)

        return found

    def _noter(self, operand: Operand) -> Callable[[Array], None]:
        """Return what notes that the row being prepared reads unwritten bytes of an operand, given their flags."""
        row = self._row
        assert row is not None
        role = next(r for r, o in row.operands if o is operand)
        tensor, buffer = self._tensor(operand).name, self._tensor(operand).buffer
        where = f"{row.op.api} ({self.program.lines[row.line]})"

        def note(flags: Array) -> None:
            if (where, role, tensor) not in self.findings:
                count = int((~flags).sum())
                fill = {"api": row.op.api, "tensor": tensor}
                rule = self._unwritten_rule(row, role, buffer, is_all=not flags.any())
                finding = rule.finding(where, operand=role, got=count, wanted=0, fill=fill)
                self.findings[where, role, tensor] = finding

        return note

    def _unwritten_rule(self, row: Row, role: str, buffer: Buffer, *, is_all: bool) -> Rule:
        """What it is called that a row reads unwritten bytes."""
        if role == "dst" and row.op.reads_dst:
            if row.op.family == "Mmad":
                return MMAD_INIT
            return ATOMIC_NOINIT if buffer is Buffer.GM else UNINIT
        is_factor = row.op.family == "Mmad" and role in ("src0", "src1")
        return ND2NZ_ROWS if is_factor and not is_all and self._has_short_tiles() else UNINIT

    def _has_short_tiles(self) -> bool:
        """Whether a copy from ND to NZ leaves rows of a fractal unwritten."""
        rows = (row for template in self.program.templates for row in template.rows)
        return any(row.op.name == "data_copy_nd2nz" and row.param("n_value") % CUBE_SIDE for row in rows)


@dataclass(slots=True, eq=False)
class _NoGlobal(_Global):
    """Lanes of a GM that nobody keeps: all written, all 0."""

    def read(self) -> Array:
        """Zeros."""
        return np.zeros(self.at.size, np.uint8).view(self.element)

    def put(self, values: Array) -> None:
        """Nothing."""

    def flags(self) -> Array:
        """All written."""
        return np.ones(self.at.size, np.bool_)

    def mark(self, flags: Array | bool) -> None:
        """Nothing."""


class DryMachine(Machine):
    """A core without GM and without data of meaning: it shows which bytes of UB are written when they are read."""

    def _area(
        self, operand: Operand, at: Lanes, element: DType, *, written: bool = False, tensor: TensorRef | None = None
    ) -> _OnChip | _Global:
        known = tensor or self._tensor(operand)
        if known.buffer is Buffer.GM:
            return _NoGlobal(self, known.slot, operand.offset_bytes, at.of_bytes(element.bytes), element.numpy)
        return super()._area(operand, at, element, written=written, tensor=tensor)

    def accumulate(self, a: Array, b: Array, c: Array, fractal_k: int) -> None:
        """Nothing is multiplied."""

    def dumper(self, operand: Operand, at: Lanes) -> Step:
        """Return what shows nothing."""
        del operand, at
        return _nothing

    def dry_frame(self, template: Template) -> Frame:
        """Return registers of 0 for a call, and no slots."""
        return Frame([], [np.zeros((), np.uint8)] * template.registers)


def _note_nan(values: Array, found: Callable[[Rule, int, int], None]) -> None:
    count = int(np.isnan(values).sum())
    if count:
        found(MMAD_NAN, count, 0)


def _nothing() -> None:
    """Nothing."""


def _silent(flags: Array) -> None:
    """Note nothing: moves inside UB carry unwritten bytes along."""
    del flags


def prepare_rows(rows: tuple[Row, ...], step: Callable[[Row], Step | None]) -> Prepared:
    """Return rows with their executions."""
    steps = tuple(step(row) for row in rows)
    work = tuple(s for s in steps if s is not None)
    return Prepared(rows, steps, work)


def written_bytes(spans: list[Array], memory: Bytes) -> tuple[str, str]:
    """How many bytes lie in these spans, each counted once, and the CRC-32 of what they hold."""
    distinct = np.unique(np.concatenate(spans))
    return str(distinct.size), f"{zlib.crc32(memory.content[distinct].tobytes()):08x}"
