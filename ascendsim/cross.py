"""Which cores set and which wait for a cross-core flag, and how many sets of it are pending.

Sources: asc-devkit docs, CrossCoreSetFlag, CrossCoreWaitFlag and SyncAll pages.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ascendsim.terms import CoreKind, CrossMode, KernelType

Group = tuple[tuple[int, ...], tuple[int, ...]]
"""(Cores that must all set, cores whose flag then rises)."""


def groups_of(mode: CrossMode, kernel_type: KernelType, block_dim: int) -> tuple[Group, ...]:
    """Return the groups of a mode among the cores of a program, numbered as `Program.core_kind` counts them."""
    kinds = kernel_type.kinds
    cores = range(block_dim * len(kinds))
    cube = tuple(core for core in cores if kinds[core % len(kinds)] is CoreKind.AIC)
    vector = tuple(core for core in cores if kinds[core % len(kinds)] is not CoreKind.AIC)
    if mode is CrossMode.ALL:
        return ((tuple(cores), tuple(cores)),)
    if mode is CrossMode.SAME_KIND:
        return tuple((group, group) for group in (cube, vector) if group)
    groups: list[Group] = []
    for block in range(block_dim):
        own = range(block * len(kinds), (block + 1) * len(kinds))
        aic = tuple(core for core in own if core in cube)
        aiv = tuple(core for core in own if core in vector)
        if mode is CrossMode.AIVS_OF_BLOCK:
            groups += [(aiv, aiv)] if aiv else []
        elif aic and aiv:
            groups += [(aic, aiv), (aiv, aic)]
    return tuple(groups)


@dataclass(frozen=True, slots=True)
class CrossFlag:
    """A flag of a mode and an id, as rows name it."""

    mode: CrossMode
    flag_id: int


class CrossFlags:
    """Counts of sets and waits while a program runs: a waiter goes on when every setter has set once more."""

    def __init__(self, kernel_type: KernelType, block_dim: int) -> None:
        self._cores = block_dim * len(kernel_type.kinds)
        self._counts: dict[CrossFlag, tuple[list[int], list[int]]] = {}
        """By flag: for each core how often it has set it, and how often it went on behind it."""
        self._setters: dict[tuple[CrossMode, int], tuple[int, ...]] = {}
        for mode in CrossMode:
            for setters, waiters in groups_of(mode, kernel_type, block_dim):
                for core in waiters:
                    self._setters[mode, core] = setters

    def set(self, core: int, flag: CrossFlag) -> None:
        """A core has set a flag."""
        self._of(flag)[0][core] += 1

    def is_up(self, core: int, flag: CrossFlag) -> bool:
        """Whether a core that waits for a flag may go on."""
        return (flag.mode, core) in self._setters and next(self._late(core, flag), None) is None

    def take(self, core: int, flag: CrossFlag) -> None:
        """A core that waited for a flag goes on."""
        self._of(flag)[1][core] += 1

    def missing(self, core: int, flag: CrossFlag) -> tuple[int, ...]:
        """Return the cores that have not set what a core waits for."""
        return tuple(self._late(core, flag))

    def _late(self, core: int, flag: CrossFlag) -> Iterator[int]:
        sets, taken = self._of(flag)
        return (s for s in self._setters.get((flag.mode, core), ()) if sets[s] <= taken[core])

    def _of(self, flag: CrossFlag) -> tuple[list[int], list[int]]:
        counts = self._counts.get(flag)
        if counts is None:
            counts = [0] * self._cores, [0] * self._cores
            self._counts[flag] = counts
        return counts
