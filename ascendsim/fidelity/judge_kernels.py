"""Whole kernels against the model: their times, which pipe is the slowest, and how the variants of one kernel rank."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ascendsim.fidelity.errors_of import Errors
from ascendsim.fidelity.judge import UNFORESEEN, unforeseen
from ascendsim.fidelity.kernels.attention import CATEGORY
from ascendsim.fidelity.kernels.predicted import Prediction, pipe_times, slowest_pipe
from ascendsim.fidelity.measured import MeasuredKernel, Uncovered

MEDIAN_BOUND = 0.12
RANK_BOUND = 0.9
_LEAST_VARIANTS = 3
"""Two variants rank right or wrong, which says little; they are compared pair by pair in the table."""

EXAMPLES = ("add_high_performance", "matmul_high_performance", "bank_conflict_nd2nz", "data_copy")
"""Of asc-devkit's best practices: those that state how each variant is tiled, on how many cores, and in which order."""


@dataclass(frozen=True, slots=True)
class JudgedKernel:
    """One measured kernel and what the model says; `prediction` is None if it cannot be rebuilt, for `reason`."""

    row: MeasuredKernel
    prediction: Prediction | None
    reason: str = ""

    @property
    def bias(self) -> float:
        """Relative error of the task duration with its sign: above 0 the model is too slow."""
        assert self.prediction is not None
        return (self.prediction.us - self.row.us) / self.row.us

    @property
    def error(self) -> float:
        """Relative error of the task duration."""
        return abs(self.bias)

    @property
    def measured_bottleneck(self) -> str:
        """The profiler's name of the pipe that was measured as the slowest; "" if fewer than two pipes were."""
        return slowest_pipe(self.row.pipe_us) if len(pipe_times(self.row.pipe_us)) > 1 else ""

    @property
    def names_bottleneck(self) -> bool | None:
        """Whether the model names the pipe that was the slowest; None if that was not measured."""
        if self.prediction is None or not self.measured_bottleneck:
            return None
        return self.prediction.bottleneck == self.measured_bottleneck


@dataclass(frozen=True, slots=True)
class Ranking:
    """Variants of one kernel in the order of their times: Spearman's correlation of measured and predicted ranks."""

    kernel: str
    variants: int
    correlation: float


@dataclass(frozen=True)
class KernelVerdict:
    """All measured kernels, judged."""

    rows: tuple[JudgedKernel, ...]

    @cached_property
    def covered(self) -> tuple[JudgedKernel, ...]:
        """Those that the model predicts."""
        return tuple(row for row in self.rows if row.prediction is not None)

    @cached_property
    def judged(self) -> tuple[JudgedKernel, ...]:
        """Those of the vendor's examples, whose tiling, cores and schedule are stated: what the bounds hold for."""
        return tuple(row for row in self.covered if any(f"/{name}/" in row.row.source for name in EXAMPLES))

    @cached_property
    def rebuilt(self) -> tuple[JudgedKernel, ...]:
        """Those whose own kernel is simulated; attention backward is compared with another implementation."""
        return tuple(row for row in self.covered if row.row.category != CATEGORY)

    @cached_property
    def errors(self) -> Errors | None:
        """Errors of the task durations of those that are rebuilt, None without any."""
        return Errors(tuple(row.error for row in self.rebuilt)) if self.rebuilt else None

    @cached_property
    def rankings(self) -> tuple[Ranking, ...]:
        """Of every judged kernel with at least three variants."""
        groups: dict[str, list[JudgedKernel]] = {}
        for judged in self.judged:
            groups.setdefault(f"{judged.row.op}, arch {judged.row.arch}: {judged.row.shape}", []).append(judged)
        return tuple(
            Ranking(kernel, len(rows), _of(rows)) for kernel, rows in groups.items() if len(rows) >= _LEAST_VARIANTS
        )

    @cached_property
    def broken(self) -> tuple[str, ...]:
        """Bounds that are not held, in words."""
        said = []
        if self.judged and (median := Errors(tuple(row.error for row in self.judged)).median) > MEDIAN_BOUND:
            said.append(f"median {median:.1%} is above {MEDIAN_BOUND:.0%}")
        wrong = [row.row.id for row in self.judged if row.names_bottleneck is False]
        if wrong:
            said.append(f"another pipe is the slowest in {', '.join(wrong)}")
        said += [
            f"the variants of {r.kernel} rank otherwise (correlation {r.correlation:.2f}, below {RANK_BOUND})"
            for r in self.rankings
            if r.correlation < RANK_BOUND
        ]
        return tuple(said)


def _of(rows: Sequence[JudgedKernel]) -> float:
    return spearman([r.row.us for r in rows], [r.prediction.us for r in rows if r.prediction is not None])


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation; equal values share their ranks' mean. 1 if either never varies."""
    a, b = _ranks(first), _ranks(second)
    middle = (len(a) + 1) / 2
    up = sum((x - middle) * (y - middle) for x, y in zip(a, b, strict=True))
    spread = sum((x - middle) ** 2 for x in a) * sum((y - middle) ** 2 for y in b)
    return up / spread**0.5 if spread else 1.0


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(other < v for other in values) + (sum(other == v for other in values) + 1) / 2 for v in values]


def judge_kernels(
    rows: Iterable[MeasuredKernel],
    predict: Callable[[MeasuredKernel], Prediction],
    told: Callable[[int, int], None],
) -> KernelVerdict:
    """Predict every kernel.

    Args:
        rows: measured kernels.
        predict: raises Uncovered.
        told: called with how many rows are done and how many there are.
    """
    wanted, judged = tuple(rows), []
    for done, row in enumerate(wanted, start=1):
        try:
            judged.append(JudgedKernel(row, predict(row)))
        except Uncovered as reason:
            judged.append(JudgedKernel(row, None, str(reason)))
        except UNFORESEEN as error:
            judged.append(JudgedKernel(row, None, unforeseen(error)))
        told(done, len(wanted))
    return KernelVerdict(tuple(judged))
