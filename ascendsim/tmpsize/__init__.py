"""How big a softmax API's temp must and may be, what fits beside what else is in UB, and what each size costs."""

from ascendsim.tmpsize.answer import TmpChoice, TmpSize, softmax_grad_tmp_size, tmp_size
from ascendsim.tmpsize.curve import Curve, Point, tmp_curve
from ascendsim.tmpsize.cycles import predicted_cycles

__all__ = [
    "Curve",
    "Point",
    "TmpChoice",
    "TmpSize",
    "predicted_cycles",
    "softmax_grad_tmp_size",
    "tmp_curve",
    "tmp_size",
]
