"""Cycles of a few instructions on one core, as the engine schedules them: alone or in a stream."""

from collections.abc import Callable

from ascendsim.device import Device
from ascendsim.engine.base import Kind, Timeline
from ascendsim.machine import schedule
from ascendsim.memory import GlobalTensor
from ascendsim.record import AiCore, record
from ascendsim.terms import KernelType, Pipe

Body = Callable[[AiCore], None]
"""Records what is measured once."""

_FEW, _MANY = 16, 48


def isolated_cycles(
    body: Body,
    device: Device,
    pipe: Pipe,
    gm: tuple[GlobalTensor, ...] = (),
    kernel_type: KernelType | None = None,
    l2_mode: str = "hit",
) -> int:
    """Return cycles from the first start on a pipe to the last result of that pipe, the pipe idle before."""
    timeline = _timeline(body, device, 1, gm, kernel_type, l2_mode)
    mine = (timeline["pipe"] == pipe) & (timeline["kind"] <= Kind.TRANSFER)
    return int(timeline["end"][mine].max() - timeline["start"][mine].min())


def streamed_cycles(
    body: Body,
    device: Device,
    pipe: Pipe,
    gm: tuple[GlobalTensor, ...] = (),
    kernel_type: KernelType | None = None,
    l2_mode: str = "hit",
) -> float:
    """Return cycles for each repetition of a body in a long stream of it, start-up of the first left out."""
    few, many = (_occupied(_timeline(body, device, n, gm, kernel_type, l2_mode), pipe) for n in (_FEW, _MANY))
    return (many - few) / (_MANY - _FEW)


def _occupied(timeline: Timeline, pipe: Pipe) -> int:
    """Cycle at which a pipe is free again for good."""
    return int(timeline["occupied"][timeline["pipe"] == pipe].max())


def _timeline(
    body: Body, device: Device, times: int, gm: tuple[GlobalTensor, ...], kernel_type: KernelType | None, l2_mode: str
) -> Timeline:
    def kernel(asc: AiCore, *tensors: GlobalTensor) -> None:
        del tensors
        for _ in range(times):
            body(asc)

    program = record(kernel, device, 1, gm, (), None, kernel_type).program
    return schedule(program, device, l2_mode=l2_mode)
