"""What to know of a FlashAttentionScoreGrad call that runs: arguments that are not read, rows without a key."""

from collections.abc import Container, Iterator
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ascendsim.errors import Finding
from ascendsim.op_host.fag_call import ALL_TOKENS, COMPRESSED_MASK_MODES, PREFIX_MODES
from ascendsim.op_host.fag_params import FagParams
from ascendsim.op_host.fag_run_rules import DPSE, HIDDEN, IGNORED, IGNORED_DROP, IGNORED_PRECISION, IGNORED_PREFIX

Array = NDArray[Any]
Bools = NDArray[np.bool_]

_MOST_RANGES: Final = 8
"""Ranges of rows that a finding lists."""


def notes(params: FagParams, given: Container[str], mask: Array | None) -> Iterator[Finding]:
    """Yield what to know of a call.

    Args:
        params: the call.
        given: its tensors, in the scenario's spelling; rows without a key are not looked for in layout TND.
        mask: values of atten_mask; None without one, or where nobody knows them.
    """
    for name, public in (("padding_mask", "paddingMask"), ("softmax_in", "softmaxIn")):
        if name in given:
            yield IGNORED.finding(f"tensors.{name}", operand=public, got="given", wanted="absent")
    if params.inner_precise:
        yield IGNORED_PRECISION.finding("tiling.inner_precise", got=params.inner_precise, wanted=0)
    if "drop_mask" in given and params.keep_prob == 1:
        yield IGNORED_DROP.finding("tensors.drop_mask", operand="dropMask", got="given", wanted="absent")
    if params.prefix and params.sparse_mode not in PREFIX_MODES:
        yield IGNORED_PREFIX.finding("tiling.prefix", operand="prefix", got=params.sparse_mode, wanted="5 or 6")
    if "dpse" in given:
        yield DPSE.finding("tensors.dpse", operand="dpse", got="given", wanted="absent")
    if not params.is_tnd:
        yield from _of_hidden(params, hidden_rows(params, mask, has_mask="atten_mask" in given))


# ---- rows without a key ----------------------------------------------------------------------------------------------


def hidden_rows(params: FagParams, mask: Array | None, *, has_mask: bool) -> Bools:
    """Return which rows have all keys hidden, to spread over [B, N1, S1].

    Args:
        params: the call.
        mask: values of atten_mask; None where nobody knows them, which counts as nothing hidden unless the sparse mode
            says it.
        has_mask: there is an atten_mask: without one nothing is hidden.
    """
    none = np.zeros((1, 1, params.q_len), np.bool_)
    if not has_mask:
        return none
    if params.sparse_mode in COMPRESSED_MASK_MODES:
        return _of_band(params)
    if mask is None:
        return none
    found = np.asarray(mask != 0).all(axis=-1)
    return found.reshape((1,) * (3 - found.ndim) + found.shape)


def _of_band(params: FagParams) -> Bools:
    """Rows whose band lies beside the keys, and that no prefix reaches."""
    row, longer = np.arange(params.q_len), params.kv_len - params.q_len
    pre, after = {
        2: (ALL_TOKENS, 0),
        4: (params.pre_tokens - longer, params.next_tokens + longer),
    }.get(params.sparse_mode, (ALL_TOKENS, longer))
    is_beside = np.maximum(row - pre, 0) > np.minimum(row + after, params.kv_len - 1)
    prefix = params.prefix if params.sparse_mode in PREFIX_MODES and params.prefix else (0,)
    return is_beside & (np.asarray(prefix)[:, None, None] <= 0)


def _of_hidden(params: FagParams, rows: Bools) -> Iterator[Finding]:
    if not rows.any():
        return
    each = prod((params.batch, params.N1)) // prod(rows.shape[:2])
    yield HIDDEN.finding(
        "tensors.atten_mask",
        operand="attenMask",
        got=int(rows.sum()) * each,
        wanted=0,
        fill={"keys": params.kv_len, "p": 1 / params.kv_len, "rows": "; ".join(_listed(rows))},
    )


def _listed(rows: Bools) -> Iterator[str]:
    """Name the rows by batch and head, those of all in one; after some ranges only how many more there are."""
    left, more = _MOST_RANGES, 0
    for label, flags in _different(rows):
        ranges = _ranges(flags)
        if ranges and left:
            yield f"{label}: rows {', '.join(ranges[:left])}"
        more += max(len(ranges) - left, 0)
        left = max(left - len(ranges), 0)
    if more:
        yield f"and {more} more ranges"


def _different(rows: Bools) -> Iterator[tuple[str, Bools]]:
    """Yield the rows of each batch and head with its name; once for all of them, or all heads, that are alike."""
    if (rows == rows[:1, :1]).all():
        yield "every batch and head", rows[0, 0]
        return
    for b, heads in enumerate(rows):
        if (heads == heads[:1]).all():
            yield f"b {b}, every head", heads[0]
            continue
        for n, flags in enumerate(heads):
            yield f"b {b}, n {n}", flags


def _ranges(flags: Bools) -> list[str]:
    """Return the true places as ranges: "3", "5..8"."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    pairs = zip(edges[::2].tolist(), (edges[1::2] - 1).tolist(), strict=True)
    return [str(first) if first == last else f"{first}..{last}" for first, last in pairs]
