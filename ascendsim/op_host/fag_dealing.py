"""Who computes which scores: FlashAttentionScoreGrad's blocks in the order of its kernel, dealt to AICs or AIVs.

A block is what a core takes at a time: a score tile of one head, or in templates N and B the whole scores of several
heads or batches. Blocks without a score inside the band of tokens are left out.

Source: ops-transformer op_kernel, flash_attention_score_grad: loop order of each template, sparse block ranges. Three
things no source states, and are assumed: which tiles S1s2Bn2 skips (those without a score to compute), that the
L1-custom form of S1s2Bn2 halves rows between its AIVs, and the order of basic_tnd inside a strip (by rows).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from math import gcd
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ascendsim.errors import InputError
from ascendsim.op_host.fag_band import batch_tokens, has_prefix, wide_band
from ascendsim.op_host.fag_call import ALL_TOKENS, PREFIX_MODES, FagCall
from ascendsim.op_host.fag_result import FagTiling
from ascendsim.op_host.fag_tiling_same_ab import vector_tile
from ascendsim.terms import CoreKind, align_up, ceil_div, pieces

Ints = NDArray[np.int64]
Cut = Literal["rows", "columns", "halves", "none"]
"""How the two AIVs of an AIC share a block: strips of rows, strips of columns, half of the rows each, or not at all."""

AIV_PER_AIC: Final = 2
BASIC_CHUNK: Final = 16
"""Blocks of a round in basic_tnd."""

MOST_BLOCKS: Final = 2**23
"""Tiles of a head that are looked at one by one; more take seconds."""

_BASIC_STRIP = 4
_SAME_AB_EDGE = 8
_LAST_EDGE = 64
_LAST_TEMPLATES: Final = ("S1s2Bn2gs1s2", "S1s2Bn2gs1s2_tnd")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of scores.

    Attributes:
        turn: how many blocks its core has done before it; in SameAB the round.
        b, n2, g: batch, key head, query head of it; of several the first.
        s1, s2: first row and column.
        rows, columns: extent.
        heads: score matrices in it: 1, or in templates N and B those of the heads and batches it takes.
    """

    turn: int
    b: int
    n2: int
    g: int
    s1: int
    s2: int
    rows: int
    columns: int
    heads: int


