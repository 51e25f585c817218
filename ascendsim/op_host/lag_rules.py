"""What is told of a LaserAttentionGrad call that is not refused, as rules.

`vendor_quirks` turns on what the original kernel does against its own intent; off, the findings say what it would do.

Source: ascend-transformer-boost, laser_attention_grad, as read; nothing of it was measured on a device.
"""

from typing import Final

from ascendsim.errors import Rule
from ascendsim.op_host.atb import ATB_ARCHS

_TILING: Final = "ascend-transformer-boost, laser_attention_grad host tiling"
_KERNEL: Final = "ascend-transformer-boost, laser_attention_grad kernel"
_PAGE: Final = "LaserAttentionGradOperation page"

IGNORED = Rule(
    "I-LAG-IGNORED",
    "{operand} = {got}: the operator does not read it",
    "leave it at {wanted}",
    f"{_PAGE}: the parameter is not used",
    condition="A parameter of LaserAttentionGrad that the operator does not read is not at its default.",
    archs=ATB_ARCHS,
)
WRAP = Rule(
    "E-LAG-WRAP",
    "the float sums of {operand} need {got} B; the tiling counts them in 32 bits, as {wanted} B: sums overlap what "
    "follows, are not all cleared, and not all become gradients",
    "give fewer batches, heads or keys to one call",
    _TILING,
    condition="The bytes of a gradient's float sums in LaserAttentionGrad do not fit 32 bits.",
    archs=ATB_ARCHS,
)
RANGE = Rule(
    "W-LAG-RANGE",
    "attentionOutGrad has values from {got}: outside {wanted}",
    "scale the gradient into the range",
    f"{_PAGE}: range of attentionOutGrad",
    condition="Values of attentionOutGrad leave the range that the page of LaserAttentionGrad gives.",
    archs=ATB_ARCHS,
)
MASK_BITS = Rule(
    "W-LAG-MASKBITS",
    "attenMask is float16, the kernel takes its bits for bfloat16: 1.0 is read as 2^-7. With a window, 1 - mask hides "
    "all keys of the blocks at its left edge, not those outside alone",
    "run with vendor_quirks off for the page's meaning",
    f"{_KERNEL}: type of the mask",
    condition="LaserAttentionGrad reads the bits of its float16 mask as bfloat16 where that changes the result.",
    archs=ATB_ARCHS,
)
MASK_BITS_UNUSED = MASK_BITS.saying(
    "attenMask is float16, the original kernel takes its bits for bfloat16, in which 1.0 is 2^-7: with a window, its "
    "1 - mask hides all keys of the blocks at the left edge; here the mask is read as float16",
    "turn vendor_quirks on to see what the original does",
    level="I",
)
MASK_VALUES = MASK_BITS.saying(
    "attenMask has {got} elements other than 0 and 1: bits of float16 that are read as bfloat16 are other numbers, and "
    "some of them do not hide",
    "use 0 and 1",
)
MASK_VALUES_UNUSED = MASK_VALUES.saying(
    "attenMask has {got} elements other than 0 and 1, which the original kernel reads as other numbers (bits of "
    "float16 as bfloat16); here they are read as float16",
    "use 0 and 1",
    level="I",
)
MASK_FORM = Rule(
    "W-LAG-MASKFORM",
    "attenMask differs in {got} elements from 1 above the diagonal and 0 elsewhere: the kernel skips blocks above the "
    "diagonal, takes the mask's first {wanted} for every block on it, and hides nothing else but what lies before the "
    "window",
    "pass 1 - lower triangle",
    f"{_KERNEL}: address mapping and offsets of the mask; {_PAGE}: lower triangle",
    condition="The mask of LaserAttentionGrad is not the triangle that its kernel takes it for.",
    archs=ATB_ARCHS,
)
POST = Rule(
    "W-LAG-POST",
    "the pass behind the kernel deals dQ by a wrong field: all {cores} AIVs take {got} elements, {wanted} more than dQ "
    "has, and the last write behind its end",
    "run with vendor_quirks off, or give lengths with which dQ divides evenly",
    f"{_KERNEL}: loading of the tiling; what it writes to is inferred",
    condition="LaserAttentionGrad's pass behind the kernel writes more elements of dQ than there are.",
    archs=ATB_ARCHS,
)
POST_UNUSED = POST.saying(
    "the original kernel deals dQ by a wrong field: all {cores} AIVs take {got} elements, {wanted} more than dQ has, "
    "and the last write behind its end; here dQ is dealt as the tiling says",
    "turn vendor_quirks on to see what the original does",
    level="I",
)
CORES = Rule(
    "W-LAG-CORES",
    "the chip reports {got} AICs, {wanted} blocks are launched: the pass behind the kernel deals gradients to {aivs} "
    "AIVs, of which {launched} run, so the share of the others is never written",
    "use a part with as many AICs as blocks",
    f"{_TILING}: block count; the missing share is inferred",
    condition="LaserAttentionGrad launches fewer blocks than AICs, and deals its gradients to AIVs that do not run.",
    archs=ATB_ARCHS,
)
