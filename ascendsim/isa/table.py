"""The complete table: importing this module imports every family, in a fixed order, so that opcodes are the same."""

from ascendsim.isa import (
    compare,
    compound,
    convert,
    dequant,
    extreme,
    gather,
    gather_mask,
    logic,
    micro,
    move,
    reduce,
    scalar,
    select,
    sync,
    tensor_extreme,
    tensor_reduce,
    transpose,
    transpose_square,
    vector,
)
from ascendsim.isa.instruction import BY_OPCODE, TABLE

FAMILIES = (
    *(scalar, sync, vector, compound, logic, reduce, convert, dequant, move, transpose, micro),
    *(extreme, tensor_reduce, tensor_extreme, compare, select, gather, gather_mask, transpose_square),
)

__all__ = ["BY_OPCODE", "FAMILIES", "TABLE"]
