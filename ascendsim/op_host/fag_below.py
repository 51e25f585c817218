"""What lies below FlashAttentionScoreGrad's interface: the kernel of the part, and the tiling with what it refuses.

Source: ops-transformer, op_api, definition and host tiling of flash_attention_score_grad.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from ascendsim.device import Device
from ascendsim.dtypes import BFLOAT16, FLOAT, HALF
from ascendsim.errors import Rule
from ascendsim.op_host import fag_rules as rules
from ascendsim.op_host.fag_call import FagCall, RefusedError, read_shape
from ascendsim.op_host.fag_checks import entry_reasons, shape_reasons
from ascendsim.op_host.fag_graph import Graph
from ascendsim.op_host.fag_interface import Call
from ascendsim.op_host.fag_params import TENSORS, FagDtype, FagParams, TensorGiven
from ascendsim.op_host.fag_platform import FAG_ARCHS, fag_platform
from ascendsim.op_host.fag_result import FagTiling
from ascendsim.op_host.fag_rules import Reason
from ascendsim.op_host.fag_tensors import ARRAYS, MAIN, ROPE, Axes, TensorArgument
from ascendsim.op_host.fag_tiling import fag_tiling
from ascendsim.op_host.fag_versions import CURRENT
from ascendsim.terms import ceil_div

NO_KERNEL: Final = 561003
TILING_FAILED: Final = 561002

_OWN_DTYPES: Final[dict[str, FagDtype]] = {"FLOAT16": "fp16", "BFLOAT16": "bf16", "FLOAT": "fp32"}
_ELEMENTS: Final = {"fp16": HALF, "bf16": BFLOAT16, "fp32": FLOAT}

_SPELLED: Final = {
    "keep_prob": "keepProb", "pre_tokens": "preTokens and nextTokens", "sparse_mode": "sparseMode",
    "pse_type": "pseType", "layout": "actualSeqQLen", "q_lens": "actualSeqQLen", "batch": "pseShift",
}  # fmt: skip
"""Arguments in the interface's spelling, by the word with which the tiling starts a refusal."""

_MASK_WORDS: Final = frozenset(
    {"keep_prob", "pre_tokens", "dropMask", "attenMask", "pseShift", "prefix", "softmaxMax", "softmaxSum", "batch"}
)
_PARAM_WORDS: Final = frozenset({"sparse_mode", "pse_type", "headNum"})


def kernel_reasons(call: Call, device: Device) -> Iterator[Reason]:
    """Return why no kernel is found: the product, or types that differ. It is looked for before anything is tiled."""
    if device.npu_arch not in FAG_ARCHS:
        finding = rules.PRODUCT.finding(
            call.where("device"),
            got=f"{device.name} (arch {device.npu_arch})",
            wanted=f"arch {', '.join(map(str, FAG_ARCHS))}",
        )
        yield Reason(finding, NO_KERNEL)
    query = call.arguments["query"]
    for tensor in call.given("key", "value", "dy", "dq", "dk", "dv"):
        is_listed = all(t.dtype in CURRENT.types[t.name] for t in (query, tensor))
        if not query.is_null and is_listed and tensor.dtype != query.dtype:
            finding = rules.UNEQUAL.finding(
                call.where(tensor.name), operand=tensor.name, got=tensor.dtype, wanted=query.dtype
            )
            yield Reason(finding, NO_KERNEL)


def handed(call: Call, axes: Axes) -> FagParams:
    """Return the call as its tensors are, in the tiling's words: axes from the shapes, scalars as absent."""
    params = call.params
    sizes = {} if params.is_tnd else {"B": axes.B, "S1": axes.S1, "S2": axes.S2}
    numbers = {"N2": axes.N2, "G": axes.N1 // axes.N2 if axes.N2 else 0, "D": axes.D, "Dv": axes.Dv} | sizes
    return replace(
        params,
        **numbers,
        dtype=_OWN_DTYPES.get(call.arguments["query"].dtype, params.dtype),
        head_num=params.heads_given,
        q_lens=params.q_lens if call.arguments["actualSeqQLen"].is_given else (),
        kv_lens=params.kv_lens if call.arguments["actualSeqKvLen"].is_given else (),
        tensors=tuple(_handed(call, call.arguments[name]) for name in TENSORS if name not in (*ARRAYS, *ROPE)),
    )
