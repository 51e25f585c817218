"""What the tiling of FlashAttentionScoreGrad refuses: each function returns the reasons, none when all is well.

Some rules differ between templates; a call meets those of every template that is asked before one takes it.

Source: ops-transformer op_host, flash_attention_score_grad tiling, its common part and its templates.
"""

from collections.abc import Iterator
from math import prod

from ascendsim.op_host.fag_band import (
    band_batch,
    corrected_tokens,
    has_prefix,
    raw_tokens,
)
from ascendsim.op_host.fag_call import (
    AXES,
    COMPRESSED_MASK_MODES,
    TND_BAND_MODES,
    FagCall,
    RefusedError,
)
from ascendsim.op_host.fag_params import LANES, FagParams, Shape
from ascendsim.terms import ceil_div

_NEEDED = ("query", "key", "value", "dy", "softmaxMax", "softmaxSum", "attentionIn")
_MASK_DTYPES = frozenset({"bool", "uint8"})
_COMPRESSED = (2048, 2048)
_COMPRESSED_PREFIX = (3072, 2048)
_ALIBI_ROWS = 1024
_LAST_SPARSE_MODE = 8
_LAST_PSE_TYPE = 3


def refuse(reasons: Iterator[str]) -> None:
    """Raise for the reasons, if there are any.

    Raises:
        RefusedError: there are.
    """
    found = tuple(reasons)
    if found:
        raise RefusedError(*found)


# --- before any template ---


def entry_reasons(params: FagParams) -> Iterator[str]:
    """Yield why no template is asked at all: absent tensors, ranks, head count, batches, Dv beyond D."""
    absent = [name for name in _NEEDED if params.shape_of(name) is None]
    if absent:
        yield f"{', '.join(absent)} not given: the tiling needs {', '.join(_NEEDED)}"
        return
    ranks = list(_rank_reasons(params))
    yield from ranks
    if ranks:
        return
    if params.heads_given < 1:
        yield f"headNum = {params.heads_given}: must be the number of query heads, {params.N1}"
        return
    yield from _axis_reasons(params)


def _rank_reasons(params: FagParams) -> Iterator[str]:
    wanted = len(AXES[params.layout])
    for name in ("query", "key", "value"):
        shape = params.shape_of(name) or ()
        if len(shape) != wanted:
            yield f"{name} has shape {shape}: layout {params.layout} wants {wanted} axes, {_spell(params)}"


def _axis_reasons(params: FagParams) -> Iterator[str]:
    names = AXES[params.layout]
    query, key, value = (
        dict(zip(names, params.shape_of(name) or (), strict=True)) for name in ("query", "key", "value")
    )
    heads = params.heads_given
    if "B" in query and query["B"] != key["B"]:
        yield f"query has {query['B']} batches and key {key['B']}: both must have the same batch axis"
    if "H" in query and query["H"] % heads:
        yield f"query has H = {query['H']}: must be a multiple of headNum = {heads}"
    if "N" in query and query["N"] != heads:
        yield f"query has {query['N']} heads and headNum is {heads}: both must agree"
    if params.is_tnd:
        return
    if "D" in query and query["D"] != key["D"]:
        yield f"query has D = {query['D']} and key {key['D']}: both must have the same head size"
    last = names[-1]
    if key[last] < value[last]:
        yield f"value has {last} = {value[last]}, key {key[last]}: value's must not be larger"


def _spell(params: FagParams) -> str:
    return f"[{', '.join(AXES[params.layout])}]"


# --- of every template ---


def shape_reasons(call: FagCall) -> Iterator[str]:
    """Yield what is wrong with the tensors every call has."""
    params, shape = call.params, call.shape
    sizes = {"T1": shape.t1} if shape.is_tnd else {"B": shape.b, "S1": shape.s1}
    empty = [name for name, size in (sizes | {"N1": shape.n1, "D": shape.d}).items() if size == 0]
    if empty:
        yield f"{', '.join(empty)} = 0: no such axis may be empty while the outputs are not"
    rows = (shape.t1, shape.n1) if shape.is_tnd else (shape.b, shape.n1, shape.s1)
    for name in ("softmaxMax", "softmaxSum"):
        if params.shape_of(name) != (*rows, LANES):
            yield f"{name} has shape {params.shape_of(name)}: must be {(*rows, LANES)}, each statistic {LANES} times"
        if params.dtype_of(name) != "fp32":
            yield f"{name} is {params.dtype_of(name)}: must be fp32"
    yield from _like_reasons(call)


