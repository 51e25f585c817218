"""Tensors with real addresses, and the bytes behind them.

A `LocalTensor` is a typed window into a memory of the core, a `GlobalTensor` one into GM; both are plain values that a
kernel indexes as AscendC does (`tensor[offset]`, in elements). `Bytes` is memory during execution: content, plus which
bytes were ever written. A fresh byte is 0xFF and unwritten ("poison"), so that reading it is seen. `Lanes` says which
elements or bytes of a window an instruction touches.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from operator import index
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ascendsim.dtypes import DType, dtype
from ascendsim.terms import CacheMode, TPosition, align_up

POISON = 0xFF
"""Content of a byte that nobody wrote."""

GM_BASE_BYTES = 0x1200_0000_0000
"""Address of the first GM tensor; any 512 B aligned value would do."""

GM_ALIGN_BYTES = 512
"""GM tensors start on this boundary, as the runtime's allocator gives them (asc-devkit, GM alignment page)."""

MOST_AXES = 4
"""Axes of a grid of lanes: those of a matrix in fractals."""


FRAMEWORK_TMP = "framework_tmp"
"""Name of the temp that PopStackBuffer hands out: all of UB behind the queues, of which only what is touched counts."""


RESERVED_TMP = "reserved_tmp"
"""Name of the UB at the reserved offset that some library calls use; it is no part of what a kernel occupies."""


@dataclass(frozen=True, slots=True)
class LocalTensor:
    """A typed window into an on-chip memory, from `offset_bytes` of its allocation to the allocation's end.

    Attributes:
        name: what findings, logs and pictures call the allocation.
        position: its role; the device says which memory plays it.
        address_bytes: address of the allocation's first byte in that memory.
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
        at = self.offset_bytes + index(offset) * self.dtype.bytes
        return LocalTensor(
            self.name, self.position, self.dtype, self.address_bytes, self.allocation_bytes, at, self.que
        )

    def reinterpret_cast(self, element: DType | str) -> "LocalTensor":
        """Return the same bytes seen as another element type, given as DType or by name ("float")."""
        return replace(self, dtype=dtype(element))

    def with_size(self, count: int) -> "LocalTensor":
        """Return the window that ends behind `count` elements, where AscendC's SetSize changes the tensor."""
        return replace(self, allocation_bytes=self.offset_bytes + index(count) * self.dtype.bytes)

    @property
    def start_bytes(self) -> int:
        """Address of the window's first byte in its memory."""
        return self.address_bytes + self.offset_bytes

    @property
    def count(self) -> int:
        """Elements from the window's start to the end of the allocation."""
        return (self.allocation_bytes - self.offset_bytes) // self.dtype.bytes


