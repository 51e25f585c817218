"""FlashAttention backward on every pair of its options: `python tests/kernels/fag_cover.py`, 1 if a case fails.

Each case is run twice with query and key of deviation 1, value and dy of deviation 0.1: gradients must lie within the
bound of their type round float64, and be the same bytes again. Then value and dy of deviation 1 are computed: but for
sums of floats, gradients must be those of the documented roundings, as NumPy repeats them; the bound is not asked here.
"""

import argparse
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from fag_cover_cases import DTYPES, LARGE, TEMPLATES, Spread, cover, scenario_of
from fag_emulation import GRADIENTS, Expected, expected, half_step
from pairwise import Case

from ascendsim import machine
from ascendsim.errors import Severity
from ascendsim.progress import silent, stage
from ascendsim.record import record
from ascendsim.result import RunResult

Array = np.ndarray[Any, Any]
BOUNDS = {"fp32": 1e-5, "fp16": 2.0**-10, "bf16": 2.0**-7}
"""How far a gradient may be off, relative to itself and at least to 1."""
SMALL, UNIT = Spread(value=0.1), Spread()
SUMS = 2.0**-18
"""What the order of sums of floats makes of the largest gradient."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a case went; of all three gradients the worst.

    Attributes:
        share: of the bound that is used.
        relative: largest error in shares of the largest gradient.
        unit_share: of the bound, with values and dy of deviation 1.
        rounding_share: of the bound, with the same, that NumPy uses which repeats the documented roundings.
        apart: how far from those roundings gradients are that are more than a rounding and sums of floats away, in
            shares of what one A or dS moves that falls to its other neighbour.
        is_repeated: a second run gave the same bytes.
        is_met: the operator's own float64 reference says so, too.
        told: codes of findings that are errors.
    """

    share: float
    relative: float
    unit_share: float
    rounding_share: float
    apart: float
    is_repeated: bool
    is_met: bool
    told: tuple[str, ...]

    @property
    def wrong(self) -> str:
        """What is wrong, nothing if all is well."""
        reasons = {
            "beyond the bound": not self.share <= 1,
            "beyond the bound round the operator's reference": not self.is_met,
            "not the documented roundings": not self.apart <= 1,
            "other bytes on the second run": not self.is_repeated,
            " ".join(self.told): bool(self.told),
        }
        return "; ".join(reason for reason, holds in reasons.items() if holds)


def judge(case: Case) -> Verdict:
    """Run a case."""
    scenario, small, unit = scenario_of(case), expected(case, SMALL), expected(case, UNIT)
    result = machine.run(scenario, arrays=small.arrays, despite_findings=True)
    again, with_unit = _recorded_again(scenario, small, unit)
    return Verdict(
        share=_share(case, result.outputs, small.exact),
        relative=max(_farthest(result.outputs[name], small.exact[name]) for name in GRADIENTS),
        unit_share=_share(case, with_unit, unit.exact),
        rounding_share=_share(case, unit.stored, unit.exact),
        apart=max(
            off_roundings(case, name, got[name], wanted)
            for name in GRADIENTS
            for got, wanted in ((result.outputs, small), (with_unit, unit))
        ),
        is_repeated=all(result.outputs[name].tobytes() == again[name].tobytes() for name in GRADIENTS),
        is_met=[e.met for e in result.expectations] == [True] * len(GRADIENTS),
        told=_errors(result),
    )


def _recorded_again(scenario: Any, *inputs: Expected) -> list[dict[str, Array]]:
    """Return the gradients of a program that is recorded anew, for each of some inputs, without checks and cycles."""
    ready = [machine._prepare(scenario, with_data=True, arrays=one.arrays) for one in inputs]
    first = ready[0]
    program = record(
        first.kernel,
        first.device,
        first.block_dim,
        first.gm,
        (first.argument,),
        stage(silent, "record"),
        first.kernel_type,
    ).program
    return [machine._compute(one, program, silent).outputs for one in ready]


def _share(case: Case, got: dict[str, Array], wanted: dict[str, Array]) -> float:
    worst = 0.0
    for name in GRADIENTS:
        off = np.abs(got[name].astype(np.float64) - wanted[name]) / np.maximum(1, np.abs(wanted[name]))
        worst = max(worst, float(off.max()) / BOUNDS[case["dtype"]])
    return worst


def _farthest(got: Array, wanted: Array) -> float:
    return float(np.abs(got.astype(np.float64) - wanted).max() / np.abs(wanted).max())


def off_roundings(case: Case, name: str, got: Array, wanted: Expected) -> float:
    """Return `Verdict.apart` of a gradient."""
    rounded = wanted.rounded[name]
    allowed = half_step(rounded, case["dtype"]) + SUMS * np.abs(rounded).max()
    left = float((np.abs(got.astype(np.float64) - rounded) - allowed).max())
    return max(left, 0.0) / wanted.flip[name]


def _errors(result: RunResult) -> tuple[str, ...]:
    return tuple(sorted({f.code for f in result.findings if f.severity is Severity.ERROR}))


# ---- the program -----------------------------------------------------------------------------------------------------


def told(case: Case, verdict: Verdict) -> str:
    """Return the line of a case."""
    shares = (verdict.share, verdict.unit_share, verdict.rounding_share, verdict.apart)
    repeated = "same" if verdict.is_repeated else "other"
    cells = (*case.values(), *(f"{share:.3f}" for share in shares), f"{verdict.relative:.1e}", repeated, verdict.wrong)
    return f"| {' | '.join(cells)} |"


def summary(verdicts: Iterable[tuple[Case, Verdict]]) -> Iterable[str]:
    """Yield the table of docs/fag.md: the worst of each template and type."""
    of: dict[tuple[str, str], list[Verdict]] = {}
    for case, verdict in verdicts:
        of.setdefault((case["template"], case["dtype"]), []).append(verdict)
    yield "| template | type | cases | of the bound | with value, dy ~ N(0, 1) | NumPy with that | apart |"
    yield "|---|---|---|---|---|---|---|"
    for template in TEMPLATES:
        for dtype in DTYPES:
            found = of.get((template, dtype), [])
            if found:
                worst = (
                    max(getattr(v, key) for v in found) for key in ("share", "unit_share", "rounding_share", "apart")
                )
                yield f"| {template} | {dtype} | {len(found)} | {' | '.join(f'{share:.3f}' for share in worst)} |"


def main() -> int:
    """Run all cases, or some of them, and print a line for each, then what docs/fag.md shows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=int, nargs="*", help="Numbers of cases.")
    asked = parser.parse_args()
    found = cover()
    cases = [*found.cases, *LARGE]
    verdicts = []
    for number, case in enumerate(cases):
        if asked.only is None or number in asked.only:
            begun = time.process_time()
            verdict = judge(case)
            verdicts.append((case, verdict))
            print(f"{number:3} {told(case, verdict)} {time.process_time() - begun:.1f} s", flush=True)
    print(f"{len(found.excluded)} pairs are in no case:")
    for ((one, choice), (other, its)), reason in found.excluded.items():
        print(f"  {one} {choice}, {other} {its}: {reason}")
    print(*summary(verdicts), sep="\n")
    return int(any(verdict.wrong for _, verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
