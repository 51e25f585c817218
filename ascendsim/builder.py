"""What recording collects: templates, calls, queues, lines, steps, findings; in the end a Program."""

from array import array
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import index
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ascendsim.device import Device
from ascendsim.dtypes import DType, dtype
from ascendsim.errors import Finding
from ascendsim.isa.instruction import Row, TensorRef
from ascendsim.memory import GlobalTensor
from ascendsim.program import Program, QueInfo, RowForms, Template
from ascendsim.terms import Buffer, CoreKind, HardEvent, KernelType, MaskMode, Pipe, TPosition
from ascendsim.tpipe import QueState


@dataclass(slots=True)
class Segment:
    """The rows of the template being recorded."""

    name: str
    is_tile: bool
    rows: list[Row] = field(default_factory=list)
    tensors: dict[TensorRef, int] = field(default_factory=dict)
    places: list[Buffer] = field(default_factory=list)
    """The memory of each of them."""
    local_tensors: dict[Hashable, int] = field(default_factory=dict)
    """Those on chip by what tells them apart, quicker to look up."""
    slots: list[tuple[int, int]] = field(default_factory=list)
    """(GM tensor index, base address) of each slot."""
    parts: list[int] = field(default_factory=list)
    """Which argument of a process each slot belongs to, -1 for none; only of what is recorded outside of tiles."""
    registers: int = 0
    serial: int = 0


_MOST_SHARED = 4096
"""Tiles that programs share before the next begins anew."""
_MOST_NUMBERS = 1 << 17

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
class SharedTile:
    """A recorded tile as a later program takes it over: all that recording it left behind.

    Attributes:
        lines, steps: those that came with it, in their order.
        sources: files of its lines.
        ends: where what it uses of on-chip memories ends.
    """

    template: Template
    exit_state: RecorderState
    exit_number: int
    lines: tuple[str, ...]
    steps: tuple[str, ...]
    sources: tuple[tuple[str, str], ...]
    ends: tuple[tuple[Buffer, int], ...]


class SharedTiles:
    """Tiles that programs of one device share, recorded one after the other.

    Only for kernels that read nothing but their arguments, as the shipped ones do: another program's tile is taken
    over without running it.

    Args:
        device: what the programs are for.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.tiles: dict[Hashable, SharedTile] = {}
        self.numbers: dict[Hashable, int] = {}
        """As of `ProgramBuilder.number`: keys hold such numbers."""
        self.forms = RowForms()
        """Those of the rows of all programs."""
        self.templates: dict[Hashable, Template] = {}
        """Those of all programs, as of `ProgramBuilder.intern`."""

    @property
    def is_full(self) -> bool:
        """Whether it holds so much that the next program should begin another."""
        counts = (len(self.tiles), _MOST_SHARED), (len(self.numbers), _MOST_NUMBERS), (len(self.forms), _MOST_NUMBERS)
        return any(count > most for count, most in counts)


@dataclass(slots=True)
class Noted:
    """What a builder was told while it was watched.

    Attributes:
        is_shareable: whether that is all that depends on it: no findings, nobody asked for the block_dim.
    """

    lines: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    ends: tuple[tuple[Buffer, int], ...] = ()
    is_shareable: bool = False


@dataclass(frozen=True, slots=True)
class _MovedTensor(GlobalTensor):
    """A GM argument of what is recorded once for many addresses: where it lies and what is left behind it is not known.

    `offset_bytes` counts from where the call's argument begins.

    Attributes:
        argument: which GM argument it is.
    """

    argument: int = -1
    recorded: ClassVar[str]
    """What is recorded once, as a kernel writes it, and between what the addresses differ."""

    def __getitem__(self, offset: int) -> Self:
        """Return the window that starts `offset` elements later."""
        at = self.offset_bytes + index(offset) * self.dtype.bytes
        return type(self)(
            self.name, self.dtype, self.shape, self.index, self.base_bytes, at, self.cache_mode, self.argument
        )

    def reinterpret_cast(self, element: DType | str) -> Self:
        """Return the same bytes seen as another element type, in one row."""
        kind = dtype(element)
        return replace(self, dtype=kind, shape=(self.tensor_bytes // kind.bytes,))

    @property
    def count(self) -> int:
        """Not known."""
        raise TileArgumentError(f"how much is left of GM tensor {self.name} (.count)", self.recorded)

    @property
    def address_bytes(self) -> int:
        """Not known."""
        raise TileArgumentError(f"the address of GM tensor {self.name}", self.recorded)


@dataclass(frozen=True, slots=True)
class SlotTensor(_MovedTensor):
    """A GM operand of a tile, relative to the base that each call supplies."""

    recorded: ClassVar[str] = "differs from call to call; a @tile"

    @classmethod
    def of(cls, t: GlobalTensor, argument: int) -> Self:
        """Return a tile's view of an argument: offsets count from the slot's base."""
        return cls(t.name, t.dtype, t.shape, t.index, 0, 0, t.cache_mode, argument)


@dataclass(frozen=True, slots=True)
class PartTensor(_MovedTensor):
    """A GM argument of a process, based where it begins for the core that is recorded."""

    recorded: ClassVar[str] = "differs from core to core; a @process"

    @classmethod
    def of(cls, t: GlobalTensor, argument: int) -> Self:
        """Return a process' view of an argument: offsets count from where it begins."""
        return cls(t.name, t.dtype, t.shape, t.index, t.address_bytes, 0, t.cache_mode, argument)


