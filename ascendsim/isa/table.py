"""The complete table: importing this module imports every family, in a fixed order, so that opcodes are the same."""

from ascendsim.isa import compare, convert, extreme, gather, move, reduce, scalar, sync, tensor_reduce, vector
from ascendsim.isa.instruction import BY_OPCODE, TABLE

FAMILIES = (scalar, sync, vector, reduce, convert, move, extreme, tensor_reduce, compare, gather)

__all__ = ["BY_OPCODE", "FAMILIES", "TABLE"]
