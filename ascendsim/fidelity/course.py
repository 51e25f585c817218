"""Cycles of a few instructions on one core: alone, or in a long stream of the same."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ascendsim.cost import gm_bases_of
from ascendsim.device import Device
from ascendsim.engine import compiled
from ascendsim.engine.base import Kind, ScheduleInput, Timeline
from ascendsim.fidelity.measured import Uncovered
from ascendsim.isa.instruction import Row
from ascendsim.memory import GlobalTensor
from ascendsim.program import Program, Template
from ascendsim.record import AiCore, record
from ascendsim.schedule_input import schedule_input
from ascendsim.terms import KernelType, Pipe

Body = Callable[[AiCore], None]
"""Records what is measured once."""

OwnRows = tuple[Template, tuple[Row, ...], tuple[int, ...]]
"""The template of a call, those of its rows that are on the pipe, and its GM bases."""

_FEW, _MANY = 16, 48
"""Repetitions of a stream; what both have in common is its start."""


@dataclass(frozen=True)
class Course:
    """Instructions of which one pipe's cycles were measured.

    Attributes:
        body: records them once.
        pipe: the pipe.
        device: the part that they are recorded for.
        is_streamed: whether cycles are those of one repetition in a long stream, the start of the first left out;
            otherwise they run from the first start to the last result, on an idle pipe.
        gm: what they work on.
        kernel_type: None for the device's usual cores.
        l2_mode: whether loads hit L2.
    """

    body: Body
    pipe: Pipe
    device: Device
    is_streamed: bool
    gm: tuple[GlobalTensor, ...] = ()
    kernel_type: KernelType | None = None
    l2_mode: str = "hit"

    @cached_property
    def program(self) -> Program:
        """The instructions, recorded.

        Raises:
            Uncovered: they break a rule of the device, or do nothing.
        """

        def kernel(asc: AiCore, *tensors: GlobalTensor) -> None:
            del tensors
            self.body(asc)

        found = record(kernel, self.device, 1, self.gm, (), None, self.kernel_type)
        if not found.complete:
            raise Uncovered("; ".join(finding.message for finding in found.findings))
        return found.program

    @cached_property
    def own_rows(self) -> tuple[OwnRows, ...]:
        """The pipe's rows, call by call."""
        templates, bases = self.program.templates, gm_bases_of(self.program)
        mine = [tuple(row for row in t.rows if row.pipe is self.pipe) for t in templates]
        return tuple((templates[n], mine[n], bases[n]) for n in self.program.calls["template"].tolist())

    def cycles(self, device: Device | None = None) -> float:
        """Return the cycles that the engine gives, on this device or on one with other coefficients.

        Raises:
            DeviceError: the device file has no cost for one of the instructions.
            Uncovered: there are no instructions that the pipe could take.
        """
        program = schedule_input(self.program, device or self.device, self.l2_mode)
        if not self.is_streamed:
            return self._alone(compiled.schedule(program))
        few, many = (self._occupied(compiled.schedule(_repeated(program, times))) for times in (_FEW, _MANY))
        return (many - few) / (_MANY - _FEW)

    def _alone(self, timeline: Timeline) -> int:
        mine = (timeline["pipe"] == self.pipe) & np.isin(timeline["kind"], (Kind.EXEC, Kind.TRANSFER))
        if not mine.any():
            raise Uncovered(f"rebuilt, it has no instruction on {self.pipe.name}")
        return int(timeline["end"][mine].max() - timeline["start"][mine].min())

    def _occupied(self, timeline: Timeline) -> int:
        """Cycle at which the pipe is free again for good."""
        mine = timeline["occupied"][timeline["pipe"] == self.pipe]
        if not len(mine):
            raise Uncovered(f"rebuilt, it has no instruction on {self.pipe.name}")
        return int(mine.max())


def _repeated(program: ScheduleInput, times: int) -> ScheduleInput:
    """The same calls, again and again."""
    return replace(
        program,
        call_core=np.tile(program.call_core, times),
        call_template=np.tile(program.call_template, times),
        call_slot_start=np.tile(program.call_slot_start, times),
    )
