"""c = a * b + 1: the Cube core of each AI Core multiplies, its two vector cores add, half of the rows each."""

from ascendsim import FixpipeParamsV220, LoadData2DParams, MmadParams, Nd2NzParams, Pipe, TPosition

PRODUCT_IS_THERE = 0
"""The flag that the Cube core sets for its vector cores."""


def main(asc, a, b, c, t):
    if asc.is_aic:
        product(asc, a, b, c, t)
        asc.cross_core_set_flag(2, Pipe.FIX, PRODUCT_IS_THERE)
    else:
        asc.cross_core_wait_flag(2, Pipe.MTE2, PRODUCT_IS_THERE)
        plus_one(asc, c, t)


def product(asc, a, b, c, t):
    """Rows of one AI Core: GM to L1 as NZ, L1 to L0A as ZZ and to L0B as ZN, the product to L0C, L0C to GM."""
    m, (k, n) = t.rows, b.shape
    first = asc.get_block_idx() * m
    pipe = asc.t_pipe()
    a1, b1 = asc.t_que(TPosition.A1, 1, "a1"), asc.t_que(TPosition.B1, 1, "b1")
    a2, b2 = asc.t_que(TPosition.A2, 1, "a2"), asc.t_que(TPosition.B2, 1, "b2")
    co1 = asc.t_que(TPosition.CO1, 1, "co1")
    for que, length in ((a1, m * k * 2), (b1, k * n * 2), (a2, m * k * 2), (b2, k * n * 2), (co1, m * n * 4)):
        pipe.init_buffer(que, 1, length)

    for que, source, rows, columns in ((a1, a[first * k], m, k), (b1, b, k, n)):
        local = que.alloc_tensor("half")
        asc.data_copy(local, source, Nd2NzParams(1, rows, columns, 0, columns, rows, 1, 0))
        que.enque(local)

    a_l1, a_l0 = a1.deque("half"), a2.alloc_tensor("half")
    for i in range(m // 16):  # a row of fractals each
        asc.load_data(a_l0[i * 16 * k], a_l1[i * 256], LoadData2DParams(0, k // 16, m // 16))
    a2.enque(a_l0)
    a1.free_tensor(a_l1)
    b_l1, b_l0 = b1.deque("half"), b2.alloc_tensor("half")
    for i in range(k // 16):
        asc.load_data(b_l0[i * 16 * n], b_l1[i * 256], LoadData2DParams(0, n // 16, k // 16, if_transpose=True))
    b2.enque(b_l0)
    b1.free_tensor(b_l1)

    a_l0, b_l0, c_l0 = a2.deque("half"), b2.deque("half"), co1.alloc_tensor("float")
    asc.mmad(c_l0, a_l0, b_l0, MmadParams(m, n, k))
    co1.enque(c_l0)
    a2.free_tensor(a_l0)
    b2.free_tensor(b_l0)
    c_l0 = co1.deque("float")
    asc.fixpipe(c[first * n], c_l0, FixpipeParamsV220(n, m, m, n))
    co1.free_tensor(c_l0)


def plus_one(asc, c, t):
    """Half of the rows of one AI Core: the block index of a vector core counts vector cores."""
    n = c.shape[1]
    count = t.rows // asc.get_task_ration() * n
    here = c[asc.get_block_idx() * count]
    pipe = asc.t_pipe()
    in_c, out_c = asc.t_que(TPosition.VECIN, 1, "in_c"), asc.t_que(TPosition.VECOUT, 1, "out_c")
    for que in (in_c, out_c):
        pipe.init_buffer(que, 1, count * 4)
    local = in_c.alloc_tensor("float")
    asc.data_copy(local, here, count)
    in_c.enque(local)
    local, result = in_c.deque("float"), out_c.alloc_tensor("float")
    asc.adds(result, local, 1.0, count)
    out_c.enque(result)
    in_c.free_tensor(local)
    result = out_c.deque("float")
    asc.data_copy(here, result, count)
    out_c.free_tensor(result)


def reference(inputs):
    return {"c": inputs["a"].astype("float64") @ inputs["b"].astype("float64") + 1}
