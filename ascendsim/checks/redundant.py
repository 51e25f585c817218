"""A program without a flag or barrier that orders nothing, so that its cycles can be compared."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks.sites import sync_name
from ascendsim.isa.instruction import Row
from ascendsim.program import Program, Template

Flag = tuple[int, ...]


def without(program: Program, where: str, what: str) -> Program | None:
    """Return the program without the waits or barriers at one place, and without the sets that belong to the waits.

    Args:
        program: recorded.
        where: as a finding names the place, "PipeBarrier (kernel.py:31)".
        what: as it names the flag or barrier, "PipeBarrier<PIPE_V>": others may stand at the same line.

    Returns:
        None where a flag of these waits has others, too: then it is not known which set belongs to which.
    """
    chosen = [_chosen(program, template, where, what) for template in program.templates]
    flags = {row.params for rows in chosen for row in rows if row.op.name == "wait_flag"}
    calls = np.bincount(program.calls["template"], minlength=len(program.templates))
    if any(_balance(program, calls, flag, chosen) for flag in flags):
        return None
    templates = tuple(_kept(t, rows, flags) for t, rows in zip(program.templates, chosen, strict=True))
    return replace(program, templates=templates)


def _chosen(program: Program, template: Template, where: str, what: str) -> list[Row]:
    """Waits and barriers of a template at the place."""
    rows = (row for row in template.rows if row.op.name in ("wait_flag", "pipe_barrier"))
    here = (row for row in rows if f"{row.op.api} ({program.lines[row.line]})" == where)
    return [row for row in here if sync_name(row) == what]


def _balance(program: Program, calls: NDArray[Any], flag: Flag, chosen: list[list[Row]]) -> int:
    """Sets of a flag over all calls, less the chosen waits for it."""
    count = 0
    for template, rows, times in zip(program.templates, chosen, calls.tolist(), strict=True):
        sets = sum(row.op.name == "set_flag" and row.params == flag for row in template.rows)
        waits = sum(row.op.name == "wait_flag" and row.params == flag for row in rows)
        count += times * (sets - waits)
    return count


def _kept(template: Template, chosen: list[Row], flags: set[Flag]) -> Template:
    """A template without the chosen rows and without the sets of their flags."""
    gone = {id(row) for row in chosen}
    rows = [
        row for row in template.rows if id(row) not in gone and not (row.op.name == "set_flag" and row.params in flags)
    ]
    if len(rows) == len(template):
        return template
    return Template.of_rows(template.name, rows, template.tensors, template.slots, template.registers)
