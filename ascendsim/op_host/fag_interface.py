"""What FlashAttentionScoreGrad's interface checks before it asks the tiling, in its order. Every broken rule is told.

The order decides the status alone: the first broken rule that has one.

Source: ops-transformer, op_api of flash_attention_score_grad, and the page's list of return codes. Of types and formats
the page says 161002, while no check of them stands in the op_api; they come last here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from ascendsim.errors import Finding, InputError
from ascendsim.op_host import fag_rules as rules
from ascendsim.op_host.fag_graph import Graph, graph_of, keeps_value
from ascendsim.op_host.fag_params import FagParams
from ascendsim.op_host.fag_rules import Reason
from ascendsim.op_host.fag_tensors import (
    ARRAYS,
    GRADIENT_OF,
    MAIN,
    ROPE,
    Arguments,
    Axes,
    TensorArgument,
    arguments_of,
    axes_of,
)
from ascendsim.op_host.fag_versions import FUNCTION, SEED, Version, function_of, has_rope, is_unpadding

NULLPTR: Final = 161001
INVALID: Final = 161002

_LEAST_RANK: Final = 3

_OLD_DEFAULTS: Final = {
    "prefix": (), "sparse_mode": 0, "pse_type": 1, "q_lens": (), "kv_lens": (), "q_start_idx": (), "kv_start_idx": (),
    "query_rope": None, "key_rope": None, "softmax_in_layout": "",
}  # fmt: skip
"""Parameters that the seed page has not, and the value that stands for leaving them out."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the interface.

    Attributes:
        params: its parameters.
        version: of the page.
        arguments: its tensors.
        function: name of the function that takes the parameters.
    """

    params: FagParams
    version: Version
    arguments: Arguments
    function: str

    def where(self, argument: str) -> str:
        """Return the place of a finding."""
        return f"{self.function}: {argument}"

    def given(self, *names: str) -> Iterator[TensorArgument]:
        """Return those of the tensors that are not null."""
        return (self.arguments[name] for name in names if not self.arguments[name].is_null)


def new_call(params: FagParams, version: Version) -> Call:
    """Return the call.

    Raises:
        InputError: a parameter that the seed page has not.
    """
    if version is SEED:
        _only_old(params)
    function = FUNCTION if version is SEED else function_of(params)
    return Call(params, version, new_arguments(params, version), function)


def new_arguments(params: FagParams, version: Version) -> Arguments:
    """Return the tensors of a call, of types that the version takes where nothing is said of them."""
    return {name: _typed(argument, params, version) for name, argument in arguments_of(params).items()}


def _only_old(params: FagParams) -> None:
    new = [f"{name} = {getattr(params, name)!r}" for name, old in _OLD_DEFAULTS.items() if getattr(params, name) != old]
    new += ['layout = "TND"'] if params.is_tnd else []
    new += [f"tensor {name}" for name in (*ARRAYS, *ROPE) if params.given(name) is not None]
    if new:
        raise InputError(
            f'the seed page of {FUNCTION} has not: {", ".join(new)}; leave it out, or ask with interface="current"'
        )


def _typed(argument: TensorArgument, params: FagParams, version: Version) -> TensorArgument:
    """Return a tensor of which the call says no type with one that the version takes."""
    given = params.given(argument.name)
    says_type = given is not None and given.dtype is not None
    fallback = version.fallback_types.get(argument.name)
    if says_type or fallback is None or argument.dtype in version.types[argument.name]:
        return argument
    return replace(argument, dtype=fallback)


# --- in the order of the op_api ---


def entry_reasons(call: Call) -> Iterator[Reason]:
    """Checks of the unpadding interfaces, before they look at any tensor."""
    params = call.params
    if is_unpadding(params) and not params.is_tnd:
        owner = next(name for name, is_given in _unpadding_arguments(params) if is_given)
        yield _invalid(rules.NOT_TND.finding(call.where("inputLayout"), operand=owner, got=params.layout, wanted="TND"))
    if params.softmax_in_layout not in ("", "same_as_input"):
        yield _invalid(
            rules.SOFTMAX_LAYOUT.finding(
                call.where("softmaxInLayout"), got=params.softmax_in_layout, wanted='"same_as_input" or ""'
            )
        )
    if params.softmax_in_layout:
        others = (("queryRope", has_rope(params)), ("pseType", params.pse_type != 1),
                  ("qStartIdx", bool(params.q_start_idx or params.kv_start_idx)))  # fmt: skip
        for name, is_given in others:
            if is_given:
                finding = rules.MIXED.finding(call.where("softmaxInLayout"), operand=name, got=name, wanted="one")
                yield Reason(finding, None)


def _unpadding_arguments(params: FagParams) -> tuple[tuple[str, bool], ...]:
    return (
        ("actualSeqQLen", bool(params.q_lens)),
        ("actualSeqKvLen", bool(params.kv_lens)),
        ("queryRope or keyRope", has_rope(params)),
        ("softmaxInLayout", bool(params.softmax_in_layout)),
    )


def null_reasons(call: Call) -> Iterator[Reason]:
    """Tensors that must not be null."""
    for name in call.version.required:
        if call.arguments[name].is_null:
            finding = rules.NULL.finding(call.where(name), operand=name, got="null", wanted="a tensor")
            yield Reason(finding, NULLPTR)


def is_nothing_to_do(call: Call) -> bool:
    """Return whether dq, dk and dv are empty, and dpse null or empty: then the call succeeds without a kernel."""
    dpse = call.arguments["dpse"]
    return all(call.arguments[name].is_empty for name in ("dq", "dk", "dv")) and (dpse.is_null or dpse.is_empty)


def head_reasons(call: Call) -> Iterator[Reason]:
    """Check headNum."""
    heads = call.params.heads_given
    if heads <= 0:
        yield _invalid(rules.PARAM.finding(call.where("headNum"), operand="headNum", got=heads, wanted="at least 1"))


def rank_reasons(call: Call) -> Iterator[Reason]:
    """Numbers of axes."""
    rope = (call.arguments[name] for name in ROPE)
    names = (*ROPE, *MAIN) if not any(tensor.is_null for tensor in rope) else MAIN
    for tensor in call.given(*names):
        if tensor.rank < _LEAST_RANK:
            yield _invalid(
                rules.RANK.finding(call.where(tensor.name), operand=tensor.name, got=tensor.rank, wanted=_LEAST_RANK)
            )
    if call.params.layout in ("BSND", "BNSD"):
        for tensor in call.given("query", "key", "value"):
            if tensor.rank == _LEAST_RANK:
                yield _invalid(
                    rules.RANK_LAYOUT.finding(
                        call.where(tensor.name),
                        operand=tensor.name,
                        got=tensor.rank,
                        wanted=4,
                        fill={"layout": call.params.layout},
                    )
                )


def size_reasons(call: Call, axes: Axes) -> Iterator[Reason]:
    """Head sizes of query, key and value."""
    if axes.D == 0 and call.params.layout in ("BSH", "SBH"):
        fill = {"h": call.arguments["query"].axis(2), "heads": call.params.heads_given}
        yield _invalid(rules.NO_D.finding(call.where("query"), operand="query", got=0, wanted="D >= 1", fill=fill))
        return
    if axes.Dk != axes.D:
        yield _invalid(rules.KEY_D.finding(call.where("key"), operand="key", got=axes.Dk, wanted=axes.D))
    if axes.Dv > axes.D:
        yield _invalid(rules.VALUE_D.finding(call.where("value"), operand="value", got=axes.Dv, wanted=axes.D))


def rope_reasons(call: Call, axes: Axes, graph: Graph) -> Iterator[Reason]:
    """Rotary parts and what must not stand beside them."""
    if not has_rope(call.params):
        return
    for name in ("queryRope", "keyRope"):
        if call.arguments[name].is_null:
            finding = rules.NULL_ROPE.finding(call.where(name), operand=name, got="null", wanted="a tensor")
            yield Reason(finding, NULLPTR)
    for tensor in call.given("queryRope", "keyRope"):
        if tensor.axis(2) > axes.D:
            finding = rules.ROPE_D.finding(
                call.where(tensor.name), operand=tensor.name, got=tensor.axis(2), wanted=axes.D
            )
            yield _invalid(finding)
    for tensor in call.given("query", "queryRope", "key", "keyRope", "value"):
        if tensor.dtype != "BFLOAT16":
            finding = rules.ROPE_DTYPE.finding(
                call.where(tensor.name), operand=tensor.name, got=tensor.dtype, wanted="BFLOAT16"
            )
            yield _invalid(finding)
    yield from _beside_rope(call, graph)


def _beside_rope(call: Call, graph: Graph) -> Iterator[Reason]:
    params, mask = call.params, call.arguments["attenMask"]
    if params.sparse_mode == 6:
        yield _no_rope(call, "sparseMode 6", "sparseMode", 6, "another mode")
    if not mask.is_given:
        finding = rules.NULL_ROPE_MASK.finding(
            call.where("attenMask"), operand="attenMask", got=mask.text, wanted="a mask"
        )
        yield Reason(finding, NULLPTR)
    for name in ("pseShift", "dropMask"):
        tensor = call.arguments[name]
        if not tensor.is_null:
            yield _no_rope(call, name, name, tensor.text, "null")
    if params.keep_prob < 1:
        yield _no_rope(call, f"keepProb = {params.keep_prob}", "keepProb", params.keep_prob, 1)
    if graph.pads_d or graph.pads_value or graph.transposes:
        yield _no_rope(call, "shapes that have to be padded or transposed", "query", f"D {graph.D}", "no pad")


def _no_rope(call: Call, what: str, argument: str, got: object, wanted: object) -> Reason:
    return _invalid(
        rules.ROPE.finding(call.where(argument), operand=argument, got=got, wanted=wanted, fill={"what": what})
    )


def type_reasons(call: Call) -> Iterator[Reason]:
    """Types and formats that the page does not list."""
    version = call.version
    for tensor in call.given(*version.types):
        if tensor.rank == 0 and tensor.name not in MAIN:  # a scalar stands for an absent tensor
            continue
        taken = version.types[tensor.name]
        place, fill = call.where(tensor.name), {"version": version.name}
        if tensor.dtype not in taken:
            wanted = ", ".join(sorted(taken))
            finding = rules.DTYPE.finding(place, operand=tensor.name, got=tensor.dtype, wanted=wanted, fill=fill)
            yield _invalid(replace(finding, source=version.codes_source))
        if tensor.data_format != "ND":
            finding = rules.FORMAT.finding(place, operand=tensor.name, got=tensor.data_format, wanted="ND", fill=fill)
            yield _invalid(replace(finding, source=version.codes_source))


def graph_reasons(call: Call, axes: Axes, graph: Graph) -> Iterator[Reason]:
    """Operators around the kernel that cannot be built."""
    if keeps_value(call.params, axes) and graph.pads_d:
        finding = rules.NO_PAD_OF_192.finding(call.where("value"), operand="value", got=axes.Dv, wanted=graph.D)
        yield Reason(finding, NULLPTR)


def own_reasons(call: Call, first: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Return what the interface finds wrong behind its null checks, without what lies below it.

    Head sizes are those of the tensors that can be read; what cannot is taken as the parameters imply it.

    Args:
        call: which has something to do.
        first: what was found before.
    """
    found = (*head_reasons(call), *rank_reasons(call))
    readable = mended(call, (*first, *found))
    axes = axes_of(readable.params.layout, readable.params.heads_given, readable.arguments)
    graph = graph_of(readable.params, axes)
    return (
        *found,
        *size_reasons(readable, axes),
        *rope_reasons(call, axes, graph),
        *type_reasons(call),
        *graph_reasons(call, axes, graph),
    )


