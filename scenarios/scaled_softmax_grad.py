"""ds = scale * SoftmaxGrad(dp, p): the library call inside a kernel of one's own, scaled before it leaves UB."""

from ascendsim import Pipe, TPosition, tile
from ascendsim.op_host.softmax import soft_max_grad_tiling_func
from ascendsim.op_kernel import SoftMaxShapeInfo, softmax_grad


def main(asc, dp, p, ds, t):
    pipe = asc.t_pipe()
    k = p.shape[1]
    row_bytes = k * p.dtype.bytes
    in_dp = asc.t_que(TPosition.VECIN, 1, "in_dp")
    in_p = asc.t_que(TPosition.VECIN, 1, "in_p")
    out_ds = asc.t_que(TPosition.VECOUT, 1, "out_ds")
    tmp = asc.t_buf(TPosition.VECCALC, "tmp")
    for que in (in_dp, in_p, out_ds):
        pipe.init_buffer(que, 2, t.tile_m * row_bytes)
    pipe.init_buffer(tmp, 1, t.tmp_bytes)
    tiling = soft_max_grad_tiling_func((t.tile_m, k), p.dtype.bytes, t.tmp_bytes, False)
    rows = p.shape[0] // asc.get_block_num()
    for row in range(rows * asc.get_block_idx(), rows * (asc.get_block_idx() + 1), t.tile_m):
        at = row * k
        one_tile(asc, dp[at], p[at], ds[at], (in_dp, in_p, out_ds, tmp), t.tile_m, k, tiling, t.scale)


@tile
def one_tile(asc, dp, p, ds, buffers, rows, k, tiling, scale):
    in_dp, in_p, out_ds, tmp = buffers
    for que, source in ((in_dp, dp), (in_p, p)):
        local = que.alloc_tensor(source.dtype)
        asc.data_copy(local, source, rows * k)
        que.enque(local)
    dp_local, p_local, ds_local = in_dp.deque(dp.dtype), in_p.deque(p.dtype), out_ds.alloc_tensor(ds.dtype)
    shape = SoftMaxShapeInfo(rows, k, rows, k)
    softmax_grad(asc, ds_local, dp_local, p_local, tmp.get("uint8_t"), tiling, False, shape)
    asc.pipe_barrier(Pipe.V)
    with asc.trace("scale"):
        asc.muls(ds_local, ds_local, scale, rows * k)
    out_ds.enque(ds_local)
    in_dp.free_tensor(dp_local)
    in_p.free_tensor(p_local)
    result = out_ds.deque(ds.dtype)
    asc.data_copy(ds, result, rows * k)
    out_ds.free_tensor(result)


def reference(inputs):
    dp, p = inputs["dp"].astype("float64"), inputs["p"].astype("float64")
    return {"ds": 0.125 * (dp - (dp * p).sum(axis=1, keepdims=True)) * p}
