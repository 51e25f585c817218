"""Kernels: ordinary Python that reads like the AscendC it mirrors. No cycle number, no device name, no NumPy."""

from ascendsim.op_kernel.softmax_grad import SoftMaxShapeInfo, softmax_grad, softmax_grad_front

__all__ = ["SoftMaxShapeInfo", "softmax_grad", "softmax_grad_front"]
