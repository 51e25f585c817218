"""The unit flag: bits of L0C by which Mmad and Fixpipe follow one another.

Source: asc-devkit docs, unit flag page.
"""

import numpy as np

from ascendsim.isa.fixpipe import fetched_offsets
from ascendsim.isa.instruction import Row, TensorRef
from ascendsim.isa.mmad import result_offsets
from ascendsim.layout import Offsets

UNIT_BYTES = 512
"""Bytes of L0C behind one bit (asc-devkit docs, unit flag page)."""
KEEP = 2
"""The field's value for all Mmads of a sum but the last."""
HAND_OVER = 3
"""Its value for the last Mmad, and for Fixpipe."""


def unit_flag_of(row: Row) -> int:
    """Return the field of a row; 0 where it has none."""
    return row.param("unit_flag") if "unit_flag" in row.op.params else 0


def is_mmad(row: Row) -> bool:
    """Whether a row that takes a unit flag is one that makes results; the others fetch them."""
    return row.op.family == "Mmad"


def units_of(row: Row, tensors: tuple[TensorRef, ...]) -> Offsets:
    """Return the units of L0C in which a row with a unit flag makes or fetches results, ascending, counted from 0."""
    operand, at = (row.dst, result_offsets(row)) if is_mmad(row) else (row.src0, fetched_offsets(row))
    assert operand is not None
    first = tensors[operand.tensor].address_bytes + operand.offset_bytes
    units: Offsets = np.unique((at + first) // UNIT_BYTES)
    return units[units >= 0]
