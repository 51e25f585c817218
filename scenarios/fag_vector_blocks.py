"""FlashAttention backward before its cores worked side by side: each vector block through all stages, then the next.

    AIC    dA = dY V^T, S = Q K^T                              dQ += dS K, dK += dS^T Q, dV += A^T dY
    AIV                            P, A, dS of the same block

An AIC serves two AIVs, each with rows of its own. With blocks of 64 x 128 scores an AIV goes round 32 times for 512 x
512 of them, with 128 x 128 16 times: the first step of the vendor's tuning case. UB holds a block twice, as P and as
what becomes of dA, and three statistics of its rows, all in place: 140 KiB for 128 x 128.
"""

from dataclasses import replace

import numpy as np

from ascendsim import BinaryRepeatParams, HardEvent, Pipe, RoundMode, TPosition, tile
from ascendsim.dtypes import FLOAT
from ascendsim.op_host.matmul import MatmulChoice, MatmulTensors, blocks_of_core, matmul_tiling
from ascendsim.op_host.softmax_family import soft_max_tiling_func
from ascendsim.op_kernel import simple_softmax
from ascendsim.op_kernel.matmul import Operands, init_queues, iterate_all

SCORES_ARE_THERE, TILES_ARE_THERE = 1, 2
"""Flags: S and dA of both AIVs' blocks are in GM; A and dS are."""
COLUMNS = 128
"""Of a vector block, and of a head."""
SCALE = 128**-0.5
BLOCK = 128 * 128 * 2
"""Bytes of the largest factor; all products share one set of buffers."""


def main(asc, query, key, value, dy, softmax_max, softmax_sum, row_term, s, d_a, a, ds, dq, dk, dv, t):
    if asc.is_aic:
        cube(asc, query, key, value, dy, s, d_a, a, ds, dq, dk, dv, t)
    else:
        vector(asc, softmax_max, softmax_sum, row_term, s, d_a, a, ds, (dq, dk, dv), t)


def places(t, keys):
    """Where blocks begin: row inside an AIV's part, and column."""
    return [(row, column) for row in range(0, t.rows, t.block_rows) for column in range(0, keys, COLUMNS)]


# ---- AIC -------------------------------------------------------------------------------------------------------------


def cube(asc, query, key, value, dy, s, d_a, a, ds, dq, dk, dv, t):
    d = COLUMNS
    count = t.block_rows * COLUMNS
    scores = product(asc, query, t.block_rows, COLUMNS, d, b_transposed=True)
    for_query = product(asc, query, t.block_rows, d, COLUMNS)
    for_keys = product(asc, query, COLUMNS, d, t.block_rows, a_transposed=True)
    queues = init_queues(asc, asc.t_pipe(), scores)
    for row, column in places(t, key.shape[0]):
        for aiv in range(2):
            here, own = (aiv * t.rows + row) * d, aiv * count
            multiply(asc, dy[here], value[column * d], d_a[own], queues, scores, False)
            multiply(asc, query[here], key[column * d], s[own], queues, scores, False)
        asc.cross_core_set_flag(2, Pipe.FIX, SCORES_ARE_THERE)
        asc.cross_core_wait_flag(2, Pipe.MTE2, TILES_ARE_THERE)
        for aiv in range(2):
            here, own = (aiv * t.rows + row) * d, aiv * count
            multiply(asc, ds[own], key[column * d], dq[here], queues, for_query, True)
            multiply(asc, ds[own], query[here], dk[column * d], queues, for_keys, True)
            multiply(asc, a[own], dy[here], dv[column * d], queues, for_keys, True)


def product(asc, like, m, n, k, *, a_transposed=False, b_transposed=False):
    choice = MatmulChoice(base_m=m, base_n=n, base_k=k, a_transposed=a_transposed, b_transposed=b_transposed)
    tensors = MatmulTensors(m, n, k, like.dtype, FLOAT, FLOAT, False)
    tiling = matmul_tiling(
        asc.device, tensors, choice, {"a1": 2, "b1": 2, "c1": 0, "a2": 2, "b2": 2, "c2": 0, "co1": 2}
    )
    return replace(tiling, a1_bytes=BLOCK, b1_bytes=BLOCK, a2_bytes=BLOCK, b2_bytes=BLOCK, co1_bytes=2 * BLOCK)


@tile
def multiply(asc, left, right, result, queues, tiling, adds):
    iterate_all(asc, Operands(left, right, None, result), queues, blocks_of_core(tiling, 1, 0), tiling, adds=adds)


