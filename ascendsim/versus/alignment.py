"""The longest common subsequence of two sequences of names, found by the fewest insertions and deletions.

Source: E. W. Myers, An O(ND) difference algorithm and its variations, Algorithmica 1 (1986).
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

MOST_EDITS = 2000
"""Insertions and deletions after which sequences count as different; memory and time grow with their square."""

Pairs = list[tuple[int, int]]


def aligned(a: Sequence[str], b: Sequence[str], most_edits: int = MOST_EDITS) -> Pairs | None:
    """Return the positions in both of a longest common subsequence, ascending; None if more edits are needed.

    Names that only one sequence has cannot be in it and do not count as edits.
    """
    common = set(a) & set(b)
    at_a, at_b = ([i for i, name in enumerate(x) if name in common] for x in (a, b))
    pairs = _myers([a[i] for i in at_a], [b[i] for i in at_b], most_edits)
    return None if pairs is None else [(at_a[i], at_b[j]) for i, j in pairs]


def _myers(a: Sequence[str], b: Sequence[str], most_edits: int) -> Pairs | None:
    """Positions by the greedy search; `reach[k]` is how far into `a` the diagonal k = x - y comes with d edits."""
    n, m, history = len(a), len(b), list["_Reach"]()
    reach = _Reach(0, array("q", (0, 0, 0)))
    for d in range(min(n + m, most_edits) + 1):
        history.append(reach)
        now = array("q", bytes(8 * (2 * d + 5)))
        for k in range(-d, d + 1, 2):
            x = reach[k + 1] if reach.is_insertion(k) else reach[k - 1] + 1
            y = x - k
            while x < n and y < m and a[x] == b[y]:
                x, y = x + 1, y + 1
            now[k + d + 2] = x
            if x >= n and y >= m:
                return _walked_back(history, n, m)
        reach = _Reach(d + 1, now)
    return None


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far into `a` each diagonal from -d - 1 to d + 1 comes with d - 1 edits."""

    d: int
    ends: "array[int]"

    def __getitem__(self, k: int) -> int:
        return self.ends[k + self.d + 1]

    def is_insertion(self, k: int) -> bool:
        """Whether the best way to a diagonal with one edit more is one more of `b`."""
        return k == -self.d or (k != self.d and self[k - 1] < self[k + 1])


def _walked_back(history: Sequence[_Reach], x: int, y: int) -> Pairs:
    """The common positions on the path that the search took."""
    pairs: Pairs = []
    for reach in reversed(history):
        k = x - y
        before = k + 1 if reach.is_insertion(k) else k - 1
        old_x = reach[before]
        old_y = old_x - before
        while x > max(old_x, 0) and y > max(old_y, 0):
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = old_x, old_y
    return pairs[::-1]
