"""Parameters of one call of FlashAttentionScoreGrad ("FAG"), and the tensors they imply.

B batches, N2 key/value heads, G query heads for each of them (N1 = N2 * G), S1 query length, S2 key length, D head size
of query and key, Dv of value. A shape may be given by its name, such as "[B,1,S1,S2]", or as numbers.

Source: ops-transformer docs, aclnnFlashAttentionScoreGrad and V2 pages.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, DType
from ascendsim.errors import InputError
from ascendsim.terms import ceil_div

Layout = Literal["BSH", "SBH", "BSND", "BNSD", "TND"]
FagDtype = Literal["fp16", "bf16", "fp32"]
Shape = tuple[int, ...]
ShapeSpec = str | Shape | None
"""A shape by name or in numbers; None or "none" for a tensor that is not given."""

DTYPES: Final[dict[str, DType]] = {"fp16": HALF, "bf16": BFLOAT16, "fp32": FLOAT}

LANES: Final = 8
"""A softmax statistic of a row is stored as often as this: one 32-byte datablock of floats."""

TENSORS: Final = (
    *("query", "key", "value", "dy", "pseShift", "dropMask", "paddingMask", "attenMask"),
    *("softmaxMax", "softmaxSum", "softmaxIn", "attentionIn"),
    *("prefix", "qStartIdx", "kvStartIdx", "actualSeqQLen", "actualSeqKvLen"),
    *("dq", "dk", "dv", "dpse"),
    *("queryRope", "keyRope", "dqRope", "dkRope"),
)
"""Names of the operator's tensors in the interface's spelling; the arrays among them are 1-D int64 tensors."""

INNER_PSE_TYPES: Final = frozenset({2, 3})
"""Values of pse_type with which the operator makes the position bias itself, from float slopes."""

_FIXED_DTYPES: Final = {
    **dict.fromkeys(("softmaxMax", "softmaxSum"), "fp32"),
    **dict.fromkeys(("prefix", "qStartIdx", "kvStartIdx", "actualSeqQLen", "actualSeqKvLen"), "int64"),
    "dropMask": "uint8",
}

_QUERY_SIDE: Final = frozenset({"query", "dy", "attentionIn", "dq"})
_KEY_SIDE: Final = frozenset({"key", "value", "dk", "dv"})
_WITH_D: Final = frozenset({"query", "key", "dq", "dk"})

_SPEC_FIELDS: Final = {
    "pseShift": "pse",
    "dpse": "pse",
    "dropMask": "drop_mask",
    "attenMask": "atten_mask",
    "paddingMask": "padding_mask",
    "queryRope": "query_rope",
    "keyRope": "key_rope",
    "dqRope": "query_rope",
    "dkRope": "key_rope",
}

_NOT_GIVEN: Final = frozenset({"", "none", "NONE"})


@dataclass(frozen=True, slots=True)
class TensorGiven:
    """A tensor given otherwise than the parameters imply; None leaves a property as implied.

    Attributes:
        name: one of `TENSORS`.
        shape: its axes [elements].
        dtype: any name, such as "fp16", "bool" or "int8".
        is_null: the pointer is null.
        data_format: how it lies in GM, such as "NZ".
    """

    name: str
    shape: Shape | None = None
    dtype: str | None = None
    is_null: bool = False
    data_format: str = "ND"

    def __post_init__(self) -> None:
        if self.name not in TENSORS:
            raise InputError(f"tensor {self.name!r}: no such tensor; FlashAttentionScoreGrad has {', '.join(TENSORS)}")
        if self.shape is not None and min(self.shape, default=0) < 0:
            raise InputError(f"tensor {self.name} has shape {self.shape}: an axis must not be negative")


TensorsGiven = tuple[TensorGiven, ...] | Mapping[str, TensorGiven | Shape | None]
"""Tensors given otherwise; in a mapping None is a null pointer and a tuple a shape."""


def _entries(tensors: TensorsGiven) -> tuple[TensorGiven, ...]:
    """Return the tensors one by one.

    Raises:
        InputError: an entry stands under the name of another tensor.
    """
    if not isinstance(tensors, Mapping):
        return tuple(tensors)
    for name, how in tensors.items():
        if isinstance(how, TensorGiven) and how.name != name:
            raise InputError(f"tensors[{name!r}] is a TensorGiven of {how.name!r}; use one name")
    return tuple(
        how
        if isinstance(how, TensorGiven)
        else TensorGiven(name, None if how is None else tuple(how), is_null=how is None)
        for name, how in tensors.items()
    )


@dataclass(frozen=True, slots=True)
class FagParams:
    """One call of FlashAttentionScoreGrad. Names are those of the golden columns.

    Attributes:
        dtype: of query, key, value, dy, attentionIn and the gradients.
        layout: order of the axes of query, key and value.
        B, N2, G, S1, S2, D, Dv: the axes; Dv None is D. For TND, B None is the number of lengths and S1, S2 None
            are the longest.
        q_lens, kv_lens: lengths of each batch (not summed up), TND only.
        scale: factor of the scores; None is 1 / sqrt(D).
        keep_prob: share of scores that dropout keeps.
        pre_tokens, next_tokens: the band of the sparse modes 0, 4, 7 and 8.
        sparse_mode: 0..8.
        atten_mask, pse, drop_mask, padding_mask: shapes; None for absent.
        prefix: per batch, sparse modes 5 and 6.
        pse_type: 0..3.
        mask_dtype: of atten_mask.
        deterministic: the system option.
        inner_precise: no tiling reads it.
        q_start_idx, kv_start_idx: arrays of the V2 interface.
        head_num: the attribute headNum; None is N1.
        tensors: tensors given otherwise than the parameters imply; a mapping of names to null pointers (None), shapes
            or `TensorGiven`s is taken, too.
        query_rope, key_rope: shapes of the rotary parts; None for absent.
        softmax_in_layout: "same_as_input" for softmax statistics that the operator has to transpose, TND only.

    Raises:
        InputError: an unknown dtype, layout or shape name, or a negative axis.
    """

    dtype: FagDtype
    layout: Layout
    B: int | None = None
    N2: int = 1
    G: int = 1
    S1: int | None = None
    S2: int | None = None
    D: int = 128
    Dv: int | None = None
    q_lens: tuple[int, ...] = ()
    kv_lens: tuple[int, ...] = ()
    scale: float | None = None
    keep_prob: float = 1.0
    pre_tokens: int = 65536
    next_tokens: int = 65536
    sparse_mode: int = 0
    atten_mask: ShapeSpec = None
    prefix: tuple[int, ...] = ()
    pse: ShapeSpec = None
    pse_type: int = 1
    drop_mask: ShapeSpec = None
    mask_dtype: str = "bool"
    deterministic: bool = False
    inner_precise: int = 0
    q_start_idx: tuple[int, ...] = ()
    kv_start_idx: tuple[int, ...] = ()
    padding_mask: ShapeSpec = None
    head_num: int | None = None
    tensors: TensorsGiven = ()
    query_rope: ShapeSpec = None
    key_rope: ShapeSpec = None
    softmax_in_layout: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", _entries(self.tensors))
        if self.dtype not in DTYPES:
            raise InputError(f'dtype = {self.dtype!r}: must be "fp16", "bf16" or "fp32"')
        if self.layout not in get_args(Layout):
            raise InputError(f"layout = {self.layout!r}: must be one of {', '.join(get_args(Layout))}")
        for name in ("B", "N2", "G", "S1", "S2", "D", "Dv"):
            value = getattr(self, name)
            if value is None and self.layout != "TND" and name != "Dv":
                raise InputError(f"{name} is not given; only layout TND takes it from q_lens and kv_lens")
            if value is not None and value < 0:
                raise InputError(f"{name} = {value}: must not be negative")
        if min((*self.q_lens, *self.kv_lens), default=0) < 0:
            raise InputError("q_lens, kv_lens: a length must not be negative")
        for name in ("atten_mask", "pse", "drop_mask", "padding_mask", "query_rope", "key_rope"):
            self.resolve(getattr(self, name), name)

    @property
    def batch(self) -> int:
        """B, or the number of lengths of a TND call."""
        return len(self.q_lens) if self.B is None else self.B

    @property
    def q_len(self) -> int:
        """S1, or the longest query of a TND call."""
        return max(self.q_lens, default=0) if self.S1 is None else self.S1

    @property
    def kv_len(self) -> int:
        """S2, or the longest key of a TND call."""
        return max(self.kv_lens, default=0) if self.S2 is None else self.S2

    @property
    def v_dim(self) -> int:
        """Dv, or D."""
        return self.D if self.Dv is None else self.Dv

    @property
    def N1(self) -> int:  # noqa: N802  # the field's own name
        """Query heads."""
        return self.N2 * self.G

    @property
    def T1(self) -> int:  # noqa: N802
        """Query rows of all batches: the sum of q_lens where they are given."""
        return sum(self.q_lens) if self.q_lens else self.batch * self.q_len

    @property
    def T2(self) -> int:  # noqa: N802
        """Key rows of all batches: the sum of kv_lens where they are given."""
        return sum(self.kv_lens) if self.kv_lens else self.batch * self.kv_len

    @property
    def is_tnd(self) -> bool:
        """Whether batches have lengths of their own."""
        return self.layout == "TND"

    @property
    def element(self) -> DType:
        """Element type of query, key, value, dy and the gradients."""
        return DTYPES[self.dtype]

    @property
    def scale_value(self) -> float:
        """Factor of the scores."""
        if self.scale is not None:
            return self.scale
        return 1 / math.sqrt(self.D) if self.D else 1.0

    @property
    def heads_given(self) -> int:
        """The attribute headNum."""
        return self.N1 if self.head_num is None else self.head_num

    @property
    def scores(self) -> int:
        """Scores of one query head over all batches."""
        if self.is_tnd:
            return sum(q * kv for q, kv in zip(self.q_lens, self.kv_lens, strict=False))
        return self.batch * self.q_len * self.kv_len

    def given(self, name: str) -> TensorGiven | None:
        """Return how the tensor differs from what the parameters imply, None for not at all; the last entry counts."""
        return next((t for t in reversed(_entries(self.tensors)) if t.name == name), None)

    def shape_of(self, name: str) -> Shape | None:
        """Return the axes of a tensor of `TENSORS` [elements], None when it is not given."""
        given = self.given(name)
        if given is not None and given.is_null:
            return None
        if given is not None and given.shape is not None:
            return given.shape
        return self._implied_shape(name)

    def dtype_of(self, name: str) -> str:
        """Return the element type's name of a tensor of `TENSORS`."""
        given = self.given(name)
        if given is not None and given.dtype is not None:
            return given.dtype
        if name in {"pseShift", "dpse"} and self.pse_type in INNER_PSE_TYPES:
            return "fp32"
        if name == "attenMask":
            return self.mask_dtype
        return _FIXED_DTYPES.get(name, self.dtype)

    def resolve(self, spec: ShapeSpec, what: str) -> Shape | None:
        """Return a shape in numbers, None for a tensor that is not given.

        Args:
            spec: numbers, or axes in brackets, of numbers and B, N1, N2, S1, S2, T1, T2, ceil(S2/8), sum(q*kv) and
                products of them; "S1_S2" is "[S1,S2]"; a word behind the brackets is a remark.
            what: what the shape is of, for the error text.

        Raises:
            InputError: a name that is none of these.
        """
        if not isinstance(spec, str):
            return spec
        if spec in _NOT_GIVEN:
            return None
        text = "[S1,S2]" if spec == "S1_S2" else spec
        inner = text[1:].partition("]")[0]
        axes = tuple(self._axis(axis.strip()) for axis in inner.split(","))
        if not text.startswith("[") or "]" not in text or None in axes:
            raise InputError(
                f'{what} = {spec!r}: not a shape; give numbers, or names such as "[B,1,S1,S2]" made of B, N1, N2, S1, '
                "S2, T1, T2, ceil(S2/8), sum(q*kv), numbers and products with *"
            )
        return tuple(axis for axis in axes if axis is not None)

    def _axis(self, text: str) -> int | None:
        known = {
            "B": self.batch,
            "N1": self.N1,
            "N2": self.N2,
            "S1": self.q_len,
            "S2": self.kv_len,
            "T1": self.T1,
            "T2": self.T2,
            "ceil(S2/8)": ceil_div(self.kv_len, 8),
            "SUM": self.scores,
        }
        factors = [
            int(part) if part.isdecimal() else known.get(part) for part in text.replace("sum(q*kv)", "SUM").split("*")
        ]
        return None if None in factors else math.prod(f for f in factors if f is not None)

    def _implied_shape(self, name: str) -> Shape | None:
        if name in _SPEC_FIELDS:
            field = _SPEC_FIELDS[name]
            return self.resolve(getattr(self, field), field)
        if name in {"softmaxMax", "softmaxSum"}:
            return (self.T1, self.N1, LANES) if self.is_tnd else (self.batch, self.N1, self.q_len, LANES)
        if name in _QUERY_SIDE:
            return self._laid_out(self.q_len, self.T1, self.N1, self.D if name in _WITH_D else self.v_dim)
        if name in _KEY_SIDE:
            return self._laid_out(self.kv_len, self.T2, self.N2, self.D if name in _WITH_D else self.v_dim)
        values = self._array(name)
        return (len(values),) if values else None

    def _array(self, name: str) -> tuple[int, ...]:
        arrays = {
            "prefix": self.prefix,
            "qStartIdx": self.q_start_idx,
            "kvStartIdx": self.kv_start_idx,
            "actualSeqQLen": self.q_lens,
            "actualSeqKvLen": self.kv_lens,
        }
        return arrays.get(name, ())

    def _laid_out(self, length: int, total: int, heads: int, head_dim: int) -> Shape:
        match self.layout:
            case "BSH":
                return self.batch, length, heads * head_dim
            case "SBH":
                return length, self.batch, heads * head_dim
            case "BSND":
                return self.batch, length, heads, head_dim
            case "BNSD":
                return self.batch, heads, length, head_dim
            case "TND":
                return total, heads, head_dim
