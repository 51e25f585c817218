"""Tensors in GM of the FlashAttentionScoreGrad kernels."""

from dataclasses import dataclass

from ascendsim.memory import GlobalTensor

STATISTICS = 8
"""How often GM holds a row's statistic: one datablock."""


@dataclass(frozen=True, slots=True)
class Tensors:
    """The kernel's tensors; those that a call may leave out are None.

    padding_mask and softmax_in are never read, dpse is never written.
    """

    query: GlobalTensor
    key: GlobalTensor
    value: GlobalTensor
    dy: GlobalTensor
    softmax_max: GlobalTensor
    softmax_sum: GlobalTensor
    attention_in: GlobalTensor
    dq: GlobalTensor
    dk: GlobalTensor
    dv: GlobalTensor
    workspace: GlobalTensor
    atten_mask: GlobalTensor | None = None
    pse_shift: GlobalTensor | None = None
    drop_mask: GlobalTensor | None = None
    padding_mask: GlobalTensor | None = None
    softmax_in: GlobalTensor | None = None
    dpse: GlobalTensor | None = None
