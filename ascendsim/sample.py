"""Values of some tiles only, for programs too long to be computed whole.

A sample is the output of some tiles, and every row that this output depends on: found backwards along the order in
which rows run, byte by byte, through the memories of each core and GM. What those rows leave is what a full run leaves;
everything else stays unwritten. Which bytes a template touches is found once, by running its instructions against a
context that only looks; what a template makes of the bytes still wanted on a core is remembered, so that a long program
is walked at the price of a look-up for each call.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendsim.computed import Sample, Tile
from ascendsim.device import Device
from ascendsim.errors import InputError
from ascendsim.execute import Execution, execute
from ascendsim.isa.instruction import Row
from ascendsim.looker import Looker
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
        here = np.flatnonzero(program.calls["template"] == number)
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
        if at.strides == (1,):
            first = np.array([offset + at.first], np.int64)
            return cls.of(first, first + at.size)
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


# ---- which calls an output needs ------------------------------------------------------------------------------------


class _UbStates:
    """Sets of UB bytes still wanted, by number (0: none), and what going backwards over a part makes of each."""

    def __init__(self, parts: _Footprints) -> None:
        self._parts = parts
        self._numbers: dict[bytes, int] = {b"": 0}
        self._states = [NOTHING]
        self._known: list[dict[int, tuple[bool, int]]] = [{}]

    def before(self, state: int, part: int) -> tuple[bool, int]:
        """Return whether a part writes something wanted, and what is wanted before it if it runs."""
        known = self._known[state].get(part)
        if known is None:
            wanted, touched = self._states[state], self._parts[part]
            known = (wanted.meets(touched.ub_writes), self._number((wanted - touched.ub_writes) | touched.ub_reads))
            self._known[state][part] = known
        return known

    def _number(self, spans: Spans) -> int:
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
        self.output = self.written_by(roots)
        self.roots = roots
        self._wanted = NOTHING
        self._wanted_runs: tuple[list[int], list[int]] = ([], [])
        self._may_matter, self._reads_matter = self._meetings()
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
            for slot, spans in self.footprints[part].gm_reads:
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

    def _meetings(self) -> tuple[Flags, Flags]:
        """(Calls whose writes to GM may be wanted by the output or a later call, calls whose reads of GM may be so)."""
        written = self._hulls([p.gm_writes for p in self.footprints.of_templates])
        read = self._hulls([p.gm_reads for p in self.footprints.of_templates])
        wanted = Spans.of(read[1], read[2]) | self.output
        ever_written = Spans.of(written[1], written[2])
        count = len(self.program.calls["core"])
        matter = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        for flags, spans, (call, starts, ends) in zip(matter, (wanted, ever_written), (written, read), strict=True):
            flags[call[spans.touched(starts, ends)]] = True
        return matter

    def _hulls(self, touched: list[tuple[tuple[int, Spans], ...]]) -> tuple[Ints, Ints, Ints]:
        """For each call and slot: (call, lowest GM address, end) of what is touched through it."""
        calls = self.program.calls
        found = [(np.zeros(0, np.int64),) * 3]
        for template, slots in enumerate(touched):
            here = np.flatnonzero(calls["template"] == template) if slots else np.zeros(0, np.int64)
            for slot, spans in slots:
                if len(spans):
                    base = self.program.slot_base_bytes[calls["slot_start"][here] + slot]
                    found.append((here, base + spans.starts[0], base + spans.ends[-1]))
        call, starts, ends = (np.concatenate(column) for column in zip(*found, strict=True))
        return call, starts, ends

    def _walk(self) -> list[Stretch]:
        """Go backwards over everything that runs; return what is needed of it, forwards."""
        self._want(self.output)
        kept: list[Stretch] = []
        if self.program.is_cross:
            stretches = list(self._turns.all())
            needed = self._needed_of(stretches)
            ends = np.cumsum([len(s.calls) for s in stretches])[:-1]
            kept = [s.only(chosen) for s, chosen in zip(stretches, np.split(needed, ends), strict=True)]
            return [s for s in kept if s.calls.size or s.is_end]
        for number in range(self.program.core_count - 1, -1, -1):
            stretch = self._turns.core(number)
            kept.append(stretch.only(self._needed_of([stretch])))
        return kept[::-1]

    def _needed_of(self, stretches: list[Stretch]) -> Flags:
        """Which rows of stretches are needed, from the last to the first of all their cores' rows."""
        calls = np.concatenate([s.calls for s in stretches])
        parts = np.concatenate([s.parts for s in stretches])
        cores = np.repeat([s.core for s in stretches], [len(s.calls) for s in stretches])
        needed = np.zeros(len(calls), np.bool_)
        is_candidate = (self.roots | self._may_matter)[calls] | self._sets_register()[parts]
        if is_candidate.any():
            needed[self._passed(cores, calls, parts, is_candidate)] = True
        self.needed[calls[needed]] = True
        return needed

    def _passed(self, cores: Ints, calls: Ints, parts: Ints, is_candidate: Flags) -> list[int]:
        """Go backwards over rows and enter those that write what is wanted after them; return which these are.

        Rows of a core on which nothing is wanted are looked at only if they are candidates.
        """
        core_list, call_list, part_list = cores.tolist(), calls.tolist(), parts.tolist()
        candidates, candidate_list = np.flatnonzero(is_candidate).tolist(), is_candidate.tolist()
        is_root = self.roots[calls].tolist()
        states, needed, at = _States(), list[int](), len(call_list) - 1
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
                is_wanted, before = self._ub.before(state, part)
                if (
                    is_wanted
                    or is_root[at]
                    or (candidate_list[at] and self._writes_wanted(call, part))
                    or self._sets_wanted(call, part)
                ):
                    needed.append(at)
                    states.put(core, before)
                    self._pass_gm(call, part)
                    self._pass_registers(call, part)
            at -= 1
        return needed

    def _sets_register(self) -> Flags:
        """By part: whether it sets a register that another part of its call may take."""
        whole = len(self.program.templates)
        count = len(self._turns.parts)
        return np.array([part >= whole and self.footprints[part].sets_registers for part in range(count)], np.bool_)

    def _sets_wanted(self, call: int, part: int) -> bool:
        return call in self._open and self.footprints[part].sets_registers

    def _pass_registers(self, call: int, part: int) -> None:
        """A call in parts: what sets registers that later rows take."""
        if self.footprints[part].takes_registers:
            self._open.add(call)

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

    def _pass_gm(self, call: int, part: int) -> None:
        """What is wanted of GM before a call that runs."""
        for spans in list(self._near(call, part)):
            self._want(self._wanted - spans)
        if self._reads_matter[call]:
            first_slot = int(self.program.calls["slot_start"][call])
            for slot, spans in self.footprints[part].gm_reads:
                self._want(self._wanted | spans.shifted(int(self.program.slot_base_bytes[first_slot + slot])))


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
