"""Phase one of aclnnFlashAttentionScoreGrad: the status it answers with, why, and the workspace it asks for.

    from ascendsim.op_host import flash_attention_score_grad as fag
    report = fag.get_workspace_size(fag.FagParams("bf16", "BNSD", B=1, N2=8, S1=2048, S2=2048), "Ascend910B1")

The interface checks what it gets, pads and transposes where the kernel needs it, and asks the tiling. The bare tiling
is `fag_tiling`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from ascendsim.device import Device, Platform, load_device
from ascendsim.errors import InputError
from ascendsim.op_host import fag_interface
from ascendsim.op_host.fag_below import converted_type, kernel_reasons, tiling_of, tiling_reasons
from ascendsim.op_host.fag_graph import GraphTensor, graph_of
from ascendsim.op_host.fag_interface import Call, mended, new_call
from ascendsim.op_host.fag_params import FagParams, TensorGiven
from ascendsim.op_host.fag_platform import FAG_ARCHS
from ascendsim.op_host.fag_result import FagTiles, FagTiling, TileOverride
from ascendsim.op_host.fag_rules import Reason
from ascendsim.op_host.fag_tensors import MAIN, TensorArgument, axes_of
from ascendsim.op_host.fag_tiling import NO_OVERRIDE, fag_tiling
from ascendsim.op_host.fag_versions import VERSIONS, Interface, has_rope, limits_broken
from ascendsim.op_host.fag_workspace import WorkspaceTerm
from ascendsim.terms import DEFAULT_SOC

__all__ = [
    "STATUS_NAMES",
    "FagParams",
    "FagTiling",
    "GraphTensor",
    "Reason",
    "TensorArgument",
    "TensorGiven",
    "WorkspaceReport",
    "fag_tiling",
    "get_workspace_size",
]

STATUS_NAMES: Final = {
    0: "ACLNN_SUCCESS",
    161001: "ACLNN_ERR_PARAM_NULLPTR",
    161002: "ACLNN_ERR_PARAM_INVALID",
    561002: "ACLNN_ERR_INNER_TILING_ERROR",
    561003: "ACLNN_ERR_INNER_FIND_KERNEL_ERROR",
}
"""Names of the status codes that phase one can answer with here (ops-transformer docs, aclnn return codes)."""

_DOUBTED_FAMILIES: Final = {
    "Atlas A3": "the README of the operator says that Atlas A3 is not supported, its definition registers the chips of "
    "A3, too, and newer pages list it: taken as supported",
}
"""Product families of which the documents contradict each other."""

_LAYER_BELOW: Final = 561000
"""Codes from here on are of layers below the interface."""


@dataclass(frozen=True, slots=True)
class WorkspaceReport:
    """What phase one answers.

    Attributes:
        function: the function of the interface that takes the parameters.
        interface: version of the page.
        device: name of the part.
        status: 0, or the code of the layer that refuses first, as the page of return codes has it.
        workspace_bytes: of the kernel, as its tiling has it; 0 without a kernel, None unless the status is 0.
        graph_tensors: what the operators around the kernel allocate beside it.
        tiling: all that the tiling decides; None if it was not asked, "failed" if it refuses.
        reasons: every rule that the call breaks, in the order in which the operator would meet them, those without a
            status last.
        notes: what was taken for what, and where documents contradict each other.
        kernel_params: the call as the kernel gets it, padded and transposed; None unless there is a tiling.
        params, soc, override: what was asked.
    """

    function: str
    interface: Interface
    device: str
    status: int
    workspace_bytes: int | None = None
    graph_tensors: tuple[GraphTensor, ...] = ()
    tiling: FagTiling | None = None
    reasons: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()
    kernel_params: FagParams | None = None
    params: FagParams | None = None
    soc: str | Platform = ""
    override: TileOverride = NO_OVERRIDE

    @property
    def status_name(self) -> str:
        """Name of the status."""
        return STATUS_NAMES[self.status]

    @property
    def returned_status(self) -> int:
        """What the public sources hand to the caller: 161001 for whatever a layer below the interface refuses.

        There the null result of an inner operator is tested with the code for null pointers, and the log alone says
        what it was (ops-transformer, op_api; reported of the forward operator: vllm-ascend, issue 11720).
        """
        return fag_interface.NULLPTR if self.status >= _LAYER_BELOW else self.status

    @property
    def total_bytes(self) -> int | None:
        """workspace_bytes and the tensors of the graph together; None unless the status is 0.

        The framework's allocator comes on top: it gives each of them 32 bytes more, rounded up to 512, and lets
        tensors share a place whose lives do not overlap (opbase, memory allocator). Neither is in this number.
        """
        if self.workspace_bytes is None:
            return None
        return self.workspace_bytes + sum(tensor.bytes for tensor in self.graph_tensors)

    @property
    def terms(self) -> tuple[WorkspaceTerm, ...]:
        """Parts of workspace_bytes."""
        return self.tiling.terms if self.tiling is not None else ()

    @property
    def tiling_key(self) -> int | None:
        """Tiling key."""
        return self.tiling.tiling_key if self.tiling is not None else None

    @property
    def template(self) -> str:
        """Name of the tiling template; "" if none takes the call."""
        return self.tiling.template if self.tiling is not None else ""

    @property
    def block_dim(self) -> int | None:
        """Blocks to launch."""
        return self.tiling.block_dim if self.tiling is not None else None

    @property
    def tiles(self) -> FagTiles | None:
        """Tile sizes."""
        return self.tiling.tiles if self.tiling is not None else None


def get_workspace_size(
    params: FagParams,
    soc: str | Platform = DEFAULT_SOC,
    *,
    interface: Interface = "current",
    override: TileOverride = NO_OVERRIDE,
) -> WorkspaceReport:
    """Return what aclnnFlashAttentionScoreGradGetWorkspaceSize answers to a call.

    The order is the operator's: null pointers (161001), all gradients empty (0, nothing to do), headNum, ranks, head
    sizes and rotary parts (161002, some 161001), types and formats of the page's list (161002), then below the
    interface the kernel (561003) and the tiling (561002). For what a layer below refuses, see also
    `WorkspaceReport.returned_status`.

    The limits of B, N, S and D in the page's constraints have no return code. A call that breaks one goes on, and
    succeeds or fails in the tiling; the limit is among the reasons, with status None.

    Args:
        params: the call; its `tensors` may be null, empty, scalars, of any type, shape and format.
        soc: the part, or a Platform. Architectures other than 2201 have no kernel (561003).
        interface: "current", or "seed" for the parameters and limits of the oldest page. What that page takes and the
            kernel does not is converted, with a note: dropMask of floats, one element for each score, to bits;
            softmaxMax and softmaxSum to FLOAT; pseShift to the type of query.
        override: tile sizes to prescribe to the template that takes the call; the operator itself takes none.

    Raises:
        DeviceError: no such part.
        InputError: no such interface, a parameter that the seed page has not, or a prescribed tile that the template
            has not.

    Source: ops-transformer, op_api of flash_attention_score_grad and its pages; the seed page.
    """
    if interface not in VERSIONS:
        raise InputError(f'interface = {interface!r}: must be "seed" or "current"')
    device = load_device(soc)
    call = new_call(params, VERSIONS[interface])
    notes = tuple(_notes(call, device))
    blank = WorkspaceReport(
        call.function, interface, device.name, 0, notes=notes, params=params, soc=soc, override=override
    )
    first = (*fag_interface.entry_reasons(call), *fag_interface.null_reasons(call))
    if fag_interface.is_nothing_to_do(call) and not any(reason.status for reason in first):
        told = (*notes, "dq, dk and dv are empty: nothing else is checked and there is no kernel")
        return replace(blank, workspace_bytes=0, reasons=first, notes=told)
    return _checked(blank, call, first, device, override)


def _checked(
    blank: WorkspaceReport, call: Call, first: tuple[Reason, ...], device: Device, override: TileOverride
) -> WorkspaceReport:
    """Return the report of a call that has something to do."""
    upper = (*first, *fag_interface.own_reasons(call, first))
    sound = mended(call, upper)
    axes = axes_of(sound.params.layout, sound.params.heads_given, sound.arguments)
    graph = graph_of(sound.params, axes)
    lower = list(kernel_reasons(call, device))
    below = None
    if device.npu_arch in FAG_ARCHS:
        below = tiling_of(sound, axes, graph, device, override)
        lower += tiling_reasons(call, below.refused)
    limits = limits_broken(sound.params, axes, call.version, call.function)
    told = (*upper, *lower, *fag_interface.output_reasons(call, upper), *limits)
    reasons = tuple(sorted(told, key=lambda reason: reason.status is None))
    status = next((reason.status for reason in reasons if reason.status is not None), 0)
    if status or below is None:
        return replace(blank, status=status, reasons=reasons)
    tiling = below.tiling
    return replace(
        blank,
        workspace_bytes=tiling.workspace_bytes,
        graph_tensors=graph.tensors,
        tiling=tiling,
        reasons=reasons,
        notes=(*blank.notes, *_notes_of_rope(call, tiling)),
        kernel_params=below.params,
    )


def _notes_of_rope(call: Call, tiling: FagTiling) -> Iterator[str]:
    """What is not known of a call with rotary parts."""
    if has_rope(call.params) and not tiling.template.startswith("SameAB"):
        yield (
            f"queryRope and keyRope are given: what template {tiling.template} adds to its workspace for them is not "
            "published, and is not counted"
        )


def _notes(call: Call, device: Device) -> Iterator[str]:
    """What a reader should know beside the answer."""
    for argument in call.arguments.values():
        yield from _notes_of(call, argument)
    if call.params.softmax_in_layout:
        yield (
            "softmaxInLayout belongs to the V4 interface, whose public source tests only whether all tensors are null: "
            "there a single null pointer crashes instead of giving 161001"
        )
    if device.product_family in _DOUBTED_FAMILIES:
        yield _DOUBTED_FAMILIES[device.product_family]


def _notes_of(call: Call, argument: TensorArgument) -> Iterator[str]:
    name = argument.name
    if argument.shape == () and name not in MAIN:
        yield f"{name} is a scalar: it counts as not given"
    if not argument.is_given:
        return
    wanted = converted_type(call, argument)
    if wanted != argument.dtype:
        what = f"{wanted}, a bit for each element" if name == "dropMask" else wanted
        yield f"{name} is {argument.dtype}, as the seed page has it: taken as {what}"
    if name in ("paddingMask", "softmaxIn"):
        yield f"{name} is given: the operator does not read it"
    dpse = call.arguments["dpse"]
    if name == "pseShift" and (dpse.is_null or dpse.dtype == "FLOAT"):
        unused = prod(argument.shape or ()) * call.params.element.bytes
        yield (
            f"dpse is {'null' if dpse.is_null else dpse.dtype}: the operator's own dpse of {unused} B, which nobody "
            "writes or reads, is not counted"
        )
