"""A search for a tiling: which of the scenario's fields, set to what, make it fastest or smallest."""

from ascendsim.tuner.entry import tune
from ascendsim.tuner.result import TuneResult

__all__ = ["TuneResult", "tune"]
