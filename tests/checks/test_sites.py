"""Kernel lines in texts."""

import pytest

from ascendsim.checks.sites import names_line


@pytest.mark.parametrize("text", ["Add (k.py:12)", "k.py:12, in softmax_grad.py:127", "DataCopy (k.py:12) core 3"])
def test_a_text_names_its_line_and_no_other(text):
    assert names_line(text, "k.py:12")
    assert not names_line(text, "k.py:1")
    assert not names_line(text, "y.py:12")
    assert not names_line(text.replace("k.py", "ask.py"), "k.py:12")
