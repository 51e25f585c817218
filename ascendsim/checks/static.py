"""Static checks: every row of every template once, GM bounds of every call, and what UB has to hold."""

from collections.abc import Iterator

from ascendsim.analysis import peak_ub_bytes
from ascendsim.device import Device
from ascendsim.errors import Finding, Rule
from ascendsim.program import Call, Program, Template
from ascendsim.terms import Buffer

_UB_SOURCE = "asc-devkit docs, architecture page 2201; platform GetCoreMemSize"

CAP_UB = Rule(
    "E-CAP-UB",
    "UB use {got} B exceeds the {wanted} B that Ascend C sees: {parts}",
    "use a smaller tile, one buffer instead of two, or share the temp",
    _UB_SOURCE,
)
CAP_UB_SAFE = Rule(
    "W-CAP-UB-SAFE",
    "UB use {got} B leaves less than the 8 KiB that some APIs reserve (safe up to {wanted} B)",
    "keep below the safe limit, or avoid those APIs (Select, DropOut, LayerNorm, ...)",
    _UB_SOURCE,
)
CAP_UB_HW = Rule(
    "E-CAP-UB-HW",
    "UB address {got} is past the end of UB ({wanted} B): {parts}",
    "check sizes and offsets",
    "asc-devkit, CPU debug limits",
)
OOB_GM = Rule(
    "E-OOB-GM",
    "{api} {operand} touches {past} B outside GM tensor {tensor} ({wanted} B, up to byte {got} wanted)",
    "check the block offset and the tail",
    "asc-tools, npu-check ErrorRead3/ErrorWrite2",
)

OOB_GM_BEFORE = Rule(
    "E-OOB-GM",
    "{api} {operand} touches {past} B before the start of GM tensor {tensor}",
    "check the block offset",
    "asc-tools, npu-check ErrorRead3/ErrorWrite2",
)

UNDEFINED = ("E-CAP-UB-HW", "E-OOB-GM", "E-ALIGN-UB", "E-ALIGN-REDUCE", "E-DTYPE-OP", "E-CAST-PAIR", "E-OOB-LOCAL",
             "E-RANGE-MASK",
             "E-SYNC-ID", "E-DTYPE-BF16")  # fmt: skip
"""Codes after which executing a program has no meaning, even with --despite-findings."""


def check_program(program: Program, device: Device) -> tuple[Finding, ...]:
    """Return what the static rules find, once for each rule, line and operand."""
    found: dict[tuple[str, str, str, str], Finding] = {}
    for finding in (*_rows(program, device), *_gm_bounds(program), *_capacity(program, device)):
        found.setdefault((finding.code, finding.where, finding.operand, finding.got), finding)
    return tuple(found.values())


def _rows(program: Program, device: Device) -> Iterator[Finding]:
    for template in program.templates:
        for row in template.rows:
            where = f"{row.op.api} ({program.lines[row.line]})"
            for check in row.op.checks:
                yield from check(row, template.tensors, device, where)


def _gm_bounds(program: Program) -> Iterator[Finding]:
    boxes = [_gm_boxes(template) for template in program.templates]
    for index in range(len(program.calls["core"])):
        call = program.call(index)
        for position, role, slot, first, end in boxes[call.template]:
            yield from _one_gm_bound(program, call, position, role, slot, first, end)


def _gm_boxes(template: Template) -> list[tuple[int, str, int, int, int]]:
    """(row, role, slot, first byte, end) of each GM operand, relative to its slot's base."""
    found = []
    for position, row in enumerate(template.rows):
        operands = dict(row.operands)
        for role, first, end in row.op.touch(row):
            ref = template.tensors[operands[role].tensor]
            if ref.buffer is Buffer.GM and end > first:
                offset = operands[role].offset_bytes
                found.append((position, role, ref.slot, offset + first, offset + end))
    return found


def _one_gm_bound(
    program: Program, call: Call, position: int, role: str, slot: int, first: int, end: int
) -> Iterator[Finding]:
    tensor = program.gm[call.slot_tensor[slot]]
    start = call.slot_base_bytes[slot] - tensor.base_bytes
    past, before = start + end - tensor.tensor_bytes, -(start + first)
    if past <= 0 and before <= 0:
        return
    row = program.templates[call.template].rows[position]
    where = f"{row.op.api} ({program.lines[row.line]}) core {call.core}"
    fill: dict[str, object] = {"api": row.op.api, "tensor": tensor.name}
    if before > 0:
        yield OOB_GM_BEFORE.finding(where, operand=role, got=-before, wanted=0, fill=fill | {"past": before})
    if past > 0:
        fill["past"] = past
        yield OOB_GM.finding(where, operand=role, got=start + end, wanted=tensor.tensor_bytes, fill=fill)


def _capacity(program: Program, device: Device) -> Iterator[Finding]:
    used = peak_ub_bytes(program)
    parts = ", ".join(f"{q.name} {q.num} x {q.buffer_bytes} B" for q in program.ques if q.num) or "explicit tensors"
    ub = device.ub
    if used > device.ub_bytes:
        yield CAP_UB_HW.finding("UB", got=used, wanted=device.ub_bytes, fill={"parts": parts})
    if used > ub.visible_bytes.value:
        yield CAP_UB.finding("UB", got=used, wanted=ub.visible_bytes.value, fill={"parts": parts})
    elif used > ub.safe_bytes.value:
        yield CAP_UB_SAFE.finding("UB", got=used, wanted=ub.safe_bytes.value)
