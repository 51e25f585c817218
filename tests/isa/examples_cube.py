"""The Cube side: small worked examples of each instruction, whose results are written out here."""

import numpy as np
from cube_harness import A1, A2, B1, B2, C1, C2, CO1, DEVICE, in_gm, on_chip, run

from ascendsim.checks import check_rows
from ascendsim.device import load_device
from ascendsim.execute import execute
from ascendsim.isa.cube_out import DataCopyEnhancedParams
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.load import LoadData2DParams, LoadData2dTransposeParams, LoadData3DParamsV2
from ascendsim.isa.mmad import MmadParams
from ascendsim.isa.move import DataCopyExtParams, DataCopyParams
from ascendsim.isa.nd2nz import Nd2NzParams
from ascendsim.memory import Bytes
from ascendsim.record import record
from ascendsim.terms import BlockMode, CO2Layout, KernelType, Pipe, QuantMode, TPosition

VECOUT = TPosition.VECOUT
X = in_gm(("x", "half", 512))
L1, L0A, L0B = (on_chip(place, "half", 512) for place in (A1, A2, B2))
SQUARE = np.arange(512, dtype=np.float16)
"""Two fractals: element [r, c] of the first is 16 r + c, of the second 256 more."""


def after(kernel, tensor, contents, gm=(), device=DEVICE, kernel_type=KernelType.AIC_ONLY):
    """Elements of a tensor after a kernel that nothing is wrong with."""
    ran = run(kernel, [(where, values, None) for where, values in contents], gm, device, kernel_type)
    assert ran.recorded == ran.findings == check_rows(ran.program, device) == ()
    return ran.values(tensor)


# ---- moves ----------------------------------------------------------------------------------------------------------


def rows_become_fractals():
    """2 x 20 halves: columns 0 to 15 of both rows, then, a fractal on, columns 16 to 19 and zeros."""
    gm = in_gm(("x", "half", 40))
    p = Nd2NzParams(1, 2, 20, 0, 20, 16, 1, 0)
    got = after(lambda asc, x: asc.data_copy(L1, x, p), L1, [(gm[0], np.arange(40, dtype=np.float16))], gm)
    assert got[:32].tolist() == [*range(16), *range(20, 36)]
    assert got[256:288].tolist() == [16, 17, 18, 19, *[0] * 12, 36, 37, 38, 39, *[0] * 12]


def datablocks_to_l1():
    got = after(lambda asc, x: asc.data_copy(L1[16], x[32], 16), L1, [(X[0], SQUARE)], X)
    assert got[16:32].tolist() == list(range(32, 48))


def datablocks_from_l1():
    got = after(lambda asc, x: asc.data_copy(x[16], L1[32], 16), X[0], [(L1, SQUARE), (X[0], SQUARE)], X)
    assert got[:48].tolist() == [*range(16), *range(32, 48), *range(32, 48)]


def biases_to_their_table():
    c1, table = on_chip(C1, "float", 16), on_chip(C2, "float", 16)
    got = after(lambda asc: asc.data_copy(table, c1, 16), table, [(c1, np.arange(16, dtype=np.float32))])
    assert got.tolist() == list(range(16))


def scales_to_their_buffer():
    c1, buffer = on_chip(C1, "int64_t", 16), on_chip(TPosition.C2PIPE2GM, "int64_t", 16)
    got = after(lambda asc: asc.data_copy(buffer, c1, 16), buffer, [(c1, np.arange(16))])
    assert got.tolist() == list(range(16))


def datablocks_from_ub_to_l1():
    ub = on_chip(VECOUT, "half", 32)
    device, kernel_type = load_device("Ascend310P1"), KernelType.AICORE
    got = after(lambda asc: asc.data_copy(L1, ub[16], 16), L1, [(ub, SQUARE[:32])], (), device, kernel_type)
    assert got[:16].tolist() == list(range(16, 32))


def fractals(place):
    """The second fractal, then the first: counted down from 1."""
    l0 = {A2: L0A, B2: L0B}[place]

    def example():
        p = LoadData2DParams(1, 2, 1, 0, 0, False, 1)
        got = after(lambda asc: asc.load_data(l0, L1, p), l0, [(L1, SQUARE)])
        assert got.tolist() == [*range(256, 512), *range(256)]

    return example


def a_fractal_turned():
    p = LoadData2DParams(1, 1, 0, 0, 0, True)
    got = after(lambda asc: asc.load_data(L0B, L1, p), L0B, [(L1, SQUARE)])
    assert got[:18].tolist() == [*range(256, 512, 16), 257, 273]


def fractals_from_gm(target):
    """Fractal 1 alone."""

    def example():
        p = LoadData2DParams(1, 1, 1, 0, 0, False)
        got = after(lambda asc, x: asc.load_data(target, x, p), target, [(X[0], SQUARE)], X)
        assert got[:256].tolist() == list(range(256, 512))

    return example


