"""What `ascendsim fag` is asked: one call of FlashAttentionScoreGrad, from a TOML file, options, or both."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from ascendsim.call_file import Asked, CallFile, CallModel, joined_numbers, name_and_how, read_call
from ascendsim.errors import InputError
from ascendsim.op_host.fag_params import FagParams, Shape, ShapeSpec, TensorGiven
from ascendsim.op_host.fag_result import TileOverride
from ascendsim.op_host.fag_versions import Interface
from ascendsim.terms import DEFAULT_SOC, ceil_div

_AXES = "B,N,S1,S2,D or B,N,S1,S2,D,Dv; for layout TND with q_lens also N,D or N,D,Dv"
_HOW = "null, empty, scalar, a type, a shape, format=NZ, or some of them joined by colons, such as half:2,3,4"
_INNER: Final = {"tensors": "--tensor", "tiles": "--set"}

_numbers: Final = joined_numbers("1024,512")


def _axes(value: object) -> object:
    """Return a shape in numbers as a list, one in names as it is."""
    return _numbers(value) if isinstance(value, str) and value.replace(",", "").isdecimal() else value


Numbers = Annotated[list[int], BeforeValidator(_numbers)]
Axes = Annotated[str | list[int], BeforeValidator(_axes)]


class TilesSpec(CallModel):
    """Tile sizes to prescribe; see `TileOverride`."""

    cv_s1: int | None = Field(default=None, ge=1)
    cv_s2: int | None = Field(default=None, ge=1)
    vec_s1: int | None = Field(default=None, ge=1)
    vec_s2: int | None = Field(default=None, ge=1)
    units: int | None = Field(default=None, ge=1)
    cv_units: int | None = Field(default=None, ge=1)


class FagSpec(CallModel):
    """One call, in the words of the options; lists may be text with commas."""

    shape: Numbers
    dtype: Literal["bf16", "fp16", "fp32"]
    layout: Literal["BSH", "SBH", "BSND", "BNSD", "TND"]
    groups: int | None = Field(default=None, ge=1)
    kv_heads: int | None = Field(default=None, ge=1)
    q_lens: Numbers = Field(default_factory=list)
    kv_lens: Numbers = Field(default_factory=list)
    scale: float | None = None
    keep_prob: float = 1.0
    pre_tokens: int = 65536
    next_tokens: int = 65536
    sparse_mode: int = 0
    prefix: Numbers = Field(default_factory=list)
    atten_mask: Axes | None = None
    mask_dtype: str = "bool"
    pse: Axes | None = None
    pse_type: int = 1
    drop_mask: Axes | None = None
    inner_precise: int = 0
    head_num: int | None = None
    deterministic: bool = False
    interface: Literal["seed", "current"] = "current"
    soc: str = DEFAULT_SOC
    tensors: dict[str, str] = Field(default_factory=dict)
    tiles: TilesSpec = TilesSpec()


class FagFile(CallFile):
    """A file with a call of FlashAttentionScoreGrad."""

    fag: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked.

    Attributes:
        params: the call.
        soc: the part.
        interface: which page.
        override: prescribed tiles.
        notes: what was taken for what.
    """

    params: FagParams
    soc: str
    interface: Interface
    override: TileOverride
    notes: tuple[str, ...] = ()


def request_of(file: str | None, options: Mapping[str, Any]) -> Request:
    """Return what a file and options ask for together; an option counts more than the file's key.

    Args:
        file: path of a TOML file, or the name of a shipped one; None for options alone.
        options: by the file's names under [fag]; those that were not given are left out. "tensors" and "tiles" are
            mappings.

    Raises:
        InputError: a file, key or value that cannot be used; the text says which, why, and what would be right.
    """
    asked = Asked("fag", file, {} if file is None else read_call(file, FagFile, "fag"), options, _INNER)
    if file is None:
        _need(options)
    return _request(asked.spec(FagSpec))


def _need(given: Mapping[str, Any]) -> None:
    missing = [f"--{name}" for name in ("shape", "dtype", "layout") if name not in given]
    if missing:
        raise InputError(
            f"fag: {', '.join(missing)} not given; a call needs --shape {_AXES.partition(';')[0]}, --dtype and "
            "--layout, or a file that has them under [fag]"
        )


# --- from words to parameters ---


def _request(spec: FagSpec) -> Request:
    heads, axes, notes = _axes_of(spec)
    n2, groups = _heads(spec, heads)
    params = FagParams(
        dtype=spec.dtype,
        layout=spec.layout,
        N2=n2,
        G=groups,
        scale=spec.scale,
        keep_prob=spec.keep_prob,
        pre_tokens=spec.pre_tokens,
        next_tokens=spec.next_tokens,
        sparse_mode=spec.sparse_mode,
        prefix=tuple(spec.prefix),
        atten_mask=_mask(spec),
        mask_dtype=spec.mask_dtype,
        pse=_shape(spec.pse),
        pse_type=spec.pse_type,
        inner_precise=spec.inner_precise,
        head_num=spec.head_num,
        deterministic=spec.deterministic,
        **axes,
    )
    params = replace(params, drop_mask=_drop_mask(spec, params))
    given = tuple(tensor_given(name, how, params) for name, how in spec.tensors.items())
    return Request(
        params=replace(params, tensors=given),
        soc=spec.soc,
        interface=spec.interface,
        override=TileOverride(**spec.tiles.model_dump()),
        notes=notes,
    )


