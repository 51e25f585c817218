"""What templates of FlashAttention backward share that go through blocks of scores: a product, and its operands in GM.

Products go through the matmul operator's own loop, as the matmul library's is not published.
Source: ops-transformer op_kernel, flash_attention_score_grad S1s2Bn2, S1s2Bn2gs1s2 and SameAB.
"""

from dataclasses import dataclass

from ascendsim.memory import GlobalTensor
from ascendsim.op_host.fag_dealing import Block
from ascendsim.op_host.fag_kernel_tiling import BlockTiling
from ascendsim.op_host.matmul import MatmulTiling, blocks_of_core
from ascendsim.op_kernel.fag_tensors import Tensors
from ascendsim.op_kernel.matmul import Operands, Queues, iterate_all
from ascendsim.record import AiCore, tile


@dataclass(frozen=True, slots=True)
class BlockOperands:
    """The tensors that a block's products read, from the block's first row on."""

    query: GlobalTensor
    key: GlobalTensor
    value: GlobalTensor
    dy: GlobalTensor


def operands_of(gm: Tensors, block: Block, t: BlockTiling) -> BlockOperands:
    """Return what a block's products read."""
    n1 = t.call.shape.query_head(block.n2, block.g)
    return BlockOperands(
        gm.query[t.query.at(block.b, n1, block.s1)],
        gm.key[t.key.at(block.b, block.n2, block.s2)],
        gm.value[t.value.at(block.b, block.n2, block.s2)],
        gm.dy[t.out.at(block.b, n1, block.s1)],
    )


@tile
def multiply(
    asc: AiCore, a: GlobalTensor, b: GlobalTensor, c: GlobalTensor, queues: Queues, product: MatmulTiling, adds: bool
) -> None:
    """Make a whole product, C = A B or C += A B.

    Args:
        asc: the AIC.
        a: left operand.
        b: right operand.
        c: the result.
        queues: of all products.
        product: the tiling.
        adds: to what C holds.
    """
    iterate_all(asc, Operands(a, b, None, c), queues, blocks_of_core(product, 1, 0), product, adds=adds)
