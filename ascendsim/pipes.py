"""The pipes of one core while values are computed, and what its flags do.

Whether flags pair is checked before (`checks.hazards`). Rows are taken in program order; a row whose pipe is held by a
flag that nobody has set yet stays behind on its pipe and runs when the flag comes, so waits that precede their set in
program order work.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from numpy.typing import NDArray

from ascendsim.cross import CrossFlag
from ascendsim.errors import Deadlock
from ascendsim.isa.instruction import Row
from ascendsim.program import Program
from ascendsim.terms import CrossMode, HardEvent, Pipe

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Item:
    """A row on its way through the pipes: which one of its template, of which call."""

    row: Row
    position: int
    call: int


@dataclass(frozen=True, slots=True)
class Cross:
    """Flags of other cores: what a set does, and what takes the flag that a row waits for if it is up."""

    set: Callable[[Row], None]
    take: Callable[[Row], bool]


def cross_flag(row: Row) -> CrossFlag:
    """Return the cross-core flag that a row sets or waits for."""
    return CrossFlag(CrossMode(row.param("mode")), row.param("flag_id"))


@dataclass(frozen=True, slots=True)
class PipeState:
    """Flags that are raised, and rows that pipes hold."""

    raised: frozenset[tuple[int, ...]] = frozenset()
    held: tuple[tuple[Pipe, tuple[Item, ...]], ...] = ()


class Pipes:
    """The pipes of one core. A row whose pipe is held by a flag that nobody has set yet stays behind on its pipe.

    `core` is what messages call it.
    """

    def __init__(
        self, core: str, lines: tuple[str, ...], run: Callable[[Item], None], cross: "Cross | None" = None
    ) -> None:
        self._core = core
        self._lines = lines
        self._run = run
        self._cross = cross
        self._flags: set[tuple[int, ...]] = set()
        self._held: dict[Pipe, deque[Item]] = {}

    @property
    def state(self) -> PipeState:
        """Everything that later rows depend on."""
        return PipeState(frozenset(self._flags), tuple((p, tuple(line)) for p, line in self._held.items() if line))

    def go_on(self, state: PipeState) -> None:
        """Start from what other rows left."""
        self._flags = set(state.raised)
        self._held = {pipe: deque(line) for pipe, line in state.held}

    def offer(self, item: Item) -> None:
        """Run a row now, or leave it behind on its pipe. A held scalar unit holds everything that follows."""
        line = self._held.get(Pipe.S) or self._held.get(item.row.pipe)
        if line:
            line.append(item)
        elif self._blocked(item):
            self._held[item.row.pipe] = deque([item])
        else:
            self._execute(item)

    @property
    def waits_for_core(self) -> bool:
        """Whether a pipe is held by the flag of another core."""
        return any(line and line[0].row.op.name == "cross_core_wait_flag" for line in self._held.values())

    @property
    def takes_more(self) -> bool:
        """Whether the scalar unit goes on, so that rows offered may run."""
        return not self._held.get(Pipe.S)

    def retry(self) -> None:
        """Run what cross-core flags held, as far as they are up now."""
        for pipe in [p for p, line in self._held.items() if line and line[0].row.op.name == "cross_core_wait_flag"]:
            self._wake(pipe)
        self._wake(Pipe.S)  # a barrier of all pipes may have waited for those

    def finish(self) -> None:
        """All rows were offered.

        Raises:
            Deadlock: rows are left that wait for flags nobody sets.
        """
        if any(self._held.values()):
            raise Deadlock(self._describe_deadlock())

    def _blocked(self, item: Item) -> bool:
        row = item.row
        if row.op.name == "wait_flag":
            return row.params not in self._flags
        if row.op.name == "cross_core_wait_flag":
            return self._cross is not None and not self._cross.take(row)
        others = (line for pipe, line in self._held.items() if pipe is not Pipe.S)
        return _waits_for_all(row) and any(others)

    def _execute(self, item: Item) -> None:
        row = item.row
        if row.op.name == "set_flag":
            self._flags.add(row.params)
        elif row.op.name == "wait_flag":
            self._flags.remove(row.params)
        elif row.op.name == "cross_core_set_flag" and self._cross is not None:
            self._cross.set(row)
        self._run(item)
        if row.op.name == "set_flag":
            self._wake(HardEvent(row.param("event")).dst)

    def _wake(self, pipe: Pipe) -> None:
        """Run what this pipe held, as far as it now goes."""
        line = self._held.get(pipe)
        while line:
            if line[0].row.pipe is not pipe:  # behind what held the scalar unit, and to be dispatched only now
                rest = list(line)
                line.clear()
                for item in rest:
                    self.offer(item)
                return
            if self._blocked(line[0]):
                return
            self._execute(line.popleft())

    def _describe_deadlock(self) -> str:
        lines = [f"deadlock on {self._core}: no pipe can move"]
        for pipe, waiting in self._held.items():
            if waiting:
                row = waiting[0].row
                event = HardEvent(row.param("event")).name if row.op.name == "wait_flag" else "PIPE_ALL"
                at = self._lines[row.line]
                setter = HardEvent[event].src.name if row.op.name == "wait_flag" else "every pipe"
                if row.op.name == "dump_tensor":
                    lines.append(f"  {pipe.name} waits at {at} for all pipes, as DumpTensor does before it copies")
                    continue
                lines.append(f"  {pipe.name} waits at {at} for {event} id {row.params[-1]}, which {setter} never sets")
        return "\n".join(lines)


def _waits_for_all(row: Row) -> bool:
    """Whether a row holds the scalar unit until no pipe holds a row: barriers of all pipes, and DumpTensor with its."""
    return row.op.name == "dump_tensor" or (row.op.name == "pipe_barrier" and row.pipe is Pipe.S)


class FlagOrder(Enum):
    """What the flags of one core do if its rows run in program order."""

    PAIRED = "every wait finds its flag, and every flag is waited for once"
    FOUND = "no wait is ever in vain, but a flag is set twice or never waited for"
    HELD = "a wait comes before its set"


class FlagWalk:
    """Looks at the flags of one core after another; what a template does to a set of raised flags is found once."""

    def __init__(self, program: Program) -> None:
        self._templates = program.templates
        self._states: dict[frozenset[tuple[int, ...]], int] = {frozenset(): 0}
        self._after: list[dict[int, int]] = [{}]
        """By state and template: twice the state afterwards, plus 1 if a flag was set twice; -1 where a wait holds."""
        self._orders: dict[bytes, FlagOrder] = {}

    def order(self, templates: Array) -> FlagOrder:
        """Return what the flags of a core do that calls these templates."""
        key = templates.tobytes()
        known = self._orders.get(key)
        if known is None:
            known = self._walk(templates)
            self._orders[key] = known
        return known

    def _walk(self, templates: Array) -> FlagOrder:
        state = found = 0
        for template in templates.tolist():
            after = self._after[state].get(template)
            if after is None:
                after = self._step(state, template)
            if after < 0:
                return FlagOrder.HELD
            state, found = after >> 1, found | after & 1
        return FlagOrder.FOUND if found or state else FlagOrder.PAIRED

    def _step(self, state: int, template: int) -> int:
        flags = set(list(self._states)[state])
        after, found = 0, 0
        for row in self._templates[template].rows:
            if row.op.name == "set_flag":
                found |= row.params in flags
                flags.add(row.params)
            elif row.op.name == "wait_flag" and row.params in flags:
                flags.remove(row.params)
            elif row.op.name == "wait_flag":
                after = -1
                break
        if after == 0:
            number = self._states.setdefault(frozenset(flags), len(self._states))
            if number == len(self._after):
                self._after.append({})
            after = 2 * number + found
        self._after[state][template] = after
        return after
