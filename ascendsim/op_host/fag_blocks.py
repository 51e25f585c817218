"""Score tiles that hold work, as template S1s2Bn2gs1s2 counts them to deal them out.

Source: ops-transformer op_host, flash_attention_score_grad tiling of S1s2Bn2gs1s2, sparse block info.
"""

from ascendsim.op_host.fag_band import Band, batch_tokens
from ascendsim.op_host.fag_call import PREFIX_MODES, FagCall
from ascendsim.terms import ceil_div


def valid_blocks(call: FagCall, band: Band, cv_s1: int, cv_s2: int) -> int:
    """Return the score tiles that hold work, of all heads and batches.

    Args:
        call: the call.
        band: as S1s2Bn2gs1s2 has it.
        cv_s1: rows of a score tile.
        cv_s2: columns of a score tile.
    """
    shape = call.shape
    if not band.is_sparse:
        per_head = shape.b * ceil_div(shape.s1, cv_s1) * ceil_div(shape.s2, cv_s2)
    elif shape.is_tnd:
        per_head = sum(
            _in_band(shape.q_lens[i], shape.kv_lens[i], batch_tokens(call, band, i), cv_s1, cv_s2)
            for i in range(shape.b)
        )
    elif call.params.sparse_mode in PREFIX_MODES:
        per_head = sum(_beside_prefix(call, prefix, cv_s1, cv_s2) for prefix in _counted_prefixes(call))
    else:
        per_head = shape.b * _in_band(shape.s1, shape.s2, (band.pre_tokens, band.next_tokens), cv_s1, cv_s2)
    return per_head * shape.n1


def _in_band(s1: int, s2: int, tokens: tuple[int, int], cv_s1: int, cv_s2: int) -> int:
    """Return the tiles of one head that touch the band."""
    pre, after = tokens
    tiles = 0
    for first in range(0, s2, cv_s2):
        behind = min(first + cv_s2, s2)
        begin = min(max(first - after, 0), s1) // cv_s1
        end = ceil_div(min(max(behind + pre, 0), s1), cv_s1)
        tiles += max(0, end - begin)
    return tiles


def _counted_prefixes(call: FagCall) -> list[int]:
    """Return the prefix each batch is counted with: those that reach no row share the first such batch's."""
    beyond: int | None = None
    found = []
    for prefix in call.params.prefix:
        if call.shape.s1 > call.shape.s2 - prefix:
            found.append(prefix)
            continue
        beyond = prefix if beyond is None else beyond
        found.append(beyond)
    return found


def _beside_prefix(call: FagCall, prefix: int, cv_s1: int, cv_s2: int) -> int:
    """Return the tiles of one head: every row left of the prefix, right of it those below the diagonal."""
    s1, s2 = call.shape.s1, call.shape.s2
    tiles = 0
    for first in range(0, s2, cv_s2):
        start = min(first + s1 - s2, s1) if first > prefix else 0
        tiles += ceil_div(s1 - start, cv_s1)
    return tiles
