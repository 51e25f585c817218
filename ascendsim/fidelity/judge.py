"""Measurements against the model: relative errors by family, what is outside its bound, what nothing rebuilds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ascendsim.fidelity.errors_of import QUARTER, Errors
from ascendsim.fidelity.families import Bound, Family
from ascendsim.fidelity.measured import Measured, Uncovered
from ascendsim.fidelity.reasons import why_off

WORST_ROWS = 5
UNFORESEEN = (ArithmeticError, LookupError, MemoryError, TypeError, ValueError)
"""What rebuilding a row may raise whose fields nobody thought of: such a row must not cost the others their answer."""


def unforeseen(error: BaseException) -> str:
    """Return why a row is not covered that could not be rebuilt."""
    return f"rebuilding it failed ({type(error).__name__}: {error}); please report the row"


@dataclass(frozen=True, slots=True)
class Judged:
    """One measurement and what the model says; `predicted` is None if nothing rebuilds it, for `reason`."""

    row: Measured
    predicted: float | None
    reason: str = ""

    @property
    def bias(self) -> float:
        """Relative error with its sign: above 0 the model is too slow."""
        assert self.predicted is not None
        return (self.predicted - self.row.cycles) / self.row.cycles

    @property
    def error(self) -> float:
        """Relative error."""
        return abs(self.bias)

    @property
    def why_off(self) -> str:
        """Why the model is far off, where it is."""
        assert self.predicted is not None
        return why_off(self.row, self.predicted)


@dataclass(frozen=True)
class Verdict:
    """A family and its judged rows."""

    family: Family
    rows: tuple[Judged, ...]

    @cached_property
    def covered(self) -> tuple[Judged, ...]:
        """Rows that the model predicts."""
        return tuple(row for row in self.rows if row.predicted is not None)

    @cached_property
    def errors(self) -> Errors | None:
        """Errors of the covered rows, None without any."""
        return Errors(tuple(row.error for row in self.covered)) if self.covered else None

    @cached_property
    def broken(self) -> tuple[str, ...]:
        """Bounds that are not held, in words."""
        if self.family.bound is None or self.errors is None:
            return ()
        return tuple(_broken(self.family.bound, self.errors))

    @cached_property
    def worst(self) -> tuple[Judged, ...]:
        """The rows with the largest errors, the largest first."""
        return tuple(sorted(self.covered, key=lambda row: (-row.error, row.row.id))[:WORST_ROWS])

    @cached_property
    def outside(self) -> tuple[Judged, ...]:
        """Rows that are off by more than the worst that is promised, else by more than 25 %; the largest first."""
        bound = self.family.bound
        most = QUARTER if bound is None or bound.worst is None else bound.worst
        return tuple(
            sorted((row for row in self.covered if row.error > most), key=lambda row: (-row.error, row.row.id))
        )


def _broken(bound: Bound, errors: Errors) -> Iterator[str]:
    for name in ("median", "mean", "worst"):
        limit, value = getattr(bound, name), getattr(errors, name)
        if limit is not None and value > limit:
            yield f"{name} {value:.2%} is above {limit:.1%}"
    for name, words in (("within_quarter", "share within 25 %"), ("accuracy", "mean accuracy")):
        limit, value = getattr(bound, name), getattr(errors, name)
        if limit is not None and value < limit:
            yield f"{words} {value:.4f} is below {limit}"


@dataclass(frozen=True)
class Fidelity:
    """All measurements, judged: by family, and those that are no measurements to be judged by."""

    verdicts: tuple[Verdict, ...]
    apart: tuple[Judged, ...]
    """Rows whose status says that they are implausible, replaced, or a model's own output."""

    @property
    def broken(self) -> tuple[Verdict, ...]:
        """Families that do not hold their bounds."""
        return tuple(v for v in self.verdicts if v.broken)

    @cached_property
    def judged(self) -> tuple[Judged, ...]:
        """Every usable row once."""
        return tuple({row.row.id: row for verdict in self.verdicts for row in verdict.rows}.values())

    @property
    def coverage(self) -> float:
        """Share of usable rows that the model predicts."""
        return sum(row.predicted is not None for row in self.judged) / max(1, len(self.judged))


def judge(
    rows: Iterable[Measured],
    families: Sequence[Family],
    predict: Callable[[Measured], float],
    told: Callable[[int, int], None],
) -> Fidelity:
    """Predict every row and sort them into families.

    Args:
        rows: measurements, usable or not.
        families: what to judge; those without a row are left out.
        predict: cycles of a row; raises Uncovered.
        told: called with how many rows are done and how many there are.
    """
    wanted = [row for row in rows if any(f.arch == row.arch and f.holds(row) for f in families)]
    judged: dict[str, Judged] = {}
    for done, row in enumerate(wanted, start=1):
        judged[row.id] = _judged(row, predict)
        told(done, len(wanted))
    usable = {id_: j for id_, j in judged.items() if j.row.is_usable}
    verdicts = (Verdict(family, tuple(_of(family, usable))) for family in families)
    return Fidelity(tuple(v for v in verdicts if v.rows), tuple(j for j in judged.values() if not j.row.is_usable))


def _of(family: Family, judged: Mapping[str, Judged]) -> Iterator[Judged]:
    return (j for j in judged.values() if j.row.arch == family.arch and family.holds(j.row))


def _judged(row: Measured, predict: Callable[[Measured], float]) -> Judged:
    try:
        return Judged(row, predict(row))
    except Uncovered as reason:
        return Judged(row, None, str(reason))
    except UNFORESEEN as error:
        return Judged(row, None, unforeseen(error))
