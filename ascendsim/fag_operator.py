"""FlashAttentionScoreGrad in scenarios: its call from the tensors, inputs that fit each other, expected gradients."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ascendsim.device import Device
from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, UINT8, DType
from ascendsim.errors import Finding, InputError, Rejected
from ascendsim.fag_notes import hidden_rows, notes
from ascendsim.op_host.fag_block_order import BlockOrder, dealt
from ascendsim.op_host.fag_buffering import Buffering, buffered
from ascendsim.op_host.fag_call import AXES, COMPRESSED_MASK_MODES, PREFIX_MODES, FagCall, read_shape
from ascendsim.op_host.fag_checks import (
    drop_reasons,
    keep_prob_reasons,
    mask_reasons,
    mask_size_reasons,
    prefix_reasons,
    sparse_mode_reasons,
)
from ascendsim.op_host.fag_dealing import dealing
from ascendsim.op_host.fag_estimate import FLOP_CONVENTION, flop_per_score
from ascendsim.op_host.fag_kernels import FagKernelTiling, kernel_tiling
from ascendsim.op_host.fag_map import memory_maps
from ascendsim.op_host.fag_params import INNER_PSE_TYPES, FagDtype, FagParams
from ascendsim.op_host.fag_platform import fag_platform
from ascendsim.op_host.fag_result import FagTiling, TileOverride
from ascendsim.op_host.fag_shift import SHIFT_STEP_BYTES, shifted
from ascendsim.op_host.fag_tiling import fag_tiling
from ascendsim.reference.attention import Attention, Part, to_bnsd
from ascendsim.work import Work

Array = NDArray[Any]
Shapes = Mapping[str, tuple[tuple[int, ...], DType]]

INPUTS: Final = ("query", "key", "value", "dy", "softmax_max", "softmax_sum", "attention_in")
OUTPUTS: Final = ("dq", "dk", "dv")
UNWRITTEN: Final = ("dpse",)
"""Outputs that the operator takes and never writes."""
_UNREAD: Final = ("padding_mask", "softmax_in")
OPTIONAL: Final = ("atten_mask", "pse_shift", "drop_mask", *_UNREAD, *UNWRITTEN)
FORWARD: Final = frozenset({"softmax_max", "softmax_sum", "attention_in"})
"""What a forward pass leaves: row by row, so that it can be made where it is read."""
MADE: Final = frozenset({"softmax_max", "softmax_sum", "attention_in", "atten_mask", "pse_shift", "drop_mask"})
"""Inputs that `fill = "operator"` makes from the others."""
WORKSPACE: Final = "workspace"

_DTYPES: Final[dict[DType, FagDtype]] = {HALF: "fp16", BFLOAT16: "bf16", FLOAT: "fp32"}
_PRECISION: Final = {"half": 2.0**-10, "bfloat16_t": 2.0**-7, "float": 1e-5}
"""How far a gradient may be off, relative to itself and at least to 1."""
_PUBLIC: Final = {
    "softmax_max": "softmaxMax",
    "softmax_sum": "softmaxSum",
    "attention_in": "attentionIn",
    "atten_mask": "attenMask",
    "pse_shift": "pseShift",
    "drop_mask": "dropMask",
}
"""The interface's spelling of names that differ from it."""
_KEYS: Final = ("keep_prob", "pre_tokens", "sparse_mode", "pse_type", "prefix", "head_num")
"""Keys with which the host may begin a reason."""
_MASKS: Final = {
    "atten_mask": "uint8_t or bool, 1 = not computed",
    "drop_mask": "uint8_t, a bit for each score, 1 = kept",
}
_TRIANGLE: Final = 2048
"""Rows and columns of the compressed mask's triangle; the prefix follows below it."""


