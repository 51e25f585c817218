"""Every code: a program that triggers exactly it, and a legal neighbour in which nothing is found.

What is found is all that the command finds: of a kernel what recording, the rules and the advice say, of a run values
and timeline, too, of plans and temp sizes their own. A code of the catalogue without an entry fails.
"""

import codes_advice
import codes_atb
import codes_attention
import codes_buffers
import codes_cube
import codes_fag
import codes_instructions
import codes_lag
import codes_order
import codes_softmax
import pytest
from codes_harness import A310B, ENTRIES, checked

from ascendsim.catalogue import entries
from ascendsim.terms import HardEvent

PARTS = (
    *(codes_advice, codes_attention, codes_buffers, codes_cube, codes_fag, codes_instructions, codes_lag),
    *(codes_order, codes_softmax, codes_atb),
)
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


# ---- the inside of library calls is not their caller's to mend --------------------------------------------------


def test_barriers_that_a_library_leaves_to_the_compiler():
    """On arch 3002 it adds them; where it is told not to, the library does not work, which is the caller's matter."""
    kernel = codes_softmax.call()
    assert checked(kernel, soc=A310B) == ()
    assert {f.code for f in checked(kernel, soc=A310B, auto_sync=False)} == {"E-HAZARD-V"}


def test_a_call_with_wrong_arguments_hides_what_follows_from_them():
    """A destination that is too short: the library's rows reach behind it."""
    kernel = codes_softmax.call(dst=codes_softmax.tensor("dst", "half", 65536, 32))
    assert [f.code for f in checked(kernel)] == ["E-SMG-SHAPE"]


def test_a_wait_that_only_the_first_turn_of_a_loop_does_not_need():
    """The same wait in the second turn keeps the load behind the addition."""

    def kernel(asc, x, _):
        a, f = (codes_softmax.tensor(name, "float", at, 2048) for name, at in (("a", 0), ("f", 0x10000)))
        asc.set_flag(HardEvent.V_MTE2, 0)
        for i in range(2):
            asc.wait_flag(HardEvent.V_MTE2, 0)
            asc.data_copy(a, x[256 * i], 256)
            asc.set_flag(HardEvent.MTE2_V, 0)
            asc.wait_flag(HardEvent.MTE2_V, 0)
            asc.adds(f[256 * i], a, 1.0, 256)
            asc.set_flag(HardEvent.V_MTE2, 0)
        asc.wait_flag(HardEvent.V_MTE2, 0)

    assert checked(kernel) == ()
