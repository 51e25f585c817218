"""Tensors with real addresses, and the bytes behind them.

A `LocalTensor` is a typed window into UB, a `GlobalTensor` one into GM; both are plain values that a kernel indexes as
AscendC does (`tensor[offset]`, in elements). `Bytes` is memory during execution: content, plus which bytes were ever
written. A fresh byte is 0xFF and unwritten ("poison"), so that reading it is seen.
"""

from dataclasses import dataclass, replace
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.dtypes import DType, dtype
from ascendsim.terms import Buffer, TPosition, align_up

POISON = 0xFF
"""Content of a byte that nobody wrote."""

GM_BASE_BYTES = 0x1200_0000_0000
"""Address of the first GM tensor; any 512 B aligned value would do."""

GM_ALIGN_BYTES = 512
"""GM tensors start on this boundary, as the runtime's allocator gives them (asc-devkit, GM alignment page)."""


FRAMEWORK_TMP = "framework_tmp"
"""Name of the temp that PopStackBuffer hands out: all of UB behind the queues, of which only what is touched counts."""


@dataclass(frozen=True, slots=True)
class LocalTensor:
    """A typed window into UB, from `offset_bytes` of its allocation to the allocation's end.

    Attributes:
        name: what findings, logs and pictures call the allocation.
        address_bytes: UB address of the allocation's first byte.
        allocation_bytes: length of the allocation.
        offset_bytes: where this window starts inside the allocation.
        que: index of the queue or TBuf it came from, -1 for none.
    """

    name: str
    position: TPosition
    dtype: DType
    address_bytes: int
    allocation_bytes: int
    offset_bytes: int = 0
    que: int = -1

    def __getitem__(self, offset: int) -> "LocalTensor":
        """Return the window that starts `offset` elements later, as `tensor[offset]` in AscendC."""
        return replace(self, offset_bytes=self.offset_bytes + index(offset) * self.dtype.bytes)

    def reinterpret_cast(self, element: DType | str) -> "LocalTensor":
        """Return the same bytes seen as another element type, given as DType or by name ("float")."""
        return replace(self, dtype=dtype(element))

    @property
    def start_bytes(self) -> int:
        """UB address of the window's first byte."""
        return self.address_bytes + self.offset_bytes

    @property
    def count(self) -> int:
        """Elements from the window's start to the end of the allocation."""
        return (self.allocation_bytes - self.offset_bytes) // self.dtype.bytes

    @property
    def buffer(self) -> Buffer:
        """UB."""
        return self.position.buffer


@dataclass(frozen=True, slots=True)
class GlobalTensor:
    """A typed window into a GM tensor, from `offset_bytes` to its end.

    Attributes:
        index: position in the program's list of GM tensors.
        base_bytes: GM address of the tensor's first byte.
        shape: the whole tensor's shape.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    index: int
    base_bytes: int
    offset_bytes: int = 0

    def __getitem__(self, offset: int) -> "GlobalTensor":
        """Return the window that starts `offset` elements later."""
        return replace(self, offset_bytes=self.offset_bytes + index(offset) * self.dtype.bytes)

    @property
    def tensor_bytes(self) -> int:
        """Length of the whole tensor."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.bytes

    @property
    def count(self) -> int:
        """Elements from the window's start to the end of the tensor."""
        return (self.tensor_bytes - self.offset_bytes) // self.dtype.bytes

    @property
    def address_bytes(self) -> int:
        """GM address of the window's first byte."""
        return self.base_bytes + self.offset_bytes

    @property
    def buffer(self) -> Buffer:
        """GM."""
        return Buffer.GM


Tensor = LocalTensor | GlobalTensor


def place_in_gm(tensors: list[tuple[str, DType, tuple[int, ...]]]) -> tuple[GlobalTensor, ...]:
    """Give GM tensors of these names, dtypes and shapes their addresses, in order, each on a 512 B boundary."""
    placed = []
    at = GM_BASE_BYTES
    for number, (name, element, shape) in enumerate(tensors):
        tensor = GlobalTensor(name, element, shape, number, at)
        placed.append(tensor)
        at = align_up(at + tensor.tensor_bytes, GM_ALIGN_BYTES)
    return tuple(placed)


class Bytes:
    """A memory during execution: content and, for every byte, whether it was ever written."""

    __slots__ = ("content", "views", "written")

    def __init__(self, length_bytes: int) -> None:
        self.content: NDArray[np.uint8] = np.full(length_bytes, POISON, np.uint8)
        self.written: NDArray[np.bool_] = np.zeros(length_bytes, np.bool_)
        self.views: dict[int, NDArray[Any]] = {}

    @classmethod
    def of(cls, array: NDArray[Any]) -> "Bytes":
        """Return a memory that holds a copy of the array, all of it written."""
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        memory = cls(raw.size)
        memory.content[:] = raw
        memory.written[:] = True
        return memory

    def typed(self, dtype: DType) -> NDArray[Any]:
        """Return the whole memory seen as elements of `dtype`; a tail shorter than one element is left out."""
        view = self.views.get(dtype.code)
        if view is None:
            whole = self.content.size // dtype.bytes * dtype.bytes
            view = self.content[:whole].view(dtype.numpy)
            self.views[dtype.code] = view
        return view
