"""Which candidates are evaluated: all, or a random part. The model-guided search is in `guided`."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ascendsim.errors import InputError
from ascendsim.progress import Progress
from ascendsim.tuner.evaluation import Row, Setup
from ascendsim.tuner.executors import Executor
from ascendsim.tuner.space import DEFAULT
from ascendsim.tuner.store import Rows

MOST_POINTS = 1_000_000
"""Of a space that is looked through whole."""
_TRIES = 1000
"""Draws for each candidate that is wanted, before constraints count as hardly ever met."""


@dataclass(slots=True)
class Session:
    """A search that goes on: candidates that are wanted are evaluated unless the store has them.

    Attributes:
        store: where rows go.
        executor: who evaluates.
        progress: told how many candidates are done, how fast.
        total: how many there will be.
    """

    store: Rows
    executor: Executor
    progress: Progress
    total: int
    clock: Callable[[], float] = time.monotonic
    _begun: float | None = None
    _done: int = 0
    _wanted: set[int] = field(default_factory=set)

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """Return the rows of candidates, evaluated or known, in the order of `numbers`."""
        missing = [number for number in dict.fromkeys(numbers) if number not in self.store.rows]
        self._wanted |= set(numbers)
        if self._begun is None:
            self._begun = self.clock()
        self._tell()
        for row in self.executor.rows(missing):
            self.store.add(row)
            self._done += 1
            self._tell()
        return [self.store.rows[number] for number in numbers]

    @property
    def wanted(self) -> frozenset[int]:
        """The candidates that were asked for."""
        return frozenset(self._wanted)

    @property
    def evaluated(self) -> int:
        """How many candidates were evaluated, not taken from what was there."""
        return self._done

    def _tell(self) -> None:
        assert self._begun is not None
        seconds = self.clock() - self._begun
        rate = f", {self._done / seconds:.3g} a second" if seconds > 0 and self._done else ""
        ready = len(self._wanted & self.store.rows.keys())
        self.progress(f"candidates{rate}", ready, max(self.total, ready))


def all_numbers(setup: Setup) -> list[int]:
    """Return the candidates of a whole space that its constraints over given numbers leave.

    Raises:
        InputError: there are too many, or none.
    """
    space = setup.space
    if space.count > MOST_POINTS:
        raise InputError(
            f"--vary: {space.count} candidates; all are evaluated up to {MOST_POINTS}. Take larger steps, or look at a "
            "part: --search random --samples 1000"
        )
    found = [number for number in range(1, space.count + 1) if setup.broken(space.point(number)) is None]
    if not found:
        raise InputError(f"--where: no candidate of {space.count} meets {_constraints(setup)}; loosen it")
    return found


def random_numbers(setup: Setup, count: int, seed: int) -> list[int]:
    """Return some candidates, drawn without a preference; with more of them the first ones stay.

    Args:
        setup: of the search.
        count: how many, or all that there are.
        seed: of the draw.

    Raises:
        InputError: hardly any candidate meets the constraints.
    """
    space = setup.space
    if space.count <= MOST_POINTS:
        shuffled = all_numbers(setup)
        random.Random(seed).shuffle(shuffled)
        return shuffled[:count]
    draw, found = random.Random(seed), dict[int, None]()
    for _ in range(_TRIES * count):
        number = draw.randint(1, space.count)
        if setup.broken(space.point(number)) is None:
            found[number] = None
        if len(found) == count:
            return list(found)
    raise InputError(
        f"--where: of {_TRIES * count} candidates that were drawn {len(found)} meet {_constraints(setup)}; loosen it, "
        "or narrow the space to where it holds"
    )


def _constraints(setup: Setup) -> str:
    return " and ".join(f'"{constraint.text}"' for constraint in setup.early) or "the constraints"


def with_default(numbers: Sequence[int]) -> list[int]:
    """Return the scenario as it stands, then candidates."""
    return [DEFAULT, *numbers]
