"""Reading a kernel measurement's fields: shapes, element types, core counts."""

import re

from ascendsim.dtypes import DType, dtype
from ascendsim.fidelity.lengths import number_in
from ascendsim.fidelity.measured import MeasuredKernel, Uncovered

MOST_LENGTH = 1 << 24
"""Of a side of a shape or tile, and of a number of passes."""

_DTYPES = {
    "fp16": "half",
    "half": "half",
    "bf16": "bfloat16_t",
    "fp32": "float",
    "float": "float",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
}


def element_of(row: MeasuredKernel) -> DType:
    """Return the element type of a row."""
    if row.dtype not in _DTYPES:
        raise Uncovered(f"element type {row.dtype!r}")
    return dtype(_DTYPES[row.dtype])


def cores_of(row: MeasuredKernel) -> int:
    """Return how many cores ran a row."""
    if not (row.cores.isascii() and row.cores.isdigit()) or set(row.cores) == {"0"}:
        raise Uncovered(f"cores {row.cores!r} are no number of cores")
    return number_in(row.cores, MOST_LENGTH, "cores")


def numbers(pattern: str, text: str, what: str) -> tuple[int, ...]:
    """Return the numbers that the groups of a pattern catch.

    Raises:
        Uncovered: the text says no such thing, or a number that is no length.
    """
    found = re.search(pattern, text)
    if found is None:
        raise Uncovered(f"no {what} in {text!r}")
    lengths = tuple(number_in(group, MOST_LENGTH, what) for group in found.groups())
    if min(lengths) < 1:
        raise Uncovered(f"{what} of 0 in {text!r}")
    return lengths
