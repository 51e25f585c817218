"""Values of some tiles only, for programs too long to be computed whole.

A sample is the output of some tiles, and every row that this output depends on: found backwards along the order in
which rows run, byte by byte, through the memories of each core and GM. What those rows leave is what a full run leaves;
everything else stays unwritten. Which bytes a template touches is found once, by running its instructions against a
context that only looks; what a template makes of the bytes still wanted on a core is remembered, so that a long program
is walked at the price of a look-up for each call. Calls that are needed are walked row by row, and rows that nothing
depends on left out: a sum that others add to, too, would else bring in all that these calls do beside it.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ascendsim.computed import Sample, Tile
from ascendsim.device import Device
from ascendsim.errors import InputError
from ascendsim.execute import Execution, execute
from ascendsim.isa.instruction import Row
from ascendsim.looker import Looker, Note
from ascendsim.memory import POISON, Bytes, GlobalTensor, Lanes
from ascendsim.program import Places, Program, Template
from ascendsim.progress import StageProgress
from ascendsim.terms import Buffer, HalfOverflow
from ascendsim.turns import Order, Parts, Stretch, Turns

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

HOW = ("first", "diagonal", "tail", "random")
"""Ways to choose tiles."""

MOST_RUNS = 1 << 20
"""Runs of bytes that are sorted at once."""


# ---- tiles ----------------------------------------------------------------------------------------------------------


class _Tiles:
    """Every tile of a program, sorted by function, core and number.

    A program without a tile that writes GM is taken as if each call that writes GM were a tile, numbered on its core.
    With `tensors` only calls count that write one of these GM tensors.
    """

    def __init__(self, program: Program, tensors: frozenset[int] | None = None) -> None:
        calls = program.calls
        names = sorted({t.name for t in program.templates})
        function = np.array([names.index(t.name) for t in program.templates], np.int64)
        is_root = _writing(program, tensors)
        numbers = calls["tile"]
        if not (is_root & (numbers >= 0)).any():
            numbers = _numbered(calls["core"], is_root)
        self._calls = np.flatnonzero(is_root & (numbers >= 0))
        columns = (function[calls["template"][self._calls]], calls["core"][self._calls], numbers[self._calls])
        shape = (len(names), program.core_count, int(numbers.max(initial=0)) + 1)
        table, self._tile = np.unique(np.ravel_multi_index(columns, shape), return_inverse=True)
        self._names = names
        self.function, self.core, self.number = np.unravel_index(table, shape)

    def __len__(self) -> int:
        return len(self.number)

    def calls_of(self, chosen: Ints, count: int) -> Flags:
        """Which of the program's `count` calls belong to these tiles and write GM."""
        is_chosen = np.zeros(len(self), np.bool_)
        is_chosen[chosen] = True
        roots = np.zeros(count, np.bool_)
        roots[self._calls[is_chosen[self._tile]]] = True
        return roots

    def of_calls(self, roots: Flags) -> tuple[Tile, ...]:
        """Tiles that these calls belong to."""
        found = np.unique(self._tile[roots[self._calls]])
        return tuple(sorted(Tile(int(self.core[i]), self._names[self.function[i]], int(self.number[i])) for i in found))

    def groups(self) -> Iterator[tuple[Ints, Ints]]:
        """For each function, by core that has tiles of it: the first of them, and the end."""
        for function in np.unique(self.function):
            first, end = np.searchsorted(self.function, (function, function + 1))
            cores = np.unique(self.core[first:end])
            yield tuple(first + np.searchsorted(self.core[first:end], cores, side) for side in ("left", "right"))


def _writing(program: Program, tensors: frozenset[int] | None) -> Flags:
    """Which calls write GM, or one of these GM tensors."""
    found = np.zeros(len(program.calls["core"]), np.bool_)
    is_meant = np.array([tensors is None or i in tensors for i in range(len(program.gm))], np.bool_)
    for number, template in enumerate(program.templates):
        here = program.calls_of_template[number]
        written = template.columns["dst_tensor"]
        for tensor in (template.tensors[t] for t in np.unique(written[written >= 0])):
            if tensor.buffer is Buffer.GM:
                found[here] |= is_meant[program.slot_tensor[program.calls["slot_start"][here] + tensor.slot]]
    return found


