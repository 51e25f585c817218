"""How big SoftmaxGrad's temp must and may be, what fits beside the tensors, and what each size costs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ascendsim.device import Device
from ascendsim.dtypes import UINT8, DType
from ascendsim.errors import InputError
from ascendsim.machine import predict_cycles
from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import (
    SOFTMAX_GRAD_ARCHS,
    SoftMaxTiling,
    cann_outcome_tmp_size,
    fitting_tmp_size,
    get_soft_max_grad_max_tmp_size,
    get_soft_max_grad_min_tmp_size,
    soft_max_grad_tiling_func,
)
from ascendsim.op_kernel.softmax_grad import softmax_grad
from ascendsim.record import AiCore, record
from ascendsim.terms import DATABLOCK_BYTES, TPosition, align_up

MODELLED_TILES = 24
"""A call of more tiles is predicted from this many: tiles of one height follow each other at a fixed distance."""


@dataclass(frozen=True, slots=True)
class TmpChoice:
    """One temp size: the tiling it gives, and the predicted cycles of one call (None: no row fits in temp or UB)."""

    tmp_bytes: int
    tiling: SoftMaxTiling
    cycles: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers for JSON."""
        return {"tmp_bytes": self.tmp_bytes, "tiling": asdict(self.tiling), "cycles": self.cycles}


@dataclass(frozen=True, slots=True)
class TmpSize:
    """The answer for one shape.

    Attributes:
        tensor_bytes: grad, src and dst together.
        left_bytes: what they leave of UB under the safe limit; negative if they do not fit.
        choices: "min", "max", and "fits" (the largest that fits beside the tensors), where they exist.
        largest_tile_m: rows that fit into UB together with their minimum temp.
        wrapped: CANN's 32-bit arithmetic overflowed on the way; its numbers are what it would return, and useless.
    """

    shape: tuple[int, ...]
    dtype: str
    is_front: bool
    npu_arch: int
    min_bytes: int
    max_bytes: int
    tensor_bytes: int
    left_bytes: int | None
    largest_tile_m: int | None
    choices: dict[str, TmpChoice]
    wrapped: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers for JSON."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "choices"}
        return plain | {"shape": list(self.shape), "choices": {n: c.to_dict() for n, c in self.choices.items()}}


def softmax_grad_tmp_size(
    shape: Sequence[int], element: DType, is_front: bool, npu_arch: int, device: Device | None
) -> TmpSize:
    """Return temp sizes of SoftmaxGrad for a shape; with a device also what fits, and predicted cycles.

    Raises:
        InputError: a shape or dtype that CANN refuses or logs an error for; the text says what CANN would do.
    """
    if any(axis < 1 for axis in shape):
        raise InputError(f"shape {list(shape)}: every axis must be at least 1")
    if npu_arch not in SOFTMAX_GRAD_ARCHS:
        known = ", ".join(map(str, SOFTMAX_GRAD_ARCHS))
        raise InputError(f"architecture {npu_arch} has no SoftmaxGrad; known: {known}")
    low = get_soft_max_grad_min_tmp_size(shape, element.bytes, is_front, npu_arch)
    high = get_soft_max_grad_max_tmp_size(shape, element.bytes, is_front, npu_arch)
    outcome = cann_outcome_tmp_size("GetSoftMaxGradMaxTmpSize", shape, element.bytes, is_front, npu_arch)
    k = shape[-1]
    m = 1
    for axis in shape[:-1]:
        m *= axis
    largest = None if device is None else _largest_tile(device, element, (m, k), is_front)
    timed = device if largest else None
    size = m * k * element.bytes
    tensors = 2 * size + (m * DATABLOCK_BYTES if is_front else size)
    left = None if device is None else device.ub.safe_bytes.value - tensors
    sizes = {"min": low, "max": high}
    if left is not None and left >= low:
        sizes["fits"] = fitting_tmp_size(shape, element.bytes, is_front, npu_arch, left)
    return TmpSize(
        shape=tuple(shape),
        dtype=element.name,
        is_front=is_front,
        npu_arch=npu_arch,
        min_bytes=low,
        max_bytes=high,
        tensor_bytes=tensors,
        left_bytes=left,
        largest_tile_m=largest,
        choices={n: _choice(timed, element, (m, k), is_front, b) for n, b in sizes.items()},
        wrapped=outcome.wrapped,
    )


def _largest_tile(device: Device, element: DType, shape: tuple[int, int], is_front: bool) -> int:
    """Rows that fit under the safe limit with grad, src, dst and the minimum temp."""
    m, k = shape
    low = get_soft_max_grad_min_tmp_size((1, k), element.bytes, is_front, device.npu_arch)
    row = 2 * k * element.bytes + (DATABLOCK_BYTES if is_front else k * element.bytes)
    return max(0, min(m, (device.ub.safe_bytes.value - low) // row))


def _choice(device: Device | None, element: DType, shape: tuple[int, int], is_front: bool, tmp_bytes: int) -> TmpChoice:
    tiling = soft_max_grad_tiling_func(shape, element.bytes, tmp_bytes, is_front)
    if device is None or tiling.split_m == 0:
        return TmpChoice(tmp_bytes, tiling, None)
    return TmpChoice(tmp_bytes, tiling, predicted_cycles(device, element, shape, is_front, tmp_bytes))


def predicted_cycles(device: Device, element: DType, shape: tuple[int, int], is_front: bool, tmp_bytes: int) -> int:
    """Return the cycles of one SoftmaxGrad call on tensors in UB (whether or not they fit there).

    Up to MODELLED_TILES tiles the whole call is scheduled; beyond, the distance of the last two tiles is continued.
    """
    tiling = soft_max_grad_tiling_func(shape, element.bytes, tmp_bytes, is_front)
    tiles = tiling.range_m
    if tiles <= MODELLED_TILES:
        return _call_cycles(device, element, tiling, is_front, tmp_bytes)
    longer = _call_cycles(device, element, _cut(tiling, MODELLED_TILES), is_front, tmp_bytes)
    shorter = _call_cycles(device, element, _cut(tiling, MODELLED_TILES - 1), is_front, tmp_bytes)
    return longer + (tiles - MODELLED_TILES) * (longer - shorter)


def _cut(tiling: SoftMaxTiling, tiles: int) -> SoftMaxTiling:
    """The same tiling over fewer full tiles, its tail kept."""
    m = tiles * tiling.split_m + tiling.tail_m
    plain = asdict(tiling) | {"src_m": m, "src_size": m * tiling.src_k, "out_max_m": m, "range_m": tiles}
    return SoftMaxTiling(**plain | {"out_max_size": m * tiling.out_max_k})


def _call_cycles(device: Device, element: DType, tiling: SoftMaxTiling, is_front: bool, tmp_bytes: int) -> int:
    size = align_up(tiling.src_size * element.bytes, DATABLOCK_BYTES)
    dst, grad, src = (
        LocalTensor(name, TPosition.VECCALC, element, i * size, size) for i, name in enumerate(("dst", "grad", "src"))
    )
    tmp = LocalTensor("tmp", TPosition.VECCALC, UINT8, 3 * size, tmp_bytes)

    def kernel(asc: AiCore) -> None:
        softmax_grad(asc, dst, grad, src, tmp, tiling, is_front)

    return predict_cycles(record(kernel, device, 1, (), ()).program, device)