def _like_reasons(call: FagCall) -> Iterator[str]:
    params = call.params
    query, key = params.shape_of("query") or (), params.shape_of("key") or ()
    attention, dy, value = (params.shape_of(name) or () for name in ("attentionIn", "dy", "value"))
    if len(attention) != len(query) or attention[:-1] != query[:-1]:
        yield f"attentionIn has shape {attention}: must be like query, {query}, all but the last axis"
    if params.dtype_of("attentionIn") != params.dtype_of("query"):
        yield f"attentionIn is {params.dtype_of('attentionIn')}: must be {params.dtype_of('query')}, as query"
    if not _is_like(dy, query):
        yield f"dy has shape {dy}: must be like query, {query}, the last axis not larger"
    if not _is_like(value, key):
        yield f"value has shape {value}: must be like key, {key}, the last axis not larger"


def _is_like(shape: Shape, model: Shape) -> bool:
    return len(shape) == len(model) and shape[:-1] == model[:-1] and shape[-1] <= model[-1]


def keep_prob_reasons(call: FagCall) -> Iterator[str]:
    """Yield what is wrong with keepProb."""
    if not 0 < call.keep_prob <= 1:
        yield f"keep_prob = {call.params.keep_prob}: must be above 0 and at most 1"


def drop_reasons(call: FagCall, *, checks_size: bool) -> Iterator[str]:
    """Yield what is wrong with dropMask; S1s2Bn2 does not look at its size."""
    if not call.has_drop:
        return
    given = call.params.shape_of("dropMask")
    if given is None:
        yield f"keep_prob = {call.params.keep_prob} drops scores: give drop_mask, one bit for each, or keep_prob 1"
        return
    if call.params.dtype_of("dropMask") != "uint8":
        yield f"dropMask is {call.params.dtype_of('dropMask')}: must be uint8, a bit for each score"
    wanted = ceil_div(call.shape.scores, 8)
    if checks_size and prod(given) < wanted:
        yield f"dropMask has shape {given}, {prod(given)} bytes: {call.shape.scores} scores need {wanted}"


def sparse_mode_reasons(call: FagCall) -> Iterator[str]:
    """Yield what is wrong with sparseMode itself."""
    mode = call.params.sparse_mode
    if not 0 <= mode <= _LAST_SPARSE_MODE:
        yield f"sparse_mode = {mode}: must be 0..{_LAST_SPARSE_MODE}"
    elif mode in TND_BAND_MODES and call.params.layout != "TND":
        yield f"sparse_mode = {mode} is for layout TND only, not {call.params.layout}"


# --- the mask ---


def mask_reasons(call: FagCall, *, own_dtype_too: bool) -> Iterator[str]:
    """Yield what is wrong with attenMask but for its last two axes.

    Args:
        call: the call.
        own_dtype_too: query's dtype is taken, too, as S1s2Bn2 does.
    """
    mask = call.mask
    if mask is None:
        return
    dtype = call.params.dtype_of("attenMask")
    if dtype not in _MASK_DTYPES and not (own_dtype_too and dtype == call.params.dtype_of("query")):
        yield f"attenMask is {dtype}: must be bool or uint8, 1 = not computed"
    if not has_mask_form(call, mask):
        leading = ", ".join(map(str, sorted(_leading_axes(call))))
        yield f"attenMask has shape {mask}: must have two axes, or four of which the first two are one of {leading}"


def has_mask_form(call: FagCall, mask: Shape) -> bool:
    """Whether the mask has two axes, or four that start with one, or all, batches and heads."""
    if len(mask) == 2:
        return True
    return len(mask) == 4 and mask[:2] in _leading_axes(call)


def _leading_axes(call: FagCall) -> set[Shape]:
    return {(1, 1), (call.shape.b, 1), (call.shape.b, call.shape.n1)}


def mask_size_reasons(call: FagCall) -> Iterator[str]:
    """Yield what is wrong with the last two axes of attenMask, whose form is right."""
    mask = call.mask
    if mask is None or not has_mask_form(call, mask):
        return
    mode = call.params.sparse_mode
    wanted = (call.shape.s1, call.shape.s2)
    if mode in COMPRESSED_MASK_MODES:
        wanted = _COMPRESSED_PREFIX if mode == 6 else _COMPRESSED
    if mask[-2:] != wanted:
        what = "compressed mask" if mode in COMPRESSED_MASK_MODES else "mask of S1 x S2"
        yield f"attenMask has last axes {mask[-2:]}: sparse_mode {mode} wants a {what}, {wanted}"


