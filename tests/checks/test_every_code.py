"""Every code: a program that triggers exactly it, and a legal neighbour in which nothing is found.

What is found is all that the command finds: of a kernel what recording, the rules and the advice say, of a run values
and timeline, too, of plans and temp sizes their own. A code of the catalogue without an entry fails.
"""

import codes_advice
import codes_buffers
import codes_instructions
import codes_order
import codes_softmax
import pytest
from codes_harness import ENTRIES

from ascendsim.catalogue import entries

PARTS = (codes_advice, codes_buffers, codes_instructions, codes_order, codes_softmax)
"""Modules that fill the table."""


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.code)
def test_exactly_this_code(entry):
    found = entry.trigger()
    assert {f.code for f in found} == {entry.code, *entry.beside}, [str(f) for f in found]
    if entry.severity:
        assert {f.severity.value for f in found if f.code == entry.code} == {entry.severity}
    if entry.texts:
        assert [(f.message, f.hint) for f in found if f.code == entry.code] == list(entry.texts)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.code)
def test_nothing_in_the_neighbour(entry):
    assert [str(f) for f in entry.neighbour()] == []


def test_every_code_has_an_entry():
    assert {entry.code for entry in ENTRIES} == set(entries())
