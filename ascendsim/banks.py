"""UB banks: which datablocks the operands of a vector row touch in a repeat, and which of them meet.

The one place for the rule; `cost` charges by it, `conflicts` says what it costs whom.

Sources: UB bank conflict pages of arch 2201 and 3510 and the examples bank_conflict_ub, bank_conflict_nd2nz and
bank_conflict_3510 of asc-devkit. A repeat takes as many cycles as its busiest bank group has accesses, reads and writes
apart; a write into a bank that is read in the same repeat costs more (measured), unless it meets the read block for
block. Only operands with strides count; a block read again and again by one operand (block stride 0) counts once.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascendsim.device import Device, VectorCost
from ascendsim.isa.instruction import Operand, Row, TensorRef
from ascendsim.isa.lanes import active_lanes, repeats_of
from ascendsim.terms import DATABLOCK_BYTES, DATABLOCKS_PER_REPEAT, MaskMode, ceil_div

MOST_REPEATS = 4096
"""Repeats that are looked at; more do not fit into UB without meeting themselves."""

Blocks = NDArray[np.int64]


class Side(NamedTuple):
    """The datablocks of one operand; a tuple, because it is looked up very often.

    Attributes:
        first: number of the first datablock.
        blk_stride, rep_stride: in datablocks.
        active: which of a repeat's datablocks have an active lane.
        whole: datablocks of a repeat with all lanes.
    """

    first: int
    blk_stride: int
    rep_stride: int
    active: tuple[int, ...]
    whole: int = DATABLOCKS_PER_REPEAT

    def blocks(self, repeats: int) -> Blocks:
        """Datablock numbers, [repeats, blocks]; a block that is read again and again once."""
        active = np.array(self.active, np.int64) * self.blk_stride
        active = active[:1] if self.blk_stride == 0 else active
        return self.first + np.arange(repeats)[:, None] * self.rep_stride + active

    @property
    def pass_stride(self) -> int:
        """Datablocks from one pass of eight to the next, in a repeat of several."""
        return DATABLOCKS_PER_REPEAT * self.blk_stride

    def moved(self, blocks: int) -> "Side":
        """The same some datablocks further."""
        return self._replace(first=self.first + blocks) if blocks else self

    def part(self, number: int, parts: int) -> "Side":
        """What a part of a repeat touches, if the repeat is taken as so many parts."""
        return self._replace(active=tuple([n for n in self.active if n * parts // self.whole == number]))

    def modulo(self, groups: int) -> "Side":
        """One that meets the same bank groups; only a block stride of 0 stays 0, since it reads one block once."""
        blk = self.blk_stride and (self.blk_stride % groups or groups)
        return Side(self.first % groups, blk, self.rep_stride % groups, self.active, self.whole)


@dataclass(frozen=True, slots=True)
class Busy:
    """Accesses of the busiest bank group.

    Attributes:
        hit: repeats in which there are several.
        most: accesses in the worst repeat.
    """

    hit: int
    most: int


class Banks(NamedTuple):
    """Where a datablock lies: group = number modulo `groups`, bank of it = (address / step_bytes) modulo per_group."""

    groups: int
    step_bytes: int
    per_group: int

    @property
    def period_blocks(self) -> int:
        """Datablocks after which the banks repeat."""
        return self.step_bytes * self.per_group // DATABLOCK_BYTES

    def place_of(self, first_byte: int, last_byte: int) -> tuple[int, int] | None:
        """Return what of a range of addresses banks depend on, None where it goes over several steps of them."""
        step = first_byte // self.step_bytes
        if last_byte // self.step_bytes != step or self.step_bytes % (self.groups * DATABLOCK_BYTES):
            return None
        return first_byte // DATABLOCK_BYTES % self.groups, step % self.per_group

    def alike(self, side: Side, repeats: int) -> Side:
        """An operand that meets the same banks; the same one for all that lie alike within one step of addresses."""
        last = side.first + max(0, repeats - 1) * side.rep_stride + max(side.active, default=0) * side.blk_stride
        place = self.place_of(side.first * DATABLOCK_BYTES, last * DATABLOCK_BYTES)
        if place is None:
            return side
        group, step = place
        first = step * (self.step_bytes // DATABLOCK_BYTES) + group
        return Side(first, side.blk_stride, side.rep_stride, side.active, side.whole)

    def of(self, blocks: Blocks) -> Blocks:
        """Bank numbers of datablocks."""
        return blocks % self.groups + self.groups * (blocks * DATABLOCK_BYTES // self.step_bytes % self.per_group)


def banks_of(device: Device) -> Banks | None:
    """Return the banks of a device's UB, None where no document gives the address bits."""
    ub = device.ub
    if ub.bank_step_bytes is None or ub.banks_per_group is None:
        return None
    return Banks(ub.bank_groups.value, ub.bank_step_bytes.value, ub.banks_per_group.value)


