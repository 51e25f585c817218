"""Static checks: every row of every template once, GM bounds of every call, and what UB has to hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ascendsim.analysis import peak_ub_bytes
from ascendsim.checks.accesses import FAR, Accesses
from ascendsim.checks.fractals import check_fractals
from ascendsim.checks.hazards import check_hazards
from ascendsim.checks.lifetimes import check_lifetimes, sequences_of, unused_buffers
from ascendsim.checks.quiet import Quiet
from ascendsim.checks.sites import names_line
from ascendsim.checks.unit_flag import check_unit_flags
from ascendsim.device import Device
from ascendsim.errors import Finding, Rule, Severity
from ascendsim.isa.instruction import Row, TensorRef
from ascendsim.isa.move import burst_geometry
from ascendsim.isa.rules import API_PRODUCT, OOB_MASKED, RESERVED_UB
from ascendsim.library import is_library
from ascendsim.memory import FRAMEWORK_TMP, RESERVED_TMP, GlobalTensor
from ascendsim.program import Program, Template
from ascendsim.terms import Buffer, TPosition

_UB_SOURCE = "asc-devkit docs, architecture page 2201; platform GetCoreMemSize"

CAP_UB = Rule(
    "E-CAP-UB",
    "UB use {got} B exceeds the {wanted} B that Ascend C sees: {parts}",
    "use a smaller tile, one buffer instead of two, or share the temp",
    _UB_SOURCE,
    condition="What lies in UB, each buffer rounded up to 32 B, ends beyond the bytes that Ascend C sees, or a "
    "plan leaves too few of them for the minimum of a temp.",
)
CAP_UB_SAFE = Rule(
    "W-CAP-UB-SAFE",
    "UB use {got} B leaves less than the 8 KiB that some APIs reserve (safe up to {wanted} B)",
    "keep below the safe limit, or avoid those APIs (Select, DropOut, LayerNorm, ...)",
    _UB_SOURCE,
    condition="What lies in UB ends within the bytes that Ascend C sees, but beyond those that are left when "
    "some APIs take 8 KiB.",
    archs=(2201, 2002),
)
CAP_UB_HW = Rule(
    "E-CAP-UB-HW",
    "UB address {got} is past the end of UB ({wanted} B): {parts}",
    "check sizes and offsets",
    "asc-devkit, CPU debug limits",
    condition="What lies in UB ends beyond the physical end of UB.",
)
CAP_MEMORY: dict[Buffer, Rule] = {
    place: Rule(
        f"E-CAP-{place.name}",
        f"{place.name} use {{got}} B exceeds its {{wanted}} B: {{parts}}",
        "use a smaller tile, or fewer buffers",
        "platform files; asc-devkit docs, architecture pages",
        condition=f"What lies in {place.name} ends beyond the bytes it has"
        + (
            ", or, a warning, that the framework leaves a kernel on both kinds of cores." if place is Buffer.L1 else "."
        ),
        archs=() if place not in (Buffer.BT, Buffer.FB) else (2201, 3510, 3002),
    )
    for place in Buffer
    if place not in (Buffer.GM, Buffer.UB)
}
CAP_L1_MIXED = CAP_MEMORY[Buffer.L1].saying(
    "L1 use {got} B leaves less than the 256 B that the framework takes of a mixed kernel's (up to {wanted} B): "
    "{parts}",
    (
        "keep below, unless vector cores hand no products to the matmul library: a public kernel without such calls "
        "pins all of L1"
    ),
    "asc-devkit docs, architecture page 2201; ops-transformer op_kernel, flash_attention_score_grad SameAB",
    level="W",
)
OOB_GM = Rule(
    "E-OOB-GM",
    "{api} {operand} touches {past} B outside GM tensor {tensor} ({wanted} B, up to byte {got} wanted)",
    "check the block offset and the tail",
    "asc-tools, npu-check ErrorRead3/ErrorWrite2",
    condition="An instruction touches bytes before the start or behind the end of its GM tensor.",
)

OOB_GM_BEFORE = OOB_GM.saying(
    "{api} {operand} touches {past} B before the start of GM tensor {tensor}",
    "check the block offset",
    "asc-tools, npu-check ErrorRead3/ErrorWrite2",
)

GM_UNALIGNED = Rule(
    "W-ALIGN-GM",
    "{api} {operand}: {what} {got} B in GM tensor {tensor} is no multiple of {wanted} B, which costs bandwidth",
    "start tiles and rows on such a boundary: pad rows, or choose tiles of whole boundaries",
    "asc-devkit docs, page on aligned GM addresses; data_copy example",
    condition="A copy between GM and UB starts off the device's GM boundary, or steps from row to row off it.",
    archs=(2201, 3510),
)
BUF_ADDRMIX = Rule(
    "E-BUF-ADDRMIX",
    "explicit tensor {tensor} at {place} {got} lies on buffer {operand} at {wanted}, which InitBuffer has given out",
    "take all UB from one TPipe, or place explicit tensors behind what it has given out",
    "asc-devkit docs, InitBuffer page; static tensor programming page",
    condition="A kernel places a tensor at an address of its own on a buffer that a TPipe has handed out.",
)
BOUNDS = ("E-OOB-GM", "E-OOB-LOCAL")
"""Codes that are told once for a kernel line and operand, by the one that reaches furthest."""
UNDEFINED = ("E-CAP-UB-HW", "E-OOB-GM", "E-ALIGN-UB", "E-ALIGN-REDUCE", "E-DTYPE-OP", "E-CAST-PAIR", "E-OOB-LOCAL",
             "E-RANGE-MASK", "E-SYNC-ID", "E-DTYPE-BF16", "E-API-PRODUCT", "E-SELMASK", "E-TMP-REDUCE", "E-BRCB-SRC",
             "E-ALIGN-FRACTAL", "E-CORE-ROLE", "E-SYNC-PAIR", "E-XSYNC-MODE", "E-XSYNC-ID", "E-MMAD-DIM",
             "E-MMAD-DTYPE", "E-FIX-QUANT", "E-PATH")  # fmt: skip
"""Codes after which executing a program has no meaning, even with --despite-findings."""

_OF_THE_CALLER = (API_PRODUCT.code, OOB_MASKED.code)
"""Codes that mean nothing inside a library call: what the library uses on a part is there, whatever a page's table
says of it (arch 3002: DataCopy inside UB, Brcb), and its masks are its own."""


def check_program(
    program: Program,
    device: Device,
    *,
    auto_sync: bool = True,
    is_complete: bool = True,
    with_lifetimes: bool = True,
    known: Sequence[Finding] = (),
    quiet: Quiet | None = None,
) -> tuple[Finding, ...]:
    """Return what the static rules find, once for each rule, line and operand.

    Rules come in the order of the catalogue: single instructions, bounds and capacity, then order, then the life of
    bytes. An error about a line hides what the order says of that line, which follows from it or means nothing while
    it stands; with any such error the life of bytes is not looked at.

    Args:
        program: recorded.
        device: what it runs on.
        auto_sync: the compiler adds barriers and waits where it can.
        is_complete: the kernel was recorded to its end.
        with_lifetimes: follow the bytes of UB, which nobody may put data into but the program.
        known: what recording found.
        quiet: what is known from programs before; the findings are the same without.
    """
    found, wrong = _check_rows(program, device)
    errors = [f for f in known if f.severity is Severity.ERROR]
    wrong |= {n for n, line in enumerate(program.lines) if any(names_line(f.where, line) for f in errors)}
    has_errors = any(f.severity is Severity.ERROR for f in (*known, *found))
    has_lives = with_lifetimes and is_complete and not has_errors
    if quiet is not None and has_lives and quiet.is_quiet(program):
        return (*found, *unused_buffers(program, device))
    accesses = Accesses(program)
    has_gm = not any(f.code == OOB_GM.code for f in found)
    hazards = check_hazards(accesses, device, auto_sync=auto_sync, is_complete=is_complete, with_gm=has_gm)
    sequences = sequences_of(program)
    hazards = (*hazards, *check_unit_flags(accesses, sequences), *check_fractals(accesses, sequences, wrong))
    ordered = tuple(h.finding for h in hazards if not h.lines & wrong)
    lives = check_lifetimes(program, device, accesses) if has_lives else ()
    return (*found, *ordered, *lives)


def check_rows(program: Program, device: Device) -> tuple[Finding, ...]:
    """Return what is wrong with instructions by themselves, GM bounds of calls, and what UB has to hold."""
    return _check_rows(program, device)[0]


def _check_rows(program: Program, device: Device) -> tuple[tuple[Finding, ...], set[int]]:
    """Findings, and the kernel lines that errors are about."""
    found: dict[tuple[str, str, str, str], Finding] = {}
    wrong: set[int] = set()
    for line, finding in (*_rows(program, device), *_gm_bounds(program)):
        key = (finding.code, finding.where, finding.operand, finding.got)
        if finding.code in BOUNDS:
            key = (finding.code, finding.where.partition(" core ")[0], finding.operand, "")
        first = found.setdefault(key, finding)
        if first is not finding and finding.code in BOUNDS:
            worst = max(first, finding, key=lambda f: abs(int(f.got)))
            found[key] = replace(worst, count=first.count + 1)
        if finding.severity is Severity.ERROR:
            wrong.add(line)
    is_overwritten = any(f.code == RESERVED_UB.code for f in found.values())
    capacity = (f for f in _capacity(program, device) if not (is_overwritten and f.code == CAP_UB_SAFE.code))
    for finding in (*_address_mix(program, device), *capacity):
        found.setdefault((finding.code, finding.where, finding.operand, finding.got), finding)
    return tuple(found.values()), wrong


def _rows(program: Program, device: Device) -> Iterator[tuple[int, Finding]]:
    """What the checks of rows find, less what is a library call's own matter."""
    for template in program.templates:
        for row in _rows_with_findings(template, device):
            where = f"{row.op.api} ({program.lines[row.line]})"
            for check in row.op.checks:
                for finding in check(row, template.tensors, device, where):
                    if finding.code not in _OF_THE_CALLER or not is_library(program.lines[row.line]):
                        yield row.line, finding


