"""Advice on UB banks: what a repeat reads and writes at once, from the real addresses of its operands.

Sources: UB bank conflict pages of arch 2201 and 3510 and the examples bank_conflict_ub, bank_conflict_nd2nz and
bank_conflict_3510 of asc-devkit. On 2201 a repeat takes as many cycles as its busiest bank group has accesses. Only
operands with strides count; a block read again and again by one operand (block stride 0) counts once; one operand read
twice from the same place is left out, since nobody can move it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks.sums import Notes, Words, address_of, holds_on, is_library, name_of, place_of
from ascendsim.cost import vector_cost
from ascendsim.device import Device, VectorCost
from ascendsim.errors import Finding, Rule
from ascendsim.isa.instruction import Row
from ascendsim.isa.lanes import active_lanes, lanes_of, repeats_of
from ascendsim.program import Program, Template
from ascendsim.terms import DATABLOCK_BYTES, Buffer, MaskMode, Pipe

RR = Rule(
    "W-BANK-RR",
    "{api} {a} and {b} read the same bank groups in {hit} of {repeats} repeats: {per} cycles a repeat lost, {cycles} "
    "cycles over all cores",
    "start one operand 256 B further, modulo 512 B",
    "asc-devkit, bank_conflict_ub example and UB bank conflict page 2201",
    condition="Two sources of a vector instruction read from one bank group in the same repeat.",
    archs=(2201,),
)
RR_ONE = RR.saying(
    "{api} {a} reads up to {most} datablocks of a repeat from one bank group (block stride {stride}): {per} cycles a "
    "repeat lost, {cycles} cycles over all cores",
    "use a block stride that is odd, such as one datablock more between blocks",
)
RW = Rule(
    "W-BANK-RW",
    "{api} {a} writes banks that {b} reads, not block for block, in {hit} of {repeats} repeats: about {cycles} cycles "
    "over all cores by the measured 0.77 a repeat, which the simulated cycles do not contain",
    "let dst and source differ by a multiple of 512 B, or lie in different banks",
    "asc-devkit, bank_conflict_ub example (Add, dst one datablock behind src0)",
    condition="In a repeat of a one-cycle vector instruction dst hits banks of a source, but not the same in order.",
    archs=(2201,),
)
WW = Rule(
    "W-BANK-WW",
    "{api} {a} writes up to {most} datablocks of a repeat into one bank group (block stride {stride}): {per} cycles a "
    "repeat lost, {cycles} cycles over all cores",
    "make the block stride odd, such as one datablock more between blocks",
    "asc-devkit, UB bank conflict page 2201 and bank_conflict_nd2nz example",
    condition="A vector instruction writes several datablocks of a repeat into one bank group.",
    archs=(2201,),
)
ALL_3510 = Rule(
    "W-BANK-3510",
    "{api} {a} is written into banks that {b} reads in {hit} of {repeats} repeats; measured 7 to 10 % slower than both "
    "sources in one bank and dst in the other of the group",
    "let both sources start alike modulo 512 B and dst 256 B further; an instruction in place gains nothing here",
    "asc-devkit, bank_conflict_3510 example",
    condition="The dst of an instruction with two sources hits a bank that one of them reads in the same repeat.",
    archs=(3510,),
)
RULES = (RR, RW, WW, ALL_3510)

RW_CYCLES = 0.77
"""Cycles a repeat that a real read-write conflict cost Add (asc-devkit, bank_conflict_ub example)."""
LEAST_CYCLES = 16
"""Cycles on an average core from which on a conflict is worth a word; ours."""
MOST_REPEATS = 4096
"""Repeats that are looked at; more do not fit into UB without meeting themselves."""

Blocks = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Side:
    """The datablocks of one operand: number of the first, strides, and which of a repeat's are active."""

    first: int
    blk_stride: int
    rep_stride: int
    active: tuple[int, ...]

    def blocks(self, repeats: int) -> Blocks:
        """Datablock numbers, [repeats, blocks]; a block that is read again and again once."""
        active = np.array(self.active, np.int64) * self.blk_stride
        active = active[:1] if self.blk_stride == 0 else active
        return self.first + np.arange(repeats)[:, None] * self.rep_stride + active

    def moved(self, blocks: int) -> "Side":
        """The same some datablocks further."""
        return Side(self.first + blocks, self.blk_stride, self.rep_stride, self.active)

    def modulo(self, groups: int) -> "Side":
        """One that meets the same bank groups; only a block stride of 0 stays 0, since it reads one block once."""
        blk = self.blk_stride and (self.blk_stride % groups or groups)
        return Side(self.first % groups, blk, self.rep_stride % groups, self.active)


