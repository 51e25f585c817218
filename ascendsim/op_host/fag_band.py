"""Which scores a call computes: tokens as the templates correct them, and whether blocks are skipped.

A score (i, j) is computed when j - i <= next and i - j <= pre. Origin of the band: top left, and after the shift of
modes 3, 4, 5 and 6 bottom right.

Source: ops-transformer op_host, flash_attention_score_grad tilings, tokens and sparse mode info.
"""

from dataclasses import dataclass

from ascendsim.op_host.fag_call import ALL_TOKENS, PREFIX_MODES, TND_BAND_MODES, FagCall
from ascendsim.op_host.fag_params import FagParams

_CAUSAL_MODES = frozenset({2, 3})
_SHIFTED_MODES = frozenset({3, 4})


@dataclass(frozen=True, slots=True)
class Band:
    """Tokens before and after the diagonal, and whether some blocks of scores are skipped."""

    pre_tokens: int
    next_tokens: int
    is_sparse: bool


def int32(value: int) -> int:
    """Return the low 32 bits of a number, with sign."""
    return (value + 2**31) % 2**32 - 2**31


def raw_tokens(params: FagParams) -> tuple[int, int]:
    """Return (pre, next) as template S1s2Bn2 reads them: 32 bits of each, not shifted."""
    return int32(params.pre_tokens), int32(params.next_tokens)


def corrected_tokens(call: FagCall, *, prefix_is_causal: bool) -> tuple[int, int]:
    """Return (pre, next) with causal modes, the bottom-right origin and an absent mask accounted for.

    Args:
        call: the call.
        prefix_is_causal: modes 5 and 6 count as causal from the bottom right, as SameAB has it; S1s2Bn2gs1s2 leaves
            their tokens alone.
    """
    mode = call.params.sparse_mode
    extra = PREFIX_MODES if prefix_is_causal else frozenset[int]()
    pre, after = call.params.pre_tokens, call.params.next_tokens
    if mode in _CAUSAL_MODES | extra:
        pre, after = ALL_TOKENS, 0
    if not call.shape.is_tnd and mode in _SHIFTED_MODES | extra:
        pre += call.shape.s1 - call.shape.s2
        after += call.shape.s2 - call.shape.s1
    if mode == 1 or call.mask is None:
        return ALL_TOKENS, ALL_TOKENS
    return pre, after


def wide_band(call: FagCall, *, prefix_is_causal: bool) -> Band:
    """Return the band of SameAB or S1s2Bn2gs1s2; the argument as in `corrected_tokens`."""
    pre, after = corrected_tokens(call, prefix_is_causal=prefix_is_causal)
    return Band(pre, after, _skips(call, pre, after))


def narrow_band(call: FagCall) -> Band:
    """Return the band of S1s2Bn2; there it decides nothing but what the kernel skips."""
    pre, after = raw_tokens(call.params)
    mode = call.params.sparse_mode
    if mode == 1 or call.mask is None:
        return Band(pre, after, is_sparse=False)
    s1, s2 = call.shape.s1, call.shape.s2
    if mode == 0:
        return Band(pre, after, is_sparse=s1 > pre or s2 > after or after == 0)
    if mode == 4 and ((s2 <= pre and s1 <= after) or pre + after < 0):
        return Band(pre, after, is_sparse=False)
    if mode in PREFIX_MODES and not has_prefix(call):
        return Band(pre, after, is_sparse=False)
    return Band(ALL_TOKENS, 0, is_sparse=True) if mode in _CAUSAL_MODES else Band(pre, after, is_sparse=True)


def has_prefix(call: FagCall) -> bool:
    """Whether prefix holds one number for each batch."""
    return call.params.shape_of("prefix") == (call.shape.b,) and len(call.params.prefix) == call.shape.b


def band_batch(call: FagCall) -> int:
    """Return the batch that is a band in modes 7 and 8: the last or first with a query; without a mask batch 0."""
    if call.mask is None or call.params.sparse_mode not in TND_BAND_MODES or not call.shape.is_tnd:
        return 0
    filled = [i for i in range(call.shape.b) if call.shape.q_lens[i]]
    if not filled:
        return 0
    return filled[-1] if call.params.sparse_mode == 7 else filled[0]


def batch_tokens(call: FagCall, band: Band, batch: int) -> tuple[int, int]:
    """Return (pre, next) of one batch of a TND call."""
    mode = call.params.sparse_mode
    is_band = batch == band_batch(call)
    causal = mode in TND_BAND_MODES and not is_band
    pre, after = (ALL_TOKENS, 0) if causal else (band.pre_tokens, band.next_tokens)
    if mode in _SHIFTED_MODES or mode == 7 or (mode == 8 and is_band):
        longer = call.shape.q_lens[batch] - call.shape.kv_lens[batch]
        pre, after = pre + longer, after - longer
    return pre, after


def _skips(call: FagCall, pre: int, after: int) -> bool:
    mode = call.params.sparse_mode
    if mode in PREFIX_MODES:
        return has_prefix(call)
    if call.shape.is_tnd:
        return True
    if mode == 1 or call.mask is None:
        return False
    if mode in _CAUSAL_MODES:
        return True
    return call.shape.s1 > pre or call.shape.s2 > after
