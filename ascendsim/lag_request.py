"""What `ascendsim lag` is asked: one call of LaserAttentionGrad, from a TOML file, options, or both."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from ascendsim.atb_request import given_tensors
from ascendsim.call_file import Asked, CallFile, CallModel, joined_numbers, read_call
from ascendsim.errors import InputError
from ascendsim.op_host.atb import TensorDesc
from ascendsim.op_host.lag_checks import inferred
from ascendsim.op_host.lag_params import INI, NAME, NARROW_D, WIDE_D, WIDE_KEY_D, LaserAttentionGradParam
from ascendsim.op_host.laser_attention_grad import Tensors
from ascendsim.terms import DEFAULT_SOC

_AXES: Final = "B,N,S or B,N,S,D (D 128 or 192), or B,N,S,Skv,D"
_KEY_SIZES: Final = {NARROW_D: NARROW_D, WIDE_D: WIDE_KEY_D}
_INNER: Final = {"tensors": "--tensor"}


Numbers = Annotated[list[int], BeforeValidator(joined_numbers("1,4,4096"))]


class LagSpec(CallModel):
    """One call, in the words of the options."""

    shape: Numbers
    layout: str = "BNSD"
    kv_heads: int | None = Field(default=None, ge=1)
    mask: bool = True
    pre_tokens: int | None = None
    scale: float | None = None
    head_num: int | None = None
    keep_prob: float = 1.0
    next_tokens: int = 1
    sparse_mode: int = 0
    inner_precise: int = 1
    soc: str = DEFAULT_SOC
    order: Literal["operator", "unfolded"] = "operator"
    vendor_quirks: bool = False
    tensors: dict[str, str] = Field(default_factory=dict)


class LagFile(CallFile):
    """A file with a call of LaserAttentionGrad."""

    lag: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LagRequest:
    """What is asked.

    Attributes:
        params: parameters of the operator.
        tensors: its inputs, and its outputs if one of them is given.
        soc: the part.
        is_unfolded: the triangle is asked for unfolded, for comparison.
        vendor_quirks: findings are about a kernel with the known defects of the original.
        notes: what was taken for what.
    """

    params: LaserAttentionGradParam
    tensors: Tensors
    soc: str
    is_unfolded: bool = False
    vendor_quirks: bool = False
    notes: tuple[str, ...] = ()


def request_of(file: str | None, options: Mapping[str, Any]) -> LagRequest:
    """Return what a file and options ask for together; an option counts more than the file's key.

    Args:
        file: path of a TOML file, or the name of a shipped one; None for options alone.
        options: by the file's names under [lag]; those that were not given are left out. "tensors" is a mapping.

    Raises:
        InputError: a file, key or value that cannot be used; the text says which, why, and what would be right.
    """
    asked = Asked("lag", file, {} if file is None else read_call(file, LagFile, "lag"), options, _INNER)
    if "shape" not in asked.given:
        raise InputError(f"lag: --shape not given; a call needs {_AXES}, or a file that has it under [lag]")
    return _request(asked.spec(LagSpec))


# --- from words to parameters and tensors ---


def _request(spec: LagSpec) -> LagRequest:
    batch, heads, length, kv_length, size = _axes(spec)
    kv_heads = heads if spec.kv_heads is None else spec.kv_heads
    notes = () if spec.pre_tokens is not None else (f"pre_tokens is not given: taken as the length of query, {length}",)
    sizes = {"scaleValue": spec.scale} if spec.scale is not None else {}
    params = LaserAttentionGradParam(
        headNum=heads if spec.head_num is None else spec.head_num,
        inputLayout=spec.layout,
        scaleValue=sizes.get("scaleValue", size**-0.5 if size else 1.0),
        keepProb=spec.keep_prob,
        preTokens=length if spec.pre_tokens is None else spec.pre_tokens,
        nextTokens=spec.next_tokens,
        sparseMode=spec.sparse_mode,
        innerPrecise=spec.inner_precise,
    )
    shapes = call_shapes(spec.layout, (batch, heads, kv_heads), (length, kv_length), size, has_mask=spec.mask)
    tensors = _tensors(shapes, spec.tensors)
    return LagRequest(params, tensors, spec.soc, spec.order == "unfolded", spec.vendor_quirks, notes)


def _tensors(shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, str]) -> Tensors:
    """Return the tensors of these shapes, some given otherwise; outputs only if one of them is given."""
    lines = {line.name: line for line in (*INI.inputs, *INI.outputs)}
    for name in given:
        if name not in lines:
            raise InputError(f"tensor {name}: no such tensor; {NAME} has {', '.join(lines)}")
    implied = {name: TensorDesc(*line.combination(0), shapes.get(name, ())) for name, line in lines.items()}
    gradients = inferred([implied[line.name] for line in INI.inputs])
    implied |= {line.name: desc for line, desc in zip(INI.outputs, gradients, strict=True)}
    inputs, outputs = given_tensors(INI, implied, given)
    return Tensors(inputs, outputs if any(line.name in given for line in INI.outputs) else None)


def _axes(spec: LagSpec) -> tuple[int, int, int, int, int]:
    """Return batches, heads, both lengths and the head size of query."""
    shape = spec.shape
    if min(shape, default=0) < 0:
        raise InputError(f"shape = {','.join(map(str, shape))}: an axis must not be negative")
    size = WIDE_D if spec.layout == "SBH" else NARROW_D
    if len(shape) == 3:
        return shape[0], shape[1], shape[2], shape[2], size
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[2], shape[3]
    if len(shape) == 5:
        return shape[0], shape[1], shape[2], shape[3], shape[4]
    raise InputError(f"shape = {','.join(map(str, shape))}: has {len(shape)} numbers, want {_AXES}")


def call_shapes(
    layout: str, counts: tuple[int, int, int], lengths: tuple[int, int], size: int, *, has_mask: bool
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs that are not empty.

    Args:
        layout: "SBH", or any other for BNSD.
        counts: batches, query heads, key heads.
        lengths: of query and key.
        size: head size of query; key has 256 with 192, else the same.
        has_mask: whether there is one.
    """
    batch, heads, kv_heads = counts
    length, kv_length = lengths

    def laid_out(count: int, rows: int, columns: int) -> tuple[int, ...]:
        return (rows, batch, count * columns) if layout == "SBH" else (batch, count, rows, columns)

    shapes = {
        "query": laid_out(heads, length, size),
        "key": laid_out(kv_heads, kv_length, _KEY_SIZES.get(size, size)),
        "value": laid_out(kv_heads, kv_length, NARROW_D),
        "attentionOutGrad": laid_out(heads, length, NARROW_D),
        "softmaxMax": (batch, heads, length),
        "softmaxSum": (batch, heads, length),
        "softmaxIn": (1,),
        "attentionIn": laid_out(heads, length, NARROW_D),
    }
    return shapes | ({"attenMask": (length, kv_length)} if has_mask else {})
