"""The checks of LaserAttentionGrad, in the operator's order: parameters, input shapes, outputs.

Each is a generator of findings of which the first is told: what comes behind one may rely on what it has passed.

Source: ascend-transformer-boost, ops_train/laser_attention_grad; LaserAttentionGradOperation page.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ascendsim.errors import Finding, Rule
from ascendsim.op_host.atb import (
    DIM,
    DIM_NUM,
    PARAM,
    Soc,
    TensorDesc,
    in_num_reasons,
    ini_reasons,
    out_num_reasons,
    product_reasons,
    rsv_reasons,
    shape_reasons,
)
from ascendsim.op_host.lag_params import (
    GRADIENT_OF,
    INI,
    LENGTH_UNIT,
    MOST_HEADS,
    NAME,
    NARROW_D,
    RESERVED_BEFORE,
    RESERVED_BEHIND,
    WIDE_D,
    WIDE_KEY_D,
    LagCall,
    LaserAttentionGradParam,
)

_OP: Final = "ascend-transformer-boost, ops_train/laser_attention_grad"
_PAGE: Final = f"{NAME} page"

HEADS = PARAM.saying("headNum = {got}: must be greater than 0", "pass the number of heads of query", f"{_PAGE}; {_OP}")
LAYOUT = PARAM.saying(
    'inputLayout = "{got}": must be "BNSD" or "SBH"; the page lists BNSD alone, the operator takes SBH, too',
    "lay the tensors out as [B,N,S,D], or as [S,B,N*D] with head sizes 192, 256 and 128",
    f"{_PAGE}; {_OP}",
)
SCALE = PARAM.saying("scaleValue = {got}: must be above 0 and at most 1", "pass 1 / sqrt(head size)", f"{_PAGE}; {_OP}")
PRE_TOKENS = PARAM.saying(
    "preTokens = {got}: must be at least 1 and a multiple of {wanted}",
    "pass the length of query, or a shorter window that is a multiple of {wanted}",
    f"{_PAGE}; {_OP}",
)
DEFAULT_PRE_TOKENS = PRE_TOKENS.saying(
    "preTokens is not given, and its default, {got}, is no multiple of {wanted}: the operator refuses its own default"
)
PRECISION = PARAM.saying(
    "innerPrecise = {got}: must be {wanted}, high precision", "leave it at {wanted}", f"{_PAGE}; {_OP}"
)
RANK = DIM_NUM.saying("{operand} has {got} axes {dims}: must have {wanted}", "give it {names}", f"{_PAGE}; {_OP}")
FILLED = DIM_NUM.saying(
    "{operand} has {got} axes {dims}: must be empty, the input is reserved", "pass an empty tensor", f"{_PAGE}; {_OP}"
)
AXIS = DIM.saying("{operand} {dims}: axis {axis} is {got}, must be {wanted}", "change the shape", f"{_PAGE}; {_OP}")
MANY_HEADS = AXIS.saying(
    "{operand} {dims} has {got} heads: at most {wanted}; the page allows all that an int holds, the operator {wanted}",
    "spread the heads over several calls",
)

_MAIN_AXES: Final = {"BNSD": "[B,N,S,D]", "SBH": "[S,B,N*D]"}


def create_reasons(params: LaserAttentionGradParam, soc: Soc) -> Iterator[Finding]:
    """Yield what creation refuses, in its order."""
    yield from product_reasons(NAME, soc)
    if params.headNum <= 0:
        yield _of_param(HEADS, "headNum", params.headNum, "above 0")
    if params.inputLayout not in _MAIN_AXES:
        yield _of_param(LAYOUT, "inputLayout", params.inputLayout, "BNSD or SBH")
    if not 0 < params.scaleValue <= 1:
        yield _of_param(SCALE, "scaleValue", params.scaleValue, "above 0, at most 1")
    if params.preTokens < 1 or params.preTokens % LENGTH_UNIT:
        rule = PRE_TOKENS if params.changed("preTokens") else DEFAULT_PRE_TOKENS
        yield _of_param(rule, "preTokens", params.preTokens, LENGTH_UNIT)
    if params.innerPrecise != 1:
        yield _of_param(PRECISION, "innerPrecise", params.innerPrecise, 1)
    yield from rsv_reasons(NAME, params.rsv)


def _of_param(rule: Rule, name: str, got: object, wanted: object) -> Finding:
    return rule.finding(f"{NAME}.{name}", operand=name, got=got, wanted=wanted)


def infer_shape_reasons(params: LaserAttentionGradParam, inputs: Sequence[TensorDesc]) -> Iterator[Finding]:
    """Yield what shape inference refuses, in its order."""
    yield from in_num_reasons(INI, inputs)
    yield from shape_reasons(INI, inputs, INI.inputs)
    yield from ini_reasons(INI, inputs, INI.inputs)
    yield from input_reasons(params, by_name(inputs))


def setup_reasons(
    params: LaserAttentionGradParam, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]
) -> Iterator[Finding]:
    """Yield what setup refuses, in its order."""
    yield from in_num_reasons(INI, inputs)
    yield from out_num_reasons(INI, outputs)
    yield from shape_reasons(INI, (*inputs, *outputs), (*INI.inputs, *INI.outputs))
    yield from ini_reasons(INI, (*inputs, *outputs), (*INI.inputs, *INI.outputs))
    named = by_name(inputs)
    yield from input_reasons(params, named)
    for line, output in zip(INI.outputs, outputs, strict=True):
        source = GRADIENT_OF.get(line.name)
        if source is not None:
            yield from _same(line.name, output, source, named[source])


def by_name(inputs: Sequence[TensorDesc]) -> dict[str, TensorDesc]:
    """Return the inputs by name."""
    return {line.name: desc for line, desc in zip(INI.inputs, inputs, strict=True)}


def inferred(inputs: Sequence[TensorDesc]) -> tuple[TensorDesc, ...]:
    """Return the outputs of inputs that have passed the checks; dpse gets the shape of query."""
    named = by_name(inputs)
    return tuple(named[GRADIENT_OF.get(line.name, "query")] for line in INI.outputs)


def call_of(params: LaserAttentionGradParam, inputs: Mapping[str, TensorDesc]) -> LagCall:
    """Return the call; query, key and value have passed the checks."""
    query, key, value = (inputs[name].dims for name in ("query", "key", "value"))
    if params.inputLayout == "SBH":
        batch, heads, kv_heads = query[1], query[2] // WIDE_D, key[2] // WIDE_KEY_D
        length, kv_length, sizes = query[0], key[0], (WIDE_D, WIDE_KEY_D, NARROW_D)
    else:
        batch, heads, kv_heads = query[0], query[1], key[1]
        length, kv_length, sizes = query[2], key[2], (query[3], key[3], value[3])
    return LagCall(
        layout="SBH" if params.inputLayout == "SBH" else "BNSD",
        B=batch,
        Nq=heads,
        Nkv=kv_heads,
        Sq=length,
        Skv=kv_length,
        Dq=sizes[0],
        Dk=sizes[1],
        Dv=sizes[2],
        has_mask=not inputs["attenMask"].is_empty,
        pre_tokens=params.preTokens,
        scale=params.scaleValue,
    )


# --- shapes of the inputs ---


def input_reasons(params: LaserAttentionGradParam, inputs: Mapping[str, TensorDesc]) -> Iterator[Finding]:
    """Yield what is wrong with the shapes of the inputs."""
    is_sbh = params.inputLayout == "SBH"
    yield from (_query_sbh if is_sbh else _query)(params, inputs["query"])
    yield from (_key_sbh if is_sbh else _key)(inputs["query"], inputs["key"])
    yield from (_value_sbh if is_sbh else _value)(inputs["query"], inputs["key"], inputs["value"])
    call = call_of(params, inputs)
    yield from _like_output(call, "attentionOutGrad", inputs["attentionOutGrad"])
    for name in RESERVED_BEFORE:
        yield from _reserved(name, inputs[name])
    yield from _mask(call, inputs["attenMask"])
    yield from _statistics(call, inputs["softmaxMax"])
    yield from _same("softmaxSum", inputs["softmaxSum"], "softmaxMax", inputs["softmaxMax"])
    yield from _like_output(call, "attentionIn", inputs["attentionIn"])
    for name in RESERVED_BEHIND:
        yield from _reserved(name, inputs[name])


def _query(params: LaserAttentionGradParam, query: TensorDesc) -> Iterator[Finding]:
    yield from _rank("query", query, 4, _MAIN_AXES["BNSD"])
    _, heads, length, size = query.dims
    if heads != params.headNum:
        yield _axis("query", query, 1, f"headNum = {params.headNum}")
    if heads > MOST_HEADS:
        yield _of_heads(query, heads)
    yield from _whole_unit("query", query, 2)
    if size == NARROW_D and length < params.preTokens:
        yield _axis("query", query, 2, f"at least preTokens = {params.preTokens}, as the head size is 128")
    if size == WIDE_D and length != params.preTokens:
        yield _axis("query", query, 2, f"preTokens = {params.preTokens}, as the head size is 192")
    if size not in (NARROW_D, WIDE_D):
        yield _axis("query", query, 3, "128 or 192")


def _query_sbh(params: LaserAttentionGradParam, query: TensorDesc) -> Iterator[Finding]:
    yield from _rank("query", query, 3, _MAIN_AXES["SBH"])
    length, _, width = query.dims
    yield from _whole_unit("query", query, 0)
    if length != params.preTokens:
        yield _axis("query", query, 0, f"preTokens = {params.preTokens}, as the layout is SBH")
    if width // WIDE_D != params.headNum:
        yield _axis("query", query, 2, f"192 * headNum = {WIDE_D * params.headNum}")
    if width // WIDE_D > MOST_HEADS:
        yield _of_heads(query, width // WIDE_D)


def _key(query: TensorDesc, key: TensorDesc) -> Iterator[Finding]:
    yield from _rank("key", key, 4, _MAIN_AXES["BNSD"])
    batch, heads, _, size = query.dims
    yield from _equal("key", key, 0, batch, "the batches of query")
    if heads % key.dims[1]:
        yield _axis("key", key, 1, f"a divisor of the {heads} heads of query")
    yield from _whole_unit("key", key, 2)
    wide = NARROW_D if size == NARROW_D else WIDE_KEY_D
    yield from _equal("key", key, 3, wide, f"as the head size of query is {size}")


def _key_sbh(query: TensorDesc, key: TensorDesc) -> Iterator[Finding]:
    yield from _rank("key", key, 3, _MAIN_AXES["SBH"])
    yield from _whole_unit("key", key, 0)
    yield from _equal("key", key, 1, query.dims[1], "the batches of query")
    heads, kv_heads = query.dims[2] // WIDE_D, key.dims[2] // WIDE_KEY_D
    if kv_heads < 1 or heads % kv_heads:
        yield _axis("key", key, 2, f"256 times a divisor of the {heads} heads of query")


def _value(query: TensorDesc, key: TensorDesc, value: TensorDesc) -> Iterator[Finding]:
    yield from _rank("value", value, 4, _MAIN_AXES["BNSD"])
    yield from _equal("value", value, 0, query.dims[0], "the batches of query")
    yield from _equal("value", value, 1, key.dims[1], "the heads of key")
    yield from _equal("value", value, 2, key.dims[2], "the length of key")
    yield from _equal("value", value, 3, NARROW_D, "the only head size of value")


def _value_sbh(query: TensorDesc, key: TensorDesc, value: TensorDesc) -> Iterator[Finding]:
    yield from _rank("value", value, 3, _MAIN_AXES["SBH"])
    yield from _equal("value", value, 0, key.dims[0], "the length of key")
    yield from _equal("value", value, 1, query.dims[1], "the batches of query")
    kv_heads = key.dims[2] // WIDE_KEY_D
    if value.dims[2] // NARROW_D != kv_heads:
        yield _axis("value", value, 2, f"128 * {kv_heads} = {NARROW_D * kv_heads}, as key has {kv_heads} heads")


def _like_output(call: LagCall, name: str, desc: TensorDesc) -> Iterator[Finding]:
    """Check a tensor with the shape of the forward operator's output."""
    if call.layout == "SBH":
        yield from _rank(name, desc, 3, _MAIN_AXES["SBH"])
        yield from _equal(name, desc, 0, call.Sq, "the length of query")
        yield from _equal(name, desc, 1, call.B, "the batches of query")
        if desc.dims[2] // NARROW_D != call.Nq:
            yield _axis(name, desc, 2, f"128 * {call.Nq} = {NARROW_D * call.Nq}, as query has {call.Nq} heads")
        return
    yield from _rank(name, desc, 4, _MAIN_AXES["BNSD"])
    yield from _equal(name, desc, 0, call.B, "the batches of query")
    yield from _equal(name, desc, 1, call.Nq, "the heads of query")
    yield from _equal(name, desc, 2, call.Sq, "the length of query")
    yield from _equal(name, desc, 3, NARROW_D, "the head size of value")


