"""What to know of the data of a LaserAttentionGrad call: the range of the gradient, and values of the mask."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ascendsim.errors import Finding
from ascendsim.op_host.lag_rules import MASK_FORM, MASK_VALUES, MASK_VALUES_UNUSED, RANGE

Array = NDArray[Any]

LARGEST_GRADIENT: Final = 0.5
"""Values of attentionOutGrad lie within plus and minus this (LaserAttentionGradOperation page)."""


def gradient_range(gradient: Array) -> Iterator[Finding]:
    """Yield a finding if values of attentionOutGrad leave the page's range; NaN counts as outside."""
    wide = np.asarray(gradient).astype(np.float64)
    if wide.size and not (np.abs(wide) <= LARGEST_GRADIENT).all():
        got = f"{np.nanmin(wide):.4g} to {np.nanmax(wide):.4g}"
        wanted = f"[-{LARGEST_GRADIENT}, {LARGEST_GRADIENT}]"
        yield RANGE.finding("tensors.attention_out_grad", operand="attentionOutGrad", got=got, wanted=wanted)


def mask_values(mask: Array, *, vendor_quirks: bool) -> Iterator[Finding]:
    """Yield a finding if attenMask has other values than 0 and 1, of which the original kernel reads other numbers."""
    values = np.asarray(mask)
    others = int(np.count_nonzero((values != 0) & (values != 1)))
    if others:
        rule = MASK_VALUES if vendor_quirks else MASK_VALUES_UNUSED
        yield rule.finding("tensors.atten_mask", operand="attenMask", got=others, wanted="0 or 1")
    rows, columns = np.arange(values.shape[0])[:, None], np.arange(values.shape[1])
    apart = int(np.count_nonzero((values != 0) != (columns > rows)))
    if apart:
        yield MASK_FORM.finding("tensors.atten_mask", operand="attenMask", got=apart, wanted="128 x 128")
