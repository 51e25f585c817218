"""Errors of a predicting module over the shipped measurements."""

from ascendsim.fidelity.measured import Uncovered, read_instructions
from ascendsim.fidelity.target import device_of


def shipped(*families, usable=True):
    """The measurements of arch 2201 of these families."""
    return [r for r in read_instructions() if r.arch == 2201 and r.family in families and r.is_usable is usable]


def errors(predict, rows, device=None):
    """Relative error of each row that can be rebuilt."""
    found = {}
    for row in rows:
        try:
            cycles = predict(row, device or device_of(row))
        except Uncovered:
            continue
        found[row] = abs(cycles - row.cycles) / row.cycles
    return found


def mean(values):
    values = list(values)
    return sum(values) / len(values)
