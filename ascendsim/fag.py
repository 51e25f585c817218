"""Phase two of FlashAttentionScoreGrad as a call: what phase one has answered and arrays in, gradients and cycles out.

    from ascendsim import fag
    report = fag.get_workspace_size(fag.FagParams("bf16", "BNSD", B=1, N2=2, S1=1024, S2=1024), "Ascend910B1")
    done = fag.run(report, {"query": query, "key": key, ...}, report.workspace_bytes)
    done.dq, done.cycles, done.findings

`get_workspace_size` is phase one; `answer(request_of(file, options))` is that of `ascendsim fag`, from a file.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ascendsim import machine
from ascendsim.device import Platform
from ascendsim.dtypes import BFLOAT16, FLOAT, UINT8, cast, from_numpy
from ascendsim.engine.base import Timeline
from ascendsim.errors import Finding, InputError, Rejected
from ascendsim.fag_answer import FagAnswer, answer
from ascendsim.fag_request import Request, request_of
from ascendsim.op_host.fag_call import AXES
from ascendsim.op_host.fag_interface import new_call
from ascendsim.op_host.fag_params import FagParams, TensorGiven
from ascendsim.op_host.fag_result import TileOverride
from ascendsim.op_host.fag_run_rules import GRAPH, WORKSPACE
from ascendsim.op_host.fag_tensors import TensorArgument
from ascendsim.op_host.fag_versions import VERSIONS, has_rope
from ascendsim.op_host.flash_attention_score_grad import WorkspaceReport, get_workspace_size
from ascendsim.result import RunResult
from ascendsim.scenario import Scenario, scenario_from
from ascendsim.terms import RoundMode

__all__ = [
    "FagAnswer",
    "FagParams",
    "FagRun",
    "Platform",
    "Request",
    "TensorGiven",
    "TileOverride",
    "WorkspaceReport",
    "answer",
    "get_workspace_size",
    "request_of",
    "run",
]

Array = NDArray[Any]

NAMES: Final = {
    "query": "query", "key": "key", "value": "value", "dy": "dy", "pseShift": "pse_shift", "dropMask": "drop_mask",
    "paddingMask": "padding_mask", "attenMask": "atten_mask", "softmaxMax": "softmax_max", "softmaxSum": "softmax_sum",
    "softmaxIn": "softmax_in", "attentionIn": "attention_in", "dq": "dq", "dk": "dk", "dv": "dv", "dpse": "dpse",
}  # fmt: skip
"""Tensors in the spelling of the page, in its order; their names in scenarios."""
_GRADIENTS: Final = {"dq": "query", "dk": "key", "dv": "value"}
_OUTPUTS: Final = (*_GRADIENTS, "dpse")
_NEVER_NEEDED: Final = ("paddingMask", "softmaxIn", *_OUTPUTS)
_QUERY_SIDE: Final = ("query", "dy", "attentionIn", "dq")
_MOVED: Final = (*_QUERY_SIDE, "key", "value", "dk", "dv")
"""Tensors that the interface pads and transposes."""
_NUMPY: Final = {
    "FLOAT16": np.dtype(np.float16), "BFLOAT16": BFLOAT16.numpy, "FLOAT": FLOAT.numpy, "UINT8": UINT8.numpy,
    "BOOL": np.dtype(np.bool_),
}  # fmt: skip
_BYTES: Final = ("BOOL", "UINT8")


@dataclass(frozen=True, slots=True)
class FagRun:
    """What phase two gives.

    Attributes:
        dq, dk, dv: gradients in the shapes and types of query, key and value; None where no values were asked for.
            Tensors that were given for them hold the same values.
        dpse: what was given for it, untouched: the operator never writes it.
        result: the run of the kernel, with program, timeline and expectations; its outputs are the kernel's own.
        findings: violated rules and what to know, errors first.
    """

    dq: Array | None
    dk: Array | None
    dv: Array | None
    dpse: Array | None
    result: RunResult
    findings: tuple[Finding, ...]

    @property
    def cycles(self) -> int:
        """Cycles of the kernel from the first dispatch to the last completion, launch not included."""
        return self.result.makespan_cycles

    @property
    def timeline(self) -> Timeline:
        """When every instruction of the kernel ran."""
        return self.result.timeline


def run(
    report: WorkspaceReport | FagAnswer,
    tensors: Mapping[str, Array | None],
    workspace_bytes: int,
    *,
    values: Literal["all", "sample", "none"] = "all",
    compare: bool = False,
    engine: str | None = None,
) -> FagRun:
    """Run the kernel that phase one has chosen.

    Args:
        report: of phase one, or the answer of `ascendsim fag`, which holds one.
        tensors: arrays by name, in the page's spelling (pseShift, also pseShiftOptional) or a scenario's (pse_shift);
            None and scalars count as not given. Shapes and types are those that phase one was asked with; bfloat16
            may come as its bits in uint16, a mask as bool or uint8. dq, dk and dv may be left out; those that are
            given are written into.
        workspace_bytes: length of the workspace.
        values: which values to compute: those of all tiles, of a sample, or none.
        compare: also compare the gradients with the float64 reference; see `result.expectations`.
        engine: "compiled", "reference", or "both" to compare the two; None for the first.

    Raises:
        InputError: a tensor that is missing, unknown, or not what phase one was asked with; no kernel for the call.
        Rejected: phase one refuses the call, the workspace is smaller than it asked for (E-CAP-WORKSPACE), or the
            kernel breaks a rule. Nothing is computed then, and no tensor is written.
    """
    asked = report.report if isinstance(report, FagAnswer) else report
    _check_report(asked, workspace_bytes)
    kernel, params = asked.kernel_params, asked.params
    assert kernel is not None
    assert params is not None
    given = _named(tensors)
    _check_tensors(asked, params, given)
    arrays = {
        NAMES[name]: _laid_out(name, _typed(name, array, kernel), params, kernel)
        for name, array in given.items()
        if name not in _OUTPUTS
    }
    scenario = _scenario(asked, arrays, given.get("dpse"), values=values, compare=compare)
    result = machine.run(scenario, engine, arrays=arrays)
    found = {n: _back(n, result.outputs[n], params, kernel) for n in _GRADIENTS if n in result.outputs}
    for name, array in found.items():
        if name in given:
            given[name][...] = array.view(given[name].dtype)
    graph = of_graph(asked)
    return FagRun(
        found.get("dq"),
        found.get("dk"),
        found.get("dv"),
        given.get("dpse"),
        result,
        machine.in_order((*result.findings, *graph)),
    )


# ---- what is given ---------------------------------------------------------------------------------------------------


def _check_report(report: WorkspaceReport, workspace_bytes: int) -> None:
    """Refuse a call that phase one refuses, one that no kernel runs, and a workspace that is too small."""
    if report.status:
        raise Rejected(reason.finding for reason in report.reasons if reason.status is not None)
    params = report.params
    if params is None or report.kernel_params is None:
        raise InputError(f"{report.function}: there is no kernel to run: dq, dk and dv are empty")
    if params.is_tnd or has_rope(params):
        what = "layout TND" if params.is_tnd else "rotary parts"
        raise InputError(f"{report.function}: {what}: the host answers, a kernel is not there yet")
    wanted = report.workspace_bytes or 0
    if isinstance(workspace_bytes, bool) or not isinstance(workspace_bytes, int | np.integer):
        raise InputError(f"workspace_bytes={workspace_bytes!r}: must be a number of bytes, {wanted} or more")
    if workspace_bytes < wanted:
        raise Rejected(
            [
                WORKSPACE.finding(
                    f"{report.function}: workspace_bytes",
                    operand=f"{wanted - workspace_bytes} B",
                    got=workspace_bytes,
                    wanted=wanted,
                )
            ]
        )


def _named(tensors: Mapping[str, Array | None]) -> dict[str, Array]:
    """Return the arrays that are given by the page's names.

    Raises:
        InputError: a name that no tensor has, or one tensor under two names.
    """
    spelled = {snake: name for name, snake in NAMES.items()} | {name: name for name in NAMES}
    found: dict[str, Array] = {}
    for key, value in tensors.items():
        name = spelled.get(key.removesuffix("Optional"))
        if name is None:
            near = difflib.get_close_matches(key, spelled, n=1, cutoff=0.0)[0]
            raise InputError(f"tensors[{key!r}]: no such tensor; the nearest is {near}")
        if value is None or np.ndim(value) == 0 or (name in _NEVER_NEEDED and np.size(value) == 0):
            continue
        if name in found:
            raise InputError(f"tensors[{key!r}]: {name} is given twice, under two spellings; leave one out")
        found[name] = np.asarray(value)
    return found


def _check_tensors(report: WorkspaceReport, params: FagParams, given: Mapping[str, Array]) -> None:
    """Hold the arrays to what phase one was asked with."""
    arguments = new_call(params, VERSIONS[report.interface]).arguments
    wanted = [name for name in NAMES if arguments[name].is_given and name not in _NEVER_NEEDED]
    missing = [name for name in wanted if name not in given]
    if missing:
        raise InputError(f"tensors: {', '.join(missing)} not given; this call takes {', '.join(wanted)}")
    for name, array in given.items():
        if name in ("paddingMask", "softmaxIn"):
            from_numpy(array.dtype)
            continue
        if not arguments[name].is_given:
            if name != "dpse":
                raise InputError(f"tensors[{name!r}] is given: phase one was asked without it; ask it with {name}")
            continue
        _check_tensor(arguments[name], array)


def _check_tensor(argument: TensorArgument, array: Array) -> None:
    dtype = _NUMPY[argument.dtype]
    taken = [dtype]
    if argument.dtype in _BYTES:
        taken = [_NUMPY[name] for name in _BYTES]
    if argument.dtype == "BFLOAT16":
        taken.append(np.dtype(np.uint16))
    if array.dtype not in taken or array.shape != argument.shape:
        raise InputError(
            f"tensors[{argument.name!r}] is {array.dtype} {list(array.shape)}: phase one was asked with {dtype} "
            f"{list(argument.shape or ())}"
        )


# ---- what the interface does around the kernel -----------------------------------------------------------------------


def _typed(name: str, array: Array, kernel: FagParams) -> Array:
    """Return an array in the type that the kernel takes; only the seed page has others."""
    if array.dtype == np.uint16 and name not in ("paddingMask", "softmaxIn"):
        array = array.view(BFLOAT16.numpy)
    if array.dtype == np.bool_:
        return array.view(UINT8.numpy)
    if name == "dropMask" and array.dtype != UINT8.numpy:
        return np.packbits(array.reshape(-1) != 0, bitorder="little")
    if name in ("softmaxMax", "softmaxSum"):
        return array.astype(FLOAT.numpy)
    if name == "pseShift" and array.dtype != kernel.element.numpy:
        return cast(array.astype(np.float32), kernel.element, RoundMode.CAST_RINT)
    return array


def _laid_out(name: str, array: Array, params: FagParams, kernel: FagParams) -> Array:
    """Return an array padded and transposed as the kernel gets it."""
    wanted = kernel.shape_of(name)
    if name not in _MOVED or (params.layout, array.shape) == (kernel.layout, wanted):
        return np.ascontiguousarray(array)
    heads = params.N1 if name in _QUERY_SIDE else params.N2
    wide = _to_bnsd(array, params.layout, heads)
    inner = _to_bnsd(np.empty(wanted or (), np.bool_), kernel.layout, heads)
    padded = np.zeros(inner.shape, array.dtype)
    padded[..., : wide.shape[-1]] = wide
    return _from_bnsd(padded, kernel.layout)


def _back(name: str, array: Array, params: FagParams, kernel: FagParams) -> Array:
    """Undo `_laid_out`."""
    shape = params.shape_of(_GRADIENTS[name]) or ()
    if (params.layout, shape) == (kernel.layout, array.shape):
        return array
    heads = params.N1 if name in _QUERY_SIDE else params.N2
    columns = params.v_dim if name == "dv" else params.D
    return _from_bnsd(_to_bnsd(array, kernel.layout, heads)[..., :columns], params.layout)


def _to_bnsd(array: Array, layout: str, heads: int) -> Array:
    axes = "".join(AXES[layout]).replace("H", "ND")
    split = array.reshape(*array.shape[:2], heads, -1) if "H" in AXES[layout] else array
    return split.transpose([axes.index(axis) for axis in "BNSD"])


def _from_bnsd(array: Array, layout: str) -> Array:
    axes = "".join(AXES[layout]).replace("H", "ND")
    turned = np.ascontiguousarray(array.transpose(["BNSD".index(axis) for axis in axes]))
    return turned.reshape(*turned.shape[:2], -1) if "H" in AXES[layout] else turned


def of_graph(report: WorkspaceReport) -> Iterable[Finding]:
    """Return what to know of operators around the kernel, if there are any."""
    if report.graph_tensors:
        names = dict.fromkeys(re.split("_", tensor.name, maxsplit=1)[0] for tensor in report.graph_tensors)
        total = sum(tensor.bytes for tensor in report.graph_tensors)
        yield GRAPH.finding(report.function, operand=", ".join(names), got=total, wanted=0)


# ---- the run ---------------------------------------------------------------------------------------------------------


def _scenario(
    report: WorkspaceReport, arrays: Mapping[str, Array], dpse: Array | None, *, values: str, compare: bool
) -> Scenario:
    """Return the scenario of the kernel's run."""
    kernel, params = report.kernel_params, report.params
    assert kernel is not None
    assert params is not None
    tensors: dict[str, Any] = {
        name: {"role": "input", "shape": list(x.shape), "dtype": from_numpy(x.dtype).name, "fill": "array"}
        for name, x in arrays.items()
    }
    outputs = {name: (kernel.shape_of(like) or (), kernel.element) for name, like in _GRADIENTS.items()}
    if dpse is not None:
        pse = kernel.shape_of("pseShift")
        outputs["dpse"] = (pse, kernel.element) if pse else (dpse.shape, from_numpy(dpse.dtype))
    for name, (shape, element) in outputs.items():
        tensors[name] = {"role": "output", "shape": list(shape), "dtype": element.name}
    expected = {name: {"reference": "operator", "bound": "operator"} for name in _GRADIENTS} if compare else {}
    return scenario_from(
        {
            "schema": 1,
            "name": "flash_attention_score_grad",
            "operator": "flash_attention_score_grad",
            **_part(report),
            "tiling": _keys(kernel, params, report.override),
            "tensors": tensors,
            "machine": {"values": values},
            "expect": {"values": expected},
            "suppress": _accepted(report),
        },
        Path("fag.run"),
    )


def _part(report: WorkspaceReport) -> dict[str, Any]:
    if isinstance(report.soc, Platform):
        return {"platform": {key: value for key, value in asdict(report.soc).items() if key != "name"}}
    return {"device": report.device}


def _keys(kernel: FagParams, params: FagParams, override: TileOverride) -> dict[str, Any]:
    return {
        "head_num": kernel.heads_given,
        "layout": kernel.layout,
        "scale": float(params.scale_value),
        "sparse_mode": kernel.sparse_mode,
        "pre_tokens": kernel.pre_tokens,
        "next_tokens": kernel.next_tokens,
        "prefix": list(kernel.prefix),
        "keep_prob": float(kernel.keep_prob),
        "pse_type": kernel.pse_type,
        "inner_precise": kernel.inner_precise,
        "deterministic": kernel.deterministic,
        **override.given(),
    }


def _accepted(report: WorkspaceReport) -> list[dict[str, str]]:
    """What the public kernels themselves break."""
    if report.tiles is None or not report.tiles.is_l1_custom:
        return []
    reason = "the L1-custom form pins all of L1, of which a mixed kernel's framework takes 256 B"
    return [{"code": "E-CAP-L1", "reason": reason}]
