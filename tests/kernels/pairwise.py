"""Few cases that together hold every pair of choices which any legal case holds.

Each case starts from a legal one with a pair that none has yet; then, factor by factor, the choice is taken that adds
most new pairs, of equals the one taken least before, and leaves the case legal. No chance is in it: the same factors
give the same cases.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product

Case = dict[str, str]
"""Choice by factor."""
Choice = tuple[str, str]
"""A factor and one of its choices."""
Pair = tuple[Choice, Choice]

SWEEPS = 2
"""How often each factor of a new case is looked at."""


@dataclass(frozen=True, slots=True)
class Covering:
    """What `covering` has found.

    Attributes:
        cases: all legal.
        excluded: pairs that no legal case holds, with the reason against the plainest case.
    """

    cases: list[Case]
    excluded: dict[Pair, str]


def pairs_of(case: Mapping[str, str]) -> Iterator[Pair]:
    """Yield the pairs of choices of a case, in the order of its factors."""
    return combinations(case.items(), 2)


def all_pairs(factors: Mapping[str, tuple[str, ...]]) -> Iterator[Pair]:
    """Yield every pair of choices of two factors."""
    for one, other in combinations(factors, 2):
        for choice, its in product(factors[one], factors[other]):
            yield (one, choice), (other, its)


def covering(
    factors: Mapping[str, tuple[str, ...]], deciding: tuple[str, ...], reason: Callable[[Case], str | None]
) -> Covering:
    """Return cases that hold every pair which a legal case holds.

    Args:
        factors: choices by factor, of which the first are the plainest.
        deciding: factors of which all choices are tried to make a case legal that holds a pair; the others are taken
            as plain as they come.
        reason: why a case is not legal, None where it is.
    """
    known: dict[tuple[str, ...], str | None] = {}

    def why(case: Case) -> str | None:
        at = tuple(case.values())
        if at not in known:
            known[at] = reason(case)
        return known[at]

    found, used = Covering([], {}), Counter[Choice]()
    missing = dict.fromkeys(all_pairs(factors))
    while missing:
        pair = next(iter(missing))
        tried = _holding(pair, factors, deciding)
        case = next((one for one in tried if why(one) is None), None)
        if case is None:
            found.excluded[pair] = why(next(_holding(pair, factors, deciding))) or ""
            del missing[pair]
            continue
        for factor in [*factors] * SWEEPS:
            if factor not in dict(pair):
                case = _with_best(case, factor, factors, lambda one: _worth(one, missing, used), why)
        found.cases.append(case)
        used.update(case.items())
        for held in pairs_of(case):
            missing.pop(held, None)
    return found


def _worth(case: Case, missing: Mapping[Pair, None], used: Counter[Choice]) -> tuple[int, int]:
    """Return how many new pairs a case adds, and how seldom its choices were taken."""
    return sum(pair in missing for pair in pairs_of(case)), -sum(used[choice] for choice in case.items())


def _holding(pair: Pair, factors: Mapping[str, tuple[str, ...]], deciding: tuple[str, ...]) -> Iterator[Case]:
    """Yield cases that hold a pair, with all choices of the deciding factors, else plain ones; the plainest first."""
    fixed = dict(pair)
    free = [factor for factor in deciding if factor not in fixed]
    plain = {factor: of[0] for factor, of in factors.items()}
    for choices in product(*(factors[factor] for factor in free)):
        yield plain | dict(zip(free, choices, strict=True)) | fixed


def _with_best(
    case: Case,
    factor: str,
    factors: Mapping[str, tuple[str, ...]],
    worth: Callable[[Case], tuple[int, int]],
    why: Callable[[Case], str | None],
) -> Case:
    """Return the case with the legal choice of a factor that is worth most; of equals the first."""
    with_each = sorted((case | {factor: choice} for choice in factors[factor]), key=worth, reverse=True)
    return next(one for one in with_each if why(one) is None)
