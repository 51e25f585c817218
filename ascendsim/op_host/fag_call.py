"""One FlashAttentionScoreGrad call as its tiling reads it: the axes taken from the tensors, and the options present.

Source: ops-transformer op_host, flash_attention_score_grad tiling.
"""

import struct
from dataclasses import dataclass
from typing import Final

from ascendsim.op_host.fag_params import INNER_PSE_TYPES, FagParams, Layout, Shape
from ascendsim.op_host.fag_platform import FagPlatform
from ascendsim.terms import align_up

CUBE: Final = 16
"""Rows and columns of a fractal."""

AXES: Final = {
    "BSH": ("B", "S", "H"),
    "SBH": ("S", "B", "H"),
    "BSND": ("B", "S", "N", "D"),
    "BNSD": ("B", "N", "S", "D"),
    "TND": ("T", "N", "D"),
}
"""Order of the axes of query, key and value."""

ALL_TOKENS: Final = 2**31 - 1
"""A token count that reaches beyond every sequence."""

COMPRESSED_MASK_MODES: Final = frozenset({2, 3, 4, 6, 7, 8})
"""Sparse modes whose mask is one small triangle for all batches."""

PREFIX_MODES: Final = frozenset({5, 6})
TND_BAND_MODES: Final = frozenset({7, 8})


class RefusedError(Exception):
    """The whole call fails; `reasons` say what is wrong and how to mend it."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class NotCapableError(Exception):
    """A template leaves the call to the next one."""


@dataclass(frozen=True, slots=True)
class FagShape:
    """The axes, taken from the tensors.

    Attributes:
        layout: of the call, or "BSH" once a template has re-labelled a TND call of equal lengths.
        b: batches; of a TND call without the empty ones at its end.
        n2, g: key heads, query heads for each.
        s1, s2: query and key length; of a TND call the longest.
        d, dv: head size of query and key, of value.
        t1, t2: rows of all batches of a TND call, else 0.
        q_lens, kv_lens: of each batch of a TND call, the empty ones at the end included.
    """

    layout: Layout
    b: int
    n2: int
    g: int
    s1: int
    s2: int
    d: int
    dv: int
    t1: int = 0
    t2: int = 0
    q_lens: tuple[int, ...] = ()
    kv_lens: tuple[int, ...] = ()

    @property
    def n1(self) -> int:
        """Query heads."""
        return self.n2 * self.g

    def query_head(self, n2: int, g: int) -> int:
        """Return the number of a query head, the g-th of a key head's."""
        return n2 * self.g + g

    @property
    def is_tnd(self) -> bool:
        """Whether batches have lengths of their own."""
        return self.layout == "TND"

    @property
    def s1_aligned(self) -> int:
        """S1 in whole fractals."""
        return align_up(self.s1, CUBE)

    @property
    def s2_aligned(self) -> int:
        """S2 in whole fractals."""
        return align_up(self.s2, CUBE)

    @property
    def d_aligned(self) -> int:
        """D in whole fractals."""
        return align_up(self.d, CUBE)

    @property
    def dv_aligned(self) -> int:
        """Dv in whole fractals."""
        return align_up(self.dv, CUBE)

    @property
    def q_rows(self) -> int:
        """Query rows of all heads and batches."""
        return (self.t1 if self.is_tnd else self.b * self.s1) * self.n1

    @property
    def kv_rows(self) -> int:
        """Key rows of all heads and batches."""
        return (self.t2 if self.is_tnd else self.b * self.s2) * self.n2

    @property
    def scores(self) -> int:
        """Scores of all heads and batches: elements of dropMask."""
        if self.is_tnd:
            return self.n1 * sum(q * kv for q, kv in zip(self.q_lens, self.kv_lens, strict=True))
        return self.b * self.n1 * self.s1 * self.s2

    @property
    def has_equal_lengths(self) -> bool:
        """Whether all batches of a TND call have the same length, S1 = S2."""
        return self.is_tnd and self.b * self.s1 == self.t1 and self.b * self.s2 == self.t2 and self.s1 == self.s2


