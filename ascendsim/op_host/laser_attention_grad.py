"""LaserAttentionGradOperation of ATB up to its kernel: created, shapes inferred, set up.

    from ascendsim.op_host.laser_attention_grad import LaserAttentionGradParam, setup
    report = setup(LaserAttentionGradParam(headNum=4, preTokens=4096), {"query": (1, 4, 4096, 128), ...}, "Ascend910B1")
    report.stage, report.error, report.message, report.tiling

Source: LaserAttentionGradOperation page; ascend-transformer-boost, ops_train/laser_attention_grad,
mixkernels/laser_attention_grad.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ascendsim.device import Device, Platform
from ascendsim.errors import Finding, InputError
from ascendsim.op_host.atb import (
    Refusal,
    SetupReport,
    Soc,
    Stage,
    TensorDesc,
    TensorIni,
    find_soc,
    first_refusal,
    soc_of,
)
from ascendsim.op_host.fag_workspace import FLOAT_BYTES
from ascendsim.op_host.lag_checks import (
    by_name,
    call_of,
    create_reasons,
    infer_shape_reasons,
    inferred,
    setup_reasons,
)
from ascendsim.op_host.lag_params import INI, NAME, LagCall, LaserAttentionGradParam
from ascendsim.op_host.lag_rules import CORES, IGNORED, MASK_BITS, MASK_BITS_UNUSED, POST, POST_UNUSED, WRAP
from ascendsim.op_host.lag_tiling import LagTiling, lag_platform, lag_tiling
from ascendsim.terms import DEFAULT_SOC

__all__ = ["LagReport", "LaserAttentionGradParam", "TensorDesc", "Tensors", "setup"]

_GRAVEST_FIRST: Final = "EWI"


@dataclass(frozen=True, slots=True)
class Tensors:
    """Tensors of a call in the operator's order; outputs None where they are to be as the operator infers them."""

    inputs: Sequence[TensorDesc]
    outputs: Sequence[TensorDesc] | None = None


@dataclass(frozen=True, slots=True)
class LagReport(SetupReport[LagTiling]):
    """What the operator answers.

    Attributes:
        call: the call as the kernel gets it, None if it is refused.
        device: the part, None for a product that has none.
        told: what to know of a call that is not refused, the gravest first.
    """

    call: LagCall | None = None
    device: Device | None = None
    told: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The refusal, or what to know of the call."""
        return self.told if self.refusal is None else (self.refusal.finding,)


def setup(
    params: LaserAttentionGradParam,
    tensors: Tensors | Mapping[str, object],
    soc: str | Platform = DEFAULT_SOC,
    *,
    vendor_quirks: bool = False,
) -> LagReport:
    """Create the operator, infer shapes and set it up.

    Args:
        params: its parameters.
        tensors: inputs, and outputs if they are given, by the page's names: a shape, a `TensorDesc`, or None for an
            empty tensor; or `Tensors` in the operator's order. Without outputs they are as the operator infers them.
        soc: the part, or a `Platform`.
        vendor_quirks: findings are about a kernel with the known defects of the original.

    Raises:
        InputError: a name that the operator does not have, something that is no tensor, some outputs but not all.
        DeviceError: no such part.
    """
    given = tensors if isinstance(tensors, Tensors) else tensors_of(tensors)
    return _setup(params, given, find_soc(soc), vendor_quirks=vendor_quirks)


def setup_on(
    params: LaserAttentionGradParam, tensors: Tensors, device: Device, *, vendor_quirks: bool = False
) -> LagReport:
    """Do what `setup` does, on a part that is loaded."""
    return _setup(params, tensors, soc_of(device), vendor_quirks=vendor_quirks)


def _setup(params: LaserAttentionGradParam, given: Tensors, part: Soc, *, vendor_quirks: bool) -> LagReport:
    refusal = first_refusal(
        (
            (Stage.CREATE, lambda: create_reasons(params, part)),
            (Stage.INFER_SHAPE, lambda: infer_shape_reasons(params, given.inputs)),
            (Stage.SETUP, lambda: () if given.outputs is None else setup_reasons(params, given.inputs, given.outputs)),
        )
    )
    if refusal is not None or part.device is None:
        return _refused(refusal, part, given)
    call = call_of(params, by_name(given.inputs))
    tiling = lag_tiling(call, lag_platform(part.device))
    told = notes(params, call, tiling, part.device, vendor_quirks=vendor_quirks)
    return LagReport(
        operation=NAME,
        soc=part.name,
        refusal=None,
        outputs=inferred(given.inputs),
        tiling=tiling,
        workspace_bytes=tiling.workspace_bytes,
        notes=(part.note,) if part.note else (),
        call=call,
        device=part.device,
        told=tuple(sorted(told, key=lambda finding: _GRAVEST_FIRST.index(finding.severity.value))),
    )


def _refused(refusal: Refusal | None, part: Soc, given: Tensors) -> LagReport:
    outputs = inferred(given.inputs) if refusal is not None and refusal.stage is Stage.SETUP else ()
    notes_of = (part.note,) if part.note else ()
    return LagReport(NAME, part.name, refusal, outputs, notes=notes_of, device=part.device)


def tensors_of(
    tensors: Sequence[TensorDesc] | Mapping[str, object], outputs: Sequence[TensorDesc] | None = None
) -> Tensors:
    """Return the tensors of a call.

    Args:
        tensors: inputs in the operator's order; or inputs and perhaps outputs by name, of which those that are left out
            and may be empty are empty.
        outputs: in the operator's order; None for those among the names.

    Raises:
        InputError: a name that the operator does not have, something that is no tensor, some outputs but not all.
    """
    if isinstance(tensors, Mapping):
        named = _ordered(tensors)
        return named if outputs is None else Tensors(named.inputs, outputs)
    for desc in (*tensors, *(outputs or ())):
        if not isinstance(desc, TensorDesc):
            raise InputError(f"tensors: {desc!r} is no TensorDesc(dtype, format, dims)")
    return Tensors(tensors, outputs)


def _ordered(given: Mapping[str, object]) -> Tensors:
    """Return named tensors in the operator's order; those that are left out and may not be empty are missing."""
    known = {line.name: line for line in (*INI.inputs, *INI.outputs)}
    for name in given:
        if name not in known:
            raise InputError(f"tensors[{name!r}]: no such tensor; {NAME} has {', '.join(known)}")
    made = {name: _described(value, known[name]) for name, value in given.items()}
    empty = {line.name: _described(None, line) for line in INI.inputs if line.may_be_empty}
    found = empty | made
    outputs = [line.name for line in INI.outputs if line.name in made]
    missing = [line.name for line in INI.outputs if line.name not in made]
    if outputs and missing:
        raise InputError(f"tensors: of the outputs {', '.join(missing)} not given; give all of them or none")
    inputs = tuple(found[line.name] for line in INI.inputs if line.name in found)
    return Tensors(inputs, tuple(made[name] for name in outputs) if outputs else None)


