"""Errors of the model by family of measurements: the table that tools/write_accuracy.py makes and every run reads.

A family says which numbers of a device file its measurements stand for, as patterns of their paths: "vector.*",
"transfer.gm_to_ub_*". So a run that knows which numbers it used knows which errors were measured on them.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from ascendsim.errors import InputError

ERRORS = Path(__file__).parent / "known_errors.toml"
_HEADER = """\
# Errors of predicted cycles, relative to what was measured and published. Made by tools/write_accuracy.py.
# covers: numbers of the device file that the measurements stand for   count: measurements
# median, p90: median and 90th percentile of the errors' sizes         bias: median of the signed errors, above 0: slow
"""
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Family:
    """Measurements of one kind.

    Attributes:
        name: what reports call it.
        arch: NPU architecture that was measured.
        covers: patterns of the numbers of a device file that they stand for; none where they stand for no run.
    """

    name: str
    arch: int
    covers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FamilyErrors:
    """How far the model was off on a family.

    Attributes:
        family: which one.
        count: measurements.
        median, p90: median and 90th percentile of the errors' sizes.
        bias: median of the signed errors; above 0 the model is slow.
    """

    family: Family
    count: int
    median: float
    p90: float
    bias: float

    def covers(self, arch: int, number: str) -> bool:
        """Whether the family was measured on an architecture and stands for a number of its device file."""
        return arch == self.family.arch and any(fnmatchcase(number, pattern) for pattern in self.family.covers)


def summarise(family: Family, errors: Sequence[float]) -> FamilyErrors:
    """Return what relative errors, predicted / measured - 1, come to; percentiles between two errors are interpolated.

    Raises:
        ValueError: there are none.
    """
    if len(errors) == 0:
        raise ValueError(f"family {family.name}: no errors")
    sizes = np.abs(errors)
    median, p90, bias = float(np.median(sizes)), float(np.quantile(sizes, 0.9)), float(np.median(errors))
    return FamilyErrors(family, len(errors), round(median, _DIGITS), round(p90, _DIGITS), round(bias, _DIGITS))


def write_errors(errors_by_family: Mapping[Family, Sequence[float]], path: Path = ERRORS) -> None:
    """Write the table of relative errors, predicted / measured - 1, by family; one without errors is left out."""
    families = [summarise(family, errors) for family, errors in errors_by_family.items() if len(errors)]
    tables = [asdict(f.family) | {k: v for k, v in asdict(f).items() if k != "family"} for f in families]
    path.write_text(_HEADER + "\n" + tomli_w.dumps({"schema": 1, "family": tables}), encoding="utf-8")


@cache
def read_errors(path: Path = ERRORS) -> tuple[FamilyErrors, ...]:
    """Return the table of errors; none where there is no such file.

    Raises:
        InputError: the file is no such table.
    """
    try:
        tables: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["family"]
        return tuple(_family_errors(table) for table in tables)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: no table of errors ({type(error).__name__}: {error})") from None


def _family_errors(table: dict[str, Any]) -> FamilyErrors:
    family = Family(table["name"], table["arch"], tuple(table["covers"]))
    return FamilyErrors(family, table["count"], table["median"], table["p90"], table["bias"])