def a_square_of_floats_turned(place):
    """Columns 0 to 7 are a fractal, 8 to 15 the next: [r, c] = 16 r + c becomes 16 c + r."""

    def example():
        l1, l0 = on_chip(B1, "float", 256), on_chip(place, "float", 256)
        values = np.arange(256, dtype=np.float32).reshape(16, 2, 8).transpose(1, 0, 2)
        p = LoadData2dTransposeParams(0, 1, 0, 0, 0)
        got = after(lambda asc: asc.load_data_with_transpose(l0, l1, p), l0, [(l1, values)])
        assert got[:10].tolist() == [0, 16, 32, 48, 64, 80, 96, 112, 1, 17]
        assert got[128:130].tolist() == [128, 144]

    return example


def windows_of_a_map():
    """3 pixels of 16 channels, windows of 2: row 0 of the matrix is pixels 0 and 1, row 1 pixels 1 and 2.

    ZZ: the two fractals hold the first and the second pixel of each window.
    """
    p = LoadData3DParamsV2(l1_h=1, l1_w=3, channel_size=16, k_extension=32, m_extension=2, filter_w=2)
    got = after(lambda asc: asc.load_data(L0A, L1, p), L0A, [(L1, SQUARE[:48])])
    assert got[:32].tolist() == list(range(32))
    assert got[256:288].tolist() == list(range(16, 48))


def windows_turned():
    """The same into L0B: k is the pixel of a window, n its channel; columns of a fractal are as long as k is wide."""
    p = LoadData3DParamsV2(l1_h=1, l1_w=3, channel_size=16, k_extension=16, m_extension=3)
    ran = run(lambda asc: asc.load_data(L0B, L1, p), [(L1, SQUARE[:48], None)])
    assert [ran.values(L0B)[16 * n : 16 * n + 3].tolist() for n in range(3)] == [[0, 16, 32], [1, 17, 33], [2, 18, 34]]
    assert not ran.written(L0B)[6:32].any()


# ---- products and results -------------------------------------------------------------------------------------------


def product(*, bias=False, onto=False):
    """One row [1, 2] times a column [3, 4]: 11, beside the bias 100, or what was there, 1000."""
    a, b, c = on_chip(A2, "half", 256), on_chip(B2, "half", 256), on_chip(CO1, "float", 256)
    table = on_chip(C2, "float", 32)

    def example():
        contents = [(a, np.array([1, 2], np.float16)), (b, np.array([3, 4], np.float16)),
                    (c, np.array([1000], np.float32)), (table, np.array([100], np.float32))]  # fmt: skip
        p = MmadParams(1, 1, 2, cmatrix_init_val=not onto)
        contents = contents if bias else contents[:3]
        got = after(lambda asc: asc.mmad(c, a, b, p, *([table] if bias else [])), c, contents)
        assert got[0] == (111 if bias else 1011 if onto else 11)

    return example


def result_as_rows():
    """2 x 16 results in L0C onto rows of 20."""
    c, gm = on_chip(CO1, "float", 256), in_gm(("y", "float", 36))
    p = FixpipeParamsV220(16, 2, 16, 20)
    contents = [(c, np.arange(256, dtype=np.float32)), (gm[0], np.zeros(36, np.float32))]
    got = after(lambda asc, y: asc.fixpipe(y, c, p), gm[0], contents, gm)
    assert got.tolist() == [*range(16), 0, 0, 0, 0, *range(16, 32)]


def result_as_halves_to_l1():
    c = on_chip(CO1, "float", 256)
    p = FixpipeParamsV220(16, 1, 16, 16, QuantMode.F322F16, relu_en=True)
    values = np.arange(-8, 248, dtype=np.float32)
    got = after(lambda asc: asc.fixpipe(L1, c, p, CO2Layout.NZ), L1, [(c, values)])
    assert got[:16].tolist() == [0] * 8 + list(range(8))


# ---- adding to GM ---------------------------------------------------------------------------------------------------


def adding(source, store, kernel_type):
    """1 .. 8 onto 10 in every place; once set_atomic_none is called, stores replace again."""

    def example():
        gm = in_gm(("y", "float", 24))

        def kernel(asc, y):
            asc.set_atomic_add("float")
            store(asc, y)
            asc.set_atomic_none()

        values = np.arange(1, 257, dtype=np.float32)[: source.count]
        got = after(kernel, gm[0], [(source, values), (gm[0], np.full(24, 10, np.float32))], gm, DEVICE, kernel_type)
        assert got.tolist() == [*range(11, 19), *[10] * 16]

    return example


