"""The search that a model of the objectives guides: optuna's TPE sampler (extra `guided`).

Of each round some candidates are neighbours of the best one so far, which differ from it in one field by one value:
fields of a tiling seldom work against each other, and the model learns from neighbours as from any others.

Candidates are asked for in rounds of a fixed size and told in the order in which they were asked for, so that what is
looked at depends on the seed and nothing else: not on who evaluates, in which order, or what was known before.
"""

from collections.abc import Sequence

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import Trial

from ascendsim.tuner.evaluation import TIMED, Row, Setup
from ascendsim.tuner.result import OBJECTIVES
from ascendsim.tuner.search import Session, random_numbers
from ascendsim.tuner.space import Field

ROUND = 8
"""Candidates of a round."""
_PENALTY = 1e15
"""What a candidate that cannot be timed is told to take: more than any that can."""
_REPEATS = 20
"""Times the sampler may name what is known or left out before a candidate is drawn instead."""
_STARTS = 2 * ROUND
"""Candidates that are drawn before the model is asked."""
_NEIGHBOURS = 3
"""Of a round, at most."""


def guided(session: Session, setup: Setup, objectives: tuple[str, ...], count: int, seed: int) -> None:
    """Evaluate candidates that a model of the objectives names.

    Args:
        session: evaluates.
        setup: of the search.
        objectives: names of `OBJECTIVES`.
        count: how many candidates, or all that there are.
        seed: of everything that is drawn.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    _Guided(session, setup, objectives, count, seed).run()


class _Guided:
    def __init__(self, session: Session, setup: Setup, objectives: tuple[str, ...], count: int, seed: int) -> None:
        self._session, self._setup = session, setup
        self._columns = [setup.columns.index(OBJECTIVES[name]) for name in objectives]
        self._status = setup.columns.index("status")
        spare = random_numbers(setup, min(setup.space.count, 4 * count), seed)
        self._spare = iter(spare)
        """Drawn candidates, for where the sampler names none that is new."""
        self._count = min(count, len(spare))
        self._distributions = {field.name: _distribution(field) for field in setup.space.fields}
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTS)
        self._study = optuna.create_study(directions=["minimize"] * len(objectives), sampler=sampler)
        self._seen: dict[int, list[float]] = {}
        """What was told of candidates."""
        self._done = 0

    def run(self) -> None:
        """Search."""
        while self._done < self._count:
            asked = {number: self._named(number) for number in self._neighbours(self._count - self._done)}
            while len(asked) < min(ROUND, self._count - self._done):
                number, trial = self._next(asked)
                if number is None:
                    break
                asked[number] = trial
            if not asked:
                return
            numbers = list(asked)
            for number, row in zip(numbers, self._session.rows(numbers), strict=True):
                self._seen[number] = self._values(row)
                self._study.tell(asked[number], self._seen[number])
            self._done += len(numbers)

    def _next(self, asked: dict[int, Trial]) -> "tuple[int | None, Trial]":
        """A candidate that is new, with its trial; what the sampler names in vain is told at once."""
        trial = self._study.ask(self._distributions)
        for _ in range(_REPEATS):
            number = self._number(trial)
            if number not in self._seen and number not in asked and self._setup.broken(self._point(number)) is None:
                return number, trial
            self._study.tell(trial, self._seen.get(number) or [_PENALTY] * len(self._columns))
            trial = self._study.ask(self._distributions)
        self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        for number in self._spare:
            if number not in self._seen and number not in asked:
                return number, self._named(number)
        return None, trial

    def _named(self, number: int) -> Trial:
        """A trial of a candidate that the sampler does not name itself."""
        self._study.enqueue_trial(self._parameters(number))
        return self._study.ask(self._distributions)

    def _neighbours(self, most: int) -> list[int]:
        """New neighbours of the best candidate so far; none before there is one, nor while candidates are drawn."""
        known = [number for number, values in self._seen.items() if values[0] < _PENALTY]
        if self._done < _STARTS or not known:
            return []
        point = self._point(min(known, key=lambda number: (self._seen[number], number)))
        found: list[int] = []
        for field in self._setup.space.fields:
            at = field.values.index(point[field.name])
            for place in (at - 1, at + 1):
                if not 0 <= place < len(field.values):
                    continue
                number = self._setup.space.number(point | {field.name: field.values[place]})
                if number not in self._seen and self._setup.broken(self._point(number)) is None:
                    found.append(number)
        return found[: min(_NEIGHBOURS, most)]

    def _point(self, number: int) -> dict[str, int | bool | str]:
        return self._setup.space.point(number)

    def _number(self, trial: Trial) -> int:
        fields = self._setup.space.fields
        return self._setup.space.number({f.name: f.values[trial.params[f.name]] for f in fields})

    def _parameters(self, number: int) -> dict[str, int]:
        point = self._point(number)
        return {f.name: f.values.index(point[f.name]) for f in self._setup.space.fields}

    def _values(self, row: Row) -> list[float]:
        if row[self._status] != TIMED:
            return [_PENALTY] * len(self._columns)
        cells = [row[column] for column in self._columns]
        return [float(cell) if isinstance(cell, int) else 0.0 for cell in cells]


def _distribution(field: Field) -> BaseDistribution:
    """Places among a field's values: numbers in their order, words without one."""
    places: Sequence[int] = range(len(field.values))
    if all(isinstance(value, int) for value in field.values) and list(field.values) == sorted(field.values):
        return IntDistribution(0, len(field.values) - 1)
    return CategoricalDistribution(tuple(places))
