"""DropOut on the host: temp-buffer bytes.

Source: asc-devkit docs, GetDropOutMaxMinTmpSize page; asc-devkit, dropout tiling (host).
"""

from collections.abc import Sequence
from math import prod

from ascendsim.dtypes import FLOAT
from ascendsim.terms import REPEAT_BYTES

MIN_TMP_BYTES = 2 * REPEAT_BYTES
"""The least temp of every call."""


def get_drop_out_min_tmp_size() -> int:
    """Return the least temp bytes of DropOut: two repeats, whatever the shape.

    Source: asc-devkit, dropout tiling (host).
    """
    return MIN_TMP_BYTES


def get_drop_out_max_tmp_size(shape: Sequence[int]) -> int:
    """Return CANN's largest temp bytes for DropOut: two floats for each element, at least the minimum.

    With a mask of bytes float elements take 6 B of temp and half ones 2 B, so a call uses no more than that; with a
    mask of bits it uses 256 B.

    Args:
        shape: axes of the source [elements].

    Source: asc-devkit, dropout tiling (host).
    """
    return max(MIN_TMP_BYTES, 2 * FLOAT.bytes * prod(shape))
