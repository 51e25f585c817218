"""Operations of ATB as calls, by the names of their pages.

from ascendsim import atb
params = atb.FastSoftMaxGradParam(headNum=8, qSeqLen=[487, 16, 532, 413])
report = atb.setup(params, [params.desc, params.desc], "Ascend910B1")
report.stage, report.error, report.message, report.tiling
done = atb.execute(params, {"yInput": y, "yGrad": g}, "Ascend910B1")
done.outputs["x_grad"], done.makespan_cycles
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ascendsim import machine
from ascendsim.device import Platform
from ascendsim.errors import InputError, Rejected
from ascendsim.fsg_answer import Chosen, FsgAnswer, answer
from ascendsim.op_host import fast_softmax_grad
from ascendsim.op_host.atb import ErrorName, Refusal, SetupReport, Stage, TensorDesc, find_soc
from ascendsim.op_host.fast_softmax_grad import FastSoftMaxGradParam
from ascendsim.op_host.fsg_tiling import FsgSample, FsgTiling
from ascendsim.result import RunResult
from ascendsim.scenario import Scenario, scenario_from

__all__ = [
    "Chosen",
    "ErrorName",
    "FastSoftMaxGradParam",
    "FsgAnswer",
    "FsgSample",
    "FsgTiling",
    "Platform",
    "Refusal",
    "SetupReport",
    "Stage",
    "TensorDesc",
    "answer",
    "execute",
    "setup",
]

Array = NDArray[Any]

_NAMES: Final = {"yInput": "y_input", "yGrad": "y_grad"}
"""Inputs by the page's names; their names in scenarios."""


def setup(
    params: FastSoftMaxGradParam,
    tensors: Sequence[TensorDesc] | Mapping[str, TensorDesc],
    soc: str | Platform = "Ascend910B1",
    outputs: Sequence[TensorDesc] | None = None,
) -> SetupReport[FsgTiling]:
    """Return what an operation answers: creation, shape inference and setup, one after the other.

    Args:
        params: of the operation.
        tensors: descriptions of its inputs in the page's order, or by the page's names.
        soc: the part, or a product name.
        outputs: descriptions of its outputs; None for what shape inference gives.

    Raises:
        InputError: parameters of no operation here, tensors that are no descriptions, unknown names.
        DeviceError: no such part.
    """
    if not isinstance(params, FastSoftMaxGradParam):
        raise InputError(f"params = {params!r}: must be a FastSoftMaxGradParam")
    return fast_softmax_grad.setup(params, tensors, soc, outputs)


def execute(
    params: FastSoftMaxGradParam,
    tensors: Mapping[str, Array],
    soc: str | Platform = "Ascend910B1",
    *,
    values: Literal["all", "sample", "none"] = "all",
    compare: bool = False,
    engine: str | None = None,
) -> RunResult:
    """Run the kernel of an operation.

    Args:
        params: of the operation.
        tensors: half arrays yInput and yGrad, [nSquareTokens].
        soc: the part.
        values: which values to compute: those of all tiles, of a sample, or none.
        compare: also compare x_grad with the float64 reference; see `expectations` of the result.
        engine: "compiled", "reference", or "both" to compare the two; None for the first.

    Raises:
        InputError: a tensor that is missing, unknown or no half array.
        Rejected: the operation refuses the call.
        DeviceError: no such part, or a product that has parts to choose from.
    """
    arrays = {_NAMES[name]: _half(name, tensors) for name in _known(tensors)}
    descs = {name: TensorDesc("float16", "nd", arrays[snake].shape) for name, snake in _NAMES.items()}
    report = setup(params, descs, soc)
    if report.refusal is not None:
        raise Rejected(report.findings)
    scenario = _scenario(params, soc, values, compare=compare)
    return machine.run(scenario, engine, arrays=arrays)


def _known(tensors: Mapping[str, Array]) -> tuple[str, ...]:
    for name in tensors:
        if name not in _NAMES:
            raise InputError(f"tensors[{name!r}]: {fast_softmax_grad.NAME} takes {', '.join(_NAMES)}")
    missing = [name for name in _NAMES if name not in tensors]
    if missing:
        raise InputError(f"tensors: {missing[0]} is missing; {fast_softmax_grad.NAME} takes {', '.join(_NAMES)}")
    return tuple(_NAMES)


def _half(name: str, tensors: Mapping[str, Array]) -> Array:
    array = np.asarray(tensors[name])
    if array.dtype != np.float16:
        raise InputError(f"tensors[{name!r}] is {array.dtype}: must be float16; convert it")
    return array


def _scenario(params: FastSoftMaxGradParam, soc: str | Platform, values: str, *, compare: bool) -> Scenario:
    tensor = {"shape": [params.n_square_tokens], "dtype": "half"}
    found = find_soc(soc)
    part: dict[str, Any] = {"device": found.name}
    if isinstance(soc, Platform):
        part = {"platform": {key: value for key, value in asdict(soc).items() if key != "name"}}
    pads = any(n % 16 for n in params.q_seq_len)
    reason = "copy out drops the padded lanes that SoftmaxGrad writes"
    expected = {"x_grad": {"reference": "operator", "bound": "operator"}} if compare else {}
    return scenario_from(
        {
            "schema": 1,
            "name": "fast_softmax_grad",
            "operator": "fast_softmax_grad",
            **part,
            "tiling": {"head_num": params.head_num, "q_seq_len": list(params.q_seq_len)},
            "tensors": {
                **{snake: {"role": "input", "fill": "array", **tensor} for snake in _NAMES.values()},
                "x_grad": {"role": "output", **tensor},
            },
            "machine": {"values": values},
            "expect": {"values": expected},
            "suppress": [{"code": "W-SMG-PADDING", "reason": reason}] if pads else [],
        },
        Path("atb.execute"),
    )
