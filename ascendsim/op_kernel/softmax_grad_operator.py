"""The operator around SoftmaxGrad: each AIV takes a share of the rows and works it off tile by tile, GM to GM."""

from dataclasses import dataclass

from ascendsim.memory import GlobalTensor
from ascendsim.op_host.softmax_grad_operator import SoftmaxGradOperatorTiling, buffer_bytes, rows_of_core
from ascendsim.op_kernel.softmax_grad import SoftMaxShapeInfo, softmax_grad
from ascendsim.record import AiCore, process, tile
from ascendsim.terms import TPosition
from ascendsim.tpipe import TBuf, TQue


@dataclass(frozen=True, slots=True)
class Queues:
    """Where tiles wait between the pipes, and the shared temp (None: the framework's)."""

    in_grad: TQue
    in_p: TQue
    out: TQue
    tmp: TBuf | None


def softmax_grad_operator(
    asc: AiCore, grad: GlobalTensor, src: GlobalTensor, dst: GlobalTensor, t: SoftmaxGradOperatorTiling
) -> None:
    """Dst = SoftmaxGrad(grad, src) for [m, k] tensors in GM; with is_front dst is [m, one datablock].

    Args:
        asc: the core.
        grad: the gradient that reaches softmax, [m, k].
        src: softmax's output, [m, k].
        dst: the result.
        t: from op_host.
    """
    first, rows = rows_of_core(t.m, asc.get_block_num(), asc.get_block_idx())
    _process(asc, grad[first * t.k], src[first * t.k], dst[first * _dst_k(dst, t)], rows, t)


@process
def _process(
    asc: AiCore,
    grad: GlobalTensor,
    src: GlobalTensor,
    dst: GlobalTensor,
    rows: int,
    t: SoftmaxGradOperatorTiling,
) -> None:
    queues = _init_queues(asc, src, t)
    dst_k = _dst_k(dst, t)
    tiles = [(row, min(t.tile_m, rows - row)) for row in range(0, rows, t.tile_m)]
    loaded = 0
    for i, (row, tile_rows) in enumerate(tiles):
        # The scalar unit waits inside the compute step, so the next tile's loads must be issued before it.
        for ahead_row, ahead_rows in tiles[loaded : i + 1 + t.look_ahead]:
            _load_tile(asc, grad[ahead_row * t.k], src[ahead_row * t.k], queues, ahead_rows * t.k)
            loaded += 1
        _compute_tile(asc, dst[row * dst_k], queues, tile_rows, t)


def _dst_k(dst: GlobalTensor, t: SoftmaxGradOperatorTiling) -> int:
    """Elements of a row of the result."""
    return dst.dtype.per_datablock if t.is_front else t.k


def _init_queues(asc: AiCore, src: GlobalTensor, t: SoftmaxGradOperatorTiling) -> Queues:
    pipe = asc.t_pipe()
    tile_bytes, out_bytes = buffer_bytes((t.tile_m, t.k), src.dtype, t.is_front)
    in_grad = asc.t_que(TPosition.VECIN, 1 + t.look_ahead, "in_grad")
    in_p = asc.t_que(TPosition.VECIN, 1 + t.look_ahead, "in_p")
    out = asc.t_que(TPosition.VECOUT, 1, "out")
    pipe.init_buffer(in_grad, t.in_grad_num, tile_bytes)
    pipe.init_buffer(in_p, t.in_p_num, tile_bytes)
    pipe.init_buffer(out, t.out_num, out_bytes)
    tmp = None
    if t.tmp_bytes:
        tmp = asc.t_buf(TPosition.VECCALC, "tmp")
        pipe.init_buffer(tmp, 1, t.tmp_bytes)
    return Queues(in_grad, in_p, out, tmp)


@tile
def _load_tile(asc: AiCore, grad: GlobalTensor, src: GlobalTensor, queues: Queues, count: int) -> None:
    with asc.trace("copy in"):
        # Both buffers before the first copy: V frees both at once, and were one waited for behind a copy only, V could
        # be through with the next tile and set that flag again.
        grad_local, src_local = queues.in_grad.alloc_tensor(grad.dtype), queues.in_p.alloc_tensor(src.dtype)
        asc.data_copy(grad_local, grad, count)
        queues.in_grad.enque(grad_local)
        asc.data_copy(src_local, src, count)
        queues.in_p.enque(src_local)


@tile
def _compute_tile(asc: AiCore, dst: GlobalTensor, queues: Queues, rows: int, t: SoftmaxGradOperatorTiling) -> None:
    grad_local = queues.in_grad.deque(dst.dtype)
    src_local = queues.in_p.deque(dst.dtype)
    dst_local = queues.out.alloc_tensor(dst.dtype)
    tmp = queues.tmp.get("uint8_t") if queues.tmp else None
    shape = SoftMaxShapeInfo(rows, t.k, rows, t.ori_k)
    softmax_grad(asc, dst_local, grad_local, src_local, tmp, t.soft_max_tiling, t.is_front, shape)
    queues.out.enque(dst_local)
    queues.in_grad.free_tensor(grad_local)
    queues.in_p.free_tensor(src_local)
    with asc.trace("copy out"):
        result = queues.out.deque(dst.dtype)
        asc.data_copy(dst, result, rows * (dst.dtype.per_datablock if t.is_front else t.k))
        queues.out.free_tensor(result)