@dataclass(frozen=True, slots=True)
class FagCall:
    """A call: its parameters, axes and platform."""

    params: FagParams
    shape: FagShape
    platform: FagPlatform

    @property
    def is_fp32(self) -> bool:
        """Whether the tensors are float."""
        return self.params.dtype == "fp32"

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of query."""
        return self.params.element.bytes

    @property
    def mask(self) -> Shape | None:
        """Axes of attenMask; None for absent, which a tensor of rank 0 is, too."""
        return self.params.shape_of("attenMask") or None

    @property
    def pse(self) -> Shape | None:
        """Axes of pseShift; None for absent, which a tensor of rank 0 is, too."""
        return self.params.shape_of("pseShift") or None

    @property
    def drop_mask(self) -> Shape | None:
        """Axes of dropMask; None for absent, which a tensor of rank 0 is, too."""
        return self.params.shape_of("dropMask") or None

    @property
    def rope_sizes(self) -> tuple[int, int] | None:
        """Head sizes of queryRope and keyRope; None without them."""
        query, key = (self.params.shape_of(name) for name in ("queryRope", "keyRope"))
        return (query[-1], key[-1]) if query and key else None

    @property
    def keep_prob(self) -> float:
        """The operator's keepProb, a float32."""
        return as_float32(self.params.keep_prob)

    @property
    def has_drop(self) -> bool:
        """Whether scores are dropped."""
        return self.keep_prob < 1

    @property
    def is_inner_pse(self) -> bool:
        """Whether the position bias is made inside."""
        return self.params.pse_type in INNER_PSE_TYPES


def as_float32(value: float) -> float:
    """Return a double rounded to float32; beyond its range it becomes infinite."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def read_shape(params: FagParams) -> FagShape:
    """Return the axes of a call whose tensors have passed `entry_reasons`.

    Raises:
        RefusedError: heads that do not divide, or lengths of a TND call that do not pair.

    Source: ops-transformer op_host, flash_attention_score_grad tiling, base shape info.
    """
    query, key, value = (_axes(params, name) for name in ("query", "key", "value"))
    if params.is_tnd:
        return _read_tnd(params, query, key, value)
    heads = params.heads_given
    if "H" in query:
        g = query["H"] // key["H"] if key["H"] else 0
        n2 = heads // g if g else 0
        d, dv = query["H"] // heads, value["H"] // n2 if n2 else 0
    else:
        n2 = key["N"]
        g = query["N"] // n2 if n2 else 0
        d, dv = query["D"], value["D"]
    _require_heads(n2, g, params)
    return FagShape(params.layout, query["B"], n2, g, query["S"], key["S"], d, dv)


def _read_tnd(params: FagParams, query: dict[str, int], key: dict[str, int], value: dict[str, int]) -> FagShape:
    q_count, kv_count = (_count(params, name) for name in ("actualSeqQLen", "actualSeqKvLen"))
    if not q_count or not kv_count or not params.q_lens or not params.kv_lens:
        raise RefusedError("layout TND needs q_lens and kv_lens, the lengths of each batch")
    if q_count != kv_count or len(params.q_lens) != len(params.kv_lens):
        raise RefusedError(
            f"q_lens has {q_count} lengths and kv_lens {kv_count}: one query and one key length belong to each batch; "
            "give both the same number"
        )
    n2 = key["N"]
    g = query["N"] // n2 if n2 else 0
    _require_heads(n2, g, params)
    batches = len(params.q_lens)
    while batches > 1 and params.q_lens[batches - 1] == params.kv_lens[batches - 1] == 0:
        batches -= 1
    return FagShape(
        layout="TND",
        b=batches,
        n2=n2,
        g=g,
        s1=max(params.q_lens),
        s2=max(params.kv_lens),
        d=query["D"],
        dv=value["D"],
        t1=query["T"],
        t2=key["T"],
        q_lens=params.q_lens,
        kv_lens=params.kv_lens,
    )


def _axes(params: FagParams, name: str) -> dict[str, int]:
    return dict(zip(AXES[params.layout], params.shape_of(name) or (), strict=True))


def _count(params: FagParams, name: str) -> int:
    shape = params.shape_of(name)
    return shape[0] if shape else 0


def _require_heads(n2: int, g: int, params: FagParams) -> None:
    if n2 == 0 or g == 0:
        raise RefusedError(
            f"query {params.shape_of('query')} and key {params.shape_of('key')} with headNum {params.heads_given}: the "
            "query heads must be a positive multiple of the key heads"
        )
