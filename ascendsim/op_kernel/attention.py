"""What kernels of attention share: waiting inside a core, flags between an AIC and its AIVs, who is how far ahead.

An AIC makes the scores of some blocks, tells its AIVs, and goes on with the next ones before it takes back what they
have made of them. What else such kernels share lies where it belongs: `fag_passes.zero`, which clears sums; on the host
`estimates`, `fag_workspace` and `fag_result.PrePass`; in float64 `reference.attention.d_scores`.
Source: ops-transformer op_kernel, flash_attention_score_grad; ascend-transformer-boost, laser_attention_grad kernel.
"""

from collections.abc import Iterator

from ascendsim.record import AiCore, tile
from ascendsim.terms import CrossMode, HardEvent, Pipe


def pass_on(asc: AiCore, event: HardEvent, event_id: int) -> None:
    """Let one pipe wait for what the other has done so far."""
    asc.set_flag(event, event_id)
    asc.wait_flag(event, event_id)


@tile
def tell(asc: AiCore, pipe: Pipe, flag_id: int) -> None:
    """Tell the other side of an AIC and its AIVs what a pipe has done so far."""
    asc.cross_core_set_flag(CrossMode.AIC_AIV, pipe, flag_id)


@tile
def wait_for(asc: AiCore, flag_id: int) -> None:
    """Load nothing before the other side has told."""
    asc.cross_core_wait_flag(CrossMode.AIC_AIV, Pipe.MTE2, flag_id)


def turns(count: int, ahead: int) -> Iterator[tuple[int | None, int | None]]:
    """Yield for each turn of an AIC what it begins, and what it takes back, begun so many turns before; None for none.

    Args:
        count: blocks, or rounds of blocks.
        ahead: how many are begun before the first is taken back.
    """
    for turn in range(count + ahead):
        yield turn if turn < count else None, turn - ahead if turn >= ahead else None


def wrong_block_dim(asc: AiCore, block_dim: int, dealt: str) -> str:
    """Return what to say where a kernel runs on other AI Cores than its tiling deals its blocks or heads to."""
    return (
        f"block_dim {asc.get_block_num()}: the tiling deals its {dealt} to {block_dim} AI Cores; leave block_dim "
        "out, and give a [platform] with fewer cores for a smaller part"
    )
