"""What a run would take if one of its pipes were free: the same program, scheduled once more without that pipe's work.

Free means that instructions, transfers and barriers of the pipe take no cycles and move no bytes over a link; flags and
the order of rows stay, and so does what the transfers leave in L2. The scalar unit is free if neither its own rows nor
dispatching take any. The makespan of such a run is what no better instruction on that pipe can go below, as long as the
rest stays as it is.

A figure can be below 0: who shares a link comes together at other times, and that can cost more than was saved.
"""

from dataclasses import dataclass, replace

import numpy as np

from ascendsim.analysis import template_kinds
from ascendsim.device import Device
from ascendsim.engine import compiled
from ascendsim.engine.base import Ints, Kind, ScheduleInput, TemplateSchedule
from ascendsim.program import Program
from ascendsim.schedule_input import schedule_input
from ascendsim.terms import CoreKind, Pipe

_DURATIONS = (
    *("startup", "startup_warm", "startup_hit", "startup_warm_hit", "occupancy", "drain", "bytes", "bytes_hit"),
    *("unit_step", "unit_lead"),
)
"""Columns that are 0 in a row that takes no time."""


Lane = tuple[CoreKind | None, Pipe]
"""A pipe on all cores of a kind; None for those of every kind."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A run with one pipe free.

    Attributes:
        kind: the cores on which it is; None for all, which S always is.
        makespan_cycles: what the run would take.
        gain_cycles: what it would take less.
    """

    kind: CoreKind | None
    pipe: Pipe
    makespan_cycles: int
    gain_cycles: int


def what_if(program: Program, device: Device, l2_mode: str) -> tuple[WhatIf, ...]:
    """Return what a program would take with each of its pipes free, in the order of kinds and pipes.

    Args:
        program: the program.
        device: the device.
        l2_mode: how L2 is modelled, as the run had it.
    """
    given = schedule_input(program, device, l2_mode)
    makespan = compiled.makespan_cycles(given)
    found = []
    for kind, pipe in _lanes(program):
        cycles = compiled.makespan_cycles(with_free(given, program, kind, pipe))
        found.append(WhatIf(kind, pipe, cycles, makespan - cycles))
    return tuple(found)


def _lanes(program: Program) -> list[Lane]:
    """The scalar units, and each pipe of each kind of core that has instructions."""
    found: list[Lane] = [(None, Pipe.S)] if len(program) else []
    kinds = template_kinds(program)
    for kind in dict.fromkeys(program.kernel_type.kinds):
        own = [t.columns["pipe"] for t, its in zip(program.templates, kinds, strict=True) if not its or kind in its]
        pipes = np.unique(np.concatenate([np.zeros(0, np.int8), *own])).tolist()
        found += [(kind, Pipe(pipe)) for pipe in pipes if pipe not in (Pipe.S, Pipe.ALL)]
    return found


def with_free(given: ScheduleInput, program: Program, kind: CoreKind | None, pipe: Pipe) -> ScheduleInput:
    """Return the schedule of a program with a pipe free.

    Cores of the kind get templates of their own, behind the others: cores of another kind may call the same ones.
    """
    is_free = np.array([kind in (None, one) for one in program.kernel_type.kinds])
    freed = tuple(_freed(template, pipe) for template in given.templates)
    here = is_free[given.call_core % len(is_free)]
    template = np.where(here, given.call_template + len(freed), given.call_template)
    dispatch = 0 if pipe is Pipe.S else given.dispatch_cycles
    return replace(given, templates=given.templates + freed, call_template=template, dispatch_cycles=dispatch)


def _freed(template: TemplateSchedule, pipe: Pipe) -> TemplateSchedule:
    """A template whose work on a pipe takes no cycles."""
    columns = template.columns
    works = (columns["pipe"] == pipe) & ~np.isin(columns["kind"], (Kind.SET_FLAG, Kind.WAIT_FLAG))
    freed: dict[str, Ints] = {name: np.where(works, 0, columns[name]) for name in _DURATIONS}
    return replace(template, columns={**columns, **freed})
