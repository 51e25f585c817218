"""LaserAttentionGrad by another implementation of the same types, as ATB's tests have one beside the float64 reference.

Products and vector work in float, P and dS in bfloat16 before the products that follow, sums in float, results in
bfloat16: what the operator documents, in a few lines of NumPy, head by head, nothing of the kernel.
"""

import numpy as np

from ascendsim.dtypes import BFLOAT16, cast
from ascendsim.reference.attention import from_bnsd, to_bnsd
from ascendsim.terms import RoundMode


def narrow(x):
    return cast(np.asarray(x, np.float32), BFLOAT16, RoundMode.CAST_RINT).astype(np.float32)


def gradients(inputs, keys, hidden):
    """dQ, dK and dV by their names in scenarios; `hidden` [S, Skv] is true where a key is not seen."""
    layout, heads, scale = keys["input_layout"], keys["head_num"], np.float32(keys["scale_value"])
    q, d_out, out = (
        to_bnsd(inputs[name], layout, heads).astype(np.float32)
        for name in ("query", "attention_out_grad", "attention_in")
    )
    kv_heads = inputs["value"].shape[2] // 128 if layout == "SBH" else inputs["value"].shape[1]
    k, v = (to_bnsd(inputs[name], layout, kv_heads).astype(np.float32) for name in ("key", "value"))
    level = inputs["softmax_max"] + np.log(inputs["softmax_sum"])
    d_q, d_k, d_v = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    depth = q.shape[-1]
    for b, n in np.ndindex(q.shape[:2]):
        of = b, n * kv_heads // heads
        scores = q[b, n] @ k[of][:, :depth].T * scale
        p = np.exp(np.where(hidden, np.float32(-1e30), scores) - level[b, n][:, None])
        d_s = narrow(p * (d_out[b, n] @ v[of].T - (d_out[b, n] * out[b, n]).sum(axis=-1, keepdims=True)))
        d_q[b, n] = narrow(scale * (d_s @ k[of][:, :depth]))
        d_k[of][:, :depth] += d_s.T @ q[b, n]
        d_v[of] += narrow(p).T @ d_out[b, n]
    found = {"query_grad": d_q, "key_grad": narrow(scale * d_k), "value_grad": narrow(d_v)}
    return {name: from_bnsd(x, layout) for name, x in found.items()}
