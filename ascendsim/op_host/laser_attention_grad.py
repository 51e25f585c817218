"""LaserAttentionGradOperation up to its kernel: created, shapes inferred, set up.

    from ascendsim.op_host.laser_attention_grad import LaserAttentionGradParam, setup
    report = setup(LaserAttentionGradParam(headNum=4, preTokens=4096), {"query": (1, 4, 4096, 128), ...}, "Ascend910B1")
    report.stage, report.error_name, report.message, report.tiling

Source: LaserAttentionGradOperation page; ATB, laser_attention_grad operator and host tiling.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ascendsim.device import Device, Platform
from ascendsim.errors import Finding
from ascendsim.op_host.atb import NO_ERROR, Refusal, Stage, TensorDesc, Tensors, atb_device, tensors_of
from ascendsim.op_host.fag_workspace import FLOAT_BYTES
from ascendsim.op_host.lag_checks import call_of, create_refused, infer_shape_refused, setup_refused
from ascendsim.op_host.lag_params import GRADIENT_OF, INPUTS, OUTPUTS, LagCall, LaserAttentionGradParam
from ascendsim.op_host.lag_rules import CORES, IGNORED, MASK_BITS, MASK_BITS_UNUSED, POST, POST_UNUSED, WRAP
from ascendsim.op_host.lag_tiling import LagTiling, lag_platform, lag_tiling

__all__ = ["LaserAttentionGradParam", "SetupReport", "TensorDesc", "Tensors", "infer_shape", "setup"]


@dataclass(frozen=True, slots=True)
class SetupReport:
    """What the operator answers.

    Attributes:
        params, soc: what was asked.
        refusal: the first check that fails, None if none does.
        call: the call, and the rest, None or empty if it is refused.
        device: the part.
        tiling: what the tiling decides.
        findings: what to know of the call, errors first.
    """

    params: LaserAttentionGradParam
    soc: str | Platform
    refusal: Refusal | None = None
    call: LagCall | None = None
    device: Device | None = None
    tiling: LagTiling | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def stage(self) -> str:
        """Stage that refuses: "create", "infer_shape" or "setup"; "" if none does."""
        return "" if self.refusal is None else self.refusal.stage.value

    @property
    def error_name(self) -> str:
        """Name of the error; "NO_ERROR" without one."""
        return NO_ERROR if self.refusal is None else self.refusal.error.value

    @property
    def message(self) -> str:
        """What, where, why and how to mend it; "" without an error."""
        return "" if self.refusal is None else self.refusal.message


def setup(
    params: LaserAttentionGradParam,
    tensors: Tensors | Mapping[str, object],
    soc: str | Platform = "Ascend910B1",
    *,
    vendor_quirks: bool = False,
) -> SetupReport:
    """Create the operator, infer shapes and set it up.

    Args:
        params: its parameters.
        tensors: inputs, and outputs if they are given, by the page's names: a shape, a `TensorDesc`, or None for an
            empty tensor. Without outputs they are as the operator infers them.
        soc: the part, or a `Platform`.
        vendor_quirks: findings are about a kernel with the known defects of the original.

    Raises:
        InputError: a name that the operator does not have, or something that is no tensor.
        DeviceError: no such part.
    """
    device = atb_device(soc)
    refusal = next(create_refused(params, device, soc), None)
    if refusal is not None or device is None:
        return SetupReport(params, soc, refusal)
    given = tensors_of(tensors, INPUTS, OUTPUTS)
    refusal = next(infer_shape_refused(params, given, Stage.INFER_SHAPE), None)
    refusal = refusal or next(setup_refused(params, given), None)
    if refusal is not None:
        return SetupReport(params, soc, refusal)
    call = call_of(params, given)
    tiling = lag_tiling(call, lag_platform(device))
    found = sorted(notes(params, call, tiling, device, vendor_quirks), key=lambda finding: "EWI".index(finding.severity.value))
    return SetupReport(params, soc, None, call, device, tiling, tuple(found))


def infer_shape(tensors: Mapping[str, TensorDesc]) -> dict[str, TensorDesc]:
    """Return the outputs of inputs that have passed the checks; dpse gets the shape of query."""
    return {slot.name: tensors[GRADIENT_OF.get(slot.name, "query")] for slot in OUTPUTS}


def notes(
    params: LaserAttentionGradParam, call: LagCall, tiling: LagTiling, device: Device, vendor_quirks: bool
) -> Iterator[Finding]:
    """Yield what to know of a call that is not refused."""
    defaults = LaserAttentionGradParam()
    for name in params.changed("keepProb", "nextTokens", "sparseMode"):
        yield IGNORED.finding(name, operand=name, got=getattr(params, name), wanted=getattr(defaults, name))
    sums = (("dQ", call.q_elements, tiling.dq_elems), ("dK", call.k_elements, tiling.dk_elems))
    for name, whole, held in (*sums, ("dV", call.v_elements, tiling.dv_elems)):
        if whole != held:
            yield WRAP.finding("workspace", operand=name, got=whole * FLOAT_BYTES, wanted=held * FLOAT_BYTES)
    if call.is_sparse:
        yield (MASK_BITS if vendor_quirks else MASK_BITS_UNUSED).finding("attenMask", operand="attenMask", got="float16", wanted="bfloat16")
    surplus = tiling.post_dq.front_data * device.aiv - tiling.dq_elems
    if surplus and call.layout == "BNSD":
        yield (POST if vendor_quirks else POST_UNUSED).finding(
            "queryGrad", operand="queryGrad", got=tiling.post_dq.front_data, wanted=surplus, fill={"cores": device.aiv}
        )
    if tiling.block_dim != tiling.td_block_dim and call.layout == "BNSD":
        launched = device.aiv // device.aic * tiling.block_dim
        yield CORES.finding(
            "soc", operand="soc", got=tiling.td_block_dim, wanted=tiling.block_dim,
            fill={"aivs": device.aiv, "launched": launched},
        )
