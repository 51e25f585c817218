"""What a search is made of. Parts that need an optional extra are loaded only if they are asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from ascendsim.errors import InputError
from ascendsim.tuner.evaluation import Setup
from ascendsim.tuner.executors import Executor, Here, Processes, usable_cores
from ascendsim.tuner.search import Session
from ascendsim.tuner.store import CsvTable, Table

CLUSTER = "dask://"
CSV, PARQUET = ".csv", ".parquet"
Workers = int | str | None
"""Processes of this machine, None for one a core; or "dask://HOST:PORT", a cluster's scheduler."""


class Guided(Protocol):
    """A search that a model of the objectives guides."""

    def __call__(self, session: Session, setup: Setup, objectives: tuple[str, ...], count: int, seed: int) -> None:
        """Evaluate `count` candidates of a setup."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a search is made of.

    Attributes:
        table: how results lie in their file.
        executor: who evaluates a setup's candidates.
        guided: the search "guided", None where it is not asked for.
    """

    table: Table
    executor: Callable[[Setup], Executor]
    guided: Guided | None = None


def parts_of(search: str, workers: Workers, file: Path | None) -> Parts:
    """Return the parts of a search.

    Args:
        search: its name.
        workers: who evaluates.
        file: of the results, None where there is none.

    Raises:
        InputError: there are no such workers or files, or an extra that they need is not installed.
    """
    evaluate = _cluster(workers) if isinstance(workers, str) else local(workers)
    guided = _extra("guided", "--search guided").guided if search == "guided" else None
    return Parts(CsvTable() if file is None else table_of(file, "--out"), evaluate, guided)


def local(workers: int | None) -> Callable[[Setup], Executor]:
    """Return an executor of this machine: processes, or with one worker this process itself."""
    most = usable_cores() if workers is None else workers
    return Here if most == 1 else lambda setup: Processes(setup, min(most, setup.space.count + 1))


def _cluster(address: str) -> Callable[[Setup], Executor]:
    if not address.startswith(CLUSTER):
        raise InputError(f"--executor {address}: want processes, or {CLUSTER}HOST:PORT such as dask://127.0.0.1:8786")
    found: Callable[[Setup], Executor] = _extra("cluster", "--executor").cluster(address)
    return found


def table_of(file: Path, option: str) -> Table:
    """Return how results lie in a file of this name; messages name the option that it comes from.

    Raises:
        InputError: in none that is known, or in one that needs an extra which is not installed.
    """
    if file.suffix == CSV:
        return CsvTable()
    if file.suffix == PARQUET:
        table: Table = _extra("parquet", f"{option} {file}").ParquetTable()
        return table
    raise InputError(f"{option} {file}: want a name that ends in {CSV} or {PARQUET}")


def _extra(name: str, option: str) -> Any:
    """Import the module that needs the optional extra of its name.

    Raises:
        InputError: the extra is not installed.
    """
    try:
        return import_module(f"ascendsim.tuner.{name}")
    except ModuleNotFoundError as error:
        raise InputError(
            f"{option}: needs {error.name}, which is not installed; install the extra: pip install 'ascendsim[{name}]'"
        ) from None
