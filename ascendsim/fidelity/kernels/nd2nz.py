"""The bank_conflict_nd2nz example: a matrix turned into NZ inside UB, double buffered.

Source: asc-devkit, examples, bank_conflict_nd2nz: eight columns of cores; each tile is loaded, its datablocks are
spread by Copy, and the columns of fractals are stored.
"""

from dataclasses import dataclass

from ascendsim.device import Device
from ascendsim.fidelity.kernels.predicted import Prediction, check_work, prediction_of, recorded
from ascendsim.fidelity.kernels.words import cores_of, element_of, numbers
from ascendsim.fidelity.measured import MeasuredKernel, Uncovered
from ascendsim.isa.move import CopyRepeatParams, DataCopyParams
from ascendsim.memory import GlobalTensor, LocalTensor, place_in_gm
from ascendsim.record import AiCore, tile
from ascendsim.terms import DATABLOCK_BYTES, DATABLOCKS_PER_REPEAT, HardEvent, Pipe, TPosition, ceil_div

_COLUMNS_OF_CORES = 8


@dataclass(frozen=True, slots=True)
class _Plan:
    """Rows and columns of a tile, and datablocks from one column of fractals to the next in UB."""

    rows: int
    columns: int
    stride: int


@dataclass(frozen=True, slots=True)
class _Buffers:
    """A tile before and after, and the flag id they go with."""

    nd: LocalTensor
    nz: LocalTensor
    event_id: int


def predict_nd2nz(row: MeasuredKernel, device: Device) -> Prediction:
    """Return the model's time of an ND to NZ row.

    Raises:
        Uncovered: a field says something that the example does not do, or the device has no Copy with strides.
    """
    if device.has("vector_function"):
        raise Uncovered("on this architecture the example stores registers with a datablock stride, not modelled here")
    high, wide, rows, columns = numbers(r"(\d+)x(\d+), tile (\d+)x(\d+)", row.shape, "shape and tile")
    (stride,) = numbers(r"stride (\d+) blocks", row.tiling, "stride")
    element, cores = element_of(row), cores_of(row)
    lanes = DATABLOCKS_PER_REPEAT * DATABLOCK_BYTES // element.bytes
    if cores % _COLUMNS_OF_CORES or wide % (columns * _COLUMNS_OF_CORES) or columns % lanes:
        raise Uncovered(f"{wide} columns in tiles of {columns} are not dealt evenly to {cores} cores")
    turns = ceil_div(high, rows) * (wide // columns)
    check_work(turns, turns, 2 * high * wide * element.bytes, device)
    gm = place_in_gm([(name, element, (high, wide)) for name in "xz"])
    return prediction_of(recorded(_kernel, device, cores, gm, (_Plan(rows, columns, stride),)), device)


def _kernel(asc: AiCore, x: GlobalTensor, z: GlobalTensor, plan: _Plan) -> None:
    buffers = _buffers(asc, x, plan)
    (high, wide), per_block = x.shape, DATABLOCK_BYTES // x.dtype.bytes
    core, down = asc.get_block_idx(), asc.get_block_num() // _COLUMNS_OF_CORES
    each, more = divmod(-(-high // plan.rows), down)
    mine = core // _COLUMNS_OF_CORES
    first = mine * each + min(mine, more)
    across = wide // plan.columns // _COLUMNS_OF_CORES
    left = core % _COLUMNS_OF_CORES * across
    for used in buffers:
        asc.set_flag(HardEvent.V_MTE2, used.event_id)
        asc.set_flag(HardEvent.MTE3_V, used.event_id)
    for turn in range((each + (mine < more)) * across):
        top, column = (first + turn // across) * plan.rows, (left + turn % across) * plan.columns
        count = min(plan.rows, high - top)
        to = (top + column // per_block * high) * per_block
        _turn(asc, x[top * wide + column], z[to], buffers[turn % 2], count, plan)
    for used in buffers:
        asc.wait_flag(HardEvent.V_MTE2, used.event_id)
        asc.wait_flag(HardEvent.MTE3_V, used.event_id)
    asc.pipe_barrier(Pipe.ALL)


def _buffers(asc: AiCore, x: GlobalTensor, plan: _Plan) -> tuple[_Buffers, ...]:
    """Two tiles as they come, then two as they go."""
    nd = plan.rows * plan.columns
    per_block = DATABLOCK_BYTES // x.dtype.bytes
    nz = plan.columns // per_block * plan.stride * per_block
    pipe, ub = asc.t_pipe(), asc.t_buf(TPosition.VECCALC, "ub")
    pipe.init_buffer(ub, 1, 2 * (nd + nz) * x.dtype.bytes)
    starts = ((0, 2 * nd), (nd, 2 * nd + nz))
    return tuple(
        _Buffers(
            ub.get_with_offset(x.dtype, nd, before * x.dtype.bytes),
            ub.get_with_offset(x.dtype, nz, after * x.dtype.bytes),
            turn,
        )
        for turn, (before, after) in enumerate(starts)
    )


@tile
def _turn(asc: AiCore, x: GlobalTensor, z: GlobalTensor, used: _Buffers, count: int, plan: _Plan) -> None:
    (high, wide), element = x.shape, x.dtype
    per_block = DATABLOCK_BYTES // element.bytes
    blocks = plan.columns // per_block
    asc.wait_flag(HardEvent.V_MTE2, used.event_id)
    asc.data_copy(used.nd, x, DataCopyParams(count, blocks, (wide - plan.columns) // per_block, 0))
    asc.set_flag(HardEvent.MTE2_V, used.event_id)
    asc.wait_flag(HardEvent.MTE2_V, used.event_id)
    asc.wait_flag(HardEvent.MTE3_V, used.event_id)
    lanes = DATABLOCKS_PER_REPEAT * per_block
    strides = CopyRepeatParams(plan.stride, 1, 1, blocks)
    for at in range(0, plan.columns, lanes):
        asc.copy(used.nz[at * plan.stride], used.nd[at], lanes, count, strides)
    asc.set_flag(HardEvent.V_MTE2, used.event_id)
    asc.set_flag(HardEvent.V_MTE3, used.event_id)
    asc.wait_flag(HardEvent.V_MTE3, used.event_id)
    asc.data_copy(z, used.nz, DataCopyParams(blocks, count, plan.stride - count, high - count))
    asc.set_flag(HardEvent.MTE3_V, used.event_id)
