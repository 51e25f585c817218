"""What `ascendsim tune` is asked, and the composition of a search from its parts."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from ascendsim.errors import InputError
from ascendsim.progress import Progress
from ascendsim.scenario import Scenario
from ascendsim.tuner.answers import answer, check_objectives
from ascendsim.tuner.evaluation import Row, Setup
from ascendsim.tuner.executors import Lost
from ascendsim.tuner.head import check_setup
from ascendsim.tuner.parts import Parts
from ascendsim.tuner.result import TuneResult
from ascendsim.tuner.search import Session, all_numbers, random_numbers, with_default
from ascendsim.tuner.space import parse_space
from ascendsim.tuner.store import Rows, Store

SEARCHES = ("exhaustive", "random", "guided")
_PART = 5
"""A random or guided search looks at one candidate of so many, unless it is told how many."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a search is asked.

    Attributes:
        vary, where: fields with their values, and constraints, as they were written.
        objectives: what is to be small, the first one ranks.
        search: of `SEARCHES`.
        samples: candidates of a random or guided search.
        seed: of such a search.
        file: of the results; None keeps them in memory only.
    """

    vary: tuple[str, ...]
    where: tuple[str, ...]
    objectives: tuple[str, ...]
    search: str
    samples: int | None
    seed: int
    file: Path | None


def check_search(name: str, samples: int | None) -> None:
    """Refuse searches that there are not.

    Raises:
        InputError: an unknown name, or a number of samples for a search of everything.
    """
    if name not in SEARCHES:
        raise InputError(f"--search {name}: unknown; choose from {', '.join(SEARCHES)}")
    if name == "exhaustive" and samples is not None:
        raise InputError("--samples: an exhaustive search looks at all candidates; add --search random or guided")


def search_for(scenario: Scenario, asked: Asked, parts: Parts, progress: Progress) -> TuneResult:
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
    store = Rows() if asked.file is None else Store(asked.file, parts.table, setup)
    with ExitStack() as stack:
        executor = stack.enter_context(parts.executor(setup))  # before anything is written
        stack.enter_context(store)
        session = Session(store, executor, progress, 1 + (len(numbers) or count))
        try:
            session.rows(with_default(numbers))
            if not numbers:
                assert parts.guided is not None
                parts.guided(session, setup, objectives, count, asked.seed)
        except Lost as error:
            raise InputError(f"{error}. {_what_is_kept(asked.file)}") from None
    found = answer(setup, _own_rows(store, session), objectives)
    return replace(found, file=asked.file, evaluated=session.evaluated, resumed=store.resumed)


def _numbers(setup: Setup, asked: Asked, count: int) -> list[int]:
    """The candidates that are known before any is evaluated; none of a guided search."""
    if asked.search == "exhaustive":
        return all_numbers(setup)
    if asked.search == "random":
        return random_numbers(setup, count, asked.seed)
    random_numbers(setup, 1, asked.seed)  # refuses what has no candidate, before anything is written
    return []


def _what_is_kept(file: Path | None) -> str:
    if file is None:
        return "No file was named, so nothing is kept"
    return f"What is done is kept in {file}; the same command goes on there"


def _own_rows(store: Rows, session: Session) -> dict[int, Row]:
    """The rows that this search asked for; its file may have more, of another one."""
    return {number: store.rows[number] for number in session.wanted}
