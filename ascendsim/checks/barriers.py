"""Advice on PipeBarrier<ALL>: which pipes really depend on each other across it, by the bytes they touch.

Before a barrier count the rows since the one before, behind it those up to the next. Where a template begins or ends in
between, all templates that any core runs just before or after it count, too. GM is compared by tensor only, so that
more is taken for dependent than is.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ascendsim.checks.sites import is_of_sync_all
from ascendsim.checks.sums import Notes, Words, holds_on, place_of
from ascendsim.device import Device
from ascendsim.errors import Finding, Rule
from ascendsim.isa.instruction import TABLE, Row
from ascendsim.library import is_library
from ascendsim.program import Program, Template
from ascendsim.terms import Buffer, Pipe

BARRIER_ALL = Rule(
    "W-SYNC-BARRIERALL",
    "PipeBarrier<ALL> stops every pipe ({count} times), but what stands around it depends on {got} only",
    "one flag pair",
    "asc-devkit docs, performance guide",
    condition="Of all that stands before and behind a barrier of all pipes, up to the barriers next to it, only one "
    "pipe's results or buffers are used by one other pipe (or by itself).",
)
RULES = (BARRIER_ALL,)


@dataclass(frozen=True, slots=True)
class _Access:
    """Bytes that a row reads or writes; of GM only which tensor of the kernel."""

    pipe: Pipe
    space: str
    first: int
    end: int
    writes: bool

    def conflicts(self, other: "_Access") -> bool:
        """Whether the order of both matters."""
        if not (self.writes or other.writes) or self.space != other.space:
            return False
        return self.first < other.end and other.first < self.end


Accesses = tuple[_Access, ...]


def barrier_advice(program: Program, device: Device) -> Iterator[Finding]:
    """W-SYNC-BARRIERALL of every barrier of all pipes in a kernel's own code."""
    if not holds_on(BARRIER_ALL, device):
        return
    if not any(_has_barrier(t) for t in program.templates):
        return
    of_sync_all = [{r.line for at, r in enumerate(t.rows) if is_of_sync_all(t.rows, at)} for t in program.templates]
    split = [_pieces(t) for t in program.templates]
    notes, around = Notes(), _Around(program, [pieces for pieces, _ in split])
    calls = np.bincount(program.calls["template"], minlength=len(program.templates)).tolist()
    for number, (_, barriers) in enumerate(split):
        for i, barrier in enumerate(barriers):
            if is_library(program.lines[barrier.line]) or barrier.line in of_sync_all[number]:
                continue
            before = around.reached(number, i, -1)
            behind = around.reached(number, i + 1, 1)
            found = _pairs(before, behind)
            if len(found) == 1:
                ((source, target),) = found
                _note(program, barrier, source, target, calls[number], notes)
    yield from notes.findings()


def _note(program: Program, barrier: Row, source: Pipe, target: Pipe, calls: int, notes: Notes) -> None:
    if source is target:
        got, hint = f"pipe {source.name}'s own order", f"PipeBarrier<{source.name}>"
    else:
        event = f"{source.name}_{target.name}"
        got, hint = f"{target.name} behind {source.name}", f"SetFlag and WaitFlag of {event}"
    notes.add(BARRIER_ALL, place_of(program, barrier), "pipe", calls, lambda: Words(got, "no ALL", hint))


def _has_barrier(template: Template) -> bool:
    """Whether a barrier of all pipes is among the rows, by their columns."""
    is_barrier = template.columns["op"] == TABLE["pipe_barrier"].opcode
    return bool((template.columns["params"][is_barrier, 0] == Pipe.ALL).any())


def _pieces(template: Template) -> tuple[list[Accesses], list[Row]]:
    """What a template's rows touch, cut at its barriers of all pipes; and these."""
    pieces: list[list[_Access]] = [[]]
    barriers = []
    for row in template.rows:
        if row.op.family == "barrier" and row.param("barrier_pipe") == Pipe.ALL:
            barriers.append(row)
            pieces.append([])
        else:
            pieces[-1] += _accesses(row, template)
    return [tuple(dict.fromkeys(piece)) for piece in pieces], barriers


def _accesses(row: Row, template: Template) -> Iterator[_Access]:
    operands = dict(row.operands)
    for role, first, end in row.touched:
        ref = template.tensors[operands[role].tensor]
        writes = role == "dst"
        if ref.buffer is Buffer.GM:
            yield _Access(row.pipe, f"GM {ref.name}", 0, 1, writes)
        elif end > first:
            at = ref.address_bytes + operands[role].offset_bytes
            yield _Access(row.pipe, ref.buffer.name, at + first, at + end, writes)


def _pairs(before: Accesses, behind: Accesses) -> set[tuple[Pipe, Pipe]]:
    """Pairs (pipe, pipe that has to wait for it); stops at the second, since one is asked for."""
    found: set[tuple[Pipe, Pipe]] = set()
    for late in behind:
        for early in before:
            if (early.pipe, late.pipe) not in found and early.conflicts(late):
                found.add((early.pipe, late.pipe))
                if len(found) > 1:
                    return found
    return found


class _Around:
    """What can stand before and behind a place of a template, through the templates that cores run next to it."""

    def __init__(self, program: Program, pieces: list[list[Accesses]]) -> None:
        self._pieces = pieces
        self._next: dict[tuple[int, int], set[int]] = defaultdict(set)
        order = np.argsort(program.calls["core"], kind="stable")
        template, core = program.calls["template"][order], program.calls["core"][order]
        beside = np.flatnonzero(core[1:] == core[:-1])
        couples = np.unique(np.stack([template[beside], template[beside + 1]]), axis=1) if beside.size else None
        for first, second in [] if couples is None else couples.T.tolist():
            self._next[first, 1].add(second)
            self._next[second, -1].add(first)

    def reached(self, template: int, piece: int, way: int) -> Accesses:
        """Everything from a piece on, forwards (1) or backwards (-1), up to the next barrier of all pipes."""
        pieces = self._pieces[template]
        found = list(pieces[piece])
        edge = len(pieces) - 1 if way == 1 else 0
        waiting, seen = list(self._next[template, way]) if piece == edge else [], set[int]()
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            near = self._pieces[number]
            found += near[0] if way == 1 else near[-1]
            if len(near) == 1:
                waiting += self._next[number, way]
        return tuple(dict.fromkeys(found))