@dataclass(frozen=True, slots=True)
class Group:
    """Blocks that follow one another and come again for other heads or batches: arrays of equal length."""

    n2: Ints
    g: Ints
    s1: Ints
    s2: Ints
    rows: Ints
    columns: Ints
    heads: Ints
    is_edge: Ints
    """1 where the band of tokens cuts the block, so that a compressed mask is read, else 0."""

    def __len__(self) -> int:
        return len(self.s1)

    @property
    def scores(self) -> Ints:
        """Scores of each block."""
        return self.rows * self.columns * self.heads

    def picked(self, order: Ints) -> "Group":
        """Return the blocks with these numbers, in this order."""
        return Group(*(getattr(self, field.name)[order] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Run:
    """A group repeated.

    Attributes:
        group: its blocks.
        times: how often it comes.
        b: batch of the first.
        heads: repetitions that make a batch.
        b_step: batches to go on by then.
        g: repetitions for one key head.
    """

    group: Group
    times: int
    b: int
    heads: int
    b_step: int
    g: int = 1


@dataclass(frozen=True, slots=True)
class Dealing:
    """All blocks of a call, and the rule that deals them.

    Item i, a block or with `by_group` a whole group, goes to core (i // chunk) modulo cores.

    Attributes:
        runs: the blocks in order.
        kind: who takes them.
        cores: how many take part.
        chunk: items that stay together.
        by_group: groups are dealt, not blocks.
        cut: how two AIVs share what their AIC takes.
        order: the order in words.
    """

    runs: tuple[Run, ...]
    kind: CoreKind
    cores: int
    chunk: int
    by_group: bool
    cut: Cut
    order: str

    @property
    def count(self) -> int:
        """Blocks."""
        return sum(len(run.group) * run.times for run in self.runs)

    @property
    def scores(self) -> int:
        """Scores in them, those of masked places inside a block included."""
        return sum(int(run.group.scores.sum()) * run.times for run in self.runs)

    @property
    def _items(self) -> int:
        return sum(run.times if self.by_group else len(run.group) * run.times for run in self.runs)

    def per_core(self, weigh: Callable[[Group], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return for each core the sum of what `weigh` says of its blocks."""
        total = np.zeros(self.cores)
        first = 0
        for run in self.runs:
            weights = weigh(run.group)
            if self.by_group:
                weights = np.array([weights.sum()])
            if len(weights):
                total += self._dealt(weights, run.times, first)
            first += len(weights) * run.times
        return total

    def _dealt(self, weights: NDArray[np.float64], times: int, first: int) -> NDArray[np.float64]:
        """Sum weights that come so many times, the first of them as item `first`."""
        length, period = len(weights), self.chunk * self.cores
        if first + length * times <= period:
            edges = np.clip(np.arange(self.cores + 1) * self.chunk - first, 0, length * times)
            sums = np.concatenate(([0.0], np.cumsum(weights)))
            upto = (edges // length) * sums[-1] + sums[edges % length]
            return np.asarray(np.diff(upto))
        folded = np.bincount(np.arange(length) % period, weights, minlength=period)
        different = period // gcd(length, period)
        total = np.zeros(period)
        for number in range(min(times, different)):
            again = ceil_div(times - number, different)
            total += np.roll(folded, (first + number * length) % period) * again
        return np.asarray(total.reshape(self.cores, self.chunk).sum(axis=1))

    def of_core(self, core: int) -> Iterator[Block]:
        """Yield the blocks of a core in its order, none of one that takes no part."""
        if core >= self.cores:
            return
        starts = [0]
        for run in self.runs:
            starts.append(starts[-1] + (run.times if self.by_group else len(run.group) * run.times))
        turn = 0
        for begin in range(core * self.chunk, starts[-1], self.chunk * self.cores):
            for item in range(begin, min(begin + self.chunk, starts[-1])):
                number = bisect_right(starts, item) - 1
                run, inside = self.runs[number], item - starts[number]
                repeat, places = (inside, range(len(run.group))) if self.by_group else self._place(run, inside)
                for place in places:
                    yield _block(run, repeat, place, turn)
                    turn += 1

    @staticmethod
    def _place(run: Run, inside: int) -> tuple[int, range]:
        repeat, place = divmod(inside, len(run.group))
        return repeat, range(place, place + 1)


def _block(run: Run, repeat: int, place: int, turn: int) -> Block:
    batch, head = divmod(repeat, run.heads)
    n2, g = divmod(head, run.g)
    group = run.group
    return Block(
        turn=turn,
        b=run.b + batch * run.b_step,
        n2=n2 + int(group.n2[place]),
        g=g + int(group.g[place]),
        s1=int(group.s1[place]),
        s2=int(group.s2[place]),
        rows=int(group.rows[place]),
        columns=int(group.columns[place]),
        heads=int(group.heads[place]),
    )


# --- which blocks there are ---


@dataclass(frozen=True, slots=True)
class _Head:
    """Scores of one head: extent, tokens (pre, next), prefix, and whether blocks are skipped."""

    s1: int
    s2: int
    pre: int
    after: int
    prefix: int
    is_sparse: bool


def _head(call: FagCall, batch: int, *, prefix_is_causal: bool) -> _Head:
    band = wide_band(call, prefix_is_causal=prefix_is_causal)
    shape = call.shape
    if shape.is_tnd:
        tokens = batch_tokens(call, band, batch)
        return _Head(shape.q_lens[batch], shape.kv_lens[batch], *tokens, -1, is_sparse=True)
    prefix, pre, after = -1, band.pre_tokens, band.next_tokens
    if call.params.sparse_mode in PREFIX_MODES and has_prefix(call):
        prefix, pre, after = call.params.prefix[batch], ALL_TOKENS, shape.s2 - shape.s1
    return _Head(shape.s1, shape.s2, pre, after, prefix, band.is_sparse)


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Score tiles of a head that hold work, column by column: tile numbers along S1 and S2."""

    s1: Ints
    s2: Ints


def _tiles(head: _Head, rows: int, columns: int) -> _Tiles:
    """Return the tiles of the band, s1 fastest.

    A tile belongs to it unless all its scores are too far right or too far left; left of the prefix none is.
    """
    across = np.arange(ceil_div(head.s2, columns), dtype=np.int64)
    outer = ceil_div(head.s1, rows)
    begin, end = np.zeros_like(across), np.full_like(across, outer)
    if head.is_sparse:
        first = across * columns
        begin = np.maximum((first - head.after) // rows, 0)
        begin[first <= head.prefix] = 0
        end = np.minimum(-(-np.minimum(first + columns + head.pre, head.s1) // rows), outer)
    counts = np.maximum(end - begin, 0)
    starts = np.cumsum(counts) - counts
    down = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(starts, counts) + np.repeat(begin, counts)
    return _Tiles(down, np.repeat(across, counts))


def _group_of(head: _Head, rows: int, columns: int, edge: int | None, left_too: bool) -> Group:
    """Return the blocks of a head: tiles of the band, their columns cut at its edges.

    Args:
        head: the head.
        rows: of a tile.
        columns: of a tile.
        edge: columns are cut at the band's edge, rounded outwards to this many; None leaves them whole.
        left_too: the left edge is cut, too, but the end of a prefix is not rounded.
    """
    tiles = _tiles(head, rows, columns)
    s1, s2 = tiles.s1 * rows, tiles.s2 * columns
    s1_end, s2_end = np.minimum(s1 + rows, head.s1), np.minimum(s2 + columns, head.s2)
    if head.is_sparse and edge is not None:
        reach = -(-(s1_end + head.after) // edge) * edge
        spared = head.prefix if left_too else align_up(max(head.prefix, 0), edge)
        s2_end = np.minimum(s2_end, np.maximum(reach, np.where(s2 <= head.prefix, spared, 0)))
        if left_too:
            s2 = np.maximum(s2, (s1 - head.pre) // edge * edge)
    kept = s2_end > s2
    s1, s2, s1_end, s2_end = s1[kept], s2[kept], s1_end[kept], s2_end[kept]
    is_inside = (s2_end - 1 - s1 <= head.after) & (s1_end - 1 - s2 <= head.pre)
    is_edge = ~(is_inside | (s2_end <= head.prefix))
    one, zero = np.ones_like(s1), np.zeros_like(s1)
    return Group(zero, zero, s1, s2, s1_end - s1, s2_end - s2, one, is_edge.astype(np.int64))


def _for_each_g(group: Group, g: int, *, inside_columns: bool) -> Group:
    """Return the blocks for all query heads of a key head: one head after the other, or all in each column."""
    count = len(group)
    order = np.tile(np.arange(count), g)
    heads = np.repeat(np.arange(g, dtype=np.int64), count)
    if inside_columns:
        by_column = np.lexsort((order, heads, group.s2[order]))
        order, heads = order[by_column], heads[by_column]
    return replace(group.picked(order), g=heads)


def _runs(
    call: FagCall, make: Callable[[_Head], Group], *, prefix_is_causal: bool, by_key_head: bool = False
) -> tuple[Run, ...]:
    """Return one run for batches that are all alike, else one for each.

    Args:
        call: the call.
        make: makes the blocks of a query head, or with `by_key_head` of all query heads of a key head.
        prefix_is_causal: as in `wide_band`.
        by_key_head: what `make` makes.
    """
    shape = call.shape
    heads = [_head(call, batch, prefix_is_causal=prefix_is_causal) for batch in range(_different(call))]
    made: dict[_Head, Group] = {}
    for head in heads:
        if head not in made:
            made[head] = make(head)
    g = 1 if by_key_head else shape.g
    per_batch = shape.n2 * g
    if len(heads) == 1:
        return (Run(made[heads[0]], shape.b * per_batch, 0, per_batch, 1, g),)
    return tuple(Run(made[head], per_batch, batch, per_batch, 1, g) for batch, head in enumerate(heads))


def _different(call: FagCall) -> int:
    """How many batches have to be looked at: one stands for all where they are alike."""
    is_prefix = call.params.sparse_mode in PREFIX_MODES and has_prefix(call)
    return call.shape.b if call.shape.is_tnd or is_prefix else min(call.shape.b, 1)


# --- the templates ---


def dealing(call: FagCall, tiling: FagTiling) -> Dealing | None:
    """Return who computes which scores; None without a kernel that computes any, or with more than `MOST_BLOCKS`.

    Args:
        call: as the kernel gets it.
        tiling: of it, not refused.
    """
    if tiling.template not in _DEALERS or tiles_of_a_head(call, tiling) > MOST_BLOCKS:
        return None
    return _DEALERS[tiling.template](call, tiling)


def required_dealing(call: FagCall, tiling: FagTiling) -> Dealing:
    """Return who computes which scores, for a kernel.

    Raises:
        InputError: there are more than `MOST_BLOCKS`.
    """
    found = dealing(call, tiling)
    if found is None:
        raise InputError("the call has more blocks of scores than are looked at one by one; make S1 and S2 smaller")
    return found


def tiles_of_a_head(call: FagCall, tiling: FagTiling) -> int:
    """Return the score tiles of the longest head, those outside the band included."""
    tiles, shape = tiling.tiles, call.shape
    if tiles.cv_s1 is None or tiles.cv_s2 is None:
        return 1
    return ceil_div(shape.s1, tiles.cv_s1) * ceil_div(shape.s2, tiles.cv_s2)


def _same_ab(call: FagCall, tiling: FagTiling) -> Dealing:
    tiles = tiling.tiles
    is_fixed = call.params.deterministic

    def make(head: _Head) -> Group:
        group = _group_of(head, tiles.cv_s1 or 1, tiles.cv_s2 or 1, _SAME_AB_EDGE, left_too=False)
        return _for_each_g(group, call.shape.g, inside_columns=True) if is_fixed else group

    order = "s1 fastest, then g, s2, n2, b" if is_fixed else "s1 fastest, then s2, g, n2, b"
    return Dealing(
        runs=_runs(call, make, prefix_is_causal=True, by_key_head=is_fixed),
        kind=CoreKind.AIC,
        cores=call.platform.aic_cores,
        chunk=1,
        by_group=False,
        cut="columns" if tiles.is_score_nz else "rows",
        order=f"{order}; one block to each AIC, round after round",
    )


def _last(call: FagCall, tiling: FagTiling) -> Dealing:
    tiles = tiling.tiles
    is_sparse = tiling.band is not None and tiling.band.is_sparse

    def make(head: _Head) -> Group:
        return _group_of(head, tiles.cv_s1 or 1, tiles.cv_s2 or 1, _LAST_EDGE, left_too=True)

    runs = _runs(call, make, prefix_is_causal=False)
    count = sum(len(run.group) * run.times for run in runs)
    per_core = max(1, ceil_div(count, call.platform.aiv_cores))
    used = max(1, ceil_div(count, per_core))
    how = f"{per_core} that follow one another to each AIV" if is_sparse else "one to each AIV, turn after turn"
    return Dealing(
        runs=runs,
        kind=CoreKind.AIV,
        cores=used if is_sparse else align_up(used, AIV_PER_AIC),
        chunk=per_core if is_sparse else 1,
        by_group=False,
        cut="none",
        order=f"s1 fastest, then s2, g, n2, b; {how}",
    )


def _bn2(call: FagCall, tiling: FagTiling) -> Dealing:
    tiles = tiling.tiles
    is_custom = tiles.is_l1_custom

    def make(head: _Head) -> Group:
        group = _group_of(head, tiles.cv_s1 or 1, tiles.cv_s2 or 1, None, left_too=False)
        return _for_each_g(group, call.shape.g, inside_columns=False)

    return Dealing(
        runs=_runs(call, make, prefix_is_causal=True, by_key_head=True),
        kind=CoreKind.AIC if is_custom else CoreKind.AIV,
        cores=tiles.used_cores or 1,
        chunk=1,
        by_group=True,
        cut="halves" if is_custom else "none",
        order="a key head to each core in turn; in it s1 fastest, then s2, g",
    )


def _basic(call: FagCall, tiling: FagTiling) -> Dealing:
    tiles = tiling.tiles

    def make(head: _Head) -> Group:
        return _in_strips(_group_of(head, tiles.cv_s1 or 1, tiles.cv_s2 or 1, None, left_too=False), tiles.cv_s1 or 1)

    return Dealing(
        runs=_runs(call, make, prefix_is_causal=False),
        kind=CoreKind.AIC,
        cores=call.platform.aic_cores,
        chunk=BASIC_CHUNK,
        by_group=False,
        cut="halves",
        order=f"strips of {_BASIC_STRIP} tile rows; {BASIC_CHUNK} blocks to each AIC, round after round",
    )


def _in_strips(group: Group, rows: int) -> Group:
    order = np.lexsort((group.s2, group.s1, group.s1 // (rows * _BASIC_STRIP)))
    return group.picked(order)


def _whole(first: list[int], heads: list[int], call: FagCall) -> Group:
    """Return blocks that take whole score matrices, of these key heads on and so many of them."""
    n2, count = np.array(first, np.int64), np.array(heads, np.int64)
    zero, one = np.zeros_like(n2), np.ones_like(n2)
    return Group(n2, zero, zero, zero, one * call.shape.s1, one * call.shape.s2, count, one)


def _n(call: FagCall, tiling: FagTiling) -> Dealing:
    assert tiling.split is not None
    heads, units = call.shape.n2, tiling.split.cv_units
    first = list(range(0, heads, units))
    group = _whole(first, [min(units, heads - begin) for begin in first], call)
    run = Run(group, call.shape.b, 0, 1, 1)
    return _in_a_row((run,), call, f"batch after batch, {units} heads at a time")


def _b(call: FagCall, tiling: FagTiling) -> Dealing:
    assert tiling.split is not None
    shape, units = call.shape, tiling.split.cv_units
    whole, rest = divmod(shape.b, units)
    runs = [Run(_whole([0], [units * shape.n1], call), whole, 0, 1, units)] if whole else []
    if rest:
        runs.append(Run(_whole([0], [rest * shape.n1], call), 1, whole * units, 1, rest))
    return _in_a_row(tuple(runs), call, f"{units} batches at a time, all their heads")


def _in_a_row(runs: tuple[Run, ...], call: FagCall, order: str) -> Dealing:
    """Return blocks of which each AIV takes some that follow one another."""
    count = sum(len(run.group) * run.times for run in runs)
    per_core = ceil_div(count, call.platform.aiv_cores)
    return Dealing(
        runs=runs,
        kind=CoreKind.AIV,
        cores=ceil_div(count, per_core),
        chunk=per_core,
        by_group=False,
        cut="none",
        order=f"{order}; {per_core} that follow one another to each AIV",
    )


_DEALERS: Final[dict[str, Callable[[FagCall, FagTiling], Dealing]]] = {
    "SameAB": _same_ab,
    "SameAB_deterministic": _same_ab,
    "S1s2Bn2gs1s2": _last,
    "S1s2Bn2gs1s2_tnd": _last,
    "S1s2Bn2": _bn2,
    "S1s2Bn2_deterministic": _bn2,
    "basic_tnd": _basic,
    "Ngs1s2_BN": _n,
    "Ungs1s2_B": _b,
}


# --- how two AIVs share a block ---


@dataclass(frozen=True, slots=True)
class Share:
    """What one AIV does of a block.

    Attributes:
        aiv: 0 or 1 of its AIC.
        s1, s2, rows, columns: its part, relative to the block.
        step_rows, step_columns: a full vector sub-tile.
    """

    aiv: int
    s1: int
    s2: int
    rows: int
    columns: int
    step_rows: int
    step_columns: int

    @property
    def strips(self) -> int:
        """Strips of rows."""
        return ceil_div(self.rows, self.step_rows)

    @property
    def across(self) -> int:
        """Sub-tiles in each strip."""
        return ceil_div(self.columns, self.step_columns)

    @property
    def sub_tiles(self) -> int:
        """Vector sub-tiles."""
        return self.strips * self.across

    def sizes(self) -> Iterator[tuple[int, int, int]]:
        """Yield (rows, columns, how many) of its sub-tiles."""
        for rows, down in pieces(self.rows, self.step_rows):
            for columns, across in pieces(self.columns, self.step_columns):
                yield rows, columns, down * across


def shares(rows: int, columns: int, cut: Cut, step_rows: int, step_columns: int) -> tuple[Share, ...]:
    """Return what each AIV does of a block: one share, or two of which one may be empty.

    Of strips AIV 0 takes half, rounded down, AIV 1 the rest; of rows that are halved AIV 0 takes one more.
    """
    if cut == "none":
        return (Share(0, 0, 0, rows, columns, step_rows, step_columns),)
    if cut in ("rows", "halves"):
        strips = ceil_div(rows, step_rows) // AIV_PER_AIC * step_rows
        first = strips if cut == "rows" else ceil_div(rows, AIV_PER_AIC)
        return (
            Share(0, 0, 0, first, columns, step_rows, step_columns),
            Share(1, first, 0, rows - first, columns, step_rows, step_columns),
        )
    first = ceil_div(columns, step_columns) // AIV_PER_AIC * step_columns
    return (
        Share(0, 0, 0, rows, first, step_rows, step_columns),
        Share(1, 0, first, rows, columns - first, step_rows, step_columns),
    )


def vector_step(call: FagCall, tiling: FagTiling, columns: int) -> tuple[int, int]:
    """Return (rows, columns) of the vector sub-tiles of a block with so many columns.

    SameAB's kernel chooses them for each block, unless the call prescribes some. S1s2Bn2gs1s2's kernel takes strips as
    wide as SameAB's in ND, of as many elements as the host's tile has (not with the row term in two buffers).
    """
    tiles = tiling.tiles
    step = tiles.vec_s1 or 1, tiles.vec_s2 or 1
    has_bytes = call.mask is not None or call.has_drop
    cv_s1, cv_s2 = tiles.cv_s1 or 1, tiles.cv_s2 or 1
    if tiling.template in _LAST_TEMPLATES and not tiles.is_row_ping_pong:
        elements = step[0] * step[1]
        return vector_tile(cv_s1, columns, is_nz=False, has_mask_or_drop=has_bytes, elements=elements)
    if tiling.key_fields is None or not tiling.key_fields.is_same_ab:
        return step
    is_own = step == vector_tile(cv_s1, cv_s2, is_nz=tiles.is_score_nz, has_mask_or_drop=has_bytes)
    return vector_tile(cv_s1, columns, is_nz=tiles.is_score_nz, has_mask_or_drop=has_bytes) if is_own else step