class TileArgumentError(Exception):
    """A tile or process asked for what differs between its calls; the recorder turns this into a KernelError."""

    def __init__(self, asked: str, recorded: str) -> None:
        super().__init__(f"{asked} {recorded} is recorded once for all. Pass the number in as an argument")


@dataclass(frozen=True, slots=True)
class RecordedProcess:
    """What a core did from the call of a process to its end.

    Attributes:
        calls: core, template, tile and first slot of each call.
        slot_tensor: GM tensor of each slot.
        slot_base_bytes: GM address of each slot.
        parts: for each slot the GM argument that it belongs to, -1 where it lies at the same address for all cores.
        bases_bytes: where each GM argument began, and a 0 behind them.
        ques: what it declared.
    """

    calls: NDArray[np.int64]
    slot_tensor: bytes
    slot_base_bytes: NDArray[np.int64]
    parts: NDArray[np.int64]
    bases_bytes: NDArray[np.int64]
    ques: Mapping[str, QueInfo]


def _parts_of(device: Device, kind: CoreKind) -> tuple[frozenset[Pipe], frozenset[Buffer], frozenset[HardEvent]]:
    """Pipes, memories and flag pairs that a kind of core has."""
    core = device.core[kind.value]
    pipes, buffers = set(core.pipes.value), {"GM", *core.buffers.value}
    own_pipes, own_places = (p for p in Pipe if p.name in pipes), (b for b in Buffer if b.name in buffers)
    return frozenset(own_pipes), frozenset(own_places), device.events_of(kind)


