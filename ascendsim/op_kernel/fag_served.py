"""Products that AIVs order and their AIC makes: two AIVs with blocks of scores of their own share one AIC.

    AIV    S and dA of its block t are there; vector steps of t; A and dS of t are there
    AIC    for AIV 0, then AIV 1:    S and dA of its block t | dQ, dK, dV of its block t - 1

In the public kernels an AIV posts its five products as messages to the matmul library's server on the AIC, once it is
through with block t - 1, in this order. In which order the server takes the messages of the two is not published: here
it goes through a round of both, AIV 0 first, so that each has its vector steps beside the other's products.

Messages and their answers stand here as cross-core flags. Those of mode 2 join both AIVs: one that an AIV sets rises
only when the other has set it, too, and one that the AIC sets is for both. So each AIV has a flag of its own, and the
other joins without making it wait: it sets the flag beforehand, as it starts a round, and takes what was set for the
other when that has long been up. Both go through the same number of rounds, also one that has no block left (inferred).
Source: ops-transformer op_kernel, flash_attention_score_grad: who orders products, and in which order.
"""

from collections.abc import Callable

from ascendsim.op_host.fag_dealing import AIV_PER_AIC, Block
from ascendsim.record import AiCore
from ascendsim.terms import CrossMode, Pipe

SCORES_ARE_THERE = 1
"""Flag of the AIC: S and dA of AIV 0 are in GM; one more for AIV 1."""
TILES_ARE_THERE = 3
"""Flag of the AIVs: A and dS of AIV 0 are in GM, and its S and dA used up; one more for AIV 1."""
SUMS_ARE_THERE = 5
"""Flag of the AIC: all that both have ordered is in GM."""


def flag_of(flag: int, aiv: int) -> int:
    """Return the id of an AIV's flag."""
    return flag + aiv


Products = Callable[[int, int], None]
"""Makes products of an AIV's (0 or 1) block of a round; nothing where it has none left."""
BlockProducts = Callable[[Block, int], None]
"""Makes products of a block of an AIV, which is numbered among all."""


def serve(asc: AiCore, rounds: int, scores: Products, gradients: Products) -> None:
    """Make the products of both AIVs, on their AIC.

    Args:
        asc: the AIC.
        rounds: blocks of the AIV that has more.
        scores: makes S and dA.
        gradients: makes dQ, dK and dV.
    """
    for turn in range(rounds + 1):
        for aiv in range(AIV_PER_AIC):
            if turn:
                asc.cross_core_wait_flag(CrossMode.AIC_AIV, Pipe.MTE2, flag_of(TILES_ARE_THERE, aiv))
            if turn < rounds:
                scores(aiv, turn)
                asc.cross_core_set_flag(CrossMode.AIC_AIV, Pipe.FIX, flag_of(SCORES_ARE_THERE, aiv))
            if turn:
                gradients(aiv, turn - 1)
    asc.cross_core_set_flag(CrossMode.AIC_AIV, Pipe.FIX, SUMS_ARE_THERE)


def serve_blocks(
    asc: AiCore, blocks: tuple[tuple[Block, ...], ...], scores: BlockProducts, gradients: BlockProducts
) -> None:
    """Make the products of the blocks of both AIVs, on their AIC.

    Args:
        asc: the AIC.
        blocks: of each AIV.
        scores: makes S and dA.
        gradients: makes dQ, dK and dV.
    """
    first = asc.get_block_idx() * AIV_PER_AIC

    def in_turn(make: BlockProducts) -> Products:
        def of_turn(aiv: int, turn: int) -> None:
            if turn < len(blocks[aiv]):
                make(blocks[aiv][turn], first + aiv)

        return of_turn

    serve(asc, max(map(len, blocks)), in_turn(scores), in_turn(gradients))


def start_turn(asc: AiCore, turn: int) -> None:
    """Join, on an AIV, what the other one's flags need of it in a round."""
    other = 1 - asc.get_sub_block_idx()
    asc.cross_core_set_flag(CrossMode.AIC_AIV, Pipe.MTE3, flag_of(TILES_ARE_THERE, other))
    if other and turn:  # AIV 1 is served behind this one: what was set for it in the round before
        wait(asc, flag_of(SCORES_ARE_THERE, other))


def wait_for_scores(asc: AiCore) -> None:
    """Wait, on an AIV, for S and dA of its block; then dQ, dK and dV of its last block but one are there, too."""
    for aiv in range(asc.get_sub_block_idx() + 1):
        wait(asc, flag_of(SCORES_ARE_THERE, aiv))


def end_turn(asc: AiCore) -> None:
    """Tell, on an AIV, that A and dS of its block are there."""
    asc.cross_core_set_flag(CrossMode.AIC_AIV, Pipe.MTE3, flag_of(TILES_ARE_THERE, asc.get_sub_block_idx()))


def wait_for_sums(asc: AiCore, rounds: int) -> None:
    """Wait, on an AIV, for all products that were ordered."""
    other = 1 - asc.get_sub_block_idx()
    if other and rounds:
        wait(asc, flag_of(SCORES_ARE_THERE, other))
    wait(asc, SUMS_ARE_THERE)


def wait(asc: AiCore, flag: int) -> None:
    """Load nothing before a flag is up."""
    asc.cross_core_wait_flag(CrossMode.AIC_AIV, Pipe.MTE2, flag)