class FagKeys(BaseModel):
    """Keys of [tiling] of the flash_attention_score_grad operator: attributes of the call, and tiles to prescribe."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    head_num: int = Field(ge=1)
    layout: Literal["BSH", "SBH", "BSND", "BNSD"] = "BNSD"
    scale: float | None = None
    sparse_mode: int = 0
    pre_tokens: int = 65536
    next_tokens: int = 65536
    prefix: list[int] = []
    """Of each batch, sparse modes 5 and 6."""
    keep_prob: float = 1.0
    pse_type: int = 1
    inner_precise: int = 0
    deterministic: bool = False
    template: int | None = None
    """Priority of the only template to ask; left out, all are asked as the operator asks them."""
    cv_s1: int | None = Field(default=None, ge=1)
    cv_s2: int | None = Field(default=None, ge=1)
    vec_s1: int | None = Field(default=None, ge=1)
    vec_s2: int | None = Field(default=None, ge=1)
    units: int | None = Field(default=None, ge=1)
    cv_units: int | None = Field(default=None, ge=1)
    workspace_shift_bytes: int = Field(default=0, ge=0, multiple_of=SHIFT_STEP_BYTES)
    """How much later than the operator's all areas of the workspace begin, template SameAB."""
    block_order: BlockOrder = "blocks"
    """What goes to a core at a time, template SameAB."""
    block_cores: int | None = Field(default=None, ge=1)
    """How many AICs take blocks, template SameAB."""
    look_ahead: int | None = Field(default=None, ge=0)
    """Blocks that an AIC is ahead of its gradients, template SameAB: 0, 1 (the operator's) or 2."""
    score_buffers: int | None = Field(default=None, ge=1)
    """Of S and of dA in GM for each AIC, template SameAB."""
    l1_buffers: int | None = Field(default=None, ge=1)
    """Of A and of B in L1, products of SameAB that are not L1-custom."""
    l0_buffers: int | None = Field(default=None, ge=1)
    """Of A, of B and of C in L0, the same."""


PRESCRIBED: Final = frozenset(
    {
        *("cv_s1", "cv_s2", "vec_s1", "vec_s2", "units", "cv_units", "workspace_shift_bytes", "block_order"),
        *("block_cores", "look_ahead", "score_buffers", "l1_buffers", "l0_buffers"),
    }
)
"""Keys that prescribe what the operator else decides."""


# ---- host ------------------------------------------------------------------------------------------------------------


def fag_host(device: Device, shapes: Shapes, keys: FagKeys, nums: Mapping[str, int]) -> FagKernelTiling:
    """Return what the kernel takes.

    Raises:
        InputError: tensors that do not belong together, a call that the operator refuses, or one for whose template
            there is no kernel.
        Rejected: what is prescribed does not fit, or the kernel cannot have it.
    """
    del nums
    params = _params(shapes, keys)
    _check_shapes(shapes, params)
    tiling = fag_tiling(params, device, priority=keys.template, override=_override(keys))
    if tiling.status == "failed":
        raise InputError("; ".join(map(_spelled, tiling.reasons)))
    call = FagCall(params, read_shape(params), fag_platform(device))
    _check_options(call)
    if keys.cv_s1 or keys.cv_s2 or keys.vec_s1 or keys.vec_s2:
        _check_fit(call, tiling, device)
    names = (*(name for name in (*INPUTS, *OUTPUTS, *OPTIONAL) if name in shapes), WORKSPACE)
    own = shifted(kernel_tiling(call, tiling, names), keys.workspace_shift_bytes)
    asked = Buffering(keys.look_ahead, keys.score_buffers, keys.l1_buffers, keys.l0_buffers)
    return dealt(buffered(own, asked), keys.block_order, keys.block_cores)


def _check_fit(call: FagCall, tiling: FagTiling, device: Device) -> None:
    """Refuse prescribed tiles that are larger than their places."""
    found = [finding for one in memory_maps(call, tiling, device) for finding in one.findings()]
    if found:
        raise Rejected(found)


def _prefixes_outside(params: FagParams) -> list[str]:
    """Return what the page's constraints say against prefixes; the host takes any.

    Source: ops-transformer docs, aclnnFlashAttentionScoreGrad page, constraints.
    """
    least = max(params.kv_len - params.q_len, 0)
    return [
        f"prefix of batch {batch} is {prefix}: must be {least}..{params.kv_len}"
        for batch, prefix in enumerate(params.prefix)
        if not least <= prefix <= params.kv_len
    ]


