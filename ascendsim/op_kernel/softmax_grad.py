"""SoftmaxGrad and SoftmaxGradFront for tensors in UB: arguments, checks, and the choice of the instruction sequence.

dst = (grad - rowsum(grad * src)) * src, or only the row sums (front). Rows are worked off in tiles of `split_m` rows.
The sequences stand in a module each: `softmax_grad_nd`, `softmax_grad_basic_block`, `softmax_grad_nz` for vector units
that work on memory, `softmax_grad_register` and `softmax_grad_vector_function` for those that work on registers.

Marked steps carry the names of the public page's "implementation principle": mul, reducesum, broadcast, sub, mul.
Sources: asc-devkit docs, SoftmaxGrad and SoftmaxGradFront pages; instruction sequences observed from the real library
(docs/provenance.md).
"""

from collections.abc import Callable
from dataclasses import replace

from ascendsim.dtypes import FLOAT
from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import SoftMaxTiling
from ascendsim.op_kernel.softmax_grad_basic_block import softmax_grad_front_basic_block
from ascendsim.op_kernel.softmax_grad_call import Call, SoftMaxShapeInfo
from ascendsim.op_kernel.softmax_grad_checks import check_arguments, need_tile, retile
from ascendsim.op_kernel.softmax_grad_nd import softmax_grad_front_nd, softmax_grad_nd
from ascendsim.op_kernel.softmax_grad_nz import softmax_grad_nz
from ascendsim.op_kernel.softmax_grad_register import softmax_grad_register
from ascendsim.op_kernel.softmax_grad_surprises import check_surprises
from ascendsim.op_kernel.softmax_grad_vector_function import (
    softmax_grad_vector_function,
    softmax_grad_vector_function_nz,
)
from ascendsim.record import AiCore
from ascendsim.terms import DataFormat

__all__ = ["SoftMaxShapeInfo", "softmax_grad", "softmax_grad_front"]

GRAD, FRONT = "SoftmaxGrad", "SoftmaxGradFront"
"""AscendC's names of the two calls; marked steps carry them."""

Sequence = Callable[[AiCore, Call], None]
"""The instructions of a whole call."""


def softmax_grad(
    asc: AiCore,
    dst: LocalTensor,
    grad: LocalTensor,
    src: LocalTensor,
    shared_tmp_buffer: LocalTensor | None,
    tiling: SoftMaxTiling,
    is_front: bool = False,
    shape_info: SoftMaxShapeInfo | None = None,
    *,
    data_format: DataFormat | str = DataFormat.ND,
) -> None:
    """SoftmaxGrad: dst = (grad - rowsum(grad * src)) * src; with is_front only the row sums, one datablock each.

    Args:
        asc: the core.
        dst: [src_m, src_k] of src's dtype, [src_k / 16, src_m, 16] in NZ; with is_front [src_m, one datablock].
        grad: as dst without is_front, the gradient that reaches softmax.
        src: like grad, softmax's output. dst may be src.
        shared_tmp_buffer: temp of uint8_t; None takes the framework's (everything behind the queues).
        tiling: from soft_max_grad_tiling_func; recomputed here if its shape differs from shape_info.
        is_front: stop after the row sums.
        shape_info: shape in UB if it differs from tiling's; columns from ori_src_k on should take no part in the sum.
        data_format: ND or NZ, the member or its name.

    Raises:
        KernelError: another data_format.
    """
    call = Call(dst, grad, src, dst, tiling, 0, 0, is_front, _format(asc, data_format))
    call = _prepare(asc, call, shared_tmp_buffer, shape_info)
    with asc.trace(GRAD):
        _sequence(asc, GRAD, call)(asc, call)


def softmax_grad_front(
    asc: AiCore,
    dst: LocalTensor,
    grad: LocalTensor,
    src: LocalTensor,
    shared_tmp_buffer: LocalTensor | None,
    tiling: SoftMaxTiling,
    shape_info: SoftMaxShapeInfo | None = None,
    *,
    data_format: DataFormat | str = DataFormat.ND,
    is_basic_block: bool = False,
) -> None:
    """SoftmaxGradFront: dst[m, :] = rowsum(grad * src)[m], one datablock a row.

    Arguments as `softmax_grad`, and is_basic_block: rows and columns are whole basic blocks (src_m % 8 == 0, src_k % 64
    == 0, 256 bytes <= row < 2048 elements). It has no effect in NZ.
    """
    call = Call(dst, grad, src, dst, tiling, 0, 0, True, _format(asc, data_format), is_basic_block)
    call = _prepare(asc, call, shared_tmp_buffer, shape_info)
    with asc.trace(FRONT):
        _sequence(asc, FRONT, call)(asc, call)


def _sequence(asc: AiCore, api: str, call: Call) -> Sequence:
    """The instructions of a call, chosen by the kind of vector unit: one on memory, on registers, or with functions."""
    is_nz = call.data_format is DataFormat.NZ
    if asc.device.has("vector_function"):
        return softmax_grad_vector_function_nz if is_nz else softmax_grad_vector_function
    if asc.device.has("register_vector"):
        return softmax_grad_register
    if is_nz:
        return softmax_grad_nz
    if api == GRAD:
        return softmax_grad_nd
    return softmax_grad_front_basic_block if call.is_basic_block else softmax_grad_front_nd


def _format(asc: AiCore, data_format: DataFormat | str) -> DataFormat:
    try:
        return DataFormat(data_format)
    except ValueError:
        raise asc.fail(f'SoftmaxGrad: data_format must be "ND" or "NZ", got {data_format!r}') from None


def _prepare(
    asc: AiCore, call: Call, shared_tmp_buffer: LocalTensor | None, shape_info: SoftMaxShapeInfo | None
) -> Call:
    """Check the arguments; fill in the temp, the tiling to use, and the columns that are data."""
    tiling = call.tiling
    shape = shape_info or SoftMaxShapeInfo(tiling.src_m, tiling.src_k, tiling.src_m, tiling.src_k)
    tmp = asc.pop_stack_buffer("uint8_t") if shared_tmp_buffer is None else shared_tmp_buffer
    call = replace(call, tmp=tmp, ori_m=shape.ori_src_m, ori_k=shape.ori_src_k)
    check_arguments(asc, call, shape)
    call = replace(call, tmp=tmp.reinterpret_cast(FLOAT))
    if (shape.src_m, shape.src_k) != (tiling.src_m, tiling.src_k):
        call = replace(call, tiling=retile(asc, call, shape))
    need_tile(asc, call.tiling)
    check_surprises(asc, call)
    return call
