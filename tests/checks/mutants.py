"""Mistakes put into recorded programs: one flag or barrier less, an operand 4 bytes further, a shorter buffer, another
event id, a repeat above 255. Each is one `Mutant`: a program, and where the mistake is.

A mutant is caught if the check finds something new that names the mutated row's line, or that of a row that touches the
same tensors or uses the same flag. One that nobody finds is an equivalent if the graph of `plain_order` says that
everything that meets is ordered as before and no operand moved; or it changes only values, if its operand lies
elsewhere inside its tensor and breaks no rule by that.
"""

from dataclasses import dataclass, replace

from plain_order import PlainRow, races

from ascendsim.checks import check_program
from ascendsim.checks.lanes import gm_lanes_of, lanes_of
from ascendsim.checks.sites import names_line
from ascendsim.isa.instruction import Operand
from ascendsim.program import Template
from ascendsim.terms import Buffer, HardEvent, Pipe

SYNC = ("set_flag", "wait_flag", "pipe_barrier", "cross_core_set_flag", "cross_core_wait_flag")
EVENT_IDS = 8


@dataclass(frozen=True)
class Mutant:
    """A program with one mistake, in a row of a template."""

    kind: str
    template: int
    at: int
    program: object


def with_rows(program, number, rows, tensors=None):
    """The program with other rows in one template."""
    old = program.templates[number]
    new = Template.of_rows(old.name, list(rows), tensors or old.tensors, old.slots, old.registers)
    templates = (*program.templates[:number], new, *program.templates[number + 1 :])
    return replace(program, templates=templates)


def mutants_of(program):
    """Yield every mutant of a program."""
    for number, template in enumerate(program.templates):
        for at, row in enumerate(template.rows):
            yield from row_mutants(program, number, at, row)
        yield from shorter_buffers(program, number)


def row_mutants(program, number, at, row):
    rows = program.templates[number].rows

    def changed(new):
        return with_rows(program, number, (*rows[:at], *new, *rows[at + 1 :]))

    if row.op.name in SYNC:
        yield Mutant(f"{row.op.name} deleted", number, at, changed(()))
    if row.op.name in ("cross_core_set_flag", "cross_core_wait_flag"):
        mode, flag_id = row.params
        yield Mutant("cross-core id swapped", number, at, changed((replace(row, params=(mode, flag_id + 1)),)))
    if row.op.name == "cross_core_set_flag":
        other = next(o.pipe for o in rows if o.pipe not in (row.pipe, Pipe.S))
        yield Mutant("cross-core flag set by another pipe", number, at, changed((replace(row, pipe=other),)))
        yield from (
            Mutant("cross-core flag set too early", number, at, moved) for moved in _earlier(program, number, at)
        )
    if row.op.name in ("set_flag", "wait_flag"):
        event, event_id = row.params
        yield Mutant(
            "event id swapped", number, at, changed((replace(row, params=(event, (event_id + 1) % EVENT_IDS)),))
        )
    if row.body is None:
        for role in ("dst", "src0", "src1"):
            operand = getattr(row, role)
            if operand is not None:
                moved = Operand(operand.tensor, operand.offset_bytes + 4, operand.dtype)
                memory = program.templates[number].tensors[operand.tensor].buffer.name
                yield Mutant(f"{memory} operand 4 B further", number, at, changed((replace(row, **{role: moved}),)))
    if "repeat" in row.op.params:
        params = tuple(256 if name == "repeat" else p for name, p in zip(row.op.params, row.params, strict=True))
        yield Mutant("repeat above 255", number, at, changed((replace(row, params=params),)))


def _earlier(program, number, at):
    """The program with a row in front of the last of its pipe before it."""
    rows = program.templates[number].rows
    before = [i for i in range(at) if rows[i].pipe is rows[at].pipe and rows[i].operands]
    if before:
        kept = (*rows[:at], *rows[at + 1 :])
        yield with_rows(program, number, (*kept[: before[-1]], rows[at], *kept[before[-1] :]))


def shorter_buffers(program, number):
    """Each tensor in UB, 32 bytes shorter."""
    template = program.templates[number]
    for index, ref in enumerate(template.tensors):
        users = [at for at, touched in enumerate(template.touched) if any(t.tensor == index for t in touched)]
        if ref.buffer is Buffer.UB and users and ref.tensor_bytes > 32:
            short = replace(ref, tensor_bytes=ref.tensor_bytes - 32)
            tensors = (*template.tensors[:index], short, *template.tensors[index + 1 :])
            last = max(users, key=lambda at: max(t.end for t in template.touched[at] if t.tensor == index))
            yield Mutant("buffer 32 B shorter", number, last, with_rows(program, number, template.rows, tensors))


# ---- judged ---------------------------------------------------------------------------------------------------------


def found(program, device, lives=True):
    """What a check says where the compiler adds nothing, so that barriers inside library calls count."""
    findings = check_program(program, device, auto_sync=False, with_lifetimes=lives)
    return {(f.code, f.where, f.operand, f.wanted, f.got): f for f in findings}