def _reserved(name: str, desc: TensorDesc) -> Iterator[Finding]:
    if not desc.is_empty:
        yield FILLED.finding(
            f"{NAME} {name}", operand=name, got=len(desc.dims), wanted="empty", fill={"dims": list(desc.dims)}
        )


def _mask(call: LagCall, mask: TensorDesc) -> Iterator[Finding]:
    if mask.is_empty:
        return
    yield from _rank("attenMask", mask, 2, "[S,Skv]")
    if call.Sq != call.Skv:
        wanted = f"the length of query, {call.Sq}, and that of key, {call.Skv}, which must be equal with a mask"
        yield _axis("attenMask", mask, 0, wanted)
    yield from _equal("attenMask", mask, 0, call.Sq, "the length of query")
    yield from _equal("attenMask", mask, 1, call.Skv, "the length of key")


def _statistics(call: LagCall, desc: TensorDesc) -> Iterator[Finding]:
    yield from _rank("softmaxMax", desc, 3, "[B,N,S]")
    yield from _equal("softmaxMax", desc, 0, call.B, "the batches of query")
    yield from _equal("softmaxMax", desc, 1, call.Nq, "the heads of query")
    yield from _equal("softmaxMax", desc, 2, call.Sq, "the length of query")


# --- one tensor ---


