"""Rows as lines whose columns stand below each other."""

from collections.abc import Iterator, Sequence


def aligned(rows: Sequence[Sequence[object]], left: frozenset[int] = frozenset({0})) -> Iterator[str]:
    """Yield rows as aligned lines; columns in `left` are text, the others numbers."""
    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    for row in cells:
        parts = [c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        yield ("  " + "  ".join(parts)).rstrip()