def _numbered(core: Ints, counted: Flags) -> Ints:
    """The how-many-th of its core each counted call is; -1 for the others."""
    numbers = np.full(len(core), -1, np.int64)
    for one in np.unique(core):
        here = np.flatnonzero(counted & (core == one))
        numbers[here] = np.arange(len(here))
    return numbers


def choose_tiles(
    program: Program,
    how: tuple[str, ...],
    seed: int = 0,
    count: int = 1,
    tensors: frozenset[int] | None = None,
) -> Flags:
    """Return which calls write the output of the chosen tiles, one flag for each call.

    Tiles of different functions are chosen separately, because their outputs differ.

    Args:
        program: the program.
        how: "first" and "tail": each core's first and last tile; "diagonal": on the c-th of C cores that have tiles
            tile number c * T // C of its T; "random": `count` of all tiles, or all if there are fewer.
        seed: of the random ones; the stream is MT19937, which NumPy has frozen.
        count: how many random ones.
        tensors: numbers of GM tensors: only tiles that write one of them are chosen among. None for all: also tiles
            that write what other tiles read.

    Raises:
        InputError: an unknown way to choose, or a count below 1.
    """
    unknown = [h for h in how if h not in HOW]
    if unknown:
        raise InputError(f"sample {unknown[0]!r}: must be among {', '.join(HOW)}")
    if "random" in how and count < 1:
        raise InputError(f"sample_tiles = {count}: must be at least 1")
    tiles = _Tiles(program, tensors)
    chosen = [np.zeros(0, np.int64)]
    for first, end in tiles.groups():
        diagonal = first + np.arange(len(first)) * (end - first) // len(first)
        ways = {"first": first, "tail": end - 1, "diagonal": diagonal}
        chosen += [ways[h] for h in how if h in ways]
    if "random" in how:
        chosen.append(np.random.RandomState(seed).permutation(len(tiles))[:count])
    return tiles.calls_of(np.concatenate(chosen), len(program.calls["core"]))


# ---- runs of bytes --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spans:
    """A set of bytes as runs [start, end), in order, with at least a byte between one and the next."""

    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, starts: Ints, ends: Ints) -> "Spans":
        """Return the bytes of any runs."""
        order = np.argsort(starts, kind="stable")
        order = order[ends[order] > starts[order]]
        starts, reach = starts[order], np.maximum.accumulate(ends[order])
        is_first = np.ones(len(starts), np.bool_)
        is_first[1:] = starts[1:] > reach[:-1]
        return cls(starts[is_first], reach[np.append(is_first[1:], True)[: len(reach)]])

    @classmethod
    def of_lanes(cls, at: Lanes, offset: int) -> "Spans":
        """Return the bytes of lanes that count from `offset`."""
        if at.table is None and at.strides[-1] == 1:
            starts = offset + Lanes(at.first, at.shape[:-1], at.strides[:-1]).offsets
            return cls.of(starts, starts + at.shape[-1])
        return cls.of(at.offsets + offset, at.offsets + offset + 1)

    @classmethod
    def of_flags(cls, flags: Flags) -> "Spans":
        """Return the bytes whose flag is set."""
        edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0))
        return cls(edges[0::2], edges[1::2])

    def __len__(self) -> int:
        return len(self.starts)

    def __or__(self, other: "Spans") -> "Spans":
        return Spans.of(np.concatenate((self.starts, other.starts)), np.concatenate((self.ends, other.ends)))

    def __sub__(self, other: "Spans") -> "Spans":
        edges = np.unique(np.concatenate((self.starts, self.ends, other.starts, other.ends)))
        kept = self._holds(edges[:-1]) & ~other._holds(edges[:-1])
        return Spans.of(edges[:-1][kept], edges[1:][kept])

    def _holds(self, at: Ints) -> Flags:
        held: Flags = np.searchsorted(self.starts, at, "right") > np.searchsorted(self.ends, at, "right")
        return held

    def shifted(self, by: int) -> "Spans":
        """Return the bytes `by` further on."""
        return Spans(self.starts + by, self.ends + by)

    def touched(self, starts: Ints, ends: Ints) -> Flags:
        """Which of these runs, none of them empty, share a byte with this set."""
        if not len(self):
            return np.zeros(len(starts), np.bool_)
        next_one = np.searchsorted(self.ends, starts, "right")
        found: Flags = (next_one < len(self)) & (self.starts[np.minimum(next_one, len(self) - 1)] < ends)
        return found

    def meets(self, other: "Spans") -> bool:
        """Whether the sets share a byte."""
        return bool(self.touched(other.starts, other.ends).any())


