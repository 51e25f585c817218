"""Which blocks of scores LaserAttentionGrad computes, in which order, and on which core.

The scores of a head are a grid of 128 x 128 blocks. What is computed of it is laid out as strips that are all alike:

    dense       two rows; all columns
    triangle    two rows and, behind them, the two that complete them: T + r, T + r + 1 over columns 0..T + r + 1, then
                T - 2 - r, T - 1 - r over columns 0..T - 1 - r, with T = S / 256 rounded down to even
    trapezoid   one row and what completes it: w/2 + r over 0..w/2 + r, then w/2 - 1 - r over 0..w/2 - 1 - r, for
                r < w/2; behind that row r + w/2 over columns r - w/2..r + w/2, with w = window / 128

Strips of two rows are numbered column by column, two blocks each; above the diagonal the upper row's block keeps its
number but is skipped. Blocks follow each other over strips, heads and batches. In round t core c takes 16 of them from
(t * cores + c) * 16 on, cut into segments where a part or a strip ends. In the core's area of S and of dP the segments
follow each other, each with the blocks of its upper row, then those of the lower.

Source: ascend-transformer-boost, laser_attention_grad kernel, address mapping of cube and vector.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ascendsim.op_host.lag_params import LagCall, MapKind
from ascendsim.terms import ceil_div

BLOCK: Final = 128
"""Rows and columns of a block of scores."""
BLOCKS_PER_CORE: Final = 16
"""Blocks of a core in a round."""


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive columns of the rows of a strip: first row, first column, columns [blocks]."""

    row: int
    column: int
    columns: int


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a segment.

    Attributes:
        line: 0 or 1, the upper or the lower row of the segment.
        row, column: of the grid of scores [blocks].
        slot: where it lies in its core's area [blocks].
        is_skipped: it lies above the diagonal: nothing is computed.
        has_diagonal: keys behind the query's own are hidden in it.
        has_left_edge: keys that lie further back than the window are hidden in it.
    """

    line: int
    row: int
    column: int
    slot: int
    is_skipped: bool
    has_diagonal: bool
    has_left_edge: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive blocks of one part of a strip that a core takes in a round.

    Attributes:
        batch, head: of query.
        strip, part: where it comes from.
        row, lines: first row of scores [blocks], and how many.
        column, columns: first column of scores [blocks], and how many.
        slot: where its first block lies in the core's area [blocks].
        kind: of the map.
        window: keys before its own that a query sees [blocks]; 0 without a mask.
    """

    batch: int
    head: int
    strip: int
    part: int
    row: int
    lines: int
    column: int
    columns: int
    slot: int
    kind: MapKind
    window: int

    @property
    def slots(self) -> int:
        """Blocks, skipped ones too."""
        return self.lines * self.columns

    def block(self, line: int, index: int) -> Block:
        """Return the block of a line in the `index`-th column."""
        row, column = self.row + line, self.column + index
        is_masked = self.kind is not MapKind.DENSE
        return Block(
            line=line,
            row=row,
            column=column,
            slot=self.slot + line * self.columns + index,
            is_skipped=is_masked and column > row,
            has_diagonal=is_masked and column == row,
            has_left_edge=self.kind is MapKind.TRAPEZOID and column == row - self.window,
        )

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks, skipped ones too, line by line as they lie in the area."""
        for line in range(self.lines):
            for index in range(self.columns):
                yield self.block(line, index)

    def computed(self, line: int) -> int:
        """Return how many blocks of a line are computed; they are the first ones."""
        if self.kind is MapKind.DENSE:
            return self.columns
        return max(0, min(self.columns, self.row + line - self.column + 1))

    @property
    def computed_blocks(self) -> int:
        """Blocks that are computed."""
        return sum(self.computed(line) for line in range(self.lines))

    @property
    def computed_columns(self) -> int:
        """Columns with a block that is computed."""
        return max(self.computed(line) for line in range(self.lines))

    @property
    def diagonals(self) -> int:
        """Blocks on the diagonal."""
        return sum(self._has(self.row + line) for line in range(self.lines)) if self.kind is not MapKind.DENSE else 0

    @property
    def left_edges(self) -> int:
        """Blocks on the left edge of the window."""
        return int(self.kind is MapKind.TRAPEZOID and self._has(self.row - self.window))

    def _has(self, column: int) -> bool:
        return self.column <= column < self.column + self.columns


@dataclass(frozen=True)
class BlockMap:
    """The blocks of a call and their order.

    Attributes:
        kind: which blocks.
        batches, heads: of query.
        score_rows, score_columns: of the grid of scores of a head [blocks].
        window: keys before its own that a query sees [blocks]; 0 without a mask.
        cores: AICs that take blocks.
    """

    kind: MapKind
    batches: int
    heads: int
    score_rows: int
    score_columns: int
    window: int
    cores: int

    # --- the grid to compute ---

    @property
    def lines(self) -> int:
        """Rows of a strip."""
        return 1 if self.kind is MapKind.TRAPEZOID else 2

    @property
    def _odd(self) -> int:
        """1 where pairs of rows of a triangle do not pair up themselves."""
        return self.score_rows // 2 % 2

    @property
    def rows(self) -> int:
        """Rows to compute."""
        if self.kind is MapKind.TRIANGLE:
            return self.score_rows // 2 + self._odd
        return self.score_rows - self.window // 2 if self.kind is MapKind.TRAPEZOID else self.score_rows

    @property
    def columns(self) -> int:
        """Columns to compute."""
        if self.kind is MapKind.TRIANGLE:
            return self.score_columns + 2 * (1 - self._odd)
        return self.window + 1 if self.kind is MapKind.TRAPEZOID else self.score_columns

    @property
    def head_blocks(self) -> int:
        """Blocks of a head, skipped ones too."""
        return self.rows * self.columns

    @property
    def total_blocks(self) -> int:
        """Blocks of all heads, skipped ones too."""
        return self.batches * self.heads * self.head_blocks

    @property
    def rounds(self) -> int:
        """Rounds until all blocks are taken."""
        return ceil_div(self.total_blocks, BLOCKS_PER_CORE * self.cores)

    @property
    def chunks(self) -> int:
        """Times that a core takes blocks, over all cores."""
        return ceil_div(self.total_blocks, BLOCKS_PER_CORE)

    @cached_property
    def period(self) -> int:
        """Chunks after which the same blocks of a head come up again."""
        return self.head_blocks // gcd(self.head_blocks, BLOCKS_PER_CORE)

    def parts(self, strip: int) -> tuple[Part, ...]:
        """Return the parts of a strip, left to right."""
        r = strip * self.lines
        if self.kind is MapKind.TRIANGLE:
            half = self.score_rows // 2 - self._odd
            second = (Part(half - 2 - r, 0, half - r),) if r < half else ()
            return (Part(half + r, 0, half + r + 2), *second)
        if self.kind is MapKind.TRAPEZOID:
            half = self.window // 2
            if r < half:
                return (Part(half + r, 0, half + r + 1), Part(half - 1 - r, 0, half - r))
            return (Part(half + r, r - half, self.columns),)
        return (Part(r, 0, self.score_columns),)

    # --- who takes what ---

    def segments(self, turn: int, core: int) -> tuple[Segment, ...]:
        """Return what a core does in a round, () where nothing is left for it or it takes no blocks at all."""
        return self.chunk(turn * self.cores + core) if core < self.cores else ()

    def chunk(self, number: int) -> tuple[Segment, ...]:
        """Return the segments of the `number`-th 16 blocks."""
        first = number * BLOCKS_PER_CORE
        left = min(BLOCKS_PER_CORE, self.total_blocks - first)
        found: list[Segment] = []
        slot = 0
        while left > 0:
            for segment in self._rest_of_strip(first, left, slot):
                found.append(segment)
                slot += segment.slots
                first += segment.slots
                left -= segment.slots
        return tuple(found)

    def _rest_of_strip(self, first: int, most: int, slot: int) -> Iterator[Segment]:
        """Yield segments of a strip from a block on, at most so many blocks."""
        at, within = divmod(first, self.head_blocks)
        strip, within = divmod(within, self.lines * self.columns)
        begin = within // self.lines
        end = min(self.columns, begin + most // self.lines)
        offset = 0
        for number, part in enumerate(self.parts(strip)):
            low, high = max(begin, offset), min(end, offset + part.columns)
            if low < high:
                yield Segment(
                    batch=at // self.heads,
                    head=at % self.heads,
                    strip=strip,
                    part=number,
                    row=part.row,
                    lines=self.lines,
                    column=part.column + low - offset,
                    columns=high - low,
                    slot=slot,
                    kind=self.kind,
                    window=self.window,
                )
                slot += (high - low) * self.lines
            offset += part.columns

    def per_core(self, cost: Callable[[tuple[Segment, ...]], float]) -> NDArray[np.float64]:
        """Return the sum over each core's rounds of what a function says of the segments of a round."""
        whole, rest = divmod(self.total_blocks, BLOCKS_PER_CORE)
        kinds = [cost(self.chunk(number)) for number in range(min(self.period, whole))]
        values = np.resize(np.array(kinds, np.float64), whole) if whole else np.empty(0)
        if rest:
            values = np.append(values, cost(self.chunk(whole)))
        return np.bincount(np.arange(len(values)) % self.cores, values, self.cores).astype(np.float64)

    def rounds_of(self, core: int) -> Iterator[tuple[int, tuple[Segment, ...]]]:
        """Yield (round, segments) of a core, rounds without work too."""
        for turn in range(self.rounds):
            yield turn, self.segments(turn, core)


def block_map(call: LagCall, cores: int, kind: MapKind | None = None) -> BlockMap:
    """Return the blocks of a call.

    Args:
        call: the call.
        cores: AICs that take blocks.
        kind: another order than the operator's, of a call with the whole triangle: UNFOLDED.
    """
    return BlockMap(
        kind=call.map_kind if kind is None else kind,
        batches=call.B,
        heads=call.Nq,
        score_rows=call.Sq // BLOCK,
        score_columns=call.Skv // BLOCK,
        window=call.window_len // BLOCK,
        cores=cores,
    )
