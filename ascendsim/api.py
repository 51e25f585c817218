"""One API call on one AIV: arrays in, result out, as if the tensors already lay in UB."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ascendsim.check import check_program
from ascendsim.device import Device, Platform, load_device
from ascendsim.dtypes import UINT8, DType, from_numpy
from ascendsim.errors import InputError, Rejected
from ascendsim.execute import execute
from ascendsim.machine import ENGINES, in_order, schedule, stop_on_errors
from ascendsim.memory import Bytes, LocalTensor
from ascendsim.op_host.softmax import (
    SoftMaxTiling,
    get_soft_max_grad_max_tmp_size,
    get_soft_max_grad_min_tmp_size,
    soft_max_grad_tiling_func,
)
from ascendsim.op_kernel.softmax_grad import SoftMaxShapeInfo
from ascendsim.op_kernel.softmax_grad import softmax_grad as grad_kernel
from ascendsim.op_kernel.softmax_grad import softmax_grad_front as front_kernel
from ascendsim.record import AiCore, record
from ascendsim.result import RunResult
from ascendsim.terms import DATABLOCK_BYTES, TPosition, align_up

Array = NDArray[Any]
TmpBytes = int | Literal["framework"] | None

CAPACITY = ("E-CAP-UB", "E-CAP-UB-HW", "W-CAP-UB-SAFE")
"""Findings that do not stop a single call: it answers what one call does, whatever else lies in UB."""


def softmax_grad(
    grad: Array,
    src: Array,
    soc: str | Platform = "Ascend910B1",
    *,
    is_front: bool = False,
    data_format: str = "ND",
    ori_shape: tuple[int, int] | None = None,
    tmp_bytes: TmpBytes = None,
    tiling: SoftMaxTiling | None = None,
    reuse_source: bool = False,
) -> RunResult:
    """Run SoftmaxGrad on arrays as they lie in UB.

    Args:
        grad: [m, k] (more leading axes are folded), half or float; the gradient that reaches softmax.
        src: softmax's output, like grad. The last axis must be a multiple of 32 B.
        soc: part, or a Platform.
        is_front: only the row sums, one datablock each.
        data_format: "ND"; NZ is not in this version.
        ori_shape: (rows, columns) that are data, None for all.
        tmp_bytes: shared temp in bytes; "framework" takes what the tensors leave of UB; None the maximum that fits,
            at least the minimum.
        tiling: None for the host function's. One of another shape makes the kernel re-tile.
        reuse_source: put dst on src.

    Returns:
        outputs["dst"]: src's shape, or [m, one datablock] with is_front; unwritten bytes are 0xFF.

    Raises:
        InputError: arrays that the call cannot take.
        Rejected: the call breaks a rule (capacity excepted).
    """
    return _call("softmax_grad", grad, src, soc, is_front, data_format, ori_shape, tmp_bytes, tiling, reuse_source)


def softmax_grad_front(
    grad: Array,
    src: Array,
    soc: str | Platform = "Ascend910B1",
    *,
    data_format: str = "ND",
    ori_shape: tuple[int, int] | None = None,
    tmp_bytes: TmpBytes = None,
    tiling: SoftMaxTiling | None = None,
    is_basic_block: bool = False,
) -> RunResult:
    """Run SoftmaxGradFront on arrays as they lie in UB; arguments as `softmax_grad`.

    Raises:
        InputError: arrays that the call cannot take, or is_basic_block, which is not in this version.
    """
    if is_basic_block:
        raise InputError("is_basic_block=True is not simulated in this version; leave it False")
    return _call("softmax_grad_front", grad, src, soc, True, data_format, ori_shape, tmp_bytes, tiling, False)


def _call(
    api: str,
    grad: Array,
    src: Array,
    soc: str | Platform,
    is_front: bool,
    data_format: str,
    ori_shape: tuple[int, int] | None,
    tmp_bytes: TmpBytes,
    tiling: SoftMaxTiling | None,
    reuse_source: bool,
) -> RunResult:
    device = load_device(soc)
    if data_format != "ND":
        raise InputError(f"data_format={data_format!r}: only ND is simulated in this version")
    grad2, src2, element = _as_matrices(grad, src)
    m, k = src2.shape
    tensors, tmp_length = _place(device, element, (m, k), is_front, tmp_bytes, reuse_source)
    used_tiling = tiling or soft_max_grad_tiling_func((m, k), element.bytes, tmp_length, is_front)
    shape = SoftMaxShapeInfo(m, k, *(ori_shape or (m, k)))

    def kernel(asc: AiCore) -> None:
        dst, g, s, tmp = (tensors[n] for n in ("dst", "grad", "src", "tmp"))
        if api == "softmax_grad":
            grad_kernel(asc, dst, g, s, tmp, used_tiling, is_front, shape)
        else:
            front_kernel(asc, dst, g, s, tmp, used_tiling, shape)

    recording = record(kernel, device, 1, (), ())
    findings = in_order((*recording.findings, *check_program(recording.program, device)))
    stop_on_errors(tuple(f for f in findings if f.code not in CAPACITY), despite_findings=False)
    if not recording.complete:
        raise Rejected(findings)
    ub = Bytes(max(device.ub_bytes, *(t.address_bytes + t.allocation_bytes for t in tensors.values())))
    _fill(ub, tensors["grad"], grad2)
    _fill(ub, tensors["src"], src2)
    execution = execute(recording.program, device, (), log_core=0, ub=ub)
    out_shape = (m, element.per_datablock) if is_front else (*src.shape[:-1], k)
    dst = tensors["dst"]
    raw = ub.content[dst.start_bytes : dst.start_bytes + dst.allocation_bytes]
    return RunResult(
        name=api,
        device=device,
        program=recording.program,
        timeline=schedule(recording.program, device, next(iter(ENGINES)), "model"),
        outputs={"dst": raw.view(element.numpy).reshape(out_shape).copy()},
        findings=in_order((*findings, *execution.findings)),
        scenario={"api": api, "shape": [m, k], "dtype": element.name, "is_front": is_front, "tmp_bytes": tmp_length},
        log=execution.log,
    )


def _as_matrices(grad: Array, src: Array) -> tuple[Array, Array, DType]:
    g, s = np.asarray(grad), np.asarray(src)
    element = from_numpy(s.dtype)
    if g.dtype != s.dtype or g.shape != s.shape:
        raise InputError(f"grad is {g.dtype} {list(g.shape)}, src {s.dtype} {list(s.shape)}: must be equal")
    if s.ndim < 1 or s.size == 0:
        raise InputError(f"src has shape {list(s.shape)}: at least one axis and one element are needed")
    return g.reshape(-1, s.shape[-1]), s.reshape(-1, s.shape[-1]), element


def _place(
    device: Device,
    element: DType,
    shape: tuple[int, int],
    is_front: bool,
    tmp_bytes: TmpBytes,
    reuse_source: bool,
) -> tuple[dict[str, LocalTensor], int]:
    """Lay grad, src, dst and the temp into UB one behind the other; return them and the temp's length."""
    m, k = shape
    size = m * k * element.bytes
    lengths = {"grad": size, "src": size, "dst": m * DATABLOCK_BYTES if is_front else size}
    tensors: dict[str, LocalTensor] = {}
    at = 0
    for name, length in lengths.items():
        if name == "dst" and reuse_source and not is_front:
            tensors[name] = tensors["src"]
            continue
        tensors[name] = LocalTensor(name, TPosition.VECCALC, element, at, length)
        at = align_up(at + length, DATABLOCK_BYTES)
    tmp_length = _tmp_length(device, element, shape, is_front, tmp_bytes, at)
    tensors["tmp"] = LocalTensor("tmp", TPosition.VECCALC, UINT8, at, tmp_length)
    return tensors, tmp_length


def _tmp_length(
    device: Device, element: DType, shape: tuple[int, int], is_front: bool, tmp_bytes: TmpBytes, at: int
) -> int:
    if tmp_bytes == "framework":
        left = device.ub.pop_stack_end_bytes.value - at
        if left <= 0:
            raise InputError(f"tmp_bytes='framework': the tensors take {at} B, no UB is left for the framework's temp")
        return left
    low = get_soft_max_grad_min_tmp_size(shape, element.bytes, is_front, device.npu_arch)
    if tmp_bytes is None:
        high = get_soft_max_grad_max_tmp_size(shape, element.bytes, is_front, device.npu_arch)
        left = (device.ub.safe_bytes.value - at) // DATABLOCK_BYTES * DATABLOCK_BYTES
        return max(low, min(high, left))
    if tmp_bytes <= 0:
        raise InputError(f'tmp_bytes={tmp_bytes}: must be positive, or "framework", or None for the maximum that fits')
    return int(tmp_bytes)


def _fill(ub: Bytes, tensor: LocalTensor, values: Array) -> None:
    raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    place = slice(tensor.start_bytes, tensor.start_bytes + raw.size)
    ub.content[place] = raw
    ub.written[place] = True
