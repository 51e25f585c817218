"""Advice on Mmad: how much of the fractals that it multiplies is matrix."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from ascendsim.checks.sums import Notes, Words, place_of
from ascendsim.errors import Finding, Rule
from ascendsim.isa.mmad import fractals
from ascendsim.layout import c0_elements
from ascendsim.library import is_library
from ascendsim.program import Program
from ascendsim.terms import CUBE_SIDE

CUBE_UTIL = Rule(
    "W-CUBE-UTIL",
    "{api} uses {got} % of the Cube unit: m {m}, n {n}, k {k} are filled up to fractals of 16 x 16 x {depth}",
    "choose tiles whose m and n are multiples of 16 and whose k is one of {depth}",
    "asc-devkit docs, Cube theory table",
    condition="Of the products that the Mmads of one kernel line take time for, less than 3/4 belong to the matrices.",
)
RULES = (CUBE_UTIL,)
LEAST_SHARE = 0.75
"""Share of useful products below which a line is told; ours: tails of large products stay above it."""


def cube_advice(program: Program) -> Iterator[Finding]:
    """W-CUBE-UTIL of every line with a Mmad."""
    calls = np.bincount(program.calls["template"], minlength=len(program.templates)).tolist()
    notes = Notes()
    for template, times in zip(program.templates, calls, strict=True):
        for row in template.rows:
            steps = fractals(row) if row.op.family == "Mmad" and not is_library(program.lines[row.line]) else 0
            if steps == 0:
                continue
            assert row.src0 is not None
            m, n, k = (row.param(name) for name in ("m", "n", "k"))
            depth = c0_elements(row.src0.dtype.bytes)
            fill: dict[str, object] = {"api": row.op.api, "m": m, "n": n, "k": k, "depth": depth}
            made = partial(Words, "", "75 %", "", fill)
            notes.add(
                CUBE_UTIL, place_of(program, row), "dst", times, made, useful=m * n * k,
                whole=steps * CUBE_SIDE * CUBE_SIDE * depth,
            )  # fmt: skip
    for noted in notes.places.values():
        share = noted.sums["useful"] / noted.sums["whole"] if noted.sums["whole"] else 1.0
        if share < LEAST_SHARE:
            fill = noted.words.fill
            hint = CUBE_UTIL.hint.format(**fill)
            yield CUBE_UTIL.finding(
                noted.where, operand="dst", got=round(100 * share), wanted=noted.words.wanted, hint=hint, fill=fill
            )
