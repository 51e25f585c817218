"""On-chip bytes over their life: read before anybody wrote them, overwritten before anybody read them, never used.

A template is run once for each set of written bytes in which it is entered, without data of meaning. A loop comes back
to the same set after a few turns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks.accesses import Accesses, Act, TemplateAccesses
from ascendsim.context import OF_UNWRITTEN, DryMachine
from ascendsim.device import Device
from ascendsim.errors import Finding, Rule
from ascendsim.isa.mmad import MMAD_INIT
from ascendsim.library import is_library
from ascendsim.memory import Bytes, distinct
from ascendsim.program import Program, Template
from ascendsim.terms import Buffer, Pipe, TPosition

Ints = NDArray[Any]

DEAD_STORE = Rule(
    "W-MEM-DEADSTORE",
    "what {api} wrote to {tensor}, {got} B from {place} byte {first} on, is overwritten by {other} before anybody "
    "reads it",
    "remove the first, or read it before",
    "asc-tools, npu-check ErrorWrite3",
    condition="All bytes that a row wrote are overwritten before any of them is read.",
)
UNUSED = Rule(
    "W-BUF-UNUSED",
    "{operand}: {got} B of {place} are given to it and no instruction touches them",
    "remove the buffer; a work buffer that an API demands may be as small as its page says",
    "public msSanitizer pages, memory check",
    condition="A queue or TBuf has memory and no row of the program touches it.",
)
MMAD_LOST = MMAD_INIT.saying(
    "{api} starts anew in {tensor} and overwrites the {got} B that {other} made before anybody reads them",
    "let only the first Mmad of a sum start from zero (cmatrix_init_val), or fetch the result before",
)
TURNS = 3
"""How often a template is followed: what a loop leaves unread shows when it is entered again."""


def check_lifetimes(program: Program, device: Device, accesses: Accesses) -> tuple[Finding, ...]:
    """Return what reads unwritten bytes, what is overwritten unread, and buffers without use; UB begins unwritten."""
    sequences, lives = sequences_of(program), Lives(accesses)
    is_written = all(lives.is_written(templates) for templates in sequences)
    unwritten = () if is_written else _unwritten(program, device, sequences)
    return (*unwritten, *_dead_stores(accesses, lives, sequences), *unused_buffers(program, device))


def sequences_of(program: Program) -> list[list[int]]:
    """Return the templates that cores call, each sequence once."""
    order = np.argsort(program.calls["core"], kind="stable")
    counts = np.bincount(program.calls["core"], minlength=program.core_count)
    found: dict[bytes, list[int]] = {}
    for templates in np.split(program.calls["template"][order], np.cumsum(counts)[:-1]):
        found.setdefault(templates.tobytes(), templates.tolist())
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Life:
    """What a template does to on-chip bytes. A set of bytes is a number with a bit for each.

    Attributes:
        reads: bytes that it reads before it writes them.
        writes: bytes that it writes.
        unread: for each of its stores that is not read inside, the bytes of it that are there at the end.
        loses: whether it overwrites a store of its own before anybody reads it.
        is_plain: whether its rows read only what must be written, and leave written what they write.
    """

    reads: int
    writes: int
    unread: tuple[int, ...]
    loses: bool
    is_plain: bool


class Lives:
    """What templates do to on-chip bytes, each looked at once, so that cores are quick to look at.

    Args:
        accesses: of the templates.
    """

    def __init__(self, accesses: TemplateAccesses) -> None:
        self._accesses = accesses
        self._known: dict[int, Life] = {}

    def of(self, template: int) -> Life:
        """Return what a template does."""
        known = self._known.get(template)
        if known is None:
            known = self._known[template] = self._find(template)
        return known

    def is_written(self, templates: list[int]) -> bool:
        """Whether every byte that templates read, one behind the other, was written, as far as plain rows show it."""
        written = 0
        for template in dict.fromkeys(templates):  # what is written stays so: a second call finds what the first did
            life = self.of(template)
            if not life.is_plain or life.reads & ~written:
                return False
            written |= life.writes
        return True

    def is_read(self, templates: tuple[int, ...]) -> bool:
        """Whether no store of templates, one behind the other, is overwritten before anybody reads it."""
        unread: list[int] = []
        for template in templates:
            life = self.of(template)
            left = [held & ~life.writes for held in unread if not held & life.reads]
            if life.loses or not all(left):
                return False
            unread = [*left, *life.unread]
        return True

    def _find(self, template: int) -> Life:
        a = self._accesses
        steps = [step for step in a.steps[template] if step.act is Act.TOUCH]
        numbers = [number for step in steps for number in step.accesses]
        stores = _Stores(a, max([0, *(a.all[number].end for number in numbers)]), len(numbers))
        for step in steps:
            stores.take(step.accesses)
        return Life(
            _number_of(stores.read_first),
            _number_of(stores.writer >= 0),
            tuple(_number_of(stores.writer == store) for store, left in enumerate(stores.left) if left > 0),
            any(not _is_of_library(a, pair) for pair in stores.dead),
            all(a.is_plain(template, step) for step in steps),
        )


def _number_of(marked: NDArray[np.bool_]) -> int:
    """A number with a bit for each byte."""
    return int.from_bytes(np.packbits(marked, bitorder="little").tobytes(), "little")


def _unwritten(program: Program, device: Device, sequences: list[list[int]]) -> tuple[Finding, ...]:
    dry = _Dry(program, device)
    for templates in sequences:
        state = dry.start
        for template in templates:
            state = dry.after(state, template)
    return tuple(dry.findings.values())


class _Dry:
    """Runs templates for their written bytes, each once for each set of bytes written before."""

    def __init__(self, program: Program, device: Device) -> None:
        places = program.places({Buffer.UB: device.ub_bytes})
        self._program = program
        self._machine = DryMachine(
            program, (), Bytes(places.length_bytes), places, device.arithmetic.half_overflow.value
        )
        self._states: list[NDArray[np.bool_]] = []
        self._numbers: dict[bytes, int] = {}
        self._known: dict[tuple[int, int], int] = {}
        self.findings: dict[tuple[str, str, str], Finding] = {}
        self.start = self._number(np.zeros(places.length_bytes, np.bool_))

    def after(self, state: int, template: int) -> int:
        """Return which bytes are written after a template."""
        key = (state, template)
        if key not in self._known:
            self._known[key] = self._run(*key)
        return self._known[key]

    def _run(self, state: int, template: int) -> int:
        machine = self._machine
        machine.local.written[:] = self._states[state]
        machine.epoch += 1
        machine.findings = {}
        machine.enter(machine.dry_frame(self._program.templates[template]))
        with np.errstate(all="ignore"):  # the data mean nothing
            for step in machine.prepare(template).work:
                step()
        for place, finding in machine.findings.items():
            if finding.code in OF_UNWRITTEN:
                self.findings.setdefault(place, finding)
        return self._number(machine.local.written)

    def _number(self, written: NDArray[np.bool_]) -> int:
        number = self._numbers.setdefault(np.packbits(written).tobytes(), len(self._states))
        if number == len(self._states):
            self._states.append(written.copy())
        return number


def _dead_stores(accesses: Accesses, lives: Lives, sequences: list[list[int]]) -> Iterator[Finding]:
    """Stores that nobody reads, but for those that a library call overwrites itself: its caller cannot remove them."""
    turns = dict.fromkeys(map(first_turns, sequences))
    pairs = (pair for templates in turns if not lives.is_read(templates) for pair in dead_pairs(accesses, templates))
    for pair in dict.fromkeys(pairs):
        yield _dead_store(accesses, *pair)


def first_turns(templates: list[int]) -> tuple[int, ...]:
    """Return the templates up to where one is called more often than is followed."""
    turns: dict[int, int] = {}
    for at, template in enumerate(templates):
        turns[template] = turns.get(template, 0) + 1
        if turns[template] > TURNS:
            return tuple(templates[:at])
    return tuple(templates)


def dead_pairs(accesses: TemplateAccesses, templates: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return stores that nobody reads, each with the one that overwrites it, but for those of library calls alone."""
    length_bytes = int(accesses.edges[1].max(initial=accesses.places.length_bytes))
    most = sum(len(step.accesses) for template in templates for step in accesses.steps[template])
    stores = _Stores(accesses, length_bytes, most)
    for template in templates:
        for step in accesses.steps[template]:
            if step.act is Act.TOUCH:
                stores.take(step.accesses)
    return [pair for pair in stores.dead if not _is_of_library(accesses, pair)]