def _override(keys: FagKeys) -> TileOverride:
    return TileOverride(keys.cv_s1, keys.cv_s2, keys.vec_s1, keys.vec_s2, keys.units, keys.cv_units)


def _spelled(reason: str) -> str:
    """Return a reason of the host with the argument that it begins with as a scenario spells it."""
    word = re.split(r"\W", reason, maxsplit=1)[0]
    snake = re.sub("(?=[A-Z])", "_", word).lower()
    if snake in _KEYS:
        return f"tiling.{snake}{reason.removeprefix(word)}"
    if snake in (*INPUTS, *OUTPUTS, *OPTIONAL):
        return f"tensors.{snake}{reason.removeprefix(word)}"
    return reason


def _check_options(call: FagCall) -> None:
    """Refuse options that templates N and B do not look at, and those that no kernel has.

    Raises:
        InputError: names the key.
    """
    params = call.params
    wrong = [*keep_prob_reasons(call), *drop_reasons(call, checks_size=True), *sparse_mode_reasons(call)]
    wrong += prefix_reasons(call)
    if params.sparse_mode not in COMPRESSED_MASK_MODES:
        wrong += [*mask_reasons(call, own_dtype_too=False), *mask_size_reasons(call)]
    if params.sparse_mode in PREFIX_MODES and len(params.prefix) not in (0, params.batch):
        wrong.append(f"prefix has {len(params.prefix)} numbers: must be one for each of {params.batch} batches")
    elif params.sparse_mode in PREFIX_MODES:
        wrong += _prefixes_outside(params)
    if wrong:
        raise InputError("; ".join(map(_spelled, wrong)))
    if call.is_inner_pse:
        raise InputError(
            f"tiling.pse_type = {params.pse_type}: the bias is made from slopes inside; the host answers (ascendsim "
            "fag), a kernel is not there: give the whole bias as tensors.pse_shift with pse_type 0 or 1"
        )


def fag_workspace_bytes(tiling: FagKernelTiling) -> int:
    """Return the length of the workspace."""
    return tiling.workspace_bytes


def fag_block_dim(tiling: FagKernelTiling) -> int:
    """Return the AI Cores to launch."""
    return tiling.block_dim


def fag_work(tiling: FagKernelTiling) -> Work:
    """Return what the call computes, and how it is dealt to cores."""
    call, dealt = tiling.call, tiling.dealing
    each = flop_per_score(call)
    blocks = dealt.per_core(lambda group: np.ones(len(group)))
    scores = dealt.per_core(lambda group: group.scores.astype(np.float64))
    return Work(
        flop=each * dealt.scores,
        convention=FLOP_CONVENTION,
        factors=call.params.element.name,
        kind=dealt.kind.value,
        blocks=tuple(int(count) for count in blocks),
        block_flop=tuple(each * int(count) for count in scores),
    )


