"""What the model says of a whole kernel, in the words of the profiler."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ascendsim.device import Device
from ascendsim.engine.base import Keep, Timeline
from ascendsim.fidelity.measured import Uncovered
from ascendsim.machine import schedule
from ascendsim.memory import GlobalTensor
from ascendsim.program import Program
from ascendsim.record import Kernel, record
from ascendsim.terms import CoreKind, KernelType, Pipe

L2_MODE = "warm"
"""A profiler measures a kernel that has run before: L2 holds what the run before left there."""

_PIPES = {
    Pipe.S: "scalar",
    Pipe.V: "vec",
    Pipe.M: "mac",
    Pipe.MTE1: "mte1",
    Pipe.MTE2: "mte2",
    Pipe.MTE3: "mte3",
    Pipe.FIX: "fixpipe",
}


@dataclass(frozen=True, slots=True)
class Prediction:
    """A kernel as the model sees it.

    Attributes:
        us: task duration in microseconds, launch included.
        pipe_us: busy time of each pipe, the mean over the cores, by the profiler's name, such as "aiv_vec_time".
        bottleneck: the name of the pipe that is busy longest.
    """

    us: float
    pipe_us: dict[str, float]
    bottleneck: str


def pipe_times(times_us: Mapping[str, float]) -> dict[str, float]:
    """Return those of a profiler's times that are of pipes, not of cores."""
    names = {f"{kind}_{pipe}_time" for kind in ("aic", "aiv") for pipe in _PIPES.values()}
    return {name: us for name, us in times_us.items() if name in names}


def slowest_pipe(pipe_us: Mapping[str, float]) -> str:
    """Return the name of the pipe that is busy longest, "" if no pipe's time is known."""
    known = pipe_times(pipe_us)
    return max(known, key=lambda name: known[name], default="")


MOST_TURNS, MOST_STEPS = 1 << 18, 1 << 22
"""Turns of all cores that are recorded one by one, and steps of all turns that are scheduled: some seconds."""


def check_work(turns: int, steps: int, gm_bytes: int, device: Device) -> None:
    """Refuse kernels that cannot be simulated in a minute, or whose tensors GM does not hold.

    Args:
        turns: turns of the loops of all cores.
        steps: steps of all turns.
        gm_bytes: of all tensors.
        device: the part.

    Raises:
        Uncovered: it is one.
    """
    if turns > MOST_TURNS or steps > MOST_STEPS:
        raise Uncovered(f"{turns} turns of {steps} steps; up to {MOST_TURNS} of {MOST_STEPS} are simulated here")
    gm = device.memory.gm_bytes
    if gm is not None and gm_bytes > gm.value:
        raise Uncovered(f"{gm_bytes} B of tensors; GM holds {gm.value} B")


def recorded(
    kernel: Kernel,
    device: Device,
    block_dim: int,
    gm: tuple[GlobalTensor, ...],
    arguments: tuple[object, ...],
    kernel_type: KernelType = KernelType.AIV_ONLY,
) -> Program:
    """Return the program of a kernel.

    Raises:
        Uncovered: it asks for what the device does not have.
    """
    if kernel_type not in device.kernel_types():
        raise Uncovered(f"{device.name} has no cores that run {kernel_type.name} kernels")
    if block_dim > device.most_blocks(kernel_type):
        raise Uncovered(f"{block_dim} blocks; {device.name} runs {device.most_blocks(kernel_type)}")
    recording = record(kernel, device, block_dim, gm, arguments, None, kernel_type)
    if not recording.complete:
        raise Uncovered("; ".join(f.message for f in recording.findings))
    return recording.program


def prediction_of(program: Program, device: Device, l2_mode: str = L2_MODE) -> Prediction:
    """Return what the model says of a program."""
    return _prediction(program, device, *_cycles(program, device, l2_mode))


def extrapolated(programs: Mapping[int, Program], steps: int, device: Device, l2_mode: str = L2_MODE) -> Prediction:
    """Return what the model says of many equal steps, given programs of two other numbers of them.

    Exact where a step takes the same cycles from the shorter program's end on.
    """
    (few, first), (many, second) = sorted(programs.items())
    (start, busy), (end, busy_end) = (_cycles(p, device, l2_mode) for p in (first, second))
    more = (steps - many) / (many - few)
    return _prediction(second, device, end + (end - start) * more, busy_end + (busy_end - busy) * more)


def _cycles(
    program: Program, device: Device, l2_mode: str
) -> tuple[float, np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    """Makespan, and busy cycles of each core and pipe."""
    nothing = Keep(np.zeros(len(program.calls["core"]), np.bool_))
    timeline: Timeline = schedule(program, device, l2_mode=l2_mode, keep=nothing)
    return timeline.makespan_cycles, timeline.totals.busy_cycles.astype(np.float64)


def _prediction(
    program: Program, device: Device, cycles: float, busy: np.ndarray[tuple[int, int], np.dtype[np.float64]]
) -> Prediction:
    kinds = program.kernel_type.kinds
    pipe_us = {}
    for kind in dict.fromkeys(kinds):
        mine = busy[[core for core in range(len(busy)) if kinds[core % len(kinds)] is kind]]
        prefix = "aic" if kind is CoreKind.AIC else "aiv"
        has = device.core[kind.value].pipes.value
        for pipe, name in _PIPES.items():
            if pipe.name in has:
                pipe_us[f"{prefix}_{name}_time"] = float(mine[:, pipe].mean()) / device.clock_mhz
    us = cycles / device.clock_mhz + device.launch_us(program.kernel_type, program.block_dim)
    return Prediction(us, pipe_us, slowest_pipe(pipe_us))
