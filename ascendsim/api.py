"""One API call on one AIV: arrays in, result out, as if the tensors already lay in UB."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks import check_program
from ascendsim.device import Device, Platform, load_device
from ascendsim.dtypes import UINT8, DType, from_numpy
from ascendsim.errors import Finding, InputError
from ascendsim.execute import execute
from ascendsim.machine import in_order, non_finite, schedule, stop_on_errors
from ascendsim.memory import FRAMEWORK_TMP, Bytes, LocalTensor
from ascendsim.op_host.softmax import (
    SoftMaxTiling,
    fitting_tmp_size,
    soft_max_grad_tiling_func,
)
from ascendsim.op_kernel.softmax_grad import SoftMaxShapeInfo
from ascendsim.op_kernel.softmax_grad import softmax_grad as grad_kernel
from ascendsim.op_kernel.softmax_grad import softmax_grad_front as front_kernel
from ascendsim.program import Program
from ascendsim.record import AiCore, Kernel, record
from ascendsim.result import RunResult
from ascendsim.terms import DATABLOCK_BYTES, HalfOverflow, TPosition, align_up

Array = NDArray[Any]
TmpBytes = int | Literal["framework"] | None
Overflow = Literal["inf_nan", "saturate"]

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
    half_overflow: Overflow | None = None,
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
        half_overflow: "inf_nan" or "saturate"; None for the device's.

    Returns:
        outputs["dst"]: src's shape, or [m, one datablock] with is_front; unwritten bytes are 0xFF.

    Raises:
        InputError: arrays that the call cannot take.
        Rejected: the call breaks a rule (capacity excepted).
    """
    options = _Options(is_front, data_format, ori_shape, tmp_bytes, tiling, reuse_source, half_overflow)
    return _call("softmax_grad", grad, src, soc, options)


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
    half_overflow: Overflow | None = None,
) -> RunResult:
    """Run SoftmaxGradFront on arrays as they lie in UB; arguments as `softmax_grad`.

    Raises:
        InputError: arrays that the call cannot take, or is_basic_block, which is not in this version.
    """
    if is_basic_block:
        raise InputError("is_basic_block=True is not simulated in this version; leave it False")
    options = _Options(True, data_format, ori_shape, tmp_bytes, tiling, False, half_overflow)
    return _call("softmax_grad_front", grad, src, soc, options)


@dataclass(frozen=True, slots=True)
class _Options:
    """What both calls take beside their arrays."""

    is_front: bool
    data_format: str
    ori_shape: tuple[int, int] | None
    tmp_bytes: TmpBytes
    tiling: SoftMaxTiling | None
    reuse_source: bool
    half_overflow: Overflow | None


def _call(api: str, grad: Array, src: Array, soc: str | Platform, options: _Options) -> RunResult:
    device = load_device(soc)
    if options.data_format != "ND":
        raise InputError(f"data_format={options.data_format!r}: only ND is simulated in this version")
    overflow = _overflow(options.half_overflow)
    grad2, src2, element = _as_matrices(grad, src)
    m, k = src2.shape
    is_front = options.is_front
    if is_front and options.reuse_source:
        raise InputError("reuse_source=True with is_front=True: the row sums are too short for src; leave one out")
    if options.ori_shape is not None and len(options.ori_shape) != 2:
        raise InputError(f"ori_shape={options.ori_shape}: must be (rows, columns) that hold data")
    tensors, tmp_length = _place(device, element, (m, k), options)
    tiling = options.tiling or soft_max_grad_tiling_func((m, k), element.bytes, tmp_length, is_front)
    shape = SoftMaxShapeInfo(m, k, *(options.ori_shape or (m, k)))
    dst = tensors["dst"]

    def kernel(asc: AiCore) -> None:
        operands = (dst, tensors["grad"], tensors["src"], tensors["tmp"])
        if api == "softmax_grad":
            grad_kernel(asc, *operands, tiling, is_front, shape)
        else:
            front_kernel(asc, *operands, tiling, shape)

    program, findings = _record(kernel, device)
    ub = Bytes(max(device.ub_bytes, *(t.address_bytes + t.allocation_bytes for t in tensors.values())))
    _fill(ub, tensors["grad"], grad2)
    _fill(ub, tensors["src"], src2)
    execution = execute(program, device, (), overflow=overflow, log_core=0, ub=ub)
    out_shape = (m, element.per_datablock) if is_front else np.shape(src)
    raw = ub.content[dst.start_bytes : dst.start_bytes + dst.allocation_bytes]
    result = raw.view(element.numpy).reshape(out_shape).copy()
    arrays = (("input grad", grad2), ("input src", src2), ("output dst", result))
    findings += (*execution.findings, *(f for what, array in arrays for f in non_finite(what, array)))
    return RunResult(
        name=api,
        device=device,
        program=program,
        timeline=schedule(program, device),
        outputs={"dst": result},
        findings=in_order(findings),
        scenario={"api": api, "shape": [m, k], "dtype": element.name, "is_front": is_front, "tmp_bytes": tmp_length},
        log=execution.log,
    )


