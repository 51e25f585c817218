"""FastSoftMaxGradOperation: each core takes its rows of one item of the batch after the other, tile by tile.

Every item has a TPipe of its own; as it ends all pipes of the core run dry, because the next item lays UB out anew.
Source: ascend-transformer-boost, mixkernels/fastsoftmaxgrad (kernel).
"""

from dataclasses import dataclass

from ascendsim.dtypes import HALF
from ascendsim.isa.move import DataCopyExtParams, DataCopyPadExtParams
from ascendsim.memory import GlobalTensor
from ascendsim.op_host.fsg_tiling import FsgSample, FsgTiling
from ascendsim.op_host.softmax import SoftMaxTiling
from ascendsim.op_kernel.softmax_grad import SoftMaxShapeInfo, softmax_grad
from ascendsim.record import AiCore, tile
from ascendsim.terms import TPosition
from ascendsim.tpipe import TBuf, TPipe, TQue


@dataclass(frozen=True, slots=True)
class Queues:
    """Where tiles wait between the pipes, and the shared temp."""

    y_input: TQue
    y_grad: TQue
    x_grad: TQue
    tmp: TBuf


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows of one item in UB: how many, their elements, those with padding, and SoftmaxGrad's tiling."""

    rows: int
    seq: int
    seq_aligned: int
    soft_max_tiling: SoftMaxTiling


def fast_softmax_grad(
    asc: AiCore, y_input: GlobalTensor, y_grad: GlobalTensor, x_grad: GlobalTensor, t: FsgTiling
) -> None:
    """x_grad = y * (g - rowsum(y * g)) for every row of every item.

    Args:
        asc: the core.
        y_input: softmax's output y, [nSquareTokens].
        y_grad: the gradient g that reaches softmax.
        x_grad: the result.
        t: from op_host.

    Raises:
        KernelError: block_dim is not the tiling's.
    """
    if asc.get_block_num() != t.block_dim:
        raise asc.fail(f"block_dim {asc.get_block_num()}: the tiling deals rows to {t.block_dim} cores; use that many")
    for sample in t.samples:
        pipe = asc.t_pipe()
        queues = _init_queues(asc, pipe, sample, t)
        _process(asc, (y_input, y_grad, x_grad), queues, sample)
        pipe.destroy()


def _init_queues(asc: AiCore, pipe: TPipe, sample: FsgSample, t: FsgTiling) -> Queues:
    y_input, y_grad = (asc.t_que(TPosition.VECIN, t.nums[i], name) for i, name in enumerate(("y_input", "y_grad")))
    x_grad = asc.t_que(TPosition.VECOUT, t.nums[2], "x_grad")
    for que, num in zip((y_input, y_grad, x_grad), t.nums, strict=True):
        pipe.init_buffer(que, num, sample.tile_bytes)
    tmp = asc.t_buf(TPosition.VECCALC, "tmp")
    pipe.init_buffer(tmp, 1, t.tmp_bytes)
    return Queues(y_input, y_grad, x_grad, tmp)


def _process(
    asc: AiCore, gm: tuple[GlobalTensor, GlobalTensor, GlobalTensor], queues: Queues, sample: FsgSample
) -> None:
    y_input, y_grad, x_grad = gm
    for row, rows in sample.tiles(asc.get_block_idx()):
        at = sample.data_offset_elems + row * sample.seq
        soft_max_tiling = sample.main if rows == sample.tile_rows or sample.tail is None else sample.tail
        t = Tile(rows, sample.seq, sample.seq_aligned, soft_max_tiling)
        _tile(asc, y_input[at], y_grad[at], x_grad[at], queues, t)


@tile
def _tile(
    asc: AiCore, y_input: GlobalTensor, y_grad: GlobalTensor, x_grad: GlobalTensor, queues: Queues, t: Tile
) -> None:
    with asc.trace("copy in"):
        _copy_in(asc, y_input, y_grad, queues, t)
    _compute(asc, queues, t)
    with asc.trace("copy out"):
        x_local = queues.x_grad.deque(HALF)
        asc.data_copy_pad(x_grad, x_local, _bursts(t))
        queues.x_grad.free_tensor(x_local)


def _bursts(t: Tile) -> DataCopyExtParams:
    """Rows of any even number of bytes, packed in GM; in UB each begins a datablock."""
    return DataCopyExtParams(t.rows, t.seq * HALF.bytes, 0, 0)


def _copy_in(asc: AiCore, y_input: GlobalTensor, y_grad: GlobalTensor, queues: Queues, t: Tile) -> None:
    y_local, g_local = queues.y_input.alloc_tensor(HALF), queues.y_grad.alloc_tensor(HALF)
    # Lanes behind a row hold copies of its first element, with or without isPad; only with it they count as asked for.
    pad = DataCopyPadExtParams(is_pad=True)
    asc.data_copy_pad(y_local, y_input, _bursts(t), pad)
    asc.data_copy_pad(g_local, y_grad, _bursts(t), pad)
    queues.y_input.enque(y_local)
    queues.y_grad.enque(g_local)


def _compute(asc: AiCore, queues: Queues, t: Tile) -> None:
    y_local, g_local = queues.y_input.deque(HALF), queues.y_grad.deque(HALF)
    x_local = queues.x_grad.alloc_tensor(HALF)
    shape = SoftMaxShapeInfo(t.rows, t.seq_aligned, t.rows, t.seq)
    tmp = queues.tmp.get("uint8_t")
    softmax_grad(asc, x_local, g_local, y_local, tmp, t.soft_max_tiling, shape_info=shape)
    queues.x_grad.enque(x_local)
    queues.y_input.free_tensor(y_local)
    queues.y_grad.free_tensor(g_local)
