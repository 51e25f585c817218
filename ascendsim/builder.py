"""What recording collects: templates, calls, queues, lines, steps, findings; in the end a Program."""

from array import array
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from operator import index

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import DType, dtype
from ascendsim.errors import Finding
from ascendsim.isa.instruction import Row, TensorRef
from ascendsim.memory import GlobalTensor
from ascendsim.program import Program, QueInfo, Template
from ascendsim.terms import Buffer, HardEvent, KernelType, MaskMode, TPosition
from ascendsim.tpipe import QueState


@dataclass(slots=True)
class Segment:
    """The rows of the template being recorded."""

    name: str
    is_tile: bool
    rows: list[Row] = field(default_factory=list)
    tensors: dict[TensorRef, int] = field(default_factory=dict)
    slots: list[tuple[int, int]] = field(default_factory=list)
    """(GM tensor index, base address) of each slot."""
    registers: int = 0
    serial: int = 0


RecorderState = tuple[
    MaskMode,
    int,
    int,
    int | None,
    DType | None,
    bool,
    tuple[tuple[HardEvent, tuple[int, ...]], ...],
    tuple[QueState, ...],
    tuple[str, ...],
]


@dataclass(frozen=True, slots=True)
class RecordedTile:
    """A tile's template, and the state that recording it left."""

    template: int
    exit_state: RecorderState
    exit_number: int
    """Number of that state, see `ProgramBuilder.number`."""


@dataclass(frozen=True, slots=True)
class SlotTensor(GlobalTensor):
    """A GM operand of a tile, relative to the base that each call supplies.

    A tile is recorded once for many bases, so it cannot ask where its operand lies or how much is left behind it;
    inside a tile `offset_bytes` counts from where the call's argument begins.
    """

    slot: int = -1

    @classmethod
    def of(cls, t: GlobalTensor, slot: int) -> "SlotTensor":
        """Return a tile's view of its argument: offsets count from the slot's base."""
        return cls(t.name, t.dtype, t.shape, t.index, 0, 0, t.cache_mode, slot)

    def __getitem__(self, offset: int) -> "SlotTensor":
        """Return the window that starts `offset` elements later."""
        return replace(self, offset_bytes=self.offset_bytes + index(offset) * self.dtype.bytes)

    def reinterpret_cast(self, element: DType | str) -> "SlotTensor":
        """Return the same bytes seen as another element type, in one row."""
        kind = dtype(element)
        return replace(self, dtype=kind, shape=(self.tensor_bytes // kind.bytes,))

    @property
    def count(self) -> int:
        """Not known inside a tile."""
        raise TileArgumentError(f"how much is left of GM tensor {self.name} (.count) differs from call to call")

    @property
    def address_bytes(self) -> int:
        """Not known inside a tile."""
        raise TileArgumentError(f"the address of GM tensor {self.name} differs from call to call")


class TileArgumentError(Exception):
    """A tile asked for what differs between its calls; the recorder turns this into a KernelError."""


class ProgramBuilder:
    """Collects templates and calls of all cores; equal templates are stored once."""

    def __init__(self, device: Device, block_dim: int, gm: tuple[GlobalTensor, ...], kernel_type: KernelType) -> None:
        self.device = device
        self.block_dim = block_dim
        self.kernel_type = kernel_type
        self.places = {p: place for p in TPosition if (place := device.buffer_of(p)) is not None}
        """The memory that plays each position."""
        self.gm = gm
        self.templates: list[Template] = []
        self.by_digest: dict[str, int] = {}
        self.tiles: dict[Hashable, RecordedTile] = {}
        self.ends_of_kernel: dict[Hashable, int | None] = {}
        """The template of what ends a core, None for one without rows."""
        self._numbers: dict[Hashable, int] = {}
        self._calls = array("q")
        self._slot_tensor = array("i")
        self._slot_base_bytes = array("q")
        self.lines: dict[str, int] = {}
        self.sources: dict[tuple[str, str], None] = {}
        self.steps: dict[str, int] = {"": 0}
        self.ques: dict[str, QueInfo] = {}
        self.findings: dict[tuple[str, str, str], Finding] = {}
        self.ends: dict[Buffer, int] = {}
        self.segments = 0
        self.noted = 0
        """Findings noted, each time counted."""

    def new_segment(self, name: str, *, is_tile: bool) -> Segment:
        """Return an empty template to record into, with a number of its own."""
        self.segments += 1
        return Segment(name, is_tile, serial=self.segments)

    def number(self, key: Hashable) -> int:
        """Return a number that equal keys share: quicker to compare than what they are made of."""
        return self._numbers.setdefault(key, len(self._numbers))

    def reaches(self, place: Buffer, end_bytes: int) -> None:
        """Note that an allocation in an on-chip memory ends there."""
        if place is not Buffer.GM:
            self.ends[place] = max(self.ends.get(place, 0), end_bytes)

    def line(self, text: str) -> int:
        """Return the number of a source line."""
        return self.lines.setdefault(text, len(self.lines))

    def source(self, text: str, file: str) -> None:
        """Remember which file a source line stands in. Not part of the program, which no path on a disk changes."""
        self.sources[text, file] = None

    def step(self, path: str) -> int:
        """Return the number of a marked step."""
        return self.steps.setdefault(path, len(self.steps))

    def que_index(self, name: str, position: TPosition) -> int:
        """Return the number of a queue; the same name is the same queue on every core."""
        self.ques.setdefault(name, QueInfo(name, position.value, 0, 0, 0))
        return list(self.ques).index(name)

    def note(self, finding: Finding) -> None:
        """Keep a finding; the same one at the same place is counted."""
        self.noted += 1
        key = (finding.code, finding.where, finding.message)
        known = self.findings.get(key)
        self.findings[key] = finding if known is None else replace(known, count=known.count + 1)

    def intern(self, segment: Segment) -> int:
        """Store a template unless an equal one is there, and return its number."""
        template = Template.of_rows(
            segment.name, segment.rows, tuple(segment.tensors), len(segment.slots), segment.registers
        )
        known = self.by_digest.setdefault(template.digest, len(self.templates))
        if known == len(self.templates):
            self.templates.append(template)
        return known

    @property
    def call_count(self) -> int:
        """Calls so far."""
        return len(self._calls) // 4

    @property
    def last_template(self) -> int:
        """The template of the last call."""
        return self._calls[-3]

    def log_call(self, core: int, template: int, tile: int, slots: list[tuple[int, int]]) -> None:
        """Append one call."""
        self._calls.extend((core, template, tile, len(self._slot_tensor)))
        if slots:
            tensors, bases_bytes = zip(*slots, strict=True)
            self._slot_tensor.extend(tensors)
            self._slot_base_bytes.extend(bases_bytes)

    def build(self) -> Program:
        """Return the program recorded so far."""
        columns = np.array(self._calls, np.int64).reshape(-1, 4)
        return Program(
            soc=self.device.name,
            block_dim=self.block_dim,
            kernel_type=self.kernel_type,
            templates=tuple(self.templates),
            calls={name: columns[:, i].copy() for i, name in enumerate(("core", "template", "tile", "slot_start"))},
            slot_tensor=np.array(self._slot_tensor, np.int32),
            slot_base_bytes=np.array(self._slot_base_bytes, np.int64),
            gm=self.gm,
            ques=tuple(self.ques.values()),
            lines=tuple(self.lines),
            steps=tuple(self.steps),
            high_water_bytes=dict(sorted(self.ends.items())),
        )
