"""Cross-validation of fitted coefficients, by family: fitted to one half of the measurements, judged by the other."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ascendsim.errors import DeviceError
from ascendsim.fidelity.errors_of import Errors
from ascendsim.fidelity.families import FAMILIES, course_of
from ascendsim.fidelity.fit import Crossed, Point, by_path, crossed
from ascendsim.fidelity.measured import Measured, Uncovered
from ascendsim.fidelity.quick import Path, paths_of
from ascendsim.fidelity.target import device_of

SEED = 20260601
"""Of the halves."""
FITTED = (
    *("vector_steady", "mmad", "l1_to_l0a", "l1_to_l0b", "ub_to_ub", "gm_to_ub", "ub_to_gm", "l0c_to_gm", "gm_to_l1"),
    *("gm_to_l1_nd2nz", "gm_to_l0", "tile_3510", "mmad_3510", "gm_3510", "chip_3510"),
)
"""Families whose measurements the coefficients are fitted to."""
KEPT: dict[tuple[int, Path], str] = {
    (2201, ("transfer", "gm_to_l1_nd2nz_miss")): (
        "pieces of rows decide here, and their cycles come from queued transfers of the data_copy example; lines by "
        "bytes alone would begin at 875 cycles instead"
    ),
    (3510, ("local", "l0c_to_l1")): (
        "the rows repeat those of L1 to L0B figure for figure and so say nothing of this path; its rate is documented"
    ),
}
"""Coefficients by architecture and path that are not fitted though there are measurements, and why."""


@dataclass(frozen=True)
class CrossedFamily:
    """A family's errors on the halves that its coefficients were fitted to, and on the others.

    Attributes:
        name, title: of the family.
        paths: how many tables of coefficients were fitted.
    """

    name: str
    title: str
    paths: int
    fitted: Errors
    kept_back: Errors

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "family": self.name,
            "coefficients": self.paths,
            "rows": len(self.kept_back.values),
            "mean_error_fitted": self.fitted.mean,
            "mean_error_kept_back": self.kept_back.mean,
        }


def points_of(rows: Iterable[Measured]) -> dict[str, dict[Path, list[Point]]]:
    """Return the measurements that coefficients are fitted to, by family and by the coefficients they rest on.

    Those that rest on several tables of coefficients, or on one that is KEPT, are left out.
    """
    wanted = [family for family in FAMILIES if family.name in FITTED]
    found: dict[str, list[tuple[Path, Point]]] = defaultdict(list)
    for row in rows:
        family = next((f for f in wanted if row.is_usable and f.arch == row.arch and f.holds(row)), None)
        if family is not None:
            found[family.name] += _point(row)
    return {name: by_path(points) for name, points in found.items()}


def _point(row: Measured) -> Iterator[tuple[Path, Point]]:
    try:
        course = course_of(row, device_of(row))
        paths = paths_of(course)
    except (Uncovered, DeviceError):
        return
    if len(paths) == 1 and (row.arch, paths[0]) not in KEPT:
        yield paths[0], Point(row.id, row.extent, course, row.cycles)


def cross_validate(rows: Iterable[Measured], told: Callable[[int, int], None]) -> tuple[CrossedFamily, ...]:
    """Cross-validate every table of coefficients that is fitted.

    Args:
        rows: measurements.
        told: called with how many tables are done and how many there are.
    """
    points, found = points_of(rows), []
    total, done = sum(len(paths) for paths in points.values()), 0
    titles = {family.name: family.title for family in FAMILIES}
    for name, paths in points.items():
        halves: list[Crossed] = []
        for path, own in paths.items():
            both = crossed(own[0].course.device, path, own, SEED)
            halves += [] if both is None else [both]
            done += 1
            told(done, total)
        if halves:
            fitted, kept_back = (tuple(e for h in halves for e in getattr(h, part)) for part in ("fitted", "kept_back"))
            found.append(CrossedFamily(name, titles[name], len(halves), Errors(fitted), Errors(kept_back)))
    return tuple(found)
