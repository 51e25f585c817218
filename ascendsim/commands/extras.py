"""Parts of a search, some of them from optional extras, which are loaded only if they are asked for."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascendsim.errors import InputError

if TYPE_CHECKING:
    from ascendsim.tune.request import Parts
    from ascendsim.tune.store import Table


def parts_of(search: str, executor: str, workers: int | None, target: Path) -> "Parts":
    """Return the parts of a search.

    Raises:
        InputError: there is no such executor, or an extra is not installed.
    """
    from ascendsim.tune.request import CLUSTER, Parts, local

    if executor == "processes":
        evaluate = local(workers)
    elif executor.startswith(CLUSTER) and workers is None:
        evaluate = _extra("ascendsim.tune.cluster", "--executor", "cluster").cluster(executor)
    elif executor.startswith(CLUSTER):
        raise InputError("--workers: a cluster has its own; leave it out, or leave --executor out")
    else:
        raise InputError(f"--executor {executor}: want processes, or {CLUSTER}ADDRESS such as dask://127.0.0.1:8786")
    guided = _extra("ascendsim.tune.guided", "--search guided", "guided").guided if search == "guided" else None
    return Parts(table_of(target, "--out"), evaluate, guided)


def table_of(target: Path, option: str) -> "Table":
    """Return how results lie in a file of this name.

    Raises:
        InputError: no such ending, or an extra is not installed.
    """
    from ascendsim.tune.request import CSV, PARQUET
    from ascendsim.tune.store import CsvTable

    if target.suffix == CSV:
        return CsvTable()
    if target.suffix == PARQUET:
        table: Table = _extra("ascendsim.tune.parquet", f"{option} {target}", "parquet").ParquetTable()
        return table
    raise InputError(f"{option} {target}: want a name that ends in {CSV} or {PARQUET}")


def _extra(module: str, option: str, extra: str) -> Any:
    """Import a module that needs an optional extra.

    Raises:
        InputError: the extra is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{option}: needs {error.name}, which is not installed; install the extra: pip install 'ascendsim[{extra}]'"
        ) from None
