"""FlashAttention backward, template N (11000): some heads of a batch at a time, for very short sequences.

Heads of one batch make a unit, of which each AIV takes some that follow one another. All five products of a unit run
beside other work, see `fag_whole_heads`; an AIV waits for dA and S where it loads them.
Source: ops-transformer op_kernel, flash_attention_score_grad ngs1s2_bn.
"""

from ascendsim.op_host.fag_whole_heads import WholeHeadsTiling
from ascendsim.op_kernel.fag_served import wait_for_scores
from ascendsim.op_kernel.fag_tensors import Tensors
from ascendsim.op_kernel.fag_whole_heads import Waits, fag_whole_heads, wait_for_d_a, wait_for_nothing
from ascendsim.record import AiCore


def fag_n(asc: AiCore, gm: Tensors, t: WholeHeadsTiling) -> None:
    """Run on one core.

    Args:
        asc: the core.
        gm: the tensors.
        t: the tiling.

    Raises:
        KernelError: block_dim is not the tiling's.
    """
    fag_whole_heads(asc, gm, Waits(wait_for_nothing, wait_for_d_a, wait_for_scores), t)
