"""Which rows of a long run are kept, and how a window is written."""

import numpy as np
import pytest

from ascendsim import window
from ascendsim.device import load_device
from ascendsim.errors import InputError
from ascendsim.memory import LocalTensor
from ascendsim.record import record, tile
from ascendsim.terms import TPosition
from ascendsim.window import parse_window, rows_to_keep

X = LocalTensor("x", TPosition.VECCALC, "float", 0, 1024)
DEVICE = load_device("Ascend910B1")


def _program(calls, cores=2):
    """Tiles of one row each, a few on the first core and twice as many on the second."""

    @tile
    def one(asc):
        asc.set_mask_norm()

    def kernel(asc):
        for _ in range(calls * (1 + asc.get_block_idx())):
            one(asc)

    return record(kernel, DEVICE, cores, (), ()).program


def test_a_short_run_is_kept_whole():
    program = _program(4)
    assert len(program) == 12
    assert rows_to_keep(program, whole_rows=12) is None
    assert rows_to_keep(program, [(0, 5)], whole_rows=12) is None


def test_of_a_long_run_the_first_and_last_calls_of_every_core_are_kept(monkeypatch):
    monkeypatch.setattr(window, "EDGE_ROWS", 6)
    keep = rows_to_keep(_program(10), [(5, 9)], whole_rows=11)
    assert keep.windows == ((5, 9),)
    kept = np.flatnonzero(keep.calls).tolist()
    assert kept == [0, 1, 2, 7, 8, 9, 10, 11, 12, 27, 28, 29]


def test_at_least_one_call_is_kept_at_either_end(monkeypatch):
    monkeypatch.setattr(window, "EDGE_ROWS", 1)
    keep = rows_to_keep(_program(10), whole_rows=11)
    assert np.flatnonzero(keep.calls).tolist() == [0, 9, 10, 29]


def test_a_core_without_calls_keeps_none():
    def kernel(asc):
        if asc.get_block_idx():
            asc.set_mask_norm()

    keep = rows_to_keep(record(kernel, DEVICE, 3, (), ()).program, whole_rows=1)
    assert keep.calls.tolist() == [True, True]


@pytest.mark.parametrize(
    ("text", "cycles"),
    [("1000:2000", (1000, 2000)), ("0:1", (0, 1)), ("2us:3.5us", (3700, 6475)), (" 1us : 4000 ", (1850, 4000))],
)
def test_a_window_is_in_cycles_or_in_microseconds(text, cycles):
    assert parse_window(text, 1850) == cycles


@pytest.mark.parametrize(
    "text", ["", "5", "a:b", "1:2:3", "-5:3", "1.5:2", "1us", "us:us", ":", "nanus:2us", "infus:2us"]
)
def test_what_is_no_window_is_refused(text):
    want = f"--trace-window {text}: want FIRST:LAST in cycles or us, such as 1000:2000 or 2us:3.5us"
    with pytest.raises(InputError) as error:
        parse_window(text, 1850)
    assert str(error.value) == want


@pytest.mark.parametrize("text", ["7:7", "8:7", "2us:1000"])
def test_a_window_ends_after_it_begins(text):
    with pytest.raises(InputError) as error:
        parse_window(text, 1850)
    assert str(error.value).startswith(f"--trace-window {text}: the end must come after the begin; in cycles it is ")