# ---- operands ---------------------------------------------------------------------------------------------------


def repeats_and_passes(row: Row, lanes: int) -> tuple[int, int]:
    """(repeats, passes of 256 B in each): Copy in counter mode moves more than a repeat's lanes in each repeat."""
    if row.op.api == "Copy" and row.mask_mode is MaskMode.COUNTER:
        return row.param("repeat"), max(1, ceil_div(row.mask_lo, lanes))
    if not row.op.uses_mask:
        return row.param("repeat"), 1
    return repeats_of(row, lanes), 1


def address_of(operand: Operand, tensors: tuple[TensorRef, ...]) -> int:
    """UB address of an operand."""
    return tensors[operand.tensor].address_bytes + operand.offset_bytes


def sides_of(row: Row, tensors: tuple[TensorRef, ...], lanes: int) -> dict[str, Side]:
    """Return the strided operands of a row of that many lanes a repeat, by role."""
    counts = row.mask_mode is MaskMode.COUNTER or not row.op.uses_mask
    hi, lo = (0, 0) if counts else (row.mask_hi, row.mask_lo)
    return {
        role: Side(
            address_of(operand, tensors) // DATABLOCK_BYTES,
            row.param(f"{role}_blk_stride"),
            row.param(f"{role}_rep_stride"),
            _active(hi, lo, lanes, DATABLOCK_BYTES // operand.dtype.bytes, counts),
            max(1, lanes * operand.dtype.bytes // DATABLOCK_BYTES),
        )
        for role, operand in row.operands
        if f"{role}_blk_stride" in row.op.params
    }


@lru_cache(maxsize=4096)
def _active(hi: int, lo: int, lanes: int, per_block: int, counts: bool) -> tuple[int, ...]:
    """Datablocks of a repeat with an active lane; the last repeat in counter mode counts as whole.

    Fewer than eight where another operand's elements are wider.
    """
    if counts:
        return tuple(range(lanes // per_block))
    return tuple(np.unique(active_lanes(hi, lo, lanes) // per_block).tolist())


def roles_read(row: Row, sides: dict[str, Side]) -> list[str]:
    """Operands that are read; dst among them where it is a source, too."""
    return [role for role in sides if role != "dst" or row.op.reads_dst]


def roles_met(row: Row, sides: dict[str, Side], cost: VectorCost) -> list[str]:
    """Operands whose reads count together: all of them, or the first where the others are hidden."""
    reads = roles_read(row, sides)
    return {"two_source": reads, "one_source": reads[:1], "none": []}[cost.conflict]


# ---- bank groups --------------------------------------------------------------------------------------------------


def busiest(sides: tuple[Side, ...], repeats: int, groups: int) -> Busy:
    """How often the busiest bank group of each repeat is accessed by these operands."""
    return _busiest(tuple([s.modulo(groups) for s in sides]), repeats, groups)


@lru_cache(maxsize=8192)
def _busiest(sides: tuple[Side, ...], repeats: int, groups: int) -> Busy:
    times = _times(repeats, groups)
    most = _accesses(sides, times.size, groups)
    return Busy(int(times[most > 1].sum()), int(most.max(initial=0)))


def cycles_of(reads: tuple[Side, ...], writes: tuple[Side, ...], repeats: int, groups: int, per_repeat: float) -> float:
    """Cycles of all repeats of an instruction that reads and writes these operands.

    An instruction of several cycles a repeat takes an equal part of the repeat's lanes in each, if the datablocks can
    be dealt so, and each part takes as long as its busiest bank group is read, or written if that is more. Otherwise it
    takes the whole repeat at once and then computes, which hides accesses. One of less than a cycle a repeat slows down
    in proportion.
    """
    sides = (tuple([s.modulo(groups) for s in part]) for part in (reads, writes))
    return _cycles(*sides, repeats, groups, per_repeat)


@lru_cache(maxsize=16384)
def _cycles(reads: tuple[Side, ...], writes: tuple[Side, ...], repeats: int, groups: int, per_repeat: float) -> float:
    times = _times(repeats, groups)
    parts = int(per_repeat) if per_repeat in _PARTS else 1
    taken = np.zeros(times.size, np.int64)
    for number in range(parts):
        sides = (tuple([s.part(number, parts) for s in part]) for part in (reads, writes))
        taken += np.maximum(*(_accesses(part, times.size, groups) for part in sides))
    each = np.maximum(taken, per_repeat) if per_repeat >= 1 else taken * per_repeat
    return float((each * times).sum())


_PARTS = (2, 4, 8)
"""Cycles of a repeat into which its eight datablocks can be dealt."""


def _times(repeats: int, groups: int) -> NDArray[np.int64]:
    """How often each repeat of a period occurs: bank groups repeat, so accesses do after at most as many repeats."""
    return np.bincount(np.arange(repeats) % groups)


def _accesses(sides: tuple[Side, ...], period: int, groups: int) -> NDArray[np.int64]:
    """Accesses of the busiest group in each repeat; at least one, as a repeat takes a cycle."""
    hits = np.zeros((period, groups), np.int64)
    for side in sides:
        blocks = side.blocks(period) % groups
        np.add.at(hits, (np.repeat(np.arange(period), blocks.shape[1]), blocks.reshape(-1)), 1)
    most: NDArray[np.int64] = np.maximum(hits.max(axis=1), 1)
    return most


# ---- banks --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8192)
def shared_repeats(dst: Side, source: Side, repeats: int, banks: Banks) -> int:
    """Repeats in which two operands meet in a bank, in whatever order."""
    return int(_meet(banks.of(dst.blocks(repeats)), banks.of(source.blocks(repeats))).sum())


def written_while_read(
    row: Row, sides: dict[str, Side], repeats: int, device: Device, cost: VectorCost
) -> dict[str, int]:
    """Return by source in how many repeats dst hits its banks, but not the same banks block for block, and pays for it.

    A repeat counts once, for the first of the sources that dst hits in it. Sources of another number of blocks than dst
    are left out, as nothing was measured of them, and so are instructions of more than a cycle a repeat, which have a
    cycle to spare.
    """
    banks = banks_of(device)
    if banks is None or device.ub.read_write_cycles is None or "dst" not in sides:
        return {}
    if cost.per_repeat != 1 or cost.conflict == "none":
        return {}
    sources = [role for role, _ in row.operands if role in sides and role != "dst"]
    count = min(repeats, MOST_REPEATS)
    dst, *read = (banks.alike(sides[role], count) for role in ("dst", *sources))
    found = _written_while_read(dst, tuple(read), count, banks)
    return dict(zip(sources, found, strict=True))


def read_write_cycles(device: Device) -> float:
    """Return what a repeat in which a write meets a read costs more; 0 where nothing is known."""
    return 0.0 if device.ub.read_write_cycles is None else device.ub.read_write_cycles.value


@lru_cache(maxsize=8192)
def _written_while_read(dst: Side, sources: tuple[Side, ...], repeats: int, banks: Banks) -> tuple[int, ...]:
    ours = banks.of(dst.blocks(repeats))
    counted = np.zeros(repeats, np.bool_)
    found = []
    for source in sources:
        theirs = banks.of(source.blocks(repeats))
        meets = np.zeros(repeats, np.bool_)
        if ours.shape == theirs.shape:
            meets = _meet(ours, theirs) & (ours != theirs).any(axis=1) & ~counted
        counted |= meets
        found.append(int(meets.sum()))
    return tuple(found)


def _meet(ours: Blocks, theirs: Blocks) -> NDArray[np.bool_]:
    """Whether two lists of banks, [repeats, blocks], have one in common in each repeat."""
    bits = (np.bitwise_or.reduce(np.int64(1) << banks, axis=1) for banks in (ours, theirs))
    met: NDArray[np.bool_] = np.bitwise_and(*bits) != 0
    return met
