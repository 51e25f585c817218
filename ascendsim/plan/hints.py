"""What a plan could do with less: buffers that are never alive together, and temps of which a part does nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from ascendsim.plan.layout import Cut, Entry, TempUse, cut_of
from ascendsim.plan.model import PLACES, Place
from ascendsim.terms import DATABLOCK_BYTES, align_up


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


@dataclass(frozen=True, slots=True)
class LessTemp:
    """A smaller temp with which a call has as few tiles, or fewer: more temp can give smaller tiles."""

    cut: Cut
    better: Cut

    @property
    def sentence(self) -> str:
        """What to do."""
        name, size, loops = self.cut.call.name, self.better.temp_bytes, self.better.loops
        if loops == self.cut.loops:
            return f"{name}: {size} B of temp are enough for the same {loops} loops as {self.cut.temp_bytes} B"
        return f"{name}: {size} B of temp give {loops} loops, {self.cut.temp_bytes} B give {self.cut.loops}"


def less_temp(temps: Iterable[TempUse], cuts: Iterable[Cut]) -> list[LessTemp]:
    """Return, for each call, the least temp with the fewest tiles, where that is less than the call has."""
    least = {call.name: call.sizes()[0] for use in temps for call in use.calls}
    found = []
    for cut in cuts:
        better = _best(cut, least[cut.call.name])
        if better is not None:
            found.append(LessTemp(cut, better))
    return found


def _best(cut: Cut, least: int) -> Cut | None:
    if not cut.loops:
        return None
    sizes = range(align_up(least, DATABLOCK_BYTES), cut.temp_bytes, DATABLOCK_BYTES)
    others = [(other.loops, size, other) for size in sizes if (other := cut_of(cut.call, size)).loops]
    best = min(others, key=lambda other: other[:2], default=None)
    return best[2] if best is not None and best[0] <= cut.loops else None


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