NOTHING = Spans(np.zeros(0, np.int64), np.zeros(0, np.int64))


# ---- what rows touch ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes that rows of a template touch. GM by slot, counted from the slot's base.

    The compare-mask register counts as one byte more, behind the last of UB.

    Attributes:
        ub_reads: read before these rows write them.
        ub_writes: written.
        takes_registers: whether they take the value of a scalar register, which rows before them in the call may set.
        sets_registers: whether they set one.
    """

    ub_reads: Spans
    ub_writes: Spans
    gm_reads: tuple[tuple[int, Spans], ...]
    gm_writes: tuple[tuple[int, Spans], ...]
    takes_registers: bool
    sets_registers: bool


def _footprint(template: Template, rows: list[Row], places: Places) -> Footprint:
    """What rows of a template touch, one after another."""
    length = places.length_bytes
    ub_read, ub_written = np.zeros(length + 1, np.bool_), np.zeros(length + 1, np.bool_)
    gm_read: dict[int, Spans] = {}
    gm_written: dict[int, Spans] = {}
    looker = Looker(template.tensors)
    for row in rows:
        looker.look(row)
    ub_read[length], ub_written[length] = looker.compare_mask.is_read_first, looker.compare_mask.is_set
    for note in looker.notes:
        tensor = template.tensors[note.operand.tensor]
        if tensor.buffer is not Buffer.GM:
            index = _index(note.at, places.of(tensor) + note.operand.offset_bytes)
            if note.writes:
                ub_written[index] = True
            else:
                ub_read[index] |= ~ub_written[index]
            continue
        spans, written = Spans.of_lanes(note.at, note.operand.offset_bytes), gm_written.get(tensor.slot, NOTHING)
        if note.writes:
            gm_written[tensor.slot] = written | spans
        else:
            gm_read[tensor.slot] = gm_read.get(tensor.slot, NOTHING) | (spans - written)
    return Footprint(
        Spans.of_flags(ub_read),
        Spans.of_flags(ub_written),
        tuple(gm_read.items()),
        tuple(gm_written.items()),
        looker.takes_registers,
        looker.sets_registers,
    )


def _index(at: Lanes, start: int) -> slice | Ints:
    """Byte indices of lanes, as a slice where they follow each other."""
    if at.strides == (1,):
        return slice(start + at.first, start + at.first + at.size)
    return at.offsets + start


class _Footprints:
    """What parts of templates touch."""

    def __init__(self, program: Program, parts: Parts) -> None:
        self._places = program.places({})
        self._templates = program.templates
        self._parts = parts
        self._known: list[Footprint] = []
        self.of_templates = [self[i] for i in range(len(program.templates))]

    def __getitem__(self, part: int) -> Footprint:
        while len(self._known) <= part:
            template, positions = self._parts[len(self._known)]
            rows = self._templates[template].rows
            with np.errstate(all="ignore"):
                self._known.append(_footprint(self._templates[template], [rows[p] for p in positions], self._places))
        return self._known[part]


# ---- which rows of a call an output needs ----------------------------------------------------------------------------


class _Place:
    """Lanes in the on-chip memories, as flags of bytes see them."""

    __slots__ = ("_at", "_start")

    def __init__(self, at: Lanes, start: int) -> None:
        self._at, self._start = at, start

    def of(self, flags: Flags) -> Flags:
        """Return the flags of the lanes, a view where they form a grid."""
        if self._at.table is not None:
            return flags[self._at.table + self._start]
        return np.ndarray(self._at.shape, np.bool_, flags.data, self._start + self._at.first, self._at.strides)

    def put(self, flags: Flags, value: Flags | bool) -> None:
        """Set the flags of the lanes."""
        if self._at.table is not None:
            flags[self._at.table + self._start] = value
        else:
            self.of(flags)[...] = np.reshape(value, self._at.shape) if isinstance(value, np.ndarray) else value


@dataclass(frozen=True, slots=True)
class _Touch:
    """What one row touches on chip, and of GM by slot, counted from the slot's base.

    As of a footprint, the compare-mask register counts as a byte behind the memories. What is moved is no read or
    write here: of that only what is wanted of the destination is wanted of the source.
    """

    moves: tuple[tuple[_Place, _Place], ...]
    reads: tuple[_Place, ...]
    writes: tuple[_Place, ...]
    gm_reads: tuple[tuple[int, Spans], ...]
    gm_writes: tuple[tuple[int, Spans], ...]
    takes_registers: bool
    sets_registers: bool


def _touch(template: Template, row: Row, places: Places) -> _Touch:
    looker = Looker(template.tensors)
    looker.look(row)
    moves = [pair for pair in looker.moves if all(_buffer(template, note) is not Buffer.GM for note in pair)]
    moved = {id(note) for pair in moves for note in pair}
    local: dict[bool, list[_Place]] = {False: [], True: []}
    gm: dict[bool, list[tuple[int, Spans]]] = {False: [], True: []}
    for note in looker.notes:
        if _buffer(template, note) is Buffer.GM:
            spans = Spans.of_lanes(note.at, note.operand.offset_bytes)
            gm[note.writes].append((template.tensors[note.operand.tensor].slot, spans))
        elif id(note) not in moved:
            local[note.writes].append(_place(template, note, places))
    register = _Place(Lanes.run(1), places.length_bytes)
    if looker.compare_mask.is_read_first:
        local[False].append(register)
    if looker.compare_mask.is_set:
        local[True].append(register)
    return _Touch(
        tuple((_place(template, src, places), _place(template, dst, places)) for src, dst in moves),
        tuple(local[False]),
        tuple(local[True]),
        tuple(gm[False]),
        tuple(gm[True]),
        looker.takes_registers,
        looker.sets_registers,
    )


def _buffer(template: Template, note: Note) -> Buffer:
    return template.tensors[note.operand.tensor].buffer


def _place(template: Template, note: Note, places: Places) -> _Place:
    return _Place(note.at, places.of(template.tensors[note.operand.tensor]) + note.operand.offset_bytes)


@dataclass(slots=True)
class _Wanted:
    """What is wanted at a moment: on-chip bytes of a core, bytes of GM as addresses, a scalar register of a call."""

    local: Flags
    gm: Spans
    register: bool

    def pass_row(self, touch: _Touch, bases: Sequence[int | None]) -> bool:
        """Go backwards over a row; whether it makes something that is wanted, so that it has to run."""
        is_wanted = self.register and touch.sets_registers
        for place in touch.writes:
            is_wanted = is_wanted or bool(place.of(self.local).any())
        for slot, spans in touch.gm_writes:
            base = bases[slot]
            is_wanted = is_wanted or (base is not None and self.gm.meets(spans.shifted(base)))
        for _, dst in touch.moves:
            is_wanted = is_wanted or bool(dst.of(self.local).any())
        if is_wanted:
            self._take(touch, bases)
        return is_wanted

    def _take(self, touch: _Touch, bases: Sequence[int | None]) -> None:
        """A row runs: what it makes is not wanted before it, and what it takes is."""
        self.register |= touch.takes_registers
        for place in touch.writes:
            place.put(self.local, value=False)
        for slot, spans in touch.gm_writes:
            base = bases[slot]
            if base is not None:
                self.gm -= spans.shifted(base)
        for src, dst in touch.moves:
            moved = dst.of(self.local).reshape(-1).copy()
            dst.put(self.local, value=False)
            src.put(self.local, src.of(self.local).reshape(-1) | moved)
        for place in touch.reads:
            place.put(self.local, value=True)
        for slot, spans in touch.gm_reads:
            base = bases[slot]
            if base is not None:
                self.gm |= spans.shifted(base)


class _Touches:
    """What the rows of templates touch."""

    def __init__(self, program: Program) -> None:
        self._templates = program.templates
        self._places = program.places({})
        self._known: dict[int, list[_Touch]] = {}

    def __getitem__(self, number: int) -> list[_Touch]:
        if number not in self._known:
            template = self._templates[number]
            with np.errstate(all="ignore"):
                self._known[number] = [_touch(template, row, self._places) for row in template.rows]
        return self._known[number]


# ---- which calls an output needs ------------------------------------------------------------------------------------


class _UbStates:
    """Sets of on-chip bytes still wanted, by number (0: none), and which parts write some of each."""

    def __init__(self, parts: _Footprints) -> None:
        self._parts = parts
        self._numbers: dict[bytes, int] = {b"": 0}
        self._states = [NOTHING]
        self._known: list[dict[int, bool]] = [{}]

    def writes_wanted(self, state: int, part: int) -> bool:
        """Whether a part writes something wanted."""
        known = self._known[state].get(part)
        if known is None:
            known = self._known[state][part] = self._states[state].meets(self._parts[part].ub_writes)
        return known

    def wanted(self, state: int) -> Spans:
        """Return the bytes of a state."""
        return self._states[state]

    def number(self, spans: Spans) -> int:
        """Return the state in which these bytes are wanted."""
        number = self._numbers.setdefault(spans.starts.tobytes() + spans.ends.tobytes(), len(self._states))
        if number == len(self._states):
            self._states.append(spans)
            self._known.append({})
        return number


class _States(dict[int, int]):
    """Sets of bytes still wanted on the cores on which there are any, by core."""

    def put(self, core: int, state: int) -> None:
        """Say what is wanted on a core."""
        if state:
            self[core] = state
        else:
            self.pop(core, None)


class Closure:
    """Every row that the final bytes of some calls' output depend on.

    Attributes:
        program: the program.
        roots: those calls.
        order: those rows.
        needed: calls of which any row is needed.
        output: the GM bytes that the roots write, as addresses.
    """

    def __init__(self, program: Program, roots: Flags) -> None:
        self.program = program
        self._turns = Turns(program)
        self.footprints = _Footprints(program, self._turns.parts)
        self._ub = _UbStates(self.footprints)
        self._touches = _Touches(program)
        self._length_bytes = program.places({}).length_bytes
        self.output = self.written_by(roots)
        self.roots = roots
        self._wanted = NOTHING
        self._wanted_runs: tuple[list[int], list[int]] = ([], [])
        self._written = self._tensors_written()
        self._may_matter = self._find_candidates()
        self._open: set[int] = set()
        """Calls whose registers are wanted."""
        self.needed = np.zeros(len(roots), np.bool_)
        self.order = Order(self._turns.parts, self._walk())

    def read_of(self, tensor: GlobalTensor) -> Flags:
        """Return which elements of a GM tensor those rows read, in the tensor's shape."""
        found = np.zeros(tensor.tensor_bytes, np.bool_)
        program = self.program
        for call, part in (
            (c, p) for s in self.order.stretches for c, p in zip(s.calls.tolist(), s.parts.tolist(), strict=True)
        ):
            first_slot = int(program.calls["slot_start"][call])
            template, positions = self._turns.parts[part]
            for slot, spans in (read for at in positions for read in self._touches[template][at].gm_reads):
                if program.slot_tensor[first_slot + slot] == tensor.index:
                    base = int(program.slot_base_bytes[first_slot + slot]) - tensor.base_bytes
                    for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True):
                        found[max(0, base + start) : max(0, base + end)] = True
        elements: Flags = np.any(found.reshape(*tensor.shape, tensor.dtype.bytes), axis=-1)
        return elements

    def written_by(self, calls: Flags, tensors: frozenset[int] | None = None) -> Spans:
        """Return the GM bytes that these calls write, as addresses; only those of some GM tensors, if given."""
        gathered = NOTHING
        for starts, ends in self._runs_written(calls, tensors):
            gathered |= Spans.of(starts, ends)
        return gathered

    def _runs_written(self, calls: Flags, tensors: frozenset[int] | None) -> Iterator[tuple[Ints, Ints]]:
        template, slot_start = self.program.calls["template"], self.program.calls["slot_start"]
        for number in np.unique(template[calls]):
            here = slot_start[calls & (template == number)]
            for slot, spans in self.footprints[int(number)].gm_writes:
                at = here + slot
                if tensors is not None:
                    at = at[np.isin(self.program.slot_tensor[at], list(tensors))]
                base, step = self.program.slot_base_bytes[at], max(1, MOST_RUNS // max(1, len(spans)))
                for i in range(0, len(base), step):
                    some = base[i : i + step, None]
                    yield (some + spans.starts).reshape(-1), (some + spans.ends).reshape(-1)

    def _tensors_written(self) -> frozenset[int]:
        """Numbers of the GM tensors that calls write."""
        found: set[int] = set()
        for number in range(len(self.program.templates)):
            for slot, _ in self.footprints[number].gm_writes:
                found |= set(np.unique(self.program.slot_tensor[self.program.slots_of(number, slot)]).tolist())
        return frozenset(found)

    def _find_candidates(self) -> Flags:
        """Which calls may write GM that is wanted by the output or a later call."""
        call, starts, ends = self._hulls([p.gm_writes for p in self.footprints.of_templates])
        read = self._hulls([p.gm_reads for p in self.footprints.of_templates])
        found = np.zeros(len(self.program.calls["core"]), np.bool_)
        found[call[(Spans.of(read[1], read[2]) | self.output).touched(starts, ends)]] = True
        return found

    def _hulls(self, touched: list[tuple[tuple[int, Spans], ...]]) -> tuple[Ints, Ints, Ints]:
        """For each call and slot: (call, lowest GM address, end) of what is touched through it."""
        found = [(np.zeros(0, np.int64),) * 3]
        for template, slots in enumerate(touched):
            here = self.program.calls_of_template[template]
            for slot, spans in slots:
                if len(spans):
                    base = self.program.slot_base_bytes[self.program.slots_of(template, slot)]
                    found.append((here, base + spans.starts[0], base + spans.ends[-1]))
        call, starts, ends = (np.concatenate(column) for column in zip(*found, strict=True))
        return call, starts, ends

    def _walk(self) -> list[Stretch]:
        """Go backwards over everything that runs; return what is needed of it, forwards."""
        self._want(self.output)
        kept: list[Stretch] = []
        if self.program.is_cross:
            stretches = list(self._turns.all())
            return [s for s in self._needed_of(stretches) if s.calls.size or s.is_end]
        for number in range(self.program.core_count - 1, -1, -1):
            kept += self._needed_of([self._turns.core(number)])
        return kept[::-1]

    def _needed_of(self, stretches: list[Stretch]) -> list[Stretch]:
        """What is needed of stretches, from the last to the first of all their cores' rows."""
        calls = np.concatenate([s.calls for s in stretches])
        parts = np.concatenate([s.parts for s in stretches])
        cores = np.repeat([s.core for s in stretches], [len(s.calls) for s in stretches])
        needed = np.zeros(len(calls), np.bool_)
        is_candidate = (self.roots | self._may_matter)[calls] | self._sets_register(parts)
        if is_candidate.any():
            for at, part in self._passed(cores, calls, parts, is_candidate):
                needed[at], parts[at] = True, part
        self.needed[calls[needed]] = True
        ends = np.cumsum([len(s.calls) for s in stretches])[:-1]
        split = zip(stretches, np.split(parts, ends), np.split(needed, ends), strict=True)
        return [replace(s, parts=own).only(chosen) for s, own, chosen in split]

    def _passed(self, cores: Ints, calls: Ints, parts: Ints, is_candidate: Flags) -> list[tuple[int, int]]:
        """Go backwards over rows and enter those that write what is wanted after them; return where, and which rows.

        Rows of a core on which nothing is wanted are looked at only if they are candidates.
        """
        core_list, call_list, part_list = cores.tolist(), calls.tolist(), parts.tolist()
        candidates, candidate_list = np.flatnonzero(is_candidate).tolist(), is_candidate.tolist()
        is_root = self.roots[calls].tolist()
        states, needed, at = _States(), list[tuple[int, int]](), len(call_list) - 1
        while at >= 0:
            if not states:
                place = bisect_right(candidates, at)
                if place == 0:
                    break
                at = candidates[place - 1]
            core = core_list[at]
            state = states.get(core, 0)
            if state or candidate_list[at]:
                call, part = call_list[at], part_list[at]
                if (
                    self._ub.writes_wanted(state, part)
                    or is_root[at]
                    or (candidate_list[at] and self._writes_wanted(call, part))
                    or self._sets_wanted(call, part)
                ):
                    own = self._written_by(call, part) if is_root[at] else NOTHING
                    before, narrow = self._narrow(state, self._wanted | own, call, part)
                    if narrow is not None:
                        needed.append((at, narrow))
                        states.put(core, before)
            at -= 1
        return needed

    def _written_by(self, call: int, part: int) -> Spans:
        """What a part of a call writes to GM, as addresses."""
        first = int(self.program.calls["slot_start"][call])
        found = NOTHING
        for slot, spans in self.footprints[part].gm_writes:
            found |= spans.shifted(int(self.program.slot_base_bytes[first + slot]))
        return found

    def _narrow(self, state: int, in_gm: Spans, call: int, part: int) -> tuple[int, int | None]:
        """Go backwards over the rows of a part of a call, behind which these bytes of GM are wanted.

        Returns:
            What is wanted on the core before it, and the number of the rows that have to run, None for none.
        """
        template, positions = self._turns.parts[part]
        wanted = _Wanted(np.zeros(self._length_bytes + 1, np.bool_), in_gm, call in self._open)
        spans = self._ub.wanted(state)
        for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True):
            wanted.local[start:end] = True
        touches, bases = self._touches[template], self._bases(call, template)
        left = tuple(position for position in reversed(positions) if wanted.pass_row(touches[position], bases))
        if not left:
            return state, None
        self._want(wanted.gm)
        if wanted.register:
            self._open.add(call)
        return self._ub.number(Spans.of_flags(wanted.local)), self._turns.parts.number(template, left[::-1])

    def _bases(self, call: int, template: int) -> list[int | None]:
        """Addresses of a call's slots; None for tensors that nobody writes."""
        first = int(self.program.calls["slot_start"][call])
        slots = range(first, first + self.program.templates[template].slots)
        written, tensors = self._written, self.program.slot_tensor
        return [int(self.program.slot_base_bytes[slot]) if tensors[slot] in written else None for slot in slots]

    def _sets_register(self, parts: Ints) -> Flags:
        """Whether parts set a register that other parts of their calls may take."""
        whole = len(self.program.templates)
        found, place = np.unique(parts, return_inverse=True)
        sets = [part >= whole and self.footprints[part].sets_registers for part in found.tolist()]
        return np.array(sets, np.bool_)[place.reshape(-1)]

    def _sets_wanted(self, call: int, part: int) -> bool:
        return call in self._open and self.footprints[part].sets_registers

    def _want(self, spans: Spans) -> None:
        self._wanted = spans
        self._wanted_runs = spans.starts.tolist(), spans.ends.tolist()

    def _writes_wanted(self, call: int, part: int) -> bool:
        return any(self._wanted.meets(spans) for spans in self._near(call, part))

    def _near(self, call: int, part: int) -> Iterator[Spans]:
        """What a call writes to GM, slot by slot, where its hull has something wanted in it."""
        starts, ends = self._wanted_runs
        first_slot = int(self.program.calls["slot_start"][call])
        for slot, spans in self.footprints[part].gm_writes:
            base = int(self.program.slot_base_bytes[first_slot + slot])
            next_one = bisect_right(ends, base + int(spans.starts[0])) if len(spans) else len(ends)
            if next_one < len(ends) and starts[next_one] < base + int(spans.ends[-1]):
                yield spans.shifted(base)


