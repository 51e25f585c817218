"""What `ascendsim tune` is asked, and the composition of a search from its parts."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ascendsim.errors import InputError
from ascendsim.progress import Progress
from ascendsim.scenario import Scenario
from ascendsim.tuner.answers import Answer, answer, check_objectives
from ascendsim.tuner.evaluation import Row, Setup
from ascendsim.tuner.executors import Executor, Here, Processes, usable_cores
from ascendsim.tuner.search import Session, all_numbers, random_numbers, with_default
from ascendsim.tuner.space import parse_space
from ascendsim.tuner.store import Store, Table, check_setup

SEARCHES = ("exhaustive", "random", "guided")
PROCESSES = "processes"
CLUSTER = "dask://"
CSV, PARQUET = ".csv", ".parquet"
_PART = 5
"""A random or guided search looks at one candidate of so many, unless it is told how many."""


class Guided(Protocol):
    """A search that a model of the objectives guides."""

    def __call__(self, session: Session, setup: Setup, objectives: tuple[str, ...], count: int, seed: int) -> None:
        """Evaluate `count` candidates of a setup."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a search is asked.

    Attributes:
        vary, where: fields with their values, and constraints, as they were written.
        objectives: what is to be small, the first one ranks.
        search: of `SEARCHES`.
        samples: candidates of a random or guided search.
        seed: of such a search.
        file: of the results.
    """

    vary: tuple[str, ...]
    where: tuple[str, ...]
    objectives: tuple[str, ...]
    search: str
    samples: int | None
    seed: int
    file: Path


@dataclass(frozen=True, slots=True)
class Parts:
    """What a search is made of, some of it from optional extras.

    Attributes:
        table: how results lie in their file.
        executor: who evaluates a setup's candidates.
        guided: the search "guided", None where it is not asked for.
    """

    table: Table
    executor: Callable[[Setup], Executor]
    guided: Guided | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """How a search went.

    Attributes:
        file: of the results.
        evaluated: candidates that were evaluated now.
        resumed: rows that were there before.
    """

    file: Path
    evaluated: int
    resumed: int


def local(workers: int | None) -> Callable[[Setup], Executor]:
    """Return an executor of this machine: processes, or with one worker this process itself."""
    count = usable_cores() if workers is None else workers
    return Here if count == 1 else lambda setup: Processes(setup, count)


def check_search(name: str, samples: int | None) -> None:
    """Refuse searches that there are not.

    Raises:
        InputError: an unknown name, or a number of samples for a search of everything.
    """
    if name not in SEARCHES:
        raise InputError(f"--search {name}: unknown; choose from {', '.join(SEARCHES)}")
    if name == "exhaustive" and samples is not None:
        raise InputError("--samples: an exhaustive search looks at all candidates; add --search random or guided")


def tune(scenario: Scenario, asked: Asked, parts: Parts, progress: Progress) -> tuple[Answer, Done]:
    """Search, and return what was found; whatever ends a search, what is done stays in its file.

    Raises:
        InputError: something that is asked cannot be.
    """
    check_search(asked.search, asked.samples)
    objectives = check_objectives(asked.objectives)
    setup = Setup(scenario, parse_space(asked.vary, scenario), asked.where)
    check_setup(setup)
    count = asked.samples or max(1, setup.space.count // _PART)
    numbers = _numbers(setup, asked, count)
    store = Store(asked.file, parts.table, setup)
    with ExitStack() as stack:
        stack.enter_context(store)
        executor = stack.enter_context(parts.executor(setup))
        session = Session(store, executor, progress, 1 + (len(numbers) or count))
        session.rows(with_default(numbers))
        if not numbers:
            assert parts.guided is not None
            parts.guided(session, setup, objectives, count, asked.seed)
    done = Done(asked.file, session.evaluated, store.resumed)
    return answer(setup, _own_rows(store, session), objectives), done


def _numbers(setup: Setup, asked: Asked, count: int) -> list[int]:
    """The candidates that are known before any is evaluated; none of a guided search."""
    if asked.search == "exhaustive":
        return all_numbers(setup)
    if asked.search == "random":
        return random_numbers(setup, count, asked.seed)
    return []


def _own_rows(store: Store, session: Session) -> dict[int, Row]:
    """The rows that this search asked for; its file may have more, of another one."""
    return {number: store.rows[number] for number in session.wanted}