def _overflow(mode: str | None) -> HalfOverflow | None:
    if mode is not None and mode not in [m.value for m in HalfOverflow]:
        raise InputError(f'half_overflow={mode!r}: must be "inf_nan", "saturate" or None')
    return None if mode is None else HalfOverflow(mode)


def _record(kernel: Kernel, device: Device) -> tuple[Program, tuple[Finding, ...]]:
    """Record and check; capacity findings do not stop a single call."""
    recording = record(kernel, device, 1, (), ())
    findings = in_order((*recording.findings, *check_program(recording.program, device)))
    stop_on_errors(tuple(f for f in findings if f.code not in CAPACITY), despite_findings=False)
    return recording.program, findings


def _as_matrices(grad: Array, src: Array) -> tuple[Array, Array, DType]:
    g, s = np.asarray(grad), np.asarray(src)
    element = from_numpy(s.dtype)
    if g.dtype != s.dtype or g.shape != s.shape:
        raise InputError(f"grad is {g.dtype} {list(g.shape)}, src {s.dtype} {list(s.shape)}: must be equal")
    if s.ndim < 1 or s.size == 0:
        raise InputError(f"src has shape {list(s.shape)}: at least one axis and one element are needed")
    return g.reshape(-1, s.shape[-1]), s.reshape(-1, s.shape[-1]), element


def _place(
    device: Device, element: DType, shape: tuple[int, int], options: _Options
) -> tuple[dict[str, LocalTensor], int]:
    """Lay grad, src, dst and the temp into UB one behind the other; return them and the temp's length."""
    m, k = shape
    size = m * k * element.bytes
    lengths = {"grad": size, "src": size, "dst": m * DATABLOCK_BYTES if options.is_front else size}
    tensors: dict[str, LocalTensor] = {}
    at = 0
    for name, length in lengths.items():
        if name == "dst" and options.reuse_source and not options.is_front:
            tensors[name] = tensors["src"]
            continue
        tensors[name] = LocalTensor(name, TPosition.VECCALC, element, at, length)
        at = align_up(at + length, DATABLOCK_BYTES)
    tmp_length = _tmp_length(device, element, shape, options, at)
    name = FRAMEWORK_TMP if options.tmp_bytes == "framework" else "tmp"
    tensors["tmp"] = LocalTensor(name, TPosition.VECCALC, UINT8, at, tmp_length)
    return tensors, tmp_length


def _tmp_length(device: Device, element: DType, shape: tuple[int, int], options: _Options, at: int) -> int:
    tmp_bytes = options.tmp_bytes
    if tmp_bytes == "framework":
        left = device.ub.pop_stack_end_bytes.value - at
        if left <= 0:
            raise InputError(f"tmp_bytes='framework': the tensors take {at} B, no UB is left for the framework's temp")
        return left
    if tmp_bytes is None:
        left = device.ub.safe_bytes.value - at
        return fitting_tmp_size(shape, element.bytes, options.is_front, device.npu_arch, left)
    if not isinstance(tmp_bytes, int) or tmp_bytes <= 0:
        raise InputError(
            f'tmp_bytes={tmp_bytes!r}: must be positive, or "framework", or None for the maximum that fits'
        )
    return int(tmp_bytes)


def _fill(ub: Bytes, tensor: LocalTensor, values: Array) -> None:
    raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    place = slice(tensor.start_bytes, tensor.start_bytes + raw.size)
    ub.content[place] = raw
    ub.written[place] = True