class ProgramBuilder:
    """Collects templates and calls of all cores; equal templates are stored once.

    Args:
        device: what the program runs on.
        block_dim: blocks.
        gm: its GM tensors.
        kernel_type: which cores run it.
        shared: tiles of programs before it, None to record all.

    Raises:
        ValueError: `shared` is for another device.
    """

    def __init__(
        self,
        device: Device,
        block_dim: int,
        gm: tuple[GlobalTensor, ...],
        kernel_type: KernelType,
        shared: SharedTiles | None = None,
    ) -> None:
        if shared is not None and shared.device is not device:
            raise ValueError(f"tiles of {shared.device.name} are none of {device.name}")
        self.device = device
        self._shared = shared
        self._block_dim = block_dim
        self._asked = 0
        """How often somebody asked for the block_dim."""
        self.kernel_type = kernel_type
        self.places = {p: place for p in TPosition if (place := device.buffer_of(p)) is not None}
        """The memory that plays each position."""
        self.parts = {kind: _parts_of(device, kind) for kind in kernel_type.kinds}
        """Pipes, memories and flag pairs of each kind of core."""
        self.arguments: tuple[object, ...] = ()
        """What every core's kernel is given beside GM tensors."""
        self.argument_numbers: dict[int, tuple[object, int]] = {}
        """Those that are frozen, by identity, with the number of what rows can depend on; no queue is inside."""
        self.gm = gm
        self._given = (kernel_type, *((g.name, g.dtype.code, g.shape, g.index) for g in gm))
        self.templates: list[Template] = []
        self.by_digest: dict[str, int] = {}
        self.tiles: dict[Hashable, RecordedTile] = {}
        self.processes: dict[Hashable, RecordedProcess] = {}
        self.ends_of_kernel: dict[Hashable, int | None] = {}
        """The template of what ends a core, None for one without rows."""
        self._numbers: dict[Hashable, int] = {} if shared is None else shared.numbers
        self._forms = RowForms() if shared is None else shared.forms
        self._known_templates: dict[Hashable, Template] = {} if shared is None else shared.templates
        """By the forms of their rows, which say what tensors there are, and their lines and steps."""
        self._calls = array("q")
        self._slot_tensor = array("i")
        self._slot_base_bytes = array("q")
        self.lines: dict[str, int] = {}
        self.known_lines: dict[tuple[str, int], tuple[int, str]] = {}
        """By file and place in it: number and text of lines that rows name."""
        self.named_lines: dict[tuple[str, int], str] = {}
        """Those that rows have named, in the order in which they did."""
        self.sources: dict[tuple[str, str], None] = {}
        self.steps: dict[str, int] = {"": 0}
        self.ques: dict[str, QueInfo] = {}
        self.findings: dict[tuple[str, str, str], Finding] = {}
        self.ends: dict[Buffer, int] = {}
        self.segments = 0
        self.noted = 0
        """Findings noted, each time counted."""

    def asked_block_dim(self) -> int:
        """Return the block_dim to a kernel, and note that it asked."""
        self._asked += 1
        return self._block_dim

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
        rows, tensors = segment.rows, tuple(segment.tensors)
        forms = self._forms.of(rows, tensors)
        places = tuple([row.line for row in rows]), tuple([row.step for row in rows])
        key = (segment.name, len(segment.slots), segment.registers, forms, places)
        template = self._known_templates.get(key)
        if template is None:
            template = Template.of_rows(segment.name, rows, tensors, len(segment.slots), segment.registers, forms)
            self._known_templates[key] = template
        return self._intern(template)

    def _intern(self, template: Template) -> int:
        known = self.by_digest.setdefault(template.digest, len(self.templates))
        if known == len(self.templates):
            self.templates.append(template)
        return known

    # ---- tiles of programs before -------------------------------------------------------------------------------

    def shared_key(self, key: Hashable, ques: tuple[Hashable, ...]) -> Hashable:
        """Return all that a tile's record depends on, in any program of the device; None where none is shared.

        Args:
            key: what it depends on in this program.
            ques: identities of the core's queues and buffers.
        """
        if self._shared is None:
            return None
        return (key, ques, self._given, tuple(self.lines), tuple(self.steps), tuple(self.ques))

    def taken_over(self, key: Hashable) -> RecordedTile | None:
        """Return a tile that a program before has recorded, None if none has."""
        tile = None if self._shared is None else self._shared.tiles.get(key)
        if tile is None:
            return None
        for line in tile.lines:
            self.line(line)
        for step in tile.steps:
            self.step(step)
        self.sources |= dict.fromkeys(tile.sources)
        for place, end_bytes in tile.ends:
            self.reaches(place, end_bytes)
        return RecordedTile(self._intern(tile.template), tile.exit_state, tile.exit_number)

    @contextmanager
    def watched(self) -> Iterator[Noted]:
        """Say in the end what was noted inside."""
        noted, lines, steps, before = Noted(), len(self.lines), len(self.steps), (self.noted, self._asked)
        sources, ends, named = self.sources, self.ends, self.named_lines
        self.sources, self.ends, self.named_lines = {}, {}, {}
        try:
            yield noted
        finally:
            noted.lines, noted.steps = tuple(self.lines)[lines:], tuple(self.steps)[steps:]
            self.sources |= {(text, file): None for (file, _), text in self.named_lines.items()}
            noted.sources, noted.ends = tuple(self.sources), tuple(self.ends.items())
            noted.is_shareable = (self.noted, self._asked) == before
            self.sources, self.ends, self.named_lines = sources | self.sources, ends, named
            for place, end_bytes in noted.ends:
                self.reaches(place, end_bytes)

    def share(self, key: Hashable, tile: RecordedTile, noted: Noted) -> None:
        """Keep a tile for programs behind, if it would be the same in them."""
        if self._shared is not None and noted.is_shareable:
            self._shared.tiles[key] = SharedTile(
                self.templates[tile.template],
                tile.exit_state,
                tile.exit_number,
                noted.lines,
                noted.steps,
                noted.sources,
                noted.ends,
            )

    @property
    def last_template(self) -> int:
        """The template of the last call."""
        return self._calls[-3]

    def log_call(self, core: int, template: int, tile: int, slots: list[tuple[int, int]]) -> None:
        """Append one call."""
        self._calls.extend((core, template, tile, len(self._slot_tensor)))
        for tensor, base_bytes in slots:
            self._slot_tensor.append(tensor)
            self._slot_base_bytes.append(base_bytes)

    def process(
        self, first: tuple[int, int], parts: list[int], bases_bytes: list[int], ques: Mapping[str, QueInfo]
    ) -> RecordedProcess:
        """Return the calls from `first` on, as `position` gives it, to be repeated for other cores."""
        call, slot = first
        calls = np.array(self._calls[4 * call :], np.int64).reshape(-1, 4)
        calls[:, 3] -= slot
        return RecordedProcess(
            calls,
            self._slot_tensor[slot:].tobytes(),
            np.array(self._slot_base_bytes[slot:], np.int64),
            np.array(parts, np.int64),
            np.array([*bases_bytes, 0], np.int64),
            ques,
        )

    def repeat(self, core: int, known: RecordedProcess, bases_bytes: list[int]) -> None:
        """Append the calls of a process for another core, whose GM arguments begin at `bases_bytes`."""
        calls = known.calls.copy()
        calls[:, 0] = core
        calls[:, 3] += len(self._slot_tensor)
        moved = np.array([*bases_bytes, 0], np.int64) - known.bases_bytes
        self._calls.frombytes(calls.tobytes())
        self._slot_tensor.frombytes(known.slot_tensor)
        self._slot_base_bytes.frombytes((known.slot_base_bytes + moved[known.parts]).tobytes())
        self.ques |= known.ques

    @property
    def position(self) -> tuple[int, int]:
        """Calls and slots so far."""
        return len(self._calls) // 4, len(self._slot_tensor)

    def build(self) -> Program:
        """Return the program recorded so far."""
        columns = np.array(self._calls, np.int64).reshape(-1, 4)
        return Program(
            soc=self.device.name,
            block_dim=self._block_dim,
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
