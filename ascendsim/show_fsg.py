"""The answer of `ascendsim fsg` for the terminal, as lines."""

from collections.abc import Iterator

import numpy as np

from ascendsim.aligned import aligned
from ascendsim.fsg_answer import FsgAnswer
from ascendsim.op_host.fsg_tiling import FsgSample, FsgTiling
from ascendsim.show_estimate import in_all, opening
from ascendsim.show_reasons import finding_lines


def page(found: FsgAnswer) -> Iterator[str]:
    """Yield what the command prints, line by line."""
    yield from _head(found)
    if found.tiling is None:
        return
    yield from _tiling(found, found.tiling)
    yield from _load(found, found.tiling)
    yield from _map(found, found.tiling)
    if found.estimate:
        yield from _estimate(found)


def _head(found: FsgAnswer) -> Iterator[str]:
    params, report = found.params, found.report
    lengths = ", ".join(map(str, params.q_seq_len))
    yield f"{report.operation} headNum {params.head_num}, qSeqLen [{lengths}] on {report.soc}"
    yield f"{report.stage}: {report.error}" if found.report.refusal else f"accepted: {report.error}"
    if params.head_num > 0 and params.q_seq_len:
        yield f"nSquareTokens = {params.head_num} * {params.sum_of_squares:,} = {params.n_square_tokens:,}"
    for finding in found.findings:
        yield from finding_lines("error", finding)
    for note in report.notes:
        yield f"note: {note}"


def _tiling(found: FsgAnswer, t: FsgTiling) -> Iterator[str]:
    each = 2 * t.count
    yield f"yInput, yGrad and output of {each:,} B each; workspace {found.report.workspace_bytes} B"
    yield f"block dim {t.block_dim}, tiling data {t.tiling_bytes:,} B, shared temp {t.tmp_bytes:,} B"
    yield ""
    yield "Items; K padded row, tiles of the first and of the other cores, splitM of SoftmaxGrad in a tile"
    head = ("item", "n", "K", "rows", "tile rows", "left over", "tiles", "splitM", "first element", "UB B")
    yield from aligned((head, *(_sample(i, s, t) for i, s in enumerate(t.samples))))


def _sample(index: int, s: FsgSample, t: FsgTiling) -> tuple[object, ...]:
    tiles = f"{s.former_cores} x {s.former_tiles} + {s.latter_cores} x {s.latter_tiles}"
    return (
        index,
        s.seq,
        s.seq_aligned,
        s.outer_rows,
        s.tile_rows,
        s.tail_tile_rows,
        tiles,
        s.main.split_m,
        s.data_offset_elems,
        t.used_bytes(s),
    )


def _load(found: FsgAnswer, t: FsgTiling) -> Iterator[str]:
    tiles, elements = t.tiles(), t.elements()
    most, least = int(np.argmax(elements)), int(np.argmin(elements))
    few, many = min(tiles), max(tiles)
    spread = f"{few:,}" if few == many else f"{few:,} to {many:,}"
    yield ""
    yield f"Load of {t.block_dim} AIVs: {sum(tiles):,} tiles, of a core {spread}"
    yield (
        f"  busiest AIV {most} with {elements[most]:,} elements, idlest AIV {least} with {elements[least]:,}; "
        f"balance {found.balance:.3f}"
    )


def _map(found: FsgAnswer, t: FsgTiling) -> Iterator[str]:
    largest = max(range(len(t.samples)), key=lambda i: t.used_bytes(t.samples[i]))
    sample = t.samples[largest]
    used = t.used_bytes(sample)
    yield ""
    yield f"UB, item {largest}: {used:,} of {t.ub_bytes:,} B, {t.ub_bytes - used:,} B free"
    yield from aligned((("", "from", "B"), *((a.name, a.start_bytes, a.bytes) for a in found.areas(sample))))


def _estimate(found: FsgAnswer) -> Iterator[str]:
    device = found.device
    assert device is not None
    yield from opening("Estimate in cycles, from a few simulated tiles of each core", "fsg", device)
    head = ("item", "first tile", "a tile", "left over", "binds", "memory", "item")
    rows = ((i, e.first, e.tile, e.tail, e.binds, e.memory, e.cycles) for i, e in enumerate(found.estimate))
    yield from aligned((head, *rows))
    yield in_all(found.cycles, device)
