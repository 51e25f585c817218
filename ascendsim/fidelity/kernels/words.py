"""Reading a kernel measurement's fields: shapes, element types, core counts."""

import re

from ascendsim.device import Device
from ascendsim.dtypes import DType, dtype
from ascendsim.fidelity.measured import MeasuredKernel, Uncovered

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


def cores_of(row: MeasuredKernel, device: Device) -> int:
    """Return how many cores ran a row."""
    del device
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
