"""Scenarios of LaserAttentionGrad for tests: tensors from a few numbers, data as the operator's page draws them."""

from pathlib import Path

from ascendsim.lag_request import call_shapes
from ascendsim.scenario import scenario_from

FEW = {"aic_cores": 2, "aiv_cores": 4}
"""Cores so few that short sequences take several rounds."""
NAMES = {
    "query": "query", "key": "key", "value": "value", "attentionOutGrad": "attention_out_grad",
    "softmaxMax": "softmax_max", "softmaxSum": "softmax_sum", "attentionIn": "attention_in", "attenMask": "atten_mask",
}  # fmt: skip
GRADIENTS = {"query_grad": "query", "key_grad": "key", "value_grad": "value"}


def scenario(
    layout="BNSD",
    batch=1,
    heads=2,
    kv_heads=None,
    length=512,
    kv_length=None,
    size=128,
    has_mask=True,
    window=None,
    drawn=(-2.0, 2.0),
    platform=None,
    tensors=None,
    machine=None,
    **tiling,
):
    """A scenario in which every gradient is expected to be as the reference has it."""
    counts, lengths = (batch, heads, kv_heads or heads), (length, kv_length or length)
    shapes = call_shapes(layout, counts, lengths, size, has_mask=has_mask)
    made = {NAMES[name]: _spec(NAMES[name], dims, drawn) for name, dims in shapes.items() if name in NAMES}
    for name, like in GRADIENTS.items():
        made[name] = {"role": "output", "shape": made[like]["shape"], "dtype": "bfloat16_t"}
    for name, changes in (tensors or {}).items():
        made[name] = made.get(name, {}) | changes
    raw = {
        "schema": 1,
        "name": "lag",
        "operator": "laser_attention_grad",
        "platform": platform or FEW,
        "tiling": {
            "head_num": heads, "pre_tokens": window or length, "input_layout": layout, "scale_value": size**-0.5,
        } | tiling,
        "tensors": made,
        "machine": machine or {},
        "expect": {"values": {name: {"reference": "operator", "bound": "operator"} for name in GRADIENTS}},
    }  # fmt: skip
    return scenario_from(raw, Path("lag.toml"))


def _spec(name, dims, drawn):
    spec = {"role": "input", "shape": list(dims), "dtype": "bfloat16_t"}
    if name in ("query", "key", "value"):
        seed = ("query", "key", "value").index(name) + 1
        return spec | {"fill": "laser_qkv", "range": list(drawn), "seed": seed}
    if name == "attention_out_grad":
        return spec | {"fill": "uniform", "scale": 0.5, "seed": 4}
    kinds = {"softmax_max": "float", "softmax_sum": "float", "atten_mask": "half"}
    return spec | {"dtype": kinds.get(name, "bfloat16_t"), "fill": "operator"}
