"""What happened before what, told by a graph: slow, without states, and nothing of it shared with the package.

Rows become two points each, begin and end; every reason for an order becomes an edge; what is ordered is what can be
reached. Rows are given as plain tuples.
"""

from dataclasses import dataclass, field
from itertools import combinations


@dataclass(frozen=True)
class PlainRow:
    """A row: its pipe, what it is, and what it touches as (memory, set of bytes, whether written)."""

    pipe: str
    kind: str = "touch"
    """touch, set, wait, barrier or barrier_all."""
    flag: tuple = ()
    touches: tuple = field(default=())


def edges_of(rows):  # noqa: C901, PLR0912 - one branch for each reason
    """Yield (point, later point); point 2 i is the begin of row i, 2 i + 1 its end. A wait in vain is a circle."""
    last_begin, sets, waits, gate, open_rows, scalar = {}, {}, {}, {}, {}, None
    for i, row in enumerate(rows):
        begin, end = 2 * i, 2 * i + 1
        yield begin, end
        if scalar is not None:
            yield 2 * scalar + 1, begin  # the scalar unit ends a row before it issues the next
        if row.pipe in last_begin:
            yield 2 * last_begin[row.pipe], begin
        if row.pipe in gate:
            yield 2 * gate[row.pipe] + 1, begin
        pipes = [row.pipe] if row.kind in ("set", "barrier") else list(open_rows) if row.kind == "barrier_all" else []
        for pipe in pipes:
            for k in open_rows.get(pipe, ()):
                yield 2 * k + 1, end
            if row.kind != "set" or pipe == row.pipe:
                open_rows[pipe] = [i]  # its end is behind all of theirs
        if row.kind == "set":
            sets.setdefault(row.flag, []).append(i)
        if row.kind == "wait":
            waits.setdefault(row.flag, []).append(i)
        if row.kind in ("wait", "barrier"):
            gate[row.pipe] = i
        if row.pipe == "S":
            scalar = i
        last_begin[row.pipe] = i
        open_rows.setdefault(row.pipe, []).append(i)
    for flag, waiting in waits.items():
        raised = sets.get(flag, [])
        for n, wait in enumerate(waiting):
            yield (2 * raised[n] + 1, 2 * wait + 1) if n < len(raised) else (2 * wait + 1, 2 * wait)


def reached(rows):
    """For each point those that come after it, as the bits of a number; None if rows wait for each other."""
    count = 2 * len(rows)
    after, incoming = [[] for _ in range(count)], [0] * count
    for one, other in edges_of(rows):
        after[one].append(other)
        incoming[other] += 1
    ready = [point for point in range(count) if incoming[point] == 0]
    order = []
    while ready:
        point = ready.pop()
        order.append(point)
        for later in after[point]:
            incoming[later] -= 1
            if incoming[later] == 0:
                ready.append(later)
    if len(order) < count:
        return None
    bits = [0] * count
    for point in reversed(order):
        for later in after[point]:
            bits[point] |= 1 << later | bits[later]
    return bits


def meet(one, other):
    """Whether two sets of bytes share one; those in one piece are ranges."""
    if isinstance(one, range) and isinstance(other, range):
        return one.start < other.stop and other.start < one.stop
    if isinstance(one, range):
        one, other = other, one
    return not one.isdisjoint(other)


def with_ends(touches):
    """Each touch with its first and last byte, which most pairs are told apart by."""
    return [(touch, min(touch[1]), max(touch[1])) for touch in touches if touch[1]]


def conflicts(rows):
    """Pairs of rows that touch the same bytes, at least one writing, with (earlier writes, later writes)."""
    found = {}
    busy = [(i, with_ends(row.touches)) for i, row in enumerate(rows) if row.touches]
    for (i, mine), (k, theirs) in combinations(busy, 2):
        for (memory, taken, writes), first, last in mine:
            for (other, others, writes_too), its_first, its_last in theirs:
                if memory != other or last < its_first or its_last < first:
                    continue
                if (writes or writes_too) and meet(taken, others):
                    found.setdefault((i, k), set()).add((writes, writes_too))
    return found


def races(rows, ordered_pipes=("S",)):
    """Pairs of rows in conflict that nothing orders; None if rows wait for each other."""
    bits = reached(rows)
    if bits is None:
        return None
    found = set()
    for (i, k), kinds in conflicts(rows).items():
        if bits[2 * i + 1] >> 2 * k & 1 or bits[2 * k + 1] >> 2 * i & 1:
            continue
        same = rows[i].pipe == rows[k].pipe
        if same and (rows[i].pipe in ordered_pipes or not any(writes for writes, _ in kinds)):
            continue  # read before it is written, in the order of the pipe
        found.add((i, k))
    return found