def _rows_with_findings(template: Template, device: Device) -> tuple[Row, ...]:
    """The rows of a template in which a check finds something, whatever they are called."""
    tensors = template.tensors

    def is_wrong(row: Row) -> bool:
        return any(check(row, tensors, device, "") for check in row.op.checks)

    def find() -> tuple[Row, ...]:
        rows = [(row, form) for row, form in zip(template.rows, template.forms, strict=True) if row.op.checks]
        return tuple(row for row, form in rows if form.answer("has findings", device, partial(is_wrong, row)))

    return template.kept("rows with findings", device, find)


@dataclass(frozen=True, slots=True)
class _GmBox:
    """What a template row touches through a GM operand: bytes first to end, relative to its slot's base."""

    row: Row
    role: str
    slot: int
    first: int
    end: int


def _gm_bounds(program: Program) -> Iterator[tuple[int, Finding]]:
    """Every call of every template, all calls of one template at once; findings in the order of calls and rows."""
    bad = [
        (call, position, box, tensor, start)
        for number, template in enumerate(program.templates)
        for position, box in enumerate(_gm_boxes(template))
        for call, tensor, start in _outside(program, number, box)
    ]
    for call, _, box, tensor, start in sorted(bad, key=lambda found: found[:2]):
        for finding in _one_gm_bound(program, call, box, program.gm[tensor], start):
            yield box.row.line, finding