# --- tokens and prefix ---


def raw_token_reasons(call: FagCall) -> Iterator[str]:
    """Yield what S1s2Bn2 finds wrong with preTokens and nextTokens: a band beside the scores."""
    mode = call.params.sparse_mode
    if mode not in {0, 4} | TND_BAND_MODES:
        return
    pre, after = raw_tokens(call.params)
    for s1, s2 in _checked_lengths(call):
        most_pre, most_after = (s2, s1) if mode == 0 else (s1, s2)
        if -pre > most_pre or -after > most_after or pre + after < 0:
            yield _token_reason(pre, after, s1, s2) + _wrapped_remark(call, (pre, after))
            return


def corrected_token_reasons(call: FagCall, *, prefix_is_causal: bool) -> Iterator[str]:
    """Yield what SameAB and S1s2Bn2gs1s2 find wrong with the tokens; the argument as in `corrected_tokens`."""
    mode = call.params.sparse_mode
    if mode not in {0, 4} | TND_BAND_MODES:
        return
    pre, after = corrected_tokens(call, prefix_is_causal=prefix_is_causal)
    least = 1 if call.shape.is_tnd else 0
    for s1, s2 in _checked_lengths(call):
        most_pre, most_after = (s2, s1) if mode == 0 or not call.shape.is_tnd else (s1, s2)
        if -pre > most_pre or -after > most_after or pre + after < least:
            yield _token_reason(pre, after, s1, s2)
            return


def _checked_lengths(call: FagCall) -> list[tuple[int, int]]:
    """Return the (query, key) lengths that the tokens are held against."""
    shape = call.shape
    if not shape.is_tnd:
        return [(shape.s1, shape.s2)]
    if call.params.sparse_mode in TND_BAND_MODES:
        batch = band_batch(call)
        return [(shape.q_lens[batch], shape.kv_lens[batch])]
    return list(zip(shape.q_lens[: shape.b], shape.kv_lens[: shape.b], strict=True))


def _token_reason(pre: int, after: int, s1: int, s2: int) -> str:
    return (
        f"pre_tokens = {pre}, next_tokens = {after}: no score of {s1} x {s2} lies in this band; choose tokens whose "
        "sum is not negative and that reach the scores"
    )


def _wrapped_remark(call: FagCall, read: tuple[int, int]) -> str:
    given = (call.params.pre_tokens, call.params.next_tokens)
    return "" if given == read else f"; the host reads only the low 32 bits of {given[0]} and {given[1]}"


def prefix_reasons(call: FagCall) -> Iterator[str]:
    """Yield what is wrong with prefix; only mode 6 cannot do without."""
    if call.params.sparse_mode == 6 and call.mask is not None and not has_prefix(call):
        yield (
            f"prefix has shape {call.params.shape_of('prefix')}: sparse_mode 6 wants one number for each of "
            f"{call.shape.b} batches"
        )


# --- the position bias ---


def pse_reasons(call: FagCall, tokens: tuple[int, int]) -> Iterator[str]:
    """Yield what is wrong with pseType and pseShift; tokens (pre, next) as the template has them."""
    kind = call.params.pse_type
    if not 0 <= kind <= _LAST_PSE_TYPE:
        yield f"pse_type = {kind}: must be 0..{_LAST_PSE_TYPE}"
        return
    pse = call.pse
    if pse is None:
        if kind != 1:
            yield f"pse_type = {kind} without pse: give pse, or leave pse_type at 1"
        return
    wanted = "fp32" if call.is_inner_pse else call.params.dtype_of("query")
    if call.params.dtype_of("pseShift") != wanted:
        yield f"pseShift is {call.params.dtype_of('pseShift')}: pse_type {kind} wants {wanted}"
    if call.is_inner_pse:
        yield from _slope_reasons(call, pse)
    elif not _is_outer_pse(call, pse, tokens):
        yield from _outer_pse_reason(call, pse)


def _slope_reasons(call: FagCall, pse: Shape) -> Iterator[str]:
    b, n1 = call.shape.b, call.shape.n1
    if pse not in {(n1,), (b, n1)}:
        yield f"pseShift has shape {pse}: pse_type {call.params.pse_type} wants slopes, {(n1,)} or {(b, n1)}"


