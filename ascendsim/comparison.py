"""A run beside that of the operator's own tiling: what a scenario prescribes, and what it gains or costs."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """What is compared of a run.

    Attributes:
        makespan_cycles: of it.
        tflops: floating-point operations a second, None where the operator does not say.
        busy_cycles: mean of the cores, by pipe as reports call it.
        shared_cycles: of them, those that sharing a link added.
        read_hit_share: of the bytes read, the part that was a hit in L2; None where none are read.
        gm_bytes: moved from and to GM.
        both_share: of the makespan, the part in which Cube and Vector are busy at once; None where there are not both.
    """

    makespan_cycles: int
    tflops: float | None
    busy_cycles: Mapping[str, float]
    shared_cycles: Mapping[str, float]
    read_hit_share: float | None
    gm_bytes: int
    both_share: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run with prescribed tiles against the same call without them.

    Attributes:
        prescribed: keys of [tiling] that prescribe something, with their values.
        default: of the operator's own tiling; None where it cannot be timed.
        reason: why not.
    """

    prescribed: Mapping[str, object]
    default: Figures | None
    reason: str = ""
