"""What users call: a search for a tiling, from Python."""

import gc
import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from ascendsim.errors import InputError
from ascendsim.machine import loaded_scenario
from ascendsim.progress import Progress, silent
from ascendsim.scenario import Scenario
from ascendsim.tuner.parts import Workers, parts_of
from ascendsim.tuner.request import Asked, search_for
from ascendsim.tuner.result import TuneResult
from ascendsim.tuner.space import Value, value_text

Values = str | Iterable[Value]
"""What a field is set to: values, or what stands behind `=` in the command's --vary, such as "8:128:8"."""


def tune(
    scenario: str | Path | Scenario,
    *,
    vary: Mapping[str, Values],
    where: str | Sequence[str] = (),
    objective: str | Sequence[str] = (),
    search: str = "exhaustive",
    samples: int | None = None,
    seed: int = 0,
    workers: Workers = None,
    out: str | Path | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the public name, as --set
    progress: Progress = silent,
) -> TuneResult:
    """Search for a tiling: time the candidates of a space, rank them, and say what the best one gains and why.

    It is what `ascendsim tune` does; messages name its options.

    Args:
        scenario: file, name of a shipped one, or a loaded Scenario.
        vary: fields and their values, {"tile_m": range(8, 129, 8), "buffer_num": [1, 2], "cv_s1": "64:512:*2"}.
        where: constraints, "tile_m * buffer_num <= 64".
        objective: "cycles", "peak_ub", "peak_l1", "workspace"; several ask for their Pareto front, the first one
            ranks. None named is cycles.
        search: "exhaustive", "random", or "guided" (extra `guided`).
        samples: candidates of a random or guided search; None for a fifth of the space.
        seed: of such a search.
        workers: processes, None for one a core, 1 for this process; or "dask://HOST:PORT", the scheduler of a cluster
            (extra `cluster`).
        out: file of the results, .csv or .parquet (extra `parquet`), where the same search goes on; None keeps them in
            memory only.
        set: changes to the scenario's keys, {"machine.l2": "warm"}.
        progress: told how many candidates are done.

    Raises:
        InputError: something that is asked cannot be, or the workers went away; rows that are in `out` stay there.
    """
    file = None if out is None else Path(out)
    _check_numbers(samples, seed, workers)
    asked = Asked(_texts(vary), _words(where), _words(objective), search, samples, seed, file)
    parts = parts_of(search, workers, file)
    thresholds = gc.get_threshold()
    try:
        return search_for(loaded_scenario(scenario, set), asked, parts, progress)
    finally:
        gc.set_threshold(*thresholds)  # evaluating in this process has set others


def _words(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _check_numbers(samples: object, seed: object, workers: object) -> None:
    """Refuse what the command's options refuse themselves."""
    least = {"samples": (samples, 1, "or None for a fifth of the space"), "seed": (seed, 0, "")}
    if not isinstance(workers, str):
        least["workers"] = (workers, 1, "None for one a core, or dask://HOST:PORT")
    for name, (value, limit, others) in least.items():
        if value is None and others:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < limit:
            more = f", {others}" if others else ""
            raise InputError(f"{name}={value!r}: must be a whole number of at least {limit}{more}")


def _texts(vary: object) -> tuple[str, ...]:
    """Fields and values as the command takes them."""
    if not isinstance(vary, Mapping):
        raise InputError(f'vary={vary!r}: must be {{field: values}}, such as {{"tile_m": range(8, 129, 8)}}')
    return tuple(f"{name}={_text(name, values)}" for name, values in vary.items())


def _text(name: object, values: object) -> str:
    if isinstance(values, str):
        return values
    if isinstance(values, range) and values and values.step > 0:
        return f"{values[0]}:{values[-1]}:{values.step}"
    if not isinstance(values, Iterable):
        raise InputError(f'vary: {name}: {values!r} is not iterable; give all values, [{values!r}] or "8:128:8"')
    return ",".join(_value(name, value) for value in values)


def _value(name: object, value: object) -> str:
    if isinstance(value, bool):
        return value_text(value)
    if isinstance(value, Integral):  # NumPy's, too
        return value_text(int(value))
    if isinstance(value, str) and re.fullmatch(r"\w+", value):
        return value
    raise InputError(f"vary: {name}: {value!r} is no whole number, no word and no bool")
