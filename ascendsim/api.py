"""One API call on one AIV: arrays in, result out, as if the tensors already lay in UB."""

from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks import check_program
from ascendsim.device import Device, Platform, load_device
from ascendsim.dtypes import FLOAT, UINT8, DType, from_numpy
from ascendsim.errors import Finding, InputError, Severity
from ascendsim.execute import execute
from ascendsim.inspection import Replay
from ascendsim.machine import in_order, non_finite, schedule, stop_on_errors
from ascendsim.memory import FRAMEWORK_TMP, Bytes, LocalTensor
from ascendsim.op_host.softmax import (
    SoftMaxTiling,
    fitting_tmp_size,
    row_sum_floats,
    soft_max_grad_tiling_func,
)
from ascendsim.op_kernel.softmax_grad import SoftMaxShapeInfo
from ascendsim.op_kernel.softmax_grad import softmax_grad as grad_kernel
from ascendsim.op_kernel.softmax_grad import softmax_grad_front as front_kernel
from ascendsim.program import Program
from ascendsim.record import AiCore, Kernel, record
from ascendsim.result import RunResult
from ascendsim.terms import DATABLOCK_BYTES, DEFAULT_SOC, NZ_COLUMNS, DataFormat, HalfOverflow, TPosition, align_up

Array = NDArray[Any]
TmpBytes = int | Literal["framework"] | None
Overflow = Literal["inf_nan", "saturate"]
Format = DataFormat | Literal["ND", "NZ"]

Filled = tuple[tuple[LocalTensor, Array], ...]
"""Tensors in UB with what they hold before a call."""

MOST_TMP_BYTES = 1 << 30
"""A temp beyond this lies outside every UB; bytes for it are not made."""

CAPACITY = ("E-CAP-UB", "E-CAP-UB-HW", "W-CAP-UB-SAFE")
"""Findings that do not stop a single call: it answers what one call does, whatever else lies in UB."""

BEHIND_TENSOR = "E-OOB-LOCAL"
"""A finding that leaves a single call a meaning: what it writes behind a tensor falls on what lies there."""


def softmax_grad(
    grad: Array,
    src: Array,
    soc: str | Platform = DEFAULT_SOC,
    *,
    is_front: bool = False,
    data_format: Format = "ND",
    ori_shape: tuple[int, int] | None = None,
    tmp_bytes: TmpBytes = None,
    tiling: SoftMaxTiling | None = None,
    reuse_source: bool = False,
    half_overflow: Overflow | None = None,
    despite_findings: bool = False,
) -> RunResult:
    """Run SoftmaxGrad on arrays as they lie in UB.

    Args:
        grad: [m, k] (more leading axes are folded), or [k / 16, m, 16] in NZ, half or float; the gradient that
            reaches softmax.
        src: softmax's output, like grad. In ND the last axis must be a multiple of 32 B.
        soc: part, or a Platform.
        is_front: only the row sums, one datablock each.
        data_format: "ND" or "NZ", how the arrays lie in UB.
        ori_shape: (rows, columns) that are data, None for all.
        tmp_bytes: shared temp in bytes; "framework" takes what the tensors leave of UB; None the maximum that fits,
            at least the minimum.
        tiling: None for the host function's. One of another shape makes the kernel re-tile.
        reuse_source: put dst on src.
        half_overflow: "inf_nan" or "saturate"; None for the device's.
        despite_findings: compute values although the call breaks a rule, where that has a meaning. What it writes
            behind a tensor then falls on the tensor that lies there (grad, src, dst, temp follow each other in UB).

    Returns:
        outputs["dst"]: src's shape, or [m, one datablock] with is_front; unwritten bytes are 0xFF.

    Raises:
        InputError: arrays that the call cannot take.
        Rejected: the call breaks a rule (capacity excepted).
    """
    options = _Options(
        is_front=is_front,
        data_format=_format(data_format),
        ori_shape=ori_shape,
        tmp_bytes=tmp_bytes,
        tiling=tiling,
        reuse_source=reuse_source,
        half_overflow=half_overflow,
        despite_findings=despite_findings,
    )
    return _call("softmax_grad", grad, src, soc, options)


