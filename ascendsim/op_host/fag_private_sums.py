"""Deterministic sums of SameAB: which block stores its gradients itself, who adds up the private tiles of the others.

    the first block of a tile of dQ, or of dK and dV    its AIC stores the sums
    any other                                          its AIC stores a private tile; AIVs add a round's, core by core

First is the block with the first columns for dQ, the one of the first query head with the first rows for dK and dV.
Three groups of AIVs work side by side, for dQ, dK and dV; each AIV has a strip of rows of every tile. Where two strips
do not fit UB all AIVs make one gradient after the other.

Source: ops-transformer op_kernel, flash_attention_score_grad SameAB, deterministic form.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, Literal

from ascendsim.errors import InputError
from ascendsim.op_host.fag_call import FagCall
from ascendsim.op_host.fag_dealing import Block, Dealing
from ascendsim.op_host.fag_parts import BUFFERS, FLOAT_BYTES
from ascendsim.op_host.fag_result import FagTiling
from ascendsim.terms import CUBE_SIDE, align_up, ceil_div

GradientName = Literal["dq", "dk", "dv"]
GRADIENTS: Final[tuple[GradientName, ...]] = ("dq", "dk", "dv")


@dataclass(frozen=True, slots=True)
class RoundBlock:
    """A block of a round.

    Attributes:
        core: its AIC.
        block: the block.
        stores_dq, stores_dk_dv: its AIC stores the sums, not private tiles.
    """

    core: int
    block: Block
    stores_dq: bool
    stores_dk_dv: bool

    def stores(self, gradient: GradientName) -> bool:
        """Whether its AIC stores the sums of a gradient."""
        return self.stores_dq if gradient == "dq" else self.stores_dk_dv

    def rows(self, gradient: GradientName) -> int:
        """Return the rows of its tile of a gradient."""
        return self.block.rows if gradient == "dq" else self.block.columns

    def tile(self, gradient: GradientName) -> tuple[int, ...]:
        """Return which tile of a gradient it adds to."""
        block = self.block
        return (block.b, block.n2, block.g, block.s1) if gradient == "dq" else (block.b, block.n2, block.s2)


Round = tuple[RoundBlock, ...]


@dataclass(frozen=True, slots=True)
class PrivateTiles:
    """The private tiles of a gradient, two of each AIC; lengths in floats.

    Attributes:
        at: where they begin in the workspace.
        rows: of a tile, at most.
        columns: of a row.
        aics: AICs.
        is_nz: tiles lie in NZ, 16 columns of the block's rows one after the other.
    """

    at: int
    rows: int
    columns: int
    aics: int
    is_nz: bool

    @property
    def width(self) -> int:
        """Columns in whole fractals, for which there is room."""
        return align_up(self.columns, CUBE_SIDE)

    def tile_at(self, one: RoundBlock) -> int:
        """Return where the tile of a block lies."""
        return self.at + (one.block.turn % BUFFERS * self.aics + one.core) * self.rows * self.width

    def pitch(self, rows: int) -> int:
        """Return the pitch of a tile of so many rows: of rows, or in NZ from one 16 columns to the next."""
        return rows * CUBE_SIDE if self.is_nz else self.columns


@dataclass(frozen=True, slots=True)
class Strip:
    """Rows of all tiles of a gradient that an AIV adds up: the `number`-th of so many."""

    gradient: GradientName
    number: int
    of: int


@dataclass(frozen=True, slots=True)
class PrivateSums:
    """All of it.

    Attributes:
        dq, dk, dv: private tiles.
        rounds: blocks, round by round, in the order of their AICs.
        group: AIVs that make a gradient.
        is_side_by_side: three groups make one each; else a group, which is all AIVs, makes all of them.
    """

    dq: PrivateTiles
    dk: PrivateTiles
    dv: PrivateTiles
    rounds: tuple[Round, ...]
    group: int
    is_side_by_side: bool

    def tiles(self, gradient: GradientName) -> PrivateTiles:
        """Return the private tiles of a gradient."""
        return {"dq": self.dq, "dk": self.dk, "dv": self.dv}[gradient]

    def strips(self, aiv: int) -> Iterator[Strip]:
        """Yield what an AIV adds up."""
        if not self.is_side_by_side:
            yield from (Strip(gradient, aiv, self.group) for gradient in GRADIENTS)
        elif aiv < len(GRADIENTS) * self.group:
            yield Strip(GRADIENTS[aiv // self.group], aiv % self.group, self.group)

    def block_of(self, core: int, turn: int) -> RoundBlock | None:
        """Return what an AIC does in a round, None for nothing."""
        if not 0 <= turn < len(self.rounds) or core >= len(self.rounds[turn]):
            return None
        return self.rounds[turn][core]


def groups(blocks: Round, gradient: GradientName) -> Iterator[Round]:
    """Yield the blocks of a round that share a tile of a gradient and do not store it, core by core."""
    found: dict[tuple[int, ...], list[RoundBlock]] = {}
    for one in blocks:
        if not one.stores(gradient):
            found.setdefault(one.tile(gradient), []).append(one)
    yield from map(tuple, found.values())


def private_sums(call: FagCall, tiling: FagTiling, deal: Dealing, ub_bytes: int) -> PrivateSums | None:
    """Return how private tiles are added up, None where sums need not be deterministic.

    Args:
        call: as the kernel gets it.
        tiling: of it; its key says whether the kernel adds in an order of its own.
        deal: who computes which block.
        ub_bytes: UB of the kernel.

    Raises:
        InputError: there are less than three AIVs.
    """
    if tiling.key_fields is None or not tiling.key_fields.deterministic:
        return None
    aivs, aics = call.platform.aiv_cores, call.platform.aic_cores
    group = aivs // len(GRADIENTS)
    if not group:
        raise InputError(f"deterministic sums are added up by 3 groups of AIVs: aiv_cores = {aivs} must be at least 3")
    tiles, shape = tiling.tiles, call.shape
    starts, at = {}, 0
    for term in tiling.terms:
        starts[term.name] = at // FLOAT_BYTES
        at += term.bytes
    dq, dk, dv = (
        PrivateTiles(starts[f"private {name} tiles"], rows or 0, columns, aics, tiles.is_gradient_nz)
        for name, rows, columns in (
            ("dQ", tiles.cv_s1, shape.d),
            ("dK", tiles.cv_s2, shape.d),
            ("dV", tiles.cv_s2, shape.dv),
        )
    )
    most = max(ceil_div(one.rows, group) * one.width for one in (dq, dk))
    fits = 2 * most * FLOAT_BYTES <= ub_bytes
    return PrivateSums(dq, dk, dv, tuple(_rounds(deal)), group if fits else aivs, fits)


def _rounds(deal: Dealing) -> Iterator[Round]:
    before: tuple[int, ...] | None = None
    for blocks in zip_longest(*(deal.of_core(core) for core in range(deal.cores))):
        made = []
        for core, block in enumerate(blocks):
            if block is None:
                continue
            column = (block.b, block.n2, block.s2)
            made.append(RoundBlock(core, block, block.s2 == 0, column != before))
            before = column
        yield tuple(made)