def mended(call: Call, reasons: tuple[Reason, ...]) -> Call:
    """Return the call with what these reasons are about as its parameters imply it, so that the rest can be looked at.

    Without any it is the call itself.
    """
    codes = {reason.finding.operand: reason.code for reason in reasons if reason.status is not None}
    params = call.params
    if "headNum" in codes or rules.NO_D.code == codes.get("query"):
        params = replace(params, head_num=params.N1 or 1)
    implied = new_arguments(replace(params, tensors=()), call.version)
    arguments = dict(call.arguments)
    for name, code in codes.items():
        if name in arguments:
            by_type = code == rules.DTYPE.code
            arguments[name] = _of_taken_type(arguments[name], implied[name], call.version) if by_type else implied[name]
    sound = replace(call, params=params, arguments=arguments)
    return _of_one_size(sound) if {"key", "value"} & codes.keys() else sound


def _of_taken_type(argument: TensorArgument, implied: TensorArgument, version: Version) -> TensorArgument:
    """Return a tensor with the type that the parameters imply, or another that the page takes."""
    taken = sorted(version.types.get(argument.name, ())) or [implied.dtype]
    return replace(argument, dtype=implied.dtype if implied.dtype in taken else taken[0])


def _of_one_size(call: Call) -> Call:
    """Return the call with a key of query's head size, and no value, dy or attentionIn of a larger one."""
    axes = axes_of(call.params.layout, call.params.heads_given, call.arguments)
    is_split = call.params.layout not in ("BSH", "SBH")
    key, rows = (axes.D, axes.D) if is_split else (axes.N2 * axes.D, axes.N1 * axes.D)
    arguments = dict(call.arguments)
    for name, most in (("key", key), ("value", key), ("dy", rows), ("attentionIn", rows)):
        shape = arguments[name].shape
        if shape and (name == "key" or shape[-1] > most):
            arguments[name] = replace(arguments[name], shape=(*shape[:-1], most))
    return replace(call, arguments=arguments)


def output_reasons(call: Call, told: tuple[Reason, ...]) -> Iterator[Reason]:
    """Gradients whose tensors have another shape than query, key or value, unless something is told of either."""
    operands = {reason.finding.operand for reason in told}
    for tensor in call.given(*GRADIENT_OF):
        wanted = call.arguments[GRADIENT_OF[tensor.name]]
        if tensor.shape != wanted.shape and not {tensor.name, wanted.name} & operands:
            finding = rules.OUTPUT.finding(
                call.where(tensor.name), operand=tensor.name, got=tensor.text, wanted=wanted.text
            )
            yield Reason(finding, NULLPTR)


def _invalid(finding: Finding) -> Reason:
    return Reason(finding, INVALID)