def softmax_grad_front(
    grad: Array,
    src: Array,
    soc: str | Platform = DEFAULT_SOC,
    *,
    data_format: Format = "ND",
    ori_shape: tuple[int, int] | None = None,
    tmp_bytes: TmpBytes = None,
    tiling: SoftMaxTiling | None = None,
    is_basic_block: bool = False,
    half_overflow: Overflow | None = None,
    despite_findings: bool = False,
) -> RunResult:
    """Run SoftmaxGradFront on arrays as they lie in UB; arguments as `softmax_grad`.

    Args:
        grad: as `softmax_grad`, like all others but one.
        src: as `softmax_grad`.
        soc: as `softmax_grad`.
        data_format: as `softmax_grad`.
        ori_shape: as `softmax_grad`.
        tmp_bytes: as `softmax_grad`.
        tiling: as `softmax_grad`.
        is_basic_block: the shape is whole basic blocks (m % 8 == 0, k % 64 == 0, 256 B <= a row, k < 2048).
        half_overflow: as `softmax_grad`.
        despite_findings: as `softmax_grad`.

    Raises:
        InputError: arrays that the call cannot take.
        Rejected: the call breaks a rule (capacity excepted).
    """
    options = _Options(
        is_front=True,
        data_format=_format(data_format),
        ori_shape=ori_shape,
        tmp_bytes=tmp_bytes,
        tiling=tiling,
        is_basic_block=is_basic_block,
        half_overflow=half_overflow,
        despite_findings=despite_findings,
    )
    return _call("softmax_grad_front", grad, src, soc, options)


@dataclass(frozen=True, slots=True)
class _Options:
    """What both calls take beside their arrays."""

    is_front: bool
    data_format: DataFormat
    ori_shape: tuple[int, int] | None
    tmp_bytes: TmpBytes
    tiling: SoftMaxTiling | None
    half_overflow: Overflow | None
    despite_findings: bool
    reuse_source: bool = False
    is_basic_block: bool = False


def _call(api: str, grad: Array, src: Array, soc: str | Platform, options: _Options) -> RunResult:
    device = load_device(soc)
    overflow = _overflow(options.half_overflow)
    grad2, src2, element = _as_tensors(grad, src, options.data_format)
    m, k = _rows_and_columns(src2, options.data_format)
    is_front, data_format = options.is_front, options.data_format
    if is_front and options.reuse_source:
        raise InputError("reuse_source=True with is_front=True: the row sums are too short for src; leave one out")
    is_pair = isinstance(options.ori_shape, tuple | list) and len(options.ori_shape) == 2
    if options.ori_shape is not None and not (is_pair and all(isinstance(n, Integral) for n in options.ori_shape)):
        raise InputError(f"ori_shape={options.ori_shape}: must be (rows, columns) that hold data")
    tensors, tmp_length = _place(device, element, (m, k), options)
    tiling = options.tiling or soft_max_grad_tiling_func((m, k), element.bytes, tmp_length, is_front)
    shape = SoftMaxShapeInfo(m, k, *map(int, options.ori_shape or (m, k)))
    if not isinstance(tiling, SoftMaxTiling):
        raise InputError(f"tiling must be a SoftMaxTiling (soft_max_grad_tiling_func), got {type(tiling).__name__}")
    dst = tensors["dst"]

    def kernel(asc: AiCore) -> None:
        operands = (dst, tensors["grad"], tensors["src"], tensors["tmp"])
        if api == "softmax_grad":
            grad_kernel(asc, *operands, tiling, is_front, shape, data_format=data_format)
        else:
            basic = options.is_basic_block
            front_kernel(asc, *operands, tiling, shape, data_format=data_format, is_basic_block=basic)

    program, findings = _record(kernel, device, options.despite_findings)
    filled = ((tensors["grad"], grad2.copy()), (tensors["src"], src2.copy()))
    again = partial(_replay, program, device, overflow, filled)
    ub = _ub_of(program, device, filled)
    execution = execute(program, device, (), overflow=overflow, log_core=0, ub=ub)
    out_shape = (m, element.per_datablock) if is_front else np.shape(src)
    place = slice(dst.start_bytes, dst.start_bytes + dst.allocation_bytes)
    raw, written = ub.content[place], ub.written[place].reshape(-1, element.bytes).all(axis=1)
    result = raw.view(element.numpy).reshape(out_shape).copy()
    arrays = (
        ("input grad", grad2),
        ("input src", src2),
        ("output dst", np.where(written.reshape(result.shape), result, 0)),
    )
    findings += (*execution.findings, *(f for what, array in arrays for f in non_finite(what, array)))
    return RunResult(
        name=api,
        device=device,
        program=program,
        timeline=schedule(program, device),
        outputs={"dst": result},
        findings=in_order(findings),
        scenario={
            "api": api,
            "shape": [m, k],
            "dtype": element.name,
            "data_format": data_format.value,
            "is_front": is_front,
            "is_basic_block": options.is_basic_block,
            "tmp_bytes": tmp_length,
        },
        log=execution.log,
        replay=again,
        despite_findings=options.despite_findings and any(f.severity is Severity.ERROR for f in findings),
    )


