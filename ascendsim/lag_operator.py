"""LaserAttentionGrad in scenarios: its call from the tensors, inputs that fit each other, expected gradients."""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ascendsim.device import Device
from ascendsim.dtypes import BFLOAT16, DType
from ascendsim.errors import Finding, InputError, Severity
from ascendsim.lag_notes import gradient_range, mask_values
from ascendsim.op_host.atb import Refusal, TensorDesc, desc_of
from ascendsim.op_host.estimates import MATMULS
from ascendsim.op_host.lag_blocks import block_map
from ascendsim.op_host.lag_estimate import computed_blocks, flop_per_block
from ascendsim.op_host.lag_kernel import LagKernelTiling, lag_kernel
from ascendsim.op_host.lag_params import GRADIENT_OF, INI, LaserAttentionGradParam, MapKind
from ascendsim.op_host.laser_attention_grad import LagReport, Tensors, setup_on
from ascendsim.reference.laser_attention_grad import LaserAttention, LaserForward
from ascendsim.terms import CoreKind
from ascendsim.work import Work

Array = NDArray[Any]
Shapes = Mapping[str, tuple[tuple[int, ...], DType]]
Wanted = Mapping[str, Array] | None

INPUTS: Final = (
    *("query", "key", "value", "attention_out_grad", "softmax_max", "softmax_sum", "attention_in"),
)  # fmt: skip
OUTPUTS: Final = ("query_grad", "key_grad", "value_grad")
UNWRITTEN: Final = ("dpse",)
OPTIONAL: Final = ("atten_mask", "softmax_in", *UNWRITTEN)
MADE: Final = frozenset({"softmax_max", "softmax_sum", "attention_in", "atten_mask"})
"""Inputs that `fill = "operator"` makes from the others."""
PRESCRIBED: Final = frozenset({"order", "block_cores"})
"""Keys that prescribe what the host else decides."""
WORKSPACE: Final = "workspace"
PRECISION: Final = 5e-3
"""How far a gradient may be off, relative to itself and by itself (ATB's kernel test)."""
_FLOP_CONVENTION: Final = f"{MATMULS} products of all blocks that are computed: hidden scores inside a block count"
_SNAKE: Final = {line.name: re.sub("(?=[A-Z])", "_", line.name).lower() for line in (*INI.inputs, *INI.outputs)}
READ: Final = {name: snake for name, snake in _SNAKE.items() if snake in (*INPUTS, "atten_mask", "softmax_in")}
"""Inputs that a kernel takes by the page's names; their names in scenarios."""
LEFT_OUT: Final = ("attenMask", "softmaxIn")
"""Those that may be left out of a run."""
GRADIENTS: Final = {_SNAKE[name]: source for name, source in GRADIENT_OF.items()}
"""Outputs; the input of the same shape."""
STAND_IN: Final = {"softmaxIn": desc_of(BFLOAT16, (1,))}
"""What the operator asks for and no kernel reads."""
_KEYS: Final = {
    "headNum": "head_num", "inputLayout": "input_layout", "scaleValue": "scale_value", "preTokens": "pre_tokens",
    "innerPrecise": "inner_precise", "keepProb": "keep_prob", "nextTokens": "next_tokens", "sparseMode": "sparse_mode",
}  # fmt: skip


class LagKeys(BaseModel):
    """Keys of [tiling] of the laser_attention_grad operator: its parameters, and how blocks are dealt."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    head_num: int
    pre_tokens: int
    input_layout: str = "BNSD"
    scale_value: float = 0.08838834764831843
    keep_prob: float = 1.0
    next_tokens: int = 1
    sparse_mode: int = 0
    inner_precise: int = 1
    vendor_quirks: bool = False
    """With the known defects of the original kernel."""
    order: Literal["operator", "unfolded"] = "operator"
    """Unfolded: a whole triangle as a square of which the upper half is skipped, for comparison."""
    block_cores: int | None = Field(default=None, ge=1)
    """How many AICs take blocks, instead of all that are launched."""

    @property
    def params(self) -> LaserAttentionGradParam:
        """The operator's."""
        return LaserAttentionGradParam(
            headNum=self.head_num,
            inputLayout=self.input_layout,
            scaleValue=self.scale_value,
            keepProb=self.keep_prob,
            preTokens=self.pre_tokens,
            nextTokens=self.next_tokens,
            sparseMode=self.sparse_mode,
            innerPrecise=self.inner_precise,
        )


def tiling_of(params: LaserAttentionGradParam) -> dict[str, object]:
    """Return the keys of [tiling] that hold parameters."""
    return {key: getattr(params, name) for name, key in _KEYS.items()}


# ---- host ------------------------------------------------------------------------------------------------------------


def lag_host(device: Device, shapes: Shapes, keys: LagKeys, nums: Mapping[str, int]) -> LagKernelTiling:
    """Return what the kernel takes.

    Raises:
        InputError: the operator refuses the call, its sums do not fit 32 bits, or blocks cannot be dealt as asked.
    """
    del nums
    report = _report(device, shapes, keys)
    call, tiling = report.call, report.tiling
    if report.refusal is not None or call is None or tiling is None:
        raise InputError(_spelled(report.refusal))
    errors = [finding for finding in report.told if finding.severity is Severity.ERROR]
    if errors:
        raise InputError("; ".join(map(str, errors)))
    cores = tiling.block_dim if keys.block_cores is None else keys.block_cores
    if cores > tiling.block_dim:
        raise InputError(f"tiling.block_cores = {cores}: {tiling.block_dim} AICs are launched; take at most those")
    if keys.order == "unfolded" and call.map_kind is not MapKind.TRIANGLE:
        raise InputError(
            f'tiling.order = "unfolded": the call computes a {call.map_kind.value} map; only a whole triangle (a mask, '
            "and pre_tokens as long as query) can be unfolded"
        )
    blocks = block_map(call, cores, MapKind.UNFOLDED if keys.order == "unfolded" else None)
    names = (*(name for name in (*INPUTS, *OUTPUTS, *OPTIONAL) if name in shapes), WORKSPACE)
    return lag_kernel(call, tiling, blocks, names, device.aiv, report.told, vendor_quirks=keys.vendor_quirks)


