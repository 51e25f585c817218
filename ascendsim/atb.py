"""Operations of ATB as calls, by the names of their pages.

from ascendsim import atb
params = atb.FastSoftMaxGradParam(headNum=8, qSeqLen=[487, 16, 532, 413])
report = atb.setup(params, [params.desc, params.desc], "Ascend910B1")
report.stage, report.error, report.message, report.tiling
done = atb.execute(params, {"yInput": y, "yGrad": g}, "Ascend910B1")
done.outputs["x_grad"], done.makespan_cycles

LaserAttentionGrad goes the same way, with `LaserAttentionGradParam`; `ascendsim.lag` knows more of its blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, overload

import numpy as np
from numpy.typing import NDArray

from ascendsim import lag_operator, machine
from ascendsim.device import Platform
from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, from_numpy
from ascendsim.errors import InputError, Rejected
from ascendsim.fsg_answer import Chosen, FsgAnswer, answer
from ascendsim.op_host import fast_softmax_grad, lag_params, laser_attention_grad
from ascendsim.op_host.atb import ErrorName, OperationIni, Refusal, SetupReport, Stage, TensorDesc, desc_of, find_soc
from ascendsim.op_host.fast_softmax_grad import FastSoftMaxGradParam
from ascendsim.op_host.fsg_tiling import FsgSample, FsgTiling
from ascendsim.op_host.lag_tiling import LagTiling
from ascendsim.op_host.laser_attention_grad import LagReport, LaserAttentionGradParam
from ascendsim.result import RunResult
from ascendsim.scenario import Scenario, scenario_from
from ascendsim.terms import DEFAULT_SOC

__all__ = [
    "Chosen",
    "ErrorName",
    "FastSoftMaxGradParam",
    "FsgAnswer",
    "FsgSample",
    "FsgTiling",
    "LagReport",
    "LagTiling",
    "LaserAttentionGradParam",
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
Params = FastSoftMaxGradParam | LaserAttentionGradParam

_ELEMENTS: Final = {"float16": HALF, "bf16": BFLOAT16, "float": FLOAT}
"""Element types by ATB's spelling, of tensors that a kernel reads."""


@overload
def setup(
    params: FastSoftMaxGradParam,
    tensors: Sequence[TensorDesc] | Mapping[str, TensorDesc],
    soc: str | Platform = ...,
    outputs: Sequence[TensorDesc] | None = ...,
) -> SetupReport[FsgTiling]: ...
@overload
def setup(
    params: LaserAttentionGradParam,
    tensors: Sequence[TensorDesc] | Mapping[str, Any],
    soc: str | Platform = ...,
    outputs: Sequence[TensorDesc] | None = ...,
) -> LagReport: ...
def setup(
    params: Params,
    tensors: Sequence[TensorDesc] | Mapping[str, Any],
    soc: str | Platform = DEFAULT_SOC,
    outputs: Sequence[TensorDesc] | None = None,
) -> SetupReport[FsgTiling] | LagReport:
    """Return what an operation answers: creation, shape inference and setup, one after the other.

    Args:
        params: of the operation.
        tensors: descriptions of its inputs in the page's order, or by the page's names; LaserAttentionGrad takes
            shapes by name, too, and knows that a tensor left out that may be empty is empty.
        soc: the part, or a product name.
        outputs: descriptions of its outputs; None for what shape inference gives.

    Raises:
        InputError: parameters of no operation here, tensors that are no descriptions, unknown names.
        DeviceError: no such part.
    """
    if isinstance(params, FastSoftMaxGradParam):
        return fast_softmax_grad.setup(params, tensors, soc, outputs)
    _check_params(params)
    return laser_attention_grad.setup(params, laser_attention_grad.tensors_of(tensors, outputs), soc)


def _check_params(params: Params) -> None:
    if not isinstance(params, Params):
        raise InputError(f"params = {params!r}: must be a FastSoftMaxGradParam or a LaserAttentionGradParam")


@dataclass(frozen=True, slots=True)
class _Kernel:
    """An operation as its kernel runs in a scenario.

    Attributes:
        name: of the operation.
        ini: its types.
        operator: of the scenario.
        names: inputs that the kernel takes by the page's names; their names in scenarios.
        optional: those that may be left out.
        outputs: names in scenarios; the input of the same shape.
        tiling: keys of [tiling].
        unread: what the operation asks for and no kernel reads, described.
        suppress: findings that are meant.
    """

    name: str
    ini: OperationIni
    operator: str
    names: Mapping[str, str]
    optional: tuple[str, ...]
    outputs: Mapping[str, str]
    tiling: Mapping[str, object]
    unread: Mapping[str, TensorDesc]
    suppress: tuple[Mapping[str, str], ...] = ()


