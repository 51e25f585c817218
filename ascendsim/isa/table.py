"""The complete table: importing this module imports every family, in a fixed order, so that opcodes are the same."""

from ascendsim.isa import (
    atomic,
    compare,
    compound,
    convert,
    cube_out,
    dequant,
    extreme,
    fixpipe,
    gather,
    gather_mask,
    load,
    logic,
    micro,
    mmad,
    move,
    nd2nz,
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
    *(atomic, nd2nz, load, mmad, fixpipe, cube_out),
)

__all__ = ["BY_OPCODE", "FAMILIES", "TABLE"]