def _described(value: object, line: TensorIni) -> TensorDesc:
    if isinstance(value, TensorDesc):
        return value
    dtype, data_format = line.combination(0)
    if value is None:
        return TensorDesc(dtype, data_format)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return TensorDesc(dtype, data_format, tuple(value))
    raise InputError(f"tensors[{line.name!r}] = {value!r}: must be a TensorDesc, a shape, or None for an empty tensor")


def notes(
    params: LaserAttentionGradParam, call: LagCall, tiling: LagTiling, device: Device, *, vendor_quirks: bool
) -> Iterator[Finding]:
    """Yield what to know of a call that is not refused."""
    defaults = LaserAttentionGradParam()
    for name in params.changed("keepProb", "nextTokens", "sparseMode"):
        yield IGNORED.finding(f"{NAME}.{name}", operand=name, got=getattr(params, name), wanted=getattr(defaults, name))
    sums = (("dQ", call.q_elements, tiling.dq_elems), ("dK", call.k_elements, tiling.dk_elems))
    for name, whole, held in (*sums, ("dV", call.v_elements, tiling.dv_elems)):
        if whole != held:
            wanted = held * FLOAT_BYTES
            yield WRAP.finding(f"{NAME} workspace", operand=name, got=whole * FLOAT_BYTES, wanted=wanted)
    if call.is_sparse:
        rule = MASK_BITS if vendor_quirks else MASK_BITS_UNUSED
        yield rule.finding(f"{NAME} attenMask", operand="attenMask", got="float16", wanted="bfloat16")
    surplus = tiling.post_dq.front_data * device.aiv - tiling.dq_elems
    if surplus and call.layout == "BNSD":
        rule = POST if vendor_quirks else POST_UNUSED
        fill = {"cores": device.aiv}
        got = tiling.post_dq.front_data
        yield rule.finding(f"{NAME} queryGrad", operand="queryGrad", got=got, wanted=surplus, fill=fill)
    if tiling.block_dim != tiling.td_block_dim and call.layout == "BNSD":
        launched = device.aiv // device.aic * tiling.block_dim
        fill = {"aivs": device.aiv, "launched": launched}
        yield CORES.finding(
            f"{NAME} device", operand="soc", got=tiling.td_block_dim, wanted=tiling.block_dim, fill=fill
        )
