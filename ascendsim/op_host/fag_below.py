"""What lies below FlashAttentionScoreGrad's interface: the kernel of the part, and the tiling with what it refuses.

Source: ops-transformer, op_api, definition and host tiling of flash_attention_score_grad.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from ascendsim.device import Device
from ascendsim.errors import Rule
from ascendsim.op_host import fag_rules as rules
from ascendsim.op_host.fag_call import FagCall, NotCapableError, RefusedError, read_shape
from ascendsim.op_host.fag_checks import entry_reasons, narrow_reasons, shape_reasons, wide_reasons
from ascendsim.op_host.fag_graph import Graph
from ascendsim.op_host.fag_interface import Call
from ascendsim.op_host.fag_params import TENSORS, FagDtype, FagParams, TensorGiven
from ascendsim.op_host.fag_platform import FAG_ARCHS, fag_platform
from ascendsim.op_host.fag_result import FagTiling, TileOverride
from ascendsim.op_host.fag_rules import Reason
from ascendsim.op_host.fag_tensors import GRADIENT_OF, MAIN, Axes, TensorArgument
from ascendsim.op_host.fag_tiling import fag_tiling
from ascendsim.op_host.fag_tiling_s1s2_bn2 import check_deterministic
from ascendsim.op_host.fag_versions import CURRENT
from ascendsim.terms import ceil_div

NO_KERNEL: Final = 561003
TILING_FAILED: Final = 561002

_OWN_DTYPES: Final[dict[str, FagDtype]] = {"FLOAT16": "fp16", "BFLOAT16": "bf16", "FLOAT": "fp32"}

_SPELLED: Final = {
    "keep_prob": "keepProb", "pre_tokens": "preTokens and nextTokens", "sparse_mode": "sparseMode",
    "pse_type": "pseType", "layout": "actualSeqQLen", "q_lens": "actualSeqQLen", "batch": "pseShift",
}  # fmt: skip
"""Arguments in the interface's spelling, by the word with which the tiling starts a refusal."""

_BEFORE_WANTED: Final = (": ", "; ", " needs ", " is for ")

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


@dataclass(frozen=True, slots=True)
class Below:
    """What the layers below the interface make of a call.

    Attributes:
        params: the call as the kernel gets it, padded and transposed.
        tiling: "failed" if it is refused.
        refused: all that the tiling refuses of it.
    """

    params: FagParams
    tiling: FagTiling
    refused: tuple[str, ...]


def tiling_of(call: Call, axes: Axes, graph: Graph, device: Device, override: TileOverride) -> Below:
    """Return the tiling, and all that the tiling refuses of this call.

    Shapes are looked at as the caller gives them; the templates are asked with what the graph makes of them.

    Args:
        call: none of whose tensors is refused by the interface.
        axes: of its tensors.
        graph: of the call.
        device: the part, of an architecture that has the operator.
        override: tile sizes to prescribe.

    Raises:
        InputError: a prescribed tile that the template has not.
    """
    params = handed(call, axes)
    is_changed = graph.pads_d or graph.pads_value or graph.transposes
    inner = _through_graph(params, graph) if is_changed else params
    tiling = fag_tiling(inner, device, override=override)
    refused = [*(_shapes_refused(params, device) if is_changed else ()), *tiling.reasons]
    if tiling.status == "failed":
        refused += _refused_further(inner, device)
    subjects: dict[tuple[str, ...], str] = {}
    for text in refused:
        subjects.setdefault(tuple(text.split()[:2]), text)
    return Below(inner, tiling, tuple(subjects.values()))


def handed(call: Call, axes: Axes) -> FagParams:
    """Return the call as its tensors are, in the tiling's words: axes from the shapes, scalars as absent."""
    params, arguments = call.params, call.arguments
    valued = {"actualSeqQLen": params.q_lens, "actualSeqKvLen": params.kv_lens}
    left_out = {
        "dqRope",
        "dkRope",
        *(name for name, values in valued.items() if not (values and arguments[name].is_given)),
    }
    if not params.is_tnd:
        params = replace(params, B=axes.B, S1=axes.S1, S2=axes.S2)
    return replace(
        params,
        dtype=_OWN_DTYPES.get(arguments["query"].dtype, params.dtype),
        N2=axes.N2,
        G=axes.N1 // axes.N2 if axes.N2 else 0,
        D=axes.D,
        Dv=axes.Dv,
        head_num=params.heads_given,
        q_lens=params.q_lens if arguments["actualSeqQLen"].is_given else (),
        kv_lens=params.kv_lens if arguments["actualSeqKvLen"].is_given else (),
        tensors=tuple(_handed(call, arguments[name]) for name in TENSORS if name not in left_out),
    )


