"""Parameters and tensors of LaserAttentionGrad ("LAG"), and the call that they make.

Source: LaserAttentionGradOperation page; ascend-transformer-boost, ops_train/laser_attention_grad (which tensors may be
empty), atb_ops_info.ini (types).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Final, Literal

from ascendsim.errors import InputError
from ascendsim.op_host.atb import INT32_END, RSV, OperationIni, TensorIni, rsv_bytes, whole_number

LagLayout = Literal["BNSD", "SBH"]

NARROW_D: Final = 128
"""Head size of query, key and value; the only one of value."""
WIDE_D: Final = 192
"""Head size of query in the other class of heads."""
WIDE_KEY_D: Final = 256
"""Head size of key in that class: columns from 192 on are not read, and their gradient is 0."""
MOST_HEADS: Final = 512
"""More heads are refused when shapes are inferred; the page's limit is that of an int."""
LENGTH_UNIT: Final = 256
"""Lengths and preTokens are multiples of it."""

_INTS: Final = ("headNum", "preTokens", "nextTokens", "sparseMode", "innerPrecise")
_FLOATS: Final = ("scaleValue", "keepProb")

NAME: Final = "LaserAttentionGradOperation"


def _line(name: str, dtype: str, *, may_be_empty: bool = False) -> TensorIni:
    """Return a line of the table of types: there is one combination."""
    return TensorIni(name, (dtype,), ("nd",), may_be_empty)


INI: Final = OperationIni(
    NAME,
    inputs=(
        _line("query", "bf16"),
        _line("key", "bf16"),
        _line("value", "bf16"),
        _line("attentionOutGrad", "bf16"),
        _line("pseShift", "bf16", may_be_empty=True),
        _line("dropMask", "uint8", may_be_empty=True),
        _line("paddingMask", "bf16", may_be_empty=True),
        _line("attenMask", "float16", may_be_empty=True),
        _line("softmaxMax", "float"),
        _line("softmaxSum", "float"),
        _line("softmaxIn", "bf16"),
        _line("attentionIn", "bf16"),
        _line("prefix", "int64", may_be_empty=True),
        _line("actualSeqQLen", "int64", may_be_empty=True),
        _line("actualSeqKVLen", "int64", may_be_empty=True),
    ),
    outputs=tuple(_line(name, "bf16") for name in ("queryGrad", "keyGrad", "valueGrad", "dpse")),
)
GRADIENT_OF: Final = {"queryGrad": "query", "keyGrad": "key", "valueGrad": "value"}
"""Outputs with the shape of an input; dpse may have any."""
RESERVED_BEFORE: Final = ("pseShift", "dropMask", "paddingMask")
RESERVED_BEHIND: Final = ("prefix", "actualSeqQLen", "actualSeqKVLen")
"""Inputs that must be empty; they are checked before and behind the others."""


@dataclass(frozen=True, slots=True)
class LaserAttentionGradParam:
    """Parameters with the page's names and defaults.

    The default of preTokens does not pass the operator's own check (multiple of 256), so it has to be given.

    Attributes:
        headNum: query heads, 1 to 512.
        inputLayout: "BNSD", or "SBH" (which the page does not list and the operator takes).
        scaleValue: factor of the scores, above 0 and at most 1.
        keepProb, nextTokens, sparseMode: not read.
        preTokens: how far back a query sees, a multiple of 256; matters with a mask.
        innerPrecise: 1.
        rsv: reserved, 0.

    Raises:
        InputError: a value of another type, or one that its type does not hold.
    """

    headNum: int = 0  # noqa: N815  # the page's names
    inputLayout: str = "BNSD"  # noqa: N815
    scaleValue: float = 0.08838834764831843  # noqa: N815
    keepProb: float = 1.0  # noqa: N815
    preTokens: int = INT32_END - 1  # noqa: N815
    nextTokens: int = 1  # noqa: N815
    sparseMode: int = 0  # noqa: N815
    innerPrecise: int = 1  # noqa: N815
    rsv: Sequence[int] = (0,) * RSV

    def __post_init__(self) -> None:
        for name in _INTS:
            whole_number(name, getattr(self, name), -INT32_END, INT32_END)
        for name in _FLOATS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InputError(f"{name} = {value!r}: must be a number")
        if not isinstance(self.inputLayout, str):
            raise InputError(f'inputLayout = {self.inputLayout!r}: must be text, "BNSD" or "SBH"')
        object.__setattr__(self, "rsv", rsv_bytes(self.rsv))

    def changed(self, *names: str) -> tuple[str, ...]:
        """Return those of the names whose value is not the default."""
        defaults = {f.name: f.default for f in fields(self)}
        return tuple(name for name in names if getattr(self, name) != defaults[name])


class MapKind(Enum):
    """Which blocks of scores are computed, and in which order."""

    DENSE = "dense"
    TRIANGLE = "triangle"
    """Two parts of a triangle side by side, so that all strips are alike."""
    TRAPEZOID = "trapezoid"
    """A window along the diagonal, its corner folded."""
    UNFOLDED = "unfolded"
    """A triangle as a square of which the upper half is skipped; for comparison, no kernel does it."""


@dataclass(frozen=True, slots=True)
class LagCall:
    """A call that the operator takes; names are those of the golden columns.

    Attributes:
        layout: of query, key, value and their gradients.
        B, Nq, Nkv: batches, query heads, key heads.
        Sq, Skv: lengths, multiples of 256.
        Dq, Dk, Dv: head sizes: 128, 128, 128 or 192, 256, 128.
        has_mask: attenMask is there; then Sq = Skv.
        pre_tokens: how far back a query sees, with a mask.
        scale: factor of the scores.
    """

    layout: LagLayout
    B: int
    Nq: int
    Nkv: int
    Sq: int
    Skv: int
    Dq: int
    Dk: int
    Dv: int
    has_mask: bool
    pre_tokens: int
    scale: float = field(default=1 / math.sqrt(NARROW_D))

    @property
    def head_group_size(self) -> int:
        """Query heads of a key head."""
        return self.Nq // self.Nkv

    @property
    def is_sparse(self) -> bool:
        """Whether the window is shorter than the sequence."""
        return self.has_mask and self.pre_tokens < self.Sq

    @property
    def window_len(self) -> int:
        """Keys that a query sees before its own; 0 without a mask."""
        return min(self.pre_tokens, self.Sq) if self.has_mask else 0

    @property
    def map_kind(self) -> MapKind:
        """Which blocks of scores are computed."""
        if not self.has_mask:
            return MapKind.DENSE
        return MapKind.TRAPEZOID if self.is_sparse else MapKind.TRIANGLE

    @property
    def q_elements(self) -> int:
        """Elements of dQ."""
        return self.B * self.Nq * self.Sq * self.Dq

    @property
    def k_elements(self) -> int:
        """Elements of dK."""
        return self.B * self.Nkv * self.Skv * self.Dk

    @property
    def v_elements(self) -> int:
        """Elements of dV."""
        return self.B * self.Nkv * self.Skv * self.Dv
