"""The data_copy example: a matrix loaded tile by tile into UB or L1, and nothing else.

Source: asc-devkit, examples, data_copy: DataCopyPad on vector cores, ND2NZ on Cube cores, always into the same place;
each core has its own rows, or, in the scenarios that read lines together, all of them, past L2.
"""

from dataclasses import dataclass

from ascendsim.device import Device
from ascendsim.fidelity.kernels.predicted import Prediction, check_work, prediction_of, recorded
from ascendsim.fidelity.kernels.words import cores_of, element_of, numbers
from ascendsim.fidelity.measured import MeasuredKernel, Uncovered
from ascendsim.isa.move import DataCopyExtParams, DataCopyPadExtParams
from ascendsim.isa.nd2nz import Nd2NzParams
from ascendsim.memory import GlobalTensor, LocalTensor, place_in_gm
from ascendsim.record import AiCore, tile
from ascendsim.terms import CUBE_SIDE, DATABLOCK_BYTES, CacheMode, KernelType, Pipe, TPosition, align_up, ceil_div

_PASSES = r"(\d+)\b.* passes over the whole matrix"
_PARTS = r"matrix cut in (\d+), each part read (\d+) times"
_SHARED = "every core loads everything"
_KINDS = {"GM_TO_UB": KernelType.AIV_ONLY, "GM_TO_L1": KernelType.AIC_ONLY}


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the kernel works.

    Attributes:
        rows, columns: of a tile.
        parts: stretches of columns that are worked one behind the other.
        passes: how often each is loaded.
        is_shared: every core loads all rows, past L2.
        is_staggered: each begins with its own.
    """

    rows: int
    columns: int
    parts: int
    passes: int
    is_shared: bool
    is_staggered: bool


def predict_copy(row: MeasuredKernel, device: Device) -> Prediction:
    """Return the model's time of a data_copy row.

    Raises:
        Uncovered: a field says something that the example does not do.
    """
    if row.op not in _KINDS:
        raise Uncovered(f"a copy {row.op!r}")
    shape = numbers(r"^(\d+)x(\d+)$", row.shape, "shape")
    plan, cores = _plan(row), cores_of(row)
    if shape[0] % (cores * plan.rows) or shape[1] % plan.parts:
        raise Uncovered(
            f"{shape[0]} rows on {cores} cores in tiles of {plan.rows}, or {plan.parts} parts, leave a rest"
        )
    strips = shape[0] // plan.rows * plan.parts * plan.passes * (cores if plan.is_shared else 1)
    across = ceil_div(shape[1] // plan.parts, plan.columns)
    check_work(strips, strips * across, shape[0] * shape[1] * element_of(row).bytes, device)
    gm = place_in_gm([("src", element_of(row), shape)])
    return prediction_of(recorded(_kernel, device, cores, gm, (plan,), _KINDS[row.op]), device)


def _plan(row: MeasuredKernel) -> _Plan:
    rows, columns = numbers(r"Tile=\[(\d+),(\d+)\]", row.tiling, "tile")
    parts, passes, said = 1, 1, row.conditions.partition(";")[2].strip()
    if "cut in" in said:
        parts, passes = numbers(_PARTS, said, "parts")
    elif "passes" in said:
        (passes,) = numbers(_PASSES, said, "passes")
    elif said and _SHARED not in said:
        raise Uncovered(f"a scenario of the data_copy example that is not known here: {said!r}")
    return _Plan(rows, columns, parts, passes, _SHARED in said, "staggered" in said)


def _kernel(asc: AiCore, src: GlobalTensor, plan: _Plan) -> None:
    pipe, buffer = asc.t_pipe(), asc.t_buf(TPosition.A1 if asc.is_aic else TPosition.VECCALC, "tile")
    length = align_up(plan.rows, CUBE_SIDE) * plan.columns * src.dtype.bytes
    pipe.init_buffer(buffer, 1, align_up(length, DATABLOCK_BYTES))
    local = buffer.get(src.dtype)
    (rows, columns), cores, core = src.shape, asc.get_block_num(), asc.get_block_idx()
    own = rows // cores
    if plan.is_shared:
        src = src.with_l2_cache_hint(CacheMode.CACHE_MODE_DISABLE)
        blocks = tuple((n + core) % cores if plan.is_staggered else n for n in range(cores))
    else:
        blocks = (core,)
    width = columns // plan.parts
    for part in range(plan.parts):
        for _ in range(plan.passes):
            for first in (at for block in blocks for at in range(block * own, (block + 1) * own, plan.rows)):
                _strip(asc, src[first * columns + part * width], local, width, plan)
    asc.pipe_barrier(Pipe.ALL)


@tile
def _strip(asc: AiCore, src: GlobalTensor, local: LocalTensor, width: int, plan: _Plan) -> None:
    """Tiles side by side."""
    pitch = src.shape[1]
    for at in range(0, width, plan.columns):
        count = min(plan.columns, width - at)
        if asc.is_aic:
            high = align_up(plan.rows, CUBE_SIDE)
            asc.data_copy(local, src[at], Nd2NzParams(1, plan.rows, count, 0, pitch, high, 1, 0))
        else:
            gap = (pitch - count) * src.dtype.bytes
            bursts = DataCopyExtParams(plan.rows, count * src.dtype.bytes, gap, 0)
            asc.data_copy_pad(local, src[at], bursts, DataCopyPadExtParams())
