"""Of which rows a run keeps what their operands held: few, and those that are looked at first.

They are chosen before values are computed, so that they are looked at meanwhile: rows that findings name, the longest
steps of the critical path, the first and last rows of the first core of each kind, and every instruction of each kernel
line where it runs first, which is where the page goes from a line, or from a finding that computing gives. Flags,
barriers and others that name no tensor are left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import numpy as np

from ascendsim.critical import Step
from ascendsim.errors import Finding
from ascendsim.isa.log import called
from ascendsim.places import named_lines
from ascendsim.program import Program

MOST_VALUES = 16
"""Elements of each operand."""
NAMED, LONGEST, FIRST, LAST, OF_LINES = 24, 16, 24, 8, 64
"""Rows of each sort at most; of first and last ones for each kind of core."""


def rows_to_look_at(program: Program, path: Sequence[Step], findings: Iterable[Finding]) -> tuple[int, ...]:
    """Return the numbers of the rows, ascending.

    Args:
        program: the program.
        path: its critical path.
        findings: what is known of it before it is computed.
    """
    firsts = dict(_firsts(program))
    longest = sorted(path, key=lambda step: (step.begin_cycles - step.end_cycles, step.begin_cycles))
    steps = dict.fromkeys(step.row for step in longest if step.row >= 0 and _has_operands(program, step.row))
    chosen = chain(
        islice(_named(program, firsts, findings), NAMED),
        islice(steps, LONGEST),
        *(islice(_of_core(program, core), FIRST) for core in _cores(program)),
        *(islice(_of_core(program, core, from_end=True), LAST) for core in _cores(program)),
        islice((row for row in firsts.values() if _has_operands(program, row)), OF_LINES),
    )
    return tuple(sorted(set(chosen)))


def _firsts(program: Program) -> Iterator[tuple[tuple[str, int], int]]:
    """Every instruction of each kernel line, and the first row of it."""
    templates, calls = np.unique(program.calls["template"], return_index=True)
    known = set()
    for call, template in sorted(zip(calls.tolist(), templates.tolist(), strict=True)):
        for position, row in enumerate(program.templates[template].rows):
            key = (called(row), row.line)
            if key not in known:
                known.add(key)
                yield key, int(program.first_rows[call]) + position


def _named(program: Program, firsts: dict[tuple[str, int], int], findings: Iterable[Finding]) -> Iterator[int]:
    """For each finding the first row of the instruction that it names, or else of its line."""
    for finding in findings:
        api, lines = finding.where.split(" (")[0], set(named_lines(finding, program.lines))
        of_line = [(key, row) for key, row in firsts.items() if key[1] in lines]
        rows = [row for key, row in of_line if key[0] == api] or [row for _, row in of_line]
        if rows and _has_operands(program, min(rows)):
            yield min(rows)


def _cores(program: Program) -> list[int]:
    """The first core of each kind."""
    kinds = [program.core_kind(core) for core in range(program.core_count)]
    return [kinds.index(kind) for kind in dict.fromkeys(kinds)]


def _of_core(program: Program, core: int, *, from_end: bool = False) -> Iterator[int]:
    """Rows of a core that name a tensor, in order, or from its last one back."""
    step = -1 if from_end else 1
    for call in np.flatnonzero(program.calls["core"] == core)[::step].tolist():
        rows = program.templates[int(program.calls["template"][call])].rows
        for position in range(len(rows))[::step]:
            if rows[position].operands:
                yield int(program.first_rows[call]) + position


def _has_operands(program: Program, number: int) -> bool:
    call = int(np.searchsorted(program.first_rows, number, side="right")) - 1
    template = program.templates[int(program.calls["template"][call])]
    return bool(template.rows[number - int(program.first_rows[call])].operands)