def _rank(name: str, desc: TensorDesc, wanted: int, names: str) -> Iterator[Finding]:
    if len(desc.dims) != wanted:
        fill = {"dims": list(desc.dims), "names": names}
        yield RANK.finding(f"{NAME} {name}", operand=name, got=len(desc.dims), wanted=wanted, fill=fill)


def _axis(name: str, desc: TensorDesc, axis: int, wanted: str) -> Finding:
    fill = {"dims": list(desc.dims), "axis": axis}
    return AXIS.finding(f"{NAME} {name}", operand=name, got=desc.dims[axis], wanted=wanted, fill=fill)


def _of_heads(query: TensorDesc, heads: int) -> Finding:
    fill = {"dims": list(query.dims)}
    return MANY_HEADS.finding(f"{NAME} query", operand="query", got=heads, wanted=MOST_HEADS, fill=fill)


def _equal(name: str, desc: TensorDesc, axis: int, wanted: int, why: str) -> Iterator[Finding]:
    if desc.dims[axis] != wanted:
        yield _axis(name, desc, axis, f"{wanted}, {why}")


def _whole_unit(name: str, desc: TensorDesc, axis: int) -> Iterator[Finding]:
    if desc.dims[axis] % LENGTH_UNIT:
        yield _axis(name, desc, axis, f"a multiple of {LENGTH_UNIT}")


def _same(name: str, desc: TensorDesc, other: str, like: TensorDesc) -> Iterator[Finding]:
    yield from _rank(name, desc, len(like.dims), f"the shape of {other}, {list(like.dims)}")
    for axis, wanted in enumerate(like.dims):
        yield from _equal(name, desc, axis, wanted, f"that of {other}")