@dataclass(frozen=True, slots=True)
class _Use:
    """A vector row: its strided operands and what a repeat costs."""

    row: Row
    where: str
    in_library: bool
    calls: int
    repeats: int
    sides: dict[str, Side]
    names: dict[str, str]
    queued: frozenset[str]
    cost: VectorCost

    @property
    def reads(self) -> list[str]:
        """Operands that are read."""
        return [r for r in self.sides if r != "dst" or self.row.op.reads_dst]

    def named(self, role: str) -> str:
        """An operand with its tensor and address."""
        return f"{role} 0x{self.sides[role].first * DATABLOCK_BYTES:x} ({self.names[role]})"


def bank_advice(program: Program, device: Device) -> Iterator[Finding]:
    """W-BANK-RR, W-BANK-RW, W-BANK-WW and W-BANK-3510 of every vector row of every template."""
    rules = [(rule, look) for rule, look in _LOOKS if holds_on(rule, device)]
    if not rules or device.ub.bank_step_bytes is None or device.ub.banks_per_group is None:
        return
    notes = Notes()
    calls = np.bincount(program.calls["template"], minlength=len(program.templates)).tolist()
    for template, times in zip(program.templates, calls, strict=True):
        for use in _uses(program, template, times, device):
            for _, look in rules:
                look(use, device, notes)
    least = LEAST_CYCLES * program.core_count
    notes.places = {key: noted for key, noted in notes.places.items() if noted.sums.get("cycles", least) >= least}
    _say_triangles(notes)
    yield from notes.findings()


