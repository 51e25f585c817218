"""Advice on UB banks: what `conflicts` finds, in words for each place, and what arch 3510 is known to dislike.

One operand read twice from the same place is left out, since nobody can move it; so is what meets inside one buffer of
a library call, whose layout its caller cannot change.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from ascendsim.banks import banks_of, read_write_cycles, shared_repeats
from ascendsim.checks.sums import Notes, Words, holds_on, place_of
from ascendsim.conflicts import (
    Conflict,
    Loss,
    Use,
    function_losses,
    is_inner,
    losses_of,
    move_blocks,
    moved_role,
    remedy,
    uses_of,
)
from ascendsim.device import Device
from ascendsim.errors import Finding, Rule
from ascendsim.library import is_library
from ascendsim.program import Program, Template
from ascendsim.terms import DATABLOCK_BYTES

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
    "over all cores by the measured {per} a repeat",
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
FUNCTION = ALL_3510.saying(
    "{api} {a} waits for banks that {b} uses: {cycles} cycles lost over all cores",
    "start one of them 256 B further, modulo 512 B",
)
RULES = (RR, RW, WW, ALL_3510)

LEAST_CYCLES = 16
"""Cycles on an average core from which on a conflict is worth a word; ours."""


def bank_advice(program: Program, device: Device) -> Iterator[Finding]:
    """W-BANK-RR, W-BANK-RW, W-BANK-WW and W-BANK-3510 of every vector row of every template."""
    if banks_of(device) is None or not any(holds_on(rule, device) for rule in RULES):
        return
    notes = Notes()
    calls = np.bincount(program.calls["template"], minlength=len(program.templates)).tolist()
    for template, times in zip(program.templates, calls, strict=True):
        for use in uses_of(template, times, device):
            where, line = place_of(program, use.row), program.lines[use.row.line]
            for loss in losses_of(use, device):
                if not is_inner(loss, line):
                    _note(loss, where, device, notes)
            if holds_on(ALL_3510, device):
                _note_three(use, where, is_library(line), device, notes)
        _note_functions(program, template, times, device, notes)
    least = LEAST_CYCLES * program.core_count
    notes.places = {key: noted for key, noted in notes.places.items() if noted.sums.get("cycles", least) >= least}
    _say_triangles(notes)
    yield from notes.findings()


def _note_functions(program: Program, template: Template, calls: int, device: Device, notes: Notes) -> None:
    """Vector functions whose loads and stores wait for banks, where a start of a tensor helps."""
    for loss in function_losses(template, device):
        if not loss.remedy:
            continue
        a, b = loss.operands
        words = partial(Words, a, "another start", loss.remedy, {"api": loss.row.op.api, "a": a, "b": b})
        notes.add(FUNCTION, place_of(program, loss.row), f"{a}, {b}", calls, words, cycles=loss.cycles)


_RULES = {
    Conflict.READS: RR,
    Conflict.BLOCKS_READ: RR_ONE,
    Conflict.BLOCKS_WRITTEN: WW,
    Conflict.WRITE_AND_READ: RW,
}


def _note(loss: Loss, where: str, device: Device, notes: Notes) -> None:
    rule, use = _RULES[loss.conflict], loss.use
    if not holds_on(rule, device):
        return
    words = partial(_WORDS[loss.conflict], loss, device)
    pair = tuple([use.names[role] for role in loss.roles]) if loss.conflict is Conflict.READS else ()
    notes.add(
        rule, where, ", ".join(loss.roles), use.calls, words, pair,
        hit=loss.hit, repeats=use.repeats, cycles=loss.cycles,
    )  # fmt: skip


def _pair_words(loss: Loss, device: Device) -> Words:
    use, (a, b), role, move = loss.use, loss.roles, moved_role(loss), move_blocks(loss, device)
    fill: dict[str, object] = {"api": use.row.op.api, "a": use.named(a), "b": use.named(b)}
    fill["per"] = f"{loss.cycles / use.repeats:.2f}"
    wanted = f"{role} at {use.address(role, move)}" if move else "other repeat strides"
    return Words(_distance(use, a, b), wanted, remedy(loss, device), fill)


def _write_words(loss: Loss, device: Device) -> Words:
    use, (dst, source) = loss.use, loss.roles
    fill = {"api": use.row.op.api, "a": use.named(dst), "b": use.named(source), "per": read_write_cycles(device)}
    return Words(_distance(use, source, dst), "another distance", remedy(loss, device), fill)


def _block_words(loss: Loss, device: Device) -> Words:
    del device
    use, (role,) = loss.use, loss.roles
    stride = use.sides[role].blk_stride
    fill = {"api": use.row.op.api, "a": use.named(role), "most": loss.most, "stride": stride,
            "per": f"{loss.cycles / use.repeats:.2f}"}  # fmt: skip
    return Words(f"block stride {stride}", "odd", "", fill)


_WORDS = {
    Conflict.READS: _pair_words,
    Conflict.BLOCKS_READ: _block_words,
    Conflict.BLOCKS_WRITTEN: _block_words,
    Conflict.WRITE_AND_READ: _write_words,
}


def _distance(use: Use, a: str, b: str) -> str:
    """Distance of two starts modulo once around all groups."""
    return f"{(use.sides[b].first - use.sides[a].first) * DATABLOCK_BYTES % 512} B apart modulo 512"


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


def _note_three(use: Use, where: str, inside: bool, device: Device, notes: Notes) -> None:
    sources, banks = [r for r in use.sides if r != "dst"], banks_of(device)
    if "dst" not in use.sides or len(sources) < 2 or banks is None:
        return
    met = {r: shared_repeats(use.sides["dst"], use.sides[r], use.repeats, banks) for r in sources}
    worst = max(met, key=lambda r: met[r])
    if met[worst] == 0 or (inside and use.names["dst"] == use.names[worst]):
        return

    def words() -> Words:
        fill: dict[str, object] = {"api": use.row.op.api, "a": use.named("dst"), "b": use.named(worst)}
        return Words(_distance(use, worst, "dst"), "another distance", "", fill)

    notes.add(ALL_3510, where, f"dst, {worst}", use.calls, words, hit=met[worst], repeats=use.repeats)
