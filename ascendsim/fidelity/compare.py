"""The model against all measurements of a folder."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ascendsim.errors import InputError
from ascendsim.fidelity.crossing import CrossedFamily, cross_validate
from ascendsim.fidelity.families import FAMILIES, Family, predict
from ascendsim.fidelity.judge import Fidelity, Judged, Verdict, judge
from ascendsim.fidelity.judge_kernels import JudgedKernel, KernelVerdict, judge_kernels
from ascendsim.fidelity.kernels import predict as predict_kernel
from ascendsim.fidelity.measured import DATA, INSTRUCTIONS, KERNELS, Measured, files_of, read_instructions, read_kernels
from ascendsim.fidelity.target import device_of
from ascendsim.progress import Progress, silent, stage

KERNELS_NAME = "kernels"
"""What whole kernels are called where families are named."""


@dataclass(frozen=True)
class Comparison:
    """What `ascendsim fidelity` answers.

    Attributes:
        instructions: instructions, moves, products and tile operations.
        kernels: whole kernels; None if they were not asked for.
        crossings: errors of coefficients that were fitted without the rows they are judged by.
    """

    instructions: Fidelity
    kernels: KernelVerdict | None
    crossings: tuple[CrossedFamily, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """Bounds that are not held, in words."""
        said = [f"{v.family.title}: {text}" for v in self.instructions.broken for text in v.broken]
        if self.kernels is not None:
            said += [f"whole kernels: {text}" for text in self.kernels.broken]
        return tuple(said)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "rows_judged": len(self.instructions.judged),
            "rows_covered": sum(j.predicted is not None for j in self.instructions.judged),
            "coverage": self.instructions.coverage,
            "families": [_family(v) for v in self.instructions.verdicts],
            "rows": [_row(j) for j in (*self.instructions.judged, *self.instructions.apart)],
            "kernels": None if self.kernels is None else _kernels(self.kernels),
            "cross_validation": [c.to_dict() for c in self.crossings],
            "broken": list(self.broken),
        }


def _family(verdict: Verdict) -> dict[str, Any]:
    family = verdict.family
    found: dict[str, Any] = {
        "name": family.name,
        "title": family.title,
        "arch": family.arch,
        "rows": len(verdict.rows),
        "covered": len(verdict.covered),
    }
    if verdict.errors is not None:
        found |= verdict.errors.to_dict()
    bound = {} if family.bound is None else {k: v for k, v in asdict(family.bound).items() if v is not None}
    outside = [{"id": j.row.id, "error": j.bias, "why": j.why_off} for j in verdict.outside]
    return found | {"bound": bound, "outside": outside, "broken": list(verdict.broken)}


def _row(judged: Judged) -> dict[str, Any]:
    row = judged.row
    found = {"id": row.id, "op": row.op, "status": row.status, "measured_cycles": row.cycles}
    return found | ({"why_not": judged.reason} if judged.predicted is None else {"predicted_cycles": judged.predicted})


def _kernels(verdict: KernelVerdict) -> dict[str, Any]:
    return {
        "rows": [_kernel(j) for j in verdict.rows],
        "errors": None if verdict.errors is None else verdict.errors.to_dict(),
        "rankings": [{"kernel": r.kernel, "variants": r.variants, "spearman": r.correlation} for r in verdict.rankings],
        "broken": list(verdict.broken),
    }


def _kernel(judged: JudgedKernel) -> dict[str, Any]:
    found: dict[str, Any] = {"id": judged.row.id, "op": judged.row.op, "measured_us": judged.row.us}
    if judged.prediction is None:
        return found | {"why_not": judged.reason}
    return found | {"predicted_us": judged.prediction.us, "names_bottleneck": judged.names_bottleneck}


def compare(folder: Path | None = None, names: tuple[str, ...] = (), progress: Progress = silent) -> Comparison:
    """Predict every measurement of a folder and judge the model by them.

    Args:
        folder: with instruction_cycles.csv, kernels.csv or both; None for the measurements that the package ships.
        names: only these families, "kernels" among them; empty for all.
        progress: told of each stage how much is done.

    Raises:
        InputError: a file cannot be read, or there is no family of a name.
    """
    place = DATA if folder is None else folder
    families, there = _chosen(names), files_of(place)
    rows = read_instructions(place) if families and (names or INSTRUCTIONS in there) else ()
    kernel_rows = None
    if KERNELS_NAME in names or (not names and KERNELS in there):
        kernel_rows = read_kernels(place)
    if not names:
        families += tuple(_others(rows))
    found = judge(rows, families, lambda row: predict(row, device_of(row)), stage(progress, "measurements"))
    kernels = None
    if kernel_rows is not None:
        kernels = judge_kernels(kernel_rows, predict_kernel, stage(progress, "kernels"))
    wanted = [j.row for j in found.judged if j.predicted is not None]
    return Comparison(found, kernels, cross_validate(wanted, stage(progress, "cross-validation")))


def _chosen(names: Iterable[str]) -> tuple[Family, ...]:
    wanted = tuple(names)
    known = {family.name: family for family in FAMILIES}
    for name in wanted:
        if name not in known and name != KERNELS_NAME:
            raise InputError(f"--family {name}: no such family; there are: {', '.join([*known, KERNELS_NAME])}")
    return tuple(f for f in FAMILIES if not wanted or f.name in wanted)


def _others(rows: Iterable[Measured]) -> Iterator[Family]:
    """What belongs to no family, by architecture: it counts as not covered, or is reported without a bound."""
    archs = {row.arch for row in rows if not any(f.arch == row.arch and f.holds(row) for f in FAMILIES)}
    for arch in sorted(archs):
        yield Family("other", "others, of no family", arch, lambda row: not any(f.holds(row) for f in _of(row.arch)))


def _of(arch: int) -> tuple[Family, ...]:
    return tuple(f for f in FAMILIES if f.arch == arch)
