"""The float64 backward of LaserAttentionGrad, against differences and the general attention; relative errors."""

import numpy as np
import pytest

from ascendsim.reference.attention import Attention
from ascendsim.reference.laser_attention_grad import LaserAttention
from ascendsim.reference.relative_errors import RelativeErrors, relative_errors

S = 8


def drawn(heads=2, kv_heads=2, sizes=(6, 6, 6), layout="BNSD", length=S):
    random = np.random.default_rng(1)

    def tensor(count, columns):
        shape = (length, 1, count * columns) if layout == "SBH" else (1, count, length, columns)
        return random.uniform(-1, 1, shape)

    q, k, v = (tensor(n, d) for n, d in zip((heads, kv_heads, kv_heads), sizes, strict=True))
    return q, k, v, tensor(heads, sizes[2]) / 2


def backward(layer, tensors, mask):
    q, k, v, dy = tensors
    return layer.backward(q, k, v, dy, layer.forward(q, k, v, mask), mask)


TRIANGLE = 1 - np.tri(S)


@pytest.mark.parametrize("layout", ["BNSD", "SBH"])
@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("mask", [None, TRIANGLE])
def test_it_is_the_backward_of_attention(layout, kv_heads, mask):
    tensors = drawn(kv_heads=kv_heads, layout=layout)
    found = backward(LaserAttention(2, kv_heads, 0.3, layout), tensors, mask)
    wanted = Attention(2, 0.3, layout, kv_heads).backward(*tensors, atten_mask=mask)
    for name in ("dq", "dk", "dv"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=0, atol=1e-14)


def test_a_window_hides_what_lies_further_back():
    tensors, window = drawn(), 3
    far = np.arange(S) < np.arange(S)[:, None] - window
    found = backward(LaserAttention(2, 2, 0.3, window=window), tensors, TRIANGLE)
    wanted = Attention(2, 0.3, "BNSD", 2).backward(*tensors, atten_mask=(TRIANGLE != 0) | far)
    np.testing.assert_allclose(found.dq, wanted.dq, rtol=0, atol=1e-14)
    np.testing.assert_allclose(found.dk, wanted.dk, rtol=0, atol=1e-14)
    assert np.abs(found.dk - backward(LaserAttention(2, 2, 0.3), tensors, TRIANGLE).dk).max() > 1e-3


def test_gradients_are_those_of_differences():
    q, k, v, dy = drawn(sizes=(6, 8, 4))
    layer = LaserAttention(2, 2, 0.3, window=3)
    found = backward(layer, (q, k, v, dy), TRIANGLE)
    for x, gradient in ((q, found.dq), (k, found.dk), (v, found.dv)):
        for at in ((0, 0, 3, 1), (0, 1, 7, 2), (0, 1, 0, 3)):
            sides = []
            for step in (1e-6, -1e-6):
                kept = x[at]
                x[at] = kept + step
                sides.append(float((layer.forward(q, k, v, TRIANGLE).attention_in * dy).sum()))
                x[at] = kept
            assert gradient[at] == pytest.approx((sides[0] - sides[1]) / 2e-6, abs=1e-7)


def test_columns_of_a_wide_key_that_are_not_read_have_no_gradient():
    tensors = drawn(sizes=(6, 8, 4))
    found = backward(LaserAttention(2, 2, 0.3), tensors, None)
    assert found.dk.shape == (1, 2, S, 8)
    assert not found.dk[..., 6:].any()
    assert found.dk[..., :6].all()


def test_statistics_are_one_number_a_row():
    q, k, v, _ = drawn()
    forward = LaserAttention(2, 2, 0.3).forward(q, k, v, TRIANGLE)
    scores = np.where(TRIANGLE != 0, -np.inf, 0.3 * q[0, 1] @ k[0, 1].T)
    np.testing.assert_allclose(forward.softmax_max[0, 1], scores.max(axis=1))
    np.testing.assert_allclose(
        forward.softmax_sum[0, 1], np.exp(scores - scores.max(axis=1, keepdims=True)).sum(axis=1)
    )


def test_a_baseline_rounds_p_ds_and_results():
    tensors = drawn()
    layer = LaserAttention(2, 2, 0.3)
    forward = layer.forward(*tensors[:3])
    seen = []
    layer.backward(*tensors, forward, rounded=lambda x: seen.append(x.shape) or x)
    assert seen == [(S, S), (S, S)] * 2 + [(1, 2, S, 6)] * 3


# --- relative errors ---


def test_relative_errors_by_hand():
    found = relative_errors(np.array([1.0, 2.2, 0.0]), np.array([1.0, 2.0, 0.0]))
    assert found.mare == pytest.approx(0.1)
    assert found.mere == pytest.approx(0.1 / 3)
    assert found.rmse == pytest.approx(0.2 / 3**0.5)


def test_what_is_not_finite_counts_as_zero():
    assert relative_errors(np.array([np.nan, np.inf]), np.array([0.0, -np.inf])) == RelativeErrors(0.0, 0.0, 0.0)
    assert relative_errors(np.empty(0), np.empty(0)) == RelativeErrors(0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="reference of"):
        relative_errors(np.zeros(2), np.zeros(3))


def test_ratios_to_another_implementation_but_at_least_to_t():
    ours, theirs = RelativeErrors(4.0, 0.5, 0.125), RelativeErrors(2.0, 0.25, 0.001)
    assert ours.ratios(theirs, 0.0625) == RelativeErrors(2.0, 2.0, 2.0)
    assert ours.ratios(None, 0.5) == RelativeErrors(8.0, 1.0, 0.25)
    assert not ours.is_accepted(theirs, 0.0625)
    assert ours.is_accepted(theirs, 0.3)
    assert not RelativeErrors(5.0, 0.0, 0.0).is_accepted(None, 0.5)
