"""Which parts of its optional tensors a block of scores and a vector sub-tile of FlashAttention backward read.

For templates that go through blocks of one head: attention masks, whole or compressed, position bias, dropout mask.
Source: ops-transformer op_kernel, flash_attention_score_grad SameAB and S1s2Bn2gs1s2.
"""

from dataclasses import dataclass

from ascendsim.dtypes import UINT8
from ascendsim.memory import GlobalTensor
from ascendsim.op_host.fag_call import PREFIX_MODES
from ascendsim.op_host.fag_dealing import Block
from ascendsim.op_host.fag_kernel_tiling import BlockTiling
from ascendsim.op_host.fag_parts import BiasRows
from ascendsim.op_kernel.fag_tensors import Tensors
from ascendsim.op_kernel.fag_tiles import Bias, Dropout, Masks, SubTile

SMALL_MASK = 2048
"""Rows and columns of a compressed mask."""
PREFIX_COLUMN = SMALL_MASK // 2
"""Column of the rows below it from which on a compressed mask with prefixes is 1."""


@dataclass(frozen=True, slots=True)
class MasksAt:
    """Where the masks of a sub-tile begin, as in `Masks`; None for no such mask."""

    hides: int | None = None
    beside: int | None = None
    keeps: int | None = None


def part_of(gm: GlobalTensor | None, begin: int | None) -> GlobalTensor | None:
    """Return a tensor from an element on, None without a tensor or a begin."""
    return None if gm is None or begin is None else gm[begin]


def masks_of(mask: GlobalTensor | None, at: MasksAt) -> Masks:
    """Return the masks of a sub-tile, in the mask of its block."""
    return Masks(part_of(mask, at.hides), part_of(mask, at.beside), part_of(mask, at.keeps))


# ---- attention mask --------------------------------------------------------------------------------------------------


def masks_at(row: int, column: int, sub: SubTile, block: Block, t: BlockTiling) -> MasksAt:
    """Return where the masks of a sub-tile begin.

    A whole mask is read for every sub-tile. Of a compressed one, 1 right of the diagonal, the part is read whose
    diagonal is the band's edge, and only where the edge cuts the sub-tile. With prefixes every sub-tile reads one.
    """
    if not t.has_mask:
        return MasksAt()
    if not t.is_compressed:
        return MasksAt(row * t.key.s + column)
    apart = block.s1 + row - block.s2 - column
    next_edge, pre_edge = apart + t.next_tokens, apart - t.pre_tokens - 1
    if t.call.params.sparse_mode in PREFIX_MODES:
        return _prefix_masks_at(next_edge, t.call.params.prefix[block.b] - block.s2 - column, sub, block, t)
    return MasksAt(
        hides=_small_mask_at(next_edge, sub) if next_edge < sub.columns else None,
        keeps=_small_mask_at(pre_edge, sub) if pre_edge + sub.rows >= 0 else None,
    )


def _prefix_masks_at(edge: int, spared: int, sub: SubTile, block: Block, t: BlockTiling) -> MasksAt:
    """Return where the masks of a sub-tile begin of which the first `spared` columns belong to the prefix.

    Rows 2048 on of the compressed mask are 0 left of column 1024 and 1 from there on. A prefix that reaches no row
    beyond the diagonal counts as none.
    """
    if t.query.s + t.call.params.prefix[block.b] <= t.key.s:
        return MasksAt(_small_mask_at(edge, sub))
    if spared >= sub.columns:
        return MasksAt(SMALL_MASK * SMALL_MASK)
    return MasksAt(_small_mask_at(edge, sub), SMALL_MASK * SMALL_MASK + PREFIX_COLUMN - max(spared, 0))


def _small_mask_at(edge: int, sub: SubTile) -> int:
    """Return where in a compressed mask an edge lies that is so many columns right of the sub-tile's diagonal."""
    return min(-edge, sub.rows) if edge < 0 else min(edge, sub.columns) * SMALL_MASK


def mask_of_block(gm: Tensors, block: Block, n1: int, t: BlockTiling) -> tuple[GlobalTensor | None, int]:
    """Return the mask from a block's first score on, a compressed one from its own begin, and its pitch."""
    mask = gm.atten_mask
    if mask is None or t.is_compressed:
        return mask, SMALL_MASK
    axes = (1, 1, *mask.shape)[-4:]
    b, n = (block.b if axes[0] > 1 else 0), (n1 if axes[1] > 1 else 0)
    row = (b * axes[1] + n) * axes[2] + block.s1
    return mask[row * t.key.s + block.s2], t.key.s


# ---- position bias ---------------------------------------------------------------------------------------------------


def bias_form(t: BlockTiling) -> Bias | None:
    """Return how pseShift comes to the scores."""
    return Bias(t.bias.pitch, t.bias.comes_first) if t.bias else None


def bias_of_block(gm: Tensors, block: Block, n1: int, t: BlockTiling) -> GlobalTensor | None:
    """Return pseShift from where the biases of a block's sub-tiles are counted."""
    if gm.pse_shift is None or t.bias is None:
        return None
    return gm.pse_shift[t.bias.head_at(block.b, n1) + _block_bias(block, t.bias)]


def bias_at(row: int, column: int, sub: SubTile, block: Block, t: BlockTiling) -> int:
    """Return where the bias of a sub-tile begins, behind that of its block; its row and column are the block's."""
    if t.bias is None:
        return 0
    return t.bias.at(block.s1 + row, block.s2 + column, sub.rows, sub.columns) - _block_bias(block, t.bias)


def _block_bias(block: Block, bias: BiasRows) -> int:
    """Return from where in its head the biases of a block's sub-tiles are counted."""
    return 0 if bias.is_cut else bias.at(block.s1, block.s2, block.rows, block.columns)


# ---- dropout mask ----------------------------------------------------------------------------------------------------


def dropout(t: BlockTiling) -> Dropout | None:
    """Return how scores are dropped."""
    return Dropout(t.call.keep_prob, t.areas.kept is not None, t.key.s) if t.call.has_drop else None


def kept_of_block(gm: Tensors, block: Block, n1: int, t: BlockTiling) -> GlobalTensor | None:
    """Return the dropout mask from a block's first score on."""
    drop = dropout(t)
    if drop is None:
        return None
    score = ((block.b * t.query.n + n1) * t.query.s + block.s1) * t.key.s + block.s2
    return all_kept(gm, t.areas.kept)[drop.bytes_of(score)]


def all_kept(gm: Tensors, at: int | None) -> GlobalTensor:
    """Return the dropout mask: the bytes that the pre pass has made at a place in the workspace, or the bits."""
    if at is not None:
        return gm.workspace[at].reinterpret_cast(UINT8)
    assert gm.drop_mask is not None
    return gm.drop_mask