# ---- AIV -------------------------------------------------------------------------------------------------------------


def vector(asc, softmax_max, softmax_sum, row_term, s, d_a, a, ds, sums, t):
    count = t.block_rows * COLUMNS
    aiv = asc.get_sub_block_idx()
    pipe = asc.t_pipe()
    ub = asc.t_buf(TPosition.VECCALC, "ub")
    pipe.init_buffer(ub, 1, 2 * count * 4 + 3 * t.block_rows * 32)
    for tensor in sums:
        half = tensor.shape[0] * tensor.shape[1] // 2
        zero(asc, tensor[aiv * half], half, ub)
    own = aiv * count
    for row, _ in places(t, sums[1].shape[0]):
        asc.cross_core_wait_flag(2, Pipe.MTE2, SCORES_ARE_THERE)
        at = (aiv * t.rows + row) * 8
        block(asc, softmax_sum[at], softmax_max[at], row_term[at], s[own], d_a[own], a[own], ds[own], ub, t.block_rows)
        asc.cross_core_set_flag(2, Pipe.MTE3, TILES_ARE_THERE)


@tile
def zero(asc, tensor, count, ub):
    zeros = ub.get_with_offset("float", 8192, 0)
    asc.duplicate(zeros, 0.0, 8192)
    pass_on(asc, HardEvent.V_MTE3)
    for at in range(0, count, 8192):
        asc.data_copy(tensor[at], zeros, min(8192, count - at))
    pass_on(asc, HardEvent.MTE3_V)
    pass_on(asc, HardEvent.MTE3_MTE2)


@tile
def block(asc, sums, maxima, terms, s, d_a, a, ds, ub, rows):
    count, lines = rows * COLUMNS, rows * 8
    of_sum, of_max, of_term = (ub.get_with_offset("float", lines, i * lines * 4) for i in range(3))
    at_p = 3 * lines * 4
    at_other = at_p + count * 4
    p, other = (ub.get_with_offset("float", count, at) for at in (at_p, at_other))
    narrow = ub.get_with_offset(a.dtype, count, at_other)
    with asc.trace("load S"):
        for local, tensor, length in ((of_sum, sums, lines), (of_max, maxima, lines), (p, s, count)):
            asc.data_copy(local, tensor, length)
        asc.data_copy(of_term, terms, lines)
        pass_on(asc, HardEvent.MTE2_V)
    with asc.trace("P"):
        asc.muls(p, p, SCALE, count)
        asc.pipe_barrier(Pipe.V)
        temp = ub.get_with_offset("uint8_t", count * 4, at_other)
        simple_softmax(
            asc, p, of_sum, of_max, p, temp, soft_max_tiling_func((rows, COLUMNS), 4, count * 4), is_basic_block=True
        )
        asc.pipe_barrier(Pipe.V)
        asc.cast(narrow, p, RoundMode.CAST_ROUND, count)
        pass_on(asc, HardEvent.V_MTE3)
        asc.data_copy(a, narrow, count)
        pass_on(asc, HardEvent.MTE3_MTE2)
    with asc.trace("dS"):
        asc.data_copy(other, d_a, count)
        pass_on(asc, HardEvent.MTE2_V)
        strides = BinaryRepeatParams(1, 1, 0, COLUMNS // 8, COLUMNS // 8, 1)
        for column in range(0, COLUMNS, 64):
            asc.sub(other[column], other[column], of_term, 64, rows, strides)
        asc.pipe_barrier(Pipe.V)
        asc.mul(other, p, other, count)
        asc.pipe_barrier(Pipe.V)
        asc.cast(narrow, other, RoundMode.CAST_ROUND, count)
        pass_on(asc, HardEvent.V_MTE3)
        asc.data_copy(ds, narrow, count)
        pass_on(asc, HardEvent.V_MTE2)
        pass_on(asc, HardEvent.MTE3_MTE2)


def pass_on(asc, event):
    asc.set_flag(event, 0)
    asc.wait_flag(event, 0)


# ---- reference -------------------------------------------------------------------------------------------------------


def reference(inputs):
    x = {name: values.astype("float64") for name, values in inputs.items()}
    s = x["query"] @ x["key"].T * SCALE
    p = np.exp(s - x["softmax_max"][:, :1]) / x["softmax_sum"][:, :1]
    ds = p * (x["dy"] @ x["value"].T - x["row_term"][:, :1])
    return {"dq": ds @ x["key"], "dk": ds.T @ x["query"], "dv": p.T @ x["dy"]}
