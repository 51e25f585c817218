"""The complete table: importing this module imports every family, in a fixed order, so that opcodes are the same."""

from ascendsim.isa import compound, convert, dequant, logic, move, reduce, scalar, sync, vector
from ascendsim.isa.instruction import BY_OPCODE, TABLE

FAMILIES = (scalar, sync, vector, compound, logic, reduce, convert, dequant, move)

__all__ = ["BY_OPCODE", "FAMILIES", "TABLE"]
