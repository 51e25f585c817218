"""What kernels of FlashAttentionScoreGrad take, as far as all templates, or all that go through blocks, have it.

Source: ops-transformer op_kernel, flash_attention_score_grad.
"""

from dataclasses import dataclass

from ascendsim.op_host.fag_call import FagCall
from ascendsim.op_host.fag_dealing import Block, Dealing
from ascendsim.op_host.fag_parts import BiasRows, Rows
from ascendsim.op_host.fag_result import FagTiling, PostPass, PrePass
from ascendsim.op_host.matmul import MatmulTiling


@dataclass(frozen=True, slots=True)
class KernelTiling:
    """What the kernel of any template takes.

    Attributes:
        names: the GM tensors it is called with, in order.
        call: as the kernel gets it.
        tiling: the host tiling.
        block_dim: AI Cores.
        workspace_bytes: of the workspace.
        dealing: who computes which block, or which heads.
        query, key, value, out: rows of query and dq; key and dk; value and dv; dy and attentionIn.
        ub_bytes: UB that the kernel takes.
        pre, post: the passes around the main one.
        scale: scaleValue as the kernel's float.
    """

    names: tuple[str, ...]
    call: FagCall
    tiling: FagTiling
    block_dim: int
    workspace_bytes: int
    dealing: Dealing
    query: Rows
    key: Rows
    value: Rows
    out: Rows
    ub_bytes: int
    pre: PrePass
    post: PostPass
    scale: float


@dataclass(frozen=True, slots=True)
class Products:
    """The five products of a block, in the order of their issue.

    Attributes:
        d_a: dA = dY V^T.
        scores: S = Q K^T.
        dq: dQ += dS K.
        dk: dK += dS^T Q.
        dv: dV += A^T dY.
    """

    d_a: MatmulTiling
    scores: MatmulTiling
    dq: MatmulTiling
    dk: MatmulTiling
    dv: MatmulTiling

    def are_of(self, block: Block) -> bool:
        """Whether they are those of a block, which has as many rows and columns."""
        return (block.rows, block.columns) == (self.scores.m, self.scores.n)


@dataclass(frozen=True, slots=True)
class BlockAreas:
    """Where areas of the workspace begin that all templates with blocks have [floats].

    Attributes:
        dq, dk, dv: sums; dv is not used where the output tensor is summed into.
        d_a, scores: of the first core.
        kept: bytes of the dropout mask; None where its bits are read, or there is none.
    """

    dq: int
    dk: int
    dv: int
    d_a: int
    scores: int
    kept: int | None


@dataclass(frozen=True, slots=True)
class BlockTiling(KernelTiling):
    """What the kernel of a template takes that goes through blocks of scores.

    Attributes:
        areas: of the workspace.
        products: of a full block; its buffers serve all blocks.
        next_tokens, pre_tokens: the band; in S1s2Bn2gs1s2 with prefixes that from the bottom right.
        has_mask: there is an attention mask.
        is_compressed: the mask is one small triangle.
        bias: where pseShift lies, None without one.
    """

    areas: BlockAreas
    products: Products
    next_tokens: int
    pre_tokens: int
    has_mask: bool
    is_compressed: bool
    bias: BiasRows | None
