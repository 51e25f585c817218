"""SoftmaxGradFront as the row term of FlashAttentionScoreGrad calls it: fp32, basic block, rows of D or its padding.

Steps of 96 rows at D = 128 with a temp of 37,888 B, and shorter last steps, for which the kernel tiles anew.
"""

from itertools import pairwise

import numpy as np
import pytest
from piece_harness import place, run, same, sequence

from ascendsim.op_host.softmax import soft_max_grad_tiling_func
from ascendsim.op_kernel import softmax_grad_front
from ascendsim.op_kernel.softmax_grad_call import SoftMaxShapeInfo

FULL, TEMP = (96, 128), 37888


def front(rows, columns, temp, host=None):
    """The call and its tensors; `host` is the shape of the tiling."""
    places = place(
        dst=("float", 32 * rows),
        grad=("float", 4 * rows * columns),
        src=("float", 4 * rows * columns),
        tmp=("uint8_t", temp),
    )
    tiling = soft_max_grad_tiling_func(host or (rows, columns), 4, temp, True)
    shape = SoftMaxShapeInfo(rows, columns, rows, columns)
    operands = [places[name] for name in ("dst", "grad", "src", "tmp")]
    return (lambda asc: softmax_grad_front(asc, *operands, tiling, shape, is_basic_block=True)), places


def expected(rows, columns, tile_rows):
    """The row of section 4.6: Mul, chunks onto chunk 0, two BlockReduceSums and Brcb for each tile."""
    strides, sums = columns // 8, columns * tile_rows
    for row in range(0, rows, tile_rows):
        q = min(tile_rows, rows - row)
        groups = -(-q // 8)
        at = row * columns
        yield f"vmul all x{q * columns // 64} 1,1,1/8,8,8 tmp+0 src+{at} grad+{at}"
        for chunk in range(64, columns, 64):
            yield f"vadd all x{q} 1,1,1/{strides},{strides},{strides} tmp+0 tmp+0 tmp+{chunk}"
        yield f"vcgadd all x{q} 1/1,{strides} tmp+0 tmp+0"
        yield f"vcgadd all x{groups} 1/1,8 tmp+{sums} tmp+0"
        yield f"vbrcb x{groups} 1/8 dst+{8 * row} tmp+{sums}"


@pytest.mark.parametrize(
    ("rows", "columns", "temp", "tile_rows"),
    [(*FULL, TEMP, 32), (40, 128, TEMP, 40), (96, 64, TEMP, 48), (48, 192, TEMP, 24), (16, 256, 16896, 8)],
)
def test_the_sequence(rows, columns, temp, tile_rows):
    kernel, places = front(rows, columns, temp)
    got = [line for line in sequence(kernel, places) if line not in ("barrier", "norm", "mask all")]
    assert got == list(expected(rows, columns, tile_rows))


@pytest.mark.parametrize("rows", [8, 40, 96])
def test_a_barrier_stands_between_the_steps(rows):
    kernel, places = front(rows, 128, TEMP)
    lines = [line for line in sequence(kernel, places) if not line.startswith(("norm", "mask"))]
    assert all("barrier" in pair for pair in pairwise(lines))


@pytest.mark.parametrize("rows", [8, 40, 88])
def test_a_last_step_with_the_tiling_of_a_full_one(rows):
    """The kernel tiles anew and computes the same rows."""
    rng = np.random.default_rng(rows)
    grad, src = (rng.normal(size=(rows, 128)).astype(np.float32) for _ in range(2))
    results = []
    for host in (FULL, (rows, 128)):
        kernel, places = front(rows, 128, TEMP, host)
        ran = run(kernel, places, grad=grad, src=src)
        assert ran.findings == ()
        results.append(ran.array(places["dst"], np.empty((rows, 8), np.float32)))
    again, own = results
    assert same(again, own)
    assert np.allclose(again[:, 0], (grad.astype(np.float64) * src).sum(1), atol=1e-4)
    assert all(same(again[:, 0], again[:, lane]) for lane in range(1, 8))