# ---- running a sample -----------------------------------------------------------------------------------------------


def execute_sample(
    program: Program,
    device: Device,
    gm: tuple[Bytes, ...],
    roots: Flags,
    *,
    overflow: HalfOverflow | None = None,
    log_core: int | None = None,
    progress: StageProgress | None = None,
) -> tuple[Execution, Sample]:
    """Compute the output of some tiles, in place in `gm`.

    Afterwards the bytes that those tiles write are as after a full run; every other byte that the program writes is
    poison and unwritten, whatever it held before.

    Args:
        program: the program.
        device: as for `execute`.
        gm: bytes of every GM tensor, in the program's order.
        roots: calls that write the output, from `choose_tiles`.
        overflow: half-overflow mode, None for the device's.
        log_core: keep the instruction log of this core, of the calls that run.
        progress: told how many cores are done.

    Raises:
        Deadlock: a core's pipes wait for flags that are never set.
    """
    closure = Closure(program, roots)
    return execute_closure(closure, device, gm, overflow=overflow, log_core=log_core, progress=progress)


def execute_closure(
    closure: Closure,
    device: Device,
    gm: tuple[Bytes, ...],
    *,
    overflow: HalfOverflow | None = None,
    log_core: int | None = None,
    progress: StageProgress | None = None,
) -> tuple[Execution, Sample]:
    """As `execute_sample`, for calls of which it has been found what they depend on."""
    program, roots = closure.program, closure.roots
    filled = frozenset(i for i, memory in enumerate(gm) if memory.written.any())
    execution = execute(
        program, device, gm, overflow=overflow, log_core=log_core, order=closure.order, progress=progress
    )
    everything = np.ones(len(roots), np.bool_)
    left = closure.written_by(closure.needed) | closure.written_by(everything, filled)
    _forget(program, gm, left - closure.output)
    tiles = _Tiles(program)
    return execution, Sample(tiles.of_calls(roots), len(tiles), int(closure.needed.sum()), len(roots))


def _forget(program: Program, gm: tuple[Bytes, ...], left: Spans) -> None:
    """Make GM bytes, given by address, poison and unwritten."""
    bases = np.array([g.base_bytes for g in program.gm], np.int64)
    for start, end in zip(left.starts.tolist(), left.ends.tolist(), strict=True):
        for i in range(int(np.searchsorted(bases, start, "right")) - 1, int(np.searchsorted(bases, end, "left"))):
            memory = gm[i]
            first, past = (min(max(0, address - int(bases[i])), len(memory.content)) for address in (start, end))
            memory.content[first:past] = POISON
            memory.written[first:past] = False
