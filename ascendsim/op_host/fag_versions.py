"""The two versions of the FlashAttentionScoreGrad page: what each demands of a tensor, and its limits of the axes.

"seed" is the oldest page, "current" that of ops-transformer with its V2 and unpadding sisters. Limits of the axes are
in the pages' constraints, which tie them to no return code.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from ascendsim.op_host.fag_params import FagParams
from ascendsim.op_host.fag_rules import DTYPE, MASK, RATIO, SHAPE, Reason
from ascendsim.op_host.fag_tensors import MAIN, Axes

Interface = Literal["seed", "current"]

FUNCTION: Final = "aclnnFlashAttentionScoreGrad"
_UNPADDING: Final = "aclnnFlashAttentionUnpaddingScoreGrad"

_FLOATS: Final = frozenset({"FLOAT16", "BFLOAT16", "FLOAT"})
_OLD_FLOATS: Final = frozenset({"FLOAT16", "FLOAT"})

K: Final = 1024


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the page.

    Attributes:
        name: "seed" or "current".
        codes_source, limits_source: where its return codes and its limits stand.
        required: tensors whose null pointer it answers with 161001, in its order.
        types: element types it takes, by tensor; a tensor that is missing may have any.
        fallback_types: types of tensors of which the call says nothing, where it does not take those of the parameters.
        converted: what becomes of tensors that the page takes with other types than the kernel; "" is query's type.
    """

    name: Interface
    codes_source: str
    limits_source: str
    required: tuple[str, ...]
    types: Mapping[str, frozenset[str]]
    fallback_types: Mapping[str, str]
    converted: Mapping[str, str]


SEED: Final = Version(
    name="seed",
    codes_source="seed page aclnnFlashAttentionScoreGrad, return values",
    limits_source="seed page aclnnFlashAttentionScoreGrad, constraints",
    required=("query", "key", "value", "dy", "dq", "dk", "dv"),
    types={
        **dict.fromkeys((*MAIN, "dpse"), _FLOATS),
        **dict.fromkeys(("pseShift", "dropMask", "paddingMask", "softmaxMax", "softmaxSum", "softmaxIn"), _OLD_FLOATS),
        "attenMask": frozenset({"BOOL"}),
    },
    fallback_types=dict.fromkeys(("pseShift", "dropMask", "paddingMask", "softmaxIn"), "FLOAT"),
    converted={"pseShift": "", "dropMask": "UINT8", "softmaxMax": "FLOAT", "softmaxSum": "FLOAT"},
)

CURRENT: Final = Version(
    name="current",
    codes_source=DTYPE.source,
    limits_source=SHAPE.source,
    required=("query", "key", "value", "dy", "attentionIn", "dq", "dk", "dv"),
    types={
        **dict.fromkeys((*MAIN, "pseShift"), _FLOATS),
        "dropMask": frozenset({"UINT8"}),
        "attenMask": frozenset({"BOOL", "UINT8"}),
        **dict.fromkeys(("softmaxMax", "softmaxSum"), frozenset({"FLOAT"})),
    },
    fallback_types={},
    converted={},
)

VERSIONS: Final[dict[str, Version]] = {"seed": SEED, "current": CURRENT}


def function_of(params: FagParams) -> str:
    """Return the function of the current interface that takes these parameters."""
    has_v2 = params.pse_type != 1 or params.q_start_idx or params.kv_start_idx
    if params.softmax_in_layout:
        return f"{_UNPADDING}V4"
    if has_rope(params):
        return f"{_UNPADDING}V3"
    if is_unpadding(params):
        return f"{_UNPADDING}V2" if has_v2 else _UNPADDING
    return f"{FUNCTION}V2" if has_v2 else FUNCTION


def has_rope(params: FagParams) -> bool:
    """Return whether a rotary part is given, as a shape or as a null pointer beside the other."""
    return any(params.shape_of(name) is not None for name in ("queryRope", "keyRope"))


def is_unpadding(params: FagParams) -> bool:
    """Return whether only an unpadding interface takes these parameters."""
    has_lengths = bool(params.q_lens or params.kv_lens)
    return params.is_tnd or has_lengths or has_rope(params) or bool(params.softmax_in_layout)


# --- limits of the axes ---


@dataclass(frozen=True, slots=True)
class Limit:
    """What a page says of an axis.

    Attributes:
        low, high: both are allowed.
        unit: it is a multiple of this.
        values: if any, it is one of these.
    """

    low: int
    high: int
    unit: int = 1
    values: tuple[int, ...] = ()

    def holds(self, value: int) -> bool:
        """Return whether the axis may have this length."""
        return value in self.values if self.values else self.low <= value <= self.high and value % self.unit == 0

    def __str__(self) -> str:
        if self.values:
            return f"one of {', '.join(map(str, self.values))}"
        return f"{self.low}..{self.high}" + (f" and a multiple of {self.unit}" if self.unit > 1 else "")


_SEED_LIMITS: Final = {
    "B": Limit(1, 256),
    "N": Limit(1, 256),
    "S": Limit(1, 32 * K, unit=16),
    "D": Limit(64, 256, values=(64, 96, 128, 256)),
}


def _current_limits(params: FagParams) -> dict[str, Limit]:
    """Return the limits of the function that takes these parameters."""
    widest_d = 768 if function_of(params) == FUNCTION else 512
    most_batches = (K if params.prefix else 2 * K) if params.is_tnd else (2 * K if params.prefix else 2 * K * K)
    return {"B": Limit(1, most_batches), "N": Limit(1, 256), "S": Limit(1, K * K), "D": Limit(1, widest_d)}


def limits_broken(params: FagParams, axes: Axes, version: Version, function: str) -> Iterator[Reason]:
    """Return the limits of the page's constraints that a call breaks; none of them has a status.

    Args:
        params: the call.
        axes: as its tensors have them.
        version: whose limits.
        function: name of the function, for the place.
    """
    limits = _SEED_LIMITS if version is SEED else _current_limits(params)
    values = {"B": len(params.q_lens) if params.is_tnd else axes.B, "N": axes.N1, "D": axes.D}
    lengths = {"T of query": axes.T1, "T of key": axes.T2} if params.is_tnd else {"S1": axes.S1, "S2": axes.S2}
    for name, value in (values | lengths).items():
        limit = limits["S" if name in lengths else name]
        if not limit.holds(value):
            finding = SHAPE.finding(
                f"{function}: constraints", operand=name, got=value, wanted=limit, fill={"version": version.name}
            )
            yield Reason(replace(finding, source=version.limits_source), None)
    if axes.N2 == 0 or axes.N1 % axes.N2:
        yield Reason(RATIO.finding(f"{function}: constraints", operand="N", got=axes.N1, wanted=axes.N2), None)
    yield from _prefixes_outside(params, axes, function)


def _prefixes_outside(params: FagParams, axes: Axes, function: str) -> Iterator[Reason]:
    if params.sparse_mode not in (5, 6):
        return
    for batch, prefix in enumerate(params.prefix):
        q, kv = (axes.S1, axes.S2) if not params.is_tnd else _lengths(params, batch)
        low = 0 if q > kv else kv - q
        if not low <= prefix <= kv:
            found = MASK.finding(f"{function}: prefix", operand=str(batch), got=prefix, wanted=f"{low}..{kv}")
            yield Reason(found, None)


def _lengths(params: FagParams, batch: int) -> tuple[int, int]:
    """Lengths of a batch of a TND call; 0 where there is none."""
    q, kv = params.q_lens[batch : batch + 1], params.kv_lens[batch : batch + 1]
    return sum(q), sum(kv)
