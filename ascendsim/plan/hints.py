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
    """A smaller temp with which no call that uses it has more tiles: more temp can even give smaller tiles.

    `cuts` are how the calls that have loops cut their rows now, `better` how they do with the smaller temp.
    """

    use: TempUse
    cuts: tuple[Cut, ...]
    better: tuple[Cut, ...]

    @property
    def bytes(self) -> int:
        """The smaller size."""
        return self.better[0].temp_bytes

    @property
    def sentence(self) -> str:
        """What to do."""
        now, then = _loops_of(self.cuts), _loops_of(self.better)
        if now == then:
            return f"{self.use.name}: {self.bytes} B are enough for the same {now} as {self.use.bytes} B"
        return f"{self.use.name}: {self.bytes} B give {then}, {self.use.bytes} B give {now}"


def less_temp(temps: Iterable[TempUse], cuts: Iterable[Cut], most_bytes: int) -> list[LessTemp]:
    """Return, for each temp, the least size with the fewest tiles, where that is less than it has; up to `most_bytes`.

    With this size no call has more tiles than it has now, and with every smaller one some call has more than with this.
    """
    all_cuts = list(cuts)
    found = []
    for use in temps:
        of_temp = tuple(cut for cut in all_cuts if cut.call.temp == use.name and cut.has_loops)
        better = _better(use, of_temp, most_bytes)
        if better is not None:
            found.append(LessTemp(use, of_temp, better))
    return found


def _better(use: TempUse, cuts: tuple[Cut, ...], most_bytes: int) -> tuple[Cut, ...] | None:
    if not cuts or not all(cut.loops for cut in cuts):
        return None
    best: tuple[Cut, ...] | None = None
    fewest = sum(cut.loops or 0 for cut in cuts) + 1
    end = min(use.bytes, most_bytes + 1)
    for size in range(align_up(use.least_bytes, DATABLOCK_BYTES), end, DATABLOCK_BYTES):
        others = tuple(cut_of(cut.call, size) for cut in cuts)
        loops = sum(other.loops or 0 for other in others)
        if loops < fewest and all(_no_more(other, cut) for other, cut in zip(others, cuts, strict=True)):
            best, fewest = others, loops
    return best


def _no_more(other: Cut, cut: Cut) -> bool:
    """Whether a call has tiles, and no more than with another temp."""
    return bool(other.loops) and (other.loops or 0) <= (cut.loops or 0)


def _loops_of(cuts: tuple[Cut, ...]) -> str:
    """Loops of each call in words."""
    return " and ".join(f"{cut.loops} {'loop' if cut.loops == 1 else 'loops'} of {cut.call.name}" for cut in cuts)


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
