"""How big a softmax API's temp must and may be, what fits beside what else is in UB, and what each size costs."""

from ascendsim.tmpsize.cycles import predicted_cycles

__all__ = ["predicted_cycles"]
