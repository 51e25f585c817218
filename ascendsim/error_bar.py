"""How far a run's makespan may be from that of the hardware, by the errors that were measured on its instruction mix.

The makespan is taken as time of the bottleneck pipe. Its busy share is weighed by the errors of the numbers that its
cycles rest on. The rest of the makespan, in which the bottleneck waits or is idle and others decide, is weighed by
the errors of all other pipes' cycles together. So

    error = busy share * mean over the bottleneck's cycles + (1 - busy share) * mean over the other pipes' cycles

once with the median and once with the 90th percentile of each family (`ascendsim.known_errors`). An error is
relative to what the hardware takes, so a makespan with the error e stands for makespan / (1 + e) to makespan / (1 - e).

A number that several families stand for has the largest error of them; one that is assumed has none, whatever family
stands for it. Cycles on numbers without an error count as if they had none, and their share is told.

Which way it errs: the errors of a family are added up as if all its instructions were off in the same direction, which
makes the range too wide; overlap, waiting and dispatch are taken as modelled, and what is not measured as right, which
makes it too narrow. Launch is not part of the makespan.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ascendsim.known_errors import FamilyErrors
from ascendsim.leaning import Charge, Figure
from ascendsim.terms import CoreKind, Pipe

_DIGITS = 9
"""Of a share: what is less is a trace of rounding."""


@dataclass(frozen=True, slots=True)
class ErrorBar:
    """What the errors measured on a run's instruction mix imply for its makespan.

    Attributes:
        low_cycles: the makespan, had the model been slow by `p90_error`.
        high_cycles: the makespan, had it been fast by that; None where the error leaves no upper end.
        median_error, p90_error: relative errors of the mix.
        unmeasured_share: part of the makespan that rests on numbers without a measured error.
        family_shares: part of the makespan that rests on each family's errors, largest first.
    """

    low_cycles: int
    high_cycles: int | None
    median_error: float
    p90_error: float
    unmeasured_share: float
    family_shares: tuple[tuple[FamilyErrors, float], ...]


def error_bar(
    makespan_cycles: int,
    charges: Sequence[Charge],
    bottleneck: tuple[CoreKind, Pipe],
    busy_share: float,
    arch: int,
    families: Sequence[FamilyErrors],
) -> ErrorBar | None:
    """Return the error bar of a makespan, None where no measured error stands for any of its cycles.

    Args:
        makespan_cycles: the makespan.
        charges: what the cycles of each pipe rest on.
        bottleneck: the pipe that decides.
        busy_share: part of the makespan in which it is busy, the mean of its cores.
        arch: architecture of the device.
        families: measured errors.
    """
    shares = _shares(charges, bottleneck, busy_share)
    parts: dict[FamilyErrors, float] = {}
    for figure, share in shares.items():
        family = _worst(figure, arch, families)
        if family is not None:
            parts[family] = parts.get(family, 0.0) + share
    if not parts:
        return None
    median = sum(family.median * part for family, part in parts.items())
    p90 = sum(family.p90 * part for family, part in parts.items())
    return ErrorBar(
        low_cycles=math.floor(makespan_cycles / (1 + p90)),
        high_cycles=math.ceil(makespan_cycles / (1 - p90)) if p90 < 1 else None,
        median_error=median,
        p90_error=p90,
        unmeasured_share=round(1 - math.fsum(parts.values()), _DIGITS),
        family_shares=tuple(sorted(parts.items(), key=lambda item: (-item[1], item[0].family.name))),
    )


def _shares(charges: Sequence[Charge], bottleneck: tuple[CoreKind, Pipe], busy_share: float) -> dict[Figure, float]:
    """The part of the makespan that rests on each number; with no other pipe's cycles the rest of it is nobody's."""
    found: dict[Figure, float] = {}
    own = [c for c in charges if (c.kind, c.pipe) == bottleneck]
    others = [c for c in charges if (c.kind, c.pipe) != bottleneck]
    for group, weight in ((own, busy_share), (others, 1 - busy_share)):
        total = sum(c.busy_cycles for c in group)
        for charge in group if total else ():
            found[charge.figure] = found.get(charge.figure, 0.0) + weight * charge.busy_cycles / total
    return found


def _worst(figure: Figure, arch: int, families: Sequence[FamilyErrors]) -> FamilyErrors | None:
    """The family with the largest errors of those that stand for a number."""
    known = [f for f in families if figure.status != "assumed" and f.covers(arch, figure.path)]
    return max(known, key=lambda f: f.p90, default=None)
