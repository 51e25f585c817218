"""Measured products against the model."""

from dataclasses import replace
from statistics import mean

import pytest
from fidelity_harness import error_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.fidelity.families import predict
from ascendsim.fidelity.measured import Uncovered, read_instructions
from ascendsim.fidelity.target import device_of

ROWS = tuple(r for r in read_instructions() if r.family == "mskpp_cube" and r.is_usable)


@pytest.mark.parametrize(("soc", "count"), [("Ascend910B1", 50), ("Ascend910B3", 97), ("Ascend910_95 (A5)", 44)])
def test_mean_errors(soc, count):
    rows = [r for r in ROWS if r.soc == soc]
    assert len(rows) == count
    assert mean(error_of(r) for r in rows) <= 0.01


@settings(max_examples=20, deadline=None, derandomize=True)
@given(m=st.integers(1, 200), k=st.integers(1, 200), n=st.integers(1, 200))
def test_cycles_of_a_product(m, k, n):
    """Steps of 16 x 16 x 16, and 2 streamed, 23 drained on arch 2201 and nothing streamed on 3510."""
    steps = -(-m // 16) * -(-k // 16) * -(-n // 16)
    for soc, head in (("Ascend910B1", 2), ("Ascend910B3", 23), ("Ascend910_95 (A5)", 0)):
        measured = replace(next(r for r in ROWS if r.soc == soc), mkn=(m, k, n))
        assert predict(measured, device_of(measured)) == head + steps


def test_what_mmad_does_not_have_is_uncovered():
    for change, text in (
        ({"mkn": None}, "it does not say m, k and n"),
        ({"dtype": "int4"}, "element type int4"),
    ):
        measured = replace(ROWS[0], **change)
        with pytest.raises(Uncovered) as caught:
            predict(measured, device_of(measured))
        assert str(caught.value) == text
