"""What UB bank conflicts cost whom: cycles of vector rows over those that they would take without, and what avoids it.

Functions of a program and a device; the cycles are those that `cost` charges.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations

import numpy as np

from ascendsim.banks import (
    MOST_REPEATS,
    Side,
    busiest,
    cycles_of,
    read_write_cycles,
    repeats_and_passes,
    roles_met,
    sides_of,
    written_while_read,
)
from ascendsim.cost import once_cycles, vector_cost
from ascendsim.device import Device, VectorCost
from ascendsim.isa.instruction import Operand, Row, TensorRef
from ascendsim.isa.lanes import lanes_of
from ascendsim.library import is_library
from ascendsim.program import Program, Template
from ascendsim.terms import DATABLOCK_BYTES, Buffer, Pipe
from ascendsim.vector_timing import BodyLoss, body_loss


class Conflict(Enum):
    """What meets in a bank group or a bank."""

    READS = "reads of two operands"
    BLOCKS_READ = "datablocks that one operand reads"
    BLOCKS_WRITTEN = "datablocks that are written"
    WRITE_AND_READ = "a write and a read"


@dataclass(frozen=True, slots=True)
class Use:
    """A vector row with strided operands in UB, and how often it runs.

    Attributes:
        calls: times that its template runs, over all cores.
        repeats: of one run.
        sides: its strided operands, by role.
        names: of their tensors, without the number of a queue's buffer.
        queued: roles whose tensors belong to a queue.
    """

    row: Row
    calls: int
    repeats: int
    sides: dict[str, Side]
    names: dict[str, str]
    queued: frozenset[str]
    cost: VectorCost

    def named(self, role: str) -> str:
        """An operand with its tensor and address."""
        return f"{role} 0x{self.sides[role].first * DATABLOCK_BYTES:x} ({self.names[role]})"

    def address(self, role: str, blocks: int) -> str:
        """Where an operand starts if it is moved."""
        return f"0x{(self.sides[role].first + blocks) * DATABLOCK_BYTES:x}"

    def reading(self, roles: tuple[str, ...], device: Device) -> float:
        """Cycles of the repeats if only these operands were read and nothing written."""
        return self.cycles_between(tuple([self.sides[role] for role in roles]), device)

    def cycles_between(self, reads: tuple[Side, ...], device: Device) -> float:
        """Cycles of the repeats for reads of these."""
        return self.held(cycles_of(reads, (), self.repeats, device.ub.bank_groups.value, self.cost.per_repeat))

    def held(self, cycles: float) -> float:
        """Cycles that the pipe is held by repeats of so many: the shortest interval hides what is below it."""
        return max(cycles, self.cost.min_issue - once_cycles(self.row, self.cost))

    @property
    def ideal(self) -> float:
        """Cycles of the repeats without a conflict."""
        return self.held(self.cost.per_repeat * self.repeats)


@dataclass(frozen=True, slots=True)
class Loss:
    """Cycles that one run of a row loses in one way.

    Attributes:
        roles: the operands that meet; one that meets itself alone.
        hit: repeats in which they do.
        most: accesses of the busiest group in the worst repeat.
    """

    use: Use
    conflict: Conflict
    roles: tuple[str, ...]
    cycles: float
    hit: int
    most: int = 0


def name_of(operand: Operand, tensors: tuple[TensorRef, ...]) -> str:
    """Name of an operand's tensor, without the number of a queue's buffer."""
    return _plain(tensors[operand.tensor])


def _plain(ref: TensorRef) -> str:
    return ref.name.partition("[")[0]


def uses_of(template: Template, calls: int, device: Device) -> Iterator[Use]:
    """Return the vector rows of a template whose strided operands all lie in UB; Copy in counter mode is left out."""
    for row in template.rows:
        if row.pipe is not Pipe.V or row.op.cost != "vector":
            continue
        operands = {r: o for r, o in row.operands if f"{r}_blk_stride" in row.op.params}
        if not operands or any(template.tensors[o.tensor].buffer is not Buffer.UB for o in operands.values()):
            continue
        lanes = lanes_of(row)
        repeats, each = repeats_and_passes(row, lanes)
        sides = sides_of(row, template.tensors, lanes)
        if repeats <= 0 or each > 1 or any(not s.active for s in sides.values()):
            continue
        names = {role: name_of(o, template.tensors) for role, o in operands.items()}
        queued = frozenset(role for role, o in operands.items() if template.tensors[o.tensor].que >= 0)
        yield Use(row, calls, min(repeats, MOST_REPEATS), sides, names, queued, vector_cost(row, device))


def lost_cycles(use: Use, device: Device) -> float:
    """Return the cycles that conflicts cost one run of a row: none while the shortest interval hides them."""
    if use.cost.conflict == "none":
        return 0.0
    reads = tuple([use.sides[role] for role in roles_met(use.row, use.sides, use.cost)])
    writes = tuple([side for role, side in use.sides.items() if role == "dst"])
    taken = cycles_of(reads, writes, use.repeats, device.ub.bank_groups.value, use.cost.per_repeat)
    written = sum(written_while_read(use.row, use.sides, use.repeats, device, use.cost).values())
    return use.held(taken + read_write_cycles(device) * written) - use.ideal


def losses_of(use: Use, device: Device) -> Iterator[Loss]:
    """Return every way in which a row loses cycles; where three operands are read, of each pair as if alone."""
    if use.cost.conflict == "none":
        return
    groups, roles = device.ub.bank_groups.value, roles_met(use.row, use.sides, use.cost)
    for role in roles:
        yield from _alone(use, Conflict.BLOCKS_READ, role, device)
    for a, b in combinations(roles, 2):
        if use.sides[a] == use.sides[b]:  # read from one place: nobody can move it
            continue
        lost = use.reading((a, b), device) - max(use.reading((r,), device) for r in (a, b))
        if lost > 0:
            hit = busiest((use.sides[a], use.sides[b]), use.repeats, groups).hit
            yield Loss(use, Conflict.READS, (a, b), lost, hit)
    for role, hit in written_while_read(use.row, use.sides, use.repeats, device, use.cost).items():
        lost = use.held(use.cost.per_repeat * use.repeats + hit * read_write_cycles(device)) - use.ideal
        if lost > 0:
            yield Loss(use, Conflict.WRITE_AND_READ, ("dst", role), lost, hit)
    if "dst" in use.sides and use.sides["dst"].blk_stride:  # a stride of 0 writes one block and means something else
        yield from _alone(use, Conflict.BLOCKS_WRITTEN, "dst", device)


def _alone(use: Use, conflict: Conflict, role: str, device: Device) -> Iterator[Loss]:
    lost = use.reading((role,), device) - use.ideal
    if lost > 0:
        busy = busiest((use.sides[role],), use.repeats, device.ub.bank_groups.value)
        yield Loss(use, conflict, (role,), lost, busy.hit, busy.most)


def is_inner(loss: Loss, line: str) -> bool:
    """Whether a loss arises inside one buffer of a library call, whose layout its caller cannot change."""
    return is_library(line) and len({loss.use.names[role] for role in loss.roles}) == 1


# ---- what avoids it -----------------------------------------------------------------------------------------------


def moved_role(loss: Loss) -> str:
    """Return the operand to move: the one behind, or dst where it is written into what a source reads."""
    if loss.conflict is Conflict.WRITE_AND_READ:
        return "dst"
    return max(loss.roles, key=lambda role: loss.use.sides[role].first)


def move_blocks(loss: Loss, device: Device) -> int:
    """Return by how many datablocks to move `moved_role` so that least is lost, the shortest such move; 0 for none."""
    use, role = loss.use, moved_role(loss)
    moves = range(device.ub.bank_groups.value)
    if loss.conflict is Conflict.WRITE_AND_READ:
        free = (n for n in moves if n and not any(_written_after(use, n, device).values()))
        return next(free, 0)
    (other,) = (use.sides[r] for r in loss.roles if r != role)
    return min(moves, key=lambda n: (use.cycles_between((other, use.sides[role].moved(n)), device), n))


def _written_after(use: Use, blocks: int, device: Device) -> dict[str, int]:
    sides = use.sides | {"dst": use.sides["dst"].moved(blocks)}
    return written_while_read(use.row, sides, use.repeats, device, use.cost)


def remedy(loss: Loss, device: Device) -> str:
    """Return what avoids a loss, in words; "" where nothing is known to."""
    use = loss.use
    if loss.conflict in (Conflict.BLOCKS_READ, Conflict.BLOCKS_WRITTEN):
        return "make the block stride odd, such as one datablock more between blocks"
    role, move = moved_role(loss), move_blocks(loss, device)
    if move == 0 and loss.conflict is Conflict.WRITE_AND_READ:
        return ""
    if move == 0:
        a, b = loss.roles
        return f"no start of {role} avoids it: choose repeat strides that keep {a} and {b} in different groups"
    text = f"start {role} ({use.names[role]}) {move * DATABLOCK_BYTES} B further, at {use.address(role, move)}"
    if loss.conflict is Conflict.WRITE_AND_READ:
        return text
    if role in use.queued:
        text += f", by a TBuf of {move * DATABLOCK_BYTES} B in front of it"
    rest = _lost_after(loss, role, move, device)
    return f"{text}; {rest} cycles of a call are still lost" if rest else text


def _lost_after(loss: Loss, role: str, move: int, device: Device) -> int:
    use = loss.use
    (other,) = (r for r in loss.roles if r != role)
    both = use.cycles_between((use.sides[other], use.sides[role].moved(move)), device)
    return math.ceil(both - max(use.reading((r,), device) for r in loss.roles))


# ---- of a whole program -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BankLoss:
    """Cycles that an instruction of a kernel line loses to bank conflicts, over all its runs on all cores.

    Attributes:
        line: file and line.
        api: AscendC's name of the instruction.
        operands: which of them meet, with the addresses of the first that was seen.
        cycles: lost cycles, as they are in the timeline's costs.
        remedy: what avoids the first of them, "" where nothing is known to.
    """

    line: str
    api: str
    operands: str
    cycles: int
    remedy: str


def bank_losses(program: Program, device: Device) -> tuple[BankLoss, ...]:
    """Return what each kernel line loses to bank conflicts, most cycles first."""
    sums: dict[tuple[str, str], float] = {}
    first: dict[tuple[str, str], Use] = {}
    functions: dict[tuple[str, str], BankLoss] = {}
    calls = np.bincount(program.calls["template"], minlength=len(program.templates)).tolist()
    for template, times in zip(program.templates, calls, strict=True):
        for use in uses_of(template, times, device):
            lost = lost_cycles(use, device) * times
            if lost > 0:
                key = program.lines[use.row.line], use.row.op.api
                first.setdefault(key, use)
                sums[key] = sums.get(key, 0.0) + lost
        for of in function_losses(template, device) if times else ():
            line, operands = program.lines[of.row.line], " and ".join(dict.fromkeys(of.operands))
            before = functions.get((line, operands), BankLoss(line, of.row.op.api, operands, 0, of.remedy))
            functions[line, operands] = replace(before, cycles=before.cycles + of.cycles * times)
    said = [_said(key, use, round(sums[key]), device) for key, use in first.items()]
    return tuple(sorted([*said, *functions.values()], key=lambda loss: -loss.cycles))


@dataclass(frozen=True, slots=True)
class FunctionLoss:
    """Cycles that one run of a vector function loses to banks, the two tensors that meet most, and what avoids it."""

    row: Row
    cycles: int
    operands: tuple[str, str]
    remedy: str


def function_losses(template: Template, device: Device) -> Iterator[FunctionLoss]:
    """Return what each vector function of a template loses to bank conflicts."""
    for row in template.rows:
        loss = None if row.body is None else body_loss(row.body, template.tensors, device)
        if loss is not None:
            a, b = (f"{_plain(template.tensors[t])} (0x{template.tensors[t].address_bytes:x})" for t in loss.pair)
            yield FunctionLoss(row, loss.cycles, (a, b), _function_remedy(loss, template.tensors, device))


def _function_remedy(loss: BodyLoss, tensors: tuple[TensorRef, ...], device: Device) -> str:
    if loss.moved is None or device.ub.bank_step_bytes is None:
        return ""
    ref, step = tensors[loss.moved], device.ub.bank_step_bytes.value
    text = f"start {_plain(ref)} {step} B further, at 0x{ref.address_bytes + step:x}"
    return f"{text}; {loss.left} cycles of a call are still lost" if loss.left else text


def _said(key: tuple[str, str], use: Use, cycles: int, device: Device) -> BankLoss:
    losses = list(losses_of(use, device))
    if not losses:  # one place read twice, or what only together is more than the interval hides
        return BankLoss(*key, " and ".join(use.named(role) for role in use.sides if role != "dst"), cycles, "")
    operands = "; ".join(" and ".join(use.named(role) for role in loss.roles) for loss in losses)
    worst = max(losses, key=lambda loss: loss.cycles)
    return BankLoss(*key, operands, cycles, "" if is_inner(worst, key[0]) else remedy(worst, device))
