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
    """Yield (point, later point); points are (row, "begin" | "end"). None if a wait has no set."""
    last_begin, sets, waits, gates, scalar = {}, {}, {}, {}, None
    for i, row in enumerate(rows):
        yield (i, "begin"), (i, "end")
        if scalar is not None:
            yield (scalar, "end"), (i, "begin")  # the scalar unit ends a row before it issues the next
        if row.pipe in last_begin:
            yield (last_begin[row.pipe], "begin"), (i, "begin")
        for gate in gates.get(row.pipe, ()):
            yield (gate, "end"), (i, "begin")
        if row.kind in ("set", "barrier"):
            for k in range(i):
                if rows[k].pipe == row.pipe:
                    yield (k, "end"), (i, "end")
        if row.kind == "barrier_all":
            for k in range(i):
                yield (k, "end"), (i, "end")
        if row.kind == "set":
            sets.setdefault(row.flag, []).append(i)
        if row.kind == "wait":
            waits.setdefault(row.flag, []).append(i)
        if row.kind in ("wait", "barrier"):
            gates.setdefault(row.pipe, []).append(i)
        if row.pipe == "S":
            scalar = i
        last_begin[row.pipe] = i
    for flag, waiting in waits.items():
        raised = sets.get(flag, [])
        for n, wait in enumerate(waiting):
            if n >= len(raised):
                yield (wait, "end"), (wait, "begin")  # never: a circle
            else:
                yield (raised[n], "end"), (wait, "end")


def reached(rows):
    """For each point the points that come after it, as a set; None if rows wait for each other."""
    after = {}
    incoming = {(i, side): 0 for i in range(len(rows)) for side in ("begin", "end")}
    for one, other in edges_of(rows):
        after.setdefault(one, []).append(other)
        incoming[other] += 1
    ready = [point for point, count in incoming.items() if count == 0]
    order = []
    while ready:
        point = ready.pop()
        order.append(point)
        for later in after.get(point, ()):
            incoming[later] -= 1
            if incoming[later] == 0:
                ready.append(later)
    if len(order) < 2 * len(rows):
        return None
    sets = {}
    for point in reversed(order):
        mine = set()
        for later in after.get(point, ()):
            mine.add(later)
            mine |= sets[later]
        sets[point] = mine
    return sets


def conflicts(rows):
    """Pairs of rows that touch the same bytes, at least one writing, with (earlier writes, later writes)."""
    found = {}
    for i, k in combinations(range(len(rows)), 2):
        for memory, taken, writes in rows[i].touches:
            for other, others, writes_too in rows[k].touches:
                if memory == other and (writes or writes_too) and taken & others:
                    found.setdefault((i, k), set()).add((writes, writes_too))
    return found


def races(rows, ordered_pipes=("S",)):
    """Pairs of rows in conflict that nothing orders; None if rows wait for each other."""
    sets = reached(rows)
    if sets is None:
        return None
    found = set()
    for (i, k), kinds in conflicts(rows).items():
        if (k, "begin") in sets[i, "end"] or (i, "begin") in sets[k, "end"]:
            continue
        same = rows[i].pipe == rows[k].pipe
        if same and (rows[i].pipe in ordered_pipes or not any(writes for writes, _ in kinds)):
            continue  # read before it is written, in the order of the pipe
        found.add((i, k))
    return found
