"""All templates of a program as one table of rows, and what of a row's run engines hand on."""

from enum import IntEnum, auto

import numpy as np

from ascendsim.engine.base import Ints, ScheduleInput
from ascendsim.terms import Pipe

PIPES = len(Pipe)
FOREVER = 1 << 62
"""A cycle that never comes."""


class Emit(IntEnum):
    """Columns of the rows that the compiled engine hands on as they end; see TIMELINE_COLUMNS."""

    NUMBER = 0
    CORE = auto()
    CALL = auto()
    HOT = auto()
    """Row of the table."""
    DISPATCHED = auto()
    START = auto()
    OCCUPIED = auto()
    END = auto()
    WAITED_FOR = auto()
    WAIT_CYCLES = auto()
    RELEASED_BY = auto()
    STRETCH_CYCLES = auto()
    L2_HIT = auto()
    STUCK_CYCLES = auto()


EMIT_WIDTH = len(Emit)


def template_starts(program: ScheduleInput) -> Ints:
    """Return the table row at which each template begins, and the number of rows at the end."""
    return np.concatenate([[0], np.cumsum([len(t) for t in program.templates], dtype=np.int64)]).astype(np.int64)
