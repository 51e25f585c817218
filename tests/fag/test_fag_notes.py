"""What to know of a FlashAttentionScoreGrad call that runs: what is not read, and rows without a key."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.fag_notes import hidden_rows, notes
from ascendsim.op_host.fag_params import FagParams

CALL = FagParams("bf16", "BNSD", B=2, N2=2, S1=6, S2=4, D=16)
COMPRESSED = {2: (2048, 2048), 3: (2048, 2048), 4: (2048, 2048), 6: (3072, 2048)}


def texts(params, names, mask=None):
    return [(f.code, f.where, f.message) for f in notes(params, names, mask)]


def test_an_ordinary_call_has_no_notes():
    assert texts(CALL, ("query", "atten_mask", "drop_mask"), np.zeros((6, 4))) == [
        ("I-FAG-IGNORED", "tensors.drop_mask", "dropMask is given, and keepProb is 1: nothing is dropped")
    ]
    assert texts(replace(CALL, keep_prob=0.5), ("query", "drop_mask")) == []


def test_what_is_not_read_and_not_written():
    params = replace(CALL, inner_precise=2, prefix=(1, 2))
    assert texts(params, ("padding_mask", "softmax_in", "dpse")) == [
        ("I-FAG-IGNORED", "tensors.padding_mask", "paddingMask is given: the operator does not read it"),
        ("I-FAG-IGNORED", "tensors.softmax_in", "softmaxIn is given: the operator does not read it"),
        (
            "I-FAG-IGNORED",
            "tiling.inner_precise",
            (
                "innerPrecise = 2: no tiling and no kernel of the backward reads it; rows all of whose keys are hidden "
                "stay as they are"
            ),
        ),
        (
            "I-FAG-IGNORED",
            "tiling.prefix",
            "prefix is given: sparseMode 0 does not read it, only 5 and 6 do",
        ),
        ("I-FAG-DPSE", "tensors.dpse", "dpse is given: the operator never writes it"),
    ]


@given(
    mode=st.sampled_from(sorted(COMPRESSED)),
    s1=st.integers(1, 9),
    s2=st.integers(1, 9),
    pre=st.integers(-9, 9),
    after=st.integers(-9, 9),
    prefix=st.integers(0, 9),
)
def test_rows_of_a_band_are_those_without_a_score_in_it(mode, s1, s2, pre, after, prefix):
    """Against every score by itself: the band of the mode, from the top left or the bottom right."""
    params = FagParams(
        *("fp16", "BNSD"), B=1, S1=s1, S2=s2, D=16, sparse_mode=mode, atten_mask=COMPRESSED[mode], pre_tokens=pre,
        next_tokens=after, prefix=(prefix,) if mode == 6 else (),
    )  # fmt: skip
    shift = 0 if mode == 2 else s2 - s1
    before, behind = (pre, after) if mode == 4 else (100, 0)

    def is_computed(i, j):
        return -before <= j - i - shift <= behind or (mode == 6 and j < prefix)

    wanted = [not any(is_computed(i, j) for j in range(s2)) for i in range(s1)]
    assert hidden_rows(params, None, has_mask=True)[0, 0].tolist() == wanted


def test_rows_of_a_mask_are_those_that_are_all_ones():
    mask = np.zeros((2, 1, 6, 4), np.uint8)
    mask[1, 0, 3] = 1
    assert hidden_rows(CALL, mask, has_mask=True).nonzero()[0].tolist() == [1]
    assert not hidden_rows(CALL, None, has_mask=True).any()
    assert not hidden_rows(replace(CALL, sparse_mode=3), None, has_mask=False).any()


HEAD = "all keys of {} rows are hidden: their P is 1/4 = 0.25 in the blocks that the kernel computes, and 0 in a "
TAIL = "reference that leaves such rows out; {}"


@pytest.mark.parametrize(
    ("shape", "hidden", "count", "rows"),
    [
        ((6, 4), [(0,), (1,), (4,)], 12, "every batch and head: rows 0..1, 4"),
        ((2, 1, 6, 4), [(0, 0, 5), (1, 0, 0), (1, 0, 5)], 6, "b 0, every head: rows 5; b 1, every head: rows 0, 5"),
        ((2, 2, 6, 4), [(0, 0, 5), (1, 1, 0), (1, 1, 1)], 3, "b 0, n 0: rows 5; b 1, n 1: rows 0..1"),
    ],
)
def test_rows_without_a_key_are_listed(shape, hidden, count, rows):
    mask = np.zeros(shape, np.uint8)
    for at in hidden:
        mask[at] = 1
    assert texts(CALL, ("atten_mask",), mask) == [
        ("W-FAG-HIDDEN", "tensors.atten_mask", HEAD.format(count) + TAIL.format(rows))
    ]


def test_a_long_list_of_rows_is_cut_off():
    mask = np.zeros((2, 2, 6, 4), np.uint8)
    mask[:, :, ::2] = 1
    mask[0, 0, 0] = 0
    (_, _, text), = texts(CALL, ("atten_mask",), mask)  # fmt: skip
    assert text == HEAD.format(11) + TAIL.format(
        "b 0, n 0: rows 2, 4; b 0, n 1: rows 0, 2, 4; b 1, every head: rows 0, 2, 4"
    )
    mask[1, 1, 0] = 0
    (_, _, text), = texts(CALL, ("atten_mask",), mask)  # fmt: skip
    assert text == HEAD.format(10) + TAIL.format(
        "b 0, n 0: rows 2, 4; b 0, n 1: rows 0, 2, 4; b 1, n 0: rows 0, 2, 4; and 2 more ranges"
    )
