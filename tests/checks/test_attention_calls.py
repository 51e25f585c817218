"""Legal calls of SimpleSoftMax, SelectWithBytesMask and DropOut: nothing is found in them, their insides included.

What they need is filled before, what they may use as they like (their temp, the destination) is not.
"""

import codes_attention as calls
import pytest
from codes_harness import A310P, B2, checked

from ascendsim.op_kernel import DropOutMode

GAPS = calls.WIDE_MASK
LEGAL = {
    "softmax": calls.softmax(),
    "softmax, blocks": calls.softmax(is_basic_block=True),
    "softmax in place": calls.softmax(dst=calls.SRC),
    "mask": calls.bytes_mask(),
    "mask, inverted": calls.bytes_mask(is_inverted=True),
    "mask in place": calls.bytes_mask(dst=calls.SRC),
    "mask with gaps": calls.bytes_mask(GAPS, 96),
    "bytes": calls.dropped(mode=DropOutMode.BYTE_ALIGN),
    "bytes in place": calls.dropped(dst=calls.SRC),
    "bytes with gaps": calls.dropped(GAPS, 96),
    "bits": calls.dropped(width=8),
    "bits in place": calls.dropped(width=8, dst=calls.SRC),
    "bits with gaps": calls.dropped(width=32, mode=DropOutMode.BIT_MISALIGN),
}


@pytest.mark.parametrize("soc", [B2, A310P])
@pytest.mark.parametrize("name", LEGAL)
def test_nothing_is_found(name, soc):
    assert [f.code for f in checked(LEGAL[name], soc=soc)] == []


@pytest.mark.parametrize("name", LEGAL)
def test_the_barriers_inside_are_enough(name):
    """Where the compiler adds none."""
    assert [f.code for f in checked(LEGAL[name], auto_sync=False)] == []


@pytest.mark.parametrize("call", [calls.bytes_mask, calls.dropped])
def test_the_mask_must_have_been_written(call):
    """The mask lies behind what is filled."""
    mask = calls.local("mask", "uint8_t", 0x20000, 512)
    found = checked(call(mask))
    assert {(f.code, f.operand) for f in found} == {("W-MEM-UNINIT", "src0")}
