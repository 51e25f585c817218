"""Tiles that programs share: each program is the one that is recorded alone."""

import numpy as np
import pytest
from record_harness import DEVICE, local

from ascendsim.builder import SharedTiles
from ascendsim.device import load_device
from ascendsim.record import record, tile

X, Y = (local(n, "float", 1024 * i, 1024) for i, n in enumerate("xy"))


def both(kernel, shared, cores=2, arguments=()):
    """Recordings with what is shared, and alone; they agree in everything."""
    ours = record(kernel, DEVICE, cores, (), arguments, None, None, shared)
    alone = record(kernel, DEVICE, cores, (), arguments)
    assert ours.program.digest == alone.program.digest
    assert ours.program.lines == alone.program.lines
    assert ours.program.high_water_bytes == alone.program.high_water_bytes
    assert (ours.findings, ours.complete, ours.sources) == (alone.findings, alone.complete, alone.sources)
    for one, other in zip(ours.program.templates, alone.program.templates, strict=True):
        assert all(np.array_equal(one.columns[name], other.columns[name]) for name in one.columns)
    return ours


runs = []


@tile
def double(asc, dst, src, count):
    runs.append(count)
    with asc.trace("double"):
        asc.add(dst, src, src, count)


@tile
def as_many_as_blocks(asc, dst, src):
    asc.adds(dst, src, float(asc.get_block_num()), 64)


@tile
def too_long(asc, buf):
    asc.add(buf.get("float", 128), X, X, 64)


def test_a_tile_runs_once_for_all_programs():
    def kernel(asc, turns, count):
        for _ in range(turns):
            double(asc, Y, X, count)

    shared = SharedTiles(DEVICE)
    record(kernel, DEVICE, 2, (), (3, 64), None, None, shared)
    runs.clear()
    record(kernel, DEVICE, 5, (), (7, 64), None, None, shared)
    assert runs == []
    for cores, turns, count in ((1, 1, 64), (3, 2, 128), (2, 4, 64), (2, 4, 128)):
        both(kernel, shared, cores, (turns, count))


def test_what_came_before_counts():
    def one_way(asc):
        double(asc, Y, X, 64)
        double(asc, Y, X, 128)

    def other_way(asc):
        asc.set_mask_count()
        asc.set_mask_norm()
        double(asc, Y, X, 128)
        double(asc, Y, X, 64)

    shared = SharedTiles(DEVICE)
    for kernel in (one_way, other_way, one_way):
        both(kernel, shared)


def test_the_block_dim_counts_where_a_tile_asks_for_it():
    shared = SharedTiles(DEVICE)
    for cores in (1, 2, 3):
        both(lambda asc: as_many_as_blocks(asc, Y, X), shared, cores)
    assert not shared.tiles


def test_findings_come_with_every_program():
    shared = SharedTiles(DEVICE)

    def kernel(asc):
        pipe = asc.t_pipe()
        que = asc.t_buf(X.position, "buf")
        pipe.init_buffer(que, 1, 256)
        too_long(asc, que)

    for _ in range(2):
        assert both(kernel, shared).findings
    assert not shared.tiles


def test_of_another_device():
    shared = SharedTiles(load_device("Ascend910B2"))
    with pytest.raises(ValueError, match="tiles of Ascend910B2 are none of Ascend910B1"):
        record(lambda _: None, DEVICE, 1, (), (), None, None, shared)
