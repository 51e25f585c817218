"""Kernels: ordinary Python that reads like the AscendC it mirrors. No cycle number, no device name, no NumPy."""

from ascendsim.op_kernel.drop_out import DropOutMode, DropOutShapeInfo, drop_out, drop_out_bit_mode_init
from ascendsim.op_kernel.select_with_bytes_mask import SelectWithBytesMaskShapeInfo, select_with_bytes_mask
from ascendsim.op_kernel.simple_softmax import simple_softmax
from ascendsim.op_kernel.softmax_grad import SoftMaxShapeInfo, softmax_grad, softmax_grad_front

__all__ = [
    "DropOutMode",
    "DropOutShapeInfo",
    "SelectWithBytesMaskShapeInfo",
    "SoftMaxShapeInfo",
    "drop_out",
    "drop_out_bit_mode_init",
    "select_with_bytes_mask",
    "simple_softmax",
    "softmax_grad",
    "softmax_grad_front",
]