def _axes_of(spec: FagSpec) -> tuple[int, dict[str, Any], tuple[str, ...]]:
    """Return query heads, the other axes by their names in FagParams, and notes.

    Raises:
        InputError: a wrong number of axes, or lengths that contradict them.
    """
    shape, is_tnd = spec.shape, spec.layout == "TND"
    if min(shape) < 0:
        raise InputError(f"shape = {_joined(shape)}: an axis must not be negative")
    if not is_tnd and (spec.q_lens or spec.kv_lens):
        raise InputError(f"q_lens, kv_lens: only layout TND has them, not {spec.layout}")
    if is_tnd and len(shape) in (2, 3) and spec.q_lens:
        heads, d, *dv = shape
        return heads, _tnd(spec, d, dv), ()
    if len(shape) not in (5, 6):
        raise InputError(f"shape = {_joined(shape)}: has {len(shape)} numbers, want {_AXES}")
    b, heads, s1, s2, d, *dv = shape
    if not is_tnd:
        return heads, {"B": b, "S1": s1, "S2": s2, "D": d, "Dv": dv[0] if dv else None}, ()
    if not spec.q_lens:
        equal = {"q_lens": (s1,) * b, "kv_lens": tuple(spec.kv_lens) or (s2,) * b}
        return heads, {**_tnd(spec, d, dv), **equal}, (f"q_lens are not given: taken as {b} times {s1}",)
    _agree(spec, b, s1, s2)
    return heads, _tnd(spec, d, dv), ()


def _tnd(spec: FagSpec, d: int, dv: list[int]) -> dict[str, Any]:
    kv_lens = tuple(spec.kv_lens or spec.q_lens)
    return {"q_lens": tuple(spec.q_lens), "kv_lens": kv_lens, "D": d, "Dv": dv[0] if dv else None}


def _agree(spec: FagSpec, b: int, s1: int, s2: int) -> None:
    kv_lens = spec.kv_lens or spec.q_lens
    for name, said, counted in (
        ("B", b, len(spec.q_lens)),
        ("S1", s1, max(spec.q_lens)),
        ("S2", s2, max(kv_lens, default=0)),
    ):
        if said != counted:
            raise InputError(
                f"shape = {_joined(spec.shape)}: {name} = {said}, but the lengths say {counted}; give N,D or N,D,Dv"
            )


def _heads(spec: FagSpec, heads: int) -> tuple[int, int]:
    """Return (key heads, query heads for each)."""
    if spec.groups is not None and spec.kv_heads is not None:
        raise InputError("groups, kv_heads: give one of them; kv_heads = N / groups")
    if spec.kv_heads is None:
        spread, name = spec.groups or 1, "groups"
    else:
        spread, name = spec.kv_heads, "kv_heads"
    if heads % spread:
        raise InputError(
            f"{name} = {spread}: must divide N = {heads}; to see what the operator says to other heads, give the key "
            "with --tensor key=SHAPE"
        )
    other = heads // spread
    return (other, spread) if spec.kv_heads is None else (spread, other)


def _shape(spec: str | list[int] | None) -> ShapeSpec:
    return tuple(spec) if isinstance(spec, list) else spec


def _mask(spec: FagSpec) -> ShapeSpec:
    """Return the shape of attenMask; "compressed" is the one triangle of the sparse modes that have it."""
    if spec.atten_mask == "compressed":
        return (3072, 2048) if spec.sparse_mode == 6 else (2048, 2048)
    return _shape(spec.atten_mask)


def _drop_mask(spec: FagSpec, params: FagParams) -> ShapeSpec:
    """Return the shape of dropMask; "bits" is the least: one bit for each score."""
    if spec.drop_mask == "bits":
        return (ceil_div(params.scores * params.N1, 8),)
    return _shape(spec.drop_mask)


def _joined(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


def tensor_given(name: str, how: str, params: FagParams) -> TensorGiven:
    """Return a tensor given otherwise than the parameters imply.

    Args:
        name: of the tensor.
        how: null, empty, scalar, a type, a shape, format=FORMAT, or several joined by colons.
        params: the call without it.

    Raises:
        InputError: an unknown tensor or word.
    """
    given = TensorGiven(name)
    for part in how.split(":"):
        word, equals, value = part.strip().partition("=")
        if word == "format" and value:
            given = replace(given, data_format=value)
        elif equals or not word:
            raise InputError(f"tensor {name} = {how!r}: want {_HOW}")
        elif word == "null":
            given = replace(given, is_null=True)
        elif word == "empty":
            given = replace(given, shape=_emptied(params.shape_of(name)))
        elif word == "scalar":
            given = replace(given, shape=())
        elif word.replace(",", "").isdecimal():
            given = replace(given, shape=tuple(map(int, filter(None, word.split(",")))))
        else:
            given = replace(given, dtype=word)
    return given


def _emptied(shape: Shape | None) -> Shape:
    """Return a shape with no element: the first axis that can be is 0."""
    if not shape or prod(shape) == 0:
        return shape or (0,)
    return (0, *shape[1:])


def parse_tensors(options: list[str]) -> dict[str, str]:
    """Turn NAME=HOW and NAME:HOW into a mapping.

    Raises:
        InputError: neither.
    """
    found = {}
    for text in options:
        name, how = name_and_how(text)
        if not how:
            raise InputError(
                f"--tensor {text}: want NAME=HOW, such as query=null or attenMask:format=NZ; HOW is {_HOW}"
            )
        found[name] = how
    return found
