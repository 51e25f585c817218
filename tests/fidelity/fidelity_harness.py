"""Predictions of the shipped measurements, each made once, and their errors."""

from functools import cache

from ascendsim.fidelity.families import predict
from ascendsim.fidelity.kernels import predict as predict_kernel
from ascendsim.fidelity.measured import Uncovered, read_instructions
from ascendsim.fidelity.target import device_of


def shipped(*families, usable=True):
    """The measurements of arch 2201 of these families."""
    return [r for r in read_instructions() if r.arch == 2201 and r.family in families and r.is_usable is usable]


@cache
def _answer(row):
    try:
        return predict(row, device_of(row))
    except Uncovered as reason:
        return reason


def cycles_of(row):
    """What the model says of a row on its own device; raises Uncovered."""
    answer = _answer(row)
    if isinstance(answer, Uncovered):
        raise Uncovered(str(answer))
    return answer


_kernels = {}


def kernel_of(row):
    """What the model says of a kernel; raises Uncovered."""
    if row.id not in _kernels:
        _kernels[row.id] = predict_kernel(row)
    return _kernels[row.id]


def error_of(row):
    """Relative error of a row; raises Uncovered."""
    return abs(cycles_of(row) - row.cycles) / row.cycles


def errors(rows, device=None):
    """Relative error of each row that can be rebuilt, on its own device or on another."""
    found = {}
    for row in rows:
        try:
            cycles = cycles_of(row) if device is None else predict(row, device)
        except Uncovered:
            continue
        found[row] = abs(cycles - row.cycles) / row.cycles
    return found


def mean(values):
    values = list(values)
    return sum(values) / len(values)
