"""The unit flag: one bit for each 512 B of L0C, with which Mmad and Fixpipe wait for each other.

The first Mmads of a sum keep the bit (2), the last sets it (3), and Fixpipe, which waits for it, clears it (3). What
each half fractal is in is followed through the templates of each core, each template once for each state.
Source: asc-devkit docs, unit flag page.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks.accesses import Accesses, Act, Step
from ascendsim.checks.sites import Hazard, Sites
from ascendsim.errors import Finding, Rule
from ascendsim.isa.instruction import Row
from ascendsim.isa.mmad import MMAD_FLAG
from ascendsim.isa.unit_flag import HAND_OVER, KEEP, UNIT_BYTES, is_mmad, unit_flag_of
from ascendsim.program import Template
from ascendsim.terms import Buffer, ceil_div

Units = NDArray[np.int8]
Ints = NDArray[Any]

NOT_SET = MMAD_FLAG.saying(
    "{api} with unit_flag 3 waits for ever: the last Mmad of {got} B of {tensor} had unit_flag {wanted}",
    "give the last Mmad of a result unit_flag 3, and 0 to Fixpipe where Mmad has none",
)
NOT_USED = MMAD_FLAG.saying(
    "{api} without the unit flag fetches {got} B of {tensor} of which Mmad had unit_flag {wanted}: the bit stays up, "
    "and the next Mmad waits for ever",
    "give Fixpipe unit_flag 3, too",
)
NOT_FETCHED = MMAD_FLAG.saying(
    "{api} with unit_flag {wanted} waits for ever: {got} B of {tensor}, which an earlier Mmad has handed over, are not "
    "fetched by a Fixpipe with unit_flag 3",
    "fetch all that the Mmads made",
)


class _Unit(IntEnum):
    """What the last Mmad of some bytes left; Fixpipe takes HANDED back to PLAIN."""

    PLAIN = 0
    KEPT = KEEP
    HANDED = HAND_OVER


def check_unit_flags(accesses: Accesses, sequences: list[list[int]]) -> Iterator[Hazard]:
    """Yield where the unit flags of Mmad and Fixpipe do not fit each other, once for each row."""
    program = accesses.program
    if not any(_has_unit_flags(template) for template in program.templates):
        return
    walk = _Walk(accesses)
    for templates in sequences:
        state = walk.start
        for template in templates:
            state = walk.after(state, template)
    yield from walk.found.values()


def _has_unit_flags(template: Template) -> bool:
    return template.kept("has unit flags", None, lambda: any(unit_flag_of(row) for row in template.rows))


class _Walk:
    """L0C through templates."""

    def __init__(self, accesses: Accesses) -> None:
        self._accesses = accesses
        self._sites = Sites(accesses.program)
        self._states: list[Units] = []
        self._numbers: dict[bytes, int] = {}
        self._known: dict[tuple[int, int], int] = {}
        self.found: dict[tuple[int, int], Hazard] = {}
        self.start = self._number(np.zeros(ceil_div(accesses.places.length_bytes, UNIT_BYTES), np.int8))

    def after(self, state: int, template: int) -> int:
        """Return the state behind a template."""
        key = (state, template)
        if key not in self._known:
            units = self._states[state].copy()
            for step in self._accesses.steps[template]:
                if step.act is Act.TOUCH:
                    self._take(template, step, units)
            self._known[key] = self._number(units)
        return self._known[key]

    def _take(self, template: int, step: Step, units: Units) -> None:
        row = self._accesses.program.templates[template].rows[step.at]
        if "unit_flag" not in row.op.params:
            return
        makes = is_mmad(row)
        for number in step.accesses:
            access = self._accesses.all[number]
            if access.writes != makes or self._accesses.memory(access)[0] is not Buffer.L0C:
                continue
            at = self._units_of(number)
            finding = self._of_mmad(row, units, at) if makes else self._of_fixpipe(row, units, at)
            if finding is not None:
                rule, count, wanted = finding
                fill = {"api": row.op.api, "tensor": access.tensor}
                where = self._sites.line((template, step.at))
                told = rule.finding(where, operand="unit_flag", got=count * UNIT_BYTES, wanted=wanted, fill=fill)
                self._add((template, step.at), told)
            if makes:
                units[at] = unit_flag_of(row)
            else:
                units[at] = _Unit.PLAIN

    def _of_mmad(self, row: Row, units: Units, at: Ints) -> tuple[Rule, int, int] | None:
        left = int((units[at] == _Unit.HANDED).sum())
        return (NOT_FETCHED, left, unit_flag_of(row)) if unit_flag_of(row) and left else None

    def _of_fixpipe(self, row: Row, units: Units, at: Ints) -> tuple[Rule, int, int] | None:
        if unit_flag_of(row):
            wrong = units[at][units[at] != _Unit.HANDED]
            return (NOT_SET, wrong.size, int(wrong[0])) if wrong.size else None
        wrong = units[at][units[at] != _Unit.PLAIN]
        return (NOT_USED, wrong.size, int(wrong[0])) if wrong.size else None

    def _units_of(self, number: int) -> Ints:
        touched = self._accesses.bytes_of(number)
        if isinstance(touched, slice):
            return np.arange(touched.start // UNIT_BYTES, ceil_div(touched.stop, UNIT_BYTES))
        return np.unique(touched // UNIT_BYTES)

    def _add(self, site: tuple[int, int], finding: Finding) -> None:
        self.found.setdefault(site, self._sites.hazard(finding, site))

    def _number(self, units: Units) -> int:
        number = self._numbers.setdefault(units.tobytes(), len(self._states))
        if number == len(self._states):
            self._states.append(units)
        return number
