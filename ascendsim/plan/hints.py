"""Which buffers of a plan could lie on the same bytes, because they are never alive at the same time."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from ascendsim.plan.layout import Entry
from ascendsim.plan.model import PLACES, Place


@dataclass(frozen=True, slots=True)
class Reuse:
    """Two entries whose steps do not meet, and the bytes that one place for both saves."""

    first: Entry
    second: Entry

    @property
    def saved_bytes(self) -> int:
        """Bytes of the smaller one."""
        return min(e.num * e.bytes for e in (self.first, self.second))

    @property
    def sentence(self) -> str:
        """What to do."""
        return (
            f"{_named(self.first)} and {_named(self.second)} are never alive together: "
            f"one buffer for both saves {self.saved_bytes} B of {self.first.place}"
        )


@dataclass(frozen=True, slots=True)
class Alive:
    """The most bytes of a place that are alive in one step: less than that no arrangement can use."""

    place: Place
    bytes: int
    step: int
    used_bytes: int

    @property
    def sentence(self) -> str:
        """How far reuse could go."""
        return (
            f"at most {self.bytes} B of {self.place} are alive at once (step {self.step}), "
            f"{self.used_bytes - self.bytes} B less than the plan takes"
        )


def reuse(entries: Iterable[Entry]) -> list[Reuse]:
    """Return pairs in one place whose steps do not meet, those that save most first."""
    known = [e for e in entries if e.steps is not None]
    pairs = [Reuse(a, b) for a, b in combinations(known, 2) if a.place == b.place and not _meet(a, b)]
    return sorted(pairs, key=lambda pair: -pair.saved_bytes)


def most_alive(entries: Iterable[Entry]) -> list[Alive]:
    """Return, for each place with reuse to be had, how much is alive at most; what has no steps always is."""
    all_entries = list(entries)
    found = []
    for place in PLACES:
        here = [e for e in all_entries if e.place == place]
        steps = sorted({_steps(e)[0] for e in here if e.steps is not None})
        alive = [(sum(e.num * e.bytes for e in here if _is_alive(e, step)), -step) for step in steps]
        if alive:
            most, step = max(alive)
            used = sum(e.num * e.bytes for e in here)
            if most < used:
                found.append(Alive(place, most, -step, used))
    return found


def _named(entry: Entry) -> str:
    first, last = _steps(entry)
    return f"{entry.name} (step {first})" if first == last else f"{entry.name} (steps {first} to {last})"


def _steps(entry: Entry) -> tuple[int, int]:
    assert entry.steps is not None
    return entry.steps


def _meet(a: Entry, b: Entry) -> bool:
    return _steps(a)[0] <= _steps(b)[1] and _steps(b)[0] <= _steps(a)[1]


def _is_alive(entry: Entry, step: int) -> bool:
    return entry.steps is None or entry.steps[0] <= step <= entry.steps[1]