UB, STAGED, RESULT = on_chip(VECOUT, "float", 8), on_chip(A1, "float", 8), on_chip(CO1, "float", 256)
FROM_UB = adding(UB, lambda asc, y: asc.data_copy(y, UB, 8), KernelType.AIV_ONLY)
PADDED = adding(UB, lambda asc, y: asc.data_copy_pad(y, UB, DataCopyExtParams(1, 32, 0, 0)), KernelType.AIV_ONLY)
FROM_L1 = adding(STAGED, lambda asc, y: asc.data_copy(y, STAGED, 8), KernelType.AIC_ONLY)


def result_added():
    """A row of 16 results onto tens."""
    gm = in_gm(("y", "float", 16))

    def kernel(asc, y):
        asc.set_atomic_add("float")
        asc.fixpipe(y, RESULT, FixpipeParamsV220(16, 1, 16, 16))
        asc.set_atomic_none()

    contents = [(RESULT, np.arange(256, dtype=np.float32)), (gm[0], np.full(16, 10, np.float32))]
    assert after(kernel, gm[0], contents, gm).tolist() == list(range(10, 26))


def results_to_ub():
    """A fractal of 256 results, halves rounded from floats, on the core that holds both units."""
    device, target = load_device("Ascend310P3"), on_chip(VECOUT, "half", 256)

    def kernel(asc, *_):
        params = DataCopyParams(1, 1), DataCopyEnhancedParams(BlockMode.BLOCK_MODE_MATRIX)
        asc.data_copy(target, RESULT, *params)

    got = after(kernel, target, [(RESULT, np.arange(256, dtype=np.float32))], (), device, KernelType.AICORE)
    assert got.tolist() == list(range(256))


# ---- between cores --------------------------------------------------------------------------------------------------


def one_core_hands_over_to_another():
    """The vector core stores what the Cube core stored before it."""
    gm = in_gm(("x", "half", 16), ("y", "half", 16), ("z", "half", 16))
    ub = on_chip(TPosition.VECIN, "half", 16)

    def kernel(asc, x, y, z):
        if asc.is_aic:
            asc.data_copy(L1, x, 16)
            asc.pipe_barrier(Pipe.ALL)
            asc.data_copy(y, L1, 16)
            asc.cross_core_set_flag(2, Pipe.MTE3, 0)
        else:
            asc.cross_core_wait_flag(2, Pipe.MTE2, 0)
            asc.data_copy(ub, y, 16)
            asc.pipe_barrier(Pipe.ALL)
            asc.data_copy(z, ub, 16)

    program = record(kernel, DEVICE, 1, gm, (), None, KernelType.MIX_AIC_1_1).program
    memory = (Bytes.of(SQUARE[:16]), Bytes(32), Bytes(32))
    assert execute(program, DEVICE, memory).findings == ()
    assert memory[2].content.view(np.float16).tolist() == list(range(16))


EXAMPLES = {
    "data_copy_nd2nz": [rows_become_fractals],
    "data_copy_gm_to_l1": [datablocks_to_l1],
    "data_copy_l1_to_gm": [datablocks_from_l1],
    "data_copy_l1_to_bt": [biases_to_their_table],
    "data_copy_l1_to_fb": [scales_to_their_buffer],
    "data_copy_ub_to_l1": [datablocks_from_ub_to_l1],
    "load_data_2d_l0a": [fractals(A2)],
    "load_data_2d_l0b": [fractals(B2), a_fractal_turned],
    "load_data_2d_gm_to_l1": [fractals_from_gm(L1)],
    "load_data_2d_gm_to_l0a": [fractals_from_gm(L0A)],
    "load_data_2d_gm_to_l0b": [fractals_from_gm(L0B)],
    "load_data_with_transpose_l0a": [a_square_of_floats_turned(A2)],
    "load_data_with_transpose_l0b": [a_square_of_floats_turned(B2)],
    "load_data_3d_l0a": [windows_of_a_map],
    "load_data_3d_l0b": [windows_turned],
    "mmad": [product(), product(bias=True)],
    "mmad_accumulate": [product(onto=True)],
    "fixpipe_to_gm": [result_as_rows],
    "fixpipe_to_l1": [result_as_halves_to_l1],
    "fixpipe_to_gm_atomic_add": [result_added],
    "data_copy_ub_to_gm_atomic_add": [FROM_UB],
    "data_copy_pad_ub_to_gm_atomic_add": [PADDED],
    "data_copy_l1_to_gm_atomic_add": [FROM_L1],
    "set_atomic_add": [FROM_UB],
    "set_atomic_none": [FROM_UB],
    "data_copy_l0c_to_ub": [results_to_ub],
    "cross_core_set_flag": [one_core_hands_over_to_another],
    "cross_core_wait_flag": [one_core_hands_over_to_another],
}