def _handed(call: Call, argument: TensorArgument) -> TensorGiven:
    """Return a tensor with a type that the kernel takes, if the version of the page takes the one it has.

    The kernel's gradients have the shapes of its inputs, whatever the caller's tensors have.
    """
    name, dtype = argument.name, argument.dtype
    shape = call.arguments[GRADIENT_OF.get(name, name)].shape
    if name not in MAIN and not argument.is_given:
        return TensorGiven(name, is_null=True)
    wanted = converted_type(call, argument)
    if name == "dropMask" and wanted != dtype:
        shape = (ceil_div(prod(shape or ()), 8),)
    return TensorGiven(name, shape, _OWN_DTYPES.get(wanted, wanted.lower()), is_null=shape is None)


def converted_type(call: Call, argument: TensorArgument) -> str:
    """Return the type in which the kernel gets a tensor: another only where the page takes more than the kernel."""
    version, name = call.version, argument.name
    if name not in version.converted or argument.dtype not in version.types[name]:
        return argument.dtype
    return version.converted[name] or call.arguments["query"].dtype


def _through_graph(params: FagParams, graph: Graph) -> FagParams:
    """Return the call as the kernel gets it: padded and transposed tensors have the shapes that these axes imply."""
    rows = {name: (params.shape_of(name) or (0,))[0] for name in MAIN}
    implied = replace(
        params,
        layout=graph.layout,
        D=graph.D,
        Dv=graph.Dv,
        tensors=tuple(t for t in _entries_of(params) if t.name not in MAIN),
    )
    if not params.is_tnd:
        return implied
    shapes = {name: (rows[name], *(implied.shape_of(name) or ())[1:]) for name in MAIN}
    return replace(implied, tensors=(*_entries_of(implied), *(TensorGiven(n, shape) for n, shape in shapes.items())))


def _entries_of(params: FagParams) -> tuple[TensorGiven, ...]:
    return tuple(t for name in TENSORS if (t := params.given(name)) is not None)


def _shapes_refused(params: FagParams, device: Device) -> tuple[str, ...]:
    """Return what the tiling finds wrong with the tensors' shapes before any padding."""
    found = tuple(entry_reasons(params))
    if found:
        return found
    try:
        return tuple(shape_reasons(FagCall(params, read_shape(params), fag_platform(device))))
    except RefusedError as error:
        return error.reasons


def _refused_further(params: FagParams, device: Device) -> list[str]:
    """Return what the templates refuse that are asked whatever the call is, not only the first that does.

    The first is S1s2Bn2 for deterministic calls, which checks before it looks whether the call is one; unless it takes
    the call, SameAB and S1s2Bn2gs1s2 check, too, before any other. Where no template is asked because heads or batches
    do not agree, they are taken as if they did.
    """
    heads = replace(params, head_num=params.N1)
    implied = replace(heads, tensors=tuple(t for t in _entries_of(params) if t.name not in MAIN))
    sound = next((tried for tried in (params, heads, implied) if not any(entry_reasons(tried))), None)
    if sound is None:
        return []
    try:
        call = FagCall(sound, read_shape(sound), fag_platform(device))
    except RefusedError:
        return []
    found = list(narrow_reasons(call))
    try:
        check_deterministic(call)
    except NotCapableError:
        for prefix_is_causal in (True, False):
            found += wide_reasons(call, prefix_is_causal=prefix_is_causal)
    return found


def tiling_reasons(call: Call, refused: tuple[str, ...]) -> Iterator[Reason]:
    """Return what the tiling refuses, as reasons.

    A refusal starts with the argument that it is about, and says behind one of a few marks what would be right.
    """
    for text in refused:
        word = text.split()[0].rstrip(",:")
        mark = next((mark for mark in _BEFORE_WANTED if mark in text), _BEFORE_WANTED[0])
        got, _, wanted = text.partition(mark)
        spelled = _SPELLED.get(word, word if word in TENSORS or word in _PARAM_WORDS else "query")
        finding = _tiled_rule(word, text).finding(
            call.where(spelled), operand=spelled, got=got, wanted=wanted, fill={"what": text}
        )
        yield Reason(finding, TILING_FAILED)


def _tiled_rule(word: str, text: str) -> Rule:
    if " not given: " in text or word == "layout":
        return rules.TILED_NULL
    if f"{word} is " in text:
        return rules.TILED_DTYPE
    if word in _PARAM_WORDS:
        return rules.TILED_PARAM
    return rules.TILED_MASK if word in _MASK_WORDS else rules.TILED_SHAPE
