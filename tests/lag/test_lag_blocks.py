"""Which blocks LaserAttentionGrad computes: every needed block exactly once, places, and how even it is."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.op_host.lag_blocks import BLOCKS_PER_CORE, BlockMap, Part
from ascendsim.op_host.lag_params import MapKind

TRIANGLES = (MapKind.TRIANGLE, MapKind.UNFOLDED)


def plain(kind, size, window=0, batches=1, heads=1, cores=1, columns=None):
    return BlockMap(kind, batches, heads, size, columns or size, window, cores)


def every_segment(blocks):
    for turn in range(blocks.rounds):
        for core in range(blocks.cores):
            yield turn, core, blocks.segments(turn, core)


@st.composite
def maps(draw):
    kind = draw(st.sampled_from(list(MapKind)))
    size = 2 * draw(st.integers(1, 14))
    window = size
    if kind is MapKind.TRAPEZOID:
        size += 2
        window = 2 * draw(st.integers(1, size // 2 - 1))
    columns = 2 * draw(st.integers(1, 14)) if kind is MapKind.DENSE else size
    counts = draw(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 9)))
    return BlockMap(kind, counts[0], counts[1], size, columns, window, counts[2])


def needed(blocks):
    for batch in range(blocks.batches):
        for head in range(blocks.heads):
            for row in range(blocks.score_rows):
                for column in range(blocks.score_columns):
                    if blocks.kind is MapKind.DENSE or row - blocks.window <= column <= row:
                        yield batch, head, row, column


@settings(max_examples=80, deadline=None)
@given(maps())
def test_every_needed_block_is_computed_exactly_once(blocks):
    seen = Counter()
    for _, _, segments in every_segment(blocks):
        for segment in segments:
            for block in segment.blocks():
                assert block.has_diagonal == (blocks.kind is not MapKind.DENSE and block.row == block.column)
                seen[segment.batch, segment.head, block.row, block.column] += not block.is_skipped
    assert {at for at, count in seen.items() if count} == set(needed(blocks))
    assert max(seen.values()) == 1


@settings(max_examples=80, deadline=None)
@given(maps())
def test_segments_fill_the_area_of_a_core_without_gaps(blocks):
    slots = 0
    for _, _, segments in every_segment(blocks):
        places = [block.slot for segment in segments for block in segment.blocks()]
        assert places == list(range(len(places)))
        assert len(places) <= BLOCKS_PER_CORE
        slots += len(places)
        for one, next_one in pairwise(segments):
            assert (one.batch, one.head, one.strip, one.part) < (
                next_one.batch, next_one.head, next_one.strip, next_one.part
            )  # fmt: skip
    assert slots == blocks.total_blocks


@settings(max_examples=60, deadline=None)
@given(maps())
def test_counts_of_a_segment_are_those_of_its_blocks(blocks):
    for _, _, segments in every_segment(blocks):
        for segment in segments:
            found = list(segment.blocks())
            assert segment.computed_blocks == sum(not block.is_skipped for block in found)
            assert segment.diagonals == sum(block.has_diagonal for block in found)
            assert segment.left_edges == sum(block.has_left_edge for block in found)
            columns = {block.column for block in found if not block.is_skipped}
            assert segment.computed_columns == len(columns)
            for line in range(segment.lines):
                own = [block.is_skipped for block in found if block.line == line]
                assert own == [False] * segment.computed(line) + [True] * (segment.columns - segment.computed(line))


@settings(max_examples=40, deadline=None)
@given(maps())
def test_sums_per_core_are_those_of_a_plain_walk(blocks):
    wanted = [0] * blocks.cores
    for _, core, segments in every_segment(blocks):
        wanted[core] += sum(segment.row + segment.computed_blocks for segment in segments)
    found = blocks.per_core(lambda segments: sum(s.row + s.computed_blocks for s in segments))
    assert found.tolist() == wanted


def test_the_strips_of_a_triangle_complete_each_other():
    even = plain(MapKind.TRIANGLE, 8)
    assert [even.parts(strip) for strip in range(2)] == [(Part(4, 0, 6), Part(2, 0, 4)), (Part(6, 0, 8), Part(0, 0, 2))]
    odd = plain(MapKind.TRIANGLE, 6)
    assert [odd.parts(strip) for strip in range(2)] == [(Part(2, 0, 4), Part(0, 0, 2)), (Part(4, 0, 6),)]


def test_the_corner_of_a_window_is_folded():
    window = plain(MapKind.TRAPEZOID, 8, window=4)
    assert [window.parts(line) for line in range(6)] == [
        (Part(2, 0, 3), Part(1, 0, 2)), (Part(3, 0, 4), Part(0, 0, 1)),
        (Part(4, 0, 5),), (Part(5, 1, 5),), (Part(6, 2, 5),), (Part(7, 3, 5),),
    ]  # fmt: skip


def test_blocks_of_a_strip_are_numbered_column_by_column():
    """16 blocks are eight columns of two rows; a core's area holds the upper row's eight, then the lower's."""
    blocks = plain(MapKind.DENSE, 16, cores=2)
    (segment,) = blocks.segments(0, 1)
    assert (segment.row, segment.column, segment.columns) == (0, 8, 8)
    assert [block.slot for block in segment.blocks() if block.column == 9] == [1, 9]
    assert blocks.segments(1, 0)[0].row == 2


@pytest.mark.parametrize("size", [16, 32, 64])
def test_a_folded_triangle_takes_half_the_rounds_of_an_unfolded_one(size):
    folded, unfolded = (plain(kind, size, size, heads=8, cores=24) for kind in TRIANGLES)
    computed = [sum(block for block in _computed(blocks)) for blocks in (folded, unfolded)]
    assert computed[0] == computed[1] == 8 * size * (size + 1) // 2
    assert folded.rounds < 0.7 * unfolded.rounds
    assert _balance(folded) >= _balance(unfolded)


def _computed(blocks):
    return blocks.per_core(lambda segments: sum(segment.computed_blocks for segment in segments))


def _balance(blocks):
    computed = _computed(blocks)
    return computed.mean() / computed.max()
