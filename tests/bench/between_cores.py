"""A program whose cores wait for each other all the time, as attention backward does, for the benchmarks.

An AIC multiplies a block of queries and one of keys into a workspace of two places, one round ahead; its two AIVs make
factors of the product, half each; the AIC multiplies those and adds the result to a sum in GM. At the end the AIVs
scale the sums.
"""

import numpy as np

from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT, HALF
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.load import LoadData2DParams
from ascendsim.isa.mmad import MmadParams
from ascendsim.isa.nd2nz import Nd2NzParams
from ascendsim.memory import Bytes, LocalTensor, place_in_gm
from ascendsim.record import record, tile
from ascendsim.terms import HardEvent, KernelType, Pipe, RoundMode, TPosition

DEVICE = load_device("Ascend910B1")
SIDE = 32
"""Rows and columns of a block."""
BLOCK = SIDE * SIDE
HALF_BLOCK = BLOCK // 2
AICS = 24

A1 = LocalTensor("a1", TPosition.A1, HALF, 0, BLOCK * 2)
B1 = LocalTensor("b1", TPosition.B1, HALF, BLOCK * 2, BLOCK * 2)
A2 = LocalTensor("a2", TPosition.A2, HALF, 0, BLOCK * 2)
B2 = LocalTensor("b2", TPosition.B2, HALF, 0, BLOCK * 2)
C = LocalTensor("c", TPosition.CO1, FLOAT, 0, BLOCK * 4)
WORK = LocalTensor("work", TPosition.VECCALC, FLOAT, 0, HALF_BLOCK * 4)
FACTOR = LocalTensor("factor", TPosition.VECCALC, HALF, HALF_BLOCK * 4, HALF_BLOCK * 2)
SUM = LocalTensor("sum", TPosition.VECCALC, FLOAT, HALF_BLOCK * 8, HALF_BLOCK * 4)


def _ordered(asc, event):
    asc.set_flag(event, 0)
    asc.wait_flag(event, 0)


def _product(asc, a, b, out):
    fractals = SIDE // 16
    nz = Nd2NzParams(1, SIDE, SIDE, 0, SIDE, SIDE, 1, 0)
    asc.data_copy(A1, a, nz)
    asc.data_copy(B1, b, nz)
    _ordered(asc, HardEvent.MTE2_MTE1)
    for i in range(fractals):
        asc.load_data(A2[i * 16 * SIDE], A1[i * 256], LoadData2DParams(0, fractals, fractals))
        asc.load_data(B2[i * 16 * SIDE], B1[i * 256], LoadData2DParams(0, fractals, fractals, if_transpose=True))
    _ordered(asc, HardEvent.MTE1_M)
    asc.mmad(C, A2, B2, MmadParams(SIDE, SIDE, SIDE))
    _ordered(asc, HardEvent.M_FIX)
    asc.fixpipe(out, C, FixpipeParamsV220(SIDE, SIDE, SIDE, SIDE))
    _ordered(asc, HardEvent.FIX_MTE2)


@tile
def scores(asc, q, k, workspace):
    _product(asc, q, k, workspace)
    asc.cross_core_set_flag(2, Pipe.FIX, 0)


@tile
def gradients(asc, factors, k, sums):
    asc.cross_core_wait_flag(2, Pipe.MTE2, 1)
    asc.set_atomic_add("float")
    _product(asc, factors, k, sums)
    asc.set_atomic_none()


@tile
def factors_of(asc, workspace, factors):
    asc.cross_core_wait_flag(2, Pipe.MTE2, 0)
    asc.data_copy(WORK, workspace, HALF_BLOCK)
    _ordered(asc, HardEvent.MTE2_V)
    asc.muls(WORK, WORK, 0.125, HALF_BLOCK)
    asc.pipe_barrier(Pipe.V)
    asc.exp(WORK, WORK, HALF_BLOCK)
    asc.pipe_barrier(Pipe.V)
    asc.cast(FACTOR, WORK, RoundMode.CAST_ROUND, HALF_BLOCK)
    _ordered(asc, HardEvent.V_MTE3)
    asc.data_copy(factors, FACTOR, HALF_BLOCK)
    _ordered(asc, HardEvent.MTE3_MTE2)
    asc.cross_core_set_flag(2, Pipe.MTE3, 1)


@tile
def zero(asc, sums):
    asc.duplicate(SUM, 0.0, HALF_BLOCK)
    _ordered(asc, HardEvent.V_MTE3)
    asc.data_copy(sums, SUM, HALF_BLOCK)
    _ordered(asc, HardEvent.MTE3_V)


@tile
def scale(asc, sums, dq):
    asc.data_copy(SUM, sums, HALF_BLOCK)
    _ordered(asc, HardEvent.MTE2_V)
    asc.muls(SUM, SUM, 0.5, HALF_BLOCK)
    _ordered(asc, HardEvent.V_MTE3)
    asc.data_copy(dq, SUM, HALF_BLOCK)
    _ordered(asc, HardEvent.MTE3_MTE2)


def recorded(rounds, queries):
    """So many rounds on each AIC, over so many blocks of queries of its own."""

    def cube(asc, q, k, workspace, factors, sums, me):
        def one(i):
            scores(asc, q[(me * queries + i % queries) * BLOCK], k[i * BLOCK], workspace[(2 * me + i % 2) * BLOCK])

        one(0)
        for i in range(rounds):
            if i + 1 < rounds:
                one(i + 1)
            block = sums[(me * queries + i % queries) * BLOCK]
            gradients(asc, factors[(2 * me + i % 2) * BLOCK], k[i * BLOCK], block)

    def kernel(asc, q, k, workspace, factors, sums, dq):
        me, half = (asc.get_block_idx(), 0) if asc.is_aic else (asc.get_block_idx() // 2, asc.get_sub_block_idx())
        mine = [(me * queries + j) * BLOCK + half * HALF_BLOCK for j in range(queries) if asc.is_aiv]
        for at in mine:
            zero(asc, sums[at])
        asc.sync_all(is_aiv_only=False)
        if asc.is_aic:
            cube(asc, q, k, workspace, factors, sums, me)
        else:
            for i in range(rounds):
                at = (2 * me + i % 2) * BLOCK + half * HALF_BLOCK
                factors_of(asc, workspace[at], factors[at])
        asc.sync_all(is_aiv_only=False)
        for at in mine:
            scale(asc, sums[at], dq[at])

    counts = {"q": AICS * queries, "k": rounds, "workspace": 2 * AICS, "factors": 2 * AICS}
    counts |= {"sums": AICS * queries, "dq": AICS * queries}
    halves = ("q", "k", "factors")
    gm = place_in_gm([(n, HALF if n in halves else FLOAT, (c * BLOCK,)) for n, c in counts.items()])
    recording = record(kernel, DEVICE, AICS, gm, (), None, KernelType.MIX_AIC_1_2)
    assert recording.findings == ()
    return recording.program


def memories(program):
    """Queries and keys from a fixed stream; the rest unwritten."""
    rng = np.random.RandomState(0)
    return tuple(
        Bytes.of((rng.standard_normal(g.count) / 4).astype(np.float16)) if g.name in "qk" else Bytes(g.tensor_bytes)
        for g in program.gm
    )
