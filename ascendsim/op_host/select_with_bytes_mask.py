"""SelectWithBytesMask (the high-level Select) on the host: temp-buffer bytes.

Source: asc-devkit docs, GetSelectMaxMinTmpSize page; asc-devkit, selectwithbytesmask tiling (host).
"""

from collections.abc import Sequence
from math import prod

from ascendsim.dtypes import HALF
from ascendsim.terms import DATABLOCK_BYTES, align_up

LEAST_TMP_BYTES = 1024
"""Temp that the kernel asks for, whatever the shape."""
CHUNK_ELEMENTS = 4096
"""Elements that the minimum provides for at once."""
_SPARE_BYTES = 512
"""What a temp has beside one half for each element."""


def get_select_with_bytes_mask_min_tmp_size(
    src_shape: Sequence[int], mask_shape: Sequence[int], mask_type_size: int, *, is_reuse_mask: bool
) -> int:
    """Return the least temp bytes of SelectWithBytesMask: a half for each of at most 4096 elements, and 512 B.

    Args:
        src_shape: axes of the source that is a tensor [elements].
        mask_shape: axes of the mask [elements].
        mask_type_size: bytes of an element of the mask.
        is_reuse_mask: the call may change the mask; otherwise a mask of longer rows is copied to temp.

    Source: asc-devkit, selectwithbytesmask tiling (host).
    """
    elements = min(prod(src_shape), CHUNK_ELEMENTS)
    return _tmp_size(elements, src_shape, mask_shape, 0 if is_reuse_mask else mask_type_size)


def get_select_with_bytes_mask_max_tmp_size(
    src_shape: Sequence[int], mask_shape: Sequence[int], mask_type_size: int, *, is_reuse_mask: bool
) -> int:
    """Return CANN's largest temp bytes for SelectWithBytesMask: a half for each element, and 512 B.

    With it a call works in one pass up to 32640 elements, which is as many as a pass ever has.

    Args:
        src_shape: axes of the source that is a tensor [elements].
        mask_shape: axes of the mask [elements].
        mask_type_size: bytes of an element of the mask.
        is_reuse_mask: the call may change the mask; otherwise a mask of longer rows is copied to temp.

    Source: asc-devkit, selectwithbytesmask tiling (host).
    """
    return _tmp_size(prod(src_shape), src_shape, mask_shape, 0 if is_reuse_mask else mask_type_size)


def _tmp_size(elements: int, src_shape: Sequence[int], mask_shape: Sequence[int], copied_bytes: int) -> int:
    """Temp for a chunk of `elements`, and `copied_bytes` for each element of a mask whose rows are longer."""
    chunk = align_up(elements, DATABLOCK_BYTES) * HALF.bytes + _SPARE_BYTES
    is_longer = mask_shape[-1] != src_shape[-1] and mask_shape[-1] > 1
    copy = align_up(prod(src_shape) * copied_bytes, DATABLOCK_BYTES) if is_longer else 0
    return max(LEAST_TMP_BYTES, chunk) + copy