def _gm_boxes(template: Template) -> tuple[_GmBox, ...]:
    """The GM operands of a template's rows."""
    return template.kept("GM operands", None, lambda: tuple(_find_gm_boxes(template)))


def _find_gm_boxes(template: Template) -> Iterator[_GmBox]:
    for row, touched in zip(template.rows, template.touched, strict=True):
        for t in touched:
            ref = template.tensors[t.tensor]
            if ref.buffer is Buffer.GM and t.end > t.first:
                yield _GmBox(row, t.role, ref.slot, t.first, t.end)


def _outside(program: Program, number: int, box: _GmBox) -> Iterator[tuple[int, int, int]]:
    """(call, GM tensor, byte of the tensor where the slot begins) of each call that reaches outside its tensor."""
    at = program.slots_of(number, box.slot)
    tensors = program.slot_tensor[at]
    bases, lengths = program.gm_spans[:, tensors]
    starts = program.slot_base_bytes[at] - bases
    first, end = max(box.first, -FAR), min(box.end, FAR)
    for i in np.flatnonzero((starts + end > lengths) | (starts + first < 0)).tolist():
        yield int(program.calls_of_template[number][i]), int(tensors[i]), int(starts[i])


def _one_gm_bound(program: Program, call: int, box: _GmBox, tensor: GlobalTensor, start: int) -> Iterator[Finding]:
    past, before = start + box.end - tensor.tensor_bytes, -(start + box.first)
    where = f"{box.row.op.api} ({program.lines[box.row.line]}) core {program.calls['core'][call]}"
    fill: dict[str, object] = {"api": box.row.op.api, "tensor": tensor.name}
    if before > 0:
        yield OOB_GM_BEFORE.finding(where, operand=box.role, got=-before, wanted=0, fill=fill | {"past": before})
    if past > 0:
        fill["past"] = past
        yield OOB_GM.finding(where, operand=box.role, got=start + box.end, wanted=tensor.tensor_bytes, fill=fill)


