"""Rules that instructions of the Cube side share: alignment in each on-chip memory, ranges of fields."""

from collections.abc import Mapping

from ascendsim.device import Device
from ascendsim.errors import Finding, Rule
from ascendsim.isa import rules
from ascendsim.isa.instruction import Row, TensorRef, finds
from ascendsim.terms import DATABLOCK_BYTES, FRACTAL_BYTES, Buffer

_TABLE = "asc-devkit docs, general constraints, table 2"

ALIGN_L1 = Rule(
    "E-ALIGN-L1",
    "{api} {operand} {tensor}: L1 address {got} is not a multiple of {wanted} B",
    "start tensors in L1 on whole datablocks",
    _TABLE,
    condition="An operand in L1 starts off a boundary of 32 B.",
)
ALIGN_L0 = Rule(
    "E-ALIGN-L0",
    "{api} {operand} {tensor}: address {got} is not a multiple of {wanted} B, a fractal",
    "start tiles in L0A and L0B on whole fractals",
    _TABLE,
    condition="An operand in L0A or L0B starts off a boundary of 512 B.",
)
ALIGN_L0C = Rule(
    "E-ALIGN-L0C",
    "{api} {operand} {tensor}: L0C address {got} is not a multiple of {wanted} B",
    "start results on whole fractals of 1024 B",
    "asc-devkit docs, Mmad page; general constraints, table 2",
    condition="A result of Mmad starts off a boundary of 1024 B in L0C (512 B for half from half), or another operand "
    "there off one of 64 B.",
)
ALIGN_BT = Rule(
    "E-ALIGN-BT",
    "{api} {operand} {tensor}: bias table address {got} is not a multiple of {wanted} B",
    "start biases on 64 B",
    "asc-devkit docs, DataCopy L1 to BiasTable page",
    condition="An operand in the bias table starts off a boundary of 64 B.",
)
ALIGN_FB = Rule(
    "E-ALIGN-FB",
    "{api} {operand} {tensor}: fixpipe buffer address {got} is not a multiple of {wanted} B",
    "start scales on 128 B",
    "asc-devkit docs, DataCopy L1 to Fixpipe buffer page",
    condition="An operand in the fixpipe buffer starts off a boundary of 128 B.",
)
L0C_BYTES = 64
"""Boundary of operands in L0C that are no result of Mmad (general constraints, table 2)."""
_BOUNDARIES = {
    Buffer.UB: (rules.ALIGN_UB, DATABLOCK_BYTES),
    Buffer.L1: (ALIGN_L1, DATABLOCK_BYTES),
    Buffer.L0A: (ALIGN_L0, FRACTAL_BYTES),
    Buffer.L0B: (ALIGN_L0, FRACTAL_BYTES),
    Buffer.L0C: (ALIGN_L0C, L0C_BYTES),
    Buffer.BT: (ALIGN_BT, 64),
    Buffer.FB: (ALIGN_FB, 128),
}


@finds(rules.ALIGN_UB, ALIGN_L1, ALIGN_L0, ALIGN_L0C, ALIGN_BT, ALIGN_FB)
def aligned_to_memory(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """On-chip operands start on the boundary of their memory."""
    del device
    found = []
    for role, operand in row.operands:
        tensor = rules.tensor_of(operand, tensors)
        if tensor.buffer is not Buffer.GM:
            found += _off_memory_boundary(row, role, tensors, where, tensor.buffer)
    return found


def _off_memory_boundary(
    row: Row, role: str, tensors: tuple[TensorRef, ...], where: str, place: Buffer
) -> list[Finding]:
    rule, boundary = _BOUNDARIES[place]
    return off_boundary(row, role, tensors, where, rule, boundary)


def off_boundary(
    row: Row, role: str, tensors: tuple[TensorRef, ...], where: str, rule: Rule, boundary: int
) -> list[Finding]:
    """Return the finding that an operand does not start on a boundary, if it does not."""
    operand = dict(row.operands)[role]
    tensor = rules.tensor_of(operand, tensors)
    address = tensor.address_bytes + operand.offset_bytes
    if address % boundary == 0:
        return []
    fill = {"api": row.op.api, "tensor": tensor.name, "off": address % boundary}
    wanted: object = f"a multiple of {boundary}" if rule is rules.ALIGN_UB else boundary
    return [rule.finding(where, operand=role, got=f"0x{address:x}", wanted=wanted, fill=fill)]


def fields_in(row: Row, where: str, ranges: Mapping[str, tuple[int, int]], rule: Rule) -> list[Finding]:
    """Return a finding of a rule for each field outside its range; the rule says {api} {what} {got} {wanted}."""
    return [
        rule.finding(where, got=row.param(what), wanted=f"{low}..{high}", fill={"api": row.op.api, "what": what})
        for what, (low, high) in ranges.items()
        if not low <= row.param(what) <= high
    ]
