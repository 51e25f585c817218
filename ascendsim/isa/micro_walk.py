"""What a vector function's body uses: lanes whose values count, memory, and the order that results need."""

from collections.abc import Callable, Sequence

import numpy as np

from ascendsim.isa.instruction import MemoryUse, MicroKind, MicroRow, Operand
from ascendsim.isa.micro_table import lane_elements, memory_elements, set_lanes
from ascendsim.terms import DATABLOCKS_PER_REPEAT


def wanted_lanes(rows: Sequence[MicroRow]) -> list[int]:
    """Return for each virtual register the lanes on which some store depends, as bits."""
    wanted = [0] * sum(row.op.results for row in rows)
    for row in reversed(rows):
        for source, lanes in zip(row.sources, _asked(row, wanted), strict=True):
            wanted[source] |= lanes
    return wanted


def _asked(row: MicroRow, wanted: list[int]) -> tuple[int, ...]:
    """Lanes of each source that a row needs, given what is wanted of its own result."""
    if row.op.kind is MicroKind.STORE:
        return (row.mask,) * len(row.sources)
    result = wanted[row.register] if row.register >= 0 else 0
    match row.op.name:
        case "reg_reduce_sum":
            return (row.mask if result & 1 else 0,)
        case "reg_reduce_sum_datablock":
            per = row.src_dtype.per_datablock
            blocks = (b for b in range(DATABLOCKS_PER_REPEAT) if result >> b & 1)
            return (row.mask & sum(((1 << per) - 1) << per * b for b in blocks),)
        case "reg_dup_lane0":
            return (1 if result & row.mask else 0,)
    return (result & row.mask,) * len(row.sources)


def loaded_lanes(row: MicroRow, wanted: list[int]) -> tuple[int, ...]:
    """Lanes of each register that a load has to fill."""
    return tuple(wanted[row.register + i] for i in range(row.op.results))


def memory_of(row: MicroRow, wanted: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Elements, from the operand's start, that a load needs or a store writes."""
    if row.op.kind is MicroKind.STORE:
        return memory_elements(row.op.name, row.dtype.code, row.mask)
    parts = zip(lane_elements(row.op.name, row.dtype), loaded_lanes(row, wanted), strict=True)
    picked = [elements[set_lanes(lanes & (1 << len(elements)) - 1)] for elements, lanes in parts]
    return np.unique(np.concatenate(picked))


def uses_of(rows: Sequence[MicroRow]) -> tuple[MemoryUse, ...]:
    """Return what a body touches: one entry for each tensor it loads from, and each it stores to."""
    wanted = wanted_lanes(rows)
    spans: dict[tuple[bool, int], tuple[Operand, int, int]] = {}
    for row in rows:
        if row.memory is None:
            continue
        elements = memory_of(row, wanted)
        key = (row.op.kind is MicroKind.STORE, row.memory.tensor)
        operand, first, end = spans.get(key, (Operand(row.memory.tensor, 0, row.memory.dtype), 0, 0))
        if elements.size:
            width = row.dtype.bytes
            low = row.memory.offset_bytes + int(elements[0]) * width
            high = row.memory.offset_bytes + (int(elements[-1]) + 1) * width
            first, end = (low, high) if end == 0 else (min(first, low), max(end, high))
        spans[key] = (operand, first, end)
    stored = [span for (is_store, _), span in spans.items() if is_store]
    loaded = [span for (is_store, _), span in spans.items() if not is_store]
    roles = [("dst" if i == 0 else f"dst{i}", span) for i, span in enumerate(stored)]
    roles += [(f"src{i}", span) for i, span in enumerate(loaded)]
    return tuple(MemoryUse(role, *span) for role, span in roles)


def levels_of(rows: Sequence[MicroRow], wanted: list[int], address: Callable[[Operand], int]) -> list[int]:
    """Return a level for each row: rows of one level depend on none of each other, and on lower levels only.

    Memory counts as the bytes between the first and the last that a row touches: two rows that meet there keep their
    order unless both load.

    Args:
        rows: the body.
        wanted: from `wanted_lanes`.
        address: where an operand starts, in bytes of one address space.
    """
    spans = [_span(row, wanted, address) for row in rows]
    low = min((span[0] for span in spans if span), default=0)
    high = max((span[1] for span in spans if span), default=0)
    loaded, stored = np.zeros(high - low, np.int32), np.zeros(high - low, np.int32)
    ready: list[int] = []
    levels = []
    for row, span in zip(rows, spans, strict=True):
        is_store = row.op.kind is MicroKind.STORE
        level = 1 + max((ready[s] for s in row.sources), default=0)
        if span is not None:
            at = slice(span[0] - low, span[1] - low)
            level = max(level, 1 + int(stored[at].max()), 1 + int(loaded[at].max()) if is_store else 0)
            seen = stored if is_store else loaded
            seen[at] = np.maximum(seen[at], level)
        ready += [level] * row.op.results
        levels.append(level)
    return levels


def _span(row: MicroRow, wanted: list[int], address: Callable[[Operand], int]) -> tuple[int, int] | None:
    """First byte and end of what a row touches, None for nothing."""
    if row.memory is None:
        return None
    elements = memory_of(row, wanted)
    if not elements.size:
        return None
    start, width = address(row.memory), row.dtype.bytes
    return start + int(elements[0]) * width, start + (int(elements[-1]) + 1) * width