def related_lines(program, mutant):
    """Kernel lines of the mutated row, and of rows that touch its tensors or use its flag."""
    rows = program.templates[mutant.template].rows
    row = rows[mutant.at]
    tensors = {t.tensor for t in program.templates[mutant.template].touched[mutant.at]}
    names = {program.templates[mutant.template].tensors[t].name.split("[")[0] for t in tensors}
    lines = {row.line}
    for template in program.templates:
        for at, other in enumerate(template.rows):
            used = {template.tensors[t.tensor].name.split("[")[0] for t in template.touched[at]}
            same_flag = row.op.name in SYNC and other.op.name in SYNC
            near = row.op.name in SYNC and other.pipe in _pipes(row)
            if used & names or same_flag or near:
                lines.add(other.line)
    return {program.lines[line] for line in lines}


def _pipes(row):
    if row.op.name.startswith("cross_core_"):
        return set(Pipe)
    if row.op.name == "pipe_barrier":
        return set(Pipe) if row.pipe is Pipe.S else {row.pipe}
    event = HardEvent(row.params[0])
    return {event.src, event.dst}


def is_caught(program, mutant, before, device, lives=True):
    """Whether something new is found that names the mistake."""
    after = found(mutant.program, device, lives)
    lines = related_lines(program, mutant)
    new = [f for key, f in after.items() if key not in before]
    return any(any(names_line(f"{f.where} {f.message} {f.wanted}", line) for line in lines) for f in new)


def plain_rows(program, core=0, calls=None):
    """The rows of a core for the graph: bytes of UB, and of GM by tensor."""
    out = []
    for number, call in enumerate(program.calls_of(core)):
        if calls is not None and number >= calls:
            break
        template = program.templates[call.template]
        for row in template.rows:
            if row.op.name in ("set_flag", "wait_flag"):
                event = HardEvent(row.params[0])
                kind = row.op.name.split("_")[0]
                out.append(PlainRow((event.src if kind == "set" else event.dst).name, kind, row.params))
            elif row.op.name == "pipe_barrier":
                out.append(PlainRow(row.pipe.name, "barrier_all" if row.pipe is Pipe.S else "barrier"))
            elif not row.op.name.startswith("cross_core_"):
                out.append(PlainRow(row.pipe.name, touches=_touches(program, template, call, row)))
    return out


def _touches(program, template, call, row):
    if not row.operands:
        return ()
    found_here = []
    starts = {r: template.tensors[o.tensor].address_bytes + o.offset_bytes for r, o in row.operands}
    places = {r: template.tensors[o.tensor].buffer.name for r, o in row.operands}
    for (role, writes), at in lanes_of(template, row).lanes.items():
        found_here.append((places.get(role, "UB"), _bytes(at, starts[role]), writes))
    operands = dict(row.operands)
    for role, writes, at in gm_lanes_of(template, row):
        base = call.slot_base_bytes[template.tensors[operands[role].tensor].slot]
        found_here.append(("GM", _bytes(at, base + operands[role].offset_bytes), writes))
    return tuple(found_here)


def _bytes(at, start):
    if isinstance(at, slice):
        return range(at.start + start, at.stop + start)
    return frozenset((at + start).tolist())


def is_equivalent(program, mutant):
    """Whether the graph says that all that meets is ordered as before: nothing races, nobody waits in vain."""
    if mutant.kind == "buffer 32 B shorter":
        short = mutant.program.templates[mutant.template]
        return all(
            t.end <= short.tensors[t.tensor].tensor_bytes
            for touched in short.touched for t in touched
            if short.tensors[t.tensor].buffer is Buffer.UB
        )  # fmt: skip
    if "deleted" not in mutant.kind and "id" not in mutant.kind:
        return False
    if mutant.program.is_cross and "cross" in mutant.kind:
        return False
    every = [plain_rows(mutant.program, core) for core in range(mutant.program.core_count)]
    return all(not _unpaired(rows) and races(rows, ("S", "M", "FIX")) == set() for rows in every)


def _unpaired(rows):
    count = {}
    for row in rows:
        if row.kind in ("set", "wait"):
            count[row.flag] = count.get(row.flag, 0) + (1 if row.kind == "set" else -1)
    return any(count.values())


def changes_values_only(program, mutant):
    """Whether an operand was moved to other bytes of its tensor, on whole elements and within bounds."""
    if "4 B further" not in mutant.kind:
        return False
    template = mutant.program.templates[mutant.template]
    row, old = template.rows[mutant.at], program.templates[mutant.template].rows[mutant.at]
    for role in ("dst", "src0", "src1"):
        operand = getattr(row, role)
        if operand is None or operand == getattr(old, role):
            continue
        ref = template.tensors[operand.tensor]
        if ref.buffer is Buffer.GM:
            return operand.offset_bytes % operand.dtype.bytes == 0 and role != "dst"
        return operand.offset_bytes % 32 != 0 and operand.offset_bytes % operand.dtype.bytes == 0
    return False
