"""In which order the rows of a program run: core by core, and cores that wait for each other in turns.

Only flags decide it, so it is known without values: those follow it, and what a sample needs is found along it
backwards. Each core runs until it waits for a cross-core flag that is not up, then the next goes on.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.cross import CrossFlag, CrossFlags
from ascendsim.errors import Deadlock
from ascendsim.isa.instruction import Row
from ascendsim.pipes import Cross, FlagOrder, FlagWalk, Item, Pipes, PipeState, cross_flag
from ascendsim.program import CROSS, Program, Template
from ascendsim.terms import Pipe

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a core runs until another goes on.

    Attributes:
        calls: of the program, in the order in which they run.
        parts: which rows of each, as `Parts` numbers them.
        is_end: whether the core is done.
    """

    core: int
    calls: Ints
    parts: Ints
    is_end: bool

    def only(self, chosen: NDArray[np.bool_]) -> "Stretch":
        """Return some of it."""
        return replace(self, calls=self.calls[chosen], parts=self.parts[chosen])


class Parts:
    """Rows of a template that run one after another; part i < T is all of template i of T."""

    def __init__(self, templates: tuple[Template, ...]) -> None:
        self._lengths = [len(t) for t in templates]
        self._parts = [(i, tuple(range(length))) for i, length in enumerate(self._lengths)]
        self._numbers = {part: i for i, part in enumerate(self._parts)}
        self._runs: dict[tuple[int, int, int], int] = {}

    def __getitem__(self, number: int) -> tuple[int, tuple[int, ...]]:
        """Return the template of a part, and which of its rows."""
        return self._parts[number]

    def __len__(self) -> int:
        return len(self._parts)

    def number(self, template: int, positions: tuple[int, ...]) -> int:
        """Return the number of these rows of a template."""
        number = self._numbers.setdefault((template, positions), len(self._parts))
        if number == len(self._parts):
            self._parts.append((template, positions))
        return number

    def run(self, template: int, start: int, end: int | None = None) -> int:
        """Return the number of neighbouring rows, up to the template's last without `end`."""
        end = self._lengths[template] if end is None else end
        if end - start == self._lengths[template]:
            return template
        key = (template, start, end)
        if key not in self._runs:
            self._runs[key] = self.number(template, tuple(range(start, end)))
        return self._runs[key]


@dataclass(frozen=True, slots=True)
class Order:
    """Rows in the order in which they run."""

    parts: Parts
    stretches: Iterable[Stretch]


