"""Call sequences about whose order and lives of bytes there is nothing to say, known over many programs.

Programs of a search call the same templates in other numbers. What `order` and `lifetimes` have walked for one program
they need not walk again for the next. Kept is only that there was nothing to find: a program of which that is not
known is looked at by the rules themselves. Vector kernels only, that use UB and set no flags between cores.
"""

from collections.abc import Hashable

from ascendsim.checks.accesses import TemplateAccesses
from ascendsim.checks.gm import GmAccesses
from ascendsim.checks.lifetimes import Lives, dead_pairs, first_turns, sequences_of
from ascendsim.checks.order import Order
from ascendsim.device import Device
from ascendsim.library import is_library
from ascendsim.program import CROSS, Places, Program, Template
from ascendsim.terms import Buffer, Pipe

_PIPES = (Pipe.S, *sorted((Pipe.V, Pipe.MTE2, Pipe.MTE3)))
_PLACES = {Buffer.GM, Buffer.UB}
_MOST_TEMPLATES = 512
"""Templates that are remembered before the next program begins anew."""


class Quiet:
    """What is known of the templates of programs for one device.

    Args:
        device: the device.
    """

    def __init__(self, device: Device) -> None:
        self._ub_bytes = device.ub_bytes
        self._accesses = TemplateAccesses(Places({Buffer.UB: 0}, device.ub_bytes))
        hardware = {Pipe.V} if device.has("vector_ordered") else set()
        self._order = Order(self._accesses, ordered_pipes=frozenset({Pipe.S} | hardware), pipes=_PIPES)
        self._lives = Lives(self._accesses)
        self._numbers: dict[Hashable, int] = {}
        self._far: set[int] = set()
        """Templates that reach beyond UB."""
        self._quiet_turns: set[tuple[int, int]] = set()
        """(state, template) from which nothing was found."""
        self._quiet_stores: set[tuple[int, ...]] = set()
        """Sequences whose stores are all read but for some of the library's own."""

    @property
    def is_full(self) -> bool:
        """Whether it holds so much that the next program should begin another."""
        return len(self._numbers) > _MOST_TEMPLATES

    def is_quiet(self, program: Program) -> bool:
        """Whether order and lifetimes certainly find nothing; rows that are wrong by themselves must not be there."""
        if not all(map(_is_plain, program.templates)):
            return False
        numbers = [self._number(template, program.lines) for template in program.templates]
        if not self._far.isdisjoint(numbers):
            return False
        sequences = [[numbers[template] for template in templates] for templates in sequences_of(program)]
        if not all(self._is_in_order(templates) and self._is_used(templates) for templates in sequences):
            return False
        gm = GmAccesses(program)
        return gm.is_apart() or not any(len(meets) for _, _, meets in gm.meetings())

    def _number(self, template: Template, lines: tuple[str, ...]) -> int:
        key = (template.digest, lines)
        number = self._numbers.get(key)
        if number is None:
            first = len(self._accesses.all)
            number = self._numbers[key] = self._accesses.add(template, lines)
            new = self._accesses.all[first:]
            if any(a.first < 0 or a.end > self._ub_bytes for a in new):
                self._far.add(number)
        return number

    def _is_in_order(self, templates: list[int]) -> bool:
        """Whether rows of a core that meet are in order, and flags pair and are of use."""
        states, end = self._order.walk(templates)
        if not all(self._is_quiet_turn(turn) for turn in set(zip(states, templates, strict=True))):
            return False
        state = self._order.states[end]
        return not state.pending and not state.held

    def _is_quiet_turn(self, turn: tuple[int, int]) -> bool:
        if turn in self._quiet_turns:
            return True
        outcome = self._order.outcome(*turn)
        if outcome.clashes or outcome.doubled or any(self._is_kernels(*site) for site in outcome.idle):
            return False
        self._quiet_turns.add(turn)
        return True

    def _is_kernels(self, template: int, at: int) -> bool:
        """Whether a wait or barrier is the kernel's own: not a queue's, and not of a library call."""
        row = self._accesses.templates[template].rows[at]
        return row.que < 0 and not is_library(self._accesses.lines[template][row.line])

    def _is_used(self, templates: list[int]) -> bool:
        """Whether all that is read was written, and all that is written is read."""
        if not self._lives.is_written(templates):
            return False
        turns = first_turns(templates)
        if not self._lives.is_read(turns) and turns not in self._quiet_stores:
            if dead_pairs(self._accesses, turns):
                return False
            self._quiet_stores.add(turns)
        return True


def _is_plain(template: Template) -> bool:
    """Whether a template uses vector pipes and UB only, and no flags between cores."""

    def find() -> bool:
        pipes = {row.pipe for row in template.rows}
        places = {tensor.buffer for tensor in template.tensors}
        return pipes <= set(_PIPES) and places <= _PLACES and template.op_names.isdisjoint(CROSS)

    return template.kept("is plain", None, find)
