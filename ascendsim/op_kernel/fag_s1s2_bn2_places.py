"""Template S1s2Bn2 of FlashAttention backward: which blocks a core has, and where in GM its tensors and areas are.

Source: ops-transformer op_kernel, flash_attention_score_grad S1s2Bn2.
"""

from ascendsim.memory import GlobalTensor
from ascendsim.op_host.fag_dealing import Block
from ascendsim.op_host.fag_parts import BUFFERS, sum_at
from ascendsim.op_host.fag_s1s2_bn2 import S1s2Bn2Tiling
from ascendsim.op_kernel.fag_tensors import Tensors


def blocks_of(core: int, t: S1s2Bn2Tiling) -> tuple[Block, ...]:
    """Return the blocks of a core, an AIV or in L1-custom an AIC; none of one that takes no part."""
    return tuple(t.dealing.of_core(core)) if core < t.dealing.cores else ()


def scores_at(gm: Tensors, core: int, block: Block, t: S1s2Bn2Tiling) -> tuple[GlobalTensor, GlobalTensor]:
    """Return S and dA of a core's block."""
    step = (core * t.score_buffers + block.turn % t.score_buffers) * t.areas.score_step
    return gm.workspace[t.areas.scores + step], gm.workspace[t.areas.d_a + step]


def tiles_at(gm: Tensors, core: int, block: Block, t: S1s2Bn2Tiling) -> tuple[GlobalTensor, GlobalTensor]:
    """Return A and dS of a core's block."""
    step = (core * BUFFERS + block.turn % BUFFERS) * t.areas.tile_step
    a, d_s = (gm.workspace[at + step].reinterpret_cast(gm.query.dtype) for at in (t.areas.a, t.areas.d_s))
    return a, d_s


def query_sums(gm: Tensors, b: int, n1: int, s1: int, t: S1s2Bn2Tiling) -> GlobalTensor:
    """Return the sums of dQ from a row on."""
    return gm.workspace[t.areas.dq + sum_at(t.query_sums, b, n1, s1, is_nz=t.tiling.tiles.is_gradient_nz)]


def key_sums(gm: Tensors, area: int, b: int, n2: int, s2: int, t: S1s2Bn2Tiling) -> GlobalTensor:
    """Return the sums of dK or dV, whose area it is, from a row on."""
    return gm.workspace[area + sum_at(t.key_sums, b, n2, s2, is_nz=t.tiling.tiles.is_gradient_nz)]
