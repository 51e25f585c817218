"""Flash attention in float64: against plain loops, and its gradients against differences."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from ascendsim.reference import attention
from ascendsim.reference.attention import ALIBI_ROWS, LAYOUTS, Attention, Part, from_bnsd, to_bnsd

B, N2, G, S1, S2, D, DV = 2, 2, 2, 5, 7, 4, 3
N1 = N2 * G


def make(seed, layout="BNSD", heads=(N1, N2)):
    rng = np.random.default_rng(seed)
    q, k, v = (
        rng.normal(size=(B, heads[0], S1, D)),
        rng.normal(size=(B, heads[1], S2, D)),
        rng.normal(size=(B, heads[1], S2, DV)),
    )
    return tuple(from_bnsd(x, layout) for x in (q, k, v))


def extras(seed, pse_shape, has_mask, has_drop):
    rng = np.random.default_rng(100 + seed)
    found = {}
    if pse_shape:
        found["pse"] = rng.normal(size=pse_shape)
    if has_mask:
        found["atten_mask"] = rng.random((S1, S2)) < 0.3
        found["atten_mask"][:, 0] = False
    if has_drop:
        found["drop_mask"] = rng.integers(0, 256, size=math.ceil(B * N1 * S1 * S2 / 8)).astype(np.uint8)
    return found


def plain(q, k, v, layer, pse=None, atten_mask=None, drop_mask=None):
    """The output of one layer in BNSD, element by element."""
    out = np.zeros((B, N1, S1, DV))
    for b, n, i in itertools.product(range(B), range(N1), range(S1)):
        scores = []
        for j in range(S2):
            dot = sum(q[b, n, i, d] * k[b, n // G, j, d] for d in range(D))
            bias = 0.0 if pse is None else np.broadcast_to(pse, (B, N1, S1, S2))[b, n, i, j]
            score = (dot + bias) * layer.scale if layer.pse_type == 1 else dot * layer.scale + bias
            if atten_mask is not None and atten_mask[i, j]:
                score = -3.4028234663852886e38
            scores.append(score)
        powers = [math.exp(s - max(scores)) for s in scores]
        for j in range(S2):
            number = ((b * N1 + n) * S1 + i) * S2 + j
            keep = 1.0
            if drop_mask is not None:
                keep = (int(drop_mask[number // 8]) >> number % 8 & 1) / layer.keep_prob
            out[b, n, i] += powers[j] / sum(powers) * keep * v[b, n // G, j]
    return out


@pytest.mark.parametrize("pse_type", [0, 1])
@pytest.mark.parametrize(("pse_shape", "has_mask", "has_drop"), [
    (None, False, False), ((B, N1, S1, S2), True, False), ((1, N1, 1, S2), False, True), ((B, N1, 1, S2), True, True),
])  # fmt: skip
def test_forward_is_what_loops_give(pse_type, pse_shape, has_mask, has_drop):
    layer = Attention(N1, 0.5, kv_head_num=N2, pse_type=pse_type, keep_prob=0.75 if has_drop else 1.0)
    q, k, v = make(1)
    more = extras(1, pse_shape, has_mask, has_drop)
    got = layer.forward(q, k, v, **more)
    assert np.allclose(got.attention_in, plain(q, k, v, layer, **more), rtol=1e-13, atol=1e-13)
    more.pop("drop_mask", None)
    assert np.allclose(layer.probabilities(q, k, v, **more).sum(axis=-1), 1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("pse_type", [0, 1])
@pytest.mark.parametrize(("pse_shape", "has_mask", "has_drop"), [
    (None, False, False), ((B, N1, S1, S2), True, True), ((1, N1, 1, S2), True, True),
])  # fmt: skip
def test_gradients_are_differences(layout, pse_type, pse_shape, has_mask, has_drop):
    layer = Attention(N1, 0.6, layout, N2, pse_type, 0.8 if has_drop else 1.0)
    tensors = dict(zip(("query", "key", "value"), make(2, layout), strict=True))
    more = extras(2, pse_shape, has_mask, has_drop)
    dy = np.random.default_rng(7).normal(size=layer.forward(**tensors, **more).attention_in.shape)
    grads = layer.backward(*tensors.values(), dy, **more)
    step = 1e-6
    for name, grad in (("query", grads.dq), ("key", grads.dk), ("value", grads.dv), ("pse", grads.dpse)):
        given = tensors.get(name, more.get(name))
        if given is None:
            assert grad is None
            continue
        assert grad.shape == given.shape
        for at in np.random.default_rng(3).integers(0, given.size, size=12).tolist():
            ends = []
            for sign in (1, -1):
                moved = given.copy()
                moved.reshape(-1)[at] += sign * step
                ends.append((dy * layer.forward(**(tensors | more | {name: moved})).attention_in).sum())
            assert grad.reshape(-1)[at] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=2e-6, abs=2e-8)


LENGTH = 1500
"""Rows and columns of scores whose bias is cut to 1,024 rows."""


def test_the_last_rows_of_a_bias_stand_for_all_of_it():
    """A bias of i - j alone, whole and cut to its last rows, under a causal mask."""
    rng = np.random.default_rng(9)
    q, k, v, dy = (rng.normal(size=(2, 2, LENGTH, 2)) for _ in range(4))
    slopes = rng.normal(size=(2, 2, 1, 1)) / 100
    bias = slopes * (np.arange(LENGTH)[:, None] - np.arange(LENGTH))
    masked = {"atten_mask": np.triu(np.ones((LENGTH, LENGTH), np.bool_), 1)}
    layer = Attention(2, 0.7, pse_type=0)
    whole, cut = (layer.backward(q, k, v, dy, pse=pse, **masked) for pse in (bias, bias[:, :, -ALIBI_ROWS:]))
    for name in ("dq", "dk", "dv"):
        assert np.allclose(getattr(cut, name), getattr(whole, name), rtol=1e-12, atol=1e-12)
    assert cut.dpse.shape == (2, 2, ALIBI_ROWS, LENGTH)
    diagonals = np.arange(LENGTH - ALIBI_ROWS, LENGTH)[:, None] - np.arange(LENGTH)
    for number in (0, 1, 700, LENGTH - 1):
        assert cut.dpse[1, 0][diagonals == number].sum() == pytest.approx(np.trace(whole.dpse[1, 0], -number), rel=1e-9)


def test_gradients_of_a_cut_bias_are_differences(monkeypatch):
    monkeypatch.setattr(attention, "ALIBI_ROWS", 3)
    rng = np.random.default_rng(10)
    q, k, v, dy = (rng.normal(size=(1, 2, 7, 3)) for _ in range(4))
    pse, mask = rng.normal(size=(1, 2, 3, 7)), np.triu(np.ones((7, 7), np.bool_), 1)
    layer, step = Attention(2, 0.6), 1e-6
    grad = layer.backward(q, k, v, dy, pse=pse, atten_mask=mask).dpse
    for at in np.ndindex(pse.shape):
        ends = []
        for sign in (1, -1):
            moved = pse.copy()
            moved[at] += sign * step
            ends.append((dy * layer.forward(q, k, v, pse=moved, atten_mask=mask).attention_in).sum())
        assert grad[at] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=2e-6, abs=2e-8)


def test_scores_that_are_left_out_matter_for_rows_without_a_key_alone():
    """Such a row has P = 1 / S2, here in the first two of seven columns."""
    mask = np.zeros((S1, S2), np.bool_)
    mask[:, 3:] = True
    mask[2] = True
    left_out = np.zeros((S1, S2), np.bool_)
    left_out[:, 3:] = True
    left_out[2, 2:] = True
    q, k, v = make(11)
    dy = np.random.default_rng(12).normal(size=(B, N1, S1, DV))
    layer = Attention(N1, 0.5, kv_head_num=N2)
    all_of_it, part = (layer.backward(q, k, v, dy, atten_mask=mask, left_out=left) for left in (None, left_out))
    others = [0, 1, 3, 4]
    assert np.array_equal(part.dq[:, :, others], all_of_it.dq[:, :, others])
    assert not np.allclose(part.dq[:, :, 2], all_of_it.dq[:, :, 2])
    missing = dy[:, :, 2].reshape(B, N2, G, DV).sum(axis=2) / S2
    away = all_of_it.dv - part.dv
    assert np.allclose(away[:, :, 2:], missing[:, :, None], rtol=1e-12)
    assert not np.abs(away[:, :, :2]).any()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_and_back(layout):
    x = np.random.default_rng(5).normal(size=(B, N1, S1, D))
    there = from_bnsd(x, layout)
    assert np.array_equal(to_bnsd(there, layout, N1), x)
    b, n, s, d = 1, 2, 3, 1
    places = {"BSH": (b, s, n * D + d), "SBH": (s, b, n * D + d), "BSND": (b, s, n, d), "BNSD": (b, n, s, d)}
    assert there[places[layout]] == x[b, n, s, d]


def test_all_layouts_give_the_same():
    want = None
    for layout in LAYOUTS:
        layer = Attention(N1, 0.5, layout, N2)
        out = to_bnsd(layer.forward(*make(4, layout)).attention_in, layout, N1)
        want = out if want is None else want
        assert np.allclose(out, want, rtol=0, atol=1e-15)


def test_a_row_without_keys_is_one_over_s2_in_the_kernels_and_zero_if_asked():
    mask = np.zeros((S1, S2), np.bool_)
    mask[2] = True
    q, k, v = make(6)
    layer = Attention(N1, 0.5, kv_head_num=N2)
    kernels = layer.probabilities(q, k, v, atten_mask=mask)
    assert np.allclose(kernels[:, :, 2], 1 / S2)
    assert layer.forward(q, k, v, atten_mask=mask).hidden_rows.nonzero()[2].tolist() == [2] * (B * N1)
    zero = replace(layer, hidden_row_is_zero=True).probabilities(q, k, v, atten_mask=mask)
    assert not zero[:, :, 2].any()
    assert np.array_equal(zero[:, :, 3], kernels[:, :, 3])


def test_statistics_repeat_a_rows_value_eight_times():
    q, k, v = make(8)
    got = Attention(N1, 0.5, kv_head_num=N2).forward(q, k, v)
    scores = 0.5 * np.einsum("bnid,bnjd->bnij", q, np.repeat(k, G, axis=1))
    assert got.softmax_max.shape == got.softmax_sum.shape == (B, N1, S1, 8)
    assert np.array_equal(got.softmax_max, np.repeat(got.softmax_max[..., :1], 8, -1))
    assert np.allclose(got.softmax_max[..., 0], scores.max(-1), rtol=1e-13)
    assert np.allclose(got.softmax_sum[..., 0], np.exp(scores - scores.max(-1, keepdims=True)).sum(-1))


def test_the_lowest_bit_of_a_byte_is_the_first():
    """Nine scores in a row; the values say which stay."""
    layer = Attention(1, 1.0, keep_prob=0.5)
    q, k, v = np.zeros((1, 1, 1, 1)), np.zeros((1, 1, 9, 1)), np.arange(1.0, 10).reshape(1, 1, 9, 1)
    out = layer.forward(q, k, v, drop_mask=np.uint8([0b00000101, 1])).attention_in
    assert out.item() == pytest.approx((1 + 3 + 9) / 9 / 0.5, rel=1e-15)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Attention(3, 1.0, kv_head_num=2).forward(*make(1)), "head_num 3 is no multiple of kv_head_num 2"),
        (lambda: to_bnsd(np.zeros((2, 3, 10)), "BSH", 4), r"BSH tensor of shape \(2, 3, 10\) with 4 heads"),
        (lambda: to_bnsd(np.zeros((2, 3, 4, 5)), "TND", 3), "layout 'TND' of shape .*: must be one of BSH, SBH"),
        (lambda: to_bnsd(np.zeros((2, 3, 4, 5)), "BNSD", 4), "BNSD tensor has 3 heads, 4 are wanted"),
        (
            lambda: Attention(N1, 1.0, kv_head_num=N2).forward(*make(1), drop_mask=np.uint8([1])),
            "the drop mask has 8 bits, 280 are needed",
        ),
        (
            lambda: Attention(N1, 1.0, kv_head_num=N2).forward(*make(1), pse=np.zeros((1, N1, 2, S2))),
            r"pse of shape \(1, 4, 2, 7\) does not spread to \(2, 4, 5, 7\)",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("pse_shape", "has_mask", "has_drop"), [(None, False, False), ((B, N1, S1, S2), True, True)])
@pytest.mark.parametrize("scores", [1, 2 * S2, 1 << 22])
def test_what_is_wanted_is_what_it_would_be_of_all(layout, pse_shape, has_mask, has_drop, scores, monkeypatch):
    rng = np.random.default_rng(scores)
    layer = Attention(N1, 0.5, layout, N2, keep_prob=0.7 if has_drop else 1.0)
    q, k, v = make(1, layout)
    dy = from_bnsd(rng.normal(size=(B, N1, S1, DV)), layout)
    more = extras(1, pse_shape, has_mask, has_drop)
    whole, gradients = layer.forward(q, k, v, **more), layer.backward(q, k, v, dy, **more)
    monkeypatch.setattr(attention, "MOST_SCORES", scores)  # rows at a time
    rows, keys = rng.random((B, N1, S1)) < 0.3, rng.random((B, N2, S2)) < 0.3
    keys[0] = False
    part = layer.forward(q, k, v, **more, wanted=rows)
    for name in ("softmax_max", "softmax_sum"):
        assert np.allclose(getattr(part, name)[rows], getattr(whole, name)[rows], rtol=1e-14, atol=1e-14)
        assert not getattr(part, name)[~rows].any()
    outs = [to_bnsd(one.attention_in, layout, N1) for one in (part, whole)]
    assert np.allclose(outs[0][rows], outs[1][rows], rtol=1e-14, atol=1e-14)
    some = layer.backward(q, k, v, dy, **more, part=Part(rows, keys))
    assert some.dpse is None
    for name, heads, wanted in (("dq", N1, rows), ("dk", N2, keys), ("dv", N2, keys)):
        got, want = (to_bnsd(getattr(one, name), layout, heads)[wanted] for one in (some, gradients))
        assert np.allclose(got, want, rtol=1e-12, atol=1e-12)
