"""The table of all codes, part 7: calls of LaserAttentionGrad."""

import numpy as np
from codes_harness import B2, entry

from ascendsim.device import Platform
from ascendsim.lag import LaserAttentionGradParam, gradient_range, mask_values, setup
from ascendsim.lag_request import call_shapes

SCALE = "scale the gradient into the range"
COMPARE = "run with vendor_quirks off for the page's meaning"
EVEN = "run with vendor_quirks off, or give lengths with which dQ divides evenly"
TRIANGLE = 1 - np.tri(256)


def told(length=1536, heads=3, kv_heads=None, soc=B2, quirks=True, batch=1, **params):
    """What is told of a call; ordinarily its sums of dQ divide evenly by 48 AIVs."""
    shapes = call_shapes("BNSD", (batch, heads, kv_heads or heads), (length, length), 128, has_mask=True)
    given = {"headNum": heads, "preTokens": length} | params
    return setup(LaserAttentionGradParam(**given), shapes, soc, vendor_quirks=quirks).findings


entry(
    "I-LAG-IGNORED",
    lambda: told(nextTokens=3),
    told,
    ("nextTokens = 3: the operator does not read it", "leave it at 1"),
)
entry(
    "E-LAG-WRAP",
    lambda: told(batch=3, heads=96, kv_heads=1, length=32768),
    lambda: told(batch=1, heads=96, kv_heads=1, length=32768),
    (
        (
            "the float sums of dQ need 4831838208 B; the tiling counts them in 32 bits, as 536870912 B: sums overlap "
            "what follows, are not all cleared, and not all become gradients"
        ),
        "give fewer batches, heads or keys to one call",
    ),
    beside=("W-LAG-POST",),
)
entry(
    "W-LAG-MASKBITS",
    lambda: told(preTokens=1024),
    told,
    (
        (
            "attenMask is float16, the kernel takes its bits for bfloat16: 1.0 is read as 2^-7. With a window, 1 - "
            "mask hides all keys of the blocks at its left edge, not those outside alone"
        ),
        COMPARE,
    ),
    severity="W",
)
entry(
    "W-LAG-POST",
    lambda: told(heads=1, length=1024),
    lambda: told(heads=3, length=1024),
    (
        (
            "the pass behind the kernel deals dQ by a wrong field: all 48 AIVs take 2731 elements, 16 more than dQ "
            "has, and the last write behind its end"
        ),
        EVEN,
    ),
    severity="W",
)
entry(
    "W-LAG-CORES",
    lambda: told(heads=75, soc=Platform(25, 50)),
    lambda: told(heads=75, soc=Platform(24, 48)),
    (
        (
            "the chip reports 25 AICs, 24 blocks are launched: the pass behind the kernel deals gradients to 50 "
            "AIVs, of which 48 run, so the share of the others is never written"
        ),
        "use a part with as many AICs as blocks",
    ),
)
entry(
    "W-LAG-RANGE",
    lambda: tuple(gradient_range(np.array([0.25, -0.625]))),
    lambda: tuple(gradient_range(np.array([0.25, -0.5]))),
    ("attentionOutGrad has values from -0.625 to 0.25: outside [-0.5, 0.5]", SCALE),
)
entry(
    "W-LAG-MASKFORM",
    lambda: tuple(mask_values(1 - np.tri(256, k=1), vendor_quirks=False)),
    lambda: tuple(mask_values(TRIANGLE, vendor_quirks=False)),
    (
        (
            "attenMask differs in 255 elements from 1 above the diagonal and 0 elsewhere: the kernel skips blocks "
            "above the diagonal, takes the mask's first 128 x 128 for every block on it, and hides nothing else but "
            "what lies before the window"
        ),
        "pass 1 - lower triangle",
    ),
)
