"""Which lengths of a measurement an instruction can have at all: what lies beyond is not rebuilt, and takes no time."""

from collections.abc import Iterator

from ascendsim.device import Device
from ascendsim.fidelity.measured import Measured, Uncovered
from ascendsim.isa.mmad import MOST as MOST_MKN
from ascendsim.terms import MAX_REPEAT_TIMES

_DIGITS = 12
"""Of a number in words: more are no length of anything."""


def check_lengths(row: Measured, device: Device) -> None:
    """Refuse lengths below 1 or beyond what the memories of a core hold.

    Raises:
        Uncovered: one is; the text names it.
    """
    for name, value, most, why in _lengths(row, device):
        if value < 1:
            raise Uncovered(f"{name} {value}: nothing is worked on")
        if value > most:
            raise Uncovered(f"{name} {value}: {why}")


def _lengths(row: Measured, device: Device) -> Iterator[tuple[str, int, int, str]]:
    """What a row states: name, value, the most it can be, and what limits it."""
    ub, l1 = device.memory.ub_bytes.value, device.memory.l1_bytes.value
    sides = {"rows": row.rows, "cols": row.cols, "valid_rows": row.valid_rows, "valid_cols": row.valid_cols}
    for name, side in sides.items():
        if side is not None:
            yield name, side, ub, f"UB holds {ub} B"
    if row.rows is not None and row.cols is not None:
        yield "rows x cols", row.rows * row.cols, ub, f"UB holds {ub} B"
        yield "valid_rows", row.valid_rows or row.rows, row.rows, f"the tile has {row.rows} rows"
        yield "valid_cols", row.valid_cols or row.cols, row.cols, f"the tile has {row.cols} columns"
    if row.repeat is not None:
        yield "repeat", row.repeat, MAX_REPEAT_TIMES, f"an instruction has {MAX_REPEAT_TIMES} repeats at most"
    if row.mkn is not None:
        for name, side in zip("mkn", row.mkn, strict=True):
            yield name, side, MOST_MKN, f"Mmad takes {MOST_MKN} at most"
    elif row.bytes is not None:
        yield "bytes", row.bytes, l1, f"no memory of a core holds more than {l1} B"


def number_in(text: str, most: int, what: str) -> int:
    """Return digits that a measurement states in words as a number.

    Args:
        text: digits.
        most: the largest number that it can be.
        what: what it is, for the reason.

    Raises:
        Uncovered: it is larger.
    """
    if len(text) > _DIGITS or int(text) > most:
        raise Uncovered(f"{what} {text[: _DIGITS + 1]}: more than {most}")
    return int(text)
