"""The checks of LaserAttentionGrad, in the operator's order: parameters, input shapes, outputs.

Source: ATB, laser_attention_grad operator: create, infer shape and setup checks; LaserAttentionGradOperation page.
"""

from collections.abc import Mapping
from typing import Final

from ascendsim.device import Device, Platform
from ascendsim.op_host.atb import (
    PARAM,
    Refusals,
    Stage,
    TensorDesc,
    Tensors,
    axis_refused,
    count_refused,
    device_refused,
    filled_refused,
    framework_refused,
    rank_refused,
    refused_axis,
    refused_param,
    reserved_refused,
    type_refused,
)
from ascendsim.op_host.lag_params import (
    GRADIENT_OF,
    INPUTS,
    LENGTH_UNIT,
    MOST_HEADS,
    NARROW_D,
    OUTPUTS,
    RESERVED_BEFORE,
    RESERVED_BEHIND,
    WIDE_D,
    WIDE_KEY_D,
    LagCall,
    LaserAttentionGradParam,
)

_OPERATOR: Final = "ATB, laser_attention_grad operator, checks of parameters and shapes"
_PAGE: Final = "LaserAttentionGradOperation page"

_PARAM: Final = PARAM.saying("{operand} = {got}: must be {wanted}", source=f"{_OPERATOR}; {_PAGE}")
HEADS: Final = _PARAM.saying("{operand} = {got}: must be {wanted}", "give the number of heads of query")
LAYOUT: Final = _PARAM.saying(
    '{operand} = "{got}": must be {wanted}; the page lists BNSD alone, the operator takes SBH, too',
    "lay the tensors out as [B,N,S,D], or as [S,B,N*D] with head sizes 192, 256 and 128",
)
PRE_TOKENS: Final = _PARAM.saying(
    "{operand} = {got}: must be {wanted}", "give a multiple of 256 that is at most the length of query"
)
DEFAULT_PRE_TOKENS: Final = _PARAM.saying(
    "preTokens is {got}, its default, which is no multiple of 256: the operator refuses its own default",
    "give preTokens: the length of query, or less for a window",
)
PRECISION: Final = _PARAM.saying("{operand} = {got}: must be {wanted}, high precision; nothing else is there")

_LAYOUT_RANKS: Final = {"BNSD": 4, "SBH": 3}
_HEADS_TEXT: Final = f"at most {MOST_HEADS} heads: the page allows as many as an int holds, the operator {MOST_HEADS}"


def create_refused(params: LaserAttentionGradParam, device: Device | None, soc: str | Platform) -> Refusals:
    """Check the part and the parameters."""
    yield from device_refused(device, soc)
    if params.headNum <= 0:
        yield refused_param("headNum", params.headNum, "above 0", HEADS)
    if params.inputLayout not in _LAYOUT_RANKS:
        yield refused_param("inputLayout", params.inputLayout, '"BNSD" or "SBH"', LAYOUT)
    if not 0 < params.scaleValue <= 1:
        yield refused_param("scaleValue", params.scaleValue, "above 0 and at most 1", _PARAM)
    if params.preTokens < 1:
        yield refused_param("preTokens", params.preTokens, "at least 1 and a multiple of 256", PRE_TOKENS)
    if params.preTokens % LENGTH_UNIT:
        rule = PRE_TOKENS if params.changed("preTokens") else DEFAULT_PRE_TOKENS
        yield refused_param("preTokens", params.preTokens, "a multiple of 256", rule)
    if params.innerPrecise != 1:
        yield refused_param("innerPrecise", params.innerPrecise, 1, PRECISION)
    yield from reserved_refused(params.rsv)


def infer_shape_refused(params: LaserAttentionGradParam, tensors: Tensors, stage: Stage) -> Refusals:
    """Check the inputs; setup does so once more."""
    yield from count_refused(tensors.inputs, INPUTS, "input", stage)
    yield from framework_refused(tensors.inputs, INPUTS, stage)
    yield from type_refused(tensors.inputs, INPUTS, stage)
    yield from shapes_refused(params, tensors, stage)


def setup_refused(params: LaserAttentionGradParam, tensors: Tensors) -> Refusals:
    """Check inputs and outputs; outputs that are not given are as the operator infers them."""
    stage = Stage.SETUP
    outputs = tensors.outputs
    if outputs is None:
        return
    yield from count_refused(tensors.inputs, INPUTS, "input", stage)
    yield from count_refused(outputs, OUTPUTS, "output", stage)
    yield from framework_refused(tensors.inputs, INPUTS, stage)
    yield from framework_refused(outputs, OUTPUTS, stage)
    yield from type_refused((*tensors.inputs, *outputs), (*INPUTS, *OUTPUTS), stage)
    yield from shapes_refused(params, tensors, stage)
    inputs = by_name(tensors)
    for slot, output in zip(OUTPUTS, outputs, strict=True):
        source = GRADIENT_OF.get(slot.name)
        if source is not None:
            yield from _same_shape(slot.name, output, source, inputs[source], stage)


