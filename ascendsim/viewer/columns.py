"""Columns of whole numbers as bytes that compress well: what the page's `data.js` undoes.

A column is written as differences where those are small, each number folded to one without a sign (0, -1, 1, -2
become 0, 1, 2, 3), and then byte by byte: first the lowest byte of all numbers, then the next. What is the same from
row to row is then zeros side by side.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[Any]
_LEVEL = 6
"""Of compression."""
_ALIGN = 8


@dataclass(frozen=True, slots=True)
class Column:
    """Whole numbers, and whether their differences are written instead of them."""

    values: Ints
    as_steps: bool = False


def packed(head: Mapping[str, Any], columns: Mapping[str, Column]) -> bytes:
    """Return a page's data, compressed: the length of the head, the head as JSON, the columns.

    Args:
        head: what is no column; "columns" is added, [name, count, bytes of a number, whether steps].
        columns: by name.
    """
    parts, table = [], []
    for name, column in columns.items():
        count, width, content = _encoded(column)
        parts.append(content)
        table.append([name, count, width, int(column.as_steps)])
    text = json.dumps({**head, "columns": table}, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", errors="replace"
    )
    text += b" " * (-len(text) % _ALIGN)
    return zlib.compress(b"".join([len(text).to_bytes(_ALIGN, "little"), text, *parts]), _LEVEL)


def _encoded(column: Column) -> tuple[int, int, bytes]:
    """(count, bytes of a number, content)."""
    values = column.values.astype(np.int64)
    if column.as_steps:
        values = np.diff(values, prepend=0)
    folded = ((values << 1) ^ (values >> 63)).astype("<u8")
    width = max(1, -(-int(folded.max(initial=0)).bit_length() // 8))
    planes = folded.view(np.uint8).reshape(-1, 8)[:, :width]
    return len(values), width, np.ascontiguousarray(planes.T).tobytes()