def _ub_of(program: Program, device: Device, filled: Filled) -> Bytes:
    """UB as it is before the call: what is filled, the rest unwritten."""
    ub = Bytes(max(device.ub_bytes, _reach(program)))
    for tensor, array in filled:
        _fill(ub, tensor, array)
    return ub


def _replay(program: Program, device: Device, overflow: HalfOverflow | None, filled: Filled) -> Replay:
    """Make the call ready to be executed row by row."""
    return Replay(program, device, (), overflow, _ub_of(program, device, filled))


def _overflow(mode: str | None) -> HalfOverflow | None:
    if mode is not None and mode not in [m.value for m in HalfOverflow]:
        raise InputError(f'half_overflow={mode!r}: must be "inf_nan", "saturate" or None')
    return None if mode is None else HalfOverflow(mode)


def _format(data_format: Format) -> DataFormat:
    if isinstance(data_format, DataFormat):
        return data_format
    if data_format not in [f.value for f in DataFormat]:
        raise InputError(f'data_format={data_format!r}: must be "ND" or "NZ"')
    return DataFormat(data_format)


def _record(kernel: Kernel, device: Device, despite_findings: bool) -> tuple[Program, tuple[Finding, ...]]:
    """Record and check; capacity findings do not stop a single call."""
    recording = record(kernel, device, 1, (), ())
    checked = check_program(
        recording.program,
        device,
        is_complete=recording.complete,
        with_lifetimes=False,
        known=recording.findings,
    )
    findings = in_order((*recording.findings, *checked))
    harmless = (*CAPACITY, BEHIND_TENSOR) if despite_findings else CAPACITY
    stopping = tuple(f for f in findings if f.code not in harmless)
    stop_on_errors(stopping, despite_findings and recording.complete)
    return recording.program, findings


def _reach(program: Program) -> int:
    """Highest UB byte that the program touches or that its tensors own, plus one."""
    ends = [program.ub_high_water_bytes]
    for template in program.templates:
        for row in template.rows:
            operands = dict(row.operands)
            for role, _, end in row.touched:
                operand = operands[role]
                tensor = template.tensors[operand.tensor]
                ends += [tensor.address_bytes + tensor.tensor_bytes, tensor.address_bytes + operand.offset_bytes + end]
    return max(ends)


def _rows_and_columns(array: Array, data_format: DataFormat) -> tuple[int, int]:
    """Rows and columns of a tensor as it lies in UB."""
    if data_format is DataFormat.ND:
        return array.shape[0], array.shape[1]
    return array.shape[1], array.shape[0] * NZ_COLUMNS


def _as_tensors(grad: Array, src: Array, data_format: DataFormat) -> tuple[Array, Array, DType]:
    """Both arrays as they lie in UB: [m, k], or [k / 16, m, 16] in NZ."""
    g, s = np.asarray(grad), np.asarray(src)
    element = from_numpy(s.dtype)
    if g.dtype != s.dtype or g.shape != s.shape:
        raise InputError(f"grad is {g.dtype} {list(g.shape)}, src {s.dtype} {list(s.shape)}: must be equal")
    if s.ndim < 1 or s.size == 0:
        raise InputError(f"src has shape {list(s.shape)}: at least one axis and one element are needed")
    if data_format is DataFormat.ND:
        return g.reshape(-1, s.shape[-1]), s.reshape(-1, s.shape[-1]), element
    if s.ndim != 3 or s.shape[-1] != NZ_COLUMNS:
        raise InputError(f"src has shape {list(s.shape)}: in NZ it must be [k / 16, m, 16]")
    return g, s, element


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
        fitting = fitting_tmp_size(shape, element.bytes, options.is_front, device.npu_arch, left)
        if device.has("vector_function") and options.data_format is DataFormat.NZ:  # what NZ works in, front or not
            fitting = max(fitting, row_sum_floats(shape[0], is_front=False) * FLOAT.bytes)
        return fitting
    wanted: Any = tmp_bytes  # NumPy's whole numbers, too
    if not isinstance(wanted, int | np.integer) or wanted is True or not 0 < wanted <= MOST_TMP_BYTES:
        raise InputError(
            f'tmp_bytes={tmp_bytes!r}: must be 1 .. {MOST_TMP_BYTES}, or "framework", or None for the maximum that fits'
        )
    return int(wanted)


def _fill(ub: Bytes, tensor: LocalTensor, values: Array) -> None:
    raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    place = slice(tensor.start_bytes, tensor.start_bytes + raw.size)
    ub.content[place] = raw
    ub.written[place] = True