def shapes_refused(params: LaserAttentionGradParam, tensors: Tensors, stage: Stage) -> Refusals:
    """Check shapes against parameters and each other."""
    inputs = by_name(tensors)
    if params.inputLayout == "SBH":
        yield from _main_sbh(params, inputs, stage)
    else:
        yield from _main_bnsd(params, inputs, stage)
    call = call_of(params, tensors)
    for name in RESERVED_BEFORE:
        yield from filled_refused(name, inputs[name], stage)
    yield from _mask(call, inputs["attenMask"], stage)
    yield from _statistics(call, inputs, stage)
    like_output = _like_output_sbh if call.layout == "SBH" else _like_output
    yield from like_output(call.B, call.Nq, call.Sq, "attentionIn", inputs["attentionIn"], stage)
    for name in RESERVED_BEHIND:
        yield from filled_refused(name, inputs[name], stage)


def by_name(tensors: Tensors) -> Mapping[str, TensorDesc]:
    """Return the inputs by name."""
    return {slot.name: tensor for slot, tensor in zip(INPUTS, tensors.inputs, strict=True)}


def call_of(params: LaserAttentionGradParam, tensors: Tensors) -> LagCall:
    """Return the call; query, key and value have passed the checks."""
    inputs = by_name(tensors)
    query, key, value = (inputs[name].shape for name in ("query", "key", "value"))
    has_mask = not inputs["attenMask"].is_empty
    if params.inputLayout == "SBH":
        length, batch, width = query
        return LagCall(
            "SBH", batch, width // WIDE_D, key[2] // WIDE_KEY_D, length, key[0], WIDE_D, WIDE_KEY_D, NARROW_D,
            has_mask, params.preTokens, params.scaleValue,
        )  # fmt: skip
    return LagCall(
        "BNSD", query[0], query[1], key[1], query[2], key[2], query[3], key[3], value[3],
        has_mask, params.preTokens, params.scaleValue,
    )  # fmt: skip


# --- query, key, value and the gradient of the output ---


def _main_bnsd(params: LaserAttentionGradParam, inputs: Mapping[str, TensorDesc], stage: Stage) -> Refusals:
    query, key, value = inputs["query"], inputs["key"], inputs["value"]
    yield from rank_refused("query", query, 4, stage)
    batch, heads, length, size = query.shape
    if heads != params.headNum:
        yield refused_axis("query", query, 1, f"headNum = {params.headNum}", stage)
    if heads > MOST_HEADS:
        yield refused_axis("query", query, 1, _HEADS_TEXT, stage)
    yield from _whole_unit("query", query, 2, stage)
    if size == NARROW_D and length < params.preTokens:
        yield refused_axis("query", query, 2, f"at least preTokens = {params.preTokens} with head size 128", stage)
    if size == WIDE_D and length != params.preTokens:
        yield refused_axis("query", query, 2, f"preTokens = {params.preTokens} with head size 192", stage)
    if size not in (NARROW_D, WIDE_D):
        yield refused_axis("query", query, 3, "128 or 192", stage)
    yield from rank_refused("key", key, 4, stage)
    yield from axis_refused("key", key, 0, batch, "the batches of query", stage)
    if key.shape[1] < 1 or heads % key.shape[1]:
        yield refused_axis("key", key, 1, f"a divisor of the {heads} heads of query", stage)
    yield from _whole_unit("key", key, 2, stage)
    wide = NARROW_D if size == NARROW_D else WIDE_KEY_D
    yield from axis_refused("key", key, 3, wide, f"as query has head size {size}", stage)
    yield from rank_refused("value", value, 4, stage)
    for axis, why in enumerate(("the batches of query", "the heads of key", "the length of key")):
        wanted = batch if axis == 0 else key.shape[axis]
        yield from axis_refused("value", value, axis, wanted, why, stage)
    yield from axis_refused("value", value, 3, NARROW_D, "the only head size of value", stage)
    yield from _like_output(batch, heads, length, "attentionOutGrad", inputs["attentionOutGrad"], stage)


