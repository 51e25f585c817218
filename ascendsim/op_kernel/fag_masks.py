"""Where the attention mask of a vector sub-tile lies.

Of a whole mask it is the sub-tile's own part. Of a compressed one, 1 right of the diagonal, it is the part whose
diagonal is the band's edge, and only where the edge cuts the sub-tile.

Source: ops-transformer op_kernel, flash_attention_score_grad: mask class of a sub-tile in compressed modes.
"""

from dataclasses import dataclass

from ascendsim.memory import GlobalTensor
from ascendsim.op_host.fag_dealing import Block

SMALL_MASK = 2048
"""Rows and columns of a compressed mask's triangle."""


@dataclass(frozen=True, slots=True)
class MaskRule:
    """How scores are hidden.

    Attributes:
        is_compressed: the mask is one small triangle.
        columns: of a whole mask, S2.
        next_tokens, pre_tokens: the band of a compressed one.
    """

    is_compressed: bool
    columns: int
    next_tokens: int
    pre_tokens: int

    @property
    def pitch(self) -> int:
        """From row to row of the mask."""
        return SMALL_MASK if self.is_compressed else self.columns


def mask_of_block(mask: GlobalTensor, block: Block, n1: int, rule: MaskRule) -> GlobalTensor:
    """Return a whole mask from the block's first score on, spread over batches and heads; a compressed one as it is."""
    if rule.is_compressed:
        return mask
    axes = (1, 1, *mask.shape)[-4:]
    b, n = (block.b if axes[0] > 1 else 0), (n1 if axes[1] > 1 else 0)
    row = (b * axes[1] + n) * axes[2] + block.s1
    return mask[row * rule.columns + block.s2]


def masks_of_tile(
    block: Block, place: tuple[int, int], lengths: tuple[int, int], rule: MaskRule
) -> tuple[int | None, int | None]:
    """Return where the masks of a sub-tile begin in `mask_of_block`: one that hides, one that keeps; None for none.

    Args:
        block: the block.
        place: row and column of the sub-tile in it.
        lengths: its rows and columns.
        rule: how scores are hidden.
    """
    (row, column), (rows, columns) = place, lengths
    if not rule.is_compressed:
        return row * rule.columns + column, None
    apart = block.s1 + row - block.s2 - column
    next_edge, pre_edge = apart + rule.next_tokens, apart - rule.pre_tokens - 1
    return (
        _small_mask_at(next_edge, lengths) if columns - 1 > next_edge else None,
        _small_mask_at(pre_edge, lengths) if pre_edge + rows - 1 >= 0 else None,
    )


def _small_mask_at(edge: int, lengths: tuple[int, int]) -> int:
    """Return where in a compressed mask an edge lies that is so many columns right of the sub-tile's diagonal."""
    rows, columns = lengths
    return min(-edge, rows) if edge < 0 else min(edge, columns) * SMALL_MASK