def _is_outer_pse(call: FagCall, pse: Shape, tokens: tuple[int, int]) -> bool:
    shape = call.shape
    b, n1, s1, s2 = shape.b, shape.n1, shape.s1, shape.s2
    if len(pse) == 4:
        whole = {(b, n1, 1, s2), (b, n1, s1, s2), (1, n1, s1, s2)}
        if not shape.is_tnd and pse in whole:
            return True
        alibi = pse in {(1, n1, _ALIBI_ROWS, s2), (b, n1, _ALIBI_ROWS, s2)}
        causal = tokens[0] >= s1 and tokens[1] == 0
        return alibi and causal and (shape.is_tnd or s1 == s2 >= _ALIBI_ROWS)
    return shape.is_tnd and pse in {(shape.t2 * n1,), (shape.scores,)}


def _outer_pse_reason(call: FagCall, pse: Shape) -> Iterator[str]:
    shape = call.shape
    b, n1, s1, s2 = shape.b, shape.n1, shape.s1, shape.s2
    batches = "1" if b == 1 else f"1 or {b}"
    alibi = f"[{batches}, {n1}, {_ALIBI_ROWS}, {s2}] with a causal band (pre_tokens >= {s1}, next_tokens = 0)"
    if shape.is_tnd:
        yield f"pseShift has shape {pse}: must be ({shape.t2 * n1},), ({shape.scores},), or {alibi}"
    else:
        yield (
            f"pseShift has shape {pse}: must be ({b}, {n1}, {s1}, {s2}), ({b}, {n1}, 1, {s2}), (1, {n1}, {s1}, {s2}), "
            f"or {alibi} and S1 = S2 >= {_ALIBI_ROWS}"
        )


def inner_pse_reasons(call: FagCall) -> Iterator[str]:
    """Yield why S1s2Bn2gs1s2 makes no position bias itself: band modes of TND whose lengths differ."""
    if call.pse is None or not call.is_inner_pse:
        return
    mode = call.params.sparse_mode
    if mode == 7:
        yield f"pse_type {call.params.pse_type} does not go with sparse_mode 7; use 8, or an outer pse"
    if mode != 8 or not call.shape.is_tnd:
        return
    starts = _start(call.params.q_start_idx) - _start(call.params.kv_start_idx)
    for i in range(call.shape.b):
        longer = call.shape.q_lens[i] - call.shape.kv_lens[i] + (starts if i == 0 else 0)
        if longer:
            yield (
                f"batch {i} has {call.shape.q_lens[i]} queries and {call.shape.kv_lens[i]} keys: pse_type "
                f"{call.params.pse_type} with sparse_mode 8 wants equal lengths, in batch 0 with the start indices "
                "added"
            )
            return


def _start(array: tuple[int, ...]) -> int:
    return array[0] if array else 0


# --- what a template asks in its own order ---


def narrow_reasons(call: FagCall) -> Iterator[str]:
    """Yield what S1s2Bn2 refuses before it looks whether it is capable."""
    yield from shape_reasons(call)
    yield from keep_prob_reasons(call)
    yield from drop_reasons(call, checks_size=False)
    wrong_mode = list(sparse_mode_reasons(call))
    yield from wrong_mode
    if not wrong_mode:
        yield from raw_token_reasons(call)
    yield from mask_reasons(call, own_dtype_too=True)
    yield from prefix_reasons(call)
    yield from pse_reasons(call, _narrow_tokens(call))


def _narrow_tokens(call: FagCall) -> tuple[int, int]:
    """Return (pre, next) as S1s2Bn2 has them when it looks at pseShift: causal modes with a mask are set."""
    if call.params.sparse_mode in {2, 3} and call.mask is not None:
        return 2**31 - 1, 0
    return raw_tokens(call.params)


def wide_reasons(call: FagCall, *, prefix_is_causal: bool) -> Iterator[str]:
    """Yield what SameAB and S1s2Bn2gs1s2 refuse before they look whether they are capable.

    Args:
        call: the call.
        prefix_is_causal: as SameAB has it; S1s2Bn2gs1s2 has limits of its own for an inner pse instead.
    """
    yield from keep_prob_reasons(call)
    yield from drop_reasons(call, checks_size=True)
    wrong_mode = list(sparse_mode_reasons(call))
    yield from wrong_mode
    yield from mask_reasons(call, own_dtype_too=False)
    yield from mask_size_reasons(call)
    if not wrong_mode:
        yield from corrected_token_reasons(call, prefix_is_causal=prefix_is_causal)
    yield from pse_reasons(call, corrected_tokens(call, prefix_is_causal=prefix_is_causal))
    if not prefix_is_causal:
        yield from inner_pse_reasons(call)
    yield from shape_reasons(call)