def _main_sbh(params: LaserAttentionGradParam, inputs: Mapping[str, TensorDesc], stage: Stage) -> Refusals:
    query, key, value = inputs["query"], inputs["key"], inputs["value"]
    yield from rank_refused("query", query, 3, stage)
    length, batch, width = query.shape
    heads = width // WIDE_D
    yield from _whole_unit("query", query, 0, stage)
    if length != params.preTokens:
        yield refused_axis("query", query, 0, f"preTokens = {params.preTokens} with layout SBH", stage)
    if heads != params.headNum:
        yield refused_axis("query", query, 2, f"192 * headNum = {WIDE_D * params.headNum}", stage)
    if heads > MOST_HEADS:
        yield refused_axis("query", query, 2, f"that of {_HEADS_TEXT}", stage)
    yield from rank_refused("key", key, 3, stage)
    yield from _whole_unit("key", key, 0, stage)
    yield from axis_refused("key", key, 1, batch, "the batches of query", stage)
    kv_heads = key.shape[2] // WIDE_KEY_D
    if kv_heads < 1 or heads % kv_heads:
        yield refused_axis("key", key, 2, f"256 times a divisor of the {heads} heads of query", stage)
    yield from rank_refused("value", value, 3, stage)
    yield from axis_refused("value", value, 0, key.shape[0], "the length of key", stage)
    yield from axis_refused("value", value, 1, batch, "the batches of query", stage)
    if value.shape[2] // NARROW_D != kv_heads:
        yield refused_axis("value", value, 2, f"128 * {kv_heads} = {NARROW_D * kv_heads}, the heads of key", stage)
    yield from _like_output_sbh(batch, heads, length, "attentionOutGrad", inputs["attentionOutGrad"], stage)


def _whole_unit(name: str, tensor: TensorDesc, axis: int, stage: Stage) -> Refusals:
    if tensor.shape[axis] % LENGTH_UNIT:
        yield refused_axis(name, tensor, axis, f"a multiple of {LENGTH_UNIT}", stage)


def _like_output(batch: int, heads: int, length: int, name: str, tensor: TensorDesc, stage: Stage) -> Refusals:
    """Check a tensor with the shape of the forward operator's output, BNSD."""
    yield from rank_refused(name, tensor, 4, stage)
    yield from axis_refused(name, tensor, 0, batch, "the batches of query", stage)
    yield from axis_refused(name, tensor, 1, heads, "the heads of query", stage)
    yield from axis_refused(name, tensor, 2, length, "the length of query", stage)
    yield from axis_refused(name, tensor, 3, NARROW_D, "the head size of value", stage)


def _like_output_sbh(batch: int, heads: int, length: int, name: str, tensor: TensorDesc, stage: Stage) -> Refusals:
    """Check a tensor with the shape of the forward operator's output, SBH."""
    yield from rank_refused(name, tensor, 3, stage)
    yield from axis_refused(name, tensor, 0, length, "the length of query", stage)
    yield from axis_refused(name, tensor, 1, batch, "the batches of query", stage)
    if tensor.shape[2] // NARROW_D != heads:
        yield refused_axis(name, tensor, 2, f"128 * {heads} = {NARROW_D * heads}, the heads of query", stage)


# --- the others ---


def _mask(call: LagCall, mask: TensorDesc, stage: Stage) -> Refusals:
    if mask.is_empty:
        return
    yield from rank_refused("attenMask", mask, 2, stage)
    if call.Sq != call.Skv:
        wanted = f"the length of query, {call.Sq}, and of key, {call.Skv}: with a mask they must be equal"
        yield refused_axis("attenMask", mask, 0, wanted, stage)
    yield from axis_refused("attenMask", mask, 0, call.Sq, "the length of query", stage)
    yield from axis_refused("attenMask", mask, 1, call.Skv, "the length of key", stage)


def _statistics(call: LagCall, inputs: Mapping[str, TensorDesc], stage: Stage) -> Refusals:
    largest = inputs["softmaxMax"]
    yield from rank_refused("softmaxMax", largest, 3, stage)
    yield from axis_refused("softmaxMax", largest, 0, call.B, "the batches of query", stage)
    yield from axis_refused("softmaxMax", largest, 1, call.Nq, "the heads of query", stage)
    yield from axis_refused("softmaxMax", largest, 2, call.Sq, "the length of query", stage)
    yield from _same_shape("softmaxSum", inputs["softmaxSum"], "softmaxMax", largest, stage)


def _same_shape(name: str, tensor: TensorDesc, other: str, like: TensorDesc, stage: Stage) -> Refusals:
    yield from rank_refused(name, tensor, len(like.shape), stage)
    for axis, wanted in enumerate(like.shape):
        yield from axis_refused(name, tensor, axis, wanted, f"that of {other}", stage)