@dataclass(frozen=True, slots=True)
class GlobalTensor:
    """A typed window into a GM tensor, from `offset_bytes` to its end.

    Attributes:
        index: position in the program's list of GM tensors.
        base_bytes: GM address of the tensor's first byte.
        shape: the whole tensor's shape.
        cache_mode: whether accesses through this window go through L2.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    index: int
    base_bytes: int
    offset_bytes: int = 0
    cache_mode: CacheMode = CacheMode.CACHE_MODE_NORMAL

    def __getitem__(self, offset: int) -> "GlobalTensor":
        """Return the window that starts `offset` elements later."""
        at = self.offset_bytes + index(offset) * self.dtype.bytes
        return GlobalTensor(self.name, self.dtype, self.shape, self.index, self.base_bytes, at, self.cache_mode)

    def with_l2_cache_hint(self, cache_mode: CacheMode) -> Self:
        """Return the same window with another way to memory: CACHE_MODE_DISABLE leaves L2 out.

        A tensor is a value here, so this returns one where AscendC's SetL2CacheHint changes it.
        Source: asc-devkit docs, GlobalTensor SetL2CacheHint page.
        """
        return replace(self, cache_mode=CacheMode(cache_mode))

    def reinterpret_cast(self, element: DType | str) -> "GlobalTensor":
        """Return the same bytes seen as another element type, in one row, as a second SetGlobalBuffer gives them."""
        kind = dtype(element)
        shape = (self.tensor_bytes // kind.bytes,)
        return GlobalTensor(self.name, kind, shape, self.index, self.base_bytes, self.offset_bytes, self.cache_mode)

    @property
    def tensor_bytes(self) -> int:
        """Length of the whole tensor."""
        return prod(self.shape) * self.dtype.bytes

    @property
    def count(self) -> int:
        """Elements from the window's start to the end of the tensor."""
        return (self.tensor_bytes - self.offset_bytes) // self.dtype.bytes

    @property
    def address_bytes(self) -> int:
        """GM address of the window's first byte."""
        return self.base_bytes + self.offset_bytes


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


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return different numbers in ascending order: what np.unique gives, which takes several times as long."""
    ordered = np.sort(numbers, axis=None)
    changes = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=changes[1:])
    found: NDArray[np.int64] = ordered[changes]
    return found


@dataclass(frozen=True, eq=False)
class Lanes:
    """Offsets from the start of a window, in elements or in bytes, in the order in which they are used.

    Attributes:
        first: the offset of lane [0, 0, ..].
        shape: lanes along each axis, the last one moving fastest.
        strides: from one lane to the next along each axis: offset [i, j] is first + i * strides[0] + j * strides[1].
        table: every offset, where they form no such grid.
    """

    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    table: NDArray[np.int64] | None = None

    @classmethod
    def run(cls, count: int, first: int = 0) -> "Lanes":
        """Return `count` neighbouring offsets."""
        return _grid(first, (count,), (1,))

    @classmethod
    def grid(cls, first: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> "Lanes":
        """Return a grid; the same one for the same numbers. An axis that runs on without a gap joins the last."""
        while len(shape) > 1 and (shape[-2] == 1 or strides[-2] == shape[-1] * strides[-1]):
            shape, strides = (*shape[:-2], shape[-2] * shape[-1]), (*strides[:-2], strides[-1])
        return _grid(first, shape, strides)

    @classmethod
    def at(cls, offsets: NDArray[Any]) -> "Lanes":
        """Return these offsets, as a grid if they form one."""
        axes = _axes(offsets)
        if axes is None:
            return cls(0, (offsets.size,), (), np.asarray(offsets, np.int64))
        shape, strides = axes
        return _grid(int(offsets[0]) if offsets.size else 0, shape, strides)

    @property
    def size(self) -> int:
        """How many lanes."""
        return prod(self.shape)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Every offset, 1-D."""
        if self.table is not None:
            return self.table
        at = np.array(self.first, np.int64)
        for axis, (length, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            steps = np.arange(length, dtype=np.int64) * stride
            at = at + steps.reshape(length, *(1,) * (len(self.shape) - axis - 1))
        return at.reshape(-1)

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Lowest offset and end; (0, 0) without lanes."""
        if self.size == 0:
            return 0, 0
        if self.table is not None:
            return int(self.table.min()), int(self.table.max()) + 1
        spans = [(length - 1) * stride for length, stride in zip(self.shape, self.strides, strict=True)]
        return self.first + sum(min(0, s) for s in spans), self.first + sum(max(0, s) for s in spans) + 1

    @cached_property
    def meets_itself(self) -> bool:
        """Whether two lanes lie on the same offset, as with a repeat stride of 0."""
        if self.table is None:
            axes = sorted((abs(s), n) for n, s in zip(self.shape, self.strides, strict=True) if n > 1)
            apart = [stride > reach for (stride, _), reach in zip(axes, _reaches(axes), strict=True)]
            if all(apart):
                return False
        return distinct(self.offsets).size < self.size

    def of_bytes(self, width: int) -> "Lanes":
        """Return the byte offsets of all bytes of these elements, `width` bytes each."""
        return _of_bytes(self, width)

    def select(self, chosen: NDArray[np.bool_]) -> "Lanes":
        """Return some of the lanes."""
        return Lanes.at(self.offsets[chosen])


@lru_cache(maxsize=4096)
def _grid(first: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Lanes:
    return Lanes(first, shape, strides)


@lru_cache(maxsize=4096)
def _of_bytes(lanes: Lanes, width: int) -> Lanes:
    if lanes.table is not None:
        return Lanes.at((lanes.table[:, None] * width + np.arange(width)).reshape(-1))
    return Lanes.grid(lanes.first * width, (*lanes.shape, width), (*(s * width for s in lanes.strides), 1))


def _reaches(axes: list[tuple[int, int]]) -> Iterator[int]:
    """How far the axes of smaller stride reach, for each of these (stride, lanes), which are sorted by stride."""
    reach = 0
    for stride, lanes in axes:
        yield reach
        reach += stride * (lanes - 1)


def _axes(offsets: NDArray[Any]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Shape and strides of offsets that form a grid of up to three axes, else None."""
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    while len(shape) < MOST_AXES:
        if offsets.size <= 1:
            return (shape, strides) if shape else ((offsets.size,), (1,))
        steps = np.diff(offsets)
        breaks = np.flatnonzero(steps != steps[0])
        length = int(breaks[0]) + 1 if breaks.size else offsets.size
        if offsets.size % length:
            return None
        rows = offsets.reshape(-1, length)
        if (rows - rows[:, :1] != rows[0] - rows[0, 0]).any():
            return None
        shape, strides = (length, *shape), (int(steps[0]), *strides)
        offsets = rows[:, 0]
    return (shape, strides) if offsets.size == 1 else None


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

    def reset(self) -> None:
        """Forget everything: all bytes poison and unwritten."""
        self.content.fill(POISON)
        self.written.fill(False)

    def typed(self, dtype: DType) -> NDArray[Any]:
        """Return the whole memory seen as elements of `dtype`; a tail shorter than one element is left out."""
        view = self.views.get(dtype.code)
        if view is None:
            whole = self.content.size // dtype.bytes * dtype.bytes
            view = self.content[:whole].view(dtype.numpy)
            self.views[dtype.code] = view
        return view
