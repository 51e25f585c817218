"""Measured kernels rebuilt from instructions: `predict` says what the model makes of one."""

from ascendsim.errors import AscendSimError
from ascendsim.fidelity.kernels.add import predict_add
from ascendsim.fidelity.kernels.attention import CATEGORY, predict_attention
from ascendsim.fidelity.kernels.copies import predict_copy
from ascendsim.fidelity.kernels.matmul import MATMULS, predict_matmul
from ascendsim.fidelity.kernels.nd2nz import predict_nd2nz
from ascendsim.fidelity.kernels.predicted import Prediction
from ascendsim.fidelity.measured import MeasuredKernel, Uncovered
from ascendsim.fidelity.target import device_of

__all__ = ["Prediction", "predict"]

_BY_OP = {"Add": predict_add, "GM_TO_UB": predict_copy, "GM_TO_L1": predict_copy, "ND->NZ through UB": predict_nd2nz}
_SOURCES = ("add_high_performance", "data_copy", "bank_conflict_nd2nz")
"""Examples whose schedule is known; other measurements of the same operations had another kernel."""


def predict(row: MeasuredKernel) -> Prediction:
    """Return the model's time of a measured kernel.

    Raises:
        Uncovered: its schedule is not stated or cannot be rebuilt from the instructions that there are.
    """
    try:
        return _rebuilt(row)
    except AscendSimError as error:
        raise Uncovered(str(error)) from None


def _rebuilt(row: MeasuredKernel) -> Prediction:
    if row.category == CATEGORY:
        return predict_attention(row, device_of(row))
    if row.op in MATMULS:
        return predict_matmul(row, device_of(row))
    if row.op not in _BY_OP or not any(f"/{source}/" in row.source for source in _SOURCES):
        raise Uncovered(f"no schedule of {row.op!r} is known")
    return _BY_OP[row.op](row, device_of(row))