def _is_of_library(accesses: TemplateAccesses, pair: tuple[int, int]) -> bool:
    """Whether a store and the one that overwrites it are both a library call's."""
    return all(is_library(accesses.line(accesses.all[number])) for number in pair)


def _dead_store(accesses: Accesses, first: int, second: int) -> Finding:
    one, other = accesses.all[first], accesses.all[second]
    api = accesses.row(one).op.api
    place, base = accesses.memory(one)
    if accesses.row(one).pipe is accesses.row(other).pipe is Pipe.M:
        where, got = f"{api} ({accesses.line(other)})", accesses.count(first)
        by = f"{api} ({accesses.line(one)})"
        texts = {"api": api, "tensor": one.tensor, "other": by}
        return MMAD_LOST.finding(where, operand="dst", got=got, wanted="a read before", fill=texts)
    fill: dict[str, object] = {
        "api": api,
        "tensor": one.tensor,
        "place": place.name,
        "first": one.first - base,
        "other": f"{accesses.row(other).op.api} ({accesses.line(other)})",
    }
    where = f"{api} ({accesses.line(one)})"
    return DEAD_STORE.finding(where, operand=one.role, got=accesses.count(first), wanted="a read", fill=fill)


class _Stores:
    """Who wrote each byte last, and whether it was read since."""

    def __init__(self, accesses: TemplateAccesses, length_bytes: int, most: int) -> None:
        """Begin with bytes that nobody has written, for so many stores at most."""
        self.dead: list[tuple[int, int]] = []
        """Stores that nobody has read, each with the one that overwrites it."""
        self.writer: Ints = np.full(length_bytes, -1, np.int16 if most < 1 << 15 else np.int32)
        """Which store of this walk, by number; -1 for none."""
        self.left: list[int] = []
        """Bytes of each store that nobody has overwritten; -1 for one that was read."""
        self.read_first = np.zeros(length_bytes, np.bool_)
        """Bytes that were read before any store."""
        self._accesses = accesses
        self._store: list[int] = []
        """Access of each store."""

    def take(self, numbers: tuple[int, ...]) -> None:
        """Follow one row: what it reads, then what it writes."""
        for number in numbers:
            if not self._accesses.all[number].writes:
                self._read(number)
        for number in numbers:
            if self._accesses.all[number].writes:
                self._write(number)

    def _read(self, number: int) -> None:
        at = self._accesses.bytes_of(number)
        stores = _distinct(self.writer[at])
        if -1 in stores:
            self.read_first[at] |= self.writer[at] < 0
        for store in stores:
            if store >= 0:
                self.left[store] = -1

    def _write(self, number: int) -> None:
        at = self._accesses.bytes_of(number)
        before = self.writer[at]
        for store in _distinct(before):
            if store >= 0 and self.left[store] > 0:
                self.left[store] -= int((before == store).sum())
                if self.left[store] == 0:
                    self.dead.append((self._store[store], number))
        self.writer[at] = len(self._store)
        self._store.append(number)
        self.left.append(self._accesses.count(number))


def _distinct(stores: Ints) -> list[int]:
    """The stores among these, -1 for none; most often it is one."""
    if len(stores) == 0:
        return []
    first = int(stores[0])
    return [first] if (stores == first).all() else distinct(stores).tolist()


def unused_buffers(program: Program, device: Device) -> Iterator[Finding]:
    """Yield W-BUF-UNUSED: queues and TBufs that no row touches."""
    used = {que for template in program.templates for que in _touched_ques(template)}
    for number, que in enumerate(program.ques):
        if que.num and number not in used:
            got = que.num * que.buffer_bytes
            place = device.buffer_of(TPosition(que.position)) or Buffer.UB
            fill = {"place": place.name}
            yield UNUSED.finding(f"InitBuffer of {que.name}", operand=que.name, got=got, wanted="a use", fill=fill)


def _touched_ques(template: Template) -> frozenset[int]:
    """Queues and TBufs that the rows of a template touch."""

    def find() -> frozenset[int]:
        return frozenset(template.tensors[t.tensor].que for row in template.touched for t in row)

    return template.kept("touched queues", None, find)