def _uses(program: Program, template: Template, calls: int, device: Device) -> Iterator[_Use]:
    for row in template.rows:
        if row.pipe is not Pipe.V or row.op.cost != "vector" or not row.op.uses_mask:
            continue
        operands = {r: o for r, o in row.operands if f"{r}_blk_stride" in row.op.params}
        if not operands or any(template.tensors[o.tensor].buffer is not Buffer.UB for o in operands.values()):
            continue
        lanes = lanes_of(row)
        repeats = min(repeats_of(row, lanes), MOST_REPEATS)
        if repeats == 0 or (row.op.api == "Copy" and row.mask_mode is MaskMode.COUNTER):  # Copy counts otherwise
            continue
        hi, lo = (0, 0) if row.mask_mode is MaskMode.COUNTER else (row.mask_hi, row.mask_lo)
        sides = {
            role: Side(
                address_of(o, template.tensors) // DATABLOCK_BYTES,
                row.param(f"{role}_blk_stride"),
                row.param(f"{role}_rep_stride"),
                _active(hi, lo, lanes, DATABLOCK_BYTES // o.dtype.bytes, row.mask_mode),
            )
            for role, o in operands.items()
        }
        if any(not s.active for s in sides.values()):
            continue
        names = {role: name_of(o, template.tensors) for role, o in operands.items()}
        inside = is_library(program.lines[row.line])
        queued = frozenset(role for role, o in operands.items() if template.tensors[o.tensor].que >= 0)
        cost = vector_cost(row, device)
        yield _Use(row, place_of(program, row), inside, calls, repeats, sides, names, queued, cost)


@lru_cache(maxsize=4096)
def _active(hi: int, lo: int, lanes: int, per_block: int, mode: MaskMode) -> tuple[int, ...]:
    """Datablocks of a repeat with an active lane; the last repeat in counter mode counts as whole."""
    if mode is MaskMode.COUNTER:
        return tuple(range(lanes // per_block))
    return tuple(np.unique(active_lanes(hi, lo, lanes) // per_block).tolist())


# ---- bank groups --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Busy:
    """Accesses of the busiest bank group.

    Attributes:
        extra: accesses after the first, over all repeats.
        hit: repeats with any.
        most: accesses in the worst repeat.
    """

    extra: int
    hit: int
    most: int


def busiest(sides: tuple[Side, ...], repeats: int, groups: int) -> Busy:
    """How often the busiest bank group of each repeat is accessed by these operands."""
    return _busiest(tuple([s.modulo(groups) for s in sides]), repeats, groups)


@lru_cache(maxsize=8192)
def _busiest(sides: tuple[Side, ...], repeats: int, groups: int) -> Busy:
    period = min(repeats, groups)
    hits = np.zeros((period, groups), np.int64)
    for side in sides:
        blocks = side.blocks(period) % groups
        np.add.at(hits, (np.repeat(np.arange(period), blocks.shape[1]), blocks.reshape(-1)), 1)
    most = hits.max(axis=1)
    times = np.bincount(np.arange(repeats) % groups, minlength=period)
    return Busy(int(((most - 1) * times).sum()), int(times[most > 1].sum()), int(most.max()))


def _groups(device: Device) -> int:
    return device.ub.bank_groups.value


def _look_at_reads(use: _Use, device: Device, notes: Notes) -> None:
    """Sources against each other, and each alone. As the cost model: one-source instructions hide the second read."""
    groups, cost = _groups(device), use.cost
    if cost.conflict == "none":
        return
    reads = use.reads if cost.conflict == "two_source" else use.reads[:1]
    alone = {r: busiest((use.sides[r],), use.repeats, groups) for r in reads}
    if not use.in_library:
        for role, busy in alone.items():
            _note_one(RR_ONE, use, role, busy, notes)
    for a, b in combinations(reads, 2):
        if use.sides[a] == use.sides[b] or _is_inner(use, a, b):
            continue
        both = busiest((use.sides[a], use.sides[b]), use.repeats, groups)
        lost = both.extra - max(alone[a].extra, alone[b].extra)
        if lost > 0:
            _note_pair(use, a, b, both.hit, lost, groups, notes)


def _is_inner(use: _Use, a: str, b: str) -> bool:
    """Whether two operands lie in one buffer of a library call, whose layout its caller cannot change."""
    return use.in_library and use.names[a] == use.names[b]


def _note_pair(use: _Use, a: str, b: str, hit: int, lost: int, groups: int, notes: Notes) -> None:
    cycles = lost * use.cost.per_repeat

    def words() -> Words:
        fill: dict[str, object] = {"api": use.row.op.api, "a": use.named(a), "b": use.named(b)}
        fill["per"] = f"{cycles / use.repeats:.2f}"
        low, high = sorted((a, b), key=lambda role: use.sides[role].first)
        move, rest = _best_move(use, low, high, groups)
        if move == 0:
            hint = f"no start of {high} avoids it: choose repeat strides that keep {a} and {b} in different groups"
            return Words(_distance(use, a, b), "other repeat strides", hint, fill)
        at = f"0x{(use.sides[high].first + move) * DATABLOCK_BYTES:x}"
        hint = f"start {high} ({use.names[high]}) {move * DATABLOCK_BYTES} B further, at {at}"
        if high in use.queued:
            hint += f", by a TBuf of {move * DATABLOCK_BYTES} B in front of it"
        if rest:
            hint += f"; {rest} accesses of a call still meet"
        return Words(_distance(use, a, b), f"{high} at {at}", hint, fill)

    operands, names = f"{a}, {b}", (use.names[a], use.names[b])
    notes.add(RR, use.where, operands, use.calls, words, names, hit=hit, repeats=use.repeats, cycles=cycles)


def _distance(use: _Use, a: str, b: str) -> str:
    """Distance of two starts modulo once around all groups."""
    return f"{(use.sides[b].first - use.sides[a].first) * DATABLOCK_BYTES % 512} B apart modulo 512"


def _best_move(use: _Use, a: str, b: str, groups: int) -> tuple[int, int]:
    """(datablocks that b moves, accesses that meet then): the fewest accesses, of these the shortest move."""
    moves = [(busiest((use.sides[a], use.sides[b].moved(n)), use.repeats, groups).extra, n) for n in range(groups)]
    extra, move = min(moves)
    return move, extra


def _say_triangles(notes: Notes) -> None:
    """Say of three buffers that are read in all three pairs that one pair always meets."""
    beside: dict[str, set[str]] = defaultdict(set)
    pairs = [n for n in notes.places.values() if n.names]
    for n in pairs:
        a, b = n.names
        beside[a].add(b)
        beside[b].add(a)
    for n in pairs:
        a, b = n.names
        third = min((beside[a] & beside[b]) - {a, b}, default="")
        if third and a != b:
            three = ", ".join(sorted((a, b, third)))
            more = f"; {three} are read in all three pairs, of which only two can be kept apart"
            n.words = replace(n.words, hint=n.words.hint + more)


def _note_one(rule: Rule, use: _Use, role: str, busy: Busy, notes: Notes) -> None:
    if busy.extra == 0:
        return
    cycles, stride = busy.extra * use.cost.per_repeat, use.sides[role].blk_stride

    def words() -> Words:
        fill = {"api": use.row.op.api, "a": use.named(role), "most": busy.most, "stride": stride,
                "per": f"{cycles / use.repeats:.2f}"}  # fmt: skip
        return Words(f"block stride {stride}", "odd", "", fill)

    notes.add(rule, use.where, role, use.calls, words, cycles=cycles)


def _look_at_dst(use: _Use, device: Device, notes: Notes) -> None:
    """Several datablocks of dst in one group. A block stride of 0 writes one block and means something else."""
    if "dst" not in use.sides or use.cost.conflict == "none" or use.sides["dst"].blk_stride == 0:
        return
    if not use.in_library:
        _note_one(WW, use, "dst", busiest((use.sides["dst"],), use.repeats, _groups(device)), notes)


# ---- banks --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8192)
def shared_repeats(dst: Side, source: Side, repeats: int, groups: int, step: int, count: int, in_order: bool) -> int:
    """Repeats in which two operands meet in a bank; with `in_order`, those that meet block for block do not count.

    Operands of different numbers of blocks are not compared block for block, as nothing was measured of them.
    """
    ours, theirs = (_banks(s.blocks(repeats), groups, step, count) for s in (dst, source))
    meets = (ours[:, :, None] == theirs[:, None, :]).any(axis=(1, 2))
    if in_order:
        if ours.shape != theirs.shape:
            return 0
        meets &= (ours != theirs).any(axis=1)
    return int(meets.sum())


def _banks(blocks: Blocks, groups: int, step: int, count: int) -> Blocks:
    return blocks % groups + groups * (blocks * DATABLOCK_BYTES // step % count)


def _shared(use: _Use, role: str, device: Device, *, moved: int = 0, in_order: bool) -> int:
    ub = device.ub
    assert ub.bank_step_bytes is not None
    assert ub.banks_per_group is not None
    step, count = ub.bank_step_bytes.value, ub.banks_per_group.value
    dst = use.sides["dst"].moved(moved)
    return shared_repeats(dst, use.sides[role], use.repeats, _groups(device), step, count, in_order)


def _sources(use: _Use) -> list[str]:
    return [r for r in use.sides if r != "dst"]


def _look_at_write_and_read(use: _Use, device: Device, notes: Notes) -> None:
    if "dst" not in use.sides or use.cost.per_repeat != 1 or use.cost.conflict == "none":
        return
    for role in _sources(use):
        if _is_inner(use, "dst", role):
            continue
        hit = _shared(use, role, device, in_order=True)
        if hit:
            words = partial(_write_words, use, role, _write_hint, device)
            cycles = hit * RW_CYCLES
            notes.add(RW, use.where, f"dst, {role}", use.calls, words, hit=hit, repeats=use.repeats, cycles=cycles)


def _write_words(use: _Use, role: str, hint: Callable[[_Use, Device], str], device: Device) -> Words:
    fill: dict[str, object] = {"api": use.row.op.api, "a": use.named("dst"), "b": use.named(role)}
    return Words(_distance(use, role, "dst"), "another distance", hint(use, device), fill)


def _write_hint(use: _Use, device: Device) -> str:
    """The shortest move of dst after which it meets no source."""
    for move in range(1, _groups(device)):
        if not any(_shared(use, r, device, moved=move, in_order=True) for r in _sources(use)):
            at = (use.sides["dst"].first + move) * DATABLOCK_BYTES
            return f"start dst ({use.names['dst']}) {move * DATABLOCK_BYTES} B further, at 0x{at:x}"
    return ""


def _look_at_three(use: _Use, device: Device, notes: Notes) -> None:
    sources = _sources(use)
    if "dst" not in use.sides or len(sources) < 2:
        return
    met = {r: _shared(use, r, device, in_order=False) for r in sources}
    worst = max(met, key=lambda r: met[r])
    if met[worst] and not _is_inner(use, "dst", worst):
        words = partial(_write_words, use, worst, lambda _use, _device: "", device)
        notes.add(ALL_3510, use.where, f"dst, {worst}", use.calls, words, hit=met[worst], repeats=use.repeats)


_LOOKS = ((RR, _look_at_reads), (RW, _look_at_write_and_read), (WW, _look_at_dst), (ALL_3510, _look_at_three))
