"""The complete table: importing this module imports every family, in a fixed order, so that opcodes are the same."""

from ascendsim.isa import (
    compare,
    convert,
    extreme,
    gather,
    gather_mask,
    move,
    reduce,
    scalar,
    select,
    sync,
    tensor_extreme,
    tensor_reduce,
    transpose,
    vector,
)
from ascendsim.isa.instruction import BY_OPCODE, TABLE

FAMILIES = (
    *(scalar, sync, vector, reduce, convert, move),
    *(extreme, tensor_reduce, tensor_extreme, compare, select, gather, gather_mask, transpose),
)

__all__ = ["BY_OPCODE", "FAMILIES", "TABLE"]