def _axes(name: str, shape: tuple[int, ...], keys: FagKeys, heads: int) -> dict[str, int]:
    """Return B, N, S and D of a tensor in the layout."""
    axes = AXES[keys.layout]
    if len(shape) != len(axes):
        raise InputError(f"tensors.{name}.shape = {list(shape)}: layout {keys.layout} has {len(axes)} axes")
    found = dict(zip(axes, shape, strict=True))
    if "H" in found:
        if found["H"] % heads:
            raise InputError(f"tensors.{name}.shape = {list(shape)}: H {found['H']} is no multiple of {heads} heads")
        found |= {"N": heads, "D": found["H"] // heads}
    return found


def _params(shapes: Shapes, keys: FagKeys) -> FagParams:
    query_shape, element = shapes["query"]
    if element not in _DTYPES:
        raise InputError(f"tensors.query: dtype {element}; the operator takes half, bfloat16_t and float")
    query = _axes("query", query_shape, keys, keys.head_num)
    kv_heads = keys.head_num
    if keys.layout in ("BSH", "SBH"):  # heads of key have the columns of those of query
        kv_heads = max(1, shapes["key"][0][-1] // query["D"])
    key = _axes("key", shapes["key"][0], keys, kv_heads)
    value = _axes("value", shapes["value"][0], keys, kv_heads)
    if query["N"] % key["N"]:
        raise InputError(f"tensors.key has {key['N']} heads, tensors.query {query['N']}: no multiple of it")
    return FagParams(
        dtype=_DTYPES[element],
        layout=keys.layout,
        B=query["B"],
        N2=key["N"],
        G=query["N"] // key["N"],
        S1=query["S"],
        S2=key["S"],
        D=query["D"],
        Dv=value["D"],
        scale=keys.scale,
        head_num=keys.head_num,
        sparse_mode=keys.sparse_mode,
        pre_tokens=keys.pre_tokens,
        next_tokens=keys.next_tokens,
        prefix=tuple(keys.prefix),
        atten_mask=_shape_of("atten_mask", shapes),
        pse=_shape_of("pse_shift", shapes),
        drop_mask=_shape_of("drop_mask", shapes),
        keep_prob=keys.keep_prob,
        pse_type=keys.pse_type,
        inner_precise=keys.inner_precise,
        deterministic=keys.deterministic,
    )


def _kind(name: str, params: FagParams) -> DType:
    """Return the element type that a tensor must have."""
    is_slopes = name in ("pse_shift", "dpse") and params.pse_type in INNER_PSE_TYPES
    return FLOAT if name.startswith("softmax") or is_slopes else params.element


def _shape_of(name: str, shapes: Shapes) -> tuple[int, ...] | None:
    return shapes[name][0] if name in shapes else None


def _check_shapes(shapes: Shapes, params: FagParams) -> None:
    for name, (shape, element) in shapes.items():
        if name in _UNREAD or (name in UNWRITTEN and params.pse is None):
            continue
        if name in ("atten_mask", "drop_mask"):
            if element is not UINT8:
                raise InputError(f"tensors.{name} is {element}: must be {_MASKS[name]}")
            continue
        wanted = params.shape_of(_PUBLIC.get(name, name))
        kind = _kind(name, params)
        if shape != wanted or element is not kind:
            raise InputError(
                f"tensors.{name} is {element} {list(shape)}, must be {kind} {list(wanted or ())} for this query and key"
            )


# ---- inputs that fit each other --------------------------------------------------------------------------------------


def fag_made(
    inputs: Mapping[str, Array], keys: FagKeys, shapes: Shapes, wanted: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """Return float64 values of inputs that follow from the others: masks, a bias, and what the forward pass leaves.

    Args:
        inputs: those that are given.
        keys: of the call.
        shapes: those that are wanted.
        wanted: of what a forward pass leaves the elements that are read; None for all. Other rows may be 0.
    """
    made: dict[str, Array] = {}
    if "atten_mask" in shapes:
        made["atten_mask"] = _mask(shapes["atten_mask"][0], keys)
    if "drop_mask" in shapes:
        made["drop_mask"] = _drop_mask(shapes["drop_mask"][0], keys)
    if "pse_shift" in shapes:
        shape, element = shapes["pse_shift"]
        made["pse_shift"] = _alibi(shape, _params(_shapes_of(inputs), keys)).astype(element.numpy).astype(np.float64)
    if not FORWARD & set(shapes):
        return made
    given = dict(inputs) | made
    params = _params(_shapes_of(given), keys)
    forward = _attention(params).forward(
        given["query"],
        given["key"],
        given["value"],
        pse=given.get("pse_shift"),
        atten_mask=_hidden(params, given.get("atten_mask")),
        drop_mask=_bits(given, keys),
        wanted=None if wanted is None else _rows_read(params, wanted),
    )
    made |= {
        "softmax_max": forward.softmax_max,
        "softmax_sum": forward.softmax_sum,
        "attention_in": forward.attention_in,
    }
    return {name: made[name] for name in shapes}


def _rows_read(params: FagParams, wanted: Mapping[str, Array]) -> Array:
    """Rows [B, N1, S1] of which something is read of what a forward pass leaves."""
    assert params.layout != "TND"
    statistics = [wanted[name] for name in ("softmax_max", "softmax_sum") if name in wanted]
    out = [to_bnsd(wanted["attention_in"], params.layout, params.N1)] if "attention_in" in wanted else []
    rows: Array = np.any([np.any(x, axis=-1) for x in (*statistics, *out)], axis=0)
    return rows


def _shapes_of(inputs: Mapping[str, Array]) -> Shapes:
    kinds = {kind.numpy: kind for kind in _DTYPES}
    return {name: (x.shape, kinds.get(x.dtype, UINT8)) for name, x in inputs.items()}


def _mask(shape: tuple[int, ...], keys: FagKeys) -> Array:
    """The small triangle for the modes that take one; else what tokens or prefixes hide, for every batch and head."""
    rows, columns = np.arange(shape[-2])[:, None], np.arange(shape[-1])
    if keys.sparse_mode in COMPRESSED_MASK_MODES:
        hidden = np.where(rows < _TRIANGLE, columns > rows, columns >= _TRIANGLE // 2)
    elif keys.sparse_mode in PREFIX_MODES:
        hidden = _behind_prefix(keys.prefix, shape[-2], shape[-1])
    else:
        hidden = (columns - rows > keys.next_tokens) | (rows - columns > keys.pre_tokens)
    if len(shape) == 2 and hidden.ndim == 4:
        if len(hidden) > 1:
            raise InputError(
                f"tensors.atten_mask.shape = {list(shape)}: each batch has its own prefix; must be "
                f"[{len(hidden)}, 1, {shape[0]}, {shape[1]}]"
            )
        hidden = hidden[0, 0]
    return np.broadcast_to(hidden, shape).astype(np.float64)


def _behind_prefix(prefix: Sequence[int], q_len: int, kv_len: int) -> Array:
    """Which scores lie behind both their batch's prefix and the diagonal from the bottom right, [B, 1, S1, S2]."""
    columns = np.arange(kv_len)
    is_later = columns - np.arange(q_len)[:, None] > kv_len - q_len
    return is_later & (columns >= np.asarray(prefix or [0], np.int64)[:, None, None, None])


def _drop_mask(shape: tuple[int, ...], keys: FagKeys) -> Array:
    """Bits in bytes, each 1 with the probability keep_prob; drawn from a fixed seed."""
    kept = np.random.default_rng(0).random((*shape, 8)) < keys.keep_prob
    return np.packbits(kept, axis=-1, bitorder="little")[..., 0].astype(np.float64)


def _alibi(shape: tuple[int, ...], params: FagParams) -> Array:
    """A bias that falls with the distance of query and key, head for head less; of fewer rows than S1 the last ones.

    Source: Press, Smith, Lewis: Train Short, Test Long (ALiBi): slopes 2^(-8 n / N) for heads 1 to N.
    """
    rows = np.arange(params.kv_len - shape[-2], params.kv_len)
    distance = np.abs(rows[:, None] - np.arange(shape[-1]))
    slopes = 2.0 ** (-8 * np.arange(1, params.N1 + 1) / params.N1)
    return np.broadcast_to(-slopes[:, None, None] * distance, shape)


def _bits(inputs: Mapping[str, Array], keys: FagKeys) -> Array | None:
    """Return the drop mask; without dropout it is not read."""
    drop_mask = inputs.get("drop_mask") if keys.keep_prob < 1 else None
    return None if drop_mask is None else np.asarray(drop_mask).astype(np.uint8)


def _hidden(params: FagParams, mask: Array | None) -> Array | None:
    """Which scores are hidden, to spread over [B, N1, S1, S2]; a compressed mask stands for the band of its mode."""
    if mask is None:
        return None
    if params.sparse_mode not in COMPRESSED_MASK_MODES:
        return np.asarray(mask).astype(np.bool_)
    apart = np.arange(params.kv_len) - np.arange(params.q_len)[:, None]
    longer = params.kv_len - params.q_len
    if params.sparse_mode == 2:
        return apart > 0
    if params.sparse_mode == 3:
        return apart > longer
    if params.sparse_mode == 6:
        return _behind_prefix(params.prefix, params.q_len, params.kv_len)
    return (apart > params.next_tokens + longer) | (-apart > params.pre_tokens - longer)


def _attention(params: FagParams) -> Attention:
    assert params.layout != "TND"
    return Attention(
        params.N1, params.scale_value, params.layout, params.N2, pse_type=params.pse_type, keep_prob=params.keep_prob
    )


# ---- what to know of a call, and expected values ---------------------------------------------------------------------


def fag_notes(shapes: Shapes, keys: FagKeys, inputs: Mapping[str, Array]) -> tuple[Finding, ...]:
    """Return what to know of a call: arguments that are not read, rows without a key."""
    return tuple(notes(_params(shapes, keys), shapes, inputs.get("atten_mask")))


def fag_reference(
    inputs: Mapping[str, Array],
    keys: FagKeys,
    outputs: Mapping[str, DType],
    device: Device,
    wanted: Mapping[str, Array] | None = None,
) -> dict[str, tuple[Array, Array, str]]:
    """Return (values, how far off each may be, what to know) of the gradients.

    They are made in float64 from query, key, value and dy alone. Rows all of whose keys are hidden are as the kernel
    has them: P = 1 / S2 in the blocks of scores that it computes; what to know is how far P = 0 would be away. Rows of
    which nothing is `wanted` (None: all are) may be anything.
    """
    params = _params(_shapes_of(inputs), keys)
    part = None if wanted is None else _part(params, wanted)
    values = _gradients(inputs, keys, _attention(params), _left_out(inputs, keys, device), part)
    notes_of = dict.fromkeys(OUTPUTS, "")
    if hidden_rows(params, inputs.get("atten_mask"), has_mask="atten_mask" in inputs).any():
        other = _gradients(inputs, keys, replace(_attention(params), hidden_row_is_zero=True), None, part)
        for name, x in values.items():
            away = np.abs(x - other[name]).max()
            notes_of[name] = f"rows without a key have P = 1/S2 here, with P = 0 values are up to {away:.3g} away"
    return {
        name: (x, _PRECISION[outputs[name].name] * np.maximum(1, np.abs(x)), notes_of[name])
        for name, x in values.items()
    }


def _part(params: FagParams, wanted: Mapping[str, Array]) -> Part:
    """Rows of the gradients of which something is wanted."""
    assert params.layout != "TND"
    heads = {"dq": params.N1, "dk": params.N2, "dv": params.N2}
    rows = {n: np.asarray(np.any(to_bnsd(wanted[n], params.layout, count), axis=-1)) for n, count in heads.items()}
    return Part(rows["dq"], rows["dk"] | rows["dv"])


def _gradients(
    inputs: Mapping[str, Array], keys: FagKeys, layer: Attention, left_out: Array | None, part: Part | None
) -> dict[str, Array]:
    gradients = layer.backward(
        inputs["query"],
        inputs["key"],
        inputs["value"],
        inputs["dy"],
        pse=inputs.get("pse_shift"),
        drop_mask=_bits(inputs, keys),
        atten_mask=_hidden(_params(_shapes_of(inputs), keys), inputs.get("atten_mask")),
        left_out=left_out,
        part=part,
    )
    return {"dq": gradients.dq, "dk": gradients.dk, "dv": gradients.dv}


def _left_out(inputs: Mapping[str, Array], keys: FagKeys, device: Device) -> Array | None:
    """Return which scores lie in blocks that the kernel skips, [B or 1, 1, S1, S2]; None for none.

    It matters only for rows all of whose keys are hidden: any other row has P = 0 there.
    """
    params = _params(_shapes_of(inputs), keys)
    if not hidden_rows(params, inputs.get("atten_mask"), has_mask="atten_mask" in inputs).any():
        return None
    tiling = fag_tiling(params, device, priority=keys.template, override=_override(keys))
    dealt = dealing(FagCall(params, read_shape(params), fag_platform(device)), tiling)
    if tiling.split is not None or dealt is None:
        return None
    found = np.ones((len(dealt.runs), 1, params.q_len, params.kv_len), np.bool_)
    for batch, run in zip(found, dealt.runs, strict=True):
        group = run.group
        for s1, s2, rows, columns in zip(group.s1, group.s2, group.rows, group.columns, strict=True):
            batch[0, s1 : s1 + rows, s2 : s2 + columns] = False
    return found
