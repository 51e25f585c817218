"""FlashAttention backward, template B (10000): all heads of some batches at a time, for the shortest sequences.

Whole batches make a unit, of which each AIV takes some that follow one another. In layouts BSH and BSND dA and S run
synchronously: an AIV waits for both where it has ordered them. The public kernel does so batch by batch, here they are
ordered together. In the other layouts it waits where it loads them, as in template N.
Source: ops-transformer op_kernel, flash_attention_score_grad bngs1s2_b.
"""

from ascendsim.op_host.fag_whole_heads import WholeHeadsTiling
from ascendsim.op_kernel.fag_served import wait_for_scores
from ascendsim.op_kernel.fag_tensors import Tensors
from ascendsim.op_kernel.fag_whole_heads import Waits, fag_whole_heads, wait_for_both, wait_for_d_a, wait_for_nothing
from ascendsim.record import AiCore


def fag_b(asc: AiCore, gm: Tensors, t: WholeHeadsTiling) -> None:
    """Run on one core.

    Args:
        asc: the core.
        gm: the tensors.
        t: the tiling.

    Raises:
        KernelError: block_dim is not the tiling's.
    """
    at_once = Waits(wait_for_both, wait_for_nothing, wait_for_nothing)
    later = Waits(wait_for_nothing, wait_for_d_a, wait_for_scores)
    fag_whole_heads(asc, gm, at_once if t.query.layout in ("BSH", "BSND") else later, t)
