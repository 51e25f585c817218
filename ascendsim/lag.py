"""LaserAttentionGrad as calls, with the parameter names of its page.

    from ascendsim import lag
    params = lag.LaserAttentionGradParam(headNum=4, preTokens=4096)
    report = lag.setup(params, {"query": (1, 4, 4096, 128), ...}, "Ascend910B1")
    report.stage, report.error, report.message, report.tiling

`answer(request_of(file, options))` is what `ascendsim lag` answers.
"""

from ascendsim.device import Platform
from ascendsim.lag_answer import LagAnswer, answer
from ascendsim.lag_notes import gradient_range, mask_values
from ascendsim.lag_request import LagRequest, request_of
from ascendsim.op_host.atb import ErrorName, Stage, TensorDesc
from ascendsim.op_host.lag_blocks import BlockMap, Segment, block_map
from ascendsim.op_host.lag_params import LagCall, MapKind
from ascendsim.op_host.laser_attention_grad import LagReport, LaserAttentionGradParam, Tensors, setup

__all__ = [
    "BlockMap",
    "ErrorName",
    "LagAnswer",
    "LagCall",
    "LagReport",
    "LagRequest",
    "LaserAttentionGradParam",
    "MapKind",
    "Platform",
    "Segment",
    "Stage",
    "TensorDesc",
    "Tensors",
    "answer",
    "block_map",
    "gradient_range",
    "mask_values",
    "request_of",
    "setup",
]
