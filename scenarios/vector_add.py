"""z = x + y on all cores, double buffered: the smallest useful kernel."""

from ascendsim import TPosition


def main(asc, x, y, z, t):
    pipe = asc.t_pipe()
    in_x = asc.t_que(TPosition.VECIN, 1, "in_x")
    in_y = asc.t_que(TPosition.VECIN, 1, "in_y")
    out_z = asc.t_que(TPosition.VECOUT, 1, "out_z")
    for que, num in ((in_x, t.queues.in_x.num), (in_y, t.queues.in_y.num), (out_z, t.queues.out_z.num)):
        pipe.init_buffer(que, num, t.tile_length * x.dtype.bytes)
    per_core = x.count // asc.get_block_num()
    first = per_core * asc.get_block_idx()
    for at in range(first, first + per_core, t.tile_length):
        for que, source in ((in_x, x), (in_y, y)):
            local = que.alloc_tensor(source.dtype)
            asc.data_copy(local, source[at], t.tile_length)
            que.enque(local)
        x_local, y_local, z_local = in_x.deque(x.dtype), in_y.deque(y.dtype), out_z.alloc_tensor(z.dtype)
        asc.add(z_local, x_local, y_local, t.tile_length)
        out_z.enque(z_local)
        in_x.free_tensor(x_local)
        in_y.free_tensor(y_local)
        result = out_z.deque(z.dtype)
        asc.data_copy(z[at], result, t.tile_length)
        out_z.free_tensor(result)


def reference(inputs):
    return {"z": inputs["x"].astype("float64") + inputs["y"].astype("float64")}
