"""How big a softmax API's temp must and may be, what fits beside what else is in UB, and what each size costs."""

from ascendsim.tmpsize.answer import TmpChoice, TmpSize, softmax_grad_tmp_size, tmp_size
from ascendsim.tmpsize.cycles import predicted_cycles

__all__ = ["TmpChoice", "TmpSize", "predicted_cycles", "softmax_grad_tmp_size", "tmp_size"]
