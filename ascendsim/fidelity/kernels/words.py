"""Reading a kernel measurement's fields: core counts, and numbers in words."""

import re

from ascendsim.fidelity.measured import MeasuredKernel, Uncovered


def cores_of(row: MeasuredKernel) -> int:
    """Return how many cores ran a row.

    Raises:
        Uncovered: the row names no such number.
    """
    if not row.cores.isdigit() or int(row.cores) < 1:
        raise Uncovered(f"cores {row.cores!r} are no number of cores")
    return int(row.cores)


def numbers(pattern: str, text: str, what: str) -> tuple[int, ...]:
    """Return the numbers that the groups of a pattern catch.

    Raises:
        Uncovered: the text says no such thing.
    """
    found = re.search(pattern, text)
    if found is None:
        raise Uncovered(f"no {what} in {text!r}")
    return tuple(int(group) for group in found.groups())
