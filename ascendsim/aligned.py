"""Rows as lines whose columns stand below each other."""

from collections.abc import Container, Iterator, Sequence

_FIRST = frozenset({0})


def columns(rows: Sequence[Sequence[str]], left: Container[int] = _FIRST) -> Iterator[str]:
    """Yield rows as lines; columns in `left` begin below each other, the others end below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        yield "  ".join(cells).rstrip()


def aligned(rows: Sequence[Sequence[object]], left: Container[int] = _FIRST) -> Iterator[str]:
    """Yield rows as indented lines; columns in `left` are text, the others numbers."""
    texts = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    yield from (f"  {line}".rstrip() for line in columns(texts, left))
