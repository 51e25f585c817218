"""Tensors of a FlashAttentionScoreGrad call as its interface sees them, and the axes that it reads from their shapes.

Source: ops-transformer, op_api and infershape of flash_attention_score_grad.
"""

from dataclasses import dataclass
from math import prod
from typing import Final

from ascendsim.op_host.fag_params import TENSORS, FagParams, Layout, Shape

ARRAYS: Final = ("prefix", "qStartIdx", "kvStartIdx", "actualSeqQLen", "actualSeqKvLen")
"""Host arrays of the interface."""

MAIN: Final = ("query", "key", "value", "dy", "attentionIn", "dq", "dk", "dv")
"""Tensors with the axes of the layout."""

GRADIENT_OF: Final = {"dq": "query", "dk": "key", "dv": "value"}

ROPE: Final = ("queryRope", "keyRope", "dqRope", "dkRope")

_ACL_NAMES: Final = {
    "fp16": "FLOAT16", "half": "FLOAT16", "float16": "FLOAT16",
    "bf16": "BFLOAT16", "bfloat16": "BFLOAT16", "bfloat16_t": "BFLOAT16",
    "fp32": "FLOAT", "float": "FLOAT", "float32": "FLOAT",
}  # fmt: skip


def acl_name(dtype: str) -> str:
    """Return the interface's name of an element type: "FLOAT16" of "fp16"; of others the name in capitals."""
    plain = dtype.strip().removeprefix("DT_").removeprefix("ACL_").lower()
    return _ACL_NAMES.get(plain, plain.removesuffix("_t").upper())


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor as the interface gets it.

    Attributes:
        name: one of `TENSORS`.
        shape: axes [elements]; None for a null pointer, () for a scalar.
        dtype: the interface's name, such as "FLOAT16".
        data_format: such as "ND".
    """

    name: str
    shape: Shape | None
    dtype: str
    data_format: str = "ND"

    @property
    def is_null(self) -> bool:
        """Whether the pointer is null."""
        return self.shape is None

    @property
    def is_given(self) -> bool:
        """Whether an optional tensor counts as given: neither null nor a scalar."""
        return bool(self.shape)

    @property
    def is_empty(self) -> bool:
        """Whether it has a zero axis."""
        return self.shape is not None and prod(self.shape) == 0

    @property
    def rank(self) -> int:
        """Number of axes; 0 for a scalar and for null."""
        return len(self.shape or ())

    def axis(self, index: int) -> int:
        """Length of an axis; 0 where there is none."""
        shape = self.shape or ()
        return shape[index] if -len(shape) <= index < len(shape) else 0

    @property
    def text(self) -> str:
        """Shape for messages."""
        if self.shape is None:
            return "null"
        return f"[{','.join(map(str, self.shape))}]" if self.shape else "a scalar"


Arguments = dict[str, TensorArgument]


def arguments_of(params: FagParams) -> Arguments:
    """Return all tensors of the call, by name; those that the parameters leave out are null."""
    found = {}
    for name in TENSORS:
        given = params.given(name)
        data_format = "ND" if given is None else given.data_format.upper()
        found[name] = TensorArgument(name, params.shape_of(name), acl_name(params.dtype_of(name)), data_format)
    return found


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes as the operator reads them from query, key, value, headNum and the layout.

    Attributes:
        B: batches (of query); 0 for TND.
        N1, N2: heads of query and key.
        S1, S2: lengths; 0 for TND.
        D, Dk, Dv: head sizes of query, key and value.
        T1, T2: rows of query and key over all batches.
    """

    B: int
    N1: int
    N2: int
    S1: int
    S2: int
    D: int
    Dk: int
    Dv: int
    T1: int
    T2: int


_POSITIONS: Final = {"BSH": (0, 1), "SBH": (1, 0), "BSND": (0, 1), "BNSD": (0, 2)}
"""Where batch and length stand."""


def axes_of(layout: Layout, head_num: int, arguments: Arguments) -> Axes:
    """Return the axes.

    A layout with H splits it by headNum: D = H // headNum, N2 = H of key // D. An axis that is not there is 0.

    Args:
        layout: order of the axes.
        head_num: the attribute, positive.
        arguments: of which query, key and value are not null.
    """
    query, key, value = (arguments[name] for name in ("query", "key", "value"))
    if layout == "TND":
        heads, sizes = (query.axis(1), key.axis(1)), (query.axis(2), key.axis(2), value.axis(2))
        return Axes(0, *heads, 0, 0, *sizes, query.axis(0), key.axis(0))
    batch, length = _POSITIONS[layout]
    lengths = query.axis(length), key.axis(length)
    rows = query.axis(batch) * lengths[0], key.axis(batch) * lengths[1]
    if layout in ("BSH", "SBH"):
        size = query.axis(2) // head_num
        key_heads = key.axis(2) // size if size else 0
        others = (key.axis(2) // key_heads, value.axis(2) // key_heads) if key_heads else (size, 0)
        return Axes(query.axis(batch), head_num, key_heads, *lengths, size, *others, *rows)
    head = 1 if layout == "BNSD" else 2
    sizes = query.axis(3), key.axis(3), value.axis(3)
    return Axes(query.axis(batch), query.axis(head), key.axis(head), *lengths, *sizes, *rows)