def gm_alignment(program: Program, device: Device) -> Iterator[Finding]:
    """Yield copies whose GM side starts off the boundary, or steps off it from row to row: one for each line."""
    boundary = device.memory.gm_alignment_bytes
    if boundary is None:
        return
    found: dict[tuple[str, str], Finding] = {}
    for number, template in enumerate(program.templates):
        for box in _gm_boxes(template):
            one = _one_gm_alignment(program, number, box, boundary.value)
            if one is not None:
                known = found.setdefault((one.where, one.operand), one)
                found[(one.where, one.operand)] = replace(known, count=known.count + one.count * (known is not one))
    yield from found.values()


def _one_gm_alignment(program: Program, number: int, box: _GmBox, boundary: int) -> Finding | None:
    """The first call of a template whose copy lies off the boundary, and how many there are."""
    at = program.slots_of(number, box.slot)
    off = (program.slot_base_bytes[at] + box.first) % boundary > 0
    count, _, src_pitch, dst_pitch = burst_geometry(box.row)
    pitch = (dst_pitch if box.role == "dst" else src_pitch) if count > 1 else 0
    if pitch % boundary == 0 and not off.any():
        return None
    first = int(at[np.argmax(off)])
    tensor = program.gm[program.slot_tensor[first]]
    what, got = ("row pitch", pitch)
    if off.any():
        what, got = "start", int(program.slot_base_bytes[first]) + box.first - tensor.base_bytes
    where = f"{box.row.op.api} ({program.lines[box.row.line]})"
    fill = {"api": box.row.op.api, "tensor": tensor.name, "what": what}
    one = GM_UNALIGNED.finding(where, operand=box.role, got=got, wanted=boundary, fill=fill)
    return replace(one, count=int(off.sum()) if off.any() else at.size)


def _address_mix(program: Program, device: Device) -> Iterator[Finding]:
    """Tensors that a kernel places itself, against the buffers of its TPipe."""
    buffers = [q for q in program.ques if q.num]
    if not buffers:
        return
    refs = {ref for template in program.templates for ref in _placed_by_hand(template)}
    for ref in sorted(refs, key=lambda r: (r.address_bytes, r.name)):
        for que in buffers:
            first, end = que.address_bytes, que.address_bytes + que.buffer_bytes * que.num
            is_same = device.buffer_of(TPosition(que.position)) is ref.buffer
            if is_same and ref.address_bytes < end and first < ref.address_bytes + ref.tensor_bytes:
                got, wanted, place = f"0x{ref.address_bytes:x}", f"0x{first:x}", ref.buffer.name
                fill = {"tensor": ref.name, "place": place}
                yield BUF_ADDRMIX.finding(place, operand=que.name, got=got, wanted=wanted, fill=fill)


def _placed_by_hand(template: Template) -> tuple[TensorRef, ...]:
    """On-chip tensors of no queue, buffer or temp of the framework's."""

    def is_loose(ref: TensorRef) -> bool:
        return ref.buffer is not Buffer.GM and ref.que < 0 and ref.name not in (FRAMEWORK_TMP, RESERVED_TMP)

    return template.kept("placed by hand", None, lambda: tuple(filter(is_loose, template.tensors)))


def _parts(program: Program, device: Device, place: Buffer) -> str:
    """The buffers of a memory, as texts name them."""
    ques = [q for q in program.ques if q.num and device.buffer_of(TPosition(q.position)) is place]
    return ", ".join(f"{q.name} {q.num} x {q.buffer_bytes} B" for q in ques) or "explicit tensors"


def _capacity(program: Program, device: Device) -> Iterator[Finding]:
    """The limits of memories that are passed: past the physical end of UB what Ascend C sees is passed, too."""
    for place, rule in CAP_MEMORY.items():
        got, wanted = program.high_water_bytes.get(place, 0), device.usable_bytes(place, program.kernel_type)
        if got > wanted:
            there = device.buffer_bytes(place)
            told, limit = (rule, there) if got > there else (CAP_L1_MIXED, wanted)
            fill = {"parts": _parts(program, device, place)}
            yield told.finding(place.name, operand=place.name, got=got, wanted=limit, fill=fill)
    used = peak_ub_bytes(program)
    parts = _parts(program, device, Buffer.UB)
    ub = device.ub
    if used > device.ub_bytes:
        yield CAP_UB_HW.finding("UB", got=used, wanted=device.ub_bytes, fill={"parts": parts})
    if used > ub.visible_bytes.value:
        yield CAP_UB.finding("UB", got=used, wanted=ub.visible_bytes.value, fill={"parts": parts})
    elif used > ub.safe_bytes.value:
        yield CAP_UB_SAFE.finding("UB", got=used, wanted=ub.safe_bytes.value)
