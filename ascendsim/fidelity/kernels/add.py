"""The Add example: z = x + y over a matrix, from a scalar loop on one core to double buffers past L2.

Source: asc-devkit, examples, add_high_performance: fixed addresses in UB, flags between the pipes, rows dealt to the
cores evenly, the first cores one more.
"""

from dataclasses import dataclass

from ascendsim.device import Device
from ascendsim.dtypes import DType
from ascendsim.fidelity.kernels.predicted import Prediction, check_work, extrapolated, prediction_of, recorded
from ascendsim.fidelity.kernels.words import cores_of, element_of, numbers
from ascendsim.fidelity.measured import MeasuredKernel, Uncovered
from ascendsim.memory import GlobalTensor, LocalTensor, place_in_gm
from ascendsim.program import Program
from ascendsim.record import AiCore, tile
from ascendsim.terms import CacheMode, HardEvent, Pipe, TPosition

_DOUBLE = ("double buffering", "L2 bypass", "bank-conflict-free placement")
"""Each of these steps of the example keeps those before it."""
_PAST_L2 = _DOUBLE[1:]
_APART = _DOUBLE[2:]
_PLAIN = ("scalar loop", "vector, one core", "all cores", "larger copies")
_IN_TURN = _PLAIN[2:]
"""On all cores with one buffer the example has a loop of its own (Process, not ProcessSingle), whose published pipe
times add up to the core's time (215 + 54 + 16 + 8 of 297 us): each load waits for the store."""
_FEW, _MANY = 4, 12
"""Tiles of the scalar loop that are simulated: each takes as long as the one before."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the kernel works: elements of a copy, buffers of each tensor, and what it does about loops, L2 and banks.

    `is_in_turn`: loads wait for the store before them.
    """

    elements: int
    buffers: int
    is_scalar: bool
    is_past_l2: bool
    is_apart: bool
    is_in_turn: bool


@dataclass(frozen=True, slots=True)
class _Buffers:
    """Tensors of one turn, and the flag id they go with."""

    x: LocalTensor
    y: LocalTensor
    z: LocalTensor
    event_id: int


def predict_add(row: MeasuredKernel, device: Device) -> Prediction:
    """Return the model's time of an Add row.

    Raises:
        Uncovered: a field says something else than the example's steps.
    """
    shape = numbers(r"(\d+)x(\d+)", row.shape, "shape")
    plan = _plan(row)
    cores, element = cores_of(row), element_of(row)
    turns = shape[0] * shape[1] / plan.elements / cores
    count = 1 if plan.is_scalar else int(turns * cores)
    check_work(count, count, 3 * shape[0] * shape[1] * element.bytes, device)
    if not plan.is_scalar:
        return prediction_of(_program(shape, element, plan, device, cores), device)
    parts = {n: _program((1, n * plan.elements), element, plan, device, 1) for n in (_FEW, _MANY)}
    return extrapolated(parts, int(turns), device)


def _plan(row: MeasuredKernel) -> _Plan:
    (elements,) = numbers(r"(\d+) elements per copy", row.tiling, "elements per copy")
    step = row.tiling.partition(";")[2].strip()
    if step not in (*_PLAIN, *_DOUBLE):
        raise Uncovered(f"a step of the Add example that is not known here: {step!r}")
    return _Plan(
        elements, 1 + (step in _DOUBLE), step == "scalar loop", step in _PAST_L2, step in _APART, step in _IN_TURN
    )


def _program(shape: tuple[int, ...], element: DType, plan: _Plan, device: Device, cores: int) -> Program:
    gm = place_in_gm([(name, element, shape) for name in "xyz"])
    return recorded(_kernel, device, cores, gm, (plan,))


def _kernel(asc: AiCore, x: GlobalTensor, y: GlobalTensor, z: GlobalTensor, plan: _Plan) -> None:
    buffers = _buffers(asc, x.dtype, plan)
    if plan.is_past_l2:
        x, y = (t.with_l2_cache_hint(CacheMode.CACHE_MODE_DISABLE) for t in (x, y))
    (rows, columns), cores, core = x.shape, asc.get_block_num(), asc.get_block_idx()
    each, more = divmod(rows, cores)
    first = (core * each + min(core, more)) * columns
    last = first + (each + (core < more)) * columns
    for used in buffers:
        asc.set_flag(HardEvent.V_MTE2, used.event_id)
        asc.set_flag(HardEvent.MTE3_V, used.event_id)
    for turn, at in enumerate(range(first, last, plan.elements)):
        count = min(plan.elements, last - at)
        _turn(asc, x[at], y[at], z[at], buffers[turn % len(buffers)], count, plan)
    for used in buffers:
        asc.wait_flag(HardEvent.V_MTE2, used.event_id)
        asc.wait_flag(HardEvent.MTE3_V, used.event_id)
    asc.pipe_barrier(Pipe.ALL)


def _buffers(asc: AiCore, element: DType, plan: _Plan) -> tuple[_Buffers, ...]:
    """Tensors of each turn. Placed apart, x and y are neighbours whose length is no multiple of a row of banks."""
    pipe, ub = asc.t_pipe(), asc.t_buf(TPosition.VECCALC, "ub")
    length = plan.elements * element.bytes
    pair = -(-2 * length // 1024) * 1024
    pipe.init_buffer(ub, 1, pair * 3 if plan.is_apart else 3 * plan.buffers * length)
    found = []
    for turn in range(plan.buffers):
        starts = [(3 * turn + i) * length for i in range(3)]
        if plan.is_apart:
            starts = [turn * pair, turn * pair + length, 2 * pair + turn * length]
        x, y, z = (ub.get_with_offset(element, plan.elements, at) for at in starts)
        found.append(_Buffers(x, y, z, turn))
    return tuple(found)


@tile
def _turn(
    asc: AiCore, x: GlobalTensor, y: GlobalTensor, z: GlobalTensor, used: _Buffers, count: int, plan: _Plan
) -> None:
    asc.wait_flag(HardEvent.V_MTE2, used.event_id)
    asc.data_copy(used.x, x, count)
    asc.data_copy(used.y, y, count)
    asc.set_flag(HardEvent.MTE2_V, used.event_id)
    asc.wait_flag(HardEvent.MTE2_V, used.event_id)
    asc.wait_flag(HardEvent.MTE3_V, used.event_id)
    if plan.is_scalar:
        _add_one_by_one(asc, used, count)
    else:
        asc.add(used.z, used.x, used.y, count)
    asc.set_flag(HardEvent.V_MTE2, used.event_id)
    asc.set_flag(HardEvent.V_MTE3, used.event_id)
    asc.wait_flag(HardEvent.V_MTE3, used.event_id)
    asc.data_copy(z, used.z, count)
    asc.set_flag(HardEvent.MTE3_V, used.event_id)
    if plan.is_in_turn:
        asc.set_flag(HardEvent.MTE3_MTE2, used.event_id)
        asc.wait_flag(HardEvent.MTE3_MTE2, used.event_id)


def _add_one_by_one(asc: AiCore, used: _Buffers, count: int) -> None:
    """Read, read and write on the scalar unit, which waits for the loads and lets the store go on."""
    asc.set_flag(HardEvent.V_S, used.event_id)
    asc.wait_flag(HardEvent.V_S, used.event_id)
    for i in range(count):
        asc.get_value(used.x, i)
        asc.set_value(used.z, i, asc.get_value(used.y, i))
    asc.set_flag(HardEvent.S_V, used.event_id)
    asc.wait_flag(HardEvent.S_V, used.event_id)
