"""The complete table: importing this module imports every family, in a fixed order, so that opcodes are the same."""

from ascendsim.isa import compound, convert, dequant, logic, micro, move, reduce, scalar, sync, transpose, vector
from ascendsim.isa.instruction import BY_OPCODE, TABLE

FAMILIES = (scalar, sync, vector, compound, logic, reduce, convert, dequant, move, transpose, micro)

__all__ = ["BY_OPCODE", "FAMILIES", "TABLE"]