class Turns:
    """The order in which a program's rows run.

    Its iterators raise Deadlock where rows are left that wait for flags nobody sets.
    """

    def __init__(self, program: Program) -> None:
        self.parts = Parts(program.templates)
        self._program = program
        self._flags = FlagWalk(program)
        self._held = _Held(program)
        self._waits_hold_all = all(
            row.pipe is Pipe.S for t in program.templates for row in t.rows if row.op.name == "cross_core_wait_flag"
        )
        """Whether nothing goes on behind a cross-core wait, so that rows can run in program order."""
        self._cross_rows = [
            [(at, cross_flag(row), row) for at, row in enumerate(t.rows) if row.op.name in CROSS]
            for t in program.templates
        ]

    def all(self) -> Iterator[Stretch]:
        """What the cores run, one stretch after another; the last of every core says so, even if it is empty."""
        if self._program.is_cross:
            yield from self._in_turns()
            return
        for number in range(self._program.core_count):
            yield self.core(number)

    def chosen(self, calls: NDArray[np.bool_]) -> Order:
        """Return the order of some calls: flags and waits of the others hold and wake as if they ran, too."""
        return Order(self.parts, (stretch.only(calls[stretch.calls]) for stretch in self.all()))

    def core(self, number: int) -> Stretch:
        """Return what one core of a program runs whose cores do not wait for each other."""
        calls, templates = self._calls(number)
        if self._flags.order(templates) is not FlagOrder.HELD:
            return Stretch(number, calls, templates.astype(np.int64), is_end=True)
        ran: list[int] = []
        parts: list[int] = []
        template_list = templates.tolist()
        for at, positions in self._held.runs(f"core {number}", template_list):
            ran.append(at)
            parts.append(self.parts.number(template_list[at], positions))
        return Stretch(number, calls[np.array(ran, np.int64)], np.array(parts, np.int64), is_end=True)

    def _calls(self, core: int) -> tuple[Ints, NDArray[Any]]:
        calls = np.flatnonzero(self._program.calls["core"] == core)
        return calls, self._program.calls["template"][calls]

    # ---- cores that wait for each other ------------------------------------------------------------------------

    def _in_turns(self) -> Iterator[Stretch]:
        flags = _CrossWaits(self._program)
        waiting = [self._begin(number, flags) for number in range(self._program.core_count)]
        while waiting:
            before, still = flags.moves, []
            for core in waiting:
                if core.go_on():
                    still.append(core)
                yield from core.ran()
            if still and len(still) == len(waiting) and flags.moves == before:
                raise Deadlock(flags.describe([core.number for core in still]))
            waiting = still

    def _begin(self, number: int, flags: "_CrossWaits") -> "_Core":
        calls, templates = self._calls(number)
        is_in_order = self._flags.order(templates) is not FlagOrder.HELD and self._waits_hold_all
        core = _Core(number, self.parts)
        run = self._in_order if is_in_order else self._through_pipes
        core.run = run(core, flags, list(zip(calls.tolist(), templates.tolist(), strict=True)))
        return core

    def _in_order(self, core: "_Core", flags: "_CrossWaits", calls: list[tuple[int, int]]) -> Iterator[None]:
        """All waits of a core's own flags find them, and cross-core waits hold all: rows run in program order."""
        for call, template in calls:
            start = 0
            for position, flag, row in self._cross_rows[template]:
                if row.op.name == "cross_core_set_flag":
                    flags.set(core.number, flag)
                    continue
                while not flags.take(core.number, flag, row):
                    if position > start:
                        core.add(call, self.parts.run(template, start, position))
                        start = position
                    yield
            core.add(call, self.parts.run(template, start))

    def _through_pipes(self, core: "_Core", flags: "_CrossWaits", calls: list[tuple[int, int]]) -> Iterator[None]:
        """Pipes go on while one waits."""
        cross = Cross(partial(flags.set_by, core.number), partial(flags.taken_by, core.number))
        name = self._program.core_name(core.number)
        templates = dict(calls)
        pipes = Pipes(name, self._program.lines, lambda item: core.add_row(item, templates[item.call]), cross)
        for call, template in calls:
            for position, row in enumerate(self._program.templates[template].rows):
                pipes.offer(Item(row, position, call))
            while pipes.waits_for_core and not pipes.takes_more:
                yield
                pipes.retry()
        while pipes.waits_for_core:
            yield
            pipes.retry()
        pipes.finish()


class _Core:
    """A core that takes turns, and what it has run since its turn began."""

    def __init__(self, number: int, parts: Parts) -> None:
        self.number = number
        self.run: Iterator[None] = iter(())
        self._parts = parts
        self._calls: list[int] = []
        self._ran: list[int] = []
        self._rows: list[int] = []
        """Rows of the last call that pipes ran, not yet a part."""
        self._of = (-1, -1)
        """Call and template of those rows."""
        self._is_end = False

    def go_on(self) -> bool:
        """Run until the core waits for another; whether it does, False at its end."""
        for _ in self.run:
            return True
        self._is_end = True
        return False

    def add(self, call: int, part: int) -> None:
        """Rows of a call ran."""
        self._calls.append(call)
        self._ran.append(part)

    def add_row(self, item: Item, template: int) -> None:
        """A row ran."""
        if self._of[0] != item.call:
            self._close()
            self._of = (item.call, template)
        self._rows.append(item.position)

    def ran(self) -> Iterator[Stretch]:
        """What ran since the last time; nothing if that is nothing, but for the core's end."""
        self._close()
        if self._calls or self._is_end:
            calls, parts = np.array(self._calls, np.int64), np.array(self._ran, np.int64)
            self._calls, self._ran = [], []
            yield Stretch(self.number, calls, parts, self._is_end)

    def _close(self) -> None:
        if self._rows:
            call, template = self._of
            self.add(call, self._parts.number(template, tuple(self._rows)))
        self._rows, self._of = [], (-1, -1)