def _report(device: Device, shapes: Shapes, keys: LagKeys) -> LagReport:
    given = {name: desc_of(element, shape) for name, (shape, element) in shapes.items()}
    stand_in = {_SNAKE[name]: desc for name, desc in STAND_IN.items()}
    inputs = [(stand_in | given).get(_SNAKE[line.name], _empty(line.combination(0))) for line in INI.inputs]
    dpse = given.get("dpse", desc_of(BFLOAT16, (1,)))
    outputs = [*(given[name] for name in OUTPUTS), dpse]
    return setup_on(keys.params, Tensors(inputs, outputs), device, vendor_quirks=keys.vendor_quirks)


def _empty(combination: tuple[str, str]) -> TensorDesc:
    return TensorDesc(*combination)


def _spelled(refusal: Refusal | None) -> str:
    """Return a refusal with the argument that it is about as a scenario spells it."""
    assert refusal is not None
    finding = refusal.finding
    name = finding.operand
    key = f"tiling.{_KEYS[name]}" if name in _KEYS else f"tensors.{_SNAKE[name]}" if name in _SNAKE else ""
    said = f"{key}: {finding.message}" if key else finding.message
    return f"{said} ({refusal.stage}: {refusal.error}); to mend it: {finding.hint}"


def lag_workspace_bytes(tiling: LagKernelTiling) -> int:
    """Return the length of the workspace."""
    return tiling.workspace_bytes


def lag_block_dim(tiling: LagKernelTiling) -> int:
    """Return the AI Cores to launch."""
    return tiling.block_dim


def lag_work(tiling: LagKernelTiling, block_dim: int) -> Work:
    """Return what the call computes, and how it is dealt to cores."""
    del block_dim  # the tiling's
    each, blocks = flop_per_block(tiling.call), tiling.blocks
    computed = [round(count) for count in blocks.per_core(computed_blocks)]
    computed += [0] * (tiling.block_dim - blocks.cores)
    return Work(
        flop=each * sum(computed),
        convention=_FLOP_CONVENTION,
        factors=BFLOAT16.name,
        kind=CoreKind.AIC.value,
        blocks=tuple(computed),
        block_flop=tuple(each * count for count in computed),
    )


# ---- inputs that fit each other, what to know of them, expected values -----------------------------------------------


def _layer(inputs: Mapping[str, Array], keys: LagKeys) -> LaserAttention:
    heads = keys.head_num
    is_sbh = keys.input_layout == "SBH"
    kv_heads = inputs["value"].shape[2] // 128 if is_sbh else inputs["key"].shape[1]
    layout: Literal["SBH", "BNSD"] = "SBH" if is_sbh else "BNSD"
    return LaserAttention(heads, kv_heads, keys.scale_value, layout, keys.pre_tokens)


def lag_made(inputs: Mapping[str, Array], keys: LagKeys, shapes: Shapes, wanted: Wanted = None) -> dict[str, Array]:
    """Return float64 values of inputs that follow from the others: the mask, and what a forward pass leaves.

    Args:
        inputs: those that are given.
        keys: of the call.
        shapes: those that are wanted.
        wanted: is not read: all of them are made.
    """
    del wanted
    made: dict[str, Array] = {}
    if "atten_mask" in shapes:
        rows, columns = shapes["atten_mask"][0]
        made["atten_mask"] = 1 - np.tri(rows, columns)
    given = dict(inputs) | made
    forward = _layer(given, keys).forward(given["query"], given["key"], given["value"], given.get("atten_mask"))
    made |= {
        "softmax_max": forward.softmax_max,
        "softmax_sum": forward.softmax_sum,
        "attention_in": forward.attention_in,
    }
    return {name: made[name] for name in shapes}


def lag_told(tiling: LagKernelTiling) -> tuple[Finding, ...]:
    """Return what the host tells of a call that it takes."""
    return tiling.told


def lag_notes(shapes: Shapes, keys: LagKeys, inputs: Mapping[str, Array]) -> tuple[Finding, ...]:
    """Return what to know of the data of a call: the range of the gradient, the mask's values."""
    del shapes
    told: list[Finding] = []
    if "attention_out_grad" in inputs:
        told += gradient_range(inputs["attention_out_grad"])
    if "atten_mask" in inputs:
        told += mask_values(inputs["atten_mask"], vendor_quirks=keys.vendor_quirks)
    return tuple(told)


def lag_reference(
    inputs: Mapping[str, Array], keys: LagKeys, outputs: Mapping[str, DType], device: Device
) -> dict[str, tuple[Array, Array, str]]:
    """Return (values, how far off each may be, what to know) of the gradients, made in float64 from all inputs."""
    del outputs, device
    forward = LaserForward(inputs["softmax_max"], inputs["softmax_sum"], inputs["attention_in"])
    found = _layer(inputs, keys).backward(
        inputs["query"],
        inputs["key"],
        inputs["value"],
        inputs["attention_out_grad"],
        forward,
        inputs.get("atten_mask"),
    )
    values = {"query_grad": found.dq, "key_grad": found.dk, "value_grad": found.dv}
    return {name: (x, PRECISION * (1 + np.abs(x)), "") for name, x in values.items()}
