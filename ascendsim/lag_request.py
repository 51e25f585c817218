"""What `ascendsim lag` is asked: one call of LaserAttentionGrad, from a TOML file, options, or both."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ascendsim.atb_request import given_tensors
from ascendsim.errors import InputError
from ascendsim.files import is_file, read_toml
from ascendsim.op_host.atb import TensorDesc
from ascendsim.op_host.lag_checks import inferred
from ascendsim.op_host.lag_params import INI, NAME, NARROW_D, WIDE_D, WIDE_KEY_D, LaserAttentionGradParam
from ascendsim.op_host.laser_attention_grad import Tensors
from ascendsim.scenario import shipped

_NEAREST: Final = 3
_AXES: Final = "B,N,S or B,N,S,D (D 128 or 192), or B,N,S,Skv,D"
_KEY_SIZES: Final = {NARROW_D: NARROW_D, WIDE_D: WIDE_KEY_D}


def _numbers(value: object) -> object:
    """Return whole numbers that are joined by commas as a list."""
    if not isinstance(value, str):
        return value
    try:
        return [int(part) for part in value.split(",")]
    except ValueError:
        raise ValueError(f"{value!r}: want whole numbers joined by commas, such as 1,4,4096") from None


Numbers = Annotated[list[int], BeforeValidator(_numbers)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LagSpec(_Model):
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
    soc: str = "Ascend910B1"
    order: Literal["operator", "unfolded"] = "operator"
    vendor_quirks: bool = False
    tensors: dict[str, str] = {}


class LagFile(_Model):
    """A file with a call."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    name: str = ""
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
    found = {} if file is None else _read(file)
    merged = {**found, **options}
    if isinstance(found.get("tensors"), dict) and "tensors" in options:
        merged["tensors"] = {**found["tensors"], **options["tensors"]}
    if "shape" not in merged:
        raise InputError(f"lag: --shape not given; a call needs {_AXES}, or a file that has it under [lag]")
    try:
        spec = LagSpec.model_validate(merged)
    except ValidationError as error:
        raise InputError("; ".join(_described(e, file, options) for e in error.errors())) from None
    return _request(spec)


def _read(name: str) -> dict[str, Any]:
    file = Path(name)
    if not is_file(file):
        named = shipped("tilings", name) if file.parent == Path() else None
        if named is None:
            raise InputError(f"{name}: no such file, want a .toml with a call under [lag] (docs/lag.md)")
        file = named
    raw = read_toml(file)
    try:
        return dict(LagFile.model_validate(raw).lag)
    except ValidationError as error:
        raise InputError("; ".join(_file_text(e, name) for e in error.errors())) from None


def _file_text(error: Mapping[str, Any], name: str) -> str:
    path = ".".join(map(str, error["loc"]))
    if error["type"] == "missing":
        return f"{name}: no [{path}]; a call stands under it (docs/lag.md)"
    return f"{name}: {path}: {_reason(error, LagFile)}"


def _described(error: Mapping[str, Any], file: str | None, options: Mapping[str, Any]) -> str:
    """Return what is wrong with the place where it was said: an option, or a key of the file."""
    first, *rest = (str(part) for part in error["loc"])
    said = "" if error["type"] in ("missing", "extra_forbidden") else f" {error['input']}"
    reason = _reason(error, LagSpec)
    if first in options:
        return f"--{first.replace('_', '-')}{said}: {reason}"
    return f"{file}: {'.'.join(('lag', first, *rest))}{f' ={said}' if said else ''}: {reason}"


def _reason(error: Mapping[str, Any], model: type[BaseModel]) -> str:
    if error["type"] == "extra_forbidden":
        names = [field.alias or name for name, field in model.model_fields.items()]
        near = difflib.get_close_matches(str(error["loc"][-1]), names, n=_NEAREST, cutoff=0.0)
        return f"unknown key; the nearest are {', '.join(near)}"
    text = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    return text if error["type"] == "value_error" else f"want {text}"


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
