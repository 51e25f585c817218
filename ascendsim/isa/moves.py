"""The execution of what `layout` says a move takes: elements, and a padding value where there is no source."""

import numpy as np

from ascendsim.isa.instruction import Context, Row, Step, in_turn
from ascendsim.layout import PADDING, Moves
from ascendsim.memory import Lanes


def run_moves(ctx: Context, row: Row, moves: Moves, element_bytes: int, pad_bits: int = 0) -> Step | None:
    """Return what moves elements of so many bytes and writes padding; None if there is nothing to do."""
    assert row.dst is not None
    assert row.src0 is not None
    there = moves.src != PADDING
    steps = []
    if there.any():
        dst, src = (Lanes.at(at[there]).of_bytes(element_bytes) for at in (moves.dst, moves.src))
        steps.append(ctx.mover(row.dst, dst, row.src0, src))
    if not there.all():
        at = Lanes.at(moves.dst[~there]).of_bytes(element_bytes)
        value = np.frombuffer((pad_bits & 0xFFFFFFFF).to_bytes(4, "little")[:element_bytes], np.uint8)
        steps.append(ctx.filler(row.dst, at, np.tile(value, at.size // element_bytes)))
    return in_turn(steps) if steps else None