def _kernel(params: Params) -> _Kernel:
    if isinstance(params, FastSoftMaxGradParam):
        pads = any(n % 16 for n in params.q_seq_len)
        reason = "copy out drops the padded lanes that SoftmaxGrad writes"
        return _Kernel(
            fast_softmax_grad.NAME,
            fast_softmax_grad.INI,
            "fast_softmax_grad",
            {"yInput": "y_input", "yGrad": "y_grad"},
            (),
            {"x_grad": "yInput"},
            {"head_num": params.head_num, "q_seq_len": list(params.q_seq_len)},
            {},
            ({"code": "W-SMG-PADDING", "reason": reason},) if pads else (),
        )
    _check_params(params)
    return _Kernel(
        lag_params.NAME,
        lag_params.INI,
        "laser_attention_grad",
        lag_operator.READ,
        lag_operator.LEFT_OUT,
        lag_operator.GRADIENTS,
        lag_operator.tiling_of(params),
        lag_operator.STAND_IN,
    )


def execute(
    params: Params,
    tensors: Mapping[str, Array | None],
    soc: str | Platform = DEFAULT_SOC,
    *,
    values: Literal["all", "sample", "none"] = "all",
    compare: bool = False,
    engine: str | None = None,
) -> RunResult:
    """Run the kernel of an operation.

    Args:
        params: of the operation.
        tensors: arrays by the page's names, of the operation's types: half yInput and yGrad, [nSquareTokens]; or those
            of LaserAttentionGrad, of which attenMask and softmaxIn may be left out, None or empty.
        soc: the part.
        values: which values to compute: those of all tiles, of a sample, or none.
        compare: also compare the outputs with the float64 reference; see `expectations` of the result.
        engine: "compiled", "reference", or "both" to compare the two; None for the first.

    Raises:
        InputError: parameters of no operation here, a tensor that is missing, unknown or of another type.
        Rejected: the operation refuses the call.
        DeviceError: no such part, or a product that has parts to choose from.
    """
    kernel = _kernel(params)
    given = {
        name: array
        for name, array in tensors.items()
        if array is not None and (name not in kernel.optional or np.size(array))
    }
    _check_names(kernel, given)
    typed = {name: _typed(name, given[name], kernel) for name in kernel.names if name in given}
    descs = {name: desc_of(from_numpy(array.dtype), array.shape) for name, array in typed.items()}
    report = setup(params, {**kernel.unread, **descs}, soc)
    if report.refusal is not None:
        raise Rejected(report.findings)
    arrays = {kernel.names[name]: array for name, array in typed.items()}
    return machine.run(_scenario(kernel, typed, soc, values, compare=compare), engine, arrays=arrays)


def _check_names(kernel: _Kernel, given: Mapping[str, Array]) -> None:
    takes = f"{kernel.name} takes {', '.join(kernel.names)}"
    for name in given:
        if name not in kernel.names:
            raise InputError(f"tensors[{name!r}]: {takes}")
    missing = [name for name in kernel.names if name not in given and name not in kernel.optional]
    if missing:
        raise InputError(f"tensors: {missing[0]} is missing; {takes}")


def _typed(name: str, given: Array, kernel: _Kernel) -> Array:
    array = np.asarray(given)
    line = next(line for line in kernel.ini.inputs if line.name == name)
    wanted = _ELEMENTS[line.dtypes[0]].numpy
    if array.dtype != wanted:
        raise InputError(f"tensors[{name!r}] is {array.dtype}: must be {wanted}; convert it")
    return array


def _scenario(
    kernel: _Kernel, arrays: Mapping[str, Array], soc: str | Platform, values: str, *, compare: bool
) -> Scenario:
    part: dict[str, Any] = {"device": find_soc(soc).name}
    if isinstance(soc, Platform):
        part = {"platform": {key: value for key, value in asdict(soc).items() if key != "name"}}
    shaped = {name: {"shape": list(x.shape), "dtype": from_numpy(x.dtype).name} for name, x in arrays.items()}
    inputs = {kernel.names[name]: {"role": "input", "fill": "array", **spec} for name, spec in shaped.items()}
    outputs = {name: {"role": "output", **shaped[like]} for name, like in kernel.outputs.items()}
    expected = {name: {"reference": "operator", "bound": "operator"} for name in outputs if compare}
    return scenario_from(
        {
            "schema": 1,
            "name": kernel.operator,
            "operator": kernel.operator,
            **part,
            "tiling": dict(kernel.tiling),
            "tensors": {**inputs, **outputs},
            "machine": {"values": values},
            "expect": {"values": expected},
            "suppress": [dict(one) for one in kernel.suppress],
        },
        Path("atb.execute"),
    )
