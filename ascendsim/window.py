"""Which rows of a run are kept: all of a short one; of a long one the first and last calls, and chosen windows."""

from collections.abc import Sequence

import numpy as np

from ascendsim.engine.base import Keep
from ascendsim.errors import InputError
from ascendsim.program import Program

Window = tuple[int, int]
"""First and last cycle."""

WHOLE_ROWS = 1_000_000
"""Up to so many rows all are kept, about 120 bytes each."""
EDGE_ROWS = 100_000
"""Rows of a longer run that are kept at either end."""


def rows_to_keep(program: Program, windows: Sequence[Window] = (), whole_rows: int = WHOLE_ROWS) -> Keep | None:
    """Return which rows of a program to keep, None for all.

    Of a long one that is what happens in the windows, and for every core as many first and last calls as give about
    EDGE_ROWS rows at either end, at least one; of a call that is longer than that, its first and last rows.
    """
    if len(program) <= whole_rows:
        return None
    core, order = program.calls["core"], np.argsort(program.calls["core"], kind="stable")
    lengths = np.array([len(t) for t in program.templates], np.int64)[program.calls["template"]]
    bounds = np.searchsorted(core[order], np.arange(program.core_count + 1))
    budget = EDGE_ROWS // program.core_count
    kept = np.zeros(len(core), np.bool_)
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        mine = order[begin:end]
        kept[mine[: _calls_of(lengths[mine], budget)]] = True
        kept[mine[len(mine) - _calls_of(lengths[mine[::-1]], budget) :]] = True
    return Keep(kept, tuple(windows), _ends(program, budget))


def _ends(program: Program, rows: int) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """So many first and last rows of every template, for those that are longer than both; None if there are none."""
    lengths = [len(t) for t in program.templates]
    if max(lengths, default=0) <= 2 * rows:
        return None
    parts = [np.arange(length) for length in lengths]
    return np.concatenate([((at < rows) | (at >= len(at) - rows)).astype(np.int64) for at in parts])


def _calls_of(lengths: np.ndarray[tuple[int], np.dtype[np.int64]], rows: int) -> int:
    """How many of these calls have at most so many rows, at least one."""
    return max(min(1, len(lengths)), int(np.searchsorted(np.cumsum(lengths), rows, side="right")))


def parse_window(text: str, clock_mhz: int) -> Window:
    """Turn "1000:2000" (cycles) or "2us:3.5us" into cycles.

    Raises:
        InputError: not two times, or the second is not after the first.
    """
    first, colon, last = text.partition(":")
    try:
        window = _cycle(first, clock_mhz), _cycle(last, clock_mhz)
    except (ValueError, OverflowError):
        window = (-1, -1)
    if not colon or window[0] < 0:
        raise InputError(f"--trace-window {text}: want FIRST:LAST in cycles or us, such as 1000:2000 or 2us:3.5us")
    if window[1] <= window[0]:
        raise InputError(
            f"--trace-window {text}: the end must come after the begin; in cycles it is {window[0]}:{window[1]}"
        )
    return window


def check_windows(windows: object) -> None:
    """Raise InputError for what is no list of windows."""
    if not isinstance(windows, Sequence) or isinstance(windows, str):
        raise InputError(f"windows = {windows!r}: want pairs of cycles, such as [(1000, 2000)]")
    for window in windows:
        is_pair = isinstance(window, Sequence) and not isinstance(window, str) and len(window) == 2
        if not is_pair or not all(isinstance(cycle, int) for cycle in window) or not 0 <= window[0] < window[1]:
            raise InputError(f"window {window!r}: want (first, last) in whole cycles, first at least 0 and below last")


def _cycle(text: str, clock_mhz: int) -> int:
    if text.strip().endswith("us"):
        return round(float(text.strip().removesuffix("us")) * clock_mhz)
    return int(text)