class _CrossWaits:
    """Cross-core flags, and which wait holds which core."""

    def __init__(self, program: Program) -> None:
        self.moves = 0
        """Sets and waits done."""
        self._program = program
        self._cross = CrossFlags(program.kernel_type, program.block_dim)
        self._waits: dict[int, Row] = {}
        """By core: the wait that holds it."""

    def set(self, core: int, flag: CrossFlag) -> None:
        """A core sets a flag."""
        self._cross.set(core, flag)
        self.moves += 1

    def take(self, core: int, flag: CrossFlag, row: Row) -> bool:
        """Take the flag that a core waits for if it is up."""
        if not self._cross.is_up(core, flag):
            self._waits[core] = row
            return False
        self._cross.take(core, flag)
        self._waits.pop(core, None)
        self.moves += 1
        return True

    def set_by(self, core: int, row: Row) -> None:
        """A core sets the flag that a row names."""
        self.set(core, cross_flag(row))

    def taken_by(self, core: int, row: Row) -> bool:
        """Take the flag that a row names if it is up."""
        return self.take(core, cross_flag(row), row)

    def describe(self, cores: list[int]) -> str:
        """Return who waits for whom."""
        program = self._program
        lines = ["deadlock: every core that is left waits for another"]
        for core in cores:
            row = self._waits.get(core)
            if row is None:
                continue
            flag = cross_flag(row)
            missing = ", ".join(program.core_name(c) for c in self._cross.missing(core, flag)) or "no core"
            at = program.lines[row.line]
            lines.append(
                f"  {program.core_name(core)} waits at {at} for cross-core flag {flag.flag_id} of mode "
                f"{flag.mode.value}, which {missing} never sets"
            )
        return "\n".join(lines)


# ---- pipes that hold rows ------------------------------------------------------------------------------------------


Runs = tuple[tuple[int, tuple[int, ...]], ...]
"""Rows that run one after another: of which call, counted from the current one (0, -1, ..), and which of its rows."""
MOST_HELD = 4096
"""Rows in a state that is remembered. Behind a flag that is never set they would grow with the program."""


class _Held:
    """The order of rows on a core whose pipes hold some; what a template does to the pipes' state is found once."""

    def __init__(self, program: Program) -> None:
        self._templates = program.templates
        self._lines = program.lines
        self._numbers: dict[object, int] = {}
        self._states: list[PipeState] = []
        self._counts: list[int] = []
        """By state: rows held."""
        self._known: list[dict[int, tuple[Runs, int]]] = []
        self._number(PipeState())

    def runs(self, core: str, templates: list[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """(The how-many-th call, which of its rows), one after another.

        Raises:
            Deadlock: rows are left that wait for flags nobody sets.
        """
        state = 0
        for at, template in enumerate(templates):
            if self._counts[state] > MOST_HELD:
                yield from self._without_memory(core, state, at, templates)
                return
            known = self._known[state].get(template)
            if known is None:
                known = self._offer(state, template)
                self._known[state][template] = known
            ran, state = known
            for back, positions in ran:
                yield at + back, positions
        yield from self._without_memory(core, state, len(templates), templates)

    def _without_memory(
        self, core: str, state: int, first: int, templates: list[int]
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        """What runs from one call on, and at the end; nothing is remembered."""
        ran: list[tuple[int, tuple[int, ...]]] = []
        pipes = Pipes(core, self._lines, lambda item: ran.append((item.call, (item.position,))))
        start = self._states[state]
        held = tuple((pipe, tuple(replace(i, call=i.call + first) for i in line)) for pipe, line in start.held)
        pipes.go_on(PipeState(start.raised, held))
        for at in range(first, len(templates)):
            for position, row in enumerate(self._templates[templates[at]].rows):
                pipes.offer(Item(row, position, at))
            yield from ran
            ran.clear()
        pipes.finish()

    def _offer(self, state: int, template: int) -> tuple[Runs, int]:
        ran: list[tuple[int, list[int]]] = []

        def run(item: Item) -> None:
            if not ran or ran[-1][0] != item.call:
                ran.append((item.call, []))
            ran[-1][1].append(item.position)

        pipes = Pipes("", self._lines, run)
        pipes.go_on(self._states[state])
        for position, row in enumerate(self._templates[template].rows):
            pipes.offer(Item(row, position, 0))
        after = pipes.state
        held = tuple((pipe, tuple(replace(i, call=i.call - 1) for i in line)) for pipe, line in after.held)
        return tuple((back, tuple(positions)) for back, positions in ran), self._number(PipeState(after.raised, held))

    def _number(self, state: PipeState) -> int:
        held = tuple((pipe, tuple((i.call, id(i.row)) for i in line)) for pipe, line in state.held)
        number = self._numbers.setdefault((state.raised, held), len(self._states))
        if number == len(self._states):
            self._states.append(state)
            self._counts.append(sum(len(line) for _, line in held))
            self._known.append({})
        return number
